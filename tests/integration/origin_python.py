#!/usr/bin/python3
"""origin_python.py - Python's HTTP servers as upstreams, and a log of what each read

    origin_python.py http.server|aiohttp LOG CERT KEY

One JSON line a request in LOG: what the server's parser made of it. http.server is the one of the
standard library with HTTP/1.1 kept alive (it reads fields as those of mail) and, under /old/, answers
as it does by default: HTTP/1.0, ended by the connection's end. aiohttp streams: /bytes?n=, /echo
sends each piece back as it comes. When it can be used, a line on standard output says on which
ports; it ends with its standard input.
"""

import asyncio
import hashlib
import http.server
import json
import os
import ssl
import sys
import threading
import urllib.parse


class Log:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, **what):
        os.write(self.fd, json.dumps(what).encode() + b"\n")


def context(cert, key):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(cert, key)
    return made


# --- http.server ----------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60
    numbers = 0

    def setup(self):
        Handler.numbers += 1
        self.number, self.count = Handler.numbers, 0
        super().setup()

    def log_message(self, *_):
        pass

    def send_error(self, code, message=None, explain=None):
        self.server.log.note(refused=f"{code} {message}")
        super().send_error(code, message, explain)

    def __getattr__(self, name):
        if name.startswith("do_"):  # any method
            return self.answer
        raise AttributeError(name)

    def chunks(self):
        while size := int(self.rfile.readline().split(b";")[0].strip(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def content(self):
        if "chunked" in (self.headers["transfer-encoding"] or "").lower():
            return b"".join(self.chunks()), True
        wanted = int(self.headers["content-length"] or 0)
        got = self.rfile.read(wanted)
        return got, len(got) == wanted

    def answer(self):
        self.count += 1
        what = {
            "case": self.headers["x-case"],
            "method": self.command,
            "target": self.requestline.split(" ")[1],
            "path": urllib.parse.urlsplit("http://x" + self.path).path,  # "//" is "/" by now
            "host": self.headers["host"],
            "names": list(self.headers.keys()),
            "length": self.headers["content-length"],
            "coding": self.headers["transfer-encoding"],
            "connection": self.number,
            "nth": self.count,
        }
        try:
            body, complete = self.content()
        except ValueError:
            body, complete = b"", False
        digest = hashlib.sha256(body).hexdigest()
        what.update(bytes=len(body))
        self.server.log.note(**what, complete=complete, sha256=digest)
        if not complete:
            self.close_connection = True
            return
        old = self.path.startswith("/old/")
        text = json.dumps({**what, "body": body[:65536].decode("latin-1")}).encode()
        if old:
            self.protocol_version = "HTTP/1.0"
            self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "application/json")
        if not old:
            self.send_header("content-length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    tls = None

    def finish_request(self, request, client_address):
        if self.tls:
            request = self.tls.wrap_socket(request, server_side=True)
        try:
            super().finish_request(request, client_address)
        finally:
            if self.tls:
                try:
                    request.settimeout(1)
                    request = request.unwrap()
                except (OSError, ssl.SSLError, ValueError):
                    pass
            request.close()

    def handle_error(self, *_):
        pass


def run_http_server(log, cert, key, handler=Handler):
    servers = {}
    for name, tls in (("plain", None), ("tls", context(cert, key))):
        server = Server(("127.0.0.1", 0), handler)
        server.log, server.tls = log, tls
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers[name] = server.server_address[1]
    print(json.dumps(servers), flush=True)
    sys.stdin.read()
    os._exit(0)


# --- aiohttp --------------------------------------------------------------------------------------


async def run_aiohttp(log, cert, key):
    from aiohttp import web

    seen = {}

    async def answer(request):
        transport = request.transport
        number, count = seen.get(transport, (len(seen) + 1, 0))
        seen[transport] = number, count + 1
        what = {
            "case": request.headers.get("x-case"),
            "method": request.method,
            "target": request.raw_path,
            "path": request.url.raw_path,
            "host": request.headers.get("host"),
            "names": [name.decode("latin-1") for name, _ in request.raw_headers],
            "length": request.headers.get("content-length"),
            "coding": request.headers.get("transfer-encoding"),
            "connection": number,
            "nth": count + 1,
        }
        if request.path == "/echo":
            return await echo(request)
        digest, size, kept, complete = hashlib.sha256(), 0, b"", False
        try:
            async for piece in request.content.iter_any():
                digest.update(piece)
                size += len(piece)
                kept += piece[: 65536 - len(kept)]
            complete = True
        finally:
            what.update(bytes=size)
            log.note(**what, complete=complete, sha256=digest.hexdigest())
        if request.path == "/bytes":
            return await send_bytes(request, int(request.query["n"]))
        return web.json_response({**what, "body": kept.decode("latin-1")})

    async def echo(request):
        response = web.StreamResponse()
        await response.prepare(request)
        async for piece in request.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response

    async def send_bytes(request, count):
        response = web.StreamResponse()
        await response.prepare(request)
        while count:
            piece = b"x" * min(count, 65536)
            count -= len(piece)
            await response.write(piece)
        await response.write_eof()
        return response

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    ports = {}
    for name, tls in (("plain", None), ("tls", context(cert, key))):
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        ports[name] = site._server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    kind, log_path, *files = sys.argv[1:]
    if kind == "aiohttp":
        asyncio.run(run_aiohttp(Log(log_path), *files))
    else:
        run_http_server(Log(log_path), *files)
