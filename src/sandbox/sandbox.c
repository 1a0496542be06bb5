/* sandbox.c - from a spec to a sandbox: builds the view and the environment, and starts the
 * engine */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/sandbox/workspace.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>
#include <keyhole/base/writable.h>

#include "build_internal.h"
#include "git_path.h"
#include "homes.h"
#include "mount_spelling.h"
#include "outlets.h"
#include "rendezvous.h"
#include "runs_others.h"
#include "store.h"
#include "trees.h"
#include "uplink.h"
#include "sandbox_internal.h"
#include "second_mount.h"

enum { INIT_MOST_BYTES = 8 * 1024 * 1024, FILTER_MOST_BYTES = 32 * 1024 };

static void build_init(struct kh_build *b)
{
	memset(b, 0, sizeof(*b));
	kh_run_record_init(&b->record);
	b->limits.alive = -1;
	b->guard = (struct kh_workspace_guard){ .fd = -1, .record = &b->record };
	kh_engine_command_init(&b->command);
	b->control = b->control_peer = b->listener = b->pty_master = b->pty_slave = -1;
	b->uplink[0] = b->uplink[1] = b->socket_dir = -1;
	for (int i = 0; i < 3; i++) {
		b->stdio[i] = -1;
		b->pumps[i].pid = b->pumps[i].start_pipe = -1;
		b->before[i].flags = -1;
	}
}

/* What a workspace needs is done whoever reads what the command or keyhole says. Return: false: it
 * was not, and that was said. */
static bool build_fini(struct kh_build *b)
{
	kh_log_hold();
	int *fds[] = { &b->control,   &b->control_peer, &b->pty_master, &b->pty_slave,
		       &b->uplink[0], &b->uplink[1],	&b->socket_dir };
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		kh_cleanup_close(fds[i]);
	kh_publish_end(&b->publish);
	kh_stdio_close(b);
	kh_engine_command_fini(&b->command);
	kh_bounds_end(&b->limits);
	kh_workspace_guard_end(&b->guard);
	/* Before anything in the workspace is put in order. */
	if (b->started)
		kh_changed_warn(&b->changed);
	kh_changed_fini(&b->changed);
	kh_idmap_fini(&b->idmap);
	bool surveyed = kh_run_record_end(&b->record, !b->lingers);
	kh_stdio_end(b);
	kh_env_fini(&b->env);
	kh_view_fini(&b->view);
	if (!b->holds_log || !b->started)
		kh_log_release();
	return surveyed;
}

/* ---- the view ---- */

/* Beside the binary (a build tree), else where `make install` puts it. */
static char *find_init(const char *given)
{
	if (given)
		return strdup(given);
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		self[n] = '\0';
		char *slash = strrchr(self, '/');
		*slash = '\0';
		kh_auto_free char *beside = kh_strf("%s/keyhole-init", self);
		if (beside && access(beside, R_OK) == 0)
			return kh_steal_ptr(&beside);
		kh_auto_free char *installed = kh_strf("%s/../libexec/keyhole/keyhole-init", self);
		if (installed && access(installed, R_OK) == 0)
			return kh_steal_ptr(&installed);
	}
	return strdup(KH_LIBEXECDIR "/keyhole-init");
}

/* A copy in the sandbox's own root: the path of the original need not be open to the sandbox's
 * uid. */
static bool plan_init(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	kh_auto_free char *path = find_init(spec->init_path);
	struct kh_buf binary kh_cleanup(kh_buf_fini);
	kh_buf_init(&binary, INIT_MOST_BYTES);
	if (!path || !kh_file_read(path, &binary, err))
		return kh_err_wrap(err, "keyhole-init (is keyhole installed as a whole?)");
	struct kh_buf calls kh_cleanup(kh_buf_fini), filter kh_cleanup(kh_buf_fini);
	kh_buf_init(&calls, FILTER_MOST_BYTES);
	kh_buf_init(&filter, FILTER_MOST_BYTES);
	if (!kh_view_file(view, INIT_INSIDE, 0555, kh_buf_view(&binary), err) ||
	    !kh_seccomp_programs(&calls, &filter, !kh_stdio_has_free_terminal(spec), err) ||
	    !kh_view_file(view, CALLS_INSIDE, 0444, kh_buf_view(&calls), err) ||
	    !kh_view_file(view, FILTER_INSIDE, 0444, kh_buf_view(&filter), err))
		return false;
	/* Where the root can be written to, these can't. */
	for (size_t i = view->n - 3; spec->layer && !view->failed && i < view->n; i++)
		view->list[i].kind = KH_MOUNT_EMPTY;
	return true;
}

static bool sees_held(struct kh_buf *sees, const char *path, const int *held, bool writable,
		      struct kh_err *err)
{
	kh_auto_close int fd = kh_file_hold_again(path, held, err);
	return fd >= 0 && kh_run_sees(sees, path, fd, writable, err);
}

/* What this run sees of the host, and where it may write: all that is laid, the workspace, which is
 * laid after it, and the proxy's folder. */
static bool note_sees(struct kh_buf *sees, const struct kh_view *view,
		      const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	bool writable = !spec->workspace_read_only;
	for (size_t i = 0; i < view->n; i++)
		if (kh_mount_is_tree(&view->list[i]) &&
		    !kh_run_sees(sees, view->list[i].source, view->list[i].fd,
				 view->list[i].kind == KH_MOUNT_WRITE, err))
			return false;
	return sees_held(sees, spec->socket_dir, spec->socket_dir_judged, false, err) &&
	       (!spec->workspace || sees_held(sees, spec->workspace, spec->workspace_held,
					      writable && !spec->review, err)) &&
	       (!spec->review || sees_held(sees, spec->review->folder, NULL, writable, err));
}

static bool plan_workspace(struct kh_build *b, const struct kh_sandbox_spec *spec,
			   struct kh_err *err)
{
	struct kh_survey survey kh_cleanup(kh_survey_fini) = { .home = spec->home,
							       .root_held = spec->workspace_held,
							       .home_held = spec->home_held };
	struct kh_buf sees kh_cleanup(kh_buf_fini);
	bool recorded = spec->workspace && !spec->workspace_read_only && !spec->review;
	kh_buf_init(&sees, KH_RUN_SEES_BYTES);
	if (spec->workspace &&
	    !(spec->workspace_read_only
		      ? kh_workspace_check(spec->workspace, err)
		      : kh_workspace_may_be(spec->workspace, err) &&
				kh_outlets_check_homes(spec->state, spec->workspace, err)))
		return false;
	if (!kh_second_mount_check(spec, err))
		return false;
	b->record.workspace_held = spec->workspace_held;
	b->record.home_held = spec->home_held;
	if (!note_sees(&sees, &b->view, spec, err) ||
	    !kh_run_record_begin(&b->record, spec->state, recorded ? spec->workspace : NULL,
				 spec->home, kh_buf_view(&sees), err))
		return false;
	if (!spec->workspace)
		return true;
	if (!kh_survey_take(&survey, spec->workspace, err))
		return false;
	if (!recorded)
		return (spec->review ? kh_review_plan(&b->view, spec, &survey, err)
				     : kh_workspace_plan(&b->view, spec, &survey, NULL, err)) &&
		       kh_mask_plan(&b->view, spec, &survey, err);
	if (!kh_run_record_lock(&b->record, err))
		return false;
	bool ok = kh_workspace_plan(&b->view, spec, &survey, &b->record, err) &&
		  kh_mask_plan(&b->view, spec, &survey, err) &&
		  kh_run_record_before(&b->record, kh_buf_view(&survey.before),
				       kh_buf_view(&survey.reads), err);
	kh_run_record_unlock(&b->record);
	return ok;
}

static bool plan_environ(struct kh_build *b, struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_INIT_ENVIRON_BYTES);
	bool ok = true;
	for (size_t i = 0; ok && i < b->env.n; i++)
		ok = kh_buf_printf(&text, "%s=%s", b->env.list[i].name, b->env.list[i].value) &&
		     kh_buf_append_char(&text, '\0');
	if (!ok)
		return kh_err_set(err, KH_ERR_USAGE, "--env: more than %d bytes altogether",
				  KH_LIMIT_INIT_ENVIRON_BYTES);
	return kh_view_file(&b->view, ENVIRON_INSIDE, 0444, kh_buf_view(&text), err);
}

/* A folder that another program named: `held` is the one that was judged, and shows nothing that is
 * forbidden. As it is mounted, it is looked at again whether it is what is held. */
static bool judge_way_out(const struct kh_sandbox_spec *spec, int held, struct kh_err *err)
{
	struct stat judged, there;
	if (!spec->socket_dir_judged)
		return true;
	if (fstat(*spec->socket_dir_judged, &judged) != 0 || fstat(held, &there) != 0 ||
	    judged.st_dev != there.st_dev || judged.st_ino != there.st_ino)
		return kh_err_set(err, KH_ERR_SYSTEM, "%s was replaced in that moment",
				  kh_esc_str(spec->socket_dir));
	kh_auto_free char *source = strdup(spec->socket_dir);
	struct kh_mount only = {
		.kind = KH_MOUNT_READ, .source = source, .fd = -1, .tree = KH_TREE_AS_IS
	};
	const struct kh_view view = { .list = &only, .n = 1 };
	return source ? kh_forbidden_check(&view, spec->forbidden_paths, spec->n_forbidden, err)
		      : kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
}

static bool plan_way_out(struct kh_build *b, const struct kh_sandbox_spec *spec,
			 const struct kh_engine *engine, struct kh_err *err)
{
	if (engine->uplink) {
		kh_view_dir(&b->view, KH_SANDBOX_RUN, 0755);
		b->socket_dir = kh_file_hold(spec->socket_dir);
		if (b->socket_dir < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s",
					  kh_esc_str(spec->socket_dir));
		return judge_way_out(spec, b->socket_dir, err);
	}
	if (!kh_view_bind_held(&b->view, KH_MOUNT_READ, spec->socket_dir, KH_SANDBOX_RUN,
			       KH_TREE_AS_IS, err) ||
	    b->view.failed || !judge_way_out(spec, b->view.list[b->view.n - 1].fd, err))
		return false;
	if (!engine->connects)
		return true;
	b->listener = kh_rendezvous_new(err);
	if (b->listener >= 0)
		kh_view_socket(&b->view, RENDEZVOUS_INSIDE, b->listener);
	return b->listener >= 0;
}

/* Later entries cover earlier ones. */
static bool plan_all(struct kh_build *b, const struct kh_sandbox_spec *spec,
		     const struct kh_engine *engine, struct kh_err *err)
{
	struct kh_view *view = &b->view;
	if (!kh_files_plan(view, spec, &b->env, err) || !kh_trust_plan(view, spec, err) ||
	    !kh_root_plan(view, spec, err) || !plan_init(view, spec, err) ||
	    !kh_homes_plan(view, spec, err) || !kh_given_plan_read_only(view, spec, err) ||
	    !kh_files_plan_links(view, spec, err) || !plan_workspace(b, spec, err) ||
	    !kh_trees_cover(view, err) ||
	    !kh_mount_spelling_check(view, &kh_mount_spelling_kernel, err))
		return false;
	if (spec->directory && !kh_view_has(view, spec->directory))
		kh_view_dir(view, spec->directory, 0755);
	if (engine->folder)
		kh_view_dir(view, engine->folder, 0755);
	if (engine->environ_file && !plan_environ(b, err))
		return false;
	if (!kh_given_check_forbidden(view, spec, err))
		return false;
	if (!plan_way_out(b, spec, engine, err) ||
	    (engine->called && !kh_mounts_below_plan(view, err)))
		return false;
	if (!spec->layer)
		kh_view_over(view, KH_MOUNT_SEAL, "/", 0);
	for (size_t i = 0; i < view->n; i++)
		if (view->list[i].kind == KH_MOUNT_TMPFS || view->list[i].kind == KH_MOUNT_LAYER)
			view->list[i].size = spec->limits.disk_bytes;
	return !view->failed || kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
}

/* ---- standard descriptors ---- */

/* Where the kernel inside can't hand out one of its own. */
static bool make_terminal(struct kh_build *b, const struct kh_sandbox_spec *spec,
			  struct kh_err *err)
{
	char name[64];
	b->pty_master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (b->pty_master < 0 || grantpt(b->pty_master) != 0 || unlockpt(b->pty_master) != 0 ||
	    ptsname_r(b->pty_master, name, sizeof(name)) != 0 ||
	    (b->pty_slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "making a terminal");
	/* Before anybody is told of a new size. */
	struct winsize size;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		(void)ioctl(b->pty_master, TIOCSWINSZ, &size);
	return geteuid() != 0 ||
	       fchown(b->pty_slave, kh_build_host_uid(spec), kh_build_host_gid(spec)) == 0 ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "giving the sandbox a terminal");
}

static bool take_stdio(struct kh_build *b, const struct kh_sandbox_spec *spec,
		       const struct kh_engine *engine, char tty[4], struct kh_err *err)
{
	return kh_stdio_take(b, spec, tty, err) &&
	       (!*tty || !engine->own_kernel || make_terminal(b, spec, err));
}

static uint64_t start_ms(const struct kh_sandbox_spec *spec)
{
	return spec->start_ms ? spec->start_ms : KH_LIMIT_SANDBOX_START_MS;
}

static bool prepare(struct kh_build *b, const struct kh_sandbox_spec *spec,
		    const struct kh_engine *engine, struct kh_err *err)
{
	char tty[4];
	int pair[2];
	if (!take_stdio(b, spec, engine, tty, err))
		return false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a socket pair");
	b->control = pair[0];
	b->control_peer = pair[1];
	if (!kh_build_ports(b->ports, sizeof(b->ports), spec, err))
		return false;
	struct kh_words words kh_cleanup(kh_words_fini) = { 0 };
	if (!kh_build_words(&words, b, spec, engine, tty))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
	struct kh_plan plan = {
		.view = &b->view,
		.env = &b->env,
		.hostname = "sandbox",
		.init = words.list,
		.layered = spec->layer,
		.nested = engine->nested,
		.image = spec->image,
		.volumes = spec->volumes,
		.limits = &spec->limits,
		.start_ms = start_ms(spec),
		.uid = geteuid() == 0 ? kh_build_host_uid(spec) : geteuid(),
		.gid = geteuid() == 0 ? kh_build_host_gid(spec) : getegid(),
		.terminal = b->pty_slave >= 0,
	};
	if (!engine->prepare(&plan, &b->command, err))
		return false;
	if (engine->uplink)
		return kh_uplink_make(b->uplink, b->control_peer, b->stdio, err);
	if (engine->connects)
		return true;
	const int inherited[] = { b->control_peer, b->stdio[0], b->stdio[1], b->stdio[2] };
	for (size_t i = 0; i < sizeof(inherited) / sizeof(inherited[0]); i++)
		if (!kh_engine_command_fd(&b->command, inherited[i]))
			return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
	return true;
}

static bool note_writable(const char *path, const int *held, const char *what,
			  enum kh_writable_for use, struct kh_err *err)
{
	if (!path)
		return true;
	kh_auto_close int fd = kh_file_hold_again(path, held, err);
	if (fd < 0)
		return kh_err_wrap(err, "%s", what);
	return kh_writable_add_held(fd, what, use) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", what);
}

static bool run(struct kh_build *b, const struct kh_sandbox_spec *spec,
		const struct kh_engine *engine, int *status, struct kh_err *err)
{
	if (!note_writable(spec->workspace, spec->workspace_held, "the workspace",
			   KH_WRITABLE_FOR_PROGRAMS, err) ||
	    !note_writable(spec->home, spec->home_held, "--home", KH_WRITABLE_FOR_ALL, err))
		return false;
	kh_env_set(&b->env, "PWD", kh_build_directory(spec));
	if (!kh_env_fill(&b->env, spec, err) || !plan_all(b, spec, engine, err))
		return false;
	/* The agent can't write into a workspace under review, whatever the host does there. */
	if (spec->workspace && !spec->review &&
	    (!kh_workspace_guard_begin(&b->guard, &b->view, spec->workspace, err) ||
	     !kh_changed_note(&b->changed, &b->view, spec->workspace, false, err)))
		return false;
	bool root = geteuid() == 0;
	uid_t uid = kh_build_host_uid(spec);
	gid_t gid = kh_build_host_gid(spec);
	if (root && (uid == 0 || gid == 0))
		return kh_err_set(err, KH_ERR_USAGE, "a sandbox never runs as root");
	/* The program of a store is the host's, and works for who started it. */
	bool idmapped = root && !engine->called;
	static const struct kh_sandbox_limits none = { 0 };
	if (idmapped && !kh_idmap_plan(&b->idmap, &b->view, uid, gid, err))
		return false;
	if (!kh_bounds_begin(&b->limits, engine->called ? &none : &spec->limits, engine->own_kernel,
			     err) ||
	    !prepare(b, spec, engine, err) || !kh_publish_begin(&b->publish, spec, b->control, err))
		return false;
	struct kh_launch launch = {
		.engine = engine,
		.command = &b->command,
		.view = &b->view,
		.idmap = idmapped ? &b->idmap : NULL,
		.stdio = b->stdio,
		.start_pipe = b->pumps[STDIN_FILENO].start_pipe,
		.control = b->control,
		.control_peer = kh_steal_fd(&b->control_peer),
		.listener = b->listener,
		.uplink = { kh_steal_fd(&b->uplink[0]), kh_steal_fd(&b->uplink[1]) },
		.socket_dir = b->socket_dir,
		.pty_master = kh_steal_fd(&b->pty_master),
		.pty_slave = b->pty_slave,
		.tty = spec->tty,
		.guard = &b->guard,
		.record = &b->record,
		.limits = &b->limits,
		.timeout_ms = spec->limits.timeout_ms,
		.start_ms = start_ms(spec),
		.name = spec->argv[0],
	};
	if (strcmp(spec->engine, "auto") == 0)
		kh_log_info("the sandbox: engine %s", engine->name);
	kh_core_warn();
	bool ok = kh_launch(&launch, status, err);
	b->started = launch.started;
	b->lingers = launch.lingers;
	return ok;
}

/* A workspace that nobody has looked at is no success. */
static bool run_built(struct kh_build *b, const struct kh_sandbox_spec *spec,
		      const struct kh_engine *engine, int *status, bool *started,
		      struct kh_err *err)
{
	bool ok = run(b, spec, engine, status, err);
	*started = b->started;
	if (!build_fini(b) && ok && *status == 0)
		*status = KH_INIT_FAILED;
	return ok;
}

/* What the image says is what the spec does not say. */
static bool run_image(const struct kh_sandbox_spec *given, const struct kh_engine *engine,
		      int *status, bool *started, struct kh_err *err)
{
	struct kh_store_image image kh_cleanup(kh_store_image_fini) = { 0 };
	if (!kh_store_inspect(engine->name, given->image, start_ms(given), &image, err))
		return false;
	struct kh_sandbox_spec spec = *given;
	spec.root_env = image.env;
	spec.n_root_env = image.n_env;
	spec.directory = image.directory;
	spec.volumes = image.volumes;
	kh_auto_free char **argv = kh_store_argv(&image, given, err);
	if (!argv)
		return false;
	spec.argv = argv;
	struct kh_build b;
	build_init(&b);
	b.holds_log = given->holds_log;
	return run_built(&b, &spec, engine, status, started, err);
}

bool kh_sandbox_run_with(const struct kh_sandbox_spec *spec, const struct kh_engine *engine,
			 int *status, bool *started, struct kh_err *err)
{
	bool unasked;
	started = started ? started : &unasked;
	*started = false;
	if (spec->image && engine->has_store)
		return run_image(spec, engine, status, started, err);
	if (spec->layer && engine->called)
		return kh_err_set(
			err, KH_ERR_USAGE,
			"--engine %s: can't mount a layer over a folder (--image runs an image "
			"that can be written to)",
			engine->name);
	bool overlay = spec->review && spec->review->overlay;
	if (overlay && engine->called)
		return kh_err_set(err, KH_ERR_USAGE,
				  "--engine %s: lays no overlay over a workspace (a review that "
				  "is a copy works)",
				  engine->name);
	struct kh_build b;
	if ((spec->layer || overlay) && engine->layered)
		engine = engine->layered;
	build_init(&b);
	b.holds_log = spec->holds_log;
	return run_built(&b, spec, engine, status, started, err);
}

bool kh_sandbox_run(const struct kh_sandbox_spec *spec, int *status, struct kh_err *err)
{
	if (strcmp(spec->engine, "auto") == 0)
		return kh_sandbox_run_strongest(spec, status, err);
	const struct kh_engine *engine = kh_engine_find(spec->engine, err);
	return engine && kh_sandbox_run_with(spec, engine, status, NULL, err);
}
