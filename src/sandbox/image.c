/*
 * image.c - from a reference to a root: read by skopeo, unpacked by umoci, cached
 *
 * skopeo reads every format of images, checks digests, chooses the image for this architecture, and
 * writes a layout with that image. umoci unpacks its layers, as an ordinary uid: no file gets
 * another owner, and no device is made. For a reference that was unpacked before, and whose file
 * has not changed since, neither is started.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

#include "image_internal.h"

static const char *const transports[] = { "oci", "oci-archive", "docker-archive" };
enum { N_TRANSPORTS = sizeof(transports) / sizeof(transports[0]), OCI = 0, OCI_ARCHIVE = 1 };

/* ---- references ---- */

struct reference {
	const char *text, *transport;
	char *path; /* without links */
	char *rest; /* ":TAG", or "" */
};

static void reference_fini(struct reference *reference)
{
	free(reference->path);
	free(reference->rest);
}

static const char *transport_of(const char *text, const char **behind)
{
	for (size_t i = 0; i < N_TRANSPORTS; i++) {
		size_t len = strlen(transports[i]);
		*behind = text + len + 1;
		if (strncmp(text, transports[i], len) == 0 && text[len] == ':')
			return transports[i];
	}
	return NULL;
}

bool kh_image_has_transport(const char *text)
{
	const char *behind;
	return transport_of(text, &behind) || kh_image_podman_is_reference(text);
}

bool kh_image_is_reference(const char *text)
{
	const char *behind;
	return transport_of(text, &behind) || kh_debian_is_reference(text) ||
	       kh_image_podman_is_reference(text);
}

static bool parse(const char *text, struct reference *out, struct kh_err *err)
{
	const char *behind;
	*out = (struct reference){ .text = text, .transport = transport_of(text, &behind) };
	if (!out->transport)
		return kh_err_set(
			err, KH_ERR_USAGE,
			"--image %s: wants oci:DIR[:TAG], oci-archive:FILE[:TAG], "
			"docker-archive:FILE[:NAME:TAG], podman:REF or debian[:SUITE] (docker's "
			"images need its engine: --engine docker; `skopeo copy` "
			"writes any image as oci:DIR)",
			kh_esc_str(text));
	size_t len = strcspn(behind, ":");
	kh_auto_free char *path = strndup(behind, len);
	out->rest = strdup(behind + len);
	if (!path || !out->rest)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	/* It goes into skopeo's words. */
	if (strspn(out->rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			      ":._/@+-") != strlen(out->rest))
		return kh_err_set(err, KH_ERR_USAGE, "--image %s: such a tag there can't be",
				  kh_esc_str(text));
	out->path = *path ? realpath(path, NULL) : NULL;
	return out->path || kh_err_sys(err, KH_ERR_USAGE, *path ? errno : ENOENT, "--image %s",
				       kh_esc_str(text));
}

static bool digest_of(const char *text, char key[KH_IMAGE_KEY_ROOM], struct kh_err *err)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	if (!text || EVP_Digest(text, strlen(text), digest, &len, EVP_sha256(), NULL) != 1)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	kh_hex_encode(digest, (KH_IMAGE_KEY_ROOM - 1) / 2, key);
	return true;
}

/* What the reference stands for as long as the file does not change: its ctime is nobody's to
 * set. */
static bool key_of(const struct reference *reference, char key[KH_IMAGE_KEY_ROOM],
		   struct kh_err *err)
{
	bool folder = reference->transport == transports[OCI];
	kh_auto_free char *path =
		folder ? kh_strf("%s/index.json", reference->path) : strdup(reference->path);
	struct stat st;
	if (!path || stat(path, &st) != 0)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "--image %s%s",
				  kh_esc_str(reference->text),
				  folder ? ": is no OCI image layout: index.json" : "");
	if (!S_ISREG(st.st_mode))
		return kh_err_set(err, KH_ERR_USAGE, "--image %s: is no file (%s wants one)",
				  kh_esc_str(reference->text), reference->transport);
	kh_auto_free char *text = kh_strf(
		"%s %ju %ju %jd %jd.%ld %jd.%ld %s %s", reference->transport, (uintmax_t)st.st_dev,
		(uintmax_t)st.st_ino, (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec, (intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec,
		kh_image_own_architecture(), reference->rest);
	return digest_of(text, key, err);
}

/* ---- what went wrong, in words that help ---- */

static const struct {
	const char *said, *means;
} meanings[] = {
	{ "no descriptor found for reference", "has no image of that tag: " },
	{ "Tag \"", "has no image of that name: " },
	{ "more than one image in oci", "has several images (say which: a tag after a colon): " },
	{ "more than one image", "has several images (say which, after a colon): " },
	{ "file too large", "has a file that is larger than an image may be: " },
	{ "unexpected EOF", "is damaged (it ends too early): " },
	{ "igest did not match", "is damaged: " },
	{ "does not match", "is damaged: " },
	{ "invalid", "is damaged: " },
	{ "orrupt", "is damaged: " },
	{ "no such file", "is damaged, or no image of that form: " },
	{ "ermission denied", "can't be read by the user that unpacks it: " },
};

static bool explain(const char *reference, const char *program, char *said, struct kh_err *err)
{
	const char *line = kh_tool_last_words(said);
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (!strstr(line, meanings[i].said))
			continue;
		return kh_err_set(err, KH_ERR_USAGE, "--image %s: %s%s", kh_esc_str(reference),
				  meanings[i].means, line);
	}
	return kh_err_set(err, KH_ERR_USAGE, "--image %s: %s: %s", kh_esc_str(reference), program,
			  *line ? line : "ended without a word");
}

/* ---- unpacking ---- */

/* A file that a tool made: no link leads anywhere. */
static bool read_made(const struct kh_making *making, const char *name, struct kh_buf *out,
		      struct kh_err *err)
{
	kh_auto_close int folder = open(making->image, O_PATH | O_DIRECTORY | O_CLOEXEC);
	kh_auto_close int fd =
		folder < 0 ? -1 : kh_file_open_below(folder, name, O_RDONLY | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return kh_err_set(err, KH_ERR_USAGE, "--image: is damaged: %s is missing", name);
	return kh_file_read_fd(fd, out, err) || kh_err_wrap(err, "--image: %s", name);
}

static bool read_blob(const struct kh_making *making, const char *digest, struct kh_buf *out,
		      struct kh_err *err)
{
	kh_auto_free char *name = kh_strf("layout/blobs/sha256/%s", digest + strlen("sha256:"));
	kh_buf_clear(out);
	return name && read_made(making, name, out, err);
}

/* Is it for this machine? */
static bool check(const char *reference, const struct kh_image_config *config, struct kh_err *err)
{
	const char *own = kh_image_own_architecture();
	if (config->os && strcmp(config->os, "linux") != 0)
		return kh_err_set(err, KH_ERR_USAGE, "--image %s: is for %s, and this is linux",
				  kh_esc_str(reference), kh_esc_str(config->os));
	return !config->architecture || strcmp(config->architecture, own) == 0 ||
	       kh_err_set(err, KH_ERR_USAGE,
			  "--image %s: is for %s, and this machine is %s (take an image for %s)",
			  kh_esc_str(reference), kh_esc_str(config->architecture), own, own);
}

/* An image for several machines, and not for ours. */
static bool explain_platforms(const struct reference *reference, const char *from,
			      const struct kh_image_lockin *lockin, const struct kh_making *making,
			      const struct kh_image_options *options, struct kh_err *err)
{
	char index[KH_TOOL_SAID_BYTES], platforms[96];
	const char *const argv[] = { "skopeo", "--tmpdir", lockin->folder, "inspect", "--raw",
				     from,     NULL };
	const char *own = kh_image_own_architecture();
	struct kh_err ignored = KH_ERR_INIT;
	bool failed;
	if (!kh_image_lockin_run(lockin, argv, making, options, index, &failed, &ignored))
		index[0] = '\0';
	kh_image_platforms_parse(kh_slice_str(index), platforms, sizeof(platforms));
	return kh_err_set(err, KH_ERR_USAGE,
			  "--image %s: is for %s, and this machine is %s (take an image for %s)",
			  kh_esc_str(reference->text), *platforms ? platforms : "others", own, own);
}

/* skopeo: into the layout "layout", as its one image. */
static bool read_image(const struct reference *reference, const struct kh_image_lockin *lockin,
		       const struct kh_making *making, const struct kh_image_options *options,
		       struct kh_err *err)
{
	char said[KH_TOOL_SAID_BYTES];
	bool failed;
	kh_auto_free char *from =
		kh_strf("%s:%s%s", reference->transport, lockin->source, reference->rest);
	kh_auto_free char *to = kh_strf("oci:%s/layout:image", lockin->folder);
	/* umoci before 0.5 reads no zstd. What is gzip stays as it is. */
	const char *const argv[] = { "skopeo",
				     "copy",
				     "--quiet",
				     "--insecure-policy",
				     "--dest-compress-format",
				     "gzip",
				     "--dest-compress-level",
				     "1",
				     "--tmpdir",
				     lockin->folder,
				     from,
				     to,
				     NULL };
	if (!from || !to)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	if (kh_image_lockin_run(lockin, argv, making, options, said, &failed, err))
		return true;
	if (failed && strstr(said, "no image found in"))
		return explain_platforms(reference, from, lockin, making, options, err);
	return failed && explain(reference->text, "skopeo", said, err);
}

/* umoci: the layers over each other, in "rootfs". */
static bool unpack(const struct reference *reference, const struct kh_image_lockin *lockin,
		   const struct kh_making *making, const struct kh_image_options *options,
		   struct kh_err *err)
{
	char said[KH_TOOL_SAID_BYTES];
	bool failed;
	kh_auto_free char *layout = kh_strf("%s/layout:image", lockin->folder);
	kh_auto_free char *root = kh_strf("%s/rootfs", lockin->folder);
	const char *const argv[] = { "umoci",	"raw",	"unpack", "--rootless",
				     "--image", layout, root,	  NULL };
	if (!layout || !root)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	return kh_image_lockin_run(lockin, argv, making, options, said, &failed, err) ||
	       (failed && explain(reference->text, "umoci", said, err));
}

static bool make_from(const struct reference *reference, const char *cache,
		      const struct kh_image_options *options, struct kh_making *making,
		      char name[KH_IMAGE_NAME_ROOM], struct kh_err *err)
{
	struct kh_image_lockin lockin kh_cleanup(kh_image_lockin_fini) = { 0 };
	struct kh_image_config config kh_cleanup(kh_image_config_fini) = { 0 };
	struct kh_buf json kh_cleanup(kh_buf_fini);
	char digest[KH_IMAGE_DIGEST_ROOM], configuration[KH_IMAGE_DIGEST_ROOM];
	kh_buf_init(&json, KH_LIMIT_IMAGE_JSON_BYTES);
	if (!kh_image_lockin_open(&lockin, reference->path, making, err) ||
	    !read_image(reference, &lockin, making, options, err) ||
	    !read_made(making, "layout/index.json", &json, err) ||
	    !kh_image_index_parse(kh_buf_view(&json), digest, err) ||
	    !read_blob(making, digest, &json, err) ||
	    !kh_image_manifest_parse(kh_buf_view(&json), configuration, err) ||
	    !read_blob(making, configuration, &json, err) ||
	    !kh_image_config_parse(kh_buf_view(&json), &config, err) ||
	    !check(reference->text, &config, err))
		return false;
	static const char prefix[] = "sha256-";
	memcpy(name, prefix, strlen(prefix));
	memcpy(name + strlen(prefix), digest + strlen(prefix), sizeof(digest) - strlen(prefix));
	return kh_image_cache_has(cache, name) ||
	       (unpack(reference, &lockin, making, options, err) &&
		kh_making_finish(making, cache, name, reference->text, kh_buf_view(&json), err));
}

/* ---- the whole ---- */

static void say(const struct kh_image_options *options, const char *reference)
{
	kh_auto_free char *line = kh_strf("unpacking %s, once", kh_esc_str(reference));
	if (line && options->say)
		options->say(line);
}

static bool make_image(const struct reference *reference, const char *key, const char *cache,
		       const struct kh_image_options *options, char name[KH_IMAGE_NAME_ROOM],
		       struct kh_err *err)
{
	if (!kh_tool_need("skopeo", err) || !kh_tool_need("umoci", err))
		return false;
	struct kh_making making kh_cleanup(kh_making_end) = { .lock = -1 };
	say(options, reference->text);
	return kh_making_begin(&making, cache, err) &&
	       make_from(reference, cache, options, &making, name, err) &&
	       kh_image_cache_note(cache, key, name, err);
}

/* What was there when we looked may be gone when we take it. */
static bool take(const char *cache, const char *name, struct kh_image *out, struct kh_err *err)
{
	if (kh_image_cache_take(cache, name, out, err))
		return true;
	return err->code != KH_ERR_NONE
		       ? false
		       : kh_err_set(err, KH_ERR_SYSTEM,
				    "--image: was removed in that moment (try again)");
}

static bool open_image(const struct reference *reference, const char *cache,
		       const struct kh_image_options *options, struct kh_image *out,
		       struct kh_err *err)
{
	char key[KH_IMAGE_KEY_ROOM], name[KH_IMAGE_NAME_ROOM];
	if (!key_of(reference, key, err))
		return false;
	if (kh_image_cache_find(cache, key, name) && kh_image_cache_take(cache, name, out, err))
		return true;
	if (err->code != KH_ERR_NONE)
		return false;
	kh_auto_close int lock = kh_image_cache_lock(cache, options, err);
	if (lock < 0)
		return false;
	/* Another run may have made it while we waited. */
	if (kh_image_cache_find(cache, key, name) && kh_image_cache_take(cache, name, out, err))
		return true;
	return err->code == KH_ERR_NONE && make_image(reference, key, cache, options, name, err) &&
	       take(cache, name, out, err);
}

static bool make_debian(const char *reference, const char *cache, const char *name,
			const struct kh_image_options *options, struct kh_err *err)
{
	struct kh_making making kh_cleanup(kh_making_end) = { .lock = -1 };
	kh_auto_free char *config = kh_strf(
		"{\"os\":\"linux\",\"architecture\":\"%s\",\"config\":{\"Cmd\":[\"/bin/bash\"],"
		"\"WorkingDir\":\"/\"}}",
		kh_image_own_architecture());
	say(options, reference);
	return config && kh_making_begin(&making, cache, err) &&
	       kh_debian_make(reference, &making, options, err) &&
	       kh_making_finish(&making, cache, name, reference, kh_slice_str(config), err);
}

static bool open_debian(const char *reference, const char *cache,
			const struct kh_image_options *options, struct kh_image *out,
			struct kh_err *err)
{
	char name[KH_IMAGE_NAME_ROOM];
	if (!kh_debian_name(reference, name, err))
		return false;
	if (kh_image_cache_take(cache, name, out, err) || err->code != KH_ERR_NONE)
		return err->code == KH_ERR_NONE;
	kh_auto_close int lock = kh_image_cache_lock(cache, options, err);
	if (lock < 0)
		return false;
	if (kh_image_cache_take(cache, name, out, err) || err->code != KH_ERR_NONE)
		return err->code == KH_ERR_NONE;
	return make_debian(reference, cache, name, options, err) && take(cache, name, out, err);
}

/* By the image's id: the name may come to mean another. */
static bool open_podman(const char *text, const char *cache, const struct kh_image_options *options,
			struct kh_image *out, struct kh_err *err)
{
	char id[KH_PODMAN_ID_ROOM], key[KH_IMAGE_KEY_ROOM], name[KH_IMAGE_NAME_ROOM];
	if (!kh_image_podman_id(text, cache, options, id, err))
		return false;
	kh_auto_free char *what = kh_strf("podman %s %s", kh_image_own_architecture(), id);
	if (!digest_of(what, key, err))
		return false;
	if (kh_image_cache_find(cache, key, name) && kh_image_cache_take(cache, name, out, err))
		return true;
	kh_auto_close int lock =
		err->code == KH_ERR_NONE ? kh_image_cache_lock(cache, options, err) : -1;
	if (lock < 0)
		return false;
	if (kh_image_cache_find(cache, key, name) && kh_image_cache_take(cache, name, out, err))
		return true;
	struct kh_making making kh_cleanup(kh_making_end) = { .lock = -1 };
	if (err->code != KH_ERR_NONE || !kh_tool_need("skopeo", err) ||
	    !kh_tool_need("umoci", err) || !kh_making_begin(&making, cache, err))
		return false;
	kh_auto_free char *file = kh_strf("%s/saved", making.path);
	static char no_tag[] = "";
	const struct reference saved = { text, transports[OCI_ARCHIVE], file, no_tag };
	say(options, text);
	return file && kh_image_podman_save(text, id, file, making.path, options, err) &&
	       make_from(&saved, cache, options, &making, name, err) &&
	       kh_image_cache_note(cache, key, name, err) && take(cache, name, out, err);
}

bool kh_image_open(const char *reference, const struct kh_image_options *given,
		   struct kh_image *out, struct kh_err *err)
{
	struct kh_image_options options = *given;
	*out = (struct kh_image){ .lock = -1 };
	if (!options.most_bytes)
		options.most_bytes = KH_LIMIT_IMAGE_BYTES;
	struct reference parsed kh_cleanup(reference_fini) = { 0 };
	bool debian = kh_debian_is_reference(reference);
	bool podman = kh_image_podman_is_reference(reference);
	if (!debian && !podman && !parse(reference, &parsed, err))
		return false;
	kh_auto_free char *named = given->cache ? strdup(given->cache) : kh_image_cache(err);
	if (!named)
		return given->cache ? kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory")
				    : false;
	if (!kh_image_cache_open(named, err))
		return false;
	kh_auto_free char *cache = realpath(named, NULL);
	if (!cache)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(named));
	bool ok = podman   ? open_podman(reference, cache, &options, out, err)
		  : debian ? open_debian(reference, cache, &options, out, err)
			   : open_image(&parsed, cache, &options, out, err);
	ok = ok && check(reference, &out->config, err);
	if (!ok)
		kh_image_fini(out);
	return ok;
}
