/*
 * admin_credentials.c - the metrics of credentials' values, made from what the keeper reports
 *
 * The keeper reports the states as the JSON that `status` shows (keeper/credential_status.c). The
 * text format groups samples by metric family, so the list is walked once per family. Labels are
 * names from the configuration, which need no escaping.
 */
#include "admin_internal.h"

#include <jansson.h>

#include <keyhole/base/json_load.h>
#include <keyhole/base/timestamp.h>
#include <keyhole/loop/values.h>

struct family {
	const char *member, *name, *type, *help;
};

static const struct family families[] = {
	{ "renewals", "keyhole_credential_renewals_total", "counter",
	  "Values that came, the first one as well." },
	{ "failures", "keyhole_credential_failures_total", "counter",
	  "Tries to get a value that brought none." },
	{ "expires", "keyhole_credential_expiry_timestamp_seconds", "gauge",
	  "Until when the value is good, of those that end." },
};

/* Return: false: no time. */
static bool seconds_of(const char *text, int64_t *out)
{
	uint64_t ms;
	if (!kh_timestamp_read(kh_slice_str(text), KH_TIMESTAMP_RFC3339, &ms))
		return false;
	*out = (int64_t)(ms / 1000);
	return true;
}

static bool put_sample(struct kh_buf *out, const struct family *family, const json_t *state)
{
	const char *name = json_string_value(json_object_get(state, "name"));
	const json_t *value = json_object_get(state, family->member);
	int64_t number = json_integer_value(value);
	if (!name || !(json_is_integer(value) || seconds_of(json_string_value(value), &number)))
		return true;
	const char *tenant = json_string_value(json_object_get(state, "tenant"));
	return kh_buf_printf(out, "%s{credential=\"%s\"%s%s%s} %lld\n", family->name, name,
			     tenant ? ",tenant=\"" : "", tenant ? tenant : "", tenant ? "\"" : "",
			     (long long)number);
}

bool kh_admin_put_credential_values(const char *states, struct kh_buf *out)
{
	json_t *list = kh_json_load(kh_slice_str(states ? states : "[]"), 0, NULL);
	const json_t *state;
	size_t i;
	bool ok = true;
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		ok = ok && kh_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", families[f].name,
					 families[f].help, families[f].name, families[f].type);
		json_array_foreach(list, i, state) ok = ok && put_sample(out, &families[f], state);
	}
	json_decref(list);
	return ok;
}

struct json_t *kh_admin_credential_status(const struct kh_admin_request *request)
{
	const char *text = request->facts.credentials;
	json_t *list = kh_json_load(kh_slice_str(text ? text : "[]"), 0, NULL);
	json_t *ready = json_object();
	const json_t *state;
	size_t i;
	json_array_foreach(list, i, state)
	{
		const char *name = json_string_value(json_object_get(state, "name"));
		bool is_ready = json_is_true(json_object_get(state, "ready"));
		if (name && (is_ready || !json_object_get(ready, name)))
			(void)json_object_set_new(ready, name, json_boolean(is_ready));
	}
	json_decref(list);
	return ready;
}

void kh_admin_credential_status_free(struct json_t *states)
{
	json_decref(states);
}

bool kh_admin_credential_is_ready(struct kh_generation *gen, size_t index,
				  const struct json_t *states)
{
	const struct kh_credential_config *credential = &gen->config->credentials[index];
	const json_t *told = json_object_get(states, credential->name);
	return kh_values_are_ready(gen, index,
				   told ? json_is_true(told)
					: kh_credential_is_present_for_any(credential));
}
