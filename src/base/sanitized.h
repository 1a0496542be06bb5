/* sanitized.h - is this built for a sanitizer, which has to see each block's end of life? */
#ifndef KEYHOLE_BASE_SANITIZED_H
#define KEYHOLE_BASE_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define KH_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KH_SANITIZED true
#endif
#endif
#ifndef KH_SANITIZED
#define KH_SANITIZED false
#endif

#endif
