/*
 * name_fold.c - names that a case-insensitive file system treats as equal
 *
 * Linux compares names of a folder with casefold by Unicode's canonical decomposition, full case
 * folding, and without ignorable code points (fs/unicode: NFDICF). Only a few letters beyond ASCII
 * become pure ASCII by that, and they are listed here. Here all invisible code points are ignored,
 * more than such a file system ignores. VFAT, exFAT, NTFS and shares of Windows drop dots and
 * blanks at the end of a name, NTFS takes what follows a colon for a stream of the file, and .git
 * has the short name git~1 there. The kind of file system is not checked, since nobody needs such
 * names for another purpose.
 */
#include "name_fold.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/slice.h>

static const struct {
	uint32_t letter;
	const char *ascii;
} folded[] = {
	{ 0xdf, "ss" },	   { 0x17f, "s" },   { 0x37e, ";" },   { 0x1e9e, "ss" }, { 0x1fef, "`" },
	{ 0x212a, "k" },   { 0xfb00, "ff" }, { 0xfb01, "fi" }, { 0xfb02, "fl" }, { 0xfb03, "ffi" },
	{ 0xfb04, "ffl" }, { 0xfb05, "st" }, { 0xfb06, "st" },
};

static const char *ascii_of(uint32_t letter)
{
	for (size_t i = 0; i < sizeof(folded) / sizeof(folded[0]); i++)
		if (folded[i].letter == letter)
			return folded[i].ascii;
	return NULL;
}

static void cut_as_windows(char *name)
{
	size_t n = strcspn(name, ":");
	while (n > 0 && (name[n - 1] == '.' || name[n - 1] == ' '))
		n--;
	name[n] = '\0';
	if (strcmp(name, "git~1") == 0)
		memcpy(name, ".git", sizeof(".git"));
}

/* No form is longer than the name, and no file system has a longer name: what is cut here is not
 * one of a file. */
const char *kh_name_fold(const char *name, char room[KH_NAME_FOLD_ROOM])
{
	size_t n = 0;
	for (size_t left = strlen(name), len; left > 0; name += len, left -= len) {
		uint32_t c = 0;
		size_t valid = kh_utf8_decode((const unsigned char *)name, left, &c);
		const char *ascii = valid > 1 ? ascii_of(c) : NULL;
		len = valid ? valid : 1;
		size_t add = ascii ? strlen(ascii) : valid > 1 && kh_utf8_is_unseen(c) ? 0 : len;
		if (n + add >= KH_NAME_FOLD_ROOM)
			break;
		memcpy(room + n, ascii ? ascii : name, add);
		for (size_t i = n; i < n + add; i++)
			room[i] = kh_lower(room[i]);
		n += add;
	}
	room[n] = '\0';
	cut_as_windows(room);
	return room;
}

char *kh_name_fold_path(const char *path)
{
	size_t n = 0;
	/* No name gets longer by it. */
	kh_auto_free char *text = strdup(path);
	char *out = text ? malloc(strlen(path) + 1) : NULL;
	for (char *name = text; out && name;) {
		char room[KH_NAME_FOLD_ROOM], *slash = strchr(name, '/');
		if (slash)
			*slash = '\0';
		const char *part = *kh_name_fold(name, room) ? room : name;
		size_t len = strlen(part);
		memcpy(out + n, part, len);
		n += len;
		out[n++] = slash ? '/' : '\0';
		name = slash ? slash + 1 : NULL;
	}
	return out;
}

bool kh_name_fold_is(const char *name, const char *wanted)
{
	char room[KH_NAME_FOLD_ROOM];
	return strcasecmp(kh_name_fold(name, room), wanted) == 0;
}
