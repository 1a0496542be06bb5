/* mint.c - how a token is minted from a value: `gcp_service_account`, `github_app`, `oauth2`
 *
 * The first row of such a section that is read makes the credential's one kh_mint. No message shows
 * a value of the section.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/fetch_url.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

enum {
	TIMEOUT_MS = 20 * 1000,
	TEXT_BYTES = 1024,
};

#define PREFIX "credentials.*."

static enum kh_mint_kind kind_of(struct kh_slice key)
{
	if (kh_slice_eq(key, KH_SLICE("gcp_service_account")))
		return KH_MINT_GCP;
	if (kh_slice_eq(key, KH_SLICE("github_app")))
		return KH_MINT_GITHUB_APP;
	return kh_slice_eq(key, KH_SLICE("oauth2")) ? KH_MINT_OAUTH2_CLIENT : KH_MINT_NONE;
}

/* By the row's path: "credentials.*.oauth2.client_id". NULL: it is another kind already or none
 * (said), or there is no memory. */
static struct kh_mint *mint_of(struct kh_reader *reader, const struct kh_option *option,
			       const struct kh_yaml_node *node,
			       struct kh_credential_config *credential)
{
	const char *key = option->path + sizeof(PREFIX) - 1;
	struct kh_slice name = kh_slice_of(key, strcspn(key, "."));
	if (credential->mint) {
		if (kh_slice_eq(kh_slice_str(credential->mint->key), name))
			return credential->mint;
		kh_reader_error(reader, node, "%s: %s is made of the value already", option->path,
				credential->mint->key);
		return NULL;
	}
	enum kh_mint_kind kind = kind_of(name);
	if (kind == KH_MINT_NONE) {
		kh_reader_error(reader, node, "%s: keyhole makes no token by that name",
				option->path);
		return NULL;
	}
	credential->mint = calloc(1, sizeof(*credential->mint));
	if (!credential->mint)
		return kh_reader_no_memory(reader);
	credential->mint->key = kh_slice_dup(name);
	if (!credential->mint->key) {
		kh_mint_free(credential->mint);
		credential->mint = NULL;
		return kh_reader_no_memory(reader);
	}
	credential->mint->kind = kind;
	credential->mint->timeout_ms = TIMEOUT_MS;
	return credential->mint;
}

void kh_config_read_no_mint(struct kh_reader *reader, const struct kh_option *option,
			    const struct kh_yaml_node *node, void *base)
{
	(void)base;
	kh_reader_error(reader, node, "%s: expected a map, got %s", option->path,
			kh_node_what(node));
}

static bool is_visible(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] <= ' ' || text.ptr[i] > '~')
			return false;
	return text.len > 0 && text.len <= TEXT_BYTES;
}

const char *kh_mint_check_text(struct kh_slice text)
{
	return is_visible(text) ? NULL : "";
}

/* Numbers and names that become a part of a path. */
const char *kh_mint_check_segment(struct kh_slice text)
{
	bool good = is_visible(text);
	for (size_t i = 0; good && i < text.len; i++)
		good = kh_is_alpha(text.ptr[i]) || kh_is_digit(text.ptr[i]) ||
		       strchr("-_.", text.ptr[i]);
	return good ? NULL : "";
}

const char *kh_mint_check_number(struct kh_slice text)
{
	uint64_t number;
	return kh_slice_to_u64(text, &number) ? NULL : "";
}

void kh_config_read_mint(struct kh_reader *reader, const struct kh_option *option,
			 const struct kh_yaml_node *node, void *base)
{
	kh_value_part(reader, option, node, mint_of(reader, option, node, base));
}

void kh_config_read_mint_url(struct kh_reader *reader, const struct kh_option *option,
			     const struct kh_yaml_node *node, void *base)
{
	struct kh_mint *mint = mint_of(reader, option, node, base);
	struct kh_fetch_url url;
	struct kh_err err = KH_ERR_INIT;
	if (!mint)
		return;
	kh_value_part(reader, option, node, mint);
	if (mint->url && !kh_fetch_url_parse(&url, kh_slice_str(mint->url), &err))
		kh_reader_error(reader, node, "%s: expected %s: %s", option->path, option->expects,
				err.text);
}

void kh_config_read_mint_scopes(struct kh_reader *reader, const struct kh_option *option,
				const struct kh_yaml_node *node, void *base)
{
	struct kh_mint *mint = mint_of(reader, option, node, base);
	if (!mint)
		return;
	struct kh_buf joined;
	kh_buf_init(&joined, KH_LIMIT_MINT_SCOPES_BYTES);
	bool ok = node->kind == KH_NODE_LIST && node->count > 0;
	for (const struct kh_yaml_node *one = ok ? node->first : NULL; one && ok; one = one->next)
		ok = one->kind == KH_NODE_SCALAR && is_visible(one->text) &&
		     (one == node->first || kh_buf_append_char(&joined, ' ')) &&
		     kh_buf_append_slice(&joined, one->text);
	if (ok) {
		free(mint->scope);
		mint->scope = kh_slice_dup(kh_buf_view(&joined));
	}
	if (!ok || !mint->scope)
		kh_reader_error(reader, node, "%s: expected %s", option->path, option->expects);
	kh_buf_fini(&joined);
}

void kh_config_read_mint_grant(struct kh_reader *reader, const struct kh_option *option,
			       const struct kh_yaml_node *node, void *base)
{
	struct kh_mint *mint = mint_of(reader, option, node, base);
	if (!mint || !kh_reader_scalar(reader, option, node))
		return;
	if (kh_slice_eq(node->text, KH_SLICE("refresh_token")))
		mint->kind = KH_MINT_OAUTH2_REFRESH;
	else if (!kh_slice_eq(node->text, KH_SLICE("client_credentials")))
		kh_reader_error(reader, node, "%s: expected %s", option->path, option->expects);
}

void kh_config_read_mint_client_secret(struct kh_reader *reader, const struct kh_option *option,
				       const struct kh_yaml_node *node, void *base)
{
	struct kh_mint *mint = mint_of(reader, option, node, base);
	const struct kh_yaml_node *one = node->kind == KH_NODE_MAP ? node->first : NULL;
	if (!mint)
		return;
	bool good = one && node->count == 1 && one->kind == KH_NODE_SCALAR &&
		    !kh_node_is_empty(one) && !memchr(one->text.ptr, '\0', one->text.len);
	if (good && kh_slice_eq(one->key->text, KH_SLICE("file"))) {
		mint->client_secret.kind = KH_SOURCE_FILE;
		mint->client_secret.name = kh_reader_path(reader, option, one);
		if (!mint->client_secret.name)
			mint->client_secret.kind = KH_SOURCE_NONE;
	} else if (good && kh_slice_eq(one->key->text, KH_SLICE("env")) &&
		   !kh_value_check_env(one->text)) {
		mint->client_secret.kind = KH_SOURCE_ENV;
		mint->client_secret.name = kh_slice_dup(one->text);
	} else {
		kh_reader_error(reader, node, "%s: expected %s", option->path, option->expects);
	}
	if (mint->client_secret.kind != KH_SOURCE_NONE && !mint->client_secret.name)
		(void)kh_reader_no_memory(reader);
}

void kh_config_read_mint_state(struct kh_reader *reader, const struct kh_option *option,
			       const struct kh_yaml_node *node, void *base)
{
	struct kh_mint *mint = mint_of(reader, option, node, base);
	if (!mint || !kh_reader_scalar(reader, option, node))
		return;
	if (memchr(node->text.ptr, '\0', node->text.len)) {
		kh_reader_error(reader, node, "%s: expected %s", option->path, option->expects);
		return;
	}
	free(mint->state_path);
	mint->state_path = kh_reader_path(reader, option, node);
}

/* What it lacks, or has too much; NULL: nothing. */
static const char *fault_of(const struct kh_mint *mint)
{
	bool refresh = mint->kind == KH_MINT_OAUTH2_REFRESH;
	switch (mint->kind) {
	case KH_MINT_NONE:
		return "keyhole makes no token by that name";
	case KH_MINT_GCP:
		return NULL;
	case KH_MINT_GITHUB_APP:
		if (!mint->client_id)
			return "app_id is missing";
		return !mint->installation == !mint->owner
			       ? "expected one of installation_id and owner"
			       : NULL;
	case KH_MINT_OAUTH2_CLIENT:
	case KH_MINT_OAUTH2_REFRESH:
		break;
	}
	if (!mint->url)
		return "token_url is missing";
	if (!mint->client_id)
		return "client_id is missing";
	if (!refresh && (mint->client_secret.kind != KH_SOURCE_NONE || mint->state_path))
		return "client_secret and state belong to grant: refresh_token; with "
		       "client_credentials the value is the client's secret";
	if (refresh && !mint->state_path)
		return "state is missing: a file for the refresh token that the endpoint may give "
		       "in exchange for the old one";
	return NULL;
}

/* Where nothing else is said, a token is a bearer's. */
static void place(struct kh_reader *reader, struct kh_credential_config *credential,
		  const struct kh_yaml_node *node)
{
	static const struct kh_option bearer = { .path = "credentials.*.header" };
	static const struct kh_slice name = KH_SLICE_INIT("authorization");
	struct kh_placement *placement =
		kh_placement_begin(reader, &bearer, node, credential, KH_PLACEMENT_FIELDS);
	struct kh_credential_field *field =
		placement ? kh_list_add(&placement->fields, &placement->n_fields, sizeof(*field))
			  : NULL;
	if (field) {
		field->name = kh_slice_dup(name);
		field->prefix = kh_slice_dup(KH_SLICE("Bearer "));
		field->suffix = kh_slice_dup(KH_SLICE(""));
	}
	if (!field || !field->name || !field->prefix || !field->suffix)
		(void)kh_reader_no_memory(reader);
}

void kh_mint_done(struct kh_reader *reader, struct kh_credential_config *credential,
		  const struct kh_yaml_node *node)
{
	const struct kh_mint *mint = credential->mint;
	if (!mint)
		return;
	const char *why = fault_of(mint);
	if (why)
		kh_reader_error(reader, node, "credentials.*.%s: %s", mint->key, why);
	if (credential->by_tenant && mint->state_path)
		kh_reader_error(reader, node,
				"credentials.*.%s: one state can't hold the refresh tokens of "
				"several tenants: give each a credential of its own",
				mint->key);
	credential->by_repository = mint->per_repository;
	credential->renewable = true;
	if (!credential->placement)
		place(reader, credential, node);
}
