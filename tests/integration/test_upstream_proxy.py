"""upstream.proxy: all upstreams by CONNECT through the site's own proxy; its password goes there and nowhere else."""

import base64
import copy
import json
import os
import secrets
import signal
import socket
import subprocess
import time

import pytest
import readable
from conftest import NAMES
from connect_proxy import BAD_ANSWERS, ESTABLISHED, ConnectProxy
from harness import FINGERPRINT, KEYHOLE, SECRET, Tunnel, Wire, client_context, until

USER = "build"
PASSWORD = "pw-" + secrets.token_urlsafe(40)
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
FORMS = [PASSWORD.encode(), BASIC.rstrip("=").encode(), base64.b64encode(PASSWORD.encode()).rstrip(b"=")]
IN_FORCE = "the new configuration is in force"


@pytest.fixture
def proxy(mock):
    one = ConnectProxy({"*": mock.address}, credentials="Basic " + BASIC)
    yield one
    one.close()


@pytest.fixture
def start(daemon, proxy, tmp_path):
    """start(proxy options…): a daemon behind the proxy; every name goes there, none is pinned."""
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    password.chmod(0o600)
    started = []

    def make(overrides=None, rules=None, upstream=None, **options):
        settings = {"url": proxy.url, "username": USER, "password": {"file": str(password)}, **options}
        settings = {name: value for name, value in settings.items() if value is not None}
        config = {"upstream": {"resolve": None, "proxy": settings, **(upstream or {})},
                  "log": {"level": "debug"}, **(overrides or {})}  # fmt: skip
        one = daemon(config, rules=rules, env={"PROXY_PASSWORD": PASSWORD})
        started.append(one)
        return one

    yield make
    for one in started:
        nowhere_in(one)


def nowhere_in(one):
    """The password is in no file of the daemon's: configuration, log, journal."""
    for folder, _, files in os.walk(one.folder):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
                assert not [form for form in FORMS if form in data], f"the password stands in {name}"


def not_shown(answer):
    seen = repr((answer.reason, answer.fields)).encode() + answer.body
    assert not [form for form in FORMS if form in seen], "the sandbox was shown the password"
    return answer


def get(one, host="open.test", path="/test/echo", **how):
    with Tunnel(one, host, **how) as tunnel:
        return not_shown(tunnel.ask("GET", path))


def close_of(one):
    return until("its close", lambda: [r for r in one.journal() if r["event"] == "close"])[-1]


def reload(one, change):
    seen = one.stderr().count(IN_FORCE)
    config = copy.deepcopy(one.config)
    change(config)
    one.write(config)
    one.process.send_signal(signal.SIGHUP)
    until("reloaded", lambda: one.stderr().count(IN_FORCE) > seen)


# --- the way there --------------------------------------------------------------------------------


def test_a_request_goes_through_the_proxy_and_the_name_is_the_proxys_to_resolve(start, proxy):
    one = start()
    answer = get(one)
    assert answer.status == 200
    assert proxy.targets == ["open.test:443"]
    assert proxy.fields() == [("Host", "open.test:443"), ("Proxy-Authorization", "Basic " + BASIC)]
    close = close_of(one)
    assert close["complete"] and close["tls.protocol.version"] == "1.3"
    assert close["network.peer.port"] == proxy.port, "the address that was dialled"


def test_nothing_of_the_proxys_reaches_the_upstream_and_the_credential_does(start, proxy, mock):
    mark = mock.mark()
    what = get(start(), "api.test").json()
    names = [n.lower() for n, _ in what["fields"]]
    assert "proxy-authorization" not in names
    assert ["x-api-key", "sha256:" + FINGERPRINT] in [[n.lower(), v] for n, v in what["fields"]]
    with open(mock.log_path, "rb") as log:
        log.seek(mark)
        seen = log.read()
    assert not [form for form in FORMS if form in seen + repr(what).encode()]
    assert SECRET.encode() not in proxy.heard, "the proxy saw a credential that TLS should have hidden"


def test_a_second_request_takes_the_kept_tunnel(start, proxy):
    one = start()
    with Tunnel(one, "open.test") as tunnel:
        for nth in (1, 2, 3):
            assert tunnel.ask("GET", "/test/echo").json()["nth"] == nth
    assert len(proxy.heads) == 1


def test_a_large_answer_and_a_large_request_go_through(start):
    one = start()
    with Tunnel(one, "open.test") as tunnel:
        assert len(tunnel.ask("GET", "/test/bytes?n=3000000").body) == 3000000
        body = b"x" * 2000000
        assert tunnel.ask("POST", "/test/echo", body=body).json()["body_bytes"] == len(body)


def test_plain_http_goes_through_connect_too(start, proxy, plain_mock):
    proxy.routes = {"plain.test:80": plain_mock.address}
    one = start(rules=[{"allow": "http://plain.test"}])
    with Wire(one.socket_path) as wire:
        wire.host = "plain.test"
        answer = not_shown(wire.ask("GET", "http://plain.test/test/echo"))
    assert answer.status == 200
    assert proxy.targets == ["plain.test:80"]
    assert "proxy-authorization" not in [n.lower() for n, _ in answer.json()["fields"]]


def test_the_upstreams_certificate_is_verified_inside(start, proxy):
    one = start(rules=[{"allow": "https://stranger.test"}])
    answer = get(one, "stranger.test")
    assert answer.status == 502 and "tls_certificate_error" in answer.get("proxy-status")
    assert proxy.targets == ["stranger.test:443"]


def test_the_clients_own_proxy_authorization_never_comes_to_the_proxy(start, proxy):
    one = start()
    with Tunnel(one, "open.test") as tunnel:
        tunnel.ask("GET", "/test/echo", [("Proxy-Authorization", "Basic YTpi")])
    assert b"YTpi" not in proxy.heard


def test_a_proxy_without_a_password_is_sent_none(start, proxy):
    proxy.credentials = None
    assert get(start(username=None, password=None)).status == 200
    assert proxy.fields() == [("Host", "open.test:443")]


def test_a_password_from_the_environment(start, proxy):
    one = start(password={"env": "PROXY_PASSWORD"})
    assert get(one).status == 200
    if os.getuid() == 0:
        for pid in (one.process.pid, one.worker_pid()):
            with open(f"/proc/{pid}/environ", "rb") as file:
                assert PASSWORD.encode() not in file.read()


def test_a_proxy_of_http_1_0_and_one_that_says_more_in_its_head(start, proxy):
    one = start()

    def old(sock, _):
        sock.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        return True

    def talkative(sock, _):
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nVia: x\r\n\r\n")
        return True

    def dribble(sock, _):
        for byte in ESTABLISHED:
            sock.sendall(bytes([byte]))
            time.sleep(0.002)
        return True

    for answer in (old, talkative, dribble):
        proxy.answer = answer
        with Tunnel(one, "open.test") as tunnel:
            assert tunnel.ask("GET", "/test/echo", [("Connection", "close")]).status == 200
            one.settle()


def test_a_proxy_by_name_and_one_of_version_6(start, proxy, mock):
    assert get(start(url=proxy.url.replace("127.0.0.1", "localhost"))).status == 200
    six = ConnectProxy({"*": mock.address}, "Basic " + BASIC, socket.AF_INET6)
    try:
        assert get(start(url=six.url + "/")).status == 200
    finally:
        six.close()


# --- around it ------------------------------------------------------------------------------------


def test_no_proxy_and_pinned_hosts_go_direct(start, proxy, mock, fake_dns):
    fake_dns.names["a.wild.test"] = ["127.0.0.1"]
    one = start(
        no_proxy=["*.wild.test"],
        upstream={"resolve": {**dict.fromkeys(NAMES), "open.test": mock.address}, "nameservers": [fake_dns.address],
                  "allow_addresses": ["127.0.0.1/32"]},
        rules=[{"allow": "https://open.test"}, {"allow": f"https://*.wild.test:{mock.port}"},
               {"allow": "https://other.test"}],
    )  # fmt: skip
    assert get(one, "open.test").status == 200
    with Tunnel(one, "a.wild.test", mock.port) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host=f"a.wild.test:{mock.port}").status == 200
    assert proxy.heads == []
    assert get(one, "other.test").status == 200
    assert proxy.targets == ["other.test:443"]


@pytest.mark.parametrize("literal", ["127.0.0.1", "169.254.169.254", "10.1.2.3", "[::1]",
                                     "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"])  # fmt: skip
def test_an_address_that_the_guard_refuses_is_not_asked_for(start, proxy, literal):
    one = start(rules=[{"allow": "https://**"}])
    with Tunnel(one, literal, sni="", context=client_context(one.ca, check=False)) as tunnel:
        answer = tunnel.ask("GET", "/", host=literal)
    assert answer.status == 403 and "destination_ip_prohibited" in answer.get("proxy-status")
    assert proxy.heads == []


@pytest.mark.parametrize("name", ["localhost", "a.localhost"])
def test_localhost_would_be_the_proxys_own_and_is_refused(start, proxy, name):
    answer = get(start(rules=[{"allow": "https://**"}]), name)
    assert answer.status == 403 and proxy.heads == []


def test_an_address_that_may_be_reached_is_asked_for(start, proxy):
    one = start(rules=[{"allow": "https://**"}], upstream={"allow_addresses": ["127.0.0.1/32"]})
    with Tunnel(one, "127.0.0.1", sni="", context=client_context(one.ca, check=False)) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host="127.0.0.1").status == 200
    assert proxy.targets == ["127.0.0.1:443"]


def test_resolve_locally_judges_the_address_and_names_it_to_the_proxy(start, proxy, fake_dns):
    one = start(resolve_locally=True, upstream={"nameservers": [fake_dns.address],
                                                "allow_addresses": ["2001:db8::7/128"]})  # fmt: skip
    fake_dns.names["api.test"] = ["2001:db8::7", "10.0.0.1", "93.184.216.34"]
    fake_dns.names["open.test"] = ["169.254.169.254"]
    fake_dns.names["auth.test"] = ["2001:db8::7"]
    assert get(one, "api.test").status == 200
    assert proxy.targets == ["93.184.216.34:443"]
    answer = get(one, "open.test")
    assert answer.status == 403 and "destination_ip_prohibited" in answer.get("proxy-status")
    assert get(one, "auth.test").status == 200
    assert proxy.targets == ["93.184.216.34:443", "[2001:db8::7]:443"]


def test_without_it_no_name_is_asked_for_here(start, fake_dns):
    assert get(start(upstream={"nameservers": [fake_dns.address]})).status == 200
    assert fake_dns.asked == []


# --- a proxy that says no, or nothing, or too much --------------------------------------------------


def test_a_refusal_is_502_with_the_proxys_own_words_escaped(start, proxy):
    one = start()
    proxy.answer = b'HTTP/1.1 403 Not "here" <b>\xe9\r\nContent-Length: 6\r\n\r\nsecret'
    answer = get(one)
    assert answer.status == 502 and "destination_unavailable" in answer.get("proxy-status")
    assert "403" in answer.text() and "Not" in answer.text() and b"\xe9" not in answer.body
    assert "secret" not in answer.text(), "its page is not shown"
    close = close_of(one)
    assert close["reason"] == "upstream_proxy" and "403" in close["detail"]


def test_a_wrong_password_is_502_and_says_407(start, proxy):
    proxy.credentials = "Basic another"
    answer = get(start())
    assert answer.status == 502 and "407 \\\"Proxy Authentication Required" in answer.body.decode()


@pytest.mark.parametrize("echo", [PASSWORD, BASIC, BASIC.rstrip("=")], ids=["raw", "basic", "unpadded"])
def test_a_proxy_that_says_the_password_back_is_not_quoted(start, proxy, echo):
    one = start()
    proxy.answer = b"HTTP/1.1 407 bad: " + echo.encode() + b"\r\nContent-Length: 0\r\n\r\n"
    answer = get(one)
    assert answer.status == 502 and "407" in answer.text()
    proxy.answer = b"HTTP/1.1 4x7 bad: " + echo.encode() + b"\r\n" + echo.encode() + b"\r\n\r\n"
    assert get(one).status == 502


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_an_answer_that_opens_no_tunnel_is_502(start, proxy, kind, mock):
    mark = mock.mark()
    one = start()
    proxy.answer = BAD_ANSWERS[kind]
    answer = get(one)
    assert answer.status == 502, answer
    assert mock.requests(since=mark) == []
    assert close_of(one)["reason"] in ("upstream_proxy", "malformed_response", "response_head_size",
                                       "upstream_closed", "tls_protocol")  # fmt: skip
    proxy.answer = None
    assert get(one).status == 200, "and the next one goes through"


def test_bytes_behind_the_answer_are_never_the_upstreams(start, proxy):
    """In the clear, where no TLS would catch it: a proxy that answers for the upstream beforehand."""
    one = start(rules=[{"allow": "http://plain.test"}])
    proxy.answer = ESTABLISHED + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
    with Wire(one.socket_path) as wire:
        wire.host = "plain.test"
        answer = wire.ask("GET", "http://plain.test/test/echo")
    assert answer.status == 502 and b"forged" not in answer.body


def test_a_proxy_that_hangs_or_drips_is_504_in_time(start, proxy):
    one = start({"timeouts": {"connect": "400ms"}})

    def hang(sock, _):
        sock.recv(1)

    def drip(sock, _):
        for _ in range(2000):
            sock.sendall(b"X-A: b\r\n")
            time.sleep(0.02)

    def drip_head(sock, head):
        sock.sendall(b"HTTP/1.1 200 OK\r\n")
        drip(sock, head)

    for answer in (hang, drip_head):
        proxy.answer = answer
        begun = time.monotonic()
        assert get(one).status == 504
        assert time.monotonic() - begun < 15
        assert close_of(one)["reason"] == "connect_timeout"


def test_a_client_that_leaves_takes_its_connect_along(start, proxy):
    ended = []

    def hang(sock, _):
        ended.append(sock.recv(1))

    proxy.answer = hang
    one = start()
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        until("the proxy is asked", lambda: proxy.heads)
    until("the proxy's connection ended", lambda: ended == [b""])


def test_no_proxy_there_is_502(start, proxy):
    one = start()
    proxy.close()
    answer = get(one)
    assert answer.status == 502 and "upstream proxy" in answer.text()


def test_a_missing_password_is_503_and_nothing_is_dialled(start, proxy, tmp_path):
    one = start(password={"file": str(tmp_path / "absent")})
    answer = get(one)
    assert answer.status == 503 and "password" in answer.text()
    assert str(tmp_path) not in answer.text(), "no path of the host"
    assert proxy.heads == []
    (tmp_path / "absent").write_text(PASSWORD)
    until("it is found", lambda: get(one).status == 200)


# --- reload ---------------------------------------------------------------------------------------


def test_a_reload_changes_the_proxy_and_the_password_follows_its_own(start, proxy, mock, tmp_path):
    one = start()
    assert get(one).status == 200
    other = ConnectProxy({"*": mock.address})
    try:
        reload(one, lambda c: c["upstream"]["proxy"].update(url=other.url, username="x", password={"file": "secret"}))
        until("the other proxy", lambda: get(one).status == 200 and other.heads)
        assert not [form for form in FORMS if form in other.heard]
        assert SECRET.encode() not in proxy.heard and b"Basic" in other.heard

        def is_direct():
            before = len(other.heads)
            return get(one).status == 200 and len(other.heads) == before

        reload(one, lambda c: (c["upstream"].pop("proxy"), c["upstream"].update(
            resolve={"open.test": mock.address})))  # fmt: skip
        until("direct", is_direct)
        reload(one, lambda c: (c["upstream"].pop("resolve"), c["upstream"].update(
            proxy={"url": proxy.url, "username": USER, "password": {"file": str(tmp_path / "password")}})))  # fmt: skip
        count = len(proxy.heads)
        until("the first again", lambda: get(one).status == 200 and len(proxy.heads) > count)
    finally:
        other.close()


def test_what_waits_for_a_tunnel_over_a_reload_goes_by_the_new_configuration(start, proxy, mock):
    one = start()
    slow = {"on": True}

    def answer(sock, _):
        until("told to go on", lambda: not slow["on"])
        sock.sendall(ESTABLISHED)
        return True

    proxy.answer = answer
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        until("asked", lambda: proxy.heads)
        reload(one, lambda c: c["upstream"]["proxy"].update(url="http://127.0.0.1:1"))
        assert not_shown(tunnel.response()).status == 502
        slow["on"] = False
        assert tunnel.ask("GET", "/test/echo").status == 502


# --- the value itself -----------------------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0, reason="reading another process's memory map needs root")
def test_the_password_is_in_no_readable_page_of_the_worker(start, proxy):
    one = start()
    for _ in range(5):
        with Tunnel(one, "open.test") as tunnel:
            assert tunnel.ask("GET", "/test/echo", [("Connection", "close")]).status == 200
    proxy.answer = b"HTTP/1.1 407 no\r\nContent-Length: 0\r\n\r\n"
    get(one)
    one.settle()
    assert readable.found(one.worker_pid(), FORMS) == []


@pytest.mark.parametrize("bad, says", [
    ({"url": "https://p.test:1"}, "TLS with the proxy"),
    ({"url": f"http://u:{PASSWORD}@p.test:1"}, "keys of their own"),
    ({"url": "http://p.test"}, "port"),
    ({"url": "http://p.test:0"}, "port"),
    ({"url": "http://p.test:3128/x"}, "port"),
    ({"url": "p.test:3128"}, "http://HOST:PORT"),
    ({"username": USER}, "password is missing"),
    ({"password": {"env": "X"}}, "username is missing"),
    ({"username": USER, "password": PASSWORD}, "a secret is never written in this file"),
    ({"username": f"a:{PASSWORD}", "password": {"env": "X"}}, "colon"),
    ({"no_proxy": ["*"]}, "star"),
])  # fmt: skip
def test_check_says_what_is_wrong_and_never_shows_a_password(tmp_path, bad, says):
    config = {"version": 1, "upstream": {"proxy": {"url": "http://p.test:3128", **bad}},
              "tenants": {"a": {"rules": [{"allow": "https://x.test"}]}}}  # fmt: skip
    path = tmp_path / "k.yaml"
    path.write_text(json.dumps(config))
    done = subprocess.run([KEYHOLE, "check", "-c", str(path)], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode == 1 and says in done.stdout + done.stderr, done
    assert PASSWORD not in done.stdout + done.stderr


def test_no_rule_can_name_the_password(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text(
        "version: 1\nupstream: { proxy: { url: 'http://p.test:3128', username: u, password: { env: P } } }\n"
        "tenants: { a: { rules: [ { allow: 'https://p.test', credential: upstream.proxy } ] } }\n"
    )
    done = subprocess.run([KEYHOLE, "check", "-c", str(path)], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode == 1 and "no credential is called" in done.stderr
