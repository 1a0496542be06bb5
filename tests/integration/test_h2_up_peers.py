"""HTTP/2 towards real servers: nghttpd, nginx, Node."""

import contextlib
import hashlib
import os
import shutil
import socket
import struct
import subprocess

import pytest
from common import FINGERPRINT, SECRET, finish, mock_module, until
from daemons import NAMES, Daemons, base_config
from h2client import h2_tunnel
from harness import Tunnel, free_port

BIG = bytes(range(256)) * 8000

NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_max_body_size 0;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {cert}; ssl_certificate_key {key};
    root {folder}/www;
    location = /seen {{ default_type text/plain; return 200 "$server_protocol $http_x_own"; }}
  }}
}}
"""

NODE = """
const http2 = require('http2'), fs = require('fs'), crypto = require('crypto');
const [, , port, key, cert] = process.argv;
const server = http2.createSecureServer({ key: fs.readFileSync(key), cert: fs.readFileSync(cert) });
server.on('stream', (stream, headers) => {
  stream.on('error', () => {});
  if (headers[':path'].startsWith('/grpc/')) {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'grpc-message': 'te ' + headers.te }));
    stream.pipe(stream);  // each message comes back as it is
    return;
  }
  const hash = crypto.createHash('sha256');
  let bytes = 0;
  stream.on('data', (d) => { hash.update(d); bytes += d.length; });
  stream.on('end', () => {
    stream.respond({ ':status': 200 });
    const key = crypto.createHash('sha256').update(String(headers['x-api-key'])).digest('hex');
    stream.end(JSON.stringify({ bytes, sha256: hash.digest('hex'), key, authority: headers[':authority'] }));
  });
});
server.listen(Number(port), '127.0.0.1');
"""


class Server:
    """A real server under the mock's CA."""

    def __init__(self, folder, command):
        self.port = free_port()
        authority = mock_module.make_ca(folder)
        cert, key = mock_module.make_leaf(folder, authority, NAMES)
        self.ca = authority[0]
        self.address = f"127.0.0.1:{self.port}"
        www = os.path.join(folder, "www")
        os.makedirs(www)
        with open(os.path.join(www, "big"), "wb") as file:
            file.write(BIG)
        self.process = subprocess.Popen(
            command(folder, self.port, cert, key), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until("it listens", self.listens)

    def listens(self):
        assert self.process.poll() is None, "the server ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def check_forbidden(self):
        pass

    def stop(self):
        self.process.terminate()
        finish(self.process)


def nghttpd(folder, port, cert, key):
    return ["nghttpd", "-a", "127.0.0.1", "-d", folder + "/www", "--trailer", "x-sum: 7", str(port), key, cert]


def nginx(folder, port, cert, key):
    with open(folder + "/nginx.conf", "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, port=port, cert=cert, key=key))
    return [shutil.which("nginx") or "/usr/sbin/nginx", "-e", folder + "/error.log", "-p", folder,
            "-c", folder + "/nginx.conf"]  # fmt: skip


def node(folder, port, cert, key):
    with open(folder + "/server.js", "w", encoding="ascii") as file:
        file.write(NODE)
    return ["node", folder + "/server.js", str(port), key, cert]


@pytest.fixture(name="through")
def make_through(tmp_path):
    """through(command): a daemon in front of that server."""
    servers, groups = [], []

    def start(command):
        name = command.__name__
        if not (shutil.which(name) or os.path.exists("/usr/sbin/" + name)):
            pytest.skip(f"no {name} here")
        folder = str(tmp_path / name)
        os.makedirs(folder)
        servers.append(Server(folder, command))
        groups.append(Daemons(servers[-1:]))
        return groups[-1](config=base_config(servers[-1]))

    try:
        yield start
    finally:
        for server in servers:
            server.stop()
        for group in groups:
            group.end()


def get_h1(daemon, path, **options):
    with Tunnel(daemon, "open.test") as tunnel:
        return tunnel.ask("GET", path, **options)


def get_h2(daemon, path, **options):
    with h2_tunnel(daemon, "open.test") as client:
        return client.ask("GET", path, **options)


@pytest.mark.parametrize("get", [get_h1, get_h2])
def test_nghttpd(through, get):
    d = through(nghttpd)
    answer = get(d, "/big")
    assert answer.body == BIG
    assert ("x-sum", "7") in [(n.lower(), v) for n, v in answer.trailers] or answer.get("content-length")
    assert get(d, "/none").status == 404


@pytest.mark.parametrize("get", [get_h1, get_h2])
def test_nginx(through, get):
    d = through(nginx)
    assert get(d, "/seen", fields=[("x-own", "mine")]).body == b"HTTP/2.0 mine"
    assert get(d, "/big").body == BIG
    assert get(d, "/none").status == 404


def test_node_takes_content_and_the_credential(through):
    d = through(node)
    with h2_tunnel(d, "api.test") as client:
        seen = client.ask("POST", "/", body=BIG).json()
    assert seen["bytes"] == len(BIG) and seen["sha256"] == hashlib.sha256(BIG).hexdigest()
    assert seen["key"] == hashlib.sha256(SECRET.encode()).hexdigest()
    assert seen["authority"] == "api.test" and FINGERPRINT


def message(payload):
    return b"\0" + struct.pack(">I", len(payload)) + payload


def test_grpc_messages_go_both_ways_as_they_come(through):
    """A call of gRPC that streams in both directions: each message comes back before the next goes."""
    d = through(node)
    with h2_tunnel(d, "open.test") as client:
        fields = [("content-type", "application/grpc"), ("te", "trailers")]
        stream = client.start("POST", "/grpc/echo.Echo/Both", fields, end=False)
        one = client.streams[stream]
        expected = b""
        for n in range(20):
            piece = message(b"%d " % n * 100)
            expected += piece
            client.put(stream, piece)
            while b"".join(one.parts) != expected:
                client.pump()
        client.h2.end_stream(stream)
        client.flush()
        answer = client.wait(stream)
    assert dict(answer.trailers)["grpc-status"] == "0"
    assert dict(answer.trailers)["grpc-message"] == "te trailers"


def test_many_calls_side_by_side(through):
    d = through(node)
    with h2_tunnel(d, "open.test") as client:
        streams = []
        for n in range(64):
            stream = client.start("POST", "/grpc/echo.Echo/Unary", [("te", "trailers")], end=False)
            client.put(stream, message(b"%d" % n), end=True)
            streams.append(stream)
        for n, stream in enumerate(streams):
            answer = client.wait(stream)
            assert answer.body == message(b"%d" % n)
            assert dict(answer.trailers)["grpc-status"] == "0"
