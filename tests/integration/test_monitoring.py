"""test_monitoring.py - alerts that fire when they should, and a dashboard that asks for what is there."""

import json
import os
import re
import shutil
import subprocess

from admin_client import admin, ask, serves
import pytest
from common import ROOT
from harness import until

yaml = pytest.importorskip("yaml")
RULES = os.path.join(ROOT, "deploy", "prometheus", "keyhole.rules.yml")
TESTS = os.path.join(ROOT, "deploy", "prometheus", "keyhole.rules.test.yml")
DASHBOARD = os.path.join(ROOT, "deploy", "grafana", "keyhole.json")
# What Prometheus itself adds.
OF_PROMETHEUS = {"instance", "job", "le"}


def alerts():
    with open(RULES, encoding="utf-8") as file:
        return [rule for group in yaml.safe_load(file)["groups"] for rule in group["rules"]]


def dashboard():
    with open(DASHBOARD, encoding="utf-8") as file:
        return json.load(file)


def queries():
    """(where, query) of all that is asked."""
    found = [(rule["alert"], rule["expr"]) for rule in alerts()]
    what = dashboard()
    found += [(p["title"], t["expr"]) for p in what["panels"] for t in p.get("targets", [])]
    return found + [(v["name"], v["definition"]) for v in what["templating"]["list"] if v["type"] == "query"]


def promtool(*args):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    return subprocess.run(["promtool", *args], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(name="scraped")
def a_scrape(daemon):
    """{metric: its labels} of a daemon that has done a little of everything."""
    one = daemon({**admin(), "tenants": {"acme": {"limits": {"requests": "3/h"}}}})
    for _ in range(4):
        serves(one)
    until("all is counted", lambda: b'decision="deny"} 1' in ask(one, "/metrics")[1])
    text = ask(one, "/metrics")[1].decode()
    found = {}
    for name in re.findall(r"^# TYPE (\w+)", text, re.M):
        found[name] = set()
    for name, labels in re.findall(r"^(\w+)\{([^}]*)\}", text, re.M):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def test_promtool_takes_the_alerts():
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_not_else():
    done = promtool("test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(TESTS, encoding="utf-8") as file:
        cases = [case for test in yaml.safe_load(file)["tests"] for case in test["alert_rule_test"]]
    for rule in alerts():
        mine = [case for case in cases if case["alertname"] == rule["alert"]]
        assert {bool(case["exp_alerts"]) for case in mine} == {True, False}, rule["alert"]


def test_every_query_is_one(tmp_path):
    """Those of the dashboard too, with something in the place of its variables."""
    text = []
    for i, (_, query) in enumerate(queries()):
        query = re.sub(r"^label_values\((\w+), \w+\)$", r"\1", query)
        query = re.sub(r"\$__\w+", "5m", query)
        text.append({"record": f"q:{i}", "expr": query.replace("$instance", ".*").replace("$tenant", ".*")})
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": text}]}))
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def missing(query, scraped):
    """What a query names and nobody has."""
    names = re.findall(r"\b((?:keyhole|process)_\w+)(?:\{([^}]*)\})?", query)
    bases = {name: name if name in scraped else re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in names}
    wrong = [name for name, base in bases.items() if base not in scraped]
    there = {name: OF_PROMETHEUS | scraped.get(base, set()) | scraped.get(name, set()) for name, base in bases.items()}
    for name, matchers in names:
        wrong += set(re.findall(r'(\w+)\s*(?:=|!=|=~|!~)\s*"', matchers)) - there[name]
    for labels in re.findall(r"by \(([^)]*)\)", query) + re.findall(r"^label_values\(\w+, (\w+)\)$", query):
        wrong += set(re.split(r",\s*", labels)) - set.union(*there.values())
    return wrong


def test_queries_ask_for_nothing_that_is_not_there(scraped):
    asked = set()
    for where, query in queries():
        assert missing(query, scraped) == [], where
        asked |= set(re.findall(r"\bkeyhole_\w+", query))
    assert len(asked) >= 20, "most of what is counted is looked at"


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("rate(keyhole_requests[5m])", ["keyhole_requests"]),
        ('keyhole_requests_total{host="x"}', ["host"]),
        ("sum by (path) (keyhole_requests_total)", ["path"]),
        ("label_values(keyhole_ready, tenant)", ["tenant"]),
        ("sum by (le) (keyhole_request_own_seconds_bucket)", []),
    ],
)
def test_what_is_not_there_is_found(scraped, query, wrong):
    assert missing(query, scraped) == wrong


def test_panels_lie_beside_each_other_and_have_a_source():
    what = dashboard()
    taken, ids = set(), set()
    for panel in what["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert panel["id"] not in ids
        ids.add(panel["id"])
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert panel["targets"] and all(t["expr"] for t in panel["targets"])
    variables = {v["name"] for v in what["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)", json.dumps(what)))
    assert used <= variables, used - variables
