/* init_words.c - builds the command line of keyhole-init */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "build_internal.h"
#include "store.h"

uid_t kh_build_host_uid(const struct kh_sandbox_spec *spec)
{
	return spec->host_uid == (uid_t)-1 ? KH_SANDBOX_HOST_UID : spec->host_uid;
}

gid_t kh_build_host_gid(const struct kh_sandbox_spec *spec)
{
	return spec->host_gid == (gid_t)-1 ? KH_SANDBOX_HOST_GID : spec->host_gid;
}

const char *kh_build_directory(const struct kh_sandbox_spec *spec)
{
	return spec->workspace	 ? spec->workspace
	       : spec->directory ? spec->directory
				 : KH_SANDBOX_HOME;
}

void kh_words_fini(struct kh_words *words)
{
	for (size_t i = 0; i < words->n; i++)
		free(words->list[i]);
	free(words->list);
}

static bool add_word(struct kh_words *words, const char *word)
{
	char **list = reallocarray(words->list, words->n + 2, sizeof(*list));
	if (!list)
		return false;
	words->list = list;
	list[words->n] = strdup(word);
	list[words->n + 1] = NULL;
	return list[words->n++] != NULL;
}

/* Nothing where it is 0. */
static bool add_number(struct kh_words *words, const char *option, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return value == 0 || (add_word(words, option) && add_word(words, text));
}

/* What a mount opens for writing, unless it is below another such place. */
static bool is_writable_place(const struct kh_view *view, size_t at)
{
	const struct kh_mount *m = &view->list[at];
	bool overlay = m->kind == KH_MOUNT_OVERLAY && !m->read_only;
	if (m->kind != KH_MOUNT_WRITE && m->kind != KH_MOUNT_TMPFS && !overlay)
		return false;
	for (size_t i = 0; i < at; i++) {
		const struct kh_mount *above = &view->list[i];
		size_t len = strlen(above->target);
		if ((above->kind == KH_MOUNT_WRITE || above->kind == KH_MOUNT_TMPFS) &&
		    strncmp(m->target, above->target, len) == 0 &&
		    (m->target[len] == '/' || !m->target[len]))
			return false;
	}
	return true;
}

bool kh_build_ports(char *out, size_t room, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	size_t used = (size_t)snprintf(out, room, "80,443"), n = 2;
	for (size_t i = 0; i < spec->n_ports; i++) {
		bool known = spec->ports[i] == 80 || spec->ports[i] == 443;
		for (size_t j = 0; j < i; j++)
			known = known || spec->ports[j] == spec->ports[i];
		if (known)
			continue;
		if (++n > KH_LIMIT_INIT_PORTS || spec->ports[i] == 0)
			return kh_err_set(err, KH_ERR_USAGE, "--ports: up to %d, from 1 to 65535",
					  KH_LIMIT_INIT_PORTS - 2);
		used += (size_t)snprintf(out + used, room - used, ",%u", spec->ports[i]);
	}
	return true;
}

/* It is root before it is the sandbox's uid, and looks at what was mounted. */
static bool add_become(struct kh_words *out, const struct kh_build *b,
		       const struct kh_sandbox_spec *spec)
{
	char who[32];
	uid_t uid = geteuid() == 0 ? kh_build_host_uid(spec) : geteuid();
	gid_t gid = geteuid() == 0 ? kh_build_host_gid(spec) : getegid();
	snprintf(who, sizeof(who), "%u:%u", (unsigned)uid, (unsigned)gid);
	bool ok = add_word(out, "--become") && add_word(out, who);
	for (size_t i = 0; ok && i < b->view.n; i++) {
		const struct kh_mount *m = &b->view.list[i];
		struct stat st;
		bool held = (m->kind == KH_MOUNT_READ || m->kind == KH_MOUNT_WRITE) && m->fd >= 0;
		/* Made by the engine, of what the engine has. */
		bool cover = m->kind == KH_MOUNT_BLANK || m->kind == KH_MOUNT_EMPTY;
		if (!held && !cover)
			continue;
		bool known = held && fstat(m->fd, &st) == 0;
		kh_auto_free char *text =
			known	? kh_strf("%llu:%llu:%s", (unsigned long long)st.st_dev,
					  (unsigned long long)st.st_ino, m->target)
			: cover ? kh_strf("0:0:%s", m->target)
				: NULL;
		ok = text && add_word(out, "--expect") && add_word(out, text);
	}
	return ok;
}

static bool add_names(struct kh_words *words, const struct kh_cidr *range)
{
	const uint8_t *at = range->addr;
	char text[32];
	snprintf(text, sizeof(text), "%u.%u.%u.%u/%u", at[0], at[1], at[2], at[3],
		 range->prefix_bits);
	return add_word(words, "--names") && add_word(words, text);
}

bool kh_build_words(struct kh_words *out, const struct kh_build *b,
		    const struct kh_sandbox_spec *spec, const struct kh_engine *engine,
		    const char *tty)
{
	char control[16], stdio[48], user[32];
	/* The numbers under which the init finds them. */
	int fds[4] = { b->control_peer, b->stdio[0], b->stdio[1], b->stdio[2] };
	for (int i = 0; engine->nested && i < 4; i++)
		fds[i] = STDERR_FILENO + 1 + engine->own_fds + i;
	snprintf(user, sizeof(user), "%d:%d", KH_SANDBOX_UID, KH_SANDBOX_GID);
	snprintf(control, sizeof(control), "%d", fds[0]);
	snprintf(stdio, sizeof(stdio), "%d,%d,%d", fds[1], fds[2], fds[3]);
	const char *const head[] = { INIT_INSIDE,   "--user",	  user,
				     "--seccomp",   CALLS_INSIDE, "--seccomp",
				     FILTER_INSIDE, "--capture",  b->ports };
	bool ok = true;
	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		ok = ok && add_word(out, head[i]);
	if (spec->capture_range.family)
		ok = ok && add_names(out, &spec->capture_range);
	if (engine->called)
		ok = ok && add_become(out, b, spec);
	if (engine->connects)
		ok = ok && add_word(out, "--connect") && add_word(out, RENDEZVOUS_INSIDE);
	else if (engine->uplink)
		ok = ok && add_word(out, "--uplink") && add_word(out, *tty ? "-1" : "0");
	else
		ok = ok && add_word(out, "--control") && add_word(out, control) &&
		     add_word(out, "--stdio") && add_word(out, stdio);
	if (engine->own_kernel)
		ok = ok && add_word(out, "--apart") && add_word(out, INIT_HARDENING);
	if (engine->limits_init)
		ok = ok && add_word(out, "--hold") && add_word(out, "1");
	if (engine->environ_file)
		ok = ok && add_word(out, "--environ") && add_word(out, ENVIRON_INSIDE);
	ok = ok && add_word(out, "--directory") && add_word(out, kh_build_directory(spec));
	if (*tty)
		ok = ok && add_word(out, engine->own_kernel ? "--engine-tty" : "--tty") &&
		     add_word(out, tty);
	ok = ok && add_number(out, "--memory", b->limits.init_memory_bytes) &&
	     add_number(out, "--pids", b->limits.init_pids);
	if (spec->layer)
		ok = ok && add_word(out, "--writable") && add_word(out, "/");
	for (size_t i = 0; ok && i < b->view.n; i++)
		if (is_writable_place(&b->view, i))
			ok = add_word(out, "--writable") && add_word(out, b->view.list[i].target);
	ok = ok && add_word(out, "--");
	for (char *const *word = spec->argv; ok && *word; word++)
		ok = add_word(out, *word);
	return ok;
}
