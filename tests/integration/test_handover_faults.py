"""test_handover_faults.py - a handover that goes wrong, and what signals and deaths do in it"""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
from handover import Load, ask, stream
from harness import KEYHOLE, PATIENCE, Closed, Tunnel, finish, until
from test_journal_kept import append, records, stolen

HERE = os.path.dirname(os.path.abspath(__file__))

# Versions of the handover that there were. Their HELLO has the type that it has now.
OLD_VERSIONS = [1, 2, 3, 4, 5]
# What a binary of ours says first, and what it says then; run by the daemon in the place of one.
# The types are those of src/keeper/handover_messages.h.
FAKE = """#!/usr/bin/python3
import os, socket, struct, sys, time
HELLO, PREPARED, MOVED, FAILED = 32, 33, 34, 36
OFFER, OFFER_QUOTA_SLOTS, MOVE = 40, 44, 46
link = socket.socket(fileno=3)
def say(kind, body=b"", version=6):
    link.send(struct.pack(">II", kind, version) + body)
def hear():
    data, _, _, _ = link.recvmsg(65536, 4096)
    return struct.unpack(">I", data[:4])[0] if data else None
def text(value):
    return struct.pack(">I", len(value)) + value.encode()
def offers():
    # There are no dynamic sandboxes.
    while hear() != OFFER_QUOTA_SLOTS:
        pass
"""
SAYS = {
    "exits at once": "#!/bin/sh\nexit 3\n",
    "is killed": "#!/bin/sh\nkill -SEGV $$\n",
    "is no program": "what is this\n",
    **{f"speaks version {n}": FAKE + f"say(32, text('0.1'), {n})\ntime.sleep(60)\n" for n in OLD_VERSIONS},
    "speaks version 7": FAKE + "say(HELLO, text('9.9') + b'and more', 7)\ntime.sleep(60)\n",
    "says nonsense": FAKE + "link.send(b'xx')\ntime.sleep(60)\n",
    "says what is not due": FAKE + "say(MOVED)\ntime.sleep(60)\n",
    "speaks a worker's words": FAKE + "say(2)\ntime.sleep(60)\n",
    "speaks an old keeper's words": FAKE + "say(OFFER)\ntime.sleep(60)\n",
    "says a hello that is none": FAKE + "say(HELLO, b'xx')\ntime.sleep(60)\n",
    "hangs up": FAKE + "say(HELLO, text('1'))\nlink.close()\ntime.sleep(60)\n",
    "refuses": FAKE + "say(HELLO, text('1'))\noffers()\nsay(FAILED, text('not today'))\ntime.sleep(60)\n",
    "dies while it is prepared": FAKE + "say(HELLO, text('1'))\noffers()\nsay(PREPARED)\nhear()\n",
}
MOVES = """
path = sys.argv[1]
say(HELLO, text("1"))
offers()
open(path + ".handover", "w").close()
say(PREPARED)
assert hear() == MOVE
cut = CUT
if cut: os.link(path, path + "." + cut)
if ALL: os.rename(path + ".handover", path)
"""


def look(one):
    return (one.process.pid, one.worker_pid(), os.stat(one.journal_path).st_ino,
            os.stat(one.socket_path).st_ino, sorted(os.listdir(one.folder)))  # fmt: skip


def fails(one, tunnel=None, patience=PATIENCE):
    """Return: what the log says; nothing else has changed."""
    before = look(one)
    since = one.mark()
    one.usr2()
    until("the failure is said", lambda: "handover failed" in one.stderr()[since:], patience)
    assert look(one) == before
    assert ask(one).status == 200
    if tunnel:
        assert tunnel.ask("GET", "/test/echo").get("connection") is None
    return one.stderr()[since:]


@pytest.mark.parametrize("what", SAYS)
def test_a_new_binary_that_is_no_good_changes_nothing(upgradable, what):
    one = upgradable()
    with Tunnel(one, "api.test") as tunnel:
        load = Load(one, clients=2)
        one.install(script=SAYS[what])
        said = fails(one, tunnel)
        load.stop()
    assert "nothing changes, this process goes on" in said
    if what == "exits at once":
        assert "status 3" in said
    if what.startswith("speaks version"):
        assert f"the new binary {what} of the handover, this one 6 (restart instead)" in said
    if "words" in what or "none" in what or what == "says nonsense":
        assert "the new process is not understood (restart instead)" in said
    if what == "refuses":
        assert "not today" in said
    one.install()
    one.hand_over()
    assert ask(one).status == 200
    one.last_ended()


def test_a_new_binary_that_hangs_is_ended(upgradable):
    one = upgradable()
    one.install(script="#!/bin/sh\nexec sleep 600\n")
    with Tunnel(one, "api.test") as tunnel:
        began = time.monotonic()
        said = fails(one, tunnel, 40)
    assert "does not get ready" in said
    assert time.monotonic() - began < 30
    assert not [x for x in one.stderr().splitlines() if "killed by signal" in x]


@pytest.mark.parametrize("moved", ["linked", "all"])
def test_names_that_were_moved_are_put_back(upgradable, moved):
    """It dies in the middle of the one step that can be seen from outside."""
    one = upgradable()
    cut = "%012d" % json.loads(open(one.journal_path).readlines()[-1])["seq"]
    script = MOVES.replace("CUT", repr(cut)).replace("ALL", str(moved == "all"))
    one.install(script=FAKE + script.replace("sys.argv[1]", repr(one.journal_path)))
    assert "ended with status 0" in fails(one)  # it got as far as that
    assert [os.path.basename(p) for p in one.segment_paths()] == ["audit.jsonl"]
    one.install()
    one.hand_over()
    one.last_ended()


def test_a_configuration_with_errors_changes_nothing(upgradable):
    one = upgradable()
    good = one.config
    with open(one.config_path, "w", encoding="utf-8") as file:
        file.write("version: 1\nlisten: 7\n")
    assert "listen" in fails(one)
    changed = json.loads(json.dumps(good))
    changed["audit"]["file"] = "other.jsonl"
    one.write(changed)
    assert "is not the journal that is being written" in fails(one)
    assert not os.path.exists(os.path.join(one.folder, "other.jsonl"))
    one.write(good)
    one.hand_over()
    one.last_ended()


def test_another_ca_is_refused(upgradable):
    one = upgradable()
    kept = {n: open(os.path.join(one.folder, n), "rb").read() for n in ("ca.pem", "ca.key")}
    other = upgradable()
    for name in kept:
        shutil.copy(os.path.join(other.folder, name), os.path.join(one.folder, name))
    since = one.mark()
    one.usr2()
    one.said("handover failed.*CA is not the one in use", since)
    for name in kept:
        os.unlink(os.path.join(one.folder, name))
    since = one.mark()
    one.usr2()
    one.said("handover failed.*CA's certificate is not there", since)
    assert not os.path.exists(os.path.join(one.folder, "ca.pem")), "none is made"
    for name, content in kept.items():
        with open(os.path.join(one.folder, name), "wb") as file:
            file.write(content)
    assert ask(one).status == 200


# --- signals --------------------------------------------------------------------------------------


def slow(one, seconds=1):
    """The next new binary takes its time."""
    real = os.path.join(one.folder, "bin", "real")
    shutil.copy(KEYHOLE, real)
    one.install(script=f'#!/bin/sh\nsleep {seconds}\nexec {real} "$@"\n')


def test_a_second_sigusr2_is_said_and_does_nothing(upgradable):
    one = upgradable()
    slow(one)
    since = one.mark()
    one.usr2()
    one.said("is started", since)
    one.usr2()
    one.said("not now: one is under way already", since)
    old = one.taken_over(since)
    assert finish(old) == 0
    assert one.stderr()[since:].count("is started") == 1


def test_one_is_refused_while_the_process_before_finishes(upgradable):
    one = upgradable()
    tunnel, head = stream(one, 10, 200)
    old = one.hand_over()
    since = one.mark()
    one.usr2()
    one.said("not now: the process before this one still finishes", since)
    old.send_signal(signal.SIGUSR2)
    old.send_signal(signal.SIGHUP)
    one.said("not now: process .* has taken over", since)
    one.said("reload: process .* has taken over", since)
    assert b"".join(tunnel.pieces(head)).count(b"data:") == 10
    tunnel.close()
    one.last_ended()
    one.hand_over()
    one.last_ended()


def test_one_that_comes_while_the_segment_before_is_joined_waits_for_that(upgradable):
    one = upgradable()
    tunnel, head = stream(one, 10, 200)
    old = one.hand_over()
    worker, since = one.worker_pid(), one.mark()
    os.kill(worker, signal.SIGSTOP)
    try:
        assert b"".join(tunnel.pieces(head)).count(b"data:") == 10
        tunnel.close()
        assert finish(old) == 0
        time.sleep(0.2)  # for the keeper to hear of it
        one.usr2()
        time.sleep(0.2)
    finally:
        os.kill(worker, signal.SIGCONT)
    one.taken_over(since)
    assert "not now" not in one.stderr()[since:]
    one.last_ended()
    assert ask(one).status == 200


def test_sighup_in_a_handover_reaches_the_new_process(upgradable):
    """Its file was written after the new one may have read it."""
    one = upgradable()
    since = one.mark()
    one.process.send_signal(signal.SIGSTOP)
    one.usr2()
    one.process.send_signal(signal.SIGHUP)
    one.process.send_signal(signal.SIGCONT)
    one.taken_over(since)
    one.said("the new configuration is in force", since)
    one.last_ended()


def test_sighup_in_a_handover_that_fails_is_a_reload(upgradable):
    one = upgradable()
    one.install(script="#!/bin/sh\nsleep 1\nexit 1\n")
    since = one.mark()
    one.usr2()
    one.said("is started", since)
    config = json.loads(json.dumps(one.config))
    config["tenants"]["acme"]["rules"] = [{"allow": "https://open.test"}]
    one.write(config)
    one.process.send_signal(signal.SIGHUP)
    one.said("handover failed", since)
    one.said("the new configuration is in force", since)

    def is_refused():
        try:
            return ask(one).status == 403
        except (OSError, Closed):
            return False  # it began under the old rules, and the new ones ended it

    until("each thread has the new rules, a moment after the keeper has said so", is_refused)
    assert ask(one, "open.test").status == 200


def test_sigterm_in_a_handover_calls_it_off_and_drains(upgradable):
    one = upgradable()
    tunnel, head = stream(one, 5, 100)
    slow(one, 5)
    since = one.mark()
    one.usr2()
    new = int(one.said(r"process (\d+) is started", since).group(1))
    one.process.send_signal(signal.SIGTERM)
    one.said("called off by SIGTERM", since)
    assert b"".join(tunnel.pieces(head)).count(b"data:") == 5
    tunnel.close()
    assert finish(one.process) == 0
    assert not os.path.exists(f"/proc/{new}")
    assert not os.path.exists(one.socket_path)
    assert [os.path.basename(p) for p in one.segment_paths()] == ["audit.jsonl"]


def test_sigterm_to_the_new_process_hurries_the_old_one(upgradable):
    one = upgradable({"timeouts": {"drain": "1s"}})
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        until("it is under way", lambda: "open" in one.segments()[-1][1])
        old = one.hand_over()
        time.sleep(0.3)
        assert old.poll() is None
        began = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        assert finish(one.process) == 0
        assert finish(old) == 0
        assert 0.9 < time.monotonic() - began < 15
    assert not os.path.exists(one.socket_path)
    assert "joined" in one.segments()[-1][1]
    one.check_ends()


def test_a_second_sigterm_ends_both_at_once(upgradable):
    one = upgradable()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        until("it is under way", lambda: "open" in one.segments()[-1][1])
        old = one.hand_over()
        one.process.send_signal(signal.SIGTERM)
        time.sleep(0.4)
        assert old.poll() is None
        began = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        assert finish(one.process) == 0
        assert finish(old) == 0
        assert time.monotonic() - began < 15


def test_sigterm_to_the_old_process_ends_that_one_alone(upgradable):
    one = upgradable({"timeouts": {"drain": "1s"}})
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        until("it is under way", lambda: "open" in one.segments()[-1][1])
        old = one.hand_over()
        old.send_signal(signal.SIGTERM)
        assert finish(old) == 0
    assert ask(one).status == 200
    one.last_ended()
    one.check_ends()


def test_what_outlasts_timeouts_handover_is_cut_off(upgradable):
    one = upgradable({"timeouts": {"handover": "1s"}})
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        until("it is under way", lambda: "open" in one.segments()[-1][1])
        began = time.monotonic()
        old = one.hand_over()
        assert finish(old) == 0
        assert 0.9 < time.monotonic() - began < 15
    assert "timeouts.handover is cut off" in one.stderr()
    one.last_ended()
    one.check_ends()
    assert "aborted" in one.segments()[0][1]


# --- deaths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["worker", "keeper"])
def test_an_old_one_that_dies_leaves_a_journal_that_is_whole(upgradable, who):
    one = upgradable()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        until("it is under way", lambda: "open" in one.segments()[-1][1])
        worker = one.worker_pid()
        old = one.hand_over()
        os.kill(worker if who == "worker" else old.pid, signal.SIGKILL)
        finish(old)
    until("the segments are joined", lambda: "joined" in one.segments()[-1][1])
    assert "aborted" in one.segments()[0][1]
    assert ask(one).status == 200
    one.stop()
    one.check_ends()


def test_a_new_worker_that_dies_before_it_could_join_is_followed_by_one_that_does(upgradable):
    one = upgradable()
    tunnel, head = stream(one, 10, 100)
    one.hand_over()
    assert ask(one).status == 200
    os.kill(one.worker_pid(), signal.SIGKILL)
    assert ask(one).status == 200
    assert b"".join(tunnel.pieces(head)).count(b"data:") == 10
    tunnel.close()
    one.last_ended()
    (_, _), (_, second) = one.segments()
    assert second.count("start") == 2
    assert second.count("joined") == 1


JOINED, JOIN = 12, 36  # include/keyhole/base/worker_messages.h


def say_joined(one, forged):
    """The new version's worker is taken over: it says that it has joined the segment before, and has not, or not as it is."""
    tunnel, _ = stream(one, 10000, 100)
    one.hand_over()
    assert ask(one).status == 200
    new = one.worker_pid()
    with socket.socket(fileno=stolen(new, 3)) as channel:
        os.kill(new, signal.SIGSTOP)  # from here on the test is the worker
        tunnel.close()
        finish(one.before[-1])
        channel.settimeout(PATIENCE)
        while struct.unpack_from("!I", channel.recv(1 << 16))[0] != JOIN:
            pass
        if forged:
            with open(one.segment_paths()[0], encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            cut = int(one.segment_paths()[0].rsplit(".", 1)[1])
            last = records(one.journal_path)[-1]
            body = (f'{{"event":"joined","time":"2026-01-01T00:00:00.000Z","segment":{cut},"last_seq":{cut},'
                    f'"head":"{lines[cut - 1]["hash"]}","seq":{last["seq"] + 1},"prev":"{last["hash"]}"')  # fmt: skip
            append(one, f'{body},"hash":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n'.encode())
        channel.send(struct.pack("!III", JOINED, 0, 0xFFFFFFFF))
    os.kill(new, signal.SIGKILL)
    until("another worker serves", lambda: one.worker_pid() not in (None, new) and ask(one).status == 200)


def test_a_worker_that_says_it_has_joined_the_segment_before_is_not_believed(upgradable):
    one = upgradable()
    say_joined(one, False)
    until("the segments are joined", lambda: "joined" in one.segments()[-1][1])
    assert verify(one.journal_path)[0] == 0
    path = one.segment_paths()[0]
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines[:-1])
    assert verify(one.journal_path)[0] == 1
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)
    assert verify(one.journal_path)[0] == 0
    one.stop()


def test_a_worker_that_names_another_end_of_the_segment_before_is_found_out(upgradable):
    one = upgradable()
    one.checked = False
    say_joined(one, True)
    until("it is said again", lambda: verify(one.journal_path)[0])
    assert "names another end of the segment before" in verify(one.journal_path)[1]


def test_the_old_one_finishes_when_the_new_one_has_died(upgradable):
    one = upgradable()
    tunnel, head = stream(one, 8, 100)
    old = one.hand_over()
    one.process.kill()
    assert b"".join(tunnel.pieces(head)).count(b"data:") == 8
    tunnel.close()
    assert finish(old) == 0


# --- what verify finds ----------------------------------------------------------------------------


def verify(path):
    done = subprocess.run([KEYHOLE, "audit", "verify", path], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_segment_that_is_missing_cut_or_changed_is_found(upgradable):
    one = upgradable()
    for _ in range(3):
        assert ask(one).status == 200
        one.hand_over()
        one.last_ended()
    one.stop()
    paths = one.segment_paths()
    assert len(paths) == 4
    contents = [open(p, "rb").read() for p in paths]
    status, said = verify(one.journal_path)
    assert status == 0
    assert said.count(": ok") == 4

    def put_back():
        for path, content in zip(paths, contents):
            with open(path, "wb") as file:
                file.write(content)

    for i in range(3):
        put_back()
        os.unlink(paths[i])
        status, said = verify(one.journal_path)
        assert status == 1 and "missing" in said, said
        put_back()
        lines = contents[i].splitlines(keepends=True)
        for keep in range(1, len(lines)):
            with open(paths[i], "wb") as file:
                file.write(b"".join(lines[:keep]))
            status, said = verify(one.journal_path)
            assert status == 1 and "BROKEN" in said, said
        with open(paths[i], "wb") as file:
            file.write(contents[(i + 1) % 3])
        assert verify(one.journal_path)[0] == 1
        with open(paths[i], "wb") as file:
            file.write(contents[i].replace(b"api.test", b"apu.test"))
        assert verify(one.journal_path)[0] == 1
    put_back()


def handed_over_by_hand(tmp_path, answer=None):
    """Return: what `proxy --handover` says to the process before (None: there is none), and what it says then."""
    config = tmp_path / "k.yaml"
    config.write_text("version: 1\nlisten: [ { unix: d/s, tenant: a } ]\naudit: { file: a }\n"
                      "authority: { certificate: ca.pem, key: ca.key }\ntenants: { a: { rules: [] } }\n")  # fmt: skip
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        done = subprocess.Popen(
            [KEYHOLE, "proxy", "--handover", "-c", str(config)], stderr=subprocess.PIPE, text=True,
            preexec_fn=(lambda: os.dup2(theirs.fileno(), 3)) if answer else None, pass_fds=[3] if answer else [],
        )  # fmt: skip
        hello = ours.recv(4096) if answer else None
        if answer:
            ours.send(answer)
        _, said = done.communicate(timeout=PATIENCE)
    assert done.returncode == 1
    assert not os.path.exists(tmp_path / "a")
    return hello, said


def test_handover_by_hand_is_refused(tmp_path):
    """The option is keyhole's own; what is on descriptor 3 must be a keeper."""
    assert "send SIGUSR2" in handed_over_by_hand(tmp_path)[1]
    assert "not understood" in handed_over_by_hand(tmp_path, struct.pack(">II", 40, 6) + b"nonsense")[1]


def test_a_daemon_of_any_version_understands_our_hello(tmp_path):
    """Those of versions 1 to 4 compare its type with 32, then its ref with their own version, and say that the new
    binary speaks another one. They would not offer anything; were they to, it is not taken."""
    version = subprocess.run([KEYHOLE, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    for n in OLD_VERSIONS:
        hello, said = handed_over_by_hand(tmp_path, struct.pack(">II", 33, n))
        assert hello == struct.pack(">III", 32, 6, len(version)) + version.encode()
        assert "the offer is not understood (restart instead)" in said
    _, said = handed_over_by_hand(tmp_path, struct.pack(">II", 40, 7))
    assert "the process before speaks version 7 of the handover, this one 6 (restart instead)" in said
    with open(os.path.join(HERE, "../../docs/upgrade.md"), encoding="utf-8") as page:
        assert "has a version, which is 6 in this binary" in page.read()
