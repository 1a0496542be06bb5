"""Ordinary git work in a repository that was there before the run: what can't be done there does no harm."""

import os
import subprocess

import pytest
from conftest import PATIENCE
from test_set_aside import Host, run, said
from test_workspace import git, repository

pytestmark = pytest.mark.identity("user")


@pytest.fixture
def host(sandbox, workspace):
    up = repository(sandbox, sandbox.folder("up"))
    subprocess.run(["chown", "-R", str(os.geteuid()), up], check=True, timeout=PATIENCE)
    git(up, "branch", "topic")
    git(workspace, "clone", "-q", up, ".")
    git(workspace, "branch", "old")
    git(workspace, "submodule", "--quiet", "add", up, "lib/sub")
    git(workspace, "commit", "-qm", "submodule")
    git(workspace, "submodule", "deinit", "-f", "lib/sub")
    git(workspace, "worktree", "add", "-q", "wt")
    sandbox.give(workspace)
    return Host(sandbox, workspace)


WORK = {
    "git submodule update --init": False, "git branch -m old new": False, "git checkout -q --track origin/topic": True,
    "git init -q": False, "git worktree remove wt": False, "git worktree add -q two && git worktree remove two": True,
    "git gc -q && git switch -q old && git commit -q --allow-empty -m x": True,
}  # fmt: skip


@pytest.mark.parametrize("script", WORK)
def test_git_in_a_repository_of_before_leaves_it_whole(host, script):
    config = host.read(".git/config")
    done = run(host, f"if {script}; then echo done; fi")
    assert (done.stdout.decode().splitlines()[-1:] == ["done"]) == WORK[script], (done.stdout, done.stderr)
    assert said(done) == [] and b"not surveyed" not in done.stderr
    assert host.read(".git/config") == config
    assert [name for _, _, files in os.walk(host.path(".git")) for name in files if name.endswith(".lock")] == []
    # And the person goes on outside.
    for words in (["status"], ["fsck"], ["worktree", "prune"], ["branch", "-a"], ["submodule", "update", "--init"],
                  ["worktree", "add", "-q", "three"], ["commit", "-q", "--allow-empty", "-m", "y"]):  # fmt: skip
        if words[0] == "submodule" and not os.path.exists(host.path(".gitmodules")):
            continue
        got = host.git(*words)
        assert got.returncode == 0, (words, got.stdout, got.stderr)
    if "branch -m" in script:
        assert "new" in host.git("branch").stdout
