/* git_places.h - where git on the host looks by its own rules, whether anything is there or not */
#ifndef KEYHOLE_SANDBOX_GIT_PLACES_H
#define KEYHOLE_SANDBOX_GIT_PLACES_H

#include "git_ask.h"
#include "git_names.h"

/* The configuration files of the system and of this person, each by an absolute path. */
void kh_git_places_each(struct kh_git_finding *f, const struct kh_git_person *person,
			void (*each)(struct kh_git_finding *f, const char *path));
/* Notes these files, and what else git reads beside them or by the environment. */
void kh_git_places_look(struct kh_git_finding *f, const struct kh_git_person *person);

#endif
