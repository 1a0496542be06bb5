"""daemons.py - the configuration that most tests begin with, and daemons that are looked after"""

import copy

from harness import Daemon

NAMES = ["api.test", "open.test", "auth.test", "a.wild.test", "b.a.wild.test", "wild.test",
         "api.anthropic.com", "other.test", "127.0.0.1"]  # fmt: skip


def base_config(mock):
    """A tenant with a rule of each kind; tests override the parts that they are about."""
    return {
        "version": 1,
        "authority": {"certificate": "ca.pem", "key": "ca.key"},
        "listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"}],
        "upstream": {
            "ca_file": mock.ca,
            "resolve": {name: mock.address for name in NAMES if name != "127.0.0.1"},
        },
        "audit": {"file": "audit.jsonl"},
        "credentials": {
            "main": {
                "value": {"file": "secret"},
                "header": {"x-api-key": "{}"},
                "hosts": ["api.test", "api.anthropic.com"],
            },
        },
        "tenants": {
            "acme": {
                "rules": [
                    {"allow": "https://api.test", "credential": "main", "websocket": True},
                    {"allow": "https://open.test"},
                    {"allow": "https://auth.test", "client_auth": "pass"},
                ]
            }
        },
    }


def merge(config, overrides):
    for name, value in overrides.items():
        if isinstance(value, dict) and isinstance(config.get(name), dict):
            merge(config[name], value)
        elif value is None:
            config.pop(name, None)
        else:
            config[name] = copy.deepcopy(value)
    return config


class Daemons:
    """Starts daemons, and at the end holds each to what must be true after every test."""

    def __init__(self, upstreams):
        self.upstreams = upstreams
        self.daemons = []

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        try:
            if not failed:
                self.check()
        finally:
            self.end()

    def __call__(self, overrides=None, rules=None, config=None, **options):
        config = config or merge(base_config(self.upstreams[0]), overrides or {})
        if rules is not None:
            config["tenants"]["acme"]["rules"] = rules
        daemon = Daemon(config, **options)
        self.daemons.append(daemon)
        return daemon

    def check(self):
        for daemon in self.daemons:
            if daemon.process and getattr(daemon, "checked", True):
                daemon.settle(self.upstreams)

    def end(self):
        try:
            for daemon in self.daemons:
                if daemon.process and getattr(daemon, "checked", True):
                    daemon.stop()
                    daemon.verify()
                    daemon.check_secret()
        finally:
            for daemon in self.daemons:
                daemon.remove()
            for upstream in self.upstreams:
                upstream.check_forbidden()
