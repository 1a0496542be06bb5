/* doctor_image.c - tests what `keyhole run --image` needs: runs each program, and mounts an
 * overlay */
#include <string.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/program.h>
#include <keyhole/sandbox/sandbox.h>

#include "doctor_internal.h"

#define GROUP "image"

enum { SAID_BYTES = 256, PATIENCE_MS = 10 * 1000 };

/* The first line of `PROGRAM --version`. */
static bool ask_version(const char *name, char said[SAID_BYTES])
{
	static char version[] = "--version";
	kh_auto_free char *program = kh_program_find(name);
	char *argv[] = { program, version, NULL };
	const struct kh_child_spec spec = { .argv = argv, .input = -1, .most_ms = PATIENCE_MS };
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct kh_child_result result;
	kh_buf_init(&text, SAID_BYTES - 1);
	if (!program)
		return false;
	(void)kh_child_run(&spec, &text, NULL, &result);
	struct kh_slice all = kh_buf_view(&text);
	size_t len = kh_slice_find(all, '\n', 0);
	memcpy(said, all.ptr, len);
	said[len] = '\0';
	return result.status == 0;
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
			      "a layer was mounted over a root and written to");
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
