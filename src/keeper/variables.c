/* variables.c - values from environment variables, which are read once and then wiped */

#include "keeper_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

bool kh_variables_add(struct kh_vault *vault, char *name, struct kh_secret *secret)
{
	struct kh_variable *more =
		reallocarray(vault->variables, vault->n_variables + 1, sizeof(*more));
	if (!more || !name)
		return false;
	vault->variables = more;
	more[vault->n_variables++] = (struct kh_variable){ name, secret };
	return true;
}

static const struct kh_variable *find(const struct kh_vault *vault, const char *name)
{
	for (size_t i = 0; i < vault->n_variables; i++)
		if (strcmp(vault->variables[i].name, name) == 0)
			return &vault->variables[i];
	return NULL;
}

const struct kh_secret *kh_variables_find(const struct kh_vault *vault, const char *name)
{
	const struct kh_variable *there = find(vault, name);
	return there ? there->secret : NULL;
}

/* Where it stands, "" where it is not there or has been overwritten. */
static char *value_of(const char *name)
{
	static char nothing[] = "";
	char *value = getenv(name);
	return value ? value : nothing;
}

static void keep(struct kh_vault *vault, const char *name)
{
	struct kh_err err = KH_ERR_INIT;
	char *value = value_of(name);
	size_t len = strlen(value);
	/* One so long is no secret. */
	if (len == 0 || len > KH_LIMIT_SECRET_BYTES || find(vault, name))
		return;
	struct kh_secret *secret = kh_secret_new(value, len, &err);
	kh_source_forget(name);
	char *copy = secret ? strdup(name) : NULL;
	if (secret && kh_variables_add(vault, copy, secret))
		return;
	kh_log_error("the variable %s is lost to the commands that should have it: %s",
		     kh_esc_str(name), secret ? "no memory" : err.text);
	free(copy);
	kh_secret_unref(secret);
}

void kh_variables_keep(struct kh_vault *vault, const struct kh_exec *exec)
{
	for (size_t i = 0; i < exec->n_environment; i++) {
		const char *name = exec->environment[i];
		bool own = false;
		for (size_t j = 0; j < vault->config->n_credentials; j++)
			own |= kh_source_is_variable(&vault->config->credentials[j], name);
		/* A credential's own is read as such. */
		if (!own && kh_exec_is_secret_variable(name))
			keep(vault, name);
	}
}

struct kh_secret *kh_variables_get(struct kh_vault *vault, const char *credential,
				   const struct kh_source *source, enum kh_value_form form,
				   enum kh_source_result *result, struct kh_err *err)
{
	const struct kh_variable *there = find(vault, source->name);
	struct kh_secret *secret = NULL;
	*result = KH_SOURCE_GOT;
	if (there) {
		*result = kh_source_judge(credential, source, form, there->secret, err);
		return *result == KH_SOURCE_GOT ? kh_secret_ref(there->secret) : NULL;
	}
	*result = kh_source_read(credential, source, form, 0, &secret, err);
	if (!secret)
		return NULL;
	/* Two credentials may name one variable, which is overwritten at its first reading. */
	char *name = strdup(source->name);
	struct kh_secret *kept = kh_secret_ref(secret);
	if (!kh_variables_add(vault, name, kept)) {
		free(name);
		kh_secret_unref(kept);
	}
	return secret;
}

bool kh_variables_share(struct kh_vault *next, const struct kh_vault *now)
{
	for (size_t i = 0; i < now->n_variables; i++) {
		char *name = strdup(now->variables[i].name);
		struct kh_secret *secret = kh_secret_ref(now->variables[i].secret);
		if (!kh_variables_add(next, name, secret)) {
			free(name);
			kh_secret_unref(secret);
			return false;
		}
	}
	return true;
}

void kh_variables_fini(struct kh_vault *vault)
{
	for (size_t i = 0; i < vault->n_variables; i++) {
		free(vault->variables[i].name);
		kh_secret_unref(vault->variables[i].secret);
	}
	free(vault->variables);
	vault->variables = NULL;
	vault->n_variables = 0;
}
