/* admin_facts.c - encodes and decodes what the keeper tells the worker about itself */

#include <keyhole/admin/admin_facts.h>

#include <stdlib.h>
#include <string.h>

bool kh_admin_facts_put(struct kh_buf *out, const struct kh_admin_facts *facts)
{
	return kh_wire_put_u32(out, facts->pid) && kh_wire_put_u32(out, facts->starts) &&
	       kh_wire_put_u64(out, facts->started_ms) && kh_wire_put_u64(out, facts->loaded_ms) &&
	       kh_wire_put_u64(out, facts->reloads) &&
	       kh_wire_put_u64(out, facts->failed_reloads) &&
	       kh_wire_put_u64(out, facts->failed_ms) && kh_wire_put_str(out, facts->failure) &&
	       kh_wire_put_str(out, facts->config_path) &&
	       kh_wire_put_str(out, facts->config_hash) &&
	       kh_wire_put_str(out, facts->journal_path) &&
	       kh_wire_put_u32(out, facts->credentials_left_out);
}

bool kh_admin_facts_take(struct kh_slice body, struct kh_admin_facts *out)
{
	struct kh_wire_reader r = { .rest = body };

	*out = (struct kh_admin_facts){ .pid = kh_wire_u32(&r) };
	out->starts = kh_wire_u32(&r);
	out->started_ms = kh_wire_u64(&r);
	out->loaded_ms = kh_wire_u64(&r);
	out->reloads = kh_wire_u64(&r);
	out->failed_reloads = kh_wire_u64(&r);
	out->failed_ms = kh_wire_u64(&r);
	out->failure = kh_wire_str(&r);
	out->config_path = kh_wire_str(&r);
	out->config_hash = kh_wire_str(&r);
	out->journal_path = kh_wire_str(&r);
	out->credentials_left_out = kh_wire_u32(&r);
	return kh_wire_done(&r);
}

void kh_admin_facts_fini(struct kh_admin_facts *facts)
{
	free(facts->failure);
	free(facts->config_path);
	free(facts->config_hash);
	free(facts->journal_path);
	free(facts->credentials);
	*facts = (struct kh_admin_facts){ 0 };
}

static bool copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

bool kh_admin_facts_copy(struct kh_admin_facts *to, const struct kh_admin_facts *from)
{
	*to = *from;
	bool failure = copy_text(&to->failure, from->failure),
	     path = copy_text(&to->config_path, from->config_path),
	     hash = copy_text(&to->config_hash, from->config_hash),
	     journal = copy_text(&to->journal_path, from->journal_path),
	     credentials = copy_text(&to->credentials, from->credentials);
	return failure && path && hash && journal && credentials;
}
