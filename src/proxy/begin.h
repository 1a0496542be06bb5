/* begin.h - a worker between its first message and its last thread's start */
#ifndef KEYHOLE_PROXY_BEGIN_H
#define KEYHOLE_PROXY_BEGIN_H

#include "worker_internal.h"

#include <keyhole/buf.h>
#include <keyhole/limits.h>

struct kh_beginning {
	struct kh_worker *worker;
	int roots[KH_LIMIT_CHANNEL_FDS];
	unsigned n_roots;
	struct kh_buf resolv_conf, hosts;
	pthread_t threads[KH_WORKER_THREADS_MOST];
	int done; /* eventfd: how many event threads have returned */
};

void kh_begin_init(struct kh_beginning *b, struct kh_worker *worker);
/* The start's messages, up to and with GO. Return: false, and the exit status in *status. */
bool kh_begin_take(struct kh_beginning *b, int *status);

#endif
