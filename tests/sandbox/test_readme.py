"""The commands of the README's first screen, as somebody types them."""

import os
import re
import signal
import subprocess
import time

import pytest
from conftest import PATIENCE, ROOT
from test_run import Run


def blocks():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    part = text[text.index("## Start here") : text.index("## How it works")]
    return re.findall(r"```sh\n(.*?)```", part, re.S)


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


def shell(run, script, cwd, **more):
    """`build/keyhole` of the README is what was built, wherever it lies."""
    build = run.sandbox.folder("build")
    if not os.path.lexists(os.path.join(build, "keyhole")):
        for name in ("keyhole", "keyhole-init"):
            os.symlink(os.path.join(run.sandbox.programs, name), os.path.join(build, name))
    if not os.path.lexists(os.path.join(cwd, "build")):
        os.symlink(build, os.path.join(cwd, "build"))
    return subprocess.run(
        run.sandbox.as_identity(["sh", "-ec", script]), cwd=cwd, stdin=subprocess.DEVNULL, text=True,
        capture_output=True, timeout=PATIENCE, check=False, env=run.environment(**more),
    )  # fmt: skip


def test_there_are_three_doors():
    assert len(blocks()) == 3
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        assert len(file.read().splitlines()) < 150


def test_who_runs_coding_agents(run, sandbox):
    project = sandbox.folder("project")
    sandbox.file(os.path.join(sandbox.place, "bin/claude"), "#!/bin/sh\necho $ANTHROPIC_API_KEY > said\n", 0o755)
    sandbox.give(sandbox.place)
    key = re.search(r"=(\S+)", blocks()[0])[1]
    script = blocks()[0].replace(key, "sk-ant-api03-" + "k" * 95)
    path = os.path.join(sandbox.place, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"
    done = shell(run, script, project, PATH=path)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(project, "said"), encoding="ascii") as file:
        said = file.read()
    assert said.startswith("sk-ant-api03-") and "kkkk" not in said


def test_who_audits_egress(run, sandbox):
    done = shell(run, blocks()[1], sandbox.folder("auditor"))
    assert done.returncode == 0, done.stderr
    assert "403  GET" in done.stdout and "https://example.com/upload" in done.stdout
    assert re.search(r"run\.jsonl: ok: \d+ lines, 0 exchanges, 1 denied", done.stdout), done.stdout


def test_who_runs_a_platform(run, sandbox):
    place = sandbox.folder("platform")
    sandbox.file(os.path.join(place, "keyhole.yaml"), "version: 1\nauthority: { certificate: ca.pem, key: ca.key }\n"
                 "audit: { file: audit.jsonl }\ntenants: { acme: { rules: [ { use: npm } ] } }\n"
                 "listen: [ { unix: d/s, tenant: acme } ]\n")  # fmt: skip
    sandbox.folder("platform/d", 0o700)
    check, proxy = blocks()[2].splitlines()
    done = shell(run, check, place)
    assert done.returncode == 0, done.stdout + done.stderr
    daemon = subprocess.Popen(
        sandbox.as_identity(["sh", "-c", "exec " + proxy]), cwd=place, env=run.environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + PATIENCE
    while not os.path.exists(os.path.join(place, "d/s")) and daemon.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    daemon.send_signal(signal.SIGTERM)
    said = daemon.communicate(timeout=PATIENCE)[1]
    assert daemon.returncode == 0 and os.path.exists(os.path.join(place, "audit.jsonl")), said
