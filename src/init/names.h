/*
 * names.h - assigns each name an address of a range
 *
 * A name keeps its address while it is in use: looked up, or connected to. There are
 * KH_LIMIT_INIT_NAMES places. The least recently used name loses its place first; a name with an
 * open connection never does (there are fewer connections than places). An address is reused only
 * after all others of the range, so that a client which remembers an old address gets an error
 * instead of another name's server. Memory is static; a sandbox that floods the table only harms
 * itself.
 */
#ifndef KEYHOLE_INIT_NAMES_H
#define KEYHOLE_INIT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "dns.h"

/* 127.64.0.0/10, unless another range is set. In host byte order, as all addresses here. */
enum { INIT_NAMES_ADDRESS = 0x7f400000, INIT_NAMES_PREFIX_BITS = 10 };

/* Before the first name. `address` is the first of the range; it has more addresses than there are
 * places. */
void init_names_set_range(uint32_t address, unsigned prefix_bits);
/* Is the address one of the range? */
bool init_names_in_range(uint32_t address);

/* `name` in lower case, shorter than INIT_DNS_NAME_BYTES. Return: its address; 0: all places
 * have connections. */
uint32_t init_names_address(const char *name);
/* Return: the place of the name with this address; 0: none. */
unsigned init_names_find(uint32_t address);
const char *init_names_text(unsigned place);
/* A connection to this name begins, and ends. */
void init_names_hold(unsigned place);
void init_names_release(unsigned place);

#endif
