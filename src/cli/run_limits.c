/* run_limits.c - parses --memory, --cpus, --pids, --disk and --timeout of `keyhole run` */
#include <stdlib.h>
#include <string.h>

#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>

#include "run_internal.h"

enum {
	MEMORY_LEAST = 16 << 20, /* below that keyhole-init and a shell don't start */
	DISK_LEAST = 1 << 20,
	PIDS_MOST = 1 << 22,
	CPU_MOST = 4096,
	CPU_LEAST_MILLI = 10,
};

static bool refuse(const char *option, const char *text, const char *want)
{
	kh_cli_complain("%s %s: wants %s", option, kh_esc_str(text), want);
	return false;
}

static const char *full_unit(char unit)
{
	return unit == 'k' || unit == 'K' ? "KiB" : unit == 'm' || unit == 'M' ? "MiB" : "GiB";
}

/* "100M", "1g" and "512MB" have a unit that not everybody takes for the same number. */
static bool refuse_size(const char *option, const char *text, const char *want)
{
	size_t digits = strspn(text, "0123456789");
	const char *unit = text + digits;
	bool known = digits > 0 && digits < 12 && *unit && strchr("kKmMgG", *unit) &&
		     (!unit[1] || ((unit[1] == 'b' || unit[1] == 'B') && !unit[2]));
	if (!known)
		return refuse(option, text, want);
	kh_cli_complain("%s %s: the unit is KiB, MiB or GiB: write %.*s%s", option, text,
			(int)digits, text, full_unit(*unit));
	return false;
}

bool kh_run_limit_memory(struct kh_sandbox_limits *out, const char *text)
{
	return (kh_value_size(kh_slice_str(text), &out->memory_bytes) &&
		out->memory_bytes >= MEMORY_LEAST) ||
	       refuse_size("--memory", text, "a size of 16MiB or more, such as 512MiB or 4GiB");
}

bool kh_run_limit_disk(struct kh_sandbox_limits *out, const char *text)
{
	return (kh_value_size(kh_slice_str(text), &out->disk_bytes) &&
		out->disk_bytes >= DISK_LEAST) ||
	       refuse_size("--disk", text, "a size of 1MiB or more, such as 512MiB or 4GiB");
}

bool kh_run_limit_timeout(struct kh_sandbox_limits *out, const char *text)
{
	return (kh_value_duration(kh_slice_str(text), &out->timeout_ms) && out->timeout_ms > 0) ||
	       refuse("--timeout", text, "a duration such as 90s, 30m or 2h");
}

bool kh_run_limit_ask_time(uint64_t *out_ms, const char *text)
{
	return (kh_value_duration(kh_slice_str(text), out_ms) && *out_ms > 0 &&
		*out_ms <= KH_LIMIT_QUESTION_MS) ||
	       refuse("--ask-time", text, "a duration up to 60s, such as 20s");
}

bool kh_run_limit_pids(struct kh_sandbox_limits *out, const char *text)
{
	uint64_t n;
	if (!kh_slice_to_u64(kh_slice_str(text), &n) || n < 1 || n > PIDS_MOST)
		return refuse("--pids", text, "a number from 1 to 4194304");
	out->pids = (unsigned)n;
	return true;
}

/* "2", "0.5", "1.25": up to three places. */
bool kh_run_limit_cpus(struct kh_sandbox_limits *out, const char *text)
{
	struct kh_slice all = kh_slice_str(text);
	size_t dot = kh_slice_find(all, '.', 0);
	struct kh_slice whole = kh_slice_sub(all, 0, dot),
			rest = kh_slice_sub(all, dot + 1, SIZE_MAX);
	uint64_t units = 0, places = 0;
	bool ok = kh_slice_to_u64(whole, &units) && units <= CPU_MOST && rest.len <= 3 &&
		  (dot == all.len || kh_slice_to_u64(rest, &places));
	for (size_t i = rest.len; ok && i < 3; i++)
		places *= 10;
	out->cpu_milli = ok ? (unsigned)(units * 1000 + places) : 0;
	return out->cpu_milli >= CPU_LEAST_MILLI ||
	       refuse("--cpus", text, "a number of CPUs from 0.01 on, such as 2 or 0.5");
}
