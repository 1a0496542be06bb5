"""Sockets and set-ID files that lie in what is mounted of the host, wherever that is."""

import errno
import os
import shutil
import socket
import stat

import pytest

DEEP = "a/b/c/d/e/f/g"


@pytest.fixture
def trees(sandbox, workspace):
    """A workspace, a home, and a folder to read, with as much below each of them."""
    made = {"workspace": workspace, "home": sandbox.folder("home"), "ro": sandbox.folder("tools")}
    for path in made.values():
        os.makedirs(os.path.join(path, DEEP))
        sandbox.give(path)
    return made


def test_no_socket_of_the_host_in_a_mounted_folder_can_be_dialled(sandbox, trees):
    """A read-only mount does not keep anybody from dialling; nor does a folder that lies deep."""
    servers, inside = [], []
    for option, path in trees.items():
        for below in ("s", os.path.join(DEEP, "s")):
            server = socket.socket(socket.AF_UNIX)
            name = os.path.join(path, below)
            # The path may be longer than a socket's name.
            with_fd = os.open(os.path.dirname(name), os.O_PATH)
            server.bind(f"/proc/self/fd/{with_fd}/s")
            os.close(with_fd)
            os.chmod(name, 0o777)
            server.listen()
            servers.append(server)
            inside.append(os.path.join("/home/agent" if option == "home" else path, below))
    seen = sandbox.python(
        """
        import os, socket
        out = {}
        for path in sys.argv[1:]:
            os.chdir(os.path.dirname(path))
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                s = socket.socket(socket.AF_UNIX, kind)
                try:
                    s.connect('s')
                    out[path] = 'reached'
                except OSError as e:
                    out.setdefault(path, e.errno)
        # Their own are theirs.
        os.chdir('/tmp')
        own, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        own.bind('mine')
        own.listen()
        client.connect('mine')
        say(out)
        """,
        *inside,
        **trees,
    )
    for server in servers:
        server.close()
    assert set(seen) == set(inside) and set(seen.values()) <= {errno.ECONNREFUSED, errno.EACCES}, seen


REWRITE = """
import mmap, os
out = []
for name in ('suid', 'sgid', 'capable', 'plain'):
    path = os.path.join(sys.argv[1], name)
    try:
        fd = os.open(path, os.O_RDWR)
        with mmap.mmap(fd, 4) as m:
            m[0:4] = b'evil'
        out.append('rewritten')
    except OSError as e:
        out.append(e.errno)
    try:
        os.link(path, os.path.join(sys.argv[1], 'second-' + name))
        fd = os.open(os.path.join(sys.argv[1], 'second-' + name), os.O_RDWR)
        out.append('linked')
    except OSError as e:
        out.append('not linked')
say(out)
"""


def test_a_set_id_file_can_not_be_rewritten_through_a_shared_mapping(sandbox, workspace):
    """A write takes the bit away, a shared mapping does not: it would be root's program of the agent's."""
    folder = os.path.join(workspace, DEEP)
    os.makedirs(folder)
    for name in ("suid", "sgid", "capable", "plain"):
        shutil.copy("/usr/bin/true", os.path.join(folder, name))
    for above, _, names in os.walk(workspace):
        owner = os.stat(workspace)
        for path in [above] + [os.path.join(above, name) for name in names]:
            os.chown(path, owner.st_uid, owner.st_gid)
    sandbox.give(workspace)
    os.chmod(os.path.join(folder, "suid"), 0o4755)
    os.chmod(os.path.join(folder, "sgid"), 0o2755)
    if os.geteuid() == 0:  # VFS_CAP_REVISION_2: CAP_NET_RAW, permitted and effective
        os.setxattr(os.path.join(folder, "capable"), "security.capability", bytes.fromhex("0100000200200000" + "00" * 12))
    seen = sandbox.python(REWRITE, folder, workspace=workspace)
    covered = ["suid", "sgid"] + ["capable"] * (os.geteuid() == 0)
    for name, why, link in zip(("suid", "sgid", "capable", "plain"), seen[::2], seen[1::2], strict=True):
        if name in covered:
            assert why in (errno.EROFS, errno.EACCES) and link == "not linked", (name, seen)
    assert seen[6] == "rewritten", "what is nobody's but the owner's is as it was"
    for name in covered:
        with open(os.path.join(folder, name), "rb") as file:
            assert file.read(4) == b"\x7fELF", name
    assert os.stat(os.path.join(folder, "suid")).st_mode & stat.S_ISUID


@pytest.mark.before_the_engine
def test_more_sockets_than_can_be_covered_are_refused_with_what_to_do(sandbox, workspace):
    """An agent can leave as many as it likes; none of them is passed over."""
    for i in range(600):
        os.mknod(os.path.join(workspace, f"s{i}"), stat.S_IFSOCK | 0o666)
    done = sandbox.run("true", workspace=workspace, check=125)
    said = done.stderr.decode().splitlines()[-1]
    assert "more than" in said and "sockets" in said and "(" in said, said


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_a_folder_of_ones_own_that_can_not_be_looked_into_is_not_passed_over(sandbox, workspace):
    """The agent, who is the same user, could open it."""
    os.mkdir(os.path.join(workspace, "shut"))
    sandbox.give(workspace)
    os.chmod(os.path.join(workspace, "shut"), 0)
    done = sandbox.run("true", workspace=workspace, check=125)
    assert b"/shut: it can't be read" in done.stderr


@pytest.mark.before_the_engine
def test_ten_thousand_files_deep_down_are_all_looked_at(sandbox, workspace):
    """The walk has no depth, and no number that an agent reaches without trying."""
    for i in range(100):
        folder = os.path.join(workspace, f"many{i}/x/y/z/w")
        os.makedirs(folder)
        for j in range(100):
            os.mknod(os.path.join(folder, str(j)), stat.S_IFREG | 0o644)
    os.mknod(os.path.join(workspace, "many99/x/y/z/w/s"), stat.S_IFSOCK | 0o777)
    sandbox.give(workspace)
    done = sandbox.run("sh", "-c", "test -f many99/x/y/z/w/s && test ! -s many99/x/y/z/w/s && test ! -S many99/x/y/z/w/s",
                       workspace=workspace, check=0)  # fmt: skip
    assert b"many99/x/y/z/w/s is a socket of the host" in done.stderr


