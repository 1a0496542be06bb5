/*
 * env.c - the environment of a sandbox: the whole list; nothing is inherited
 *
 * A later one overrides an earlier one, in this order: the defaults, the caller's --env, keyhole's
 * own (proxy, trust, placeholders). So a mistake in --env can't bypass the proxy.
 */
#include <string.h>

#include <keyhole/base/file.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

#define PROXY "http://127.0.0.1:3128"
_Static_assert(KH_INIT_PORT == 3128, "PROXY names the port of the init");
#define LOCAL "localhost,127.0.0.1,::1"

static const struct pair {
	const char *name, *value;
} defaults[] = {
	{ "HOME", KH_SANDBOX_HOME },
	{ "USER", "agent" },
	{ "LOGNAME", "agent" },
	{ "SHELL", "/bin/sh" },
	{ "PATH", KH_SANDBOX_HOME "/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
				  "/sbin:/bin" },
	{ "LANG", "C.UTF-8" },
	{ "TMPDIR", "/tmp" },
	{ "TERM", "dumb" },
};

/* Which client reads which was tried one by one: curl reads http_proxy in lower case only, wget
 * every one in lower case only, node none without NODE_USE_ENV_PROXY. */
static const struct pair own[] = {
	{ "HTTP_PROXY", PROXY },
	{ "HTTPS_PROXY", PROXY },
	{ "ALL_PROXY", PROXY },
	{ "NO_PROXY", LOCAL },
	{ "http_proxy", PROXY },
	{ "https_proxy", PROXY },
	{ "all_proxy", PROXY },
	{ "no_proxy", LOCAL },
	{ "NODE_USE_ENV_PROXY", "1" },
	/* These replace a client's roots: the system's bundle with the CA in it. */
	{ "SSL_CERT_FILE", KH_SANDBOX_BUNDLE },
	{ "CURL_CA_BUNDLE", KH_SANDBOX_BUNDLE },
	{ "REQUESTS_CA_BUNDLE", KH_SANDBOX_BUNDLE },
	{ "PIP_CERT", KH_SANDBOX_BUNDLE },
	{ "GIT_SSL_CAINFO", KH_SANDBOX_BUNDLE },
	{ "CARGO_HTTP_CAINFO", KH_SANDBOX_BUNDLE },
	{ "AWS_CA_BUNDLE", KH_SANDBOX_BUNDLE },
	{ "CODEX_CA_CERTIFICATE", KH_SANDBOX_BUNDLE },
	{ "npm_config_cafile", KH_SANDBOX_BUNDLE },
	{ "NIX_SSL_CERT_FILE", KH_SANDBOX_BUNDLE },
	/* These add to them: the CA alone, since reading 140 certificates takes its time. */
	{ "NODE_EXTRA_CA_CERTS", KH_SANDBOX_CA },
	{ "DENO_CERT", KH_SANDBOX_CA },
};

#define JAVA \
	"-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 " \
	"-Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1] " \
	"-Djavax.net.ssl.trustStore=" KH_SANDBOX_P12 " -Djavax.net.ssl.trustStoreType=PKCS12 " \
	"-Djavax.net.ssl.trustStorePassword=changeit"

void kh_env_fini(struct kh_env *env)
{
	for (size_t i = 0; i < env->n; i++) {
		free(env->list[i].name);
		free(env->list[i].value);
	}
	free(env->list);
	*env = (struct kh_env){ 0 };
}

static struct kh_env_var *find(const struct kh_env *env, const char *name)
{
	for (size_t i = 0; i < env->n; i++)
		if (strcmp(env->list[i].name, name) == 0)
			return &env->list[i];
	return NULL;
}

const char *kh_env_get(const struct kh_env *env, const char *name)
{
	const struct kh_env_var *var = find(env, name);
	return var ? var->value : NULL;
}

static struct kh_env_var *add(struct kh_env *env, const char *name)
{
	if (env->n == env->alloc) {
		size_t alloc = env->alloc ? env->alloc * 2 : 64;
		struct kh_env_var *list = reallocarray(env->list, alloc, sizeof(*list));
		if (!list)
			return NULL;
		env->list = list;
		env->alloc = alloc;
	}
	char *copy = strdup(name);
	if (!copy)
		return NULL;
	env->list[env->n] = (struct kh_env_var){ .name = copy };
	return &env->list[env->n++];
}

void kh_env_set(struct kh_env *env, const char *name, const char *value)
{
	struct kh_env_var *var = find(env, name);
	char *copy = strdup(value);
	if (copy && !var)
		var = add(env, name);
	if (!copy || !var) {
		free(copy);
		env->failed = true;
		return;
	}
	free(var->value);
	var->value = copy;
}

/* The two that say what the caller's terminal can do. Nothing but letters, digits and "-+._". */
static void pass_terminal(struct kh_env *env, const char *name)
{
	const char *value = getenv(name);
	if (!value || strlen(value) > 64)
		return;
	for (const char *c = value; *c; c++)
		if (!kh_is_alpha(*c) && !kh_is_digit(*c) && !strchr("-+._", *c))
			return;
	kh_env_set(env, name, value);
}

static bool is_name(const char *name)
{
	if (!*name || kh_is_digit(*name))
		return false;
	for (; *name; name++)
		if (!kh_is_alpha(*name) && !kh_is_digit(*name) && *name != '_')
			return false;
	return true;
}

/* These say who the command is, which is not an image's to say. */
static bool is_who(const char *name)
{
	return strcmp(name, "HOME") == 0 || strcmp(name, "USER") == 0 ||
	       strcmp(name, "LOGNAME") == 0 || strcmp(name, "PWD") == 0;
}

/* In front of what PATH is, whoever has said that. */
static void put_first(struct kh_env *env, const char *folder)
{
	const char *path = kh_env_get(env, "PATH");
	kh_auto_free char *both =
		kh_strf("%s%s%s", folder, path && *path ? ":" : "", path ? path : "");
	if (both)
		kh_env_set(env, "PATH", both);
	else
		env->failed = true;
}

bool kh_env_fill(struct kh_env *env, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		kh_env_set(env, defaults[i].name, defaults[i].value);
	for (size_t i = 0; i < spec->n_root_env; i++)
		if (is_name(spec->root_env[i].name) && !is_who(spec->root_env[i].name))
			kh_env_set(env, spec->root_env[i].name, spec->root_env[i].value);
	if (spec->git_email)
		kh_env_set(env, "EMAIL", spec->git_email);
	if (spec->tty) {
		pass_terminal(env, "TERM");
		pass_terminal(env, "COLORTERM");
	}
	for (size_t i = 0; i < spec->n_env; i++) {
		if (!is_name(spec->env[i].name))
			return kh_err_set(
				err, KH_ERR_USAGE,
				"--env: a name is made of letters, digits and _, and does "
				"not begin with a digit");
		kh_env_set(env, spec->env[i].name, spec->env[i].value);
	}
	for (size_t i = spec->n_path; i > 0; i--)
		put_first(env, spec->path[i - 1]);
	if (spec->n_links > 0)
		put_first(env, KH_SANDBOX_LINKS);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		kh_env_set(env, own[i].name, own[i].value);
	/* The one that holds a list of options: the caller's stay in front. */
	const char *java = kh_env_get(env, "JAVA_TOOL_OPTIONS");
	kh_auto_free char *merged = kh_strf("%s%s%s", java ? java : "", java ? " " : "", JAVA);
	kh_env_set(env, "JAVA_TOOL_OPTIONS", merged ? merged : JAVA);
	for (size_t i = 0; i < spec->n_placeholders; i++)
		kh_env_set(env, spec->placeholders[i].name, spec->placeholders[i].value);
	return !env->failed ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox's environment: no memory");
}
