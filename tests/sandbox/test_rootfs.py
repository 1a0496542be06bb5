"""A root of the caller's own, and what every root has."""

import os
import shutil
import subprocess

import pytest
from conftest import PATIENCE


@pytest.fixture
def rootfs(sandbox):
    """A small root: a shell and what it needs, with settings of its own."""
    root = sandbox.folder("root")
    for name in ("bin", "lib", "lib64", "etc/ssl/certs", "etc/app", "srv", "var/lib"):
        os.makedirs(os.path.join(root, name))
    for program in ("sh", "cat", "ls", "id", "env", "touch"):
        copy(root, os.path.realpath(shutil.which(program)), f"/bin/{program}")
    for name, content, mode in (("etc/app/conf", "mine", 0o644), ("etc/motd", "welcome", 0o644),
                                ("etc/shadow", "root:x", 0o600), ("etc/passwd", "other:x:7:7::/:/", 0o644),
                                ("etc/ssl/certs/ca-certificates.crt", "# roots of this root\n", 0o644),
                                ("var/lib/state", "kept", 0o644)):  # fmt: skip
        sandbox.file(os.path.join(root, name), content, mode)
    os.symlink("motd", os.path.join(root, "etc/link"))
    sandbox.give(root)
    return root


def copy(root, source, target):
    """A program and its libraries."""
    shutil.copy(source, root + target)
    listed = subprocess.run(["ldd", source], capture_output=True, text=True, timeout=PATIENCE,
                            check=False).stdout  # fmt: skip
    for word in listed.split():
        if word.startswith("/") and os.path.exists(word):
            os.makedirs(os.path.dirname(root + word), exist_ok=True)
            shutil.copy(os.path.realpath(word), root + word)


def test_its_files_are_seen_and_ours_beside_them(sandbox, rootfs):
    out = sandbox.sh("cat /etc/app/conf /etc/link /var/lib/state; id; ls /usr || :", rootfs=rootfs)
    assert out.startswith("minewelcomekeptuid=1000(agent) gid=1000(agent)"), out
    out = sandbox.sh("cat /etc/ssl/certs/ca-certificates.crt", rootfs=rootfs)
    assert out.startswith("# roots of this root") and "BEGIN CERTIFICATE" in out


def test_it_is_read_only_and_its_secrets_stay_out(sandbox, rootfs):
    out = sandbox.sh("touch /bin/x /etc/x /etc/app/x /var/lib/x /x /srv/x 2>/dev/null; "
                     "cat /etc/shadow 2>/dev/null; echo /etc/*", rootfs=rootfs)  # fmt: skip
    assert "root:x" not in out and "shadow" not in out
    for name in ("bin/x", "etc/x", "etc/app/x", "var/lib/x", "x", "srv/x"):
        assert not os.path.exists(os.path.join(rootfs, name))


def test_a_workspace_and_a_home_lie_in_it(sandbox, rootfs, workspace):
    home = sandbox.folder("home")
    sandbox.sh("touch here ~/there", rootfs=rootfs, workspace=workspace, home=home)
    assert os.listdir(workspace) == ["here"] and os.listdir(home) == ["there"]


def test_the_relay_works_in_any_root(sandbox, rootfs):
    assert sandbox.sh("cat /proc/net/tcp", rootfs=rootfs).count("0100007F:0C38") >= 1


def test_the_usual_places_hold_the_trust(sandbox):
    out = sandbox.python(
        """
        import os
        ca = open('/etc/keyhole/ca.pem').read().strip()
        places = ['/etc/ssl/certs/ca-certificates.crt', '/etc/ssl/cert.pem',
                  '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/ca-bundle.pem',
                  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem']
        say([ca in open(p).read() for p in places] +
            [open(p, 'rb').read(1) == b'0' for p in ('/etc/keyhole/ca.p12', '/etc/ssl/certs/java/cacerts')])
        """
    )
    assert out == [True] * 7


def test_a_shell_can_send_to_the_devices_of_every_root(sandbox, rootfs):
    assert sandbox.sh("echo a >/dev/null && echo b 2>/dev/null") == "b\n"
    assert sandbox.sh("echo a >/dev/null && echo b 2>/dev/null", rootfs=rootfs) == "b\n"
