/* secret_internal.h - what secret.c and its tests share with secret_key.c */
#ifndef KEYHOLE_BASE_SECRET_INTERNAL_H
#define KEYHOLE_BASE_SECRET_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* Key 0 is what all other memory has. */
enum { KH_SECRET_NO_KEY = 0 };

/* Found and tried once a process. */
int kh_secret_key(void);
/* `prot` and `key` for whole pages. */
bool kh_secret_key_protect(int key, void *map, size_t map_len, int prot);
/* For the calling thread: reading what carries `key`, or nothing of it. */
void kh_secret_key_open(int key);
void kh_secret_key_shut(int key);

bool kh_secret_is_memfd_secret(void);

/* Pages of memfd_secret. Return: a descriptor of that size; -1 where the kernel has none. */
int kh_secret_open_pages(size_t len);

/* --- for the tests only */

/* Goes on as if the kernel had no memfd_secret (true), or asks it anew (false). */
void kh_secret_force_memfd(bool on);
/* New secrets are shut as if there were no protection key. */
void kh_secret_force_mprotect(bool on);

#endif
