/* runs_disk.h - a run's note of where the disks of its folders were mounted (runs.h explains the
 * files) */
#ifndef KEYHOLE_SANDBOX_RUNS_DISK_H
#define KEYHOLE_SANDBOX_RUNS_DISK_H

#include <stdbool.h>

#include <keyhole/base/err.h>

struct kh_other_run;

/* Records in the run's folder at which point the file system of `folder` (a descriptor; O_PATH is
 * enough) is mounted. Where the kernel does not tell, nothing is recorded. */
bool kh_run_disk_note(const char *run, int folder, struct kh_err *err);
/* Is nothing mounted any more at one of these points? Then nobody can look at what the run has left
 * there. `says`: a line says so, and what to do. */
bool kh_run_disk_is_away(const struct kh_other_run *run, bool says);
/* Is this folder, whose device has another number now, in the mount at one of these points? Not if
 * it is the top of the mount: all disks have the same inode there. */
bool kh_run_disk_has(const char *run, int folder);

#endif
