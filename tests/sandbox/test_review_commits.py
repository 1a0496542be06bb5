"""What comes in a commit is judged like what comes in a file, and so is each commit on the way."""

import glob
import os
import re
import subprocess
import time

import pytest
from conftest import PATIENCE
from test_review import Review, commit, stamps


@pytest.fixture
def review(sandbox):
    made = Review(sandbox)
    made.file("a", "one\n")
    made.repository()
    return made


def applied(review):
    return review.apply("--only-commits").stdout.decode()


def listed(text):
    """Of the commits: each, and each name that it changes."""
    return [line for line in text.splitlines() if re.match(r"  \S  |[0-9a-f]{12} changes ", line)]


def beside():
    return set(glob.glob("/var/tmp/keyhole-commits-*"))


def all_go(names):
    """Other runs on this machine have theirs there too, and each goes with its own."""
    late = time.monotonic() + PATIENCE
    while beside() & names and time.monotonic() < late:
        time.sleep(0.02)
    assert not beside() & names


MARKED = {
    "git folder": (
        "mkdir -p docs/objects docs/refs; for f in HEAD config objects/k refs/k index.md; do echo x > docs/$f; done;",
        [f"  A  docs/{name} [of a git folder]" for name in ("HEAD", "config", "objects/k", "refs/k", "index.md")],
    ),
    "link that leads out": ("ln -s /etc/passwd link;", ["  A  link [a symbolic link that may lead out of the workspace]"]),
    "link into git": ("ln -s .git/hooks h;", ["  A  h [a symbolic link that may lead out of the workspace]"]),
    "link in the place of a holder": ("mkdir mi; echo x > mi/config.toml; ln -s mi mise;", ["  A  mise [protected]"]),
    "another repository": (
        "git init -q s; git -C s -c user.name=b -c user.email=b@c commit -q --allow-empty -m x;",
        ["  A  s [no regular file: another repository]"],
    ),
}


@pytest.mark.parametrize("script, marked", MARKED.values(), ids=list(MARKED))
def test_what_is_not_applied_as_a_file_is_marked_in_a_commit_and_no_merge_is_recommended(review, script, marked):
    review.agent(script + commit("two"))
    shown, said = listed(review.diff()), applied(review)
    assert shown == listed(said)
    assert set(marked) <= set(said.splitlines()), said
    assert "git merge" not in said and "look at each first" in said


def test_a_git_folder_that_commits_and_the_workspace_make_together_is_marked(review):
    os.mkdir(os.path.join(review.work, "docs"))
    review.file("docs/HEAD", "x")
    review.agent("mkdir -p docs/objects docs/refs; echo x > docs/objects/k; echo x > docs/refs/k;"
                 "git add docs/objects;" + commit("two").replace("git add -A;", "") + "git add docs/refs;"
                 + commit("three").replace("git add -A;", ""))  # fmt: skip
    said = applied(review)
    assert "  A  docs/objects/k [of a git folder]\n" in said and "git merge" not in said


@pytest.mark.parametrize("merged", [False, True])
def test_each_commit_on_the_way_counts_and_not_the_last_alone(review, merged):
    """What one of them adds and the next removes is brought by a merge, and there to be checked out."""
    way = "git checkout -qb side;" if merged else ""
    back = "git checkout -q main; git -c user.name=b -c user.email=b@c merge -q --no-ff -m m side;" if merged else ""
    review.agent(way + "mkdir .github .cargo; echo x > .cargo/config.toml; echo x > .github/ok;" + commit("two")
                 + "rm -r .cargo;" + commit("three") + back + "git branch -q -D side || true")  # fmt: skip
    said = applied(review)
    assert "  A  .cargo/config.toml [protected] [in a commit before the last]\n" in said and "  A  .github/ok\n" in said
    assert "git merge" not in said


def test_a_name_that_was_worse_in_a_commit_before_the_last_is_marked(review):
    review.agent("ln -s /etc/passwd x;" + commit("two") + "rm x; echo x > x;" + commit("three"))
    said = applied(review)
    assert "  A  x [a symbolic link that may lead out of the workspace]\n" in said and "git merge" not in said


def test_links_that_stay_inside_and_plain_names_are_merged_as_recommended(review):
    review.agent("mkdir d; echo x > d/HEAD; ln -s d/HEAD l; ln -s ../a d/up;" + commit("two") + "git rm -q a;" + commit("three"))
    said = applied(review)
    assert "[" not in said and "merges them" in said, said


def test_of_more_commits_than_are_looked_at_no_merge_is_recommended(review):
    review.python("""
        import subprocess
        stream = "".join(f"commit refs/heads/many\\ncommitter b <b@c> {i} +0000\\ndata 1\\nx\\n\\n" for i in range(16385))
        subprocess.run(["git", "fast-import", "--quiet"], input=stream.encode(), check=True)
    """.replace("\n        ", "\n"))  # fmt: skip
    done = review.apply("--only-commits")
    assert b"more than 16384 new commits" in done.stderr and b"git merge" not in done.stdout


@pytest.mark.parametrize("name", ["mise", ".pijul", ".repo", ".config", ".github", ".clinerules", ".hg", ".cargo"])
def test_a_link_in_the_place_of_a_folder_with_protected_names_is_taken_over_only_where_it_is_named(review, name):
    review.agent(f"mkdir other; echo x > other/file; ln -s other {name}")
    assert f"A  {name} -> other [protected: applied only where it is named]" in review.stat()
    review.apply("--no-commits", check=1)
    assert not os.path.lexists(os.path.join(review.work, name))
    review.apply(name)
    assert os.readlink(os.path.join(review.work, name)) == "other"


def test_a_link_to_what_is_not_there_yet_below_git_is_not_taken_over(review):
    os.symlink(".git", os.path.join(review.work, "g"))
    os.symlink(".git/none", os.path.join(review.work, "dangling"))
    review.agent("ln -s g/none/x a1; ln -s g/none a2; ln -s dangling a3; ln -s dangling/x a4; ln -s nowhere/x fine")
    review.apply("--no-commits", check=1)
    assert {n for n in review.tree() if n.startswith("a") or n == "fine"} == {"a", "fine"}


# --- what is shown of commits before they come over -----------------------------------------------


def test_diff_lists_what_commits_change_as_apply_does_and_writes_nothing_to_the_workspace(review):
    review.agent("echo two >> a; mkdir .vscode; echo {} > .vscode/tasks.json;" + commit("two") + "git rm -qr .vscode; git tag v1;"
                 + commit("three") + "git branch topic; echo four > a")  # fmt: skip
    before, left = stamps(review.work), beside()
    shown, stat = review.diff(), review.diff("--stat")
    dry = review.apply("-n", "--only-commits").stdout.decode()
    assert stamps(review.work) == before
    all_go(beside() - left)
    said = applied(review)
    names = ["  A  .vscode/tasks.json [protected]", "  A  .vscode/tasks.json [protected] [in a commit before the last]"]
    assert len(listed(said)) == 6 and set(listed(said)) > {*names, "  M  a"}
    assert listed(shown) == listed(stat) == listed(dry) == listed(said)
    refs = [line.removeprefix("set  ") for line in said.splitlines() if line.startswith("set  ")]
    assert [f"would be set  {ref}" for ref in refs] == [line for line in shown.splitlines() if line.startswith("would be set  ")]
    assert len(refs) == 4 and "sets these refs, and merges nothing\n" in shown and "git merge" not in shown
    # What git keeps there is of no use any more, and nothing is new.
    assert listed(review.diff()) == []


def test_diff_in_json_names_the_commits_and_what_they_change(review):
    review.agent("ln -s /etc l; printf x > \"$(printf 'b\\377')\";" + commit("two") + "git rm -q l;" + commit("three"))
    found = review.json()["commits"]
    assert len(found) == 1 and [ref.split("/", 3)[3] for ref in found[0]["refs"]] == ["heads/main", "HEAD"]
    assert found[0]["names"] == [
        {"path": "b\ufffd", "path_bytes": [98, 255], "change": "added", "before_the_last": False},
        {"path": "l", "change": "added", "before_the_last": True, "mark": "a symbolic link that may lead out of the workspace"},
    ]
    assert "commits" not in review.json("--no-commits") and review.json("--only-commits")["changes"] == []
    applied(review)
    assert review.json()["commits"] == []


def test_diff_speaks_of_commits_only_where_there_are_some_to_bring(review):
    review.agent("git status -s; git config user.name b; echo x > .git/x; echo x > b; git add b")
    assert review.stat()[0] == "A  b" and review.stat()[1].startswith("-  .git/: ")
    assert review.diff("--stat").splitlines() == review.stat()
    review.agent(commit("two"))
    assert "would be set" in review.diff() and "commits" not in review.diff("b")
    assert review.diff("--only-commits").startswith("would be set")
    applied(review)
    assert review.diff("--stat").splitlines() == review.stat() and review.diff("--only-commits") == "no new commits\n"


def test_diff_fails_where_commits_can_not_be_looked_at_and_shows_the_files(sandbox):
    review = Review(sandbox)
    review.agent("git init -q -b main; echo x > x;" + commit("one"))
    for words in ((), ("--json",)):
        done = review.verb("diff", *words, check=1)
        assert b"no git repository of its own" in done.stderr and b"x" in done.stdout and b'"commits"' not in done.stdout
    assert review.diff("--no-commits").startswith("A  x\n")


def nothing_came(review, done):
    said = done.stdout + done.stderr
    assert b"nothing was applied; --no-commits takes the files only" in done.stderr and b"discard" not in said, said
    assert "x" not in review.contents() and len(review.reviews()) == 1


def test_apply_takes_no_file_where_it_can_not_bring_the_commits_and_then_advises_no_discard(sandbox):
    """The commits would be in the review alone, and `discard` removes it."""
    review = Review(sandbox)
    review.agent("git init -q -b main; echo x > x;" + commit("one"))
    nothing_came(review, review.apply(check=1))
    done = review.apply("--no-commits")
    assert review.contents() == {"x": "x\n"} and b"discard" not in done.stdout and b"--only-commits` lists" in done.stdout
    assert b"nothing was applied" not in review.apply("--only-commits", check=1).stderr


def test_a_repository_that_git_can_not_read_any_more_is_no_repository_without_new_commits(review):
    review.agent("echo x > x;" + commit("two") + "printf '[core\\n' > .git/config")
    done = review.apply(check=1)
    nothing_came(review, done)
    assert b"git could make no bundle of the agent's commits: fatal: bad config" in done.stderr, done.stderr


def test_no_name_of_a_workspace_leads_git_astray_when_it_looks_at_commits(sandbox):
    review = Review(sandbox)
    review.work = sandbox.folder('work"x\\y\nz:o')
    review.file("a", "one\n" * 1000)
    review.repository()
    review.agent("echo two >> a;" + commit("two"))
    assert "  M  a" in listed(review.diff())


def test_what_diff_keeps_of_commits_is_gone_however_it_ends_and_holds_nobody_up(review):
    """It waits in the middle of a long list, as for somebody who reads it."""
    review.agent("mkdir d; cd d; seq -f %0200g 2000 | xargs touch; cd ..;" + commit("two") + "rm -r d")
    left = beside()
    shows = subprocess.Popen(review.sandbox.as_identity([review.run_.keyhole, "workspace", "diff"]), stdout=subprocess.PIPE,
                             cwd=review.work, env=review.run_.environment())  # fmt: skip
    with shows:
        while not (line := shows.stdout.readline()).startswith(b"  A  d/"):
            assert line != b""
        made = beside() - left
        assert made
        review.agent("echo more > more")
        shows.kill()
    all_go(made)


def test_no_run_begins_while_commits_of_a_review_are_looked_at(review):
    """The agent has git wait for ever in the sandbox that reads the review."""
    review.agent("echo two >> a;" + commit("two") + "rm .git/config; mkfifo .git/config")
    lock = f":{os.stat(os.path.join(review.home, review.reviews()[0])).st_ino} "

    def is_held(wanted):
        late = time.monotonic() + PATIENCE
        while time.monotonic() < late:
            with open("/proc/locks", encoding="utf-8") as file:
                held = any(lock in line and "FLOCK" in line for line in file)
            if held == wanted:
                break
            time.sleep(0.02)
        return held

    with subprocess.Popen(review.sandbox.as_identity([review.run_.keyhole, "workspace", "diff"]), stdout=subprocess.PIPE,
                          cwd=review.work, env=review.run_.environment()) as looks:  # fmt: skip
        try:
            assert looks.stdout.readline() == b"M  a\n" and is_held(True)
            assert "is in use" in review.agent("true", check=125).stderr
            assert review.stat()[0] == "M  a"
        finally:
            looks.terminate()
    assert not is_held(False)
    assert review.agent("echo again").stdout == "again\n"
