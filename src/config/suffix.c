/* suffix.c - wildcards over suffixes under which others can register names (the Public Suffix List)
 */
#include <libpsl.h>
#include <pthread.h>
#include <stdio.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

static psl_ctx_t *list;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The system's list where it is newer than the library's own. Kept for the life of the process. */
static void load(void)
{
	list = psl_latest(NULL);
}

/* Also where each name below it is one (the list has "*.compute.amazonaws.com"). */
static bool covers(const char *name, int type)
{
	char below[KH_HOST_MAX_BYTES + 8];
	if (psl_is_public_suffix2(list, name, type | PSL_TYPE_NO_STAR_RULE))
		return true;
	int len = snprintf(below, sizeof(below), "0-0.%s", name);
	return len > 0 && (size_t)len < sizeof(below) &&
	       psl_is_public_suffix2(list, below, type | PSL_TYPE_NO_STAR_RULE);
}

bool kh_config_is_private_suffix(const char *name)
{
	(void)pthread_once(&once, load);
	return !list || covers(name, PSL_TYPE_PRIVATE);
}

static bool is_word(const struct kh_yaml_node *node, const char *word)
{
	return node->kind == KH_NODE_SCALAR && kh_slice_eq(node->text, kh_slice_str(word));
}

bool kh_config_check_registry(struct kh_reader *reader, const struct kh_yaml_node *node,
			      const char *name)
{
	(void)pthread_once(&once, load);
	if (!list) {
		kh_reader_error(
			reader, node,
			"host \"*.%s\": the public suffix list can't be read, so nobody can "
			"say whose names a wildcard covers",
			kh_esc_str(name));
		return false;
	}
	if (covers(name, PSL_TYPE_ICANN)) {
		kh_reader_error(reader, node,
				"host \"*.%s\": anybody can register a name below %s (it is a "
				"public suffix of a registry): name the hosts, or a wildcard below "
				"your own name",
				kh_esc_str(name), kh_esc_str(name));
		return false;
	}
	return true;
}

bool kh_config_check_suffix(struct kh_reader *reader, const struct kh_yaml_node *node,
			    enum kh_host_match match, const char *name,
			    const struct kh_yaml_node *meant)
{
	if (meant && !is_word(meant, "allow")) {
		kh_reader_error(reader, meant, "rules[].public_suffix: expected allow");
		return false;
	}
	if (match != KH_MATCH_SUFFIX) {
		if (meant)
			kh_reader_error(reader, meant,
					"rules[].public_suffix: goes with a wildcard over a public "
					"suffix, as https://*.github.io");
		return !meant;
	}
	if (!kh_config_check_registry(reader, node, name))
		return false;
	bool shared = covers(name, PSL_TYPE_PRIVATE);
	if (shared && !meant)
		kh_reader_error(reader, node,
				"host \"*.%s\": anybody can have a name below %s (it is a public "
				"suffix): name the hosts, or a wildcard below your own name; where "
				"a rule does mean all of them it says public_suffix: allow (and a "
				"credential that goes there shared_host: accept)",
				kh_esc_str(name), kh_esc_str(name));
	else if (!shared && meant)
		kh_reader_error(reader, meant,
				"rules[].public_suffix: %s is no public suffix, so this says "
				"nothing: take it away (a credential for a shared service "
				"needs only its own shared_host: accept)",
				kh_esc_str(name));
	return shared == (meant != NULL);
}
