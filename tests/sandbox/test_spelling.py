"""A file system whose server ignores case, and the kernel does not know it: no other spelling leads past a mount."""

import os
import shutil
import subprocess
import time

import pytest
from conftest import PATIENCE, ROOT

pytestmark = [pytest.mark.identity("user"), pytest.mark.before_the_engine]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """fold_fs, if it can be built and mounted here."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("FUSE: needs root and /dev/fuse")
    if not shutil.which("pkg-config") or not shutil.which("cc"):
        pytest.skip("FUSE: no pkg-config or cc here")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    if flags.returncode != 0:
        pytest.skip("FUSE: no headers of fuse3 here")
    made = str(tmp_path_factory.mktemp("fold") / "fold_fs")
    source = os.path.join(ROOT, "tests/sandbox/fold_fs.c")
    subprocess.run(["cc", "-Wall", "-Werror", "-o", made, source, *flags.stdout.split()], check=True, timeout=PATIENCE)
    return made


def mounted(sandbox, program, *words):
    """A workspace in such a file system."""
    below, top = sandbox.folder("below"), sandbox.folder("top")
    server = subprocess.Popen([program, below, top, *words], stderr=subprocess.PIPE)
    deadline = time.monotonic() + PATIENCE
    while not os.path.ismount(top) and server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if not os.path.ismount(top):
        server.kill()
        pytest.skip(f"FUSE: can't be mounted here: {server.communicate()[1]!r}")
    yield sandbox.folder("top/work")
    subprocess.run(["umount", "-l", top], check=True, timeout=PATIENCE)
    server.terminate()
    server.communicate(timeout=PATIENCE)


@pytest.fixture
def folded(sandbox, program):
    yield from mounted(sandbox, program)


@pytest.fixture
def exact(sandbox, program):
    """The same, which tells names apart."""
    yield from mounted(sandbox, program, "exact")


def test_a_workspace_in_which_another_spelling_leads_past_a_mount_is_refused(sandbox, folded):
    done = sandbox.run("sh", "-c", "echo evil > .ENVRC/x", workspace=folded, check=125)
    assert b"/work/.envrc: is found as .ENVRC too" in done.stderr and b"DIR:ro or DIR:review" in done.stderr
    assert os.listdir(folded) == []
    assert sandbox.run("ls", "-A", workspace_ro=folded, check=0).stdout == b""


def test_a_masked_file_is_not_shown_by_another_spelling(sandbox, folded):
    sandbox.file(os.path.join(folded, ".env"), "KEY=value")
    done = sandbox.run("cat", ".ENV", workspace_ro=folded, mask_env="yes", check=125)
    assert b"/work/.env: is found as .ENV too" in done.stderr and b"--mask-env" in done.stderr
    assert sandbox.run("cat", ".ENV", workspace_ro=folded, check=0).stdout == b"KEY=value"


def test_what_is_protected_there_and_changed_meanwhile_is_named(sandbox, exact):
    """No mount of the kernel's can tell that a server changed it."""
    sandbox.file(os.path.join(exact, ".envrc"), "x=1")
    done = sandbox.run("sh", "-c", "echo evil > .envrc || true", workspace=exact, check=0)
    assert b"changed while it ran" not in done.stderr
    process = sandbox.start("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done", workspace=exact)
    assert process.stdout.readline() == b"up\n"
    with open(os.path.join(sandbox.place, "below/work/.envrc"), "a", encoding="ascii") as file:
        file.write("evil")
    sandbox.file(os.path.join(exact, "go"))
    _, err = process.communicate(timeout=PATIENCE)
    assert b"/work/.envrc: protected from the sandbox, and changed while it ran" in err, err
