"""The man pages name what --help names: each command has a page, and each option an entry there."""

import os
import re
import subprocess

import pytest
from common import KEYHOLE, ROOT
from test_completion import COMMANDS, help_of

OPTION = r"(?<![\w-])--?[A-Za-z][a-z-]*"


def page_of(name):
    with open(os.path.join(ROOT, "docs", "man", name), encoding="utf-8") as file:
        return file.read().replace("\\-", "-")


def entries_of(page):
    """The headings of its lists, in either set of macros, as they are shown."""
    entries = re.findall(r"^\.It (.*)$|^\.TP\n(.*)$", page, re.M)
    return [re.sub(r"\bFl (-?\S+)", r"-\1", mdoc) if mdoc else re.sub(r"\\f\w|[\"\\]", " ", man) for mdoc, man in entries]


def options_of_help(command):
    return {option for pair in re.findall(rf"^ +(?:(-\w), )?({OPTION})", help_of(command), re.M) for option in pair if option}


def test_the_first_page_leads_to_the_page_of_each_command():
    page = page_of("keyhole.1")
    listed, also = page.split(".Sh SEE ALSO" if ".Sh SEE ALSO" in page else ".SH SEE ALSO")
    for command in COMMANDS:
        assert any(re.search(rf"\b{command}\b", entry) for entry in entries_of(listed)), command
        assert re.search(rf"keyhole-{command}\b", also), command


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_ends_with_its_page_and_takes_the_short_option(command):
    text = help_of(command)
    assert re.search(rf"The manual: keyhole-{command}\(1\)\.\n\Z", text)
    for words in ([command, "-h"], ["help", command]):
        assert subprocess.run([KEYHOLE, *words], capture_output=True, text=True, timeout=20, check=True).stdout == text


def test_help_of_no_command_is_an_error_that_names_the_nearest():
    done = subprocess.run([KEYHOLE, "help", "rnu"], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (2, "") and "did you mean `keyhole run`?" in done.stderr
    for words in (["help"], ["help", "help"]):
        assert subprocess.run([KEYHOLE, *words], capture_output=True, text=True, timeout=20, check=True).stdout == help_of()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_of_help_has_an_entry_in_the_page_and_no_other_has(command):
    described = {option for entry in entries_of(page_of(f"keyhole-{command}.1")) for option in re.findall(OPTION, entry)}
    assert described == options_of_help(command)


def plain(argument):
    """The argument of an option, in the spelling of both pages: "NAME[=VALUE]"."""
    return re.sub(r"\s", "", argument.replace("…", "...").upper())


def argument_of(entry):
    """What the heading of an entry has after its long option, without the macros."""
    rest = re.sub(r"\b(?:Ar|Ns|Op|No)\b", "", re.sub(r"^\s*\.(?:BI?|RB|BR|IR)\b", "", entry).split("--", 1)[1])
    return plain(re.sub(r"^[a-z][a-z-]*", "", rest).removesuffix(","))


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_takes_in_its_entry_what_it_takes_in_help(command):
    helped = {option: plain(argument) for option, argument in
              re.findall(rf"^ +(?:-\w, )?(--[a-z][a-z-]*)((?: [A-Z]\S*)?)(?= |$)", help_of(command), re.M)}  # fmt: skip
    entries = {re.search(r"--([a-z][a-z-]*)", entry)[0]: argument_of(entry)
               for entry in entries_of(page_of(f"keyhole-{command}.1")) if re.search(r"(?<!\w)--[a-z]", entry) and "Cm" not in entry}  # fmt: skip
    assert entries == {option: helped[option] for option in entries}


def values_of(page, option):
    """The headings of the list below an option."""
    text = page.split(f".BI --{option} ", 1)[1].split(".RE\n", 1)[0].replace('"', "")
    return [word for entry in entries_of(text) for word in re.sub(r"\.(?:BI?|BR|I)\b|\s", "", entry).split(",")]


@pytest.mark.parametrize("option, end", [("engine", "ports"), ("image", "entrypoint")])
def test_the_values_of_an_option_of_run_are_those_of_its_help(option, end):
    page, text = page_of("keyhole-run.1"), " ".join(help_of("run").split())
    shown = text[text.index(f"--{option} ") : text.index(f"--{end} ")]
    values = values_of(page, option)
    assert len(values) == 6, values
    for value in values:
        assert re.search(rf"(?<![\w-]){re.escape(value)}(?![\w\[])", shown), (value, shown)
    if option == "engine":
        page = " ".join(re.sub(r"^\.\w+ ?", "", page, flags=re.M).split())
        assert "auto: container, or process if container does not work" in shown
        assert re.search("auto container , or process if container does not work", page)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_word_of_help_has_an_entry_in_the_page(command):
    entries = entries_of(page_of(f"keyhole-{command}.1"))
    for words in re.findall(r"^  ([a-z-]+(?: [a-z]+)?)(?: [A-Z…]+)?  +\w", help_of(command), re.M):
        assert any(re.search(rf"(Cm|B) {words}\b", entry) for entry in entries), words


def literals_of(path):
    """The texts in a file of C, each whole."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = re.sub(r'%"\s*PRIu64\s*"', "%llu", file.read())
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*\n\s*"', "", text))


def those(path, pattern):
    found = [re.search(pattern, text) for text in literals_of(path)]
    return [one[1] for one in found if one]


FAULTS = [
    *those("src/audit/chain.c", r"^((?:no record|cut off|changed) \(.*)"),
    *those("src/audit/verify.c", r"^line (?:%llu|1): ([a-z].*)"),
    *those("src/audit/verify.c", r"^%s: (.*)"),
    *those("src/audit/verify.c", r"^((?:line %llu,|it ends|empty:|names torn).*)"),
    *those("src/cli/audit.c", r"^(the segment is missing.*)"),
]
WARNINGS = [
    *those("src/cli/audit.c", r"^audit: %s: (%llu records.*), the first is"),
    *those("src/cli/audit.c", r"^audit: %s: (from line.*): not"),
    *(text.replace("are %s", "are shown though") for text in those("src/cli/journal_exchanges.c", r"^%s: %s: (%llu .*?)(?: \(see|$)")),
]


def pattern_of(message):
    return re.sub(r"%(?:llu|d)", r"(\\d+|N)", re.escape(message.replace(" (%s)", "")).replace("\\ ", " "))


def test_there_are_messages_of_audit():
    assert len(FAULTS) > 15 and len(WARNINGS) == 5, (FAULTS, WARNINGS)


@pytest.mark.parametrize("message", [*FAULTS, *WARNINGS])
def test_the_page_of_audit_has_each_message_of_verify_and_each_warning(message):
    assert any(re.search(pattern_of(message), entry) for entry in entries_of(page_of("keyhole-audit.1")))


@pytest.mark.parametrize("message", FAULTS)
def test_the_journals_page_has_each_message_of_verify(message):
    with open(os.path.join(ROOT, "docs", "audit.md"), encoding="utf-8") as file:
        assert re.search(pattern_of(message), file.read().split("## Messages of audit verify")[1])


def test_the_page_of_audit_has_each_column_of_query():
    shown = subprocess.run([KEYHOLE, "complete", "audit", "query", "--columns", ""], capture_output=True, text=True, timeout=20, check=True).stdout
    text = page_of("keyhole-audit.1").split(".BI --columns ", 1)[1].split(".TP\n", 1)[0]
    columns = {line.split("\t")[0] for line in shown.splitlines()}
    assert len(columns) > 40 and columns <= set(re.findall(r"[a-z_]+", text)), columns - set(re.findall(r"[a-z_]+", text))
