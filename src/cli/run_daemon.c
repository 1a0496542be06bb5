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

char *kh_run_daemon_of_docker(void)
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
		.most_ms = PATIENCE_MS,
		.end_when_full = true,
	};
	struct kh_buf answer kh_cleanup(kh_buf_fini);
	struct kh_child_result result;

	kh_buf_init(&answer, ANSWER_BYTES);
	return program && kh_child_run(&spec, &answer, NULL, &result)
		       ? kh_slice_dup(kh_slice_trim(kh_buf_view(&answer)))
		       : NULL;
}
