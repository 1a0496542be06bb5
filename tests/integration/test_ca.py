"""keyhole ca: made, shown, handed out, and changed while two are trusted."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import ssl
import subprocess

import pytest
from harness import KEYHOLE, Tunnel, until
from test_base_url import origin_form


def ca(*args, status=0):
    done = subprocess.run([KEYHOLE, "ca", *map(str, args)], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def pair(tmp_path):
    files = ["--certificate", tmp_path / "ca.pem", "--key", tmp_path / "ca.key"]
    ca("init", *files)
    return tmp_path, files


def certificates(text):
    return re.findall(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n", text)


def facts(files):
    return json.loads(ca("show", "--json", *files))


def age(path, days):
    then = os.stat(path).st_mtime - days * 24 * 3600
    os.utime(path, (then, then))


def test_it_is_made_once(pair):
    folder, files = pair
    assert sorted(os.listdir(folder)) == ["ca.key", "ca.pem"]
    assert os.stat(folder / "ca.key").st_mode & 0o777 == 0o600
    before = (folder / "ca.pem").read_text()
    assert "there already" in ca("init", *files, status=1)
    os.unlink(folder / "ca.pem")
    assert "ca.key is there already" in ca("init", *files, status=1)
    assert before.startswith("-----BEGIN")


def test_it_is_shown_as_openssl_shows_it(pair):
    folder, files = pair
    shown = facts(files)
    said = subprocess.run(["openssl", "x509", "-in", folder / "ca.pem", "-noout", "-fingerprint", "-sha256"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert said.strip().split("=")[1].replace(":", "").lower() == shown["signing"]["sha256"]
    assert set(shown) == {"signing"} and shown["signing"]["trusted"] is True
    assert shown["signing"]["name"] in ca("show", *files[:2]), "no key is needed"


def test_bundles_are_read_by_openssl_and_java(pair):
    folder, files = pair
    assert ca("bundle", *files[:2]) == (folder / "ca.pem").read_text()
    ca("bundle", *files[:2], "--format", "der", "-o", folder / "out.der")
    der = (folder / "out.der").read_bytes()
    assert ssl.DER_cert_to_PEM_cert(der).strip() == (folder / "ca.pem").read_text().strip()
    ca("rotate", *files)
    for password in ("changeit", "another-word"):
        ca("bundle", *files[:2], "--format", "pkcs12", "--password", password, "-o", folder / "out.p12")
        said = subprocess.run(["openssl", "pkcs12", "-in", folder / "out.p12", "-nokeys", "-passin", "pass:" + password],
                              capture_output=True, text=True, check=True).stdout  # fmt: skip
        assert [c.strip() for c in certificates(said)] == [c.strip() for c in certificates(ca("bundle", *files[:2]))]
    if shutil.which("keytool"):
        said = subprocess.run(["keytool", "-list", "-keystore", folder / "out.p12", "-storepass", "another-word"],
                              capture_output=True, text=True, check=True).stdout  # fmt: skip
        assert said.count("trustedCertEntry") == 2


def test_a_change_in_three_steps(pair):
    folder, files = pair
    first = facts(files)["signing"]["sha256"]
    ca("rotate", *files)
    announced = facts(files)
    second = announced["next"]["sha256"]
    assert announced["signing"]["sha256"] == first != second
    assert len(certificates(ca("bundle", *files[:2]))) == 2
    assert "DER holds one" in ca("bundle", *files[:2], "--format", "der", status=1)
    one = ca("bundle", *files[:2], "--which", "next")
    assert one == (folder / "ca.pem.next").read_text()

    old_key = (folder / "ca.key").read_bytes()
    ca("rotate", *files)
    switched = facts(files)
    assert switched["signing"]["sha256"] == second and switched["old"]["sha256"] == first
    assert len(certificates(ca("bundle", *files[:2]))) == 2
    assert sorted(os.listdir(folder)) == ["ca.key", "ca.key.placeholders", "ca.pem", "ca.pem.old"]
    assert (folder / "ca.key").read_bytes() != old_key

    assert "may live until" in ca("rotate", *files, status=1)
    age(folder / "ca.pem.old", 31)
    ca("rotate", *files)
    assert set(facts(files)) == {"signing"} and sorted(os.listdir(folder)) == ["ca.key", "ca.pem"]


def test_at_once_for_a_key_that_was_read(pair):
    folder, files = pair
    first = facts(files)["signing"]["sha256"]
    ca("rotate", "--now", *files)
    assert set(facts(files)) == {"signing"} and facts(files)["signing"]["sha256"] != first
    assert sorted(os.listdir(folder)) == ["ca.key", "ca.pem"]


def test_a_switch_that_was_cut_off_is_finished(pair):
    folder, files = pair
    ca("rotate", *files)
    second = facts(files)["next"]["sha256"]
    os.rename(folder / "ca.key.next", folder / "ca.key")  # as far as it came
    ca("rotate", *files)
    assert facts(files)["signing"]["sha256"] == second
    subprocess.run([KEYHOLE, "ca", "rotate", *map(str, files)], check=True, capture_output=True)


OVERTAKEN = "another `keyhole ca rotate` has just changed this CA, and this one has done nothing"


def start(*args):
    return subprocess.Popen([KEYHOLE, "ca", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def good(folder, files, *more):
    """The pair fits, keyhole takes it, and nothing of a change is left behind."""
    assert sorted(os.listdir(folder)) == sorted(["ca.key", "ca.pem", *more])
    assert set(facts(files)) == {"signing"} or more
    keys = [subprocess.run(["openssl", *words], capture_output=True, check=True).stdout for words in
            (["pkey", "-in", folder / "ca.key", "-pubout"], ["x509", "-in", folder / "ca.pem", "-noout", "-pubkey"])]  # fmt: skip
    assert keys[0] == keys[1]
    return facts(files)["signing"]["sha256"]


def test_several_who_change_it_at_once_leave_a_good_one(pair):
    """Each makes its change whole, or none and says so; who reads meanwhile reads one state."""
    folder, files = pair
    first = facts(files)["signing"]["sha256"]
    every = [start("rotate", "--now", *files) for _ in range(8)]
    while any(one.poll() is None for one in every):
        assert len(certificates(ca("bundle", *files[:2]))) >= 1
    done = [(one.communicate(timeout=60), one.returncode) for one in every]
    assert [status for _, status in done].count(0) >= 1
    for (said, complaint), status in done:
        assert (status == 0 and "Another CA is to sign" in said) or (status == 1 and OVERTAKEN in complaint)
    assert good(folder, files) != first


@pytest.mark.parametrize("now", [["--now"], []])
def test_who_waits_while_another_changes_it_makes_no_step_of_its_own(pair, now):
    """Else two who begin a change together would announce and switch in one go."""
    folder, files = pair
    with open_lock(folder) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        two = [start("rotate", *now, *files) for _ in range(2)]
        for one in two:
            until("it waits for the lock", lambda one=one: waits(one, folder))
        os.rename(folder / "ca.pem", folder / "aside")  # a step of the one who has the lock
        os.rename(folder / "aside", folder / "ca.pem")
        fcntl.flock(lock, fcntl.LOCK_UN)
    for one in two:
        assert OVERTAKEN in one.communicate(timeout=60)[1] and one.returncode == 1
    good(folder, files)


def test_who_waits_while_nothing_is_changed_goes_on(pair):
    folder, files = pair
    first = facts(files)["signing"]["sha256"]
    with open_lock(folder) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        one = start("rotate", "--now", *files)
        until("it waits for the lock", lambda: waits(one, folder))
        fcntl.flock(lock, fcntl.LOCK_UN)
    assert one.communicate(timeout=60)[1] == "" and one.returncode == 0
    assert good(folder, files) != first


@contextlib.contextmanager
def open_lock(folder):
    """The lock's file, as one makes it who comes first."""
    fd = os.open(folder / "ca.key.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def waits(process, folder):
    """It sleeps between two looks at the lock."""
    assert process.poll() is None, process.communicate()
    with open(f"/proc/{process.pid}/wchan", encoding="ascii") as file:
        return "nanosleep" in file.read()


def test_nobody_who_can_open_the_folder_can_block_the_ca(pair):
    """A lock on a folder takes no more than the right to read it."""
    folder, files = pair
    first = facts(files)["signing"]["sha256"]
    holder = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        one = start("rotate", "--now", *files)
        assert one.communicate(timeout=30)[1] == "" and one.returncode == 0
    finally:
        os.close(holder)
    assert good(folder, files) != first
    assert "ca.key.lock" not in os.listdir(folder)


@pytest.mark.parametrize("spoil", ["link", "open to others"])
def test_a_lock_that_others_could_hold_is_refused(pair, spoil):
    folder, files = pair
    lock = folder / "ca.key.lock"
    if spoil == "link":
        lock.symlink_to(folder / "elsewhere")
    else:
        lock.touch(0o644)
        lock.chmod(0o644)
    one = start("rotate", "--now", *files)
    complaint = one.communicate(timeout=30)[1]
    assert one.returncode != 0 and "ca.key.lock" in complaint, complaint
    assert not (folder / "elsewhere").exists()


def test_sandboxes_trust_both_while_it_is_changed(daemon, mock):
    """One that has both certificates talks on, whichever signs; and its placeholders are known."""
    one = daemon({"credentials": {"main": {"placeholder": {"env": "MAIN_KEY"}, "require_placeholder": True}}})
    files = ["-c", one.config_path]
    one.stop()
    ca("rotate", *files)
    one.start()
    bundle = origin_form(one, "/ca.pem").text()
    assert certificates(bundle) == certificates(ca("bundle", *files)) and len(certificates(bundle)) == 2
    both = os.path.join(one.folder, "both.pem")
    with open(both, "w", encoding="ascii") as file:
        file.write(bundle)
    held = origin_form(one, "/env", [("Accept", "application/json")]).json()["MAIN_KEY"]
    first = one.ca
    for _ in range(2):
        one.ca = both
        with Tunnel(one, "api.test") as tunnel:
            answer = tunnel.ask("GET", "/test/echo", [("x-api-key", held)])
            assert answer.status == 200, answer
        one.ca = first
        one.stop()
        if os.path.exists(first + ".next"):
            ca("rotate", *files)
        one.start()


@pytest.mark.parametrize("args, says, status", [
    ([], "expected one of init, show, bundle, rotate", 2),
    (["shwo"], "did you mean `keyhole ca show`", 2),
    (["show"], "which one?", 2),
    (["init", "--certificate", "x"], "--key FILE", 2),
    (["show", "-c", "x", "--certificate", "y"], "names both files", 2),
    (["show", "--certificate", "/nonexistent"], "/nonexistent", 1),
    (["show", "-c", "/nonexistent"], "/nonexistent", 1),
    (["rotate", "--certificate", "/nonexistent/a", "--key", "/nonexistent/b"], "/nonexistent/a", 1),
    (["show", "--certificate", "/dev/null"], "not a regular file", 1),
    (["bundle", "--certificate", "/dev/null", "--format", "per"], "did you mean pem", 2),
    (["bundle", "--certificate", "/dev/null", "--which", "now"], "not known", 2),
    (["bundle", "--certificate", "/dev/null", "--format", "pkcs12", "--password", "short"], "6 characters", 2),
])  # fmt: skip
def test_bad_input_is_told(args, says, status):
    assert says in ca(*args, status=status)


def test_a_configuration_without_one_is_told(tmp_path):
    (tmp_path / "keyhole.yaml").write_text("version: 1\ntenants: { a: { rules: [ { allow: 'https://a.example' } ] } }\n")
    assert "no `authority`" in ca("show", "-c", tmp_path / "keyhole.yaml", status=1)


def test_a_key_that_does_not_fit_is_no_beginning(pair, tmp_path):
    folder, files = pair
    other = tmp_path / "other"
    ca("init", "--certificate", other / "ca.pem", "--key", other / "ca.key")
    shutil.copy(other / "ca.key", folder / "ca.key")
    assert "is not the one of the certificate" in ca("rotate", *files, status=1)
    assert not os.path.exists(folder / "ca.pem.next")
