"""conftest.py - real agents from npm, installed once into a cache, run in the sandbox unmodified."""

import os
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../integration"))
from harness import Upstream  # noqa: E402

INSTALL_SECONDS = 240
CACHE = os.environ.get("KEYHOLE_AGENT_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "keyhole-agents"
)


@pytest.fixture(scope="session")
def npm_package():
    """npm_package(name): the folder under which the newest version has been installed."""

    def install(name):
        npm = shutil.which("npm")
        if not npm:
            pytest.skip("npm is not installed")
        folder = os.path.join(CACHE, name.replace("/", "+"))
        os.makedirs(folder, exist_ok=True)
        try:
            done = subprocess.run(
                [npm, "install", "--prefix", folder, "--no-audit", "--no-fund", name],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm did not bring {name} within {INSTALL_SECONDS} s")
        if done.returncode != 0:
            pytest.skip(f"npm can't install {name}: " + (done.stderr.strip().splitlines() or ["?"])[-1])
        return folder

    return install


@pytest.fixture
def anthropic(tmp_path):
    """A mock of the API of its own: its log is what this test's agent did."""
    upstream = Upstream(str(tmp_path / "mock"), ["api.anthropic.com"])
    yield upstream
    upstream.stop()
