"""docs/configuration.md, "Try it with curl": each command does what the page shows."""

import functools
import http.server
import os
import re
import secrets
import select
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from common import KEYHOLE, ROOT, until
from harness import Upstream

with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as page:
    SECTION = re.search(r"^## Try it with curl\n(.*?)^## ", page.read(), re.M | re.S)[1]
YAML = re.search(r"^```yaml\n(.*?)^```", SECTION, re.M | re.S)[1]
START = re.search(r"^```sh\n(.*?)^```", SECTION, re.M | re.S)[1]
SHOWN = [step for block in re.findall(r"^```console\n(.*?)^```", SECTION, re.M | re.S)
         for step in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)]  # fmt: skip


class Shell:
    """One from the first command to the last, since the daemon is its job."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": os.path.dirname(KEYHOLE) + ":" + os.environ["PATH"], "HOME": folder},
        )  # fmt: skip

    def run(self, command):
        self.process.stdin.write((command + "\necho END''OF\n").encode())
        self.process.stdin.flush()
        said = b""
        while not said.endswith(b"ENDOF\n"):
            assert select.select([self.process.stdout], [], [], 60)[0], (command, said)
            piece = os.read(self.process.stdout.fileno(), 65536)
            assert piece, (command, said)
            said += piece
        return said.decode()[: -len("ENDOF\n")]

    def close(self):
        self.run("kill %1 2>/dev/null; wait")
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def place():
    # The path of a socket is short.
    folder = tempfile.mkdtemp(prefix="kh-", dir="/tmp")
    key = secrets.token_hex(24)
    upstream = Upstream(os.path.join(folder, "up"), ("example.com",), secret=key)
    shell = Shell(folder)
    yield folder, shell, upstream, key
    shell.close()
    upstream.stop()
    shutil.rmtree(folder)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def plain(tmp_path):
    """The port of a server that speaks no TLS."""
    handler = functools.partial(Quiet, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_curl_sees_what_the_page_shows(place, plain):
    folder, shell, upstream, key = place
    # The internet is not there: a server on this host takes its place.
    pins = f"example.com: \"{upstream.address}\", example.org: \"127.0.0.1:{plain}\""
    here = f"upstream: {{ ca_file: {upstream.ca}, resolve: {{ {pins} }} }}\n"
    with open(os.path.join(folder, "keyhole.yaml"), "w", encoding="utf-8") as file:
        file.write(YAML + here)
    assert "openssl rand -hex 24" in START
    log = os.path.join(folder, "log")
    start = START.replace("$(openssl rand -hex 24)", key)
    assert "0 warnings" in shell.run(start.replace("proxy -c keyhole.yaml &", f"proxy -c keyhole.yaml >{log} 2>&1 &"))
    until("it serves", lambda: os.path.exists(log) and "serving" in Path(log).read_text(encoding="utf-8"))
    assert len(SHOWN) == 9 and SHOWN[-1] == ("kill %1", "")
    for command, shown in SHOWN[:-1]:
        said = shell.run(command)
        assert said.startswith(shown), (command, said)
        if "why?" not in command:
            assert said == shown, command
    asked = upstream.events("request")
    assert [("x-api-key" in request["fields"]) for request in asked] == [True, True], asked
