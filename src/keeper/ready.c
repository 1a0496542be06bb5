/* ready.c - the message to a launcher about its private daemon */

#include <keyhole/keeper/keeper.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/wire.h>

/* Placeholders are as long as the secrets that they stand for. */
enum { READY_BYTES_MOST = 4 * 1024 * 1024, PLACEHOLDERS_MOST = 1024, LENGTH_BYTES = 4 };

void kh_ready_fini(struct kh_ready *ready)
{
	free(ready->error);
	free(ready->ca_pem);
	free(ready->audit_path);
	for (size_t i = 0; ready->placeholders && i < ready->n_placeholders; i++) {
		free(ready->placeholders[i].env_name);
		free(ready->placeholders[i].value);
	}
	free(ready->placeholders);
	*ready = (struct kh_ready){ .ok = false };
}

static bool encode(const struct kh_ready *ready, struct kh_buf *out)
{
	bool fits = kh_wire_put_u8(out, ready->ok) && kh_wire_put_str(out, ready->error) &&
		    kh_wire_put_str(out, ready->ca_pem) &&
		    kh_wire_put_str(out, ready->audit_path) &&
		    kh_wire_put_u32(out, (uint32_t)ready->n_placeholders);
	for (size_t i = 0; fits && i < ready->n_placeholders; i++)
		fits = kh_wire_put_str(out, ready->placeholders[i].env_name) &&
		       kh_wire_put_str(out, ready->placeholders[i].value);
	return fits;
}

bool kh_ready_write(int fd, const struct kh_ready *ready, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body, message;
	kh_buf_init(&body, READY_BYTES_MOST);
	kh_buf_init(&message, READY_BYTES_MOST + LENGTH_BYTES);
	if (!encode(ready, &body) || !kh_wire_put_bytes(&message, kh_buf_view(&body)))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "readiness: too long");
	return kh_file_write_all(fd, kh_buf_view(&message), err) || kh_err_wrap(err, "readiness");
}

static bool read_exactly(int fd, char *out, size_t len, uint64_t deadline_ms, struct kh_err *err)
{
	while (len > 0) {
		uint64_t now = kh_clock_mono_ms();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int n = now < deadline_ms ? poll(&p, 1, (int)(deadline_ms - now)) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return kh_err_set(err, KH_ERR_SYSTEM,
					  "the proxy did not get ready in time");
		ssize_t got = n < 0 ? -1 : read(fd, out, len);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "readiness");
		if (got == 0)
			return kh_err_set(err, KH_ERR_SYSTEM,
					  "the proxy ended before it was ready");
		out += got;
		len -= (size_t)got;
	}
	return true;
}

static void decode_placeholders(struct kh_wire_reader *r, struct kh_ready *out)
{
	uint32_t n = kh_wire_count(r, PLACEHOLDERS_MOST);
	out->placeholders = n > 0 ? calloc(n, sizeof(*out->placeholders)) : NULL;
	if (n > 0 && !out->placeholders)
		r->bad = true;
	for (uint32_t i = 0; i < n && !r->bad; i++) {
		struct kh_ready_placeholder *p = &out->placeholders[out->n_placeholders++];
		p->env_name = kh_wire_str(r);
		p->value = kh_wire_str(r);
		if (!p->env_name || !p->value)
			r->bad = true;
	}
}

static bool decode(struct kh_slice bytes, struct kh_ready *out)
{
	struct kh_wire_reader r = { .rest = bytes };
	uint8_t ok = kh_wire_u8(&r);
	out->ok = ok == 1;
	out->error = kh_wire_str(&r);
	out->ca_pem = kh_wire_str(&r);
	out->audit_path = kh_wire_str(&r);
	decode_placeholders(&r, out);
	return kh_wire_done(&r) && ok <= 1 &&
	       (out->ok ? out->ca_pem && out->audit_path : out->error != NULL);
}

bool kh_ready_await_serving(int fd, uint32_t timeout_ms, struct kh_err *err)
{
	char serves;
	return read_exactly(fd, &serves, 1, kh_clock_mono_ms() + timeout_ms, err);
}

bool kh_ready_read(int fd, struct kh_ready *out, uint32_t timeout_ms, struct kh_err *err)
{
	uint64_t deadline = kh_clock_mono_ms() + timeout_ms;
	char head[LENGTH_BYTES];
	*out = (struct kh_ready){ .ok = false };
	if (!read_exactly(fd, head, sizeof(head), deadline, err))
		return false;
	struct kh_wire_reader r = { .rest = kh_slice_of(head, sizeof(head)) };
	uint32_t len = kh_wire_u32(&r);
	if (len == 0 || len > READY_BYTES_MOST)
		return kh_err_set(err, KH_ERR_INTERNAL, "readiness: not understood");
	kh_auto_free char *bytes = malloc(len);
	if (!bytes)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "readiness: no memory");
	if (!read_exactly(fd, bytes, len, deadline, err))
		return false;
	if (decode(kh_slice_of(bytes, len), out))
		return true;
	kh_ready_fini(out);
	return kh_err_set(err, KH_ERR_INTERNAL, "readiness: not understood");
}
