"""What the host's git runs or reads by a name of the project's own is taken over from a review only where it is named."""

import os

import pytest
from test_review import Review

EVIL = "#!/bin/sh\ntouch {canary}\n"


@pytest.fixture
def review(sandbox):
    review = Review(sandbox)
    review.repository()
    review.canary = os.path.join(sandbox.place, "canary")
    return review


def link(review, text, name):
    path = os.path.join(review.work, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(text, path)


def commit(review):
    """The host's git does what a person does after an apply."""
    filtered = os.path.join(review.work, "a.x")
    if os.path.exists(filtered):
        with open(filtered, "a", encoding="ascii") as file:
            file.write("more\n")  # git asks the filter again only where the file has changed
    review.git("add", "-A", check=None)
    review.git("commit", "-q", "--allow-empty", "-m", "x", check=None)
    return os.path.exists(review.canary)


def configure(review, *words):
    for key, value in words:
        review.git("config", key, value)


def write(review, *names):
    text = EVIL.format(canary=review.canary)
    return "".join(f"rm -rf {n}; mkdir -p $(dirname {n}) && cat > {n} <<'END'\n{text}END\nchmod +x {n}\n" for n in names)


def hooks_path(review):
    review.file("tools/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    configure(review, ("core.hooksPath", "tools/hooks"))
    return ["tools/hooks/pre-commit"], "tools/hooks"


def hooks_path_absent(review):
    configure(review, ("core.hooksPath", "tools/hooks"))
    return ["tools/hooks/pre-commit"], "tools/hooks"


def hooks_path_through_a_link(review):
    review.file("tools/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    link(review, "tools", "link")
    configure(review, ("core.hooksPath", "link/hooks"))
    return ["tools/hooks/pre-commit"], "tools/hooks"


def hook_that_is_a_link(review):
    review.file("scripts/check", "#!/bin/sh\n", 0o755)
    link(review, "../../scripts/check", ".git/hooks/pre-commit")
    return ["scripts/check"], "scripts/check"


def hook_that_is_a_link_to_a_link(review):
    review.file("scripts/check", "#!/bin/sh\n", 0o755)
    review.file("scripts/v2/check", "#!/bin/sh\n", 0o755)
    link(review, "v2/check", "scripts/current")
    link(review, "../../scripts/current", ".git/hooks/pre-commit")
    return ["scripts/v2/check"], "scripts/v2/check"


def husky(review):
    review.file("web/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    review.file("web/hooks/_/pre-commit", '#!/bin/sh\nsh "$(dirname "$0")/../pre-commit"\n', 0o755)
    configure(review, ("core.hooksPath", "web/hooks/_"))
    return ["web/hooks/pre-commit"], "web/hooks"


def filter_script(review):
    review.file("scripts/clean.sh", "#!/bin/sh\ncat\n", 0o755)
    review.file(".gitattributes", "*.x filter=f\n")
    review.file("a.x", "a\n")
    configure(review, ("filter.f.clean", "./scripts/clean.sh"))
    return ["scripts/clean.sh"], "scripts/clean.sh"


WAYS = [hooks_path, hooks_path_absent, hooks_path_through_a_link, hook_that_is_a_link, hook_that_is_a_link_to_a_link, husky, filter_script]


@pytest.mark.identity("user")
@pytest.mark.parametrize("way", WAYS)
def test_what_the_hosts_git_runs_is_taken_over_only_where_it_is_named(review, way):
    names, reach = way(review)
    review.agent(write(review, *names) + "echo good > plain; echo good > tools.txt")
    shown = review.stat()
    for name in names:
        assert any(name in line and line.endswith("[protected: applied only where it is named]") for line in shown), shown
    assert "A  plain" in shown and "A  tools.txt" in shown
    # Neither all of it nor a folder above is meant.
    review.apply(check=1)
    for above in {os.path.dirname(reach)} - {""}:
        review.apply(above, check=1)
    assert not commit(review)
    assert review.contents()["plain"] == "good\n"
    review.apply(reach)
    assert commit(review)


@pytest.mark.identity("user")
@pytest.mark.parametrize("script", [
    "mv tools old; mkdir tools2; ln -s tools2 tools; mkdir -p tools2/hooks; cp evil tools2/hooks/pre-commit",
    "mkdir -p evil.d/hooks; cp evil evil.d/hooks/pre-commit; rm link; ln -s evil.d link",
])  # fmt: skip
def test_no_link_comes_into_the_place_of_a_folder_on_the_way(review, script):
    hooks_path_through_a_link(review)
    review.agent(write(review, "evil") + script)
    review.apply(check=1)
    assert not commit(review)


@pytest.mark.identity("user")
def test_configuration_that_git_includes_is_taken_over_only_where_it_is_named(review):
    review.file("conf/git.inc", "[core]\n")
    configure(review, ("include.path", "../conf/git.inc"), ("core.hooksPath", "HK"))
    review.agent("printf '[core]\\n\\tfsmonitor = \"touch %s; false\"\\n' " + review.canary + " > conf/git.inc; echo x > conf/other;"
                 "mkdir hk Conf; echo x > hk/pre-commit; cp conf/git.inc Conf/Git.inc.")  # fmt: skip
    review.apply(check=1)
    review.apply("conf", "Conf", check=1)
    assert not commit(review)
    # Where case does not count, these are the same files.
    assert review.contents() == {"conf/git.inc": "[core]\n", "conf/other": "x\n"}
    review.apply("conf/git.inc")
    assert commit(review)


@pytest.mark.identity("user")
def test_a_link_to_the_whole_workspace_bars_all_of_it(review):
    link(review, "..", ".vscode/all")
    review.agent("echo x > plain; mkdir -p sub; echo x > sub/one")
    review.apply(check=1)
    assert "plain" not in review.contents()
    review.apply("plain", "sub")
    assert review.contents()["sub/one"] == "x\n"
