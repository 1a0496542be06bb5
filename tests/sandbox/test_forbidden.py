"""keyhole does not start where the sandbox would see what it must never see."""

import os
import subprocess

import pytest
from conftest import PATIENCE
from test_run import Run


def refused(sandbox, secret, **options):
    done = sandbox.run("true", forbid=secret, check=125, **options)
    assert b"would see it" in done.stderr or b"second name" in done.stderr, done.stderr
    assert os.path.basename(secret).encode() in done.stderr
    return done.stderr


def test_inside_of_the_workspace(sandbox, workspace):
    secret = sandbox.file(os.path.join(workspace, "sub", "ca.key"), "key")
    for mount in ("workspace", "workspace_ro", "home", "ro"):
        refused(sandbox, secret, **{mount: workspace})
    refused(sandbox, secret, ro=secret)


def test_a_file_that_is_still_to_be_made(sandbox, workspace):
    for name in ("audit.jsonl", "state/keyhole/audit/1.jsonl"):
        refused(sandbox, os.path.join(workspace, name), workspace=workspace)


def test_through_a_link_from_outside(sandbox, workspace):
    secret = sandbox.file(os.path.join(workspace, "ca.key"), "key")
    link = os.path.join(sandbox.place, "ca.key")
    os.symlink(secret, link)
    refused(sandbox, link, workspace=workspace)
    folder = os.path.join(sandbox.place, "folder")
    os.symlink(workspace, folder)
    refused(sandbox, os.path.join(folder, "ca.key"), workspace=workspace)


def test_through_a_link_that_names_the_workspace(sandbox, workspace):
    secret = sandbox.file(os.path.join(workspace, "ca.key"), "key")
    link = os.path.join(sandbox.place, "link")
    os.symlink(workspace, link)
    done = sandbox.run("true", forbid=secret, ro=link, check=125)
    assert b"there is a symbolic link now" in done.stderr, done.stderr


def test_through_a_second_name_of_the_same_file(sandbox, workspace):
    secret = sandbox.file(os.path.join(sandbox.place, "ca.key"), "key")
    os.link(secret, os.path.join(workspace, "innocent"))
    refused(sandbox, secret, workspace=workspace)


def test_in_the_host_view(sandbox):
    assert b"/usr" in refused(sandbox, "/usr/bin/env")


def test_beside_the_workspace_is_fine(sandbox, workspace):
    inside = sandbox.file(os.path.join(sandbox.place, "work-keys", "ca.key"), "key")
    for secret in (inside, os.path.join(sandbox.place, "work.key"), "/etc/keyhole/ca.key",
                   os.path.join(sandbox.place, "new", "audit.jsonl")):  # fmt: skip
        sandbox.run("true", forbid=secret, workspace=workspace, check=0)


@pytest.mark.identity("root")
@pytest.mark.parametrize("way", ["secret elsewhere", "workspace elsewhere", "mounted below"])
def test_through_a_second_mount(sandbox, workspace, way):
    """In a mount namespace of the test's own. A workspace with a second mount is never the agent's to write to (test_second_mount.py)."""
    real = sandbox.folder("real")
    sandbox.file(os.path.join(real, "conf", "ca.key"), "key")
    view = sandbox.folder("view")
    secret = os.path.join(real, "conf", "ca.key")
    if way == "secret elsewhere":
        # The secret's path goes through a mount of what lies in the workspace.
        mount, secret, seen = [real + "/conf", view], os.path.join(view, "ca.key"), real
    elif way == "workspace elsewhere":
        mount, seen = [real, view], view
    else:
        # Something mounted in the workspace holds it.
        below = os.path.join(workspace, "below")
        os.mkdir(below)
        mount, seen = [real, below], workspace
    command = sandbox.command("true", forbid=secret, workspace_ro=seen)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh",
         *mount, *command],
        capture_output=True, timeout=PATIENCE, env=sandbox.environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 125 and b"would see it" in done.stderr, done.stderr


@pytest.mark.identity("user")
@pytest.mark.parametrize("kept", ["cache/keyhole", "state/keyhole"])
def test_no_part_of_keyholes_own_folders_is_a_sandboxs(sandbox, kept):
    """Whatever it is called: of what lies there a run reads which image a reference means, say."""
    run = Run(sandbox)
    parts = ["", "refs", "tmp", "images/x/rootfs", "layers", "new"]
    for part in parts:
        sandbox.folder(f"{kept}/{part}", 0o700)
    for part in parts:
        folder = os.path.join(sandbox.place, kept, part).rstrip("/")
        for options in (["--workspace", folder], ["--workspace", folder + ":ro"], ["--home", folder], ["--ro", folder])[:4 if part == "refs" else 1]:
            done = run(*options, "--", "true", check=125, use=None, XDG_CACHE_HOME=os.path.join(sandbox.place, "cache"))
            assert f"{os.path.join(sandbox.place, kept)}: the sandbox would see it" in done.stderr or (kept[0] == "s" and not part), (options, done.stderr)
    beside = sandbox.folder(os.path.dirname(kept) + "/other")
    run("-q", "--workspace", beside, "--", "true", check=0, use=None, XDG_CACHE_HOME=os.path.join(sandbox.place, "cache"))
