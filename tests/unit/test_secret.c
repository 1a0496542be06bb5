/* test_secret.c - a value lies in pages of its own, and nobody else gets at them */
#include "secret_kinds.h"

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

	/* The next hand-over is a fresh copy, and outlives the value here. */
	int next = kh_secret_fd(secret);
	assert_true(next >= 0);
	received = kh_secret_from_fd(next, VALUE_LEN, NULL);
	assert_non_null(received);
	kh_secret_unref(secret);
	(void)close(fd);
	assert_true(kh_secret_expose(received, has_the_value, NULL));
	kh_secret_unref(received);
}

static int count_descriptors(void)
{
	int n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* One for each value that was ever told would use up the keeper's. */
static void a_value_that_was_sent_keeps_no_descriptor(void **state)
{
	SKIP_WITHOUT(*state);
	int before = count_descriptors();
	struct kh_secret *secret = new_secret();
	int fd = kh_secret_fd(secret);
	assert_int_equal(count_descriptors(), before + 1);
	(void)close(fd);
	assert_int_equal(count_descriptors(), before);
	kh_secret_unref(secret);
}

/* What was handed over can't be shortened under the receiver's feet (SIGBUS). */
static void the_size_is_fixed(void **state)
{
	SKIP_WITHOUT(*state);
	struct kh_secret *secret = new_secret();
	int fd = kh_secret_fd(secret);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	(void)close(fd);
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
	int fd = kh_secret_fd(secret);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(the_value_is_there_and_the_callers_copy_is_not),
		EACH(lengths_out_of_bounds_are_refused_and_wiped_too),
		{ "not_even_the_kernel_reads_memfd_secret_for_another",
		  not_even_the_kernel_reads_memfd_secret_for_another, use_kind, NULL,
		  &memfd_secret_kind },
		EACH(the_pages_have_their_marks),
		EACH(a_child_does_not_inherit_it),
		EACH(no_descriptor_is_kept),
		EACH(comparing_says_equal_only_for_equal),
		EACH(another_process_gets_pages_of_its_own),
		EACH(a_value_that_was_sent_keeps_no_descriptor),
		EACH(the_size_is_fixed),
		EACH(a_worker_that_is_locked_in_can_use_it),
		EACH(without_lockable_memory_it_fails_and_says_why),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
