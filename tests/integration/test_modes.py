"""mode: observe lets through what would be denied, marks it, and opens nothing else."""

import pytest
from daemons import Daemons
from harness import SECRET, Tunnel, client_context

RULES = [
    {"allow": "GET https://api.test/v1/**", "credential": "main"},
    {"deny": "https://api.test/bad"},
]


@pytest.fixture(scope="module")
def observed(mock):
    with Daemons([mock]) as daemons:
        yield daemons({"tenants": {"acme": {"mode": "observe"}},
                       "upstream": {"resolve": {"other.test": mock.address}}}, rules=RULES)  # fmt: skip


def ask(daemon, method, target, fields=(), host="api.test"):
    with Tunnel(daemon, host) as tunnel:
        return tunnel.ask(method, target, [("X-Test-Id", f"{method} {target}"), *fields], host=host)


@pytest.mark.parametrize(
    "method, target, would",
    [
        ("GET", "/v1/models?a", None),
        ("PUT", "/v1/models?b", "no_rule"),
        ("GET", "/elsewhere", "no_rule"),
        ("GET", "/bad", "denied_by_rule"),
    ],
)
def test_what_would_be_denied_goes_through_and_is_marked(observed, mock, method, target, would):
    answer = ask(observed, method, target)
    assert answer.get("proxy-status") is None, answer
    assert mock.requests(f"{method} {target}")
    record = [r for r in observed.records_of(target.partition("?")[0]) if r["event"] == "open"][-1]
    assert record.get("would_deny") == would
    assert ("credential" in record) == (would is None)


def test_no_credential_goes_where_only_the_mode_lets_a_request_through(observed, mock):
    ask(observed, "GET", "/v2/none")
    (seen,) = mock.requests("GET /v2/none")
    assert SECRET not in str(seen) and "x-api-key" not in str(seen).lower()


def test_the_clients_own_authentication_passes_and_is_marked(observed, mock):
    answer = ask(observed, "GET", "/own/auth", [("Authorization", "Bearer mine")])
    assert answer.get("proxy-status") is None, answer


def test_the_address_guard_is_never_only_observed(observed):
    context = client_context(observed.ca, check=False)
    with Tunnel(observed, "169.254.169.254", sni="", context=context) as tunnel:
        answer = tunnel.ask("GET", "/latest/meta-data", host="169.254.169.254")
    assert answer.status == 403
    assert "destination_ip_prohibited" in answer.get("proxy-status")
