"""A name that leads to an address of this host or of its networks is refused, however it gets there."""

import pytest
from harness import Tunnel, client_context

REFUSED = {
    "loopback": "127.0.0.1",
    "loopback2": "127.255.255.254",
    "zero": "0.0.0.0",
    "private10": "10.0.0.1",
    "private172": "172.31.255.254",
    "private192": "192.168.1.1",
    "cgnat": "100.64.0.1",
    "linklocal": "169.254.1.1",
    "metadata": "169.254.169.254",
    "metadata-aliyun": "100.100.100.200",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "reserved": "240.0.0.1",
    "documentation": "192.0.2.1",
    "benchmark": "198.18.0.1",
    "v6-loopback": "::1",
    "v6-unspecified": "::",
    "v6-linklocal": "fe80::1",
    "v6-ula": "fd00::1",
    "v6-metadata": "fd00:ec2::254",
    "v6-multicast": "ff02::1",
    "v6-documentation": "2001:db8::1",
    "mapped-loopback": "::ffff:127.0.0.1",
    "mapped-metadata": "::ffff:169.254.169.254",
    "nat64-loopback": "64:ff9b::7f00:1",
    "nat64-private": "64:ff9b::a00:1",
    "nat64-local": "64:ff9b:1::7f00:1",
    "6to4-loopback": "2002:7f00:1::1",
    "teredo": "2001:0:7f00:1::1",
    "compatible": "::127.0.0.1",
}


def open_rules(fake_dns, **upstream):
    return (
        {"upstream": {"nameservers": [fake_dns.address], "resolve": None, **upstream}},
        [{"allow": "https://**"}, {"allow": "https://**:9443"}],
    )


def test_every_special_address_behind_a_name_is_refused(daemon, fake_dns):
    overrides, rules = open_rules(fake_dns)
    one = daemon(overrides, rules=rules)
    for name, address in REFUSED.items():
        host = name + ".evil.test"
        fake_dns.names[host] = [address]
        with Tunnel(one, host) as tunnel:
            answer = tunnel.ask("GET", "/")
        assert answer.status == 403, (name, answer)
        assert "destination_ip_prohibited" in answer.get("proxy-status"), (name, answer)
        assert fake_dns.asked.count(host) > 0, name


@pytest.mark.parametrize(
    "literal",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]",
     "[fe80::1]", "[64:ff9b::7f00:1]", "[::]"],
)  # fmt: skip
def test_an_address_literal_meets_the_guard_though_a_rule_allows_it(daemon, fake_dns, literal):
    overrides, rules = open_rules(fake_dns)
    one = daemon(overrides, rules=rules)
    with Tunnel(one, literal, sni="", context=client_context(one.ca, check=False)) as tunnel:
        answer = tunnel.ask("GET", "/", host=literal)
    assert answer.status == 403
    assert "destination_ip_prohibited" in answer.get("proxy-status")


def test_the_refusal_names_the_class_and_not_what_else_is_there(daemon, fake_dns):
    overrides, rules = open_rules(fake_dns)
    fake_dns.names["meta.evil.test"] = ["169.254.169.254"]
    one = daemon(overrides, rules=rules)
    with Tunnel(one, "meta.evil.test") as tunnel:
        text = tunnel.ask("GET", "/").text()
    assert "metadata" in text or "link-local" in text


def test_allow_addresses_opens_exactly_what_it_says(daemon, fake_dns, mock):
    overrides, rules = open_rules(fake_dns, allow_addresses=["127.0.0.1/32"])
    rules = [{"allow": f"https://**:{mock.port}"}]
    one = daemon(overrides, rules=rules)
    fake_dns.names["api.test"] = ["127.0.0.1"]
    fake_dns.names["open.test"] = ["127.0.0.2"]
    with Tunnel(one, "api.test", mock.port) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host=f"api.test:{mock.port}").status == 200
    with Tunnel(one, "open.test", mock.port) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host=f"open.test:{mock.port}").status == 403


def test_a_mixed_answer_is_dialled_only_where_it_may_be(daemon, fake_dns, mock):
    """One good address among bad ones: never the bad ones."""
    overrides, _ = open_rules(fake_dns, allow_addresses=["127.0.0.1/32"])
    one = daemon(overrides, rules=[{"allow": f"https://**:{mock.port}"}])
    fake_dns.names["api.test"] = ["127.0.0.3", "10.1.2.3", "::1", "127.0.0.1"]
    with Tunnel(one, "api.test", mock.port) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host=f"api.test:{mock.port}").status == 200


def test_a_name_that_changes_its_mind_is_judged_each_time(daemon, fake_dns, mock):
    """DNS rebinding: what is checked is what is dialled, not what the name said before."""
    overrides, _ = open_rules(fake_dns, allow_addresses=["127.0.0.1/32"])
    one = daemon(overrides, rules=[{"allow": f"https://**:{mock.port}"}])
    turns = iter(["127.0.0.1", "127.0.0.2", "169.254.169.254"] + ["127.0.0.2"] * 50)
    fake_dns.names["api.test"] = lambda: [next(turns)]
    for _ in range(4):
        with Tunnel(one, "api.test", mock.port) as tunnel:
            answer = tunnel.ask("GET", "/test/echo", [("Connection", "close")],
                                host=f"api.test:{mock.port}")  # fmt: skip
        assert answer.status in (200, 403)
        if answer.status == 403:
            assert "destination_ip_prohibited" in answer.get("proxy-status")


def test_a_truncated_answer_is_asked_again_over_tcp(daemon, fake_dns, mock):
    overrides, _ = open_rules(fake_dns, allow_addresses=["127.0.0.1/32"])
    one = daemon(overrides, rules=[{"allow": f"https://**:{mock.port}"}])
    fake_dns.names["api.test"] = ("truncated", ["127.0.0.1"])
    with Tunnel(one, "api.test", mock.port) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host=f"api.test:{mock.port}").status == 200


def test_a_pin_is_the_operators_word(shared, mock):
    """upstream.resolve leads to loopback here, and needs no exception of the guard."""
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


def test_no_pin_reaches_a_neighbour_of_its_name(shared, mock):
    mark = mock.mark()
    with Tunnel(shared, "sub.api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 403
    assert mock.requests(since=mark) == []
