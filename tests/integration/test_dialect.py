"""A refusal has the shape in which each API's client looks for its errors, and the tools show why."""

import json
import os
import shutil
import subprocess

import pytest
from common import HERE
from harness import Tunnel
from node_packages import packages  # noqa: F401 (a fixture)

WHY = "no rule allows it"
HOSTS = ["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "api.github.com",
         "registry.npmjs.org"]  # fmt: skip


@pytest.fixture
def refusing(daemon):
    """Nothing of these hosts is allowed, so nothing of them is ever looked up."""
    return daemon(rules=[{"allow": "GET https://open.test/**"}])


def refused(daemon, host, fields=(), method="GET", path="/v1/x"):
    with Tunnel(daemon, host) as tunnel:
        answer = tunnel.ask(method, path, [("Accept", "application/json"), *fields])
    assert answer.status == 403
    return answer


def said(answer):
    """What every shape carries."""
    assert answer.json()["keyhole"] == {**answer.json()["keyhole"], "reason": "no_rule", "retry": False}
    return answer.json()


@pytest.mark.parametrize("host", ["api.anthropic.com", "api.openai.com", "api.mistral.ai", "nowhere.test"])
def test_type_and_message_where_nothing_tells_another(refusing, host):
    what = said(refused(refusing, host))
    assert what["type"] == "error" and what["error"]["type"] == "permission_error"
    assert what["error"]["code"] == "keyhole_no_rule" and WHY in what["error"]["message"]


@pytest.mark.parametrize("host, fields", [
    ("generativelanguage.googleapis.com", []), ("europe-west1-aiplatform.googleapis.com", []),
    ("open.test", [("x-goog-api-client", "gl-node/20")]),
])  # fmt: skip
def test_google(refusing, host, fields):
    error = said(refused(refusing, host, fields, "POST"))["error"]
    assert (error["code"], error["status"]) == (403, "PERMISSION_DENIED") and WHY in error["message"]
    assert error["details"][0]["domain"] == "keyhole.internal"


@pytest.mark.parametrize("host, fields", [
    ("api.github.com", []), ("open.test", [("Accept", "application/vnd.github+json")]),
])  # fmt: skip
def test_github(refusing, host, fields):
    with Tunnel(refusing, host) as tunnel:
        what = said(tunnel.ask("POST", "/repos/a/b", fields or [("Accept", "application/json")]))
    assert WHY in what["message"] and what["status"] == "403" and "keyhole.internal" in what["documentation_url"]


@pytest.mark.parametrize("host, agent", [("registry.npmjs.org", "x"), ("npm.example", "npm/10.9.2 node/v22.1.0")])
def test_npm_looks_for_a_text(refusing, host, agent):
    assert WHY in said(refused(refusing, host, [("User-Agent", agent)]))["error"]


def test_the_shape_is_the_clients_choice_and_tells_nothing_more(refusing):
    """Whoever says to be another client gets another shape of the same words."""
    texts = {refused(refusing, "open.test", fields, "POST").json()["keyhole"]["reason"]
             for fields in ([], [("User-Agent", "npm/1")], [("x-goog-api-key", "x")])}  # fmt: skip
    assert texts == {"no_rule"}


def test_the_reason_phrase_says_it_in_short(refusing):
    """pip, apt, wget and Go's tools show nothing else of an answer."""
    answer = refused(refusing, "pypi.org")
    assert answer.reason == "keyhole: " + WHY
    answer = refused(refusing, "open.test", path="/" + "x" * 500, method="DELETE")
    assert len(answer.reason) <= 160 and answer.reason.isprintable()


def test_it_is_short(daemon):
    one = daemon(rules=[{"allow": f"GET https://open.test/{n}/**"} for n in range(40)])
    with Tunnel(one, "open.test") as tunnel:
        answer = tunnel.ask("GET", "/x", [("Accept", "text/plain")])
    assert len(answer.text()) < 600 and answer.text().count("\n") == 1
    assert "http://keyhole.internal/" in answer.text(), "and where the rest is to be had"


# --- the real ones


@pytest.mark.parametrize("sdk", ["anthropic", "openai", "google"])
def test_the_library_prints_the_reason_and_does_not_retry(refusing, packages, sdk):  # noqa: F811
    done = subprocess.run(
        ["node", os.path.join(HERE, "sdk_client.js"), sdk, refusing.socket_path],
        capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": os.environ["PATH"], "NODE_PATH": packages},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    what = json.loads(done.stdout)
    assert what["status"] == 403 and what["asked"] == 1, what
    assert "keyhole: POST https://" in what["message"] and WHY in what["message"], what
    assert "http" in what["message"] and "ask the person who runs this sandbox" in what["message"]


def in_the_open(relay, daemon, tmp_path):
    """What a tool's environment is outside of a sandbox: the proxy and its CA."""
    proxy = f"http://127.0.0.1:{relay(daemon).port}"
    home = tmp_path / "home"
    home.mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(home), "https_proxy": proxy, "HTTPS_PROXY": proxy,
            "http_proxy": proxy, "GIT_TERMINAL_PROMPT": "0", "GIT_SSL_CAINFO": daemon.ca, "SSL_CERT_FILE": daemon.ca,
            "NODE_EXTRA_CA_CERTS": daemon.ca, "PIP_CERT": daemon.ca, "LC_ALL": "C"}  # fmt: skip


def run(command, env, folder):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=90, check=False)  # fmt: skip
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_curl(refusing, relay, tmp_path):
    done = subprocess.run(
        ["curl", "-sS", "--cacert", refusing.ca, "https://api.github.com/user"], capture_output=True, text=True,
        env=in_the_open(relay, refusing, tmp_path), timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("keyhole: GET https://api.github.com/user is not allowed: " + WHY)


def test_git(refusing, relay, tmp_path):
    text = run(["git", "clone", "https://github.com/o/r.git"], in_the_open(relay, refusing, tmp_path), tmp_path)
    assert "remote: keyhole: GET https://github.com/o/r.git/info/refs is not allowed: " + WHY in text, text


def test_npm(refusing, relay, tmp_path):
    text = run(
        ["npm", "install", "--registry=https://registry.npmjs.org/", f"--cafile={refusing.ca}", "--fetch-retries=0", "--no-audit",
         "left-pad"],
        in_the_open(relay, refusing, tmp_path), tmp_path,
    )  # fmt: skip
    assert "keyhole: GET https://registry.npmjs.org/left-pad is not allowed: " + WHY in " ".join(text.split()), text


def pip(env, folder, *arguments):
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        pytest.skip("pip is not installed")
    return run(
        ["/usr/bin/python3", "-m", "pip", "download", "--isolated", "--no-cache-dir", "--retries=0",
         "--disable-pip-version-check", "--cert", env["PIP_CERT"], *arguments], env, folder,
    )  # fmt: skip


def test_pip(refusing, relay, tmp_path):
    """Of a package's page it tells with -vv, of a file always."""
    env = in_the_open(relay, refusing, tmp_path)
    text = pip(env, tmp_path, "--index-url=https://pypi.org/simple/", "-vv", "six")
    assert "keyhole: " + WHY in text, text
    text = pip(env, tmp_path, "https://files.pythonhosted.org/packages/six-1.0-py3-none-any.whl")
    assert "keyhole: " + WHY in text, text


def test_wget(refusing, relay, tmp_path):
    env = in_the_open(relay, refusing, tmp_path)
    text = run(["wget", "-nv", f"--ca-certificate={refusing.ca}", "https://nowhere.test/x"], env, tmp_path)
    assert "ERROR 403: keyhole: " + WHY in text, text
