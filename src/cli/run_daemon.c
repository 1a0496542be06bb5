/*
 * run_daemon.c - which daemon docker would ask
 *
 * Without DOCKER_HOST a context of docker's (`docker context use`) names it, in files whose names
 * and order of precedence only docker knows. So docker is asked, which reads them as it does later.
 */
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/program.h>
#include <keyhole/base/slice.h>
#include <keyhole/sandbox/child.h>

#include "run_internal.h"

enum { PATIENCE_MS = 5 * 1000, ANSWER_BYTES = 4096 };

bool kh_run_daemon_of_docker(bool (*is_over)(void *), char **url, struct kh_err *err)
{
	static char words[][40] = { "docker", "context", "inspect", "--format",
				    "{{.Endpoints.docker.Host}}" };
	char *argv[] = { words[0], words[1], words[2], words[3], words[4], NULL };
	kh_auto_free char *program = kh_program_find("docker");
	const struct kh_child_spec spec = {
		.program = program,
		.argv = argv,
		.folder = "/",
		.input = -1,
		.is_over = is_over,
		.most_ms = PATIENCE_MS,
		.end_when_full = true,
	};
	struct kh_buf answer kh_cleanup(kh_buf_fini);
	struct kh_child_result result = { .end = KH_CHILD_NOT_STARTED };

	*url = NULL;
	kh_buf_init(&answer, ANSWER_BYTES);
	if (program && kh_child_run(&spec, &answer, NULL, &result))
		*url = kh_slice_dup(kh_slice_trim(kh_buf_view(&answer)));
	return result.end != KH_CHILD_OVER ||
	       kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: was interrupted");
}
