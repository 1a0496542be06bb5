"""harness.py - what the integration tests stand on: upstreams, the daemon, and clients by hand.

Everything is started in a folder of its own, says when it is ready on a descriptor, takes a port
that is free, and is ended by its own process id. Whatever a test client receives is searched for
the real key as it arrives: a leak fails the test in which it happens.
"""

import contextlib
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections import Counter

from clients import Closed, Refused, Relay, Response, Tunnel, Wire, client_context
from common import (
    FINGERPRINT, HERE, KEYHOLE, PATIENCE, PLACEHOLDER, ROOT, SECRET, finish, has_ended, mock_module,
    until,
)  # fmt: skip

# What tests take from here.
__all__ = [
    "FINGERPRINT", "HERE", "KEYHOLE", "PATIENCE", "PLACEHOLDER", "ROOT", "SECRET", "Closed", "Daemon",
    "Nginx", "Refused", "Relay", "Response", "Tunnel", "Upstream", "Wire", "client_context",
    "finish", "free_port", "read_journal", "until",
]  # fmt: skip


# --- upstreams ------------------------------------------------------------------------------------


class Upstream:
    """The mock as a process, and its log."""

    running = []  # of this test process

    def __init__(self, folder, names=("localhost",), secret=SECRET, script="upstream.py", env=None, **options):
        os.makedirs(folder, exist_ok=True)
        self.log_path = os.path.join(folder, "mock.log")
        self.forbidden = set()
        args = ["--dir", folder, "--log", self.log_path, "--until-eof", "--names", ",".join(names)]
        for name, value in options.items():
            args += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
        self.process = subprocess.Popen(
            ["/usr/bin/python3", os.path.join(HERE, script), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "MOCK_KEY": secret, **(env or {})},
        )
        line = self.process.stdout.readline()
        assert line, "the mock did not start"
        ready = json.loads(line)
        self.port, self.ca = ready["port"], ready["ca"]
        self.running.append(self)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def events(self, kind=None, since=0, **match):
        """The log from byte `since` on, filtered."""
        with open(self.log_path, "rb") as file:
            file.seek(since)
            data = file.read()
        found = [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
        return [
            e
            for e in found
            if (kind is None or e["event"] == kind)
            and all(e.get(k) == v for k, v in match.items())
        ]

    def mark(self):
        return os.path.getsize(self.log_path)

    def requests(self, test_id=None, since=0):
        match = {} if test_id is None else {"test_id": test_id}
        return self.events("request", since, **match)

    def never(self, test_id):
        """This request must not be here: looked at now and when the daemon has ended."""
        self.forbidden.add(test_id)
        assert not self.requests(test_id), "a refused request reached the upstream"

    def check_forbidden(self):
        seen = [e for e in self.requests() if e["test_id"] in self.forbidden]
        self.forbidden.clear()
        assert not seen, f"refused requests reached the upstream after all: {seen}"

    def close_idle(self):
        """Done when it returns: later it could meet the next test's first request."""
        mark = self.mark()
        os.kill(self.process.pid, signal.SIGUSR1)
        until("idle connections are closed", lambda: self.events("idle closed", mark), pause=0.0005)

    def stop(self):
        if self not in self.running:
            return  # by a test itself, and its fixture comes after it
        self.running.remove(self)
        self.process.stdin.close()
        finish(self.process)
        self.process.stdout.close()


NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_max_body_size 0; server_tokens off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {cert}; ssl_certificate_key {key};
    root {folder}/www;
    location = /text {{ default_type text/plain; return 200 "from nginx\\n"; }}
    location = /seen {{ default_type text/plain; return 200 "$http_x_api_key"; }}
    location = /status/204 {{ return 204; }}
  }}
}}
"""


class Nginx:
    def __init__(self, folder, names, port):
        os.makedirs(os.path.join(folder, "www"), exist_ok=True)
        self.port = port
        self.folder = folder
        ca = mock_module.make_ca(folder)
        cert, key = mock_module.make_leaf(folder, ca, names)
        self.ca = ca[0]
        conf = os.path.join(folder, "nginx.conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write(NGINX.format(folder=folder, port=port, cert=cert, key=key))
        self.process = subprocess.Popen(
            [shutil.which("nginx") or "/usr/sbin/nginx", "-e", folder + "/error.log", "-p", folder,
             "-c", conf],
        )  # fmt: skip
        until("nginx listens", self.listens)

    def listens(self):
        assert self.process.poll() is None, "nginx ended: " + self.errors()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def errors(self):
        with contextlib.suppress(OSError), open(self.folder + "/error.log", encoding="utf-8") as f:
            return f.read()
        return ""

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def stop(self):
        self.process.terminate()
        finish(self.process)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


# --- the journal ----------------------------------------------------------------------------------


def read_journal(path, live=False):
    """All records, with the chain checked by other means than the product's own.

    Of a journal that is being written (`live`) the last line may not be whole yet. Any other line that is no record is good in one case: the next record is a `recovered` one that names
    exactly these bytes.
    """
    records = []
    before = "0" * 64
    torn = b""
    offset = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if live and not line.endswith(b"\n"):
                break
            record = as_record(line)
            if record is None:
                torn += line
                continue
            if torn:
                assert record["event"] == "recovered", f"line {number - 1}: changed, or torn unsaid"
                assert (record["offset"], record["bytes"]) == (offset, len(torn) - 1)
                offset += len(torn)
                torn = b""
            assert record["prev"] == before, f"line {number}: it does not follow the one before"
            assert record["seq"] == len(records) + 1, f"line {number}: its number is not the next"
            before = record["hash"]
            offset += len(line)
            records.append(record)
    assert not torn, f"the journal ends torn: {torn[:80]!r}"
    return records


def as_record(line):
    """The line as a record if its hash is what it says, else None."""
    try:
        record = json.loads(line)
        body = line[: line.rindex(b',"hash"')]
    except ValueError:
        return None
    good = line.endswith(b"\n") and record["hash"] == hashlib.sha256(body).hexdigest()
    return record if good else None


# --- the daemon -----------------------------------------------------------------------------------


class Daemon:
    """`keyhole proxy` with a configuration, in a folder of its own."""

    binary = KEYHOLE
    identity = {}  # Popen's user, group …

    def __init__(self, config, folder=None, env=None, secret=SECRET, start=True, nofile=None):
        # A short path: a Unix socket's has 107 bytes.
        self.folder = folder or tempfile.mkdtemp(prefix="kh.")
        self.own_folder = folder is None
        self.config_path = os.path.join(self.folder, "keyhole.yaml")
        self.socket_path = os.path.join(self.folder, "d", "s")
        self.journal_path = os.path.join(self.folder, "audit.jsonl")
        self.ca = os.path.join(self.folder, "ca.pem")
        self.stderr_path = os.path.join(self.folder, "stderr")
        self.env = env or {}
        self.nofile = nofile  # descriptors that it may have
        self.memlock = None  # bytes that it may lock into memory
        self.process = None
        self.watched = []
        self.secret = secret
        self.secret_path = os.path.join(self.folder, "secret")
        self.write_secret(secret)
        self.write(config)
        if start:
            self.start()

    def write_secret(self, value):
        if value is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.secret_path)
            return
        fd = os.open(self.secret_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(value + "\n")

    def write(self, config):
        self.config = config
        with open(self.config_path, "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)  # JSON is YAML

    def spawn(self):
        """Starts it and waits for a line on the ready descriptor. Return: it serves."""
        ready, theirs = os.pipe()
        with open(self.stderr_path, "ab") as stderr:
            self.process = subprocess.Popen(
                [self.binary, "proxy", "-c", self.config_path, "--ready-fd", str(theirs)],
                pass_fds=[theirs],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                env={"PATH": os.environ["PATH"], **self.env},
                **self.identity,
                preexec_fn=self.limit if self.nofile or self.memlock is not None else None,
            )
        os.close(theirs)
        with os.fdopen(ready, "rb", buffering=0) as pipe:
            if not select.select([pipe], [], [], PATIENCE)[0]:
                self.process.kill()
                self.process.wait()
                raise AssertionError("the daemon said neither yes nor no\n" + self.stderr())
            return pipe.read(1) == b"\n"

    def limit(self):
        if self.nofile:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.nofile, self.nofile))
        if self.memlock is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (self.memlock, self.memlock))

    def start(self):
        if not self.spawn():
            finish(self.process)
            raise AssertionError("the daemon did not start\n" + self.stderr())
        self.baseline = self.descriptors_at_rest()
        self.links_at_rest = self.links() if self.baseline is not None else []

    def stderr(self):
        with contextlib.suppress(OSError), open(self.stderr_path, errors="replace") as file:
            return file.read()
        return ""

    def kill(self):
        """SIGKILL. The worker takes a moment to follow: nobody listens any more when this returns."""
        worker = self.worker_pid()
        self.process.kill()
        self.process.wait()
        until("its worker has ended", lambda: has_ended(worker))

    # looking into it

    def worker_pid(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        for pid in children:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"worker" in file.read().split(b"\0"):
                    return pid
        return None

    def descriptors(self, pid=None):
        """How many the worker has open; None where we may not look (it is not dumpable)."""
        try:
            return len(os.listdir(f"/proc/{pid or self.worker_pid()}/fd"))
        except PermissionError:
            return None

    def links(self):
        """What they are; without those that are gone by now."""
        folder, found = f"/proc/{self.worker_pid()}/fd", []
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(os.path.join(folder, fd)))
        return found

    def more_links(self):
        """Those that were not there at first; of a socket, what the kernel says of it."""
        pid, more = self.worker_pid(), list((Counter(self.links()) - Counter(self.links_at_rest)).elements())
        for kind in ("unix", "tcp", "udp"):
            with open(f"/proc/{pid}/net/{kind}", encoding="ascii", errors="replace") as file:
                lines = file.readlines()
            for at, link in enumerate(more):
                number = link.removeprefix("socket:[").rstrip("]")
                more[at] = next((f"{kind} {line.strip()}" for line in lines if link != number and number in line.split()), link)
        return more

    def descriptors_at_rest(self):
        """Once the certificates are read that it trusts: it serves while it does that."""
        if self.descriptors() is None:
            return None
        until("the roots are read", lambda: not any(link.endswith((".pem", ".crt")) for link in self.links()))
        return self.descriptors()

    def memory_kib(self, pid, field="Pss"):
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise AssertionError("no " + field)

    def resident_kib(self, pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))

    def journal(self, **match):
        return [
            r for r in read_journal(self.journal_path, live=self.process.poll() is None)
            if all(r.get(k) == v for k, v in match.items())
        ]  # fmt: skip

    def records_of(self, path):
        """All records of the one exchange with this path."""
        records = self.journal()
        ids = {r["id"] for r in records if r.get("url.path") == path}
        return [r for r in records if r.get("id") in ids]

    def verify(self):
        done = subprocess.run(
            [KEYHOLE, "audit", "verify", self.journal_path],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"audit verify: {done.stdout}{done.stderr}"
        return done.stdout

    # what must hold after every test

    def settle(self, upstreams=()):
        """Nothing is open that it did not begin with, once no upstream keeps a connection: those named here, and
        every mock."""
        assert self.process.poll() is None, "the daemon ended by itself\n" + self.stderr()
        # A state that can't follow (include/keyhole/base/machine.h).
        assert "fault in keyhole" not in self.stderr(), self.stderr()
        if self.baseline is not None:

            def are_back():
                running = [one for one in Upstream.running if one.process.poll() is None]
                for upstream in {*upstreams, *running}:
                    upstream.close_idle()
                return self.descriptors() <= self.baseline

            try:
                until("the descriptors are back", are_back)
            except AssertionError as why:
                raise AssertionError(f"{why}; more than {self.baseline}: {self.more_links()}") from None
        read_journal(self.journal_path, live=True)
        self.check_secret()

    def check_secret(self):
        """The real key stands in its own file and nowhere else in the daemon's folder."""
        needle = SECRET.encode()
        for folder, _, files in os.walk(self.folder):
            for name in files:
                path = os.path.join(folder, name)
                if path == self.secret_path or not os.path.isfile(path):
                    continue
                with open(path, "rb") as file:
                    assert needle not in file.read(), f"the real key stands in {name}"

    def stop(self, expected=0):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            status = finish(self.process)
            assert status == expected, f"exit status {status}\n" + self.stderr()

    def remove(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)
