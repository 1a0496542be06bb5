/*
 * docker.c - the engine "docker": docker create, cp and start, with an image of Docker's daemon
 *
 * store.h explains it. Usually the daemon runs as root and makes the container without a user
 * namespace. So keyhole-init starts as the host's uid 0 with four capabilities, and changes to the
 * uid that started keyhole (or KH_SANDBOX_HOST_UID, if that was root) before it makes the command's
 * user namespace.
 */
#include <string.h>

#include <keyhole/base/program.h>

#include "sandbox_internal.h"
#include "store.h"

static bool prepare(const struct kh_plan *plan, struct kh_engine_command *out, struct kh_err *err)
{
	out->path = kh_program_find("docker");
	if (!out->path)
		return kh_err_set(
			err, KH_ERR_SYSTEM,
			"the sandbox: docker is not on the PATH (install it: `apt install "
			"docker.io`, `dnf install docker`, `apk add docker`, `pacman -S "
			"docker`)");
	return kh_store_prepare("docker", plan, out, err);
}

static bool explain(const char *said, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s",
			  said[0] ? said : "the container ended before it had begun");
}

const struct kh_engine kh_engine_docker = {
	.name = "docker",
	.about = "docker: a container of an image that its daemon keeps",
	.called = true,
	.connects = true,
	.has_store = true,
	.by_name_only = true,
	.environ_file = true,
	.prepare = prepare,
	.explain = explain,
};
