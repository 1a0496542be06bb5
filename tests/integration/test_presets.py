"""Presets: each does what its own cases say, the page lists them, and git is held to github's rules."""

import base64
import glob
import json
import os
import re
import subprocess

import pytest
from common import KEYHOLE
from harness import ROOT, SECRET
from origins import Services
from test_peers import needs

yaml = pytest.importorskip("yaml")

FILES = sorted(glob.glob(os.path.join(ROOT, "policies", "*.yaml")))
NAMES = [os.path.basename(path)[:-5] for path in FILES]
# What people need on the first day.
WANTED = """anthropic openai codex gemini vertex azure-openai bedrock openrouter mistral groq deepseek xai huggingface
    github gitlab npm pypi crates go maven rubygems debian ubuntu alpine docker-hub ghcr sentry otel-collector""".split()


def read(name):
    with open(os.path.join(ROOT, "policies", name + ".yaml"), encoding="utf-8") as file:
        return yaml.safe_load(file)


def run(*args, **env):
    return subprocess.run([KEYHOLE, *args], capture_output=True, text=True, timeout=60, check=False,
                          env={"PATH": os.environ["PATH"], "KEYHOLE_PRESETS": os.path.join(ROOT, "policies"), **env})  # fmt: skip


@pytest.fixture(scope="module")
def results():
    done = run("check", "--presets", "--json")
    return {one["preset"]: one for one in json.loads(done.stdout)}


def test_what_people_need_on_the_first_day_is_there():
    assert sorted(WANTED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_passes_its_own_cases(results, name):
    assert results[name]["diagnostics"] == [] and results[name]["ok"]
    cases = read(name)["expect"]
    assert results[name]["cases"] == len(cases) >= 4
    assert any("allow" in case for case in cases) and any("deny" in case for case in cases)


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_names_the_page_of_its_hosts(name):
    source = read(name)["source"]
    for page in source if isinstance(source, list) else [source]:
        assert re.fullmatch(r"https://[a-z0-9.-]+/\S*", page), page


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_a_case(name):
    preset = read(name)
    named = set().union(*(case.get("with", {}) for case in preset["expect"]))
    missing = set(preset.get("parameters", {})) - named - {"versions"}
    assert missing == set()


@pytest.mark.parametrize("name", NAMES)
def test_what_carries_a_key_and_is_telemetry_is_denied(name):
    for case in read(name)["expect"]:
        url = case.get("allow", "")
        if re.search(r"event_logging|/metrics|analytics|/otlp/|play\.googleapis|statsig", url):
            assert case.get("with", {}).get("telemetry") or name == "otel-collector", url


def test_the_page_lists_every_preset_with_its_parameters_and_variables():
    with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as file:
        text = file.read()
    table = text[text.index("| preset | what it opens |") :].split("\n\n")[0].splitlines()[2:]
    rows = {}
    for line in table:
        name, _, parameters, variables = (cell.strip() for cell in line.strip("|").split(" | "))
        rows[name.strip("`")] = (parameters, variables)
    assert sorted(rows) == NAMES
    for name, (parameters, variables) in rows.items():
        preset = read(name)
        assert set(re.findall(r"`([a-z_]+)`(?= \(|,|:|$)", parameters)) >= set(preset.get("parameters", {})), name
        envs = {c["value"]["env"] for c in (preset.get("credentials") or {}).values()}
        assert set(re.findall(r"`([A-Z0-9_]+)`", variables)) == envs, name
        for key, one in preset.get("parameters", {}).items():
            if isinstance(one.get("default"), bool):
                assert f"`{key}` (`{str(one['default']).lower()}`)" in parameters, (name, key)


def test_all_presets_go_together(tmp_path):
    needed = {"azure-openai": "resources: mine", "sentry": "orgs: o1", "otel-collector": "hosts: otel.example.com"}
    uses = ", ".join(f"{{ use: {{ {name}: {{ {needed.get(name, '')} }} }} }}" for name in NAMES)
    (tmp_path / "k.yaml").write_text(f"version: 1\ntenants: {{ t: {{ rules: [ {uses} ] }} }}\n")
    done = run("check", "-c", str(tmp_path / "k.yaml"))
    assert (done.returncode, done.stderr) == (0, "")


BAD = [
    ("{ github: { repo: a/b } }", "3:21", 'preset "github" has no parameter "repo" (did you mean "repos"?)'),
    ("{ github: { pus: true } }", "3:21", 'preset "github" has no parameter "pus" (did you mean "push"?)'),
    ("{ github: { push: 1 } }", "3:27", 'github.push: expected true or false, got "1"'),
    ("{ github: { repos: a } }", "3:28", "github.repos: expected OWNER/NAME without .git, where * stands for any name, got \"a\""),
    ("{ github: { repos: [ a/b, \"**/x\" ] } }", "3:35", "github.repos: expected OWNER/NAME without .git"),
    ("{ bedrock: { regions: \"us-east-1.evil.example/\" } }", "3:31", "bedrock.regions: expected one label of a host"),
    ("{ bedrock: { regions: \"*\" } }", "3:31", "bedrock.regions: expected one label of a host"),
    ("{ otel-collector: { hosts: \"*.example.com\" } }", "3:36", "otel-collector.hosts: expected a host's name"),
    ("{ vertex: { verbs: predicts } }", "3:28", "got \"predicts\" (did you mean \"predict\"?)"),
    ("{ npm: { scope: x } }", "3:18", 'preset "npm" has no parameters: it is used as "use: npm"'),
    ("azure-openai", "3:9", 'preset "azure-openai" needs the parameter "resources"'),
]  # fmt: skip


@pytest.mark.parametrize("use, place, says", BAD)
def test_a_wrong_parameter_is_said_where_it_stands(tmp_path, use, place, says):
    path = tmp_path / "k.yaml"
    path.write_text("version: 1\ntenants: { t: { rules: [\n { use: " + use + " } ] } }\n")
    done = run("check", "-c", str(path))
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path}:{place}: error: ") and says in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_explain_names_the_preset_and_its_line(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text("version: 1\ntenants:\n  a: { rules: [ { use: { github: { repos: o/x, push: true } } } ] }\n"
                    "  b: { rules: [ { use: { github: { repos: [ o/y ] } } } ] }\n")  # fmt: skip
    url = "https://github.com/o/x.git/git-receive-pack"
    push = run("explain", "-c", str(path), "--tenant", "a", "POST", url)
    file = os.path.join(ROOT, "policies", "github.yaml")
    assert push.returncode == 0
    assert re.search(rf'^allow, by {file}:\d+: allow "POST {re.escape(url)}"$', push.stdout, re.M)
    assert "credential: github-basic" in push.stdout
    for tenant, other in (("a", url.replace("o/x", "o/y")), ("b", url), ("b", url.replace("o/x", "o/y"))):
        done = run("explain", "-c", str(path), "--tenant", tenant, "POST", other)
        assert done.returncode == 3
        assert f'by {file}:' in done.stdout and "git-receive-pack" in done.stdout


def test_a_case_that_fails_is_said_with_its_line(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "description: d\nsource: https://docs.example.com/\nparameters:\n"
        "  hosts: { type: host, default: a.example, doc: d }\n"
        "rules: [ { allow: \"GET https://{hosts}/x\" } ]\nexpect:\n"
        "  - allow: \"GET https://a.example/x\"\n"
        "  - deny: \"GET https://a.example/x\"\n"
        "  - { with: { hosts: b.example }, allow: \"GET https://a.example/x\" }\n"
    )
    done = run("check", "--presets", KEYHOLE_PRESETS=str(tmp_path))
    assert done.returncode == 1
    assert [line.split(": expect: ")[0] for line in done.stderr.splitlines()] == [
        f"{tmp_path}/mine.yaml:8:11: error", f"{tmp_path}/mine.yaml:9:42: error"]  # fmt: skip
    (tmp_path / "mine.yaml").write_text("description: d\nrules: []\n")
    done = run("check", "--presets", KEYHOLE_PRESETS=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f'{tmp_path}/mine.yaml:1:1: warning: preset "mine" names no `source` of its hosts',
        f'{tmp_path}/mine.yaml:1:1: warning: preset "mine" has no cases (`expect`)']  # fmt: skip
    done = run("check", "--presets", KEYHOLE_PRESETS=str(tmp_path / "none"))
    assert done.returncode == 1 and "there is no preset in" in done.stderr
    assert run("check", "--presets", "-c", "x").returncode == 2
