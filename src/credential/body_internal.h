/* body_internal.h - the two parsers that body.c uses, for JSON and for forms */
#ifndef KEYHOLE_BODY_INTERNAL_H
#define KEYHOLE_BODY_INTERNAL_H

#include <keyhole/credential/body.h>
#include <keyhole/base/json_scan.h>
#include <keyhole/base/limits.h>

#include "credential_internal.h"

/* What a reader says of each byte. */
enum kh_body_step {
	KH_BODY_KEEP = 0, /* it goes on */
	KH_BODY_FILL,	  /* it goes on, and the value after it */
	KH_BODY_DROP,	  /* it is part of what was replaced */
	KH_BODY_FAULT,
};

/* A decoded name, as much as is needed to compare it. */
struct kh_body_name {
	size_t len; /* of all of it; more than fits is nobody's name */
	char text[KH_LIMIT_BODY_NAME_BYTES];
};

/* body_json.c */
struct kh_body_json {
	struct kh_json_scan scan;
	const char *steps[KH_LIMIT_BODY_STEPS]; /* of the pointer, as they are written there */
	size_t step_len[KH_LIMIT_BODY_STEPS];
	size_t n_steps;
	unsigned on_path;		/* the deepest open one that leads to the place; 0: none */
	bool seen[KH_LIMIT_BODY_STEPS]; /* its step was found in the open one */
	uint64_t index[KH_LIMIT_BODY_STEPS]; /* of an array's element */
	bool chosen;			     /* the value of this name is the next step */
	bool in_place;			     /* the text that is read is what is replaced */
	bool filled;
	struct kh_body_name name;
	bool odd; /* the name holds what some readers undo, fold, or stop at */
	bool cut; /* they have stopped */
};
void kh_body_json_init(struct kh_body_json *json, const char *pointer);
enum kh_body_step kh_body_json_byte(struct kh_body_json *json, unsigned char c, const char **why);
/* How many bytes at the beginning of `rest` are plain ones of a text that goes on: they need no
 * look each. */
size_t kh_body_json_plain(const struct kh_body_json *json, struct kh_slice rest);
bool kh_body_json_end(struct kh_body_json *json, const char **why);
bool kh_body_json_put(struct kh_buf *out, struct kh_slice value);

/* body_form.c */
struct kh_body_form {
	const char *wanted;
	bool in_value;
	bool ours;
	bool filled;
	bool after_semicolon;
	bool odd; /* the name is escaped, or has blanks around it */
	unsigned hex_left;
	uint64_t bytes; /* of the name, as they came */
	struct kh_form_name name;
};
void kh_body_form_init(struct kh_body_form *form, const char *name);
enum kh_body_step kh_body_form_byte(struct kh_body_form *form, unsigned char c, const char **why);
size_t kh_body_form_plain(const struct kh_body_form *form, struct kh_slice rest);
bool kh_body_form_end(struct kh_body_form *form, const char **why);

#endif
