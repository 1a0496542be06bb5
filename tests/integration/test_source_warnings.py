"""What is said of a source that is not as it should be: once for each state of it, and never its value."""

import os

import pytest
from harness import FINGERPRINT, SECRET, until
from test_sources import OTHER, put, told
from test_tokens import endpoint, refresh, serve  # noqa: F401
from test_tokens import told as told_token

MODE = "everybody on this host may use the file"


def replace(path, value):
    """Whole: a file that is written in place is empty for a moment."""
    put(f"{path}.new", value)
    os.chmod(f"{path}.new", os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600)
    os.rename(f"{path}.new", path)


def fill(one, value):
    """A value that is taken: by then everything that came before it has been looked at."""
    put(one.secret_path, value + "\n")
    shown = "sha256:" + FINGERPRINT if value == SECRET else value
    until("it is used", lambda: told(one) == (200, shown))


def test_a_files_mode_is_warned_of_once_for_each_state_of_it(daemon):
    one = daemon()
    assert MODE not in one.stderr()
    os.chmod(one.secret_path, 0o644)
    until("it is said", lambda: one.stderr().count(MODE) == 1)
    for value in [OTHER, SECRET, OTHER]:
        put(os.path.join(one.folder, "beside"), value)
        fill(one, value)
    assert one.stderr().count(MODE) == 1
    os.chmod(one.secret_path, 0o666)
    until("of the next mode too", lambda: one.stderr().count(MODE) == 2)
    os.chmod(one.secret_path, 0o600)
    fill(one, SECRET)
    os.chmod(one.secret_path, 0o666)
    until("and when it has come back", lambda: one.stderr().count(MODE) == 3)
    put(one.secret_path + ".new", OTHER)
    os.chmod(one.secret_path + ".new", 0o666)
    os.rename(one.secret_path + ".new", one.secret_path)
    until("and of another file", lambda: one.stderr().count(MODE) == 4)
    fill(one, SECRET)
    assert one.stderr().count(MODE) == 4


def test_a_file_that_comes_late_and_is_no_good_is_told_of(daemon):
    one = daemon(secret=None)
    put(one.secret_path, "two\nlines\n")
    until("it is said", lambda: "has more than one line" in one.stderr())
    put(os.path.join(one.folder, "beside"), "x")
    fill(one, SECRET)
    assert one.stderr().count("has more than one line") == 1


def test_a_client_secret_that_is_no_good_is_told_of_once(serve, endpoint, tmp_path):  # noqa: F811
    path = tmp_path / "client"
    put(path, endpoint.client[1] + "\n")
    os.chmod(path, 0o644)
    one = serve(endpoint.refresh, refresh(tmp_path))
    assert told_token(one) == (200, "Bearer token-number-1")
    replace(path, "two\nlines\n")
    bad = "client has more than one line"
    until("it is said", lambda: one.stderr().count(bad) == 1)
    for name in ["a", "b", "c"]:
        put(tmp_path / name, name)
    replace(path, "a\x01control-byte\n")
    until("what is wrong next is said", lambda: one.stderr().count("client holds a control byte") == 1)
    assert one.stderr().count(bad) == 1
    assert one.stderr().count(MODE) == 3, "of each of the three files"


@pytest.mark.parametrize("source", ["file", "env", "exec"])
def test_without_its_client_secret_no_client_asks(serve, endpoint, tmp_path, source):  # noqa: F811
    """As one that has none it could be taken for another; when the secret has come, it asks."""
    value = {"file": {}, "env": {"file": None, "env": "REFRESH_KEY"},
             "exec": {"file": None, "exec": ["cat", str(tmp_path / "value")]}}[source]  # fmt: skip
    one = serve(endpoint.refresh, {**refresh(tmp_path), "value": value}, env={"REFRESH_KEY": endpoint.refresh})
    assert told_token(one)[0] == 503
    if source == "file":
        replace(tmp_path / "value", endpoint.refresh + "\n\n")
        until("it was looked at", lambda: "value has more than one line" in one.stderr())
        replace(tmp_path / "value", endpoint.refresh + "\n")
        until("and taken", lambda: "credential main has a value now" in one.stderr())
    assert told_token(one)[0] == 503 and not endpoint.asked
    assert "credential main: " in one.stderr() and endpoint.refresh not in one.stderr()
    replace(tmp_path / "client", endpoint.client[1] + "\n")
    until("the secret is there", lambda: told_token(one) == (200, "Bearer token-number-1"))
    assert len(endpoint.asked) == 1
