"""What an agent prepares in one run and uses in the next: each run's survey judges where things lead by then."""

import os
import tempfile

import pytest
from conftest import PYTHON
from test_set_aside import AS_BOTH, host, hook, run, said, verb, write  # noqa: F401 (host is a fixture)
from test_workspace import git, repository

pytestmark = pytest.mark.identity("user")


@pytest.mark.parametrize("common", ["../.git", ".", "./", "../link"])
def test_a_commondir_that_leads_to_its_own_folder_takes_no_protection_away(host, common):
    link = "ln -s .git dep/link; " if "link" in common else ""
    done = run(host, f"git init -q dep; {link} printf '{common}\\n' > dep/.git/commondir")
    assert common == "." or said(done), done.stderr
    # As a user may have it, or an earlier version may have left it.
    if not os.path.exists(host.path("dep/.git/commondir")):
        host.sandbox.file(host.path("dep/.git/commondir"), common + "\n")
        host.sandbox.give(host.path("dep"))
    host.sandbox.run("sh", "-c", f"git -C dep config core.fsmonitor 'touch {host.canary}; false'; " + hook(host, "dep/.git/hooks/post-index-change"),
                     workspace=host.workspace)  # fmt: skip
    host.works("dep")
    assert "fsmonitor" not in host.read("dep/.git/config")


def test_what_has_no_mount_in_a_linked_folder_is_judged_after_the_run(host):
    """The commondir leads to a folder of its own at first, and to the git folder itself later."""
    host.sandbox.file(host.path("dep/x/HEAD"), "ref: refs/heads/main\n")
    git(host.workspace, "init", "-q", "dep")
    host.sandbox.file(host.path("dep/.git/commondir"), "../x\n")
    os.unlink(host.path("dep/.git/config"))
    host.sandbox.give(host.workspace)
    done = run(host, "rm -r dep/x && ln -s .git dep/x && " + write("dep/.git/config", host.config))
    assert len(said(done)) == 2, done.stderr
    host.works("dep")


def outside(host, name="outside"):
    folder = os.path.join(host.sandbox.place, name)
    os.makedirs(folder, exist_ok=True)
    return folder


MAKE_WORKTREE = ("git init -q dep && mkdir x && cd dep && git config core.worktree ../../x && echo 'gitdir: ../dep/.git' > ../x/.git && "
                 "echo evil > ../x/.bashrc && git add -A && git commit -qm x && cd ..")  # fmt: skip


def with_file(host):
    victim = outside(host)
    with open(victim + "/.bashrc", "w", encoding="ascii") as file:
        file.write("mine\n")
    return victim


def is_untouched(host, victim):
    host.git("checkout", "-f", ".", at="dep")
    with open(victim + "/.bashrc", encoding="ascii") as file:
        return file.read() == "mine\n"


@AS_BOTH
def test_a_worktree_that_became_a_link_out_is_set_aside(host):
    victim = with_file(host)
    done = run(host, f"{MAKE_WORKTREE} && rm -rf x && ln -s {victim} x")
    assert said(done) and "worktree" not in host.read("dep/.git/config"), done.stderr
    assert is_untouched(host, victim)


@AS_BOTH
def test_a_worktree_of_an_earlier_run_can_not_become_a_link_out(host):
    victim = with_file(host)
    done = run(host, MAKE_WORKTREE)
    assert said(done) == [] and "worktree" in host.read("dep/.git/config"), done.stderr
    done = run(host, f"rm -rf x || mv x away || ln -sT {victim} x || test -e x/.git")
    assert done.stderr.count(b"Device or resource busy") >= 2 and os.path.isdir(host.path("x")), done.stderr
    assert not os.path.islink(host.path("x")) and is_untouched(host, victim)


def test_a_git_file_whose_folder_became_a_link_out_is_set_aside(host):
    other = repository(host.sandbox, outside(host, "other"))
    head = host.git("rev-parse", "HEAD", at=other).stdout
    done = run(host, "mkdir evil real && echo 'gitdir: ../real' > evil/.git")
    assert said(done) == [], done.stderr
    done = run(host, f"rmdir real && ln -s {other}/.git real && echo evil > evil/README")
    assert len(said(done)) == 1, done.stderr
    host.git("commit", "-qam", "x", at="evil")
    assert host.git("rev-parse", "HEAD", at=other).stdout == head


def test_alternates_that_became_a_link_out_are_set_aside(host):
    other = repository(host.sandbox, outside(host, "other"))
    done = run(host, "git init -q dep && mkdir o && echo ../../../o > dep/.git/objects/info/alternates")
    assert said(done) == [], done.stderr
    done = run(host, f"rmdir o && ln -s {other}/.git/objects o")
    assert len(said(done)) == 1, done.stderr
    assert not os.path.exists(host.path("dep/.git/objects/info/alternates"))


def test_what_led_out_before_is_the_users_and_stays(host):
    other = repository(host.sandbox, outside(host, "other"))
    host.sandbox.file(host.path("w/.git"), f"gitdir: {other}/.git\n")
    git(host.workspace, "init", "-q", "dep")
    git(host.path("dep"), "config", "core.worktree", other)
    host.sandbox.give(host.workspace)
    done = run(host, "true")
    assert said(done) == [], done.stderr
    assert other in host.read("w/.git") and other in host.read("dep/.git/config")


STATES = {
    "a strategy that is a path": (".git/rebase-merge/strategy", "x/../evil.sh"),
    "a strategy that is any program git-merge-X": (".git/rebase-merge/strategy", "evil"),
    "a cherry-pick's strategy": (".git/sequencer/opts", "[options]\n\tstrategy = x/../evil.sh"),
    "a cherry-pick's unknown option": (".git/sequencer/opts", "[options]\n\tprogram = evil.sh"),
    "a linked worktree's": (".git/worktrees/wt/rebase-merge/strategy", "x/../evil.sh"),
}


@pytest.mark.parametrize("state", STATES)
def test_a_rebase_or_cherry_pick_that_would_run_a_program_is_set_aside(host, state):
    repository(host.sandbox, host.workspace)
    git(host.workspace, "worktree", "add", "-q", "wt")
    host.sandbox.give(host.workspace)
    name, text = STATES[state]
    done = run(host, write(name, text))
    assert len(said(done)) == 1 and not os.path.exists(host.path(name)), done.stderr


def test_a_rebase_and_a_cherry_pick_under_way_that_run_nothing_stay(host):
    repository(host.sandbox, host.workspace)
    done = run(host, write(".git/rebase-merge/strategy", "ort") + write(".git/sequencer/opts", "[options]\n\tedit = true\n\tstrategy = ort"))
    assert said(done) == [], done.stderr
    assert host.read(".git/rebase-merge/strategy") == "ort\n"


def test_named_pipes_that_the_hosts_git_would_wait_for_are_set_aside(host):
    repository(host.sandbox, host.workspace)
    done = run(host, "mkdir d && mkfifo .gitattributes .gitignore d/.gitignore")
    assert len(said(done)) == 3, done.stderr
    assert host.git("status", "--short").returncode == 0


def test_no_folder_of_the_agents_keeps_the_harmless_part_from_its_place(host):
    done = run(host, f"git init -q dep && git -C dep config core.pager 'touch {host.canary}' && mkdir -p dep/.git/.keyhole-harmless/x")
    assert len(said(done)) == 1, done.stderr
    assert "repositoryformatversion" in host.read("dep/.git/config") and "pager" not in host.read("dep/.git/config")


GLOBAL = "[core]\n\thooksPath = .githooks\n"


def tree_of(host, there):
    """The project has hooks and a script that its configuration names by a relative path."""
    repository(host.sandbox, host.workspace)
    git(host.workspace, "config", "core.hooksPath", ".githooks")
    git(host.workspace, "config", "filter.mine.clean", "./scripts/clean.sh")
    host.sandbox.file(host.path("scripts/clean.sh"), "#!/bin/sh\nexec cat\n", 0o755)
    host.sandbox.file(host.path(".githooks/pre-commit"), "#!/bin/sh\nexit 0\n", 0o755)
    host.sandbox.file(host.path(".gitattributes"), "*.c filter=mine\n")
    git(host.workspace, "add", "-A")
    git(host.workspace, "commit", "-qm", "hooks")
    if there:
        git(host.workspace, "worktree", "add", "-q", "wt")
    host.sandbox.give(host.workspace)


TREES = {
    "a worktree that was there": (True, "", "wt"),
    "a worktree of the agent's": (False, "git worktree add -q wt; ", "wt"),
    "a .git file of the agent's": (False, "mkdir wt; echo 'gitdir: ../.git' > wt/.git; ", "wt"),
    "a link on the way": (False, "mkdir wt evil; echo 'gitdir: ../.git' > wt/.git; ln -s ../evil wt/scripts; ln -s ../evil wt/.githooks; ", "wt"),
}  # fmt: skip


@pytest.mark.parametrize("tree", TREES)
def test_hooks_and_scripts_by_a_relative_path_are_the_agents_in_no_worktree(host, tree):
    there, script, at = TREES[tree]
    tree_of(host, there)
    attack = hook(host, f"{at}/.githooks/post-index-change") + hook(host, f"{at}/scripts/clean.sh")
    done = host.sandbox.run("sh", "-c", script + attack + f"echo '* filter=mine' > {at}/.gitattributes; echo > {at}/f.c",
                            workspace=host.workspace)  # fmt: skip
    assert there or said(done), done.stderr
    assert not os.path.exists(host.path(at + "/.githooks/post-index-change"))
    host.works(at)


@pytest.mark.parametrize("where", ["a nested repository", "a bare one", "a worktree elsewhere"])
def test_the_users_own_relative_hooks_path_is_the_agents_in_no_repository(host, where):
    for folder in (host.sandbox.place, host.env["HOME"]):
        host.sandbox.file(os.path.join(folder, ".gitconfig"), GLOBAL)
    repository(host.sandbox, host.workspace)
    script, at, stand = {
        "a nested repository": ("git init -q dep; ", "dep", "dep"),
        "a bare one": ("git init -q --bare dep; ", "dep", "dep"),
        "a worktree elsewhere": ("git init -q dep; mkdir x; git -C dep config core.worktree ../../x; ", "x", "dep"),
    }[where]
    done = run(host, script + hook(host, f"{at}/.githooks/post-index-change") + hook(host, f"{at}/.githooks/reference-transaction"))
    assert len(said(done)) == 1, done.stderr
    host.works(stand)
    host.keyhole("restore", *said(done))


def test_a_worktree_with_the_projects_own_hooks_stays(host):
    tree_of(host, False)
    done = run(host, "git worktree add -q wt && cd wt && echo x > x && git add x && git commit -qm x")
    assert said(done) == [], done.stderr
    assert os.path.exists(host.path("wt/.githooks/pre-commit")) and os.path.exists(host.path("wt/scripts/clean.sh"))


# ---- folders of objects that are named by another folder of objects ----


NESTED = {
    "alternates in an alternate": lambda other: f"mkdir -p o/info; echo {other}/.git/objects > o/info/alternates",
    "two deep": lambda other: f"mkdir -p o/info p/info; echo ../p > o/info/alternates; echo {other}/.git/objects > p/info/alternates",
    "packs that are a link": lambda other: f"mkdir o; ln -s {other}/.git/objects/pack o/pack",
    "a pack that is a link": lambda other: f"mkdir -p o/pack; ln -s {other}/.git/objects/pack/x.pack o/pack/x.pack",
    "objects that are a link": lambda other: f"mkdir o; cd {other}/.git/objects; for d in ??; do ln -s $PWD/$d {{work}}/o/$d; done",
    "a circle": lambda other: f"mkdir -p o/info; printf '../o\\n{other}/.git/objects\\n' > o/info/alternates",
}  # fmt: skip


@pytest.mark.parametrize("when", ["at once", "in the next run"])
@pytest.mark.parametrize("how", NESTED)
def test_objects_outside_are_reached_through_no_folder_that_alternates_name(host, how, when):
    other = repository(host.sandbox, outside(host, "other"))
    head = host.git("rev-parse", "HEAD", at=other).stdout.strip()
    make = NESTED[how](other).replace("{work}", host.workspace).replace(f"cd {other}/.git/objects; for d in ??", f"for d in {head[:2]}")
    make = make.replace("$PWD/$d", f"{other}/.git/objects/$d")
    name = "git init -q dep; echo ../../../o > dep/.git/objects/info/alternates; "
    done = run(host, name + make if when == "at once" else "mkdir o p; " + name + "true")
    if when == "in the next run":
        assert said(done) == [], done.stderr
        done = run(host, "rmdir o p; " + make)
    assert said(done), done.stderr
    assert host.git("cat-file", "-e", head, at="dep").returncode != 0


def test_alternates_in_the_workspace_stay_with_links_of_the_users_own(host):
    repository(host.sandbox, host.workspace)
    store = outside(host, "store")
    os.makedirs(host.path("o"))
    os.symlink(store, host.path("o/pack"))
    host.sandbox.file(host.path(".git/objects/info/alternates"), "../../o\n")
    host.sandbox.give(host.workspace)
    done = run(host, "git init -q dep; echo $PWD/.git/objects > dep/.git/objects/info/alternates; mkdir o/ab; ln -s /etc o/other")
    assert said(done) == [], done.stderr
    assert os.path.islink(host.path("o/pack")) and os.path.exists(host.path(".git/objects/info/alternates"))


def test_no_list_of_alternates_is_long_enough_to_hold_up_the_survey(host):
    """A folder is looked for by each of its lines. In so many lines of so deep a folder it would be for hours."""
    deep = "d/" * 60
    run(host, f"mkdir -p {deep}; cd {deep}; yes a | head -c 1000000 >list; i=0; while [ $i -lt 12 ]; do mkdir -p $i/objects/info $i/refs;"
              " echo 'ref: refs/heads/main' >$i/HEAD; ln list $i/objects/info/alternates; i=$((i+1)); done")  # fmt: skip
    assert not any("alternates" in files for _, _, files in os.walk(host.path("d")))
    assert "nothing is set aside" not in verb(host, "set-aside").stderr


def test_no_configuration_is_long_enough_to_hold_up_the_survey(host):
    deep = "d/" * 60
    run(host, f"mkdir -p {deep}; cd {deep}; (echo '[core]'; yes 'worktree = ../..' | head -n 19000) >list; i=0; while [ $i -lt 16 ]; do"
              " mkdir -p $i/objects $i/refs; echo 'ref: refs/heads/main' >$i/HEAD; cp list $i/config; i=$((i+1)); done")  # fmt: skip
    left = [os.path.join(at, "config") for at, _, files in os.walk(host.path("d")) if "config" in files]
    assert len(left) == 16 and max(map(os.path.getsize, left)) < 64 * 1024


@pytest.mark.parametrize("name", [".git/remotes/evil", ".git/branches/evil", "dep/.git/remotes/origin"])
def test_an_address_to_fetch_from_in_a_file_of_its_own_is_set_aside(host, name):
    repository(host.sandbox, host.workspace)
    host.sandbox.file(host.path(".git/remotes/mine"), "URL: https://example.com/x\n")
    host.sandbox.file(host.path(".git/branches/mine"), "https://example.com/x\n")
    host.sandbox.give(host.workspace)
    done = run(host, "git init -q dep; " + write(name, f"URL: ext::touch {host.canary}"))
    assert len(said(done)) == 1, done.stderr
    assert not os.path.exists(host.path(name)) and os.path.exists(host.path(".git/remotes/mine")) and os.path.exists(host.path(".git/branches/mine"))


def test_a_folder_that_can_not_be_set_aside_is_looked_through_where_it_is(host):
    """keyhole's state is on another file system, and the folder is too deep to be copied there."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state:
        if os.stat(state).st_dev == os.stat(host.workspace).st_dev:
            pytest.skip("/dev/shm is no other file system here")
        host.sandbox.give(state)
        os.symlink(state, os.path.join(host.sandbox.place, "state"))
        made = "import os\nfor i in range(210): os.mkdir('d'); os.chdir('d')"
        script = "git init -q mise.toml && cd mise.toml && " + write(".git/config", host.config) + f'{PYTHON} -I -c "{made}"'
        done = host.sandbox.run("sh", "-ec", script, workspace=host.workspace)
        left = [name for name in os.listdir(host.workspace) if name.startswith(".keyhole-disarmed-")]
        assert len(left) == 1 and not os.path.exists(host.path("mise.toml")), done.stderr
        assert b"made harmless" not in done.stderr and f"has the name {left[0]} now".encode() in done.stderr, done.stderr
        assert b"nested too deep" in done.stderr, "it is not complete, and says so"
        host.works(left[0])
