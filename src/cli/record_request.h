/* record_request.h - what a record says of its request */
#ifndef KEYHOLE_CLI_RECORD_REQUEST_H
#define KEYHOLE_CLI_RECORD_REQUEST_H

#include <keyhole/exchange/recorded.h>

#include "journal_exchanges.h"

/* keyhole's own pages are nobody's requests; one that was decided anew is there again, under
 * another id. */
bool kh_record_is_request(const struct kh_journal_exchange *exchange);
/* Views of the exchange's records. */
void kh_record_request(const struct kh_journal_exchange *exchange, struct kh_recorded *out);
/* "GET https://api.example.com/v1/x?page", escaped for a terminal and for a comment. */
void kh_record_put_request(struct kh_buf *out, const struct kh_journal_exchange *exchange);

#endif
