/* charge.h - what is held of a sandbox's account, as a thing that can be handed on and given back
 */
#ifndef KEYHOLE_BASE_CHARGE_H
#define KEYHOLE_BASE_CHARGE_H

#include <keyhole/base/account.h>
#include <keyhole/base/err.h>

/*
 * A charge refers to the account and to nothing else of the sandbox: whoever holds one may outlive
 * the sandbox, and may go over to another sandbox. Then the charge of the first is released and
 * that of the other moves in (kh_charge_move); nobody is ever charged for what another sandbox
 * uses. It belongs to one thread. Of what is held only, not of what is spent (account.h).
 */
struct kh_charge {
	struct kh_account *account; /* a reference; NULL: no bounds */
	enum kh_resource resource;
	size_t amount; /* 0: nobody is charged */
};

/* `charge` is zeroed or released. Return: false: beyond the share, and nothing changed. */
bool kh_charge_take(struct kh_charge *charge, struct kh_account *account, enum kh_resource resource,
		    size_t amount);
/* What was taken of `account` already becomes the charge. `charge` as above. */
void kh_charge_adopt(struct kh_charge *charge, struct kh_account *account,
		     enum kh_resource resource, size_t amount);
/* More, or less, of the same: it comes to `amount`. Return: false as above. */
bool kh_charge_resize(struct kh_charge *charge, size_t amount);
/* `to` is released first, then is what `from` was, and `from` is zeroed. */
void kh_charge_move(struct kh_charge *to, struct kh_charge *from);
/* Gives all of it back, if there is any. */
void kh_charge_release(struct kh_charge *charge);

/* What a sandbox is told that `account` refused `amount` of the resource: whose share is used up,
 * and what to do. Return: false. */
bool kh_charge_refuse(struct kh_err *err, const struct kh_account *account,
		      enum kh_resource resource, size_t amount);

static inline bool kh_charge_holds(const struct kh_charge *charge)
{
	return charge->amount > 0;
}

#endif
