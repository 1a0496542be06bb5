/*
 * names.h - which address stands for which name, out of 127.64.0.0/10
 *
 * A name keeps its address as long as it is used: asked for, or connected to. There are
 * KH_LIMIT_INIT_NAMES places; the name that was used longest ago gives its place up first, one with
 * a connection never (there are fewer of those than places). An address that was given up is not
 * given again before all 4 million others were, so that a client which kept it is told no instead
 * of being led to another name. Static memory, no allocation; a flood of names hurts the sandbox's
 * own.
 */
#ifndef KEYHOLE_INIT_NAMES_H
#define KEYHOLE_INIT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "dns.h"

/* In host order. */
enum { INIT_NAMES_FIRST = 0x7f400000, INIT_NAMES_LAST = 0x7f7fffff };

/* `name` in lower case, shorter than INIT_DNS_NAME_BYTES. Return: its address in host order; 0: all
 * places have connections. */
uint32_t init_names_address(const char *name);
/* Return: the place of the name that has this address; 0: none has. */
unsigned init_names_find(uint32_t address);
const char *init_names_text(unsigned place);
/* A connection to it begins, and ends. */
void init_names_hold(unsigned place);
void init_names_release(unsigned place);

#endif
