/* model.h - which (LLM) model a request names */
#ifndef KEYHOLE_LLM_MODEL_H
#define KEYHOLE_LLM_MODEL_H

#include <keyhole/base/limits.h>
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>

/* A model's name, decoded: 1 to KH_LIMIT_MODEL_BYTES bytes of printable ASCII, without blanks. */
struct kh_model {
	size_t len;
	char name[KH_LIMIT_MODEL_BYTES + 1]; /* terminated */
};

/*
 * The model in the path, if the whole path has one of these forms (VERSION: v1, v1beta, v1alpha …):
 *
 *   /VERSION/models/NAME:VERB, /VERSION/tunedModels/NAME:VERB           Gemini
 *   /VERSION/publishers/U/models/NAME:VERB                              Vertex
 *   /VERSION/projects/P/locations/L/publishers/U/models/NAME:VERB       Vertex
 *   /model/NAME/VERB                                                    Bedrock
 *   /openai/deployments/NAME/REST                                       Azure
 *
 * Escapes in NAME are decoded once, and NAME may not contain a '%' afterwards. Return:
 * KH_MODEL_NAMED; or KH_MODEL_UNREAD: the path has no such form, or NAME is not a name, so the
 * content has to name the model. KH_MODEL_UNREAD with *why (a constant): ambiguous, and the content
 * must not be used either, since a more lenient server may see such a form in the path (extra
 * slashes, parameters, other spellings, another prefix), or the readings differ.
 */
enum kh_model_state kh_model_in_path(const struct kh_path_readings *path, struct kh_model *out,
				     const char **why);

/*
 * May the content name the model, if the path has no known form? Not if any reading of the path may
 * name one in an unknown form (a name below models, engines, deployments, endpoints …, NAME:VERB),
 * or is of a service that reads another member (async-invoke, predictions). Return: NULL, else why
 * not (a constant).
 */
const char *kh_model_path_fault(const struct kh_path_readings *path);

/*
 * Can the content name the model: is it JSON in UTF-8 (exactly one Content-Type, application/json
 * or +json) without Content-Encoding? Return: NULL, else why not (a constant).
 */
const char *kh_model_content_fault(const struct kh_message *request);

/*
 * A streaming reader of the content: finds the member `model` of the outermost JSON object. Strict
 * (RFC 8259), so that no other parser can find another name; uses constant memory. Each piece is
 * parsed when it is fed, so the work of a loop turn is proportional to the bytes that came in it.
 */
struct kh_model_reader;

/* Return: NULL without memory. */
struct kh_model_reader *kh_model_reader_new(void);
void kh_model_reader_free(struct kh_model_reader *reader);
void kh_model_reader_feed(struct kh_model_reader *reader, struct kh_slice piece);
/* How many bytes were fed. */
uint64_t kh_model_reader_bytes(const struct kh_model_reader *reader);
/*
 * The end of the content. Return: KH_MODEL_NAMED; KH_MODEL_NONE: no such member, or empty content;
 * or KH_MODEL_UNREAD with *why (a constant): the content is not a valid JSON object, a more lenient
 * parser could take another key for `model` (twice, another case, an escape), or the value is not a
 * name.
 */
enum kh_model_state kh_model_reader_end(struct kh_model_reader *reader, struct kh_model *out,
					const char **why);

/* The same for complete content. */
enum kh_model_state kh_model_in_json(struct kh_slice content, struct kh_model *out,
				     const char **why);

#endif
