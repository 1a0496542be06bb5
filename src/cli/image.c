/* image.c - `keyhole image`: lists and removes the images that `keyhole run --image` has
 * unpacked */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/sandbox/image.h>

#include "cli_internal.h"

static const char usage[] =
	"usage: keyhole image COMMAND [OPTION…]\n"
	"The images that `keyhole run` has unpacked. Each is unpacked once and kept, in\n"
	"$XDG_CACHE_HOME/keyhole. Without that variable: in /var/cache/keyhole for root, in\n"
	"~/.cache/keyhole for others.\n\n"
	"  ls           list the images, the most recently used first\n"
	"  rm           remove the given images, by reference or name\n"
	"  prune        remove all images that no sandbox uses\n\n"
	"      --json             ls: print JSON\n"
	"      --unused-for TIME  prune: only those not used for this time, such as 720h\n"
	"  -h, --help             show this\n\n"
	"Exit status: 0 success, 1 failure, 2 wrong usage. The manual: keyhole-image(1).\n";

struct options {
	bool json;
	uint64_t unused_ms;
};

struct kept {
	char *cache;
	struct kh_image_kept *list;
	size_t n;
};

static void kept_fini(struct kept *kept)
{
	kh_image_list_free(kept->list, kept->n);
	free(kept->cache);
}

static void show_when(int64_t seconds, char out[32])
{
	time_t when = (time_t)seconds;
	struct tm tm;
	if (!localtime_r(&when, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M", &tm) == 0)
		out[0] = '\0';
}

static int list_json(const struct kept *kept)
{
	json_t *all = json_array();
	for (size_t i = 0; i < kept->n; i++) {
		const struct kh_image_kept *image = &kept->list[i];
		json_array_append_new(all, json_pack("{s:s, s:s, s:I, s:b}", "name", image->name,
						     "reference", image->reference, "used",
						     (json_int_t)image->used, "in_use",
						     (int)image->in_use));
	}
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

static int list(const struct kept *kept)
{
	if (kept->n == 0)
		kh_cli_complain("there are no images");
	for (size_t i = 0; i < kept->n; i++) {
		const struct kh_image_kept *image = &kept->list[i];
		char when[32];
		show_when(image->used, when);
		printf("%s  %-6s  %s  %s\n", when, image->in_use ? "in use" : "", image->name,
		       kh_esc_str(image->reference));
	}
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

static bool remove_one(const struct kept *kept, const char *name)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_image_remove(kept->cache, name, &err))
		return true;
	kh_cli_complain("image: %s", err.text);
	return false;
}

/* The name of its folder, or the reference by which it came. */
static bool is_meant(const struct kh_image_kept *image, const char *word)
{
	return strcmp(image->name, word) == 0 || strcmp(image->reference, word) == 0;
}

static int remove_named(const struct kept *kept, char *const *words)
{
	bool ok = true;
	if (!*words) {
		kh_cli_complain("image rm: which? (`keyhole image ls` lists them)");
		return KH_EXIT_USAGE;
	}
	for (; *words; words++) {
		bool found = false;
		for (size_t i = 0; i < kept->n; i++) {
			if (!is_meant(&kept->list[i], *words))
				continue;
			found = true;
			ok = remove_one(kept, kept->list[i].name) && ok;
		}
		if (!found)
			kh_cli_complain("image: %s: no such image (`keyhole image ls` lists them)",
					kh_esc_str(*words));
		ok = ok && found;
	}
	return ok ? 0 : KH_EXIT_FAILED;
}

static int prune(const struct kept *kept, uint64_t unused_ms)
{
	bool ok = true;
	int64_t before = (int64_t)time(NULL) - (int64_t)(unused_ms / 1000);
	for (size_t i = 0; i < kept->n; i++) {
		if (kept->list[i].in_use || kept->list[i].used > before)
			continue;
		if (remove_one(kept, kept->list[i].name))
			printf("%s\n", kept->list[i].name);
		else
			ok = false;
	}
	return ok && fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

static int act(const char *command, char *const *words, const struct options *options)
{
	struct kept kept kh_cleanup(kept_fini) = { 0 };
	struct kh_err err = KH_ERR_INIT;
	kept.cache = kh_image_cache(&err);
	if (!kept.cache) {
		kh_cli_complain("image: %s", err.text);
		return KH_EXIT_FAILED;
	}
	kept.list = kh_image_list(kept.cache, &kept.n);
	if (strcmp(command, "rm") == 0)
		return remove_named(&kept, words);
	if (*words) {
		kh_cli_complain("image %s: takes no argument, got %s", command, kh_esc_str(*words));
		return KH_EXIT_USAGE;
	}
	if (strcmp(command, "prune") == 0)
		return prune(&kept, options->unused_ms);
	return options->json ? list_json(&kept) : list(&kept);
}

int kh_cli_image(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "unused-for", required_argument, NULL, 'u' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const char *const commands[] = { "ls", "rm", "prune" };
	struct options options = { 0 };
	for (int option; (option = kh_cli_option(argc, argv, "h", longs)) != -1;) {
		if (option == 'h') {
			fputs(usage, stdout);
			return ferror(stdout) ? KH_EXIT_FAILED : 0;
		}
		if (option == 'j') {
			options.json = true;
		} else if (option != 'u') {
			return KH_EXIT_USAGE;
		} else if (!kh_value_duration(kh_slice_str(optarg), &options.unused_ms)) {
			kh_cli_complain("--unused-for %s: wants a duration such as 720h",
					kh_esc_str(optarg));
			return KH_EXIT_USAGE;
		}
	}
	const char *command = optind < argc ? argv[optind] : "";
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(command, commands[i]) == 0)
			return act(command, argv + optind + 1, &options);
	const char *near =
		kh_cli_nearest(command, commands, sizeof(commands) / sizeof(commands[0]));
	kh_cli_complain("image%s%s%s%s%s: wants one of: ls, rm, prune", *command ? " " : "",
			kh_esc_str(command), near ? " (did you mean " : "", near ? near : "",
			near ? "?)" : "");
	return KH_EXIT_USAGE;
}
