/*
 * placeholder.c - what one sandbox holds in place of one key
 *
 * What it looks like comes from the configuration where it says a shape; else from how the real
 * value begins; else from the configured prefix and alphabet.
 */
#include <keyhole/credential.h>

struct look {
	enum kh_shape shape;
};

static bool look(struct kh_slice value, void *arg)
{
	((struct look *)arg)->shape = kh_shape_of(value);
	return true;
}

void kh_stand_in_see(struct kh_stand_in *stand_in, const struct kh_secret *value)
{
	struct look seen = { KH_SHAPE_GENERIC };

	if (!value || !kh_secret_expose(value, look, &seen))
		return;
	stand_in->seen = seen.shape;
	stand_in->seen_len = (uint32_t)kh_secret_len(value);
}

void kh_placeholder_spec_of(struct kh_placeholder_spec *out,
			    const struct kh_credential_config *credential)
{
	const struct kh_stand_in *stand_in = &credential->stand_in;

	*out = (struct kh_placeholder_spec){
		.shape = stand_in->shape != KH_SHAPE_NONE  ? stand_in->shape
			 : stand_in->seen != KH_SHAPE_NONE ? stand_in->seen
							   : KH_SHAPE_GENERIC,
		.prefix = credential->placeholder_prefix,
		.alphabet = credential->placeholder_alphabet,
		.length = stand_in->seen_len,
	};
	/* The length says nothing where the value is of another shape. */
	if (out->shape != KH_SHAPE_GENERIC && out->shape != stand_in->seen)
		out->length = 0;
}

char *kh_placeholder_for(const struct kh_config *config,
			 const struct kh_credential_config *credential, const char *tenant,
			 const char *sandbox, struct kh_err *err)
{
	const struct kh_placeholder_owner owner = { tenant, sandbox, credential->name };
	struct kh_placeholder_spec spec;

	kh_placeholder_spec_of(&spec, credential);
	return kh_placeholder_make(&config->stand_in_keys[0], &spec, &owner, err);
}

bool kh_stand_in_may_have_digits(const struct kh_config *config)
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
