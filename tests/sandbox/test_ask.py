"""`keyhole run --ask`, answered with `keyhole ask`: what waits, what an answer opens, and what it never does."""

import base64
import fcntl
import json
import os
import pty
import queue
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest
from conftest import HERE, PATIENCE, USER  # noqa: F401

sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration")]
from harness import SECRET, Upstream  # noqa: E402
from test_run import Run  # noqa: E402

NAME, KEYED = "open.test", "keyed.test"
AT_ONCE = 4  # seconds: less than any wait here that is not meant to end


@pytest.fixture(scope="module")
def mock(tmp_path_factory):
    upstream = Upstream(str(tmp_path_factory.mktemp("mock")), [NAME, KEYED, "denied.test"])
    yield upstream
    upstream.stop()


class Asking:
    """A run with --ask, whose command does what it reads from its standard input."""

    def __init__(self, run, path, *options):
        self.run = run
        self.process = subprocess.Popen(
            run.command("--ask", *options, "-c", path, "--", "sh", "-c", 'while read -r line; do eval "$line"; done', use=None),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=run.environment(), cwd="/",
        )  # fmt: skip
        self.errors = ""
        while "keyhole ask run-" not in self.errors:
            line = self.process.stderr.readline()
            assert line, self.errors
            self.errors += line
        self.id = re.search(r"keyhole ask (run-\w{6})`", self.errors)[1]
        self.folder = os.path.join(run.runtime, "keyhole-" + self.id)
        self.socket = os.path.join(self.folder, "ask")
        self.asks = []

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def python(self, code):
        program = base64.b64encode(code.encode()).decode()
        self.do(f"echo {program} | base64 -d > /tmp/program.py; /usr/bin/python3 -I /tmp/program.py")

    def get(self, path="/test/echo", options="", host=NAME):
        """Starts a request; its status is one line of the output."""
        self.do(f"curl -sS -o /dev/null -w '%{{http_code}}\\n' {options} 'https://{host}{path}' &")

    def status(self):
        return int(self.process.stdout.readline())

    def ask(self, *options, **more):
        one = Ask(self.run, [*options, self.id], **more)
        self.asks.append(one)
        return one

    def end(self):
        for one in self.asks:
            one.end()
        if self.process.poll() is None:
            self.do("wait")
            self.process.stdin.close()
            self.process.wait(PATIENCE)
        if not self.process.stderr.closed:
            self.errors += self.process.stderr.read()
            self.process.stderr.close()
            self.process.stdout.close()


class Ask:
    """`keyhole ask` through pipes."""

    def __init__(self, run, words, json_lines=True, wait=True):
        self.json_lines = json_lines
        command = run.sandbox.as_identity([run.keyhole, "ask", *(["--json"] if json_lines else []), *words])
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=run.environment(), cwd="/",
        )  # fmt: skip
        if wait:
            line = self.process.stderr.readline()
            assert "waits for you" in line, line
        self.lines = queue.Queue()
        self.all = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.all.append(line)
            self.lines.put(line)
        self.lines.put(None)

    def next(self, timeout=PATIENCE):
        line = self.lines.get(timeout=timeout)
        assert line is not None, "keyhole ask has ended"
        return json.loads(line) if self.json_lines else line

    def question(self):
        event = self.next()
        assert event["event"] == "question", event
        return event

    def silent(self):
        time.sleep(0.3)
        return self.lines.empty()

    def say(self, id, letter):
        self.process.stdin.write(f"{id} {letter}\n")
        self.process.stdin.flush()

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(PATIENCE)
        self.process.stderr.close()


@pytest.fixture
def asking(sandbox, mock):
    run = Run(sandbox)
    conf = sandbox.folder("conf", 0o700)
    ca = sandbox.file(os.path.join(conf, "roots.pem"), open(mock.ca, encoding="ascii").read())
    token = sandbox.file(os.path.join(conf, "token"), SECRET, 0o600)
    config = {
        "version": 1,
        "authority": {"certificate": "ca.pem", "key": "ca.key"},
        "audit": {"file": "audit.jsonl"},
        "upstream": {"ca_file": ca, "resolve": {n: mock.address for n in (NAME, KEYED, "denied.test")}},
        "credentials": {"key": {"value": {"file": token}, "header": {"x-api-key": "{}"}, "hosts": [KEYED], "placeholder": {"env": "SOME_API_KEY"}}},
        "tenants": {"one": {"rules": [{"deny": "https://denied.test"}, {"allow": f"https://{KEYED}/test/allowed/**", "credential": "key"}]}},
    }  # fmt: skip
    path = sandbox.file(os.path.join(conf, "keyhole.yaml"), json.dumps(config))
    started = []

    def start(*options):
        one = Asking(run, path, *options)
        one.journal = os.path.join(conf, "audit.jsonl")
        one.config = path
        started.append(one)
        return one

    yield start
    for one in started:
        one.end()
        assert SECRET not in one.errors
        verify = subprocess.run([run.keyhole, "audit", "verify", one.journal], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert verify.returncode == 0, verify.stdout + verify.stderr


def records(one, event, path=None):
    """Of the run's journal; waited for."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with open(one.journal, encoding="utf-8") as file:
            found = [r for line in file if (r := json.loads(line))["event"] == event and path in (None, r.get("url.path"))]
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {event} record")


# --- without anybody who listens ------------------------------------------------------------------


def test_where_nobody_listens_it_is_refused_at_once_as_ever(asking):
    one = asking()
    began = time.monotonic()
    one.get("/test/echo")
    assert one.status() == 403 and time.monotonic() - began < AT_ONCE
    record = records(one, "deny", "/test/echo")[0]
    assert (record["reason"], record["detail"]) == ("no_rule", "no rule allows it")
    assert not any(key.startswith("answer") for key in record)


def test_when_the_listener_goes_what_waits_is_refused(asking):
    one = asking()
    ask = one.ask()
    one.get()
    ask.question()
    ask.end()
    assert one.status() == 403
    assert "nobody is there to answer any more" in records(one, "deny")[0]["detail"]
    one.get("/test/echo?again")
    assert one.status() == 403
    # Another one may listen now.
    again = one.ask()
    one.get("/test/echo?third")
    again.say(again.question()["id"], "y")
    assert one.status() == 200


# --- the answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_once_lets_it_pass_once_without_a_credential(asking, mock, version):
    one = asking()
    ask = one.ask()
    since = mock.mark()
    one.get("/test/echo?q=1", version, host=KEYED)
    question = ask.question()
    assert question["request"] == f"GET https://{KEYED}/test/echo?q=1"
    assert 0 < question["left_ms"] <= 60_000
    assert not mock.requests(since=since)
    ask.say(question["id"], "y")
    assert one.status() == 200
    assert ask.next() == {"event": "over", "id": question["id"]}
    record = records(one, "open", "/test/echo")[0]
    uid = USER if one.run.sandbox.identity == "user" and os.geteuid() == 0 else os.geteuid()
    assert (record["answer"], record["answer.uid"], record["rule"]) == ("once", uid, "a person's answer")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["answer.time"])
    assert record["answer.time"] <= record["time"]
    assert "credential" not in record
    assert SECRET not in json.dumps(mock.requests(since=since))
    shown = subprocess.run([one.run.keyhole, "audit", "show", one.journal], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert f"answer once by user {uid}" in shown.stdout
    one.get("/test/echo?q=1", version, host=KEYED)
    ask.say(ask.question()["id"], "n")
    assert one.status() == 403


def test_for_this_run_the_same_method_host_and_path_pass_and_nothing_else(asking):
    one = asking()
    ask = one.ask()
    one.get("/test/echo?q=1")
    question = ask.question()
    ask.say(question["id"], "r")
    assert one.status() == 200
    assert ask.next()["event"] == "over"
    for options in ("", "--http1.1"):
        one.get("/test/echo?q=2", options)
        assert one.status() == 200
    assert ask.silent()
    assert {r["answer"] for r in records(one, "open", "/test/echo")} == {"run"}
    for path, options in (("/test/echo/", ""), ("/test/echo", "-X POST"), ("/test/", "")):
        one.get(path, options)
        ask.say(ask.question()["id"], "n")
        assert one.status() == 403
        assert ask.next()["event"] == "over"
    ask.end()
    one.get("/test/echo?q=3")
    assert one.status() == 200  # also when nobody listens any more


def test_no_is_a_refusal_that_says_so(asking, mock):
    one = asking()
    ask = one.ask()
    since = mock.mark()
    one.get()
    ask.say(ask.question()["id"], "n")
    assert one.status() == 403
    record = records(one, "deny")[0]
    assert (record["answer"], record["reason"]) == ("no", "no_rule")
    assert record["detail"] == "no rule allows it, and the person who was asked said no"
    assert not mock.requests(since=since)


def test_without_an_answer_it_is_refused_when_its_time_is_up(asking):
    one = asking("--ask-time", "1s")
    ask = one.ask()
    began = time.monotonic()
    one.get()
    question = ask.question()
    assert question["left_ms"] <= 1000
    assert one.status() == 403 and 0.9 < time.monotonic() - began < PATIENCE / 2
    assert "nobody answered in time" in records(one, "deny")[0]["detail"]
    assert ask.next() == {"event": "over", "id": question["id"]}
    ask.say(question["id"], "y")  # too late
    one.get("/test/echo?2")
    assert ask.question()["request"].endswith("?2")
    assert one.status() == 403


def test_a_client_that_leaves_is_not_waited_for(asking):
    for version in ("--http1.1", "--http2"):
        one = asking()
        ask = one.ask()
        one.get("/test/echo", f"--max-time 1 {version}")
        question = ask.question()
        assert one.process.stdout.readline() == "000\n"
        assert ask.next() == {"event": "over", "id": question["id"]}
        one.get("/test/echo?next")
        ask.say(ask.question()["id"], "y")
        assert one.status() == 200
        one.end()


def test_the_same_request_several_times_is_one_question(asking):
    one = asking()
    ask = one.ask()
    for _ in range(3):
        one.get("/test/echo?same")
    question = ask.question()
    time.sleep(1)
    assert ask.lines.empty()
    ask.say(question["id"], "y")
    assert [one.status() for _ in range(3)] == [200, 200, 200]


def test_content_is_sent_only_after_the_answer(asking, mock):
    one = asking()
    ask = one.ask()
    since = mock.mark()
    one.do("head -c 300000 /dev/zero | tr '\\0' x > /tmp/content")
    one.get("/test/echo", "--data-binary @/tmp/content")
    question = ask.question()
    assert not mock.requests(since=since)
    ask.say(question["id"], "y")
    assert one.status() == 200
    assert records(one, "close")[0]["http.request.body.size"] == 300000


# --- what is never asked --------------------------------------------------------------------------


def test_what_is_refused_for_another_reason_is_not_asked(asking, mock):
    one = asking()
    ask = one.ask()
    since = mock.mark()
    one.do("export KEY=$SOME_API_KEY")
    cases = [
        ("https://denied.test/test/echo", "", "denied_by_rule"),
        ("https://DENIED.test/test/echo", "", "denied_by_rule"),
        (f"https://{NAME}/a%2Fb", "", "no_rule"),
        (f"https://{NAME}/o", "-H 'X-HTTP-Method-Override: DELETE'", "no_rule"),
        (f"https://{NAME}/f", "-H 'X-Forwarded-Host: other.test'", "no_rule"),
        (f"https://{NAME}/auth", "-H 'Authorization: Bearer abc'", "no_rule"),
        (f"https://{NAME}/own", '-H "X-Own: $KEY"', "no_rule"),
        (f"https://{NAME}/secret", f"-H 'X-Leak: {SECRET}'", "exfiltration"),
        (f"https://{NAME}/{SECRET}", "", "exfiltration"),
        ("http://127.0.0.1/", "--proxy http://127.0.0.1:3128 --noproxy ''", "no_rule"),
        ("http://169.254.169.254/latest/meta-data/", "", "no_rule"),
        ("http://10.1.2.3/", "", "no_rule"),
        ("http://localhost/", "--noproxy ''", "no_rule"),
    ]
    for url, options, reason in cases:
        began = time.monotonic()
        one.do(f"curl -sS -o /dev/null -w '%{{http_code}}\\n' {options} '{url}'")
        assert one.status() == 403, url
        assert time.monotonic() - began < AT_ONCE, url
        assert records(one, "deny")[-1]["reason"] == reason, (url, records(one, "deny")[-1])
    assert ask.silent() and ask.all == []
    assert not mock.requests(since=since)


def test_an_answer_opens_no_address_that_is_refused(asking):
    """A name is looked up only after the answer; what it leads to is judged then."""
    one = asking()
    ask = one.ask()
    one.do("curl -sS -o /dev/null -w '%{http_code}\\n' http://[::ffff:10.1.2.3]/ --globoff")
    assert one.status() == 403
    one.get("/", host="no-such-host.test")
    ask.say(ask.question()["id"], "y")
    assert one.status() in (403, 502, 504)


def test_the_content_of_what_was_allowed_may_still_hold_no_real_credential(asking, mock):
    one = asking()
    ask = one.ask()
    one.get("/test/echo", f"-H 'X-A: 1' -H 'X-Leak: {SECRET}'")
    assert one.status() == 403
    one.get("/test/echo")
    ask.say(ask.question()["id"], "r")
    assert one.status() == 200
    since = mock.mark()
    one.get("/test/echo", f"-H 'X-Leak: {SECRET}'")  # remembered, and held back all the same
    assert one.status() == 403
    assert not mock.requests(since=since)


# --- floods, and text -----------------------------------------------------------------------------


def test_a_flood_is_bounded_and_the_rest_is_refused_at_once(asking):
    one = asking()
    ask = one.ask()
    one.do(f"for i in $(seq 24); do curl -sS -o /dev/null -w '%{{http_code}}\\n' https://{NAME}/test/echo?$i & done")
    began = time.monotonic()
    assert [one.status() for _ in range(8)] == [403] * 8
    assert time.monotonic() - began < PATIENCE / 2
    questions = [ask.question() for _ in range(16)]
    assert ask.silent()
    assert len({q["request"] for q in questions}) == 16
    for question in questions:
        ask.say(question["id"], "n")
    assert [one.status() for _ in range(16)] == [403] * 16


@pytest.mark.parametrize("json_lines", [True, False], ids=["json", "lines"])
def test_nothing_that_an_agent_writes_reaches_the_terminal_raw(asking, json_lines):
    one = asking()
    ask = one.ask(json_lines=json_lines)
    code = f"""
import socket, ssl
for target in (b"/\\x1b[2J", b"/\\xe2\\x80\\xae", b"/%1b%5b2J", b"/%e2%80%ae", b"/" + b"x" * 4000, b"/\\"quoted\\\\", b"/last"):
    for method in (b"GET", b"G\\x1bT", b"{'M' * 2000}"):
        s = socket.create_connection(("127.0.0.1", 3128)); s.settimeout(1)
        s.sendall(method + b" http://{NAME}" + target + b" HTTP/1.1\\r\\nHost: {NAME}\\r\\n\\r\\n")
        try: s.recv(100)
        except OSError: pass
print("200", flush=True)
"""
    one.python(code)
    assert one.status() == 200
    assert ask.silent() or True
    seen = "".join(ask.all)
    assert "/%e2%80%ae" in seen and "/last" in seen
    assert not re.search(r"[^\n\x20-\x7e]", seen)
    assert all(len(line) < 2 * 1024 for line in ask.all)
    assert "xxxx" not in seen and "MMMM" not in seen


def test_what_is_shown_is_what_is_sent(asking, mock):
    one = asking()
    ask = one.ask()
    for path in ("//other.test/x", "/a;x=1", "/test/%65cho", "/https://github.com/", "/test/echo?u=https://github.com/&u=2"):
        since = mock.mark()
        one.get(f"{path}", "--path-as-is")
        question = ask.question()
        assert question["request"] == f"GET https://{NAME}{path}"
        ask.say(question["id"], "y")
        assert one.status() in (200, 404)
        assert [r["target"] for r in mock.requests(since=since)] == [path]
        assert ask.next()["event"] == "over"
    # What a server could read as another path is not asked about.
    for path in ("/a/../b", "/a/%2e%2e/b"):
        one.get(path, "--path-as-is")
        assert one.status() == 400
    assert ask.silent()


# --- who may answer -------------------------------------------------------------------------------


def test_a_second_listener_is_told_that_there_is_one(asking):
    one = asking()
    first = one.ask()
    second = one.ask(wait=False)
    assert second.process.wait(PATIENCE) == 1
    said = second.process.stderr.read()
    assert re.fullmatch(r"keyhole: ask: another `keyhole ask` answers for this run already \(process \d+\)\n", said), said
    one.get()
    first.say(first.question()["id"], "y")
    assert one.status() == 200


def talk(path, request):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(path)
        s.sendall(request)
        return s.recv(4096).decode()


REQUEST = b"%s HTTP/1.1\r\nHost: k\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def test_the_socket_is_its_owners_and_serves_answers_only(asking):
    one = asking()
    assert os.stat(one.socket).st_mode & 0o777 == 0o600
    for path in ("/v1/status", "/v1/events", "/v1/sandboxes", "/v1/reload", "/v1/drain", "/metrics", "/healthz"):
        for method in ("GET", "POST"):
            assert talk(one.socket, REQUEST % f"{method} {path}".encode()).startswith("HTTP/1.1 404 "), path
    for query in ("", "?", "?id=1", "?id=0&answer=once", "?id=-1&answer=once", "?id=1&answer=yes", "?answer=once&id=1", "?id=1&answer=once&x"):
        assert talk(one.socket, REQUEST % b"POST /v1/questions%s" % query.encode()).startswith("HTTP/1.1 400 "), query
    assert talk(one.socket, REQUEST % b"POST /v1/questions?id=7&answer=once").startswith("HTTP/1.1 404 ")
    assert talk(one.socket, REQUEST % b"PUT /v1/questions").startswith("HTTP/1.1 405 ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_user_may_neither_listen_nor_answer(asking):
    one = asking()
    if one.run.sandbox.identity == "root":
        pytest.skip("root is everybody's owner")
    code = f"""
import os, socket, sys
os.setgroups([]); os.setgid({USER + 1}); os.setuid({USER + 1})
s = socket.socket(socket.AF_UNIX)
try: s.connect({one.socket!r})
except PermissionError: print("no way in"); sys.exit()
s.sendall({REQUEST % b"GET /v1/questions"!r}); print(s.recv(100).decode().splitlines()[0])
"""
    def stranger():
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout

    assert stranger() == "no way in\n"
    os.chmod(one.folder, 0o755)
    os.chmod(one.socket, 0o666)
    assert stranger() == "HTTP/1.1 403 Forbidden\n"
    # root may.
    assert talk(one.socket, REQUEST % b"POST /v1/questions?id=7&answer=once").startswith("HTTP/1.1 404 ")


def test_the_sandbox_does_not_see_the_socket(asking):
    one = asking()
    code = f"""
import os, socket
try: socket.socket(socket.AF_UNIX).connect({one.socket!r}); print("seen")
except OSError as e: print(type(e).__name__)
print([p for top in ("/run", "/tmp") for p, _, names in os.walk(top) if "ask" in names])
"""
    one.python(code)
    assert one.process.stdout.readline() == "FileNotFoundError\n"
    assert one.process.stdout.readline() == "[]\n"
    done = one.run("--ro", os.path.dirname(one.folder), "-c", one.config, "--audit", "/dev/null", "--ask", "--", "true", use=None)
    assert done.returncode != 0


# --- the command itself ---------------------------------------------------------------------------


def test_of_several_runs_one_has_to_be_named(asking, sandbox):
    one = asking()
    run = one.run

    def ask(*words):
        return subprocess.run(sandbox.as_identity([run.keyhole, "ask", *words]), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE, check=False, env=run.environment(), cwd="/")  # fmt: skip

    assert ask().returncode == 0  # the only one; its standard input is at its end
    done = ask("run-nobody")
    assert done.returncode == 1 and f"no such run (say which: keyhole ask RUN); there are:\n  {one.id}\n" in done.stderr
    two = Asking(run, one.config, "--audit", os.path.join(os.path.dirname(one.journal), "two.jsonl"))
    done = ask()
    assert done.returncode == 1 and done.stderr.startswith("keyhole: ask: several runs ask (say which: keyhole ask RUN); there are:\n")
    assert sorted(done.stderr.split()[-2:]) == sorted([one.id, two.id])
    assert ask(two.id.removeprefix("run-")).returncode == 0
    two.end()
    one.end()
    done = ask()
    assert (done.returncode, done.stderr) == (1, "keyhole: ask: no `keyhole run --ask` of yours is running\n")
    assert run.folders() == []


def test_it_ends_with_the_run(asking):
    one = asking()
    ask = one.ask()
    one.do("exit 0")
    assert ask.process.wait(PATIENCE) == 0
    assert ask.process.stderr.read() == "keyhole: ask: the run has ended\n"


def worker_of(launcher):
    """Of a run: it is its keeper's child, and the launcher's grandchild."""
    parents, names = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        parents[int(pid)], names[int(pid)] = int(rest.split()[1]), name

    def line(pid):
        return [] if pid in (0, None) else [pid, *line(parents.get(pid))]

    found = [pid for pid in parents if launcher in line(pid)[1:]]
    return [pid for pid in found if "worker" in names[pid]][0]


def test_a_line_for_a_worker_that_is_gone_answers_nothing(asking):
    """The next worker numbers its questions from 1 again."""
    one = asking()
    ask = one.ask()
    one.get()
    assert ask.question()["id"] == 1
    os.kill(worker_of(one.process.pid), signal.SIGKILL)
    ask.say(1, "y")
    assert ask.process.wait(PATIENCE) == 1
    assert ask.process.stderr.read() == "keyhole: ask: the run's proxy was started anew: start this again\n"
    one.status()
    again = one.ask()
    one.get()
    again.say(again.question()["id"], "y")
    assert one.status() == 200


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_what_waits_is_refused(asking, signo):
    one = asking()
    ask = one.ask()
    one.get()
    ask.question()
    ask.process.send_signal(signo)
    assert ask.process.wait(PATIENCE) == -signo
    assert one.status() == 403


def test_a_line_that_is_no_answer_is_named_and_answers_nothing(asking):
    one = asking()
    ask = one.ask(json_lines=False)
    one.get()
    line = ask.next()
    assert re.fullmatch(rf"1 GET https://{NAME}/test/echo \(y once, r for this run with any query, n no; \d+s left\)\n", line), line
    for wrong in ("y", "1", "1 yes", "1 q", "-1 y", "0 y", "1 y r", "x" * 5000):
        ask.process.stdin.write(wrong + "\n")
        ask.process.stdin.flush()
        assert ask.process.stderr.readline() == 'keyhole: ask: an answer is a number and y, r or n, such as "7 y"\n'
    ask.say(2, "y")
    assert ask.next() == "2 this request does not wait any more\n"
    ask.say(1, "y")
    assert ask.next() == "1 allowed once\n"
    assert one.status() == 200


class Terminal:
    """`keyhole ask` on a terminal of its own."""

    def __init__(self, run, id, columns=200):
        self.columns = columns
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(run.sandbox.as_identity([run.keyhole, "ask", id]), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        env=run.environment(), cwd="/")  # fmt: skip
        self.slave = slave
        self.seen = ""

    def until(self, text):
        """Waits for a text; a terminal has lines, so blanks and line ends are the same."""
        end = time.monotonic() + PATIENCE
        while text not in re.sub(r"\s+", " ", self.seen):
            assert time.monotonic() < end and select.select([self.master], [], [], PATIENCE)[0], (text, self.seen)
            self.seen += os.read(self.master, 4096).decode()
        self.seen = re.sub(r"\s+", " ", self.seen).split(text, 1)[1]

    def rows(self, text, seconds=0):
        """Waits for a text and so many seconds more; what the terminal shows then, row by row."""
        raw, end = "", None
        while end is None or time.monotonic() < end:
            if select.select([self.master], [], [], PATIENCE if end is None else 0.2)[0]:
                raw += os.read(self.master, 4096).decode()
            if end is None and text in raw:
                end = time.monotonic() + seconds
        rows, at = [""], 0
        for char in re.sub(r"\x1b\[K", "", raw).replace("\r\n", "\n"):
            if char in "\r\n":
                at = 0
            if char == "\n" or (char != "\r" and at == self.columns):
                rows.append("")
                at = 0
            if char not in "\r\n":
                rows[-1] = rows[-1][:at] + char + rows[-1][at + 1 :]
                at += 1
        return rows

    def key(self, keys):
        os.write(self.master, keys)

    def echoes(self):
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


def test_on_a_terminal_a_key_answers_the_question_that_is_shown(asking):
    one = asking()
    terminal = Terminal(one.run, one.id)
    terminal.until("waits for you")
    assert not terminal.echoes()
    for path, key, said, status in (("/test/echo?1", b"y", "allowed once", 200), ("/test/echo?2", b"\r", "refused", 403),
                                    ("/test/echo?3", b"xn", "refused", 403), ("/test/echo?4", b"R", "allowed for this run", 200)):  # fmt: skip
        one.get(path)
        terminal.until(f"GET https://{NAME}{path}")
        terminal.until("y: once r: for this run, any query n: no (or Enter)")
        terminal.until("s left")
        time.sleep(0.7)
        terminal.key(key)
        terminal.until(said)
        assert one.status() == status
    terminal.end()
    assert terminal.echoes()


@pytest.mark.identity("user")
def test_no_row_of_a_question_looks_like_another_and_no_edge_ends_its_host(asking):
    """The agent chooses method and URL, and may guess how wide the terminal is."""
    one = asking()
    terminal = Terminal(one.run, one.id, columns=80)
    terminal.until("for you")
    lure = "https://docs.python.org/3/library/"
    # The URL goes on where a row begins.
    one.get("/" + "-" * (80 - len(f"GET https://{NAME}/") + 9 * 80) + lure, "--path-as-is")
    rows = terminal.rows("s left")
    first = rows.index("GET ")
    assert rows[first + 1].startswith(f" > https://{NAME}/---"), rows
    assert all(row.startswith(" > ") for row in rows[first + 1 : -2]), rows
    assert rows[-2] == f"  host: {NAME}" and rows[-1].startswith("  y: once"), rows
    terminal.key(b"n")
    time.sleep(0.7)
    terminal.key(b"n")
    terminal.until("refused")
    assert one.status() == 403
    # The method puts the edge into the host, and so does a longer one.
    for length in (80 - len(f" https://{NAME[:4]}"), 150):
        one.get("/x", f"-X {'G' * length}")
        rows = terminal.rows("s left")
        at = rows.index(f" > https://{NAME}/x")
        assert rows[at + 1] == f"  host: {NAME}" and rows[at + 2].startswith("  y: once"), rows
        time.sleep(0.7)
        terminal.key(b"n")
        terminal.until("refused")
        assert one.status() == 403
    terminal.end()


@pytest.mark.identity("user")
def test_on_a_narrow_terminal_the_question_stays_above_the_keys(asking):
    one = asking()
    terminal = Terminal(one.run, one.id, columns=40)
    terminal.until("for you")
    one.get("/short")
    rows = terminal.rows("y/r/n", seconds=2.5)
    assert rows[-2] == f"GET https://{NAME}/short" and rows[-1].startswith("  y/r/n  5"), rows
    terminal.end()


def test_a_key_that_was_typed_before_the_question_was_seen_answers_nothing(asking):
    one = asking()
    terminal = Terminal(one.run, one.id)
    terminal.until("waits for you")
    terminal.key(b"yyyy\r\r")
    time.sleep(0.3)
    one.get("/test/echo?1")
    terminal.until(f"GET https://{NAME}/test/echo?1")
    terminal.key(b"y")  # meant for something else: it came with the question
    terminal.until("s left")
    one.get("/test/echo?2")
    terminal.until("1 more")
    time.sleep(0.7)
    terminal.key(b"yyyy")  # one of them answers, and none the question that follows
    terminal.until("allowed once")
    assert one.status() == 200
    terminal.until(f"GET https://{NAME}/test/echo?2")
    time.sleep(0.7)
    terminal.key(b"n")
    terminal.until("refused")
    assert one.status() == 403
    terminal.end()


def test_options_that_do_not_go_together(sandbox):
    run = Run(sandbox)
    for options, said in (
        (["--ask", "--observe"], "keyhole: run: --ask does not go with --observe"),
        (["--ask-time", "5s"], "keyhole: run: --ask-time goes with --ask only"),
        (["--ask", "--ask-time", "61s"], "keyhole: --ask-time 61s: wants a duration up to 60s, such as 20s"),
        (["--ask", "--ask-time", "0s"], "keyhole: --ask-time 0s: wants a duration up to 60s, such as 20s"),
    ):
        done = run(*options, "--", "true", use=None)
        assert done.returncode == 125 and done.stderr.startswith(said), done.stderr
