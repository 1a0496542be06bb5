"""Presets: each does what its own cases say, the page lists them, and git is held to github's rules."""

import glob
import json
import os
import re
import subprocess
import types

import pytest
from common import KEYHOLE, without_values
from harness import ROOT, SECRET
from origins import Services
from test_peers import needs

yaml = pytest.importorskip("yaml")

FILES = sorted(glob.glob(os.path.join(ROOT, "policies", "*.yaml")))
NAMES = [os.path.basename(path)[:-5] for path in FILES]
# What people need on the first day.
WANTED = """anthropic openai codex gemini vertex azure-openai bedrock openrouter mistral groq deepseek xai huggingface
    github gitlab npm pypi crates go maven rubygems debian ubuntu alpine docker-hub ghcr sentry otel-collector amp""".split()


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
def test_a_file_holds_the_placeholder_of_one_of_the_presets_own_keys(name):
    preset = read(name)
    keys = {one["value"]["env"] for one in (preset.get("credentials") or {}).values()}
    for file in preset.get("files", []):
        assert file["needs"] in keys, file["path"]
        assert set(re.findall(r"\$\{([^}]*)\}", file["content"])) == {file["needs"]}, file["path"]


@pytest.mark.parametrize("name", NAMES)
def test_what_carries_a_key_and_is_telemetry_is_denied(name):
    for case in read(name)["expect"]:
        url = case.get("allow", "")
        if re.search(r"event_logging|/metrics|analytics|/otlp/|play\.googleapis|statsig", url):
            assert case.get("with", {}).get("telemetry") or name == "otel-collector", url


@pytest.mark.parametrize("name", NAMES)
def test_what_a_preset_denies_as_telemetry_is_in_the_one_table_of_it(name):
    """The end of a run counts it apart."""
    with open(os.path.join(ROOT, "src", "policy", "telemetry.c"), encoding="utf-8") as file:
        table = set(re.findall(r'\{ "([^"]+)", (?:"([^"]+)"|NULL),', file.read()))
    assert len(table) >= 7
    for rule in read(name)["rules"]:
        if rule.get("when") == "not telemetry":
            assert re.fullmatch(r"\* https://([^/]+)(/.*)", rule["deny"]).groups() in table, rule


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
    needed = {"azure-openai": "resources: mine", "sentry": "orgs: o1", "otel-collector": "hosts: otel.example.com",
              "go": "modules: [ golang.org/x ]"}  # fmt: skip
    uses = ", ".join(f"{{ use: {{ {name}: {{ {needed.get(name, '')} }} }} }}" for name in NAMES)
    (tmp_path / "k.yaml").write_text(f"version: 1\ntenants: {{ t: {{ rules: [ {uses} ] }} }}\n")
    done = run("check", "-c", str(tmp_path / "k.yaml"))
    assert (done.returncode, without_values(done.stderr)) == (0, "")


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
    ("{ pypi: { scope: x } }", "3:19", 'preset "pypi" has no parameters: it is used as "use: pypi"'),
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
    assert "credential: github-git as basic" in push.stdout
    for tenant, other in (("a", url.replace("o/x", "o/y")), ("b", url)):
        done = run("explain", "-c", str(path), "--tenant", tenant, "POST", other)
        assert done.returncode == 3 and "deny: no_rule" in done.stdout
    done = run("explain", "-c", str(path), "--tenant", "b", "POST", url.replace("o/x", "o/y"))
    assert done.returncode == 3
    assert re.search(rf'^deny: denied_by_rule, by {file}:\d+: deny "https://github.com/o/y.git/git-receive-pack"$', done.stdout, re.M)


def test_one_tenant_uses_a_preset_in_two_ways(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text("version: 1\ntenants: { t: { rules: [ { use: { github: { repos: o/lib } } },"
                    " { use: { github: { repos: o/app, push: true } } } ] } }\nexpect:\n"
                    "  - { allow: \"POST https://github.com/o/lib.git/git-upload-pack\" }\n"
                    "  - { deny: \"POST https://github.com/o/lib.git/git-receive-pack\" }\n"
                    "  - { allow: \"POST https://github.com/o/app.git/git-receive-pack\" }\n"
                    "  - { allow: \"GET https://github.com/o/app/info/refs?service=git-receive-pack\" }\n")  # fmt: skip
    done = run("check", "-c", str(path))
    assert (done.returncode, without_values(done.stderr)) == (0, "")


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


# --- git under github's rules -----------------------------------------------------------------------


@pytest.fixture
def github(daemon, relay, tmp_path):
    """github(password, **parameters): a daemon with that use, before git's own backend as github.com; its git()."""
    running = []

    def start(password="", **parameters):
        origin = Services(str(tmp_path / "origin"), ["github.com"], password)
        running.append(origin)
        for name in ("app", "other"):
            bare = os.path.join(origin.root, "org", name + ".git")
            subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
            subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)
            os.symlink(bare, bare[:-4])
            tree = subprocess.run(["git", "-C", bare, "mktree"], input=b"", capture_output=True, check=True).stdout.strip()
            commit = subprocess.run(["git", "-C", bare, "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "begin", tree],
                                    capture_output=True, check=True).stdout.strip()  # fmt: skip
            subprocess.run(["git", "-C", bare, "update-ref", "refs/heads/main", commit], check=True)
        overrides = {"upstream": {"ca_file": origin.ca, "resolve": {"github.com": origin.pins["tls"]}}}
        options = {"secret": password, "env": {"GH_TOKEN": password}} if password else {}
        one = daemon(overrides, rules=[{"use": {"github": parameters}}], **options)

        def git(*args, cwd=str(tmp_path)):
            return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *args], cwd=cwd, capture_output=True, text=True,
                                  timeout=60, check=False, env={
                                      "PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0",
                                      "GIT_CONFIG_NOSYSTEM": "1", "HTTPS_PROXY": relay(one).url, "GIT_SSL_CAINFO": one.ca})  # fmt: skip

        return types.SimpleNamespace(git=git, daemon=one, origin=origin)

    yield start
    for origin in running:
        origin.stop()


def commit_in(git, folder):
    assert git("commit", "-q", "--allow-empty", "-m", "more", cwd=folder).returncode == 0


@needs("git")
@pytest.mark.parametrize("end", [".git", ""])
def test_git_fetches_and_does_not_push_under_githubs_rules(github, tmp_path, end):
    one = github()
    work = str(tmp_path / "work")
    cloned = one.git("clone", "-q", f"https://github.com/org/app{end}", work)
    assert cloned.returncode == 0, cloned.stderr
    assert one.git("fetch", "-q", cwd=work).returncode == 0
    assert one.git("clone", "-q", f"https://github.com/org/other{end}", str(tmp_path / "other")).returncode == 0
    commit_in(one.git, work)
    pushed = one.git("push", "origin", "HEAD:main", cwd=work)
    assert pushed.returncode != 0
    told = " ".join(pushed.stderr.split())
    assert "remote: keyhole: GET https://github.com/org/app" in told and "is not allowed" in told, told
    assert "/info/refs' (query service: git-receive-pack) denies it" in told, told
    assert not [e for e in one.origin.requests() if "receive-pack" in e["target"]], "it never left"
    (refused,) = one.daemon.journal(**{"http.response.status_code": 403})
    assert refused["reason"] == "denied_by_rule" and refused["rule_at"].startswith("github:")


@needs("git")
def test_git_pushes_where_it_is_asked_for_and_nowhere_else(github, tmp_path):
    """With a credential that it never sees, to the one repository that is named."""
    one = github("ghp_" + SECRET[-30:], repos=["org/app"], push=True, token=True)
    work = str(tmp_path / "work")
    cloned = one.git("clone", "-q", "https://github.com/org/app.git", work)
    assert cloned.returncode == 0, cloned.stderr
    commit_in(one.git, work)
    for end in (".git", ""):
        pushed = one.git("push", f"https://github.com/org/app{end}", "HEAD:refs/heads/new" + end.strip("."), cwd=work)
        assert pushed.returncode == 0, pushed.stderr
    heads = subprocess.run(["git", "-C", os.path.join(one.origin.root, "org", "app.git"), "for-each-ref", "--format=%(refname)"],
                           capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
    assert heads == ["refs/heads/main", "refs/heads/new", "refs/heads/newgit"]
    for command in (["push", "https://github.com/org/other.git", "HEAD:refs/heads/new"], ["fetch", "https://github.com/org/other.git"]):
        refused = one.git(*command, cwd=work)
        assert refused.returncode != 0 and "remote: keyhole: GET https://github.com/org/other.git" in refused.stderr, refused.stderr
    assert not [e for e in one.origin.requests() if "/other" in e["target"]]
    assert all(e["auth"] for e in one.origin.requests())


@needs("git")
def test_a_push_that_does_not_ask_first_is_refused_as_well(github, curl):
    one = github()
    for path in ("/org/app.git/git-receive-pack", "/org/app/git-receive-pack", "/org//app.git/git-receive-pack",
                 "/org/app.git/git%2dreceive-pack", "/org/app.git;x/git-receive-pack", "/x/y/z.git/git-receive-pack"):  # fmt: skip
        done = curl(one.daemon, "-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", "-d", "0000",
                    "-H", "content-type: application/x-git-receive-pack-request", "https://github.com" + path)  # fmt: skip
        assert done.stdout == "403", path
    assert one.origin.requests() == []
