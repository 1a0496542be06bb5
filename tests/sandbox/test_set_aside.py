"""What an agent leaves for git on the host: after the run it is set aside, and the host's git runs nothing of the agent's."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest
from conftest import PATIENCE
from test_workspace import GIT, alive, git, repository

# What root's launcher does otherwise (another owner, another uid) is tried where it matters.
pytestmark = pytest.mark.identity("user")
AS_BOTH = pytest.mark.identity("root", "user")

# A configuration that has git run a command of the agent's as soon as it looks at the index.
EVIL = '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {canary}; false"\n'
# A repository that the agent makes by hand, under any name.
MAKE = "mkdir -p {d}/objects {d}/refs/heads && echo 'ref: refs/heads/main' > {d}/HEAD"


class Host:
    """The person who uses git in the workspace afterwards, with all that git may do there."""

    def __init__(self, sandbox, workspace):
        self.sandbox, self.workspace = sandbox, workspace
        self.canary = os.path.join(sandbox.place, "canary")
        self.config = EVIL.format(canary=self.canary)
        self.env = {**GIT, "HOME": os.path.join(sandbox.place, "host")}
        os.makedirs(self.env["HOME"], exist_ok=True)

    def git(self, *args, at=""):
        return subprocess.run(["git", "-C", os.path.join(self.workspace, at), *args], env=self.env, capture_output=True,
                              text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False)  # fmt: skip

    def works(self, *places):
        """Whatever git is asked here, it runs nothing of the agent's."""
        for place in ("", *places):
            for args in (["status"], ["diff"], ["log", "-1"], ["add", "-A"], ["commit", "-qm", "x"], ["checkout", "-q", "-b", "b"],
                         ["stash"], ["submodule", "status"], ["fetch", "--all"], ["gc", "--auto"]):  # fmt: skip
                self.git(*args, at=place)
        assert not os.path.exists(self.canary), "the host's git ran the agent's command"

    def would_run(self, at):
        """The attack is one: without keyhole this git would have run it."""
        self.git("status", at=at)
        self.git("add", "-A", at=at)
        found = os.path.exists(self.canary)
        if found:
            os.unlink(self.canary)
        return found

    def keyhole(self, *args, check=0):
        done = subprocess.run(self.sandbox.as_identity([os.path.join(self.sandbox.programs, "keyhole"), "workspace", *args]),
                              env=self.sandbox.environment(), capture_output=True, text=True, timeout=PATIENCE, cwd="/", check=False)  # fmt: skip
        assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    def path(self, name):
        return os.path.join(self.workspace, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()


@pytest.fixture
def host(sandbox, workspace):
    return Host(sandbox, workspace)


def said(done):
    """The command of each line about something that was set aside."""
    lines = [line for line in done.stderr.decode().splitlines() if "was set aside" in line]
    return [line.split("`keyhole workspace restore ")[1].split("`")[0] for line in lines]


def run(host, script, **options):
    return host.sandbox.run("sh", "-ec", script, workspace=host.workspace, check=0, git_name="agent", git_email="a@example.com",
                            **options)  # fmt: skip


def write(name, text):
    return f"mkdir -p $(dirname {name}) && cat > {name} <<'END'\n{text}\nEND\n"


# Each makes a repository of the agent's that host git finds, and says where a person would stand.
WAYS = {
    "a new .git": (lambda h: "git init -q sub && " + write("sub/.git/config", h.config), "sub"),
    "a gitlink added to the index": (
        lambda h: "git init -q sub && cd sub && git commit -q --allow-empty -m x && cd .. && git update-index --add --cacheinfo "
        "160000,$(git -C sub rev-parse HEAD),sub && " + write("sub/.git/config", h.config), ""),
    "a bare repository in a subfolder": (lambda h: MAKE.format(d="deep/er/x") + " && " + write(
        "deep/er/x/config", h.config + "\tbare = false\n\tworktree = " + h.workspace), "deep/er/x"),
    "a folder of .git/modules": (lambda h: MAKE.format(d=".git/modules/new") + " && " + write(".git/modules/new/config", h.config)
        + "mkdir sub && echo 'gitdir: ../.git/modules/new' > sub/.git", "sub"),
    "a gitdir: file to a folder of any name": (lambda h: MAKE.format(d="data/x") + " && " + write("data/x/config", h.config)
        + "mkdir sub && echo 'gitdir: ../data/x' > sub/.git", "sub"),
    "a worktree with a commondir": (lambda h: "mkdir -p sub/.git common/objects common/refs && echo 'ref: refs/heads/main' > sub/.git/HEAD "
        "&& echo ../../common > sub/.git/commondir && " + write("common/config", h.config), "sub"),
    "one below six folders": (lambda h: "mkdir -p a/b/c/d/e/f && git init -q a/b/c/d/e/f && " + write("a/b/c/d/e/f/.git/config", h.config),
        "a/b/c/d/e/f"),
    "another case of HEAD": (lambda h: MAKE.format(d="sub/.git") + " && " + write("sub/.git/config", h.config), "sub"),
    "config.worktree": (lambda h: "git init -q sub && git -C sub config extensions.worktreeConfig true && "
        + write("sub/.git/config.worktree", h.config), "sub"),
    "include.path": (lambda h: "git init -q sub && git -C sub config include.path ../../cfg && " + write("cfg", h.config), "sub"),
    "a filter under any name": (lambda h: f"git init -q sub && cd sub && git config filter.zz.clean 'touch {h.canary}; cat' "
        "&& echo '* filter=zz' > .gitattributes && echo > f", "sub"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_the_hosts_git_runs_nothing_of_a_repository_that_the_agent_made(host, way):
    script, place = WAYS[way]
    repository(host.sandbox, host.workspace)
    done = run(host, script(host))
    assert said(done), done.stderr
    subprocess.run(["cp", "-a", host.workspace, host.workspace + ".copy"], check=True, timeout=PATIENCE)
    host.works(place)
    shutil.rmtree(host.workspace)
    os.rename(host.workspace + ".copy", host.workspace)
    # It would have: brought back as the lines say, it does.
    host.keyhole("restore", *said(done))
    assert host.would_run(place), "that is no attack at all"


def test_a_repository_that_is_harmless_stays_as_it_is(host):
    other = repository(host.sandbox, host.sandbox.folder("work/origin"))
    done = run(host, f"git clone -q {other} dep && cd dep && git config user.name x && git checkout -q -b y && cd .. && "
                     "git clone -q --bare origin bare.git && git init -q new && cd new && git remote add o https://example.com/x.git && "
                     "git config branch.main.remote o && git config branch.main.merge refs/heads/main")  # fmt: skip
    assert said(done) == [], done.stderr
    assert "example.com" in host.read("new/.git/config")
    assert host.git("log", "--oneline", at="dep").stdout.count("\n") == 1
    assert os.path.isfile(host.path("bare.git/HEAD"))


@AS_BOTH
def test_of_a_repository_only_what_offends_is_set_aside(host):
    done = run(host, f"git init -q sub && cd sub && git config core.fsmonitor 'touch {host.canary}' && git remote add o https://example.com/x && "
                     f"printf '#!/bin/sh\\ntouch {host.canary}\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit && "
                     "echo x > f && git -c core.fsmonitor= add f && git -c core.fsmonitor= -c core.hooksPath=/dev/null commit -q -m x",
               )  # fmt: skip
    ids = said(done)
    assert len(ids) == 2, done.stderr
    assert "example.com" in host.read("sub/.git/config") and "fsmonitor" not in host.read("sub/.git/config")
    assert os.listdir(host.path("sub/.git/hooks")) and not os.path.exists(host.path("sub/.git/hooks/pre-commit"))
    host.works("sub")
    # Nobody else looks in, and both are listed and come back.
    listed = host.keyhole("set-aside")
    assert all(one in listed for one in ids) and "sub/.git/hooks/pre-commit" in listed
    for folder in ("set-aside", "set-aside/" + ids[0].split("/")[0], "set-aside/" + ids[0]):
        assert stat.S_IMODE(os.stat(os.path.join(host.sandbox.state(), folder)).st_mode) == 0o700
    host.keyhole("restore", ids[0].split("/")[0])
    assert "fsmonitor" in host.read("sub/.git/config") and os.access(host.path("sub/.git/hooks/pre-commit"), os.X_OK)
    assert host.keyhole("set-aside") == ""
    # What the host has brought back was there before the next run, which leaves it alone.
    assert said(run(host, "echo y > sub/f")) == []
    assert "fsmonitor" in host.read("sub/.git/config")


def test_the_name_of_what_was_set_aside_looks_like_no_reason_for_it(host):
    name = "x  it was a mistake\\"
    ids = said(run(host, f"mkdir '{name}' && echo {{}} > '{name}/.mcp.json'"))
    quoted = '"' + host.path(name).replace("\\", "\\\\") + '/.mcp.json"'
    assert host.keyhole("set-aside").startswith(f"{ids[0]}  {quoted}  ")
    assert host.keyhole("restore", ids[0]) == quoted + "\n"


HOOK = "#!/bin/sh\ntouch {canary}\n"


def hook(host, name):
    return write(name, HOOK.format(canary=host.canary)) + f"chmod +x {name}\n"


@pytest.mark.parametrize("value", [".githooks", "tools/hooks", ".githooks ; of the project", '".githooks"# no'])
def test_a_hooks_folder_that_does_not_exist_yet_can_not_be_made(host, value):
    repository(host.sandbox, host.workspace)
    with open(host.path(".git/config"), "a", encoding="utf-8") as file:
        file.write(f"[core]\n\thooksPath = {value}\n")
    folder = "tools/hooks" if "tools" in value else ".githooks"
    host.sandbox.run("sh", "-c", hook(host, folder + "/pre-commit"), workspace=host.workspace)
    host.works()


def test_a_hooks_folder_that_the_users_own_configuration_names_can_not_be_made(host):
    repository(host.sandbox, host.workspace)
    host.sandbox.file(os.path.join(host.sandbox.place, ".gitconfig"), "[core]\n\thooksPath = .githooks\n")
    shutil.copy(os.path.join(host.sandbox.place, ".gitconfig"), host.env["HOME"])
    host.sandbox.run("sh", "-c", hook(host, ".githooks/pre-commit"), workspace=host.workspace)
    host.works()
    assert not os.path.exists(host.path(".githooks"))


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_gits_configuration_includes_can_not_be_written(host, there):
    repository(host.sandbox, host.workspace)
    if there:
        host.sandbox.file(host.path("shared.cfg"), "[core]\n\tpager = cat\n")
    git(host.workspace, "config", "include.path", "../shared.cfg")
    git(host.workspace, "config", "includeIf.onbranch:other.path", "../other.cfg")
    host.sandbox.give(host.workspace)
    host.sandbox.run("sh", "-c", write("shared.cfg", host.config) + write("other.cfg", host.config) + "git checkout -q -b other",
                     workspace=host.workspace)  # fmt: skip
    host.works()
    assert os.path.exists(host.path("shared.cfg")) == there


def test_a_script_that_a_filter_runs_can_not_be_changed(host):
    repository(host.sandbox, host.workspace)
    host.sandbox.file(host.path("tools/clean"), "#!/bin/sh\nexec cat\n", 0o755)
    git(host.workspace, "config", "filter.mine.clean", "sh ./tools/clean %f")
    host.sandbox.give(host.workspace)
    host.sandbox.run("sh", "-c", hook(host, "tools/clean") + "echo '* filter=mine' > .gitattributes; echo > f",
                     workspace=host.workspace)  # fmt: skip
    host.works()


@pytest.mark.parametrize("renamed", ["HEAD", "objects", "refs"])
def test_what_was_renamed_between_two_runs_is_found_again(host, renamed):
    """Half a repository is none for git, and none to protect by its name either: it is known by its shape."""
    repository(host.sandbox, host.workspace)
    module = ".git/modules/new"
    run(host, MAKE.format(d=module) + f" && printf '[core]\n\trepositoryformatversion = 0\n' > {module}/config && "
              f"mv {module}/{renamed} {module}/aside && mkdir sub && mv {module} sub/m")  # fmt: skip
    done = host.sandbox.run("sh", "-c", write("sub/m/config", host.config) + f"mv sub/m {module}; mv {module}/aside {module}/{renamed}; "
                            f"mv sub/m/aside sub/m/{renamed}; echo 'gitdir: m' > sub/.git", workspace=host.workspace)  # fmt: skip
    host.works("sub", "sub/m")
    assert "touch" not in done.stderr.decode()


@pytest.mark.parametrize("link", [".git/logs/HEAD", ".git/refs/heads/x", ".git/objects/info", "new/.git/logs", "new/.git/config"])
def test_git_writes_through_no_link_that_the_agent_made(host, link):
    repository(host.sandbox, host.workspace)
    victim = host.sandbox.file(os.path.join(host.sandbox.place, "bashrc"), "mine\n")
    script = f"git init -q new; rm -rf {link}; ln -s {victim} {link}"
    done = host.sandbox.run("sh", "-c", script, workspace=host.workspace)
    assert len(said(done)) == 1, done.stderr
    assert not os.path.lexists(host.path(link))
    host.works("new")
    with open(victim, encoding="ascii") as file:
        assert file.read() == "mine\n"


def test_links_that_were_there_before_stay(host):
    repository(host.sandbox, host.workspace)
    os.symlink("../README", host.path(".git/note"))
    done = run(host, "ln -s README link; git add link; git commit -qm link")
    assert said(done) == [] and os.path.islink(host.path(".git/note")) and os.path.islink(host.path("link"))


@AS_BOTH
def test_sockets_and_files_that_run_as_somebody_else_are_set_aside(host):
    process = host.sandbox.start("sh", "-c", "python3 -c 'import socket; socket.socket(1).bind(\"agent.sock\")'; echo up; cat; exit 3",
                                 workspace=host.workspace, stdin=subprocess.PIPE)  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    # The filter lets nobody inside do this.
    os.chmod(host.sandbox.file(host.path("tool"), "x", 0o755), 0o4755)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(host.path("host.sock"))
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    names = {line.split(" was set aside")[0].rsplit("/", 1)[1] for line in err.decode().splitlines() if "set aside" in line}
    assert names == {"agent.sock", "tool", "host.sock"}, err
    assert not os.path.exists(host.path("tool"))
    for line in host.keyhole("set-aside").splitlines():
        if line.split()[1].endswith("/tool"):
            host.keyhole("restore", line.split()[0])
    assert stat.S_IMODE(os.stat(host.path("tool")).st_mode) == 0o755


def test_objects_of_another_repository_and_a_rebase_that_runs_commands_are_set_aside(host):
    repository(host.sandbox, host.workspace)
    todo = ".git/rebase-merge/git-rebase-todo"
    done = run(host, "mkdir -p .git/rebase-merge && git clone -q . dep && git clone -qs dep shared && echo /root/private/.git/objects > "
                     f".git/objects/info/alternates && echo 'exec touch {host.canary}' > {todo}")  # fmt: skip
    assert len(said(done)) == 2, done.stderr
    assert not os.path.exists(host.path(todo)) and not os.path.exists(host.path(".git/objects/info/alternates"))
    assert os.path.exists(host.path("shared/.git/objects/info/alternates"))


@AS_BOTH
def test_after_a_launcher_was_killed_the_next_run_surveys(host):
    check_killed(host, lambda: host.sandbox.run("true", workspace=host.workspace, check=0).stderr.decode())


def test_after_a_launcher_was_killed_the_workspace_can_be_surveyed(host):
    assert "nothing is set aside" in verb(host, "set-aside").stderr
    check_killed(host, lambda: verb(host, "survey").stderr)


def verb(host, *words):
    return subprocess.run(host.sandbox.as_identity([os.path.join(host.sandbox.programs, "keyhole"), "workspace", *words]), cwd="/",
                          env=host.sandbox.environment(), capture_output=True, text=True, timeout=PATIENCE, check=True)  # fmt: skip


def check_killed(host, survey):
    process = host.sandbox.start("sh", "-c", "git init -q sub; " + write("sub/.git/config", host.config) + "echo up; exec sleep 300.125",
                                 workspace=host.workspace)  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    end = time.monotonic() + PATIENCE
    while alive(b"sleep\x00300.125\x00") and time.monotonic() < end:
        time.sleep(0.01)
    # Until then nobody takes an empty list for all. The run lives as long as its init, which ends after the command.
    while "`keyhole workspace survey`" not in (done := verb(host, "set-aside")).stderr:
        assert time.monotonic() < end, done.stderr
        time.sleep(0.05)
    assert done.stdout == ""
    assert "set aside" in survey()
    done = verb(host, "set-aside")
    assert "sub/.git/config" in done.stdout and done.stderr == ""
    host.works("sub")
    assert sorted(os.listdir(host.workspace)) == ["sub"]


@AS_BOTH
def test_what_could_not_be_surveyed_is_said_and_surveyed_later(host):
    """A folder that is closed to everybody: a user can't look in, and root is stopped by nothing."""
    if host.sandbox.identity == "root":
        deep = "/".join(["d"] * 300)
        script = f"mkdir -p {deep}"
    else:
        script = "mkdir closed && git init -q closed/sub && chmod 0 closed"
    done = run(host, script)
    assert b"was not surveyed completely" in done.stderr and b"keyhole workspace survey" in done.stderr
    host.keyhole("survey", check=1)
    if host.sandbox.identity == "root":
        shutil.rmtree(host.path("d"))
    else:
        os.chmod(host.path("closed"), 0o755)
    host.keyhole("survey")
    host.keyhole("survey")


@AS_BOTH
def test_overlapping_runs_leave_nothing_behind(host):
    """Also where the first ends last, and the second had taken the first one's stubs for the project's own."""
    names = {}
    for order in ("first", "last"):
        processes = [host.sandbox.start("sh", "-c", "echo up; exec cat", workspace=host.workspace, stdin=subprocess.PIPE)]
        assert processes[0].stdout.readline() == b"up\n"
        os.makedirs(host.path("inner"), exist_ok=True)
        host.sandbox.give(host.path("inner"))
        for place in (host.workspace, host.workspace, host.path("inner")):
            processes.append(host.sandbox.start("sh", "-c", "echo up; exec cat", workspace=place, stdin=subprocess.PIPE))
            assert processes[-1].stdout.readline() == b"up\n", processes[-1].stderr.read()
        for process in processes if order == "first" else reversed(processes):
            process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
        names[order] = [os.path.join(folder, n) for folder, ds, fs in os.walk(host.workspace) for n in ds + fs]
    assert names == {"first": [host.path("inner")], "last": [host.path("inner")]}


def test_what_an_overlapping_run_left_is_judged_by_what_was_there_before_both(host):
    """The second run finds the first agent's repository there, and must not take it for the user's."""
    first = host.sandbox.start("sh", "-c", "git init -q sub; " + write("sub/.git/config", host.config) + "echo up; exec cat",
                               workspace=host.workspace, stdin=subprocess.PIPE)  # fmt: skip
    assert first.stdout.readline() == b"up\n"
    second = host.sandbox.start("sh", "-c", "echo up; exec cat", workspace=host.workspace, stdin=subprocess.PIPE)
    assert second.stdout.readline() == b"up\n"
    _, err = first.communicate(timeout=PATIENCE)
    assert b"shares a folder" in err and b"set aside" not in err
    _, err = second.communicate(timeout=PATIENCE)
    assert b"fsmonitor" in err and b"set aside" in err
    host.works("sub")


@AS_BOTH
def test_a_link_in_place_of_an_inner_workspace_leads_the_survey_nowhere(host):
    """An agent in the folder above puts it there, while the survey of the inner one waits for its end."""
    victim = host.sandbox.folder("victim")
    for name, text in ((".git/HEAD", "ref: refs/heads/main\n"), (".git/config", host.config), (".git/hooks/pre-push", "#!/bin/sh\n"),
                       (".vscode/tasks.json", "{}"), (".claude/settings.json", "{}")):  # fmt: skip
        host.sandbox.file(os.path.join(victim, name), text, 0o755)
    os.makedirs(os.path.join(victim, ".git/objects"))
    os.makedirs(os.path.join(victim, ".git/refs"))
    host.sandbox.give(victim)
    before = {path: open(path, "rb").read() for folder, _, files in os.walk(victim) for path in (os.path.join(folder, f) for f in files)}
    os.makedirs(host.path("sub"))
    host.sandbox.give(host.workspace)
    script = f"echo up; read go; mv sub sub2 && ln -s {victim} sub; echo done"
    outer = host.sandbox.start("sh", "-c", script, workspace=host.workspace, stdin=subprocess.PIPE)
    assert outer.stdout.readline() == b"up\n"
    inner = host.sandbox.run("sh", "-ec", "git init -q r; " + write("r/.git/config", host.config), workspace=host.path("sub"), check=0)
    assert b"shares a folder" in inner.stderr
    out, err = outer.communicate(b"go\n", timeout=PATIENCE)
    assert out == b"done\n", (out, err)
    assert b"not the folder any more" in err
    after = {path: open(path, "rb").read() for folder, _, files in os.walk(victim) for path in (os.path.join(folder, f) for f in files)}
    assert after == before
    # What was left in the folder that was moved away is found by the survey of the one around it.
    assert b"sub2/r" in err and b"set aside" in err
    host.works("sub2/r")


@AS_BOTH
def test_in_an_empty_workspace_a_repository_can_be_begun(host):
    done = run(host, "git init -q && echo x > f && git add f && git commit -q -m x && git remote add origin https://example.com/x.git && "
                     "git checkout -q -b other && git config branch.other.remote origin && git config branch.other.merge refs/heads/other")  # fmt: skip
    assert said(done) == [], done.stderr
    assert host.git("log", "--format=%s").stdout == "x\n" and "example.com" in host.git("remote", "-v").stdout
    assert sorted(os.listdir(host.workspace)) == [".git", "f"]


def test_and_one_that_runs_something_is_set_aside_there_too(host):
    done = run(host, "git init -q && " + write(".git/config", host.config) + hook(host, ".git/hooks/post-checkout"))
    assert len(said(done)) == 2, done.stderr
    host.works()


def test_a_linked_worktree_that_the_agent_made_stays(host):
    repository(host.sandbox, host.workspace)
    done = run(host, "git worktree add -q wt")
    assert said(done) == [], done.stderr
    assert host.git("status", "--short", at="wt").stdout == "" and "wt" in host.git("worktree", "list").stdout


MADE = [".yarnrc.yml", ".cargo/config.toml", "x.code-workspace", ".aider.conf.yml", "crush.json", "lefthook-local.yml", "lefthook.yml",
        ".lefthook-local.yaml", "mise.toml", ".mise.local.toml", ".config/mise.toml", ".config/mise/config.toml", ".github/hooks/h.json",
        ".crush.json", "app/.cursor/hooks.json", "app/.zed/tasks.json", "app/.idea/w.xml", "app/.devcontainer/devcontainer.json",
        ".hg/hgrc", ".jj/repo/config.toml", "app/.devcontainer.json", "x.sublime-project", ".fleet/run.json", "app/.theia/tasks.json",
        ".warp/mcp.json", ".vim/coc-settings.json", "app/.bundle/config", "app/.claude/settings.json", "app/.mcp.json", "app/.vscode/tasks.json",
        ".corepack.env", ".lefthook/pre-commit/x.sh", ".lefthook-local/pre-commit/x.sh", ".lefthook-local.toml", "hk.local.pkl",
        ".config/hk.local.pkl", "PklProject", ".dir-locals-2.el", ".gdbinit", ".lldbinit", "bunfig.toml", "app/lint-staged.config.mjs",
        "commitlint.config.ts", ".commitlintrc.yml", ".simple-git-hooks.cjs", "grumphp.yml.dist", "app/.direnv/flake-profile-1.rc",
        "devbox.json", ".lazy.lua", "jupyter_server_config.py", "rust-analyzer.toml", "app/renv/activate.R", ".github/mcp.json",
        ".github/copilot/settings.json", ".mux/init", "app/.config/mise/config.toml", "app/mise/config.toml",
        "_opam/.opam-switch/environment", "app/.ruby-version", ".perl-version", "app/.sdkmanrc", ".php-version", "gtags.conf", ".globalrc", ".phpdbginit", "app/.ctags.d/x.ctags", ".ctags",
        ".lite_project.lua", ".valgrindrc", ".mc.menu", ".jdbrc", ".neoconf.json", ".nano-staged.json", "nano-staged.js", ".cz-config.js",
        ".quickhook/pre-commit/x.sh", ".solargraph.yml", ".bloop/app.json", ".factorypath", ".kateproject",
        "ols.json", "app/omnisharp.json", "app/.settings/language.settings.xml", ".tm_properties", "app/_vimrc_local.vim", ".vimrc.local",
        ".rbenv-vars"]  # fmt: skip
# The project's own code, although a tool may load it: what the page says that is left out on purpose.
PROJECT = ["Makefile", "package.json", "pnpm-workspace.yaml", "eslint.config.js", ".eslintrc.js", ".prettierrc.cjs", ".rubocop.yml",
           "conftest.py", "tsconfig.json", ".pylintrc", ".perltidyrc", "CVS/Entries", ".config/irbs/x", "build.rs", "gradle/wrapper/gradle-wrapper.properties", "mix.exs", ".bazelrc", "uv.toml",
           "global.json", "config.nims", ".python-version", ".config/nextest.toml", "app/.config/x.toml", ".venv/bin/activate", ".pnp.cjs", "flake.nix", "shell.nix", "AGENTS.md", "renv/settings.json",
           ".settings/org.eclipse.core.resources.prefs",
           ".github/workflows/ci.yml"]  # fmt: skip


def test_what_tools_run_things_from_is_set_aside_where_the_agent_made_it(host):
    done = run(host, "".join(write(name, "evil") for name in MADE))
    assert len(said(done)) == len(MADE), done.stderr
    assert not any(os.path.exists(host.path(name)) for name in MADE)
    host.keyhole("restore", *said(done))
    assert [host.read(name) for name in MADE] == ["evil\n"] * len(MADE)
    done = host.sandbox.run("sh", "-c", "".join(write(name, "worse") for name in MADE), workspace=host.workspace)
    assert said(done) == [] and [host.read(name) for name in MADE] == ["evil\n"] * len(MADE)


def test_what_is_the_project_itself_stays(host):
    done = run(host, "".join(write(name, "mine") for name in PROJECT))
    assert said(done) == [], done.stderr
    assert [host.read(name) for name in PROJECT] == ["mine\n"] * len(PROJECT)


@pytest.mark.parametrize("option", ["ro", "workspace_ro", "home", "workspace"])
def test_what_was_set_aside_is_shown_to_no_sandbox(host, option):
    """Nor the notes on runs: neither as a whole nor in parts, whatever the folder is given as."""
    assert len(said(run(host, write("sub/.envrc", "evil")))) == 1
    state = os.path.join(host.sandbox.place, "state")
    found = {os.path.basename(above): above for above, _, _ in os.walk(state)}
    for seen in (state, found["set-aside"], found["1"], found["workspaces"]):
        if option == "workspace":
            host.sandbox.give(seen)
        done = host.sandbox.run("true", **{option: seen})
        assert done.returncode == 125 and b"would see it" in done.stderr, (seen, done)


def test_no_environment_file_is_shown_however_many_files_there_are(host):
    """More than a survey once looked at, made by the agent in the run before."""
    host.sandbox.file(host.path("z/.env"), "KEY=value")
    host.sandbox.file(host.path("a/b/c/d/e/f/.env"), "KEY=value")
    host.sandbox.give(host.workspace)
    run(host, "mkdir 0 && cd 0 && seq 1 9000 | xargs touch")
    done = host.sandbox.run("sh", "-c", "cat z/.env a/b/c/d/e/f/.env", workspace=host.workspace, mask_env="yes", check=0)
    assert done.stdout == b""


def test_where_not_all_can_be_looked_at_nothing_starts(host):
    os.makedirs(host.path("/".join(["d"] * 300)))
    host.sandbox.give(host.workspace)
    for options in ({"workspace": host.workspace}, {"workspace_ro": host.workspace}):
        done = host.sandbox.run("true", check=125, mask_env="yes", **options)
        assert b"not all of it could be looked at" in done.stderr and b"nested too deep" in done.stderr


def test_what_was_set_aside_is_no_workspaces_to_see(host):
    done = host.sandbox.run("true", workspace=host.workspace, check=125, state=host.path("state"))
    assert b"the sandbox would see it" in done.stderr


@AS_BOTH
def test_no_program_that_the_agent_put_on_the_hosts_path_is_run(sandbox, workspace):
    """People have folders of a project on their PATH (node_modules/.bin); the launcher runs nothing from there."""
    canary = os.path.join(sandbox.place, "canary")
    folder = sandbox.folder(os.path.join(workspace, "bin"))
    for name in ("git", "bwrap", "crun", "runc", "diff", "newuidmap", "newgidmap", "sh", "skopeo", "umoci"):
        sandbox.file(os.path.join(folder, name), f"#!/bin/sh\necho {name} >>{canary}\nexit 1\n", 0o755)
    path = folder + ":" + os.environ["PATH"]
    done = sandbox.run("true", workspace=workspace, env=sandbox.environment(PATH=path))
    assert done.returncode == 0, done.stderr
    assert not os.path.exists(canary)
