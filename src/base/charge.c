/* charge.c - an amount charged to a sandbox's account, as an object that can be passed on and
 * released */

#include <keyhole/base/charge.h>

bool kh_charge_take(struct kh_charge *charge, struct kh_account *account, enum kh_resource resource,
		    size_t amount)
{
	if (!kh_account_take(account, resource, amount, 0))
		return false;
	kh_charge_adopt(charge, account, resource, amount);
	return true;
}

void kh_charge_adopt(struct kh_charge *charge, struct kh_account *account,
		     enum kh_resource resource, size_t amount)
{
	*charge = (struct kh_charge){ kh_account_ref(account), resource, amount };
}

bool kh_charge_resize(struct kh_charge *charge, size_t amount)
{
	return kh_account_resize(charge->account, charge->resource, &charge->amount, amount);
}

void kh_charge_release(struct kh_charge *charge)
{
	kh_account_give(charge->account, charge->resource, charge->amount);
	kh_account_unref(charge->account);
	*charge = (struct kh_charge){ 0 };
}

void kh_charge_move(struct kh_charge *to, struct kh_charge *from)
{
	kh_charge_release(to);
	*to = *from;
	*from = (struct kh_charge){ 0 };
}

bool kh_charge_refuse(struct kh_err *err, const struct kh_account *account,
		      enum kh_resource resource, size_t amount)
{
	static const char *const who[] = {
		[KH_ACCOUNT_OF_SANDBOX] = "this sandbox has its share",
		[KH_ACCOUNT_OF_TENANT] = "this sandbox's tenant has its share",
		[KH_ACCOUNT_OF_ALL] = "all sandboxes together have all",
	};
	const char *what = "";

	switch (resource) {
	case KH_RESOURCE_MEMORY:
		what = "memory: use fewer connections at a time, or read the answers";
		break;
	case KH_RESOURCE_DESCRIPTORS:
		what = "descriptors: close connections, or wait";
		break;
	case KH_RESOURCE_LOOKUPS:
		what = "lookups of names: ask for fewer new hosts at a time, or wait";
		break;
	case KH_RESOURCE_UP_WINDOW:
	case KH_RESOURCE_LEAVES:
	case KH_RESOURCE_SIGNATURES:
	case KH_RESOURCE_JOURNAL:
	case KH_RESOURCES:
		what = kh_resource_name(resource);
		break;
	}
	return kh_err_set(err, KH_ERR_LIMIT, "%s of the proxy's %s",
			  who[kh_account_full(account, resource, amount, 0)], what);
}
