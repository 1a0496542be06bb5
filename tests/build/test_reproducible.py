"""Two builds of one tree, in two places and at two times, are the same bytes."""

import os
import shutil
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make(folder, *arguments, check=True):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    env["SOURCE_DATE_EPOCH"] = "1000000000"
    return subprocess.run(["make", "-s", *arguments], cwd=folder, env=env, capture_output=True, timeout=600, check=check)


def build(folder):
    for name in ("include", "src"):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name))
    shutil.copy(os.path.join(ROOT, "Makefile"), folder)
    make(folder)


def flags(folder):
    with open(os.path.join(folder, "build", "flags"), encoding="utf-8") as file:
        return file.read().replace(str(folder), "HERE")


def read(folder):
    result = {}
    for name in ("keyhole", "keyhole-init", "libkeyhole.a"):
        with open(os.path.join(folder, "build", name), "rb") as file:
            result[name] = file.read()
    return result


def test_two_builds_are_the_same_bytes(tmp_path):
    one, two = ROOT, tmp_path / "some" / "where" / "else"
    build(two)
    # What lies in build/ is the other of the two, unless it is old or was built with other flags.
    if flags(one) != flags(two) or make(one, "-q", check=False).returncode != 0:
        time.sleep(1.1)  # a second in which a time stamp would change
        one = tmp_path / "here"
        build(one)
    built = read(one)
    for name, content in read(two).items():
        assert content == built[name], name
