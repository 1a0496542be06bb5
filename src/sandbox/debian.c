/*
 * debian.c - a root of Debian's essential packages, by mmdebstrap
 *
 * It comes from the mirrors that this host's apt is set up with for Debian, whichever suite they
 * name there, and apt checks its signatures as for the host itself: so mmdebstrap runs as who we
 * are and with our variables. It writes a tar file, which is unpacked like any other image.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>

#include "image_internal.h"

#define DEFAULT_SUITE "stable"
#define KEYRING "/usr/share/keyrings/debian-archive-keyring.gpg"

enum { MIRRORS_MOST = 8 };

bool kh_debian_is_reference(const char *reference)
{
	return strcmp(reference, "debian") == 0 || strncmp(reference, "debian:", 7) == 0;
}

static const char *suite_of(const char *reference)
{
	return reference[strlen("debian")] ? reference + strlen("debian:") : DEFAULT_SUITE;
}

bool kh_debian_name(const char *reference, char name[KH_IMAGE_NAME_ROOM], struct kh_err *err)
{
	const char *suite = suite_of(reference);
	size_t len = strlen(suite);
	bool ok = len > 0 && len < 64 && suite[0] >= 'a' && suite[0] <= 'z' &&
		  strspn(suite, "abcdefghijklmnopqrstuvwxyz0123456789.-") == len;
	kh_auto_free char *made =
		ok ? kh_strf("debian-%s-%s", suite, kh_image_own_architecture()) : NULL;
	if (!made)
		return kh_err_set(err, KH_ERR_USAGE,
				  "--image %s: wants a suite of Debian's such as debian:bookworm",
				  kh_esc_str(reference));
	memcpy(name, made, strlen(made) + 1);
	return true;
}

/* ---- the mirrors ---- */

struct mirrors {
	char *list[MIRRORS_MOST + 1]; /* lines of a sources.list; ended by NULL */
	size_t n;
};

static void mirrors_fini(struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->n; i++)
		free(mirrors->list[i]);
}

/* "bookworm bookworm-security http://…": the codename, the suite that apt was told, the mirror. */
static bool add_mirror(struct mirrors *mirrors, char *line, const char *suite)
{
	char *rest = line;
	const char *codename = strsep(&rest, " "), *told = strsep(&rest, " "), *uri = rest;
	if (!uri || !*uri || strchr(uri, ' ') || mirrors->n == MIRRORS_MOST)
		return true;
	/* "-security" and "-updates" stay what they are. */
	const char *behind = strchr(told, '-');
	(void)codename;
	char *made = kh_strf("deb %s %s%s main", uri, suite, behind ? behind : "");
	for (size_t i = 0; made && i < mirrors->n; i++) {
		if (strcmp(mirrors->list[i], made) != 0)
			continue;
		free(made);
		return true;
	}
	mirrors->list[mirrors->n] = made;
	mirrors->n += made != NULL;
	return made != NULL;
}

static bool find_mirrors(struct mirrors *out, const char *suite, const struct kh_making *making,
			 const struct kh_image_options *options, struct kh_err *err)
{
	static const char *const argv[] = { "apt-get",
					    "indextargets",
					    "--format",
					    "$(CODENAME) $(RELEASE) $(REPO_URI)",
					    "Created-By: Packages",
					    "Origin: Debian",
					    "Component: main",
					    NULL };
	struct kh_tool tool = {
		.argv = argv, .folder = making->path, .watched = making->path, .options = options
	};
	char said[KH_TOOL_SAID_BYTES];
	bool failed = false, ok = kh_tool_run(&tool, said, &failed, err);
	if (!ok && !failed)
		return false;
	char *rest = said, *line;
	while (ok && (line = strsep(&rest, "\n")))
		ok = add_mirror(out, line, suite);
	return (ok && out->n > 0) ||
	       kh_err_set(
		       err, KH_ERR_SYSTEM,
		       "--image debian: this host's apt names no mirror of Debian's (on a Debian "
		       "host: `apt update`; elsewhere make a root yourself and take --rootfs "
		       "DIR:O)");
}

/* ---- making it ---- */

static bool bootstrap(const char *suite, const struct mirrors *mirrors, const char *target,
		      const struct kh_making *making, const struct kh_image_options *options,
		      struct kh_err *err)
{
	const char *argv[16 + MIRRORS_MOST];
	size_t n = 0;
	/* With all that it started it ends when it is killed. */
	static const char *const nest[] = { "unshare", "--mount", "--pid", "--fork",
					    "--kill-child=KILL" };
	for (size_t i = 0; geteuid() == 0 && i < sizeof(nest) / sizeof(nest[0]); i++)
		argv[n++] = nest[i];
	argv[n++] = "mmdebstrap";
	argv[n++] = geteuid() == 0 ? "--mode=root" : "--mode=unshare";
	argv[n++] = "--variant=minbase";
	argv[n++] = "--include=ca-certificates";
	argv[n++] = "--format=tar";
	if (access(KEYRING, R_OK) == 0)
		argv[n++] = "--keyring=" KEYRING;
	argv[n++] = suite;
	argv[n++] = target;
	for (size_t i = 0; i < mirrors->n; i++)
		argv[n++] = mirrors->list[i];
	argv[n] = NULL;
	struct kh_tool tool = {
		.argv = argv, .folder = making->path, .watched = making->path, .options = options
	};
	char said[KH_TOOL_SAID_BYTES];
	bool failed;
	if (kh_tool_run(&tool, said, &failed, err))
		return true;
	return failed && kh_err_set(err, KH_ERR_SYSTEM, "--image debian:%s: mmdebstrap: %s%s",
				    suite, kh_tool_last_words(said),
				    geteuid() == 0 ? ""
						   : " (as a user it needs uids of its own: the "
						     "package uidmap, and a line for you in "
						     "/etc/subuid and /etc/subgid)");
}

static bool unpack(const char *archive, const struct kh_making *making,
		   const struct kh_image_options *options, struct kh_err *err)
{
	struct kh_image_fence fence kh_cleanup(kh_image_fence_fini) = { 0 };
	if (!kh_image_fence_open(&fence, archive, making, err))
		return false;
	kh_auto_free char *root = kh_strf("%s/rootfs", fence.folder);
	const char *const argv[] = { "tar",
				     "--extract",
				     "--file",
				     fence.source,
				     "--directory",
				     root,
				     "--no-same-owner",
				     "--preserve-permissions",
				     "--delay-directory-restore",
				     "--exclude=./dev/*",
				     NULL };
	char said[KH_TOOL_SAID_BYTES];
	bool failed;
	if (!root)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	if (kh_image_fence_run(&fence, argv, making, options, said, &failed, err))
		return true;
	return failed &&
	       kh_err_set(err, KH_ERR_SYSTEM, "--image debian: tar: %s", kh_tool_last_words(said));
}

bool kh_debian_make(const char *reference, const struct kh_making *making,
		    const struct kh_image_options *options, struct kh_err *err)
{
	const char *suite = suite_of(reference);
	struct mirrors mirrors kh_cleanup(mirrors_fini) = { 0 };
	kh_auto_free char *archive = kh_strf("%s/debian.tar", making->path);
	kh_auto_free char *root = kh_strf("%s/rootfs", making->image);
	if (!archive || !root)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	if (!kh_tool_need("mmdebstrap", err) ||
	    !find_mirrors(&mirrors, suite, making, options, err) ||
	    !bootstrap(suite, &mirrors, archive, making, options, err))
		return false;
	if (mkdir(root, 0755) != 0 ||
	    (geteuid() == 0 && lchown(root, KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_GID) != 0))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(root));
	return unpack(archive, making, options, err);
}
