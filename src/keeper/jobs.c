/* jobs.c - the keeper's children that fetch values: queued, started, read, reaped, killed
 *
 * The keeper's loop waits for one descriptor for all jobs (epoll) and for SIGCHLD; each turn checks
 * every job. may_start decides which waiting job may start: commands and fetchers do not wait for
 * each other, a sandbox does not wait for another's scopes, and a credential not for another's
 * endpoint that hangs. */

#include "keeper_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/fair_share.h>

enum {
	/* One byte more than a value may have, and a line's end. */
	SAID_BYTES = KH_LIMIT_SECRET_BYTES + 3,
	ORDER_BYTES = KH_LIMIT_CHANNEL_BYTES / 2,
	READ_BYTES = 4096,
	GRACE_MS = 2000,
	END_MS = 100, /* for a killed one that is let go */
};

void kh_jobs_init(struct kh_jobs *jobs)
{
	*jobs = (struct kh_jobs){ .epoll = -1 };
	kh_list_init(&jobs->list);
}

struct kh_job *kh_job_new(uint32_t timeout_ms)
{
	struct kh_job *job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	job->state = KH_JOB_WAITING;
	job->timeout_ms = timeout_ms;
	job->pid = -1;
	job->out = job->complaint = job->channel.fd = job->epoll = -1;
	kh_buf_init_wiping(&job->said, SAID_BYTES);
	kh_buf_init_wiping(&job->order, ORDER_BYTES);
	kh_buf_init_wiping(&job->environment, 0);
	return job;
}

static void close_pipe(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* What is closed alone is waited for on: a child that was just forked has it as well. */
static void unwatch(const struct kh_job *job, int fd)
{
	if (fd >= 0 && job->epoll >= 0)
		(void)epoll_ctl(job->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static void end_pipe(const struct kh_job *job, int *fd)
{
	unwatch(job, *fd);
	close_pipe(fd);
}

static void end_channel(struct kh_job *job)
{
	unwatch(job, job->channel.fd);
	kh_channel_fini(&job->channel);
}

static void close_all(struct kh_job *job)
{
	end_pipe(job, &job->out);
	end_pipe(job, &job->complaint);
	end_channel(job);
}

/* Whatever it started, unless that has gone its own way. Return: false: it may not be killed. */
static bool kill_group(const struct kh_job *job)
{
	if (job->pid < 0)
		return true;
	(void)kill(-job->pid, SIGKILL);
	return kill(job->pid, SIGKILL) == 0 || errno != EPERM;
}

/* Nobody waits for it any more: it ends at once, or is an orphan. */
static void let_go(struct kh_job *job, int wait_ms)
{
	if (job->pid < 0)
		return;
	bool killed = kill_group(job);
	pid_t ended = waitpid(job->pid, NULL, WNOHANG);
	for (int ms = 0; killed && ended == 0 && ms < wait_ms; ms++) {
		(void)poll(NULL, 0, 1);
		ended = waitpid(job->pid, NULL, WNOHANG);
	}
	if (ended == 0)
		kh_orphans_add(job->pid, killed ? 0 : job->command);
	job->pid = -1;
}

void kh_job_free(struct kh_job *job)
{
	if (!job)
		return;
	let_go(job, END_MS);
	close_all(job);
	kh_buf_fini(&job->said);
	kh_buf_fini(&job->order);
	kh_buf_fini(&job->environment);
	kh_exec_report_free(job->report);
	kh_rotation_free(job->rotation);
	free(job);
}

void kh_jobs_fini(struct kh_jobs *jobs)
{
	struct kh_node *next;
	/* All of them are waited for together (kh_orphans_finish). */
	for (struct kh_node *node = jobs->list.next; node && node != &jobs->list; node = next) {
		struct kh_job *job = kh_container_of(node, struct kh_job, link);
		next = node->next;
		kh_list_remove(node);
		let_go(job, 0);
		kh_job_free(job);
	}
	close_pipe(&jobs->epoll);
}

bool kh_jobs_add(struct kh_jobs *jobs, struct kh_job *job, struct kh_err *err)
{
	if (jobs->epoll < 0)
		jobs->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (jobs->epoll < 0) {
		kh_job_free(job);
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "epoll_create1");
	}
	kh_list_append(&jobs->list, &job->link);
	return true;
}

void kh_jobs_disown(struct kh_job *job)
{
	if (job->state != KH_JOB_WAITING && job->rotation) {
		job->index = KH_JOB_NOBODYS;
		job->holding = NULL;
		job->made = NULL;
		return;
	}
	kh_list_remove(&job->link);
	kh_job_free(job);
}

static void watch(const struct kh_jobs *jobs, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	if (fd >= 0)
		(void)epoll_ctl(jobs->epoll, EPOLL_CTL_ADD, fd, &event);
}

static void give_up(struct kh_job *job, const struct kh_err *why)
{
	(void)snprintf(job->trouble, sizeof(job->trouble), "%s", why->text);
	close_all(job);
	job->state = KH_JOB_ENDED;
}

/* FNV-1a over its words: a reload reads the same command anew. */
static uint64_t command_of(const struct kh_exec *exec)
{
	uint64_t hash = 14695981039346656037ULL;
	for (size_t i = 0; i < exec->n_argv; i++) {
		const char *at = exec->argv[i];
		do
			hash = (hash ^ (unsigned char)*at) * 1099511628211ULL;
		while (*at++);
	}
	return hash ? hash : 1;
}

static bool is_left_too_often(struct kh_job *job, struct kh_err *err)
{
	if (!job->exec)
		return false;
	job->command = command_of(job->exec);
	unsigned n = kh_orphans_of(job->command);
	return n >= KH_LIMIT_COMMANDS_LEFT &&
	       !kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "%u of its processes did not end in time, and could not be killed (end "
			   "them, and limit its time: sudo timeout 10 COMMAND)",
			   n);
}

static void start(const struct kh_jobs *jobs, const struct kh_vault *vault, struct kh_job *job)
{
	struct kh_err err = KH_ERR_INIT;
	if (is_left_too_often(job, &err) || !kh_rotation_may_begin(job->rotation, &err)) {
		if (err.code)
			give_up(job, &err);
		return;
	}
	/* The fetcher has a clock of its own, and says so when it is over. */
	job->deadline_ms = kh_clock_mono_ms() + job->timeout_ms + (job->exec ? 0 : GRACE_MS);
	job->began_ms = kh_clock_wall_ms();
	if (!(job->exec ? kh_exec_start(vault, job, &err) : kh_fetch_start(vault, job, &err))) {
		give_up(job, &err);
		return;
	}
	job->state = KH_JOB_RUNNING;
	job->epoll = jobs->epoll;
	watch(jobs, job->out);
	watch(jobs, job->complaint);
	watch(jobs, job->channel.fd);
}

/* Until nothing more is there for now. */
static void read_out(struct kh_job *job)
{
	while (job->out >= 0) {
		size_t room = kh_buf_room(&job->said);
		char *into = kh_buf_reserve(&job->said, room < READ_BYTES ? room : READ_BYTES);
		if (room == 0 || !into) {
			job->too_long = true;
			end_pipe(job, &job->out);
			return;
		}
		ssize_t n = read(job->out, into, room < READ_BYTES ? room : READ_BYTES);
		if (n > 0)
			kh_buf_commit(&job->said, (size_t)n);
		else if (n == 0)
			end_pipe(job, &job->out);
		else if (errno != EINTR)
			return;
	}
}

/* It may hold what it should not: counted, and overwritten. */
static void read_complaint(struct kh_job *job)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	kh_buf_init_wiping(&bytes, READ_BYTES);
	char *into = kh_buf_reserve(&bytes, READ_BYTES);
	for (unsigned i = 0; into && job->complaint >= 0 && i < 16; i++) {
		ssize_t n = read(job->complaint, into, READ_BYTES);
		if (n > 0)
			job->complained += (uint64_t)n;
		else if (n == 0)
			end_pipe(job, &job->complaint);
		else if (errno != EINTR)
			break;
	}
}

static void read_answer(struct kh_job *job)
{
	struct kh_channel_message message;
	if (job->channel.fd < 0)
		return;
	switch (kh_channel_receive(&job->channel, false, &message)) {
	case KH_CHANNEL_AGAIN:
		return;
	case KH_CHANNEL_GOT:
		/* It has one thing to say. */
		if (message.n_fds == 0)
			(void)kh_buf_append_slice(&job->said, message.body);
		kh_channel_message_close(&message);
		break;
	case KH_CHANNEL_CLOSED:
	case KH_CHANNEL_BAD:
		break;
	}
	end_channel(job);
}

/* Return: the child has ended; its group is gone with it. */
static bool has_ended(struct kh_job *job)
{
	siginfo_t info = { .si_pid = 0 };
	if (waitid(P_PID, (id_t)job->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    info.si_pid == 0)
		return false;
	(void)kill_group(job);
	if (waitpid(job->pid, &job->status, 0) != job->pid)
		job->status = -1;
	job->pid = -1;
	return true;
}

/* Kills it. Return: it is given up, since it does not end. */
static bool end(struct kh_job *job)
{
	uint64_t now = kh_clock_mono_ms();
	bool killed = kill_group(job);
	job->killed_ms = job->killed_ms ? job->killed_ms : now;
	if (has_ended(job))
		return false;
	if (killed && now < job->killed_ms + GRACE_MS)
		return false;
	kh_orphans_add(job->pid, job->command);
	job->pid = -1;
	job->left = true;
	return true;
}

static void look_at(struct kh_job *job)
{
	read_out(job);
	read_complaint(job);
	read_answer(job);
	job->late |= kh_clock_mono_ms() >= job->deadline_ms;
	/* One that has said all it may say is not waited for. */
	bool given_up = (job->late || job->too_long) && end(job);
	if (job->pid >= 0 && !has_ended(job))
		return;
	if (given_up) {
		close_all(job);
		job->state = KH_JOB_ENDED;
		return;
	}
	read_out(job);
	read_complaint(job);
	read_answer(job);
	close_all(job);
	job->state = KH_JOB_ENDED;
}

/* Those that run, of the fetchers: in all, of the same credential, for the same sandbox. */
struct running {
	unsigned commands, fetchers, of_credential, of_asker;
};

static struct running count_running(const struct kh_jobs *jobs, const struct kh_job *like)
{
	struct running n = { 0 };
	for (struct kh_node *node = jobs->list.next; node != &jobs->list; node = node->next) {
		const struct kh_job *job = kh_container_of(node, struct kh_job, link);
		if (job->state != KH_JOB_RUNNING)
			continue;
		n.commands += job->exec != NULL;
		n.fetchers += !job->exec;
		n.of_credential += !job->exec && job->index == like->index;
		n.of_asker += !job->exec && job->asker == like->asker;
	}
	return n;
}

/* A credential gets no more fetchers than are left to all others, so that none takes the last: half
 * of them the first one whose endpoint hangs, a quarter the second. */
static bool may_start(const struct kh_jobs *jobs, const struct kh_job *job)
{
	const struct running n = count_running(jobs, job);
	if (job->exec)
		return n.commands < KH_LIMIT_COMMANDS;
	return n.fetchers < KH_LIMIT_FETCHERS && n.of_credential < KH_LIMIT_FETCHERS - n.fetchers &&
	       (job->asker == KH_FAIR_SHARE_NOBODY || n.of_asker < KH_LIMIT_FETCHERS_PER_SANDBOX);
}

struct kh_job *kh_jobs_turn(struct kh_jobs *jobs, const struct kh_vault *vault)
{
	struct kh_node *next;
	kh_orphans_reap();
	if (!jobs->list.next)
		return NULL;
	for (struct kh_node *node = jobs->list.next; node != &jobs->list; node = next) {
		struct kh_job *job = kh_container_of(node, struct kh_job, link);
		next = node->next;
		if (job->state == KH_JOB_WAITING && may_start(jobs, job))
			start(jobs, vault, job);
		if (job->state == KH_JOB_RUNNING)
			look_at(job);
		if (job->state == KH_JOB_ENDED) {
			kh_list_remove(&job->link);
			return job;
		}
	}
	return NULL;
}

uint64_t kh_jobs_deadline(const struct kh_jobs *jobs)
{
	enum { LOCK_MS = 200 };
	uint64_t first = 0;
	if (!jobs->list.next)
		return 0;
	for (struct kh_node *node = jobs->list.next; node != &jobs->list; node = node->next) {
		const struct kh_job *job = kh_container_of(node, struct kh_job, link);
		uint64_t due = job->deadline_ms;
		if (job->state == KH_JOB_WAITING)
			due = kh_clock_mono_ms() + LOCK_MS;
		/* A killed one is waited for; its SIGCHLD comes, or it is given up. */
		if (job->killed_ms)
			due = job->killed_ms + GRACE_MS;
		if (!first || due < first)
			first = due;
	}
	return first;
}
