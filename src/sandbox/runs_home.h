/* runs_home.h - a run's note of who could write to its home (runs.h explains the files) */
#ifndef KEYHOLE_SANDBOX_RUNS_HOME_H
#define KEYHOLE_SANDBOX_RUNS_HOME_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* Records in the run's folder that not every user of the host could write to this home, whose path
 * has no links. `folder`: a descriptor of it. */
bool kh_run_home_note(const char *run, const char *home, int folder, struct kh_err *err);
/* After the run: takes that access away where the agent has given it (chmod 0777). Return: false:
 * it could not be taken away, which was said. */
bool kh_run_home_shut(const char *run);

#endif
