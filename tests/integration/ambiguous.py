"""ambiguous.py - requests on which two parsers may differ, in systematic families

A case is the bytes of one request, with places to fill in:

    @HOST@   the authority that the request is for
    @URL@    nothing in origin-form, "http://" and the authority in absolute-form
    @CASE@   the case's own number, in a field of its own

What a proxy makes of it is the test's affair: cases here are in doubt by intent, some are well-formed.
Whoever sends one puts a plain request behind it (`last`), which no reading may lose or invent.
"""

import itertools

HELLO = b"hello"
CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"
HIDDEN = b"GET @URL@/hidden HTTP/1.1\r\nX-Case: @CASE@\r\nHost: @HOST@\r\n\r\n"
CONTROLS = [*range(0x20), 0x7F]
PUNCTUATION = [c for c in range(0x21, 0x7F) if not chr(c).isalnum()]


def head(line=b"GET @URL@/a HTTP/1.1", fields=(), host=b"Host: @HOST@"):
    """A head that ends in an empty line; `fields` are whole lines."""
    lines = [line, b"X-Case: @CASE@", *([host] if host is not None else []), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def post(*fields, body=HELLO):
    return head(b"POST @URL@/a HTTP/1.1", fields) + body


def lengths():
    values = [
        b"5", b"05", b"00000000000000005", b"0000000000000000000000000005", b"+5", b"-5", b"5,5",
        b"5, 5", b"5,6", b"5;5", b"5 5", b"5.0", b"5e0", b"0x5", b"5h", b"5_", b"0_5", b"'5'",
        b'"5"', b"(5)", b"", b" ", b"\t5", b"5\t", b"5 ", b"\x0b5", b"5\x0b", b"5\x0c", b"5\x00",
        b"\x005", b"5\r", b"5\xa0", b"\xef\xbc\x95", b"\xc2\xb2", b"4294967301", b"18446744073709551621",
        b"9223372036854775808", b"9223372036854775807", b"-18446744073709551611", b"5\r\n 5",
        b"5\r\n\t", b"\r\n 5", b"five", b"NaN", b"5%", b"%35",
    ]  # fmt: skip
    for value in values:
        yield "length " + repr(value), post(b"Content-Length: " + value)
    for name in (b"content-length", b"CONTENT-LENGTH", b"Content-Length ", b"Content-Length\t",
                 b" Content-Length", b"Content_Length", b"Content-Length\x00", b"Content-Length\x0b",
                 b"Content\xadLength", b"Content Length", b"ContentLength", b"X-Content-Length",
                 b"Content-Length\r\n ", b'"Content-Length"', b"Content-Lengt\xe8"):  # fmt: skip
        yield "length named " + repr(name), post(name + b": 5")
    for pair in itertools.permutations((b"5", b"0", b"05"), 2):
        yield f"lengths {pair}", post(*(b"Content-Length: " + v for v in pair))
    yield "length twice", post(b"Content-Length: 5", b"Content-Length: 5")
    yield "length in two cases", post(b"Content-Length: 5", b"content-length: 5")


def codings():
    values = [
        b"chunked", b"Chunked", b"CHUNKED", b"chunked ", b"\tchunked", b"chunked\t", b",chunked",
        b"chunked,", b"chunked, chunked", b"chunked,chunked", b"identity", b"identity, chunked",
        b"chunked, identity", b"gzip, chunked", b"chunked, gzip", b"gzip", b"deflate", b"xchunked",
        b"chunkedx", b"chunked;q=1", b"chunked;", b"chunked; a=b", b'"chunked"', b"'chunked'",
        b"chunked\x0b", b"\x0bchunked", b"chunked\x00", b"\x00chunked", b"chun ked", b"", b" ",
        b"chunked\x85", b"\xa0chunked", b"chun\xe2\x84\xaaed", b"trailers", b"chunked\r\n ",
        b"\r\n chunked", b"\r\n\tchunked", b"x\r\n chunked", b"chunked\r", b"\x0cchunked", b"c",
        b"chunked, , chunked", b"chunked chunked", b"cHuNkEd", b"*", b"null",
    ]  # fmt: skip
    for value in values:
        yield "coding " + repr(value), post(b"Transfer-Encoding: " + value, body=CHUNKS)
    for pair in itertools.product((b"chunked", b"identity", b"gzip", b""), repeat=2):
        both = (b"Transfer-Encoding: " + v for v in pair)
        yield f"codings {pair}", post(*both, body=CHUNKS)


def both():
    """Length and coding together, the coding under names that only some readers know."""
    names = [
        b"Transfer-Encoding", b"transfer-encoding", b"Transfer_Encoding", b"Transfer-Encoding ",
        b"Transfer-Encoding\t", b" Transfer-Encoding", b"\tTransfer-Encoding", b"TransferEncoding",
        b"Transfer\x00-Encoding", b"Transfer-Encoding\x0b", b"Transfer-Encoding\x00", b"TE",
        b"Transfer-Encoding\xa0", b"Transfer Encoding", b"\x0bTransfer-Encoding",
        b"X: y\rTransfer-Encoding", b"X: y\nTransfer-Encoding", b"X:\nTransfer-Encoding",
        b"Transfer-Encoding\r\n ", b"\nTransfer-Encoding", b"\rTransfer-Encoding", b"Foo\r\n\nTransfer-Encoding",
        b"X-Transfer-Encoding", b"Content-Transfer-Encoding", b"Transfer-Encoding:", b"transfer-encodinG",
    ]  # fmt: skip
    body = b"0\r\n\r\n" + HIDDEN
    for name in names:
        length = b"Content-Length: @LEN@"
        coding = name + b": chunked"
        yield f"length then {name}", fill_length(post(length, coding, body=body), body)
        yield f"{name} then length", fill_length(post(coding, length, body=body), body)
        yield f"{name} alone", post(coding, body=CHUNKS)


def fill_length(data, body):
    """The length in the place that is kept for it, for bodies with places to fill in themselves."""
    return data, body


def ends():
    marks = [b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n\n", b"\r\n\r", b"\n\n", b"\x0b", b"\xe2\x80\xa8", b"\x85"]
    good = [b"GET @URL@/a HTTP/1.1", b"X-Case: @CASE@", b"Host: @HOST@", b"X-A: b", b""]
    for place, mark in itertools.product(range(len(good)), marks):
        parts = [line + (mark if i == place else b"\r\n") for i, line in enumerate(good)]
        yield f"line {place} ends {mark}", b"".join(parts)
    for mark in (b"\n", b"\r"):
        yield f"all lines end {mark}", mark.join(good) + mark
    for blank in (b"\r\n", b"\n", b"\r\n\r\n", b"\r", b" \r\n", b"\x00", b"\r\n \r\n", b"\xef\xbb\xbf"):
        yield f"begins with {blank}", blank + head()


def fields():
    for byte in CONTROLS:
        yield f"byte {byte:02x} in a value", head(fields=[b"X-A: b%cc" % byte])
        yield f"byte {byte:02x} in a name", head(fields=[b"X-A%cB: c" % byte])
    for byte in (0x09, 0x0B, 0x0C, 0x80, 0x85, 0xA0, 0xAD, 0xFF):
        yield f"byte {byte:02x} before a value", head(fields=[b"X-A:%cb" % byte])
        yield f"byte {byte:02x} behind a value", head(fields=[b"X-A: b%c" % byte])
        yield f"byte {byte:02x} before a name", head(fields=[b"%cX-A: b" % byte])
        yield f"byte {byte:02x} behind a name", head(fields=[b"X-A%c: b" % byte])
    for byte in PUNCTUATION:
        yield f"{byte:c} in a name", head(fields=[b"X-A%cB: c" % byte])
    lines = [b"X-A", b":", b": b", b"X-A:", b"X-A:b", b"X-A : b", b"X A: b", b" X-A: b", b"X-A: b\r\n c",
             b"X-A: b\r\n\tc", b"X-A:\r\n c", b"X-A: b\r\n ", b"X-A: b: c", b"::b", b"GET / HTTP/1.1",
             b"X-A: =?utf-8?q?b?=", b"X-A: b\xc3\xa9", b"\xc3\xa9: b", b"From nobody", b"--x"]  # fmt: skip
    for line in lines:
        yield f"field {line}", head(fields=[line])
        yield f"first field {line}", head(b"GET @URL@/a HTTP/1.1\r\n" + line)


def request_lines():
    methods = [b"get", b"Get", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"PUT", b"TRACE", b"trace",
               b"PROPFIND", b"M-SEARCH", b"X_Y", b"G\x00ET", b"G ET", b"GET,", b"GET;", b"G\tET", b"\xc7ET",
               b"CONNECT", b"PRI", b"A" * 24, b"GET\r\nX: y\r\nGET", b"!#$%&'*+-.^_`|~", b"",
               b"connect", b"QUERY", b"PURGE", b"(GET)", b"{GET}", b"POST/"]  # fmt: skip
    for method in methods:
        yield "method " + repr(method), head(method + b" @URL@/a HTTP/1.1")
    for gap in (b"\t", b"  ", b"\x0b", b"\x0c", b"\xa0", b"\x00", b"\r", b"\n", b" \t", b""):
        yield f"{gap} behind the method", head(b"GET" + gap + b"@URL@/a HTTP/1.1")
        yield f"{gap} behind the target", head(b"GET @URL@/a" + gap + b"HTTP/1.1")
    versions = [b"HTTP/1.1 ", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/1.9", b"HTTP/2.0", b"HTTP/2", b"HTTP/3.0",
                b"HTTP/0.9", b"HTTP/1.01", b"HTTP/01.1", b"HTTP/11", b"http/1.1", b"Http/1.1", b"HTTP/1,1",
                b"HTTP /1.1", b"HTTP/ 1.1", b"HTTP/1. 1", b"HTTP/1.", b"HTTP/.1", b"HTTP/1.1x", b"HTTP/1.1\x00",
                b"", b"HTTP/-1.1", b"HTTP/+1.1", b"HTTP/1.10", b"HTTPS/1.1", b"ICY/1.1", b"RTSP/1.0",
                b"HTTP/1.1 HTTP/1.1", b"HTTP/1.1\t", b"XHTTP/1.1", b"HTTP/\xef\xbc\x91.1", b"HTTP/1.1;a"]  # fmt: skip
    for version in versions:
        yield f"version {version}", head(b"GET @URL@/a " + version)
    for more in (b"Connection: keep-alive", b"Connection: close", b"Content-Length: 5",
                 b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"X-A: b"):  # fmt: skip
        body = CHUNKS if b"chunked" in more else HELLO if b"Length" in more else b""
        yield f"1.0 with {more}", head(b"POST @URL@/a HTTP/1.0", [more]) + body
        yield f"1.0 without Host, {more}", head(b"POST @URL@/a HTTP/1.0", [more], None) + body


def targets():
    for byte in PUNCTUATION:
        yield f"{byte:c} in the path", head(b"GET @URL@/a%cb HTTP/1.1" % byte)
        yield f"{byte:c} in the query", head(b"GET @URL@/a?b=%cc&d HTTP/1.1" % byte)
    for byte in (0x00, 0x01, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1F, 0x7F, 0x80, 0xA0, 0xC3, 0xFF):
        yield f"byte {byte:02x} in the path", head(b"GET @URL@/a%cb HTTP/1.1" % byte)
        yield f"byte {byte:02x} in the query", head(b"GET @URL@/a?b=%cc HTTP/1.1" % byte)
    for escape in (b"00", b"01", b"09", b"0a", b"0d", b"1f", b"20", b"22", b"23", b"25", b"26", b"2B", b"2e",
                   b"2E", b"2f", b"2F", b"3a", b"3b", b"3d", b"3f", b"40", b"41", b"5c", b"5C", b"7e", b"7f",
                   b"80", b"c0%af", b"c3%a9", b"ff", b"zz", b"2", b"", b"252e", b"25%32%65", b"u002e", b"%41"):  # fmt: skip
        yield f"%{escape.decode()} in the path", head(b"GET @URL@/a%%%sb HTTP/1.1" % escape)
        yield f"%{escape.decode()} in the query", head(b"GET @URL@/a?b%%%sc=d HTTP/1.1" % escape)
    paths = [b"/./a", b"/../a", b"/a/..", b"/a/../b", b"/a/./b", b"/a/.", b"/a/%2e%2e/b", b"/a/%2e/b",
             b"/a/.%2e/b", b"/a/..;/b", b"/a/..;x=y/b", b"/a/.;/b", b"/a/...", b"/a/.../b", b"/..%2fb",
             b"/a/..%2f..%2fb", b"/..%5cb", b"/a\\..\\b", b"//", b"//a", b"///a", b"/a//b", b"/a//../b",
             b"/a;b", b"/a;b=c/d", b"/a;/../b", b"/;/a", b"/a.", b"/a%20", b"/%61", b"/%41", b"/A", b"/a/",
             b"/~a", b"/%7Ea", b"/a/%252e%252e/b", b"/%c0%ae%c0%ae/b", b"/a?b?c", b"/a?b#c", b"/a#b", b"/#",
             b"/?", b"/a?", b"/a?&", b"/a?b&b&b=c", b"/a?b;c", b"/a?b=c;d=e&f", b"/a?=b", b"/a?b==c",
             b"/a?b%26c=d", b"/a?b%3dc=d", b"/a?%62=c", b"/a?+b=c", b"/a?b[]=c", b"/a?b[c]=d", b"/a?../x",
             b"/a?/../x", b"/@x", b"/a@b:c", b"/a:80", b"/:80", b"/http://other/", b"//other/", b"/%2f%2fother/",
             b"/a b", b"/a HTTP/1.1 x", b"/a\tb", b"/" + b"a" * 900, b"/a?" + b"b=c&" * 40]  # fmt: skip
    for path in paths:
        yield "path " + repr(path[:40]), head(b"GET @URL@" + path + b" HTTP/1.1")
    whole = [b"http://@HOST@/a", b"HTTP://@HOST@/a", b"https://@HOST@/a", b"http://@HOST@", b"http://@HOST@?b",
             b"http://@HOST@#b", b"http://@HOST@:80/a", b"https://@HOST@:443/a", b"http://@HOST@:/a",
             b"http://@HOST@:080/a", b"http://@HOST@:65536/a", b"http://@HOST@:0/a", b"http://@HOST@./a",
             b"http://x@@HOST@/a", b"http://x:y@@HOST@/a", b"http://@HOST@@other/a", b"http://@HOST@\\@other/a",
             b"http://@HOST@%00/a", b"http://@HOST@%2fa", b"http://@HOST@,other/a", b"http://other/a",
             b"http:///a", b"http:/a", b"http:a", b"http//@HOST@/a", b"//@HOST@/a", b"ftp://@HOST@/a", b"a", b"*",
             b"", b"?a", b"#a", b"@HOST@", b"@HOST@:80", b"@HOST@/a", b"../a", b"./a", b"\\a", b";a", b"%2fa",
             b"HtTp://@HOST@/a", b"http://[::1]/a", b"http://127.1/a", b"http://@HOST@/a http://other/b",
             b"file:///a", b"http://@HOST@//other/a", b"http://@HOST@;x/a", b"javascript:a"]  # fmt: skip
    for target in whole:
        yield f"target {target}", head(b"GET " + target + b" HTTP/1.1")
        if target in (b"*", b"@HOST@:80", b"http://@HOST@"):
            yield f"OPTIONS {target}", head(b"OPTIONS " + target + b" HTTP/1.1")


def hosts():
    values = [b"@HOST@:80", b"@HOST@:443", b"@HOST@:", b"@HOST@:0", b"@HOST@:080", b"@HOST@:+80", b"@HOST@:-1",
              b"@HOST@:65536", b"@HOST@:80:80", b"@HOST@.", b"@HOST@..", b".@HOST@", b"x@@HOST@", b"@HOST@@x",
              b"@HOST@/a", b"@HOST@?a", b"@HOST@#a", b"http://@HOST@", b"@HOST@,other", b"@HOST@, @HOST@",
              b"@HOST@ other", b"other @HOST@", b"@HOST@\tother", b"@HOST@\x00", b"@HOST@\x0b", b"@HOST@%00",
              b"@HOST@\xa0", b"@HOST@\x85", b"other", b"", b" ", b"[::1]", b"[@HOST@]", b"127.0.0.1", b"localhost",
              b"@HOST@\r\n ", b"\r\n @HOST@", b"\t@HOST@\t", b"@HOST@;x", b"@HOST@\\x", b'"@HOST@"', b"@HOST@:80a",
              b"@HOST@:8 0", b"%40", b"other\r\n @HOST@", b"@HOST@:\xef\xbc\x98\xef\xbc\x90"]  # fmt: skip
    for value in values:
        yield f"Host {value}", head(host=b"Host: " + value)
    lines = [None, b"host: @HOST@", b"HOST: @HOST@", b"Host:@HOST@", b"Host : @HOST@", b" Host: @HOST@",
             b"Host\t: @HOST@", b"Host: @HOST@\r\nHost: @HOST@", b"Host: @HOST@\r\nHost: other",
             b"Host: other\r\nHost: @HOST@", b"Host: @HOST@\r\nhost : other", b"Host: @HOST@\r\n Host: other",
             b"Host: @HOST@\r\nHost\x00: other", b"Host: @HOST@\r\nX-Forwarded-Host: other",
             b"Host: @HOST@\r\nX-Host: other", b"Host: @HOST@\r\nForwarded: host=other", b"Hos\xf4: @HOST@",
             b"Host: @HOST@\nHost: other", b"Host: @HOST@\rHost: other", b"Host\r\n: @HOST@",
             b"Host: @HOST@\r\nX-Original-URL: /other", b"Host: @HOST@\r\nX-HTTP-Method-Override: DELETE",
             b"Host: @HOST@\r\n:authority: other", b"Host: @HOST@\r\n:path: /other"]  # fmt: skip
    for line in lines:
        yield f"Host line {line}", head(host=line)


def chunks():
    sizes = [b"5", b"05", b"0000000005", b"0" * 20 + b"5", b"5 ", b" 5", b"5\t", b"\t5", b"+5", b"-5", b"0x5",
             b"0X5", b"5h", b"5.", b"5,", b"5_", b"5;", b"5;x", b"5;x=y", b'5;x="y"', b'5;x="y\\"z"', b"5;x=",
             b"5;=y", b"5 ;x", b"5; x", b"5;x =y", b"5;x;y", b'5;x="y', b'5;x="\n"', b"5;x\n", b"5;x\ry", b"5;\x00",
             b"5;\x0bx", b"5;\xff", b"5;x=y z", b"5\n", b"5\r", b"5\r\r", b"5\x00", b"5\x0b", b"", b"\r\n5", b"five",
             b"10000000000000005", b"100000005", b"ffffffffffffffff", b"8000000000000005", b"-0", b"\xef\xbc\x95",
             b"5;" + b"x" * 300, b"5 5", b"'5'", b"5\r\n ", b"#5", b"5#"]  # fmt: skip
    for size in sizes:
        body = size + b"\r\nhello\r\n0\r\n\r\n"
        yield f"chunk size {size[:40]}", post(b"Transfer-Encoding: chunked", body=body)
    bodies = [b"0\r\n\r\n", b"00\r\n\r\n", b"000000\r\n\r\n", b"0;x\r\n\r\n", b"0 \r\n\r\n", b"-0\r\n\r\n",
              b"+0\r\n\r\n", b"0x0\r\n\r\n", b"0\n\r\n", b"0\r\n\n", b"0\n\n", b"0\r\r\n\r\n", b"\r\n\r\n", b"0\r\n\r\r\n",
              b"5\r\nhello0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello\r0\r\n\r\n", b"5\r\nhello!\r\n0\r\n\r\n",
              b"4\r\nhello\r\n0\r\n\r\n", b"5\r\nhell\r\n0\r\n\r\n", b"5\nhello\n0\n\n", b"5\r\nhello\r\n\r\n0\r\n\r\n",
              b"A\r\n0123456789\r\n0\r\n\r\n", b"a\r\n0123456789\r\n0\r\n\r\n", b"1\r\nh\r\n4\r\nello\r\n0\r\n\r\n",
              b"5\r\nhello\r\n0\r\nX-A: b\r\n\r\n", b"5\r\nhello\r\n0\r\nX-A : b\r\n\r\n",
              b"5\r\nhello\r\n0\r\n X-A: b\r\n\r\n", b"5\r\nhello\r\n0\r\nX-A: b\n\r\n", b"5\r\nhello\r\n0\r\nX-A\r\n\r\n",
              b"5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n", b"5\r\nhello\r\n0\r\n: b\r\n\r\n",
              b"5\r\nhello\r\n0\r\nX-A: \x00\r\n\r\n", b"5\r\nhello\r\n0\r\nX-A: b\rX-B: c\r\n\r\n"]  # fmt: skip
    for name in (b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Host: other", b"Connection: close",
                 b"Authorization: x", b"X-B: 0", b"Content-Type: x", b"Trailer: x", b"Cookie: x"):  # fmt: skip
        bodies.append(b"5\r\nhello\r\n0\r\n" + name + b"\r\n\r\n")
    for body in bodies:
        yield f"chunked {body[:60]}", post(b"Transfer-Encoding: chunked", body=body)


def options():
    lines = [b"Connection: close, X-A\r\nX-A: b", b"Connection: X-A\r\nX-A: b", b"Connection: content-length",
             b"Connection: transfer-encoding", b"Connection: host", b"Connection: x-a, , close", b"Connection: ",
             b"Connection: close\r\nConnection: keep-alive", b"Connection: keep-alive, close", b"Connection: CLOSE",
             b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
             b"Connection: Upgrade\r\nUpgrade: websocket", b"Upgrade: h2c", b"Upgrade: TLS/1.0, HTTP/1.1",
             b"Connection: close;x", b'Connection: "close"', b"Connection: (x)", b"Proxy-Connection: keep-alive",
             b"Keep-Alive: timeout=5", b"TE: trailers", b"TE: chunked", b"Trailer: Content-Length",
             b"Expect: 100-continue", b"Expect: 100-Continue", b"Expect: 100-continue, x", b"Expect: x", b"Expect:",
             b"Expect: 100-continue\r\nExpect: 100-continue", b"Max-Forwards: 0", b"Via: 1.1 x", b"Range: bytes=0-1",
             b"Accept-Encoding: chunked", b"Content-Encoding: chunked", b"Content-Type: a/b\r\nContent-Type: c/d"]  # fmt: skip
    for line in lines:
        yield f"GET with {line}", head(fields=line.split(b"\r\n"))
        yield f"POST with {line}", post(b"Content-Length: 5", *line.split(b"\r\n"))
    for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"PUT", b"TRACE"):
        line = method + b" @URL@/a HTTP/1.1"
        yield f"{method} with a length", head(line, [b"Content-Length: 5"]) + HELLO
        yield f"{method} with length 0", head(line, [b"Content-Length: 0"])
        yield f"{method} with chunks", head(line, [b"Transfer-Encoding: chunked"]) + CHUNKS
    hidden = HIDDEN
    yield "a request as content", fill_length(post(b"Content-Length: @LEN@", body=hidden), hidden)
    yield "a request behind no content", post(body=hidden)
    yield "a request behind length 0", post(b"Content-Length: 0", body=hidden)
    yield "a request behind GET", head() + hidden
    yield "a request behind HEAD", head(b"HEAD @URL@/a HTTP/1.1") + hidden


GREEDY = [b": 4294967301\r", b": 9223372036854775807\r", b"\n100000005\r"]
FAMILIES = [lengths, codings, both, ends, fields, request_lines, targets, hosts, chunks, options]


class Case:
    def __init__(self, number, family, name, data):
        self.number = number
        self.family, self.name = family, f"{family}: {name}"
        self.data, self.measured = data if isinstance(data, tuple) else (data, b"")
        # What follows is taken for its content, of which there is never enough.
        self.greedy = any(n in self.data for n in GREEDY)

    def bytes(self, authority, absolute):
        def filled(data):
            url = b"http://" + authority if absolute else b""
            return (data.replace(b"@URL@", url).replace(b"@CASE@", b"%d" % self.number)
                    .replace(b"@HOST@", authority))  # fmt: skip

        length = b"%d" % len(filled(self.measured))
        return filled(self.data).replace(b"@LEN@", length)

    def last(self, authority, absolute):
        """The request that follows, after which the connection ends."""
        line = b"GET %s/last HTTP/1.1" % (b"http://" + authority if absolute else b"")
        case = Case(self.number, "", "", head(line, [b"Connection: close"]))
        return case.bytes(authority, absolute)


def all_cases():
    made = ((family.__name__, *case) for family in FAMILIES for case in family())
    return [Case(n, *case) for n, case in enumerate(made, 1)]
