/* test_vault.c - who waits for a value, and for how long */
/* wrap: kh_clock_mono_ms poll kh_child_log_charged */
#include "config_text.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/fair_share.h>

enum { PATIENCE_MS = 60 * 1000, ONE = 0, AWS = 1, PIPE = 2, COUNT = 3 };

/* Time goes on where a test says so. */
static uint64_t mono_ms;

uint64_t __real_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void)
{
	return mono_ms;
}

/* What is logged within the bound of what a worker may have the keeper log. */
static unsigned n_charged;

void __wrap_kh_child_log_charged(enum kh_log_level level, const char *fmt, ...);
void __wrap_kh_child_log_charged(enum kh_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
	n_charged++;
}

/* Whoever waits for a pipe waits in vain. */
static uint64_t waited_ms;

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	(void)fds;
	(void)n;
	assert_true(timeout > 0);
	mono_ms += (uint64_t)timeout;
	waited_ms += (uint64_t)timeout;
	return 0;
}

static char folder[64];
/* A command prints the next line that is written there, and ends; `pipe` is read as it is. */
static const char *const names[COUNT] = { "one", "aws", "pipe" };
static int pipes[COUNT];
static struct kh_config *config;
static struct kh_vault vault;
static unsigned n_answers, n_missing;
static char answered[128];

static bool copy(struct kh_slice value, void *arg)
{
	(void)snprintf(arg, sizeof(answered), "%.*s", (int)value.len, value.ptr);
	return true;
}

static unsigned n_changed, n_secrets, n_secrets_at_answer;

static void note_changed(void *arg, uint16_t index, bool secret)
{
	(void)arg;
	(void)index;
	n_changed++;
	n_secrets += secret;
}

static void note_answer(void *arg, const struct kh_credential_ref *want,
			const struct kh_value *value, struct kh_err *err)
{
	(void)arg;
	(void)want;
	(void)err;
	n_answers++;
	n_secrets_at_answer = n_secrets;
	n_missing += !value;
	answered[0] = '\0';
	if (value)
		assert_true(kh_secret_expose(value->secret, copy, answered));
}

static int make_pipe(const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	if (!path || mkfifo(path, 0600) != 0)
		return -1;
	return open(path, O_RDWR | O_CLOEXEC); /* it never ends */
}

static int set_up(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	memcpy(folder, "/tmp/kh-vault-XXXXXX", sizeof("/tmp/kh-vault-XXXXXX"));
	if (!mkdtemp(folder))
		return -1;
	for (size_t i = 0; i < COUNT; i++)
		if ((pipes[i] = make_pipe(names[i])) < 0)
			return -1;
	kh_log_set_level(KH_LOG_ERROR);
	kh_auto_free char *yaml = kh_strf(
		"version: 1\nlisten: [ { unix: d/s, tenant: acme } ]\n"
		"credentials:\n"
		"  one: { value: { exec: [ head, -n1, %s/one ], refresh: 1h }, "
		"header: { x-a: \"{}\" }, hosts: [ a.test ] }\n"
		"  aws: { value: { exec: [ head, -n1, %s/aws ], refresh: 1h }, aws_sigv4: {}, "
		"hosts: [ \"*.amazonaws.com\" ], shared_host: accept }\n"
		"  pipe: { value: { file: %s/pipe }, header: { x-a: \"{}\" }, hosts: [ a.test ] }\n"
		"tenants: { acme: { rules: [ { allow: \"GET https://a.test/repos/acme/**\", "
		"credential: one } ] } }\n",
		folder, folder, folder);
	config = config_in(folder, yaml);
	mono_ms = 1000000;
	waited_ms = 0;
	n_answers = n_missing = 0;
	if (!kh_vault_open(&vault, config, false, &err))
		return -1;
	vault.answer = note_answer;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kh_vault_close(&vault);
	kh_config_free(config);
	for (size_t i = 0; i < COUNT; i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, names[i]);
		(void)close(pipes[i]);
		(void)unlink(path);
	}
	return rmdir(folder);
}

static struct kh_item *raw(size_t index)
{
	return &vault.slots[index].holdings[0].raw;
}

static void print(size_t index, const char *line)
{
	assert_true(kh_file_write_all(pipes[index], kh_slice_str(line), NULL));
}

/* Until the command that runs has ended. */
static void end_run(size_t index)
{
	uint64_t until_ms = __real_kh_clock_mono_ms() + PATIENCE_MS;
	while (raw(index)->job) {
		struct pollfd fd = { .fd = kh_vault_fd(&vault), .events = POLLIN };
		assert_true(__real_kh_clock_mono_ms() < until_ms);
		(void)__real_poll(&fd, 1, 20);
		kh_vault_turn(&vault);
	}
}

static void give(size_t index, const char *line)
{
	print(index, line);
	end_run(index);
}

static enum kh_vault_answer ask_as(struct kh_credential_ref want, uint64_t number, uint16_t tenant,
				   char out[128])
{
	const struct kh_fair_share_asker asker = { number, tenant };
	struct kh_value value;
	struct kh_err err = KH_ERR_INIT;
	enum kh_vault_answer got = kh_vault_get(&vault, &want, &asker, &value, &err);
	if (got == KH_VAULT_GOT)
		assert_true(kh_secret_expose(value.secret, copy, out));
	return got;
}

static enum kh_vault_answer ask(struct kh_credential_ref want, char out[128])
{
	return ask_as(want, KH_FAIR_SHARE_NOBODY, KH_NO_TENANT, out);
}

static const struct kh_credential_ref one = { ONE, KH_NO_TENANT, { "", 0 } };

static void begin_refused(char value[128])
{
	give(ONE, "value-number-1\n");
	assert_int_equal(ask(one, value), KH_VAULT_GOT);
	assert_string_equal(value, "value-number-1");
	kh_vault_refused(&vault, &one);
	assert_non_null(raw(ONE)->job);
	assert_int_equal(ask(one, value), KH_VAULT_LATER);
	kh_vault_turn(&vault);
}

static void who_waits_for_another_value_gets_it(void **state)
{
	char value[128];
	(void)state;
	begin_refused(value);
	assert_int_equal(n_answers, 0);
	give(ONE, "value-number-2\n");
	assert_int_equal(n_answers, 1);
	assert_string_equal(answered, "value-number-2");
}

static void who_waits_too_long_for_another_value_gets_the_one_that_is_there(void **state)
{
	char value[128];
	(void)state;
	begin_refused(value);
	assert_true(kh_vault_deadline(&vault) <= raw(ONE)->withheld_ms);
	mono_ms += KH_LIMIT_REFUSED_WAIT_MS;
	kh_vault_turn(&vault);
	assert_non_null(raw(ONE)->job);
	assert_int_equal(n_answers, 1);
	assert_string_equal(answered, "value-number-1");
	assert_int_equal(ask(one, value), KH_VAULT_GOT);
	assert_string_equal(value, "value-number-1");
	give(ONE, "value-number-2\n"); /* it is late, and good */
	assert_int_equal(ask(one, value), KH_VAULT_GOT);
	assert_string_equal(value, "value-number-2");
	assert_int_equal(n_answers, 1);
}

static void what_a_reload_shares_is_not_withheld(void **state)
{
	char value[128];
	struct kh_item copied;
	(void)state;
	begin_refused(value);
	assert_true(kh_item_is_withheld(raw(ONE)));
	assert_true(kh_item_share(&copied, raw(ONE)));
	assert_true(kh_item_is_good(&copied) && !copied.withheld_ms && !copied.job);
	copied.job = raw(ONE)->job; /* which is handed on */
	assert_false(kh_item_is_withheld(&copied));
	copied.job = NULL;
	kh_item_fini(&copied);
}

static void scope_today(const char *region, char out[64])
{
	time_t now = time(NULL);
	struct tm utc;
	char day[16];
	assert_non_null(gmtime_r(&now, &utc));
	assert_int_equal(strftime(day, sizeof(day), "%Y%m%d", &utc), 8);
	(void)snprintf(out, 64, "%s/%s/s3", day, region);
}

/* Whoever asks may have been taken over: without a repository's name there is no token at all. */
static void a_credential_per_repository_is_made_for_one_and_no_less(void **state)
{
	static const char *const bad[] = { "",	      "acme",	     "acme/",	   "/site",
					   "/",	      "acme/../x",   "acme/si te", "acme/site/x",
					   "../site", "acme/site\n", "*/*" };
	char value[128];
	(void)state;
	config->credentials[ONE].by_repository = true;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct kh_credential_ref want = { ONE, KH_NO_TENANT, kh_slice_str(bad[i]) };
		if (ask(want, value) != KH_VAULT_NONE)
			fail_msg("a token for '%s'", bad[i]);
	}
	const struct kh_credential_ref good = { ONE, KH_NO_TENANT, KH_SLICE("acme/site.js") };
	assert_int_equal(ask(good, value), KH_VAULT_LATER);
}

/* Nor for a repository that no request could get it for, by the rules and by its `paths`. */
static void a_credential_per_repository_is_made_for_none_that_no_rule_opens(void **state)
{
	static const char *const shut[] = { "other/site", "acme2/site", "acm/site" };
	char bound[] = "/repos/acme/site/**", *paths[] = { bound }, value[128];
	struct kh_credential_config *credential = &config->credentials[ONE];
	const struct kh_credential_ref site = { ONE, KH_NO_TENANT, KH_SLICE("Acme/site") };
	const struct kh_credential_ref more = { ONE, KH_NO_TENANT, KH_SLICE("acme/more") };
	(void)state;
	credential->by_repository = true;
	for (size_t i = 0; i < sizeof(shut) / sizeof(shut[0]); i++) {
		const struct kh_credential_ref want = { ONE, KH_NO_TENANT, kh_slice_str(shut[i]) };
		if (ask(want, value) != KH_VAULT_NONE)
			fail_msg("a token for '%s'", shut[i]);
	}
	assert_int_equal(ask(more, value), KH_VAULT_LATER);
	credential->paths = paths;
	credential->n_paths = 1;
	assert_int_equal(ask(more, value), KH_VAULT_NONE);
	assert_int_equal(ask(site, value), KH_VAULT_LATER);
	credential->paths = NULL;
	credential->n_paths = 0;
	/* Of its own tenant alone, if each has a value of its own. */
	credential->by_tenant = true;
	vault.slots[ONE].holdings[0].tenant = 1;
	assert_int_equal(ask((struct kh_credential_ref){ ONE, 1, site.scope }, value),
			 KH_VAULT_NONE);
	vault.slots[ONE].holdings[0].tenant = 0;
	credential->by_tenant = false;
}

static void where_the_command_fails_a_scope_is_made_of_the_value_that_is_there(void **state)
{
	char first[64], second[64], key[128];
	(void)state;
	scope_today("us-east-1", first);
	scope_today("eu-west-1", second);
	const struct kh_credential_ref a = { AWS, KH_NO_TENANT, kh_slice_str(first) };
	const struct kh_credential_ref b = { AWS, KH_NO_TENANT, kh_slice_str(second) };
	give(AWS, "{\"Version\":1,\"AccessKeyId\":\"AKIDEXAMPLE12345\","
		  "\"SecretAccessKey\":\"an-example-of-a-secret-key\"}\n");
	assert_int_equal(ask(a, key), KH_VAULT_GOT);
	kh_vault_refused(&vault, &a);
	assert_int_equal(ask(b, key), KH_VAULT_LATER);
	give(AWS, "\n");
	assert_int_equal(raw(AWS)->failures, 1);
	assert_int_equal(n_answers, 1);
	assert_int_equal(n_missing, 0);
	assert_int_equal(ask(b, key), KH_VAULT_GOT);
}

static void a_pipe_whose_writer_says_nothing_holds_nobody_up_for_long(void **state)
{
	static const struct kh_credential_ref want = { PIPE, KH_NO_TENANT, { "", 0 } };
	char value[128];
	(void)state;
	assert_int_equal(waited_ms, KH_LIMIT_PIPE_READ_MS); /* at the start nobody else waits */
	assert_non_null(strstr(raw(PIPE)->why, "pipe held it open for too long (let it write"));
	mono_ms += KH_LIMIT_PIPE_AGAIN_MS - 1;
	assert_int_equal(ask(want, value), KH_VAULT_NONE);
	assert_int_equal(waited_ms, KH_LIMIT_PIPE_READ_MS);
	mono_ms += 1;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(ask(want, value), KH_VAULT_NONE);
	assert_int_equal(waited_ms, KH_LIMIT_PIPE_READ_MS + KH_LIMIT_PIPE_LOOK_MS);
	/* A file in its place is none that is waited for. */
	kh_auto_free char *path = kh_strf("%s/pipe", folder);
	assert_true(kh_file_write(path, KH_SLICE("a-value-that-came\n"), 0600, NULL));
	mono_ms += 1000;
	assert_int_equal(ask(want, value), KH_VAULT_GOT);
	assert_string_equal(value, "a-value-that-came");
	assert_int_equal(waited_ms, KH_LIMIT_PIPE_READ_MS + KH_LIMIT_PIPE_LOOK_MS);
}

/* What a reload takes away from the hosts it takes from what was made before. */
static void a_key_that_was_made_is_given_for_hosts_in_force_only(void **state)
{
	char scope[64], value[128];
	(void)state;
	scope_today("us-east-1", scope);
	const struct kh_credential_ref want = { AWS, KH_NO_TENANT, kh_slice_str(scope) };
	give(AWS, "{\"Version\":1,\"AccessKeyId\":\"AKIDEXAMPLE12345\","
		  "\"SecretAccessKey\":\"wJalrXUtnFEMI\"}\n");
	assert_int_equal(ask(want, value), KH_VAULT_GOT);
	struct kh_credential_config *aws = &config->credentials[AWS];
	size_t n = aws->n_hosts;
	aws->n_hosts = 0;
	assert_int_equal(ask(want, value), KH_VAULT_NONE);
	aws->n_hosts = n;
	assert_int_equal(ask(want, value), KH_VAULT_GOT);
}

static void a_token_that_can_not_be_had_changes_no_secret(void **state)
{
	struct kh_holding *holding = &vault.slots[ONE].holdings[0];
	struct kh_made *made = calloc(1, sizeof(*made) + 1);
	char value[128];
	(void)state;
	assert_non_null(made);
	made->scope_len = 1;
	holding->made = made;
	vault.changed = note_changed;
	n_changed = n_secrets = 0;
	kh_vault_made_failed(&vault, ONE, holding, made, "refused", NULL);
	assert_int_equal(n_changed, 1);
	assert_int_equal(n_secrets, 0);
	/* One that comes does, and before anybody is answered with it. */
	assert_int_equal(ask(one, value), KH_VAULT_LATER);
	give(ONE, "value-number-1\n");
	assert_int_equal(n_answers, 1);
	assert_int_equal(n_secrets_at_answer, 1);
}

/* Scopes are as many as a worker likes that was taken over. */
static void keys_that_can_not_be_made_are_logged_within_the_workers_bound(void **state)
{
	static const char *const regions[] = { "us-east-1", "eu-west-1", "eu-west-2" };
	char scope[64], value[128];
	(void)state;
	n_charged = 0;
	give(AWS, "no-pair-of-an-id-and-a-key\n");
	for (unsigned i = 0; i < 3; i++) {
		scope_today(regions[i], scope);
		const struct kh_credential_ref want = { AWS, KH_NO_TENANT, kh_slice_str(scope) };
		assert_int_equal(ask(want, value), KH_VAULT_NONE);
		assert_int_equal(n_charged, i + 1);
	}
}

static struct kh_credential_ref region(unsigned i, char scope[64])
{
	static const char *const directions[] = { "east", "west", "north", "south" };
	char name[32];
	(void)snprintf(name, sizeof(name), "%c%c-%s-%u", 'a' + (int)(i / 36 % 26),
		       'a' + (int)(i / 936 % 26), directions[i / 9 % 4], i % 9 + 1);
	scope_today(name, scope);
	return (struct kh_credential_ref){ AWS, KH_NO_TENANT, kh_slice_str(scope) };
}

static void give_key(void)
{
	give(AWS, "{\"Version\":1,\"AccessKeyId\":\"AKIDEXAMPLE12345\","
		  "\"SecretAccessKey\":\"wJalrXUtnFEMI\"}\n");
}

static size_t locked_for_scopes(void)
{
	size_t bytes = 0;
	for (const struct kh_made *made = vault.slots[AWS].holdings[0].made; made;
	     made = made->next)
		bytes += kh_secret_locked_bytes(made->item.secret);
	return bytes;
}

/* Many sandboxes of one tenant, each at its pace. */
static void a_tenant_that_asks_for_scopes_takes_no_page_from_another(void **state)
{
	enum { FLOOD = 1500, EACH = 100 };
	char scope[64], good[64], value[128];
	(void)state;
	give_key();
	scope_today("eu-west-3", good);
	const struct kh_credential_ref goods = { AWS, KH_NO_TENANT, kh_slice_str(good) };
	assert_int_equal(ask_as(goods, 1, 0, value), KH_VAULT_GOT);
	for (unsigned i = 0; i < FLOOD; i++)
		assert_int_equal(ask_as(region(i, scope), 100 + i / EACH, 1, value), KH_VAULT_GOT);
	assert_true(locked_for_scopes() <= kh_secret_scoped_most_bytes());
	assert_non_null(kh_scopes_find(&vault.slots[AWS].holdings[0], goods.scope));
	/* What was computed is computed again for the next worker, and takes no page until then. */
	kh_vault_forget_worker(&vault);
	assert_int_equal(locked_for_scopes(), 0);
	assert_int_equal(ask_as(goods, 1, 0, value), KH_VAULT_GOT);
}

static void the_keeper_makes_values_for_a_sandbox_at_a_pace_of_its_own(void **state)
{
	char scope[64], value[128];
	unsigned made = 0;
	(void)state;
	give_key();
	while (made < 1000 && ask_as(region(made, scope), 7, 0, value) == KH_VAULT_GOT)
		made++;
	assert_int_equal(made, 2 * KH_LIMIT_SCOPE_QUESTIONS_BURST);
	/* What is there is given, and others are asked for by others. */
	assert_int_equal(ask_as(region(made - 1, scope), 7, 0, value), KH_VAULT_GOT);
	assert_int_equal(ask_as(region(made, scope), 8, 0, value), KH_VAULT_GOT);
	mono_ms += 1000 / KH_LIMIT_SCOPE_QUESTIONS_PER_SECOND;
	assert_int_equal(ask_as(region(made + 1, scope), 7, 0, value), KH_VAULT_GOT);
	assert_int_equal(ask_as(region(made + 2, scope), 7, 0, value), KH_VAULT_NONE);
}

static size_t n_sandboxes;

static size_t count_sandboxes(void *arg, uint16_t tenant)
{
	(void)arg;
	return tenant == 0 ? n_sandboxes : 0;
}

/* As a worker does that was taken over, and knows or adds sandboxes. */
static unsigned ask_in_many_names(uint16_t tenant, unsigned most)
{
	char scope[64], value[128];
	unsigned made = 0;
	while (made < most &&
	       ask_as(region(made, scope), 1000 + made, tenant, value) == KH_VAULT_GOT)
		made++;
	return made;
}

static void sandboxes_of_a_tenant_have_a_pace_together(void **state)
{
	enum { FEW = 2 * KH_LIMIT_SCOPE_QUESTIONS_BURST * KH_LIMIT_SCOPE_SANDBOXES_LEAST };
	char scope[64], value[128];
	(void)state;
	give_key();
	vault.sandboxes = count_sandboxes;
	n_sandboxes = 1;
	assert_int_equal(ask_in_many_names(0, 2 * FEW), FEW);
	/* Nor does it begin anew with another worker. */
	kh_vault_forget_worker(&vault);
	assert_int_equal(ask_as(region(FEW, scope), 1, 0, value), KH_VAULT_NONE);
	/* Another tenant has its own, and time goes on for the first. */
	assert_int_equal(ask_as(region(FEW, scope), 1, 1, value), KH_VAULT_GOT);
	mono_ms += 1000 / KH_LIMIT_SCOPE_QUESTIONS_PER_SECOND;
	unsigned more = 0;
	while (more < FEW &&
	       ask_as(region(FEW + 1 + more, scope), 1 + more, 0, value) == KH_VAULT_GOT)
		more++;
	assert_int_equal(more, KH_LIMIT_SCOPE_SANDBOXES_LEAST);
	/* One with more sandboxes goes on where one with few would wait. */
	n_sandboxes = 2 * KH_LIMIT_SCOPE_SANDBOXES_LEAST;
	mono_ms += 1000 / KH_LIMIT_SCOPE_QUESTIONS_PER_SECOND;
	for (more = 0; more < FEW && ask_as(region(2 * FEW + more, scope), 50000 + more, 0,
					    value) == KH_VAULT_GOT;)
		more++;
	assert_int_equal(more, 2 * KH_LIMIT_SCOPE_SANDBOXES_LEAST);
	vault.sandboxes = NULL;
}

/* A worker that takes the answer may need pages for what it has to know first (fingerprints.c). */
static void relieve_and_note(void *arg, const struct kh_credential_ref *want,
			     const struct kh_value *value, struct kh_err *err)
{
	assert_true(kh_scopes_relieve(&vault));
	note_answer(arg, want, value, err);
	assert_non_null(memmem(want->scope.ptr, want->scope.len, "/s3", 3));
}

static void
who_waits_is_answered_while_the_values_of_others_are_dropped_for_their_pages(void **state)
{
	enum { IDLE = 3, WAIT = 4 };
	char scope[64], value[128];
	(void)state;
	give_key();
	for (unsigned i = 0; i < IDLE; i++)
		assert_int_equal(ask(region(i, scope), value), KH_VAULT_GOT);
	struct kh_credential_ref refused = region(0, scope);
	kh_vault_refused(&vault, &refused);
	for (unsigned i = IDLE; i < IDLE + WAIT; i++)
		assert_int_equal(ask(region(i, scope), value), KH_VAULT_LATER);
	vault.answer = relieve_and_note;
	/* Each answer drops what is idle by then, also the key that was answered just before. */
	give_key();
	assert_int_equal(n_answers, WAIT);
	assert_int_equal(n_missing, 0);
	/* The one that was being answered last was spared. */
	assert_int_equal(vault.slots[AWS].holdings[0].n_made, 1);
	assert_non_null(kh_scopes_find(&vault.slots[AWS].holdings[0], region(IDLE, scope).scope));
	for (unsigned i = 0; i < IDLE + WAIT; i++)
		assert_int_equal(ask(region(i, scope), value), KH_VAULT_GOT);
}

static unsigned n_stale;

static void count_stale(void *arg, const struct kh_credential_ref *want, bool whole)
{
	(void)arg;
	assert_int_equal(want->index, AWS);
	assert_true(whole);
	n_stale++;
}

/* The worker still signs with it. */
static void a_key_whose_page_was_needed_is_stale_when_its_secret_is_another(void **state)
{
	char scope[64], value[128];
	(void)state;
	give_key();
	const struct kh_credential_ref want = region(0, scope);
	assert_int_equal(ask(want, value), KH_VAULT_GOT);
	assert_true(kh_scopes_relieve(&vault));
	kh_vault_turn(&vault);
	assert_int_equal(vault.slots[AWS].holdings[0].n_made, 0);
	vault.stale = count_stale;
	n_stale = 0;
	kh_vault_refused(&vault, &want);
	give(AWS, "{\"Version\":1,\"AccessKeyId\":\"AKIDEXAMPLE54321\","
		  "\"SecretAccessKey\":\"another-than-before\"}\n");
	assert_int_equal(n_stale, 1);
}

static void no_key_is_made_for_what_is_no_region(void **state)
{
	static const char *const bad[] = { "r-1",	  "us-east",	  "auto",
					   "us-1",	  "us-x9-east-1", "us-east-01",
					   "us-east-100", "us--east-1",	  "-east-1" };
	char scope[64], value[128];
	(void)state;
	give_key();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		scope_today(bad[i], scope);
		const struct kh_credential_ref want = { AWS, KH_NO_TENANT, kh_slice_str(scope) };
		if (ask(want, value) != KH_VAULT_NONE)
			fail_msg("a key for the region '%s'", bad[i]);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_pipe_whose_writer_says_nothing_holds_nobody_up_for_long),
		TEST(who_waits_for_another_value_gets_it),
		TEST(who_waits_too_long_for_another_value_gets_the_one_that_is_there),
		TEST(what_a_reload_shares_is_not_withheld),
		TEST(a_credential_per_repository_is_made_for_one_and_no_less),
		TEST(a_credential_per_repository_is_made_for_none_that_no_rule_opens),
		TEST(where_the_command_fails_a_scope_is_made_of_the_value_that_is_there),
		TEST(a_key_that_was_made_is_given_for_hosts_in_force_only),
		TEST(sandboxes_of_a_tenant_have_a_pace_together),
		TEST(a_tenant_that_asks_for_scopes_takes_no_page_from_another),
		TEST(the_keeper_makes_values_for_a_sandbox_at_a_pace_of_its_own),
		TEST(who_waits_is_answered_while_the_values_of_others_are_dropped_for_their_pages),
		TEST(a_key_whose_page_was_needed_is_stale_when_its_secret_is_another),
		TEST(no_key_is_made_for_what_is_no_region),
		TEST(a_token_that_can_not_be_had_changes_no_secret),
		TEST(keys_that_can_not_be_made_are_logged_within_the_workers_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
