"""`keyhole init`: a first configuration, from what is in the folder and which keys are at hand."""

import os
import subprocess

import pytest
from common import KEYHOLE, ROOT, without_values

KEY = "sk-ant-api03-" + "b7Qw2Zr9" * 5


@pytest.fixture(name="init")
def an_init(tmp_path):
    folder = tmp_path / "my project"
    folder.mkdir()

    def run(*words, command="init", cwd=folder, **keys):
        return subprocess.run([KEYHOLE, command, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=30, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KEYHOLE_PRESETS": os.path.join(ROOT, "policies"),
                                   **keys})  # fmt: skip

    run.folder, run.file = folder, folder / "keyhole.yaml"
    return run


def uses(text):
    return [line.strip().removeprefix("- use: ") for line in text.splitlines() if line.strip().startswith("- use: ")]


def passes(init, path):
    """`keyhole check` takes it, without a warning but for the keys that are not set."""
    done = init("-c", path, command="check", C="")
    assert done.returncode == 0 and without_values(done.stderr) == "", done.stderr
    return True


def test_it_uses_the_presets_of_the_keys_and_of_the_projects_files(init):
    (init.folder / "package.json").write_text("{}")
    (init.folder / "pyproject.toml").write_text("")
    done = init(ANTHROPIC_API_KEY=KEY, GITHUB_TOKEN="ghp_" + "x" * 36, OPENAI_API_KEY="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"wrote keyhole.yaml\nfound: anthropic (ANTHROPIC_API_KEY), github (GITHUB_TOKEN), "
                                  "npm (package.json), pypi (pyproject.toml)\n")  # fmt: skip
    text = init.file.read_text()
    assert uses(text) == ["anthropic", "github", "npm", "pypi"]
    assert KEY not in text + done.stdout and "ghp_" not in text
    assert passes(init, init.file)
    assert "keyhole trust" in done.stdout and init("-c", ".keyhole/keyhole.yaml").stderr == ""


def test_what_is_there_already_stays(init):
    assert init().returncode == 0
    init.file.write_text("mine")
    done = init()
    assert done.returncode == 1 and "is there already, and stays as it is" in done.stderr
    assert init.file.read_text() == "mine"
    link = init.folder / "link.yaml"
    link.symlink_to(init.folder / "elsewhere")
    assert init("-c", link).returncode == 1 and not (init.folder / "elsewhere").exists()


def test_where_nothing_is_found_everything_is_denied(init):
    done = init("--print")
    assert done.returncode == 0 and uses(done.stdout) == [] and '- deny: "https://**"' in done.stdout
    assert not init.file.exists()
    (init.folder / "x.yaml").write_text(done.stdout)
    assert passes(init, init.folder / "x.yaml")
    # A rule in the place that the file has for one decides.
    (init.folder / "x.yaml").write_text(done.stdout.replace("# - allow:", "- allow:"))
    url = "https://api.example.com/v1/x"
    assert passes(init, init.folder / "x.yaml")
    assert subprocess.run([KEYHOLE, "explain", "-c", init.folder / "x.yaml", url], capture_output=True, check=False).returncode == 0


def test_a_preset_that_needs_a_parameter_is_a_comment(init):
    text = init("--print", AZURE_OPENAI_API_KEY=KEY).stdout
    assert uses(text) == [] and "      # - use: { azure-openai: { resources: [ … ] } }" in text


@pytest.mark.parametrize("url, repo", [
    ("https://github.com/org/app.git", "org/app"), ("git@github.com:org/my.app", "org/my.app"),
    ("https://github.com/org/app/more", None), ("https://github.com/../app", None), ("https://github.com/o'rg/app", None),
    ('https://github.com/org/a" ] } }', None), ("https://gitlab.com/org/app", None), ("https://github.com/*/*", None),
])  # fmt: skip
def test_a_remote_at_github_opens_that_repository_alone(init, url, repo):
    """The project's author wrote it: it makes no rule but for a plain name."""
    (init.folder / ".git").mkdir()
    (init.folder / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {url}\n')
    assert init().returncode == 0
    assert uses(init.file.read_text()) == ([f'{{ github: {{ repos: [ "{repo}" ] }} }}'] if repo else [])
    assert passes(init, init.file)


def test_a_file_of_another_name_in_the_folder_is_warned_of(init):
    done = init("-c", "rules.yaml")
    assert done.returncode == 0 and "move the file before you use this folder as a workspace" in done.stderr
    assert init("extra").returncode == 2


def test_what_it_writes_can_be_trusted(init, tmp_path):
    (init.folder / "package.json").write_text("{}")
    assert init().stderr == ""
    done = init(command="trust", XDG_STATE_HOME=str(tmp_path / "state"))
    assert done.returncode == 0 and done.stdout.startswith(f"{init.file} is trusted as it is now"), done.stderr
