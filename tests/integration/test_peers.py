"""Real clients and real servers, each with the ways of its own, on both sides of keyhole."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time

import pytest
from harness import SECRET, Tunnel, until
from origins import Aiohttp, HastyNode, HttpServer, NginxOrigin, Node, Services
from upstream import PATTERN

MIB = 1024 * 1024
HOSTS = ["peer.test"] + [f"n{n}.peer.test" for n in range(24)]


def python_has(module):
    return subprocess.run(["/usr/bin/python3", "-c", "import " + module], capture_output=True,
                          check=False).returncode == 0  # fmt: skip


def needs(program):
    found = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    return pytest.mark.skipif(not found, reason=program + " is not installed")


def needs_python(module):
    return pytest.mark.skipif(not python_has(module), reason=f"python3-{module} is not installed")


@pytest.fixture
def through(daemon, tmp_path):
    """through(Origin, …): keyhole before a server of that kind, as peer.test; (daemon, origin)."""
    running = []

    def start(kind, *args, overrides=None, **options):
        origin = kind(str(tmp_path / "origin"), HOSTS, *args)
        running.append(origin)
        config = {
            "upstream": {"ca_file": origin.ca, "resolve": {name: origin.pins["tls"] for name in HOSTS}},
            "worker": {"threads": 1},
            **(overrides or {}),
        }
        return daemon(config, rules=options.pop("rules", [{"allow": "https://peer.test"}]), **options), origin

    yield start
    for origin in running:
        origin.stop()


@pytest.fixture
def inside(relay):
    """inside(daemon, command…): a program that knows the proxy and the CA by its environment."""

    def run(daemon, *command, cwd=None, status=0, **env):
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=90, check=False,
            env={
                "PATH": os.environ["PATH"], "HTTPS_PROXY": relay(daemon).url, "https_proxy": relay(daemon).url,
                "SSL_CERT_FILE": daemon.ca, "REQUESTS_CA_BUNDLE": daemon.ca, "NODE_EXTRA_CA_CERTS": daemon.ca,
                "GIT_SSL_CAINFO": daemon.ca, "CA": daemon.ca, "NODE_USE_ENV_PROXY": "1", **env,
            },
        )  # fmt: skip
        assert SECRET not in done.stdout + done.stderr, "the client was given the real key"
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    return run


def python(inside, daemon, script, **env):
    return inside(daemon, "/usr/bin/python3", "-c", script, **env)


# --- curl -----------------------------------------------------------------------------------------


@pytest.fixture
def ask(shared, curl):
    """ask(args…): curl's answer from the echo, which has to be a good one."""

    def run(*args, path="/test/echo", **options):
        done = curl(shared, *args, "https://api.test" + path, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("version", ["--http1.1", "--http1.0 --no-alpn", "--http2", "--no-alpn"])
def test_curl_whatever_version_it_asks_for(ask, version):
    assert json.loads(ask(*version.split(), "-d", "hello"))["body"] == "hello"


@pytest.mark.parametrize("form", ["file", "file with Expect", "chunks", "chunks with Expect", "form"])
def test_curl_uploads(ask, tmp_path, form):
    file = tmp_path / "big"
    file.write_bytes(PATTERN * 40)
    args = ["-T", str(file)]
    if form.startswith("chunks"):
        args += ["-H", "Transfer-Encoding: chunked"]
    if form.endswith("Expect"):
        args += ["-H", "Expect: 100-continue", "--expect100-timeout", "10"]
    if form == "form":
        args = ["-F", f"part=@{file}"]
    seen = json.loads(ask(*args))
    if form == "form":
        assert seen["body_bytes"] > 40 * len(PATTERN)
    else:
        assert seen["body_sha256"] == hashlib.sha256(PATTERN * 40).hexdigest()


def test_curl_uploads_what_it_reads_as_it_comes(ask):
    seen = json.loads(ask("-T", "-", input="a" * 300_000))
    assert seen["body_bytes"] == 300_000
    assert ["Transfer-Encoding", "chunked"] in seen["fields"]


def test_curl_head_shows_the_length_and_waits_for_nothing(ask):
    assert "content-length: 5000" in ask("-I", path="/test/bytes?n=5000").lower()


@pytest.mark.parametrize("code", [204, 304, 404, 500])
def test_curl_takes_answers_of_any_kind(ask, code):
    assert ask("-o", "/dev/null", "-w", "%{http_code}", path=f"/test/status?code={code}") == str(code)


def test_curl_reuses_its_tunnel(shared, curl):
    urls = ["https://api.test/test/echo?n=%d" % n for n in range(20)]
    done = curl(shared, "-w", "\n%{num_connects}\n", *urls)
    assert [line for line in done.stdout.splitlines() if line in "01"] == ["1"] + ["0"] * 19


def test_curl_in_parallel(shared, curl):
    urls = ["https://api.test/test/bytes?n=%d" % (n * 1000) for n in range(40)]
    done = curl(shared, "--parallel", "--parallel-max", "20", *urls, text=False)
    assert done.returncode == 0 and len(done.stdout) == sum(n * 1000 for n in range(40))


def test_curl_retries_what_keyhole_calls_a_passing_fault(daemon, curl, mock):
    """502 for a dead port: curl asks again as often as it is told to, each time with an answer."""
    one = daemon({"upstream": {"resolve": {"dead.test": "127.0.0.1:1"}}},
                 rules=[{"allow": "https://dead.test"}])  # fmt: skip
    done = curl(one, "--retry", "2", "--retry-delay", "0", "--retry-all-errors", "-f", "https://dead.test/x")
    assert done.returncode == 22
    assert len(one.journal(event="open")) == 3


@needs("nginx")
def test_curl_and_nginx(through, curl):
    """Ranges, compressed answers, and a redirect that keeps method and content."""
    one, origin = through(NginxOrigin)
    text = "".join(f"line {n}\n" for n in range(5000))
    with open(os.path.join(origin.folder, "www", "files", "text"), "w", encoding="ascii") as file:
        file.write(text)

    def get(path, *args):
        done = curl(one, *args, "https://peer.test" + path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert get("/files/text", "-r", "100-199") == text[100:200]
    assert get("/files/text", "-r", "-50") == text[-50:]
    assert "multipart/byteranges" in get("/files/text", "-r", "0-1,5-9", "-D", "-", "-o", "/dev/null")
    assert get("/files/text", "-r", "999999999-", "-o", "/dev/null", "-w", "%{http_code}") == "416"
    packed = get("/packed", "--compressed", "-w", "%{size_download}")
    assert packed.startswith(text) and int(packed[len(text) :]) < len(text) / 2
    mark = origin.mark()
    get("/moved", "-L", "-d", "hello")
    until("nginx has logged both", lambda: len(origin.requests(mark)) == 2)
    moved, arrived = origin.requests(mark)
    assert (moved["method"], moved["path"], moved["status"]) == ("POST", "/moved", 307)
    assert (arrived["method"], arrived["path"], arrived["body"]) == ("POST", "/elsewhere", "hello")
    etag = next(line.split(" ", 1)[1] for line in get("/files/text", "-I").splitlines()
                if line.lower().startswith("etag"))  # fmt: skip
    assert get("/files/text", "-H", f"If-None-Match: {etag}", "-w", "%{http_code}") == "304"


# --- Python's clients -----------------------------------------------------------------------------

HTTPX = """
import hashlib, httpx
with httpx.Client(timeout=20) as client:
    def pieces():
        for n in range(200):
            yield bytes([n]) * 5000
    for turn in range(3):
        answer = client.post("https://peer.test/upload", content=pieces())
        print(answer.json()["bytes"], answer.json()["coding"], answer.json()["connection"])
    digest, size = hashlib.sha256(), 0
    with client.stream("GET", "https://peer.test/bytes?n=8000000") as answer:
        for piece in answer.iter_raw():
            size += len(piece)
    print(size)
"""


@needs_python("httpx")
@needs_python("aiohttp")
def test_httpx_streams_both_ways(through, inside):
    one, _ = through(Aiohttp)
    lines = python(inside, one, HTTPX).splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["1000000", "chunked"]] * 3
    assert len({line.split()[2] for line in lines[:3]}) == 1, "the connection upstream is kept"
    assert lines[3] == "8000000"


AIOHTTP = """
import aiohttp, asyncio, os, ssl

async def main():
    proxy, context = os.environ["HTTPS_PROXY"], ssl.create_default_context(cafile=os.environ["CA"])
    turn = asyncio.Event()
    async def pieces():
        for n in range(20):
            yield b"piece %d;" % n
            await turn.wait()  # until this one has come back
            turn.clear()
    async with aiohttp.ClientSession() as session:
        async with session.post("https://peer.test/echo", data=pieces(), proxy=proxy, ssl=context) as answer:
            seen = b""
            async for piece in answer.content.iter_any():
                seen += piece
                if seen.endswith(b";"):
                    turn.set()
            print(seen.count(b";"))
        async def one(n):
            async with session.post("https://peer.test/x", data=b"y" * n, proxy=proxy, ssl=context) as answer:
                return (await answer.json())["bytes"] == n
        print(all(await asyncio.gather(*(one(n * 100) for n in range(60)))))
asyncio.run(asyncio.wait_for(main(), 60))
"""


@needs_python("aiohttp")
def test_aiohttp_talks_both_ways_at_once(through, inside):
    """Each piece goes up only when the one before has come back: nothing is held on the way."""
    one, _ = through(Aiohttp)
    assert python(inside, one, AIOHTTP) == "20\nTrue\n"


REQUESTS = """
import io, requests
session = requests.Session()
seen = session.post("https://peer.test/a", data={"a": "b" * 50}).json()
print(seen["bytes"], seen["connection"])
seen = session.put("https://peer.test/a", data=io.BytesIO(b"z" * 70000)).json()
print(seen["bytes"], seen["length"])
print(session.get("https://peer.test/old/x").json()["target"])
print(session.head("https://peer.test/x").status_code)
print([session.get("https://other.test/").status_code])
"""


@needs_python("requests")
def test_requests_and_http_server(through, inside):
    """http.server answers in HTTP/1.0 as well, where the connection's end is the answer's."""
    one, _ = through(HttpServer)
    assert python(inside, one, REQUESTS).splitlines() == [
        "52 1", "70000 70000", "/old/x", "200", "[403]"]  # fmt: skip


# --- Node -----------------------------------------------------------------------------------------

AGENT = """
const https = require("https"), net = require("net"), tls = require("tls"), fs = require("fs");
const ca = fs.readFileSync(process.env.CA), proxy = new URL(process.env.HTTPS_PROXY);
class Through extends https.Agent {
  createConnection(options, done) {
    const socket = net.connect(proxy.port, proxy.hostname, () =>
      socket.write(`CONNECT ${options.host}:443 HTTP/1.1\\r\\nHost: ${options.host}:443\\r\\n\\r\\n`));
    let head = "";
    socket.on("data", function read(piece) {
      head += piece.toString("latin1");
      if (!head.includes("\\r\\n\\r\\n")) return;
      socket.removeListener("data", read);
      if (!head.startsWith("HTTP/1.1 200")) return done(new Error(head));
      done(null, tls.connect({ socket, servername: options.host, ca }));
    });
  }
}
const agent = new Through({ keepAlive: true, maxSockets: 4 });
function post(n) {
  return new Promise((good, bad) => {
    const request = https.request("https://peer.test/n" + n, { method: "POST", agent }, (response) => {
      let text = "";
      response.on("data", (piece) => { text += piece; });
      response.on("end", () => good(JSON.parse(text)));
    });
    request.on("error", bad);
    request.write("first,");
    request.end("second " + n);
  });
}
(async () => {
  const seen = [];
  for (let n = 0; n < 60; n += 4)
    seen.push(...await Promise.all([n, n + 1, n + 2, n + 3].map(post)));
  console.log(seen.every((what, n) => what.body === "first,second " + n && what.target === "/n" + n));
  agent.destroy();
})();
"""


@needs("node")
def test_node_keeps_its_connections(through, inside):
    one, origin = through(Node)
    assert inside(one, "node", "-e", AGENT) == "true\n"
    assert len(origin.requests()) == 60
    assert len({e["connection"] for e in origin.requests()}) <= 8, "four at a time"


FETCH = """
(async () => {
  const body = new ReadableStream({ async start(c) {
    for (let n = 0; n < 10; n++) c.enqueue(Buffer.alloc(1000, "x"));
    c.close(); } });
  const answer = await fetch("https://peer.test/up", { method: "POST", body, duplex: "half" });
  const seen = await answer.json();
  console.log(seen.bytes, seen.coding);
})();
"""


@needs("node")
def test_nodes_fetch(through, inside):
    version = subprocess.run(["node", "-p", "process.versions.node.split('.')[0]"], capture_output=True,
                             text=True, check=True).stdout  # fmt: skip
    if int(version) < 24:
        pytest.skip(f"node {version.strip()} knows no NODE_USE_ENV_PROXY")
    one, _ = through(Node)
    assert inside(one, "node", "-e", FETCH) == "10000 chunked\n"


# --- servers --------------------------------------------------------------------------------------


@needs("node")
def test_a_server_that_lets_idle_connections_go_costs_no_request(through):
    """It announces two seconds: requests arrive before, about and after the moment at which it
    closes. None fails, and none is made twice, though a POST can't be sent again."""
    one, origin = through(HastyNode, rules=[{"allow": "https://*.peer.test"}])
    statuses, rested = [], {}

    def client(n):
        # A host of its own: a pool of its own.
        with Tunnel(one, f"n{n}.peer.test") as tunnel:
            before = time.monotonic()
            for turn, pause in enumerate((0, 0.4, 1.97 + n * 0.003, 2.97 + n * 0.003, 0)):
                time.sleep(pause)
                sent = time.monotonic()
                tunnel.start("POST", f"/n{n}.{turn}", body=b"once")
                statuses.append(tunnel.response().status)
                rested[f"/n{n}.{turn}"] = time.monotonic() - before  # its connection: so long at the most
                before = sent

    threads = [threading.Thread(target=client, args=(n,)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * (5 * 24)
    until("Node has logged them", lambda: len(origin.requests(method="POST")) >= len(statuses))
    posts = [e["target"] for e in origin.requests(method="POST")]
    assert len(posts) == len(set(posts)) == len(statuses), "a POST came twice, or not at all"
    used = {e["target"]: e["connection"] for e in origin.requests(method="POST")}
    for n in range(24):
        first, second, third, fourth, fifth = (used[f"/n{n}.{turn}"] for turn in range(5))
        assert len({second, third, fourth}) == 3, "no longer than is safe"
        # On a busy machine a moment may have been longer.
        assert first == second or rested[f"/n{n}.1"] > 0.9, "kept while that is safe"
        assert fourth == fifth or rested[f"/n{n}.4"] > 0.9, "kept while that is safe"


@needs("node")
def test_events_of_node_pass_at_once(through):
    one, _ = through(Node)
    with Tunnel(one, "peer.test") as tunnel:
        tunnel.start("GET", "/events?n=10&ms=100")
        answer, begin, times = tunnel.read_head(), time.monotonic(), []
        for piece in tunnel.pieces(answer):
            times += [time.monotonic() - begin] * piece.count(b"data: ")
    assert len(times) == 10
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert sorted(gaps)[4] > 0.05, f"they came in heaps: {gaps}"


@pytest.mark.parametrize("kind", [HttpServer, pytest.param(Node, marks=needs("node")),
                                  pytest.param(Aiohttp, marks=needs_python("aiohttp"))])  # fmt: skip
def test_many_clients_of_one_server(through, kind):
    one, origin = through(kind)
    problems = []

    def client(n):
        try:
            with Tunnel(one, "peer.test") as tunnel:
                for turn in range(10):
                    body = b"%d.%d;" % (n, turn) * 50
                    seen = tunnel.ask("POST", f"/c{n}", body=body).json()
                    if seen["body"].encode() != body:
                        problems.append(seen)
        except (AssertionError, OSError) as why:
            problems.append(repr(why))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems, problems[:3]
    assert len(origin.requests(complete=True)) == 200


# --- git and npm ----------------------------------------------------------------------------------


@needs("git")
def test_git_clones_and_pushes_with_a_credential_that_it_never_sees(through, inside, tmp_path):
    password = "ghp_" + SECRET[-30:]
    basic = base64.b64encode(f"x-access-token:{password}".encode()).decode()
    one, origin = through(
        Services, password, secret=basic,
        overrides={"credentials": {"main": {"header": {"x-api-key": None, "authorization": "Basic {}"},
                                            "hosts": ["peer.test"]}}},
        rules=[{"allow": "GET,POST https://peer.test/git/**", "credential": "main"}],
    )  # fmt: skip
    home = {"HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b"}  # fmt: skip
    bare = os.path.join(origin.root, "work.git")

    def git(*args, cwd=str(tmp_path), **more):
        return inside(one, "git", *args, cwd=cwd, **home, **more)

    git("init", "-q", "--bare", "-b", "main", bare)
    git("-C", bare, "config", "http.receivepack", "true")
    url = "https://peer.test/git/work.git"
    git("clone", "-q", url, "first")
    first = str(tmp_path / "first")
    # More than http.postBuffer goes in chunks, with Expect; that over HTTP/1.1, since libcurl 7.88 over HTTP/2
    # may ask git for more behind the end of them, and git waits for ever, whoever is at the other end.
    for way in ("http.version=HTTP/1.1", f"http.postBuffer={8 * MIB}"):
        with open(os.path.join(first, "data"), "wb") as file:
            file.write(os.urandom(3 * MIB))
        git("add", ".", cwd=first)
        git("commit", "-q", "-m", "data", cwd=first)
        git("-c", way, "push", "-q", "origin", "HEAD:main", cwd=first)
    versions = {r.get("network.protocol.version", "1.1") for r in one.journal()
                if r.get("http.request.method") == "POST" and r.get("url.path", "").endswith("/git-receive-pack")}
    assert versions == {"1.1", "2"}, versions
    git("clone", "-q", url, "second")
    assert one.journal(**{"network.protocol.version": "2"}), "git speaks HTTP/2 where it is offered"
    with open(tmp_path / "second" / "data", "rb") as ours, open(tmp_path / "first" / "data", "rb") as theirs:
        assert ours.read() == theirs.read()
    git("clone", "-q", "--depth", "1", "-b", "main", url, "third")
    assert all(e["auth"] for e in origin.requests())
    everything = subprocess.run(["grep", "-r", "-l", "-e", basic, "-e", password, str(tmp_path / "first")],
                                capture_output=True, text=True, check=False)  # fmt: skip
    assert everything.stdout == ""


@needs("npm")
def test_npm_installs_a_tree_of_packages(through, inside, tmp_path):
    one, origin = through(Services, "none", rules=[{"allow": "GET https://peer.test/npm/**"}])
    work = tmp_path / "work"
    work.mkdir()
    (work / "package.json").write_text('{"name":"x","version":"1.0.0","dependencies":{"part-0":"1.0.0"}}')
    url = one.ca
    inside(one, "npm", "install", "--no-audit", "--no-fund", cwd=str(work), HOME=str(tmp_path),
           npm_config_registry="https://peer.test/npm/", npm_config_cafile=url,
           npm_config_update_notifier="false")  # fmt: skip
    installed = os.listdir(work / "node_modules")
    assert len([name for name in installed if name.startswith("part-")]) == 24
    tarballs = [e for e in origin.requests() if e["target"].endswith(".tgz")]
    assert len(tarballs) == 24
