"""Each shape is taken by the SDK that it is for; those that look at it would refuse another."""

import json
import os
import shutil
import subprocess

import pytest
from common import HERE
from daemons import Daemons, base_config
from node_packages import node_path
from test_base_url import origin_form

SHAPES = ["anthropic", "anthropic-oauth", "openai", "openai-project", "google", "github", "github-oauth", "github-app",
          "github-fine-grained", "gitlab", "npm", "aws-key-id", "aws-secret", "slack-bot", "slack-user", "huggingface", "jwt"]  # fmt: skip


@pytest.fixture(scope="module")
def placeholders(mock):
    """{shape: placeholder}, as a sandbox gets them."""
    config = base_config(mock)
    for n, shape in enumerate(SHAPES):
        config["credentials"][shape] = {
            "value": {"file": "secret"}, "bearer": True, "hosts": ["other.test"],
            "placeholder": {"env": f"SHAPE_{n}", "shape": shape},
        }  # fmt: skip
        config["tenants"]["acme"]["rules"].append({"allow": f"GET https://other.test/{shape}", "credential": shape})
    with Daemons([mock]) as daemons:
        told = origin_form(daemons(config=config), "/env", [("Accept", "application/json")]).json()
    return {shape: told[f"SHAPE_{n}"] for n, shape in enumerate(SHAPES)}


@pytest.fixture(scope="module")
def sdk(tmp_path_factory):
    """sdk(NAME, value): the script beside the packages: modules don't look at NODE_PATH."""
    folder = tmp_path_factory.mktemp("sdks")
    os.symlink(node_path(), folder / "node_modules")
    shutil.copy(os.path.join(HERE, "shapes_client.js"), folder)

    def run(name, value, **more):
        return subprocess.run(
            ["node", str(folder / "shapes_client.js"), name], capture_output=True, text=True, timeout=60, check=False,
            env={"PATH": os.environ["PATH"], "VALUE": value, **more}, cwd=folder,
        )  # fmt: skip

    return run


def taken(sdk, name, value, **more):
    done = sdk(name, value, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name, shape", [("anthropic", "anthropic"), ("openai", "openai"), ("openai", "openai-project"),
                                         ("google", "google"), ("huggingface", "huggingface"), ("slack", "slack-bot")])  # fmt: skip
def test_the_sdk_sends_it(placeholders, sdk, name, shape):
    value = placeholders[shape]
    assert taken(sdk, name, value)["authorization"] in (value, "Bearer " + value)


def test_hugging_faces_refuses_what_has_another_beginning(placeholders, sdk):
    done = sdk("huggingface", placeholders["github"])
    assert done.returncode == 1 and "must start with 'hf_'" in done.stderr


@pytest.mark.parametrize("shape, kind", [("github", "oauth"), ("github-fine-grained", "oauth"), ("github-app", "installation"), ("jwt", "app")])
def test_octokit_tells_what_it_is(placeholders, sdk, shape, kind):
    assert taken(sdk, "octokit", placeholders[shape])["tokenType"] == kind


def test_a_jwt_is_decoded_and_lasts(placeholders, sdk):
    seen = taken(sdk, "jwt", placeholders["jwt"])
    assert seen["header"] == {"alg": "RS256", "typ": "JWT"} and seen["payload"]["exp"] == 4102444800


def test_aws_signs_with_it(placeholders, sdk):
    seen = taken(sdk, "aws", placeholders["aws-key-id"], SECRET=placeholders["aws-secret"])
    assert f"Credential={placeholders['aws-key-id']}/" in seen["authorization"]
