"""examples/: an agent's shell tool whose commands run in a sandbox, as docs/quickstart-frameworks.md has it."""

import dataclasses
import os
import re
import subprocess
import sys
import types

import pytest
from conftest import PATIENCE, PYTHON, ROOT
from test_run import KEY, Run

sys.path.append(os.path.join(ROOT, "examples"))

import sandbox_tool  # noqa: E402

Sandbox = sandbox_tool.Sandbox
EXAMPLE = os.path.join(ROOT, "examples", "sandbox_tool.py")


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


@pytest.fixture
def tool(run, sandbox, monkeypatch):
    """Makes a Sandbox whose `keyhole` is that of this identity."""
    project, home = sandbox.folder("project"), sandbox.folder("home")
    sandbox.give(sandbox.place)
    for name, value in run.environment().items():
        monkeypatch.setenv(name, value)

    def make(*options, **more):
        made = Sandbox(project, home=home, options=options, keyhole=run.keyhole, **more)
        made.start = sandbox.as_identity(made.start)
        return made

    return make


def test_a_command_runs_in_the_workspace_without_the_key_and_says_how_it_ended(tool):
    box = tool("--use", "anthropic")
    done = box.shell("pwd; echo made >file; echo $ANTHROPIC_API_KEY; echo wrong >&2; exit 3")
    where, placeholder, wrong = done.output.splitlines()
    assert (where, wrong, done.exit_code, done.truncated) == (box.workspace, "wrong", 3, False)
    assert placeholder.startswith("sk-ant-api03-") and placeholder != KEY
    with open(os.path.join(box.workspace, "file"), encoding="ascii") as file:
        assert file.read() == "made\n"


def test_commands_share_the_home_and_nothing_else(tool):
    box = tool()
    assert box.shell("echo kept >~/note; echo lost >/tmp/note").exit_code == 0
    assert box.shell("cat ~/note; cat /tmp/note 2>/dev/null").output == "kept\n"


def test_the_tool_tells_the_model_what_was_refused(tool):
    said = sandbox_tool.shell_tool(tool("--use", "npm"))("curl -s https://example.com/upload")
    assert "keyhole: GET https://example.com/upload is not allowed" in said and said.endswith("(exit status 0)")


def test_output_is_cut_and_a_command_has_its_time(tool):
    done = tool().shell("head -c 1000000 /dev/zero | tr '\\0' x")
    assert done.truncated and len(done.output) == sandbox_tool.OUTPUT_MOST and done.exit_code == 0
    assert tool(timeout="1s").shell("sleep 60").exit_code == 124


def test_the_example_runs_as_the_page_shows_it(run, sandbox):
    project = sandbox.folder("project")
    sandbox.give(sandbox.place)
    done = subprocess.run(
        sandbox.as_identity([PYTHON, EXAMPLE, "--workspace", project, "ls -a; uname"]), cwd="/", text=True, capture_output=True,
        timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
        env=run.environment(PATH=sandbox.programs + ":/usr/sbin:/usr/bin:/sbin:/bin", TMPDIR=sandbox.place),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Linux\n\n\(exit status 0\)$", done.stdout, re.M), done.stdout
    failed = subprocess.run(
        sandbox.as_identity([PYTHON, EXAMPLE, "--workspace", project + "-mistyped", "true"]), cwd="/", text=True, capture_output=True,
        timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
        env=run.environment(PATH=sandbox.programs + ":/usr/sbin:/usr/bin:/sbin:/bin", TMPDIR=sandbox.place),
    )  # fmt: skip
    assert failed.returncode == 125 and "(exit status 125)" in failed.stdout, failed


@dataclasses.dataclass
class Response:
    """Stands in for what deepagents answers with: the fields are those of its protocol.py."""

    path: str = ""
    error: object = None
    content: object = None
    output: str = ""
    exit_code: object = None
    truncated: bool = False


def test_deepagents_gets_a_backend_whose_files_go_through_the_sandbox(tool, monkeypatch):
    """Without the package: its base class has `execute` and these three as abstract methods."""
    parts = {"deepagents": {}, "deepagents.backends": {},
             "deepagents.backends.protocol": dict.fromkeys(("ExecuteResponse", "FileDownloadResponse", "FileUploadResponse"), Response),
             "deepagents.backends.sandbox": {"BaseSandbox": type("BaseSandbox", (), {})}}  # fmt: skip
    for name, names in parts.items():
        module = types.ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    box = tool()
    backend = sandbox_tool.deepagents_backend(box)
    assert backend.id == "keyhole:" + box.workspace
    there, hook = os.path.join(box.workspace, "sub/file"), "/etc/made-by-the-agent"
    put = backend.upload_files([(there, b"\0bytes\n"), (hook, b"no")])
    assert [answer.error for answer in put] == [None, "permission_denied"] and not os.path.exists(hook)
    got = backend.download_files([there, "/nowhere"])
    assert (got[0].content, got[1].content, got[1].error) == (b"\0bytes\n", None, "file_not_found")
    done = backend.execute("wc -c <sub/file", timeout=30)
    assert (done.output.strip(), done.exit_code, done.truncated) == ("7", 0, False)


# --- the quickstarts, as somebody types them --------------------------------------------------------


def page(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        return file.read()


def agents():
    """Of each section: its heading, its commands, and the command for one prompt ("": it has none)."""
    found = []
    for section in page("quickstart-agents.md").split("\n## ")[1:]:
        script = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
        assert len(script) == 1, section
        once = re.search(r"^For one prompt: `([^`]+)`", section, re.M)
        found.append((section.partition("\n")[0], script[0], once[1] if once else ""))
    return found


def shell(run, script, cwd, **more):
    secret = "k" + KEY[13:].replace("-", "x").replace("_", "y")
    return subprocess.run(
        run.sandbox.as_identity(["sh", "-ec", script.replace("…", secret)]), cwd=cwd, stdin=subprocess.DEVNULL, text=True,
        capture_output=True, timeout=PATIENCE, check=False, env=run.environment(**more),
    ), secret  # fmt: skip


def test_each_agent_has_a_section_with_its_commands():
    told = {title: once for title, _, once in agents()}
    profiles = os.listdir(os.path.join(ROOT, "policies", "agents"))
    assert len(told) == len(profiles) + 1 and {"Claude Code", "Codex", "OpenCode"} < set(told)
    assert [title for title, once in told.items() if not once] == ["Another agent"]


@pytest.mark.parametrize("title, script, once", agents())
def test_each_agent_starts_as_its_section_says(run, sandbox, title, script, once):
    place = sandbox.folder("me")
    os.makedirs(os.path.join(place, "my-project"))
    os.makedirs(os.path.join(place, ".agents"))
    name = re.search(r"keyhole run .*?--home \S+ (\S+)", script)[1]
    sandbox.file(os.path.join(sandbox.place, "bin", name), "#!/bin/sh\nenv -0; pwd >made; echo $0 $* >&2\n", 0o755)
    sandbox.give(sandbox.place)
    path = f"{sandbox.place}/bin:{sandbox.programs}:/usr/sbin:/usr/bin:/sbin:/bin"
    done, secret = shell(run, script, place, HOME=place, PATH=path, ANTHROPIC_API_KEY="")
    assert done.returncode == 0, done.stderr
    variable = re.search(r"export (\w+)=", script)[1]
    value = dict(word.partition("=")[::2] for word in done.stdout.split("\0") if "=" in word)[variable]
    assert value and secret not in done.stdout + done.stderr
    with open(os.path.join(place, "my-project", "made"), encoding="utf-8") as file:
        assert file.read() == os.path.join(place, "my-project") + "\n"
    # What the agent keeps is in the home that was named.
    assert os.listdir(os.path.join(place, ".agents"))
    if once:
        script = script[: script.index("keyhole run ")] + once
        done, secret = shell(run, script, place, HOME=place, PATH=path, ANTHROPIC_API_KEY="")
        assert done.returncode == 0 and "fix the failing test" in done.stderr, done.stderr
        assert secret not in done.stdout + done.stderr


AGENTS_PY = '''"""Stands in for LangChain's and deepagents': a model that calls the first tool once."""
import os, types

def create_agent(model, tools):
    assert model.startswith("anthropic:")
    def invoke(asked):
        assert asked["messages"][0]["role"] == "user"
        said = tools[0]("pwd; echo $ANTHROPIC_API_KEY") + os.environ["ANTHROPIC_API_KEY"]
        return {"messages": [types.SimpleNamespace(content=said)]}
    return types.SimpleNamespace(invoke=invoke)
'''


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", page("quickstart-frameworks.md"), re.S)


def test_an_agent_in_the_sandbox_runs_as_the_page_says(run, sandbox):
    project = sandbox.folder("project")
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", os.path.join(project, ".venv")], check=True, timeout=PATIENCE)
    sandbox.file(os.path.join(project, "agent.py"), blocks("python")[0])
    os.makedirs(os.path.join(project, "langchain"))
    sandbox.file(os.path.join(project, "langchain", "agents.py"), AGENTS_PY)
    sandbox.give(sandbox.place)
    done, secret = shell(run, blocks("sh")[0], project, PATH=sandbox.programs + ":/usr/sbin:/usr/bin:/sbin:/bin")
    assert done.returncode == 0, done.stderr
    where, inner, outer = done.stdout.split()
    assert where == project and inner == outer and inner.startswith("sk-ant-") and secret not in done.stdout


def test_the_sandbox_as_a_tool_works_as_the_page_says(tool, sandbox, monkeypatch):
    """The page's own lines, with mocks for the packages, and the folder of this test."""
    box = tool()
    module, deep = types.ModuleType("langchain.agents"), types.ModuleType("deepagents")
    exec(AGENTS_PY, vars(module))  # noqa: S102
    deep.create_deep_agent = lambda model, backend: backend
    backends = {"protocol": dict.fromkeys(("ExecuteResponse", "FileDownloadResponse", "FileUploadResponse"), Response),
                "sandbox": {"BaseSandbox": type("BaseSandbox", (), {})}}  # fmt: skip
    mocks = {"langchain": types.ModuleType("langchain"), "langchain.agents": module, "deepagents": deep,
                 "deepagents.backends": types.ModuleType("deepagents.backends")}  # fmt: skip
    for name, names in backends.items():
        mocks["deepagents.backends." + name] = made = types.ModuleType(name)
        vars(made).update(names)
    for name, made in mocks.items():
        monkeypatch.setitem(sys.modules, name, made)

    def here(workspace, options=(), **more):
        assert workspace == "/home/you/my-project" and options[0] == "--use"
        made = tool(*options, **more)
        made.start[made.start.index("--use") + 1] = "npm"  # what needs no key of this test
        return made

    monkeypatch.setattr(sandbox_tool, "Sandbox", here)
    graph, deep_agent = ({}, {})
    exec(blocks("python")[1], graph)  # noqa: S102
    said = graph["agent"].invoke({"messages": [{"role": "user", "content": "hello"}]})["messages"][0].content
    assert said.startswith(box.workspace) and "(exit status 0)" in said
    exec(blocks("python")[2], deep_agent)  # noqa: S102
    assert deep_agent["agent"].execute("uname").output == "Linux\n"
