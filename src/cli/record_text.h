/* record_text.h - formats a record of the journal for people */
#ifndef KEYHOLE_CLI_RECORD_TEXT_H
#define KEYHOLE_CLI_RECORD_TEXT_H

#include <jansson.h>

#include <keyhole/base/buf.h>

/* A member of a record; empty or 0 if it is absent. */
struct kh_slice kh_record_text(const json_t *record, const char *key);
uint64_t kh_record_number(const json_t *record, const char *key);
/* Appends `before` and the text, escaped for a terminal; nothing if the text is empty. */
void kh_record_put(struct kh_buf *row, const char *before, struct kh_slice text);
/* The same for a text of any length: kh_esc cuts one that is longer than KH_ESC_MAX_BYTES. */
void kh_record_put_whole(struct kh_buf *row, const char *before, struct kh_slice text);
/* Appends the time: "2026-01-02T03:04:05.678Z" as "2026-01-02 03:04:05". */
void kh_record_put_time(struct kh_buf *row, const json_t *record);
/* Appends the URL, with the names of its query parameters. */
void kh_record_put_url(struct kh_buf *row, const json_t *record);
/* Is standard output a terminal, and colour not disabled? */
bool kh_record_wants_colour(void);

#endif
