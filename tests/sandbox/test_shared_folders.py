"""Runs that share a folder can pass descriptors: a survey waits for the last that may hold one."""

import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import PATIENCE, below
from test_set_aside import host, write  # noqa: F401 (host is a fixture)

pytestmark = pytest.mark.identity("user")

WAITS = b"shares a folder"
# The first makes a harmless repository and passes its configuration, open for writing; the second adds a command once it
# is told that the first has ended.
GIVES = """
import array, os, socket, subprocess
subprocess.run(["git", "init", "-q", "dep"], check=True)
s = socket.socket(socket.AF_UNIX); s.bind({0!r}); s.listen(1); s.settimeout(50)
say("up")
peer, _ = s.accept(); os.unlink({0!r})
fd = os.open("dep/.git/config", os.O_RDWR)
peer.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
peer.recv(1)
"""
TAKES = """
import array, os, socket
say("up")
sys.stdin.buffer.raw.read(1)
s = socket.socket(socket.AF_UNIX); s.connect({0!r})
fd = array.array("i", s.recvmsg(10, 1000)[1][0][2])[0]
s.send(b"x")
say("has it")
sys.stdin.buffer.raw.read(1)
os.lseek(fd, 0, 2); os.write(fd, {1!r})
say("written")
"""
HEAD = "import sys\ndef say(x): print(x, flush=True)\n"
EVIL = b"[core]\n\tfsmonitor = touch %s; false\n"


def begin(host, code, **options):
    process = host.sandbox.start("/usr/bin/python3", "-I", "-c", HEAD + code, stdin=subprocess.PIPE, **options)
    return process, process.stdout.readline()


def ways(host):
    """How the second sees what the first may write to: its options, and the socket's path in each."""
    above = host.sandbox.folder("above")  # holds nothing of keyhole's own
    host.workspace = host.sandbox.folder("above/work")
    here = host.path("s")
    home = host.sandbox.folder("shared-home")
    other = host.sandbox.folder("other")
    os.makedirs(host.path("inner"), exist_ok=True)
    host.sandbox.give(host.path("inner"))
    return {
        "the workspace, read-only": ({}, {"workspace_ro": host.workspace}, here, here),
        "--ro": ({}, {"ro": host.workspace}, here, here),
        "--ro of a folder above": ({}, {"ro": above}, here, here),
        "a folder inside, read-only": ({}, {"workspace_ro": host.path("inner")}, host.path("inner/s"), host.path("inner/s")),
        "one home": ({"home": home}, {"home": home, "workspace": other}, "/home/agent/s", "/home/agent/s"),
    }


WAYS = ["the workspace, read-only", "--ro", "--ro of a folder above", "a folder inside, read-only", "one home"]


@pytest.mark.parametrize("way", WAYS)
def test_no_descriptor_that_another_run_holds_outlasts_the_survey(host, way):
    gives, takes, made, dialled = ways(host)[way]
    second, up = begin(host, TAKES.format(dialled, EVIL % host.canary.encode()), **takes)
    assert up == b"up\n", second.stderr.read()
    first, up = begin(host, GIVES.format(made), workspace=host.workspace, **gives)
    assert up == b"up\n", first.stderr.read()
    second.stdin.write(b"x")
    second.stdin.flush()
    assert second.stdout.readline() == b"has it\n", second.stderr.read()
    _, err = first.communicate(timeout=PATIENCE)
    assert WAITS in err and b"process %d" % second.pid in err, err
    out, err = second.communicate(b"x", timeout=PATIENCE)
    assert out == b"written\n" and b"was set aside" in err, (out, err)
    host.works("dep")


def test_it_waits_also_for_a_run_that_it_meets_only_through_one_that_has_ended(host):
    """The first and the last have no folder in common; the one between them sees both."""
    second_home, last = host.sandbox.folder("second-home"), host.sandbox.folder("last")
    write_config = "git init -q dep; " + write("dep/.git/config", host.config)
    first, _ = begin(host, f"import subprocess; subprocess.run(['sh', '-c', {write_config!r}]); say('up'); sys.stdin.read(1)", workspace=host.workspace)
    second, _ = begin(host, "say('up'); sys.stdin.read(1)", ro=host.workspace, home=second_home)
    third, _ = begin(host, "say('up'); sys.stdin.read(1)", home=second_home, workspace=last)
    _, err = second.communicate(b"x", timeout=PATIENCE)
    assert WAITS not in err, err
    _, err = first.communicate(b"x", timeout=PATIENCE)
    assert WAITS in err and b"process %d in %s" % (third.pid, last.encode()) in err, err
    assert "survey" in host.keyhole("set-aside") or "fsmonitor" in host.read("dep/.git/config")
    _, err = third.communicate(b"x", timeout=PATIENCE)
    assert b"was set aside" in err, err
    host.works("dep")


def test_runs_that_only_read_a_common_folder_wait_for_nobody(host):
    tools = host.sandbox.folder("tools")
    other, up = begin(host, "say('up'); sys.stdin.read(1)", ro=tools)
    assert up == b"up\n"
    done = host.sandbox.run("sh", "-c", "git init -q dep; " + write("dep/.git/config", host.config), workspace=host.workspace, ro=tools, check=0)
    assert WAITS not in done.stderr and b"was set aside" in done.stderr, done.stderr
    other.communicate(b"x", timeout=PATIENCE)


@pytest.mark.identity("root")
def test_a_second_mount_of_the_workspace_is_the_same_folder(host):
    view = host.sandbox.folder("view")
    command = host.sandbox.command("sh", "-c", "echo up; cat", ro=view)
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    other = subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", host.workspace, view, *command], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=host.sandbox.environment(), cwd="/")  # fmt: skip
    assert other.stdout.readline() == b"up\n", other.stderr.read()
    done = host.sandbox.run("true", workspace=host.workspace, check=0)
    assert WAITS in done.stderr, done.stderr
    other.communicate(timeout=PATIENCE)


def test_without_a_folder_for_records_a_run_without_a_workspace_starts(host):
    env = host.sandbox.environment(XDG_STATE_HOME="/proc/none")
    assert host.sandbox.run("true", env=env).returncode == 0
    done = host.sandbox.run("true", env=env, workspace=host.workspace)
    assert done.returncode == 125 and b"XDG_STATE_HOME" in done.stderr


NOTES = ["before", "reads", "workspace", "place", "sees", "stubs", "init", "alive"]


@pytest.mark.parametrize("note", NOTES)
def test_a_survey_that_can_not_read_its_notes_keeps_them_and_tries_again(host, note):
    """A link in a note's place stands for whatever keeps it from being read."""
    script = "git init -q dep; " + write("dep/.git/config", host.config) + "echo up; exec cat"
    process = host.sandbox.start("sh", "-c", script, workspace=host.workspace, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    records = os.path.join(host.sandbox.state(), "workspaces")
    (record,) = [os.path.join(records, name) for name in os.listdir(records) if name != "lock"]
    path = os.path.join(record, note)
    os.rename(path, record + ".kept")
    shutil.move(record + ".kept", os.path.join(host.sandbox.place, "kept"))
    os.symlink("nowhere", path)
    command = host.sandbox.as_identity([os.path.join(host.sandbox.programs, "keyhole"), "workspace", "survey"])
    end, done = time.monotonic() + PATIENCE, None
    # The run lives as long as its init, which ends after the launcher.
    while not done or (done.returncode == 0 and time.monotonic() < end):
        done = subprocess.run(command, env=host.sandbox.environment(), capture_output=True, text=True, timeout=PATIENCE, cwd="/",
                              check=False)  # fmt: skip
        assert os.path.lexists(path), done
    assert done.returncode == 1 and f"/{note}: " in done.stderr, done
    assert "fsmonitor" in host.read("dep/.git/config")
    os.unlink(path)
    shutil.move(os.path.join(host.sandbox.place, "kept"), path)
    host.keyhole("survey")
    host.works("dep")
    assert not os.path.exists(record)


def test_a_run_whose_workspace_could_not_be_surveyed_is_no_success(host):
    process = host.sandbox.start("sh", "-c", "echo up; exec cat", workspace=host.workspace, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    records = os.path.join(host.sandbox.state(), "workspaces")
    (record,) = [os.path.join(records, name) for name in os.listdir(records) if name != "lock"]
    os.rename(os.path.join(record, "reads"), os.path.join(host.sandbox.place, "kept"))
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 125 and b"was not surveyed: " in err and b"/reads: " in err, (process.returncode, err)
    os.rename(os.path.join(host.sandbox.place, "kept"), os.path.join(record, "reads"))
    host.keyhole("survey")


def killed(host, script):
    """Return: its record, when nothing of the run lives any more."""
    process = host.sandbox.start("sh", "-c", script + "echo up; exec cat", workspace=host.workspace, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    children = below(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    end = time.monotonic() + PATIENCE
    while any(os.path.exists(f"/proc/{child}") for child in children) and time.monotonic() < end:
        time.sleep(0.01)
    records = os.path.join(host.sandbox.state(), "workspaces")
    (record,) = [os.path.join(records, name) for name in os.listdir(records) if name != "lock"]
    return record


@pytest.fixture
def disk(host):
    """The workspace is on a disk of its own, which can be unmounted and mounted again."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    top = host.sandbox.folder("top")
    mounted, kept = os.path.join(top, "disk"), os.path.join(top, "kept")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "kh-test", top], check=True, timeout=PATIENCE)
    try:
        subprocess.run(["mount", "--make-private", top], check=True, timeout=PATIENCE)
        os.mkdir(mounted)
        os.mkdir(kept)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "kh-test", mounted], check=True, timeout=PATIENCE)
        host.workspace = os.path.join(mounted, "work")
        os.mkdir(host.workspace)
        host.sandbox.give(top)
        yield lambda back: subprocess.run(["mount", "--move", *((kept, mounted) if back else (mounted, kept))], check=True, timeout=PATIENCE)
    finally:
        subprocess.run(["umount", "-R", "-l", top], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("left", ["nothing", "a folder of its name"])
def test_the_workspace_of_a_killed_run_is_surveyed_when_its_disk_is_mounted_again(host, disk, left):
    record = killed(host, "git init -q dep; " + write("dep/.git/config", host.config))
    disk(back=False)
    if left != "nothing":
        os.mkdir(host.workspace)
        host.sandbox.give(host.workspace)
    mounted = os.path.dirname(host.workspace)
    done = host.sandbox.run("true", workspace=host.sandbox.folder("other"), check=0)
    said = f"{host.workspace} was not surveyed, since nothing is mounted at {mounted} any more"
    assert done.stderr.decode().count(said) == 1, done
    assert "could be seen to" not in done.stderr.decode()
    host.keyhole("survey", check=1)
    assert os.path.exists(record)
    disk(back=True)
    assert os.path.exists(host.path(".vscode")), "what was put there for the run goes with the survey"
    done = host.sandbox.run("true", workspace=host.sandbox.folder("other"), check=0)
    assert b"dep/.git/config" in done.stderr and b"set aside" in done.stderr, done
    assert not os.path.exists(record) and os.listdir(host.workspace) == ["dep"]
    host.works("dep")


def test_a_disk_that_is_mounted_again_with_another_number_is_the_same(host, disk):
    record = killed(host, "git init -q dep; " + write("dep/.git/config", host.config))
    with open(os.path.join(record, "place"), "r+", encoding="ascii") as file:
        number, inode = file.read().split()
        file.seek(0)
        file.write(f"{int(number) + 77} {inode}\n")
    host.keyhole("survey")
    assert not os.path.exists(record)
    host.works("dep")
