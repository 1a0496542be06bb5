"""A request that is allowed goes through as it came, and its answer comes back as it was sent."""

import contextlib
import hashlib
import json
import os
import resource
import socket
import ssl
import subprocess
import threading
import time

import pytest
from harness import FINGERPRINT, PATIENCE, PLACEHOLDER, Tunnel, Wire, client_context, until
from upstream import PATTERN, pattern_digest

MIB = 1 << 20


@pytest.fixture
def tunnel(shared):
    with Tunnel(shared, "api.test") as one:
        yield one


def echoed(response):
    assert response.status == 200, response
    what = response.json()
    what["names"] = {n.lower(): v for n, v in what["fields"]}
    return what


# --- messages as they are -------------------------------------------------------------------------


def test_a_request_arrives_as_it_was_written(tunnel, mock):
    target = "/test/echo/a%2Fb/%41;p=1//x?q=%20a+b&r=%C3%A9&&s"
    what = echoed(tunnel.ask("GET", target, [("X-One", "1"), ("x-TWO", "a,  b"), ("X-One", "again")]))
    assert what["line"] == f"GET {target} HTTP/1.1"
    assert ["X-One", "1"] in what["fields"] and ["X-One", "again"] in what["fields"]
    assert ["x-TWO", "a,  b"] in what["fields"]
    assert what["names"]["host"] == "api.test"
    assert what["names"]["x-api-key"] == "sha256:" + FINGERPRINT


def test_an_empty_field_value_is_kept(tunnel):
    assert echoed(tunnel.ask("GET", "/test/echo", [("X-Empty", "")]))["names"]["x-empty"] == ""


def test_connection_fields_stop_here(tunnel):
    what = echoed(
        tunnel.ask(
            "GET",
            "/test/echo",
            [
                ("Connection", "keep-alive, x-mine"),
                ("X-Mine", "private"),
                ("Keep-Alive", "timeout=5"),
                ("Proxy-Connection", "keep-alive"),
                ("TE", "trailers"),
            ],
        )
    )
    assert not {"x-mine", "keep-alive", "proxy-connection"} & set(what["names"]), what
    assert "x-mine" not in what["names"].get("connection", "")


def test_a_body_arrives_whole(tunnel):
    body = os.urandom(100_000)
    what = echoed(tunnel.ask("POST", "/test/echo", body=body))
    assert what["body_bytes"] == len(body)
    assert what["body_sha256"] == hashlib.sha256(body).hexdigest()


def test_an_empty_body_keeps_its_length(tunnel):
    what = echoed(tunnel.ask("POST", "/test/echo", [("Content-Length", "0")]))
    assert what["names"].get("content-length") == "0"


def test_a_chunked_body_arrives_with_its_trailers(tunnel):
    tunnel.start("POST", "/test/echo", [("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum")])
    for piece in (b"one ", b"two ", b"three"):
        tunnel.send(b"%x\r\n%s\r\n" % (len(piece), piece))
    tunnel.send(b"0\r\nX-Sum: 13\r\n\r\n")
    what = echoed(tunnel.response())
    assert what["body"] == "one two three"
    assert what["names"]["transfer-encoding"] == "chunked"
    assert what["trailers"] == [["X-Sum", "13"]]


def test_chunk_extensions_do_not_travel_but_data_does(tunnel):
    tunnel.start("POST", "/test/echo", [("Transfer-Encoding", "chunked")])
    tunnel.send(b'5;a=b;c="d"\r\nhello\r\n0\r\n\r\n')
    assert echoed(tunnel.response())["body"] == "hello"


def test_a_chunked_answer_comes_with_its_trailers(tunnel):
    answer = tunnel.ask("GET", "/test/trailers")
    assert answer.body == b"one two"
    assert answer.trailers == [("x-sum", "7")]


def test_an_answer_that_ends_with_the_connection(tunnel):
    answer = tunnel.ask("GET", "/test/until-close")
    assert (answer.status, answer.body) == (200, b"all that there is")


def test_a_client_of_http_1_0_is_not_sent_chunks(shared):
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.send("GET /test/trailers HTTP/1.0\r\nHost: api.test\r\n\r\n")
        answer = tunnel.response()
        assert answer.get("transfer-encoding") is None
        assert answer.body == b"one two"
        assert tunnel.is_closed()


@pytest.mark.parametrize("target, whole", [("/test/trailers", True),
                                           ("/test/cut?chunked=1&before=9", False)])  # fmt: skip
def test_a_cut_answer_to_http_1_0_does_not_end_like_a_whole_one(shared, target, whole):
    """Its end is the connection's, so only a missing close_notify can show the difference."""
    context = client_context(shared.ca)
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)  # Python's default since 3.10
    with Tunnel(shared, "api.test", context=context) as tunnel:
        tunnel.send(f"GET {target} HTTP/1.0\r\nHost: api.test\r\n\r\n")
        ends_well = None
        while ends_well is None:
            try:
                if not tunnel.sock.recv(65536):
                    ends_well = True
            except ssl.SSLError as error:
                assert "UNEXPECTED_EOF" in str(error)
                ends_well = False
        assert ends_well == whole


def test_requests_and_answers_that_drip_are_put_together(tunnel):
    for byte in b"POST /test/dribble HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\nhi":
        tunnel.send(bytes([byte]))
    answer = tunnel.response()
    assert (answer.body, answer.get("x-a")) == (b"hello", "b")


# --- answers without content, interim answers, Expect ----------------------------------------------


def test_head_has_the_length_and_no_content(tunnel):
    answer = tunnel.ask("HEAD", "/test/bytes?n=12345")
    assert (answer.get("content-length"), answer.body) == ("12345", b"")
    assert tunnel.ask("GET", "/test/echo").status == 200, "what follows a HEAD is read in step"


@pytest.mark.parametrize("code", [204, 304])
def test_answers_that_never_have_content(tunnel, code):
    answer = tunnel.ask("GET", f"/test/status?code={code}")
    assert answer.status == code
    assert answer.get("transfer-encoding") is None
    assert tunnel.ask("GET", "/test/echo").status == 200


@pytest.mark.parametrize("code", [200, 301, 400, 404, 429, 500, 529])
def test_a_status_is_passed_on_and_redirects_are_not_followed(tunnel, code):
    assert tunnel.ask("GET", f"/test/status?code={code}").status == code


@pytest.mark.parametrize("status", [102, 103])
def test_interim_answers_are_passed_on_as_they_come(tunnel, status):
    answer = tunnel.ask("GET", f"/test/interim?n=2&status={status}")
    assert [i.status for i in answer.interim] == [status] * 2
    assert answer.interim[0].get("link") == "</a.css>; rel=preload"
    assert answer.json() == {"interim": "done"}


def test_expect_waits_for_the_upstream_to_say_continue(tunnel):
    tunnel.start("POST", "/test/echo", [("Expect", "100-continue"), ("Content-Length", "5")])
    assert tunnel.read_head().status == 100
    tunnel.send(b"hello")
    assert echoed(tunnel.response())["body"] == "hello"


def test_expect_that_the_upstream_refuses_costs_no_content(shared):
    with Tunnel(shared, "api.test") as tunnel:
        # Without a type it could be a form, which is looked into before it goes.
        fields = [("Expect", "100-continue"), ("Content-Length", "5"), ("Content-Type", "text/plain")]
        tunnel.start("POST", "/test/refuse-expect", fields)
        answer = tunnel.response()
        assert answer.status == 417
        # Whether the content follows or the next request, nobody could tell.
        assert answer.get("connection") == "close" and tunnel.is_closed()


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "sends"])
def test_expect_that_is_denied_leaves_no_doubt_about_what_follows(shared, mock, waits):
    mark = mock.mark()
    with Tunnel(shared, "nowhere.test") as tunnel:
        head = "POST / HTTP/1.1\r\nHost: nowhere.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        tunnel.send(head + ("" if waits else "hello"))
        answer = tunnel.response()
        assert answer.status == 403 and not answer.interim
        assert answer.get("connection") == ("close" if waits else None)
        assert tunnel.is_closed() if waits else tunnel.ask("GET", "/").status == 403
    assert mock.requests(since=mark) == []


def test_an_early_answer_reaches_a_client_that_is_still_sending(shared):
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.start("POST", "/test/early", [("Content-Length", str(64 * MIB))])
        answer = {}

        def read():
            answer["it"] = tunnel.response()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for _ in range(64):
                if not reader.is_alive():
                    break
                tunnel.send(PATTERN)
        except OSError:
            pass  # the proxy may close once it has answered
        reader.join(PATIENCE)
        assert answer["it"].status == 413


# --- streams --------------------------------------------------------------------------------------


def test_events_leave_at_once_while_the_stream_is_open(tunnel):
    worst = []
    for _ in range(3):  # a busy machine may be late once; what holds events back is late each time
        tunnel.start("GET", "/test/sse?n=12&ms=60")
        answer = tunnel.read_head()
        assert answer.get("content-type") == "text/event-stream"
        late = []
        for piece in tunnel.pieces(answer):
            now = time.monotonic()
            event = json.loads(piece.decode().removeprefix("data: "))
            late.append(now - event["sent"])
        assert len(late) == 12
        worst.append(max(late))
        if worst[-1] <= 0.050:
            return
    raise AssertionError(f"held back, the worst of each stream, in seconds: {worst}")


def test_the_messages_api_streams_through(tunnel):
    body = json.dumps({"model": "m", "max_tokens": 9, "stream": True,
                       "messages": [{"role": "user", "content": "hi"}]}).encode()  # fmt: skip
    answer = tunnel.ask("POST", "/v1/messages", [("x-api-key", PLACEHOLDER)], body)
    assert answer.status == 200
    kinds = [line[7:] for line in answer.text().splitlines() if line.startswith("event: ")]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert answer.get("x-mock-key") == FINGERPRINT


class Rss:
    """The worker's largest resident size while something runs."""

    def __init__(self, daemon):
        self.daemon, self.pid, self.most = daemon, daemon.worker_pid(), 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.done.wait(0.01):
            self.most = max(self.most, self.daemon.resident_kib(self.pid))

    def __enter__(self):
        self.before = self.daemon.resident_kib(self.pid)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    @property
    def growth_mib(self):
        return (self.most - self.before) / 1024


@pytest.mark.parametrize("chunked", ["", "&chunked=1"], ids=["length", "chunked"])
def test_64_mib_down_in_bounded_memory(tunnel, shared, chunked):
    tunnel.ask("GET", "/test/echo")
    digest = hashlib.sha256()
    with Rss(shared) as rss:
        tunnel.start("GET", f"/test/bytes?n={64 * MIB}{chunked}")
        answer = tunnel.read_head()
        for piece in tunnel.pieces(answer):
            digest.update(piece)
    assert digest.hexdigest() == pattern_digest(64 * MIB)
    assert rss.growth_mib < 4, f"the worker grew by {rss.growth_mib:.1f} MiB"


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_64_mib_up_in_bounded_memory(tunnel, shared, chunked):
    tunnel.ask("GET", "/test/echo")
    framing = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(64 * MIB))
    with Rss(shared) as rss:
        tunnel.start("POST", "/test/echo", [framing])
        for _ in range(64 * MIB // len(PATTERN)):
            tunnel.send(b"%x\r\n%s\r\n" % (len(PATTERN), PATTERN) if chunked else PATTERN)
        if chunked:
            tunnel.send(b"0\r\n\r\n")
        what = echoed(tunnel.response())
    assert what["body_sha256"] == pattern_digest(64 * MIB)
    assert rss.growth_mib < 4, f"the worker grew by {rss.growth_mib:.1f} MiB"


def test_a_slow_reader_holds_the_upstream_back(shared, mock):
    """Back-pressure: nobody reads, so the upstream can't get rid of its 64 MiB."""
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.ask("GET", "/test/echo")
        with Rss(shared) as rss:
            tunnel.start("GET", f"/test/bytes?n={64 * MIB}")
            tunnel.read_head()
            time.sleep(1)
            assert not mock.events("done", mark, target=f"/test/bytes?n={64 * MIB}")
        assert rss.growth_mib < 4
        with Tunnel(shared, "api.test") as other:
            assert other.ask("GET", "/test/echo").status == 200, "others are not held back"


# --- connections ----------------------------------------------------------------------------------


def test_many_exchanges_on_one_connection_use_one_upstream_connection(tunnel):
    seen = [echoed(tunnel.ask("GET", "/test/echo")) for _ in range(20)]
    assert len({s["conn"] for s in seen}) == 1
    assert [s["nth"] for s in seen] == list(range(seen[0]["nth"], seen[0]["nth"] + 20))


def test_an_upstream_connection_outlives_the_tunnel_and_is_used_again(daemon):
    one_thread = daemon({"worker": {"threads": 1}})
    seen = []
    for _ in range(5):
        with Tunnel(one_thread, "api.test") as tunnel:
            seen.append(echoed(tunnel.ask("GET", "/test/echo"))["conn"])
    assert len(set(seen)) == 1, seen


def test_a_connection_that_carried_a_credential_is_not_used_without_it(daemon):
    split = daemon(
        {"worker": {"threads": 1}},
        rules=[
            {"allow": "https://api.test/with/**", "credential": "main"},
            {"allow": "https://api.test/without/**"},
        ],
    )
    with Tunnel(split, "api.test") as tunnel:
        one = echoed(tunnel.ask("GET", "/with/test/echo"))
        two = echoed(tunnel.ask("GET", "/without/test/echo"))
    assert one["conn"] != two["conn"]
    assert "x-api-key" in one["names"] and "x-api-key" not in two["names"]


def test_a_pooled_connection_that_the_upstream_closed_is_not_used(daemon, mock):
    one_thread = daemon({"worker": {"threads": 1}})
    with Tunnel(one_thread, "api.test") as tunnel:
        first = echoed(tunnel.ask("GET", "/test/echo"))["conn"]
        mock.close_idle()
        until("the upstream's end", lambda: mock.events("end", conn=first))
        again = echoed(tunnel.ask("POST", "/test/echo", body=b"once"))
        assert again["conn"] != first and again["body"] == "once"


def test_pipelined_requests_are_answered_in_order(tunnel):
    paths = [f"/test/echo/{n}" for n in range(10)]
    tunnel.send("".join(f"GET {p} HTTP/1.1\r\nHost: api.test\r\n\r\n" for p in paths))
    for path in paths:
        assert echoed(tunnel.response())["line"] == f"GET {path} HTTP/1.1"


def test_a_pipelined_refusal_stands_in_its_place(daemon):
    picky = daemon(rules=[{"allow": "https://api.test/test/**", "credential": "main"}])
    with Tunnel(picky, "api.test") as tunnel:
        for path in ("/test/echo/1", "/forbidden", "/test/echo/2"):
            tunnel.send(f"GET {path} HTTP/1.1\r\nHost: api.test\r\n\r\n")
        assert [tunnel.response().status for _ in range(3)] == [200, 403, 200]


def test_connection_close_is_kept(shared):
    with Tunnel(shared, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("Connection", "close")])
        assert "close" in (answer.get("connection") or "")
        assert tunnel.is_closed()


def test_a_hundred_connections_at_a_time(shared):
    answers = []

    def one(n):
        with Tunnel(shared, "api.test") as tunnel:
            for turn in range(3):
                body = f"{n} {turn} ".encode() * 500
                what = echoed(tunnel.ask("POST", "/test/echo", body=body))
                answers.append(what["body_sha256"] == hashlib.sha256(body).hexdigest())

    threads = [threading.Thread(target=one, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 300 and all(answers)


def test_two_tenants_never_share_an_upstream_connection(daemon):
    """The same host, the same credential, one thread: the pool still keeps them apart."""
    rules = [{"allow": "https://api.test", "credential": "main"}]
    one = daemon(
        {
            "worker": {"threads": 1},
            "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "beta"}],
            "tenants": {"beta": {"rules": rules}},
        },
        rules=rules,
    )
    seen = []
    for folder in ("d", "e", "d", "e"):
        one.socket_path = f"{one.folder}/{folder}/s"
        with Tunnel(one, "api.test") as tunnel:
            seen.append(echoed(tunnel.ask("GET", "/test/echo"))["conn"])
    assert seen[0] == seen[2] and seen[1] == seen[3] and seen[0] != seen[1]


def test_two_thousand_connections_at_a_time(shared):
    """One `npm install` opens about as many; idle ones are cheap, and each still works."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = shared.resident_kib(shared.worker_pid())
        tunnels = [stack.enter_context(Tunnel(shared, "api.test")) for _ in range(2000)]
        each = (shared.resident_kib(shared.worker_pid()) - before) / 2000
        assert each < 64, f"{each:.0f} KiB for each connection at rest"
        for tunnel in tunnels[::100]:
            assert tunnel.ask("GET", "/test/echo").status == 200


# --- plain HTTP -----------------------------------------------------------------------------------


@pytest.fixture
def plain(daemon, plain_mock):
    return daemon(
        {"upstream": {"resolve": {"plain.test": plain_mock.address}}},
        rules=[{"allow": "http://plain.test/test/**"}, {"allow": "https://api.test"}],
    )


def test_plain_http_is_proxied_in_absolute_form_under_the_same_rules(plain):
    with Wire(plain.socket_path) as wire:
        what = echoed(wire.ask("GET", "http://plain.test/test/echo?a=1", host="plain.test"))
        assert what["line"] == "GET /test/echo?a=1 HTTP/1.1"
        assert what["names"]["host"] == "plain.test"
        assert wire.ask("GET", "http://plain.test/other", host="plain.test").status == 403


def test_plain_http_inside_a_tunnel_meets_the_same_rules(plain):
    with Wire(plain.socket_path) as wire:
        wire.send("CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n")
        assert wire.read_head().status == 200
        assert echoed(wire.ask("GET", "/test/echo", host="plain.test"))["line"].startswith("GET /")
        assert wire.ask("GET", "/other", host="plain.test").status == 403


def test_a_client_that_has_said_all_still_gets_its_answer(plain):
    """Half-close: FIN after the request is no reason to drop the answer."""
    with Wire(plain.socket_path) as wire:
        wire.start("GET", "http://plain.test/test/sse?n=3&ms=50", host="plain.test")
        wire.shutdown()
        assert wire.response().body.count(b"data: ") == 3


# --- real clients ---------------------------------------------------------------------------------


def test_curl(shared, curl):
    done = curl(shared, "-H", f"x-api-key: {PLACEHOLDER}", "-d", "hello", "https://api.test/test/echo")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["body"] == "hello"


def test_curl_uploads_with_expect(shared, curl, tmp_path):
    file = tmp_path / "big"
    file.write_bytes(PATTERN * 64)
    done = curl(shared, "-H", "Expect: 100-continue", "-T", str(file), "https://api.test/test/echo")
    assert json.loads(done.stdout)["body_sha256"] == hashlib.sha256(PATTERN * 64).hexdigest()


def test_python_urllib(shared, relay):
    script = (
        "import json, urllib.request as u\n"
        "r = u.Request('https://api.test/test/echo', b'hello', {'x-api-key': 'placeholder'})\n"
        "print(json.load(u.urlopen(r, timeout=20))['body'])\n"
    )
    env = {"HTTPS_PROXY": relay(shared).url, "SSL_CERT_FILE": shared.ca, "PATH": os.environ["PATH"]}
    done = subprocess.run(["/usr/bin/python3", "-c", script], env=env, capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    assert done.stdout == "hello\n", done.stderr


def test_wget(shared, relay):
    env = {"https_proxy": relay(shared).url, "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["wget", "-q", "-O", "-", "--tries=1", "--timeout=20", f"--ca-certificate={shared.ca}",
         "--post-data=hello", "https://api.test/test/echo"],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["body"] == "hello", done.stderr


def test_openssl_s_client(shared, relay):
    request = "GET /test/echo HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n"
    done = subprocess.run(
        ["openssl", "s_client", "-proxy", relay(shared).url.removeprefix("http://"), "-connect",
         "api.test:443", "-servername", "api.test", "-CAfile", shared.ca, "-verify_return_error",
         "-verify_hostname", "api.test", "-quiet", "-ign_eof"],
        input=request, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "HTTP/1.1 200" in done.stdout, done.stderr


def test_nginx_as_the_upstream(daemon, origin_nginx, curl):
    """Another server's HTTP: keep-alive, a large file, no answer to a chunked body but its status."""
    path = os.path.join(origin_nginx.folder, "www", "big")
    with open(path, "wb") as file:
        file.write(PATTERN * 512)
    one = daemon(
        {
            "upstream": {"ca_file": origin_nginx.ca, "resolve": {"nginx.test": origin_nginx.address}},
            "timeouts": {"idle_up": "1s"},
            "credentials": {"main": {"hosts": ["nginx.test"]}},
        },
        rules=[{"allow": "https://nginx.test", "credential": "main"}],
    )
    with Tunnel(one, "nginx.test") as tunnel:
        assert tunnel.ask("GET", "/text").text() == "from nginx\n"
        assert tunnel.ask("GET", "/status/204").status == 204
        assert hashlib.sha256(tunnel.ask("GET", "/big").body).hexdigest() == pattern_digest(32 * MIB)
        assert tunnel.ask("HEAD", "/big").get("content-length") == str(32 * MIB)
        assert tunnel.ask("GET", "/nothing").status == 404
    assert curl(one, "https://nginx.test/text").stdout == "from nginx\n"


# --- the record -----------------------------------------------------------------------------------


def test_every_exchange_has_an_open_and_a_close(shared):
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.ask("POST", "/test/echo/recorded?token_name=secret-value", body=b"12345")
    records = until("both records", lambda: _pair(shared.records_of("/test/echo/recorded")))
    assert "secret-value" not in json.dumps(records), "query values are never written"


def _pair(records):
    return records if len(records) == 2 else None


def test_the_open_record_is_there_before_the_answer(shared):
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.start("GET", "/test/sse/slow?n=3&ms=100")
        answer = tunnel.read_head()
        assert len(shared.records_of("/test/sse/slow")) == 1
        assert len(list(tunnel.pieces(answer))) == 3
    assert until("both records", lambda: _pair(shared.records_of("/test/sse/slow")))


def test_the_sandbox_socket_survives_connections_that_say_nothing(shared):
    for _ in range(50):
        Wire(shared.socket_path).close()
    with Wire(shared.socket_path) as wire:
        wire.send(b"\r\n")
        wire.sock.shutdown(socket.SHUT_WR)
        wire.rest()
    with Tunnel(shared, "api.test", alpn=()) as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200, "no ALPN is as good as http/1.1"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_tls_below_1_2_is_not_spoken_to_sandboxes(shared):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(shared.ca)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Tunnel(shared, "api.test", context=context)
