/* log.c - one line, one write to standard error; or held in memory while nobody may be waited for
 */
#include <keyhole/base/log.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/screen.h>

/* Room for an error's text with context in front; what is longer is cut with a mark. */
enum { LINE_BYTES = 1024 };

static atomic_int lowest = KH_LOG_INFO;
static _Atomic(const char *) who = NULL;

static const char *const names[] = {
	[KH_LOG_ERROR] = "error",
	[KH_LOG_WARN] = "warn",
	[KH_LOG_INFO] = "info",
	[KH_LOG_DEBUG] = "debug",
};
enum { N_LEVELS = sizeof(names) / sizeof(names[0]) };

void kh_log_set_level(enum kh_log_level level)
{
	atomic_store_explicit(&lowest, (int)level, memory_order_relaxed);
}

enum kh_log_level kh_log_get_level(void)
{
	return (enum kh_log_level)atomic_load_explicit(&lowest, memory_order_relaxed);
}

bool kh_log_level_parse(struct kh_slice name, enum kh_log_level *out)
{
	for (unsigned i = 0; i < N_LEVELS; i++) {
		if (kh_slice_eq(name, kh_slice_str(names[i]))) {
			*out = (enum kh_log_level)i;
			return true;
		}
	}
	return false;
}

void kh_log_set_role(const char *role)
{
	atomic_store_explicit(&who, role, memory_order_release);
}

/* ---- lines that are held ---- */

static struct {
	unsigned depth;
	pid_t pid; /* whose lines these are */
	struct kh_buf lines;
	unsigned long long lost;
} held;

/* How each held line begins: may it be broken into rows? */
enum { BROKEN = 'b', WHOLE = 'w' };

static bool screen_changed, folds;

static void write_bytes(const char *bytes, size_t len)
{
	ssize_t n;
	do
		n = write(STDERR_FILENO, bytes, len);
	while (n < 0 && errno == EINTR);
}

/* A line that is written at once, as far as there is room. */
struct shown {
	char text[2 * LINE_BYTES];
	size_t len;
};

static void show(void *arg, const char *bytes, size_t len)
{
	struct shown *shown = arg;
	if (shown->len + len > sizeof(shown->text)) {
		write_bytes(shown->text, shown->len);
		shown->len = 0;
	}
	memcpy(shown->text + shown->len, bytes, len);
	shown->len += len;
}

/* Each with its newline. */
static void write_line(const char *line, size_t len, bool whole)
{
	bool breaks = folds && !whole;
	size_t columns = breaks || screen_changed ? kh_screen_columns(STDERR_FILENO) : 0;
	struct shown shown = { .len = 0 };
	if (screen_changed && columns > 0) {
		struct kh_slice reset = kh_screen_reset_text(STDERR_FILENO);
		show(&shown, reset.ptr, reset.len);
	}
	screen_changed = false;
	if (breaks && columns > 0) {
		kh_screen_fold(kh_slice_of(line, len - 1), columns, show, &shown);
		show(&shown, "\n", 1);
		write_bytes(shown.text, shown.len);
		return;
	}
	if (shown.len > 0)
		write_bytes(shown.text, shown.len);
	write_bytes(line, len);
}

void kh_log_reset_screen(void)
{
	screen_changed = true;
}

void kh_log_fold(void)
{
	folds = true;
}

void kh_log_hold(void)
{
	if (held.depth++ > 0)
		return;
	held.pid = getpid();
	held.lost = 0;
	kh_buf_init(&held.lines, KH_LIMIT_LOG_HELD_BYTES);
}

void kh_log_release(void)
{
	if (held.depth == 0 || --held.depth > 0)
		return;
	struct kh_slice all = kh_buf_view(&held.lines);
	for (size_t at = 0, end; held.pid == getpid() && at < all.len; at = end + 1) {
		end = kh_slice_find(all, '\n', at);
		write_line(all.ptr + at + 1, end - at, all.ptr[at] == WHOLE);
	}
	kh_buf_fini(&held.lines);
	if (held.pid == getpid() && held.lost > 0)
		kh_log_warn("%llu more lines were not kept", held.lost);
}

void kh_log_release_all(void)
{
	if (held.depth > 1)
		held.depth = 1;
	kh_log_release();
}

static void take_line(const char *line, size_t len, char kind)
{
	size_t before = kh_buf_len(&held.lines);
	if (held.depth == 0 || held.pid != getpid()) {
		write_line(line, len, kind == WHOLE);
	} else if (!kh_buf_append_char(&held.lines, kind) ||
		   !kh_buf_append(&held.lines, line, len)) {
		kh_buf_truncate(&held.lines, before);
		held.lost++;
	}
}

void kh_log_line(const char *line, size_t len)
{
	take_line(line, len, BROKEN);
}

void kh_log_line_whole(const char *line, size_t len)
{
	take_line(line, len, WHOLE);
}

/* ---- lines ---- */

/* How much of vsnprintf's answer is there. */
static size_t written(int need, size_t room)
{
	if (need < 0)
		return 0;
	return (size_t)need < room ? (size_t)need : room - 1;
}

void kh_log(enum kh_log_level level, const char *fmt, ...)
{
	if (level > kh_log_get_level() || (unsigned)level >= N_LEVELS)
		return;
	int saved = errno;
	char line[LINE_BYTES];
	const char *role = atomic_load_explicit(&who, memory_order_acquire);
	size_t len = written(snprintf(line, sizeof(line), "keyhole: %s%s%s: ", role ? role : "",
				      role ? ": " : "", names[level]),
			     sizeof(line));
	va_list args;
	va_start(args, fmt);
	int need = vsnprintf(line + len, sizeof(line) - len, fmt, args);
	va_end(args);
	bool cut = need >= 0 && (size_t)need >= sizeof(line) - len;
	len += written(need, sizeof(line) - len);
	line[len] = 0;
	kh_esc_clean(line);
	if (cut)
		kh_esc_mark_cut(line);
	len = strlen(line);
	line[len++] = '\n'; /* over the NUL: there is always that place */
	kh_log_line(line, len);
	errno = saved;
}
