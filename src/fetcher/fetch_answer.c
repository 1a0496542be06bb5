/* fetch_answer.c - reads the answer of a token endpoint into a fixed struct */

#include <keyhole/fetcher/fetch.h>

#include <string.h>

#include <jansson.h>

#include <keyhole/base/json_load.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/timestamp.h>

#define A_YEAR_S (UINT64_C(366) * 24 * 3600)

static enum kh_fetch_error error_of(const json_t *value)
{
	if (!json_is_string(value))
		return KH_FETCH_ERROR_OTHER;
	for (unsigned i = KH_FETCH_ERROR_NONE + 1; i < KH_FETCH_ERROR_OTHER; i++)
		if (strcmp(json_string_value(value), kh_fetch_error_name((enum kh_fetch_error)i)) ==
		    0)
			return (enum kh_fetch_error)i;
	return KH_FETCH_ERROR_OTHER;
}

/* A copy in the store. Return: false: it is no text that a field could hold. */
static bool keep(struct kh_slice *out, const json_t *value, struct kh_buf *store)
{
	size_t before = kh_buf_len(store);
	if (!value || json_is_null(value))
		return true;
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);
	for (size_t i = 0; text && i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	if (!text || len == 0 || len > KH_LIMIT_TOKEN_BYTES || !kh_buf_append(store, text, len))
		return false;
	*out = kh_slice_sub(kh_buf_view(store), before, before + len);
	return true;
}

/* A number, or digits in a text; more than a year is a year. Return: 0: neither, or not ahead. */
static uint64_t seconds(const json_t *value)
{
	uint64_t number = 0;
	if (json_is_integer(value) && json_integer_value(value) > 0)
		number = (uint64_t)json_integer_value(value);
	else if (json_is_real(value) && json_real_value(value) > 0)
		number = json_real_value(value) < (double)A_YEAR_S
				 ? (uint64_t)json_real_value(value)
				 : A_YEAR_S;
	else if (json_is_string(value) &&
		 !kh_slice_to_u64(kh_slice_str(json_string_value(value)), &number))
		number = 0;
	return number < A_YEAR_S ? number : A_YEAR_S;
}

static uint64_t moment(const json_t *value)
{
	uint64_t ms;
	return kh_timestamp_read(kh_slice_str(json_string_value(value)), KH_TIMESTAMP_RFC3339, &ms)
		       ? ms / 1000
		       : 0;
}

static bool refuse(struct kh_fetch_answer *out, const char *why)
{
	out->ok = false;
	out->why = kh_slice_str(why);
	return false;
}

bool kh_fetch_answer_read(struct kh_fetch_answer *out, struct kh_slice json, struct kh_buf *store)
{
	json_t *root = kh_json_load(json, JSON_REJECT_DUPLICATES, NULL);
	out->ok = true;
	if (!json_is_object(root)) {
		json_decref(root);
		/* A refusal need not be JSON. */
		return out->status >= 300 || refuse(out, "its answer is no JSON object");
	}
	/* A view of the store ends with what is appended: both at most, in room that is there. */
	(void)kh_buf_reserve(store, (size_t)2 * KH_LIMIT_TOKEN_BYTES + 1);
	const json_t *token = json_object_get(root, "access_token");
	const json_t *id = json_object_get(root, "id");
	bool good = keep(&out->token, token ? token : json_object_get(root, "token"), store) &&
		    keep(&out->refresh, json_object_get(root, "refresh_token"), store);
	const json_t *type = json_object_get(root, "token_type");
	bool bearer = !json_is_string(type) ||
		      kh_slice_eq_nocase(kh_slice_str(json_string_value(type)), KH_SLICE("bearer"));
	/* RFC 6749 §4.2.2: a lifetime in seconds, which may be left out. One that is there and is
	 * none, zero or negative says nothing that a token could be kept by. */
	const json_t *life = json_object_get(root, "expires_in");
	out->lifetime_s = seconds(life);
	bool lives = !life || json_is_null(life) || out->lifetime_s > 0;
	out->expires_s = moment(json_object_get(root, "expires_at"));
	if (json_is_integer(id) && json_integer_value(id) > 0)
		out->id = (uint64_t)json_integer_value(id);
	if (out->status >= 300 || json_object_get(root, "error"))
		out->error = error_of(json_object_get(root, "error"));
	json_decref(root);
	if (!good)
		return refuse(out, "the token that it gives can't be one");
	if (!lives && out->status < 300)
		return refuse(out, "the expires_in of its token is no number of seconds above 0");
	return bearer || refuse(out, "it gives a token that is not a bearer's");
}
