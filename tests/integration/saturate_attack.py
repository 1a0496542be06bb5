"""saturate_attack.py - one sandbox that uses up a resource as fast as it can, until it is killed

saturate_attack.py RESOURCE SOCKET…: waits for a byte on standard input (by then it is in its control group), then begins.
"""

import contextlib
import itertools
import os
import select
import socket
import sys
import time

NAMES = itertools.count()


def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(2)
    sock.connect(path)
    return sock


def hold(paths, request, most):
    """As many connections as there may be, each with this request; those that are ended are made anew."""
    socks = []
    for path in itertools.cycle(paths):
        with contextlib.suppress(OSError):
            sock = connect(path)
            sock.setblocking(False)
            socks.append(sock)
            sock.send(request())
        if len(socks) < most:
            continue
        poll = select.poll()
        by_number = {sock.fileno(): sock for sock in socks}
        for number in by_number:
            poll.register(number, select.POLLIN)
        over = [by_number[number] for number, _ in poll.poll(20)][:16]
        for sock in over:
            sock.close()
        gone = set(over)
        socks = [sock for sock in socks if sock not in gone]
        time.sleep(0.1)  # it is used up; what is freed is taken again soon


def memory(paths):
    line = b"x" * 30000
    half = b"GET http://x.evil.test/ HTTP/1.1\r\nHost: x.evil.test\r\nA: " + line + b"\r\nB: " + line + b"\r\nC: "
    hold(paths, lambda: half, 900)


def descriptors(paths):
    hold(paths, lambda: b"", 900)


STREAMS = 256  # as many as one connection of HTTP/2 may have


def asked_at_once():
    """The preface, SETTINGS, and a GET for a new name on each stream; no field is put into a table."""
    parts = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes(3), b"\4", bytes(5)]
    for stream in range(1, 2 * STREAMS, 2):
        host = b"n%d.evil.test" % next(NAMES)
        head = b"\x82\x86\x84\x01" + bytes([len(host)]) + host  # GET, http, /, :authority
        parts += [len(head).to_bytes(3, "big"), b"\1\5", stream.to_bytes(4, "big"), head]
    return b"".join(parts)


def lookups(paths):
    """More than the resolver takes, all of them without an answer."""
    socks = []
    for path in itertools.cycle(paths):
        socks.append(connect(path))
        socks[-1].setblocking(False)
        with contextlib.suppress(OSError):
            socks[-1].send(asked_at_once())
        if len(socks) > 60:
            socks.pop(0).close()
            time.sleep(0.2)


def streams(paths):
    """Answers that nobody reads."""
    ask = b"GET http://loot.test/test/bytes?n=5000000 HTTP/1.1\r\nHost: loot.test\r\n\r\n"
    hold(paths, lambda: ask, 900)


def signatures(paths):
    for path in itertools.cycle(paths):
        with contextlib.suppress(OSError), contextlib.closing(connect(path)) as sock:
            host = b"l%d.evil.test:443" % next(NAMES)
            sock.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (host, host))
            sock.recv(4096)


def journal(paths):
    path = b"/" + b"%F0%9F%98%80" * 85
    refused = b"GET http://nope.test%s HTTP/1.1\r\nHost: nope.test\r\n\r\n" % path
    for name in itertools.cycle(paths):
        with contextlib.suppress(OSError), contextlib.closing(connect(name)) as sock:
            for _ in range(50):
                sock.sendall(refused * 20)
                left = 20
                while left > 0:
                    piece = sock.recv(1 << 20)
                    if not piece:
                        raise OSError
                    left -= piece.count(b"HTTP/1.1 ")


if __name__ == "__main__":
    os.read(0, 1)
    globals()[sys.argv[1]](sys.argv[2:])
