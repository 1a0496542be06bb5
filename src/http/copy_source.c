/*
 * copy_source.c - what a server is asked to copy by itself, with the account that the request is
 * for
 *
 * A store takes a field that names another object, reads that, and writes it where the request
 * says. To a rule that looks at paths that is a second request, a GET of what the field names. It
 * is read where it names an object of the same bucket, at a host of which it is known where the
 * bucket stands. All else can't be read, and nothing allows it: another bucket, another host, an
 * ARN, a host of which nobody knows whether its first label or its first segment is the bucket.
 */
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>
#include <keyhole/base/spelling.h>
#include <keyhole/http/target.h>

#include <string.h>

#include "message_internal.h"

enum form {
	BUCKET_AND_KEY, /* [/]bucket/key[?versionId=…] */
	HOST_AND_KEY,	/* host/key[?versionId=…] */
	URL,		/* https://host/path[?snapshot=…] */
	MOVED,		/* a path or URL, which is gone afterwards */
	KH_OVERRIDE_UNREADABLE,
};

static const struct {
	struct kh_slice name;
	enum form form;
} sources[] = {
	{ KH_SLICE_INIT("x-amz-copy-source"), BUCKET_AND_KEY },
	{ KH_SLICE_INIT("x-goog-copy-source"), BUCKET_AND_KEY },
	{ KH_SLICE_INIT("x-oss-copy-source"), BUCKET_AND_KEY },
	{ KH_SLICE_INIT("x-obs-copy-source"), BUCKET_AND_KEY },
	{ KH_SLICE_INIT("x-cos-copy-source"), HOST_AND_KEY },
	{ KH_SLICE_INIT("x-ms-copy-source"), URL },
	{ KH_SLICE_INIT("x-ms-rename-source"), MOVED },
	{ KH_SLICE_INIT("x-ms-file-rename-source"), MOVED },
	{ KH_SLICE_INIT("x-amz-rename-source"), MOVED },
	{ KH_SLICE_INIT("x-obs-rename-source"), MOVED },
	/* Stores of which nobody here knows where the bucket stands. */
	{ KH_SLICE_INIT("x-tos-copy-source"), KH_OVERRIDE_UNREADABLE },
	{ KH_SLICE_INIT("x-bce-copy-source"), KH_OVERRIDE_UNREADABLE },
	{ KH_SLICE_INIT("x-kss-copy-source"), KH_OVERRIDE_UNREADABLE },
	{ KH_SLICE_INIT("x-nos-copy-source"), KH_OVERRIDE_UNREADABLE },
	{ KH_SLICE_INIT("x-upyun-copy-source"), KH_OVERRIDE_UNREADABLE },
	{ KH_SLICE_INIT("x-upyun-move-source"), KH_OVERRIDE_UNREADABLE },
	{ KH_SLICE_INIT("x-copy-from"), KH_OVERRIDE_UNREADABLE }, /* Swift */
	{ KH_SLICE_INIT("x-copy-from-account"), KH_OVERRIDE_UNREADABLE },
};
enum { SOURCES = sizeof(sources) / sizeof(*sources) };

/* Where a bucket stands in front of the host, or in the path's first segment, and nowhere else.
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

/* Return: SOURCES: it is none. */
static size_t find_source(struct kh_slice name)
{
	size_t i = 0;
	while (i < SOURCES && !kh_spelling_is_field(name, sources[i].name))
		i++;
	return i;
}

bool is_source(struct kh_slice name)
{
	return find_source(name) < SOURCES;
}

enum kh_copy_source_found kh_copy_source_note(struct kh_overrides *out,
					      const struct kh_field *field)
{
	size_t nth = find_source(field->name);
	if (nth == SOURCES)
		return KH_SOURCE_NOT_ONE;
	if (sources[nth].form == MOVED)
		return KH_SOURCE_MOVES;
	/* Of two, nobody knows which one the server takes. */
	bool second = out->source != KH_COPY_NONE;
	out->source = KH_COPY_UNREAD;
	out->source_form = second ? KH_OVERRIDE_UNREADABLE : (uint8_t)sources[nth].form;
	out->source_field = field->name;
	out->source_value = kh_slice_trim(field->value);
	return KH_SOURCE_COPIES;
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

/* "/bucket/key" or "bucket/key": the bucket's name, of what may stand in one. */
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
	return !target->path_slashed.ptr && !target->path_decoded.ptr &&
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
	if (out->source_form == BUCKET_AND_KEY) {
		if (target->absolute ||
		    !is_same_bucket(target->path, kh_host_view(&own->host), path, &skip))
			return false;
	} else if (!target->absolute || target->scheme != KH_SCHEME_HTTPS ||
		   !kh_authority_eq(&target->authority, own)) {
		return false;
	}
	return take_path(out, kh_slice_sub(target->path, skip, target->path.len));
}

void kh_copy_source_read(struct kh_overrides *out, const struct kh_authority *own,
			 struct kh_slice path)
{
	char text[KH_OVERRIDING_SOURCE_BYTES + sizeof("https://")];
	struct kh_slice value = out->source_value, before = KH_SLICE("");
	struct kh_target target;
	struct kh_err err = KH_ERR_INIT;
	if (out->source_form == KH_OVERRIDE_UNREADABLE || value.len == 0 ||
	    value.len > KH_OVERRIDING_SOURCE_BYTES || path.len == 0)
		return;
	if (out->source_form == HOST_AND_KEY)
		before = KH_SLICE("https://");
	else if (out->source_form == BUCKET_AND_KEY && value.ptr[0] != '/')
		before = KH_SLICE("/");
	memcpy(text, before.ptr, before.len);
	memcpy(text + before.len, value.ptr, value.len);
	if (kh_target_parse(&target, KH_SLICE("GET"), kh_slice_of(text, before.len + value.len),
			    &err) &&
	    read_target(out, &target, own, path))
		out->source = KH_COPY_READ;
	kh_target_fini(&target);
}
