"""Tokens that an endpoint gives for a value: what it is told, how often, and when it says no."""

import base64
import json
import os
import signal
import threading
import time

import pytest
from harness import Tunnel, finish, until
from memory_search import may_read, pages
from token_endpoints import HOST, Endpoint

TOKEN = "token-" + "Zq8" * 20


@pytest.fixture
def endpoint(tmp_path, request):
    one = Endpoint(tmp_path, getattr(request, "param", "127.0.0.1"))
    yield one
    one.stop()
    assert not one.problems


@pytest.fixture
def serve(daemon, mock, endpoint, tmp_path):
    """A daemon with one credential whose value is in a file, and which trusts the endpoint."""

    def make(value, credential, env=None, **more):
        both = tmp_path / "roots.pem"
        both.write_text(open(mock.ca).read() + open(endpoint.ca).read())
        path = tmp_path / "value"
        path.write_text(value)
        os.chmod(path, 0o600)
        one = daemon(
            {
                "upstream": {"ca_file": str(both), "resolve": {HOST: endpoint.address}},
                "credentials": {"main": {"header": None, "hosts": ["api.test"], **credential,
                                         "value": {"file": str(path), **credential.get("value", {})}}},
                **more,
            },
            env=env,
        )  # fmt: skip
        one.value = value
        return one

    return make


def told(daemon, path="/test/echo"):
    with Tunnel(daemon, "api.test") as tunnel:
        answer = tunnel.ask("GET", path)
        if answer.status != 200:
            return answer.status, answer.text()
        return 200, [v for n, v in answer.json()["fields"] if n.lower() == "authorization"][0]


def client(**more):
    return {"oauth2": {"grant": "client_credentials", "token_url": f"https://{HOST}/token",
                       "client_id": "the-client:id", "scopes": ["read", "write"], **more}}  # fmt: skip


def refresh(tmp_path, **more):
    return {"oauth2": {"grant": "refresh_token", "token_url": f"https://{HOST}/token",
                       "client_id": "the-client:id", "client_secret": {"file": str(tmp_path / "client")},
                       "state": str(tmp_path / "state"), **more}}  # fmt: skip


# --- OAuth2 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["basic", "body"])
def test_client_credentials_become_a_bearer_token(serve, endpoint, how):
    one = serve(endpoint.client[1], client(client_auth=how))
    assert told(one) == (200, "Bearer token-number-1")
    assert told(one) == (200, "Bearer token-number-1")
    assert len(endpoint.asked) == 1
    assert endpoint.client[1] not in one.stderr()


def test_one_question_serves_all_who_wait(serve, endpoint):
    one = serve(endpoint.client[1], client())
    endpoint.gate.clear()
    tunnels = [Tunnel(one, "api.test") for _ in range(20)]
    for tunnel in tunnels:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
    until("it is asked", lambda: endpoint.asked)
    time.sleep(0.2)  # nothing depends on how many have arrived
    endpoint.gate.set()
    for tunnel in tunnels:
        assert tunnel.response().status == 200
        tunnel.__exit__(None, None, None)
    assert len(endpoint.asked) == 1


def test_a_token_is_renewed_ahead_of_its_end(serve, endpoint):
    endpoint.lifetime = 4
    one = serve(endpoint.client[1], client())
    seen, end = set(), time.monotonic() + 12
    while time.monotonic() < end and len(seen) < 3:
        status, value = told(one)
        assert status == 200, "nobody meets an ended one"
        seen.add(value)
        time.sleep(0.05)
    assert len(seen) >= 3


def test_a_failing_endpoint_leaves_the_token_until_its_end(serve, endpoint):
    endpoint.lifetime = 5
    one = serve(endpoint.client[1], client())
    assert told(one)[0] == 200
    endpoint.trouble = lambda request: endpoint.reply(request, 503, "{}")
    until("a try has failed", lambda: told(one) and "the token before serves on" in one.stderr())
    assert told(one) == (200, "Bearer token-number-1")
    until("it has ended", lambda: told(one)[0] == 503)
    endpoint.trouble = None
    until("there is a token again", lambda: told(one)[0] == 200)


def test_a_refused_client_is_named_and_its_secret_is_not(serve, endpoint, mock):
    mark = mock.mark()
    one = serve("wrong-secret-of-the-client", client())
    status, text = told(one)
    assert status == 503 and "credential main" in text and HOST not in text
    assert f"credential main: the token endpoint {HOST} refuses: HTTP 401, invalid_client" in one.stderr()
    assert "wrong-secret" not in one.stderr() + text
    assert not mock.requests(since=mark)


@pytest.mark.parametrize("life", ["", ',"expires_in":null', ',"expires_in":"3600"', ',"expires_in":1e300',
                                  ',"expires_in":9223372036854775807', ',"expires_in":3599.5'])  # fmt: skip
def test_what_users_of_rfc_6749_meet_is_a_token(serve, endpoint, life):
    """Left out it is kept for a while; in a text, with a fraction, or for ages (a year is enough) it is what it says."""
    endpoint.trouble = lambda request: endpoint.reply(request, 200, '{"access_token":"abcdefgh"%s}' % life)
    one = serve(endpoint.client[1], client())
    assert told(one) == (200, "Bearer abcdefgh")
    assert told(one) == (200, "Bearer abcdefgh")
    assert len(endpoint.asked) == 1


# --- rotation -------------------------------------------------------------------------------------


def state(tmp_path):
    return (tmp_path / "state").read_text().splitlines()[1]


def test_a_rotated_refresh_token_is_kept(serve, endpoint, tmp_path):
    (tmp_path / "client").write_text(endpoint.client[1])
    endpoint.lifetime = 4
    one = serve(endpoint.refresh, refresh(tmp_path))
    seen, end = set(), time.monotonic() + 12
    while time.monotonic() < end and len(seen) < 3:
        assert (value := told(one))[0] == 200
        seen.add(value)
        time.sleep(0.05)
    assert len(seen) >= 3
    until("the file has what is good now", lambda: state(tmp_path) == endpoint.refresh)
    assert os.stat(tmp_path / "state").st_mode & 0o777 == 0o600
    # Another start goes on with it.
    one.stop()
    one.start()
    assert told(one)[0] == 200
    assert state(tmp_path) == endpoint.refresh


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_state_below_another_users_folder_is_not_used(serve, endpoint, tmp_path):
    """That user could put an older token in its place."""
    (tmp_path / "client").write_text(endpoint.client[1])
    above = tmp_path / "above"
    (above / "own").mkdir(parents=True)
    os.chown(above, 12345, 12345)
    one = serve(endpoint.refresh, refresh(tmp_path, state=str(above / "own" / "state")))
    assert told(one)[0] == 503
    assert "belongs to uid 12345" in one.stderr()
    assert not os.listdir(above / "own")


@pytest.mark.parametrize("status, more", [(400, {"error": "invalid_grant"}), (302, {}), (200, {"error": "odd"})])
def test_a_refusal_brings_no_refresh_token(serve, endpoint, tmp_path, status, more):
    """An echo of the question in it would be taken for the token that is good now."""
    (tmp_path / "client").write_text(endpoint.client[1])
    text = json.dumps({"refresh_token": "not-what-is-good-now", **more})
    endpoint.trouble = lambda request: endpoint.reply(request, status, text, [("location", "/else")])
    one = serve(endpoint.refresh, refresh(tmp_path))
    assert told(one)[0] == 503
    assert not (tmp_path / "state").exists() and "not-what-is-good-now" not in one.stderr()
    endpoint.trouble = None
    until("the old one is good still", lambda: told(one)[0] == 200)


def test_a_token_that_comes_in_a_reload_is_not_lost(serve, endpoint, tmp_path):
    (tmp_path / "client").write_text(endpoint.client[1])
    one = serve(endpoint.refresh, refresh(tmp_path))
    endpoint.gate.clear()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        until("it is asked", lambda: endpoint.asked)
        config = json.loads(json.dumps(one.config))
        config["credentials"]["main"]["oauth2"]["timeout"] = "19s"  # another one in the configuration's eyes
        one.write(config)
        one.process.send_signal(signal.SIGHUP)
        until("it is reloaded", lambda: "the new configuration is in force" in one.stderr())
        endpoint.gate.set()
        assert tunnel.response().status == 200
    assert state(tmp_path) == endpoint.refresh


def test_a_token_that_comes_after_two_reloads_is_not_lost(serve, endpoint, tmp_path):
    """The configuration that asked had many credentials, and they have none."""
    (tmp_path / "client").write_text(endpoint.client[1])
    one = serve(endpoint.refresh, refresh(tmp_path))
    fillers = {f"f{i:02}": {"value": {"env": f"NONE{i}"}, "header": {"x-api-key": "{}"}, "hosts": ["other.test"]}
               for i in range(40)}
    main = one.config["credentials"]["main"]
    config = json.loads(json.dumps(one.config))

    def reload(n, credentials):
        config["credentials"] = credentials
        if not credentials:
            del config["credentials"]
            config["tenants"]["acme"]["rules"] = [{"allow": "https://open.test"}]
        one.write(config)
        one.process.send_signal(signal.SIGHUP)
        until("it is reloaded", lambda: one.process.poll() is not None
              or one.stderr().count("the new configuration is in force") == n)
        assert one.process.poll() is None

    reload(1, {**fillers, "main": main})  # the last of many
    endpoint.gate.clear()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        until("it is asked", lambda: endpoint.asked)
        for n in (2, 3, 4):
            reload(n, None)
        endpoint.gate.set()
        until("the refresh token is kept", lambda: (tmp_path / "state").exists())
    assert state(tmp_path) == endpoint.refresh


def test_a_new_configured_token_goes_before_the_kept_one(serve, endpoint, tmp_path):
    (tmp_path / "client").write_text(endpoint.client[1])
    one = serve(endpoint.refresh, refresh(tmp_path))
    assert told(one)[0] == 200
    one.stop()
    endpoint.refresh = "refresh-token-granted-anew"
    (tmp_path / "value").write_text(endpoint.refresh)
    one.start()
    assert told(one)[0] == 200


def test_an_endpoint_that_does_not_rotate_needs_no_file(serve, endpoint, tmp_path):
    (tmp_path / "client").write_text(endpoint.client[1])
    endpoint.rotates = False
    one = serve(endpoint.refresh, refresh(tmp_path))
    assert told(one)[0] == 200


# --- GCP ------------------------------------------------------------------------------------------


def key_file(endpoint, **more):
    return json.dumps({"type": "service_account", "client_email": "robot@project.test",
                       "private_key": endpoint.make_key("gcp"), "private_key_id": "1",
                       "token_uri": f"https://{HOST}/token", **more}, indent=2)  # fmt: skip


GCP = {"gcp_service_account": {"scopes": ["https://a", "https://b"]}}


def test_a_service_accounts_key_file_becomes_an_access_token(serve, endpoint):
    one = serve(key_file(endpoint), GCP)
    assert told(one) == (200, "Bearer token-number-1")
    assert told(one) == (200, "Bearer token-number-1")
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize("offset, word", [(3700, "behind"), (-3700, "ahead")])
def test_a_clock_that_is_off_by_an_hour_is_said(serve, endpoint, offset, word):
    endpoint.offset = offset
    one = serve(key_file(endpoint), GCP)
    assert told(one)[0] == 503
    assert "invalid_grant" in one.stderr() and f"seconds {word} of the endpoint's" in one.stderr()
    assert "eyJ" not in one.stderr(), "the JWT that it repeats is not shown"


@pytest.mark.parametrize("value", ['{"a": 1}', "no key file at all", '{"client_email":"a","private_key":"b"}'])
def test_what_is_no_key_file_is_said(serve, endpoint, value):
    one = serve(value, GCP)
    assert told(one)[0] == 503
    assert "no key file of a service account" in one.stderr()
    assert not endpoint.asked


def test_a_key_that_is_none_is_said(serve, endpoint):
    one = serve(key_file(endpoint, private_key="-----BEGIN PRIVATE KEY-----\nnone\n-----END PRIVATE KEY-----\n"), GCP)
    assert told(one)[0] == 503
    assert "no RSA key in PEM" in one.stderr()


# --- GitHub ---------------------------------------------------------------------------------------


def app(**more):
    return {"github_app": {"app_id": 12345, "api_url": f"https://{HOST}", **more}}


def test_an_apps_key_becomes_an_installation_token(serve, endpoint):
    one = serve(endpoint.make_key("app"), app(installation_id=77))
    assert told(one) == (200, "Bearer ghs_all_1")
    assert told(one) == (200, "Bearer ghs_all_1")
    assert len(endpoint.asked) == 1


def test_the_installation_of_an_owner_is_looked_for_once(serve, endpoint):
    endpoint.lifetime = 4
    one = serve(endpoint.make_key("app"), app(owner="somebody"))
    assert told(one) == (200, "Bearer ghs_all_1")
    until("another one", lambda: told(one)[1] != "Bearer ghs_all_1")
    paths = [path for _, path, _, _ in endpoint.asked]
    assert paths[:3] == ["/orgs/somebody/installation", "/users/somebody/installation",
                         "/app/installations/77/access_tokens"]  # fmt: skip
    assert set(paths[3:]) == {"/app/installations/77/access_tokens"}


def test_each_repository_gets_a_token_of_its_own(serve, endpoint):
    one = serve(endpoint.make_key("app"), app(owner="somebody", per_repository=True))
    status, text = told(one, "/test")
    assert status == 403 and "this request names none" in text
    assert told(one, "/test/echo")[0] == 503, "no repository of the owner's"
    assert "not its owner's" in one.stderr()
    assert told(one, "/repos/somebody/tools/issues")[0] != 503
    assert told(one, "/somebody/other.git/info/refs")[0] != 503
    # The mock answers 401 to what it does not know the key of, so they are asked for anew, too.
    bodies = [body for _, path, _, body in endpoint.asked if path.endswith("access_tokens")]
    assert bodies[0] == '{"repositories":["tools"]}'
    assert set(bodies) == {'{"repositories":["tools"]}', '{"repositories":["other"]}'}


# --- endpoints that misbehave ---------------------------------------------------------------------


def redirect(endpoint):
    return lambda request: endpoint.reply(request, 302, "", [("location", f"https://{HOST}/elsewhere")])


def text(endpoint, what, status=200):
    return lambda request: endpoint.reply(request, status, what)


def hang(endpoint):
    return lambda request: time.sleep(30)


def raw(what):
    def answer(request):
        request.wfile.write(what)
        request.close_connection = True

    return answer


def endless(request):
    request.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
    try:
        while True:
            request.wfile.write(b" " * 65536)
    except OSError:
        pass


MISDEEDS = {
    "redirects": (redirect, "redirects (HTTP 302), which is not followed"),
    "garbage": (lambda e: text(e, "<html>hello</html>"), "no JSON object"),
    "a list": (lambda e: text(e, "[1]"), "no JSON object"),
    "no token": (lambda e: text(e, "{}"), "gives no token"),
    "an empty token": (lambda e: text(e, '{"access_token":""}'), "can't be one"),
    "a short token": (lambda e: text(e, '{"access_token":"1234567"}'), "fewer than 8 bytes"),
    "a token of two lines": (lambda e: text(e, '{"access_token":"a\\r\\nx: y"}'), "can't be one"),
    "a huge token": (lambda e: text(e, '{"access_token":"' + "a" * 20000 + '"}'), "can't be one"),
    "another kind": (lambda e: text(e, '{"access_token":"abcdefgh","token_type":"mac"}'), "not a bearer's"),
    "an end before now": (lambda e: text(e, '{"access_token":"abcdefgh","expires_in":-1}'), "expires_in of its token is no"),
    "an end at once": (lambda e: text(e, '{"access_token":"abcdefgh","expires_in":0}'), "expires_in of its token is no"),
    "an end that is none": (lambda e: text(e, '{"access_token":"abcdefgh","expires_in":"soon"}'),
                            "expires_in of its token is no"),
    "an end that has been": (lambda e: text(e, '{"token":"abcdefgh","expires_at":"2001-01-01T00:00:00Z"}'),
                             "gives a token that has ended"),
    "not HTTP": (lambda e: raw(b"garbage\r\n\r\n"), "not HTTP/1.1"),
    "nothing": (lambda e: raw(b""), "ended before its answer did"),
    "half": (lambda e: raw(b'HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{"acc'), "ended before its answer did"),
    "without end": (lambda e: endless, "too long"),
    "hangs": (hang, "did not answer in time"),
    "500": (lambda e: text(e, "oops", 500), "refuses: HTTP 500"),
}


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_an_endpoint_that_misbehaves_is_named(serve, endpoint, mock, misdeed):
    trouble, words = MISDEEDS[misdeed]
    endpoint.trouble = trouble(endpoint)
    mark = mock.mark()
    one = serve(endpoint.client[1], client(timeout="2s"))
    status, answer = told(one)
    assert status == 503 and "credential main" in answer and HOST not in answer
    assert "credential main: " in one.stderr() and words in one.stderr()
    assert endpoint.client[1] not in one.stderr()
    assert [path for _, path, _, _ in endpoint.asked] == ["/token"]
    assert not mock.requests(since=mark), "no request went out"


def test_an_endpoint_that_is_not_trusted_is_told_nothing(serve, endpoint, daemon, mock):
    one = serve(endpoint.client[1], client(), upstream={"ca_file": mock.ca, "resolve": {HOST: endpoint.address}})
    assert told(one)[0] == 503
    assert "credential main: asking the token endpoint" in one.stderr()
    assert not endpoint.asked


def test_an_endpoint_at_a_forbidden_address_is_not_dialled(serve, endpoint):
    settings = client(token_url=f"https://127.0.0.1:{endpoint.port}/token")
    one = serve(endpoint.client[1], settings)
    assert told(one)[0] == 503
    assert "loopback" in one.stderr()
    assert not endpoint.asked


def test_the_fetcher_is_locked_in_and_holds_no_key(serve, endpoint):
    endpoint.gate.clear()
    one = serve(endpoint.client[1], client())
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        until("it is asked", lambda: endpoint.asked)
        pids = [p for p in children(one.process.pid) if b"fetcher" in command(p)]
        assert len(pids) == 1
        with open(f"/proc/{pids[0]}/status", encoding="ascii") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        assert int(status["CapEff"], 16) == 0
        if os.getuid() == 0:
            assert status["Uid"].split()[0] != "0"
        endpoint.gate.set()
        assert tunnel.response().status == 200
    until("it has ended", lambda: not os.path.exists(f"/proc/{pids[0]}"))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def test_a_question_that_is_not_answered_yet_is_in_no_page_of_the_keeper(serve, endpoint):
    endpoint.gate.clear()
    one = serve(endpoint.client[1], client(client_auth="body"))
    if not may_read(one.process.pid):
        pytest.skip("this user may not read the memory of what is not dumpable")
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        until("it is asked", lambda: endpoint.asked)
        asked = endpoint.asked[0][3].encode()
        assert b"client_secret=s3cret%2Fwith" in asked
        for line, at, piece in pages(one.process.pid):
            assert b"s3cret%2Fwith" not in piece and endpoint.client[1].encode() not in piece, f"{line} at {at:x}"
        endpoint.gate.set()
        assert tunnel.response().status == 200


def test_a_private_key_and_its_token_are_in_no_page(serve, endpoint):
    """Of the key its lines in the middle, which are 48 bytes of it each; of the token all of it."""
    one = serve(key_file(endpoint), GCP)
    pids = [one.process.pid, one.worker_pid()]
    if not all(may_read(pid) for pid in pids):
        pytest.skip("this user may not read the memory of what is not dumpable")
    endpoint.token = lambda: (200, {"access_token": TOKEN, "expires_in": 3600})
    assert told(one) == (200, "Bearer " + TOKEN)
    key = json.loads(one.value)["private_key"]
    lines = key.splitlines()[6:10]
    der = base64.b64decode("".join(key.splitlines()[1:-1]))
    for pid, name in zip(pids, ("keeper", "worker")):
        for line, at, piece in pages(pid):
            assert not [n for n in lines if n.encode() in piece], f"{name}: PEM in {line}"
            assert der[300:340] not in piece, f"{name}: DER in {line}"
            # The mock reflected the token, so the worker's buffers for answers may hold it.
            assert name == "worker" or TOKEN.encode() not in piece, f"{name}: token in {line} at {at:x}"
