/*
 * placeholder.c - the placeholder that one sandbox has for one credential
 *
 * Its look comes from the shape in the configuration, else from the prefix of the real value, else
 * from the configured prefix and alphabet.
 */
#include <keyhole/credential/credential.h>

#include <stdlib.h>

struct look {
	enum kh_shape shape;
};

static bool look(struct kh_slice value, void *arg)
{
	((struct look *)arg)->shape = kh_shape_of(value);
	return true;
}

void kh_placeholder_see(struct kh_placeholder *placeholder, const struct kh_secret *value)
{
	struct look seen = { KH_SHAPE_GENERIC };

	if (!value || !kh_secret_expose(value, look, &seen))
		return;
	placeholder->seen = seen.shape;
	placeholder->seen_len = (uint32_t)kh_secret_len(value);
}

void kh_placeholder_spec_of(struct kh_placeholder_spec *out,
			    const struct kh_credential_config *credential)
{
	const struct kh_placeholder *placeholder = &credential->placeholder;

	*out = (struct kh_placeholder_spec){
		.shape = placeholder->shape != KH_SHAPE_NONE  ? placeholder->shape
			 : placeholder->seen != KH_SHAPE_NONE ? placeholder->seen
							      : KH_SHAPE_GENERIC,
		.prefix = credential->placeholder_prefix,
		.alphabet = credential->placeholder_alphabet,
		.length = placeholder->seen_len,
	};
	/* The length says nothing where the value is of another shape. */
	if (out->shape != KH_SHAPE_GENERIC && out->shape != placeholder->seen)
		out->length = 0;
}

char *kh_placeholder_for(const struct kh_config *config,
			 const struct kh_credential_config *credential, const char *tenant,
			 const char *sandbox, struct kh_err *err)
{
	const struct kh_placeholder_owner owner = { tenant, sandbox, credential->name };
	struct kh_placeholder_spec spec;

	kh_placeholder_spec_of(&spec, credential);
	return kh_placeholder_make(&config->placeholder_keys[0], &spec, &owner, err);
}

/* ---- a sandbox's environment ---- */

struct each {
	const struct kh_config *config;
	const char *tenant;
	const char *sandbox;
	bool (*fn)(const char *variable, const char *value, void *arg);
	void *arg;
	struct kh_err *err;
};

static bool give(const struct each *each, const struct kh_credential_config *credential,
		 enum kh_shape shape, const char *variable)
{
	const struct kh_placeholder_owner owner = { each->tenant, each->sandbox, credential->name };
	struct kh_placeholder_spec spec;

	kh_placeholder_spec_of(&spec, credential);
	if (shape != KH_SHAPE_NONE)
		spec = (struct kh_placeholder_spec){ .shape = shape };
	char *value =
		kh_placeholder_make(&each->config->placeholder_keys[0], &spec, &owner, each->err);
	bool ok = value && each->fn(variable, value, each->arg);
	free(value);
	return ok;
}

static bool give_all(const struct each *each, const struct kh_credential_config *credential)
{
	if (credential->placement && credential->placement->kind == KH_PLACEMENT_SIGV4)
		return give(each, credential, KH_SHAPE_AWS_KEY_ID, "AWS_ACCESS_KEY_ID") &&
		       give(each, credential, KH_SHAPE_AWS_SECRET, "AWS_SECRET_ACCESS_KEY");
	return !credential->env_name || give(each, credential, KH_SHAPE_NONE, credential->env_name);
}

/* Those that the rule would put in for this tenant: of `credential` the first with a value, of
 * `credentials` all. */
static void mark_used(const struct kh_config *config, uint16_t tenant, const struct kh_rule *rule,
		      bool *used)
{
	for (size_t i = 0; i < rule->n_credentials; i++) {
		if (!kh_credential_is_present(&config->credentials[rule->credentials[i]], tenant))
			continue;
		used[rule->credentials[i]] = true;
		if (!rule->all_credentials)
			return;
	}
}

static bool is_first_of_its_variable(const struct kh_config *config, const bool *used, size_t index)
{
	const char *name = config->credentials[index].env_name;

	for (size_t i = 0; name && i < index; i++)
		if (used[i] && config->credentials[i].env_name &&
		    strcmp(config->credentials[i].env_name, name) == 0)
			return false;
	return true;
}

bool kh_placeholders_each(const struct kh_config *config, uint16_t tenant, const char *sandbox,
			  bool (*fn)(const char *variable, const char *value, void *arg), void *arg,
			  struct kh_err *err)
{
	const struct each each = { config, config->tenants[tenant].name, sandbox, fn, arg, err };
	const struct kh_rules *rules = &config->tenants[tenant].rules;
	bool *used = calloc(config->n_credentials + 1, sizeof(*used));
	bool ok = true;

	if (!used)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "placeholders: no memory");
	for (size_t r = 0; r < rules->count; r++)
		mark_used(config, tenant, &rules->list[r], used);
	for (size_t i = 0; ok && i < config->n_credentials; i++)
		if (used[i] && is_first_of_its_variable(config, used, i))
			ok = give_all(&each, &config->credentials[i]);
	free(used);
	return ok;
}

bool kh_placeholder_may_have_digits(const struct kh_config *config)
{
	for (size_t i = 0; i < config->n_credentials; i++) {
		const char *alphabet = config->credentials[i].placeholder_alphabet;
		size_t capitals = 0;
		for (size_t c = 0; alphabet && alphabet[c]; c++)
			capitals += alphabet[c] >= 'A' && alphabet[c] <= 'Z';
		if (alphabet && capitals < 26)
			return true;
	}
	return false;
}
