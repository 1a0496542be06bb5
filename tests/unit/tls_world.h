/* tls_world.h - one world a test: what tests of streams begin with */
#ifndef KEYHOLE_TESTS_TLS_WORLD_H
#define KEYHOLE_TESTS_TLS_WORLD_H

#include "tls_pair.h"

#include <keyhole/base/machine.h>

static struct world w;

/* Of machines, before the test; those that it makes on purpose count as before it. */
static uint64_t faults;

static inline void faults_are_meant(void)
{
	faults = kh_machine_faults();
}

static inline int setup(void **state)
{
	(void)state;
	faults_are_meant();
	world_init(&w);
	world_trust(&w, kh_ca_pem(w.ca));
	world_mint(&w, "api.example.com");
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	world_fini(&w);
	/* Whatever was done, no machine was asked for a step that it does not have. */
	return kh_machine_faults() == faults ? 0 : -1;
}

static inline void finish_handshake(struct pair *p)
{
	TURN_UNTIL(&w, p->down.done && p->up.done);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
