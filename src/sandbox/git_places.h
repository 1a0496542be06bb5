/* git_places.h - the fixed places of git's configuration files, whether they exist or not */
#ifndef KEYHOLE_SANDBOX_GIT_PLACES_H
#define KEYHOLE_SANDBOX_GIT_PLACES_H

#include "git_ask.h"
#include "git_names.h"

/* Calls `each` for the configuration files of the system and of this user, with absolute paths. */
void kh_git_places_each(struct kh_git_finding *f, const struct kh_git_person *person,
			void (*each)(struct kh_git_finding *f, const char *path));
/* Records these files, and others that git reads beside them or by the environment. */
void kh_git_places_look(struct kh_git_finding *f, const struct kh_git_person *person);

#endif
