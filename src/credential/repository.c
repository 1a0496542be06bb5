/*
 * repository.c - which repository a request to GitHub is for: "owner/name"
 *
 * In the API: /repos/OWNER/NAME and what follows, on an Enterprise server after /api/v3. In git
 * over HTTPS: /OWNER/NAME.git or /OWNER/NAME. If a path is misread, the request gets a token only
 * for the repository that was read from it. So a mistake here makes requests fail, and opens
 * nothing.
 */
#include <keyhole/credential/credential.h>

#include <string.h>

#include <keyhole/base/limits.h>

static struct kh_slice segment(struct kh_slice *rest)
{
	while (rest->len > 0 && rest->ptr[0] == '/')
		*rest = kh_slice_sub(*rest, 1, rest->len);
	const char *slash = rest->len > 0 ? memchr(rest->ptr, '/', rest->len) : NULL;
	struct kh_slice one =
		kh_slice_sub(*rest, 0, slash ? (size_t)(slash - rest->ptr) : rest->len);
	*rest = kh_slice_sub(*rest, one.len, rest->len);
	return one;
}

static bool is_name(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!kh_is_alpha(text.ptr[i]) && !kh_is_digit(text.ptr[i]) &&
		    !(text.ptr[i] && strchr("-_.", text.ptr[i])))
			return false;
	return text.len > 0 && text.len <= 100 && text.ptr[0] != '.';
}

bool kh_repository_is_scope(struct kh_slice scope)
{
	size_t slash = kh_slice_find(scope, '/', 0);
	return slash < scope.len && is_name(kh_slice_sub(scope, 0, slash)) &&
	       is_name(kh_slice_sub(scope, slash + 1, scope.len));
}

char *kh_repository_of(struct kh_slice path)
{
	static const struct kh_slice git = KH_SLICE_INIT(".git");
	struct kh_slice rest = path;
	struct kh_slice owner = segment(&rest);
	if (kh_slice_eq(owner, KH_SLICE("api"))) {
		(void)segment(&rest);
		owner = segment(&rest);
	}
	if (kh_slice_eq(owner, KH_SLICE("repos")))
		owner = segment(&rest);
	struct kh_slice name = segment(&rest);
	if (kh_slice_has_suffix(name, git))
		name = kh_slice_sub(name, 0, name.len - git.len);
	if (!is_name(owner) || !is_name(name))
		return NULL;
	struct kh_buf out;
	kh_buf_init(&out, KH_LIMIT_SCOPE_BYTES);
	bool ok = kh_buf_append_slice(&out, owner) && kh_buf_append_char(&out, '/') &&
		  kh_buf_append_slice(&out, name);
	char *text = ok ? kh_slice_dup(kh_buf_view(&out)) : NULL;
	/* GitHub tells no case apart: one repository is one scope, and has one token. */
	for (char *at = text; at && *at; at++)
		*at = kh_lower(*at);
	kh_buf_fini(&out);
	return text;
}
