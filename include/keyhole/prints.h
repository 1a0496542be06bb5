/* prints.h - knowing a real credential again in what a sandbox sends, without having it at hand */
#ifndef KEYHOLE_PRINTS_H
#define KEYHOLE_PRINTS_H

#include <stdint.h>

#include <keyhole/buf.h>
#include <keyhole/err.h>
#include <keyhole/secret.h>

/*
 * The worker is given values when a request needs them. To see any of them leave, it has prints of
 * all instead: of each value, and of each of the texts that base64 makes of it, the last 8 bytes,
 * the length, and a keyed digest (HMAC-SHA256 under a key of this list's own) of the whole. They
 * lie in secret pages. Outside of those is a bitmap, in which a keyed hash of 8 bytes says that
 * something of the list may end there: 18 bits of each value, and which multiplier.
 *
 * Values under 8 bytes have no print: they would be found in innocent text.
 */
enum { KH_PRINT_LEAST_BYTES = 8 };

/* ---- the keeper's side: a list is packed into secrets ---- */

struct kh_print_maker {
	uint8_t key[32];
	struct kh_buf bytes; /* wiping */
};
bool kh_print_maker_init(struct kh_print_maker *maker, struct kh_err *err);
void kh_print_maker_fini(struct kh_print_maker *maker);
/* `index`: of the credential. Return: false: this list is full (begin another), or no memory. */
bool kh_print_maker_add(struct kh_print_maker *maker, const struct kh_secret *value, uint16_t index,
			struct kh_err *err);
/* The list, and the maker is as new. NULL without memory. */
struct kh_secret *kh_print_maker_take(struct kh_print_maker *maker, struct kh_err *err);

/* ---- the worker's side ---- */

/* Counted; immutable. */
struct kh_prints;
/* Takes the references over, also when it fails. None: nothing is found. */
struct kh_prints *kh_prints_new(struct kh_secret **lists, size_t n_lists, struct kh_err *err);
struct kh_prints *kh_prints_ref(struct kh_prints *prints);
void kh_prints_unref(struct kh_prints *prints); /* NULL is fine */
/* Does the text hold one, as it is or in base64? *index: of the credential. */
bool kh_prints_find(const struct kh_prints *prints, struct kh_slice text, uint16_t *index);

#endif
