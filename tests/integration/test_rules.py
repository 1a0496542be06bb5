"""The first rule that matches decides, nothing matching denies, and spellings are no way around."""

import pytest
from daemons import Daemons
from harness import Tunnel

RULES = [
    {"deny": "* https://api.test/admin/**"},
    {"allow": "GET,HEAD https://api.test/v1/*"},
    {"allow": "POST https://api.test/v1/messages"},
    {"deny": "https://api.test/late/secret"},
    {"allow": "https://api.test/late/**"},
    {"deny": "https://api.test/late/too-late"},
    {"allow": "https://*.wild.test"},
    {"allow": "GET https://open.test/files/**"},
    {"allow": "GET https://open.test/a%20b/c"},
    {"allow": "GET https://open.test:8443/**"},
]


@pytest.fixture(scope="module")
def ruled(mock):
    with Daemons([mock]) as daemons:
        yield daemons(rules=RULES)


def ask(daemon, method, url, **kind):
    host, _, path = url.partition("/")
    host, _, port = host.partition(":")
    with Tunnel(daemon, host, int(port or 443), sni=host.lower(), **kind) as tunnel:
        return tunnel.ask(method, "/" + path, [("X-Test-Id", f"{method} {url}")],
                          host=host + (":" + port if port else ""))  # fmt: skip


def passed(mock, method, url, answer):
    reached = bool(mock.requests(f"{method} {url}"))
    refused = answer.get("proxy-status") is not None
    assert reached != refused, f"either it is refused or it reaches the upstream: {answer!r}"
    return reached


@pytest.mark.parametrize(
    "method, url",
    [
        ("GET", "api.test/v1/models"),
        ("HEAD", "api.test/v1/models"),
        ("GET", "api.test/v1/models?x=/../admin"),
        ("GET", "api.test/v1/models;x=1"),
        ("POST", "api.test/v1/messages"),
        ("POST", "api.test/v1/messages?beta=true"),
        ("POST", "api.test/v1/%6d%65ssages"),
        ("GET", "api.test/v1/a%3Fb"),
        ("GET", "api.test/v1/..."),
        ("GET", "api.test/v1/.x"),
        ("DELETE", "api.test/late/x/y/z"),
        ("GET", "api.test/late/too-late"),
        ("GET", "API.TEST/v1/models"),
        ("PUT", "a.wild.test/anything"),
        ("PUT", "b.a.wild.test/anything"),
        ("GET", "A.WILD.TEST/"),
        ("GET", "open.test/files/a/b"),
        ("GET", "open.test/files/a%2Fb"),
        ("GET", "open.test/files/a%2fb"),
        ("GET", "open.test/a%20b/c"),
    ],
)
def test_allowed(ruled, mock, method, url):
    answer = ask(ruled, method, url)
    assert passed(mock, method, url, answer), answer
    assert mock.requests(f"{method} {url}")[0]["target"] == "/" + url.partition("/")[2], (
        "sent byte for byte as it came"
    )


@pytest.mark.parametrize(
    "method, url",
    [
        # the default
        ("GET", "api.test/"),
        ("GET", "api.test/v2/models"),
        ("GET", "other.test/v1/models"),
        # `*` stays within a segment
        ("GET", "api.test/v1/a/b"),
        ("GET", "api.test/v1"),
        # methods are what they are
        ("PUT", "api.test/v1/models"),
        ("DELETE", "api.test/v1/messages"),
        ("POST", "api.test/v1/models"),
        ("POST", "open.test/files/a"),
        ("get", "api.test/v1/models"),
        ("Post", "api.test/v1/messages"),
        ("GETX", "api.test/v1/models"),
        # first match
        ("GET", "api.test/admin/x"),
        ("GET", "api.test/admin/"),
        ("GET", "api.test/late/secret"),
        # paths have case; an exact path is exact
        ("GET", "api.test/V1/models"),
        ("POST", "api.test/v1/messages/"),
        ("POST", "api.test/v1/messages/batches"),
        ("POST", "api.test/v1/messagesx"),
        ("POST", "api.test//v1/messages"),
        ("POST", "api.test/v1//messages"),
        ("POST", "api.test/x?/v1/messages"),
        # the encoded spelling of what is denied is denied
        ("GET", "api.test/%61dmin/x"),
        ("GET", "api.test/late/%73ecret"),
        # %2F must be allowed in both readings
        ("GET", "api.test/v1/a%2Fb"),
        ("GET", "api.test/v1%2Fmodels"),
        ("GET", "api.test/late%2Fsecret"),
        ("GET", "api.test/admin%2fx"),
        # %25 is decoded once, not twice
        ("GET", "open.test/%2566iles/a"),
        # a suffix is never the name itself, nor a name that only ends like it
        ("GET", "wild.test/"),
        ("GET", "xwild.test/"),
        ("GET", "wild.test.other.test/"),
        ("GET", "a.wild.test:8443/"),
    ],
)
def test_denied(ruled, mock, method, url):
    answer = ask(ruled, method, url)
    assert answer.status == 403
    assert "http_request_denied" in answer.get("proxy-status")
    assert not passed(mock, method, url, answer)
    mock.never(f"{method} {url}")


@pytest.mark.parametrize(
    "path",
    ["v1/../admin/x", "v1/./models", "v1/%2e%2e/admin/x", "v1/%2E/models", "v1/.%2e/admin", "..", "v1/..",
     "v1/..%2fadmin/x", "v1/..%5cadmin", "v1\\models", "v1/%2e%2e%2fadmin",
     "v1/mod%00els", "v1/mod%0aels", "v1/mod%7fels", "v1/mod%els", "v1/mod%2", "v1/mod%zzels", "v1/models#x",
     "v1/mo<dels", 'v1/mo"dels', "v1/mo|dels", "v1/mo^dels", "v1/mo`dels", "v1/{models}", "v1/mod\xe4ls",
     "v1/mod\x01els", "v1/models?a=\x80", "v1/models?a=%zz"],
)  # fmt: skip
def test_a_path_that_could_be_read_in_two_ways_is_400(ruled, mock, path):
    with Tunnel(ruled, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/" + path, [("X-Test-Id", "odd " + path.encode("latin-1").hex())])
    assert answer.status == 400, answer
    mock.never("odd " + path.encode("latin-1").hex())


def test_a_rule_for_another_port_opens_that_port_alone(ruled, mock):
    assert ask(ruled, "GET", "open.test:8443/x").get("proxy-status") is None
    assert ask(ruled, "GET", "open.test/x").status == 403


def test_the_site_is_a_ceiling(daemon, mock):
    one = daemon(
        {"site": {"rules": [{"deny": "* https://api.test/v1/secret"}, {"allow": "https://api.test/v1/**"}]}},
        rules=[{"allow": "https://api.test"}, {"allow": "https://open.test"}],
    )
    assert ask(one, "GET", "api.test/v1/models").get("proxy-status") is None
    assert ask(one, "GET", "api.test/v1/secret").status == 403
    assert ask(one, "GET", "api.test/other").status == 403
    assert ask(one, "GET", "open.test/").status == 403


def test_a_tenant_without_rules_may_nothing(daemon, mock):
    one = daemon(rules=[])
    assert ask(one, "GET", "api.test/v1/models").status == 403


def test_two_tenants_on_two_sockets_have_their_own_rules(daemon, mock):
    one = daemon(
        {
            "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "beta"}],
            "tenants": {"beta": {"rules": [{"allow": "https://open.test"}]}},
        },
        rules=[{"allow": "https://api.test", "credential": "main"}],
    )
    assert ask(one, "GET", "api.test/test/echo").status == 200
    assert ask(one, "GET", "open.test/test/echo").status == 403
    one.socket_path = one.folder + "/e/s"
    assert ask(one, "GET", "api.test/test/echo").status == 403
    assert ask(one, "GET", "open.test/test/echo").status == 200


def test_a_host_off_the_list_is_never_resolved(daemon, fake_dns):
    """The list is asked before any name is: a name that is not on it must not leave either."""
    one = daemon({"upstream": {"nameservers": [fake_dns.address]}}, rules=[{"allow": "https://ok.test"}])
    fake_dns.names["ok.test"] = ["127.0.0.1"]
    with Tunnel(one, "data-in-a-name.evil.test") as tunnel:
        assert tunnel.ask("GET", "/").status == 403
    with Tunnel(one, "ok.test") as tunnel:
        tunnel.ask("GET", "/")
    assert "ok.test" in fake_dns.asked
    assert not [name for name in fake_dns.asked if name.endswith("evil.test")]

