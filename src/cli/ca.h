/* ca.h - the parts of `keyhole ca` */
#ifndef KEYHOLE_CLI_CA_H
#define KEYHOLE_CLI_CA_H

#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/err.h>

struct ca_options {
	const char *config, *tenant, *certificate, *key, *output, *format, *which, *password;
	bool json, now, drop;
	/* The resulting paths, from these options or the configuration. */
	char *certificate_path, *key_path;
};

/* Prints the error. Return: the exit status. */
int kh_cli_ca_failed(const struct kh_err *err);
/* "2026-01-02T03:04:05Z" */
const char *kh_cli_ca_day(int64_t seconds, char out[32]);
/* ca_rotate.c */
int kh_cli_ca_rotate(const struct ca_options *o);

#endif
