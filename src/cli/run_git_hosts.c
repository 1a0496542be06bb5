/*
 * run_git_hosts.c - git's settings in the sandbox for hosts with a credential for Basic
 * authentication
 *
 * A sandbox has no SSH and no SSH key: SSH URLs are rewritten to HTTPS, where the proxy puts the
 * credential in. If the credential requires its placeholder in the request, git gets it as an extra
 * field, since git itself sends a password only after a challenge.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/file.h>

#include "run_internal.h"

enum { CONFIG_BYTES = 256 * 1024 };

static const struct kh_credential_field *basic_of(const struct kh_credential_config *credential)
{
	const struct kh_placement *placement = credential->placement;

	for (size_t i = 0; placement && i < placement->n_fields; i++)
		if (placement->fields[i].form == KH_FIELD_BASIC)
			return &placement->fields[i];
	return NULL;
}

static const char *held(const struct kh_ready *ready, const char *variable)
{
	for (size_t i = 0; variable && i < ready->n_placeholders; i++)
		if (strcmp(ready->placeholders[i].env_name, variable) == 0)
			return ready->placeholders[i].value;
	return NULL;
}

static bool put_field(struct kh_buf *out, const char *host, const struct kh_credential_field *field,
		      const char *placeholder)
{
	const struct kh_slice parts[] = { kh_slice_str(field->username ? field->username : "x"),
					  KH_SLICE(":"), kh_slice_str(placeholder) };

	return kh_buf_printf(out, "[http \"https://%s/\"]\n\textraHeader = \"Authorization: Basic ",
			     host) &&
	       kh_base64_put(out, parts, 3, KH_BASE64) && kh_buf_append_str(out, "\"\n");
}

static bool put_host(struct kh_buf *out, const char *host)
{
	return kh_buf_printf(out,
			     "[url \"https://%s/\"]\n"
			     "\tinsteadOf = git@%s:\n"
			     "\tinsteadOf = ssh://git@%s/\n",
			     host, host, host);
}

char *kh_run_git_hosts(const struct kh_config *config, const struct kh_ready *ready)
{
	struct kh_buf out;
	bool ok = true;

	kh_buf_init(&out, CONFIG_BYTES);
	for (size_t i = 0; ok && i < config->n_credentials; i++) {
		const struct kh_credential_config *credential = &config->credentials[i];
		const struct kh_credential_field *field = basic_of(credential);
		const char *placeholder = held(ready, credential->env_name);
		for (size_t h = 0; field && ok && h < credential->n_hosts; h++) {
			const struct kh_host_pattern *pattern = &credential->hosts[h];
			if (pattern->match != KH_MATCH_EXACT || pattern->host.kind != KH_HOST_NAME)
				continue;
			ok = put_host(&out, pattern->host.text) &&
			     (!credential->placeholder.required || !placeholder ||
			      put_field(&out, pattern->host.text, field, placeholder));
		}
	}
	char *text = ok ? kh_slice_dup(kh_buf_view(&out)) : NULL;
	kh_buf_fini(&out);
	return text;
}
