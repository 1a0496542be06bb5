/* second_mount.h - refuses folders that the agent could write to at a second path of the host */
#ifndef KEYHOLE_SANDBOX_SECOND_MOUNT_H
#define KEYHOLE_SANDBOX_SECOND_MOUNT_H

#include <stdbool.h>

#include <keyhole/base/err.h>

struct kh_sandbox_spec;

/*
 * Has each folder of the host to which this run may write one path only, with all that is in it and
 * is mounted there? So has a workspace that is read-only, or under review, if files of secrets are
 * masked in it; else one under review only gets a warning. Mounts that are read-only don't count.
 * Return: false with `err`: it has not, or that can't be told.
 */
bool kh_second_mount_check(const struct kh_sandbox_spec *spec, struct kh_err *err);

#endif
