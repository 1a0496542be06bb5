#!/usr/bin/python3
"""report.py - runs every agent as a person would, and writes what came of it into docs/agents.md

Each is installed (build/agents), and runs: one prompt in a fresh home; a conversation that runs a shell command,
reads and edits a file, asks for a host that is refused, and commits; one more prompt in that home; and the
conversation at a terminal, from a fresh home. Then one prompt inside and outside of the sandbox, by the clock; one
without proxy variables; and three whose answer pauses, is broken off, and ends with an error. Without arguments all
are run and the page is written; with names, only these, and the tables are only printed.
"""

import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import everyday
from agents import AGENTS, KEYHOLE, LIBRARIES, PAUSE_SECONDS, ROOT, Missing, Place, Terminal, path_of, real_keys, mock_api

PAGE = os.path.join(ROOT, "docs", "agents.md")
BEGIN, END = "<!-- `make agents` writes what follows -->\n", "<!-- `make agents` has written what is above -->\n"
READY_SECONDS = 90
TIMES = 3  # of which the median is taken
BESIDE_SECONDS = PAUSE_SECONDS + 150
AT_ONCE = 4  # of what waits more than it works
# What is asked besides, and how its column is called.
BESIDES = {"plain": "without proxy variables", "pause": f"a pause of {PAUSE_SECONDS} s", "reset": "connection broken off",
           "fault": "error in the stream"}  # fmt: skip
HEADS = ["agent", "version", "works", "what ran", "protocol", "hosts reached", "refused", "tokens", "key found inside"]
# How an answer comes piece by piece, by what the mock notes of it.
STREAMS = {"text/event-stream": "SSE", "websocket": "WebSocket", "application/vnd.amazon.eventstream": "AWS event stream"}


class Row:
    """What became of one of them."""

    def __init__(self, one):
        self.title, self.version, self.times, self.besides = one.title, one.version, "–", {}
        self.failed_besides = []
        self.ran, self.failed, self.notes = [], [], []
        self.reached, self.refused, self.leaks, self.scanned, self.dropped = set(), set(), [], 0, 0
        self.versions, self.streams, self.usage = set(), set(), []

    def tell(self, what, why):
        """`why`: nothing where it worked."""
        (self.failed if why else self.ran).append(f"{what}: {why}" if why else what)
        print(f"   {self.title}: {what}: {why or 'works'}", flush=True)

    def beside(self, what, said, why=""):
        """A cell of the second table; `why`: nothing where it worked."""
        self.besides[what] = f"**no**: {why}" if why else said
        if why:
            self.failed_besides.append(what)
        print(f"   {self.title}: {BESIDES[what]}: {why or said}", flush=True)

    def look(self, place, besides=False):
        self.reached |= set(place.reached())
        self.refused |= {re.sub(r"^(\S+ \w+://[^/]+/?).*", r"\1", one) for one in place.refused()}
        self.versions |= {versions_of(place)}
        self.streams |= {STREAMS[e["kind"].partition(";")[0]] for e in place.llm.events("stream")}
        self.usage += [] if besides else place.llm.events("usage")
        self.dropped += sum(r.get("reason") == "sandbox_tls" for r in place.records())
        self.leaks += place.leaks()
        self.scanned += place.scanned()
        if {e["key"] for e in place.llm.requests() if e["key"]} - real_keys(place.agent):
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
    failed = re.search(r"FAILED: .*", done.said) or re.search(r"(?<=rawError=).*", done.said)
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
    row = Row(agent)
    path = path_of(agent)
    for number, scripts in enumerate([["hello"], ["work", "hello"], []]):
        here = os.path.join(folder, f"{agent.row}{number}")
        with mock_api(os.path.join(here, "mock")) as llm:
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
    row = Row(library)
    here = os.path.join(folder, library.folder)
    with mock_api(os.path.join(here, "mock")) as llm:
        place = Place(library, os.path.join(here, "place"), llm)
        done = place.library()
        whole = all(f"{what}: All done." in done.output for what in ("plain", "streamed", "after the tool"))
        row.tell("plain, streamed, tool call", why_not(place, done) or ("" if whole else plain(done.output)))
        look_and_leave(row, place)
    return row


def look_and_leave(row, place, besides=False):
    """A library is no file that a run has left."""
    shutil.rmtree(os.path.join(place.project, "node_modules"), ignore_errors=True)
    row.look(place, besides=besides)


def versions_of(place):
    """The versions of HTTP that the journal says the sandbox used, and those that the mock heard."""
    inside = {"HTTP/" + r.get("network.protocol.version", "1.1") for r in place.records() if r["event"] == "open"}
    return tuple(sorted(inside)), tuple(sorted({e["version"] for e in place.llm.requests()}))


# --- besides --------------------------------------------------------------------------------------


def incomplete(place):
    """What is wrong with the journal: each exchange has its end, each request that arrived its record."""
    records = place.records()
    opened = {r["id"] for r in records if r["event"] == "open"}
    ended = {r["id"] for r in records if r["event"] in ("close", "aborted")}
    if opened != ended:
        return f"{len(opened ^ ended)} records without their other half in the journal"
    missing = {e["target"].partition("?")[0] for e in place.llm.requests()} - {r.get("url.path") for r in records}
    if missing:
        return f"{sorted(missing)} arrived and are not in the journal"
    verified = subprocess.run([KEYHOLE, "audit", "verify", place.journal], check=False, timeout=30, capture_output=True)
    return "" if verified.returncode == 0 else "the journal is not whole"


def by_the_clock(row, one, folder):
    """The median of some runs inside, and of as many outside, by turns, each in a fresh home."""
    inside, outside, knows = [], [], getattr(one, "knows_proxies", True)
    for nth in range(TIMES):
        here = os.path.join(folder, f"{one.row}-times{nth}")
        with mock_api(os.path.join(here, "mock")) as llm:
            place = Place(one, os.path.join(here, "place"), llm)
            runs = [(inside, place.once("hello"))]
            if knows:
                runs.append((outside, place.outside("hello")))
            for times, done in runs:
                if why := why_not(place, done):
                    row.tell("outside" if times is outside else "one prompt, by the clock", why)
                    return
                times.append(done.seconds)
        shutil.rmtree(here)
    row.times = f"{statistics.median(inside):.1f} s, " + (f"{statistics.median(outside):.1f} s" if knows else "–")
    print(f"   {row.title}: inside, outside: {row.times}", flush=True)


def what_became(place, done, how):
    """(for the cell, why it failed) of a prompt whose answer ended otherwise than it should."""
    if not place.llm.events("pause" if how == "pause" else "broken"):
        return "", "no answer was asked for as a stream: " + (why_not(place, done) or "it had another one")
    if why := incomplete(place):
        return "", why
    if done.late:
        return "", f"it hangs: not done in {done.seconds:.0f} s"
    if place.end() in done.said:
        asked = sum(turn["script"] == how for turn in place.turns())
        return ("goes on" if how == "pause" else f"asks again, {asked} times in all"), ""
    if how == "pause":
        return "", why_not(place, done)
    said = re.search(r"^.*error.*$", done.said, re.M | re.I)
    if done.status == 0 and not said:
        return "", "it ends as if nothing had been: " + plain(done.output)
    return f"says so (exit status {done.status})", ""


def run_beside(row, one, what, folder):
    here = os.path.join(folder, f"{one.row}-{what}")
    with mock_api(os.path.join(here, "mock"), MOCK_PAUSE=str(PAUSE_SECONDS)) as llm:
        place = Place(one, os.path.join(here, "place"), llm)
        if what == "plain":
            why = why_not(place, place.without_variables("hello"))
            row.beside(what, "yes", why or incomplete(place))
        else:
            row.beside(what, *what_became(place, place.once(what, seconds=BESIDE_SECONDS), what))
        look_and_leave(row, place, besides=True)
    if row.besides[what].startswith("says so") and getattr(one, "knows_proxies", True):
        with mock_api(os.path.join(here, "again")) as llm:
            done = Place(one, os.path.join(here, "outside"), llm).outside(what, seconds=BESIDE_SECONDS)
            same = llm.events("broken") and done.status != 0 and not done.late
            row.besides[what] += ", as outside" if same else ", unlike outside"
    shutil.rmtree(here)


def run_all_beside(rows, folder):
    """Most of the time nothing happens: a pause, or the time until something is tried again."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        waits = {
            pool.submit(run_beside, row, one, what, folder): (row, what)
            for what in ["pause", "plain", "reset", "fault"] for one, row in rows
        }  # fmt: skip
        for done in concurrent.futures.as_completed(waits):
            row, what = waits[done]
            if why := done.exception():
                row.beside(what, "", plain(f"{type(why).__name__}: {why}"))


# --- the page -------------------------------------------------------------------------------------


def protocol(row):
    inside, heard = [sorted({one for pair in row.versions for one in pair[side]}) for side in (0, 1)]
    said = ", ".join(inside) or "none"
    return "; ".join([said if inside == heard else f"{said}, to the API {', '.join(heard) or 'none'}", *sorted(row.streams)])


def tokens(row):
    """What the mock has said that was used."""
    if not row.usage:
        return "none stated"
    told, ended = [sum(e.get(way, 0) for e in row.usage) for way in ("input", "output")], sum("output" in e for e in row.usage)
    return f"{told[0]:,} in, {told[1]:,} out ({ended} answer{'s' if ended > 1 else ''})"


def cells(row):
    works = "yes" if not row.failed else "**no**: " + "; ".join(row.failed)
    hosts = ", ".join(f"`{host}`" for host in sorted(row.reached)) or "none"
    refused = ", ".join(f"`{one}`" for one in sorted(row.refused)) or "none"
    notes = [*row.notes, *([f"connections dropped in the TLS handshake: {row.dropped}"] if row.dropped else [])]
    found = "**" + ", ".join(row.leaks) + "**" if row.leaks else f"no ({row.scanned} files)"
    ran = "; ".join([", ".join(row.ran) or "nothing", *notes])
    return [row.title, row.version, works, ran, protocol(row), hosts, refused, tokens(row), found]


def lines_of(heads, rows):
    text = "\n".join("| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *rows])
    return text.replace(f"https://{everyday.NPM}/", "npm's registry").replace(f"`{everyday.NPM}`", "npm's registry")


def tables(rows, tools):
    besides = [[row.title, row.times, *(row.besides.get(what, "–") for what in BESIDES)] for row in rows]
    return [
        lines_of(HEADS, [cells(row) for row in rows]),
        lines_of(["agent", "one prompt inside, outside", *BESIDES.values()], besides),
        lines_of(everyday.Row.heads, [row.cells() for row in tools]),
    ]


def write(made):
    """Each table is between a pair of lines of its own."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    begin, *parts = text.split(BEGIN)
    assert len(parts) == len(made), "the page has a place for each table"
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(begin + "".join(f"{BEGIN}\n{one}\n\n{END}{part.partition(END)[2]}" for one, part in zip(made, parts)))


def run_agents(wanted, folder):
    rows, ran = [], []
    for one in [*AGENTS, *LIBRARIES]:
        if wanted and not {one.name, one.row} & wanted:
            continue
        try:
            rows.append(run_agent(one, folder) if one in AGENTS else run_library(one, folder))
            ran.append((one, rows[-1]))
            by_the_clock(rows[-1], one, folder)
        except (Missing, OSError, AssertionError, subprocess.SubprocessError) as why:
            rows += [Row(one)] if not rows or rows[-1].title != one.title else []
            rows[-1].tell("not run", plain(str(why)))
    run_all_beside(ran, folder)
    return rows


def run_tools(wanted, folder):
    chosen = [tool for tool in everyday.TOOLS if not wanted or {"tools", tool.program} & wanted]
    if not chosen:
        return []
    with contextlib.closing(everyday.World(folder)) as world:
        return [everyday.run_tool(tool, folder, world) for tool in chosen]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs is ended
    wanted = set(sys.argv[1:])
    folder = tempfile.mkdtemp(prefix="keyhole-agents.")
    try:
        tools = run_tools(wanted, folder)
        rows = run_agents(wanted, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    made = tables(rows, tools)
    print("\n\n".join(made))
    if not wanted:
        write(made)
    return 1 if any(row.failed or row.failed_besides for row in [*rows, *tools]) else 0


if __name__ == "__main__":
    sys.exit(main())
