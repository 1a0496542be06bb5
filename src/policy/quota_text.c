/* quota_text.c - a limit that was reached, in words */
#include <stdio.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/policy/quota.h>

const char *kh_quota_owner_name(enum kh_quota_owner owner)
{
	static const char *const names[] = { [KH_OF_SITE] = "site",
					     [KH_OF_TENANT] = "tenant",
					     [KH_OF_SANDBOX] = "sandbox",
					     [KH_OF_SITE_RULE] = "site_rule",
					     [KH_OF_RULE] = "rule" };
	return (unsigned)owner < KH_QUOTA_OWNERS ? names[owner] : "";
}

enum kh_err_code kh_verdict_code(const struct kh_verdict *verdict)
{
	switch (verdict->kind) {
	case KH_QUOTA_NONE:
		return KH_ERR_NONE;
	case KH_QUOTA_MAX_BODY:
		return KH_ERR_CONTENT_TOO_LARGE;
	case KH_QUOTA_TUNNEL_LIFETIME:
		return KH_ERR_TUNNEL_LIFETIME;
	case KH_QUOTA_REQUESTS:
	case KH_QUOTA_BYTES_UP:
	case KH_QUOTA_BYTES_DOWN:
	case KH_QUOTA_CONCURRENCY:
	case KH_QUOTA_CONNECTIONS:
	case KH_QUOTA_KINDS:
		break;
	}
	return verdict->wait_ms <= KH_LIMIT_PATIENCE_MS ? KH_ERR_LIMIT : KH_ERR_LIMIT_SPENT;
}

static uint64_t seconds(uint64_t ms)
{
	return ms / 1000 + (ms % 1000 != 0);
}

/* In whole seconds, rounded up: who comes back by it is not too early. */
static const char *show_wait(uint64_t ms, char out[KH_VALUE_BYTES])
{
	return kh_value_show_duration(seconds(ms) * 1000, out);
}

static void show_whose(const struct kh_verdict *verdict, const char *name, char *out, size_t room)
{
	const char *what = verdict->owner == KH_OF_SITE_RULE ? "the site's rule"
							     : kh_quota_owner_name(verdict->owner);
	if (verdict->owner == KH_OF_SITE)
		(void)snprintf(out, room, "the site");
	else
		(void)snprintf(out, room, "%s '%s'", what, kh_esc_str(name));
}

const char *kh_verdict_limit(const struct kh_verdict *verdict, char out[KH_VERDICT_LIMIT_BYTES])
{
	char value[KH_RATE_BYTES];
	const char *text = value;
	if (verdict->rate.kind != KH_QUOTA_NONE)
		text = kh_rate_show(&verdict->rate, value);
	else
		text = kh_quota_show(verdict->kind, verdict->most, value);
	(void)snprintf(out, KH_VERDICT_LIMIT_BYTES, "%s %s", kh_quota_name(verdict->kind), text);
	return out;
}

static void rate_text(const struct kh_verdict *verdict, const char *whose, const char *limit,
		      struct kh_err *err)
{
	enum kh_err_code code = kh_verdict_code(verdict);
	char wait[KH_VALUE_BYTES], reset[KH_VALUE_BYTES];
	bool bytes = kh_quota_is_bytes(verdict->kind);
	if (verdict->wait_ms == UINT64_MAX)
		kh_err_set(err, code, "the limit of %s is %s, and this needs more at once", whose,
			   limit);
	else
		kh_err_set(err, code,
			   "the limit of %s is used up: %s (%llu of %llu%s used, some of it again "
			   "in %s, all of it in %s)",
			   whose, limit, (unsigned long long)verdict->used,
			   (unsigned long long)verdict->most, bytes ? " bytes" : "",
			   show_wait(verdict->wait_ms, wait), show_wait(verdict->reset_ms, reset));
}

void kh_verdict_text(const struct kh_verdict *verdict, const char *name, struct kh_err *err)
{
	char whose[160], limit[KH_VERDICT_LIMIT_BYTES];
	enum kh_err_code code = kh_verdict_code(verdict);
	show_whose(verdict, name, whose, sizeof(whose));
	(void)kh_verdict_limit(verdict, limit);
	switch (verdict->kind) {
	case KH_QUOTA_REQUESTS:
	case KH_QUOTA_BYTES_UP:
	case KH_QUOTA_BYTES_DOWN:
		rate_text(verdict, whose, limit, err);
		break;
	case KH_QUOTA_MAX_BODY:
		kh_err_set(err, code, "the content is larger than the limit of %s: %s", whose,
			   limit);
		break;
	case KH_QUOTA_TUNNEL_LIFETIME:
		kh_err_set(err, code,
			   "the tunnel has lasted as long as the limit of %s lets it: %s", whose,
			   limit);
		break;
	case KH_QUOTA_CONCURRENCY:
	case KH_QUOTA_CONNECTIONS:
	case KH_QUOTA_NONE:
	case KH_QUOTA_KINDS:
		kh_err_set(err, code, "the limit of %s is reached: %s (%llu at this moment)", whose,
			   limit, (unsigned long long)verdict->used);
		break;
	}
	if (err && code == KH_ERR_LIMIT)
		err->retry_after_s =
			(unsigned)(verdict->wait_ms > 1000 ? seconds(verdict->wait_ms) : 1);
}
