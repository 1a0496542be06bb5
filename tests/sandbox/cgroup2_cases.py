"""Limits on a host that has control groups of version 2 alone, by whom groups were delegated to.

Not collected by itself: root is needed, and a tree of groups that nobody else looks after, as in the
machine that cgroup2.sh starts.
"""

import os
import subprocess

import pytest
from conftest import PATIENCE, PYTHON, USER
from test_limits import EAT, MIB, groups
from test_run import Run

TOP = "/sys/fs/cgroup"
ALL = "+memory +pids +cpu"

pytestmark = pytest.mark.identity("user")

# Forks until it may not, then spins for two seconds: how many, why not, and how much CPU time it had.
USE = """
import os, time
made, why = [], 0
try:
    while len(made) < 200:
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        made.append(pid)
except OSError as e:
    why = e.errno
for pid in made:
    os.kill(pid, 9), os.waitpid(pid, 0)
before, end = time.process_time(), time.monotonic() + 2
while time.monotonic() < end: pass
say([len(made), why, time.process_time() - before])
"""


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(text)


def read(folder, name):
    with open(os.path.join(folder, name), encoding="ascii") as file:
        return file.read()


def delegate(folder):
    for path in [folder, *(os.path.join(folder, f"cgroup.{name}") for name in ("procs", "threads", "subtree_control"))]:
        os.chown(path, USER, USER)


@pytest.fixture
def into(sandbox):
    """into(kind): from now on the launcher is started in a group as systemd makes it."""
    assert os.geteuid() == 0 and os.path.exists(f"{TOP}/cgroup.controllers"), "this is for a host of version 2 alone"
    if sandbox.identity != "user":
        pytest.skip("root makes its groups anywhere: test_limits")
    write(TOP, "cgroup.subtree_control", ALL)
    above = os.path.join(TOP, "kh-test")
    os.mkdir(above)
    write(above, "cgroup.subtree_control", ALL)
    place = os.path.join(above, "unit")
    os.mkdir(place)
    plain = sandbox.as_identity

    def enter(kind):
        if kind == "scope":  # of a user's own manager, whose slice it lies in
            delegate(above)
        if kind != "session":
            delegate(place)
        # Whoever gives to its children takes no process itself any more.
        script = 'for g in "$0/keyhole.rest" "$0"; do [ ! -d "$g" ] || break; done; echo $$ >"$g/cgroup.procs" && exec "$@"'
        sandbox.as_identity = lambda words: ["sh", "-c", script, place, *plain(words)]
        return place

    yield enter
    for folder, _, _ in os.walk(above, topdown=False):
        os.rmdir(folder)


@pytest.mark.parametrize("program", ["process", "container"])
@pytest.mark.parametrize("kind", ["scope", "service"])
def test_all_limits_hold_where_groups_are_delegated(sandbox, into, kind, program):
    place = into(kind)
    made, why, used = sandbox.python(USE, engine=program, memory=256 * MIB, pids=40, cpu_milli=200)
    assert 20 <= made <= 60 and why == 11
    assert used < 1, f"{used} s of 2 s, where a fifth was allowed"
    done = sandbox.run(PYTHON, "-I", "-c", EAT, engine=program, memory=128 * MIB, check=137)
    assert b"ran out of memory" in done.stderr and b"bounds each" not in done.stderr
    assert not groups() - {f"{place}/keyhole.rest"} and os.path.isdir(f"{place}/keyhole.rest") == (kind == "service")


@pytest.mark.parametrize("program", ["process", "container"])
@pytest.mark.parametrize("kind", ["scope", "service"])
def test_keyhole_run_has_them_too(sandbox, into, kind, program):
    into(kind)
    run = Run(sandbox)
    words = ["--engine", program, "--memory", "128MiB", "--cpus", "1.5", "--pids", "50", "--"]
    assert run(*words, "sh", "-c", "cat /proc/self/cgroup; echo done", check=0).stdout.endswith("done\n")
    assert "ran out of memory" in run(*words, PYTHON, "-I", "-c", EAT, check=137).stderr
    assert not [path for path in groups() if not path.endswith("keyhole.rest")]


def test_several_at_once_in_one_service(sandbox, into):
    """The first one moves what runs there, with the others in it."""
    place = into("service")
    running = [sandbox.start("sh", "-c", "echo up; read x", memory=256 * MIB, pids=100, cpu_milli=500,
                             stdin=subprocess.PIPE) for _ in range(3)]  # fmt: skip
    assert all(process.stdout.readline() == b"up\n" for process in running)
    made = groups() - {f"{place}/keyhole.rest"}
    assert len(made) == 3 and all(read(path, "memory.max") == f"{256 * MIB}\n" for path in made)
    assert all(read(path, "pids.max") == "116\n" and read(path, "cpu.max") == "50000 100000\n" for path in made)
    assert all(read(path, "cgroup.procs") for path in made)
    for process in running:
        process.communicate(b"\n", timeout=PATIENCE)
        assert process.returncode == 0
    assert not groups() - {f"{place}/keyhole.rest"}


def test_what_is_not_delegated_is_refused_or_bounds_each_process(sandbox, into):
    place = into("session")
    said = sandbox.run("true", cpu_milli=200, check=125).stderr.decode()
    assert "--cpus" in said and "Delegate=yes" in said and "--best-effort" in said
    done = sandbox.run(PYTHON, "-I", "-c", EAT, memory=128 * MIB, pids=40, check=1)
    assert b"MemoryError" in done.stderr and b"bounds each process" in done.stderr
    assert os.listdir(place) == [name for name in os.listdir(place) if "keyhole" not in name]


@pytest.mark.parametrize("kind, said", [("scope", "version 2; one was made"), ("service", "version 2; one was made"),
                                        ("session", "version 2; none can be made by you")])  # fmt: skip
def test_doctor_says_so(sandbox, into, kind, said):
    into(kind)
    # No engine is found on this PATH: their trials are not what is asked for.
    words = sandbox.as_identity(["env", "PATH=/nowhere", os.path.join(sandbox.programs, "keyhole"), "doctor"])
    done = subprocess.run(words, env=sandbox.environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert said in done.stdout, done.stdout
