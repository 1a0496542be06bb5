/*
 * sandbox_internal.h - how a spec becomes a sandbox
 *
 *   spec ──▶ view (what is seen, where) ─┐
 *        ──▶ env  (variables)            ├─▶ plan ──▶ engine: a command line ──▶ launch: fork, wait
 *        ──▶ seccomp, init, control      ┘
 *
 * The view and the plan know no engine: engine.h has what one is.
 */
#ifndef KEYHOLE_SANDBOX_INTERNAL_H
#define KEYHOLE_SANDBOX_INTERNAL_H

#include <sys/socket.h>
#include <sys/stat.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/sandbox/sandbox.h>

#include "doubted.h"
#include "engine.h"
#include "bounds.h"

#define KH_SANDBOX_EMPTY "/etc/keyhole/empty"
#define KH_SANDBOX_NO_USERNS \
	"this host does not let you make user namespaces (as root: `sysctl " \
	"kernel.unprivileged_userns_clone=1` where that exists, `sysctl " \
	"user.max_user_namespaces=10000` where it is 0, and on Ubuntu 24.04 and later `sysctl " \
	"kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for keyhole and " \
	"bwrap; in a " \
	"container, its seccomp profile must allow unshare)"

/* ---- view.c: what the sandbox sees, in mounting order ---- */

enum kh_mount_kind {
	KH_MOUNT_DIR = 1, /* an empty folder of the root */
	KH_MOUNT_LINK,	  /* a symbolic link; `source` is its text */
	KH_MOUNT_FILE,	  /* a file of the root with the content of `fd`; `source`: copied from */
	KH_MOUNT_READ,	  /* a folder or file of the host, read-only */
	KH_MOUNT_WRITE,	  /* the same, writable */
	KH_MOUNT_BLANK,	  /* an empty read-only folder over `target`; `fd`: with KH_BLANK_FILE */
	KH_MOUNT_EMPTY,	  /* an empty read-only file over `target`, content from `fd` */
	KH_MOUNT_TMPFS,
	KH_MOUNT_PROC,
	KH_MOUNT_DEV,
	KH_MOUNT_LAYER,	 /* the root itself, with a writable overlay */
	KH_MOUNT_SOCKET, /* a socket of the launcher's, `fd`, under this name (rendezvous.h) */
	/* A workspace under review: UPPER is the folder with the upper layer (not mounted itself);
	 * the OVERLAY entry after it is the workspace with that overlay. */
	KH_MOUNT_UPPER,
	KH_MOUNT_OVERLAY,
	KH_MOUNT_SEAL, /* from here on `target` itself (not what is mounted in it) is read-only */
};

/* Tools that keep files of their own in such a folder begin by writing this one, and give up where
 * they can't. */
#define KH_BLANK_FILE ".gitignore"

/* Which rights the sandbox has in a tree of the host, if root starts it. */
enum kh_tree {
	KH_TREE_HOST = 0, /* part of the host view or of the previous tree: mounted as it is */
	KH_TREE_AS_IS,	  /* named by the caller: with the rights of an unrelated user */
	KH_TREE_AS_OWNER, /* named by the caller: the sandbox's uid is mapped to the tree's owner */
};

struct kh_mount {
	enum kh_mount_kind kind;
	char *source;
	char *target;
	/*
	 * FILE, EMPTY, BLANK: the content. READ, WRITE of something that an agent may have written:
	 * a descriptor of the very folder or file that was checked, so that it can't be replaced
	 * before it is mounted. -1: none. Owned.
	 */
	int fd;
	dev_t dev; /* FILE with a source: which file that was */
	ino_t ino;
	mode_t mode;
	enum kh_tree tree;
	bool is_file;	/* READ: of a file, not a folder */
	bool may_go;	/* READ: whoever removes it on the host has the name free again */
	bool read_only; /* OVERLAY */
	uint64_t size;	/* TMPFS, LAYER: what fits in; 0: what the kernel says */
};

/* Does it show a tree of the host? */
static inline bool kh_mount_is_tree(const struct kh_mount *m)
{
	return m->kind == KH_MOUNT_READ || m->kind == KH_MOUNT_WRITE || m->kind == KH_MOUNT_LAYER ||
	       m->kind == KH_MOUNT_UPPER || m->kind == KH_MOUNT_OVERLAY;
}

struct kh_view {
	struct kh_mount *list;
	size_t n, alloc;
	bool failed; /* out of memory: checked once, at the end */
};

void kh_view_fini(struct kh_view *view);
void kh_view_dir(struct kh_view *view, const char *target, mode_t mode);
void kh_view_link(struct kh_view *view, const char *text, const char *target);
void kh_view_bind(struct kh_view *view, enum kh_mount_kind kind, const char *source,
		  const char *target, enum kh_tree tree);
void kh_view_over(struct kh_view *view, enum kh_mount_kind kind, const char *target, mode_t mode);
bool kh_view_file(struct kh_view *view, const char *target, mode_t mode, struct kh_slice content,
		  struct kh_err *err);
/* Takes `fd` over. */
void kh_view_socket(struct kh_view *view, const char *target, int fd);
/* The same for something that an agent may have written: opens it now, and follows no link. */
bool kh_view_bind_held(struct kh_view *view, enum kh_mount_kind kind, const char *source,
		       const char *target, enum kh_tree tree, struct kh_err *err);
/* The same for what was held before (kh_file_hold_again). */
bool kh_view_bind_again(struct kh_view *view, enum kh_mount_kind kind, const char *source,
			const char *target, enum kh_tree tree, const int *held, struct kh_err *err);
/* The same for a descriptor (O_PATH), of which it takes ownership; `source` is its path. */
void kh_view_bind_fd(struct kh_view *view, enum kh_mount_kind kind, const char *source,
		     const char *target, enum kh_tree tree, int fd);
/* Records that the last entry, a file, is a copy of this file. */
void kh_view_copied(struct kh_view *view, const char *source, const struct stat *st);
/* Is there an entry for exactly this target already? */
bool kh_view_has(const struct kh_view *view, const char *target);

/* ---- what goes into a view ---- */

/* root.c: the host view (/usr and the like, chosen files of /etc), or the caller's root. */
bool kh_root_plan(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err);
/* A file of a root that anybody may have written, for reading: links are followed as the root's own
 * programs would, and never out of it; what not everybody may read is not read. Return: -1. */
int kh_root_open(const char *rootfs, const char *path);
/* files.c: passwd, group, hosts, resolv.conf … made for this sandbox. */
struct kh_env;
bool kh_files_plan(struct kh_view *view, const struct kh_sandbox_spec *spec,
		   const struct kh_env *env, struct kh_err *err);
/* Links to programs of the host, after what they lead through. */
bool kh_files_plan_links(struct kh_view *view, const struct kh_sandbox_spec *spec,
			 struct kh_err *err);
/* trust.c: the CA, alone and among the system's roots, over every usual path. */
bool kh_trust_plan(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err);

/* mounts_below.c: for an engine whose program makes a mount read-only, but not what is mounted
 * below it: each of those gets an entry of its own. What covers such a place stays as it is. */
bool kh_mounts_below_plan(struct kh_view *view, struct kh_err *err);

/* mountpoint.c: stubs, which a workspace lacks, made for the time of the run (runs.h). They are
 * noted in the record first; NULL: they are in it already. */
struct kh_run_record;
bool kh_mountpoint_make(const struct kh_run_record *record, const char *path,
			const struct stat *owner, struct kh_err *err);
/* The same for a file, with this content. */
bool kh_mountpoint_make_file(const struct kh_run_record *record, const char *path,
			     const char *content, const struct stat *owner, struct kh_err *err);
/* Removes a stub: an empty folder, or a file as short as ours are. No link is followed. */
void kh_mountpoint_remove(const char *path);

/* survey.c: the result of one bounded walk through a workspace. Paths are absolute; those near the
 * top come first. */
struct kh_survey {
	const char *home; /* --home: no link of the workspace may lead there (outlets.h). NULL */
	const int *root_held, *home_held; /* of the spec, or NULL (kh_file_hold_again) */
	struct kh_paths {
		char **list;
		size_t n;
	} git_folders,	   /* by their shape, or named .git */
		git_files, /* files named .git */
		trees,	   /* folders with .git in them, and git folders: where git may be */
		names,	   /* protected names (protected.h), except at the top */
		links,	   /* such names that are symbolic links */
		secrets,   /* .env files */
		sockets;
	struct kh_buf before; /* a digest of each concern (concern.h), and of each link */
	struct kh_buf reads;  /* what git reads in each of `trees` (tree_reads.h) */
	/* Files with more than one name. Not all of them where `too_many` says so. */
	struct kh_linked {
		char *path;
		dev_t dev;
		ino_t ino;
		nlink_t links;
		bool in_git; /* in a folder named .git */
	} * linked;
	size_t n_linked, alloc_linked;
	bool too_many_linked;
	size_t path_bytes;	  /* that all of these paths take */
	struct kh_stores *stores; /* while it is taken (stores.h) */
};
/* Return: false also if the walk was incomplete, since what was not seen can't be protected. */
bool kh_survey_take(struct kh_survey *survey, const char *root, struct kh_err *err);
void kh_survey_fini(struct kh_survey *survey);
/* Is it the name of a file of secrets (.env)? */
bool kh_survey_is_env_file(const char *name);

/* workspace.c: may this folder be a workspace? */
bool kh_workspace_check(const char *path, struct kh_err *err);
bool kh_workspace_plan(struct kh_view *view, const struct kh_sandbox_spec *spec,
		       struct kh_survey *survey, const struct kh_run_record *record,
		       struct kh_err *err);
/* workspace.c: mounts each folder of the workspace (or of its copy under review) above `path` onto
 * itself, so that none can be renamed. Before anything else is laid in those folders but by
 * workspace.c. */
bool kh_workspace_pin_above(struct kh_view *view, const struct kh_sandbox_spec *spec,
			    const char *path, struct kh_err *err);
/* review_mount.c: the workspace under spec->review. */
bool kh_review_plan(struct kh_view *view, const struct kh_sandbox_spec *spec,
		    struct kh_survey *survey, struct kh_err *err);
/* mask.c: warns about .env files, or masks them; masks sockets of the host. */
bool kh_mask_plan(struct kh_view *view, const struct kh_sandbox_spec *spec,
		  const struct kh_survey *survey, struct kh_err *err);

/* forbidden.c: undoes what the kernel does to names in /proc/self/mountinfo ("\040"), in place. */
void kh_forbidden_unescape(char *text);
/* forbidden.c: would any of these paths be visible? False names which, and through what. */
bool kh_forbidden_check(const struct kh_view *view, const char *const *paths, size_t n,
			struct kh_err *err);
/* The same of keyhole's own folders, the state and the cache of the spec: neither as a whole (of
 * the cache, forbidden_paths say so) nor in any part, but for the review and the root of this run.
 */
bool kh_forbidden_check_own(const struct kh_view *view, const struct kh_sandbox_spec *spec,
			    struct kh_err *err);
/* Is one of two folders in the other, or in what is mounted in it? Both exist, and their paths have
 * no links. */
bool kh_forbidden_overlap(const char *one, const char *other, bool *overlap, struct kh_err *err);
/* Where the tree at `path`, and each that is mounted in it, lies: "8:1 /folder", by device. `fd`:
 * the tree is held, and nothing goes by its path; -1. */
bool kh_forbidden_places(const char *path, int fd, bool (*each)(void *arg, const char *where),
			 void *arg, struct kh_err *err);

/* process.c: does the kernel have Landlock, so that the command can't reopen its descriptors by
 * name? */
bool kh_sandbox_has_landlock(void);

/* ---- env.c ---- */

struct kh_env {
	struct kh_env_var *list;
	size_t n, alloc;
	bool failed;
};
void kh_env_fini(struct kh_env *env);
/* Replaces one of that name. */
void kh_env_set(struct kh_env *env, const char *name, const char *value);
const char *kh_env_get(const struct kh_env *env, const char *name);
bool kh_env_fill(struct kh_env *env, const struct kh_sandbox_spec *spec, struct kh_err *err);

/* ---- seccomp.c ---- */

/* Appends the two programs of the filter as classic BPF, which keyhole-init loads in this order:
 * the calls that there are, and what of them is refused. `controlling`: the command may make a
 * terminal its controlling one, which one of the caller's must not become. */
bool kh_seccomp_programs(struct kh_buf *allowed, struct kh_buf *refused_too, bool controlling,
			 struct kh_err *err);

/* ---- proc_paths.c: proc_paths.c: files of /proc that show or change something of the host;
 * NULL-terminated ---- */

extern const char *const kh_proc_masked[], *const kh_proc_read_only[];

/* ---- core_limit.c: a crash starts no handler on the host ---- */

/* Sets the limit of this process and its children. Only root can raise a hard limit of 0. */
void kh_core_limit(void);
/* Warns if the host's settings start a program at a crash anyway. */
void kh_core_warn(void);

/* ---- idmap.c: root only: folders of any owner made usable by the sandbox's uid ---- */

struct kh_idmap {
	struct kh_idmap_tree {
		char *source; /* on the host */
		int fd;	      /* of it, the view's; -1 */
		char *staged; /* where it is in the launcher's private mount namespace */
		int userns;   /* whose maps swap the owner and the sandbox's uid; -1: as it is */
		bool is_dir;
	} * list;
	size_t n;
	const struct kh_view *view;
	uid_t uid;
	gid_t gid;
};
/* Plans ID-mapped mounts for the caller's trees, and replaces their sources (and those below) in
 * the view. */
bool kh_idmap_plan(struct kh_idmap *idmap, struct kh_view *view, uid_t uid, gid_t gid,
		   struct kh_err *err);
/* In the forked child: makes a mount namespace with these trees, then changes to the sandbox's uid
 * for good. */
bool kh_idmap_enter(const struct kh_idmap *idmap, struct kh_err *err);
void kh_idmap_fini(struct kh_idmap *idmap);

/* ---- terminal.c: the terminal outside and the one inside ---- */

/* The most terminals in a sandbox's devpts, if the engine supports the option: the kernel has 4,096
 * for all, which one sandbox could use up. */
#define KH_TERMINALS_MOST "512"

struct kh_terminal {
	int master; /* -1: none (yet) */
	int out;    /* the outer one, opened non-blocking; STDOUT_FILENO if it can't be opened */
	bool raw;
	bool input_open;
	char *termios; /* the outer one, as it was */
	char to_master[4096], to_outer[4096];
	size_t to_master_len, to_outer_len;
};
void kh_terminal_init(struct kh_terminal *terminal);
/* Takes ownership of the master, and sets the outer terminal to raw mode. */
bool kh_terminal_attach(struct kh_terminal *terminal, int master, struct kh_err *err);
void kh_terminal_resize(const struct kh_terminal *terminal);
/* What to poll for, on standard input, standard output and the master. */
short kh_terminal_wants(const struct kh_terminal *terminal, int which);
enum { KH_TERMINAL_IN, KH_TERMINAL_OUT, KH_TERMINAL_MASTER };
/* Return: false when the inner side has ended. */
bool kh_terminal_move(struct kh_terminal *terminal, short in, short out, short master);
/* Writes the remaining output, and restores the outer terminal. */
void kh_terminal_finish(struct kh_terminal *terminal);

/* ---- pump.c: bytes between a descriptor of the caller's and a pipe ---- */

struct kh_pump {
	pid_t pid;	/* -1: none */
	int start_pipe; /* input: a pipe; a byte written here starts the pump; -1 */
	bool input;
};
/* Starts a pump that reads from `fd` (input) or writes to it. *end is the command's end of the
 * pipe, which the caller closes. */
bool kh_pump_begin(struct kh_pump *pump, int fd, bool input, int *end, struct kh_err *err);
/* Waits until everything is written. Every other copy of the pipe's ends must be closed by then. */
void kh_pump_end(struct kh_pump *pump);

/* ---- workspace_guard.c: protects files again that the host has replaced ---- */

struct kh_workspace_guard {
	int fd; /* readable when there is something to look at; -1 */
	const struct kh_view *view;
	const char *workspace;
	const struct kh_run_record *record; /* for stubs that have to be made anew */
	struct kh_workspace_guard_watch {
		int wd;
		char *folder;
	} * watches;
	size_t n_watches;
	bool *touched; /* by the view's index: has to be checked */
	size_t n_touched, next;
	size_t added_bytes; /* to the record's list of what is guarded (doubted.h) */
	struct kh_workspace_guard_name {
		struct kh_doubted_id id; /* what was protected last under this name */
		uint64_t touched_ms;	 /* since when it waits */
		/* Of the content at the beginning. */
		char digest[KH_DOUBTED_DIGEST_ROOM];
		bool was_shown;	 /* a new file had no mask for a moment */
		bool is_doubted; /* which is in the run's record (doubted.h) */
		bool is_stub;	 /* which is in it as well, and needs no second note */
	} * names;		 /* by the view's index */
	struct kh_err err;	 /* the record could not be written */
	bool served; /* the `init` passed below is the process that opens files for an engine's own
			kernel */
};
bool kh_workspace_guard_begin(struct kh_workspace_guard *guard, const struct kh_view *view,
			      const char *workspace, struct kh_err *err);
/* Reads some of the events and handles at most one entry. `init`: the pid of keyhole-init on the
 * host. Return: false with `err`: the sandbox must end. */
bool kh_workspace_guard_look(struct kh_workspace_guard *guard, pid_t init, struct kh_err *err);
/* The launcher goes on after somebody stopped it (SIGSTOP): what was replaced meanwhile may be the
 * agent's by now. */
void kh_workspace_guard_doubt(struct kh_workspace_guard *guard);
/* Looks at all again. */
void kh_workspace_guard_touch_all(struct kh_workspace_guard *guard);
/* workspace_guard_stop.c: stops this process, and returns when it goes on. Return: as
 * kh_workspace_guard_look. */
bool kh_workspace_guard_stop(struct kh_workspace_guard *guard, pid_t init, struct kh_err *err);
/* When another call is due, even if `fd` is not readable; -1: not at all. */
int kh_workspace_guard_wait_ms(const struct kh_workspace_guard *guard);
void kh_workspace_guard_end(struct kh_workspace_guard *guard);
/* workspace_guard_mount.c: mounts one entry again if it is missing in the namespace of `init`.
 * Return: it is protected. */
bool kh_workspace_guard_mount(const struct kh_workspace_guard *guard, const struct kh_mount *entry,
			      pid_t init);

/* ---- launch.c ---- */

struct kh_init_message;

struct kh_launch {
	const struct kh_engine *engine;
	struct kh_engine_command *command;
	const struct kh_view *view;
	const struct kh_idmap *idmap; /* NULL: no ID-mapped mounts */
	int control;		      /* our end */
	int control_peer;	      /* inherited by the init */
	bool tty;
	/* The command's three, for keyhole-init that connects. */
	const int *stdio;
	int start_pipe; /* a byte is written there when the command runs (kh_pump); -1. Not
			       owned */
	int listener;	/* the socket that the init connects to (connects); -1. Not owned, like the
			   next */
	int socket_dir; /* of the proxy's socket (uplink); -1 */
	int uplink[2];	/* the ends of the stand-by process and of the sandbox; -1 */
	int pty_master, pty_slave; /* a terminal of ours that the program passes on; -1 */
	struct kh_workspace_guard *guard;
	const struct kh_run_record *record; /* gets the pid of PID 1 */
	const struct kh_sandbox_bounds *limits;
	uint64_t timeout_ms, start_ms;
	const char *name; /* of the command, for messages */
	bool started;	  /* result: keyhole-init reported that the command runs */
	bool lingers;	  /* result: a process of the sandbox may still run */
};
bool kh_launch(struct kh_launch *launch, int *status, struct kh_err *err);
/* opener.c: finds the descendant of `program` that opens files for the engine's own kernel. Return:
 * its pid; -1. */
pid_t kh_opener_find(pid_t program);
/* launch_message.c: receives a message without blocking. *fd: its descriptor, the caller's (-1:
 * none; if there are several, all are closed). *sender: the sender's pid, or -1. Return: as
 * recvmsg. */
ssize_t kh_launch_receive(int control, struct kh_init_message *message, int *fd, pid_t *sender);
void kh_launch_watch_control(int control);
/* launch_child.c: runs in the forked child; on failure it writes the reason to `report`. */
_Noreturn void kh_launch_child(const struct kh_launch *launch, pid_t parent, int report,
			       int complaints);

/* ---- sandbox.c, trial.c ---- */

/* Runs with this engine. *started (may be NULL): the command ran, however it ended. */
bool kh_sandbox_run_with(const struct kh_sandbox_spec *spec, const struct kh_engine *engine,
			 int *status, bool *started, struct kh_err *err);
/* Runs with the strongest engine that works (--engine auto). */
bool kh_sandbox_run_strongest(const struct kh_sandbox_spec *spec, int *status, struct kh_err *err);

#endif
