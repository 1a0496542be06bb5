/* source.h - where the value of a credential comes from, and what is made of it (the keeper's) */
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

/* How what a command prints is to be read. */
enum kh_exec_format {
	KH_EXEC_AUTO = 0, /* JSON where it begins like that, else text */
	KH_EXEC_TEXT,	  /* as it is, whatever it looks like */
	KH_EXEC_JSON,
};

/* A command: argv, no shell. */
struct kh_exec {
	char **argv;
	size_t n_argv;
	char **environment; /* "NAME": passed on; "NAME=value": set */
	size_t n_environment;
	char *json;	 /* the member of what it prints that is the value; NULL: known shapes */
	char *expires;	 /* and the one that says until when it is good */
	bool first_line; /* the rest of what it prints is not for us */
	enum kh_exec_format format;
	uint32_t timeout_ms; /* then it is killed */
	uint32_t refresh_ms; /* it is run again after that; 0: when its value ends */
	uint32_t max_age_ms; /* a value is not used for longer; 0: as it says itself */
};

/* Not in the worker's snapshot. */
struct kh_source {
	enum kh_source_kind kind;
	char *name;	  /* variable, path (absolute after reading), credential's name; "op" */
	char *tenant;	  /* whose value it is; NULL: everybody's */
	uint16_t whose;	  /* its index, once all tenants are read */
	bool allow_short; /* a value of a few bytes is meant */
	struct kh_exec *exec;
};
void kh_source_fini(struct kh_source *source);
/* Would it give the same value? Tenants are not compared. */
bool kh_source_eq(const struct kh_source *a, const struct kh_source *b);

/*
 * What is made of the value before it goes anywhere: a token that lives for an hour, given by a
 * token endpoint. The value itself (a private key, a client's secret, a refresh token) never leaves
 * the keeper, but for what the endpoint is told.
 */
enum kh_mint_kind {
	KH_MINT_NONE = 0,
	KH_MINT_GCP, /* a service account's key file → RS256 JWT → access token (RFC 7523) */
	KH_MINT_GITHUB_APP,	/* an App's private key → RS256 JWT → installation token */
	KH_MINT_OAUTH2_CLIENT,	/* client_credentials (RFC 6749 §4.4) */
	KH_MINT_OAUTH2_REFRESH, /* refresh_token (§6), which may be another one each time */
};

struct kh_mint {
	enum kh_mint_kind kind;
	char *key;	 /* the option that says it: "github_app", for messages */
	char *url;	 /* of the token endpoint, or of GitHub's API; GCP: NULL: the key file's */
	char *client_id; /* OAuth2; GitHub: the App's id */
	char *scope;	 /* joined by blanks; NULL: none */
	char *audience;	 /* OAuth2; NULL: none */
	char *installation, *owner;	/* GitHub: one of them */
	bool per_repository;		/* GitHub: a token for the repository of each request */
	bool auth_in_body;		/* OAuth2: client_secret_post; else basic */
	struct kh_source client_secret; /* OAuth2, refresh: KH_SOURCE_NONE: a public client */
	char *state_path;		/* OAuth2, refresh: where the token of the day is kept */
	uint32_t timeout_ms;
};
void kh_mint_free(struct kh_mint *mint);
/* NULL is none. */
bool kh_mint_eq(const struct kh_mint *a, const struct kh_mint *b);

#endif
