"""run.py - builds, runs every test, and counts

Unit tests (cmocka, under ASan and UBSan), the fuzzers' corpora, the core under simulation, and pytest in each
folder of tests/ that holds test_*.py. Most of them wait more than they work, so what is built is then run in lanes side
by side; what a suite has to say is kept until it has ended, and is said whole. Tests that measure time
(pytest.mark.alone) come after all of these, one at a time: they would measure the other lanes. Everything
has a time limit. The last line is "N passed, N failed, N skipped". A suite that crashes, hangs, stops half-way or
collects nothing is a failure of its own.
"""

import argparse
import concurrent.futures
import contextlib
import glob
import importlib.util
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# All of it, the build too: what hangs ends here. On two cores it takes under 20 minutes, with the build, and who
# adds tests makes others faster; a machine that others use as well may be three times as slow.
TOTAL_SECONDS = 3600
UNIT_SECONDS = 120  # one program
REPORT_SECONDS = 30  # for what pytest has to say of the tests that were run when the time was up
# Of the core under simulation: as many seeds, and faults one at a time, as fit.
SIMULATION_SECONDS, TORTURE_SECONDS = 20, 15
# Folders whose files don't mind each other: so many processes share them on two cores, where pytest-xdist is
# there. Each has a lane to itself; all else is in another, one after the other.
SHARED_OUT = {"tests/integration": 3, "tests/sandbox": 3}
STARTED = time.monotonic()


class Tally:
    """What a suite came to; each lane has one of its own, and they are added up at the end."""

    def __init__(self):
        self.passed = 0
        self.failures = []  # "suite: test"
        self.skips = []  # "suite: test: why"

    def fail(self, what):
        self.failures.append(what)

    def add(self, other):
        self.passed += other.passed
        self.failures += other.failures
        self.skips += other.skips

    def line(self):
        return f"{self.passed} passed, {len(self.failures)} failed, {len(self.skips)} skipped"


def remaining(most):
    return max(1.0, min(most, TOTAL_SECONDS - (time.monotonic() - STARTED)))


HELD = threading.local()  # .lines: what this lane's suite said until now


def say(text):
    if getattr(HELD, "lines", None) is None:
        print(text, flush=True)
    else:
        HELD.lines.append(text)


def suite(title, function, *arguments):
    """A suite in its lane: says at once that it begins, and the rest when it is through."""
    print(f"== {title}: begun", flush=True)
    started, HELD.lines = time.monotonic(), []
    try:
        function(*arguments)
    finally:
        lines, HELD.lines = HELD.lines, None
        print("\n".join([f"== {title}: {time.monotonic() - started:.0f} seconds", *lines]), flush=True)


def raise_limits():
    """A login's soft limit of 1,024 descriptors is less than some tests open on their own side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def heed_interrupts():
    """A shell lets what it starts in the background ignore Ctrl-C and Ctrl-\\, and so would all that a test sends them to."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def heed_hangups():
    """Of nohup. What is begun here is in a session of its own, so that no hangup but a test's reaches it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def environment():
    env = dict(os.environ)
    # Not a part of the make that called us: it builds with all cores, and no test sees its flags.
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "CMOCKA_XML_FILE"):
        env.pop(name, None)
    return env


def end_group(leader):
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


RUNNING = set()  # the leaders of the groups
STOPPED = threading.Event()  # nothing more is begun


def run(command, seconds, env=None, capture=False, report=0):
    """In a process group of its own, all of which ends with it. Returns (status, output); the
    status is None when the time was up. What can say how far it came is interrupted first, and has "report" seconds for it."""
    if STOPPED.is_set():
        return None, ""
    try:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env or environment(),
            start_new_session=True,
            preexec_fn=heed_hangups,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.STDOUT if capture else None,
        )
    except OSError as error:
        return 127, f"{command[0]}: {error.strerror}"
    RUNNING.add(process.pid)
    if STOPPED.is_set():  # between the look above and now: who ended all that was running did not see this one
        end_group(process.pid)
    try:
        output, _ = process.communicate(timeout=seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        status = None
        if report:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=report)
        end_group(process.pid)
        output, _ = process.communicate()
    RUNNING.discard(process.pid)
    end_group(process.pid)  # whatever it left running
    return status, (output or b"").decode("utf-8", "replace")


def ending(status):
    if status is None:
        return "out of time"
    if status < 0:
        return f"killed by signal {-status} ({signal.Signals(-status).name})"
    return f"exit status {status}"


def build(tally, targets):
    for arguments in targets:
        say("== make " + " ".join(arguments))
        status, _ = run(["make", "--no-print-directory", "-s", *arguments], remaining(400))
        if status != 0:
            tally.fail(f"make {' '.join(arguments)}: {ending(status)}")
            return False
    return True


def read_tap(output):
    """cmocka's TAP: (planned, [(ok, name, why skipped or None)]). A test that skips itself prints the
    reason before."""
    planned, results, said = 0, [], ""
    for line in output.splitlines():
        plan = re.match(r"1\.\.(\d+)$", line)
        case = re.match(r"(not )?ok (\d+) -? ?(.*)$", line)
        if plan:
            planned += int(plan[1])
        elif case:
            name, mark, why = case[3].partition("# SKIP")
            if mark:
                results.append((True, name.strip() or why.strip(), said or "says not why"))
            else:
                results.append((not case[1], name.strip(), None))
            said = ""
        else:
            said = re.sub(r"^(# *)?(skipped: *)?", "", line.strip()) or said
    return planned, results


def unit_tests(tally):
    programs = [
        os.path.join("build/asan/unit", os.path.basename(source)[:-2])
        for source in sorted(glob.glob(os.path.join(ROOT, "tests/unit/test_*.c")))
    ]
    if not programs:
        tally.fail("unit: there is no unit test")
    env = environment()
    env["CMOCKA_MESSAGE_OUTPUT"] = "TAP"
    for program in programs:
        name = os.path.basename(program)
        status, output = run([program], remaining(UNIT_SECONDS), env, capture=True)
        planned, results = read_tap(output)
        good = [r for r in results if r[0] and r[2] is None]
        bad = [r for r in results if not r[0]]
        tally.passed += len(good)
        tally.skips += [f"{name}: {r[1]}: {r[2]}" for r in results if r[2] is not None]
        problems = [f"{name}: {r[1]}" for r in bad]
        if not problems and status != 0:
            problems.append(f"{name}: {ending(status)}")
        elif len(results) != planned:
            problems.append(f"{name}: stopped after {len(results)} of {planned} tests ({ending(status)})")
        elif planned == 0:
            problems.append(f"{name}: ran no test")
        tally.failures += problems
        say(f"   {name}: {len(good)} of {planned or len(results)} passed")
        if problems:
            say(output)


def fuzz_replay(tally):
    for source in sorted(glob.glob(os.path.join(ROOT, "tests/fuzz/fuzz_*.c"))):
        name = os.path.basename(source)[:-2]
        corpus = os.path.join("tests/fuzz/corpus", name[len("fuzz_") :])
        command = [os.path.join("build/asan/fuzz", name)]
        if os.path.isdir(os.path.join(ROOT, corpus)):
            command.append(corpus)
        status, output = run(command, remaining(UNIT_SECONDS), capture=True)
        if status == 0:
            tally.passed += 1
            say("   " + (output.strip().splitlines() or [name])[-1])
        else:
            tally.fail(f"{name}: {ending(status)}")
            say(output)


def simulation(tally):
    program = "build/asan/simulation"
    for arguments in (["--seconds", str(SIMULATION_SECONDS)], ["--torture", "--seconds", str(TORTURE_SECONDS)]):
        status, output = run([program, *arguments], remaining(UNIT_SECONDS), capture=True)
        if status == 0:
            tally.passed += 1
            say("   " + (output.strip().splitlines() or ["simulation"])[-1])
        else:
            tally.fail(f"simulation {' '.join(arguments)}: {ending(status)}")
            say(output)


def read_junit(path, tally, suite, whole=True):
    """Returns how many cases stood in the report. One that is not whole names the test that was interrupted, too, as if it
    had passed."""
    cases = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        cases += 1
        name = f"{suite}: {case.get('classname', '')}::{case.get('name', '')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            tally.fail(name)
        elif skipped is not None:
            tally.skips.append(f"{name}: {skipped.get('message', 'says not why')}")
        else:
            tally.passed += whole
    return cases


def sharing(folder):
    if folder not in SHARED_OUT or not importlib.util.find_spec("xdist"):
        return []
    return ["-n", str(min(4, SHARED_OUT[folder] - 2 + (os.cpu_count() or 1))), "--dist", "loadfile"]


def files_of(folder):
    return sorted(glob.glob(os.path.join(ROOT, folder, "test_*.py")))


def alone_in(folder):
    """The files that have tests which nothing else may run beside."""
    found = []
    for path in files_of(folder):
        with open(path, encoding="utf-8") as file:
            if "mark.alone" in file.read():
                found.append(os.path.relpath(path, ROOT))
    return found


def pytest_folder(tally, folder, extra):
    others = ["-m", "not alone"] if alone_in(folder) else []
    run_pytest(tally, folder, [*sharing(folder), folder, *others, *extra])


def pytest_alone(tally, folder, extra):
    run_pytest(tally, folder, [*alone_in(folder), "-m", "alone", *extra], may_be_none=bool(extra))


def run_pytest(tally, folder, arguments, may_be_none=False):
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.xml")
        command = [
            sys.executable, "-m", "pytest", "-q", "-rfEs", "--tb=short", "--durations=5",
            "--continue-on-collection-errors", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=120",
            f"--junitxml={report}", *arguments,
        ]  # fmt: skip
        env = environment()
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        status, output = run(command, remaining(TOTAL_SECONDS), env, capture=True, report=REPORT_SECONDS)
        say(output)
        failed_before = len(tally.failures)
        cases = 0
        if os.path.exists(report):
            try:
                cases = read_junit(report, tally, folder, status is not None)
            except ElementTree.ParseError as error:
                tally.fail(f"{folder}: its report can't be read ({error})")
        if cases == 0 and status == 5 and may_be_none:  # what was asked for selects others
            return
        if cases == 0:
            tally.fail(f"{folder}: no test was run ({ending(status)})")
        elif status is None or (status != 0 and len(tally.failures) == failed_before):
            tally.fail(f"{folder}: pytest: {ending(status)}")


def pytest_folders():
    found = files_of(os.path.join("tests", "*"))
    return sorted({os.path.relpath(os.path.dirname(path), ROOT) for path in found})


def lanes(parts, folders, extra):
    """[[(title, function, arguments behind the tally)]]: what one lane does in turn."""
    own = [[(f"pytest {folder}", pytest_folder, (folder, extra))] for folder in folders if folder in SHARED_OUT]
    rest = [(f"pytest {folder}", pytest_folder, (folder, extra)) for folder in folders if folder not in SHARED_OUT]
    if "fuzz" in parts:
        rest.insert(0, ("the fuzzers' corpora", fuzz_replay, ()))
    if "simulation" in parts:
        rest.insert(0, ("the core under simulation", simulation, ()))
    if "unit" in parts:
        rest.insert(0, ("unit tests, under AddressSanitizer and UBSan", unit_tests, ()))
    return [lane for lane in [*own, rest] if lane]


def run_lane(lane):
    tally = Tally()
    for title, function, arguments in lane:
        suite(title, function, tally, *arguments)
    return tally


def run_lanes(tally, all_lanes):
    with concurrent.futures.ThreadPoolExecutor(max(1, len(all_lanes))) as pool:
        running = [pool.submit(run_lane, lane) for lane in all_lanes]
        try:
            for one in running:
                tally.add(one.result())
        except BaseException:  # somebody has seen enough: nothing goes on behind our back
            STOPPED.set()
            for leader in list(RUNNING):
                end_group(leader)
            raise


def run_all(tally, parts, folders, extra):
    run_lanes(tally, lanes(parts, folders, extra))
    for folder in folders:
        if alone_in(folder):
            suite(f"pytest {folder}, alone", pytest_alone, tally, folder, extra)


def main():
    parser = argparse.ArgumentParser(description="Builds keyhole and runs its tests.")
    parser.add_argument("--only", action="append", choices=["unit", "fuzz", "simulation", "pytest"],
                        help="only this part (may be given twice)")  # fmt: skip
    parser.add_argument("--folder", action="append", help="only this folder of pytest's")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest (behind --)")
    options = parser.parse_args()
    parts = options.only or ["unit", "fuzz", "simulation", "pytest"]

    raise_limits()
    heed_interrupts()
    tally = Tally()
    targets = [["all", "bench-tools", "build/sandbox/launch_only"]]
    if {"unit", "fuzz"} & set(parts):
        targets.append(["VARIANT=asan", "unit-programs", "fuzz-replay-programs"])
    if "simulation" in parts:
        targets.append(["VARIANT=asan", "build/asan/simulation"])
    if "pytest" in parts:
        targets.append(["VARIANT=asan", "build/asan/keyhole"])  # for test_churn.py
    if build(tally, targets):
        folders = (options.folder or pytest_folders()) if "pytest" in parts else []
        if "pytest" in parts and not folders:
            tally.fail("pytest: there is no test")
        run_all(tally, parts, folders, options.pytest)

    say("")
    for skip in tally.skips:
        say(f"skipped: {skip}")
    for failure in tally.failures:
        say(f"FAILED: {failure}")
    say(f"{time.monotonic() - STARTED:.0f} seconds")
    say(tally.line())
    return 1 if tally.failures or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
