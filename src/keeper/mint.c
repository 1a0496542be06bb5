/* mint.c - tokens that a token endpoint gives in exchange for a value */

#include "keeper_internal.h"

struct kh_job *kh_mint_begin(const struct kh_config *config, uint16_t index,
			     struct kh_holding *holding, const struct kh_made *made,
			     struct kh_err *err)
{
	(void)holding;
	(void)made;
	kh_err_set(err, KH_ERR_INTERNAL, "credential %s: not built",
		   config->credentials[index].name);
	return NULL;
}

enum kh_mint_result kh_mint_took(const struct kh_config *config, struct kh_job *job,
				 struct kh_token *out, struct kh_err *err)
{
	(void)config;
	(void)job;
	*out = (struct kh_token){ .secret = NULL };
	kh_err_set(err, KH_ERR_INTERNAL, "not built");
	return KH_MINT_FAILED;
}

bool kh_fetch_start(struct kh_job *job, struct kh_err *err)
{
	(void)job;
	return kh_err_set(err, KH_ERR_INTERNAL, "not built");
}

void kh_rotation_free(struct kh_rotation *rotation)
{
	(void)rotation;
}

bool kh_rotation_may_begin(struct kh_rotation *rotation)
{
	return !rotation;
}
