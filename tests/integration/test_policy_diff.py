"""`keyhole policy diff`: which recorded requests new rules decide otherwise, and of which nobody can say."""

import os
import re
import resource
import subprocess

import pytest
from common import KEYHOLE, ROOT
from journals import Journal
from test_suggest import hostile_journal

HEAD = "version: 1\ntenants:\n  acme:\n    rules:\n"


def policy(*words, **options):
    return subprocess.run([KEYHOLE, "policy", *map(str, words)], capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.fixture(name="diff")
def differ(tmp_path):
    def run(old, new, journal, *more):
        (tmp_path / "old.yaml").write_text(old if "version" in old else HEAD + old)
        (tmp_path / "new.yaml").write_text(new if "version" in new else HEAD + new)
        return policy("diff", tmp_path / "old.yaml", tmp_path / "new.yaml", "--journal", journal.write(tmp_path / "audit.jsonl"), *more)

    return run


def counts(text):
    """alike, now refused, now allowed, by another rule, undecided: of the last line."""
    found = re.search(r"^(\d+) requests?: (\d+) decided alike, (\d+) now refused, (\d+) now allowed, (\d+) by another rule, (\d+) undecided\n\Z", text, re.M)
    assert sum(map(int, found.groups()[1:])) == int(found[1])
    return tuple(map(int, found.groups()[1:]))


OPEN = '      - allow: "GET,POST https://api.example.com/v1/**"\n'


def test_one_configuration_decides_like_itself(diff):
    journal = Journal()
    for i in range(3):
        journal.request(url=f"https://api.example.com/v1/users/{i}").request(url=f"https://no.example/{i}", reason="no_rule")
    done = diff(OPEN, OPEN, journal)
    assert (done.returncode, done.stderr, counts(done.stdout)) == (0, "", (6, 0, 0, 0, 0))
    assert done.stdout == "6 requests: 6 decided alike, 0 now refused, 0 now allowed, 0 by another rule, 0 undecided\n"


def test_what_changes_is_grouped_with_an_example_and_both_rules(diff):
    journal = Journal()
    for i in range(5):
        journal.request("POST", f"https://api.example.com/v1/users/{i}/keys")
    journal.request("DELETE", "https://api.example.com/v1/users/7", reason="no_rule")
    journal.request("GET", "https://api.example.com/v1/x")
    new = '      - allow: "GET,DELETE https://api.example.com/v1/**"\n'
    done = diff(OPEN, new, journal)
    assert (done.returncode, done.stderr, counts(done.stdout)) == (1, "", (0, 5, 1, 1, 0))
    assert ("allowed by OLD, refused by NEW: 5\n"
            "  5 x POST https://api.example.com/v1/users/*/keys\n"
            "      such as POST https://api.example.com/v1/users/0/keys, tenant acme\n"
            "      old: allow GET,POST https://api.example.com/v1/**\n"
            "      new: no_rule\n") in done.stdout  # fmt: skip
    assert ("refused by OLD, allowed by NEW: 1\n"
            "  1 x DELETE https://api.example.com/v1/users/7\n"
            "      such as DELETE https://api.example.com/v1/users/7, tenant acme\n"
            "      old: no_rule\n"
            "      new: allow GET,DELETE https://api.example.com/v1/**\n") in done.stdout  # fmt: skip
    assert "the same answer by another rule, with another credential or for another reason: 1\n" in done.stdout


def test_a_denial_credential_or_mode_that_comes_is_a_change(diff):
    keys = 'credentials:\n  one: { value: { env: A }, header: { x-a: "{}" }, hosts: [ api.example.com ] }\n'
    journal = Journal().request(url="https://api.example.com/v1/x")
    one = f'{HEAD.replace("tenants", keys + "tenants", 1)}      - {{ allow: "https://api.example.com/v1/**", credential: one }}\n'
    done = diff(OPEN, one, journal)
    assert counts(done.stdout) == (0, 0, 0, 1, 0) and "new: allow https://api.example.com/v1/**, credential one\n" in done.stdout
    done = diff(OPEN, '      - deny: "https://api.example.com/v1/x"\n' + OPEN, journal)
    assert counts(done.stdout) == (0, 1, 0, 0, 0) and "new: deny https://api.example.com/v1/x\n" in done.stdout
    observing = HEAD.replace("    rules:\n", "    mode: observe\n    rules:\n") + '      - allow: "https://other.example"\n'
    done = diff(OPEN, observing, journal)
    assert counts(done.stdout) == (0, 0, 0, 1, 0) and ", only observed\n" in done.stdout
    done = diff(observing, '      - allow: "https://other.example"\n', journal)
    assert counts(done.stdout) == (0, 1, 0, 0, 0)


@pytest.mark.parametrize(
    "condition, needs",
    [
        ('headers: { x-beta: "*" }', "its fields"),
        ('query: { v: "2*" }', "the values of its query"),
        ("content_type: application/json", "its content type"),
        ('models: "claude-*"', "its model"),
        ("max_body: 1KiB", "the size of its content"),
    ],
)
def test_what_the_journal_does_not_record_is_undecided_and_says_what_it_needs(diff, condition, needs):
    rule = f'      - {{ allow: "POST https://api.example.com/v1/**", {condition} }}\n'
    journal = Journal().request("POST", "https://api.example.com/v1/x", query=["v"], reason="no_rule")
    journal.request("POST", "https://api.example.com/v2/x", query=["v"], reason="no_rule")
    done = diff('      - allow: "POST https://api.example.com/v1/**"\n', rule, journal)
    assert (done.returncode, counts(done.stdout)) == (1, (1, 0, 0, 0, 1))
    assert f"      new: undecided: needs {needs}\n" in done.stdout
    # The same rule has the same say, whatever the value is.
    assert diff(rule, rule, journal).returncode == 0
    assert diff(rule, '      - deny: "https://no.example"\n' + rule, journal).returncode == 0


def test_a_path_that_was_cut_or_named_by_a_parameter_is_undecided(diff):
    new = '      - deny: "https://api.example.com/v1/secret/**"\n' + OPEN
    journal = Journal().request(url="https://api.example.com/v1/" + "a" * 1000, url__path_bytes=4000)
    journal.request("POST", "https://api.example.com/v1/x", query=["_method"])
    done = diff(OPEN, new, journal)
    assert counts(done.stdout) == (0, 0, 0, 0, 2)
    assert "undecided: needs its whole path\n" in done.stdout
    assert "undecided: needs the value of a parameter that may name another method, host or path\n" in done.stdout
    assert diff(OPEN, OPEN, journal).returncode == 0


def test_a_tenant_that_one_file_lacks_is_refused_there(diff):
    journal = Journal().request(url="https://api.example.com/v1/x").request(url="https://api.example.com/v1/x", tenant="dev")
    both = HEAD + OPEN + "  dev:\n    rules:\n" + OPEN
    done = diff(both, OPEN, journal)
    assert counts(done.stdout) == (1, 1, 0, 0, 0) and "new: no such tenant\n" in done.stdout
    assert diff(both, OPEN, journal, "--tenant", "acme").returncode == 0
    done = diff(OPEN, OPEN, journal)
    assert done.returncode == 0 and "1 request is of a tenant that neither configuration has" in done.stderr
    done = diff(OPEN, OPEN, journal, "--tenant", "nobody")
    assert (done.returncode, done.stdout) == (2, "") and 'no tenant is called "nobody"' in done.stderr


def test_a_run_without_a_file_is_compared_with_the_only_tenant(diff):
    journal = Journal().request(url="https://api.example.com/v1/x", tenant="default")
    assert counts(diff(OPEN, '      - allow: "GET https://no.example"\n', journal).stdout) == (0, 1, 0, 0, 0)
    two = HEAD + OPEN + "  dev:\n    rules:\n" + OPEN
    done = diff(two, two, journal)
    assert counts(done.stdout) == (0, 0, 0, 0, 0), "which of them, nobody can say"
    assert "1 request is of a tenant that neither configuration has" in done.stderr
    own = HEAD + '      - deny: "https://**"\n' + "  default:\n    rules:\n" + OPEN
    assert counts(diff(own, own.replace("acme", "dev"), journal).stdout) == (1, 0, 0, 0, 0)


def test_the_site_and_the_narrowing_of_a_sandbox_decide_too(diff):
    narrow = 'listen:\n  - { unix: s1/s, sandbox: s1, narrow: [ { allow: "GET https://api.example.com/v1/**" } ] }\n'
    journal = Journal().request("POST", "https://api.example.com/v1/x").request("POST", "https://api.example.com/v1/x", sandbox="s2")
    done = diff(HEAD + OPEN, HEAD + OPEN + narrow, journal)
    assert counts(done.stdout) == (1, 1, 0, 0, 0)
    done = diff(HEAD + OPEN, HEAD + OPEN + 'site: { rules: [ { allow: "GET https://**" } ] }\n', journal)
    assert counts(done.stdout) == (0, 2, 0, 0, 0)


def test_a_websocket_and_removed_authentication_are_known(diff):
    journal = Journal().request(url="https://api.example.com/v1/x", status=101, close={"websocket.close.code": 1000})
    done = diff(OPEN, '      - { allow: "GET https://api.example.com/v1/**", websocket: false }\n', journal)
    assert counts(done.stdout) == (0, 1, 0, 0, 0) and "new: upgrade_unsupported, by allow GET" in done.stdout
    keys = 'credentials:\n  one: { value: { env: A }, header: { x-a: "{}" }, hosts: [ api.example.com ] }\n'
    one = HEAD.replace("tenants", keys + "tenants", 1) + '      - { allow: "https://api.example.com", credential: one }\n'
    journal = Journal().request(url="https://api.example.com/v1/x", credential="one", stripped="authorization")
    done = diff(one, OPEN, journal)
    assert counts(done.stdout) == (0, 1, 0, 0, 0) and "new: client_auth, by allow GET,POST" in done.stdout


def test_unread_tunnels_are_compared_as_tunnels(diff):
    journal = Journal().request("CONNECT", "tcp://git.example.com:22", tunnel="tcp")
    tcp = '      - allow: "tcp://git.example.com:22"\n'
    assert diff(tcp, tcp + OPEN, journal).returncode == 0
    assert counts(diff(tcp, OPEN, journal).stdout) == (0, 1, 0, 0, 0)
    done = diff(tcp, '      - allow: "https://git.example.com:22/x"\n', journal)
    assert counts(done.stdout) == (0, 0, 0, 0, 1) and "needs what is in the tunnel" in done.stdout


def test_hostile_text_moves_no_cursor_and_forges_no_line(diff):
    done = diff(OPEN, '      - { allow: "https://**" }\n      - { deny: "http://**" }\n', hostile_journal(), "--tenant", "acme")
    assert done.returncode == 1
    assert re.fullmatch(r"[ -~\n]*", done.stdout + done.stderr)
    known = r"[a-z][^\n]*: \d+|  \d+ x .*|      such as .*|      (old|new): .*|\(A request .*|\d+ requests?: .*"
    for line in done.stdout.splitlines():
        assert re.fullmatch(known, line), line
    assert re.search(r"policy diff: \d+ records are of no request that rules decide about", done.stderr)


def test_records_that_do_not_continue_the_chain_are_compared_and_said(tmp_path, diff):
    journal = Journal().request(url="https://api.example.com/v1/x")
    forged = Journal().request(url="https://api.example.com/v1/y").lines()[1:]
    path = journal.write(tmp_path / "broken", journal.lines() + forged)
    assert diff(OPEN, '      - allow: "https://no.example"\n', journal).returncode == 1
    done = policy("diff", tmp_path / "old.yaml", tmp_path / "new.yaml", "--journal", path)
    assert counts(done.stdout) == (0, 2, 0, 0, 0)
    assert "2 records from line 4 on are compared though they do not continue the chain" in done.stderr


def test_paths_without_end_take_bounded_memory_and_every_request_is_counted(diff, tmp_path):
    journal = Journal()
    for i in range(9000):
        journal.request("GET", f"https://api.example.com/v1/p{i}/" + "a" * 900)
    assert diff(OPEN, OPEN, Journal()).returncode == 0
    (tmp_path / "new.yaml").write_text(HEAD + "      []\n")

    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    done = policy("diff", tmp_path / "old.yaml", tmp_path / "new.yaml", "--journal", journal.write(tmp_path / "long"), preexec_fn=bound)
    assert (done.returncode, counts(done.stdout)) == (1, (0, 9000, 0, 0, 0))
    assert "  and 4904 more, in more than 4096 groups\n" in done.stdout


def test_errors_have_a_status_of_their_own(tmp_path):
    good = tmp_path / "good.yaml"
    good.write_text(HEAD + OPEN)
    bad = tmp_path / "bad.yaml"
    bad.write_text("version: 2\n")
    journal = Journal().request().write(tmp_path / "audit.jsonl")
    for words in [["diff"], ["diff", good, good], ["diff", good, "--journal", journal], ["diff", good, bad, "--journal", journal],
                  ["diff", bad, good, "--journal", journal], ["diff", good, good, "--journal", tmp_path / "none"],
                  ["diff", good, good, "--journal", tmp_path], ["diff", good, good, "--journal", journal, tmp_path / "none"],
                  [], ["nothing"]]:  # fmt: skip
        done = policy(*words)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr, words
    done = policy("diff", good, good, "--journal", journal, journal)
    assert (done.returncode, counts(done.stdout)) == (0, (2, 0, 0, 0, 0))


def test_the_page_of_rules_shows_what_policy_diff_prints(diff):
    with open(os.path.join(ROOT, "docs", "policy.md"), encoding="utf-8") as file:
        shown = re.search(r"^\$ keyhole policy diff .*\n((?:.*\n)*?)```", file.read(), re.M)[1]
    journal = Journal()
    for i in range(1, 10):
        journal.request(url=f"https://api.example.com/v1/users/{i}")
    journal.request("POST", "https://api.example.com/v1/users")
    assert diff('      - allow: "https://api.example.com/v1/**"\n', '      - allow: "GET https://api.example.com/v1/**"\n', journal).stdout == shown
