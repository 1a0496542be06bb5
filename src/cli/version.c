/* version.c - `keyhole version`: the versions of keyhole and of its libraries */
#include <stdio.h>
#include <string.h>

#include <ares.h>
#include <event2/event.h>
#include <openssl/crypto.h>
#include <seccomp.h>
#include <yaml.h>

#include "cli_internal.h"

int kh_cli_version(int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		puts("usage: keyhole version\n"
		     "Shows the version of keyhole and of the libraries that it runs with.\n\n"
		     "  -h, --help  show this\n\n"
		     "The manual: keyhole-version(1).");
		return 0;
	}
	if (argc > 1) {
		kh_cli_complain("version: takes no argument, got %s", argv[1]);
		return KH_EXIT_USAGE;
	}
	const struct scmp_version *seccomp = seccomp_version();
	printf("keyhole %s\n", KH_VERSION);
	printf("%s, libevent %s, c-ares %s, libyaml %s, libseccomp %u.%u.%u\n",
	       OpenSSL_version(OPENSSL_VERSION), event_get_version(), ares_version(NULL),
	       yaml_get_version_string(), seccomp->major, seccomp->minor, seccomp->micro);
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}
