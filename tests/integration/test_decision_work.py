"""What one decision costs is bounded: no request holds up the requests of others on its thread."""

import os

import pytest
from harness import Tunnel

PATH = "/" + "secret/" * 2150 + "%2F%2561"
FIELDS = [("X-HTTP-Method-Override", method) for method in ("GET", "PUT", "POST", "HEAD")]
FIELDS += [("X-Forwarded-Host", "open.test"), ("X-Host", "open.test:443")]


def denials(count):
    rules = [{"deny": f"https://open.test/**/secrets{i}/**"} for i in range(count)]
    return [*rules, {"allow": "https://open.test"}]


def seconds_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("fields", [FIELDS, [*FIELDS, ("X-Original-URL", "/x")]], ids=["hosts", "a path"])
def test_a_request_with_many_readings_of_a_long_path_takes_little_of_the_cpu(daemon, fields):
    one = daemon(rules=denials(30))
    with Tunnel(one, "open.test") as tunnel:
        tunnel.ask("GET", "/", fields)
        before, count = seconds_of(one.worker_pid()), 20
        for _ in range(count):
            tunnel.ask("GET", PATH, fields)
        assert (seconds_of(one.worker_pid()) - before) / count < 0.04


def test_what_would_take_too_many_steps_is_refused_and_the_next_request_is_not(daemon, mock):
    one = daemon(rules=denials(2000))
    before = len(mock.events("request"))
    with Tunnel(one, "open.test") as tunnel:
        answer = tunnel.ask("GET", PATH, [*FIELDS, ("Accept", "application/json")])
        assert (answer.status, answer.json()["keyhole"]["reason"]) == (403, "request_too_complex"), answer
        assert len(mock.events("request")) == before
        assert tunnel.ask("GET", "/test/echo", FIELDS).status == 200
    record = one.journal(event="deny")[0]
    assert record["reason"] == "request_too_complex" and "rule" not in record
