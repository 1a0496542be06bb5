"""test_first_bytes_share.py - what comes before a request is done in shares too: TLS, SOCKS, settings

As in test_work_share.py, the worker stands still while all connections of one sandbox say something, and behind them
stands one request of another tenant. When that is answered, the worker stands still again, and what it did is counted.
"""

import array
import contextlib
import fcntl
import ssl
import struct
import termios
import time

import pytest
from harness import PATIENCE
from hyperframe.frame import SettingsFrame
from test_h2_hostile import headers
from test_work_share import CONNECTIONS, PREFACE, drain, starter  # noqa: F401

MANY = 10 * CONNECTIONS


def vector(data, size=2):
    return len(data).to_bytes(size, "big") + data


def extension(kind, data):
    return struct.pack(">H", kind) + vector(data)


def handshake(share, groups=b""):
    """A ClientHello of TLS 1.3, without its record headers (RFC 8446 §4.1.2)."""
    extensions = b"".join([
        extension(0, vector(b"\0" + vector(b"none.test"))),
        extension(43, vector(b"\x03\x04", 1)),
        extension(10, vector(groups + b"\x00\x1d")),
        extension(13, vector(b"\x04\x03\x08\x04")),
        extension(51, vector(share)),
    ])  # fmt: skip
    body = b"\x03\x03" + bytes(32) + vector(bytes(32), 1) + vector(b"\x13\x01") + b"\x01\x00" + vector(extensions)
    return b"\x01" + vector(body, 3)


def records(data, size):
    return b"".join(b"\x16\x03\x03" + vector(data[at : at + size]) for at in range(0, len(data), size))


# Without a key of its own, a client is asked for one, and says it all again.
WITHOUT_KEY = records(handshake(b""), 1000)
KEY = b"\x00\x1d" + vector(bytes([9]) + bytes(31))
WITH_KEY = {  # of so many connections
    "short": (MANY, records(handshake(KEY), 1000)),
    "long, in records of a byte": (CONNECTIONS, records(handshake(KEY, b"\x00\x18" * 4000), 1)),
}


def unread(sock):
    """Bytes that the other side has not taken."""
    count = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, count)
    return count[0]


@pytest.mark.alone
@pytest.mark.parametrize("how", WITH_KEY)
def test_another_tenants_request_does_not_wait_for_second_hellos(start, how):  # noqa: F811
    crowd, wire = start()
    many, text = WITH_KEY[how]
    crowd.join(many - CONNECTIONS)
    crowd.say(WITHOUT_KEY)
    with crowd.until_another_is_answered(wire, text, once=True):
        waiting = [sock for sock in crowd.socks if not drain(sock)]
    assert len(waiting) > many // 2
    assert all(hears(sock) for sock in waiting), "they come to it later"


def first_flight():
    """Of TLS 1.2, whose client has its keys made in a second one. Return: its end, and what it has to send."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = context.wrap_bio(received, sent, server_hostname="none.test")
    with contextlib.suppress(ssl.SSLWantReadError):
        end.do_handshake()
    return (end, received, sent), sent.read()


def second_flight(sock, end):
    client, received, sent = end
    sock.settimeout(PATIENCE)
    while not sent.pending:
        received.write(sock.recv(1 << 16))
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
    return sent.read()


@pytest.mark.alone
def test_another_tenants_request_does_not_wait_for_second_flights(start):  # noqa: F811
    crowd, wire = start()
    crowd.join(MANY - CONNECTIONS)
    ends = []
    for sock in crowd.socks:
        end, text = first_flight()
        sock.sendall(text)
        ends.append(end)
    flights = [second_flight(*each) for each in zip(crowd.socks, ends, strict=True)]
    with crowd.until_another_is_answered(wire, flights, once=True):
        waiting = [sock for sock in crowd.socks if not drain(sock)]
    assert len(waiting) > MANY // 2
    assert all(hears(sock) for sock in waiting), "they come to it later"


def hears(sock):
    sock.settimeout(PATIENCE)
    return sock.recv(1)


def begin(crowd, text):
    """Ten times as many, whose first bytes were taken."""
    crowd.join(MANY - CONNECTIONS)
    crowd.say(text, answered=False)
    end = time.monotonic() + PATIENCE
    while any(unread(sock) for sock in crowd.socks):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.alone
def test_another_tenants_request_does_not_wait_for_hellos_that_come_by_the_byte(start):  # noqa: F811
    """Each is read again from its beginning."""
    crowd, wire = start()
    begin(crowd, records(handshake(b"", b"\x00\x18" * 4000), 1)[:15000])
    with crowd.until_another_is_answered(wire, b"\x16", once=True):
        assert sum(unread(sock) == 0 for sock in crowd.socks) < MANY // 2


@pytest.mark.alone
def test_another_tenants_request_does_not_wait_for_all_who_speak_socks(start):  # noqa: F811
    crowd, wire = start()
    begin(crowd, b"\x05")
    name = b".".join([b"a" * 60] * 4)
    with crowd.until_another_is_answered(wire, b"\x01\x00\x05\x01\x00\x03" + vector(name, 1) + b"\x01\xbb", once=True):
        waiting = [sock for sock in crowd.socks if not drain(sock)]
    assert len(waiting) > MANY // 2
    assert all(hears(sock) for sock in waiting), "they come to it later"


@pytest.mark.alone
def test_another_tenants_request_does_not_wait_for_windows_of_thousands_of_streams(start):  # noqa: F811
    crowd, wire = start()
    for sock in crowd.socks[4:]:
        sock.close()
    del crowd.socks[4:]
    block = headers(1, (":method", "CONNECT"), (":authority", "sink.test:443"), flags=["END_HEADERS"]).serialize()
    tunnels = b"".join(block[:5] + stream.to_bytes(4, "big") + block[9:] for stream in range(1, 6000, 2))
    settings = b"".join(SettingsFrame(0, settings={4: size}).serialize() for size in (1, 65535)) * 200
    for sock in crowd.socks:
        sock.sendall(PREFACE + tunnels)
    time.sleep(2)
    for sock in crowd.socks:
        sock.setblocking(False)
        drain(sock)
    with crowd.until_another_is_answered(wire, settings, once=True):
        acknowledged = sum(acks(drain(sock)) for sock in crowd.socks)
    assert acknowledged < 4 * 400 // 2


def acks(got):
    n = at = 0
    while at + 9 <= len(got):
        n += got[at + 3] == 4 and got[at + 4] == 1
        at += 9 + int.from_bytes(got[at : at + 3], "big")
    return n
