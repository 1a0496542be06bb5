"""Files of presets: tools find a placeholder where they look for a key, in each engine."""

import os
import re
import secrets

import pytest
from test_run import Run

TOKEN, OTHER, NPM = "ghp_" + secrets.token_hex(18), "ghp_" + secrets.token_hex(18), "npm_" + secrets.token_hex(18)
# Mode and content of each file that is there, and what the variables hold.
LOOK = ('cd ~ && for f in .config/gh/hosts.yml .npmrc .netrc; do [ ! -e $f ] || { find $f -printf "== %m $f\\n"; cat $f; }; done; '
        'echo "== variables"; echo "${GH_TOKEN-}:${GITHUB_TOKEN-}:${NPM_TOKEN-}"')  # fmt: skip


@pytest.fixture
def look(sandbox):
    """What a run with these presets finds in its home, by name (and its mode)."""
    run = Run(sandbox)

    def run_and_look(*args, uses, keys, script=LOOK):
        chosen = [word for use in uses for word in ("--use", use)]
        done = run("-q", "--engine", sandbox.engine, *chosen, *args, "--", "sh", "-c", script, use=None, check=0, **keys)
        for key in keys.values():
            assert key not in done.stdout + done.stderr
        return dict(re.findall(r"== (.+)\n([^=]*(?:=(?!= )[^=]*)*)", done.stdout))

    return run_and_look


def test_each_file_holds_the_placeholder_of_its_variable(look):
    found = look(uses=["github:token=true,netrc=true", "npm:token=true"], keys={"GH_TOKEN": TOKEN, "NPM_TOKEN": NPM})
    github, _, npm = found.pop("variables").strip().split(":")
    assert github.startswith("ghp_") and npm.startswith("npm_")
    assert found == {
        "600 .config/gh/hosts.yml": f'github.com:\n  git_protocol: https\n  user: keyhole\n  oauth_token: "{github}"\n',
        "600 .npmrc": f"//registry.npmjs.org/:_authToken={npm}\n",
        "600 .netrc": "".join(f"machine {host} login x-access-token password {github}\n" for host in ("github.com", "api.github.com")),
    }


@pytest.mark.before_the_engine
def test_without_a_placeholder_there_is_no_file(look):
    """No rule uses the key, so the sandbox has none."""
    assert set(look(uses=["github", "npm"], keys={"GH_TOKEN": TOKEN, "NPM_TOKEN": NPM})) == {"variables"}


@pytest.mark.before_the_engine
def test_the_first_variable_with_a_key_is_the_one_in_the_file(look):
    found = look(uses=["github:token=true"], keys={"GITHUB_TOKEN": OTHER})
    _, second, _ = found.pop("variables").strip().split(":")
    assert list(found) == ["600 .config/gh/hosts.yml"] and second in found["600 .config/gh/hosts.yml"]
    found = look(uses=["github:token=true"], keys={"GH_TOKEN": TOKEN, "GITHUB_TOKEN": OTHER})
    first, _, _ = found.pop("variables").strip().split(":")
    assert first and f'"{first}"' in found["600 .config/gh/hosts.yml"]


def test_a_file_that_is_in_the_home_stays(sandbox, look):
    home = sandbox.folder("kept")
    sandbox.file(os.path.join(home, ".npmrc"), "fund=false\n", 0o640)
    os.symlink("/etc/hostname", os.path.join(home, ".netrc"))
    sandbox.give(home)
    found = look("--home", home, uses=["github:token=true,netrc=true", "npm:token=true"],
                 keys={"GH_TOKEN": TOKEN, "NPM_TOKEN": NPM})  # fmt: skip
    assert found["640 .npmrc"] == "fund=false\n"
    assert "600 .config/gh/hosts.yml" in found and os.readlink(os.path.join(home, ".netrc")) == "/etc/hostname"
    with open(os.path.join(home, ".config/gh/hosts.yml"), encoding="ascii") as file:
        assert TOKEN not in file.read(), "what is kept is a placeholder too"


@pytest.mark.before_the_engine
def test_a_profiles_own_file_comes_before_a_presets(sandbox, look):
    """And the files of both are there."""
    sandbox.file(os.path.join(sandbox.place, "policies/p.yaml"), 'description: d\nsource: https://a.example/\n'
                 "credentials: { k: { value: { env: MY_KEY }, header: { x-k: \"{}\" }, hosts: [ a.example ] } }\n"
                 "files:\n  - { path: .both, needs: MY_KEY, content: preset }\n  - { path: .one, needs: MY_KEY, content: '<${MY_KEY}>' }\n"
                 "rules: [ { allow: \"GET https://a.example\", credential: k } ]\n")  # fmt: skip
    sandbox.file(os.path.join(sandbox.place, "policies/agents/mine.yaml"),
                 "description: d\ncommands: [ sh ]\nfiles: [ { path: .both, content: profile } ]\n")  # fmt: skip
    sandbox.give(sandbox.place)
    found = look(uses=["p"], script='cat ~/.both; echo; echo "== one"; cat ~/.one; echo; echo "== variables"; echo $MY_KEY',
                 keys={"MY_KEY": secrets.token_hex(20), "KEYHOLE_PRESETS": os.path.join(sandbox.place, "policies")})  # fmt: skip
    assert found["one"] == f"<{found['variables'].strip()}>\n"


@pytest.mark.before_the_engine
def test_the_tenants_own_presets_count(sandbox, look):
    """Another tenant's preset of the same file gives none."""
    config = sandbox.file(os.path.join(sandbox.place, "config/keyhole.yaml"),
                          "version: 1\ntenants:\n  a: { rules: [ { use: { npm: { token: true } } } ] }\n"
                          "  b: { rules: [ { use: { github: { token: true } } } ] }\n")  # fmt: skip
    keys = {"GH_TOKEN": TOKEN, "NPM_TOKEN": NPM}
    assert set(look("-c", config, "--tenant", "a", uses=[], keys=keys)) == {"600 .npmrc", "variables"}
    assert set(look("-c", config, "--tenant", "b", uses=[], keys=keys)) == {"600 .config/gh/hosts.yml", "variables"}
