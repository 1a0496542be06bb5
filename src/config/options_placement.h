/* options_placement.h - the rows of where a credential goes, one a kind */
#ifndef KEYHOLE_CONFIG_OPTIONS_PLACEMENT_H
#define KEYHOLE_CONFIG_OPTIONS_PLACEMENT_H

#include "config_internal.h"

#define KH_PLACEMENT_OPTIONS \
	{ \
		.path = "credentials.*.header", .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		.expects = "a map of field names to templates such as { authorization: \"Bearer " \
			   "{}\" }", \
		.read = kh_read_fields, .doc = "the fields that it sets; {} stands for the value" \
	}

#endif
