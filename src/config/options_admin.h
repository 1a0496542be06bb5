/* options_admin.h - the rows of `admin` in the table of options */
#ifndef KEYHOLE_OPTIONS_ADMIN_H
#define KEYHOLE_OPTIONS_ADMIN_H

#include "carry.h"
#include "config_internal.h"
#include "options_json.h"

#define KH_ADMIN_OPTIONS \
	{ .path = "admin", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE, \
	  .between = "\"dependentRequired\":{\"allow\":[\"unix\"]}", \
	  .doc = "the interface to inspect and control the daemon (`keyhole ctl`)" }, \
		{ .path = "admin.unix", \
		  .type = KH_OPTION_PATH, \
		  .flags = KH_IN_FILE, \
		  .offset = offsetof(struct kh_config, admin.unix_path), \
		  .expects = "the path of a Unix socket", \
		  .doc = "the admin socket's path, 107 bytes at most, where no sandbox sees it" }, \
		{ .path = "admin.sandboxes", \
		  .type = KH_OPTION_PATH, \
		  .flags = KH_IN_FILE, \
		  .offset = offsetof(struct kh_config, admin.sandboxes), \
		  .expects = "the path of a folder", \
		  .doc = "the folder for the sockets of added sandboxes, to which only the " \
			 "daemon may write; by default `sandboxes` next to the admin socket" }, \
		{ .path = "admin.metrics", \
		  .type = KH_OPTION_CUSTOM, \
		  .flags = KH_IN_FILE, \
		  .expects = "ADDRESS:PORT", \
		  .read = kh_config_read_admin_metrics, \
		  .shape = JSON_WITH_PORT, \
		  .doc = "an address and port that serve /metrics, /healthz and /readyz, and " \
			 "nothing else" }, \
		{ .path = "admin.allow", \
		  .type = KH_OPTION_LIST, \
		  .flags = KH_IN_FILE, \
		  .expects = "a list of users, each with its tenants", \
		  .items = "admin.allow[]", \
		  .add = kh_admin_grant_add, \
		  .done = kh_admin_grant_done, \
		  .carry = kh_carry_grants, \
		  .doc = "who may use the admin socket besides root and the daemon's own user" }, \
		{ .path = "admin.allow[].user", \
		  .type = KH_OPTION_CUSTOM, \
		  .flags = KH_IN_FILE | KH_IS_REQUIRED, \
		  .expects = "a user's name or number", \
		  .read = kh_config_read_admin_user, \
		  .shape = JSON_REF("text"), \
		  .doc = "the user" }, \
	{ \
		.path = "admin.allow[].tenants", .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IS_REQUIRED, .expects = "a list of tenants", \
		.read = kh_config_read_admin_tenants, .shape = JSON_REF("hosts"), \
		.doc = "tenants that the user may see, and whose sandboxes the user may add and " \
		       "remove" \
	}

#endif
