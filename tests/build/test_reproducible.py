"""Two builds of one tree, in two places and at two times, are the same bytes."""

import os
import shutil
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build(folder, epoch):
    for name in ("include", "src"):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name))
    shutil.copy(os.path.join(ROOT, "Makefile"), folder)
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    env["SOURCE_DATE_EPOCH"] = epoch
    subprocess.run(["make", "-s"], cwd=folder, env=env, capture_output=True, timeout=300, check=True)
    result = {}
    for name in ("keyhole", "keyhole-init", "libkeyhole.a"):
        with open(os.path.join(folder, "build", name), "rb") as file:
            result[name] = file.read()
    return result


def test_two_builds_are_the_same_bytes(tmp_path):
    one = build(tmp_path / "here", "1000000000")
    time.sleep(1.1)  # a second in which a time stamp would change
    two = build(tmp_path / "some" / "where" / "else", "1000000000")
    for name, content in one.items():
        assert content == two[name], name
