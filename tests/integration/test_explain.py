"""`keyhole explain` says what the proxy would do, and exits accordingly."""

import json
import re
import subprocess

import pytest
from common import KEYHOLE

CONFIG = """version: 1
credentials:
  main: { value: { env: K }, header: { x-api-key: "{}" }, hosts: [ api.test ] }
  spare: { value: { env: S }, header: { x-api-key: "{}" }, hosts: [ api.test ] }
upstream: { resolve: { pinned.test: "127.0.0.1:9" }, allow_addresses: [ 10.0.0.0/8 ] }
site: { rules: [ { deny: "https://no.test" }, { allow: "https://**" }, { allow: "tcp://raw.test:22" } ] }
tenants:
  a:
    rules:
      - { allow: "POST https://api.test/v1/**", credential: [ main, spare ] }
      - { allow: "https://own.test", client_auth: pass }
      - { allow: "https://pass.test", tls: passthrough }
      - { allow: "tcp://raw.test:22" }
      - { allow: "https://open.test", max_body: 1KiB }
      - { allow: "https://[0.0.0.0/0]" }
      - { allow: "https://pinned.test" }
  b: { rules: [ { deny: "https://open.test" } ] }
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("explain") / "k.yaml"
    path.write_text(CONFIG)
    return str(path)


def explain(config, *words, stdin=None):
    return subprocess.run([KEYHOLE, "explain", "-c", config, *words], input=stdin, capture_output=True, text=True,
                          timeout=30, check=False)  # fmt: skip


def test_presets_stand_in_front_or_alone_as_in_a_run(config):
    url = "https://registry.npmjs.org/left-pad"
    alone = subprocess.run([KEYHOLE, "explain", "--use", "npm", url], capture_output=True, text=True, timeout=30, check=False)
    assert alone.returncode == 0 and "allow" in alone.stdout, alone.stderr
    assert explain(config, "-t", "b", url).returncode == 3
    assert explain(config, "-t", "b", "--use", "npm", url).returncode == 0
    push = "https://github.com/o/r.git/git-receive-pack"
    assert explain(config, "-t", "b", "--use", "github", "POST", push).returncode == 3
    assert explain(config, "-t", "b", "--use", "npm", "--use", "github:push=true", "POST", push).returncode == 0
    wrong = explain(config, "-t", "b", "--use", "nmp", url)
    assert wrong.returncode == 1 and wrong.stderr.startswith("keyhole: --use: error: "), wrong.stderr


def test_a_sandbox_that_is_not_in_the_file_is_told_where_it_is(config):
    done = explain(config, "-s", "sb-1", "https://open.test/")
    assert done.returncode == 2 and "http://keyhole.internal/why" in done.stderr and "--tenant NAME" in done.stderr


@pytest.mark.parametrize(
    "words, status, reason",
    [
        (["POST", "https://api.test/v1/x"], 0, "none"),
        (["GET", "https://api.test/v1/x"], 3, "no_rule"),
        (["https://open.test/"], 0, "none"),
        (["https://no.test/"], 3, "denied_by_rule"),
        (["-H", "authorization: Bearer x", "https://open.test/"], 3, "client_auth"),
        (["https://open.test/?access_token=x"], 3, "client_auth"),
        (["-H", "authorization: Bearer x", "https://own.test/"], 0, "none"),
        (["-H", "authorization: Bearer x", "POST", "https://api.test/v1/x"], 0, "none"),
        (["--body-bytes", "1024", "POST", "https://open.test/"], 0, "none"),
        (["--body-bytes", "1025", "POST", "https://open.test/"], 3, "no_rule"),
        (["https://pass.test/"], 3, "tunnel_only"),
        (["CONNECT", "pass.test:443"], 0, "none"),
        (["CONNECT", "raw.test:22"], 0, "none"),
        (["CONNECT", "raw.test:23"], 3, "no_rule"),
        (["CONNECT", "open.test:443"], 0, "none"),
        (["https://169.254.169.254/latest/meta-data"], 3, "address_prohibited"),
        (["https://192.168.1.1/"], 3, "address_prohibited"),
        (["https://10.1.1.1/"], 0, "none"),
        (["https://8.8.8.8/"], 0, "none"),
        (["https://pinned.test/"], 0, "none"),
        (["https://open.test/../x"], 3, "malformed_request"),
        (["GET", "https://open.test/\x01"], 3, "malformed_request"),
    ],
)
def test_decision_reason_and_status(config, words, status, reason):
    for json_too in (True, False):
        done = explain(config, "--tenant", "a", *(["--json"] if json_too else []), *words)
        assert done.returncode == status, done.stdout + done.stderr
        if json_too:
            out = json.loads(done.stdout)
            assert (out["decision"], out["reason"]) == ("deny" if status else "allow", reason)
        else:
            assert ("allow" if status == 0 else f"deny: {reason}") in done.stdout


def test_a_tunnel_is_shown_with_the_rule_that_decides_how_it_is_treated(tmp_path):
    path = tmp_path / "k.yaml"
    rules = ["{ deny: https://part.test/private/** }", "{ allow: https://part.test }", "{ deny: https://no.test }",
             "{ allow: https://pass.test, tls: passthrough }", "{ allow: tcp://raw.test:22 }", "{ deny: tcp://raw.test:23 }"]  # fmt: skip
    path.write_text("version: 1\ntenants:\n  a:\n    rules:\n" + "".join(f"      - {rule}\n" for rule in rules))
    read = "each request in it is decided by itself (ask about its URL)"
    for place, lines in {
        "part.test:443": ["allow", f'tunnel: read, by {path}:5: deny "https://part.test/private/**"', read],
        "no.test:443": ["deny: no_rule", f'tunnel: read, by {path}:7: deny "https://no.test"', read],
        "other.test:443": ["deny: no_rule", "tunnel: read (no rule names this host and port)", read],
        "pass.test:443": [f'allow, by {path}:8: allow "https://pass.test"', "tunnel: passthrough"],
        "raw.test:22": [f'allow, by {path}:9: allow "tcp://raw.test:22"', "tunnel: raw"],
        "raw.test:23": [f'deny: denied_by_rule, by {path}:10: deny "tcp://raw.test:23"', "tunnel: denied"],
    }.items():
        assert explain(str(path), "CONNECT", place).stdout.splitlines()[1:] == lines
    out = json.loads(explain(str(path), "--json", "CONNECT", "part.test:443").stdout)
    assert (out["tunnel"], out["rule"], out["tunnel_rule"]["line"]) == ("read", None, 5)
    assert out["tunnel_rule"]["list"] == "tenant"
    out = json.loads(explain(str(path), "--json", "CONNECT", "raw.test:22").stdout)
    assert out["rule"]["line"] == 9 and "tunnel_rule" not in out


def test_each_rule_that_is_looked_at_is_shown_with_its_reason(config):
    out = json.loads(explain(config, "-t", "a", "--json", "GET", "https://api.test/v1/x").stdout)
    assert [(s["list"], s["rule"], s.get("why")) for s in out["looked_at"]] == [
        ("site", "https://no.test", "host"),
        ("site", "https://**", None),
        ("tenant", "POST https://api.test/v1/**", "method"),
        ("tenant", "https://own.test", "host"),
        ("tenant", "https://pass.test", "host"),
        ("tenant", "tcp://raw.test:22", "host"),
        ("tenant", "https://open.test", "host"),
        ("tenant", "https://[0.0.0.0/0]", "host"),
        ("tenant", "https://pinned.test", "host"),
    ]
    assert out["rule"] is None


def test_credentials_are_named_and_never_shown(config):
    out = explain(config, "-t", "a", "--json", "POST", "https://api.test/v1/x")
    assert json.loads(out.stdout)["credentials"] == ["main", "spare"]
    assert json.loads(out.stdout)["client_auth"] == "removed"
    kinds = json.loads(out.stdout)["credential_kinds"]
    assert [k["name"] for k in kinds] == ["main", "spare"] and kinds[0]["binding"].startswith("api.test")


def test_a_mistyped_tenant_is_guessed(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text("version: 1\ntenants: { acme: { rules: [] }, dev: { rules: [] } }\n")
    done = explain(str(path), "-t", "acem", "https://open.test/")
    assert done.returncode == 2 and 'no tenant is called "acem" (did you mean "acme"?)' in done.stderr


def test_a_tenant_must_be_named_where_there_are_several(config):
    assert explain(config, "https://open.test/").returncode == 2
    assert "(say --tenant NAME; there are a, b)" in explain(config, "https://open.test/").stderr
    assert 'no tenant is called "aa"' in explain(config, "-t", "aa", "https://open.test/").stderr
    assert explain(config, "-t", "nobody", "https://open.test/").returncode == 2
    assert explain(config, "-t", "b", "https://open.test/").returncode == 3


@pytest.mark.parametrize("words", [[], ["a", "b", "c"], ["/path"], ["api.test/x"], ["--nonsense"], ["-H", "x", "https://open.test"]])
def test_what_is_called_wrongly_is_said(config, words):
    assert explain(config, "-t", "a", *words).returncode == 2


def test_why_it_is_denied_is_said(config):
    done = explain(config, "-t", "a", "-H", "authorization: Bearer x", "https://open.test/")
    assert "authorization carries authentication of the client's own, and the rule" in done.stdout
    assert "methods are case-sensitive: GET is not get" in explain(config, "-t", "a", "post", "https://api.test/v1/x").stdout
    assert "case-sensitive" not in explain(config, "-t", "a", "GET", "https://api.test/v1/x").stdout


def test_a_bad_file_is_an_error(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text("version: 1\ntenants: { a: { rules: [ { allow: \"ftp://x\" } ] } }\n")
    done = explain(str(path), "https://x/")
    assert done.returncode == 1 and "k.yaml:2:" in done.stderr


def test_a_batch_answers_every_line(config):
    lines = [
        {"method": "POST", "url": "https://api.test/v1/x", "tenant": "a"},
        {"url": "https://open.test/", "tenant": "a"},
        {"url": "https://open.test/", "tenant": "b"},
        {"url": "https://open.test/", "tenant": "nobody"},
        {"url": "https://open.test/", "tenant": "a", "headers": {"cookie": "x=y"}},
        {"url": 7},
        "nothing",
    ]
    done = explain(config, "--batch", stdin="".join(json.dumps(line) + "\n" for line in lines) + "{\n")
    answers = [json.loads(line)["decision"] for line in done.stdout.splitlines()]
    assert answers == ["allow", "allow", "deny", "deny", "deny", "deny", "deny", "deny"]


def test_a_base_url_is_not_answered_as_if_a_rule_spoke_of_it(config):
    done = explain(config, "--tenant", "a", "GET", "http://keyhole.internal/to/own.test/x")
    assert done.returncode not in (0, 3) and "ask https://HOST/PATH" in done.stderr, done
    assert explain(config, "--tenant", "a", "GET", "https://own.test/x").returncode == 0


WEBSOCKETS = """version: 1
credentials: { c: { value: { env: C }, header: { x: "{}" }, hosts: [ key.test, said.test ] } }
site: { rules: [ { allow: "https://site.test", websocket: false }, { allow: "https://**" } ] }
tenants:
  a:
    rules:
      - { allow: "https://key.test", credential: c }
      - { allow: "https://said.test", credential: c, websocket: true }
      - { allow: "https://no.test", websocket: false }
      - { allow: "https://yes.test" }
      - { allow: "https://site.test" }
"""


@pytest.mark.parametrize("host, refused", [
    ("key", "sets a credential and does not say websocket: true"), ("no", "websocket: false"), ("site", "websocket: false"),
    ("said", None), ("yes", None),
])  # fmt: skip
def test_a_websocket_that_the_proxy_refuses_is_denied(tmp_path, host, refused):
    (tmp_path / "k.yaml").write_text(WEBSOCKETS)
    path, asks = str(tmp_path / "k.yaml"), ["-H", "upgrade: websocket", "-H", "connection: keep-alive, Upgrade"]
    done = explain(path, *asks, "--json", "GET", f"https://{host}.test/x")
    said = json.loads(done.stdout)
    if refused:
        assert (done.returncode, said["decision"], said["reason"]) == (3, "deny", "upgrade_unsupported")
        assert refused in said["detail"] and "send an ordinary request instead of a WebSocket" in said["detail"]
        assert refused in explain(path, *asks, f"https://{host}.test/x").stdout
    else:
        assert (done.returncode, said["decision"]) == (0, "allow")
    # One half of the question asks for nothing, and neither does an offer of h2c.
    for half in (asks[:2], asks[2:], ["-H", "upgrade: h2c", "-H", "connection: upgrade"]):
        assert explain(path, *half, f"https://{host}.test/x").returncode == 0


def test_a_url_of_a_websocket_is_answered_with_how_to_ask(config):
    for scheme in ("wss", "ws"):
        done = explain(config, "-t", "a", f"{scheme}://open.test/x")
        assert done.returncode == 2 and f"write http{scheme[2:]}://open.test/x" in done.stderr, done.stderr


def test_a_method_that_a_rule_has_to_name_is_named(config, tmp_path):
    (tmp_path / "k.yaml").write_text(WEBSOCKETS)
    done = explain(str(tmp_path / "k.yaml"), "PROPFIND", "https://key.test/")
    assert done.returncode == 3 and "name PROPFIND in the rule" in done.stdout
    other = explain(config, "-t", "a", "PROPFIND", "https://api.test/v1/x")
    assert "another method" in other.stdout and "name PROPFIND" not in other.stdout


REFUSED = """version: 1
credentials: { c: { value: { env: C }, bearer: true, hosts: [ api.test ] } }
site: { rules: [ { deny: "https://no.test" }, { allow: "https://**" } ] }
tenants:
  a:
    rules:
      - { allow: "GET https://one.test/x" }
      - { allow: "GET https://two.test" }
      - { allow: "POST https://api.test/v1", credential: c }
      - { deny: "https://api.test/admin/**" }
      - { allow: "https://api.test" }
"""


@pytest.mark.parametrize("words, remedy", [
    (["https://registry.npmjs.org/left-pad"], "- use: npm in the tenant's rules"),
    (["POST", "https://api.openai.com/v1/responses"], "- use: openai in the tenant's rules (its key comes from OPENAI_API_KEY, CODEX_API_KEY)"),
    (["POST", "https://github.com/a/b.git/git-receive-pack"],
     "- use: {{ github: {{ push: true }} }} in the tenant's rules (its key comes from GH_TOKEN, GITHUB_TOKEN) (repos opens less of it)"),
    (["PUT", "https://one.test/y/z?q=hidden"], '- allow: "PUT https://one.test/y/z" in the tenant\'s rules'),
    (["https://api.test/admin/x"], '- allow: "GET https://api.test/admin/x" in the tenant\'s rules, above {}:10'),
    (["https://no.test/x"], '- allow: "GET https://no.test/x" in the site\'s rules, above {}:3'),
    (["https://other.test/a%2Fb"], None), (["https://other.test/*"], None), (["CONNECT", "other.test:443"], None),
    (["-H", "authorization: Bearer x", "https://one.test/x"], None), (["https://two.test/"], None),
    (["http://169.254.169.254/x"], None), (["http://localhost/x"], None), (["http://[::1]/x"], None),
])  # fmt: skip
def test_what_would_allow_a_refused_request_is_said_before_the_rules(tmp_path, words, remedy):
    path = tmp_path / "k.yaml"
    path.write_text(REFUSED)
    done = explain(str(path), *words)
    said = [line.removeprefix("to allow it: ") for line in done.stdout.splitlines() if line.startswith("to allow it: ")]
    assert said == ([remedy.format(path)] if remedy else []), done.stdout
    assert "hidden" not in done.stdout.split("\n", 1)[1]
    lines = done.stdout.splitlines()
    decided = next(i for i, line in enumerate(lines) if line.startswith(("deny", "allow")))
    assert decided == 1 and all(not line.startswith("  ") for line in lines[: decided + len(said) + 1])
    one = json.loads(explain(str(path), "--json", *words).stdout)
    assert ("remedy" in one) == (remedy is not None)


NARROWED = """version: 1
tenants:
  a:
    rules:
      - use: { github: { repos: [ globex/app, "acme/*" ] } }
"""


def test_words_for_a_file_keep_what_it_has_narrowed_and_open_nothing_else(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text(NARROWED)
    own, other = (f"https://github.com/{name}/git-receive-pack" for name in ("globex/app", "evil/x"))
    said = re.search("^to allow it: (.*)", explain(str(path), "POST", own).stdout, re.M)[1]
    words = '- use: { github: { repos: [ globex/app, "acme/*" ], push: true } }'
    assert said == f"{words} in the tenant's rules, above {path}:5, where it uses github (its key comes from GH_TOKEN, GITHUB_TOKEN)"
    path.write_text(NARROWED.replace("rules:\n", f"rules:\n      {words}\n"))
    assert explain(str(path), "POST", own).returncode == 0
    done = explain(str(path), "POST", other)
    assert done.returncode == 3 and "use: github" not in done.stdout and "push: true" not in done.stdout


def test_of_an_address_that_no_rule_opens_it_says_so(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text('{ version: 1, tenants: { a: { rules: [ { allow: "https://x.test" } ] } } }')
    done = explain(str(path), "http://169.254.169.254/x")
    assert "no rule alone allows it: sandboxes may not connect to this address (metadata)" in done.stdout, done.stdout


def test_rules_for_other_hosts_are_counted_and_json_has_each(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text(REFUSED)
    lines = explain(str(path), "POST", "https://one.test/x").stdout.splitlines()
    assert lines[-2:] == [f'    {path}:7: allow "GET https://one.test/x": another method', "    4 rules for other hosts"]
    assert "    1 rule for another host" in lines
    assert len(json.loads(explain(str(path), "--json", "POST", "https://one.test/x").stdout)["looked_at"]) == 7


def test_the_rule_that_is_offered_does_allow_it(tmp_path):
    path = tmp_path / "k.yaml"
    for words in (["PUT", "https://one.test/y/z"], ["https://api.test/admin/x"]):
        path.write_text(REFUSED)
        remedy = json.loads(explain(str(path), "--json", *words).stdout)["remedy"]
        lines = REFUSED.splitlines()
        lines.insert(remedy["above"]["line"] - 1 if "above" in remedy else len(lines), f'      - allow: "{remedy["rule"]}"')
        path.write_text("\n".join(lines) + "\n")
        assert explain(str(path), *words).returncode == 0
