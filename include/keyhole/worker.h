/* worker.h - the process that faces hostile bytes */
#ifndef KEYHOLE_WORKER_H
#define KEYHOLE_WORKER_H

/* `keyhole worker`, exec'd by the keeper with the channel on this descriptor and nothing else but
 * stderr. Return: exit status. */
enum { KH_WORKER_CHANNEL_FD = 3 };
int kh_worker_main(void);

#endif
