"""The way to a token endpoint is an upstream's: through upstream.proxy, past it, or looked up here."""

import base64
import secrets

import pytest
from connect_proxy import BAD_ANSWERS, ConnectProxy
from harness import SECRET
from test_tokens import client, endpoint, serve, told  # noqa: F401
from token_endpoints import HOST

USER, PASSWORD = "build", "pw-" + secrets.token_urlsafe(40)
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@pytest.fixture
def proxy(mock, endpoint):  # noqa: F811
    """It knows where the endpoint is; all else is the mock."""
    one = ConnectProxy({f"{HOST}:443": endpoint.address, "*": mock.address}, credentials="Basic " + BASIC)
    yield one
    one.close()


@pytest.fixture
def behind(serve, endpoint, proxy, fake_dns, tmp_path):  # noqa: F811
    """A daemon behind the proxy. No name is pinned, but for those of `resolve`."""

    def make(resolve=None, password=PASSWORD, url=f"https://{HOST}/token", **options):
        path = tmp_path / "password"
        if password:
            path.write_text(password)
        settings = {"url": proxy.url, "username": USER, "password": {"file": str(path)}, **options}
        upstream = {"ca_file": str(tmp_path / "roots.pem"), "resolve": resolve, "proxy": settings,
                    "nameservers": [fake_dns.address]}  # fmt: skip
        return serve(endpoint.client[1], client(token_url=url), upstream=upstream)

    return make


def asked_for(proxy):
    return [target for target in proxy.targets if target != "api.test:443"]


def test_the_endpoint_is_asked_through_the_proxy(behind, proxy, endpoint):  # noqa: F811
    one = behind()
    assert told(one) == (200, "Bearer token-number-1")
    assert sorted(proxy.targets) == ["api.test:443", f"{HOST}:443"]
    assert proxy.heads[0].startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n".encode())
    assert ("proxy-authorization", "Basic " + BASIC) in [(n.lower(), v) for n, v in proxy.fields(0)]
    # What the proxy saw: nothing of the question, which went through TLS; nor has the endpoint the password.
    assert endpoint.client[1].encode() not in proxy.heard and b"/token" not in proxy.heard
    assert BASIC not in repr(endpoint.asked) and PASSWORD not in one.stderr()


def test_an_endpoint_in_no_proxy_is_looked_up_and_asked_directly(behind, proxy, endpoint, fake_dns):  # noqa: F811
    """Its address is loopback, so the guard is what it meets."""
    fake_dns.names[HOST] = ["127.0.0.1"]
    one = behind(no_proxy=[HOST])
    assert told(one)[0] == 503
    assert "127.0.0.1:443 is a loopback address" in one.stderr()
    assert not asked_for(proxy) and not endpoint.asked


def test_a_pinned_endpoint_is_asked_directly_and_needs_no_password(behind, proxy, endpoint):  # noqa: F811
    one = behind(resolve={HOST: endpoint.address, "api.test": None}, password=None)
    told(one)
    assert len(endpoint.asked) == 1 and not asked_for(proxy)


def test_a_name_that_is_looked_up_here_is_judged_and_its_address_named(behind, proxy, endpoint, fake_dns):  # noqa: F811
    fake_dns.names["api.test"] = ["93.184.216.35"]
    fake_dns.names[HOST] = ["10.0.0.1", "93.184.216.34"]
    proxy.routes["93.184.216.34:443"] = endpoint.address
    one = behind(resolve_locally=True)
    assert told(one) == (200, "Bearer token-number-1"), "the certificate is the name's, whatever CONNECT names"
    assert sorted(proxy.targets) == ["93.184.216.34:443", "93.184.216.35:443"]


def test_a_name_of_a_forbidden_address_is_not_named_to_the_proxy(behind, proxy, fake_dns):
    fake_dns.names[HOST] = ["169.254.169.254"]
    one = behind(resolve_locally=True)
    assert told(one)[0] == 503
    assert "which is not connected to" in one.stderr() and not proxy.heads


@pytest.mark.parametrize("host", ["127.0.0.1", "login.localhost", "169.254.169.254"])
def test_a_forbidden_address_is_not_named_to_the_proxy(behind, proxy, host):
    one = behind(url=f"https://{host}/token")
    assert told(one)[0] == 503
    assert "which is not connected to" in one.stderr() and not proxy.heads


@pytest.mark.parametrize("endpoint", ["::1", "127.0.0.1"], indirect=True)
@pytest.mark.parametrize("allowed", [True, False])
def test_an_endpoint_may_be_an_address(serve, endpoint, mock, tmp_path, allowed):  # noqa: F811
    roots = {"ca_file": str(tmp_path / "roots.pem"), "resolve": {"api.test": mock.address}}
    one = serve(endpoint.client[1], client(token_url=f"https://{endpoint.address}/token"),
                upstream={**roots, "allow_addresses": ["::1/128", "127.0.0.1/32"]} if allowed else roots)  # fmt: skip
    if allowed:
        assert told(one) == (200, "Bearer token-number-1")
        assert [(path, fields["host"]) for _, path, fields, _ in endpoint.asked] == [("/token", endpoint.address)]
    else:
        assert told(one)[0] == 503
        assert f"{endpoint.address} is a loopback address" in one.stderr() and not endpoint.asked


def test_an_ipv6_endpoint_is_named_to_the_proxy_in_brackets(behind, proxy, endpoint):  # noqa: F811
    proxy.routes["[2606:4700::1111]:8443"] = endpoint.address
    one = behind(url="https://[2606:4700:0::1111]:8443/token")
    assert told(one)[0] == 503, "its certificate is another's"
    assert asked_for(proxy) == ["[2606:4700::1111]:8443"] and not endpoint.asked


def test_a_proxy_that_does_not_know_us_is_said_with_its_status(behind, proxy, endpoint):  # noqa: F811
    proxy.credentials = "Basic other"
    one = behind()
    assert told(one)[0] == 503
    assert "the upstream proxy answered CONNECT with 407 (look at upstream.proxy's username" in one.stderr()
    assert not endpoint.asked and PASSWORD not in one.stderr() and BASIC not in one.stderr()


def test_without_the_proxys_password_nothing_is_asked(behind, proxy, endpoint):  # noqa: F811
    one = behind(password=None)
    assert told(one)[0] == 503
    assert "credential main: the upstream proxy's password has no value on the host" in one.stderr()
    assert not proxy.heads and not endpoint.asked


@pytest.mark.parametrize("how", ["text", "switch", "huge-head", "interim-for-ever", "behind", "half"])
def test_a_proxy_that_misbehaves_is_told_nothing_and_gives_no_token(behind, proxy, endpoint, how):  # noqa: F811
    proxy.answer = BAD_ANSWERS[how]
    one = behind()
    assert told(one)[0] == 503
    assert asked_for(proxy) == [f"{HOST}:443"] and not endpoint.asked
    assert "credential main: asking the token endpoint" in one.stderr()
    assert endpoint.client[1].encode() not in proxy.heard and SECRET.encode() not in proxy.heard
