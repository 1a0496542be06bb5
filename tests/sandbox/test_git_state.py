"""What git on the host takes from its folder without a look: its index, the state of an operation in progress, and lists of files."""

import hashlib
import os
import stat
import struct
import subprocess

import pytest
from conftest import PATIENCE
from test_set_aside import AS_BOTH, host, run, said, write  # noqa: F401 (host is a fixture)
from test_set_aside_again import outside
from test_workspace import git, repository

pytestmark = pytest.mark.identity("user")


def index_of(*entries):
    """Version 2, of (mode, object id, name)."""
    out = b"DIRC" + struct.pack(">II", 2, len(entries))
    for mode, oid, name in sorted(entries, key=lambda e: e[2]):
        entry = struct.pack(">10I", 0, 0, 0, 0, 0, 0, mode, 0, 0, 0) + bytes.fromhex(oid) + struct.pack(">H", len(name)) + name.encode()
        out += entry + bytes(8 - len(entry) % 8)
    return out + hashlib.sha1(out).digest()


def private(host, text):
    """A file of the user's that the agent can't read."""
    path = os.path.join(host.sandbox.place, "private")
    host.sandbox.file(path, text)
    return path


def put(name, content):
    """Binary, from within."""
    octal = "".join(f"\\{byte:03o}" for byte in content)
    return f"printf '{octal}' > {name}\n"


def test_an_index_with_names_outside_of_the_work_tree_is_set_aside(host):
    repository(host.sandbox, host.workspace)
    blob = host.git("rev-parse", "HEAD:README").stdout.strip()
    names = [".git/hooks/post-checkout", "../private"]
    done = run(host, put(".git/index", index_of(*[(0o100755, blob, name) for name in names])))
    assert len(said(done)) == 1, done.stderr
    host.git("checkout", ".")
    assert not os.path.exists(host.path(".git/hooks/post-checkout"))
    assert not os.path.exists(os.path.join(host.sandbox.place, "private"))
    host.git("reset", "-q")
    assert host.git("status", "--short").stdout == ""


@pytest.mark.parametrize("where", [".git/worktrees/wt/index", ".git/sharedindex." + 40 * "1", ".git/modules/m/index"])
def test_each_index_that_git_may_read_is_looked_at(host, where):
    repository(host.sandbox, host.workspace)
    git(host.workspace, "worktree", "add", "-q", "wt")
    host.sandbox.give(host.workspace)
    blob = host.git("rev-parse", "HEAD:README").stdout.strip()
    make = "git init -q --bare .git/modules/m\n" if "modules" in where else ""
    done = run(host, make + put(where, index_of((0o100644, blob, "../private"))))
    assert len(said(done)) == 1, done.stderr


@pytest.mark.parametrize("how", ["", "git update-index --index-version 4", "git update-index --split-index", "git update-index --untracked-cache"])
def test_an_index_that_git_wrote_stays(host, how):
    repository(host.sandbox, host.workspace)
    done = run(host, f"mkdir -p d/e && touch d/e/f .x && git add . && {how or 'true'}; echo more > d/e/g && git add . && git commit -qm x && touch new && git add new")
    assert said(done) == [], done.stderr
    assert host.git("status", "--short").stdout == "A  new\n"


def test_a_large_index_and_one_of_sha256_stay(host):
    """From some thousand entries on git notes where its threads are to begin."""
    done = run(host, "git init -q --object-format=sha256 other && cd other && touch a && git add a && cd .. && git init -q && "
               "mkdir many && seq 1 25000 | sed 's,^,many/,' | xargs touch && echo other >.gitignore && "
               "git -c index.threads=8 add . && git -c index.threads=8 update-index --index-version 4")  # fmt: skip
    assert said(done) == [], done.stderr
    with open(host.path(".git/index"), "rb") as file:
        assert b"IEOT" in file.read(), "this git writes none: nothing was tried"


RUNS = {
    "options of git-apply": (".git/rebase-apply/apply-opt", "'--build-fake-ancestor={private}'"),
    "numbers that a prompt expands": (".git/rebase-merge/msgnum", "$(touch {canary})"),
    "numbers of an am": (".git/rebase-apply/last", "$(touch {canary})"),
    "a file that nobody knows": (".git/rebase-merge/whatever", "1"),
    "an author's name that a shell reads": (".git/rebase-merge/author-script", "GIT_AUTHOR_NAME=$(touch {canary})"),
    "where a bisection began": (".git/BISECT_START", "--orphan=x"),
}


@pytest.mark.parametrize("case", RUNS)
def test_the_state_of_an_operation_that_is_not_in_gits_form_is_set_aside(host, case):
    repository(host.sandbox, host.workspace)
    name, text = RUNS[case]
    done = run(host, write(name, text.format(private=private(host, "x"), canary=host.canary)))
    assert len(said(done)) == 1 and not os.path.exists(host.path(name)), done.stderr


@AS_BOTH
def test_gits_prompt_for_shells_runs_nothing_of_the_agents(host):
    prompt = next((p for p in ("/usr/lib/git-core/git-sh-prompt", "/etc/bash_completion.d/git-prompt") if os.path.exists(p)), None)
    if not prompt:
        pytest.skip("no git-sh-prompt here")
    repository(host.sandbox, host.workspace)
    run(host, write(".git/rebase-merge/msgnum", f"$(touch {host.canary})") + write(".git/rebase-merge/end", "2")
        + write(".git/rebase-merge/head-name", "refs/heads/main") + "touch .git/rebase-merge/interactive")  # fmt: skip
    subprocess.run(["bash", "--norc", "-c", f'. {prompt}; __git_ps1 "a" "b"; : "${{PS1@P}}"'], cwd=host.workspace,
                   env={**host.env, "PS1": "$ "}, capture_output=True, timeout=PATIENCE, check=False)  # fmt: skip
    assert not os.path.exists(host.canary)


REAL = {
    "a rebase": "git rebase -q side || true",
    "a rebase with apply": "git rebase -q --apply side || true",
    "a cherry-pick of several": "git cherry-pick side~1 side || true",
    "an am": "git format-patch -q -2 side -o p && git am -q p/* || true",
    "a bisection": "git bisect start HEAD HEAD~1 && git bisect log",
    "a merge": "git merge -q side || true",
}


@pytest.mark.parametrize("operation", REAL)
def test_an_operation_that_git_left_in_progress_stays(host, operation):
    repository(host.sandbox, host.workspace)
    done = run(host, "git checkout -q -b side && echo 1 > README && git commit -qam \"it's one\" && echo 2 > README && git commit -qam two && "
               "git checkout -q - && echo 3 > README && git commit -qam three && " + REAL[operation])  # fmt: skip
    assert said(done) == [], done.stderr
    left = os.listdir(host.path(".git"))
    assert {"rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG", "MERGE_HEAD"} & set(left), left


def test_git_copies_no_file_of_the_users_to_where_the_next_run_reads_it(host):
    repository(host.sandbox, host.workspace)
    oid, key = 40 * "1", private(host, "a key of the user's\n")
    done = run(host, f"mkdir -p .git/rr-cache/{oid} && : > .git/rr-cache/{oid}/preimage && echo x >> README && "
               f"printf '{oid}\\t{key}\\000' > .git/MERGE_RR")  # fmt: skip
    assert len(said(done)) == 1, done.stderr
    host.git("commit", "-qam", "x")
    assert b"a key" not in run(host, "cat .git/rr-cache/*/*").stdout


def test_a_list_of_copies_that_was_there_before_is_set_aside_as_well(host):
    """What it names may be a link by now."""
    repository(host.sandbox, host.workspace)
    oid = 40 * "1"
    host.sandbox.file(host.path(".git/MERGE_RR"), f"{oid}\tREADME\0")
    host.sandbox.give(host.workspace)
    assert len(said(run(host, f"ln -sf {private(host, 'x')} README"))) == 1
    host.sandbox.file(host.path(".git/MERGE_RR"), "")
    host.sandbox.give(host.workspace)
    assert said(run(host, "true")) == []


def test_a_remote_whose_name_is_an_option_is_set_aside(host):
    done = run(host, "git init -q dep && cd dep && git commit -q --allow-empty -m x && "
               + write(".git/config", "[core]\n\trepositoryformatversion = 0\n[remote \"origin\"]\n\turl = .\n"
                       f"[remote \"--upload-pack=touch {host.canary}; git-upload-pack\"]\n\turl = ."))  # fmt: skip
    assert len(said(done)) == 1, done.stderr
    host.git("fetch", "--all", at="dep")
    host.git("remote", "update", at="dep")
    assert not os.path.exists(host.canary)
    assert "origin" in host.read("dep/.git/config")


def test_nothing_in_a_git_folder_is_left_open_to_every_user(host):
    repository(host.sandbox, host.workspace)
    os.chmod(host.path(".git/description"), 0o666)
    done = run(host, "git init -q dep && chmod 0777 dep/.git/hooks dep/.git/info .git/info && chmod 0666 dep/.git/config dep/.git/HEAD && "
               "chmod 0222 dep/.git/description")  # fmt: skip
    assert done.stderr.count(b"chmod o-w") == 4, done.stderr
    for name in ("dep/.git/hooks", "dep/.git/info", ".git/info", "dep/.git/config", "dep/.git/HEAD", "dep/.git/description"):
        assert not os.stat(host.path(name)).st_mode & stat.S_IWOTH, name
    assert os.stat(host.path(".git/description")).st_mode & stat.S_IWOTH, "it was so before"


def test_a_clone_of_the_agents_pushes_and_fetches_as_people_expect(host):
    """`git push` with remote.*.mirror deletes what the clone lacks; a local path brings another repository of the user's."""
    other = repository(host.sandbox, outside(host, "other"))
    done = run(host, f"git init -q --bare up.git && git init -q dep && cd dep && git remote add origin {host.workspace}/up.git && git remote add up ../up.git && git remote add away https://a.test/x && "
               "git config remote.away.mirror true && git config remote.away.pushurl https://b.test/x && "
               f"git remote add near {other} && git config remote.origin.fetch '+refs/heads/*:refs/heads/*'")  # fmt: skip
    assert len(said(done)) == 1, done.stderr
    kept = host.git("config", "--list", at="dep").stdout
    assert "remote.away.url=https://a.test/x" in kept and f"remote.origin.url={host.workspace}/up.git" in kept, kept
    for word in ("../up.git", "mirror", "pushurl", "other", "refs/heads/*:refs/heads"):
        assert word not in kept, kept


@pytest.mark.parametrize("tree", [".", "hooks", "../../.git", "../../made", "../../sub/x.git"])
def test_a_work_tree_is_no_git_folder_and_leads_back(host, tree):
    """`git checkout .` would write hooks/post-checkout there, and run it."""
    repository(host.sandbox, host.workspace)
    done = run(host, f"mkdir made && git init -q --bare sub/x.git && echo 'gitdir: ../../dep/.git' > sub/x.git/.git && git init -q dep && "
               f"(test -e dep/.git/{tree}/.git || echo 'gitdir: .' > dep/.git/{tree}/.git || true) && git -C dep config core.worktree {tree}")  # fmt: skip
    assert said(done), done.stderr
    assert "worktree" not in host.read("dep/.git/config")


def test_the_work_tree_of_a_submodule_stays(host):
    done = run(host, "git init -q lib && cd lib && git commit -q --allow-empty -m x && cd .. && git init -q . && "
               "git -c protocol.file.allow=always submodule --quiet add ./lib sub && git commit -qm y")  # fmt: skip
    assert "worktree" in host.read(".git/modules/sub/config"), done.stderr


def two_readings(name):
    """An index that names a file with ids of 32 bytes, and another with ids of 20: the rest of the id begins that one's name."""
    oid = bytes(20) + struct.pack(">H", 12 + len(name)) + b"abcdefghij"
    entry = bytes(24) + struct.pack(">I", 0o100644) + bytes(12) + oid + struct.pack(">H", 0x8000 | len(name)) + name.encode()
    entry += bytes(8 - len(entry) % 8)
    # As a checksum of 32 bytes; or an extension that may be skipped, and one of 20.
    return b"DIRC" + struct.pack(">II", 2, 1) + entry + b"AAAA" + struct.pack(">I", 4) + b"xxxx" + bytes(20)


@pytest.mark.parametrize("decoy", ["mkdir dep/.git/COMMONDIR", "mkdir dep/.git/commondir", "echo ../.. > dep/.git/commondir", "true"])
def test_an_index_is_read_with_ids_as_git_reads_them(host, decoy):
    done = run(host, f"git init -q --object-format=sha256 dep && {decoy} && " + put("dep/.git/index", two_readings(".git/hooks/post-checkout")))
    assert any("index" in line for line in done.stderr.decode().splitlines() if "set aside" in line), done.stderr
    assert not os.path.exists(host.path("dep/.git/index"))


def test_an_index_with_two_readings_is_harmless_by_the_one_that_git_takes(host):
    done = run(host, "git init -q dep && " + put("dep/.git/index", two_readings(".git/hooks/post-checkout")))
    assert said(done) == [], done.stderr


@pytest.mark.parametrize("remote", ["..", "link"])
def test_a_branch_fetches_from_no_repository_elsewhere(host, remote):
    done = run(host, f"git init -q dep && ln -s .. dep/link && git -C dep config branch.main.remote {remote} && git -C dep config branch.other.remote origin && "
               "git -C dep config remote.origin.url https://a.test/x && git -C dep config branch.main.merge refs/heads/main")  # fmt: skip
    assert len(said(done)) == 1, done.stderr
    kept = host.git("config", "--list", at="dep").stdout
    assert "branch.other.remote=origin" in kept and "branch.main.remote" not in kept, kept
