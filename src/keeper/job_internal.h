/* job_internal.h - children of the keeper that bring values: commands, and the fetcher */
#ifndef KEYHOLE_KEEPER_JOB_INTERNAL_H
#define KEYHOLE_KEEPER_JOB_INTERNAL_H

#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/channel.h>
#include <keyhole/base/list.h>
#include <keyhole/config/source.h>

struct kh_holding;
struct kh_made;
struct kh_rotation;
struct kh_vault;

enum kh_job_state {
	KH_JOB_WAITING = 1, /* for others to end */
	KH_JOB_RUNNING,
	KH_JOB_ENDED, /* what it said is there to be taken */
};

/*
 * One child. A command is the head of a session and of a process group of its own, which is killed
 * whole: when the command ends, when its time is over, when it prints too much. It gets /dev/null,
 * a pipe for what it prints and one for what it complains of, the environment that was chosen, and
 * nothing else of the keeper.
 */
struct kh_job {
	struct kh_node link;
	enum kh_job_state state;
	/* Whose it is; `holding` NULL: nobody's any more. */
	uint16_t index;
	struct kh_holding *holding;
	struct kh_made *made;	    /* NULL: it brings the raw value */
	uint64_t asker;		    /* the fetcher's: whose share it is (fair_share.h) */
	const struct kh_exec *exec; /* NULL: the fetcher */
	uint32_t timeout_ms;
	/* Running. */
	pid_t pid;
	int out, complaint;	   /* pipes; -1: at their end */
	struct kh_channel channel; /* the fetcher's; fd -1: none */
	int epoll;		   /* that of the jobs, which waits for those three; -1: none */
	uint64_t deadline_ms;
	uint64_t began_ms;   /* wall clock */
	struct kh_buf said;  /* wiping */
	uint64_t complained; /* bytes, which nobody looks at: they may hold the value */
	bool late, too_long;
	int status;			 /* waitpid's */
	char trouble[KH_ERR_TEXT_BYTES]; /* why it could not be started; "" */
	struct kh_buf environment;	 /* a command's: variables that are secrets; wiping */
	/* The fetcher's. */
	struct kh_buf order;	      /* wiping */
	int step;		      /* of a mint that takes more than one question */
	struct kh_rotation *rotation; /* a refresh token that may be replaced; NULL: none */
};

/* Exit statuses of what never became the command. */
enum { KH_EXEC_NOT_THERE = 127, KH_EXEC_NO_EXEC = 126 };

struct kh_jobs {
	struct kh_node list; /* struct kh_job.link */
	int epoll;	     /* -1: nothing was ever started */
};

void kh_jobs_init(struct kh_jobs *jobs);
/* Ends all of them. */
void kh_jobs_fini(struct kh_jobs *jobs);
/* Takes it over; it starts as soon as there is room. Return: false without memory. */
bool kh_jobs_add(struct kh_jobs *jobs, struct kh_job *job, struct kh_err *err);
struct kh_job *kh_job_new(uint32_t timeout_ms);
void kh_job_free(struct kh_job *job); /* kills what runs */
/* Nobody wants what it brings: it ends at once. But not where it may bring a refresh token, which
 * must not be lost on its way. */
void kh_jobs_disown(struct kh_job *job);
/* Starts, reads, waits, kills: whatever there is to do. Return: one that has ended, taken out of
 * the list and now the caller's; NULL: none. Call until then. */
struct kh_job *kh_jobs_turn(struct kh_jobs *jobs, const struct kh_vault *vault);
uint64_t kh_jobs_deadline(const struct kh_jobs *jobs); /* monotonic; 0: none */

/* rotation.c: a refresh token that may be replaced by the answer; NULL is none. */
void kh_rotation_free(struct kh_rotation *rotation);
/* Not while another process asks with the same token; with `err`: never, as things are. */
bool kh_rotation_may_begin(struct kh_rotation *rotation, struct kh_err *err);

/* exec.c: the child's side of a command. Return: false when it can't be started. */
bool kh_exec_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err);
/* fetch_start.c: the fetcher, by this binary. */
bool kh_fetch_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err);
/* spawn.c: between fork and exec: default signals, /dev/null, `keep` (-1: none) as descriptor 3, no
 * other descriptor above 2. Return: false: exit at once. */
bool kh_spawn_bare(int keep);
/* The keeper may have as many descriptors as the hard limit says; programs of others get the limit
 * that it was started with, in a child right before exec. */
void kh_spawn_raise_descriptors(void);
void kh_spawn_restore_descriptors(void);
/* spawn.c: between fork and exec: becomes this program anew, as `keyhole VERB`. Returns where that
 * fails. Its environment holds one variable, of ours. */
void kh_spawn_self(char *verb);

/*
 * exec_output.c: what a command printed, as a value and its end. `form_text`: the value may be a
 * whole document. Return: false: `err` says what is wrong and holds no byte of it.
 */
struct kh_exec_output {
	struct kh_buf value; /* wiping */
	uint64_t expires_ms; /* wall clock; 0: it does not say */
};
bool kh_exec_output_read(struct kh_exec_output *out, struct kh_slice said,
			 const struct kh_exec *exec, bool form_text, uint64_t now_ms,
			 struct kh_err *err);
void kh_exec_output_fini(struct kh_exec_output *exec_output);

#endif
