/* files.c - generated files in the sandbox's /etc (users, hosts, names), and the git identity */
#include <string.h>
#include <sys/random.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>
#include <keyhole/sandbox/init.h>

#include "sandbox_internal.h"

#define HOSTNAME "sandbox"

static const struct {
	const char *path, *content;
} fixed[] = {
	{ "/etc/group", "root:x:0:\n"
			"tty:x:5:\n"
			"agent:x:1000:\n"
			"nogroup:x:65534:\n" },
	{ "/etc/hosts", "127.0.0.1 localhost " HOSTNAME "\n"
			"::1 localhost ip6-localhost ip6-loopback\n" },
	{ "/etc/hostname", HOSTNAME "\n" },
	{ "/etc/nsswitch.conf", "passwd: files\n"
				"group: files\n"
				"shadow: files\n"
				"hosts: files dns\n"
				"services: files\n"
				"protocols: files\n" },
	/* keyhole-init answers there, for programs that know no proxy; where it does not, they are
	 * told so at once. Names are resolved by the proxy. */
	{ "/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n" },
	{ KH_SANDBOX_EMPTY, "" },
	/* apt reads no proxy variable for https. */
	{ "/etc/apt/apt.conf.d/90keyhole", "Acquire::http::Proxy \"http://127.0.0.1:3128\";\n"
					   "Acquire::https::Proxy \"http://127.0.0.1:3128\";\n" },
};

/* The agent has the committer's name, which git takes where a program hides git's configuration
 * from it; $EMAIL is the other half (env.c). What has a meaning in that field is left out. */
static bool plan_passwd(struct kh_view *view, const struct kh_sandbox_spec *spec,
			struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 64 * 1024);
	bool ok = kh_buf_append_str(&text, "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:");
	for (const char *c = spec->git_name ? spec->git_name : "agent"; ok && *c; c++)
		if ((unsigned char)*c >= 0x20 && *c != 0x7f && !strchr(":,&", *c))
			ok = kh_buf_append_char(&text, *c);
	if (!ok ||
	    !kh_buf_append_str(&text, ":" KH_SANDBOX_HOME ":/bin/sh\n"
				      "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"))
		return kh_err_set(err, KH_ERR_USAGE, "git's user.name: too long");
	return kh_view_file(view, "/etc/passwd", 0644, kh_buf_view(&text), err);
}

/* A value for git's configuration, in quotes. */
static bool quote(struct kh_buf *out, const char *value)
{
	bool ok = kh_buf_append_char(out, '"');
	for (; ok && *value; value++) {
		if (*value == '"' || *value == '\\')
			ok = kh_buf_append_char(out, '\\');
		if ((unsigned char)*value >= 0x20)
			ok = ok && kh_buf_append_char(out, *value);
	}
	return ok && kh_buf_append_char(out, '"');
}

static bool plan_git(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	bool identity = spec->git_name || spec->git_email;
	if (!identity && !spec->git_settings)
		return true;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 512 * 1024);
	bool ok = !identity || kh_buf_append_str(&text, "[user]\n");
	if (spec->git_name)
		ok = ok && kh_buf_append_str(&text, "\tname = ") && quote(&text, spec->git_name) &&
		     kh_buf_append_char(&text, '\n');
	if (spec->git_email)
		ok = ok && kh_buf_append_str(&text, "\temail = ") &&
		     quote(&text, spec->git_email) && kh_buf_append_char(&text, '\n');
	if (!ok || !kh_buf_append_str(&text, spec->git_settings))
		return kh_err_set(err, KH_ERR_USAGE, "git's settings: too long");
	return kh_view_file(view, "/etc/gitconfig", 0644, kh_buf_view(&text), err);
}

/* Not the host's, by which its owner would be recognised. */
static bool plan_machine_id(struct kh_view *view, struct kh_err *err)
{
	unsigned char bytes[16];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return kh_err_set(err, KH_ERR_SYSTEM, "no random bytes");
	char text[2 * sizeof(bytes) + 1];
	kh_hex_encode(bytes, sizeof(bytes), text);
	text[2 * sizeof(bytes)] = '\n';
	return kh_view_file(view, "/etc/machine-id", 0444, kh_slice_of(text, sizeof(text)), err);
}

static bool plan_home_files(struct kh_view *view, const struct kh_sandbox_spec *spec,
			    struct kh_err *err)
{
	for (size_t i = 0; i < spec->n_home_files; i++) {
		const struct kh_home_file *file = &spec->home_files[i];
		kh_auto_free char *path = kh_strf(KH_INIT_HOME_FILES "/%s", file->path);
		if (!path)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
		if (!kh_view_file(view, path, 0444, kh_slice_str(file->content), err))
			return false;
	}
	return true;
}

bool kh_files_plan_links(struct kh_view *view, const struct kh_sandbox_spec *spec,
			 struct kh_err *err)
{
	for (size_t i = 0; i < spec->n_links; i++) {
		const char *name = spec->links[i].name;
		kh_auto_free char *path =
			kh_strf("%s%s", name[0] == '/' ? "" : KH_SANDBOX_LINKS "/", name);
		if (!path)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
		kh_view_link(view, spec->links[i].program, path);
	}
	return true;
}

/* A login shell begins with a PATH of its own, of the system's programs alone. */
static bool plan_profile(struct kh_view *view, const struct kh_env *env, struct kh_err *err)
{
	const char *path = kh_env_get(env, "PATH");
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 64 * 1024);
	bool ok = kh_buf_append_str(&text, "export PATH='");
	for (; ok && path && *path; path++)
		ok = *path == '\'' ? kh_buf_append_str(&text, "'\\''")
				   : kh_buf_append_char(&text, *path);
	if (!ok || !kh_buf_append_str(&text, "'\n"))
		return kh_err_set(err, KH_ERR_USAGE, "PATH: too long");
	return kh_view_file(view, "/etc/profile.d/keyhole.sh", 0644, kh_buf_view(&text), err);
}

bool kh_files_plan(struct kh_view *view, const struct kh_sandbox_spec *spec,
		   const struct kh_env *env, struct kh_err *err)
{
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (!kh_view_file(view, fixed[i].path, 0644, kh_slice_str(fixed[i].content), err))
			return false;
	return plan_passwd(view, spec, err) && plan_machine_id(view, err) &&
	       plan_git(view, spec, err) && plan_home_files(view, spec, err) &&
	       (spec->rootfs || plan_profile(view, env, err));
}
