/*
 * fuzz_model.c - the model's name in a request's content, held against jansson
 *
 * What we take, jansson takes as well, and finds the same name in it; what it refuses, we refuse.
 * The other way round we may refuse more. The same bytes are a path, too.
 */
#include <jansson.h>
#include <keyhole/llm/model.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check_name(const struct kh_model *model, enum kh_model_state state)
{
	require((state == KH_MODEL_NAMED) == (model->len > 0));
	require(model->len <= KH_LIMIT_MODEL_BYTES && strlen(model->name) == model->len);
	for (size_t i = 0; i < model->len; i++)
		require(model->name[i] > 0x20 && model->name[i] < 0x7f);
}

/* A key that some reader may take for "model". */
static size_t alike(const json_t *object)
{
	const char *key;
	json_t *value;
	size_t n = 0;
	json_object_foreach((json_t *)(uintptr_t)object, key, value) n +=
		kh_slice_eq_nocase(kh_slice_str(key), KH_SLICE("model"));
	return n;
}

static void check_json(struct kh_slice content)
{
	struct kh_model model;
	const char *why;
	enum kh_model_state state = kh_model_in_json(content, &model, &why);
	check_name(&model, state);
	require((state == KH_MODEL_UNREAD) == (why != NULL));
	if (state == KH_MODEL_UNREAD || content.len == 0)
		return;
	json_error_t error;
	json_t *read = json_loadb(content.ptr, content.len, JSON_ALLOW_NUL, &error);
	/* It refuses numbers beyond a double, or a long long, which JSON has. */
	if (!read && json_error_code(&error) == json_error_numeric_overflow)
		return;
	require(json_is_object(read));
	const char *named = json_string_value(json_object_get(read, "model"));
	require(alike(read) == (state == KH_MODEL_NAMED ? 1 : 0));
	require(state == KH_MODEL_NAMED ? named && strcmp(named, model.name) == 0 : !named);
	json_decref(read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice text = kh_slice_of(data, size);
	struct kh_model model;
	const char *why;
	check_json(text);
	const struct kh_path_readings one = { .path = text };
	const struct kh_path_readings same = { .path = text, .slashed = text, .decoded = text };
	enum kh_model_state said = kh_model_in_path(&one, &model, &why);
	check_name(&model, said);
	require(said == KH_MODEL_UNREAD || !why);
	require(kh_model_in_path(&same, &model, &why) == said);
	return 0;
}
