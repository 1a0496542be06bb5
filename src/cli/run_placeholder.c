/*
 * run_placeholder.c - the key of a user's placeholders
 *
 * An agent may store its placeholder, which it takes for its key: in a home that is kept, or with
 * the answer to a question that it asks only once. So the next run in the same home, or in the same
 * workspace, has the same placeholders. They are made with a key of the user's, which no sandbox
 * sees.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/credential/placeholder.h>

#include "run_internal.h"

enum { HEX_BYTES = 2 * sizeof(((struct kh_placeholder_key *)0)->bytes) };

/* Whole or not at all, and never over one that another run has made meanwhile. */
static bool make(const char *path, struct kh_err *err)
{
	struct kh_placeholder_key key;
	char text[HEX_BYTES + 2];
	kh_auto_free char *fresh = kh_strf("%s.%ld", path, (long)getpid());

	if (!fresh)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	if (getrandom(key.bytes, sizeof(key.bytes), 0) != (ssize_t)sizeof(key.bytes))
		return kh_err_set(err, KH_ERR_SYSTEM, "no random bytes");
	kh_hex_encode(key.bytes, sizeof(key.bytes), text);
	text[HEX_BYTES] = '\n';
	if (!kh_file_write(fresh, kh_slice_of(text, HEX_BYTES + 1), 0600, err))
		return false;
	if (renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return true;
	bool there =
		errno == EEXIST || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	(void)unlink(fresh);
	return there;
}

static bool read_key(const char *path, struct kh_placeholder_key *out, struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);

	kh_buf_init(&text, HEX_BYTES + 2);
	if (!kh_file_read_private(path, &text, err))
		return false;
	struct kh_slice view = kh_buf_view(&text);
	if (view.len == HEX_BYTES + 1 && view.ptr[HEX_BYTES] == '\n' &&
	    kh_hex_decode(kh_slice_sub(view, 0, HEX_BYTES), out->bytes, sizeof(out->bytes)) &&
	    kh_placeholder_key_is_set(out))
		return true;
	return kh_err_set(err, KH_ERR_CONFIG, "%s: is not a key that keyhole has made (remove it)",
			  kh_esc_str(path));
}

char *kh_run_placeholder_path(struct kh_err *err)
{
	kh_auto_free char *base = kh_file_state_home(err);
	char *path = base ? kh_strf("%s/keyhole/placeholder.key", base) : NULL;

	if (base && !path)
		kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	return path;
}

bool kh_run_placeholder_key(const char *path, const char *place, struct kh_placeholder_key *out,
			    struct kh_err *err)
{
	struct kh_placeholder_key user;
	kh_auto_free char *folder =
		kh_slice_dup(kh_slice_of(path, (size_t)(strrchr(path, '/') - path)));

	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	if (access(path, F_OK) != 0 && (!kh_file_mkdirs(folder, 0700, err) || !make(path, err)))
		return false;
	return read_key(path, &user, err) &&
	       (kh_placeholder_key_of_place(&user, place, out) ||
		kh_err_set(err, KH_ERR_USAGE, "%s: too long", kh_esc_str(place)));
}
