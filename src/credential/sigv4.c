/*
 * sigv4.c - the three steps of a Signature Version 4, each on bytes
 *
 * What is sent is never changed for this: the canonical forms are made from it.
 */
#include <keyhole/credential/sigv4.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/secret.h>

/* ---- encoding ---- */

/* The byte at *i of what is percent-encoded; *i goes behind it. */
static char decoded_byte(struct kh_slice text, size_t *i)
{
	char c = text.ptr[*i];
	int byte = c == '%' ? kh_percent_byte(text, *i) : -1;

	*i += byte < 0 ? 1 : 3;
	return byte < 0 ? c : (char)byte;
}

struct kh_slice kh_sigv4_decode(struct kh_slice text, char *room, size_t size)
{
	size_t len = 0;

	for (size_t i = 0; i < text.len && len < size;)
		room[len++] = decoded_byte(text, &i);
	return kh_slice_of(room, len);
}

/* Encoded once, whether it came so or not. */
static bool put_encoded_once(struct kh_buf *out, struct kh_slice text, bool is_query)
{
	for (size_t i = 0; i < text.len;) {
		bool plus = text.ptr[i] == '+';
		char c = decoded_byte(text, &i);

		if (is_query && plus)
			c = ' ';
		if (!kh_percent_encode(out, kh_slice_of(&c, 1), is_query ? "" : "/"))
			return false;
	}
	return true;
}

/* ---- the canonical request ---- */

/* RFC 3986 §5.2.4, and empty segments go as well. A path that ended in a '/' still does. */
static bool put_normal_path(struct kh_buf *out, struct kh_slice path)
{
	size_t start = kh_buf_len(out);
	bool folder = true;

	for (size_t at = 0; at < path.len;) {
		size_t end = kh_slice_find(path, '/', at);
		struct kh_slice segment = kh_slice_sub(path, at, end);

		at = end + 1;
		folder = end < path.len || kh_slice_eq(segment, KH_SLICE(".")) ||
			 kh_slice_eq(segment, KH_SLICE(".."));
		if (segment.len == 0 || kh_slice_eq(segment, KH_SLICE(".")))
			continue;
		if (kh_slice_eq(segment, KH_SLICE(".."))) {
			struct kh_slice so_far = kh_slice_sub(kh_buf_view(out), start, SIZE_MAX);

			while (so_far.len > 0 && so_far.ptr[--so_far.len] != '/')
				;
			kh_buf_truncate(out, start + so_far.len);
			continue;
		}
		if (!kh_buf_append_char(out, '/') || !kh_percent_encode(out, segment, ""))
			return false;
	}
	return !(folder || kh_buf_len(out) == start) || kh_buf_append_char(out, '/');
}

static bool put_path(struct kh_buf *out, const struct kh_sigv4_request *request)
{
	switch (request->path_rule) {
	case KH_SIGV4_PATH_NORMAL:
		return put_normal_path(out, request->path);
	case KH_SIGV4_PATH_AS_IS:
		return kh_percent_encode(out, request->path, "/");
	case KH_SIGV4_PATH_S3:
		return put_encoded_once(out, request->path, false);
	}
	return false;
}

/* A parameter, encoded, in a buffer of all of them. */
struct parameter {
	struct kh_slice name, value;
};

static int compare_slices(struct kh_slice a, struct kh_slice b)
{
	size_t least = a.len < b.len ? a.len : b.len;
	int order = least ? memcmp(a.ptr, b.ptr, least) : 0;

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_parameters(const void *a, const void *b)
{
	const struct parameter *x = a, *y = b;
	int order = compare_slices(x->name, y->name);

	return order ? order : compare_slices(x->value, y->value);
}

static size_t count_parameters(struct kh_slice query)
{
	size_t n = 1;

	for (size_t i = 0; i < query.len; i++)
		n += query.ptr[i] == '&';
	return n;
}

/* Into `store`, whose memory does not move: an encoded byte has three at most. */
static bool read_parameters(struct kh_slice query, struct kh_buf *store, struct parameter *list,
			    size_t *n)
{
	*n = 0;
	if (!kh_buf_reserve(store, 3 * query.len + 1))
		return false;
	for (size_t at = 0; at < query.len;) {
		size_t end = kh_slice_find(query, '&', at);
		struct kh_slice one = kh_slice_sub(query, at, end);
		size_t equals = kh_slice_find(one, '=', 0), from = kh_buf_len(store);

		at = end + 1;
		if (one.len == 0)
			continue;
		if (!put_encoded_once(store, kh_slice_sub(one, 0, equals), true))
			return false;
		size_t middle = kh_buf_len(store);
		if (!put_encoded_once(store, kh_slice_sub(one, equals + 1, one.len), true))
			return false;
		struct kh_slice all = kh_buf_view(store);
		list[(*n)++] = (struct parameter){ kh_slice_sub(all, from, middle),
						   kh_slice_sub(all, middle, all.len) };
	}
	return true;
}

static bool put_query(struct kh_buf *out, struct kh_slice query)
{
	kh_auto_free struct parameter *list = calloc(count_parameters(query), sizeof(*list));
	struct kh_buf store;
	size_t n;

	if (!list)
		return false;
	kh_buf_init_wiping(&store, 3 * query.len + 2);
	bool ok = read_parameters(query, &store, list, &n);
	if (ok && n > 0)
		qsort(list, n, sizeof(*list), compare_parameters);
	for (size_t i = 0; ok && i < n; i++)
		ok = (i == 0 || kh_buf_append_char(out, '&')) &&
		     kh_buf_append_slice(out, list[i].name) && kh_buf_append_char(out, '=') &&
		     kh_buf_append_slice(out, list[i].value);
	kh_buf_fini(&store);
	return ok;
}

enum { MOST_FIELDS = KH_LIMIT_FIELDS + 16 };

static int compare_names(const void *a, const void *b)
{
	const struct kh_field *x = *(const struct kh_field *const *)a,
			      *y = *(const struct kh_field *const *)b;
	size_t least = x->name.len < y->name.len ? x->name.len : y->name.len;

	for (size_t i = 0; i < least; i++) {
		int order = (unsigned char)kh_lower(x->name.ptr[i]) -
			    (unsigned char)kh_lower(y->name.ptr[i]);
		if (order)
			return order;
	}
	if (x->name.len != y->name.len)
		return x->name.len < y->name.len ? -1 : 1;
	return (x > y) - (x < y); /* those of one name keep their order */
}

static bool sort_fields(const struct kh_field *fields, size_t n,
			const struct kh_field *sorted[MOST_FIELDS])
{
	if (n > MOST_FIELDS)
		return false;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &fields[i];
	if (n > 0)
		qsort(sorted, n, sizeof(*sorted), compare_names);
	return true;
}

static bool put_lower(struct kh_buf *out, struct kh_slice name)
{
	for (size_t i = 0; i < name.len; i++)
		if (!kh_buf_append_char(out, kh_lower(name.ptr[i])))
			return false;
	return true;
}

/* Blanks around it go, and of several in a row one stays. */
static bool put_trimmed(struct kh_buf *out, struct kh_slice value)
{
	bool blank = false, first = true;

	for (size_t i = 0; i < value.len; i++) {
		char c = value.ptr[i];

		if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
			blank = true;
			continue;
		}
		if ((blank && !first && !kh_buf_append_char(out, ' ')) ||
		    !kh_buf_append_char(out, c))
			return false;
		blank = first = false;
	}
	return true;
}

static bool is_same_field(const struct kh_field *a, const struct kh_field *b)
{
	return kh_slice_eq_nocase(a->name, b->name);
}

static bool put_fields(struct kh_buf *out, const struct kh_field *const *sorted, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool more = i > 0 && is_same_field(sorted[i - 1], sorted[i]);
		bool last = i + 1 == n || !is_same_field(sorted[i], sorted[i + 1]);

		if ((more ? !kh_buf_append_char(out, ',')
			  : !put_lower(out, sorted[i]->name) || !kh_buf_append_char(out, ':')) ||
		    !put_trimmed(out, sorted[i]->value) || (last && !kh_buf_append_char(out, '\n')))
			return false;
	}
	return true;
}

static bool put_names(struct kh_buf *out, const struct kh_field *const *sorted, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i > 0 && is_same_field(sorted[i - 1], sorted[i]))
			continue;
		if ((i > 0 && !kh_buf_append_char(out, ';')) || !put_lower(out, sorted[i]->name))
			return false;
	}
	return true;
}

bool kh_sigv4_put_signed_names(struct kh_buf *out, const struct kh_field *fields, size_t n)
{
	const struct kh_field *sorted[MOST_FIELDS];

	return sort_fields(fields, n, sorted) && put_names(out, sorted, n);
}

bool kh_sigv4_put_canonical(struct kh_buf *out, const struct kh_sigv4_request *request)
{
	const struct kh_field *sorted[MOST_FIELDS];
	size_t n = request->n_fields;

	return sort_fields(request->fields, n, sorted) &&
	       kh_buf_append_slice(out, request->method) && kh_buf_append_char(out, '\n') &&
	       put_path(out, request) && kh_buf_append_char(out, '\n') &&
	       put_query(out, request->query) && kh_buf_append_char(out, '\n') &&
	       put_fields(out, sorted, n) && kh_buf_append_char(out, '\n') &&
	       put_names(out, sorted, n) && kh_buf_append_char(out, '\n') &&
	       kh_buf_append_slice(out, request->payload);
}

/* ---- digests ---- */

bool kh_sigv4_digest(struct kh_slice bytes, char out[KH_SIGV4_HEX_BYTES])
{
	unsigned char digest[KH_SIGV4_KEY_BYTES];

	if (!EVP_Digest(bytes.len ? bytes.ptr : "", bytes.len, digest, NULL, EVP_sha256(), NULL))
		return false;
	kh_hex_encode(digest, sizeof(digest), out);
	return true;
}

static bool hmac(struct kh_slice key, struct kh_slice text, unsigned char out[KH_SIGV4_KEY_BYTES])
{
	unsigned len = 0;

	return HMAC(EVP_sha256(), key.ptr, (int)key.len, (const unsigned char *)text.ptr, text.len,
		    out, &len) &&
	       len == KH_SIGV4_KEY_BYTES;
}

bool kh_sigv4_sign(struct kh_slice key, struct kh_slice text, char out[KH_SIGV4_HEX_BYTES])
{
	unsigned char mac[KH_SIGV4_KEY_BYTES];

	if (!hmac(key, text, mac))
		return false;
	kh_hex_encode(mac, sizeof(mac), out);
	return true;
}

bool kh_sigv4_derive(struct kh_slice secret_key, const struct kh_sigv4_scope *scope,
		     unsigned char out[KH_SIGV4_KEY_BYTES])
{
	const struct kh_slice parts[] = { kh_slice_str(scope->date), kh_slice_str(scope->region),
					  kh_slice_str(scope->service), KH_SLICE("aws4_request") };
	struct kh_buf key;

	kh_buf_init_wiping(&key, secret_key.len + KH_SIGV4_KEY_BYTES);
	bool ok = kh_buf_append_str(&key, "AWS4") && kh_buf_append_slice(&key, secret_key) &&
		  hmac(kh_buf_view(&key), parts[0], out);
	for (size_t i = 1; ok && i < sizeof(parts) / sizeof(*parts); i++) {
		kh_buf_clear(&key);
		ok = kh_buf_append(&key, out, KH_SIGV4_KEY_BYTES) &&
		     hmac(kh_buf_view(&key), parts[i], out);
	}
	kh_buf_fini(&key);
	if (!ok)
		kh_secret_wipe(out, KH_SIGV4_KEY_BYTES);
	return ok;
}

/* ---- the string to sign ---- */

bool kh_sigv4_put_string_to_sign(struct kh_buf *out, const char *time,
				 const struct kh_sigv4_scope *scope, struct kh_slice canonical)
{
	char digest[KH_SIGV4_HEX_BYTES];

	return kh_sigv4_digest(canonical, digest) && kh_buf_append_str(out, "AWS4-HMAC-SHA256\n") &&
	       kh_buf_append_str(out, time) && kh_buf_append_char(out, '\n') &&
	       kh_sigv4_scope_put(out, scope) && kh_buf_append_str(out, "/aws4_request\n") &&
	       kh_buf_append_str(out, digest);
}
