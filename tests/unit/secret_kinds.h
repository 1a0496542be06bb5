/* secret_kinds.h - a secret in each kind of page that this host has */
#ifndef KEYHOLE_TESTS_SECRET_KINDS_H
#define KEYHOLE_TESTS_SECRET_KINDS_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/secret.h>

#include "base/secret_internal.h"

/* Each test runs on all kinds of pages, shut in either way. */
struct kind {
	bool memfd, mprotect;
	const char *region; /* its name in /proc/self/maps */
};

static struct kind keyed_kind = { false, false, "/secretmem" };
static struct kind memfd_secret_kind = { false, true, "/secretmem" };
static struct kind memfd_kind = { true, true, "/memfd:keyhole-secret" };

static inline int use_kind(void **state)
{
	const struct kind *kind = *state;
	kh_secret_force_memfd(kind->memfd);
	kh_secret_force_mprotect(kind->mprotect);
	return 0;
}

/* The machine may lack memfd_secret or protection keys; then that part of the tests says so. */
static inline bool lacks_it(const struct kind *kind)
{
	if (!kind->memfd && strcmp(kh_secret_backing(), "memfd_secret") != 0) {
		print_message("this kernel gives no memfd_secret\n");
		return true;
	}
	if (!kind->mprotect && kh_secret_key() == KH_SECRET_NO_KEY) {
		print_message("this machine has no memory protection keys\n");
		return true;
	}
	return false;
}

#define SKIP_WITHOUT(kind) \
	do { \
		if (lacks_it(kind)) \
			skip(); \
	} while (0)

static const char the_value[] = "correct-horse-battery-staple";

enum { VALUE_LEN = sizeof(the_value) - 1 };

static inline struct kh_secret *new_secret(void)
{
	char value[VALUE_LEN];
	memcpy(value, the_value, VALUE_LEN);
	struct kh_err err = KH_ERR_INIT;
	struct kh_secret *secret = kh_secret_new(value, VALUE_LEN, &err);
	if (!secret)
		fail_msg("%s", err.text);
	return secret;
}

struct region {
	char *at;
	size_t len;
	char perms[8];
};

/* The regions of that name in this process. */
static inline size_t find_regions(const struct kind *kind, struct region *out, size_t most)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	assert_non_null(maps);
	char line[1024];
	size_t n = 0;
	while (n < most && fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		if (!strstr(line, kind->region) ||
		    sscanf(line, "%lx-%lx %7s", &from, &to, out[n].perms) != 3)
			continue;
		memcpy(&out[n].at, &from, sizeof(from));
		out[n++].len = to - from;
	}
	(void)fclose(maps);
	return n;
}

static inline bool has_the_value(struct kh_slice value, void *arg)
{
	(void)arg;
	return kh_slice_eq(value, kh_slice_of(the_value, VALUE_LEN));
}

/* Runs it in a child of its own. Return: the wait status. */
static inline int in_child(void (*body)(void *), void *arg)
{
	(void)fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* A sanitizer would turn the signal into a report. */
		(void)signal(SIGSEGV, SIG_DFL);
		(void)signal(SIGBUS, SIG_DFL);
		const struct rlimit none = { 0, 0 };
		(void)setrlimit(RLIMIT_CORE, &none);
		body(arg);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define EACH(test) \
	{ #test " (memfd_secret, key)", test, use_kind, NULL, &keyed_kind }, \
		{ #test " (memfd_secret)", test, use_kind, NULL, &memfd_secret_kind }, \
	{ \
#test " (memfd)", test, use_kind, NULL, &memfd_kind \
	}

#endif
