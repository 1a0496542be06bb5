/*
 * header.c - the credential's own fields, written while its page is open
 *
 * The window holds nothing but the copy into the head that is being written. That head is a wiping
 * buffer, or nothing is written.
 */
#include <keyhole/credential.h>

struct job {
	const struct kh_credential_config *credential;
	struct kh_buf *out;
	const char *fault;
};

bool kh_credential_may_go_to(const struct kh_credential_config *credential,
			     const struct kh_host *host)
{
	for (size_t i = 0; i < credential->n_hosts; i++)
		if (kh_host_pattern_matches(&credential->hosts[i], host))
			return true;
	return false;
}

/* '_' for '-' as in carriers.c: a server may take both for the field that goes in. */
static bool is_same_name(struct kh_slice a, struct kh_slice b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		char x = a.ptr[i] == '_' ? '-' : kh_lower(a.ptr[i]);
		char y = b.ptr[i] == '_' ? '-' : kh_lower(b.ptr[i]);

		if (x != y)
			return false;
	}
	return true;
}

bool kh_credential_sets_field(const struct kh_credential_config *credential, struct kh_slice name)
{
	const struct kh_placement *placement = credential->placement;

	for (size_t i = 0; placement && i < placement->n_fields; i++)
		if (is_same_name(kh_slice_str(placement->fields[i].name), name))
			return true;
	return false;
}

/* RFC 9110 §5.5: visible bytes, and blanks only between them (a reader drops the others, and the
 * value would not be what was meant). */
static bool is_field_content(struct kh_slice value)
{
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.ptr[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return value.len > 0 && kh_slice_trim(value).len == value.len;
}

static bool put_field(struct kh_buf *out, const struct kh_credential_field *field,
		      struct kh_slice value)
{
	return kh_buf_append_str(out, field->name) && kh_buf_append_str(out, ": ") &&
	       kh_buf_append_str(out, field->prefix) && kh_buf_append_slice(out, value) &&
	       kh_buf_append_str(out, field->suffix) && kh_buf_append_str(out, "\r\n");
}

static bool put_all(struct kh_slice value, void *arg)
{
	struct job *job = arg;
	size_t before = kh_buf_len(job->out);

	if (!is_field_content(value)) {
		job->fault = "its value holds a byte that a header can't, or a blank at either end";
		return false;
	}
	for (size_t i = 0; i < job->credential->placement->n_fields; i++) {
		if (put_field(job->out, &job->credential->placement->fields[i], value))
			continue;
		kh_buf_truncate(job->out, before);
		job->fault = "no room for it in the request's head";
		return false;
	}
	return true;
}

bool kh_credential_put_fields(const struct kh_credential_config *credential,
			      const struct kh_secret *secret, struct kh_buf *out,
			      struct kh_err *err)
{
	struct job job = { .credential = credential,
			   .out = out,
			   .fault = "its page can't be read" };

	if (!out->wipe)
		return kh_err_set(err, KH_ERR_INTERNAL,
				  "credential %s: the head is not written into a wiping buffer",
				  credential->name);
	if (!credential->placement || credential->placement->n_fields == 0)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "credential %s: it sets no header", credential->name);
	if (!kh_secret_expose(secret, put_all, &job))
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: %s",
				  credential->name, job.fault);
	return true;
}
