/* runs_stubs.h - the lists of what runs have put into their workspaces (runs.h explains the files)
 */
#ifndef KEYHOLE_SANDBOX_RUNS_STUBS_H
#define KEYHOLE_SANDBOX_RUNS_STUBS_H

#include <stdbool.h>

#include <keyhole/base/err.h>

struct kh_run_record;

/* Those of all runs in one workspace together. */
enum { KH_RUN_STUBS_OF_OTHERS_BYTES = 256 * 1024 * 1024 };

/* Removes the stubs of the run whose record is in `folder`, and the list of them. */
bool kh_run_stubs_remove(const char *folder, struct kh_err *err);
/* Reads into the record which stubs other runs have in its workspace. Call it with the lock held.
 */
bool kh_run_stubs_of_others(struct kh_run_record *record, struct kh_err *err);

#endif
