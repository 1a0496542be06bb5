/* wrap: kh_h2_widen */
/* test_up_window.c - windows towards upstreams grow within a share: one sandbox takes no other's */
#include "upstream/up_h2.c" /* NOLINT(bugprone-suspicious-include) */

/* Behind it, for cmocka's fail() is a macro. */
#include "unit.h"

/* As many streams as would fill everything, if each of them had the widest window. */
enum {
	BEYOND = KH_LIMIT_UP_WINDOW_MOST - KH_LIMIT_UP_WINDOW_LEAST,
	FILL = KH_LIMIT_UP_WINDOWS / BEYOND + 1
};

static size_t widest;
static size_t granted[2][FILL]; /* beyond the least */

/* A stream stands for its place in `granted`. */
bool __wrap_kh_h2_widen(struct kh_h2_stream *stream, uint32_t window);
bool __wrap_kh_h2_widen(struct kh_h2_stream *stream, uint32_t window)
{
	*(size_t *)(void *)stream = window - KH_LIMIT_UP_WINDOW_LEAST;
	widest = window > widest ? window : widest;
	return true;
}

struct world {
	struct kh_account *whole, *tenants[2], *boxes[2];
	struct kh_up_user users[2];
	struct kh_up_h2 streams[2][FILL];
};

static void begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	widest = 0;
	w->whole = kh_account_new_whole();
	kh_account_bound(w->whole, KH_RESOURCE_UP_WINDOW, KH_LIMIT_UP_WINDOWS);
	for (size_t i = 0; i < 2; i++) {
		w->tenants[i] = kh_account_new(w->whole);
		w->boxes[i] = kh_account_new(w->tenants[i]);
		w->users[i].account = w->boxes[i];
		for (size_t n = 0; n < FILL; n++) {
			granted[i][n] = 0;
			w->streams[i][n].h2 = (struct kh_h2_stream *)(void *)&granted[i][n];
		}
	}
}

static void end(struct world *w)
{
	for (size_t i = 0; i < 2; i++)
		for (size_t n = 0; n < FILL; n++)
			kh_charge_release(&w->streams[i][n].window);
	assert_int_equal(kh_account_held(w->whole, KH_RESOURCE_UP_WINDOW, 0), 0);
	for (size_t i = 0; i < 2; i++) {
		kh_account_unref(w->boxes[i]);
		kh_account_unref(w->tenants[i]);
	}
	kh_account_unref(w->whole);
}

/* Its user has read far more than a window on each of its streams. Return: what it was granted. */
static size_t read_all(struct world *w, size_t who)
{
	enum { PIECE = 32 * 1024 };
	for (size_t n = 0; n < FILL; n++)
		for (size_t read = 0; read < 4 * (size_t)KH_LIMIT_UP_WINDOW_MOST; read += PIECE)
			widen(&w->streams[who][n], &w->users[who], PIECE);
	size_t sum = 0;
	for (size_t n = 0; n < FILL; n++)
		sum += granted[who][n];
	assert_int_equal(sum, kh_account_held(w->boxes[who], KH_RESOURCE_UP_WINDOW, 0));
	return sum;
}

static void one_sandbox_gets_no_more_than_its_share_of_windows(void **state)
{
	static struct world w;
	(void)state;
	begin(&w);
	size_t first = read_all(&w, 0);
	assert_in_range(first, KH_LIMIT_UP_WINDOWS / 4, KH_LIMIT_UP_WINDOWS / 2);
	/* Another tenant's streams are widened all the same. */
	assert_in_range(read_all(&w, 1), KH_LIMIT_UP_WINDOWS / 8, KH_LIMIT_UP_WINDOWS / 2);
	end(&w);
}

static void a_window_is_widened_as_it_is_read_and_to_a_bound(void **state)
{
	static struct world w;
	(void)state;
	begin(&w);
	struct kh_up_h2 *s = &w.streams[0][0];
	widen(s, &w.users[0], KH_LIMIT_UP_WINDOW_LEAST - 1);
	assert_int_equal(widest, 0); /* who does not read keeps the least */
	widen(s, &w.users[0], 1);
	assert_int_equal(widest, 2 * KH_LIMIT_UP_WINDOW_LEAST);
	(void)read_all(&w, 0);
	assert_int_equal(widest, KH_LIMIT_UP_WINDOW_MOST);
	assert_int_equal(s->window.amount, BEYOND);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_sandbox_gets_no_more_than_its_share_of_windows),
		cmocka_unit_test(a_window_is_widened_as_it_is_read_and_to_a_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
