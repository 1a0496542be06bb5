"""everyday.py - tools that everybody has, in a sandbox: what each fetches, with proxy variables and without

The upstreams are tests/integration/registries.py and services.py, under the names of the public registries and of
github.com. The rules are the presets that a person would use. Nothing leaves this machine.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field

from agents import KEYHOLE, OUTSIDE, PROXY_VARIABLES, ROOT, follow
from harness import read_journal
from origins import Registries, Services

SECONDS = 90
TOKEN = "ghp_" + secrets.token_hex(18)
GIT_HOST = "github.com"
NPM, PYPI, _, INDEX, _, DEBIAN, GO = Registries.hosts


@dataclass
class Tool:
    name: str
    program: str
    version: list
    words: list
    expect: str  # in the output
    rules: list
    files: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)  # for keyhole
    variables: dict = field(default_factory=dict)  # inside
    secret: str = ""
    shown: list = field(default_factory=list)  # its folders, where they are not in /usr
    instead: list = field(default_factory=list)  # variables where those of proxies are unset

    @property
    def row(self):
        return self.name

    def why_missing(self):
        return "" if shutil.which(self.program, path=path()) else f"{self.program} is not installed"


def path():
    """As a person has it who has rustup; of node there is the distribution's."""
    return f"{os.path.expanduser('~/.cargo/bin')}:{OUTSIDE}"


URL = f"https://{DEBIAN}/debian/dists/stable/Release"
ADDED = {
    "Main.java": 'import java.net.*; import java.net.http.*;\n'
    "public class Main { public static void main(String[] a) throws Exception {\n"
    "  var old = new String(new URL(a[0]).openStream().readAllBytes());\n"
    "  var ask = HttpRequest.newBuilder(URI.create(a[0])).build();\n"
    "  var now = HttpClient.newHttpClient().send(ask, HttpResponse.BodyHandlers.ofString());\n"
    '  System.out.println(now.statusCode() + " and both are the same: " + old.equals(now.body())); } }\n',
    "Cargo.toml": '[package]\nname = "mine"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nsample = "1"\n',
    "src/main.rs": 'fn main() { println!("the answer is {}", sample::ANSWER); }\n',
    "go.mod": "module mine\n\ngo 1.19\n",
    "main.go": 'package main\n\nimport (\n\t"fmt"\n\n\t"example.test/sample"\n)\n\n'
    'func main() { fmt.Println("the answer is", sample.Answer) }\n',
    "package.json": '{"name":"mine","version":"1.0.0"}\n',
    "sources.list": f"deb [trusted=yes arch=amd64] https://{DEBIAN}/debian stable main\n",
}
GIT = (
    f"git clone -q https://{GIT_HOST}/org/app.git work && cd work && git -c user.name=a -c user.email=a@b commit -q --allow-empty "
    "-m more && git push -q origin HEAD:pushed && git fetch -q && git branch -r"
)
APT = (
    "mkdir -p state/lists/partial cache/archives/partial && touch state/status && apt-get -o Dir::State=$PWD/state "
    "-o Dir::State::status=$PWD/state/status -o Dir::Cache=$PWD/cache -o Dir::Etc::sourcelist=$PWD/sources.list "
    "-o Dir::Etc::sourceparts=none -o APT::Sandbox::User=$(id -un) update && ls state/lists"
)
# Java has no other way to be told of a trust store than the variable that also holds the proxy.
JAVA_TRUST = ("-Djavax.net.ssl.trustStore=/etc/keyhole/ca.p12 -Djavax.net.ssl.trustStoreType=PKCS12 "
              "-Djavax.net.ssl.trustStorePassword=changeit")  # fmt: skip
RUST = ["~/.cargo/bin", "~/.rustup"]
TOOLS = [
    Tool("curl", "curl", ["--version"], ["curl", "-sS", "--fail", URL], "Suite: stable", ["debian"]),
    Tool("wget", "wget", ["--version"], ["wget", "-q", "-O", "-", URL], "Suite: stable", ["debian"]),
    Tool("git: clone, push, fetch", "git", ["--version"], ["sh", "-c", GIT], "origin/pushed",
         [{"github": {"push": True, "repos": "org/app", "token": True}}], settings={"GH_TOKEN": TOKEN}, secret=TOKEN),
    Tool("npm install", "npm", ["--version"], ["sh", "-c", "npm install --no-fund sample && node -p 'require(\"sample\")'"], "\n42",
         ["npm"], ["package.json"], variables={"npm_config_registry": f"https://{NPM}/"}),
    Tool("pip install", "python3", ["-m", "pip", "--version"],
         ["sh", "-c", f"python3 -m pip install -q --index-url https://{PYPI}/simple --target here sample && cat here/sample.py"],
         "answer = 42", ["pypi"]),
    Tool("apt-get update", "apt-get", ["--version"], ["sh", "-c", APT], "_Packages", ["debian"], ["sources.list"]),
    Tool("cargo run", "cargo", ["--version"], ["cargo", "run", "-q"], "the answer is 42", ["crates"], ["Cargo.toml", "src/main.rs"],
         shown=RUST, instead=[f"PATH={path()}", "RUSTUP_HOME=" + os.path.expanduser(RUST[1])]),
    Tool("java", "java", ["--version"], ["java", "Main.java", URL], "200 and both are the same: true", ["debian"], ["Main.java"],
         instead=[f"JAVA_TOOL_OPTIONS={JAVA_TRUST}"]),
    Tool("go run", "go", ["version"], ["sh", "-c", "go get example.test/sample@v1.0.0 && go run ."], "the answer is 42", ["go"],
         ["go.mod", "main.go"], variables={"GONOSUMDB": "example.test", "GOFLAGS": "-mod=mod"}),
]  # fmt: skip


class World:
    """The upstreams of all tools."""

    def __init__(self, folder):
        self.registries = Registries(os.path.join(folder, "registries"), list(Registries.hosts))
        self.services = Services(os.path.join(folder, "services"), [GIT_HOST], TOKEN)
        self.bare = os.path.join(self.services.root, "org", "app.git")
        self.git("init", "-q", "--bare", "-b", "main", self.bare)
        self.git("-C", self.bare, "config", "http.receivepack", "true")
        tree = self.git("-C", self.bare, "mktree")
        commit = self.git("-C", self.bare, "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "begin", tree)
        self.git("-C", self.bare, "update-ref", "refs/heads/main", commit)
        self.ca = os.path.join(folder, "roots.pem")
        with open(self.ca, "w", encoding="ascii") as file:
            for one in (self.registries, self.services):
                with open(one.ca, encoding="ascii") as roots:
                    file.write(roots.read())
        self.resolve = {host: self.registries.pins["tls"] for host in Registries.hosts} | {GIT_HOST: self.services.pins["tls"]}

    @staticmethod
    def git(*words):
        env = {"PATH": OUTSIDE, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(["git", *words], env=env, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=30)  # fmt: skip
        return done.stdout.strip()

    def begin(self):
        """As if nobody had pushed."""
        self.git("-C", self.bare, "update-ref", "-d", "refs/heads/pushed")

    def close(self):
        self.registries.stop()
        self.services.stop()


class Use:
    """One tool in a folder of its own, once with the variables and once without."""

    def __init__(self, tool, folder, world):
        self.tool, self.folder, self.world = tool, folder, world
        self.project, self.journal = os.path.join(folder, "project"), os.path.join(folder, "audit.jsonl")
        for name in ("project", "state", "runtime"):
            os.makedirs(os.path.join(folder, name), mode=0o700)
        for name in tool.files:
            file_path = os.path.join(self.project, name)
            os.makedirs(os.path.dirname(file_path), exist_ok=True)
            with open(file_path, "w", encoding="utf-8") as file:
                file.write(ADDED[name])
        self.config = os.path.join(folder, "keyhole.yaml")
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({
                "version": 1, "audit": {"file": self.journal},
                "upstream": {"ca_file": world.ca, "resolve": world.resolve},
                "tenants": {"tools": {"rules": [{"use": rule} for rule in tool.rules]}},
            }, file)  # fmt: skip

    def run(self, variables=True):
        options = [word for name, value in self.tool.variables.items() for word in ("--env", f"{name}={value}")]
        words = list(self.tool.words)
        if not variables:
            words = ["env", *(word for name in PROXY_VARIABLES for word in ("-u", name)), *self.tool.instead, *words]
            # What `env` starts has to be shown by name.
            options += [word for folder in self.tool.shown for word in ("--ro", os.path.expanduser(folder))]
        env = {
            "PATH": path(), "HOME": os.path.expanduser("~"), "LANG": "C.UTF-8", "TERM": "dumb",
            "XDG_STATE_HOME": os.path.join(self.folder, "state"), "XDG_RUNTIME_DIR": os.path.join(self.folder, "runtime"),
            "KEYHOLE_PRESETS": os.path.join(ROOT, "policies"), **self.tool.settings,
        }  # fmt: skip
        command = [KEYHOLE, "run", "-c", self.config, "--workspace", self.project, *options, "--", *words]
        return follow(command, SECONDS, cwd=self.project, env=env)

    def records(self):
        return read_journal(self.journal) if os.path.exists(self.journal) else []

    def why_not(self, done):
        if done.late:
            return f"not done in {done.seconds:.0f} s"
        if done.status != 0:
            return f"exit status {done.status}: {last(done.said)}"
        if self.tool.expect not in done.output:
            return f"another answer: {last(done.output)}"
        if self.tool.secret and (self.tool.secret in done.said or self.leaks()):
            return "the real key is inside"
        return self.incomplete()

    def leaks(self):
        found = subprocess.run(["grep", "-rlF", "--", self.tool.secret, self.project], capture_output=True, text=True, check=False)
        return found.stdout.split()

    def incomplete(self):
        """What is wrong with the journal."""
        records = self.records()
        if {r["id"] for r in records if r["event"] == "open"} != {r["id"] for r in records if r["event"] in ("close", "aborted")}:
            return "records without their other half in the journal"
        verified = subprocess.run([KEYHOLE, "audit", "verify", self.journal], check=False, timeout=30, capture_output=True)
        return "" if verified.returncode == 0 else "the journal is not whole"


def last(text):
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("keyhole: ")]
    return (lines[-1] if lines else "it said nothing")[:160].replace("|", "\\|")


def version_of(tool):
    done = subprocess.run([tool.program, *tool.version], capture_output=True, text=True, check=False, timeout=30,
                          env={"PATH": path(), "HOME": os.path.expanduser("~")})  # fmt: skip
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else "?"


class Row:
    """What became of one of them."""

    heads = ["tool", "version", "with proxy variables", "without them", "hosts reached", "refused"]

    def __init__(self, tool):
        self.tool, self.version, self.became = tool, "–", ["–", "–"]
        self.reached, self.refused, self.failed, self.failed_besides = set(), set(), [], []

    def cells(self):
        hosts = ", ".join(f"`{host}`" for host in sorted(self.reached)) or "none"
        return [self.tool.name, self.version, *self.became, hosts, ", ".join(sorted(self.refused)) or "none"]


def run_tool(tool, folder, world):
    row = Row(tool)
    if why := tool.why_missing():
        row.failed, row.became = [why], [f"**no**: {why}"] * 2
        return row
    row.version = version_of(tool)
    for nth, variables in enumerate((True, False)):
        world.begin()
        use = Use(tool, os.path.join(folder, f"{tool.program}{nth}"), world)
        done = use.run(variables)
        if why := use.why_not(done):
            row.failed.append(why)
        row.became[nth] = f"**no**: {why}" if why else "yes"
        row.reached |= {r["server.address"] for r in use.records() if r["event"] == "open" and "server.address" in r}
        row.refused |= {f"`{r['server.address']}`" for r in use.records() if r["event"] == "deny" and "server.address" in r}
    print(f"   {tool.name}: {', '.join(row.became)}", flush=True)
    return row
