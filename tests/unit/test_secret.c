/* test_secret.c - a secret's pages are shut, uncopied, unread and wiped */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/limits.h>
#include <keyhole/secret.h>

#include "base/secret_internal.h"

/* Each test runs on all kinds of pages, shut in either way. */
struct kind {
	bool memfd, mprotect;
	const char *region; /* its name in /proc/self/maps */
};
static struct kind keyed_kind = { false, false, "/secretmem" };
static struct kind memfd_secret_kind = { false, true, "/secretmem" };
static struct kind memfd_kind = { true, true, "/memfd:keyhole-secret" };

static int use_kind(void **state)
{
	const struct kind *kind = *state;
	kh_secret_force_memfd(kind->memfd);
	kh_secret_force_mprotect(kind->mprotect);
	return 0;
}

/* The machine may lack memfd_secret or protection keys; then that part of the tests says so. */
static bool lacks_it(const struct kind *kind)
{
	if (!kind->memfd && strcmp(kh_secret_backing(), "memfd_secret") != 0) {
		print_message("this kernel gives no memfd_secret\n");
		return true;
	}
	if (!kind->mprotect && kh_secret_key() == KH_SECRET_NO_KEY) {
		print_message("this machine has no memory protection keys\n");
		return true;
	}
	return false;
}
#define SKIP_WITHOUT(kind) \
	do { \
		if (lacks_it(kind)) \
			skip(); \
	} while (0)

static const char the_value[] = "correct-horse-battery-staple";
enum { VALUE_LEN = sizeof(the_value) - 1 };

static struct kh_secret *new_secret(void)
{
	char value[VALUE_LEN];
	memcpy(value, the_value, VALUE_LEN);
	struct kh_err err = KH_ERR_INIT;
	struct kh_secret *secret = kh_secret_new(value, VALUE_LEN, &err);
	if (!secret)
		fail_msg("%s", err.text);
	return secret;
}

struct region {
	char *at;
	size_t len;
	char perms[8];
};

/* The regions of that name in this process. */
static size_t find_regions(const struct kind *kind, struct region *out, size_t most)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	assert_non_null(maps);
	char line[1024];
	size_t n = 0;
	while (n < most && fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		if (!strstr(line, kind->region) ||
		    sscanf(line, "%lx-%lx %7s", &from, &to, out[n].perms) != 3)
			continue;
		memcpy(&out[n].at, &from, sizeof(from));
		out[n++].len = to - from;
	}
	(void)fclose(maps);
	return n;
}

/* Asks the kernel to read it for this thread. */
static bool can_read(const void *at)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	ssize_t n = write(ends[1], at, 1);
	if (n < 0)
		assert_int_equal(errno, EFAULT);
	(void)close(ends[0]);
	(void)close(ends[1]);
	return n == 1;
}

static void assert_open(const struct kind *kind, bool open)
{
	struct region region;
	assert_int_equal(find_regions(kind, &region, 1), 1);
	assert_string_equal(region.perms, open || !kind->mprotect ? "r--s" : "---s");
	assert_int_equal(can_read(region.at), open);
}

static bool has_the_value(struct kh_slice value, void *arg)
{
	(void)arg;
	return kh_slice_eq(value, kh_slice_of(the_value, VALUE_LEN));
}

static void the_value_is_there_and_the_callers_copy_is_not(void **state)
{
	SKIP_WITHOUT(*state);
	char value[VALUE_LEN];
	static const char zeros[VALUE_LEN];
	memcpy(value, the_value, VALUE_LEN);
	struct kh_secret *secret = kh_secret_new(value, VALUE_LEN, NULL);
	assert_non_null(secret);
	assert_memory_equal(value, zeros, VALUE_LEN);
	assert_int_equal(kh_secret_len(secret), VALUE_LEN);
	assert_true(kh_secret_expose(secret, has_the_value, NULL));
	assert_ptr_equal(kh_secret_ref(secret), secret);
	kh_secret_unref(secret);
	assert_true(kh_secret_expose(secret, has_the_value, NULL));
	kh_secret_unref(secret);
	kh_secret_unref(NULL);
	struct region left;
	assert_int_equal(find_regions(*state, &left, 1), 0);
}

static void lengths_out_of_bounds_are_refused_and_wiped_too(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	char one = 'x';
	assert_null(kh_secret_new(&one, 0, &err));
	size_t too_long = KH_LIMIT_SECRET_BYTES + 1;
	char *big = malloc(too_long);
	assert_non_null(big);
	memset(big, 'x', too_long);
	assert_null(kh_secret_new(big, too_long, &err));
	assert_non_null(strstr(err.text, "65536"));
	assert_null(memchr(big, 'x', too_long));
	memset(big, 'x', too_long);
	struct kh_secret *secret = kh_secret_new(big, KH_LIMIT_SECRET_BYTES, &err);
	assert_non_null(secret);
	kh_secret_unref(secret);
	free(big);
	/* The descriptor is taken over, also by a refusal. */
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_null(kh_secret_from_fd(fd, 0, &err));
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static bool perms_in_the_window(struct kh_slice value, void *arg)
{
	(void)value;
	assert_open(arg, true);
	return false;
}

static void the_page_is_open_in_the_window_only(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	assert_open(*state, false);
	assert_false(kh_secret_expose(secret, perms_in_the_window, *state));
	assert_open(*state, false);
	assert_true(kh_secret_equals(secret, kh_slice_of(the_value, VALUE_LEN)));
	assert_open(*state, false);
	kh_secret_unref(secret);
}

static bool keep_pointer(struct kh_slice value, void *arg)
{
	const char **kept = arg;
	*kept = value.ptr;
	return true;
}

static bool write_to_it(struct kh_slice value, void *arg)
{
	(void)arg;
	/* Through a copy of the pointer that has lost its const. */
	char *to;
	memcpy(&to, &value.ptr, sizeof(to));
	*(volatile char *)to = 'x';
	return true;
}

/* Runs it in a child of its own. Return: the wait status. */
static int in_child(void (*body)(void *), void *arg)
{
	(void)fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* A sanitizer would turn the signal into a report. */
		(void)signal(SIGSEGV, SIG_DFL);
		(void)signal(SIGBUS, SIG_DFL);
		const struct rlimit none = { 0, 0 };
		(void)setrlimit(RLIMIT_CORE, &none);
		body(arg);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void read_after_the_window(void *arg)
{
	(void)arg;
	struct kh_secret *secret = new_secret();
	const char *kept = NULL;
	if (!kh_secret_expose(secret, keep_pointer, &kept) || !kept)
		_exit(9);
	_exit(*(const volatile char *)kept == the_value[0] ? 1 : 2);
}

static void write_in_the_window(void *arg)
{
	(void)arg;
	struct kh_secret *secret = new_secret();
	(void)kh_secret_expose(secret, write_to_it, NULL);
}

static void a_read_outside_the_window_kills(void **state)
{
	SKIP_WITHOUT(*state);
	int status = in_child(read_after_the_window, NULL);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void a_write_in_the_window_kills(void **state)
{
	SKIP_WITHOUT(*state);
	int status = in_child(write_in_the_window, NULL);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static bool read_by_the_kernel(struct kh_slice value, void *arg)
{
	(void)value;
	const struct region *region = arg;
	char got[VALUE_LEN] = { 0 };
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	assert_true(mem >= 0);
	uintptr_t at = (uintptr_t)region->at;
	ssize_t n = pread(mem, got, sizeof(got), (off_t)at);
	(void)close(mem);
	struct iovec local = { got, sizeof(got) }, remote = { region->at, sizeof(got) };
	if (n <= 0)
		n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	return n > 0;
}

/* PROT_NONE alone does not stop /proc/PID/mem: that is what memfd_secret is for. */
static void not_even_the_kernel_reads_memfd_secret_for_another(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	struct region region;
	assert_int_equal(find_regions(*state, &region, 1), 1);
	assert_false(read_by_the_kernel((struct kh_slice){ "", 0 }, &region));
	assert_false(kh_secret_expose(secret, read_by_the_kernel, &region));
	/* The value is there, and the kernel does read other memory so. */
	assert_true(kh_secret_equals(secret, kh_slice_of(the_value, VALUE_LEN)));
	char open_memory[VALUE_LEN];
	struct region other = { .at = open_memory, .len = VALUE_LEN };
	assert_true(read_by_the_kernel((struct kh_slice){ "", 0 }, &other));
	kh_secret_unref(secret);
}

/* Locked, not in a dump, not in a child. */
static void the_pages_have_their_marks(void **state)
{
	SKIP_WITHOUT(*state);
	const struct kind *kind = *state;
	struct kh_secret *secret = new_secret();
	FILE *smaps = fopen("/proc/self/smaps", "re");
	assert_non_null(smaps);
	char line[1024];
	bool inside = false, seen = false;
	while (fgets(line, sizeof(line), smaps)) {
		if (strstr(line, kind->region))
			inside = true;
		if (!inside || strncmp(line, "VmFlags:", 8) != 0)
			continue;
		inside = false;
		seen = true;
		assert_non_null(strstr(line, " dd")); /* left out of dumps */
		assert_non_null(strstr(line, " dc")); /* not copied on fork */
		assert_non_null(strstr(line, " lo")); /* locked */
	}
	(void)fclose(smaps);
	assert_true(seen);
	kh_secret_unref(secret);
}

static void look_for_regions(void *arg)
{
	struct region region;
	_exit((int)find_regions(arg, &region, 1));
}

static void a_child_does_not_inherit_it(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	int status = in_child(look_for_regions, *state);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	kh_secret_unref(secret);
}

/* No descriptor stays open that /proc/PID/fd would open again. */
static void no_descriptor_is_kept(void **state)
{
	SKIP_WITHOUT(*state);
	int before = dup(0);
	assert_true(before >= 0);
	(void)close(before);
	struct kh_secret *secret = new_secret();
	int after = dup(0);
	assert_int_equal(after, before);
	(void)close(after);
	kh_secret_unref(secret);
}

/* Two threads in one window: the first to leave must not shut it. */
struct crossing {
	struct kh_secret *secret;
	pthread_barrier_t inside, other_left;
};

static bool wait_in_the_window(struct kh_slice value, void *arg)
{
	struct crossing *crossing = arg;
	(void)pthread_barrier_wait(&crossing->inside);
	(void)pthread_barrier_wait(&crossing->other_left);
	return has_the_value(value, NULL); /* a fault here would end the test */
}

static bool pass_through(struct kh_slice value, void *arg)
{
	(void)pthread_barrier_wait(&((struct crossing *)arg)->inside);
	return has_the_value(value, NULL);
}

static void *stay(void *arg)
{
	struct crossing *crossing = arg;
	return kh_secret_expose(crossing->secret, wait_in_the_window, crossing) ? arg : NULL;
}

static void windows_of_threads_are_counted(void **state)
{
	SKIP_WITHOUT(*state);
	struct crossing crossing = { .secret = new_secret() };
	assert_int_equal(pthread_barrier_init(&crossing.inside, NULL, 2), 0);
	assert_int_equal(pthread_barrier_init(&crossing.other_left, NULL, 2), 0);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, stay, &crossing), 0);
	assert_true(kh_secret_expose(crossing.secret, pass_through, &crossing));
	/* The other one still looks at it: through a window of its own, or through the shared one.
	 */
	assert_open(*state, ((const struct kind *)*state)->mprotect);
	(void)pthread_barrier_wait(&crossing.other_left);
	void *result = NULL;
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_non_null(result);
	assert_open(*state, false);
	kh_secret_unref(crossing.secret);
}

/* A window within a window: the inner one's end shuts neither. */
static bool look_twice(struct kh_slice value, void *arg)
{
	struct kh_secret *other = arg;
	return kh_secret_expose(other, has_the_value, NULL) && has_the_value(value, NULL);
}

static void a_window_within_a_window_leaves_it_open(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *one = new_secret(), *other = new_secret();
	assert_true(kh_secret_expose(one, look_twice, other));
	assert_true(kh_secret_expose(one, look_twice, one));
	kh_secret_unref(other);
	assert_open(*state, false);
	kh_secret_unref(one);
}

struct onlooker {
	const char *at;
	pthread_barrier_t open, tried;
	bool could_read;
};

static void *look_from_outside(void *arg)
{
	struct onlooker *onlooker = arg;
	(void)pthread_barrier_wait(&onlooker->open);
	onlooker->could_read = can_read(onlooker->at);
	(void)pthread_barrier_wait(&onlooker->tried);
	return NULL;
}

static bool let_another_try(struct kh_slice value, void *arg)
{
	struct onlooker *onlooker = arg;
	onlooker->at = value.ptr;
	(void)pthread_barrier_wait(&onlooker->open);
	(void)pthread_barrier_wait(&onlooker->tried);
	return can_read(value.ptr);
}

static void a_window_is_one_threads_alone(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	struct onlooker onlooker = { .could_read = true };
	pthread_t thread;
	assert_int_equal(pthread_barrier_init(&onlooker.open, NULL, 2), 0);
	assert_int_equal(pthread_barrier_init(&onlooker.tried, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, look_from_outside, &onlooker), 0);
	assert_true(kh_secret_expose(secret, let_another_try, &onlooker));
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(onlooker.could_read);
	kh_secret_unref(secret);
}

/* A key does not stop another process's process_vm_readv, where PROT_NONE does. */
static void without_memfd_secret_no_key_is_used(void **state)
{
	kh_secret_force_mprotect(false);
	struct kh_secret *secret = new_secret();
	assert_open(*state, false);
	kh_secret_unref(secret);
}

static void *open_often(void *arg)
{
	for (int i = 0; i < 5000; i++)
		if (!kh_secret_expose(arg, has_the_value, NULL))
			return NULL;
	return arg;
}

static void many_threads_open_and_shut(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_often, secret), 0);
	for (int i = 0; i < 4; i++) {
		void *result = NULL;
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_non_null(result);
	}
	assert_open(*state, false);
	kh_secret_unref(secret);
}

static void comparing_says_equal_only_for_equal(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	assert_true(kh_secret_equals(secret, kh_slice_of(the_value, VALUE_LEN)));
	assert_false(kh_secret_equals(secret, kh_slice_of(the_value, VALUE_LEN - 1)));
	assert_false(kh_secret_equals(secret, kh_slice_of(the_value, VALUE_LEN + 1)));
	assert_false(kh_secret_equals(secret, kh_slice_str(NULL)));
	for (size_t i = 0; i < VALUE_LEN; i++) {
		char other[VALUE_LEN];
		memcpy(other, the_value, VALUE_LEN);
		other[i] = (char)(other[i] ^ 0x80);
		assert_false(kh_secret_equals(secret, kh_slice_of(other, VALUE_LEN)));
	}
	kh_secret_unref(secret);
}

static void another_process_gets_pages_of_its_own(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	int fd = kh_secret_fd(secret);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	int sent = dup(fd); /* as SCM_RIGHTS does */
	struct kh_secret *received = kh_secret_from_fd(sent, VALUE_LEN, NULL);
	assert_non_null(received);
	assert_int_equal(fcntl(sent, F_GETFD), -1);
	assert_true(kh_secret_expose(received, has_the_value, NULL));

	/* The receiver scribbles over its copy: the value here stays what it is. */
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *view = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(view, MAP_FAILED);
	memset(view, 'x', VALUE_LEN);
	assert_false(kh_secret_expose(received, has_the_value, NULL));
	assert_true(kh_secret_expose(secret, has_the_value, NULL));

	/* Its last unref wipes its pages, and only those. */
	kh_secret_unref(received);
	for (size_t i = 0; i < page; i++)
		assert_int_equal(view[i], 0);
	assert_true(kh_secret_expose(secret, has_the_value, NULL));
	(void)munmap(view, page);

	/* The next hand-over is a fresh copy; the old descriptor is gone. */
	int next = kh_secret_fd(secret);
	assert_true(next >= 0);
	received = kh_secret_from_fd(dup(next), VALUE_LEN, NULL);
	assert_non_null(received);
	kh_secret_unref(secret);
	assert_int_equal(fcntl(next, F_GETFD), -1);
	assert_true(kh_secret_expose(received, has_the_value, NULL));
	kh_secret_unref(received);
}

/* What was handed over can't be shortened under the receiver's feet (SIGBUS). */
static void the_size_is_fixed(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	int fd = kh_secret_fd(secret);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	assert_true(kh_secret_expose(secret, has_the_value, NULL));
	kh_secret_unref(secret);
}

/* Nothing but what secret.h promises is needed, also by malloc; sigaltstack is a sanitizer's, at
 * the end. */
static void work_locked_in(void *arg)
{
	int fd = *(int *)arg;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	static const int allowed[] = { SCMP_SYS(mmap),	      SCMP_SYS(mprotect),
				       SCMP_SYS(madvise),     SCMP_SYS(munmap),
				       SCMP_SYS(close),	      SCMP_SYS(brk),
				       SCMP_SYS(futex),	      SCMP_SYS(exit_group),
				       SCMP_SYS(sigaltstack), SCMP_SYS(pkey_mprotect) };
	kh_secret_prepare();
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0) != 0)
			_exit(8);
	if (seccomp_load(filter) != 0)
		_exit(9);
	struct kh_secret *secret = kh_secret_from_fd(fd, VALUE_LEN, NULL);
	if (!secret)
		_exit(1);
	for (int i = 0; i < 3; i++)
		if (!kh_secret_expose(secret, has_the_value, NULL))
			_exit(2);
	kh_secret_unref(secret);
	_exit(0);
}

static void a_worker_that_is_locked_in_can_use_it(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	int fd = dup(kh_secret_fd(secret));
	assert_true(fd >= 0);
	int status = in_child(work_locked_in, &fd);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	(void)close(fd);
	assert_true(kh_secret_expose(secret, has_the_value, NULL));
	kh_secret_unref(secret);
}

static void work_without_lockable_memory(void *arg)
{
	(void)arg;
	const struct rlimit none = { 0, 0 };
	/* root may lock what it likes */
	if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 ||
	    (getuid() == 0 && setresuid(65534, 65534, 65534) != 0))
		_exit(9);
	char value[] = "value";
	struct kh_err err = KH_ERR_INIT;
	if (kh_secret_new(value, 5, &err))
		_exit(1);
	_exit(strstr(err.text, "RLIMIT_MEMLOCK") && value[0] == 0 ? 0 : 2);
}

static void without_lockable_memory_it_fails_and_says_why(void **state)
{
	SKIP_WITHOUT(*state);
	int status = in_child(work_without_lockable_memory, NULL);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define EACH(test) \
	{ #test " (memfd_secret, key)", test, use_kind, NULL, &keyed_kind }, \
		{ #test " (memfd_secret)", test, use_kind, NULL, &memfd_secret_kind }, \
	{ \
#test " (memfd)", test, use_kind, NULL, &memfd_kind \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(the_value_is_there_and_the_callers_copy_is_not),
		EACH(lengths_out_of_bounds_are_refused_and_wiped_too),
		EACH(the_page_is_open_in_the_window_only),
		EACH(a_read_outside_the_window_kills),
		EACH(a_write_in_the_window_kills),
		{ "not_even_the_kernel_reads_memfd_secret_for_another",
		  not_even_the_kernel_reads_memfd_secret_for_another, use_kind, NULL,
		  &memfd_secret_kind },
		EACH(the_pages_have_their_marks),
		EACH(a_child_does_not_inherit_it),
		EACH(no_descriptor_is_kept),
		EACH(windows_of_threads_are_counted),
		EACH(a_window_within_a_window_leaves_it_open),
		{ "a_window_is_one_threads_alone", a_window_is_one_threads_alone, use_kind, NULL,
		  &keyed_kind },
		{ "without_memfd_secret_no_key_is_used", without_memfd_secret_no_key_is_used,
		  use_kind, NULL, &memfd_kind },
		EACH(many_threads_open_and_shut),
		EACH(comparing_says_equal_only_for_equal),
		EACH(another_process_gets_pages_of_its_own),
		EACH(the_size_is_fixed),
		EACH(a_worker_that_is_locked_in_can_use_it),
		EACH(without_lockable_memory_it_fails_and_says_why),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
