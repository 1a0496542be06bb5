"""However a sandbox ends, in every engine, nothing of it stays: of many at once, of what is killed, of a full disk."""

import contextlib
import os
import re
import select
import signal
import subprocess
import time

import pytest
from conftest import PATIENCE
from leftovers import STAY, Leftovers, below
from test_attach import Running
from test_run import Run

ASK = "curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 50 http://keyhole.internal/"


@pytest.fixture
def run(sandbox, engine):
    made = Run(sandbox)
    usual = made.command
    made.command = lambda *args, **more: usual("--engine", engine, *args, **more)
    return made


@contextlib.contextmanager
def counted(run, *folders, daemon=None, but=()):
    with Leftovers(run.runtime, run.state, *folders, daemon=daemon, but=(*STAY, *but)) as left:
        yield left
        left.check()


def say(process, word):
    process.stdin.write(word)
    process.stdin.flush()


def up(process):
    assert process.stdout.readline() == b"up\n", process.stderr.read()


# --- many -----------------------------------------------------------------------------------------


@pytest.mark.identity("root")
def test_twenty_at_once_each_get_an_answer_and_leave_nothing(sandbox, run, engine):
    """All are up before the first one asks; six where an engine takes its time."""
    daemon = Running(sandbox, run)
    try:
        daemon("-q", "--", "true", check=0)  # the first one makes a folder that stays
        with counted(run, daemon.folder, daemon=daemon.process.pid):
            script = f"echo up; read -r go; {ASK} || exit 4; read -r end"
            command = run.command("-q", "-c", daemon.path, "--tenant", "acme", "--", "sh", "-c", script, use=None)
            several = [
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=run.environment(), cwd="/")
                for _ in range(6 if engine in ("gvisor", "podman", "docker") else 20)
            ]  # fmt: skip
            for one in several:
                up(one)
            assert len(daemon.left()) >= len(several)
            for one in several:
                say(one, b"go\n")
            for one in several:
                assert one.stdout.readline() == b"200\n", one.stderr.read()
            for one in several:
                one.communicate(b"end\n", timeout=PATIENCE)
            assert [one.returncode for one in several] == [0] * len(several)
    finally:
        daemon.end()


# --- one that is ended from outside ---------------------------------------------------------------


def named(process, words):
    """A process below by its command line."""
    for pid, _ in sorted(below(process.pid)):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if file.read() == words:
                return pid
    return None


def start(run, workspace, script="echo up; exec sleep 300"):
    command = run.command("-q", "--workspace", workspace, "--", "sh", "-c", script)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=run.environment(), cwd="/", start_new_session=True)  # fmt: skip


def test_ctrl_c_leaves_nothing(run, workspace):
    with counted(run, workspace):
        process = start(run, workspace)
        up(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all that are in the foreground
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 128 + signal.SIGINT


def test_a_killed_launcher_leaves_no_process_mount_group_or_socket(run, workspace):
    """Its folder stays, and what it has put into a workspace: the next run removes both."""
    with counted(run, workspace) as left:
        process = start(run, workspace)
        up(process)
        process.kill()
        process.communicate(timeout=PATIENCE)
        end = time.monotonic() + PATIENCE
        while any(found for kind, found in left.new().items() if kind != "files"):
            assert time.monotonic() < end, left.new()
            time.sleep(0.02)
            left.reap()
        for folder in run.folders():
            os.utime(folder, (1, 1))
        run("-q", "--", "true", check=0)


def test_a_killed_daemon_leaves_nothing_and_no_way_out(run, workspace):
    """The command goes on, and reaches nobody any more, which the run says; its status is not 0. Nobody takes the journal's
    lock file away."""
    with counted(run, workspace, but=[".jsonl.lock"]):
        process = start(run, workspace, f"echo up; read -r go; {ASK}; echo $?")
        up(process)
        worker = named(process, b"keyhole\0worker\0")
        with open(f"/proc/{worker}/stat", encoding="utf-8", errors="replace") as stat:
            keeper = int(stat.read().rpartition(")")[2].split()[1])
        assert keeper != process.pid
        gone = os.pidfd_open(worker)
        os.kill(keeper, signal.SIGKILL)
        assert select.select([gone], [], [], PATIENCE)[0], "the worker outlived its keeper"
        os.close(gone)
        out, err = process.communicate(b"go\n", timeout=PATIENCE)
        assert out.splitlines()[-1] != b"0" and b"200" not in out, (out, err)
        assert process.returncode == 125 and b"keyhole: the proxy ended before the command did" in err, err


# --- a full disk ----------------------------------------------------------------------------------


def fill(folder, how):
    if how == "names":
        with contextlib.suppress(OSError):
            for i in range(1000):
                os.close(os.open(os.path.join(folder, f"fill{i}"), os.O_CREAT | os.O_WRONLY))
        return
    with contextlib.suppress(OSError), open(os.path.join(folder, "fill"), "wb", buffering=0) as file:
        while file.write(b"x" * 512):
            pass


def ends_well(process):
    """With its own failure or the command's end, and in words: never by a signal, never without a word."""
    out, err = process.communicate(timeout=PATIENCE)
    if process.returncode == 0:
        return
    assert process.returncode == 125 and out == b"", (process.returncode, out, err)
    # Which file or folder, and why; before it maybe what else could not be written there.
    warning = rb"(keyhole: run: warning: the next run has other placeholders: [^\n]*/[^\n]*: No space left on device\n)?"
    # Of the journal, which lies on the same disk: from other processes, so anywhere among the lines.
    for line in (rb"worker: error: journal: \d+ of \d+ bytes written: No space left on device",
                 rb"keeper: error: worker \d+ ended with status \d+[^\n]*",
                 rb"keeper: error: the worker can't start \(status \d+\); giving up"):  # fmt: skip
        err = re.sub(rb"(?m)^keyhole: " + line + rb"\n", b"", err)
    assert re.fullmatch(warning + rb"keyhole: .*(/|folder of this run).*: No space left on device\n", err), err


@pytest.mark.identity("root")
@pytest.mark.parametrize("how", ["bytes", "names"])
@pytest.mark.parametrize("which", ["runtime", "state", "workspace"])
def test_a_disk_that_is_full_leaves_nothing(run, workspace, small_disk, which, how):
    place = {"runtime": run.runtime, "state": run.state, "workspace": workspace}[which]
    small_disk(place)
    fill(place, how)
    with counted(run, workspace):
        ends_well(start(run, workspace, "true"))


@pytest.mark.identity("root")
def test_where_a_run_can_not_be_noted_the_file_is_named(run, workspace, small_disk, sandbox):
    notes = sandbox.folder("notes")
    small_disk(notes)
    fill(notes, "bytes")
    done = run("--workspace", workspace, "--", "true", STATE_DIRECTORY=notes, check=125)
    assert re.search(rf"keyhole: .*{notes}/.*: No space left on device\n", done.stderr), done.stderr


@pytest.mark.identity("root")
def test_a_disk_that_fills_up_meanwhile_stops_the_requests_and_leaves_nothing(run, workspace, small_disk):
    """A journal that can't be written forwards nothing; the sandbox ends as it would have."""
    small_disk(run.state)
    with counted(run, workspace):
        process = start(run, workspace, f"echo up; read -r go; {ASK}; {ASK}; exit 7")
        up(process)
        fill(run.state, "bytes")
        out, err = process.communicate(b"go\n", timeout=PATIENCE)
        assert process.returncode == 7, (out, err)
        os.unlink(os.path.join(run.state, "fill"))
