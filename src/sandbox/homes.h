/* homes.h - refuses home folders, from which shells and logins run files, as workspaces */
#ifndef KEYHOLE_SANDBOX_HOMES_H
#define KEYHOLE_SANDBOX_HOMES_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* May an agent write to this folder? Not if it is a home folder of the current user or of the
 * folder's owner, or a folder above one. `option`: the option that named the folder, for the
 * message; `instead`: what to do. Return: false with `err`. */
bool kh_homes_check(const char *option, const char *path, const char *instead, struct kh_err *err);

#endif
