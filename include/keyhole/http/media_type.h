/* media_type.h - what a Content-Type says, in one reading */
#ifndef KEYHOLE_HTTP_MEDIA_TYPE_H
#define KEYHOLE_HTTP_MEDIA_TYPE_H

#include <keyhole/base/slice.h>

/*
 * Takes a media type apart (RFC 9110 §8.3.1). *charset: without quotes; ptr NULL: it says none.
 * Return: false where another reader may find another type or charset: a byte beyond ASCII, a blank
 * or quote out of place, a backslash, two charsets, one by RFC 2231 (`charset*`).
 */
bool kh_media_type_read(struct kh_slice value, struct kh_slice *type, struct kh_slice *charset);

#endif
