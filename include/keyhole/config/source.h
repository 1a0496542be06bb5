/* source.h - where a credential's value comes from, and how a token is minted from it (in the
 * keeper) */
#ifndef KEYHOLE_CONFIG_SOURCE_H
#define KEYHOLE_CONFIG_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kh_source_kind {
	KH_SOURCE_NONE = 0,
	KH_SOURCE_ENV,	   /* a variable of keyhole's own environment */
	KH_SOURCE_FILE,	   /* watched */
	KH_SOURCE_EXEC,	   /* what a command prints */
	KH_SOURCE_SYSTEMD, /* a file of $CREDENTIALS_DIRECTORY */
};
const char *kh_source_kind_name(enum kh_source_kind kind); /* "env" */

/* How a command's output is read. */
enum kh_exec_format {
	KH_EXEC_AUTO = 0, /* JSON if it begins like JSON, else text */
	KH_EXEC_TEXT,	  /* as it is, even if it looks like JSON */
	KH_EXEC_JSON,
};

/* A command: argv, no shell. */
struct kh_exec {
	char **argv;
	size_t n_argv;
	char **environment; /* "NAME": passed on; "NAME=value": set */
	size_t n_environment;
	char *json;    /* the JSON member that is the value; NULL: known forms */
	char *expires; /* the JSON member that says when it expires; NULL: only known forms have an
			  expiry */
	bool first_line; /* only the first line of the output is used */
	enum kh_exec_format format;
	uint32_t timeout_ms; /* then it is killed */
	uint32_t refresh_ms; /* it is run again after this; 0: when its value expires */
	uint32_t max_age_ms; /* the longest use of a value; 0: until it expires */
};

/* Not in the worker's snapshot. */
struct kh_source {
	enum kh_source_kind kind;
	char *name;   /* environment variable, path (absolute after reading), systemd credential, or
			 the command's file name ("op") */
	char *tenant; /* the tenant whose value it is; NULL: all tenants' */
	uint16_t whose;	  /* that tenant's index, set when all tenants are read */
	bool allow_short; /* a value of a few bytes is accepted */
	struct kh_exec *exec;
};
void kh_source_fini(struct kh_source *source);
/* Do both name the same value? Tenants are not compared. */
bool kh_source_eq(const struct kh_source *a, const struct kh_source *b);

/*
 * How a short-lived token is minted from the value by a token endpoint. The value itself (a private
 * key, a client secret, a refresh token) never leaves the keeper, except for what the endpoint must
 * be sent.
 */
enum kh_mint_kind {
	KH_MINT_NONE = 0,
	KH_MINT_GCP, /* a service account's key file → RS256 JWT → access token (RFC 7523) */
	KH_MINT_GITHUB_APP,	/* an App's private key → RS256 JWT → installation token */
	KH_MINT_OAUTH2_CLIENT,	/* client_credentials (RFC 6749 §4.4) */
	KH_MINT_OAUTH2_REFRESH, /* refresh_token (§6), which the endpoint may rotate each time */
};

struct kh_mint {
	enum kh_mint_kind kind;
	char *key; /* the option in the configuration, for messages: "github_app" */
	char *url; /* of the token endpoint, or of GitHub's API; NULL: GCP, as in the key file */
	char *client_id;		/* OAuth2; GitHub: the App's id */
	char *scope;			/* joined by blanks; NULL: none */
	char *audience;			/* OAuth2; NULL: none */
	char *installation, *owner;	/* GitHub: one of the two is set */
	bool per_repository;		/* GitHub: a token for the repository of each request */
	bool auth_in_body;		/* OAuth2: client_secret_post; else basic */
	struct kh_source client_secret; /* OAuth2, refresh: KH_SOURCE_NONE: a public client */
	char *state_path; /* OAuth2, refresh: the file with the current refresh token */
	uint32_t timeout_ms;
};
void kh_mint_free(struct kh_mint *mint);
/* NULL equals only NULL. */
bool kh_mint_eq(const struct kh_mint *a, const struct kh_mint *b);

#endif
