"""What is said of a source that is not as it should be: once for each state of it, and never its value."""

import os
import signal

import pytest
from harness import FINGERPRINT, SECRET, until
from test_sources import COMMON, OTHER, put, script, told
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
    one.process.send_signal(signal.SIGHUP)
    until("it is reloaded", lambda: "the new configuration is in force" in one.stderr())
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
    until("what is wrong next is said", lambda: one.stderr().count("client contains a control byte") == 1)
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


def test_each_bad_source_is_told_of_with_what_to_do_and_nothing_goes_out(daemon, mock, tmp_path):
    """All in one daemon: what one source is like is nothing to the others."""
    put(tmp_path / "plain", "x")
    put(tmp_path / "big", SECRET * 4000)
    (tmp_path / "utf16").write_bytes(SECRET.encode("utf-16"))
    os.mkfifo(tmp_path / "pipe")
    put(tmp_path / "no-interpreter", "#!/no/such/interpreter\n")
    os.chmod(tmp_path / "no-interpreter", 0o755)
    put(tmp_path / "not-executable", f"#!/bin/sh\necho {SECRET}\n")

    def prints(name, text, **more):
        return {"exec": [script(tmp_path, text.replace("VALUE", SECRET), name)], **more}

    sources = {
        "f-missing": ({"file": str(tmp_path / "none")}, "none is not there (put the value into it"),
        "f-folder": ({"file": str(tmp_path)}, "is no file (name the one that contains the value)"),
        "f-under": ({"file": str(tmp_path / "plain" / "x")}, "is no file (name the one"),
        "f-device": ({"file": "/dev/zero"}, "/dev/zero is no file"),
        "f-pipe": ({"file": str(tmp_path / "pipe")}, "pipe is empty"),
        "f-big": ({"file": str(tmp_path / "big")}, "longer than 64 KiB (is that the right file?)"),
        "f-utf16": ({"file": str(tmp_path / "utf16")}, "write it in UTF-8"),
        "v-lines": ({"env": "KH_LINES"}, "variable KH_LINES has more than one line"),
        "s-missing": ({"systemd": "gone"}, "name it in the unit's LoadCredential="),
        "c-silent": (prints("silent", "exit 3"), "ended with status 3, and said nothing about it (run it by hand)"),
        "c-forks": (prints("forks", "(sleep 700 & sleep 701 &); echo VALUE; exit 4"), "ended with status 4"),
        "c-stops": (prints("stops", "kill -STOP $$", timeout="300ms"), "did not end within 300 ms"),
        "c-floods": (prints("floods", "while :; do echo VALUE; done"), "more than 65536 bytes"),
        "c-complains": (prints("complains", "while :; do echo VALUE >&2; done", timeout="300ms"), "did not end within"),
        "c-asks": (prints("asks", "read x; echo $x"), "prints nothing (run it by hand)"),
        "c-cut": (prints("cut", "echo '{\"token\":\"VALUE'"), "write format: text"),
        "c-interpreter": ({"exec": [str(tmp_path / "no-interpreter")]}, "it names an interpreter that is not there"),
        "c-mode": ({"exec": [str(tmp_path / "not-executable")]}, "chmod +x it?"),
    }  # fmt: skip
    mark = mock.mark()
    one = daemon(
        {"credentials": {"main": None, **{name: {"value": value, **COMMON} for name, (value, _) in sources.items()}}},
        rules=[{"allow": f"https://api.test/{name}", "credential": name} for name in sources],
        env={"KH_LINES": SECRET + "\n" + SECRET, "CREDENTIALS_DIRECTORY": str(tmp_path)},
    )
    for name, (_, words) in sources.items():
        status, answer = told(one, "/" + name)
        assert status == 503 and f"the credential {name} has no value on the host" in answer, name
        assert SECRET not in answer and str(tmp_path) not in answer
        lines = [line for line in one.stderr().splitlines() if f"credential {name}: " in line and MODE not in line]
        assert len(lines) == 1 and words in lines[0], (name, lines)
    assert SECRET not in one.stderr()
    assert not mock.requests(since=mark), "no request went out"
