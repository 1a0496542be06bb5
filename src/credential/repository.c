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

/* ---- where a repository may be ---- */

enum {
	PATTERN_BYTES = 4096, /* no pattern is longer */
	STAR = 1,	      /* within a segment */
	STARS = 2,
};

/* A pattern and the places in it that some text up to now may have led to. */
struct walk {
	size_t n;
	unsigned char tokens[PATTERN_BYTES];
	bool at[PATTERN_BYTES + 1];
};

static void begin(struct walk *walk, const char *pattern)
{
	memset(walk->at, 0, sizeof(walk->at));
	walk->at[0] = true;
	walk->n = 0;
	for (const char *p = pattern; *p; p++) {
		bool stars = p[0] == '*' && p[1] == '*';
		walk->tokens[walk->n++] = stars		? STARS
					  : p[0] == '*' ? STAR
							: (unsigned char)kh_lower(*p);
		p += stars;
	}
}

static bool is_star(const struct walk *walk, size_t i)
{
	return walk->tokens[i] == STAR || walk->tokens[i] == STARS;
}

/* Does the token take this byte? 0: any byte within a segment. */
static bool takes(unsigned char token, char c)
{
	if (token == STARS || (token == STAR && c != '/'))
		return true;
	return c ? token == (unsigned char)kh_lower(c) : token != '/' && token != STAR;
}

/* `stay`: and where it was before. Return: it leads anywhere. */
static bool step(struct walk *walk, char c, bool stay)
{
	bool any = false;

	/* From behind: each place is read before what leads to it is written. */
	for (size_t i = walk->n + 1; i-- > 0;) {
		bool here =
			walk->at[i] &&
			(stay || (i < walk->n && is_star(walk, i) && takes(walk->tokens[i], c)));
		bool there = i > 0 && walk->at[i - 1] && !is_star(walk, i - 1) &&
			     takes(walk->tokens[i - 1], c);
		walk->at[i] = here || there;
		any = any || walk->at[i];
	}
	return any;
}

/* A star may stand for nothing. */
static void skip_stars(struct walk *walk)
{
	for (size_t i = 0; i < walk->n; i++)
		if (walk->at[i] && is_star(walk, i))
			walk->at[i + 1] = true;
}

static size_t count(const struct walk *walk)
{
	size_t n = 0;

	for (size_t i = 0; i <= walk->n; i++)
		n += walk->at[i];
	return n;
}

/* `more`: and any number of these behind it. */
static bool feed_one(struct walk *walk, char c, bool more)
{
	skip_stars(walk);
	if (!step(walk, c, false))
		return false;
	for (size_t before = 0; more && before != count(walk);) {
		before = count(walk);
		skip_stars(walk);
		(void)step(walk, c, true);
	}
	return true;
}

static bool feed(struct walk *walk, struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		/* A star for itself: a segment, whatever it is. */
		if (!feed_one(walk, text.ptr[i] == '*' ? '\0' : text.ptr[i],
			      text.ptr[i] == '*' || text.ptr[i] == '/'))
			return false;
	return true;
}

bool kh_repository_may_be_at(struct kh_slice scope, const char *pattern)
{
	static const struct kh_slice fronts[] = { KH_SLICE_INIT("/"), KH_SLICE_INIT("/repos/"),
						  KH_SLICE_INIT("/api/*/"),
						  KH_SLICE_INIT("/api/*/repos/") };
	static const struct kh_slice ends[] = { KH_SLICE_INIT(""), KH_SLICE_INIT(".git") };
	struct walk walk;

	if (!pattern || strlen(pattern) > PATTERN_BYTES)
		return true;
	for (size_t i = 0; i < 2 * sizeof(fronts) / sizeof(fronts[0]); i++) {
		begin(&walk, pattern);
		if (!feed(&walk, fronts[i / 2]) || !feed(&walk, scope) || !feed(&walk, ends[i % 2]))
			continue;
		skip_stars(&walk);
		if (walk.at[walk.n] || feed_one(&walk, '/', false))
			return true;
	}
	return false;
}
