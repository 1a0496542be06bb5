"""No name that a run uses on the host leads to where an agent writes: not of an option, of a variable, or of the configuration."""

import json
import os
import re
import shutil
import subprocess
import time

import pytest
from conftest import PATIENCE, SANDBOX_HOST_UID
from test_run import Run

PLACES = ["workspace", "home"]
# How a name leads to a place where the agent writes: in it; through a link in it that leads out; through a link that leads in;
# through both.
WAYS = ["in", "through", "to", "by folder"]
REFUSED = "where the agent may write (move it out of there"


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


class Ground:
    """A workspace, a home, and names that lead into them or through them."""

    def __init__(self, run, place):
        self.run, self.sandbox = run, run.sandbox
        self.folders = {name: self.sandbox.folder(name) for name in PLACES}
        self.top = self.folders[place]
        self.safe = self.sandbox.folder("safe")
        os.symlink(self.safe, os.path.join(self.top, "away"))
        os.symlink(self.top, os.path.join(self.safe, "inward"))

    def name(self, way, name, content, mode=0o644):
        """The file is really there: in the agent's folder, or elsewhere with a link of the agent's on the way."""
        real = {"in": self.top, "to": self.top}.get(way, self.safe)
        self.sandbox.file(os.path.join(real, name), content, mode)
        if way == "to":
            os.makedirs(os.path.dirname(os.path.join(self.safe, name)), exist_ok=True)
            os.symlink(os.path.join(self.top, name), os.path.join(self.safe, name))
        self.sandbox.give(self.sandbox.place)
        return {
            "in": os.path.join(self.top, name),
            "through": os.path.join(self.top, "away", name),
            "to": os.path.join(self.safe, name),
            "by folder": os.path.join(self.safe, "inward", "..", os.path.basename(self.top), "away", name),
        }[way]

    def __call__(self, *options, check=125, workspace="", **more):
        given = ["--workspace", self.folders["workspace"] + workspace, "--home", self.folders["home"]]
        return self.run(*options, *given, "--", "true", use=None, check=check, **more)

    @property
    def marker(self):
        return os.path.join(self.sandbox.place, "ran")

    def program(self):
        return f"#!/bin/sh\ntouch {self.marker}; echo secretsecretsecret\n"


@pytest.fixture(params=PLACES)
def ground(run, request):
    return Ground(run, request.param)


def config_of(value=None, **more):
    config = {"version": 1, "tenants": {"me": {"rules": []}}, **more}
    if value:
        config["credentials"] = {"key": {"value": value, "hosts": ["a.test"], "bearer": True}}
        config["tenants"]["me"]["rules"] = [{"allow": "GET https://a.test/", "credential": "key"}]
    return json.dumps(config)


def settings(ground, value=None, **more):
    path = ground.sandbox.file(os.path.join(ground.safe, "rules.yaml"), config_of(value, **more))
    ground.sandbox.give(ground.safe)
    return path


def refused(ground, done, *words):
    assert REFUSED in done.stderr, done.stderr
    for word in words:
        assert word in done.stderr, (word, done.stderr)
    assert not os.path.exists(ground.marker), "a command of a refused configuration was run"


# --- each option, each variable -------------------------------------------------------------------

# Options of `keyhole run` that name a file of the host, which is read or written there.
NAMED = {"--config": "-c", "--audit": "--audit"}
# What the sandbox is given: judged by the sandbox itself (test_workspace.py, test_rootfs.py, test_image.py).
GIVEN = {"--workspace", "--home", "--ro", "--rootfs", "--image"}
NO_PATH = {
    "--tenant", "--use", "--allow", "--observe", "--ask", "--ask-time", "--no-workspace", "--agent", "--mask-env", "--entrypoint", "--env", "--engine",
    "--ports", "--capture-range", "--publish", "--memory", "--cpus", "--pids", "--disk", "--timeout", "--best-effort", "--quiet",
    "--help",
}  # fmt: skip
# Variables that name a folder or a file that keyhole reads or writes before a command of the configuration is run.
VARIABLES = ["KEYHOLE_PRESETS", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "STATE_DIRECTORY", "RUNTIME_DIRECTORY",
             "CREDENTIALS_DIRECTORY", "HOME"]  # fmt: skip
# No paths; PATH, whose entries are left out instead (test_program.c); and the notification socket of the daemon's own manager.
OTHER = {"NO_COLOR", "TERM", "COLUMNS", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "PATH", "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS"}
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src")


def test_no_option_is_new_here(run):
    """A new one that names a file of the host has to ask run_names.c, and goes into NAMED."""
    text = run("--help", use=None, check=0).stdout
    options = set(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", text, re.MULTILINE))
    assert options == set(NAMED) | GIVEN | NO_PATH


def test_no_variable_is_new_here():
    found = set()
    for folder, _, files in os.walk(SOURCE):
        if os.path.basename(folder) == "init":  # keyhole-init, inside
            continue
        for name in files:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found |= set(re.findall(r'getenv\("(\w+)"\)', file.read()))
    assert found <= set(VARIABLES) | OTHER, found - set(VARIABLES) - OTHER


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("option", NAMED)
def test_no_option_names_what_the_agent_could_exchange(ground, option, way):
    # The name of the workspace's own configuration has rules of its own (test_trust.py).
    path = ground.name(way, "file.yaml", config_of())
    refused(ground, ground(option, path), f"{NAMED[option]}: {path}")


@pytest.mark.parametrize("option", NAMED)
def test_nor_by_a_relative_name(ground, option):
    ground.name("in", "file.yaml", config_of())
    instead = ["(move it out of there, for example to ~/file.yaml)"] if option == "--audit" else []
    refused(ground, ground(option, "file.yaml", cwd=ground.top), NAMED[option], *instead)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("variable", VARIABLES)
def test_no_variable_names_what_the_agent_could_exchange(ground, variable, way):
    path = ground.name(way, "d", "")
    real = os.path.realpath(path)
    os.unlink(real)
    os.mkdir(real, 0o700)
    ground.sandbox.give(ground.sandbox.place)
    done = ground(**{variable: path})
    if variable == "HOME" and way in ("in", "to"):
        # A home folder is no sandbox's, nor is a folder above one.
        assert "is a home folder, or has one in it" in done.stderr, done.stderr
    else:
        refused(ground, done, f"{variable}: {path}")


# What podman, docker and skopeo read, and run programs from.
OF_CONTAINERS = ["CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE",
                 "CONTAINERS_HELPER_BINARY_DIR", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "APT_CONFIG", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"]  # fmt: skip
WITH_CONTAINERS = [["--image", "podman:x"], ["--engine", "podman", "--image", "x"], ["--engine", "docker"]]


@pytest.mark.parametrize("way", ["in", "through"])
@pytest.mark.parametrize("variable", OF_CONTAINERS)
def test_no_variable_of_containers_names_what_the_agent_could_exchange(ground, variable, way):
    path = ground.name(way, "d/file", "")
    for options in WITH_CONTAINERS:
        refused(ground, ground(*options, **{variable: path}), f"{variable}: {path}")
    assert REFUSED not in ground(check=None, **{variable: path}).stderr


@pytest.mark.parametrize("variable", ["DOCKER_HOST", "CONTAINER_HOST"])
def test_no_daemon_of_containers_listens_where_the_agent_could(ground, variable):
    path = ground.name("in", "d/docker.sock", "")
    for options in WITH_CONTAINERS:
        refused(ground, ground(*options, **{variable: f"unix://{path}"}), f"{variable}: {path}")
    for spelled in (f" unix://{path}", f"unix:{path}", f"UNIX://{path}"):
        refused(ground, ground(*WITH_CONTAINERS[0], **{variable: spelled}), f"{variable}: {path}")
    away = ground.name("through", "d/other.sock", "")
    refused(ground, ground(*WITH_CONTAINERS[0], **{variable: f"unix://{away}"}), f"{variable}: {away}")
    assert REFUSED not in ground(check=None, **{variable: f"unix://{path}"}).stderr
    assert REFUSED not in ground("--engine", "docker", check=None, **{variable: "unix:///run/nobody/docker.sock"}).stderr


def test_no_context_of_dockers_names_a_daemon_where_the_agent_could_listen(ground):
    program = shutil.which("docker")
    if not program:
        pytest.skip("docker is not there")
    variables = {"DOCKER_CONFIG": os.path.join(ground.safe, "docker"), "DOCKER_HOST": "", "DOCKER_CONTEXT": "",
                 "PATH": f"{os.path.dirname(program)}:/usr/sbin:/usr/bin:/sbin:/bin"}  # fmt: skip

    def docker(*words):
        subprocess.run([program, "context", *words], env={**os.environ, **variables}, check=True, capture_output=True, timeout=PATIENCE)
        ground.sandbox.give(ground.safe)

    docker("create", "away", "--docker", "host=unix:///run/nobody/docker.sock")
    for way in ("in", "through"):
        path = ground.name(way, "d/docker.sock", "")
        docker("create", way, "--docker", f"host=unix://{path}")
        docker("use", way)
        refused(ground, ground("--engine", "docker", **variables), f"docker's context: {path}")
        assert REFUSED not in ground("--engine", "docker", check=None, **{**variables, "DOCKER_CONTEXT": "away"}).stderr
        assert REFUSED not in ground("--engine", "docker", check=None, **{**variables, "DOCKER_HOST": "unix:///run/nobody/docker.sock"}).stderr
        docker("use", "away")
        refused(ground, ground("--engine", "docker", **{**variables, "DOCKER_CONTEXT": way}), f"docker's context: {path}")
        assert REFUSED not in ground(check=None, **{**variables, "DOCKER_CONTEXT": way}).stderr


# What a tool of containers finds by itself: the programs that it starts are looked for in PATH again.
TOOLS = ["podman", "docker", "apt-get", "mmdebstrap", "skopeo"]
THEIRS = ["newuidmap", "dpkg", "docker-credential-x", "mmdebstrap", "sh"]


@pytest.mark.parametrize("options", [["--image", "podman:x"], ["--image", "debian"], ["--engine", "docker"]])
def test_no_tool_finds_a_program_of_the_agents_on_the_path(ground, options):
    """Of a folder that agents write to no program is run, neither by keyhole nor by what it starts."""
    tools = ground.sandbox.folder("tools")
    log = os.path.join(tools, "log")
    for tool in TOOLS:
        mirror = "echo bookworm bookworm http://mirror.invalid/debian; exit 0" if tool == "apt-get" else "exit 1"
        script = f'#!/bin/sh\necho "{tool} $PATH" >>{log}\nnewuidmap; dpkg; docker-credential-x; env sh -c true\n{mirror}\n'
        ground.sandbox.file(os.path.join(tools, tool), script, 0o755)
    for name in THEIRS:
        theirs = ground.name("in", f"bin/{name}", ground.program(), 0o755)
    linked = ground.sandbox.folder("linked")  # the user's own links
    for name in THEIRS:
        os.symlink(os.path.join(os.path.dirname(theirs), name), os.path.join(linked, name))
    ground.sandbox.give(tools)
    for folder in ground.folders.values():  # docker shows no folder of root's
        if os.stat(folder).st_uid == 0:
            os.chown(folder, SANDBOX_HOST_UID, SANDBOX_HOST_UID)
    path = f"{os.path.dirname(theirs)}:{linked}:{tools}:/usr/sbin:/usr/bin:/sbin:/bin"
    done = ground(*options, check=None, PATH=path)
    assert not os.path.exists(ground.marker)
    assert os.path.exists(log), done.stderr
    assert f"PATH: {linked}/" in done.stderr and "is without its folder" in done.stderr
    with open(log, encoding="utf-8") as said:
        started = said.read().splitlines()
    assert started and all(line.split()[1] == f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin" for line in started), started


# Where these programs look without a variable, and what in there may be a link of the user's.
DEFAULTS = {
    ".config": "XDG_CONFIG_HOME", ".config/containers": "XDG_CONFIG_HOME", ".config/docker": "XDG_CONFIG_HOME",
    ".config/containers/containers.conf": "XDG_CONFIG_HOME", ".config/containers/containers.conf.d/x.conf": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME", ".local/share/containers": "XDG_DATA_HOME", ".local/share/containers/storage": "XDG_DATA_HOME",
    ".docker": "DOCKER_CONFIG", ".docker/config.json": "DOCKER_CONFIG", ".docker/cli-plugins/docker-x": "DOCKER_CONFIG",
    ".docker/contexts/meta/x/meta.json": "DOCKER_CONFIG", ".docker/contexts/tls/x/docker/key.pem": "DOCKER_CONFIG",
}  # fmt: skip


def linked(ground, name, home):
    """The user's name is a link into the agent's folder, as dotfiles in a repository have them."""
    path = os.path.join(home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(os.path.join(ground.top, "d"), path)
    ground.name("in", "d/containers/containers.conf", "")
    return path


@pytest.mark.parametrize("name", DEFAULTS)
def test_nor_does_a_default_place_of_containers(ground, name):
    linked(ground, name, ground.sandbox.place)
    for options in WITH_CONTAINERS:
        refused(ground, ground(*options), f"the default of {DEFAULTS[name]}: ", name)
    assert REFUSED not in ground(check=None).stderr


def test_nor_does_a_link_in_the_folder_that_a_variable_of_containers_names(ground):
    folder = ground.sandbox.folder("settings")
    path = linked(ground, "containers/containers.conf", folder)
    for options in WITH_CONTAINERS:
        refused(ground, ground(*options, XDG_CONFIG_HOME=folder), f"XDG_CONFIG_HOME: {path}")


def test_links_of_containers_to_elsewhere_are_fine(ground):
    ground.name("through", "d/containers/containers.conf", "")
    path = os.path.join(ground.sandbox.place, ".config")
    os.symlink(os.path.join(ground.safe, "d"), path)
    os.symlink("containers", os.path.join(ground.safe, "d", "docker"))
    for options in WITH_CONTAINERS:
        assert REFUSED not in ground(*options, check=None).stderr


PRESET = "description: mine\nsource: https://a.test/\nrules:\n  - allow: GET https://a.test/\n"


def test_no_preset_is_a_link_to_where_the_agent_writes(ground):
    presets = ground.sandbox.folder("presets")
    ground.name("in", "mine.yaml", PRESET)
    os.symlink(os.path.join(ground.top, "mine.yaml"), os.path.join(presets, "mine.yaml"))
    refused(ground, ground("--use", "mine", KEYHOLE_PRESETS=presets), "a preset: ")


def test_no_profile_is_a_link_to_where_the_agent_writes(ground):
    agents = ground.sandbox.folder("presets/agents")
    ground.name("in", "mine.yaml", "description: mine\ncommands: [mine]\n")
    os.symlink(os.path.join(ground.top, "mine.yaml"), os.path.join(agents, "mine.yaml"))
    refused(ground, ground("--agent", "mine", KEYHOLE_PRESETS=os.path.dirname(agents)), "--agent: ")


# --- the configuration ----------------------------------------------------------------------------
# tests/unit/test_carry.c goes through all of its options.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("words", [["{}"], ["/bin/sh", "{}"], ["/bin/sh", "--rcfile={}"], ["/bin/sh", "-init{}"], ["/bin/sh", "-c", "exec '{}' now"]])
def test_no_command_is_run_that_the_agent_could_rewrite(ground, words, way):
    path = ground.name(way, "get", ground.program(), 0o755)
    done = ground("-c", settings(ground, {"exec": [word.replace("{}", path) for word in words]}))
    refused(ground, done, "credentials.key.value.exec: ")


SCRIPTS = {
    "of the program": ["{}"], "of a word": ["/usr/bin/env", "{}"], "of a program in a script": ["/bin/sh", "-c", "exec {} now"],
    "of a program on PATH": ["get"],
}  # fmt: skip


@pytest.mark.parametrize("first", ["#!{}", "#! {} -x", "#!{relative}", "#!/bin/sh {}", "#!/usr/bin/env -S {} -x", "#!/usr/bin/env -S A={} sh"])
@pytest.mark.parametrize("how", SCRIPTS)
def test_nor_is_a_script_whose_interpreter_the_agent_could_rewrite(ground, how, first):
    path = ground.name("in", "sh", ground.program(), 0o755)
    first = first.replace("{relative}", path[1:]).replace("{}", path)
    script = ground.sandbox.file(os.path.join(ground.sandbox.folder("bin"), "get"), f"{first}\n{ground.program()}", 0o755)
    ground.sandbox.give(os.path.dirname(script))
    config = settings(ground, {"exec": [word.replace("{}", script) for word in SCRIPTS[how]]})
    refused(ground, ground("-c", config, PATH=os.path.dirname(script) + ":/usr/bin:/bin"), f"the interpreter of {script}: ", path)


def test_nor_one_whose_interpreter_is_such_a_script(ground):
    path = ground.name("in", "sh", ground.program(), 0o755)
    folder = ground.sandbox.folder("bin")
    inner = ground.sandbox.file(os.path.join(folder, "inner"), f"#!{path}\n", 0o755)
    script = ground.sandbox.file(os.path.join(folder, "get"), f"#!{inner}\n", 0o755)
    ground.sandbox.give(folder)
    refused(ground, ground("-c", settings(ground, {"exec": [script]})), f"the interpreter of {inner}: ", path)


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/bin/sh -e", "#!/usr/bin/env sh", "#!/usr/bin/env -S sh -e"])
def test_a_script_with_an_interpreter_of_the_host_is_run(ground, first):
    script = ground.sandbox.file(os.path.join(ground.sandbox.folder("bin"), "get"), f"{first}\n{ground.program()}", 0o755)
    ground.sandbox.give(ground.sandbox.place)
    ground("-c", settings(ground, {"exec": [script]}), check=0)
    assert os.path.exists(ground.marker)


@pytest.mark.parametrize("word", ["{}", "-I{}", "--file={}", "a:{}", "cat {}"])
def test_a_relative_word_of_a_command_counts_from_the_root(ground, word):
    """In which a command runs."""
    ground.name("in", "get", ground.program(), 0o755)
    path = os.path.relpath(os.path.join(ground.top, "get"), "/")
    refused(ground, ground("-c", settings(ground, {"exec": ["/bin/echo", word.replace("{}", path)]})), "credentials.key.value.exec")


@pytest.mark.parametrize("word", [". ~/{}", ". $HOME/{}", ". \"${HOME}/{}\""])
def test_a_shells_name_of_the_home_counts(ground, word):
    ground.name("in", "get", ground.program(), 0o755)
    word = word.replace("{}", os.path.basename(ground.top) + "/get")
    refused(ground, ground("-c", settings(ground, {"exec": ["/bin/sh", "-c", word]})), "credentials.key.value.exec")


@pytest.mark.parametrize("value", ["-I{} -Mx", "--require {}/x", "-javaagent:{}/x", "unix:path={}/s", "{relative}/x"])
def test_nor_does_one_with_options_that_have_a_path(ground, value):
    config = settings(ground, {"exec": ["/bin/true"], "environment": ["OPTIONS"]})
    path = os.path.dirname(ground.name("in", "d/file", ""))
    value = value.replace("{relative}", path[1:]).replace("{}", path)
    refused(ground, ground("-c", config, OPTIONS=value), "OPTIONS: ")


HIDDEN = {
    "quoted": '"$HOME"/{}', "quoted behind": "exec $HOME'/{}'", "escaped": "\\$HOME; . $HOME/\\{}", "after cd": "cd; {}",
    "after cd to a part": "cd ${HOME%/} && {}", "after cd to a folder": "cd {above} && . {}", "by another": 'exec "$THERE"/{}',
    "by one that is set": "exec $SET/{}", "by its own": "H=$HOME; exec $H/{}", "by a pattern": "exec {above}/*/get",
    "by what a command says": '. "$(dirname {above}/x)"/{}', "by a command in backquotes": ". `pwd`/{}", "of a user": ". ~me/{}",
    "by a list": ". {above}/{x,y}/get", "over two lines": ". {above}/\\\n{}", "among many folders": "/a " * 20 + "; cd {above}; . {}",
}  # fmt: skip


@pytest.mark.parametrize("how", HIDDEN)
def test_a_path_in_a_shells_script_is_read_as_the_shell_would_or_refused(ground, how):
    ground.name("in", "get", ground.program(), 0o755)
    above, name = os.path.split(ground.top)
    script = HIDDEN[how].replace("{above}", above).replace("{}", name + "/get")
    value = {"exec": ["/bin/sh", "-c", script], "environment": ["SET=" + above]}
    done = ground("-c", settings(ground, value), THERE=above)
    assert "credentials.key.value.exec: " in done.stderr and re.search("(can't tell whether|where) (an|the) agent may write", done.stderr)
    assert not os.path.exists(ground.marker), "it ran"


@pytest.mark.parametrize("script", [
    "printf %s 'secret?secret*secret' | cut -c 1-40", 'x=secret; echo "$x$x$x"', "echo secretsecretsecret | sed 's/x$/y/'",
    "cat /etc/hostname >/dev/null; echo secretsecretsecret", "echo 'https://a.test/x?y=$1' \"https://b.test/$HOME/x?y=z\"",
])  # fmt: skip
def test_a_shells_script_that_names_nothing_else_is_run(ground, script):
    done = ground("-c", settings(ground, {"exec": ["/bin/sh", "-c", script]}), check=0)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_no_value_is_read_from_where_the_agent_writes(ground, way):
    path = ground.name(way, "token", "secretsecretsecret")
    refused(ground, ground("-c", settings(ground, {"file": path})), "credentials.key.value.file: ", path)


def test_nor_does_one_that_the_command_asks_for(ground):
    config = settings(ground, {"exec": ["/bin/true"], "environment": ["PYTHONPATH"]})
    path = ground.name("in", "d/file", "")
    refused(ground, ground("-c", config, PYTHONPATH="/usr/lib:" + os.path.dirname(path)), "PYTHONPATH: ")


def of_commands():
    """Each variable that exec.c gives to a command, apart from those whose value is no path."""
    with open(os.path.join(SOURCE, "keeper", "exec.c"), encoding="utf-8") as file:
        (names,) = re.findall(r"kh_exec_variables\[\] = \{(.*?)\};", file.read(), re.DOTALL)
    return sorted(set(re.findall(r'"(\w+)"', names)) - {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL"})


@pytest.mark.parametrize("variable", [name for name in of_commands() if name not in VARIABLES])
def test_no_variable_leads_a_command_to_where_the_agent_writes(ground, variable):
    config = settings(ground, {"exec": ["/bin/sh", "-c", f"touch {ground.marker}; echo secretsecretsecret"]})
    path = ground.name("in", "d/file", "")
    refused(ground, ground("-c", config, **{variable: path}), variable)
    # Without a command nobody reads it: git says for itself what it thinks of its own.
    assert REFUSED not in ground("-c", settings(ground), check=None, **{variable: path}).stderr


@pytest.mark.parametrize("value", ["{}/my d", "{}/a:b", "{}/a,b=c", "{}/it's", "/usr/lib:{}/a,b", "unix:path={}/my d,guid=0"])
def test_nor_does_one_with_a_path_that_has_a_separator_in_it(ground, value):
    config = settings(ground, {"exec": ["/bin/sh", "-c", f"touch {ground.marker}; echo secretsecretsecret"]})
    for name in ("my d", "a:b", "a,b=c", "it's", "a,b"):
        os.symlink(ground.top, os.path.join(ground.safe, name))
    for variable in ("XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS"):
        refused(ground, ground("-c", config, **{variable: value.replace("{}", ground.safe)}), variable)


def test_nor_does_the_address_of_a_bus(ground):
    config = settings(ground, {"exec": ["/bin/sh", "-c", f"touch {ground.marker}; echo secretsecretsecret"]})
    path = ground.name("in", "d/bus", "")
    refused(ground, ground("-c", config, DBUS_SESSION_BUS_ADDRESS=f"unix:path={path},guid=0"), f"DBUS_SESSION_BUS_ADDRESS: {path} ")


@pytest.mark.parametrize(("variable", "name"), [("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", ".local/share"), ("GNUPGHOME", ".gnupg")])
def test_nor_does_a_default_place_of_commands(ground, variable, name):
    config = settings(ground, {"exec": ["/bin/sh", "-c", f"touch {ground.marker}; echo secretsecretsecret"]})
    path = linked(ground, name, ground.sandbox.place)
    refused(ground, ground("-c", config), f"the default of {variable}: {path} ")
    # It is read by nobody where the variable is set, or where there is no command.
    ground("-c", config, check=0, **{variable: ground.sandbox.folder("elsewhere")})
    assert REFUSED not in ground("-c", settings(ground), check=None).stderr


def test_a_place_of_an_earlier_run_counts_too(run):
    ground = Ground(run, "home")
    ground(check=0)
    path = ground.name("in", "get", ground.program(), 0o755)
    done = run("-c", settings(ground, {"exec": [path]}), "--", "true", use=None, check=125)
    refused(ground, done, "the --home of another run")


# --- the names of other runs ----------------------------------------------------------------------


class Other:
    """A live run, which goes on until it is told to end."""

    def __init__(self, run, *options, meanwhile="", **more):
        self.process = subprocess.Popen(
            run.command(*options, "--", "sh", "-c", f"echo up; {meanwhile} read -r line", use=None), env=run.environment(**more), cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        if self.process.stdout.readline() != b"up\n":
            pytest.fail(self.process.communicate()[1].decode())

    def end(self):
        self.process.communicate(b"\n", timeout=PATIENCE)
        assert self.process.returncode == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Tools:
    """A program in a folder that no run has had, and a configuration that executes it."""

    def __init__(self, run, way="in"):
        self.run, self.sandbox = run, run.sandbox
        self.top, self.safe = self.sandbox.folder("tools"), self.sandbox.folder("safe")
        self.marker = os.path.join(self.sandbox.place, "ran")
        os.symlink(self.safe, os.path.join(self.top, "away"))
        self.program = Ground.name(self, way, "get-token", Ground.program(self), 0o755)
        self.config = settings(self, {"exec": [self.program], "refresh": "1s"})

    def live(self, *options):
        return Other(self.run, *options, "-c", self.config)

    def give(self, option, check, mode="", command=("true",)):
        return self.run(option, self.top + mode, "--", *command, use=None, check=check)

    def is_said(self, done, other):
        assert f"a live run (process {other.process.pid}) uses {self.program} (credentials.key.value.exec)" in done.stderr, done.stderr
        assert "end that run first, or " in done.stderr


@pytest.mark.parametrize("way", ["in", "to", "through"])
@pytest.mark.parametrize("option", ["--workspace", "--home"])
def test_no_agent_gets_a_folder_in_which_a_live_run_names_something(run, option, way):
    tools = Tools(run, way)
    with tools.live() as other:
        done = tools.give(option, 125)
        tools.is_said(done, other)
        assert (":ro" in done.stderr) == (option == "--workspace")
        # What no agent writes may have it, and so may any other folder.
        if option == "--workspace":
            tools.give(option, 0, ":ro")
        run(option, run.sandbox.folder("unrelated"), "--", "true", use=None, check=0)
        other.end()
    tools.give(option, 0)


def test_also_if_the_folder_became_a_link_only_later(run):
    tools = Tools(run)
    moved = tools.top + "-moved"
    with tools.live() as other:
        os.rename(tools.top, moved)
        os.symlink(moved, tools.top)
        done = run("--workspace", moved, "--", "true", use=None, check=125)
        tools.is_said(done, other)


@pytest.mark.parametrize("option", ["--workspace", "--home"])
def test_nor_does_a_run_begin_that_names_something_in_the_folder_of_a_live_one(run, option):
    """The other order."""
    tools = Tools(run)
    with Other(run, option, tools.top):
        done = run("-c", tools.config, "--", "true", use=None, check=125)
        assert f"is in the {option.replace('--workspace', 'workspace')} of another run" in done.stderr, done.stderr
        assert not os.path.exists(tools.marker)


def test_of_two_that_start_at_once_one_is_refused(run):
    tools = Tools(run)
    for turn in range(4):
        both = [run.start("-q", *options, "--", "sh", "-c", "sleep 3", use=None)
                for options in [("-c", tools.config), ("--workspace", tools.top)][::-1 if turn % 2 else 1]]  # fmt: skip
        said = [process.communicate(timeout=PATIENCE)[1].decode() for process in both]
        assert sorted(process.returncode for process in both) == [0, 125], said


def test_options_and_variables_of_a_live_run_count_too(run):
    tools, folder = Tools(run), run.sandbox.folder("journal")
    with Other(run, "--audit", os.path.join(folder, "a.jsonl"), PYTHONPATH=tools.top):
        done = run("--workspace", folder, "--", "true", use=None, check=125)
        assert "a.jsonl (--audit)" in done.stderr, done.stderr
        tools.give("--workspace", 0)


def test_where_a_live_runs_commands_are_looked_for_counts_too(run):
    """Of a link there, what it leads to as well. Without a command nobody looks."""
    tools, bin = Tools(run), run.sandbox.folder("bin")
    os.symlink(tools.program, os.path.join(bin, "linked"))
    path = bin + ":/usr/bin:/bin"
    config = settings(tools, {"exec": ["linked"]})
    with Other(run, "-c", config, PATH=path):
        for folder, name in [(bin, bin), (tools.top, os.path.join(bin, "linked"))]:
            done = run("--home", folder, "--", "true", use=None, check=125)
            assert f"uses {name}" in done.stderr and "(PATH)" in done.stderr, done.stderr
    with Other(run, "-c", settings(tools), PATH=path):
        run("--workspace", bin, "--", "true", use=None, check=0)


def test_a_run_whose_launcher_was_killed_uses_nothing_any_more(run):
    tools = Tools(run)
    with tools.live() as other:
        other.process.kill()
        other.process.wait(timeout=PATIENCE)
        end = time.monotonic() + PATIENCE
        while (done := tools.give("--workspace", None)).returncode:
            tools.is_said(done, other)
            assert time.monotonic() < end, done.stderr
            time.sleep(0.1)
    assert not os.listdir(os.path.join(run.state, "keyhole", "names"))


@pytest.mark.parametrize("damage", ["cut", "nothing", "more", "letter"])
def test_a_damaged_record_of_a_live_run_lets_none_begin(run, damage):
    tools = Tools(run)
    folder = os.path.join(run.state, "keyhole", "names")
    with tools.live() as other:
        (name,) = os.listdir(folder)
        with open(os.path.join(folder, name), "r+b") as file:
            content = file.read()
            assert content.startswith(b"p%d\0" % other.process.pid) and content.endswith(b"\0e\0")
            file.seek(0)
            file.truncate()
            file.write({"cut": content[:-2], "nothing": b"", "more": content + b"n/x\0", "letter": b"x" + content[1:]}[damage])
        done = run("--", "true", use=None, check=125)
        assert f"names/{name}: can't be understood" in done.stderr, done.stderr
        other.end()
    run("--", "true", use=None, check=0)


def test_more_names_than_the_record_holds_are_refused(run):
    tools = Tools(run)
    word = " ".join(f"/tmp/{'x' * 100}{n}" for n in range(36))
    done = run("-c", settings(tools, {"exec": ["/bin/true", *[word] * 60]}), "--", "true", use=None, check=125)
    assert "than fit into its record (4194304 bytes)" in done.stderr, done.stderr


def test_words_that_lead_nowhere_are_not_noted(run):
    tools, folder = Tools(run), run.sandbox.folder("empty")
    config = settings(tools, {"exec": ["/bin/sh", "-c", "echo $1", "-", "token=secretsecretsecret", folder + "/absent"]})
    with Other(run, "-c", config):
        names = os.path.join(run.state, "keyhole", "names")
        (name,) = os.listdir(names)
        with open(os.path.join(names, name), "rb") as file:
            content = file.read()
        assert b"secretsecret" not in content and os.fsencode(folder + "/absent") in content
        assert "absent (credentials" in run("--home", folder, "--", "true", use=None, check=125).stderr


# --- before the proxy -----------------------------------------------------------------------------


def test_no_command_has_run_when_the_sandbox_would_see_a_file_of_the_configuration(run):
    ground = Ground(run, "workspace")
    tool = ground.sandbox.file(os.path.join(ground.sandbox.folder("tool"), "secret"), "secretsecretsecret")
    config = settings(ground, {"exec": ["/bin/sh", "-c", f"touch {ground.marker}; echo secretsecretsecret"]},
                      audit={"file": os.path.join(os.path.dirname(tool), "audit.jsonl")})  # fmt: skip
    done = ground("--ro", os.path.dirname(tool), "-c", config)
    assert "the sandbox would see it through" in done.stderr, done.stderr
    assert not os.path.exists(ground.marker)


# --- what stays -----------------------------------------------------------------------------------


def test_words_that_only_look_like_paths_are_fine(ground):
    words = ["/bin/sh", "-c", f"touch {ground.marker}; echo secretsecretsecret", "/api/v1/x", "https://a.test/workspace/home", "a/b:c",
             "workspace", "away", "--file=get", ground.top + "x/y", "/bin/sh/../x", "x" * 300 + "/y"]  # fmt: skip
    done = ground("-c", settings(ground, {"exec": words}), check=0)
    assert os.path.exists(ground.marker), done.stderr


def test_a_folder_beside_or_above_is_fine(ground):
    """Also if the sandbox's folders lie below it, and by a name that goes up from there without a link."""
    path = ground.sandbox.file(os.path.join(ground.safe, "token"), "secretsecretsecret")
    ground.sandbox.give(ground.safe)
    ground("-c", settings(ground, {"file": os.path.join(ground.safe, "..", "safe", "token")}), check=0)
    ground("-c", settings(ground, {"file": path}), check=0, cwd=ground.top)


@pytest.mark.parametrize("mode", [":ro", ":review"])
def test_a_workspace_that_the_agent_does_not_write_may_have_the_program(run, mode):
    ground = Ground(run, "workspace")
    path = ground.name("in", "get", ground.program(), 0o755)
    done = ground("-c", settings(ground, {"exec": [path]}), check=0, workspace=mode)
    assert os.path.exists(ground.marker), done.stderr


def test_the_configuration_may_come_from_a_pipe(run):
    done = run("-c", "/dev/stdin", "--", "true", use=None, input=config_of())
    assert "can't tell" not in done.stderr and "may write" not in done.stderr
