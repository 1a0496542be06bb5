/* up_key.c - which requests may share a connection to an upstream */

#include "proxy_internal.h"

/* The very same: each was judged by all of them. */
static bool same_lists(const struct kh_geo_levels *a, const struct kh_geo_levels *b)
{
	for (unsigned i = 0; i < KH_GEO_LEVELS; i++)
		if (a->at[i] != b->at[i])
			return false;
	return true;
}

static bool same_credentials(const struct kh_up_key *a, const struct kh_up_key *b)
{
	return a->n_credentials == b->n_credentials &&
	       memcmp(a->credentials, b->credentials, sizeof(a->credentials)) == 0;
}

bool kh_up_same_key(const struct kh_up_key *a, const struct kh_up_key *b)
{
	return a->port == b->port && a->scheme == b->scheme && a->generation == b->generation &&
	       a->tenant == b->tenant && a->identity == b->identity && same_credentials(a, b) &&
	       a->door == b->door && same_lists(&a->geo, &b->geo) && kh_host_eq(&a->host, &b->host);
}
