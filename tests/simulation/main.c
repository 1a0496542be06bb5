/*
 * main.c - runs seeds, replays one, and lets everything fail in turn
 *
 *   simulation --seeds 1000000     so many seeds, from 1 on (--from N)
 *   simulation --seconds 20        as many as fit
 *   simulation --seed N --trace    one, and what happens in it
 *   simulation --torture           a few seeds, each again with each allocation, call and write of
 *                                  the journal failing once (--seconds bounds it, --from N)
 */

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "simulation.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

enum { STEPS_MOST = 400, LEAKS_EVERY = 512, TORTURE_SEEDS = 24 };

static uint64_t state, seed;
static bool tracing;
static const char *program;
static const char *const fault_names[SIM_FAULTS] = { "allocation", "call", "journal" };
static int tortured = -1; /* enum sim_fault */
static uint64_t tortured_at;

/* ---- chance ---- */

/* splitmix64 */
static uint64_t next_number(void)
{
	uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t sim_below(uint64_t n)
{
	return next_number() % n;
}

bool sim_one_in(unsigned n)
{
	return sim_below(n) == 0;
}

/* ---- what is said ---- */

void sim_trace(const char *format, ...)
{
	va_list args;

	if (!tracing)
		return;
	(void)printf("%10.3f  ", (double)(sim_now_ms() % 1000000) / 1000.0);
	va_start(args, format);
	(void)vprintf(format, args);
	va_end(args);
	(void)printf("\n");
	(void)fflush(stdout);
}

/* Made when a run begins: a signal handler formats nothing. */
static char replay[256];

static void note_replay(void)
{
	size_t n = (size_t)snprintf(replay, sizeof(replay),
				    "simulation: replay it with: %s --seed %llu --trace", program,
				    (unsigned long long)seed);

	if (tortured >= 0 && n < sizeof(replay))
		n += (size_t)snprintf(replay + n, sizeof(replay) - n, " --fail %s:%llu",
				      fault_names[tortured], (unsigned long long)tortured_at);
	if (n < sizeof(replay))
		(void)snprintf(replay + n, sizeof(replay) - n, "\n");
}

static void say_replay(void)
{
	(void)!write(STDERR_FILENO, replay, strlen(replay));
}

void sim_fail(const char *format, ...)
{
	va_list args;

	(void)fprintf(stderr, "simulation: seed %llu, step %u: ", (unsigned long long)seed,
		      sim.steps);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, "\n");
	say_replay();
	_exit(1);
}

static void on_crash(int signal_number)
{
	say_replay();
	(void)signal(signal_number, SIG_DFL);
	(void)raise(signal_number);
}

#ifdef __SANITIZE_ADDRESS__
/* A run is short, and so is what was freed in it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=8:malloc_context_size=12:max_malloc_fill_size=64";
}

/* What UBSan finds ends in on_crash. */
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
	return "print_stacktrace=1:abort_on_error=1";
}
#endif

static void watch_crashes(void)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_set_death_callback(say_replay);
	(void)signal(SIGABRT, on_crash);
#else
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		(void)signal(fatal[i], on_crash);
#endif
}

/* ---- runs ---- */

static bool leaks(void)
{
#ifdef __SANITIZE_ADDRESS__
	return __lsan_do_recoverable_leak_check() != 0;
#else
	return false;
#endif
}

static void run(uint64_t which)
{
	seed = which;
	state = which;
	note_replay();
	unsigned steps = 20 + (unsigned)sim_below(STEPS_MOST);
	sim_world_begin();
	if (tortured >= 0)
		sim_fault_arm((enum sim_fault)tortured, tortured_at);
	while (sim.steps < steps)
		sim_world_step();
	sim_world_end();
}

/* What is made once in a process is made here, so that each run after it is the same. */
static void warm_up(void)
{
	bool before = tracing;
	int fault = tortured;

	tracing = false;
	tortured = -1;
	run(0);
	tracing = before;
	tortured = fault;
}

/* Which of the last ones it was. */
static void find_leak(uint64_t from, uint64_t to)
{
	for (uint64_t which = from; which <= to; which++) {
		run(which);
		if (leaks())
			sim_fail("something leaks");
	}
	sim_fail("something leaks in the seeds %llu to %llu, taken together",
		 (unsigned long long)from, (unsigned long long)to);
}

static double seconds_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run_many(uint64_t from, uint64_t count, double seconds)
{
	double begun = seconds_now();
	uint64_t done = 0;

	while (done < count && (seconds <= 0 || seconds_now() - begun < seconds)) {
		run(from + done++);
		if (done % LEAKS_EVERY == 0 && leaks())
			find_leak(from + done - LEAKS_EVERY, from + done - 1);
	}
	if (leaks())
		find_leak(from + done - done % LEAKS_EVERY, from + done - 1);
	double took = seconds_now() - begun;
	(void)printf("simulation: %llu seeds from %llu, %.0f a second\n", (unsigned long long)done,
		     (unsigned long long)from, (double)done / (took > 0 ? took : 1));
}

/* ---- everything fails in turn ---- */

/* Of a scenario, every `stride`-th fault from the `first` one on. Return: how many that were. */
static uint64_t torture_one(uint64_t which, uint64_t first, uint64_t stride, double until)
{
	uint64_t asked[SIM_FAULTS], done = 0;

	tortured = -1;
	run(which);
	for (int what = 0; what < SIM_FAULTS; what++)
		asked[what] = sim_faults[what].asked;
	for (int what = 0; what < SIM_FAULTS; what++) {
		for (uint64_t at = first; at <= asked[what] && seconds_now() < until;
		     at += stride, done++) {
			tortured = what;
			tortured_at = at;
			run(which);
		}
	}
	tortured = -1;
	return done;
}

static void torture(uint64_t from, uint64_t count, double seconds)
{
	double until = seconds > 0 ? seconds_now() + seconds : 1e18;
	/* Where time is short, some of all scenarios' first. */
	uint64_t stride = seconds > 0 ? 37 : 1, done = 0, pass = 1;

	for (; pass <= stride && seconds_now() < until; pass++) {
		for (uint64_t which = 0; which < count && seconds_now() < until; which++)
			done += torture_one(from + which, pass, stride, until);
		if (leaks())
			sim_fail("something leaks when something fails");
	}
	(void)printf("simulation: torture: %llu faults in %llu scenarios%s\n",
		     (unsigned long long)done, (unsigned long long)count,
		     pass <= stride ? ", as many as there was time for" : ", all there are");
}

static bool read_fault(const char *text)
{
	const char *colon = strchr(text, ':');

	for (int i = 0; colon && i < SIM_FAULTS; i++)
		if (strncmp(text, fault_names[i], (size_t)(colon - text)) == 0)
			tortured = i;
	tortured_at = colon ? strtoull(colon + 1, NULL, 10) : 0;
	return tortured >= 0 && tortured_at > 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'n' },
		{ "from", required_argument, NULL, 'f' },
		{ "seconds", required_argument, NULL, 't' },
		{ "fail", required_argument, NULL, 'x' },
		{ "trace", no_argument, NULL, 'v' },
		{ "torture", no_argument, NULL, 'y' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t count = UINT64_MAX, from = 1;
	bool tortures = false;
	const char *one = NULL;
	double seconds = 0;
	int option;

	program = argv[0];
	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == 's')
			one = optarg;
		else if (option == 'n')
			count = strtoull(optarg, NULL, 10);
		else if (option == 'f')
			from = strtoull(optarg, NULL, 10);
		else if (option == 't')
			seconds = strtod(optarg, NULL);
		else if (option == 'v')
			tracing = true;
		else if (option == 'y')
			tortures = true;
		else if (option != 'x' || !read_fault(optarg))
			return 2;
	}
	watch_crashes();
	sim_world_prepare();
	warm_up();
	if (one)
		run_many(strtoull(one, NULL, 10), 1, 0);
	else if (tortures)
		torture(from, count == UINT64_MAX ? TORTURE_SEEDS : count, seconds);
	else
		run_many(from, count == UINT64_MAX && seconds <= 0 ? 1000 : count, seconds);
	return 0;
}
