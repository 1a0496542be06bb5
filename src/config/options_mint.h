/* options_mint.h - the rows of what is made of a value: a token that lives for an hour */
#ifndef KEYHOLE_CONFIG_OPTIONS_MINT_H
#define KEYHOLE_CONFIG_OPTIONS_MINT_H

#include "config_internal.h"

#define KH_MINT_SECTION(name, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_SECTION, \
		.flags = KH_IN_FILE | KH_IS_QUIET, .expects = "a map", .read = kh_read_no_mint, \
		.doc = text \
	}
#define KH_MINT_ROW(name, what, reader, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IS_QUIET, .expects = what, .read = reader, .doc = text \
	}

#define KH_MINT_OPTIONS \
	KH_MINT_SECTION("gcp_service_account", \
			"the value is a service account's key file (JSON); what goes in is an " \
			"access token"), \
		KH_MINT_ROW("gcp_service_account.scopes", "a list of scopes", kh_read_mint_scopes, \
			    "what the token is for; cloud-platform where none is said"), \
		KH_MINT_ROW("gcp_service_account.token_url", "an https:// URL", kh_read_mint_url, \
			    "the token endpoint, instead of the key file's"), \
		KH_MINT_ROW("gcp_service_account.timeout", "a duration of 100ms to 2m", \
			    kh_read_mint_timeout, "for asking it"), \
		KH_MINT_SECTION("github_app", \
				"the value is an App's private key (PEM); what goes in is an " \
				"installation token"), \
		KH_MINT_ROW("github_app.app_id", "the App's id", kh_read_mint_client, \
			    "the App's id or client id"), \
		KH_MINT_ROW("github_app.installation_id", "a number", kh_read_mint_installation, \
			    "the installation; or owner"), \
		KH_MINT_ROW("github_app.owner", "an organisation or user", kh_read_mint_owner, \
			    "whose installation it is; or installation_id"), \
		KH_MINT_ROW("github_app.per_repository", "true or false", \
			    kh_read_mint_per_repository, \
			    "a token for the repository of each request, and no other"), \
		KH_MINT_ROW("github_app.api_url", "an https:// URL", kh_read_mint_url, \
			    "GitHub's API, of an Enterprise server"), \
		KH_MINT_ROW("github_app.timeout", "a duration of 100ms to 2m", \
			    kh_read_mint_timeout, "for asking it"), \
		KH_MINT_SECTION("oauth2", \
				"the value is a client's secret or a refresh token; what " \
				"goes in is an access token"), \
		KH_MINT_ROW("oauth2.grant", "client_credentials or refresh_token", \
			    kh_read_mint_grant, "what the value is"), \
		KH_MINT_ROW("oauth2.token_url", "an https:// URL", kh_read_mint_url, \
			    "the token endpoint"), \
		KH_MINT_ROW("oauth2.client_id", "the client's id", kh_read_mint_client, \
			    "the client's id"), \
		KH_MINT_ROW("oauth2.client_auth", "basic or body", kh_read_mint_client_auth, \
			    "how the client says who it is"), \
		KH_MINT_ROW("oauth2.client_secret", "{ env: NAME } or { file: PATH }", \
			    kh_read_mint_client_secret, \
			    "the client's secret beside a refresh token"), \
		KH_MINT_ROW("oauth2.scopes", "a list of scopes", kh_read_mint_scopes, \
			    "what the token is for"), \
		KH_MINT_ROW("oauth2.audience", "a text", kh_read_mint_audience, \
			    "what the token is for, where the endpoint asks so"), \
		KH_MINT_ROW( \
			"oauth2.state", "a path", kh_read_mint_state, \
			"where the refresh token of the day is kept when the endpoint gives a " \
			"new one"), \
		KH_MINT_ROW("oauth2.timeout", "a duration of 100ms to 2m", kh_read_mint_timeout, \
			    "for asking it")

#endif
