/* suffix.c - wildcards over names that strangers can register below (the Public Suffix List) */
#include <libpsl.h>
#include <pthread.h>

#include <keyhole/escape.h>

#include "config_internal.h"

static psl_ctx_t *list;

/* The system's list where it is newer than the library's own. Kept for the life of the process. */
static void load(void)
{
	list = psl_latest(NULL);
}

bool kh_config_check_suffix(struct kh_reader *reader, const struct kh_node *node,
			    enum kh_host_match match, const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (match != KH_MATCH_SUFFIX)
		return true;
	(void)pthread_once(&once, load);
	if (!list) {
		kh_reader_error(
			reader, node,
			"host \"*.%s\": the public suffix list can't be read, so nobody can "
			"say whose names a wildcard covers",
			kh_esc_str(name));
		return false;
	}
	if (!psl_is_public_suffix2(list, name, PSL_TYPE_ANY | PSL_TYPE_NO_STAR_RULE))
		return true;
	kh_reader_error(reader, node,
			"host \"*.%s\": anybody can have a name below %s (it is a public suffix): "
			"name the hosts, or a wildcard below your own name",
			kh_esc_str(name), kh_esc_str(name));
	return false;
}
