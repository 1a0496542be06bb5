"""Whatever breaks: an answer or an end, no leak, nothing unrecorded, and the next request is served."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import pytest
from fakedns import NODATA, SERVFAIL, SILENCE
from harness import KEYHOLE, Closed, Daemon, Refused, Tunnel, Upstream, Wire, finish, free_port, until


def serves(daemon):
    with Tunnel(daemon, "api.test") as tunnel:
        return tunnel.ask("GET", "/test/echo").status == 200


def settled(daemon, mock):
    """The worker's number of descriptors once everything rests."""
    mock.close_idle()
    last = [-1]

    def same():
        now = daemon.descriptors()
        if now == last[0]:
            return True
        last[0] = now
        time.sleep(0.05)
        return False

    until("rest", same)
    return last[0]


# --- the client goes ------------------------------------------------------------------------------

CONNECT = b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n"


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="api.test")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def gone_before_connect_is_whole(daemon):
    with Wire(daemon.socket_path) as wire:
        wire.send(CONNECT[:20])


def gone_after_connect(daemon):
    with Wire(daemon.socket_path) as wire:
        wire.send(CONNECT)
        wire.read_head()


def gone_in_the_hello(daemon):
    with Wire(daemon.socket_path) as wire:
        wire.send(CONNECT)
        wire.read_head()
        wire.send(client_hello()[:100])


def gone_in_the_handshake(daemon):
    with Wire(daemon.socket_path) as wire:
        wire.send(CONNECT)
        wire.read_head()
        wire.send(client_hello())
        wire.more()


def gone_in_the_head(daemon):
    with Tunnel(daemon, "api.test") as tunnel:
        tunnel.send("GET /test/echo HTTP/1.1\r\nHost: ap")


def gone_in_the_body(daemon):
    with Tunnel(daemon, "api.test") as tunnel:
        tunnel.start("POST", "/test/echo", [("Content-Length", "100000")])
        tunnel.send(b"x" * 50000)


def gone_in_a_chunk(daemon):
    with Tunnel(daemon, "api.test") as tunnel:
        tunnel.start("POST", "/test/echo", [("Transfer-Encoding", "chunked")])
        tunnel.send(b"ffff\r\nx")


def gone_before_the_answer(daemon):
    with Tunnel(daemon, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        tunnel.sock.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            tunnel.more()


def gone_in_the_answer(daemon):
    with Tunnel(daemon, "api.test") as tunnel:
        tunnel.start("GET", "/test/bytes?n=10000000")
        tunnel.read_head()


def gone_after_a_refusal(daemon):
    with Tunnel(daemon, "nowhere.test") as tunnel:
        tunnel.start("GET", "/")


STAGES = [
    gone_before_connect_is_whole, gone_after_connect, gone_in_the_hello, gone_in_the_handshake,
    gone_in_the_head, gone_in_the_body, gone_in_a_chunk, gone_before_the_answer, gone_in_the_answer,
    gone_after_a_refusal,
]  # fmt: skip


@pytest.mark.skipif(os.getuid() != 0, reason="counting the worker's descriptors needs root")
@pytest.mark.parametrize("stage", STAGES, ids=lambda s: s.__name__)
def test_a_client_that_vanishes_leaves_no_descriptor(shared, mock, stage):
    stage(shared)
    before = settled(shared, mock)
    for _ in range(20):
        stage(shared)
    assert settled(shared, mock) <= before
    assert serves(shared)


def test_the_upstream_learns_that_the_client_went(shared, mock):
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        seen = until("the request", lambda: mock.events("request", mark, target="/test/hold"))
    until("its end", lambda: mock.events("end", mark, conn=seen[0]["conn"]), 5)


def test_an_exchange_whose_client_went_is_closed_in_the_journal(shared, mock):
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold/vanished")
        until("the request", lambda: mock.events("request", target="/test/hold/vanished"))
    records = until(
        "open and close", lambda: (r := shared.records_of("/test/hold/vanished")) and len(r) == 2 and r
    )
    assert records[0]["id"] == records[1]["id"]


# --- what comes is garbage ------------------------------------------------------------------------

HELLOS = {
    "random": bytes(random.Random(7).randrange(256) for _ in range(4096)),
    "ssl2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + b"\x01\x00\x80" * 7 + b"x" * 16,
    "huge-record": b"\x16\x03\x01\xff\xff" + b"x" * 70000,
    "empty-record": b"\x16\x03\x01\x00\x00" * 100,
    "alert": b"\x15\x03\x01\x00\x02\x02\x28",
    "short-hello": b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    "long-hello": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"x" * 16380,
    "nothing": b"",
    "one-byte": b"\x16",
}


@pytest.mark.parametrize("kind", HELLOS)
def test_a_broken_hello_ends_its_connection_and_no_other(shared, mock, kind):
    mark = mock.mark()
    with Tunnel(shared, "api.test") as other:
        for _ in range(5):
            with Wire(shared.socket_path) as wire:
                wire.send(CONNECT)
                assert wire.read_head().status == 200
                with contextlib.suppress(OSError):
                    wire.send(HELLOS[kind])
                    wire.shutdown()
                wire.rest()
        assert mock.requests(since=mark) == []
        assert other.ask("GET", "/test/echo").status == 200


def test_a_client_that_does_not_trust_us_is_noted(shared):
    """The usual mistake in a sandbox: its journal entry is what finds it."""
    with pytest.raises(ssl.SSLError):
        Tunnel(shared, "api.test", context=ssl.create_default_context())
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Tunnel(shared, "api.test", alpn=("h3",))
    assert serves(shared)


# --- time -----------------------------------------------------------------------------------------


@pytest.fixture
def hasty(daemon):
    short = {"header": "500ms", "handshake": "500ms", "response": "700ms", "idle_down": "700ms",
             "stall": "700ms", "connect": "500ms", "resolve": "500ms"}  # fmt: skip
    return daemon({"timeouts": short})


def test_a_head_that_never_ends_is_408(hasty):
    with Tunnel(hasty, "api.test") as tunnel:
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            tunnel.send("GET /test/echo HTTP/1.1\r\nHost: api.test\r\n")
            for n in range(100):
                tunnel.send(f"X-{n}: drip\r\n")
                time.sleep(0.02)
                if time.monotonic() - begin > 1.5:
                    break
        answer = tunnel.response()
        assert answer.status == 408
        assert tunnel.is_closed()


@pytest.mark.parametrize("sent", [b"", CONNECT[:10], CONNECT, CONNECT + client_hello()[:50]],
                         ids=["nothing", "half a CONNECT", "CONNECT", "half a hello"])  # fmt: skip
def test_a_client_that_says_nothing_more_is_let_go(hasty, sent):
    with Wire(hasty.socket_path) as wire:
        wire.send(sent)
        wire.sock.settimeout(5)
        wire.rest()


def test_an_upstream_that_never_answers_is_504(hasty):
    with Tunnel(hasty, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/hold")
    assert answer.status == 504
    assert "http_response_timeout" in answer.get("proxy-status")


def test_an_answer_that_stalls_is_cut_off(hasty):
    with Tunnel(hasty, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/sse?n=2&ms=3000", partial=True)
    assert not answer.complete


def test_an_answer_that_trickles_is_not_cut_off(hasty):
    with Tunnel(hasty, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/sse?n=5&ms=400")
    assert answer.body.count(b"data:") == 5


def test_an_exchange_that_lasts_too_long_ends_however_busy_it_is(daemon):
    one = daemon({"timeouts": {"total": "1s"}})
    with Tunnel(one, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/sse?n=40&ms=100", partial=True)
    assert not answer.complete and 5 <= answer.body.count(b"data:") <= 20
    until("its close", lambda: "timeouts.total" in str(one.records_of("/test/sse")))
    assert serves(one)


def test_an_upstream_that_never_says_hello_is_504(daemon):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as mute:
        one = daemon({"upstream": {"resolve": {"mute.test": "127.0.0.1:%d" % mute.getsockname()[1]}},
                      "timeouts": {"handshake": "500ms"}},
                     rules=[{"allow": "https://mute.test"}, {"allow": "https://api.test", "credential": "main"}])  # fmt: skip
        with Tunnel(one, "mute.test") as tunnel:
            answer = tunnel.ask("GET", "/")
        assert answer.status == 504 and "handshake" in answer.text(), answer
        assert serves(one)


# --- names and connections ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "what, status, token",
    [
        (None, 502, "destination_not_found"),
        (NODATA, 502, "destination_not_found"),
        (SERVFAIL, 502, "dns_error"),
        (SILENCE, 504, "dns_timeout"),
    ],
)
def test_a_name_that_does_not_resolve_is_said_to_be_one(daemon, fake_dns, what, status, token):
    one = daemon(
        {"upstream": {"nameservers": [fake_dns.address]}, "timeouts": {"resolve": "1s"}},
        rules=[{"allow": "https://lost.test"}, {"allow": "https://api.test", "credential": "main"}],
    )
    if what:
        fake_dns.names["lost.test"] = what
    with Tunnel(one, "lost.test") as tunnel:
        answer = tunnel.ask("GET", "/")
    assert (answer.status, "error=" + token in answer.get("proxy-status").replace(" ", "")) == (status, True), answer
    assert "lost.test" in answer.text()
    assert answer.get("x-should-retry") == ("false" if token == "destination_not_found" else None)
    assert serves(one)


def test_an_upstream_that_dies_in_an_answer_is_an_answer_cut_off(daemon, tmp_path):
    mortal = Upstream(str(tmp_path), ["mortal.test"])
    try:
        one = daemon(
            {"upstream": {"ca_file": mortal.ca, "resolve": {"mortal.test": mortal.address}}},
            rules=[{"allow": "https://mortal.test"}],
        )
        with Tunnel(one, "mortal.test") as tunnel:
            tunnel.start("GET", "/test/sse?n=100&ms=50")
            answer = tunnel.read_head()
            pieces = tunnel.pieces(answer)
            next(pieces)
            mortal.process.kill()
            with pytest.raises(Closed):
                list(pieces)
        with Tunnel(one, "mortal.test") as tunnel:
            assert tunnel.ask("GET", "/").status == 502
    finally:
        mortal.process.kill()
        mortal.process.wait()


# --- the journal can't be written ------------------------------------------------------------------


@pytest.fixture
def tiny_disk():
    """A file system of 256 KiB; whoever may not mount one can't run the test."""
    folder = tempfile.mkdtemp(prefix="khdisk.")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode != 0:
        os.rmdir(folder)
        pytest.skip("a small tmpfs can't be mounted here: " + done.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)


def test_a_full_disk_under_the_journal_stops_everything_and_space_lets_it_go_on(tiny_disk, daemon, mock):
    one = daemon({"audit": {"file": tiny_disk + "/audit.jsonl"}}, start=False)
    one.journal_path = tiny_disk + "/audit.jsonl"
    one.start()
    assert serves(one)
    ballast = tiny_disk + "/ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    refused = 0
    for n in range(200):
        with Tunnel(one, "api.test") as tunnel:
            answer = tunnel.ask("GET", f"/test/echo/full/{n}", [("X-Test-Id", f"full {n}")])
        if answer.status == 503:
            assert "journal" in answer.text()
            assert not mock.requests(f"full {n}"), "forwarded without a record"
            refused += 1
            if refused == 5:
                break
        else:
            assert answer.status == 200
    assert refused == 5
    # What found no room is cut off: the journal is whole, full disk or not.
    until("it is cut back", lambda: subprocess.run(
        [KEYHOLE, "audit", "verify", one.journal_path], capture_output=True, check=False).returncode == 0, 5)  # fmt: skip
    assert "of a record that found no room were cut off" in one.stderr()
    os.unlink(ballast)
    until("it serves again", lambda: serves(one))
    opened = {r.get("url.path") for r in one.journal()}
    reached = {e["target"] for e in mock.requests() if e["target"].startswith("/test/echo/full/")}
    assert reached <= opened


def test_a_worker_that_ends_on_a_full_disk_gets_no_journal_set_aside(tiny_disk, daemon):
    one = daemon({"audit": {"file": tiny_disk + "/audit.jsonl"}}, start=False)
    one.journal_path = tiny_disk + "/audit.jsonl"
    one.start()
    assert serves(one)
    ballast = tiny_disk + "/ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    for n in range(200):
        with Tunnel(one, "api.test") as tunnel:
            if tunnel.ask("GET", f"/test/echo/full/{n}").status == 503:
                break
    until("it is cut back", lambda: "of a record that found no room were cut off" in one.stderr())
    os.kill(one.worker_pid(), signal.SIGKILL)
    until("three could not start", lambda: one.stderr().count("ended with status 9") >= 3, 20)
    os.unlink(ballast)
    until("it serves again", lambda: one.worker_pid() and serves(one), 20)
    assert sorted(os.listdir(tiny_disk)) == ["audit.jsonl", "audit.jsonl.lock"]
    done = subprocess.run([KEYHOLE, "audit", "verify", one.journal_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_two_daemons_do_not_write_one_journal(daemon):
    one = daemon()
    config = json.loads(json.dumps(one.config))
    config["listen"][0]["unix"] = "other/s"
    two = Daemon(config, folder=one.folder, start=False)
    two.stderr_path = one.folder + "/stderr2"
    assert not two.spawn()
    assert finish(two.process) != 0
    assert "audit.jsonl" in two.stderr()
    assert serves(one)


def test_two_daemons_do_not_take_one_socket(daemon):
    one = daemon()
    config = json.loads(json.dumps(one.config))
    config["audit"]["file"] = "other.jsonl"
    two = Daemon(config, folder=one.folder, start=False)
    two.stderr_path = one.folder + "/stderr2"
    assert not two.spawn()
    assert finish(two.process) != 0
    assert serves(one)


# --- death ----------------------------------------------------------------------------------------


def test_sigterm_lets_what_runs_finish(daemon):
    one = daemon()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/sse?n=8&ms=100")
        answer = tunnel.read_head()
        pieces = tunnel.pieces(answer)
        first = next(pieces)
        one.process.terminate()
        assert len([first, *pieces]) == 8
    assert finish(one.process) == 0
    one.verify()
    one.checked = False


def test_a_torn_last_line_is_closed_by_a_record_that_says_where(daemon):
    one = daemon()
    assert serves(one)
    one.stop()
    size = os.path.getsize(one.journal_path)
    with open(one.journal_path, "ab") as file:
        file.write(torn := b'{"event":"open","id":"x')
    one.start()
    (recovered,) = one.journal(event="recovered")
    assert (recovered["offset"], recovered["bytes"]) == (size, len(torn))
    assert serves(one)


class Load:
    """Clients that ask without a pause, each request on a path of its own."""

    def __init__(self, daemon, clients=6):
        self.daemon, self.stop, self.served, self.failed = daemon, threading.Event(), 0, 0
        self.threads = [threading.Thread(target=self.client, args=(n,)) for n in range(clients)]

    def client(self, number):
        turn = 0
        while not self.stop.is_set():
            try:
                with Tunnel(self.daemon, "api.test", timeout=5) as tunnel:
                    for _ in range(20):
                        turn += 1
                        answer = tunnel.ask("POST", f"/test/echo/load/{number}/{turn}", body=b"x" * 500)
                        assert answer.status in (200, 502, 503), answer
                        self.served += answer.status == 200
                        if self.stop.is_set():
                            break
            except (OSError, Closed, Refused):
                self.failed += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)


@pytest.mark.alone
def test_a_worker_killed_ten_times_under_load_loses_no_record(daemon, mock):
    one = daemon()
    mark = mock.mark()
    pauses = []
    with Load(one) as load:
        for _ in range(10):
            target = load.served + 40
            until("load", lambda target=target: load.served >= target)
            pid = one.worker_pid()
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            until("a new worker", lambda pid=pid: one.worker_pid() not in (None, pid))
            until("it serves", lambda: _try(one))
            pauses.append(time.monotonic() - killed)
    # The median: other work of the machine may hold up one start, not most of ten.
    assert sorted(pauses)[len(pauses) // 2] < 1, f"replaced within a second: {pauses}"
    one.baseline = None  # of a worker that is dead
    one.stop()
    one.verify()
    opened = {r["url.path"] for r in one.journal(event="open")}
    reached = {e["target"] for e in mock.requests(since=mark)}
    assert len(reached) > 400
    assert reached <= opened, f"unrecorded: {sorted(reached - opened)[:5]}"
    one.checked = False


def _try(daemon):
    with contextlib.suppress(OSError, Closed, Refused):
        return serves(daemon)
    return False


def test_a_daemon_killed_outright_is_continued(daemon, mock):
    one = daemon()
    mark = mock.mark()
    with Load(one, 3) as load:
        until("load", lambda: load.served > 50)
        one.kill()
    one.start()
    assert serves(one)
    one.stop()
    one.verify()
    opened = {r["url.path"] for r in one.journal(event="open")}
    assert {e["target"] for e in mock.requests(since=mark)} <= opened
    one.checked = False


def test_the_worker_ends_with_its_keeper(daemon):
    one = daemon()
    worker = one.worker_pid()
    one.process.kill()
    one.process.wait()
    until("the worker's end", lambda: not os.path.exists(f"/proc/{worker}"), 5)
    shutil.rmtree(one.folder + "/d", ignore_errors=True)
    one.checked = False


def test_a_port_that_nobody_listens_on_is_502(daemon):
    one = daemon(
        {"upstream": {"resolve": {"closed.test": f"127.0.0.1:{free_port()}"}}},
        rules=[{"allow": "https://closed.test"}],
    )
    with Tunnel(one, "closed.test") as tunnel:
        answer = tunnel.ask("GET", "/")
    assert answer.status == 502
    assert "connection_refused" in answer.get("proxy-status")
