"""What README and the pages name is there: files, tests, commands and options."""

import glob
import os
import re
import subprocess

import pytest
from harness import KEYHOLE, ROOT

PAGES = ["README.md", *sorted(os.path.relpath(p, ROOT) for p in glob.glob(ROOT + "/docs/*.md"))]


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def test_there_are_pages():
    assert {"README.md", "docs/architecture.md", "docs/threat-model.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page):
    tops = "|".join(sorted(d for d in os.listdir(ROOT) if os.path.isdir(os.path.join(ROOT, d)) and d[0] != "."))
    named = re.findall(rf"`((?:{tops})/[\w./-]*)`", read(page))
    named = [path for path in named if not path.startswith("build/")]
    missing = [path for path in named if not os.path.exists(os.path.join(ROOT, path))]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_between_pages_leads_somewhere(page):
    folder = os.path.dirname(os.path.join(ROOT, page))
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(page)):
        assert os.path.exists(os.path.join(folder, target)), target


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page):
    tests = ""
    for path in glob.glob(ROOT + "/tests/*/test_*.py") + glob.glob(ROOT + "/tests/unit/test_*.c"):
        with open(path, encoding="utf-8") as file:
            tests += file.read()
    names = set(re.findall(r"`(test_\w+)`", read(page)))
    missing = [n for n in names if not re.search(rf"(def |void |^){n}\(", tests, re.M)]
    assert missing == []


def test_every_mitigation_names_its_test():
    rows = [line for line in read("docs/threat-model.md").splitlines() if line.startswith("| ")]
    table = rows[[r.startswith("| threat |") for r in rows].index(True) + 1 :]
    assert len(table) > 20
    for row in table:
        assert re.search(r"`(tests/|test_)", row.split("|")[3]), row


def test_every_option_of_run_that_the_readme_shows_is_there():
    text = subprocess.run([KEYHOLE, "run", "--help"], capture_output=True, text=True, timeout=20,
                          check=True).stdout  # fmt: skip
    for line in re.findall(r"keyhole run (.*)", read("README.md")):
        for option in re.findall(r"(?<![\w-])--[a-z]+", line.split(" -- ")[0]):
            assert option in text, option


def test_every_command_that_the_readme_shows_is_there():
    text = subprocess.run([KEYHOLE, "--help"], capture_output=True, text=True, timeout=20,
                          check=True).stdout  # fmt: skip
    for command in set(re.findall(r"keyhole (run|proxy|check|audit|ca|ctl|explain|doctor)\b", read("README.md"))):
        assert f"\n  {command} " in text, command


def test_every_make_target_that_the_readme_shows_is_there():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=20,
                          check=True).stdout  # fmt: skip
    for target in set(re.findall(r"make ([a-z]+)", read("README.md"))):
        assert f"make {target} " in text, target
