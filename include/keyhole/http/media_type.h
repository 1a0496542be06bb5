/* media_type.h - parses a Content-Type strictly */
#ifndef KEYHOLE_HTTP_MEDIA_TYPE_H
#define KEYHOLE_HTTP_MEDIA_TYPE_H

#include <keyhole/base/slice.h>

/*
 * Splits a media type (RFC 9110 §8.3.1); views. *charset: without quotes; ptr NULL: it has none.
 * Return: false: another parser may find another type or charset: a byte beyond ASCII, a blank or
 * quote out of place, a backslash, two charsets, an RFC 2231 one (`charset*`).
 */
bool kh_media_type_read(struct kh_slice value, struct kh_slice *type, struct kh_slice *charset);

#endif
