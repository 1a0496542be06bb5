/* trusted_file.c - notes which configurations of workspaces the user trusts */
#include <keyhole/config/trusted_file.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

enum { DIGEST_BYTES = KH_TRUSTED_HEX / 2, NOTE_MOST = KH_TRUSTED_HEX + 4096 + 2 };

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "trusted files: no memory");
}

bool kh_trusted_file_digest(struct kh_slice content, char out[KH_TRUSTED_HEX + 1])
{
	unsigned char digest[DIGEST_BYTES];

	/* No openssl.cnf, as everywhere. */
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	if (!EVP_Digest(content.len ? content.ptr : "", content.len, digest, NULL, EVP_sha256(),
			NULL))
		return false;
	kh_hex_encode(digest, sizeof(digest), out);
	out[KH_TRUSTED_HEX] = '\0';
	return true;
}

/* ---- the file of a folder ---- */

/* Return: a descriptor of the regular file `name`; -1: there is none, or `err`. */
static int open_file(int at, const char *name, const char *path, struct kh_err *err)
{
	struct stat st;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return -1;
	if (S_ISDIR(st.st_mode)) /* an empty one is in the place of an absent file */
		return -1;
	int fd = S_ISREG(st.st_mode)
			 ? openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
			 : -1;
	if (!S_ISREG(st.st_mode))
		(void)kh_err_set(err, KH_ERR_CONFIG, "%s: is no regular file", kh_esc_str(path));
	else if (fd < 0)
		(void)kh_err_sys(err, KH_ERR_CONFIG, errno, "%s", kh_esc_str(path));
	return fd;
}

static bool digest_of(int fd, const char *path, char digest[KH_TRUSTED_HEX + 1], struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);

	kh_buf_init(&text, KH_LIMIT_TRUSTED_FILE_BYTES);
	if (!kh_file_read_fd(fd, &text, err))
		return kh_err_wrap(err, "%s", kh_esc_str(path));
	return kh_trusted_file_digest(kh_buf_view(&text), digest) || no_memory(err);
}

bool kh_trusted_file_find(const char *folder, char **path, char digest[KH_TRUSTED_HEX + 1],
			  struct kh_err *err)
{
	*path = NULL;
	kh_auto_close int top = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < 2; i++) {
		kh_auto_free char *one = kh_strf("%s/%skeyhole.yaml", folder, i ? ".keyhole/" : "");
		if (!one)
			return no_memory(err);
		kh_auto_close int at =
			i ? openat(top, ".keyhole", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
			  : dup(top);
		kh_auto_close int fd = open_file(at, "keyhole.yaml", one, err);
		if (fd < 0 && err->code != KH_ERR_NONE)
			return false;
		if (fd < 0)
			continue;
		if (!digest_of(fd, one, digest, err))
			return false;
		*path = kh_steal_ptr(&one);
		return true;
	}
	return true;
}

/* ---- the notes ---- */

static char *notes_folder(struct kh_err *err)
{
	kh_auto_free char *base = kh_file_state_home(err);
	char *folder = base ? kh_strf("%s/keyhole/trusted", base) : NULL;

	if (base && !folder)
		no_memory(err);
	return folder;
}

/* Its name is the digest of the path, which may hold any byte and be long. */
static char *note_of(const char *folder, const char *path, struct kh_err *err)
{
	char name[KH_TRUSTED_HEX + 1];
	char *note = kh_trusted_file_digest(kh_slice_str(path), name)
			     ? kh_strf("%s/%s", folder, name)
			     : NULL;

	if (!note)
		no_memory(err);
	return note;
}

/* "<digest of the content> <path>\n". *path: on the heap. */
static bool read_note(const char *note, char digest[KH_TRUSTED_HEX + 1], char **path,
		      struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);

	kh_buf_init(&text, NOTE_MOST);
	if (!kh_file_read_private(note, &text, err))
		return false;
	struct kh_slice view = kh_buf_view(&text);
	unsigned char bytes[DIGEST_BYTES];
	if (view.len < KH_TRUSTED_HEX + 3 || view.ptr[KH_TRUSTED_HEX] != ' ' ||
	    view.ptr[KH_TRUSTED_HEX + 1] != '/' || view.ptr[view.len - 1] != '\n' ||
	    memchr(view.ptr, '\0', view.len) ||
	    !kh_hex_decode(kh_slice_sub(view, 0, KH_TRUSTED_HEX), bytes, sizeof(bytes)))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "%s: is not a note that keyhole has made (remove it)",
				  kh_esc_str(note));
	memcpy(digest, view.ptr, KH_TRUSTED_HEX);
	digest[KH_TRUSTED_HEX] = '\0';
	*path = kh_slice_dup(kh_slice_sub(view, KH_TRUSTED_HEX + 1, view.len - 1));
	return *path || no_memory(err);
}

enum kh_trusted kh_trusted_file_is(const char *path, const char *digest, struct kh_err *err)
{
	char noted[KH_TRUSTED_HEX + 1];
	kh_auto_free char *folder = notes_folder(err);
	kh_auto_free char *note = folder ? note_of(folder, path, err) : NULL;
	kh_auto_free char *of = NULL;

	if (!note || (access(note, F_OK) != 0 && errno == ENOENT) ||
	    !read_note(note, noted, &of, err) || strcmp(of, path) != 0)
		return KH_TRUSTED_NOT;
	return strcmp(noted, digest) == 0 ? KH_TRUSTED_SAME : KH_TRUSTED_CHANGED;
}

bool kh_trusted_file_add(const char *path, const char *digest, struct kh_err *err)
{
	kh_auto_free char *folder = notes_folder(err);
	kh_auto_free char *note = folder ? note_of(folder, path, err) : NULL;
	kh_auto_free char *text = kh_strf("%s %s\n", digest, path);

	if (!note || !text)
		return err->code != KH_ERR_NONE ? false : no_memory(err);
	if (strchr(path, '\n'))
		return kh_err_set(err, KH_ERR_USAGE, "%s: a path with a line break",
				  kh_esc_str(path));
	if (strlen(text) > NOTE_MOST)
		return kh_err_set(err, KH_ERR_USAGE, "%s: too long a path", kh_esc_str(path));
	return kh_file_mkdirs(folder, 0700, err) &&
	       kh_file_write(note, kh_slice_str(text), 0600, err);
}

bool kh_trusted_file_remove(const char *path, bool *was, struct kh_err *err)
{
	kh_auto_free char *folder = notes_folder(err);
	kh_auto_free char *note = folder ? note_of(folder, path, err) : NULL;

	if (!note)
		return false;
	*was = unlink(note) == 0;
	return *was || errno == ENOENT ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(note));
}

bool kh_trusted_file_list(bool (*each)(void *arg, const char *path, const char *digest), void *arg,
			  struct kh_err *err)
{
	kh_auto_free char *folder = notes_folder(err);
	DIR *dir = folder ? opendir(folder) : NULL;
	bool goes_on = true;

	if (!dir)
		return folder && (errno == ENOENT ||
				  kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(folder)));
	for (const struct dirent *entry; goes_on && (entry = readdir(dir));) {
		char digest[KH_TRUSTED_HEX + 1];
		kh_auto_free char *note = kh_strf("%s/%s", folder, entry->d_name);
		kh_auto_free char *path = NULL;
		/* Others are being written. */
		if (strlen(entry->d_name) != KH_TRUSTED_HEX)
			continue;
		if (!note)
			no_memory(err);
		else if (read_note(note, digest, &path, err))
			goes_on = each(arg, path, digest);
	}
	closedir(dir);
	return err->code == KH_ERR_NONE;
}
