"""Where questions to nameservers come from."""

from harness import Wire


def test_questions_one_after_another_come_from_new_ports(daemon, fake_dns):
    one = daemon({"worker": {"threads": 1}, "upstream": {"nameservers": [fake_dns.address], "resolve": None}},
                 rules=[{"allow": "http://*.evil.test"}])  # fmt: skip
    last = []
    for n in range(12):
        with Wire(one.socket_path) as wire:
            assert wire.ask("GET", f"http://n{n}.evil.test/", host=f"n{n}.evil.test").status == 502
        last.append(fake_dns.ports[-1])
    # The kernel draws them; two may be the same by chance.
    assert len(set(last)) >= 10
