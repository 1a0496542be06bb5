/* store_image.c - asks a container program about an image in its store */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include <jansson.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/program.h>
#include <keyhole/base/slice.h>
#include <keyhole/sandbox/image.h>

#include "sandbox_internal.h"
#include "store.h"

enum { SAID_MOST_BYTES = 1024 * 1024, WORDS_MOST = 1024 };

void kh_store_image_fini(struct kh_store_image *image)
{
	for (size_t i = 0; i < image->n_env; i++) {
		free(image->env[i].name);
		free(image->env[i].value);
	}
	free(image->env);
	char **lists[] = { image->entrypoint, image->command, image->volumes };
	for (size_t n = 0; n < sizeof(lists) / sizeof(lists[0]); n++) {
		for (size_t i = 0; lists[n] && lists[n][i]; i++)
			free(lists[n][i]);
		free(lists[n]);
	}
	free(image->directory);
	*image = (struct kh_store_image){ 0 };
}

static bool take_env(const json_t *list, struct kh_store_image *out)
{
	size_t n = json_array_size(list);
	out->env = n > 0 && n <= WORDS_MOST ? calloc(n, sizeof(*out->env)) : NULL;
	for (size_t i = 0; out->env && i < n; i++) {
		const char *text = json_string_value(json_array_get(list, i));
		const char *equals = text ? strchr(text, '=') : NULL;
		if (!equals || equals == text)
			continue;
		struct kh_env_var *var = &out->env[out->n_env++];
		var->name = strndup(text, (size_t)(equals - text));
		var->value = strdup(equals + 1);
		if (!var->name || !var->value)
			return false;
	}
	return n == 0 || out->env != NULL;
}

static bool take_words(const json_t *list, char ***out)
{
	size_t n = json_array_size(list);
	if (n == 0)
		return true;
	*out = n <= WORDS_MOST ? calloc(n + 1, sizeof(**out)) : NULL;
	bool ok = *out != NULL;
	for (size_t i = 0; ok && i < n; i++) {
		const char *word = json_string_value(json_array_get(list, i));
		ok = word && ((*out)[i] = strdup(word)) != NULL;
	}
	return ok;
}

/* Docker takes each place once. Else it is freed. */
static bool is_new(char **list, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (strcmp(list[i], list[at]) == 0) {
			free(list[at]);
			list[at] = NULL;
			return false;
		}
	return true;
}

/* The names of an object are the places. */
static bool take_volumes(json_t *object, struct kh_store_image *out)
{
	size_t n = json_object_size(object);
	if (n == 0)
		return true;
	out->volumes = n <= WORDS_MOST ? calloc(n + 1, sizeof(*out->volumes)) : NULL;
	if (!out->volumes)
		return false;
	n = 0;
	const char *place;
	json_t *unused;
	json_object_foreach(object, place, unused)
	{
		if (place[0] != '/' || !(out->volumes[n] = strdup(place)))
			return false;
		kh_image_config_clean(out->volumes[n]);
		n += is_new(out->volumes, n);
	}
	return true;
}

static size_t count(char *const *words)
{
	size_t n = 0;
	while (words && words[n])
		n++;
	return n;
}

char **kh_store_argv(const struct kh_store_image *image, const struct kh_sandbox_spec *spec,
		     struct kh_err *err)
{
	char *own[] = { (char *)(uintptr_t)spec->entrypoint, NULL };
	char *const *front = image->entrypoint, *const *back = spec->argv;
	if (spec->entrypoint)
		front = spec->entrypoint[0] ? own : NULL;
	else if (!*back)
		back = image->command;
	size_t n = count(front), m = count(back);
	char **argv = calloc(n + m + 1, sizeof(*argv));
	if (!argv || n + m == 0) {
		free(argv);
		kh_err_set(err, KH_ERR_USAGE,
			   "--image %s: says no command of its own (give one after --)",
			   kh_esc_str(spec->image));
		return NULL;
	}
	for (size_t i = 0; i < n + m; i++)
		argv[i] = i < n ? front[i] : back[i - n];
	return argv;
}

/* As images name this machine; NULL where they have no other name for it than the kernel. */
static const char *own_architecture(const struct utsname *host)
{
	static const struct {
		const char *kernels, *images;
	} names[] = {
		{ "x86_64", "amd64" }, { "aarch64", "arm64" },	     { "i686", "386" },
		{ "armv7l", "arm" },   { "loongarch64", "loong64" }, { "riscv64", "riscv64" }
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(host->machine, names[i].kernels) == 0)
			return names[i].images;
	return host->machine;
}

static bool check_kind(const char *reference, const json_t *image, struct kh_err *err)
{
	struct utsname host;
	const char *os = json_string_value(json_object_get(image, "Os"));
	const char *architecture = json_string_value(json_object_get(image, "Architecture"));
	if (uname(&host) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "uname");
	const char *own = own_architecture(&host);
	if (os && *os && strcmp(os, "linux") != 0)
		return kh_err_set(err, KH_ERR_USAGE, "--image %s: is for %s, not for Linux",
				  kh_esc_str(reference), kh_esc_str(os));
	if (architecture && *architecture && strcmp(architecture, own) != 0)
		return kh_err_set(err, KH_ERR_USAGE,
				  "--image %s: is for another architecture (%s; this host is %s: "
				  "pull it with `--platform linux/%s`)",
				  kh_esc_str(reference), kh_esc_str(architecture), own, own);
	return true;
}

static bool take(const json_t *image, struct kh_store_image *out)
{
	const json_t *config = json_object_get(image, "Config");
	const char *directory = json_string_value(json_object_get(config, "WorkingDir"));
	if (directory && directory[0] == '/') {
		if (!(out->directory = strdup(directory)))
			return false;
		kh_image_config_clean(out->directory);
	}
	return take_env(json_object_get(config, "Env"), out) &&
	       take_words(json_object_get(config, "Entrypoint"), &out->entrypoint) &&
	       take_words(json_object_get(config, "Cmd"), &out->command) &&
	       take_volumes(json_object_get(config, "Volumes"), out);
}

static bool ask(const char *program, const char *reference, uint64_t most_ms, struct kh_buf *said,
		struct kh_err *err)
{
	kh_auto_free char *path = kh_program_find(program);
	kh_auto_free char *copy = strdup(reference);
	static char image[] = "image", inspect[] = "inspect";
	char *argv[] = { path, image, inspect, copy, NULL };
	if (!path)
		return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s is not on the PATH",
				  program);
	/* Else it is an option of the program's. */
	if (!copy || reference[0] == '-' || !reference[0])
		return kh_err_set(err, KH_ERR_USAGE, "--image %s: not a reference of an image",
				  kh_esc_str(reference));
	if (kh_store_tool(argv, -1, most_ms, said, err))
		return true;
	if (strstr(err->text, "o such image") || strstr(err->text, "not known"))
		return kh_err_set(err, KH_ERR_USAGE,
				  "--image %s: %s has no such image (get it first: `%s pull %s`)",
				  kh_esc_str(reference), program, program, kh_esc_str(reference));
	return false;
}

bool kh_store_inspect(const char *program, const char *reference, uint64_t most_ms,
		      struct kh_store_image *out, struct kh_err *err)
{
	*out = (struct kh_store_image){ 0 };
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_buf_init(&said, SAID_MOST_BYTES);
	if (!ask(program, reference, most_ms, &said, err))
		return false;
	json_t *all = kh_json_load(kh_buf_view(&said), 0, NULL);
	const json_t *image = json_array_get(all, 0);
	bool ok = json_is_object(image)
			  ? check_kind(reference, image, err)
			  : kh_err_set(err, KH_ERR_SYSTEM, "--image %s: %s says nothing of it",
				       kh_esc_str(reference), program);
	if (ok && !take(image, out))
		ok = kh_err_set(err, KH_ERR_SYSTEM, "--image %s: its settings can't be taken",
				kh_esc_str(reference));
	json_decref(all);
	if (!ok)
		kh_store_image_fini(out);
	return ok;
}
