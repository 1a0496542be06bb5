"""A value lives in secret pages and nowhere else: every readable page of both processes is searched."""

import base64
import os
import threading
import urllib.parse

import pytest
from daemons import NAMES
from h2upstream import H2Upstream
from harness import SECRET, Tunnel
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH


def forms(value):
    """What it would look like in memory: as it is, in base64 at three alignments, in hexadecimal,
    percent-encoded and escaped for JSON; each without the ends that depend on what is around it."""
    raw = value.encode()
    yield "raw", raw
    for pad in range(3):
        coded = base64.b64encode(b"\0" * pad + raw)
        yield f"base64 at {pad}", coded[4 if pad else 0 : len(coded) - 4]
    yield "hex", raw.hex().encode()
    yield "HEX", raw.hex().upper().encode()
    percent = "".join(f"%{b:02X}" for b in raw).encode()
    yield "percent", percent
    if urllib.parse.quote(value, safe="") != value:
        yield "quoted", urllib.parse.quote(value, safe="").encode()
    # HPACK's Huffman code (RFC 7541 section 5.2), of the whole field.
    coder = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
    for field in (raw, b"Bearer " + raw, b"session=" + raw, b"Basic " + base64.b64encode(b"x-access-token:" + raw)):
        yield "Huffman", coder.encode(field)[12:-1]
    yield "JSON", "".join(f"\\u{b:04x}" for b in raw).encode()


def pages(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, rights, *rest = line.split(None, 5)
            if not rights.startswith("r") or "[vvar" in line or "[vsyscall" in line:
                continue
            begin, end = (int(part, 16) for part in span.split("-"))
            at, before = begin, b""
            while at < end:
                step = min(1 << 22, end - at)
                try:
                    mem.seek(at)
                    piece = mem.read(step)
                except OSError:
                    break  # secret pages: nobody reads them this way
                yield line.strip(), at, before + piece
                before = piece[-200:]
                at += step


def found(pid, value):
    """Where the value stands: (form, mapping)."""
    needles = list(forms(value))
    return [
        (form, line, hex(at + piece.index(needle)))
        for line, at, piece in pages(pid)
        for form, needle in needles
        if needle in piece
    ]


def may_read(pid):
    try:
        with open(f"/proc/{pid}/mem", "rb"):
            return True
    except PermissionError:
        return False


PLACEMENTS = {
    "header": {"header": {"x-api-key": "{}"}},
    "bearer": {"header": None, "bearer": True},
    "basic": {"header": None, "basic": {"username": "x-access-token"}},
    "cookie": {"header": None, "cookie": "session"},
    "query": {"header": None, "query": "api_key"},
}


def ask(daemon, count=1):
    with Tunnel(daemon, "api.test") as tunnel:
        for _ in range(count):
            # Not /test/echo: what an upstream reflects is an answer's content, and no secret here.
            assert tunnel.ask("GET", "/test/bytes?n=100").status == 200


@pytest.fixture(scope="module")
def h2_up(tmp_path_factory):
    upstream = H2Upstream(str(tmp_path_factory.mktemp("h2up")), NAMES)
    yield upstream
    upstream.stop()


@pytest.mark.parametrize("place", PLACEMENTS)
@pytest.mark.parametrize("http", ["1.1", "2"])
def test_nobody_finds_it_in_memory(daemon, h2_up, place, http):
    over = {"credentials": {"main": {"value": {"file": None, "env": "MAIN_KEY"}, **PLACEMENTS[place]}}}
    if http == "2":
        over["upstream"] = {"ca_file": h2_up.ca, "resolve": {"api.test": h2_up.address}}
    one = daemon(over, env={"MAIN_KEY": SECRET})
    pids = [one.process.pid, one.worker_pid()]
    if not all(may_read(pid) for pid in pids):
        pytest.skip("this user may not read the memory of what is not dumpable")
    # The search finds what is there: a text that both processes have.
    assert any(b"keyhole" in piece for _, _, piece in pages(pids[1]))
    for name, pid in zip(("keeper", "worker"), pids):
        assert not found(pid, SECRET), f"{name}, before it was ever used"
    ask(one, 20)
    for name, pid in zip(("keeper", "worker"), pids):
        assert not found(pid, SECRET), f"{name}, after it was used"
    over = threading.Event()

    def load():
        while not over.is_set():
            ask(one, 10)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        hits = [found(pids[1], SECRET) for _ in range(2)] + [found(pids[0], SECRET)]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    for pid in pids:
        assert not found(pid, SECRET), "after the load"
    # Under load a window may be open while one looks; nothing stays, and nothing is in the keeper.
    assert not hits[2]
