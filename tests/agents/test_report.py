"""`make agents` where something can't be installed, and what it leaves in the page."""

import json
import os
import re
import subprocess
import sys

import peer
import report
from agents import AGENTS, BY_NAME, HERE, LIBRARIES, NODE, SECRET, Place
from everyday import TOOLS

ONE, BOTH = "HTTP/1.1, to the API HTTP/2", "HTTP/1.1, HTTP/2, to the API HTTP/2; SSE"

NPM = """#!/bin/sh
case "$*" in *node-linux*) exit 0 ;; esac
echo "npm error code E404" >&2
echo "npm error 404 Not Found - GET https://registry.test/the-package" >&2
echo "npm error 404  'the-package@1' is not in this registry." >&2
exit 1
"""


def test_what_cant_be_installed_is_a_row_that_says_why_and_the_others_go_on(tmp_path):
    npm = tmp_path / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "report.py"), "pi", "codex"], capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "KEYHOLE_AGENTS": str(tmp_path / "agents"), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ") and "can't install" in line]
    assert len(rows) == 2 and rows[0].startswith("| Codex |") and rows[1].startswith("| Pi |"), done.stdout
    assert all("code E404, 404  'the-package@1' is not in this registry." in row for row in rows), rows
    assert "registry.test" not in done.stdout
    assert os.path.exists(tmp_path / "agents" / NODE[0] / ".installed")


def test_a_key_that_is_left_in_a_file_is_found(llm, tmp_path):
    place = Place(BY_NAME["pi"], str(tmp_path / "pi"), llm, path="/usr/bin:/bin")
    assert place.leaks() == [] and place.scanned() > 0
    for name, text in (("home/a", SECRET), ("project/b", f"x{SECRET.encode().hex()}x"), ("project/.git/c", SECRET[::-1])):
        with open(os.path.join(place.folder, name), "w", encoding="ascii") as file:
            file.write(text)
    assert sorted(place.leaks()) == ["home/a", "project/.git/c", "project/b"]


ASKS = """ask() { curl -sS --http%s -H "x-api-key: $ANTHROPIC_API_KEY" -H 'anthropic-version: 2023-06-01' -d "$1" \\
  https://api.anthropic.com/v1/messages; }
ask '{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}], "stream": %s}'"""


def test_protocol_and_tokens_are_what_the_journal_and_the_mock_recorded(llm, tmp_path):
    row = report.Row(BY_NAME["anthropic"])
    assert report.protocol(row) == "none" and report.tokens(row) == "none stated"
    place = Place(BY_NAME["anthropic"], str(tmp_path / "place"), llm, path="/usr/bin:/bin")
    for version, streamed, protocol, tokens in (("1.1", "false", ONE, "{} in, 17 out (1 answer)"),
                                                ("2", "true", BOTH, "{} in, 34 out (2 answers)")):  # fmt: skip
        done = place.run("--", "sh", "-c", ASKS % (version, streamed))
        assert done.status == 0 and "fingerprint" in done.output, done.said
        row = report.Row(place.agent)
        row.look(place)
        told = sum(e.get("input", 0) for e in llm.events("usage"))
        assert told > 10 and (report.protocol(row), report.tokens(row)) == (protocol, tokens.format(told))


def test_the_page_has_a_row_for_all_that_is_run_in_the_version_that_is_pinned():
    with open(report.PAGE, encoding="utf-8") as file:
        tables = re.findall(re.escape(report.BEGIN) + "(.*?)" + re.escape(report.END), file.read(), re.S)
    what, besides, tools = [[line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]] for table in tables]
    assert all(len(row) == len(report.HEADS) for row in what)
    assert [row[:2] for row in what] == [[one.title, one.version] for one in [*AGENTS, *LIBRARIES]]
    assert [row[0] for row in besides] == [row[0] for row in what]
    assert [row[0] for row in tools] == [tool.name for tool in TOOLS]
    assert all(len(row) == 2 + len(report.BESIDES) for row in besides) and all(len(row) == 6 for row in tools)


def test_the_page_has_a_row_for_both_products_and_each_that_is_compared():
    with open(report.PAGE, encoding="utf-8") as file:
        text = file.read()
    assert f"sandbox-runtime {peer.PACKAGE.rpartition('@')[2]} " in text
    tables = text.partition(peer.BEGIN)[2].partition(peer.END)[0].strip().split("\n\n")
    rows, terminals = [[line.strip("| ").split(" | ") for line in table.splitlines()] for table in tables]
    assert rows[0] == peer.HEADS and all(len(row) == len(peer.HEADS) for row in rows[2:])
    assert [row[:2] for row in rows[2:]] == [[one.title, name] for one in peer.COMPARED for name, *_ in peer.PRODUCTS]
    assert terminals[0] == peer.TERMINAL_HEADS and [row[0] for row in terminals[2:]] == [name for name, *_ in peer.PRODUCTS]


def test_the_page_has_the_settings_that_sandbox_runtime_is_run_with(llm, tmp_path):
    with open(report.PAGE, encoding="utf-8") as file:
        shown = re.search(r"```json\n(.*?)```", file.read().partition("### Comparison with sandbox-runtime")[2], re.S)[1]
    place = peer.Peer(BY_NAME["claude"], str(tmp_path / "claude"), llm, path="/usr/bin:/bin")
    assert json.loads(shown) == peer.settings_of(peer.hosts_of(place.agent), place.secrets)
