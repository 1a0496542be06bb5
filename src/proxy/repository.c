/* repository.c - a credential that is made for one repository gets to know which */

#include "proxy_internal.h"

bool kh_exchange_find_repository(const struct kh_exchange *x, struct kh_injected *one,
				 struct kh_err *err)
{
	if (!one->credential->by_repository || one->scope)
		return true;
	one->scope = kh_repository_of(x->target.path);
	return one->scope || kh_err_set(err, KH_ERR_CREDENTIAL_BINDING,
					"the credential %s is made for one repository at a time, "
					"and this request names none",
					one->credential->name);
}
