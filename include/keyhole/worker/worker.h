/* worker.h - the process that reads hostile bytes */
#ifndef KEYHOLE_WORKER_WORKER_H
#define KEYHOLE_WORKER_WORKER_H

#include <keyhole/base/worker_exit.h>

/* `keyhole worker`, which the keeper executes with the channel on KH_WORKER_CHANNEL_FD, stderr,
 * /dev/null on 0 and 1, and no other descriptor. Return: the exit status, an enum
 * kh_worker_exit. */
int kh_worker_main(void);

#endif
