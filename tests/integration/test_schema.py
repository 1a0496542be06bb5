"""The JSON Schema that `keyhole check --schema` writes takes what check takes, and refuses what a schema can."""

import glob
import json
import os
import re
import subprocess

import mmdb
import pytest
from common import KEYHOLE
from harness import ROOT
from test_check import BAD

jsonschema = pytest.importorskip("jsonschema")
yaml = pytest.importorskip("yaml")


def plain(node):
    """A document as YAML 1.2's core schema reads it, which is what editors do."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [plain(item) for item in node.value]
    text = node.value
    if node.style is not None:
        return text
    if text in ("", "~", "null"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return text


@pytest.fixture(scope="module")
def validator():
    done = subprocess.run([KEYHOLE, "check", "--schema"], capture_output=True, text=True, timeout=20, check=True)
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def takes(validator, text):
    return [f"{list(e.absolute_path)}: {e.message}" for e in validator.iter_errors(plain(yaml.compose(text)))]


def configurations():
    """Whole ones: of the pages, the demonstration and the tests' own good cases."""
    found = {}
    for path in glob.glob(ROOT + "/docs/*.md") + [ROOT + "/README.md"]:
        with open(path, encoding="utf-8") as file:
            blocks = re.findall(r"^```yaml\n(.*?)^```", file.read(), re.M | re.S)
        for n, block in enumerate(blocks):
            if block.startswith("version:"):
                found[f"{os.path.basename(path)}-{n}"] = block
    for path in glob.glob(ROOT + "/tests/fuzz/corpus/config/*.yaml"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        # Else it is a preset, of which the schema does not speak, or wrong on purpose.
        if text.startswith("version:") and not os.path.basename(path).startswith("bad-"):
            found[os.path.basename(path)] = text
    for name, text, says in BAD:
        if says is not None and not any("error" in line for line in says) and isinstance(text, str):
            found["check: " + name] = text
    return found


MORE = {
    "words": "version: '1'\nworker: { threads: 2, user: nobody }\nlog: { level: debug }\nlimits: { leaves: \"5\" }\n"
             "tenants: { a1: { mode: observe, rules: [ { deny: \"https://**/x\", mode: observe } ] } }\n",
    "numbers as texts": "version: 1\ntenants: { 7: { rules: [ { allow: \"https://a.test\", query: { v: 2, w: [ 1, true ] } } ] } }\n"
                        "listen: [ { unix: /tmp/1/s, sandbox: 12, mode: 0660, owner: 0, group: 0 } ]\n",
    "presets": "version: 1\ntenants: { t: { rules: [ { use: github }, { use: { github: } }, { use: { github: { push: true, "
               "repos: [ a/b, \"c/*\" ] } } }, { use: { sentry: { orgs: o1, projects: 7 } } } ] } }\n",
    "rules": "version: 1\ntenants: { t: { rules: [ { allow: \"tcp://a.test:22\" }, { allow: \"https://[fd00::/8]:8443/x\" }, "
             "{ allow: \"GET,HEAD http://[10.0.0.0/8]:8080/a/**\" }, { deny: \"* https://**\" }, { allow: \"PROPFIND https://*.a.test/*\", "
             "websocket: false, tls: intercept, client_auth: refuse, max_body: 1GiB, content_type: [ image/*, text/plain ] } ] } }\n",
}  # fmt: skip


@pytest.mark.parametrize("name", [*configurations(), *MORE])
def test_what_check_takes_the_schema_takes(validator, tmp_path, name):
    text = {**configurations(), **MORE}[name]
    (tmp_path / "k.yaml").write_text(text)
    # The databases that an example names.
    mmdb.write(str(tmp_path / "country.mmdb"), {"198.51.100.0/24": mmdb.country("XX")})
    mmdb.write(str(tmp_path / "asn.mmdb"), {"198.51.100.0/24": mmdb.network(64666)})
    for roots in re.findall(r"\bca_file: ([\w.-]+)", text):
        subprocess.run([KEYHOLE, "ca", "init", "--certificate", roots, "--key", "roots.key"], cwd=tmp_path, timeout=20, check=True)
    done = subprocess.run([KEYHOLE, "check", "-c", str(tmp_path / "k.yaml")], capture_output=True, text=True, timeout=30,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert takes(validator, text) == []


def test_most_configurations_are_taken_by_check(tmp_path):
    assert len(configurations()) > 25


TENANT = "tenants: { t: { rules: [ { allow: \"https://a.test\" } ] } }\n"


def rule(text):
    return f"version: 1\ntenants: {{ t: {{ rules: [ {text} ] }} }}\n"


REFUSED = [
    TENANT,
    "version: 2\n" + TENANT,
    "version: 1\ntenant: {}\n",
    "version: 1\nlog: { level: loud }\n" + TENANT,
    "version: 1\nlog: { levle: info }\n" + TENANT,
    "version: 1\ntimeouts: { header: 10 }\n" + TENANT,
    "version: 1\ntimeouts: { header: 10sec }\n" + TENANT,
    "version: 1\nlimits: { leaves: 0 }\n" + TENANT,
    "version: 1\nlimits: { leaves: 10001 }\n" + TENANT,
    "version: 1\nlimits: { leaves: many }\n" + TENANT,
    "version: 1\nupstream: { http2: maybe }\n" + TENANT,
    "version: 1\nupstream: { resolve: { a.test: 127.0.0.1 } }\n" + TENANT,
    "version: 1\nupstream: { allow_addresses: 10.0.0.0/8 }\n" + TENANT,
    "version: 1\nupstream: { allow_addresses: [ inside ] }\n" + TENANT,
    "version: 1\nupstream: { proxy: { username: me } }\n" + TENANT,
    "version: 1\nupstream: { proxy: { url: \"https://p.test:1\" } }\n" + TENANT,
    "version: 1\nauthority: { key: ca.key }\n" + TENANT,
    "version: 1\ntenants: { \"a b\": { rules: [] } }\n",
    "version: 1\ntenants: { t: { rules: { allow: x } } }\n",
    "version: 1\ntenants: [ t ]\n",
    "version: 1\nlisten: [ { tenant: t } ]\n" + TENANT,
    "version: 1\nlisten: [ { unix: /a/s, tcp: \"127.0.0.1:1\", token: { env: T } } ]\n" + TENANT,
    "version: 1\nlisten: [ { tcp: \"127.0.0.1:1\" } ]\n" + TENANT,
    "version: 1\nlisten: [ { tcp: \"127.0.0.1:1\", token: { env: T, file: x } } ]\n" + TENANT,
    "version: 1\nlisten: [ { vsock: 1 } ]\n" + TENANT,
    "version: 1\nlisten: [ { unix: /a/s, mode: rw } ]\n" + TENANT,
    "version: 1\nlisten: [ { unix: /a/s, narrow: [ { allow: \"https://a.test\", credential: c } ] } ]\n" + TENANT,
    "version: 1\nlisten: [ { unix: /a/s, narrow: [ { deny: \"https://a.test\", mode: observe } ] } ]\n" + TENANT,
    "version: 1\nsite: { rules: [ { allow: \"https://a.test\", client_auth: pass } ] }\n" + TENANT,
    "version: 1\nexpect: [ { tenant: t } ]\n" + TENANT,
    "version: 1\nexpect: [ { allow: \"GET https://a.test/\", deny: \"GET https://a.test/\" } ]\n" + TENANT,
    "version: 1\ncredentials: { c: { value: sk-live, header: { x: \"{}\" }, hosts: [ a.test ] } }\n" + TENANT,
    "version: 1\ncredentials: { c: { value: { env: C }, header: { x: \"key\" }, hosts: [ a.test ] } }\n" + TENANT,
    "version: 1\ncredentials: { c: { value: { env: C }, header: { x: \"{}{}\" }, hosts: [ a.test ] } }\n" + TENANT,
    "version: 1\ncredentials: { c: { value: { env: C }, header: { x: \"{}\" } } }\n" + TENANT,
    rule("{}"),
    rule("{ allow: \"https://a.test\", deny: \"https://a.test\" }"),
    rule("{ allow: \"https://a.test\", use: npm }"),
    rule("{ use: ../npm }"),
    rule("{ use: {} }"),
    rule("{ use: { github: {}, npm: {} } }"),
    rule("{ use: { github: [ push ] } }"),
    rule("{ use: { github: { repos: [] } } }"),
    rule("{ use: { github: { repos: { a: b } } } }"),
    rule("{ use: { github: { Repos: a/b } } }"),
    rule("{ allow: \"ftp://a.test\" }"),
    rule("{ allow: \"get https://a.test\" }"),
    rule("{ allow: \"https://a.test/x?y\" }"),
    rule("{ allow: \"tcp://a.test\" }"),
    rule("{ allow: \"a.test\" }"),
    rule("{ deny: \"https://a.test\", credential: c }"),
    rule("{ allow: \"https://a.test\", mode: observe }"),
    rule("{ allow: \"https://a.test\", tls: maybe }"),
    rule("{ allow: \"https://a.test\", headers: { X-Mode: a } }"),
    rule("{ allow: \"https://a.test\", query: {} }"),
    rule("{ allow: \"https://a.test\", max_body: 5 }"),
    rule("{ allow: \"https://a.test\", credential: [ a, b, c, d, e ] }"),
    rule("{ alow: \"https://a.test\" }"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_schema_refuses_check_refuses_too(validator, tmp_path, text):
    assert takes(validator, text) != []
    (tmp_path / "k.yaml").write_text(text)
    done = subprocess.run([KEYHOLE, "check", "-c", str(tmp_path / "k.yaml")], capture_output=True, timeout=20, check=False)
    assert done.returncode == 1, done.stdout


def test_no_other_option_goes_with_it():
    done = subprocess.run([KEYHOLE, "check", "--schema", "--json"], capture_output=True, timeout=20, check=False)
    assert done.returncode == 2 and b"no other option" in done.stderr


def described():
    """What the schema says of a key, wherever it has one of that name."""
    done = subprocess.run([KEYHOLE, "check", "--schema"], capture_output=True, text=True, timeout=20, check=True)
    found = {}

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.get("properties", {}).items():
                found.setdefault(key, set()).add(value.get("description", "") if isinstance(value, dict) else "")
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(json.loads(done.stdout))
    return found


def test_the_page_says_of_every_option_what_an_editor_shows():
    with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as page:
        tables = re.findall(r"^\| option \| what it takes \| default \| what it is \|\n\|[-|]*\n((?:\|.*\n)+)", page.read(), re.M)
    rows = re.findall(r"^\| `(\S+)` \| [^|]* \| [^|]* \| (.*) \|$", "".join(tables), re.M)
    texts = described()
    assert len(rows) > 150
    for path, text in rows:
        shown = texts.get(path.split(".")[-1].rstrip("[]"), set()) - {""}
        if "." not in path or not shown:  # a key of a preset's file, or one that the schema does not describe
            continue
        # One of the two may go on.
        assert any(text.startswith(one) or one.startswith(text) for one in shown), (path, shown)


@pytest.mark.parametrize("key", ["websocket", "spelling", "placeholder", "shared_host"])
def test_an_option_that_has_to_be_weighed_says_its_default_and_when_to_set_it(key):
    texts = [text for text in described()[key] if len(text) > 100]
    assert texts and all(" default" in text and re.search(r"\b[Ss]et ", text) for text in texts)
