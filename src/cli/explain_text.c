/* explain_text.c - prints the result of `keyhole explain` for people */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/err.h>
#include <keyhole/base/escape.h>

#include "explain_limits.h"
#include "explain_remedy.h"
#include "explain_text.h"

static const char *str(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? kh_esc_str(text) : "";
}

static void print_rule(const json_t *rule)
{
	long long line = json_integer_value(json_object_get(rule, "line"));
	if (line > 0)
		printf("%s:%lld: ", str(rule, "file"), line);
	printf("%s \"%s\"", str(rule, "kind"), str(rule, "rule"));
}

static void print_why(const char *why, const char *method)
{
	if (strcmp(why, "model_not_read") == 0)
		printf(": asks for the model, which the content names (say --model NAME)\n");
	else if (strcmp(why, "method") == 0 &&
		 method[strcspn(method, "abcdefghijklmnopqrstuvwxyz")])
		printf(": another method (methods are case-sensitive: GET is not get)\n");
	else
		printf(": another %s\n", why);
}

static void print_one(const json_t *one, const char *method)
{
	printf("    ");
	print_rule(one);
	if (json_object_get(one, "slashed"))
		printf(" (%%2F as /)");
	if (strcmp(str(one, "method"), KH_OVERRIDING_ANY) == 0)
		printf(" (as any method: the one that it asks for can't be read)");
	else if (json_object_get(one, "method"))
		printf(" (as %s, which it asks for)",
		       str(one, "method")[0] ? str(one, "method") : "no method");
	else if (json_object_get(one, "any_path"))
		printf(" (as the path that it asks for)");
	else if (json_object_get(one, "reading") && !json_object_get(one, "slashed"))
		printf(" (with %s)", str(one, "reading"));
	if (json_is_true(json_object_get(one, "matches")))
		printf(": matches\n");
	else if (json_object_get(one, "method_to_name"))
		printf(": another method (name %s in the rule: without names it allows "
		       "GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS)\n",
		       str(one, "method_to_name"));
	else if (json_object_get(one, "detail"))
		printf(": asks for the model: %s\n", str(one, "detail"));
	else
		print_why(str(one, "why"), method);
}

/* Rules for other hosts are most of a long list, and say nothing. */
static bool is_for_another_host(const json_t *one)
{
	return strcmp(str(one, "why"), "host") == 0;
}

static void print_others(size_t n)
{
	if (n > 0)
		printf("    %zu rule%s for %s\n", n, n == 1 ? "" : "s",
		       n == 1 ? "another host" : "other hosts");
}

/* Of one list, up to where the next begins. A rule for another host is looked at in each reading.
 */
static void print_list(const json_t *list, size_t *at, const char *method)
{
	const char *of = json_string_value(json_object_get(json_array_get(list, *at), "list"));
	size_t others = 0;
	printf("  the %s's rules\n", of);
	for (const json_t *one; (one = json_array_get(list, *at)); (*at)++) {
		if (strcmp(json_string_value(json_object_get(one, "list")), of) != 0)
			break;
		if (!is_for_another_host(one))
			print_one(one, method);
		else
			others += json_object_get(one, "reading") == NULL;
	}
	print_others(others);
}

static void print_address(const json_t *one)
{
	const char *const why = json_object_get(one, "rule")	? "rule"
				: json_object_get(one, "class") ? "class"
								: "geo";
	long long asn = json_integer_value(json_object_get(one, "asn"));
	printf("address: %s%s", str(one, "address"),
	       json_object_get(one, "pinned") ? " (pinned)" : "");
	if (json_object_get(one, "country"))
		printf(" in %s", str(one, "country"));
	if (asn > 0)
		printf(" AS%lld", asn);
	printf("%s%s", json_object_get(one, why) ? ", refused: " : "", str(one, why));
	if (json_object_get(one, "would_deny_rule"))
		printf(", only observed; enforced it would be refused: %s",
		       str(one, "would_deny_rule"));
	printf("\n");
}

static bool is_read_tunnel(const json_t *out)
{
	return strcmp(str(out, "tunnel"), "read") == 0;
}

/* One that is read has its rule here: the decision is about what is inside. */
static void print_tunnel(const json_t *out)
{
	const json_t *rule = json_object_get(out, "tunnel_rule");
	printf("tunnel: %s", str(out, "tunnel"));
	if (rule) {
		printf(", by ");
		print_rule(rule);
	} else if (is_read_tunnel(out)) {
		printf(" (no rule names this host and port)");
	}
	printf("\n");
	if (is_read_tunnel(out))
		printf("each request in it is decided by itself (ask about its URL)\n");
}

void kh_explain_print(const json_t *out)
{
	printf("%s %s, tenant %s\n", str(out, "method"), str(out, "url"), str(out, "tenant"));
	const char *reason = str(out, "reason");
	bool allow = strcmp(reason, kh_err_reason(KH_ERR_NONE)) == 0;
	const json_t *rule = json_object_get(out, "rule");
	printf("%s%s%s", str(out, "decision"), allow ? "" : ": ", allow ? "" : reason);
	const char *by = str(out, "denied_by");
	if (!json_is_object(rule) && by[0] && strcmp(by, "tenant") != 0)
		printf(" in the %s's list", by);
	if (json_is_object(rule) && !is_read_tunnel(out)) {
		printf(", by ");
		print_rule(rule);
	}
	if (json_object_get(out, "reading"))
		printf(", with %s", str(out, "reading"));
	printf("\n");
	if (json_object_get(out, "would_deny")) {
		printf("only observed; enforced it would be denied: %s", str(out, "would_deny"));
		if (json_object_get(out, "would_deny_rule")) {
			printf(", by ");
			print_rule(json_object_get(out, "would_deny_rule"));
		}
		printf("\n");
	}
	if (json_object_get(out, "remedy"))
		kh_explain_print_remedy(json_object_get(out, "remedy"));
	if (json_object_get(out, "detail"))
		printf("%s\n", str(out, "detail"));
	if (json_object_get(out, "leaves_out"))
		printf("the credential %s may not go in: it is bound to %s, which leaves out %s\n",
		       str(out, "credential"), str(out, "binding"), str(out, "leaves_out"));
	if (json_object_get(out, "tunnel"))
		print_tunnel(out);
	size_t index;
	json_t *one;
	bool all = json_is_true(json_object_get(out, "credentials_all"));
	json_array_foreach(json_object_get(out, "credential_kinds"), index, one)
	{
		printf("%s %s",
		       index == 0 ? "credential:"
		       : all	  ? "        and"
				  : "       else",
		       str(one, "name"));
		printf(" as %s, bound to %s", str(one, "kind"), str(one, "binding"));
		printf("%s%s\n", json_object_get(one, "leaves_out") ? ", which leaves out " : "",
		       str(one, "leaves_out"));
	}
	if (json_object_get(out, "client_auth"))
		printf("the client's own authentication: %s\n", str(out, "client_auth"));
	json_array_foreach(json_object_get(out, "addresses"), index, one) print_address(one);
	kh_explain_print_limits(json_object_get(out, "limits"));
	const json_t *looked_at = json_object_get(out, "looked_at");
	for (size_t at = 0; at < json_array_size(looked_at);)
		print_list(looked_at, &at, json_string_value(json_object_get(out, "method")));
}
