/* test_recovered.c - what an honest recovery closes verifies, and no forged one hides a record */
/* wrap: write */
/* wrap: ftruncate */
/* wrap: fdatasync */
#include "journal_faults.h"

#define TIME "\"time\":\"2026-11-24T22:30:00.000Z\""

enum { SEEDS = 300, LINE_ROOM = 1024 };

static unsigned random_of(uint64_t *state, unsigned below)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*state >> 33) % below;
}

static void hex_of(const char *bytes, size_t len, char out[65])
{
	unsigned char hash[32];

	SHA256((const unsigned char *)bytes, len, hash);
	for (size_t i = 0; i < 32; i++)
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

/* A line with a hash that fits. Return: its length, with the newline. */
static size_t seal(char out[LINE_ROOM], const char *body, uint64_t seq, const char *prev)
{
	char hex[65];
	int n = snprintf(out, LINE_ROOM, "%s,\"seq\":%llu,\"prev\":\"%.64s\"", body,
			 (unsigned long long)seq, prev);

	hex_of(out, (size_t)n, hex);
	n += snprintf(out + n, LINE_ROOM - (size_t)n, ",\"hash\":\"%s\"}\n", hex);
	return (size_t)n;
}

/* A record: where it ends, its number and its hash. */
struct place {
	size_t end;
	uint64_t seq;
	char head[65];
};

struct places {
	struct place list[512];
	size_t n;
};

/* Sound lines, wherever they stand. */
static struct places places_in(const char *bytes, size_t len)
{
	struct places out = { .n = 0 };
	struct kh_digest digest;
	struct kh_line line;

	assert_true(kh_digest_init(&digest, NULL));
	for (size_t at = 0; at < len && out.n < 512;) {
		const char *newline = memchr(bytes + at, '\n', len - at);
		size_t end = newline ? (size_t)(newline - bytes) : len;

		if (kh_line_parse(&line, kh_slice_of(bytes + at, end - at)) &&
		    kh_line_is_sound(&digest, &line)) {
			struct place *place = &out.list[out.n++];
			place->end = end + 1;
			place->seq = line.seq;
			snprintf(place->head, sizeof(place->head), "%.64s", line.hash.ptr);
		}
		at = end + 1;
	}
	kh_digest_fini(&digest);
	return out;
}

static size_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (size_t)st.st_size;
}

static void append(int fd, const char *bytes, size_t len)
{
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
}

/* The record that names all bytes from there to the end of the file. */
static void forge_recovered(int fd, const struct place *after)
{
	char body[512], line[LINE_ROOM], hex[65];
	size_t len;
	char *bytes = read_back(fd, &len);
	size_t torn = len - after->end - (bytes[len - 1] == '\n');

	hex_of(bytes + after->end, torn, hex);
	if (bytes[len - 1] != '\n')
		append(fd, "\n", 1);
	free(bytes);
	snprintf(body, sizeof(body),
		 "{\"event\":\"recovered\"," TIME ",\"offset\":%zu,\"bytes\":%zu,\"sha256\":\"%s\"",
		 after->end, torn, hex);
	append(fd, line, seal(line, body, after->seq + 1, after->head));
}

/* A disk that has no more room at a place of its choice; then it has some again, or the worker dies
 * as well. */
static struct kh_journal *fill_up(int fd, struct kh_journal *journal, uint64_t *random)
{
	struct kh_batch batch;
	char id[KH_EXCHANGE_ID_BYTES];

	kh_batch_init(&batch);
	for (unsigned n = 1 + random_of(random, 5); n > 0; n--) {
		kh_exchange_id(id);
		put_open(&batch, id);
	}
	for (unsigned n = 1 + random_of(random, 3); n > 0 && batch.count > 0; n--) {
		size_t fit = random_of(random, 2000);
		/* A newline alone behind torn bytes is the end of a page (test_journal_torn.c). */
		fail_after(fd, fit == 1 ? 2 : fit, true);
		(void)kh_journal_commit(journal, &batch, NULL);
	}
	work_again();
	if (batch.count > 0 && random_of(random, 2))
		committed(journal, &batch);
	kh_batch_fini(&batch);
	return journal;
}

/* A daemon that starts now goes on in this file. */
static void assert_followed(int fd)
{
	const struct kh_journal_past nothing = { .followed = false };
	enum kh_journal_followed how;
	struct kh_checkpoint last;
	struct kh_err err = KH_ERR_INIT;

	if (!kh_journal_is_continued(fd, NULL, &nothing, &how, &last, &err))
		fail_msg("%s", err.text);
	assert_int_equal(how, KH_FOLLOWED_WHOLE);
}

/* Lives of which each was cut off somewhere, or ran into a full disk. */
static int honest_journal(uint64_t *random)
{
	int fd = new_file();

	for (unsigned lives = 1 + random_of(random, 5); lives > 0; lives--) {
		size_t begun = size_of(fd);
		assert_followed(fd);
		struct kh_journal *journal = opened(fd, NULL);

		write_exchanges(journal, (int)random_of(random, 6));
		if (random_of(random, 2))
			journal = fill_up(fd, journal, random);
		if (random_of(random, 3) == 0) {
			kh_journal_close(journal);
			continue;
		}
		kh_journal_free(journal);
		size_t lost = random_of(random, 700), now = size_of(fd);
		size_t end = now - begun > lost ? now - lost : now;
		char last[2] = { '}', '\n' };
		/* No death leaves the newline behind torn bytes and nothing else. */
		assert_true(end < 2 || pread(fd, last, 2, (off_t)end - 2) == 2);
		if (last[1] != '\n' || last[0] == '}')
			assert_int_equal(ftruncate(fd, (off_t)end), 0);
	}
	assert_followed(fd);
	kh_journal_close(opened(fd, NULL));
	return fd;
}

static void what_an_honest_recovery_closes_verifies(void **state)
{
	uint64_t recovered = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed;
		int fd = honest_journal(&random);
		struct kh_verify_report report = verified(fd);

		if (!report.ok)
			fail_msg("seed %llu: %s", (unsigned long long)seed, report.problem);
		assert_int_equal(report.unclosed, 0);
		recovered += report.recovered;
		close(fd);
	}
	assert_true(recovered > SEEDS / 4);
}

/* What a reader takes for the journal. */
struct seen {
	uint64_t last_seq;
	bool broken;
};

static void see(void *context, const struct kh_journal_piece *piece)
{
	struct seen *seen = context;
	struct kh_line line;

	seen->broken |= piece->place == KH_JOURNAL_BROKEN;
	if (piece->place == KH_JOURNAL_APART || piece->place == KH_JOURNAL_BROKEN)
		return;
	assert_true(kh_line_parse(&line, piece->bytes));
	seen->last_seq = line.seq;
}

static struct seen seen_in(int fd)
{
	struct seen seen = { 0 };

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_true(kh_journal_read(fd, see, &seen, NULL));
	return seen;
}

/* What a worker that was taken over may leave before others go on: nothing, a line that continues
 * nothing, one that continues it, bytes that are no record. */
static void plant(int fd, const struct place *last, uint64_t *random)
{
	char line[LINE_ROOM];
	static const char body[] = "{\"event\":\"deny\"," TIME ",\"id\":\"x00000000000000aa\"";
	static const char wrong[] =
		"abababababababababababababababababababababababababababababababab";

	switch (random_of(random, 4)) {
	case 0:
		break;
	case 1:
		append(fd, line, seal(line, body, last->seq + 1, wrong));
		break;
	case 2:
		append(fd, line, seal(line, body, last->seq + 1, last->head));
		break;
	default:
		append(fd, "no record\n", 10);
		break;
	}
}

static void a_forged_recovered_record_over_records_is_never_ok(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed;
		int fd = honest_journal(&random);
		size_t len;
		char *bytes = read_back(fd, &len);
		struct places places = places_in(bytes, len);
		struct place last = places.list[places.n - 1];
		/* The last line is not enough: nothing that is a record must follow. */
		struct place after = places.list[random_of(&random, (unsigned)places.n - 1)];

		free(bytes);
		plant(fd, &last, &random);
		if (random_of(&random, 2))
			append(fd, "{\"event\":\"op", 12);
		forge_recovered(fd, &after);
		struct kh_verify_report report = verified(fd);
		struct seen seen = seen_in(fd);
		if (report.ok)
			fail_msg("seed %llu: lines behind %llu are hidden",
				 (unsigned long long)seed, (unsigned long long)after.seq);
		assert_true(report.problem[0] != '\0');
		assert_true(report.bad_line > 0);
		/* Nor does a reader go on behind it, as if it were the journal. */
		assert_true(seen.broken);
		assert_true(seen.last_seq >= last.seq);
		close(fd);
	}
}

/* The attack as a whole: planted, gone on behind, declared torn. */
static void what_went_on_behind_a_planted_line_can_not_be_declared_torn(void **state)
{
	char line[LINE_ROOM];
	int fd = new_file();
	size_t len;

	(void)state;
	struct kh_journal *journal = opened(fd, NULL);
	write_exchanges(journal, 2);
	kh_journal_close(journal);
	char *bytes = read_back(fd, &len);
	struct places places = places_in(bytes, len);
	struct place last = places.list[places.n - 1];
	free(bytes);
	static const char wrong[] =
		"abababababababababababababababababababababababababababababababab";
	append(fd, line,
	       seal(line, "{\"event\":\"deny\"," TIME ",\"id\":\"x00000000000000aa\"", last.seq + 1,
		    wrong));
	/* Whoever does not follow the chain first goes on there. */
	journal = opened(fd, NULL);
	write_exchanges(journal, 3);
	kh_journal_close(journal);
	assert_false(verified(fd).ok);
	forge_recovered(fd, &last);
	struct kh_verify_report report = verified(fd);
	assert_false(report.ok);
	assert_non_null(strstr(report.problem, ": a record, which line "));
	assert_int_equal(report.bad_line, last.seq + 1);
	assert_true(seen_in(fd).broken);
	close(fd);
}

/* No death leaves a record of another place without its newline: the writer declares none torn. */
static void a_record_of_another_place_is_not_declared_torn_by_the_writer(void **state)
{
	char line[LINE_ROOM];
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	for (int torn = 0; torn < 2; torn++) {
		int fd = new_file();
		struct kh_journal *journal = opened(fd, NULL);
		write_exchanges(journal, 2);
		kh_journal_free(journal);
		size_t len = seal(line, "{\"event\":\"deny\"," TIME ",\"id\":\"x00000000000000aa\"",
				  3, kh_audit_genesis_hex);
		if (torn)
			append(fd, "{\"event\":\"op\n{\"event\":\"recovered\",\"time\":\"\n", 38);
		append(fd, line, len - 1);
		size_t before = size_of(fd);
		assert_null(kh_journal_open(fd, KH_DURABILITY_WRITTEN, NULL, &err));
		assert_int_equal(err.code, KH_ERR_AUDIT_UNAVAILABLE);
		assert_int_equal(size_of(fd), before);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_an_honest_recovery_closes_verifies),
		cmocka_unit_test(a_forged_recovered_record_over_records_is_never_ok),
		cmocka_unit_test(what_went_on_behind_a_planted_line_can_not_be_declared_torn),
		cmocka_unit_test(a_record_of_another_place_is_not_declared_torn_by_the_writer),
	};

	return cmocka_run_group_tests_name("recovered", tests, NULL, NULL);
}
