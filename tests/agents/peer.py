"""peer.py - the same agents and scripts in keyhole and in sandbox-runtime; writes the tables in docs/agents.md

sandbox-runtime is set up as its README says for an agent that holds no key: the hosts that the preset names are
allowed, TLS is terminated, and each variable with a key is masked. The agent may write to the project, to a home of
its own and to /tmp. The files of the profile, which answer what the agent asks at its first start, are laid into that
home too, without a key. Three things are there for the mock alone: /etc/hosts in a mount namespace of its own,
which names an address of lo; that address among the allowed ones; and the mock's CA.

Without arguments all are run and the page is written; with names, only these, and the tables are only printed.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace

from agents import (AGENTS, BY_NAME, HOSTS, LIBRARIES, PLACE, ROOT, Agent, Missing, Place, Terminal, install, path_of,
                    presets_of, real_keys, mock_api)  # fmt: skip
from report import PAGE, READY_SECONDS, lines_of, plain, why_not

PACKAGE = "@anthropic-ai/sandbox-runtime@0.0.83"
BEGIN, END = "<!-- `make agents-peer` writes what follows -->\n", "<!-- `make agents-peer` has written what is above -->\n"
HEADS = ["agent", "in", "one prompt", "conversation", "second run", "terminal", "without proxy variables", "key found inside"]
ADDRESS = "127.64.64.64"
# Claude Code then runs as root, Node's fetch uses the proxy, and git has a name where Gemini CLI hides its configuration.
VARIABLES = {
    "IS_SANDBOX": "1", "NODE_USE_ENV_PROXY": "1", "GIT_AUTHOR_NAME": "A Person", "GIT_AUTHOR_EMAIL": "person@example.com",
    "GIT_COMMITTER_NAME": "A Person", "GIT_COMMITTER_EMAIL": "person@example.com",
}  # fmt: skip
REFUSAL = "CONNECT tunnel failed, response 403"  # curl's words for its answer
# A program that says what it has of the terminal that it runs at, and a table of that.
AT_TERMINAL = """trap 'echo it is $(stty size) now' WINCH; trap 'echo interrupted; exit 7' INT
(: </dev/tty) 2>/dev/null && echo it has /dev/tty; test -t 0 && echo it waits; while :; do sleep 0.2; done"""
TERMINAL_HEADS = ["in", "`/dev/tty` opens", "hears of another window size", "catches Ctrl-C itself"]
PLAIN_SECONDS = 30  # for what may have no way out, and tries it again and again
# What reads its key from a file alone where it runs at a terminal: with the value that the variable has inside. Its
# background server does not start there.
LOGS_IN = {"codex": "printenv OPENAI_API_KEY | codex login --with-api-key && exec codex --no-daemon"}
# Claude Code remembers the answer with the end of the key, which is another one in each run of sandbox-runtime. The answer
# that it proposes is no.
ASKS_FOR_KEY, TAKE_IT = r"Do you want to use this API key", ["Up", "Enter"]
WITHOUT_WEBSOCKET = "Falling back from WebSockets"  # Codex' words
# Amp and OpenClaw are not compared. Codex takes its key from a variable here, and not from a file, since variables are masked. At a
# terminal it does not look at that variable.
COMPARED = [
    *(replace(agent, keys=["CODEX_API_KEY"]) if agent.name == "codex" else agent
      for agent in AGENTS if agent.name not in ("amp", "openclaw")),
    *LIBRARIES,
]  # fmt: skip


def settings_of(hosts, variables):
    """As a person writes them."""
    return {
        "network": {"allowedDomains": hosts, "deniedDomains": [], "tlsTerminate": {}},
        "filesystem": {"denyRead": [], "allowWrite": [".", "~", "/tmp"], "denyWrite": []},
        "credentials": {"envVars": [{"name": name, "mode": "mask", "injectHosts": hosts} for name in variables]},
    }


def hosts_of(one):
    """Of the rules of its presets, those that there is a mock for."""
    found = set()
    for preset in presets_of(one):
        with open(os.path.join(ROOT, "policies", preset + ".yaml"), encoding="utf-8") as file:
            found |= set(re.findall(r"https://([a-z0-9.*-]+)", file.read()))
    return sorted(found & set(HOSTS))


class Forward:
    """From port 443 of an address of lo to the mock."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.to = (host, int(port))
        self.listener = socket.create_server((ADDRESS, 443), backlog=64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            other = socket.create_connection(self.to)
            for source, target in ((one, other), (other, one)):
                threading.Thread(target=self.copy, args=(source, target), daemon=True).start()

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Peer(Place):
    """A folder in which the agent runs below `srt`."""

    def __init__(self, agent, folder, llm, path=None):
        super().__init__(agent, folder, llm, path)
        self.variables = {**VARIABLES, "HOME": self.home, "NODE_EXTRA_CA_CERTS": llm.ca}
        if isinstance(agent, Agent):
            self.variables |= self.answered(self.home, dict.fromkeys(self.secrets, ""))
        shutil.copy(os.path.join(folder, "person", ".gitconfig"), self.home)

    def environment(self):
        """Without the folders that keyhole alone uses: the agent can't write to them."""
        env = {**super().environment(), **self.variables}
        return {name: value for name, value in env.items() if name not in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")}

    def command(self, *words, options=()):
        """`options` are keyhole's."""
        settings = settings_of(hosts_of(self.agent), self.secrets)
        settings["network"]["allowedDomains"] = [*settings["network"]["allowedDomains"], f"{ADDRESS}:443"]
        names, path = os.path.join(self.folder, "hosts"), os.path.join(self.folder, "srt.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        with open(names, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{ADDRESS} {host}\n" for host in HOSTS))
        lay = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', names]
        return [*lay, os.path.join(PLACE, "srt", "bin", "srt"), "--settings", path, "--", *words[words[0] == "--" :]]


PRODUCTS = [("keyhole", Place, {}), ("sandbox-runtime", Peer, {"MOCK_REFUSAL": REFUSAL})]


class Row:
    """What became of one of them in one product."""

    def __init__(self, one, product, folder):
        self.one, self.folder = one, os.path.join(folder, one.row, product[0])
        self.name, self.kind, self.env = product
        self.cells, self.leaks, self.scanned = dict.fromkeys(HEADS[2:-1], "–"), [], 0

    def run(self):
        if not isinstance(self.one, Agent):
            self.visit(self.library)
        else:
            self.visit(self.prompts)
            if "git says" in self.cells["conversation"]:
                self.visit(self.by_name)
            self.visit(self.terminal, BY_NAME[self.one.row])
        self.visit(self.without_variables)

    def visit(self, does, one=None):
        """In a fresh home and project."""
        here = os.path.join(self.folder, does.__name__)
        with mock_api(os.path.join(here, "mock"), **self.env) as llm, contextlib.ExitStack() as also:
            if self.kind is Peer:
                also.enter_context(contextlib.closing(Forward(llm.address)))
            place = self.kind(one or self.one, os.path.join(here, "place"), llm)
            does(place)
            shutil.rmtree(os.path.join(place.project, "node_modules"), ignore_errors=True)
            self.leaks += place.leaks()
            self.scanned += place.scanned()
            assert {e["key"] for e in llm.requests() if e["key"]} <= real_keys(place.agent), "another key than the real one arrived"

    def prompts(self, place):
        for what, script in zip(self.cells, ["hello", "work", "hello"]):
            done = place.once(script)
            works = "yes, without a WebSocket" if WITHOUT_WEBSOCKET in done.said else "yes"
            self.tell(what, why(place, done) or (", ".join(place.worked()) if script == "work" else ""), works)

    def library(self, place):
        done = place.library()
        whole = all(f"{what}: All done." in done.output for what in ("plain", "streamed", "after the tool"))
        failed = why_not(place, done) or ("" if whole else plain(done.output))
        if failed and not self.one.knows_proxies and (error := re.search(r"connect E[A-Z]+", done.said)):
            failed = f"it uses no proxy, and has no other way out (`{error[0]}`)"
        self.tell("conversation", failed, "yes (plain, streamed, tool call)")

    def by_name(self, place):
        done = place.once("named")
        also = "no" if why(place, done) or place.worked() else "yes"
        self.cells["conversation"] += f"; with `git add FILES`: {also}"

    def terminal(self, place):
        """The conversation of `by_name`: what is compared is the terminal."""
        agent = place.agent
        words = [agent.name, *agent.at_terminal]
        if self.kind is Peer and agent.name in LOGS_IN:
            words = ["sh", "-c", LOGS_IN[agent.name]]
        terminal = Terminal(place, *words)
        try:
            works = "yes"
            shown, ready = terminal.wait(lambda text: re.search(f"{agent.ready}|{ASKS_FOR_KEY}", text), READY_SECONDS)
            if re.search(ASKS_FOR_KEY, shown):
                works = "yes; it first asks whether to use the key"
                terminal.press(*TAKE_IT)
                shown, ready = terminal.wait(lambda text: re.search(agent.ready, text), READY_SECONDS)
            if not ready:
                self.tell("terminal", "no prompt: " + plain(shown), "")
                return
            shown, done, _ = terminal.converse("named")
            failed = "" if done else "not done: " + plain(shown)
            self.tell("terminal", failed or ", ".join(place.worked()), works)
            if (status := terminal.leave()) != 0:
                self.cells["terminal"] += f", but {agent.leave} does not end it" if status is None else f", exit status {status}"
        finally:
            terminal.close()

    def without_variables(self, place):
        done = place.without_variables("hello", seconds=PLAIN_SECONDS)
        failed = why_not(place, done)
        if failed and not place.llm.requests():
            failed = "no request left the sandbox"
        self.tell("without proxy variables", failed, "yes")

    def tell(self, what, failed, works):
        self.cells[what] = f"**no**: {failed}" if failed else works
        print(f"   {self.one.title}, {self.name}: {what}: {failed or works}", flush=True)

    def line(self):
        found = "**" + ", ".join(self.leaks) + "**" if self.leaks else f"no ({self.scanned} files)"
        return [self.one.title, self.name, *self.cells.values(), found if self.scanned else "–"]


def at_terminal(product, folder):
    """A line of the second table."""
    name, kind, env = product
    here = os.path.join(folder, "at-terminal", name)
    with mock_api(os.path.join(here, "mock"), **env) as llm:
        place = kind(AGENTS[0], os.path.join(here, "place"), llm, path_of())
        terminal = Terminal(place, "--", "bash", "-c", AT_TERMINAL, options=["--workspace", "."])
        try:
            shown, ready = terminal.wait(lambda text: "it waits" in text, READY_SECONDS)
            if not ready:
                return [name, *["not run: " + plain(shown)] * 3]
            terminal.tmux("resize-window", "-x", "90", "-y", "30")
            resized = terminal.wait(lambda text: "it is 30 90 now" in text, 10)[1]
            terminal.press("C-c")
            ended = terminal.wait(lambda text: re.search(r"^\S*ended with 7", text, re.M) and "interrupted" in text, 10)[1]
            return [name, *("yes" if one else "no" for one in ("it has /dev/tty" in shown, resized, ended))]
        finally:
            terminal.close()


def why(place, done):
    """Why it failed: git's own words, where it was git (step 5)."""
    said = why_not(place, done)
    told = [turn["text"] for turn in place.turns() if turn["text"].startswith("FAILED: step 5")]
    git = told and re.search(r"^(?:error|fatal): .*$", told[-1], re.M)
    return f"git says `{git[0]}`" if said and git else said


def missing():
    """What this needs besides."""
    programs = [name for name in ("bwrap", "socat", "rg", "tmux", "unshare") if not shutil.which(name)]
    return f"{', '.join(programs)}: not installed" if programs else "" if os.geteuid() == 0 else "it mounts, so it needs root"


def write(tables):
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    before, _, rest = text.partition(BEGIN)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{tables}\n\n{END}{rest.partition(END)[2]}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs is ended
    wanted = set(sys.argv[1:])
    if needs := missing():
        print(f"peer.py: {needs}", file=sys.stderr)
        return 1
    folder = tempfile.mkdtemp(prefix="keyhole-peer.")
    rows = []
    try:
        install("srt", PACKAGE)
        for one in COMPARED:
            for product in PRODUCTS if not wanted or {one.name, one.row} & wanted else []:
                rows.append(Row(one, product, folder))
                try:
                    rows[-1].run()
                except (Missing, OSError, AssertionError, subprocess.SubprocessError) as failed:
                    rows[-1].tell("one prompt", f"not run: {plain(str(failed))}", "")
        terminals = [at_terminal(product, folder) for product in PRODUCTS]
    except Missing as failed:
        print(f"peer.py: {failed}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tables = "\n\n".join([lines_of(HEADS, [row.line() for row in rows]), lines_of(TERMINAL_HEADS, terminals)])
    print(tables)
    if not wanted:
        write(tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
