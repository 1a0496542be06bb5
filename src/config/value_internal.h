/* value_internal.h - readers of where a value comes from, and of what is made of it */
#ifndef KEYHOLE_CONFIG_VALUE_INTERNAL_H
#define KEYHOLE_CONFIG_VALUE_INTERNAL_H

#include "config_internal.h"

/* credential_value.c */
void kh_read_source_systemd(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			    void *);
void kh_read_source_exec(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			 void *);
void kh_read_exec_environment(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			      void *);
void kh_read_exec_timeout(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			  void *);
void kh_read_exec_refresh(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			  void *);
void kh_read_exec_max_age(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			  void *);
void kh_read_exec_json(struct kh_reader *, const struct kh_option *, const struct kh_node *,
		       void *);
void kh_read_exec_expires(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			  void *);
void kh_read_exec_first_line(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			     void *);
void kh_read_exec_format(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			 void *);
void kh_read_source_tenants(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			    void *);
/* Its value is whole. */
void kh_source_done(struct kh_reader *reader, struct kh_credential_config *credential,
		    const struct kh_node *value);
/* All tenants are there. */
void kh_config_check_sources(struct kh_reader *reader);
/* mint.c: what is made of a value. */
void kh_read_no_mint(struct kh_reader *, const struct kh_option *, const struct kh_node *, void *);
void kh_read_mint_client(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			 void *);
void kh_read_mint_audience(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			   void *);
void kh_read_mint_installation(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			       void *);
void kh_read_mint_owner(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			void *);
void kh_read_mint_per_repository(struct kh_reader *, const struct kh_option *,
				 const struct kh_node *, void *);
void kh_read_mint_url(struct kh_reader *, const struct kh_option *, const struct kh_node *, void *);
void kh_read_mint_timeout(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			  void *);
void kh_read_mint_scopes(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			 void *);
void kh_read_mint_grant(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			void *);
void kh_read_mint_client_auth(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			      void *);
void kh_read_mint_client_secret(struct kh_reader *, const struct kh_option *,
				const struct kh_node *, void *);
void kh_read_mint_state(struct kh_reader *, const struct kh_option *, const struct kh_node *,
			void *);
/* The credential is whole. */
void kh_mint_done(struct kh_reader *reader, struct kh_credential_config *credential,
		  const struct kh_node *node);

#endif
