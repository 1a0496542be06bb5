"""`keyhole run --image` as a whole: whose command runs, what is kept, and how it is removed."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tarfile
import time
from concurrent import futures

import pytest
from conftest import PATIENCE
from test_image import Layer, Layout
from test_run import Run


@pytest.fixture
def run(sandbox):
    for program in ("skopeo", "umoci", "busybox"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    made = Run(sandbox)
    cache = sandbox.folder("cache", 0o700)
    call = made.environment
    made.environment = lambda **more: call(XDG_CACHE_HOME=cache, **more)
    made.cache = os.path.join(cache, "keyhole")
    return made


def image(sandbox, **config):
    return "oci:" + Layout(sandbox).image([Layer().programs().done()], **config).path


def command(run, *words, check=0):
    done = subprocess.run(run.sandbox.as_identity([run.keyhole, "image", *words]), capture_output=True, text=True,
                          timeout=PATIENCE, env=run.environment(), check=False)  # fmt: skip
    assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
    return done


@contextlib.contextmanager
def held(folder):
    """A lock on it, by somebody else and alone."""
    fd = os.open(folder, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    yield
    os.close(fd)


ECHO = ["/bin/busybox", "echo", "entry"]


@pytest.mark.parametrize("config, options, words, said", [
    ({"Cmd": ["/bin/busybox", "echo", "its own"]}, [], [], "its own"),
    ({"Cmd": ["/bin/busybox", "echo", "its own"]}, [], ["/bin/busybox", "echo", "mine"], "mine"),
    ({"Entrypoint": ECHO, "Cmd": ["its own"]}, [], [], "entry its own"),
    ({"Entrypoint": ECHO, "Cmd": ["its own"]}, [], ["mine"], "entry mine"),
    ({"Entrypoint": ECHO, "Cmd": ["its own"]}, ["--entrypoint", "/bin/pwd"], [], "/"),
    ({"Entrypoint": ECHO}, ["--entrypoint", ""], ["/bin/busybox", "echo", "mine"], "mine"),
])  # fmt: skip
def test_whose_command_runs_is_as_with_podman(run, sandbox, config, options, words, said):
    done = run("-q", "--image", image(sandbox, WorkingDir="/", **config), *options, "--", *words, check=0)
    assert done.stdout == said + "\n" and done.stderr == ""


@pytest.mark.identity("user")  # root's is in /var
def test_no_image_comes_from_a_cache_where_an_agent_wrote(run, sandbox):
    home = sandbox.folder(".cache/keyhole")
    sandbox.give(sandbox.place)
    reference, elsewhere = image(sandbox, Cmd=["/bin/busybox", "true"]), run.environment()
    # Of an earlier run, with another cache.
    run("--home", home, "--", "true", check=0, env=elsewhere)
    default = {name: value for name, value in elsewhere.items() if name != "XDG_CACHE_HOME"}
    done = run("--image", reference, check=125, env=default)
    assert f"--image: the cache: {home} is in the --home of another run" in done.stderr and os.listdir(home) == [], done.stderr
    run("--", "true", check=0, env=default)
    run("--image", reference, check=0, env=elsewhere)


def test_an_image_without_a_command_wants_one(run, sandbox):
    done = run("-q", "--image", image(sandbox), check=125)
    assert "says no command of its own" in done.stderr


def test_unpacking_is_said_once(run, sandbox):
    reference = image(sandbox, Cmd=["/bin/busybox", "true"])
    assert f"unpacking {reference}, once" in run("--image", reference, check=0).stderr
    assert "unpacking" not in run("--image", reference, check=0).stderr


def test_what_is_kept_is_listed_and_removed_but_not_while_it_is_used(run, sandbox):
    reference = image(sandbox, Cmd=["/bin/busybox", "true"])
    assert command(run, "ls").stdout == ""
    run("-q", "--image", reference, check=0)
    one = json.loads(command(run, "ls", "--json").stdout)
    assert len(one) == 1 and one[0]["reference"] == reference and one[0]["in_use"] is False
    assert abs(one[0]["used"] - time.time()) < 600 and one[0]["name"] in command(run, "ls").stdout
    # Who only looks, or is about to remove it, does not use it; and who looks is in nobody's way.
    with held(os.path.join(run.cache, "images", one[0]["name"])):
        assert json.loads(command(run, "ls", "--json").stdout) == one
    started = run.start("-q", "--image", reference, "--", "/bin/sh", "-c", "echo up; sleep 600")
    try:
        assert started.stdout.readline() == b"up\n"
        with futures.ThreadPoolExecutor(8) as looks:
            for look in looks.map(lambda _: command(run, "ls", "--json"), range(8)):
                assert json.loads(look.stdout)[0]["in_use"] is True
        assert "a sandbox uses it" in command(run, "rm", reference, check=1).stderr
        assert command(run, "prune").stdout == ""
    finally:
        started.terminate()
        started.communicate(timeout=PATIENCE)
    assert command(run, "prune", "--unused-for", "24h").stdout == ""
    command(run, "rm", reference)
    assert os.listdir(os.path.join(run.cache, "images")) == [] == os.listdir(os.path.join(run.cache, "tmp"))
    run("-q", "--image", reference, check=0)
    assert command(run, "prune").stdout == one[0]["name"] + "\n" and command(run, "ls").stdout == ""
    assert "no such image" in command(run, "rm", "../../etc", check=1).stderr


def test_folders_that_nobody_may_read_are_removed_as_well(run, sandbox):
    closed = Layer().programs().add("closed", tarfile.DIRTYPE, mode=0o000).add("closed/file", content=b"x", mode=0)
    reference = "oci:" + Layout(sandbox).image([closed.done()], Cmd=["/bin/busybox", "true"]).path
    run("-q", "--image", reference, check=0)
    command(run, "prune")
    assert os.listdir(os.path.join(run.cache, "images")) == [] == os.listdir(os.path.join(run.cache, "tmp"))


def test_what_is_kept_is_shown_to_no_sandbox(run, sandbox):
    run("-q", "--image", image(sandbox, Cmd=["/bin/busybox", "true"]), check=0)
    done = run("-q", "--workspace", run.cache, "--", "true", check=125)
    assert "the sandbox would see it" in done.stderr


def test_a_signal_ends_the_unpacking(run, sandbox):
    made = Layer().programs()
    for i in range(64):
        made.add(f"zeros{i}", content=bytes(4 << 20))
    reference = "oci:" + Layout(sandbox).image([made.done()], Cmd=["/bin/busybox", "true"]).path
    started = run.start("--image", reference)
    assert b"unpacking" in started.stderr.readline()
    started.terminate()
    started.communicate(timeout=PATIENCE)
    assert started.returncode == 128 + 15
    assert os.listdir(os.path.join(run.cache, "tmp")) == []


def test_one_root_is_enough(run, sandbox):
    done = run("--image", "oci:x", "--rootfs", "/usr", "--", "true", check=125)
    assert "a sandbox has one root" in done.stderr
