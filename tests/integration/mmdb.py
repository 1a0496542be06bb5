"""mmdb.py - a small writer of MaxMind DB files (format 2.0), for tests.

write(path, {"192.0.2.0/24": {"country": {"iso_code": "XX"}}}) makes a whole database. Networks of
version 4 lie at ::/96, as in those that are published.
"""

import ipaddress
import os
import struct

MARKER = b"\xab\xcd\xefMaxMind.com"


def country(code):
    return {"continent": {"code": "EU"}, "country": {"iso_code": code, "names": {"en": "Land of " + code}}}


def network(number):
    return {"autonomous_system_number": number, "autonomous_system_organization": f"Network {number}"}


class U16(int):
    """A number that is written in the type that the metadata has."""


class U64(int):
    pass


def control(kind, size):
    """The bytes in front of a value: its type and size."""
    out = bytes([kind << 5]) if kind < 8 else bytes([0, kind - 7])
    if size < 29:
        head, rest = size, b""
    elif size < 285:
        head, rest = 29, struct.pack(">B", size - 29)
    else:
        head, rest = 30, struct.pack(">H", size - 285)
    return bytes([out[0] | head]) + out[1:] + rest


def encode(value):
    if isinstance(value, bytes):
        return value  # as it is: what no writer writes
    if isinstance(value, str):
        data = value.encode()
        return control(2, len(data)) + data
    if isinstance(value, dict):
        return control(7, len(value)) + b"".join(encode(k) + encode(v) for k, v in value.items())
    if isinstance(value, list):
        return control(11, len(value)) + b"".join(map(encode, value))
    data = value.to_bytes(8, "big").lstrip(b"\0")
    kind = 5 if isinstance(value, U16) else 9 if isinstance(value, U64) else 6
    return control(kind, len(data)) + data


def bits_of(net, version):
    width = net.max_prefixlen
    bits = f"{int(net.network_address):0{width}b}"[: net.prefixlen]
    return "0" * 96 + bits if version == 6 and net.version == 4 else bits


def tree_of(records, version):
    """Nodes as [left, right], each None, the index of a node, or ("data", n)."""
    nodes = [[None, None]]
    for index, net in enumerate(records):
        at, bits = 0, bits_of(net, version)
        for bit in map(int, bits[:-1]):
            if nodes[at][bit] is None:
                nodes.append([None, None])
                nodes[at][bit] = len(nodes) - 1
            at = nodes[at][bit]
        nodes[at][int(bits[-1])] = ("data", index)
    return nodes


def build(networks, version=6, record_size=28, kind="Test"):
    records = {ipaddress.ip_network(net): value for net, value in networks.items()}
    nodes = tree_of(records, version)
    offsets, data = [], b""
    for value in records.values():
        offsets.append(len(data))
        data += encode(value)

    def number(record):
        if record is None:
            return len(nodes)
        return record if isinstance(record, int) else len(nodes) + 16 + offsets[record[1]]

    tree = b""
    for left, right in ((number(a), number(b)) for a, b in nodes):
        if record_size == 28:
            middle = (left >> 24) << 4 | right >> 24
            tree += (left & 0xFFFFFF).to_bytes(3, "big") + bytes([middle]) + (right & 0xFFFFFF).to_bytes(3, "big")
        else:
            tree += left.to_bytes(record_size // 8, "big") + right.to_bytes(record_size // 8, "big")
    metadata = {
        "binary_format_major_version": U16(2),
        "binary_format_minor_version": U16(0),
        "build_epoch": U64(1700000000),
        "database_type": kind,
        "description": {"en": "made by a test"},
        "ip_version": U16(version),
        "languages": ["en"],
        "node_count": len(nodes),
        "record_size": U16(record_size),
    }
    return tree + b"\0" * 16 + data + MARKER + encode(metadata)


def write(path, networks, **options):
    """Replaces the file in one step, as those who publish databases do."""
    with open(f"{path}.new", "wb") as file:
        file.write(build(networks, **options))
    os.replace(f"{path}.new", path)
    return str(path)
