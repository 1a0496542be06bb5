#!/usr/bin/python3
"""mock_upstream.py - a mock of api.anthropic.com, for the demo and for tests.

It speaks TLS under a CA of its own (made with the openssl command when it starts), HTTP/1.1 with
keep-alive, and the Messages API: plain and streamed answers, count_tokens, the list of models, and
the side calls that command line agents make. Every /v1 path asks for the real key, as `x-api-key` or
as `Authorization: Bearer`, and answers 401 to anything else.

It never shows the key that it got, only a fingerprint: the first 8 hex digits of its SHA-256, in the
response field `x-mock-key` and in the log. The log is one JSON object a line:

    {"event": "accept"|"tls"|"request"|"done"|"end", "conn": 1, "t": CLOCK_MONOTONIC seconds, …}
    {"event": "idle closed", "t": …}    what SIGUSR1 asks for is done

`request` is written when a head has been read, `done` when its answer has been sent, `end` when the
connection is over. When it can be used, one JSON line on standard output says where: {"port": …,
"ca": …, "fingerprint": …}. SIGUSR1 closes the connections that rest between two requests.

Python's standard library only.
"""

import argparse
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time

from certificates import make_ca, make_leaf, server_context

HEAD_LIMIT = 1 << 20
KEEP_BODY = 8 << 20
IDLE_SECONDS = 120


def fingerprint(key):
    """What may be shown of a key."""
    return hashlib.sha256(key).hexdigest()[:8]


# --- one connection -------------------------------------------------------------------------------


class Gone(Exception):
    """The other side is no longer there, or sent what is not HTTP."""


class Request:
    def __init__(self, line, fields, raw_head):
        self.line = line
        self.method, self.target, self.version = line.split(" ")
        self.fields = fields
        self.raw_head = raw_head
        self.path, _, self.query = self.target.partition("?")
        self.body = bytearray()
        self.body_bytes = 0
        self.body_digest = hashlib.sha256()
        self.trailers = []

    def get(self, name):
        return next((v for n, v in self.fields if n.lower() == name), None)

    def argument(self, name, default=None):
        for pair in self.query.split("&"):
            n, _, v = pair.partition("=")
            if n == name:
                return v
        return default

    def key(self):
        """The API key, wherever the client put it, as bytes; None where there is none."""
        value = self.get("x-api-key")
        if value is None:
            value = self.get("authorization")
            if value is not None and value.lower().startswith("bearer "):
                value = value[7:]
        return None if value is None else value.encode("latin-1")


class Connection:
    """Reads requests and hands each to the server's `answer`; writes what that wants written."""

    def __init__(self, server, sock, number):
        self.server = server
        self.sock = sock
        self.raw = sock
        self.number = number
        self.buffer = b""
        self.keep = True
        self.idle = False
        self.epoch = server.epoch
        self.sni = None
        self.count = 0

    # reading

    def fill(self):
        try:
            piece = self.sock.recv(65536)
        except (OSError, ssl.SSLError, ValueError) as why:
            raise Gone(str(why)) from None
        if not piece:
            raise Gone("end of stream")
        self.buffer += piece

    def read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > HEAD_LIMIT:
                raise Gone("head too large")
            if self.buffer[:1] == b"\x16":  # TLS where none is spoken: say so as servers do
                self.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                raise Gone("a TLS hello")
            self.fill()
        raw, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = raw.decode("latin-1").split("\r\n")
        fields = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise Gone("not a field: " + line)
            fields.append((name, value.strip(" \t")))
        try:
            return Request(lines[0], fields, raw + b"\r\n\r\n")
        except ValueError:
            raise Gone("not a request line: " + lines[0]) from None

    def take(self, count):
        while len(self.buffer) < count:
            self.fill()
        piece, self.buffer = self.buffer[:count], self.buffer[count:]
        return piece

    def take_line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def read_body(self, request):
        """Takes the content; keeps its beginning and the digest of all of it."""

        def got(piece):
            request.body_digest.update(piece)
            request.body_bytes += len(piece)
            if len(request.body) < KEEP_BODY:
                request.body += piece

        if (request.get("transfer-encoding") or "").lower() == "chunked":
            while size := int(self.take_line().split(b";")[0], 16):
                got(self.take(size))
                if self.take(2) != b"\r\n":
                    raise Gone("chunk without end")
            while line := self.take_line():
                name, _, value = line.decode("latin-1").partition(":")
                request.trailers.append((name, value.strip()))
            return
        rest = int(request.get("content-length") or 0)
        while rest:
            if not self.buffer:
                self.fill()
            piece = self.take(min(rest, len(self.buffer)))
            rest -= len(piece)
            got(piece)

    # writing

    def send(self, data):
        try:
            self.sock.sendall(data)
        except (OSError, ssl.SSLError, ValueError) as why:
            raise Gone(str(why)) from None

    def head(self, status, fields, reason=None):
        reason = reason if reason is not None else REASONS.get(status, "Status")
        lines = [f"HTTP/1.1 {status} {reason}"] + [f"{n}: {v}" for n, v in fields]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def reply(self, request, status, body, kind="application/json", fields=()):
        """A whole answer with Content-Length; the body is left out for HEAD."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        all_fields = [("content-type", kind), ("content-length", len(body)), *fields]
        all_fields += self.server.common_fields(request)
        if not self.keep:
            all_fields.append(("connection", "close"))
        self.head(status, all_fields)
        if request.method != "HEAD":
            self.sent += len(body)
            self.send(body)

    def chunk(self, data):
        self.sent += len(data)
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def last_chunk(self, trailers=()):
        self.send(b"0\r\n" + b"".join(b"%s: %s\r\n" % t for t in trailers) + b"\r\n")

    # life

    def break_off(self):
        """Ends the connection with a TCP reset."""
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.raw.detach())

    def close(self, notify=True):
        """Ends the connection, with TLS' close_notify unless a cut-off is wanted."""
        if notify and isinstance(self.sock, ssl.SSLSocket):
            try:
                self.sock.settimeout(0.3)
                self.sock.unwrap()
            except (OSError, ssl.SSLError, ValueError):
                pass
        try:
            socket.socket.shutdown(self.raw, socket.SHUT_RDWR)
        except OSError:
            pass
        self.keep = False

    def rest(self):
        """Waits for the first byte of the next request. Return: there is one."""
        if self.buffer:
            return True
        with self.server.lock:
            if self.epoch != self.server.epoch:
                return False
            self.idle = True
        try:
            self.fill()
        finally:
            with self.server.lock:
                self.idle = False
        return True

    def serve(self):
        """One request after the other."""
        while self.keep and self.rest():
            request = self.read_head()
            self.count += 1
            self.sent = 0  # bytes of content of this answer
            self.keep = request.version == "HTTP/1.1" and "close" not in (
                (request.get("connection") or "").lower()
            )
            self.server.log_request(self, request)
            self.server.answer(self, request)
            self.server.log(event="done", conn=self.number, target=request.target,
                            body_bytes=request.body_bytes, sent=self.sent)  # fmt: skip

    def run(self):
        log = self.server.log
        why = ""
        try:
            self.sock.settimeout(IDLE_SECONDS)
            if self.server.context:
                self.sock = self.server.context.wrap_socket(
                    self.sock, server_side=True, do_handshake_on_connect=False
                )
                self.raw = self.sock
                self.sock.owner = self
                self.sock.do_handshake()
                log(event="tls", conn=self.number, version=self.sock.version(), sni=self.sni)
            self.server.converse(self)
        except (Gone, ssl.SSLError, OSError, ValueError) as problem:
            why = str(problem)
        finally:
            self.close()
            self.sock.close()
            with self.server.lock:
                self.server.connections.discard(self)
            log(event="end", conn=self.number, requests=self.count, why=why)


REASONS = {
    200: "OK", 204: "No Content", 304: "Not Modified", 400: "Bad Request", 401: "Unauthorized",
    404: "Not Found", 413: "Content Too Large", 417: "Expectation Failed", 429: "Too Many Requests",
    500: "Internal Server Error", 529: "Overloaded",
}  # fmt: skip


# --- the API --------------------------------------------------------------------------------------


class Mock:
    """The server; `answer` is what tests override to add more."""

    def __init__(self, key, context, log_fd=-1, answer_text=None, pace=0.06):
        self.real_key = key
        self.context = context
        self.log_fd = log_fd
        self.answer_text = answer_text
        self.pace = pace
        self.lock = threading.Lock()
        self.connections = set()
        self.epoch = 0
        self.numbers = 0
        if context:
            context.sni_callback = self.note_sni

    @staticmethod
    def note_sni(sock, name, _context):
        sock.owner.sni = name

    def log(self, **what):
        if self.log_fd >= 0:
            what = {"event": what.pop("event"), "t": time.monotonic(), **what}
            os.write(self.log_fd, json.dumps(what).encode() + b"\n")

    def log_request(self, connection, request):
        key = request.key()
        self.log(
            event="request",
            conn=connection.number,
            nth=connection.count,
            sni=connection.sni,
            method=request.method,
            target=request.target,
            version=request.version,
            host=request.get("host"),
            fields=[n.lower() for n, _ in request.fields],
            key=None if key is None else fingerprint(key),
            test_id=request.get("x-test-id"),
        )

    def serve(self, listener):
        """Accepts for ever, a thread a connection."""
        while True:
            try:
                sock, _ = listener.accept()
            except ConnectionError:
                continue
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.numbers += 1
                connection = Connection(self, sock, self.numbers)
                self.connections.add(connection)
            self.log(event="accept", conn=connection.number)
            threading.Thread(target=connection.run, daemon=True).start()

    def heed_signals(self):
        """SIGUSR1 is taken by a thread that waits for it: a handler would run only when the thread that accepts
        leaves its system call, and a signal right before that call would not make it leave."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

        def wait():
            while True:
                signal.sigwait({signal.SIGUSR1})
                self.close_idle()

        threading.Thread(target=wait, daemon=True).start()

    def converse(self, connection):
        """What a connection is for; tests override it where another protocol was chosen."""
        connection.serve()

    def close_idle(self):
        """Ends the connections that are idle now, and the others when they become idle."""
        with self.lock:
            self.epoch += 1
            for connection in self.connections:
                if connection.idle:
                    try:
                        socket.socket.shutdown(connection.raw, socket.SHUT_RDWR)
                    except OSError:
                        pass
        self.log(event="idle closed")

    def common_fields(self, request):
        key = request.key()
        fields = [("request-id", "req_" + secrets.token_hex(12))]
        if key is not None:
            fields.append(("x-mock-key", fingerprint(key)))
        return fields

    def is_real(self, request):
        key = request.key()
        return key is not None and secrets.compare_digest(key, self.real_key)

    def answer(self, connection, request):
        if (request.get("expect") or "").lower() == "100-continue":
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.read_body(request)
        self.api(connection, request)

    def api(self, connection, request):
        needs_key = request.path.startswith("/v1/") or request.key() is not None
        if needs_key and not self.is_real(request):
            self.error(connection, request, 401, "authentication_error", "invalid x-api-key")
            return
        method = "GET" if request.method == "HEAD" else request.method
        handler = ROUTES.get((method, request.path))
        if handler is None:
            self.error(connection, request, 404, "not_found_error", "there is nothing at this path")
            return
        handler(self, connection, request)

    def error(self, connection, request, status, kind, message):
        error = {"type": "error", "error": {"type": kind, "message": message}}
        connection.reply(request, status, error)

    def read_json(self, connection, request):
        try:
            what = json.loads(request.body or b"{}")
        except ValueError:
            what = None
        if not isinstance(what, dict):
            self.error(connection, request, 400, "invalid_request_error", "the body is not JSON")
            return None
        return what

    def text_for(self, request):
        return self.answer_text or (
            "Hello! This answer was made by a mock of the API, not by a model. "
            f"The key that came with your question has the fingerprint {fingerprint(request.key())}, "
            "and it is the real one."
        )

    def count_tokens(self, connection, request):
        if self.read_json(connection, request) is not None:
            connection.reply(request, 200, {"input_tokens": 1 + len(request.body) // 4})

    def models(self, connection, request):
        def model(name):
            return {"type": "model", "id": name, "display_name": name,
                    "created_at": "2026-01-01T00:00:00Z"}  # fmt: skip

        names = ["claude-opus-mock", "claude-haiku-mock"]
        connection.reply(
            request,
            200,
            {"data": [model(n) for n in names], "has_more": False,
             "first_id": names[0], "last_id": names[-1]},
        )  # fmt: skip

    def empty(self, connection, request):
        connection.reply(request, 200, {})

    def messages(self, connection, request):
        what = self.read_json(connection, request)
        if what is None:
            return
        if not isinstance(what.get("messages"), list) or not what["messages"]:
            self.error(connection, request, 400, "invalid_request_error",
                       "messages: Field required")  # fmt: skip
            return
        text = self.text_for(request)
        message = {
            "id": "msg_" + secrets.token_hex(12),
            "type": "message",
            "role": "assistant",
            "model": what.get("model", "claude-mock"),
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 1 + len(request.body) // 4,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": len(text.split()),
            },
        }
        if what.get("stream"):
            self.stream(connection, request, message)
        else:
            connection.reply(request, 200, message)

    def stream(self, connection, request, message):
        """The events of one streamed message, paced, so that one can see that it is a stream."""
        text = message["content"][0]["text"]
        fields = [("content-type", "text/event-stream; charset=utf-8"),
                  ("cache-control", "no-cache"), ("transfer-encoding", "chunked")]  # fmt: skip
        connection.head(200, fields + self.common_fields(request))

        def event(kind, **rest):
            data = json.dumps({"type": kind, **rest})
            connection.chunk(f"event: {kind}\ndata: {data}\n\n".encode())

        begin = dict(message, content=[], stop_reason=None)
        begin["usage"] = dict(message["usage"], output_tokens=1)
        event("message_start", message=begin)
        event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        event("ping")
        words = text.split(" ")
        for at in range(0, len(words), 3):
            piece = " ".join(words[at : at + 3]) + (" " if at + 3 < len(words) else "")
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
            time.sleep(self.pace)
        event("content_block_stop", index=0)
        event(
            "message_delta",
            delta={"stop_reason": "end_turn", "stop_sequence": None},
            usage={"output_tokens": message["usage"]["output_tokens"]},
        )
        event("message_stop")
        connection.last_chunk()


ROUTES = {
    ("POST", "/v1/messages"): Mock.messages,
    ("POST", "/v1/messages/count_tokens"): Mock.count_tokens,
    ("GET", "/v1/models"): Mock.models,
    ("GET", "/"): Mock.empty,
    ("GET", "/api/hello"): Mock.empty,
    ("GET", "/api/claude_code/settings"): Mock.empty,
    ("GET", "/api/claude_cli/bootstrap"): Mock.empty,
    ("POST", "/api/event_logging/batch"): Mock.empty,
    ("POST", "/api/event_logging/v2/batch"): Mock.empty,
}


# --- start ----------------------------------------------------------------------------------------


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--listen", default="127.0.0.1", help="address (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port (default: any that is free)")
    parser.add_argument("--dir", help="folder for CA and certificate (default: one that is removed)")
    parser.add_argument("--names", default="api.anthropic.com", help="names in the certificate")
    parser.add_argument("--key-file", help="file with the real key (default: $MOCK_KEY)")
    parser.add_argument("--cert", help="certificate (PEM), with --cert-key, instead of an own CA")
    parser.add_argument("--cert-key", help="its private key")
    parser.add_argument("--tls", help="one version of TLS: 1.0, 1.1, 1.2 or 1.3")
    parser.add_argument("--plain", action="store_true", help="without TLS")
    parser.add_argument("--log", help="file for the log")
    parser.add_argument("--answer", help="text of every answer")
    parser.add_argument("--pace", type=float, default=0.06, help="seconds between streamed pieces")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input ends")
    return parser


def real_key(args):
    if args.key_file:
        with open(args.key_file, "rb") as file:
            key = file.read().strip()
    else:
        key = os.environ.get("MOCK_KEY", "").encode()
    if not key:
        sys.exit("mock: no key: set MOCK_KEY or give --key-file")
    return key


def end_with_input(listener):
    try:
        while os.read(0, 4096):
            pass
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # a signal could come right before the call that it is to interrupt


def main(server_class=Mock):
    args = arguments(__doc__.splitlines()[0]).parse_args()
    key = real_key(args)
    folder = args.dir or tempfile.mkdtemp(prefix="mock.")
    context, ca = None, None
    # The end by a signal is an ordinary one, so that the folder is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    try:
        if args.cert:
            cert = (args.cert, args.cert_key)
        elif not args.plain:
            ca = make_ca(folder)
            cert = make_leaf(folder, ca, args.names.split(","))
        if not args.plain:
            versions = {"1.0": "TLSv1", "1.1": "TLSv1_1", "1.2": "TLSv1_2", "1.3": "TLSv1_3"}
            exact = ssl.TLSVersion[versions[args.tls]] if args.tls else None
            context = server_context(*cert, exact or ssl.TLSVersion.TLSv1_2, exact)
        log_fd = -1
        if args.log:
            log_fd = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        server = server_class(key, context, log_fd, args.answer, args.pace)
        server.heed_signals()
        listener = socket.create_server((args.listen, args.port), backlog=1024)
        ready = {"port": listener.getsockname()[1], "ca": ca and ca[0],
                 "fingerprint": fingerprint(key)}  # fmt: skip
        print(json.dumps(ready), flush=True)
        if args.until_eof:
            threading.Thread(target=end_with_input, args=(listener,), daemon=True).start()
        server.serve(listener)
    finally:
        if not args.dir:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
