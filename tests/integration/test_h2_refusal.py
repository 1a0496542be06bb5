"""A refusal that comes before a request could be read reaches clients that are still sending it."""

import json
import os

import pytest
from h2client import h2_plain, h2_tunnel
from harness import HERE
from test_h2_peers import into, needs, run  # noqa: F401 - a fixture

def finish_late(client, stream, n=5):
    """The client goes on for a while, then ends its request. Return: was the stream reset?"""
    for _ in range(n):
        client.put(stream, b"more")
    client.end(stream)
    assert client.ask("GET", "/test/echo", authority=client.authority or "nowhere.test").status in (200, 403)
    return client.streams[stream].reset is not None


@pytest.mark.parametrize("fields, status", [
    ([("x-large-1", "y" * 30_000), ("x-large-2", "y" * 30_000), ("x-large-3", "y" * 30_000)], 431),
    ([("expect", "the-moon")], 417),
])  # fmt: skip
def test_no_reset_stands_behind_it(shared, fields, status):
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("POST", "/test/echo", fields, end=False)
        answer = client.wait(stream)
        assert answer.status == status and answer.body
        assert not finish_late(client, stream)


def test_no_reset_stands_behind_a_refused_connect(shared):
    with h2_plain(shared) as client:
        stream = client.start_head([(":method", "CONNECT"), (":authority", "no-port.test")], end=False)
        assert client.wait(stream).status == 400
        assert not finish_late(client, stream)


def test_many_that_are_refused_leave_room_for_others(shared):
    """What is thrown away counts as a stream until it ends, and no longer."""
    with h2_tunnel(shared, "open.test") as client:
        for _ in range(4):
            streams = [client.start("POST", "/test/echo", [("expect", "x")], end=False) for _ in range(100)]
            for stream in streams:
                assert client.wait(stream).status == 417
            for stream in streams:
                client.end(stream)
        assert client.ask("GET", "/test/echo").status == 200


def test_content_without_end_behind_it_is_given_up(shared):
    """More than 16 MiB is not thrown away: NO_ERROR, and the connection goes on."""
    with h2_tunnel(shared, "open.test") as client:
        stream = client.start("POST", "/test/echo", [("expect", "x")], end=False)
        assert client.wait(stream).status == 417
        for _ in range(20):
            if client.streams[stream].reset is None:
                client.put_raw(stream, b"z" * 1_000_000)
        assert int(client.streams[stream].reset) == 0
        assert client.ask("GET", "/test/echo").status == 200


@pytest.mark.parametrize("fields, status", [
    ([f"x-{n}: y" for n in range(140)], "431"), (["expect: the-moon"], "417"),
])  # fmt: skip
def test_curl(shared, curl, tmp_path, fields, status):
    content = tmp_path / "content"
    content.write_bytes(b"x" * 3_000_000)
    done = curl(shared, "--http2", "-w", "\n%{http_code} %{http_version}", "--data-binary", f"@{content}",
                *[part for field in fields for part in ("-H", field)], "https://open.test/test/echo")  # fmt: skip
    body, last = done.stdout.rsplit("\n", 1)
    assert done.returncode == 0, done.stderr
    assert last == status + " 2" and "keyhole" in body


@needs("nghttp")
def test_nghttp(into, tmp_path):  # noqa: F811
    port = into("open.test:443")
    content = tmp_path / "content"
    content.write_bytes(b"x" * 300_000)
    out = run("nghttp", "-v", "-d", str(content), "-H", ":authority: open.test", "-H", "expect: the-moon",
              f"https://127.0.0.1:{port}/test/echo")  # fmt: skip
    assert ":status: 417" in out and "recv RST_STREAM" not in out, out


@needs("node")
@pytest.mark.parametrize("kind, status", [("head", 431), ("expect", 417), ("connect", 400)])
def test_node(shared, relay, kind, status):
    script = os.path.join(HERE, "h2_refusal.js")
    seen = json.loads(run("node", script, kind, str(relay(shared).port), shared.ca))
    assert seen["status"] == status and "keyhole" in seen["text"] and seen["code"] is None, seen
