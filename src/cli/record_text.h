/* record_text.h - a record of the journal in words, for those who look at some of them */
#ifndef KEYHOLE_CLI_RECORD_TEXT_H
#define KEYHOLE_CLI_RECORD_TEXT_H

#include <jansson.h>

#include <keyhole/base/buf.h>

/* A field; empty and 0 when it is not there. */
struct kh_slice kh_record_text(const json_t *record, const char *key);
uint64_t kh_record_number(const json_t *record, const char *key);
/* `before` and the text, escaped for a terminal; nothing for an empty one. */
void kh_record_put(struct kh_buf *row, const char *before, struct kh_slice text);
/* "2026-01-02T03:04:05.678Z" as "2026-01-02 03:04:05". */
void kh_record_put_time(struct kh_buf *row, const json_t *record);
/* With the names of what its query asked. */
void kh_record_put_url(struct kh_buf *row, const json_t *record);
/* Standard output is a terminal, and nobody said no. */
bool kh_record_wants_colour(void);

#endif
