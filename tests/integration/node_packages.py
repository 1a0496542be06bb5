"""node_packages.py - the packages of node/package-lock.json, installed once into a cache outside the tree"""

import hashlib
import os
import shutil
import subprocess
import tempfile

import pytest
from common import HERE
from origins import Script

INSTALL_SECONDS = 150
LISTS = [os.path.join(HERE, "node", name) for name in ("package.json", "package-lock.json")]


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    digest = hashlib.sha256()
    for path in LISTS:
        with open(path, "rb") as file:
            digest.update(file.read())
    return os.path.join(base, "keyhole-tests", "node-" + digest.hexdigest()[:16])


def install(folder):
    """Exactly what the lock file names, held to its hashes. Return: why not, or None."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    work = tempfile.mkdtemp(dir=os.path.dirname(folder))
    try:
        for path in LISTS:
            shutil.copy(path, work)
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--loglevel=error"],
            cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            return (done.stderr.strip().splitlines() or ["?"])[0]
        if not os.path.isdir(folder):  # somebody else was faster
            os.rename(work, folder)
    except subprocess.TimeoutExpired:
        return f"it took longer than {INSTALL_SECONDS} s"
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return None


def node_path():
    """What NODE_PATH has to be; the test is skipped where there are no packages."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node or npm is not installed")
    folder = cache_folder()
    if not os.path.isdir(folder):
        why = install(folder)
        if why:
            pytest.skip("npm does not bring the packages of tests/integration/node: " + why)
    return os.path.join(folder, "node_modules")


@pytest.fixture(scope="session")
def packages():
    return node_path()


class PackagedServer(Script):
    """A script of this folder that needs them, as an upstream with TLS. A line on its standard input: nothing runs,
    so it closes the connections that it has."""

    script = None

    def __init__(self, folder, names, packages):
        self.command = ("node", os.path.join(HERE, self.script))
        self.env = {"NODE_PATH": packages}
        super().__init__(folder, names)

    @property
    def address(self):
        return f"127.0.0.1:{self.tls}"

    # what a daemon's end looks at
    def close_idle(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def check_forbidden(self):
        pass
