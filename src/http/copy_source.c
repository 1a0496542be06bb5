/*
 * copy_source.c - what a request asks a server to read by itself, with the account of the request
 *
 * Object stores take a field that names another object. They read it and write it to where the
 * request says, or read it later when somebody asks for what was written (a symbolic link, a
 * manifest). For a rule about paths that is a second request: a GET of what the field names. A
 * query parameter can say the same: of a presigned request, or for a registry, which takes a blob
 * from another repository.
 *
 * The source is parsed if it names an object of the same bucket, at a host of which keyhole knows
 * where the bucket's name is, or a blob of the same registry. Anything else counts as unreadable,
 * and nothing allows it: another bucket, another host, an ARN, a link, or a host of which it is not
 * known whether its first label or the first path segment is the bucket.
 */
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>
#include <keyhole/base/spelling.h>
#include <keyhole/http/target.h>

#include <string.h>

#include "message_internal.h"

/* Where a bucket is in front of the host, or in the path's first segment, and nowhere else.
 * Between the two texts is a region, in one label with a hyphen; `after` empty: nothing. */
static const struct {
	struct kh_slice before, after;
} endpoints[] = {
	{ KH_SLICE_INIT("s3.amazonaws.com"), KH_SLICE_INIT("") },
	{ KH_SLICE_INIT("s3-accelerate.amazonaws.com"), KH_SLICE_INIT("") },
	{ KH_SLICE_INIT("s3."), KH_SLICE_INIT(".amazonaws.com") },
	{ KH_SLICE_INIT("s3."), KH_SLICE_INIT(".amazonaws.com.cn") },
	{ KH_SLICE_INIT("s3.dualstack."), KH_SLICE_INIT(".amazonaws.com") },
	{ KH_SLICE_INIT("s3-fips."), KH_SLICE_INIT(".amazonaws.com") },
	{ KH_SLICE_INIT("storage.googleapis.com"), KH_SLICE_INIT("") },
	{ KH_SLICE_INIT("oss-"), KH_SLICE_INIT(".aliyuncs.com") },
	{ KH_SLICE_INIT("obs."), KH_SLICE_INIT(".myhuaweicloud.com") },
};

void kh_copy_source_note(struct kh_overrides *out, enum kh_override_kind form, struct kh_slice name,
			 struct kh_slice value)
{
	/* Of two, nobody knows which one the server takes; and to some, a name in another spelling
	 * is none, so that they look for the blob in every repository. */
	bool doubtful = out->source != KH_COPY_NONE ||
			(form == KH_OVERRIDE_BLOB && !kh_slice_eq(name, KH_SLICE("mount")));
	out->source = KH_COPY_UNREAD;
	out->source_form = doubtful ? KH_OVERRIDE_UNREADABLE : (uint8_t)form;
	out->source_field = name;
	out->source_value = value;
}

void kh_copy_source_note_repository(struct kh_overrides *out, struct kh_slice name,
				    struct kh_slice value)
{
	out->repositories += kh_slice_eq(name, KH_SLICE("from")) ? 1 : 2;
	out->repository = value;
}

static bool is_endpoint(struct kh_slice host)
{
	for (size_t i = 0; i < sizeof(endpoints) / sizeof(*endpoints); i++) {
		struct kh_slice before = endpoints[i].before, after = endpoints[i].after;
		if (after.len == 0 && kh_slice_eq(host, before))
			return true;
		if (after.len == 0 || host.len <= before.len + after.len ||
		    !kh_slice_has_prefix(host, before) ||
		    !kh_slice_eq(kh_slice_sub(host, host.len - after.len, host.len), after))
			continue;
		struct kh_slice region = kh_slice_sub(host, before.len, host.len - after.len);
		if (!memchr(region.ptr, '.', region.len) && memchr(region.ptr, '-', region.len))
			return true;
	}
	return false;
}

/* "/bucket/key" or "bucket/key": the bucket's name, of what may be in one. */
static struct kh_slice bucket_of(struct kh_slice path)
{
	struct kh_slice name = kh_slice_sub(path, 1, kh_slice_find(path, '/', 1));
	for (size_t i = 0; i < name.len; i++)
		if (!kh_is_digit(name.ptr[i]) && !(name.ptr[i] >= 'a' && name.ptr[i] <= 'z') &&
		    name.ptr[i] != '-' && name.ptr[i] != '_' && name.ptr[i] != '.')
			return kh_slice_of(NULL, 0);
	return name;
}

/* Where the bucket stands in this request's own host or path. Return: false: it is another one, or
 * nobody can say. *skip: what of the source's path is the host's. */
static bool is_same_bucket(struct kh_slice source, struct kh_slice host, struct kh_slice path,
			   size_t *skip)
{
	struct kh_slice bucket = bucket_of(source);
	*skip = 0;
	if (bucket.len == 0 || bucket.len + 2 >= source.len)
		return false;
	if (is_endpoint(host))
		return kh_slice_eq(kh_slice_sub(path, 1, kh_slice_find(path, '/', 1)), bucket);
	*skip = bucket.len + 1;
	return host.len > bucket.len && host.ptr[bucket.len] == '.' &&
	       kh_slice_has_prefix(host, bucket) &&
	       is_endpoint(kh_slice_sub(host, bucket.len + 1, host.len));
}

/* Which version of it; any other parameter may say something else. */
static bool is_version(struct kh_slice query)
{
	static const struct kh_slice names[] = { KH_SLICE_INIT("versionId="),
						 KH_SLICE_INIT("versionid="),
						 KH_SLICE_INIT("snapshot="),
						 KH_SLICE_INIT("sharesnapshot=") };
	if (!query.ptr)
		return true;
	bool named = false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		named = named || kh_slice_has_prefix(query, names[i]);
	return named && !memchr(query.ptr, '&', query.len) && !memchr(query.ptr, ';', query.len);
}

/* In one form, which all servers read alike. */
static bool is_plain(const struct kh_target *target)
{
	return !target->path_slashed.ptr && !target->path_decoded.ptr && target->path_cuts.n == 0 &&
	       !memchr(target->path.ptr, '+', target->path.len) && is_version(target->query);
}

static bool take_path(struct kh_overrides *out, struct kh_slice path)
{
	if (path.len == 0 || path.len > sizeof(out->source_path))
		return false;
	memcpy(out->source_path, path.ptr, path.len);
	out->source_len = path.len;
	return true;
}

static bool read_target(struct kh_overrides *out, const struct kh_target *target,
			const struct kh_authority *own, struct kh_slice path)
{
	size_t skip = 0;
	if (!is_plain(target))
		return false;
	if (out->source_form == KH_OVERRIDE_BUCKET_AND_KEY) {
		if (target->absolute ||
		    !is_same_bucket(target->path, kh_host_view(&own->host), path, &skip))
			return false;
	} else if (out->source_form == KH_OVERRIDE_BLOB) {
		if (target->absolute || target->query.ptr)
			return false;
	} else if (!target->absolute || target->scheme != KH_SCHEME_HTTPS ||
		   !kh_authority_eq(&target->authority, own)) {
		return false;
	}
	return take_path(out, kh_slice_sub(target->path, skip, target->path.len));
}

/* A source as the target of a request for it: its value and what goes around that. */
struct text {
	size_t len;
	char bytes[KH_OVERRIDING_SOURCE_BYTES + sizeof("https://")];
};

static bool put(struct text *out, struct kh_slice part)
{
	if (part.len > sizeof(out->bytes) - out->len)
		return false;
	memcpy(out->bytes + out->len, part.ptr, part.len);
	out->len += part.len;
	return true;
}

/* A parameter's value, decoded once; a '+' is a blank to some servers. */
static bool put_parameter(struct text *out, struct kh_slice value)
{
	for (size_t at = 0; at < value.len; at++) {
		char c = value.ptr[at];
		if (c == '%') {
			int high = at + 2 < value.len ? kh_hex_value(value.ptr[at + 1]) : -1;
			int low = high < 0 ? -1 : kh_hex_value(value.ptr[at + 2]);
			if (low < 0)
				return false;
			c = (char)(high * 16 + low);
			at += 2;
		} else if (c == '+') {
			return false;
		}
		if (!put(out, kh_slice_of(&c, 1)))
			return false;
	}
	return true;
}

/* A repository's name or a digest: nothing in it that a path reads in two ways. */
static bool put_segments(struct text *out, struct kh_slice value, char also)
{
	size_t from = out->len;
	if (!put_parameter(out, value) || out->len == from || out->bytes[out->len - 1] == '/')
		return false;
	for (size_t at = from; at < out->len; at++) {
		char c = out->bytes[at];
		if (!kh_is_alpha(c) && !kh_is_digit(c) &&
		    (out->bytes[at - 1] == '/' || (c != also && !memchr("._-", c, 3))))
			return false;
	}
	return true;
}

/* POST /v2/NAME/blobs/uploads/?mount=DIGEST&from=NAME (OCI distribution, "Mounting a blob"). */
static bool put_blob(struct text *out, const struct kh_overrides *overrides, struct kh_slice path)
{
	return overrides->repositories == 1 && kh_slice_has_prefix(path, KH_SLICE("/v2/")) &&
	       kh_slice_has_suffix(path, KH_SLICE("/blobs/uploads/")) &&
	       put(out, KH_SLICE("/v2/")) && put_segments(out, overrides->repository, '/') &&
	       put(out, KH_SLICE("/blobs/")) && put_segments(out, overrides->source_value, ':');
}

static bool put_source(struct text *out, const struct kh_overrides *overrides, struct kh_slice path)
{
	struct kh_slice value = overrides->source_value;
	if (overrides->source_form == KH_OVERRIDE_BLOB)
		return put_blob(out, overrides, path);
	if (overrides->source_form == KH_OVERRIDE_HOST_AND_KEY && !put(out, KH_SLICE("https://")))
		return false;
	if (overrides->source_form == KH_OVERRIDE_BUCKET_AND_KEY && !put(out, KH_SLICE("/")))
		return false;
	return value.len > 0 && value.len <= KH_OVERRIDING_SOURCE_BYTES &&
	       (overrides->source_in_query ? put_parameter(out, value) : put(out, value));
}

void kh_copy_source_read(struct kh_overrides *out, const struct kh_authority *own,
			 struct kh_slice path)
{
	struct text text = { .len = 0 };
	struct kh_target target;
	struct kh_err err = KH_ERR_INIT;
	if (out->source_form == KH_OVERRIDE_UNREADABLE || path.len == 0 ||
	    !put_source(&text, out, path))
		return;
	struct kh_slice whole = kh_slice_of(text.bytes, text.len);
	/* "/bucket/key" has its slash already. */
	if (out->source_form == KH_OVERRIDE_BUCKET_AND_KEY && whole.len > 1 && whole.ptr[1] == '/')
		whole = kh_slice_sub(whole, 1, whole.len);
	if (kh_target_parse(&target, KH_SLICE("GET"), whole, &err) &&
	    read_target(out, &target, own, path))
		out->source = KH_COPY_READ;
	kh_target_fini(&target);
}
