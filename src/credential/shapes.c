/*
 * shapes.c - what the keys of well-known services look like, and placeholders that look so
 *
 * One row per shape: its parts in order. A part is a literal, or characters of an alphabet. One
 * part holds the core, one takes the rest of the length, and a checksum covers what its row says. A
 * real value is recognised only by its public prefix; only that and its length are passed on.
 */
#include "placeholder_internal.h"

#include <stdlib.h>

#include <keyhole/base/limits.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define BASE62 LETTERS DIGITS
#define BASE64URL BASE62 "-_"

enum part_kind {
	PART_END = 0,
	PART_TEXT,  /* as it stands in the row */
	PART_CORE,  /* mark, and the parts that say whose */
	PART_SHORT, /* the same without the credential's part */
	PART_SOME,  /* `count` characters */
	PART_REST,  /* as many as are missing from the length, `count` at least */
	PART_CRC,   /* 6 digits of base 62: CRC-32 of all from part `count` on (GitHub, npm) */
};

struct part {
	enum part_kind kind;
	const char *text; /* TEXT: itself; else the alphabet, NULL: the row's */
	size_t count;
};

enum { PARTS = 10 };

static const struct row {
	const char *word;
	struct kh_slice begins; /* how a real one is known; "" not at all */
	const char *alphabet;
	size_t usual; /* length; 0: what the parts come to */
	struct part parts[PARTS];
} rows[KH_SHAPE_COUNT] = {
	[KH_SHAPE_GENERIC] = { "generic", KH_SLICE_INIT(""), BASE62, 0, { { 0 } } },
	[KH_SHAPE_ANTHROPIC] = { "anthropic",
				 KH_SLICE_INIT("sk-ant-api03-"),
				 BASE64URL,
				 108,
				 { { PART_TEXT, "sk-ant-api03-", 0 },
				   { PART_CORE, NULL, 0 },
				   { PART_REST, NULL, 0 },
				   { PART_TEXT, "AA", 0 } } },
	[KH_SHAPE_ANTHROPIC_OAUTH] = { "anthropic-oauth",
				       KH_SLICE_INIT("sk-ant-oat01-"),
				       BASE64URL,
				       108,
				       { { PART_TEXT, "sk-ant-oat01-", 0 },
					 { PART_CORE, NULL, 0 },
					 { PART_REST, NULL, 0 },
					 { PART_TEXT, "AA", 0 } } },
	[KH_SHAPE_OPENAI] = { "openai",
			      KH_SLICE_INIT("sk-"),
			      BASE62,
			      51,
			      { { PART_TEXT, "sk-", 0 },
				{ PART_CORE, NULL, 0 },
				{ PART_SOME, NULL, 1 },
				{ PART_TEXT, "T3BlbkFJ", 0 },
				{ PART_REST, NULL, 20 } } },
	[KH_SHAPE_OPENAI_PROJECT] = { "openai-project",
				      KH_SLICE_INIT("sk-proj-"),
				      BASE64URL,
				      164,
				      { { PART_TEXT, "sk-proj-", 0 },
					{ PART_CORE, NULL, 0 },
					{ PART_SOME, NULL, 55 },
					{ PART_TEXT, "T3BlbkFJ", 0 },
					{ PART_REST, NULL, 20 } } },
	[KH_SHAPE_GOOGLE] = { "google",
			      KH_SLICE_INIT("AIza"),
			      BASE64URL,
			      39,
			      { { PART_TEXT, "AIza", 0 },
				{ PART_CORE, NULL, 0 },
				{ PART_REST, NULL, 16 } } },
#define GITHUB_PARTS(prefix) \
	{ \
		{ PART_TEXT, prefix, 0 }, { PART_CORE, NULL, 0 }, { PART_REST, NULL, 11 }, \
		{ \
			PART_CRC, NULL, 1 \
		} \
	}
	[KH_SHAPE_GITHUB] = { "github", KH_SLICE_INIT("ghp_"), BASE62, 40, GITHUB_PARTS("ghp_") },
	[KH_SHAPE_GITHUB_OAUTH] = { "github-oauth", KH_SLICE_INIT("gho_"), BASE62, 40,
				    GITHUB_PARTS("gho_") },
	[KH_SHAPE_GITHUB_APP] = { "github-app", KH_SLICE_INIT("ghs_"), BASE62, 40,
				  GITHUB_PARTS("ghs_") },
	[KH_SHAPE_GITHUB_FINE_GRAINED] = { "github-fine-grained",
					   KH_SLICE_INIT("github_pat_"),
					   BASE62,
					   93,
					   { { PART_TEXT, "github_pat_", 0 },
					     { PART_CORE, NULL, 0 },
					     { PART_SOME, NULL, 3 },
					     { PART_TEXT, "_", 0 },
					     { PART_REST, NULL, 53 },
					     { PART_CRC, NULL, 1 } } },
	[KH_SHAPE_GITLAB] = { "gitlab",
			      KH_SLICE_INIT("glpat-"),
			      BASE64URL,
			      26,
			      { { PART_TEXT, "glpat-", 0 },
				{ PART_CORE, NULL, 0 },
				{ PART_REST, NULL, 1 } } },
	[KH_SHAPE_NPM] = { "npm", KH_SLICE_INIT("npm_"), BASE62, 40, GITHUB_PARTS("npm_") },
	[KH_SHAPE_AWS_KEY_ID] = { "aws-key-id",
				  KH_SLICE_INIT("AKIA"),
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
				  20,
				  { { PART_TEXT, "AKIA", 0 },
				    { PART_SHORT, NULL, 0 },
				    { PART_REST, NULL, 0 } } },
	[KH_SHAPE_AWS_SECRET] = { "aws-secret",
				  KH_SLICE_INIT(""),
				  BASE62 "+/",
				  40,
				  { { PART_CORE, NULL, 0 }, { PART_REST, NULL, 21 } } },
#define SLACK_PARTS(prefix) \
	{ \
		{ PART_TEXT, prefix, 0 }, { PART_SOME, DIGITS, 12 }, { PART_TEXT, "-", 0 }, \
			{ PART_SOME, DIGITS, 13 }, { PART_TEXT, "-", 0 }, { PART_CORE, NULL, 0 }, \
		{ \
			PART_REST, NULL, 5 \
		} \
	}
	[KH_SHAPE_SLACK_BOT] = { "slack-bot", KH_SLICE_INIT("xoxb-"), BASE62, 56,
				 SLACK_PARTS("xoxb-") },
	[KH_SHAPE_SLACK_USER] = { "slack-user", KH_SLICE_INIT("xoxp-"), BASE62, 56,
				  SLACK_PARTS("xoxp-") },
	[KH_SHAPE_HUGGINGFACE] = { "huggingface",
				   KH_SLICE_INIT("hf_"),
				   LETTERS,
				   37,
				   { { PART_TEXT, "hf_", 0 },
				     { PART_CORE, NULL, 0 },
				     { PART_REST, NULL, 15 } } },
	/* {"alg":"RS256","typ":"JWT"} . {"iss":"keyhole","sub":"placeholder","iat":1700000000,
	   "exp":4102444800}: the year 2100 */
	[KH_SHAPE_JWT] = { "jwt",
			   KH_SLICE_INIT("eyJ"),
			   BASE64URL,
			   0,
			   { { PART_TEXT,
			       "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9."
			       "eyJpc3MiOiJrZXlob2xlIiwic3ViIjoicGxhY2Vob2xkZXIiLCJpYXQiOjE3MDAwMDA"
			       "w"
			       "MDAsImV4cCI6NDEwMjQ0NDgwMH0.",
			       0 },
			     { PART_CORE, NULL, 0 },
			     { PART_REST, NULL, 24 } } },
};

const char *kh_shape_name(enum kh_shape shape)
{
	return shape > KH_SHAPE_NONE && shape < KH_SHAPE_COUNT ? rows[shape].word : "";
}

/* Three parts of base64url, the first two of which begin as JSON objects do. */
static bool is_jwt(struct kh_slice value)
{
	size_t first = kh_slice_find(value, '.', 0), second = kh_slice_find(value, '.', first + 1);

	return first < value.len && second < value.len &&
	       kh_slice_find(value, '.', second + 1) == value.len &&
	       kh_slice_has_prefix(kh_slice_sub(value, first + 1, second), KH_SLICE("eyJ"));
}

enum kh_shape kh_shape_of(struct kh_slice value)
{
	enum kh_shape best = KH_SHAPE_GENERIC;

	for (size_t i = 0; i < KH_SHAPE_COUNT; i++)
		if (rows[i].begins.len > rows[best].begins.len &&
		    kh_slice_has_prefix(value, rows[i].begins))
			best = (enum kh_shape)i;
	/* Others begin so too (sk-or-v1-, sk- of many): what makes it OpenAI's is in the middle. */
	bool marked = false;
	for (size_t i = 0; i + 8 <= value.len && !marked; i++)
		marked = memcmp(value.ptr + i, "T3BlbkFJ", 8) == 0;
	if ((best == KH_SHAPE_OPENAI || best == KH_SHAPE_OPENAI_PROJECT) && !marked)
		return KH_SHAPE_GENERIC;
	if (best == KH_SHAPE_JWT && !is_jwt(value))
		return KH_SHAPE_GENERIC;
	return best;
}

/* ---- making one ---- */

enum { LEAST_ALPHABET = 10, CRC_BYTES = 6 };

static bool holds_all(struct kh_slice alphabet, struct kh_slice wanted)
{
	for (size_t i = 0; i < wanted.len; i++)
		if (kh_slice_find(alphabet, wanted.ptr[i], 0) == alphabet.len)
			return false;
	return true;
}

/* Visible ASCII, each character once, with room for a mark. */
static bool is_alphabet(struct kh_slice s)
{
	bool seen[128] = { false };

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c < 0x21 || c > 0x7e || seen[c])
			return false;
		seen[c] = true;
	}
	return s.len >= LEAST_ALPHABET && (holds_all(s, kh_mark_forms[KH_MARK_LETTERS].alphabet) ||
					   holds_all(s, kh_mark_forms[KH_MARK_DIGITS].alphabet));
}

struct making {
	const struct kh_placeholder_key *key;
	const struct kh_placeholder_owner *owner;
	struct kh_derive derived;
	struct kh_slice alphabet;
	const struct kh_mark_form *form;
	enum kh_mark_class class;
	char *out;
	size_t len;
};

static void put_core(struct making *m, bool with_name)
{
	struct kh_owner_tag owner;
	struct kh_name_tag name;

	kh_mark_make(m->out + m->len, m->key, m->class);
	m->len += m->form->mark;
	kh_owner_tag_make(&owner, m->key, m->owner->tenant, m->owner->sandbox);
	memcpy(m->out + m->len, owner.text[m->class], m->form->owner);
	m->len += m->form->owner;
	if (!with_name)
		return;
	kh_name_tag_make(&name, m->key, m->owner->credential);
	memcpy(m->out + m->len, name.text[m->class], m->form->name);
	m->len += m->form->name;
}

/* CRC-32 of ISO 3309, reflected, as zlib's. */
static uint32_t crc32_of(const char *bytes, size_t len)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
	}
	return ~crc;
}

static void put_crc(struct making *m, size_t from)
{
	static const char digits[] = DIGITS LETTERS;
	uint32_t crc = crc32_of(m->out + from, m->len - from);

	for (size_t i = CRC_BYTES; i > 0; i--) {
		m->out[m->len + i - 1] = digits[crc % 62];
		crc /= 62;
	}
	m->len += CRC_BYTES;
}

static size_t part_len(const struct making *m, const struct part *part)
{
	switch (part->kind) {
	case PART_TEXT:
		return strlen(part->text);
	case PART_CORE:
		return (size_t)m->form->mark + m->form->owner + m->form->name;
	case PART_SHORT:
		return (size_t)m->form->mark + m->form->owner;
	case PART_SOME:
	case PART_REST:
		return part->count;
	case PART_CRC:
		return CRC_BYTES;
	case PART_END:
		break;
	}
	return 0;
}

static void put_part(struct making *m, const struct part *part, size_t rest, const size_t *begins)
{
	struct kh_slice alphabet = part->text ? kh_slice_str(part->text) : m->alphabet;
	size_t len = part_len(m, part) + (part->kind == PART_REST ? rest : 0);

	switch (part->kind) {
	case PART_TEXT:
		memcpy(m->out + m->len, part->text, len);
		m->len += len;
		break;
	case PART_CORE:
	case PART_SHORT:
		put_core(m, part->kind == PART_CORE);
		break;
	case PART_SOME:
	case PART_REST:
		kh_derive_text(&m->derived, m->out + m->len, len, alphabet);
		m->len += len;
		break;
	case PART_CRC:
		put_crc(m, begins[part->count]);
		break;
	case PART_END:
		break;
	}
}

static bool put_all(struct making *m, const struct part *parts, size_t wanted)
{
	size_t least = 0, begins[PARTS];

	for (size_t i = 0; i < PARTS && parts[i].kind != PART_END; i++)
		least += part_len(m, &parts[i]);
	size_t rest = wanted > least ? wanted - least : 0;
	m->out = malloc(least + rest + 1);
	if (!m->out)
		return false;
	for (size_t i = 0; i < PARTS && parts[i].kind != PART_END; i++) {
		begins[i] = m->len;
		put_part(m, &parts[i], rest, begins);
	}
	m->out[m->len] = '\0';
	return true;
}

static bool fits(const struct kh_placeholder_spec *spec, struct kh_slice alphabet,
		 struct kh_err *err)
{
	if (!is_alphabet(alphabet))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "a placeholder's alphabet is at least %d visible characters, "
				  "each of them once, with all capital letters or all digits "
				  "among them",
				  LEAST_ALPHABET);
	if (spec->length > KH_LIMIT_SECRET_BYTES ||
	    (spec->prefix && strlen(spec->prefix) > KH_LIMIT_SECRET_BYTES))
		return kh_err_set(err, KH_ERR_CONFIG, "too long for a placeholder");
	return true;
}

char *kh_placeholder_make(const struct kh_placeholder_key *key,
			  const struct kh_placeholder_spec *spec,
			  const struct kh_placeholder_owner *owner, struct kh_err *err)
{
	const struct row *row = &rows[spec->shape];
	bool generic = spec->shape == KH_SHAPE_GENERIC;
	const struct part own[] = { { PART_TEXT, generic && spec->prefix ? spec->prefix : "", 0 },
				    { PART_CORE, NULL, 0 },
				    { PART_REST, NULL, 0 },
				    { PART_END, NULL, 0 } };
	struct making m = { .key = key, .owner = owner };

	m.alphabet = kh_slice_str(generic && spec->alphabet ? spec->alphabet : row->alphabet);
	if (!fits(spec, m.alphabet, err)) {
		kh_err_wrap(err, "credential %s", owner->credential);
		return NULL;
	}
	m.class = holds_all(m.alphabet, kh_mark_forms[KH_MARK_LETTERS].alphabet) ? KH_MARK_LETTERS
										 : KH_MARK_DIGITS;
	m.form = &kh_mark_forms[m.class];
	const char *words[] = { owner->tenant, owner->sandbox, owner->credential, row->word };
	kh_derive_begin(&m.derived, key, "keyhole placeholder", words, 4);
	if (!put_all(&m, generic ? own : row->parts, spec->length ? spec->length : row->usual)) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "credential %s: no memory", owner->credential);
		return NULL;
	}
	return m.out;
}
