/*
 * snapshots.c - makes snapshots to fuzz from: those of the examples of a page
 *
 *	snapshots FOLDER docs/policy.md …	writes FOLDER/doc-policy-0 and so on
 *
 * They are of the format of the day; test_snapshot says when they are no longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/config/config.h>
#include <keyhole/base/file.h>

/* libFuzzer takes no longer ones unless it is told to. */
enum { PAGE_BYTES = 1024 * 1024, SNAPSHOT_BYTES = 4096 };

static bool write_snapshot(const char *path, struct kh_slice yaml)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_parse("k.yaml", yaml, NULL, "policies", &diags);
	if (!config)
		fprintf(stderr, "%s: %s\n", path, diags.count ? diags.list[0].text : "no memory");
	kh_diagnostics_fini(&diags);
	struct kh_buf bytes;
	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	bool ok = config != NULL;
	if (ok && kh_config_encode(config, &bytes)) {
		FILE *out = fopen(path, "wb");
		ok = out && fwrite(kh_buf_view(&bytes).ptr, kh_buf_len(&bytes), 1, out) == 1;
		ok = (!out || fclose(out) == 0) && ok;
	}
	kh_buf_fini(&bytes);
	kh_config_free(config);
	return ok;
}

/* Each whole configuration of the page. */
static bool write_all(const char *folder, const char *page)
{
	static const char begin[] = "```yaml\nversion:", end[] = "\n```";
	const char *slash = strrchr(page, '/'), *name = slash ? slash + 1 : page;
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf text;
	kh_buf_init(&text, PAGE_BYTES);
	bool ok = kh_file_read(page, &text, &err) && kh_buf_append_char(&text, '\0');
	const char *at = ok ? kh_buf_view(&text).ptr : "";
	for (unsigned n = 0; ok && (at = strstr(at, begin)) != NULL; n++) {
		char path[512];
		const char *stop = strstr(at, end);
		at += strlen("```yaml\n");
		(void)snprintf(path, sizeof(path), "%s/doc-%.*s-%u", folder,
			       (int)strcspn(name, "."), name, n);
		ok = stop && write_snapshot(path, kh_slice_of(at, (size_t)(stop + 1 - at)));
	}
	if (!ok)
		fprintf(stderr, "%s: %s\n", page, err.text);
	kh_buf_fini(&text);
	return ok;
}

int main(int argc, char **argv)
{
	bool ok = argc > 2;
	for (int i = 2; ok && i < argc; i++)
		ok = write_all(argv[1], argv[i]);
	return ok ? 0 : 1;
}
