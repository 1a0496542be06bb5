"""No state of one sandbox outlives it: the daemon under AddressSanitizer, while sandboxes come and go.

CHURN_SECONDS says how long (`make churn`: an hour), CHURN_SEED which steps; the seed is printed.
"""

import os
import secrets
import subprocess
import time

import pytest
from churn import H1_NAMES, H2_NAMES, Churn, configuration
from daemons import NAMES, Daemons
from fakedns import SERVFAIL, SILENCE
from h2upstream import H2Upstream
from harness import ROOT, Tunnel, Upstream, until
from sandboxes import add, admin, clear, inside, remove

SANITIZED = os.path.join(ROOT, "build", "asan", "keyhole")
SECONDS = float(os.environ.get("CHURN_SECONDS") or 10)


@pytest.fixture(scope="module")
def sanitized():
    """`make test` has built it; alone, this does."""
    if not os.path.exists(SANITIZED):
        done = subprocess.run(["make", "-s", "VARIANT=asan", "build/asan/keyhole"], cwd=ROOT, check=False, timeout=600,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
    return SANITIZED


@pytest.fixture
def watched(mock, sanitized):
    """watched(overrides, …): a daemon that is built for the sanitizers, and has met no fault at the end."""
    with Daemons([mock]) as daemons:

        def start(*args, **options):
            one = daemons(*args, start=False, **options)
            one.binary = sanitized
            one.start()
            one.first_worker = one.worker_pid()
            return one

        yield start
        for one in daemons.daemons:
            assert_sound(one)
            clear(one)


def faults(text):
    """What the sanitizers have said, from the first line on."""
    marks = [text.find(mark) for mark in ("ERROR: AddressSanitizer", "runtime error:", "DEADLYSIGNAL")]
    found = [at for at in marks if at >= 0]
    return text[max(0, min(found) - 200) : min(found) + 6000] if found else ""


def assert_sound(one):
    said = faults(one.stderr())
    assert not said, said
    assert one.worker_pid() == one.first_worker, "the worker has died\n" + one.stderr()[-4000:]


def test_a_connection_in_the_making_outlives_the_sandbox_that_began_it(watched, fake_dns):
    one = watched({**admin(), "worker": {"threads": 1}, "upstream": {"nameservers": [fake_dns.address], "resolve": None}},
                  rules=[{"allow": "https://slow.test"}])  # fmt: skip
    fake_dns.names["slow.test"] = SILENCE
    first, second = add(one, "first"), add(one, "second")
    begun = Tunnel(inside(one, first), "slow.test")
    begun.start("GET", "/")
    until("the name is looked up", lambda: "slow.test" in fake_dns.asked)
    with Tunnel(inside(one, second), "slow.test") as joined:
        joined.start("GET", "/")
        until("the second one waits as well", lambda: len(one.journal(event="open")) == 2)
        remove(one, "first")
        fake_dns.names["slow.test"] = SERVFAIL  # to the next time that it is asked
        assert joined.response().status in (502, 504)
    begun.close()
    assert_sound(one)


def test_sandboxes_come_and_go_without_a_fault(watched, fake_dns, tmp_path):
    seed = int(os.environ.get("CHURN_SEED") or secrets.randbelow(2**32))
    print(f"CHURN_SEED={seed}", flush=True)
    h2_up = H2Upstream(str(tmp_path / "h2"), H2_NAMES)
    h1_up = Upstream(str(tmp_path / "h1"), [*NAMES, *H1_NAMES])
    roots = tmp_path / "roots.pem"
    roots.write_text("".join(open(up.ca, encoding="ascii").read() for up in (h2_up, h1_up)))
    try:
        config, ports = configuration(h2_up, h1_up, fake_dns, str(roots))
        one = watched(config=config)
        churn = Churn(one, config, ports, h2_up, fake_dns, seed)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            churn.step()
            if churn.steps % 100 == 0:
                assert_sound(one)
        churn.end()
        assert churn.steps >= SECONDS * 5, "too few steps to mean anything"
        print(f"{churn.steps} steps", flush=True)
        clear(one)
        one.settle([h1_up, h2_up])
        assert_sound(one)
    except AssertionError as error:
        raise AssertionError(f"CHURN_SEED={seed}: {error}") from None
    finally:
        h2_up.stop()
        h1_up.stop()
