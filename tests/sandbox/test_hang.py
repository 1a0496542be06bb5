"""What hangs is ended: an engine's program that brings nothing up, in every engine, and an engine that passes no signal on."""

import contextlib
import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import ENGINES, PATIENCE
from leftovers import STAY, Leftovers, below, what_they_do
from test_run import Run

# Programs of these names that hang: none needs to be installed.
PROGRAMS = {"process": "bwrap", "container": "crun", "podman": "podman", "docker": "docker", "gvisor": "runsc"}


@pytest.fixture(params=PROGRAMS)
def hanging(request, sandbox):
    """An engine, an environment in which its program hangs, and a function that waits until it does. What docker is asked
    for in the end it does."""
    name = PROGRAMS[request.param]
    folder, told = sandbox.folder("hanging"), sandbox.folder("told", 0o777)
    script = f"""#!/bin/sh
        case "$1" in rm|rmi) exit 0; esac
        echo hangs >{told}/up
        /bin/sleep 3000
        exit 0
    """
    sandbox.file(os.path.join(folder, name), script, 0o755)

    def wait():
        end = time.monotonic() + PATIENCE
        while not os.path.exists(os.path.join(told, "up")):
            assert time.monotonic() < end, "the program was not started"
            time.sleep(0.01)

    return request.param, sandbox.environment(PATH=folder), wait


def test_a_program_that_brings_nothing_up_is_named_and_ended(sandbox, hanging):
    engine, env, _ = hanging
    with Leftovers(sandbox.place) as left:
        done = sandbox.run("true", engine=engine, env=env, start_ms=700, check=125)
        said = done.stderr.decode()
        assert PROGRAMS[engine] in said and " in 700ms and was ended (" in said and said.count("\n") == 1, said
        with contextlib.suppress(FileNotFoundError):  # it was ended before it could say so
            os.unlink(os.path.join(sandbox.place, "told", "up"))
        left.check()


# Docker is asked for something before there is anything to time: that is the next test's.
@pytest.mark.identity("user")
@pytest.mark.parametrize(
    "hanging, how",
    [("process", signal.SIGINT), ("process", "timeout"), ("container", signal.SIGTERM), ("podman", signal.SIGINT),
     ("gvisor", signal.SIGTERM), ("gvisor", "timeout")],
    indirect=["hanging"],
)  # fmt: skip
def test_a_start_that_hangs_is_ended_like_any_other(sandbox, hanging, how):
    engine, env, wait = hanging
    with Leftovers() as left:
        process = sandbox.start("true", engine=engine, env=env, **({"timeout_ms": 1000} if how == "timeout" else {}))
        if how != "timeout":
            wait()
            process.send_signal(how)
        _, err = process.communicate(timeout=PATIENCE)
        if how == "timeout":
            assert process.returncode == 124 and b"its time was up (--timeout 1s)" in err
        else:
            assert (process.returncode, err) == (128 + how, b"")
        left.check()


@pytest.mark.identity("user")
@pytest.mark.parametrize("hanging", ["docker"], indirect=True)
def test_ctrl_c_is_heard_while_docker_hangs(sandbox, hanging):
    _, env, wait = hanging
    run = Run(sandbox)
    with Leftovers(run.runtime, run.state, but=STAY) as left:
        command = run.command("--engine", "docker", "--", "true")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**run.environment(), "PATH": env["PATH"]}, cwd="/")  # fmt: skip
        wait()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 128 + signal.SIGINT, err
        assert b"the sandbox: was interrupted" in err
        left.check()


def stop(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)


@pytest.mark.identity("user")
@pytest.mark.parametrize("kind", ["process", "container", "podman", "gvisor"])
def test_a_sandbox_that_passes_no_signal_on_is_ended_by_force(sandbox, kind):
    if not any(shutil.which(program) for program in ENGINES[kind]):
        pytest.skip(f"engine {kind}: no {' or '.join(ENGINES[kind])} here")
    with Leftovers() as left:
        process = sandbox.start("sh", "-c", "echo up; exec sleep 3000", engine=kind)
        assert process.stdout.readline() == b"up\n", process.stderr.read()
        for pid, _ in below(process.pid):
            stop(pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(what_they_do(os.getpid())) from None
        assert process.returncode == 128 + signal.SIGTERM
        left.check()


@pytest.mark.identity("user")
def test_a_command_that_hears_a_signal_and_goes_on_is_let(sandbox):
    """For longer than a sandbox that does not pass it on has."""
    script = "trap 'echo asked' TERM; echo up; while ! read -r go; do :; done; exit 7"
    process = sandbox.start("sh", "-c", script, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == b"asked\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=6)
    process.communicate(b"go\n", timeout=PATIENCE)
    assert process.returncode == 7
