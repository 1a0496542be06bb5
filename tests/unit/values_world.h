/* values_world.h - a worker that asks for values, and the keeper that answers */
#ifndef KEYHOLE_TESTS_VALUES_WORLD_H
#define KEYHOLE_TESTS_VALUES_WORLD_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/worker_messages.h>
#include <keyhole/loop/values.h>

static uint64_t mono_ms, wall_ms;

uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_wall_ms(void);

uint64_t __wrap_kh_clock_mono_ms(void)
{
	return mono_ms;
}

uint64_t __wrap_kh_clock_wall_ms(void)
{
	return wall_ms;
}

enum { GENERATION = 3, ONE = 0, BY_TENANT = 1 };

static struct kh_channel keeper;
static struct kh_worker worker;
static struct kh_generation gen;
static struct kh_listener_stats listener_stats, other, *stats_list[2];
static struct kh_listener_stats *asker; /* whose requests these are */

static const char yaml[] =
	"version: 1\n"
	"listen: [ { unix: d/s, tenant: acme }, { unix: d/t, tenant: globex } ]\n"
	"credentials:\n"
	"  one: { value: { env: ONE }, header: { x-a: \"{}\" }, hosts: [ a.test ] }\n"
	"  two: { value: { env: TWO }, header: { x-a: \"{}\" }, hosts: [ a.test ] }\n"
	"tenants: { acme: { rules: [] }, globex: { rules: [] } }\n";

static inline int set_up(void **state)
{
	int fds[2];
	struct kh_diagnostics diags = { 0 };
	(void)state;
	mono_ms = 1000000;
	wall_ms = 1800000000000;
	kh_secret_prepare();
	memset(&worker, 0, sizeof(worker));
	memset(&gen, 0, sizeof(gen));
	memset(&listener_stats, 0, sizeof(listener_stats));
	memset(&other, 0, sizeof(other));
	listener_stats.number = 21;
	other.number = 20;
	stats_list[0] = &listener_stats;
	stats_list[1] = &other;
	gen.listener_stats_list = stats_list;
	asker = &listener_stats;
	if (!kh_channel_pair(fds, NULL) ||
	    !kh_channel_init(&worker.channel, fds[0], KH_WORKER_MSG_TO_WORKER_SET, NULL) ||
	    !kh_channel_init(&keeper, fds[1], KH_WORKER_MSG_TO_KEEPER_SET, NULL))
		return -1;
	pthread_mutex_init(&gen.lock, NULL);
	gen.number = GENERATION;
	gen.config = kh_config_parse("test", kh_slice_str(yaml), NULL, "/nowhere", &diags);
	kh_diagnostics_fini(&diags);
	gen.slots = calloc(3, sizeof(*gen.slots));
	if (!gen.config || !gen.slots)
		return -1;
	gen.config->credentials[BY_TENANT].by_tenant = true;
	worker.current = &gen;
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	kh_values_free(&gen);
	kh_config_free(gen.config);
	pthread_mutex_destroy(&gen.lock);
	kh_channel_fini(&keeper);
	kh_channel_fini(&worker.channel);
	return 0;
}

static inline struct kh_credential_ref wanted(uint16_t index, uint16_t tenant, const char *scope)
{
	return (struct kh_credential_ref){ index, tenant, kh_slice_str(scope) };
}

static char why[KH_ERR_TEXT_BYTES];

/* The value's first letter stands for it: 0: there is none. */
static inline bool first_letter(struct kh_slice value, void *arg)
{
	*(char *)arg = value.ptr[0];
	return true;
}

static inline enum kh_slot_state get(struct kh_credential_ref want, char *letter)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_secret *secret;
	enum kh_slot_state state = kh_worker_secret(&worker, &gen, &want, asker, &secret, &err);
	*letter = 0;
	assert_int_equal(secret != NULL, state == KH_SLOT_FULL);
	if (secret)
		assert_true(kh_secret_expose(secret, first_letter, letter));
	kh_secret_unref(secret);
	memcpy(why, err.text, sizeof(why));
	return state;
}

static inline void expect(struct kh_credential_ref want, enum kh_slot_state state, char letter)
{
	char got;
	assert_int_equal(get(want, &got), state);
	assert_int_equal(got, letter);
}

/* The keeper was asked for exactly this, or (NULL) for nothing. */
static inline void expect_question(const struct kh_credential_ref *want)
{
	struct kh_channel_message message;
	struct kh_credential_ref got;
	enum kh_channel_status status = kh_channel_receive(&keeper, false, &message);
	if (!want) {
		assert_int_equal(status, KH_CHANNEL_AGAIN);
		return;
	}
	assert_int_equal(status, KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_CREDENTIAL_REQUEST);
	assert_int_equal(message.ref, GENERATION);
	struct kh_wire_reader r = { .rest = message.body };
	assert_true(kh_credential_ref_take(&r, &got));
	assert_int_equal(kh_wire_u64(&r), asker == &listener_stats ? 1 : 2);
	(void)kh_wire_u16(&r);
	assert_true(kh_wire_done(&r));
	assert_int_equal(got.index, want->index);
	assert_int_equal(got.tenant, want->tenant);
	assert_true(kh_slice_eq(got.scope, want->scope));
}

/* A request for it makes the worker ask the keeper. */
static inline void expect_to_ask(struct kh_credential_ref want)
{
	expect(want, KH_SLOT_ASKED, 0);
	expect_question(&want);
}

/* `value` NULL: there is none, for the reason "none". */
static inline void answer_with(struct kh_credential_ref want, char *value, size_t len,
			       uint64_t expires_ms)
{
	struct kh_buf body;
	struct kh_channel_message message;
	struct kh_secret *secret = NULL;
	int fd = -1;
	kh_buf_init(&body, 1024);
	if (value) {
		secret = kh_secret_new(value, len, NULL);
		assert_non_null(secret);
		fd = kh_secret_fd(secret);
		assert_true(fd >= 0);
	}
	assert_true(kh_credential_ref_put(&body, &want) &&
		    kh_wire_put_u32(&body, value ? (uint32_t)len : 0) &&
		    kh_wire_put_u64(&body, expires_ms) &&
		    kh_wire_put_str(&body, value ? NULL : "none"));
	assert_true(kh_channel_send(&keeper, KH_WORKER_MSG_CREDENTIAL, GENERATION,
				    kh_buf_view(&body), &fd, fd >= 0 ? 1 : 0, NULL));
	if (fd >= 0)
		(void)close(fd);
	assert_int_equal(kh_channel_receive(&worker.channel, false, &message), KH_CHANNEL_GOT);
	assert_true(kh_values_came(&worker, &message));
	kh_channel_message_close(&message);
	kh_secret_unref(secret);
	kh_buf_fini(&body);
}

static inline void answer(struct kh_credential_ref want, const char *value, uint64_t expires_ms)
{
	char bytes[64];
	(void)snprintf(bytes, sizeof(bytes), "%s", value ? value : "");
	answer_with(want, value ? bytes : NULL, value ? strlen(value) : 0, expires_ms);
}

/* With a value of that length. */
static inline void answer_of(struct kh_credential_ref want, size_t len)
{
	char *bytes = malloc(len);
	assert_non_null(bytes);
	memset(bytes, 'v', len);
	answer_with(want, bytes, len, 0);
	free(bytes);
}

static inline void say_stale_of(struct kh_credential_ref want, bool whole)
{
	struct kh_buf body;
	kh_buf_init(&body, 128);
	assert_true(kh_wire_put_u8(&body, whole) && kh_credential_ref_put(&body, &want));
	const struct kh_channel_message message = { .type = KH_WORKER_MSG_CREDENTIAL_STALE,
						    .ref = GENERATION,
						    .body = kh_buf_view(&body) };
	assert_true(kh_values_stale(&worker, &message));
	kh_buf_fini(&body);
}

static inline void say_stale(uint16_t index)
{
	say_stale_of(wanted(index, KH_NO_TENANT, ""), true);
}

#endif
