/* work_share.c - the lines in which connections wait to go on with their work: those of a sandbox,
 * and the sandboxes of a tenant */
#include <keyhole/loop/work_share.h>

#include <stdlib.h>
#include <string.h>

/* What all sandboxes of a tenant on this thread do in a turn. */
struct kh_work_tenant {
	struct kh_node link; /* in the loop's */
	struct kh_loop *loop;
	size_t refs;
	struct kh_loop_call next;
	struct kh_node waiting; /* struct kh_work_share.link */
	uint64_t turn;		/* the loop's, in which `done` was done */
	size_t done;
	bool serves;   /* those that wait */
	bool is_short; /* it did not come to all of them: whoever comes meanwhile is after them */
	char name[];
};

enum { TENANT_SHARE = KH_WORK_TENANT_SHARES * KH_LIMIT_WORK_SHARE };

/* Each turn pays for one share. Return: what is still to be paid for. */
static size_t pay(const struct kh_loop *loop, uint64_t *turn, size_t done, size_t share)
{
	uint64_t paid = (loop->turn - *turn) * share;

	*turn = loop->turn;
	return done > paid ? done - (size_t)paid : 0;
}

static size_t tenant_left(struct kh_work_tenant *tenant)
{
	tenant->done = pay(tenant->loop, &tenant->turn, tenant->done, TENANT_SHARE);
	return tenant->done < TENANT_SHARE ? TENANT_SHARE - tenant->done : 0;
}

/* Of both, whoever else waits. */
static size_t share_left(struct kh_work_share *share)
{
	share->done = pay(share->loop, &share->turn, share->done, KH_LIMIT_WORK_SHARE);
	size_t left = share->done < KH_LIMIT_WORK_SHARE ? KH_LIMIT_WORK_SHARE - share->done : 0;
	size_t of_all = share->tenant ? tenant_left(share->tenant) : left;

	return left < of_all ? left : of_all;
}

/* Those whose turn does not come any more stand before those that came meanwhile. */
static void put_back(struct kh_node *waiting, struct kh_node *rest)
{
	struct kh_node came;

	kh_list_move(waiting, &came);
	kh_list_move(rest, waiting);
	while (!kh_list_is_empty(&came)) {
		struct kh_node *node = came.next;

		kh_list_remove(node);
		kh_list_append(waiting, node);
	}
}

static void call_again(struct kh_work_share *share)
{
	struct kh_work_tenant *tenant = share->tenant;

	if (tenant && !kh_list_has_node(&share->link))
		kh_list_append(&tenant->waiting, &share->link);
	kh_loop_call(share->loop, KH_LOOP_NEXT, tenant ? &tenant->next : &share->next);
}

static void serve(struct kh_work_share *share)
{
	struct kh_node ready;

	kh_list_move(&share->waiting, &ready);
	share->serves = true;
	while (!kh_list_is_empty(&ready) && share_left(share) > 0) {
		struct kh_work_place *place =
			kh_container_of(ready.next, struct kh_work_place, link);

		kh_work_place_leave(place);
		place->fn(place);
	}
	share->serves = false;
	put_back(&share->waiting, &ready);
	if (!kh_list_is_empty(&share->waiting))
		call_again(share);
}

static void on_next(struct kh_loop_call *call)
{
	serve(kh_container_of(call, struct kh_work_share, next));
}

/* ---- tenants ---- */

static void unref_tenant(struct kh_work_tenant *tenant)
{
	if (!tenant || --tenant->refs > 0)
		return;
	kh_list_remove(&tenant->link);
	kh_list_remove(&tenant->next.link);
	free(tenant);
}

/* Whoever was served is behind all others. */
static void on_next_of_tenant(struct kh_loop_call *call)
{
	struct kh_work_tenant *tenant = kh_container_of(call, struct kh_work_tenant, next);
	struct kh_node ready;

	tenant->refs++;
	kh_list_move(&tenant->waiting, &ready);
	tenant->serves = true;
	while (!kh_list_is_empty(&ready) && tenant_left(tenant) > 0) {
		struct kh_node *node = ready.next;

		kh_list_remove(node);
		serve(kh_container_of(node, struct kh_work_share, link));
	}
	tenant->serves = false;
	tenant->is_short = !kh_list_is_empty(&ready);
	put_back(&tenant->waiting, &ready);
	if (!kh_list_is_empty(&tenant->waiting))
		kh_loop_call(tenant->loop, KH_LOOP_NEXT, call);
	unref_tenant(tenant);
}

/* Return: a reference; NULL without memory. */
static struct kh_work_tenant *tenant_of(struct kh_loop *loop, const char *name)
{
	size_t bytes = strlen(name) + 1;

	for (struct kh_node *node = loop->work_tenants.next; node != &loop->work_tenants;
	     node = node->next) {
		struct kh_work_tenant *tenant = kh_container_of(node, struct kh_work_tenant, link);

		if (strcmp(tenant->name, name) == 0) {
			tenant->refs++;
			return tenant;
		}
	}
	struct kh_work_tenant *tenant = calloc(1, sizeof(*tenant) + bytes);
	if (!tenant)
		return NULL;
	tenant->loop = loop;
	tenant->refs = 1;
	tenant->next.fn = on_next_of_tenant;
	memcpy(tenant->name, name, bytes);
	kh_list_init(&tenant->waiting);
	kh_list_append(&loop->work_tenants, &tenant->link);
	return tenant;
}

bool kh_work_share_join(struct kh_work_share *share, const char *name)
{
	if (share->tenant && strcmp(share->tenant->name, name) == 0)
		return true;
	kh_list_remove(&share->link);
	kh_list_remove(&share->next.link);
	unref_tenant(share->tenant);
	share->tenant = tenant_of(share->loop, name);
	if (!kh_list_is_empty(&share->waiting))
		call_again(share);
	return share->tenant != NULL;
}

/* ---- a sandbox ---- */

void kh_work_share_init(struct kh_work_share *share, struct kh_loop *loop)
{
	*share = (struct kh_work_share){ .loop = loop, .next.fn = on_next };
	kh_list_init(&share->waiting);
}

void kh_work_share_fini(struct kh_work_share *share)
{
	kh_list_remove(&share->next.link);
	kh_list_remove(&share->link);
	unref_tenant(share->tenant);
	share->tenant = NULL;
}

size_t kh_work_share_left(struct kh_work_share *share)
{
	const struct kh_work_tenant *tenant = share->tenant;

	if ((!share->serves && !kh_list_is_empty(&share->waiting)) ||
	    (tenant && tenant->is_short && !tenant->serves))
		return 0;
	return share_left(share);
}

void kh_work_share_charge(struct kh_work_share *share, size_t work)
{
	(void)share_left(share);
	share->done += work;
	if (share->tenant)
		share->tenant->done += work;
}

void kh_work_share_wait(struct kh_work_share *share, struct kh_work_place *place)
{
	if (!kh_work_place_waits(place))
		kh_list_append(&share->waiting, &place->link);
	call_again(share);
}
