/* ctl_sandbox.c - `keyhole ctl sandbox add` and `remove`: sends the request and shows the answer */
#include "ctl_sandbox.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/limits.h>

#include "cli_internal.h"
#include "ctl_trust.h"

const char *kh_ctl_sandbox_term(const struct kh_ctl_sandbox *given)
{
	return given->narrow  ? "--narrow"
	       : given->ttl   ? "--ttl"
	       : given->mode  ? "--mode"
	       : given->owner ? "--owner"
			      : NULL;
}

/* The daemon looks at all of it anew; here it is said in the words of the command line. */
bool kh_ctl_sandbox_check(const struct kh_ctl_sandbox *given, const char *verb)
{
	bool both = !given->tenant && !given->id;

	const char *const names[] = { given->tenant, given->id };
	static const char *const options[] = { "--tenant", "--id" };
	for (int i = 0; i < 2; i++) {
		const char *why =
			names[i] ? kh_dynamic_sandbox_check_id(kh_slice_str(names[i])) : NULL;
		if (!names[i])
			kh_cli_complain("ctl: `sandbox %s`: %s%s missing (a sandbox is named by "
					"--tenant TENANT --id ID)",
					verb, options[i], both ? " and --id are" : " is");
		else if (why)
			kh_cli_complain("ctl: %s \"%s\": %s", options[i], kh_esc_str(names[i]),
					why);
		if (!names[i] || why)
			return false;
	}
	return true;
}

/* By its name or number. */
static bool find_owner(const char *text, json_t *into)
{
	uint64_t number;
	const struct passwd *user = getpwnam(text);
	if (user)
		number = user->pw_uid;
	else if (!kh_slice_to_u64(kh_slice_str(text), &number) || number >= UINT32_MAX) {
		kh_cli_complain("ctl: --owner: no user is called \"%s\"", kh_esc_str(text));
		return false;
	}
	return json_object_set_new(into, "owner", json_integer((json_int_t)number)) == 0;
}

/* As text: the daemon reads it as it stands. It is looked at here first, where messages can name
 * its file. */
static bool read_narrow(const char *path, json_t *into)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	struct kh_diagnostics diags = { 0 };
	struct kh_rules rules;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&text, KH_LIMIT_ADMIN_CONTENT_BYTES / 2);
	bool from_input = strcmp(path, "-") == 0;
	if (from_input ? !kh_file_read_fd(STDIN_FILENO, &text, &err)
		       : !kh_file_read(path, &text, &err)) {
		kh_cli_complain_err(&err);
		return false;
	}
	bool ok = kh_narrow_parse(from_input ? "standard input" : path, kh_buf_view(&text), NULL,
				  &rules, &diags);
	kh_diagnostics_print(&diags, NULL, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	if (!ok)
		return false;
	kh_rules_fini(&rules);
	struct kh_slice view = kh_buf_view(&text);
	return json_object_set_new(into, "narrow", json_stringn(view.ptr, view.len)) == 0;
}

static bool put_text(json_t *into, const char *name, const char *text)
{
	return !text || json_object_set_new(into, name, json_string(text)) == 0;
}

bool kh_ctl_sandbox_wish(const struct kh_ctl_sandbox *given, struct kh_buf *content)
{
	json_t *root = json_object();
	bool ok = root && (!given->narrow || read_narrow(given->narrow, root)) &&
		  (!given->owner || find_owner(given->owner, root));
	if (ok) {
		ok = put_text(root, "tenant", given->tenant) && put_text(root, "id", given->id) &&
		     put_text(root, "ttl", given->ttl) && put_text(root, "mode", given->mode);
		kh_auto_free char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
		ok = text && kh_buf_append_str(content, text);
		if (!ok)
			kh_cli_complain("ctl: no memory, or the narrowing is too long");
	}
	json_decref(root);
	return ok;
}

char *kh_ctl_sandbox_target(const struct kh_ctl_sandbox *given)
{
	char *target = kh_strf("/v1/sandboxes/%s/%s", given->tenant, given->id);
	if (!target)
		kh_cli_complain("ctl: no memory");
	return target;
}

/* BASE of BASE/TENANT/ID, which is what the answer has to name. Heap; NULL. */
static char *base_of(const struct kh_ctl_sandbox *given, const char *folder)
{
	kh_auto_free char *end = kh_strf("/%s/%s", given->tenant, given->id);
	size_t len = folder ? strlen(folder) : 0, tail = end ? strlen(end) : 0;
	if (!tail || len <= tail || folder[0] != '/' || strcmp(folder + len - tail, end) != 0)
		return NULL;
	return kh_slice_dup(kh_slice_of(folder, len - tail));
}

/* Does the folder that is named lie where the configuration says, and without one, where it says
 * and nowhere else? */
static bool is_named_well(const struct kh_ctl_sandbox *given, const char *folder, const char *base,
			  int held)
{
	kh_auto_free char *real = given->base ? NULL : realpath(folder, NULL);
	return given->base ? strcmp(given->base, base) == 0 || kh_ctl_leads_to(folder, held)
			   : real && strcmp(real, folder) == 0;
}

static bool refuse_added(const char *folder)
{
	kh_cli_complain(
		"ctl: the daemon's answer names the folder %s, which is not this sandbox's: "
		"show it to nobody (-c FILE says where its folders are, if a link is on "
		"the way)",
		folder ? kh_esc_str(folder) : "nowhere");
	return false;
}

bool kh_ctl_judge_added(const struct kh_ctl_sandbox *given, const json_t *answer, uid_t server)
{
	const char *folder = json_string_value(json_object_get(answer, "directory"));
	const char *socket = json_string_value(json_object_get(answer, "listener"));
	struct kh_err err = KH_ERR_INIT;
	bool absent;
	kh_auto_free char *base = base_of(given, folder);
	kh_auto_free char *expected = base ? kh_strf("%s/s", folder) : NULL;
	if (!expected || !socket || strcmp(socket, expected) != 0)
		return refuse_added(folder);
	kh_auto_close int held = kh_ctl_hold_folder(given->base ? given->base : base, given->tenant,
						    given->id, server, &absent, &err);
	if (held < 0 && absent && (!given->base || strcmp(given->base, base) == 0)) {
		/* In a container that has the admin socket alone. */
		kh_cli_complain(
			"ctl: %s can't be seen from here: whoever mounts it has to judge it",
			kh_esc_str(folder));
		return true;
	}
	if (held < 0)
		kh_cli_complain_err(&err);
	return held >= 0 && (is_named_well(given, folder, base, held) || refuse_added(folder));
}

/* The path alone, so that a script can take it. */
bool kh_ctl_show_added(const json_t *answer)
{
	const char *path = json_string_value(json_object_get(answer, "listener"));
	if (!path) {
		kh_cli_complain("ctl: the daemon's answer is not understood");
		return false;
	}
	return puts(kh_esc_str(path)) >= 0;
}
