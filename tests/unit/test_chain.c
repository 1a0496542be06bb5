/* test_chain.c - verification, reading and recovery agree on which lines are the journal */
#include "audit_helpers.h"

#include <string.h>

#include <openssl/sha.h>

#include "audit/audit_internal.h"

#define TIME "\"time\":\"2026-11-23T15:00:00.000Z\""

static void hex_of(const char *bytes, size_t len, char out[65])
{
	unsigned char hash[32];

	SHA256((const unsigned char *)bytes, len, hash);
	for (size_t i = 0; i < 32; i++)
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

/* A place in a chain, or in a fork of it. */
struct link {
	uint64_t seq;
	char head[65];
};

static struct link genesis(void)
{
	struct link link = { .seq = 0 };

	memcpy(link.head, kh_audit_genesis_hex, sizeof(link.head));
	return link;
}

/* The line of a body (without its brace) after `at`; with the hash `says`, or the one that fits. */
static void seal(char out[1024], const char *body, const struct link *at, const char *says)
{
	char hex[65];
	int n = snprintf(out, 1024, "%s,\"seq\":%llu,\"prev\":\"%s\"", body,
			 (unsigned long long)at->seq + 1, at->head);

	hex_of(out, (size_t)n, hex);
	snprintf(out + n, 1024 - (size_t)n, ",\"hash\":\"%s\"}", says ? says : hex);
}

static void put_line(int fd, const char *line)
{
	assert_int_equal(dprintf(fd, "%s\n", line), (int)strlen(line) + 1);
}

static void go_on(struct link *link, const char *line)
{
	link->seq++;
	snprintf(link->head, sizeof(link->head), "%.64s", line + strlen(line) - 66);
}

/* The next record of the chain. */
static void add(int fd, struct link *link, const char *body)
{
	char line[1024];

	seal(line, body, link, NULL);
	put_line(fd, line);
	go_on(link, line);
}

static uint64_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_size;
}

/* The record that explains all bytes from `offset` on. */
static void recover(int fd, struct link *link, uint64_t offset)
{
	char body[512], hex[65];
	size_t len;
	char *bytes = read_back(fd, &len);

	hex_of(bytes + offset, len - offset - 1, hex);
	free(bytes);
	snprintf(body, sizeof(body),
		 "{\"event\":\"recovered\"," TIME
		 ",\"offset\":%llu,\"bytes\":%llu,\"sha256\":\"%s\"",
		 (unsigned long long)offset, (unsigned long long)(len - offset - 1), hex);
	add(fd, link, body);
}

static void add_id(int fd, struct link *link, const char *event, unsigned id)
{
	char body[128];

	snprintf(body, sizeof(body), "{\"event\":\"%s\"," TIME ",\"id\":\"x%016x\"", event, id);
	add(fd, link, body);
}

/* What a reader takes for the journal. */
struct seen {
	uint64_t records, opens, closes, recovered, last_seq;
	bool waiting; /* for an explanation */
};

static void see(void *context, const struct kh_journal_piece *piece)
{
	struct seen *seen = context;
	struct kh_line line;

	seen->waiting = piece->place == KH_JOURNAL_APART || piece->place == KH_JOURNAL_BROKEN;
	if (seen->waiting)
		return;
	assert_true(kh_line_parse(&line, piece->bytes));
	seen->records++;
	seen->recovered += piece->place == KH_JOURNAL_RECOVERED;
	seen->opens += kh_slice_eq(line.event, KH_SLICE("open"));
	seen->closes += kh_slice_eq(line.event, KH_SLICE("close"));
	seen->last_seq = line.seq;
}

static struct seen seen_in(int fd)
{
	struct seen seen = { 0 };
	struct kh_err err = KH_ERR_INIT;

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	if (!kh_journal_read(fd, see, &seen, &err))
		fail_msg("%s", err.text);
	return seen;
}

static unsigned random_of(uint64_t *state, unsigned below)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*state >> 33) % below;
}

/* Bytes that are torn, as a worker that was taken over would choose them: lines of a fork with
 * hashes of its choice or sound ones, false explanations, and beginnings of lines. */
static void tear(int fd, uint64_t *state, struct link *fork)
{
	static const char *const bodies[] = {
		"{\"event\":\"open\"," TIME ",\"id\":\"x00000000000000ff\"",
		"{\"event\":\"close\"," TIME ",\"id\":\"x0000000000000001\"",
		"{\"event\":\"start\"," TIME ",\"format\":1",
		"{\"event\":\"recovered\"," TIME ",\"offset\":1,\"bytes\":1,\"sha256\":\"0000\"",
	};
	char line[1024], says[65];

	memset(says, 'a' + (int)random_of(state, 6), 64);
	says[64] = '\0';
	/* Not sound where it would be next: a sound one there would be a record. */
	fork->seq += random_of(state, 2);
	seal(line, bodies[random_of(state, 4)], fork, says);
	if (random_of(state, 3) == 0)
		line[random_of(state, 100) + 20] = '\0';
	else
		go_on(fork, line);
	put_line(fd, line);
}

static void a_reader_sees_exactly_what_verification_counts(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		int fd = new_file();
		uint64_t random = seed;
		struct link link = genesis(), fork = link;
		unsigned id = 1, exchanges = 0, torn = 0;

		add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
		for (unsigned steps = 2 + random_of(&random, 12); steps > 0; steps--) {
			if (random_of(&random, 2)) {
				add_id(fd, &link, "open", id);
				add_id(fd, &link, "close", id++);
				exchanges++;
				continue;
			}
			uint64_t offset = size_of(fd);
			/* A fork from here, or one that goes on from an earlier one. */
			if (random_of(&random, 2))
				fork = link;
			for (unsigned n = 1 + random_of(&random, 3); n > 0; n--)
				tear(fd, &random, &fork);
			recover(fd, &link, offset);
			torn++;
		}
		struct kh_verify_report report = verified(fd);
		struct seen seen = seen_in(fd);
		if (!report.ok)
			fail_msg("seed %llu: %s", (unsigned long long)seed, report.problem);
		assert_false(seen.waiting);
		assert_int_equal(report.opens, exchanges);
		assert_int_equal(report.recovered, torn);
		assert_int_equal(seen.records, link.seq);
		assert_int_equal(seen.opens, report.opens);
		assert_int_equal(seen.closes, report.closes);
		assert_int_equal(seen.recovered, report.recovered);
		assert_int_equal(seen.last_seq, report.last_seq);
		close(fd);
	}
}

/* Only the bytes that it names, by members of its own. */
static void a_member_of_an_inner_object_is_none_of_the_record(void **state)
{
	int fd = new_file();
	struct link link = genesis();
	static const char torn[] = "no record";
	char body[512], hex[65];

	(void)state;
	add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
	uint64_t offset = size_of(fd);
	put_line(fd, torn);
	hex_of(torn, strlen(torn), hex);
	snprintf(body, sizeof(body),
		 "{\"event\":\"recovered\"," TIME
		 ",\"x\":{\"a\":1,\"offset\":%llu,\"bytes\":%zu,\"b\":[\"}\"],\"sha256\":\"%s\"},"
		 "\"offset\":0,\"bytes\":0,\"sha256\":\"%s\"",
		 (unsigned long long)offset, strlen(torn), hex, kh_audit_genesis_hex);
	add(fd, &link, body);
	assert_false(verified(fd).ok);
	assert_true(seen_in(fd).waiting);
	close(fd);

	struct kh_slice line =
		KH_SLICE("{\"a\":{\"n\":1},\"b\":[{\"n\":2}],\"c\":\"\\\",\\\"n\\\":3\","
			 "\"n\":4,\"m\":5.5}");
	uint64_t n;
	assert_true(kh_line_number(line, "n", &n));
	assert_int_equal(n, 4);
	assert_false(kh_line_number(line, "m", &n));
	assert_false(kh_line_number(line, "o", &n));
}

static void more_than_any_record_explains_is_not_explained(void **state)
{
	int fd = new_file();
	struct link link = genesis();
	static char line[1024 * 1024];

	(void)state;
	add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
	uint64_t offset = size_of(fd);
	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	for (size_t n = 0; n <= KH_LIMIT_TORN_BYTES / sizeof(line); n++)
		assert_int_equal(write(fd, line, sizeof(line)), (ssize_t)sizeof(line));
	recover(fd, &link, offset);
	assert_false(verified(fd).ok);
	assert_true(seen_in(fd).waiting);
	close(fd);
}

/* What the next worker writes of the exchanges that this journal leaves. */
static struct kh_journal_report continued(int fd)
{
	struct kh_journal_report report;

	kh_journal_close(opened(fd, &report));
	assert_verifies(fd);
	return report;
}

static void a_torn_line_opens_and_ends_no_exchange(void **state)
{
	static const char *const torn[] = {
		"{\"event\":\"open\"," TIME ",\"id\":\"x00000000000000ff\"",
		"{\"event\":\"close\"," TIME ",\"id\":\"x0000000000000001\"",
		"{\"event\":\"aborted\"," TIME ",\"id\":\"x0000000000000001\"",
		"{\"event\":\"start\"," TIME ",\"format\":1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(torn) / sizeof(*torn); i++) {
		/* With a hash of somebody's choice. */
		int fd = new_file();
		struct link link = genesis(), fork = { .seq = 7 };
		char line[1024];

		memset(fork.head, 'b', 64);
		add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
		add_id(fd, &link, "open", 1);
		uint64_t offset = size_of(fd);
		seal(line, torn[i], &fork, fork.head);
		put_line(fd, line);
		recover(fd, &link, offset);
		add_id(fd, &link, "open", 2);
		struct kh_journal_report report = continued(fd);
		assert_int_equal(report.aborted, 2);
		assert_int_equal(report.unread, 0);
		struct kh_verify_report verdict = verified(fd);
		assert_int_equal(verdict.opens, 2);
		assert_int_equal(verdict.aborted, 2);
		assert_int_equal(verdict.unclosed, 0);
		close(fd);
	}
}

/* The chain is followed from an earlier life; if that leads nowhere, nothing is made up. */
static void a_chain_that_does_not_lead_to_the_last_line_was_not_read(void **state)
{
	int fd = new_file();
	struct link link = genesis();
	struct kh_journal_report report;

	(void)state;
	add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
	add_id(fd, &link, "open", 1);
	memset(link.head, 'c', 64);
	add_id(fd, &link, "open", 2);
	uint64_t end = size_of(fd);
	kh_journal_free(opened(fd, &report));
	assert_int_equal(report.aborted, 0);
	assert_int_equal(report.unread, end);
	close(fd);
}

static void assert_unmatched(int fd, uint64_t line, uint64_t unclosed)
{
	struct kh_verify_report report = verified(fd);

	assert_false(report.ok);
	assert_int_equal(report.bad_line, line);
	assert_int_equal(report.unmatched, 1);
	assert_int_equal(report.unclosed, unclosed);
	assert_non_null(strstr(report.problem, "not open"));
	close(fd);
}

static void exchanges_without_an_end_are_counted_by_id(void **state)
{
	int fd = new_file();
	struct link link = genesis();

	(void)state;
	add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
	add_id(fd, &link, "open", 1);
	add_id(fd, &link, "close", 77);
	assert_unmatched(fd, 3, 1);

	fd = new_file();
	link = genesis();
	add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
	add_id(fd, &link, "open", 1);
	add_id(fd, &link, "open", 2);
	add_id(fd, &link, "close", 2);
	add_id(fd, &link, "close", 2);
	assert_unmatched(fd, 5, 1);

	fd = new_file();
	link = genesis();
	add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
	add_id(fd, &link, "open", 1);
	add(fd, &link, "{\"event\":\"aborted\"," TIME ",\"count\":1000");
	assert_verifies(fd);
	assert_int_equal(verified(fd).unclosed, 1);
	close(fd);
}

/* Beyond the bound ends are not matched by id, and verification says from where on. */
static void more_open_exchanges_than_have_names_are_said(void **state)
{
	struct kh_ids ids;

	(void)state;
	assert_true(kh_ids_init(&ids, 2));
	for (uint64_t id = 1; id <= 3; id++)
		assert_true(kh_ids_add(&ids, id));
	assert_int_equal(ids.unnamed, 1);
	assert_true(kh_ids_remove(&ids, 3));
	assert_int_equal(ids.unnamed, 0);
	assert_false(kh_ids_remove(&ids, 3));
	assert_true(kh_ids_remove(&ids, 1));
	assert_false(kh_ids_remove(&ids, 1));
	kh_ids_clear(&ids);
}

static void an_event_that_is_not_known_is_named(void **state)
{
	int fd = new_file();
	struct link link = genesis();

	(void)state;
	add(fd, &link, "{\"event\":\"start\"," TIME ",\"format\":1");
	add(fd, &link, "{\"event\":\"novelty\"," TIME);
	add(fd, &link, "{\"event\":\"other\"," TIME);
	struct kh_verify_report report = verified(fd);
	assert_true(report.ok);
	assert_int_equal(report.unknown, 2);
	assert_int_equal(report.unknown_line, 2);
	assert_string_equal(report.unknown_event, "novelty");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_sees_exactly_what_verification_counts),
		cmocka_unit_test(a_member_of_an_inner_object_is_none_of_the_record),
		cmocka_unit_test(more_than_any_record_explains_is_not_explained),
		cmocka_unit_test(a_torn_line_opens_and_ends_no_exchange),
		cmocka_unit_test(a_chain_that_does_not_lead_to_the_last_line_was_not_read),
		cmocka_unit_test(exchanges_without_an_end_are_counted_by_id),
		cmocka_unit_test(more_open_exchanges_than_have_names_are_said),
		cmocka_unit_test(an_event_that_is_not_known_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
