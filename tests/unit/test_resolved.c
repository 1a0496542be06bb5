/* test_resolved.c - a rule by address denies a name as it would deny the address itself */
#include "policy_asked.h"

enum { LITERAL, NAMED };

struct request {
	const char *method, *path;
	const char *overrides; /* the method that a field asks for; NULL: none does */
};

/* One request, to the host's name or to its address. */
static void fill(const struct request *r, struct kh_buf *store, struct kh_overrides *overrides,
		 struct kh_request_view *view)
{
	bool differs, further;

	assert_true(kh_path_normalise(kh_slice_str(r->path), store, NULL));
	size_t len = kh_buf_len(store);
	assert_true(kh_path_slashed(kh_buf_view(store), store, &differs));
	size_t both = kh_buf_len(store);
	assert_true(kh_path_decoded(kh_slice_sub(kh_buf_view(store), 0, len), store, &further));
	view->path = kh_slice_sub(kh_buf_view(store), 0, len);
	if (differs)
		view->path_slashed = kh_slice_sub(kh_buf_view(store), len, both);
	if (further)
		view->path_decoded = kh_slice_sub(kh_buf_view(store), both, kh_buf_len(store));
	if (r->overrides) {
		overrides->n_methods = 1;
		(void)snprintf(overrides->methods[0], sizeof(overrides->methods[0]), "%s",
			       r->overrides);
		view->overrides = overrides;
	}
	view->method = kh_slice_str(r->method);
	view->scheme = KH_SCHEME_HTTPS;
	view->port = 443;
}

/* Return: it is denied by a rule, of the name's or of its address. */
static bool denied(const struct fixture *f, const struct request *r, const char *host)
{
	struct kh_overrides *overrides = calloc(1, sizeof(*overrides));
	struct kh_request_view view = { .method = KH_SLICE("") };
	struct kh_decision d, there;
	struct kh_host at, addr;
	struct kh_buf store;
	uint64_t steps = 0;

	assert_non_null(overrides);
	assert_true(kh_host_parse(&at, kh_slice_str(host), NULL));
	assert_true(kh_host_parse(&addr, KH_SLICE("10.1.2.3"), NULL));
	kh_buf_init(&store, 65536);
	fill(r, &store, overrides, &view);
	view.host = &at;
	kh_policy_decide(f->policy, 0, NULL, &view, &d);
	bool is = !d.allow || kh_policy_denies_address(f->policy, 0, NULL, &view, false, &d, &addr,
						       &steps, &there);
	is = is && (!d.allow || at.kind == KH_HOST_NAME);
	kh_buf_fini(&store);
	free(overrides);
	return is;
}

/* "{ allow: "GET HOST/pub" }" for each, with a denial by address between them. */
static struct fixture rules_of(int kind, const char *first, const char *second)
{
	const char *host = kind == NAMED ? "https://svc.example" : "https://[10.0.0.0/8]";
	const char *gap_1 = strchr(first, ' '), *gap_2 = strchr(second, ' ');
	char text[1024];

	assert_non_null(gap_1);
	assert_non_null(gap_2);
	(void)snprintf(text, sizeof(text),
		       "version: 1\ntenants: { a: { rules: [ { allow: \"%.*s%s%s\" },"
		       " { deny: \"https://[10.0.0.0/8]\" }, { allow: \"%.*s%s%s\" } ] } }\n",
		       (int)(gap_1 - first + 1), first, host, gap_1 + 1, (int)(gap_2 - second + 1),
		       second, host, gap_2 + 1);
	return fixture_of(config_of(text));
}

static void what_is_denied_of_an_address_is_denied_of_its_name_in_each_reading(void **state)
{
	static const char *const firsts[] = { "GET /pub/*", "GET /pub/**", "GET /**",
					      "GET,DELETE /pub/*", "DELETE /pub/x" };
	static const char *const seconds[] = { "GET,DELETE /**", "GET,DELETE /pub/**", "GET /**" };
	static const char *const methods[] = { "GET", "DELETE" };
	static const char *const paths[] = { "/pub/x", "/pub/x/y", "/pub/x%2Fy", "/pub%2Fx",
					     "/pub/x%252Fy" };
	static const char *const overrides[] = { NULL, "DELETE", "GET" };
	unsigned n_denied = 0, n_let = 0;

	(void)state;
	for (size_t i = 0; i < 5 * 3 * 2 * 5 * 3; i++) {
		const char *first = firsts[i % 5], *second = seconds[i / 5 % 3];
		const struct request r = { .method = methods[i / 15 % 2],
					   .path = paths[i / 30 % 5],
					   .overrides = overrides[i / 150] };
		struct fixture name = rules_of(NAMED, first, second);
		struct fixture address = rules_of(LITERAL, first, second);
		bool literal = denied(&address, &r, "10.1.2.3");
		bool named = denied(&name, &r, "svc.example");
		if (literal && !named)
			fail_msg("%s, %s: %s %s (%s)", first, second, r.method, r.path,
				 r.overrides ? r.overrides : "-");
		n_denied += named;
		n_let += !named;
		fini(&name);
		fini(&address);
	}
	assert_true(n_denied > 0 && n_let > 0);
}

/* What stands above the denial in all readings is let through. */
static void what_is_allowed_above_the_denial_in_each_reading_is_let_through(void **state)
{
	struct fixture f = rules_of(NAMED, "GET /pub/**", "GET,DELETE /**");

	(void)state;
	assert_false(denied(&f, &(struct request){ "GET", "/pub/x%2Fy", NULL }, "svc.example"));
	assert_true(denied(&f, &(struct request){ "GET", "/pub/x", "DELETE" }, "svc.example"));
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_is_denied_of_an_address_is_denied_of_its_name_in_each_reading),
		cmocka_unit_test(what_is_allowed_above_the_denial_in_each_reading_is_let_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
