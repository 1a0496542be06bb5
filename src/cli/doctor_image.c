/* doctor_image.c - what `keyhole run --image` needs, each program run and a layer laid */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/sandbox.h>

#include "doctor_internal.h"

#define GROUP "image"

enum { SAID_BYTES = 256 };

/* The first line of `PROGRAM --version`. */
static bool ask_version(const char *program, char said[SAID_BYTES])
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		(void)dup2(null, STDIN_FILENO);
		(void)dup2(ends[1], STDOUT_FILENO);
		(void)dup2(null, STDERR_FILENO);
		(void)execlp(program, program, "--version", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	size_t len = 0;
	ssize_t n;
	while (len < SAID_BYTES - 1 && ((n = read(ends[0], said + len, SAID_BYTES - 1 - len)) > 0 ||
					(n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	said[len] = '\0';
	said[strcspn(said, "\n")] = '\0';
	close(ends[0]);
	int status = 1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void add_program(struct kh_doctor_report *report, const char *program, const char *for_what)
{
	char said[SAID_BYTES];
	if (ask_version(program, said))
		kh_doctor_add(report, GROUP, program, KH_DOCTOR_OK, "%s", kh_esc_str(said));
	else
		kh_doctor_add(report, GROUP, program, KH_DOCTOR_ABSENT,
			      "not there, or does not run: %s needs it (`apt install %s`)",
			      for_what, program);
}

static void add_layer(struct kh_doctor_report *report)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_sandbox_try_layer(&err))
		kh_doctor_add(report, GROUP, "overlay", KH_DOCTOR_OK,
			      "a layer was laid over a root and written to");
	else
		kh_doctor_add(report, GROUP, "overlay", KH_DOCTOR_NO, "%s", err.text);
}

void kh_doctor_image(struct kh_doctor_report *report)
{
	add_layer(report);
	add_program(report, "skopeo", "--image oci:, oci-archive:, docker-archive:");
	add_program(report, "umoci", "--image oci:, oci-archive:, docker-archive:");
	add_program(report, "mmdebstrap", "--image debian");
}
