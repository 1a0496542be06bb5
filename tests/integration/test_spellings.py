"""A special address in any spelling: refused as malformed, or read as that address and refused by the guard.

Nothing here connects. What the proxy reads, `keyhole explain` reads; test_guard.py has the same addresses on the wire.
"""

import ipaddress
import json
import subprocess

import pytest
from clients import Refused
from common import KEYHOLE
from harness import Tunnel, client_context

V4 = {
    "127.0.0.1": "loopback", "127.255.255.254": "loopback", "0.0.0.0": "unspecified", "10.0.0.1": "private",
    "172.16.0.1": "private", "192.168.1.1": "private", "100.64.0.1": "cgnat", "169.254.1.1": "link_local",
    "169.254.169.254": "metadata", "169.254.170.2": "metadata", "100.100.100.200": "metadata",
    "192.0.0.192": "metadata", "168.63.129.16": "metadata", "224.0.0.1": "multicast",
    "255.255.255.255": "broadcast", "192.0.2.1": "documentation", "198.51.100.1": "documentation",
    "203.0.113.1": "documentation", "198.18.0.1": "benchmarking", "240.0.0.1": "reserved",
}  # fmt: skip
V6 = {
    "::1": "loopback", "::": "unspecified", "fe80::1": "link_local", "fec0::1": "site_local", "fd00::1": "unique_local",
    "fd00:ec2::254": "metadata", "fd20:ce::254": "metadata", "fd00:c1::a9fe:a9fe": "metadata", "ff02::1": "multicast",
    "2001:db8::1": "documentation", "3fff::1": "documentation", "2001:2::1": "benchmarking", "100::1": "discard",
    "2002:808:808::1": "6to4", "2001:0:808:808::f7f7:f7f7": "teredo", "64:ff9b:1:808:8:800::": "nat64",
}  # fmt: skip


def spellings_of_4(text):
    """How C libraries, browsers and other people write it. None of these is the plain form."""
    a, b, c, d = (int(part) for part in text.split("."))
    whole = a << 24 | b << 16 | c << 8 | d
    low = c << 8 | d
    return [
        str(whole), hex(whole), "0X%X" % whole, "0%o" % whole, "0x%08x" % whole, f"{whole + (1 << 32)}",
        f"{a}.{whole & 0xffffff}", f"{a}.{b}.{low}", f"{a}.{b}.{hex(low)}", f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"{a:03o}.{b}.{c}.0{d:o}", f"00{a}.{b}.{c}.{d}", f"{a}.{b}.{c}.0x{d:x}",
        f"{text}.", f".{text}", f"{a}.{b}.{c}.{d}.0", f"{a}..{c}.{d}", f"[{text}]", f"{a + 256}.{b}.{c}.{d}",
        f"%{ord(text[0]):02x}{text[1:]}", text.replace(".", "%2e"), text.replace(".", "\u3002"),
        "".join(chr(0xff10 + int(ch)) if ch.isdigit() else ch for ch in text),
        "".join(chr(0x2460 + int(ch) - 1) if ch in "123456789" else ch for ch in text),
        f"{text}%00", f"{text}\\", f"+{text}", f"-{text}", f"{text} ", f"{text}%20", f"user@{text}", f"[::{text}",
    ]  # fmt: skip


def carriers_of(text):
    """IPv6 literals that carry it; what is due is its class, or the carrier's own where it is public."""
    address = ipaddress.IPv4Address(text)
    packed = int(address)
    high, low = f"{packed >> 16:x}", f"{packed & 0xffff:x}"
    inverted = packed ^ 0xFFFFFFFF
    return [
        f"[::ffff:{text}]", f"[::FFFF:{high}:{low}]", f"[0:0:0:0:0:ffff:{high}:{low}]", f"[::{text}]",
        f"[64:ff9b::{text}]", f"[64:ff9b::{high}:{low}]", f"[64:FF9B:1::{high}:{low}]",
        f"[64:ff9b:1:{high}:{packed >> 8 & 0xff:x}:{(packed & 0xff) << 8:x}:0:0]",
        f"[2002:{high}:{low}::1]", f"[2001:0:808:808::{inverted >> 16:x}:{inverted & 0xffff:x}]",
    ]  # fmt: skip


def spellings_of_6(text):
    full = ipaddress.IPv6Address(text).exploded
    good = [f"[{text}]", f"[{full}]", f"[{full.upper()}]", f"[{full[:30]}{full[30:]}]"]
    bad = [text, f"[{text}%25eth0]", f"[{text}%eth0]", f"[{text}%251]", f"[[{text}]]", f"[{text}", f"{text}]",
           f"[{text}].", f"[{text}]x", f"[ {text}]", f"[{full}:0]", f"[{text}::]", f"[0{full}]", f"[{text}/128]"]  # fmt: skip
    return good, bad


def explain(tmp_path, hosts):
    config = tmp_path / "k.yaml"
    config.write_text('version: 1\ntenants: { t: { rules: [ { allow: "https://**" }, { allow: "http://**" } ] } }\n')
    lines = "".join(json.dumps({"url": f"https://{host}/"}) + "\n" for host in hosts)
    done = subprocess.run([KEYHOLE, "explain", "-c", str(config), "--batch"], input=lines, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(hosts)
    return list(zip(hosts, answers))


def is_guarded(answer, classes):
    return answer["reason"] == "address_prohibited" and answer["addresses"][0]["class"] in classes


def test_every_other_spelling_of_an_ipv4_address_is_malformed(tmp_path):
    hosts = [s for text in V4 for s in spellings_of_4(text) if s not in V4]
    assert len(hosts) > 500
    for host, answer in explain(tmp_path, hosts):
        assert answer["decision"] == "deny", (host, answer)
        assert answer["reason"] in ("malformed_request", "usage") or is_guarded(answer, V4.values()), (host, answer)
        if "addresses" in answer:
            # Only where the plain form of another address came out, as "0177" never does.
            assert answer["addresses"][0]["address"].rsplit(":", 1)[0] == host.strip("[]"), (host, answer)


def test_the_plain_form_meets_the_guard(tmp_path):
    for host, answer in explain(tmp_path, list(V4)):
        assert is_guarded(answer, [V4[host]]), (host, answer)


def test_an_address_inside_another_meets_the_guard(tmp_path):
    for text, name in V4.items():
        for host, answer in explain(tmp_path, carriers_of(text)):
            # 0.0.0.0 inside of a carrier is no address in it.
            classes = ["nat64", "6to4", "teredo", "loopback"] if text.startswith("0.") else []
            assert is_guarded(answer, [name, *classes]), (host, answer)


def test_an_ipv6_address_in_any_spelling_is_itself_or_malformed(tmp_path):
    for text, name in V6.items():
        good, bad = spellings_of_6(text)
        for host, answer in explain(tmp_path, good):
            assert is_guarded(answer, [name]), (host, answer)
        for host, answer in explain(tmp_path, bad):
            assert answer["reason"] == "malformed_request", (host, answer)


PLAIN = ("[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[64:ff9b::7f00:1]")


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]",
                                  "127.0.0.1.", "[::1%25lo]", "[64:ff9b::7f00:1]"])  # fmt: skip
def test_no_spelling_gets_to_a_server_on_loopback(daemon, mock, host):
    """On the wire, by CONNECT: nothing arrives at the one that listens there."""
    one = daemon({"upstream": {"resolve": None}}, rules=[{"allow": f"https://**:{mock.port}"}])
    mark = mock.mark()
    try:
        with Tunnel(one, host, mock.port, sni="", context=client_context(one.ca, check=False)) as tunnel:
            status = tunnel.ask("GET", "/test/echo", host=f"{host}:{mock.port}").status
    except Refused as refused:
        status = refused.response.status
    assert status == (403 if host in PLAIN else 400)
    assert mock.events(since=mark) == []
