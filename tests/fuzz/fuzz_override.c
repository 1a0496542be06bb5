/*
 * fuzz_override.c - what a request names besides its target: "Name: value" lines, then path?query
 *
 * What is read of a source is a path in normal form. A parameter counts wherever it stands, and no
 * field takes away what another one names.
 */
#include <stdlib.h>

#include <keyhole/http/message.h>
#include <keyhole/http/target.h>
#include <keyhole/policy/policy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

/* Return: what comes after the fields. */
static struct kh_slice read_fields(struct kh_message *message, struct kh_slice raw)
{
	message->n_fields = 0;
	while (message->n_fields < 8) {
		struct kh_slice line = kh_slice_sub(raw, 0, kh_slice_find(raw, '\n', 0));
		size_t colon = kh_slice_find(line, ':', 0);
		if (line.len == raw.len || colon == line.len)
			break;
		message->fields[message->n_fields++] =
			(struct kh_field){ kh_slice_sub(line, 0, colon),
					   kh_slice_sub(line, colon + 1, line.len) };
		raw = kh_slice_sub(raw, line.len + 1, raw.len);
	}
	return raw;
}

static void check_source(struct kh_overrides *out, struct kh_slice path)
{
	static const char *const hosts[] = { "b.s3.eu-west-1.amazonaws.com",
					     "s3.eu-west-1.amazonaws.com", "registry.example" };
	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
		struct kh_authority own = { .port = 443 };
		struct kh_overrides copy = *out;
		require(kh_host_parse(&own.host, kh_slice_str(hosts[i]), NULL));
		kh_copy_source_read(&copy, &own, path);
		if (copy.source != KH_COPY_READ)
			continue;
		struct kh_target target;
		struct kh_err err = KH_ERR_INIT;
		struct kh_slice read = kh_slice_of(copy.source_path, copy.source_len);
		require(read.len > 0 && read.len <= sizeof(copy.source_path));
		require(kh_target_parse(&target, KH_SLICE("GET"), read, &err));
		require(kh_slice_eq(target.path, read) && !target.query.ptr);
		require(!target.path_slashed.ptr && !target.path_decoded.ptr);
		kh_target_fini(&target);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct kh_message message;
	static struct kh_overrides out, without;
	struct kh_slice rest = read_fields(&message, kh_slice_of(data, size));
	size_t mark = kh_slice_find(rest, '?', 0);
	struct kh_slice path = kh_slice_sub(rest, 0, mark);
	struct kh_slice query =
		mark < rest.len ? kh_slice_sub(rest, mark + 1, rest.len) : kh_slice_of(NULL, 0);
	kh_overrides_read(&out, &message, query);
	require(out.n_methods <= KH_OVERRIDING_METHODS && out.n_hosts <= KH_OVERRIDING_HOSTS);
	require(out.n_queries <= KH_OVERRIDING_QUERIES && out.source != KH_COPY_READ);
	message.n_fields = 0;
	kh_overrides_read(&without, &message, query);
	require(out.path >= without.path && out.any_host >= without.any_host);
	require(out.n_methods >= without.n_methods && out.n_hosts >= without.n_hosts);
	require(out.source >= without.source);
	if (out.source != KH_COPY_NONE)
		check_source(&out, path);
	return 0;
}
