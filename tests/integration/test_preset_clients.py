"""The ordinary clients of public registries, each let out by nothing but the preset of its name."""

import getpass
import os
import subprocess

import pytest
from origins import Registries
from test_peers import needs


@pytest.fixture
def registries(tmp_path):
    """Gone before the daemon is looked at, with the connections that it keeps."""
    origin = Registries(str(tmp_path / "registries"), list(Registries.hosts))
    yield origin
    origin.stop()


@pytest.fixture
def inside(daemon, relay, registries, tmp_path):
    """inside(preset): a daemon with that use; and run(command…) behind it, with what the registries were asked."""

    def start(preset):
        resolve = {host: registries.pins["tls"] for host in Registries.hosts}
        one = daemon({"upstream": {"ca_file": registries.ca, "resolve": resolve}}, rules=[{"use": preset}])
        url, mark = relay(one).url, registries.mark()
        one.proxy = url

        def run(*command, cwd=str(tmp_path), **env):
            return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=90, check=False, env={
                "PATH": os.environ["PATH"], "HOME": str(tmp_path), "HTTPS_PROXY": url, "https_proxy": url, **env})  # fmt: skip

        def asked():
            return [e["target"] for e in registries.requests(mark)]

        return one, run, asked

    return start


@needs("npm")
def test_npm_installs_and_does_not_publish(inside, tmp_path):
    one, run, asked = inside("npm")
    npm = {"npm_config_registry": "https://registry.npmjs.org/", "npm_config_cafile": one.ca,
           "npm_config_globalconfig": str(tmp_path / "none"), "npm_config_update_notifier": "false"}  # fmt: skip
    (tmp_path / "package.json").write_text('{"name":"mine","version":"1.0.0"}')
    done = run("npm", "install", "--no-fund", "sample", **npm)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "node_modules" / "sample" / "index.js").exists()
    assert "POST https://registry.npmjs.org/-/npm/v1/security/advisories/bulk" in asked(), "the audit"
    done = run("npm", "publish", "--//registry.npmjs.org/:_authToken=npm_mine", **npm)
    assert done.returncode != 0 and "403" in done.stderr, done.stderr
    assert not [line for line in asked() if line.startswith("PUT")]


@pytest.mark.skipif(subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0,
                    reason="pip is not installed")  # fmt: skip
def test_pip_installs(inside, tmp_path):
    one, run, asked = inside("pypi")
    done = run("/usr/bin/python3", "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", "--target",
               str(tmp_path / "here"), "sample", PIP_INDEX_URL="https://pypi.org/simple", PIP_CERT=one.ca,
               PIP_CONFIG_FILE=os.devnull)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "sample.py").read_text() == "answer = 42\n"
    assert {line.split("/")[2] for line in asked()} == {"pypi.org", "files.pythonhosted.org"}


@needs("cargo")
def test_cargo_fetches(inside, tmp_path):
    one, run, asked = inside("crates")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lib.rs").write_text("pub use sample::ANSWER;\n")
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "mine"\nversion = "0.1.0"\nedition = "2021"\n'
                                         '[dependencies]\nsample = "1"\n')  # fmt: skip
    done = run("cargo", "fetch", CARGO_HOME=str(tmp_path / "cargo"), CARGO_HTTP_CAINFO=one.ca,
               RUSTUP_HOME=os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {line.split("/")[2] for line in asked()} == {"index.crates.io", "static.crates.io"}


@needs("apt-get")
def test_apt_reads_its_lists(inside, tmp_path):
    one, run, asked = inside("debian")
    (tmp_path / "sources").write_text("deb [trusted=yes arch=amd64] https://deb.debian.org/debian stable main\n")
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "status").touch()
    options = {"Dir::State": "state", "Dir::State::status": "status", "Dir::Cache": "cache", "Dir::Etc::sourcelist": "sources",
               "Dir::Etc::sourceparts": "none"}  # fmt: skip
    args = [f"-o{key}={tmp_path}/{path}" for key, path in options.items()]
    done = run("apt-get", *args, f"-oAcquire::https::CAInfo={one.ca}", f"-oAPT::Sandbox::User={getpass.getuser()}",
               "-oAcquire::https::Proxy=" + one.proxy, "update")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "GET https://deb.debian.org/debian/dists/stable/main/binary-amd64/Packages" in asked()


@needs("npm")
def test_one_registrys_preset_is_no_others(inside, tmp_path):
    one, run, asked = inside("pypi")
    (tmp_path / "package.json").write_text('{"name":"mine","version":"1.0.0"}')
    done = run("npm", "install", "--no-audit", "--no-fund", "sample", npm_config_registry="https://registry.npmjs.org/",
               npm_config_cafile=one.ca, npm_config_fetch_retries="0")  # fmt: skip
    assert done.returncode != 0 and "403" in done.stderr, done.stderr
    assert asked() == []
