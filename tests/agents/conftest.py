"""conftest.py - real agents from npm (agents.py), installed once, run in the sandbox unmodified."""

import dataclasses
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import agents  # noqa: E402

# A test waits less than `make agents`; what can't be reached once is not asked for again.
INSTALL_SECONDS = 45
missing = []


@pytest.fixture
def installed():
    """installed(function, …): what it returns; skipped where something can't be installed."""

    def call(function, *args):
        if missing:
            pytest.skip(missing[0])
        try:
            return function(*args, seconds=INSTALL_SECONDS)
        except agents.Missing as why:
            missing.append(str(why))
            pytest.skip(str(why))

    return call


@pytest.fixture
def llm(tmp_path):
    """A mock of this test's own: its log is what this test's agent did."""
    with agents.mock_api(str(tmp_path / "mock")) as upstream:
        yield upstream


@pytest.fixture
def place(installed, llm, tmp_path):
    """place(name): an agent's home and project; the real key must be nowhere in them afterwards."""
    made = []

    def make(name, keys=None, llm=llm):
        agent = agents.BY_NAME[name]
        if keys:
            agent = dataclasses.replace(agent, keys=keys)
        path = installed(agents.path_of, agent)
        made.append(agents.Place(agent, str(tmp_path / name), llm, path))
        return made[-1]

    yield make
    for one in made:
        assert one.leaks() == [] and one.scanned() > 0
