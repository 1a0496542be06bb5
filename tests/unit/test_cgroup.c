/* test_cgroup.c - groups of version 1, of version 2 and of both, in trees that are made up */
/* wrap: mkdir rmdir write */
#include <ftw.h>

#include "cgroup_kernel.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_find.h"

#define V2 "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1(name) "35 31 0:32 / /sys/fs/cgroup/" name " rw - cgroup cgroup rw," name "\n"

/* ---- what the two texts say ---- */

struct told {
	const char *groups, *mounts, *controller, *top, *own; /* top NULL: nothing is found */
	bool v2;
};

static const struct told texts[] = {
	{ "0::/a/b\n", V2, "memory", "/sys/fs/cgroup", "/sys/fs/cgroup/a/b", true },
	{ "0::/\n", V2, "memory", "/sys/fs/cgroup", "/sys/fs/cgroup", true },
	{ "4:memory:/a\n", V1("pids") V1("memory"), "memory", "/sys/fs/cgroup/memory",
	  "/sys/fs/cgroup/memory/a", false },
	/* Hybrid: whoever names it has it, wherever it stands; what version 1 has not, version 2.
	 */
	{ "0::/u\n4:memory:/a\n", V2 V1("memory"), "memory", "/sys/fs/cgroup/memory",
	  "/sys/fs/cgroup/memory/a", false },
	{ "4:memory:/a\n0::/u\n", V1("memory") V2, "pids", "/sys/fs/cgroup", "/sys/fs/cgroup/u",
	  true },
	{ "4:memory:/a\n", V1("memory") V2, "pids", NULL, NULL, false },
	/* Named, but not mounted: it is in no other. */
	{ "4:memory:/a\n0::/u\n", V2, "memory", NULL, NULL, false },
	/* Whole words: */
	{ "3:cpuset:/s\n2:cpu,cpuacct:/c\n", V1("cpuset") V1("cpu,cpuacct"), "cpu",
	  "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/c", false },
	{ "9:name=memory:/s\n", V1("name=memory"), "memory", NULL, NULL, false },
	/* A colon of the group's own name. */
	{ "0::/a:b:c\n", V2, "cpu", "/sys/fs/cgroup", "/sys/fs/cgroup/a:b:c", true },
	/* A mount that begins further down, as in a container that sees the host's numbers. */
	{ "0::/docker/1/x\n", "1 1 0:1 /docker/1 /cg rw - cgroup2 c rw\n", "memory", "/cg", "/cg/x",
	  true },
	{ "0::/docker/1\n", "1 1 0:1 /docker/1 /cg rw - cgroup2 c rw\n", "memory", "/cg", "/cg",
	  true },
	{ "0::/docker/12\n", "1 1 0:1 /docker/1 /cg rw - cgroup2 c rw\n", "memory", "/cg", NULL,
	  true },
	/* Of two mounts the one that shows us. */
	{ "0::/b\n", "1 1 0:1 /a /one rw - cgroup2 c rw\n1 1 0:1 / /two rw - cgroup2 c rw\n",
	  "memory", "/two", "/two/b", true },
	{ "0::/b\n", "1 1 0:1 / /one rw - cgroup2 c rw\n1 1 0:1 / /two rw - cgroup2 c rw\n",
	  "memory", "/one", "/one/b", true },
	/* Outside of our namespace; and what only begins like that. */
	{ "0::/../x\n", V2, "memory", "/sys/fs/cgroup", NULL, true },
	{ "0::/..\n", V2, "memory", "/sys/fs/cgroup", NULL, true },
	{ "0::/..x\n", V2, "memory", "/sys/fs/cgroup", "/sys/fs/cgroup/..x", true },
	/* Names as the kernel writes them; no optional field, and several. */
	{ "0::/b\n", "1 1 0:1 / /a\\040b\\134c rw - cgroup2 c rw\n", "memory", "/a b\\c",
	  "/a b\\c/b", true },
	{ "0::/b\n", "1 1 0:1 / /cg rw shared:1 master:2 - cgroup2 c rw\n", "memory", "/cg",
	  "/cg/b", true },
	/* Nothing of it, or nothing that can be understood. */
	{ "", V2, "memory", NULL, NULL, false },
	{ "0::/a\n", "", "memory", NULL, NULL, false },
	{ "0::\n0:\n0\n:::\n::/a\n0::a/b\n-1:memory\n", V2 V1("memory"), "memory", NULL, NULL,
	  false },
	{ "0::/a\n", "\n \n - \n - cgroup2\n1 1 0:1 / - cgroup2 c rw\n", "memory", NULL, NULL,
	  false },
	{ "0::/a\n", "1 1 0:1 / cg rw - cgroup2 c rw\n1 1 0:1 / /cg rw cgroup2 c rw\n", "memory",
	  NULL, NULL, false },
	{ "0::/a\n", "1 1 0:1 / /cg rw - tmpfs cgroup2 rw\n", "memory", NULL, NULL, false },
	{ "0::/a", "1 1 0:1 / /cg rw - cgroup2", "memory", "/cg", "/cg/a", true },
};

static void test_each_host_says_where_its_groups_are(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct told *t = &texts[i];
		struct kh_cgroup_found found;
		bool is = kh_cgroup_find(kh_slice_str(t->groups), kh_slice_str(t->mounts),
					 t->controller, &found);
		if (is != (t->top != NULL) || (is && strcmp(found.top, t->top) != 0) ||
		    (is && found.v2 != t->v2) || (found.own != NULL) != (t->own != NULL) ||
		    (t->own && strcmp(found.own, t->own) != 0))
			fail_msg("%zu: %s, %s: found %s, %s", i, t->groups, t->mounts,
				 is ? found.top : "nothing", found.own ? found.own : "not us");
		kh_cgroup_found_fini(&found);
	}
}

/* ---- made-up hosts ---- */

static char *at(const char *path)
{
	static char whole[4][PATH_MAX];
	static unsigned n;
	char *room = whole[n++ % 4];
	snprintf(room, PATH_MAX, "%s%s", world, path);
	return room;
}

static int set_up(void **state)
{
	char folder[] = "/tmp/kh-cgroup-XXXXXX";
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(world, sizeof(world), "%s", folder);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
	(void)st;
	(void)kind;
	(void)walk;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	char folder[sizeof(world)];
	memcpy(folder, world, sizeof(world));
	world[0] = '\0';
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void folders(const char *path)
{
	assert_true(kh_file_mkdirs(at(path), 0755, NULL));
}

static void host(const char *groups, const char *mounts)
{
	folders("/proc/self");
	put(at("/proc/self"), "cgroup", groups);
	put(at("/proc/self"), "mountinfo", mounts);
}

/* The top of a hierarchy of version 2, which gives all that it has to its children. */
static void v2_top_at(const char *folder, const char *controllers)
{
	folders(folder);
	put(at(folder), ".top", "");
	put(at(folder), "cgroup.controllers", controllers);
	put(at(folder), "cgroup.procs", "");
	put(at(folder), "cgroup.subtree_control", controllers);
}

static void v2_top(const char *controllers)
{
	v2_top_at("/sys/fs/cgroup", controllers);
}

static void v1_top(const char *folder, const char *file, const char *another)
{
	folders(folder);
	put(at(folder), ".top", "");
	put(at(folder), "cgroup.procs", "");
	put(at(folder), file, "");
	if (another)
		put(at(folder), another, "");
}

/* With these processes in it. */
static void group(const char *folder, const char *procs, bool foreign)
{
	assert_int_equal(mkdir(at(folder), 0755), 0);
	put(at(folder), "cgroup.procs", procs);
	if (foreign)
		put(at(folder), ".foreign", "");
}

static const char *self(void)
{
	static char text[16];
	snprintf(text, sizeof(text), "%d", (int)getpid());
	return text;
}

static void assert_below(const struct kh_cgroups *groups, enum kh_cgroup_kind kind,
			 const char *folder)
{
	char above[PATH_MAX];
	assert_non_null(groups->of[kind].path);
	parent_of(groups->of[kind].path, above);
	assert_string_equal(above, at(folder));
}

static struct kh_cgroups make_all(void)
{
	struct kh_cgroups groups = { .root = world };
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		if (!kh_cgroup_make(&groups, (enum kh_cgroup_kind)kind))
			assert_null(groups.of[kind].path);
	return groups;
}

/* No group of ours is left below. */
static void remove_all(struct kh_cgroups *groups)
{
	char *paths[KH_CGROUP_KINDS];
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		paths[kind] = groups->of[kind].path ? strdup(groups->of[kind].path) : NULL;
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		if (paths[kind])
			put(paths[kind], "cgroup.procs", "");
	kh_cgroup_remove(groups);
	kh_cgroup_fini(groups);
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++) {
		assert_true(!paths[kind] || access(paths[kind], F_OK) != 0);
		free(paths[kind]);
	}
}

static void test_v2_of_a_group_without_processes_is_made_below_it(void **state)
{
	(void)state;
	host("0::/mine\n", V2);
	v2_top("cpu memory pids");
	group("/sys/fs/cgroup/mine", "", false);
	struct kh_cgroups groups = make_all();
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++) {
		assert_below(&groups, (enum kh_cgroup_kind)kind, "/sys/fs/cgroup/mine");
		assert_true(groups.of[kind].v2);
		assert_string_equal(groups.of[kind].path, groups.of[0].path);
	}
	assert_true(kh_cgroup_write(&groups, KH_CGROUP_MEMORY, "none", "memory.max", "4096"));
	assert_string_equal(get(groups.of[0].path, "memory.max"), "4096");
	assert_true(kh_cgroup_join(&groups, 0));
	assert_true(says(groups.of[0].path, "cgroup.procs", self()));
	remove_all(&groups);
	assert_int_equal(access(at("/sys/fs/cgroup/mine/" KH_CGROUP_REST), F_OK), -1);
}

/* As in a scope of a user's systemd: the slice above is the user's as well. */
static void test_v2_of_a_group_with_processes_is_made_beside_it(void **state)
{
	(void)state;
	host("0::/slice/scope\n", V2);
	v2_top("cpu memory pids");
	group("/sys/fs/cgroup/slice", "", false);
	group("/sys/fs/cgroup/slice/scope", "7\n", false);
	struct kh_cgroups groups = make_all();
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		assert_below(&groups, (enum kh_cgroup_kind)kind, "/sys/fs/cgroup/slice");
	assert_string_equal(get(at("/sys/fs/cgroup/slice/scope"), "cgroup.procs"), "7\n");
	remove_all(&groups);
}

/* As in a service of the system's with Delegate=yes: what is above is not ours. */
static void test_v2_of_a_delegated_service_moves_what_runs_in_it(void **state)
{
	(void)state;
	host("0::/system/service\n", V2);
	v2_top("cpu memory pids");
	group("/sys/fs/cgroup/system", "", false);
	char *in = kh_strf("71\n%s\n72\n", self());
	assert_int_equal(write_subtree(at("/sys/fs/cgroup/system"), "+memory"), 0);
	assert_int_equal(write_subtree(at("/sys/fs/cgroup/system"), "+pids"), 0);
	assert_int_equal(write_subtree(at("/sys/fs/cgroup/system"), "+cpu"), 0);
	group("/sys/fs/cgroup/system/service", in, false);
	free(in);
	put(at("/sys/fs/cgroup/system"), ".foreign", "");

	struct kh_cgroups groups = make_all();
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		assert_below(&groups, (enum kh_cgroup_kind)kind, "/sys/fs/cgroup/system/service");
	static const char rest[] = "/sys/fs/cgroup/system/service/" KH_CGROUP_REST;
	assert_string_equal(get(at("/sys/fs/cgroup/system/service"), "cgroup.procs"), "");
	assert_true(says(at(rest), "cgroup.procs", "71") && says(at(rest), "cgroup.procs", "72") &&
		    says(at(rest), "cgroup.procs", self()));

	/* Another one that starts now stands in there; it finds the way without moving anything. */
	host("0::/system/service/" KH_CGROUP_REST "\n", V2);
	struct kh_cgroups more = make_all();
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		assert_below(&more, (enum kh_cgroup_kind)kind, "/sys/fs/cgroup/system/service");
	assert_string_not_equal(more.of[0].path, groups.of[0].path);
	remove_all(&more);
	remove_all(&groups);
}

static void test_v2_that_is_not_delegated_gives_none_and_changes_nothing(void **state)
{
	(void)state;
	host("0::/session\n", V2);
	v2_top("cpu memory pids");
	group("/sys/fs/cgroup/session", "71\n", true);
	put(at("/sys/fs/cgroup"), ".foreign", "");
	struct kh_cgroups groups = make_all();
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		assert_null(groups.of[kind].path);
	assert_string_equal(get(at("/sys/fs/cgroup/session"), "cgroup.procs"), "71\n");
	assert_int_equal(kh_cgroup_oom_kills(&groups), 0);
	remove_all(&groups);
}

/* What is to be had is had, in the one group; nobody is moved for what is not. */
static void test_v2_without_a_controller_gives_the_others(void **state)
{
	(void)state;
	host("0::/mine\n", V2);
	v2_top("memory pids");
	group("/sys/fs/cgroup/mine", "71\n", false);
	put(at("/sys/fs/cgroup"), ".foreign", "");
	struct kh_cgroups groups = { .root = world };
	assert_false(kh_cgroup_make(&groups, KH_CGROUP_CPU));
	assert_string_equal(get(at("/sys/fs/cgroup/mine"), "cgroup.procs"), "71\n");
	kh_cgroup_fini(&groups);
	groups = make_all();
	assert_below(&groups, KH_CGROUP_MEMORY, "/sys/fs/cgroup/mine");
	assert_below(&groups, KH_CGROUP_PIDS, "/sys/fs/cgroup/mine");
	assert_null(groups.of[KH_CGROUP_CPU].path);
	remove_all(&groups);
}

/* A number 0 there is a process that we do not see: not ourselves. */
static void test_v2_with_a_process_that_is_not_seen_is_left_alone(void **state)
{
	(void)state;
	host("0::/mine\n", V2);
	v2_top("cpu memory pids");
	group("/sys/fs/cgroup/mine", "0\n", false);
	put(at("/sys/fs/cgroup"), ".foreign", "");
	struct kh_cgroups groups = make_all();
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		assert_null(groups.of[kind].path);
	assert_string_equal(get(at("/sys/fs/cgroup/mine"), "cgroup.procs"), "0\n");
	assert_int_not_equal(access(at("/sys/fs/cgroup/mine/" KH_CGROUP_REST), F_OK), 0);
	remove_all(&groups);
}

/* Nothing is ever made above what is mounted. */
static void test_v2_at_the_top_stays_below_it(void **state)
{
	(void)state;
	host("0::/\n", V2);
	v2_top("cpu memory pids");
	put(at("/sys/fs/cgroup"), ".foreign", "");
	put(at("/sys/fs"), "cgroup.procs", ""); /* so that a group could be made there */
	put(at("/sys/fs"), ".top", "");
	put(at("/sys/fs"), "cgroup.controllers", "memory");
	put(at("/sys/fs"), "cgroup.subtree_control", "memory");
	struct kh_cgroups groups = make_all();
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		assert_null(groups.of[kind].path);
	remove_all(&groups);
	assert_int_equal(unlink(at("/sys/fs/cgroup.procs")), 0);
}

static void test_v1_has_a_group_in_each_hierarchy(void **state)
{
	(void)state;
	host("4:memory:/a\n8:pids:/\n1:cpu:/\n", V1("memory") V1("pids") V1("cpu"));
	v1_top("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control");
	v1_top("/sys/fs/cgroup/pids", "pids.max", NULL);
	v1_top("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", NULL);
	group("/sys/fs/cgroup/memory/a", "71\n", false);
	struct kh_cgroups groups = make_all();
	assert_below(&groups, KH_CGROUP_MEMORY, "/sys/fs/cgroup/memory/a");
	assert_below(&groups, KH_CGROUP_PIDS, "/sys/fs/cgroup/pids");
	assert_below(&groups, KH_CGROUP_CPU, "/sys/fs/cgroup/cpu");
	assert_false(groups.of[KH_CGROUP_MEMORY].v2);
	assert_true(kh_cgroup_write(&groups, KH_CGROUP_MEMORY, "memory.limit_in_bytes", "x", "1"));
	assert_string_equal(get(groups.of[KH_CGROUP_MEMORY].path, "memory.limit_in_bytes"), "1");
	assert_true(kh_cgroup_write(&groups, KH_CGROUP_MEMORY, NULL, "memory.swap.max", "0"));
	assert_true(kh_cgroup_join(&groups, 0));
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		assert_true(says(groups.of[kind].path, "cgroup.procs", self()));
	put(groups.of[KH_CGROUP_MEMORY].path, "memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	assert_int_equal(kh_cgroup_oom_kills(&groups), 3);
	remove_all(&groups);
}

/* Two groups of one hierarchy would take the process from each other, and with it a limit. */
static void test_v1_controllers_of_one_hierarchy_share_a_group(void **state)
{
	(void)state;
	host("4:memory,pids:/\n", V1("memory,pids"));
	v1_top("/sys/fs/cgroup/memory,pids", "memory.limit_in_bytes", "pids.max");
	struct kh_cgroups groups = make_all();
	assert_below(&groups, KH_CGROUP_MEMORY, "/sys/fs/cgroup/memory,pids");
	assert_string_equal(groups.of[KH_CGROUP_MEMORY].path, groups.of[KH_CGROUP_PIDS].path);
	assert_null(groups.of[KH_CGROUP_CPU].path);
	remove_all(&groups);
}

static void test_hybrid_takes_each_controller_where_it_is(void **state)
{
	(void)state;
	host("4:memory:/\n0::/mine\n",
	     V1("memory") "38 31 0:37 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n");
	v2_top_at("/sys/fs/cgroup/unified", "cpu pids");
	v1_top("/sys/fs/cgroup/memory", "memory.limit_in_bytes", NULL);
	group("/sys/fs/cgroup/unified/mine", "", false);
	struct kh_cgroups groups = make_all();
	assert_below(&groups, KH_CGROUP_MEMORY, "/sys/fs/cgroup/memory");
	assert_false(groups.of[KH_CGROUP_MEMORY].v2);
	assert_below(&groups, KH_CGROUP_PIDS, "/sys/fs/cgroup/unified/mine");
	assert_string_equal(groups.of[KH_CGROUP_PIDS].path, groups.of[KH_CGROUP_CPU].path);
	assert_true(groups.of[KH_CGROUP_PIDS].v2);
	remove_all(&groups);
}

static void test_a_host_that_says_nothing_has_none(void **state)
{
	(void)state;
	struct kh_cgroups groups = make_all();
	remove_all(&groups);
	host("0::/gone (deleted)\n4:memory\n", "garbage\n");
	groups = make_all();
	for (int kind = 0; kind < KH_CGROUP_KINDS; kind++)
		assert_null(groups.of[kind].path);
	remove_all(&groups);
}

static void test_ends_for_want_of_memory_are_counted(void **state)
{
	(void)state;
	host("0::/\n", V2);
	v2_top("memory");
	struct kh_cgroups groups = make_all();
	assert_non_null(groups.of[KH_CGROUP_MEMORY].path);
	static const struct {
		const char *text;
		uint64_t kills;
	} events[] = { { "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n", 1 },
		       { "low 0\noom 2\n", 0 },
		       { "", 0 },
		       { "oom_kill", 0 },
		       { "oom_kill x\n", 0 },
		       { "oom_kill 99999999999999999999999\n", 0 } };
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		put(groups.of[KH_CGROUP_MEMORY].path, "memory.events", events[i].text);
		assert_int_equal(kh_cgroup_oom_kills(&groups), events[i].kills);
	}
	remove_all(&groups);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_host_says_where_its_groups_are),
		IN_A_WORLD(test_v2_of_a_group_without_processes_is_made_below_it),
		IN_A_WORLD(test_v2_of_a_group_with_processes_is_made_beside_it),
		IN_A_WORLD(test_v2_of_a_delegated_service_moves_what_runs_in_it),
		IN_A_WORLD(test_v2_that_is_not_delegated_gives_none_and_changes_nothing),
		IN_A_WORLD(test_v2_without_a_controller_gives_the_others),
		IN_A_WORLD(test_v2_with_a_process_that_is_not_seen_is_left_alone),
		IN_A_WORLD(test_v2_at_the_top_stays_below_it),
		IN_A_WORLD(test_v1_has_a_group_in_each_hierarchy),
		IN_A_WORLD(test_v1_controllers_of_one_hierarchy_share_a_group),
		IN_A_WORLD(test_hybrid_takes_each_controller_where_it_is),
		IN_A_WORLD(test_a_host_that_says_nothing_has_none),
		IN_A_WORLD(test_ends_for_want_of_memory_are_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
