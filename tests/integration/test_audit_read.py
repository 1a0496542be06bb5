"""test_audit_read.py - who reads a journal finds what they look for: filters, formats, segments"""

import csv
import json
import os
import re
import select
import subprocess
import time

import pytest
from common import KEYHOLE, ROOT
from handover import ask
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
    for option, typed, near in (("verdict", "denied", "deny"), ("verdict", "Allowed", "allow"), ("outcome", "error", "failed"), ("outcome", "deny", "denied")):
        assert f"no such {option}; did you mean {near}?" in audit("show", f"--{option}", typed, various).stderr
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


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    text = "=\x1b[2J\r\n\x07\u009b\u202e\x00\\,\"'"
    journal = Journal()
    journal.request(method=text, url="https://evil.test/" + text, reason=text, tenant=text, sandbox=text, rule=text, rule_at=text,
                    credential=text, via=text, tunnel=text, limit=text, would_deny=text, query=[text], close={"placeholders": text})  # fmt: skip
    journal.request(method=text, late=True, reason="connect_refused", close={"detail": text, "tls.protocol.version": text})
    journal.record("denials", {"tenant": text, "sandbox": text, "count": 2, "reasons": text})
    return journal.write(tmp_path_factory.mktemp("evil") / "audit.jsonl")


def every_column():
    return ",".join(complete("audit", "query", "--columns", ""))


@pytest.mark.parametrize("form", [[], ["--csv"], ["--json"]])
@pytest.mark.parametrize("verb", ["show", "query", "tail"])
def test_no_byte_of_a_record_moves_a_terminal(evil, verb, form):
    for columns in ([], ["--columns", every_column()]):
        done = subprocess.run([KEYHOLE, "audit", verb, *form, *columns, evil], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 and b"evil.test" in done.stdout, done
        assert not re.search(rb"[^\n\x20-\x7e]", done.stdout + done.stderr)
        assert len(done.stdout.splitlines()) in (3, 4, 5)


def test_what_a_record_names_is_not_run_by_a_terminal_that_asks_for_it(evil):
    for option in ("--tenant", "--credential", "--rule", "--method", "--columns", "--since", "--last", "--id"):
        done = subprocess.run([KEYHOLE, "audit", "query", option, "\x1b]0;x\x07\xff", evil], capture_output=True, timeout=60, check=False)
        assert not re.search(rb"[^\n\x20-\x7e]", done.stdout + done.stderr), option


def test_csv_is_read_by_others_and_holds_no_formula(evil, various):
    rows = list(csv.DictReader(audit("query", "--csv", "--columns", every_column(), evil).stdout.splitlines()))
    assert [row["count"] for row in rows] == ["1", "1", "2"]
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())
    assert rows[0]["tenant"] == "'=\\x1b[2J\\x0d\\x0a\\x07\\xc2\\x9b\\xe2\\x80\\xae\\x00\\\\,\\\"'"
    usual = list(csv.DictReader(audit("query", "--csv", various).stdout.splitlines()))
    assert usual == list(csv.DictReader(audit("show", "--csv", various).stdout.splitlines()))
    assert usual[0] == {"time": TIME, "tenant": "acme", "sandbox": "s1", "verdict": "allow", "outcome": "ok", "count": "1", "status": "200",
                        "sent": "0", "received": "0", "ms": "1", "method": "GET", "host": "api.test", "port": "443",
                        "credential": "github,npm", "rule": "/etc/keyhole/keyhole.yaml:12", "reason": "", "not_in_chain": ""}  # fmt: skip
    assert audit("query", "--csv", "--tenant", "nobody", various).stdout.startswith("time,tenant,")


def test_query_prints_the_columns_that_are_named(various):
    done = audit("query", "--columns", "http.request.method, url,outcome,count", "--outcome", "denied", various)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["method", "url", "outcome", "count"], ["POST", "https://bad.test/deny", "denied", "1"], ["GET", "https://bad.test/late", "denied", "1"],
        ["-", "-", "denied", "5"]]  # fmt: skip
    assert len({line.index("denied") for line in done.stdout.splitlines()[1:]}) == 1
    assert objects("query", "--json", "--columns", "id,would_deny,rule,port,verdict", "--verdict", "would_deny", various) == [
        {"id": "x0000000000000005", "would_deny": "no_rule", "port": 443, "verdict": "would_deny"}]  # fmt: skip
    done = audit("query", "--columns", "time,hots", various)
    assert done.returncode == 2 and "--columns: no such column: hots; did you mean host? (there is: time, end," in done.stderr
    assert audit("query", "--columns", "", various).returncode == 2
    assert complete("audit", "query", "--columns", "time,ho") == ["time,host"]


def test_a_table_marks_what_is_not_in_the_chain_whatever_its_columns(tmp_path):
    journal = Journal()
    for _ in range(4):
        journal.request(reason="no_rule")
    path = journal.write(tmp_path / "audit.jsonl", [line for i, line in enumerate(journal.lines()) if i != 2])
    shown = audit("query", "--columns", "host", path).stdout.splitlines()
    assert shown[1:] == ["api.example.com", *["api.example.com  NOT IN THE CHAIN"] * 2]
    assert [one.get("not_in_chain", False) for one in objects("query", "--json", "--columns", "host", path)] == [False, True, True]
    assert [row["not_in_chain"] for row in csv.DictReader(audit("query", "--csv", path).stdout.splitlines())] == ["", "true", "true"]


def test_the_last_rows_are_those_that_end_last(various):
    rows = audit("show", various).stdout.splitlines()
    assert len(rows) == 9
    for words, n in ((["-n", "3"], 3), (["--last", "1"], 1), (["--last=100000"], 9)):
        assert audit("show", *words, various).stdout.splitlines() == rows[-n:]
    assert audit("tail", various, various).stdout.splitlines() == rows
    assert audit("tail", "-n2", "--verdict", "allow", various).stdout.splitlines() == audit("show", "--verdict", "allow", various).stdout.splitlines()[-2:]
    assert [one["path"] for one in objects("query", "--json", "-n", "1", "--columns", "path", various)] == ["/open"]
    for wrong in ("0", "-1", "x", "100001", ""):
        done = audit("tail", "--last", wrong, various)
        assert (done.returncode, done.stderr) == (2, f"keyhole: audit tail: --last {wrong}: expected a number from 1 to 100000\n")


def test_rows_are_kept_in_bounded_memory(tmp_path):
    """More rows than may be kept, each as long as one can be."""
    path = tmp_path / "audit.jsonl"
    with open(path, "w") as file:
        for number in range(5_800):
            file.write(json.dumps({"event": "deny", "time": TIME, "url.path": f"/{number}/" + "\u20ac" * 2000}, ensure_ascii=False) + "\n")
    done = subprocess.run([KEYHOLE, "audit", "show", "--json", "-n", "100000", path], capture_output=True, text=True, timeout=60, check=False)
    assert 60 << 20 < len(done.stdout) <= 64 << 20
    rows = [json.loads(line)["url.path"].split("/")[1] for line in done.stdout.splitlines()]
    assert rows == [str(number) for number in range(5_800 - len(rows), 5_800)]
    assert f"{5_800 - len(rows)} of the last rows are left out: they have more than 64 MiB together" in done.stderr


@pytest.mark.parametrize("words", ["show", "show --json", "show --summary", "tail", "query", "query --csv", "stats"])
def test_the_size_of_a_journal_does_not_matter(large, words):
    limited = f"ulimit -d 16384 && exec {KEYHOLE} audit {words} {large}"
    done = subprocess.run(["bash", "-c", limited], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "audit.jsonl"
    subprocess.run([os.path.join(os.path.dirname(KEYHOLE), "bench", "journal"), path, "2", "15000"], check=True, capture_output=True, timeout=60)
    assert os.path.getsize(path) > 30 << 20
    return path


def segment_names(folder, *numbers):
    """Journals of one request each, under the names of segments."""
    for number in numbers:
        where = f"audit.jsonl.{number}" if number else "audit.jsonl"
        Journal().request(url=f"https://s{number}.test/").write(folder / where)


def hosts(*arguments):
    return [row["host"].split(".")[0].lstrip("s") for row in objects("query", "--json", "--columns", "host", *arguments)]


def test_segments_are_found_and_read_in_their_order(tmp_path):
    segment_names(tmp_path, "", "000000000123", "000000000045", "000000000045.2", "000000000045.10", "1000000000000")
    for other in ("audit.jsonl.lock", "audit.jsonl.12", "audit.jsonl.000000000045.x", "audit.jsonl2", "xaudit.jsonl.000000000001"):
        (tmp_path / other).write_text("no record\n")
    wanted = ["000000000045", "000000000045", "000000000045", "000000000123", "1000000000000", ""]
    assert hosts(tmp_path / "audit.jsonl") == wanted
    here = audit("query", "--json", "--columns", "host", "audit.jsonl", cwd=tmp_path).stdout
    assert here == audit("query", "--json", "--columns", "host", tmp_path / "audit.jsonl").stdout
    # As a shell names them, and one of them alone.
    assert hosts(tmp_path / "audit.jsonl", *tmp_path.glob("audit.jsonl.*45"), *tmp_path.glob("audit.jsonl.*123")) == wanted
    assert hosts(tmp_path / "audit.jsonl.000000000123") == ["000000000123"]
    assert audit("tail", "-n", "1", tmp_path / "audit.jsonl").stdout.count("https://s.test/") == 1


def test_a_segment_that_is_missing_is_named(tmp_path):
    journal = Journal().request()
    journal.bodies[0]["continues"] = 7
    path = journal.write(tmp_path / "audit.jsonl")
    assert f"{path}: continues line 7 of a segment that is missing ({path}.000000000007)\n" in audit("show", path).stderr
    Journal().request().write(tmp_path / "audit.jsonl.000000000007")
    assert "missing" not in audit("show", path).stderr
    os.unlink(path)
    done = audit("show", path)
    assert done.returncode == 2 and "No such file" in done.stderr and done.stdout.count("https://") == 1


def test_what_is_wrong_with_a_journal_is_said_and_where(tmp_path):
    whole = "".join(Journal().request().request().lines()).encode()
    two = zip(Journal().request().request().lines(), Journal().request(tenant="dev").request().lines(), strict=True)
    path = tmp_path / "audit.jsonl"
    for data, says in (
        ("".join(line for pair in two for line in pair).encode(), "9 records from line 2 on are shown though they do not continue the chain"),
        (b"", "empty: a journal has a `start` record at least"),
        (whole[:-40], "line 5 is cut off: no newline ends it"),
        (whole + b"x\ny\n" + whole, "2 lines are no records, the first is line 6 (see `keyhole audit verify`)"),
        (whole + "".join(Journal().request().lines()).encode(), "3 records from line 6 on are shown though they do not continue the chain"),
    ):  # fmt: skip
        path.write_bytes(data)
        for verb in ("show", "query", "tail"):
            done = audit(verb, path)
            assert done.returncode == 0 and f"keyhole: audit {verb}: {path}: {says}" in done.stderr, (says, done.stderr)


def test_a_journal_that_is_cut_anywhere_is_read_up_to_there(tmp_path):
    whole = "".join(Journal().request().request(reason="no_rule").lines()).encode()
    path = tmp_path / "audit.jsonl"
    for cut in range(0, len(whole), 137):
        path.write_bytes(whole[:cut])
        done = audit("query", "--json", path)
        assert all(json.loads(line) for line in done.stdout.splitlines()), cut
        assert done.returncode in (0, 2) and (done.stderr or cut == len(whole) or whole[:cut].endswith(b"\n")), cut


def test_options_that_do_not_go_together_are_refused(various):
    for words, says in (
        (["show", "--csv", "--json"], "--csv and --json: which of the two?"),
        (["tail", "--summary"], "--summary is an option of `keyhole audit show`"),
        (["show", "--summary", "--csv"], "--summary goes together with neither --csv, --columns nor --last"),
    ):  # fmt: skip
        done = audit(*words, various)
        assert (done.returncode, done.stderr) == (2, f"keyhole: audit {words[0]}: {says}\n")


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    journal = Journal()
    for _ in range(3):
        journal.request(url="https://a.test/x", close={"http.request.body.size": 10, "http.response.body.size": 200})
    journal.request(url="https://a.test/y", reason="connect_refused", status=502, late=True)
    journal.request(url="https://b.test/", reason="no_rule", rule_at="keyhole.yaml:3", tenant="dev")
    journal.request(url="https://b.test/", would_deny="no_rule", tenant="dev", close={"http.request.body.size": 5})
    journal.request(url="http://keyhole.internal/")
    journal.record("denials", {"tenant": "dev", "sandbox": "s1", "count": 7, "reasons": "no_rule 4, limit 2"})
    return journal.write(tmp_path_factory.mktemp("counted") / "audit.jsonl")


def test_stats_count_hosts_tenants_and_refusals_by_rule(counted):
    zero = {"denied": 0, "would_deny": 0, "failed": 0, "sent": 0, "received": 0}
    assert objects("stats", "--json", counted) == [
        {"table": "total", "requests": 13, "denied": 8, "would_deny": 1, "failed": 1, "sent": 35, "received": 600},
        {"table": "tenants", "tenant": "dev", **zero, "requests": 9, "denied": 8, "would_deny": 1, "sent": 5},
        {"table": "tenants", "tenant": "acme", **zero, "requests": 4, "failed": 1, "sent": 30, "received": 600},
        {"table": "hosts", "host": "a.test", **zero, "requests": 4, "failed": 1, "sent": 30, "received": 600},
        {"table": "hosts", "host": "b.test", **zero, "requests": 2, "denied": 1, "would_deny": 1, "sent": 5},
        {"table": "denials", "tenant": "dev", "reason": "no_rule", "denied": 4},
        {"table": "denials", "tenant": "dev", "reason": "limit", "denied": 2},
        {"table": "denials", "tenant": "dev", "denied": 1},
        {"table": "denials", "tenant": "dev", "rule": "keyhole.yaml:3", "reason": "no_rule", "denied": 1},
    ]
    rows = list(csv.DictReader(audit("stats", "--csv", counted).stdout.splitlines()))
    assert [{key: value for key, value in row.items() if value} for row in rows] == [
        {key: str(value) for key, value in one.items()} for one in objects("stats", "--json", counted)]  # fmt: skip
    assert [one["table"] for one in objects("stats", "--json", "--top", "1", counted)] == ["total", "tenants", "hosts", "denials"]
    shown = audit("stats", "--top", "1", counted).stdout
    assert [line.split() for line in shown.splitlines() if "dev" in line] == [
        ["9", "8", "1", "0", "5", "0", "dev"], ["4", "dev", "-", "no_rule"]]  # fmt: skip
    assert "(3 more: --top shows them)" in shown and not re.search(r" $", shown, re.M)
    assert [one["requests"] for one in objects("stats", "--json", "--tenant", "acme", "--outcome", "ok", counted)] == [3, 3, 3]
    done = audit("stats", "--tenant", "nobody", counted)
    assert done.stdout == "" and "no record has the tenant nobody" in done.stderr


def test_stats_are_counted_in_bounded_memory_and_safe_to_print(tmp_path, evil):
    path = tmp_path / "audit.jsonl"
    path.write_text("".join(f'{{"event":"deny","server.address":"{i}.test","reason":"no_rule"}}\n' for i in range(10_050)))
    rows = [one for one in objects("stats", "--json", "--top", "10000", path) if one["table"] == "hosts"]
    assert len(rows) == 10_000 and (rows[0]["host"], rows[0]["requests"], rows[0]["not_in_chain"]) == ("(others)", 50, True)
    for form in ([], ["--json"], ["--csv"]):
        done = subprocess.run([KEYHOLE, "audit", "stats", *form, evil], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 and b"evil.test" in done.stdout and not re.search(rb"[^\n\x20-\x7e]", done.stdout + done.stderr)
    for words in (["stats", "--columns", "host"], ["stats", "-n", "1"], ["show", "--top", "3"], ["stats", "--top", "0"]):
        assert audit(*words, evil).returncode == 2, words


def commands_of_page():
    with open(os.path.join(ROOT, "docs", "audit.md"), encoding="utf-8") as page:
        part = page.read().split("## Search a journal")[1].split("\n## ")[0]
    return [line for block in re.findall(r"```sh\n(.*?)```", part, re.S) for line in block.splitlines()]


@pytest.mark.parametrize("command", commands_of_page())
def test_the_queries_of_the_page_find_what_they_name(tmp_path, command):
    journal = Journal()
    for sandbox in ("s1", "s2"):
        journal.request(url="https://api.github.com/", sandbox=sandbox, credential="github", rule_at="/etc/keyhole.yaml:12")
    journal.request(reason="no_rule").request(would_deny="no_rule").request(reason="connect_refused", status=502, late=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    for body in journal.bodies:
        body["time"] = "2026-01-02T03:30:00.000Z" if "--until" in command else now
    journal.write(tmp_path / "audit.jsonl")
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PATH": os.path.dirname(KEYHOLE) + ":" + os.environ["PATH"]})  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "") and done.stdout, done
    assert ".com" in done.stdout or "acme" in done.stdout


class Followed:
    """`keyhole audit VERB -f` of a journal that grows; its rows are awaited."""

    def __init__(self, path, *arguments):
        self.process = subprocess.Popen([KEYHOLE, "audit", *arguments, "-f", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    def rows(self, n):
        rows = []
        while len(rows) < n:
            assert select.select([self.process.stdout], [], [], 30)[0], rows
            line = self.process.stdout.readline()
            assert line, (rows, self.process.stderr.read())
            rows.append(next(iter(json.loads(line).values())))
        return rows

    def is_silent(self):
        return not select.select([self.process.stdout], [], [], 0.6)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=30)


QUERY = ("query", "--json", "--columns", "host")


def lines_for(*names):
    journal = Journal()
    for name in names:
        journal.request(url=f"https://{name}/")
    return [line.encode() for line in journal.lines()]


def append(path, data):
    with open(path, "ab", buffering=0) as file:
        file.write(data)


def test_what_comes_is_shown_when_it_has_ended(tmp_path):
    path, lines = tmp_path / "audit.jsonl", lines_for("a", "b", "c")
    path.write_bytes(b"".join(lines[:4]))
    with Followed(path, *QUERY) as followed:
        assert followed.rows(1) == ["a"] and followed.is_silent()
        append(path, lines[4][:50])
        assert followed.is_silent()
        append(path, lines[4][50:] + lines[5] + lines[6][:-1])
        assert followed.rows(1) == ["b"] and followed.is_silent()
        append(path, b"\n")
        assert followed.rows(1) == ["c"]


def test_tail_begins_with_the_last_rows(tmp_path):
    path, lines = tmp_path / "audit.jsonl", lines_for(*"abcdefg")
    path.write_bytes(b"".join(lines[:-2]))
    with Followed(path, "tail", *QUERY[1:], "-n", "2") as followed:
        assert followed.rows(2) == ["e", "f"]
        append(path, b"".join(lines[-2:]))
        assert followed.rows(1) == ["g"]


def test_no_row_is_lost_when_segments_follow_each_other(tmp_path):
    path, first = tmp_path / "audit.jsonl", lines_for("a", "b")
    (tmp_path / "audit.jsonl.000000000001").write_bytes(b"".join(lines_for("before")))
    path.write_bytes(b"".join(first[:3]))
    with Followed(path, *QUERY) as followed:
        assert followed.rows(2) == ["before", "a"]
        os.rename(path, tmp_path / "audit.jsonl.000000000005")
        assert followed.is_silent()
        path.write_bytes(b"".join(lines_for("c")))
        assert followed.rows(1) == ["c"]
        # The worker before ends what it began.
        append(tmp_path / "audit.jsonl.000000000005", b"".join(first[3:]))
        assert followed.rows(1) == ["b"]
        # More than one between two looks.
        for number in range(6, 10):
            os.rename(path, tmp_path / f"audit.jsonl.{number:012}")
            path.write_bytes(b"".join(lines_for(f"d{number}")))
        assert followed.rows(4) == ["d6", "d7", "d8", "d9"]
        append(path, b"")
        assert followed.is_silent()


def test_a_daemon_is_followed_over_a_handover(upgradable):
    one = upgradable()
    assert ask(one).status == 200
    with Followed(one.journal_path, *QUERY[:-1], "id") as followed:
        ids = followed.rows(1)
        one.install()
        one.hand_over()
        assert [ask(one).status for _ in range(2)] == [200, 200]
        ids += followed.rows(2)
        one.last_ended()
        assert followed.is_silent()
    assert [row["id"] for row in objects(*QUERY[:-1], "id", one.journal_path)] == ids
    assert len(set(ids)) == 3 and "missing" not in audit("show", one.journal_path).stderr


def test_who_follows_is_told_what_is_wrong(tmp_path):
    path, lines = tmp_path / "audit.jsonl", lines_for("a", "b")
    path.write_bytes(b"".join(lines[:3]))
    with Followed(path, *QUERY) as followed:
        assert followed.rows(1) == ["a"]
        append(path, b"no record\n" + b"".join(lines[3:]))
        assert followed.rows(1) == ["b"]
        path.write_bytes(lines[0])
        assert followed.process.wait(30) == 2
        said = followed.process.stderr.read().decode()
    assert "1 lines are no records, the first is line 4" in said
    assert f"{path}: journal: it was cut to {len(lines[0])} bytes while it was read" in said


def test_who_follows_ends_with_its_reader_and_where_there_is_nothing(tmp_path, various):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(lines_for("a")))
    with Followed(path, *QUERY) as followed:
        assert followed.rows(1) == ["a"]
        followed.process.stdout.close()
        assert followed.process.wait(30) == 0
        followed.process.stdout = None
    for words, says in (
        ([tmp_path / "none"], "No such file or directory"), ([path, various], "--follow takes one FILE"),
        (["--until", "1s", path], "--follow has no end"), (["--summary", path], "--follow has no end"),
    ):  # fmt: skip
        done = audit("show", "-f", *words)
        assert done.returncode == 2 and says in done.stderr, done
    # A stream ends.
    assert audit("show", "-f", "-", input=path.read_text()).stdout == audit("show", path).stdout
