/*
 * workspace_text.c - the changed lines of a file, by the host's diff(1)
 *
 * diff compares two descriptors: it gets no names, no settings and no folder, and reads nothing
 * else. Each line of its output begins with a character of diff's own, passes the same escaper as
 * everything that an agent wrote, and is in a column of its own, so that a file's content can't
 * look like another file's name or like keyhole's own output. Large and binary files are only
 * named.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>

#include "show_text.h"
#include "workspace_internal.h"

enum {
	SAMPLE_BYTES = 8192,
	CPU_SECONDS = 10,
	MEMORY_BYTES = 1 << 30,
	DIFF_MS = 60 * 1000,
	HEAD_LINES = 2,
	OLD = 3,
	NEW = 4
};

static bool is_text(int fd)
{
	char sample[SAMPLE_BYTES];
	ssize_t n = pread(fd, sample, sizeof(sample), 0);
	return n >= 0 && !memchr(sample, '\0', (size_t)n);
}

struct pair {
	int was, is;
};

/* Two files, and little time and memory. */
static bool prepare_diff(void *arg)
{
	const struct pair *pair = arg;
	int above = 16;
	int was = fcntl(pair->was, F_DUPFD_CLOEXEC, above);
	int is = fcntl(pair->is, F_DUPFD_CLOEXEC, above);
	return was >= 0 && is >= 0 && dup2(was, OLD) >= 0 && dup2(is, NEW) >= 0 &&
	       kh_child_bound(MEMORY_BYTES, CPU_SECONDS);
}

static void show_lines(struct kh_slice text)
{
	for (size_t at = 0, number = 0; at < text.len; number++) {
		size_t end = kh_slice_find(text, '\n', at);
		/* diff begins with names and times of its own. */
		if (number >= HEAD_LINES)
			kh_show_line(stdout, kh_slice_sub(text, at, end));
		at = end + 1;
	}
}

/* diff's own: 0 the same, 1 different, more: trouble. */
static int compare(int was, int is)
{
	static char *const words[] = { (char *)(uintptr_t) "diff", (char *)(uintptr_t) "-au",
				       (char *)(uintptr_t) "/dev/fd/3",
				       (char *)(uintptr_t) "/dev/fd/4", NULL };
	static char *const environment[] = { (char *)(uintptr_t) "LC_ALL=C", NULL };
	struct pair pair = { was, is };
	const struct kh_child_spec spec = {
		.program = access("/usr/bin/diff", X_OK) == 0 ? "/usr/bin/diff" : "/bin/diff",
		.argv = words,
		.environment = environment,
		.folder = "/",
		.input = -1,
		.prepare = prepare_diff,
		.arg = &pair,
		.most_ms = DIFF_MS,
		.end_when_full = true,
	};
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct kh_child_result result;
	kh_buf_init(&text, KH_LIMIT_REVIEW_DIFF_BYTES);
	(void)kh_child_run(&spec, &text, NULL, &result);
	show_lines(kh_buf_view(&text));
	if (result.cut)
		printf("(more is not shown)\n");
	return result.cut ? 1 : result.status >= 0 ? result.status : 2;
}

static int open_one(const struct kh_review *review, const struct kh_change *change, bool agents)
{
	const struct stat *st = agents ? &change->is : &change->was;
	if (!S_ISREG(st->st_mode))
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	return agents ? kh_review_open_is(review, change) : kh_review_open_was(review, change);
}

void kh_workspace_text(const struct kh_review *review, const struct kh_change *change)
{
	kh_auto_close int was = open_one(review, change, false);
	kh_auto_close int is = open_one(review, change, true);
	bool large = change->was.st_size > KH_LIMIT_REVIEW_TEXT_BYTES ||
		     change->is.st_size > KH_LIMIT_REVIEW_TEXT_BYTES;
	if (was < 0 || is < 0) {
		printf("(can't be read: %s)\n", strerror(errno));
		return;
	}
	if (large || !is_text(was) || !is_text(is)) {
		printf("(%s, not compared: %lld bytes, %lld before)\n", large ? "large" : "no text",
		       (long long)change->is.st_size, (long long)change->was.st_size);
		return;
	}
	int status = compare(was, is);
	if (status == 127)
		printf("(not compared: there is no diff here; `apt install diffutils`)\n");
	else if (status > 1)
		printf("(not compared: diff ended with %d)\n", status);
}
