"""`keyhole run` as a whole: private daemon, sandbox, and what is left of them."""

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import time

import pytest
from conftest import PATIENCE, USER

KEY = "sk-ant-api03-" + secrets.token_urlsafe(69)


class Run:
    """`keyhole run` of one identity, with a state folder and a runtime folder of its own."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.state = sandbox.folder("state", 0o700)
        self.runtime = sandbox.folder("runtime", 0o755)
        self.keyhole = os.path.join(sandbox.programs, "keyhole")

    def environment(self, **more):
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.sandbox.place,
            "XDG_STATE_HOME": self.state, "XDG_RUNTIME_DIR": self.runtime,
            # Or all runs of root's share the host's.
            "STATE_DIRECTORY": os.path.join(self.state, "keyhole"),
            "RUNTIME_DIRECTORY": self.runtime,
            "KEYHOLE_PRESETS": os.path.join(self.sandbox.programs, "policies"),
            "ANTHROPIC_API_KEY": KEY, **self.sandbox.words(), **more,
        }  # fmt: skip

    def command(self, *args, use="anthropic"):
        chosen = ["--use", use] if use else []
        return self.sandbox.as_identity([self.keyhole, "run", *chosen, *args])

    def __call__(self, *args, check=None, env=None, use="anthropic", cwd="/", input=None, **more):
        done = subprocess.run(
            self.command(*args, use=use), input=input if input is not None else "",
            capture_output=True, text=True, timeout=PATIENCE, check=False,
            env=env or self.environment(**more), cwd=cwd,
        )  # fmt: skip
        assert KEY not in done.stdout + done.stderr, "the real key was shown"
        if check is not None:
            assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done

    def start(self, *args, use="anthropic", **more):
        return subprocess.Popen(
            self.command(*args, use=use), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=self.environment(**more), cwd="/",
        )  # fmt: skip

    def folders(self):
        """Of runs that are on, or were left."""
        return [os.path.join(self.runtime, name) for name in os.listdir(self.runtime)]

    def journals(self):
        folder = os.path.join(self.state, "keyhole", "audit")
        return [os.path.join(folder, n) for n in os.listdir(folder)] if os.path.isdir(folder) else []


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


def descendants(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                for child in file.read().split():
                    found += [int(child), *descendants(child)]
    return found


def cmdline(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return None


def gone(pids):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.02)
    return False


# --- what it does ---------------------------------------------------------------------------------


def test_the_sandbox_gets_a_placeholder_in_the_shape_of_the_key(run):
    done = run("--", "sh", "-c", "env -0; cat /proc/self/environ; grep -rs . /run /etc/keyhole", check=0)
    value = re.search(r"ANTHROPIC_API_KEY=(\S+?)\0", done.stdout)[1]
    assert value.startswith("sk-ant-api03-") and len(value) == len(KEY) and value != KEY


def test_at_the_end_one_line_says_what_happened(run):
    done = run("--", "true", check=0)
    assert done.stdout == ""
    line = re.fullmatch(r"keyhole: 0 requests allowed, 0 refused; journal (\S+)\n", done.stderr)
    assert line, done.stderr
    assert run.journals() == [line[1]]
    assert os.stat(line[1]).st_mode & 0o777 == 0o600
    verified = subprocess.run(
        [run.keyhole, "audit", "verify", line[1]], capture_output=True, timeout=PATIENCE, check=False
    )
    assert verified.returncode == 0, verified.stdout
    assert run("-q", "--", "true", check=0).stderr == ""


def test_calls_and_denials_are_counted(run):
    script = (
        "curl -s -o /dev/null -w '%{http_code}\n' https://example.com/; "
        "curl -s -o /dev/null -w '%{http_code}\n' https://other.example/; "
        "curl -s -o /dev/null http://keyhole.internal/; curl -s -o /dev/null http://keyhole.internal/none"
    )
    done = run("--", "sh", "-c", script, check=0)
    assert done.stdout == "403\n403\n"
    assert re.match(r"keyhole: 0 requests allowed, 2 refused; journal \S+\n", done.stderr), done.stderr


@pytest.mark.parametrize("end", ["", "/", "/."])
@pytest.mark.parametrize("option", ["--workspace", "--ro", "--home", "--rootfs"])
def test_a_link_as_the_workspace_is_named_with_where_it_leads(run, sandbox, workspace, option, end):
    """An agent of an earlier run, in the folder above, could have made it."""
    link = os.path.join(sandbox.place, "link")
    os.symlink(workspace, link)
    warning = f"{option} {link}{end}: warning: {link} is a symbolic link, and the sandbox gets what it leads to: {workspace}"
    check = None if option == "--rootfs" else 0
    assert warning in str(run(option, link + end, "--", "true", check=check).stderr)
    assert "symbolic link" not in str(run(option, workspace, "--", "true", check=check).stderr)


@pytest.mark.parametrize("option, how", [("--workspace", ""), ("--workspace", ":ro"), ("--workspace", ":review"), ("--ro", ""), ("--home", "")])
def test_a_link_on_the_way_to_the_workspace_is_named_too(run, sandbox, option, how):
    sandbox.folder("private/app")
    sandbox.folder("mono")
    link = os.path.join(sandbox.place, "mono/packages")
    os.symlink("../private", link)
    sandbox.give(sandbox.place)
    for given, cwd in ((os.path.join(link, "app"), "/"), ("packages/app", os.path.join(sandbox.place, "mono"))):
        done = run(option, given + how, "--", "true", check=0, cwd=cwd)
        real = os.path.join(sandbox.place, "private/app")
        assert f"{option} {given}: warning: {link} is a symbolic link, and the sandbox gets what it leads to: {real}" in done.stderr, done.stderr


@pytest.mark.parametrize("option, where", [("--workspace", "home"), ("--ro", "home"), ("--home", "home"), ("--ro", "workspace"), ("--home", "workspace")])
def test_no_link_where_an_agent_may_write_leads_to_what_a_sandbox_is_given(run, sandbox, option, where):
    """In a home of an earlier run, and in a workspace of this one."""
    held, private = sandbox.folder("held"), sandbox.folder("private/app")
    sandbox.folder("held/d")
    link = os.path.join(held, "d/packages")
    os.symlink(os.path.dirname(private), link)
    os.symlink(held, os.path.join(sandbox.place, "inward"))
    sandbox.give(sandbox.place)
    words = ["--workspace", held] if where == "workspace" else []
    if where == "home":
        run("--home", held, "--", "true", check=0)
    for given in (link, os.path.join(sandbox.place, "inward/d/packages/../private")):
        done = run(*words, option, given + "/app", "--", "true", check=125)
        assert f"{option}: {link} is a symbolic link that an agent could have made" in done.stderr, done.stderr
        assert f"name what it leads to: {private})" in done.stderr
    run(*words, option, private, "--", "true", check=0)


OWN = {"images": "own/.cache/keyhole", "reviews": "state/keyhole/review"}


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("up", [1, 2])
@pytest.mark.parametrize("option, how", [("--workspace", ""), ("--home", ""), ("--workspace", ":ro"), ("--ro", "")])
def test_no_agent_makes_a_folder_of_keyholes_where_it_is_absent(run, sandbox, own, up, option, how):
    """The next run would take what is in there for an image, or for a review."""
    path = os.path.join(sandbox.place, OWN[own])
    folder = os.path.join(path, *[".."] * up)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    sandbox.give(sandbox.place)
    more = {"XDG_CACHE_HOME": os.path.join(sandbox.place, "own/.cache"), "STATE_DIRECTORY": os.path.join(sandbox.place, "elsewhere")}
    written = not how and option != "--ro"
    done = run(option, os.path.realpath(folder) + how, "--", "true", **more)
    if written or own == "reviews":
        assert done.returncode == 125, done.stderr
        assert "the sandbox would see it" in done.stderr or "where the agent may write" in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr
    assert not os.path.exists(path)


def test_links_of_the_system_are_not_named(run):
    done = run("--ro", "/bin/sh", "--ro", "/var/run/../lib", "--ro", "/proc/self/cwd/usr/share", "--", "true")
    assert "symbolic link" not in done.stderr, done.stderr


def test_a_mistyped_way_to_see_a_workspace_is_named(run):
    done = run("--workspace", f"{run.state}:reviw", "--", "true", check=125)
    assert "what may follow the colon is ro, review, review=new or review=ID" in done.stderr


def test_a_proxy_of_ones_own_is_not_dropped_in_silence(run):
    done = run("--env", "HTTPS_PROXY=http://x", "--", "sh", "-c", "echo $HTTPS_PROXY", check=0)
    assert "HTTPS_PROXY: warning: keyhole sets this variable itself" in done.stderr and done.stdout != "http://x\n"


def test_the_journal_can_be_chosen_and_is_continued(run):
    journal = os.path.join(run.state, "chosen.jsonl")
    for _ in range(2):
        done = run("--audit", journal, "--", "curl", "-s", "-o", "/dev/null", "https://example.com/")
        assert "0 requests allowed, 1 refused" in done.stderr, done.stderr
    with open(journal, encoding="utf-8") as file:
        events = [json.loads(line)["event"] for line in file]
    assert events.count("deny") == 2 and events.count("start") == 2
    missing = os.path.join(run.state, "nope", "deep", "x.jsonl")
    done = run("--audit", missing, "--", "true", check=None)
    folder = os.path.dirname(missing) + "/"
    assert done.returncode != 0 and f"the folder {folder}: No such file or directory (make it first: mkdir -p {folder})" in done.stderr
    assert not os.path.exists(os.path.join(run.state, "nope"))
    assert run("--audit", "relative.jsonl", "--", "true", cwd=run.state, check=0)
    assert os.path.exists(os.path.join(run.state, "relative.jsonl"))


def test_where_the_proxy_can_not_start_the_command_is_not_started(run, sandbox):
    journal = os.path.join(run.state, "none.jsonl")
    sandbox.file(journal, "garbage\n", 0o600)
    done = run("--audit", journal, "--", "sh", "-c", "echo ran", check=125)
    assert done.stdout == "" and "does not carry a valid hash" in done.stderr
    assert done.stderr.endswith("keyhole: the command was not started: the proxy ended before it was ready\n")
    with open(journal, encoding="utf-8") as file:
        assert file.read() == "garbage\n"


@pytest.mark.parametrize("status", [0, 1, 42, 125])
def test_the_exit_status_is_the_commands(run, status):
    run("--", "sh", "-c", f"exit {status}", check=status)


def test_a_command_that_is_not_there_is_127_and_says_so(run):
    done = run("--", "no-such-command", check=127)
    assert done.stderr.startswith("keyhole: no-such-command: No such file or directory (no such program")
    assert "did you mean" not in done.stderr
    done = run("--", "cluade", check=127)
    assert "no such program on the PATH, here or in the sandbox: did you mean claude?)" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "name, content, mode, status, says",
    [
        ("not-there", None, 0, 127, "--workspace and --ro"),
        ("without-its-interpreter", "#!/nowhere/sh\n", 0o755, 127, "interpreter of its first line"),
        ("not-executable", "#!/bin/sh\n", 0o644, 126, "chmod +x"),
    ],
)
def test_a_command_that_can_not_be_executed_is_one_line_with_what_to_do(run, workspace, sandbox, name, content, mode, status, says):  # fmt: skip
    if content is not None:
        sandbox.file(os.path.join(workspace, name), content, mode)
    done = run("-q", "--workspace", workspace, "--", "./" + name, check=status)
    assert done.stderr.startswith(f"keyhole: ./{name}: ") and says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_command_that_fails_on_a_file_of_the_folder_is_told_of_the_workspace(run, sandbox):
    folder = sandbox.folder("project")
    sandbox.file(os.path.join(folder, "src/main.c"), "x\n")
    sandbox.give(folder)
    hint = "is on the host, and this run has no workspace: --workspace . shows the current folder to the command"
    for name in ("src/main.c", os.path.join(folder, "src/main.c")):
        assert f"keyhole: run: {name} {hint}\n" in run("--", "cat", name, check=1, cwd=folder).stderr
    # It did not fail, names no such file, has a workspace, or nobody wants to hear.
    for words in (["--", "echo", "src/main.c"], ["--", "cat", "src/other.c"], ["--", "cat", "/etc/passwd", "/not-there"],
                  ["--workspace", ".", "--", "grep", "y", "src/main.c"], ["-q", "--", "cat", "src/main.c"]):  # fmt: skip
        assert hint not in run(*words, cwd=folder).stderr, words
    assert run("--workspace", ".", "--", "cat", "src/main.c", cwd=folder, check=0).stdout == "x\n"


def test_a_tool_of_the_hosts_is_shown_by_itself_and_can_be_shown_with_its_folder(run, sandbox):
    tools = sandbox.folder("tools")
    tool = sandbox.file(os.path.join(tools, "only-on-the-host"), "#!/bin/sh\necho here\n", 0o755)
    path = f"/usr/bin:/bin:{tools}"
    done = run("--", "only-on-the-host", check=0, PATH=path)
    assert done.stdout == "here\n" and f"the sandbox sees {tool}, read-only" in done.stderr
    assert run("--", "sh", "-c", "only-on-the-host", check=127, PATH=path).stdout == ""
    assert run("-q", "--ro", tools, "--", tool, check=0).stdout == "here\n"


def test_input_output_and_error_pass(run):
    done = run("-q", "--", "sh", "-c", "cat; echo err >&2", input="hello", check=0)
    assert (done.stdout, done.stderr) == ("hello", "err\n")


def test_the_git_identity_passes_in_and_nothing_else_of_gits_settings(run):
    config = os.path.join(run.sandbox.place, ".gitconfig")
    run.sandbox.file(config, '[user]\n\tname = A \\"B\\" C\n\temail = a@example.com\n'
                             "[credential]\n\thelper = store\n")  # fmt: skip
    done = run("-q", "--", "git", "config", "--list", check=0)
    assert done.stdout.splitlines() == ['user.name=A "B" C', "user.email=a@example.com"]


def test_the_git_identity_is_there_where_a_program_hides_gits_settings_and_gives_way_to_a_repositorys(run):
    """As Gemini CLI does for the commands that it runs."""
    run.sandbox.file(os.path.join(run.sandbox.place, ".gitconfig"), '[user]\n\tname = "Ann: B & C, D"\n\temail = a@example.com\n')
    hidden = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1; "
    commit = "git commit -q --allow-empty -m x && git log -1 --format='%an <%ae>'"
    script = f"cd && git init -q . && {commit} && {hidden} {commit} && git config user.name Other && {commit}; cut -d: -f5- /etc/passwd"
    done = run("-q", "--", "sh", "-c", script, check=0)
    assert done.stdout.splitlines() == [
        "Ann: B & C, D <a@example.com>", "Ann B  C D <a@example.com>", "Other <a@example.com>",
        "root:/root:/bin/sh", "Ann B  C D:/home/agent:/bin/sh", "nobody:/nonexistent:/bin/false",
    ]  # fmt: skip
    assert run("-q", "--env", "EMAIL=b@example.com", "--", "sh", "-c", "echo $EMAIL", check=0).stdout == "b@example.com\n"


def test_variables_are_set_or_passed_when_asked(run):
    done = run("-q", "--env", "A=1", "--env", "B", "--", "sh", "-c", "echo $A $B $C", B="2", C="3")
    assert done.stdout == "1 2\n"


def test_a_real_key_that_is_passed_is_warned_about(run):
    def said(*words, **more):
        done = run("-q", *words, "--", "true", check=0, **more)
        return [line for line in done.stderr.splitlines() if "--env" in line]

    assert said("--env", "OPENAI_API_KEY", OPENAI_API_KEY="sk-x") == [
        "keyhole: --env OPENAI_API_KEY: warning: the sandbox gets the real key (--use openai gives it a placeholder instead)"
    ]
    assert said("--env", "OPENAI_API_KEY=made-up", OPENAI_API_KEY="sk-x") == said("--env", "B", B="2") == []


def test_home_is_made_and_kept(run):
    home = os.path.join(run.sandbox.place, "agents", "one")
    run("-q", "--home", home, "--", "sh", "-c", "echo x > ~/kept", check=0)
    assert run("-q", "--home", home, "--", "cat", "kept", check=0).stdout == "x\n"


# --- the key --------------------------------------------------------------------------------------


def test_the_key_is_wiped_from_the_launchers_environment(run):
    process = run.start("--", "sh", "-c", "echo up; exec sleep 300")
    try:
        assert process.stdout.readline() == b"up\n"
        # The kernel's list may miss a child while another one ends; one that has ended shows nothing.
        seen, end = set(), time.monotonic() + 60
        while len(seen) < 5 and time.monotonic() < end:
            for pid in [process.pid, *descendants(process.pid)]:
                with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):
                    seen.add(pid)
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        assert KEY.encode() not in file.read(), (pid, cmdline(pid))
        assert len(seen) >= 5
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_keys_own_variable_can_not_be_passed(run):
    for text in ("ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY=x", "ANTHROPIC_AUTH_TOKEN=x"):
        done = run("--env", text, "--", "true", check=125)
        assert "placeholder" in done.stderr


def test_a_missing_key_is_named(run):
    env = run.environment()
    del env["ANTHROPIC_API_KEY"]
    done = run("--", "true", env=env, check=125)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        assert name in done.stderr, done.stderr
    assert run.folders() == []


# --- a configuration ------------------------------------------------------------------------------


def configuration(run, folder, **more):
    """In a folder that the sandbox is not given."""
    path = os.path.join(folder, "keyhole.yaml")
    config = {
        "version": 1,
        "authority": {"certificate": "ca.pem", "key": "ca.key"},
        "audit": {"file": "audit.jsonl"},
        "tenants": {"one": {"rules": [{"allow": "https://one.test"}]}},
        **more,
    }
    return run.sandbox.file(path, json.dumps(config))


def test_a_file_is_used_its_ca_is_made_and_its_journal_written(run):
    folder = run.sandbox.folder("conf", 0o700)
    path = configuration(run, folder)
    done = run("-c", path, "--", "cat", "/etc/keyhole/ca.pem", use=None, check=0)
    with open(os.path.join(folder, "ca.pem"), encoding="ascii") as file:
        assert file.read() == done.stdout
    assert os.stat(os.path.join(folder, "ca.key")).st_mode & 0o777 == 0o600
    assert os.path.exists(os.path.join(folder, "audit.jsonl"))


def test_a_run_trusts_its_own_tenants_ca_alone(run):
    rules = {"rules": [{"allow": "https://one.test"}]}
    folder = run.sandbox.folder("conf", 0o700)
    path = configuration(run, folder, tenants={"one": rules, "two": rules},
                         authority={"certificate": "ca.pem", "key": "ca.key", "per_tenant": True})  # fmt: skip
    for tenant in ("two", "one"):
        done = run("-c", path, "--tenant", tenant, "--", "cat", "/etc/keyhole/ca.pem", use=None, check=0)
        with open(os.path.join(folder, f"ca.key.tenants/{tenant}.pem"), encoding="ascii") as file:
            assert file.read() == done.stdout
        if tenant == "two":
            assert sorted(os.listdir(os.path.join(folder, "ca.key.tenants"))) == ["two.key", "two.pem"]
    mounted = os.path.join(folder, "ca.key.tenants")
    done = run("-c", path, "--tenant", "one", "--ro", mounted, "--", "true", use=None, check=125)
    assert "would see it" in done.stderr, done.stderr


def test_the_last_line_counts_an_address_that_is_refused_as_refused_and_says_how_many_requests_failed(run):
    """Both have an open record: the address is judged, and the server asked, after it."""
    rules = [{"allow": "http://10.1.2.3"}, {"allow": "http://127.0.0.1:9"}]
    path = configuration(run, run.sandbox.folder("conf", 0o700), tenants={"one": {"rules": rules}},
                         upstream={"allow_addresses": ["127.0.0.1/32"]})  # fmt: skip
    script = "for at in 10.1.2.3 127.0.0.1:9; do curl -s -o /dev/null -w '%{http_code} ' --noproxy '' http://$at/; done"
    done = run("-c", path, "--", "sh", "-c", script, use=None, check=None)
    assert done.stdout == "403 502 ", (done.stdout, done.stderr)
    assert "keyhole: 1 request allowed (1 failed), 1 refused; journal" in done.stderr, done.stderr


def test_of_several_tenants_one_must_be_named(run):
    rules = {"rules": [{"allow": "https://one.test"}]}
    path = configuration(run, run.sandbox.folder("conf", 0o700), tenants={"one": rules, "two": rules})
    done = run("-c", path, "--", "true", use=None, check=125)
    assert "--tenant" in done.stderr and "one, two" in done.stderr
    run("-c", path, "--tenant", "two", "--", "true", use=None, check=0)
    assert "no such tenant" in run("-c", path, "--tenant", "x", "--", "true", use=None, check=125).stderr


def test_every_error_of_a_configuration_is_shown(run):
    path = os.path.join(run.sandbox.folder("conf", 0o700), "keyhole.yaml")
    run.sandbox.file(path, "version: 1\nauthorty: {}\ntenants: { a: { rulez: [] } }\n")
    done = run("-c", path, "--", "true", use=None, check=125)
    assert "2:1" in done.stderr and "authority" in done.stderr and "rulez" in done.stderr


@pytest.mark.parametrize("home", ["work", ".", "work/inner", "alias"])
def test_a_home_and_a_workspace_may_not_overlap(run, sandbox, home):
    """What is protected in the workspace could be written to by its name in the home."""
    work = sandbox.folder("work")
    sandbox.folder("work/inner")
    os.symlink(work, os.path.join(sandbox.place, "alias"))
    for how in ("", ":ro", ":review"):
        done = run("-q", "--home", os.path.join(sandbox.place, home), "--workspace", work + how, "--", "true")
        assert done.returncode == 125 and "one of it and the workspace is in the other" in done.stderr, done


HOMES = {
    "the home": (".", "--workspace", ""),
    "the home in a review": (".", "--workspace", ":review"),
    "a folder above": ("..", "--workspace", ""),
    "a link to it": ("../link", "--workspace", ""),
    "a home for the agent": (".", "--home", ""),
}


@pytest.mark.parametrize("which", HOMES)
def test_a_home_folder_is_never_the_agents_to_write_to(run, sandbox, which):
    """Nobody can list what shells and logins start in there."""
    name, option, how = HOMES[which]
    home = sandbox.folder("all/mine")
    os.symlink("mine", os.path.join(sandbox.place, "all/link"))
    folder = os.path.normpath(os.path.join(home, name))
    done = run("-q", option, folder + how, "--", "touch", os.path.join(home, ".bashrc"), HOME=home)
    assert done.returncode == 125 and os.listdir(home) == [], done.stderr
    assert "is a home folder" in done.stderr or "is a symbolic link" in done.stderr, done.stderr


def test_a_home_folder_can_be_read_and_a_project_in_it_written_to(run, sandbox):
    home = sandbox.folder("mine")
    sandbox.file(os.path.join(home, "notes"), "hello\n")
    assert run("-q", "--workspace", home + ":ro", "--", "cat", "notes", HOME=home, check=0).stdout == "hello\n"
    project = sandbox.folder("mine/project")
    run("-q", "--workspace", project, "--", "touch", "here", HOME=home, check=0)
    assert os.listdir(project) == ["here"]


@pytest.mark.parametrize("how", ["--workspace", "--workspace :ro", "--home", "--ro"])
@pytest.mark.parametrize("what", ["keyhole.yaml", "ca.key", "audit.jsonl", "token", "listener"])
def test_what_must_not_be_seen_stops_the_start(run, workspace, how, what):
    conf = run.sandbox.folder("conf", 0o700)
    inside = os.path.join(workspace, "deep")
    os.makedirs(inside)
    run.sandbox.give(workspace)
    token = run.sandbox.file(os.path.join(inside if what == "token" else conf, "token"), KEY, 0o600)
    more = {
        "credentials": {"c": {"value": {"file": token}, "header": {"x-api-key": "{}"},
                              "hosts": ["one.test"]}},
        "listen": [{"unix": os.path.join(inside if what == "listener" else conf, "d", "s"),
                    "tenant": "one"}],
        "tenants": {"one": {"rules": [{"allow": "https://one.test", "credential": "c"}]}},
    }  # fmt: skip
    if what == "ca.key":
        more["authority"] = {"certificate": os.path.join(conf, "ca.pem"),
                             "key": os.path.join(inside, "ca.key")}  # fmt: skip
    if what == "audit.jsonl":
        more["audit"] = {"file": os.path.join(inside, "audit.jsonl")}
    path = configuration(run, inside if what == "keyhole.yaml" else conf, **more)
    option, _, mode = how.partition(" ")
    done = run("-c", path, option, workspace + mode, "--", "true", use=None, check=125)
    # What the agent could write has a message of its own.
    words = "where the agent may write" if how in ("--workspace", "--home") else "would see it"
    assert words in done.stderr, done.stderr
    assert run.folders() == []


# --- when it can't ---------------------------------------------------------------------------------


def test_without_bubblewrap_it_says_how_to_get_it_and_stops(run, sandbox):
    empty = sandbox.folder("empty-path")
    done = run("--", "true", check=125, PATH=empty)
    assert "bubblewrap" in done.stderr and "apt install bubblewrap" in done.stderr
    assert run.folders() == []


@pytest.mark.parametrize(
    "said, expected",
    [
        ("bwrap: No permissions to create new namespace, likely because the kernel does not allow "
         "non-privileged user namespaces.", "kernel.unprivileged_userns_clone"),
        ("bwrap: setting up uid map: Permission denied", "kernel.apparmor_restrict_unprivileged_userns"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
        ("bwrap: Unknown option --disable-userns", "0.8"),
        ("bwrap: something never heard of", "something never heard of"),
        ("", "bubblewrap"),
    ],
)  # fmt: skip
def test_without_user_namespaces_it_says_so_and_never_runs_the_command(run, sandbox, said, expected):
    folder = sandbox.folder("fake")
    marker = os.path.join(sandbox.folder("marks", 0o777), "ran")
    sandbox.file(os.path.join(folder, "bwrap"), f"#!/bin/sh\necho '{said}' >&2\nexit 1\n", 0o755)
    done = run("--", "touch", marker, check=125, PATH=folder + ":/usr/bin:/bin")
    assert expected in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not os.path.exists(marker)
    assert run.folders() == []


@pytest.mark.parametrize(
    "args, use, expected",
    [
        ([], "anthropic", "which command?"),
        (["--", "true"], "antropic", "anthropic"),
        (["--", "true"], "anthropic,,npm", "empty name"),
        (["--", "true"], "anthropic,github:repo=org/app", "did you mean \"repos\""),
        (["--", "true"], "github:push", "KEY=VALUE"),
        (["--workspace", "/nonexistent", "--", "true"], "anthropic", "/nonexistent"),
        (["--workspace", "/etc/passwd", "--", "true"], "anthropic", "--workspace /etc/passwd: is not a folder"),
        (["--rootfs", "/nonexistent", "--", "true"], "anthropic", "/nonexistent"),
        (["--rootfs", "/", "--", "true"], "anthropic", "host's own root"),
        (["--rootfs", "/proc/self/root", "--", "true"], "anthropic", "host's own root"),
        (["--rootfs", "/:O", "--", "true"], "anthropic", "host's own root"),
        (["--engine", "magic", "--", "true"], "anthropic", "process"),
        (["--env", "NOT_SET_ANYWHERE", "--", "true"], "anthropic", "NOT_SET_ANYWHERE"),
        (["--env", "1A=x", "--", "true"], "anthropic", "--env"),
        (["-c", "/nonexistent.yaml", "--", "true"], None, "/nonexistent.yaml"),
        (["--no-such-option", "--", "true"], "anthropic", "no-such-option"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_clear_line(run, args, use, expected):
    done = run(*args, use=use, check=125)
    assert expected in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert run.folders() == []


def test_help_is_help(run):
    done = run("--help", use=None, check=0)
    assert done.stdout.startswith("usage: keyhole run") and done.stderr == ""


def test_an_unknown_command_names_the_nearest(programs):
    keyhole = os.path.join(programs, "keyhole")
    done = subprocess.run([keyhole, "rnu"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2 and "keyhole run" in done.stderr
    done = subprocess.run([keyhole, "zzzzzz"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2 and "--help" in done.stderr
    done = subprocess.run([keyhole, "--help"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and "worker" not in done.stdout


# --- the end ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_leaves_nothing(run, workspace, signo):
    process = run.start("--workspace", workspace, "--", "sh", "-c", "echo up; exec sleep 300")
    assert process.stdout.readline() == b"up\n"
    assert len(run.folders()) >= 1
    pids = descendants(process.pid)
    process.send_signal(signo)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signo
    assert gone(pids)
    assert run.folders() == []
    assert os.listdir(workspace) == []


def test_a_signal_at_any_moment_leaves_nothing(run, workspace):
    for delay in range(0, 60, 6):
        process = run.start("-q", "--workspace", workspace, "--", "sleep", "300")
        time.sleep(delay / 1000)
        process.terminate()
        process.communicate(timeout=PATIENCE)
        # Before it has a handler the signal simply ends it; then there is nothing yet.
        assert process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
        assert run.folders() == []
        assert os.listdir(workspace) == []


def test_after_a_kill_the_daemon_ends_and_the_next_run_clears_up(run, workspace):
    process = run.start("--workspace", workspace, "--", "sh", "-c", "echo up; exec sleep 300")
    assert process.stdout.readline() == b"up\n"
    pids = descendants(process.pid)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert gone(pids), "something outlived the launcher"
    left = run.folders()
    assert len(left) == 1
    assert ".vscode" in os.listdir(workspace)
    old = time.time() - 60
    os.utime(left[0], (old, old))
    run("-q", "--", "true", check=0)
    assert run.folders() == []
    assert os.listdir(workspace) == []


def test_a_run_that_is_on_is_not_cleared_up_by_another(run):
    process = run.start("--", "sh", "-c", "echo up; exec sleep 300")
    try:
        assert process.stdout.readline() == b"up\n"
        folder, = run.folders()
        old = time.time() - 60
        os.utime(folder, (old, old))
        run("-q", "--", "true", check=0)
        assert run.folders() == [folder]
        assert os.path.exists(os.path.join(folder, "s", "s"))
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_what_a_run_put_into_a_workspace_stays_as_long_as_another_is_there(run, workspace):
    """Else the end of the first would take the second's protection away."""
    first = run.start("--workspace", workspace, "--", "sh", "-c", "echo up; exec sleep 300")
    assert first.stdout.readline() == b"up\n"
    second = run.start(
        "--workspace", workspace, "--", "sh", "-c",
        "echo up; while [ ! -e go ]; do sleep 0.02; done; "
        "mkdir -p .vscode; echo evil > .vscode/tasks.json || echo kept",
    )  # fmt: skip
    assert second.stdout.readline() == b"up\n"
    first.terminate()
    first.communicate(timeout=PATIENCE)
    assert ".vscode" in os.listdir(workspace)
    with open(os.path.join(workspace, "go"), "w", encoding="ascii"):
        pass
    out, err = second.communicate(timeout=PATIENCE)
    assert out == b"kept\n", (out, err)
    # Who comes last clears up for both, if not at once then at the next start.
    for folder in run.folders():
        os.utime(folder, (1, 1))
    run("-q", "--", "true", check=0)
    assert os.listdir(workspace) == ["go"]
    assert run.folders() == []


def test_many_at_once_do_not_meet(run):
    processes = [run.start("-q", "--", "sh", "-c", f"echo {i}; ls /run/keyhole") for i in range(8)]
    outputs = [p.communicate(timeout=PATIENCE) for p in processes]
    assert [out for out, _ in outputs] == [b"%d\ns\n" % i for i in range(8)], outputs
    assert run.folders() == []
    assert len(run.journals()) == 8


def test_the_sandbox_is_a_stranger_to_the_daemon(run):
    """As root: the socket is the sandbox's uid's, the worker another one's."""
    process = run.start("--", "sh", "-c", "echo up; exec sleep 300.875")
    try:
        assert process.stdout.readline() == b"up\n"
        uids = {}
        end = time.monotonic() + 10
        # A worker that is only just coming up serves nobody yet, and is root until it has locked itself in.
        while ("sleep 300.875" not in uids or 0 in (u for n, u in uids.items() if n.endswith("worker"))) and (
            time.monotonic() < end
        ):
            for pid in descendants(process.pid):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    name = file.read().replace(b"\0", b" ").decode()
                with open(f"/proc/{pid}/status", encoding="ascii") as file:
                    uids[name.strip()] = int(re.search(r"Uid:\s+(\d+)", file.read())[1])
        agent = uids["sleep 300.875"]
        worker = next(uid for name, uid in uids.items() if name.endswith("worker"))
        if run.sandbox.identity == "root":
            assert 0 not in (agent, worker) and agent != worker
        else:
            assert agent == (USER if os.geteuid() == 0 else os.geteuid())
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_presets_take_parameters(run):
    """Several, one behind the other, of which one has a list; and as in a file."""
    chosen = "anthropic,github:repos=org/app,repos=org/lib,api=false,npm"
    said = run("--", "curl", "-sS", "http://keyhole.internal/", use=chosen, check=0).stdout
    for part in ("github.com/org/app.git/git-upload-pack", "github.com/org/lib.git/git-upload-pack",
                 "registry.npmjs.org", "api.anthropic.com"):  # fmt: skip
        assert part in said
    assert "github.com/*/*" not in said and "api.github.com" not in said
    braces = "{ github: { repos: [ org/app, org/lib ], api: false } }"
    again = run("--", "curl", "-sS", "http://keyhole.internal/", use=braces, check=0).stdout
    assert [line for line in again.splitlines() if "github.com" in line] == [
        line for line in said.splitlines() if "github.com" in line]  # fmt: skip


def test_no_sandbox_sees_where_other_runs_have_their_sockets(run):
    """Their sockets may come while this sandbox runs. Which folder it is, each run has from its own environment."""
    root = os.geteuid() == 0 and run.sandbox.identity == "root"
    folder = "/run/keyhole" if root else f"/run/user/{USER if os.geteuid() == 0 else os.geteuid()}"
    made = not os.path.isdir(folder)
    if made and os.geteuid() != 0:
        pytest.skip(f"there is no {folder}")
    os.makedirs(folder, exist_ok=True)
    if made and not root:
        os.chown(folder, USER, USER)
    try:
        for option in ("--ro", "--workspace", "--home"):
            done = run(option, folder, "--", "true", use=None, check=125)
            assert f"{folder}: the sandbox would see it through {folder}" in done.stderr, (option, done.stderr)
    finally:
        if made and not root:
            os.rmdir(folder)
            with contextlib.suppress(OSError):
                os.rmdir("/run/user")


@pytest.mark.identity("user")
def test_a_run_tells_the_service_manager_of_its_caller_nothing(run, sandbox):
    """The caller may be a service: READY=1 and STOPPING=1 would be read as its own words."""
    path = os.path.join(sandbox.folder("manager"), "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        os.chmod(path, 0o777)
        sandbox.give(sandbox.place)
        run("--", "true", check=0, NOTIFY_SOCKET=path)
        with pytest.raises(BlockingIOError):
            manager.recv(4096, socket.MSG_DONTWAIT)
