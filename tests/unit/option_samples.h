/* option_samples.h - a value of each option that can't be made of its row
 *
 * What stands behind the value is what the option needs beside it; a closing bracket ends the
 * section around it. Open ones are closed at the end.
 */
#ifndef KEYHOLE_TESTS_OPTION_SAMPLES_H
#define KEYHOLE_TESTS_OPTION_SAMPLES_H

#include <stddef.h>
#include <string.h>

struct sample {
	const char *path;
	const char *value;
};

#define RULE "allow: \"https://a.example\", "
static const struct sample samples[] = {
	{ "version", "1" },
	{ "authority.certificate", "x.pem, key: x.key" },
	{ "authority.key", "x.key, certificate: x.pem" },
	{ "upstream.ca_file", "x.pem" },
	{ "upstream.resolve", "{ a.example: \"127.0.0.1:1\" }" },
	{ "upstream.allow_addresses", "[ 10.0.0.0/8 ]" },
	{ "upstream.nameservers", "[ 127.0.0.1 ]" },
	{ "upstream.proxy.url", "\"http://a.example:1\"" },
	{ "upstream.proxy.username", "me, password: { env: SOME }, url: \"http://a.example:1\"" },
	{ "upstream.proxy.password.env", "SOME }, username: me, url: \"http://a.example:1\"" },
	{ "upstream.proxy.password.file", "some }, username: me, url: \"http://a.example:1\"" },
	{ "upstream.proxy.no_proxy", "[ \"*.b.example\" ], url: \"http://a.example:1\"" },
	{ "upstream.proxy.resolve_locally", "true, url: \"http://a.example:1\"" },
	{ "upstream.geo.country_db", "c.mmdb" },
	{ "upstream.geo.asn_db", "a.mmdb" },
	{ "audit.file", "x.jsonl" },
	{ "worker.user", "nobody" },
	{ "site.geo", "{ deny_countries: [ XX ] }" },
	{ "tenants.*.geo", "{ deny_asns: [ 7 ] }" },
	{ "site.rules", "[ { allow: \"https://**\" } ]" },
	{ "tenants.*.rules", "[ { deny: \"https://**\" } ]" },
	{ "tenants.*.resolve", "{ a.example: \"127.0.0.1:1\" }" },
	{ "tenants.*.allow_addresses", "[ 10.0.0.0/8 ]" },
	{ "*.requests", "[ 10/s, { rate: 5K/day, burst: 7 } ]" },
	{ "*.bytes_up", "1GiB/h" },
	{ "*.bytes_down", "{ rate: 1GiB/h, burst: 1MiB }" },
	{ "*.concurrency", "7" },
	{ "*.limits.connections", "7" },
	{ "*.max_body", "7KiB" },
	{ "*.tunnel_lifetime", "7m" },
	{ "listen[].unix", "s/s" },
	{ "listen[].vsock", "7, cid: 8" },
	{ "listen[].cid", "8, vsock: 7" },
	{ "listen[].tcp", "\"127.0.0.1:7\", token: { env: SOME }" },
	{ "listen[].token.env", "SOME }, tcp: \"127.0.0.1:7\"" },
	{ "listen[].token.file", "some }, tcp: \"127.0.0.1:7\"" },
	{ "listen[].tenant", "t, unix: s/s" },
	{ "listen[].sandbox", "box, unix: s/s" },
	{ "listen[].narrow", "[ { allow: \"https://a.example\" } ], unix: s/s" },
	{ "listen[].mode", "\"0660\", unix: s/s" },
	{ "listen[].owner", "root, unix: s/s" },
	{ "listen[].group", "root, unix: s/s" },
	{ "admin.unix", "a/s" },
	{ "admin.sandboxes", "boxes, unix: a/s" },
	{ "admin.metrics", "\"127.0.0.1:7\"" },
	{ "admin.allow[].user", "nobody, tenants: [ t ] } ], unix: a/s" },
	{ "admin.allow[].tenants", "[ t ], user: nobody } ], unix: a/s" },
	{ "expect[].tenant", "t, deny: \"GET https://a.example/\"" },
	{ "expect[].sandbox", "box, deny: \"GET https://a.example/\"" },
	{ "expect[].allow", "\"GET https://a.example/\"" },
	{ "expect[].deny", "\"GET https://a.example/\"" },
	{ "expect[].model", "m, deny: \"GET https://a.example/\"" },
	{ "expect[].headers", "{ a: b }, deny: \"GET https://a.example/\"" },
	{ "rules[].allow", "\"https://a.example\"" },
	{ "rules[].deny", "\"https://a.example\"" },
	{ "rules[].use", "npm" },
	{ "rules[].credential", "[ other ], " RULE },
	{ "rules[].credentials", "[ other ], " RULE },
	{ "rules[].client_auth", "pass, " RULE },
	{ "rules[].tls", "passthrough, " RULE },
	{ "rules[].websocket", "false, " RULE },
	{ "rules[].spelling", "exact, " RULE },
	{ "rules[].placeholder", "refuse, " RULE },
	{ "rules[].reuse_after_content", "never, " RULE },
	{ "rules[].public_suffix", "allow, allow: \"https://*.github.io\"" },
	{ "rules[].query", "{ v: x }, " RULE },
	{ "rules[].headers", "{ v: x }, " RULE },
	{ "rules[].content_type", "text/plain, " RULE },
	{ "rules[].models", "\"m-*\", " RULE },
	{ "rules[].max_body", "7KiB, " RULE },
	{ "rules[].mode", "observe, deny: \"https://a.example\"" },
	{ "rules[].geo", "{ deny_countries: [ XX ] }, " RULE },
	{ "credentials.*.value.env", "SOME" },
	{ "credentials.*.value.file", "some" },
	{ "credentials.*.value.exec", "[ bin/get ]" },
	{ "credentials.*.value.systemd", "some" },
	{ "credentials.*.value.refresh", "7m, exec: [ /bin/true ]" },
	{ "credentials.*.value.timeout", "7s, exec: [ /bin/true ]" },
	{ "credentials.*.value.max_age", "7h, exec: [ /bin/true ]" },
	{ "credentials.*.value.environment", "[ A ], exec: [ /bin/true ]" },
	{ "credentials.*.value.json", "a.b, exec: [ /bin/true ]" },
	{ "credentials.*.value.expires", "a.b, json: a.c, exec: [ /bin/true ]" },
	{ "credentials.*.value.first_line", "true, exec: [ /bin/true ]" },
	{ "credentials.*.value.format", "text, exec: [ /bin/true ]" },
	{ "credentials.*.value.tenants", "{ t: { env: SOME } }" },
	{ "credentials.*.gcp_service_account.scopes", "[ \"https://a.example/s\" ]" },
	{ "credentials.*.gcp_service_account.token_url", "\"https://a.example/t\"" },
	{ "credentials.*.gcp_service_account.timeout", "7s" },
	{ "credentials.*.github_app.app_id", "7, installation_id: 8" },
	{ "credentials.*.github_app.installation_id", "8, app_id: 7" },
	{ "credentials.*.github_app.owner", "me, app_id: 7" },
	{ "credentials.*.github_app.per_repository", "true, owner: me, app_id: 7" },
	{ "credentials.*.github_app.api_url",
	  "\"https://a.example/api/v3\", owner: me, app_id: 7" },
	{ "credentials.*.github_app.timeout", "7s, owner: me, app_id: 7" },
#define OAUTH ", grant: client_credentials, token_url: \"https://a.example/t\", client_id: me"
	{ "credentials.*.oauth2.grant",
	  "client_credentials, token_url: \"https://a.example/t\", client_id: me" },
	{ "credentials.*.oauth2.token_url",
	  "\"https://a.example/t\", grant: client_credentials, client_id: me" },
	{ "credentials.*.oauth2.client_id",
	  "me, grant: client_credentials, token_url: \"https://a.example/t\"" },
	{ "credentials.*.oauth2.client_auth", "body" OAUTH },
	{ "credentials.*.oauth2.client_secret",
	  "{ env: OTHER }, grant: refresh_token, state: s, token_url: "
	  "\"https://a.example/t\", client_id: me" },
	{ "credentials.*.oauth2.scopes", "[ s ]" OAUTH },
	{ "credentials.*.oauth2.audience", "a" OAUTH },
	{ "credentials.*.oauth2.state",
	  "some, grant: refresh_token, token_url: \"https://a.example/t\", client_id: me" },
	{ "credentials.*.oauth2.timeout", "7s" OAUTH },
	{ "credentials.*.header", "{ x-a: \"{}\" }" },
	{ "credentials.*.bearer", "true" },
	{ "credentials.*.basic.username", "me" },
	{ "credentials.*.azure", "true" },
	{ "credentials.*.query", "key" },
	{ "credentials.*.cookie", "key" },
	{ "credentials.*.body.json", "/key" },
	{ "credentials.*.body.form", "key" },
	{ "credentials.*.aws_sigv4.region", "eu-west-1, service: s3" },
	{ "credentials.*.aws_sigv4.service", "s3, region: eu-west-1" },
	{ "credentials.*.aws_sigv4.access_key_id", "SOME, service: s3, region: eu-west-1" },
	{ "credentials.*.aws_sigv4.session_token", "SOME, service: s3, region: eu-west-1" },
	{ "credentials.*.mtls.certificate", "some" },
#define HMAC ", sign: \"{method}\", header: { x-a: \"{signature}\" }"
	{ "credentials.*.hmac.algorithm", "sha1" HMAC },
	{ "credentials.*.hmac.key", "base64" HMAC },
	{ "credentials.*.hmac.encoding", "base64" HMAC },
	{ "credentials.*.hmac.timestamp", "iso" HMAC },
	{ "credentials.*.hmac.sign", "\"{method}\", header: { x-a: \"{signature}\" }" },
	{ "credentials.*.hmac.header", "{ x-a: \"{signature}\" }, sign: \"{method}\"" },
	{ "credentials.*.hosts", "[ b.example ], bearer: true" },
	{ "credentials.*.paths", "[ /v1/** ], bearer: true" },
	{ "credentials.*.methods", "[ GET ], bearer: true" },
	{ "credentials.*.shared_host", "accept, bearer: true" },
	{ "credentials.*.allow_short", "true, bearer: true" },
	{ "credentials.*.placeholder.env", "SOME }, bearer: true" },
	{ "credentials.*.placeholder.prefix", "p- }, bearer: true" },
	{ "credentials.*.placeholder.alphabet", "\"0123456789ab\" }, bearer: true" },
	{ "credentials.*.placeholder.shape", "npm }, bearer: true" },
	{ "credentials.*.require_placeholder", "true, bearer: true" },
};

/* "*.x" is the end of a path, of several owners. */
static inline const char *sample_of(const char *path)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		const char *known = samples[i].path;
		size_t len = strlen(path), n = strlen(known + 1);
		if (strcmp(known, path) == 0 ||
		    (strncmp(known, "*.", 2) == 0 && len > n &&
		     strcmp(path + len - n, known + 1) == 0 && strstr(path, ".limits.")))
			return samples[i].value;
	}
	return NULL;
}

#endif
