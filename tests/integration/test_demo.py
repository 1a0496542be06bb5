"""The demo does what it says: every claim in it holds, as root and as an ordinary user."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile

import pytest
from harness import KEYHOLE, ROOT

sys.path.append(os.path.join(ROOT, "tests", "sandbox"))

import docker_daemon  # noqa: E402

DEMO = os.path.join(ROOT, "deploy", "demo", "run.sh")
SOME_UID = 54321


# Each word that ENGINE= may be besides the usual one, and the programs of which one must be there.
ENGINES = {"container": ["crun", "runc"], "podman": ["podman"], "docker": ["docker"], "gvisor": ["runsc"]}


def spent():
    """CPU time of what was run: the clock on the wall knows what else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(home, demo=DEMO, before=(), **more):
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(home),
        "TMPDIR": "/tmp",
        "AGENT": "none",  # real ones have tests of their own
        **more,
    }
    if demo == DEMO:
        env["KEYHOLE"] = KEYHOLE
    begin = spent()
    done = subprocess.run([*before, demo], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip
    return done, spent() - begin


def check(done, seconds=0.0):
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "✗" not in done.stdout
    assert done.stdout.count("✓") >= 18
    assert "The agent sees the keyhole, never the key." in done.stdout
    assert seconds < 8, f"it is to be a short story: {seconds} s of CPU time"


def test_the_demo_tells_its_story(tmp_path):
    check(*run(tmp_path))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_the_demo_tells_it_to_an_ordinary_user():
    """In a tree that such a user may read, which a clone in root's home is not."""
    with tempfile.TemporaryDirectory(prefix="khdemo.") as tree:
        os.chmod(tree, 0o755)
        home = os.path.join(tree, "home")
        os.mkdir(home)
        os.chown(home, SOME_UID, SOME_UID)
        os.mkdir(os.path.join(tree, "build"))
        for name in ("keyhole", "keyhole-init"):
            shutil.copy(os.path.join(os.path.dirname(KEYHOLE), name), os.path.join(tree, "build"))
        for name in ("include", "policies", "deploy/demo"):  # what makes it a source tree
            shutil.copytree(os.path.join(ROOT, name), os.path.join(tree, name))
        who = ["setpriv", f"--reuid={SOME_UID}", f"--regid={SOME_UID}", "--clear-groups", "--"]
        check(*run(home, os.path.join(tree, "deploy/demo/run.sh"), who))


def test_an_engine_that_there_is_not_is_named_before_anything_begins(tmp_path):
    done = run(tmp_path, ENGINE="foo")[0]
    assert done.returncode == 1 and "ENGINE=foo: no such engine" in done.stdout and done.stdout.count("\n") == 1, done.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_the_demo_tells_it_of_every_engine(tmp_path, engine):
    """One word is another, and every claim holds all the same."""
    if not any(shutil.which(program) for program in ENGINES[engine]):
        pytest.skip(f"engine {engine}: no {' or '.join(ENGINES[engine])} here")
    with tempfile.TemporaryDirectory(prefix="khdemo.") as runs:
        check(run(tmp_path, ENGINE=engine, **(docker(runs) if engine == "docker" else {}))[0])


def docker(runs):
    """The daemon of the tests sees nothing of /run, where a run's folder is made when nobody names another."""
    where, why = docker_daemon.host()
    if why:
        pytest.skip(f"engine docker: {why}")
    os.chmod(runs, 0o755)
    return {"RUNTIME_DIRECTORY": runs, "XDG_RUNTIME_DIR": runs, **({"DOCKER_HOST": where} if where else {})}


def test_it_says_what_does_not_hold(tmp_path):
    """A demo that can't fail shows nothing: without keyhole it ends with status 1."""
    fake = tmp_path / "keyhole"
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "KEYHOLE": str(fake)}
    done = subprocess.run([DEMO], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "✗" in done.stdout
