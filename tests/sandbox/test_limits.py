"""How much of the host a sandbox may use, in every engine; and that the groups are gone afterwards."""

import errno
import os
import resource
import signal
import subprocess
import time

import docker_daemon
import pytest
from conftest import PATIENCE, PYTHON
from test_capture import inside, mock  # noqa: F401

MIB = 1 << 20
EAT = "x = []\nfor _ in range(64): x.append(b'x' * (8 << 20))\nprint('eaten')"


def groups():
    """Those of keyhole's, and the containers' of the daemon that the tests have."""
    return {path for path, _, _ in os.walk("/sys/fs/cgroup")
            if os.path.basename(path).startswith("keyhole-") or f"/{docker_daemon.group()}/" in path}  # fmt: skip


def can_make_group(identity):
    """Root, where some hierarchy of memory can be written; an ordinary user of this test never."""
    if identity != "root":
        return False
    if os.path.isdir("/sys/fs/cgroup/memory"):
        return os.access("/sys/fs/cgroup/memory", os.W_OK)
    return os.access("/sys/fs/cgroup/cgroup.subtree_control", os.W_OK)


@pytest.fixture
def with_groups(identity):
    if not can_make_group(identity):
        pytest.skip(f"no control group is to be had here as {identity}")


# --- memory ---------------------------------------------------------------------------------------


def test_memory_is_of_all_processes_together(sandbox, with_groups):
    """Each of four takes what one may; all of them together may not."""
    code = (
        """
        import subprocess, sys
        code = "x = b'x' * (40 << 20); print('has it', flush=True); input()"
        def start(n):
            made = [subprocess.Popen([sys.executable, '-I', '-c', code], stdin=-1, stdout=-1) for _ in range(n)]
            for p in made:
                p.stdout.readline()
            for p in made:
                p.communicate(b'\\n')
            return [p.returncode for p in made]
        say([start(int(n)) for n in sys.argv[1:]])
        """
    )
    if sandbox.engine == "gvisor":
        # What ends is its kernel, and with it everything; and it takes memory as well.
        assert sandbox.python(code, 1, memory=240 * MIB) == [[0]]
        assert sandbox.python(code, 8, memory=240 * MIB, check=128 + signal.SIGKILL) is None
        return
    seen = sandbox.python(code, 1, 4, memory=120 * MIB)
    assert seen[0] == [0] and -signal.SIGKILL in seen[1], seen


def test_out_of_memory_is_137_and_said(sandbox, with_groups):
    done = sandbox.run(PYTHON, "-I", "-c", EAT, memory=128 * MIB)
    assert done.returncode == 137 and done.stdout == b""
    # Docker removes the group that tells of it, and may be quicker than the launcher is to look.
    if sandbox.engine != "docker" or done.stderr:
        assert b"ran out of memory" in done.stderr and b"--memory" in done.stderr and done.stderr.count(b"\n") == 1
    assert sandbox.run(PYTHON, "-I", "-c", EAT, memory=1024 * MIB, check=0).stdout == b"eaten\n"


def test_what_lies_in_memory_files_counts_too(sandbox, with_groups):
    done = sandbox.run("sh", "-c", "dd if=/dev/zero of=/tmp/x bs=1M count=300 2>/dev/null; echo $?", memory=64 * MIB)
    assert done.returncode == 137 or done.stdout == b"137\n", done


@pytest.mark.identity("user")
def test_without_a_group_memory_bounds_each_process_and_that_is_said(sandbox):
    done = sandbox.run(PYTHON, "-I", "-c", EAT, memory=128 * MIB, check=1)
    assert b"MemoryError" in done.stderr and b"bounds each process" in done.stderr


# --- files that are watched ------------------------------------------------------------------------


def test_of_inotify_some_is_left_to_who_started_it(sandbox):
    """Instances and watches count for the user on the host, whose editors have none left else."""
    if sandbox.engine in ("gvisor", "docker"):
        pytest.skip("gvisor's are of its own kernel; in docker the daemon says what there is")
    most = {}
    for name in ("instances", "watches"):
        with open(f"/proc/sys/fs/inotify/max_user_{name}", encoding="ascii") as file:
            most[name] = int(file.read())
    seen = sandbox.python(
        """
        import ctypes, os, resource
        libc = ctypes.CDLL(None, use_errno=True)
        fds = []
        while len(fds) < 900:
            fd = libc.inotify_init1(0)
            if fd < 0:
                break
            fds.append(fd)
        made = []
        for name in os.listdir('/proc/sys/user'):
            try:
                open('/proc/sys/user/' + name, 'w').close()
                made.append(name)
            except OSError:
                pass
        say([len(fds), ctypes.get_errno(), int(open('/proc/sys/user/max_inotify_watches').read()), made])
        """
    )
    assert seen[0] <= most["instances"] // 4 and seen[1] == errno.EMFILE and seen[3] == [], seen
    assert sandbox.engine != "process" or seen[2] == most["watches"] // 2


# --- signals and terminals ------------------------------------------------------------------------


def test_of_signals_that_wait_half_are_left_to_who_started_it(sandbox):
    """Each timer of a process takes one, and they count for the user on the host."""
    if sandbox.engine in ("gvisor", "docker"):
        pytest.skip("gvisor's are of its own kernel; in docker the daemon says what there is")
    seen = sandbox.python(
        """
        import ctypes, resource
        libc = ctypes.CDLL(None, use_errno=True)
        n, timer = 0, ctypes.c_void_p()
        while n < 200_000 and libc.timer_create(0, None, ctypes.byref(timer)) == 0:
            n += 1
        say([n, ctypes.get_errno(), resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]])
        """
    )
    most = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
    assert most < 0 or (seen[0] <= most // 2 and seen[2] <= most // 2 and seen[1] == errno.EAGAIN), (most, seen)


def test_a_sandbox_can_not_take_all_terminals(sandbox):
    if sandbox.engine != "container":
        pytest.skip("only there keyhole mounts the sandbox's devpts itself")
    seen = sandbox.python(
        """
        import os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        fds, why = [], 0
        try:
            while len(fds) < 2000:
                fds.append(os.posix_openpt(os.O_RDWR) if hasattr(os, 'posix_openpt') else os.open('/dev/ptmx', os.O_RDWR))
        except OSError as e:
            why = e.errno
        say([len(fds), why])
        """
    )
    assert seen[0] <= 512 and seen[1] == errno.ENOSPC, seen


# --- processes ------------------------------------------------------------------------------------


def test_processes_are_bounded(sandbox):
    seen = sandbox.python(
        """
        import os, time
        made = 0
        try:
            for _ in range(200):
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                made += 1
            say([made, 'no end'])
        except OSError as e:
            say([made, e.errno])
        """,
        pids=40,
    )
    assert 20 <= seen[0] <= 60 and seen[1] == 11, seen


@pytest.mark.parametrize("pids", [4096, 4194304])
def test_as_many_processes_as_the_kernel_has_at_most_are_a_limit_too(sandbox, pids):
    assert sandbox.run("sh", "-c", "echo up", pids=pids, check=0).stdout == b"up\n"


def test_threads_count_as_processes_do(sandbox):
    seen = sandbox.python(
        """
        import os, threading, time
        made = 0
        try:
            while made < 200:
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
                made += 1
            say([made, 'no end'])
        except RuntimeError:
            say([made, 'none'])
        os._exit(0)
        """,
        pids=40,
    )
    assert 20 <= seen[0] <= 60 and seen[1] == "none", seen


# --- CPU ------------------------------------------------------------------------------------------


SPIN = """
import time
before, end = time.process_time(), time.monotonic() + 2
while time.monotonic() < end: pass
print(time.process_time() - before)
"""


def test_cpus_are_bounded(sandbox, with_groups):
    begin = time.monotonic()
    process = sandbox.start(PYTHON, "-I", "-c", SPIN, cpu_milli=200)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, err) == (0, b"")
    used, most = float(out), 1.2
    if sandbox.engine == "gvisor":
        # Its kernel counts for the program, and is told of no group: the host does, from the start on.
        used, most = usage.ru_utime + usage.ru_stime, 0.4 * (time.monotonic() - begin) + 0.3
    assert 0 < used < most, f"{used} s, where a fifth of the time was allowed"


@pytest.mark.identity("user")
def test_cpus_without_a_group_are_refused_with_what_to_do(sandbox):
    done = sandbox.run("true", cpu_milli=200, check=125)
    said = done.stderr.decode()
    assert said.startswith("keyhole: --cpus: ") and "Delegate=yes" in said and "--best-effort" in said
    done = sandbox.run("true", cpu_milli=200, best_effort="yes", check=0)
    assert "runs without it" in done.stderr.decode()


# --- disk -----------------------------------------------------------------------------------------


def test_disk_bounds_each_place_in_memory(sandbox):
    seen = sandbox.python(
        """
        import os
        out = {}
        for place in ('/tmp', '/home/agent', '/dev/shm'):
            try:
                with open(place + '/x', 'wb') as file:
                    for _ in range(64):
                        file.write(b'x' * (1 << 20))
                out[place] = 'no end'
            except OSError as e:
                out[place] = [e.errno, os.path.getsize(place + '/x') >> 20]
        say(out)
        """,
        disk=8 * MIB,
    )
    assert all(v[0] == 28 and v[1] <= 8 for v in seen.values()), seen


# --- time -----------------------------------------------------------------------------------------


def test_a_command_whose_time_is_up_is_asked_to_end(sandbox):
    script = "trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.1; done"
    # On a slow machine its time is up before it has begun, or before the launcher has heard that it has.
    for seconds in (1, 5, 20):
        done = sandbox.run("sh", "-c", script, timeout_ms=seconds * 1000, check=124)
        # The shell says "Terminated" of its child; the last line is ours.
        assert done.stderr.splitlines()[-1].endswith(b"its time was up (--timeout %ds)" % seconds)
        if done.stdout == b"up\nasked\n":
            break
    assert done.stdout == b"up\nasked\n"


def test_and_ended_where_it_does_not_listen(sandbox):
    script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    # What has not begun when its time is up, or not been heard of yet, is ended at once: a slow machine needs more.
    for seconds in (1, 5, 20):
        start = time.monotonic()
        done = sandbox.run("sh", "-c", script, timeout_ms=seconds * 1000, check=124)
        took = time.monotonic() - start
        if done.stdout and took >= seconds + 2:
            break
    # The loop has no end of its own, and nobody waits here for more than a minute.
    assert done.stdout == b"up\n" and took >= seconds + 2, (took, done)


def test_a_command_that_ends_in_time_has_its_own_status(sandbox):
    assert sandbox.run("sh", "-c", "exit 7", timeout_ms=60000, check=7).stderr == b""


# --- what is left ---------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["nobody", "launcher"])
def test_no_group_is_left(sandbox, with_groups, who):
    before = groups()
    running = sandbox.start("sh", "-c", "echo up; cat /proc/self/cgroup; read x", memory=256 * MIB, pids=100,
                            cpu_milli=500, stdin=subprocess.PIPE)  # fmt: skip
    assert running.stdout.readline() == b"up\n"
    mine = groups() - before
    assert mine
    if who == "launcher":
        running.send_signal(signal.SIGKILL)
    else:
        running.stdin.write(b"\n")
    running.communicate(timeout=PATIENCE)
    end = time.monotonic() + PATIENCE
    while mine & groups() and time.monotonic() < end:
        time.sleep(0.02)
    assert not mine & groups()


def test_no_name_of_a_group_is_seen_inside(sandbox, with_groups):
    text = sandbox.sh("cat /proc/self/cgroup", memory=256 * MIB, pids=100)
    assert "keyhole-" not in text, text


# --- the options ----------------------------------------------------------------------------------


@pytest.mark.parametrize("option, value", [("memory", "1"), ("memory", "1MiB"), ("memory", "x"), ("cpus", "0"),
                                           ("cpus", "1.2345"), ("cpus", "-1"), ("cpus", "."), ("pids", "0"), ("pids", "1e3"),
                                           ("disk", "10"), ("timeout", "0s"), ("timeout", "10"), ("timeout", "")])  # fmt: skip
def test_a_wrong_limit_is_one_line(inside, option, value):  # noqa: F811
    done = inside("true", options=[f"--{option}", value], check=125)
    assert done.stderr.startswith(f"keyhole: --{option} {value}") and "wants" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option, value, write", [("memory", "100M", "100MiB"), ("memory", "1g", "1GiB"), ("disk", "512MB", "512MiB")])
def test_a_unit_of_other_programs_is_answered_with_ours(inside, option, value, write):  # noqa: F811
    done = inside("true", options=[f"--{option}", value], check=125)
    assert done.stderr == f"keyhole: --{option} {value}: the unit is KiB, MiB or GiB: write {write}\n"


def test_the_options_of_run_are_these_limits(inside):  # noqa: F811
    done = inside("sh", "-c", "sleep 60", check=124, options=["--timeout", "1s", "--memory", "1GiB", "--pids", "100",
                                                              "--disk", "16MiB", "--cpus", "1.5", "--best-effort"])  # fmt: skip
    assert "--timeout 1s" in done.stderr
