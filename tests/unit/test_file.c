/* wrap: poll getpwuid fcntl */
/* test_file.c - files are read and replaced whole or not at all */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

/* What happens while one waits; NULL: time runs out. */
static bool (*meanwhile)(void);

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	(void)fds;
	(void)n;
	assert_in_range(timeout, 1, KH_LIMIT_PIPE_READ_MS);
	return meanwhile && meanwhile();
}

/* A folder of its own for each test, which is empty when the test ends. */
struct place {
	char folder[64];
	int back;
};

static int setup(void **state)
{
	struct place *place = calloc(1, sizeof(*place));
	if (!place)
		return -1;
	(void)snprintf(place->folder, sizeof(place->folder), "/tmp/keyhole-file-XXXXXX");
	place->back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = place;
	return place->back >= 0 && mkdtemp(place->folder) && chdir(place->folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	struct place *place = *state;
	int ok = fchdir(place->back);
	(void)close(place->back);
	if (rmdir(place->folder) != 0)
		ok = -1;
	free(place);
	return ok;
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	assert_non_null(dir);
	size_t n = 0;
	for (const struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
	(void)closedir(dir);
	return n;
}

static void put(const char *path, struct kh_slice content)
{
	struct kh_err err = KH_ERR_INIT;
	if (!kh_file_write(path, content, 0644, &err))
		fail_msg("%s", err.text);
}

static void what_was_written_is_read(void **state)
{
	(void)state;
	size_t len = 100000;
	char *big = malloc(len);
	assert_non_null(big);
	for (size_t i = 0; i < len; i++)
		big[i] = (char)(i * 7);
	put("f", kh_slice_of(big, len));
	struct kh_buf buf;
	kh_buf_init(&buf, len + 10);
	assert_true(kh_buf_append_str(&buf, "before:"));
	assert_true(kh_file_read("f", &buf, NULL));
	assert_int_equal(kh_buf_len(&buf), 7 + len);
	assert_memory_equal(kh_buf_view(&buf).ptr, "before:", 7);
	assert_memory_equal(kh_buf_view(&buf).ptr + 7, big, len);
	kh_buf_fini(&buf);
	free(big);
	assert_int_equal(count_entries("."), 1);
	assert_int_equal(unlink("f"), 0);
}

static void a_file_over_the_cap_is_refused_and_nothing_kept(void **state)
{
	(void)state;
	put("f", KH_SLICE("0123456789"));
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf buf;
	kh_buf_init(&buf, 10);
	assert_true(kh_file_read("f", &buf, NULL)); /* fits exactly */
	kh_buf_fini(&buf);
	kh_buf_init(&buf, 12);
	assert_true(kh_buf_append_str(&buf, "abc"));
	assert_false(kh_file_read("f", &buf, &err));
	assert_int_equal(err.sys, EFBIG);
	assert_true(kh_slice_has_prefix(kh_slice_str(err.text), KH_SLICE("f: ")));
	assert_slice_equal(kh_buf_view(&buf), "abc");
	kh_buf_fini(&buf);
	assert_int_equal(unlink("f"), 0);
}

static void a_descriptor_is_read_from_its_start_and_stays_put(void **state)
{
	(void)state;
	put("f", KH_SLICE("0123456789"));
	int fd = open("f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(lseek(fd, 4, SEEK_SET), 4);
	struct kh_buf buf;
	kh_buf_init(&buf, 100);
	assert_true(kh_file_read_fd(fd, &buf, NULL));
	assert_slice_equal(kh_buf_view(&buf), "0123456789");
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 4);
	(void)close(fd);
	/* A pipe can't seek: it is read to its end. */
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	assert_true(kh_file_write_all(fds[1], KH_SLICE("from a pipe"), NULL));
	(void)close(fds[1]);
	kh_buf_clear(&buf);
	assert_true(kh_file_read_fd(fds[0], &buf, NULL));
	assert_slice_equal(kh_buf_view(&buf), "from a pipe");
	(void)close(fds[0]);
	kh_buf_fini(&buf);
	assert_int_equal(unlink("f"), 0);
}

static void what_is_no_file_is_an_error_and_no_wait(void **state)
{
	(void)state;
	struct kh_buf buf;
	kh_buf_init(&buf, 100);
	struct kh_err err = KH_ERR_INIT;
	assert_false(kh_file_read("absent\n", &buf, &err));
	assert_int_equal(err.sys, ENOENT);
	assert_true(kh_slice_has_prefix(kh_slice_str(err.text), KH_SLICE("absent\\x0a: ")));
	assert_false(kh_file_read(".", &buf, &err));
	assert_int_equal(err.sys, EISDIR);
	assert_false(kh_file_read("/dev/zero", &buf, &err));
	assert_false(kh_file_read("/dev/null", &buf, &err));
	/* Nobody writes to it: it is empty, and nobody is waited for. */
	assert_int_equal(mkfifo("p", 0600), 0);
	assert_true(kh_file_read("p", &buf, &err));
	assert_int_equal(kh_buf_len(&buf), 0);
	assert_int_equal(unlink("p"), 0);
	/* A file of /proc says that it is empty and is not. */
	kh_buf_fini(&buf);
	kh_buf_init(&buf, 1 << 20);
	assert_true(kh_file_read("/proc/self/status", &buf, NULL));
	assert_true(kh_buf_len(&buf) > 100);
	kh_buf_fini(&buf);
}

static int writer = -1;

static bool it_writes_on(void)
{
	static unsigned times;
	if (times++ < 3)
		return write(writer, "later ", 6) == 6;
	return close(writer) == 0;
}

static void a_pipe_is_read_to_its_end_and_not_for_ever(void **state)
{
	(void)state;
	struct kh_buf buf;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&buf, 100);
	assert_int_equal(mkfifo("p", 0600), 0);
	int reader = open("p", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	writer = open("p", O_WRONLY | O_CLOEXEC);
	assert_true(reader >= 0 && writer >= 0);
	assert_int_equal(write(writer, "first ", 6), 6);
	assert_false(kh_file_read("p", &buf, &err));
	assert_int_equal(err.sys, ETIMEDOUT);
	assert_int_equal(kh_buf_len(&buf), 0);
	meanwhile = it_writes_on;
	assert_true(kh_file_read("p", &buf, &err));
	meanwhile = NULL;
	assert_slice_equal(kh_buf_view(&buf), "later later later ");
	kh_buf_fini(&buf);
	(void)close(reader);
	assert_int_equal(unlink("p"), 0);
}

static void a_file_has_its_mode_whatever_the_umask(void **state)
{
	(void)state;
	mode_t before = umask(0);
	assert_true(kh_file_write("key", KH_SLICE("k"), 0600, NULL));
	(void)umask(077);
	assert_true(kh_file_write("cert", KH_SLICE("c"), 0644, NULL));
	(void)umask(before);
	struct stat st;
	assert_int_equal(stat("key", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat("cert", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(unlink("key"), 0);
	assert_int_equal(unlink("cert"), 0);
}

static void a_write_that_fails_leaves_what_was_there(void **state)
{
	(void)state;
	put("f", KH_SLICE("old"));
	struct kh_err err = KH_ERR_INIT;
	assert_int_equal(mkdir("d", 0755), 0);
	assert_false(kh_file_write("d", KH_SLICE("new"), 0644, &err)); /* a folder is in the way */
	assert_false(kh_file_write("no/f", KH_SLICE("new"), 0644, &err));
	assert_int_equal(err.sys, ENOENT);
	/* No half file stays beside. */
	assert_int_equal(count_entries("."), 2);
	assert_int_equal(rmdir("d"), 0);
	/* A full disk. */
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (full >= 0) {
		assert_false(kh_file_write_all(full, KH_SLICE("x"), &err));
		assert_int_equal(err.sys, ENOSPC);
		(void)close(full);
	}
	struct kh_buf buf;
	kh_buf_init(&buf, 10);
	assert_true(kh_file_read("f", &buf, NULL));
	assert_slice_equal(kh_buf_view(&buf), "old");
	kh_buf_fini(&buf);
	assert_int_equal(unlink("f"), 0);
}

/* How often sealing answers that somebody holds a page. */
static int busy;

int __real_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...)
{
	va_list args;
	va_start(args, cmd);
	long arg = va_arg(args, long);
	va_end(args);
	if (cmd != F_ADD_SEALS || busy <= 0)
		return __real_fcntl(fd, cmd, arg);
	busy--;
	errno = EBUSY;
	return -1;
}

static void a_file_whose_pages_are_held_for_a_moment_is_sealed_all_the_same(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	busy = 3;
	int fd = kh_file_sealed("snapshot", KH_SLICE("content"), &err);
	assert_true(fd >= 0);
	assert_int_equal(busy, 0);
	assert_int_equal(write(fd, "x", 1), -1);
	(void)close(fd);
	busy = 10000;
	assert_int_equal(kh_file_sealed("snapshot", KH_SLICE("content"), &err), -1);
	assert_true(busy > 0);
	assert_non_null(strstr(err.text, "can't be sealed"));
	busy = 0;
}

static void a_sealed_file_can_not_be_changed(void **state)
{
	(void)state;
	int fd = kh_file_sealed("snapshot", KH_SLICE("content"), NULL);
	assert_true(fd >= 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 100), -1);
	assert_ptr_equal(mmap(NULL, 7, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	char text[8] = { 0 };
	assert_int_equal(pread(fd, text, 7, 0), 7);
	assert_string_equal(text, "content");
	(void)close(fd);
	fd = kh_file_sealed("empty", KH_SLICE(""), NULL);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, 1), 0);
	(void)close(fd);
}

static mode_t mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void folders_are_made_with_their_parents(void **state)
{
	(void)state;
	mode_t before = umask(077);
	assert_true(kh_file_mkdirs("a//b/c/", 0700, NULL));
	(void)umask(before);
	assert_int_equal(mode_of("a"), 0755);
	assert_int_equal(mode_of("a/b"), 0755);
	assert_int_equal(mode_of("a/b/c"), 0700);
	/* One that is there keeps its mode. */
	assert_true(kh_file_mkdirs("a/b", 0700, NULL));
	assert_int_equal(mode_of("a/b"), 0755);
	struct kh_err err = KH_ERR_INIT;
	put("a/file", KH_SLICE(""));
	assert_false(kh_file_mkdirs("a/file", 0755, &err));
	assert_int_equal(err.sys, ENOTDIR);
	assert_false(kh_file_mkdirs("a/file/x", 0755, &err));
	assert_int_equal(err.sys, ENOTDIR);
	assert_false(kh_file_mkdirs("", 0755, &err));
	assert_true(kh_file_mkdirs("/", 0755, &err));
	assert_true(kh_file_mkdirs(".", 0755, &err));
	assert_int_equal(unlink("a/file"), 0);
	assert_int_equal(rmdir("a/b/c"), 0);
	assert_int_equal(rmdir("a/b"), 0);
	assert_int_equal(rmdir("a"), 0);
}

static void paths_join(void **state)
{
	(void)state;
	static const char *const table[][3] = {
		{ "/etc", "a", "/etc/a" }, { "/etc/", "a", "/etc/a" }, { "/", "a", "/a" },
		{ "/etc", "/a", "/a" },	   { "", "a", "a" },	       { "a", "b/c", "a/b/c" },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		kh_auto_free char *joined = kh_path_join(table[i][0], table[i][1]);
		assert_string_equal(joined, table[i][2]);
	}
	kh_auto_free char *text = kh_strf("%s-%d", "a", 7);
	assert_string_equal(text, "a-7");
}

static bool is_believed(const char *path, int why)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;
	kh_buf_init(&out, 100);
	bool ok = kh_file_read_private(path, &out, &err);
	if (ok)
		assert_string_equal(kh_buf_cstr(&out), "mine");
	else
		assert_int_equal(kh_buf_len(&out), 0);
	assert_int_equal(err.sys, why);
	kh_buf_fini(&out);
	return ok;
}

static bool is_believed_beside(const char *path, const char *of)
{
	struct kh_buf out;
	kh_buf_init(&out, 100);
	bool ok = kh_file_read_beside(path, of, &out, NULL);
	kh_buf_fini(&out);
	return ok;
}

static void nobody_elses_state_is_believed(void **state)
{
	(void)state;
	assert_false(is_believed("a", ENOENT));
	assert_true(kh_file_write("a", KH_SLICE("mine"), 0600, NULL));
	assert_true(kh_file_write("of", KH_SLICE("its"), 0600, NULL));
	assert_true(is_believed("a", 0));
	assert_int_equal(chmod("a", 0644), 0);
	assert_true(is_believed("a", 0));

	for (mode_t mode = 0620; mode; mode = mode == 0620 ? 0602 : 0) {
		assert_int_equal(chmod("a", mode), 0);
		assert_false(is_believed("a", EPERM));
		assert_false(is_believed_beside("a", "of"));
	}
	assert_int_equal(chmod("a", 0600), 0);

	assert_int_equal(symlink("a", "link"), 0);
	assert_false(is_believed("link", ELOOP));
	assert_false(is_believed_beside("link", "of"));
	assert_int_equal(unlink("link"), 0);

	assert_int_equal(link("a", "twice"), 0);
	assert_false(is_believed("a", EPERM));
	assert_true(is_believed_beside("a", "of"));
	assert_int_equal(unlink("twice"), 0);

	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_false(is_believed("pipe", EINVAL));
	assert_false(is_believed(".", EINVAL));
	assert_int_equal(unlink("pipe"), 0);

	if (geteuid() == 0) {
		assert_int_equal(chown("a", 4711, (gid_t)-1), 0);
		assert_false(is_believed("a", EPERM));
		assert_false(is_believed_beside("a", "of"));
		assert_int_equal(chown("of", 4711, (gid_t)-1), 0);
		assert_true(is_believed_beside("a", "of"));
	}
	assert_int_equal(unlink("a") | unlink("of"), 0);
}

/* The user's entry says where it is, or nothing does. */
static struct passwd *entry;

struct passwd *__wrap_getpwuid(uid_t uid);
struct passwd *__wrap_getpwuid(uid_t uid)
{
	(void)uid;
	return entry;
}

static void assert_state_home(const char *expected)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *home = kh_file_state_home(&err);
	assert_int_equal(err.code, expected ? 0 : KH_ERR_USAGE);
	if (expected)
		assert_string_equal(home, expected);
	else
		assert_null(home);
}

static void without_a_home_no_folder_of_anybodys_is_taken(void **state)
{
	(void)state;
	char mine[] = "/of/mine";
	struct passwd user = { .pw_dir = mine };
	assert_int_equal(unsetenv("XDG_STATE_HOME") | unsetenv("HOME"), 0);
	entry = NULL;
	assert_state_home(NULL);
	assert_int_equal(setenv("HOME", "not/absolute", 1), 0);
	assert_state_home(NULL);
	entry = &user;
	assert_state_home("/of/mine/.local/state");
	assert_int_equal(setenv("HOME", "/h", 1), 0);
	assert_state_home("/h/.local/state");
	assert_int_equal(setenv("XDG_STATE_HOME", "/s", 1), 0);
	assert_state_home("/s");
	entry = NULL;
	assert_int_equal(unsetenv("HOME"), 0);
	assert_state_home("/s");
}

static void flags_are_set_and_cleared(void **state)
{
	(void)state;
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	for (int on = 1; on >= 0; on--) {
		assert_true(kh_file_set_cloexec(fds[0], on));
		assert_int_equal(fcntl(fds[0], F_GETFD) & FD_CLOEXEC, on ? FD_CLOEXEC : 0);
		assert_true(kh_file_set_nonblock(fds[0], on));
		assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, on ? O_NONBLOCK : 0);
	}
	(void)close(fds[0]);
	(void)close(fds[1]);
	assert_false(kh_file_set_cloexec(fds[0], true));
	assert_false(kh_file_set_nonblock(-1, true));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_written_is_read),
		TEST(a_file_over_the_cap_is_refused_and_nothing_kept),
		TEST(a_descriptor_is_read_from_its_start_and_stays_put),
		TEST(what_is_no_file_is_an_error_and_no_wait),
		TEST(a_pipe_is_read_to_its_end_and_not_for_ever),
		TEST(a_file_has_its_mode_whatever_the_umask),
		TEST(a_write_that_fails_leaves_what_was_there),
		TEST(a_sealed_file_can_not_be_changed),
		TEST(a_file_whose_pages_are_held_for_a_moment_is_sealed_all_the_same),
		TEST(folders_are_made_with_their_parents),
		TEST(paths_join),
		TEST(nobody_elses_state_is_believed),
		TEST(without_a_home_no_folder_of_anybodys_is_taken),
		TEST(flags_are_set_and_cleared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
