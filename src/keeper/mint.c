/*
 * mint.c - tokens: exchanges a value at a token endpoint
 *
 * The answer is a message of the fetcher with fixed members. Its text is the fetcher's own; from
 * the endpoint come only numbers, a code from a fixed list, and the token.
 */

#include "mint_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

enum {
	USUAL_LIFE_S = 600, /* where an endpoint does not say: RFC 6749 leaves it open */
	MARGIN_S = 10,
	SKEW_S = 60,
	NOT_FOUND = 404,
};

struct kh_job *kh_mint_begin(const struct kh_config *config, uint16_t index,
			     struct kh_holding *holding, struct kh_made *made, struct kh_err *err)
{
	const struct kh_credential_config *credential = &config->credentials[index];
	/* A client that has a secret does not ask as one that has none. */
	if (credential->mint->client_secret.kind != KH_SOURCE_NONE && !holding->client_secret) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s",
			   holding->client_why ? holding->client_why
					       : "its client secret has no value");
		return NULL;
	}
	struct kh_job *job = kh_job_new(credential->mint->timeout_ms);
	if (job && credential->mint->kind == KH_MINT_OAUTH2_REFRESH) {
		job->rotation = kh_rotation_new(credential->mint->state_path, holding->raw.secret);
		if (!job->rotation) {
			kh_job_free(job);
			job = NULL;
		}
	}
	if (!job) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "credential %s: no memory", credential->name);
		return NULL;
	}
	job->index = index;
	job->holding = holding;
	job->made = made;
	job->asker = made->asker.number;
	return job;
}

/* For messages. What is nobody's any more may be of another configuration. */
static const char *name_of(const struct kh_config *config, const struct kh_job *job)
{
	return job->holding ? config->credentials[job->index].name
			    : "(one that is no longer in use)";
}

/* "https://oauth2.example.com", for messages: what is behind it may hold anything. */
static void endpoint_of(const struct kh_config *config, const struct kh_job *job, char *out,
			size_t size)
{
	kh_cleanup(kh_buf_fini) struct kh_buf url;
	struct kh_fetch_url parsed;
	kh_buf_init(&url, 4096);
	const struct kh_mint *mint = job->holding ? config->credentials[job->index].mint : NULL;
	bool known = mint && job->holding->raw.secret &&
		     kh_mint_url(mint, job->holding, &url, NULL) &&
		     kh_fetch_url_parse(&parsed, kh_buf_view(&url), NULL);
	(void)snprintf(out, size, "%s", known ? kh_esc(kh_host_view(&parsed.host)) : "?");
}

static const char *skew_of(const struct kh_fetch_answer *answer, char *out, size_t size)
{
	uint64_t now = kh_clock_wall_ms() / 1000;
	uint64_t off = now > answer->date_s ? now - answer->date_s : answer->date_s - now;
	out[0] = '\0';
	if (answer->date_s && off > SKEW_S)
		(void)snprintf(out, size,
			       "; this host's clock is %llu seconds %s of the endpoint's (set it "
			       "right)",
			       (unsigned long long)off, now > answer->date_s ? "ahead" : "behind");
	return out;
}

static bool refused(const struct kh_config *config, const struct kh_job *job,
		    const struct kh_fetch_answer *answer, struct kh_err *err)
{
	char endpoint[KH_HOST_MAX_BYTES + 1], skew[128];
	const char *name = name_of(config, job);
	endpoint_of(config, job, endpoint, sizeof(endpoint));
	(void)skew_of(answer, skew, sizeof(skew));
	if (answer->status >= 300 && answer->status < 400)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "credential %s: the token endpoint %s redirects (HTTP %u), which "
				  "is not followed (write the URL that it leads to)",
				  name, endpoint, answer->status);
	if (answer->status >= 300 || answer->error)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "credential %s: the token endpoint %s refuses: HTTP %u%s%s%s",
				  name, endpoint, answer->status, answer->error ? ", " : "",
				  kh_fetch_error_name(answer->error), skew);
	return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "credential %s: the token endpoint %s gives no token%s", name, endpoint,
			  skew);
}

/* From the question on, a little less than what is said. Return: 0: it has ended. */
static uint64_t end_of(const struct kh_job *job, const struct kh_fetch_answer *answer)
{
	uint64_t life = answer->lifetime_s;
	uint64_t now = answer->date_s ? answer->date_s : kh_clock_wall_ms() / 1000;
	if (answer->expires_s)
		life = answer->expires_s > now ? answer->expires_s - now : 0;
	else if (!life)
		life = USUAL_LIFE_S;
	uint64_t margin = life / 10 < MARGIN_S ? life / 10 : MARGIN_S;
	return life > 0 ? job->began_ms + (life - margin) * 1000 : 0;
}

/* Before anything else: it may be the only one that is good now. */
static bool keep_refresh_token(const struct kh_job *job, const struct kh_fetch_answer *answer,
			       struct kh_err *err)
{
	/* What a refusal says beside its code, an echo of the question perhaps, is no token. */
	bool refuses = answer->status >= 300 || answer->error;
	if (!job->rotation || refuses || answer->refresh.len == 0)
		return true;
	return kh_rotation_write(job->rotation, answer->refresh, err);
}

static enum kh_mint_result take_installation(struct kh_job *job,
					     const struct kh_fetch_answer *answer)
{
	struct kh_holding *holding = job->holding;
	if (answer->status == 200 && answer->id > 0) {
		free(holding->installation);
		holding->installation = kh_strf("%llu", (unsigned long long)answer->id);
		return holding->installation ? KH_MINT_MORE : KH_MINT_FAILED;
	}
	if (answer->status != NOT_FOUND || holding->is_user)
		return KH_MINT_FAILED;
	holding->is_user = true;
	return KH_MINT_MORE;
}

static enum kh_mint_result take_token(const struct kh_config *config, struct kh_job *job,
				      const struct kh_fetch_answer *answer, struct kh_token *out,
				      struct kh_err *err)
{
	const char *name = name_of(config, job);
	char token[KH_LIMIT_TOKEN_BYTES];
	struct kh_err why = KH_ERR_INIT;
	if (!keep_refresh_token(job, answer, &why))
		kh_log_error("credential %s: %s", name, why.text);
	if (!job->holding)
		return KH_MINT_FAILED;
	if (job->step > 0) {
		enum kh_mint_result result = take_installation(job, answer);
		if (result == KH_MINT_FAILED)
			(void)refused(config, job, answer, err);
		return result;
	}
	if (answer->status >= 300 || answer->error || answer->token.len == 0)
		return refused(config, job, answer, err) ? KH_MINT_GOT : KH_MINT_FAILED;
	/* As any value: it could not be known again on its way out. */
	if (answer->token.len < KH_SECRET_LEAST_BYTES && !job->holding->source->allow_short) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: the token that its endpoint gives has fewer than 8 "
			   "bytes, and can't be told from other text (allow_short: true takes it)",
			   name);
		return KH_MINT_FAILED;
	}
	out->expires_ms = end_of(job, answer);
	if (out->expires_ms <= kh_clock_wall_ms()) {
		char endpoint[KH_HOST_MAX_BYTES + 1], skew[128];
		endpoint_of(config, job, endpoint, sizeof(endpoint));
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: the token endpoint %s gives a token that has ended%s",
			   name, endpoint, skew_of(answer, skew, sizeof(skew)));
		return KH_MINT_FAILED;
	}
	memcpy(token, answer->token.ptr, answer->token.len);
	out->secret = kh_secret_new(token, answer->token.len, err);
	return out->secret ? KH_MINT_GOT : KH_MINT_FAILED;
}

enum kh_mint_result kh_mint_took(const struct kh_config *config, struct kh_job *job,
				 struct kh_token *out, struct kh_err *err)
{
	struct kh_fetch_answer answer;
	char endpoint[KH_HOST_MAX_BYTES + 1];
	const char *name = name_of(config, job);
	*out = (struct kh_token){ .secret = NULL };
	if (job->trouble[0]) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: %s", name,
			   job->trouble);
		return KH_MINT_FAILED;
	}
	bool said = kh_buf_len(&job->said) > 0 &&
		    kh_fetch_answer_take(kh_buf_view(&job->said), &answer);
	if (said && answer.ok)
		return take_token(config, job, &answer, out, err);
	endpoint_of(config, job, endpoint, sizeof(endpoint));
	if (said)
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: asking the token endpoint %s: %s", name, endpoint,
			   kh_esc(answer.why));
	else if (job->late)
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: the token endpoint %s did not answer within %u ms", name,
			   endpoint, job->timeout_ms);
	else
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: the fetcher, which asks the token endpoint %s, ended by "
			   "itself (its reason is above)",
			   name, endpoint);
	return KH_MINT_FAILED;
}
