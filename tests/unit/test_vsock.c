/* test_vsock.c - of all virtual machines the one that a listener is for comes in */

/* wrap: accept4 */

/*
 * The kernel's part is played here: accept4 gives connections whose peer has the CID that a test
 * says. What is looked at is who of them becomes a session, and that the others are hung up on.
 */
#include "unit.h"

#include <errno.h>
#include <linux/vm_sockets.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/base/log.h>
#include <keyhole/loop/acceptor.h>

enum { MOST = 16, OURS = 7 };

/* What accept4 is to give, one after the other. */
static struct {
	sa_family_t family;
	uint32_t cid;
	int far; /* the dynamic sandbox's end, when it was given */
} dynamic_sandboxes[MOST];
static size_t n_dynamic_sandboxes, n_given;

static struct kh_peer entered[MOST];
static size_t n_entered;

static void add_dynamic_sandbox(sa_family_t family, uint32_t cid)
{
	assert_true(n_dynamic_sandboxes < MOST);
	dynamic_sandboxes[n_dynamic_sandboxes].family = family;
	dynamic_sandboxes[n_dynamic_sandboxes].cid = cid;
	dynamic_sandboxes[n_dynamic_sandboxes++].far = -1;
}

int __wrap_accept4(int listener, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int listener, struct sockaddr *from, socklen_t *len, int flags)
{
	int pair[2];

	(void)listener;
	if (n_given == n_dynamic_sandboxes) {
		errno = EAGAIN;
		return -1;
	}
	assert_int_equal(flags, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | flags, 0, pair), 0);
	if (dynamic_sandboxes[n_given].family == AF_VSOCK) {
		const struct sockaddr_vm vm = { .svm_family = AF_VSOCK,
						.svm_port = 1024,
						.svm_cid = dynamic_sandboxes[n_given].cid };

		assert_true(*len >= sizeof(vm));
		memcpy(from, &vm, sizeof(vm));
		*len = sizeof(vm);
	} else {
		from->sa_family = dynamic_sandboxes[n_given].family;
		*len = sizeof(from->sa_family);
	}
	dynamic_sandboxes[n_given++].far = pair[1];
	return pair[0];
}

static void enter(struct kh_acceptor *acceptor, int fd, const struct kh_peer *peer)
{
	entered[n_entered++] = *peer;
	assert_int_equal(close(fd), 0);
	kh_acceptor_left(acceptor);
}

static void ignore(struct kh_loop *of)
{
	(void)of;
}

/* Nothing goes upstream here. */
static struct kh_ups *make_none(struct kh_loop *of)
{
	(void)of;
	return calloc(1, 1);
}

static void free_none(struct kh_ups *none)
{
	free(none);
}

static const struct kh_loop_ops ops = {
	.ups_new = make_none,
	.ups_free = free_none,
	.accepted = enter,
	.up_tick = ignore,
	.up_close_idle = ignore,
};

/* ---- a thread with that listener ---- */

static struct kh_worker worker;
static struct kh_loop *loop;
static struct kh_generation *gen;

static void make_generation(const char *yaml)
{
	struct kh_diagnostics diags = { 0 };

	gen = calloc(1, sizeof(*gen));
	assert_non_null(gen);
	atomic_init(&gen->refs, 1);
	pthread_mutex_init(&gen->lock, NULL);
	gen->config = kh_config_parse("test", kh_slice_str(yaml), NULL, "/nowhere", &diags);
	if (!gen->config)
		fail_msg("%s", diags.list[0].text);
	kh_diagnostics_fini(&diags);
	gen->policy = kh_policy_compile(gen->config, NULL);
	gen->listeners = calloc(2, sizeof(*gen->listeners));
	gen->listener_stats_list = calloc(2, sizeof(struct kh_listener_stats *));
	gen->slots = calloc(1, sizeof(*gen->slots));
	assert_true(gen->policy && gen->listeners && gen->listener_stats_list && gen->slots);
	gen->listener_stats_list[0] = calloc(1, sizeof(struct kh_listener_stats));
	assert_non_null(gen->listener_stats_list[0]);
	atomic_init(&gen->listener_stats_list[0]->refs, 1);
	gen->listeners[0] = eventfd(1, EFD_CLOEXEC); /* always ready */
	gen->n_listeners = 1;
}

static int setup(void **state)
{
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	kh_log_set_level(KH_LOG_ERROR);
	make_generation("version: 1\n"
			"listen: [ { vsock: 3128, cid: 7, tenant: t } ]\n"
			"tenants: { t: { rules: [ { allow: \"https://a.example\" } ] } }\n");
	worker.current = gen;
	worker.n_loops = 1;
	worker.taken_fd = -1;
	worker.fd_limit = worker.fd_acceptor = 1024;
	worker.leaves = kh_leaves_new(&err);
	worker.roots = kh_roots_new();
	loop = kh_loop_new(&worker, 0, &ops, KH_SLICE(""), KH_SLICE(""), &err);
	if (!loop)
		fail_msg("%s", err.text);
	n_dynamic_sandboxes = n_given = n_entered = 0;
	assert_true(kh_acceptors_reload(loop, loop->gen));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_given; i++)
		close(dynamic_sandboxes[i].far);
	kh_loop_free(loop);
	kh_generation_unref(gen);
	kh_leaves_free(worker.leaves);
	kh_roots_free(worker.roots);
	return 0;
}

static void accept_all(void)
{
	for (size_t i = 0; i <= n_dynamic_sandboxes; i++)
		assert_true(event_base_loop(loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
	assert_int_equal(n_given, n_dynamic_sandboxes);
}

static bool is_hung_up_on(size_t dynamic_sandbox)
{
	char byte;

	return recv(dynamic_sandboxes[dynamic_sandbox].far, &byte, 1, 0) == 0;
}

/* ---- the tests ---- */

static void test_the_cid_is_noted(void **state)
{
	static const uint32_t cids[] = { OURS, 3, 2, 1, 0, VMADDR_CID_ANY, 0x80000007u };
	struct kh_peer peer;
	char shown[32];
	int fd;

	(void)state;
	for (size_t i = 0; i < sizeof(cids) / sizeof(*cids); i++) {
		add_dynamic_sandbox(AF_VSOCK, cids[i]);
		assert_int_equal(kh_listener_accept(0, &fd, &peer), KH_ACCEPT_GOT);
		assert_int_equal(peer.cid, cids[i]);
		snprintf(shown, sizeof(shown), "vsock:%u", cids[i]);
		assert_string_equal(peer.address, shown);
		assert_int_equal(close(fd), 0);
	}
	add_dynamic_sandbox(AF_UNIX, 0);
	assert_int_equal(kh_listener_accept(0, &fd, &peer), KH_ACCEPT_GOT);
	assert_int_equal(peer.cid, 0);
	assert_string_equal(peer.address, "");
	assert_int_equal(close(fd), 0);
}

static void test_the_one_cid_comes_in(void **state)
{
	(void)state;
	add_dynamic_sandbox(AF_VSOCK, OURS);
	add_dynamic_sandbox(AF_VSOCK, OURS);
	accept_all();
	assert_int_equal(n_entered, 2);
	assert_int_equal(entered[0].cid, OURS);
	assert_string_equal(entered[1].address, "vsock:7");
	assert_int_equal(atomic_load(&gen->listener_stats_list[0]->connections), 0);
}

/* Others of the host, the host itself, the hypervisor, what differs in one bit, and what the kernel
 * would never say. */
static void test_every_other_is_hung_up_on(void **state)
{
	static const uint32_t others[] = {
		0, 1, 2, 3, 6, 8, OURS + 256, 0x80000007u, VMADDR_CID_ANY
	};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		add_dynamic_sandbox(AF_VSOCK, others[i]);
	add_dynamic_sandbox(AF_UNIX, 0);
	add_dynamic_sandbox(AF_UNSPEC, 0);
	accept_all();
	assert_int_equal(n_entered, 0);
	for (size_t i = 0; i < n_dynamic_sandboxes; i++)
		assert_true(is_hung_up_on(i));
	assert_int_equal(atomic_load(&gen->listener_stats_list[0]->connections), 0);
}

static void test_others_in_between_take_nothing_from_it(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		add_dynamic_sandbox(AF_VSOCK, 8);
		add_dynamic_sandbox(AF_VSOCK, OURS);
	}
	accept_all();
	assert_int_equal(n_entered, 4);
	for (size_t i = 0; i < n_entered; i++)
		assert_int_equal(entered[i].cid, OURS);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_the_cid_is_noted),
		T(test_the_one_cid_comes_in),
		T(test_every_other_is_hung_up_on),
		T(test_others_in_between_take_nothing_from_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
