"""A command of a credential does not find what an agent may write, however it gets there."""

import os
import shutil

import pytest
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


def test_nor_what_the_agent_of_a_later_run_writes(run):
    tools = Tools(run)
    above, name = os.path.split(tools.top)
    run.sandbox.file(tools.program, "#!/bin/sh\necho secretsecretsecret\n", 0o755)
    value = {"exec": ["/bin/sh", "-ce", f"cd ~ && {name}/get-token"], "environment": ["HOME=" + above], "refresh": "1s"}
    with Other(run, "-c", settings(tools, value)) as other:
        done = tools.give("--workspace", 0, command=("sh", "-c", f"printf '#!/bin/sh\\ntouch {tools.marker}; echo x' > get-token; sleep 4"))
        assert not os.path.exists(tools.marker), done.stderr
        # What the agent left is there when its run has ended, so it is known that it was written.
        with open(tools.program, encoding="ascii") as file:
            assert "touch" in file.read()
        other.process.kill()


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
