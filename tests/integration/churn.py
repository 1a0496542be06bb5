"""churn.py - sandboxes that come and go while their requests run, one seeded step after the other

A step does one thing and waits for no answer: it begins a request that will hang, reads a little, goes
away, adds or removes a sandbox, reloads, or changes what DNS and the upstreams say. The same seed gives
the same steps; what the daemon makes of them also depends on time.
"""

import contextlib
import copy
import random
import signal
import ssl
import struct

from clients import Closed, Refused, Tunnel, Wire
from daemons import base_config, merge
from fakedns import SERVFAIL, SILENCE
from h2client import Goaway, H2Client
from sandboxes import admin, call

H2_NAMES = ["fast.h2.test", "slow.h2.test", "late.h2.test"]
H1_NAMES = ["fast.h1.test", "slow.h1.test"]
UNHAPPY = (OSError, ssl.SSLError, Closed, Refused, Goaway, struct.error, AssertionError)
PATHS = ["echo", "bytes?n=300000", "bytes?n=3000000", "hold", "cut", "reset?code=2", "refuse", "goaway", "sse?n=2&ms=20",
         "early", "trailers", "status?code=204"]  # fmt: skip
MOST_CLIENTS = 48


def configuration(h2_up, h1_up, dns, ca_file):
    """Two listeners of one tenant; sandboxes that are added come to them."""
    h2_port, h1_port = (int(up.address.rpartition(":")[2]) for up in (h2_up, h1_up))
    where = [f"https://{name}:{h2_port}" for name in H2_NAMES] + [f"https://{name}:{h1_port}" for name in H1_NAMES]
    config = merge(base_config(h1_up), {
        **admin(),
        "worker": {"threads": 1},
        "timeouts": {"resolve": "800ms", "handshake": "2s", "connect": "1s", "stall": "2s", "header": "2s"},
        "upstream": {"ca_file": ca_file, "nameservers": [dns.address], "allow_addresses": ["127.0.0.0/8"], "resolve": None},
    })  # fmt: skip
    config["listen"].append({"unix": "e/s", "tenant": "acme", "sandbox": "two", "mode": "0660"})
    config["tenants"]["acme"]["rules"] = [
        {"allow": where[0], "client_auth": "pass"},
        *[{"allow": one} for one in where[1:]],
        {"allow": f"tcp://fast.h1.test:{h1_port + 1}"},
    ]
    return config, dict.fromkeys(H2_NAMES, h2_port) | dict.fromkeys(H1_NAMES, h1_port)


class Churn:
    def __init__(self, daemon, config, ports, h2_up, dns, seed):
        self.daemon, self.config, self.ports = daemon, config, ports
        self.h2_up, self.dns = h2_up, dns
        self.random = random.Random(seed)
        self.paths = {"main": daemon.socket_path, "two": daemon.socket_path.replace("/d/s", "/e/s")}
        self.clients = []
        self.steps = 0
        for name in ports:
            dns.names[name] = ["127.0.0.1"]
        self.kinds = [(self.begin_h1, 22), (self.begin_h2, 22), (self.begin_mux, 4), (self.read, 14), (self.leave, 12),
                      (self.add, 8), (self.remove, 8), (self.change_dns, 8), (self.change_upstream, 2), (self.reload, 1)]  # fmt: skip

    def step(self):
        self.steps += 1
        (kind,) = self.random.choices([k for k, _ in self.kinds], [w for _, w in self.kinds])
        with contextlib.suppress(*UNHAPPY):
            kind()
        while len(self.clients) > MOST_CLIENTS:
            self.close(self.clients.pop(0))

    def end(self):
        while self.clients:
            self.close(self.clients.pop())

    # --- clients

    def somewhere(self):
        seen = copy.copy(self.daemon)
        seen.socket_path = self.random.choice(sorted(self.paths.values()))
        name = self.random.choice(sorted(self.ports))
        return seen, name, self.ports[name]

    def keep(self, client):
        self.clients.append(client)
        return client

    @staticmethod
    def close(client):
        with contextlib.suppress(*UNHAPPY):
            client.wire.close() if hasattr(client, "wire") else client.close()

    def begin_h1(self):
        seen, name, port = self.somewhere()
        tunnel = self.keep(Tunnel(seen, name, port=port, timeout=1))
        body = self.random.choice([None, b"", b"x" * 1000, b"x" * 60000])
        tunnel.start("GET" if body is None else "POST", "/test/" + self.random.choice(PATHS), body=body,
                     host=f"{name}:{port}")  # fmt: skip

    def begin_h2(self):
        seen, name, port = self.somewhere()
        tunnel = Tunnel(seen, name, port=port, alpn=("h2",), timeout=1)
        client = self.keep(H2Client(tunnel, authority=f"{name}:{port}", acknowledge=self.random.random() < 0.5))
        for _ in range(self.random.randrange(1, 8)):
            stream = client.start("GET", "/test/" + self.random.choice(PATHS))
            if self.random.random() < 0.2:
                client.h2.reset_stream(stream, 8)
                client.flush()

    def begin_mux(self):
        """Tunnels as streams of one connection."""
        seen, name, port = self.somewhere()
        client = self.keep(H2Client(Wire(seen.socket_path, timeout=1), scheme="http"))
        for _ in range(self.random.randrange(1, 4)):
            stream = client.start_head([(":method", "CONNECT"), (":authority", f"{name}:{port}")], end=False)
            client.put(stream, self.random.choice([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x05hello"]))

    def one(self):
        return self.random.choice(self.clients) if self.clients else None

    def read(self):
        if client := self.one():
            wire = client.wire if hasattr(client, "wire") else client
            wire.sock.settimeout(0.02)
            client.pump() if hasattr(client, "pump") else wire.more()
            wire.buffer = b""

    def leave(self):
        if client := self.one():
            self.clients.remove(client)
            self.close(client)

    # --- the world

    def add(self):
        name = f"dynamic{self.random.randrange(4)}"
        if name not in self.paths:
            status, answer = call(self.daemon, "POST", "/v1/sandboxes", {"tenant": "acme", "id": name})
            if status == 201:
                self.paths[name] = answer["listener"]

    def remove(self):
        if names := sorted(name for name in self.paths if name.startswith("dynamic")):
            name = self.random.choice(names)
            del self.paths[name]
            call(self.daemon, "DELETE", "/v1/sandboxes/acme/" + name)

    def change_dns(self):
        name = self.random.choice([n for n in sorted(self.ports) if not n.startswith("fast")])
        self.dns.names[name] = self.random.choice([SILENCE, SILENCE, SERVFAIL, ["127.0.0.1"]])

    def change_upstream(self):
        self.h2_up.delay = self.random.choice([0, 0, 0.2])
        if self.random.random() < 0.3:
            self.h2_up.close_idle()

    def reload(self):
        config = copy.deepcopy(self.config)
        if self.random.random() < 0.5:
            config["listen"].pop()
            self.paths.pop("two", None)
        else:
            self.paths["two"] = self.daemon.socket_path.replace("/d/s", "/e/s")
        if self.random.random() < 0.3:
            config["tenants"]["acme"]["rules"].pop(0)
        self.daemon.write(config)
        self.daemon.process.send_signal(signal.SIGHUP)
