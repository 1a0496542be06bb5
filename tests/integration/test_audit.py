"""test_audit.py - the journal as others see it: checked by hashlib, by sha256sum and jq, and by the command

The journals are written by build/bench/journal, which uses the library as the worker does.
"""

import contextlib
import hashlib
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest
from harness import KEYHOLE
from journals import Journal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WRITER = os.path.join(os.path.dirname(KEYHOLE), "bench", "journal")


def write(path, *arguments, check=True, **options):
    done = subprocess.run([WRITER, path, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False, **options)  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done


def keyhole(*arguments, **options):
    return subprocess.run([KEYHOLE, "audit", *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False, **options)  # fmt: skip


def verdict(path):
    done = keyhole("verify", "--json", path)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "audit.jsonl"
    write(path, 2, 50, 7)
    return path


def records_of(path):
    """The chain by hashlib, over all lines but torn ones: those are for the command to judge."""
    before, records = "0" * 64, []
    for line in lines_of(path):
        body, _, _ = line.rpartition(b',"hash"')
        try:
            record = json.loads(line)
        except ValueError:
            continue
        assert record["hash"] == hashlib.sha256(body).hexdigest()
        assert (record["seq"], record["prev"]) == (len(records) + 1, before)
        before = record["hash"]
        records.append(record)
    return records


def lines_of(path):
    return path.read_bytes().split(b"\n")[:-1]


def test_hashlib_finds_the_same_chain(journal):
    before = "0" * 64
    lines = lines_of(journal)
    for number, line in enumerate(lines, 1):
        body, tail = line[: line.rindex(b',"hash"')], line[line.rindex(b',"hash"') :]
        assert tail == b',"hash":"%s"}' % hashlib.sha256(body).hexdigest().encode()
        record = json.loads(line)
        assert (record["seq"], record["prev"]) == (number, before)
        before = record["hash"]
    assert len(lines) == 2 * (49 * 2 + 1) + 2
    status, report = verdict(journal)
    assert (status, report["ok"], report["head"], report["last_seq"]) == (0, True, before, len(lines))
    assert (report["opens"], report["closes"], report["denials"]) == (98, 98, 2)


def recipe():
    """The program that docs/audit.md gives for checking a journal by hand."""
    with open(os.path.join(ROOT, "docs", "audit.md")) as page:
        found = re.findall(r"```sh\n(#!/bin/bash\n# check.sh.*?)```", page.read(), re.DOTALL)
    assert len(found) == 1
    return found[0]


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
def test_sha256sum_and_jq_alone_check_it(tmp_path):
    path, check = tmp_path / "audit.jsonl", tmp_path / "check.sh"
    write(path, 1, 6, 1)
    check.write_text(recipe())

    def run():
        return subprocess.run(["bash", check, path], capture_output=True, text=True, timeout=60,
                              check=False)  # fmt: skip

    done = run()
    head = json.loads(lines_of(path)[-1])["hash"]
    assert (done.returncode, done.stdout) == (0, f"ok: 13 lines, head {head}\n")
    path.write_bytes(path.read_bytes().replace(b'"acme"', b'"evil"', 1))
    done = run()
    assert (done.returncode, done.stdout) == (1, "line 2 does not fit\n")


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
def test_one_line_is_checked_as_the_page_says(journal):
    with open(os.path.join(ROOT, "docs", "audit.md")) as page:
        found = re.search(r"```sh\n(sed -n 7p .*?)```", page.read(), re.DOTALL)
    done = subprocess.run(["bash", "-c", found[1]], cwd=journal.parent, capture_output=True,
                          text=True, timeout=60, check=True)  # fmt: skip
    computed, written = done.stdout.split("\n")[:2]
    assert computed.split()[0] == written == json.loads(lines_of(journal)[6])["hash"]


TAMPERINGS = {
    "change": (lambda l: l[:8] + [l[8].replace(b"acme", b"evil").replace(b"200", b"204")] + l[9:], 9),
    "delete": (lambda l: l[:8] + l[9:], 9),
    "insert": (lambda l: l[:8] + [b'{"event":"stop"}'] + l[8:], 9),
    "duplicate": (lambda l: l[:9] + l[8:], 10),
    "swap": (lambda l: l[:8] + [l[9], l[8]] + l[10:], 9),
    "cut": (lambda l: l[:8] + [l[8][:60]] + l[9:], 9),
}


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_verify_names_the_line(journal, kind):
    tamper, line = TAMPERINGS[kind]
    journal.write_bytes(b"".join(one + b"\n" for one in tamper(lines_of(journal))))
    done = keyhole("verify", journal)
    assert done.returncode == 1
    assert re.match(rf"{re.escape(str(journal))}: BROKEN: line {line}: ", done.stdout), done.stdout


def test_a_last_line_that_is_cut_off_is_broken_until_the_next_start(journal):
    content = journal.read_bytes()
    journal.write_bytes(content[:-30])
    done = keyhole("verify", journal)
    assert done.returncode == 1
    assert "cut off" in done.stdout
    assert "torn bytes" in write(journal, 1, 1).stdout
    status, report = verdict(journal)
    assert (status, report["recovered"]) == (0, 1)
    records_of(journal)


def test_a_journal_that_is_being_written_verifies(tmp_path):
    path = tmp_path / "audit.jsonl"
    seen = []
    with subprocess.Popen([WRITER, path, "2", "60000", "2"], stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        while writer.poll() is None:
            status, report = verdict(path)
            assert status == 0, report
            seen.append(report["lines"])
    assert writer.returncode == 0
    assert len(seen) > 2
    assert seen[0] < seen[-1]


def test_a_writer_that_is_killed_leaves_a_journal_that_goes_on(tmp_path):
    path = tmp_path / "audit.jsonl"
    for life in range(10):
        with subprocess.Popen([WRITER, path, "2", "0", "50"], stdout=subprocess.PIPE) as writer:
            writer.stdout.readline()
            time.sleep(0.002 * life)
            writer.send_signal(signal.SIGKILL)
    write(path, 1, 1)
    status, report = verdict(path)
    assert (status, report["unclosed"], report["starts"]) == (0, 0, 11)
    records_of(path)


def test_a_full_disk_is_an_error_and_leaves_the_chain_whole(tmp_path):
    path = tmp_path / "audit.jsonl"

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = write(path, 2, 1000, 5, check=False, preexec_fn=small_disk)
    assert done.returncode == 1
    assert "journal: " in done.stderr
    assert path.stat().st_size <= 50_000
    status, report = verdict(path)
    assert status == 0, report
    write(path, 1, 10)
    status, report = verdict(path)
    assert (status, report["unclosed"]) == (0, 0)
    records_of(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="an append-only file takes root to make")
def test_an_append_only_file_is_written_and_closed_like_any(tmp_path):
    path = tmp_path / "audit.jsonl"
    write(path, 1, 5)
    if subprocess.run(["chattr", "+a", path], capture_output=True, check=False).returncode:
        pytest.skip("this file system has no append-only files")

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    try:
        assert write(path, 1, 1000, 5, check=False, preexec_fn=small_disk).returncode == 1
        assert path.stat().st_size == 50_000
        write(path, 1, 10)
    finally:
        subprocess.run(["chattr", "-a", path], check=True)
    status, report = verdict(path)
    assert (status, report["unclosed"]) == (0, 0), report
    records_of(path)


def test_what_can_not_be_read_is_status_2(tmp_path, journal):
    done = keyhole("verify", tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("keyhole: audit: ")
    assert keyhole("verify", tmp_path).returncode == 2
    assert keyhole("verify").returncode == 2
    assert keyhole("nonsense", journal).returncode == 2
    assert keyhole("verify", "--denied", journal).returncode == 2
    # The worst of several.
    assert keyhole("verify", journal, tmp_path / "none").returncode == 2
    empty = tmp_path / "empty"
    empty.touch()
    assert keyhole("verify", empty, journal).returncode == 1


def test_standard_input_is_read(journal):
    with open(journal) as file:
        assert keyhole("verify", "-", stdin=file).returncode == 0
    with open(journal) as file:
        assert "POST" in keyhole("show", "-", stdin=file).stdout


def test_help_is_shown():
    for arguments in (["--help"], ["verify", "--help"], ["show", "-h"]):
        done = keyhole(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("usage: keyhole audit verify")


def test_show_is_one_aligned_line_an_exchange(journal):
    done = keyhole("show", journal)
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.splitlines()
    assert len(rows) == 100 + 2
    assert "start  keyhole " in rows[0]
    exchanges = [row for row in rows if "https://" in row]
    assert len({row.index("https://") for row in exchanges}) == 1
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  200  POST     1\.0K  4\.0K    1234ms  "
                    r"https://api\.example\.com/v1/messages\?beta&key  sandbox s1 of acme  credential example  "
                    r"rule keyhole\.yaml:12$", exchanges[0])  # fmt: skip
    refused = [row for row in rows if "DENIED" in row]
    assert len(refused) == 2
    assert all("  403  POST" in row and row.endswith("DENIED no_rule: no rule allows it")
               for row in refused)  # fmt: skip
    assert keyhole("show", "--denied", journal).stdout.splitlines() == refused
    assert "a-value-that-is-never-written" not in done.stdout
    assert b"a-value-that-is-never-written" not in journal.read_bytes()


def test_show_json_is_an_exchange_an_object(journal):
    done = keyhole("show", "--json", journal)
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    exchanges = [one for one in objects if one["event"] == "exchange"]
    assert len(exchanges) == 98
    assert all(one["url.path"] == "/v1/messages" and one["http.response.status_code"] == 200
               and one["end"] >= one["time"] and "hash" not in one for one in exchanges)  # fmt: skip


def test_show_says_what_has_no_end(tmp_path):
    path = tmp_path / "audit.jsonl"
    write(path, 1, 3, 1)
    lines = lines_of(path)
    # start, open, close, open
    path.write_bytes(b"".join(line + b"\n" for line in lines[:4]))
    assert keyhole("show", path).stdout.splitlines()[-1].endswith("(no end yet)")
    write(path, 1, 1)
    assert "aborted: the worker ended first" in keyhole("show", path).stdout


def test_show_lets_nothing_through_to_the_terminal(tmp_path):
    path = tmp_path / "audit.jsonl"
    evil = "/\x1b[2J\r\n\x07\u009b\u202e\x00\\"
    record = {key: evil for key in ("time", "id", "http.request.method", "url.scheme", "server.address",
                                    "url.path", "credential", "answer", "rule_at", "reason", "detail", "version",
                                    "tenant", "sandbox")}  # fmt: skip
    record["url.query.names"] = [evil]
    with open(path, "w") as file:
        for event in ("open", "close", "deny", "start", "recovered", evil):
            file.write(json.dumps({**record, "event": event}) + "\n")
        file.write("no record\n\x00\n[]\n{\n" + "x" * 300_000 + "\ncut off")
    done = subprocess.run([KEYHOLE, "audit", "show", path], capture_output=True, timeout=60, check=False)
    everything = done.stdout + done.stderr
    assert done.returncode == 0
    assert b"\\x1b[2J" in done.stdout
    assert not re.search(rb"[^\n\x20-\x7e]", everything)
    assert len(done.stdout.splitlines()) == 6
    assert b"6 lines are no records" in done.stderr
    json_out = subprocess.run([KEYHOLE, "audit", "show", "--json", path], capture_output=True, timeout=60,
                              check=False).stdout  # fmt: skip
    assert not re.search(rb"[^\n\x20-\x7e]", json_out)


def test_show_takes_the_records_of_one_tenant_or_sandbox(tmp_path, journal):
    path = tmp_path / "several.jsonl"
    places = [("acme", "s1"), ("acme", "s2"), ("dev", "s1"), ("acme-2", "s12")]
    records = [{"event": "start", "version": "1"}]
    for i, (tenant, sandbox) in enumerate(places):
        where = {"tenant": tenant, "sandbox": sandbox}
        records += [
            {"time": "2026-01-01T00:00:00.000Z", "event": "deny", "url.path": f"/{i}", "reason": "no_rule", **where},
            {"time": "2026-01-01T00:00:00.000Z", "event": "denials", "count": 7, "reasons": "limit=7", **where},
        ]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    shown = keyhole("show", path).stdout.splitlines()
    assert len(shown) == 9 and "start" in shown[0]
    named = [re.search(r"  sandbox (\S+) of ([\w-]+)", row).group(2, 1) for row in shown[1:]]
    assert named == [place for place in places for _ in range(2)]
    for options, wanted in (
        (["--tenant", "acme"], places[:2]),
        (["--tenant=acme"], places[:2]),
        (["--sandbox", "s1"], [places[0], places[2]]),
        (["--sandbox", "s1", "--tenant", "dev"], [places[2]]),
        (["--denied", "--tenant", "dev"], [places[2]]),
        (["--tenant", "nobody"], []),
    ):
        rows = keyhole("show", *options, path).stdout.splitlines()
        assert rows == [row for row, place in zip(shown[1:], named, strict=True) if place in wanted], options
        found = [json.loads(line) for line in keyhole("show", "--json", path, *options).stdout.splitlines()]
        assert [(one["tenant"], one["sandbox"]) for one in found] == [w for w in wanted for _ in range(2)], options
    # An exchange is shown with its end, which names neither.
    assert len(keyhole("show", "--tenant", "acme", journal).stdout.splitlines()) == 100
    assert "  200  POST" in keyhole("show", "--sandbox", "s1", journal).stdout
    assert keyhole("show", "--sandbox", "s2", journal).stdout == ""
    assert keyhole("verify", "--tenant", "acme", journal).returncode == 2
    assert keyhole("show", journal, "--tenant").stderr == "keyhole: audit show: --tenant needs a value (`keyhole audit show --help` says which)\n"


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Requests for several hosts; 9,000 hours ago one more, and refusals that were only counted."""
    journal = Journal()
    for _ in range(3):
        journal.request(url="https://api.example.com/v1/x")
    journal.request(url="https://api.example.com:8443/v1/x", reason="connect_refused", status=502, late=True)
    journal.request(url="https://a.example.com/", reason="no_rule")
    journal.request(url="https://example.com/", reason="no_rule")
    journal.request(url="https://[2001:db8::1]:444/", reason="address_prohibited", late=True)
    journal.request(url="https://seen.test/", would_deny="no_rule")
    journal.request(url="http://keyhole.internal/")
    journal.request(url="https://seen.test/", reason="decided_anew", status=0, late=True)
    journal.record("denials", {"tenant": "acme", "sandbox": "s1", "count": 993, "reasons": "no_rule 990, limit 2"})
    return journal.write(tmp_path_factory.mktemp("several") / "audit.jsonl")


def urls(*arguments):
    done = keyhole("show", *arguments)
    assert done.returncode == 0, done.stderr
    return re.findall(r" (https?://\S+)", done.stdout)


@pytest.mark.parametrize("host, wanted", [
    ("api.example.com", 4), ("API.example.com:8443", 1), ("api.example.com:443", 3), ("*.example.com", 5), ("*.example.com:443", 4),
    ("example.com", 1), ("[2001:db8::1]", 1), ("2001:db8::1", 1), ("[2001:db8::1]:444", 1), ("2001:db8::/32", 1), ("[2001:db8::1]:443", 0),
    ("other.test", 0),
])  # fmt: skip
def test_show_takes_the_requests_for_a_host(several, host, wanted):
    assert len(urls("--host", host, several)) == wanted
    done = keyhole("show", "--json", "--host", host, several)
    assert len(done.stdout.splitlines()) == wanted
    says = f"keyhole: audit show: no record has the host {host} (`keyhole audit show --summary` lists the hosts)"
    assert (says in done.stderr) == (wanted == 0)
    # Nobody knows whether they were for it.
    assert "993 more refusals were only counted: nobody knows of which hosts" in done.stderr


@pytest.mark.parametrize("option, value, says", [
    ("--host", "https://api.example.com/v1", "expected a host without a scheme and a path, such as api.example.com, *.example.com or api.example.com:8443"),
    ("--host", "api.example.com:0", "expected a port from 1 to 65535 after the colon"),
    ("--host", "api.*.com", 'host "api.*.com": a star stands for whole labels in front, as in "*.example.com", or for any host: "**"'),
    ("--since", "yesterday", "expected a time such as 2026-01-02T03:04:05Z, or a duration before now such as 10m, 2h or 1d"),
    ("--since", "10", "expected a time such as 2026-01-02T03:04:05Z, or a duration before now such as 10m, 2h or 1d"),
    ("--since", "2026-02-30T00:00:00Z", "expected a time such as 2026-01-02T03:04:05Z, or a duration before now such as 10m, 2h or 1d"),
])  # fmt: skip
def test_show_says_what_a_host_and_a_time_look_like(several, option, value, says):
    done = keyhole("show", option, value, several)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"keyhole: audit show: {option} {value}: {says}\n")


def test_show_takes_what_began_since_a_time(tmp_path):
    now = time.time()
    ages = {"now": 0, "minutes": 20 * 60, "hours": 3 * 3600, "days": 30 * 3600}
    path = tmp_path / "audit.jsonl"
    records = [{"event": "deny", "server.address": f"{name}.test", "url.scheme": "https", "server.port": 443,
                "time": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(now - age))} for name, age in ages.items()]  # fmt: skip
    records.append({"event": "deny", "server.address": "unknown.test", "url.scheme": "https", "server.port": 443, "time": "some day"})
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now - ages["hours"]))
    for since, wanted in (("10m", 1), ("600s", 1), ("1h30m", 2), ("4h", 3), ("1d", 3), ("2d", 4), ("99999d", 4), (at + "Z", 3),
                          (at.replace("T", " "), 3), ("2001-01-01", 4)):  # fmt: skip
        # No time that can't be read hides a record.
        assert urls("--since", since, path) == [f"https://{name}.test" for name in [*list(ages)[:wanted], "unknown"]], since
    assert urls("--since", "1d", "--host", "hours.test", path) == ["https://hours.test"]


def test_summary_counts_by_host_decision_and_reason(several, tmp_path):
    rows = [
        (990, "deny", "no_rule", None), (3, "allow", None, "api.example.com:443"), (2, "deny", "limit", None), (1, "deny", None, None),
        (1, "deny", "address_prohibited", "[2001:db8::1]:444"), (1, "deny", "no_rule", "a.example.com:443"),
        (1, "allow", "connect_refused", "api.example.com:8443"), (1, "deny", "no_rule", "example.com:443"),
        (1, "would_deny", "no_rule", "seen.test:443"),
    ]  # fmt: skip
    shown = keyhole("show", "--summary", several).stdout.splitlines()
    assert shown[0].split() == ["COUNT", "DECISION", "REASON", "HOST"]
    assert [tuple(line.split(maxsplit=3)) for line in shown[1:]] == [
        (str(count), decision, reason or "-", host or "(not recorded)") for count, decision, reason, host in rows]  # fmt: skip
    assert len({line.index(line.split(maxsplit=3)[3]) for line in shown}) == 1, "not aligned"
    objects = [json.loads(line) for line in keyhole("show", "--summary", "--json", several).stdout.splitlines()]
    assert [(one["count"], one["decision"], one.get("reason")) for one in objects] == [row[:3] for row in rows]
    assert (objects[1]["server.address"], objects[1]["server.port"]) == ("api.example.com", 443)
    # Of all files together, each read once, and only what was asked for.
    shutil.copy(several, tmp_path / "other.jsonl")
    shown = keyhole("show", "--summary", "--host", "*.example.com", "--denied", several, tmp_path / "other.jsonl", several).stdout.splitlines()
    assert [line.split() for line in shown[1:]] == [["2", "deny", "no_rule", "a.example.com:443"]]
    nothing = keyhole("show", "--summary", "--tenant", "nobody", several)
    assert nothing.stdout == "" and "no record has the tenant nobody" in nothing.stderr
    # A sandbox chooses the hosts.
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"event":"deny","server.address":"{i}.test","reason":"no_rule"}}\n' for i in range(10_050)))
    shown = keyhole("show", "--summary", path).stdout.splitlines()
    assert len(shown) == 10_002 and shown[1].split() == ["50", "deny", "-", "(others)", "NOT", "IN", "THE", "CHAIN"]


def test_summary_says_what_is_torn_or_no_record_as_show_does(tmp_path, journal):
    lines = lines_of(journal)
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"\n".join(lines[:8] + lines[9:]) + b"\nno record\n")
    said = keyhole("show", "--summary", path).stderr
    assert said == keyhole("show", path).stderr and "do not continue the chain" in said and "are no records" in said


def test_show_says_the_whole_reason_and_what_the_address_guard_refuses(tmp_path):
    long = ", ".join(f"reason_{i} {i}" for i in range(60))
    journal = Journal().request(reason="address_prohibited", late=True, close={"detail": "of \x1b " + "x" * 380})
    journal.record("denials", {"tenant": "acme", "sandbox": "s1", "count": 2000, "reasons": long})
    for host in ("10.1.2.4", "[fd00:ec2::254]", "localhost", "open.test"):
        journal.request(url=f"http://{host}/", reason="no_rule")
    shown = keyhole("show", journal.write(tmp_path / "audit.jsonl")).stdout.splitlines()[1:]
    assert shown[0].endswith("DENIED address_prohibited: of \\x1b " + "x" * 380)
    assert shown[1].endswith(": " + long)
    guard = "DENIED no_rule: no rule allows it, and it is a {} address, to which no sandbox is connected (upstream.allow_addresses opens ranges)"
    assert shown[2].endswith(guard.format("private")) and shown[4].endswith(guard.format("loopback"))
    assert "DENIED no_rule: it is the metadata service of a cloud" in shown[3]
    assert shown[5].endswith("DENIED no_rule: a sentence")


def on_a_terminal(*arguments, **environment):
    parent, child = pty.openpty()
    env = {"PATH": os.environ["PATH"], "TERM": "xterm", **environment}
    with subprocess.Popen([KEYHOLE, "audit", *arguments], stdout=child, env=env) as process:
        os.close(child)
        output = b""
        with contextlib.suppress(OSError):
            while piece := os.read(parent, 65536):
                output += piece
        process.wait(60)
    os.close(parent)
    return output


def test_colours_are_for_terminals_that_want_them(tmp_path):
    path = tmp_path / "audit.jsonl"
    write(path, 1, 2)
    assert "\x1b" not in keyhole("show", path).stdout
    assert b"\x1b[3" in on_a_terminal("show", path)
    assert b"\x1b" not in on_a_terminal("show", path, NO_COLOR="1")
    assert b"\x1b" not in on_a_terminal("show", path, TERM="dumb")


def test_a_word_of_the_page_is_a_field_of_the_journal(tmp_path):
    """Every field that the writer writes stands in docs/audit.md."""
    path = tmp_path / "audit.jsonl"
    write(path, 1, 3, 1)
    path.write_bytes(path.read_bytes()[:-700])
    write(path, 1, 3, 1)
    fields = set().union(*(record.keys() for record in records_of(path)))
    with open(os.path.join(ROOT, "docs", "audit.md")) as page:
        named = set(re.findall(r"`([a-z_0-9.]+)`", page.read()))
    assert fields <= named, sorted(fields - named)


def chained(records, torn=b""):
    """A journal of these bodies; before the last one the bytes of `torn`, which it has to explain."""
    before, out = "0" * 64, b""
    for number, body in enumerate(records, 1):
        if number == len(records):
            body = {**body, "offset": len(out), "bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}
            out += torn + b"\n"
        text = json.dumps({**body, "seq": number, "prev": before}, separators=(",", ":"))[:-1].encode()
        before = hashlib.sha256(text).hexdigest()
        out += text + b',"hash":"%s"}\n' % before.encode()
    return out


def test_a_part_of_one_record_is_one_record_in_one_line(tmp_path):
    path = tmp_path / "audit.jsonl"
    start = {"event": "start", "time": "2026-01-01T00:00:00.000Z"}
    path.write_bytes(chained([start, start]).split(b"\n", 1)[0] + b'\n{"x":1}\n')
    assert "  whole by itself: 1 record in line 1, seq 1, head " in keyhole("verify", path).stdout


def test_show_says_that_no_record_has_a_tenant_or_sandbox(tmp_path):
    path = tmp_path / "audit.jsonl"
    records = [{"event": "deny", "tenant": tenant, "sandbox": "s1", "reason": "no_rule"} for tenant in ("acme", "dev")]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    for words, says in (
        (["--tenant", "acne"], "no record has the tenant acne; did you mean acme? (tenants of the records: acme, dev)"),
        (["--tenant", "acme", "--sandbox", "s2"], "no record has the sandbox s2; did you mean s1? (sandboxes of the records: s1)"),
        (["--sandbox", "s2"], "no record has the sandbox s2; did you mean s1? (sandboxes of the records: s1)"),
    ):
        done = keyhole("show", *words, path)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.splitlines()[-1] == "keyhole: audit show: " + says
    assert "no record has" not in keyhole("show", "--tenant", "acme", path).stderr
    assert "no record has" not in keyhole("show", "--denied", "--sandbox", "s1", path).stderr


def test_show_without_a_file_is_of_the_newest_journal_of_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = keyhole("show")
    assert done.returncode == 2 and "which journal?" in done.stderr and str(tmp_path) in done.stderr
    folder = tmp_path / "keyhole" / "audit"
    folder.mkdir(parents=True)
    for i, name in enumerate(("b.jsonl", "a.jsonl")):
        (folder / name).write_text(json.dumps({"event": "start", "version": name}) + "\n")
        os.utime(folder / name, (i, i))
    done = keyhole("show")
    assert done.returncode == 0 and "keyhole a.jsonl" in done.stdout and "b.jsonl" not in done.stdout
    assert f"the newest journal of `keyhole run`: {folder}/a.jsonl" in done.stderr
    # What is verified is named.
    done = keyhole("verify")
    assert (done.returncode, done.stdout) == (2, "") and "which journal?" in done.stderr
    assert f"the newest journal of `keyhole run`: {folder}/a.jsonl" in done.stderr


def test_show_says_that_nothing_was_refused(tmp_path):
    path = tmp_path / "audit.jsonl"
    says = "keyhole: audit show: none of the requests was refused"
    for event, said in (("open", True), ("deny", False), ("denials", False)):
        path.write_text(json.dumps({"event": event, "id": "x0123456789abcdef", "reason": "no_rule", "count": 1}) + "\n")
        assert (says in keyhole("show", "--denied", path).stderr.splitlines()) == said, event
        assert says not in keyhole("show", path).stderr


def test_show_says_what_is_no_journal(tmp_path):
    path = tmp_path / "keyhole.yaml"
    path.write_text("version: 1\ntenants: {}\n")
    done = keyhole("show", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"keyhole: audit show: {path}: this is no journal of keyhole: none of its 2 lines is a record\n"


def test_show_leaves_out_what_the_journal_declares_torn(tmp_path, journal):
    """A cut write can leave whole lines: they are no record of anything."""
    time_ = "2026-11-23T00:00:00.000Z"
    deny = {"event": "deny", "time": time_, "id": "x0000000000000001", "url.scheme": "https", "server.address": "torn.test",
            "http.request.method": "GET", "http.response.status_code": 403, "reason": "no_rule"}  # fmt: skip
    whole = json.dumps({**deny, "seq": 9, "prev": "1" * 64, "hash": "2" * 64}, separators=(",", ":")).encode()
    start = {"event": "start", "time": time_, "format": 1}
    path = tmp_path / "torn.jsonl"
    path.write_bytes(chained([start, {"event": "recovered", "time": time_}], whole + b"\n" + whole[:40]))
    assert verdict(path)[0] == 0, verdict(path)
    done = keyhole("show", path)
    assert "torn.test" not in done.stdout and "1 records are left out" in done.stderr, (done.stdout, done.stderr)
    # Without the record that explains it nothing is hidden, and a forged one hides nothing either.
    path.write_bytes(path.read_bytes().replace(b'"seq":2', b'"seq":3'))
    assert "torn.test" in keyhole("show", path).stdout


def test_a_hashed_line_that_is_not_json_does_not_verify(tmp_path):
    path = tmp_path / "audit.jsonl"
    text = b'{"event":"start","time":"x","format":1,"format":2,"seq":1,"prev":"%s"' % (b"0" * 64)
    path.write_bytes(text + b',"hash":"%s"}\n' % hashlib.sha256(text).hexdigest().encode())
    status, report = verdict(path)
    assert status == 1 and "not JSON" in report["problem"], report


TIME = "2026-11-23T00:00:00.000Z"


class Chain:
    """A journal as somebody may write it who can append to it."""

    def __init__(self, seq=0, head="0" * 64):
        self.seq, self.head, self.bytes = seq, head, b""

    def line(self, body, seq=None, prev=None, says=None):
        record = {"event": body.pop("event"), "time": TIME, **body, "seq": seq or self.seq + 1, "prev": prev or self.head}
        text = json.dumps(record, separators=(",", ":"))[:-1].encode()
        said = says or hashlib.sha256(text).hexdigest()
        return text + b',"hash":"%s"}' % said.encode(), said

    def add(self, event, **fields):
        line, self.head = self.line({"event": event, **fields})
        self.seq += 1
        self.bytes += line + b"\n"

    def tear(self, event, seq, prev, says, **fields):
        """A line that is not of the chain, and the record that explains it."""
        line, _ = self.line({"event": event, **fields}, seq, prev, says)
        offset = len(self.bytes)
        self.bytes += line + b"\n"
        self.add("recovered", offset=offset, bytes=len(line), sha256=hashlib.sha256(line).hexdigest())

    def exchange(self, number, host):
        name = f"x{number:016x}"
        self.add("open", id=name, **{"url.scheme": "https", "server.address": host})
        self.add("close", id=name)


def test_torn_lines_hide_no_record_from_show(tmp_path):
    """A torn line begins a fork, and another one goes on with it: neither is the journal."""
    chain, path = Chain(), tmp_path / "audit.jsonl"
    chain.add("start", format=1)
    fork = chain.seq + 1
    chain.tear("open", fork, chain.head, "a" * 64, id="x00000000000000ff")
    for number in range(1, 4):
        chain.exchange(number, f"honest-{number}.test")
    chain.tear("recovered", fork + 1, "a" * 64, "b" * 64, offset=1, bytes=1, sha256="0" * 64)
    chain.exchange(4, "honest-4.test")
    path.write_bytes(chain.bytes)
    status, report = verdict(path)
    assert (status, report["opens"], report["recovered"]) == (0, 4, 2), report
    done = keyhole("show", "--json", path)
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    hosts = [one["server.address"] for one in shown if one["event"] == "exchange"]
    assert hosts == [f"honest-{number}.test" for number in range(1, 5)]
    assert [one["event"] for one in shown].count("recovered") == 2
    assert "2 records are left out" in done.stderr


def test_no_recovered_record_hides_records(tmp_path):
    """Lines of a fork that others went on with are declared torn, in the words of an honest record."""
    chain, path = Chain(), tmp_path / "audit.jsonl"
    chain.add("start", format=1)
    chain.exchange(1, "before.test")
    fork = Chain(chain.seq, "ab" * 32)
    fork.add("stop")
    fork.add("start", format=1)
    fork.exchange(2, "honest.test")
    offset = len(chain.bytes)
    chain.bytes += fork.bytes
    torn = fork.bytes[:-1]
    chain.add("recovered", offset=offset, bytes=len(torn), sha256=hashlib.sha256(torn).hexdigest())
    chain.exchange(3, "after.test")
    path.write_bytes(chain.bytes)
    status, report = verdict(path)
    assert status == 1 and not report["ok"], report
    assert report["problem"] == "line 4: a record, which line 8 declares torn" and report["bad_line"] == 4, report
    done = keyhole("show", "--json", path)
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    hosts = [one["server.address"] for one in shown if one["event"] == "exchange"]
    assert hosts == ["before.test", "honest.test", "after.test"]
    assert "from line 4 on are shown though they do not continue the chain" in done.stderr


def test_show_says_where_a_journal_is_broken(journal):
    lines = lines_of(journal)
    journal.write_bytes(b"".join(line + b"\n" for line in lines[:8] + lines[9:]))
    done = keyhole("show", journal)
    assert "from line 9 on are shown though they do not continue the chain" in done.stderr
    assert len(done.stdout.splitlines()) > 90


def test_show_marks_each_record_that_is_not_in_the_chain(tmp_path):
    chain, path, counts = Chain(), tmp_path / "audit.jsonl", ["--summary", "--json"]
    chain.add("start", format=1)
    for number in range(1, 4):
        chain.add("deny", id=f"x{number:016x}", reason="no_rule", not_in_chain=True,
                  **{"url.scheme": "https", "server.address": "h.test", "http.response.status_code": 403})  # fmt: skip
    chain.add("denials", count=2, reasons="no_rule 2")
    chain.add("stop")
    lines = chain.bytes.splitlines(keepends=True)
    path.write_bytes(chain.bytes)
    assert "CHAIN" not in keyhole("show", path).stdout + keyhole("show", "--summary", path).stdout
    assert "not_in_chain" not in keyhole("show", "--json", path).stdout + keyhole("show", *counts, path).stdout
    # One line's content is changed: whatever comes after it hangs on nothing.
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"h.test", b"g.test"), *lines[3:]]))
    assert verdict(path)[0] == 1
    shown = [line.endswith("\n") and "  NOT IN THE CHAIN" in line for line in keyhole("show", path).stdout.splitlines(keepends=True)]
    assert shown == [False, False, True, True, True, True]
    objects = [json.loads(line) for line in keyhole("show", "--json", path).stdout.splitlines()]
    assert [one.get("not_in_chain", False) for one in objects] == shown
    rows = [json.loads(line) for line in keyhole("show", *counts, path).stdout.splitlines()]
    assert sorted((row["count"], row.get("server.address"), row.get("not_in_chain", False)) for row in rows) == [
        (1, "g.test", True), (1, "h.test", False), (1, "h.test", True), (2, None, True)]  # fmt: skip
    assert keyhole("show", "--summary", path).stdout.count("h.test  NOT IN THE CHAIN\n") == 1


@pytest.mark.parametrize("kind", ["unknown", "twice", "count"])
def test_no_made_up_end_hides_an_open_exchange(tmp_path, kind):
    chain, path = Chain(), tmp_path / "audit.jsonl"
    chain.add("start", format=1)
    chain.add("open", id="x0000000000000001")
    chain.exchange(2, "other.test")
    if kind == "unknown":
        chain.add("close", id="x0000000000000003")
    elif kind == "twice":
        chain.add("close", id="x0000000000000002")
    else:
        chain.add("aborted", count=1000)
    path.write_bytes(chain.bytes)
    status, report = verdict(path)
    assert report["unclosed"] == 1, report
    assert (status, report["unmatched"]) == ((0, 0) if kind == "count" else (1, 1)), report
    if kind != "count":
        assert report["bad_line"] == 5 and "not open" in report["problem"], report


def test_an_id_that_is_not_in_its_place_ends_no_exchange(tmp_path):
    chain, path = Chain(), tmp_path / "audit.jsonl"
    chain.add("start", format=1)
    chain.add("open", id="x0000000000000001", **{"server.address": "evil.test"})
    chain.add("aborted", count=1, id="x0000000000000001")
    path.write_bytes(chain.bytes)
    status, report = verdict(path)
    assert status == 1 and report["bad_line"] == 3 and "its id" in report["problem"], report
    shown = keyhole("show", path).stdout
    assert "evil.test" in shown and "(no end yet)" in shown, shown
    assert "aborted: the worker ended first" not in shown, shown


def test_no_refusal_is_hidden_by_an_escape_in_its_reason(tmp_path):
    """A reason with an escape in it would be one to a reader that decodes it, and none to another."""
    chain, path = Chain(), tmp_path / "audit.jsonl"
    chain.add("start", format=1)
    chain.add("open", id="x0000000000000001", **{"server.address": "evil.test"})
    chain.add("close", id="x0000000000000001", reason="no_rul@", **{"http.response.status_code": 403})
    text = chain.bytes.splitlines()[2].replace(b"no_rul@", b"no_rul\\u0065")
    text = text[: text.index(b',"hash":')]
    sound = text + b',"hash":"%s"}' % hashlib.sha256(text).hexdigest().encode()
    path.write_bytes(b"\n".join([*chain.bytes.splitlines()[:2], sound, b""]))
    status, report = verdict(path)
    assert status == 1 and report["bad_line"] == 3 and "reason" in report["problem"], report


def test_verify_warns_of_an_event_that_it_does_not_know(tmp_path):
    chain, path = Chain(), tmp_path / "audit.jsonl"
    chain.add("start", format=1)
    chain.add("novelty")
    path.write_bytes(chain.bytes)
    done = keyhole("verify", "--json", path)
    assert (done.returncode, json.loads(done.stdout)["unknown_events"]) == (0, 1)
    assert '"novelty" in line 2' in done.stderr


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.202611231200"])
def test_a_segment_is_found_whatever_the_name_of_the_journal(tmp_path, name):
    first = Chain()
    first.add("start", format=1)
    second = Chain(first.seq, first.head)
    second.add("start", format=1, continues=first.seq)
    third = Chain(second.seq, second.head)
    third.add("start", format=1, continues=second.seq, set_aside=True)
    (tmp_path / f"{name}.{first.seq:012}").write_bytes(first.bytes)
    (tmp_path / f"{name}.{second.seq:012}").write_bytes(second.bytes)
    (tmp_path / f"{name}.{second.seq:012}.2").write_bytes(second.bytes)
    (tmp_path / name).write_bytes(third.bytes)
    done = keyhole("verify", tmp_path / name)
    assert done.returncode == 1, done.stdout
    assert done.stdout.count(": ok: ") == 2
    assert f"{second.seq:012}: BROKEN: set aside: nothing protects what is after line {second.seq}\n" in done.stdout
    # Also from a segment that was set aside under another name.
    done = keyhole("verify", tmp_path / f"{name}.{second.seq:012}.2")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(": ok: ") == 2


def joined_segments(tmp_path, *ends):
    """A segment that ends at seq 3, and one that continues its first line and says the ends, (last_seq, head) each."""
    first, path = Chain(), tmp_path / "audit.jsonl"
    first.add("start", format=1)
    second = Chain(first.seq, first.head)
    first.add("stop")
    first.add("start", format=1)
    second.add("start", format=1, continues=1)
    for last, head in ends:
        second.add("joined", segment=1, last_seq=last, head=first.head if head is None else head)
    (tmp_path / "audit.jsonl.000000000001").write_bytes(first.bytes)
    path.write_bytes(second.bytes)
    return keyhole("verify", path)


def test_a_segments_end_that_is_said_twice_alike_is_good(tmp_path):
    done = joined_segments(tmp_path, (3, None), (3, None))
    assert (done.returncode, done.stdout.count(": ok: ")) == (0, 2), done.stdout


@pytest.mark.parametrize("first, second", [
    ((4, "a" * 64), (3, None)), ((3, "a" * 64), (3, None)), ((3, None), (4, "a" * 64)), ((4, None), (0, "0" * 64)),
])  # fmt: skip
def test_no_second_joined_record_names_another_end_of_a_segment(tmp_path, first, second):
    done = joined_segments(tmp_path, first, second)
    assert done.returncode == 1 and "audit.jsonl: BROKEN: line 3: names " in done.stdout, done.stdout
    if first != (3, None):
        assert "000000000001: BROKEN: it ends at seq 3, and the next segment says" in done.stdout, done.stdout


@pytest.mark.parametrize("last, head", [(0, "0" * 64), (0, None), (3, "A" * 64), (3, "")])
def test_a_joined_record_names_an_end_that_the_segment_can_have(tmp_path, last, head):
    done = joined_segments(tmp_path, (last, head))
    said = "audit.jsonl: BROKEN: line 2: names no end that the segment before can have"
    assert done.returncode == 1 and said in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["audit.202611231200", "audit.jsonl.000000000123", "a.000000000123.2"])
def test_a_journal_is_not_named_like_a_segment(tmp_path, name):
    config = tmp_path / "keyhole.yaml"
    config.write_text(f"version: 1\naudit: {{ file: {name} }}\n")
    done = subprocess.run([KEYHOLE, "check", "-c", config], capture_output=True, text=True, timeout=60,
                          check=False)  # fmt: skip
    assert done.returncode == 1
    assert "ends like the name of an earlier segment" in done.stdout + done.stderr
    assert "give it another end, such as .jsonl" in done.stdout + done.stderr
