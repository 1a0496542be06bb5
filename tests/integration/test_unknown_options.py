"""What a subcommand says of an option that it does not take: its name, what is wrong, and what to do."""

import os
import subprocess

import pytest
from common import KEYHOLE

COMMANDS = ["run", "proxy", "check", "explain", "suggest", "policy diff", "audit show", "audit verify", "ctl", "ca", "doctor", "image", "workspace"]


def said(*words):
    done = subprocess.run([KEYHOLE, *words], capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout == "" and done.returncode not in (0, 1), done
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_subcommand_names_the_option_that_was_meant(command):
    assert said(*command.split(), "--hlep") == f"keyhole: {command}: unknown option --hlep (did you mean --help?)\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--no-such-thing", "--no-such-thing=x", "-Z", "-\x1b"])
def test_every_subcommand_says_where_its_options_are_listed(command, option):
    shown = option.replace("\x1b", "\\x1b")
    main = command.split()[0]
    assert said(*command.split(), option) == f"keyhole: {command}: unknown option {shown} (`keyhole {main} --help` lists them)\n"


@pytest.mark.parametrize("words, text", [
    ("run --worspace . -- true", "run: unknown option --worspace (did you mean --workspace?)"),
    ("run --worspace=. -- true", "run: unknown option --worspace=. (did you mean --workspace?)"),
    ("run --use", "run: --use needs a value (`keyhole run --help` says which)"),
    ("run --use npm --workspace -- true", 'run: --workspace needs a folder, got "--"'),
    ("run --workspace= -- true", "run: --workspace needs a folder"),
    ("run --workspace :ro -- true", "run: --workspace needs a folder"),
    ("run --workspace --use npm -- true", 'run: --workspace needs a folder, got "--use"'),
    ("run --home -- true", 'run: --home needs a folder, got "--"'),
    ("run --ro -- true", 'run: --ro needs a path, got "--"'),
    ("proxy -c", "proxy: -c needs a value (`keyhole proxy --help` says which)"),
    ("run --m x", "run: --m may be more than one option (`keyhole run --help` lists them)"),
    ("run --quiet=yes -- true", "run: --quiet takes no value"),
    ("doctor --json=yes", "doctor: --json takes no value"),
    ("doctor -j", "doctor: unknown option -j (`keyhole doctor --help` lists them)"),
    ("workspace ls --jsno", "workspace: unknown option --jsno (did you mean --json?)"),
    ("run -qZ -- true", "run: unknown option -Z (`keyhole run --help` lists them)"),
])  # fmt: skip
def test_what_is_wrong_with_an_option_is_said(words, text):
    assert said(*words.split()) == f"keyhole: {text}\n"


@pytest.mark.parametrize("words, near", [
    (["audit", "verfy", "x"], "verify"), (["policy", "dif"], "diff"), (["workspace", "aply"], "apply"), (["workspace", "surve"], "survey"),
    (["image", "prun"], "prune"), (["ca", "bundle", "--certificate", "x", "--key", "x", "--format", "dre"], "der"),
])  # fmt: skip
def test_a_mistyped_second_word_is_answered_with_the_nearest(tmp_path, words, near):
    done = subprocess.run([KEYHOLE, *words], capture_output=True, text=True, timeout=20, check=False, cwd=tmp_path)
    assert done.returncode == 2 and f"(did you mean {near}?)" in done.stderr, done.stderr
    if "--format" in words:
        assert "(there is: pem, der, pkcs12)" in done.stderr


def test_a_list_of_images_that_is_empty_says_so(tmp_path):
    done = subprocess.run([KEYHOLE, "image", "ls"], capture_output=True, text=True, timeout=20, check=False,
                          env={"XDG_CACHE_HOME": str(tmp_path), "PATH": os.environ["PATH"]})  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "keyhole: there are no images\n")
