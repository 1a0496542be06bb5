/* engine.c - the table of engines, and building an engine's command line */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/nearest.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

enum { LOOK_MS = 50 };

/* The strongest first: that is the order in which `auto` tries them. */
static const struct kh_engine *const engines[] = { &kh_engine_gvisor, &kh_engine_container,
						   &kh_engine_podman, &kh_engine_docker,
						   &kh_engine_process };

const struct kh_engine *kh_engine_at(size_t i)
{
	return i < sizeof(engines) / sizeof(engines[0]) ? engines[i] : NULL;
}

bool kh_sandbox_has_store(const char *engine)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (strcmp(engines[i]->name, engine) == 0)
			return engines[i]->has_store;
	return false;
}

const struct kh_engine *kh_engine_find(const char *name, struct kh_err *err)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (strcmp(engines[i]->name, name) == 0)
			return engines[i];
	struct kh_buf names kh_cleanup(kh_buf_fini);
	kh_buf_init(&names, 256);
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		(void)kh_buf_printf(&names, "%s%s", i ? ", " : "", engines[i]->name);
	struct kh_nearest nearest;
	char hint[KH_NEAREST_BYTES];
	kh_nearest_init(&nearest, kh_slice_str(name));
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		kh_nearest_offer(&nearest, engines[i]->name);
	const char *list = kh_buf_cstr(&names);
	kh_err_set(err, KH_ERR_USAGE,
		   "--engine %s: no such engine%s (there is: %s; auto takes container, or process "
		   "where that does not work)",
		   kh_esc_str(name), kh_nearest_hint(&nearest, hint), list ? list : "process");
	return NULL;
}

void kh_engine_command_init(struct kh_engine_command *command)
{
	*command = (struct kh_engine_command){ .args_fd = -1, .alive = -1 };
}

/* It goes on alone where the program takes its time. */
static void await_watcher(const struct kh_engine_command *command)
{
	if (command->watcher <= 0)
		return;
	kh_auto_close int ended = (int)syscall(SYS_pidfd_open, command->watcher, 0);
	struct pollfd p = { .fd = ended, .events = POLLIN };
	/* Also without that descriptor, which only wakes us earlier. */
	for (int left = KH_LIMIT_SANDBOX_REMOVE_MS; left > 0; left -= LOOK_MS) {
		if (waitpid(command->watcher, NULL, WNOHANG) != 0)
			return;
		(void)poll(&p, 1, LOOK_MS);
	}
	if (waitpid(command->watcher, NULL, WNOHANG) == 0)
		kh_log_warn("the sandbox: what it left in the engine is still being removed");
}

void kh_engine_command_fini(struct kh_engine_command *command)
{
	free(command->path);
	for (size_t i = 0; i < command->n_argv; i++)
		free(command->argv[i]);
	free(command->argv);
	free(command->fds);
	for (size_t i = 0; i < sizeof(command->files) / sizeof(command->files[0]); i++)
		free(command->files[i].text);
	kh_cleanup_close(&command->args_fd);
	kh_cleanup_close(&command->alive);
	await_watcher(command);
	kh_engine_command_init(command);
}

bool kh_engine_command_arg(struct kh_engine_command *command, const char *arg)
{
	char **argv = reallocarray(command->argv, command->n_argv + 2, sizeof(*argv));
	if (!argv)
		return false;
	command->argv = argv;
	argv[command->n_argv] = strdup(arg);
	argv[command->n_argv + 1] = NULL;
	return argv[command->n_argv++] != NULL;
}

bool kh_engine_command_args(struct kh_engine_command *command, const char *const *args)
{
	bool ok = true;
	for (; ok && *args; args++)
		ok = kh_engine_command_arg(command, *args);
	return ok;
}

bool kh_engine_command_fd(struct kh_engine_command *command, int fd)
{
	int *fds = reallocarray(command->fds, command->n_fds + 1, sizeof(*fds));
	if (!fds)
		return false;
	command->fds = fds;
	fds[command->n_fds++] = fd;
	return true;
}
