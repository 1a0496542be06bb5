"""CHANGELOG.md: each change stands once, in one piece, and names what there is."""

import os
import re
import subprocess

import pytest
from common import KEYHOLE, ROOT

with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as changelog:
    TEXT = changelog.read()
UNRELEASED = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)[1]
SECTIONS = ["Before you upgrade", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
BULLETS = [re.sub(r"\s+", " ", bullet) for bullet in re.findall(r"^- ((?:.|\n(?=  ))*)", UNRELEASED, re.M)]


def help_of(*words):
    return subprocess.run([KEYHOLE, *words, "--help"], capture_output=True, text=True, timeout=20, check=True).stdout


def test_sections_stand_once_and_in_their_order():
    found = re.findall(r"^### (.*)$", UNRELEASED, re.M)
    assert found == [name for name in SECTIONS if name in found] and len(found) > 3


def test_no_line_is_torn_from_its_bullet():
    before = "## [Unreleased]"
    for line in UNRELEASED.splitlines():
        if line.startswith("  "):
            assert before.startswith(("- ", "  ")) and not line.startswith("   "), line
        elif line.startswith("- "):
            assert before == "" or before.startswith(("- ", "  ")), line
        else:
            assert line == "" or line.startswith("### ") or re.fullmatch(r"[A-Z].*[:.]", line), line
        assert (line, before) != ("", ""), "two empty lines"
        before = line


def test_an_empty_line_parts_groups_and_no_bullets_of_one():
    assert re.findall(r"^(?:- |  ).*\n\n- .*", UNRELEASED, re.M) == []


def test_each_change_stands_once():
    assert len(BULLETS) > 50
    for bullet in BULLETS:
        assert re.search(r"[.:]$", bullet), f"torn off: {bullet}"
    words = [" ".join(bullet.split()[:6]) for bullet in BULLETS]
    assert sorted(words) == sorted(set(words))


def test_every_option_of_the_configuration_that_is_named_is_there():
    with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as page:
        options = set(re.findall(r"^\| `([\w.*\[\]]+)` \|", page.read(), re.M))
    sections = {option.split(".")[0] for option in options if "." in option and "[" not in option}
    named = set(re.findall(r"`(\w+\.[\w.]+)(?:: [^`]*)?`", TEXT))
    named = {name for name in named if name.split(".")[0] in sections}
    assert {"limits.refusals", "authority.per_tenant"} <= named
    known = {option.replace(".*", ".NAME") for option in options}
    assert {name for name in named if name not in known} == set()


@pytest.mark.parametrize("words", sorted(set(re.findall(r"`keyhole (\w+)(?: (--[a-z-]+|[a-z-]+))?", TEXT))))
def test_every_command_that_is_named_is_there(words):
    command, more = words
    assert f"\n  {command} " in help_of()
    if more and command == "run" and not more.startswith("-"):
        assert os.path.exists(os.path.join(ROOT, "policies", "agents", more + ".yaml")), more
    elif more:
        assert re.search(rf"(?<![\w-]){more}(?![\w-])", help_of(command)), more


def test_every_make_target_that_is_named_is_there():
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True).stdout
    for target in re.findall(r"`make (\w+)`", TEXT):
        assert f"make {target} " in shown, target
