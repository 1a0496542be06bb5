/*
 * debian.c - a root of Debian's essential packages, by mmdebstrap
 *
 * It comes from the Debian mirrors in this host's apt configuration, whichever suite that names,
 * and apt checks signatures as for the host itself. So mmdebstrap runs as the current user, with
 * the current environment, without the folders of PATH that an agent may write to. It writes a tar
 * file, which is unpacked like any other image.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/program.h>

#include "image_internal.h"

#define KEYRING "/usr/share/keyrings/debian-archive-keyring.gpg"

enum { MIRRORS_MOST = 8, SUITE_ROOM = 64, OS_RELEASE_MOST_BYTES = 16 * 1024 };

bool kh_debian_is_reference(const char *reference)
{
	return strcmp(reference, "debian") == 0 || strncmp(reference, "debian:", 7) == 0;
}

static bool is_suite(struct kh_slice suite)
{
	bool ok = suite.len > 0 && suite.len < SUITE_ROOM && suite.ptr[0] >= 'a' &&
		  suite.ptr[0] <= 'z';
	for (size_t i = 0; ok && i < suite.len; i++)
		ok = (suite.ptr[i] >= 'a' && suite.ptr[i] <= 'z') || kh_is_digit(suite.ptr[i]) ||
		     suite.ptr[i] == '.' || suite.ptr[i] == '-';
	return ok;
}

/* What follows `name` at a line's beginning. */
static struct kh_slice setting(struct kh_slice text, struct kh_slice name)
{
	while (text.len > 0) {
		size_t end = kh_slice_find(text, '\n', 0);
		struct kh_slice line = kh_slice_sub(text, 0, end);
		if (kh_slice_has_prefix(line, name))
			return kh_slice_sub(line, name.len, line.len);
		text = kh_slice_sub(text, end + 1, text.len);
	}
	return kh_slice_of("", 0);
}

/* The one that is named, else this host's own, else stable. */
static bool choose_suite(const char *reference, char suite[SUITE_ROOM], struct kh_err *err)
{
	struct kh_buf release kh_cleanup(kh_buf_fini);
	kh_buf_init(&release, OS_RELEASE_MOST_BYTES);
	struct kh_slice chosen = kh_slice_str("stable");
	if (reference[strlen("debian")]) {
		chosen = kh_slice_str(reference + strlen("debian:"));
	} else if (kh_file_read("/etc/os-release", &release, NULL)) {
		struct kh_slice all = kh_buf_view(&release);
		struct kh_slice own = setting(all, KH_SLICE("VERSION_CODENAME="));
		if (kh_slice_eq(setting(all, KH_SLICE("ID=")), KH_SLICE("debian")) && is_suite(own))
			chosen = own;
	}
	if (!is_suite(chosen))
		return kh_err_set(err, KH_ERR_USAGE,
				  "--image %s: wants a suite of Debian's such as debian:bookworm",
				  kh_esc_str(reference));
	memcpy(suite, chosen.ptr, chosen.len);
	suite[chosen.len] = '\0';
	return true;
}

bool kh_debian_name(const char *reference, char name[KH_IMAGE_NAME_ROOM], struct kh_err *err)
{
	char suite[SUITE_ROOM];
	if (!choose_suite(reference, suite, err))
		return false;
	kh_auto_free char *made = kh_strf("debian-%s-%s", suite, kh_image_own_architecture());
	if (!made || strlen(made) >= KH_IMAGE_NAME_ROOM)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
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

/* The first thing that apt or mmdebstrap calls an error; what comes after only follows from it. */
static const char *first_error(char said[KH_TOOL_SAID_BYTES])
{
	char *line = strncmp(said, "E: ", 3) == 0 ? said : strstr(said, "\nE: ");
	if (!line)
		return kh_tool_last_words(said);
	line += *line == '\n';
	line[strcspn(line, "\n")] = '\0';
	return kh_esc_str(line + strlen("E: "));
}

static bool bootstrap(const char *suite, const struct mirrors *mirrors, const char *target,
		      const struct kh_making *making, const struct kh_image_options *options,
		      struct kh_err *err)
{
	const char *argv[16 + MIRRORS_MOST];
	size_t n = 0;
	/* Whole, since unshare would look for the name by itself. */
	kh_auto_free char *program = kh_program_find("mmdebstrap");
	if (!program)
		return kh_tool_need("mmdebstrap", err) &&
		       kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	/* With all that it started it ends when it is killed. */
	static const char *const wrapper[] = { "unshare", "--mount", "--pid", "--fork",
					       "--kill-child=KILL" };
	for (size_t i = 0; geteuid() == 0 && i < sizeof(wrapper) / sizeof(wrapper[0]); i++)
		argv[n++] = wrapper[i];
	bool wrapped = n > 0;
	argv[n++] = wrapped ? program : "mmdebstrap";
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
				    suite, first_error(said),
				    geteuid() == 0 ? ""
						   : " (as a user it needs uids of its own: the "
						     "package uidmap, and a line for you in "
						     "/etc/subuid and /etc/subgid)");
}

static bool unpack(const char *archive, const struct kh_making *making,
		   const struct kh_image_options *options, struct kh_err *err)
{
	struct kh_image_lockin lockin kh_cleanup(kh_image_lockin_fini) = { 0 };
	if (!kh_image_lockin_open(&lockin, archive, making, err))
		return false;
	kh_auto_free char *root = kh_strf("%s/rootfs", lockin.folder);
	const char *const argv[] = { "tar",
				     "--extract",
				     "--file",
				     lockin.source,
				     "--directory",
				     root,
				     "--no-same-owner",
				     "--preserve-permissions",
				     "--delay-directory-restore",
				     "--anchored",
				     "--exclude=./dev/*",
				     "--exclude=dev/*",
				     NULL };
	char said[KH_TOOL_SAID_BYTES];
	bool failed;
	if (!root)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	if (kh_image_lockin_run(&lockin, argv, making, options, said, &failed, err))
		return true;
	return failed &&
	       kh_err_set(err, KH_ERR_SYSTEM, "--image debian: tar: %s", kh_tool_last_words(said));
}

bool kh_debian_make(const char *reference, const struct kh_making *making,
		    const struct kh_image_options *options, struct kh_err *err)
{
	char suite[SUITE_ROOM];
	struct mirrors mirrors kh_cleanup(mirrors_fini) = { 0 };
	kh_auto_free char *archive = kh_strf("%s/debian.tar", making->path);
	kh_auto_free char *root = kh_strf("%s/rootfs", making->image);
	if (!archive || !root)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	if (!choose_suite(reference, suite, err) || !kh_tool_need("mmdebstrap", err) ||
	    !find_mirrors(&mirrors, suite, making, options, err) ||
	    !bootstrap(suite, &mirrors, archive, making, options, err))
		return false;
	if (mkdir(root, 0755) != 0 ||
	    (geteuid() == 0 && lchown(root, KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_GID) != 0))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(root));
	return unpack(archive, making, options, err);
}
