"""What README and the pages name is there: files, tests, commands and options."""

import errno
import functools
import glob
import os
import re
import subprocess

import pytest
from harness import KEYHOLE, ROOT

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(os.path.relpath(p, ROOT) for p in glob.glob(ROOT + "/docs/*.md"))]


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def is_there(path):
    """NAME stands for any name, as in `policies/NAME.yaml`, and so does *."""
    return glob.glob(os.path.join(ROOT, path.replace("NAME", "*"))) != []


def test_there_are_pages():
    assert {"README.md", "docs/architecture.md", "docs/threat-model.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page):
    tops = "|".join(sorted(d for d in os.listdir(ROOT) if os.path.isdir(os.path.join(ROOT, d)) and d[0] != "."))
    named = re.findall(rf"`((?:{tops})/[\w./-]*)`", read(page))
    missing = [path for path in named if not path.startswith("build/") and not is_there(path)]
    assert missing == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_path_of_the_map_is_there(page):
    """In code, links and commands as well, and a file that is named without its folder is in one."""
    tops = sorted(d for d in os.listdir(ROOT) if os.path.isdir(os.path.join(ROOT, d)) and d[0] != "." and d != "build")
    text = read(page)
    paths = re.findall(rf"(?<![\w./-])(?:{'|'.join(tops)})/[\w./*-]*", text)
    bare = re.findall(r"`([\w-]+\.(?:c|h|py|sh|md|yaml))`", text)
    assert len(paths) > 5
    assert [path for path in paths if not is_there(path.rstrip("."))] == []
    names = {name for top in tops for _, _, files in os.walk(os.path.join(ROOT, top)) for name in files} | set(os.listdir(ROOT))
    assert [name for name in bare if name not in names] == []


def test_every_row_of_what_to_change_names_its_files_and_its_tests():
    section = re.search(r"^## To change X, go to Y\n(.*?)^## ", read("docs/architecture.md"), re.M | re.S)[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for what, files, tests in rows:
        assert re.search(r"`(src|include|policies|tests/fuzz)/", files), what
        assert re.search(r"`tests/[\w/]+\.(c|py)`", tests), what
    told = re.search(r"^## How to add something\n(.*?)^## ", read("CONTRIBUTING.md"), re.M | re.S)[1]
    kinds = {re.split(r"[:(]| in | made ", what)[0].strip() for what, _, _ in rows}
    assert kinds == {name.lower() for name in re.findall(r"^- \*\*(.+?)\.\*\*", told, re.M)}


def named_files(row):
    """What the paths of a row stand for; of a folder the sources in it."""
    files = []
    for path in re.findall(r"(?<![\w./-])(?:src|include|tests|policies|docs|deploy)/[\w./*-]*", row):
        for one in glob.glob(os.path.join(ROOT, path.rstrip(".").replace("NAME", "*"))):
            files += glob.glob(os.path.join(one, "*.[ch]")) if os.path.isdir(one) else [one]
    return files


def code_words(row):
    """Functions, tables and types: `clash`, `routes[]` and `struct kh_up`; `KH_UP_` for all that begin so."""
    return [word for word in re.findall(r"`(?:(?:struct|enum) )?([A-Za-z_]\w{2,})(?:\[\])?`", row) if word != "NAME"]


def words_that_are_not_there(row):
    """Of the names of code in a row of a table or an entry of a list, those that stand in none of its files."""
    text = ""
    for path in named_files(row):
        with open(path, encoding="utf-8", errors="replace") as file:
            text += file.read()
    return [word for word in code_words(row) if not re.search(rf"\b{word}" + ("" if word.endswith("_") else r"\b"), text)]


def test_every_name_of_code_in_a_row_of_the_map_is_in_a_file_of_that_row():
    text = read("docs/architecture.md")
    text = text[text.index("## The way of a request") : text.index("## Folders")]
    rows = re.findall(r"^\| .*|^- \*\*(?:.+\n)(?:  .+\n)*", text, re.M)
    assert sum(len(code_words(row)) for row in rows) > 150
    missing = [(row.split(" | ")[0], word) for row in rows if named_files(row) for word in words_that_are_not_there(row)]
    assert missing == []


def test_a_name_that_is_not_in_the_files_of_its_row_is_found():
    row = "| x | `kh_err_set` and `kh_err_nowhere` of `src/base/err.c`, `rows[]`, `struct err_row` | |"
    assert words_that_are_not_there(row) == ["kh_err_nowhere"]


def test_names_of_code_in_contributing_are_in_the_file_that_stands_beside_them():
    named = re.findall(r"`(\w{3,})`\s(?:in|of)\s`((?:src|include|tests)/[\w/.]+)`", read("CONTRIBUTING.md"))
    assert named
    for word, path in named:
        assert re.search(rf"\b{word}\b", read(path)), (word, path)


def test_every_folder_of_src_is_on_the_way_of_a_request_or_a_secret_or_has_a_process():
    text = read("docs/architecture.md")
    told = set(re.findall(r"`src/(\w+)/\w+\.c`", text[: text.index("## To change X, go to Y")]))
    # Reading the configuration is before all of that.
    assert told | {"config"} == set(os.listdir(os.path.join(ROOT, "src")))


def test_every_file_that_makes_a_process_is_on_the_map():
    text = read("docs/architecture.md")
    makers = [os.path.relpath(path, ROOT) for path in glob.glob(ROOT + "/src/*/*.c")
              if re.search(r"\bv?fork\(\)", re.sub(r"/\*.*?\*/", "", open(path, encoding="utf-8").read(), flags=re.S))]  # fmt: skip
    assert len(makers) > 10
    assert [path for path in makers if f"`{path}`" not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_between_pages_leads_somewhere(page):
    folder = os.path.dirname(os.path.join(ROOT, page))
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(page)):
        assert os.path.exists(os.path.join(folder, target)), target


def anchors(path):
    """Of the headings, as they are made of them: small, without punctuation, and - for a blank."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", file.read(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_leads_to_every_page():
    pages = {os.path.basename(page) for page in PAGES if page.startswith("docs/")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([\w-]+\.md)\)", read("docs/README.md"))) == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_into_a_page_leads_to_a_heading(page):
    here = os.path.join(ROOT, page)
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", read(page)):
        path = os.path.join(os.path.dirname(here), target) if target else here
        if path.endswith(".md"):
            assert anchor in anchors(path), f"{target}#{anchor}"


@functools.cache
def names_of_tests():
    found = set()
    for path in glob.glob(ROOT + "/tests/*/test_*.py") + glob.glob(ROOT + "/tests/unit/test_*.c"):
        with open(path, encoding="utf-8") as file:
            found.update(re.findall(r"(?:def |void |^)(test_\w+)\(", file.read(), re.M))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page):
    assert set(re.findall(r"`(test_\w+)`", read(page))) - names_of_tests() == set()


def test_every_mitigation_names_its_test():
    rows = [line for line in read("docs/threat-model.md").split("## What is fuzzed")[0].splitlines() if line.startswith("| ")]
    head = "| threat | mitigation | test |"
    table = [row for row in rows[rows.index(head) :] if row != head]
    assert len(table) > 120
    for row in table:
        assert re.search(r"`(tests/|test_)", row.split("|")[3]), row


def test_the_threat_model_names_every_fuzz_target():
    section = re.search(r"^## What is fuzzed\n(.*?)^## ", read("docs/threat-model.md"), re.M | re.S)[1]
    named = [name for row in re.findall(r"^\| .* \| .* \| (`.*) \|$", section, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(os.path.basename(path)[5:-2] for path in glob.glob(ROOT + "/tests/fuzz/fuzz_*.c"))


@pytest.mark.parametrize("page", PAGES)
def test_no_entry_of_a_list_stands_twice_in_a_page(page):
    named = re.findall(r"^- \*\*(.+?)\*\*", re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S), re.M)
    assert sorted(named) == sorted(set(named))


@pytest.mark.parametrize("page", [*PAGES, *sorted(os.path.relpath(p, ROOT) for p in glob.glob(ROOT + "/docs/man/*"))])
def test_a_guard_is_that_of_addresses_or_of_the_workspace_and_nothing_is_a_cage_or_fence(page):
    """As docs/glossary.md names them. What is named in code and in links may be called otherwise."""
    text = " ".join(re.sub(r"`[^`]*`|\]\([^)]*\)", "", read(page)).split())
    assert re.findall(r"(?i).{0,30}(?<!address )(?<!workspace )\bguards?\b|.{0,30}\b(?:un)?(?:cage|fence)[sd]?\b", text) == []


def test_every_option_of_run_that_the_readme_shows_is_there():
    text = subprocess.run([KEYHOLE, "run", "--help"], capture_output=True, text=True, timeout=20,
                          check=True).stdout  # fmt: skip
    for line in re.findall(r"keyhole run (.*)", read("README.md")):
        for option in re.findall(r"(?<![\w-])--[a-z]+", line.split(" -- ")[0]):
            assert option in text, option


def test_every_command_that_the_readme_shows_is_there():
    text = subprocess.run([KEYHOLE, "--help"], capture_output=True, text=True, timeout=20,
                          check=True).stdout  # fmt: skip
    for command in set(re.findall(r"keyhole (run|proxy|check|audit|ca|ctl|explain|doctor)\b", read("README.md"))):
        assert f"\n  {command} " in text, command


def test_every_make_target_that_the_readme_shows_is_there():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=20,
                          check=True).stdout  # fmt: skip
    for target in set(re.findall(r"make ([a-z]+)", read("README.md"))):
        assert f"make {target} " in text, target


# --- messages that a page quotes -------------------------------------------------------------------

LITERAL = r'"(?:[^"\\\n]|\\.)*"'
# A comment, a character, or a literal that may be in several parts.
TOKEN = re.compile(rf"/\*.*?\*/|//[^\n]*|'(?:[^'\\\n]|\\.)+'|({LITERAL}(?:\s*{LITERAL})*)", re.S)
FIXED_LEAST = 12  # bytes of a literal that stand in it as they are: fewer say nothing


def patterns_of(text):
    """What the literals of a C file print: each a pattern in which %s is any text."""
    for found in TOKEN.finditer(re.sub(r'%"\s*PRI\w+\s*"', "%u", text.replace("\\\n", " "))):
        literal = "".join(part[1:-1] for part in re.findall(LITERAL, found[1] or ""))
        parts = re.split(r"%%|%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j)?[a-zA-Z]", literal.replace('\\"', '"'))
        if sum(len(part) for part in parts) >= FIXED_LEAST:
            yield "(.*)".join(re.escape(part) for part in parts)


def all_patterns():
    found = {re.escape(os.strerror(number)) for number in errno.errorcode}
    for path in glob.glob(ROOT + "/src/**/*.[ch]", recursive=True) + glob.glob(ROOT + "/include/**/*.h", recursive=True):
        with open(path, encoding="utf-8") as file:
            found |= set(patterns_of(file.read()))
    return [re.compile(pattern, re.S) for pattern in sorted(found, key=len, reverse=True)]


def not_said(text, patterns):
    """The parts of `text` of four words or more that no literal prints."""
    if len(re.findall(r"[A-Za-z']{2,}", re.sub(r"\S*[/@]\S*", "", text))) < 4:
        return []
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            rest = [text[: found.start()], *found.groups(), text[found.end() :]]
            return [part for one in rest for part in not_said(one, patterns)]
    return [text]


def quoted_messages(page):
    """Of the blocks of text: a message begins with keyhole:, and may go on in further lines."""
    for block in re.findall(r"^```text\n(.*?)^```", read(page), re.M | re.S):
        for message in re.split(r"^(?=keyhole:)", block, flags=re.M):
            if message.strip():
                yield " ".join(message.split())


def test_every_message_of_a_block_of_text_is_one_that_keyhole_prints():
    patterns = all_patterns()
    messages = [(page, message) for page in PAGES for message in quoted_messages(page)]
    assert len([page for page, _ in messages if page == "docs/troubleshooting.md"]) > 30
    for page, message in messages:
        assert message.startswith("keyhole: "), (page, message)
        assert not_said(message.removeprefix("keyhole: "), patterns) == [], (page, message)


def test_a_message_that_keyhole_does_not_print_is_found():
    patterns = all_patterns()
    right = "mytool: is not in the sandbox (on the host it is /x/mytool: show the folder that it is installed in with --ro, and call it by that path)"
    assert not_said(right, patterns) == []
    wrong = right.replace("show the folder that it is installed in", "show the place where it was installed")
    assert not_said(wrong, patterns) != []
    assert not_said("keyhole can't find the network of this host", patterns) != []
    # What stands in the place of a %s is looked up as well.
    assert not_said("run: keyhole.yaml is not used: nobody has ever looked at it (read it, then: keyhole trust x)", patterns) != []


# --- the comparison with other tools ---------------------------------------------------------------

TOOLS = ["sandbox-runtime", "Docker Sandboxes", "OpenShell", "iron-proxy", "nono", "mitmproxy"]


def comparison():
    """The tables by tool, and the table of marks."""
    text = read("docs/comparison.md")
    tables, sources = text.split("## How each cell was checked")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables.splitlines() if line.startswith("| ")]
    marks = re.findall(r"^\| ([A-Z]\d+) \| (.+) \| ([0-9a-f]{12}) \|$", sources, re.M)
    return rows, {mark: source for mark, source, _ in marks}


def test_every_cell_about_another_tool_names_its_source_or_says_that_there_is_none():
    rows, marks = comparison()
    kept = ("not checked", "none found", "it has no files")
    used = set()
    for tool in TOOLS:
        cells = [cell for row in rows if row[0] == tool for cell in row[1:]]
        assert len(cells) >= 14, tool
        for cell in cells:
            named = re.findall(r"`([A-Z]\d+)`", cell)
            assert (named and cell.endswith("`")) or cell in kept or cell.startswith("none found: ") or "it is no sandbox" in cell, (tool, cell)
            for mark in named:
                assert mark[0] == {"sandbox-runtime": "S", "Docker Sandboxes": "D"}.get(tool, tool[0].upper()), (tool, cell)
            used |= set(named)
    assert used == set(marks), "a mark without a source, or a source that nothing needs"


def test_the_cells_about_keyhole_lead_to_the_pages_of_what_it_can():
    cells = " ".join(cell for row in comparison()[0] if row[0] == "keyhole" for cell in row[1:])
    assert {"ask.md", "review.md", "audit.md", "placeholders.md", "platform.md"} <= set(re.findall(r"\]\(([\w-]+\.md)", cells))


def test_the_comparison_says_when_it_was_checked_and_where_others_are_better():
    text = read("docs/comparison.md")
    assert re.search(r"^Checked on \d{4}-\d\d-\d\d\b", text, re.M)
    assert text.count("**Where others are better.**") >= 4
    assert "(docs/comparison.md)" in read("README.md")


# --- quickstarts and questions ---------------------------------------------------------------------


def sections(page):
    return re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", read(page), re.M | re.S)


def test_each_agent_with_a_profile_has_a_quickstart_with_its_keys():
    told = dict(sections("docs/quickstart-agents.md"))
    for path in glob.glob(ROOT + "/policies/agents/*.yaml"):
        with open(path, encoding="utf-8") as file:
            profile = file.read()
        section = told[re.search(r'^description: "(.+)"$', profile, re.M)[1]]
        name = re.search(r"^commands: \[ ([\w-]+)", profile, re.M)[1]
        assert f"~/.agents/{name} {name}" in section and f"`keyhole run {name} " in section, name
        keys = {key for keys in re.findall(r"keys: \[ (.+) \]", profile) for key in keys.split(", ")}
        named = set(re.findall(r"\b[A-Z_]+_(?:KEY|TOKEN|BEDROCK)\b", section)) - {"CLAUDE_CODE_USE_BEDROCK"}
        assert named <= keys and len(named) >= min(2, len(keys)), (name, named)


@pytest.mark.parametrize("page", ["docs/quickstart-agents.md", "docs/quickstart-frameworks.md", "docs/troubleshooting.md", "docs/faq.md"])
def test_every_command_of_these_pages_has_its_options(page):
    text = re.sub(r"^```text\n.*?^```", "", read(page), flags=re.M | re.S)
    inline = [" ".join(words.split()) for words in re.findall(r"`(keyhole [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))]
    typed = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S))
    help_of = {}
    for command, words in re.findall(r"keyhole ([a-z]+)((?: [^`\n]*)?)", "\n".join(inline + re.findall(r"^keyhole .*$", typed, re.M))):
        if command not in help_of:
            done = subprocess.run([KEYHOLE, command, "--help"], capture_output=True, text=True, timeout=20, check=True)
            help_of[command] = done.stdout
        for option in re.findall(r"(?<=\s)--[a-z-]{2,}", re.split(r" (?:agent|tui|exec) ", words)[0]):
            assert option in help_of[command], (command, option)
    assert help_of or page == "docs/quickstart-frameworks.md"


def test_every_question_is_answered_and_leads_to_a_page_or_a_command():
    for question, answer in sections("docs/faq.md"):
        assert question.endswith("?")
        assert len(answer.split()) < 60, question
        assert re.search(r"\]\([\w./#-]+\)|`[^`]+`", answer) or answer.strip().startswith("No, it has no telemetry."), question


def test_every_symptom_has_something_to_do():
    for symptom, text in sections("docs/troubleshooting.md"):
        assert re.search(r"`[^`]+`|\]\(", text) and re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).strip(), symptom
