/*
 * gvisor.c - the engine "gvisor": the same OCI bundle as the container engine, run by runsc
 *
 * runsc's own kernel, in user space, handles the command's system calls; the host's kernel only
 * sees the system calls of runsc. Like crun, runsc runs in outer namespaces (outer_namespace.c). It
 * passes on only the standard descriptors, so one of them is the uplink (uplink.h). No socket of
 * the host can be connected to from inside, wherever it is and whenever it was made. With a
 * terminal, which the launcher makes, all three standard descriptors are that terminal; then a
 * second process in the sandbox brings the uplink. File data is not cached (shared), since the host
 * works in the workspace too.
 */
#include <string.h>

#include <keyhole/base/program.h>

#include "build_internal.h"
#include "outer_namespace_internal.h"
#include "oci_internal.h"
#include "sandbox_internal.h"

static const char state[] = KH_OUTER_NAMESPACE_STATE, bundle[] = KH_OUTER_NAMESPACE_BUNDLE;

/* For each call of it. */
#define OPTIONS \
	"runsc", "--rootless", "--network=none", "--host-uds=none", "--ignore-cgroups", \
		"--file-access=shared", "--overlay2=none", "--log=/proc/self/fd/3", "--root", \
		state

static const char *const run_words[] = { OPTIONS, "run", "--bundle", bundle, "sandbox", NULL };
static const char *const bring_words[] = {
	OPTIONS, "exec", "sandbox", INIT_INSIDE, "--bring", NULL
};

static bool prepare(const struct kh_plan *plan, struct kh_engine_command *out, struct kh_err *err)
{
	out->path = kh_program_find("runsc");
	if (!out->path)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the sandbox: runsc is not on the PATH (install gVisor: `apt "
				  "install runsc` on Debian; see gvisor.dev elsewhere)");
	/* It is steered by an abstract socket, which a network namespace has for itself. */
	out->own_network = true;
	out->hide_cgroups = true;
	/* It would remount the root without the flags that can't be taken away any more; and in a
	 * read-only /dev it opens no device for O_CREAT, as every shell does for `>/dev/null`. */
	out->files[0].name = KH_OCI_CONFIG;
	out->files[0].text = kh_oci_config(plan, KH_OCI_SEAL_NONE, err);
	if (!out->files[0].text)
		return false;
	out->bring = bring_words;
	return kh_engine_command_args(out, run_words) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
}

static bool explain(const char *said, struct kh_err *err)
{
	if (strstr(said, "flag provided but not defined"))
		return kh_err_set(
			err, KH_ERR_SYSTEM,
			"the sandbox: this runsc is too old (one of December 2022 or newer "
			"is needed): %s",
			said);
	/* Its kernel hung up. */
	if (strstr(said, ": EOF"))
		return kh_err_set(
			err, KH_ERR_SYSTEM,
			"the sandbox: runsc's kernel ended before the command began (was it "
			"ended, or is the host out of memory or of processes?): %s",
			said);
	return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s",
			  said[0] ? said : "runsc ended before it had begun");
}

const struct kh_engine kh_engine_gvisor = {
	.name = "gvisor",
	.about = "runsc: a kernel of its own in user space",
	.nested = true,
	.uplink = true,
	.own_kernel = true,
	.by_name_only = true,
	.prepare = prepare,
	.explain = explain,
};
