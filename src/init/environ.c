/*
 * environ.c - reads the command's environment from a file
 *
 * Some engines add variables of their own or of an image, and show those that they get in the list
 * of processes. So the command's environment is passed in a file: NAME=VALUE, each ended by a NUL.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init_internal.h"

static char *map_file(const char *path, size_t *size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		init_die("--environ %s: %s", path, strerror(errno));
	if (st.st_size <= 0 || st.st_size > KH_LIMIT_INIT_ENVIRON_BYTES)
		init_die("--environ %s: empty, or more than %d bytes", path,
			 KH_LIMIT_INIT_ENVIRON_BYTES);
	*size = (size_t)st.st_size;
	/* Private, and read into memory now: the file may be gone later. */
	char *text = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (text == MAP_FAILED)
		init_die("--environ %s: %s", path, strerror(errno));
	close(fd);
	return text;
}

void init_environ(const char *path)
{
	size_t size, n = 0;
	char *text = map_file(path, &size);
	if (text[size - 1] != '\0')
		init_die("--environ %s: its last variable has no end", path);
	for (size_t i = 0; i < size; i++)
		n += text[i] == '\0';
	char **list = calloc(n + 1, sizeof(*list));
	if (!list)
		init_die("--environ %s: no memory", path);
	n = 0;
	for (char *word = text; word < text + size; word += strlen(word) + 1) {
		const char *equals = strchr(word, '=');
		if (!equals || equals == word)
			init_die("--environ %s: wants NAME=VALUE", path);
		list[n++] = word;
	}
	environ = list;
}
