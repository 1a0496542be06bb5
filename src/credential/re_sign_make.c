/*
 * re_sign_make.c - writes the target and the fields of a request that is signed again
 *
 * All of it is made while the pages with the keys are open, since the session token is signed as
 * well.
 */
#include <keyhole/credential/re_sign.h>

#include <keyhole/credential/credential.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/spelling.h>
#include <keyhole/http/target.h>

static const struct kh_slice no_content =
	KH_SLICE_INIT("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");

enum {
	MOST_FIELDS = KH_LIMIT_FIELDS + 8,
	CANONICAL_BYTES = 4 * (KH_LIMIT_HEAD_BYTES + KH_LIMIT_SECRET_BYTES),
	OUT_BYTES = KH_LIMIT_HEAD_BYTES + 4 * KH_LIMIT_SECRET_BYTES,
};

void kh_re_signed_init(struct kh_re_signed *out)
{
	kh_buf_init_wiping(&out->target, OUT_BYTES);
	kh_buf_init_wiping(&out->fields, OUT_BYTES);
	out->seed[0] = '\0';
}

void kh_re_signed_fini(struct kh_re_signed *out)
{
	kh_buf_fini(&out->target);
	kh_buf_fini(&out->fields);
}

/* ---- what stays of the client's ---- */

bool kh_re_sign_replaces(struct kh_slice name)
{
	return kh_spelling_is_field(name, KH_SLICE("authorization")) ||
	       kh_spelling_is_field(name, KH_SLICE("date")) ||
	       kh_spelling_is_field(name, KH_SLICE("x-amz-date")) ||
	       kh_spelling_is_field(name, KH_SLICE("x-amz-security-token"));
}

static bool is_signature(struct kh_slice name)
{
	static const struct kh_slice ours[] = {
		KH_SLICE_INIT("x-amz-algorithm"),
		KH_SLICE_INIT("x-amz-credential"),
		KH_SLICE_INIT("x-amz-date"),
		KH_SLICE_INIT("x-amz-expires"),
		KH_SLICE_INIT("x-amz-signedheaders"),
		KH_SLICE_INIT("x-amz-signature"),
		KH_SLICE_INIT("x-amz-security-token"),
		KH_SLICE_INIT("x-amz-region-set"),
		KH_SLICE_INIT("x-amz-s3session-token"),
	};

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (kh_spelling_is_parameter(name, ours[i]))
			return true;
	/* What stays has to be the service's own in every reading: as it is written, that is. */
	return !kh_spelling_is_plain(name) ||
	       !kh_slice_eq_nocase(kh_slice_sub(name, 0, 6), KH_SLICE("x-amz-"));
}

bool kh_re_sign_drops_parameter(struct kh_slice name)
{
	return kh_carrier_is_query(name) && is_signature(name);
}

/* Of the separators around what was taken out the '&' stays, as in carriers.c. */
static bool put_kept(struct kh_buf *out, struct kh_slice query)
{
	struct kh_slice rest = query, name, value;
	bool first = true;
	char separator = '?';

	while (kh_query_next(&rest, &name, &value)) {
		size_t len = value.ptr == name.ptr + name.len ? name.len : name.len + 1 + value.len;
		char behind = rest.ptr ? name.ptr[len] : '\0';

		if (kh_re_sign_drops_parameter(name)) {
			if (!first && separator != '&')
				separator = behind;
			continue;
		}
		if (!kh_buf_append_char(out, first ? '?' : separator) ||
		    !kh_buf_append(out, name.ptr, len))
			return false;
		first = false;
		separator = behind;
	}
	return true;
}

static bool put_target(struct kh_buf *out, struct kh_slice raw)
{
	size_t mark = kh_slice_find(raw, '?', 0);

	return kh_buf_append_slice(out, kh_slice_sub(raw, 0, mark)) &&
	       (mark == raw.len || put_kept(out, kh_slice_sub(raw, mark + 1, raw.len)));
}

/* Is it in the list that the client signed? */
static bool was_signed(const struct kh_re_sign *re_sign, struct kh_slice name)
{
	struct kh_slice rest = re_sign->signed_names;

	while (rest.len > 0) {
		size_t end = kh_slice_find(rest, ';', 0), behind = end + 1;
		struct kh_slice one;

		for (size_t i = 0; re_sign->names_encoded && i + 2 < rest.len && i < end; i++)
			if (kh_slice_eq_nocase(kh_slice_sub(rest, i, i + 3), KH_SLICE("%3b"))) {
				end = i;
				behind = i + 3;
			}
		one = kh_slice_sub(rest, 0, end);
		if (kh_slice_eq_nocase(one, name))
			return true;
		rest = kh_slice_sub(rest, behind, rest.len);
	}
	return false;
}

/* What AWS asks for, and what the client wanted covered; not what others on the way may change. */
static bool is_signed(const struct kh_re_sign *re_sign, struct kh_slice name)
{
	return kh_slice_eq_nocase(name, KH_SLICE("host")) ||
	       kh_slice_eq_nocase(name, KH_SLICE("content-type")) ||
	       kh_slice_eq_nocase(name, KH_SLICE("content-md5")) ||
	       kh_slice_eq_nocase(kh_slice_sub(name, 0, 6), KH_SLICE("x-amz-")) ||
	       (was_signed(re_sign, name) && !kh_slice_eq_nocase(name, KH_SLICE("expect")));
}

/* ---- signing ---- */

struct job {
	struct kh_re_signed *out;
	const struct kh_re_sign *re_sign;
	const struct kh_re_sign_head *head;
	struct kh_field fields[MOST_FIELDS];
	size_t n;
	struct kh_sigv4_keys keys;
	struct kh_buf names, credential, canonical, text;
	char signature[KH_SIGV4_HEX_BYTES];
	const char *fault;
};

static bool add(struct job *job, struct kh_slice name, struct kh_slice value)
{
	if (job->n == MOST_FIELDS)
		return false;
	job->fields[job->n++] = (struct kh_field){ name, value };
	return true;
}

static struct kh_slice payload_of(const struct kh_re_sign *re_sign)
{
	switch (re_sign->payload) {
	case KH_RE_SIGN_EMPTY:
		return no_content;
	case KH_RE_SIGN_HASHED:
		return kh_slice_str(re_sign->hash);
	case KH_RE_SIGN_CLAIMED:
	case KH_RE_SIGN_UNSIGNED:
	case KH_RE_SIGN_CHUNKS:
	case KH_RE_SIGN_CHUNKS_TRAILER:
	case KH_RE_SIGN_UNSIGNED_TRAILER:
		break;
	}
	return re_sign->claimed.ptr ? re_sign->claimed : KH_SLICE("UNSIGNED-PAYLOAD");
}

/* S3 takes nothing that does not say what stands for its content. */
static bool says_payload_anew(const struct kh_re_sign *re_sign)
{
	return re_sign->form == KH_RE_SIGN_HEADER && !re_sign->says_payload &&
	       kh_sigv4_path_of(kh_slice_str(re_sign->scope.service)) == KH_SIGV4_PATH_S3;
}

static bool collect(struct job *job)
{
	const struct kh_re_sign *re_sign = job->re_sign;

	for (size_t i = 0; i < job->head->n_fields; i++)
		if (is_signed(re_sign, job->head->fields[i].name) &&
		    !add(job, job->head->fields[i].name, job->head->fields[i].value))
			return false;
	if (re_sign->form == KH_RE_SIGN_QUERY)
		return true;
	return add(job, KH_SLICE("x-amz-date"), kh_slice_str(re_sign->time)) &&
	       (job->keys.token.len == 0 ||
		add(job, KH_SLICE("x-amz-security-token"), job->keys.token)) &&
	       (!says_payload_anew(re_sign) ||
		add(job, KH_SLICE("x-amz-content-sha256"), payload_of(re_sign)));
}

static bool put_parameter(struct kh_buf *out, const char *name, struct kh_slice value)
{
	return kh_buf_append_char(out, '&') && kh_buf_append_str(out, name) &&
	       kh_buf_append_char(out, '=') && kh_percent_encode(out, value, "");
}

/* Behind what stays of the client's query. */
static bool put_parameters(struct job *job)
{
	struct kh_buf *out = &job->out->target;
	char digits[KH_U64_DIGITS];

	if (job->re_sign->form != KH_RE_SIGN_QUERY)
		return true;
	struct kh_slice so_far = kh_buf_view(out);
	bool first = kh_slice_find(so_far, '?', 0) == so_far.len;
	return kh_buf_append_str(out, first ? "?" : "&") &&
	       kh_buf_append_str(out, "X-Amz-Algorithm=AWS4-HMAC-SHA256") &&
	       put_parameter(out, "X-Amz-Credential", kh_buf_view(&job->credential)) &&
	       put_parameter(out, "X-Amz-Date", kh_slice_str(job->re_sign->time)) &&
	       put_parameter(out, "X-Amz-Expires",
			     kh_slice_from_u64(job->re_sign->expires_s, digits)) &&
	       put_parameter(out, "X-Amz-SignedHeaders", kh_buf_view(&job->names)) &&
	       (job->keys.token.len == 0 ||
		put_parameter(out, "X-Amz-Security-Token", job->keys.token));
}

static bool sign(struct job *job)
{
	struct kh_slice target = kh_buf_view(&job->out->target);
	size_t mark = kh_slice_find(target, '?', 0);
	const struct kh_sigv4_request request = {
		.method = job->head->method,
		.path = kh_slice_sub(target, 0, mark),
		.query = kh_slice_sub(target, mark + 1, target.len),
		.fields = job->fields,
		.n_fields = job->n,
		.payload = payload_of(job->re_sign),
		.path_rule = kh_sigv4_path_of(kh_slice_str(job->re_sign->scope.service)),
	};

	return kh_sigv4_put_canonical(&job->canonical, &request) &&
	       kh_sigv4_put_string_to_sign(&job->text, job->re_sign->time, &job->re_sign->scope,
					   kh_buf_view(&job->canonical)) &&
	       kh_sigv4_sign(job->keys.key, kh_buf_view(&job->text), job->signature);
}

static bool put_line(struct kh_buf *out, const char *name, struct kh_slice value)
{
	return kh_buf_append_str(out, name) && kh_buf_append_str(out, ": ") &&
	       kh_buf_append_slice(out, value) && kh_buf_append_str(out, "\r\n");
}

static bool put_fields(struct job *job)
{
	const struct kh_re_sign *re_sign = job->re_sign;
	struct kh_buf *out = &job->out->fields;

	if (re_sign->form == KH_RE_SIGN_QUERY)
		return put_parameter(&job->out->target, "X-Amz-Signature",
				     kh_slice_str(job->signature));
	return put_line(out, "X-Amz-Date", kh_slice_str(re_sign->time)) &&
	       (job->keys.token.len == 0 ||
		put_line(out, "X-Amz-Security-Token", job->keys.token)) &&
	       (!says_payload_anew(re_sign) ||
		put_line(out, "X-Amz-Content-Sha256", payload_of(re_sign))) &&
	       kh_buf_append_str(out, "Authorization: AWS4-HMAC-SHA256 Credential=") &&
	       kh_buf_append_slice(out, kh_buf_view(&job->credential)) &&
	       kh_buf_append_str(out, ", SignedHeaders=") &&
	       kh_buf_append_slice(out, kh_buf_view(&job->names)) &&
	       kh_buf_append_str(out, ", Signature=") && kh_buf_append_str(out, job->signature) &&
	       kh_buf_append_str(out, "\r\n");
}

static bool make(struct kh_slice packed, void *arg)
{
	struct job *job = arg;

	if (!kh_sigv4_unpack(&job->keys, packed)) {
		job->fault = "what the keeper made of it can't be read";
		return false;
	}
	return kh_buf_append_slice(&job->credential, job->keys.id) &&
	       kh_buf_append_char(&job->credential, '/') &&
	       kh_sigv4_scope_put(&job->credential, &job->re_sign->scope) &&
	       kh_buf_append_str(&job->credential, "/aws4_request") && collect(job) &&
	       kh_sigv4_put_signed_names(&job->names, job->fields, job->n) &&
	       put_target(&job->out->target, job->head->raw) && put_parameters(job) && sign(job) &&
	       put_fields(job);
}

bool kh_re_sign_make(struct kh_re_signed *out, const struct kh_re_sign *re_sign,
		     const struct kh_re_sign_head *head, const struct kh_secret *keys,
		     struct kh_err *err)
{
	struct job job = {
		.out = out,
		.re_sign = re_sign,
		.head = head,
		.fault = "the head that it would have does not fit",
	};

	kh_buf_clear(&out->target);
	kh_buf_clear(&out->fields);
	out->seed[0] = '\0';
	kh_buf_init_wiping(&job.names, KH_LIMIT_HEAD_BYTES);
	kh_buf_init_wiping(&job.credential, KH_LIMIT_SECRET_BYTES);
	kh_buf_init_wiping(&job.canonical, CANONICAL_BYTES);
	kh_buf_init_wiping(&job.text, KH_LIMIT_HEAD_BYTES);
	bool ok = kh_secret_expose(keys, make, &job);
	if (ok)
		memcpy(out->seed, job.signature, sizeof(out->seed));
	kh_buf_fini(&job.names);
	kh_buf_fini(&job.credential);
	kh_buf_fini(&job.canonical);
	kh_buf_fini(&job.text);
	if (ok)
		return true;
	kh_buf_clear(&out->target);
	kh_buf_clear(&out->fields);
	return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "the request can't be signed: %s",
			  job.fault);
}
