"""The host goes on working in a workspace: what it replaces there stays protected."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import PATIENCE, PYTHON
from test_workspace import ATTACK, git, repository

HEAD = "import json, sys\ndef say(x): print(json.dumps(x)); sys.stdout.flush()\n"
# Until the host has done its part, and all that was protected before is so again: that takes the launcher
# a millisecond of work, and a busy machine much longer. Then it is attacked in any case.
WAIT = """
import os, time
def laid():
    with open("/proc/self/mountinfo") as file:
        return {line.split()[4] for line in file if line.split()[4].startswith(os.getcwd() + "/")}
before = laid()
say("up")
while not os.path.exists("go"): time.sleep(0.01)
end = time.monotonic() + 40
while not before <= laid() and time.monotonic() < end: time.sleep(0.01)
"""


class Agent:
    """Attacks the paths when the host has done its part."""

    def __init__(self, sandbox, workspace, paths, **options):
        self.workspace = workspace
        self.process = sandbox.start(
            PYTHON, "-I", "-c", HEAD + WAIT + ATTACK, json.dumps(paths),
            workspace=workspace, **options,
        )  # fmt: skip
        assert self.process.stdout.readline() == b'"up"\n', self.process.stderr.read()

    def go(self):
        """Return: what worked, exit status, what was said."""
        with open(os.path.join(self.workspace, "go"), "w", encoding="ascii"):
            pass
        out, err = self.process.communicate(timeout=PATIENCE)
        return out.decode().strip(), self.process.returncode, err.decode()


def test_git_config_on_the_host_opens_nothing(sandbox, workspace):
    repository(sandbox, workspace)
    agent = Agent(sandbox, workspace, [".git/config", ".git/hooks/pre-commit", ".git/commondir"])
    for i in range(5):
        git(workspace, "config", "some.value", str(i))
    git(workspace, "remote", "add", "origin", "https://example.com/x.git")
    assert agent.go() == ("[]", 0, "")
    assert git(workspace, "config", "some.value") == "4\n"
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        assert "evil" not in file.read()


def test_an_editor_that_writes_a_new_file_opens_nothing(sandbox, workspace):
    for name in (".envrc", ".mcp.json"):
        sandbox.file(os.path.join(workspace, name), "good")
    sandbox.give(workspace)
    agent = Agent(sandbox, workspace, [".envrc", ".mcp.json"])
    path = os.path.join(workspace, ".envrc")
    sandbox.file(path + ".new", "better")
    os.rename(path + ".new", path)
    path = os.path.join(workspace, ".mcp.json")
    os.rename(path, path + "~")
    time.sleep(0.02)
    sandbox.file(path, "better")
    assert agent.go() == ("[]", 0, "")
    for name in (".envrc", ".mcp.json"):
        with open(os.path.join(workspace, name), encoding="ascii") as file:
            assert file.read() == "better"


def test_what_the_host_removes_can_not_be_made_by_the_agent(sandbox, workspace):
    sandbox.file(os.path.join(workspace, ".claude/settings.json"), "good")
    sandbox.file(os.path.join(workspace, ".envrc"), "good")
    sandbox.give(workspace)
    agent = Agent(sandbox, workspace, [".claude", ".claude/settings.json", ".vscode/tasks.json", ".envrc"])
    shutil.rmtree(os.path.join(workspace, ".claude"))
    os.rmdir(os.path.join(workspace, ".vscode"))
    os.unlink(os.path.join(workspace, ".envrc"))
    assert agent.go() == ("[]", 0, "")
    left = [n for n in os.listdir(workspace) if not n.startswith("evil")]
    assert left == ["go"], "what was put there in the meantime is gone again"


def test_a_repository_that_is_replaced_ends_the_sandbox(sandbox, workspace):
    repository(sandbox, workspace)
    agent = Agent(sandbox, workspace, [".git/config"])
    os.rename(os.path.join(workspace, ".git"), os.path.join(workspace, "old.git"))
    out, status, said = agent.go()
    assert (out, status) == ("", 125)
    assert ".git was replaced on the host" in said


def test_a_masked_file_that_is_written_anew_stays_masked(sandbox, workspace):
    path = sandbox.file(os.path.join(workspace, ".env"), "KEY=old")
    process = sandbox.start(
        "sh", "-c", "masked() { grep -q \" $PWD/.env \" /proc/self/mountinfo; }; masked && echo up; "
        "while [ ! -e go ]; do sleep 0.02; done; i=0; "
        "while ! masked && [ $i -lt 1000 ]; do sleep 0.02; i=$((i + 1)); done; cat .env; echo end",
        workspace=workspace, mask_env="yes",
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    sandbox.file(path + ".new", "KEY=new")
    os.rename(path + ".new", path)
    with open(os.path.join(workspace, "go"), "w", encoding="ascii"):
        pass
    out, err = process.communicate(timeout=PATIENCE)
    assert out == b"end\n", (out, err)


def test_many_files_at_once_are_no_trouble(sandbox, workspace):
    """More changes than the kernel's queue holds."""
    repository(sandbox, workspace)
    out = sandbox.python(
        """
        import os
        for i in range(20000):
            os.close(os.open('f', os.O_CREAT | os.O_WRONLY))
            os.unlink('f')
        try:
            open('.git/config', 'a').write('x')
            say('written')
        except OSError as e:
            say('kept')
        """,
        workspace=workspace,
    )
    assert out == "kept"


FLOOD = """
import os
for _ in range(2): os.fork()
say("up")
name = str(os.getpid())
while True:
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    os.unlink(name)
"""
REPLACE = """
import os, time
while True:
    with open(".envrc.new", "w") as file: file.write("better")
    os.rename(".envrc.new", ".envrc")
    time.sleep(0.005)
"""


@pytest.mark.parametrize("how", ["timeout", "signal"])
def test_a_flood_of_changes_keeps_the_launcher_from_nothing_else(sandbox, workspace, how):
    """From its clock and from signals, while four programs change files in a folder that it watches, and the host goes on
    replacing a protected one. Where that comes too fast for it the sandbox is ended, which will do as well."""
    sandbox.file(os.path.join(workspace, ".envrc"), "good")
    options = {"timeout_ms": 4000} if how == "timeout" else {}
    process = sandbox.start(PYTHON, "-I", "-c", HEAD + FLOOD, workspace=workspace, **options)
    # Four of them; or fewer, where the time is up before.
    said = [process.stdout.readline() for _ in range(4)]
    host = subprocess.Popen([PYTHON, "-I", "-c", REPLACE], cwd=workspace)
    try:
        if how == "signal":
            assert said == [b'"up"\n'] * 4, process.stderr.read()
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        host.kill()
        host.wait()
    if b"could not be protected again" in err:
        assert process.returncode == 125
    else:
        assert process.returncode == (124 if how == "timeout" else 128 + signal.SIGTERM), err
