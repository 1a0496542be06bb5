/* explain_credentials.c - which credentials a request would get, where, and their bindings */
#include "explain_credentials.h"

enum { WORDS_BYTES = 64 * 1024 };

static json_t *words_of(const struct kh_credential_config *credential,
			bool (*words)(struct kh_buf *, const struct kh_credential_config *))
{
	struct kh_buf text;
	kh_buf_init(&text, WORDS_BYTES);
	json_t *made = words(&text, credential) ? json_string(kh_buf_cstr(&text)) : json_null();
	kh_buf_fini(&text);
	return made;
}

void kh_explain_fault(const struct kh_outcome *outcome, json_t *out)
{
	(void)json_object_set_new(out, "credential", json_string(outcome->credential->name));
	(void)json_object_set_new(out, "binding",
				  words_of(outcome->credential, kh_credential_put_binding));
	(void)json_object_set_new(out, "leaves_out", json_string(outcome->fault));
}

void kh_explain_credentials(const struct kh_config *config, const struct kh_rule *rule,
			    const struct kh_dry_run *question, json_t *out)
{
	if (rule->n_credentials == 0)
		return;
	json_t *names = json_array(), *kinds = json_array();
	for (size_t i = 0; i < rule->n_credentials; i++) {
		const struct kh_credential_config *credential =
			&config->credentials[rule->credentials[i]];
		json_t *one = json_object();
		(void)json_array_append_new(names, json_string(credential->name));
		(void)json_object_set_new(one, "name", json_string(credential->name));
		(void)json_object_set_new(one, "kind",
					  words_of(credential, kh_credential_put_kind));
		(void)json_object_set_new(one, "binding",
					  words_of(credential, kh_credential_put_binding));
		const char *fault = kh_dry_run_binding_fault(question, credential);
		if (fault)
			(void)json_object_set_new(one, "leaves_out", json_string(fault));
		(void)json_array_append_new(kinds, one);
	}
	(void)json_object_set_new(out, "credentials", names);
	(void)json_object_set_new(out, "credential_kinds", kinds);
	if (rule->all_credentials)
		(void)json_object_set_new(out, "credentials_all", json_true());
}
