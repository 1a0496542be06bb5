/* journal_faults.h - a disk that fills up, and a journal that is looked at */
#ifndef KEYHOLE_TESTS_JOURNAL_FAULTS_H
#define KEYHOLE_TESTS_JOURNAL_FAULTS_H

#include "audit_helpers.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <openssl/sha.h>

#include "audit/audit_internal.h"

/* A disk that fills up and a file that can't be cut back, on demand. */
static int failing_fd = -1;
static size_t room = SIZE_MAX;
static bool no_truncate;
static int syncs, failing_syncs;

ssize_t __real_write(int fd, const void *bytes, size_t len);
int __real_ftruncate(int fd, off_t len);

ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
	if (fd == failing_fd && len > room) {
		if (room == 0) {
			errno = ENOSPC;
			return -1;
		}
		len = room;
	}
	if (fd == failing_fd && room != SIZE_MAX)
		room -= len;
	return __real_write(fd, bytes, len);
}

int __wrap_ftruncate(int fd, off_t len)
{
	if (fd == failing_fd && no_truncate) {
		errno = EPERM;
		return -1;
	}
	return __real_ftruncate(fd, len);
}

int __wrap_fdatasync(int fd)
{
	(void)fd;
	syncs++;
	if (failing_syncs > 0) {
		failing_syncs--;
		errno = EIO;
		return -1;
	}
	return 0;
}

static inline void fail_after(int fd, size_t bytes, bool truncate_fails)
{
	failing_fd = fd;
	room = bytes;
	no_truncate = truncate_fails;
}

static inline void work_again(void)
{
	failing_fd = -1;
	room = SIZE_MAX;
	no_truncate = false;
}

/* The chain, computed here anew by other means than the product's. */
static inline void assert_chain(int fd, uint64_t lines)
{
	size_t len;
	char *bytes = read_back(fd, &len), *at = bytes, *newline;
	char prev[65];
	uint64_t seq = 0;

	memset(prev, '0', 64);
	prev[64] = '\0';
	for (; (newline = strchr(at, '\n')); at = newline + 1) {
		unsigned char hash[32];
		char hex[65], want[256];
		char *mark;

		*newline = '\0';
		mark = strstr(at, ",\"hash\":\"");
		assert_non_null(mark);
		SHA256((unsigned char *)at, (size_t)(mark - at), hash);
		for (size_t i = 0; i < 32; i++)
			snprintf(hex + 2 * i, 3, "%02x", hash[i]);
		seq++;
		snprintf(want, sizeof(want), ",\"seq\":%llu,\"prev\":\"%s\",\"hash\":\"%s\"}",
			 (unsigned long long)seq, prev, hex);
		assert_string_equal(strstr(at, ",\"seq\":"), want);
		memcpy(prev, hex, 65);
	}
	assert_int_equal(*at, '\0');
	assert_int_equal(seq, lines);
	free(bytes);
}

/* A life that was cut off: start, two exchanges, an open. */
static inline char *cut_off_life(size_t *len)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_batch batch;
	char *bytes;

	write_exchanges(journal, 2);
	kh_batch_init(&batch);
	put_open(&batch, "x00000000000000aa");
	committed(journal, &batch);
	kh_batch_fini(&batch);
	bytes = read_back(fd, len);
	kh_journal_free(journal);
	close(fd);
	return bytes;
}

static inline size_t last_line(const char *bytes, size_t len)
{
	size_t at = len - 1;

	while (at > 0 && bytes[at - 1] != '\n')
		at--;
	return at;
}

#endif
