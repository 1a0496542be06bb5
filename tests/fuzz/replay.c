/*
 * replay.c - a fuzz target's main without libFuzzer
 *
 * Feeds the empty input, then every file of the folders (and every file) that it is given, to
 * LLVMFuzzerTestOneInput. What goes wrong is the sanitizers' to say; the file at hand is named by
 * the line printed before.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES = 16 * 1024 * 1024 };

static size_t replayed;
static char current[4096];

/* Called by the sanitizers before they end the process. */
void __asan_on_error(void);
void __asan_on_error(void)
{
	(void)fprintf(stderr, "replaying %s\n", current);
}

static bool replay_file(const char *path)
{
	(void)snprintf(current, sizeof(current), "%s", path);
	struct kh_buf buf;
	kh_buf_init(&buf, INPUT_BYTES);
	struct kh_err err = KH_ERR_INIT;
	bool ok = kh_file_read(path, &buf, &err);
	if (!ok) {
		(void)fprintf(stderr, "%s\n", err.text);
	} else {
		/* In a block of its exact size, so that one byte too far is seen. */
		struct kh_slice view = kh_buf_view(&buf);
		kh_auto_free uint8_t *exact = malloc(view.len ? view.len : 1);
		if (exact) {
			memcpy(exact, view.ptr, view.len);
			(void)LLVMFuzzerTestOneInput(exact, view.len);
			replayed++;
		}
	}
	kh_buf_fini(&buf);
	return ok;
}

static bool replay_folder(const char *path)
{
	DIR *folder = opendir(path);
	if (!folder) {
		(void)fprintf(stderr, "%s can't be opened\n", path);
		return false;
	}
	bool ok = true;
	for (const struct dirent *entry; (entry = readdir(folder));) {
		if (entry->d_name[0] == '.')
			continue;
		kh_auto_free char *file = kh_path_join(path, entry->d_name);
		ok = file && replay_file(file) && ok;
	}
	(void)closedir(folder);
	return ok;
}

int main(int argc, char **argv)
{
	static const uint8_t nothing[1] = { 0 };
	(void)snprintf(current, sizeof(current), "the empty input");
	(void)LLVMFuzzerTestOneInput(nothing, 0);
	replayed++;
	bool ok = true;
	for (int i = 1; i < argc; i++) {
		struct stat st;
		if (stat(argv[i], &st) != 0) {
			(void)fprintf(stderr, "%s does not exist\n", argv[i]);
			ok = false;
		} else {
			ok = (S_ISDIR(st.st_mode) ? replay_folder(argv[i])
						  : replay_file(argv[i])) &&
			     ok;
		}
	}
	printf("%s: %zu inputs replayed\n", argv[0], replayed);
	return ok ? 0 : 1;
}
