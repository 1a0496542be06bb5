/* fetch_start.c - starts the fetcher: the same binary, with one order */

#include "mint_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/worker/worker.h>

enum { SNAPSHOT_BYTES = 64 * 1024 * 1024, FILES_MOST = 3 + KH_ROOTS_MOST };

/* How upstreams are reached, and nothing of whom it is for. */
static int snapshot(const struct kh_config *config, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	struct kh_config seen = *config;
	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	memset(&seen.placeholder_keys, 0, sizeof(seen.placeholder_keys));
	seen.n_listeners = seen.n_credentials = seen.n_tenants = 0;
	seen.site = (struct kh_rules){ 0 };
	seen.site_geo = NULL;
	seen.site_limits = NULL;
	seen.country_db.named = seen.asn_db.named = false;
	seen.proxy.username = NULL;
	seen.admin = (struct kh_admin_config){ 0 };
	if (!kh_config_encode(&seen, &bytes)) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
		return -1;
	}
	return kh_file_sealed("keyhole-fetch", kh_buf_view(&bytes), err);
}

static void close_all(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

static bool send_order(const struct kh_config *config, struct kh_job *job,
		       const struct kh_fetch_order *order, struct kh_err *err)
{
	int fds[FILES_MOST] = { -1, -1, -1 };
	unsigned n_roots = 0;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init_wiping(&body, KH_LIMIT_CHANNEL_BYTES);
	fds[0] = snapshot(config, err);
	bool ok = fds[0] >= 0 && kh_resolver_files(fds + 1, err) &&
		  kh_roots_open(config, fds + 3, &n_roots, err);
	if (ok && !kh_fetch_order_put(&body, order))
		ok = kh_err_set(err, KH_ERR_NO_MEMORY, "the question is too long");
	ok = ok && kh_channel_send(&job->channel, KH_FETCH_MSG_ORDER, 0, kh_buf_view(&body), fds,
				   3 + n_roots, err);
	close_all(fds, 3 + n_roots);
	return ok;
}

__attribute__((noreturn)) static void child(int channel, pid_t keeper)
{
	static char verb[] = "fetcher";

	(void)setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == keeper &&
	    kh_spawn_bare(channel))
		kh_spawn_self(verb);
	_exit(KH_WORKER_EXIT_NO_EXEC);
}

struct proxy_auth {
	const struct kh_proxy_config *proxy;
	struct kh_buf *out;
};

static bool put_proxy_auth(struct kh_slice password, void *arg)
{
	const struct proxy_auth *auth = arg;
	const struct kh_slice parts[] = { kh_slice_str(auth->proxy->username), KH_SLICE(":"),
					  password };
	return kh_buf_append_str(auth->out, "Basic ") &&
	       kh_base64_put(auth->out, parts, 3, KH_BASE64);
}

bool kh_fetch_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err)
{
	struct kh_fetch_order order;
	const struct kh_config *config = vault->config;
	kh_cleanup(kh_buf_fini) struct kh_buf proxy_auth;
	kh_buf_init_wiping(&proxy_auth, KH_LIMIT_TOKEN_BYTES * 2);
	int password = kh_config_proxy_password(config);
	if (!job->holding || !kh_mint_compose(config, job, &order, &job->order, err))
		return false;
	if (password >= 0 && kh_config_goes_by_proxy(config, KH_NO_TENANT, &order.host)) {
		const struct kh_vault_slot *slot = &vault->slots[password];
		struct proxy_auth auth = { &config->proxy, &proxy_auth };
		if (slot->n_holdings == 0 || !slot->holdings->raw.secret)
			return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
					  "the upstream proxy's password has no value on the host");
		if (!kh_secret_expose(slot->holdings->raw.secret, put_proxy_auth, &auth))
			return kh_err_set(err, KH_ERR_NO_MEMORY, "the upstream proxy's password");
		order.proxy_auth = kh_buf_view(&proxy_auth);
	}
	int ends[2];
	if (!kh_channel_pair(ends, err))
		return false;
	kh_auto_close int theirs = ends[1];
	if (!kh_channel_init(&job->channel, ends[0], KH_FETCH_MSG_TO_KEEPER_SET, err)) {
		(void)close(ends[0]);
		return false;
	}
	pid_t keeper = getpid();
	job->pid = fork();
	if (job->pid == 0)
		child(theirs, keeper);
	if (job->pid < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "fork");
	bool sent = send_order(config, job, &order, err);
	/* The question holds a secret, and its answer may take long. */
	kh_buf_fini(&job->order);
	return sent;
}
