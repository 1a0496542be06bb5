/*
 * fingerprints.c - sends the worker the fingerprints of all real values
 *
 * There is room for so many fingerprints, and tenants may write the files of their own values. A
 * private key has fingerprints for each of its lines, so a file can ask for thousands. Therefore
 * all values come before any line, and then LINES_AT_ONCE lines of each value in turn, up to
 * KH_PARTS_LINES_MOST. A key that keyhole signs with has at most about 110 (private_key.h).
 */

#include "keeper_internal.h"

#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/credential/parts.h>
#include <keyhole/credential/fingerprints.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

struct lists {
	const struct kh_config *config; /* that the vault's indices are of */
	struct kh_fingerprint_maker maker;
	struct kh_secret *list[KH_LIMIT_CHANNEL_FDS];
	size_t count;
	size_t left_out;
	bool say;	   /* which values are easy to guess */
	size_t lines_from; /* which lines of each value are added now */
	bool adds_lines;   /* and no values */
	size_t most_lines; /* of one value */
};

enum { LINES_AT_ONCE = 32 };

static bool take_list(struct lists *lists, struct kh_err *err)
{
	struct kh_secret *list = kh_fingerprint_maker_take(&lists->maker, err);

	if (list)
		lists->list[lists->count++] = list;
	return list != NULL;
}

struct one {
	struct lists *lists;
	const struct kh_credential_config *credential;
	uint16_t index;
	bool guessable;
	size_t lines; /* that it has had */
};

/* Is it to be added now? Counts the lines. */
static bool is_due(struct one *one, bool line)
{
	const struct lists *lists = one->lists;

	if (!line)
		return !lists->adds_lines;
	size_t at = one->lines++;
	return lists->adds_lines && at >= lists->lines_from &&
	       at < lists->lines_from + LINES_AT_ONCE;
}

static bool add_part(struct kh_slice part, bool line, void *arg)
{
	struct one *one = arg;
	struct lists *lists = one->lists;

	if (!is_due(one, line))
		return true;
	enum kh_fingerprint_result result =
		kh_fingerprint_maker_add(&lists->maker, part, line, one->index);

	/* The last place is for what is in the maker at the end. */
	if (result == KH_FINGERPRINT_FULL && lists->count + 1 < KH_LIMIT_CHANNEL_FDS &&
	    take_list(lists, NULL))
		result = kh_fingerprint_maker_add(&lists->maker, part, line, one->index);
	lists->left_out += result == KH_FINGERPRINT_FULL;
	return true;
}

static bool add_parts(struct kh_slice value, void *arg)
{
	struct one *one = arg;

	one->guessable = kh_parts_guessable(one->credential, value);
	return kh_parts_each(one->credential, value, add_part, one);
}

static void add(const struct kh_known_secret *known, void *arg)
{
	static const struct kh_credential_config nobodys = { .name = NULL };
	struct lists *lists = arg;
	const struct kh_credential_config *credential =
		known->index == KH_KNOWN_NOBODYS ? &nobodys
						 : &lists->config->credentials[known->index];
	struct one one = { .lists = lists, .credential = credential, .index = known->index };

	bool exposed = kh_secret_expose(known->secret, add_parts, &one);

	lists->most_lines = one.lines > lists->most_lines ? one.lines : lists->most_lines;
	if (lists->adds_lines)
		return;
	lists->left_out += !exposed;
	if (lists->say && !known->former && one.lines > KH_PARTS_LINES_MOST)
		kh_log_warn("credential %s: its private keys have %zu lines, and the first %d are "
			    "looked for in what sandboxes send (take a shorter key, such as "
			    "Ed25519, or one key per file)",
			    credential->name ? credential->name : "(none)", one.lines,
			    KH_PARTS_LINES_MOST);
	/* What a command gets besides may be no secret. */
	if (one.guessable && lists->say && !known->former && !known->variable)
		kh_log_warn("credential %s: its value is easy to guess, so it is not looked for in "
			    "what sandboxes send (take a random one of 16 characters or more)",
			    credential->name);
}

static bool has_more_lines(void *arg)
{
	struct lists *lists = arg;

	lists->lines_from += lists->adds_lines ? LINES_AT_ONCE : 0;
	lists->adds_lines = true;
	return lists->lines_from < lists->most_lines && lists->lines_from < KH_PARTS_LINES_MOST;
}

static bool send_lists(struct kh_worker_process *worker_process, const struct lists *lists,
		       struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	int fds[KH_LIMIT_CHANNEL_FDS];
	unsigned n = 0;

	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	bool ok = kh_wire_put_u8(&body, (uint8_t)lists->count);
	for (size_t i = 0; ok && i < lists->count; i++) {
		fds[n] = kh_secret_fd(lists->list[i]);
		ok = fds[n] >= 0 && kh_wire_put_u32(&body, (uint32_t)kh_secret_len(lists->list[i]));
		n += fds[n] >= 0;
	}
	if (ok)
		ok = kh_channel_send(&worker_process->channel, KH_WORKER_MSG_FINGERPRINTS, 0,
				     kh_buf_view(&body), fds, n, err);
	else
		kh_err_set(err, KH_ERR_SYSTEM,
			   "fingerprints of credentials: no secret page is to be had "
			   "(raise RLIMIT_MEMLOCK: LimitMEMLOCK= of the unit, or ulimit -l)");
	for (unsigned i = 0; i < n; i++)
		(void)close(fds[i]);
	return ok;
}

static bool feed(struct kh_worker_process *worker_process, struct kh_err *err)
{
	struct lists lists = { .config = worker_process->vault->config,
			       .say = worker_process->state == KH_WORKER_PROCESS_STARTING };

	if (!kh_fingerprint_maker_init(&lists.maker, err))
		return false;
	bool ok = kh_known_secrets_each(worker_process->vault, add, has_more_lines, &lists) ||
		  kh_err_set(err, KH_ERR_NO_MEMORY, "fingerprints of credentials: no memory");
	ok = ok && take_list(&lists, err) && send_lists(worker_process, &lists, err);
	if (lists.left_out > 0)
		kh_child_log_charged(KH_LOG_ERROR,
				     "%zu values of credentials are too many to be known again in "
				     "what leaves",
				     lists.left_out);
	for (size_t i = 0; i < lists.count; i++)
		kh_secret_unref(lists.list[i]);
	kh_fingerprint_maker_fini(&lists.maker);
	return ok;
}

bool kh_worker_process_feed_fingerprints(struct kh_worker_process *worker_process,
					 struct kh_err *err)
{
	struct kh_err first = KH_ERR_INIT;

	uint64_t began_ms = kh_clock_mono_ms();

	worker_process->fingerprints_due_ms = 0;
	bool ok = feed(worker_process, &first);
	if (!ok)
		*err = first;
	if (!ok && kh_scopes_relieve(worker_process->vault))
		ok = feed(worker_process, err);
	worker_process->fingerprints_ms = kh_clock_mono_ms();
	worker_process->fingerprints_took_ms = worker_process->fingerprints_ms - began_ms;
	return ok;
}

void kh_worker_process_tell_fingerprints(struct kh_worker_process *worker_process)
{
	struct kh_err err = KH_ERR_INIT;

	if (!kh_worker_process_can_be_told(worker_process) ||
	    kh_worker_process_feed_fingerprints(worker_process, &err))
		return;
	kh_log_error("the worker can't be told how to recognise a new value, so it is ended: %s",
		     err.text);
	kh_worker_process_condemn(worker_process);
}

void kh_worker_process_note_secret(struct kh_worker_process *worker_process)
{
	/* The keeper serves all tenants: it spends a twentieth of its time on this at the most. */
	enum { EVERY_MS = 250, PAUSE_TIMES = 20 };
	uint64_t now = kh_clock_mono_ms();
	uint64_t pause = worker_process->fingerprints_took_ms * PAUSE_TIMES;
	uint64_t next = worker_process->fingerprints_ms + (pause > EVERY_MS ? pause : EVERY_MS);

	if (!worker_process->fingerprints_due_ms)
		worker_process->fingerprints_due_ms =
			worker_process->fingerprints_ms && next > now ? next : now;
}

void kh_worker_process_look_at_fingerprints(struct kh_worker_process *worker_process)
{
	uint64_t due = worker_process->fingerprints_due_ms;

	if (due == 0 || kh_clock_mono_ms() < due)
		return;
	worker_process->fingerprints_due_ms =
		0; /* also where there is no worker: the next is fed */
	kh_worker_process_tell_fingerprints(worker_process);
}
