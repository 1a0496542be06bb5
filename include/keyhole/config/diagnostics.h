/* diagnostics.h - errors and warnings of a configuration, each with its place in a file */
#ifndef KEYHOLE_CONFIG_DIAGNOSTICS_H
#define KEYHOLE_CONFIG_DIAGNOSTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/buf.h>

struct kh_config;

/* A place in a file; line and column count from 1. `file` is an index into kh_config.files, or
 * KH_NO_FILE: in none of them. */
#define KH_NO_FILE UINT32_MAX
struct kh_where {
	uint32_t file;
	uint32_t line;
	uint32_t column;
};

/* An error or a warning: "file:line:column: error: text". */
struct kh_diagnostic {
	bool warning;
	struct kh_where where;
	char *text;
};

struct kh_diagnostics {
	struct kh_diagnostic *list;
	size_t count;
	size_t errors;
	char **files; /* names for kh_where.file, also if there is no configuration */
	size_t n_files;
};

void kh_diagnostics_fini(struct kh_diagnostics *d);
/* kh_diagnostics_sort puts them into the order of the files. A message that is there already is not
 * added again. Only a bounded number is kept; `errors` counts all. */
void kh_diagnostics_add(struct kh_diagnostics *d, bool warning, struct kh_where where,
			const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void kh_diagnostics_sort(struct kh_diagnostics *d);
const char *kh_diagnostics_file(const struct kh_diagnostics *d, uint32_t index);
/* Writes each message as a line "file:line:column: error: text". _put: as many as `out` has room
 * for. _print: to `fd`, one write per line; `config` may be NULL. */
void kh_diagnostics_put(const struct kh_diagnostics *d, struct kh_buf *out);
void kh_diagnostics_print(const struct kh_diagnostics *d, const struct kh_config *config, int fd);

#endif
