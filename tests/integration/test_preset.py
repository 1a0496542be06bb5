"""`keyhole preset`: what it lists is what the files of the presets say."""

import json
import os
import subprocess

import pytest
from common import KEYHOLE, ROOT

yaml = pytest.importorskip("yaml")

FOLDER = os.path.join(ROOT, "policies")
NAMES = sorted(name[:-5] for name in os.listdir(FOLDER) if name.endswith(".yaml"))


def preset(*words, folder=FOLDER):
    return subprocess.run([KEYHOLE, "preset", *words], capture_output=True, text=True, timeout=30, check=False,
                          env={"PATH": os.environ["PATH"], "KEYHOLE_PRESETS": str(folder)})  # fmt: skip


def read(name):
    with open(os.path.join(FOLDER, name + ".yaml"), encoding="utf-8") as file:
        return yaml.safe_load(file)


def test_json_has_each_preset_with_what_its_file_says():
    done = preset("ls", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    listed = {one["name"]: one for one in json.loads(done.stdout)}
    assert sorted(listed) == NAMES
    for name, one in listed.items():
        file = read(name)
        assert one["description"] == file["description"] and one["file"] == os.path.join(FOLDER, name + ".yaml")
        assert [p["name"] for p in one["parameters"]] == list(file.get("parameters", {}))
        for parameter in one["parameters"]:
            told = file["parameters"][parameter["name"]]
            assert (parameter["type"], parameter["doc"]) == (told["type"], told["doc"])
            default = told.get("default")
            if isinstance(default, bool):
                default = str(default).lower()
            assert parameter["default"] == (",".join(default) if isinstance(default, list) else default)
        envs = {c["value"]["env"] for c in (file.get("credentials") or {}).values()}
        assert envs == set(one["variables"]) - {"AWS_ACCESS_KEY_ID"}


def test_the_list_shows_name_description_parameters_and_variables():
    text = preset("ls").stdout
    for name in NAMES:
        assert f"{name} " in text and read(name)["description"].replace("\\", "") in text
    assert "keys from: ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, CLAUDE_CODE_OAUTH_TOKEN" in text
    assert "  push=false: git may push to them" in text and "  resources=VALUE (must be set): " in text


def test_show_of_a_profile_says_that_it_is_none_of_the_presets_and_prints_it():
    done = preset("show", "claude")
    path = os.path.join(FOLDER, "agents", "claude.yaml")
    with open(path, encoding="utf-8") as file:
        assert (done.returncode, done.stdout) == (0, file.read())
    assert done.stderr == (f"keyhole: preset show: claude is the profile of an agent and no preset: {path}. `keyhole run claude` "
                           "uses it; it names the presets that it takes\n")  # fmt: skip
    # A preset may have the name of a profile too.
    assert preset("show", "codex").stderr == ""


@pytest.mark.parametrize("name", NAMES)
def test_show_prints_the_file(name):
    done = preset("show", name)
    with open(os.path.join(FOLDER, name + ".yaml"), encoding="utf-8") as file:
        assert (done.returncode, done.stdout) == (0, file.read())


def test_a_preset_of_ones_own_is_listed_and_one_with_a_mistake_is_said(tmp_path):
    rule = '- allow: "GET https://a.test/**"'
    (tmp_path / "mine.yaml").write_text(f"description: my own\\x1b[2J\nrules:\n  {rule}\n")
    done = preset("ls", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and "\x1b" not in done.stdout
    assert done.stdout.startswith("mine  my own")
    (tmp_path / "bad.yaml").write_text("description: [")
    done = preset("ls", folder=tmp_path)
    assert done.returncode == 1 and "mine  my own" in done.stdout and done.stderr.startswith("keyhole: preset: ")


@pytest.mark.parametrize("words, says, status", [
    (["show", "nmp"], 'no preset is called "nmp" (did you mean "npm"?)', 1),
    (["show", "../policies/npm"], "a name is small letters", 1),
    (["show"], "which? (`keyhole preset ls` lists them)", 2),
    (["ls", "npm"], "preset ls: takes no argument, got npm", 2),
    (["shwo"], "(did you mean show?)", 2), ([], "wants one of: ls, show", 2),
])  # fmt: skip
def test_what_is_called_wrongly_is_said(words, says, status):
    done = preset(*words)
    assert done.returncode == status and says in done.stderr and done.stdout == ""


def test_an_empty_folder_says_so(tmp_path):
    done = preset("ls", folder=tmp_path)
    assert done.returncode == 1 and done.stderr == f"keyhole: preset: there are no presets in {tmp_path}\n"
