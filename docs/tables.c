/* tables.c - writes the tables of options anew, in docs/configuration.md and in the manual page
 *
 * `make docs-tables`. They are made from the rows of src/config/options.c.
 */
#include <stdio.h>
#include <string.h>

#include <keyhole/config/config.h>
#include <keyhole/base/file.h>

enum { PAGE_BYTES = 1 << 20 };

static bool write_anew(const char *path)
{
	struct kh_buf before, after;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&before, PAGE_BYTES);
	kh_buf_init(&after, PAGE_BYTES);
	size_t len = strlen(path);
	bool manual = len < 3 || strcmp(path + len - 3, ".md") != 0;
	bool ok = kh_file_read(path, &before, &err) &&
		  kh_config_tables(kh_buf_view(&before), manual, &after, &err);
	FILE *file = ok ? fopen(path, "w") : NULL;
	ok = file &&
	     fwrite(kh_buf_view(&after).ptr, 1, kh_buf_len(&after), file) == kh_buf_len(&after);
	ok = file && fclose(file) == 0 && ok;
	if (!ok)
		fprintf(stderr, "%s: %s\n", path, err.code ? err.text : "can't be written");
	kh_buf_fini(&before);
	kh_buf_fini(&after);
	return ok;
}

int main(int argc, char **argv)
{
	bool ok = argc > 1;
	for (int i = 1; ok && i < argc; i++)
		ok = write_anew(argv[i]);
	return ok ? 0 : 1;
}
