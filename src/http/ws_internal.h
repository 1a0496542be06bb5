/* ws_internal.h - shared by the files of the WebSocket codec */
#ifndef KEYHOLE_WS_INTERNAL_H
#define KEYHOLE_WS_INTERNAL_H

#include <keyhole/http/ws.h>

/* XOR with the key (§5.3), from the key's first byte on; masking and unmasking are the same. `to`
 * is `from` or does not overlap it. */
void kh_ws_mask(char *to, const char *from, size_t len, const uint8_t key[4]);

#endif
