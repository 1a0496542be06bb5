"""Content that an upstream leaves unread on its connection never becomes the beginning of another request.

The origin here is Python's http.server with handlers that do not look at the content: what lies behind the
head is the next request to it (the "CL.0" of request smuggling).
"""

import contextlib
import http.server
import os
import socket
import ssl
import threading

import pytest
from common import shut, mock_module
from daemons import NAMES, Daemons, base_config, merge
from harness import SECRET, Tunnel

SMUGGLED = b"GET /admin/secrets HTTP/1.1\r\nHost: api.test\r\nX-Ignore: "


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        origin = self.server_origin
        origin.seen.append((self.command, self.path, self.headers.get("x-api-key") == SECRET, self.connection))
        if self.path.startswith("/read/"):
            self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"ok")

    do_GET = do_HEAD = do_OPTIONS = do_DELETE = do_POST = do_PUT = do_PATCH = do_REPORT = answer

    def handle_expect_100(self):
        return self.path.startswith("/hundred/") is False or super().handle_expect_100()

    def log_message(self, *_):
        pass


class Origin:
    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        authority = mock_module.make_ca(folder)
        self.ca = authority[0]
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*mock_module.make_leaf(folder, authority, NAMES))
        self.seen = []  # (method, path, with the key, connection)
        self.socks = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError, ValueError):
            tls = self.context.wrap_socket(sock, server_side=True)
            self.socks.append(tls)
            with tls:
                type("OwnHandler", (Handler,), {"server_origin": self})(tls, None, None)
                while tls.recv(65536):  # a reset would overtake the answer
                    pass

    def paths(self):
        return [path for _, path, _, _ in self.seen]

    def connections(self):
        return len({id(connection) for _, _, _, connection in self.seen})

    def close_idle(self):
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def check_forbidden(self):
        pass


@pytest.fixture(name="origin")
def make_origin(tmp_path):
    origin = Origin(str(tmp_path / "origin"))
    yield origin
    shut(origin.listener)
    origin.close_idle()


@pytest.fixture(name="serve")
def make_serve(origin):
    with Daemons([origin]) as daemons:

        def start(**rule):
            config = merge(base_config(origin), {"worker": {"threads": 1}})
            config["tenants"]["acme"]["rules"] = [
                {"deny": "https://api.test/admin/**"},
                {"allow": "REPORT https://api.test/**", "credential": "main", **rule},
                {"allow": "https://api.test/**", "credential": "main", **rule},
            ]
            return daemons(config=config)

        yield start


def ask_with_content(daemon, method, path, fields=(), body=SMUGGLED):
    with Tunnel(daemon, "api.test") as tunnel:
        return tunnel.ask(method, path, fields=fields, body=body).status


def assert_nothing_was_smuggled(origin):
    assert "/admin/secrets" not in origin.paths(), "a request was made of another's content"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "REPORT"])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
def test_content_of_a_method_that_defines_none_meets_no_other_request(serve, origin, method, chunked):
    one = serve()
    fields, body = ((), SMUGGLED)
    if chunked:
        fields, body = [("Transfer-Encoding", "chunked")], b"%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
    assert ask_with_content(one, method, "/first", fields, body) == 200
    assert ask_with_content(one, "GET", "/second", body=None) == 200
    assert_nothing_was_smuggled(origin)
    assert origin.paths() == ["/first", "/second"] and origin.connections() == 2


def test_a_request_in_the_content_is_not_read_either(serve, origin):
    """Whole as it is, it needs no other exchange; the connection may stand for a client certificate."""
    one = serve()
    whole = b"GET /admin/secrets HTTP/1.1\r\nHost: api.test\r\n\r\n"
    assert ask_with_content(one, "DELETE", "/first", body=whole) == 200
    assert ask_with_content(one, "GET", "/second", body=None) == 200
    assert_nothing_was_smuggled(origin)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_rule_can_say_that_the_upstream_does_not_read_content(serve, origin, method):
    one = serve(reuse_after_content="never")
    assert ask_with_content(one, method, "/first") == 200
    assert ask_with_content(one, "GET", "/second", body=None) == 200
    assert_nothing_was_smuggled(origin)
    assert origin.connections() == 2


def test_content_that_was_not_awaited_meets_no_other_request(serve, origin):
    one = serve()
    # Of a type that is not held to be looked into: then keyhole says 100 itself, and asks the upstream for none.
    fields = [("Expect", "100-continue"), ("Content-Type", "application/octet-stream")]
    assert ask_with_content(one, "POST", "/first", fields) == 200
    assert ask_with_content(one, "GET", "/second", body=None) == 200
    assert ("/admin/secrets", True) not in [(path, key) for _, path, key, _ in origin.seen]
    assert origin.connections() == 2


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("DELETE", None), ("DELETE", b""), ("POST", b"content")])
def test_connections_of_other_requests_are_kept(serve, origin, method, body):
    one = serve()
    assert ask_with_content(one, method, "/read/first", body=body) == 200
    assert ask_with_content(one, "GET", "/second", body=None) == 200
    assert origin.paths() == ["/read/first", "/second"] and origin.connections() == 1
