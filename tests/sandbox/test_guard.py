"""The host goes on working in a workspace: what it replaces there stays protected."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest
from conftest import PATIENCE, PYTHON, below
from test_workspace import ATTACK, git, repository

HEAD = "import json, sys\ndef say(x): print(json.dumps(x)); sys.stdout.flush()\n"
# It attacks when the host has done its part.
WAIT = """
import os, time
say("up")
if os.path.exists("look"):
    while open(".envrc").read() != "better": time.sleep(0.01)
    say("seen")
while not os.path.exists("go"): time.sleep(0.01)
"""


def mounts(pid, workspace):
    """What is mounted in a workspace, for the processes below this one. In gVisor that is seen from outside alone."""
    found = set()
    for child in below(pid):
        with contextlib.suppress(OSError), open(f"/proc/{child}/mountinfo", encoding="utf-8") as file:
            found |= {line.split()[4] for line in file}
    return {path for path in found if path.startswith(workspace + "/")}


def wait_for_mounts(process, workspace, wanted):
    """That takes the launcher a millisecond of work, and a busy machine much longer."""
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end and not wanted <= mounts(process.pid, workspace):
        time.sleep(0.01)


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def within(seconds, condition):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def restore(sandbox, said):
    item = said.split("`keyhole workspace restore ")[1].split("`")[0]
    words = sandbox.as_identity([os.path.join(sandbox.programs, "keyhole"), "workspace", "restore", item])
    subprocess.run(words, cwd="/", env=sandbox.environment(), capture_output=True, timeout=PATIENCE, check=True)


class Agent:
    """Attacks the paths when the host has done its part, and all that was protected before is so again."""

    def __init__(self, sandbox, workspace, paths, **options):
        self.workspace = workspace
        self.process = sandbox.start(
            PYTHON, "-I", "-c", HEAD + WAIT + ATTACK, json.dumps(paths),
            workspace=workspace, **options,
        )  # fmt: skip
        assert self.process.stdout.readline() == b'"up"\n', self.process.stderr.read()
        self.before = mounts(self.process.pid, workspace)
        assert self.before

    def stop(self):
        """The launcher, which looks at nothing until it is let go on."""
        self.process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(self.process.pid, os.WUNTRACED)[1])

    def go(self):
        """Return: what worked, exit status, what was said."""
        wait_for_mounts(self.process, self.workspace, self.before)
        with open(os.path.join(self.workspace, "go"), "w", encoding="ascii"):
            pass
        out, err = self.process.communicate(timeout=PATIENCE)
        return out.decode().strip(), self.process.returncode, err.decode()


def line_of_stopped(process):
    """What its command says. If the command has ended, only a launcher that goes on ends the stream."""
    go_on = threading.Timer(PATIENCE, process.send_signal, [signal.SIGCONT])
    go_on.start()
    try:
        return process.stdout.readline()
    finally:
        go_on.cancel()


def test_git_config_on_the_host_opens_nothing(sandbox, workspace):
    repository(sandbox, workspace)
    agent = Agent(sandbox, workspace, [".git/config", ".git/hooks/pre-commit", ".git/commondir"])
    for i in range(5):
        git(workspace, "config", "user.name", str(i))
    git(workspace, "remote", "add", "origin", "https://example.com/x.git")
    assert agent.go() == ("[]", 0, "")
    assert git(workspace, "config", "user.name") == "4\n"
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
    out, status, said = agent.go()
    assert (out, status) == ("[]", 0)
    # The agent could write to one before it was protected, and nobody had the other name for a moment.
    assert said.count("was set aside") == 2
    for name in (".envrc", ".mcp.json"):
        path = os.path.join(workspace, name)
        line = next(line for line in said.splitlines() if f"{path} was set aside: it was protected, and was replaced" in line)
        assert not os.path.exists(path)
        restore(sandbox, line)
        with open(path, encoding="ascii") as file:
            assert file.read() == "better"


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_what_the_host_sets_in_git_config_stays_where_it_is_harmless(sandbox, workspace):
    """And the user's own of before does, whatever it says."""
    repository(sandbox, workspace)
    git(workspace, "config", "core.hooksPath", "/srv/hooks")
    git(workspace, "config", "alias.up", "!git pull")
    git(workspace, "remote", "add", "local", "/srv/git/x.git")
    agent = Agent(sandbox, workspace, [".git/config"])
    git(workspace, "config", "user.email", "you@example.com")
    git(workspace, "config", "branch.new.remote", "local")
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        text = file.read()
    assert agent.go() == ("[]", 0, "")
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        assert file.read() == text


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_what_the_host_sets_in_git_config_and_may_be_the_agents_can_be_restored(sandbox, workspace):
    repository(sandbox, workspace)
    git(workspace, "config", "alias.up", "!git pull")
    agent = Agent(sandbox, workspace, [".git/config"])
    git(workspace, "config", "user.email", "you@example.com")
    git(workspace, "config", "core.hooksPath", "/srv/hooks")
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        text = file.read()
    out, status, said = agent.go()
    assert (out, status) == ("[]", 0)
    assert said.count("was set aside") == 1 and ".git/config was set aside: a git configuration with core.hookspath" in said
    assert git(workspace, "config", "--local", "--get-all", "alias.up") == "!git pull\n"
    assert git(workspace, "config", "--local", "user.email") == "you@example.com\n"
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        assert "hookspath" not in file.read().lower()
    restore(sandbox, said)
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        assert file.read() == text


HOLD = """
import os, time
names = ["new.envrc", ".git/new.config"]
files = [open(name, "a") for name in names]
say("up")
while any(os.path.exists(name) for name in names) or not os.path.exists("go"): time.sleep(0.01)
files[0].write("evil")
files[1].write("[core]\\n\\tfsmonitor = evil\\n")
for file in files: file.close()
say("done")
"""


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_what_the_agent_opened_before_the_host_gave_it_a_protected_name_is_judged(sandbox, workspace):
    """No mount over the name keeps it from writing there."""
    repository(sandbox, workspace)
    sandbox.file(os.path.join(workspace, ".envrc"), "good")
    sandbox.file(os.path.join(workspace, "new.envrc"), "better")
    shutil.copy(os.path.join(workspace, ".git/config"), os.path.join(workspace, ".git/new.config"))
    sandbox.give(workspace)
    process = sandbox.start(PYTHON, "-I", "-c", HEAD + HOLD, workspace=workspace)
    assert process.stdout.readline() == b'"up"\n', process.stderr.read()
    before = mounts(process.pid, workspace)
    os.rename(os.path.join(workspace, "new.envrc"), os.path.join(workspace, ".envrc"))
    os.rename(os.path.join(workspace, ".git/new.config"), os.path.join(workspace, ".git/config"))
    wait_for_mounts(process, workspace, before)
    sandbox.file(os.path.join(workspace, "go"))
    out, said = (text.decode() for text in process.communicate(timeout=PATIENCE))
    assert out == '"done"\n' and process.returncode == 0, said
    assert f"{workspace}/.envrc was set aside" in said and not os.path.exists(os.path.join(workspace, ".envrc"))
    assert ".git/config was set aside: a git configuration with core.fsmonitor" in said
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        assert "fsmonitor" not in file.read()


TAKE = """
import os, time
left = {"claude": ".claude", "envrc": ".envrc", ".git/new": ".git/hooks"}
for name in ("claude/settings.json", "envrc", ".git/new/pre-commit"):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w") as file: file.write("evil")
    os.chmod(name, 0o755)
say("up")
end = time.monotonic() + 60
while left and time.monotonic() < end:
    for new, name in list(left.items()):
        if os.path.exists(name): continue
        try: os.rename(new, name)
        except OSError: continue # somebody was faster
        del left[new]
say(sorted(left))
"""


def test_what_the_agent_puts_under_a_name_that_the_host_removed_is_set_aside(sandbox, workspace):
    """Also if the launcher sees nothing of it before the run is over."""
    repository(sandbox, workspace)
    sandbox.file(os.path.join(workspace, ".claude/settings.json"), "good")
    sandbox.file(os.path.join(workspace, ".envrc"), "good")
    os.makedirs(os.path.join(workspace, ".git/hooks"), exist_ok=True)
    sandbox.give(workspace)
    process = sandbox.start(PYTHON, "-I", "-c", HEAD + TAKE, workspace=workspace)
    assert process.stdout.readline() == b'"up"\n', process.stderr.read()
    process.send_signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    shutil.rmtree(os.path.join(workspace, ".claude"))
    shutil.rmtree(os.path.join(workspace, ".git/hooks"))
    os.unlink(os.path.join(workspace, ".envrc"))
    line = line_of_stopped(process)
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    # gVisor's process may hold the agent's file open, so that it can't be protected again.
    assert line == b"[]\n" and process.returncode in ((0, 125) if sandbox.engine == "gvisor" else (0,)), said
    for name in (".claude", ".envrc", ".git/hooks/pre-commit"):
        assert f"{workspace}/{name} was set aside" in said, said
        assert not os.path.exists(os.path.join(workspace, name))


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_what_the_host_removes_again_and_again_is_noted_once(sandbox, workspace):
    """Each path that is kept from the agent has one note, so that those of others have room."""
    names = [".envrc", ".vscode"]
    sandbox.file(os.path.join(workspace, ".envrc"), "good")
    sandbox.give(workspace)
    process = sandbox.start("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done", workspace=workspace)
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    records = os.path.join(sandbox.state(), "workspaces")
    (run,) = (name for name in os.listdir(records) if name != "lock")
    os.unlink(os.path.join(workspace, ".envrc"))
    for _ in range(5):
        for path in (os.path.join(workspace, name) for name in names):
            assert within(PATIENCE, lambda path=path: os.path.isdir(path))
            os.rmdir(path)
    with open(os.path.join(records, run, "stubs"), "rb") as file:
        noted = file.read().split(b"\0")
    assert [noted.count(os.path.join(workspace, name).encode()) for name in names] == [1, 1]
    sandbox.file(os.path.join(workspace, "go"))
    assert process.communicate(timeout=PATIENCE)[0] == b"" and process.returncode == 0
    assert sorted(os.listdir(workspace)) == ["go"], "what was put there in the meantime is gone again"


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


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_what_the_host_removed_can_be_put_there_again(sandbox, workspace):
    """An empty folder has the name, so a program that opens the file by its name fails; removed and renamed, it is protected."""
    path = os.path.join(workspace, ".envrc")
    sandbox.file(path, "good")
    sandbox.give(workspace)
    agent = Agent(sandbox, workspace, [".envrc"])
    os.unlink(path)
    assert within(PATIENCE, lambda: os.path.isdir(path))
    with pytest.raises(IsADirectoryError):
        sandbox.file(path, "good")
    sandbox.file(path + ".new", "good")
    sandbox.give(workspace)
    subprocess.run(["sh", "-c", "rmdir .envrc && mv .envrc.new .envrc"], cwd=workspace, check=True, timeout=PATIENCE)
    assert agent.go() == ("[]", 0, "")
    assert open(path, encoding="ascii").read() == "good"


@pytest.mark.identity("user")
def test_what_the_host_removed_keeps_its_git_from_nothing(sandbox, workspace):
    """What has the names meanwhile is nothing to git."""
    sandbox.file(os.path.join(workspace, ".envrc"), "good")
    repository(sandbox, workspace)
    git(workspace, "branch", "plain")
    git(workspace, "add", ".envrc")
    git(workspace, "commit", "-qm", "tools")
    sandbox.file(os.path.join(workspace, ".git/commondir"), ".\n")
    sandbox.give(workspace)
    agent = Agent(sandbox, workspace, [".envrc", ".git/commondir"])
    os.unlink(os.path.join(workspace, ".git/commondir"))
    git(workspace, "checkout", "-q", "plain")
    wait_for_mounts(agent.process, workspace, agent.before)
    assert git(workspace, "status", "--porcelain", "--untracked-files=no") == ""
    git(workspace, "add", "-A")
    git(workspace, "reset", "-q")
    git(workspace, "checkout", "-q", "-")
    # It has the content that the user's file had before the run.
    assert agent.go() == ("[]", 0, "")
    assert git(workspace, "status", "--porcelain", "--untracked-files=no") == ""


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_what_a_hook_leads_to_and_the_host_removed_is_set_aside(sandbox, workspace):
    sandbox.file(os.path.join(workspace, "scripts/pre-commit"), "good")
    repository(sandbox, workspace)
    os.makedirs(os.path.join(workspace, ".git/hooks"), exist_ok=True)
    os.symlink("../../scripts/pre-commit", os.path.join(workspace, ".git/hooks/pre-commit"))
    sandbox.give(workspace)
    path = os.path.join(workspace, "scripts/pre-commit")
    process = sandbox.start("sh", "-c", "echo up; while [ -e scripts/pre-commit ]; do :; done; while ! echo evil > scripts/pre-commit; do :; done",
                            workspace=workspace)  # fmt: skip
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    process.send_signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    os.unlink(path)
    assert within(PATIENCE, lambda: os.path.exists(path) and os.path.getsize(path) > 0)
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert f"{path} was set aside" in said and not os.path.exists(path), said


# Out of reach of a signal to the command's process group, and it attacks when the host says so.
DETACHED = """
import os, time
if os.fork() == 0:
    os.setsid()
    say("up")
    while not os.path.exists("attack"): time.sleep(0.01)
    try:
        with open(".git/config", "a") as file: file.write("[core]\\nfsmonitor = evil\\n")
        answer = "written"
    except OSError as e: answer = os.strerror(e.errno)
    with open("answer.new", "w") as file: file.write(answer)
    os.rename("answer.new", "answer")
    os._exit(0)
while not os.path.exists("go"): time.sleep(0.01)
"""


HOOKS = """
import os, sys, time
mine = "mine/hooks" if sys.argv[1] == "link" else "shared/mine" # a mount of its own
os.makedirs(mine)
with open(mine + "/pre-commit", "w") as file: file.write("evil")
open(mine + "/.envrc", "w").close()
say("up")
end = time.monotonic() + 60
while time.monotonic() < end:
    try: os.symlink("mine", "shared") if sys.argv[1] == "link" else os.rename(mine, "shared/hooks")
    except OSError: continue
    break
say("done")
"""


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
@pytest.mark.parametrize("how", ["link", "folder"])
def test_neither_a_link_nor_a_harmless_file_shields_what_a_hook_leads_to(sandbox, workspace, how):
    sandbox.file(os.path.join(workspace, "shared/hooks/pre-commit"), "good")
    repository(sandbox, workspace)
    os.makedirs(os.path.join(workspace, ".git/hooks"), exist_ok=True)
    os.symlink("../../shared/hooks", os.path.join(workspace, ".git/hooks/lib"))
    sandbox.give(workspace)
    process = sandbox.start(PYTHON, "-I", "-c", HEAD + HOOKS, how, workspace=workspace)
    assert process.stdout.readline() == b'"up"\n', process.stderr.read()
    process.send_signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    shutil.rmtree(os.path.join(workspace, "shared" if how == "link" else "shared/hooks"))
    assert line_of_stopped(process) == b'"done"\n'
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert f"{workspace}/shared{'' if how == 'link' else '/hooks'} was set aside" in said, said
    assert not os.path.exists(os.path.join(workspace, "shared/hooks/pre-commit"))


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_what_was_replaced_before_the_launcher_was_killed_is_judged_by_the_next_survey(sandbox, workspace):
    repository(sandbox, workspace)
    for name in (".envrc", ".mcp.json"):
        sandbox.file(os.path.join(workspace, name), "good")
    sandbox.give(workspace)
    process = sandbox.start(PYTHON, "-I", "-c", HEAD + DETACHED, workspace=workspace)
    assert process.stdout.readline() == b'"up"\n', process.stderr.read()
    process.send_signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    git(workspace, "config", "core.fsmonitor", "evil") # as the agent may have written it by now
    for name, content in ((".envrc", "good"), (".mcp.json", "better")):
        sandbox.file(os.path.join(workspace, name + ".new"), content)
        os.rename(os.path.join(workspace, name + ".new"), os.path.join(workspace, name))
    process.kill()
    process.communicate(timeout=PATIENCE)
    words = sandbox.as_identity([os.path.join(sandbox.programs, "keyhole"), "workspace", "survey"])
    said = ""
    end = time.monotonic() + PATIENCE
    while "set aside" not in said and time.monotonic() < end: # not before the last of the sandbox is gone
        said += subprocess.run(words, cwd="/", env=sandbox.environment(), capture_output=True, text=True, timeout=PATIENCE, check=False).stderr
    assert ".git/config was set aside: a git configuration with core.fsmonitor" in said
    assert f"{workspace}/.mcp.json was set aside" in said
    # It says what it said before the run.
    assert ".envrc" not in said and os.path.exists(os.path.join(workspace, ".envrc"))
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        assert "fsmonitor" not in file.read()


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_the_note_of_what_is_guarded_does_not_grow_with_each_file_that_the_host_saves(sandbox, workspace):
    """The survey after a crash could read it no more."""
    folder = os.path.join(workspace, *["d" * 200] * 15)
    path = sandbox.file(os.path.join(folder, ".envrc"), "good")
    sandbox.give(workspace)
    process = sandbox.start("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done", workspace=workspace)
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    records = os.path.join(sandbox.state(), "workspaces")
    (run,) = (name for name in os.listdir(records) if name != "lock")
    note = os.path.join(records, run, "guarded")

    def noted():
        with open(note, "rb") as file:
            return file.read()

    first = len(noted())
    for _ in range(60):
        sandbox.file(path + ".new", "good")
        entry = b" %d " % os.stat(path + ".new").st_ino
        os.rename(path + ".new", path)
        assert within(PATIENCE, lambda entry=entry: entry in noted().split(b"\0")[-2] or noted().count(path.encode()) == 1 and entry in noted())
    assert len(noted()) < first + 64 * 1024 + 2 * len(path) < first + 40 * len(path)
    sandbox.file(os.path.join(workspace, "go"))
    # Its content is that of before the run.
    assert process.communicate(timeout=PATIENCE) == (b"", b"") and process.returncode == 0


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
        "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done; cat .env; echo end",
        workspace=workspace, mask_env="yes",
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    assert path in mounts(process.pid, workspace)
    sandbox.file(path + ".new", "KEY=new")
    os.rename(path + ".new", path)
    wait_for_mounts(process, workspace, {path})
    with open(os.path.join(workspace, "go"), "w", encoding="ascii"):
        pass
    out, err = process.communicate(timeout=PATIENCE)
    assert out == b"end\n", (out, err)
    assert f"{path}: hidden from the sandbox, and replaced on the host while it ran".encode() in err, err


def test_a_file_that_was_looked_at_before_it_was_protected_again_is_no_way_in(sandbox, workspace):
    """What opens files for gVisor's kernel keeps them open: there it can't be protected any more."""
    path = sandbox.file(os.path.join(workspace, ".envrc"), "good")
    sandbox.file(os.path.join(workspace, "look"))
    sandbox.give(workspace)
    agent = Agent(sandbox, workspace, [".envrc"])
    agent.stop()
    sandbox.file(path + ".new", "better")
    os.rename(path + ".new", path)
    assert agent.process.stdout.readline() == b'"seen"\n'
    agent.process.send_signal(signal.SIGCONT)
    out, status, said = agent.go()
    if sandbox.engine == "gvisor":
        assert (out, status) == ("", 125) and ".envrc was replaced on the host and could not be protected" in said
    else:
        assert (out, status) == ("[]", 0)
    # The agent had it as long as the launcher was stopped.
    assert f"{path} was set aside" in said and not os.path.exists(path)


def overflow(folder):
    """More changes than the kernel notes."""
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
        most = int(file.read())
    name = os.path.join(folder, "f")
    for _ in range(most // 2 + 1):
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
        os.unlink(name)


def test_a_repository_that_is_replaced_among_them_ends_the_sandbox(sandbox, workspace):
    """Its folder was no mount of the new one's, so that the agent could rename it."""
    repository(sandbox, workspace)
    agent = Agent(sandbox, workspace, [".git/config"])
    agent.stop()
    overflow(workspace)
    os.rename(os.path.join(workspace, ".git"), os.path.join(workspace, "old.git"))
    repository(sandbox, workspace)
    agent.process.send_signal(signal.SIGCONT)
    out, status, said = agent.go()
    assert (out, status) == ("", 125)
    assert ".git was replaced on the host" in said


def test_a_masked_file_that_is_replaced_among_them_stays_masked(sandbox, workspace):
    """And one to which nothing happened is no reason to end the sandbox."""
    path = sandbox.file(os.path.join(workspace, ".env"), "KEY=old")
    other = sandbox.file(os.path.join(workspace, ".env.local"), "KEY=other")
    process = sandbox.start(
        "sh", "-c", "cat .env.local; echo up; while [ ! -e go ]; do sleep 0.02; done; cat .env .env.local; echo end",
        workspace=workspace, mask_env="yes",
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    assert {path, other} <= mounts(process.pid, workspace)
    process.send_signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    overflow(workspace)
    sandbox.file(path + ".new", "KEY=new")
    os.rename(path + ".new", path)
    process.send_signal(signal.SIGCONT)
    wait_for_mounts(process, workspace, {path, other})
    with open(os.path.join(workspace, "go"), "w", encoding="ascii"):
        pass
    out, err = process.communicate(timeout=PATIENCE)
    assert out == b"end\n", (out, err)


def test_what_was_replaced_among_more_changes_than_the_kernel_notes_is_protected_again(sandbox, workspace):
    repository(sandbox, workspace)
    agent = Agent(sandbox, workspace, [".git/config"])
    agent.stop()
    overflow(workspace)
    git(workspace, "config", "some.value", "1")
    agent.process.send_signal(signal.SIGCONT)
    out, status, said = agent.go()
    assert (out, status) == ("[]", 0)
    # For how long it was open, nobody can tell: what may be the agent's in it goes.
    assert said.count("was set aside") == 1 and ".git/config was set aside: a git configuration with some.value" in said
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        assert "[core]" in file.read()


def test_what_the_host_replaces_while_the_launcher_is_stopped_stays_protected(sandbox, workspace):
    """Ctrl-Z stops the launcher, but not what is in a session of its own."""
    repository(sandbox, workspace)
    process = sandbox.start(PYTHON, "-I", "-c", HEAD + DETACHED, workspace=workspace)
    assert process.stdout.readline() == b'"up"\n', process.stderr.read()
    before = mounts(process.pid, workspace)
    process.send_signal(signal.SIGTSTP)
    assert within(PATIENCE, lambda: is_stopped(process.pid))
    git(workspace, "config", "user.name", "1")
    wait_for_mounts(process, workspace, before)
    with open(os.path.join(workspace, "attack"), "w", encoding="ascii"):
        pass
    answer = os.path.join(workspace, "answer")
    assert within(PATIENCE, lambda: os.path.exists(answer) or not is_stopped(process.pid))
    assert is_stopped(process.pid), process.communicate(timeout=PATIENCE)
    with open(answer, encoding="ascii") as file:
        assert file.read() != "written"
    process.send_signal(signal.SIGCONT)
    with open(os.path.join(workspace, "go"), "w", encoding="ascii"):
        pass
    assert process.communicate(timeout=PATIENCE) == (b"", b"") and process.returncode == 0
    assert git(workspace, "config", "user.name") == "1\n"


def test_a_stopped_launcher_wakes_to_end_what_it_can_not_protect(sandbox, workspace):
    repository(sandbox, workspace)
    process = sandbox.start(PYTHON, "-I", "-c", HEAD + DETACHED, workspace=workspace)
    assert process.stdout.readline() == b'"up"\n', process.stderr.read()
    process.send_signal(signal.SIGTSTP)
    assert within(PATIENCE, lambda: is_stopped(process.pid))
    # At once, with what the agent may have written into it before it died.
    other = os.path.join(workspace, "other")
    os.mkdir(other)
    repository(sandbox, other)
    git(other, "config", "core.fsmonitor", "evil")
    names = [os.path.join(folder, ".git").encode() for folder in (workspace, other)]
    assert ctypes.CDLL(None).renameat2(-100, names[0], -100, names[1], 2) == 0  # AT_FDCWD, RENAME_EXCHANGE
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 125 and ".git was replaced on the host" in said, said
    assert ".git/config was set aside: a git configuration with core.fsmonitor" in said
    with open(os.path.join(workspace, ".git/config"), encoding="ascii") as file:
        assert "fsmonitor" not in file.read()


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


TAKES = """
import array, os, socket, time
before, end, fd = open(".envrc").read(), time.monotonic() + 20, None
say("up")
while fd is None and time.monotonic() < end:
    try: fd = os.open(".envrc", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError: pass
os.write(fd, before.encode())
say("taken")
while time.monotonic() < end:
    try:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect("sock")
        break
    except OSError: time.sleep(0.01)
sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
"""
GETS = """
import array, os, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("sock")
server.listen()
server.settimeout(20)
sock, _ = server.accept()
_, got, _, _ = sock.recvmsg(10, socket.CMSG_SPACE(4))
os.unlink("sock")
say("got")
end = time.monotonic() + 20
while not os.path.exists("ended") and time.monotonic() < end: time.sleep(0.01)
os.pwrite(array.array("i", got[0][2])[0], b"evil", 0)
"""


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_content_of_before_counts_when_the_last_who_could_change_it_has_ended(sandbox, workspace):
    """The first run's agent hands its descriptor to the second one, which writes when the first has ended."""
    path = os.path.join(workspace, ".envrc")
    sandbox.file(path, "good")
    sandbox.give(workspace)
    first = sandbox.start(PYTHON, "-I", "-c", HEAD + TAKES, workspace=workspace)
    assert first.stdout.readline() == b'"up"\n', first.stderr.read()
    # The launcher looks at nothing until the agent has the name.
    first.send_signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(first.pid, os.WUNTRACED)[1])
    os.unlink(path)
    taken = line_of_stopped(first)
    first.send_signal(signal.SIGCONT)
    assert taken == b'"taken"\n', taken
    second = sandbox.start(PYTHON, "-I", "-c", HEAD + GETS, workspace=workspace)
    assert second.stdout.readline() == b'"got"\n', second.stderr.read()
    first.communicate(timeout=PATIENCE)
    sandbox.file(os.path.join(workspace, "ended"), "")
    said = second.communicate(timeout=PATIENCE)[1].decode()
    assert not os.path.exists(path) or open(path, encoding="ascii").read() == "", said
    assert f"{path} was set aside" in said, said
