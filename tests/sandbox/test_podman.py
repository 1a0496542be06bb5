"""The engine podman: what is podman's own in it. The escapes and clients are tried in it with the others."""

import os
import select
import shutil
import signal
import subprocess
import tarfile

import pytest
from conftest import PATIENCE, PYTHON
from test_engines import below, cgroups, left_over, names_of, only, settles
from test_image import Layer
from test_layer import give, make_root
from test_run import Run

podman = pytest.mark.skipif(not shutil.which("podman"), reason="engine podman: podman is not installed")


def test_a_missing_podman_is_one_line_with_what_to_do(sandbox):
    done = sandbox.run("true", engine="podman", env=only(sandbox), check=125)
    said = done.stderr.decode()
    assert "podman is not on the PATH" in said and "apt install podman" in said and said.count("\n") == 1


def test_a_podman_without_crun_is_one_line_with_what_to_do(sandbox):
    """As podman 4.3 says it where only runc is installed."""
    env = only(sandbox)
    said = 'Error: default OCI runtime "crun" not found: invalid argument'
    sandbox.file(os.path.join(env["PATH"], "podman"), f"#!/bin/sh\necho '{said}' >&2\nexit 125\n", 0o755)
    done = sandbox.run("true", engine="podman", env=env, check=125).stderr.decode()
    assert "podman needs crun (`apt install crun`): " in done and "invalid argument" in done and done.count("\n") == 1


@podman
def test_auto_does_not_take_podman(sandbox):
    """It is for those who name it."""
    done = sandbox.run("true", engine="auto", check=125, env=only(sandbox, "podman"))
    assert "bubblewrap" in done.stderr.decode()


@podman
@pytest.mark.identity("root")
def test_it_starts_from_a_folder_that_the_sandbox_can_not_enter(sandbox):
    closed = sandbox.folder("closed", 0o700)
    assert sandbox.run("echo", "up", engine="podman", cwd=closed, check=0).stdout == b"up\n"


@podman
@pytest.mark.parametrize("who", ["", "podman", "conmon"], ids=["launcher", "podman", "conmon"])
def test_a_podman_that_is_killed_leaves_nothing(sandbox, who):
    """The launcher, podman itself, and what podman leaves beside a container to outlive it."""
    before, seen = cgroups(), left_over()
    # What the init relays, it relays after it has said that the command runs.
    process = sandbox.start(
        PYTHON, "-I", "-c",
        "import os, socket, time\n"
        "s = socket.create_connection(('127.0.0.1', 3128))\n"
        "s.shutdown(socket.SHUT_WR), s.recv(9), os.fork(), print('up', flush=True), time.sleep(300)",
        engine="podman",
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    pids = below(process.pid)
    names = names_of(pids)
    assert "keyhole-init" in names, names
    fds = [os.pidfd_open(pid) for pid in pids]
    signal.pidfd_send_signal(fds[names.index(who) if who else 0], signal.SIGKILL)
    for fd in fds[1:]:
        assert select.select([fd], [], [], PATIENCE)[0], "a process lives on"
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0, err
    for fd in fds:
        os.close(fd)
    settles(cgroups, before)
    settles(left_over, seen)


@podman
def test_podmans_own_settings_and_store_have_no_part_in_it(sandbox, place):
    """Neither a file of the user's nor a variable of keyhole's makes it another sandbox."""
    conf = sandbox.file(os.path.join(place, "containers.conf"), '[containers]\nvolumes = ["/:/host"]\nprivileged = true\n')
    home = sandbox.folder("home")
    sandbox.file(os.path.join(home, ".config/containers/containers.conf"), '[containers]\nvolumes = ["/:/host"]\n')
    sandbox.give(home)
    env = sandbox.environment(CONTAINERS_CONF=conf, HOME=home, CONTAINER_HOST="unix:///nowhere", XDG_RUNTIME_DIR=home)
    seen = sandbox.sh("ls -d /host; env; id -u", engine="podman", env=env, check=0)
    assert "/host" not in seen and seen.split()[-1] == "1000" and "container=" not in seen
    assert os.listdir(home) == [".config"]


@podman
@pytest.mark.identity("user")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount over /etc/containers")
def test_what_the_host_has_podman_copy_into_every_container_is_not_copied(sandbox):
    """containers-mounts.conf(5): Fedora and its like have such a file, for their subscriptions."""
    secret = os.path.dirname(sandbox.file(os.path.join(sandbox.folder("kept", 0o700), "key"), "of the host", 0o600))
    containers = sandbox.folder("containers")
    sandbox.file(os.path.join(containers, "mounts.conf"), f"{secret}:/run/secrets\n")
    command = sandbox.command("sh", "-c", "ls /run; cat /run/secrets/key", engine="podman")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/containers && exec "$@"', containers, *command],
        capture_output=True, timeout=PATIENCE, env=sandbox.environment(), cwd="/", check=False,
    )  # fmt: skip
    assert done.returncode == 1 and b"keyhole" in done.stdout and b"secrets" not in done.stdout, (done.stdout, done.stderr)


@podman
@pytest.mark.identity("user")
@pytest.mark.parametrize("lies", ["link", "loop", "folder", "full"])
def test_what_a_root_has_where_podman_puts_a_file_gives_way(sandbox, lies):
    """As all that lies where a sandbox has a file of its own: it goes in the layer, and a full folder is refused."""
    if not shutil.which("busybox"):
        pytest.skip("busybox-static is not installed")
    root = make_root(sandbox)
    os.mkdir(os.path.join(root, "run"))
    path = os.path.join(root, "run/.containerenv")
    if lies in ("link", "loop"):
        os.symlink({"link": "/proc/nothing/there", "loop": ".containerenv"}[lies], path)
    else:
        os.makedirs(os.path.join(path, "in") if lies == "full" else path)
    give(sandbox, root)
    done = sandbox.run("/bin/sh", "-c", "echo up", engine="podman", rootfs=root, layer="yes", check=125 if lies == "full" else 0)
    said = done.stderr.decode()
    if lies == "full":
        assert "/run/.containerenv: the root has a folder" in said and "take it out" in said and said.count("\n") == 1
    else:
        assert done.stdout == b"up\n" and said == ""


@podman
def test_a_variable_of_several_lines_arrives(sandbox):
    value = "one\ntwo = 'three'\n#four"
    assert sandbox.sh('printf "%s" "$MANY"', engine="podman", env=sandbox.environment(), placeholder=f"MANY={value}") == value


# --- images ---------------------------------------------------------------------------------------


def root_of(shell=True):
    """As a tar."""
    layer = Layer()
    return (layer.programs() if shell else layer.add("etc", tarfile.DIRTYPE)).done()


@pytest.fixture
def stored(sandbox):
    """stored(*OPTIONS, shell, name): an image in a store of the test's own; and `keyhole run` with it."""
    for program in ("podman", "skopeo", "umoci", "busybox"):
        if not shutil.which(program):
            pytest.skip(f"engine podman: {program} is not installed")
    folder = sandbox.folder("store", 0o700)
    conf = sandbox.file(os.path.join(folder, "storage.conf"),
                        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n')  # fmt: skip
    more = {"CONTAINERS_STORAGE_CONF": conf, "XDG_CACHE_HOME": sandbox.folder("cache", 0o700)}
    run = Run(sandbox)

    def make(*options, shell=True, name="localhost/tried:1"):
        subprocess.run(["podman", "import", "--quiet", *options, "-", name], input=root_of(shell), check=True,
                       capture_output=True, timeout=PATIENCE, env={**os.environ, **more})  # fmt: skip
        return name

    make.run = lambda *args, **options: run("-q", *args, **more, **options)
    return make


@pytest.mark.identity("root")
def test_an_image_is_run_by_its_name_and_written_out_once(stored, sandbox):
    """One start for all that an image says, and another that finds it in the cache, in another engine."""
    name = stored("--change", "ENV WORD=said", "--change", 'CMD ["/bin/sh", "-c", "echo its own"]')
    seen = stored.run("--engine", "podman", "--image", name, "--", "/bin/sh", "-c",
                      'echo $WORD; id -u; echo x >/made && cat /made; ls /home; ls -d /usr', check=1).stdout  # fmt: skip
    assert seen.split() == ["said", "1000", "x", "agent"]
    made = os.listdir(os.path.join(sandbox.place, "cache/keyhole/images"))
    assert len(made) == 1
    assert stored.run("--engine", "podman", "--image", "tried:1", check=0).stdout == "its own\n"
    assert stored.run("--engine", "process", "--image", "podman:" + name, check=0).stdout == "its own\n"
    assert os.listdir(os.path.join(sandbox.place, "cache/keyhole/images")) == made
    assert not os.path.exists("/made")


@pytest.mark.identity("root")
def test_an_image_that_can_not_be_run_is_one_line(stored):
    for name, options, status, said in [
        (stored("--arch", "arm64", name="localhost/arm:1"), [], 125, "is for arm64, and this machine is"),
        (stored(shell=False, name="localhost/bare:1"), ["--", "/bin/sh", "-c", ":"], 127, "/bin/sh: No such file"),
        ("localhost/absent:1", [], 125, "podman has no such image (get it first: `podman pull localhost/absent:1`)"),
        ("--help", ["--", "true"], 125, "podman"),
    ]:
        done = stored.run("--engine", "podman", f"--image={name}", *options, check=status)
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
