"""git in the sandbox clones, fetches and pushes with nothing but a placeholder, whatever the URL's form."""

import json
import os
import secrets
import subprocess
import sys

import pytest
from conftest import HERE
from test_run import Run

sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration")]
from origins import Services  # noqa: E402

TOKEN = "ghp_" + secrets.token_hex(18)


@pytest.fixture
def origin(tmp_path):
    """git's own backend, for who has the token."""
    services = Services(str(tmp_path / "origin"), ["git.test"], TOKEN)
    bare = os.path.join(services.root, "org", "app.git")
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
    subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)
    tree = subprocess.run(["git", "-C", bare, "mktree"], input=b"", capture_output=True, check=True).stdout.strip()
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    commit = subprocess.run(["git", "-C", bare, *who, "commit-tree", "-m", "begin", tree], capture_output=True, check=True)
    subprocess.run(["git", "-C", bare, "update-ref", "refs/heads/main", commit.stdout.strip()], check=True)
    services.bare = bare
    yield services
    services.stop()


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("url", ["https://git.test/org/app.git", "git@git.test:org/app.git", "ssh://git@git.test/org/app.git"])
def test_clone_fetch_and_push(sandbox, origin, url, required):
    run = Run(sandbox)
    with open(origin.ca, encoding="ascii") as file:
        roots = sandbox.file(os.path.join(run.state, "roots.pem"), file.read())
    config = {
        "version": 1,
        "upstream": {"ca_file": roots, "resolve": {"git.test": origin.pins["tls"]}},
        "credentials": {"git": {
            "value": {"env": "GH_TOKEN"}, "basic": {"username": "x-access-token"}, "hosts": ["git.test"],
            "require_placeholder": required,
        }},
        "tenants": {"t": {"rules": [{"allow": "https://git.test", "credential": "git"}]}},
    }  # fmt: skip
    path = sandbox.file(os.path.join(run.state, "keyhole.yaml"), json.dumps(config))
    script = (
        "cd /tmp && git clone -q $0 work && cd work && git fetch -q && "
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m more && git push -q origin HEAD:pushed && "
        'echo "$GH_TOKEN" && env && cat /etc/gitconfig && cat .git/config'
    )
    done = run("-q", "-c", path, "--", "sh", "-c", script, url, use=None, env=run.environment(GH_TOKEN=TOKEN))
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    placeholder = done.stdout.split("\n", 1)[0]
    assert placeholder.startswith("ghp_") and len(placeholder) == len(TOKEN)
    heads = subprocess.run(["git", "-C", origin.bare, "for-each-ref", "--format=%(refname)"], capture_output=True, text=True,
                           check=True).stdout.split()  # fmt: skip
    assert heads == ["refs/heads/main", "refs/heads/pushed"]
    assert all(e["auth"] for e in origin.requests())
