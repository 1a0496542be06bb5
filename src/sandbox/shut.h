/* shut.h - removes the write access that an agent gave to every user of the host */
#ifndef KEYHOLE_SANDBOX_SHUT_H
#define KEYHOLE_SANDBOX_SHUT_H

#include "concern.h"

/* What kh_concern_each_open finds in one folder of a walk, unless it was so before: `was_there`
 * says that of a digest. Return: false: something could not be changed, which was said. */
bool kh_shut_folder(const struct kh_walk_folder *folder,
		    bool (*was_there)(void *arg, const unsigned char *digest), void *arg);

#endif
