"""keyhole doctor: what it says is what a trial found, and what to do where nothing was."""

import ctypes
import json
import os
import shutil
import subprocess
import time

import docker_daemon
import pytest
from conftest import ENGINES, PATIENCE, ROOT, landlock_abi


@pytest.fixture
def doctor(sandbox):
    def run(*args, check=0, **env):
        done = subprocess.run(
            sandbox.as_identity([os.path.join(sandbox.programs, "keyhole"), "doctor", *args]),
            capture_output=True, text=True, timeout=PATIENCE, cwd="/",
            env={**sandbox.environment(), "KEYHOLE_PRESETS": os.path.join(ROOT, "policies"), **env},
            check=False,
        )  # fmt: skip
        assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    return run


def checks(text):
    return {(c["group"], c["name"]): c for c in json.loads(text)["checks"]}


def test_each_engine_is_tried_and_named(doctor):
    where, why = docker_daemon.host()
    found = json.loads(doctor("--json", **({"DOCKER_HOST": where} if where else {})))
    seen = checks(json.dumps(found))
    assert found["works"] is True and found["version"]
    assert {name for group, name in seen if group == "engine"} == set(ENGINES)
    for engine, programs in ENGINES.items():
        there = any(shutil.which(p) for p in programs) and (engine != "docker" or not why)
        assert seen["engine", engine]["state"] == ("ok" if there else "no"), seen["engine", engine]


def test_what_is_missing_comes_with_the_command_that_gets_it(doctor, sandbox):
    nothing = sandbox.folder("nothing")
    seen = checks(doctor("--json", check=1, PATH=nothing))
    assert "apt install bubblewrap" in seen["engine", "process"]["text"]
    assert "apt install crun" in seen["engine", "container"]["text"]
    assert {seen["engine", e]["state"] for e in ENGINES} == {"no"}


def test_no_program_in_the_workspace_of_a_run_is_run(doctor, sandbox, workspace):
    canary = os.path.join(sandbox.place, "canary")
    folder = os.path.join(workspace, "bin")
    for name in ("skopeo", "umoci", "mmdebstrap", "bwrap", "crun", "podman", "docker", "runsc"):
        sandbox.file(os.path.join(folder, name), f"#!/bin/sh\necho {name} >>{canary}\n", 0o755)
    sandbox.give(workspace)
    process = sandbox.start("sh", "-c", "echo up; exec cat", workspace=workspace, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    doctor("--json", PATH=folder + ":/usr/sbin:/usr/bin:/sbin:/bin")
    assert not os.path.exists(canary)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_a_program_that_is_there_and_does_not_work_is_found_out(doctor, sandbox):
    broken = sandbox.folder("broken")
    for name in ("bwrap", "crun"):
        sandbox.file(os.path.join(broken, name), "#!/bin/sh\necho not today >&2\nexit 1\n", 0o755)
    seen = checks(doctor("--json", check=1, PATH=broken))
    for engine in ("process", "container"):
        assert seen["engine", engine]["state"] == "no" and "not today" in seen["engine", engine]["text"]


def test_what_images_need_is_run_and_a_layer_is_laid(doctor, sandbox):
    seen = checks(doctor("--json"))
    assert seen["image", "overlay"]["state"] == "ok", seen["image", "overlay"]
    for program in ("skopeo", "umoci", "mmdebstrap"):
        row = seen["image", program]
        there = shutil.which(program) is not None
        assert row["state"] == ("ok" if there else "absent"), row
        assert there or f"apt install {program}" in row["text"], row


def test_the_kernel_is_what_it_is_said_to_be(doctor):
    seen = checks(doctor("--json"))
    libc = ctypes.CDLL(None)
    assert (seen["kernel", "landlock"]["state"] == "ok") == (landlock_abi() > 0)
    fd = libc.syscall(447, 0)
    assert seen["kernel", "memfd_secret"]["state"] == ("ok" if fd >= 0 else "warning")
    if fd >= 0:
        os.close(fd)
    key = libc.syscall(330, 0, 0) if os.uname().machine == "x86_64" else None
    if key is not None:
        assert seen["kernel", "pkeys"]["state"] == ("ok" if key >= 0 else "warning")
    assert seen["kernel", "user-namespaces"]["state"] == "ok"
    assert seen["kernel", "seccomp"]["state"] == "ok"
    assert seen["kernel", "kvm"]["state"] in ("ok", "warning") and seen["kernel", "cgroups"]["text"]


def test_a_key_that_is_there_is_named_and_not_shown(doctor):
    value = "sk-ant-this-is-the-real-one"
    text = doctor(ANTHROPIC_API_KEY=value)
    assert "ANTHROPIC_API_KEY is set" in text and value not in text
    seen = checks(doctor("--json", ANTHROPIC_API_KEY=value))
    assert seen["preset", "anthropic"]["state"] == "ok"
    assert seen["preset", "openai"]["state"] == "absent"
    assert "export OPENAI_API_KEY" in seen["preset", "openai"]["text"]
    assert value not in json.dumps(list(seen.values()))


def test_the_table_says_the_same(doctor):
    seen = checks(doctor("--json"))
    marks = {"ok": "ok", "absent": "-", "warning": "warn", "no": "NO"}
    lines = [line.split(None, 2) for line in doctor().splitlines() if line.startswith("  ")]
    assert [(m, n) for m, n, _ in lines] == [(marks[c["state"]], n) for (_, n), c in seen.items()]


def test_it_leaves_nothing(doctor):
    def left():
        found = {n for n in os.listdir("/tmp") if n.startswith("keyhole-")}
        for above, folders, _ in os.walk("/sys/fs/cgroup"):
            found |= {os.path.join(above, n) for n in folders if n.startswith("keyhole-")}
        return found

    before = left()
    doctor()
    end = time.monotonic() + PATIENCE
    new = left() - before
    while new & left() and time.monotonic() < end:  # of others on this machine, who are at work
        time.sleep(0.1)
    assert not new & left()


@pytest.mark.parametrize("args", [["--jsno"], ["now"]])
def test_called_wrongly_it_says_so(sandbox, args):
    done = subprocess.run([os.path.join(sandbox.programs, "keyhole"), "doctor", *args],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)  # fmt: skip
    assert done.returncode == 2 and done.stderr and not done.stdout
