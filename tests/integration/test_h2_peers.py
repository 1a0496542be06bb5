"""Real HTTP/2 clients in the sandbox: curl, nghttp, h2load, Node, Java, httpx."""

import json
import os
import re
import shutil
import socket
import subprocess
import threading

import pytest
from harness import FINGERPRINT, HERE, SECRET, Relay


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=program + " is not installed")


class TunnelRelay(Relay):
    """A loopback port that leads into a tunnel, for clients that know no proxy."""

    def __init__(self, path, authority):
        self.authority = authority
        super().__init__(path)

    def accept(self):
        while True:
            try:
                down, _ = self.listener.accept()
            except OSError:
                return
            up = socket.socket(socket.AF_UNIX)
            up.connect(self.path)
            up.sendall(f"CONNECT {self.authority} HTTP/1.1\r\nHost: {self.authority}\r\n\r\n".encode())
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += up.recv(1)
            both = [threading.Thread(target=self.pump, args=pair, daemon=True)
                    for pair in ((down, up), (up, down))]  # fmt: skip
            for thread in both:
                thread.start()
            threading.Thread(target=self.end, args=(both, down, up), daemon=True).start()


@pytest.fixture
def into(shared):
    """into(authority): the port of a relay into a tunnel to there."""
    relays = []

    def make(authority):
        relays.append(TunnelRelay(shared.socket_path, authority))
        return relays[-1].port

    yield make
    for one in relays:
        one.close()


def run(*command, status=0, **env):
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False,
                          env={"PATH": os.environ["PATH"], **env})  # fmt: skip
    assert SECRET not in done.stdout + done.stderr, "the client was given the real key"
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_curl_speaks_http2_in_a_tunnel(shared, curl):
    done = curl(shared, "--http2", "-d", "hello", "-w", "\n%{http_version}", "https://api.test/test/echo")
    body, version = done.stdout.rsplit("\n", 1)
    assert version == "2" and json.loads(body)["body"] == "hello" and FINGERPRINT in body


def test_curl_sends_many_at_a_time(shared, curl):
    urls = [f"https://open.test/test/bytes?n={n}000" for n in range(40)]
    done = curl(shared, "--http2", "--parallel", "-w", "%{http_code} %{size_download}\n",
                *[arg for url in urls for arg in ("-o", "/dev/null", url)])  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == sorted(f"200 {n * 1000}" for n in range(40))


def test_curl_with_prior_knowledge_is_proxied(daemon, plain_mock, relay):
    d = daemon({"upstream": {"resolve": {"plain.test": plain_mock.address}}},
               rules=[{"allow": "http://plain.test"}])  # fmt: skip
    port = relay(d).port

    def ask(path):
        return run("curl", "-sS", "--max-time", "20", "--http2-prior-knowledge", "--connect-to", f"::127.0.0.1:{port}",
                   "-w", "\n%{http_code} %{http_version}", f"http://{path}")  # fmt: skip

    assert ask("plain.test/test/echo").endswith("\n200 2")
    assert ask("other.test/test/echo").endswith("\n403 2")


@needs("nghttp")
def test_nghttp(into):
    port = into("open.test:443")
    urls = [f"https://127.0.0.1:{port}/test/bytes?n={n}" for n in (0, 1, 100000)]
    out = run("nghttp", "-s", "-n", "-H", ":authority: open.test", *urls)
    assert len(re.findall(r" 200 ", out)) == 3, out
    big = run("nghttp", "-v", "-H", ":authority: open.test", "--max-concurrent-streams=1",
              f"https://127.0.0.1:{port}/test/trailers")  # fmt: skip
    assert "x-sum: 7" in big and "RST_STREAM" not in big


@needs("h2load")
def test_h2load(into):
    port = into("open.test:443")
    out = run("h2load", "-n", "2000", "-c", "4", "-m", "32", f"--connect-to=127.0.0.1:{port}",
              "https://open.test/test/bytes?n=100")  # fmt: skip
    assert "2000 succeeded, 0 failed, 0 errored" in out, out
    assert "Application protocol: h2" in out


@needs("node")
@pytest.mark.parametrize("kind", ["tunnel", "streams"])
def test_node(shared, relay, kind):
    script = os.path.join(HERE, "h2_peer.js")
    answers = json.loads(run("node", script, kind, str(relay(shared).port), shared.ca))
    count = 40 if kind == "tunnel" else 20
    assert [a["length"] for a in answers[:count]] == [n * 1000 for n in range(count)]
    statuses = [a["status"] for a in answers]
    assert statuses[: count + 2] == [200] * (count + 1) + [403]
    assert set(statuses[count + 2 :]) <= {200}


def test_httpx(shared, relay):
    script = """
import httpx, os
with httpx.Client(http2=True, verify=os.environ["CA"], proxies=os.environ["PROXY"]) as client:
    for n in range(20):
        answer = client.post("https://open.test/test/echo", content=b"x" * (n * 5000))
        assert answer.http_version == "HTTP/2" and answer.status_code == 200
        assert answer.json()["body_bytes"] == n * 5000
    with client.stream("GET", "https://open.test/test/sse?n=3&ms=10") as answer:
        assert len(list(answer.iter_lines())) == 6
    refused = client.get("https://other.test/")
    print(refused.status_code, refused.http_version, refused.json()["keyhole"]["reason"])
"""
    try:
        import h2  # noqa: F401
        import httpx  # noqa: F401
    except ImportError:
        pytest.skip("python3-httpx or python3-h2 is not installed")
    out = run("/usr/bin/python3", "-c", script, CA=shared.ca, PROXY=relay(shared).url)
    assert out == "403 HTTP/2 no_rule\n"


@needs("javac")
def test_java(shared, relay, tmp_path):
    store = str(tmp_path / "trust.p12")
    run("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", shared.ca, "-keystore", store,
        "-storetype", "PKCS12", "-storepass", "changeit")  # fmt: skip
    out = run("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", f"-Djavax.net.ssl.trustStore={store}",
              "-Djavax.net.ssl.trustStorePassword=changeit", os.path.join(HERE, "H2Peer.java"),
              str(relay(shared).port))  # fmt: skip
    assert out.splitlines() == ["HTTP_2 200"] * 21
