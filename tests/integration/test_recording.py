"""The README's pictures: the recording is of a real session, and both can be read by everybody."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as tree

from harness import KEYHOLE, ROOT

sys.path.append(os.path.join(ROOT, "deploy", "demo"))

import recording  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def texts(path):
    return ["".join(text.itertext()) for text in tree.parse(path).iter(SVG + "text")]


def check(path):
    lines = texts(path)
    said = "\n".join(lines)
    for text, command in recording.SESSION:
        assert (text if command is None else "$ " + text) in lines
    assert "it is the real one" in " ".join(lines)
    assert "keyhole: refused once: GET https://example.com/upload" in lines
    assert re.search(r"200  POST .*https://api\.anthropic\.com/v1/messages", said)
    assert re.search(r"audit\.jsonl: ok: \d+ lines, 1 request allowed, 1 refused", said)
    real, placeholder = [line for line in lines if re.fullmatch(r"sk-ant-api03-[\w-]{11}", line)]
    assert recording.KEY.startswith(real) and not recording.KEY.startswith(placeholder)
    assert recording.KEY not in said
    # Nothing of the machine that it was made on.
    assert re.findall(r"(?<![:/\w.])/(?:home|root|tmp|work|usr|var)/\S*", said) == []


def test_a_recording_is_of_a_session_that_ran(tmp_path):
    path = str(tmp_path / "recording.svg")
    subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "deploy", "demo", "recording.py"), path],
                   env={**os.environ, "KEYHOLE": KEYHOLE}, check=True, timeout=120)  # fmt: skip
    check(path)


def test_the_recording_that_the_readme_shows_is_of_this_session():
    check(os.path.join(ROOT, "docs", "images", "recording.svg"))


def test_a_terminal_of_lines_shows_no_control_characters_and_breaks_long_lines():
    said = [(0.1, b"\x1b[31mred\x1b[0m\r\nplain"), (0.2, b" text\n\x1b]0;title\x07\x1b[?1049l\n"), (0.3, b"x" * 120)]
    lines = list(recording.lines_of(said))
    assert lines[:2] == [(0.1, "red"), (0.2, "plain text")]
    assert [len(line) for _, line in lines[2:]] == [recording.COLUMNS, 120 - recording.COLUMNS]


def test_the_pictures_hold_text_and_are_small():
    folder = os.path.join(ROOT, "docs", "images")
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        assert name.endswith(".svg") and os.path.getsize(path) < 20000
        assert len(texts(path)) > 10
        assert tree.parse(path).find(SVG + "title") is not None
        with open(path, encoding="utf-8") as file:
            assert re.findall(r"<(?:image|script|foreignObject)|href=|url\((?!#)", file.read()) == []


def test_the_diagram_can_be_read_in_light_and_dark_mode_and_names_the_processes():
    path = os.path.join(ROOT, "docs", "images", "overview.svg")
    assert {"keeper", "worker", "keyhole-init"} <= set(texts(path))
    with open(path, encoding="utf-8") as file:
        style = re.search(r"<style>(.*)</style>", file.read(), re.S)[1]
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    classes = r"(?:text|\.\w+|#tip path) (?=\{)"
    drawn = {c for c in re.findall(classes, light) if c != ".head "}
    assert drawn == set(re.findall(classes, dark))
