/* message_internal.h - questions of the codecs about fields */
#ifndef KEYHOLE_MESSAGE_INTERNAL_H
#define KEYHOLE_MESSAGE_INTERNAL_H

#include <keyhole/http/message.h>

#include "override_name.h"

/* Steps through a comma-separated list (RFC 9110 §5.6.1): each element without its blanks, empty
 * ones too. Commas in quoted strings are not looked for: only for lists of tokens. */
bool kh_list_next(struct kh_slice *rest, struct kh_slice *element);
/* A field on which decisions rest and which a Connection option therefore may not take away. */
bool kh_message_is_end_to_end(struct kh_slice name);
/* A field that makes a trailer section malformed: framing, routing, authentication, the form of
 * the content, controls (RFC 9110 §6.5.1). */
bool kh_message_is_no_trailer(struct kh_slice name);
/* The same without the endings that only a request's sender would use. */
bool kh_message_is_listed_no_trailer(struct kh_slice name);
/* Content-Length or Transfer-Encoding in another spelling ("content_length"): servers that hand
 * fields on in variables know the names no more apart. Refused in both versions, both ways. */
bool kh_message_is_disguised_framing(struct kh_slice name);
#define KH_DISGUISED_FRAMING "a field that frames is named with '_' for '-', or the like"
/* override.c: does this field name another method, host or path? */
bool kh_override_is_field(struct kh_slice name);
/* copy_source.c: what a field or parameter of such a name (override_name.h) has the server read */
struct kh_overrides;
void kh_copy_source_note(struct kh_overrides *out, enum kh_override_kind form, struct kh_slice name,
			 struct kh_slice value);
/* The repository in which a blob is looked for. */
void kh_copy_source_note_repository(struct kh_overrides *out, struct kh_slice name,
				    struct kh_slice value);
/* Has a comma-separated list this token (any case)? */
bool kh_list_has(struct kh_slice list, struct kh_slice token);

#endif
