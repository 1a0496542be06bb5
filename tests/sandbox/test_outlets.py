"""A link from the workspace to where a sandbox can write: no survey looks there, so the link does not stay."""

import os
import subprocess
import time

import pytest
from conftest import PATIENCE
from test_review import Review
from test_set_aside import host, run, said, verb  # noqa: F401 (host is a fixture)
from test_workspace import repository

pytestmark = [pytest.mark.identity("user"), pytest.mark.before_the_engine]

OUTLET = b"a symbolic link that leads out of the workspace to where a sandbox can write"


@pytest.fixture
def home(host):
    return host.sandbox.folder("agent-home")


# How the agent makes the link that is set aside, by HOME as the host has it and UP, the way there from the workspace's top.
LINKS = {
    "to a folder": "mv src ~/src; ln -s $HOST/src src",
    "relative": "mv src ~/src; ln -s $UP/src src",
    "to the home itself": "mv src ~/src; rm -rf src; ln -s $HOST src",
    "to a file": "echo evil > ~/m; rm -r src; ln -s $HOST/m src",
    "to nothing yet": "rm -r src; ln -s $HOST/later/on src",
    "through and out again": "mkdir ~/a; rm -r src; ln -s $HOST/a/../../other src",
    "through a link in it": "ln -s /usr ~/a; rm -r src; ln -s $HOST/a/share src",
    "by way of a process": "mv src ~/src; ln -s /proc/self/root$HOST/src src",
    "of another spelling": "mv src ~/src; ln -s //$HOST/./x/..//src/ src; mkdir ~/x",
}


def attack(host, home, script, **options):
    up = os.path.relpath(home, host.workspace)
    return run(host, f"HOST={home}; UP={up}; {script}", home=home, **options)


@pytest.mark.parametrize("way", LINKS)
def test_no_link_of_the_agents_leads_into_its_home(host, home, way):
    host.sandbox.file(host.path("src/m.c"))
    host.sandbox.give(host.path("src"))
    done = attack(host, home, LINKS[way])
    assert len(said(done)) == 1 and not os.path.lexists(host.path("src")), done.stderr
    assert OUTLET in done.stderr or way == "by way of a process", done.stderr


@pytest.mark.parametrize("name", ["a/b/x", "node_modules/x", "node_modules/.bin/x", "Makefile"])
def test_such_a_link_stays_nowhere(host, home, name):
    done = attack(host, home, f"mkdir -p $(dirname {name}); ln -s $HOST/x {name}")
    assert len(said(done)) == 1 and not os.path.lexists(host.path(name)), done.stderr


def test_what_leads_there_by_another_link_of_the_agents_leads_nowhere(host, home):
    done = attack(host, home, "ln -s b a; ln -s c b; ln -s $HOST c")
    assert said(done) and not os.path.exists(host.path("a")) and not os.path.exists(host.path("b")), done.stderr


def test_a_link_that_leads_elsewhere_by_now_was_not_there_before(host, home):
    """Prepared in one run, where it leads into the workspace, and turned in the next by a link on its way."""
    host.sandbox.file(host.path("src/m.c"))
    host.sandbox.give(host.path("src"))
    tail = os.path.basename(home)
    done = attack(host, home, f"mkdir -p x/{tail}; mv src x/{tail}/src; ln -s x/{tail}/src src")
    assert said(done) == [] and os.path.exists(host.path("src/m.c")), done.stderr
    done = attack(host, home, f"mkdir ~/src; mv x y; ln -s {os.path.dirname(home)} x")
    assert said(done) and not os.path.lexists(host.path("src")), done.stderr


def test_the_hosts_prompt_runs_nothing_of_a_repository_behind_such_a_link(host, home):
    host.sandbox.file(host.path("src/m.c"))
    repository(host.sandbox, host.workspace)
    host.sandbox.give(host.workspace)
    done = attack(host, home, "mv src ~/src; ln -s $HOST/src src; git init -q ~/src; git -C ~/src config core.fsmonitor "
                              f"'touch {host.canary}; false'")  # fmt: skip
    host.works("src")
    subprocess.run(["rm", "-rf", host.path("src")], check=True)
    host.keyhole("restore", *said(done))
    assert host.would_run("src"), "that is no attack at all"


def test_links_in_the_workspace_or_to_the_system_stay(host, home):
    repository(host.sandbox, host.workspace)
    host.sandbox.folder("mine")
    os.symlink(os.path.join(host.sandbox.place, "mine"), host.path("mine"))
    host.sandbox.give(host.workspace)
    links = {"a": "src", "b": f"{host.workspace}/src", "c": "/usr/bin/env", "d": "/usr/share", "e": "absent", "f": "../work/src",
             "mine": os.path.join(host.sandbox.place, "mine")}  # fmt: skip
    done = attack(host, home, "mkdir src; " + "; ".join(f"ln -sfn {text} {name}" for name, text in links.items()))
    assert not said(done), done.stderr
    assert {name: os.readlink(host.path(name)) for name in links} == links


def test_a_link_that_was_there_before_and_leads_into_the_home_is_refused(host, home):
    for text in (home, os.path.relpath(home, host.workspace) + "/x"):
        os.symlink(text, host.path("mine"))
        done = host.sandbox.run("true", workspace=host.workspace, home=home)
        assert done.returncode == 125 and b"mine: is a symbolic link that leads to where the agent can write" in done.stderr, done.stderr
        for options in ({"workspace_ro": host.workspace}, {"workspace": host.workspace + ":review"}):
            assert host.sandbox.run("true", home=home, **options).returncode == 125
        assert not said(host.sandbox.run("true", workspace=host.workspace, check=0))
        os.unlink(host.path("mine"))


def test_the_home_of_an_earlier_run_counts_too(host, home):
    host.sandbox.run("sh", "-c", "mkdir ~/evil", home=home, check=0)
    done = run(host, f"ln -s {home}/evil x")
    assert len(said(done)) == 1 and OUTLET in done.stderr, done.stderr


def test_the_workspace_of_another_run_counts_too_unless_the_link_was_there_before(host):
    other = host.sandbox.folder("other")
    host.sandbox.give(other)
    os.symlink(other, host.path("mine"))
    process = host.sandbox.start("sh", "-c", "echo up; cat", workspace=other, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    done = run(host, f"ln -s {other} x")
    process.communicate()
    assert len(said(done)) == 1 and not os.path.lexists(host.path("x")), done.stderr
    assert os.path.islink(host.path("mine"))


# Where keyhole keeps what nobody has looked through: by S, its state folder.
KEPT = {
    "the files of a review": "review/abc/upper/src",
    "what was set aside": "set-aside/abc/0",
    "the state folder itself": "",
    "a review that is still to come": "review/later/upper",
    "through and out again": "review/../../../other",
}


@pytest.mark.parametrize("kept", KEPT)
def test_no_link_of_the_agents_leads_into_keyholes_own_folders(host, kept):
    """No home was kept, so that nothing but these folders is such a place."""
    for name in ("review/abc/upper/src", "set-aside/abc/0"):
        host.sandbox.folder(os.path.join("state/keyhole", name))
    host.sandbox.give(os.path.join(host.sandbox.place, "state"))
    end = os.path.join(host.sandbox.state(), KEPT[kept])
    for text in (end, os.path.relpath(host.sandbox.state(), host.workspace) + "/" + KEPT[kept]):
        done = run(host, f"ln -s {text} x")
        assert len(said(done)) == 1 and not os.path.lexists(host.path("x")), done.stderr
        assert OUTLET in done.stderr, done.stderr
    os.symlink(end, host.path("mine"))
    assert said(run(host, "true")) == [] and os.path.islink(host.path("mine"))


def test_the_folder_of_reviews_counts_where_the_user_has_moved_it(host):
    host.sandbox.folder("disk/abc/upper")
    host.sandbox.folder("state/keyhole")
    os.symlink(os.path.join(host.sandbox.place, "disk"), os.path.join(host.sandbox.state(), "review"))
    host.sandbox.give(os.path.join(host.sandbox.place, "state"))
    done = run(host, f"ln -s {host.sandbox.place}/disk/abc/upper x")
    assert len(said(done)) == 1 and OUTLET in done.stderr, done.stderr


# ---- a home that lies where the user works ----

# Where the home is, of which folder a repository is, and whether its .git is a file.
IN_REPOSITORIES = {
    "in its top": ("repo/home", "repo", False),
    "deep in it": ("repo/a/b/home", "repo", False),
    "its top": ("repo", "repo", False),
    "in a work tree": ("tree/home", "tree", True),
}


@pytest.mark.parametrize("where", IN_REPOSITORIES)
@pytest.mark.parametrize("with_workspace", [False, True], ids=["alone", "workspace"])
def test_no_home_lies_in_a_repository(host, where, with_workspace):
    home, tree, is_file = IN_REPOSITORIES[where]
    repo = repository(host.sandbox, host.sandbox.folder("repo"))
    if is_file:
        subprocess.run(["git", "-C", repo, "worktree", "add", "-q", os.path.join(host.sandbox.place, tree)],
                       env=host.env, check=True)  # fmt: skip
    home = host.sandbox.folder(home)
    host.sandbox.give(os.path.join(host.sandbox.place, tree))
    done = host.sandbox.run("true", home=home, check=125, **({"workspace": host.workspace} if with_workspace else {}))
    assert f"is in the git repository {host.sandbox.place}/{tree}." in done.stderr.decode(), done.stderr


def test_git_would_run_what_an_agent_leaves_in_a_home_in_a_repository(host):
    """The attack is one: the user adds what is new, and from then on git looks into the home."""
    repo = repository(host.sandbox, host.workspace)
    evil = host.sandbox.folder("work/home/x")
    subprocess.run(["git", "init", "-q", evil], env=host.env, check=True)
    host.git("commit", "-q", "--allow-empty", "-m", "x", at="home/x")
    host.git("config", "core.fsmonitor", f"touch {host.canary}; false", at="home/x")
    host.git("add", "-A")
    assert repo == host.workspace and host.would_run(""), "that is no attack at all"


def test_a_repository_that_the_agent_made_of_its_own_home_does_not_shut_it_out(host, home):
    for _ in range(2):
        host.sandbox.run("sh", "-c", "git init -q ~", home=home, check=0)
    # Nor does an empty folder, which may be a mountpoint of keyhole's.
    os.mkdir(os.path.join(host.sandbox.place, ".git"))
    host.sandbox.run("true", home=home, check=0)
    # One around it that the user begins afterwards is found all the same.
    repository(host.sandbox, host.sandbox.place)
    assert b"is in the git repository" in host.sandbox.run("true", home=home, check=125).stderr


def test_no_workspace_has_the_home_of_an_earlier_run_in_it_or_around_it(host):
    home = host.sandbox.folder("work/sub/home")
    host.sandbox.give(host.workspace)
    host.sandbox.run("sh", "-c", "mkdir -p ~/.vscode ~/deep; echo evil > ~/.vscode/tasks.json", home=home, check=0)
    for workspace in (host.workspace, home, home + "/deep"):
        done = host.sandbox.run("true", workspace=workspace, check=125)
        assert f"--workspace {workspace}: {home}, which a run had as its --home, is in it or around it" in done.stderr.decode()
    host.sandbox.run("true", workspace_ro=host.workspace, check=0)
    host.sandbox.run("true", workspace=host.sandbox.folder("work/other"), check=0)
    os.rename(home, os.path.join(host.sandbox.place, "moved"))
    host.sandbox.run("true", workspace=host.workspace, check=0)


def test_no_review_is_of_a_folder_with_the_home_of_an_earlier_run(sandbox):
    review = Review(sandbox)
    home = sandbox.folder("work/home")
    sandbox.give(review.work)
    review.run_("-q", "--home", home, "--", "true", check=0)
    assert f"{home}, which a run had as its --home" in review.agent("true", check=125).stderr


def test_after_a_kill_such_a_link_is_found_too(host, home):
    process = host.sandbox.start("sh", "-c", f"ln -s {home} x; echo up; exec sleep 300", workspace=host.workspace, home=home)
    assert process.stdout.readline() == b"up\n"
    process.kill()
    process.communicate(timeout=PATIENCE)
    end = time.monotonic() + PATIENCE
    # Until keyhole-init has ended there is nothing to survey.
    while not (done := verb(host, "survey")).stderr and time.monotonic() < end:
        time.sleep(0.01)
    assert OUTLET in done.stderr.encode() and not os.path.lexists(host.path("x")), done.stderr
