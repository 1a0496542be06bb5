/*
 * container.c - the engine "container": an OCI bundle that keyhole makes, run by crun or runc
 *
 * The program runs in outer namespaces (outer_namespace.c), as an ordinary uid even if root starts
 * it, and makes the sandbox's own namespaces inside them. crun is used if it is installed, since it
 * starts in a third of the time. It refuses hosts that have both versions of cgroups mounted, but
 * ignores cgroups if it can't see any.
 */
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/program.h>
#include <keyhole/base/slice.h>

#include "outer_namespace_internal.h"
#include "oci_internal.h"
#include "sandbox_internal.h"

static bool prepare(const struct kh_plan *plan, struct kh_engine_command *out, struct kh_err *err)
{
	static const char *const crun[] = { "crun", "--cgroup-manager=disabled", NULL };
	static const char *const runc[] = { "runc", NULL };
	/* Four descriptors: the control socket and the command's own three. The launcher has made a
	 * keyring already. */
	static const char state[] = KH_OUTER_NAMESPACE_STATE, bundle[] = KH_OUTER_NAMESPACE_BUNDLE;
	static const char *const rest[] = { "--root",	      state, "run",	 "--no-new-keyring",
					    "--preserve-fds", "4",   "--bundle", bundle,
					    "sandbox",	      NULL };
	const char *const *program = crun;
	out->path = kh_program_find("crun");
	if (!out->path) {
		program = runc;
		out->path = kh_program_find("runc");
	}
	if (!out->path)
		return kh_err_set(
			err, KH_ERR_SYSTEM,
			"the sandbox: neither crun nor runc is on the PATH (install one: "
			"`apt install crun`, `dnf install crun`, `apk add crun`, `pacman -S "
			"crun`)");
	out->hide_cgroups = program == crun;
	out->files[0].name = KH_OCI_CONFIG;
	out->files[0].text =
		kh_oci_config(plan, plan->layered ? KH_OCI_SEAL_DEV : KH_OCI_SEAL_ALL, err);
	if (!out->files[0].text)
		return false;
	return (kh_engine_command_args(out, program) && kh_engine_command_args(out, rest)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
}

static bool explain(const char *said, struct kh_err *err)
{
	if (strstr(said, "nknown option") || strstr(said, "flag provided but not defined"))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the sandbox: this crun or runc is too old (crun 1.0 or runc 1.1 "
				  "is needed): %s",
				  said);
	return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s",
			  said[0] ? said : "the container ended before it had begun");
}

const struct kh_engine kh_engine_container = {
	.name = "container",
	.about = "crun or runc: an OCI container of one unprivileged uid",
	.nested = true,
	.prepare = prepare,
	.explain = explain,
};
