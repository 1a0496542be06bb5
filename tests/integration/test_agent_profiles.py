"""The page on profiles says what their files say."""

import glob
import os
import re

import yaml
from harness import KEYHOLE

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(KEYHOLE)))
PAGE = os.path.join(ROOT, "docs", "agent-profiles.md")


def profiles():
    found = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "policies", "agents", "*.yaml"))):
        with open(path, encoding="utf-8") as file:
            found[os.path.basename(path)[:-5]] = yaml.safe_load(file)
    return found


def test_the_page_lists_every_profile_with_its_keys():
    with open(PAGE, encoding="utf-8") as file:
        rows = re.findall(r"^\| \[`([a-z]+)`\]\(\.\./policies/agents/\1\.yaml\) \| ([^|]+) \| (.+) \|$", file.read(), re.M)
    assert [row[0] for row in rows] == list(profiles())
    for name, description, keys in rows:
        profile = profiles()[name]
        assert description == profile["description"]
        wanted = [key for preset in profile["presets"] for key in preset.get("keys", [])]
        assert re.findall(r"`([A-Z_]+)`", keys) == wanted, name


def test_the_example_on_the_page_has_every_key_of_a_profile():
    with open(PAGE, encoding="utf-8") as file:
        example = yaml.safe_load(re.search(r"```yaml\n(.+?)```", file.read(), re.S)[1])
    known = []
    for name in ("agent_profile.c", "options_home.h"):
        with open(os.path.join(ROOT, "src", "config", name), encoding="utf-8") as file:
            known += re.findall(r'\.path = "([^"]+)"', file.read())
    assert set(example) == {path for path in known if "[" not in path}
    assert set(example["files"][0]) == {p.removeprefix("files[].") for p in known if p.startswith("files[].")}
    assert set(example["presets"][0]) == {p.removeprefix("presets[].") for p in known if p.startswith("presets[].")}
