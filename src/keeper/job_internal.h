/* job_internal.h - the keeper's children that fetch values: commands, and the fetcher */
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

#define KH_JOB_NOBODYS UINT16_MAX

enum kh_job_state {
	KH_JOB_WAITING = 1, /* waits for other jobs */
	KH_JOB_RUNNING,
	KH_JOB_ENDED, /* its output is complete */
};

/*
 * One child. A command leads its own session and process group. The whole group is killed when the
 * command ends, at its deadline, or when it prints too much. It gets /dev/null, a pipe for standard
 * output, a pipe for standard error, the chosen environment, and nothing else of the keeper.
 */
struct kh_job {
	struct kh_node link;
	enum kh_job_state state;
	/* Who the value is for; `holding` NULL: nobody any more, and `index` is KH_JOB_NOBODYS. It
	 * is of the vault that the job is in: a reload changes it, or disowns the job. */
	uint16_t index;
	struct kh_holding *holding;
	struct kh_made *made;	    /* NULL: it fetches the raw value */
	uint64_t asker;		    /* of the fetcher: whose share it takes (fair_share.h) */
	const struct kh_exec *exec; /* NULL: the fetcher */
	uint64_t command;	    /* which one `exec` is (kh_orphans_of); 0: it never ran */
	uint32_t timeout_ms;
	/* Running. */
	pid_t pid;
	int out, complaint;	   /* pipes: standard output and error; -1: ended */
	struct kh_channel channel; /* of the fetcher; fd -1: none */
	int epoll;		   /* the epoll of all jobs, which watches those three; -1: none */
	uint64_t deadline_ms;
	uint64_t began_ms;   /* wall clock */
	struct kh_buf said;  /* wiping */
	uint64_t complained; /* bytes of standard error, which are dropped: they may contain the
				value */
	bool late, too_long;
	uint64_t killed_ms;		 /* monotonic: the first time; 0: not yet */
	bool left;			 /* it was killed in vain, and is an orphan now */
	int status;			 /* waitpid's */
	char trouble[KH_ERR_TEXT_BYTES]; /* why it could not be started; "" */
	struct kh_buf environment;	 /* of a command: variables that are secrets; wiping */
	struct kh_exec_report *report;	 /* of a command: a page of its own; NULL: it never ran */
	/* The fetcher's. */
	struct kh_buf order;	      /* wiping */
	int step;		      /* of a mint that needs more than one request */
	struct kh_rotation *rotation; /* a refresh token that may be replaced; NULL: none */
};

/* What a child failed at that could not execute its command, and the error (0: there is none). The
 * child shares it with the keeper until exec: a status would be one that the command may end with,
 * too. */
enum kh_exec_step {
	KH_EXEC_STARTED = 0,
	KH_EXEC_PREPARING, /* descriptors, signals, memory */
	KH_EXEC_FINDING,   /* PATH has no program of this name */
	KH_EXEC_COVERING,  /* exec_cover.c says that it must not be started */
	KH_EXEC_COVER,	   /* bubblewrap can't be executed */
	KH_EXEC_PROGRAM,   /* nor can the program */
};
struct kh_exec_report {
	enum kh_exec_step step;
	int sys;
	char why[KH_ERR_TEXT_BYTES]; /* of KH_EXEC_COVERING: continues "the command" */
};

struct kh_jobs {
	struct kh_node list; /* struct kh_job.link */
	int epoll;	     /* -1: nothing was ever started */
};

void kh_jobs_init(struct kh_jobs *jobs);
/* Kills all jobs. */
void kh_jobs_fini(struct kh_jobs *jobs);
/* Takes ownership of the job, also on failure; it starts as soon as there is room. Return: false
 * with `err`. */
bool kh_jobs_add(struct kh_jobs *jobs, struct kh_job *job, struct kh_err *err);
struct kh_job *kh_job_new(uint32_t timeout_ms);
/* Kills what runs, and waits for its end for a moment at most: what does not end is left
 * (orphans.c). */
void kh_job_free(struct kh_job *job);
/* The values of these jobs are not needed any more: kills the jobs, except those that may bring a
 * refresh token, which must not be lost. */
void kh_jobs_disown(struct kh_job *job);
/* Starts, reads, reaps and kills, as needed. Return: a job that has ended, which the caller then
 * owns; NULL: none. Call it until it returns NULL. */
struct kh_job *kh_jobs_turn(struct kh_jobs *jobs, const struct kh_vault *vault);
uint64_t kh_jobs_deadline(const struct kh_jobs *jobs); /* monotonic; 0: none */

/* orphans.c: children that do not end although they should. */
/* Takes a child over. `command`: the keeper may not kill it, and it counts for this one; 0: it was
 * killed. */
void kh_orphans_add(pid_t pid, uint64_t command);
/* Those that have ended. Never waits. */
void kh_orphans_reap(void);
/* How many of this command are left. */
unsigned kh_orphans_of(uint64_t command);
/* At the keeper's end: waits for all of them, KH_LIMIT_COMMANDS_LEFT_END_MS at most. */
void kh_orphans_finish(void);

/* exec_failure.c: why a command gave nothing, in words that hold nothing of what it said; NULL: it
 * gave something. */
const char *kh_exec_failure(const struct kh_job *job, char *text, size_t size);

/* rotation.c: a refresh token that may be replaced by the answer; NULL is none. */
void kh_rotation_free(struct kh_rotation *rotation);
/* May a request with this token begin? Return: false: not now, since another process uses the
 * token; if `err` is set, not at all. */
bool kh_rotation_may_begin(struct kh_rotation *rotation, struct kh_err *err);

/* exec.c: the child's side of a command. Return: false when it can't be started. */
bool kh_exec_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err);
void kh_exec_report_free(struct kh_exec_report *report);
/*
 * exec_cover.c: how a program is started without a sight of what agents may write, as writable.h
 * knows it. out->program: NULL, as it is; otherwise this one, with these words. Return: false: it
 * must not be started; `err` continues "the command", and says why. It may not be NULL.
 */
struct kh_exec_cover {
	char *program;
	const char **argv; /* NULL: no program */
	struct kh_exec_cover_name {
		char *path;
		bool is_folder; /* else a file, or what is like one */
	} * names;		/* what is covered */
	size_t n_names;
};
bool kh_exec_cover(const char *program, char *const *argv, struct kh_exec_cover *out,
		   struct kh_err *err);
void kh_exec_cover_fini(struct kh_exec_cover *cover);
/* fetch_start.c: starts the fetcher, by executing this binary. */
bool kh_fetch_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err);
/* spawn.c: between fork and exec: default signals, /dev/null, `keep` (-1: none) as descriptor 3, no
 * other descriptor above 2. Return: false: exit at once. */
bool kh_spawn_bare(int keep);
/* Raises the keeper's limit of descriptors to the hard limit. _restore_ resets it in a child right
 * before exec, so that other programs get the original limit. */
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
