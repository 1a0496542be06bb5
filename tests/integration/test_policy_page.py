"""docs/policy.md teaches by examples, and each of them does what it says."""

import os
import re
import subprocess

import mmdb
import pytest
from common import KEYHOLE, ROOT, without_values

with open(os.path.join(ROOT, "docs", "policy.md"), encoding="utf-8") as file:
    PAGE = file.read()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)


def keyhole(folder, *words):
    return subprocess.run([KEYHOLE, *words], cwd=folder, capture_output=True, text=True, timeout=30, check=False)


def write(folder, text):
    """The configuration, and the databases that one of them names."""
    mmdb.write(os.path.join(folder, "country.mmdb"), {"198.51.100.0/24": mmdb.country("XX")})
    mmdb.write(os.path.join(folder, "asn.mmdb"), {"198.51.100.0/24": mmdb.network(64666)})
    with open(os.path.join(folder, "keyhole.yaml"), "w", encoding="utf-8") as out:
        out.write(text)


def test_there_are_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_does_what_it_expects(example, tmp_path):
    assert "expect:" in example
    write(tmp_path, example)
    done = keyhole(tmp_path, "check", "-c", "keyhole.yaml")
    assert (done.returncode, without_values(done.stderr)) == (0, "")


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_expectation_that_is_turned_round_fails_where_it_stands(example, tmp_path):
    head, _, cases = example.partition("expect:")
    turned = re.sub(r"\b(allow|deny): \"", lambda m: ("deny" if m[1] == "allow" else "allow") + ': "', cases)
    write(tmp_path, head + "expect:" + turned)
    done = keyhole(tmp_path, "check", "-c", "keyhole.yaml")
    count = len(re.findall(r"\b(?:allow|deny): \"", cases))
    assert done.returncode == 1
    assert len(re.findall(r"^keyhole\.yaml:\d+:\d+: error: expect: ", done.stderr, re.M)) == count, done.stderr


def test_what_explain_is_shown_to_say_is_what_it_says(tmp_path):
    shown = list(re.finditer(r"^```console\n\$ keyhole (explain .*?)\n(.*?)^```", PAGE, re.M | re.S))
    assert shown
    for block in shown:
        write(tmp_path, re.findall(r"^```yaml\n(.*?)^```", PAGE[: block.start()], re.M | re.S)[-1])
        done = keyhole(tmp_path, *block[1].split())
        assert done.stdout == block[2]


HOSTS = [
    ("API.Example.COM", "allow"),
    ("a_b.example.com", "allow"),
    ("example.com.", "malformed_request"),
    ("a..b.example.com", "malformed_request"),
    (".example.com", "malformed_request"),
    ("a" * 64 + ".example.com", "malformed_request"),
    ("a." * 150 + "example.com", "malformed_request"),
    ("%65xample.com", "malformed_request"),
    ("a b.example.com", "malformed_request"),
    ("bücher.example.com", "malformed_request"),
    ("раypal.example.com", "malformed_request"),
    ("xn--bcher-kva.example.com", "allow"),
    ("127.1", "malformed_request"),
    ("0177.0.0.1", "malformed_request"),
    ("0x7f000001", "malformed_request"),
    ("2130706433", "malformed_request"),
    ("127.0.0.1", "address_prohibited"),
    ("[::1]", "address_prohibited"),
    ("[::ffff:127.0.0.1]", "address_prohibited"),
    ("[::1%25lo]", "malformed_request"),
    ("[::1", "malformed_request"),
    ("user@api.example.com", "malformed_request"),
]


@pytest.mark.parametrize("host, answer", HOSTS, ids=range(len(HOSTS)))
def test_every_hostile_host_has_one_answer(host, answer, tmp_path):
    write(tmp_path, 'version: 1\ntenants: { a: { rules: [ { allow: "https://**" } ] } }\n')
    done = keyhole(tmp_path, "explain", "-c", "keyhole.yaml", "--json", "GET", f"https://{host}/")
    assert done.returncode == (0 if answer == "allow" else 3)
    assert f'"{"decision" if answer == "allow" else "reason"}":"{answer}"' in done.stdout
