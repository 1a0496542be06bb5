"""deploy/install-deps.sh against package managers that only say what they were asked."""

import os
import shutil
import stat
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "deploy", "install-deps.sh")
TOOLS = ["sh", "awk", "sed", "tr", "sort", "cut", "grep", "cat", "env", "true"]


class Machine:
    """A PATH with the usual tools and a package manager whose world is two lists of names."""

    def __init__(self, folder, manager, installed=(), available=None, uid=0, sudo=None):
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        self.log.write_text("")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.installed = folder / "installed"
        self.installed.write_text("".join(f"{name}\n" for name in installed))
        self.available = folder / "available"
        # None: whatever is asked for exists
        self.available.write_text("ALL\n" if available is None else "".join(f"{n}\n" for n in available))
        self.tool("id", f"echo {uid}")
        if sudo == "free":
            self.tool("sudo", '[ "$1" = -n ] && shift; echo "sudo: $*" >>"$LOG"; exec "$@"')
        elif sudo == "asks":
            self.tool("sudo", "exit 1")
        getattr(self, manager)()
        # What would touch this machine.
        for name in ("tee", "chmod", "rm", "systemctl"):
            self.tool(name, f'echo "{name} $*" >>"$LOG"')

    def tool(self, name, body):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    def noting(self, name, extra=""):
        self.tool(name, f'echo "{name} $*" >>"$LOG"\n{extra}')

    def apt(self):
        self.noting("apt-get")
        self.tool("dpkg-query",
                  'shift 2; for p in "$@"; do if grep -qx "$p" "$INSTALLED"; then echo "installed $p:amd64";'
                  'elif grep -qx "removed-$p" "$INSTALLED"; then echo "config-files $p"; fi; done; exit 1')  # fmt: skip
        self.tool("apt-cache",
                  'grep -qxe "$2" -e ALL "$AVAILABLE" && echo "  Candidate: 1.0" || echo "  Candidate: (none)"')  # fmt: skip

    def dnf(self):
        self.noting("dnf", 'case "$*" in *list*) for n; do :; done; grep -qxe "$n" -e ALL "$AVAILABLE";; esac')
        self.tool("rpm", 'shift 3; for p in "$@"; do grep -x "$p" "$INSTALLED" || echo "package $p is not installed"; done')

    def apk(self):
        self.noting("apk", 'case "$1" in info) shift 2; for p in "$@"; do grep -x "$p" "$INSTALLED"; done;;'
                           'search) echo "$3";; esac')  # fmt: skip

    def pacman(self):
        self.noting("pacman", 'case "$1" in -Qq) shift; for p in "$@"; do grep -x "$p" "$INSTALLED"; done;; esac')

    def run(self, *args):
        env = {"PATH": str(self.bin), "LOG": str(self.log), "INSTALLED": str(self.installed),
               "AVAILABLE": str(self.available)}  # fmt: skip
        return subprocess.run(["/bin/sh", SCRIPT, *args], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=30, check=False)  # fmt: skip

    def calls(self, *words):
        return [line for line in self.log.read_text().splitlines() if all(w in line for w in words)]


BUILD = ["gcc", "libc6-dev", "make", "pkg-config", "libssl-dev", "libevent-dev", "libc-ares-dev",
         "libnghttp2-dev", "libyaml-dev",
         "libseccomp-dev", "libjansson-dev", "libpsl-dev", "libmaxminddb-dev"]  # fmt: skip


@pytest.fixture(name="machine")
def make_machine(tmp_path):
    return lambda *args, **kwargs: Machine(tmp_path, *args, **kwargs)


def test_where_nothing_is_missing_nothing_is_done_or_said(machine):
    m = machine("apt", installed=BUILD)
    result = m.run("build")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert m.calls() == []


def test_only_what_is_missing_is_installed_and_it_says_why(machine):
    m = machine("apt", installed=[n for n in BUILD if n not in ("libyaml-dev", "gcc")])
    result = m.run("build")
    assert result.returncode == 0
    update, install = m.calls("apt-get")
    assert "DPkg::Lock::Timeout=600" in update and update.endswith(" update")
    assert "DPkg::Lock::Timeout=600" in install and "--no-install-recommends" in install
    assert install.endswith("--no-install-recommends gcc libyaml-dev")
    assert "installing libyaml-dev (build: libyaml: the configuration)" in result.stderr
    assert "installing gcc (build: C compiler)" in result.stderr
    assert result.stdout == ""


def test_another_name_of_the_same_package_will_do(machine):
    m = machine("apt", installed=[n for n in BUILD if n != "pkg-config"] + ["pkgconf"])
    assert m.run("build").returncode == 0
    assert m.calls() == []


def test_of_several_names_the_first_that_exists_is_taken(machine):
    m = machine("apt", available=["libssl3", "libevent-2.1-7t64", "libevent-pthreads-2.1-7t64", "bubblewrap",
                                  "ca-certificates", "libcares2", "libc-ares2", "libnghttp2-14", "libyaml-0-2",
                                  "libseccomp2", "libjansson4", "libpsl5", "libmaxminddb0",
                                  "crun"])  # fmt: skip
    assert m.run("run").returncode == 0
    names = m.calls("apt-get", "install")[0].split()
    assert "libssl3" in names and "libcares2" in names and "libevent-2.1-7t64" in names
    assert "libssl3t64" not in names and "libc-ares2" not in names


def test_a_package_that_nobody_has_is_an_error_before_anything_is_installed(machine):
    m = machine("apt", available=["gcc"])
    result = m.run("build")
    assert result.returncode == 1
    assert "no package libc6-dev in this distribution (build: C compiler)" in result.stderr
    assert m.calls("install") == []


def test_a_removed_package_whose_files_stay_is_missing(machine):
    m = machine("apt", installed=[n for n in BUILD if n != "gcc"] + ["removed-gcc"])
    assert m.run("build").returncode == 0
    assert m.calls("apt-get", "install")[0].endswith(" gcc")


def test_a_web_server_is_not_started_by_installing_it(machine):
    if os.path.exists("/usr/sbin/policy-rc.d"):
        pytest.skip("this machine has a policy-rc.d of its own")
    m = machine("apt", installed=["wget"])
    assert m.run("test").returncode == 0
    log = m.calls()
    policy = log.index("tee /usr/sbin/policy-rc.d")
    install = next(i for i, line in enumerate(log) if " install " in line)
    away = log.index("rm -f /usr/sbin/policy-rc.d")
    assert policy < install < away


@pytest.mark.parametrize("other", ["docker-ce", "containerd.io", "podman-docker"])
def test_who_has_another_docker_keeps_it(machine, other):
    """apt would remove it, since the two can't be there together."""
    m = machine("apt", installed=[other])
    assert m.run("test").returncode == 0
    (install,) = m.calls("apt-get", " install ")
    assert "runc" in install.split() and "docker.io" not in install.split()


def test_asking_what_is_missing_installs_nothing(machine):
    m = machine("apt", installed=["gcc"])
    result = m.run("-n", "build")
    assert result.returncode == 1
    assert "missing: libyaml-dev (build: libyaml: the configuration)" in result.stderr
    assert m.calls() == []


def test_a_user_with_sudo_goes_through_it(machine):
    m = machine("apt", installed=BUILD[1:], uid=1000, sudo="free")
    assert m.run("build").returncode == 0
    assert len(m.calls("sudo:", "apt-get", "update")) == 1
    assert len(m.calls("sudo:", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install")) == 1


@pytest.mark.parametrize("sudo", [None, "asks"])
def test_a_user_without_is_told_what_to_have_installed(machine, sudo):
    m = machine("apt", installed=BUILD[1:], uid=1000, sudo=sudo)
    result = m.run("build")
    assert result.returncode == 1
    assert "missing: gcc (build: C compiler)" in result.stderr
    assert "neither root nor sudo" in result.stderr
    assert m.calls("apt-get") == []


@pytest.mark.parametrize(
    ("manager", "command", "names"),
    [
        ("dnf", "dnf -y -q install", ["gcc", "openssl-devel", "libyaml-devel", "bubblewrap"]),
        ("apk", "apk add", ["gcc", "musl-dev", "yaml-dev", "c-ares-dev", "bubblewrap"]),
        ("pacman", "pacman -S --needed --noconfirm", ["gcc", "pkgconf", "libseccomp", "bubblewrap"]),
    ],
)
def test_other_distributions_get_their_own_names(machine, manager, command, names):
    m = machine(manager, installed=["make"])
    result = m.run("build", "run")
    assert result.returncode == 0, result.stderr
    (install,) = m.calls(command)
    words = install.split()
    assert set(names) <= set(words)
    assert "make" not in words and "libssl-dev" not in words


@pytest.mark.parametrize("manager", ["apt", "dnf", "apk", "pacman"])
def test_every_row_has_a_name_for_every_manager(machine, manager):
    m = machine(manager)
    result = m.run()
    assert result.returncode == 0, result.stderr
    for word in ("C compiler", "the sandbox", "unit tests", "shell scripts"):
        assert word in result.stderr
    assert "(: " not in result.stderr and "installing  (" not in result.stderr


def test_an_unknown_group_is_refused(machine):
    m = machine("apt")
    result = m.run("builds")
    assert result.returncode == 1
    assert 'unknown group "builds"' in result.stderr
    assert m.calls() == []


def test_without_a_package_manager_it_says_where_the_needs_stand(machine, tmp_path):
    m = machine("apt")
    (m.bin / "apt-get").unlink()
    result = m.run("build")
    assert result.returncode == 1
    assert "install-deps.sh" in result.stderr
