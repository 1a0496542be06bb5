/*
 * binding.c - checks a request against the binding of a credential before injection
 *
 * The configuration's reader checks every rule against the bindings of its credentials. This is the
 * second check, of the request itself: no rule, override or reload can get around it.
 */
#include <string.h>

#include <keyhole/credential/credential.h>

bool kh_credential_may_go_to(const struct kh_credential_config *credential,
			     const struct kh_host *host)
{
	for (size_t i = 0; i < credential->n_hosts; i++)
		if (kh_host_pattern_matches(&credential->hosts[i], host))
			return true;
	return false;
}

static bool is_bound_method(const struct kh_credential_config *credential, struct kh_slice method)
{
	for (size_t i = 0; i < credential->n_methods; i++)
		if (kh_slice_eq(kh_slice_str(credential->methods[i]), method))
			return true;
	return credential->n_methods == 0;
}

static bool is_bound_path(const struct kh_credential_config *credential, struct kh_slice path)
{
	for (size_t i = 0; i < credential->n_paths; i++)
		if (kh_path_matches(kh_slice_str(credential->paths[i]), path))
			return true;
	return credential->n_paths == 0;
}

/* Methods are case-sensitive; servers that reflect a request under `trace` as well, or where a
 * field asks for it, are not worth the risk. */
static bool is_trace(struct kh_slice method)
{
	return kh_slice_eq_nocase(method, KH_SLICE("TRACE"));
}

/* In every reading. */
static bool are_bound_paths(const struct kh_credential_config *credential,
			    const struct kh_request_view *request)
{
	const struct kh_path_readings path = { request->path, request->path_slashed,
					       request->path_decoded, request->path_cuts };
	struct kh_slice reading;
	for (size_t at = 0; kh_path_readings_next(&path, &at, &reading);)
		if (!is_bound_path(credential, reading))
			return false;
	return true;
}

static const char *override_fault(const struct kh_credential_config *credential,
				  const struct kh_overrides *overrides)
{
	for (size_t i = 0; i < overrides->n_methods; i++) {
		struct kh_slice method = kh_slice_str(overrides->methods[i]);

		if (is_trace(method))
			return "TRACE";
		/* Which may be that. */
		if (kh_slice_eq(method, KH_SLICE(KH_OVERRIDING_ANY)))
			return "a method that a field or parameter asks for and nobody can read";
		if (!is_bound_method(credential, method))
			return "the method that a field or parameter asks for";
	}
	for (size_t i = 0; i < overrides->n_hosts; i++)
		if (!kh_credential_may_go_to(credential, &overrides->hosts[i].host))
			return "the host that a field or parameter names";
	if (overrides->any_host)
		return "a host that a field or parameter names and nobody can read";
	if (overrides->source == KH_COPY_UNREAD)
		return "a source that a field or parameter names and nobody can read";
	if (overrides->source == KH_COPY_READ &&
	    (!is_bound_method(credential, KH_SLICE("GET")) ||
	     !is_bound_path(credential,
			    kh_slice_of(overrides->source_path, overrides->source_len))))
		return "what a field or parameter has the server read";
	return overrides->path && credential->n_paths > 0
		       ? "the path that a field or parameter asks for"
		       : NULL;
}

const char *kh_credential_binding_fault(const struct kh_credential_config *credential,
					const struct kh_request_view *request)
{
	if (request->scheme != KH_SCHEME_HTTPS)
		return "anything but https";
	if (!kh_credential_may_go_to(credential, request->host))
		return "this host";
	if (is_trace(request->method))
		return "TRACE";
	if (!is_bound_method(credential, request->method))
		return "this method";
	if (!are_bound_paths(credential, request))
		return "this path";
	return request->overrides ? override_fault(credential, request->overrides) : NULL;
}
