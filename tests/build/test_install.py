"""make install puts a whole keyhole where it says, and make uninstall takes it away again."""

import glob
import os
import stat
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PREFIX = "/usr/local"


def make(*args):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    # The compiler that built what is there: another one would build it anew under everybody's feet.
    with open(os.path.join(ROOT, "build", "flags"), encoding="utf-8") as file:
        compiler = file.read().split()[0]
    return subprocess.run(["make", "--no-print-directory", "-s", f"CC={compiler}", *args], cwd=ROOT, env=env,
                          capture_output=True, text=True, timeout=300, check=True)  # fmt: skip


@pytest.fixture(name="root", scope="module")
def installed(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    assert make("install", f"DESTDIR={root}").stdout.splitlines()[-1] == f"installed in {root}{PREFIX}"
    return str(root)


def files(root):
    return sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
    )


def test_every_part_is_there(root):
    there = set(files(root))
    prefix = PREFIX.lstrip("/")
    assert {f"{prefix}/bin/keyhole", f"{prefix}/libexec/keyhole/keyhole-init",
            f"{prefix}/lib/systemd/system/keyhole.service",
            f"{prefix}/share/bash-completion/completions/keyhole",
            f"{prefix}/share/zsh/site-functions/_keyhole"} <= there  # fmt: skip
    for preset in glob.glob(os.path.join(ROOT, "policies", "*.yaml")):
        assert f"{prefix}/share/keyhole/policies/{os.path.basename(preset)}" in there
    for page in glob.glob(os.path.join(ROOT, "docs", "man", "*.[1-8]")):
        assert f"{prefix}/share/man/man{page[-1]}/{os.path.basename(page)}" in there
    assert any(name.endswith("/keyhole.1") for name in there)


def test_nobody_but_root_can_change_it(root):
    for name in files(root):
        mode = os.stat(os.path.join(root, name)).st_mode
        executable = "/bin/" in name or "/libexec/" in name
        assert stat.S_IMODE(mode) == (0o755 if executable else 0o644), name


def test_another_prefix_is_no_other_flag_of_every_file():
    with open(os.path.join(ROOT, "build", "flags"), encoding="utf-8") as file:
        assert PREFIX not in file.read()


def test_the_folder_of_its_presets_is_shown_as_a_person_writes_it(root):
    binary = f"{root}{PREFIX}/bin/keyhole"
    done = subprocess.run([binary, "run", "--use", "nmp", "true"], capture_output=True, text=True, timeout=20, check=False)
    assert "nmp" in done.stderr and "/../" not in done.stderr, done.stderr
    done = subprocess.run([binary, "explain", "--use", "npm", "https://registry.npmjs.org/x"], capture_output=True, text=True, timeout=20, check=True)
    assert f"{root}{PREFIX}/share/keyhole/policies/npm.yaml" in done.stdout


def test_it_runs_from_there_with_its_presets(root, tmp_path):
    binary = f"{root}{PREFIX}/bin/keyhole"
    version = subprocess.run([binary, "version"], capture_output=True, text=True, timeout=20, check=True)
    assert version.stdout.startswith("keyhole ")
    config = tmp_path / "keyhole.yaml"
    config.write_text("version: 1\nlisten:\n  - { unix: d/s, tenant: acme }\n"
                      "tenants:\n  acme:\n    rules:\n      - use: anthropic\n")  # fmt: skip
    check = subprocess.run([binary, "check", "-c", str(config)], capture_output=True, text=True, timeout=20,
                           env={"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "sk-ant-api03-" + "x" * 40},
                           check=False)  # fmt: skip
    assert check.returncode == 0, check.stderr
    moved = f"{root}{PREFIX}/share/keyhole/policies"
    os.rename(moved, moved + ".away")
    try:
        check = subprocess.run([binary, "check", "-c", str(config)], capture_output=True, text=True, timeout=20, check=False)
        assert check.returncode != 0  # so it was the installed ones that it read
    finally:
        os.rename(moved + ".away", moved)


def test_keyhole_init_needs_nothing_of_its_surroundings(root):
    binary = f"{root}{PREFIX}/libexec/keyhole/keyhole-init"
    with open(binary, "rb") as file:
        head = file.read(64)
    assert head[:4] == b"\x7fELF"
    program_headers = subprocess.run(["readelf", "-lW", binary], capture_output=True, text=True, timeout=20, check=True)
    assert "INTERP" not in program_headers.stdout
    dynamic = subprocess.run(["readelf", "-dW", binary], capture_output=True, text=True, timeout=20, check=True)
    assert "NEEDED" not in dynamic.stdout
    assert os.path.getsize(binary) < 1536 * 1024


def test_the_binaries_are_hardened(root):
    def readelf(what, binary):
        return subprocess.run(["readelf", what, binary], capture_output=True, text=True, timeout=20, check=True).stdout

    for name in ("bin/keyhole", "libexec/keyhole/keyhole-init"):
        binary = f"{root}{PREFIX}/{name}"
        assert "DYN" in readelf("-hW", binary)  # position-independent
        segments = readelf("-lW", binary)
        assert "GNU_RELRO" in segments
        stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
        assert "RWE" not in stack
        assert not any("RWE" in line and "LOAD" in line for line in segments.splitlines())
    dynamic = readelf("-dW", f"{root}{PREFIX}/bin/keyhole")
    assert "BIND_NOW" in dynamic or "NOW" in dynamic
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic
    symbols = readelf("-sW", f"{root}{PREFIX}/bin/keyhole")
    assert "__stack_chk_fail" in symbols


def test_no_path_of_the_build_is_in_the_binaries(root):
    for name in ("bin/keyhole", "libexec/keyhole/keyhole-init"):
        with open(f"{root}{PREFIX}/{name}", "rb") as file:
            assert ROOT.encode() + b"/" not in file.read(), name


def test_uninstall_leaves_nothing(root):
    make("uninstall", f"DESTDIR={root}")
    assert files(root) == []
    make("install", f"DESTDIR={root}")
