/* audit_helpers.h - journals for tests */
#ifndef KEYHOLE_TESTS_AUDIT_HELPERS_H
#define KEYHOLE_TESTS_AUDIT_HELPERS_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <keyhole/audit/audit.h>
#include <keyhole/base/limits.h>

/* An unlinked file that takes appends, as the keeper opens it. */
static inline int new_file(void)
{
	char path[] = "/tmp/kh-journal-XXXXXX";
	int fd = mkostemp(path, O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	return fd;
}

/* Terminated; the caller frees. */
static inline char *read_back(int fd, size_t *len)
{
	struct stat st;
	char *bytes;

	assert_int_equal(fstat(fd, &st), 0);
	*len = (size_t)st.st_size;
	bytes = malloc(*len + 1);
	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, *len, 0), (ssize_t)*len);
	bytes[*len] = '\0';
	return bytes;
}

static inline int file_of(const char *bytes, size_t len)
{
	int fd = new_file();

	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static inline struct kh_verify_report verified(int fd)
{
	struct kh_verify_report report;
	struct kh_err err = KH_ERR_INIT;

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	if (!kh_journal_verify(fd, &report, &err))
		fail_msg("%s", err.text);
	return report;
}

static inline void assert_verifies(int fd)
{
	struct kh_verify_report report = verified(fd);

	if (!report.ok)
		fail_msg("%s", report.problem);
}

static inline struct kh_journal *opened(int fd, struct kh_journal_report *report)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_journal *journal = kh_journal_open(fd, KH_DURABILITY_WRITTEN, report, &err);

	if (!journal)
		fail_msg("%s", err.text);
	return journal;
}

static inline void put_open(struct kh_batch *batch, const char *id)
{
	static const struct kh_authority authority = {
		.host = { .kind = KH_HOST_NAME, .len = 15, .text = "api.example.com" },
		.port = 443,
	};
	struct kh_audit_open record = {
		.id = id,
		.tenant = "acme",
		.sandbox = "s1",
		.peer_pid = 17,
		.peer_uid = 1000,
		.method = KH_SLICE("POST"),
		.scheme = KH_SCHEME_HTTPS,
		.authority = &authority,
		.path = KH_SLICE("/v1/messages"),
		.query = KH_SLICE("beta=true"),
		.rule = "POST https://api.example.com/v1/messages",
		.rule_where = { .line = 12 },
		.rule_file = "keyhole.yaml",
		.credential = "example",
		.stripped = "authorization",
	};

	assert_true(kh_audit_open(batch, &record));
}

static inline void put_close(struct kh_batch *batch, const char *id)
{
	struct kh_audit_close record = {
		.id = id,
		.status = 200,
		.up_bytes = 1024,
		.down_bytes = 4096,
		.duration_ms = 1234,
		.first_byte_ms = 400,
		.peer = "192.0.2.1:443",
		.tls = "TLSv1.3",
		.complete = true,
	};

	assert_true(kh_audit_close(batch, &record));
}

static inline void committed(struct kh_journal *journal, struct kh_batch *batch)
{
	struct kh_err err = KH_ERR_INIT;

	if (!kh_journal_commit(journal, batch, &err))
		fail_msg("%s", err.text);
	assert_int_equal(batch->count, 0);
}

/* `n` exchanges, open and close, a commit each. */
static inline void write_exchanges(struct kh_journal *journal, int n)
{
	struct kh_batch batch;
	char id[KH_EXCHANGE_ID_BYTES];

	kh_batch_init(&batch);
	for (int i = 0; i < n; i++) {
		kh_exchange_id(id);
		put_open(&batch, id);
		committed(journal, &batch);
		put_close(&batch, id);
		committed(journal, &batch);
	}
	kh_batch_fini(&batch);
}

#endif
