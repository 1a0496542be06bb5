"""test_h2_head_share.py - many HTTP/2 connections of one sandbox are one sandbox's, where the thread's time is shared out"""

import contextlib
import os
import selectors
import socket
import threading
import time

import pytest
from harness import PATIENCE, Tunnel, until
from hyperframe.frame import SettingsFrame
from sandboxes import inside
from test_h2_hostile import block, headers

CONNECTIONS, HEADS, WITHIN_S = 512, 400, 1.0
GET = [(":method", "GET"), (":scheme", "http"), (":authority", "none.test"), (":path", "/")]


def bomb():
    """A field of 4 KB goes into the table, and each head names it 14 times, a byte each."""
    field = b"\x40\x01x" + b"\x7f\xa1\x1e" + b"v" * 4000
    frames = [headers(1, data=block(*GET) + field)]
    frames += [headers(2 * n + 1, data=block(*GET) + b"\xbe" * 14) for n in range(1, HEADS)]
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(f.serialize() for f in [SettingsFrame(0), *frames])


class Attack:
    """Each connection sends all its heads, reads what comes, and begins anew where it ends."""

    def __init__(self, path):
        self.path, self.bytes, self.over = path, bomb(), threading.Event()
        self.begun = 0
        self.selector = selectors.DefaultSelector()
        self.thread = threading.Thread(target=self.run)

    def connect(self):
        with contextlib.suppress(OSError):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.path)
            sock.setblocking(False)
            self.selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, [0])
            self.begun += 1

    def serve(self, key, events):
        sock, sent = key.fileobj, key.data
        try:
            if events & selectors.EVENT_WRITE:
                sent[0] += sock.send(self.bytes[sent[0] :])
                if sent[0] == len(self.bytes):
                    self.selector.modify(sock, selectors.EVENT_READ, sent)
            if events & selectors.EVENT_READ and not sock.recv(1 << 20):
                raise ConnectionError
        except BlockingIOError:
            pass
        except OSError:
            self.selector.unregister(sock)
            sock.close()
            self.connect()

    def run(self):
        while not self.over.is_set():
            while len(self.selector.get_map()) < CONNECTIONS:
                self.connect()
            for key, events in self.selector.select(0.05):
                self.serve(key, events)

    def __enter__(self):
        self.thread.start()
        until("it goes on", lambda: self.begun >= CONNECTIONS)
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(PATIENCE)
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


@pytest.mark.alone
def test_another_tenants_requests_wait_for_none_of_it(daemon):
    one = daemon(
        {
            "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "globex"}],
            "tenants": {"globex": {"rules": [{"deny": "https://none.test"}]}},
            "worker": {"threads": 1},
            "limits": {"exchanges": HEADS + 1},
        }
    )
    waits = []
    with Tunnel(one, "open.test") as tunnel, Attack(inside(one, os.path.join(one.folder, "e", "s")).socket_path):
        for _ in range(20):
            began = time.monotonic()
            assert tunnel.ask("GET", "/test/echo").status == 200
            waits.append(time.monotonic() - began)
    assert max(waits) < WITHIN_S, waits
