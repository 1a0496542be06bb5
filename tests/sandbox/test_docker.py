"""The engine docker: its command line by what Docker documents, and with a daemon where one answers."""

import json
import os
import select
import signal
import subprocess
import sys
import tarfile

import docker_daemon
import pytest
from conftest import HERE, PATIENCE, docker_host
from test_engines import below, only
from test_image import Layer

# docs.docker.com/reference/cli/docker/container/create: those that take a word, and those that take none.
WITH_VALUE = {
    "--cap-add", "--cap-drop", "--cgroupns", "--cpus", "--entrypoint", "--hostname", "--ipc", "--log-driver", "--memory",
    "--memory-swap", "--mount", "--name", "--network", "--pids-limit", "--pull", "--security-opt", "--stop-timeout",
    "--sysctl", "--tmpfs", "--ulimit", "--user", "--workdir",
}  # fmt: skip
PLAIN = {"--rm", "--no-healthcheck"}

FAKE_DOCKER = """#!/usr/bin/python3 -I
import json, os, sys
folder = os.path.dirname(os.path.abspath(sys.argv[0]))
words = sys.argv[1:]
given = sys.stdin.buffer.read() if words[0] in ('cp', 'import') else b''
with open(os.path.join(folder, 'said.jsonl'), 'a') as file:
    file.write(json.dumps(words) + '\\n')
if words[0] == 'cp':
    open(os.path.join(folder, 'root.tar'), 'wb').write(given)
if words[:2] == ['image', 'inspect']:
    print(json.dumps([{'Os': 'linux', 'Architecture': 'ARCHITECTURE', 'Config': {'Env': ['WORD=said'], 'WorkingDir': '/../srv/./app//', 'Entrypoint': ['/bin/entry'], 'Cmd': ['its-own']}}]))
if words[0] == 'start':
    sys.exit('Error response from daemon: this is a fake')
"""


def fake_docker(sandbox, architecture="amd64"):
    folder = sandbox.folder("fake")
    sandbox.file(os.path.join(folder, "docker"), FAKE_DOCKER.replace("ARCHITECTURE", architecture), 0o755)
    return folder, sandbox.environment(PATH=folder)


def options_of(words):
    """Of `docker create`: the options with their values, and what stands behind them."""
    found, words = [], list(words)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        assert option in WITH_VALUE | PLAIN, f"not an option of docker create: {option}"
        found.append((option, words.pop(0) if option in WITH_VALUE else None))
    return found, words


def test_a_missing_docker_is_one_line_with_what_to_do(sandbox):
    done = sandbox.run("true", engine="docker", env=only(sandbox), check=125)
    said = done.stderr.decode()
    assert "docker is not on the PATH" in said and "apt install docker.io" in said and said.count("\n") == 1


def test_the_command_line_is_what_docker_documents(sandbox):
    """All of one sandbox: what is created, what is copied into it, and that it is removed by its name."""
    folder, env = fake_docker(sandbox)
    work = sandbox.folder('wo,rk "it"')
    if sandbox.identity == "root":
        os.chown(work, 64952, 64952)
    done = sandbox.run("/bin/sh", "-c", "true", engine="docker", stored_image="debian:12", workspace=work, env=env,
                       memory=1 << 26, pids=50, cpu_milli=1500, check=125)  # fmt: skip
    # Nobody knows the owner of the workspace, of which it warns.
    said = [line for line in done.stderr.splitlines() if b" warn: " not in line]
    assert len(said) == 1 and b"this is a fake" in said[0], done.stderr
    with open(os.path.join(folder, "said.jsonl"), encoding="utf-8") as file:
        inspect, create, copy, start, *removed = map(json.loads, file)
    assert inspect == ["image", "inspect", "debian:12"] and create[0] == "create"
    options, rest = options_of(create[1:])
    name = dict(options)["--name"]
    assert rest[0] == "debian:12" and rest[-4:] == ["/bin/entry", "/bin/sh", "-c", "true"] and "--become" in rest
    assert copy == ["cp", "-", name + ":/"] and start == ["start", "--attach", name]
    assert removed == [["rm", "--force", "--volumes", name], ["rmi", "--force", name]]
    assert {("--network", "none"), ("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges"), ("--memory", "67108864b"),
            ("--memory-swap", "67108864b"), ("--pids-limit", "66"), ("--cpus", "1.500"), ("--pull", "never"), ("--workdir", "/"),
            ("--ulimit", "core=1:1")} <= set(options)  # fmt: skip
    assert {v for o, v in options if o == "--cap-add"} == {"NET_BIND_SERVICE", "NET_ADMIN", "SETUID", "SETGID"}
    quoted = work.replace('"', '""')
    assert f'type=bind,"source={quoted}","destination={quoted}"' in [v for o, v in options if o == "--mount"]
    with tarfile.open(os.path.join(folder, "root.tar")) as tar:
        entries = {m.name: m for m in tar}
    assert entries["run/keyhole-init"].mode == 0o555 and entries["etc/passwd"].isfile() and entries["srv/app"].isdir()
    assert rest[rest.index("--directory") + 1] == work
    assert all(m.uid == m.gid == 0 for m in entries.values()) and "etc/resolv.conf" not in entries


def test_an_image_for_another_machine_is_refused(sandbox):
    _, env = fake_docker(sandbox, "arm64")
    done = sandbox.run("true", engine="docker", stored_image="debian:12", env=env, check=125)
    assert b"is for another architecture (arm64" in done.stderr and done.stderr.count(b"\n") == 1


@pytest.mark.identity("root")
def test_roots_workspace_of_another_owner_is_refused_with_what_to_do(sandbox):
    _, env = fake_docker(sandbox)
    done = sandbox.run("true", engine="docker", stored_image="debian:12", env=env, workspace=sandbox.folder("mine"), check=125)
    assert b"give it to uid 64952" in done.stderr and done.stderr.count(b"\n") == 1


# --- with a daemon --------------------------------------------------------------------------------


def docker(*words, **options):
    return subprocess.run(["docker", *words], capture_output=True, timeout=PATIENCE, check=True,
                          env=docker_daemon.words(docker_host()), **options).stdout.decode()  # fmt: skip


@pytest.fixture
def image(sandbox):
    sandbox.docker = docker_host()
    name = f"keyhole-tried-{os.getpid()}:1"  # the daemon may be others' as well
    docker("import", "--change", "ENV WORD=said", "-", name, input=Layer().programs().done())
    yield name
    docker("rmi", "--force", name)


def test_an_image_is_run_with_its_variables_and_ends_with_its_status(sandbox, image):
    done = sandbox.run("/bin/sh", "-c", "cat; echo $WORD; id -u; exit 7", engine="docker", stored_image=image, input=b"in\n", check=7)
    assert done.stdout.split() == [b"in", b"said", b"1000"], done.stderr
    assert b"/bin/none: No such file" in sandbox.run("/bin/none", engine="docker", stored_image=image, check=127).stderr
    sandbox.run("/etc/passwd", engine="docker", stored_image=image, check=126)
    done = sandbox.run("true", engine="docker", stored_image="keyhole-absent:1", check=125)
    assert b"docker pull keyhole-absent:1" in done.stderr


@pytest.mark.identity("user")
@pytest.mark.parametrize("said", ["/proc/self/cwd", "/w/etc", "/../srv//app", "/root"])
def test_the_folder_of_an_image_is_entered_in_the_root_alone(sandbox, said):
    """Also by a link in it; and one that only root may enter is entered as before."""
    sandbox.docker, name = docker_host(), f"keyhole-tried-{os.getpid()}:2"
    layer = Layer().programs().add("w", tarfile.SYMTYPE, link="/proc/self/root").add("root", tarfile.DIRTYPE, mode=0o700)
    docker("import", "--change", f"WORKDIR {said}", "-", name, input=layer.done())
    try:
        done = sandbox.run("/bin/sh", "-c", "readlink /proc/self/cwd", engine="docker", stored_image=name)
    finally:
        docker("rmi", "--force", name)
    if said in ("/proc/self/cwd", "/w/etc"):
        assert done.returncode == 125 and done.stdout == b"", done
    else:
        assert done.returncode == 0 and done.stdout.decode().strip() == said.replace("/..", "").replace("//", "/"), done


@pytest.mark.identity("user")
def test_no_volume_of_an_image_is_written_to(sandbox):
    """The daemon's disk would be behind it, without a bound. Where the view has something the volume is not."""
    sandbox.docker, name = docker_host(), f"keyhole-tried-{os.getpid()}:3"
    places = ["/home/agent/v", "/tmp/v", "/dev/shm/v", "/data", "/data/", "/l/v", "/tmp", "/home/agent"]
    layer = Layer().programs().add("l", tarfile.SYMTYPE, link="/tmp").add("data", tarfile.DIRTYPE, mode=0o1777).add("data/f", content=b"kept")
    for place in ("home/agent/v", "tmp/v", "dev/shm/v"):
        layer.add(place, tarfile.DIRTYPE, mode=0o1777)
    docker("import", "--change", "VOLUME " + json.dumps(places), "-", name, input=layer.done())
    try:
        script = 'cat /data/f; for d; do echo x >$d/x && echo wrote $d; done; df -k /tmp | tail -1'
        done = sandbox.run("/bin/sh", "-c", script, "sh", *places, engine="docker", stored_image=name, disk=8 << 20)
    finally:
        docker("rmi", "--force", name)
    assert done.returncode == 0 and done.stdout.split(b"\n")[:-2] == [b"keptwrote /tmp", b"wrote /home/agent"], done
    assert b" 8192 " in done.stdout and docker("volume", "ls", "--quiet") == ""


@pytest.mark.identity("user")
def test_an_image_with_volumes_where_keyhole_puts_files_runs(sandbox):
    """systemd's have them. The agent can't write there in any case."""
    sandbox.docker, name = docker_host(), f"keyhole-tried-{os.getpid()}:4"
    places = ["/run", "/home", "/etc", "/etc/ssl"]
    layer = Layer().programs()
    docker("import", "--change", "VOLUME " + json.dumps(places), "-", name, input=layer.done())
    try:
        script = 'for d; do echo x >$d/x && echo wrote $d; done; echo done'
        done = sandbox.run("/bin/sh", "-c", script, "sh", *places, engine="docker", stored_image=name)
    finally:
        docker("rmi", "--force", name)
    assert done.returncode == 0 and done.stdout == b"done\n", done
    assert docker("volume", "ls", "--quiet") == ""


@pytest.mark.identity("user")
@pytest.mark.skipif(not docker_daemon.makes_its_own(), reason="the daemon here is not the tests' own, and sees no mount of theirs")
@pytest.mark.parametrize("way", ["ro", "workspace_ro"])
def test_what_is_mounted_below_a_read_only_folder_is_read_only(sandbox, image, way):
    """A daemon before 25 leaves it as it is, and Landlock knows neither modes nor times."""
    top = sandbox.folder("top")
    places = [os.path.join(top, "a"), os.path.join(top, "a/b"), os.path.join(top, ".git/hooks")]
    mounted, own = [], docker_daemon.started()
    try:
        for place in places:
            os.makedirs(place, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "kh-test", place], check=True, timeout=PATIENCE)
            mounted.append(place)
            sandbox.file(os.path.join(place, "f"), "mine", 0o600)
            sandbox.give(place)
            own.show(place)
        before = [(os.stat(p).st_mode, os.stat(p).st_mtime_ns) for place in places for p in (place, place + "/f")]
        script = 'cd "$1"; for d in a a/b .git/hooks; do cat $d/f; chmod 777 $d $d/f; touch -t 200101010101 $d/f; echo x >$d/f; done; :'
        done = sandbox.run("/bin/sh", "-c", script, "sh", top, engine="docker", stored_image=image, **{way: top})
        after = [(os.stat(p).st_mode, os.stat(p).st_mtime_ns) for place in places for p in (place, place + "/f")]
    finally:
        for place in reversed(mounted):
            own.hide(place)
            subprocess.run(["umount", place], check=True, timeout=PATIENCE)
    assert done.stdout == b"mine" * 3 and after == before, (done, before, after)


@pytest.mark.identity("user")
def test_a_protected_file_that_is_replaced_on_the_host_ends_the_sandbox(sandbox, image):
    """Elsewhere it is covered again; the daemon's mounts are not ours to change."""
    work = sandbox.folder("work")
    config = sandbox.file(os.path.join(work, ".envrc"), "before")
    process = sandbox.start("/bin/sh", "-c", "echo up; read -r go", engine="docker", stored_image=image, workspace=work,
                            stdin=subprocess.PIPE)  # fmt: skip
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    os.rename(sandbox.file(os.path.join(work, "other"), "after"), config)
    process.wait(PATIENCE)  # its input stays open, and is not why it ends
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 125 and b".envrc was replaced on the host" in said, said


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_is_ended_leaves_nothing_in_docker(sandbox, image, signo):
    process = sandbox.start("/bin/sh", "-c", "sleep 300.5 & echo up; wait", engine="docker", stored_image=image)
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    (name,) = docker("ps", "--format", "{{.Names}}", "--filter", f"ancestor={image}").split()
    assert name.startswith("keyhole-")
    mounted = [m["Source"] for m in json.loads(docker("inspect", name))[0]["Mounts"]]
    (folder,) = {"/".join(path.split("/")[:3]) for path in mounted if path.startswith("/tmp/keyhole-call-")}
    assert os.path.isdir(folder)
    fds = [os.pidfd_open(pid) for pid in below(process.pid)]
    process.send_signal(signo)
    for fd in fds:  # the one that removes it all is among them
        assert select.select([fd], [], [], PATIENCE)[0], "a process lives on"
        os.close(fd)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == (-signo if signo == signal.SIGKILL else 128 + signo)
    assert not os.path.exists(folder)
    assert name not in docker("ps", "--all", "--format", "{{.Names}}").split()
    assert docker("ps", "--all", "--quiet", "--filter", f"ancestor={image}") == ""
    assert docker("images", "--format", "{{.Repository}}").split().count(image.partition(":")[0]) == 1
    assert name not in docker("images", "--format", "{{.Repository}}").split()


# --- the tests' own -------------------------------------------------------------------------------


OTHER = """
import json, sys
import docker_daemon
print(json.dumps([docker_daemon.host()[0], docker_daemon.own().pid, docker_daemon.own().keeper.pid, docker_daemon.group()]))
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.skipif(not docker_daemon.makes_its_own(), reason="the daemon here is not the tests' own")
def test_the_daemon_of_tests_that_are_killed_leaves_nothing():
    """A container of its runs all the while."""
    tests = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE)
    where, first, keeper, group = json.loads(tests.stdout.readline())
    assert where, "it does not start"
    fds = [os.pidfd_open(pid) for pid in (first, keeper)]
    subprocess.run(["docker", "import", "-", "left:1"], input=Layer().programs().done(), capture_output=True, timeout=PATIENCE,
                   check=True, env=docker_daemon.words(where))  # fmt: skip
    subprocess.run(["docker", "run", "--detach", "--network", "none", "left:1", "/bin/sh", "-c", "sleep 300.75"],
                   capture_output=True, timeout=PATIENCE, check=True, env=docker_daemon.words(where))  # fmt: skip
    tests.kill()
    tests.communicate(timeout=PATIENCE)
    for fd in fds:
        assert select.select([fd], [], [], PATIENCE)[0], "a process lives on"
        os.close(fd)
    assert not os.path.exists(os.path.dirname(where.removeprefix("unix://")))
    assert not [path for path, _, _ in os.walk("/sys/fs/cgroup") if group in path]
