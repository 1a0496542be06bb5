"""Agents by their profiles: what `keyhole run claude` needs no option for, and where programs live."""

import json
import os
import shutil
import subprocess

import pytest
from conftest import PATIENCE
from test_run import KEY, Run


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


@pytest.fixture
def project(sandbox):
    """A folder that becomes the workspace, and the caller's own programs beside it."""
    return sandbox.folder("project")


def program(sandbox, path, text="#!/bin/sh\nenv -0\n"):
    return sandbox.file(os.path.join(sandbox.place, path), text, 0o755)


def path_of(sandbox, *folders):
    return ":".join([*(os.path.join(sandbox.place, f) for f in folders), "/usr/sbin:/usr/bin:/sbin:/bin"])


def variables(done):
    return dict(v.partition("=")[::2] for v in done.stdout.split("\0") if "=" in v)


def give_all(sandbox):
    sandbox.give(sandbox.place)


# --- profiles --------------------------------------------------------------------------------------


def test_an_agent_takes_the_current_folder_and_its_presets(run, sandbox, project):
    program(sandbox, "bin/claude", "#!/bin/sh\npwd; echo made > file; cat ~/.claude.json; cat ~/.claude/CLAUDE.md\n")
    give_all(sandbox)
    done = run("claude", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0)
    where, _, rest = done.stdout.partition("\n")
    assert where == project and open(os.path.join(project, "file")).read() == "made\n"
    start = json.loads(rest[: rest.index("# This sandbox")])
    assert start["projects"][project]["hasTrustDialogAccepted"] is True
    assert "http://keyhole.internal/" in rest
    said = [line for line in done.stderr.splitlines() if "Claude Code" in line]
    assert len(said) == 1 and f"workspace {project}; rules of anthropic; profile " in said[0], done.stderr
    assert run("-q", "claude", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0).stderr == ""


def test_without_a_key_it_says_which_would_be_one(run, sandbox, project):
    program(sandbox, "bin/codex")
    give_all(sandbox)
    done = run("codex", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=125)
    assert "codex has no key: set one of OPENAI_API_KEY, CODEX_API_KEY, CODEX_ACCESS_TOKEN" in done.stderr


@pytest.mark.parametrize(
    "name, value, hint",
    [
        ("OPENAI_API_KEY", "", "OPENAI_API_KEY is set, but empty"),
        ("OPENAI_KEY", "x", "OPENAI_KEY is set: is it meant for OPENAI_API_KEY?"),
        ("OPENIA_API_KEY", "x", "OPENIA_API_KEY is set: is it meant for OPENAI_API_KEY?"),
        ("CODEX_TOKEN", "x", "CODEX_TOKEN is set: is it meant for CODEX_ACCESS_TOKEN?"),
        ("OPENAI_KEY", "", None),
        ("GEMINI_API_KEY", "x", None),
        ("OPENAI_BASE_URL", "x", None),
    ],
)
def test_a_variable_that_may_be_meant_for_the_key_is_named(run, sandbox, project, name, value, hint):
    program(sandbox, "bin/codex")
    give_all(sandbox)
    done = run("codex", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=125, **{name: value})
    assert done.stderr.endswith(f" or --use PRESET ({hint})\n" if hint else " or --use PRESET\n"), done.stderr


def test_a_file_without_a_rule_for_the_agents_key_is_named_before_it_starts(run, sandbox, project):
    program(sandbox, "bin/claude", "#!/bin/sh\necho started\n")
    give_all(sandbox)
    at = os.path.join(sandbox.folder("conf", 0o700), "keyhole.yaml")

    def said(rules, *options, **more):
        sandbox.file(at, json.dumps({"version": 1, "tenants": {"one": {"rules": rules}}}))
        done = run("-c", at, *options, "claude", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0, **more)
        assert done.stdout == "started\n"
        return [line for line in done.stderr.splitlines() if "is set, but" in line or "has no key" in line]

    free = [{"allow": "https://one.test"}]
    assert said(free) == ["keyhole: run: ANTHROPIC_API_KEY is set, but no rule of keyhole.yaml uses it (--use anthropic, "
                          'or "- use: anthropic" in the file)']  # fmt: skip
    hint = said(free, ANTHROPIC_API_KEY="")
    assert len(hint) == 1 and hint[0].startswith("keyhole: run: claude has no key: set one of ANTHROPIC_API_KEY, "), hint
    assert said(free, "--use", "anthropic") == said([{"use": "anthropic"}]) == said(free, "-q") == []
    assert said([{"allow": "https://api.anthropic.com", "client_auth": "pass"}], ANTHROPIC_API_KEY="") == []


def test_a_home_is_no_workspace_by_itself(run, sandbox):
    program(sandbox, "bin/claude", "#!/bin/sh\npwd\n")
    give_all(sandbox)
    for where in (sandbox.place, "/"):
        done = run("claude", use=None, cwd=where, PATH=path_of(sandbox, "bin"), check=0)
        assert done.stdout == "/home/agent\n" and "workspace none" in done.stderr


def test_claude_code_signs_for_bedrock_with_placeholders_where_that_preset_is_named(run, sandbox, project):
    """An access key of AWS opens more than models, so the profile takes none by itself."""
    program(sandbox, "bin/claude")
    give_all(sandbox)
    keys = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY00"}
    how = {"cwd": project, "PATH": path_of(sandbox, "bin"), "CLAUDE_CODE_USE_BEDROCK": "1", **keys}
    assert not set(keys) & set(variables(run("claude", use=None, check=0, **how)))
    seen = variables(run("claude", use="bedrock", check=0, **how))
    assert seen["CLAUDE_CODE_USE_BEDROCK"] == "1"
    for name, value in keys.items():
        assert len(seen[name]) == len(value) and seen[name] != value, name


def test_what_the_caller_says_comes_before_the_profile(run, sandbox, project):
    program(sandbox, "bin/claude")
    give_all(sandbox)
    done = run("--env", "DISABLE_AUTOUPDATER=0", "--no-workspace", "claude", use="npm", cwd=project,
               PATH=path_of(sandbox, "bin"), ANTHROPIC_MODEL="m", check=0)  # fmt: skip
    seen = variables(done)
    assert seen["DISABLE_AUTOUPDATER"] == "0" and seen["PWD"] == "/home/agent"
    assert seen["ANTHROPIC_MODEL"] == "m" and seen["ANTHROPIC_API_KEY"].startswith("sk-ant-")
    assert "rules of npm, anthropic; " in done.stderr, "--use adds to the profile"
    done = run("claude", use="anthropic:telemetry=true", cwd=project, PATH=path_of(sandbox, "bin"), check=0)
    assert "rules of anthropic:telemetry=true; " in done.stderr, "and what it names is not named again"
    done = run("--agent", "none", "claude", use="npm", cwd=project, PATH=path_of(sandbox, "bin"), check=0)
    assert "DISABLE_AUTOUPDATER" not in variables(done) and "profile" not in done.stderr
    done = run("--agent", "claud", "claude", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=125)
    assert "--agent claud: no such profile (did you mean claude?)" in done.stderr


def test_a_profile_chooses_the_addresses_that_names_have(run, sandbox, project):
    program(sandbox, "bin/openclaw", "#!/bin/sh\ngetent ahostsv4 a.example\n")
    give_all(sandbox)
    for options, range_of in ([], "11.0.0."), (["--capture-range", "12.0.0.0/10"], "12.0.0."), (["--agent", "none"], "127."):
        done = run(*options, "openclaw", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0)
        assert done.stdout.startswith(range_of), (options, done.stdout)


def test_an_option_behind_the_agents_name_is_warned_about(run, sandbox, project):
    program(sandbox, "bin/claude", "#!/bin/sh\necho $@\n")
    give_all(sandbox)
    done = run("claude", "--workspace", ".:review", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0)
    assert done.stdout == "--workspace .:review\n"
    assert "--workspace comes after the command, so claude gets it (write keyhole run --workspace … claude)" in done.stderr
    done = run("claude", "--", "--workspace", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0)
    assert "comes after the command" not in done.stderr
    assert done.stdout == "--workspace\n", "the agent would take what is behind -- for a prompt"
    done = run("claude", "--", "-p", "--", "x", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0)
    assert done.stdout == "-p -- x\n", "one that stands further behind is the agent's"
    done = run("--agent", "none", "claude", "--", "x", use="npm", cwd=project, PATH=path_of(sandbox, "bin"), check=0)
    assert done.stdout == "-- x\n"


def test_words_of_a_runs_end_behind_any_command_are_warned_about(run):
    for words in (["--use", "npm"], ["--use", "github:push=true,npm"], ["--allow", "GET https://a.test/"]):
        done = run("--", "echo", *words, check=0)
        assert done.stdout == " ".join(words) + "\n"
        assert f"warning: {words[0]} comes after the command, so echo gets it (write keyhole run {words[0]} … echo)" in done.stderr
    for words in (["--use", "strict"], ["--use"], ["--allow", "x"], ["--", "--use", "npm"]):
        assert "comes after the command" not in run("--", "echo", *words, check=0).stderr, words


def test_that_no_rule_is_enforced_is_said_before_the_command_starts(run):
    done = run("-q", "--observe", "--", "true", use=None, check=0)
    assert "NO RULE IS ENFORCED (--observe): the network is open to this command" in done.stderr
    done = run("--obs", "--", "true", use=None, check=125)
    assert "unknown option --obs (did you mean --observe?)" in done.stderr


def test_a_file_that_is_in_the_home_stays(run, sandbox, project):
    home = sandbox.folder("kept")
    sandbox.file(os.path.join(sandbox.place, "kept/.claude.json"), "mine")
    os.symlink("/etc/hostname", os.path.join(home, ".claude"))
    program(sandbox, "bin/claude", "#!/bin/sh\ncat ~/.claude.json; ls -A ~\n")
    give_all(sandbox)
    done = run("--home", home, "claude", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0)
    assert done.stdout.startswith("mine.claude\n"), done.stdout
    assert os.readlink(os.path.join(home, ".claude")) == "/etc/hostname"


def test_of_files_with_one_path_the_first_counts_whose_key_is_there(run, sandbox, project):
    """OpenClaw's model is one of the provider for which there is a key."""
    program(sandbox, "bin/openclaw", "#!/bin/sh\ncat ~/.openclaw/openclaw.json\n")
    give_all(sandbox)
    keys = {"OPENAI_API_KEY": "sk-proj-" + KEY[13:], "GEMINI_API_KEY": "AIza" + KEY[13:]}
    for has, model in (({}, "anthropic/"), (keys, "anthropic/"), ({**keys, "ANTHROPIC_API_KEY": ""}, None),
                       ({"GEMINI_API_KEY": keys["GEMINI_API_KEY"], "ANTHROPIC_API_KEY": ""}, "google/")):  # fmt: skip
        done = run("openclaw", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0, **has)
        start = json.loads(done.stdout)["agents"]["defaults"]
        assert start["workspace"] == project and start["skipBootstrap"] is True
        assert start.get("model", {}).get("primary", "").startswith(model or ""), (has, start)
        assert model or "model" not in start


def test_a_key_of_googles_reaches_the_agent_by_the_name_that_it_takes_it_from(run, sandbox, project):
    """Gemini CLI takes GEMINI_API_KEY alone, and OpenCode's library another one than OpenCode looks for."""
    key = {"ANTHROPIC_API_KEY": "", "GOOGLE_API_KEY": "AIza" + KEY[13:], "GEMINI_API_KEY": ""}
    program(sandbox, "bin/gemini", "#!/bin/sh\ncat ~/.gemini/.env ~/.gemini/settings.json; echo $GOOGLE_API_KEY\n")
    program(sandbox, "bin/opencode", "#!/bin/sh\ncat ~/.config/opencode/opencode.json\n")
    give_all(sandbox)
    done = run("gemini", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0, **key)
    first, *settings, placeholder = done.stdout.splitlines()
    assert first == f"GEMINI_API_KEY={placeholder}" and placeholder.startswith("AIza")
    assert json.loads("".join(settings))["security"]["auth"]["selectedType"] == "gemini-api-key"
    key = {"ANTHROPIC_API_KEY": "", "GEMINI_API_KEY": "AIza" + KEY[13:]}
    done = run("opencode", use=None, cwd=project, PATH=path_of(sandbox, "bin"), check=0, **key)
    assert json.loads(done.stdout)["provider"]["google"]["options"]["apiKey"] == "{env:GEMINI_API_KEY}"


def test_every_profile_is_sound_and_its_presets_are_there(programs):
    folder = os.path.join(programs, "policies", "agents")
    presets = set(os.listdir(os.path.join(programs, "policies")))
    names = os.listdir(folder)
    assert {"claude.yaml", "codex.yaml", "opencode.yaml", "gemini.yaml", "pi.yaml", "openclaw.yaml"} <= set(names)
    for name in names:
        done = subprocess.run(
            [os.path.join(programs, "keyhole"), "run", "--agent", name[:-5], "--", "nothing"], text=True,
            capture_output=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "KEYHOLE_PRESETS": os.path.join(programs, "policies")},
        )  # fmt: skip
        assert f"{name[:-5]} has no key: set one of " in done.stderr, done.stderr
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            used = [line.split()[-1] for line in file if line.startswith("  - use: ")]
        assert used and {f"{u}.yaml" for u in used} <= presets


def test_nothing_says_what_may_be_reached(run):
    done = run("--", "sh", "-c", "curl -so /dev/null -w '%{http_code}' https://example.com/", use=None, check=0)
    assert done.stdout == "403" and "the command may reach nothing (give --use PRESET" in done.stderr


# --- the same placeholders in each run -------------------------------------------------------------


def key_in(done):
    return variables(done)["ANTHROPIC_API_KEY"]


def test_a_kept_home_and_a_workspace_have_the_same_placeholders_in_each_run(run, sandbox, project):
    home, other = sandbox.folder("kept"), sandbox.folder("other")
    show = ("--", "env", "-0")
    of_home = {key_in(run("--home", home, *show, check=0)) for _ in range(2)}
    of_project = {key_in(run("--workspace", project, *show, check=0)) for _ in range(2)}
    assert len(of_home) == len(of_project) == 1, "the same in the same place"
    both = key_in(run("--home", home, "--workspace", project, *show, check=0))
    assert {both} == of_home, "what is stored is stored in the home"
    apart = {key_in(run("--workspace", other, *show, check=0)), *of_home, *of_project}
    assert len(apart) == 3, "others in another place"
    assert len({key_in(run(*show, check=0)) for _ in range(2)} - apart) == 2, "new ones where nothing is kept"

    key = os.path.join(run.state, "keyhole", "placeholder.key")
    assert os.stat(key).st_mode & 0o777 == 0o600
    assert KEY not in open(key).read()


def test_the_key_of_placeholders_is_seen_by_no_sandbox(run, sandbox, project):
    run("--workspace", project, "--", "true", check=0)
    key = os.path.join(run.state, "keyhole", "placeholder.key")
    for more in (["--workspace", project], ["--no-workspace"]):
        done = run("--ro", key, *more, "--", "cat", key, check=125)
        assert key in done.stderr, done.stderr


@pytest.mark.parametrize("damage", ["empty", "link", "open"])
def test_a_key_that_is_not_keyholes_is_not_used(run, sandbox, project, damage):
    folder = sandbox.folder("state/keyhole", 0o700)
    key = os.path.join(folder, "placeholder.key")
    if damage == "link":
        os.symlink("/etc/hostname", key)
    else:
        sandbox.file(os.path.join(sandbox.place, "state/keyhole/placeholder.key"), "" if damage == "empty" else "0" * 63 + "1\n", 0o600)
        os.chmod(key, 0o666 if damage == "open" else 0o600)
    seen = [run("--workspace", project, "--", "env", "-0", check=0) for _ in range(2)]
    assert all("the next run has other placeholders: " in done.stderr for done in seen), seen[0].stderr
    assert len({key_in(done) for done in seen}) == 2


# --- where programs live ---------------------------------------------------------------------------


def test_a_package_of_npm_is_seen_with_its_node(run, sandbox):
    prefix = ".nvm/versions/node/v1"
    program(sandbox, f"{prefix}/bin/node", "#!/bin/sh\necho node of the prefix; cat \"$1\"\n")
    program(sandbox, f"{prefix}/lib/node_modules/tool/cli.js", "#!/usr/bin/env node\nthe script\n")
    os.symlink("../lib/node_modules/tool/cli.js", os.path.join(sandbox.place, prefix, "bin/tool"))
    give_all(sandbox)
    path = path_of(sandbox, f"{prefix}/bin")
    done = run("tool", PATH=path, check=0)
    assert done.stdout == "node of the prefix\n#!/usr/bin/env node\nthe script\n"
    assert f"the sandbox sees {sandbox.place}/{prefix}, read-only, for tool" in done.stderr
    done = run("sh", "-c", "command -v tool", PATH=path, check=127)
    assert run("tool", PATH=path, check=0).returncode == 0
    # A login shell has the same PATH.
    program(sandbox, f"{prefix}/bin/login", "#!/bin/sh\nexec sh -lc 'command -v tool'\n")
    give_all(sandbox)
    assert run("login", PATH=path, check=0).stdout == f"{sandbox.place}/{prefix}/bin/tool\n"


def test_a_program_that_stands_alone_is_seen_alone(run, sandbox):
    program(sandbox, ".local/share/agent/versions/1.2.3", "#!/bin/sh\necho one; ls -A ~/../../" + sandbox.place + "\n")
    os.makedirs(os.path.join(sandbox.place, ".local/bin"), exist_ok=True)
    os.symlink("../share/agent/versions/1.2.3", os.path.join(sandbox.place, ".local/bin/agent"))
    sandbox.file(os.path.join(sandbox.place, "secret.txt"), "not for the sandbox")
    program(sandbox, "bin/alone", "#!/bin/sh\necho alone; ls -A " + sandbox.place + "/bin\n")
    program(sandbox, "bin/other", "#!/bin/sh\n")
    give_all(sandbox)
    done = run("agent", PATH=path_of(sandbox, ".local/bin"), check=0)
    assert done.stdout.startswith("one\n") and "secret.txt" not in done.stdout, done.stdout
    done = run("alone", PATH=path_of(sandbox, "bin"), check=0)
    assert done.stdout == "alone\nalone\n", done.stdout
    done = run(os.path.join(sandbox.place, ".local/bin/agent"), check=0)
    assert done.stdout.startswith("one\n")


def test_a_virtual_environment_is_seen(run, sandbox):
    python = shutil.which("python3", path="/usr/bin")
    subprocess.run([python, "-m", "venv", "--without-pip", os.path.join(sandbox.place, "venv")], check=True, timeout=PATIENCE)
    program(sandbox, "venv/bin/tool", f"#!{sandbox.place}/venv/bin/python3\nimport sys; print(sys.prefix)\n")
    give_all(sandbox)
    done = run("tool", PATH=path_of(sandbox, "venv/bin"), check=0)
    assert done.stdout == f"{sandbox.place}/venv\n"


def test_of_rustup_the_toolchains_are_seen_too(run, sandbox):
    """Its programs are links to one that starts them. Keys of registries lie in ~/.cargo."""
    program(sandbox, ".cargo/bin/rustup", "#!/bin/sh\nexec $RUSTUP_HOME/toolchains/stable/bin/${0##*/}\n")
    os.symlink("rustup", os.path.join(sandbox.place, ".cargo/bin/cargo"))
    program(sandbox, ".cargo/bin/other", "#!/bin/sh\nls -A ${0%/*}/../..\n")
    program(sandbox, ".rustup/toolchains/stable/bin/cargo", "#!/bin/sh\necho of the toolchain; ls -A ${0%/*}/../../../../.cargo\n")
    sandbox.file(os.path.join(sandbox.place, ".cargo/credentials.toml"), "not for the sandbox")
    give_all(sandbox)
    done = run("cargo", PATH=path_of(sandbox, ".cargo/bin"), check=0)
    assert done.stdout == "of the toolchain\nbin\n"
    assert f"the sandbox sees {sandbox.place}/.rustup, read-only, for cargo" in done.stderr
    assert run("other", PATH=path_of(sandbox, ".cargo/bin"), check=0).stdout == ".cargo\n", "that is none of rustup's"


def planted(sandbox, project, first_line):
    """A script that an agent left in a folder that was its workspace."""
    return sandbox.file(os.path.join(project, "tool"), first_line + "\nls -A " + sandbox.place + "\n", 0o755)


def test_a_script_of_an_agents_can_have_nothing_shown(run, sandbox, project):
    key = sandbox.file(os.path.join(sandbox.place, "secret/id_rsa"), "a private key\n", 0o600)
    data = sandbox.file(os.path.join(sandbox.place, ".local/share/keyrings/login"), "a keyring\n", 0o700)
    sandbox.folder("project/sub")
    os.symlink(key, os.path.join(project, "sub/key"))
    os.symlink(data, os.path.join(project, "sub/data"))
    sandbox.file(os.path.join(project, "oldroot/new.desktop"), "#!/bin/sh\n", 0o755)
    for line in (f"#!{project}/sub/key", f"#!{project}/sub/data", "#!/proc/self/cwd/oldroot/new.desktop",
                 f"#!{sandbox.place}/.local/share//keyrings/login", f"#!{project}/sub/../sub/key"):  # fmt: skip
        tool = planted(sandbox, project, line)
        sandbox.give(sandbox.place)
        done = run(tool, cwd=project)
        shown = [said for said in done.stderr.splitlines() if "the sandbox sees" in said]
        assert shown == [f"keyhole: run: the sandbox sees {tool}, read-only, for {tool}"], (line, done.stderr)
        assert "secret" not in done.stdout and "keyrings" not in done.stdout
        done = run("--workspace", project, tool, cwd=project)
        assert "the sandbox sees" not in done.stderr, "in the workspace nothing is taken from it"
    assert not os.path.exists("/oldroot")


def test_what_lies_in_the_workspace_is_not_shown_read_only_too(run, sandbox, project):
    """It would count as protected, and be under what can be written to."""
    sandbox.folder("project/vendor")
    done = run("--workspace", project, "--ro", os.path.join(project, "vendor"), "--", "true", check=125)
    assert "is in the workspace" in done.stderr
    python = shutil.which("python3", path="/usr/bin")
    venv = os.path.join(project, ".venv")
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True, timeout=PATIENCE)
    sandbox.give(sandbox.place)
    done = run("--workspace", project, os.path.join(venv, "bin/python3"), "-c", "print(1)", check=0)
    assert done.stdout == "1\n" and "the sandbox sees" not in done.stderr


def test_a_project_with_packages_is_no_prefix(run, sandbox, project):
    program(sandbox, "project/lib/node_modules/tool/cli.sh", "#!/bin/sh\nls -A " + project + "\n")
    program(sandbox, "project/.env", "SECRET=1\n")
    sandbox.folder("project/bin")
    os.symlink("../lib/node_modules/tool/cli.sh", os.path.join(project, "bin/tool"))
    give_all(sandbox)
    done = run("tool", PATH=path_of(sandbox, "project/bin"), check=0)
    assert done.stdout == "lib\n", done.stdout


def test_an_installation_behind_a_link_is_shown_where_it_is(run, sandbox):
    program(sandbox, "data/nvm/v1/bin/node", "#!/bin/sh\necho node\n")
    program(sandbox, "data/nvm/v1/lib/node_modules/tool/cli.js", "#!/usr/bin/env node\n")
    os.symlink("../lib/node_modules/tool/cli.js", os.path.join(sandbox.place, "data/nvm/v1/bin/tool"))
    os.symlink("data/nvm/v1", os.path.join(sandbox.place, "node"))
    give_all(sandbox)
    done = run("tool", PATH=path_of(sandbox, "node/bin"), check=0)
    assert done.stdout == "node\n" and f"the sandbox sees {sandbox.place}/data/nvm/v1, read-only" in done.stderr


def test_a_virtual_environment_of_a_managers_python_has_that_too(run, sandbox):
    real = program(sandbox, ".local/share/uv/python/v3/bin/python3", "#!/bin/sh\ncat ~/../../" + sandbox.place
                   + "/.local/share/uv/python/v3/lib/os.py\n")  # fmt: skip
    sandbox.file(os.path.join(sandbox.place, ".local/share/uv/python/v3/lib/os.py"), "the library\n")
    sandbox.file(os.path.join(sandbox.place, "venv/pyvenv.cfg"), "home = x\n")
    sandbox.folder("venv/bin")
    os.symlink(real, os.path.join(sandbox.place, "venv/bin/python3"))
    give_all(sandbox)
    done = run("python3", PATH=os.path.join(sandbox.place, "venv/bin") + ":/usr/bin:/bin", check=0)
    assert done.stdout == "the library\n", done.stderr


def test_of_an_installation_only_what_holds_programs_is_shown(run, sandbox):
    """Managers keep keys and settings beside the programs."""
    secrets = [".local/share/uv/credentials/credentials.toml", ".local/share/opencode/auth.json", ".local/share/mise/settings.toml",
               ".nvm/versions/node/v1/etc/npmrc", ".local/etc/npmrc", ".local/share/app/key", ".local/share/uv/tools/aider/pip.conf",
               ".local/share/fnm/node-versions/v2/installation/etc/npmrc", ".volta/hooks.json", ".bun/install/cache/token"]  # fmt: skip
    for path in secrets:
        sandbox.file(os.path.join(sandbox.place, path), "not for the sandbox\n", 0o644)
    look = "#!/bin/sh\necho ran; cat " + " ".join(os.path.join(sandbox.place, path) for path in secrets) + " 2>/dev/null; true\n"
    programs = [".local/share/opencode/bin/a", ".local/share/app/versions/1/b", ".local/share/mise/installs/tool/1/bin/c",
                ".local/lib/node_modules/d/d.sh", ".nvm/versions/node/v1/bin/e", ".local/share/uv/tools/aider/bin/f",
                ".local/share/fnm/node-versions/v2/installation/bin/g", ".volta/bin/h", ".bun/bin/i"]  # fmt: skip
    for path in programs:
        program(sandbox, path, look)
    # As uv lays a tool: its python is uv's.
    python = program(sandbox, ".local/share/uv/python/v3/bin/python3")
    os.symlink(python, os.path.join(sandbox.place, ".local/share/uv/tools/aider/bin/python3"))
    sandbox.file(os.path.join(sandbox.place, ".local/share/uv/tools/aider/pyvenv.cfg"), "home = x\n")
    os.makedirs(os.path.join(sandbox.place, ".local/bin"))
    os.symlink("../lib/node_modules/d/d.sh", os.path.join(sandbox.place, ".local/bin/d"))
    os.symlink("../share/uv/tools/aider/bin/f", os.path.join(sandbox.place, ".local/bin/f"))
    program(sandbox, ".local/bin/node")  # ~/.local is npm's prefix
    give_all(sandbox)
    for path in programs:
        done = run(os.path.basename(path).removesuffix(".sh"), check=0,
                   PATH=path_of(sandbox, ".local/bin", os.path.dirname(path)))  # fmt: skip
        assert done.stdout == "ran\n", (path, done.stdout, done.stderr)


def test_a_package_has_the_other_programs_of_its_prefix(run, sandbox):
    program(sandbox, ".local/lib/node_modules/npm/npm-cli.sh", "#!/bin/sh\necho npm\n")
    program(sandbox, ".local/lib/node_modules/tool/cli.sh", "#!/bin/sh\nnpm; command -v other || echo none\n")
    program(sandbox, ".local/bin/other", "#!/bin/sh\n")
    os.symlink("../lib/node_modules/npm/npm-cli.sh", os.path.join(sandbox.place, ".local/bin/npm"))
    os.symlink("../lib/node_modules/tool/cli.sh", os.path.join(sandbox.place, ".local/bin/tool"))
    give_all(sandbox)
    assert run("tool", PATH=path_of(sandbox, ".local/bin"), check=0).stdout == "npm\nnone\n"


@pytest.mark.parametrize("how", ["workspace", "home"])
def test_a_link_of_an_agents_can_have_nothing_shown(run, sandbox, project, how):
    """Called by its own path, too: it leads to whatever the agent wanted to see."""
    tool = program(sandbox, ".local/share/app/versions/1/tool", "#!/bin/sh\ncat ${0%/*}/key\n")
    sandbox.file(os.path.join(os.path.dirname(tool), "key"), "not for the sandbox\n")
    os.symlink(tool, os.path.join(project, "run"))
    give_all(sandbox)
    done = run(f"--{how}", project, os.path.join(project, "run"), check=None)
    assert "not for the sandbox" not in done.stdout and "the sandbox sees" not in done.stderr, done.stderr


def test_a_home_is_never_shown_for_a_program_in_it(run, sandbox):
    program(sandbox, "lib/node_modules/tool/cli.sh", "#!/bin/sh\nls -A " + sandbox.place + "\n")
    program(sandbox, "bin/keep")
    os.symlink("../lib/node_modules/tool/cli.sh", os.path.join(sandbox.place, "bin/tool"))
    sandbox.file(os.path.join(sandbox.place, "secret.txt"), "not for the sandbox")
    give_all(sandbox)
    done = run("tool", PATH=path_of(sandbox, "bin"), check=0)
    assert done.stdout == "lib\n", done.stdout


def test_a_program_that_an_agent_has_put_into_the_workspace_is_not_taken(run, sandbox, project):
    sandbox.file(os.path.join(sandbox.place, "project/claude"), "#!/bin/sh\necho planted\n", 0o755)
    program(sandbox, "bin/claude", "#!/bin/sh\necho mine\n")
    give_all(sandbox)
    path = path_of(sandbox, "project", "bin")
    assert run("claude", use=None, cwd=project, PATH=path, check=0).stdout == "mine\n"


# --- folders that agents make ----------------------------------------------------------------------


def test_a_protected_folder_that_was_made_up_has_what_is_written_there_first(run, project):
    script = "cat .opencode/.gitignore; test -e .opencode/.gitignore && ! touch .opencode/x 2>/dev/null && echo kept"
    done = run("--workspace", project, "--", "sh", "-c", script, check=0)
    assert done.stdout == "*\nkept\n"
    assert os.listdir(project) == []
