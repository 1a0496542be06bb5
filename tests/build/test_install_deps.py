"""deploy/install-deps.sh against package managers that only say what they were asked."""

import os
import pathlib
import shutil
import stat
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "deploy", "install-deps.sh")
TOOLS = ["sh", "awk", "sed", "tr", "sort", "cut", "grep", "cat", "env", "true"]


class Machine:
    """A PATH with the usual tools and a package manager whose world is two lists of names."""

    def __init__(self, folder, manager, installed=(), available=None, uid=0, sudo=None, booted=True):
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
        for name in ("tee", "chmod", "rm"):
            self.noting(name)
        self.units = folder / "units"
        self.units.write_text("")
        self.noting("systemctl", 'case "$1" in is-*) grep -qx "${1#is-} $3" "$UNITS";; esac')
        self.script, self.policy = folder / "install-deps.sh", folder / "policy-rc.d"
        self.script.write_text(self.moved("/usr/sbin/policy-rc.d", str(self.policy), self.moved(
            "/run/systemd/system", str(folder if booted else folder / "none"), pathlib.Path(SCRIPT).read_text(encoding="utf-8"))))

    @staticmethod
    def moved(place, there, script):
        assert script.count(place) == 1
        return script.replace(place, there)

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
               "AVAILABLE": str(self.available), "UNITS": str(self.units)}  # fmt: skip
        return subprocess.run(["/bin/sh", str(self.script), *args], env=env, stdin=subprocess.DEVNULL,
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
    assert install.endswith("install --no-remove --no-install-recommends gcc libyaml-dev")
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
    m = machine("apt", installed=["wget"])
    assert m.run("test").returncode == 0
    log = m.calls()
    policy = log.index(f"tee {m.policy}")
    install = next(i for i, line in enumerate(log) if " install " in line)
    away = log.index(f"rm -f {m.policy}")
    (disable,) = m.calls("systemctl disable")
    assert "nginx.service" in disable.split() and "docker.socket" in disable.split()
    assert policy < install < log.index(disable) < away


def test_a_policy_that_is_there_is_left_alone(machine):
    m = machine("apt")
    m.policy.write_text("")
    assert m.run("test").returncode == 0
    assert m.calls(str(m.policy)) == []


OURS = ["nginx.service", "prometheus.service", "docker.service", "docker.socket", "containerd.service"]


@pytest.mark.parametrize("state", ["active", "enabled"])
@pytest.mark.parametrize("theirs", [["nginx.service"], ["docker.service", "containerd.service"], OURS])
def test_a_unit_that_was_in_use_before_is_not_stopped(machine, theirs, state):
    """It is asked before its package comes, which starts it or has it started at boot."""
    m = machine("apt")
    m.units.write_text("".join(f"{state} {unit}\n" for unit in theirs))
    assert m.run("test").returncode == 0
    log = m.calls()
    install = next(i for i, line in enumerate(log) if " install " in line)
    assert all("systemctl is-" not in line for line in log[install:])
    stopped = [word for line in m.calls("systemctl disable") for word in line.split() if "." in word]
    assert sorted(stopped) == sorted(set(OURS) - set(theirs))


def test_where_systemd_does_not_run_it_is_asked_nothing(machine):
    m = machine("apt", booted=False)
    assert m.run("test").returncode == 0
    assert m.calls("systemctl") == []


@pytest.mark.parametrize("manager", ["apt", "dnf"])
@pytest.mark.parametrize("other", ["docker-ce", "docker-ce-cli", "containerd.io", "podman-docker"])
def test_who_has_another_docker_keeps_it(machine, other, manager):
    """The two can't be there together: one would be removed, or nothing installed."""
    m = machine(manager, installed=[other])
    assert m.run("test").returncode == 0
    (install,) = m.calls(" install ")
    assert {"docker.io", "docker-cli", "moby-engine"}.isdisjoint(install.split())
    assert ("runc" in install.split()) == (other != "containerd.io")


@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_containerd_io_has_a_runc_of_its_own(machine, manager):
    """A runc from elsewhere would remove it, and Docker with it: nowhere is it asked for."""
    m = machine(manager, installed=["containerd.io"], available=[])
    missing = m.run("-n", "run", "test").stderr
    assert "podman" in missing and "runc" not in missing


@pytest.mark.parametrize(("available", "programs"), [(["docker-cli", "docker.io"], ["docker-cli", "docker.io"]), (["docker.io"], ["docker.io"])])
def test_dockers_client_comes_along_where_it_is_a_package_of_its_own(machine, available, programs):
    m = machine("apt")
    m.tool("apt-cache", f'case "$2" in docker*|moby*|containerd*) case " {" ".join(available)} docker-compose " in *" $2 "*) ;; *) exit 0;; esac;; esac;'
                        'echo "  Candidate: 1.0"')  # fmt: skip
    assert m.run("test").returncode == 0
    (install,) = m.calls("apt-get", " install ")
    assert sorted(n for n in install.split() if n in ("docker-cli", "docker.io")) == programs


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
