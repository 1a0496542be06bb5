"""Roots out of images: unpacked once, kept, run in every engine; and images that are made to do harm.

The images are made here, by hand, out of one static program: no network, and whatever a hostile one may say.
"""

import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import time

import pytest
from conftest import PATIENCE, USER

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
APPLETS = "sh cat id touch mkdir rm ls ln env pwd stat sleep readlink".split()
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(autouse=True)
def tools():
    for program in ("skopeo", "umoci", "busybox"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


class Layer:
    """A tar file, entry by entry."""

    def __init__(self):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name, kind=tarfile.REGTYPE, content=b"", mode=0o755, link="", device=(0, 0), uid=0):
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.linkname, info.size = kind, mode, link, len(content)
        info.devmajor, info.devminor = device
        info.uid = info.gid = uid
        self.tar.addfile(info, io.BytesIO(content))
        return self

    def programs(self):
        self.add("bin", tarfile.DIRTYPE)
        with open("/usr/bin/busybox", "rb") as file:
            self.add("bin/busybox", content=file.read())
        for applet in APPLETS:
            self.add(f"bin/{applet}", tarfile.SYMTYPE, link="busybox")
        return self

    def done(self):
        self.tar.close()
        return self.bytes.getvalue()


class Layout:
    """An OCI image layout, written as its maker likes."""

    def __init__(self, sandbox, name="image"):
        self.path = sandbox.folder(name)
        self.sandbox = sandbox
        os.makedirs(os.path.join(self.path, "blobs/sha256"))
        self.write("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        self.images = []

    def write(self, name, content):
        with open(os.path.join(self.path, name), "wb") as file:
            file.write(content)

    def blob(self, content):
        digest = hashlib.sha256(content).hexdigest()
        self.write(f"blobs/sha256/{digest}", content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def image(self, layers, tag="latest", architecture=ARCHITECTURE, system="linux", **config):
        packed = [gzip.compress(layer, 1) for layer in layers]
        text = {"architecture": architecture, "os": system, "config": config, "rootfs": {
            "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]}}  # fmt: skip
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **self.blob(json.dumps(text).encode())},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **self.blob(p)} for p in packed]}  # fmt: skip
        self.images.append({"mediaType": MANIFEST, **self.blob(json.dumps(manifest).encode()),
                            "annotations": {"org.opencontainers.image.ref.name": tag},
                            "platform": {"architecture": architecture, "os": system}})  # fmt: skip
        self.write("index.json", json.dumps({"schemaVersion": 2, "manifests": self.images}).encode())
        self.sandbox.give(self.path)
        return self

    def archive(self, name):
        path = os.path.join(self.sandbox.place, name)
        with tarfile.open(path, "w") as tar:
            for entry in ("oci-layout", "index.json", "blobs"):
                tar.add(os.path.join(self.path, entry), entry)
        os.chmod(path, 0o644)
        if self.sandbox.identity == "user" and os.geteuid() == 0:
            os.chown(path, USER, USER)
        return path


@pytest.fixture
def layout(sandbox):
    return Layout(sandbox)


@pytest.fixture
def cache(sandbox):
    return os.path.join(sandbox.place, "cache")


@pytest.fixture
def run(sandbox, cache):
    def run(reference, *command, check=0, **options):
        return sandbox.run(*command, image=reference, image_cache=cache, check=check, **options)

    return run


def plain(layout, **config):
    return layout.image([Layer().programs().done()], **config)


def kept(cache):
    return sorted(os.listdir(os.path.join(cache, "images")))


def modification(cache):
    return {name: os.stat(os.path.join(cache, "images", name, "rootfs")).st_ctime_ns for name in kept(cache)}


# ---- what it is for


def test_an_image_runs_and_can_be_written_to(run, layout, cache):
    plain(layout)
    script = "id; touch /bin/new /etc/x ~/y /tmp/z && ls /bin/new; cat /etc/resolv.conf"
    out = run(f"oci:{layout.path}", "sh", "-c", script).stdout.decode()
    assert out.startswith("uid=1000(agent) gid=1000(agent)") and "/bin/new" in out and "nameserver 127.0.0.1" in out
    root = os.path.join(cache, "images", kept(cache)[0], "rootfs")
    assert sorted(os.listdir(root)) == ["bin"] and "new" not in os.listdir(os.path.join(root, "bin"))
    assert run(f"oci:{layout.path}", "sh", "-c", "ls /bin/new /etc/x; :").stdout == b""


@pytest.mark.before_the_engine
def test_each_form_leads_to_the_same_image_unpacked_once(run, layout, cache, sandbox):
    plain(layout, tag="one")
    archive = layout.archive("image.tar")
    run(f"oci:{layout.path}:one", "/bin/sh", "-c", ":")
    before = modification(cache)
    assert len(before) == 1
    for reference in (f"oci:{layout.path}:one", f"oci:{layout.path}", f"oci-archive:{archive}", f"oci-archive:{archive}:one"):
        run(reference, "/bin/sh", "-c", ":")
    assert modification(cache) == before
    assert os.listdir(os.path.join(cache, "tmp")) == []


@pytest.mark.before_the_engine
def test_what_docker_saves_runs(run, layout, sandbox):
    plain(layout)
    archive = os.path.join(sandbox.place, "saved.tar")
    subprocess.run(["skopeo", "copy", "--quiet", "--insecure-policy", f"oci:{layout.path}",
                    f"docker-archive:{archive}:mine/app:1"], check=True, capture_output=True, timeout=PATIENCE)  # fmt: skip
    os.chmod(archive, 0o644)
    assert run(f"docker-archive:{archive}", "sh", "-c", "echo up").stdout == b"up\n"
    assert run(f"docker-archive:{archive}:mine/app:1", "sh", "-c", "echo up").stdout == b"up\n"


def as_zstd(layout, name):
    path = os.path.join(layout.sandbox.place, name)
    subprocess.run(["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-compress-format", "zstd",
                    f"oci:{layout.path}", f"oci:{path}"], check=True, capture_output=True, timeout=PATIENCE)  # fmt: skip
    layout.sandbox.give(path)
    with open(os.path.join(path, "index.json"), "rb") as index:
        digest = json.load(index)["manifests"][0]["digest"].split(":")[1]
    with open(os.path.join(path, "blobs/sha256", digest), "rb") as manifest:
        assert all(layer["mediaType"].endswith("+zstd") for layer in json.load(manifest)["layers"])
    return path


@pytest.mark.before_the_engine
def test_layers_that_zstd_compressed_are_layers_like_others(run, layout, cache):
    layout.image([Layer().programs().done(), Layer().add("said", content=b"above\n").done()])
    path = as_zstd(layout, "zstd")
    for _ in range(2):
        assert run(f"oci:{path}", "cat", "/said").stdout == b"above\n"
    assert len(kept(cache)) == 1 and os.listdir(os.path.join(cache, "tmp")) == []
    # A layer of few bytes that is many, in files of which none is too large by itself.
    layer = Layer().programs()
    for n in range(8):
        layer.add(f"zeros{n}", content=bytes(8 << 20))
    layout.image([layer.done()])
    layout.images = layout.images[1:]
    layout.write("index.json", json.dumps({"schemaVersion": 2, "manifests": layout.images}).encode())
    path = as_zstd(layout, "much")
    assert "unpacks to more than 48MiB" in run(f"oci:{path}", "sh", check=125, image_bytes=48 << 20).stderr.decode()
    assert len(kept(cache)) == 1 and os.listdir(os.path.join(cache, "tmp")) == []


def test_its_variables_and_its_folder_are_taken_and_the_rest_is_ours(run, layout, workspace):
    plain(layout, Env=["PATH=/bin", "A=of the image", "HOME=/root", "https_proxy=http://elsewhere", "x.y=z"],
          WorkingDir="/srv/app", User="0:0")  # fmt: skip
    reference = f"oci:{layout.path}"
    out = run(reference, "sh", "-c", "pwd; id -u; echo $A $HOME $https_proxy $PATH; touch here").stdout.decode()
    assert out.split("\n")[:3] == ["/srv/app", "1000", "of the image /home/agent http://127.0.0.1:3128 /bin"]
    assert run(reference, "sh", "-c", "pwd; echo $A", workspace=workspace).stdout.decode().split() == [
        workspace, "of", "the", "image"]  # fmt: skip


# No text of these leads to a folder of the root, whatever the engine's program has open while it starts.
OUT = ["/proc/self/fd/3", "/proc/self/cwd", "/proc/1/root", "/proc/thread-self/root/etc", "/dev/fd/3", "/w/etc"]


@pytest.mark.parametrize("said", OUT)
def test_a_folder_to_start_in_is_no_way_out(run, layout, engine, said):
    """bubblewrap has the host's /proc open as 3, and `..` of that is the host's root."""
    layout.image([Layer().programs().add("w", tarfile.SYMTYPE, link="/proc/self/root").done()], WorkingDir=said)
    done = run(f"oci:{layout.path}", "sh", "-c", "cd -P ..; cd -P ..; test . -ef / && echo inside; cat run/keyhole-init >/dev/null", check=None)
    if done.returncode == 0:  # a folder of the sandbox's own was made there, or the kernel is the engine's
        assert b"inside" in done.stdout and (engine == "gvisor" or said in ("/w/etc", "/dev/fd/3")), done.stdout
    else:
        assert done.returncode == 125 and done.stdout == b"" and done.stderr.count(b"\n") == 1, done


@pytest.mark.before_the_engine
def test_layers_lie_over_each_other(run, layout):
    lower = Layer().programs().add("etc/a", content=b"lower").add("etc/b", content=b"b").add("data/old", content=b"old").done()
    upper = Layer().add("etc/a", content=b"upper").add("etc/.wh.b").add("data/.wh..wh..opq").add("data/new", content=b"new").done()
    layout.image([lower, upper])
    out = run(f"oci:{layout.path}", "sh", "-c", "cat /etc/a; ls /etc/b /data; :").stdout.decode()
    assert out.split() == ["upper/data:", "new"]


@pytest.mark.before_the_engine
def test_of_several_tags_one_is_named(run, layout):
    plain(layout, tag="one", Env=["N=1"])
    plain(layout, tag="two", Env=["N=2"])
    assert run(f"oci:{layout.path}:two", "sh", "-c", "echo $N").stdout == b"2\n"
    assert b"several images" in run(f"oci:{layout.path}", "sh", check=125).stderr
    assert b"no image of that tag" in run(f"oci:{layout.path}:three", "sh", check=125).stderr


@pytest.mark.before_the_engine
def test_a_tag_that_is_moved_is_seen(run, layout, cache):
    plain(layout, Env=["N=1"])
    assert run(f"oci:{layout.path}", "sh", "-c", "echo $N").stdout == b"1\n"
    layout.images = []
    plain(layout, Env=["N=2"])
    assert run(f"oci:{layout.path}", "sh", "-c", "echo $N").stdout == b"2\n"
    assert len(kept(cache)) == 2


@pytest.mark.before_the_engine
def test_runs_that_begin_at_once_unpack_it_once(sandbox, layout, cache):
    plain(layout)
    started = [sandbox.start("/bin/sh", "-c", "echo up", image=f"oci:{layout.path}", image_cache=cache) for _ in range(4)]
    ended = [one.communicate(timeout=PATIENCE) for one in started]
    assert [out for out, _ in ended] == [b"up\n"] * 4, ended
    assert len(kept(cache)) == 1 and os.listdir(os.path.join(cache, "tmp")) == []


def test_a_root_without_a_shell_runs_what_is_in_it_and_says_what_is_not(run, layout):
    layout.image([Layer().programs().add("bin/sh", tarfile.SYMTYPE, link="nowhere").add("bin/text", content=b"no program").done()])
    assert run(f"oci:{layout.path}", "/bin/busybox", "echo", "up").stdout == b"up\n"
    assert b"/bin/sh" in run(f"oci:{layout.path}", "/bin/sh", check=127).stderr
    run(f"oci:{layout.path}", "/etc/passwd", check=126)


# ---- what can't be taken


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.before_the_engine
def test_an_image_for_another_architecture_is_refused_and_both_are_named(run, layout, cache, nested):
    plain(layout, architecture="s390x")
    if nested:
        index = layout.blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                        "manifests": layout.images}).encode())  # fmt: skip
        layout.write("index.json", json.dumps({"schemaVersion": 2, "manifests": [
            {"mediaType": "application/vnd.oci.image.index.v1+json", **index}]}).encode())  # fmt: skip
        layout.sandbox.give(layout.path)
    said = run(f"oci:{layout.path}", "sh", check=125).stderr.decode()
    assert "s390x" in said and ARCHITECTURE in said, said
    assert kept(cache) == []


@pytest.mark.before_the_engine
def test_an_image_for_another_system_is_refused(run, layout):
    plain(layout, system="windows")
    assert b"architecture" in (said := run(f"oci:{layout.path}", "sh", check=125).stderr) or b"windows" in said


@pytest.mark.parametrize("damage", ["truncated", "changed", "missing", "index", "configuration"])
@pytest.mark.before_the_engine
def test_a_damaged_image_is_refused_and_nothing_of_it_is_kept(run, layout, cache, damage):
    plain(layout)
    manifest = json.load(open(os.path.join(layout.path, "blobs/sha256", layout.images[0]["digest"][7:])))
    name = os.path.join(layout.path, "blobs/sha256", manifest["layers"][0]["digest"][7:])
    content = open(name, "rb").read()
    if damage == "truncated":
        layout.write(name, content[: len(content) // 2])
    elif damage == "changed":
        layout.write(name, content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif damage == "missing":
        os.unlink(name)
    elif damage == "index":
        layout.write("index.json", b'{"schemaVersion":2,"manifests":[')
    else:
        layout.images = []
        layout.image([Layer().programs().done()], Cmd="no list")
    said = run(f"oci:{layout.path}", "sh", check=125).stderr.decode()
    assert said.startswith("keyhole: --image") or "configuration" in said, said
    assert kept(cache) == [] and os.listdir(os.path.join(cache, "tmp")) == []


@pytest.mark.before_the_engine
def test_what_is_no_image_is_refused(run, sandbox):
    folder = sandbox.folder("empty")
    file = sandbox.file(os.path.join(sandbox.place, "file.tar"), "no archive at all")
    for reference, why in ((f"oci:{folder}", "no OCI image layout"), (f"oci-archive:{file}", "damaged"),
                           (f"oci-archive:{folder}", "is no file"), (f"oci:{sandbox.place}/nowhere", "No such file"), ("oci:", "No such file"),
                           ("busybox", "wants oci:DIR"), ("docker://a/b", "wants oci:DIR"),
                           (f"oci:{folder}:$(id)", "such a tag"), ("debian:../x", "wants a suite")):  # fmt: skip
        said = run(reference, "sh", check=125).stderr.decode()
        assert why in said, (reference, said)


@pytest.mark.before_the_engine
def test_a_missing_tool_is_named_with_what_installs_it(sandbox, layout, cache):
    plain(layout)
    environment = sandbox.environment(PATH="/nowhere")
    done = sandbox.run("sh", image=f"oci:{layout.path}", image_cache=cache, env=environment, check=125)
    assert b"skopeo" in done.stderr and b"apt install skopeo" in done.stderr


# ---- what means harm


@pytest.mark.before_the_engine
def test_entries_that_lead_out_of_the_root_stay_in_it(run, layout, sandbox, cache):
    """Names with "..", absolute names, and names through links that lead to the host."""
    victim = sandbox.folder("victim")
    sandbox.file(os.path.join(victim, "file"), "untouched")
    out = Layer().programs()
    out.add("../../../../../.." + victim + "/dots", content=b"x").add(victim + "/absolute", content=b"x")
    out.add("link", tarfile.SYMTYPE, link=victim).add("link/through", content=b"x").add("link/file", content=b"overwritten")
    out.add("up", tarfile.SYMTYPE, link="../../../../../.." + victim).add("up/through", content=b"x")
    layout.image([out.done(), Layer().add("link/later", content=b"x").add("link/.wh.file").done()])
    done = run(f"oci:{layout.path}", "sh", "-c", "echo up", check=None)
    assert done.returncode == 0 and done.stdout == b"up\n" or done.returncode == 125, done
    assert os.listdir(victim) == ["file"] and open(os.path.join(victim, "file")).read() == "untouched"
    assert not [name for name in os.listdir(cache) if name not in ("images", "refs", "tmp", "making")]


@pytest.mark.before_the_engine
def test_a_hard_link_to_a_file_of_the_host_is_none(run, layout, sandbox, cache):
    secret = sandbox.file(os.path.join(sandbox.place, "secret"), "the host's own")
    layout.image([Layer().programs().add("got", tarfile.LNKTYPE, link="../../../../../../.." + secret)
                  .add("soft", tarfile.SYMTYPE, link=secret).add("hard", tarfile.LNKTYPE, link="soft").done()])  # fmt: skip
    done = run(f"oci:{layout.path}", "sh", "-c", "cat /got /hard /soft", check=None)
    assert b"host's own" not in done.stdout and os.stat(secret).st_nlink == 1


def test_links_in_the_places_that_are_ours_lead_nowhere(run, layout, sandbox, workspace):
    victim = sandbox.folder("victim")
    made = Layer().programs().add("etc", tarfile.DIRTYPE)
    for name in ("etc/resolv.conf", "etc/passwd", "etc/hosts", "tmp", "home", "run", "proc", "dev", "sys", "etc/ssl"):
        made.add(name, tarfile.SYMTYPE, link=victim)
    layout.image([made.done()])
    out = run(f"oci:{layout.path}", "sh", "-c", "id; cat /etc/resolv.conf; touch /tmp/x ~/x here; readlink /tmp /home /run; :",
              workspace=workspace).stdout.decode()  # fmt: skip
    assert "uid=1000(agent)" in out and "nameserver 127.0.0.1" in out and victim not in out
    assert os.listdir(victim) == [] and os.listdir(workspace) == ["here"]


def test_devices_and_set_user_id_files_of_a_layer_have_no_power(run, layout, cache):
    made = Layer().programs().add("null", tarfile.CHRTYPE, device=(1, 3), mode=0o666).add("disk", tarfile.BLKTYPE, device=(7, 0), mode=0o666)
    with open("/usr/bin/busybox", "rb") as file:
        made.add("bin/su", content=file.read(), mode=0o4755).add("pipe", tarfile.FIFOTYPE)
    layout.image([made.done()])
    out = run(f"oci:{layout.path}", "sh", "-c", "echo x >/null; cat /null; cat /disk; [ -c /null -o -b /disk ] && echo device; "
              "/bin/su -c id; ls -l /bin/su; :", check=None).stdout.decode()  # fmt: skip
    assert "device" not in out and "uid=0" not in out, out
    root = os.path.join(cache, "images", kept(cache)[0], "rootfs")
    owners = {os.lstat(os.path.join(above, name)).st_uid for above, folders, files in os.walk(root) for name in folders + files}
    assert owners == {64952 if os.stat(cache).st_uid == 0 else USER if os.geteuid() == 0 else os.geteuid()}


@pytest.mark.before_the_engine
def test_a_small_layer_that_unpacks_to_much_is_stopped(run, layout, cache, sandbox):
    made = Layer().programs()
    for i in range(64):
        made.add(f"zeros{i}", content=bytes(4 << 20))
    layout.image([made.done()])
    size = sum(os.stat(os.path.join(layout.path, "blobs/sha256", name)).st_size for name in os.listdir(os.path.join(layout.path, "blobs/sha256")))
    assert size < 8 << 20
    # In all, and in one file.
    for most in (48, 3):
        said = run(f"oci:{layout.path}", "sh", check=125, image_bytes=most << 20).stderr.decode()
        assert f"unpacks to more than {most}MiB" in said, said
    assert kept(cache) == [] and os.listdir(os.path.join(cache, "tmp")) == []


@pytest.mark.before_the_engine
@pytest.mark.identity("root")
@pytest.mark.parametrize(("size", "names"), [("4m", 200), ("64m", 30)])
def test_a_disk_that_is_full_leaves_nothing_of_an_image(run, layout, cache, small_disk, size, names):
    layout.image([Layer().programs().add("zeros", content=bytes(8 << 20)).done()])
    os.mkdir(cache)
    small_disk(cache, size=size, names=names)
    said = run(f"oci:{layout.path}", "sh", check=125).stderr.decode()
    assert ("nearly full" in said or "no space left" in said.lower()) and said.count("\n") == 1, said
    assert kept(cache) == [] and os.listdir(os.path.join(cache, "tmp")) == []


@pytest.mark.before_the_engine
def test_another_users_cache_is_not_taken(sandbox, layout, cache):
    plain(layout)
    os.mkdir(cache)
    sandbox.give(cache)
    os.chmod(cache, 0o777)
    done = sandbox.run("sh", image=f"oci:{layout.path}", image_cache=cache, check=125)
    assert b"somebody else may write to it" in done.stderr


@pytest.mark.before_the_engine
def test_a_killed_run_leaves_nothing_that_is_taken_for_whole(sandbox, layout, cache):
    made = Layer().programs()
    for i in range(32):
        made.add(f"zeros{i}", content=bytes(4 << 20))
    layout.image([made.done()])
    started = sandbox.start("/bin/sh", "-c", "echo up", image=f"oci:{layout.path}", image_cache=cache)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and not (os.path.isdir(os.path.join(cache, "tmp")) and os.listdir(os.path.join(cache, "tmp"))):
        time.sleep(0.002)
    started.send_signal(signal.SIGKILL)
    out, _ = started.communicate(timeout=PATIENCE)
    left = os.path.join(cache, "tmp")
    for name in os.listdir(left):
        os.utime(os.path.join(left, name), (0, 0))
    assert out or kept(cache) == []
    done = sandbox.run("/bin/sh", "-c", "ls /zeros31", image=f"oci:{layout.path}", image_cache=cache, check=0)
    assert done.stdout == b"/zeros31\n" and os.listdir(left) == []


# ---- Debian, by a program that stands in for mmdebstrap (`make test-debian` has the real one)


@pytest.fixture
def debian(sandbox, cache):
    """Says what apt names as mirrors, and gives a tar file in mmdebstrap's place; `asked()`: its arguments."""
    folder = sandbox.folder("fakes")
    made = Layer().programs().add("etc/debian_version", content=b"13\n").add("dev", tarfile.DIRTYPE)
    made.add("dev/null", tarfile.CHRTYPE, device=(1, 3)).add("var/owned", content=b"x", uid=7)
    with open(os.path.join(folder, "made.tar"), "wb") as file:
        file.write(made.done())
    log = os.path.join(folder, "log")
    sandbox.file(os.path.join(folder, "apt-get"), '#!/bin/sh\n[ -e "$0.none" ] || printf "%s\\n" '
                 '"bookworm bookworm http://mirror.invalid/debian/" "bookworm bookworm-security http://mirror.invalid/security/" '
                 '"bookworm bookworm http://mirror.invalid/debian/"\n', 0o755)  # fmt: skip
    sandbox.file(os.path.join(folder, "mmdebstrap"), f'#!/bin/sh\nprintf "%s\\n" "$@" END >>{log}\n'
                 '[ ! -e "$0.fails" ] || { printf "I: begins\\nE: no such suite\\nE: it failed\\n" >&2; exit 7; }\n'
                 f'for word in "$@"; do case $word in *.tar) cp {folder}/made.tar "$word" ;; esac; done\n', 0o755)  # fmt: skip
    sandbox.give(folder)

    def run(reference, *command, check=0):
        environment = sandbox.environment(PATH=f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
        return sandbox.run(*command, image=reference, image_cache=cache, env=environment, check=check)

    run.folder = folder
    run.asked = lambda: open(log).read().split("END\n")[:-1] if os.path.exists(log) else []
    return run


@pytest.mark.before_the_engine
def test_debian_is_made_once_of_the_mirrors_that_apt_knows(debian, cache):
    out = debian("debian:trixie", "sh", "-c", "cat /etc/debian_version; id -u; touch /bin/x && echo w; stat -c %u /var/owned").stdout
    assert out == b"13\n1000\nw\n1000\n"
    debian("debian:trixie", "sh", "-c", ":")
    asked = [words.split("\n") for words in debian.asked()]
    assert len(asked) == 1 and "trixie" in asked[0] and "--variant=minbase" in asked[0]
    assert [word for word in asked[0] if word.startswith("deb ")] == [
        "deb http://mirror.invalid/debian/ trixie main", "deb http://mirror.invalid/security/ trixie-security main"]  # fmt: skip
    assert kept(cache) == [f"debian-trixie-{ARCHITECTURE}"] and os.listdir(os.path.join(cache, "tmp")) == []


@pytest.mark.before_the_engine
def test_a_debian_that_can_not_be_made_is_not_kept(debian, cache, sandbox):
    sandbox.file(os.path.join(debian.folder, "mmdebstrap.fails"))
    assert b"mmdebstrap: no such suite" in debian("debian:nosuch", "sh", check=125).stderr
    sandbox.file(os.path.join(debian.folder, "apt-get.none"))
    assert b"names no mirror of Debian's" in debian("debian", "sh", check=125).stderr
    assert kept(cache) == [] and os.listdir(os.path.join(cache, "tmp")) == []
