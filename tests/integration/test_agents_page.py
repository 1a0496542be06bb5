"""docs/agents.md: what an agent may see stands in its table, with the status that the source gives it."""

import os
import re
import subprocess

import pytest
from common import ROOT
from harness import PATIENCE, Tunnel

with open(os.path.join(ROOT, "docs", "agents.md"), encoding="utf-8") as file:
    PAGE = file.read()
ROWS = [row.split(" | ") for row in re.findall(r"^\| (\d+ \| .*) \|$", PAGE, re.M)]
TABLE = {(int(status), reason) for status, reasons, *_ in ROWS for reason in re.findall(r"`(\w+)`", reasons)}


def source():
    with open(os.path.join(ROOT, "include", "keyhole", "base", "err.h"), encoding="utf-8") as header:
        rows = re.findall(r'^\tX\(\w+, (\d+), "\w*", "(\w+)"\)', header.read(), re.M)
    assert len(rows) > 50
    return {(int(status), reason) for status, reason in rows} - {(0, "none")}


def test_every_reason_stands_in_the_table_once_with_its_status_and_what_to_do():
    assert TABLE == source()
    assert len(TABLE) == sum(len(re.findall(r"`(\w+)`", row[1])) for row in ROWS)
    assert all(len(row) == 4 and len(row[2]) > 10 and len(row[3]) >= 5 for row in ROWS)


RULES = [
    {"deny": "https://open.test/denied"}, {"allow": "https://open.test/test/echo", "limits": {"requests": "1/h"}},
    {"allow": "https://open.test/**"}, {"allow": "https://api.test/**", "credential": "main"},
    {"allow": "https://model.test/**", "models": ["a"]},
]  # fmt: skip
WANTS_JSON = ("Accept", "application/json")
UPGRADE = [("Connection", "upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
           ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]  # fmt: skip


@pytest.mark.parametrize("status, reason, url, fields", [
    (403, "no_rule", "elsewhere.test/", []),
    (403, "denied_by_rule", "open.test/denied", []),
    (403, "client_auth", "open.test/", [("Authorization", "Bearer mine")]),
    (421, "authority_mismatch", "open.test/", [("Host", "other.test")]),
    (426, "upgrade_unsupported", "api.test/", UPGRADE),
    (403, "model_unreadable", "model.test/", [("Content-Encoding", "gzip")]),
])  # fmt: skip
def test_what_is_seen_is_what_the_table_says(daemon, status, reason, url, fields):
    assert (status, reason) in TABLE
    one = daemon(rules=RULES)
    host, path = url.split("/", 1)
    with Tunnel(one, host) as tunnel:
        own = dict(fields).get("Host", host)
        rest = [field for field in fields if field[0] != "Host"]
        answer = tunnel.ask("POST" if reason == "model_unreadable" else "GET", "/" + path, [WANTS_JSON, *rest],
                            b"{}" if reason == "model_unreadable" else None, host=own)  # fmt: skip
    assert answer.status == status, answer
    assert answer.json()["keyhole"]["reason"] == reason
    assert answer.json()["keyhole"]["retry"] == (status in (429, 502, 503, 504))


def test_a_rate_that_is_used_up_is_429_with_its_time(daemon):
    two = daemon(rules=RULES)
    with Tunnel(two, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        answer = tunnel.ask("GET", "/test/echo", [WANTS_JSON])
    assert (answer.status, answer.json()["keyhole"]["reason"]) == (429, "limit") and answer.get("retry-after")


def test_a_client_that_does_not_trust_the_ca_says_what_the_page_says(daemon, relay):
    one = daemon(rules=RULES)
    done = subprocess.run(
        ["curl", "-sS", "--max-time", str(PATIENCE), "-x", f"http://127.0.0.1:{relay(one).port}", "https://open.test/"],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    row = re.search(r"^\| (`self-signed.*?) \|", PAGE, re.M)[1]
    assert done.returncode == 60 and any(text in done.stderr for text in re.findall(r"`(.*?)`", row)), done.stderr
