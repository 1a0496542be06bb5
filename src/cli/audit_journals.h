/* audit_journals.h - reads journals with all their segments, each file once */
#ifndef KEYHOLE_CLI_AUDIT_JOURNALS_H
#define KEYHOLE_CLI_AUDIT_JOURNALS_H

#include "audit_show.h"

/* Shows each of `files`, after its earlier segments; "-" is standard input. Says what is wrong with
 * them. Return: exit status. */
int kh_audit_read_journals(char **files, const char *command, struct kh_audit_show *show);

#endif
