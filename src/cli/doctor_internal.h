/* doctor_internal.h - the results of `keyhole doctor`, one row per test */
#ifndef KEYHOLE_DOCTOR_INTERNAL_H
#define KEYHOLE_DOCTOR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

enum kh_doctor_state {
	KH_DOCTOR_OK,
	KH_DOCTOR_ABSENT,  /* optional, and not there */
	KH_DOCTOR_WARNING, /* keyhole works without it, but less safely or more slowly */
	KH_DOCTOR_NO,	   /* features that need it do not work here */
};

struct kh_doctor_row {
	const char *group;
	char *name, *text; /* a word; and a line with the result and what to do */
	enum kh_doctor_state state;
};

struct kh_doctor_report {
	struct kh_doctor_row *rows;
	size_t n;
	bool failed; /* without memory */
};

void kh_doctor_add(struct kh_doctor_report *report, const char *group, const char *name,
		   enum kh_doctor_state state, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* doctor_host.c: the kernel, by trials. */
void kh_doctor_host(struct kh_doctor_report *report);
/* doctor_image.c: what --image needs. */
void kh_doctor_image(struct kh_doctor_report *report);
/* doctor_kvm.c: runs a guest of one instruction. */
void kh_doctor_kvm(struct kh_doctor_report *report);

#endif
