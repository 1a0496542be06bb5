/* mint_order.c - composes the request to a token endpoint */

#include "mint_internal.h"

#include <string.h>

#include <jansson.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/limits.h>

enum {
	GCP_LIFE_S = 3600,
	/* GitHub takes ten minutes at most, and a clock that is a minute ahead. */
	GITHUB_LIFE_S = 9 * 60,
	GITHUB_BACK_S = 60,
	CLAIMS_BYTES = 8 * 1024,
};

static const char github_api[] = "https://api.github.com";
static const char gcp_scope[] = "https://www.googleapis.com/auth/cloud-platform";

struct compose {
	const struct kh_mint *mint;
	const struct kh_holding *holding;
	struct kh_job *job;
	struct kh_buf *body;
	struct kh_buf *auth;
	struct kh_err *err;
};

/* Of application/x-www-form-urlencoded. */
static bool put_pair(struct kh_buf *out, const char *name, struct kh_slice value)
{
	return (kh_buf_len(out) == 0 || kh_buf_append_char(out, '&')) &&
	       kh_buf_append_str(out, name) && kh_buf_append_char(out, '=') &&
	       kh_percent_encode(out, value, "");
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory, or too long");
}

/* --- JWTs ------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *root, const char *name)
{
	const char *text = json_string_value(json_object_get(root, name));
	return text && *text ? text : NULL;
}

static bool put_gcp(const json_t *file, struct compose *c)
{
	const char *email = text_of(file, "client_email"), *key = text_of(file, "private_key");
	const char *url = c->mint->url ? c->mint->url : text_of(file, "token_uri");
	uint64_t now = kh_clock_wall_ms() / 1000;
	kh_cleanup(kh_buf_fini) struct kh_buf claims;
	kh_cleanup(kh_buf_fini) struct kh_buf jwt;
	kh_buf_init(&claims, CLAIMS_BYTES);
	kh_buf_init_wiping(&jwt, 2 * CLAIMS_BYTES);
	if (!email || !key || !url)
		return kh_err_set(c->err, KH_ERR_CONFIG,
				  "its value is no key file of a service account (client_email, "
				  "private_key and token_uri)");
	bool ok = kh_buf_append_str(&claims, "{\"iss\":") &&
		  kh_json_string(&claims, kh_slice_str(email)) &&
		  kh_buf_append_str(&claims, ",\"scope\":") &&
		  kh_json_string(&claims,
				 kh_slice_str(c->mint->scope ? c->mint->scope : gcp_scope)) &&
		  kh_buf_append_str(&claims, ",\"aud\":") &&
		  kh_json_string(&claims, kh_slice_str(url)) &&
		  kh_buf_printf(&claims, ",\"iat\":%llu,\"exp\":%llu}", (unsigned long long)now,
				(unsigned long long)now + GCP_LIFE_S);
	return (ok || no_memory(c->err)) &&
	       kh_jwt_put(&jwt, kh_slice_str(key), kh_buf_view(&claims), c->err) &&
	       ((put_pair(c->body, "grant_type",
			  KH_SLICE("urn:ietf:params:oauth:grant-type:jwt-bearer")) &&
		 put_pair(c->body, "assertion", kh_buf_view(&jwt))) ||
		no_memory(c->err));
}

static bool compose_gcp(struct kh_slice raw, void *arg)
{
	struct compose *c = arg;
	json_t *file = kh_json_load(raw, JSON_REJECT_DUPLICATES, NULL);
	bool ok = put_gcp(file, c);
	json_decref(file);
	return ok;
}

static bool compose_github(struct kh_slice raw, void *arg)
{
	struct compose *c = arg;
	uint64_t now = kh_clock_wall_ms() / 1000;
	kh_cleanup(kh_buf_fini) struct kh_buf claims;
	kh_buf_init(&claims, CLAIMS_BYTES);
	bool ok = kh_buf_append_str(&claims, "{\"iss\":") &&
		  kh_json_string(&claims, kh_slice_str(c->mint->client_id)) &&
		  kh_buf_printf(&claims, ",\"iat\":%llu,\"exp\":%llu}",
				(unsigned long long)now - GITHUB_BACK_S,
				(unsigned long long)now + GITHUB_LIFE_S) &&
		  kh_buf_append_str(c->auth, "Bearer ");
	if (!ok || !kh_jwt_put(c->auth, raw, kh_buf_view(&claims), c->err))
		return ok ? false : no_memory(c->err);
	const struct kh_made *made = c->job->made;
	if (c->job->step > 0 || !made || made->scope_len == 0)
		return true;
	/* "owner/repo": only the name of the repository is asked for. */
	struct kh_slice scope = kh_slice_of(made->scope, made->scope_len);
	const char *slash = memchr(scope.ptr, '/', scope.len);
	struct kh_slice repo =
		slash ? kh_slice_sub(scope, (size_t)(slash - scope.ptr) + 1, scope.len)
		      : KH_SLICE("");
	if (repo.len == 0 || memchr(repo.ptr, '/', repo.len))
		return kh_err_set(c->err, KH_ERR_CONFIG, "it was not asked for a repository");
	const char *owner = c->mint->owner;
	if (owner && !kh_slice_eq_nocase(kh_slice_sub(scope, 0, (size_t)(slash - scope.ptr)),
					 kh_slice_str(owner)))
		return kh_err_set(c->err, KH_ERR_CONFIG,
				  "it was asked for a repository that is not its owner's");
	return (kh_buf_append_str(c->body, "{\"repositories\":[") &&
		kh_json_string(c->body, repo) && kh_buf_append_str(c->body, "]}")) ||
	       no_memory(c->err);
}

/* --- OAuth2 ----------------------------------------------------------------------------------- */

/* RFC 6749 section 2.3.1: both are encoded as a form's before they become a Basic pair. */
static bool put_client(struct kh_slice secret, void *arg)
{
	struct compose *c = arg;
	struct kh_slice id = kh_slice_str(c->mint->client_id);
	kh_cleanup(kh_buf_fini) struct kh_buf pair;
	kh_buf_init_wiping(&pair, 3 * KH_LIMIT_TOKEN_BYTES);
	if (c->mint->auth_in_body)
		return put_pair(c->body, "client_id", id) &&
		       put_pair(c->body, "client_secret", secret);
	if (!kh_percent_encode(&pair, id, "") || !kh_buf_append_char(&pair, ':') ||
	    !kh_percent_encode(&pair, secret, "") || !kh_buf_append_str(c->auth, "Basic "))
		return false;
	struct kh_slice text = kh_buf_view(&pair);
	return kh_base64_put(c->auth, &text, 1, KH_BASE64);
}

static bool put_refresh_token(struct kh_slice token, void *arg)
{
	struct compose *c = arg;
	return put_pair(c->body, "refresh_token", token);
}

static bool put_current_token(struct compose *c)
{
	kh_cleanup(kh_buf_fini) struct kh_buf token;
	kh_buf_init_wiping(&token, KH_LIMIT_TOKEN_BYTES);
	if (kh_rotation_read(c->job->rotation, &token, c->err))
		return put_refresh_token(kh_buf_view(&token), c);
	return !c->err->code && kh_secret_expose(c->holding->raw.secret, put_refresh_token, c);
}

static bool compose_oauth2(struct compose *c)
{
	const struct kh_mint *mint = c->mint;
	bool refresh = mint->kind == KH_MINT_OAUTH2_REFRESH;
	bool ok = put_pair(c->body, "grant_type",
			   refresh ? KH_SLICE("refresh_token") : KH_SLICE("client_credentials"));
	if (ok && mint->scope)
		ok = put_pair(c->body, "scope", kh_slice_str(mint->scope));
	if (ok && mint->audience)
		ok = put_pair(c->body, "audience", kh_slice_str(mint->audience));
	if (!refresh)
		ok = ok && kh_secret_expose(c->holding->raw.secret, put_client, c);
	else if (c->holding->client_secret)
		ok = ok && kh_secret_expose(c->holding->client_secret, put_client, c);
	else
		ok = ok && put_pair(c->body, "client_id", kh_slice_str(mint->client_id));
	if (ok && refresh)
		ok = put_current_token(c);
	return ok || (c->err->code != 0 ? false : no_memory(c->err));
}

/* --- where ------------------------------------------------------------------------------------ */

static bool put_token_uri(struct kh_slice raw, void *arg)
{
	json_t *file = kh_json_load(raw, JSON_REJECT_DUPLICATES, NULL);
	const char *url = text_of(file, "token_uri");
	bool ok = url && kh_buf_append_str(arg, url);
	json_decref(file);
	return ok;
}

bool kh_mint_url(const struct kh_mint *mint, const struct kh_holding *holding, struct kh_buf *out,
		 struct kh_err *err)
{
	const char *base = mint->url ? mint->url : github_api;
	if (mint->kind == KH_MINT_GCP && !mint->url)
		return kh_secret_expose(holding->raw.secret, put_token_uri, out) ||
		       kh_err_set(err, KH_ERR_CONFIG,
				  "its value is no key file of a service account");
	if (mint->kind != KH_MINT_GITHUB_APP)
		return kh_buf_append_str(out, base) || no_memory(err);
	size_t len = strlen(base);
	while (len > 0 && base[len - 1] == '/')
		len--;
	const char *id = mint->installation ? mint->installation : holding->installation;
	bool ok = kh_buf_append(out, base, len);
	if (id)
		ok = ok && kh_buf_printf(out, "/app/installations/%s/access_tokens", id);
	else
		ok = ok && kh_buf_printf(out, "/%s/%s/installation",
					 holding->is_user ? "users" : "orgs", mint->owner);
	return ok || no_memory(err);
}

static bool put_body(struct compose *c)
{
	switch (c->mint->kind) {
	case KH_MINT_GCP:
		return kh_secret_expose(c->holding->raw.secret, compose_gcp, c);
	case KH_MINT_GITHUB_APP:
		return kh_secret_expose(c->holding->raw.secret, compose_github, c);
	case KH_MINT_OAUTH2_CLIENT:
	case KH_MINT_OAUTH2_REFRESH:
		return compose_oauth2(c);
	case KH_MINT_NONE:
		break;
	}
	return kh_err_set(c->err, KH_ERR_INTERNAL, "nothing is made of it");
}

static void add_field(struct kh_fetch_order *order, const char *name, struct kh_slice value)
{
	order->fields[order->n_fields++] = (struct kh_field){ kh_slice_str(name), value };
}

/* `store` keeps, one behind the other: the URL, the content, the authorization. */
bool kh_mint_compose(const struct kh_config *config, struct kh_job *job, struct kh_fetch_order *out,
		     struct kh_buf *store, struct kh_err *err)
{
	const struct kh_mint *mint = config->credentials[job->index].mint;
	bool github = mint->kind == KH_MINT_GITHUB_APP;
	kh_cleanup(kh_buf_fini) struct kh_buf url;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_cleanup(kh_buf_fini) struct kh_buf auth;
	kh_buf_init(&url, CLAIMS_BYTES);
	kh_buf_init_wiping(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	kh_buf_init_wiping(&auth, KH_LIMIT_CHANNEL_BYTES / 2);
	job->step = github && !mint->installation && !job->holding->installation;
	struct compose c = { mint, job->holding, job, &body, &auth, err };
	struct kh_fetch_url where;
	if (!kh_mint_url(mint, job->holding, &url, err) || !put_body(&c))
		return err->code ? false : no_memory(err);
	if (!kh_buf_append_slice(store, kh_buf_view(&url)) ||
	    !kh_buf_append_slice(store, kh_buf_view(&body)) ||
	    !kh_buf_append_slice(store, kh_buf_view(&auth)))
		return no_memory(err);
	struct kh_slice all = kh_buf_view(store);
	size_t at = kh_buf_len(&url), then = at + kh_buf_len(&body);
	if (!kh_fetch_url_parse(&where, kh_slice_sub(all, 0, at), err))
		return kh_err_wrap(err, "its token endpoint");
	*out = (struct kh_fetch_order){ .timeout_ms = job->timeout_ms,
					.user = config->worker_user,
					.host = where.host,
					.port = where.port,
					.post = job->step == 0,
					.target = where.path,
					.body = kh_slice_sub(all, at, then) };
	add_field(out, "accept",
		  github ? KH_SLICE("application/vnd.github+json") : KH_SLICE("application/json"));
	if (github)
		add_field(out, "x-github-api-version", KH_SLICE("2022-11-28"));
	if (out->post)
		add_field(out, "content-type",
			  github ? KH_SLICE("application/json")
				 : KH_SLICE("application/x-www-form-urlencoded"));
	if (all.len > then)
		add_field(out, "authorization", kh_slice_sub(all, then, all.len));
	return true;
}
