"""Programs that people have, unmodified, in a sandbox: each finds the proxy and trusts its CA."""

import json
import os
import shutil
import sys

import pytest
from conftest import HERE, PATIENCE  # noqa: F401

sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration")]
from harness import SECRET, Upstream  # noqa: E402
from test_run import Run  # noqa: E402

NAME = "open.test"


@pytest.fixture(scope="module")
def mock(tmp_path_factory):
    upstream = Upstream(str(tmp_path_factory.mktemp("mock")), [NAME, "keyed.test"])
    yield upstream
    upstream.stop()


@pytest.fixture
def inside(sandbox, mock, tmp_path):
    """inside(args…): a command behind the proxy, with one open host and one with a key."""
    run = Run(sandbox)
    conf = sandbox.folder("conf", 0o700)
    ca = sandbox.file(os.path.join(conf, "roots.pem"), open(mock.ca, encoding="ascii").read())
    token = sandbox.file(os.path.join(conf, "token"), SECRET, 0o600)
    config = {
        "version": 1,
        "upstream": {"ca_file": ca, "resolve": {n: mock.address for n in (NAME, "keyed.test")}},
        "credentials": {
            "key": {"value": {"file": token}, "header": {"x-api-key": "{}"}, "hosts": ["keyed.test"],
                    "placeholder": {"env": "SOME_API_KEY"}},
        },
        "tenants": {"one": {"rules": [
            {"allow": f"https://{NAME}"},
            {"allow": "https://keyed.test", "credential": "key"},
        ]}},
    }  # fmt: skip
    path = sandbox.file(os.path.join(conf, "keyhole.yaml"), json.dumps(config))

    def go(*args, options=(), check=0):
        done = run("-q", "-c", path, "--engine", sandbox.engine, *options, "--", *args, use=None, check=check)
        assert SECRET not in done.stdout + done.stderr
        return done

    return go


def installed(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


URL = f"https://{NAME}/test/echo"


@pytest.mark.parametrize("clean", [False, True], ids=["variables", "only the system's store"])
def test_curl(inside, clean):
    strip = ["env", "-u", "SSL_CERT_FILE", "-u", "CURL_CA_BUNDLE"] if clean else []
    done = inside(*strip, "curl", "-sS", URL)
    assert json.loads(done.stdout)


@installed("wget")
def test_wget_reads_the_systems_store(inside):
    assert json.loads(inside("wget", "-q", "-O", "-", URL).stdout)


def test_openssl_finds_the_ca_by_its_hash(inside):
    done = inside(
        "sh", "-c",
        f"openssl s_client -proxy 127.0.0.1:3128 -connect {NAME}:443 -servername {NAME} "
        "-CApath /etc/ssl/certs -no-CAfile -verify_return_error -brief </dev/null 2>&1",
    )  # fmt: skip
    assert "Verification: OK" in done.stdout


def test_python(inside):
    code = f"import urllib.request; print(urllib.request.urlopen('{URL}').read().decode())"
    assert json.loads(inside("/usr/bin/python3", "-I", "-c", code).stdout)


def test_python_with_requests(inside):
    pytest.importorskip("requests", reason="requests is not installed")
    code = f"import requests; print(requests.get('{URL}').text)"
    assert json.loads(inside("/usr/bin/python3", "-c", code).stdout)


@installed("git")
def test_git(inside):
    """A repository is not there, but the way to it is: the answer is the server's."""
    done = inside("git", "ls-remote", f"https://{NAME}/nothing.git", check=128)
    assert "not found" in done.stderr and "certificate" not in done.stderr.lower(), done.stderr


NODE = f"""
const https = require('https');
const proxied = Number(process.versions.node.split('.')[0]) >= 24;
fetch('{URL}').then(r => r.text()).then(t => console.log(t), e => {{
    console.log(JSON.stringify({{failed: String(e.cause || e), proxied}}));
}});
"""


@installed("node")
def test_node(inside):
    seen = json.loads(inside("node", "-e", NODE).stdout)
    if "failed" in seen and not seen["proxied"]:
        pytest.skip("this node knows no NODE_USE_ENV_PROXY: " + seen["failed"])
    assert "failed" not in seen, seen


JAVA = """
import java.io.*; import java.net.*;
public class Get { public static void main(String[] a) throws Exception {
  System.out.println(new String(new URL(a[0]).openStream().readAllBytes())); } }
"""


@installed("java")
def test_java(inside, sandbox, workspace):
    sandbox.file(os.path.join(workspace, "Get.java"), JAVA)
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler")
    done = inside("java", "Get.java", URL, options=["--workspace", workspace])
    assert json.loads(done.stdout)


def test_a_key_goes_in_and_the_sandbox_never_sees_it(inside, mock):
    since = mock.mark()
    done = inside("sh", "-c", 'echo "$SOME_API_KEY"; curl -sS -H "x-api-key: $SOME_API_KEY" '
                              "https://keyed.test/test/echo?id=keyed")  # fmt: skip
    placeholder, answer = done.stdout.split("\n", 1)
    assert len(placeholder) == len(SECRET) and placeholder != SECRET
    assert placeholder not in answer
    assert mock.requests(since=since), "nothing arrived"


def test_plain_http_is_read_too(inside):
    done = inside("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"http://{NAME}/")
    assert done.stdout == "403"


def test_a_host_off_the_list_is_refused_with_the_reason(inside):
    done = inside("curl", "-sS", "https://elsewhere.test/")
    assert "elsewhere.test" in done.stdout and "not allowed" in done.stdout
