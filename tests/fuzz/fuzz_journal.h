/* fuzz_journal.h - journals in memory, for the fuzz targets */
#ifndef KEYHOLE_TESTS_FUZZ_JOURNAL_H
#define KEYHOLE_TESTS_FUZZ_JOURNAL_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/audit/audit.h>

static inline void fuzz_must(bool so)
{
	if (!so)
		abort();
}

/* Open for reading, from the start, and for appending. */
static inline int fuzz_file(const char *bytes, size_t len)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);

	fuzz_must(fd >= 0);
	fuzz_must(len == 0 || pwrite(fd, bytes, len, 0) == (ssize_t)len);
	fuzz_must(fcntl(fd, F_SETFL, O_APPEND) == 0);
	return fd;
}

static inline char *fuzz_read(int fd, size_t *len)
{
	struct stat st;
	char *bytes;

	fuzz_must(fstat(fd, &st) == 0);
	*len = (size_t)st.st_size;
	bytes = malloc(*len + 1);
	fuzz_must(bytes && pread(fd, bytes, *len, 0) == (ssize_t)*len);
	return bytes;
}

/* A life of so many exchanges, in good order. Return: false when the journal is not continued. */
static inline bool fuzz_life(int fd, int exchanges)
{
	struct kh_journal *journal = kh_journal_open(fd, KH_DURABILITY_WRITTEN, NULL, NULL);
	struct kh_batch batch;
	char id[KH_EXCHANGE_ID_BYTES];
	struct kh_audit_open open = { .id = id, .tenant = "acme", .path = KH_SLICE("/v1") };
	struct kh_audit_close close = { .id = id, .status = 200, .complete = true };

	if (!journal)
		return false;
	kh_batch_init(&batch);
	for (int i = 0; i < exchanges; i++) {
		kh_exchange_id(id);
		fuzz_must(kh_audit_open(&batch, &open) && kh_audit_close(&batch, &close));
	}
	fuzz_must(kh_journal_commit(journal, &batch, NULL));
	kh_batch_fini(&batch);
	kh_journal_close(journal);
	return true;
}

#endif
