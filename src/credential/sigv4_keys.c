/*
 * sigv4_keys.c - derives what the worker gets of an account's keys: a key for one day, region and
 * service
 *
 * The secret access key is read here, in the keeper, and goes no further. jansson's copies of it
 * are in hidden memory, which is overwritten when it is freed.
 */
#include <keyhole/credential/re_sign.h>

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/secret.h>
#include <keyhole/base/timestamp.h>
#include <keyhole/base/wire.h>

struct account {
	struct kh_slice id, secret, token;
	uint64_t expires_ms;
};

enum { ID_BYTES = 128 };

/* What goes into a field or a query's parameter: visible, and no separator of a Credential. */
static bool is_good(struct kh_slice text, size_t most)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] <= ' ' || text.ptr[i] > '~')
			return false;
	return text.len <= most;
}

static bool check(const struct account *account, struct kh_err *err)
{
	const char *why = NULL;

	if (account->id.len == 0 || !is_good(account->id, ID_BYTES) ||
	    kh_slice_find(account->id, '/', 0) < account->id.len)
		why = "its access key id is none";
	else if (account->secret.len == 0 || !is_good(account->secret, KH_LIMIT_SECRET_BYTES))
		why = "its secret access key is none";
	else if (!is_good(account->token, KH_LIMIT_SECRET_BYTES / 2))
		why = "its session token is none";
	return !why || kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s", why);
}

/* ---- three lines ---- */

static struct kh_slice take_line(struct kh_slice *rest)
{
	size_t end = kh_slice_find(*rest, '\n', 0);
	struct kh_slice line = kh_slice_sub(*rest, 0, end);

	*rest = kh_slice_sub(*rest, end + 1, rest->len);
	return line;
}

static bool put_packed(struct kh_buf *out, const struct account *account,
		       const struct kh_sigv4_scope *scope, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf made;

	kh_buf_init_wiping(&made, KH_SIGV4_KEY_BYTES);
	if (!check(account, err))
		return false;
	void *key = kh_buf_reserve(&made, KH_SIGV4_KEY_BYTES);
	bool ok = key && kh_sigv4_derive(account->secret, scope, key) &&
		  kh_wire_put_bytes(out, account->id) && kh_wire_put_bytes(out, account->token) &&
		  kh_wire_put_bytes(out, kh_slice_of(key, KH_SIGV4_KEY_BYTES));
	return ok || kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "no key could be derived");
}

static bool pack_lines(struct kh_buf *out, struct kh_slice value,
		       const struct kh_sigv4_scope *scope, struct kh_err *err)
{
	struct account account = { .expires_ms = 0 };

	account.id = take_line(&value);
	account.secret = take_line(&value);
	account.token = take_line(&value);
	if (value.len > 0 || !account.secret.ptr || account.secret.len == 0)
		return kh_err_set(
			err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			"its value is neither JSON with AccessKeyId and SecretAccessKey nor "
			"three lines (id, secret, token)");
	return put_packed(out, &account, scope, err);
}

/* ---- JSON ---- */

static void *hidden_malloc(size_t size)
{
	return kh_hidden_get(&size, KH_HIDDEN_BRIEF);
}

static void wiping_free(void *memory)
{
	if (memory)
		kh_secret_wipe(memory, kh_hidden_usable(memory));
	kh_hidden_give(memory);
}

static struct kh_slice text_of(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return kh_slice_of(json_string_value(value), json_string_length(value));
}

static struct account account_of(const json_t *object, struct kh_slice *until)
{
	const json_t *within = json_object_get(object, "Credentials");
	const json_t *keys = json_is_object(within) ? within : object;
	struct account account = {
		.id = text_of(keys, "AccessKeyId"),
		.secret = text_of(keys, "SecretAccessKey"),
		.token = text_of(keys, "SessionToken"),
	};

	if (!account.token.ptr)
		account.token = text_of(keys, "Token");
	*until = text_of(keys, "Expiration");
	return account;
}

static bool pack_json(struct kh_buf *out, const json_t *object, const struct kh_sigv4_scope *scope,
		      uint64_t *expires_ms, struct kh_err *err)
{
	struct kh_slice until;
	struct account account = account_of(object, &until);

	if (!account.id.ptr || !account.secret.ptr)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "its JSON has no AccessKeyId or no SecretAccessKey");
	if (!kh_timestamp_read(until, KH_TIMESTAMP_RFC3339, expires_ms))
		*expires_ms = 0;
	if (until.ptr && *expires_ms == 0)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "its Expiration is no time such as 2026-11-22T13:00:00Z");
	return put_packed(out, &account, scope, err);
}

/* Runs `use` on what jansson reads of it (NULL: nothing), in hidden memory. */
static bool with_json(struct kh_slice value, bool (*use)(const json_t *object, void *arg),
		      void *arg)
{
	json_malloc_t before_malloc;
	json_free_t before_free;
	json_error_t error;

	json_get_alloc_funcs(&before_malloc, &before_free);
	json_set_alloc_funcs(hidden_malloc, wiping_free);
	json_t *object = kh_json_load(value, JSON_REJECT_DUPLICATES, &error);
	bool ok = use(object, arg);
	json_decref(object);
	kh_secret_wipe(&error, sizeof(error)); /* it quotes what it does not understand */
	json_set_alloc_funcs(before_malloc, before_free);
	return ok;
}

struct packing {
	struct kh_buf *out;
	const struct kh_sigv4_scope *scope;
	uint64_t *expires_ms;
	struct kh_err *err;
};

static bool pack_object(const json_t *object, void *arg)
{
	const struct packing *p = arg;

	return object ? pack_json(p->out, object, p->scope, p->expires_ms, p->err)
		      : kh_err_set(p->err, KH_ERR_CREDENTIAL_UNAVAILABLE, "its JSON can't be read");
}

bool kh_sigv4_pack(struct kh_buf *out, struct kh_slice value, const struct kh_sigv4_scope *scope,
		   uint64_t *expires_ms, struct kh_err *err)
{
	struct packing packing = { out, scope, expires_ms, err };

	*expires_ms = 0;
	value = kh_slice_trim(value);
	if (value.len == 0 || value.ptr[0] != '{')
		return pack_lines(out, value, scope, err);
	return with_json(value, pack_object, &packing);
}

/* ---- each of the keys ---- */

struct each {
	bool (*use)(struct kh_slice key, void *arg);
	void *arg;
};

static bool use_account(const struct each *each, const struct account *account)
{
	return (account->id.len == 0 || each->use(account->id, each->arg)) &&
	       (account->secret.len == 0 || each->use(account->secret, each->arg)) &&
	       (account->token.len == 0 || each->use(account->token, each->arg));
}

static bool use_object(const json_t *object, void *arg)
{
	struct kh_slice until;
	struct account account = account_of(object, &until);

	return use_account(arg, &account);
}

bool kh_sigv4_each_key(struct kh_slice value, bool (*use)(struct kh_slice key, void *arg),
		       void *arg)
{
	struct each each = { use, arg };
	struct account account = { .expires_ms = 0 };

	value = kh_slice_trim(value);
	if (value.len > 0 && value.ptr[0] == '{')
		return with_json(value, use_object, &each);
	account.id = take_line(&value);
	account.secret = take_line(&value);
	account.token = take_line(&value);
	return use_account(&each, &account);
}

bool kh_sigv4_unpack(struct kh_sigv4_keys *out, struct kh_slice packed)
{
	struct kh_wire_reader r = { .rest = packed };

	out->id = kh_wire_bytes(&r);
	out->token = kh_wire_bytes(&r);
	out->key = kh_wire_bytes(&r);
	return kh_wire_done(&r) && out->id.len > 0 && out->key.len == KH_SIGV4_KEY_BYTES;
}
