"""test_completion.py - bash and zsh complete what keyhole takes, and nothing that --help shows is missing."""

import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from common import KEYHOLE, ROOT

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {root}/deploy/completion/keyhole.bash"),
    "zsh": (["zsh", "-f", "-i"], "fpath=({root}/deploy/completion $fpath); autoload -U compinit; compinit -u -D; "
                                 "unsetopt AUTO_REMOVE_SLASH; zstyle ':completion:*' insert-unambiguous false"),
}  # fmt: skip


def complete(*words, cwd=None):
    done = subprocess.run([KEYHOLE, "complete", *words], cwd=cwd, capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def help_of(*command):
    return subprocess.run([KEYHOLE, *command, "--help"], capture_output=True, text=True, timeout=20, check=True).stdout


COMMANDS = re.findall(r"^  ([a-z]+)  ", help_of(), re.M)


def test_every_command_of_help_is_there():
    assert {"run", "proxy", "check", "explain", "audit", "ctl"} <= set(COMMANDS)
    assert complete("") == COMMANDS


def test_help_takes_a_command():
    assert complete("help", "") == COMMANDS and complete("help", "au") == ["audit"] and complete("help", "run", "") == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_word_of_a_help_is_there_and_nothing_else(command):
    text = help_of(command)
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    offered = complete(command, "--")
    assert len(offered) == len(set(offered))
    # A line of the help below another one's may speak of an option again, but each has one of its own.
    assert set(offered) == {o for o in shown if re.search(rf"^ +(-\w, )?{o}\b", text, re.M)}
    assert shown <= set(offered), "an option has no line of its own in the help"
    words = re.findall(r"^  ([a-z]+)(?: ([a-z]+))?  +\w", text, re.M)
    for first, second in words:
        assert first in complete(command, "")
        if second:
            assert second in complete(command, first, "")


def test_presets_one_behind_the_other():
    presets = sorted(name[:-5] for name in os.listdir(os.path.join(ROOT, "policies")) if name.endswith(".yaml"))
    assert complete("run", "--use", "") == presets
    assert complete("run", "--use", "npm,py") == ["npm,pypi"]
    assert complete("preset", "show", "") == presets and complete("preset", "show", "py") == ["pypi"]
    assert complete("preset", "ls", "") == []


def test_tenants_of_the_file_that_is_named(tmp_path):
    path = tmp_path / "keyhole.yaml"
    path.write_text("version: 1\naudit: { file: a.jsonl }\ntenants: { acme: { rules: [] }, dev: { rules: [] } }\n")
    assert complete("run", "-c", str(path), "--tenant", "") == ["acme", "dev"]
    assert complete("explain", "--config", str(path), "--tenant", "d") == ["dev"]
    path.write_text("version: [")
    assert complete("run", "-c", str(path), "--tenant", "") == []
    assert complete("run", "--tenant", "") == []


def test_engines_are_those_that_run_takes():
    engines = complete("run", "--engine", "")
    done = subprocess.run([KEYHOLE, "run", "--use", "npm", "--engine", "x", "--", "true"], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode == 125 and [*re.search(r"there is: ([a-z, ]+);", done.stderr)[1].split(", "), "auto"] == engines
    assert {"process", "container", "gvisor", "podman", "docker"} < set(engines)
    assert complete("run", "--engine", "po") == ["podman"]


FORMS = ["debian", "oci:", "oci-archive:", "docker-archive:", "podman:"]


def test_images_are_the_forms_and_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert complete("run", "--image", "") == FORMS
    for i, reference in enumerate(["podman:app:1", "debian", "oci:/srv/it", "podman:app:1", "oci:/a b", "debian:sid"]):
        image = tmp_path / "keyhole/images" / f"{i}"
        image.mkdir(parents=True)
        (image / "reference").write_text(reference)
        os.utime(image, (i, i))
    assert complete("run", "--image", "") == [*FORMS, "debian:sid", "podman:app:1", "oci:/srv/it"]
    assert complete("run", "--image", "deb") == ["debian", "debian:sid"]
    assert complete("run", "--image", "podman:") == ["podman:", "podman:app:1"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["run", "--image", "oci:"], ":folders-behind"),
        (["run", "--image", "oci-archive:x"], ":files-behind"),
        (["run", "--image", "docker-archive:"], ":files-behind"),
        (["run", "-c", ""], ":files"),
        (["run", "--workspace", ""], ":folders"),
        (["run", "--", ""], ":commands"),
        (["run", "-q", "cla"], ":commands"),
        (["run", "--", "claude", "--"], ":files"),
        (["audit", "verify", "a.jsonl", ""], ":files"),
        (["suggest", ""], ":files"),
        (["suggest", "--tenant", "acme", "a.jsonl", ""], ":files"),
        (["policy", "diff", ""], ":files"),
        (["policy", "diff", "a.yaml", "b.yaml", "--journal", ""], ":files"),
    ],
)
def test_what_the_shell_knows_better_is_left_to_it(words, what):
    assert complete(*words) == [what]


@pytest.mark.parametrize("words", [["nothing", ""], ["worker", ""], ["ctl", "status", "x", ""], ["run", "--env", ""]])
def test_where_nothing_is_known_nothing_is_said(words):
    assert complete(*words) == []


class Terminal:
    """An interactive shell that runs a mock of keyhole: it completes, and says what it was called with."""

    def __init__(self, shell, folder):
        bindir = os.path.join(folder, "bin")
        os.makedirs(bindir)
        fake = os.path.join(bindir, "keyhole")
        with open(fake, "w", encoding="utf-8") as out:
            out.write(f'#!/bin/sh\n[ "$1" != complete ] || exec {KEYHOLE} "$@"\nprintf "RAN:"\n'
                      'printf "<%s>" "$@"\necho :END\n')  # fmt: skip
        os.chmod(fake, 0o755)
        command, setup = SHELLS[shell]
        env = {"PATH": bindir + ":" + os.environ["PATH"], "HOME": folder, "TERM": "dumb",
               "XDG_CACHE_HOME": os.path.join(folder, ".cache"), "PS1": "$ ", "LC_ALL": "C.UTF-8"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, env)
        self.text = ""
        self.type(setup.format(root=ROOT) + "\n")
        self.type("echo READY''NOW\n")
        self.until("READYNOW")

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, mark, seconds=20):
        end = time.monotonic() + seconds
        while mark not in self.text:
            left = end - time.monotonic()
            assert left > 0, self.text
            if select.select([self.fd], [], [], left)[0]:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
        return self.text

    def ran(self, typed):
        """What keyhole was called with when this was typed and sent."""
        self.text = ""
        # It completes before it reads on.
        self.type(typed + "\n")
        self.until(":END")
        return re.findall(r"<([^>]*)>", re.search(r"RAN:(.*):END", self.text)[1])

    def close(self):
        with contextlib.suppress(OSError):
            self.type("\x15exit\n")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture(name="terminal", scope="module", params=list(SHELLS))
def terminals(request, tmp_path_factory):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    folder = str(tmp_path_factory.mktemp(request.param))
    with open(os.path.join(folder, "keyhole.yaml"), "w", encoding="utf-8") as out:
        out.write("version: 1\naudit: { file: a.jsonl }\ntenants: { acme: { rules: [] }, dev: { rules: [] } }\n")
    os.makedirs(os.path.join(folder, "project"))
    kept = os.path.join(folder, ".cache/keyhole/images/1")
    os.makedirs(kept)
    with open(os.path.join(kept, "reference"), "w", encoding="utf-8") as out:
        out.write("podman:kept:1")
    one = Terminal(request.param, folder)
    yield one
    one.close()


@pytest.mark.parametrize(
    ("typed", "ran"),
    [
        ("keyhole exp\t", ["explain"]),
        ("keyhole ctl stat\t", ["ctl", "status"]),
        ("keyhole ctl sandbox l\t", ["ctl", "sandbox", "ls"]),
        ("keyhole run --workspa\t", ["run", "--workspace"]),
        ("keyhole run --use anth\t", ["run", "--use", "anthropic"]),
        ("keyhole preset show anth\t", ["preset", "show", "anthropic"]),
        ("keyhole run --obs\t", ["run", "--observe"]),
        ("keyhole run --use=anth\t", ["run", "--use=anthropic"]),
        ("keyhole run --use npm,anth\t", ["run", "--use", "npm,anthropic"]),
        ("keyhole run -c keyh\t--tenant d\t", ["run", "-c", "keyhole.yaml", "--tenant", "dev"]),
        ("keyhole run --workspace pro\t", ["run", "--workspace", "project/"]),
        ("keyhole audit verify keyh\t", ["audit", "verify", "keyhole.yaml"]),
        ("keyhole run -- basenam\t", ["run", "--", "basename"]),
        ("keyhole run --engine gv\t", ["run", "--engine", "gvisor"]),
        ("keyhole run --engine=gv\t", ["run", "--engine=gvisor"]),
        ("keyhole run --engine cont\t--image docker-a\tkeyh\t", ["run", "--engine", "container", "--image", "docker-archive:keyhole.yaml"]),
        ("keyhole run --image oci:pro\t", ["run", "--image", "oci:project/"]),
        ("keyhole run --image=oci:pro\t", ["run", "--image=oci:project/"]),
        ("keyhole run --image podman:ke\t-q", ["run", "--image", "podman:kept:1", "-q"]),
        ("keyhole run --image podman:kept:\t-q", ["run", "--image", "podman:kept:1", "-q"]),
    ],
)
def test_a_shell_completes_it(terminal, typed, ran):
    assert terminal.ran(typed) == ran
