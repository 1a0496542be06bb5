"""test_audit_read.py - who reads a journal finds what they look for: filters, formats, segments"""

import json
import os
import re
import subprocess

import pytest
from common import KEYHOLE
from journals import Journal
from test_completion import complete

TIME = "2026-01-31T12:00:00.000Z"


def audit(*arguments, **options):
    return subprocess.run([KEYHOLE, "audit", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, **options)


def objects(*arguments):
    done = audit(*arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def various(tmp_path_factory):
    """Each request has a path of its own, by which it is told."""
    journal = Journal()
    journal.request(url="https://api.test/ok", rule="allow api.test", rule_at="/etc/keyhole/keyhole.yaml:12", credential="github,npm")
    journal.request(url="https://api.test/fail", reason="connect_refused", status=502, late=True, rule_at="keyhole.yaml:13", tenant="dev")
    journal.request("POST", url="https://bad.test/deny", reason="no_rule")
    journal.request(url="https://bad.test/late", reason="address_prohibited", late=True, sandbox="s2")
    journal.request(url="https://seen.test/would", would_deny="no_rule", would_deny__rule="deny **.test", credential="npm")
    journal.record("open", {"url.path": "/open", "tenant": "acme", "sandbox": "s1", "http.request.method": "GET"}, 99)
    journal.record("denials", {"tenant": "acme", "sandbox": "s1", "count": 5, "reasons": "no_rule 5"})
    journal.record("open", {"url.path": "/aborted", "tenant": "dev", "sandbox": "s3"}, 100)
    journal.record("aborted", {}, 100)
    return journal.write(tmp_path_factory.mktemp("various") / "audit.jsonl")


def paths(*arguments):
    return [one.get("url.path", one["event"])[0:].lstrip("/") for one in objects("show", "--json", *arguments)]


@pytest.mark.parametrize("words, wanted", [
    ("--tenant dev", "fail aborted"), ("--tenant dev --tenant acme --sandbox s2 --sandbox s3", "late aborted"),
    ("--verdict allow", "ok fail aborted open"), ("--verdict deny", "deny late denials"), ("--verdict would_deny", "would"),
    ("--verdict deny --verdict would_deny --sandbox s2", "late"), ("--denied", "deny late denials"),
    ("--outcome ok", "ok would"), ("--outcome failed", "fail"), ("--outcome denied", "deny late denials"),
    ("--outcome aborted", "aborted"), ("--outcome open", "open"), ("--outcome aborted --outcome open", "aborted open"),
    ("--rule keyhole.yaml:12", "ok"), ("--rule /etc/keyhole/keyhole.yaml:12", "ok"), ("--rule keyhole.yaml:1", ""),
    ("--rule *keyhole.yaml:1*", "ok fail"), ("--rule=allow\tapi.test", "ok"), ("--rule=deny\t**.test", "would"),
    ("--credential npm", "ok would"), ("--credential github", "ok"), ("--credential git", ""),
    ("--reason no_rule", "deny would"), ("--reason connect_refused", "fail"), ("--method POST", "deny"), ("--method post", ""),
    ("--id x0000000000000063", "open"), ("--host api.test --host seen.test", "ok fail would"),
    ("--until 2026-01-31T12:00:00Z --verdict would_deny", "would"), ("--until 2026-01-31T11:59:59Z", ""), ("--until 2026-01-31", ""),
    ("--since 2026-01-31T12:00:00Z --until 2026-02-01 --outcome ok", "ok would"), ("--until 1s --outcome ok", "ok would"),
])  # fmt: skip
def test_each_filter_takes_what_it_names(various, words, wanted):
    assert paths(*(word.replace("\t", " ") for word in words.split(" ")), various) == wanted.split()


def test_a_mistyped_value_is_answered_with_the_nearest(various):
    for words, says in (
        (["--verdict", "dney"], "--verdict dney: no such verdict; did you mean deny? (there is: allow, deny, would_deny)"),
        (["--outcome", "denyed"], "--outcome denyed: no such outcome; did you mean denied? (there is: ok, failed, denied, aborted, open)"),
    ):
        done = audit("show", *words, various)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"keyhole: audit show: {says}\n")
    for words, says in (
        (["--credential", "gihtub"], "no record has the credential gihtub; did you mean github? (credentials of the records: github, npm)"),
        (["--tenant", "acme", "--tenant", "dve"], "no record has the tenant dve; did you mean dev? (tenants of the records: acme, dev)"),
        (["--verdict", "deny", "--tenant", "dev"], "no record has the tenant dev and the verdict deny"),
        (["--outcome", "ok", "--outcome", "open", "--tenant", "dev", "--since", "2001-01-01"],
         "no record has the tenant dev and the outcome ok or open, since that time"),
    ):  # fmt: skip
        done = audit("show", *words, various)
        assert done.returncode == 0 and done.stderr.splitlines()[0] == f"keyhole: audit show: {says}", done


def test_refusals_that_were_only_counted_are_left_out_where_nobody_knows_and_it_is_said(various):
    for words, of in ((["--rule", "*"], "rules"), (["--method", "POST"], "methods"), (["--reason", "no_rule"], "reasons")):
        assert f"5 more refusals were only counted: nobody knows of which {of}\n" in audit("show", *words, various).stderr
    assert "only counted" not in audit("show", "--tenant", "dev", "--rule", "*", various).stderr


def test_values_are_completed():
    assert complete("audit", "show", "--verdict", "") == ["allow", "deny", "would_deny"]
    assert complete("audit", "show", "--outcome", "o") == ["ok", "open"]
