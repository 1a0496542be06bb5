/* test_dynamic_sandboxes.c - what a worker that was taken over can have of the keeper's registry of
 * dynamic sandboxes */
#include "worker_process_pair.h"

#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <keyhole/base/file.h>
#include <keyhole/base/worker_messages.h>

#include <keeper/dynamic_sandboxes.h>

static char base[64];
static struct kh_registry reg;

static struct kh_config *configure(const char *allow)
{
	struct kh_diagnostics diags = { .count = 0 };
	kh_auto_free char *text = kh_strf("version: 1\n"
					  "listen: [ { unix: d/s, tenant: acme } ]\n"
					  "admin: { unix: a/s, sandboxes: %s%s }\n"
					  "tenants: { acme: { rules: [] }, dev: { rules: [] } }\n",
					  base, allow);
	struct kh_config *made =
		kh_config_parse("k.yaml", kh_slice_str(text), "/nonexistent", NULL, &diags);
	kh_diagnostics_print(&diags, NULL, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	assert_non_null(made);
	return made;
}

static void open_pair(struct pair *pair, struct kh_config *of)
{
	begin(pair);
	assert_true(kh_registry_open(&reg, NULL));
	pair->worker_process.config = of;
	pair->worker_process.dynamic_sandboxes = &reg;
	serve(pair);
	assert_true(kh_registry_feed(&reg, &pair->worker_process, NULL));
}

static void close_pair(struct pair *pair, struct kh_config *of)
{
	(void)end(pair);
	kh_registry_close(&reg);
	(void)rmdir(base);
	kh_config_free(of);
}

static enum kh_dynamic_sandbox_result answer_of(struct pair *pair)
{
	struct kh_channel_message message;
	enum kh_dynamic_sandbox_result result = KH_DYNAMIC_SANDBOX_RESULTS;
	kh_worker_process_receive(&pair->worker_process);
	while (kh_channel_receive(&pair->worker, false, &message) == KH_CHANNEL_GOT) {
		if (message.type == KH_WORKER_MSG_DYNAMIC_SANDBOX_DONE)
			result = (enum kh_dynamic_sandbox_result)message.body.ptr[0];
		else if (message.type == KH_WORKER_MSG_DYNAMIC_SANDBOX_GONE)
			result = KH_DYNAMIC_SANDBOX_OK;
		kh_channel_message_close(&message);
	}
	return result;
}

static enum kh_dynamic_sandbox_result add(struct pair *pair,
					  const struct kh_dynamic_sandbox_wish *wish)
{
	struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES);
	assert_true(kh_dynamic_sandbox_wish_put(&body, wish));
	say(pair, KH_WORKER_MSG_DYNAMIC_SANDBOX_ADD, kh_buf_view(&body));
	kh_buf_fini(&body);
	return answer_of(pair);
}

static enum kh_dynamic_sandbox_result take_away(struct pair *pair, const char *tenant,
						const char *id, uid_t asker)
{
	struct kh_buf body;
	kh_buf_init(&body, 1024);
	assert_true(kh_wire_put_str(&body, tenant) && kh_wire_put_str(&body, id) &&
		    kh_wire_put_u64(&body, 0) && kh_wire_put_u32(&body, asker) &&
		    kh_wire_put_u32(&body, 1));
	say(pair, KH_WORKER_MSG_DYNAMIC_SANDBOX_REMOVE, kh_buf_view(&body));
	kh_buf_fini(&body);
	return answer_of(pair);
}

static struct kh_dynamic_sandbox_wish wish_for(char *tenant, char *id, uid_t asker)
{
	return (struct kh_dynamic_sandbox_wish){ .tenant = tenant,
						 .id = id,
						 .owner = KH_DYNAMIC_SANDBOX_NO_UID,
						 .mode = 0600,
						 .asker = asker,
						 .asker_pid = 1 };
}

static void the_keeper_holds_what_is_asked_for_to_what_the_asker_may_have(void **state)
{
	(void)state;
	char acme[] = "acme", dev[] = "dev", none[] = "none", id[] = "one", configured[] = "s";
	struct pair pair;
	struct kh_config *of = configure(", allow: [ { user: 4711, tenants: [ acme ] } ]");
	open_pair(&pair, of);
	/* Somebody whom the configuration does not name, and who is named for another tenant. */
	struct kh_dynamic_sandbox_wish wish = wish_for(acme, id, 4712);
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_REFUSED);
	wish = wish_for(dev, id, 4711);
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_REFUSED);
	wish = wish_for(none, id, 0);
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_UNKNOWN);
	/* A socket for another user than himself. */
	wish = wish_for(acme, id, 4711);
	wish.owner = 0;
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_REFUSED);
	wish.owner = 4713;
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_REFUSED);
	assert_int_equal(reg.count, 0);
	struct stat st;
	assert_true(lstat(base, &st) != 0); /* and nothing was made */
	/* One that the configuration has. */
	wish = wish_for(acme, configured, 0);
	wish.id = of->listeners[0].sandbox;
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_EXISTS);
	wish = wish_for(acme, id, 0);
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_OK);
	/* Nobody else's is taken away in somebody's name who may not. */
	assert_int_equal(take_away(&pair, "acme", "one", 4712), KH_DYNAMIC_SANDBOX_REFUSED);
	assert_int_equal(reg.count, 1);
	assert_int_equal(take_away(&pair, "acme", "one", 4711), KH_DYNAMIC_SANDBOX_OK);
	assert_int_equal(reg.count, 0);
	close_pair(&pair, of);
}

static void expect_asker(const struct pair *pair, uint64_t told, uint16_t told_tenant,
			 uint64_t number, uint16_t tenant)
{
	struct kh_fair_share_asker asker =
		kh_worker_process_asker(&pair->worker_process, told, told_tenant);
	assert_int_equal(asker.number, number);
	assert_int_equal(asker.tenant, tenant);
}

static void only_a_sandbox_that_there_is_is_charged_for_a_value(void **state)
{
	(void)state;
	enum { ACME = 0, DEV = 1 };
	char dev[] = "dev", id[] = "one";
	struct pair pair;
	struct kh_config *of = configure("");
	open_pair(&pair, of);
	/* A listener's, whose tenant it is whatever is said. */
	expect_asker(&pair, 1, ACME, 1, ACME);
	expect_asker(&pair, 1, DEV, 1, ACME);
	/* Nobody's: they are all one. */
	expect_asker(&pair, 0, DEV, KH_FAIR_SHARE_NOBODY, DEV);
	expect_asker(&pair, 2, DEV, KH_FAIR_SHARE_NOBODY, DEV);
	expect_asker(&pair, 4711, 999, KH_FAIR_SHARE_NOBODY, KH_NO_TENANT);
	expect_asker(&pair, UINT64_MAX, KH_NO_TENANT, KH_FAIR_SHARE_NOBODY, KH_NO_TENANT);
	expect_asker(&pair, KH_ASKER_DYNAMIC | 1, ACME, KH_FAIR_SHARE_NOBODY, ACME);
	/* One that was added, as long as it is there. */
	struct kh_dynamic_sandbox_wish wish = wish_for(dev, id, 0);
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_OK);
	expect_asker(&pair, KH_ASKER_DYNAMIC | 1, ACME, KH_ASKER_DYNAMIC | 1, DEV);
	expect_asker(&pair, KH_ASKER_DYNAMIC | 2, ACME, KH_FAIR_SHARE_NOBODY, ACME);
	assert_int_equal(kh_worker_process_sandboxes(&pair.worker_process, ACME), 1);
	assert_int_equal(kh_worker_process_sandboxes(&pair.worker_process, DEV), 1);
	assert_int_equal(kh_worker_process_sandboxes(&pair.worker_process, KH_NO_TENANT), 0);
	assert_int_equal(take_away(&pair, "dev", "one", 0), KH_DYNAMIC_SANDBOX_OK);
	expect_asker(&pair, KH_ASKER_DYNAMIC | 1, ACME, KH_FAIR_SHARE_NOBODY, ACME);
	assert_int_equal(kh_worker_process_sandboxes(&pair.worker_process, DEV), 0);
	close_pair(&pair, of);
}

static void a_folder_that_others_lead_elsewhere_is_not_followed(void **state)
{
	(void)state;
	char acme[] = "acme", id[] = "one";
	struct pair pair;
	struct kh_config *of = configure("");
	kh_auto_free char *elsewhere = kh_strf("%s.elsewhere", base);
	kh_auto_free char *tenant = kh_strf("%s/acme", base);
	open_pair(&pair, of);
	assert_true(mkdir(base, 0711) == 0 && mkdir(elsewhere, 0711) == 0 &&
		    symlink(elsewhere, tenant) == 0);
	struct kh_dynamic_sandbox_wish wish = wish_for(acme, id, 0);
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_FAILED);
	assert_int_equal(rmdir(elsewhere), 0); /* it is empty */
	assert_true(unlink(tenant) == 0);
	close_pair(&pair, of);
}

static void narrowings_fill_no_more_than_a_tenants_share(void **state)
{
	(void)state;
	char acme[] = "acme", dev[] = "dev", id[16];
	static char narrow[KH_LIMIT_NARROWING_BYTES];
	const size_t most = KH_LIMIT_NARROWINGS_PER_TENANT_BYTES / sizeof(narrow);
	struct rlimit limit;
	struct pair pair;
	assert_true(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	if (limit.rlim_max < 4 * most)
		skip();
	struct kh_config *of = configure("");
	open_pair(&pair, of);
	struct kh_dynamic_sandbox_wish wish = wish_for(acme, id, 0);
	wish.narrowed = true;
	wish.narrow = narrow;
	wish.narrow_len = sizeof(narrow);
	size_t n = 0;
	for (; n < most + 10; n++) {
		(void)snprintf(id, sizeof(id), "s%zu", n);
		if (add(&pair, &wish) != KH_DYNAMIC_SANDBOX_OK)
			break;
	}
	assert_int_equal(n, most);
	assert_int_equal(reg.narrow_bytes, most * sizeof(narrow));
	wish.tenant = dev; /* another one has its own */
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_OK);
	assert_int_equal(take_away(&pair, "acme", "s0", 0), KH_DYNAMIC_SANDBOX_OK);
	wish.tenant = acme;
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_OK);
	close_pair(&pair, of);
}

static const struct kh_registry_entry *only(void)
{
	assert_int_equal(reg.count, 1);
	return kh_container_of(reg.list.next, struct kh_registry_entry, link);
}

static void what_a_worker_added_that_ended_unexpectedly_goes_on_and_is_marked(void **state)
{
	(void)state;
	char acme[] = "acme", id[] = "one";
	struct pair pair;
	struct kh_config *of = configure("");
	open_pair(&pair, of);
	struct kh_dynamic_sandbox_wish wish = wish_for(acme, id, 0);
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_OK);
	assert_false(only()->suspect);
	pid_t worker = pair.worker_process.pid;
	(void)end(&pair);
	assert_int_equal(kh_registry_distrust(&reg, worker), 1);
	assert_true(only()->suspect && only()->fd >= 0);

	/* The next one hears of it, and can't take back what it did not add. */
	begin(&pair);
	pair.worker_process.config = of;
	pair.worker_process.dynamic_sandboxes = &reg;
	serve(&pair);
	assert_true(kh_registry_feed(&reg, &pair.worker_process, NULL));
	struct kh_channel_message message;
	struct kh_dynamic_sandbox_card card;
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_DYNAMIC_SANDBOX);
	assert_true(kh_dynamic_sandbox_card_take(message.body, &card) && card.suspect);
	kh_dynamic_sandbox_card_fini(&card);
	kh_channel_message_close(&message);
	assert_int_equal(take_away(&pair, "acme", "one", KH_DYNAMIC_SANDBOX_NO_UID),
			 KH_DYNAMIC_SANDBOX_REFUSED);
	/* Its own end marks nothing of the one before anew. */
	assert_int_equal(kh_registry_distrust(&reg, pair.worker_process.pid), 0);
	assert_true(only()->suspect);
	close_pair(&pair, of);
}

/* A process that holds a sandbox. */
static pid_t holder(void)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)sleep(60);
		_exit(0);
	}
	return pid;
}

static void end_holder(pid_t pid)
{
	assert_true(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

/* What is said of a number that no process has tells nothing else than of one that was another's.
 */
static void who_has_ended_holds_nothing_and_no_number_is_told_of(void **state)
{
	(void)state;
	char acme[] = "acme", id[] = "one";
	struct pair pair;
	struct kh_config *of = configure("");
	open_pair(&pair, of);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	struct kh_dynamic_sandbox_wish wish = wish_for(acme, id, 0);
	wish.pid = (uint32_t)pid;
	assert_int_equal(add(&pair, &wish), KH_DYNAMIC_SANDBOX_REFUSED);
	struct kh_err err = KH_ERR_INIT;
	struct kh_registry_entry entry = { .wish = wish, .fd = -1, .pidfd = -1, .watch = -1 };
	assert_false(kh_dynamic_sandbox_hold(&entry, &err));
	assert_string_equal(err.text, "hold: the process that connected has ended");
	assert_int_equal(reg.count, 0);
	close_pair(&pair, of);
}

static pid_t add_held(struct pair *pair, char *id)
{
	char acme[] = "acme";
	struct kh_dynamic_sandbox_wish wish = wish_for(acme, id, 0);
	pid_t pid = holder();
	wish.pid = (uint32_t)pid;
	assert_int_equal(add(pair, &wish), KH_DYNAMIC_SANDBOX_OK);
	return pid;
}

static bool is_told(void)
{
	struct pollfd p = { .fd = reg.watch, .events = POLLIN };
	return poll(&p, 1, 0) == 1;
}

/* As the other keeper of a handover, or a child before its exec. */
static int share_of_last(void)
{
	return dup(kh_container_of(reg.list.prev, struct kh_registry_entry, link)->pidfd);
}

static void a_hold_ends_with_its_sandbox_also_where_its_pidfd_is_shared(void **state)
{
	(void)state;
	char one[] = "one", two[] = "two";
	struct pair pair;
	struct kh_config *of = configure("");
	open_pair(&pair, of);
	pid_t first = add_held(&pair, one);
	int shared = share_of_last();
	pid_t second = add_held(&pair, two);
	assert_int_equal(take_away(&pair, "acme", "one", 0), KH_DYNAMIC_SANDBOX_OK);
	end_holder(first);
	assert_false(is_told());
	kh_registry_turn(&reg, &pair.worker_process);
	assert_int_equal(reg.count, 1);
	(void)close(shared);
	shared = share_of_last();
	end_holder(second);
	assert_true(is_told());
	/* Once: what has gone is not looked up again. */
	for (int i = 0; i < 3; i++)
		kh_registry_turn(&reg, &pair.worker_process);
	assert_true(reg.count == 0 && reg.held == 0);
	assert_false(is_told());
	assert_int_equal(answer_of(&pair), KH_DYNAMIC_SANDBOX_OK);
	(void)close(shared);
	close_pair(&pair, of);
}

static void a_hold_that_was_handed_over_wakes_the_old_keeper_no_more(void **state)
{
	(void)state;
	char one[] = "one";
	struct pair pair;
	struct kh_config *of = configure("");
	open_pair(&pair, of);
	pid_t pid = add_held(&pair, one);
	int theirs = share_of_last();
	kh_registry_forget(&reg);
	end_holder(pid);
	assert_false(is_told());
	(void)close(theirs);
	kh_auto_free char *socket_path = kh_strf("%s/acme/one/s", base);
	kh_auto_free char *folder = kh_strf("%s/acme/one", base);
	kh_auto_free char *tenant = kh_strf("%s/acme", base);
	assert_true(unlink(socket_path) == 0 && rmdir(folder) == 0 && rmdir(tenant) == 0);
	close_pair(&pair, of);
}

static void an_event_of_nobodys_ends_no_sandbox_and_does_not_come_again(void **state)
{
	(void)state;
	char one[] = "one";
	struct pair pair;
	struct kh_config *of = configure("");
	open_pair(&pair, of);
	pid_t pid = add_held(&pair, one);
	int nobodys = eventfd(1, EFD_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 4711 };
	assert_int_equal(epoll_ctl(reg.watch, EPOLL_CTL_ADD, nobodys, &event), 0);
	kh_registry_turn(&reg, &pair.worker_process);
	assert_int_equal(reg.count, 1);
	assert_false(is_told());
	end_holder(pid);
	kh_registry_turn(&reg, &pair.worker_process);
	assert_int_equal(reg.count, 0);
	(void)close(nobodys);
	close_pair(&pair, of);
}

static int begin_all(void **state)
{
	(void)snprintf(base, sizeof(base), "/tmp/kh-dynamic-sandboxes-%ld", (long)getpid());
	return set_up(state);
}

static struct kh_registry_entry *entry_called(const char *id, uint64_t number)
{
	struct kh_registry_entry *entry = calloc(1, sizeof(*entry));
	assert_non_null(entry);
	*entry = (struct kh_registry_entry){ .number = number, .fd = -1, .pidfd = -1, .watch = -1 };
	entry->wish.tenant = strdup("acme");
	entry->wish.id = strdup(id);
	assert_true(entry->wish.tenant && entry->wish.id);
	return entry;
}

/* Whoever can't take another keeper's over says why, in a handover's log. */
static void why_one_of_another_keeper_is_not_taken_is_said(void **state)
{
	struct kh_registry other;
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	assert_true(kh_registry_open(&other, &err));
	assert_true(kh_registry_adopt(&other, entry_called("a", 1), &err));
	assert_false(kh_registry_adopt(&other, entry_called("a", 2), &err));
	assert_int_equal(err.code, KH_ERR_INTERNAL);
	assert_non_null(strstr(err.text, "are called \"a\""));
	other.count = KH_LIMIT_DYNAMIC_SANDBOXES;
	assert_false(kh_registry_adopt(&other, entry_called("b", 3), &err));
	assert_int_equal(err.code, KH_ERR_LIMIT);
	other.count = 1;
	struct kh_registry_entry *held = entry_called("c", 4);
	held->pidfd = eventfd(0, EFD_CLOEXEC);
	assert_true(held->pidfd >= 0);
	assert_true(kh_registry_adopt(&other, held, &err));
	struct kh_registry_entry *twice = entry_called("d", 4);
	twice->pidfd = eventfd(0, EFD_CLOEXEC);
	assert_true(twice->pidfd >= 0);
	assert_false(kh_registry_adopt(&other, twice, &err));
	assert_non_null(strstr(err.text, "have the number 4"));
	kh_registry_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(why_one_of_another_keeper_is_not_taken_is_said),
		cmocka_unit_test(the_keeper_holds_what_is_asked_for_to_what_the_asker_may_have),
		cmocka_unit_test(only_a_sandbox_that_there_is_is_charged_for_a_value),
		cmocka_unit_test(who_has_ended_holds_nothing_and_no_number_is_told_of),
		cmocka_unit_test(a_folder_that_others_lead_elsewhere_is_not_followed),
		cmocka_unit_test(narrowings_fill_no_more_than_a_tenants_share),
		cmocka_unit_test(what_a_worker_added_that_ended_unexpectedly_goes_on_and_is_marked),
		cmocka_unit_test(a_hold_ends_with_its_sandbox_also_where_its_pidfd_is_shared),
		cmocka_unit_test(a_hold_that_was_handed_over_wakes_the_old_keeper_no_more),
		cmocka_unit_test(an_event_of_nobodys_ends_no_sandbox_and_does_not_come_again),
	};
	return cmocka_run_group_tests(tests, begin_all, tear_down);
}
