"""tests/run.py counts honestly: what crashed, hung or collected nothing is a failure."""

import importlib.util
import os

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(name="runner")
def load(tmp_path, monkeypatch):
    """run.py as a module whose tree is a folder of the test's own."""
    spec = importlib.util.spec_from_file_location("run_under_test", os.path.join(TESTS, "run.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(module, "UNIT_SECONDS", 5)
    for folder in ("tests/unit", "build/asan/unit", "tests/fuzz", "build/asan/fuzz", "tests/suite"):
        os.makedirs(tmp_path / folder)
    return module


def program(runner, kind, name, body):
    source = os.path.join(runner.ROOT, "tests", kind, name + ".c")
    binary = os.path.join(runner.ROOT, "build/asan", kind, name)
    with open(source, "w", encoding="utf-8") as file:
        file.write("")
    with open(binary, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + body)
    os.chmod(binary, 0o755)


def unit(runner, body):
    program(runner, "unit", "test_x", body)
    tally = runner.Tally()
    runner.unit_tests(tally)
    return tally


def suite(runner, body):
    with open(os.path.join(runner.ROOT, "tests/suite/test_x.py"), "w", encoding="utf-8") as file:
        file.write(body)
    tally = runner.Tally()
    runner.pytest_folder(tally, "tests/suite", [])
    return tally


def test_a_good_program_counts_each_of_its_tests(runner):
    tally = unit(runner, 'printf "1..2\\nok 1 - a\\nok 2 - b\\n# ok - tests\\n"\n')
    assert tally.line() == "2 passed, 0 failed, 0 skipped"


def test_two_groups_of_one_program_add_up(runner):
    tally = unit(runner, 'printf "1..1\\nok 1 - a\\n1..2\\nok 1 - b\\nok 2 - c\\n"\n')
    assert tally.line() == "3 passed, 0 failed, 0 skipped"


def test_a_failed_test_is_named(runner):
    tally = unit(runner, 'printf "1..2\\nok 1 - a\\nnot ok 2 - b\\n"; exit 1\n')
    assert tally.line() == "1 passed, 1 failed, 0 skipped"
    assert tally.failures == ["test_x: b"]


def test_a_skipped_test_says_why(runner):
    tally = unit(runner, 'printf "1..2\\nok 1 - a\\nno such kernel\\nnot ok 2 # SKIP b\\n"\n')
    assert tally.line() == "1 passed, 0 failed, 1 skipped"
    assert tally.skips == ["test_x: b: no such kernel"]


@pytest.mark.parametrize(
    "body",
    [
        'printf "1..3\\nok 1 - a\\n"; kill -SEGV $$\n',  # crashed half-way
        'printf "1..3\\nok 1 - a\\n"\n',  # stopped half-way, and calls it success
        'printf "1..1\\nok 1 - a\\n"; exit 1\n',  # a leak found at exit
        "",  # says nothing
        'printf "1..0\\n"\n',  # has no test
        'printf "1..1\\nok 1 - a\\n"; sleep 60\n',  # hangs
        "kill -KILL $$\n",
    ],
)
def test_a_program_that_does_not_end_well_is_a_failure(runner, body):
    if "sleep" in body:
        runner.UNIT_SECONDS = 1
    tally = unit(runner, body)
    assert len(tally.failures) == 1
    assert tally.passed <= 1


def test_no_program_at_all_is_a_failure(runner):
    tally = runner.Tally()
    runner.unit_tests(tally)
    assert len(tally.failures) == 1


def test_a_program_that_was_not_built_is_a_failure(runner):
    with open(os.path.join(runner.ROOT, "tests/unit/test_x.c"), "w", encoding="utf-8") as file:
        file.write("")
    tally = runner.Tally()
    runner.unit_tests(tally)
    runner.fuzz_replay(tally)
    assert len(tally.failures) == 1


def test_a_replay_that_fails_is_a_failure(runner):
    program(runner, "fuzz", "fuzz_good", "echo 3 inputs replayed\n")
    program(runner, "fuzz", "fuzz_bad", "kill -ABRT $$\n")
    tally = runner.Tally()
    runner.fuzz_replay(tally)
    assert tally.passed == 1
    assert len(tally.failures) == 1 and "fuzz_bad" in tally.failures[0]


def test_pytest_results_are_counted_and_skips_have_reasons(runner):
    tally = suite(
        runner,
        "import pytest\ndef test_a(): pass\ndef test_b(): assert False\n"
        "def test_c(): pytest.skip('no such thing')\n"
        "@pytest.fixture\ndef broken(): raise RuntimeError\ndef test_d(broken): pass\n",
    )
    assert tally.line() == "1 passed, 2 failed, 1 skipped"
    assert tally.skips[0].endswith("no such thing")


@pytest.mark.parametrize(
    "body",
    ["", "import no_such_module_at_all\n", "def test_a(): import os; os._exit(0)\n",
     "def test_a(): import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"],
)  # fmt: skip
def test_a_suite_that_runs_nothing_or_dies_is_a_failure(runner, body):
    tally = suite(runner, body)
    assert tally.passed == 0
    assert tally.failures


def test_a_file_that_can_not_be_read_does_not_hide_the_others(runner):
    with open(os.path.join(runner.ROOT, "tests/suite/test_other.py"), "w", encoding="utf-8") as file:
        file.write("def test_fine(): pass\n")
    tally = suite(runner, "import no_such_module_at_all\n")
    assert tally.passed == 1
    assert len(tally.failures) == 1


def test_a_suite_that_hangs_is_ended_and_says_what_had_failed(runner, monkeypatch):
    monkeypatch.setattr(runner, "TOTAL_SECONDS", runner.time.monotonic() - runner.STARTED + 3)
    tally = suite(runner, "import time\ndef test_a(): pass\ndef test_b(): assert False\ndef test_c(): time.sleep(60)\n")
    assert tally.failures == ["tests/suite: tests.suite.test_x::test_b", "tests/suite: pytest: out of time"]
    assert tally.passed == 0


def test_a_suite_that_hangs_and_hears_nothing_is_ended(runner, monkeypatch):
    monkeypatch.setattr(runner, "TOTAL_SECONDS", runner.time.monotonic() - runner.STARTED + 3)
    monkeypatch.setattr(runner, "REPORT_SECONDS", 1)
    tally = suite(runner, "import signal, time\ndef test_a():\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\n    time.sleep(60)\n")
    assert tally.failures == ["tests/suite: no test was run (out of time)"]


def test_lanes_go_side_by_side_and_are_added_up(runner, capfd):
    """Each of the two waits until the other has begun."""
    for name, other in (("integration", "sandbox"), ("sandbox", "integration")):
        os.makedirs(os.path.join(runner.ROOT, "tests", name))
        with open(os.path.join(runner.ROOT, "tests", name, "test_x.py"), "w", encoding="utf-8") as file:
            file.write("import os, time\ndef test_a():\n"
                       f"    open({runner.ROOT + '/' + name!r}, 'w').close()\n"
                       "    end = time.monotonic() + 50\n"
                       f"    while not os.path.exists({runner.ROOT + '/' + other!r}):\n"
                       "        assert time.monotonic() < end\n        time.sleep(0.01)\n"
                       f"    print('said by {name}')\n    assert {name!r} != 'sandbox'\n")  # fmt: skip
    program(runner, "unit", "test_x", 'printf "1..1\\nok 1 - a\\n"\n')
    tally = runner.Tally()
    runner.run_lanes(tally, runner.lanes(["unit", "pytest"], runner.pytest_folders(), []))
    assert tally.line() == "2 passed, 1 failed, 0 skipped"
    assert tally.failures == ["tests/sandbox: tests.sandbox.test_x::test_a"]
    said = capfd.readouterr().out
    assert "said by sandbox" in said and "said by integration" not in said, "what failed shows what it printed"


def test_what_measures_time_runs_when_all_else_has_ended(runner):
    """Two lanes, each of which says for a while that it runs."""
    busy = os.path.join(runner.ROOT, "busy")
    os.mkdir(busy)
    for name in ("integration", "sandbox"):
        os.makedirs(os.path.join(runner.ROOT, "tests", name))
        for number in range(2):
            with open(os.path.join(runner.ROOT, f"tests/{name}/test_{number}.py"), "w", encoding="utf-8") as file:
                file.write("import os, pytest, time\ndef test_a():\n"
                           f"    open({busy!r} + '/{name}{number}', 'w').close()\n    time.sleep(0.3)\n"
                           f"    os.unlink({busy!r} + '/{name}{number}')\n")  # fmt: skip
    with open(os.path.join(runner.ROOT, "tests/integration/test_0.py"), "a", encoding="utf-8") as file:
        file.write(f"@pytest.mark.alone\ndef test_time(): assert not os.listdir({busy!r})\n"
                   f"@pytest.mark.alone\ndef test_fails(): open({busy!r} + '/stays', 'w').close(); assert False\n")  # fmt: skip
    tally = runner.Tally()
    runner.run_all(tally, ["pytest"], runner.pytest_folders(), [])
    assert tally.line() == "5 passed, 1 failed, 0 skipped"
    assert tally.failures == ["tests/integration: tests.integration.test_0::test_fails"]


def test_in_the_background_too_a_test_can_send_ctrl_c(runner):
    before = runner.signal.signal(runner.signal.SIGINT, runner.signal.SIG_IGN)
    try:
        runner.heed_interrupts()
        status, _ = runner.run(["sh", "-c", "kill -INT $$"], 50)
    finally:
        runner.signal.signal(runner.signal.SIGINT, before)
    assert status == -runner.signal.SIGINT


def test_below_nohup_too_a_test_can_send_a_hangup(runner):
    before = runner.signal.signal(runner.signal.SIGHUP, runner.signal.SIG_IGN)
    try:
        status, _ = runner.run(["sh", "-c", "kill -HUP $$"], 50)
    finally:
        runner.signal.signal(runner.signal.SIGHUP, before)
    assert status == -runner.signal.SIGHUP


def test_who_stops_it_stops_all_of_it(runner, monkeypatch):
    program(runner, "unit", "test_x", "echo $$ > pid; sleep 60\n")
    program(runner, "unit", "test_y", "touch begun\n")
    runner.UNIT_SECONDS = 60

    def interrupt():
        end = runner.time.monotonic() + 50
        while not os.path.exists(os.path.join(runner.ROOT, "pid")) and runner.time.monotonic() < end:
            runner.time.sleep(0.01)
        raise KeyboardInterrupt

    class First:
        """Stands where the first lane's result would."""

        def result(self):
            interrupt()

    class Pool(runner.concurrent.futures.ThreadPoolExecutor):
        def submit(self, *arguments):
            super().submit(*arguments)
            return First()

    monkeypatch.setattr(runner.concurrent.futures, "ThreadPoolExecutor", Pool)
    began = runner.time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        runner.run_lanes(runner.Tally(), runner.lanes(["unit"], [], []))
    assert runner.time.monotonic() - began < 50
    assert not os.path.exists(os.path.join(runner.ROOT, "begun"))
