/* store.c - a container that a program of the host makes from an image in its own store
 * (store.h) */
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

#include "rendezvous.h"
#include "sandbox_internal.h"

static const char *const isolation[] = {
	"create",
	"--rm",
	"--network",
	"none",
	"--ipc",
	"private",
	/* For keyhole-init: its ports, a route, and to become the sandbox's uid. */
	"--user",
	"0:0",
	"--cap-drop",
	"ALL",
	"--cap-add",
	"NET_BIND_SERVICE",
	"--cap-add",
	"NET_ADMIN",
	"--cap-add",
	"SETUID",
	"--cap-add",
	"SETGID",
	"--security-opt",
	"no-new-privileges",
	/* keyhole-init loads a filter of its own, and makes a namespace before. */
	"--security-opt",
	"seccomp=unconfined",
	/* See core_limit.c. */
	"--ulimit",
	"core=1:1",
	/* Nothing of the host's. */
	"--tmpfs",
	"/sys:ro,nosuid,nodev,noexec,size=64k",
	"--tmpfs",
	"/sys/fs/cgroup:ro,nosuid,nodev,noexec,size=64k",
	"--tmpfs",
	"/dev/mqueue:ro,nosuid,nodev,noexec,size=64k",
	/* lo has ::1 in every sandbox. */
	"--sysctl",
	"net.ipv6.conf.all.disable_ipv6=0",
	/* Docker lets everybody bind every port; here they are keyhole-init's. */
	"--sysctl",
	"net.ipv4.ip_unprivileged_port_start=1024",
	"--cgroupns",
	"private",
	"--log-driver",
	"none",
	"--no-healthcheck",
	"--stop-timeout",
	"0",
	"--pull",
	"never",
	NULL,
};

/* ---- the folder of one sandbox: what is mounted out of it ---- */

static bool copy_file(const char *path, int content)
{
	kh_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	off_t at = 0;
	ssize_t n = -1;
	while (fd >= 0 && (n = sendfile(fd, content, &at, 1 << 20)) > 0)
		;
	return n == 0 && fchmod(fd, 0444) == 0;
}

/* Folders of one level, as they were made here. */
static void remove_folder(const char *folder)
{
	static const char *const inner[] = { "f", "e" };
	for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, inner[i]);
		DIR *dir = path ? opendir(path) : NULL;
		const struct dirent *entry;
		if (!dir)
			continue;
		while ((entry = readdir(dir)))
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
		closedir(dir);
		(void)rmdir(path);
	}
	(void)rmdir(folder);
}

static bool make_folder(char *folder, struct kh_err *err)
{
	static const char *const inner[] = { "f", "e" };
	bool ok = mkdtemp(folder) != NULL;
	for (size_t i = 0; ok && i < sizeof(inner) / sizeof(inner[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", folder, inner[i]);
		ok = path && mkdir(path, 0755) == 0 && chmod(path, 0755) == 0;
	}
	return ok || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", folder);
}

/* ---- who removes it all ---- */

struct remains {
	char *program, *name;
	const char *folder;
	size_t n_volumes;
};

/* Docker makes only a volume with a name read-only; and it removes none of those by itself. */
static char *name_of_volume(const char *name, size_t i)
{
	return kh_strf("%s-%zu", name, i);
}

static void remove_volumes(const struct remains *remains)
{
	static char volume[] = "volume", rm[] = "rm", force[] = "--force";
	for (size_t i = 0; i < remains->n_volumes; i++) {
		struct kh_err err = KH_ERR_INIT;
		kh_auto_free char *name = name_of_volume(remains->name, i);
		char *argv[] = { remains->program, volume, rm, force, name, NULL };
		(void)kh_store_tool(argv, -1, KH_LIMIT_SANDBOX_START_MS, NULL, &err);
	}
}

/* At the launcher's end: the program removes what has this name. */
static void remove_remains(void *arg)
{
	static char rm[] = "rm", rmi[] = "rmi", force[] = "--force", volumes[] = "--volumes";
	const struct remains *remains = arg;
	char *container[] = { remains->program, rm, force, volumes, remains->name, NULL };
	char *image[] = { remains->program, rmi, force, remains->name, NULL };
	struct kh_err err = KH_ERR_INIT;
	/* Gone by itself already, as a rule. */
	(void)kh_store_tool(container, -1, KH_LIMIT_SANDBOX_START_MS, NULL, &err);
	(void)kh_store_tool(image, -1, KH_LIMIT_SANDBOX_START_MS, NULL, &err);
	remove_volumes(remains);
	remove_folder(remains->folder);
}

static bool start_watcher(const struct kh_plan *plan, struct kh_engine_command *out, char *name,
			  const char *folder, struct kh_err *err)
{
	struct remains remains = { out->path, name, folder, 0 };
	while (plan->volumes && plan->volumes[remains.n_volumes])
		remains.n_volumes++;
	return kh_child_watch(remove_remains, &remains, &out->watcher, &out->alive, err);
}

/* ---- words ---- */

/* One field of a line of comma separated values, as encoding/csv reads it. */
static bool put_field(struct kh_buf *line, const char *name, const char *value)
{
	bool ok = kh_buf_printf(line, "%s\"%s=", kh_buf_len(line) ? "," : "", name);
	for (; ok && *value; value++)
		ok = (*value != '"' || kh_buf_append_char(line, '"')) &&
		     kh_buf_append_char(line, *value);
	return ok && kh_buf_append_char(line, '"');
}

static bool put_bind(struct kh_engine_command *out, const char *source, const char *target,
		     bool read_only)
{
	struct kh_buf line kh_cleanup(kh_buf_fini);
	kh_buf_init(&line, 4L * PATH_MAX);
	bool ok = kh_buf_append_str(&line, "type=bind") && put_field(&line, "source", source) &&
		  put_field(&line, "destination", target) &&
		  (!read_only || kh_buf_append_str(&line, ",readonly"));
	const char *text = ok ? kh_buf_cstr(&line) : NULL;
	return text && kh_engine_command_arg(out, "--mount") && kh_engine_command_arg(out, text);
}

/* Is something mounted there by our words? What the tar has is not. */
static bool is_mounted(const struct kh_view *view, const char *path)
{
	size_t len = strlen(path);
	for (size_t i = 0; i < view->n; i++) {
		const struct kh_mount *m = &view->list[i];
		bool mounts = kh_mount_is_tree(m) || m->kind == KH_MOUNT_BLANK ||
			      m->kind == KH_MOUNT_EMPTY || m->kind == KH_MOUNT_TMPFS ||
			      m->kind == KH_MOUNT_SOCKET ||
			      (m->kind == KH_MOUNT_FILE && !kh_store_in_tar(m));
		if (mounts && strcmp(m->target, path) == 0)
			return true;
	}
	for (size_t i = 0; isolation[i]; i++)
		if (strncmp(isolation[i], path, len) == 0 && isolation[i][len] == ':')
			return true;
	return false;
}

static bool is_at_or_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* /run, /etc and the like: the tar puts files there before the sandbox begins. So the volume can't
 * be read-only; the agent can't write to it, since keyhole-init lets it write to its own places
 * alone. */
static bool takes_from_tar(const struct kh_view *view, const char *path)
{
	bool takes = false;
	for (size_t i = 0; i < view->n; i++) {
		const struct kh_mount *m = &view->list[i];
		if ((m->kind == KH_MOUNT_TMPFS || m->kind == KH_MOUNT_WRITE) &&
		    is_at_or_below(path, m->target))
			return false;
		takes = takes || (kh_store_in_tar(m) && is_at_or_below(m->target, path));
	}
	return takes;
}

/* A volume of the image would be a folder of the daemon's disk, of any size, and the agent could
 * write to one in its home or /tmp: it shows the image's files, and nobody can write to it. */
static bool put_volumes(struct kh_engine_command *out, const struct kh_plan *plan, const char *name)
{
	bool ok = true;
	for (size_t i = 0; ok && plan->volumes && plan->volumes[i]; i++) {
		const char *path = plan->volumes[i];
		kh_auto_free char *source = name_of_volume(name, i);
		struct kh_buf line kh_cleanup(kh_buf_fini);
		kh_buf_init(&line, 4L * PATH_MAX);
		if (is_mounted(plan->view, path) || takes_from_tar(plan->view, path))
			continue;
		ok = source && kh_buf_append_str(&line, "type=volume") &&
		     put_field(&line, "source", source) && put_field(&line, "destination", path) &&
		     kh_buf_append_str(&line, ",readonly");
		const char *text = ok ? kh_buf_cstr(&line) : NULL;
		ok = text && kh_engine_command_arg(out, "--mount") &&
		     kh_engine_command_arg(out, text);
	}
	return ok;
}

static bool put_tmpfs(struct kh_engine_command *out, const struct kh_plan *plan,
		      const struct kh_mount *m)
{
	char size[40] = "";
	if (m->size)
		snprintf(size, sizeof(size), ",size=%" PRIu64, m->size);
	kh_auto_free char *text =
		kh_strf("%s:rw,nosuid,nodev,exec,mode=%04o,uid=%u,gid=%u%s", m->target,
			(unsigned)m->mode, (unsigned)plan->uid, (unsigned)plan->gid, size);
	return text && kh_engine_command_arg(out, "--tmpfs") && kh_engine_command_arg(out, text);
}

static bool put_file(struct kh_engine_command *out, const char *folder, const struct kh_mount *m,
		     size_t i)
{
	kh_auto_free char *path = kh_strf("%s/f/%zu", folder, i);
	return path && copy_file(path, m->fd) && put_bind(out, path, m->target, true);
}

/* The folder is ours alone: who is not in the sandbox does not get there. */
static bool put_socket(struct kh_engine_command *out, const char *folder, const struct kh_mount *m,
		       size_t i)
{
	kh_auto_free char *path = kh_strf("%s/f/%zu", folder, i);
	kh_auto_close int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return path && at >= 0 && kh_rendezvous_bind(m->fd, at, path + strlen(folder) + 1) &&
	       put_bind(out, path, m->target, true);
}

static bool put_mount(struct kh_engine_command *out, const struct kh_plan *plan, const char *folder,
		      size_t i)
{
	const struct kh_mount *m = &plan->view->list[i];
	kh_auto_free char *empty = kh_strf("%s/e", folder);
	switch (m->kind) {
	case KH_MOUNT_READ:
	case KH_MOUNT_WRITE:
		return put_bind(out, m->source, m->target, m->kind == KH_MOUNT_READ);
	case KH_MOUNT_BLANK:
		return empty && put_bind(out, empty, m->target, true);
	case KH_MOUNT_EMPTY:
		return put_file(out, folder, m, i);
	case KH_MOUNT_FILE:
		return kh_store_in_tar(m) || put_file(out, folder, m, i);
	case KH_MOUNT_TMPFS:
		return put_tmpfs(out, plan, m);
	case KH_MOUNT_DIR:
	case KH_MOUNT_LINK: /* in the tar */
	case KH_MOUNT_PROC:
	case KH_MOUNT_DEV:
	case KH_MOUNT_SEAL: /* the program's; and nothing of the root is the agent's */
	case KH_MOUNT_LAYER:
	case KH_MOUNT_UPPER:
	case KH_MOUNT_OVERLAY:
		return true;
	case KH_MOUNT_SOCKET:
		return put_socket(out, folder, m, i);
	}
	return false;
}

static bool put_limits(struct kh_engine_command *out, const struct kh_sandbox_limits *limits)
{
	char memory[32], pids[24], cpus[24];
	snprintf(memory, sizeof(memory), "%" PRIu64 "b", limits->memory_bytes);
	unsigned processes = limits->pids + KH_SANDBOX_OWN_PIDS;
	/* No kernel has more, and as a number it takes no more. */
	snprintf(pids, sizeof(pids), "%u",
		 processes > KH_SANDBOX_PID_MAX ? KH_SANDBOX_PID_MAX : processes);
	snprintf(cpus, sizeof(cpus), "%u.%03u", limits->cpu_milli / 1000, limits->cpu_milli % 1000);
	const char *const with_memory[] = { "--memory", memory, "--memory-swap", memory, NULL };
	const char *const with_pids[] = { "--pids-limit", pids, NULL };
	const char *const with_cpus[] = { "--cpus", cpus, NULL };
	return (!limits->memory_bytes || kh_engine_command_args(out, with_memory)) &&
	       (!limits->pids || kh_engine_command_args(out, with_pids)) &&
	       (!limits->cpu_milli || kh_engine_command_args(out, with_cpus));
}

/* The whole command line that creates it. */
static bool put_create(struct kh_engine_command *out, const struct kh_plan *plan,
		       const char *folder, const char *name)
{
	const char *const own[] = { "--name",	    name,	   "--hostname",
				    plan->hostname, "--workdir",   "/",
				    "--entrypoint", plan->init[0], NULL };
	bool ok = kh_engine_command_arg(out, out->path) && kh_engine_command_args(out, isolation) &&
		  kh_engine_command_args(out, own) && put_limits(out, plan->limits);
	for (size_t i = 0; ok && i < plan->view->n; i++)
		ok = put_mount(out, plan, folder, i);
	ok = ok && put_volumes(out, plan, name) &&
	     kh_engine_command_arg(out, plan->image ? plan->image : name);
	for (char *const *word = plan->init + 1; ok && *word; word++)
		ok = kh_engine_command_arg(out, *word);
	return ok;
}

/* ---- the whole ---- */

/* The agent is the sandbox's uid on the host, and nobody shows it a folder as its own here. */
static bool check_owners(const char *program, const struct kh_plan *plan, struct kh_err *err)
{
	for (size_t i = 0; i < plan->view->n; i++) {
		const struct kh_mount *m = &plan->view->list[i];
		struct stat st;
		if (m->kind != KH_MOUNT_WRITE || m->tree != KH_TREE_AS_OWNER)
			continue;
		if (stat(m->source, &st) != 0)
			return kh_err_sys(err, KH_ERR_USAGE, errno, "%s", kh_esc_str(m->source));
		if (st.st_uid != plan->uid)
			return kh_err_set(err, KH_ERR_USAGE,
					  "%s: engine %s can't show the folder as the sandbox's "
					  "own (start keyhole as the folder's owner, or give it to "
					  "uid %u)",
					  kh_esc_str(m->source), program, (unsigned)plan->uid);
	}
	return true;
}

static void forget_words(struct kh_engine_command *out)
{
	for (size_t i = 0; i < out->n_argv; i++)
		free(out->argv[i]);
	out->n_argv = 0;
}

/* An image of nothing, for a sandbox whose root is all mounted. */
static bool make_image(const struct kh_plan *plan, const struct kh_engine_command *out, char *name,
		       struct kh_err *err)
{
	static const char end_of_tar[1024];
	static char import[] = "import", dash[] = "-";
	char *argv[] = { out->path, import, dash, name, NULL };
	kh_auto_close int tar =
		kh_file_sealed("keyhole-nothing", kh_slice_of(end_of_tar, sizeof(end_of_tar)), err);
	return tar >= 0 && kh_store_tool(argv, tar, plan->start_ms, NULL, err);
}

/* Created, filled, and watched over; `out` is then what starts it. */
static bool create(const struct kh_plan *plan, struct kh_engine_command *out, const char *folder,
		   struct kh_err *err)
{
	unsigned number[2];
	char name[40];
	if (getrandom(number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return kh_err_set(err, KH_ERR_SYSTEM, "no random bytes");
	snprintf(name, sizeof(name), "keyhole-%08x%08x", number[0], number[1]);
	if (!start_watcher(plan, out, name, folder, err) ||
	    (!plan->image && !make_image(plan, out, name, err)))
		return false;
	if (!put_create(out, plan, folder, name))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the sandbox's container");
	kh_auto_close int tar = kh_store_tar(plan->view, err);
	kh_auto_free char *place = kh_strf("%s:/", name);
	static char cp[] = "cp", dash[] = "-";
	char *copy[] = { out->path, cp, dash, place, NULL };
	const char *const start[] = { out->path, "start", "--attach", name, NULL };
	if (tar < 0 || !place || !kh_store_tool(out->argv, -1, plan->start_ms, NULL, err) ||
	    !kh_store_tool(copy, tar, plan->start_ms, NULL, err))
		return false;
	forget_words(out);
	return kh_engine_command_args(out, start) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
}

bool kh_store_prepare(const char *program, const struct kh_plan *plan,
		      struct kh_engine_command *out, struct kh_err *err)
{
	char folder[] = "/tmp/keyhole-call-XXXXXX";
	if (!check_owners(program, plan, err) || !make_folder(folder, err))
		return false;
	out->environment = environ;
	bool ok = create(plan, out, folder, err);
	/* Else the watcher does. */
	if (!ok && out->watcher <= 0)
		remove_folder(folder);
	return ok;
}
