"""websocket.py - a WebSocket's server side over a connection of the mock: whole messages of text"""

import base64
import hashlib

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


def accept_for(key):
    guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    return base64.b64encode(hashlib.sha1((key + guid).encode()).digest()).decode()


def put(connection, opcode, payload):
    head = bytes([0x80 | opcode])
    if len(payload) < 126:
        head += bytes([len(payload)])
    elif len(payload) < 65536:
        head += bytes([126]) + len(payload).to_bytes(2, "big")
    else:
        head += bytes([127]) + len(payload).to_bytes(8, "big")
    connection.send(head + payload)


def get(connection):
    """A frame: (it ends a message, opcode, payload)."""
    first, second = connection.take(2)
    length = second & 127
    if length >= 126:
        length = int.from_bytes(connection.take(2 if length == 126 else 8), "big")
    mask = connection.take(4) if second & 0x80 else bytes(4)
    data = connection.take(length)
    whole = int.from_bytes(mask * (length // 4 + 1), "big") >> (8 * (4 - length % 4))
    return bool(first & 0x80), first & 15, (int.from_bytes(data, "big") ^ whole).to_bytes(length, "big")


def messages(connection):
    """Each message that comes, until the other side closes."""
    parts = []
    while True:
        end, opcode, payload = get(connection)
        if opcode == CLOSE:
            put(connection, CLOSE, payload)
            return
        if opcode == PING:
            put(connection, PONG, payload)
        elif opcode < 8:
            parts.append(payload)
            if end:
                yield b"".join(parts)
                parts = []
