/* proxy_internal.h - all of one event thread's objects: loop, session, exchange, upstream */
#ifndef KEYHOLE_PROXY_INTERNAL_H
#define KEYHOLE_PROXY_INTERNAL_H

#include <keyhole/escape.h>
#include <keyhole/log.h>

#include "loop_internal.h"
#include "exchange_internal.h"
#include "session_internal.h"
#include "upstream_internal.h"
#include "websocket_internal.h"

#endif
