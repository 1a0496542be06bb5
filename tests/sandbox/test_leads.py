"""Other names of what is protected in a workspace: symbolic links, hard links, and folders that hooks run things from."""

import os

import pytest
from test_set_aside import AS_BOTH, HOOK, Host, run, said
from test_workspace import repository

pytestmark = pytest.mark.identity("user")


@pytest.fixture
def host(sandbox, workspace):
    repository(sandbox, workspace)
    return Host(sandbox, workspace)


def script(host, name, text="#!/bin/sh\n"):
    host.sandbox.file(host.path(name), text, 0o755)
    host.sandbox.give(os.path.dirname(host.path(name)))


def attack(host, name):
    """The agent tries to rewrite a file, in place and by another in its place, also of the folders above."""
    text = HOOK.format(canary=host.canary)
    above = os.path.dirname(name)
    done = host.sandbox.run("sh", "-c", f"cat > {name} <<'END'\n{text}END\nmv {above} {above}.old && mkdir -p {above}\n"
                            f"cat > evil <<'END'\n{text}END\nchmod +x evil; mv -f evil {name}; cp evil {name}; true",
                            workspace=host.workspace, check=0)  # fmt: skip
    return done.stderr.decode()


def commit(host):
    host.git("-c", "safe.directory=*", "commit", "-q", "--allow-empty", "-m", "x")
    return os.path.exists(host.canary)


def test_the_attack_is_one(host):
    script(host, "scripts/pre-commit", HOOK.format(canary=host.canary))
    os.symlink("../../scripts/pre-commit", host.path(".git/hooks/pre-commit"))
    assert commit(host)


@AS_BOTH
def test_where_a_hook_that_is_a_symbolic_link_leads_can_not_be_written(host):
    script(host, "scripts/pre-commit")
    os.symlink("../../scripts/pre-commit", host.path(".git/hooks/pre-commit"))
    assert "scripts/pre-commit can't be written to" in attack(host, "scripts/pre-commit")
    assert not commit(host)
    assert host.read("scripts/pre-commit") == "#!/bin/sh\n"


def test_where_links_in_protected_folders_lead_can_not_be_written_or_made(host):
    host.sandbox.folder("work/.vscode")
    script(host, "conf/tasks.json", "{}")
    host.sandbox.folder("work/sub")
    script(host, "sub/tasks/one", "{}")
    os.symlink("../conf/tasks.json", host.path(".vscode/tasks.json"))
    os.symlink("../absent/x", host.path(".vscode/settings.json"))
    os.symlink("../conf", host.path("sub/.vscode"))
    os.symlink("../sub/tasks", host.path(".vscode/tasks"))
    host.sandbox.run("sh", "-c", "echo evil > conf/tasks.json; echo evil > conf/new; mkdir -p absent; echo evil > absent/x; "
                     "echo evil > sub/tasks/one; echo evil > sub/tasks/two; echo good > sub/free", workspace=host.workspace, check=0)  # fmt: skip
    assert host.read("conf/tasks.json") == host.read("sub/tasks/one") == "{}"
    assert os.listdir(host.path("conf")) == ["tasks.json"] and os.listdir(host.path("sub/tasks")) == ["one"]
    assert not os.path.exists(host.path("absent/x")) and host.read("sub/free") == "good\n"


@pytest.mark.parametrize("text", ["../../link/x", "../.."])
def test_a_link_that_can_not_be_kept_is_refused(host, text):
    script(host, "scripts/x")
    os.symlink("scripts", host.path("link"))
    os.symlink(text, host.path(".git/hooks/x"))
    done = host.sandbox.run("true", workspace=host.workspace, check=125)
    assert b"symbolic link" in done.stderr and b".git/hooks/x" in done.stderr


@AS_BOTH
def test_other_hard_links_to_protected_files_can_not_be_written(host):
    script(host, "scripts/h")
    os.link(host.path("scripts/h"), host.path(".git/hooks/pre-commit"))
    attack(host, "scripts/h")
    assert not commit(host)
    assert host.read(".git/hooks/pre-commit") == "#!/bin/sh\n"


def test_a_few_hard_links_out_of_the_workspace_are_read_only(host):
    store = host.sandbox.file(os.path.join(host.sandbox.folder("store"), "pkg.js"), "good")
    script(host, "node_modules/p/own.js", "own")
    os.link(store, host.path("node_modules/p/index.js"))
    done = run(host, "echo evil >> node_modules/p/index.js || true; echo more >> node_modules/p/own.js")
    with open(store, encoding="utf-8") as file:
        assert file.read() == "good"
    assert host.read("node_modules/p/own.js") == "ownmore\n"
    assert b"1 files have another name" in done.stderr and b"node_modules/p/index.js" in done.stderr


def test_many_hard_links_out_of_the_workspace_are_warned_of(host):
    store = host.sandbox.folder("store")
    host.sandbox.folder("work/node_modules")
    for i in range(70):
        host.sandbox.file(os.path.join(store, str(i)), "good")
        os.link(os.path.join(store, str(i)), host.path(f"node_modules/{i}"))
    done = run(host, "true")
    assert b"70 files have another name" in done.stderr and b":review" in done.stderr


@pytest.mark.parametrize("folder", ["frontend/.husky", "frontend/hooks"])
def test_what_husky_runs_in_a_subfolder_can_not_be_written(host, folder):
    script(host, folder + "/pre-commit")
    script(host, folder + "/_/pre-commit", '#!/bin/sh\nsh "$(dirname "$0")/../pre-commit"\n')
    host.git("config", "core.hooksPath", folder + "/_")
    host.sandbox.give(host.path(".git/config"))
    attack(host, folder + "/pre-commit")
    assert not commit(host)


def test_a_folder_without_write_permission_is_set_aside(host):
    done = run(host, "mkdir -p sub/.vscode && echo evil > sub/.vscode/tasks.json && chmod 0555 sub/.vscode && chmod 0555 sub")
    assert len(said(done)) == 1, done.stderr
    assert not os.path.exists(host.path("sub/.vscode"))
    host.keyhole("restore", *said(done))
    assert host.read("sub/.vscode/tasks.json") == "evil\n"


def test_a_folder_without_permissions_is_set_aside_to_another_file_system(host, small_disk):
    small_disk(host.sandbox.folder("state"), size="1m", names=200)
    done = run(host, "mkdir -p sub/.vscode/in/ner && echo evil > sub/.vscode/in/ner/x && chmod 0 sub/.vscode/in/ner/x && "
               "chmod 0555 sub/.vscode/in/ner sub/.vscode/in sub/.vscode sub")  # fmt: skip
    assert len(said(done)) == 1, done.stderr
    assert not os.path.exists(host.path("sub/.vscode"))
    host.keyhole("restore", *said(done))
    assert os.path.exists(host.path("sub/.vscode/in/ner/x"))


def test_a_hook_of_holes_is_set_aside_to_another_file_system(host, small_disk):
    small_disk(host.sandbox.folder("state"), size="1m", names=200)
    done = run(host, "d=sub/.git/hooks; git init -q sub; printf '#!/bin/sh\\necho evil\\n' > $d/pre-commit; truncate -s 2T $d/pre-commit; chmod +x $d/pre-commit")
    assert len(said(done)) == 1, done.stderr
    assert not os.path.exists(host.path("sub/.git/hooks/pre-commit"))
    host.keyhole("restore", *said(done))
    path = host.path("sub/.git/hooks/pre-commit")
    assert os.stat(path).st_size == 2 << 40 and os.stat(path).st_blocks < 64
    with open(path, "rb") as file:
        assert file.read(20).startswith(b"#!/bin/sh\necho evil\n")


def test_what_finds_no_room_aside_has_another_name_and_only_a_file_is_called_harmless(host, small_disk):
    small_disk(host.sandbox.folder("state"), size="1m", names=200)
    done = run(host, "git init -q sub; head -c 4000000 /dev/zero > sub/.git/hooks/pre-commit; chmod +x sub/.git/hooks/pre-commit; "
               "mkdir sub/.vscode; head -c 4000000 /dev/zero > sub/.vscode/tasks.json")  # fmt: skip
    assert done.stderr.count(b"was made harmless where it is") == 1 and done.stderr.count(b"has the name .keyhole-disarmed-") == 1, done.stderr
    assert not os.path.exists(host.path("sub/.vscode"))
    left = [name for name in os.listdir(host.path("sub/.git/hooks")) if not name.endswith(".sample")]
    assert len(left) == 1 and left[0].startswith(".keyhole-disarmed-"), left
    assert not os.stat(host.path("sub/.git/hooks/" + left[0])).st_mode & 0o111


@pytest.mark.parametrize("command", ["{}/link/clean.sh", "link/clean.sh", "{}/scripts/to"])
def test_what_git_runs_through_a_link_that_could_be_replaced_is_refused(host, command):
    script(host, "scripts/clean.sh")
    os.symlink("scripts", host.path("link"))
    os.symlink("clean.sh", host.path("scripts/to"))
    host.git("config", "filter.x.clean", command.format(host.workspace))
    host.sandbox.give(host.path(".git/config"))
    done = host.sandbox.run("true", workspace=host.workspace, check=125)
    assert b"is a symbolic link" in done.stderr and (b"/link:" in done.stderr or b"/scripts/to:" in done.stderr), done.stderr
