"""A request costs no more instructions and system calls than the budget of tests/bench/instructions.py."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import instructions  # noqa: E402

# Instructions repeat beside anything; where others take the processor, an answer comes in more pieces, each a read.
pytestmark = pytest.mark.alone


@pytest.fixture(scope="module", autouse=True)
def tools():
    subprocess.run(["make", "-s", "bench-tools", "build/bench/keyhole-no-lockin"], cwd=ROOT, check=True, timeout=600)


@pytest.mark.parametrize("work", instructions.WORK)
def test_a_request_stays_within_its_budget(work):
    row = instructions.measure(["keyhole"], [work])[work]["keyhole"]
    budget = instructions.BUDGET[work]
    assert 0 < row["instructions"] <= budget["instructions"], row
    assert 0 < row["works"] <= budget["works"], row
    # What is far below its budget has a budget that holds nothing.
    assert row["instructions"] >= 0.9 * budget["instructions"], row
