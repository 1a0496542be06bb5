/* homes.h - folders in which shells and logins start what they find */
#ifndef KEYHOLE_SANDBOX_HOMES_H
#define KEYHOLE_SANDBOX_HOMES_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* May an agent write to this folder? Not to a home of whoever runs this or of the folder's owner,
 * nor to a folder above one. `option` is what names the folder, for the message; `instead` says
 * what to do. Return: false with `err` set. */
bool kh_homes_check(const char *option, const char *path, const char *instead, struct kh_err *err);

#endif
