"""Scopes are a sandbox's to choose: one that asks for thousands of them has its share, and no more."""

import collections
import json
import select
import threading

import pytest
from harness import Tunnel, until
from test_tokens import app, endpoint, serve  # noqa: F401

Acceptor = collections.namedtuple("Acceptor", "socket_path ca")
AT_A_TIME, RUNNING = 32, 4  # KH_LIMIT_SCOPES_ASKED, KH_LIMIT_FETCHERS_PER_SANDBOX


@pytest.fixture
def hanging(endpoint):  # noqa: F811
    """The endpoint answers for the repositories of `evil` when this is set."""
    event = threading.Event()
    usual = endpoint.answer

    def answer(request, body):
        if "evil" in body:
            event.wait(60)
        return usual(request, body)

    endpoint.answer = answer
    yield event
    event.set()


def ask_for(acceptor, repository):
    tunnel = Tunnel(acceptor, "api.test")
    tunnel.start("GET", f"/repos/somebody/{repository}/issues")
    tunnel.send(b"")
    return tunnel


def of_evil(endpoint):  # noqa: F811
    return [json.loads(body)["repositories"] for _, _, _, body in endpoint.asked if "evil" in body]


def test_a_sandbox_whose_tokens_hang_holds_up_none_but_itself(serve, endpoint, hanging):  # noqa: F811
    one = serve(
        endpoint.make_key("app"), app(installation_id=77, per_repository=True, timeout="60s"),
        listen=[{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "acme"}],
    )  # fmt: skip
    good = Acceptor(one.socket_path.replace("/d/s", "/e/s"), one.ca)
    asked = [ask_for(one, f"evil-{i}") for i in range(AT_A_TIME + 8)]
    # Those that wait give up some time; what they have asked for is under way still.
    until("as many wait as may", lambda: len(answered(asked)) >= 8, 60)
    until("as many are asked for as may be", lambda: len(of_evil(endpoint)) == RUNNING, 60)
    with Tunnel(one, "api.test") as tunnel:
        for i in range(500):
            answer = tunnel.ask("GET", f"/repos/somebody/evil-more-{i}/issues")
            assert answer.status == 503 and "too many values of the credential main" in answer.text()
    # Nothing of evil's is answered yet. Another's request is, behind all of them.
    for repository in ("tools", "tools", "other"):
        with Tunnel(good, "api.test") as tunnel:
            assert tunnel.ask("GET", f"/repos/somebody/{repository}/issues").status != 503
    assert len(of_evil(endpoint)) == RUNNING
    hanging.set()
    for tunnel in asked:
        tunnel.response()
        tunnel.close()
    until("the others of its share have had their turn", lambda: len(of_evil(endpoint)) == AT_A_TIME, 60)


def answered(tunnels):
    return select.select([tunnel.sock for tunnel in tunnels], [], [], 0)[0]
