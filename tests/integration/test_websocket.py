"""WebSocket through the proxy: the handshake, the credential, frames both ways, and how it ends."""

import asyncio
import contextlib
import copy
import json
import os
import shutil
import subprocess
import time

import pytest
from clients import Wire, client_context
from common import HERE, PLACEHOLDER, until
from daemons import NAMES
from wspeer import (  # noqa: F401 (origin, ours and start are fixtures)
    BINARY, CLOSE, KEY, PING, PONG, TEXT, Origin, WsClient, close_payload, closed, frame, has_real_key, origin, ours,
    start,
)  # fmt: skip


# --- the handshake --------------------------------------------------------------------------------


def test_the_credential_goes_in_and_everything_else_of_the_kind_out(ours, origin):
    """A Codex-like client: GET with a placeholder as Bearer, and an upgrade."""
    with WsClient(ours) as client:
        answer = client.open("/v1/responses", [
            ("Authorization", "Bearer " + PLACEHOLDER), ("Cookie", "a=b"),
            ("OpenAI-Beta", "responses_websockets"),
            ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"),
            ("Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.sk-123"),
        ])  # fmt: skip
        assert answer.get("sec-websocket-extensions") is None
        peer = origin.last()
        assert has_real_key(peer)
        assert not peer.all("authorization") and not peer.all("cookie")
        assert peer.all("openai-beta") == ["responses_websockets"]
        # Asked with a key of our own, no extension, and no subprotocol that holds a key.
        assert peer.all("sec-websocket-key") != [KEY]
        assert not peer.all("sec-websocket-extensions")
        assert peer.all("sec-websocket-protocol") == ["realtime"]
        assert peer.all("sec-websocket-version") == ["13"] and peer.all("host") == ["api.test"]
        client.put(TEXT, json.dumps({"type": "response.create"}))
        assert client.message() == (TEXT, b'{"type": "response.create"}')
        client.put(CLOSE, close_payload(1000))
        client.expect_close(1000)
        assert client.gone()
    opening = ours.records_of("/v1/responses")[0]
    assert opening["credential"] == "main"
    assert "sec-websocket-protocol" in opening["stripped"]
    record = closed(ours, "/v1/responses")
    assert record["http.response.status_code"] == 101 and record["complete"] is True
    assert record["websocket.close.code"] == 1000 and record["websocket.close.by"] == "sandbox"
    assert record["websocket.up.messages"] == record["websocket.down.messages"] == 1
    # The message, and the code of the close frame.
    assert record["http.request.body.size"] == 27 + 2 == record["http.response.body.size"]


@pytest.mark.parametrize("methods", ["", "GET ", "GET,POST "])
@pytest.mark.parametrize("named", ["credential", "credentials"])
def test_a_rule_with_a_credential_opens_a_websocket_only_where_it_says_so(start, origin, methods, named):
    name = "main" if named == "credential" else ["main"]
    one = start(rules=[
        {"allow": methods + "https://api.test/said", named: name, "websocket": True},
        {"allow": methods + "https://api.test/**", named: name},
        {"allow": methods + "https://open.test"},
    ])  # fmt: skip
    before = len(origin.seen)
    with WsClient(one) as client:
        answer = client.ask_for("/unsaid")
        assert answer.status == 426 and "websocket: true" in answer.text()
    assert len(origin.seen) == before, "nothing was asked, with or without the credential"
    with WsClient(one) as client:
        client.open("/said")
        assert has_real_key(origin.last())
    with WsClient(one, "open.test") as client:
        client.open("/any")


def test_a_preset_as_the_sites_ceiling_still_lets_a_websocket_through(start, origin):
    """There its rules set no credential, and so they ask for nothing more."""
    one = start({"site": {"rules": [{"use": "openai"}]}},
                rules=[{"allow": "GET https://api.openai.com/v1/responses/**"}])  # fmt: skip
    with WsClient(one, "api.openai.com") as client:
        assert client.ask_for("/v1/responses/r").status != 426


def test_the_answer_does_not_bring_a_key_of_the_query_back(start, origin):
    def mirror(peer):
        query = peer.path.partition("?")[2]
        peer.accept(("X-Query", query), ("X-" + query.rpartition("=")[2], "1"), status="101 for " + query)
        peer.echo()

    origin.on("/mirror", mirror)
    one = start({"credentials": {"main": {"header": None, "query": "key"}}}, secret="a-value_of-the-query")
    with WsClient(one) as client:
        answer = client.open("/mirror?a=1")
        assert origin.last().path == "/mirror?a=1&key=a-value_of-the-query"
        assert answer.get("x-query") == "a=1&key=keyhole" and answer.get("x-keyhole") == "1"
        assert "a-value_of-the-query" not in repr((answer.reason, answer.fields))
        client.put(TEXT, "on it goes")
        assert client.message() == (TEXT, b"on it goes")


def test_a_chosen_subprotocol_comes_back(ours, origin):
    origin.on("/protocol", lambda peer: (peer.accept(protocol="b.v1"), peer.echo()))
    with WsClient(ours) as client:
        answer = client.open("/protocol", [("Sec-WebSocket-Protocol", "a, b.v1")])
        assert answer.all("sec-websocket-protocol") == ["b.v1"]


@pytest.mark.parametrize("protocols", [
    "realtime, openai-insecure-api-key.sk-1", "token, 0123456789abcdef", "bearer, x",
    "base64url.bearer.authorization.k8s.io.dG9r, v5.channel.k8s.io", "a, " + "x" * 80,
])  # fmt: skip
def test_keys_among_subprotocols_are_refused_where_no_credential_goes_in(ours, origin, protocols):
    before = len(origin.seen)
    with WsClient(ours, "open.test") as client:
        answer = client.ask_for("/p", [("Sec-WebSocket-Protocol", protocols)])
        assert answer.status == 403 and "sec-websocket-protocol" in answer.text()
    assert len(origin.seen) == before


def test_keys_among_subprotocols_pass_where_the_rule_says_so(ours, origin):
    origin.on("/pass", lambda peer: (peer.accept(protocol="token"), peer.echo()))
    with WsClient(ours, "auth.test") as client:
        client.open("/pass", [("Sec-WebSocket-Protocol", "token, mine"), ("X-Api-Key", "mine")])
        assert origin.last().all("sec-websocket-protocol") == ["token, mine"]


@pytest.mark.parametrize(("how", "status"), [
    ({"key": None}, 400), ({"key": "short"}, 400), ({"key": KEY[:-3] + "R=="}, 400),
    ({"version": "8"}, 426), ({"version": None}, 426),
    ({"fields": [("Sec-WebSocket-Key", KEY)]}, 400),
    ({"fields": [("Content-Length", "3")], "body": b"abc"}, 400),
    ({"fields": [("Sec-WebSocket-Protocol", "a b")]}, 400),
])  # fmt: skip
def test_a_handshake_that_is_none_goes_nowhere(ours, origin, how, status):
    before = len(origin.seen)
    with WsClient(ours) as client:
        answer = client.ask_for(**how)
        assert answer.status == status, answer
        if status == 426:
            assert answer.get("sec-websocket-version") == "13"
    assert len(origin.seen) == before


@pytest.mark.parametrize("bad", [
    {"accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}, {"accept": "x"}, {"protocol": "other"},
    {"fields": [("Sec-WebSocket-Extensions", "permessage-deflate")]},
    {"fields": [("Sec-WebSocket-Accept", "again")]},
])  # fmt: skip
def test_an_answer_that_is_none_is_502(ours, origin, bad):
    fields = bad.get("fields", [])
    how = {k: v for k, v in bad.items() if k != "fields"}
    origin.on("/bad", lambda peer: (peer.accept(*fields, **how), peer.take(1)))
    with WsClient(ours) as client:
        assert client.ask_for("/bad").status == 502


def test_a_101_that_nobody_asked_for_is_502(ours, origin):
    origin.on("/unasked", lambda peer: (peer.accept(accept="x"), peer.take(1)))
    with WsClient(ours) as client:
        assert client.ask("GET", "/unasked").status == 502


def test_another_answer_is_a_response_like_any_other(ours, origin):
    def refuse(peer):
        peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
        peer.read_head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes")
        peer.take(1)

    origin.on("/refused", refuse)
    with WsClient(ours) as client:
        answer = client.ask_for("/refused")
        assert answer.status == 401 and answer.body == b"no"
        assert client.ask("GET", "/after").body == b"yes"


def test_a_rule_may_refuse_them_with_426(start, origin):
    daemon = start(rules=[
        {"allow": "https://api.test", "credential": "main", "websocket": False},
        {"allow": "https://open.test", "websocket": True},
    ])  # fmt: skip
    origin.on("/plain", lambda peer: peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    with WsClient(daemon) as client:
        answer = client.ask_for("/v1/responses", [("Authorization", "Bearer " + PLACEHOLDER)])
        assert answer.status == 426 and answer.get("upgrade")
        assert "websocket: false" in answer.text()
        # The connection stays, and plain HTTP goes through.
        assert client.ask("POST", "/plain", body=b"x").status == 200
    assert daemon.records_of("/v1/responses")[0]["reason"] == "upgrade_unsupported"
    with WsClient(daemon, "open.test") as client:
        client.open()


def test_the_ceiling_may_refuse_them_as_well(start):
    daemon = start({"site": {"rules": [{"allow": "https://**", "websocket": False}]}})
    with WsClient(daemon) as client:
        assert client.ask_for().status == 426


def test_without_tls_in_absolute_form(start, origin, tmp_path):
    plain = Origin(str(tmp_path / "plain"), ["open.test"], plain=True)
    try:
        daemon = start(rules=[{"allow": f"http://open.test:{plain.port}"}],
                       overrides={"upstream": {"allow_addresses": ["127.0.0.1/32"],
                                               "resolve": {"open.test": plain.address}}})  # fmt: skip
        with Wire(daemon.socket_path) as wire:
            wire.host = f"open.test:{plain.port}"
            answer = wire.ask("GET", f"http://open.test:{plain.port}/x", [
                ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Key", KEY),
                ("Sec-WebSocket-Version", "13")])  # fmt: skip
            assert answer.status == 101
            wire.send(frame(TEXT, "plain", mask=True))
            assert wire.take(7) == b"\x81\x05plain"
    finally:
        plain.stop()


def test_by_a_base_url(ours, origin):
    """A client that takes only a base URL, on the socket itself."""
    with Wire(ours.socket_path) as wire:
        wire.host = "keyhole.internal"
        answer = wire.ask("GET", "/to/api.test/by-base", [
            ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Key", KEY),
            ("Sec-WebSocket-Version", "13"), ("Authorization", "Bearer " + PLACEHOLDER)])  # fmt: skip
        assert answer.status == 101, answer
        assert has_real_key(origin.last()) and origin.last().path == "/by-base"
        wire.send(frame(TEXT, "here", mask=True))
        assert wire.take(6) == b"\x81\x04here"


# --- frames ---------------------------------------------------------------------------------------


def test_frames_are_written_anew(ours, origin):
    """Masked with fresh keys on the way up, bare on the way down, controls between fragments."""
    keys = set()

    def script(peer):
        peer.accept()
        for _ in range(64):
            peer.get()
            keys.add(peer.last_key)
        peer.put(TEXT, "a", fin=False)
        peer.put(PING, "p")
        peer.put(0, "b")
        assert peer.get() == (True, PONG, b"p")
        peer.put(BINARY, b"")
        peer.take(1)

    origin.on("/anew", script)
    with WsClient(ours) as client:
        client.open("/anew")
        client.send(b"".join(frame(TEXT, "m", mask=True) for _ in range(64)))
        assert client.get() == (False, TEXT, b"a")
        assert client.get() == (True, PING, b"p")
        assert client.get() == (True, 0, b"b")
        client.put(PONG, "p")
        assert client.get() == (True, BINARY, b"")
    assert len(keys) == 64


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 1000000])
def test_messages_of_every_length(ours, size):
    payload = bytes(i % 251 for i in range(size))
    with WsClient(ours) as client:
        client.open()
        client.put(BINARY, payload)
        assert client.message() == (BINARY, payload)


def test_a_message_leaves_in_the_turn_in_which_it_came(ours, origin):
    """Each is answered before the next is sent: 200 in a row take no timer's time, at least once in five times."""
    took = []
    with WsClient(ours) as client:
        client.open()
        while not took or (min(took) >= 5 and len(took) < 5):
            began = time.monotonic()
            for n in range(200):
                client.put(TEXT, str(n))
                assert client.message()[1] == str(n).encode()
            took.append(time.monotonic() - began)
    assert min(took) < 5


BAD_FROM_CLIENT = {
    "unmasked": (frame(TEXT, "a"), 1002),
    "2^63": (frame(BINARY, mask=True, length=1 << 63, width=8), 1002),
    "2^63-1": (frame(BINARY, mask=True, length=(1 << 63) - 1, width=8), 1009),
    "not shortest": (frame(BINARY, b"a", mask=True, width=2), 1002),
    "reserved bit": (frame(TEXT, "a", mask=True, rsv=4), 1002),
    "reserved opcode": (frame(3, "a", mask=True), 1002),
    "fragmented control": (frame(PING, "a", mask=True, fin=False), 1002),
    "long control": (frame(PING, b"x" * 126, mask=True), 1002),
    "continuation of nothing": (frame(0, "a", mask=True), 1002),
    "close 1005": (frame(CLOSE, close_payload(1005), mask=True), 1002),
    "close 1006": (frame(CLOSE, close_payload(1006), mask=True), 1002),
    "close of one byte": (frame(CLOSE, b"\x03", mask=True), 1002),
    "close reason": (frame(CLOSE, b"\x03\xe8\xff", mask=True), 1007),
    "text": (frame(TEXT, b"\xed\xa0\x80", mask=True), 1007),
    "half a code point": (frame(TEXT, b"\xe2\x82", mask=True), 1007),
    "pings": (frame(PING, b"", mask=True) * 1100, 1008),
}


@pytest.mark.parametrize("kind", BAD_FROM_CLIENT)
def test_a_sandbox_that_breaks_the_protocol_is_told_so(ours, origin, kind):
    data, code = BAD_FROM_CLIENT[kind]
    said = []

    def script(peer):
        peer.accept()
        while True:
            _, opcode, payload = peer.get()
            said.append((opcode, payload))
            if opcode == CLOSE:
                peer.put(CLOSE, payload)
                return

    path = "/bad-client/" + kind.replace(" ", "-").replace("^", "")
    origin.on(path, script)
    with WsClient(ours) as client:
        client.open(path)
        client.put(TEXT, "good")
        client.send(data)
        client.send(frame(TEXT, "behind it", mask=True))
        client.expect_close(code)
        client.put(CLOSE, close_payload(code))
    record = closed(ours, path)
    assert record["reason"] == "websocket_sandbox" and record["complete"] is False
    assert record["websocket.close.code"] == code and record["websocket.close.by"] == "keyhole"
    # The upstream sees what was good, and an orderly end.
    until("the upstream is told", lambda: said and said[-1][0] == CLOSE)
    assert said[0] == (TEXT, b"good") and said[-1][1][:2] == close_payload(1001)
    assert all(opcode in (TEXT, PING, CLOSE) and b"behind" not in data for opcode, data in said)


BAD_FROM_SERVER = {
    "masked": (frame(TEXT, "a", mask=True), 1002),
    "2^63": (frame(BINARY, length=1 << 63, width=8), 1002),
    "reserved bit": (frame(TEXT, "a", rsv=4), 1002),
    "reserved opcode": (frame(11, "a"), 1002),
    "fragmented control": (frame(PONG, "a", fin=False), 1002),
    "message in a message": (frame(TEXT, "a", fin=False) + frame(TEXT, "b"), 1002),
    "close 1015": (frame(CLOSE, close_payload(1015)), 1002),
    "text": (frame(TEXT, b"\xff"), 1007),
    "no frames": (b"HTTP/1.1 200 OK\r\n\r\n", 1002),
}


@pytest.mark.parametrize("kind", BAD_FROM_SERVER)
def test_an_upstream_that_breaks_the_protocol_is_told_so(ours, origin, kind):
    data, code = BAD_FROM_SERVER[kind]
    told = []

    def script(peer):
        peer.accept()
        peer.put(TEXT, "good")
        peer.send(data)
        told.append(peer.expect_close(code))

    path = "/bad-server/" + kind.replace(" ", "-").replace("^", "")
    origin.on(path, script)
    with WsClient(ours) as client:
        client.open(path)
        assert client.message() == (TEXT, b"good")
        client.expect_close(1014)
        client.put(CLOSE, close_payload(1014))
        client.gone()
    until("the upstream is told", lambda: told)
    assert closed(ours, path)["reason"] == "websocket_upstream"


# --- ends -----------------------------------------------------------------------------------------


def test_the_close_code_of_the_upstream_goes_through(ours, origin):
    def script(peer):
        peer.accept()
        peer.put(CLOSE, close_payload(4001, "go now"))
        peer.expect_close(4001)

    origin.on("/told", script)
    with WsClient(ours) as client:
        client.open("/told")
        assert client.expect_close(4001) == "go now"
        client.put(CLOSE, close_payload(4001))
        assert client.gone()
    record = closed(ours, "/told")
    assert record["websocket.close.code"] == 4001 and record["websocket.close.by"] == "upstream"
    assert "reason" not in record and record["complete"] is True


def test_data_still_comes_between_two_close_frames(ours, origin):
    def script(peer):
        peer.accept()
        peer.expect_close(1000)
        peer.put(TEXT, "late")
        peer.put(CLOSE, close_payload(1000))

    origin.on("/late", script)
    with WsClient(ours) as client:
        client.open("/late")
        client.put(CLOSE, close_payload(1000))
        assert client.message() == (TEXT, b"late")
        client.expect_close(1000)


def test_an_upstream_that_goes_without_a_word(ours, origin):
    origin.on("/lost", lambda peer: (peer.accept(), peer.put(TEXT, "one")))
    with WsClient(ours) as client:
        client.open("/lost")
        assert client.message() == (TEXT, b"one")
        assert client.gone()
    record = closed(ours, "/lost")
    assert record["websocket.close.code"] == 1006 and record["websocket.close.by"] == "upstream"
    assert record["reason"] == "response_incomplete" and record["complete"] is False


def test_a_sandbox_that_goes_without_a_word(ours, origin):
    got = []

    def script(peer):
        peer.accept()
        got.append(peer.message())
        got.append(peer.sock.recv(1))

    origin.on("/left", script)
    client = WsClient(ours)
    client.open("/left")
    client.put(TEXT, "bye")
    client.close()
    record = closed(ours, "/left")
    assert record["websocket.close.code"] == 1006 and record["websocket.close.by"] == "sandbox"
    assert record["reason"] == "sandbox_closed"
    until("the upstream sees the end", lambda: len(got) == 2)
    assert got == [(TEXT, b"bye"), b""]


def test_a_close_frame_that_nobody_answers_is_not_waited_for_long(ours, origin):
    origin.on("/mute", lambda peer: (peer.accept(), peer.expect_close(1000), peer.take(1)))
    with WsClient(ours) as client:
        client.open("/mute")
        client.put(CLOSE, close_payload(1000))
        began = time.monotonic()
        assert client.gone()
        assert 3 < time.monotonic() - began < 9
    assert closed(ours, "/mute")["websocket.close.code"] == 1000


def test_one_on_which_nothing_moves_ends(start, origin):
    daemon = start({"timeouts": {"websocket": "1s"}})
    with WsClient(daemon) as client:
        client.open("/idle")
        end = time.monotonic() + 2.5
        while time.monotonic() < end:  # pings count
            client.put(PING, "x")
            assert client.get() == (True, PONG, b"x")
            time.sleep(0.25)
        began = time.monotonic()
        client.expect_close(1001)
        assert 0.5 < time.monotonic() - began < 15
        client.put(CLOSE, close_payload(1001))
        client.gone()
    record = closed(daemon, "/idle")
    assert record["reason"] == "idle" and record["websocket.close.code"] == 1001


def test_one_that_lasts_too_long_ends_though_it_is_busy(start, origin):
    daemon = start({"timeouts": {"total": "3s"}})  # the opening is part of it
    with WsClient(daemon) as client:
        client.open("/busy")
        seen = None
        for n in range(100):
            client.put(PING, "x")
            seen = client.get()
            if seen != (True, PONG, b"x"):
                break
            time.sleep(0.05)
        assert n < 75 and seen[1] == CLOSE
        client.put(CLOSE, close_payload(1001))
        client.gone()
    assert "timeouts.total" in closed(daemon, "/busy")["detail"]


def test_a_reload_ends_what_is_no_longer_allowed(start, origin):
    daemon = start()
    with WsClient(daemon) as client, WsClient(daemon, "open.test") as other:
        client.open("/gone")
        other.open("/stays")
        config = daemon.config
        config["tenants"]["acme"]["rules"][0]["websocket"] = False
        daemon.write(config)
        daemon.process.send_signal(1)
        client.expect_close(1001)
        client.put(CLOSE, close_payload(1001))
        client.gone()
        other.put(TEXT, "still")
        assert other.message() == (TEXT, b"still")
    assert closed(daemon, "/gone")["reason"] == "no_rule"


def without_a_credential(config):
    config["tenants"]["acme"]["rules"][0] = {"allow": "https://api.test"}


def with_another_credential(config):
    config["credentials"]["other"] = copy.deepcopy(config["credentials"]["main"])
    config["tenants"]["acme"]["rules"][0]["credential"] = "other"


def for_other_paths(config):
    rules = config["tenants"]["acme"]["rules"]
    rules[:1] = [{**rules[0], "allow": "https://api.test/elsewhere"}, {"allow": "https://api.test"}]
    config["credentials"]["main"]["paths"] = ["/elsewhere"]


def with_a_placeholder(config):
    config["credentials"]["main"]["require_placeholder"] = True


def with_another_limit(config):
    config["tenants"]["acme"]["rules"][0]["limits"] = {"requests": "100/min"}


@pytest.mark.parametrize("change", [without_a_credential, with_another_credential, for_other_paths, with_a_placeholder,
                                    with_another_limit])  # fmt: skip
def test_a_websocket_ends_with_the_credential_that_it_was_opened_with(start, origin, change):
    daemon = start()
    with WsClient(daemon) as client:
        client.open("/keeps")
        config = daemon.config
        change(config)
        daemon.write(config)
        daemon.process.send_signal(1)
        if change is with_another_limit:
            until("the reload", lambda: "the new configuration is in force" in daemon.stderr())
            client.put(TEXT, "still")
            assert client.message() == (TEXT, b"still")
            return
        client.expect_close(1001)
        client.put(CLOSE, close_payload(1001))
        client.gone()
    assert closed(daemon, "/keeps")["reason"] == "no_rule"


def test_a_websocket_does_not_keep_a_configuration_for_each_of_many_reloads(start, origin):
    daemon = start()
    with WsClient(daemon) as client:
        client.open("/old")
        for n in range(1, 34):
            daemon.process.send_signal(1)
            until("a reload", lambda n=n: daemon.stderr().count("the new configuration is in force") == n)
            if n == 32:
                client.put(TEXT, "still")
                assert client.message() == (TEXT, b"still")
        client.expect_close(1001)
        client.put(CLOSE, close_payload(1001))
        client.gone()
    assert closed(daemon, "/old")["reason"] == "tunnel_lifetime"


def test_a_drain_says_goodbye_to_both(start, origin):
    said = []
    origin.on("/drain", lambda peer: (peer.accept(), said.append(peer.expect_close(1001)),
                                      peer.put(CLOSE, close_payload(1001))))  # fmt: skip
    daemon = start()
    daemon.checked = False  # it ends here
    with WsClient(daemon) as client:
        client.open("/drain")
        began = time.monotonic()
        daemon.process.terminate()
        client.expect_close(1001)
        client.put(CLOSE, close_payload(1001))
        client.gone()
        daemon.process.wait(10)
        assert time.monotonic() - began < 9
    until("the upstream is told", lambda: said)
    assert daemon.records_of("/drain")[-1]["reason"] == "draining"


def test_a_drain_ends_in_time_though_nobody_reads(start, origin):
    def flood(peer):
        peer.accept()
        with contextlib.suppress(OSError):
            while True:
                peer.put(BINARY, bytes(60000))

    origin.on("/flood", flood)
    daemon = start({"timeouts": {"drain": "2s"}})
    daemon.checked = False  # it ends here
    with WsClient(daemon) as client:
        client.open("/flood")
        time.sleep(1)  # until all that lies between is full
        began = time.monotonic()
        daemon.process.terminate()
        daemon.process.wait(10)
        assert time.monotonic() - began < 9


# --- real peers -----------------------------------------------------------------------------------


def test_python_websockets_on_both_ends(start, tmp_path):
    websockets = pytest.importorskip("websockets")
    origin = Origin(str(tmp_path / "o"), NAMES)  # for its certificates
    origin.stop()

    async def serve(sock):
        async for message in sock:
            await sock.send(message)

    async def talk():
        async with websockets.serve(serve, "127.0.0.1", 0, ssl=origin.context,
                                    max_size=None) as server:  # fmt: skip
            port = server.sockets[0].getsockname()[1]
            daemon = start({"upstream": {"ca_file": origin.ca,
                                         "resolve": {"api.test": f"127.0.0.1:{port}"}}})  # fmt: skip
            loop = asyncio.get_running_loop()
            wire = await loop.run_in_executor(None, connect_only, daemon)
            async with websockets.connect("wss://api.test/real", sock=wire.sock, max_size=None,
                                          server_hostname="api.test",
                                          ssl=client_context(daemon.ca, None)) as client:  # fmt: skip
                for message in ("hello", "grüße 🌍", b"\x00\xff" * 1000, "x" * 1000000):
                    await client.send(message)
                    assert await client.recv() == message
                await client.send(["three ", "frag", "ments"])
                assert await client.recv() == "three fragments"
                await (await client.ping())
            assert client.close_code == 1000
            return daemon

    daemon = asyncio.run(talk())
    record = closed(daemon, "/real")
    assert record["websocket.up.messages"] == record["websocket.down.messages"] == 5
    assert record["websocket.close.code"] == 1000


def connect_only(daemon, host="api.test"):
    wire = Wire(daemon.socket_path)
    wire.send(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n")
    assert wire.read_head().status == 200
    wire.sock.settimeout(None)
    wire.sock.setblocking(False)
    return wire


def node_websocket(daemon, url, protocols=""):
    """What ws_client.js saw."""
    node = shutil.which("node")
    if not node:
        pytest.skip("no Node here")
    flags = subprocess.run([node, "--help"], capture_output=True, text=True, timeout=20, check=True).stdout
    flag = ["--experimental-websocket"] if "--experimental-websocket" in flags else []
    script = os.path.join(HERE, "ws_client.js")
    done = subprocess.run([node, *flag, script, daemon.socket_path, daemon.ca, url, protocols],
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    if "WebSocket is not defined" in done.stderr:
        pytest.skip("this Node has no WebSocket")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_node_websocket(ours, origin):
    """It offers permessage-deflate, and takes no for an answer."""
    origin.on("/node", lambda peer: (peer.accept(protocol="realtime"), peer.echo()))
    seen = node_websocket(ours, "wss://api.test/node", "realtime,openai-insecure-api-key.x")
    assert seen == {"messages": 3, "protocol": "realtime", "extensions": "", "code": 4000,
                    "clean": True}  # fmt: skip
    assert has_real_key(origin.last()) and not origin.last().all("sec-websocket-extensions")
    assert closed(ours, "/node")["websocket.close.code"] == 4000


def test_node_websocket_that_is_refused(start):
    daemon = start(rules=[{"allow": "https://api.test", "websocket": False}])
    seen = node_websocket(daemon, "wss://api.test/refused")
    assert seen["messages"] == 0 and "error" in seen
    assert daemon.records_of("/refused")[0]["http.response.status_code"] == 426
