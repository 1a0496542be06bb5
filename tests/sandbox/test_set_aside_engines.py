"""In every engine the survey comes after the last process of the sandbox, and sets aside what that one made."""

import os

from test_set_aside import Host, said, write
from test_workspace import repository


def test_what_the_last_process_made_is_set_aside_in_every_engine(sandbox, workspace):
    """Also by one that outlives the command for a moment, and tries to go on."""
    host = Host(sandbox, workspace)
    repository(sandbox, workspace)
    done = sandbox.run("sh", "-ec", "git init -q sub; " + write("evil", host.config) + "(while :; do cp evil c; mv c sub/.git/config; done) & "
                       "while ! grep -q fsmonitor sub/.git/config; do sleep 0.01; done; ln -s /etc/passwd .git/note", workspace=workspace, check=0)  # fmt: skip
    assert len(said(done)) == 2, done.stderr
    assert "fsmonitor" not in host.read("sub/.git/config")
    host.works("sub")
    assert set(os.listdir(workspace)) - {"c"} == {".git", "README", "evil", "sub"}
