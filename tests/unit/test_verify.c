/* test_verify.c - whatever is done to a journal afterwards is seen, and where */
#include "audit_helpers.h"

#include <string.h>

#include <openssl/sha.h>

#include "audit/audit_internal.h"

enum { MOST_LINES = 32 };

/* A journal as lines that a test can change, drop and move. */
struct lines {
	char *line[MOST_LINES]; /* without the newline */
	size_t count;
};

static void take_apart(struct lines *lines, int fd)
{
	size_t len;
	char *bytes = read_back(fd, &len), *at = bytes, *newline;

	lines->count = 0;
	for (; (newline = strchr(at, '\n')); at = newline + 1) {
		assert_true(lines->count < MOST_LINES);
		lines->line[lines->count++] = strndup(at, (size_t)(newline - at));
	}
	free(bytes);
}

/* start, 5 exchanges (10 lines), stop. */
static void some_lines(struct lines *lines)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);

	write_exchanges(journal, 5);
	kh_journal_close(journal);
	take_apart(lines, fd);
	assert_int_equal(lines->count, 12);
	close(fd);
}

static void free_lines(struct lines *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		free(lines->line[i]);
}

/* Writes the lines, verifies, and frees them. */
static struct kh_verify_report verdict_on(struct lines *lines)
{
	int fd = new_file();
	struct kh_verify_report report;

	for (size_t i = 0; i < lines->count; i++)
		dprintf(fd, "%s\n", lines->line[i]);
	report = verified(fd);
	close(fd);
	free_lines(lines);
	return report;
}

/* Lines are counted from 1 here. */
static void drop(struct lines *lines, size_t number)
{
	free(lines->line[number - 1]);
	memmove(&lines->line[number - 1], &lines->line[number],
		(lines->count - number) * sizeof(char *));
	lines->count--;
}

/* `text` in the place of a line. */
static void put(struct lines *lines, size_t number, const char *text)
{
	char *copy = strdup(text);

	free(lines->line[number - 1]);
	lines->line[number - 1] = copy;
}

static void insert(struct lines *lines, size_t number, const char *text)
{
	memmove(&lines->line[number], &lines->line[number - 1],
		(lines->count - number + 1) * sizeof(char *));
	lines->line[number - 1] = strdup(text);
	lines->count++;
}

static void swap(struct lines *lines, size_t a, size_t b)
{
	char *line = lines->line[a - 1];

	lines->line[a - 1] = lines->line[b - 1];
	lines->line[b - 1] = line;
}

/* Gives a line the hash that fits it. */
static void rehash(char *line)
{
	char *mark = strstr(line, ",\"hash\":\"");
	unsigned char hash[32];

	assert_non_null(mark);
	SHA256((unsigned char *)line, (size_t)(mark - line), hash);
	for (size_t i = 0; i < 32; i++) {
		char hex[3];

		snprintf(hex, sizeof(hex), "%02x", hash[i]);
		memcpy(mark + 9 + 2 * i, hex, 2);
	}
}

static void assert_verdict(const struct kh_verify_report *report, uint64_t line, const char *says)
{
	assert_false(report->ok);
	if (report->bad_line != line || !strstr(report->problem, says))
		fail_msg("line %llu: \"%s\"; expected line %llu and \"%s\"",
			 (unsigned long long)report->bad_line, report->problem,
			 (unsigned long long)line, says);
}

/* Whoever can compute the chain can write a line that says one thing to one reader. */
static void a_hashed_line_that_is_no_json_is_no_record(void **state)
{
	static const char *const bodies[] = {
		"{\"event\":\"stop\",\"time\":\"x\",note",
		"{\"event\":\"stop\",\"time\":\"x\",\"a\":1,\"a\":2",
		"{\"event\":\"stop\",\"time\":\"x\",\"event\":\"deny\"",
		"{\"event\":\"stop\",\"time\":\"x\",\"ev\\u0065nt\":\"deny\"",
		"{\"event\":\"stop\",\"time\":\"x\",\"a\":\"\xff\"",
		"{\"event\":\"stop\",\"time\":\"x\",\"a\":\"\\ud800\"",
		"{\"event\":\"stop\",\"time\":\"x\",\"a\":01",
		"{\"event\":\"stop\",\"time\":\"x\",\"a\":\"\t\"",
		"{\"event\":\"stop\",\"time\":\"x\",\"a\":[1,]",
		"{\"event\":\"stop\",\"time\":\"x\",\"a\":{}}{\"b\":1",
		"{\"event\":\"stop\",\"time\":\"x\", \"a\":1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
		struct lines lines;
		struct kh_verify_report report;
		char line[512];

		some_lines(&lines);
		const char *prev = strstr(lines.line[11], ",\"seq\":");
		assert_non_null(prev);
		snprintf(line, sizeof(line), "%s%s", bodies[i], prev);
		rehash(line);
		put(&lines, 12, line);
		report = verdict_on(&lines);
		assert_verdict(&report, 12, "not JSON that every program reads alike");
	}
}

/* Which exchange a record speaks of, and when, is said in one form. */
static void a_record_has_its_time_and_its_id_in_front_in_one_form(void **state)
{
#define TIME "\"time\":\"2026-11-23T15:00:00.000Z\""
#define ID "x00000000000000ab"
	static const char *const bad[] = {
		"{\"event\":\"stop\",\"time\":\"short\"",
		"{\"event\":\"stop\",\"time\":\"2026-11-23 15:00:00.000Z\"",
		"{\"event\":\"open\",\"time\":\"short\",\"id\":\"" ID "\"",
		"{\"event\":\"open\"," TIME,
		"{\"event\":\"open\"," TIME ",\"id\":5",
		"{\"event\":\"open\"," TIME ",\"id\":\"x0000000000000000\"",
		"{\"event\":\"open\"," TIME ",\"id\":\"x00000000000000AB\"",
		"{\"event\":\"open\"," TIME ",\"id\":\"" ID "0\"",
		"{\"event\":\"close\"," TIME ",\"x\":1,\"id\":\"" ID "\"",
		"{\"event\":\"close\"," TIME,
		"{\"event\":\"deny\"," TIME ",\"tenant\":\"t\"",
		"{\"event\":\"aborted\"," TIME,
		"{\"event\":\"aborted\"," TIME ",\"count\":0",
		"{\"event\":\"aborted\"," TIME ",\"x\":{\"count\":1}",
		"{\"event\":\"aborted\"," TIME ",\"count\":1,\"id\":\"" ID "\"",
		"{\"event\":\"start\"," TIME ",\"format\":1,\"id\":\"" ID "\"",
		"{\"event\":\"stop\"," TIME ",\"id\":5",
		"{\"event\":\"novelty\"," TIME ",\"x\":1,\"id\":null",
		/* A reason is what it says, to every reader. */
		"{\"event\":\"deny\"," TIME ",\"id\":\"" ID "\",\"reason\":\"no_rul\\u0065\"",
		"{\"event\":\"close\"," TIME ",\"id\":\"" ID "\",\"reason\":\"\\u006eo_rule\"",
	};
	static const char *const good[] = {
		"{\"event\":\"open\"," TIME ",\"id\":\"" ID "\"",
		"{\"event\":\"deny\"," TIME ",\"id\":\"" ID "\"",
		"{\"event\":\"deny\"," TIME ",\"id\":\"" ID "\",\"reason\":\"no_rule\"",
		"{\"event\":\"aborted\"," TIME ",\"id\":\"" ID "\"",
		"{\"event\":\"aborted\"," TIME ",\"count\":7",
		"{\"event\":\"aborted\"," TIME ",\"count\":7,\"x\":{\"id\":1}",
	};
	enum { BAD = sizeof(bad) / sizeof(*bad), GOOD = sizeof(good) / sizeof(*good) };

	(void)state;
	for (size_t i = 0; i < BAD + GOOD; i++) {
		struct lines lines;
		struct kh_verify_report report;
		char line[512];

		some_lines(&lines);
		snprintf(line, sizeof(line), "%s%s", i < BAD ? bad[i] : good[i - BAD],
			 strstr(lines.line[11], ",\"seq\":"));
		rehash(line);
		put(&lines, 12, line);
		report = verdict_on(&lines);
		if (i < BAD)
			assert_verdict(&report, 12, "its time, its id or its reason");
		else if (!report.ok && report.unmatched == 0)
			fail_msg("%s: %s", good[i - BAD], report.problem);
	}
}

static void an_untouched_journal_is_good(void **state)
{
	struct lines lines;
	struct kh_verify_report report;
	char last[65];

	(void)state;
	some_lines(&lines);
	memcpy(last, lines.line[11] + strlen(lines.line[11]) - 66, 64);
	last[64] = '\0';
	report = verdict_on(&lines);
	assert_true(report.ok);
	assert_int_equal(report.lines, 12);
	assert_int_equal(report.opens, 5);
	assert_int_equal(report.closes, 5);
	assert_int_equal(report.last_seq, 12);
	assert_int_equal(report.bad_line, 0);
	assert_string_equal(report.problem, "");
	assert_string_equal(report.head, last);
}

static void a_change_of_any_one_byte_is_seen(void **state)
{
	struct lines lines;
	size_t len;

	(void)state;
	some_lines(&lines);
	len = strlen(lines.line[4]);
	free_lines(&lines);
	for (size_t i = 0; i < len; i += 3) {
		struct kh_verify_report report;

		some_lines(&lines);
		lines.line[4][i] ^= 1;
		report = verdict_on(&lines);
		assert_false(report.ok);
		assert_int_equal(report.bad_line, 5);
	}
}

static void a_changed_line_is_named(void **state)
{
	struct lines lines;
	struct kh_verify_report report;
	char *method;

	(void)state;
	some_lines(&lines);
	method = strstr(lines.line[3], "POST");
	assert_non_null(method);
	method[0] = 'p';
	report = verdict_on(&lines);
	assert_verdict(&report, 4, "changed");
}

static void a_changed_line_with_a_hash_that_fits_is_named(void **state)
{
	struct lines lines;
	struct kh_verify_report report;

	(void)state;
	some_lines(&lines);
	memcpy(strstr(lines.line[3], "POST"), "HEAD", 4);
	rehash(lines.line[3]);
	report = verdict_on(&lines);
	assert_verdict(&report, 4, "rewritten");
}

static void a_missing_line_is_named(void **state)
{
	struct lines lines;
	struct kh_verify_report report;

	(void)state;
	some_lines(&lines);
	drop(&lines, 6);
	report = verdict_on(&lines);
	assert_verdict(&report, 6, "seq 7 where 6 is due: 1 missing");
	some_lines(&lines);
	drop(&lines, 6);
	drop(&lines, 6);
	drop(&lines, 6);
	report = verdict_on(&lines);
	assert_verdict(&report, 6, "3 missing");
}

static void a_missing_beginning_is_named(void **state)
{
	struct lines lines;
	struct kh_verify_report report;

	(void)state;
	some_lines(&lines);
	drop(&lines, 1);
	drop(&lines, 1);
	report = verdict_on(&lines);
	assert_verdict(&report, 1, "the beginning is missing");
}

static void a_moved_line_is_named(void **state)
{
	struct lines lines;
	struct kh_verify_report report;
	char *line;

	(void)state;
	some_lines(&lines);
	swap(&lines, 4, 5);
	report = verdict_on(&lines);
	assert_verdict(&report, 4, "is at line 5 (moved)");
	/* One that goes to the end. */
	some_lines(&lines);
	line = strdup(lines.line[3]);
	drop(&lines, 4);
	insert(&lines, 12, line);
	free(line);
	report = verdict_on(&lines);
	assert_verdict(&report, 4, "is at line 12 (moved)");
	/* One that goes to the front. */
	some_lines(&lines);
	line = strdup(lines.line[8]);
	drop(&lines, 9);
	insert(&lines, 3, line);
	free(line);
	report = verdict_on(&lines);
	assert_verdict(&report, 3, "seq 9 where 3 is due");
}

static void an_inserted_line_is_named(void **state)
{
	struct lines lines;
	struct kh_verify_report report;

	(void)state;
	some_lines(&lines);
	insert(&lines, 7, "{\"event\":\"close\"}");
	report = verdict_on(&lines);
	assert_verdict(&report, 7, "no record");
	some_lines(&lines);
	insert(&lines, 7, "");
	report = verdict_on(&lines);
	assert_verdict(&report, 7, "no record");
	/* A line twice. */
	some_lines(&lines);
	insert(&lines, 7, lines.line[5]);
	report = verdict_on(&lines);
	assert_verdict(&report, 7, "inserted (the same as the line before it)");
	/* An older line again. */
	some_lines(&lines);
	insert(&lines, 7, lines.line[2]);
	report = verdict_on(&lines);
	assert_verdict(&report, 7, "seq 3 where 7 is due: moved here, or inserted");
	/* A forged one, with a seq, a prev and a hash that fit: then the true one is a second. */
	some_lines(&lines);
	insert(&lines, 7, lines.line[6]);
	memcpy(strstr(lines.line[6], "duration"), "DURATION", 8);
	rehash(lines.line[6]);
	report = verdict_on(&lines);
	assert_verdict(&report, 8, "a second line with the seq");
}

static void a_cut_line_is_named(void **state)
{
	struct lines lines;
	struct kh_verify_report report;

	(void)state;
	some_lines(&lines);
	lines.line[5][90] = '\0';
	report = verdict_on(&lines);
	assert_verdict(&report, 6, "no record");
}

static void a_cut_off_end_is_named(void **state)
{
	struct lines lines;
	struct kh_verify_report report;
	int fd = new_file();

	(void)state;
	some_lines(&lines);
	for (int i = 0; i < 5; i++)
		dprintf(fd, "%s\n", lines.line[i]);
	dprintf(fd, "%.60s", lines.line[5]);
	free_lines(&lines);
	report = verified(fd);
	assert_verdict(&report, 6, "cut off");
	close(fd);
}

/* A journal of two lives, the first of which ended in torn bytes. */
static void recovered_lines(struct lines *lines)
{
	int fd = new_file(), cut;
	struct kh_journal *journal = opened(fd, NULL);
	size_t len;
	char *bytes;

	write_exchanges(journal, 2);
	kh_journal_free(journal);
	bytes = read_back(fd, &len);
	close(fd);
	cut = file_of(bytes, len - 90);
	free(bytes);
	kh_journal_close(opened(cut, NULL));
	take_apart(lines, cut);
	close(cut);
	/* start, open, close, open, torn, recovered, aborted, start, stop */
	assert_int_equal(lines->count, 9);
}

static void a_torn_line_that_is_named_is_accepted(void **state)
{
	struct lines lines;
	struct kh_verify_report report;

	(void)state;
	recovered_lines(&lines);
	report = verdict_on(&lines);
	assert_true(report.ok);
	assert_int_equal(report.recovered, 1);
	assert_int_equal(report.lines, 9);
	assert_int_equal(report.last_seq, 8);
	assert_int_equal(report.unclosed, 0);
}

static void a_torn_line_that_is_not_exactly_what_was_named_is_not(void **state)
{
	struct lines lines;
	struct kh_verify_report report;
	char *number;

	(void)state;
	/* Changed. */
	recovered_lines(&lines);
	lines.line[4][50] ^= 1;
	report = verdict_on(&lines);
	assert_verdict(&report, 5, "no record");
	/* Shorter. */
	recovered_lines(&lines);
	lines.line[4][50] = '\0';
	report = verdict_on(&lines);
	assert_verdict(&report, 5, "no record");
	/* Away, and the record that names it stands alone: the chain is whole, its word is not. */
	recovered_lines(&lines);
	drop(&lines, 5);
	report = verdict_on(&lines);
	assert_verdict(&report, 5, "names torn bytes that are not there");
	/* Moved. */
	recovered_lines(&lines);
	swap(&lines, 4, 5);
	report = verdict_on(&lines);
	assert_verdict(&report, 4, "no record");
	/* Named at another place, even with a hash that fits. */
	recovered_lines(&lines);
	number = strstr(lines.line[5], "\"offset\":") + 9;
	*number = (char)(*number == '9' ? '8' : *number + 1);
	rehash(lines.line[5]);
	report = verdict_on(&lines);
	assert_verdict(&report, 5, "no record");
	/* A second one. */
	recovered_lines(&lines);
	insert(&lines, 6, "{\"event\":\"open\",");
	report = verdict_on(&lines);
	assert_verdict(&report, 5, "no record");
	/* A good line that is called torn. */
	recovered_lines(&lines);
	put(&lines, 5, lines.line[3]);
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): verdict_on frees every line */
	report = verdict_on(&lines);
	assert_verdict(&report, 5, "inserted");
}

static void an_empty_file_is_no_journal(void **state)
{
	struct kh_verify_report report;
	int fd = new_file();

	(void)state;
	report = verified(fd);
	assert_false(report.ok);
	assert_non_null(strstr(report.problem, "empty"));
	close(fd);
}

static void a_line_of_any_length_takes_no_more_memory(void **state)
{
	struct kh_verify_report report;
	int fd = new_file();
	char block[4096];

	(void)state;
	memset(block, 'a', sizeof(block));
	for (int i = 0; i < 500; i++)
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	assert_int_equal(write(fd, "\n{}\n", 4), 4);
	report = verified(fd);
	assert_verdict(&report, 1, "too long");
	assert_int_equal(report.lines, 2);
	close(fd);
}

static void what_can_not_be_read_is_an_error(void **state)
{
	struct kh_verify_report report;
	struct kh_err err = KH_ERR_INIT;
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_false(kh_journal_verify(fd, &report, &err));
	assert_int_equal(err.sys, EISDIR);
	assert_false(report.ok);
	close(fd);
}

static void a_journal_is_read_from_a_pipe(void **state)
{
	struct kh_verify_report report;
	struct lines lines;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	some_lines(&lines);
	for (size_t i = 0; i < lines.count; i++)
		dprintf(ends[1], "%s\n", lines.line[i]);
	close(ends[1]);
	free_lines(&lines);
	assert_true(kh_journal_verify(ends[0], &report, NULL));
	assert_true(report.ok);
	assert_int_equal(report.lines, 12);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hashed_line_that_is_no_json_is_no_record),
		cmocka_unit_test(an_untouched_journal_is_good),
		cmocka_unit_test(a_change_of_any_one_byte_is_seen),
		cmocka_unit_test(a_changed_line_is_named),
		cmocka_unit_test(a_changed_line_with_a_hash_that_fits_is_named),
		cmocka_unit_test(a_missing_line_is_named),
		cmocka_unit_test(a_missing_beginning_is_named),
		cmocka_unit_test(a_moved_line_is_named),
		cmocka_unit_test(an_inserted_line_is_named),
		cmocka_unit_test(a_cut_line_is_named),
		cmocka_unit_test(a_cut_off_end_is_named),
		cmocka_unit_test(a_torn_line_that_is_named_is_accepted),
		cmocka_unit_test(a_torn_line_that_is_not_exactly_what_was_named_is_not),
		cmocka_unit_test(an_empty_file_is_no_journal),
		cmocka_unit_test(a_record_has_its_time_and_its_id_in_front_in_one_form),
		cmocka_unit_test(a_line_of_any_length_takes_no_more_memory),
		cmocka_unit_test(what_can_not_be_read_is_an_error),
		cmocka_unit_test(a_journal_is_read_from_a_pipe),
	};

	return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
