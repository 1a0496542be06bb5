/* check_client_certs.c - `keyhole check`: do client certificates match their keys? */
#include <errno.h>
#include <sys/stat.h>

#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/tls/identity.h>
#include <keyhole/base/limits.h>
#include <keyhole/config/signing.h>

#include "check_client_certs.h"

/* By the links that the daemon follows. Whoever reads a pipe takes away what the daemon needs. */
static bool read_file(const char *path, struct kh_buf *out, struct kh_err *err)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
		return kh_err_sys(err, KH_ERR_SYSTEM, ENOENT, "a named pipe");
	return kh_file_read_within(path, 0, out, err);
}

static void check_client_cert(const struct kh_credential_config *credential, const char *key_path,
			      struct kh_diagnostics *diags)
{
	const char *path = credential->placement->mtls->certificate;
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf certificate, key, packed;
	uint64_t expires_ms;

	kh_buf_init(&certificate, KH_LIMIT_SECRET_BYTES / 2);
	kh_buf_init_wiping(&key, KH_LIMIT_SECRET_BYTES);
	kh_buf_init_wiping(&packed, KH_LIMIT_SECRET_BYTES);
	bool read =
		(!path || read_file(path, &certificate, &err)) && read_file(key_path, &key, &err);
	bool good = read;
	if (read && path && kh_buf_len(&certificate) == 0)
		good = kh_err_set(&err, KH_ERR_CONFIG, "its certificate's file is empty");
	if (good)
		good = kh_identity_pack(&packed, kh_buf_view(&certificate), kh_buf_view(&key),
					&expires_ms, &err);
	/* Files need not be here, nor be this user's to read. */
	if (!good && (read || (err.sys != ENOENT && err.sys != EACCES)))
		kh_diagnostics_add(diags, false, credential->where,
				   "credentials.%s: %s (certificate: %s; key: %s)",
				   credential->name, err.text,
				   path ? kh_esc_str(path) : "with the key", kh_esc_str(key_path));
	/* As curl, nginx and haproxy, the daemon takes it; the upstream decides. */
	if (good && kh_identity_is_ca(kh_buf_view(path ? &certificate : &key)))
		kh_diagnostics_add(
			diags, true, credential->where,
			"credentials.%s: its certificate is a CA's (CA:TRUE), so its key can "
			"sign other certificates, and many servers refuse it (have one "
			"issued for this client)",
			credential->name);
	kh_buf_fini(&packed);
	kh_buf_fini(&key);
	kh_buf_fini(&certificate);
}

void kh_check_client_certs(const struct kh_config *config, struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < config->n_credentials; i++) {
		const struct kh_credential_config *one = &config->credentials[i];
		if (!one->placement || one->placement->kind != KH_PLACEMENT_MTLS)
			continue;
		for (size_t j = 0; j < one->n_sources; j++)
			if (one->sources[j].kind == KH_SOURCE_FILE)
				check_client_cert(one, one->sources[j].name, diags);
	}
}
