/* launch_only.c - the launcher without a proxy: a sandbox over any socket folder, for the tests */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/file.h>
#include <keyhole/sandbox/image.h>
#include <keyhole/sandbox/sandbox.h>
#include <keyhole/sandbox/workspace.h>

enum { MOST = 64 };

static const char *forbidden[MOST], *read_only[MOST];
static struct kh_image_options image_options;
static const char *image_reference;
static struct kh_env_var env[MOST], placeholders[MOST];

static uint16_t ports[MOST];
static struct kh_published publish[MOST];

static struct kh_env_var split(const char *text)
{
	const char *equals = strchr(text, '=');
	if (!equals)
		exit(2);
	return (struct kh_env_var){ strndup(text, (size_t)(equals - text)), strdup(equals + 1) };
}

static void parse(struct kh_sandbox_spec *spec, int argc, char **argv)
{
	int i = 1;
	for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];
		if (strcmp(name, "--socket-dir") == 0)
			spec->socket_dir = value;
		else if (strcmp(name, "--workspace") == 0)
			spec->workspace = value;
		else if (strcmp(name, "--workspace-ro") == 0)
			spec->workspace_read_only = true, spec->workspace = value;
		else if (strcmp(name, "--mask-env") == 0)
			spec->mask_env_files = strcmp(value, "yes") == 0;
		else if (strcmp(name, "--engine") == 0)
			spec->engine = value;
		else if (strcmp(name, "--memory") == 0)
			spec->limits.memory_bytes = strtoull(value, NULL, 10);
		else if (strcmp(name, "--disk") == 0)
			spec->limits.disk_bytes = strtoull(value, NULL, 10);
		else if (strcmp(name, "--pids") == 0)
			spec->limits.pids = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(name, "--cpu-milli") == 0)
			spec->limits.cpu_milli = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(name, "--timeout-ms") == 0)
			spec->limits.timeout_ms = strtoull(value, NULL, 10);
		else if (strcmp(name, "--start-ms") == 0)
			spec->start_ms = strtoull(value, NULL, 10);
		else if (strcmp(name, "--best-effort") == 0)
			spec->limits.best_effort = strcmp(value, "yes") == 0;
		else if (strcmp(name, "--publish") == 0)
			spec->n_publish +=
				sscanf(value, "%hu:%hu", &publish[spec->n_publish].outside,
				       &publish[spec->n_publish].inside) == 2;
		else if (strcmp(name, "--port") == 0)
			ports[spec->n_ports++] = (uint16_t)strtoul(value, NULL, 10);
		else if (strcmp(name, "--home") == 0)
			spec->home = value;
		else if (strcmp(name, "--stored-image") == 0)
			spec->image = value; /* by the engine's own program */
		else if (strcmp(name, "--rootfs") == 0)
			spec->rootfs = value;
		else if (strcmp(name, "--layer") == 0)
			spec->layer = strcmp(value, "yes") == 0;
		else if (strcmp(name, "--image") == 0)
			image_reference = value;
		else if (strcmp(name, "--image-cache") == 0)
			image_options.cache = value;
		else if (strcmp(name, "--image-bytes") == 0)
			image_options.most_bytes = strtoull(value, NULL, 10);
		else if (strcmp(name, "--directory") == 0)
			spec->directory = value;
		else if (strcmp(name, "--init") == 0)
			spec->init_path = value;
		else if (strcmp(name, "--state") == 0)
			spec->state = value;
		else if (strcmp(name, "--git-name") == 0)
			spec->git_name = value;
		else if (strcmp(name, "--git-email") == 0)
			spec->git_email = value;
		else if (strcmp(name, "--ro") == 0)
			read_only[spec->n_read_only++] = value;
		else if (strcmp(name, "--forbid") == 0)
			forbidden[spec->n_forbidden++] = value;
		else if (strcmp(name, "--env") == 0)
			env[spec->n_env++] = split(value);
		else if (strcmp(name, "--placeholder") == 0)
			placeholders[spec->n_placeholders++] = split(value);
		else
			exit(2);
	}
	spec->argv = argv + i + 1;
}

int main(int argc, char **argv)
{
	struct kh_sandbox_spec spec = {
		.engine = "process",
		.env = env,
		.placeholders = placeholders,
		.forbidden_paths = forbidden,
		.read_only = read_only,
		.ports = ports,
		.publish = publish,
		.host_uid = (uid_t)-1,
		.host_gid = (gid_t)-1,
		.tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO),
	};
	parse(&spec, argc, argv);
	if (!spec.state)
		spec.state = kh_workspace_state();
	struct kh_buf ca;
	kh_buf_init(&ca, 64 * 1024);
	struct kh_err err = KH_ERR_INIT;
	const char *ca_path = getenv("LAUNCH_CA");
	if (!ca_path || !kh_file_read(ca_path, &ca, &err)) {
		fprintf(stderr, "LAUNCH_CA: %s\n", err.text);
		return 2;
	}
	spec.ca_pem = kh_buf_cstr(&ca);
	struct kh_image image = { .lock = -1 };
	if (image_reference && !kh_image_open(image_reference, &image_options, &image, &err)) {
		fprintf(stderr, "keyhole: %s\n", err.text);
		return 125;
	}
	if (image_reference) {
		spec.rootfs = image.root;
		spec.layer = true;
		spec.directory = image.config.directory;
		spec.root_env = image.config.env;
		spec.n_root_env = image.config.n_env;
	}
	int status = 0;
	bool ran = kh_sandbox_run(&spec, &status, &err);
	if (err.code != KH_ERR_NONE)
		fprintf(stderr, "keyhole: %s\n", err.text);
	return ran ? status : 125;
}
