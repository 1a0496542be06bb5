/* homes.h - mounts the home, and refuses home folders of users as workspaces */
#ifndef KEYHOLE_SANDBOX_HOMES_H
#define KEYHOLE_SANDBOX_HOMES_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* May an agent write to this folder? Not if it is a home folder of the current user or of the
 * folder's owner, or a folder above one. `option`: the option that named the folder, for the
 * message; `instead`: what to do. Return: false with `err`. */
bool kh_homes_check(const char *option, const char *path, const char *instead, struct kh_err *err);

/* Lays the sandbox's home: --home, or an empty folder. Refuses a --home that the user or the
 * workspace has to do with: a user's home, one that holds the workspace or lies in it, and one in a
 * git repository. */
struct kh_view;
struct kh_sandbox_spec;
bool kh_homes_plan(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err);

#endif
