"""Session tickets for the sandbox: for clients that come back with them, few for others."""

import ssl

from harness import Tunnel, client_context

UNASKED, EVERY = 32, 8


class Resuming(Tunnel):
    """A tunnel whose handshake offers a session."""

    session = None

    def start_tls(self, daemon, sni, alpn=("http/1.1",), context=None):
        self.sock = context.wrap_socket(self.sock, server_hostname=sni, session=self.session,
                                        suppress_ragged_eofs=False)  # fmt: skip


def connect(daemon, context, session=None):
    """Return: was a session resumed, and the ticket that came (or None)."""
    kind = type("One", (Resuming,), {"session": session})
    with kind(daemon, "api.test", context=context) as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        given = tunnel.sock.session
        return tunnel.sock.session_reused, given if given and given.has_ticket else None


def test_a_client_that_never_resumes_gets_few_tickets_and_one_that_does_gets_each(daemon):
    running = daemon({"worker": {"threads": 1}})
    context = client_context(running.ca)
    assert ssl.HAS_TLSv1_3 and context.maximum_version == ssl.TLSVersion.MAXIMUM_SUPPORTED
    given = [connect(running, context)[1] for _ in range(UNASKED + 4 * EVERY)]
    assert all(given[:UNASKED]), "who may still come back gets one each time"
    assert sum(1 for ticket in given[UNASKED:] if ticket) == 4, "one in eight"
    resumed, again = connect(running, context, given[0])
    assert resumed and again
    given = [connect(running, context)[1] for _ in range(UNASKED)]
    assert all(given[1:]), "from then on each time again"
