"""A workspace under review: `--workspace DIR:review`, and `keyhole workspace` afterwards.

The agent is a shell script or a Python program that does its worst; what counts is the workspace,
what the verbs show of it, and that nothing of the agent's runs on the host.
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import termios
import unicodedata

import pytest
from conftest import PATIENCE, PYTHON, ROOT
from test_run import Run
from tmux import RESET

GIT = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "safe.directory=*"]


class Review:
    """Runs under review in one folder, by one identity."""

    def __init__(self, sandbox, engine="process"):
        self.sandbox = sandbox
        self.run_ = Run(sandbox)
        self.engine = engine
        self.work = sandbox.folder("work")
        self.home = os.path.join(self.run_.state, "keyhole", "review")

    def file(self, name, content="", mode=0o644):
        self.sandbox.file(os.path.join(self.work, name), content, mode)
        for above in self.above(name):
            self.sandbox.give(os.path.join(self.work, above))
        return os.path.join(self.work, name)

    @staticmethod
    def above(name):
        parts = name.split("/")[:-1]
        return parts[:1]

    def agent(self, script, *args, how="review", check=0, quiet=True, program=("sh", "-ec")):
        words = ["-q"] if quiet else []
        return self.run_(*words, "--engine", self.engine, *args, "--workspace", f"{self.work}:{how}",
                         "--", *program, script, check=check)  # fmt: skip

    def python(self, code, **options):
        return self.agent(code, program=(PYTHON, "-I", "-c"), **options)

    def verb(self, *words, check=0, cwd=None, limits=None):
        done = subprocess.run(
            self.sandbox.as_identity([self.run_.keyhole, "workspace", *words]), capture_output=True,
            timeout=PATIENCE, check=False, cwd=cwd or self.work, env=self.run_.environment(), preexec_fn=limits,
        )  # fmt: skip
        if check is not None:
            assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done

    def diff(self, *words):
        return self.verb("diff", *words).stdout.decode()

    def stat(self, *words):
        """A line for each change; what commits change has tests of its own."""
        return self.diff("--stat", "--no-commits", *words).splitlines()

    def json(self, *words):
        return json.loads(self.diff("--json", *words))

    def apply(self, *words, check=0):
        return self.verb("apply", *words, check=check)

    def git(self, *words, check=0):
        done = subprocess.run(self.sandbox.as_identity([*GIT, "-C", self.work, *words]), capture_output=True,
                              text=True, timeout=PATIENCE, check=False, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})  # fmt: skip
        if check is not None:
            assert done.returncode == check, (done.stdout, done.stderr)
        return done.stdout.strip()

    def repository(self):
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "first")

    def reviews(self):
        return sorted(os.listdir(self.home)) if os.path.isdir(self.home) else []

    def tree(self):
        """All of the workspace but its git folder: mode and content, or where a link leads."""
        found = {}
        for above, folders, files in os.walk(self.work):
            if above == self.work and ".git" in folders:
                folders.remove(".git")
            for name in folders + files:
                path = os.path.join(above, name)
                st = os.lstat(path)
                what = None
                if stat.S_ISLNK(st.st_mode):
                    what = os.readlink(path)
                elif stat.S_ISREG(st.st_mode):
                    with open(path, "rb") as file:
                        what = file.read()
                found[os.path.relpath(path, self.work)] = (stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), what)
        return found

    def contents(self):
        return {name: what[2].decode() for name, what in self.tree().items() if what[0] == stat.S_IFREG}


@pytest.fixture
def review(sandbox):
    return Review(sandbox)


@pytest.fixture
def engine():
    return "process"


def stamps(folder):
    """Whatever changes when somebody writes there."""
    found = {}
    for above, folders, files in os.walk(folder):
        for name in [".", *folders, *files]:
            path = os.path.join(above, name)
            st = os.lstat(path)
            found[path] = (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return found


# --- the workspace stays as it is, until somebody takes over what was done ------------------------


def test_a_workspace_under_review_is_never_written_to(review):
    review.file("a", "one\n")
    review.file("sub/b", "two\n")
    review.repository()
    before = stamps(review.work)
    done = review.agent("echo more >> a; rm -r sub; mkdir new; echo n > new/n; chmod 600 a; git add -A;"
                        "git -c user.name=b -c user.email=b@c commit -qm two; touch .git/hooks/x", quiet=False)  # fmt: skip
    assert stamps(review.work) == before
    assert re.search(r"review [0-9a-f]{8}: an overlay over " + re.escape(review.work) + "\n", done.stderr), done.stderr
    assert re.search(r"review [0-9a-f]{8}: 2 added, 1 changed, 2 deleted, and more", done.stderr), done.stderr
    assert os.stat(os.path.join(review.home, review.reviews()[0])).st_mode & 0o777 == 0o700


def test_what_was_done_is_shown_and_taken_over(review):
    review.file("changed", "one\ntwo\n")
    review.file("deleted", "gone\n")
    review.file("renamed", "the same\n")
    review.file("run.sh", "echo\n")
    review.file("folder/inner/file", "x\n")
    review.agent("echo three >> changed; rm deleted; mv renamed other; chmod 755 run.sh; rm -r folder; mkdir empty;"
                 "mkdir -p deep/er; echo d > deep/er/d; printf 'no end' > noend")  # fmt: skip
    assert review.stat() == [
        "M  changed", "A  deep/", "A  deep/er/", "A  deep/er/d", "D  deleted", "A  empty/", "D  folder/", "D  folder/inner/",
        "D  folder/inner/file", "A  noend", "A  other", "D  renamed", "P  run.sh (mode 0755, 0644 before)",
    ]  # fmt: skip
    text = review.diff("changed")
    assert text == "M  changed\n   @@ -1,2 +1,3 @@\n    one\n    two\n   +three\n"
    before = review.tree()
    assert "13 would be applied" in review.apply("--dry-run").stdout.decode()
    assert review.tree() == before
    review.apply()
    assert review.contents() == {"changed": "one\ntwo\nthree\n", "deep/er/d": "d\n", "noend": "no end",
                                 "other": "the same\n", "run.sh": "echo\n"}  # fmt: skip
    assert set(review.tree()) == {"changed", "deep", "deep/er", "deep/er/d", "noend", "other", "run.sh", "empty"}
    assert os.stat(os.path.join(review.work, "run.sh")).st_mode & 0o777 == 0o755
    owner = os.stat(review.work).st_uid
    assert {os.lstat(os.path.join(review.work, name)).st_uid for name in review.tree()} == {owner}
    assert review.stat() == []
    assert "\n0 applied\n" in "\n" + review.apply().stdout.decode()


def test_single_paths_are_taken_over_or_taken_back(review):
    review.file("a", "a\n")
    review.file("b", "b\n")
    review.file("sub/c", "c\n")
    review.agent("echo 2 > a; echo 2 > b; rm -r sub; mkdir new; echo n > new/n; echo m > new/m")
    review.apply("new/n", "./a", os.path.join(review.work, "sub/"))
    assert review.contents() == {"a": "2\n", "b": "b\n", "new/n": "n\n"}
    assert review.verb("discard", "--dry-run", "b").stdout == b"M  b\n1 would be discarded\n"
    assert review.stat() == ["M  b", "A  new/m"]
    assert review.verb("discard", "b").stdout == b"M  b\n1 discarded\n"
    review.verb("discard", "new")
    assert review.stat() == []
    assert "nothing has changed there" in review.apply("nosuch", check=1).stderr.decode()
    for path in ("/etc/passwd", "../x/..", "..", "new/../..", ""):
        assert review.apply(path, check=None).returncode == 2


def test_what_was_deleted_comes_back_by_name(review):
    review.file("sub/deep/c", "c\n")
    review.file("a", "a\n")
    review.agent("rm -r sub; rm a")
    assert "name that" in review.verb("discard", "sub/deep/c", check=1).stderr.decode()
    review.verb("discard", "sub")
    assert review.stat() == ["D  a"]
    assert review.agent("cat sub/deep/c").stdout == "c\n"


def test_a_folder_that_was_made_anew_hides_the_one_before(review):
    review.file("sub/old", "old\n")
    review.file("sub/kept", "kept\n")
    review.file("sub/in/x", "x\n")
    review.agent("rm -r sub; mkdir sub; echo kept > sub/kept; echo n > sub/new; mkdir -p sub/in; echo y > sub/in/y")
    assert review.stat() == ["D  sub/in/x", "A  sub/in/y", "A  sub/new", "D  sub/old"]
    review.apply()
    assert review.contents() == {"sub/kept": "kept\n", "sub/in/y": "y\n", "sub/new": "n\n"}
    assert review.stat() == []
    review.agent("echo 2 > sub/new; rm sub/kept")
    review.verb("discard", "sub/kept")
    review.apply()
    assert review.contents() == {"sub/kept": "kept\n", "sub/in/y": "y\n", "sub/new": "2\n"}


def test_files_and_folders_may_take_each_others_place(review):
    review.file("file", "f\n")
    review.file("folder/a", "a\n")
    review.file("folder/b/c", "c\n")
    review.file("text", "t\n")
    review.agent("rm file; mkdir file; echo in > file/in; rm -r folder; echo now > folder; rm text; ln -s file/in text")
    assert review.stat() == ["D  file", "A  file/", "A  file/in", "D  folder/", "A  folder", "D  folder/a",
                             "D  folder/b/", "D  folder/b/c", "M  text -> file/in (mode 0777, 0644 before)"]  # fmt: skip
    review.apply()
    assert review.contents() == {"file/in": "in\n", "folder": "now\n"}
    assert os.readlink(os.path.join(review.work, "text")) == "file/in"
    assert review.stat() == []


def test_untracked_and_ignored_files_are_seen_and_shown(review):
    review.file(".gitignore", "secret\nbuild/\n")
    review.file("secret", "s\n")
    review.repository()
    review.file("untracked", "u\n")
    review.agent("cat secret untracked; echo 2 >> secret; echo 2 >> untracked; mkdir build; echo o > build/o")
    assert review.stat() == ["A  build/", "A  build/o", "M  secret", "M  untracked"]


def test_a_folder_without_git_and_an_empty_one_do(review):
    assert review.agent("ls -A; echo x > x").stdout == ""
    assert review.stat() == ["A  x"]
    review.apply()
    assert review.contents() == {"x": "x\n"}
    review.agent("git init -q .; git add x; git -c user.name=b -c user.email=b@c commit -qm one", how="review")
    done = review.apply(check=1)
    assert b"no git repository of its own" in done.stderr
    assert not os.path.exists(os.path.join(review.work, ".git"))


def test_folders_of_packages_are_one_line_until_they_are_named(review):
    review.file("web/node_modules/x/old", "1\n")
    script = "mkdir -p .venv/lib web/node_modules/y; for i in $(seq 300); do echo $i > .venv/lib/$i; done;"
    review.agent(script + "echo y > web/node_modules/y/index.js; rm web/node_modules/x/old; echo m > web/m")
    assert review.stat() == [
        "A  web/m", "-  .venv/: 302 changes [applied only where it is named]",
        "-  web/node_modules/: 3 changes [applied only where it is named]",
    ]  # fmt: skip
    review.apply(check=1)
    review.apply("web", check=1)
    assert review.contents() == {"web/m": "m\n", "web/node_modules/x/old": "1\n"}
    review.apply("web/node_modules/y")
    review.apply(".venv/lib/7")
    assert review.contents() == {"web/m": "m\n", "web/node_modules/x/old": "1\n", "web/node_modules/y/index.js": "y\n",
                                 ".venv/lib/7": "7\n"}  # fmt: skip


@pytest.mark.parametrize("name", [".github/hooks/x", ".config/mise/config.toml", ".config/lefthook.yml", ".clinerules/hooks/x", "mise/config.toml",
                                  "sub/.config/mise/config.toml", "sub/.ENVRC", ".VSCode/tasks.json", ".Cargo/config.toml", "sub/.hg/hgrc"])  # fmt: skip
def test_a_name_that_is_protected_within_a_folder_is_taken_over_only_where_it_is_named(review, name):
    review.agent(f"mkdir -p $(dirname {name}) && echo x > {name} && echo y > plain")
    review.apply(check=1)
    assert review.contents() == {"plain": "y\n"}
    review.apply(name)
    assert review.contents() == {"plain": "y\n", name: "x\n"}


def test_protected_names_are_taken_over_only_where_they_are_named(review):
    review.file(".mcp.json", "{}\n")
    review.agent("echo '{1}' > .mcp.json; mkdir -p .vscode sub/.claude; echo t > .vscode/tasks.json; echo s > sub/.claude/s; mkdir -p .sl _darcs/prefs; echo c > .sl/config; echo d > _darcs/prefs/defaults;"
                 "echo o > .envrc; echo x > plain")  # fmt: skip
    assert "A  .envrc [protected: applied only where it is named]" in review.stat()
    review.apply(check=1)
    review.apply("sub", check=1)
    assert review.contents() == {".mcp.json": "{}\n", "plain": "x\n"}
    review.apply(".vscode", ".mcp.json", "sub/.claude/s")
    assert review.contents() == {".mcp.json": "{1}\n", "plain": "x\n", ".vscode/tasks.json": "t\n", "sub/.claude/s": "s\n"}


def test_the_example_of_the_page_goes_as_it_is_shown(review):
    """docs/review.md: what is typed, and what comes of it, but for the review's name and the folder's."""
    with open(os.path.join(ROOT, "docs", "review.md"), encoding="utf-8") as page:
        example = page.read().split("```console\n")[1].split("```")[0]
    review.file("greeting", "hello\n")
    review.file("old", "old\n")
    path = os.path.dirname(review.run_.keyhole) + ":/usr/bin:/bin"
    said = ""
    for part in example.split("$ ")[1:]:
        typed = part.splitlines()[0]
        done = subprocess.run(
            review.sandbox.as_identity(["sh", "-c", typed]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=PATIENCE, check=True, cwd=review.work, env=review.run_.environment(PATH=path), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        said += "$ " + typed + "\n" + re.sub(r"keyhole: 0 requests allowed, .*\n", "", done.stdout)
    id_ = re.search(r"review ([0-9a-f]{8})", said)[1]
    assert said.replace(id_, "3f9a2c1b").replace(review.work, "/home/you/project") == example
    assert review.contents() == {"greeting": "hello, world\n", "old": "old\n"}


def test_paths_begin_in_the_folder_that_one_is_in(review):
    for name in ("a", "sub/a", "sub/in/b"):
        review.file(name, "0\n")
    review.agent("for f in a sub/a sub/in/b; do echo 1 > $f; done")
    sub = os.path.join(review.work, "sub")
    assert review.verb("diff", "--stat", "a", cwd=sub).stdout == b"M  sub/a\n"
    assert review.verb("diff", "--stat", "../a", "./in/../in//b", cwd=sub).stdout == b"M  a\nM  sub/in/b\n"
    assert "sub/sub/a: nothing has changed there" in review.verb("apply", "sub/a", cwd=sub, check=1).stderr.decode()
    review.verb("apply", "../../a", cwd=sub, check=2)
    # From elsewhere they are the workspace's.
    assert review.verb("diff", "--stat", "--workspace", review.work, "a", cwd="/").stdout == b"M  a\n"
    review.verb("apply", ".", cwd=os.path.join(sub, "in"))
    assert review.contents() == {"a": "0\n", "sub/a": "0\n", "sub/in/b": "1\n"}
    review.apply(".")
    assert set(review.contents().values()) == {"1\n"}


def test_an_apply_that_leaves_something_says_so_and_fails(review):
    review.repository()
    review.agent("ln -s /etc/passwd evil; mkfifo p; echo hook > .git/hooks/pre-commit; echo a > a; echo b > b;"
                 "mkdir -p node_modules sub; echo m > node_modules/m; git init -q sub/dep")  # fmt: skip
    for path in ("evil", "p", ".git", ".git/hooks", ".git/hooks/pre-commit", "sub/dep/.git", "evil p a".split()):
        words = path if isinstance(path, list) else [path]
        for more in (["-n"], []):
            done = review.apply(*more, *words, check=1)
            assert b"never applied" in done.stdout and b"nothing has changed" not in done.stderr, (words, done)
    assert review.contents() == {"a": "a\n"}
    assert "nothing has changed there" in review.apply(".git/hooks/nosuch", "b", check=1).stderr.decode()
    # What is shown of one path is of that path alone, and of one that is none nothing.
    assert review.stat("b") == ["A  b"]
    assert review.stat(".git/hooks/pre-commit") == ["-  .git/: 1 change [of a git folder: never applied]"]
    assert [line.split(":")[0] for line in review.stat("sub")] == ["A  sub/", "A  sub/dep/", "-  sub/dep/.git/"]
    for more in ([], ["--stat"], ["--json"]):
        done = review.verb("diff", *more, "b", "nosuch", check=1)
        assert "workspace: nosuch: nothing has changed there" in done.stderr.decode() and done.stdout == b""
    assert "only with the review" in review.verb("discard", ".git", check=1).stderr.decode()
    for _ in range(2):
        assert b"evil" in review.apply("--no-commits", check=1).stdout
    review.apply("node_modules")
    review.verb("discard", "evil", "p")
    review.apply(check=1)  # sub/dep/.git
    assert "only with the review" in review.verb("discard", "sub/dep/.git/HEAD", check=1).stderr.decode()
    assert review.verb("discard", "sub").stdout.startswith(b"-  sub/dep/.git/: ")
    # The workspace's own git folder comes as commits, of which there are none.
    review.apply()


# --- conflicts ------------------------------------------------------------------------------------


@pytest.fixture
def conflicting(review):
    for name in ("edited", "removed", "mine", "theirs"):
        review.file(name, "0\n")
    review.agent("for f in edited removed theirs; do echo agent > $f; done; echo agent > added; rm mine")
    review.file("edited", "host\n")
    os.unlink(os.path.join(review.work, "removed"))
    review.file("added", "host\n")
    review.file("mine", "host\n")
    return review


CONFLICTS = ("added", "edited", "mine", "removed")


def test_a_conflict_is_named_and_nothing_is_taken_over(conflicting):
    before = conflicting.tree()
    marked = [line.split()[1] for line in conflicting.stat() if "[conflict:" in line]
    assert tuple(marked) == CONFLICTS
    assert [c["path"] for c in conflicting.json()["changes"] if c["conflict"]] == marked
    said = conflicting.apply(check=1).stderr.decode()
    assert all(f"workspace: {name}:" in said for name in CONFLICTS) and "--ours" in said, said
    assert conflicting.tree() == before
    conflicting.apply("theirs")
    assert conflicting.contents()["theirs"] == "agent\n"


def test_in_a_conflict_ours_stay_where_that_is_asked_for(conflicting):
    conflicting.apply("--ours", check=1)
    assert conflicting.contents() == {"edited": "host\n", "added": "host\n", "mine": "host\n", "theirs": "agent\n"}


def test_in_a_conflict_the_agents_replace_ours_where_that_is_asked_for(conflicting):
    conflicting.apply("--force")
    assert conflicting.contents() == {name: "agent\n" for name in ("edited", "added", "removed", "theirs")}


def test_a_conflict_stays_one_in_a_later_run(review):
    review.file("a", "0\n")
    review.agent("echo agent > a")
    review.file("a", "host\n")
    review.agent("echo again >> a; echo b > b")
    assert review.stat()[0].startswith("M  a [conflict")
    assert review.stat()[1:] == ["A  b"]


# --- what is never taken over ---------------------------------------------------------------------


def test_only_regular_files_folders_and_links_that_stay_inside_are_taken_over(review):
    review.file("sub/file", "f\n")
    review.python("""
        import os, socket
        os.mkfifo("fifo")
        socket.socket(socket.AF_UNIX).bind("sock")
        for name, text in {"in": "sub/file", "sub/up": "../sub/file", "out": "/etc/passwd", "up": "../x", "sub/far": "../../x",
                           "back": "sub/../../x", "git": ".git/hooks", "sub/there": "../.git/config", "dot": "."}.items():
            os.symlink(text, name)
        os.mkdir("d"); os.chmod("d", 0o777)
        open("x", "w").close(); os.chmod("x", 0o777)
    """.replace("\n        ", "\n"))  # fmt: skip
    review.apply("--no-commits", check=1)
    tree = review.tree()
    assert set(tree) == {"sub", "sub/file", "in", "sub/up", "dot", "d", "x"}
    left = {line.split()[1]: line for line in review.stat()}
    assert "no regular file" in left["fifo"] and "no regular file" in left["sock"]
    assert all("may lead out" in left[name] for name in ("out", "up", "sub/far", "back", "git", "sub/there")), left


def test_links_through_a_link_of_the_workspaces_own_that_leads_out_are_not_taken_over(review):
    outside = review.sandbox.folder("outside")
    review.sandbox.file(os.path.join(outside, "file"), "x\n")
    review.file("d/file", "x\n")
    review.git("init", "-q", "-b", "main")
    for name, text in {"out": outside, "up": "../outside", "git": ".git", "fine": "d"}.items():
        os.symlink(text, os.path.join(review.work, name))
    review.agent("ln -s out/file a; ln -s up/file b; ln -s git/hooks c; ln -s fine/file ok; mkdir n; ln -s ../up/none n/e; ln -s ../d/new n/ok")
    review.apply("--no-commits", check=1)
    tree = review.tree()
    assert {"ok", "n/ok"} <= set(tree) and not {"a", "b", "c", "n/e"} & set(tree), set(tree)


def test_set_id_bits_and_attributes_stay_behind(review):
    """As if something had got them past the sandbox's filter."""
    review.agent("echo x > x")
    upper = os.path.join(review.home, review.reviews()[0], "layers", "upper", "x")
    os.chmod(upper, 0o6755)
    os.setxattr(upper, "user.planted", b"1")
    review.apply()
    target = os.path.join(review.work, "x")
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o755
    assert os.listxattr(target) == []


LEADS_OUT = "a symbolic link that may lead out of the workspace: never applied"


def outside_of(review):
    """A folder beside the workspace that nobody may reach."""
    folder = review.sandbox.folder("outside")
    review.sandbox.file(os.path.join(folder, "file"), "untouched\n")
    return folder


def test_links_in_the_workspace_lead_nowhere(review):
    outside = outside_of(review)
    before = stamps(outside)
    for name in ("a/file", "b/file", "c/file"):
        review.file(name, "1\n")
    review.agent("echo 2 > a/file; rm b/file; mkdir c/new; echo n > c/new/n; echo f > file")
    for name in ("a", "b", "c"):
        os.rename(os.path.join(review.work, name), os.path.join(review.work, name + ".was"))
        os.symlink(outside, os.path.join(review.work, name))
    os.symlink(os.path.join(outside, "file"), os.path.join(review.work, "file"))
    review.apply("--force", check=None)
    assert stamps(outside) == before
    assert not os.path.exists(os.path.join(outside, "new"))


def test_links_of_the_agents_lead_nowhere(review):
    outside = outside_of(review)
    before = stamps(outside)
    review.file("sub/file", "1\n")
    review.agent(f"rm -r sub; ln -s {outside} sub; ln -s {outside}/file file; mkdir d; ln -s ../sub d/l")
    text = review.diff()
    assert "untouched" not in text
    review.apply("--force", check=1)
    assert review.contents() == {"sub/file": "1\n"}
    review.verb("discard", "sub")
    assert review.stat() == ["A  file -> %s/file [%s]" % (outside, LEADS_OUT)]
    review.verb("discard")
    assert stamps(outside) == before
    assert review.reviews() == []


def test_forged_whiteouts_are_deletions_and_no_more(review):
    """Devices can't be made inside, and attributes of the overlay can't be set; if they could be, they say so."""
    review.file("sub/a", "a\n")
    review.file("b", "b\n")
    done = review.python("""
import os
try:
    os.mknod("b2", 0o20600, 0); print("made")
except OSError: print("no")
for name in ("user.overlay.opaque", "user.overlay.whiteout", "user.overlay.redirect"):
    try:
        os.setxattr("sub", name, b"y"); print(name in os.listxattr("sub"))
    except OSError: print("no")
os.mkdir("d")
""", check=0)  # fmt: skip
    assert done.stdout.splitlines()[0] == "no"
    upper = os.path.join(review.home, review.reviews()[0], "layers", "upper")
    assert [line for line in review.stat() if not line.endswith("d/")] == []
    if os.geteuid() == 0:
        os.mknod(os.path.join(upper, "b"), 0o20000, 0)
        os.mknod(os.path.join(upper, "never"), 0o20000, 0)
        os.mknod(os.path.join(upper, "disk"), 0o60600, os.makedev(254, 0))
        os.chown(os.path.join(upper, "disk"), os.stat(review.work).st_uid, -1)
        assert review.stat() == ["D  b", "A  d/", "A  disk [no regular file: never applied]"]
        review.apply(check=1)
        assert set(review.tree()) == {"sub", "sub/a", "d"}


PLANTED = """
mkdir -p .git/hooks sub bare
canary="/bin/sh -c 'echo fired >> {canary}'"
for hook in pre-commit post-checkout post-merge reference-transaction post-index-change; do
    printf '#!/bin/sh\\necho fired >> {canary}\\n' > .git/hooks/$hook; chmod 755 .git/hooks/$hook
done
git config core.fsmonitor "$canary"
git config core.pager "$canary"
git config diff.external "$canary"
git config diff.x.textconv "$canary"
git config filter.x.clean "$canary"
git config filter.x.smudge "$canary"
git config core.sshCommand "$canary"
git config uploadpack.packObjectsHook "$canary"
git config core.alternateRefsCommand "$canary"
echo '* filter=x diff=x' > .gitattributes
git init -q --bare bare
git -C bare config core.fsmonitor "$canary"
git init -q sub/nested; git -C sub/nested config core.fsmonitor "$canary"
mkdir gitfile; echo 'gitdir: ../bare' > gitfile/.git; mkdir -p upper/.GIT; echo x > upper/.GIT/config
mkdir -p .git/modules/new; cp -r bare/. .git/modules/new
echo changed > file
"""


def test_nothing_of_a_git_folder_is_taken_over_and_nothing_of_the_agents_runs(review):
    review.file("file", "one\n")
    review.repository()
    canary = os.path.join(review.sandbox.place, "fired")
    config = os.path.join(review.work, ".git", "config")
    with open(config, encoding="utf-8") as file:
        before = file.read()
    review.agent(PLANTED.replace("{canary}", canary))
    gitdirs = {g["path"] for g in review.json()["folders"]}
    assert gitdirs == {".git", "bare", "sub/nested/.git", "gitfile/.git", "upper/.GIT"}
    review.verb("ls")
    review.diff()
    review.apply("--dry-run", check=1)
    review.apply(check=1)
    review.apply("bare", check=None)
    review.verb("discard", "file", check=None)
    assert review.git("status", "--short", "--ignore-submodules=none") != ""
    for folder in ("bare", "sub/nested", "gitfile", "upper", "sub"):
        if os.path.isdir(os.path.join(review.work, folder)):
            review.git("-C", folder, "status")
    assert not os.path.exists(canary)
    names = set(review.tree())
    assert not any(".git" in name.lower().split("/") for name in names), names
    assert not names & {"bare/HEAD", "bare/objects", "bare/refs", "bare/config", "bare/hooks"}
    with open(config, encoding="utf-8") as file:
        assert file.read() == before
    assert not os.listdir(os.path.join(review.work, ".git", "modules")) if os.path.exists(
        os.path.join(review.work, ".git", "modules")) else True  # fmt: skip
    review.verb("discard")
    assert not os.path.exists(canary)


def test_a_bare_repository_can_not_be_put_together_in_parts(review):
    review.agent("mkdir -p b/objects; echo 'ref: refs/heads/main' > b/HEAD; echo n > b/n")
    review.apply()
    assert {"b/objects", "b/HEAD"} <= set(review.tree())
    review.agent("mkdir -p b/refs; mkdir b/hooks; printf '[core]\\nfsmonitor=/x\\n' > b/config; echo x > b/other")
    review.apply(check=1)
    assert not set(review.tree()) & {"b/refs", "b/hooks", "b/config"}
    review.agent("echo .. > b/commondir")
    review.apply(check=1)
    assert "b/commondir" not in review.tree()
    # The workspace itself can't become one either.
    # Nor is one put together in a spelling that another file system takes for git's.
    review.agent("mkdir -p objects refs hooks; echo 'ref: refs/heads/main' > HEAD; echo c > config; echo p > project;"
                 "mkdir -p y/Objects Y/refs; echo 'ref: refs/heads/main' > y/head; echo c > Y/config")  # fmt: skip
    review.apply(check=1)
    assert not set(review.tree()) & {"objects", "refs", "hooks", "HEAD", "config", "y/head", "Y/config", "y/Objects", "Y/refs"}
    assert review.contents()["project"] == "p\n"


# --- what is shown --------------------------------------------------------------------------------


def test_hostile_names_and_contents_move_no_cursor_and_forge_no_line(review):
    names = [b"line\nM  forged", b"esc\x1b[2J", b"bidi\xe2\x80\xaetxt.exe", b"bad\xff\xfe", b"tab\tend", b"zero\xe2\x80\x8bwidth",
             b"c1\xc2\x9bm", b"back\\slash", b"\xf3\xa0\x81\x81tag", b"-n", b"--force"]  # fmt: skip
    review.python("""
import os
for name in %r:
    with open(name, "wb") as file:
        file.write(b"plain\\x1b]0;title\\x07 \\xe2\\x80\\xae \\xff \\r\\nnext\\n")
os.symlink(b"to\\x1b[1m", b"link")
""" % names)  # fmt: skip
    for words in ([], ["--stat"], ["--json"]):
        shown = review.verb("diff", *words).stdout
        text = shown.decode()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e0fff]", text
                             if "--json" not in words else ""), (words, shown)  # fmt: skip
        assert b"\x1b" not in shown
    assert not any(line.startswith("M  forged") for line in review.stat())
    assert 'A  "line\\x0aM  forged"' in review.stat()
    found = [bytes(c["path_bytes"]) if "path_bytes" in c else c["path"].encode() for c in review.json()["changes"]]
    assert sorted(found) == sorted([*names, b"link"])
    review.apply("back\\slash")  # some file systems read another name
    review.apply()
    assert set(os.listdir(os.fsencode(review.work))) == {*names, b"link"}


def test_a_name_with_spaces_is_quoted_and_forges_no_link_and_no_remark(review):
    names = ["a -> b [protected]", 'q"x', "a\u00a0->\u3000b", "plain (mode 0755)", "x: 3 changes/y"]
    review.python(f"""
import os
for name in {names!r}:
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    open(name, "w").close()
os.symlink("x -> y", "link")
""")
    shown = review.stat()
    for line in ('A  "a -> b [protected]"', 'A  "q\\"x"', 'A  "a\u00a0->\u3000b"', 'A  "plain (mode 0755)"', 'A  "x: 3 changes/y"',
                 'A  link -> "x -> y"'):  # fmt: skip
        assert line in shown, (line, shown)
    review.apply()
    assert set(names) <= set(review.contents())


LOOKS_LIKE_KEYHOLES = [
    "M  other", "A  other", "   @@ -1 +1 @@", "-  .git/: 3 changes [of a git folder: never applied]", "- a/other", "-- a/other",
    "++ b/other", "@@ -1 +1 @@", "+planted", "-planted", " planted", "(large, not compared: 1 bytes, 2 before)", "(more is not shown)",
    " ! planted", "\\ No newline at end of file", "new commits are", "0 applied", "Binary files a and b differ",
]  # fmt: skip


def test_no_line_of_a_file_looks_like_the_name_of_a_file_or_like_a_note(review):
    """Removed, added, and beside what has changed: each begins in a place of its own."""
    forged = "".join(line + "\n" for line in LOOKS_LIKE_KEYHOLES)
    review.file("removed", forged)
    review.file("kept", forged + "one\n")
    review.python(f"""
import os
os.unlink("removed")
open("added", "w").write({forged!r})
open("kept", "a").write("two\\n" + {forged!r})
""")
    shown = review.diff().splitlines()
    assert [line for line in shown if not line.startswith("   ")] == ["A  added", "M  kept", "D  removed"]
    n = len(LOOKS_LIKE_KEYHOLES)
    assert shown[:n + 2] == ["A  added", f"   @@ -0,0 +1,{n} @@", *(f"   +{line}" for line in LOOKS_LIKE_KEYHOLES)]
    assert shown[-n:] == [f"   -{line}" for line in LOOKS_LIKE_KEYHOLES]
    # Of the context diff shows three lines.
    assert shown[n + 3:n + 8] == [f"   @@ -{n - 1},3 +{n - 1},{n + 4} @@", *(f"    {line}" for line in (*LOOKS_LIKE_KEYHOLES[-2:], "one")), "   +two"]


def on_a_terminal(review, columns, *words):
    """The rows that a terminal of this width shows: it ends a row by itself as well."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    shows = subprocess.Popen(review.sandbox.as_identity([review.run_.keyhole, "workspace", *words]), stdin=subprocess.DEVNULL,
                             stdout=theirs, cwd=review.work, env=review.run_.environment())  # fmt: skip
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while more := os.read(ours, 65536):
            said += more
    os.close(ours)
    assert shows.wait(timeout=PATIENCE) == 0
    assert said.startswith(RESET) and said.count(b"\x1b[m") == 1
    said = said.removeprefix(RESET)
    rows = []
    for line in said.decode().split("\r\n")[:-1]:
        row, used = "", 0
        for c in line:
            width = 8 - used % 8 if c == "\t" else 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
            if used + width > columns and c != "\t":
                rows.append(row)
                row, used = "", 0
            row, used = row + c, min(used + width, columns)
        rows.append(row)
    return rows


def test_no_long_line_and_no_long_name_goes_on_as_a_line_of_keyholes(review):
    """Where the terminal is narrower than the line, its end would begin in the first column."""
    columns, forged = 60, "M  forged [protected: applied only where it is named]"
    names = ["n" * (columns - used) + forged for used in (3, 4, 5)]
    contents = [pad * n + forged for n in range(10, columns) for pad in ("x", " ", "\u4e2d", "e\u0301", "\t", "x\x01")]
    review.repository()
    review.python(f"for name in {names!r}:\n  open(name, 'w').write('\\n'.join({contents!r}))")
    review.agent(commit("two"))
    for words in ((), ("--stat",), ("--only-commits",)):
        rows = on_a_terminal(review, columns, "diff", *words)
        assert [row for row in rows if row.startswith(("M", "  M"))] == []
        shown = "".join(row.removeprefix(" > ") if row.startswith(" > ") else "\n" + row for row in rows)
        for name in names:
            assert f'A  "{name}"' in shown
        # Nothing is lost.
        assert words or all(f"\n   +{line}\n" in shown for line in contents[:-1] if "\x01" not in line and "\t" not in line)
        assert "\t" not in shown
    # Where there is no terminal, nothing is broken.
    assert "\n > " not in review.diff()


def test_a_byte_that_is_written_out_is_told_from_a_text_that_looks_the_same(review):
    shown_as = {
        rb"\x1b": r"   +\x1b",
        b"\x1b": r" ! +\x1b",
        b"\\x1b\x1b": r" ! +\\x1b\x1b",
        b"\\u{202e}\xe2\x80\xae": r" ! +\\u{202e}\u{202e}",
        b"a\tb": "   +a\tb",
        b"\r": r" ! +\x0d",
        b"x" * 100_000 + b"\0": " ! +" + "x" * 100_000 + r"\x00",
    }
    review.python(f"open('f', 'wb').write({b''.join(line + bytes([10]) for line in shown_as)!r})")
    assert review.diff().split("\n") == ["A  f", f"   @@ -0,0 +1,{len(shown_as)} @@", *shown_as.values(), ""]


def test_texts_are_compared_without_what_the_workspace_says_of_it(review):
    review.file(".gitattributes", "*.txt -diff\n")
    review.file("a.txt", "one\n")
    review.agent("echo two > a.txt; printf 'a\\0b' > binary; head -c 5000000 /dev/zero | tr '\\0' x > large")
    text = review.diff()
    assert "   -one\n   +two\n" in text
    assert "(no text, not compared: 3 bytes, 0 before)" in text
    assert "(large, not compared: 5000000 bytes, 0 before)" in text


# --- much -----------------------------------------------------------------------------------------


def test_a_huge_file_takes_no_memory(review):
    review.agent("truncate -s 150M huge; echo end >> huge")

    def little():
        resource.setrlimit(resource.RLIMIT_AS, (100 << 20, 100 << 20))

    review.verb("diff", limits=little)
    review.verb("apply", limits=little)
    assert os.stat(os.path.join(review.work, "huge")).st_size == (150 << 20) + 4
    assert review.stat() == []


def test_many_files_are_all_seen(review):
    script = "import os\nfor i in range(3000):\n  os.makedirs(f'd{i % 30}', exist_ok=True)\n  open(f'd{i % 30}/{i}', 'w').write(str(i))"
    review.python(script)
    assert len(review.stat()) == 3030
    review.apply()
    assert len(review.contents()) == 3000
    assert review.contents()["d7/2707"] == "2707"


def test_a_tree_that_is_too_deep_is_said_and_not_followed(review):
    review.python("import os\nfor i in range(400):\n  os.mkdir('d'); os.chdir('d')\nopen('deep', 'w').write('x')")
    assert any("can't be looked at: never applied" in line for line in review.stat())
    # The survey before the next run looks into each folder that is applied.
    review.apply(check=1)
    assert os.path.isdir(os.path.join(review.work, *["d"] * 198))
    review.agent("true")
    review.verb("discard")
    assert review.reviews() == []


def test_folders_that_were_shut_are_no_way_to_stay(review):
    review.agent("mkdir -p shut/in; echo x > shut/in/x; chmod 0 shut/in; chmod 500 shut")
    review.verb("diff", "--stat")
    review.verb("discard")
    assert review.reviews() == []


def test_discard_removes_no_review_of_another_folder_by_its_id_alone(review):
    review.agent("echo x > x")
    id_ = review.reviews()[0]
    other = review.sandbox.folder("other")
    done = review.verb("discard", "--review", id_, cwd=other, check=1)
    assert f"review {id_} is one of {review.work}, and not of this folder" in done.stderr.decode()
    assert review.reviews() == [id_]
    review.verb("discard", "--review", id_, "--workspace", review.work, cwd=other)
    assert review.reviews() == []


# --- commits --------------------------------------------------------------------------------------


def commit(message):
    return f"git add -A; git -c user.name=b -c user.email=b@c commit -qm {message};"


def test_commits_come_over_as_refs_of_their_own_and_nothing_is_checked_out(review):
    review.file("a", "one\n")
    review.repository()
    first = review.git("rev-parse", "main")
    hook = review.file(".git/hooks/reference-transaction", "#!/bin/sh\necho ran > ran\n", 0o755)
    review.agent("echo two >> a;" + commit("two") + "git checkout -qb topic; echo t > t;" + commit("three")
                 + "git tag -f v1")  # fmt: skip
    id_ = review.reviews()[0]
    assert review.apply("--only-commits", "--dry-run").stdout.decode().count("would be set") == 4
    assert review.git("for-each-ref", "refs/keyhole") == ""
    review.apply("--only-commits")
    assert review.contents() == {"a": "one\n"}
    assert review.git("rev-parse", "main", "HEAD").split() == [first, first]
    assert review.git("log", "--format=%s", f"refs/keyhole/{id_}/heads/topic").split() == ["three", "two", "first"]
    refs = review.git("for-each-ref", "--format=%(refname)", "refs/keyhole").split()
    assert refs == [f"refs/keyhole/{id_}/{name}" for name in ("HEAD", "heads/main", "heads/topic", "tags/v1")]
    review.git("fsck", "--strict")
    assert not os.path.exists(os.path.join(review.work, ".git", "ran")) and os.path.exists(hook)
    owner = os.stat(review.work).st_uid
    for above, _, files in os.walk(os.path.join(review.work, ".git")):
        assert {os.lstat(os.path.join(above, name)).st_uid for name in files} <= {owner}
    assert "no new commits" in review.apply("--only-commits").stdout.decode()


def test_the_pages_way_to_merge_commits_works_and_what_stays_of_them_is_said(review):
    """docs/review.md, "Commits": what is typed there, in its order."""
    with open(os.path.join(ROOT, "docs", "review.md"), encoding="utf-8") as page:
        example = page.read().split("\n## Commits\n")[1].split("```console\n")[1].split("```")[0]
    typed = [line[2:] for line in example.splitlines() if line.startswith("$ ")]
    review.file("a", "one\n")
    review.file("b", "b\n")
    review.repository()
    review.agent("echo two >> a; echo n > new;" + commit("two") + "echo more >> b; echo u > untracked")
    id_ = review.reviews()[0]
    environment = review.run_.environment(PATH=os.path.dirname(review.run_.keyhole) + ":/usr/bin:/bin", GIT_CONFIG_COUNT="1",
                                          GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")  # fmt: skip
    said = ""
    for command in typed:
        said += subprocess.run(
            review.sandbox.as_identity(["sh", "-ec", command.replace("3f9a2c1b", id_)]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=PATIENCE, check=True, cwd=review.work, env=environment, stdin=subprocess.DEVNULL,
        ).stdout  # fmt: skip
    assert review.contents() == {"a": "one\ntwo\n", "b": "b\nmore\n", "new": "n\n", "untracked": "u\n"}
    assert review.git("log", "--format=%s").split() == ["two", "first"]
    assert f"`git merge refs/keyhole/{id_}/HEAD` merges them" in said
    assert review.git("for-each-ref", "refs/keyhole") == "" and review.reviews() == []


@pytest.mark.parametrize("head", [True, False])
def test_what_commits_change_is_listed_and_no_merge_of_protected_names_is_recommended(review, head):
    """They are in no file of the review: the agent removed them from the work tree again."""
    review.file("a", "one\n")
    if head:
        review.repository()
    else:
        review.git("init", "-q", "-b", "main")
    review.agent("mkdir -p sub/.vscode; echo {} > sub/.vscode/tasks.json; echo x > .envrc-not; echo two >> a; printf x > 'b\t\033[2Jc';"
                 + commit("two") + "rm -r sub .envrc-not b*; git checkout -qb harmless; git rm -qr --cached sub;" + commit("three"))  # fmt: skip
    shown = review.diff()
    assert "  A  sub/.vscode/tasks.json [protected]\n" in shown and "look at each first\n" in shown
    said = review.apply("--only-commits").stdout.decode()
    assert "  A  sub/.vscode/tasks.json [protected]\n" in said
    assert f"  {'M' if head else 'A'}  a\n" in said and "\033" not in said and "b\\x09\\x1b[2Jc" in said
    assert "git merge" not in said and "look at each first" in said


def test_apply_brings_commits_first_and_touches_no_file_until_they_are_merged(review):
    """A file that was committed and then changed once more would end in a conflict of git's."""
    review.file("a", "one\n")
    review.repository()
    review.agent("echo two >> a; echo n > new;" + commit("two") + "echo three >> a")
    id_ = review.reviews()[0]
    done = review.apply(check=1)
    assert f"`git merge refs/keyhole/{id_}/HEAD` merges them\nfiles wait" in done.stdout.decode()
    assert review.contents() == {"a": "one\n"}
    review.git("merge", "-q", f"refs/keyhole/{id_}/HEAD")
    assert review.contents() == {"a": "one\ntwo\n", "new": "n\n"}
    assert "no file is left to apply (`keyhole workspace discard`" in review.apply("--force").stdout.decode()
    assert review.contents() == {"a": "one\ntwo\nthree\n", "new": "n\n"}
    for words in (["-n"], []):
        assert f"delete %(refname)' refs/keyhole/{id_} | git update-ref --stdin" in review.verb("discard", *words).stdout.decode()


def test_a_local_clone_works_without_hard_links(review):
    review.file("a", "one\n")
    review.repository()
    review.agent("git clone -q --no-hardlinks . dep; cat dep/a")


BAD = """
import subprocess
def put(kind, data):
    return subprocess.run(["git", "hash-object", "--literally", "-w", "-t", kind, "--stdin"], input=data,
                          capture_output=True, check=True).stdout.decode().strip()
blob = put("blob", b"[core]\\n")
inner = put("tree", b"100644 config\\0" + bytes.fromhex(blob))
tree = put("tree", b"40000 .git\\0" + bytes.fromhex(inner))
who = "b <b@c> 1700000000 +0000"
made = put("commit", f"tree {tree}\\nauthor {who}\\ncommitter {who}\\n\\nbad\\n".encode())
subprocess.run(["git", "update-ref", "refs/heads/bad", made], check=True)
"""


def test_commits_that_git_finds_bad_do_not_come_over(review):
    """A tree with an entry .git, which a checkout would write into the repository itself."""
    review.file("a", "one\n")
    review.repository()
    review.python(BAD)
    done = review.apply("--only-commits", check=1)
    assert b"index-pack" in done.stderr, done.stderr
    assert review.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    review.git("fsck", "--strict")


def test_what_a_hostile_repository_starts_runs_in_the_sandbox_and_changes_nothing(review):
    """The sandbox in which the bundle is made sees the review and can't write to it."""
    review.file("a", "one\n")
    review.repository()
    review.agent("echo two > a;" + commit("two") + "echo three > b")
    script = "#!/bin/sh\nrm -rf a b; echo changed > a; echo > /etc/x\n"
    review.agent(f"printf '%s' '{script}' > .git/x; chmod 755 .git/x; for key in core.fsmonitor core.pager diff.external"
                 " uploadpack.packObjectsHook core.alternateRefsCommand; do git config $key \"$PWD/.git/x\"; done")  # fmt: skip
    upper = os.path.join(review.home, review.reviews()[0], "layers", "upper")
    before = {k: v[:2] for k, v in stamps(upper).items()}
    review.apply("--only-commits", check=None)
    assert {k: v[:2] for k, v in stamps(upper).items()} == before


# --- one review, or several -----------------------------------------------------------------------


def test_a_second_run_goes_on_and_a_new_one_begins_anew(review):
    review.file("a", "0\n")
    review.agent("echo 1 > a; echo b > b")
    assert review.agent("cat a b; echo 2 >> a").stdout == "1\nb\n"
    assert review.agent("cat a; ls; echo new > n", how="review=new").stdout == "0\na\n"
    first, second = sorted(review.reviews(), key=lambda id_: "n" in os.listdir(os.path.join(review.home, id_, "layers", "upper")))
    listed = review.verb("ls").stdout.decode().splitlines()
    assert {line.split()[0] for line in listed} == {first, second} and all(line.endswith(review.work) for line in listed)
    assert "several reviews" in review.verb("diff", check=1).stderr.decode()
    assert "several reviews" in review.agent("true", check=125).stderr
    assert review.stat("--review", second) == ["A  n"]
    assert review.agent("cat a", how=f"review={first}").stdout == "1\n2\n"
    assert json.loads(review.verb("ls", "--json").stdout)[0]["state"] == "open"
    review.verb("discard", "--review", second)
    assert review.reviews() == [first]
    assert review.stat() == ["M  a", "A  b"]


def test_what_changed_on_the_host_meanwhile_is_seen_by_the_next_run(review):
    review.file("a", "0\n")
    review.file("b", "0\n")
    review.agent("echo agent > a")
    review.file("b", "host\n")
    review.file("c", "host\n")
    assert review.agent("cat b c; echo agent >> b").stdout == "host\nhost\n"
    assert review.stat() == ["M  a", "M  b"]
    review.apply()
    assert review.contents() == {"a": "agent\n", "b": "host\nagent\n", "c": "host\n"}


def test_what_was_taken_over_is_the_workspaces_own_from_then_on(review):
    review.file("a", "0\n")
    review.agent("echo 1 > a; mkdir n; echo n > n/n")
    review.apply()
    review.file("a", "host\n")
    assert review.agent("cat a n/n; echo 2 >> a").stdout == "host\nn\n"
    assert review.stat() == ["M  a"]
    review.apply()
    assert review.contents()["a"] == "host\n2\n"


def test_a_review_without_changes_is_gone(review):
    review.file("a", "0\n")
    done = review.agent("cat a; touch a; chmod 600 a; chmod 644 a; true", quiet=False)
    assert re.search(r"review [0-9a-f]{8}: nothing was changed; it is removed\n", done.stderr), done.stderr
    assert review.reviews() == []
    assert "there are no reviews" in review.verb("ls").stderr.decode() and review.verb("ls").stdout == b""
    assert "no review of" in review.verb("diff", check=1).stderr.decode()


def test_a_review_in_use_is_left_alone_and_one_of_a_killed_launcher_is_listed(review):
    review.file("a", "0\n")
    command = ["--workspace", f"{review.work}:review", "--", "sh", "-c", "echo 1 > a; echo ready; sleep 60"]
    running = review.run_.start("-q", *command)
    assert running.stdout.readline() == b"ready\n"
    assert "in use" in review.verb("ls").stdout.decode()
    for words in (["apply"], ["discard"]):
        assert "wait for its end" in review.verb(*words, check=1).stderr.decode()
    assert "is in use" in review.agent("true", check=125).stderr
    assert review.stat() == ["M  a"]
    os.kill(running.pid, signal.SIGKILL)
    running.wait(timeout=PATIENCE)
    running.stdout.close()
    running.stderr.close()
    assert "  open  " in review.verb("ls").stdout.decode()
    review.apply()
    assert review.contents() == {"a": "1\n"}
    # And one that was killed before it had begun.
    half = os.path.join(review.home, "0123abcd")
    os.mkdir(half, 0o700)
    if os.geteuid() == 0:
        os.chown(half, os.stat(review.work).st_uid, -1)
    assert "0123abcd  unfinished" in review.verb("ls").stdout.decode()
    assert "never finished" in review.verb("diff", "--review", "0123abcd", check=1).stderr.decode()
    review.verb("discard", "--review", "0123abcd")
    review.verb("discard")
    assert review.reviews() == []


def test_what_an_interrupted_apply_left_is_no_matter(review):
    review.file("b", "0\n")
    review.agent("echo 1 > a; echo 1 > b; echo 1 > c")
    review.file(f".keyhole-{review.reviews()[0]}", "half")
    review.apply("b")
    review.apply()
    assert review.contents() == {"a": "1\n", "b": "1\n", "c": "1\n"}


def test_reviews_are_shown_to_no_sandbox(review):
    review.agent("echo 1 > a")
    done = review.run_("-q", "--ro", review.home, "--", "true", check=125)
    assert review.home in done.stderr, done.stderr
    inside = review.sandbox.folder("work/state")
    done = review.run_("-q", "--workspace", f"{review.work}:review=new", "--", "true", check=125, XDG_STATE_HOME=inside)
    assert "reviews lie below it" in done.stderr or "would see it" in done.stderr


@pytest.mark.identity("user")
def test_what_can_not_be_read_stays_behind_with_a_reason_and_is_not_lost(review):
    review.file("a/x", "1\n")
    review.file("sub/y", "1\n")
    review.agent("mkdir shut; echo s > shut/s; echo f > f; echo 2 > a/x; echo 2 > sub/y; echo p > plain; chmod 0 f a/x sub shut")
    shown = review.stat()
    for line in ("A  shut/ [can't be looked at: never applied (its mode", "P  sub/ (mode 0000, "):
        assert len([got for got in shown if got.startswith(line) and "can't be looked at" in got]) == 1, shown
    done = review.apply(check=1)
    assert b"keyhole: f: the mode of the agent's file lets nobody read it (`chmod u+r` it in another run" in done.stderr
    assert review.contents() == {"a/x": "1\n", "sub/y": "1\n", "plain": "p\n"}
    assert not os.path.exists(os.path.join(review.work, "shut")) and os.path.exists(os.path.join(review.work, "sub/y"))
    review.agent("chmod u+rwX f a/x sub shut")
    review.apply()
    assert review.contents() == {"a/x": "2\n", "sub/y": "2\n", "plain": "p\n", "f": "f\n", "shut/s": "s\n"}


def test_names_of_reviews_lead_nowhere(review):
    review.agent("echo 1 > a")
    for name in ("../../..", "..", "", "/etc", "0000000g", "00000000"):
        assert "no such review" in review.verb("discard", "--review", name, check=1).stderr.decode()


# --- a copy, where there can be no overlay --------------------------------------------------------


@pytest.fixture
def copied(review):
    """Reviews lie on a file system without attributes, over which the kernel lays no overlay."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system without attributes")
    st = os.stat(review.run_.state)
    subprocess.run(["mount", "-t", "ramfs", "kh-test", review.run_.state], check=True, timeout=PATIENCE)
    os.chown(review.run_.state, st.st_uid, st.st_gid)
    os.chmod(review.run_.state, 0o700)
    yield review
    subprocess.run(["umount", review.run_.state], check=True, timeout=PATIENCE)


def test_where_there_is_no_overlay_a_copy_is_made_and_said(copied):
    for name in ("changed", "same", "deleted", "sub/x", "sub/y", "node_modules/m"):
        copied.file(name, "0\n")
    os.symlink("same", os.path.join(copied.work, "link"))
    copied.repository()
    before = stamps(copied.work)
    done = copied.agent("echo 1 >> changed; rm deleted; rm -r sub; mkdir sub; echo n > sub/n; chmod 755 same; readlink link;"
                        "echo 1 > node_modules/m;" + commit("two"), quiet=False)  # fmt: skip
    assert re.search(r"review [0-9a-f]{8}: a copy of .*, since there is no overlay: .*attributes", done.stderr), done.stderr
    assert done.stdout == "same\n"
    assert stamps(copied.work) == before
    assert copied.stat()[:-2] == ["M  changed", "D  deleted", "P  same (mode 0755, 0644 before)", "A  sub/n", "D  sub/x", "D  sub/y"]
    copied.verb("discard", "sub/x")
    copied.apply(check=1)  # the commits first
    copied.apply(check=1)
    assert copied.contents() == {"changed": "0\n1\n", "same": "0\n", "sub/n": "n\n", "sub/x": "0\n", "node_modules/m": "0\n"}
    assert copied.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/keyhole").split() == ["HEAD", "heads/main"]
    assert [line[0] for line in copied.stat()] == ["-", "-"]
    # It goes on from where it was, and knows what changed since.
    copied.file("changed", "host\n")
    assert copied.agent("cat changed; echo 2 > sub/n").stdout == "0\n1\n"
    assert copied.stat()[:-2] == ["M  sub/n"]
    copied.agent("echo 3 > changed")
    assert "[conflict" in copied.stat()[0]
    copied.verb("discard")
    assert copied.reviews() == []


@pytest.mark.parametrize("written", ["reviewed", "earlier"])
def test_a_program_in_a_folder_of_an_agent_is_not_taken_for_the_hosts(review, written):
    """PATH begins there, as with direnv; whatever the agent put there does not run. The --home of an earlier run is one as well."""
    canary, earlier = os.path.join(review.sandbox.place, "canary"), review.sandbox.folder("earlier")
    review.run_("--home", earlier, "--", "true", use=None, check=0)
    folder = review.work if written == "reviewed" else earlier
    for name in ("git", "diff"):
        review.sandbox.file(f"{folder}/bin/{name}", f"#!/bin/sh\ntouch {canary}\n", 0o755)
    review.file("f", "old\n")
    review.repository()
    review.agent("echo new > f")
    env = {**review.run_.environment(), "PATH": os.path.join(folder, "bin") + ":/usr/bin:/bin"}
    for verb in ("diff", "apply"):
        done = subprocess.run(review.sandbox.as_identity([review.run_.keyhole, "workspace", verb]), capture_output=True,
                              timeout=PATIENCE, check=False, cwd=review.work, env=env)  # fmt: skip
        assert done.returncode in (0, 1), done
    assert not os.path.exists(canary)
    with open(os.path.join(review.work, "f"), encoding="utf-8") as file:
        assert file.read() == "new\n"


def test_apply_gives_nothing_outside_a_mode_whatever_is_put_in_a_folders_place(review):
    """Another program that writes to the folder exchanges each that is made for a link that leads out."""
    outside = review.sandbox.folder("outside", 0o700)
    folders = 300
    review.agent(f"for i in $(seq {folders}); do mkdir -m 0777 n$i; done")
    swapping = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
for i in range(1, %d):
    os.symlink(sys.argv[1], 'l%%d' %% i)
print('ready', flush=True)
left = set(range(1, %d))
while os.getppid() != 1 and left and not os.path.exists('stop'):
    for i in list(left):
        if libc.renameat2(-100, b'n%%d' %% i, -100, b'l%%d' %% i, 2) == 0:
            left.discard(i)
""" % (folders + 1, folders + 1)
    swapper = subprocess.Popen(review.sandbox.as_identity([PYTHON, "-I", "-c", swapping, outside]), cwd=review.work,
                               stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert swapper.stdout.readline() == b"ready\n"
        review.apply(check=None)
    finally:
        swapper.kill()
        swapper.communicate()
    assert stat.S_IMODE(os.stat(outside).st_mode) == 0o700


def modes(review):
    return {name: oct(what[1]) for name, what in review.tree().items()}


@pytest.mark.parametrize("how", ["overlay", "copy"])
def test_apply_lets_no_user_write_who_could_not_before(review, how):
    """Whoever else is on the host could put hooks into such a folder, or write the next line of such a file."""
    if how == "copy":
        review.engine = "gvisor" if shutil.which("runsc") else pytest.skip("no engine that takes a copy")
    for folder in ("mine", "open"):
        review.file(f"{folder}/f", "f\n")
    os.chmod(os.path.join(review.work, "open"), 0o777)
    review.agent("chmod 777 mine mine/f; mkdir -p new/deep; chmod 777 new new/deep; echo x > new/deep/f; chmod 666 new/deep/f; chmod 775 open; "
                 "ln -s f mine/l; touch run; chmod 777 run")  # fmt: skip
    assert not re.search(r"mode 0..[2367]\b", review.diff("--stat").replace(", 0777 before", ""))
    review.apply()
    found = modes(review)
    assert {name: mode for name, mode in found.items() if name != "mine/l"} == {
        "mine": "0o775", "mine/f": "0o775", "open": "0o775", "open/f": "0o644", "new": "0o775", "new/deep": "0o775", "new/deep/f": "0o664",
        "run": "0o775"}  # fmt: skip
    assert review.stat() == []


def test_apply_changes_no_mode_of_a_git_folder_by_its_shape(review):
    review.git("init", "-q", "--bare", "lib.git")
    review.repository()
    before = os.stat(os.path.join(review.work, "lib.git")).st_mode
    review.agent("chmod 777 lib.git .git; chmod 700 lib.git")
    assert any(line.startswith("-  lib.git/") for line in review.stat()), review.stat()
    review.apply(check=None)
    assert os.stat(os.path.join(review.work, "lib.git")).st_mode == before


def test_apply_takes_no_name_that_a_file_system_may_take_for_gits(review):
    """On a file system with casefold it would be written into the workspace's own git folder."""
    review.repository()
    review.agent("mkdir -p .G\u0130t .g\u200cit/hooks .v\u017fcode; echo x > .g\u200cit/hooks/post-checkout; echo x > .v\u017fcode/tasks.json")
    shown = review.stat()
    assert "-  .g\\u{200c}it/: 3 changes [of a git folder: never applied]" in shown and "A  .v\u017fcode/ [protected: applied only where it is named]" in shown, shown
    review.apply(check=None)
    assert {".G\u0130t"} == {name for name in os.listdir(review.work) if name.startswith(".") and name != ".git"}


def test_apply_takes_no_name_that_a_file_system_of_windows_may_take_for_another(review):
    """VFAT, NTFS and shares know .git as git~1, and drop what is at the end of a name."""
    review.repository()
    review.agent("mkdir -p GIT~1/hooks .git./hooks '.git::x' .vscode.; echo x | tee GIT~1/hooks/h .git./hooks/h '.git::x/h' .vscode./tasks.json .envrc: VSCODE~1;"
                 "ln -s git~1/config link; ln -s '.git /config' other; echo y > fine")  # fmt: skip
    review.apply(check=None)
    assert {name for name in os.listdir(review.work) if name != ".git"} == {"fine"}
