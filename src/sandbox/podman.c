/*
 * podman.c - the engine "podman": podman run, with a root that keyhole mounts
 *
 * Like crun and runsc, podman runs in outer namespaces (outer_namespace.c), as uid 0 of a user
 * namespace with one uid, which is an ordinary one on the host, whoever starts it. Its state is in
 * memory that only it sees, so `podman ps` does not show the sandbox. All of its settings come from
 * keyhole, and it reads no configuration of the host. It is PID 1 there: conmon, which would
 * otherwise outlive it, and the container end with it, and nothing has to be removed.
 *
 *   podman ── conmon ── crun ── keyhole-init      descriptors 3 to 6 go through all of them
 *
 * As in every nested engine, the launcher sets the limits: it makes the control groups before
 * podman starts, and tells podman to make none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/program.h>
#include <keyhole/base/slice.h>

#include "outer_namespace_internal.h"
#include "sandbox_internal.h"

#define CONF "containers.conf"
#define STORAGE "storage.conf"
#define MOUNTS "mounts.conf"

/* Locks are files, since those in /dev/shm are the host's; programs are found on a PATH of ours. */
static const char settings[] = "[containers]\n"
			       "cgroups = \"disabled\"\n"
			       "default_ulimits = []\n"
			       "keyring = false\n" /* the launcher has made one */
			       "log_driver = \"none\"\n"
			       "netns = \"none\"\n"
			       "\n"
			       "[engine]\n"
			       "cgroup_manager = \"cgroupfs\"\n"
			       "events_logger = \"none\"\n"
			       "lock_type = \"file\"\n"
			       "runtime = \"crun\"\n"
			       "tmp_dir = \"" KH_OUTER_NAMESPACE_STATE "/tmp\"\n";

static const char storage[] = "[storage]\n"
			      "driver = \"vfs\"\n"
			      "graphroot = \"" KH_OUTER_NAMESPACE_STATE "/storage\"\n"
			      "runroot = \"" KH_OUTER_NAMESPACE_STATE "/run\"\n";

static char *const environment[] = {
	(char *)(uintptr_t) "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	(char *)(uintptr_t) "HOME=" KH_OUTER_NAMESPACE_STATE,
	(char *)(uintptr_t) "TMPDIR=" KH_OUTER_NAMESPACE_STATE,
	(char *)(uintptr_t) "CONTAINERS_CONF=" KH_OUTER_NAMESPACE_BUNDLE "/" CONF,
	(char *)(uintptr_t) "CONTAINERS_STORAGE_CONF=" KH_OUTER_NAMESPACE_BUNDLE "/" STORAGE,
	NULL,
};

static const char terminals[] =
	"type=bind,source=" KH_OUTER_NAMESPACE_TERMINALS ",destination=/dev/pts";
static const char hostname[] =
	"type=bind,source=" KH_OUTER_NAMESPACE_ROOT "/etc/hostname,destination=/etc/hostname,ro";

static const char mounts[] = KH_OUTER_NAMESPACE_BUNDLE "/" MOUNTS;

static const char *const isolation[] = {
	"podman",
	/* Its list of what of the host is copied into every container (containers-mounts.conf(5)),
	 * which no file of settings turns off: an empty one instead of those in /etc and /usr. */
	"--default-mounts-file",
	mounts,
	"run",
	"--network",
	"none",
	"--no-hosts",
	/* A user namespace below the outer one. */
	"--uidmap",
	"0:0:1",
	"--gidmap",
	"0:0:1",
	"--pid",
	"private",
	"--ipc",
	"private",
	"--uts",
	"private",
	"--cgroupns",
	"private",
	"--cgroups",
	"disabled",
	/* For keyhole-init, until it has bound its ports and goes into a namespace below. */
	"--cap-drop",
	"all",
	"--cap-add",
	"NET_BIND_SERVICE",
	"--cap-add",
	"NET_ADMIN",
	"--cap-add",
	"SETFCAP",
	"--security-opt",
	"no-new-privileges",
	/* keyhole-init loads a filter of its own, and makes a namespace before. */
	"--security-opt",
	"seccomp=unconfined",
	/* Profiles are the host's to load, and nobody's in a user namespace. */
	"--security-opt",
	"apparmor=unconfined",
	"--security-opt",
	"label=disable",
	"--ulimit",
	"host",
	"--http-proxy=false",
	"--image-volume",
	"ignore",
	"--no-healthcheck",
	"--sig-proxy=false",
	"--stop-timeout",
	"0",
	"--log-driver",
	"none",
	/* Four descriptors: the control socket and the command's own three. */
	"--preserve-fds",
	"4",
	"--mount",
	"type=tmpfs,destination=/dev,ro,noexec,nosuid,tmpfs-mode=0755,tmpfs-size=64k",
	"--mount",
	terminals,
	/* Its own would be over the view's. */
	"--mount",
	hostname,
	NULL,
};

/* As large as the view says that it may be. */
static bool put_shared_memory(const struct kh_view *view, struct kh_engine_command *out)
{
	char text[128] = "type=tmpfs,destination=/dev/shm,noexec,tmpfs-mode=1777";
	for (size_t i = 0; i < view->n; i++)
		if (view->list[i].size && strcmp(view->list[i].target, "/dev/shm") == 0)
			snprintf(text + strlen(text), sizeof(text) - strlen(text),
				 ",tmpfs-size=%" PRIu64, view->list[i].size);
	return kh_engine_command_arg(out, "--mount") && kh_engine_command_arg(out, text);
}

/* Podman masks most of it by itself, and its lists differ by version. */
static bool put_masks(struct kh_engine_command *out)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 1024);
	bool ok = kh_buf_append_str(&text, "mask=/sys");
	for (size_t i = 0; ok && kh_proc_masked[i]; i++)
		ok = kh_buf_printf(&text, ":%s", kh_proc_masked[i]);
	const char *words = ok ? kh_buf_cstr(&text) : NULL;
	return words && kh_engine_command_arg(out, "--security-opt") &&
	       kh_engine_command_arg(out, words);
}

static bool put_words(const struct kh_plan *plan, struct kh_engine_command *out)
{
	static const char *const sealed[] = { "--read-only", "--read-only-tmpfs=false", NULL };
	static const char root[] = KH_OUTER_NAMESPACE_ROOT;
	const char *const own[] = { "--hostname", plan->hostname, "--workdir", "/",
				    "--rootfs",	  root,		  NULL };
	bool ok = kh_engine_command_args(out, isolation) && put_masks(out) &&
		  (plan->layered || kh_engine_command_args(out, sealed)) &&
		  put_shared_memory(plan->view, out) && kh_engine_command_args(out, own);
	for (char *const *word = plan->init; ok && *word; word++)
		ok = kh_engine_command_arg(out, *word);
	return ok;
}

static bool prepare(const struct kh_plan *plan, struct kh_engine_command *out, struct kh_err *err)
{
	out->path = kh_program_find("podman");
	if (!out->path)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the sandbox: podman is not on the PATH (install it, with crun: "
				  "`apt install podman crun`, `dnf install podman`, `apk add "
				  "podman`, `pacman -S podman crun`)");
	out->environment = environment;
	out->files[0].name = CONF;
	out->files[0].text = strdup(settings);
	out->files[1].name = STORAGE;
	out->files[1].text = strdup(storage);
	out->files[2].name = MOUNTS;
	out->files[2].text = strdup("");
	out->hide_cgroups = true;
	out->seals_root = true;
	out->own_terminals = true;
	out->own_file = "/run/.containerenv";
	return (out->files[0].text && out->files[1].text && out->files[2].text &&
		put_words(plan, out)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
}

/* What podman says has been through the escaper: no quotes here. */
static const struct {
	const char *said, *means;
} meanings[] = {
	{ "unknown flag", "this podman is too old (4.0 or newer is needed): " },
	{ "does not support NoCgroups", "podman needs crun (`apt install crun`): " },
	{ "not find a working", "podman lacks a part (`apt install conmon crun`): " },
	{ "default OCI runtime", "podman needs crun (`apt install crun`): " },
	{ "invalid argument: crun", "podman needs crun (`apt install crun`): " },
};

static bool explain(const char *said, struct kh_err *err)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (strstr(said, meanings[i].said))
			return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s%s",
					  meanings[i].means, said);
	return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s",
			  said[0] ? said : "podman ended before it had begun");
}

const struct kh_engine kh_engine_podman = {
	.name = "podman",
	.about = "podman: a container of one unprivileged uid, or of one of your images",
	.nested = true,
	.by_name_only = true,
	.environ_file = true,
	.folder = "/sys",
	.limits_init = true,
	.prepare = prepare,
	.explain = explain,
};
