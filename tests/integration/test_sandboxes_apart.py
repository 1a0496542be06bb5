"""test_sandboxes_apart.py - tenants never see each other, whoever tries; and nobody harms the daemon by asking."""

import json
import os
import re
import socket
import subprocess
import threading

from admin_client import AS_ROOT, GRANTED, STRANGER, ask
import pytest
from harness import Tunnel, until
from sandboxes import add, added, admin, asks, call, clear, files_below, inside, listed, remove

DEV = {"dev": {"rules": [{"allow": "https://open.test"}, {"allow": "https://auth.test", "client_auth": "pass"}]}}


def call_as(one, uid, method, path, content=None):
    """The same as call, by another user."""
    script = (
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
        "b=sys.argv[4].encode()\n"
        "s.sendall((sys.argv[2]+' '+sys.argv[3]+' HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n"
        "Connection: close\\r\\n\\r\\n'%len(b)).encode()+b)\n"
        "d=b''\nwhile True:\n p=s.recv(65536)\n if not p: break\n d+=p\nsys.stdout.buffer.write(d)\n"
    )
    os.chmod(one.folder, 0o755)
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", script, os.path.join(one.folder, "adm", "s"), method, path,
         json.dumps(content) if content else ""],
        capture_output=True, user=uid, group=uid, extra_groups=[], cwd="/", timeout=20, check=True,
    )  # fmt: skip
    head, answer = done.stdout.split(b"\r\n\r\n", 1)
    return int(head.split()[1]), json.loads(answer)


def as_user(uid, code, *args):
    """What a program prints that runs as that user."""
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", "import os,socket,sys\n" + code, *args],
        capture_output=True, text=True, user=uid, group=uid, extra_groups=[], cwd="/", timeout=20, check=True,
    )  # fmt: skip
    return done.stdout.strip()


CONNECTS = "s=socket.socket(socket.AF_UNIX)\ntry:\n s.connect(sys.argv[1]); print('in')\nexcept OSError as e: print(e.strerror)\n"
LISTS = "try:\n print(os.listdir(sys.argv[1]))\nexcept OSError as e: print(e.strerror)\n"


@AS_ROOT
def test_a_user_adds_and_removes_what_is_of_his_tenant_and_sees_no_other(daemon):
    one = daemon({**admin(allow=[{"user": GRANTED, "tenants": ["dev"]}]), "tenants": DEV})
    theirs = add(one, "secret-id")
    status, mine = call_as(one, GRANTED, "POST", "/v1/sandboxes", {"tenant": "dev", "id": "mine"})
    assert status == 201 and "journal" not in mine
    assert os.stat(mine["listener"]).st_uid == GRANTED
    assert asks(one, mine) == 200
    for path in ("/v1/sandboxes", "/v1/status"):
        status, seen = call_as(one, GRANTED, "GET", path)
        assert [s["id"] for s in seen["sandboxes"]] == ["mine"] and "secret-id" not in json.dumps(seen)
    # A tenant that is not his is no other than one that is not there.
    refusals = {
        json.dumps(call_as(one, GRANTED, method, path, content))
        for tenant in ("acme", "nobody")
        for id in ("secret-id", "other-id")
        for method, path, content in (("DELETE", f"/v1/sandboxes/{tenant}/{id}", None),
                                      ("POST", "/v1/sandboxes", {"tenant": tenant, "id": id}))
    }  # fmt: skip
    assert len(refusals) == 1 and "403" in refusals.pop()
    assert asks(one, theirs) == 200
    assert call_as(one, GRANTED, "DELETE", "/v1/sandboxes/dev/mine")[0] == 200
    assert added(one) == ["secret-id"]
    clear(one)


@AS_ROOT
def test_a_socket_is_for_who_asked_and_the_folders_show_nobody_else(daemon):
    one = daemon({**admin(allow=[{"user": GRANTED, "tenants": ["dev"]}]), "tenants": DEV})
    theirs = add(one, "theirs")
    mine = call_as(one, GRANTED, "POST", "/v1/sandboxes", {"tenant": "dev", "id": "mine"})[1]
    base = os.path.dirname(os.path.dirname(theirs["directory"]))
    assert as_user(GRANTED, CONNECTS, mine["listener"]) == "in"
    assert as_user(GRANTED, LISTS, mine["directory"]) == "['s']"
    assert as_user(STRANGER, CONNECTS, mine["listener"]) == "Permission denied"
    for uid in (GRANTED, STRANGER):
        assert as_user(uid, CONNECTS, theirs["listener"]) == "Permission denied"
        assert as_user(uid, LISTS, base) == as_user(uid, LISTS, base + "/acme") == "Permission denied"
        trap = "try:\n os.mkdir(sys.argv[1]); print('made')\nexcept OSError as e: print(e.strerror)\n"
        for path in (base + "/x", base + "/dev/x", mine["directory"] + "/x"):
            assert as_user(uid, trap, path) == "Permission denied"
    gift = call_as(one, GRANTED, "POST", "/v1/sandboxes", {"tenant": "dev", "id": "gift", "owner": STRANGER})
    assert gift[0] == 403
    until("it has no connections", lambda: all(s["connections"] == 0 for s in listed(one)))
    clear(one)


@AS_ROOT
def test_root_gives_a_socket_to_whom_it_names(daemon):
    one = daemon(admin())
    made = add(one, "sb-1", owner=STRANGER)
    os.chmod(one.folder, 0o755)
    assert as_user(STRANGER, CONNECTS, made["listener"]) == "in"
    assert as_user(GRANTED, CONNECTS, made["listener"]) == "Permission denied"
    clear(one)


@AS_ROOT
def test_a_folder_that_others_may_write_to_is_not_used(daemon):
    one = daemon(admin())
    base = os.path.join(one.folder, "adm", "sandboxes")
    os.mkdir(base)
    os.chmod(base, 0o777)
    assert "the daemon alone may write to" in add(one, "sb-1", expected=500)["error"]
    os.rmdir(base)
    os.symlink("/tmp", base)
    assert "the daemon alone may write to" in add(one, "sb-1", expected=500)["error"]
    os.unlink(base)
    assert asks(one, add(one, "sb-1")) == 200
    clear(one)


def plain(one, sandbox, path, **fields):
    """A request to keyhole.internal from inside."""
    more = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(sandbox["listener"])
        sock.sendall(f"GET http://keyhole.internal{path} HTTP/1.1\r\nHost: keyhole.internal\r\n{more}Connection: close\r\n\r\n".encode())
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    return answer.decode()


def test_the_pages_inside_speak_of_the_sandbox_alone(daemon):
    one = daemon({**admin(), "tenants": DEV})
    theirs = add(one, "their-sandbox", narrow=[{"allow": "https://api.test/theirs/**"}])
    mine = add(one, "my-sandbox", "dev", narrow=[{"allow": "https://open.test/mine/**"}])
    home = plain(one, mine, "/", Accept="application/json")
    page = json.loads(home.split("\r\n\r\n", 1)[1])
    assert (page["sandbox"], page["tenant"]) == ("my-sandbox", "dev")
    assert len(page["sandbox_rules"]) == 1
    assert "/mine/**" in home
    why = plain(one, mine, "/why?method=GET&url=https://open.test/else")
    assert "/mine/**" in why
    for answer in (home, why, plain(one, mine, "/"), plain(one, mine, "/why?method=GET&url=https://api.test/theirs/x")):
        for word in ("acme", "their-sandbox", "/theirs/**"):
            assert word not in answer
    assert "their-sandbox" in plain(one, theirs, "/")
    assert asks(one, mine, path="/mine/x") != 403
    assert asks(one, mine, path="/else") == 403
    clear(one)


def test_no_upstream_connection_is_shared_where_a_client_brings_its_own_authentication(daemon, mock):
    one = daemon({**admin(), "tenants": DEV})

    def connection(sandbox, host):
        with Tunnel(inside(one, sandbox), host) as tunnel:
            return json.loads(tunnel.ask("GET", "/test/echo", [("Authorization", "Bearer x")] if host == "auth.test" else []).body)["conn"]

    a, b = add(one, "a"), add(one, "b")
    other = add(one, "a", "dev")
    seen = [connection(a, "auth.test"), connection(b, "auth.test"), connection(other, "auth.test")]
    assert len(set(seen)) == 3
    assert connection(other, "open.test") != connection(a, "open.test")
    remove(one, "a")
    again = add(one, "a")
    assert connection(again, "auth.test") not in seen
    clear(one)


def test_a_tenants_limits_hold_for_its_sandboxes_together_and_for_no_others(daemon):
    one = daemon({**admin(), "tenants": {**DEV, "acme": {"limits": {"requests": "4/h", "connections": 2}}}})
    a, b, other = add(one, "a"), add(one, "b"), add(one, "c", "dev")
    with Tunnel(inside(one, a), "open.test") as first, Tunnel(inside(one, b), "open.test") as second:
        assert first.ask("GET", "/test/echo").status == second.ask("GET", "/test/echo").status == 200
        assert call(one, "GET", "/v1/status")[1]["limits"][0]["used"] == 2
        with Tunnel(inside(one, other), "open.test") as third:
            assert third.ask("GET", "/test/echo").status == 200
        # Places go back with the sandbox.
        remove(one, "a")
        remove(one, "b")
    again = add(one, "a")
    assert asks(one, again) == 200
    assert asks(one, again) == 200
    assert asks(one, again) == 429
    assert asks(one, other) == 200
    clear(one)


def test_placeholders_differ_and_nothing_makes_a_series(daemon):
    one = daemon({**admin(), "credentials": {"main": {"placeholder": {"env": "MAIN_KEY"}}}, "tenants": DEV})
    made = [add(one, id, tenant) for id, tenant in (("one", "acme"), ("two", "acme"), ("three", "dev"))]
    keys = [answer["env"].get("MAIN_KEY") for answer in made]
    assert keys[0] and keys[1] and keys[0] != keys[1]
    assert keys[2] is None, "a tenant whose rules don't have it"
    with open(one.ca, encoding="ascii") as file:
        assert {answer["ca"] for answer in made} == {file.read()}
    before = {re.sub(r" \S+$", "", line) for line in ask(one, "/metrics")[1].decode().splitlines()}
    for sandbox in made:
        asks(one, sandbox)
    after = {re.sub(r" \S+$", "", line) for line in ask(one, "/metrics")[1].decode().splitlines()}
    assert before == after
    clear(one)


def test_a_hundred_thousand_adds_in_a_loop_are_refused_and_harm_nobody(daemon):
    one = daemon(admin(), nofile=128)
    most, ended = (128 * 5 // 8 - 64 - 2) // 4 * 3, 0  # a quarter is the other tenants'
    served = []
    stop = threading.Event()

    def meanwhile():
        while not stop.wait(0.2):
            served.append(asks(one, one.socket_path))

    watcher = threading.Thread(target=meanwhile)
    watcher.start()
    counts = {}
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(os.path.join(one.folder, "adm", "s"))
        stream = sock.makefile("rb")
        for batch in range(0, 100000, 50):
            text = b""
            for i in range(batch, batch + 50):
                body = b'{"tenant":"acme","id":"s%d"}' % i
                text += b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            for request in text.split(b"POST ")[1:]:
                sock.sendall(b"POST " + request)
                status = int(stream.readline().split()[1])
                counts[status] = counts.get(status, 0) + 1
                length = 0
                while (line := stream.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split()[1])
                stream.read(length)
                ended += 1
    stop.set()
    watcher.join()
    assert ended == 100000 and counts == {201: most, 503: 100000 - most}
    assert served and set(served) == {200}
    assert len(added(one)) == most
    clear(one)
    assert files_below(os.path.join(one.folder, "adm", "sandboxes")) == []


@pytest.mark.parametrize("sent", [
    b"", b"{", b"null", b"[]", b"{}", b'{"tenant":"acme","id":"x"', b'{"tenant":"acme","id":"x","id":"y"}',
    b'{"tenant":["acme"],"id":"x"}', b'\xff\xfe', b'{"tenant":"acme","id":"x"} trailing', b"[" * 5000,
    b'{"tenant":"acme","id":"x","narrow":' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"tenant":"acme","id":"x","narrow":"narrow: &a [*a]"}',
    b'{"tenant":"acme","id":"x","narrow":"' + b"\\t" * 2000 + b'"}',
])  # fmt: skip
def test_garbage_is_refused_and_makes_nothing(daemon, sent):
    one = daemon(admin())
    status, answer = call(one, "POST", "/v1/sandboxes", raw=sent)
    assert status in (400, 422), answer
    assert answer["error"]
    assert added(one) == []
    assert not os.path.exists(os.path.join(one.folder, "adm", "sandboxes"))


def test_who_goes_away_before_the_answer_leaves_nothing(daemon):
    one = daemon(admin())
    for i in range(30):
        body = b'{"tenant":"acme","id":"s%d"}' % i
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(os.path.join(one.folder, "adm", "s"))
            sock.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    # What was answered into a socket that was closed a moment later is there; the rest is taken back.
    assert add(one, "last")
    for id in [f"s{i}" for i in range(30)] + ["last"]:
        assert call(one, "DELETE", f"/v1/sandboxes/acme/{id}")[0] in (200, 404)
    until("none is there", lambda: added(one) == [])
    until("nothing is left", lambda: files_below(os.path.join(one.folder, "adm", "sandboxes")) == [])


def test_many_callers_at_once_get_one_sandbox_of_a_name(daemon):
    one = daemon(admin())
    answers = []

    def ask_for_it():
        for i in range(20):
            answers.append((i, call(one, "POST", "/v1/sandboxes", {"tenant": "acme", "id": f"s{i}"})[0]))

    threads = [threading.Thread(target=ask_for_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(20):
        assert sorted(status for at, status in answers if at == i) == [201] + [409] * 5
    assert sorted(added(one)) == sorted(f"s{i}" for i in range(20))
    clear(one)
