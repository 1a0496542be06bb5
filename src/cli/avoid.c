/* avoid.c - subcommands that start programs of the host start none that an agent may write */
#include <keyhole/base/cleanup.h>
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/workspace.h>

#include "cli_internal.h"

static bool note(struct kh_err *err)
{
	kh_auto_free char *state = kh_workspace_state();
	return !state || kh_workspace_note_written(state, err);
}

bool kh_cli_avoid_sandboxes(void)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_writable_renew(note, &err))
		return true;
	kh_cli_complain_err(&err);
	return false;
}
