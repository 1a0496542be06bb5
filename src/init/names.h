/*
 * names.h - assigns each name an address of 127.64.0.0/10
 *
 * A name keeps its address while it is in use: looked up, or connected to. There are
 * KH_LIMIT_INIT_NAMES places. The least recently used name loses its place first; a name with an
 * open connection never does (there are fewer connections than places). An address is reused only
 * after all 4 million others, so that a client which remembers an old address gets an error instead
 * of another name's server. Memory is static; a sandbox that floods the table only harms itself.
 */
#ifndef KEYHOLE_INIT_NAMES_H
#define KEYHOLE_INIT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "dns.h"

/* In host byte order. */
enum { INIT_NAMES_FIRST = 0x7f400000, INIT_NAMES_LAST = 0x7f7fffff };

/* `name` in lower case, shorter than INIT_DNS_NAME_BYTES. Return: its address in host byte order;
 * 0: all places have connections. */
uint32_t init_names_address(const char *name);
/* Return: the place of the name with this address; 0: none. */
unsigned init_names_find(uint32_t address);
const char *init_names_text(unsigned place);
/* A connection to this name begins, and ends. */
void init_names_hold(unsigned place);
void init_names_release(unsigned place);

#endif
