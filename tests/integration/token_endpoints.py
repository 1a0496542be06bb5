"""token_endpoints.py - a token endpoint that checks what it is told: OAuth2, Google's and GitHub's"""

import base64
import http.server
import json
import os
import socket
import subprocess
import threading
import time
import urllib.parse

from certificates import make_ca, make_leaf, openssl, server_context

HOST = "login.test"


def unpadded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Endpoint:
    """One server for all of them; `trouble` makes it misbehave, `asked` is what it was asked."""

    def __init__(self, folder, host="127.0.0.1"):
        self.folder = str(folder)
        ca = make_ca(self.folder, "endpoint-ca")
        self.ca = ca[0]
        leaf = make_leaf(self.folder, ca, [HOST, host], "endpoint")
        self.asked, self.problems = [], []
        self.trouble = None
        self.lifetime = 3600
        self.offset = 0  # of its clock
        self.count = 0
        self.client = ("the-client:id", "s3cret/with+signs=")
        self.refresh = "refresh-token-number-0"
        self.rotates = True
        self.lock = threading.Lock()
        self.gate = threading.Event()
        self.gate.set()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def date_time_string(self, timestamp=None):
                return super().date_time_string((timestamp or time.time()) + endpoint.offset)

            def do_GET(self):
                endpoint.take(self, b"")

            def do_POST(self):
                endpoint.take(self, self.rfile.read(int(self.headers["content-length"])))

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self.server = Server((host, 0), Handler)
        self.server.daemon_threads = True
        context = server_context(*leaf)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()

    # keys

    def make_key(self, name, bits=2048):
        path = os.path.join(self.folder, name + ".key")
        openssl("genrsa", "-out", path, str(bits))
        self.public = os.path.join(self.folder, name + ".pub")
        openssl("pkey", "-in", path, "-pubout", "-out", self.public)
        with open(path, encoding="ascii") as file:
            return file.read()

    def verify(self, jwt):
        """The claims of a JWT whose signature is good (RFC 7515 section 5.2), by the openssl command."""
        head, claims, signature = jwt.split(".")
        assert json.loads(unpadded(head)) == {"alg": "RS256", "typ": "JWT"}
        path = os.path.join(self.folder, f"signature{threading.get_ident()}")
        with open(path, "wb") as file:
            file.write(unpadded(signature))
        done = subprocess.run(
            ["openssl", "dgst", "-sha256", "-verify", self.public, "-signature", path],
            input=f"{head}.{claims}".encode(), capture_output=True, check=False,
        )  # fmt: skip
        assert done.stdout.strip() == b"Verified OK", done
        return json.loads(unpadded(claims))

    # what it does

    def take(self, request, body):
        with self.lock:
            self.asked.append((request.command, request.path, dict(request.headers), body.decode()))
        self.gate.wait(60)
        try:
            if self.trouble:
                self.trouble(request)
            else:
                status, answer = self.answer(request, body.decode())
                self.reply(request, status, json.dumps(answer))
        except AssertionError as problem:
            self.problems.append(repr(problem))
            self.reply(request, 400, json.dumps({"error": "invalid_request"}))

    def reply(self, request, status, text, fields=()):
        request.send_response(status)
        request.send_header("content-type", "application/json")
        for name, value in fields:
            request.send_header(name, value)
        request.send_header("content-length", str(len(text)))
        request.end_headers()
        request.wfile.write(text.encode())

    def answer(self, request, body):
        if request.path.startswith(("/app/", "/orgs/", "/users/")):
            return self.github(request, body)
        assert request.command == "POST"
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        assert request.headers["host"] in (HOST, self.address)
        form = urllib.parse.parse_qs(body, strict_parsing=True)
        assert all(len(values) == 1 for values in form.values())
        form = {name: values[0] for name, values in form.items()}
        grant = form["grant_type"]
        if grant == "urn:ietf:params:oauth:grant-type:jwt-bearer":
            return self.gcp(form)
        if not self.knows(request, form):
            return 401, {"error": "invalid_client"}
        if grant == "client_credentials":
            assert form.get("scope") == "read write"
            return self.token()
        assert grant == "refresh_token"
        with self.lock:
            if form["refresh_token"] != self.refresh:
                return 400, {"error": "invalid_grant", "error_description": form["refresh_token"]}
            if self.rotates:
                self.refresh = f"refresh-token-number-{len(self.asked)}"
        status, answer = self.token()
        return status, {**answer, "refresh_token": self.refresh}

    def token(self):
        with self.lock:
            self.count += 1
            return 200, {"access_token": f"token-number-{self.count}", "token_type": "Bearer",
                         "expires_in": self.lifetime}  # fmt: skip

    def knows(self, request, form):
        auth = request.headers["authorization"]
        if auth is None:
            return (form.get("client_id"), form.get("client_secret")) == self.client
        assert "client_secret" not in form, "it says who it is in one way"
        kind, _, pair = auth.partition(" ")
        user, _, password = base64.b64decode(pair).decode().partition(":")
        assert kind == "Basic"
        return (urllib.parse.unquote(user), urllib.parse.unquote(password)) == self.client

    def gcp(self, form):
        claims = self.verify(form["assertion"])
        now = time.time() + self.offset
        assert claims["iss"] == "robot@project.test" and claims["scope"] == "https://a https://b"
        assert claims["aud"] == f"https://{HOST}/token"
        assert claims["exp"] - claims["iat"] == 3600
        if not claims["iat"] <= now + 60 or not now < claims["exp"]:
            return 400, {"error": "invalid_grant", "error_description": "Invalid JWT: " + form["assertion"]}
        return self.token()

    def github(self, request, body):
        kind, _, jwt = request.headers["authorization"].partition(" ")
        claims = self.verify(jwt)
        assert kind == "Bearer" and claims["iss"] == "12345"
        assert claims["exp"] - claims["iat"] <= 600
        assert request.headers["accept"] == "application/vnd.github+json"
        now = time.time() + self.offset
        if not claims["iat"] <= now < claims["exp"]:
            return 401, {"message": "'Issued at' claim ('iat') must be an Integer …"}
        if request.path == "/users/somebody/installation":
            return 200, {"id": 77, "account": {}}
        if request.path.startswith(("/orgs/", "/users/")):
            return 404, {"message": "Not Found"}
        assert request.path == "/app/installations/77/access_tokens" and request.command == "POST"
        with self.lock:
            self.count += 1
            repositories = ".".join(json.loads(body)["repositories"]) if body else "all"
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + self.lifetime))
        return 201, {"token": f"ghs_{repositories}_{self.count}", "expires_at": until,
                     "permissions": {"contents": "read"}}  # fmt: skip
