/* json_load.h - a JSON document that somebody else wrote, as a tree */
#ifndef KEYHOLE_BASE_JSON_LOAD_H
#define KEYHOLE_BASE_JSON_LOAD_H

#include <stddef.h>

#include <jansson.h>

#include <keyhole/base/slice.h>

/*
 * As json_loadb, but a document that nests deeper than KH_LIMIT_JSON_TREE_DEPTH is an error before
 * anything is made of it. jansson recurses where it parses, writes, copies, compares and frees, and
 * has a bound for parsing alone (2048), which is more than the stack of a thread has room for. So
 * every document comes in here, and a tree may be written and freed anywhere (tests/house.sh).
 * `why` may be NULL.
 */
json_t *kh_json_load(struct kh_slice text, size_t flags, json_error_t *why);

#endif
