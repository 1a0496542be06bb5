/*
 * git_index.c - parses the names in git's index
 *
 * git reads a large index with several threads, which start at offsets in an extension at the end
 * of the file (EOIE, IEOT). These offsets must agree with the entries as they are read in sequence,
 * or this file would check another list than git uses.
 */
#include "git_index.h"
#include "name_fold.h"

#include <string.h>
#include <strings.h>

enum {
	HEADER_BYTES = 12,
	STAT_BYTES = 40, /* times, device, inode, mode, owner, size: before the object id */
	MODE_AT = 24,
	NAME_MASK = 0xfff,
	EXTENDED = 0x4000,
	NAME_MOST = 8192, /* PATH_MAX is 4,096 */
	MODE_TYPE = 0170000,
	MODE_FOLDER = 0040000, /* of a sparse index */
	MODE_GITLINK = 0160000,
};

struct reading {
	struct kh_slice all; /* without the checksum at the end */
	size_t at, id_bytes;
	uint32_t version, n;
	size_t blocks_at; /* of IEOT's list; 0: there is none */
	size_t n_blocks;
	size_t block;	      /* which is next */
	uint64_t block_entry; /* and with which entry it begins */
	size_t name_len;
	char name[NAME_MOST];
};

static uint32_t u32(struct kh_slice s, size_t at)
{
	const unsigned char *p = (const unsigned char *)s.ptr + at;
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool has(const struct reading *r, size_t at, size_t n)
{
	return at <= r->all.len && n <= r->all.len - at;
}

static bool is_tag(const struct reading *r, size_t at, const char *tag)
{
	return memcmp(r->all.ptr + at, tag, 4) == 0;
}

/* As any file system reads it (name_fold.h). A name that is too long to be looked at may be one. */
static bool is_dot_git(const char *name, size_t len)
{
	char whole[KH_NAME_FOLD_ROOM], room[KH_NAME_FOLD_ROOM];
	if (len >= sizeof(whole))
		return true;
	memcpy(whole, name, len);
	whole[len] = '\0';
	return strcmp(kh_name_fold(whole, room), ".git") == 0;
}

/* An entry without a name takes that of the shared index (the extension `link`). */
static bool is_name_in_tree(const char *name, size_t len, bool folder)
{
	if (len > 0 && folder && name[len - 1] == '/')
		len--;
	for (size_t at = 0; at < len;) {
		const char *slash = memchr(name + at, '/', len - at);
		size_t end = slash ? (size_t)(slash - name) : len;
		const char *part = name + at;
		size_t n = end - at;
		if (n == 0 || (n <= 2 && memcmp(part, "..", n) == 0) || is_dot_git(part, n) ||
		    (slash && end + 1 == len))
			return false;
		at = end + 1;
	}
	return true;
}

/* git's variable-width number: each byte but the last has its highest bit set. */
static bool varint(struct reading *r, size_t *out)
{
	size_t value = 0;
	for (int i = 0;; i++) {
		if (i == 4 || !has(r, r->at, 1))
			return false;
		unsigned char c = (unsigned char)r->all.ptr[r->at++];
		value = (value << 7) + (c & 127);
		if (!(c & 128))
			break;
		value++;
	}
	*out = value;
	return true;
}

/* The name's bytes and the NUL after it, which is the first one. */
static bool text(struct reading *r, size_t keep, size_t said)
{
	const char *from = r->all.ptr + r->at;
	const char *end = r->at < r->all.len ? memchr(from, '\0', r->all.len - r->at) : NULL;
	size_t n = end ? (size_t)(end - from) : 0;
	if (!end || keep + n >= sizeof(r->name) || (said < NAME_MASK && said != keep + n) ||
	    (said == NAME_MASK && keep + n < NAME_MASK))
		return false;
	memcpy(r->name + keep, from, n);
	r->name_len = keep + n;
	r->at += n + 1;
	return true;
}

static bool at_block(struct reading *r, uint32_t entry, bool *begins)
{
	*begins = r->block < r->n_blocks && r->block_entry == entry;
	if (!*begins)
		return true;
	size_t here = r->blocks_at + 8 * r->block++;
	uint32_t n = u32(r->all, here + 4);
	r->block_entry += n;
	return n > 0 && u32(r->all, here) == r->at;
}

static bool entry(struct reading *r, uint32_t number)
{
	size_t start = r->at, keep = 0;
	bool begins;
	if (!at_block(r, number, &begins) || !has(r, start, STAT_BYTES + r->id_bytes + 2))
		return false;
	bool folder = (u32(r->all, start + MODE_AT) & MODE_TYPE) == MODE_FOLDER;
	size_t flags_at = start + STAT_BYTES + r->id_bytes;
	const unsigned char *p = (const unsigned char *)r->all.ptr + flags_at;
	unsigned flags = (unsigned)p[0] << 8 | p[1];
	r->at = flags_at + (flags & EXTENDED ? 4 : 2);
	if (r->version == 4) {
		size_t strip;
		if (!varint(r, &strip) || strip > r->name_len)
			return false;
		keep = number == 0 ? 0 : r->name_len - strip;
	}
	/* A thread that begins here knows no name before. */
	if (begins && keep != 0)
		return false;
	size_t name_at = r->at;
	if (!text(r, keep, flags & NAME_MASK) || !is_name_in_tree(r->name, r->name_len, folder))
		return false;
	if (r->version < 4)
		r->at = start + ((name_at - start + r->name_len + 8) & ~(size_t)7);
	return r->at <= r->all.len;
}

/* The extensions from there on: do they end with the file, and where are IEOT's blocks? The first
 * counts, as it does for git. */
static bool extensions(struct reading *r, size_t from)
{
	r->blocks_at = r->n_blocks = 0;
	for (size_t at = from; at < r->all.len;) {
		if (!has(r, at, 8) || !has(r, at + 8, u32(r->all, at + 4)))
			return false;
		size_t n = u32(r->all, at + 4);
		if (is_tag(r, at, "IEOT") && r->blocks_at == 0) {
			if (n < 4 || (n - 4) % 8 != 0)
				return false;
			r->blocks_at = at + 12;
			r->n_blocks = (n - 4) / 8;
		}
		at += 8 + n;
	}
	return true;
}

/* Where git looks for EOIE, which is always the last: what it says of the end of the entries. */
static bool end_is(const struct reading *r, size_t end)
{
	size_t n = 8 + 4 + r->id_bytes;
	size_t at = r->all.len >= n ? r->all.len - n : 0;
	return r->all.len < n || !is_tag(r, at, "EOIE") || u32(r->all, at + 8) == end;
}

static bool entries(struct reading *r)
{
	r->at = HEADER_BYTES;
	r->name_len = r->block = 0;
	r->block_entry = 0;
	for (uint32_t i = 0; i < r->n; i++)
		if (!entry(r, i))
			return false;
	return true;
}

static bool begin(struct reading *r, struct kh_slice bytes, size_t id_bytes)
{
	if (bytes.len < HEADER_BYTES + id_bytes)
		return false;
	r->all = kh_slice_sub(bytes, 0, bytes.len - id_bytes);
	r->id_bytes = id_bytes;
	r->blocks_at = r->n_blocks = 0;
	if (!is_tag(r, 0, "DIRC"))
		return false;
	r->version = u32(r->all, 4);
	r->n = u32(r->all, 8);
	return r->version >= 2 && r->version <= 4;
}

bool kh_git_index_each(struct kh_slice bytes, size_t id_bytes,
		       bool (*each)(void *arg, const char *path, bool is_gitlink), void *arg)
{
	struct reading r;
	if (!begin(&r, bytes, id_bytes))
		return true;
	r.at = HEADER_BYTES;
	r.name_len = r.block = 0;
	r.block_entry = 0;
	for (uint32_t i = 0; i < r.n; i++) {
		size_t start = r.at;
		if (!entry(&r, i))
			return true;
		r.name[r.name_len] = '\0';
		if (!each(arg, r.name, (u32(r.all, start + MODE_AT) & MODE_TYPE) == MODE_GITLINK))
			return false;
	}
	return true;
}

bool kh_git_index_is_harmless(struct kh_slice bytes, size_t id_bytes)
{
	struct reading r;
	if (!begin(&r, bytes, id_bytes) || !entries(&r))
		return false;
	size_t end = r.at;
	if (!extensions(&r, end) || !end_is(&r, end))
		return false;
	/* Once more, now that the blocks are known. */
	return r.n_blocks == 0 || (entries(&r) && r.block == r.n_blocks && r.block_entry == r.n);
}
