/* test_secret_windows.c - pages are open in a window of their own thread, and nowhere else */
#include "secret_kinds.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(the_page_is_open_in_the_window_only),
		EACH(a_read_outside_the_window_kills),
		EACH(a_write_in_the_window_kills),
		EACH(windows_of_threads_are_counted),
		EACH(a_window_within_a_window_leaves_it_open),
		{ "a_window_is_one_threads_alone", a_window_is_one_threads_alone, use_kind, NULL,
		  &keyed_kind },
		{ "without_memfd_secret_no_key_is_used", without_memfd_secret_no_key_is_used,
		  use_kind, NULL, &memfd_kind },
		EACH(many_threads_open_and_shut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
