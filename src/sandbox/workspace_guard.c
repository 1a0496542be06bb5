/*
 * workspace_guard.c - keeps names of a workspace protected while the host replaces files in it
 *
 * A mount is attached to a file, not to a name. When somebody on the host replaces the file (`git
 * config` writes a new one and renames it over the old), the mount in the sandbox is gone, and the
 * sandbox can write to the new file. So the launcher watches the folders of protected names, and
 * mounts again (workspace_guard_mount.c).
 *
 * Between the host's rename and the new mount there is about a millisecond in which an agent that
 * waits for it can write. keyhole can't prevent that, so the survey after the run judges what was
 * replaced (doubted.h). If the file can't be mounted again, or a folder above it was replaced, the
 * launcher ends the sandbox.
 *
 * Agent and host can change files in these folders as fast as they like. So each call reads a
 * bounded number of events, marks the entries that they concern, and handles one entry, in order.
 * The rest waits for the next call, so that the launcher can do its other work in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>

#include "doubted.h"
#include "protected.h"
#include "runs.h"
#include "sandbox_internal.h"

enum {
	ROUNDS = 3, /* replaced again meanwhile, and again: that is no accident */
	ABSENT_MS =
		100,   /* between an editor's removing of the old file and its making of the new */
	EXITING = 0x4, /* PF_EXITING of the kernel, in the flags of /proc/PID/stat */
	NAMES_BYTES = 4096,
	ADDED_BYTES = 64 * 1024,
	LAST_LOOKS = 1024,	 /* more than the kernel keeps (fs.inotify.max_queued_events) */
	EVENT_BYTES = 32 * 1024, /* a thousand changes a look */
	WATCHED = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR,
};

static struct kh_workspace_guard_watch *watch_of(struct kh_workspace_guard *guard, int wd)
{
	for (size_t i = 0; i < guard->n_watches; i++)
		if (guard->watches[i].wd == wd)
			return &guard->watches[i];
	return NULL;
}

static bool watch_parent(struct kh_workspace_guard *guard, const char *path, struct kh_err *err)
{
	const char *slash = strrchr(path, '/');
	kh_auto_free char *folder = kh_slice_dup(kh_slice_of(path, (size_t)(slash - path)));
	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	int wd = inotify_add_watch(guard->fd, folder, WATCHED);
	if (wd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "watching %s", kh_esc_str(folder));
	if (watch_of(guard, wd))
		return true;
	struct kh_workspace_guard_watch *list =
		reallocarray(guard->watches, guard->n_watches + 1, sizeof(*list));
	if (!list)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	guard->watches = list;
	list[guard->n_watches++] = (struct kh_workspace_guard_watch){ wd, kh_steal_ptr(&folder) };
	return true;
}

static bool is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

/* A mount lies over its name, so that nobody but the host can have removed what was there. */
static bool holds_its_name(const struct kh_mount *entry)
{
	return (entry->kind == KH_MOUNT_READ && !entry->may_go) || entry->kind == KH_MOUNT_BLANK;
}

static size_t names_bytes(const struct kh_view *view)
{
	return (view->n + 1) * sizeof(struct kh_workspace_guard_name);
}

/* ---- the record ---- */

static bool note_all(struct kh_workspace_guard *guard, struct kh_err *err)
{
	struct kh_buf note kh_cleanup(kh_buf_fini);
	kh_buf_init(&note, KH_LIMIT_SURVEY_GUARDED_BYTES);
	for (size_t i = 0; i < guard->view->n; i++) {
		const struct kh_mount *entry = &guard->view->list[i];
		if (holds_its_name(entry) && guard->names[i].id.ino &&
		    !kh_doubted_guarded(&note, entry->target, &guard->names[i].id,
					guard->names[i].digest))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "--workspace: more protected names than can be noted in "
					  "%d MiB (take a smaller folder)",
					  KH_LIMIT_SURVEY_GUARDED_BYTES >> 20);
	}
	guard->added_bytes = 0;
	return kh_buf_len(&note) == 0 ||
	       kh_doubted_guard(guard->record->path, kh_buf_view(&note), false, err);
}

/* What it says of the name before counts no more. So that the list does not grow with each file
 * that the host saves, it is written anew from time to time. */
static bool note_one(struct kh_workspace_guard *guard, size_t i, struct kh_err *err)
{
	struct kh_buf note kh_cleanup(kh_buf_fini);
	kh_buf_init(&note, KH_LIMIT_SURVEY_PATH_BYTES + 256);
	if (guard->added_bytes > ADDED_BYTES)
		return note_all(guard, err);
	const struct kh_workspace_guard_name *name = &guard->names[i];
	if (!kh_doubted_guarded(&note, guard->view->list[i].target, &name->id, name->digest))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	guard->added_bytes += kh_buf_len(&note);
	return kh_doubted_guard(guard->record->path, kh_buf_view(&note), true, err);
}

/* ---- the beginning ---- */

bool kh_workspace_guard_begin(struct kh_workspace_guard *guard, const struct kh_view *view,
			      const char *workspace, struct kh_err *err)
{
	guard->view = view;
	guard->workspace = workspace;
	guard->touched = calloc(view->n, sizeof(*guard->touched));
	/* What the launcher's child hears while this is stopped, it hears for us. */
	guard->names = mmap(NULL, names_bytes(view), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (guard->names == MAP_FAILED)
		guard->names = NULL;
	if (!guard->touched || !guard->names)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	guard->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (guard->fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno,
				  "watching the workspace (is fs.inotify.max_user_instances too "
				  "low?)");
	for (size_t i = 0; i < view->n; i++) {
		const char *path = view->list[i].target;
		if (!is_below(path, workspace))
			continue;
		if (!watch_parent(guard, path, err))
			return false;
		guard->names[i].is_stub = view->list[i].kind == KH_MOUNT_BLANK;
		(void)kh_doubted_identify(path, &guard->names[i].id);
		if (holds_its_name(&view->list[i]))
			(void)kh_doubted_digest(path, guard->names[i].digest);
	}
	return note_all(guard, err);
}

/* ---- during the run ---- */

/* PID 1 of the sandbox is dead or dying, and with it all that could write: it has let go of its
 * mounts before it has waited for the others. A number that was given anew counts as alive. */
static bool has_ended(pid_t init)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)init);
	kh_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (n < 0)
		return errno == ENOENT || errno == ESRCH;
	text[n] = '\0';
	const char *name_end = strrchr(text, ')'); /* " S …" comes after it */
	char state = 0;
	unsigned flags = 0;
	if (!name_end || sscanf(name_end, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return false;
	return state == 'Z' || state == 'X' || (flags & EXITING);
}

static bool is_named(const char *path, const char *folder, const char *name)
{
	return is_below(path, folder) && strcmp(path + strlen(folder) + 1, name) == 0;
}

/* What was taken away for good is made anew, empty, so that the agent can't take the name. */
static bool make_anew(struct kh_workspace_guard *guard, size_t index, struct kh_err *err)
{
	const struct kh_mount *entry = &guard->view->list[index];
	/* However often the host removes it: the list of stubs has one note of each. */
	const struct kh_run_record *record = guard->names[index].is_stub ? NULL : guard->record;
	struct stat st, owner;
	if (lstat(entry->target, &st) == 0)
		return true;
	if (stat(guard->workspace, &owner) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(guard->workspace));
	/* git on the host replaces an empty folder, and not a file that it doesn't know. What git
	 * reads by a path must be a file. */
	const char *name = strrchr(entry->target, '/') + 1;
	bool is_commondir = strcmp(name, "commondir") == 0;
	bool made = is_commondir || (entry->is_file && !kh_protected_is_name(name))
			    ? kh_mountpoint_make_file(record, entry->target,
						      is_commondir ? ".\n" : "", &owner, err)
			    : kh_mountpoint_make(record, entry->target, &owner, err);
	guard->names[index].is_stub = guard->names[index].is_stub || made;
	return made;
}

/* At once: the sandbox may be over before anybody looks again. */
static void doubt_one(struct kh_workspace_guard *guard, size_t i)
{
	const char *path = guard->view->list[i].target;
	if (guard->names[i].is_doubted)
		return;
	guard->names[i].is_doubted = true;
	if (!kh_doubted_note(guard->record->path, path, guard->view->list[i].kind == KH_MOUNT_WRITE,
			     &guard->err))
		kh_log_error("%s was replaced on the host while the sandbox ran, and what has its "
			     "name now may be the agent's: %s",
			     kh_esc_str(path), guard->err.text);
}

/* With a folder all that is protected in it. */
static void doubt(struct kh_workspace_guard *guard, size_t i)
{
	const struct kh_mount *entry = &guard->view->list[i];
	doubt_one(guard, i);
	for (size_t j = 0; entry->kind == KH_MOUNT_WRITE && j < guard->view->n; j++)
		if (holds_its_name(&guard->view->list[j]) &&
		    is_below(guard->view->list[j].target, entry->target))
			doubt_one(guard, j);
}

static bool is_the_same(const struct kh_workspace_guard *guard, size_t i)
{
	return kh_doubted_is(guard->view->list[i].target, &guard->names[i].id);
}

/* It is protected, and was this file before it was. If it is another than before, the agent could
 * write to it meanwhile, and still can if it has opened it: so what it says is judged at the end.
 */
static bool take_over(struct kh_workspace_guard *guard, size_t i, const struct kh_doubted_id *found,
		      struct kh_err *err)
{
	bool is_another = !kh_doubted_is_same(found, &guard->names[i].id);
	guard->names[i].id = *found;
	if (!is_another || !holds_its_name(&guard->view->list[i]))
		return true;
	doubt(guard, i);
	return note_one(guard, i, err);
}

static bool restore(struct kh_workspace_guard *guard, size_t index, pid_t init, struct kh_err *err)
{
	const struct kh_mount *entry = &guard->view->list[index];
	/* A folder above protected files: all that lay in it is open now. */
	if (entry->kind == KH_MOUNT_WRITE)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "%s was replaced on the host; the sandbox was ended, since what "
				  "is protected there was not any more",
				  kh_esc_str(entry->target));
	for (int i = 0; i < ROUNDS; i++) {
		/* What is masked and was removed may be made by the agent: it is its own then. */
		struct stat st;
		if ((entry->kind == KH_MOUNT_EMPTY || entry->may_go) &&
		    lstat(entry->target, &st) != 0)
			return true;
		if (!make_anew(guard, index, err))
			return false;
		struct kh_doubted_id found = guard->names[index].id;
		(void)kh_doubted_identify(entry->target, &found);
		if (kh_workspace_guard_mount(guard, entry, init))
			return take_over(guard, index, &found, err);
		if (init > 0 && has_ended(init))
			return true;
	}
	return kh_err_set(err, KH_ERR_SYSTEM,
			  "%s was replaced on the host and could not be protected again; the "
			  "sandbox was ended",
			  kh_esc_str(entry->target));
}

static void note(struct kh_workspace_guard *guard, size_t i)
{
	if (guard->touched[i])
		return;
	guard->n_touched++;
	guard->touched[i] = true;
	guard->names[i].touched_ms = kh_clock_mono_ms();
}

/* The folder that was mounted is still under its name. */
static bool is_in_place(const struct kh_mount *entry)
{
	struct stat held, now;
	return entry->fd >= 0 && fstat(entry->fd, &held) == 0 && lstat(entry->target, &now) == 0 &&
	       held.st_dev == now.st_dev && held.st_ino == now.st_ino;
}

static bool may_be_lost(const struct kh_mount *entry)
{
	if (entry->kind == KH_MOUNT_WRITE)
		return !is_in_place(entry);
	return entry->kind == KH_MOUNT_READ || entry->kind == KH_MOUNT_BLANK ||
	       entry->kind == KH_MOUNT_EMPTY;
}

void kh_workspace_guard_touch_all(struct kh_workspace_guard *guard)
{
	for (size_t i = 0; i < guard->view->n; i++) {
		const struct kh_mount *entry = &guard->view->list[i];
		if (is_below(entry->target, guard->workspace) && may_be_lost(entry))
			note(guard, i);
	}
}

static bool is_lost(const struct kh_workspace_guard *guard, size_t i)
{
	const struct kh_mount *entry = &guard->view->list[i];
	return entry->kind == KH_MOUNT_WRITE ? !is_in_place(entry)
					     : holds_its_name(entry) && !is_the_same(guard, i);
}

void kh_workspace_guard_doubt(struct kh_workspace_guard *guard)
{
	kh_workspace_guard_touch_all(guard);
	for (size_t i = 0; i < guard->view->n; i++)
		if (guard->touched[i] && is_lost(guard, i))
			doubt(guard, i);
	for (size_t i = 0; i < guard->view->n; i++)
		if (guard->view->list[i].kind == KH_MOUNT_EMPTY && guard->names[i].id.ino &&
		    !is_the_same(guard, i))
			guard->names[i].was_shown = true;
}

/* A name that is free to the agent is no entry's. */
static void note_event(struct kh_workspace_guard *guard, const struct inotify_event *event)
{
	/* Whether a name was gone in between, nobody has heard. */
	if (event->mask & IN_Q_OVERFLOW)
		kh_workspace_guard_doubt(guard);
	const struct kh_workspace_guard_watch *watch = watch_of(guard, event->wd);
	for (size_t i = 0; watch && event->len && i < guard->view->n; i++) {
		if (!is_named(guard->view->list[i].target, watch->folder, event->name))
			continue;
		note(guard, i);
		if ((event->mask & (IN_CREATE | IN_MOVED_TO)) &&
		    guard->view->list[i].kind == KH_MOUNT_EMPTY)
			guard->names[i].was_shown = true;
		if ((event->mask & (IN_CREATE | IN_DELETE | IN_MOVED_FROM)) &&
		    holds_its_name(&guard->view->list[i]))
			doubt(guard, i);
		return;
	}
}

/* Return: there may be more. */
static bool take_events(struct kh_workspace_guard *guard)
{
	static union {
		struct inotify_event event;
		char bytes[EVENT_BYTES];
	} buffer;
	ssize_t n = read(guard->fd, buffer.bytes, sizeof(buffer));
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event =
			(const struct inotify_event *)(const void *)(buffer.bytes + at);
		at += (ssize_t)(sizeof(*event) + event->len);
		note_event(guard, event);
	}
	return n > 0;
}

/* Until it has to be seen to. A name that nothing has is left to the host for a moment: an editor
 * is about to make the new file. */
static int left_ms(const struct kh_workspace_guard *guard, size_t i)
{
	const struct kh_mount *entry = &guard->view->list[i];
	struct stat st;
	uint64_t passed = kh_clock_mono_ms() - guard->names[i].touched_ms;
	if (!holds_its_name(entry) || passed >= ABSENT_MS || lstat(entry->target, &st) == 0)
		return 0;
	return (int)(ABSENT_MS - passed);
}

/* Return: view->n: none. */
static size_t next_ready(const struct kh_workspace_guard *guard)
{
	for (size_t k = 0; guard->n_touched > 0 && k < guard->view->n; k++) {
		size_t i = (guard->next + k) % guard->view->n;
		if (guard->touched[i] && left_ms(guard, i) == 0)
			return i;
	}
	return guard->view->n;
}

bool kh_workspace_guard_look(struct kh_workspace_guard *guard, pid_t init, struct kh_err *err)
{
	(void)take_events(guard);
	if (guard->err.code != KH_ERR_NONE) {
		*err = guard->err;
		return false;
	}
	size_t i = next_ready(guard);
	if (i == guard->view->n)
		return true;
	/* From there on the next time, so that none that is touched again and again keeps the
	 * others waiting. */
	guard->next = (i + 1) % guard->view->n;
	guard->touched[i] = false;
	guard->n_touched--;
	if (restore(guard, i, init, err))
		return true;
	doubt(guard, i);
	return false;
}

int kh_workspace_guard_wait_ms(const struct kh_workspace_guard *guard)
{
	int least = -1;
	for (size_t i = 0; guard->n_touched > 0 && i < guard->view->n; i++) {
		int left = guard->touched[i] ? left_ms(guard, i) : -1;
		if (left >= 0 && (least < 0 || left < least))
			least = left;
	}
	return least;
}

/* Whoever put it there, a file that says what the user's said before the run is his: `git checkout`
 * and back. A sandbox that goes on may still write to it, so the survey compares, after the last of
 * them: it gets the digests of what is doubted. */
static void leave_digests(const struct kh_workspace_guard *guard)
{
	const struct kh_doubted_id any = { 0 };
	struct kh_buf note kh_cleanup(kh_buf_fini);
	kh_buf_init(&note, KH_LIMIT_SURVEY_GUARDED_BYTES);
	for (size_t i = 0; i < guard->view->n; i++)
		if (guard->names[i].is_doubted && *guard->names[i].digest)
			(void)kh_doubted_guarded(&note, guard->view->list[i].target, &any,
						 guard->names[i].digest);
	(void)kh_doubted_guard(guard->record->path, kh_buf_view(&note), false, NULL);
}

/* A mask is gone with the file under it, and who waits for the new one reads it first. */
static void say_shown(const struct kh_workspace_guard *guard)
{
	enum { NAMED = 3 };
	struct kh_buf names kh_cleanup(kh_buf_fini);
	size_t n = 0;
	kh_buf_init(&names, NAMES_BYTES);
	for (size_t i = 0; guard->names && i < guard->view->n; i++)
		if (guard->names[i].was_shown && n++ < NAMED)
			(void)kh_buf_printf(&names, "%s%s", n > 1 ? ", " : "",
					    kh_esc_str(guard->view->list[i].target));
	const char *text = kh_buf_cstr(&names);
	if (n > 0)
		kh_log_warn(
			"%s%s: hidden from the sandbox, and replaced on the host while it ran, so "
			"the command may have read what is in it now (change these secrets; "
			"with --workspace DIR:review no such moment exists)",
			text ? text : "files", n > NAMED ? " and more" : "");
}

void kh_workspace_guard_end(struct kh_workspace_guard *guard)
{
	/* What happened since the last look. */
	for (int i = 0; guard->names && guard->fd >= 0 && i < LAST_LOOKS && take_events(guard); i++)
		;
	/* Nobody has put a mount over it again. */
	for (size_t i = 0; guard->names && guard->n_touched > 0 && i < guard->view->n; i++)
		if (guard->touched[i] && is_lost(guard, i))
			doubt(guard, i);
	if (guard->names && guard->record->path)
		leave_digests(guard);
	say_shown(guard);
	for (size_t i = 0; i < guard->n_watches; i++)
		free(guard->watches[i].folder);
	free(guard->watches);
	free(guard->touched);
	if (guard->names)
		(void)munmap(guard->names, names_bytes(guard->view));
	if (guard->fd >= 0)
		close(guard->fd);
	*guard = (struct kh_workspace_guard){ .fd = -1 };
}
