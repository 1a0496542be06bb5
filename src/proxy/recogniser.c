/* recogniser.c - how placeholders are known under one configuration */

#include "stand_in.h"

#include <stdlib.h>

#include <keyhole/credential.h>

bool kh_recogniser_init(struct kh_recogniser *r, const struct kh_config *config, struct kh_err *err)
{
	const struct kh_stand_in_key *keys = config->stand_in_keys;

	*r = (struct kh_recogniser){ .n_keys = 0 };
	while (r->n_keys < KH_MARK_KEYS && kh_stand_in_key_is_set(&keys[r->n_keys]))
		r->n_keys++;
	if (config->n_credentials == 0 || r->n_keys == 0)
		return true;
	r->names = calloc(config->n_credentials * r->n_keys, sizeof(*r->names));
	if (!r->names)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "placeholders: no memory");
	for (size_t i = 0; i < config->n_credentials; i++)
		for (size_t k = 0; k < r->n_keys; k++)
			kh_name_tag_make(&r->names[i * r->n_keys + k], &keys[k],
					 config->credentials[i].name);
	r->marks = kh_marks_new(keys, r->n_keys, kh_stand_in_may_have_digits(config), err);
	return r->marks != NULL;
}

void kh_recogniser_fini(struct kh_recogniser *r)
{
	kh_marks_free(r->marks);
	free(r->names);
	*r = (struct kh_recogniser){ .n_keys = 0 };
}
