/*
 * journal.c - writes a journal as the proxy does, and says how fast
 *
 *	journal FILE [THREADS [EXCHANGES [PER_COMMIT [synced]]]]
 *
 * Each thread writes EXCHANGES exchanges, PER_COMMIT records a commit. The last exchange of each
 * thread is a refusal. Ends as a worker that is told to end does; with EXCHANGES 0 it writes until
 * it is killed.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/audit/audit.h>
#include <keyhole/base/clock.h>

enum { MOST_THREADS = 64 };

struct job {
	struct kh_journal *journal;
	uint64_t exchanges, per_commit;
	bool failed;
};

static const struct kh_authority authority = {
	.host = { .kind = KH_HOST_NAME, .len = 15, .text = "api.example.com" },
	.port = 443,
};

static bool put_exchange(struct kh_batch *batch, bool refused)
{
	char id[KH_EXCHANGE_ID_BYTES];
	struct kh_audit_open open = {
		.id = id,
		.tenant = "acme",
		.sandbox = "s1",
		.peer_pid = (uint32_t)getpid(),
		.peer_uid = (uint32_t)getuid(),
		.method = KH_SLICE("POST"),
		.scheme = KH_SCHEME_HTTPS,
		.authority = &authority,
		.path = KH_SLICE("/v1/messages"),
		.query = KH_SLICE("beta=true&key=a-value-that-is-never-written"),
		.rule = "POST https://api.example.com/v1/messages",
		.rule_where = { .line = 12 },
		.rule_file = "keyhole.yaml",
		.credential = "example",
		.stripped = "authorization",
	};
	struct kh_audit_close close = {
		.id = id,
		.status = refused ? 403 : 200,
		.reason = refused ? KH_ERR_NO_RULE : KH_ERR_NONE,
		.detail = refused ? "no rule allows it" : NULL,
		.up_bytes = 1024,
		.down_bytes = 4096,
		.duration_ms = 1234,
		.first_byte_ms = 400,
		.peer = refused ? NULL : "192.0.2.1:443",
		.tls = refused ? NULL : "TLSv1.3",
		.complete = true,
	};

	kh_exchange_id(id);
	if (refused)
		return kh_audit_deny(batch, &open, &close);
	return kh_audit_open(batch, &open) && kh_audit_close(batch, &close);
}

static void *write_exchanges(void *arg)
{
	struct job *job = arg;
	struct kh_err err = KH_ERR_INIT;
	struct kh_batch batch;

	kh_batch_init(&batch);
	for (uint64_t i = 1; !job->failed && (i <= job->exchanges || job->exchanges == 0); i++) {
		job->failed = !put_exchange(&batch, i == job->exchanges);
		if ((batch.count >= job->per_commit || i == job->exchanges) &&
		    !kh_journal_commit(job->journal, &batch, &err)) {
			fprintf(stderr, "journal: %s\n", err.text);
			job->failed = true;
		}
	}
	kh_batch_fini(&batch);
	return NULL;
}

static uint64_t number(int argc, char **argv, int i, uint64_t otherwise)
{
	uint64_t value;

	if (argc <= i)
		return otherwise;
	if (!kh_slice_to_u64(kh_slice_str(argv[i]), &value)) {
		fprintf(stderr, "journal: \"%s\" is no number\n", argv[i]);
		exit(2);
	}
	return value;
}

static bool write_all(struct kh_journal *journal, uint64_t n, uint64_t exchanges,
		      uint64_t per_commit)
{
	struct job jobs[MOST_THREADS];
	pthread_t threads[MOST_THREADS];
	uint64_t began = kh_clock_mono_us(), took;
	bool ok = true;

	for (uint64_t i = 0; i < n; i++) {
		jobs[i] = (struct job){ journal, exchanges, per_commit, false };
		if (pthread_create(&threads[i], NULL, write_exchanges, &jobs[i]) != 0)
			return false;
	}
	for (uint64_t i = 0; i < n; i++) {
		(void)pthread_join(threads[i], NULL);
		ok = ok && !jobs[i].failed;
	}
	took = kh_clock_mono_us() - began;
	printf("%" PRIu64 " exchanges in %" PRIu64 " us: %.2f us each\n", n * exchanges, took,
	       (double)took / (double)(n * exchanges));
	return ok;
}

int main(int argc, char **argv)
{
	uint64_t threads = number(argc, argv, 2, 1), exchanges = number(argc, argv, 3, 10000),
		 per_commit = number(argc, argv, 4, 16);
	struct kh_journal_report report;
	struct kh_err err = KH_ERR_INIT;
	struct kh_journal *journal;
	bool ok;
	int fd;

	if (argc < 2 || threads == 0 || threads > MOST_THREADS) {
		fputs("usage: journal FILE [THREADS [EXCHANGES [PER_COMMIT [synced]]]]\n", stderr);
		return 2;
	}
	fd = open(argv[1], O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	journal = kh_journal_open(fd, argc > 5 ? KH_DURABILITY_SYNCED : KH_DURABILITY_WRITTEN,
				  &report, &err);
	if (!journal) {
		fprintf(stderr, "journal: %s\n", err.text);
		return 1;
	}
	printf("begins at seq %" PRIu64 ", %" PRIu64 " torn bytes, %" PRIu64 " aborted\n",
	       report.seq, report.recovered_bytes, report.aborted);
	(void)fflush(stdout);
	ok = write_all(journal, threads, exchanges, per_commit);
	kh_journal_close(journal);
	(void)close(fd);
	return ok ? 0 : 1;
}
