"""Metrics count what happened as what it was, in families that the page names."""

import contextlib
import os
import re
import shutil
import subprocess

import pytest
from admin_client import admin, ask, ctl, samples, serves, status
from harness import KEYHOLE, ROOT, Tunnel, until
from test_base_url import origin_form


def test_promtool_has_nothing_to_say_about_a_live_scrape(daemon):
    if not shutil.which("promtool"):
        pytest.skip("promtool (of prometheus) is not installed")
    one = daemon(admin())
    assert serves(one)
    content = ask(one, "/metrics")[1]
    done = subprocess.run(["promtool", "check", "metrics"], input=content, capture_output=True,
                          timeout=30, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_address_that_is_refused_counts_as_a_refusal_and_a_page_of_keyholes_as_no_request(daemon):
    one = daemon(admin(), rules=[{"allow": "https://10.1.2.3"}])
    before = samples(one)
    with Tunnel(one, "10.1.2.3") as tunnel:
        refused = tunnel.ask("GET", "/")
    assert refused.status == 403 and b"Allowed:" not in refused.body, "the rule that allows it is no advice"
    assert origin_form(one, "/").status == 200
    until("both have ended", lambda: len(one.journal(event="close")) == 2)
    after = samples(one)

    def grew(name):
        return after.get(name, 0) - before.get(name, 0)

    assert grew('keyhole_requests_total{tenant="acme",decision="deny"}') == 1
    assert grew('keyhole_requests_total{tenant="acme",decision="allow"}') == 0
    assert grew('keyhole_denials_total{reason="address_prohibited"}') == 1
    assert grew('keyhole_failures_total{reason="address_prohibited"}') == 0
    report = subprocess.run([KEYHOLE, "audit", "verify", one.journal_path], capture_output=True, text=True, timeout=30, check=True).stdout
    assert ", 1 request allowed, 1 refused" in report, "keyhole's own page is in the journal: " + report


def test_each_kind_of_request_is_counted_as_what_it_was(daemon):
    one = daemon(admin(), rules=[
        {"allow": "POST https://api.test", "credential": "main"},
        {"deny": "https://open.test/no"},
        {"allow": "https://open.test"},
    ])  # fmt: skip
    before = samples(one)
    with Tunnel(one, "open.test") as tunnel:
        for _ in range(3):
            assert tunnel.ask("GET", "/test/echo").status == 200
        assert tunnel.ask("GET", "/no").status == 403
        running = samples(one)
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("POST", "/test/echo", body=b"x" * 1000).status == 200
        assert tunnel.ask("GET", "/other").status == 403
    with contextlib.suppress(Exception), Tunnel(one, "nowhere.test") as tunnel:
        tunnel.ask("GET", "/")
    until("all connections have ended", lambda: samples(one)['keyhole_connections{tenant="acme"}'] == 0)
    after = samples(one)

    def grew(name):
        return after[name] - before.get(name, 0)

    assert running['keyhole_connections{tenant="acme"}'] == 1
    assert running["keyhole_tunnels"] == 1
    assert after["keyhole_tunnels"] == after["keyhole_requests_running"] == 0
    opens, denials = len(one.journal(event="open")), len(one.journal(event="deny"))
    assert opens == 4 and denials == 3
    assert grew('keyhole_requests_total{tenant="acme",decision="allow"}') == opens
    assert grew('keyhole_requests_total{tenant="acme",decision="deny"}') == denials
    assert grew('keyhole_requests_total{tenant="acme",decision="would_deny"}') == 0
    assert grew('keyhole_denials_total{reason="denied_by_rule"}') == 1
    assert grew('keyhole_denials_total{reason="no_rule"}') == 2
    assert grew('keyhole_content_bytes_total{tenant="acme",direction="up"}') == 1000
    assert grew('keyhole_content_bytes_total{tenant="acme",direction="down"}') == sum(
        r["http.response.body.size"] for r in one.journal(event="close")
    )
    assert grew("keyhole_request_duration_seconds_count") == opens
    assert grew("keyhole_request_own_seconds_count") == opens
    assert 0 < grew("keyhole_request_own_seconds_sum") < grew("keyhole_request_duration_seconds_sum")
    assert grew("keyhole_connections_opened_total") >= 2
    assert grew('keyhole_upstream_requests_total{connection="new"}') == 2
    assert grew('keyhole_upstream_requests_total{connection="reused"}') == 2
    assert grew("keyhole_upstream_connections_opened_total") == 2
    # The refusal of nowhere.test is told inside TLS.
    assert grew('keyhole_tls_handshakes_total{side="sandbox",result="full"}') == 3
    assert grew('keyhole_tls_handshakes_total{side="upstream",result="full"}') == 2
    assert grew("keyhole_journal_records_total") == 2 * opens + denials
    assert after['keyhole_credential_ready{credential="main"}'] == 1
    assert after["keyhole_ready"] == after["keyhole_journal_writable"] == 1


def test_buckets_of_a_histogram_rise_and_end_with_all(daemon):
    one = daemon(admin())
    with Tunnel(one, "open.test") as tunnel:
        for _ in range(20):
            assert tunnel.ask("GET", "/test/echo").status == 200
    until("all are counted", lambda: samples(one)["keyhole_request_duration_seconds_count"] == 20)
    for name in ("keyhole_request_duration_seconds", "keyhole_request_own_seconds"):
        found = samples(one)
        buckets = [v for n, v in found.items() if n.startswith(name + "_bucket")]
        assert buckets == sorted(buckets)
        assert found[name + '_bucket{le="+Inf"}'] == buckets[-1] == found[name + "_count"] == 20


def test_what_is_only_observed_is_counted_as_that(daemon):
    one = daemon({**admin(), "tenants": {"acme": {"mode": "observe"}}}, rules=[{"deny": "https://open.test"}])
    assert serves(one)
    until("it is counted", lambda: samples(one)[
        'keyhole_requests_total{tenant="acme",decision="would_deny"}'] == 1)  # fmt: skip


def test_a_limit_that_refuses_is_counted_and_shown_when_it_is_near(daemon):
    one = daemon({**admin(), "tenants": {"acme": {"limits": {"requests": "2/h"}}}})
    with Tunnel(one, "open.test") as tunnel:
        assert [tunnel.ask("GET", "/test/echo").status for _ in range(3)] == [200, 200, 429]
    assert samples(one)['keyhole_limit_refusals_total{limit="requests"}'] == 1
    [near] = status(one)["limits"]
    assert (near["of"], near["name"], near["limit"], near["used"], near["most"]) == (
        "tenant", "acme", "requests 2/h", 2, 2)  # fmt: skip
    assert "2 of 2 (100 %)" in ctl(one, "status").stdout


def test_no_label_is_the_sandboxes_to_choose(daemon):
    one = daemon(admin())
    names = set(samples(one))
    with Tunnel(one, "open.test") as tunnel:
        for i in range(30):
            tunnel.ask("GET", f"/made-up-{i}?x={i}")
    for i in range(30):
        with contextlib.suppress(Exception), Tunnel(one, f"made-up-{i}.test") as tunnel:
            tunnel.ask("GET", "/")
    text = ask(one, "/metrics")[1].decode()
    assert "made-up" not in text and "open.test" not in text
    new = {re.sub(r"\{.*", "", n) for n in set(samples(one)) - names}
    assert new <= {"keyhole_failures_total", "keyhole_denials_total"}


def test_counters_of_a_tenant_outlive_a_reload(daemon):
    one = daemon(admin())
    assert serves(one)
    name = 'keyhole_requests_total{tenant="acme",decision="allow"}'
    until("it is counted", lambda: samples(one)[name] == 1)
    one.config["tenants"]["new"] = {"rules": []}
    one.config["tenants"] = dict(reversed(one.config["tenants"].items()))
    one.write(one.config)
    ctl(one, "reload")
    assert serves(one)
    until("both are there", lambda: samples(one)[name] == 2)
    assert samples(one)['keyhole_requests_total{tenant="new",decision="allow"}'] == 0


def test_the_page_names_every_metric_and_no_other(daemon):
    one = daemon(admin())
    assert serves(one)
    families = set(re.findall(r"^# TYPE (\w+)", ask(one, "/metrics")[1].decode(), re.M))
    with open(os.path.join(ROOT, "docs", "operations.md"), encoding="utf-8") as file:
        rows = [line for line in file if line.startswith("| `")]
    named = set(re.findall(r"`(keyhole_\w+)`", "".join(rows)))
    assert named == {name for name in families if name.startswith("keyhole_")}
    for name in families - named:
        assert name.startswith("process_")
