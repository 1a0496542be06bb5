"""git on the host while a sandbox runs: what docs/sandbox-risks.md says of it is so."""

import os

import pytest
from test_set_aside import host, write  # noqa: F401 (host is a fixture)
from test_workspace import repository

pytestmark = pytest.mark.identity("user")

HELD = (["status", "--short"], ["diff"], ["diff", "HEAD"], ["commit", "-qam", "x"])
NOT_HELD = (["add", "-u"], ["diff-files"], ["diff-index", "HEAD"])


@pytest.fixture
def during(host):
    """While an agent runs that has entered a repository of its own in the user's index, as a submodule."""
    repository(host.sandbox, host.workspace)
    script = ("git init -q vendor && git -C vendor commit -q --allow-empty -m x && git update-index --add --cacheinfo "
              "160000,$(git -C vendor rev-parse HEAD),vendor && " + write("vendor/.git/config", host.config) + "echo up; exec sleep 60")  # fmt: skip
    process = host.sandbox.start("sh", "-ec", script, workspace=host.workspace, git_name="agent", git_email="a@example.com")
    try:
        assert process.stdout.readline() == b"up\n", process.stderr.read()
        yield host
    finally:
        process.terminate()
        process.communicate()


def runs(host, words, *settings):
    host.git(*settings, *words)
    found = os.path.exists(host.canary)
    if found:
        os.unlink(host.canary)
    return found


def test_a_submodule_of_the_agents_is_looked_into_unless_a_setting_says_otherwise(during):
    """Until a run has ended this is not prevented; the page names the setting, and what it leaves open."""
    setting = ["-c", "diff.ignoreSubmodules=all"]
    assert [words for words in (*HELD[:3], *NOT_HELD) if not runs(during, words)] == []
    assert [words for words in (*HELD, ["status"]) if runs(during, words, *setting)] == []
    assert [words for words in NOT_HELD[:1] if not runs(during, words, *setting)] == []


def test_the_survey_ends_it(host):
    repository(host.sandbox, host.workspace)
    host.sandbox.run("sh", "-ec", "git init -q vendor && git -C vendor commit -q --allow-empty -m x && git update-index --add --cacheinfo "
                     "160000,$(git -C vendor rev-parse HEAD),vendor && " + write("vendor/.git/config", host.config), workspace=host.workspace,
                     git_name="agent", git_email="a@example.com", check=0)  # fmt: skip
    assert [words for words in (*HELD, *NOT_HELD) if runs(host, words)] == []
