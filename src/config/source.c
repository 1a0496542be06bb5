/* source.c - sources and the settings for minting: compared and freed */

#include <keyhole/config/config.h>

#include <stdlib.h>
#include <string.h>

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_list(char **a, size_t n_a, char **b, size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

static void free_list(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

const char *kh_source_kind_name(enum kh_source_kind kind)
{
	switch (kind) {
	case KH_SOURCE_ENV:
		return "env";
	case KH_SOURCE_FILE:
		return "file";
	case KH_SOURCE_EXEC:
		return "exec";
	case KH_SOURCE_SYSTEMD:
		return "systemd";
	case KH_SOURCE_NONE:
		break;
	}
	return "none";
}

static void free_exec(struct kh_exec *exec)
{
	if (!exec)
		return;
	free_list(exec->argv, exec->n_argv);
	free_list(exec->environment, exec->n_environment);
	free(exec->json);
	free(exec->expires);
	free(exec);
}

void kh_source_fini(struct kh_source *source)
{
	free(source->name);
	free(source->tenant);
	free_exec(source->exec);
	*source = (struct kh_source){ .kind = KH_SOURCE_NONE };
}

static bool same_exec(const struct kh_exec *a, const struct kh_exec *b)
{
	return same_list(a->argv, a->n_argv, b->argv, b->n_argv) &&
	       same_list(a->environment, a->n_environment, b->environment, b->n_environment) &&
	       same(a->json, b->json) && same(a->expires, b->expires) &&
	       a->first_line == b->first_line && a->format == b->format &&
	       a->timeout_ms == b->timeout_ms && a->refresh_ms == b->refresh_ms &&
	       a->max_age_ms == b->max_age_ms;
}

bool kh_source_eq(const struct kh_source *a, const struct kh_source *b)
{
	return a->kind == b->kind && same(a->name, b->name) && a->allow_short == b->allow_short &&
	       (!a->exec || !b->exec ? a->exec == b->exec : same_exec(a->exec, b->exec));
}

const struct kh_source *kh_source_of_credential(const struct kh_credential_config *credential,
						size_t i)
{
	if (i < credential->n_sources)
		return &credential->sources[i];
	bool more = credential->mint && credential->mint->client_secret.kind != KH_SOURCE_NONE;
	return more && i == credential->n_sources ? &credential->mint->client_secret : NULL;
}

bool kh_source_is_variable(const struct kh_credential_config *credential, const char *name)
{
	const struct kh_source *source;
	for (size_t i = 0; (source = kh_source_of_credential(credential, i)); i++)
		if (source->kind == KH_SOURCE_ENV && strcmp(source->name, name) == 0)
			return true;
	return false;
}

void kh_mint_free(struct kh_mint *mint)
{
	if (!mint)
		return;
	free(mint->key);
	free(mint->url);
	free(mint->client_id);
	free(mint->scope);
	free(mint->audience);
	free(mint->installation);
	free(mint->owner);
	free(mint->state_path);
	kh_source_fini(&mint->client_secret);
	free(mint);
}

bool kh_mint_eq(const struct kh_mint *a, const struct kh_mint *b)
{
	if (!a || !b)
		return a == b;
	return a->kind == b->kind && same(a->url, b->url) && same(a->client_id, b->client_id) &&
	       same(a->scope, b->scope) && same(a->audience, b->audience) &&
	       same(a->installation, b->installation) && same(a->owner, b->owner) &&
	       a->per_repository == b->per_repository && a->auth_in_body == b->auth_in_body &&
	       kh_source_eq(&a->client_secret, &b->client_secret) &&
	       same(a->state_path, b->state_path) && a->timeout_ms == b->timeout_ms;
}
