/* audit_last.h - the last rows of many, in bounded memory */
#ifndef KEYHOLE_CLI_AUDIT_LAST_H
#define KEYHOLE_CLI_AUDIT_LAST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <keyhole/base/slice.h>

/* How many rows may be asked for, and how many bytes they may have together. */
enum { KH_LAST_ROWS_MOST = 100000, KH_LAST_BYTES_MOST = 64 * 1024 * 1024 };

struct kh_audit_last;

/* Keeps `n` rows, from 1 to KH_LAST_ROWS_MOST. Return: NULL without memory. */
struct kh_audit_last *kh_audit_last_new(size_t n);
void kh_audit_last_free(struct kh_audit_last *last);
/* Copies a row. The oldest ones go where there are more, or more bytes. Return: false: no memory.
 */
bool kh_audit_last_add(struct kh_audit_last *last, struct kh_slice row);
/* Writes the rows, and keeps none. Return: how many that were asked for were too long to be kept.
 */
uint64_t kh_audit_last_print(struct kh_audit_last *last, FILE *out);

#endif
