/*
 * process.c - the engine "process": bubblewrap
 *
 * Its options are passed by a descriptor (--args), so that neither placeholders nor paths are in
 * the list of processes. bubblewrap makes the namespaces and mounts, drops all capabilities except
 * the three that keyhole-init needs at its start, sets no_new_privs and executes keyhole-init.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/file.h>
#include <keyhole/base/log.h>
#include <keyhole/base/program.h>
#include <keyhole/base/slice.h>

#include "outer_namespace_internal.h"
#include "sandbox_internal.h"

enum { ARGS_MOST_BYTES = 4 * 1024 * 1024 };
/* Headers may be older than the kernel. */
enum { SYS_LANDLOCK_CREATE_RULESET = 444 };

static const char *const fixed[] = {
	"--unshare-user",
	"--unshare-net",
	"--unshare-pid",
	"--unshare-ipc",
	"--unshare-uts",
	"--unshare-cgroup-try",
	"--die-with-parent",
	"--new-session",
	"--as-pid-1",
	"--uid",
	"0",
	"--gid",
	"0",
	"--cap-drop",
	"ALL",
	/* For keyhole-init, until it has bound its ports and goes into a namespace below. */
	"--cap-add",
	"CAP_NET_BIND_SERVICE",
	"--cap-add",
	"CAP_NET_ADMIN",
	"--cap-add",
	"CAP_SETFCAP",
	"--clearenv",
};

static const char user_limits[] = "/proc/sys/user";

/* One option; a NULL ends it early. */
static bool put(struct kh_buf *args, const char *a, const char *b, const char *c)
{
	const char *words[] = { a, b, c };
	for (size_t i = 0; i < 3 && words[i]; i++)
		if (!kh_buf_append(args, words[i], strlen(words[i]) + 1))
			return false;
	return true;
}

static bool put_number(struct kh_buf *args, const char *option, int value, const char *last)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", value);
	return put(args, option, text, last);
}

static bool put_mode(struct kh_buf *args, mode_t mode)
{
	char text[16];
	snprintf(text, sizeof(text), "%04o", (unsigned)mode);
	return put(args, "--perms", text, NULL);
}

static bool put_blank_file(struct kh_engine_command *out, struct kh_buf *args,
			   const struct kh_mount *m)
{
	kh_auto_free char *path = kh_strf("%s/" KH_BLANK_FILE, m->target);
	return m->fd < 0 || (path && kh_engine_command_fd(out, m->fd) && put_mode(args, 0444) &&
			     put_number(args, "--file", m->fd, path));
}

static bool put_size(struct kh_buf *args, uint64_t size)
{
	char text[24];
	snprintf(text, sizeof(text), "%" PRIu64, size);
	return size == 0 || put(args, "--size", text, NULL);
}

/*
 * The /proc of a process namespace, without what of it speaks of the host, as an OCI runtime lays
 * it. bubblewrap covers some of this by itself, but only for who could write there as the host's
 * root; what the sandbox's own uid owns there, as uid 0 of the first user namespace, it leaves.
 */
static bool put_proc(struct kh_buf *args, const char *target)
{
	bool ok = put(args, "--proc", target, NULL);
	struct stat st;
	for (size_t i = 0; ok && kh_proc_read_only[i]; i++)
		if (stat(kh_proc_read_only[i], &st) == 0)
			ok = put(args, "--ro-bind", kh_proc_read_only[i], kh_proc_read_only[i]);
	/* Limits of a user namespace, which only keyhole-init may set, and only in its own. */
	if (ok && stat(user_limits, &st) == 0)
		ok = put(args, "--bind", user_limits, user_limits);
	for (size_t i = 0; ok && kh_proc_masked[i]; i++) {
		const char *path = kh_proc_masked[i];
		if (stat(path, &st) != 0)
			continue;
		ok = S_ISDIR(st.st_mode)
			     ? put_mode(args, 0555) && put(args, "--tmpfs", path, NULL) &&
				       put(args, "--remount-ro", path, NULL)
			     : put(args, "--dev-bind", "/dev/null", path);
	}
	return ok;
}

static bool put_mount(struct kh_buf *args, const struct kh_mount *m, struct kh_engine_command *out)
{
	switch (m->kind) {
	case KH_MOUNT_DIR:
		return put_mode(args, m->mode) && put(args, "--dir", m->target, NULL);
	case KH_MOUNT_LINK:
		return put(args, "--symlink", m->source, m->target);
	case KH_MOUNT_FILE:
		return kh_engine_command_fd(out, m->fd) && put_mode(args, m->mode) &&
		       put_number(args, "--file", m->fd, m->target);
	case KH_MOUNT_READ:
		if (m->fd >= 0)
			return kh_engine_command_fd(out, m->fd) &&
			       put_number(args, "--ro-bind-fd", m->fd, m->target);
		return put(args, "--ro-bind", m->source, m->target);
	case KH_MOUNT_WRITE:
		if (m->fd >= 0)
			return kh_engine_command_fd(out, m->fd) &&
			       put_number(args, "--bind-fd", m->fd, m->target);
		return put(args, "--bind", m->source, m->target);
	case KH_MOUNT_BLANK:
		return put_mode(args, 0555) && put(args, "--tmpfs", m->target, NULL) &&
		       put_blank_file(out, args, m) && put(args, "--remount-ro", m->target, NULL);
	case KH_MOUNT_EMPTY:
		return kh_engine_command_fd(out, m->fd) &&
		       put_number(args, "--ro-bind-data", m->fd, m->target);
	case KH_MOUNT_TMPFS:
		return put_size(args, m->size) && put_mode(args, m->mode) &&
		       put(args, "--tmpfs", m->target, NULL);
	case KH_MOUNT_PROC:
		return put_proc(args, m->target);
	case KH_MOUNT_DEV:
		return put(args, "--dev", m->target, NULL);
	case KH_MOUNT_LAYER: /* bubblewrap 0.8 has no option for it */
	case KH_MOUNT_UPPER:
	case KH_MOUNT_OVERLAY:
	case KH_MOUNT_SOCKET: /* it inherits its own */
		return false;
	case KH_MOUNT_SEAL:
		return put(args, "--remount-ro", m->target, NULL);
	}
	return false;
}

/* What is not laid already (mount_plan.c). */
static bool is_for_program(const struct kh_mount *m)
{
	return m->kind == KH_MOUNT_PROC || m->kind == KH_MOUNT_DEV ||
	       strcmp(m->target, "/dev") == 0 || strncmp(m->target, "/dev/", 5) == 0;
}

static bool put_all(struct kh_buf *args, const struct kh_plan *plan, struct kh_engine_command *out)
{
	bool ok = true;
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		ok = ok && put(args, fixed[i], NULL, NULL);
	ok = ok && put(args, "--hostname", plan->hostname, NULL);
	for (size_t i = 0; ok && i < plan->env->n; i++)
		ok = put(args, "--setenv", plan->env->list[i].name, plan->env->list[i].value);
	if (plan->nested)
		ok = ok && put(args, "--bind", KH_OUTER_NAMESPACE_ROOT, "/");
	for (size_t i = 0; ok && i < plan->view->n; i++)
		if (!plan->nested || is_for_program(&plan->view->list[i]))
			ok = put_mount(args, &plan->view->list[i], out);
	return ok && put(args, "--chdir", "/", NULL);
}

bool kh_sandbox_has_landlock(void)
{
	return syscall(SYS_LANDLOCK_CREATE_RULESET, NULL, 0, 1) >= 1;
}

/* keyhole-init asks for it, and does without it where there is none. */
static void warn_of_landlock(void)
{
	if (!kh_sandbox_has_landlock())
		kh_log_warn("this kernel has no Landlock (5.13 and newer do): what the command may "
			    "write is kept by the mounts alone");
}

static bool prepare(const struct kh_plan *plan, struct kh_engine_command *out, struct kh_err *err)
{
	out->path = kh_program_find("bwrap");
	if (!out->path)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the sandbox: bubblewrap is not on the PATH (install it: `apt "
				  "install bubblewrap`, `dnf install bubblewrap`, `apk add "
				  "bubblewrap`, `pacman -S bubblewrap`)");
	warn_of_landlock();
	struct kh_buf args kh_cleanup(kh_buf_fini);
	kh_buf_init(&args, ARGS_MOST_BYTES);
	if (!put_all(&args, plan, out))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: its options are too many");
	out->args_fd = kh_file_sealed("keyhole-args", kh_buf_view(&args), err);
	if (out->args_fd < 0)
		return kh_err_wrap(err, "the sandbox");
	char number[16];
	/* Nested, its descriptors are numbered in their order. */
	snprintf(number, sizeof(number), "%d", plan->nested ? STDERR_FILENO + 1 : out->args_fd);
	bool ok = kh_engine_command_fd(out, out->args_fd) && kh_engine_command_arg(out, "bwrap") &&
		  kh_engine_command_arg(out, "--args") && kh_engine_command_arg(out, number) &&
		  kh_engine_command_arg(out, "--");
	for (char *const *word = plan->init; ok && *word; word++)
		ok = kh_engine_command_arg(out, *word);
	return ok || kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
}

static const struct {
	const char *said, *means;
} meanings[] = {
	{ "reating new namespace", KH_SANDBOX_NO_USERNS },
	{ "No permissions to create", KH_SANDBOX_NO_USERNS },
	{ "setting up uid map", KH_SANDBOX_NO_USERNS },
	{ "kernel does not support user namespaces", KH_SANDBOX_NO_USERNS },
	{ "loopback: Failed", KH_SANDBOX_NO_USERNS },
	{ "nknown option",
	  "this bubblewrap is too old (0.10 or newer is needed, or the security update "
	  "of your distribution's 0.8)" },
	{ "Race condition binding",
	  "what was to be mounted was replaced in that moment (is another "
	  "sandbox at work in the same folder?)" },
	{ "mount proc", "this host does not let a sandbox have a /proc of its own (in a container: "
			"run it with an unmasked /proc, as `--security-opt systempaths=unconfined` "
			"does)" },
};

static bool explain(const char *said, struct kh_err *err)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (strstr(said, meanings[i].said))
			return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s", meanings[i].means);
	return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s",
			  said[0] ? said : "bubblewrap ended before it had begun");
}

const struct kh_engine kh_engine_process = {
	.name = "process",
	.about = "bubblewrap: namespaces, system calls filtered, Landlock",
	.layered = &kh_engine_process_layered,
	.prepare = prepare,
	.explain = explain,
};

const struct kh_engine kh_engine_process_layered = {
	.name = "process",
	.about = "bubblewrap, around a root that we laid",
	.nested = true,
	.own_fds = 1, /* the arguments */
	.prepare = prepare,
	.explain = explain,
};
