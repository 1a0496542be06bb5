/* options_source.h - the rows of `value`: where a credential comes from */
#ifndef KEYHOLE_CONFIG_OPTIONS_SOURCE_H
#define KEYHOLE_CONFIG_OPTIONS_SOURCE_H

#include "config_internal.h"
#include "options_json.h"

/* A row of a value, of everybody's and of each tenant's. */
#define KH_SOURCE_ROW(name, form, more, what, reader, text) \
	{ \
		.path = "credentials.*.value." name, .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IN_TENANT | KH_IS_QUIET | (more), .expects = what, form, \
		.read = reader, .doc = text \
	}

#define KH_SOURCE_OPTIONS \
	{ .path = "credentials.*.value", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_REQUIRED | KH_IS_QUIET, \
	  .expects = "{ env: NAME }, { file: PATH }, { exec: [ COMMAND, ... ] } or { systemd: " \
		     "NAME }", \
	  .read = kh_config_read_literal, \
	  .between = JSON_VALUE_KEYS, \
	  .doc = "the source of the value: one of env, file, exec, systemd and tenants" }, \
		KH_SOURCE_ROW("env", .shape = JSON_ENV, KH_IN_PRESET, "the name of a variable", \
			      kh_config_read_source_env, \
			      "the variable of keyhole's own environment that contains it"), \
		KH_SOURCE_ROW("file", .shape = JSON_REF("text"), KH_IN_PRESET, "a path", \
			      kh_config_read_source_file, \
			      "the file that contains the value; keyhole reads it again when it " \
			      "changes"), \
		KH_SOURCE_ROW("exec", .shape = JSON_TEXTS, 0, \
			      "a list: a program and its arguments", kh_config_read_source_exec, \
			      "the command that prints the value; it is started without a shell"), \
		KH_SOURCE_ROW("systemd", .shape = JSON_REF("text"), 0, "a name", \
			      kh_config_read_source_systemd, \
			      "the name of the service's credential (LoadCredential=)"), \
		KH_SOURCE_ROW("refresh", KH_PART_DURATION(kh_exec, refresh_ms, 1000, 604800000), \
			      0, "a duration of 1s to 7d", kh_config_read_exec, \
			      "exec: how often the command runs"), \
		KH_SOURCE_ROW("timeout", KH_PART_DURATION(kh_exec, timeout_ms, 10, 600000), 0, \
			      "a duration of 10ms to 10m", kh_config_read_exec, \
			      "exec: after this time the command and everything that it started " \
			      "are killed"), \
		KH_SOURCE_ROW( \
			"max_age", KH_PART_DURATION(kh_exec, max_age_ms, 1000, 604800000), 0, \
			"a duration of 1s to 7d", kh_config_read_exec, \
			"exec: how long a value is used at most if it can't be renewed; a value " \
			"may say an earlier expiry"), \
		KH_SOURCE_ROW( \
			"environment", .shape = JSON_TEXTS, 0, "a list of NAME or NAME=VALUE", \
			kh_config_read_exec_environment, \
			"exec: variables for the command, besides HOME, PATH and a few others"), \
		KH_SOURCE_ROW("json", KH_PART_TEXT(kh_exec, json, kh_config_check_exec_member), 0, \
			      "a member such as data.key", kh_config_read_exec, \
			      "exec: the member of the printed JSON that is the value"), \
		KH_SOURCE_ROW("expires", \
			      KH_PART_TEXT(kh_exec, expires, kh_config_check_exec_member), 0, \
			      "a member such as data.expiry", kh_config_read_exec, \
			      "exec: the member of the printed JSON with the expiry"), \
		KH_SOURCE_ROW("first_line", KH_PART(BOOL, kh_exec, first_line), 0, \
			      "true or false", kh_config_read_exec, \
			      "exec: only the first line is the value"), \
		KH_SOURCE_ROW("format", \
			      KH_PART_WORDS(CHOICE, kh_exec, format, "auto", "text", "json"), 0, \
			      "auto, text or json", kh_config_read_exec, \
			      "exec: the format of the output; auto: JSON if it begins with { " \
			      "or ["), \
	{ \
		.path = "credentials.*.value.tenants", .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IS_QUIET, \
		.expects = "a map of tenants to { env: NAME } and the like", \
		.read = kh_config_read_source_tenants, .shape = JSON_VALUE_TENANTS, \
		.doc = "a source for each tenant, if each has a value of its own" \
	}

#endif
