/* config_here.c - the configuration of the project in the working folder, if none is named */
#include <unistd.h>

#include "cli_internal.h"

const char *kh_cli_config_here(void)
{
	static const char *const names[] = { "keyhole.yaml", ".keyhole/keyhole.yaml" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (access(names[i], F_OK) == 0)
			return names[i];
	return NULL;
}
