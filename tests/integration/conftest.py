"""conftest.py - the fixtures of the integration tests; what they do stands in harness.py."""

import contextlib
import os
import subprocess

import pytest
from daemons import NAMES, Daemons, base_config, merge
from fakedns import FakeDns
from handover import Upgradable, become_subreaper
from harness import KEYHOLE, PATIENCE, SECRET, Daemon, Nginx, Relay, Upstream, free_port


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: it measures time, so tests/run.py runs nothing beside it")


def pytest_report_header():
    return f"keyhole: {KEYHOLE}, uid {os.getuid()}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the test's daemons wrote to standard error."""
    report = (yield).get_result()
    if report.failed:
        for value in list(item.funcargs.values()):
            for daemon in getattr(value, "daemons", [value]):
                if isinstance(daemon, Daemon):
                    report.sections.append(("keyhole's standard error", daemon.stderr()[-8000:]))
    return report


@pytest.fixture(scope="session")
def mock(tmp_path_factory):
    """The TLS upstream that every name of NAMES is pinned to."""
    upstream = Upstream(str(tmp_path_factory.mktemp("mock")), NAMES)
    yield upstream
    upstream.stop()


@pytest.fixture(scope="session")
def plain_mock(tmp_path_factory):
    """The same without TLS, for http:// rules."""
    upstream = Upstream(str(tmp_path_factory.mktemp("plain")), plain=True)
    yield upstream
    upstream.stop()


@pytest.fixture(scope="session")
def origin_nginx(tmp_path_factory):
    nginx = Nginx(str(tmp_path_factory.mktemp("nginx")), ["nginx.test"], free_port())
    yield nginx
    nginx.stop()


@pytest.fixture
def daemon(mock):
    """daemon(overrides, rules=…): starts one of your own."""
    with Daemons([mock]) as daemons:
        yield daemons


@pytest.fixture(scope="module")
def module_daemon(mock):
    with Daemons([mock]) as daemons:
        yield daemons()


@pytest.fixture
def shared(module_daemon, mock):
    """A daemon with the base configuration, one for the module; looked after as any other."""
    yield module_daemon
    module_daemon.settle([mock])


@pytest.fixture
def relay():
    """relay(daemon): a loopback port in front of its socket."""
    relays = []

    def make(daemon):
        relays.append(Relay(daemon.socket_path))
        return relays[-1]

    yield make
    for one in relays:
        with contextlib.suppress(OSError):
            one.close()


@pytest.fixture
def curl(relay):
    """curl(daemon, args…): the real one, through the proxy, trusting only its CA."""

    def run(daemon, *args, text=True, ca=None, **options):
        through = relay(daemon)
        env = {
            "PATH": os.environ["PATH"],
            "HTTPS_PROXY": through.url,
            "http_proxy": through.url,
            "SSL_CERT_FILE": ca or daemon.ca,
        }
        done = subprocess.run(
            ["curl", "-sS", "--max-time", str(PATIENCE), *args],
            env=env, capture_output=True, text=text, timeout=60, check=False, **options,
        )  # fmt: skip
        everything = (done.stdout or b"", done.stderr or b"") if not text else (
            done.stdout.encode(), done.stderr.encode())  # fmt: skip
        assert not any(SECRET.encode() in part for part in everything), "curl was given the real key"
        return done

    return run


@pytest.fixture
def fake_dns():
    server = FakeDns()
    yield server
    server.close()


@pytest.fixture
def upgradable(mock):
    """upgradable(overrides): a daemon whose binary is replaced under it."""
    made = []
    become_subreaper(True)

    def make(overrides=None, start=True, **options):
        one = Upgradable(merge(base_config(mock), overrides or {}), start=False, **options)
        made.append(one)
        if start:
            one.start()
        return one

    make.daemons = made
    try:
        yield make
        for one in made:
            if one.process and one.process.poll() is None:
                one.stop()
            if getattr(one, "checked", True):
                one.verify()
                one.segments()
            one.check_secret()
    finally:
        for one in made:
            one.remove()
        become_subreaper(False)
