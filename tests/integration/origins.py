"""origins.py - real servers as upstreams that log, one JSON line a request, what they read

Each has a plain and a TLS port on loopback and a certificate for the names that it is asked for:
nginx, Node's http and https, Python's http.server, aiohttp.
"""

import contextlib
import json
import os
import shutil
import subprocess

from common import HERE, PATIENCE, finish, mock_module, until
from harness import free_port

NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  client_max_body_size 0; server_tokens off; merge_slashes off; absolute_redirect off; keepalive_requests 100000;
  client_body_buffer_size 128k; client_body_in_single_buffer on; underscores_in_headers on;
  ignore_invalid_headers off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  log_format read escape=json '{{"case":"$http_x_case","method":"$request_method",'
    '"target":"$request_uri","path":"$uri","host":"$http_host","name":"$host",'
    '"length":"$http_content_length","coding":"$http_transfer_encoding","line":"$request",'
    '"body":"$request_body","connection":$connection,"nth":$connection_requests,'
    '"status":$status}}';
  server {{
    listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl;
    ssl_certificate {cert}; ssl_certificate_key {key};
    access_log {log} read;
    root {folder}/www;
    # Only what hands the content on reads it.
    location / {{ proxy_pass http://unix:{folder}/s:/; proxy_set_header X-Case $http_x_case; }}
    location /files/ {{ }}
    location = /moved {{ return 307 /elsewhere; }}
    location = /packed {{ gzip on; gzip_min_length 1; gzip_types *; default_type text/plain;
                          alias {folder}/www/files/text; }}
  }}
  server {{
    listen unix:{folder}/s; access_log off;
    location / {{ default_type application/json; return 200 '{{"case":"$http_x_case"}}'; }}
  }}
}}
"""


class Origin:
    """A server as a process of ours, with its log."""

    def __init__(self, folder, names):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.log_path = os.path.join(folder, "requests.log")
        with open(self.log_path, "wb"):
            pass
        ca = mock_module.make_ca(folder)
        self.cert, self.key = mock_module.make_leaf(folder, ca, names)
        self.ca = ca[0]
        self.start()

    @property
    def pins(self):
        return {"tls": f"127.0.0.1:{self.tls}", "plain": f"127.0.0.1:{self.plain}"}

    def mark(self):
        return os.path.getsize(self.log_path)

    def requests(self, since=0, **match):
        """What it read, from byte `since` of the log on."""
        with open(self.log_path, "rb") as file:
            file.seek(since)
            lines = file.read().decode("latin-1").splitlines()
        found = [self.tidy(json.loads(line)) for line in lines]
        return [e for e in found if all(e.get(k) == v for k, v in match.items())]

    @staticmethod
    def tidy(entry):
        return entry


class Script(Origin):
    """A script that says its ports on standard output, and ends with its standard input."""

    command = ()
    options = ()
    env = {}

    def start(self):
        self.process = subprocess.Popen(
            [*self.command, self.log_path, self.cert, self.key, *self.options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], **self.env},
        )  # fmt: skip
        line = self.process.stdout.readline()
        assert line, f"{self.command} did not start"
        ports = json.loads(line)
        self.plain, self.tls = ports["plain"], ports["tls"]

    def stop(self):
        self.process.stdin.close()
        finish(self.process)
        self.process.stdout.close()


class Node(Script):
    command = ("node", os.path.join(HERE, "origin.js"))


class LenientNode(Node):
    """With the parser that takes what it should not."""

    options = ("1",)


class HastyNode(Node):
    """Lets idle connections go after two seconds, and says so."""

    options = ("0", "2000")


class HttpServer(Script):
    command = ("/usr/bin/python3", os.path.join(HERE, "origin_python.py"), "http.server")


class Aiohttp(Script):
    command = ("/usr/bin/python3", os.path.join(HERE, "origin_python.py"), "aiohttp")


class Services(Script):
    """git and npm's registry; the password is git's."""

    def __init__(self, folder, names, password):
        self.env = {"SERVICE_PASSWORD": password}
        self.root = os.path.join(folder, "git")
        self.command = ("/usr/bin/python3", os.path.join(HERE, "services.py"), self.root)
        super().__init__(folder, names)


class Registries(Script):
    """npm, Python's index, crates.io, Debian and Go's proxy, by their own names."""

    hosts = ("registry.npmjs.org", "pypi.org", "files.pythonhosted.org", "index.crates.io", "static.crates.io", "deb.debian.org")
    hosts += ("proxy.golang.org",)
    command = ("/usr/bin/python3", os.path.join(HERE, "registries.py"))


class NginxOrigin(Origin):
    def start(self):
        self.plain, self.tls = free_port(), free_port()
        os.makedirs(os.path.join(self.folder, "www", "files"), exist_ok=True)
        conf = os.path.join(self.folder, "nginx.conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write(NGINX.format(folder=self.folder, plain=self.plain, tls=self.tls,
                                    cert=self.cert, key=self.key, log=self.log_path))  # fmt: skip
        self.process = subprocess.Popen(
            [shutil.which("nginx") or "/usr/sbin/nginx", "-e", self.folder + "/error.log",
             "-p", self.folder, "-c", conf],
        )  # fmt: skip
        until("nginx listens", self.listens, PATIENCE)

    def listens(self):
        assert self.process.poll() is None, "nginx ended by itself"
        with contextlib.suppress(OSError), open(self.folder + "/nginx.pid", encoding="ascii"):
            return True
        return False

    @staticmethod
    def tidy(entry):
        if entry["status"] == 400:
            return {"refused": entry["line"]}
        body = entry["body"].encode("latin-1")
        return {**entry, "bytes": len(body), "complete": entry["status"] == 200,
                "length": entry["length"] or None, "coding": entry["coding"] or None,
                "case": entry["case"] or None}  # fmt: skip

    def stop(self):
        self.process.terminate()
        finish(self.process)
