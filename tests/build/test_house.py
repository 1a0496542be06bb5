"""The rules of the house hold (tests/house.sh): `make lint` says so too, but not everybody runs that."""

import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_the_rules_of_the_house_hold():
    done = subprocess.run(["tests/house.sh"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_rule_is_noticed(tmp_path):
    """On a copy with a banned function in it: a check that can't fail holds nothing."""
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", "--local", ROOT, copy], check=True, timeout=120)
    with open(copy / "src" / "base" / "path.c", "a", encoding="utf-8") as out:
        out.write("\nvoid f(char *p)\n{\n\tstrcpy(p, \"a\");\n}\n")
    done = subprocess.run(["tests/house.sh"], cwd=copy, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "a banned function" in done.stderr
