"""What is cleaned up at the end of a block is initialised before the block can be left."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
ATTRIBUTE = re.compile(r"kh_cleanup\((kh_buf_fini\w*)\)")


def left_too_early(text):
    """Lines of buffers that a return comes before; a first mention of the address counts as the initialisation."""
    lines, found = text.split("\n"), []
    for start, line in enumerate(lines):
        if not ATTRIBUTE.search(line) or "struct kh_buf " not in line or "=" in line:
            continue
        names = {name.strip() for name in ATTRIBUTE.sub("", line.split("struct kh_buf ")[1]).rstrip(";").split(",")} - {""}
        for after in lines[start + 1 :]:
            names = {name for name in names if not re.search(rf"&{re.escape(name)}\b", after)}
            if not names or after.startswith("}"):
                break
            if re.search(r"\breturn\b", after):
                found.append(start + 1)
                break
    return found


def test_the_check_finds_a_return_before_the_initialisation():
    early = "{\n\tkh_cleanup(kh_buf_fini) struct kh_buf a;\n\tif (x)\n\t\treturn;\n\tkh_buf_init(&a, 1);\n}"
    assert left_too_early(early) == [2]
    assert left_too_early(early.replace("a;", "a kh_cleanup(kh_buf_fini), b;").replace("kh_cleanup(kh_buf_fini) struct", "struct")) == [2]
    assert left_too_early("{\n\tstruct kh_buf a kh_cleanup(kh_buf_fini);\n\tkh_buf_init(&a, 1);\n\treturn;\n}") == []


def test_no_buffer_is_cleaned_up_before_it_is_initialised():
    found = [f"{path.relative_to(ROOT)}:{line}" for path in sorted((ROOT / "src").rglob("*.c")) for line in left_too_early(path.read_text())]
    assert not found, found
