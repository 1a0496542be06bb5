/* audit_show.h - records of journals as rows */
#ifndef KEYHOLE_CLI_AUDIT_SHOW_H
#define KEYHOLE_CLI_AUDIT_SHOW_H

#include <stdbool.h>

struct kh_audit_select;
struct kh_audit_summary;

/* The pointers stay the caller's. */
struct kh_audit_show_options {
	bool json;
	struct kh_audit_select *select;
	struct kh_audit_summary *summary; /* counts here, and prints no exchange; NULL: prints */
};
struct kh_audit_show;

/* `options` outlive it. Return: NULL without memory. */
struct kh_audit_show *kh_audit_show_new(const struct kh_audit_show_options *options);
void kh_audit_show_free(struct kh_audit_show *show);
/* Shows a journal, and says what is wrong with it. The caller keeps `fd`. Return: exit status. */
int kh_audit_show_stream(struct kh_audit_show *show, int fd, const char *name);

#endif
