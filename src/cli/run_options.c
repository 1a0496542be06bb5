/* run_options.c - parses the options of `keyhole run` */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/host.h>
#include <keyhole/base/slice.h>
#include <keyhole/sandbox/init.h>

#include "run_internal.h"

enum {
	OPT_TENANT = 256,
	OPT_USE,
	OPT_ALLOW,
	OPT_OBSERVE,
	OPT_ASK,
	OPT_ASK_TIME,
	OPT_WORKSPACE,
	OPT_NO_WORKSPACE,
	OPT_AGENT,
	OPT_MASK,
	OPT_HOME,
	OPT_RO,
	OPT_ROOTFS,
	OPT_IMAGE,
	OPT_ENTRYPOINT,
	OPT_ENV,
	OPT_ENGINE,
	OPT_PORTS,
	OPT_CAPTURE_RANGE,
	OPT_PUBLISH,
	OPT_MEMORY,
	OPT_CPUS,
	OPT_PIDS,
	OPT_DISK,
	OPT_TIMEOUT,
	OPT_BEST_EFFORT,
	OPT_AUDIT
};

static const struct option longs[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "tenant", required_argument, NULL, OPT_TENANT },
	{ "use", required_argument, NULL, OPT_USE },
	{ "allow", required_argument, NULL, OPT_ALLOW },
	{ "observe", no_argument, NULL, OPT_OBSERVE },
	{ "ask", no_argument, NULL, OPT_ASK },
	{ "ask-time", required_argument, NULL, OPT_ASK_TIME },
	{ "workspace", required_argument, NULL, OPT_WORKSPACE },
	{ "no-workspace", no_argument, NULL, OPT_NO_WORKSPACE },
	{ "agent", required_argument, NULL, OPT_AGENT },
	{ "mask-env", no_argument, NULL, OPT_MASK },
	{ "home", required_argument, NULL, OPT_HOME },
	{ "ro", required_argument, NULL, OPT_RO },
	{ "rootfs", required_argument, NULL, OPT_ROOTFS },
	{ "image", required_argument, NULL, OPT_IMAGE },
	{ "entrypoint", required_argument, NULL, OPT_ENTRYPOINT },
	{ "env", required_argument, NULL, OPT_ENV },
	{ "engine", required_argument, NULL, OPT_ENGINE },
	{ "ports", required_argument, NULL, OPT_PORTS },
	{ "capture-range", required_argument, NULL, OPT_CAPTURE_RANGE },
	{ "publish", required_argument, NULL, OPT_PUBLISH },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "cpus", required_argument, NULL, OPT_CPUS },
	{ "pids", required_argument, NULL, OPT_PIDS },
	{ "disk", required_argument, NULL, OPT_DISK },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "best-effort", no_argument, NULL, OPT_BEST_EFFORT },
	{ "audit", required_argument, NULL, OPT_AUDIT },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

bool kh_run_add_word(char ***list, size_t *n, char *word)
{
	char **more = word ? reallocarray(*list, *n + 1, sizeof(*more)) : NULL;
	if (!more) {
		free(word);
		kh_cli_complain("run: no memory");
		return false;
	}
	*list = more;
	more[(*n)++] = word;
	return true;
}

/* Where the preset that begins at `at` ends: behind its parameters, which are KEY=VALUE. */
static size_t end_of_preset(struct kh_slice text, size_t at)
{
	size_t end = kh_slice_find(text, ',', at);
	bool has_parameters = kh_slice_find(kh_slice_sub(text, at, end), ':', 0) < end - at;
	while (has_parameters && end < text.len) {
		size_t next = kh_slice_find(text, ',', end + 1);
		struct kh_slice part = kh_slice_sub(text, end + 1, next);
		size_t equals = kh_slice_find(part, '=', 0);
		if (equals >= part.len || kh_slice_find(part, ':', 0) < equals)
			break;
		end = next;
	}
	return end;
}

bool kh_run_add_preset(struct kh_run_options *options, const char *preset)
{
	return kh_run_add_word(&options->presets, &options->n_presets, strdup(preset));
}

/* One more, in front of an earlier use of the same preset: so `--use github:push=true` opens what
 * it says also after `--use github`, whose rules deny it. */
static bool add_use(struct kh_run_options *out, struct kh_slice text)
{
	if (!kh_run_add_word(&out->presets, &out->n_presets, kh_slice_dup(text)))
		return false;
	size_t last = out->n_presets - 1, at = 0, len = kh_slice_find(text, ':', 0);
	while (at < last && (strcspn(out->presets[at], ":") != len ||
			     strncmp(out->presets[at], text.ptr, len) != 0))
		at++;
	char *one = out->presets[last];
	memmove(&out->presets[at + 1], &out->presets[at], (last - at) * sizeof(one));
	out->presets[at] = one;
	return true;
}

static bool add_presets(struct kh_run_options *out, const char *text)
{
	struct kh_slice rest = kh_slice_trim(kh_slice_str(text));
	/* As in a file: one, whatever commas are in it. */
	if (kh_slice_has_prefix(rest, KH_SLICE("{")))
		return kh_run_add_word(&out->presets, &out->n_presets, kh_slice_dup(rest));
	for (size_t at = 0; at <= rest.len;) {
		size_t end = end_of_preset(rest, at);
		struct kh_slice name = kh_slice_trim(kh_slice_sub(rest, at, end));
		if (name.len == 0) {
			kh_cli_complain("--use %s: an empty name", kh_esc_str(text));
			return false;
		}
		if (!add_use(out, name))
			return false;
		at = end + 1;
	}
	return true;
}

static bool add_ports(struct kh_run_options *out, const char *text)
{
	struct kh_slice rest = kh_slice_str(text);
	for (size_t at = 0; at <= rest.len;) {
		size_t end = kh_slice_find(rest, ',', at);
		uint64_t port;
		if (!kh_slice_to_u64(kh_slice_trim(kh_slice_sub(rest, at, end)), &port) ||
		    port < 1 || port > 65535 ||
		    out->n_ports == sizeof(out->ports) / sizeof(out->ports[0])) {
			kh_cli_complain("--ports %s: wants up to %d numbers from 1 to 65535, with "
					"commas between",
					kh_esc_str(text), KH_LIMIT_INIT_PORTS - 2);
			return false;
		}
		out->ports[out->n_ports++] = (uint16_t)port;
		at = end + 1;
	}
	return true;
}

/* Addresses that a connection can be made to, and that are not the sandbox's own: 127.0.0.0/10. */
bool kh_run_set_capture_range(struct kh_run_options *out, const char *text)
{
	enum { LOOPBACK = 127, OWN_BELOW = 64, MULTICAST = 224 };
	struct kh_cidr range;
	struct kh_err err = KH_ERR_INIT;
	if (!kh_cidr_parse(&range, kh_slice_str(text), &err)) {
		kh_cli_complain("--capture-range %s: %s", kh_esc_str(text), err.text);
		return false;
	}
	if (range.family != 4 || range.prefix_bits < KH_INIT_NAMES_LEAST_BITS ||
	    range.prefix_bits > KH_INIT_NAMES_MOST_BITS) {
		kh_cli_complain("--capture-range %s: wants a range of IPv4 from /%d to /%d, for "
				"example 11.0.0.0/10",
				kh_esc_str(text), KH_INIT_NAMES_LEAST_BITS,
				KH_INIT_NAMES_MOST_BITS);
		return false;
	}
	if (range.addr[0] == 0 || range.addr[0] >= MULTICAST ||
	    (range.addr[0] == LOOPBACK && range.addr[1] < OWN_BELOW)) {
		kh_cli_complain("--capture-range %s: has addresses of the sandbox's own, or ones "
				"to which no connection can be made (for example, take "
				"11.0.0.0/10)",
				kh_esc_str(text));
		return false;
	}
	out->capture_range = range;
	return true;
}

/* OUTSIDE:INSIDE, or one for both. */
static bool add_published(struct kh_run_options *out, const char *text)
{
	struct kh_slice all = kh_slice_str(text);
	size_t colon = kh_slice_find(all, ':', 0);
	uint64_t outside, inside;
	bool ok = kh_slice_to_u64(kh_slice_sub(all, 0, colon), &outside);
	inside = outside;
	if (ok && colon < all.len)
		ok = kh_slice_to_u64(kh_slice_sub(all, colon + 1, SIZE_MAX), &inside);
	if (!ok || outside < 1 || outside > 65535 || inside < 1 || inside > 65535 ||
	    out->n_publish == KH_LIMIT_PUBLISHED_PORTS) {
		kh_cli_complain("--publish %s: wants a port of the host and one inside, such as "
				"8080:3000 (up to %d times)",
				kh_esc_str(text), KH_LIMIT_PUBLISHED_PORTS);
		return false;
	}
	out->publish[out->n_publish++] =
		(struct kh_published){ (uint16_t)outside, (uint16_t)inside };
	return true;
}

/* The sandbox's only way out; what else keyhole sets (CA variables) is told in docs/sandbox.md. */
static void warn_of_own(const char *name)
{
	static const char *const own[] = { "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY" };
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strcasecmp(name, own[i]) == 0)
			kh_cli_complain("--env %s: warning: keyhole sets this variable itself, and "
					"yours is not used",
					name);
}

/* NAME=VALUE, or NAME for the caller's own value. */
static bool add_env(struct kh_run_options *out, const char *text)
{
	const char *equals = strchr(text, '=');
	const char *value = equals ? equals + 1 : getenv(text);
	if (!value) {
		kh_cli_complain("--env %s: is not set here (write %s=VALUE)", kh_esc_str(text),
				kh_esc_str(text));
		return false;
	}
	struct kh_env_var *list = reallocarray(out->env, out->n_env + 1, sizeof(*list));
	if (list)
		out->env = list;
	struct kh_env_var var = {
		equals ? strndup(text, (size_t)(equals - text)) : strdup(text),
		strdup(value),
	};
	if (!list || !var.name || !var.value) {
		free(var.name);
		free(var.value);
		kh_cli_complain("run: no memory");
		return false;
	}
	warn_of_own(var.name);
	list[out->n_env++] = var;
	return true;
}

/* "--" and other options, which getopt takes for the value that is missing before them. */
static bool is_value(const char *option, const char *what, const char *path)
{
	if (*path && (strncmp(path, "--", 2) != 0 || access(path, F_OK) == 0))
		return true;
	kh_cli_complain("run: %s needs a %s%s%s%s", option, what, *path ? ", got \"" : "",
			kh_esc_str(path), *path ? "\"" : "");
	return false;
}

static bool set_workspace(struct kh_run_options *out, const char *text)
{
	struct kh_slice s = kh_slice_str(text);
	const char *colon = strrchr(text, ':');
	if (!is_value("--workspace", "folder", colon == text ? "" : text))
		return false;
	out->workspace_read_only = kh_slice_has_suffix(s, KH_SLICE(":ro"));
	if (out->workspace_read_only)
		s.len -= 3;
	free(kh_steal_ptr(&out->review));
	if (colon && strcmp(colon, ":review") == 0)
		out->review = strdup("");
	else if (colon && strncmp(colon, ":review=", 8) == 0 && colon[8])
		out->review = strdup(colon + 8);
	if (out->review)
		s.len = (size_t)(colon - text);
	kh_auto_free char *path = kh_slice_dup(s);
	if (path && colon && !out->review && !out->workspace_read_only && access(path, F_OK) != 0) {
		kh_cli_complain(
			"--workspace %s: there is no such folder (what may follow the colon "
			"is ro, review, review=new or review=ID)",
			kh_esc_str(text));
		return false;
	}
	struct stat st;
	if (!path ||
	    !kh_run_resolve(out, "--workspace", path, &out->workspace, &out->workspace_held))
		return false;
	if (fstat(out->workspace_held, &st) == 0 && !S_ISDIR(st.st_mode)) {
		kh_cli_complain("--workspace %s: is not a folder", kh_esc_str(path));
		return false;
	}
	return true;
}

/* Made where it is absent: the first run has no state yet. */
static bool set_home(struct kh_run_options *out, const char *path)
{
	struct kh_err err = KH_ERR_INIT;
	if (!is_value("--home", "folder", path))
		return false;
	if (access(path, F_OK) != 0 && !kh_file_mkdirs(path, 0700, &err)) {
		kh_cli_complain("--home %s: %s", kh_esc_str(path), err.text);
		return false;
	}
	return kh_run_resolve(out, "--home", path, &out->home, &out->home_held);
}

static bool add_read_only(struct kh_run_options *out, const char *path)
{
	char *resolved = NULL;
	return is_value("--ro", "path", path) &&
	       kh_run_resolve(out, "--ro", path, &resolved, NULL) &&
	       kh_run_add_word(&out->read_only, &out->n_read_only, resolved);
}

/* A folder is not made by a slip of the pen. */
static bool set_audit(struct kh_run_options *out, const char *path)
{
	kh_auto_free char *here = getcwd(NULL, 0);
	free(out->audit);
	out->audit = here && *path ? kh_path_join(here, path) : NULL;
	if (!out->audit) {
		kh_cli_complain("--audit %s: no such place", kh_esc_str(path));
		return false;
	}
	const char *slash = strrchr(out->audit, '/');
	kh_auto_free char *folder =
		kh_slice_dup(kh_slice_of(out->audit, (size_t)(slash - out->audit) + 1));
	struct stat st;
	if (folder && stat(folder, &st) == 0)
		return true;
	kh_cli_complain("--audit %s: the folder %s: %s (make it first: mkdir -p %s)",
			kh_esc_str(path), folder ? kh_esc_str(folder) : "", strerror(errno),
			folder ? kh_esc_str(folder) : "");
	return false;
}

static bool take(struct kh_run_options *out, int option, const char *value)
{
	switch (option) {
	case 'c':
		out->config_path = value;
		return true;
	case 'q':
		out->quiet = true;
		return true;
	case OPT_TENANT:
		out->tenant = value;
		return true;
	case OPT_NO_WORKSPACE:
		out->no_workspace = true;
		return true;
	case OPT_AGENT:
		out->agent = value;
		return true;
	case OPT_MASK:
		out->mask_env = true;
		return true;
	case OPT_ENGINE:
		out->engine = value;
		return true;
	case OPT_PUBLISH:
		return add_published(out, value);
	case OPT_MEMORY:
		return kh_run_limit_memory(&out->limits, value);
	case OPT_CPUS:
		return kh_run_limit_cpus(&out->limits, value);
	case OPT_PIDS:
		return kh_run_limit_pids(&out->limits, value);
	case OPT_DISK:
		return kh_run_limit_disk(&out->limits, value);
	case OPT_TIMEOUT:
		return kh_run_limit_timeout(&out->limits, value);
	case OPT_BEST_EFFORT:
		out->limits.best_effort = true;
		return true;
	case OPT_PORTS:
		return add_ports(out, value);
	case OPT_CAPTURE_RANGE:
		return kh_run_set_capture_range(out, value);
	case OPT_USE:
		return add_presets(out, value);
	case OPT_ALLOW:
		return kh_run_allow(out, value);
	case OPT_OBSERVE:
		out->observe = true;
		return true;
	case OPT_ASK:
		out->ask = true;
		return true;
	case OPT_ASK_TIME:
		return kh_run_limit_ask_time(&out->ask_time_ms, value);
	case OPT_WORKSPACE:
		return set_workspace(out, value);
	case OPT_HOME:
		return set_home(out, value);
	case OPT_RO:
		return add_read_only(out, value);
	case OPT_ROOTFS:
		return kh_run_rootfs(out, value);
	case OPT_IMAGE:
		out->image = value;
		return true;
	case OPT_ENTRYPOINT:
		out->entrypoint = value;
		return true;
	case OPT_ENV:
		return add_env(out, value);
	case OPT_AUDIT:
		return set_audit(out, value);
	default:
		return false; /* it was said why */
	}
}

enum kh_run_parsed kh_run_options_parse(struct kh_run_options *out, int argc, char **argv)
{
	*out = (struct kh_run_options){ .engine = "process",
					.workspace_held = -1,
					.home_held = -1 };
	/* "+": what comes after the command is the command's. */
	for (int option; (option = kh_cli_option(argc, argv, "+c:qh", longs)) != -1;) {
		if (option == 'h') {
			kh_run_show_usage();
			return ferror(stdout) ? KH_RUN_WRONG : KH_RUN_HELPED;
		}
		if (!take(out, option, optarg))
			return KH_RUN_WRONG;
	}
	out->command = argv + optind;
	if (!kh_run_image_check(out))
		return KH_RUN_WRONG;
	if (optind >= argc && !out->image) {
		kh_cli_complain("run: which command? (usage: keyhole run [OPTION…] -- COMMAND)");
		return KH_RUN_WRONG;
	}
	if (!kh_run_ask_check(out) || !kh_run_agent_choose(out))
		return KH_RUN_WRONG;
	kh_run_trust_hint(out);
	if (out->observe)
		kh_cli_complain(
			"run: warning: NO RULE IS ENFORCED (--observe): the network is open "
			"to this command");
	if (!out->config_path && out->n_presets == 0 && out->n_allow == 0 && !out->observe &&
	    !out->quiet)
		kh_cli_complain(
			"run: the command may reach nothing (give --use PRESET, for example "
			"--use npm, --allow RULE or -c FILE)");
	return KH_RUN_GO;
}

static void free_words(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

void kh_run_options_fini(struct kh_run_options *options)
{
	free(options->rootfs);
	free(options->workspace);
	kh_cleanup_close(&options->workspace_held);
	kh_cleanup_close(&options->home_held);
	free(options->review);
	free(options->trusted);
	free(options->home);
	free(options->audit);
	free_words(options->presets, options->n_presets);
	free_words(options->allow, options->n_allow);
	free_words(options->read_only, options->n_read_only);
	free_words(options->path, options->n_path);
	for (size_t i = 0; i < options->n_links; i++) {
		free(options->links[i].name);
		free(options->links[i].program);
	}
	free(options->links);
	kh_run_links_free(options);
	kh_agent_profile_free(options->profile);
	for (size_t i = 0; i < options->n_env; i++) {
		free(options->env[i].name);
		free(options->env[i].value);
	}
	free(options->env);
	*options = (struct kh_run_options){ .workspace_held = -1, .home_held = -1 };
}
