/*
 * hmac.c - signs a request with an HMAC over a template's text
 *
 * The signed text goes into the HMAC piece by piece (hmac_template.c), so that content is never
 * copied. The key is decoded and used while its pages are open, in wiping memory.
 */
#include <keyhole/credential/hmac.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/spelling.h>

bool kh_hmac_wants_content(const struct kh_hmac_config *config)
{
	bool wants = kh_hmac_template_has(config->sign, KH_HMAC_WORD_BODY,
					  KH_HMAC_WORD_BODY_SHA256_BASE64);

	for (size_t i = 0; i < config->n_fields; i++)
		wants = wants || kh_hmac_template_has(config->fields[i].text, KH_HMAC_WORD_BODY,
						      KH_HMAC_WORD_BODY_SHA256_BASE64);
	return wants;
}

bool kh_hmac_sets_field(const struct kh_hmac_config *config, struct kh_slice name)
{
	for (size_t i = 0; i < config->n_fields; i++)
		if (kh_spelling_is_field(name, kh_slice_str(config->fields[i].name)))
			return true;
	return false;
}

/* ---- values of the words ---- */

enum { TIME_ROOM = 40, HASH_BYTES = 32, MAC_MOST = EVP_MAX_MD_SIZE };

struct values {
	const struct kh_hmac_request *request;
	char time[TIME_ROOM];
	char hash_hex[2 * HASH_BYTES + 1], hash_base64[48];
	char signature[2 * MAC_MOST + 1];
};

static void put_number(uint64_t number, char out[TIME_ROOM])
{
	char digits[KH_U64_DIGITS];
	struct kh_slice text = kh_slice_from_u64(number, digits);

	memcpy(out, text.ptr, text.len);
}

static void put_time(enum kh_hmac_time form, uint64_t now_ms, char out[TIME_ROOM])
{
	time_t seconds = (time_t)(now_ms / 1000);
	struct tm tm;

	memset(out, 0, TIME_ROOM);
	switch (form) {
	case KH_HMAC_SECONDS:
		put_number(now_ms / 1000, out);
		break;
	case KH_HMAC_MILLISECONDS:
		put_number(now_ms, out);
		break;
	case KH_HMAC_HTTP_DATE:
		if (gmtime_r(&seconds, &tm))
			(void)strftime(out, TIME_ROOM, "%a, %d %b %Y %H:%M:%S GMT", &tm);
		else
			put_number(now_ms / 1000, out);
		break;
	case KH_HMAC_ISO_8601:
		kh_clock_format(now_ms, out);
		break;
	}
}

static bool put_hash(struct values *values)
{
	unsigned char digest[HASH_BYTES];
	struct kh_slice content = values->request->content;

	if (!EVP_Digest(content.len ? content.ptr : "", content.len, digest, NULL, EVP_sha256(),
			NULL))
		return false;
	kh_hex_encode(digest, sizeof(digest), values->hash_hex);
	kh_base64_encode(digest, sizeof(digest), values->hash_base64);
	return true;
}

static struct kh_slice value_of(const struct values *values, enum kh_hmac_word word)
{
	const struct kh_hmac_request *request = values->request;
	size_t mark = kh_slice_find(request->target, '?', 0);

	switch (word) {
	case KH_HMAC_WORD_METHOD:
		return request->method;
	case KH_HMAC_WORD_TARGET:
		return request->target;
	case KH_HMAC_WORD_PATH:
		return kh_slice_sub(request->target, 0, mark);
	case KH_HMAC_WORD_QUERY:
		return kh_slice_sub(request->target, mark + 1, request->target.len);
	case KH_HMAC_WORD_HOST:
		return request->host;
	case KH_HMAC_WORD_TIMESTAMP:
		return kh_slice_str(values->time);
	case KH_HMAC_WORD_NONCE:
		return kh_slice_str(request->nonce);
	case KH_HMAC_WORD_BODY:
		return request->content;
	case KH_HMAC_WORD_BODY_SHA256:
		return kh_slice_str(values->hash_hex);
	case KH_HMAC_WORD_BODY_SHA256_BASE64:
		return kh_slice_str(values->hash_base64);
	case KH_HMAC_WORD_SIGNATURE:
		return kh_slice_str(values->signature);
	case KH_HMAC_WORD_NONE:
		break;
	}
	return KH_SLICE("");
}

/* ---- the HMAC ---- */

struct job {
	const struct kh_hmac_config *config;
	struct values *values;
	const char *fault;
};

/* RFC 4648, padded or not; or hex. Return: false: it is none. */
static bool decode_key(struct kh_buf *out, enum kh_hmac_text form, struct kh_slice text)
{
	if (form == KH_HMAC_PLAIN)
		return kh_buf_append_slice(out, text);
	size_t len = text.len / 2;
	char *to = kh_buf_reserve(out, text.len / 4 * 3 + 2);
	if (!to || !(form == KH_HMAC_HEX ? kh_hex_decode(text, to, len)
					 : kh_base64_decode(text, KH_BASE64_LOOSE, to, &len)))
		return false;
	kh_buf_commit(out, len);
	return len > 0;
}

static bool feed(EVP_MAC_CTX *ctx, const struct job *job)
{
	struct kh_slice rest = kh_slice_str(job->config->sign), piece;
	enum kh_hmac_word word;

	while (kh_hmac_template_next(&rest, &piece, &word)) {
		struct kh_slice bytes = word ? value_of(job->values, word) : piece;

		if (bytes.len > 0 &&
		    EVP_MAC_update(ctx, (const unsigned char *)bytes.ptr, bytes.len) != 1)
			return false;
	}
	return true;
}

static bool compute(struct job *job, struct kh_slice key)
{
	static const char *const names[] = {
		[KH_HMAC_SHA256] = "SHA256",
		[KH_HMAC_SHA512] = "SHA512",
		[KH_HMAC_SHA384] = "SHA384",
		[KH_HMAC_SHA1] = "SHA1",
	};
	char name[8];
	unsigned char mac[MAC_MOST];
	size_t len = 0;

	memcpy(name, names[job->config->algorithm], strlen(names[job->config->algorithm]) + 1);
	const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name,
								       0),
				      OSSL_PARAM_construct_end() };
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *ctx = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
	bool ok = ctx && EVP_MAC_init(ctx, (const unsigned char *)key.ptr, key.len, params) == 1 &&
		  feed(ctx, job) && EVP_MAC_final(ctx, mac, &len, sizeof(mac)) == 1;
	EVP_MAC_CTX_free(ctx);
	EVP_MAC_free(hmac);
	ERR_clear_error();
	if (ok && job->config->encoding == KH_HMAC_BASE64)
		kh_base64_encode(mac, len, job->values->signature);
	else if (ok)
		kh_hex_encode(mac, len, job->values->signature);
	return ok;
}

bool kh_hmac_use_key(const struct kh_hmac_config *config, struct kh_slice value,
		     bool (*use)(struct kh_slice key, void *arg), void *arg)
{
	struct kh_buf key;

	kh_buf_init_wiping(&key, KH_LIMIT_SECRET_BYTES);
	bool ok = config->key == KH_HMAC_PLAIN || !decode_key(&key, config->key, value) ||
		  use(kh_buf_view(&key), arg);
	kh_buf_fini(&key);
	return ok;
}

static bool use_key(struct kh_slice value, void *arg)
{
	struct job *job = arg;
	struct kh_buf key;

	kh_buf_init_wiping(&key, KH_LIMIT_SECRET_BYTES);
	bool ok = decode_key(&key, job->config->key, value);
	if (!ok)
		job->fault = job->config->key == KH_HMAC_HEX ? "its value is no hex"
							     : "its value is no base64";
	ok = ok && compute(job, kh_buf_view(&key));
	kh_buf_fini(&key);
	return ok;
}

static bool put_field(struct kh_buf *out, const struct kh_hmac_field *field,
		      const struct values *values)
{
	struct kh_slice rest = kh_slice_str(field->text), piece;
	enum kh_hmac_word word;

	if (!kh_buf_append_str(out, field->name) || !kh_buf_append_str(out, ": "))
		return false;
	while (kh_hmac_template_next(&rest, &piece, &word))
		if (!kh_buf_append_slice(out, word ? value_of(values, word) : piece))
			return false;
	return kh_buf_append_str(out, "\r\n");
}

bool kh_hmac_make(struct kh_buf *out, const struct kh_hmac_config *config,
		  const struct kh_hmac_request *request, const struct kh_secret *key,
		  struct kh_err *err)
{
	struct values values = { .request = request };
	struct job job = { config, &values, "the HMAC can't be made" };
	size_t before = kh_buf_len(out);

	put_time(config->timestamp, request->now_ms, values.time);
	bool ok = put_hash(&values) && kh_secret_expose(key, use_key, &job);
	for (size_t i = 0; ok && i < config->n_fields; i++) {
		job.fault = "no room for it in the request's head";
		ok = put_field(out, &config->fields[i], &values);
	}
	if (ok)
		return true;
	kh_buf_truncate(out, before);
	return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s", job.fault);
}
