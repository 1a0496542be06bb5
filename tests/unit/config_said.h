/* config_said.h - what is said of a configuration that is read out of its text */
#ifndef KEYHOLE_TESTS_CONFIG_SAID_H
#define KEYHOLE_TESTS_CONFIG_SAID_H

#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "config/config_internal.h"

enum { TEXT_BYTES = 16 * 1024 * 1024 };

static inline struct kh_config *parse(const char *yaml, struct kh_diagnostics *diags)
{
	*diags = (struct kh_diagnostics){ 0 };
	return kh_config_parse("t.yaml", kh_slice_str(yaml), NULL, "policies", diags);
}

/* All diagnostics as `keyhole check` prints them. */
static inline char *exec_output(const struct kh_diagnostics *diags)
{
	int fds[2];
	static char text[65536];
	assert_int_equal(pipe(fds), 0);
	kh_diagnostics_print(diags, NULL, fds[1]);
	close(fds[1]);
	size_t len = 0;
	for (ssize_t n; (n = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0;)
		len += (size_t)n;
	close(fds[0]);
	text[len] = '\0';
	return text;
}

static inline void assert_says(const char *yaml, const char *expected)
{
	struct kh_diagnostics diags;
	struct kh_config *config = parse(yaml, &diags);
	if (diags.errors > 0)
		assert_null(config);
	else
		assert_non_null(config);
	assert_string_equal(exec_output(&diags), expected);
	kh_diagnostics_fini(&diags);
	kh_config_free(config);
}

#define TENANT "tenants: { t: { rules: [ { deny: \"https://x.example\" } ] } }\n"

#endif
