"""Claude Code, as npm brings it, works in the sandbox with nothing but a placeholder."""

import json
import os
import subprocess

import pytest
from harness import FINGERPRINT, KEYHOLE, SECRET, read_journal

RUN_SECONDS = 90


@pytest.fixture
def claude(npm_package):
    folder = npm_package("@anthropic-ai/claude-code")
    program = os.path.realpath(os.path.join(folder, "node_modules/.bin/claude"))
    if not os.access(program, os.X_OK):
        pytest.skip("the package holds no program for this machine")
    return folder, program


@pytest.fixture
def outside(tmp_path, anthropic):
    """The configuration and the journal, in a folder that no sandbox sees."""
    config = {
        "version": 1,
        "upstream": {"ca_file": anthropic.ca, "resolve": {"api.anthropic.com": anthropic.address}},
        "audit": {"file": str(tmp_path / "audit.jsonl")},
        "tenants": {"agents": {"rules": [{"use": "anthropic"}]}},
    }
    path = tmp_path / "keyhole.yaml"
    path.write_text(json.dumps(config))
    return path, tmp_path / "audit.jsonl"


def run(outside, claude, variable, *args):
    folder, program = claude
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), variable: SECRET}
    try:
        return subprocess.run(
            [KEYHOLE, "run", "-c", str(outside[0]), "--workspace", folder + ":ro", "--", program, *args],
            env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"not done in {RUN_SECONDS} s: {late.stdout} {late.stderr}") from None


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_it_answers_a_prompt_with_nothing_but_a_placeholder(outside, claude, anthropic, variable):
    done = run(outside, claude, variable, "-p", "Say hello.")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"fingerprint {FINGERPRINT}" in done.stdout, "the mock's answer, made from the real key"
    assert SECRET not in done.stdout + done.stderr

    seen = anthropic.requests()
    asked = [e for e in seen if e["method"] == "POST" and e["target"].startswith("/v1/messages")]
    assert asked, "it asked the Messages API"
    assert {e["key"] for e in seen if e["key"]} == {FINGERPRINT}, "the real key, and no placeholder"
    carrier = "x-api-key" if variable == "ANTHROPIC_API_KEY" else "authorization"
    other = {"x-api-key": "authorization", "authorization": "x-api-key"}[carrier]
    for event in asked:
        assert carrier in event["fields"] and other not in event["fields"]

    with open(outside[1], encoding="utf-8") as file:
        assert SECRET not in file.read()
    records = read_journal(outside[1])
    opened = [r for r in records if r["event"] == "open"]
    assert [r for r in opened if r["url.path"] == "/v1/messages"]
    for event in seen:
        path = event["target"].partition("?")[0]
        assert [r for r in opened if r["url.path"] == path], f"{path} is not in the journal"
    subprocess.run([KEYHOLE, "audit", "verify", str(outside[1])], check=True, timeout=30)

