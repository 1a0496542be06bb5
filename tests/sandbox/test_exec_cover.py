"""A command of a credential does not find what an agent may write, however it gets there."""

import contextlib
import os
import shutil
import subprocess
import time

import pytest
from conftest import PATIENCE
from test_names import PLACES, Ground, Other, Tools, settings
from test_run import Run

# What a reading of the script does not tell: {above} is the parent of the agent's folder, {} the program in it.
WAYS = {
    "from home": "cd ~ && {rel}", "two steps": "cd ~ && cd {name} && ./get", "a default": '. "${NOT_SET:-$HOME}/{rel}"',
    "the working folder": 'cd ~ && exec "$PWD/{rel}"', "a comment": "# don't\n. \"${HOME}\"/{rel}",
    "a blank": "cd '{above}/with blank' && ./get", "an escape": "cd {above}/with\\ blank && ./get", "backquotes": "echo `cd ~; {rel}`",
    "its own variable": "X={above}; eval '. $X/{rel}'", "a search": 'sh "$(find ~ -name get | head -1)"',
    "an encoding": 'eval "$(printf \'\\056 ~/{name}/g\')et"', "a settings file": ". {safe}/settings",
}  # fmt: skip


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


def script_of(ground, way):
    above, name = os.path.split(ground.top)
    words = {"above": above, "name": name, "rel": name + "/get", "safe": ground.safe}
    script = WAYS[way]
    for word, value in words.items():
        script = script.replace("{" + word + "}", value)
    return script, above


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("written", PLACES)
def test_no_command_sees_what_an_agent_writes(run, written, way):
    ground = Ground(run, written)
    ground.name("in", "get", ground.program(), 0o755)
    script, above = script_of(ground, way)
    run.sandbox.file(os.path.join(ground.safe, "settings"), f". {ground.top}/get\n")
    os.symlink(ground.top, os.path.join(above, "with blank"))
    run.sandbox.give(run.sandbox.place)
    value = {"exec": ["/bin/sh", "-ce", script], "environment": ["HOME=" + above]}
    done = ground("-c", settings(ground, value))
    assert not os.path.exists(ground.marker), "the agent's program ran"
    assert "credential" in done.stderr


def test_the_way_that_is_hidden_would_lead_there(run):
    """Without an agent that writes there each of them runs the program."""
    for way in WAYS:
        ground = Ground(run, "workspace")
        ground.name("in", "get", ground.program(), 0o755)
        script, above = script_of(ground, way)
        run.sandbox.file(os.path.join(ground.safe, "settings"), f". {ground.top}/get\n")
        link = os.path.join(above, "with blank")
        if not os.path.islink(link):
            os.symlink(ground.top, link)
        run.sandbox.give(run.sandbox.place)
        value = {"exec": ["/bin/sh", "-ce", script], "environment": ["HOME=" + above]}
        run("-c", settings(ground, value), "--", "true", use=None, check=0)
        assert os.path.exists(ground.marker), way
        os.unlink(ground.marker)
        os.unlink(os.path.join(ground.safe, "inward"))
        os.unlink(os.path.join(ground.top, "away"))


# Requests with the credential, for each of which an old value is fetched anew.
ASKS = "(for n in $(seq 60); do curl -s -m 2 https://a.test/; sleep 0.2; done) >/dev/null 2>&1 & "


class Counted:
    """A command that writes a line each time that it is run: of its script, what {} prints. Before, it writes when it begins."""

    def __init__(self, run, script):
        self.path = os.path.join(run.sandbox.place, "count")
        script = f"date +%s%N >> {self.path}-begun; {script} >> {self.path}; echo secretsecretsecret"
        self.value = {"exec": ["/bin/sh", "-c", script], "refresh": "1s"}

    def lines(self, path=None):
        path = path or self.path
        if not os.path.exists(path):
            return []
        with open(path, encoding="ascii") as file:
            return file.read().split()

    def later(self):
        """What it says when it is begun after this call."""
        called, end, said = time.time_ns(), time.monotonic() + PATIENCE, []
        while not said and time.monotonic() < end:
            time.sleep(0.02)
            said = [line for line, begun in zip(self.lines(), self.lines(self.path + "-begun"), strict=False) if int(begun) > called]
        assert said, self.lines()
        return said[0]


def test_nor_what_the_agent_of_a_later_run_writes(run):
    tools = Tools(run)
    # No name of the record leads there.
    counted = Counted(run, f"find {os.path.dirname(tools.top)} -maxdepth 2 -name get-token | wc -l")
    with Other(run, "-c", settings(tools, counted.value), meanwhile=ASKS):
        assert counted.later() == "1", "nobody writes there yet"
        with Other(run, "--workspace", tools.top) as later:
            assert counted.later() == "0"
            later.end()
        assert counted.later() == "1", "nobody writes there any more"


@contextlib.contextmanager
def mounted(*pairs):
    """Bind mounts: of what, where, and how."""
    done = []
    try:
        for what, where, how in pairs:
            if subprocess.run(["mount", "--bind", what, where], capture_output=True, check=False).returncode:
                pytest.skip("nothing can be mounted here")
            done.append(where)
            subprocess.run(["mount", "-o", f"remount,bind,{how}", where], check=True)
        yield
    finally:
        for where in reversed(done):
            subprocess.run(["umount", "-l", where], check=True)


def test_nor_by_another_mount_of_what_an_agent_writes(run):
    """Of its folder, of the one above it, of one in it, of a file in it; and of what is mounted in it."""
    ALL = ["above/work/in ner/found", "bound/in ner/found", "file/found", "other/found", "part\\ of it/found", "place/work/in ner/found",
           "place/work/inside/found"]  # fmt: skip
    place = run.sandbox.folder("place")
    work, other = run.sandbox.folder("place/work"), run.sandbox.folder("other")
    file = run.sandbox.file(os.path.join(run.sandbox.folder("place/work/in ner"), "found"), "secret")
    run.sandbox.file(os.path.join(other, "found"), "secret")
    names = {name: run.sandbox.folder(name) for name in ("bound", "above", "part\\ of it")}
    one, found = run.sandbox.file(os.path.join(run.sandbox.folder("file"), "found")), os.path.join(run.sandbox.folder("seen"), "names")
    script = f"find {run.sandbox.place} -name found -size +0 -printf '%P\\n' | sort > {found}; echo secretsecretsecret"
    config = settings(Tools(run), {"exec": ["/bin/sh", "-c", script]})
    inside = run.sandbox.folder("place/work/inside")
    run.sandbox.give(run.sandbox.place)
    # What the agent can write to has one path by which anybody can (test_second_mount.py).
    pairs = [(work, names["bound"], "ro"), (place, names["above"], "ro"), (os.path.dirname(file), names["part\\ of it"], "ro"), (file, one, "ro"),
             (other, inside, "rw"), (other, other, "ro")]  # fmt: skip
    with mounted(*pairs):
        for options, expected in [([], ALL), (["--workspace", work], [])]:
            run("-c", config, *options, "--", "true", use=None, check=0)
            with open(found, encoding="ascii") as said:
                assert said.read().splitlines() == expected


def test_no_command_is_started_while_a_live_runs_folder_is_elsewhere(run):
    work, config = run.sandbox.folder("work"), settings(Tools(run), {"exec": ["/bin/echo", "secretsecretsecret"]})
    with Other(run, "--workspace", work) as other:
        os.rename(work, work + "-moved")
        done = run("-c", config, "--", "true", use=None, check=125)
        assert f"was not started: the workspace of another run (process {other.process.pid}) is not any more where" in done.stderr, done.stderr
        assert "(move it back, or end that run): " + work in done.stderr
        os.rename(work + "-moved", work)
        other.end()


def test_what_an_agent_puts_in_the_place_of_an_inner_workspace_bars_no_command(run):
    outer, inner = run.sandbox.folder("outer"), run.sandbox.folder("outer/inner")
    config = settings(Tools(run), {"exec": ["/bin/echo", "secretsecretsecret"]})
    swap = f"cd {outer}; until [ -e inner/begun ]; do sleep 0.02; done; mv inner moved; ln -s /usr inner; echo done;"
    with Other(run, "--workspace", outer, meanwhile=swap) as agent, Other(run, "--workspace", inner):
        run.sandbox.file(os.path.join(inner, "begun"))
        assert agent.process.stdout.readline() == b"done\n" and os.path.islink(inner)
        run("-c", config, "--", "true", use=None, check=0)


def test_no_command_is_started_where_nobody_can_tell_what_agents_write(run):
    ground, names = Ground(run, "workspace"), os.path.join(run.state, "keyhole", "names")
    counted = Counted(run, "echo x")
    with Other(run, "-c", settings(ground, counted.value), meanwhile=ASKS) as other:
        own = set(os.listdir(names))
        counted.later()
        with Other(run, "--workspace", run.sandbox.folder("another")):
            (record,) = set(os.listdir(names)) - own
            with open(os.path.join(names, record), "r+b") as file:
                file.truncate(3)
            said = next((line for line in other.process.stderr if b"was not started" in line), b"")
            before = len(counted.lines())
            time.sleep(1.2)  # in which it is due again
            assert len(counted.lines()) == before
    assert b"can't tell where the agents of other live runs write" in said, said


def test_nor_the_first_review_that_is_made_later(run):
    """The folder of reviews is not there when the run begins."""
    ground, state = Ground(run, "workspace"), os.path.join(run.state, "keyhole")
    counted = Counted(run, f"find {os.path.dirname(state)} -name secretsecretsecret 2>/dev/null | wc -l")
    with Other(run, "-c", settings(ground, counted.value), "--workspace", ground.top, meanwhile=ASKS):
        work = run.sandbox.folder("reviewed")
        run("--workspace", work + ":review", "--", "sh", "-c", "echo x > secretsecretsecret", use=None, check=0)
        assert any("secretsecretsecret" in names for _, _, names in os.walk(state)), "it would be found"
        assert counted.later() == "0"


@pytest.mark.parametrize("mode, found", [(0o755, False), (0o2755, True)], ids=["plain", "set-ID"])
def test_a_program_with_privileges_keeps_them(run, mode, found):
    """It is started as it is, since in the cover it would have none. So it finds what is there."""
    ground = Ground(run, "workspace")
    ground.name("in", "secretsecretsecret", "")
    program = run.sandbox.file(os.path.join(ground.safe, "tool"))
    shutil.copyfile("/usr/bin/find", program)
    config = settings(ground, {"exec": [program, os.path.dirname(ground.top), "-name", "secretsecretsecret", "-printf", "%f"]})
    os.chmod(program, mode)
    done = ground("-c", config, check=None)
    assert (done.returncode == 0) == found, done.stderr
    if not found:
        assert "prints" in done.stderr, done.stderr
