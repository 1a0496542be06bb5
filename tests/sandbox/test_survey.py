"""The survey of a workspace: what an agent makes of folders, shapes and links hides nothing from it."""

import os
import shutil
import socket

import pytest
from test_set_aside import AS_BOTH, MADE, host, hook, run, said, verb, write  # noqa: F401 (host is a fixture)
from test_workspace import git, protected_names, repository

pytestmark = [pytest.mark.identity("user"), pytest.mark.before_the_engine]


# ---- folders that can be listed and not entered ----


@pytest.mark.parametrize("mode", [0o444, 0o455, 0o644])
def test_a_folder_that_can_be_listed_and_not_entered_hides_no_file_of_secrets(host, mode):
    host.sandbox.file(host.path("api/.env"), "KEY=value")
    host.sandbox.give(host.workspace)
    done = run(host, f"chmod {mode:o} api", mask_env="yes")
    assert b"was not surveyed completely" in done.stderr and b"/api: it can't be read" in done.stderr
    done = host.sandbox.run("sh", "-c", "chmod 0755 api; cat api/.env", workspace=host.workspace, mask_env="yes", check=125)
    assert done.stdout == b"" and b"/api: it can't be read" in done.stderr
    os.chmod(host.path("api"), 0o755)
    assert run(host, "cat api/.env", mask_env="yes").stdout == b""


@pytest.mark.parametrize("mode", [0o444, 0o455])
def test_a_repository_in_such_a_folder_is_set_aside_once_it_can_be_entered(host, mode):
    made = "git init -q shut/sub && " + write("shut/sub/.git/config", host.config) + hook(host, "shut/sub/.git/hooks/post-index-change")
    done = run(host, made + f"chmod {mode:o} shut")
    assert b"was not surveyed completely" in done.stderr
    host.keyhole("survey", check=1)
    os.chmod(host.path("shut"), 0o755)
    assert verb(host, "survey").stderr.count("was set aside") == 2
    host.works("shut/sub")


@pytest.mark.parametrize("option", ["ro", "home"])
def test_a_socket_of_the_host_in_such_a_folder_is_not_passed_over(host, option):
    """In the other trees that are mounted, whose walk is another."""
    tree = host.sandbox.folder("tree")
    os.mkdir(os.path.join(tree, "shut"))
    os.mkdir(os.path.join(tree, "shut/deep"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(tree, "shut/deep/s"))
    host.sandbox.give(tree)
    os.chmod(os.path.join(tree, "shut"), 0o444)
    done = host.sandbox.run("true", check=125, **{option: tree})
    assert b"looking for sockets and set-ID files in" in done.stderr and b"/shut" in done.stderr
    os.chmod(os.path.join(tree, "shut"), 0o755)
    assert b"shut/deep/s is a socket of the host" in host.sandbox.run("true", check=0, **{option: tree}).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_a_folder_of_another_user_that_the_agent_could_not_enter_either_stops_nothing(host):
    os.mkdir(host.path("theirs"))
    host.sandbox.file(host.path("theirs/f"))
    os.chown(host.path("theirs"), 0, 0)
    os.chmod(host.path("theirs"), 0o744)
    run(host, "true")


# ---- names that count ----


def test_each_protected_name_counts_in_every_folder(host):
    """A workspace may hold several projects, and each of them has a top of its own."""
    names = protected_names(absent_too=False)
    assert len(names) > 60 and {".envrc", "lefthook.yaml", ".pre-commit-config.yaml", "x.code-workspace", "$irbrc", ".jedi", ".pdm-python", ".gitreview"} <= set(names)
    for name in names:
        host.sandbox.file(host.path(f"mine/{name}"), "mine\n")
        host.sandbox.give(host.path("mine"))
    tried = "".join(f"(echo evil > 'mine/{name}') 2>/dev/null && echo '{name}'; echo evil > 'new/deep/{name.swapcase()}'\n" for name in names)
    done = run(host, "mkdir -p new/deep\n" + tried + "true")
    assert done.stdout == b"" and [host.read(f"mine/{name}") for name in names] == ["mine\n"] * len(names)
    assert len(host.keyhole("set-aside").splitlines()) >= len(names) and os.listdir(host.path("new/deep")) == []
    assert len(said(done)) == min(len(names), 100), "the others are counted"


# ---- shapes of repositories ----


@pytest.mark.parametrize("shape", ["mkdir objects refs", "mkdir objects refs hooks && echo 'ref: refs/heads/main' > HEAD"])
def test_no_shape_of_a_repository_takes_a_name_out_of_the_survey(host, shape):
    made = [name for name in MADE if not name.startswith((".git", ".hg"))]
    done = run(host, shape + "\n" + "".join(write(name, "evil") for name in made))
    assert len(said(done)) == len(made), done.stderr
    assert not any(os.path.exists(host.path(name)) for name in made)


def test_no_shape_of_a_repository_opens_what_was_protected_in_the_next_run(host):
    names = ["sub/.vscode/tasks.json", "sub/.claude/settings.json", "sub/.mcp.json"]
    for name in names:
        host.sandbox.file(host.path(name), "mine\n")
    host.sandbox.give(host.workspace)
    run(host, "mkdir objects refs sub/objects sub/refs")
    host.sandbox.run("sh", "-c", "".join(f"echo evil > {name}; " for name in names), workspace=host.workspace)
    assert [host.read(name) for name in names] == ["mine\n"] * 3


GITLINK = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),vendor/lib"


@pytest.mark.parametrize("link", ["mkdir vendor; ln -s /opt vendor/lib", "ln -s /opt vendor"], ids=["at-it", "above-it"])
@pytest.mark.parametrize("split", ["", "git update-index --split-index; "], ids=["", "split"])
def test_a_link_in_the_place_of_a_submodule_is_set_aside(host, link, split):
    """git enters it, wherever it leads: `git status` would run what is configured there."""
    repository(host.sandbox, host.workspace)
    host.sandbox.give(host.workspace)
    assert not said(run(host, link))
    done = run(host, f"{split}{GITLINK}")
    assert len(said(done)) == 1 and b"in the place of a submodule" in done.stderr, done.stderr
    assert not os.path.lexists(host.path("vendor/lib"))


def test_a_link_in_the_place_of_a_submodule_that_was_there_before_stays(host):
    repository(host.sandbox, host.workspace)
    os.makedirs(host.path("vendor"))
    os.symlink("/opt", host.path("vendor/lib"))
    git(host.workspace, "update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + ",vendor/lib")
    host.sandbox.give(host.workspace)
    assert not said(run(host, "echo x > x; git add x"))
    assert os.path.islink(host.path("vendor/lib"))


def test_a_submodule_that_a_split_index_has_in_the_place_of_a_file_counts(host):
    """git writes its entry without a name, which is in the shared index, where it is a file's."""
    repository(host.sandbox, host.workspace)
    host.sandbox.file(host.path("lib"), "x")
    git(host.workspace, "add", "lib")
    host.sandbox.give(host.workspace)
    done = run(host, "git update-index --split-index; git update-index --cacheinfo 160000,$(git rev-parse HEAD),lib; rm lib; ln -s /opt lib")
    assert len(said(done)) == 1 and b"in the place of a submodule" in done.stderr, done.stderr
    assert not os.path.lexists(host.path("lib"))


@pytest.mark.parametrize("at", ["pkg/vendor/lib", "pkg/vendor"])
def test_the_submodules_of_a_repository_around_the_workspace_count(host, at):
    repository(host.sandbox, host.workspace)
    os.makedirs(host.path("pkg/vendor/lib"))
    for path in ("pkg/vendor/lib", "pkg2/x", "lib"):
        git(host.workspace, "update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + "," + path)
    os.symlink("/opt", host.path("pkg/lib"))
    host.sandbox.give(host.workspace)
    top, host.workspace = host.workspace, host.path("pkg")
    done = run(host, f"rm -r {at[4:]}; ln -s /opt {at[4:]}; ln -s /opt x")
    assert len(said(done)) == 1 and b"in the place of a submodule" in done.stderr, done.stderr
    assert not os.path.lexists(os.path.join(top, at)) and os.path.islink(host.path("x")) and os.path.islink(host.path("lib"))


def test_no_number_of_folders_that_lead_to_one_large_index_holds_up_the_survey(host):
    repository(host.sandbox, host.workspace)
    host.sandbox.give(host.workspace)
    code = """
import os, struct
entry = bytes(24) + struct.pack('>I', 0o100644) + bytes(32) + struct.pack('>H', 9) + b'some/name' + bytes(1)
with open('.git/index', 'wb') as file: file.write(b'DIRC' + struct.pack('>II', 2, 800000) + entry * 800000 + bytes(20))
for i in range(1500):
    os.mkdir(f'd{i}')
    with open(f'd{i}/.git', 'w') as file: file.write('gitdir: ../.git\\n')
"""
    host.sandbox.file(host.path("make.py"), code)
    done = run(host, "/usr/bin/python3 -I make.py; mkdir -p z/z/z; mkfifo z/z/z/z")
    assert b"completely" not in done.stderr, done.stderr
    assert not os.path.lexists(host.path("z/z/z/z"))


# Into a folder that editors are not opened in; what is found through the link is a project.
INLETS = {
    "relative": "ln -s ../node_modules/.x/app packages/app",
    "absolute": "ln -s $PWD/node_modules/.x/app packages/app",
    "a link to a link": "ln -s ../node_modules/y packages/app; ln -s .x/app node_modules/y",
    "an absolute one within": "ln -s ../node_modules/y packages/app; ln -s $PWD/node_modules/.x/app node_modules/y",
    "of the folder above": "rmdir packages; ln -s node_modules/.x packages",
    "a git folder": "mv node_modules/.x .git/; ln -s ../.git/.x/app packages/app",
}


@pytest.mark.parametrize("way", INLETS)
def test_a_link_into_node_modules_ends_the_exemption_where_it_leads(host, way):
    repository(host.sandbox, host.workspace)
    host.sandbox.file(host.path("packages/app/index.js"), "1\n")
    host.sandbox.give(host.workspace)
    done = run(host, "mkdir -p node_modules/.x node_modules/p/.vscode; mv packages/app node_modules/.x/; " + INLETS[way] + "\n"
               + write("packages/app/.claude/settings.json", "evil") + write("packages/app/sub/.vscode/tasks.json", "evil"))  # fmt: skip
    assert len(said(done)) == 2, done.stderr
    assert os.path.isfile(host.path("packages/app/index.js"))
    assert not os.path.exists(host.path("packages/app/.claude")) and not os.path.exists(host.path("packages/app/sub/.vscode"))
    assert os.path.isdir(host.path("node_modules/p/.vscode"))


# The same folder, spelled as no comparison of texts knows it. Each says what ends up in which folder below node_modules.
SPELLINGS = {
    "two slashes": "ln -s /$PWD/node_modules/x app",
    "up and down again": "ln -s $PWD/../$(basename $PWD)/node_modules/x app",
    "out and back in": "ln -s ../$(basename $PWD)/node_modules/x app",
    "out and back in on the way": "ln -s ../$(basename $PWD) back; ln -s back/node_modules/x app",
    "/proc/self/root": "ln -s /proc/self/root$PWD/node_modules/x app",
    "/proc/self/cwd": "ln -s /proc/self/cwd/node_modules/x app",
    "/proc/self/cwd on the way": "ln -s /proc/self/cwd here; ln -s here/node_modules/x app",
    "a link that is found there": "ln -s node_modules/y app; mkdir node_modules/y; ln -s ../x node_modules/y/src",
    "one below that": "ln -s node_modules/y app; mkdir node_modules/y node_modules/z; ln -s ../z node_modules/y/z; ln -s ../x node_modules/z/x",
}


@pytest.mark.parametrize("way", SPELLINGS)
def test_no_spelling_of_a_link_into_node_modules_keeps_the_exemption(host, way):
    done = run(host, "mkdir -p node_modules/x\n" + SPELLINGS[way] + "\n" + write("node_modules/x/deep/.vscode/tasks.json", "evil"))
    assert len(said(done)) == 1, done.stderr
    # What is there, or a link that leads where the program that follows it has it (test_outlets.py).
    assert os.path.exists(host.path("node_modules/x/deep/.vscode")) == way.startswith("/proc")
    assert not os.path.exists(host.path("app/deep/.vscode"))


def test_where_a_link_leads_that_another_process_follows_elsewhere_nothing_is_exempt(host):
    """The whole of node_modules and .git, at any depth, and before a run as after it."""
    host.sandbox.file(host.path("node_modules/mine/.claude/settings.json"), "mine\n")
    os.symlink("/proc/self/cwd/node_modules/mine", host.path("app"))
    host.sandbox.give(host.workspace)
    done = run(host, "! echo evil > node_modules/mine/.claude/settings.json\n" + write("node_modules/a/node_modules/b/.vscode/tasks.json", "evil"))
    assert len(said(done)) == 1 and b"Read-only file system" in done.stderr, done.stderr
    assert host.read("node_modules/mine/.claude/settings.json") == "mine\n"


# They lead into nothing that is exempt, and some through what the user may not look into.
@pytest.mark.parametrize("target", ["/root", "/root/x", "/proc/self/mounts", "/dev/stdin", "/usr/bin/python3", "/nowhere/node_modules/x", "loop", "..", "."])
def test_a_link_that_leads_elsewhere_leaves_packages_alone(host, target):
    done = run(host, f"ln -s {target} link; ln -s loop loop; " + write("node_modules/x/.vscode/tasks.json", "theirs"))
    assert said(done) == [], done.stderr
    assert host.read("node_modules/x/.vscode/tasks.json") == "theirs\n"


def test_what_a_link_into_node_modules_showed_before_is_read_only(host):
    host.sandbox.file(host.path("node_modules/app/.claude/settings.json"), "mine\n")
    os.symlink("node_modules/app", host.path("app"))
    host.sandbox.give(host.workspace)
    done = host.sandbox.run("sh", "-c", "echo evil > app/.claude/settings.json", workspace=host.workspace)
    assert b"Read-only file system" in done.stderr
    assert host.read("node_modules/app/.claude/settings.json") == "mine\n" and said(done) == []


NAMES = [".vilerc", "sub/.nexrc", ".trunk/trunk.yaml", ".nlsp-settings/lua.json", ".scilab", "sub/scilab.ini", ".git/arc/config", "sub/.hg/arc/config",
         ".bzr/branch/branch.conf", "sub/.bzr/branch/branch.conf", ".lintstagedrc", "sub/.lintstagedrc.mjs", "sub/.gitlint", ".czrc", ".prototools", ".miserc.toml", ".bsp/x", ".ropeproject/x", ".grok/x", ".iflow/x", ".codebuddy/x", ".vibe/x", "gptme.toml", "codebuff.json", ".autoenv.zsh", ".rvmrc", ".lvimrc", ".dir-locals.el", ".overcommit.yml", ".yarn/releases/yarn.cjs", "sub/.yarn/plugins/x.cjs", "keyhole.yaml", ".keyhole/keyhole.yaml", "sub/keyhole.yaml", ".git/lazygit.yml", ".lazygit.yml", ".repo/repo/main.py", ".pijul/config", ".Renviron", ".irbrc", ".pryrc", ".exrc", ".nvimrc",
         ".nvim.lua", "prek.toml", ".pre-commit-config.yml", ".amazonq/x", ".kilocode/x", ".trae/x", ".junie/x", ".openhands/x", ".vs/x",
         *("sub/" + name for name in (".codex/x", ".gemini/x", ".opencode/x", ".windsurf/x", ".kiro/x", ".roo/x", ".continue/x", ".qwen/x",
                                      ".cargo/config.toml", "mise.toml", "mise.local.toml", ".mise.toml", ".irbrc", ".exrc")),
         *(folder + name for folder in ("", "sub/") for name in (".vimrc", ".pdbrc", ".mvn/jvm.config", ".ghci", ".RData", ".octaverc", ".ocamlinit", ".iex.exs",
                                                                 ".externalToolBuilders/x", ".amp/settings.json", ".gitlab/duo/mcp.json", ".pi/extensions/x")),
         *("sub/" + name for name in ("opencode.json", "opencode.jsonc", "crush.json", ".crush.json", ".aider.conf.yml", "rust-toolchain.toml",
                                      "rust-toolchain", ".yarnrc", ".yarnrc.yml", ".lazygit.yml"))]  # fmt: skip


def test_names_that_tools_run_something_from_are_set_aside(host):
    repository(host.sandbox, host.workspace)
    host.sandbox.give(host.workspace)
    done = run(host, "".join(write(name, "evil") for name in NAMES))
    assert len(said(done)) == len(NAMES), done.stderr
    assert [name for name in NAMES if os.path.exists(host.path(name))] == []


def test_another_spelling_of_a_folder_that_is_exempt_exempts_nothing(host):
    names = ["NODE_MODULES/app/.envrc", "Node_Modules/.exrc", "sub/node_moduleS/a/.vscode/tasks.json", "sub/.GIT/.envrc"]
    done = run(host, "".join(write(name, "evil") for name in [*names, "node_modules/a/.envrc"]))
    assert len(said(done)) == len(names), done.stderr
    assert [name for name in names if os.path.exists(host.path(name))] == [] and host.read("node_modules/a/.envrc") == "evil\n"


def test_repositories_whose_long_paths_slow_the_start_are_named(host):
    long = "x" * 250
    deep = f"import os\nfor i in range(14):\n    os.mkdir({long!r}); os.chdir({long!r})\n"
    deep += "for i in range(20):\n    [os.makedirs(f'{i}/{n}') for n in ('objects', 'refs')]; open(f'{i}/HEAD', 'w').close()\n"
    done = host.sandbox.run("/usr/bin/python3", "-c", deep, workspace=host.workspace, check=0)
    assert b"the start takes long" not in done.stderr
    done = host.sandbox.run("true", workspace=host.workspace, check=0)
    assert b"the start takes long" in done.stderr and f"is below {host.workspace}/xxx".encode() in done.stderr, done.stderr


SHAPE = "mkdir -p $d/objects $d/refs && echo 'ref: refs/heads/main' > $d/HEAD; printf '[core]\\n\\tbare = true\\n' > $d/config"


def test_repositories_that_the_agent_made_crowd_out_none(host):
    """As many as can be protected besides the one at the top, and all of them found before it in a walk."""
    repository(host.sandbox, host.workspace)
    host.sandbox.give(host.workspace)
    run(host, f"for i in $(seq 1 62); do d=r$i; {SHAPE}; done")
    done = host.sandbox.run("sh", "-c", "echo ../r1 > .git/commondir; " + hook(host, ".git/hooks/post-index-change")
                            + write(".git/config", host.config), workspace=host.workspace)  # fmt: skip
    assert b"Read-only file system" in done.stderr
    host.works()
    assert not os.path.exists(host.path(".git/hooks/post-index-change"))


def test_more_repositories_than_can_be_protected_are_refused_with_what_to_do(host):
    repository(host.sandbox, host.workspace)
    host.sandbox.give(host.workspace)
    run(host, f"for i in $(seq 1 70); do d=r$i; {SHAPE}; done")
    done = host.sandbox.run("sh", "-c", "echo ../r1 > .git/commondir", workspace=host.workspace, check=125)
    assert b"more than 64 repositories" in done.stderr and b"remove what an agent made" in done.stderr
    for i in range(1, 71):
        shutil.rmtree(host.path(f"r{i}"))
    run(host, "true")


# ---- links ----

INNER = ["CVS/Root", ".config/irb", ".cargo/config.toml", ".hg/hgrc", "sub/.hg/hgrc", ".config/lefthook.yml", ".config/mise", ".github/hooks", "mise/config.toml",
         ".sl/config", "sub/_darcs/prefs/defaults", ".bzr/branch/branch.conf", ".clinerules/hooks"]  # fmt: skip


def test_a_link_in_the_place_of_a_name_that_tools_run_is_set_aside(host):
    done = run(host, "echo evil > evil; " + "".join(f"mkdir -p $(dirname {name}); ln -s $PWD/evil {name}; " for name in INNER))
    assert len(said(done)) == len(INNER), done.stderr
    assert not any(os.path.lexists(host.path(name)) for name in INNER)


FOLDERS = [".cargo", ".bzr", ".hg", ".github", ".config", ".sl", "sub/.hg", "_darcs", ".clinerules"]


def test_a_link_in_the_place_of_a_folder_with_such_names_is_set_aside(host):
    done = run(host, "mkdir sub; " + "".join(f"mkdir t{i}; echo evil > t{i}/config.toml; ln -s $PWD/t{i} {name}; " for i, name in enumerate(FOLDERS)))
    assert len(said(done)) == len(FOLDERS), done.stderr
    assert not any(os.path.lexists(host.path(name)) for name in FOLDERS)


@pytest.mark.parametrize("there", [True, False])
def test_where_such_a_link_of_the_users_leads_nothing_can_be_put(host, there):
    os.symlink("conf", host.path(".cargo"))
    if there:
        host.sandbox.file(host.path("conf/x"))
        host.sandbox.give(host.workspace)
    done = host.sandbox.run("sh", "-c", "mkdir -p conf; echo evil > conf/config.toml", workspace=host.workspace)
    assert b"the protected" in done.stderr and b".cargo leads there" in done.stderr
    assert not os.path.exists(host.path("conf/config.toml")) and os.path.islink(host.path(".cargo"))


# ---- names ----

MORE = [".yarnrc", "rust-toolchain.toml", "rust-toolchain", ".helix/languages.toml", "sub/.helix/languages.toml", ".sl/config", "sub/.sl/config",
        "_darcs/prefs/defaults", ".clinerules/hooks/PreToolUse", ".factory/settings.json", ".Rprofile", "sub/.Rprofile", "mise/config.local.toml",
        ".npmrc", "sub/.npmrc", ".pnpmfile.cjs", ".tool-versions", "sub/.tool-versions", ".perldb", ".rdbgrc", ".psysh.php", ".augment/settings.json", "hk.pkl",
        ".pi/settings.json", ".pi/mcp.json", ".p4config", ".gclient", "CVS/Root", "sub/CVS/Root", ".config/irb/irbrc", "sub/.config/irb/irbrc",
        ".fossil-settings/th1-setup", ".jedi/project.json"]  # fmt: skip


def test_more_names_that_tools_run_things_from_are_set_aside_and_stay_as_the_user_has_them(host):
    done = run(host, "".join(write(name, "evil") for name in MORE))
    assert len(said(done)) == len(MORE), done.stderr
    host.keyhole("restore", *said(done))
    host.sandbox.run("sh", "-c", "".join(write(name, "worse") for name in MORE), workspace=host.workspace)
    assert [host.read(name) for name in MORE] == ["evil\n"] * len(MORE)


def test_the_configuration_of_sapling_in_a_git_folder_is_set_aside(host):
    repository(host.sandbox, host.workspace)
    done = run(host, write(".git/sl/config", "[hooks]\npre-status = touch x"))
    assert len(said(done)) == 1 and not os.path.exists(host.path(".git/sl/config")), done.stderr


def test_branches_and_modules_of_a_repository_are_no_such_names(host):
    repository(host.sandbox, host.workspace)
    done = run(host, "git branch mise.toml && git branch x/rust-toolchain && mkdir -p .git/modules/.vscode && git init -q --bare .git/modules/.vscode/m")
    assert said(done) == [], done.stderr
    assert "mise.toml" in git(host.workspace, "branch")


# ---- many, and what git runs by other names ----


def test_of_many_things_that_are_set_aside_a_hundred_have_a_line_and_the_rest_are_counted(host):
    done = run(host, "for i in $(seq 1 250); do mkdir $i && echo x > $i/.mcp.json; done")
    assert len(said(done)) == 100 and b"150 more were set aside" in done.stderr
    assert len(host.keyhole("set-aside").splitlines()) == 250


def test_of_many_pipes_and_sockets_a_hundred_are_kept_and_the_rest_are_removed(host):
    """Nothing is in them; each that is kept costs time and 12 KiB of keyhole's state."""
    done = run(host, "seq 1 2500 | xargs mkfifo")
    assert len(said(done)) == 100 and b"2400 more sockets, named pipes and devices were removed" in done.stderr
    assert os.listdir(host.workspace) == [] and len(host.keyhole("set-aside").splitlines()) == 100


@pytest.mark.parametrize("alias", ["!./al.sh", "!sh al.sh", "!f() { tools/al.sh; }; f"])
def test_a_script_that_an_alias_of_gits_runs_can_not_be_changed(host, alias):
    repository(host.sandbox, host.workspace)
    for name in ("al.sh", "tools/al.sh"):
        host.sandbox.file(host.path(name), "#!/bin/sh\ntrue\n", 0o755)
    git(host.workspace, "config", "alias.zz", alias)
    host.sandbox.give(host.workspace)
    host.sandbox.run("sh", "-c", hook(host, "al.sh") + hook(host, "tools/al.sh"), workspace=host.workspace)
    host.git("zz")
    assert not os.path.exists(host.canary), "the host's git ran the agent's command"


def test_what_an_alias_for_git_itself_names_can_be_changed(host):
    repository(host.sandbox, host.workspace)
    git(host.workspace, "config", "alias.zz", "log -- README")
    host.sandbox.give(host.workspace)
    run(host, "echo more >> README")


@AS_BOTH
def test_no_mode_that_the_agent_set_lets_other_users_replace_what_is_protected(host):
    repository(host.sandbox, host.workspace)
    repository(host.sandbox, host.sandbox.folder("work/sub"))
    os.mkdir(host.path("shared"))
    git(host.path("shared"), "init", "-q")
    host.sandbox.give(host.workspace)
    os.chmod(host.path("shared"), 0o777)
    done = run(host, "chmod 0777 . .git sub sub/.git; git init -q new; chmod 0777 new/.git")
    assert done.stderr.count(b"could be written to by every user") == 5, done.stderr
    modes = {name: os.stat(host.path(name)).st_mode & 0o777 for name in (".", ".git", "sub", "sub/.git", "new/.git", "shared")}
    assert modes.pop("shared") == 0o777, "which was so before"
    assert set(modes.values()) == {0o775}, modes


@AS_BOTH
@pytest.mark.parametrize("workspace_too", [True, False])
def test_no_mode_that_the_agent_set_opens_a_kept_home_to_other_users(host, workspace_too):
    home = host.sandbox.folder("agent-home")
    options = {"workspace": host.workspace} if workspace_too else {}
    for before, after in ((0o755, 0o775), (0o777, 0o777)):
        os.chmod(home, before)
        done = host.sandbox.run("chmod", "0777", "/home/agent", home=home, check=0, **options)
        assert os.stat(home).st_mode & 0o777 == after, done.stderr
        assert done.stderr.count(b"could be written to by every user") == (before != after), done.stderr


def test_of_more_pipes_than_are_set_aside_none_stays_in_a_folder_that_is_read_only(host):
    """.gitignore would have git wait for ever."""
    done = run(host, "for i in $(seq 110); do mkfifo p$i; done; mkdir -p a/deep; mkfifo a/deep/.gitignore; chmod 555 a/deep a")
    assert not os.path.lexists(host.path("a/deep/.gitignore"))
    assert len(said(done)) == 100 and b"11 more sockets, named pipes and devices were removed" in done.stderr


# ---- names that a file system may take for others ----


@pytest.mark.parametrize("path", ["r/.v\u017fcode/tasks.json", "r/.git/hook\u017f/post-checkout", "r/.git/con\ufb01g.worktree", "r/.g\u200cit", "r/.env\u200crc",
                                  "shaped/hook\u017f/post-checkout"])  # fmt: skip
def test_a_name_that_a_file_system_may_take_for_one_that_counts_is_set_aside(host, path):
    """As Linux does in a folder with casefold, by Unicode's rules."""
    shaped = "mkdir -p shaped/object\u017f shaped/ref\u017f; echo ref: refs/heads/x > shaped/HEAD\n"
    done = run(host, f"mkdir -p r {os.path.dirname(path)}\n{shaped}echo 'evil = 1' > {path}; chmod +x {path}")
    assert done.stderr.count(b"was set aside") == 1, done.stderr


def test_a_folder_is_not_made_to_take_one_name_for_another(host):
    """FS_IOC_SETFLAGS with FS_CASEFOLD_FL, and the same by FS_IOC_FSSETXATTR."""
    code = """
import errno, fcntl, os, struct
os.mkdir('empty')
fd = os.open('empty', os.O_RDONLY)
for request in (0x40086602, 0x40046602, 0x401C5820):
    try: fcntl.ioctl(fd, request, struct.pack('QQQQ', 0x40000000, 0, 0, 0)); print('done')
    except OSError as e: print(e.errno == errno.EOPNOTSUPP)
"""
    host.sandbox.file(host.path("flags.py"), code)
    assert run(host, "/usr/bin/python3 -I flags.py").stdout.split() == [b"True"] * 3
