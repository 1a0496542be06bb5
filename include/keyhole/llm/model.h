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
 * `path` is normalised; `slashed` and `decoded` are its other readings, with %2F as '/' and decoded
 * further (path.h; ptr NULL: there is none). Escapes in NAME are decoded, once, and a '%' is none
 * of its characters. Return: KH_MODEL_NAMED; KH_MODEL_UNREAD: it is of no such form, or
 * NAME is no name, and the content has to say. With *why as well: nothing may say it, since a
 * server less strict may take the path for such a form (more slashes, parameters, other spellings,
 * another prefix), or the readings differ.
 */
enum kh_model_state kh_model_in_path(struct kh_slice path, struct kh_slice slashed,
				     struct kh_slice decoded, struct kh_model *out,
				     const char **why);

/*
 * Can its content say it: JSON in UTF-8 (one Content-Type: application/json, or +json), with no
 * Content-Encoding? Return: NULL, else why not.
 */
const char *kh_model_content_fault(const struct kh_message *request);

/*
 * In the whole content: the value of `model` in the object that it is. Read strictly (RFC 8259), in
 * constant memory, so that no other reading has another name: *why says what is not right where the
 * content is no such object, or is damaged; where a key could be taken for `model` by a reader less
 * strict (twice, in another case, with an escape); where the value is no name. Nothing at all is
 * KH_MODEL_NONE. Return: KH_MODEL_UNREAD with *why, KH_MODEL_NONE, or KH_MODEL_NAMED.
 */
enum kh_model_state kh_model_in_json(struct kh_slice content, struct kh_model *out,
				     const char **why);

#endif
