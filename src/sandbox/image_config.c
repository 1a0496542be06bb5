/*
 * image_config.c - parses the three JSON documents of an image: index, manifest, configuration
 *
 * Whoever made the image wrote them, so they are not trusted. jansson parses them, and rejects
 * duplicate names and NULs. Each value that is used is checked for type and length; everything else
 * is ignored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/json_load.h>
#include <keyhole/sandbox/image.h>
#include <keyhole/base/limits.h>

static void json_release(json_t **slot)
{
	json_decref(*slot);
}

static json_t *load(struct kh_slice json, const char *what, struct kh_err *err)
{
	json_error_t error;
	json_t *all = NULL;
	if (json.len > KH_LIMIT_IMAGE_JSON_BYTES)
		kh_err_set(err, KH_ERR_USAGE, "the image's %s: is larger than %d bytes", what,
			   KH_LIMIT_IMAGE_JSON_BYTES);
	else if (!(all = kh_json_load(json, JSON_REJECT_DUPLICATES, &error)))
		kh_err_set(err, KH_ERR_USAGE, "the image's %s: line %d: %s", what, error.line,
			   kh_esc_str(error.text));
	else if (json_is_object(all))
		return all;
	else
		kh_err_set(err, KH_ERR_USAGE, "the image's %s: is no object", what);
	json_decref(all);
	return NULL;
}

static bool take_digest(const json_t *descriptor, char out[KH_IMAGE_DIGEST_ROOM], const char *what,
			struct kh_err *err)
{
	static const char prefix[] = "sha256:";
	const char *text = json_string_value(json_object_get(descriptor, "digest"));
	bool ok = text && strlen(text) == KH_IMAGE_DIGEST_ROOM - 1 &&
		  strncmp(text, prefix, strlen(prefix)) == 0;
	for (size_t i = strlen(prefix); ok && text[i]; i++)
		ok = kh_is_digit(text[i]) || (text[i] >= 'a' && text[i] <= 'f');
	if (!ok)
		return kh_err_set(err, KH_ERR_USAGE, "the image's %s: has no sha256 digest", what);
	memcpy(out, text, KH_IMAGE_DIGEST_ROOM);
	return true;
}

bool kh_image_index_parse(struct kh_slice json, char digest[KH_IMAGE_DIGEST_ROOM],
			  struct kh_err *err)
{
	static const char what[] = "index";
	json_t *all kh_cleanup(json_release) = load(json, what, err);
	const json_t *list = json_object_get(all, "manifests");
	if (!all)
		return false;
	if (json_array_size(list) != 1)
		return kh_err_set(err, KH_ERR_USAGE, "the image's %s: names %zu images, not one",
				  what, json_array_size(list));
	return take_digest(json_array_get(list, 0), digest, what, err);
}

bool kh_image_manifest_parse(struct kh_slice json, char digest[KH_IMAGE_DIGEST_ROOM],
			     struct kh_err *err)
{
	static const char what[] = "manifest";
	json_t *all kh_cleanup(json_release) = load(json, what, err);
	return all && take_digest(json_object_get(all, "config"), digest, what, err);
}

void kh_image_platforms_parse(struct kh_slice json, char *out, size_t room)
{
	struct kh_err err = KH_ERR_INIT;
	json_t *all kh_cleanup(json_release) = load(json, "index", &err);
	const json_t *list = json_object_get(all, "manifests");
	size_t used = 0;
	out[0] = '\0';
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *platform = json_object_get(json_array_get(list, i), "platform");
		const char *name = json_string_value(json_object_get(platform, "architecture"));
		size_t len = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") : 0;
		if (len == 0 || name[len] || strstr(out, name) || used + len + 3 > room)
			continue;
		used += (size_t)snprintf(out + used, room - used, "%s%s", used ? ", " : "", name);
	}
}

/* ---- the configuration ---- */

static bool wrong(const char *member, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_USAGE,
			  "the image's configuration: %s is not what it should be", member);
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "the image's configuration: no memory");
}

/* An absent or empty one is NULL. */
static bool take_text(const json_t *all, const char *member, char **out, struct kh_err *err)
{
	const json_t *value = json_object_get(all, member);
	if (!value || json_is_null(value))
		return true;
	if (!json_is_string(value))
		return wrong(member, err);
	if (json_string_length(value) == 0)
		return true;
	*out = strdup(json_string_value(value));
	return *out || no_memory(err);
}

static bool is_list(const json_t *value)
{
	bool ok = json_is_array(value) && json_array_size(value) <= KH_LIMIT_IMAGE_WORDS;
	for (size_t i = 0; ok && i < json_array_size(value); i++)
		ok = json_is_string(json_array_get(value, i));
	return ok;
}

static bool take_words(const json_t *all, const char *member, char ***out, struct kh_err *err)
{
	const json_t *value = json_object_get(all, member);
	if (!value || json_is_null(value))
		return true;
	if (!is_list(value))
		return wrong(member, err);
	size_t n = json_array_size(value);
	if (n == 0)
		return true;
	if (!(*out = calloc(n + 1, sizeof(**out))))
		return no_memory(err);
	for (size_t i = 0; i < n; i++)
		if (!((*out)[i] = strdup(json_string_value(json_array_get(value, i)))))
			return no_memory(err);
	return true;
}

static bool take_env(const json_t *all, struct kh_image_config *out, struct kh_err *err)
{
	const json_t *value = json_object_get(all, "Env");
	if (!value || json_is_null(value))
		return true;
	if (!is_list(value))
		return wrong("Env", err);
	if (!(out->env = calloc(json_array_size(value) + 1, sizeof(*out->env))))
		return no_memory(err);
	for (size_t i = 0; i < json_array_size(value); i++) {
		const char *text = json_string_value(json_array_get(value, i));
		const char *equals = strchr(text, '=');
		if (!equals || equals == text)
			return wrong("Env", err);
		struct kh_env_var *var = &out->env[out->n_env++];
		var->name = strndup(text, (size_t)(equals - text));
		var->value = strdup(equals + 1);
		if (!var->name || !var->value)
			return no_memory(err);
	}
	return true;
}

void kh_image_config_clean(char *path)
{
	char *end = path; /* after what is kept */
	for (const char *at = path; *at;) {
		at += strspn(at, "/");
		size_t len = strcspn(at, "/");
		bool up = len == 2 && at[0] == '.' && at[1] == '.';
		if (up) {
			while (end > path && *--end != '/')
				;
		} else if (len > 0 && !(len == 1 && at[0] == '.')) {
			*end++ = '/';
			memmove(end, at, len);
			end += len;
		}
		at += len;
	}
	if (end == path)
		*end++ = '/';
	*end = '\0';
}

static bool take_directory(const json_t *all, struct kh_image_config *out, struct kh_err *err)
{
	if (!take_text(all, "WorkingDir", &out->directory, err))
		return false;
	if (!out->directory)
		return true;
	if (out->directory[0] != '/')
		return wrong("WorkingDir", err);
	kh_image_config_clean(out->directory);
	return true;
}

bool kh_image_config_parse(struct kh_slice json, struct kh_image_config *out, struct kh_err *err)
{
	*out = (struct kh_image_config){ 0 };
	json_t *all kh_cleanup(json_release) = load(json, "configuration", err);
	if (!all)
		return false;
	const json_t *run = json_object_get(all, "config");
	if (run && !json_is_null(run) && !json_is_object(run))
		return wrong("config", err);
	if (take_text(all, "architecture", &out->architecture, err) &&
	    take_text(all, "os", &out->os, err) && take_env(run, out, err) &&
	    take_words(run, "Entrypoint", &out->entrypoint, err) &&
	    take_words(run, "Cmd", &out->command, err) && take_directory(run, out, err))
		return true;
	kh_image_config_fini(out);
	return false;
}

static void free_words(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

void kh_image_config_fini(struct kh_image_config *config)
{
	free(config->architecture);
	free(config->os);
	for (size_t i = 0; i < config->n_env; i++) {
		free(config->env[i].name);
		free(config->env[i].value);
	}
	free(config->env);
	free_words(config->entrypoint);
	free_words(config->command);
	free(config->directory);
	*config = (struct kh_image_config){ 0 };
}

const char *kh_image_own_architecture(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#elif defined(__arm__)
	return "arm";
#elif defined(__i386__)
	return "386";
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
	return "ppc64le";
#elif defined(__s390x__)
	return "s390x";
#elif defined(__riscv) && __riscv_xlen == 64
	return "riscv64";
#else
	return "";
#endif
}
