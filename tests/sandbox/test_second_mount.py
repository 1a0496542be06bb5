"""What an agent can write to has one path on the host by which anybody can."""

import os
import subprocess

import pytest
from conftest import PATIENCE
from test_run import Run

pytestmark = [pytest.mark.identity("root"), pytest.mark.before_the_engine]


def run(sandbox, mounts, *command):
    """In a mount namespace of the test's own: of what, where, and how."""
    script = "".join(f"mount --bind {what} {where} && mount -o remount,bind,{how} {where} && " for what, where, how in mounts)
    return subprocess.run(["unshare", "-m", "sh", "-c", script + 'exec "$@"', "sh", *command], capture_output=True, text=True,
                          timeout=PATIENCE, env=sandbox.environment(), cwd="/", check=False)  # fmt: skip


def mounts_of(sandbox, work, way):
    """Return: the mounts, what the agent gets, and its second path."""
    view, part, inner = (sandbox.folder(name) for name in ("view", "above/work/part", "above/work/inner"))
    return {
        "of it": ([(work, view, "rw")], work, view),
        "the other one": ([(work, view, "rw")], view, work),
        "of what is above it": ([(os.path.dirname(work), view, "rw")], work, view + "/work"),
        "of a part of it": ([(part, view, "rw")], work, view),
        "of one part on another": ([(part, inner, "rw")], work, inner),
        "in it, of what is elsewhere": ([(view, inner, "rw")], work, view),
    }[way]


WAYS = ["of it", "the other one", "of what is above it", "of a part of it", "of one part on another", "in it, of what is elsewhere"]


@pytest.mark.parametrize("way", WAYS)
def test_a_second_mount_of_what_the_agent_can_write_to_is_refused(sandbox, way):
    work = sandbox.folder("above/work")
    mounts, given, second = mounts_of(sandbox, work, way)
    for option in ("workspace", "home"):
        done = run(sandbox, mounts, *sandbox.command("touch", "written", **{option: given}))
        assert done.returncode == 125 and f"is mounted at a second path, {second}. " in done.stderr, (option, done.stderr)
    assert not os.path.exists(os.path.join(work, "written"))
    done = run(sandbox, mounts, *sandbox.command("true", workspace_ro=given))
    assert done.returncode == 0 and "second path" not in done.stderr, done.stderr


def test_a_mount_that_is_read_only_hidden_or_in_its_own_place_is_no_second_path(sandbox):
    work, view, hidden, over = (sandbox.folder(name) for name in ("work", "view", "hidden/in", "over"))
    own = sandbox.folder("work/sub")
    mounts = [(work, view, "ro"), (work, hidden, "rw"), (over, os.path.dirname(hidden), "rw"), (own, own, "rw"), (work, work, "rw")]
    done = run(sandbox, mounts, *sandbox.command("touch", "written", workspace=work))
    assert done.returncode == 0 and os.path.exists(os.path.join(work, "written")), done.stderr


def test_no_path_of_the_hosts_leads_around_what_is_masked_or_marked(sandbox):
    work, view = sandbox.folder("work"), sandbox.folder("view")
    sandbox.file(os.path.join(work, "prod.conf"), "secret")
    os.symlink(os.path.join(work, "prod.conf"), os.path.join(work, ".env"))
    keyhole = Run(sandbox)
    words = [os.path.join(keyhole.sandbox.programs, "keyhole"), "run"]
    for mode, mask, status in [(":ro", ["--mask-env"], 125), (":review", ["--mask-env"], 125), (":review", [], 0), (":ro", [], 0)]:
        done = run(sandbox, [(work, view, "rw")], *words, *mask, "--workspace", view + mode, "--", "true")
        assert done.returncode == status, done.stderr
        assert ("is mounted at a second path" in done.stderr) == (mode == ":review" or bool(mask)), done.stderr


def test_a_home_folder_is_known_by_any_mount(sandbox):
    """A review of one is refused as well, and by a mount that is read-only."""
    home, view = sandbox.folder("someone"), sandbox.folder("view")
    words = [os.path.join(sandbox.programs, "keyhole"), "run", "--workspace", view + ":review", "--", "true"]
    done = run(sandbox, [(home, view, "ro")], "env", "HOME=" + home, *words)
    assert done.returncode == 125 and "is a home folder" in done.stderr, done.stderr
