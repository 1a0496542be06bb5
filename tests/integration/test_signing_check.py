"""What `keyhole check` says of credentials that sign: each mistake, where it stands, and no value."""

import subprocess

import pytest
from common import KEYHOLE

BASE = """version: 1
credentials:
  one:
    value: {{ env: ONE }}
    {}
    hosts: [ {} ]
  two: {{ value: {{ env: TWO }}, {}, hosts: [ api.example.com ] }}
tenants:
  t: {{ rules: [ {{ allow: "https://{}", credentials: [ one, two ] }} ] }}
"""


def check(tmp_path, text):
    path = tmp_path / "k.yaml"
    path.write_text(text)
    done = subprocess.run([KEYHOLE, "check", "-c", str(path)], capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout + done.stderr


def one(placement, hosts="api.example.com", two="bearer: true", rule="api.example.com"):
    return BASE.format(placement, hosts, two, rule)


@pytest.mark.parametrize("placement", [
    "aws_sigv4: { region: eu-west-1, service: execute-api }",
    "mtls: {}",
    "mtls: { certificate: client.pem }",
    'hmac: { sign: "{body}", header: { x-sign: "{signature}" } }',
    'hmac: { sign: "{method}\\n{target}", key: hex, algorithm: sha1, timestamp: http, encoding: base64, '
    'header: { date: "{timestamp}", x-sign: "v1={signature}" } }',
])  # fmt: skip
def test_what_is_right_is_taken(tmp_path, placement):
    status, said = check(tmp_path, one(placement, two="header: { x-other: '{}' }"))
    assert status == 0, said


@pytest.mark.parametrize("text, says", [
    (one("aws_sigv4: {}"), "none of AWS's"),
    (one("aws_sigv4: { region: eu-west-1 }"), "none of AWS's"),
    (one("aws_sigv4: {}", '"*.s3.eu-west-1.amazonaws.com", "*.example.com"'), "none of AWS's"),
    (one("aws_sigv4: { region: EU-West-1, service: s3 }"), "lower-case"),
    (one("aws_sigv4: { region: eu-west-1, service: s3, access_key_id: 'AKIAIOSFODNN7EXAMPLE/x' }"), "aws_sigv4.access_key_id"),
    (one("aws_sigv4: { regoin: x }"), "did you mean \"region\""),
    (one("aws_sigv4: { region: a, service: b }\n    bearer: true"), "goes to one place"),
    (one("aws_sigv4: { region: a, service: b }", two="query: key"), "both go into"),
    (one("aws_sigv4: { region: a, service: b }", two="body: { form: key }"), "both go into"),
    (one('hmac: { sign: "{body}", header: { x-sign: "{signature}" } }', two="aws_sigv4: { region: a, service: b }"),
     "both go into"),
    (one('hmac: { sign: "{body}", header: { x-sign: "{signature}" } }', two="header: { x_sign: '{}' }"), "both go into"),
    (one("mtls: {}", two="mtls: {}"), "both go into"),
    (one('hmac: { header: { x-sign: "{signature}" } }'), "`sign` is missing"),
    (one('hmac: { sign: "{body}" }'), "hmac.header is missing"),
    (one('hmac: { sign: "{body}", header: { x-sign: "{nonce}" } }'), "must hold {signature}"),
    (one('hmac: { sign: "{bdy}", header: { x-sign: "{signature}" } }'), "{ begins one of"),
    (one('hmac: { sign: "{body}", header: { host: "{signature}" } }'), "frames or routes"),
    (one('hmac: { sign: "{body}", header: { x-sign: "{body}{signature}" } }'), "can't be used in a field"),
    (one('hmac: { sign: "{body}", algorithm: md5, header: { x-sign: "{signature}" } }'), "sha256, sha384, sha512 or sha1"),
    (one('hmac: { sign: "{body}", key: AKIAIOSFODNN7EXAMPLE, header: { x-sign: "{signature}" } }'), "text, base64 or hex"),
    (one("mtls: { certificate: '-----BEGIN PRIVATE KEY----- AKIAIOSFODNN7EXAMPLE' }"), "the path of a file"),
    (one("mtls: true"), "mtls"),
])  # fmt: skip
def test_what_is_wrong_is_said_where_it_stands_and_not_shown(tmp_path, text, says):
    status, said = check(tmp_path, text)
    assert status == 1 and says in said, said
    assert "k.yaml:" in said and "AKIAIOSFODNN7EXAMPLE" not in said
