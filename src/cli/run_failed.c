/* run_failed.c - what was allowed in a run and failed, and the credentials that servers refused */
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>

#include "run_internal.h"

enum { SHOWN_MOST = 10, TEXT_BYTES = 2048 };

/* Behind the name of the host, which the place has. */
static struct kh_slice detail_of(const struct kh_refused_place *place)
{
	struct kh_slice detail = kh_slice_str(place->detail), host = kh_slice_str(place->host);
	size_t colon = kh_slice_find(detail, ':', 0);
	if (kh_slice_has_prefix(detail, host))
		colon = kh_slice_find(detail, ':', host.len);
	bool named = colon + 1 < detail.len && kh_slice_eq(kh_slice_sub(detail, 0, colon), host);
	return named ? kh_slice_trim(kh_slice_sub(detail, colon + 1, detail.len)) : detail;
}

/* Where the value of the one credential that was sent comes from: " (from NAME)"; "" where that is
 * not known, or is no one place. */
static void put_source(struct kh_buf *out, const struct kh_config *config, const char *credential)
{
	for (size_t i = 0; config && i < config->n_credentials; i++) {
		const struct kh_credential_config *one = &config->credentials[i];
		const struct kh_source *source = kh_source_of_credential(one, 0);
		if (strcmp(one->name, credential) == 0 && source && source->name &&
		    !kh_source_of_credential(one, 1))
			(void)kh_buf_printf(out, " (from %s%s)",
					    source->kind == KH_SOURCE_EXEC ? "the command " : "",
					    kh_esc_str(source->name));
	}
}

static void print_answered(struct kh_refused_places *answered, const struct kh_run_summary *summary)
{
	kh_refused_places_settle(answered);
	for (size_t i = 0; i < answered->count && i < SHOWN_MOST; i++) {
		const struct kh_refused_place *place = &answered->list[i];
		kh_cleanup(kh_buf_fini) struct kh_buf name;
		char room[32];
		kh_buf_init(&name, TEXT_BYTES);
		if (!kh_run_refused_put_place(&name, place) ||
		    !kh_buf_printf(&name, ": the server %s the credential %s%s",
				   place->status == 401 ? "does not accept" : "does not let",
				   kh_esc_str(place->credential),
				   place->status == 401 ? "" : " do that"))
			continue;
		put_source(&name, summary->config, place->credential);
		kh_cli_complain("answered %u %s: %s", place->status,
				kh_run_refused_times(place->count, room), kh_buf_cstr(&name));
	}
}

void kh_run_failed_print(struct kh_refused_places *failed, struct kh_refused_places *answered,
			 const struct kh_run_summary *summary)
{
	print_answered(answered, summary);
	kh_refused_places_settle(failed);
	for (size_t i = 0; i < failed->count && i < SHOWN_MOST; i++) {
		const struct kh_refused_place *place = &failed->list[i];
		struct kh_slice detail = detail_of(place);
		kh_cleanup(kh_buf_fini) struct kh_buf name;
		char room[32];
		kh_buf_init(&name, TEXT_BYTES);
		if (kh_run_refused_put_place(&name, place))
			kh_cli_complain("failed %s: %s: %s",
					kh_run_refused_times(place->count, room),
					kh_buf_cstr(&name),
					detail.len ? kh_esc(detail) : kh_err_reason(place->reason));
	}
	if (failed->count > 0 || answered->count > 0)
		kh_cli_complain_whole("  see each: keyhole audit show %s",
				      summary->path ? kh_esc_word(summary->path) : "JOURNAL");
}
