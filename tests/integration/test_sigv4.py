"""A request that its client signed with a placeholder reaches AWS well signed, or not at all.

Every request that arrives upstream is judged by sigv4.py, which is written from the specification.
"""

import contextlib
import datetime
import json
import os
import subprocess
import time
import urllib.parse
import uuid

import pytest
import readable
import sigv4
from aws_origin import AwsOrigin
from clients import Tunnel, Wire
from common import HERE, KEYHOLE, ROOT, until
from daemons import Daemons
from h2client import h2_tunnel
from node_packages import packages  # noqa: F401 (a fixture)
from sandboxes import inside
from test_base_url import origin_form
from test_work_share import OTHERS, Crowd

KEY_ID, KEY, TOKEN = "AKIAREALREALREALREAL", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYREALREAL1", "FwoGZXIvYXdzEJr//////////wEaDreal+/="
FAKE_ID, FAKE_KEY = "AKIAPLACEHOLDER00000", "standinstandinstandinstandinstandin12345"
S3 = "bucket.s3.eu-west-1.amazonaws.com"
SQS = "sqs.eu-west-1.amazonaws.com"
BEDROCK = "bedrock-runtime.us-east-1.amazonaws.com"
MINIO = "minio.test"
NAMES = [S3, SQS, BEDROCK, MINIO, "iam.amazonaws.com"]
EMPTY = sigv4.EMPTY


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    one = AwsOrigin(str(tmp_path_factory.mktemp("aws")), NAMES, {KEY_ID: (KEY, TOKEN)})
    yield one
    one.stop()


def config(origin, **more):
    return {
        "version": 1,
        "authority": {"certificate": "ca.pem", "key": "ca.key"},
        "listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"}],
        "upstream": {"ca_file": origin.ca, "resolve": {name: origin.address for name in NAMES}},
        "audit": {"file": "audit.jsonl"},
        "credentials": {
            "aws": {"value": {"file": "secret"}, "aws_sigv4": {}, "hosts": [S3, SQS, BEDROCK, "iam.amazonaws.com"],
                    "shared_host": "accept"},
            "minio": {"value": {"file": "secret"}, "hosts": [MINIO],
                      "aws_sigv4": {"region": "auto", "service": "s3"}},
        },
        "tenants": {"acme": {"rules": [
            {"allow": f"https://{MINIO}", "credential": "minio"},
            *({"allow": f"https://{name}", "credential": "aws"} for name in NAMES if name != MINIO),
        ]}},
        **more,
    }  # fmt: skip


def value(**more):
    return json.dumps({"Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": KEY,
                       "SessionToken": TOKEN, **more})  # fmt: skip


@pytest.fixture(scope="module")
def daemons(origin):
    with Daemons([origin]) as made:
        yield made


@pytest.fixture(scope="module")
def daemon(daemons, origin):
    return daemons(config=config(origin), secret=value())


@pytest.fixture
def one_way_origin(tmp_path):
    """An upstream of HTTP/1 that counts what it has got so far."""
    origin = AwsOrigin(str(tmp_path), NAMES, {KEY_ID: (KEY, TOKEN)}, alpn=("http/1.1",))
    yield origin
    origin.stop()


@pytest.fixture
def one_way(one_way_origin):
    """It, and a daemon for it."""
    with Daemons([one_way_origin]) as made:
        yield made(config=config(one_way_origin), secret=value()), one_way_origin


def signer(service, region="eu-west-1", **more):
    return sigv4.Signer(FAKE_ID, FAKE_KEY, region, service, **more)


def good(answer):
    assert answer.status == 200, answer
    what = answer.json()
    assert what["id"] == KEY_ID
    return what


def ask(daemon, host, method, target, headers, body=None):
    with Tunnel(daemon, host) as tunnel:
        return tunnel.ask(method, target, headers, body)


def test_the_verifier_agrees_with_awss_own_cases():
    """Those that are normalised as services do it; what signs is held to all of them (test_sigv4_suite.c)."""
    root = os.path.join(os.environ.get("KEYHOLE_TESTDATA") or os.path.join(ROOT, "..", "shared", "testdata"), "sigv4", "v4")
    if not os.path.isdir(root):
        pytest.skip(f"AWS's signing suite is not at {root} (KEYHOLE_TESTDATA)")
    now = datetime.datetime(2015, 8, 30, 12, 36, tzinfo=datetime.timezone.utc)
    held = 0
    for name in sorted(os.listdir(root)):
        with open(os.path.join(root, name, "context.json"), encoding="utf-8") as file:
            context = json.load(file)
        with open(os.path.join(root, name, "header-signed-request.txt"), encoding="latin-1") as file:
            head, _, body = file.read().partition("\n\n")
        # Two are not what this verifier takes: a query that is no ASCII, a token that is not signed.
        if not context["normalize"] or name in ("get-vanilla-utf8-query", "post-sts-header-after"):
            continue
        first, *lines = head.split("\n")
        method, target = first.split(" ", 1)
        headers = []
        for line in lines:
            if line.startswith(" "):
                headers[-1] = (headers[-1][0], headers[-1][1] + " " + line)
            else:
                headers.append(tuple(line.split(":", 1)))
        keys = context["credentials"]
        known = {keys["access_key_id"]: (keys["secret_access_key"], keys.get("token", ""))}
        sigv4.verify(known, method, target.rpartition(" ")[0], headers, body.encode("latin-1"), now)
        held += 1
    assert held >= 29


TARGETS = [
    "/", "/key", "/a%20b/c%2Fd", "/%E1%88%B4", "/a+b", "/a:b@c", "/~x_y-z.", "/a//b/", "/a(b)'c!*",
    "/k?", "/k?uploads", "/k?list-type=2&prefix=a%2Fb&delimiter=%2F&empty=", "/k?b=2&a=1&b=1&a",
    "/k?q=%E1%88%B4&A=%41", "/k?x=a+b&y=a%2Bb", "/k?k%3Dk=v%26v", "/k?response-content-type=a/b;c",
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("host, service, region", [(S3, "s3", "eu-west-1"), (SQS, "sqs", "eu-west-1")])
def test_every_path_and_query_arrives_well_signed_and_as_it_was(daemon, host, service, region, target):
    headers = [("x-amz-content-sha256", EMPTY), ("X-Amz-Meta-Two", "b"), ("x-amz-meta-two", "a   c"),
               ("X-Amz-Meta-Empty", "")]  # fmt: skip
    what = good(ask(daemon, host, "GET", target, signer(service, region).header(
        "GET", host, target, headers, EMPTY)))  # fmt: skip
    assert what["target"] == target
    assert what["scope"].endswith(f"/{region}/{service}/aws4_request")
    assert "x-amz-security-token" in what["names"]


@pytest.mark.parametrize("service, host", [("s3", S3), ("sqs", SQS)])
@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_content_whose_hash_the_client_says_streams(daemon, service, host, size):
    body = os.urandom(size)
    headers = [("x-amz-content-sha256", sigv4.sha(body)), ("Content-Type", "text/plain")]
    what = good(ask(daemon, host, "PUT", "/k", signer(service).header(
        "PUT", host, "/k", headers, sigv4.sha(body)), body))  # fmt: skip
    assert (what["payload"], what["bytes"]) == (sigv4.sha(body), size)
    assert "content-type" in what["names"]


def test_what_streams_is_upstream_before_its_end_has_left(one_way):
    """Also what does not match: the upstream refuses it, and it was never held here."""
    daemon, origin = one_way
    body = os.urandom(200_000)
    for claim, status in [(sigv4.sha(body), 200), (sigv4.sha(b"other"), 403)]:
        headers = signer("s3").header("PUT", S3, "/k", [("x-amz-content-sha256", claim)], claim)
        before = origin.received
        with Tunnel(daemon, S3) as tunnel:
            tunnel.start("PUT", "/k", [*headers, ("Content-Length", str(len(body)))])
            tunnel.send(body[:100_000])
            until("half of it is there", lambda: origin.received - before >= 100_000)  # noqa: B023
            tunnel.send(body[100_000:])
            assert tunnel.response().status == status
    assert "not what was signed" in origin.seen[-1].wrong


@pytest.mark.parametrize("host, service", [(SQS, "sqs"), (S3, "s3")])
@pytest.mark.parametrize("chunked", [False, True])
def test_content_without_a_hash_is_held_and_hashed(daemon, host, service, chunked):
    body = os.urandom(200_000)
    sent = [(n, v) for n, v in signer(service).header("POST", host, "/q", [], sigv4.sha(body))]
    with Tunnel(daemon, host) as tunnel:
        if chunked:
            tunnel.start("POST", "/q", [*sent, ("Transfer-Encoding", "chunked")])
            for at in range(0, len(body), 50_000):
                tunnel.send(b"c350\r\n" + body[at : at + 50_000] + b"\r\n")
            tunnel.send(b"0\r\n\r\n")
            what = good(tunnel.response())
        else:
            what = good(tunnel.ask("POST", "/q", sent, body))
    assert (what["payload"], what["sha256"]) == (sigv4.sha(body), sigv4.sha(body))


def test_content_without_a_hash_that_is_too_large_is_413_and_says_why(daemons, origin):
    one = daemons(config=config(origin, limits={"held_content": "64KiB"}), secret=value())
    before = len(origin.seen)
    headers = signer("sqs").header("POST", SQS, "/", [], EMPTY)
    answer = ask(one, SQS, "POST", "/", headers, b"x" * 65537)
    assert answer.status == 413 and "x-amz-content-sha256" in answer.text()
    with Tunnel(one, SQS) as tunnel:
        tunnel.start("POST", "/", [*headers, ("Transfer-Encoding", "chunked")])
        tunnel.send(b"fff0\r\n" + b"x" * 0xFFF0 + b"\r\nff\r\n" + b"x" * 255 + b"\r\n")
        assert tunnel.response().status == 413
    good(ask(one, SQS, "POST", "/", headers, b"x" * 65536))
    assert len(origin.seen) == before + 1


def test_a_client_that_waits_for_100_sends_content_that_is_held(daemon):
    headers = [*signer("sqs").header("POST", SQS, "/", [], EMPTY), ("Expect", "100-continue"), ("Content-Length", "5")]
    with Tunnel(daemon, SQS) as tunnel:
        tunnel.start("POST", "/", headers)
        assert tunnel.read_head().status == 100
        tunnel.send(b"hello")
        assert good(tunnel.response())["bytes"] == 5


def test_unsigned_payload_stays_unsigned(daemon):
    headers = signer("s3").header("PUT", S3, "/k", [("x-amz-content-sha256", "UNSIGNED-PAYLOAD")], "UNSIGNED-PAYLOAD")
    assert good(ask(daemon, S3, "PUT", "/k", headers, b"hello"))["payload"] == "UNSIGNED-PAYLOAD"


def chunked_request(parts, trailer=None, **more):
    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
    one = signer("s3", **more)
    headers = [("Content-Encoding", "aws-chunked"), ("x-amz-content-sha256", kind),
               ("x-amz-decoded-content-length", str(sum(len(p) for p in parts)))]  # fmt: skip
    if trailer:
        headers.append(("x-amz-trailer", trailer.partition(b":")[0].decode()))
    return one.header("PUT", S3, "/k", headers, kind), one.chunks(parts, trailer)


@pytest.mark.parametrize("sizes", [[], [1], [65536, 65536, 10], [1048576, 8192], [8192] * 50])
@pytest.mark.parametrize("trailer", [None, b"x-amz-checksum-crc32:AAAAAA=="])
def test_signed_chunks_are_signed_anew_each(daemon, sizes, trailer):
    parts = [os.urandom(size) for size in sizes]
    headers, body = chunked_request(parts, trailer)
    what = good(ask(daemon, S3, "PUT", "/k", headers, body))
    assert what["sha256"] == sigv4.sha(b"".join(parts))
    assert what["trailer"] == (trailer or b"").decode()


def test_signed_chunks_leave_as_they_come(one_way):
    """Each is upstream before the next exists."""
    daemon, origin = one_way
    headers, body = chunked_request([b"a" * 9000, b"b" * 9000, b"c" * 9000])
    before = origin.received
    with Tunnel(daemon, S3) as tunnel:
        tunnel.start("PUT", "/k", [*headers, ("Content-Length", str(len(body)))])
        for n in range(3):
            tunnel.send(body[n * 9100 : (n + 1) * 9100])
            until("a chunk is there", lambda: origin.received - before >= (n + 1) * 9000)  # noqa: B023
        tunnel.send(body[3 * 9100 :])
        good(tunnel.response())


@pytest.mark.alone
def test_another_tenants_request_does_not_wait_for_chunks_that_are_signed(one_way_origin):
    """Each of a byte, in more connections than a share has work for."""
    listen = [{"unix": f"{place}/s", "tenant": tenant, "mode": "0660"} for place, tenant in (("d", "acme"), ("e", "globex"))]
    more = config(one_way_origin, listen=listen, worker={"threads": 1})
    more["tenants"]["globex"] = {"rules": []}
    chunk = b"1;chunk-signature=" + b"0" * 64 + b"\r\na\r\n"
    headers = chunked_request([b"a" * 100_000])[0]
    with Daemons([one_way_origin]) as made, contextlib.ExitStack() as stack:
        daemon = made(config=more, secret=value())
        crowd = Crowd(daemon, 0)
        for _ in range(20):
            tunnel = stack.enter_context(Tunnel(daemon, S3))
            tunnel.start("PUT", "/k", [*headers, ("Content-Length", str(100_000 * len(chunk)))])
            tunnel.send(chunk)
            crowd.socks.append(tunnel.sock)
        until("all have begun", lambda: one_way_origin.received >= 20 * len(chunk))
        wire = stack.enter_context(Wire(inside(daemon, os.path.join(daemon.folder, "e", "s")).socket_path))
        wire.send(OTHERS)
        assert wire.response().status == 403
        with crowd.until_another_is_answered(wire, chunk * 5000, once=True):
            time.sleep(0.5)  # until the origin has read it
            assert one_way_origin.received < 4000 * len(chunk)


def test_a_trailer_that_nobody_signed_passes_with_content_that_is_unsigned(daemon):
    kind = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    headers = signer("s3").header("PUT", S3, "/k", [
        ("Content-Encoding", "aws-chunked"), ("x-amz-content-sha256", kind),
        ("x-amz-decoded-content-length", "5"), ("x-amz-trailer", "x-amz-checksum-crc32")], kind)  # fmt: skip
    body = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"
    what = good(ask(daemon, S3, "PUT", "/k", headers, body))
    assert (what["bytes"], what["trailer"]) == (5, "x-amz-checksum-crc32:NhCmhg==")


@pytest.mark.parametrize("body, what", [
    (b"5\r\nhello\r\n0\r\n\r\n", "chunk-signature"),
    (b"200000;chunk-signature=" + b"0" * 64 + b"\r\n", "smaller"),
    (b"5;chunk-signature=" + b"0" * 64 + b"\r\nhello, world", "longer"),
    (b"5;chunk-signature=" + b"0" * 64 + b"\r\nhello\r\n", "last chunk"),
])  # fmt: skip
def test_chunks_that_are_none_end_the_request(daemon, origin, body, what):
    headers, _ = chunked_request([b"hello"])
    before = len(origin.seen)
    answer = ask(daemon, S3, "PUT", "/k", headers, body)
    assert answer.status in (400, 413) and what in answer.text(), answer
    assert len(origin.seen) == before, "nothing that is not whole was taken for a request"


# --- the query form


def test_a_presigned_url_is_signed_anew(daemon):
    target = signer("s3", token="fake").query("GET", S3, "/a%20b?x-id=GetObject&versionId=1", expires=77)
    what = good(ask(daemon, S3, "GET", target, []))
    assert (what["form"], what["expires"], what["payload"]) == ("query", 77, "UNSIGNED-PAYLOAD")
    assert "/a%20b?versionId=1&x-id=GetObject&X-Amz-" in what["target"]


@pytest.mark.parametrize("connect", [Tunnel, h2_tunnel])
def test_a_presigned_url_of_ours_does_not_come_back(daemon, origin, connect):
    """Whoever has one can use it without us until it expires: so it is short, and no field of an answer holds it."""
    target = signer("s3", token="fake").query("GET", S3, "/login?a=1", expires=604800)
    with connect(daemon, S3) as tunnel:
        answer = tunnel.ask("GET", target, [])
    assert answer.status == 200
    sent = origin.seen[-1]
    assert sent.signed.expires == 900
    for name in ("location", "x-next"):
        back = urllib.parse.unquote(urllib.parse.unquote(answer.get(name)))
        assert back.count("keyhole") == 3 and "/login?a=1" in back
        for secret in (sent.signed.signature, KEY_ID, TOKEN):
            assert secret not in back, name


def test_a_presigned_url_with_fields_and_content(daemon):
    fields = [("x-amz-meta-a", "b"), ("Content-Type", "text/plain")]
    target = signer("s3").query("PUT", S3, "/k?x-amz-acl=private", fields)
    what = good(ask(daemon, S3, "PUT", target, fields, b"hello"))
    assert {"host", "x-amz-meta-a"} <= set(what["names"])
    assert "x-amz-acl=private" in what["target"]


def test_a_presigned_url_of_another_service_covers_its_content(daemon):
    target = signer("sqs").query("POST", SQS, "/?Action=SendMessage", payload=EMPTY)
    assert good(ask(daemon, SQS, "POST", target, [], b"hello"))["payload"] == sigv4.sha(b"hello")


def test_an_expired_presigned_url_is_not_brought_back(daemon, origin):
    old = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)).strftime("%Y%m%dT%H%M%SZ")
    one = signer("s3")
    target = one.query("GET", S3, "/k", expires=3600).replace(one.time, old)
    before = len(origin.seen)
    answer = ask(daemon, S3, "GET", target, [])
    assert answer.status == 403 and "expired" in answer.text()
    assert len(origin.seen) == before


# --- whose signature it is


def test_nothing_of_a_clients_own_keys_reaches_the_upstream(daemon, origin):
    mine = sigv4.Signer("AKIAATTACKERATTACKER", "attackers-own", "eu-west-1", "s3", "attackers-token")
    headers = mine.header("GET", S3, "/k", [("x-amz-content-sha256", EMPTY)], EMPTY)
    target = mine.query("GET", S3, "/k?token=attackers-own&AWSAccessKeyId=attackers-own")
    for asked, sent in [("/k", headers), (target, []), (target, headers),
                        ("/k", [*headers, ("Authorization", "Bearer attackers-own"), ("Cookie", "a=attackers-own")]),
                        ("/k", [("X-Amz-Security-Token", "attackers-token")])]:  # fmt: skip
        good(ask(daemon, S3, "GET", asked, sent))
        seen = origin.seen[-1]
        everything = repr((seen.target, seen.headers)).lower()
        assert "attacker" not in everything
        assert mine.id.lower() not in everything


def test_a_client_that_signs_nothing_is_signed_for_by_its_host(daemon):
    assert good(ask(daemon, S3, "GET", "/", []))["scope"].endswith("eu-west-1/s3/aws4_request")
    what = good(ask(daemon, BEDROCK, "POST", "/model/a.b-v1%3A0/converse", [("Authorization", "Bearer x")], b"{}"))
    assert what["scope"].endswith("us-east-1/bedrock/aws4_request")


@pytest.mark.parametrize("host, region, service", [
    (S3, "eu-west-1", "iam"), (S3, "us-east-1", "s3"), (BEDROCK, "us-east-1", "s3"), (SQS, "eu-west-1", "sts"),
])  # fmt: skip
def test_a_client_does_not_choose_another_service_than_its_hosts(daemon, origin, host, region, service):
    before = len(origin.seen)
    answer = ask(daemon, host, "GET", "/", signer(service, region).header("GET", host, "/", [], EMPTY))
    assert answer.status == 403 and f"{service} in {region}" in answer.text()
    assert len(origin.seen) == before


def test_the_configuration_says_it_for_a_host_that_is_none_of_awss(daemon):
    headers = signer("s3", "us-east-1").header("GET", MINIO, "/a%20b", [("x-amz-content-sha256", EMPTY)], EMPTY)
    assert good(ask(daemon, MINIO, "GET", "/a%20b", headers))["scope"].endswith("auto/s3/aws4_request")


def test_a_host_without_a_region_takes_the_clients(daemon, origin):
    headers = signer("iam", "us-east-1").header("POST", "iam.amazonaws.com", "/", [], EMPTY)
    assert good(ask(daemon, "iam.amazonaws.com", "POST", "/", headers))["scope"].endswith("us-east-1/iam/aws4_request")
    before = len(origin.seen)
    answer = ask(daemon, "iam.amazonaws.com", "POST", "/", [])
    assert answer.status == 403 and "region" in answer.text()
    assert len(origin.seen) == before


def test_signature_4a_is_refused_by_name(daemon, origin):
    before = len(origin.seen)
    answer = ask(daemon, S3, "GET", "/", [("Authorization", "AWS4-ECDSA-P256-SHA256 Credential=a/20260101/s3/aws4_request")])
    assert answer.status == 403 and "4A" in answer.text()
    assert len(origin.seen) == before


# --- HTTP/2 on both sides, and kept connections


def test_over_http2_all_of_it_is_well_signed(daemon, origin):
    parts = [os.urandom(70_000), b"end"]
    headers, body = chunked_request(parts, b"x-amz-checksum-crc32:AAAAAA==")
    plain = [(n.lower(), v) for n, v in headers if n.lower() != "host"]
    with h2_tunnel(daemon, S3) as client:
        answer = client.ask("PUT", "/k?a=%20&b", [*plain, ("content-length", str(len(body)))], body)
        assert answer.status == 200, answer.body
        assert json.loads(answer.body)["sha256"] == sigv4.sha(b"".join(parts))
        assert client.ask("GET", signer("s3").query("GET", S3, "/q")).status == 200
    assert origin.seen[-1].version == "2"


def test_many_requests_on_one_connection_are_each_signed(daemon):
    with Tunnel(daemon, SQS) as tunnel:
        for n in range(20):
            body = os.urandom(n * 100)
            good(tunnel.ask("POST", f"/{n}", signer("sqs").header("POST", SQS, f"/{n}", [], EMPTY), body))


# --- values that are none


@pytest.mark.parametrize("text, what", [
    ("{\"AccessKeyId\":", "JSON"), ("{\"Version\":1}", "AccessKeyId"), (value(Expiration="tomorrow"), "Expiration"),
    (value(Expiration="2020-01-01T00:00:00Z"), "expired"), ("not-a-key-of-three-lines", "JSON"),
])  # fmt: skip
def test_keys_that_are_none_let_nothing_out(daemons, origin, text, what):
    one = daemons(config=config(origin), secret=text)
    before = len(origin.seen)
    answer = ask(one, S3, "GET", "/", signer("s3").header("GET", S3, "/", [], EMPTY))
    assert answer.status == 503 and "aws" in answer.text() and what in answer.text()
    assert KEY not in answer.text() and KEY not in one.stderr()
    assert len(origin.seen) == before


def test_a_clock_that_is_off_is_said_in_the_log(daemons, tmp_path):
    late = AwsOrigin(str(tmp_path), NAMES, {KEY_ID: (KEY, TOKEN)}, clock=3600)
    try:
        one = daemons(config=config(late), secret=value())
        good(ask(one, S3, "GET", "/", []))
        until("the log says it", lambda: "set the clock (NTP)" in one.stderr())
        assert "behind" in one.stderr()
    finally:
        late.stop()


# --- where the keys come from


def by_variables(origin, **options):
    one = config(origin)
    del one["credentials"]["minio"]
    one["tenants"]["acme"]["rules"].pop(0)
    one["credentials"]["aws"].update(value={"env": "AWS_SECRET_ACCESS_KEY"}, aws_sigv4=options)
    return one


@pytest.mark.parametrize("options, env", [
    ({}, {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": KEY, "AWS_SESSION_TOKEN": TOKEN}),
    ({"access_key_id": "MY_ID", "session_token": "MY_TOKEN"},
     {"MY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": KEY, "MY_TOKEN": TOKEN, "AWS_SESSION_TOKEN": "another-one"}),
    ({}, {"AWS_SECRET_ACCESS_KEY": value()}),
])  # fmt: skip
def test_the_keys_may_stand_in_variables(daemons, origin, options, env):
    one = daemons(config=by_variables(origin, **options), env=env)
    good(ask(one, S3, "GET", "/", []))
    for pid in (one.process.pid, one.worker_pid()):
        with contextlib.suppress(PermissionError), open(f"/proc/{pid}/environ", "rb") as file:
            left = file.read()
            assert KEY.encode() not in left and TOKEN.encode() not in left


def test_a_key_without_its_id_is_said_by_name(daemons, origin):
    one = daemons(config=by_variables(origin), env={"AWS_SECRET_ACCESS_KEY": KEY})
    assert ask(one, S3, "GET", "/", []).status == 503
    assert "AWS_ACCESS_KEY_ID is not set" in one.stderr() and KEY not in one.stderr()


def test_what_a_command_prints_is_used_and_renewed(daemons, origin, tmp_path):
    """`aws configure export-credentials`: keys that last a while."""
    made = tmp_path / "aws"
    soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    made.write_text("#!/bin/sh\ncat <<'END'\n" + value(Expiration=soon) + "\nEND\n")
    made.chmod(0o700)
    one = config(origin)
    one["credentials"]["aws"]["value"] = {"exec": [str(made), "configure", "export-credentials"]}
    good(ask(daemons(config=one, secret=value()), S3, "GET", "/", []))


def test_the_preset_bedrock_signs_where_there_is_an_access_key(daemons, origin):
    one = config(origin)
    del one["credentials"]
    one["tenants"]["acme"]["rules"] = [{"use": "bedrock"}]
    env = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": KEY, "AWS_SESSION_TOKEN": TOKEN}
    made = daemons(config=one, env=env)
    headers = signer("bedrock", "us-east-1").header("POST", BEDROCK, "/model/a/converse", [], EMPTY)
    assert good(ask(made, BEDROCK, "POST", "/model/a/converse", headers, b"{}"))["scope"].endswith("bedrock/aws4_request")
    assert ask(made, BEDROCK, "POST", "/guardrail/a/version/1/apply", headers, b"{}").status == 403


def test_no_key_lies_in_a_page_that_can_be_read(daemon, origin):
    """The secret access key, the day's key, what HMAC makes of it, and the token, in both processes."""
    with Tunnel(daemon, S3) as tunnel:
        for _ in range(3):
            headers, body = chunked_request([b"a" * 70_000], b"x-amz-checksum-crc32:AAAAAA==")
            scope = good(tunnel.ask("PUT", "/k", headers, body))["scope"]
            good(tunnel.ask("GET", signer("s3").query("GET", S3, "/k"), []))
    daemon.settle([origin])
    date, region, service, _ = scope.split("/")
    key = sigv4.signing_key(KEY, date, region, service)
    secrets = [KEY.encode(), key, bytes(b ^ 0x36 for b in key), bytes(b ^ 0x5C for b in key), KEY.encode()[:26]]
    try:
        assert readable.found(daemon.worker_pid(), [b"content-length"]), "it looks"
        assert readable.found(daemon.worker_pid(), [*secrets, TOKEN.encode()]) == []
        assert readable.found(daemon.process.pid, secrets) == []
    except PermissionError:
        pytest.skip("the daemon's memory can't be looked into here")


# --- clients that people use


def presigned(daemon, extra=""):
    return signer("s3").query("GET", S3, "/" + uuid.uuid4().hex + "?x-amz-meta-colour=red" + extra)


def test_the_journal_names_what_was_taken_out_and_not_what_stays(daemon):
    target = presigned(daemon, "&response-content-type=text%2Fplain")
    what = good(ask(daemon, S3, "GET", target, []))
    path = target.partition("?")[0]
    assert "x-amz-meta-colour=red" in what["target"].lower() and "response-content-type" in what["target"]
    stripped = daemon.records_of(path)[0]["stripped"].lower().split(",")
    assert "x-amz-meta-colour" not in stripped and "response-content-type" not in stripped
    assert {"x-amz-signature", "x-amz-credential", "x-amz-date"} <= set(stripped)


@pytest.mark.parametrize("name", ["x-amz-copy-source", "X-Amz-Copy-Source", "x%2Damz-copy-source", "x-amz-rename-source"])
def test_a_source_in_a_presigned_query_is_decided_as_a_read_of_it(daemons, origin, name):
    rules = [{"deny": f"https://{S3}/secret/**"}, {"allow": f"GET,PUT https://{S3}", "credential": "aws"}]
    one = daemons(config=config(origin, tenants={"acme": {"rules": rules}}), secret=value())
    before = len(origin.seen)
    for source in ("%2Fbucket%2Fsecret%2Fk", "%2Fbucket%2F%2573ecret%2Fk", "%2Fother-bucket%2Fk", "arn%3Aaws%3As3"):
        answer = ask(one, S3, "PUT", signer("s3").query("PUT", S3, f"/out/k?{name}={source}"), [])
        assert answer.status == 403 and "a field or parameter" in answer.text(), answer.text()
    assert len(origin.seen) == before
    if name == "x-amz-copy-source":
        good(ask(one, S3, "PUT", signer("s3").query("PUT", S3, f"/out/k?{name}=%2Fbucket%2Fopen%2Fk"), []))


def test_a_placeholder_in_a_parameter_that_stays_is_exfiltration(daemons, origin):
    one = daemons(config=placeholders(origin), secret=value())
    mine = one_env(one)["AWS_ACCESS_KEY_ID"]
    before = len(origin.seen)
    answer = ask(one, S3, "GET", f"/k?x-amz-meta-note={mine}", [])
    assert answer.status == 403 and "exfiltration" in answer.text()
    assert len(origin.seen) == before


def placeholders(origin, **more):
    made = config(origin)
    made["credentials"]["aws"].update(placeholder={"env": "AWS_SECRET_ACCESS_KEY"}, **more)
    return made


def one_env(one):
    return origin_form(one, "/env", [("Accept", "application/json")]).json()


@pytest.mark.parametrize("how", ["header", "query"])
def test_one_that_requires_its_placeholder_is_signed_with_that_alone(daemons, origin, how):
    one = daemons(config=placeholders(origin, require_placeholder=True), secret=value())
    env = one_env(one)

    def asked(key_id):
        by = sigv4.Signer(key_id, env["AWS_SECRET_ACCESS_KEY"], "eu-west-1", "s3")
        if how == "query":
            return ask(one, S3, "GET", by.query("GET", S3, "/k"), [])
        headers = by.header("GET", S3, "/k", [("x-amz-content-sha256", EMPTY)], EMPTY)
        return ask(one, S3, "GET", "/k", [(n, v) for n, v in headers if n != "Host"])

    before = len(origin.seen)
    assert good(asked(env["AWS_ACCESS_KEY_ID"]))
    ours = env["AWS_ACCESS_KEY_ID"]
    for other in (FAKE_ID, "", ours[:-1] + ("B" if ours.endswith("A") else "A")):
        answer = asked(other)
        assert answer.status == 403 and "placeholder" in answer.text(), (other, answer.text())
    answer = ask(one, S3, "GET", "/k", [])
    assert answer.status == 403 and "placeholder" in answer.text()
    assert len(origin.seen) == before + 1


def test_curl_signs_with_a_placeholder(daemon, curl):
    done = curl(daemon, "--aws-sigv4", "aws:amz:eu-west-1:s3", "--user", f"{FAKE_ID}:{FAKE_KEY}",
                "--data-binary", "hello", "-X", "PUT", f"https://{S3}/a%20b?x=1&y")  # fmt: skip
    what = json.loads(done.stdout)
    assert (what["id"], what["bytes"]) == (KEY_ID, 5), done
    done = curl(daemon, "--aws-sigv4", "aws:amz:eu-west-1:sqs", "--user", f"{FAKE_ID}:{FAKE_KEY}", f"https://{SQS}/")
    assert json.loads(done.stdout)["id"] == KEY_ID


def test_the_sdk_of_aws_signs_with_placeholders(daemon, origin, packages):
    before = len(origin.seen)
    done = subprocess.run(
        ["node", os.path.join(HERE, "aws_client.js"), daemon.socket_path, daemon.ca, "eu-west-1", "bucket"],
        env={"PATH": os.environ["PATH"], "NODE_PATH": packages, "AWS_ACCESS_KEY_ID": FAKE_ID,
             "AWS_SECRET_ACCESS_KEY": FAKE_KEY, "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    said = {one["what"]: one["value"] for one in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert said["get"]["id"] == said["invoke"]["id"] == KEY_ID
    seen = origin.seen[before:]
    assert [s.wrong for s in seen] == [None] * len(seen)
    assert {s.signed.service for s in seen} == {"s3", "bedrock"}
    streamed = next(s for s in seen if s.target.startswith("/stream"))
    assert len(streamed.signed.content) == 200_000
    assert FAKE_ID not in repr([(s.target, s.headers) for s in seen])


@pytest.mark.parametrize(
    "source, passes",
    [
        ("/bucket/public/y", True),
        ("bucket/public/y?versionId=1", True),
        ("/bucket/private/key.pem", False),  # a rule denies it
        ("/bucket/elsewhere/y", False),  # allowed without the credential
        ("/other-bucket/public/y", False),
        ("arn:aws:s3:eu-west-1:1:accesspoint/p/object/public/y", False),
    ],
)
def test_what_a_server_is_asked_to_copy_is_decided_as_a_read_of_it(daemons, origin, source, passes):
    one = config(origin)
    one["credentials"]["aws"] |= {"hosts": [S3], "paths": ["/public/**", "/private/**"]}
    one["tenants"]["acme"]["rules"] = [
        {"deny": f"GET https://{S3}/private/**"},
        {"allow": f"GET,PUT https://{S3}/public/**", "credential": "aws"},
        {"allow": f"GET https://{S3}/elsewhere/**"},
    ]
    daemon = daemons(config=one, secret=value())
    headers = [("x-amz-copy-source", source)]
    signed = signer("s3").header("PUT", S3, "/public/x", headers, EMPTY)
    before = len(origin.seen)
    answer = ask(daemon, S3, "PUT", "/public/x", signed)
    assert (answer.status == 200) == passes, answer.text()
    assert len(origin.seen) == before + passes
    words = [KEYHOLE, "explain", "-c", daemon.config_path, "-H", "x-amz-copy-source: " + source, "PUT", f"https://{S3}/public/x"]
    assert subprocess.run(words, capture_output=True, timeout=20, check=False).returncode == (0 if passes else 3)
