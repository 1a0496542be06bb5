#!/usr/bin/python3
"""memory_search.py - what stands in the readable pages of processes: a value, in any encoding

    memory_search.py ROUNDS < {"pids": {name: pid}, "needles": [[form, hex], …]}

As a program it searches each process ROUNDS times, beside whatever its caller does meanwhile, and
prints what it found as JSON, one list a line and round.
"""

import base64
import json
import os
import sys
import urllib.parse

from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

STEP = 1 << 22
LONGEST = 4096


def huffman(raw):
    """HPACK's code (RFC 7541 section 5.2), at each place in a byte where it may begin."""
    bits = "".join(f"{REQUEST_CODES[b]:0{REQUEST_CODES_LENGTH[b]}b}" for b in raw)
    for before in range(8):
        whole = bits[(8 - before) % 8 :]
        whole = whole[: len(whole) // 8 * 8]
        yield before, int(whole, 2).to_bytes(len(whole) // 8, "big")


def forms(raw):
    """What it would look like in memory, each without the ends that depend on what is around it."""
    yield "raw", raw
    for pad in range(3):
        coded = base64.b64encode(b"\0" * pad + raw)
        inner = coded[4 if pad else 0 : len(coded) - 4]
        yield f"base64 at {pad}", inner
        if inner != inner.translate(bytes.maketrans(b"+/", b"-_")):
            yield f"base64url at {pad}", inner.translate(bytes.maketrans(b"+/", b"-_"))
    yield "hex", raw.hex().encode()
    yield "HEX", raw.hex().upper().encode()
    yield "percent", "".join(f"%{b:02X}" for b in raw).encode()
    for name, coded in {
        "quoted": urllib.parse.quote_from_bytes(raw, safe=""), "form": urllib.parse.quote_plus(raw),
        "JSON": json.dumps(raw.decode())[1:-1],
    }.items():  # fmt: skip
        if coded.encode() != raw:
            yield name, coded.encode()
    yield "JSON in hex", "".join(f"\\u{b:04x}" for b in raw).encode()
    yield "UTF-16LE", raw.decode("latin-1").encode("utf-16-le")
    yield "UTF-16BE", raw.decode("latin-1").encode("utf-16-be")
    for before, coded in huffman(raw):
        yield f"Huffman at {before}", coded
    for pad in (0x36, 0x5C):  # RFC 2104's inner and outer one
        yield f"HMAC {pad:x}", bytes(b ^ pad for b in raw)


def bare(name, number):
    """A number, or a key in bytes, as DER and as OpenSSL's BIGNUM have it."""
    yield f"{name} raw", number
    yield f"{name} backwards", number[::-1]
    yield f"{name} hex", number.hex().encode()


def may_read(pid):
    try:
        with open(f"/proc/{pid}/mem", "rb"):
            return True
    except PermissionError:
        return False


def in_use(pid):
    """The spans of which something is in memory or in swap: runtimes reserve far more than they use."""
    used, span = set(), ""
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as smaps:
        for line in smaps:
            name, *rest = line.split()
            span = span if name.endswith(":") else name
            if name in ("Rss:", "Swap:") and rest[0] != "0":
                used.add(span)
    return used


def pages(pid, used=None):
    """(mapping, address, bytes) of all that can be read, or of the spans in `used`; the pieces overlap."""
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, rights, *rest = line.split(None, 5)
            if not rights.startswith("r") or "[vvar" in line or "[vsyscall" in line or (used is not None and span not in used):
                continue
            begin, end = (int(part, 16) for part in span.split("-"))
            at, before = begin, b""
            while at < end:
                try:
                    mem.seek(at)
                    piece = mem.read(min(STEP, end - at))
                except OSError:
                    break  # secret pages: nobody reads them this way
                if not piece:
                    break
                yield line.strip(), at - len(before), before + piece
                before = piece[-LONGEST:]
                at += len(piece)


def found(pid, needles, used=None):
    """Where they stand: (form, address, mapping, what is around it)."""
    return [
        (form, hex(at + piece.index(needle)), line, repr(piece[max(0, piece.index(needle) - 64) : piece.index(needle) + 96]))
        for line, at, piece in pages(pid, used)
        for form, needle in needles
        if needle in piece
    ]


def main():
    order = json.load(sys.stdin)
    needles = [(form, bytes.fromhex(text)) for form, text in order["needles"]]
    for _ in range(int(sys.argv[1])):
        print(json.dumps([[name, *hit] for name, pid in order["pids"].items() for hit in found(pid, needles)]), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
