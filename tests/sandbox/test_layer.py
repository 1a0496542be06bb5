"""A layer over a root: it can be written to, nothing of it is left, and no link of the root leads out."""

import os
import shutil

import pytest
from conftest import PATIENCE

APPLETS = "sh cat id touch mkdir rm ls ln mv dd df stat sleep readlink kill chmod mount wc".split()


def make_root(sandbox, name="root"):
    """A root of one static program, the sandbox's own on the host as an unpacked image is."""
    root = sandbox.folder(name)
    for folder in ("bin", "etc", "usr/share/data", "srv"):
        os.makedirs(os.path.join(root, folder))
    shutil.copy("/usr/bin/busybox", os.path.join(root, "bin/busybox"))
    for applet in APPLETS:
        os.symlink("busybox", os.path.join(root, "bin", applet))
    sandbox.file(os.path.join(root, "usr/share/data/file"), "lower\n")
    return root


def give(sandbox, root):
    """To whom the sandbox is on the host."""
    owner = 64952 if sandbox.identity == "root" else None
    for above, folders, files in os.walk(root):
        for name in [".", *folders, *files] if owner else []:
            os.lchown(os.path.join(above, name), owner, owner)
    sandbox.give(root)


@pytest.fixture
def root(sandbox):
    if not os.path.exists("/usr/bin/busybox"):
        pytest.skip("busybox-static is not installed")
    return make_root(sandbox)


def inside(sandbox, root, script, check=0, **options):
    give(sandbox, root)
    done = sandbox.run("/bin/sh", "-c", script, check=check, rootfs=root, layer="yes", **options)
    return done.stdout.decode()


def contents(root):
    return sorted(os.path.relpath(os.path.join(above, name), root)
                  for above, folders, files in os.walk(root) for name in folders + files)  # fmt: skip


def test_what_is_written_is_seen_inside_and_gone_at_the_end(sandbox, root):
    before = contents(root)
    script = ("echo more >> /usr/share/data/file; cat /usr/share/data/file; rm -r /usr/share/data; "
              "mkdir /usr/share/data /new; touch /usr/share/data/mine /bin/tool; ls /usr/share/data; rm /bin/cat; ls /bin/cat")  # fmt: skip
    assert inside(sandbox, root, script + "; :").split() == ["lower", "more", "mine"]
    assert contents(root) == before
    assert open(os.path.join(root, "usr/share/data/file")).read() == "lower\n"
    assert inside(sandbox, root, "cat /usr/share/data/file; ls -d /new; :") == "lower\n"


def test_what_is_the_sandboxs_own_is_there_and_can_not_be_replaced(sandbox, root):
    out = inside(sandbox, root, "id; cat /etc/resolv.conf; for f in /run/keyhole-init /run/keyhole-filter /run/keyhole; do "
                 "echo x 2>/dev/null > $f/x; echo x 2>/dev/null > $f; rm -rf $f 2>/dev/null; mv $f /tmp 2>/dev/null; "
                 "ls -d $f; done")  # fmt: skip
    assert out.startswith("uid=1000(agent) gid=1000(agent)") and "nameserver 127.0.0.1" in out
    assert out.split()[-3:] == ["/run/keyhole-init", "/run/keyhole-filter", "/run/keyhole"]


def test_a_link_of_the_root_leads_nothing_of_ours_astray(sandbox, root, workspace):
    """Each place that we put something is a link: to the host by its path, up, or in a circle."""
    victim = sandbox.folder("victim")
    sandbox.file(os.path.join(victim, "passwd"), "untouched")
    shutil.rmtree(os.path.join(root, "etc"))
    os.symlink(victim, os.path.join(root, "etc"))
    for name, text in (("tmp", "/bin"), ("home", ".."), ("run", "run"), ("proc", "/../../../.."), ("dev", victim),
                       ("sys", "/bin"), ("var", victim)):  # fmt: skip
        os.symlink(text, os.path.join(root, name))
    out = inside(sandbox, root, "id; cat /etc/passwd /etc/hostname; ls -d /tmp /home/agent /dev/null /proc/self/; touch here; "
                 "for l in tmp home run proc dev etc; do readlink /$l; done; :", workspace=workspace)  # fmt: skip
    assert "uid=1000(agent)" in out and "untouched" not in out and "sandbox" in out
    assert out.split()[-4:] == ["/dev/null", "/home/agent", "/proc/self/", "/tmp"], out
    assert os.listdir(victim) == ["passwd"] and os.listdir(workspace) == ["here"]
    assert open(os.path.join(victim, "passwd")).read() == "untouched"


def test_a_file_where_a_folder_of_ours_goes_gives_way(sandbox, root):
    for name in ("tmp", "home", "run", "proc"):
        sandbox.file(os.path.join(root, name), "a file")
    os.makedirs(os.path.join(root, "etc/hostname"))
    assert inside(sandbox, root, "cat /etc/hostname; touch /tmp/x ~/x && echo yes") == "sandbox\nyes\n"


def test_a_full_folder_where_a_file_of_ours_goes_is_refused(sandbox, root):
    os.makedirs(os.path.join(root, "etc/passwd/full"))
    give(sandbox, root)
    done = sandbox.run("/bin/sh", "-c", ":", check=125, rootfs=root, layer="yes")
    said = done.stderr.decode()
    assert said.startswith("keyhole: ") and "/etc/passwd: the root has a folder there that is not empty" in said
    assert "take it out of the image" in said and said.count("\n") == 1


@pytest.mark.before_the_engine
@pytest.mark.parametrize("layer", ["yes", "no"])
def test_a_link_of_the_root_shows_no_file_of_the_host(sandbox, root, layer):
    """The system's roots are read by the launcher, who may read more than the sandbox."""
    secret = sandbox.file(os.path.join(sandbox.place, "secret"), "the host's own")
    os.makedirs(os.path.join(root, "etc/ssl/certs"))
    os.symlink(secret, os.path.join(root, "etc/ssl/certs/ca-certificates.crt"))
    os.mkfifo(os.path.join(root, "etc/ssl/cert.pem"))
    give(sandbox, root)
    out = sandbox.sh("cat /etc/ssl/certs/ca-certificates.crt", rootfs=root, layer=layer)
    assert "BEGIN CERTIFICATE" in out and "host's own" not in out


@pytest.mark.before_the_engine
def test_a_link_in_the_place_of_etc_shows_nothing_of_the_hosts(sandbox, root):
    folder = sandbox.folder("elsewhere")
    sandbox.file(os.path.join(folder, "motd"), "the host's own")
    shutil.rmtree(os.path.join(root, "etc"))
    os.symlink(folder, os.path.join(root, "etc"))
    give(sandbox, root)
    assert sandbox.sh("cat /etc/motd 2>/dev/null; echo end", rootfs=root) == "end\n"


def test_what_is_written_is_bounded(sandbox, root):
    out = inside(sandbox, root, "dd if=/dev/zero of=/srv/big bs=1048576 count=64 2>&1; stat -c %s /srv/big; echo still",
                 disk=8 << 20)  # fmt: skip
    assert "No space left" in out and out.endswith("still\n")
    assert int(out.split()[-2]) <= 8 << 20


def test_no_setuid_file_and_no_device_of_the_root_has_power(sandbox, root):
    os.chmod(os.path.join(root, "bin/busybox"), 0o4755)
    if os.geteuid() == 0:
        os.mknod(os.path.join(root, "disk"), 0o60666, os.makedev(7, 0))
        os.mknod(os.path.join(root, "full"), 0o20666, os.makedev(1, 7))
    out = inside(sandbox, root, "id -u; cat /full 2>&1 | dd bs=1 count=0 2>/dev/null; cat /disk >/dev/null 2>&1 && echo read; "
                 "echo x 2>/dev/null >/full && echo written; :")  # fmt: skip
    assert out == "1000\n"


def test_a_killed_launcher_leaves_nothing(sandbox, root):
    give(sandbox, root)
    before = contents(root)
    started = sandbox.start("/bin/sh", "-c", "touch /bin/x; echo up; sleep 600", rootfs=root, layer="yes")
    assert started.stdout.readline() == b"up\n"
    started.kill()
    # The pipe ends when the last process of the sandbox has ended.
    assert started.communicate(timeout=PATIENCE)[0] == b""
    assert contents(root) == before
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        assert not [line for line in table if sandbox.place in line or "/run/layer" in line]


def test_the_files_of_a_roots_owner_are_the_sandboxs(sandbox, root):
    """Whoever that is, where root starts it; somebody else's can't be had a layer over."""
    if os.geteuid() != 0:
        pytest.skip("files can be given to somebody else by root alone")
    for above, folders, files in os.walk(root):
        for name in [".", *folders, *files]:
            os.lchown(os.path.join(above, name), 0, 0)
    options = {"rootfs": root, "layer": "yes"}
    if sandbox.identity == "user":
        done = sandbox.run("/bin/sh", "-c", ":", check=125, **options)
        assert b"belongs to somebody else" in done.stderr
        return
    done = sandbox.run("/bin/sh", "-c", "echo x >>/usr/share/data/file && touch /bin/x && stat -c %u /bin/busybox", check=0, **options)
    assert done.stdout == b"1000\n" and "x" not in os.listdir(os.path.join(root, "bin"))
    assert os.stat(os.path.join(root, "usr/share/data/file")).st_size == len("lower\n")


@pytest.mark.parametrize("owner, group", [(7, -1), (-1, 7)])
def test_a_folder_of_another_where_something_of_ours_goes_is_one_line_with_what_to_do(sandbox, root, owner, group):
    if os.geteuid() != 0:
        pytest.skip("files can be given to somebody else by root alone")
    give(sandbox, root)
    os.chown(os.path.join(root, "etc"), owner, group)
    done = sandbox.run("/bin/sh", "-c", ":", check=125, rootfs=root, layer="yes")
    assert b"laying /etc/" in done.stderr and b"chown -hR USER: DIR" in done.stderr and done.stderr.count(b"\n") == 1


def test_a_layered_root_is_isolated_like_any_other(sandbox, root):
    out = inside(sandbox, root, "cat /proc/self/status; echo; ls /proc/1/root /proc/1/fd /run /sys 2>&1; ls /dev; cat /proc/self/mountinfo; "
                 "mount -t tmpfs x /srv; chmod 4755 /bin/busybox; ls /proc/self/fd | wc -l; :")  # fmt: skip
    said = dict(line.split(":", 1) for line in out.split("\n\n")[0].splitlines() if ":" in line)
    assert int(said["CapEff"], 16) == int(said["CapPrm"], 16) == int(said["CapBnd"], 16) == 0
    assert said["Uid"].split() == ["1000"] * 4
    if sandbox.engine != "gvisor":
        assert said["NoNewPrivs"].strip() == "1" and said["Seccomp"].strip() == "2"
        assert out.count("ermission denied") >= 2, out  # of PID 1
        assert " overlay " in out
    for place in ("/run/lower", "/run/layer/upper", "bundle", "scratch/"):
        assert f" {place} " not in out and f"\n{place}\n" not in out
    assert os.stat(os.path.join(root, "bin/busybox")).st_mode & 0o7777 == 0o755


def test_a_folder_to_start_in_is_made_where_it_is_absent(sandbox, root):
    give(sandbox, root)
    done = sandbox.run("/bin/sh", "-c", "pwd; touch x", check=0, rootfs=root, layer="yes", directory="/srv/app/deep")
    assert done.stdout == b"/srv/app/deep\n"
    assert os.listdir(os.path.join(root, "srv")) == []
