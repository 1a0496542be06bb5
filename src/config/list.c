/* list.c - lists that grow, and the names of the files that are read */
#include <stdlib.h>
#include <string.h>

#include "config_internal.h"

void *kh_list_add(void *list, size_t *count, size_t size)
{
	void **slot = list;
	size_t n = *count;
	/* Grown whenever the count is a power of two, which is when it is full. */
	if ((n & (n - 1)) == 0) {
		void *more = reallocarray(*slot, n ? n * 2 : 1, size);
		if (!more)
			return NULL;
		*slot = more;
	}
	void *element = (char *)*slot + n * size;
	memset(element, 0, size);
	*count = n + 1;
	return element;
}

bool kh_config_add_file(struct kh_config *config, const char *name, uint32_t *index)
{
	char *copy = kh_slice_dup(kh_slice_str(name));
	char **slot = copy ? kh_list_add(&config->files, &config->n_files, sizeof(*slot)) : NULL;
	if (!slot) {
		free(copy);
		return false;
	}
	*slot = copy;
	*index = (uint32_t)(config->n_files - 1);
	return true;
}
