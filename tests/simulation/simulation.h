/*
 * simulation.h - the worker's core under a seeded simulation
 *
 *   sandboxes (sandboxes.c)                                  upstreams (upstreams.c)
 *      HTTP/1, CONNECT, TLS, HTTP/2  ⇄ pipes ⇄ keyhole ⇄ pipes ⇄  HTTP/1, HTTP/2, raw
 *
 * Session, exchange, upstream connection, loop, policy, codecs and credentials are the real ones.
 * Replaced by the linker (--wrap) are what they stand on:
 *
 *   time.c       libevent and the clocks: nothing happens unless the scheduler says so
 *   pipes.c      descriptors: bytes come in pieces, ends and resets come at any moment
 *   handshakes.c TLS: a handshake is a wait that ends well, badly or late; bytes stay in the clear
 *   names.c      resolver and dialer
 *   keeper.c     the keeper's answers (values, leaves), reloads, sandboxes that come and go
 *   rules.c      nothing: the configurations, and tables that say what each of them allows
 *   journal.c    the journal; and what its records allow: the oracle of most checks
 *   faults.c     memory, system calls and the journal fail when they are told to
 *
 * One seed decides everything, so a seed that fails can be replayed. What the placeholders allocate
 * never fails. A check that fails prints the seed and ends the process.
 */
#ifndef KEYHOLE_TESTS_SIMULATION_H
#define KEYHOLE_TESTS_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/buf.h>
#include <keyhole/config/config.h>
#include <keyhole/tls/tls.h>

#include <keyhole/loop/acceptor.h>
#include <keyhole/loop/loop.h>
#include <keyhole/loop/worker.h>

/* ---- chance (main.c) ---- */

/* The next number below `n` (at least 1) that the seed gives. */
uint64_t sim_below(uint64_t n);
/* Once in `n` times. */
bool sim_one_in(unsigned n);

/* ---- what is said (main.c) ---- */

/* A promise is broken: prints it and how to replay the seed, and ends the process. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define SIM_CHECK(so, ...) \
	do { \
		if (!(so)) \
			sim_fail(__VA_ARGS__); \
	} while (0)
/* A line of --trace, with the time. */
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- faults (faults.c) ---- */

enum sim_fault { SIM_FAULT_ALLOCATION = 0, SIM_FAULT_CALL, SIM_FAULT_JOURNAL, SIM_FAULTS };

/* Of each kind: how often it was asked for in this run, and which of those fail. */
struct sim_fault_plan {
	uint64_t asked;
	uint64_t fails_at; /* from 1; 0: none. Once */
	bool failed;
};
extern struct sim_fault_plan sim_faults[SIM_FAULTS];

/* The one call: does it fail? Only between sim_faults_on and sim_faults_off. */
bool sim_fails(enum sim_fault what);
/* keyhole's code runs from here on, or a test double's. Return: what it was before. */
bool sim_faults_set(bool on);
/* The n-th from now on fails, once. */
void sim_fault_arm(enum sim_fault what, uint64_t n);
void sim_faults_reset(void);

/* ---- time (time.c) ---- */

uint64_t sim_now_ms(void);
void sim_time_reset(void);
/* Events of keyhole's that are due: runs one of them, whichever chance says. Return: false: none
 * is. */
bool sim_time_run_one(struct kh_loop *loop);
/* When the next one is due; UINT64_MAX: there is none. */
uint64_t sim_time_next_us(void);
uint64_t sim_time_now_us(void);
void sim_time_set_us(uint64_t us);
/* Events that are armed. */
size_t sim_time_armed(void);

/* ---- pipes (pipes.c) ---- */

enum { SIM_PIPES = 64, SIM_FD = 1000000 };

/* One connection, keyhole's end of it and the far end. */
struct sim_pipe {
	bool used;
	bool up;		  /* towards an upstream, else from a sandbox */
	bool given;		  /* keyhole has it; it closes it once */
	bool closed;		  /* … and has */
	struct kh_stream *stream; /* keyhole's; NULL: none yet, or no more */
	struct kh_buf coming;	  /* said by the far end, and still on its way */
	struct kh_buf in;	  /* has arrived */
	bool end_coming, ended;	  /* the far end's last byte */
	bool reset;		  /* reads and writes fail */
	struct kh_buf out;	  /* written by keyhole, not read by the far end */
	size_t room;		  /* so much may lie in `out` */
	bool shut;		  /* keyhole wrote its last byte */
	bool far_gone;		  /* nobody reads `out` */
	uint64_t wrote;		  /* bytes that keyhole wrote */
	bool h2;		  /* up: TLS agreed on HTTP/2 */
	uint64_t whose;		  /* up: for whom it was used first */
	int host;		  /* up: whose address it leads to (names.c) */
	unsigned net;		  /* up: … and in which network that lies */
	char tail[64];		  /* the last bytes that keyhole wrote, for the search for values */
	size_t tail_len;
	void *far; /* struct sim_client or struct sim_server */
};
extern struct sim_pipe sim_pipes[SIM_PIPES];

/* Return: NULL: there are too many. */
struct sim_pipe *sim_pipe_new(bool up);
int sim_pipe_fd(const struct sim_pipe *pipe);
/* The far end says something, or that this was all, or is gone at once. */
void sim_pipe_say(struct sim_pipe *pipe, const void *bytes, size_t len);
void sim_pipe_end(struct sim_pipe *pipe);
void sim_pipe_reset(struct sim_pipe *pipe);
/* Something of what is on its way arrives. */
bool sim_pipe_can_deliver(const struct sim_pipe *pipe);
void sim_pipe_deliver(struct sim_pipe *pipe);
void sim_pipe_changed(struct sim_pipe *pipe);
void sim_pipes_free(void);

/* ---- TLS (handshakes.c) ---- */

/* What the far end will agree to. */
bool sim_handshake_step(void);	      /* one of them ends, or goes on. Return: false: none waits */
uint64_t sim_handshake_next_us(void); /* a deadline */
bool sim_handshake_is_done(const struct kh_stream *stream);
/* The sandbox's end offers HTTP/2. */
void sim_handshake_want_h2(struct kh_stream *stream, bool h2);
void sim_handshakes_free(void);

/* ---- names and addresses (names.c) ---- */

/* Hosts of the configuration; their index is the last byte of their address. */
enum sim_host {
	SIM_HOST_KEY = 0, /* https, has the credential `key`, for acme */
	SIM_HOST_FREE,	  /* https, without a credential */
	SIM_HOST_OTHER,	  /* https, has the credential `other`, for globex */
	SIM_HOST_PLAIN,	  /* http */
	SIM_HOST_RAW,	  /* tcp, nobody reads it */
	SIM_HOST_SHARED,  /* https: acme's paths have `key`, but /free; globex's have `other` */
	SIM_HOST_MODELS, /* https, `key`; a rule asks for the model in the content, which is held */
	SIM_HOST_FORBIDDEN, /* no rule allows it */
	SIM_HOSTS
};
extern const char *const sim_host_names[SIM_HOSTS];
int sim_host_of(struct kh_slice name);
/* 8.8.NET.HOST */
unsigned sim_net_of(const struct kh_sockaddr *addr);
bool sim_names_step(void);
uint64_t sim_names_next_us(void);
/* Questions that outlive their lookup, and are charged for. */
bool sim_names_has_questions(void);
void sim_names_free(void);

/* ---- the keeper (keeper.c) ---- */

void sim_keeper_prepare(void); /* once */
/* A generation of the configuration `which` (rules.c). NULL without memory. */
struct kh_generation *sim_keeper_generation(unsigned which, const struct kh_generation *before);
/* The configuration of the generation with that number. */
unsigned sim_keeper_which(uint32_t of);
bool sim_keeper_has_questions(void);
void sim_keeper_answer(void); /* one of them */
void sim_keeper_stale(void);  /* a value is another one from now on */
void sim_keeper_reload(void);
void sim_keeper_add_sandbox(void);
void sim_keeper_remove_sandbox(void);
void sim_keeper_reset(void);
void sim_keeper_forget(void); /* the very last */
/* A sandbox that is gone holds nothing; at the end of a turn. */
void sim_keeper_check_gone(void);
/* An acceptor that takes connections, by chance; NULL: there is none. *globex: whose it is. */
struct kh_acceptor *sim_keeper_acceptor(bool *globex);
/* Such a one's connections have done their share of a few turns. */
void sim_keeper_use_up_share(void);

/* ---- the configurations (rules.c) ---- */

enum { SIM_VALUES = 3, SIM_NO_VALUE = -1 };
extern const char *const sim_values[SIM_VALUES]; /* of credentials */
extern const char sim_value_mark[];		 /* that all of them hold, and nothing else */
void sim_rules_prepare(void);			 /* once */
void sim_rules_reset(void);			 /* nothing of any limit is in use */
/* Of the configuration `which`, for the worker; the ledger of limits, and how many slots it has. */
int sim_rules_snapshot(unsigned which);
int sim_rules_ledger(void);
uint32_t sim_rules_slots(void);
/* At the end: no exchange and no connection holds one. */
void sim_rules_check_places(void);
unsigned sim_rules_other_than(unsigned which);
/* Whose a sandbox is, by its name. */
const char *sim_rules_tenant_of(const char *sandbox);
bool sim_rules_have(unsigned which, const char *tenant);
bool sim_rules_observe(unsigned which, const char *tenant);
/* Into sim_values. */
int sim_rules_credential(unsigned which, unsigned index);
/* Are the addresses 8.8.`net`.0/24 denied to it, and is that enforced? */
bool sim_rules_deny_net(unsigned which, const char *tenant, unsigned net);
/* … or are they, and is that only observed, so that nothing goes in there? */
bool sim_rules_withhold_at(unsigned which, const char *tenant, unsigned net);
/* Which value (or SIM_NO_VALUE) goes up with a request; a check fails where none may. */
int sim_rules_value(unsigned which, const char *tenant, int host, const char *path);
/* A record of that tenant's sandbox names a limit, or none (NULL). */
void sim_rules_check_limit(const char *limit, const char *tenant, const char *sandbox);

/* ---- the journal (journal.c) ---- */

/* Something goes to that host now: is there a record, written, open? */
void sim_journal_allows(int host, const char *what);
/* The head of a request has arrived: was it recorded, and is the connection one for its tenant and
 * credentials (HTTP/2: and its sandbox)? Return: the value that is due in it; NULL: none is. */
const char *sim_journal_allows_request(struct sim_pipe *pipe, struct kh_slice path, bool has_value);
/* An address of that host is dialled: do the rules in force let one of those go there who have a
 * record? */
void sim_journal_allows_net(int host, unsigned net);
/* The head of this exchange is about to go up, and the configuration `which` is in force: is the
 * record what that one says? */
void sim_journal_head_goes(const char *id, const char *sandbox, unsigned which);
/* After each step; and at the end, when each open has its close. */
void sim_journal_check_end(void);
void sim_journal_reset(void);
size_t sim_journal_open_records(void);

/* ---- who speaks (sandboxes.c, upstreams.c) ---- */

bool sim_sandboxes_act(void); /* something that a sandbox may do now. Return: false: nothing */
bool sim_sandboxes_read(void);
void sim_sandboxes_leave(void); /* some of them */
void sim_sandbox_free(struct sim_pipe *pipe);
void sim_sandboxes_reset(void);
bool sim_upstreams_read(void);
void sim_upstream_new(struct sim_pipe *pipe);
void sim_upstream_free(struct sim_pipe *pipe);
/* A TLS handshake on this pipe is over. */
void sim_sandbox_has_tls(struct sim_pipe *pipe);

/* ---- the world (world.c) ---- */

/* A run is more likely to meet what needs several things at a time where it does some of them only,
 * and those often. */
struct sim_mood {
	bool slow_names;	/* lookups and dials take their time */
	bool dynamic_sandboxes; /* sandboxes come and go, and most connections are theirs */
	bool one_host;		/* everybody wants the same */
	unsigned host;		/* … which is that one of those in sandboxes.c */
	bool restless;		/* more is disturbed */
	bool no_faults;		/* nothing fails */
};

struct sim_world {
	struct sim_mood mood;
	struct kh_worker worker;
	struct kh_loop *loop;
	struct kh_err err;
	bool calm; /* the far ends only finish what they have begun */
	unsigned steps;
};
extern struct sim_world sim;

void sim_world_prepare(void); /* once */
void sim_world_begin(void);
/* One step: something happens, then everything is checked. */
void sim_world_step(void);
/* Nobody does anything more: all ends within its timers, and nothing is left. */
void sim_world_end(void);

#endif
