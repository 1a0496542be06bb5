#!/usr/bin/python3
"""report.py - runs every agent as a person would, and writes what came of it into docs/agents.md

Each is installed (build/agents), and runs: one prompt in a fresh home; a conversation that runs a shell command,
reads and edits a file, asks for a host that is refused, and commits; one more prompt in that home; and the
conversation at a terminal, from a fresh home. Without arguments all are run and the page is written; with names,
only these, and the table is only printed.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from agents import AGENTS, LIBRARIES, ROOT, SECRET, Missing, Place, Terminal, path_of, stand_in
from llm import key_of
from mock_upstream import fingerprint

PAGE = os.path.join(ROOT, "docs", "agents.md")
BEGIN, END = "<!-- `make agents` writes what follows -->\n", "<!-- `make agents` has written what is above -->\n"
READY_SECONDS = 90


class Row:
    """What became of one of them."""

    def __init__(self, title, package):
        self.title, self.version, self.package = title, package.version, package.package.rpartition("@")[0]
        self.ran, self.failed, self.notes = [], [], []
        self.reached, self.refused, self.leaks, self.scanned = set(), set(), [], 0

    def tell(self, what, why):
        """`why`: nothing where it worked."""
        (self.failed if why else self.ran).append(f"{what}: {why}" if why else what)
        print(f"   {self.title}: {what}: {why or 'works'}", flush=True)

    def look(self, place):
        self.reached |= set(place.reached())
        self.refused |= {re.sub(r"^(\S+ \w+://[^/]+/?).*", r"\1", one) for one in place.refused()}
        self.leaks += place.leaks()
        self.scanned += place.scanned()
        keys = {e["key"] for e in place.llm.requests() if e["key"]}
        real = {fingerprint(key_of(host, SECRET).encode()) for host in place.agent.hosts}
        if keys - real:
            self.failed.append("another key than the real one arrived")
        self.failed += [f"{e['status']} for {e['method']} https://{e['host']}{e['target']}: {e['why']}" for e in place.wrong()]


def plain(text):
    """One line of what a program said, for a cell of a table."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("keyhole: ", " > "))]
    return (lines[-1] if lines else "it said nothing")[:160].replace("|", "\\|")


def why_not(place, done):
    if done.late:
        return f"not done in {done.seconds:.0f} s"
    failed = re.search(r"FAILED: .*", done.said)
    if failed:
        return plain(failed[0])
    if done.status != 0:
        return f"exit status {done.status}: {plain(done.said)}"
    return "" if place.end() in done.said else f"no answer: {plain(done.output)}"


def at_terminal(row, place):
    agent = place.agent
    terminal = Terminal(place, agent.name, *agent.at_terminal)
    try:
        shown, ready = terminal.wait(lambda text: re.search(agent.ready, text), READY_SECONDS)
        if not ready:
            row.tell("terminal", "no prompt: " + plain(shown))
            return
        shown, done, asked = terminal.converse("work")
        why = "" if done else "not done: " + plain(shown)
        row.tell("terminal", why or ", ".join(place.worked()))
        if asked:
            row.notes.append(f"asked {asked} times whether to do it")
        status = terminal.leave()
        if done and status != 0:
            row.notes.append(f"exit status {status} after {agent.leave}" if status else f"{agent.leave} does not end it")
    finally:
        terminal.close()


def run_agent(agent, folder):
    row = Row(agent.title, agent)
    path = path_of(agent)
    for number, scripts in enumerate([["hello"], ["work", "hello"], []]):
        here = os.path.join(folder, f"{agent.name}{number}")
        with stand_in(os.path.join(here, "mock")) as llm:
            place = Place(agent, os.path.join(here, "place"), llm, path)
            for nth, script in enumerate(scripts):
                done = place.once(script)
                why = why_not(place, done)
                if script == "work":
                    row.tell("conversation", why or ", ".join(place.worked()))
                else:
                    row.tell("second run" if nth else "one prompt", why)
            if not scripts:
                at_terminal(row, place)
            row.look(place)
    return row


def run_library(library, folder):
    row = Row(library.package.rpartition("@")[0], library)
    here = os.path.join(folder, "sdk-" + library.name)
    with stand_in(os.path.join(here, "mock")) as llm:
        place = Place(library, os.path.join(here, "place"), llm)
        done = place.library()
        whole = all(f"{what}: All done." in done.output for what in ("plain", "streamed", "after the tool"))
        row.tell("plain, streamed, tool call", why_not(place, done) or ("" if whole else plain(done.output)))
        shutil.rmtree(os.path.join(place.project, "node_modules"))
        row.look(place)
    return row


def cells(row):
    works = "yes" if not row.failed else "**no**: " + "; ".join(row.failed)
    hosts = ", ".join(f"`{host}`" for host in sorted(row.reached)) or "none"
    refused = ", ".join(f"`{one}`" for one in sorted(row.refused)) or "none"
    found = "**" + ", ".join(row.leaks) + "**" if row.leaks else f"no ({row.scanned} files)"
    return [row.title, row.version, works, "; ".join([", ".join(row.ran) or "nothing", *row.notes]), hosts, refused, found]


def table(rows):
    heads = ["agent", "version", "works", "what ran", "hosts reached", "refused", "key found inside"]
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *(cells(row) for row in rows)])


def write(rows):
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text[:begin] + "\n" + table(rows) + "\n\n" + text[end:])


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs is ended
    wanted = set(sys.argv[1:])
    rows = []
    folder = tempfile.mkdtemp(prefix="keyhole-agents.")
    try:
        for one in [*AGENTS, *LIBRARIES]:
            if wanted and one.name not in wanted:
                continue
            try:
                rows.append(run_agent(one, folder) if one in AGENTS else run_library(one, folder))
            except (Missing, OSError, AssertionError, subprocess.SubprocessError) as why:
                row = Row(getattr(one, "title", one.package.rpartition("@")[0]), one)
                row.tell("not run", plain(str(why)))
                rows.append(row)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(rows))
    if not wanted:
        write(rows)
    return 1 if any(row.failed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
