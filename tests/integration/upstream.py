#!/usr/bin/python3
"""upstream.py - the mock with paths that a test asks for to see how a proxy takes them.

Beside the API of deploy/demo/mock_upstream.py, under /test/…, without a key:

  echo                    what came in, as JSON (the real key replaced by "sha256:<fingerprint>")
  bytes?n=&chunked=1      n bytes of a known pattern
  whole?n=                n bytes, written together with their head
  sse?n=&ms=              n events, `ms` apart, each with the clock at which it was sent
  cut?how=&chunked=1&ms=  half of an answer; `ms` later fin (TLS cut off), notify (a clean end) or rst
  malformed?kind=         an answer that is no HTTP, see MALFORMED
  interim?n=&status=      n interim answers before the final one
  status?code=            that status and nothing else
  redirect                308 to echo, with the query as it came
  login?how=              as a login's redirect: a field with the key of the query, in that spelling
  mirror                  the query in the reason phrase, its last value in a field's name
  trailers                a chunked answer with trailers
  trailed                 the same, with the request's line in one
  until-close             an answer that ends with the connection
  hold                    no answer at all; `end` in the log says when the client went
  deaf?ms=                nothing is read of the content, and nothing said
  early                   a final answer before the content has been read
  head?bytes=             an answer with a head of about that size
  dribble?ms=             an answer whose head and body come byte by byte
  refuse-expect           417 to an Expect, before the content

The path's `/test/` may also stand behind a prefix (/any/test/echo), so that rules can be tried.
"""

import hashlib
import json
import re
import os
import socket
import struct
import sys
import time
from urllib.parse import quote, quote_plus, unquote

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../deploy/demo"))
import mock_upstream as mock_module  # noqa: E402

# How a framework may write a value into an address within an address.
SPELLED = {
    "once": lambda key: quote(key, safe=""),
    "small": lambda key: re.sub("%..", lambda escape: escape[0].lower(), quote(key, safe="")),
    "slashes-left": lambda key: quote(key, safe="/"),
    "form": quote_plus,
    "all": lambda key: "".join(f"%{ord(c):02X}" for c in key),
    "twice": lambda key: quote(quote(key, safe=""), safe=""),
    "three-times": lambda key: quote(quote(quote(key, safe="/"), safe="/"), safe=""),
    "as-it-is": lambda key: key,
}

PATTERN = bytes(range(256)) * 256

OK = b"HTTP/1.1 200 OK\r\n"
MALFORMED = {
    "cl-te": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two-lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "length-list": OK + b"Content-Length: 5, 5\r\n\r\nhello",
    "length-plus": OK + b"Content-Length: +5\r\n\r\nhello",
    "length-hex": OK + b"Content-Length: 0x5\r\n\r\nhello",
    "length-huge": OK + b"Content-Length: 99999999999999999999\r\n\r\nhello",
    "te-gzip": OK + b"Transfer-Encoding: gzip\r\n\r\nhello",
    "te-twice": OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "te-http10": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "obs-fold": OK + b"X-A: one\r\n two\r\nContent-Length: 0\r\n\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "bare-cr": OK + b"X-A: one\rX-B: two\r\nContent-Length: 0\r\n\r\n",
    "nul": OK + b"X-A: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "blank-before-colon": OK + b"X-A : one\r\nContent-Length: 0\r\n\r\n",
    "no-colon": OK + b"Nonsense\r\nContent-Length: 0\r\n\r\n",
    "empty-name": OK + b": one\r\nContent-Length: 0\r\n\r\n",
    "status-text": b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
    "status-short": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "status-42": b"HTTP/1.1 042 OK\r\nContent-Length: 0\r\n\r\n",
    "status-999": b"HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n",
    "version-2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "http09": b"hello, this is no HTTP\r\n\r\n",
    "huge-head": OK + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(100)) + b"\r\n",
    "many-fields": OK + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + b"\r\n",
    "endless-line": OK + b"X-A: " + b"y" * 200000 + b"\r\n\r\n",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nbytes",
    "interim-for-ever": b"HTTP/1.1 102 Processing\r\n\r\n" * 64 + OK + b"Content-Length: 0\r\n\r\n",
}
# These begin well: the head goes through, the fault is in the content.
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
MALFORMED_BODY = {
    "chunk-size-text": CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "chunk-size-minus": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "chunk-size-0x": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "chunk-size-huge": CHUNKED + b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "chunk-no-crlf": CHUNKED + b"5\r\nhelloXX0\r\n\r\n",
    "chunk-bare-lf": CHUNKED + b"5\nhello\n0\n\n",
    "chunk-long-extension": CHUNKED + b"5;" + b"x" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
    "trailer-no-colon": CHUNKED + b"0\r\nNonsense\r\n\r\n",
}


class Upstream(mock_module.Mock):
    def answer(self, connection, request):
        _, mark, name = request.path.partition("/test/")
        mode = getattr(self, "test_" + name.split("/")[0].replace("-", "_"), None) if mark else None
        if mode is None:
            super().answer(connection, request)
        else:
            mode(connection, request)

    def take(self, connection, request):
        if (request.get("expect") or "").lower() == "100-continue":
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.read_body(request)

    def hide(self, text):
        real = self.real_key.decode()
        return text.replace(real, "sha256:" + mock_module.fingerprint(self.real_key))

    def test_echo(self, connection, request):
        self.take(connection, request)
        what = {
            "line": self.hide(request.line),
            "fields": [[n, self.hide(v)] for n, v in request.fields],
            "body_bytes": request.body_bytes,
            "body_sha256": request.body_digest.hexdigest(),
            "body": self.hide(request.body[:1000].decode("latin-1")),
            "trailers": request.trailers,
            "conn": connection.number,
            "nth": connection.count,
        }
        connection.reply(request, 200, what)

    def test_bytes(self, connection, request):
        self.take(connection, request)
        count = int(request.argument("n"))
        chunked = request.argument("chunked")
        framing = ("transfer-encoding", "chunked") if chunked else ("content-length", count)
        connection.head(200, [("content-type", "application/octet-stream"), framing])
        if request.method == "HEAD":
            return
        while count:
            piece = PATTERN[: min(count, len(PATTERN))]
            count -= len(piece)
            connection.chunk(piece) if chunked else connection.send(piece)
        if chunked:
            connection.last_chunk()

    def test_whole(self, connection, request):
        self.take(connection, request)
        content = PATTERN[: int(request.argument("n"))]
        connection.send(OK + b"Content-Length: %d\r\n\r\n" % len(content) + content)

    def test_sse(self, connection, request):
        self.take(connection, request)
        connection.head(200, [("content-type", "text/event-stream"),
                              ("transfer-encoding", "chunked")])  # fmt: skip
        for n in range(int(request.argument("n", "10"))):
            data = json.dumps({"n": n, "sent": time.monotonic()})
            connection.chunk(f"data: {data}\n\n".encode())
            time.sleep(int(request.argument("ms", "100")) / 1000)
        connection.last_chunk()

    def test_cut(self, connection, request):
        self.take(connection, request)
        if request.argument("chunked"):
            connection.head(200, [("transfer-encoding", "chunked")])
            if before := int(request.argument("before", "0")):
                connection.chunk(b"x" * before)
            connection.send(b"a\r\nhalf of")
        elif request.argument("close"):
            connection.head(200, [("connection", "close")])
            connection.send(b"half of")
        elif request.argument("head"):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")
        elif not request.argument("nothing"):
            connection.head(200, [("content-length", "1000")])
            connection.send(b"half of")
        time.sleep(int(request.argument("ms", "50")) / 1000)
        how = request.argument("how", "fin")
        if how == "rst":
            connection.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(connection.raw.detach())
            raise mock_module.Gone("reset, as asked")
        connection.close(notify=how == "notify")

    def test_malformed(self, connection, request):
        self.take(connection, request)
        kind = request.argument("kind")
        connection.send(MALFORMED.get(kind) or MALFORMED_BODY[kind])
        connection.close()

    def test_interim(self, connection, request):
        self.take(connection, request)
        for _ in range(int(request.argument("n", "1"))):
            connection.head(int(request.argument("status", "103")),
                            [("link", "</a.css>; rel=preload")], "Interim")  # fmt: skip
            time.sleep(0.05)
        connection.reply(request, 200, {"interim": "done"})

    def test_status(self, connection, request):
        self.take(connection, request)
        code = int(request.argument("code"))
        if code in (204, 304):
            connection.head(code, [("etag", '"e"')])
        else:
            connection.reply(request, code, {"status": code})

    def test_redirect(self, connection, request):
        self.take(connection, request)
        path, _, query = request.line.split(" ")[1].partition("?")
        where = f"https://api.test{path.replace('redirect', 'echo')}?{query}"
        connection.head(308, [("location", where), ("link", f"<{where}>; rel=x"), ("content-length", 0)])

    def test_login(self, connection, request):
        self.take(connection, request)
        key = unquote(request.line.split(" ")[1].rpartition("key=")[2])
        where = "/login?next=%2Fa%3Fkey%3D" + SPELLED[request.argument("how")](key) + "&b=1"
        connection.head(302, [("location", where), ("content-length", 0)])

    def test_mirror(self, connection, request):
        self.take(connection, request)
        query = request.line.split(" ")[1].partition("?")[2]
        key = query.rpartition("=")[2]
        lower = re.sub("%..", lambda escape: escape[0].lower(), key)
        fields = [("x-" + key, "1"), ("x-lower", lower), ("content-length", 0)]
        connection.head(200, fields, reason="for " + query)

    def test_trailers(self, connection, request):
        self.take(connection, request)
        connection.head(200, [("transfer-encoding", "chunked"), ("trailer", "x-sum")])
        connection.chunk(b"one ")
        connection.chunk(b"two")
        connection.last_chunk([(b"x-sum", b"7")])

    def test_trailed(self, connection, request):
        self.take(connection, request)
        connection.head(200, [("transfer-encoding", "chunked"), ("trailer", "x-line, x-sum")])
        connection.chunk(b"one")
        connection.last_chunk([(b"x-sum", b"7"), (b"x-line", request.line.encode()), (b"x-last", b"8")])

    def test_until_close(self, connection, request):
        self.take(connection, request)
        connection.head(200, [("content-type", "text/plain"), ("connection", "close")])
        connection.send(b"all that there is")
        connection.close(notify=request.argument("how") != "fin")

    def test_hold(self, connection, request):
        self.take(connection, request)
        while True:
            connection.fill()

    def test_deaf(self, connection, request):
        connection.keep = False
        time.sleep(int(request.argument("ms")) / 1000)

    def test_early(self, connection, request):
        connection.keep = False
        connection.reply(request, 413, {"early": True})
        # Reads what still comes for a moment, as servers do, so that no reset eats the answer.
        connection.sock.settimeout(1)
        try:
            for _ in range(64):
                connection.buffer = b""
                connection.fill()
        except mock_module.Gone:
            pass

    def test_head(self, connection, request):
        self.take(connection, request)
        size = int(request.argument("bytes"))
        fields = [(f"x-{i}", "y" * 990) for i in range(size // 1000)]
        connection.head(200, [("content-length", "2"), *fields])
        connection.send(b"ok")

    def test_dribble(self, connection, request):
        self.take(connection, request)
        pause = int(request.argument("ms", "2")) / 1000
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello":
            connection.send(bytes([byte]))
            time.sleep(pause)

    def test_refuse_expect(self, connection, request):
        if request.get("expect"):
            connection.keep = False
            connection.reply(request, 417, {"expect": "refused"})
        else:
            self.test_echo(connection, request)


def pattern_digest(count):
    """SHA-256 of what /test/bytes?n=count sends."""
    whole, rest = divmod(count, len(PATTERN))
    digest = hashlib.sha256()
    for _ in range(whole):
        digest.update(PATTERN)
    digest.update(PATTERN[:rest])
    return digest.hexdigest()


if __name__ == "__main__":
    mock_module.main(Upstream)
