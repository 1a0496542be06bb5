"""fakedns.py - a name server on loopback that says what a test wants it to say.

`names` maps a name to a list of addresses, or to one of the words below. What is asked is kept in
`asked`. A name that is not there does not exist (NXDOMAIN).
"""

import ipaddress
import socket
import struct
import threading

SERVFAIL, SILENCE, TRUNCATED, NODATA = "servfail", "silence", "truncated", "nodata"
A, AAAA = 1, 28


class FakeDns:
    def __init__(self):
        self.names = {}
        self.asked = []
        self.ports = []  # that questions came from
        for _ in range(50):  # one port, free for both protocols
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.udp.bind(("127.0.0.1", 0))
            try:
                self.tcp = socket.create_server(self.udp.getsockname())
                break
            except OSError:
                self.udp.close()
        self.address = "127.0.0.1:%d" % self.udp.getsockname()[1]
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    def serve_udp(self):
        while True:
            try:
                query, peer = self.udp.recvfrom(4096)
                if not query:
                    return  # shut down
                self.ports.append(peer[1])
                if answer := self.answer(query, tcp=False):
                    self.udp.sendto(answer, peer)
            except OSError:
                return

    def serve_tcp(self):
        while True:
            try:
                sock, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self.one_tcp, args=(sock,), daemon=True).start()

    def one_tcp(self, sock):
        with sock:
            sock.settimeout(10)
            try:
                while length := sock.recv(2, socket.MSG_WAITALL):
                    query = sock.recv(struct.unpack("!H", length)[0], socket.MSG_WAITALL)
                    if answer := self.answer(query, tcp=True):
                        sock.sendall(struct.pack("!H", len(answer)) + answer)
            except (OSError, struct.error):
                return

    def answer(self, query, tcp):
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size].decode("latin-1"))
            at += 1 + size
        kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
        question = query[12 : at + 5]
        name = ".".join(labels).lower()
        self.asked.append(name)
        what = self.names.get(name)
        if what == SILENCE:
            return None
        code, truncated, addresses = 0, 0, []
        if what is None:
            code = 3
        elif what == SERVFAIL:
            code = 2
        elif isinstance(what, tuple) and what[0] == TRUNCATED:
            truncated = 0 if tcp else 1
            addresses = what[1] if tcp else []
        elif what != NODATA:
            addresses = what() if callable(what) else what
        records = b""
        count = 0
        for address in addresses:
            address = ipaddress.ip_address(address)
            if {4: A, 6: AAAA}[address.version] == kind:
                raw = address.packed
                records += struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(raw)) + raw
                count += 1
        flags = 0x8180 | (truncated << 9) | code
        return query[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + question + records

    def close(self):
        for sock in (self.udp, self.tcp):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()
