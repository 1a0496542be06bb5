"""mtls_origin.py - an upstream that asks for a client certificate, and such certificates"""

import itertools
import json
import os
import ssl

from aws_origin import AwsOrigin
from certificates import openssl

HOST, OTHER = "mtls.test", "plain.test"
NAMES = [HOST, OTHER]


class Origin(AwsOrigin):
    """Says whose certificate it was shown, and on which connection."""

    def __init__(self, folder, client_ca, mode=ssl.CERT_REQUIRED, **more):
        super().__init__(folder, NAMES, {}, **more)
        self.context.verify_mode = mode
        self.numbers = itertools.count(1)
        if client_ca:
            self.context.load_verify_locations(client_ca)

    def judge(self, seen):
        self.seen.append(seen)
        tls = self.local.tls
        if not hasattr(self.local, "number"):  # a thread is a connection
            self.local.number = next(self.numbers)
        subject = dict(part[0] for part in (tls.getpeercert() or {}).get("subject", ()))
        return 200, json.dumps({"subject": subject.get("commonName"), "version": seen.version, "connection": self.local.number,
                                "resumed": tls.session_reused,
                                "fields": [n.lower() for n, _ in seen.headers]}).encode()  # fmt: skip


def make_ca(folder, name):
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", key,
            "-out", cert, "-days", "3", "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    return cert, key


def make_client(folder, ca, name, kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), is_ca=False):
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    openssl("req", "-x509", "-CA", ca[0], "-CAkey", ca[1], "-newkey", *kind, "-noenc", "-keyout", key, "-out", cert,
            "-days", "3", "-subj", f"/CN={name}", "-addext", f"basicConstraints=critical,CA:{str(is_ca).upper()}")  # fmt: skip
    return cert, key


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def config_of(origin, certificate):
    """One credential, the key in the daemon's secret file."""
    credential = {"value": {"file": "secret"}, "hosts": [HOST],
                  "mtls": {"certificate": certificate} if certificate else {}}  # fmt: skip
    return {
        "version": 1,
        "authority": {"certificate": "ca.pem", "key": "ca.key"},
        "listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"}],
        "upstream": {"ca_file": origin.ca, "resolve": {name: origin.address for name in NAMES}},
        "audit": {"file": "audit.jsonl"},
        "credentials": {"own": credential},
        "tenants": {"acme": {"rules": [{"allow": f"https://{HOST}", "credential": "own"},
                                       {"allow": f"https://{OTHER}"}]}},
    }  # fmt: skip
