/*
 * worker_process_pair.h - a worker process of the keeper, and the end that its worker would hold
 *
 * A child stands in for the worker: it sleeps, and the test speaks for it over the other end of the
 * channel. "Condemned" is checked by the child's death.
 */
#ifndef KEYHOLE_TESTS_WORKER_PROCESS_PAIR_H
#define KEYHOLE_TESTS_WORKER_PROCESS_PAIR_H

#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/tls/tls.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

enum { GENERATION = 3 };

static struct kh_ca *ca;
static struct kh_leaves *leaves; /* for a key */
static struct kh_config *config;
static struct kh_vault vault;
static struct kh_sockets sockets;
static const struct kh_geo_files no_files = { .file = { { .fd = -1 }, { .fd = -1 } } };

struct pair {
	struct kh_worker_process worker_process;
	struct kh_channel worker; /* the worker's end */
};

static inline void begin(struct pair *pair)
{
	int ends[2];
	memset(pair, 0, sizeof(*pair));
	assert_true(kh_channel_pair(ends, NULL));
	pair->worker_process = (struct kh_worker_process){ .config = config,
							   .ca = ca,
							   .vault = &vault,
							   .sockets = &sockets,
							   .geo = &no_files,
							   .generation = GENERATION,
							   .told = GENERATION,
							   .base_known = true,
							   .before = -1,
							   .state = KH_WORKER_PROCESS_STARTING };
	assert_true(kh_channel_init(&pair->worker_process.channel, ends[0],
				    KH_WORKER_MSG_TO_KEEPER_SET, NULL));
	assert_true(kh_channel_init(&pair->worker, ends[1], KH_WORKER_MSG_TO_WORKER_SET, NULL));
	kh_signer_init(&pair->worker_process.signer);
	pair->worker_process.pid = fork();
	assert_true(pair->worker_process.pid >= 0);
	if (pair->worker_process.pid == 0) {
		(void)sleep(60);
		_exit(0);
	}
}

static inline int end(struct pair *pair)
{
	int status;
	kh_worker_process_condemn(&pair->worker_process);
	assert_true(kh_worker_process_reap(&pair->worker_process, true, &status));
	assert_int_equal(pair->worker_process.state, KH_WORKER_PROCESS_NONE);
	kh_channel_fini(&pair->worker);
	kh_worker_process_forget_policy(&pair->worker_process);
	kh_signer_fini(&pair->worker_process.signer);
	return status;
}

static inline void say(struct pair *pair, uint32_t type, struct kh_slice body)
{
	assert_true(kh_channel_send(&pair->worker, type, 7, body, NULL, 0, NULL));
}

static const struct kh_slice nothing = { "", 0 };

static inline void say_key(struct pair *pair)
{
	struct kh_buf body;
	kh_buf_init(&body, 1024);
	assert_true(kh_wire_put_bytes(&body, kh_leaves_spki(leaves)));
	say(pair, KH_WORKER_MSG_LEAF_KEY, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static inline void say_ready(struct pair *pair, uint32_t generation)
{
	assert_true(kh_channel_send(&pair->worker, KH_WORKER_MSG_READY, generation, nothing, NULL,
				    0, NULL));
}

static inline void serve(struct pair *pair)
{
	say_key(pair);
	say_ready(pair, GENERATION);
	kh_worker_process_receive(&pair->worker_process);
	assert_int_equal(pair->worker_process.state, KH_WORKER_PROCESS_SERVING);
}

/* The process is killed, not merely frowned at. */
static inline void expect_condemned(struct pair *pair)
{
	kh_worker_process_receive(&pair->worker_process);
	assert_int_equal(pair->worker_process.state, KH_WORKER_PROCESS_CONDEMNED);
	int status = end(pair); /* sends nothing more: the signal was sent already */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static inline void hear(struct pair *pair, enum kh_worker_msg_to_worker type,
			struct kh_channel_message *message)
{
	kh_worker_process_receive(&pair->worker_process);
	assert_int_equal(kh_channel_receive(&pair->worker, false, message), KH_CHANNEL_GOT);
	assert_int_equal(message->type, type);
	assert_int_equal(message->ref,
			 type == KH_WORKER_MSG_CREDENTIAL || type == KH_WORKER_MSG_LEAF ? GENERATION
											: 7);
}

static inline int set_up(void **state)
{
	(void)state;
	struct kh_diagnostics diags = { .count = 0 };
	kh_log_set_level(KH_LOG_ERROR);
	ca = kh_ca_new(NULL);
	leaves = kh_leaves_new(NULL);
	config = kh_config_parse(
		"k.yaml",
		KH_SLICE(
			"version: 1\n"
			"listen: [ { unix: d/s, tenant: acme } ]\n"
			"credentials:\n"
			"  main: { value: { env: KH_MAIN }, header: { x-api-key: \"{}\" }, hosts: "
			"[ a.test ] }\n"
			"  absent: { value: { env: KH_ABSENT }, header: { x-api-key: \"{}\" }, "
			"hosts: [ b.test ] }\n"
			"tenants:\n"
			"  acme: { rules: [ { allow: \"https://a.test\", credential: main } ] }\n"),
		"/nonexistent", NULL, &diags);
	kh_diagnostics_fini(&diags);
	return ca && leaves && config && setenv("KH_MAIN", "sk-real-value", 1) == 0 &&
			       kh_vault_open(&vault, config, false, NULL)
		       ? 0
		       : -1;
}

static inline int tear_down(void **state)
{
	(void)state;
	kh_vault_close(&vault);
	kh_config_free(config);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
	return 0;
}

#endif
