"""test_platform.py - docs/platform.md, command by command: two tenants from nothing."""

import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile

import pytest
from common import ROOT, until
from harness import Upstream, free_port

with open(os.path.join(ROOT, "docs", "platform.md"), encoding="utf-8") as page:
    BLOCKS = re.findall(r"^```sh\n(.*?)^```", page.read(), re.M | re.S)
ACME, GLOBEX = "sk-ant-api03-" + "b7Qw2Zr9" * 5, "sk-ant-api03-" + "k4Tn8Vx1" * 5
FAKES = """
sudo() {
	if [ "$1" = -u ]; then shift; u=$1; shift; setpriv --reuid="$u" --regid=65534 --clear-groups "$@"; else "$@"; fi
}
export -f sudo
"""


class Host:
    """A shell that lives from the first block to the last, on a host whose folders are below one of the test's."""

    def __init__(self, folder, upstream):
        self.folder, self.upstream = folder, upstream
        self.port, self.hello = free_port(), free_port()
        root = os.path.join(folder, "root")
        self.shell = subprocess.Popen(
            ["bash", "-e"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": f"{root}/usr/local/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": folder},
        )  # fmt: skip
        self.run(FAKES)

    def here(self, text):
        for path, mine in (("/etc/keyhole", "etc"), ("/var/lib/keyhole", "lib"),
                           ("/usr/local/libexec", "root/usr/local/libexec")):  # fmt: skip
            text = text.replace(path, os.path.join(self.folder, mine))
        text = re.sub(r"(?<! )/run/keyhole|(?<=unix: )/run/keyhole", self.folder + "/run", text)
        text = text.replace("127.0.0.1:9464", f"127.0.0.1:{self.port}")
        # Without either the socket is where the configuration of no test has it.
        text = re.sub(r"keyhole ctl", f"keyhole ctl --socket {self.folder}/run/admin/s", text)
        text = text.replace("sudo make install", f"sudo make -s install DESTDIR={self.folder}/root")
        text = re.sub(r"^(make|deploy/install-deps.sh build run)$", "true # it is built", text, flags=re.M)
        text = re.sub(r"^ACME_KEY=.*", f"ACME_KEY={ACME}", re.sub(r"^GLOBEX_KEY=.*", f"GLOBEX_KEY={GLOBEX}", text, flags=re.M), flags=re.M)
        text = re.sub(r"(?<=127.0.0.1:)8000|(?<=http.server )8000", str(self.hello), text)
        # The internet is not there: a mock takes its place.
        return text.replace("upstream: { resolve: { ", f"upstream: {{ ca_file: {self.upstream.ca}, resolve: "
                            f"{{ api.anthropic.com: \"{self.upstream.address}\", ")  # fmt: skip

    def run(self, block, seconds=120):
        self.shell.stdin.write((block + "\necho END''OF:$?\n").encode())
        self.shell.stdin.flush()
        said = b""
        while b"ENDOF:" not in said or not said.endswith(b"\n"):
            assert select.select([self.shell.stdout], [], [], seconds)[0], said.decode()
            piece = os.read(self.shell.stdout.fileno(), 65536)
            assert piece, "a command failed: " + said.decode()
            said += piece
        text = said.decode()
        assert text.rstrip().endswith("ENDOF:0"), text
        return text[: text.rindex("ENDOF:")]

    def close(self):
        # What it started ends first, wherever the test stopped.
        if self.shell.poll() is None:
            self.run("jobs -p | xargs -r kill 2>/dev/null || true; wait || true")
        self.shell.stdin.close()
        self.shell.wait(20)
        self.shell.stdout.close()


@pytest.fixture(name="host")
def a_host():
    if os.geteuid() != 0:
        pytest.skip("a platform is set up as root")
    for tool in ("bwrap", "setpriv"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    # The user nobody walks through it, and the path of a socket is short.
    folder = tempfile.mkdtemp(prefix="kh-", dir="/tmp")
    os.chmod(folder, 0o755)
    upstream = Upstream(os.path.join(folder, "up"), ("api.anthropic.com",), secret=ACME)
    host = Host(folder, upstream)
    yield host
    host.close()
    upstream.stop()
    shutil.rmtree(folder)


def is_open(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_the_page_holds_command_by_command(host):
    assert len(BLOCKS) == 8
    install, configure, start, add, agents, look, delegate, change = (host.here(block) for block in BLOCKS)
    assert BLOCKS[0].splitlines()[0] == "deploy/install-deps.sh build run", "without it plain make stops"
    host.run(install)
    assert re.search(r": ok: 2 tenants, .* 0 warnings$", host.run(configure), re.M)
    keys = re.findall(r"^\w+_KEY=(\S+)", BLOCKS[1], re.M)
    assert len(keys) == 2 and all(key.startswith("sk-ant-api03-") for key in keys)
    host.run(start)
    until("the daemon serves", lambda: os.path.exists(host.folder + "/run/admin/s"))

    said = host.run(add).splitlines()
    sandboxes = host.folder + "/run/admin/sandboxes"
    said = [line for line in said if "keyhole: " not in line]
    assert said[:2] == [f"{sandboxes}/acme/sb-1/s", f"{sandboxes}/globex/sb-1/s"]
    assert sorted(line.split()[1] for line in said[3:]) == ["acme", "globex"]

    until("the reader's own service listens", lambda: is_open(host.hello))
    said = host.run(agents)
    assert "tenant: acme" in said and "requests 600/min" in said
    assert re.findall(r"^(200|403)$", said, re.M) == ["200", "403"], "the reader's own service, for acme alone"
    assert '"type": "message"' in said, "what the mock answers to acme's key, and to no other"
    assert "GET https://registry.npmjs.org/left-pad is not allowed: no rule allows it" in said
    assert said.count("registry.npmjs.org/left-pad") >= 2 and "globex" not in said.split("tenant: acme")[1].split("Why")[0]
    assert ACME not in said and GLOBEX not in said

    said = host.run(look)
    assert "serving" in said and "acme-anthropic" in said
    assert re.search(r'keyhole_requests_total\{tenant="acme",decision="allow"\} [1-9]', said)
    assert re.search(r'keyhole_requests_total\{tenant="globex",decision="deny"\} [1-9]', said)
    assert "ok: " in said and "DENIED no_rule" in said

    said = host.run(delegate)
    rows = [line.split() for line in said.splitlines() if line.startswith("sb-")]
    assert sorted(row[0] for row in rows) == ["sb-1", "sb-2"] and {row[1] for row in rows} == {"acme"}

    said = host.run(change)
    assert "the new configuration is in force" in said and "draining" in said and "removed sb-1 of tenant acme" in said
    until("all that was added is gone", lambda: not os.path.exists(f"{sandboxes}/acme"))
    with open(host.folder + "/lib/audit.jsonl", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    assert {(r["tenant"], r["event"]) for r in records if "tenant" in r} >= {("acme", "open"), ("globex", "deny")}
