/* options_rule.h - the rows of a rule's keys, made from keys.h */
#ifndef KEYHOLE_CONFIG_OPTIONS_RULE_H
#define KEYHOLE_CONFIG_OPTIONS_RULE_H

#include "carry.h"
#include "config_internal.h"
#include "options_json.h"

/* It is read when the rule is whole. */
#define KH_RULE_ROW(name, in, form, carried, about) \
	{ .path = "rules[]." #name, \
	  .type = KH_OPTION_NODE, \
	  .flags = in, \
	  .offset = offsetof(struct kh_rule_draft, name), \
	  form, \
	  carried, \
	  .doc = about },
#define KH_RULE_OPTIONS KH_RULE_KEYS(KH_RULE_ROW)

#endif
