/* avoid.c - subcommands that start programs of the host start none that an agent may write */
#include <keyhole/base/cleanup.h>
#include <keyhole/sandbox/workspace.h>

#include "cli_internal.h"

bool kh_cli_avoid_sandboxes(void)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *state = kh_workspace_state();
	if (!state || kh_workspace_note_written(state, &err))
		return true;
	kh_cli_complain_err(&err);
	return false;
}
