"""A sandbox's narrowing: what its listener's own list takes away, in the daemon and in what explains it."""

import json
import subprocess

import pytest
from common import KEYHOLE
from harness import Tunnel, until
from test_check import check
from test_reload import reload

RULES = [
    {"allow": "https://api.test/**", "credential": "main"},
    {"allow": "https://open.test"},
]
NARROW = [{"deny": "https://api.test/v1/admin/**"}, {"allow": "GET https://api.test/**"}]


def narrowed(daemon, narrow, **more):
    one = daemon(rules=RULES, start=False, **more)
    one.config["listen"][0].update(narrow=narrow, sandbox="box")
    one.write(one.config)
    one.start()
    return one


def ask(one, method, path, host="api.test"):
    with Tunnel(one, host) as tunnel:
        return tunnel.ask(method, path, host=host)


def test_both_lists_must_allow_and_the_tenants_brings_the_credential(daemon, mock):
    one = narrowed(daemon, NARROW)
    answer = ask(one, "GET", "/test/echo")
    assert answer.status == 200
    assert "x-api-key" in mock.events("request")[-1]["fields"]
    for method, path, reason in [
        ("POST", "/test/echo", "no_rule"),
        ("GET", "/v1/admin/x", "denied_by_rule"),
    ]:
        answer = ask(one, method, path)
        assert answer.status == 403
        record = one.records_of(path)[-1]
        assert (record["event"], record["reason"], record["denied_by"]) == ("deny", reason, "sandbox")
    answer = ask(one, "GET", "/x", "open.test")
    assert answer.status == 403 and b"this sandbox's narrowing" in answer.body
    # What stands near it is the list that refused.
    assert b"GET https://api.test/**" in answer.body


def test_a_denial_of_the_tenants_says_so(daemon):
    one = narrowed(daemon, [{"allow": "https://**"}])
    assert ask(one, "GET", "/x", "elsewhere.test").status == 403
    assert one.records_of("/x")[-1]["denied_by"] == "tenant"


def test_a_reload_changes_it_and_ends_what_it_forbids(daemon):
    one = narrowed(daemon, [{"allow": "https://**"}])
    with Tunnel(one, "open.test") as kept:
        kept.start("GET", "/test/sse?n=1000&ms=50")
        assert kept.read_head().status == 200
        assert ask(one, "POST", "/test/echo").status == 200
        reload(one, lambda config: config["listen"][0].update(narrow=NARROW))
        until("its end", lambda: one.records_of("/test/sse")[-1].get("reason") == "no_rule")
    until("the narrowing", lambda: ask(one, "POST", "/test/echo").status == 403)
    reload(one, lambda config: config["listen"][0].pop("narrow"))
    until("none", lambda: ask(one, "POST", "/test/echo").status == 200)


def test_a_reload_to_a_narrowing_that_would_widen_changes_nothing(daemon):
    one = narrowed(daemon, NARROW)
    wide = [{"allow": "https://api.test", "credential": "main"}]
    reload(one, lambda config: config["listen"][0].update(narrow=wide), says="nothing changes")
    assert "a narrowing only takes away" in one.stderr()
    assert ask(one, "POST", "/test/echo").status == 403


CONFIG = """version: 1
site: { rules: [ { allow: "https://**" } ] }
tenants:
  a: { rules: [ { allow: "https://one.test" }, { allow: "https://two.test" } ] }
  b: { rules: [ { allow: "https://one.test" } ] }
listen:
  - { unix: /tmp/none/1/s, tenant: a, sandbox: s1, narrow: [ { allow: "GET https://one.test" } ] }
  - { unix: /tmp/none/2/s, tenant: a, sandbox: s2 }
  - { unix: /tmp/none/3/s, tenant: b, sandbox: s3 }
  - { unix: /tmp/none/4/s, tenant: b, sandbox: s3 }
expect:
"""
CASES = """  - { sandbox: s1, allow: "GET https://one.test/" }
  - { sandbox: s1, deny: "POST https://one.test/" }
  - { sandbox: s1, deny: "GET https://two.test/" }
  - { sandbox: s2, tenant: a, allow: "GET https://two.test/" }
  - { tenant: a, allow: "POST https://one.test/" }
"""


def explain(folder, *words, stdin=None):
    (folder / "k.yaml").write_text(CONFIG + CASES)
    return subprocess.run([KEYHOLE, "explain", "-c", str(folder / "k.yaml"), *words], input=stdin, timeout=30,
                          capture_output=True, text=True, check=False)  # fmt: skip


def test_explain_shows_the_third_list(tmp_path):
    done = explain(tmp_path, "--sandbox", "s1", "POST", "https://one.test/")
    assert done.returncode == 3
    assert "  the sandbox's rules\n" in done.stdout
    assert done.stdout.index("  the site's") < done.stdout.index("  the tenant's") < done.stdout.index("  the sandbox's")
    assert "deny: no_rule in the sandbox's list\n" in done.stdout
    assert explain(tmp_path, "--sandbox", "s1", "https://one.test/").returncode == 0
    assert explain(tmp_path, "--tenant", "a", "POST", "https://one.test/").returncode == 0


@pytest.mark.parametrize(
    "words, says",
    [
        (["--sandbox", "s3"], "more than one listener's sandbox"),
        (["--sandbox", "s9"], "no listener's sandbox"),
        (["--sandbox", "s1", "--tenant", "b"], "another tenant's"),
    ],
)
def test_explain_wants_to_know_which_sandbox(tmp_path, words, says):
    done = explain(tmp_path, *words, "https://one.test/")
    assert done.returncode == 2 and says in done.stderr


def test_a_batch_names_a_sandbox_a_line(tmp_path):
    lines = [{"sandbox": "s1", "url": "https://two.test/"}, {"sandbox": "s2", "url": "https://two.test/"},
             {"tenant": "a", "url": "https://two.test/"}, {"sandbox": "s9", "url": "https://two.test/"}]  # fmt: skip
    done = explain(tmp_path, "--batch", stdin="".join(json.dumps(line) + "\n" for line in lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a["decision"] for a in answers] == ["deny", "allow", "allow", "deny"]
    assert answers[0]["denied_by"] == "sandbox"
    assert "no listener's sandbox" in answers[3]["error"]


def test_cases_can_name_a_sandbox(tmp_path):
    assert check(str(tmp_path), CONFIG + CASES)[0] == 0
    for case, says in [
        ('{ sandbox: s1, allow: "POST https://one.test/" }', "is denied: no_rule"),
        ('{ sandbox: s4, deny: "GET https://one.test/" }', 'no listener\'s sandbox is called "s4" (did you mean "s1"?)'),
        ('{ sandbox: s3, deny: "GET https://one.test/" }', 'more than one listener\'s sandbox is called "s3"'),
        ('{ sandbox: s1, tenant: b, deny: "GET https://one.test/" }', "belongs to another tenant"),
    ]:
        status, _, errors = check(str(tmp_path), CONFIG + "  - " + case + "\n")
        assert status == 1 and says in errors and errors.startswith("k.yaml:12:"), errors


def with_narrow(narrow):
    return (
        "version: 1\n"
        "credentials: { c: { value: { env: C }, header: { x: \"{}\" }, hosts: [ a.test ] } }\n"
        "tenants: { t: { rules: [ { allow: \"https://a.test\", credential: c } ] } }\n"
        f"listen: [ {{ unix: /tmp/none/1/s, narrow: {narrow} }} ]\n"
    )


@pytest.mark.parametrize(
    "narrow, says",
    [
        ('[ { allow: "https://a.test", credential: c } ]',
         "4:83: error: rules[].credential: a narrowing only takes away; a credential belongs to a tenant's rule"),
        ('[ { allow: "https://a.test", client_auth: pass } ]', "error: rules[].client_auth: a narrowing only takes away"),
        ('[ { allow: "https://a.test", tls: passthrough } ]', "error: rules[].tls: a narrowing only takes away"),
        ('[ { deny: "https://a.test", mode: observe } ]', "error: rules[].mode: a narrowing only takes away"),
        ('[ { allow: "https://a.test", allow_addresses: [] } ]', "error: unknown key \"allow_addresses\" in rules[]"),
        ("{}", "error: listen[].narrow: expected a list of rules, got a map"),
        ("[]", "warning: listen[].narrow: allows nothing"),
        ('[ { deny: "https://a.test" } ]', "warning: listen[].narrow: allows nothing"),
        ('[ { allow: "https://b.test" } ]',
         "4:53: warning: rule \"https://b.test\" lets nothing out: the tenant's rules allow nothing there"),
        ('[ { allow: "https://**" }, { allow: "https://a.test" } ]', "warning: rule \"https://a.test\" never decides"),
        ('[ { allow: "https://*.github.io" }, { allow: "https://a.test" } ]', ""),
    ],
)  # fmt: skip
def test_what_would_widen_is_an_error_where_it_stands(tmp_path, narrow, says):
    status, _, errors = check(str(tmp_path), with_narrow(narrow))
    assert status == (1 if "error" in says else 0), errors
    assert says in errors and (says or not errors), errors
