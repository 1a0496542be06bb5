/*
 * ask.c - `keyhole ask`: answers for the requests of a `keyhole run --ask`
 *
 * The run's daemon sends a line for each request that waits (/v1/questions), and one when it is
 * over. On a terminal one question is shown at a time, and a key answers it. Elsewhere each answer
 * is a line with the question's number, so that none can be taken for another's.
 *
 * The agent decides when a question appears. So a key that comes just after a new one has appeared
 * was meant for something else: it is dropped.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/limits.h>

#include "ask_internal.h"
#include "ctl_client.h"
#include "ctl_trust.h"
#include "run_internal.h"

static const char usage[] =
	"usage: keyhole ask [--json] [RUN]\n"
	"Shows each request that no rule of a run allows, and lets you answer. The run must have\n"
	"been started to ask: see keyhole-run(1). Start this in another terminal; RUN is needed\n"
	"only if several are running.\n\n"
	"Keys: y allows this request once; r allows the same method and URL until the run ends,\n"
	"with any query; n or Enter refuses it. Without an answer it is refused after 60s.\n"
	"Where standard input is no terminal, an answer is a line: the question's number, a blank\n"
	"and the letter, such as \"7 y\".\n\n"
	"      --json  prints questions as JSON, one per line, for programs\n"
	"  -h, --help  show this\n\n"
	"Exit status: 0 the run has ended, 1 failure, 2 wrong usage. The manual: keyhole-ask(1).\n";

enum {
	LINE_BYTES = 4096, /* of standard input; no answer is so long */
	GUARD_MS = 500,	   /* a key so soon after a question appeared was not meant for it */
	TICK_MS = 1000,	   /* between two looks at the clock */
	AGAIN_MS = 250,	   /* the worker is started anew */
	TARGET_BYTES = 64,
	KEYS_BYTES = 80,
};

struct question {
	uint32_t id;
	char *request;
	uint64_t until_ms;
};

struct ask {
	const char *socket, *id;
	bool greeted;
	bool first; /* of the streams */
	bool anew;  /* the run's worker was replaced, and lines may be for the one before */
	bool json, terminal;
	struct question list[KH_LIMIT_QUESTIONS]; /* that wait, the oldest first */
	size_t n;
	uint32_t current;      /* on a terminal: which one is shown; 0: none */
	uint64_t shown_ms;     /* likewise: since when */
	bool ended;	       /* nobody is there any more who could answer */
	bool broken;	       /* standard output is gone */
	char line[LINE_BYTES]; /* of standard input, as far as it has come */
	size_t line_len;
	bool line_too_long;
};

static volatile sig_atomic_t signalled;

static void on_signal(int signo)
{
	signalled = signo;
}

/* ---- the questions ---- */

static struct question *find(struct ask *a, uint32_t id)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->list[i].id == id)
			return &a->list[i];
	return NULL;
}

static void forget(struct ask *a, uint32_t id)
{
	struct question *one = find(a, id);
	if (!one)
		return;
	free(one->request);
	size_t behind = a->n - 1 - (size_t)(one - a->list);
	memmove(one, one + 1, behind * sizeof(*one));
	a->n--;
}

static void forget_all(struct ask *a)
{
	while (a->n > 0)
		forget(a, a->list[0].id);
}

static unsigned seconds_left(const struct question *one)
{
	uint64_t now = kh_clock_mono_ms();
	return one->until_ms > now ? (unsigned)((one->until_ms - now + 999) / 1000) : 0;
}

/* ---- a terminal ---- */

static void end_question(struct ask *a, const char *how)
{
	if (a->current == 0)
		return;
	(void)printf("\r  %s\x1b[K\n", how);
	a->current = 0;
}

/* The oldest one, if none is shown. Else how much time is left for it. */
static void show_on_terminal(struct ask *a)
{
	if (a->current == 0 && a->n > 0) {
		a->current = a->list[0].id;
		a->shown_ms = kh_clock_mono_ms();
		kh_ask_question_show(0, a->list[0].request, "");
		/* What was typed before it was seen answers nothing. */
		(void)tcflush(STDIN_FILENO, TCIFLUSH);
	}
	struct question *one = find(a, a->current);
	if (one)
		kh_ask_question_keys(seconds_left(one), a->n - 1);
	a->broken = fflush(stdout) != 0;
}

/* ---- what the daemon says ---- */

static bool note_question(struct ask *a, const json_t *event, uint32_t id)
{
	const char *request = json_string_value(json_object_get(event, "request"));
	json_int_t left = json_integer_value(json_object_get(event, "left_ms"));
	if (!request || a->n == KH_LIMIT_QUESTIONS || find(a, id))
		return false;
	left = left < 0 ? 0 : left > KH_LIMIT_QUESTION_MS ? KH_LIMIT_QUESTION_MS : left;
	struct question *one = &a->list[a->n];
	*one = (struct question){ .id = id,
				  .request = kh_slice_dup(kh_slice_sub(kh_slice_str(request), 0,
								       KH_LIMIT_QUESTION_BYTES)),
				  .until_ms = kh_clock_mono_ms() + (uint64_t)left };
	if (!one->request)
		return false;
	a->n++;
	if (a->json || a->terminal)
		return true;
	char keys[KEYS_BYTES];
	(void)snprintf(keys, sizeof(keys),
		       " (y once, r for this run with any query, n no; %us left)",
		       seconds_left(one));
	kh_ask_question_show(id, one->request, keys);
	return true;
}

static void note_over(struct ask *a, uint32_t id)
{
	if (a->current == id)
		end_question(a, "it does not wait any more: refused");
	if (find(a, id) && !a->json && !a->terminal)
		(void)printf("%u does not wait any more: refused\n", (unsigned)id);
	forget(a, id);
}

static bool take_event(void *arg, struct kh_slice line)
{
	struct ask *a = arg;
	json_t *event = kh_json_load(line, JSON_REJECT_DUPLICATES, NULL);
	const char *what = json_string_value(json_object_get(event, "event"));
	json_int_t id = json_integer_value(json_object_get(event, "id"));
	if (what && id > 0 && id <= UINT32_MAX) {
		if (strcmp(what, "question") == 0)
			(void)note_question(a, event, (uint32_t)id);
		else if (strcmp(what, "over") == 0)
			note_over(a, (uint32_t)id);
		if (a->json && (!kh_ctl_put_json(stdout, line) || putchar('\n') == EOF))
			a->broken = true;
	}
	json_decref(event);
	a->broken = a->broken || fflush(stdout) != 0;
	return !a->broken;
}

/* ---- what the person says ---- */

/* Return: NULL: it is no answer. */
static const char *answer_of(char letter)
{
	switch (letter) {
	case 'y':
	case 'Y':
		return "once";
	case 'r':
	case 'R':
		return "run";
	case 'n':
	case 'N':
		return "no";
	default:
		return NULL;
	}
}

/* The daemon's word for what came of it; heap, or NULL. */
static char *text_of(const struct kh_ctl_answer *answer, const char *key)
{
	json_t *read = kh_json_load(kh_buf_view(&answer->content), 0, NULL);
	const char *text = json_string_value(json_object_get(read, key));
	char *copy = text && *text ? strdup(text) : NULL;
	json_decref(read);
	return copy;
}

/* Return: what to say about it; heap, or NULL without memory. */
static char *send_answer(const struct ask *a, uint32_t id, const char *answer)
{
	char target[TARGET_BYTES];
	struct kh_err err = KH_ERR_INIT;
	struct kh_ctl_answer got;
	(void)snprintf(target, sizeof(target), "/v1/questions?id=%u&answer=%s", (unsigned)id,
		       answer);
	kh_ctl_answer_init(&got);
	bool ok = kh_ctl_ask(a->socket, "POST", target, KH_SLICE(""), &got, &err);
	char *said = NULL;
	if (!ok)
		said = strdup(err.text);
	else if (got.status != 200)
		said = text_of(&got, "error");
	else
		said = text_of(&got, "text");
	if (!said && ok && got.status == 200)
		said = strdup(strcmp(answer, "once") == 0  ? "allowed once"
			      : strcmp(answer, "run") == 0 ? "allowed for this run"
							   : "refused");
	kh_ctl_answer_fini(&got);
	return said;
}

/* An answer to the question that is shown. */
static void answer_current(struct ask *a, const char *answer)
{
	uint32_t id = a->current;
	kh_auto_free char *said = send_answer(a, id, answer);
	(void)printf("\r  ");
	kh_ask_question_put(said ? said : "no memory");
	(void)printf("\x1b[K\n");
	a->current = 0;
	forget(a, id);
}

/* Keys as they come. One of them answers; the others were for nothing that is seen. */
static void take_keys(struct ask *a)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		a->ended = true;
		return;
	}
	if (a->current == 0 || kh_clock_mono_ms() - a->shown_ms < GUARD_MS)
		return;
	for (ssize_t i = 0; i < n; i++) {
		bool enter = keys[i] == '\n' || keys[i] == '\r';
		const char *answer = enter ? "no" : answer_of(keys[i]);
		if (!answer)
			continue;
		answer_current(a, answer);
		return;
	}
}

/* "7 y" */
static void take_line(struct ask *a, struct kh_slice line)
{
	line = kh_slice_trim(line);
	size_t blank = kh_slice_find(line, ' ', 0);
	struct kh_slice letter = kh_slice_trim(kh_slice_sub(line, blank, line.len));
	uint64_t id;
	if (line.len == 0)
		return;
	const char *answer = letter.len == 1 ? answer_of(letter.ptr[0]) : NULL;
	if (!answer || !kh_slice_to_u64(kh_slice_sub(line, 0, blank), &id) || id == 0 ||
	    id > UINT32_MAX) {
		kh_cli_complain("ask: an answer is a number and y, r or n, such as \"7 y\"");
		return;
	}
	/* What this program has not shown can't be meant. */
	kh_auto_free char *said = find(a, (uint32_t)id)
					  ? send_answer(a, (uint32_t)id, answer)
					  : strdup("this request does not wait any more");
	forget(a, (uint32_t)id);
	if (a->json)
		return;
	(void)printf("%u ", (unsigned)id);
	kh_ask_question_put(said ? said : "no memory");
	(void)putchar('\n');
	a->broken = fflush(stdout) != 0;
}

static void take_input(struct ask *a)
{
	char bytes[1024];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
	if (n < 0 && errno == EINTR)
		return;
	a->ended = n <= 0;
	for (ssize_t i = 0; i < n; i++) {
		if (bytes[i] != '\n') {
			a->line_too_long = a->line_too_long || a->line_len == sizeof(a->line);
			if (!a->line_too_long)
				a->line[a->line_len++] = bytes[i];
			continue;
		}
		take_line(a, a->line_too_long ? KH_SLICE("?") : kh_slice_of(a->line, a->line_len));
		a->line_len = 0;
		a->line_too_long = false;
	}
}

/* ---- the whole ---- */

/* An answer that is no stream: why not. */
static void complain_of(const struct kh_ctl_answer *answer)
{
	kh_auto_free char *error = text_of(answer, "error");
	kh_cli_complain("ask: %s", kh_esc_str(error ? error : "its answer is not understood"));
}

/* From here on requests wait. */
static void greet(struct ask *a)
{
	a->greeted = true;
	kh_cli_complain("ask: until you end this (^C), what no rule allows in %s waits for you",
			a->id);
}

/* A worker that was started anew counts from 1 again: a line that was written for a question of the
 * one before would answer another. */
static bool may_go_on(struct ask *a)
{
	if (!a->greeted)
		greet(a);
	else if (!a->first && !a->terminal)
		a->anew = true;
	return !a->anew;
}

enum heard { HEARD_END, HEARD_AGAIN, HEARD_FAILED };

/* Until the daemon, or the person, ends it. */
static enum heard listen_to(struct ask *a, struct kh_ctl_stream *stream, struct kh_err *err)
{
	enum kh_ctl_heard heard = KH_CTL_MORE;
	while (heard == KH_CTL_MORE && !a->ended && !a->broken && !signalled) {
		struct pollfd fds[2] = { { .fd = stream->fd, .events = POLLIN },
					 { .fd = STDIN_FILENO, .events = POLLIN } };
		int n = poll(fds, 2, TICK_MS);
		if (n > 0 && fds[0].revents)
			heard = kh_ctl_stream_take(stream, take_event, a, err);
		if (stream->answer.status == 200 && !may_go_on(a))
			return HEARD_END;
		if (n > 0 && fds[1].revents && a->terminal)
			take_keys(a);
		else if (n > 0 && fds[1].revents)
			take_input(a);
		if (a->terminal)
			show_on_terminal(a);
	}
	if (heard == KH_CTL_FAILED)
		return HEARD_FAILED;
	if (heard == KH_CTL_OVER && stream->answer.status != 200 && stream->answer.status != 0) {
		complain_of(&stream->answer);
		return HEARD_FAILED;
	}
	return heard == KH_CTL_OVER && !a->broken ? HEARD_AGAIN : HEARD_END;
}

static void pause_a_moment(void)
{
	const struct timespec moment = { .tv_nsec = AGAIN_MS * 1000L * 1000 };
	(void)nanosleep(&moment, NULL);
}

/* A worker that ends is replaced, and waits for nobody then. */
static int follow(struct ask *a)
{
	for (bool first = true; !signalled; first = false) {
		struct kh_ctl_stream stream;
		struct kh_err err = KH_ERR_INIT;
		enum heard heard = HEARD_FAILED;
		bool complained = false;
		a->first = first;
		if (kh_ctl_stream_open(&stream, a->socket, "/v1/questions", &err)) {
			heard = listen_to(a, &stream, &err);
			complained = heard == HEARD_FAILED && err.code == KH_ERR_NONE;
			kh_ctl_stream_close(&stream);
		}
		end_question(a, "the run does not wait any more");
		forget_all(a);
		if (heard == HEARD_END)
			break;
		if (heard == HEARD_FAILED && first && !complained)
			kh_cli_complain_err(&err);
		if (heard == HEARD_FAILED && (first || complained))
			return KH_EXIT_FAILED;
		if (heard == HEARD_FAILED) {
			kh_cli_complain("ask: the run has ended");
			break;
		}
		pause_a_moment();
	}
	if (a->anew)
		kh_cli_complain("ask: the run's proxy was started anew: start this again");
	return a->broken || a->anew ? KH_EXIT_FAILED : 0;
}

static int serve(struct ask *a)
{
	static const int ending[] = { SIGHUP, SIGINT, SIGTERM };
	struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART: it ends poll */
	struct termios before;
	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		(void)sigaction(ending[i], &action, NULL);
	a->terminal = !a->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	a->terminal = a->terminal && kh_ask_take_keys(&before);
	int status = follow(a);
	if (a->terminal)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
	if (signalled) {
		(void)signal(signalled, SIG_DFL);
		(void)raise(signalled);
	}
	return status;
}

static int ask_for(bool json, const char *typed)
{
	struct ask *a = calloc(1, sizeof(*a));
	struct kh_run_asking asking;
	struct kh_err err = KH_ERR_INIT;
	int status = KH_EXIT_FAILED;
	const struct kh_run_asks *run = NULL;
	if (!kh_run_asking_find(&asking, &err) || !a)
		kh_cli_complain("ask: no memory");
	else
		run = kh_run_asking_choose(&asking, typed);
	if (run && a) {
		a->socket = run->socket;
		a->json = json;
		a->id = run->id;
		status = serve(a);
	}
	kh_run_asking_fini(&asking);
	free(a);
	return status;
}

int kh_cli_ask(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool json = false;
	for (int option; (option = kh_cli_option(argc, argv, "h", longs)) != -1;) {
		if (option == 'h') {
			fputs(usage, stdout);
			return ferror(stdout) ? KH_EXIT_FAILED : 0;
		}
		if (option != 'j')
			return KH_EXIT_USAGE;
		json = true;
	}
	if (argc - optind > 1) {
		kh_cli_complain("ask: one RUN at most (usage: keyhole ask [--json] [RUN])");
		return KH_EXIT_USAGE;
	}
	return ask_for(json, argv[optind]);
}
