/* shape.h - what a placeholder looks like, as the configuration says it, and the key it is derived
 * from */
#ifndef KEYHOLE_CONFIG_SHAPE_H
#define KEYHOLE_CONFIG_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, the word in the configuration). credential/shapes.c says what each looks like. */
#define KH_SHAPE_TABLE(X) \
	X(GENERIC, "generic") /* `prefix`, then characters of `alphabet` */ \
	X(ANTHROPIC, "anthropic") \
	X(ANTHROPIC_OAUTH, "anthropic-oauth") \
	X(OPENAI, "openai") \
	X(OPENAI_PROJECT, "openai-project") \
	X(GOOGLE, "google") \
	X(GITHUB, "github") \
	X(GITHUB_OAUTH, "github-oauth") \
	X(GITHUB_APP, "github-app") \
	X(GITHUB_FINE_GRAINED, "github-fine-grained") \
	X(GITLAB, "gitlab") \
	X(NPM, "npm") \
	X(AWS_KEY_ID, "aws-key-id") \
	X(AWS_SECRET, "aws-secret") \
	X(SLACK_BOT, "slack-bot") \
	X(SLACK_USER, "slack-user") \
	X(HUGGINGFACE, "huggingface") \
	X(JWT, "jwt")

enum kh_shape {
	KH_SHAPE_NONE = 0, /* by the public prefix of the real value, else GENERIC */
#define KH_SHAPE_ENUM(name, word) KH_SHAPE_##name,
	KH_SHAPE_TABLE(KH_SHAPE_ENUM)
#undef KH_SHAPE_ENUM
		KH_SHAPE_COUNT
};

/* Of a credential's configuration. */
struct kh_placeholder {
	enum kh_shape shape;
	/* If set, a request without the sandbox's placeholder in the value's place is refused. */
	bool required;
	/* Set by the keeper when it has the value, and in the snapshot: the shape that the value's
	   prefix shows (GENERIC: none), and its length (0: not known). */
	enum kh_shape seen;
	uint32_t seen_len;
};

/* Keys that are known at a time: two while the CA is being replaced. */
enum { KH_MARK_KEYS = 2 };

/* The key that a daemon's placeholders are derived from. It is no credential, but sandboxes must
 * not know it. All zeros: none. */
struct kh_placeholder_key {
	uint8_t bytes[32];
};
static inline bool kh_placeholder_key_is_set(const struct kh_placeholder_key *key)
{
	uint8_t any = 0;

	for (size_t i = 0; i < sizeof(key->bytes); i++)
		any |= key->bytes[i];
	return any != 0;
}

#endif
