/* options_mint.h - the rows of minting: how a short-lived token is made from a value */
#ifndef KEYHOLE_CONFIG_OPTIONS_MINT_H
#define KEYHOLE_CONFIG_OPTIONS_MINT_H

#include "config_internal.h"
#include "options_json.h"

#define KH_MINT_SECTION(name, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_SECTION, \
		.flags = KH_IN_FILE | KH_IS_QUIET, .expects = "a map", \
		.read = kh_config_read_no_mint, .doc = text \
	}
#define KH_MINT_ROW(name, form, what, reader, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IS_QUIET, .expects = what, .read = reader, form, \
		.doc = text \
	}

#define KH_MINT_OPTIONS \
	KH_MINT_SECTION("gcp_service_account", \
			"the value is a service account's key file (JSON); keyhole gets an " \
			"access token with it and injects that"), \
		KH_MINT_ROW("gcp_service_account.scopes", .shape = JSON_TEXTS, "a list of scopes", \
			    kh_config_read_mint_scopes, \
			    "the scopes of the token; by default cloud-platform"), \
		KH_MINT_ROW("gcp_service_account.token_url", \
			    KH_PART_TEXT(kh_mint, url, kh_mint_check_text), "an https:// URL", \
			    kh_config_read_mint_url, \
			    "the token endpoint, instead of the one in the key file"), \
		KH_MINT_ROW("gcp_service_account.timeout", \
			    KH_PART_DURATION(kh_mint, timeout_ms, 100, 120000), \
			    "a duration of 100ms to 2m", kh_config_read_mint, \
			    "how long to wait for the token endpoint"), \
		KH_MINT_SECTION("github_app", \
				"the value is an App's private key (PEM); keyhole gets an " \
				"installation token with it and injects that"), \
		KH_MINT_ROW("github_app.app_id", \
			    KH_PART_NUMBER(kh_mint, client_id, kh_mint_check_text), \
			    "the App's id", kh_config_read_mint, "the App's id or client id"), \
		KH_MINT_ROW("github_app.installation_id", \
			    KH_PART_NUMBER(kh_mint, installation, kh_mint_check_number), \
			    "a number", kh_config_read_mint, \
			    "the id of the installation; or set owner"), \
		KH_MINT_ROW("github_app.owner", \
			    KH_PART_TEXT(kh_mint, owner, kh_mint_check_segment), \
			    "an organisation or user", kh_config_read_mint, \
			    "the owner of the installation; or set installation_id"), \
		KH_MINT_ROW("github_app.per_repository", KH_PART(BOOL, kh_mint, per_repository), \
			    "true or false", kh_config_read_mint, \
			    "get a token that is valid only for the repository of the request"), \
		KH_MINT_ROW("github_app.api_url", KH_PART_TEXT(kh_mint, url, kh_mint_check_text), \
			    "an https:// URL", kh_config_read_mint_url, \
			    "the API of a GitHub Enterprise server"), \
		KH_MINT_ROW("github_app.timeout", \
			    KH_PART_DURATION(kh_mint, timeout_ms, 100, 120000), \
			    "a duration of 100ms to 2m", kh_config_read_mint, \
			    "how long to wait for the token endpoint"), \
		KH_MINT_SECTION( \
			"oauth2", \
			"the value is a client's secret or a refresh token; keyhole gets an " \
			"access token with it and injects that"), \
		KH_MINT_ROW("oauth2.grant", KH_WORDS("client_credentials", "refresh_token"), \
			    "client_credentials or refresh_token", kh_config_read_mint_grant, \
			    "what the value is: a client's secret or a refresh token"), \
		KH_MINT_ROW("oauth2.token_url", KH_PART_TEXT(kh_mint, url, kh_mint_check_text), \
			    "an https:// URL", kh_config_read_mint_url, "the token endpoint"), \
		KH_MINT_ROW("oauth2.client_id", \
			    KH_PART_TEXT(kh_mint, client_id, kh_mint_check_text), \
			    "the client's id", kh_config_read_mint, "the client's id"), \
		KH_MINT_ROW("oauth2.client_auth", \
			    KH_PART_WORDS(BOOL, kh_mint, auth_in_body, "basic", "body"), \
			    "basic or body", kh_config_read_mint, "how the client authenticates"), \
		KH_MINT_ROW( \
			"oauth2.client_secret", \
			.shape = "{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":1}", \
			"{ env: NAME } or { file: PATH }", kh_config_read_mint_client_secret, \
			"the client's secret, if the value is a refresh token"), \
		KH_MINT_ROW("oauth2.scopes", .shape = JSON_TEXTS, "a list of scopes", \
			    kh_config_read_mint_scopes, "the scopes of the token"), \
		KH_MINT_ROW("oauth2.audience", \
			    KH_PART_TEXT(kh_mint, audience, kh_mint_check_text), "a text", \
			    kh_config_read_mint, \
			    "the audience of the token, if the endpoint asks for one"), \
		KH_MINT_ROW("oauth2.state", .shape = JSON_REF("text"), "a path", \
			    kh_config_read_mint_state, \
			    "the file that keeps the current refresh token, if the endpoint " \
			    "gives new ones"), \
		KH_MINT_ROW("oauth2.timeout", KH_PART_DURATION(kh_mint, timeout_ms, 100, 120000), \
			    "a duration of 100ms to 2m", kh_config_read_mint, \
			    "how long to wait for the token endpoint")

#endif
