/* model.h - which model a request is for */
#ifndef KEYHOLE_LLM_MODEL_H
#define KEYHOLE_LLM_MODEL_H

#include <keyhole/base/limits.h>
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>

/* A name as it was written, decoded: 1 to KH_LIMIT_MODEL_BYTES of printable ASCII, without blanks.
 */
struct kh_model {
	size_t len;
	char name[KH_LIMIT_MODEL_BYTES + 1]; /* terminated */
};

/*
 * In the path, where one of these forms is the whole of it (VERSION: v1, v1beta, v1alpha …):
 *
 *   /VERSION/models/NAME:VERB, /VERSION/tunedModels/NAME:VERB           Gemini
 *   /VERSION/publishers/U/models/NAME:VERB                              Vertex
 *   /VERSION/projects/P/locations/L/publishers/U/models/NAME:VERB       Vertex
 *   /model/NAME/VERB                                                    Bedrock
 *   /openai/deployments/NAME/REST                                       Azure
 *
 * Escapes in NAME are decoded, once, and a '%' is none of its characters. Return: KH_MODEL_NAMED;
 * KH_MODEL_UNREAD: it is of no such form, or NAME is no name, and the content has to say. With *why
 * as well: nothing may say it, since a server less strict may take the path for such a form (more
 * slashes, parameters, other spellings, another prefix), or the readings differ.
 */
enum kh_model_state kh_model_in_path(const struct kh_path_readings *path, struct kh_model *out,
				     const char **why);

/*
 * May the content say it, where the path is of no known form? Not where the path may name one in a
 * form that is not read (a name below models, engines, deployments, endpoints …, NAME:VERB), or
 * where the service reads another member (async-invoke, predictions), in any reading of the path.
 * Return: NULL, else why not.
 */
const char *kh_model_path_fault(const struct kh_path_readings *path);

/*
 * Can its content say it: JSON in UTF-8 (one Content-Type: application/json, or +json), with no
 * Content-Encoding? Return: NULL, else why not.
 */
const char *kh_model_content_fault(const struct kh_message *request);

/*
 * In the content, as it comes: the value of `model` in the object that it is. Read strictly (RFC
 * 8259), in constant memory, so that no other reading has another name. Each piece is read when it
 * is fed, so that the work of a turn of the loop is that of the bytes which came in it.
 */
struct kh_model_reader;

/* Return: NULL: no memory. */
struct kh_model_reader *kh_model_reader_new(void);
void kh_model_reader_free(struct kh_model_reader *reader);
void kh_model_reader_feed(struct kh_model_reader *reader, struct kh_slice piece);
/* That were fed. */
uint64_t kh_model_reader_bytes(const struct kh_model_reader *reader);
/*
 * All of it was fed. *why says what is not right where the content is no such object, or is
 * damaged; where a key could be taken for `model` by a reader less strict (twice, in another case,
 * with an escape); where the value is no name. Nothing at all is KH_MODEL_NONE. Return:
 * KH_MODEL_UNREAD with *why, KH_MODEL_NONE, or KH_MODEL_NAMED.
 */
enum kh_model_state kh_model_reader_end(struct kh_model_reader *reader, struct kh_model *out,
					const char **why);

/* The same for content that is there as a whole. */
enum kh_model_state kh_model_in_json(struct kh_slice content, struct kh_model *out,
				     const char **why);

#endif
