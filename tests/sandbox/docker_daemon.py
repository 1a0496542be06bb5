"""docker_daemon.py - a daemon of docker's for tests, in namespaces of its own

    host, why = docker_daemon.host()    # where it answers (DOCKER_HOST), or None and why none does

Where DOCKER_HOST says so, or for an ordinary user, it is the one that is there. Root gets a daemon that nobody else sees, at
the first call, one a process: its images, containers and sockets lie in memory that only its mount namespace has; its network
is an empty one, so no rule, bridge or setting of the host's is touched; and the shell that starts it is PID 1 of its process
namespace. So whatever ends, the test, the daemon or who looks after it, the kernel takes all of it away but a folder and empty
control groups. Those are removed by a process that waits for the test's end (this file as a program), which outlives the test.
"""

import atexit
import contextlib
import ctypes
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE = 60
USER = 61234  # conftest's ordinary uid: its group may talk to the daemon
PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x8000000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE, MNT_DETACH, PR_SET_PDEATHSIG = 0x4000, 1 << 18, 2, 1
SYS_open_tree, SYS_move_mount = 428, 429
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, AT_FDCWD = 1, 4, -100

libc = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


# --- for tests ------------------------------------------------------------------------------------


def answers(where=""):
    """Does a daemon answer the program? Podman's program of that name says that it does."""
    done = subprocess.run(["docker", "version"], capture_output=True, timeout=PATIENCE, check=False, env=words(where))
    return done.returncode == 0 and b"Podman" not in done.stdout


def words(where):
    """The environment of a docker that asks there; "": its own default."""
    return {**os.environ, "PATH": PATH, **({"DOCKER_HOST": where} if where else {})}


def makes_its_own():
    return os.geteuid() == 0 and "DOCKER_HOST" not in os.environ and shutil.which("dockerd", path=PATH) is not None


class Own:
    """One that was started here."""

    def __init__(self):
        self.keeper = subprocess.Popen([sys.executable, os.path.abspath(__file__)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        atexit.register(self.close)
        said = self.keeper.stdout.readline()
        self.host, self.why, self.pid = json.loads(said) if said else (None, "who starts it has ended", None)
        self.group = f"kh-docker-{self.keeper.pid}"

    def close(self):
        """Waits until nothing is left."""
        with contextlib.suppress(OSError):
            self.keeper.stdin.close()
        self.keeper.wait(PATIENCE)

    def show(self, folder):
        """A mount that was made since is not seen there: it is put there as well."""
        subprocess.run([sys.executable, os.path.abspath(__file__), "show", str(self.pid), folder], check=True, timeout=PATIENCE)

    def hide(self, folder):
        subprocess.run([sys.executable, os.path.abspath(__file__), "hide", str(self.pid), folder], check=True, timeout=PATIENCE)


@functools.cache
def own():
    return Own() if makes_its_own() else None


def why_not():
    """Before one is started: None, or why there will be none."""
    if not shutil.which("docker", path=PATH):
        return "no docker here"
    return None if makes_its_own() or answers_here() else "no daemon of docker's answers here"


@functools.cache
def answers_here():
    return answers()


@functools.cache
def host():
    """Return: (where, None), or (None, why not); where is "" for the program's own default."""
    if why_not():
        return None, why_not()
    return (own().host, own().why) if makes_its_own() else (os.environ.get("DOCKER_HOST", ""), None)


def started():
    """The one that was started here, if one was."""
    return own() if own.cache_info().currsize and own() and own().host else None


def group():
    """Below which its containers' control groups are, in each hierarchy; of none: a name that there is not."""
    return started().group if started() else "kh-docker-none"


def kept():
    """What it has: containers, images and volumes."""
    if not started():
        return set()
    found = set()
    for kind in ("containers/json?all=1", "images/json", "volumes"):
        said = json.loads(ask(own().host.removeprefix("unix://"), f"/v1.41/{kind}").partition(b"\r\n\r\n")[2])
        found |= {f"{kind}: {one.get('Id') or one.get('Name')}" for one in (said["Volumes"] or [] if kind == "volumes" else said)}
    return found


def ask(path, what):
    """The daemon's answer as it comes."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(PATIENCE)
        asked.connect(path)
        asked.sendall(b"GET %s HTTP/1.0\r\n\r\n" % what.encode())
        said = b""
        while piece := asked.recv(65536):
            said += piece
        return said


# --- who looks after it: the file as a program ----------------------------------------------------


START = """
set -e
mount -t proc proc /proc
mount -t tmpfs -o mode=0755 kh-docker /run
[ ! -d /etc/docker ] || mount -t tmpfs -o mode=0755 kh-docker /etc/docker
mount -t tmpfs -o mode=0711 kh-docker "$1/data"
dockerd --config-file "$1/config.json" --data-root "$1/data" --exec-root /run/docker --pidfile /run/docker.pid \\
	--host "unix://$1/s" --group "$2" --cgroup-parent "/$3" --exec-opt native.cgroupdriver=cgroupfs --storage-driver "$4" \\
	--bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false --userland-proxy=false &
wait $!
"""


def start(folder, group, driver):
    """In namespaces that are there already. Return: the shell, which is PID 1, and whether the daemon answers."""
    with open(os.path.join(folder, "log"), "wb") as log:
        shell = subprocess.Popen(["sh", "-c", START, "sh", folder, str(USER), group, driver], stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log, cwd="/", env={"PATH": PATH, "HOME": folder},
                                 preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))  # fmt: skip
    end = time.monotonic() + PATIENCE
    while shell.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            if b" 200 " in ask(os.path.join(folder, "s"), "/_ping"):
                return shell, True
        time.sleep(0.02)
    return shell, False


def last_words(folder):
    with open(os.path.join(folder, "log"), encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    return next((line for line in reversed(lines) if "failed" in line or "rror" in line), lines[-1] if lines else "it says nothing")


def end_all(shell):
    """Its whole process namespace, whose last process has ended when this returns."""
    shell.kill()
    shell.wait(PATIENCE)


def remove_groups(group):
    places = ["/sys/fs/cgroup", *(f"/sys/fs/cgroup/{name}" for name in os.listdir("/sys/fs/cgroup"))]
    for place in places:
        for path, _, _ in os.walk(os.path.join(place, group), topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)


def watch():
    """Starts it, says where it is, and ends it when standard input does."""
    for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signo, signal.SIG_IGN)
    folder = tempfile.mkdtemp(prefix="kh-docker.")
    os.chmod(folder, 0o755)
    os.mkdir(os.path.join(folder, "data"))
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as config:
        config.write("{}")
    group, shell, ready, why = f"kh-docker-{os.getpid()}", None, False, ""
    own_pids = open("/proc/self/ns/pid", "rb")  # noqa: SIM115
    try:
        must(libc.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET), "unshare")
        must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")
        for driver in ("overlay2", "vfs"):
            # Another namespace each, below our own: the shell that was PID 1 of one has taken that with it.
            must(libc.setns(own_pids.fileno(), CLONE_NEWPID), "setns")
            must(libc.unshare(CLONE_NEWPID), "unshare")
            shell, ready = start(folder, group, driver)
            if ready:
                break
            why = why or last_words(folder)
            end_all(shell)
    except OSError as error:
        why = str(error)
    said = [f"unix://{folder}/s", None, shell.pid] if ready else [None, f"dockerd does not start: {why}", None]
    with contextlib.suppress(OSError):
        print(json.dumps(said), flush=True)
        select.select([sys.stdin], [], [])
    if ready:
        end_all(shell)
    remove_groups(group)
    while libc.umount2(os.path.join(folder, "data").encode(), MNT_DETACH) == 0:
        pass
    shutil.rmtree(folder, ignore_errors=True)


def enter(pid, folder, what):
    """Shows a mount of here in the daemon's namespace, at the same place, or takes it away there."""
    place = folder.encode()
    tree = must(libc.syscall(SYS_open_tree, AT_FDCWD, place, OPEN_TREE_CLONE), "open_tree") if what == "show" else -1
    with open(f"/proc/{pid}/ns/mnt", "rb") as namespace:
        must(libc.setns(namespace.fileno(), CLONE_NEWNS), "setns")
    if what == "show":
        must(libc.syscall(SYS_move_mount, tree, b"", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH), "move_mount")
    else:
        must(libc.umount2(place, MNT_DETACH), "umount")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        enter(int(sys.argv[2]), sys.argv[3], sys.argv[1])
    else:
        watch()
