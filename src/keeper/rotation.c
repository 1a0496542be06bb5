/*
 * rotation.c - rotated refresh tokens: persists the latest one
 *
 * An endpoint that rotates refresh tokens accepts each only once; a client that uses an old one may
 * lose the whole grant. So a new refresh token is persisted before the answer is used, in a file of
 * mode 0600 that is replaced atomically. Two processes (a daemon and its successor) must never use
 * the same token, so a lock beside the file is held during a request.
 *
 * The first line of the file is a hash of the configured token that it descends from. If the
 * configured token has changed, the file is ignored.
 */

#include "mint_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include <openssl/evp.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/lock_file.h>
#include <keyhole/base/unsafe_folder.h>

static bool digest(struct kh_slice value, void *arg)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	if (EVP_Digest(value.ptr, value.len, sum, &len, EVP_sha256(), NULL) != 1 || len != 32)
		return false;
	kh_hex_encode(sum, len, arg);
	return true;
}

struct kh_rotation *kh_rotation_new(const char *path, const struct kh_secret *raw)
{
	struct kh_rotation *rotation = calloc(1, sizeof(*rotation));
	if (!rotation)
		return NULL;
	rotation->lock = -1;
	rotation->path = strdup(path);
	if (rotation->path && kh_secret_expose(raw, digest, rotation->origin))
		return rotation;
	kh_rotation_free(rotation);
	return NULL;
}

void kh_rotation_free(struct kh_rotation *rotation)
{
	if (!rotation)
		return;
	if (rotation->lock >= 0)
		(void)close(rotation->lock);
	free(rotation->path);
	free(rotation);
}

bool kh_rotation_may_begin(struct kh_rotation *rotation, struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;
	if (!rotation || rotation->lock >= 0)
		return true;
	if (kh_unsafe_folder(rotation->path, geteuid(), err) == KH_UNSAFE_OWNER)
		return kh_err_wrap(err, "its state");
	kh_auto_free char *path = kh_strf("%s.lock", rotation->path);
	int fd = path ? kh_lock_file_open(path, &why) : -1;
	if (fd < 0 && why.code == KH_ERR_CONFIG)
		return kh_err_set(err, KH_ERR_CONFIG, "its state: %s", why.text);
	/* Where it can't be locked, it can't be written either, which is said then. */
	if (fd < 0)
		return true;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		rotation->lock = fd;
		return true;
	}
	(void)close(fd);
	return false;
}

bool kh_rotation_read(const struct kh_rotation *rotation, struct kh_buf *out, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf content;
	struct kh_err why = KH_ERR_INIT;
	size_t origin = strlen(rotation->origin);
	kh_buf_init_wiping(&content, KH_LIMIT_TOKEN_BYTES + 128);
	if (kh_unsafe_folder(rotation->path, geteuid(), err) == KH_UNSAFE_OWNER)
		return kh_err_wrap(err, "its state");
	if (!kh_file_read_private(rotation->path, &content, &why)) {
		if (why.sys != ENOENT)
			kh_err_set(err, KH_ERR_CONFIG, "its state: %s", why.text);
		return false;
	}
	struct kh_slice text = kh_buf_view(&content);
	if (text.len <= origin + 2 || text.ptr[origin] != '\n' || text.ptr[text.len - 1] != '\n') {
		kh_err_set(err, KH_ERR_CONFIG, "its state: the file %s is not one of keyhole's",
			   rotation->path);
		return false;
	}
	return memcmp(text.ptr, rotation->origin, origin) == 0 &&
	       kh_buf_append_slice(out, kh_slice_sub(text, origin + 1, text.len - 1));
}

bool kh_rotation_look(const struct kh_mint *mint, struct kh_holding *holding)
{
	kh_cleanup(kh_buf_fini) struct kh_buf token;
	struct kh_secret *before = kh_steal_ptr(&holding->refresh_token);
	bool ok = true;
	kh_buf_init_wiping(&token, KH_LIMIT_TOKEN_BYTES);
	if (mint && mint->kind == KH_MINT_OAUTH2_REFRESH && holding->raw.secret) {
		struct kh_rotation *rotation =
			kh_rotation_new(mint->state_path, holding->raw.secret);
		ok = rotation != NULL;
		if (ok && kh_rotation_read(rotation, &token, NULL)) {
			holding->refresh_token =
				before && kh_secret_equals(before, kh_buf_view(&token))
					? kh_secret_ref(before)
					: kh_secret_new(token.data + token.head, kh_buf_len(&token),
							NULL);
			ok = holding->refresh_token != NULL;
		}
		kh_rotation_free(rotation);
	}
	kh_secret_unref(before);
	return ok;
}

bool kh_rotation_write(const struct kh_rotation *rotation, struct kh_slice token,
		       struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf content;
	kh_buf_init_wiping(&content, KH_LIMIT_TOKEN_BYTES + 128);
	return (kh_buf_append_str(&content, rotation->origin) &&
		kh_buf_append_char(&content, '\n') && kh_buf_append_slice(&content, token) &&
		kh_buf_append_char(&content, '\n') &&
		kh_file_write(rotation->path, kh_buf_view(&content), 0600, err)) ||
	       kh_err_wrap(err, "its state, which contains the refresh token that is good now");
}
