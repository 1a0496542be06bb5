"""Engines: chosen by name or by a trial, and the fence that keyhole-init adds in each."""

import glob
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from conftest import PATIENCE, PYTHON, landlock_abi


# --- the choice -----------------------------------------------------------------------------------


def test_an_engine_that_there_is_not_is_named_with_those_that_there_are(sandbox):
    done = sandbox.run("true", engine="procces", check=125)
    said = done.stderr.decode()
    assert said.startswith("keyhole: --engine procces: no such engine (there is: ") and "process" in said
    assert "auto" in said and said.count("\n") == 1


def test_auto_takes_one_that_works(sandbox):
    assert sandbox.sh("echo $$; id -u", engine="auto").split()[1] == "1000"


def test_auto_says_what_is_missing_where_nothing_works(sandbox, place):
    empty = sandbox.folder("nothing")
    done = sandbox.run("true", engine="auto", check=125, env=sandbox.environment(PATH=empty))
    said = done.stderr.decode()
    assert said.startswith("keyhole: no engine works here") and "apt install bubblewrap" in said
    assert said.count("\n") == 1


def test_a_program_that_is_there_and_does_not_work_is_found_out(sandbox, place):
    """A trial, not a look for a file."""
    broken = sandbox.folder("broken")
    sandbox.file(os.path.join(broken, "bwrap"), "#!/bin/sh\necho bwrap: no >&2\nexit 1\n", 0o755)
    done = sandbox.run("true", engine="auto", check=125, env=sandbox.environment(PATH=broken))
    assert "bwrap: no" in done.stderr.decode()


def test_a_trial_leaves_nothing(sandbox):
    """Others may have a trial at the same time: what is there once they are through is left."""
    before = trials()
    sandbox.run("true", engine="auto", check=0)
    left, end = trials() - before, time.monotonic() + PATIENCE
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= trials()
    assert not left


def trials():
    return {n for n in os.listdir("/tmp") if n.startswith("keyhole-trial")}


# --- container ------------------------------------------------------------------------------------


def only(sandbox, *programs):
    """An environment whose PATH has these engines' programs and no other."""
    folder = sandbox.folder("only")
    for name in programs:
        os.symlink(shutil.which(name), os.path.join(folder, name))
    return sandbox.environment(PATH=folder)


def below(pid):
    """A process and all that came of it."""
    found = [pid]
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(task, encoding="ascii") as file:
            for child in file.read().split():
                found += below(int(child))
    return found


def cgroups():
    return {path for path in glob.glob("/sys/fs/cgroup/**/", recursive=True)}


def left_over():
    # Other tests run beside these: a trial of theirs, a folder of theirs.
    found = {n for n in os.listdir("/tmp") if n.startswith("keyhole")} | set(os.listdir("/run"))
    return {n for n in found if not n.startswith(("keyhole-trial", "kh-test."))}


@pytest.fixture(params=["crun", "runc"])
def runtime(request):
    if not shutil.which(request.param):
        pytest.skip(f"engine container by {request.param}: it is not installed")
    return request.param


def test_either_runtime_will_do_for_a_container(sandbox, runtime):
    env = only(sandbox, runtime)
    seen = sandbox.sh("id -u; exit 7", engine="container", env=env, check=7)
    assert seen.split() == ["1000"]


def test_a_missing_runtime_is_one_line_with_what_to_do(sandbox):
    done = sandbox.run("true", engine="container", env=only(sandbox), check=125)
    said = done.stderr.decode()
    assert "neither crun nor runc" in said and "apt install crun" in said and said.count("\n") == 1


@pytest.mark.identity("root")
def test_a_program_that_is_installed_where_the_bundle_is_laid_is_started_all_the_same(sandbox):
    """As in /run/current-system: the launcher covers /run, for the program only."""
    found = shutil.which("crun") or shutil.which("runc")
    if not found:
        pytest.skip("engine container: no crun or runc here")
    with tempfile.TemporaryDirectory(dir="/run", prefix="kh-test.") as folder:
        os.chmod(folder, 0o755)
        shutil.copy(found, folder)
        seen = sandbox.sh("id -u", engine="container", env=sandbox.environment(PATH=folder))
    assert seen.split() == ["1000"]


@pytest.mark.parametrize("who", ["launcher", "engine"])
def test_a_container_that_is_killed_leaves_nothing(sandbox, runtime, who):
    env, before = only(sandbox, runtime), cgroups()
    seen = left_over()
    # What the init relays, it relays after it has said that the command runs.
    process = sandbox.start(
        PYTHON, "-I", "-c",
        "import os, socket, time\n"
        "s = socket.create_connection(('127.0.0.1', 3128))\n"
        "s.shutdown(socket.SHUT_WR), s.recv(9), os.fork(), print('up', flush=True), time.sleep(300)",
        engine="container", env=env,
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    pids = below(process.pid)
    assert len(pids) >= 6, pids  # launcher, its stand-in, the program, keyhole-init, Python twice
    fds = [os.pidfd_open(pid) for pid in pids]
    signal.pidfd_send_signal(fds[0 if who == "launcher" else 2], signal.SIGKILL)
    for fd in fds[1:]:
        assert select.select([fd], [], [], PATIENCE)[0], "a process lives on"
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-signal.SIGKILL if who == "launcher" else 137), err
    for fd in fds:
        os.close(fd)
    assert cgroups() == before
    assert left_over() == seen


def test_the_root_of_a_container_is_what_the_view_says(sandbox):
    """Each mount from inside: of the host only what is listed, read-only; the rest in memory."""
    lines = sandbox.sh("cat /proc/self/mountinfo", engine="container").splitlines()
    mounts = {line.split()[4]: (line.split()[5].split(","), line.split(" - ")[1].split()[0]) for line in lines}
    assert mounts["/"][1] == "tmpfs" and "ro" in mounts["/"][0]
    for place, (options, kind) in mounts.items():
        assert kind not in ("cgroup", "cgroup2", "sysfs", "mqueue"), place
        if kind not in ("tmpfs", "proc", "devpts", "devtmpfs"):
            assert "ro" in options and "nosuid" in options and "nodev" in options, (place, options)
    assert mounts["/usr"][0][0] == "ro" and "ro" in mounts["/dev"][0]


# --- Landlock -------------------------------------------------------------------------------------


@pytest.mark.skipif(landlock_abi() < 6, reason="this kernel's Landlock knows no scope of signals")
def test_the_init_gets_no_signal_from_the_command(sandbox):
    seen = sandbox.python(
        """
        import os
        try:
            os.kill(1, 0)
            say(0)
        except OSError as e:
            say(e.errno)
        """
    )
    assert seen == 1


@pytest.mark.skipif(landlock_abi() < 1, reason="this kernel has no Landlock")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_landlock_holds_where_no_mount_does(programs, tmp_path):
    """keyhole-init on the host's own files, in namespaces that hide nothing: all that is in the way of
    the command is Landlock."""
    open_place, shut_place = tmp_path / "open", tmp_path / "shut"
    open_place.mkdir()
    shut_place.mkdir()
    (shut_place / "file").write_text("there")
    script = f"""
        echo x >{open_place}/made && mkdir {open_place}/folder && mv {open_place}/made {open_place}/folder/ &&
            echo written
        mkfifo {open_place}/fifo && echo fifo
        mknod {open_place}/null c 1 3 2>/dev/null && echo device
        cat {shut_place}/file && echo
        for try in 'echo x >{shut_place}/file' 'echo x >{shut_place}/new' 'rm {shut_place}/file' \
            'mkdir {shut_place}/folder' 'mv {shut_place}/file {open_place}/' 'ln {shut_place}/file {open_place}/file' \
            'ln -s x {shut_place}/link' 'mkfifo {shut_place}/fifo' 'truncate -s 0 {shut_place}/file'; do
            sh -c "$try" 2>/dev/null && echo "done: $try"
        done
        echo x >/dev/null && echo 0 >/proc/self/oom_score_adj && echo end
    """
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc",
         os.path.join(programs, "keyhole-init"), "--port", "3128", "--writable", str(open_place),
         "--", shutil.which("bash"), "-c", script],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["written", "fifo", "there", "end"], (done.stdout, done.stderr)
    assert (shut_place / "file").read_text() == "there"
