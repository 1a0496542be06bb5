"""What keyhole lets through is read by real servers as the journal says that it was sent.

About a thousand requests on which parsers may differ (ambiguous.py) go to nginx, Node (also with the
parser that takes what it should not), Python's http.server and aiohttp: in absolute-form on plain
HTTP, and inside an intercepted tunnel. Each is refused and reaches nobody, or the server has read
exactly the requests that the journal has, no more and no fewer, with the same method, target, host
and content; the connections upstream are kept and shared, so a request that hides in another would
show as one that nobody asked for.
"""

import functools
import json
import re
import shutil
import socket
import subprocess
import urllib.parse

import pytest
from ambiguous import all_cases
from daemons import Daemons
from harness import PATIENCE, Tunnel, Wire, client_context, until
from origins import Aiohttp, HttpServer, LenientNode, NginxOrigin, Node

CASES = all_cases()
ORIGINS = {"nginx": NginxOrigin, "Node": Node, "lenient Node": LenientNode,
           "http.server": HttpServer, "aiohttp": Aiohttp}  # fmt: skip
NAMES = {"absolute": "plain.test", "tunnel": "tls.test"}
FIRST = {"absolute": "nginx", "tunnel": "Node"}  # where all cases go
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@functools.cache
def missing(name):
    """Why there is no such server here; None where there is one."""
    if name == "aiohttp":
        return None if python_has("aiohttp") else "aiohttp (python3-aiohttp) is not here"
    program = {"nginx": "nginx", "Node": "node", "lenient Node": "node"}.get(name)
    if program and not shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/bin:/bin:/sbin"):
        return f"{program} is not here"
    return None


def python_has(module):
    return subprocess.run(["/usr/bin/python3", "-c", "import " + module], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0  # fmt: skip


class Journal:
    """The records as they come."""

    def __init__(self, daemon):
        self.path, self.offset = daemon.journal_path, 0
        self.pending = []

    def more(self):
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self.offset += len(data)
        self.pending += [json.loads(line) for line in data.splitlines()]

    def settled(self):
        """All that was opened since is closed."""
        self.more()
        opened = {r["id"] for r in self.pending if r["event"] == "open"}
        return opened <= {r["id"] for r in self.pending if r["event"] == "close"}

    def take(self):
        """Return: ([(open, close)], [deny]) of what has happened since."""
        until("every exchange is closed", self.settled, pause=0.0005)
        records, self.pending = self.pending, []
        closes = {r["id"]: r for r in records if r["event"] == "close"}
        opens = [r for r in records if r["event"] == "open"]
        return [(r, closes[r["id"]]) for r in opens], [r for r in records if r["event"] == "deny"]


class Exchange:
    """A case, what the client got and what the journal says."""

    def __init__(self, case, raw, forwarded, denied):
        self.case, self.raw, self.forwarded, self.denied = case, raw, forwarded, denied

    def complain(self, what):
        return f"{self.case.name}: {what}\n  {self.case.data!r}"


def is_whole(pair):
    """The server has answered with 200, and nothing of either message was missing."""
    return pair[1].get("http.response.status_code") == 200 and pair[1].get("complete")


class Setting:
    def __init__(self, daemon, form):
        self.daemon, self.form = daemon, form
        self.context = client_context(daemon.ca)
        self.journal = Journal(daemon)
        self.journal.take()

    def connect(self):
        if self.form == "absolute":
            return Wire(self.daemon.socket_path)
        return Tunnel(self.daemon, NAMES["tunnel"], context=self.context)

    def send(self, case):
        authority = NAMES[self.form].encode()
        absolute = self.form == "absolute"
        raw = b""
        with self.connect() as wire:
            wire.sock.settimeout(0.2 if case.greedy else PATIENCE)
            try:
                wire.send(case.bytes(authority, absolute) + case.last(authority, absolute))
            except OSError:
                pass  # it may have heard enough
            try:
                raw = wire.rest()
            except socket.timeout:
                assert case.greedy, f"no answer and no end: {case.name}"
                raw = wire.buffer
        return Exchange(case, raw, *self.journal.take())


@pytest.fixture(scope="module")
def start(tmp_path_factory, mock):
    """start(origin): its server and a daemon before it; each once."""
    made = {}
    daemons = Daemons([mock])

    def get(name):
        if why := missing(name):
            pytest.skip(why)
        if name not in made:
            origin = ORIGINS[name](str(tmp_path_factory.mktemp("origin")), list(NAMES.values()))
            pins = {NAMES["tunnel"]: origin.pins["tls"], NAMES["absolute"]: origin.pins["plain"]}
            made[name] = origin, daemons(
                {"upstream": {"ca_file": origin.ca, "resolve": pins}, "worker": {"threads": 1}},
                rules=[{"allow": f"https://{NAMES['tunnel']}"}, {"allow": f"http://{NAMES['absolute']}"}],
            )
        return made[name]

    yield get
    daemons.end()
    for origin, _ in made.values():
        origin.stop()


@pytest.fixture(scope="module")
def run(start):
    """run(form, name, cases): sends them through to that server; gives exchanges and what it read."""

    def all_of(form, name, cases):
        origin, daemon = start(name)
        setting = Setting(daemon, form)
        mark = origin.mark()
        exchanges = [setting.send(case) for case in cases]
        whole = sum(is_whole(pair) for e in exchanges for pair in e.forwarded)
        until("the server has logged it", lambda: len(origin.requests(mark, complete=True)) >= whole)
        return exchanges, origin.requests(mark)

    return all_of


@pytest.fixture(scope="module")
def everything(run):
    """everything(form): all cases to one server; the others need not see what is refused."""
    done = {}

    def get(form):
        if form not in done:
            done[form] = run(form, FIRST[form], CASES)
        return done[form]

    return get


@pytest.mark.parametrize("form", NAMES)
def test_what_is_refused_is_refused_in_so_many_words(everything, form):
    exchanges, _ = everything(form)
    refused = [e for e in exchanges if not e.forwarded]
    for e in refused:
        assert e.denied, e.complain("neither forwarded nor refused in the journal")
        first = e.raw.split(b"\r\n\r\n")[0]
        assert re.match(rb"HTTP/1\.1 (4\d\d|501|505) ", first), e.complain(first)
        assert b"\r\nProxy-Status: keyhole; error=http_" in first, e.complain(first)
    assert len(refused) > 500
    # Both answers occur in each family: neither everything nor nothing is waved through. (A head is
    # forwarded before its content is read, so some end in the middle.)
    for family in {case.family for case in CASES}:
        of_family = [e for e in exchanges if e.case.family == family]
        answers = {bool(e.forwarded) and is_whole(e.forwarded[0]) for e in of_family}
        assert answers == {True, False}, f"{family}: {answers}"


# --- what the servers read ------------------------------------------------------------------------


def compare(entry, opened, closed, decoded):
    """What differs between what a server read and what the journal says was sent; None: nothing."""
    path, _, query = entry["target"].partition("?")
    host, port = opened["server.address"], opened["server.port"]
    if port != {"http": 80, "https": 443}[opened["url.scheme"]]:
        host += f":{port}"
    size = closed.get("http.request.body.size", 0)
    names = opened.get("url.query.names", [])
    parts = len([part for part in query.split("&") if part])
    once = urllib.parse.unquote(opened["url.path"], encoding="latin-1")
    seen = entry["path"]
    if seen is not None and not decoded:
        seen = urllib.parse.unquote(seen, encoding="latin-1")
    # To some servers several slashes are one, or two are followed by an authority; rules that deny
    # read paths so as well.
    behind = re.sub("^//[^/]*(?=/|$)", "", once) or "/"
    readings = [None, once, re.sub("/+", "/", once), behind] if path != "*" else [seen]
    both = entry["length"] is not None and entry["coding"] is not None
    pairs = {
        "method": (entry["method"], opened["http.request.method"]),
        "path as sent": (path, opened["url.path"]),
        "path as served": (seen in readings, True),
        "query names": ([n for n in names if n not in query], []),
        "query": (parts, len(names) + opened.get("url.query.unshown", 0)),
        "host": (entry["host"], host),
        "bytes": (entry["bytes"], size),
        "length": (int(entry["length"] or size), size),
        "coding": (entry["coding"] or "chunked", "chunked"),
        "both framings": (both, False),
        "names": ([n for n in entry.get("names", []) if not TOKEN.fullmatch(n)], []),
    }
    return {what: pair for what, pair in pairs.items() if pair[0] != pair[1]} or None


def hold_against(origin, exchange, entries):
    """The entries of the server's log against the exchanges of the journal, one by one."""
    whole = [e for e in entries if e["complete"]]
    sent = [pair for pair in exchange.forwarded if is_whole(pair)]
    assert len(whole) == len(sent), exchange.complain(f"sent {sent}, read {entries}")
    cut = len(exchange.forwarded) - len(sent)
    assert len(entries) - len(whole) <= cut, exchange.complain(f"{entries}")
    for entry, (opened, closed) in zip(whole, sent):
        decoded = isinstance(origin, NginxOrigin)
        differs = compare(entry, opened, closed, decoded)
        assert not differs, exchange.complain(f"{differs}\n  {entry}\n  {opened}")


@pytest.mark.parametrize("form, name", [*FIRST.items(), ("absolute", "lenient Node"),
                                        ("absolute", "http.server"), ("tunnel", "aiohttp")])  # fmt: skip
def test_a_server_reads_what_the_journal_says_was_sent(start, run, everything, form, name):
    exchanges, read = everything(form)
    if FIRST[form] != name:
        exchanges, read = run(form, name, [e.case for e in exchanges if e.forwarded])
    exchanges = [e for e in exchanges if e.forwarded]
    for e in exchanges:
        cited = set(re.findall(rb'"case": ?"(\d+)"', e.raw))
        assert cited <= {b"%d" % e.case.number}, e.complain("another's answer")
    by_case = {}
    for entry in read:
        assert entry.get("case") or "refused" in entry, f"a request that nobody sent: {entry}"
        by_case.setdefault(entry.get("case"), []).append(entry)
    origin, _ = start(name)
    for e in exchanges:
        hold_against(origin, e, by_case.pop(str(e.case.number), []))
    by_case.pop(None, None)
    assert not by_case, f"requests that nobody sent: {by_case}"
    assert len(exchanges) > 300
    kept = max(e["nth"] for e in read if "nth" in e)
    assert kept > 5, "the connections upstream are not kept: nothing could hide on them"
