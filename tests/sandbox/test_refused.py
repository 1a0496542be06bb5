"""The end of `keyhole run`: each place that was refused, and words to allow it that do. --allow and --observe."""

import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import termios
import threading

import pytest
from test_attach import running  # noqa: F401
from test_clients import mock  # noqa: F401
from test_run import KEY, Run

CURL = "curl -s -o /dev/null --noproxy '' -w '%{http_code} ' "


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


@pytest.fixture
def places(run):
    """A file by which other.test leads nowhere on the host itself: nothing of a test leaves it."""
    config = {
        "version": 1,
        "audit": {"file": "audit.jsonl"},
        "upstream": {"resolve": {name: "127.0.0.1:9" for name in ("other.test", "registry.npmjs.org")},
                     "allow_addresses": ["127.0.0.1/32"]},
        "tenants": {"one": {"rules": [
            {"deny": "https://other.test/no/**"}, {"allow": "GET https://other.test/yes"}, {"allow": "http://10.1.2.3"}]}},
    }  # fmt: skip
    return run.sandbox.file(os.path.join(run.sandbox.folder("conf", 0o700), "keyhole.yaml"), json.dumps(config))


OPEN = "keyhole: run: warning: NO RULE IS ENFORCED (--observe): the network is open to this command\n"


def lines(done, begun=""):
    """Behind the first one, which counts. What was said when the run began stands in front of it."""
    assert done.stderr.startswith(begun), done.stderr
    said = [line for line in done.stderr.removeprefix(begun).splitlines() if line.startswith("keyhole: ")]
    assert re.match(r"keyhole: \d+ requests? allowed", said[0]), said
    said = [line.removeprefix("keyhole: ") for line in said[1:]]
    return [line for line in said if not line.startswith(("failed ", "  see each: "))]


def failures(done):
    return [line.removeprefix("keyhole: ") for line in done.stderr.splitlines() if line.startswith(("keyhole: failed ", "keyhole:   see each"))]


def on_a_terminal(run, columns, *words):
    """The lines that keyhole writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    runs = subprocess.Popen(run.command(*words, use=None), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
                            cwd="/", env=run.environment())  # fmt: skip
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while more := os.read(ours, 65536):
            said += more
    os.close(ours)
    runs.wait(timeout=60)
    text = re.sub(r".*\x1b\[[^k]*", "", said.decode(), flags=re.DOTALL)
    return text.split("\r\n")[:-1]


def test_what_is_to_be_pasted_is_not_broken_on_a_terminal(run, places):
    url = "https://other.test/some/longer/path/to/a/page/of/the/manual/that/no/row/has/room/for.html"
    said = on_a_terminal(run, 60, "--use", "github:repos=globex/app", "-c", places, "--audit", run.sandbox.place + "/j.jsonl", "--", "sh", "-c",
                         CURL + url + "; " + CURL + "-d x https://github.com/globex/app/git-receive-pack")  # fmt: skip
    assert f"keyhole:   to allow it: --allow 'GET {url}'" in said
    assert said[0] == f"keyhole: 0 requests allowed, 2 refused; journal {run.sandbox.place}/j.jsonl"
    # What else is longer than a row goes on after a mark.
    rest = [line for line in said if not line.startswith(("keyhole:   to allow it: ", "keyhole: 0 requests"))]
    assert all(len(line) <= 60 and line.startswith(("keyhole: ", " > ")) for line in rest) and any(line.startswith(" > ") for line in rest)
    assert "keyhole: refused once: GET " in rest


@pytest.mark.identity("user")
def test_what_is_to_be_pasted_is_broken_before_a_host_that_the_edge_would_end(run, places):
    script = f"for m in GET POST PUT OPTIONS; do {CURL} -X $m https://other.test/left-pad; done"
    said = on_a_terminal(run, 70, "-c", places, "--", "sh", "-c", script)
    at = said.index("keyhole:   to allow it: --allow 'GET,POST,PUT,OPTIONS '\\")
    assert said[at + 1] == "'https://other.test/left-pad'"
    # A shell takes both rows for one word.
    pasted = said[at].split("it: --allow ")[1] + "\n" + said[at + 1]
    assert subprocess.run(["sh", "-c", f"printf '<%s>' {pasted}"], capture_output=True, text=True, check=True).stdout == (
        "<GET,POST,PUT,OPTIONS https://other.test/left-pad>")  # fmt: skip
    long = "a" * 60 + ".other.test"
    said = on_a_terminal(run, 50, "-c", places, "--", "sh", "-c", CURL + f"https://{long}/x")
    at = said.index("keyhole:   to allow it: --allow 'GET '\\")
    assert [said[at + 1][-2:], said[at + 2]] == ["'\\", "'aaaaaaaaaaaaaaaaaaaaa.other.test/x'"], said
    assert len(said[at + 1]) == 50


@pytest.mark.identity("user")
def test_one_request_makes_no_words_that_open_more_than_its_path(run, places):
    wide = ["/%2a", "/v1/me/%2525", "/a%2fb", "/" + "x" * 300]
    script = "; ".join(f"{CURL} -X DELETE --path-as-is https://other.test{path}" for path in wide)
    said = lines(run("-c", places, "--", "sh", "-c", script, use=None, check=None))
    assert said == ["refused 4 times: DELETE https://other.test/...",
                    "  why: no rule allows it, and no rule can name this method, host or path exactly"]  # fmt: skip
    exact = "https://other.test/wiki/Z%C3%BCrich/a%20b"
    said = lines(run("-c", places, "--", "sh", "-c", CURL + exact, use=None, check=None))
    assert said[1] == f"  to allow it: --allow 'GET {exact}'"
    done = run("-c", places, "--allow", f"GET {exact}", "--", "sh", "-c", f"{CURL} {exact}; {CURL} {exact}x", use=None, check=None)
    assert done.stdout == "502 403 ", done.stderr
    # Many paths are one pattern, and it says so.
    script = "; ".join(f"{CURL} https://other.test/p/{name}" for name in "abcd")
    said = lines(run("-c", places, "--", "sh", "-c", script, use=None, check=None))
    assert said[1:] == ["  to allow it: --allow 'GET https://other.test/p/**'", "    it opens more than was asked for: every path there"]


def test_a_run_that_is_narrowed_gets_words_that_keep_it_narrowed(run):
    own, other = (f"{CURL} -d x https://github.com/{name}/git-receive-pack; " for name in ("globex/app", "evil/x"))
    done = run("--use", "github:repos=globex/app", "--", "sh", "-c", own + other, use=None)
    assert "  to allow it: --use github:repos=globex/app,push=true" in lines(done), done.stderr
    again = run("--use", "github:repos=globex/app", "--use", "github:repos=globex/app,push=true", "--", "sh", "-c", other, use=None,
                GH_TOKEN="ghp_" + "x" * 36)  # fmt: skip
    assert again.stdout == "403 " and "--use" not in again.stderr, again.stderr


class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_service_of_this_host_is_reached_by_another_name_and_loopback_is_warned_of(run):
    folder = run.sandbox.folder("conf", 0o700)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = {"version": 1, "upstream": {"resolve": {"host.test": f"127.0.0.1:{server.server_port}"}},
                "tenants": {"me": {"rules": [{"allow": "GET http://host.test/**"}]}}}  # fmt: skip
        file = run.sandbox.file(os.path.join(folder, "k.yaml"), json.dumps(text))
        done = run("-c", file, "--", "sh", "-c", "curl -s -o /dev/null -w '%{http_code}' http://host.test/", use=None)
        server.shutdown()
    assert done.stdout == "204" and "--allow" not in done.stderr, done.stderr
    for host in ("127.0.0.1:8123", "localhost:8123", "[::1]:8123"):
        done = run("--allow", f"GET http://{host}/**", "--", "true", use=None)
        assert "in a sandbox " in done.stderr and '{ resolve: { host.test: "127.0.0.1:8123" } }' in done.stderr, done.stderr
        text["tenants"]["me"]["rules"] = [{"allow": f"GET http://{host}/**"}, {"allow": f"POST http://{host}/**"}]
        done = run("-c", run.sandbox.file(file, json.dumps(text)), "--", "true", use=None)
        assert done.stderr.count("in a sandbox 127.0.0.1 ") == 1 and '(host.test: "127.0.0.1:8123")' in done.stderr, done.stderr
    assert "in a sandbox" not in run("--allow", "GET http://localhost.example/**", "--", "true", use=None).stderr


def test_each_place_is_named_once_with_how_often_and_with_words_that_allow_it(run, places):
    script = (f"for i in 1 2 3; do {CURL} https://registry.npmjs.org/left-pad; done; "
              f"{CURL} -d x 'https://other.test/v1/x?q=hidden'; {CURL} https://other.test/users/42")  # fmt: skip
    done = run("-c", places, "--", "sh", "-c", script, use=None, check=None)
    assert done.stdout == "403 " * 5
    assert lines(done) == [
        "refused 3 times: GET https://registry.npmjs.org/left-pad", "  to allow it: --use npm",
        "refused once: GET https://other.test/users/*", "  to allow it: --allow 'GET https://other.test/users/*'",
        "refused once: POST https://other.test/v1/x", "  to allow it: --allow 'POST https://other.test/v1/x'",
    ]
    assert "hidden" not in done.stderr
    words = [word for line in lines(done) if "to allow it: " in line for word in shlex.split(line.removeprefix("  to allow it: "))]
    again = run("-c", places, "--audit", os.path.join(run.state, "again.jsonl"), *words, "--", "sh", "-c", script, use=None, check=None)
    assert again.stdout == "502 " * 5 and lines(again) == [], again.stderr


def test_words_that_cover_several_places_are_said_once(run, places):
    script = (f"{CURL} https://registry.npmjs.org/left-pad; for i in 1 2; do {CURL} -d x https://other.test/v1; done; "
              f"{CURL} https://registry.npmjs.org/@a%2fb; {CURL} -I https://registry.npmjs.org/-/v1/search")  # fmt: skip
    done = run("-c", places, "--", "sh", "-c", script, use=None, check=None)
    said = lines(done)
    # The most frequent place comes first, and below it the others that its words allow.
    assert said[:2] == ["refused 2 times: POST https://other.test/v1", "  to allow it: --allow 'POST https://other.test/v1'"]
    assert sorted(said[2:5]) == [
        "refused once: GET https://registry.npmjs.org/...", "refused once: GET https://registry.npmjs.org/left-pad",
        "refused once: HEAD https://registry.npmjs.org/-/v1/search",
    ]  # fmt: skip
    assert said[5:] == ["  to allow them: --use npm"]


def test_a_preset_is_named_with_the_variable_of_its_key(run, places):
    done = run("-c", places, "--", "sh", "-c", CURL + "-d x https://api.openai.com/v1/responses", use=None, check=None)
    assert lines(done) == ["refused once: POST https://api.openai.com/v1/responses",
                           "  to allow it: --use openai", "    its key comes from OPENAI_API_KEY or CODEX_API_KEY"]  # fmt: skip


def test_a_preset_that_opens_more_says_by_what_it_opens_less(run, places):
    done = run("-c", places, "--", "sh", "-c", CURL + "-d x https://github.com/org/app.git/git-receive-pack", use=None, check=None)
    assert lines(done)[1:] == ["  to allow it: --use github:push=true",
                               "    its key comes from GH_TOKEN or GITHUB_TOKEN; to open less, add ,repos=…"]  # fmt: skip


PUSH = (f"{CURL} 'https://github.com/org/app.git/info/refs?service=git-receive-pack'; "
        f"{CURL} -d x https://github.com/org/app.git/git-receive-pack")  # fmt: skip


def test_a_push_that_a_preset_denies_is_told_the_parameter_that_opens_it_and_the_words_do(run):
    done = run("--", "sh", "-c", PUSH, use="github", check=None)
    assert done.stdout == "403 403 "
    said = lines(done)
    assert [line[:13] for line in said[:2]] == ["refused once:"] * 2 and len(said) == 4
    assert said[2:] == ["  to allow them: --use github:push=true", "    its key comes from GH_TOKEN or GITHUB_TOKEN; to open less, add ,repos=…"]
    # At the end, as people paste it.
    again = run("--use", "github:push=true", "--", "sh", "-c", PUSH, use="github", check=None,
                GITHUB_TOKEN="ghp_0aB3x56789z12y4v67w9012u4567q90123pQ")  # fmt: skip
    assert "403" not in again.stdout and lines(again) == [], again.stderr


def test_git_asks_for_the_same_path_to_fetch_and_to_push_so_both_are_named(run):
    done = run("--", "sh", "-c", PUSH.split(";", maxsplit=1)[0], check=None)
    assert lines(done)[1:] == ["  to allow it: --use github", "    to open less, add :repos=…; if it is a git push: --use github:push=true"]


@pytest.mark.parametrize("where, says", [
    ("169.254.169.254", "it is the metadata service of a cloud, which gives out keys of this machine. No option opens it"),
    ("[fd00:ec2::254]", "it is the metadata service of a cloud"),
    ("metadata.google.internal", "it is the metadata service of a cloud"),
    ("10.1.2.4", "sandboxes may not connect to this address (private). A configuration file can open it (-c FILE, or a keyhole.yaml "
                 'that you trust), with a rule for the place and with:\n    upstream: { allow_addresses: [ "10.1.2.4/32" ] }'),
    ("[fd00::1]", 'upstream: { allow_addresses: [ "fd00::1/128" ] }'),
    ("localhost", "the name leads to an address that sandboxes may not connect to: 127.0.0.1 (loopback)"),
])  # fmt: skip
def test_what_the_address_guard_refuses_gets_no_option_that_can_not_help(run, where, says):
    done = run("--", "sh", "-c", f"{CURL} http://{where}/x", check=None)
    assert lines(done)[0] == f"refused once: GET http://{where}/x"
    assert lines(done)[1].startswith("  why: ") and says in "\n".join(lines(done)[1:]), done.stderr
    assert "--allow" not in done.stderr


def test_the_address_of_a_name_is_told_with_words_for_the_file_that_do(run):
    """It is known only after the rules have allowed the request."""
    with open("/etc/hosts", encoding="utf-8") as file:
        known = [line.split("#")[0].split() for line in file]
    names = [name for words in known for name in words[1:] if words[0] in ("127.0.0.1", "127.0.1.1", "::1") and not name.startswith("localhost")]
    if not names:
        pytest.skip("/etc/hosts has no name of a loopback address besides localhost")
    config = {"version": 1, "tenants": {"one": {"rules": [{"allow": f"http://{names[0]}:9"}]}}}
    path = run.sandbox.file(os.path.join(run.sandbox.folder("inner", 0o700), "keyhole.yaml"), json.dumps(config))
    done = run("-c", path, "--", "sh", "-c", f"{CURL} http://{names[0]}:9/x", use=None, check=None)
    assert done.stdout == "403 " and failures(done) == []
    assert lines(done)[1].startswith("  why: the name leads to an address that sandboxes may not connect to: "), done.stderr
    assert "(loopback). A configuration file can open it" in lines(done)[1]
    config["upstream"] = {"allow_addresses": re.findall(r'^    upstream: { allow_addresses: \[ "(\S+)" \] }$', lines(done)[2])}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    again = run("-c", path, "--", "sh", "-c", f"{CURL} http://{names[0]}:9/x", use=None, check=None)
    assert again.stdout == "502 " and lines(again) == [], again.stderr


def test_what_was_allowed_and_failed_is_told_with_the_reason(run, places):
    script = f"for i in 1 2 3; do {CURL} 'https://other.test/yes?q=hidden'; done"
    done = run("-c", places, "--", "sh", "-c", script, use=None, check=None)
    assert done.stdout == "502 502 502 " and "3 requests allowed (3 failed), 0 refused" in done.stderr
    said = failures(done)
    assert said[0] == "failed 3 times: GET https://other.test/yes: connect to 127.0.0.1:9: Connection refused"
    assert re.fullmatch(r"  see each: keyhole audit show /.*/audit\.jsonl", said[1]) and len(said) == 2
    assert "hidden" not in done.stderr and lines(done) == []


def test_a_key_that_the_server_does_not_accept_is_named_with_where_it_comes_from(run, mock):  # noqa: F811
    conf = run.sandbox.folder("answers", 0o700)
    ca = run.sandbox.file(os.path.join(conf, "roots.pem"), open(mock.ca, encoding="ascii").read())
    config = {
        "version": 1,
        "audit": {"file": "audit.jsonl"},
        "upstream": {"ca_file": ca, "resolve": {n: mock.address for n in ("open.test", "keyed.test")}, "allow_addresses": ["127.0.0.1/32"]},
        "credentials": {"key": {"value": {"env": "ANTHROPIC_API_KEY"}, "header": {"x-api-key": "{}"}, "hosts": ["keyed.test"],
                                "placeholder": {"env": "SOME_API_KEY"}}},
        "tenants": {"one": {"rules": [{"allow": "https://open.test"}, {"allow": "https://keyed.test", "credential": "key"}]}},
    }  # fmt: skip
    path = run.sandbox.file(os.path.join(conf, "keyhole.yaml"), json.dumps(config))
    asked = [f"{CURL} https://{host}.test/test/status?code={code}" for host in ("open", "keyed") for code in (401, 401, 403, 404)]
    done = run("-c", path, "--", "sh", "-c", "; ".join(asked), use=None, check=None)
    assert done.stdout == "401 401 403 404 " * 2, (done.stdout, done.stderr)
    said = [line.removeprefix("keyhole: ") for line in done.stderr.splitlines() if "answered" in line or "see each" in line]
    place = "GET https://keyed.test/test/status: the server does not"
    assert said[:2] == [f"answered 401 2 times: {place} accept the credential key (from ANTHROPIC_API_KEY)",
                        f"answered 403 once: {place} let the credential key do that (from ANTHROPIC_API_KEY)"]  # fmt: skip
    assert re.fullmatch(r"  see each: keyhole audit show /.*/audit\.jsonl", said[2]) and len(said) == 3


def test_a_condition_that_was_not_met_is_named_and_no_option_goes_around_it(run):
    rules = [{"allow": "POST https://llm.test/v1/messages", "models": ["small-*"]}, {"allow": "GET https://q.test/x", "query": {"a": "1"}}]
    config = {"version": 1, "tenants": {"one": {"rules": rules}}}
    path = run.sandbox.file(os.path.join(run.sandbox.folder("models", 0o700), "keyhole.yaml"), json.dumps(config))
    ask = f"{CURL} -H content-type:application/json https://llm.test/v1/messages -d "
    script = f"""{ask} '{{"model":"large-1"}}'; {ask} '{{"model":"'$ANTHROPIC_API_KEY'"}}'; {CURL} 'https://q.test/x?a=2'"""
    done = run("-c", path, "--", "sh", "-c", script, check=None)
    assert done.stdout == "403 403 403 " and "--allow" not in done.stderr and "sk-ant" not in done.stderr
    said = lines(done)
    at = f'(keyhole.yaml:1) allows it only'.replace("keyhole.yaml", path)
    assert f'  why: the rule "POST https://llm.test/v1/messages" {at} for other models, and it was for "large-1"' in said, said
    assert f'  why: the rule "GET https://q.test/x" {at} under a condition that was not met (query)' in said, said


def test_an_address_that_the_file_opens_gets_its_option(run, places):
    done = run("-c", places, "--", "sh", "-c", f"{CURL} http://127.0.0.1:9/x", use=None, check=None)
    assert lines(done)[1] == "  to allow it: --allow 'GET http://127.0.0.1:9/x'"


def test_a_handshake_that_the_client_ended_is_not_called_a_refusal_of_keyholes(run, places):
    code = ("import socket, ssl; s = socket.create_connection(('other.test', 443)); "
            "ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(s, server_hostname='other.test')")  # fmt: skip
    done = run("-c", places, "--", "/usr/bin/python3", "-I", "-c", code, use=None, check=1)
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr
    assert lines(done)[1].startswith("  why: the client ended the TLS handshake"), done.stderr


def test_known_telemetry_is_counted_apart_and_nobody_is_told_to_allow_it(run):
    script = f"{CURL} -d x https://api.anthropic.com/api/event_logging/v2/batch; {CURL} -d x https://play.googleapis.com/log"
    done = run("--", "sh", "-c", script, check=None)
    assert done.stdout == "403 403 "
    assert lines(done) == ["refused 2 times: known telemetry of Claude Code, Gemini CLI, which works without it"]
    assert "keyhole: 0 requests allowed, 0 refused (and 2 of known telemetry); journal " in done.stderr
    done = run("--", "sh", "-c", f"{script}; {CURL} https://other.test/x", check=None)
    assert "keyhole: 0 requests allowed, 1 refused (and 2 of known telemetry); journal " in done.stderr


def test_what_a_rule_denies_is_named_with_the_rule_and_the_address_guards_counts_too(run, places):
    script = f"{CURL} https://other.test/no/x; {CURL} http://10.1.2.3/"
    done = run("-c", places, "--", "sh", "-c", script, use=None, check=None)
    assert done.stdout == "403 403 " and "0 requests allowed, 2 refused" in done.stderr
    said = lines(done)
    assert len(said) == 5
    assert said[0] == "refused once: GET http://10.1.2.3/" and said[1].startswith("  why: sandboxes may not connect to this address (private)")
    assert said[3] == "refused once: GET https://other.test/no/x"
    assert re.fullmatch(r"  why: the rule at .*/keyhole\.yaml:1 denies it; only a rule above that line can allow it", said[4])


def test_an_agent_can_neither_forge_a_line_nor_what_is_pasted(run, places):
    """It chooses method, host and path; a terminal and a shell get them."""
    script = r"""
import os, socket
for line in [b"GET http://other.test/';touch${IFS}x;'/y HTTP/1.1", b"G'T http://other.test/x HTTP/1.1", b"FROB http://other.test/x HTTP/1.1",
             b"GET http://other.test/**/z HTTP/1.1", b"GET http://other.test/%1b[2J HTTP/1.1", b"GET http://other.test/\x1b[2J HTTP/1.1",
             b"GET http://other.test/" + os.environ.get("ANTHROPIC_API_KEY", "none").encode() + b"/k HTTP/1.1"]:
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(line + b"\r\nHost: other.test\r\n\r\n")
    print(s.recv(4096).split()[1].decode())
"""
    done = run("-c", places, "--", "python3", "-c", script, check=None)
    assert "\x1b" not in done.stderr and KEY not in done.stderr and "sk-ant" not in done.stderr
    said = lines(done)
    for line in said:
        words = re.search(r"--allow '([^']*)'", line)
        assert not words or re.fullmatch(r"[A-Z,]+ http://other\.test/[A-Za-z0-9./*-]*", words[1]), line
    assert [line for line in said if "touch" in line] == []
    at = said.index("refused once: G'T http://other.test/x")
    assert said[at + 1] == "  why: no rule allows it, and no rule can name this method, host or path exactly"
    assert all(line.startswith(("refused ", "  to allow it: --allow '", "  why: ")) for line in said), said
    at = said.index("refused 2 times: a request that names no host")
    assert said[at + 1].startswith("refused "), "another, for the same reason"
    assert said[at + 2] == "  why: it was no request that keyhole forwards (malformed_request)"


def test_what_is_neither_http_nor_tls_is_told_how_it_passes_unread(run, places):
    script = """
import socket, sys
for place in [b"other.test:22", b"other.test:443"]:
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(b"CONNECT " + place + b" HTTP/1.1\\r\\nHost: " + place + b"\\r\\n\\r\\n")
    print(s.recv(4096).split()[1].decode())
    s.sendall(b"SSH-2.0-x\\r\\n")
    s.recv(1)
"""
    done = run("-c", places, "--", "python3", "-c", script, use=None, check=None)
    assert lines(done) == ["refused once: other.test:22", "  to allow it: --allow 'tcp://other.test:22'",
                           "refused once: other.test:443", "  why: it was no request that keyhole forwards (protocol_unknown)"]  # fmt: skip
    done = run("-c", places, "--allow", "tcp://other.test:22", "--", "python3", "-c", script, use=None, check=None)
    assert failures(done)[0].startswith("failed once: CONNECT tcp://other.test:22: "), "it went out, to where nobody listens"
    assert not any("other.test:22" in line for line in lines(done))


def test_a_client_that_waits_for_its_server_to_speak_first_is_told_what_was_refused(run, places):
    """At other.test:443 something is allowed: there nothing was asked for."""
    script = r"""
import socket, sys
for place in [b"other.test:25", b"z.test:443", b"other.test:443"]:
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(b"CONNECT " + place + b" HTTP/1.1\r\nHost: " + place + b"\r\n\r\n")
    print(s.recv(4096).split()[1].decode())
    s.close()
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"\x05\x01\x00\x05\x01\x00\x03\x0aother.test\x09\xdd")
while len(s.recv(4096)) < 10: pass
s = [s, socket.create_connection(("127.0.0.1", 3128))]
s[1].sendall(b"CONNECT other.test:110 HTTP/1.1\r\nHost: other.test:110\r\n\r\n")
s[1].recv(4096)
"""
    done = run("-c", places, "--", "python3", "-c", script, use=None, check=None)
    assert "0 requests allowed, 4 refused" in done.stderr
    assert lines(done) == ["refused once: other.test:25", "  to allow it: --allow 'tcp://other.test:25'",
                           "refused once: other.test:110", "  to allow it: --allow 'tcp://other.test:110'",
                           "refused once: other.test:2525", "  to allow it: --allow 'tcp://other.test:2525'",
                           "refused once: z.test:443",
                           "  why: no rule allows anything there, and nothing was asked for in the tunnel"]  # fmt: skip


def test_a_placeholder_in_a_path_is_not_shown(run):
    done = run("--", "sh", "-c", f"{CURL} https://api.anthropic.com/$ANTHROPIC_API_KEY/x; {CURL} https://x.test/a-$ANTHROPIC_API_KEY", check=None)
    assert done.stdout == "403 403 " and "sk-ant" not in done.stderr
    assert "GET https://x.test/*" in done.stderr, done.stderr


def test_there_is_an_end_to_the_places(run, places):
    script = f"for i in $(seq 14); do {CURL} https://h$i.test/x; done; for i in $(seq 5); do {CURL} https://other.test/p/q$i; done"
    said = lines(run("-c", places, "--", "sh", "-c", script, use=None, check=None))
    assert len(said) == 22 and said[2] == "    it opens more than was asked for: every path there"
    assert said[:2] == ["refused 5 times: GET https://other.test/p/**", "  to allow it: --allow 'GET https://other.test/p/**'"]
    assert re.fullmatch(r"refused: 5 more hosts or paths; to see them: keyhole audit show --denied .*/audit\.jsonl", said[21])


def test_what_was_only_counted_in_the_journal_is_counted(run):
    folder = run.sandbox.folder("few", 0o700)
    config = {"version": 1, "audit": {"file": "audit.jsonl"}, "limits": {"refusals": 1, "refusals_burst": 1}, "tenants": {"one": {"rules": []}}}
    path = run.sandbox.file(os.path.join(folder, "keyhole.yaml"), json.dumps(config))
    done = run("-c", path, "--", "sh", "-c", f"for i in $(seq 20); do {CURL} https://h.test/x; done", use=None, check=None)
    assert done.stdout == "403 " * 20 and "0 requests allowed, 20 refused" in done.stderr
    assert re.search(r"refused: \d+ more requests, of which the journal has only the number", done.stderr), done.stderr


def test_quiet_prints_nothing_at_the_end(run, places):
    done = run("-q", "-c", places, "--observe", "--", "sh", "-c", f"{CURL} http://other.test/x", use=None, check=None)
    assert done.stderr == OPEN


# --- --allow --------------------------------------------------------------------------------------


def test_allow_opens_what_it_says_without_a_file_and_no_more(run):
    script = f"{CURL} http://127.0.0.1:9/x; {CURL} -d x http://127.0.0.1:9/x; {CURL} http://127.0.0.1:9/y/z"
    done = run("--allow", "GET http://127.0.0.1:9/*", "--", "sh", "-c", script, use=None, check=None)
    # The guard has a say behind the rule.
    assert done.stdout == "403 403 403 "
    begun = done.stderr[: re.search(r"^keyhole: \d+ requests", done.stderr, re.M).start()]
    assert "in a sandbox 127.0.0.1 and localhost are the sandbox itself" in begun
    said = lines(done, begun)
    assert "refused once: GET http://127.0.0.1:9/y/z" in said, said
    # Neither the rule nor one more opens the address. Why is said once.
    assert [line.split(" ")[0] for line in said[:3]] == ["refused"] * 3 and len(said) == 5, said
    assert said[3].startswith("  why: sandboxes may not connect to this address (loopback)")
    assert said[4] == '    upstream: { allow_addresses: [ "127.0.0.1/32" ] }'
    assert "--allow" not in done.stderr.removeprefix(begun)


def test_allow_neither_overrides_a_denial_nor_takes_a_credential_away(run, places):
    script = f"{CURL} https://other.test/no/x; {CURL} https://other.test/yes; {CURL} https://other.test/more"
    done = run("-c", places, "--allow", "https://other.test/**", "--", "sh", "-c", script, use=None, check=None)
    assert done.stdout == "403 502 502 "
    done = run("--use", "anthropic", "--allow", "POST https://api.anthropic.com/v1/messages", "--", "true", use=None, check=0)
    assert re.search(r'^keyhole: --allow: warning: rule "POST https://api.anthropic.com/v1/messages" never decides', done.stderr, re.M), done.stderr


@pytest.mark.parametrize("text, says, at", [
    ("api.example.com/x", 'a scheme is missing in front of "api.example.com/x" (write https://api.example.com/x)', 0),
    ("GET api.example.com", "a scheme is missing", 4),
    ("GTE https://api.example.com", '"GTE" is no method of HTTP (did you mean "GET"?)', 0),
    ("GET https://*/x", '"*" names no host', 12),
    ("GET https://a.test/x?y=1", "a rule ends with the path", 20),
])  # fmt: skip
def test_a_text_of_allow_that_is_no_rule_is_pointed_at(run, text, says, at):
    done = run("--allow", text, "--", "true", use=None, check=125)
    first, shown, mark = done.stderr.splitlines()
    assert first.startswith("keyhole: --allow: ") and says in first
    assert shown == "keyhole:   " + text and mark == "keyhole:   " + " " * at + "^"
    assert run.folders() == []


@pytest.mark.parametrize("text", ["https://*.co.uk", "https://*.github.io/x"])
def test_a_wildcard_over_names_of_strangers_is_refused(run, text):
    done = run("--allow", text, "--", "true", use=None, check=125)
    assert done.stderr.startswith("keyhole: --allow: error: host ") and len(done.stderr.splitlines()) == 1


# --- --observe ------------------------------------------------------------------------------------


def test_observe_enforces_no_rule_and_says_so_with_what_would_be_refused(run, places):
    script = f"{CURL} https://other.test/yes; {CURL} https://other.test/new; {CURL} https://other.test/no/x; {CURL} http://10.1.2.4/"
    done = run("-c", places, "--observe", "--", "sh", "-c", script, use=None, check=None)
    assert done.stdout == "502 502 502 403 "
    assert "3 requests allowed (3 failed), 1 refused" in done.stderr
    said = lines(done, OPEN)
    # The address guard refused the fourth one, which is named once.
    assert said[0] == "NO RULE WAS ENFORCED (observe): the rules would have refused 2 of the allowed requests"
    at = said.index("would be refused once: GET https://other.test/new")
    assert said[at + 1] == "  to allow it: --allow 'GET https://other.test/new'"
    assert "would be refused once: GET https://other.test/no/x" in said
    assert [line for line in said if "10.1.2.4/" in line][0] == "refused once: GET http://10.1.2.4/"
    assert sum("GET http://10.1.2.4/" in line for line in said) == 1, said


def test_observe_needs_no_file_and_gives_no_key_to_what_no_rule_allows(run):
    done = run("--observe", "--", "sh", "-c", f"{CURL} http://10.1.2.4/; env", use=None, check=0)
    assert "NO RULE WAS ENFORCED" in done.stderr and "ANTHROPIC_API_KEY" not in done.stdout


# --- with a daemon --------------------------------------------------------------------------------


def test_a_sandbox_of_a_daemon_sees_its_own_places_alone(running):  # noqa: F811
    one = running()
    one("--", "sh", "-c", f"{CURL} https://mine.test/x", check=None)
    done = one("--", "sh", "-c", f"{CURL} https://yours.test/x", check=None)
    # The daemon's journal is the daemon's: the words name another one, and so they do.
    assert lines(done) == [
        "refused once: GET https://yours.test/x", "  to allow it: --allow 'GET https://yours.test/x' --audit run.jsonl",
        "    for a run with a proxy and a journal of its own; or add it to the daemon's rules",
    ]  # fmt: skip
    own = os.path.join(one.sandbox.folder("own", 0o700), "run.jsonl")
    words = shlex.split(lines(done)[1].removeprefix("  to allow it: ").replace("run.jsonl", own))
    again = one(*words, "--", "sh", "-c", f"{CURL} https://yours.test/x", check=None)
    assert again.stdout == "502 " and lines(again) == [], again.stderr


@pytest.mark.parametrize("words", [("--allow", "https://yours.test/x"), ("--use", "npm"), ("--observe",)])
def test_an_option_that_needs_a_journal_of_its_own_says_so_before_the_run(running, words):  # noqa: F811
    one = running()
    done = one(*words, "--", "true", check=125)
    assert f"{words[0]} needs a proxy of its own for this run, with a journal of its own: add --audit FILE" in done.stderr
    assert "audit.jsonl" in done.stderr and "keyhole ctl reload" in done.stderr
