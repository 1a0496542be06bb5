/* value_internal.h - readers of a value's source, and of how a token is minted from it */
#ifndef KEYHOLE_CONFIG_VALUE_INTERNAL_H
#define KEYHOLE_CONFIG_VALUE_INTERNAL_H

#include "config_internal.h"

/* credential_value.c */
kh_option_reader kh_config_read_source_systemd;
kh_option_reader kh_config_read_source_exec;
kh_option_reader kh_config_read_exec_environment;
kh_option_reader kh_config_read_exec; /* any other member of it */
const char *kh_config_check_exec_member(struct kh_slice text);
kh_option_reader kh_config_read_source_tenants;
/* Its value is whole. */
void kh_source_done(struct kh_reader *reader, struct kh_credential_config *credential,
		    const struct kh_yaml_node *value);
/* All tenants are there. */
void kh_config_check_sources(struct kh_reader *reader);
/* credential_presence.c: of the tenants that have a source. Return: false without memory. */
bool kh_credential_make_presence(struct kh_credential_config *credential);
/* mint.c: what is made of a value. */
kh_option_reader kh_config_read_no_mint;
kh_option_reader kh_config_read_mint; /* a member of it, by the row */
const char *kh_mint_check_text(struct kh_slice text);
const char *kh_mint_check_segment(struct kh_slice text);
const char *kh_mint_check_number(struct kh_slice text);
kh_option_reader kh_config_read_mint_url;
kh_option_reader kh_config_read_mint_scopes;
kh_option_reader kh_config_read_mint_grant;
kh_option_reader kh_config_read_mint_client_secret;
kh_option_reader kh_config_read_mint_state;
/* The credential is whole. */
void kh_mint_done(struct kh_reader *reader, struct kh_credential_config *credential,
		  const struct kh_yaml_node *node);

#endif
