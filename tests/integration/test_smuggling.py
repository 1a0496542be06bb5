"""A message that two parsers could read in two ways is refused, and the connection with it."""

import socket
import time

import pytest
from harness import Closed, Tunnel, Wire
from upstream import MALFORMED, MALFORMED_BODY

HOST = "Host: api.test\r\n"
SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"
POST = "POST /test/echo HTTP/1.1\r\n" + HOST
GET = "GET /test/echo HTTP/1.1\r\n" + HOST

REQUESTS = {
    # framing
    "cl-te": POST + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-cl": POST + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n" + SMUGGLED,
    "cl-cl": POST + f"Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n" + SMUGGLED,
    "cl-cl-equal": POST + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
    "cl-list": POST + "Content-Length: 2, 2\r\n\r\nhi",
    "cl-plus": POST + "Content-Length: +2\r\n\r\nhi",
    "cl-minus": POST + "Content-Length: -1\r\n\r\nhi",
    "cl-hex": POST + "Content-Length: 0x2\r\n\r\nhi",
    "cl-blank": POST + "Content-Length: 2 2\r\n\r\nhi",
    "cl-empty": POST + "Content-Length: \r\n\r\nhi",
    "cl-float": POST + "Content-Length: 2.0\r\n\r\nhi",
    "cl-huge": POST + "Content-Length: 18446744073709551618\r\n\r\nhi",
    "cl-2-63": POST + "Content-Length: 9223372036854775808\r\n\r\nhi",
    "te-identity": POST + "Transfer-Encoding: identity\r\n\r\n" + SMUGGLED,
    "te-gzip-chunked": POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "te-chunked-gzip": POST + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "te-twice": POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "te-xchunked": POST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "te-quoted": POST + 'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "te-empty": POST + "Transfer-Encoding:\r\n\r\n" + SMUGGLED,
    "te-vtab": POST + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "te-param": POST + "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
    "te-blank-before-colon": POST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-fold": POST + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "te-http10": "POST /test/echo HTTP/1.0\r\n" + HOST + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    # lines
    "bare-lf": "GET /test/echo HTTP/1.1\nHost: api.test\n\n",
    "bare-lf-in-fields": "GET /test/echo HTTP/1.1\r\n" + "Host: api.test\nX-A: b\r\n\r\n",
    "bare-cr": GET + "X-A: b\rX-B: c\r\n\r\n",
    "cr-cr-lf": GET + "X-A: b\r\r\n\r\n",
    "obs-fold": GET + "X-A: b\r\n c\r\n\r\n",
    "obs-fold-first": "GET /test/echo HTTP/1.1\r\n X-A: b\r\n" + HOST + "\r\n",
    "nul-in-value": GET + "X-A: b\x00c\r\n\r\n",
    "nul-in-name": GET + "X-\x00A: b\r\n\r\n",
    "control-in-value": GET + "X-A: b\x01\r\n\r\n",
    "del-in-value": GET + "X-A: b\x7f\r\n\r\n",
    "blank-before-colon": GET + "X-A : b\r\n\r\n",
    "tab-before-colon": GET + "X-A\t: b\r\n\r\n",
    "no-colon": GET + "X-A\r\n\r\n",
    "empty-name": GET + ": b\r\n\r\n",
    "name-with-brace": GET + "X{A}: b\r\n\r\n",
    "name-with-umlaut": GET + "X-\xe4: b\r\n\r\n",
    # the request line
    "two-blanks": "GET  /test/echo HTTP/1.1\r\n" + HOST + "\r\n",
    "tab": "GET\t/test/echo HTTP/1.1\r\n" + HOST + "\r\n",
    "trailing-blank": "GET /test/echo HTTP/1.1 \r\n" + HOST + "\r\n",
    "leading-blank": " GET /test/echo HTTP/1.1\r\n" + HOST + "\r\n",
    "blank-in-target": "GET /test/ echo HTTP/1.1\r\n" + HOST + "\r\n",
    "no-version": "GET /test/echo\r\n" + HOST + "\r\n",
    "http-0.9": "GET /test/echo\r\n\r\n",
    "version-1.2": "GET /test/echo HTTP/1.2\r\n" + HOST + "\r\n",
    "version-2.0": "GET /test/echo HTTP/2.0\r\n" + HOST + "\r\n",
    "version-small": "GET /test/echo http/1.1\r\n" + HOST + "\r\n",
    "version-long": "GET /test/echo HTTP/1.10\r\n" + HOST + "\r\n",
    "version-01": "GET /test/echo HTTP/01.1\r\n" + HOST + "\r\n",
    "h2-preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "method-bad": "G(T /test/echo HTTP/1.1\r\n" + HOST + "\r\n",
    "method-empty": " /test/echo HTTP/1.1\r\n" + HOST + "\r\n",
    "no-target": "GET HTTP/1.1\r\n" + HOST + "\r\n",
    "target-relative": "GET test/echo HTTP/1.1\r\n" + HOST + "\r\n",
    "target-star": "GET * HTTP/1.1\r\n" + HOST + "\r\n",
    "target-cr": "GET /test/echo\rX HTTP/1.1\r\n" + HOST + "\r\n",
    "target-nbsp": "GET /test/echo\xa0x HTTP/1.1\r\n" + HOST + "\r\n",
    "many-empty-lines": "\r\n" * 50 + GET + "\r\n",
    # Host
    "no-host": "GET /test/echo HTTP/1.1\r\n\r\n",
    "two-hosts": GET + HOST + "\r\n",
    "two-hosts-different": GET + "Host: open.test\r\n\r\n",
    "host-list": "GET /test/echo HTTP/1.1\r\nHost: api.test, api.test\r\n\r\n",
    "empty-host": "GET /test/echo HTTP/1.1\r\nHost:\r\n\r\n",
    # connection options that name what decisions rest on
    "connection-host": GET + "Connection: host\r\n\r\n",
    "connection-length": POST + "Content-Length: 2\r\nConnection: content-length\r\n\r\nhi",
    "connection-te": POST + "Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "connection-auth": GET + "Connection: authorization\r\nAuthorization: x\r\n\r\n",
    # Expect
    "expect-other": POST + "Expect: 200-ok\r\nContent-Length: 2\r\n\r\nhi",
}
# Here the head is well-formed and may have gone upstream; the content is not, and nothing of it that
# could be another request may.
CHUNKED = POST + "Transfer-Encoding: chunked\r\n\r\n"
BODIES = {
    "size-text": CHUNKED + "zz\r\nhi\r\n0\r\n\r\n",
    "size-plus": CHUNKED + "+2\r\nhi\r\n0\r\n\r\n",
    "size-minus": CHUNKED + "-2\r\nhi\r\n0\r\n\r\n",
    "size-0x": CHUNKED + "0x2\r\nhi\r\n0\r\n\r\n",
    "size-blank": CHUNKED + " 2\r\nhi\r\n0\r\n\r\n",
    "size-trailing-blank": CHUNKED + "2 \r\nhi\r\n0\r\n\r\n",
    "size-underscore": CHUNKED + "0_2\r\nhi\r\n0\r\n\r\n",
    "size-empty": CHUNKED + "\r\nhi\r\n0\r\n\r\n",
    "size-overflow": CHUNKED + "10000000000000002\r\nhi\r\n0\r\n\r\n",
    "size-wrap": CHUNKED + "ffffffffffffffff\r\nhi\r\n0\r\n\r\n",
    "size-leading-zeros": CHUNKED + "0" * 40 + "2\r\nhi\r\n0\r\n\r\n",
    "data-too-long": CHUNKED + "2\r\nhiX\r\n0\r\n\r\n",
    "data-no-crlf": CHUNKED + "2\r\nhi0\r\n\r\n",
    "bare-lf": CHUNKED + "2\nhi\n0\n\n",
    "bare-lf-extension": CHUNKED + "2;\nxx\r\nhi\r\n0\r\n\r\n" + SMUGGLED,
    "bare-cr": CHUNKED + "2\rhi\r0\r\r",
    "extension-control": CHUNKED + "2;a=\x00\r\nhi\r\n0\r\n\r\n",
    "extension-long": CHUNKED + "2;" + "a" * 10000 + "\r\nhi\r\n0\r\n\r\n",
    "extensions-many": CHUNKED + "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n" * 1000 + "0\r\n\r\n",
    "trailer-no-colon": CHUNKED + "0\r\nnonsense\r\n\r\n",
    "trailer-fold": CHUNKED + "0\r\nX-A: b\r\n c\r\n\r\n",
    "trailer-huge": CHUNKED + "0\r\n" + "X-A: b\r\n" * 20000 + "\r\n",
}
TOO_LARGE = {
    "target": ("GET /test/echo/" + "a" * 20000 + " HTTP/1.1\r\n" + HOST + "\r\n", {414}),
    "field": (GET + "X-A: " + "b" * 40000 + "\r\n\r\n", {431}),
    "head": (GET + "".join(f"X-{n}: {'b' * 1000}\r\n" for n in range(70)) + "\r\n", {431}),
    "fields": (GET + "".join(f"X-{n}: b\r\n" for n in range(200)) + "\r\n", {431}),
    "name": (GET + "X" * 40000 + ": b\r\n\r\n", {431}),
    "method": ("G" * 20000 + " / HTTP/1.1\r\n" + HOST + "\r\n", {400, 414, 431, 501}),
}


def push(wire, data):
    """Sends what the other side will take: it may have heard enough."""
    try:
        wire.send(data)
    except OSError:
        pass


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_malformed_request_is_400_and_ends_the_connection(shared, mock, kind):
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        push(tunnel, REQUESTS[kind])
        push(tunnel, SMUGGLED)
        answer = tunnel.response()
        expected = {"expect-other": {417}, "h2-preface": {400, 505}}.get(kind, {400})
        if kind.startswith("version"):
            expected = {400, 505}
        assert answer.status in expected, answer
        assert "http_request_error" in answer.get("proxy-status")
        assert tunnel.is_closed(), "nothing behind it is read any more"
    assert mock.requests(since=mark) == []


@pytest.mark.parametrize("kind", BODIES)
def test_a_malformed_body_ends_the_exchange_and_smuggles_nothing(shared, mock, kind):
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        push(tunnel, BODIES[kind])
        push(tunnel, SMUGGLED)
        answer = tunnel.response()
        assert answer.status == (431 if kind == "trailer-huge" else 400), answer
        assert tunnel.is_closed()
    assert [e["target"] for e in mock.requests(since=mark)] in ([], ["/test/echo"])
    assert not mock.events("done", mark, target="/test/echo"), "it was never a whole request"


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_what_is_too_large_is_refused_by_its_own_status(shared, mock, kind):
    data, expected = TOO_LARGE[kind]
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        push(tunnel, data)
        assert tunnel.response().status in expected
        assert tunnel.is_closed()
    assert mock.requests(since=mark) == []


@pytest.mark.parametrize(
    "kind", ["bare-lf", "two-hosts", "version-2.0", "obs-fold", "cl-te", "blank-before-colon"]
)
def test_the_plain_side_is_as_strict(shared, mock, kind):
    mark = mock.mark()
    with Wire(shared.socket_path) as wire:
        push(wire, REQUESTS[kind].replace("/test/echo", "http://api.test/test/echo"))
        assert wire.response().status in (400, 505)
        assert wire.is_closed()
    assert mock.requests(since=mark) == []


@pytest.mark.parametrize(
    "connect",
    [
        "CONNECT api.test:443 HTTP/1.1\nHost: api.test:443\n\n",
        "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nContent-Length: 5\r\n\r\nhello",
        "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nTransfer-Encoding: chunked\r\n\r\n",
        "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nHost: api.test:443\r\n\r\n",
        "CONNECT  api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n",
        "CONNECT api.test:443 HTTP/1.1\r\n\r\n",
        "connect api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n",
    ],
)
def test_a_malformed_connect_opens_no_tunnel(shared, connect):
    with Wire(shared.socket_path) as wire:
        push(wire, connect)
        assert wire.response().status >= 400


def test_a_body_of_a_refused_request_is_not_read_as_a_request(shared, mock):
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        push(tunnel, f"POST /test/echo HTTP/1.1\r\nHost: open.test\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n")
        push(tunnel, SMUGGLED)
        assert tunnel.response().status == 421
        # Whether the connection goes on or not: what comes next is the next request or the end.
        push(tunnel, "GET /test/echo/next HTTP/1.1\r\nHost: api.test\r\n\r\n")
        try:
            assert tunnel.response().json()["line"].startswith("GET /test/echo/next")
        except Closed:
            pass
    assert "/smuggled" not in [e["target"] for e in mock.requests(since=mark)]


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_answer_is_502(shared, kind):
    with Tunnel(shared, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/malformed?kind=" + kind)
        assert answer.status == 502, answer
        assert "error=http_" in answer.get("proxy-status").replace(" ", "")
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").json()["nth"] >= 1


@pytest.mark.parametrize("kind", MALFORMED_BODY)
def test_a_malformed_answers_content_is_never_made_to_look_whole(shared, kind):
    """The head has gone through; what follows is cut off so that the client can tell."""
    with Tunnel(shared, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/malformed?kind=" + kind, partial=True)
        assert answer.status == 502 or (answer.status == 200 and not answer.complete)
        if answer.status == 200:
            assert tunnel.is_closed()


@pytest.mark.parametrize("how", ["fin", "notify", "rst"])
@pytest.mark.parametrize("what", ["length", "chunked", "head", "nothing"])
def test_an_answer_that_is_cut_off_does_not_look_whole(shared, how, what):
    with Tunnel(shared, "api.test") as tunnel:
        target = f"/test/cut?how={how}" + ("" if what == "length" else f"&{what}=1")
        answer = tunnel.ask("POST", target, partial=True)
        if what in ("head", "nothing"):
            assert answer.status == 502
        else:
            assert answer.status == 200 and not answer.complete
            assert tunnel.is_closed()


def test_what_had_come_of_a_cut_off_answer_is_passed_on(shared):
    """The last events of a model that breaks down are worth having, also behind a slow reader."""
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        tunnel.start("GET", "/test/cut?how=notify&chunked=1&before=300000")
        answer = tunnel.read_head()
        time.sleep(0.3)
        got = []
        with pytest.raises(Closed):
            got.extend(tunnel.pieces(answer))
        assert len(b"".join(got)) == 300_007


def test_a_close_delimited_answer_without_tls_end_does_not_look_whole(shared):
    """Cut off by anybody on the way, RFC 9112 §9.8: close_notify tells an end from an attack."""
    with Tunnel(shared, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/until-close?how=fin", partial=True)
        assert answer.status == 200 and not answer.complete


def test_a_connection_with_a_bad_answer_is_not_used_again(daemon):
    one = daemon({"worker": {"threads": 1}})
    with Tunnel(one, "api.test") as tunnel:
        first = tunnel.ask("GET", "/test/echo").json()["conn"]
        assert tunnel.ask("GET", "/test/malformed?kind=te-twice").status == 502
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").json()["conn"] != first
