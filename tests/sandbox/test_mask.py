"""Files of secrets under --mask-env: what the agent takes away or moves in one run shows nothing in that run or the next."""

import os

import pytest
from conftest import PATIENCE
from test_guard import mounts, wait_for_mounts
from test_review import copied, review  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.identity("user"), pytest.mark.before_the_engine]


def test_a_link_to_a_file_of_secrets_whose_name_does_not_say_so_is_refused_with_what_to_do(sandbox, workspace):
    sandbox.file(os.path.join(workspace, "shared/prod.conf"), "KEY=value")
    os.symlink("shared/prod.conf", os.path.join(workspace, ".env"))
    sandbox.give(workspace)
    done = sandbox.run("true", workspace=workspace, mask_env="yes", check=125)
    assert b"/.env: leads to " in done.stderr and b"give that file a name that begins with .env" in done.stderr
    sandbox.run("true", workspace_ro=workspace, mask_env="yes", check=0)


def test_a_link_to_one_whose_name_says_so_shows_nothing_with_or_without_the_link(sandbox, workspace):
    sandbox.file(os.path.join(workspace, "shared/.env.prod"), "KEY=value")
    os.symlink("shared/.env.prod", os.path.join(workspace, ".env"))
    sandbox.give(workspace)
    for script in ("cat .env shared/.env.prod; rm .env", "cat shared/.env.prod"):
        assert sandbox.run("sh", "-ec", script, workspace=workspace, mask_env="yes", check=0).stdout == b""


def test_no_folder_above_a_masked_file_can_be_renamed(sandbox, workspace):
    """The host would write the file anew in the folder of the new name, where no mask lies."""
    path = sandbox.file(os.path.join(workspace, "a/api/.env"), "KEY=old")
    sandbox.give(workspace)
    script = "mv a/api services; mv a b; echo up; while [ ! -e go ]; do sleep 0.02; done; cat a/api/.env b/api/.env services/.env; echo end"
    process = sandbox.start("sh", "-c", script, workspace=workspace, mask_env="yes")
    assert process.stdout.readline() == b"up\n"
    assert os.path.exists(path) and path in mounts(process.pid, workspace)
    sandbox.file(path + ".new", "KEY=new")
    os.rename(path + ".new", path)
    wait_for_mounts(process, workspace, {path})
    with open(os.path.join(workspace, "go"), "w", encoding="ascii"):
        pass
    out, err = process.communicate(timeout=PATIENCE)
    assert out == b"end\n", (out, err)


def test_a_mask_opens_nothing_that_is_read_only(sandbox, workspace):
    """A file of secrets in a protected folder, whose folders above are mounted already."""
    sandbox.file(os.path.join(workspace, ".vscode/x/.env"), "KEY=value")
    sandbox.give(workspace)
    done = sandbox.run("sh", "-c", "cat .vscode/x/.env; echo evil > .vscode/x/tasks.json; echo evil > .vscode/tasks.json", workspace=workspace, mask_env="yes")
    assert done.stdout == b"" and os.listdir(os.path.join(workspace, ".vscode")) == ["x"]
    assert os.listdir(os.path.join(workspace, ".vscode/x")) == [".env"]


def moved_and_taken_away(review):
    review.file("shared/prod.conf", "KEY=value")
    review.file("api/.env", "KEY=value")
    os.symlink("shared/prod.conf", os.path.join(review.work, ".env"))
    first = "set +e; cat .env api/.env; rm .env; mv api services; mv shared s2; cat services/.env s2/prod.conf; true"
    assert review.agent(first, "--mask-env").stdout == ""
    assert review.agent("set +e; cat */.env */prod.conf; true", "--mask-env").stdout == ""
    assert "KEY" in review.agent("set +e; cat */.env */prod.conf; true").stdout, "that is no attack at all"


def test_what_was_moved_or_taken_away_under_review_shows_nothing_in_the_next_run(review):  # noqa: F811
    moved_and_taken_away(review)


def test_what_was_moved_or_taken_away_in_a_copy_under_review_shows_nothing_in_the_next_run(copied):  # noqa: F811
    moved_and_taken_away(copied)
