"""Which repository git takes for the path of a remote: it adds `.git` to a path and follows links, so an agent can have
`git fetch` read, and `git push` write, a repository of the user's outside of the workspace.
"""

import subprocess

import pytest
from conftest import PATIENCE
from test_set_aside import host, run, said, write  # noqa: F401 (host is a fixture)
from test_set_aside_again import outside
from test_workspace import git, repository

pytestmark = pytest.mark.identity("user")

# Each has git look for a repository where a link leads to the user's own; {w} is the workspace, {p} the user's.
# (what the configuration of dep says, what is made in dep, where a person would stand)
WAYS = {
    "a branch names a path": ('[branch "main"]\n\tremote = up\n\tmerge = refs/heads/main\n', "ln -s {p}/.git up.git", "dep"),
    "a branch names a path with another link": ('[branch "main"]\n\tremote = up\n\tmerge = refs/heads/main\n', "ln -s {p} up", "dep"),
    "a path of an empty folder": ('[remote "origin"]\n\turl = {w}/dep/up\n', "mkdir up; ln -s {p}/.git up.git", "dep"),
    "a path of an empty folder that ends in a slash": ('[remote "origin"]\n\turl = {w}/dep/up/\n', "mkdir up; ln -s {p}/.git up.git", "dep"),
    "a file: address of an empty folder": ('[remote "origin"]\n\turl = file://{w}/dep/up\n', "mkdir up; ln -s {p}/.git up.git", "dep"),
    "a path that ends in a dot": ('[remote "origin"]\n\turl = {w}/dep/up/.\n', "mkdir up; ln -s {p}/.git up/..git", "dep"),
    "half of a repository": ('[remote "origin"]\n\turl = {w}/dep/up\n', "mkdir -p up/objects up/refs; echo x > up/HEAD; ln -s {p}/.git up.git", "dep"),
    "a branch of a linked work tree names a path": ('[branch "w"]\n\tremote = up\n\tmerge = refs/heads/main\n', "git worktree add -q ../wt -b w; ln -s {p}/.git ../wt/up", "wt"),
}  # fmt: skip


def private(host):
    path = outside(host, "private")
    repository(host.sandbox, path)
    git(path, "commit", "-q", "--allow-empty", "-m", "private")
    git(path, "branch", "-M", "main")
    host.sandbox.give(path)
    return path, git(path, "rev-parse", "HEAD").strip()


def as_user(host, *words, at):
    """git on the other side looks whose repository it is."""
    return subprocess.run(host.sandbox.as_identity(["git", *words]), cwd=host.path(at), env={**host.env, "HOME": "/nonexistent"},
                          capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False)  # fmt: skip


def has(host, commit, at):
    return host.git("cat-file", "-e", commit, at=at).returncode == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_remote_of_the_agents_leads_to_no_repository_outside(host, way):
    config, make, at = WAYS[way]
    path, commit = private(host)
    values = {"w": host.workspace, "p": path}
    run(host, "git init -q -b main dep && cd dep && git commit -q --allow-empty -m x && " + make.format(**values) + "\n"
        "git checkout -q -b released; git checkout -q main; cat >> .git/config <<'END'\n" + config.format(**values) + "END\n")  # fmt: skip
    done = as_user(host, "fetch", at=at)
    as_user(host, "push", "origin", "released", at=at)
    assert not has(host, commit, at), done
    assert "released" not in git(path, "branch", "-a")


@pytest.mark.parametrize("url", ["../up", "{w}/up", "file://{w}/up"])
def test_a_remote_of_the_users_leads_to_no_repository_outside_where_the_agent_put_a_link(host, url):
    """The configuration stays as it is: what it names becomes something else."""
    path, commit = private(host)
    repository(host.sandbox, host.sandbox.folder("work/dep"))
    git(host.path("dep"), "remote", "add", "up", url.format(w=host.workspace))
    host.sandbox.give(host.workspace)
    assert len(said(run(host, f"mkdir up; ln -s {path}/.git up.git"))) == 1
    as_user(host, "fetch", "up", at="dep")
    assert not has(host, commit, "dep")


def test_a_remote_leads_to_no_work_tree_of_a_repository_outside(host):
    path, commit = private(host)
    git(path, "worktree", "add", "-q", host.path("wt"), "-b", "w")
    host.sandbox.give(host.workspace)
    host.sandbox.give(path)
    assert len(said(run(host, f"git init -q dep && git -C dep remote add origin {host.workspace}/wt"))) == 1
    as_user(host, "fetch", "origin", at="dep")
    assert not has(host, commit, "dep")


def test_what_a_user_wrote_of_repositories_elsewhere_stays(host):
    path, commit = private(host)
    repository(host.sandbox, host.sandbox.folder("work/dep"))
    git(host.path("dep"), "remote", "add", "near", path)
    git(host.path("dep"), "remote", "add", "up", "../up")
    host.sandbox.give(host.workspace)
    assert said(run(host, "git init -q up; git -C up commit -q --allow-empty -m x; rm -rf up")) == []
    as_user(host, "fetch", "near", at="dep")
    assert has(host, commit, "dep")


def test_repositories_in_the_workspace_that_name_each_other_stay_as_they_are(host):
    done = run(host, f"git init -q -b main up && git -C up commit -q --allow-empty -m x && git init -q --bare bare.git && git clone -q {host.workspace}/up dep && "
               f"cd dep && git remote add bare {host.workspace}/bare.git && git push -q -u bare main && git worktree add -q ../wt -b w && "
               f"git remote add file file://{host.workspace}/up && git config branch.w.remote origin && git config branch.w.pushRemote https://a.test/x")  # fmt: skip
    assert said(done) == [], done.stderr
    assert as_user(host, "fetch", "--all", at="wt").returncode == 0


def test_a_branch_keeps_no_remote_that_its_configuration_does_not_have(host):
    done = run(host, "git init -q dep && " + write("more", '[branch "main"]\n\tremote = nowhere\n[branch "other"]\n\tremote = late\n'
                                                   '[remote "late"]\n\turl = https://a.test/x') + "cat more >> dep/.git/config")  # fmt: skip
    assert len(said(done)) == 1, done.stderr
    kept = host.git("config", "--list", at="dep").stdout
    assert "branch.other.remote=late" in kept and "nowhere" not in kept, kept
