"""Engines: chosen by name or by a trial, and what keyhole-init adds to each."""

import contextlib
import errno
import glob
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from conftest import PATIENCE, PYTHON, SANDBOX_HOST_UID, landlock_abi


# --- the choice -----------------------------------------------------------------------------------


def test_an_engine_that_there_is_not_is_named_with_those_that_there_are(sandbox):
    done = sandbox.run("true", engine="procces", check=125)
    said = done.stderr.decode()
    assert said.startswith('keyhole: --engine procces: no such engine (did you mean "process"?) (there is: ') and "process" in said
    assert said.endswith("; auto takes container, or process where that does not work)\n")
    assert "auto" in said and said.count("\n") == 1


def test_auto_takes_one_that_works(sandbox):
    assert sandbox.sh("echo $$; id -u", engine="auto").split()[1] == "1000"


def test_auto_says_what_is_missing_where_nothing_works(sandbox, place):
    empty = sandbox.folder("nothing")
    done = sandbox.run("true", engine="auto", check=125, env=sandbox.environment(PATH=empty))
    said = done.stderr.decode()
    assert said.startswith("keyhole: no engine works here") and "apt install bubblewrap" in said
    assert said.count("\n") == 1


def test_a_program_that_is_there_and_does_not_work_is_found_out(sandbox, place):
    """A trial, not a look for a file."""
    broken = sandbox.folder("broken")
    sandbox.file(os.path.join(broken, "bwrap"), "#!/bin/sh\necho bwrap: no >&2\nexit 1\n", 0o755)
    done = sandbox.run("true", engine="auto", check=125, env=sandbox.environment(PATH=broken))
    assert "bwrap: no" in done.stderr.decode()


def with_crun(sandbox, script):
    """An environment whose crun is a script, which is told where the true one is; and what it notes down."""
    env = only(sandbox, "bwrap")
    notes = sandbox.file(os.path.join(sandbox.folder("notes", 0o777), "notes"), mode=0o666)
    sandbox.file(os.path.join(env["PATH"], "crun"), f"#!/bin/sh\ncrun={shutil.which('crun')}\necho started >>{notes}\n{script}\n", 0o755)
    return env, notes


needs_crun = pytest.mark.skipif(not shutil.which("crun"), reason="engine container: crun is not installed")


@needs_crun
def test_auto_starts_the_strongest_without_a_trial_before(sandbox):
    env, notes = with_crun(sandbox, 'exec $crun "$@"')
    done = sandbox.run("sh", "-c", "echo up; exit 3", engine="auto", env=env, check=3)
    assert done.stdout == b"up\n" and b"engine container" in done.stderr and open(notes).read() == "started\n"


@needs_crun
def test_auto_takes_a_weaker_one_where_a_trial_says_so(sandbox):
    env, notes = with_crun(sandbox, "exit 1")
    done = sandbox.run("echo", "up", engine="auto", env=env, check=0)
    assert done.stdout == b"up\n" and done.stderr.endswith(b"engine process\n")
    assert open(notes).read() == "started\nstarted\n"


@needs_crun
def test_auto_takes_no_weaker_one_where_a_start_took_its_whole_time(sandbox):
    env, notes = with_crun(sandbox, "exec /bin/sleep 3000")
    done = sandbox.run("echo", "up", engine="auto", env=env, start_ms=2000, check=125)
    assert done.stdout == b"" and b"crun has not brought it up in 2s and was ended" in done.stderr
    assert open(notes).read() == "started\n"


@needs_crun
def test_no_command_and_no_folder_chooses_the_weaker_engine_by_what_it_is(sandbox):
    """An engine that works but for this one start is not left for another."""
    env, notes = with_crun(sandbox, 'for c in config.json */config.json /*/config.json /*/*/config.json; do\n'
                                    '[ ! -f "$c" ] || ! grep -q unlucky "$c" || { echo no such luck >&2; exit 1; }; done\nexec $crun "$@"')  # fmt: skip
    done = sandbox.run("echo", "unlucky", engine="auto", env=env, check=125)
    assert done.stdout == b"" and "no such luck" in done.stderr.decode()
    assert open(notes).read() == "started\nstarted\n"
    assert sandbox.run("echo", "lucky", engine="auto", env=env, check=0).stdout == b"lucky\n"


def test_a_trial_leaves_nothing(sandbox):
    """Others may have a trial at the same time: what is there once they are through is left."""
    before = trials()
    sandbox.run("true", engine="auto", workspace="/nonexistent", check=125)
    left, end = trials() - before, time.monotonic() + PATIENCE
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= trials()
    assert not left


def trials():
    return {n for n in os.listdir("/tmp") if n.startswith("keyhole-trial")}


# --- container ------------------------------------------------------------------------------------


def only(sandbox, *programs):
    """An environment whose PATH has these engines' programs and no other."""
    folder = sandbox.folder("only")
    for name in programs:
        os.symlink(shutil.which(name), os.path.join(folder, name))
    return sandbox.environment(PATH=folder)


def below(pid):
    """A process and all that came of it; some may end meanwhile."""
    found = [pid]
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        children = ""
        with contextlib.suppress(OSError), open(task, encoding="ascii") as file:
            children = file.read()
        for child in children.split():
            found += below(int(child))
    return found


def cgroups():
    """But those of a daemon of docker's, which other tests have beside these."""
    return {path for path in glob.glob("/sys/fs/cgroup/**/", recursive=True) if "/docker/" not in path and "/kh-docker-" not in path}


def settles(look, before):
    """Nothing new stays. Others may be at work on this machine: what is theirs goes."""
    new, end = look() - before, time.monotonic() + PATIENCE
    while new & look() and time.monotonic() < end:
        time.sleep(0.1)
    assert not new & look()


def left_over():
    # Other tests run beside these: a trial of theirs, a folder of theirs.
    found = {n for n in os.listdir("/tmp") if n.startswith("keyhole")} | set(os.listdir("/run"))
    return {n for n in found if not n.startswith(("keyhole-trial", "kh-test."))}


@pytest.fixture(params=["crun", "runc"])
def runtime(request):
    if not shutil.which(request.param):
        pytest.skip(f"engine container by {request.param}: it is not installed")
    return request.param


def test_either_runtime_will_do_for_a_container(sandbox, runtime):
    env = only(sandbox, runtime)
    seen = sandbox.sh("id -u; exit 7", engine="container", env=env, check=7)
    assert seen.split() == ["1000"]


def test_a_missing_runtime_is_one_line_with_what_to_do(sandbox):
    done = sandbox.run("true", engine="container", env=only(sandbox), check=125)
    said = done.stderr.decode()
    assert "neither crun nor runc" in said and "apt install crun" in said and said.count("\n") == 1


@pytest.mark.identity("root")
def test_a_program_that_is_installed_where_the_bundle_is_laid_is_started_all_the_same(sandbox):
    """As in /run/current-system: the launcher covers /run, for the program only."""
    found = shutil.which("crun") or shutil.which("runc")
    if not found:
        pytest.skip("engine container: no crun or runc here")
    with tempfile.TemporaryDirectory(dir="/run", prefix="kh-test.") as folder:
        os.chmod(folder, 0o755)
        shutil.copy(found, folder)
        seen = sandbox.sh("id -u", engine="container", env=sandbox.environment(PATH=folder))
    assert seen.split() == ["1000"]


def names_of(pids):
    """As they were called: crun runs from a copy of itself that has no name of its own."""
    names = []
    for pid in pids:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            names.append(os.path.basename(file.read().split(b"\0")[0]).decode())
    return names


@pytest.mark.parametrize("who", ["launcher", "engine"])
def test_a_container_that_is_killed_leaves_nothing(sandbox, runtime, who):
    env, before = only(sandbox, runtime), cgroups()
    seen = left_over()
    # What the init relays, it relays after it has said that the command runs.
    process = sandbox.start(
        PYTHON, "-I", "-c",
        "import os, socket, time\n"
        "s = socket.create_connection(('127.0.0.1', 3128))\n"
        "s.shutdown(socket.SHUT_WR), s.recv(9), os.fork(), print('up', flush=True), time.sleep(300)",
        engine="container", env=env,
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    pids = below(process.pid)
    assert len(pids) >= 8, pids  # launcher, two relays, its stand-by process, the program, keyhole-init, Python twice
    fds = [os.pidfd_open(pid) for pid in pids]
    signal.pidfd_send_signal(fds[0 if who == "launcher" else names_of(pids).index(runtime)], signal.SIGKILL)
    for fd in fds[1:]:
        assert select.select([fd], [], [], PATIENCE)[0], "a process lives on"
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-signal.SIGKILL if who == "launcher" else 137), err
    for fd in fds:
        os.close(fd)
    settles(cgroups, before)
    settles(left_over, seen)


def keys_of(uid):
    with open("/proc/key-users", encoding="ascii") as file:
        found = [line.split(":")[1].split() for line in file if int(line.split(":")[0]) == uid]
    return int(found[0][1].split("/")[0]) if found else 0


@pytest.mark.identity("root")
def test_a_container_takes_no_key_of_the_sandboxes_uid(sandbox, runtime):
    """An ordinary uid may have 200, which would be the end of many containers at once."""
    if not os.access("/proc/key-users", os.R_OK):
        pytest.skip("this kernel keeps no keys")
    before = keys_of(SANDBOX_HOST_UID)
    process = sandbox.start("sh", "-c", "echo up; read x", engine="container", env=only(sandbox, runtime), stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    during = keys_of(SANDBOX_HOST_UID)
    process.communicate(b"x\n", timeout=PATIENCE)
    assert during <= before


def test_the_root_of_a_container_is_what_the_view_says(sandbox):
    """Each mount from inside: of the host only what is listed, read-only; the rest in memory."""
    lines = sandbox.sh("cat /proc/self/mountinfo", engine="container").splitlines()
    mounts = {line.split()[4]: (line.split()[5].split(","), line.split(" - ")[1].split()[0]) for line in lines}
    assert mounts["/"][1] == "tmpfs" and "ro" in mounts["/"][0]
    for place, (options, kind) in mounts.items():
        assert kind not in ("cgroup", "cgroup2", "sysfs", "mqueue"), place
        if kind not in ("tmpfs", "proc", "devpts", "devtmpfs"):
            assert "ro" in options and "nosuid" in options and "nodev" in options, (place, options)
    assert mounts["/usr"][0][0] == "ro" and "ro" in mounts["/dev"][0]


# --- gvisor ---------------------------------------------------------------------------------------

gvisor = pytest.mark.skipif(not shutil.which("runsc"), reason="engine gvisor: runsc is not installed")


def test_a_missing_runsc_is_one_line_with_what_to_do(sandbox):
    done = sandbox.run("true", engine="gvisor", env=only(sandbox), check=125)
    said = done.stderr.decode()
    assert "runsc is not on the PATH" in said and "apt install runsc" in said and said.count("\n") == 1


@gvisor
def test_in_gvisor_the_kernel_is_another(sandbox):
    seen = sandbox.sh("cat /proc/version; id -u", engine="gvisor").split()
    assert seen[-1] == "1000" and seen[2] != os.uname().release


@gvisor
def test_several_gvisors_are_apart(sandbox):
    """Each is steered by a socket in its own network namespace: none takes another's name."""
    running = [sandbox.start("sh", "-c", "echo up; read x", engine="gvisor", stdin=subprocess.PIPE) for _ in range(3)]
    for process in running:
        assert process.stdout.readline() == b"up\n", process.stderr.read()
    with open("/proc/net/unix", encoding="ascii") as file:
        assert "runsc" not in file.read()
    for process in running:
        process.communicate(b"x\n", timeout=PATIENCE)
        assert process.returncode == 0


@gvisor
def test_devices_can_be_written_to_in_gvisor(sandbox):
    """On what is mounted read-only its kernel refuses that too, and then neither git nor most scripts work."""
    out = sandbox.sh("echo x > /dev/null && git init -q /tmp/x && test -d /tmp/x/.git && echo well", engine="gvisor")
    assert out == "well\n"


@gvisor
def test_statuses_are_the_commands_own_in_gvisor(sandbox):
    for script, status in (("exit 7", 7), ("exit 128", 128), ("kill -TERM $$", 143)):
        sandbox.sh(script, engine="gvisor", check=status)
    done = sandbox.run("no-such-command", engine="gvisor", check=127)
    assert "no-such-command" in done.stderr.decode()
    sandbox.run("/etc/passwd", engine="gvisor", check=126)


@gvisor
@pytest.mark.parametrize("pids", [1, 8])
def test_few_processes_are_the_commands_and_not_those_of_its_kernel(sandbox, pids):
    """runsc's own threads, thirty and more, count for themselves."""
    seen = sandbox.python(
        """
        import os, time
        made = 0
        try:
            while made < 20:
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
                made += 1
            say([made, 'no end'])
        except OSError as e:
            say([made, e.errno])
        """,
        engine="gvisor", pids=pids,
    )  # fmt: skip
    # keyhole-init has a place of its own in it, which the command has where its kernel does not count keyhole-init.
    assert seen[0] in (pids - 1, pids) and seen[1] == errno.EAGAIN, seen


@gvisor
def test_a_kernel_that_too_little_was_given_to_says_so(sandbox):
    if sandbox.identity != "root":
        pytest.skip("without a control group the limit is the command's alone")
    done = sandbox.run("true", engine="gvisor", memory=4 << 20, check=125)
    assert done.stderr == b"keyhole: the sandbox ran out of memory before the command began (give it more: --memory)\n"


@gvisor
def test_files_are_read_and_appended_to_in_gvisor(sandbox, tmp_path):
    """Its kernel keeps the position in a file to itself."""
    (tmp_path / "in").write_bytes(b"skipped" + b"x" * 300_000)
    (tmp_path / "out").write_bytes(b"before\n")
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "ab") as target:
        source.seek(7)
        os.lseek(source.fileno(), 7, os.SEEK_SET)
        done = subprocess.run(
            sandbox.command("sh", "-c", "cat; echo said >&2", engine="gvisor"), stdin=source,
            stdout=target, stderr=target, env=sandbox.environment(), timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert done.returncode == 0
    assert sorted((tmp_path / "out").read_bytes()) == sorted(b"before\n" + b"x" * 300_000 + b"said\n")


@gvisor
@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_gvisor_that_is_ended_leaves_nothing(sandbox, signo):
    before, seen = cgroups(), left_over()
    process = sandbox.start("sh", "-c", "sleep 300.5 & echo up; wait", engine="gvisor")
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    fds = [os.pidfd_open(pid) for pid in below(process.pid)]
    assert len(fds) >= 5  # launcher, its stand-by process, runsc, its gofer, its sandbox
    process.send_signal(signo)
    for fd in fds[1:]:
        assert select.select([fd], [], [], PATIENCE)[0], "a process lives on"
        os.close(fd)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == (-signo if signo == signal.SIGKILL else 128 + signo)
    settles(cgroups, before)
    settles(left_over, seen)


# --- Landlock -------------------------------------------------------------------------------------


@pytest.mark.skipif(landlock_abi() < 6, reason="this kernel's Landlock knows no scope of signals")
def test_the_init_gets_no_signal_from_the_command(sandbox):
    seen = sandbox.python(
        """
        import os
        try:
            os.kill(1, 0)
            say(0)
        except OSError as e:
            say(e.errno)
        """
    )
    assert seen == 1


@pytest.mark.skipif(landlock_abi() < 1, reason="this kernel has no Landlock")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_landlock_holds_where_no_mount_does(programs, tmp_path):
    """keyhole-init on the host's own files, in namespaces that hide nothing: all that is in the way of
    the command is Landlock."""
    open_place, shut_place = tmp_path / "open", tmp_path / "shut"
    open_place.mkdir()
    shut_place.mkdir()
    (shut_place / "file").write_text("there")
    script = f"""
        echo x >{open_place}/made && mkdir {open_place}/folder && mv {open_place}/made {open_place}/folder/ &&
            echo written
        mkfifo {open_place}/fifo && echo fifo
        mknod {open_place}/null c 1 3 2>/dev/null && echo device
        cat {shut_place}/file && echo
        for try in 'echo x >{shut_place}/file' 'echo x >{shut_place}/new' 'rm {shut_place}/file' \
            'mkdir {shut_place}/folder' 'mv {shut_place}/file {open_place}/' 'ln {shut_place}/file {open_place}/file' \
            'ln -s x {shut_place}/link' 'mkfifo {shut_place}/fifo' 'truncate -s 0 {shut_place}/file'; do
            sh -c "$try" 2>/dev/null && echo "done: $try"
        done
        echo x >/dev/null && echo 0 >/proc/self/oom_score_adj && echo end
    """
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc",
         os.path.join(programs, "keyhole-init"), "--port", "3128", "--writable", str(open_place),
         "--", shutil.which("bash"), "-c", script],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["written", "fifo", "there", "end"], (done.stdout, done.stderr)
    assert (shut_place / "file").read_text() == "there"
