/*
 * re_sign.c - reads the client's own signature: its form, its scope, how it covers the content
 *
 * It was made with a placeholder, so it is not verified. What is read only chooses among the ways
 * in which requests to this host may be signed, and is checked against bounds.
 */
#include <keyhole/credential/re_sign.h>

#include <keyhole/credential/credential.h>
#include <keyhole/base/escape.h>
#include <keyhole/http/target.h>
#include <keyhole/base/timestamp.h>

static const struct kh_slice algorithm = KH_SLICE_INIT("AWS4-HMAC-SHA256");

enum {
	CREDENTIAL_BYTES = 512,
	EXPIRES_MOST_S = 7 * 24 * 3600, /* AWS's own */
	LATE_MS = 5 * 60 * 1000,
};

/* ---- a query's parameters ---- */

static struct kh_slice query_of(struct kh_slice raw)
{
	return kh_slice_sub(raw, kh_slice_find(raw, '?', 0) + 1, raw.len);
}

/* As it came; ptr NULL where there is none. */
static struct kh_slice parameter(struct kh_slice raw, struct kh_slice wanted)
{
	struct kh_slice rest = query_of(raw), name, value;
	char room[CREDENTIAL_BYTES];

	if (rest.len == 0)
		return (struct kh_slice){ NULL, 0 };
	while (kh_query_next(&rest, &name, &value))
		if (kh_slice_eq_nocase(kh_sigv4_decode(name, room, sizeof(room)), wanted))
			return value;
	return (struct kh_slice){ NULL, 0 };
}

/* ---- the client's signature ---- */

/* ID/DATE/REGION/SERVICE/aws4_request. */
static bool read_credential(struct kh_sigv4_scope *out, struct kh_slice credential)
{
	static const struct kh_slice end = KH_SLICE_INIT("/aws4_request");
	size_t slash = kh_slice_find(credential, '/', 0);

	if (!kh_slice_has_suffix(credential, end) || credential.len - end.len <= slash)
		return false;
	return kh_sigv4_scope_parse(out,
				    kh_slice_sub(credential, slash + 1, credential.len - end.len));
}

/* "SignedHeaders=…" among what follows the algorithm. */
static struct kh_slice part(struct kh_slice list, struct kh_slice name)
{
	for (size_t at = 0; at < list.len;) {
		size_t end = kh_slice_find(list, ',', at);
		struct kh_slice one = kh_slice_trim(kh_slice_sub(list, at, end));

		at = end + 1;
		if (kh_slice_has_prefix(one, name))
			return kh_slice_sub(one, name.len, one.len);
	}
	return KH_SLICE("");
}

static bool is_other_algorithm(struct kh_slice name)
{
	return kh_slice_has_prefix(name, KH_SLICE("AWS4-")) && !kh_slice_eq(name, algorithm);
}

static bool refuse_algorithm(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_CREDENTIAL_BINDING,
			  "the request is signed with another algorithm than AWS4-HMAC-SHA256 "
			  "(Signature Version 4A?), which is not made here: use an endpoint of one "
			  "region");
}

/* Return: false: it can't be taken. *scope stays empty where the client says none. */
static bool read_header(struct kh_re_sign *out, const struct kh_message *message,
			struct kh_sigv4_scope *scope, struct kh_err *err)
{
	const struct kh_field *field = kh_message_field(message, KH_SLICE("authorization"));

	if (!field)
		return true;
	size_t blank = kh_slice_find(field->value, ' ', 0);
	struct kh_slice name = kh_slice_sub(field->value, 0, blank);
	struct kh_slice list = kh_slice_sub(field->value, blank + 1, field->value.len);

	if (is_other_algorithm(name))
		return refuse_algorithm(err);
	if (!kh_slice_eq(name, algorithm))
		return true;
	(void)read_credential(scope, part(list, KH_SLICE("Credential=")));
	out->signed_names = part(list, KH_SLICE("SignedHeaders="));
	return true;
}

static bool read_query(struct kh_re_sign *out, struct kh_slice raw, uint64_t now_ms,
		       struct kh_sigv4_scope *scope, struct kh_err *err)
{
	struct kh_slice name = parameter(raw, KH_SLICE("x-amz-algorithm"));
	char room[CREDENTIAL_BYTES];
	uint64_t from, expires = 0;

	if (is_other_algorithm(name))
		return refuse_algorithm(err);
	(void)read_credential(scope, kh_sigv4_decode(parameter(raw, KH_SLICE("x-amz-credential")),
						     room, sizeof(room)));
	out->form = KH_RE_SIGN_QUERY;
	out->signed_names = parameter(raw, KH_SLICE("x-amz-signedheaders"));
	out->names_encoded = true;
	if (!kh_slice_to_u64(parameter(raw, KH_SLICE("x-amz-expires")), &expires) || expires == 0 ||
	    !kh_timestamp_read(parameter(raw, KH_SLICE("x-amz-date")), KH_TIMESTAMP_BASIC, &from))
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "X-Amz-Date or X-Amz-Expires of this presigned URL is none");
	if (expires > EXPIRES_MOST_S)
		expires = EXPIRES_MOST_S;
	/* What has expired is not brought back to life. */
	if (from + expires * 1000 + LATE_MS < now_ms)
		return kh_err_set(err, KH_ERR_CREDENTIAL_BINDING,
				  "this presigned URL has expired: make another one");
	out->expires_s = (unsigned)expires;
	return true;
}

/* ---- what it may be signed for ---- */

static bool say_misfit(const char *what, const struct kh_sigv4_scope *scope, struct kh_slice host,
		       struct kh_err *err)
{
	return kh_err_set(
		err, KH_ERR_CREDENTIAL_BINDING,
		"%s of the signature (%s in %s) is not what %s takes (where it is, say so in "
		"the credential's aws_sigv4: { region, service })",
		what, scope->service[0] ? kh_esc_str(scope->service) : "no service",
		scope->region[0] ? kh_esc_str(scope->region) : "no region", kh_esc(host));
}

static void put_name(char out[KH_SIGV4_NAME_BYTES], struct kh_slice name)
{
	size_t len = name.len < KH_SIGV4_NAME_BYTES ? name.len : 0;

	memset(out, 0, KH_SIGV4_NAME_BYTES);
	if (len > 0)
		memcpy(out, name.ptr, len);
}

static bool settle_scope(struct kh_sigv4_scope *scope, const struct kh_sigv4_config *config,
			 struct kh_slice host, struct kh_err *err)
{
	if (config->service)
		put_name(scope->service, kh_slice_str(config->service));
	else if (scope->service[0] == '\0')
		put_name(scope->service, kh_sigv4_host_service(host));
	if (config->region)
		put_name(scope->region, kh_slice_str(config->region));
	else if (scope->region[0] == '\0')
		put_name(scope->region, kh_sigv4_host_region(host));
	if (scope->service[0] == '\0' ||
	    (!config->service && !kh_sigv4_host_fits_service(host, kh_slice_str(scope->service))))
		return say_misfit("the service", scope, host, err);
	if (scope->region[0] == '\0' ||
	    (!config->region && !kh_sigv4_host_fits_region(host, kh_slice_str(scope->region))))
		return say_misfit("the region", scope, host, err);
	return true;
}

/* ---- what stands for the content ---- */

static bool is_hash(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (kh_hex_value(text.ptr[i]) < 0)
			return false;
	return text.len == KH_SIGV4_HEX_BYTES - 1;
}

static bool read_claim(struct kh_re_sign *out, bool has_content, struct kh_err *err)
{
	static const struct {
		struct kh_slice word;
		enum kh_re_sign_payload payload;
	} words[] = {
		{ KH_SLICE_INIT("UNSIGNED-PAYLOAD"), KH_RE_SIGN_UNSIGNED },
		{ KH_SLICE_INIT("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), KH_RE_SIGN_CHUNKS },
		{ KH_SLICE_INIT("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
		  KH_RE_SIGN_CHUNKS_TRAILER },
		{ KH_SLICE_INIT("STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
		  KH_RE_SIGN_UNSIGNED_TRAILER },
	};

	if (is_hash(out->claimed)) {
		out->payload = KH_RE_SIGN_CLAIMED;
		return true;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (!kh_slice_eq(out->claimed, words[i].word))
			continue;
		out->payload = words[i].payload;
		return out->payload < KH_RE_SIGN_CHUNKS || has_content ||
		       kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "x-amz-content-sha256 says that chunks follow, and there is no "
				  "content");
	}
	return kh_err_set(
		err, KH_ERR_REQUEST_MALFORMED,
		"x-amz-content-sha256 is %s: expected a SHA-256 in hex, UNSIGNED-PAYLOAD, "
		"STREAMING-AWS4-HMAC-SHA256-PAYLOAD (-TRAILER) or "
		"STREAMING-UNSIGNED-PAYLOAD-TRAILER",
		kh_esc(out->claimed));
}

static bool read_payload(struct kh_re_sign *out, const struct kh_message *message,
			 struct kh_slice raw, struct kh_err *err)
{
	static const struct kh_slice name = KH_SLICE_INIT("x-amz-content-sha256");
	bool has_content = message->framing == KH_FRAMING_CHUNKED ||
			   (message->framing == KH_FRAMING_LENGTH && message->content_length > 0);
	struct kh_slice said = parameter(raw, name);
	unsigned n = 0;

	for (size_t i = 0; i < message->n_fields; i++) {
		if (!kh_slice_eq_nocase(message->fields[i].name, name))
			continue;
		said = message->fields[i].value;
		out->says_payload = true;
		n++;
	}
	if (n > 1)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "x-amz-content-sha256 is there more than once");
	out->claimed = said;
	if (said.ptr)
		return read_claim(out, has_content, err);
	if (out->form == KH_RE_SIGN_QUERY &&
	    kh_sigv4_path_of(kh_slice_str(out->scope.service)) == KH_SIGV4_PATH_S3)
		out->payload = KH_RE_SIGN_UNSIGNED;
	else
		out->payload = has_content ? KH_RE_SIGN_HASHED : KH_RE_SIGN_EMPTY;
	return true;
}

bool kh_re_sign_read(struct kh_re_sign *out, const struct kh_sigv4_config *config,
		     const struct kh_message *message, struct kh_slice raw, struct kh_slice host,
		     uint64_t now_ms, struct kh_err *err)
{
	struct kh_sigv4_scope scope = { .date = "" };

	*out = (struct kh_re_sign){ .form = KH_RE_SIGN_HEADER };
	if (!read_header(out, message, &scope, err))
		return false;
	bool presigned =
		parameter(raw, KH_SLICE("x-amz-algorithm")).ptr && out->signed_names.len == 0;
	if (presigned && !read_query(out, raw, now_ms, &scope, err))
		return false;
	if (!settle_scope(&scope, config, host, err))
		return false;
	out->scope = scope;
	kh_sigv4_time(now_ms, out->time);
	memcpy(out->scope.date, out->time, KH_SIGV4_DATE_BYTES - 1);
	return read_payload(out, message, raw, err);
}

bool kh_re_sign_wants_content(const struct kh_re_sign *re_sign)
{
	return re_sign->payload == KH_RE_SIGN_HASHED && re_sign->hash[0] == '\0';
}

bool kh_re_sign_put_scope(struct kh_buf *out, const struct kh_re_sign *re_sign)
{
	return kh_sigv4_scope_put(out, &re_sign->scope);
}
