"""A root of the caller's own, and what every root has."""

import ctypes
import os
import shutil
import subprocess
import threading

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


ETC_TREES = ("ssl", "pki", "ld.so.conf.d", "crypto-policies", "perl", "terminfo", "apt")
PRINT_THEM = f"for d in {' '.join(ETC_TREES)}; do cat /etc/$d/key /etc/$d/*/key /etc/$d/*/*/key; done 2>/dev/null; :"


def test_no_link_in_its_etc_leads_to_a_file_of_the_host(sandbox, rootfs):
    closed = sandbox.folder("closed", 0o700)
    for name in ("key", "sub/key", "sub/more/key"):
        sandbox.file(os.path.join(closed, name), "of the host")
    shutil.rmtree(os.path.join(rootfs, "etc/ssl"))
    for name in ETC_TREES:
        os.symlink(closed, os.path.join(rootfs, "etc", name))
    assert "of the host" not in sandbox.sh(PRINT_THEM, rootfs=rootfs)
    for name in ETC_TREES:
        os.unlink(os.path.join(rootfs, "etc", name))
        os.mkdir(os.path.join(rootfs, "etc", name))
        os.symlink(closed, os.path.join(rootfs, "etc", name, "sub"))
        os.symlink(os.path.join(closed, "key"), os.path.join(rootfs, "etc", name, "key"))
    assert "of the host" not in sandbox.sh(PRINT_THEM, rootfs=rootfs)


def test_no_copy_is_made_of_what_lies_in_a_closed_folder(sandbox, rootfs):
    closed = os.path.join(rootfs, "etc/ssl/own")
    sandbox.file(os.path.join(closed, "key"), "closed")
    sandbox.give(closed)
    assert "closed" in sandbox.sh(PRINT_THEM, rootfs=rootfs)
    os.chmod(closed, 0o700)
    assert "closed" not in sandbox.sh(PRINT_THEM, rootfs=rootfs)


def test_a_copy_shows_no_forbidden_file(sandbox, rootfs):
    key = sandbox.file(os.path.join(rootfs, "etc/ssl/ca.key"), "key")
    elsewhere = os.path.join(sandbox.place, "elsewhere")
    for forbidden in (key, os.path.join(rootfs, "etc/ssl")):
        done = sandbox.run("true", rootfs=rootfs, forbid=forbidden, check=125)
        assert b"the sandbox would see it through" in done.stderr, done.stderr
    os.link(key, elsewhere)
    sandbox.run("true", rootfs=rootfs, forbid=elsewhere, check=125)
    os.unlink(key)
    for absent in (os.path.join(sandbox.place, "still/to/be/made"), os.path.join(rootfs, "still/to/be/made")):
        sandbox.run("id", rootfs=rootfs, forbid=absent, check=0)


def swap(one, other, stop):
    """Exchanges two names, without a moment in which one of them is missing."""
    libc, exchange = ctypes.CDLL(None), 2
    while not stop.is_set():
        libc.renameat2(-100, one.encode(), -100, other.encode(), exchange)


def test_what_an_agent_swaps_while_it_is_laid_shows_nothing_of_the_host(sandbox, rootfs):
    closed = sandbox.folder("closed", 0o700)
    sandbox.file(os.path.join(closed, "key"), "of the host", 0o600)
    pairs = []
    for place, target in (("etc/ssl/key", "key"), ("etc/pki", "."), ("srv", ".")):
        mine, link = os.path.join(rootfs, place), os.path.join(sandbox.place, "link-" + place.replace("/", "-"))
        if target == ".":
            sandbox.file(os.path.join(mine, "key"), "own")
        else:
            sandbox.file(mine, "own")
        os.symlink(os.path.join(closed, target), link)
        pairs.append((mine, link))
    if sandbox.identity == "root":
        sandbox.file(os.path.join(closed, "key"), "of the host", 0o644)  # what the sandbox's uid could read, if it came there
        os.chmod(closed, 0o755)
    stop = threading.Event()
    threads = [threading.Thread(target=swap, args=(*pair, stop), daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    try:
        said = [sandbox.run("sh", "-c", PRINT_THEM + "cat /srv/key", rootfs=rootfs) for _ in range(12)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not [one.stdout for one in said if b"of the host" in one.stdout]
