/*
 * child_log.c - standard error of the processes that read hostile bytes
 *
 * An attacker may take worker or fetcher over. With the keeper's standard error it could read what
 * is typed into a terminal and make the terminal answer, overwrite earlier lines of a file, or make
 * writing fail for everybody who shares it. So they get a different one, which can only be written
 * to:
 *
 * - If it is a regular file: that file, opened again for appending. A line is in the file at once,
 *   even if the keeper has died. The keeper appends from then on, too; otherwise it would write
 *   over their lines.
 * - If it is anything else: a pipe that the keeper reads. The keeper copies each line, without
 *   control characters, up to a length and a rate. If the pipe is full, a line is lost, and nobody
 *   waits.
 * - If neither is possible: /dev/null.
 *
 * The same bound holds for what the keeper itself logs on a worker's behalf, which a worker could
 * cause as often as it likes.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>

/* Of a process, as standard error is. */
static struct {
	bool opened;
	int theirs, ours; /* -1: none */
	char line[KH_LIMIT_CHILD_LINE_BYTES + 1];
	size_t len;
	uint64_t tokens, tokens_ms, left_out;
} said = { .theirs = -1, .ours = -1 };

static int open_anew(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFL);
	int fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && (flags < 0 || fcntl(STDERR_FILENO, F_SETFL, flags | O_APPEND) != 0)) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static void open_pipe(void)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return;
	said.ours = ends[0];
	said.theirs = ends[1];
}

int kh_child_log_open(void)
{
	struct stat st;
	if (said.opened)
		return said.theirs;
	said.opened = true;
	said.tokens = KH_LIMIT_CHILD_LOG_BYTES;
	said.tokens_ms = kh_clock_mono_ms();
	if (fstat(STDERR_FILENO, &st) != 0)
		return -1;
	if (S_ISREG(st.st_mode))
		said.theirs = open_anew();
	if (said.theirs < 0)
		open_pipe();
	return said.theirs;
}

int kh_child_log_theirs(void)
{
	return said.theirs;
}

int kh_child_log_ours(void)
{
	return said.ours;
}

static bool spend(size_t bytes)
{
	uint64_t now = kh_clock_mono_ms();
	said.tokens += (now - said.tokens_ms) * KH_LIMIT_CHILD_LOG_PACE_BYTES / 1000;
	if (said.tokens > KH_LIMIT_CHILD_LOG_BYTES)
		said.tokens = KH_LIMIT_CHILD_LOG_BYTES;
	said.tokens_ms = now;
	if (said.tokens < bytes)
		return false;
	said.tokens -= bytes;
	return true;
}

static void tell_left_out(void)
{
	if (said.left_out)
		kh_log_warn("%llu lines of the worker's are left out here: they were too many",
			    (unsigned long long)said.left_out);
	said.left_out = 0;
}

void kh_child_log_charged(enum kh_log_level level, const char *fmt, ...)
{
	char text[KH_LIMIT_CHILD_LINE_BYTES];
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n < 0 || level > kh_log_get_level())
		return;
	if (!spend((size_t)n + 1)) {
		said.left_out++;
		return;
	}
	tell_left_out();
	kh_log(level, "%s", text);
}

/* Nobody else's name may be in front of it. */
static const char *prefix_for(const char *line)
{
	struct kh_slice text = kh_slice_str(line);
	bool own = kh_slice_has_prefix(text, KH_SLICE("keyhole: worker: ")) ||
		   kh_slice_has_prefix(text, KH_SLICE("keyhole: fetcher: "));
	return own ? "" : "keyhole: worker: ";
}

static void pass_on(void)
{
	char out[sizeof(said.line) + 32];
	if (!spend(said.len + 1)) {
		said.left_out++;
		said.len = 0;
		return;
	}
	tell_left_out();
	for (size_t i = 0; i < said.len; i++)
		if (said.line[i] == '\0')
			said.line[i] = '?';
	said.line[said.len] = '\0';
	kh_esc_clean(said.line);
	int n = snprintf(out, sizeof(out), "%s%s\n", prefix_for(said.line), said.line);
	if (n > 0)
		(void)!write(STDERR_FILENO, out, (size_t)n);
	said.len = 0;
}

void kh_child_log_take(void)
{
	enum { READS_A_TURN = 4 };
	char bytes[16 * 1024];
	for (int i = 0; said.ours >= 0 && i < READS_A_TURN; i++) {
		ssize_t n = read(said.ours, bytes, sizeof(bytes));
		for (ssize_t at = 0; at < n; at++) {
			if (bytes[at] != '\n')
				said.line[said.len++] = bytes[at];
			if ((bytes[at] == '\n' && said.len > 0) ||
			    said.len == KH_LIMIT_CHILD_LINE_BYTES)
				pass_on();
		}
		if (n < (ssize_t)sizeof(bytes))
			return;
	}
}

void kh_child_log_end_line(void)
{
	kh_child_log_take();
	if (said.len > 0)
		pass_on();
	tell_left_out();
}

void kh_child_log_close(void)
{
	kh_child_log_end_line();
	if (said.ours >= 0)
		(void)close(said.ours);
	if (said.theirs >= 0)
		(void)close(said.theirs);
	said.opened = false;
	said.ours = said.theirs = -1;
}
