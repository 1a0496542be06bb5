/* sigv4_scope.c - parses and writes the scope of a signature: day, region and service */
#include <keyhole/credential/sigv4.h>

#include <time.h>

static bool is_date(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!kh_is_digit(text.ptr[i]))
			return false;
	return text.len == KH_SIGV4_DATE_BYTES - 1;
}

bool kh_sigv4_scope_parse(struct kh_sigv4_scope *out, struct kh_slice text)
{
	size_t first = kh_slice_find(text, '/', 0), second = kh_slice_find(text, '/', first + 1);
	struct kh_slice date = kh_slice_sub(text, 0, first);
	struct kh_slice region = kh_slice_sub(text, first + 1, second);
	struct kh_slice service = kh_slice_sub(text, second + 1, text.len);

	*out = (struct kh_sigv4_scope){ .date = "" };
	if (!is_date(date) || !kh_sigv4_is_name(region) || !kh_sigv4_is_name(service))
		return false;
	memcpy(out->date, date.ptr, date.len);
	memcpy(out->region, region.ptr, region.len);
	memcpy(out->service, service.ptr, service.len);
	return true;
}

bool kh_sigv4_scope_put(struct kh_buf *out, const struct kh_sigv4_scope *scope)
{
	return kh_buf_append_str(out, scope->date) && kh_buf_append_char(out, '/') &&
	       kh_buf_append_str(out, scope->region) && kh_buf_append_char(out, '/') &&
	       kh_buf_append_str(out, scope->service);
}

void kh_sigv4_time(uint64_t wall_ms, char out[KH_SIGV4_TIME_BYTES])
{
	time_t seconds = (time_t)(wall_ms / 1000);
	struct tm tm;

	out[0] = '\0';
	if (gmtime_r(&seconds, &tm))
		(void)strftime(out, KH_SIGV4_TIME_BYTES, "%Y%m%dT%H%M%SZ", &tm);
}

enum kh_sigv4_path kh_sigv4_path_of(struct kh_slice service)
{
	return kh_slice_eq(service, KH_SLICE("s3")) ||
			       kh_slice_eq(service, KH_SLICE("s3-outposts")) ||
			       kh_slice_eq(service, KH_SLICE("s3-object-lambda")) ||
			       kh_slice_eq(service, KH_SLICE("s3express"))
		       ? KH_SIGV4_PATH_S3
		       : KH_SIGV4_PATH_NORMAL;
}
