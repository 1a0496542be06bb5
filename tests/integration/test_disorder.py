"""Sandboxes and an upstream that stop, cut off, hurry and go at random moments: no answer is another's.

Every request has a number, its content is made of that number, and so is what the upstream answers.
KEYHOLE_DISORDER="SEED SECONDS" takes another run, or a longer one, than the suite's.
"""

import contextlib
import itertools
import os
import random
import re
import socket
import struct
import threading
import time

from harness import Closed, Wire

SEED, SECONDS = (int(word) for word in os.environ.get("KEYHOLE_DISORDER", "1 5").split())
RESET = struct.pack("ii", 1, 0)


def content(number, times):
    return b"%d." % number * times


def chunks(data, sizes, chance):
    out = b""
    while data:
        size = chance.choice(sizes)
        out += b"%x\r\n" % len(data[:size]) + data[:size] + b"\r\n"
        data = data[size:]
    return out + b"0\r\n\r\n"


def line_of(file):
    """The next line, or EOFError where it was cut off."""
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError
    return line[:-2]


class Upstream:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.wrong = []  # what never may be
        self.seen = {}  # number: methods
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def accept(self):
        for count in itertools.count():
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(5)
            threading.Thread(target=self.run, args=(sock, random.Random(SEED << 20 | count)), daemon=True).start()

    def run(self, sock, chance):
        with sock, sock.makefile("rb") as file, contextlib.suppress(OSError, EOFError):
            while self.serve(sock, file, chance):
                pass

    def take(self, file, fields, number):
        """The content as its framing has it; EOFError where it ends early."""
        length = fields.get(b"content-length", b"0")
        chunked = fields.get(b"transfer-encoding") == b"chunked"
        while True:
            size = int(line_of(file), 16) if chunked else int(length)
            data = file.read(size)
            if len(data) < size:
                raise EOFError
            if data.strip(b"%d." % number):
                self.wrong.append(f"content of {number}: {data[:60]}")
            if chunked and file.read(2) != b"\r\n":
                raise EOFError
            if not chunked or size == 0:
                return

    def serve(self, sock, file, chance):
        """One request. Return: another may follow."""
        line = line_of(file)
        asked = re.fullmatch(rb"([A-Z]+) /(\d+) HTTP/1.1", line)
        if not asked:
            self.wrong.append(f"a request line: {line[:100]}")
            return False
        number = int(asked[2])
        self.seen.setdefault(number, []).append(asked[1].decode())
        fields = dict(field.lower().split(b": ", 1) for field in iter(lambda: line_of(file), b""))
        early = chance.random() < 0.15
        if b"expect" in fields and chance.random() < 0.8:
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not early:
            self.take(file, fields, number)
        how = chance.random()
        if how < 0.1:
            if how < 0.05:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            return False
        if how < 0.15:
            time.sleep(chance.random())
        return self.answer(sock, chance, asked[1], number) and not early

    def answer(self, sock, chance, method, number):
        head = b"HTTP/1.1 200 OK\r\nX-Number: %d\r\n" % number
        data = content(number, chance.choice([1, 10, 1000, 20000]))
        kind = chance.random()
        if method == b"HEAD" or kind < 0.4:
            out = head + b"Content-Length: %d\r\n\r\n" % len(data) + (b"" if method == b"HEAD" else data)
        elif kind < 0.8:
            out = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(data, [100, 4000, 60000], chance)
        else:
            out = head + b"\r\n" + data
        if chance.random() < 0.1:
            out = b"HTTP/1.1 103 Early Hints\r\n\r\n" + out
        cut = chance.random() < 0.08
        out = out[: chance.randrange(len(out))] if cut else out
        while out:
            size = chance.choice([1, 50, 5000, 200000, 200000])
            sock.sendall(out[:size])
            out = out[size:]
        return not cut and kind < 0.8 and chance.random() < 0.9


class Sandbox(threading.Thread):
    numbers = itertools.count(1)

    def __init__(self, daemon, upstream, seed, end):
        super().__init__(daemon=True)
        self.kept, self.upstream, self.end = daemon, upstream, end
        self.chance = random.Random(seed)
        self.answered = 0
        self.start()

    def run(self):
        while time.monotonic() < self.end:
            with contextlib.suppress(Closed, OSError), Wire(self.kept.socket_path, timeout=4) as wire:
                for _ in range(self.chance.choice([1, 3, 8])):
                    self.talk(wire)

    def request(self, number, method):
        chance = self.chance
        head = f"{method} http://raw.test/{number} HTTP/1.1\r\nHost: raw.test\r\n".encode()
        if method not in ("POST", "PUT"):
            return head + b"\r\n"
        data = content(number, chance.choice([0, 1, 100, 30000]))
        if chance.random() < 0.15:
            head += b"Expect: 100-continue\r\n"
        if chance.random() < 0.5:
            return head + b"Content-Length: %d\r\n\r\n" % len(data) + data
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(data, [100, 3000, 70000], chance)

    def send(self, sock, data, shut):
        with contextlib.suppress(OSError):
            while data:
                size = random.choice([1, 40, 3000, 1000000])
                sock.sendall(data[:size])
                data = data[size:]
            if shut:
                sock.shutdown(socket.SHUT_WR)

    def talk(self, wire):
        """One request or four behind each other, sent and answered at the same time."""
        chance = self.chance
        asked = [(next(self.numbers), chance.choice(["GET", "GET", "POST", "PUT", "HEAD", "DELETE"]))
                 for _ in range(chance.choice([1, 1, 1, 4]))]  # fmt: skip
        data = b"".join(self.request(*one) for one in asked)
        how = chance.random()
        if how < 0.08:
            data = data[: chance.randrange(len(data))]
        sender = threading.Thread(target=self.send, args=(wire.sock, data, 0.04 < how < 0.12), daemon=True)
        sender.start()
        if how > 0.92:
            time.sleep(chance.random() * 0.2)
            raise Closed("by us")
        for number, method in asked:
            self.look_at(number, wire.response(method))
        sender.join(4)

    def look_at(self, number, answer):
        if answer.status != 200:
            return
        self.answered += 1
        if answer.get("x-number") != str(number) or answer.body.strip(b"%d." % number):
            self.upstream.wrong.append(f"answer to {number}: {answer}")


def test_whatever_both_sides_do_no_answer_is_anothers(daemon):
    upstream = Upstream()
    one = daemon({"worker": {"threads": 2}, "upstream": {"resolve": {"raw.test": upstream.address}},
                  "timeouts": {"response": "2s", "stall": "2s", "header": "2s"}},
                 rules=[{"allow": "http://raw.test"}])  # fmt: skip
    end = time.monotonic() + SECONDS
    sandboxes = [Sandbox(one, upstream, SEED * 1000 + n, end) for n in range(16)]
    for sandbox in sandboxes:
        sandbox.join(SECONDS + 60)
        assert not sandbox.is_alive()
    upstream.listener.close()
    assert not upstream.wrong, upstream.wrong[:5]
    again = [methods for methods in upstream.seen.values() if len(methods) > 1]
    assert all(len(m) == 2 and m[0] in ("GET", "HEAD") for m in again), again
    answered = sum(sandbox.answered for sandbox in sandboxes)
    assert answered > len(upstream.seen) / 3, (answered, len(upstream.seen))
