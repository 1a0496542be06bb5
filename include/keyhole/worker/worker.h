/* worker.h - the process that faces hostile bytes */
#ifndef KEYHOLE_WORKER_WORKER_H
#define KEYHOLE_WORKER_WORKER_H

#include <keyhole/base/worker_exit.h>

/* `keyhole worker`, executed by the keeper with the channel on KH_WORKER_CHANNEL_FD and nothing
 * else but stderr (and /dev/null on 0 and 1). Return: exit status, an enum kh_worker_exit. */
int kh_worker_main(void);

#endif
