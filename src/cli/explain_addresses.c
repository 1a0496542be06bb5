/* explain_addresses.c - what would be dialled for a request, and whether it may be */
#include "explain_addresses.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/net/guard.h>

/* Where it lies, and whether that is allowed. Return: it is. */
static bool put_place(const struct kh_explain_place *from, json_t *one,
		      const struct kh_sockaddr *addr)
{
	struct kh_place place;
	struct kh_err err = KH_ERR_INIT;
	kh_geo_find(from->geo, addr, &place);
	if (place.country[0])
		(void)json_object_set_new(one, "country", json_string(place.country));
	if (place.asn)
		(void)json_object_set_new(one, "asn", json_integer(place.asn));
	if (kh_geo_allows(from->geo, &from->levels, addr, &err))
		return true;
	(void)json_object_set_new(one, "geo", json_string(err.text));
	return false;
}

static void put_address(const struct kh_explain_place *from, json_t *list,
			const struct kh_sockaddr *addr, bool pinned)
{
	char text[KH_SOCKADDR_TEXT_BYTES];
	kh_sockaddr_format(addr, text);
	size_t n;
	const struct kh_cidr *allow = kh_config_allowed_addresses(from->config, from->tenant, &n);
	const char *refused = pinned ? NULL : kh_guard_refuses(addr, allow, n);
	json_t *one = json_pack("{s:s, s:b}", "address", text, "allowed", refused == NULL);
	if (one && refused)
		(void)json_object_set_new(one, "class", json_string(refused));
	if (one && pinned)
		(void)json_object_set_new(one, "pinned", json_true());
	if (one && !put_place(from, one, addr))
		(void)json_object_set_new(one, "allowed", json_false());
	(void)json_array_append_new(list, one);
}

static void look_up(const struct kh_explain_place *from, json_t *list,
		    const struct kh_authority *authority)
{
	char port[8];
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	(void)snprintf(port, sizeof(port), "%u", authority->port);
	if (getaddrinfo(authority->host.text, port, &hints, &found) != 0)
		return;
	for (struct addrinfo *one = found; one; one = one->ai_next) {
		struct kh_sockaddr addr = { .len = one->ai_addrlen };
		if (one->ai_addrlen > sizeof(addr.v6))
			continue;
		memcpy(&addr.any, one->ai_addr, one->ai_addrlen);
		put_address(from, list, &addr, false);
	}
	freeaddrinfo(found);
}

json_t *kh_explain_addresses(const struct kh_explain_place *from,
			     const struct kh_authority *authority)
{
	const struct kh_config *config = from->config;
	json_t *list = json_array();
	const struct kh_pin *pin = kh_config_pin(config, from->tenant, &authority->host);
	if (pin)
		put_address(from, list, &pin->addr, true);
	else if (from->resolve || authority->host.kind != KH_HOST_NAME)
		look_up(from, list, authority);
	return list;
}

bool kh_explain_all_refused(const json_t *list)
{
	size_t index;
	json_t *one;
	json_array_foreach(list, index,
			   one) if (json_is_true(json_object_get(one, "allowed"))) return false;
	return json_array_size(list) > 0;
}
