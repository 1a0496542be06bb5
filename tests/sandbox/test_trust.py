"""The configuration of a project: used when the person trusts it, with the content that was trusted, and read-only inside."""

import json
import os
import re
import subprocess

import pytest
from test_run import Run

ASK = "curl -s -o /dev/null --noproxy '' -w '%{http_code} ' --max-time 20"
RULES = {"version": 1, "tenants": {"me": {"rules": [{"allow": "GET http://127.0.0.1:9/yes"}]}}}


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


@pytest.fixture(params=["keyhole.yaml", ".keyhole/keyhole.yaml"])
def project(sandbox, request):
    """Its file, in the folder that becomes the workspace."""
    return sandbox.file(os.path.join(sandbox.folder("project"), request.param), json.dumps(RULES))


def top(project):
    return project.removesuffix("/keyhole.yaml").removesuffix("/.keyhole")


def keyhole(run, *args, check=0, **more):
    command = run.command

    def other(*words, use):
        return [*command(use=None)[:-1], *words]

    run.command = other
    try:
        return run(*args, check=check, **more)
    finally:
        run.command = command


def ask(run, project, *options, check=None, **more):
    script = f"{ASK} http://127.0.0.1:9/yes; {ASK} http://127.0.0.1:9/no; echo; echo '#' >> {project} || echo kept"
    return run(*options, "--workspace", top(project), "--", "sh", "-c", script, use=None, check=check, **more)


def test_it_is_not_used_until_it_is_trusted_and_the_words_that_are_shown_do_it(run, project):
    done = ask(run, project)
    assert done.stdout == "403 403 \nkept\n"
    assert f"keyhole: run: {project} is not used: you have not trusted it (read it, then: keyhole trust {project})\n" in done.stderr
    said = keyhole(run, "trust", project).stdout
    assert said.startswith(f"{project} is trusted as it is now (SHA-256 ")
    done = ask(run, project)
    # The guard has a say behind the rule.
    assert done.stdout == "403 403 \nkept\n" and f"keyhole: run: rules of {project}, which you trust\n" in done.stderr
    assert "GET http://127.0.0.1:9/yes\nkeyhole:   why: sandboxes may not connect to this address" in done.stderr, done.stderr
    assert "is not used" not in done.stderr and "may reach nothing" not in done.stderr
    assert "keyhole: " not in ask(run, project, "-q").stderr
    os.rename(project, project + ".gone")
    assert "another file is in its place" in ask(run, project, check=125).stderr
    sandbox_file = os.path.join(top(project), ".keyhole" if project.endswith("/project/keyhole.yaml") else "", "keyhole.yaml")
    os.makedirs(os.path.dirname(sandbox_file), exist_ok=True)
    os.symlink("/etc/hostname", sandbox_file)
    assert ask(run, project, check=125).stdout == ""


def test_the_current_folder_is_the_default(run, project):
    assert keyhole(run, "trust", cwd=top(project)).stdout.startswith(project)
    assert keyhole(run, "trust", "--list").stdout == f"{project}: trusted\n"
    assert keyhole(run, "trust", "--remove", ".", cwd=top(project)).stdout == f"{project} is trusted no longer\n"
    assert keyhole(run, "trust", "--list").stdout == ""
    assert "was not trusted" in keyhole(run, "trust", "--remove", project, check=1).stderr
    assert f"{project} is not used" in ask(run, project).stderr


def test_one_that_is_trusted_and_not_used_is_named_with_the_option_that_uses_it(run, project):
    says = f"run: {project}, which you trust, is not used: this run has no workspace (--workspace . uses it)\n"
    here = {"use": "npm", "cwd": top(project), "check": 0}
    assert "is not used" not in run("--", "true", **here).stderr, "nobody has trusted it"
    keyhole(run, "trust", project)
    assert says in run("--", "true", **here).stderr
    assert "is not used" not in run("--", "true", **{**here, "cwd": "/"}).stderr
    for words in (("-q",), ("--no-workspace",), ("--workspace", "."), ("-c", project)):
        assert "is not used" not in run(*words, "--", "true", **here).stderr, words
    assert "which you trust\n" in run("--workspace", ".", "--", "true", **here).stderr, "as the words say"


def test_after_a_change_nothing_runs_until_it_is_trusted_again(run, project):
    keyhole(run, "trust", project)
    assert ask(run, project, "-c", project).stdout == "403 403 \nkept\n"
    with open(project, "a", encoding="utf-8") as file:
        file.write("\n")
    assert keyhole(run, "trust", "--list").stdout == f"{project}: has changed: is not used\n"
    done = ask(run, project, "-q", check=125)
    assert f"{project}: has changed since you trusted it, or another file is in its place" in done.stderr and done.stdout == ""
    assert f"keyhole trust {project}; to run without it: keyhole trust --remove {project})\n" in done.stderr
    done = ask(run, project, "-c", project, check=125)
    assert "is in the workspace, where the agent may write, and it has changed since you trusted it" in done.stderr
    assert done.stdout == ""
    keyhole(run, "trust", project)
    assert "which you trust" in ask(run, project).stderr
    with open(project, "a", encoding="utf-8") as file:
        file.write("\n")
    keyhole(run, "trust", "--remove", project)
    assert "is not used: you have not trusted it" in ask(run, project, check=0).stderr


def test_the_same_text_elsewhere_is_not_trusted(run, sandbox, project):
    keyhole(run, "trust", project)
    other = sandbox.file(os.path.join(sandbox.folder("other"), "keyhole.yaml"), json.dumps(RULES))
    assert f"{other} is not used: you have not trusted it" in ask(run, other).stderr
    os.unlink(other)
    os.symlink(project, other)
    done = ask(run, other)
    assert f"{other}: is no regular file (it is not used)" in done.stderr and "which you trust" not in done.stderr
    assert "no regular file" in keyhole(run, "trust", other, check=1).stderr
    os.unlink(other)
    os.symlink(top(project), os.path.join(os.path.dirname(other), ".keyhole"))
    done = ask(run, other)
    assert "which you trust" not in done.stderr


def test_a_run_can_not_write_what_is_read_next_time(run, project):
    keyhole(run, "trust", project)
    with open(project, "rb") as file:
        before = file.read()
    script = ("echo x > keyhole.yaml; rm -rf keyhole.yaml; mv keyhole.yaml z; mkdir .keyhole; echo x > .keyhole/keyhole.yaml;"
              "rm -rf .keyhole; mv .keyhole y; ln -f /etc/hostname keyhole.yaml; true")  # fmt: skip
    run("--workspace", top(project), "--", "sh", "-c", script, use=None, check=0)
    with open(project, "rb") as file:
        assert file.read() == before
    # What the agent made beside it comes first in no run: it is set aside.
    done = run("--workspace", top(project), "--", "true", use=None, check=0)
    assert f"rules of {project}, which you trust" in done.stderr, done.stderr


VALUE = "credentials.key.value"


@pytest.mark.parametrize("what, option", [
    ({"exec": ["/bin/sh", "--file={top}/tool"]}, f"{VALUE}.exec"),
    ({"exec": ["/bin/sh", "{top}/away/tool"]}, f"{VALUE}.exec"),
    ({"exec": ["/bin/true"], "environment": ["PATH=/bin:{top}"]}, f"{VALUE}.environment"),
    ({"file": "{top}/away/tool"}, f"{VALUE}.file"),
    ({"exec": ["{top}/tool"]}, f"{VALUE}.exec"),
    ({"exec": ["/bin/sh", "{top}/tool"]}, f"{VALUE}.exec"),
    ({"file": "{top}/tool"}, f"{VALUE}.file"),
    ({"tenants": {"me": {"file": "{top}/tool"}}}, f"{VALUE}.file"),
])  # fmt: skip
def test_it_may_not_name_what_the_agent_can_write(run, project, what, option):
    refused_for(run, project, {"value": what, "hosts": ["127.0.0.1"], "bearer": True}, option)


def refused_for(run, project, credential, option, more=None):
    tool = os.path.join(top(project), "tool")
    run.sandbox.file(tool, f"#!/bin/sh\ntouch {run.sandbox.place}/ran; echo secretsecretsecret\n", 0o755)
    run.sandbox.file(os.path.join(run.sandbox.folder("elsewhere"), "tool"), "secretsecretsecret")
    os.symlink(run.sandbox.folder("elsewhere"), os.path.join(top(project), "away"))
    config = {**RULES, **({"credentials": {"key": credential}} if credential else {}), **(more or {})}
    run.sandbox.file(project, json.dumps(config).replace("{top}", top(project)))
    keyhole(run, "trust", project)
    done = ask(run, project, check=125)
    assert f"{project}: {option}: " in done.stderr and "is in the workspace, where the agent may write" in done.stderr, done.stderr
    assert not os.path.exists(os.path.join(run.sandbox.place, "ran"))


SECRET = {"value": {"env": "HOME"}, "hosts": ["127.0.0.1"]}
OAUTH2 = {"grant": "refresh_token", "token_url": "https://a.test/t", "client_id": "me", "state": "/nowhere/s"}


@pytest.mark.parametrize("credential, more, option", [
    ({**SECRET, "mtls": {"certificate": "{top}/tool"}}, {}, "credentials.key.mtls.certificate"),
    ({**SECRET, "bearer": True, "oauth2": {**OAUTH2, "state": "{top}/s"}}, {}, "credentials.key.oauth2.state"),
    ({**SECRET, "bearer": True, "oauth2": {**OAUTH2, "client_secret": {"file": "{top}/tool"}}}, {},
     "credentials.key.oauth2.client_secret"),
    (None, {"authority": {"certificate": "/nowhere/ca.pem", "key": "{top}/away/ca.key"}}, "authority.key"),
    (None, {"upstream": {"ca_file": "{top}/tool"}}, "upstream.ca_file"),
    (None, {"audit": {"file": "{top}/audit.jsonl"}}, "audit.file"),
    (None, {"admin": {"unix": "{top}/d/admin"}}, "admin.unix"),
    (None, {"upstream": {"proxy": {"url": "http://a.test:1", "username": "me", "password": {"file": "{top}/tool"}}}},
     "upstream.proxy.password.file"),
])  # fmt: skip
def test_no_file_that_it_names_may_lie_where_the_agent_writes(run, project, credential, more, option):
    """Every path of the configuration: `tests/unit/test_carry.c` goes through all options."""
    refused_for(run, project, credential, option, more)


def test_a_command_neither_runs_in_the_workspace_nor_finds_programs_there(run, sandbox, project):
    """A word of it may be the name of a file in the project. What the command starts is looked for elsewhere, too."""
    sandbox.file(os.path.join(sandbox.place, "bin/get"), "#!/usr/bin/env inner\n", 0o755)
    sandbox.file(os.path.join(sandbox.place, "bin/inner"), "#!/bin/sh\npwd > $HOME/where; echo secretsecretsecret\n", 0o755)
    sandbox.file(os.path.join(top(project), "bin/inner"), "#!/bin/sh\necho planted > $HOME/where\n", 0o755)
    sandbox.folder("project/token")
    config = {**RULES, "credentials": {"key": {"value": {"exec": ["get", "token"]}, "hosts": ["a.test"], "bearer": True}},
              "tenants": {"me": {"rules": [{"allow": "GET https://a.test/", "credential": "key"}]}}}  # fmt: skip
    sandbox.file(project, json.dumps(config))
    sandbox.give(sandbox.place)
    path = f"{top(project)}/bin:{sandbox.place}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    keyhole(run, "trust", project)
    done = run("--workspace", top(project), "--", "true", use=None, check=0, cwd=top(project), PATH=path)
    with open(os.path.join(sandbox.place, "where"), encoding="utf-8") as file:
        assert file.read() == "/\n", done.stderr


def test_trust_refuses_what_check_refuses_and_what_is_not_there(run, sandbox, project):
    sandbox.file(project, "version: 1\ntenant: {}\n")
    assert 'unknown key "tenant"' in keyhole(run, "trust", project, check=1).stderr
    assert keyhole(run, "trust", "--list").stdout == ""
    empty = sandbox.folder("empty")
    assert f"{empty}: has neither keyhole.yaml nor .keyhole/keyhole.yaml" in keyhole(run, "trust", empty, check=1).stderr
    file = sandbox.file(os.path.join(top(project), "other.yaml"), "version: 1\n")
    assert f"is not what `keyhole run` would use in its folder, which is {project}" in keyhole(run, "trust", file, check=1).stderr
    assert "one FILE or DIR" in keyhole(run, "trust", "a", "b", check=2).stderr


def test_a_note_of_others_or_a_damaged_one_trusts_nothing(run, project):
    keyhole(run, "trust", project)
    folder = os.path.join(run.state, "keyhole", "trusted")
    (note,) = (os.path.join(folder, name) for name in os.listdir(folder))
    assert os.stat(note).st_mode & 0o777 == 0o600 and os.stat(folder).st_mode & 0o777 == 0o700
    os.chmod(note, 0o666)
    assert "which you trust" not in ask(run, project, check=125).stderr
    os.chmod(note, 0o600)
    with open(note, encoding="utf-8") as file:
        text = file.read()
    for damaged in ("", "x", text[:-1], text.upper().replace("/", " "), text[:64] + " relative\n", "0" * 64 + "\n"):
        with open(note, "w", encoding="utf-8") as file:
            file.write(damaged)
        done = ask(run, project)
        assert "which you trust" not in done.stderr and done.returncode == 125 and done.stdout == "", damaged


def test_no_sandbox_gets_the_notes(run, project):
    keyhole(run, "trust", project)
    folder = os.path.join(run.state, "keyhole", "trusted")
    for option in ("--home", "--ro", "--workspace"):
        done = run(option, folder, "--", "true", use=None, check=125)
        assert "the sandbox would see it through" in done.stderr, done.stderr


@pytest.mark.identity("user")
def test_one_that_the_agent_of_a_live_run_may_write_is_not_trusted(run, sandbox, project):
    """Between reading and trusting, the agent could exchange it."""
    def live(place, script="echo begun; read line"):
        one = subprocess.Popen(run.command("--workspace", place, "--", "sh", "-c", script, use="npm"), env=run.environment(), cwd="/",
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        assert one.stdout.readline() == "begun\n", one.stderr.read()
        return one

    for place in (top(project), top(project) + ":ro"):
        one = live(place)
        done = keyhole(run, "trust", project, check=None)
        one.communicate("go on\n", timeout=60)
        if place.endswith(":ro"):
            assert done.returncode == 0 and "is trusted as it is now" in done.stdout, done.stderr
        else:
            assert done.returncode == 1 and f"{project}: is not trusted: the agent of a live run may write there now" in done.stderr, done.stderr
            assert keyhole(run, "trust", "--list").stdout == ""
    keyhole(run, "trust", "--remove", project)
    assert keyhole(run, "trust", project).returncode == 0, "the run has ended"


@pytest.mark.identity("user")
def test_the_words_to_paste_run_nothing_that_a_folder_is_named_after(run, sandbox):
    name = "a'b'$(touch pwned)'c'`touch pwned` d"
    file = sandbox.file(os.path.join(sandbox.folder(name), "keyhole.yaml"), json.dumps(RULES))
    done = ask(run, file)
    words = re.search(r"\(read it, then: (keyhole trust .*)\)\n", done.stderr)[1]
    said = subprocess.run(["sh", "-c", words.replace("keyhole trust", "printf %s", 1)], cwd=sandbox.place, capture_output=True, text=True, check=True)
    assert said.stdout == file and "pwned" not in os.listdir(sandbox.place)
