"""What an agent can do to a workspace, and what it can't: nothing that runs later, outside."""

import ctypes
import errno
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import PATIENCE, ROOT, USER

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a",
       "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent",
       "PATH": "/usr/bin:/bin", "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "safe.directory",
       "GIT_CONFIG_VALUE_0": "*", "GIT_CONFIG_KEY_1": "protocol.file.allow",
       "GIT_CONFIG_VALUE_1": "always"}  # fmt: skip


def git(path, *args):
    """On the host, as whoever runs the tests."""
    return subprocess.run(["git", "-C", path, *args], check=True, env=GIT, timeout=PATIENCE,
                          capture_output=True, text=True).stdout  # fmt: skip


# Tries to make each path say "evil" by every means; says for each whether it then does.
ATTACK = r"""
import os, shutil, subprocess
def means(path):
    yield lambda: open(path, 'w').write('evil')
    yield lambda: open(path, 'a').write('evil')
    yield lambda: (os.makedirs(path, exist_ok=True), open(path + '/evil', 'w').write('evil'))
    def replace():
        open('evil.tmp', 'w').write('evil'); os.replace('evil.tmp', path)
    yield replace
    def replace_folder():
        os.makedirs('evil.d', exist_ok=True); open('evil.d/evil', 'w').write('evil')
        os.rename('evil.d', path)
    yield replace_folder
    yield lambda: (os.unlink(path), open(path, 'w').write('evil'))
    yield lambda: (shutil.rmtree(path), os.mkdir(path), open(path + '/evil', 'w').write('evil'))
    yield lambda: (os.rename(path, path + '.old'), open(path, 'w').write('evil'))
    yield lambda: (os.unlink(path), os.symlink('/tmp', path))
    yield lambda: os.symlink('/tmp', path)
    yield lambda: os.link('/etc/passwd', path)
    # gVisor's kernel says of these that they were done where they were not.
    def chmod():
        os.chmod(path, 0o777)
        if os.stat(path).st_mode & 0o777 != 0o777: raise OSError('not done')
    yield chmod
    def truncate():
        os.truncate(path, 7)
        if os.path.getsize(path) != 7: raise OSError('not done')
    yield truncate
    # The folders above: away with them, and new ones made.
    parts = path.split('/')
    for i in range(1, len(parts)):
        above = '/'.join(parts[:i])
        def swap(above=above):
            os.rename(above, above + '.old')
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, 'w').write('evil')
        yield swap
        yield lambda above=above: (shutil.rmtree(above), os.makedirs(os.path.dirname(path)),
                                   open(path, 'w').write('evil'))
        # by exchange (RENAME_EXCHANGE)
        def exchange(above=above):
            import ctypes
            os.makedirs('evil.x/' + '/'.join(parts[i:-1]), exist_ok=True)
            open('evil.x/' + '/'.join(parts[i:]), 'w').write('evil')
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.renameat2(-100, b'evil.x', -100, above.encode(), 2) != 0:
                raise OSError(ctypes.get_errno(), 'x')
        yield exchange
done = []
for path in json.loads(sys.argv[1]):
    for number, mean in enumerate(means(path)):
        try:
            mean()
            done.append([path, number])
        except OSError:
            pass
say(done)
"""


def snapshot(top):
    """Everything below a folder, by content."""
    out = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                out[path] = "-> " + os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    out[path] = file.read()
            else:
                out[path] = None
    return out


def protected_names(absent_too=True):
    """The table in the code, so that a name added there is tried here: those that can't be made at the top either, or an example of each."""
    with open(os.path.join(ROOT, "src/sandbox/protected.c"), encoding="utf-8") as file:
        rows = re.findall(r'\{ "([^"]+)", (true|false) \}', file.read())
    return [name.replace("[yt]*", "ya").replace("*", "x") for name, mark in rows if mark == "true" or not absent_too]


def repository(sandbox, path):
    git(path, "init", "-q")
    sandbox.file(os.path.join(path, "README"), "hello\n")
    git(path, "add", "README")
    git(path, "commit", "-q", "-m", "x")
    sandbox.give(path)
    return path


def attack(sandbox, workspace, paths, **options):
    return sandbox.python(ATTACK, json.dumps(paths), workspace=workspace, **options)


def without(snapshot_, *names):
    return {k: v for k, v in snapshot_.items() if not any(n in k for n in names)}


def only(snapshot_, workspace, names):
    """Of these paths and what is in them: the rest is the agent's to work on, or to break."""
    tops = [os.path.join(workspace, n) for n in names]
    return {k: v for k, v in snapshot_.items() if any(k == t or k.startswith(t + "/") for t in tops)}


def test_what_runs_later_can_not_be_made_where_it_is_absent(sandbox, workspace):
    sandbox.file(os.path.join(workspace, "README"))  # in an empty folder a repository may be begun
    names = [".git", ".git/hooks/pre-commit", ".git/config", *protected_names()]
    names += [n + "/settings.json" for n in protected_names()]
    assert attack(sandbox, workspace, names) == []
    assert without(snapshot(workspace), "evil.", "README") == {}, "something was left in the workspace"


def test_what_runs_later_can_not_be_changed_where_it_exists(sandbox, workspace):
    repository(sandbox, workspace)
    for name in protected_names():
        if name in (".envrc", ".mcp.json", ".devcontainer.json"):
            sandbox.file(os.path.join(workspace, name), "good")
        else:
            sandbox.file(os.path.join(workspace, name, "settings.json"), "good")
            sandbox.give(os.path.join(workspace, name))
    for name in (".husky/pre-commit", ".pre-commit-config.yaml", "lefthook.yml", "opencode.json"):
        sandbox.file(os.path.join(workspace, name), "good")
    sandbox.give(workspace)
    before = snapshot(workspace)
    names = [".git/hooks", ".git/hooks/pre-commit", ".git/config", ".git/config.worktree",
             ".git/commondir", ".husky", ".husky/pre-commit", ".husky/pre-push",
             ".pre-commit-config.yaml", "lefthook.yml", "opencode.json"]  # fmt: skip
    for name in protected_names():
        names += [name, name + "/settings.json", name + "/new.json"]
    assert attack(sandbox, workspace, names) == []
    assert only(snapshot(workspace), workspace, names) == only(before, workspace, names)


def test_the_rest_of_a_repository_works(sandbox, workspace):
    repository(sandbox, workspace)
    out = sandbox.sh(
        "git status --short && echo more >> README && git add README && git commit -q -m more && "
        "git checkout -q -b other && git log --oneline | wc -l && git stash list && git gc -q && "
        "git config user.name",
        workspace=workspace, git_name='An "agent" \\ x', git_email="agent@example.com",
    )  # fmt: skip
    assert out.split("\n")[:2] == ["2", 'An "agent" \\ x'], out
    assert git(workspace, "log", "-1", "--format=%an %ae").strip() == 'An "agent" \\ x agent@example.com'
    assert not os.path.exists(os.path.join(workspace, ".git", "commondir"))
    assert not os.path.exists(os.path.join(workspace, ".git", "config.worktree"))


def test_git_on_the_host_works_while_a_sandbox_runs_and_sees_nothing_new(sandbox, workspace):
    repository(sandbox, workspace)
    process = sandbox.start("sh", "-c", "echo up; exec sleep 300", workspace=workspace)
    try:
        assert process.stdout.readline() == b"up\n"
        assert git(workspace, "status", "--short") == ""
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert sorted(os.listdir(workspace)) == [".git", "README"]


def test_hooks_in_a_folder_of_the_projects_own_are_protected(sandbox, workspace):
    repository(sandbox, workspace)
    sandbox.file(os.path.join(workspace, "tools/hooks/pre-commit"), "good")
    git(workspace, "config", "core.hooksPath", "tools/hooks")
    sandbox.give(workspace)
    assert attack(sandbox, workspace, ["tools/hooks/pre-commit", "tools/hooks/post-commit"]) == []
    with open(os.path.join(workspace, "tools/hooks/pre-commit"), encoding="ascii") as file:
        assert file.read() == "good"


def test_a_submodule_is_protected_like_a_repository(sandbox, workspace):
    other = repository(sandbox, sandbox.folder("other"))
    subprocess.run(["chown", "-R", str(os.geteuid()), other], check=True, timeout=PATIENCE)
    repository(sandbox, workspace)
    git(workspace, "submodule", "--quiet", "add", other, "lib/sub")
    sandbox.give(workspace)
    base = ".git/modules/lib/sub/"
    assert os.path.exists(os.path.join(workspace, base, "config"))
    before = snapshot(workspace)
    names = [base + "hooks/post-checkout", base + "config", base + "commondir", "lib/sub/.git",
             ".git/config"]  # fmt: skip
    assert attack(sandbox, workspace, names) == []
    assert only(snapshot(workspace), workspace, names) == only(before, workspace, names)


def test_a_repository_in_the_workspace_is_protected_like_one_at_its_top(sandbox, workspace):
    repository(sandbox, sandbox.folder("work/projects/one"))
    repository(sandbox, sandbox.folder("work/two"))
    before = snapshot(workspace)
    names = [f"{r}/.git/{n}" for r in ("projects/one", "two")
             for n in ("hooks/pre-commit", "config", "commondir")]  # fmt: skip
    assert attack(sandbox, workspace, names) == []
    assert only(snapshot(workspace), workspace, names) == only(before, workspace, names)


def test_a_worktrees_pointer_is_protected(sandbox):
    main = repository(sandbox, sandbox.folder("main"))
    linked = os.path.join(sandbox.place, "linked")
    git(main, "worktree", "add", "-q", linked)
    sandbox.give(main)
    sandbox.give(linked)
    assert attack(sandbox, linked, [".git"]) == []
    commondir = ".git/worktrees/linked/commondir"
    assert attack(sandbox, main, [commondir]) == []


@pytest.mark.parametrize("name", [".git", ".git/hooks", ".git/config", ".vscode", ".claude", ".envrc"])
def test_a_link_in_a_protected_place_is_refused(sandbox, workspace, name):
    target = sandbox.folder("elsewhere")
    path = os.path.join(workspace, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)
    sandbox.give(workspace)
    done = sandbox.run("true", workspace=workspace, check=125)
    assert b"symbolic link" in done.stderr and name.encode() in done.stderr
    assert b":ro" in done.stderr
    # Read-only it can't be changed, so it is no danger.
    assert sandbox.run("true", workspace_ro=workspace, check=0)
    assert os.path.islink(path)


def test_read_only_means_all_of_it(sandbox, workspace):
    sandbox.file(os.path.join(workspace, "file"), "good")
    assert attack(sandbox, None, [], **{"workspace_ro": workspace}) == []
    out = sandbox.python(
        """
        import os
        out = []
        for f in (lambda: open('file', 'a'), lambda: open('new', 'w'), lambda: os.mkdir('d'),
                  lambda: os.unlink('file')):
            try:
                f()
                out.append('done')
            except OSError as e:
                out.append(e.errno)
        say([os.getcwd(), open('file').read(), out])
        """,
        workspace_ro=workspace,
    )
    assert out == [workspace, "good", [errno.EROFS] * 4]
    assert os.listdir(workspace) == ["file"]


def test_what_the_agent_makes_belongs_to_the_folders_owner(sandbox, workspace):
    sandbox.sh("mkdir -p a/b && echo x > a/b/c && ln -s c a/b/l", workspace=workspace)
    owner = os.stat(workspace).st_uid
    for path in ("a", "a/b", "a/b/c", "a/b/l"):
        st = os.lstat(os.path.join(workspace, path))
        assert (st.st_uid, st.st_gid) == (owner, os.stat(workspace).st_gid)


@pytest.mark.identity("root")
def test_root_can_give_it_the_folder_of_somebody_else(sandbox, workspace):
    sandbox.file(os.path.join(workspace, "private"), "theirs", 0o600)
    for name in (".", "private"):
        os.chown(os.path.join(workspace, name), USER, USER)
    roots = sandbox.file(os.path.join(workspace, "roots"), "root's", 0o600)
    seen = sandbox.python(
        """
        out = [open('private').read()]
        open('made', 'w').close()
        try:
            out.append(open('roots').read())
        except OSError as e:
            out.append(e.errno)
        say(out)
        """,
        workspace=workspace,
    )
    assert seen == ["theirs", errno.EACCES]
    assert os.stat(os.path.join(workspace, "made")).st_uid == USER
    assert os.stat(roots).st_uid == 0


def test_a_home_keeps_its_state_and_a_private_one_does_not(sandbox):
    home = sandbox.folder("home", 0o700)
    sandbox.sh('echo "$HOME" > ~/state', home=home)
    assert sandbox.sh("cat ~/state", home=home) == "/home/agent\n"
    assert os.stat(os.path.join(home, "state")).st_uid == os.stat(home).st_uid
    assert sandbox.sh("echo x > ~/y; echo x > /tmp/y; pwd") == "/home/agent\n"
    assert sandbox.python("import os; say([os.listdir(p) for p in ('/home/agent', '/tmp')])") == [[], []]


def test_a_dotenv_is_warned_about_and_can_be_masked(sandbox, workspace):
    for name in (".env", "app/.env.local", "app/.env.example"):
        sandbox.file(os.path.join(workspace, name), "KEY=value")
    sandbox.give(workspace)
    done = sandbox.run("cat", ".env", workspace=workspace, check=0)
    assert done.stdout == b"KEY=value"
    assert b".env" in done.stderr and b"app/.env.local" in done.stderr
    assert b"example" not in done.stderr
    script = (
        "cat .env app/.env.local app/.env.example; mv .env x; rm .env; echo x > .env; ln .env y; "
        "mv app/.env.local z; cat x y z; mv app app2; cat app*/.env.local"
    )
    done = sandbox.run("sh", "-c", script, workspace=workspace, mask_env="yes", check=0)
    assert done.stdout == b"KEY=value"
    assert b"can read" not in done.stderr
    with open(os.path.join(workspace, ".env"), encoding="ascii") as file:
        assert file.read() == "KEY=value"


def test_an_environment_file_is_masked_by_each_of_its_names(sandbox, workspace):
    names = [".env", ".env~", ".ENV", "app/.Env.Local", "#.env#", ".env-prod", ".env_old"]
    for name in names:
        sandbox.file(os.path.join(workspace, name), "KEY=value")
    sandbox.file(os.path.join(workspace, ".env.sample"), "KEY=example")
    for name in ("app/settings", "backup"):
        os.link(os.path.join(workspace, ".env"), os.path.join(workspace, name))
    sandbox.give(workspace)
    names += ["app/settings", "backup", ".env.sample"]
    done = sandbox.run("cat", *names, workspace=workspace, mask_env="yes", check=0)
    assert done.stdout == b"KEY=example"
    done = sandbox.run("cat", *names, workspace=workspace, check=0)
    assert done.stdout.count(b"KEY=value") == len(names) - 1


@pytest.mark.parametrize("path", ["/", "/usr", "/etc", "/home", "/run", "/proc", "/dev/shm", "/tmp"])
def test_a_workspace_that_is_more_than_a_project_is_refused(sandbox, path):
    done = sandbox.run("true", workspace=path, check=125)
    assert path.encode() in done.stderr


@pytest.mark.parametrize("path", ["/", "/etc", "/root", "/var", "/run", "/home"])
def test_more_to_read_means_a_tool_not_a_tree_of_secrets(sandbox, path):
    done = sandbox.run("true", ro=path, check=125)
    assert b"--ro " + path.encode() in done.stderr


def test_what_is_named_to_be_read_can_be_read_and_not_written(sandbox):
    tool = sandbox.folder("tool")
    sandbox.file(os.path.join(tool, "bin/hello"), "#!/bin/sh\necho hello\n", 0o755)
    sandbox.give(tool)
    assert sandbox.sh(f"{tool}/bin/hello; touch {tool}/x || echo no", ro=tool) == "hello\nno\n"


def test_nothing_is_left_when_the_launcher_is_killed(sandbox, workspace):
    repository(sandbox, workspace)
    process = sandbox.start("sh", "-c", "echo up; exec sleep 300.75", workspace=workspace)
    assert process.stdout.readline() == b"up\n"
    assert os.path.isdir(os.path.join(workspace, ".vscode"))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    end = time.monotonic() + 10
    while alive(b"sleep\x00300.75\x00") and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(b"sleep\x00300.75\x00"), "the sandbox outlived its launcher"
    # The next run removes what this one had put there.
    sandbox.run("true", workspace=workspace, check=0)
    assert sorted(os.listdir(workspace)) == [".git", "README"]
    assert not {"commondir", "config.worktree"} & set(os.listdir(os.path.join(workspace, ".git")))
    assert os.listdir(os.path.join(sandbox.state(), "workspaces")) == ["lock"]


def alive(command):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read() == command:
                    return True
        except OSError:
            pass
    return False


def test_a_fifo_or_socket_in_the_workspace_does_not_stop_it(sandbox, workspace):
    os.mkfifo(os.path.join(workspace, "fifo"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(workspace, "sock"))
        sandbox.give(workspace)
        done = sandbox.run("sh", "-c", "test -p fifo; echo $?; test -f sock", workspace=workspace, check=0)
    assert b"socket" in done.stderr
    # gVisor's kernel hands on no FIFO of the host's, whose other end may be a program there.
    assert done.stdout == (b"1\n" if sandbox.engine == "gvisor" else b"0\n")


def test_a_path_with_odd_letters_is_a_path(sandbox):
    odd = sandbox.folder('odd "name\\ ü')
    assert sandbox.sh("pwd; touch x", workspace=odd) == odd + "\n"
    assert os.listdir(odd) == ["x"]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_put_in_place_at_the_last_moment_shows_nothing(sandbox, workspace, what):
    """Somebody (another sandbox in the folder) swaps a protected name for a link to a secret."""
    secret = sandbox.file(os.path.join(sandbox.place, "secret", "key"), "SECRET", 0o644)
    sandbox.give(os.path.dirname(secret))
    repository(sandbox, sandbox.folder("work/n"))
    name = "n/.git/config" if what == "file" else "n/.git/hooks"
    path = os.path.join(workspace, name).encode()
    link = os.path.join(workspace, "link").encode()
    os.symlink(secret if what == "file" else os.path.dirname(secret), link)
    libc = ctypes.CDLL(None)
    done = threading.Event()

    def swap():
        while not done.is_set():
            libc.renameat2(-100, path, -100, link, 2)
            time.sleep(0.0005)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        statuses = []
        times = 6 if sandbox.engine == "docker" else 25  # a daemon is slow to start one
        for _ in range(times):
            out = sandbox.run("sh", "-c", f"cat {name} {name}/key link 2>/dev/null; ls {name}",
                              workspace=workspace)  # fmt: skip
            assert b"SECRET" not in out.stdout, "it was shown"
            statuses.append(out.returncode)
    finally:
        done.set()
        thread.join()
    assert len(statuses) == times
