/* charge.h - an amount charged to a sandbox's account, as an object that can be passed on and
 * released */
#ifndef KEYHOLE_BASE_CHARGE_H
#define KEYHOLE_BASE_CHARGE_H

#include <keyhole/base/account.h>
#include <keyhole/base/err.h>

/*
 * A charge refers to the account and to nothing else of the sandbox. So its holder may outlive the
 * sandbox, and may go over to another sandbox: then the first sandbox's charge is released and the
 * other's moves in (kh_charge_move). No sandbox is ever charged for what another one uses. A charge
 * belongs to one thread. Only for resources that are held, not for those that are spent
 * (account.h).
 */
struct kh_charge {
	struct kh_account *account; /* a counted reference; NULL: no bounds */
	enum kh_resource resource;
	size_t amount; /* 0: nothing is charged */
};

/* Takes `amount` from `account`. `charge` must be zeroed or released. Return: false: that exceeds
 * the share, and nothing changed. */
bool kh_charge_take(struct kh_charge *charge, struct kh_account *account, enum kh_resource resource,
		    size_t amount);
/* Makes a charge of an amount that was taken from `account` already. `charge` as above. */
void kh_charge_adopt(struct kh_charge *charge, struct kh_account *account,
		     enum kh_resource resource, size_t amount);
/* Changes the charge to `amount`. Return: false as above. */
bool kh_charge_resize(struct kh_charge *charge, size_t amount);
/* Releases `to`, moves `from` into it, and zeroes `from`. */
void kh_charge_move(struct kh_charge *to, struct kh_charge *from);
/* Gives all of it back, if there is any. */
void kh_charge_release(struct kh_charge *charge);

/* Sets `err` to the text for a sandbox that was refused `amount` of the resource: whose share is
 * used up, and what to do. Return: false, always. */
bool kh_charge_refuse(struct kh_err *err, const struct kh_account *account,
		      enum kh_resource resource, size_t amount);

static inline bool kh_charge_holds(const struct kh_charge *charge)
{
	return charge->amount > 0;
}

#endif
