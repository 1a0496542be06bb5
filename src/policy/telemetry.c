/*
 * telemetry.c - what agents report to their makers
 *
 * The one list of these places. An agent works without them, so a summary of what was refused
 * counts them apart and does not say how to allow them. Some presets have the parameter `telemetry`
 * to allow them. Flags and settings that an agent asks for are no telemetry.
 */
#include <keyhole/policy/telemetry.h>

#include <keyhole/policy/policy.h>

static const struct {
	const char *host, *path; /* a pattern as in rules; NULL: any */
	const char *agent;
} known[] = {
	{ "api.anthropic.com", "/api/event_logging/**", "Claude Code" },
	{ "api.anthropic.com", "/api/claude_code/metrics", "Claude Code" },
	{ "api.anthropic.com", "/api/claude_code/organizations/metrics_enabled", "Claude Code" },
	{ "statsig.anthropic.com", NULL, "Claude Code" },
	{ "chatgpt.com", "/backend-api/codex/analytics-events/**", "Codex" },
	{ "ab.chatgpt.com", "/otlp/**", "Codex" },
	{ "play.googleapis.com", "/log", "Gemini CLI" },
};

const char *kh_telemetry_of(struct kh_slice host, struct kh_slice path)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (kh_slice_eq(host, kh_slice_str(known[i].host)) &&
		    (!known[i].path || kh_path_matches(kh_slice_str(known[i].path), path)))
			return known[i].agent;
	return NULL;
}
