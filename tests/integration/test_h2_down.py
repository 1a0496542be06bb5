"""HTTP/2 towards the sandbox: each stream is an exchange that is decided by itself."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import time

import h2.settings
import pytest
from clients import client_context
from h2client import H2Client, Reset, StreamWire, h2_plain, h2_tunnel
from harness import FINGERPRINT, PATIENCE, SECRET, Tunnel, until
from hyperframe.frame import RstStreamFrame, WindowUpdateFrame


def test_a_request_goes_up_with_the_credential_and_its_answer_comes_back(shared, mock):
    with h2_tunnel(shared, "api.test") as client:
        answer = client.ask("GET", "/test/echo?case=h2-first", [("x-a", "1")])
    seen = answer.json()
    assert answer.status == 200
    assert FINGERPRINT in json.dumps(seen), "the credential went in"
    records = until("its close", lambda: shared.records_of("/test/echo"))
    opened = next(r for r in records if r["event"] == "open")
    assert opened["network.protocol.version"] == "2"
    assert opened["http.request.method"] == "GET" and opened["url.scheme"] == "https"


def test_alpn_takes_h2_before_http11_and_none_is_http11(shared):
    for alpn, chosen in ((("h2", "http/1.1"), "h2"), (("http/1.1", "h2"), "h2"),
                         (("http/1.1",), "http/1.1"), ((), None)):  # fmt: skip
        with Tunnel(shared, "api.test", alpn=alpn) as tunnel:
            assert tunnel.sock.selected_alpn_protocol() == chosen


def test_tls_beneath_is_what_http2_asks_for(shared):
    """RFC 9113 §9.2: TLS 1.2 with ephemeral keys and AEAD at least; nothing compressed."""

    def speak(ciphers):
        context = client_context(shared.ca, ("h2",))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
        with Tunnel(shared, "open.test", context=context) as tunnel:
            assert tunnel.sock.selected_alpn_protocol() == "h2" and tunnel.sock.compression() is None
            with H2Client(tunnel, authority="open.test") as client:
                return client.ask("GET", "/test/status?code=204").status

    assert speak("ECDHE+AESGCM") == speak("ECDHE+CHACHA20") == 204
    for poor in ("ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA", "ECDHE-ECDSA-AES128-CCM8:@SECLEVEL=0"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            speak(poor)


def test_no_renegotiation(shared):
    """RFC 9113 §9.2.1; in TLS 1.3 there is none."""
    command = ["openssl", "s_client", "-unix", shared.socket_path, "-servername", "open.test", "-CAfile", shared.ca,
               "-tls1_2", "-alpn", "h2"]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        try:
            # Only when keyhole's SETTINGS have come, too: a client in a handshake takes no other record.
            seen, settings = b"", b"\x04\x00\x00\x00\x00\x00"
            while b"Extended master secret" not in seen or settings not in seen:
                more = os.read(client.stdout.fileno(), 65536)
                assert more, seen
                seen += more
            client.stdin.write(b"R\n")
            client.stdin.flush()
            rest = client.communicate(timeout=PATIENCE)[0]
        finally:
            client.kill()
    assert b"RENEGOTIATING" in rest and b"no renegotiation" in rest, rest


def test_the_table_of_fields_is_as_small_as_the_client_says(shared):
    """RFC 7541 §4.2: here none at all, said before and between requests."""
    with h2_tunnel(shared, "open.test") as client:
        for size in (0, 4096, 0, 64, 65536):
            client.h2.update_settings({h2.settings.SettingCodes.HEADER_TABLE_SIZE: size})
            for _ in range(3):  # h2 refuses a section that does not keep to it
                assert client.ask("GET", "/test/echo").status == 200
            assert client.h2.decoder.header_table_size <= min(size, 4096)


def test_content_goes_up_and_down_in_any_size(shared):
    for size in (0, 1, 16384, 16385, 65535, 65536, 300000, 3 << 20):
        body = bytes(range(256)) * (size // 256 + 1)
        body = body[:size]
        with h2_tunnel(shared, "open.test") as client:
            answer = client.ask("POST", "/test/echo", [("content-length", str(size))], body=body)
            assert answer.status == 200
            assert answer.json()["body_bytes"] == size
            without = client.ask("POST", "/test/echo", body=body)
            assert without.json()["body_bytes"] == size
            down = client.ask("GET", f"/test/bytes?n={size}")
            chunked = client.ask("GET", f"/test/bytes?n={size}&chunked=1")
        assert len(down.body) == len(chunked.body) == size and down.body == chunked.body
        assert down.get("content-length") == str(size)
        assert chunked.get("transfer-encoding") is None


def test_streams_of_one_connection_run_side_by_side(shared):
    with h2_tunnel(shared, "open.test") as client:
        held = client.start("GET", "/test/hold")
        streams = [client.start("GET", f"/test/bytes?n={1000 + i}") for i in range(50)]
        for i, stream in enumerate(streams):
            assert len(client.wait(stream).body) == 1000 + i
        client.h2.reset_stream(held, 8)
        client.flush()
        assert client.ask("GET", "/test/status?code=204").status == 204


def test_a_refusal_disturbs_no_other_stream(shared, mock):
    mark = mock.mark()
    with h2_tunnel(shared, "open.test") as client:
        slow = client.start("GET", "/test/sse?n=5&ms=30")
        refused = client.start("GET", "/test/echo", [("authorization", "Bearer x")])
        answer = client.wait(refused)
        assert answer.status == 403 and answer.json()["keyhole"]["reason"] == "client_auth"
        assert "keyhole" in answer.get("proxy-status")
        assert client.wait(slow).status == 200
        assert client.ask("GET", "/test/echo").status == 200
    assert not mock.requests("authorization", since=mark)


@pytest.mark.parametrize("authority", ["other.test", "api.test:444", "api.test.", "u@api.test", "a b"])
def test_each_request_of_a_connection_must_name_the_tunnels_authority(shared, mock, authority):
    """Coalesced hosts: a certificate may cover several, the tunnel leads to one."""
    mark = mock.mark()
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("GET", "/test/echo", authority=authority)
        try:
            assert client.wait(stream).status in (400, 421)
        except Reset as reset:
            assert reset.code == 1
        assert client.ask("GET", "/test/echo").status == 200, "the others go on"
    assert len(mock.requests(since=mark)) == 1


def test_every_request_of_one_connection_is_decided(daemon, mock):
    d = daemon(rules=[{"allow": "GET https://open.test/test/echo"}])
    mark = mock.mark()
    with h2_tunnel(d, "open.test") as client:
        for _ in range(3):
            assert client.ask("GET", "/test/echo").status == 200
            assert client.ask("POST", "/test/echo", body=b"x").status == 403
            assert client.ask("GET", "/test/bytes?n=1").status == 403
    assert len(mock.requests(since=mark)) == 3
    assert len(d.journal(event="deny")) == 6


def test_hosts_of_one_connection_are_each_decided(shared, mock):
    """Straight on the socket no tunnel binds them: one is allowed, the next is not, whichever came before."""
    mark = mock.mark()
    keyed = []
    with h2_plain(shared) as client:
        client.scheme = "https"
        for n in range(3):
            hosts = ["api.test", "other.test", "open.test", "wild.test"]
            streams = [client.start("GET", f"/test/echo?{n}", authority=host) for host in hosts]
            answers = [client.wait(stream) for stream in streams]
            assert [a.status for a in answers] == [200, 403, 200, 403]
            keyed += [FINGERPRINT in a.text() for a in (answers[0], answers[2])]
    assert keyed == [True, False] * 3, "each has its own credential, or none"
    assert len(mock.requests(since=mark)) == 6


def test_scheme_must_be_the_tunnels(shared):
    with h2_tunnel(shared, "open.test") as client:
        client.scheme = "http"
        assert client.ask("GET", "/test/echo").status == 421
        client.scheme = "https"
        assert client.ask("GET", "/test/echo").status == 200


def test_trailers_and_interim_answers_pass(shared):
    with h2_tunnel(shared, "open.test") as client:
        answer = client.ask("GET", "/test/trailers")
        assert answer.trailers and answer.complete
        many = client.ask("GET", "/test/interim?n=3&status=103")
        assert [i.status for i in many.interim] == [103] * 3 and many.status == 200


def test_the_trailers_of_a_request_pass(shared):
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("POST", "/test/echo", end=False)
        client.put(stream, b"abc")
        client.end(stream, [("x-checksum", "1")])
        answer = client.wait(stream)
    assert answer.json()["trailers"] == [["x-checksum", "1"]]


def test_a_trailer_that_may_not_be_one_ends_its_stream(shared):
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("POST", "/test/echo", end=False)
        client.put(stream, b"abc")
        client.end(stream, [("authorization", "Bearer x")])
        with pytest.raises(Reset):
            client.wait(stream)
        assert client.ask("GET", "/test/echo").status == 200


def test_head_204_and_304_have_no_content(shared):
    with h2_tunnel(shared, "open.test") as client:
        head = client.ask("HEAD", "/test/bytes?n=77")
        assert head.status == 200 and head.body == b"" and head.get("content-length") == "77"
        for code in (204, 304):
            assert client.ask("GET", f"/test/status?code={code}").body == b""


def test_a_broken_answer_ends_its_stream_alone(shared):
    with h2_tunnel(shared, "open.test") as client:
        with pytest.raises(Reset):
            client.ask("GET", "/test/cut?how=fin&ms=50")
        assert client.ask("GET", "/test/malformed?kind=obs-fold").status == 502
        assert client.ask("GET", "/test/echo").status == 200


@pytest.mark.parametrize("kind", ["chunk-size-text", "chunk-no-crlf"])
def test_an_answer_that_is_broken_in_the_turn_in_which_it_began_is_502(shared, kind):
    """Its head has not left yet, and is taken back."""
    with h2_tunnel(shared, "open.test") as client:
        for _ in range(3):
            answer = client.ask("GET", f"/test/malformed?kind={kind}")
            assert answer.status == 502 and "keyhole" in answer.text()
        assert client.ask("GET", "/test/echo").status == 200


def test_an_early_answer_ends_the_upload(shared):
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("POST", "/test/early", end=False)
        assert client.wait_head(stream).status < 500
        assert client.ask("GET", "/test/echo").status == 200


def test_events_leave_as_they_come(shared):
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("GET", "/test/sse?n=4&ms=100")
        client.wait_head(stream)
        times = []
        one = client.streams[stream]
        while not one.ended:
            before = len(one.parts)
            client.pump()
            if len(one.parts) > before:
                times.append(time.monotonic())
    assert times[-1] - times[0] > 0.2, "not all at once"


def test_a_reader_that_opens_no_window_holds_its_upstream_back(shared, mock):
    """64 KiB of window, and what is on the way: not the hundred megabytes."""
    with h2_tunnel(shared, "open.test", window=65535, acknowledge=False) as client:
        pid = shared.worker_pid()
        before = shared.resident_kib(pid)
        stream = client.start("GET", "/test/bytes?n=100000000")
        client.wait_head(stream)
        while sum(map(len, client.streams[stream].parts)) < 65535:
            client.pump()
        time.sleep(0.3)
        assert shared.resident_kib(pid) - before < 4096


def test_an_upload_that_nobody_reads_waits(shared):
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("POST", "/test/deaf?ms=2000", end=False)
        client.wire.sock.settimeout(1)
        sent = 0
        try:
            while sent < 64 << 20:
                room = min(client.h2.local_flow_control_window(stream), 16384)
                if room == 0:
                    client.pump()
                    continue
                client.h2.send_data(stream, b"x" * room)
                client.flush()
                sent += room
        except TimeoutError:
            pass
        assert sent < 16 << 20, "the window was not opened for what nobody takes"


def test_a_stream_that_is_given_up_ends_upstream(shared, mock):
    mark = mock.mark()
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("GET", "/test/hold")
        until("it is upstream", lambda: mock.requests(since=mark))
        client.h2.reset_stream(stream, 8)
        client.flush()
        until("it has ended there", lambda: mock.events("end", since=mark))
        assert client.ask("GET", "/test/echo").status == 200


def test_plain_http2_inside_a_tunnel(daemon, plain_mock):
    config = {"upstream": {"resolve": {"plain.test": plain_mock.address}}}
    d = daemon(config, rules=[{"allow": "http://plain.test"}])
    with h2_plain(d) as outer:
        answer = outer.ask("GET", "/test/echo", authority="plain.test")
        assert answer.status == 200, "absolute :scheme and :authority"
        assert outer.ask("GET", "/test/echo", authority="other.test").status == 403
        outer.scheme = "ftp"
        assert outer.ask("GET", "/test/echo", authority="plain.test").status == 400


def test_drain_says_goaway_and_lets_streams_end(daemon):
    d = daemon()
    d.checked = False
    with h2_tunnel(d, "open.test") as client, h2_tunnel(d, "open.test") as idle:
        idle.ask("GET", "/test/echo")
        stream = client.start("GET", "/test/sse?n=6&ms=100")
        client.wait_head(stream)
        d.process.terminate()
        assert idle.until_goaway() == 0
        answer = client.wait(stream)
        assert answer.complete and client.goaway == 0
        assert client.until_closed()
    assert d.process.wait(PATIENCE) == 0


def test_a_drain_takes_nothing_that_begins_behind_its_goodbye(daemon, mock):
    """A client that minds no GOAWAY, with a stream that is open: for a request, and for a tunnel."""
    d = daemon()
    d.checked = False
    with h2_tunnel(d, "open.test") as client, h2_plain(d) as outer:
        mark = mock.mark()
        stream = client.start("GET", "/test/hold")
        tunnel = StreamWire(outer, "open.test:443").accept()
        tunnel.start_tls(d, "open.test")
        tunnel.start("GET", "/test/hold")
        until("both are upstream", lambda: len(mock.requests(since=mark)) == 2)
        d.process.terminate()
        assert client.until_last() == stream and outer.until_last() == tunnel.stream
        late = [client.start("GET", "/test/echo") for _ in range(3)]
        connect = outer.start_head([(":method", "CONNECT"), (":authority", "open.test:443")], end=False)
        client.round_trips()
        outer.round_trips()
        assert len(d.records_of("/test/echo")) == 0 and len(mock.requests(since=mark)) == 2
        assert not any(client.streams[one].response for one in late) and not outer.streams[connect].response
    assert d.process.wait(PATIENCE) == 0


def test_idle_connections_end_with_goaway(daemon):
    d = daemon({"timeouts": {"idle_down": "300ms"}})
    with h2_tunnel(d, "open.test") as client:
        client.ask("GET", "/test/echo")
        assert client.until_goaway() == 0
        assert client.until_closed()


def test_each_stream_has_its_own_timeout(daemon):
    d = daemon({"timeouts": {"response": "400ms"}})
    with h2_tunnel(d, "open.test") as client:
        held = client.start("GET", "/test/hold")
        for _ in range(4):
            assert client.ask("GET", "/test/echo").status == 200
            time.sleep(0.05)
        assert client.wait(held).status == 504
        assert client.ask("GET", "/test/echo").status == 200


def until_reset(client, stream, seconds):
    """Opens the stream's window by a little as fast as it can. Return: was the stream reset meanwhile?"""
    more = WindowUpdateFrame(stream, window_increment=512).serialize()
    client.raw(WindowUpdateFrame(0, window_increment=2**30))
    client.wire.sock.setblocking(False)
    last = time.monotonic() + seconds
    tail = b""
    while time.monotonic() < last:
        with contextlib.suppress(ssl.SSLWantWriteError):
            client.wire.sock.send(more)
        with contextlib.suppress(ssl.SSLWantReadError):
            piece = client.wire.sock.recv(262144)
            tail = tail[-64:] + piece
            if RstStreamFrame(stream, error_code=2).serialize() in tail:
                return True
    return False


def test_a_stream_that_moves_all_the_time_does_not_outlast_timeouts_total(daemon):
    """Whenever it is looked at, something has moved: that helps against timeouts.stall alone."""
    d = daemon({"timeouts": {"total": "1s"}}, rules=[{"allow": "https://open.test"}])
    with h2_tunnel(d, "open.test", window=65535) as client:
        stream = client.start("GET", f"/test/bytes?n={64 * 2**30}")
        client.wait_head(stream)
        assert until_reset(client, stream, 8), "it went on beyond timeouts.total"
    until("its close", lambda: "timeouts.total" in str(d.records_of("/test/bytes")))


def test_what_waits_for_a_connection_does_not_outlast_timeouts_total(daemon, mock):
    """However long each step may take by its own timeout."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as mute:
        d = daemon({"upstream": {"resolve": {"mute.test": "127.0.0.1:%d" % mute.getsockname()[1]}},
                    "timeouts": {"total": "500ms", "handshake": "30s"}},
                   rules=[{"allow": "https://mute.test"}])  # fmt: skip
        with h2_tunnel(d, "mute.test") as client:
            began = time.monotonic()
            answer = client.ask("GET", "/")
            assert answer.status == 504 and "timeouts.total" in answer.text(), answer
        with Tunnel(d, "mute.test") as tunnel:
            answer = tunnel.ask("GET", "/")
            assert answer.status == 504 and "timeouts.total" in answer.text(), answer
        assert time.monotonic() - began < 8


def test_what_new_rules_forbid_ends_and_the_rest_goes_on(daemon, mock):
    d = daemon(rules=[{"allow": "https://open.test"}])
    with h2_tunnel(d, "open.test") as client:
        hold = client.start("GET", "/test/hold")
        sse = client.start("GET", "/test/sse?n=20&ms=50")
        client.wait_head(sse)
        config = d.config
        config["tenants"]["acme"]["rules"] = [{"allow": "https://open.test/test/sse"}]
        d.write(config)
        d.process.send_signal(1)
        assert client.wait(hold).status == 403
        assert client.wait(sse).complete
        assert client.ask("GET", "/test/echo").status == 403


def test_the_real_key_is_not_in_what_curl_gets(shared, curl):
    done = curl(shared, "--http2", "https://api.test/test/echo", "-w", "%{http_version}")
    assert done.returncode == 0 and done.stdout.endswith("2")
    assert SECRET not in done.stdout


def test_a_refusal_can_be_read_by_who_is_still_sending(shared, curl, tmp_path):
    """No reset behind the answer: clients that are sending take it for the failure of all."""
    body = tmp_path / "body"
    body.write_bytes(b"x" * 3000000)
    done = curl(shared, "--http2", "--data-binary", f"@{body}", "-w", " %{http_code} %{http_version}",
                "https://other.test/up")  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith(" 403 2"), done
    with h2_tunnel(shared, "other.test") as client:
        stream = client.start("POST", "/up", end=False)
        client.put(stream, b"x" * 200000)
        assert client.wait_head(stream).status == 403
        client.put(stream, b"x" * 200000, end=True)
        assert client.wait(stream).complete and client.streams[stream].reset is None
