"""The short form of `make agents`: Claude Code and Codex with a tool call, and a library, with nothing but placeholders."""

import os
import re
import shutil
import subprocess

import agents
import pytest
import report
from harness import KEYHOLE
from memory_search import forms, found, in_use, may_read


def check(place, done):
    """It ended well, the mock saw the real key alone, and each request stands in the journal."""
    assert done.status == 0 and not done.late, done.said
    assert place.end() in done.output, done.said
    secret = agents.SECRET
    assert secret not in done.said
    seen = place.llm.requests()
    assert {e["key"] for e in seen if e["key"]} == agents.real_keys(place.agent), "the real key, and no placeholder"
    assert place.wrong() == [], "no request that the API does not know"
    with open(place.journal, encoding="utf-8") as file:
        assert secret not in file.read()
    opened = {r["url.path"] for r in place.records() if r["event"] == "open"}
    assert {e["target"].partition("?")[0] for e in seen} <= opened
    subprocess.run([KEYHOLE, "audit", "verify", place.journal], check=True, timeout=30, capture_output=True)


def sizes(place):
    """Of each request: its path, and the bytes of its content and of its answer's. What the stand-in saw, and what the journal says."""
    upgraded = {(e["conn"], e["target"]) for e in place.llm.requests() if "upgrade" in e["fields"]}
    seen = sorted((e["target"].partition("?")[0], e["body_bytes"], e["sent"]) for e in place.llm.events("done")
                  if (e["conn"], e["target"]) not in upgraded)  # fmt: skip
    paths = {r["id"]: r["url.path"] for r in place.records() if r["event"] == "open"}
    said = sorted((paths[r["id"]], r.get("http.request.body.size", 0), r.get("http.response.body.size", 0))
                  for r in place.records() if r["event"] == "close" and r.get("http.response.status_code") != 101)  # fmt: skip
    return seen, said


def nowhere_in_memory(place, processes):
    """Of what runs in the sandbox; what keyhole keeps on the host is tests/integration/test_where_a_value_lives.py's."""
    assert {"keyhole-init", "claude"} <= set(processes.values()), processes
    if not all(may_read(pid) for pid in processes):
        return
    needles = [(f"{variable}, {form}", text) for variable, value in place.secrets.items() for form, text in forms(value.encode())
               if form in ("raw", "base64 at 0", "UTF-16LE")]  # fmt: skip
    hits = {name: found(pid, [("placeholder", b"sk-ant-api03-"), *needles], in_use(pid)) for pid, name in processes.items()}
    assert hits["claude"], "the search finds what is there"
    assert [hit for several in hits.values() for hit in several if hit[0] != "placeholder"] == []


def made(place):
    with open(os.path.join(place.project, "made.txt"), encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("variable, carrier", [("ANTHROPIC_API_KEY", "x-api-key"), ("ANTHROPIC_AUTH_TOKEN", "authorization"),
                                               ("CLAUDE_CODE_OAUTH_TOKEN", "authorization")])  # fmt: skip
def test_claude_code_runs_a_tool_with_nothing_but_a_placeholder(place, variable, carrier):
    here = place("claude", [variable])
    done = here.once("tool")
    check(here, done)
    assert made(here) == "from-the-shell\n" and here.refused() == []
    seen, said = sizes(here)
    assert seen == said and max(seen)[1] > 10_000 and max(seen)[2] > 500, "the journal has the size of each call"
    for event in here.llm.requests():
        if event["target"].startswith("/v1/messages"):
            assert {"x-api-key", "authorization"} & set(event["fields"]) == {carrier}


def test_claude_code_runs_a_tool_by_bedrock_with_requests_that_keyhole_signs(place):
    """What it signs with in the sandbox is a placeholder, and its answers are event streams."""
    here = place("claude-bedrock")
    done = here.once("tool")
    assert done.status == 0 and here.end() in done.output, done.said
    assert made(here) == "from-the-shell\n" and here.refused() == [] and here.wrong() == []
    assert {e["key"] for e in here.llm.requests()} == {agents.fingerprint(here.secrets["AWS_ACCESS_KEY_ID"].encode())}
    assert any(e["target"].endswith("/invoke-with-response-stream") for e in here.llm.requests())
    assert report.incomplete(here) == ""


@pytest.mark.parametrize("how, reason", [("reset", "upstream_closed"), ("fault", None)])
def test_claude_code_asks_again_where_an_answer_breaks_off(place, how, reason):
    here = place("claude")
    done = here.once(how)
    assert report.what_became(here, done, how) == ("asks again, 2 times in all", ""), done.said
    ends = [r.get("reason") for r in here.records() if r["event"] == "close"]
    assert ends.count(reason) == (1 if reason else len(ends)), "the journal says which answer is not whole"


def test_claude_code_needs_no_proxy_variables(place):
    here = place("claude")
    check(here, here.without_variables("tool"))
    assert made(here) == "from-the-shell\n"


@pytest.mark.parametrize("websocket", [True, False])
def test_codex_runs_a_tool_and_asks_for_nothing_that_is_refused(place, tmp_path, websocket):
    """Where the API has no WebSocket it goes on with requests."""
    with agents.mock_api(str(tmp_path / "its"), **({} if websocket else {"MOCK_NO_WEBSOCKET": "1"})) as llm:
        here = place("codex", llm=llm)
        check(here, here.once("tool"))
        assert made(here) == "from-the-shell\n" and here.refused() == []
        assert ("POST" in {e["method"] for e in llm.requests()}) is not websocket


def test_claude_code_reaches_its_prompt_without_a_question_in_a_fresh_home(place):
    here = place("claude")
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    terminal = agents.Terminal(here, "claude")
    try:
        shown, ready = terminal.wait(lambda text: re.search(here.agent.ready, text), 30)
        assert ready, shown
        shown, done, _ = terminal.converse("tool")
        assert done, shown
        nowhere_in_memory(here, terminal.inside())
        assert terminal.leave() == 0
    finally:
        terminal.close()
    assert made(here) == "from-the-shell\n" and here.refused() == [] and here.wrong() == []


def test_a_library_works_plain_streamed_and_with_a_tool(installed, llm, tmp_path):
    library = agents.BY_NAME["anthropic"]
    path = installed(agents.path_of)
    installed(agents.install_library, library)
    here = agents.Place(library, str(tmp_path / "sdk"), llm, path)
    done = here.library()
    check(here, done)
    for what in ("plain", "streamed", "after the tool"):
        assert f"{what}: All done." in done.output, done.said
    assert "counted: true" in done.output
    seen, said = sizes(here)
    assert seen == said and len(seen) > 3, "the journal has the size of each call"
