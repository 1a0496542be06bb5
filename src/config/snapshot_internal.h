/* snapshot_internal.h - what the files of the snapshot share: the writer's and reader's small parts
 */
#ifndef KEYHOLE_SNAPSHOT_INTERNAL_H
#define KEYHOLE_SNAPSHOT_INTERNAL_H

#include <keyhole/wire.h>

#include "config_internal.h"

/* Rules of a list; methods of a rule are part of its text. */
enum { KH_SNAPSHOT_RULES = 16 * 1024 * 1024, KH_SNAPSHOT_LISTED = 65536 };

bool kh_put_where(struct kh_buf *out, const struct kh_where *where);
/* NULL is none. */
bool kh_put_geo(struct kh_buf *out, const struct kh_geo_rules *geo);
bool kh_put_pattern(struct kh_buf *out, const struct kh_host_pattern *pattern);
bool kh_put_credential(struct kh_buf *out, const struct kh_credential_config *credential);
bool kh_put_placement(struct kh_buf *out, const struct kh_placement *placement); /* NULL: none */
bool kh_put_stand_in(struct kh_buf *out, const struct kh_stand_in *stand_in);
bool kh_put_stand_in_keys(struct kh_buf *out, const struct kh_config *config);
bool kh_put_signing(struct kh_buf *out, const struct kh_placement *placement);
bool kh_put_rules(struct kh_buf *out, const struct kh_rules *rules);
bool kh_put_grants(struct kh_buf *out, const struct kh_admin_config *admin);
bool kh_put_limits(struct kh_buf *out, const struct kh_limits *limits); /* NULL: none */

/* A configuration being read: `r.bad` is the one flag for whatever is wrong. */
struct kh_snapshot_in {
	struct kh_wire_reader r;
	struct kh_config *config;
};

/* One more element of a list. Return: NULL where something is bad. */
void *kh_in_add(struct kh_snapshot_in *in, void *list, size_t *count, size_t size);
bool kh_in_flag(struct kh_snapshot_in *in);
/* A string that must be there. */
char *kh_in_text(struct kh_snapshot_in *in);
struct kh_where kh_in_where(struct kh_snapshot_in *in);
struct kh_geo_rules *kh_in_geo(struct kh_snapshot_in *in);
struct kh_host_pattern kh_in_pattern(struct kh_snapshot_in *in);
void kh_in_credential(struct kh_snapshot_in *in, struct kh_credential_config *credential);
struct kh_placement *kh_in_placement(struct kh_snapshot_in *in);
struct kh_stand_in kh_in_stand_in(struct kh_snapshot_in *in);
void kh_in_stand_in_keys(struct kh_snapshot_in *in);
void kh_in_signing(struct kh_snapshot_in *in, struct kh_placement *placement);
void kh_in_rules(struct kh_snapshot_in *in, struct kh_rules *rules);
/* Rules that bring nothing along, and are never only observed. */
void kh_in_narrowing(struct kh_snapshot_in *in, struct kh_rules *rules);
/* The tenants have been read. */
void kh_in_grants(struct kh_snapshot_in *in, struct kh_admin_config *admin);
struct kh_limits *kh_in_limits(struct kh_snapshot_in *in);

#endif
