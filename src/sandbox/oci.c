/*
 * oci.c - the configuration of a bundle, as the OCI runtime specification 1.0 has it
 *
 * The root is already mounted (mount_plan.c). The runtime only adds what it alone can: a /proc of
 * the sandbox's process namespace, with parts about the host masked; a /dev with six devices and
 * its own devpts; and the namespaces. keyhole-init starts as uid 0 of the sandbox's user namespace,
 * with the capabilities to bind its ports, and drops them (src/init/privilege.c) before the command
 * starts.
 */
#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include "outer_namespace_internal.h"
#include "oci_internal.h"
#include "sandbox_internal.h"

static const char *const capabilities[] = { "CAP_NET_BIND_SERVICE", "CAP_NET_ADMIN",
					    "CAP_SETFCAP" };
/* The same, and what keyhole-init needs to stand apart from the command (--apart). */
static const char *const own_kernels[] = { "CAP_NET_BIND_SERVICE", "CAP_NET_ADMIN", "CAP_SETFCAP",
					   "CAP_SETUID", "CAP_CHOWN" };
static const char *const namespaces[] = {
	"user", "mount", "pid", "network", "ipc", "uts", "cgroup"
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static json_t *strings(const char *const *list, size_t n)
{
	json_t *array = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, json_string(list[i]));
	return array;
}

/* Until a NULL. */
static json_t *all_strings(const char *const *list)
{
	size_t n = 0;
	while (list[n])
		n++;
	return strings(list, n);
}

static json_t *mount_of(const char *type, const char *target, const char *const *options, size_t n)
{
	return json_pack("{s:s, s:s, s:s, s:o}", "destination", target, "type", type, "source",
			 type, "options", strings(options, n));
}

/* As large as the view says that it may be. */
static json_t *memory(const struct kh_view *view, const char *target)
{
	static const char *const open_to_all[] = { "nosuid", "nodev", "mode=1777", "noexec" };
	bool shm = strcmp(target, "/dev/shm") == 0;
	json_t *mount = mount_of("tmpfs", target, open_to_all, COUNT(open_to_all) - !shm);
	for (size_t i = 0; i < view->n; i++)
		if (view->list[i].size && strcmp(view->list[i].target, target) == 0)
			json_array_append_new(json_object_get(mount, "options"),
					      json_sprintf("size=%" PRIu64, view->list[i].size));
	return mount;
}

/* runsc lays one of its own, of any size, over a /tmp that is empty: this one is in its place. */
static bool is_empty_tmp(const struct kh_view *view)
{
	for (size_t i = 0; i < view->n; i++)
		if (strncmp(view->list[i].target, "/tmp/", 5) == 0)
			return false;
	return true;
}

static json_t *mounts(const struct kh_view *view, bool seal_dev)
{
	static const char *const proc[] = { "nosuid", "nodev", "noexec" };
	/* Read-only when all is in it; the last one. */
	static const char *const dev[] = { "nosuid",   "noexec",   "strictatime",
					   "mode=755", "size=64k", "ro" };
	size_t n_dev = seal_dev ? COUNT(dev) : COUNT(dev) - 1;
	static const char most[] = "max=" KH_TERMINALS_MOST;
	static const char *const pts[] = { "nosuid",	    "noexec",	 "newinstance",
					   "ptmxmode=0666", "mode=0620", most };
	json_t *list = json_pack("[o, o, o, o]", mount_of("proc", "/proc", proc, COUNT(proc)),
				 mount_of("tmpfs", "/dev", dev, n_dev),
				 mount_of("devpts", "/dev/pts", pts, COUNT(pts)),
				 memory(view, "/dev/shm"));
	/* It would be there, of a kernel's that is nobody's business. */
	static const char *const nothing[] = { "nosuid",   "nodev",   "noexec",
					       "mode=555", "size=4k", "ro" };
	static const char *const own[] = { "nosuid", "nodev", "noexec", "mode=755", "size=4k" };
	if (!seal_dev)
		json_array_append_new(list, mount_of("tmpfs", "/sys", nothing, COUNT(nothing)));
	/* keyhole-init's own socket, in the place of the host's. */
	if (!seal_dev)
		json_array_append_new(list, mount_of("tmpfs", KH_SANDBOX_RUN, own, COUNT(own)));
	if (!seal_dev && is_empty_tmp(view))
		json_array_append_new(list, memory(view, "/tmp"));
	return list;
}

/* One uid: 0 inside is the one that the outer namespace has, which is an unprivileged one on the
 * host. */
static json_t *mapping(void)
{
	return json_pack("[{s:i, s:i, s:i}]", "containerID", 0, "hostID", 0, "size", 1);
}

static json_t *linux_of(void)
{
	json_t *list = json_array();
	for (size_t i = 0; i < COUNT(namespaces); i++)
		json_array_append_new(list, json_pack("{s:s}", "type", namespaces[i]));
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "namespaces", list, "uidMappings", mapping(),
			 "gidMappings", mapping(), "maskedPaths", all_strings(kh_proc_masked),
			 "readonlyPaths", all_strings(kh_proc_read_only));
}

static json_t *variables(const struct kh_env *env)
{
	json_t *array = json_array();
	for (size_t i = 0; i < env->n; i++)
		json_array_append_new(array,
				      json_sprintf("%s=%s", env->list[i].name, env->list[i].value));
	return array;
}

static json_t *words(char *const *argv)
{
	json_t *array = json_array();
	for (; *argv; argv++)
		json_array_append_new(array, json_string(*argv));
	return array;
}

static json_t *process(const struct kh_plan *plan, bool own_kernel)
{
	static const char *const sets[] = { "bounding", "effective", "permitted" };
	json_t *caps = json_object();
	for (size_t i = 0; i < COUNT(sets); i++)
		json_object_set_new(caps, sets[i],
				    own_kernel ? strings(own_kernels, COUNT(own_kernels))
					       : strings(capabilities, COUNT(capabilities)));
	return json_pack("{s:b, s:{s:i, s:i}, s:o, s:o, s:s, s:o, s:b}", "terminal",
			 (int)plan->terminal, "user", "uid", 0, "gid", 0, "args", words(plan->init),
			 "env", variables(plan->env), "cwd", "/", "capabilities", caps,
			 "noNewPrivileges", 1);
}

/* JSON holds text: a word that is not UTF-8 can't be said. */
static bool is_text(const char *word)
{
	json_t *text = json_string(word);
	bool ok = text != NULL;
	json_decref(text);
	return ok;
}

static bool is_all_text(const struct kh_plan *plan)
{
	bool ok = true;
	for (char *const *word = plan->init; ok && *word; word++)
		ok = is_text(*word);
	for (size_t i = 0; ok && i < plan->env->n; i++)
		ok = is_text(plan->env->list[i].value);
	return ok;
}

char *kh_oci_config(const struct kh_plan *plan, enum kh_oci_seal seal, struct kh_err *err)
{
	if (!is_all_text(plan)) {
		kh_err_set(err, KH_ERR_USAGE,
			   "the command, a variable or the workspace's path is not UTF-8 (this "
			   "engine can't pass that on; --engine process can)");
		return NULL;
	}
	json_t *config = json_pack(
		"{s:s, s:o, s:{s:s, s:b}, s:s, s:o, s:o}", "ociVersion", "1.0.2", "process",
		process(plan, seal == KH_OCI_SEAL_NONE), "root", "path", "rootfs", "readonly",
		(int)(seal == KH_OCI_SEAL_ALL), "hostname", plan->hostname, "mounts",
		mounts(plan->view, seal != KH_OCI_SEAL_NONE), "linux", linux_of());
	char *text = config ? json_dumps(config, JSON_COMPACT) : NULL;
	json_decref(config);
	if (!text)
		kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox's configuration: no memory");
	return text;
}
