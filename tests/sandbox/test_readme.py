"""The commands of the README's first screen, as somebody types them, with what is installed on the PATH."""

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
    more["PATH"] = run.sandbox.programs + ":" + more.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    return subprocess.run(
        run.sandbox.as_identity(["sh", "-ec", script]), cwd=cwd, stdin=subprocess.DEVNULL, text=True,
        capture_output=True, timeout=PATIENCE, check=False, env=run.environment(**more),
    )  # fmt: skip


def test_there_are_three_doors_behind_the_installation():
    assert len(blocks()) == 4
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        assert len(file.read().splitlines()) < 150


def test_the_installation_is_the_one_of_the_makefile():
    """tests/build/test_install.py runs it, and tests/integration/test_recipes.py the first line."""
    packages, install, doctor = (line.split("#")[0].split() for line in blocks()[0].splitlines())
    assert packages == ["deploy/install-deps.sh", "build", "run"]
    assert install == "make && sudo make install".split() and doctor == ["keyhole", "doctor"]


def test_who_runs_coding_agents(run, sandbox):
    project = sandbox.folder("my-project")
    sandbox.file(os.path.join(sandbox.place, "bin/claude"), "#!/bin/sh\necho $ANTHROPIC_API_KEY > said\n", 0o755)
    sandbox.give(sandbox.place)
    key = re.search(r"=(\S+)", blocks()[1])[1]
    script = blocks()[1].replace(key, "sk-ant-api03-" + "k" * 95)
    path = os.path.join(sandbox.place, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"
    done = shell(run, script, os.path.dirname(project), PATH=path)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(project, "said"), encoding="ascii") as file:
        said = file.read()
    assert said.startswith("sk-ant-api03-") and "kkkk" not in said


def test_who_audits_egress(run, sandbox):
    done = shell(run, blocks()[2], sandbox.folder("auditor"))
    assert done.returncode == 0, done.stderr
    assert "403  GET" in done.stdout and "https://example.com/upload" in done.stdout
    assert re.search(r"run\.jsonl: ok: \d+ lines, 0 requests allowed, 1 refused", done.stdout), done.stdout


def test_who_runs_a_platform(run, sandbox):
    place = sandbox.folder("platform")
    sandbox.file(os.path.join(place, "keyhole.yaml"), "version: 1\nauthority: { certificate: ca.pem, key: ca.key }\n"
                 "audit: { file: audit.jsonl }\ntenants: { acme: { rules: [ { use: npm } ] } }\n"
                 "listen: [ { unix: d/s, tenant: acme } ]\n")  # fmt: skip
    sandbox.folder("platform/d", 0o700)
    check, proxy = blocks()[3].splitlines()
    done = shell(run, check, place)
    assert done.returncode == 0, done.stdout + done.stderr
    daemon = subprocess.Popen(
        sandbox.as_identity(["sh", "-c", "exec " + proxy]), cwd=place,
        env=run.environment(PATH=sandbox.programs + ":/usr/sbin:/usr/bin:/sbin:/bin"),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + PATIENCE
    while not os.path.exists(os.path.join(place, "d/s")) and daemon.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    daemon.send_signal(signal.SIGTERM)
    said = daemon.communicate(timeout=PATIENCE)[1]
    assert daemon.returncode == 0 and os.path.exists(os.path.join(place, "audit.jsonl")), said
