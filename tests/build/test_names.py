"""An exported name says where it is at home: it begins with its file's, its header's or its folder's
name, or with that of the type that it works on."""

import glob
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What a few files work on has a name of its own, shorter than the file's, which is used everywhere.
ALSO = {
    "base/encode": ("base32", "base64", "base64url", "hex", "percent"),
    "base/escape": ("esc", "json"),
    "base/file": ("strf",),
}


def headers():
    names = glob.glob(os.path.join(ROOT, "include/keyhole/*/*.h")) + glob.glob(os.path.join(ROOT, "src/*/*.h"))
    for name in names:
        with open(name, encoding="utf-8") as file:
            yield os.path.basename(name)[:-2].replace("_internal", ""), re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)


def exported():
    """(file as "folder/name", symbol) of each that a file of src/ defines for others."""
    sources = [os.path.relpath(name, ROOT) for name in glob.glob(os.path.join(ROOT, "src/*/**/*.c"), recursive=True)]
    objects = [f"build/obj/{name[:-2]}.o" for name in sources if not name.startswith("src/init/")]
    done = subprocess.run(["nm", "-A", "-g", "--defined-only", *objects], cwd=ROOT, capture_output=True, text=True,
                          check=True)  # fmt: skip
    for line in done.stdout.splitlines():
        if m := re.match(r"build/obj/src/(\S+)\.o:\S+ \w kh_(\w+)", line):
            yield m.groups()


def test_an_exported_name_begins_with_its_modules_or_its_types():
    declared, types = {}, set()
    for header, text in headers():
        types |= set(re.findall(r"\b(?:struct|union|enum) kh_(\w+)(?: \{|;)", text))
        for name in set(re.findall(r"\bkh_(\w+)\s*(?:\(|\[|;)", text)):
            declared.setdefault(name, set()).add(header)
    seen, strays = 0, {}
    for home, name in exported():
        folder, file = home.split("/")[0], home.split("/")[-1]
        words = {folder, file, file.split("_")[0]} | declared.get(name, set()) | types | set(ALSO.get(home, ()))
        forms = words | {word + "s" for word in words} | {re.sub(r"(?<=[sx])es$|s$", "", word) for word in words}
        seen += 1
        if not any(name == form or name.startswith(form + "_") for form in forms):
            strays.setdefault(home, []).append("kh_" + name)
    assert seen > 2000
    assert strays == {}


# Of git's own source, by which src/sandbox/git_state.c knows its files.
OF_GIT = {"sequencer.c", "am.c", "bisect.c"}


def test_a_comment_names_a_file_that_is_there():
    """ "(hold.c)" tells the reader where to go on: the file has that name still."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    there = {os.path.basename(name) for name in tracked}
    gone = []
    for name in tracked:
        if not re.match(r"(src|include|tests/(unit|fuzz|simulation|bench))/.*\.[ch]$", name):
            continue
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', file.read())
        comments = "\n".join(re.findall(r"/\*.*?\*/", text, flags=re.S))
        gone += [f"{name}: {file}" for file in re.findall(r"(?<![\w.<-])(\w+\.[ch])\b(?![\w.(])", comments)
                 if file not in there | OF_GIT]  # fmt: skip
    assert gone == []


# Words that stood for these before: placeholder, dynamic sandbox, acceptor, worker process, lock-in.
OLD = r"\b(?:stand-?ins?|standins?|guests?|doors?|wards?|(?:un)?cages?d?|fence[ds]?|outer nests?)\b"
# The guest of doctor_kvm.c is a virtual machine's.
MAY = {"src/cli/doctor_kvm.c", "src/cli/doctor_internal.h", "src/tls/ca_placeholder.c"}


def test_one_thing_has_one_name():
    """A name that was given up comes back by a copy, or was left in a comment."""
    names = glob.glob(os.path.join(ROOT, "src/**/*.[ch]"), recursive=True)
    names += glob.glob(os.path.join(ROOT, "include/**/*.h"), recursive=True)
    names += glob.glob(os.path.join(ROOT, "tests/*/*.[ch]"))
    found = []
    for name in set(names):
        with open(name, encoding="utf-8") as file:
            text = re.sub(r"_+", " ", file.read())
        if os.path.relpath(name, ROOT) not in MAY:
            found += [f"{os.path.relpath(name, ROOT)}: {word}" for word in re.findall("(?i)" + OLD, text)]
    assert len(names) > 500
    assert found == []
