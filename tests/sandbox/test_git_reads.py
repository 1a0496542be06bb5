"""What the host's git runs or reads in a workspace by its configuration, however that is spelt and wherever it lies."""

import os
import subprocess

import pytest
from conftest import PATIENCE, USER
from test_review import Review
from test_set_aside import HOOK, Host, hook, run, said, write
from test_workspace import git, repository

pytestmark = [pytest.mark.identity("user"), pytest.mark.before_the_engine]


@pytest.fixture
def host(sandbox, workspace):
    """Whoever uses git afterwards has the same home as whoever starts the sandbox."""
    made = Host(sandbox, workspace)
    made.env["HOME"] = sandbox.place
    return made


def settings(host, text):
    host.sandbox.file(os.path.join(host.sandbox.place, ".gitconfig"), text)


def attack(host, *names):
    """The agent writes a program there by each means, and has it run."""
    parts = [f"rm -rf '{name}'; mkdir -p '{os.path.dirname(name) or '.'}'; cat > '{name}' <<'END'\n{HOOK.format(canary=host.canary)}END\n"
             f"chmod +x '{name}'\n" for name in names]  # fmt: skip
    return "".join(parts) + "echo '* filter=mine' > .gitattributes; echo > f\n"


def tries(host, *scripts, workspace=None):
    done = host.sandbox.run("sh", "-c", "\n".join(scripts), workspace=workspace or host.workspace)
    assert done.returncode != 125, done.stderr
    return done


# ---- what git itself is asked ----


HOSTILE = {
    "more than there is room for": "yes '[user] name=x' | head -60000 >> .git/config",
    "an object format that git does not know": "printf '[core]\\nrepositoryformatversion = 1\\n[extensions]\\nobjectformat = bogus\\n' >> .git/config",
    "a version that git does not know": "printf '[core]\\nrepositoryformatversion = 7\\n' >> .git/config",
    "a storage that git does not know": "printf '[core]\\nrepositoryformatversion = 1\\n[extensions]\\nrefstorage = bogus\\n' >> .git/config",
}


@pytest.mark.parametrize("how", HOSTILE)
def test_no_repository_keeps_git_from_saying_what_the_user_has_it_run(host, how):
    settings(host, "[core]\n\thooksPath = .githooks\n")
    run(host, f"git init -q && {HOSTILE[how]}")
    done = tries(host, attack(host, ".githooks/pre-commit", ".githooks/post-index-change"))
    assert not os.path.exists(host.path(".githooks")), done.stderr
    # A person repairs it without a thought.
    os.unlink(host.path(".git/config"))
    git(host.workspace, "init", "-q")
    host.works()


SETTINGS = {"a fault": "[core\n", "one long value": "[user]\n\tname = " + "x" * 2000000 + "\n", "many values": "[core]\n" + "\tz = yyyyyyyyyy\n" * 90000}


@pytest.mark.parametrize("what", SETTINGS)
def test_where_git_does_not_answer_in_full_nothing_starts(host, what):
    repository(host.sandbox, host.workspace)
    settings(host, SETTINGS[what])
    done = host.sandbox.run("true", workspace=host.workspace, check=125)
    assert b"git did not say which hooks" in done.stderr and b"git config --list" in done.stderr


def test_where_git_does_not_answer_in_full_nothing_is_applied(sandbox):
    review = Review(sandbox)
    review.repository()
    review.agent("echo x > plain")
    sandbox.file(os.path.join(sandbox.place, ".gitconfig"), "[core\n")
    environment = review.run_.environment
    review.run_.environment = lambda **more: {**environment(**more), "HOME": sandbox.place}
    assert b"git did not say which hooks" in review.apply(check=None).stderr
    assert "plain" not in review.contents()


def test_a_configuration_that_is_read_otherwise_than_by_git_stops_the_start(host):
    repository(host.sandbox, host.workspace)
    with open(host.path(".git/config"), "a", encoding="ascii") as file:
        file.write("# \0\n[core]\n\thooksPath = .githooks\n")
    done = host.sandbox.run("true", workspace=host.workspace, check=125)
    assert b".git/config" in done.stderr and b"NUL" in done.stderr


def test_a_variable_that_counts_for_git_config_alone_hides_no_settings(host):
    repository(host.sandbox, host.workspace)
    settings(host, "[core]\n\thooksPath = .githooks\n")
    done = host.sandbox.run("sh", "-c", attack(host, ".githooks/post-index-change"), workspace=host.workspace,
                            env=host.sandbox.environment(GIT_CONFIG="/dev/null"))  # fmt: skip
    assert not os.path.exists(host.path(".githooks")), done.stderr
    host.works()


# ---- paths, however they are spelt ----


def configured(host, key, value):
    repository(host.sandbox, host.workspace)
    os.symlink(".", os.path.join(host.sandbox.place, "link"))
    words = {"WS": host.workspace, "PLACE": host.sandbox.place}
    for word, text in words.items():
        value = value.replace(word, text)
    git(host.workspace, "config", key, value)
    host.sandbox.give(host.workspace)


# Commands by which git runs the program tools/fsm, and the name of it.
SPELLINGS = {
    "an absolute path": ("WS/tools/fsm", "tools/fsm"),
    "by the home": ("~/work/tools/fsm", "tools/fsm"),
    "quoted": ('"WS/.venv/bin/python" -m nbstripout', ".venv/bin/python"),
    "by $PWD": ("$PWD/tools/fsm", "tools/fsm"),
    "by ${PWD}": ('"${PWD}"/tools/fsm', "tools/fsm"),
    "by $HOME": ("$HOME/work/tools/fsm", "tools/fsm"),
    "by the top": ("$(git rev-parse --show-toplevel)/tools/fsm", "tools/fsm"),
    "by the top, in a way of its own": ('"$(git rev-parse  --show-toplevel)"/tools/fsm', "tools/fsm"),
    "a blank": ("sh 'my tools/fsm'", "my tools/fsm"),
    "a backslash": ("sh my\\ tools/fsm", "my tools/fsm"),
    "a shell in a shell": ('sh -c "exec \'./my tools/fsm\'"', "my tools/fsm"),
    "through a link above": ("PLACE/link/work/tools/fsm", "tools/fsm"),
    "a detour": ("sh tools/../other/fsm", "other/fsm"),
    "no slash": ("sh fsm", "fsm"),
    "a pattern": ("sh tools/*", "tools/fsm"),
}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("how", SPELLINGS)
def test_what_a_command_names_is_the_agents_in_no_spelling(host, how, there):
    value, name = SPELLINGS[how]
    configured(host, "core.fsmonitor", value)
    if "detour" in how:
        os.mkdir(host.path("tools"))
    if there:
        host.sandbox.file(host.path(name), "#!/bin/sh\nexit 1\n", 0o755)
    host.sandbox.give(host.workspace)
    done = tries(host, attack(host, name))
    assert there or said(done), done.stderr
    host.works()
    assert os.path.exists(host.path(name)) == there


FOLDERS = {
    "python3 tools/clean": ("tools/clean/__main__.py", "import os, sys; os.system('touch CANARY'); sys.stdout.write(sys.stdin.read())"),
    "python3 tools/../clean": ("clean/__main__.py", "import os, sys; os.system('touch CANARY'); sys.stdout.write(sys.stdin.read())"),
    "python3 clean": ("clean/__main__.py", "import os, sys; os.system('touch CANARY'); sys.stdout.write(sys.stdin.read())"),
    "perl -Itools -MClean -pe 1": ("tools/Clean.pm", "system('touch CANARY'); 1;"),
    "perl -I tools -MClean -pe 1": ("tools/Clean.pm", "system('touch CANARY'); 1;"),
    "PYTHONPATH=lib:tools python3 -c 'import clean'": ("tools/clean.py", "import os; os.system('touch CANARY')"),
}


@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_that_a_command_names_is_not_the_agents(host, command):
    name, text = FOLDERS[command]
    configured(host, "filter.mine.clean", command)
    os.makedirs(os.path.dirname(host.path(name)), exist_ok=True)
    os.makedirs(host.path("tools"), exist_ok=True)
    host.sandbox.file(host.path(name), "\n")
    host.sandbox.give(host.workspace)
    tries(host, write(name, text.replace("CANARY", host.canary)), attack(host))
    host.works()
    assert host.read(name) == "\n"


def test_a_folder_that_a_command_names_and_the_agent_makes_is_set_aside(host):
    configured(host, "filter.mine.clean", "python3 tools/clean")
    name, text = FOLDERS["python3 tools/clean"]
    done = tries(host, write(name, text.replace("CANARY", host.canary)), attack(host))
    assert len(said(done)) == 1, done.stderr
    host.works()
    assert not os.path.exists(host.path("tools/clean"))


@pytest.mark.parametrize("key, value", [("safe.directory", "WS/src"), ("maintenance.repo", "WS/src"), ("alias.x", "!cd src/deep && ls"),
                                        ("init.defaultBranch", "src"), ("format.pretty", "%h src/deep %s"), ("filter.mine.clean", "git-src src -- %f")])
def test_what_is_no_program_stays_the_agents(host, key, value):
    configured(host, key, value)
    os.makedirs(host.path("src/deep"))
    host.sandbox.give(host.workspace)
    done = run(host, "echo x > src/one && echo x > src/deep/two && mkdir new")
    assert said(done) == [], done.stderr
    assert host.read("src/deep/two") == "x\n"


def test_a_command_of_which_only_the_shell_knows_all_is_warned_of(host):
    configured(host, "core.fsmonitor", "tools/$WHICH/fsm")
    git(host.workspace, "config", "alias.x", "!sh $WHICH")
    git(host.workspace, "config", "difftool.y.cmd", 'y "$LOCAL" "$REMOTE"')
    host.sandbox.file(host.path("tools/a/fsm"), "#!/bin/sh\n", 0o755)
    host.sandbox.give(host.workspace)
    done = tries(host, attack(host, "tools/a/fsm"))
    lines = [line for line in done.stderr.decode().splitlines() if "only a shell can expand" in line]
    assert len(lines) == 1 and "core.fsmonitor" in lines[0] and "alias" not in lines[0] and "difftool" not in lines[0], done.stderr
    # The folder above the part that is unknown is protected.
    assert host.read("tools/a/fsm") == "#!/bin/sh\n"


@pytest.mark.parametrize("value", ["PLACE/link/work/hk", "~/work/hk", "~/link/work/hk"])
@pytest.mark.parametrize("home", ["", "link"])
def test_a_hooks_folder_that_is_absent_can_be_made_by_no_name_of_it(host, value, home):
    configured(host, "core.hooksPath", value)
    home = os.path.join(host.sandbox.place, home)
    host.env["HOME"] = home
    host.sandbox.run("sh", "-c", attack(host, "hk/pre-commit", "hk/post-index-change"), workspace=host.workspace,
                     env=host.sandbox.environment(HOME=home))  # fmt: skip
    host.works()
    assert not os.path.exists(host.path("hk"))


def test_a_file_that_is_included_by_a_link_above_can_not_be_made(host):
    configured(host, "include.path", "PLACE/link/work/more.cfg")
    tries(host, write("more.cfg", host.config))
    host.works()


@pytest.mark.parametrize("value", ["WS/template", "~/link/work/template"])
def test_what_git_copies_into_each_new_repository_is_not_the_agents(host, value):
    configured(host, "user.name", "a")
    host.sandbox.file(host.path("template/hooks/x.sample"), "\n")
    settings(host, f"[init]\n\ttemplateDir = {value.replace('WS', host.workspace)}\n")
    host.sandbox.give(host.workspace)
    tries(host, attack(host, "template/hooks/post-index-change", "template/hooks/pre-commit"))
    git_ = host.git("init", "-q", "new")
    assert git_.returncode == 0, git_.stderr
    host.git("commit", "-q", "--allow-empty", "-m", "x", at="new")
    assert not os.path.exists(host.canary) and os.listdir(host.path("template/hooks")) == ["x.sample"]


# ---- repositories outside of the workspace ----


def around(host, value, key="core.fsmonitor"):
    """The workspace is a folder of a repository."""
    repository(host.sandbox, host.workspace)
    git(host.workspace, "config", key, value)
    os.makedirs(host.path("sub"), exist_ok=True)
    host.sandbox.give(host.workspace)
    return host.path("sub")


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("value", ["sub/tools/fsm", "$PWD/sub/tools/fsm", "./sub/x/../tools/fsm"])
def test_what_the_repository_around_a_workspace_runs_in_it_is_not_the_agents(host, value, there):
    sub = around(host, value)
    os.makedirs(os.path.join(sub, "x"))
    if there:
        host.sandbox.file(os.path.join(sub, "tools/fsm"), "#!/bin/sh\nexit 1\n", 0o755)
    host.sandbox.give(host.workspace)
    done = tries(host, attack(host, "tools/fsm"), workspace=sub)
    assert there or said(done), done.stderr
    host.works("sub")


def test_a_hook_of_the_repository_around_that_is_a_link_into_the_workspace_is_not_the_agents(host):
    sub = around(host, "a", "user.name")
    host.sandbox.file(os.path.join(sub, "hooks/one"), "#!/bin/sh\n", 0o755)
    for name, target in (("pre-commit", "one"), ("post-commit", "two")):
        os.symlink(os.path.join("../../sub/hooks", target), host.path(f".git/hooks/{name}"))
    host.sandbox.give(host.workspace)
    tries(host, attack(host, "hooks/one", "hooks/two"), workspace=sub)
    host.works("sub")


def elsewhere(host, how, per_tree):
    """A work tree in the workspace, whose repository lies outside of it. Its name."""
    tree = host.path("a")
    if how == "worktree":
        main = repository(host.sandbox, host.sandbox.folder("main"))
    else:
        main = tree
        git(host.workspace, "init", "-q", f"--separate-git-dir={host.sandbox.place}/apart", tree)
    for name in (".githooks/pre-commit", "scripts/clean.sh"):
        host.sandbox.file(os.path.join(main, name), "#!/bin/sh\nexit 0\n", 0o755)
    host.sandbox.file(os.path.join(main, ".gitattributes"), "*.c filter=mine\n")
    git(main, "add", "-A")
    git(main, "commit", "-qm", "hooks")
    if how == "worktree":
        git(main, "worktree", "add", "-q", tree)
    if per_tree:
        git(main, "config", "extensions.worktreeConfig", "true")
    for key, value in (("core.hooksPath", ".githooks"), ("filter.mine.clean", "./scripts/clean.sh"), ("core.fsmonitor", os.path.join(tree, "tools/fsm"))):
        git(tree if per_tree else main, "config", *(["--worktree"] if per_tree else []), key, value)
    host.sandbox.give(host.sandbox.place)
    return "a"


@pytest.mark.parametrize("how, per_tree, inner", [("worktree", False, False), ("worktree", True, False), ("separate", False, False),
                                                  ("worktree", False, True), ("separate", False, True)])  # fmt: skip
def test_a_work_tree_whose_repository_lies_outside_runs_nothing_of_the_agents(host, how, per_tree, inner):
    at = elsewhere(host, how, per_tree)
    prefix = "" if inner else at + "/"
    done = tries(host, attack(host, prefix + ".githooks/pre-commit", prefix + "scripts/clean.sh", prefix + "tools/fsm"),
                 f"echo > {prefix}f.c", workspace=host.path("a") if inner else None)  # fmt: skip
    assert len(said(done)) == 1, done.stderr
    host.works(at)
    assert host.read("a/.githooks/pre-commit") == "#!/bin/sh\nexit 0\n"
    host.keyhole("restore", *said(done))
    assert host.would_run(at), "that is no attack at all"


# What is at the end of such a file of $n bytes, and whether git takes it for the same path: as a .git file, and as a commondir.
ENDS = {
    "nothing": ("true", True, True),
    "line feeds": (r"printf '\n\n\n'", True, True),
    "both": (r"printf '\n\r\r\n'", True, True),
    "thousands of line feeds": ("yes '' | head -6000", True, True),
    "a mebibyte in all": ("yes '' | head -$((1048576 - n))", True, True),
    "more than that": ("yes '' | head -$((1048577 - n))", False, True),
    "a NUL": (r"printf '\0x'", True, True),
    "a NUL after the line": (r"printf '\n\0'", False, False),
    "a blank": (r"printf '\n '", False, False),
    "another line": (r"printf '\n#\n'", False, False),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["a/.git", ".git/worktrees/a/commondir"])
def test_however_a_file_that_leads_to_a_repository_ends_it_is_read_as_git_reads_it(host, name, end):
    """The agent makes a work tree of the user's repository, in which git runs a hook by a relative path."""
    repository(host.sandbox, host.workspace)
    git(host.workspace, "config", "core.hooksPath", ".githooks")
    host.sandbox.give(host.workspace)
    script, *follows = ENDS[end]
    made = f"git worktree add -q a; printf %s \"$(cat {name})\" > x; n=$(stat -c %s x); {{ {script}; }} >> x; cat x > {name}; rm x\n"
    asked = "git -C a rev-parse --git-common-dir 2>/dev/null || true\n"
    done = tries(host, made, asked, attack(host, "a/.githooks/pre-commit"))
    assert (done.stdout == f"{host.workspace}/.git\n".encode()) == follows[name != "a/.git"], done
    host.works("a")
    # Either git finds the repository there and not the hook, or it does not find the repository.
    names = [line.split(" was set aside")[0] for line in done.stderr.decode().splitlines() if "was set aside" in line]
    strange = end in ("a NUL", "a NUL after the line", "more than that", "a blank", "another line")
    assert any(line.endswith("/" + name) for line in names) == strange or name == "a/.git", done.stderr
    if not strange:
        assert len(names) == 1 and not os.path.exists(host.path("a/.githooks/pre-commit")), done.stderr


# ---- the same in a review ----


def canary_of(review):
    review.canary = os.path.join(review.sandbox.place, "canary")
    return f"cat > evil <<'END'\n{HOOK.format(canary=review.canary)}END\nchmod +x evil\n"


ABSENT = {
    "a relative command": ("./tools/fsm", "tools/fsm"),
    "a relative command of two words": ("sh tools/fsm", "tools/fsm"),
    "an absolute command": ("WS/tools/fsm", "tools/fsm"),
    "by $PWD": ("$PWD/tools/fsm", "tools/fsm"),
}


@pytest.mark.parametrize("how", ABSENT)
def test_an_absent_command_is_taken_over_only_where_it_is_named(sandbox, how):
    review = Review(sandbox)
    review.repository()
    value, name = ABSENT[how]
    review.git("config", "core.fsmonitor", value.replace("WS", review.work))
    review.agent(canary_of(review) + f"mkdir -p tools; mv evil {name}; echo x > plain")
    review.apply(check=1)
    review.git("status", check=None)
    assert not os.path.exists(review.canary) and review.contents() == {"plain": "x\n"}
    review.apply(name)
    assert name in review.contents()


def test_hooks_of_a_repository_to_come_are_taken_over_only_where_they_are_named(sandbox):
    review = Review(sandbox)
    review.repository()
    sandbox.file(os.path.join(sandbox.place, ".gitconfig"), "[core]\n\thooksPath = .githooks\n")
    environment = review.run_.environment
    review.run_.environment = lambda **more: {**environment(**more), "HOME": sandbox.place}
    review.agent(canary_of(review) + "mkdir -p dep/.githooks; mv evil dep/.githooks/pre-commit; echo x > dep/plain")
    review.apply(check=1)
    assert review.contents() == {"dep/plain": "x\n"}


def test_a_work_tree_whose_repository_lies_outside_is_known_to_a_review(sandbox):
    review = Review(sandbox)
    main = repository(sandbox, sandbox.folder("main"))
    sandbox.file(os.path.join(main, ".githooks/pre-commit"), "#!/bin/sh\nexit 0\n", 0o755)
    git(main, "add", "-A")
    git(main, "commit", "-qm", "hooks")
    git(main, "config", "core.hooksPath", ".githooks")
    git(main, "worktree", "add", "-q", os.path.join(review.work, "a"))
    sandbox.give(sandbox.place)
    review.agent(canary_of(review) + "mv evil a/.githooks/pre-commit; echo x > a/plain")
    review.apply(check=1)
    assert review.contents()["a/.githooks/pre-commit"] == "#!/bin/sh\nexit 0\n" and review.contents()["a/plain"] == "x\n"


# ---- root in somebody else's folder ----


@pytest.mark.identity("root")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("known", [True, False])
def test_root_knows_what_the_owner_of_the_workspace_has_git_run(sandbox, workspace, known):
    home = sandbox.folder("theirs")
    sandbox.file(os.path.join(home, ".gitconfig"), "[core]\n\thooksPath = .githooks\n")
    repository(sandbox, workspace)
    git(workspace, "config", "filter.mine.clean", "~/../work/tools/clean")
    with open("/etc/passwd", encoding="utf-8") as file:
        text = file.read() + (f"kh-owner:x:{USER}:{USER}::{home}:/bin/sh\n" if known else "")
    passwd = sandbox.file(os.path.join(sandbox.place, "passwd"), text)
    for above, folders, files in [*os.walk(workspace), *os.walk(home)]:
        for name in [".", *folders, *files]:
            os.lchown(os.path.join(above, name), USER, USER)
    script = "mkdir -p .githooks tools; echo evil > .githooks/pre-commit; echo evil > tools/clean"
    command = sandbox.command("sh", "-c", script, workspace=workspace)
    done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', passwd, *command],
                          capture_output=True, timeout=PATIENCE, env=sandbox.environment(), cwd="/", check=False)  # fmt: skip
    assert done.returncode != 125, done.stderr
    assert os.path.exists(os.path.join(workspace, ".githooks")) != known, done.stderr
    assert os.path.exists(os.path.join(workspace, "tools/clean")) != known, done.stderr
    assert (f"belongs to user {USER}".encode() in done.stderr) != known, done.stderr
