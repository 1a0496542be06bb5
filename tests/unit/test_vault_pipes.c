/* test_vault_pipes.c - pipes in the place of one tenant's files, while others are served */
/* wrap: kh_clock_mono_ms poll */
#include "config_text.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

enum { FILES = 8, CERTIFICATE = FILES, OWN, NAMES, MINUTE_MS = 60 * 1000 };
/* The key of a client certificate is a file, and the certificate is a pipe. */
static const char *const names[NAMES] = { "f0", "f1", "f2", "f3",   "f4",
					  "f5", "f6", "f7", "cert", "own" };

static uint64_t mono_ms, waited_ms;
/* What holds the pipes open; -1: nobody does. */
static int writers[NAMES];
static char folder[64];
static struct kh_config *config;
static struct kh_vault vault;

uint64_t __real_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void)
{
	return mono_ms;
}

/* Each writer of a pipe that is waited for closes it just before that times out. */
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	uint64_t waits_ms = timeout > 30 ? (uint64_t)timeout - 10 : (uint64_t)timeout;
	struct stat waited, st;
	(void)n;
	assert_true(timeout > 0);
	mono_ms += waits_ms;
	waited_ms += waits_ms;
	assert_int_equal(fstat(fds[0].fd, &waited), 0);
	for (size_t i = 0; i < NAMES; i++) {
		if (writers[i] < 0 || fstat(writers[i], &st) != 0 || st.st_ino != waited.st_ino)
			continue;
		(void)close(writers[i]);
		writers[i] = -1;
	}
	return 1;
}

static void put_file(size_t which, const char *text)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, names[which]);
	assert_true(kh_file_write(path, kh_slice_str(text), 0600, NULL));
}

static void put_pipe(size_t which)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, names[which]);
	kh_auto_free char *new = kh_strf("%s/new", folder);
	assert_int_equal(mkfifo(new, 0600), 0);
	if (writers[which] >= 0)
		(void)close(writers[which]);
	writers[which] = open(new, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	assert_true(writers[which] >= 0);
	assert_int_equal(rename(new, path), 0);
}

static int set_up(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	kh_cleanup(kh_buf_fini) struct kh_buf yaml;
	(void)state;
	memcpy(folder, "/tmp/kh-pipes-XXXXXX", sizeof("/tmp/kh-pipes-XXXXXX"));
	if (!mkdtemp(folder))
		return -1;
	kh_log_set_level(KH_LOG_ERROR);
	kh_buf_init(&yaml, 16 * 1024);
	(void)kh_buf_printf(&yaml,
			    "version: 1\nlisten: [ { unix: d/s, tenant: acme } ]\n"
			    "tenants: { acme: { rules: [ { allow: \"https://a.test\" } ] } }\n"
			    "credentials:\n  pair: { value: { file: %s/own }, mtls: { certificate: "
			    "%s/cert }, hosts: [ a.test ] }\n",
			    folder, folder);
	for (size_t i = 0; i < NAMES; i++) {
		writers[i] = -1;
		put_file(i, "a-value-from-the-start\n");
		if (i != CERTIFICATE)
			(void)kh_buf_printf(
				&yaml,
				"  %s: { value: { file: %s/%s }, header: { x-a: \"{}\" }, "
				"hosts: [ a.test ] }\n",
				names[i], folder, names[i]);
	}
	(void)kh_buf_append(&yaml, "", 1);
	config = config_in(folder, kh_buf_view(&yaml).ptr);
	mono_ms = 1000000;
	waited_ms = 0;
	return kh_vault_open(&vault, config, false, &err) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	kh_vault_close(&vault);
	kh_config_free(config);
	for (size_t i = 0; i < NAMES; i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, names[i]);
		(void)unlink(path);
		if (writers[i] >= 0)
			(void)close(writers[i]);
	}
	return rmdir(folder);
}

static bool copy(struct kh_slice value, void *arg)
{
	(void)snprintf(arg, 64, "%.*s", (int)value.len, value.ptr);
	return true;
}

static void value_of(const char *name, char out[64])
{
	out[0] = '\0';
	for (size_t i = 0; i < config->n_credentials; i++)
		if (strcmp(config->credentials[i].name, name) == 0)
			(void)kh_secret_expose(vault.slots[i].holdings[0].raw.secret, copy, out);
}

/* The keeper looks at its files as often as it would. */
static void serve(uint64_t for_ms, size_t n_pipes)
{
	for (uint64_t end_ms = mono_ms + for_ms; mono_ms < end_ms;) {
		for (size_t i = 0; i < n_pipes; i++)
			if (writers[i] < 0)
				put_pipe(i);
		kh_vault_turn(&vault);
		mono_ms += KH_LIMIT_FILES_LOOK_MS;
	}
}

static void pipes_of_one_tenant_hold_others_up_for_a_second_per_minute(void **state)
{
	uint64_t began_ms = mono_ms;
	(void)state;
	serve(10ULL * MINUTE_MS, CERTIFICATE + 1);
	uint64_t minutes = (mono_ms - began_ms) / MINUTE_MS + 1;
	assert_true(waited_ms > 0);
	if (waited_ms > (minutes + 1) * 2 * KH_LIMIT_PIPE_LOOK_MS)
		fail_msg("all waited %u ms in %u minutes", (unsigned)waited_ms, (unsigned)minutes);
}

static void a_turn_waits_for_all_pipes_together_no_longer_than_its_budget(void **state)
{
	(void)state;
	for (size_t i = 0; i <= CERTIFICATE; i++)
		put_pipe(i);
	kh_vault_turn(&vault);
	/* A little comes back meanwhile. */
	assert_in_range(waited_ms, 1, 2 * KH_LIMIT_PIPE_LOOK_MS + KH_LIMIT_PIPE_LOOK_MS / 10);
}

static void pipes_of_one_tenant_leave_the_files_of_others_as_quick_as_before(void **state)
{
	char value[64];
	(void)state;
	serve(MINUTE_MS, CERTIFICATE + 1);
	put_file(OWN, "another-value-now\n");
	mono_ms += KH_LIMIT_FILES_LOOK_MS;
	uint64_t before_ms = waited_ms;
	kh_vault_turn(&vault);
	value_of("own", value);
	assert_string_equal(value, "another-value-now");
	assert_true(waited_ms - before_ms <= KH_LIMIT_PIPE_LOOK_MS);
}

/* It would be lost else: the kernel tells of it once. */
static void what_changes_while_a_pipe_rests_is_read_after_that(void **state)
{
	char value[64];
	(void)state;
	serve(1000, 1);
	assert_true(waited_ms > 0);
	put_pipe(0);
	assert_int_equal(write(writers[0], "came-by-the-pipe\n", 17), 17);
	mono_ms += KH_LIMIT_FILES_LOOK_MS;
	kh_vault_turn(&vault);
	value_of("f0", value);
	assert_string_equal(value, "a-value-from-the-start");
	assert_in_range(kh_vault_deadline(&vault), mono_ms, mono_ms + KH_LIMIT_PIPE_AGAIN_MS);
	mono_ms += KH_LIMIT_PIPE_AGAIN_MS;
	kh_vault_turn(&vault);
	value_of("f0", value);
	assert_string_equal(value, "came-by-the-pipe");
}

/* The operator would wonder. */
static void a_file_in_the_place_of_a_pipe_is_read_at_once(void **state)
{
	char value[64];
	(void)state;
	serve(1000, 1);
	put_file(0, "a-file-again\n");
	mono_ms += KH_LIMIT_FILES_LOOK_MS;
	kh_vault_turn(&vault);
	value_of("f0", value);
	assert_string_equal(value, "a-file-again");
}

int main(void)
{
#define OF(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		OF(pipes_of_one_tenant_hold_others_up_for_a_second_per_minute),
		OF(a_turn_waits_for_all_pipes_together_no_longer_than_its_budget),
		OF(pipes_of_one_tenant_leave_the_files_of_others_as_quick_as_before),
		OF(what_changes_while_a_pipe_rests_is_read_after_that),
		OF(a_file_in_the_place_of_a_pipe_is_read_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
