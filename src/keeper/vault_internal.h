/* vault_internal.h - the values of all credentials: read, renewed, made into tokens, answered */
#ifndef KEYHOLE_KEEPER_VAULT_INTERNAL_H
#define KEYHOLE_KEEPER_VAULT_INTERNAL_H

#include <keyhole/config/config.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/base/fair_share.h>
#include <keyhole/base/secret.h>
#include <keyhole/config/credential_ref.h>

#include "job_internal.h"
#include "watch_internal.h"

/* --- sources.c: what is read at once ---------------------------------------------------------- */

enum kh_source_result {
	KH_SOURCE_GOT = 1,
	KH_SOURCE_ABSENT,  /* no such variable or file, or an empty one */
	KH_SOURCE_REFUSED, /* it exists but can't be used */
};
/* The form that a value must have. */
enum kh_value_form {
	KH_VALUE_LINE = 0, /* one line without control bytes, put into a request as it is */
	KH_VALUE_TEXT,	   /* a document that the keeper parses: a key file, a private key */
};
/*
 * Reads the value of a variable, a file or a systemd credential into *out. A variable's value is
 * overwritten in the environment in any case. `err` names credential and source, and never contains
 * a byte of the value. A named pipe is read to its end; if that does not come within `pipe_ms`, the
 * error is ETIMEDOUT.
 */
enum kh_source_result kh_source_read(const char *credential, const struct kh_source *source,
				     enum kh_value_form form, uint32_t pipe_ms,
				     struct kh_secret **out, struct kh_err *err);
bool kh_source_is_pipe(const struct kh_source *source);
/* Makes a secret of `bytes` (without a final line end), and overwrites them. `what`: "the file /x",
 * for messages; escaped. */
enum kh_source_result kh_source_take(const char *credential, const struct kh_source *source,
				     const char *what, char *bytes, size_t len,
				     enum kh_value_form form, struct kh_secret **out,
				     struct kh_err *err);
/* Strips a byte order mark, which some editors write; no value begins with one. */
struct kh_slice kh_source_without_mark(struct kh_slice value);
/* Checks, as kh_source_take does, a value that was read before for another source. */
enum kh_source_result kh_source_judge(const char *credential, const struct kh_source *source,
				      enum kh_value_form form, const struct kh_secret *secret,
				      struct kh_err *err);
/* The state of the file that the last warning was about. */
struct kh_warned {
	dev_t device;
	ino_t inode;
	mode_t mode; /* 0: none */
};
/* Warns if everybody may use a source's file; once per state of the file. */
void kh_source_warn_of_mode(const char *credential, const struct kh_source *source,
			    struct kh_warned *warned);
/* Overwrites each occurrence of the variable in our environment. */
void kh_source_forget(const char *name);
/* The path of a systemd credential. Heap; NULL: there is no folder of credentials. */
char *kh_source_systemd_path(const struct kh_source *source);

/* --- the vault -------------------------------------------------------------------------------- */

/* One value with its lifetime: the raw value of a source, or a token made of it for a scope. */
struct kh_item {
	struct kh_secret *secret; /* NULL: no value */
	uint64_t got_ms;	  /* wall clock */
	uint64_t expires_ms;	  /* wall clock; 0: never */
	uint64_t due_ms;	  /* monotonic: when the next try is due; 0: none is */
	uint64_t failed_ms;	  /* wall clock: the last try, if it failed; 0: it succeeded */
	unsigned failures;	  /* in a row */
	uint64_t renewals, all_failures;
	struct kh_job *job; /* a try in progress */
	bool asked;	    /* the worker waits for it */
	bool used;	    /* the worker got this value at least once */
	bool told;	    /* the worker has it */
	/* Monotonic: an upstream refused this value; until then, while a new one is being made, it
	 * is not given out. 0: it is given out. */
	uint64_t withheld_ms;
	char *why;    /* the last failure, for the operator */
	char *reason; /* the same for a sandbox */
};

/* A token for one scope of the credential ("": no scope). */
struct kh_made {
	struct kh_made *next;
	struct kh_item item;
	uint64_t last_use;		  /* kh_vault.uses at its last use */
	uint64_t last_use_ms;		  /* monotonic */
	struct kh_fair_share_asker asker; /* the sandbox that asked last */
	uint64_t refused_ms; /* monotonic: when it was last renewed because it was refused; 0: never
			      */
	bool relieved; /* kh_scopes_relieve took its value; kh_scopes_reap frees what is idle */
	size_t scope_len;
	char scope[];
};

/* What one source gave. */
struct kh_holding {
	const struct kh_source *source;
	uint16_t tenant; /* KH_NO_TENANT: everybody's */
	struct kh_item raw;
	struct kh_secret *client_secret; /* of a mint that needs one */
	struct kh_secret *refresh_token; /* from the mint's state file, when it was last read */
	char *client_why; /* why the client secret could not be read; NULL: it was read */
	struct kh_warned warned, client_warned;
	struct kh_made *made;
	size_t n_made;
	bool made_told; /* the worker may have values that were made of it and are not in `made` */
	char *installation; /* GitHub: the owner's installation, once it is known */
	bool is_user;	    /* GitHub: the owner is a user, not an organisation */
	uint64_t tried_ms;  /* when it, or its client's secret, was last tried */
	/* Monotonic: until then its files, or the certificate's, are not waited for (vault_pipes.c)
	 */
	uint64_t rests_ms, certificate_rests_ms;
	uint64_t refused_ms; /* the latest refused_ms of `made`, or that of a command's value */
};

struct kh_vault_slot {
	struct kh_holding *holdings;
	size_t n_holdings;
	bool alternative; /* a rule uses another credential if this one has no value */
	bool told_state;  /* the status was told since it changed */
};

/* Values of variables, which can be read from the environment only once (variables.c). */
struct kh_variable {
	char *name;
	struct kh_secret *secret;
};

/* A secret that is held now, or was held (known_secrets.c). */
struct kh_known_secret {
	struct kh_secret *secret; /* a reference */
	uint64_t expires_ms;	  /* wall clock; 0: unknown */
	uint16_t index;		  /* of the credential, or KH_KNOWN_NOBODYS */
	uint16_t tenant;	  /* or KH_NO_TENANT */
	bool variable;		  /* of a command's environment */
	bool made;		  /* a token, not what a source gave */
	bool scoped;		  /* for a scope that a sandbox of `asker` chose */
	uint16_t asker;		  /* a tenant, or KH_NO_TENANT */
	bool former;
	bool held, is_new; /* only used while the list is collected */
};
#define KH_KNOWN_NOBODYS UINT16_MAX

struct kh_lru;

/* A value, as it is sent to the worker. */
struct kh_value {
	/* The vault's own reference. It is there until the vault is called again; while `answer`
	 * runs, it is there whatever that calls. */
	struct kh_secret *secret;
	uint64_t expires_ms; /* wall clock; 0: never */
};

struct kh_vault {
	struct kh_config *config;
	struct kh_vault_slot *slots; /* in the order of config->credentials */
	struct kh_variable *variables;
	size_t n_variables;
	struct kh_known_secret *known;
	size_t n_known;
	uint64_t uses;	      /* of scopes */
	struct kh_lru *paces; /* rates of those who ask for scopes; NULL: nobody did */
	struct kh_jobs jobs;
	struct kh_watch *watch; /* of files; NULL: none to watch */
	uint64_t due_ms;	/* when something is due; 0: nothing */
	uint64_t look_again_ms; /* monotonic: when files that rested are due; 0: none did */
	/* How long was waited for pipes, less what has come back since, and when that last did. */
	uint64_t pipes_waited_ms, pipes_at_ms;
	bool serves;   /* the daemon serves: requests wait while a file is read */
	bool relieved; /* kh_scopes_reap has something to free */
	/* Callbacks, set by the owner; may be NULL. They may call kh_scopes_relieve, which frees no
	 * entry, and no other function that changes a value or an entry: the vault walks its lists
	 * meanwhile. answer: an answer that KH_VAULT_LATER promised.
	 * stale: a value that the worker has is no longer valid, or (`whole`) no value of the
	 * credential is. changed: a credential's status has changed; `secret`: its secrets may have
	 * changed, too (called before the answer with the new one). */
	void (*answer)(void *arg, const struct kh_credential_ref *ref, const struct kh_value *value,
		       struct kh_err *err);
	void (*stale)(void *arg, const struct kh_credential_ref *ref, bool whole);
	void (*changed)(void *arg, uint16_t index, bool secret);
	/* One of several alternative credentials has got a value for this tenant, or is now known
	 * to have none (a command that failed at first): the configuration says so, so rules choose
	 * again. */
	void (*chosen_anew)(void *arg, uint16_t index, uint16_t tenant, bool present);
	/* How many sandboxes the tenant has. NULL: not known. */
	size_t (*sandboxes)(void *arg, uint16_t tenant);
	void *arg;
};

/*
 * Reads the values and says in the configuration which are present, and for which tenants;
 * commands are started and not waited for, and count as present. With `one_run`, only those that
 * the sandbox's own rules name are read, commands among them are waited for, and a rule none of
 * whose credentials is there for its tenant is an error; else each missing one is a warning in the
 * log.
 */
bool kh_vault_open(struct kh_vault *vault, struct kh_config *config, bool one_run,
		   struct kh_err *err);
void kh_vault_close(struct kh_vault *vault);
/* Call it before kh_vault_close, at the keeper's end: waits for requests whose answer may contain a
 * new refresh token, and persists that. Each request has its own deadline. `hurries` is called when
 * `signals` is readable; if it returns true, the wait ends. */
void kh_vault_finish(struct kh_vault *vault, int signals, bool (*hurries)(void *arg), void *arg);
/*
 * Makes a vault for another configuration. Files are read again. Values from the environment (which
 * has been overwritten), from commands and from token endpoints are kept if their configuration is
 * unchanged. Then call kh_vault_adopt, or kh_vault_close for `next`.
 */
bool kh_vault_reopen(struct kh_vault *next, const struct kh_vault *now, struct kh_config *config,
		     struct kh_err *err);
/* Moves `next` into `now`; `next` is empty then. Jobs go on. */
void kh_vault_adopt(struct kh_vault *now, struct kh_vault *next);
/* Starts to watch files and starts commands: after kh_vault_reopen, if there is no vault to adopt
 * into. */
void kh_vault_begin(struct kh_vault *vault);

enum kh_vault_answer {
	KH_VAULT_GOT = 1,
	KH_VAULT_NONE,	/* the error says why, in words for a sandbox */
	KH_VAULT_LATER, /* `answer` is called, once */
};
/* What this tenant's source gave; NULL: the tenant has none. */
struct kh_holding *kh_vault_holding(const struct kh_vault *vault, uint16_t index, uint16_t tenant);
/* `asker`: whose share a scope takes (fair_share.h, asker.c). */
enum kh_vault_answer kh_vault_get(struct kh_vault *vault, const struct kh_credential_ref *ref,
				  const struct kh_fair_share_asker *asker, struct kh_value *out,
				  struct kh_err *err);
/* An upstream answered 401 to the last token. Makes a new one, which is given out from then on. If
 * that fails, or takes longer than KH_LIMIT_REFUSED_WAIT_MS, the refused one is given out again,
 * since not every 401 is about the token. A command's value is read again, too, if it can change
 * (`refresh`, or it expires). An upstream can answer 401 to anything, so limits.h bounds how often
 * it counts. */
void kh_vault_refused(struct kh_vault *vault, const struct kh_credential_ref *ref);
/* The worker has ended: nobody waits any more. Drops what is cheap to make again. */
void kh_vault_forget_worker(struct kh_vault *vault);
/* A descriptor that is readable when a turn has something to do; -1: none. */
int kh_vault_fd(const struct kh_vault *vault);
/* When the next timer is due (monotonic); 0: never. */
uint64_t kh_vault_deadline(const struct kh_vault *vault);
/* Takes results of commands and fetchers, checks changed files, and starts what is due. Never
 * blocks. */
void kh_vault_turn(struct kh_vault *vault);

/* The status of one credential: of all its values, the one in the worst state. */
struct kh_vault_state {
	const char *source; /* "exec", "exec+github_app" is the operator's word for it */
	const char *mint;   /* NULL: none */
	bool ready;	    /* it was read, and what is made of it did not fail */
	uint64_t got_ms, expires_ms, failed_ms;
	uint64_t renewals, failures;
	const char *why; /* NULL: the last try did not fail */
};
/* The status of one value. `which`: 0, or with `by_tenant` the number of the holding. If there is
 * none, out->source says so. */
void kh_vault_state(const struct kh_vault *vault, uint16_t index, size_t which,
		    struct kh_vault_state *out);

/* credential_status.c: the status of all credentials, per tenant; a JSON array on the heap.
 * *left_out: how many did not fit into `most_bytes`. NULL without memory. */
char *kh_credential_status_of(const struct kh_vault *vault, size_t most_bytes, uint32_t *left_out);

/* known_secrets.c */
/* Calls `use` for every secret that is held (values, tokens, clients' secrets, refresh tokens,
 * variables of commands), and then for former ones, up to the bound in limits.h. Then the same from
 * the start for as long as `again` (NULL: never) returns true. Return: false without memory; `use`
 * was not called. */
bool kh_known_secrets_each(struct kh_vault *vault,
			   void (*use)(const struct kh_known_secret *known, void *arg),
			   bool (*again)(void *arg), void *arg);
/* Moves the list from `now` to `next`. */
void kh_known_secrets_hand_on(struct kh_vault *next, struct kh_vault *now);
void kh_known_secrets_fini(struct kh_vault *vault);

/* Writes into the configuration what is needed of the values to make placeholders. */
void kh_vault_see(const struct kh_vault *vault);
/* Adds the placeholders for the credentials of the sandbox's rules to `ready`. */
bool kh_vault_placeholders(const struct kh_vault *vault, struct kh_ready *ready,
			   struct kh_err *err);

/* --- inside ----------------------------------------------------------------------------------- */

/* vault_item.c */
void kh_item_fini(struct kh_item *item);
bool kh_item_is_good(const struct kh_item *item);
/* Takes ownership of the secret. `refresh_ms`: renew it after this time, whatever its expiry; 0: do
 * not. */
void kh_item_fill(struct kh_item *item, struct kh_secret *secret, uint64_t expires_ms,
		  uint64_t refresh_ms);
/* A try has failed: `why` for the operator, `reason` for a sandbox. It is retried with increasing
 * pauses. */
void kh_item_fail(struct kh_item *item, const char *why, const char *reason);
/* Was it refused by a 401, while a new one is being made? Then requests wait, but only for a
 * bounded time. */
bool kh_item_is_withheld(const struct kh_item *item);
void kh_item_withhold(struct kh_item *item);
/* Shares the value and its times with another item. */
bool kh_item_share(struct kh_item *to, const struct kh_item *from);

/* exec.c: is `text` of an `environment` a name, and the variable likely to be a secret? */
bool kh_exec_is_secret_variable(const char *text);

/* variables.c */
/* The value of a variable. The first call reads it and overwrites it in the environment. Return:
 * NULL: it is absent or invalid (*result). */
struct kh_secret *kh_variables_get(struct kh_vault *vault, const char *credential,
				   const struct kh_source *source, enum kh_value_form form,
				   enum kh_source_result *result, struct kh_err *err);
/* Moves a command's variables that may be secrets from the environment to here, and overwrites them
 * there. */
void kh_variables_keep(struct kh_vault *vault, const struct kh_exec *exec);
/* Return: NULL: no variable with that name is kept. */
const struct kh_secret *kh_variables_find(const struct kh_vault *vault, const char *name);
bool kh_variables_share(struct kh_vault *next, const struct kh_vault *now);
bool kh_variables_add(struct kh_vault *vault, char *name, struct kh_secret *secret);
void kh_variables_fini(struct kh_vault *vault);

/* scopes.c */
struct kh_made *kh_scopes_find(const struct kh_holding *holding, struct kh_slice scope);
/* Finds or adds the token for a scope, and notes its use by `asker`. NULL: no place for it, or no
 * memory. */
struct kh_made *kh_scopes_get(struct kh_vault *vault, const struct kh_credential_ref *ref,
			      const struct kh_fair_share_asker *asker, struct kh_holding *holding);
/* Takes one of the asker's rate of values for scopes, and of its tenant's. Return: false: not now.
 */
bool kh_scopes_take_turn(struct kh_vault *vault, const struct kh_fair_share_asker *asker);
/* There are no more secret pages: drops the derived values for scopes that nobody waits for or
 * holds a reference of. Any callback of the vault may call it: their entries stay until
 * kh_scopes_reap. Return: a page was given back. */
bool kh_scopes_relieve(struct kh_vault *vault);
/* Frees those entries, unless they have been used again. Not within a callback of the vault. */
void kh_scopes_reap(struct kh_vault *vault);
void kh_scopes_forget_askers(struct kh_vault *vault);

/* vault.c */
/* Makes a vault with an empty holding for each source. */
bool kh_vault_make(struct kh_vault *vault, struct kh_config *config, struct kh_err *err);
/* Says in the configuration for which tenants it is present: there is a value, or a command has not
 * said yet whether there is. A value that was there and has ended counts: a rule does not go on to
 * another identity because one can't be renewed. */
void kh_vault_note_presence(struct kh_vault *vault, uint16_t index);
/* Reads the sources that need no waiting. Return: the worst result. */
enum kh_source_result kh_vault_read_slot(struct kh_vault *vault, uint16_t index,
					 struct kh_err *err);
enum kh_source_result kh_vault_read(struct kh_vault *vault, uint16_t index,
				    struct kh_holding *holding, struct kh_err *err);
/* Reads one source that needs no waiting; sets `tried_ms` and `rests_ms` of the holding. */
enum kh_source_result kh_vault_read_source(struct kh_vault *vault, uint16_t index,
					   struct kh_holding *holding,
					   const struct kh_source *source, struct kh_secret **out,
					   struct kh_err *err);
/* Is it a pipe that was waited for a moment ago, and should not be read again yet? */
bool kh_vault_in_backoff(const struct kh_holding *holding, const struct kh_source *source);
/* Reads the client secret. GOT: it is in holding->client_secret, or none is needed. */
enum kh_source_result kh_vault_read_client(struct kh_vault *vault, uint16_t index,
					   struct kh_holding *holding, struct kh_err *err);

/* account.c: if `secret` is only a secret access key, completes it with the other keys of the
 * account. */
bool kh_account_complete(struct kh_vault *vault, const struct kh_credential_config *credential,
			 const struct kh_source *source, struct kh_secret **secret,
			 struct kh_err *err);

/* Overwrites the other variables that it would read. */
void kh_account_forget(const struct kh_credential_config *credential);

/* derive.c: values that are derived from a raw value: a certificate with its key, or a key for a
 * scope. */
bool kh_derives(const struct kh_credential_config *credential);
/* May the derived key for this scope be given out, by the credential's hosts and today's date? True
 * for other derived values. */
bool kh_derives_for(const struct kh_credential_config *credential, struct kh_slice scope,
		    struct kh_err *err);
/* aws_sigv4. `err` is for a sandbox to read, and names the credential. */
bool kh_derive(const struct kh_credential_config *credential, struct kh_slice scope,
	       const struct kh_secret *raw, struct kh_secret **out, uint64_t *expires_ms,
	       struct kh_err *err);

/* client_cert.c: a client certificate and its key (mtls); the key is the raw value. */
bool kh_client_cert_is(const struct kh_credential_config *credential);
/* Reads both again; if they are invalid or do not match, the current pair stays. Return: there is a
 * usable pair. */
bool kh_client_cert_make(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			 struct kh_made *made);
/* The pair of one holding, and of all (kh_vault_note_presence follows), where there is a key. */
void kh_client_cert_renew(struct kh_vault *vault, uint16_t index, struct kh_holding *holding);
void kh_client_certs_renew(struct kh_vault *vault);
/* Why there is no usable pair; NULL: there is one, or no key. */
const char *kh_client_cert_fault(const struct kh_holding *holding);

/* mint.c: tokens */
struct kh_token {
	struct kh_secret *secret;
	uint64_t expires_ms;
};
enum kh_mint_result {
	KH_MINT_GOT = 1,
	KH_MINT_MORE, /* another request is needed: call kh_mint_begin again */
	KH_MINT_FAILED,
};
/* Makes the job for the next request. Return: NULL with `err`, for the operator. */
struct kh_job *kh_mint_begin(const struct kh_config *config, uint16_t index,
			     struct kh_holding *holding, struct kh_made *made, struct kh_err *err);
/* Takes the result of a job. A new refresh token is persisted even if nobody waits any more
 * (`holding` NULL). */
enum kh_mint_result kh_mint_took(const struct kh_config *config, struct kh_job *job,
				 struct kh_token *out, struct kh_err *err);

/* vault_turn.c: values in progress */
enum kh_value_form kh_vault_form(const struct kh_credential_config *credential);
/* Starts to make the value. Return: false with `err`. */
bool kh_vault_begin_raw(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			struct kh_err *err);
bool kh_vault_begin_made(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			 struct kh_made *made, struct kh_err *err);
/* The raw value was read: answers those who wait. If it has changed (`is_another`), everything from
 * the old value is dropped: the worker's copy, and tokens that were made or are being made. */
void kh_vault_raw_came(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
		       bool is_another);
/* The client secret has changed: requests in progress are repeated; existing tokens stay, since the
 * client is the same. */
void kh_vault_client_came(struct kh_vault *vault, uint16_t index, struct kh_holding *holding);
void kh_vault_raw_failed(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			 const char *why, const char *reason);
void kh_vault_made_failed(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			  struct kh_made *made, const char *why, const char *reason);
void kh_vault_due(struct kh_vault *vault, uint64_t due_ms);

/* vault_pipes.c: `rests_ms` is of the file that is read. */
/* How long to wait now for the end of the file, if it is a pipe. */
uint32_t kh_vault_pipes_wait_ms(struct kh_vault *vault, uint64_t rests_ms);
/* A read has ended that began then. */
void kh_vault_pipes_waited(struct kh_vault *vault, uint64_t began_ms, bool timed_out,
			   uint64_t *rests_ms);
/* Is it a pipe that should not be read before `rests_ms`? */
bool kh_vault_pipes_rest(const char *path, uint64_t rests_ms);
/* A change was not read, since its file rests until then. */
void kh_vault_pipes_look_again(struct kh_vault *vault, uint64_t when_ms);

/* vault_files.c: reads files that have changed */
void kh_vault_look_at_files(struct kh_vault *vault);

#endif
