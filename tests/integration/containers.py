"""containers.py - podman with a storage of its own, and quadlets as what podman would run"""

import configparser
import os
import re
import shlex
import shutil
import subprocess
import tempfile

import pytest
from common import KEYHOLE, ROOT

# What podman-systemd.unit(5) says of a key: the option of `podman run` that it stands for.
FLAGS = {"ReadOnly": "--read-only", "NoNewPrivileges": "--security-opt=no-new-privileges"}
OPTIONS = {
    "ContainerName": "--name", "DropCapability": "--cap-drop", "Environment": "--env", "HealthCmd": "--health-cmd",
    "HealthInterval": "--health-interval", "Network": "--network", "Tmpfs": "--tmpfs",
    "Ulimit": "--ulimit", "Volume": "--volume",
}  # fmt: skip
OTHERS = {"Image", "Exec", "User", "Group", "PodmanArgs"}
SECTIONS = {"Unit", "Service", "Install"}


class Many(dict):
    """A key that stands there several times is a list."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self and isinstance(self[key], list):
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


def read_unit(path):
    parser = configparser.RawConfigParser(dict_type=Many, strict=False, delimiters=("=",), comment_prefixes=("#",),
                                          empty_lines_in_values=False)  # fmt: skip
    parser.optionxform = str
    with open(path, encoding="utf-8") as file:
        parser.read_file(file)
    return {section: {key: value.split("\n") for key, value in parser[section].items()} for section in parser.sections()}


def podman_args(unit, folder):
    """(arguments in front of the image, image, arguments behind it) of a .container file."""
    keys = dict(unit["Container"])
    unknown = set(keys) - set(FLAGS) - set(OPTIONS) - OTHERS
    assert not unknown, f"keys that are not known here: {unknown}"
    args = []
    for key, flag in FLAGS.items():
        if key in keys:
            assert keys[key] == ["true"]
            args.append(flag)
    for key, option in OPTIONS.items():
        for value in keys.get(key, []):
            if key == "Volume" and value.split(":")[0].endswith(".volume"):
                name, rest = value.split(":", 1)
                value = read_unit(os.path.join(folder, name))["Volume"]["VolumeName"][0] + ":" + rest
            args.append(f"{option}={value}")
    if "User" in keys:
        args.append("--user=" + ":".join(keys[k][0] for k in ("User", "Group") if k in keys))
    for line in keys.get("PodmanArgs", []):
        args += shlex.split(line)
    return args, keys["Image"][0], shlex.split(" ".join(keys.get("Exec", [])))


class Podman:
    def __init__(self, folder):
        self.folder = folder
        self.made = []

    def __call__(self, *args, check=True, timeout=60):
        command = ["podman", "--root", self.folder + "/root", "--runroot", self.folder + "/run", "--storage-driver", "vfs",
                   "--tmpdir", self.folder + "/tmp", "--runtime", shutil.which("runc") or "/usr/sbin/runc",
                   "--cgroup-manager", "cgroupfs", "--events-backend", "file", *args]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def end(self):
        self("rm", "--all", "--force", "--time=5", check=False)
        self("rmi", "--all", "--force", check=False)


def stage(root, path):
    """A file of this host, in the same place."""
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(os.path.realpath(path), target)


def make_image(podman, folder):
    """What the two Containerfiles bring, out of what is here: keyhole, its init, curl and a shell."""
    root = os.path.join(folder, "image")
    for name in ("tmp", "etc", "dev/shm", "bin"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for name in ("tmp", "dev/shm"):
        os.chmod(os.path.join(root, name), 0o1777)
    files = {KEYHOLE: "usr/local/bin/keyhole",
             os.path.join(ROOT, "build", "keyhole-init"): "usr/local/bin/keyhole-init",
             os.path.join(ROOT, "deploy/container/with-keyhole"): "usr/local/bin/with-keyhole"}  # fmt: skip
    tools = [shutil.which(name) for name in ("sh", "curl", "ls", "env", "chown", "sleep", "cat")]
    for path in tools:
        stage(root, path if path.startswith("/usr") or not os.path.islink("/bin") else "/usr" + path)
    for source, target in files.items():
        os.makedirs(os.path.dirname(os.path.join(root, target)), exist_ok=True)
        shutil.copy(source, os.path.join(root, target))
    for binary in [KEYHOLE, *tools]:
        for library in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", binary], capture_output=True, text=True,
                                                                 timeout=20, check=True).stdout):  # fmt: skip
            stage(root, library)
    for path in ("/etc/ssl/certs/ca-certificates.crt", "/usr/share/publicsuffix/public_suffix_list.dafsa"):
        if os.path.exists(path):
            stage(root, path)
    shutil.copytree(os.path.join(ROOT, "policies"), root + "/usr/local/share/keyhole/policies")
    if not os.listdir(root + "/bin"):
        os.rmdir(root + "/bin")
        os.symlink("usr/bin", root + "/bin")
    with open(os.path.join(folder, "Containerfile"), "w", encoding="utf-8") as out:
        out.write("FROM scratch\nCOPY image /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n")
    podman("build", "--quiet", "--tag", "localhost/base:1", folder)
    os.makedirs(os.path.join(folder, "empty"))
    for name, user, entry in (("keyhole", "65532:65532", '"/usr/local/bin/keyhole"'),
                              ("keyhole-agent", "65001:65001", '"/usr/local/bin/keyhole-init", "--", "/usr/local/bin/with-keyhole"')):  # fmt: skip
        with open(os.path.join(folder, "Containerfile." + name), "w", encoding="utf-8") as out:
            folders = "/var/lib/keyhole/ /run/keyhole/ /run/keyhole/agent/ /etc/keyhole/".split() if name == "keyhole" else []
            own = "".join(f"COPY --chown={user} empty {f}\n" for f in folders)
            out.write(f"FROM localhost/base:1\n{own}USER {user}\nENTRYPOINT [ {entry} ]\n")
        podman("build", "--quiet", "--file", os.path.join(folder, "Containerfile." + name), "--tag",
               f"localhost/{name}:0.1.0", folder)  # fmt: skip


@pytest.fixture(scope="module")
def podman():
    """Images of the names that deploy/ uses, in a storage that goes with the test."""
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    if os.geteuid() != 0:
        pytest.skip("containers are tried as root")
    # The path of its runroot has 50 characters at most.
    folder = tempfile.mkdtemp(prefix="kh-pod-", dir="/tmp")
    one = Podman(folder)
    try:
        make_image(one, folder)
        yield one
    finally:
        one.end()
        shutil.rmtree(folder, ignore_errors=True)
