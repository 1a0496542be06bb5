"""What a subcommand says of an option that it does not take: its name, what is wrong, and what to do."""

import os
import re
import subprocess

import pytest
from common import KEYHOLE
from test_completion import help_of

COMMANDS = ["run", "ask", "init", "proxy", "check", "explain", "suggest", "policy diff", "audit show", "audit tail", "audit query", "audit stats", "audit verify", "ctl", "ca", "doctor", "image", "preset", "workspace"]


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


@pytest.mark.parametrize("words, meant", [
    (["run", "--review"], "--workspace DIR:review"), (["run", "-w"], "--workspace DIR"), (["suggest", "-o"], "> FILE"),
    (["suggest", "--output=x"], "> FILE"),
])  # fmt: skip
def test_options_of_other_programs_lead_to_ours(words, meant):
    assert said(*words) == f"keyhole: {words[0]}: unknown option {words[1]} (did you mean {meant}?)\n"


def mistyped(word):
    """As people do: two neighbours swapped, a letter left out, a letter twice."""
    at = len(word) // 2
    swapped = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
    return {swapped, word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]} - {word}


def edits(a, b):
    """Damerau's distance, by its definition."""
    if not a or not b:
        return len(a) + len(b)
    least = min(edits(a[1:], b) + 1, edits(a, b[1:]) + 1, edits(a[1:], b[1:]) + (a[0] != b[0]))
    if len(a) > 1 and len(b) > 1 and (a[0], a[1]) == (b[1], b[0]):
        least = min(least, edits(a[2:], b[2:]) + 1)
    return least


OPTIONS = {command: sorted(set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", help_of(command.split()[0]), re.M))) for command in COMMANDS}


OPTIONS["audit verify"] = ["help", "json"]  # the others of its help are `audit show`'s


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_of_each_command_is_guessed_from_what_is_nearly_it(command):
    asked = 0
    for option in OPTIONS[command]:
        for typed in mistyped(option):
            if len(option) < 3 or any(known.startswith(typed) for known in OPTIONS[command]):
                continue  # getopt takes the beginning of an option for it
            guessed = re.fullmatch(rf"keyhole: {command}: unknown option --{typed} \(did you mean --([a-z-]+)\?\)\n", said(*command.split(), "--" + typed))
            assert guessed, (option, typed)
            assert guessed[1] == option or edits(guessed[1], typed) == 1, (option, typed, guessed[1])
            asked += 1
    assert asked > 0


@pytest.mark.parametrize("command", re.findall(r"^  ([a-z]+)  ", help_of(), re.M))
def test_each_command_is_guessed_from_what_is_nearly_it(command):
    for typed in mistyped(command) if len(command) > 2 else []:
        guessed = re.search(r"did you mean `keyhole (\w+)`\?", said(typed))
        assert guessed and (guessed[1] == command or edits(guessed[1], typed) == 1), (typed, guessed)


@pytest.mark.parametrize("command", ["audit", "ca", "ctl", "image", "preset", "workspace"])
def test_each_second_word_is_guessed_from_what_is_nearly_it(command):
    words = set(re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)  +\w", help_of(command), re.M))
    assert words
    for word in words:
        for typed in mistyped(word.split()[-1]) if len(word.split()[-1]) > 2 else []:
            done = subprocess.run([KEYHOLE, command, *word.split()[:-1], typed], capture_output=True, text=True, timeout=20, check=False, cwd="/")
            assert done.returncode == 2, done
            assert re.search(rf"did you mean (`keyhole {command} {word}`|{word})\?", done.stderr), (word, typed, done.stderr)


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
