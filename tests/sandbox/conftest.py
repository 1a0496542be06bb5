"""conftest.py - sandboxes over a socket of the test's own, as root and as an ordinary user.

`sandbox` starts the launcher alone (launch_only.c, no proxy): whatever answers at the socket is the
test's. Every test runs once for each identity that this machine lets us be. `python(code)` runs a
program inside and gives back what it printed as JSON.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading

import docker_daemon
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON = "/usr/bin/python3"
USER = 61234  # an ordinary uid that nobody has
SANDBOX_HOST_UID = 64952
PATIENCE = 60


def identities():
    return ["root", "user"] if os.geteuid() == 0 else ["user"]


def works():
    """Does bubblewrap work here at all? None, or why not."""
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    done = subprocess.run(
        ["bwrap", "--unshare-user", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/", "true"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    return None if done.returncode == 0 else "bubblewrap can't make a sandbox here: " + done.stderr


def landlock_abi():
    """Of this kernel; 0: none."""
    return max(0, ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint(1)))


WHY_NOT = works()

# Each engine, and the programs of which one must be there. One that is there has to work.
ENGINES = {"process": ["bwrap"], "container": ["crun", "runc"], "podman": ["podman"], "docker": ["docker"], "gvisor": ["runsc"]}
# What is promised of every engine is tried in every engine; the rest is the launcher's own.
IN_EVERY_ENGINE = {"test_escape", "test_calls", "test_capture", "test_guard", "test_image", "test_limits", "test_publish", "test_layer", "test_rootfs", "test_terminal", "test_workspace", "test_ends", "test_stdio", "test_trees", "test_set_aside_engines"}


def docker_host():
    """Of a daemon of docker's, which the program alone is nothing without."""
    where, why = docker_daemon.host()
    if why:
        pytest.skip(f"engine docker: {why}")
    return where


def engines_for(module):
    for engine, programs in ENGINES.items():
        if engine != "process" and module not in {"podman": IN_PODMAN, "docker": IN_DOCKER}.get(engine, IN_EVERY_ENGINE):
            continue
        missing = not any(shutil.which(program) for program in programs)
        reason = f"engine {engine}: no {' or '.join(programs)} here"
        if engine == "docker" and not missing and (why := docker_daemon.why_not()):
            missing, reason = True, f"engine docker: {why}"
        yield pytest.param(engine, marks=pytest.mark.skip(reason=reason) if missing else [])


# Podman is run as the container's program is, in the same outer namespace over the same root: tried is what podman
# itself has a hand in, and all but the escapes by one identity.
IN_PODMAN = {"test_set_aside_engines": ["user"], "test_escape": ["root", "user"], "test_calls": ["root"], "test_capture": ["user"], "test_limits": ["root"], "test_terminal": ["user"],
             "test_publish": ["user"], "test_layer": ["root"], "test_ends": ["root"]}  # fmt: skip


# The clients of test_capture are started by `keyhole run` in these as well, and gvisor's whole module, by one
# identity each.
CLIENTS_AS = {"gvisor": "root", "container": "user", "podman": "user"}


# It is slow: by one identity what the launcher lays the same for each.
GVISOR_AS = {"test_set_aside_engines": "root", "test_workspace": "root", "test_calls": "root", "test_stdio": "root", "test_trees": "root"}


# In docker the same, by one identity each: root's sandbox and a user's differ in who the daemon is told to make of it.
IN_DOCKER = {"test_escape": ["root"], "test_set_aside_engines": ["user"], "test_stdio": ["root"], "test_calls": ["root"], "test_capture": ["root"], "test_limits": ["root"], "test_terminal": ["user"],
             "test_ends": ["root"], "test_publish": ["user"], "test_rootfs": ["user"], "test_workspace": ["user"]}  # fmt: skip
# What keyhole settles before docker hears of it, or keyhole-init by itself; each start takes a daemon most of a second.
NOT_IN_DOCKER = {
    "test_a_link_in_a_protected_place_is_refused", "test_a_workspace_that_is_more_than_a_project_is_refused",
    "test_more_to_read_means_a_tool_not_a_tree_of_secrets", "test_a_submodule_is_protected_like_a_repository",
    "test_a_repository_in_the_workspace_is_protected_like_one_at_its_top", "test_a_worktrees_pointer_is_protected",
    "test_hooks_in_a_folder_of_the_projects_own_are_protected", "test_the_rest_of_a_repository_works",
    "test_git_on_the_host_works_while_a_sandbox_runs_and_sees_nothing_new", "test_any_other_answer_is_a_reset",
    "test_dns_is_not_held_up_by_those_who_say_nothing", "test_an_address_that_stands_for_nothing_is_a_reset",
    "test_the_answer_to_connect_is_not_shown_and_nothing_behind_it_is_lost", "test_many_at_a_time",
    "test_where_nobody_listens_inside_the_connection_ends", "test_much_goes_both_ways_and_each_half_ends_by_itself",
    "test_only_the_loopback_of_the_host_listens", "test_a_port_that_is_taken_is_said_before_anything_runs",
    "test_the_relay_works_in_any_root", "test_the_proxy_is_not_published",
}  # fmt: skip


# What is one flow from a run to what is taken over, by one identity each.
IN_EVERY_ENGINE.add("test_review_engines")
IN_PODMAN["test_review_engines"] = ["root"]
IN_DOCKER["test_review_engines"] = ["user"]
GVISOR_AS["test_review_engines"] = "user"
# The same of the files that keyhole-init puts into a home.
IN_EVERY_ENGINE.add("test_preset_files")
IN_PODMAN["test_preset_files"] = ["user"]
IN_DOCKER["test_preset_files"] = ["user"]
GVISOR_AS["test_preset_files"] = "root"


# The launcher's own clock, which runs while a slow program starts.
NOT_IN_PODMAN = {"test_a_command_whose_time_is_up_is_asked_to_end", "test_and_ended_where_it_does_not_listen"}
NOT_IN_DOCKER |= NOT_IN_PODMAN


def is_moot(item):
    """Tried already under another name."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    engine, identity = params.get("engine", "process"), params.get("identity")
    # `keyhole run` as a whole: it takes an engine of its own, but for the clients that know no proxy.
    whole, captures = "inside" in item.fixturenames, item.module.__name__ == "test_capture"
    if engine in CLIENTS_AS and captures and (whole or engine == "gvisor"):
        return identity != CLIENTS_AS[engine] and CLIENTS_AS[engine] in identities()
    if engine != "process" and whole:
        return True
    if engine == "gvisor" and item.module.__name__ in GVISOR_AS:
        only = GVISOR_AS[item.module.__name__]
        return identity != only and only in identities() and not item.get_closest_marker("identity")
    by, but = {"podman": (IN_PODMAN, NOT_IN_PODMAN), "docker": (IN_DOCKER, NOT_IN_DOCKER)}.get(engine, ({}, ()))
    if item.module.__name__ not in by:
        return False
    return identity not in by[item.module.__name__] or item.originalname in but


def pytest_collection_modifyitems(config, items):
    moot = [item for item in items if is_moot(item)]
    if moot:
        config.hook.pytest_deselected(items=moot)
        items[:] = [item for item in items if item not in moot]
    for item in items:
        if WHY_NOT:
            item.add_marker(pytest.mark.skip(reason=WHY_NOT))


def pytest_generate_tests(metafunc):
    if "engine" in metafunc.fixturenames:
        wanted = list(engines_for(metafunc.module.__name__))
        if metafunc.definition.get_closest_marker("before_the_engine"):
            wanted = wanted[:1]
        metafunc.parametrize("engine", wanted)
    if "identity" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("identity")
        wanted = [i for i in identities() if not only or i in only.args]
        metafunc.parametrize(
            "identity",
            wanted or [pytest.param("root", marks=pytest.mark.skip(reason="needs root"))],
        )


def pytest_configure(config):
    config.addinivalue_line("markers", "before_the_engine: of what is done before one starts; with the first one only")
    config.addinivalue_line("markers", "identity(name): only as root, or only as a user")


@pytest.fixture(scope="session")
def programs():
    """Copies of what was built, where an ordinary user can run them."""
    with open(os.path.join(ROOT, "Makefile"), "rb") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        subprocess.run(
            ["make", "-s", "build/keyhole", "build/keyhole-init", "build/sandbox/launch_only"],
            cwd=ROOT, check=True, timeout=400,
            env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")},
        )  # fmt: skip
    folder = tempfile.mkdtemp(prefix="kh-programs.")
    os.chmod(folder, 0o755)
    for name in ("keyhole", "keyhole-init", "sandbox/launch_only"):
        target = os.path.join(folder, os.path.basename(name))
        shutil.copy(os.path.join(ROOT, "build", name), target)
        os.chmod(target, 0o755)
    shutil.copytree(os.path.join(ROOT, "policies"), os.path.join(folder, "policies"))
    for path, _, files in os.walk(os.path.join(folder, "policies")):
        os.chmod(path, 0o755)
        for name in files:
            os.chmod(os.path.join(path, name), 0o644)
    ca = os.path.join(folder, "ca.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", "/dev/null", "-out", ca, "-days", "2", "-subj", "/CN=sandbox test CA"],
        check=True, capture_output=True, timeout=PATIENCE,
    )  # fmt: skip
    os.chmod(ca, 0o644)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place(identity):
    """A folder of the identity's own, that others may pass through."""
    folder = tempfile.mkdtemp(prefix="kh-sb.")
    os.chmod(folder, 0o755)
    if identity == "user" and os.geteuid() == 0:
        os.chown(folder, USER, USER)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def below(pid):
    """What descends from a process, by pid."""
    parents = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{other}/stat", encoding="ascii", errors="replace") as file:
            parents[int(other)] = int(file.read().rpartition(") ")[2].split()[1])
    found, left = [], [pid]
    while left:
        above = left.pop()
        more = [child for child, parent in parents.items() if parent == above]
        found += more
        left += more
    return found


class Peer:
    """The far side of the relay: a Unix socket, and a function for each connection."""

    def __init__(self, folder, serve, backlog=4096):
        self.folder = folder
        os.mkdir(folder, 0o755)
        os.chmod(folder, 0o755)
        self.path = os.path.join(folder, "s")
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(self.path)
        os.chmod(self.path, 0o666)
        self.sock.listen(backlog)
        self.serve = serve
        self.errors = []
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.sock.accept()
                threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        with contextlib.suppress(OSError), connection:
            self.serve(connection)

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def read_all(connection):
    data = bytearray()
    while chunk := connection.recv(65536):
        data += chunk
    return bytes(data)


def echo_at_end(connection):
    """Answers only after the other side has ended its half."""
    data = read_all(connection)
    connection.sendall(b"%d:" % len(data) + data)


class Sandbox:
    def __init__(self, identity, place, programs, engine="process"):
        self.identity = identity
        self.engine = engine
        self.place = place
        self.programs = programs
        self.docker = docker_host() if engine == "docker" else ""
        self.peers = []
        self.peer(echo_at_end)

    def peer(self, serve, **options):
        folder = os.path.join(self.place, f"sock{len(self.peers)}")
        self.peers.append(Peer(folder, serve, **options))
        self.socket_dir = folder
        return self.peers[-1]

    def as_identity(self, command):
        if self.identity == "user" and os.geteuid() == 0:
            return ["/usr/bin/setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *command]
        return command

    def folder(self, name, mode=0o755):
        path = os.path.join(self.place, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        self.give(path)
        return path

    def give(self, path):
        """To the identity."""
        if self.identity == "user" and os.geteuid() == 0:
            for above, folders, files in os.walk(path):
                for name in [".", *folders, *files]:
                    os.lchown(os.path.join(above, name), USER, USER)

    def file(self, path, content="", mode=0o644):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(path, mode)
        if self.identity == "user" and os.geteuid() == 0:
            os.chown(path, USER, USER)
        return path

    def environment(self, **more):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "HOME": self.place,
                "STATE_DIRECTORY": self.state(), "XDG_STATE_HOME": os.path.join(self.place, "state"),
                "LAUNCH_CA": os.path.join(self.programs, "ca.pem"), **self.words(), **more}  # fmt: skip

    def state(self):
        """Where keyhole notes what it has set aside."""
        return os.path.join(self.place, "state", "keyhole")

    def words(self):
        """What an engine's program has to be told besides."""
        return {"DOCKER_HOST": self.docker} if self.docker else {}

    def command(self, *args, **options):
        words = []
        for name, value in {"engine": self.engine, **options}.items():
            values = value if isinstance(value, list) else [value]
            for one in values:
                words += ["--" + name.replace("_", "-"), str(one)]
        launcher = os.path.join(self.programs, "launch_only")
        return self.as_identity(
            [launcher, "--socket-dir", self.socket_dir, *words, "--", *args]
        )

    def start(self, *args, env=None, stdin=subprocess.DEVNULL, pass_fds=(), **options):
        return subprocess.Popen(
            self.command(*args, **options), stdin=stdin, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=env or self.environment(), pass_fds=pass_fds, cwd="/",
        )  # fmt: skip

    def run(self, *args, input=None, check=None, env=None, pass_fds=(), cwd="/", **options):
        done = subprocess.run(
            self.command(*args, **options), input=input if input is not None else b"",
            capture_output=True, timeout=PATIENCE, env=env or self.environment(),
            pass_fds=pass_fds, cwd=cwd, check=False,
        )  # fmt: skip
        if check is not None:
            assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done

    def sh(self, script, check=0, **options):
        return self.run("sh", "-c", script, check=check, **options).stdout.decode()

    def python(self, code, *args, check=0, **options):
        """Runs a program inside; `say(x)` in it is what comes back."""
        head = "import json, sys\ndef say(x): print(json.dumps(x)); sys.stdout.flush()\n"
        done = self.run(PYTHON, "-I", "-c", head + textwrap.dedent(code), *map(str, args),
                        check=check, **options)  # fmt: skip
        lines = done.stdout.decode().splitlines()
        return json.loads(lines[-1]) if lines else None

    def close(self):
        for peer in self.peers:
            peer.close()


@pytest.fixture
def sandbox(identity, engine, place, programs):
    made = Sandbox(identity, place, programs, engine)
    yield made
    made.close()


@pytest.fixture
def workspace(sandbox):
    made = sandbox.folder("work")
    if sandbox.engine == "docker" and sandbox.identity == "root":
        os.chown(made, SANDBOX_HOST_UID, SANDBOX_HOST_UID)  # docker can't show it as somebody else's
    return made


@pytest.fixture
def small_disk(sandbox):
    """A file system of few bytes and few names, with the folder's owner, as a function of its place."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    places, own = [], docker_daemon.started() if sandbox.engine == "docker" else None

    def mount(folder, size="256k", names=40):
        options, was = f"size={size},nr_inodes={names},mode=0755", os.stat(folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "kh-test", folder], check=True, timeout=PATIENCE)
        places.append(folder)
        os.chown(folder, was.st_uid, was.st_gid)
        if own:
            own.show(folder)

    yield mount
    for folder in places:
        if own:
            own.hide(folder)
        subprocess.run(["umount", folder], check=True, timeout=PATIENCE)


sys.dont_write_bytecode = True
