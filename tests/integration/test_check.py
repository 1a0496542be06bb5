"""test_check.py - `keyhole check` shows every mistake of a configuration where it stands."""

import json
import os
import re
import subprocess

import pytest
from common import without_values

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KEYHOLE = os.environ.get("KEYHOLE", os.path.join(ROOT, "build", "keyhole"))
KEY = "sk-ant-api03-Zm9vYmFyYmF6cXV4"

TENANT = "tenants: { t: { rules: [ { deny: \"https://x.example\" } ] } }\n"
CREDENTIAL = "{ value: { env: C }, header: { x: \"{}\" }, hosts: [ a.example ] }"


def check(folder, text, *options, env=None):
    """Runs `keyhole check` in the file's folder. Returns (status, standard output, errors). Notes on this machine's
    descriptors (test_shares.py looks at them) and on what a daemon needs besides are left out."""
    path = os.path.join(folder, "k.yaml")
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    done = subprocess.run(
        [KEYHOLE, "check", "-c", "k.yaml", *options],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "C": KEY, **(env or {})},
        capture_output=True,
        timeout=20,
        check=False,
    )
    said = re.sub(r"^k\.yaml: note: (limits\.connections|`keyhole proxy` does not start) .*\n", "", done.stdout.decode(), flags=re.M)
    return done.returncode, said, done.stderr.decode()


def test_a_listeners_folder_that_others_may_write_to_is_warned_of(tmp_path):
    (tmp_path / "d").mkdir()
    for mode, warned in ((0o755, False), (0o757, True), (0o1777, False)):
        (tmp_path / "d").chmod(mode)
        status, _, errors = check(tmp_path, "version: 1\nlisten: [ { unix: d/s } ]\n" + TENANT)
        assert status == 0
        assert ("put a socket of their own in this one's place" in errors) == warned, errors


@pytest.mark.parametrize("lines, warned", [(128, False), (129, True)])
def test_a_private_key_of_which_only_a_part_is_looked_for_is_warned_of(tmp_path, lines, warned):
    """A value of one line, with the line ends as in JSON."""
    text = "".join(f"{n:032}\\n" for n in range(lines))
    key = tmp_path / "key"
    key.write_text(f"-----BEGIN PRIVATE KEY-----\\n{text}-----END PRIVATE KEY-----\n")
    key.chmod(0o600)
    _, _, errors = check(tmp_path, with_credential("{ value: { file: key }, bearer: true, hosts: [ a.example ] }"))
    assert (f"its private keys have {lines} lines" in errors) == warned, errors


def test_a_state_below_a_folder_that_others_may_write_to_is_warned_of(tmp_path):
    (tmp_path / "d" / "own").mkdir(parents=True)
    (tmp_path / "d").chmod(0o777)
    oauth = "{ grant: refresh_token, token_url: \"https://t.example/t\", client_id: x, state: d/own/s }"
    minted = f"{{ value: {{ env: C }}, oauth2: {oauth}, hosts: [ a.example ] }}"
    _, _, errors = check(tmp_path, with_credential(minted))
    assert "state: others may write to the folder" in errors, errors


def test_what_the_daemon_would_not_start_with_is_an_error_that_names_the_file(tmp_path):
    roots = "version: 1\nupstream: { ca_file: roots.pem }\n" + TENANT
    status, _, errors = check(tmp_path, roots)
    assert status == 1 and "roots.pem: No such file" in errors, errors
    (tmp_path / "roots.pem").write_text("nothing\n")
    status, _, errors = check(tmp_path, roots)
    assert status == 1 and "roots.pem: it contains no certificate in PEM; the daemon would not start" in errors, errors
    start = subprocess.run([KEYHOLE, "proxy", "-c", "k.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert start.returncode != 0 and "serving" not in start.stderr, start.stderr
    status, _, errors = check(tmp_path, "version: 1\nworker: { user: no-such-user }\n" + TENANT)
    assert status == 1 and "'no-such-user': not in /etc/passwd" in errors, errors
    for name in ("one", "two"):
        subprocess.run([KEYHOLE, "ca", "init", "--certificate", f"{name}.pem", "--key", f"{name}.key"], cwd=tmp_path,
                       capture_output=True, timeout=20, check=True)  # fmt: skip
    status, _, errors = check(tmp_path, "version: 1\nauthority: { certificate: one.pem, key: two.key }\n" + TENANT)
    assert status == 1 and "one.pem" in errors and "two.key" in errors and "would not start" in errors, errors


def with_rule(rule):
    return f"version: 1\ncredentials: {{ c: {CREDENTIAL} }}\ntenants: {{ t: {{ rules: [ {rule} ] }} }}\n"


def with_credential(credential):
    return (
        f"version: 1\ncredentials: {{ c: {credential} }}\n"
        "tenants: { t: { rules: [ { allow: \"https://a.example\", credential: c } ] } }\n"
    )


# name, text, what is said (without the file's name), all of it and in this order
BAD = [
    # YAML
    ("empty", "", ["1:1: error: an empty file: a configuration begins with \"version: 1\""]),
    ("comment only", "# nothing\n", ["1:1: error: an empty file: a configuration begins with \"version: 1\""]),
    ("null", "---\n~\n", ["1:1: error: an empty file: a configuration begins with \"version: 1\""]),
    ("list", "- 1\n", ["1:1: error: expected a map at the top, got a list"]),
    ("text", "hello\n", ["1:1: error: expected a map at the top, got text"]),
    ("no utf-8", b"version: 1\nlog: { level: \"\xff\" }\n", ["2:16: error: a byte that is not UTF-8"]),
    ("overlong utf-8", b"version: 1 # \xc0\xaf\n", ["1:14: error: a byte that is not UTF-8"]),
    ("surrogate", b"# \xc3\xa9\xed\xa0\x80\n", ["1:4: error: a byte that is not UTF-8"]),
    ("control byte", b"version: 1\n# \x07\n", ["2:3: error: a control or invisible character"]),
    ("NUL", b"version: 1\0\n", ["1:11: error: a control or invisible character"]),
    ("escape", b"# \xc2\x9b2J\n", ["1:3: error: a control or invisible character"]),
    ("hidden line", "# a\u2028b: 1\n", ["1:4: error: a control or invisible character"]),
    ("turned text", "# \u00e9\u202ea\n", ["1:4: error: a control or invisible character"]),
    ("hidden carriage return", b"# a\rb: 1\n", ["1:4: error: a control or invisible character"]),
    ("tag characters", "# \U000e0041\n", ["1:3: error: a control or invisible character"]),
    ("utf-16", "version: 1\n".encode("utf-16"), ["1:1: error: a byte that is not UTF-8"]),
    (
        "tabs",
        "version: 1\nlog:\n\tlevel: info\naudit:\n  \tfile: x\n",
        [
            "3:1: error: a tab in the indentation: YAML takes spaces only",
            "5:3: error: a tab in the indentation: YAML takes spaces only",
        ],
    ),
    (
        "second document",
        "version: 1\n" + TENANT + "---\nversion: 1\n",
        ["3:1: error: a second document: a configuration is one"],
    ),
    (
        "anchor and alias",
        "version: 1\nlimits: &l { leaves: 5 }\nworker: *l\n" + TENANT,
        [
            "2:9: error: an anchor (&) is not taken: write it out",
            "3:9: error: an alias (*) is not taken: write it out (a text that begins with * needs quotes)",
        ],
    ),
    (
        "merge key",
        "version: 1\nlimits: { <<: { leaves: 5 } }\n" + TENANT,
        ["2:11: error: a merge key (<<) is not taken: write the keys out"],
    ),
    (
        "tags",
        "version: !!int 1\nlog: !x { level: info }\n" + TENANT,
        [
            "1:10: error: a tag (!) is not taken: types are known here",
            "2:6: error: a tag (!) is not taken: types are known here",
        ],
    ),
    (
        "a map as a key",
        "version: 1\n{ a: 1 }: 2\n" + TENANT,
        ["2:1: error: a key must be plain text, not a map or a list"],
    ),
    (
        "too deep",
        "version: 1\na: " + "[" * 40 + "]" * 40 + "\n",
        ["2:35: error: nested too deep: no option is so deep"],
    ),
    (
        "not closed",
        "version: 1\nlog: { level: info\n",
        [
            "3:1: error: YAML: did not find expected ',' or '}', while parsing a flow mapping (from line 2); the { in that line is not closed, or a comma is missing"
        ],
    ),
    (
        "a bad indentation",
        "version: 1\nlog:\n  level: info\n nonsense: 1\n",
        ["4:2: error: YAML: did not find expected key, while parsing a block mapping (from line 1) (check the indentation)"],
    ),
    (
        "a map below a value",
        "version: 1\nlog: info\n  level: info\n",
        ["3:8: error: YAML: mapping values are not allowed in this context (check the indentation; a text with \": \" in it needs quotes)"],
    ),
    (
        "a key among the items of a list",
        "version: 1\nlisten:\n  - unix: s\n  log: x\n",
        ["4:3: error: YAML: did not find expected '-' indicator, while parsing a block collection (from line 3) (check the indentation)"],
    ),
    # keys
    (
        "unknown at the top",
        "version: 1\nlisen: []\n" + TENANT,
        ["2:1: error: unknown key \"lisen\" (did you mean \"listen\"?)"],
    ),
    (
        "unknown and far from all",
        "version: 1\nquuxify: 1\n" + TENANT,
        ["2:1: error: unknown key \"quuxify\""],
    ),
    (
        "unknown in a section",
        "version: 1\ntimeouts: { headr: 1s }\n" + TENANT,
        ["2:13: error: unknown key \"headr\" in timeouts (did you mean \"header\"?)"],
    ),
    (
        "unknown in an item",
        "version: 1\nlisten:\n  - unix: /x/s\n    mod: \"0600\"\n" + TENANT,
        ["4:5: error: unknown key \"mod\" in listen[] (did you mean \"mode\"?)"],
    ),
    (
        "hostile key",
        "version: 1\n\"\\e[2J\\x9b\": 1\n" + TENANT,
        ["2:1: error: unknown key \"\\x1b[2J\\xc2\\x9b\""],
    ),
    (
        "duplicates",
        "version: 1\nlog: { level: info, level: warn }\nlog: {}\n" + TENANT,
        [
            "2:21: error: duplicate key \"level\": it is already in line 2",
            "3:1: error: duplicate key \"log\": it is already in line 2",
        ],
    ),
    (
        "a tenant twice",
        "version: 1\nlisten: [ { unix: /run/a, tenant: acme }, { unix: /run/b, tenant: acme } ]\n"
        "tenants:\n  acme: { rules: [] }\n  acme: { rules: [] }\n",
        ["5:3: error: duplicate key \"acme\": it is already in line 4"],
    ),
    ("no version", TENANT, ["1:1: error: version is missing: it is 1"]),
    (
        "another version",
        "version: 2\n" + TENANT,
        ["1:10: error: version: this keyhole reads version 1 of the format, not \"2\""],
    ),
    # values
    (
        "durations",
        "version: 1\ntimeouts:\n  header: 10\n  connect: 1h30m\n  stall: -1s\n  drain: 9ms\n"
        "  resolve: 99999h\n  response: [ 1s ]\n  idle_up:\n" + TENANT,
        [
            "3:11: error: timeouts.header: expected a duration such as 500ms, 10s, 5m or 24h, got \"10\"",
            "4:12: error: timeouts.connect: expected a duration such as 500ms, 10s, 5m or 24h, got \"1h30m\"",
            "5:10: error: timeouts.stall: expected a duration such as 500ms, 10s, 5m or 24h, got \"-1s\"",
            "6:10: error: timeouts.drain: expected something from 10ms to 168h, got \"9ms\"",
            "7:12: error: timeouts.resolve: expected something from 10ms to 168h, got \"99999h\"",
            "8:13: error: timeouts.response: expected a duration, got a list",
            "9:11: error: timeouts.idle_up: expected a duration, got nothing",
        ],
    ),
    (
        "counts",
        "version: 1\nlimits: { connections: 0, exchanges: many, leaves: 1e3 }\nworker: { threads: 4096 }\n"
        + TENANT,
        [
            "2:24: error: limits.connections: expected something from 1 to 1000000, got \"0\"",
            "2:38: error: limits.exchanges: expected a whole number, got \"many\"",
            "2:52: error: limits.leaves: expected a whole number, got \"1e3\"",
            "3:20: error: worker.threads: expected something from 0 to 1024, got \"4096\"",
        ],
    ),
    (
        "choices and booleans",
        "version: 1\nlog: { level: warning }\naudit: { durability: sync }\n"
        "upstream: { system_roots: yes }\n" + TENANT,
        [
            "2:15: error: log.level: expected one of error, warn, info, debug, got \"warning\"",
            "3:22: error: audit.durability: expected one of written, synced, got \"sync\" (did you mean \"synced\"?)",
            "4:27: error: upstream.system_roots: expected true or false, got \"yes\"",
        ],
    ),
    (
        "wrong shapes",
        "version: 1\nlisten: { unix: x }\ntenants: [ t ]\ncredentials: none\naudit: x.jsonl\n"
        "site: { rules: x }\nauthority:\n",
        [
            "2:9: error: listen: expected a list of listeners, got a map",
            "3:10: error: tenants: expected a map, got a list",
            "4:14: error: credentials: expected a map, got text",
            "5:8: error: audit: expected a map, got text",
            "6:16: error: site.rules: expected a list of rules, got text",
            "7:11: error: authority: expected a map, got nothing",
        ],
    ),
    (
        "worker as root",
        "version: 1\nworker: { user: root }\n" + TENANT,
        ["2:17: error: worker.user: \"root\" would leave the worker its power: name an ordinary user"],
    ),
    # listeners
    (
        "listeners",
        "version: 1\nlisten:\n  - {}\n  - { unix: /x/s, tenant: tt }\n  - { unix: /x/s, mode: 0o660 }\n"
        "  - { unix: /y/s, mode: \"0666\", owner: no-such-user-here, group: no-such-group-here }\n"
        f"  - {{ unix: /{'z' * 107} }}\n" + TENANT,
        [
            "3:5: error: listen[]: expected one of unix, vsock and tcp",
            "4:27: error: listen[].tenant: no tenant is called \"tt\"",
            "5:5: error: listen[].unix: \"/x/s\" is served by another listener already",
            "5:25: error: listen[].mode: expected an octal mode such as \"0660\", got \"0o660\"",
            "6:25: warning: listen[].mode: everybody on this host may use the socket, and with it the tenant's credentials",
            "6:40: error: listen[].owner: no user is called \"no-such-user-here\"",
            "6:66: error: listen[].group: no group is called \"no-such-group-here\"",
            "7:5: error: listen[].unix: 108 bytes are too long for a Unix socket's path (107 at most)",
        ],
    ),
    (
        "whose listener",
        "version: 1\ntenants:\n  a: { rules: [ { allow: \"https://a.example\" } ] }\n  b: {}\n"
        "listen: [ { unix: /x/s } ]\n",
        [
            "5:11: error: listen[].tenant is missing: it says whose rules apply",
        ],
    ),
    # upstream
    (
        "upstream",
        "version: 1\nupstream:\n  resolve: { a.example: nowhere, b.example: \"127.0.0.1:1\", B.example: \"127.0.0.1:2\", \"b c\": \"127.0.0.1:3\" }\n"
        "  allow_addresses: [ 10.0.0.1/8, example.com, 0.0.0.0/0 ]\n  nameservers: 192.0.2.1\n" + TENANT,
        None,
    ),
    # credentials
    (
        "a literal secret",
        with_credential(f"{{ value: {KEY}, header: {{ x: \"{{}}\" }}, hosts: [ a.example ] }}"),
        [
            "2:28: error: credentials.c.value: a secret is never written in this file; put it into a "
            "variable or a file and write { env: NAME } or { file: PATH }"
        ],
    ),
    (
        "no header and no hosts",
        with_credential("{ value: { env: C } }"),
        [
            "2:19: error: credentials.c.hosts is missing: it is a list of hosts",
            "2:19: error: credentials.c: where does it go? Expected one of ...",
        ],
    ),
    (
        "a placeholder asked for where none can be",
        with_credential("{ value: { env: C }, body: { json: /a }, hosts: [ a.example ], require_placeholder: true }"),
        [
            "2:19: error: credentials.c.require_placeholder: a credential in the content, hmac and mtls are not asked "
            "for a placeholder: leave it out, or place the credential in a field, a cookie or the query"
        ],
    ),
    (
        "a rule for TRACE",
        "version: 1\ncredentials: { a: { value: { env: C }, bearer: true, hosts: [ a.example ] } }\n"
        "tenants: { t: { rules: [ { allow: \"TRACE https://a.example\", credential: a } ] } }",
        [
            "3:35: error: credential \"a\" would go with TRACE, which sends it back: no credential does (leave the "
            "method out)"
        ],
    ),
    (
        "two sources",
        with_credential("{ value: { env: C, file: c }, header: { x: \"{}\" }, hosts: [ a.example ] }"),
        ["2:44: error: credentials.c.value.file: a value has one source, and this one has env already"],
    ),
    (
        "a format that is none",
        with_credential("{ value: { exec: [ c ], format: yaml }, header: { x: \"{}\" }, hosts: [ a.example ] }"),
        ["2:51: error: credentials.c.value.format: expected auto, text or json"],
    ),
    (
        "a text's members",
        with_credential("{ value: { exec: [ c ], format: text, json: a }, header: { x: \"{}\" }, hosts: [ a.example ] }"),
        ["2:28: error: credentials.c.value: format: text has no members: leave it out, or json and expires"],
    ),
    (
        "a first line of JSON",
        with_credential("{ value: { exec: [ c ], format: json, first_line: true }, header: { x: \"{}\" }, hosts: [ a.example ] }"),
        ["2:28: error: credentials.c.value: what is read as JSON has no first line: write json or first_line"],
    ),
    (
        "a format of a variable",
        with_credential("{ value: { env: C, format: text }, header: { x: \"{}\" }, hosts: [ a.example ] }"),
        ["2:28: error: credentials.c.value: refresh, timeout, max_age, environment, json, expires, first_line and "
            "format belong to exec"],
    ),
    (
        "no source",
        with_credential("{ value: {}, header: { x: \"{}\" }, hosts: [ a.example ] }"),
        ["2:28: error: credentials.c.value: expected { env: NAME }, { file: PATH }, { exec: [ COMMAND, … ] } or "
            "{ systemd: NAME }"],
    ),
    (
        "fields",
        with_credential(
            "{ value: { env: C }, header: { host: \"{}\", Content-Length: \"{}\", proxy-x: \"{}\",\n"
            "  \"x y\": \"{}\", x-1: \"none\", x-2: \"{}{}\", x-3: \" {}\", x-4: \"\\n{}\", X-5: \"{}\", x-5: \"{}\" },"
            " hosts: [ a.example ] }"
        ),
        None,
    ),
    (
        "hosts",
        with_credential(
            "{ value: { env: C }, header: { x: \"{}\" },\n"
            "  hosts: [ \"**\", \"*.com\", 10.0.0.0/8, \"a b\", a.example, [ x ] ] }"
        ),
        [
            "3:12: error: credentials.c.hosts: a credential is bound to hosts: name them, no \"**\" and no range",
            "3:18: error: credentials.c.hosts: expected a host such as api.example.com or *.example.com "
            "(a wildcard needs at least two labels after it)",
            "3:27: error: credentials.c.hosts: a credential is bound to hosts: name them, no \"**\" and no range",
            "3:39: error: credentials.c.hosts: expected a host such as api.example.com or *.example.com",
            "3:57: error: credentials.c.hosts: expected a host, got a list",
        ],
    ),
    # rules
    (
        "beyond its hosts",
        with_rule("{ allow: \"https://b.example\", credential: c }"),
        ["3:35: error: credential \"c\" may not go to b.example, which this rule allows: its own `hosts` bind it "
            "(add b.example to credentials.c.hosts)"],
    ),
    (
        "plain http",
        with_rule("{ allow: \"http://a.example\", credential: c }"),
        ["3:35: error: credential \"c\" would go over plain http: only https carries one"],
    ),
    (
        "to any host",
        with_rule("{ allow: \"https://**\", credential: c }"),
        ["3:35: error: a rule for any host (\"**\") can't carry a credential: name the hosts"],
    ),
    (
        "an unknown credential",
        with_rule("{ allow: \"https://a.example\", credential: [ c, cc ] }"),
        ["3:73: error: no credential is called \"cc\""],
    ),
    (
        "rules that are none",
        with_rule(
            "{}, { allow: \"https://a.example\", deny: \"https://b.example\" }, { use: npm, allow: \"x\" },\n"
            "  { allow: [ x ] }, { deny: \"https://a.example\", credential: c }, x,\n"
            "  { allow: \"https://a.example\", client_auth: maybe },\n"
            "  { allow: \"https://a.example\", credential: c, client_auth: pass },\n"
            "  { allow: \"https://a.example\", credential: [] }, { use: [ npm ] }"
        ),
        [
            "3:26: error: rules[]: expected one of allow, deny, use",
            "3:30: error: rules[]: exactly one of allow, deny, use; this rule has allow and deny",
            "3:96: error: rules[].use: must be alone in its rule",
            "4:12: error: rules[].allow: expected the text of a rule, got a list",
            "4:62: error: rules[]: a rule that denies carries nothing",
            "4:67: error: rules[]: expected a map, got text",
            "5:46: error: rules[].client_auth: expected pass or refuse",
            "6:61: error: rules[].client_auth: where a credential goes in, the client's own is always "
            "removed: take one of the two",
            "7:45: error: rules[].credential: expected 1 to 4 names, of which the first that has a value is used",
            "7:58: error: rules[].use: expected a preset's name, got a list",
        ],
    ),
    (
        "a mistyped kind of a rule is one error, any other unknown key another",
        with_rule("{ alow: \"https://a.example\" }, { dney: \"https://a.example\", credential: c }, { websockets: true }"),
        [
            "3:28: error: unknown key \"alow\" in rules[] (did you mean \"allow\"?)",
            "3:59: error: unknown key \"dney\" in rules[] (did you mean \"deny\"?)",
            "3:103: error: rules[]: expected one of allow, deny, use",
            "3:105: error: unknown key \"websockets\" in rules[] (did you mean \"websocket\"?)",
        ],
    ),
    (
        "the text of a rule",
        with_rule("{ allow: \"get https://a.example\" }, { allow: \"https://*.com/x\" }"),
        [
            "3:35: error: rule \"get https://a.example\": method \"get\": methods are written in capitals",
            "3:71: error: rule \"https://*.com/x\": host \"*.com\": a wildcard over one label covers names of "
            "strangers (name at least two labels, as in \"*.example.com\")",
        ],
    ),
    (
        "what nobody decrypts",
        with_rule(
            "{ allow: \"https://a.example\", credential: c, tls: passthrough },\n"
            "  { allow: \"GET https://a.example\", tls: passthrough },\n"
            "  { allow: \"https://a.example/v1/**\", tls: passthrough },\n"
            "  { allow: \"http://a.example\", tls: passthrough },\n"
            "  { allow: \"https://a.example\", tls: passthrough, client_auth: pass },\n"
            "  { allow: \"https://a.example\", tls: maybe },\n"
            "  { deny: \"https://a.example\", tls: passthrough },\n"
            "  { allow: \"tcp://a.example:22\", tls: passthrough },\n"
            "  { allow: \"tcp://a.example:22\", credential: c },\n"
            "  { allow: \"tcp://a.example\" }"
        ),
        [
            "3:76: error: rules[].tls: nothing is put into what is not decrypted: with passthrough "
            "there is neither credential nor client_auth",
            *(
                f"{line}: error: rules[].tls: passthrough goes with https://HOST[:PORT] alone: "
                "methods and paths are not seen"
                for line in ("4:42", "5:44", "6:37")
            ),
            "7:38: error: rules[].tls: nothing is put into what is not decrypted: with passthrough "
            "there is neither credential nor client_auth",
            "8:38: error: rules[].tls: expected intercept or passthrough",
            "9:37: error: rules[]: a rule that denies carries nothing",
            "10:39: error: rules[]: a rule over tcp carries nothing",
            "11:46: error: rules[]: a rule over tcp carries nothing",
            "12:12: error: rule \"tcp://a.example\": a rule over tcp names its port",
        ],
    ),
    (
        "the ceiling carries nothing",
        f"version: 1\ncredentials: {{ c: {CREDENTIAL} }}\nsite:\n  rules:\n"
        "    - { allow: \"https://a.example\", credential: c }\n"
        "    - { allow: \"https://b.example\", client_auth: pass }\n"
        "    - { allow: \"https://b.example\", tls: passthrough }\n" + TENANT,
        [
            "5:49: error: rules[].credential: the site's rules are a ceiling; a credential belongs to a tenant's rule",
            "6:50: error: rules[].client_auth: the site's rules are a ceiling; it belongs to a tenant's rule",
            "7:42: error: rules[].tls: the site's rules are a ceiling; it belongs to a tenant's rule",
        ],
    ),
    (
        "conditions that nothing meets",
        "version: 1\ntenants:\n  a:\n    rules:\n"
        "      - { allow: \"https://a.test\", headers: { \"x y\": a } }\n"
        "      - { allow: \"https://a.test\", content_type: json }\n",
        [
            "5:47: error: rules[].headers: \"x y\": a field's name is written in small letters",
            "6:50: error: rules[].content_type: \"json\": expected a media type such as application/json or image/*",
        ],
    ),
    # the authority
    (
        "half an authority",
        "version: 1\nauthority: { key: ca.key }\n" + TENANT,
        ["2:1: error: authority: certificate and key belong together, and certificate is missing"],
    ),
]


@pytest.mark.parametrize("text, expected", [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_every_mistake_is_shown_where_it_stands(tmp_path, text, expected):
    status, out, errors = check(tmp_path, text)
    print(errors)
    if expected is not None:
        # Of a list of kinds the beginning.
        said = [re.sub(r"Expected one of header, .*", "Expected one of ...", line) for line in errors.splitlines()]
        assert said == [f"k.yaml:{line}" for line in expected]
    assert status == (1 if ": error: " in errors else 0)
    assert status == 1
    assert out == ""


def test_every_mistake_of_one_rule_is_shown_at_once(tmp_path):
    """What is wrong in its text hides neither the rest of the text nor the other keys."""
    rule = '{ allow: "get,POST https://a..example/x?y", credential: nope, websockets: true }'
    status, _, errors = check(tmp_path, with_rule(rule))
    assert status == 1
    for says in ('method "get": methods are written in capitals', "a rule looks at the path only", 'no credential is called "nope"',
                 'unknown key "websockets"', '"a..example"'):  # fmt: skip
        assert errors.count(says) == 1, (says, errors)
    assert errors.count(": error: ") == 5, errors


def test_a_mistyped_method_is_warned_of_and_one_of_a_servers_own_too(tmp_path):
    status, _, errors = check(tmp_path, with_rule('{ allow: "GTE,POST https://a.example/x" }'))
    assert status == 0
    assert re.search(r'^k\.yaml:\d+:\d+: warning: rule "GTE,POST https://a\.example/x": "GTE" is no method that keyhole knows '
                     r'\(did you mean "GET"\?\)', errors, re.M), errors  # fmt: skip
    assert "POST\" is no method" not in errors
    assert '"FROBNICATE" is no method that keyhole knows: the rule' in check(tmp_path, with_rule('{ deny: "FROBNICATE https://a.example" }'))[2]
    for known in ("GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS", "PROPFIND,M-SEARCH,REPORT,LIST", "*"):
        assert "is no method" not in check(tmp_path, with_rule(f'{{ allow: "{known} https://a.example/x" }}'))[2]
    own = CREDENTIAL.replace("hosts:", "methods: [ PSOT ], hosts:")
    status, _, errors = check(tmp_path, with_credential(own))
    assert '"PSOT" is no method that keyhole knows (did you mean "POST"?)' in errors, errors


@pytest.mark.parametrize("path", ["${HOME}/x", "$HOME/x", "~/x", "/a/${B}"])
def test_a_path_with_what_only_a_shell_reads_is_an_error(tmp_path, path):
    """It would be a folder of that name."""
    for section in ("audit: { file: %s }", "authority: { certificate: a.pem, key: %s }", "admin: { unix: %s }", "listen: [ { unix: %s } ]"):
        status, _, errors = check(tmp_path, f"version: 1\n{section % json.dumps(path)}\n{TENANT}")
        assert status == 1 and "keyhole is no shell and puts no " in errors and "write the path out" in errors, errors
    for source in ("file: %s", "exec: [ %s ]"):
        value = CREDENTIAL.replace("env: C", source % json.dumps(path))
        status, _, errors = check(tmp_path, with_credential(value))
        assert status == 1 and "keyhole is no shell" in errors and path not in errors, errors
    assert check(tmp_path, f"version: 1\naudit: {{ file: 'a$.jsonl' }}\n{TENANT}")[0] == 0


@pytest.mark.parametrize("text, says", [
    ("tenants: { t: 1\n", "; the { in that line is not closed, or a comma is missing"),
    ("tenants: [ a, b\n", "; the [ in that line is not closed, or a comma is missing"),
    ("tenants: @x\n", "; a text that begins with @, ` or % needs quotes"),
    ("tenants: \"abc\n", "; the quote that begins in that line is not closed"),
    ("tenants: \"a\\d\"\n", "; a \\ in double quotes begins an escape"),
    ("tenants:\n  a: 1\n b: 2\n", " (check the indentation)"),
])  # fmt: skip
def test_what_yaml_says_is_explained(tmp_path, text, says):
    status, _, errors = check(tmp_path, "version: 1\n" + text)
    assert status == 1 and ": error: YAML: " in errors and errors.rstrip().endswith(says) or says in errors, errors


@pytest.mark.parametrize("case, says", [
    ("tenant: acne", '5:49: error: expect[].tenant: no tenant is called "acne" (did you mean "acme"?)'),
    ("sandbox: box", "5:50: error: expect[].sandbox: no listener's sandbox is called \"box\""),
    ("model: m", "5:5: error: expect[].tenant: which one? there are several tenants"),
])  # fmt: skip
def test_a_case_that_is_nobodys_hides_no_other_one(tmp_path, case, says):
    text = (
        'version: 1\ntenants: { acme: { rules: [ { allow: "GET https://a.example/**" } ] }, beta: { rules: [] } }\nexpect:\n'
        '  - { deny: "GET https://a.example/x", tenant: acme }\n'
        f'  - {{ allow: "GET https://a.example/x", {case} }}\n'
    )
    status, _, errors = check(tmp_path, text)
    assert status == 1 and says in errors, errors
    assert '4:13: error: expect: "GET https://a.example/x" is allowed: by "GET https://a.example/**"' in errors, errors
    # Where the file has other errors no case is tried, and this one is said.
    status, _, errors = check(tmp_path, text + "nonsense: 1\n")
    assert status == 1 and says in errors and "is allowed" not in errors, errors


def test_a_credential_without_a_variable_for_its_placeholder_is_noted(tmp_path):
    (tmp_path / "v").write_text(KEY)
    (tmp_path / "v").chmod(0o600)
    value = CREDENTIAL.replace("env: C", "file: v")
    note = "note: credential c: sandboxes get no variable with a placeholder for it."
    assert note in check(tmp_path, with_credential(value))[1]
    assert note not in check(tmp_path, with_credential(value.replace("{ value", "{ placeholder: { env: C }, value")))[1]
    assert note not in check(tmp_path, with_credential(CREDENTIAL))[1]


def test_upstream_mistakes_each_have_their_place(tmp_path):
    text = next(case[1] for case in BAD if case[0] == "upstream")
    _, _, errors = check(tmp_path, text)
    places = [re.match(r"k\.yaml:(\d+:\d+): (error|warning)", line)[0][7:] for line in errors.splitlines()]
    assert places == [
        "3:25: error",
        "3:60: error",
        "3:86: error",
        "4:22: error",
        "4:34: error",
        "4:47: warning",
        "5:16: error",
    ]


def test_field_mistakes_each_have_their_place(tmp_path):
    text = next(case[1] for case in BAD if case[0] == "fields")
    _, _, errors = check(tmp_path, text)
    found = [re.match(r"k\.yaml:(\d+:\d+): error: credentials\.c\.header: (.*)", line).groups()
             for line in errors.splitlines()]  # fmt: skip
    frames = "this field frames or routes the message: no credential goes there"
    once = 'its template must hold {} exactly once, where the value goes (such as x-api-key: "{}")'
    assert found == [
        ("2:50", frames),
        ("2:62", frames),
        ("2:84", frames),
        ("3:3", "a field's name must be a token (RFC 9110 section 5.6.2)"),
        ("3:16", once),
        ("3:29", once),
        ("3:42", "its template must not begin or end with a blank"),
        ("3:54", "its template must be printable ASCII"),
        ("3:78", "this field is set already"),
    ]


def test_what_other_programs_call_a_source_is_answered_with_its_name(tmp_path):
    text = "credentials: { c: { value: { COMMAND: [ a ] }, hosts: [ a.example ], bearer: true } }\n"
    status, _, errors = check(tmp_path, "version: 1\ntenants: {}\n" + text)
    assert status == 1 and 'unknown key "COMMAND" in credentials.c.value (did you mean "exec"?)' in errors, errors


def test_a_good_file_is_summed_up(tmp_path):
    text = with_rule("{ allow: \"POST https://a.example\", credential: c }, { use: npm }")
    status, out, errors = check(tmp_path, text)
    assert (status, errors) == (0, "")
    assert re.fullmatch(r"k\.yaml: ok: 1 tenant, \d+ rules, 1 credential, 0 listeners, 0 warnings\n", out)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "names no journal (audit: { file: … }), and there is nothing to listen on"),
        ("listen: [{ unix: d/s }]\n", "names no journal"),
        ("audit: { file: a.jsonl }\n", "there is nothing to listen on (listen: or admin.unix)"),
        ("audit: { file: a.jsonl }\nadmin: { unix: d/s }\n", None),
        ("audit: { file: a.jsonl }\nlisten: [{ unix: d/s }]\n", None),
    ],
)
def test_what_the_daemon_would_not_start_without_is_said(tmp_path, lines, said):
    (tmp_path / "d").mkdir(mode=0o700)
    (tmp_path / "k.yaml").write_text("version: 1\n" + lines + TENANT)
    for options in ([], ["--json"]):
        done = subprocess.run([KEYHOLE, "check", "-c", "k.yaml", *options], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True)
        assert ("`keyhole proxy` does not start with this file" in done.stdout) == bool(said), done.stdout
        assert (said or "") in done.stdout


def test_a_rule_that_begins_with_a_star_is_told_of_quotes(tmp_path):
    text = "version: 1\ntenants: { t: { rules: [\n  { deny: * https://a.example/** } ] } }\n"
    status, _, errors = check(tmp_path, text)
    assert status == 1 and 'a text that begins with * needs quotes, as in deny: "* https://…"' in errors


def test_a_byte_order_mark_and_other_line_ends_are_taken(tmp_path):
    text = "version: 1\n" + TENANT
    assert check(tmp_path, "\ufeff" + text)[0] == 0
    assert check(tmp_path, text.replace("\n", "\r\n"))[0] == 0
    assert check(tmp_path, text + "# \u00fcml\u00e4ut \U0001f511\n")[0] == 0


def test_warnings_alone_are_no_failure(tmp_path):
    status, out, errors = check(tmp_path, "version: 1\ntenants: { t: {} }\n")
    assert status == 0
    assert errors == "k.yaml:2:12: warning: tenant \"t\" has no rules: every request of it is refused\n"
    assert out.endswith(", 1 warning\n")


def test_no_output_ever_holds_a_misplaced_key(tmp_path):
    for place in (
        f"{{ value: {KEY}, header: {{ x: \"{{}}\" }}, hosts: [ a.example ] }}",
        f"{{ value: {{ env: {KEY} }}, header: {{ x: \"{{}}\" }}, hosts: [ a.example ] }}",
        f"{{ value: {{ {KEY} }}, header: {{ x: \"{{}}\" }}, hosts: [ a.example ] }}",
        f"{{ value: {{ env: C }}, header: {{ x: \"Bearer {KEY}\" }}, hosts: [ a.example ] }}",
        f"{{ value: {{ env: C }}, header: {{ x: \"{{}}\" }}, hosts: [ \"{KEY}/\" ] }}",
    ):
        for options in ((), ("--json",)):
            status, out, errors = check(tmp_path, with_credential(place), *options)
            assert status == 1
            assert "Zm9vYmFy" not in out + errors


def test_json_says_the_same(tmp_path):
    text = "version: 1\nlisten: [ { unix: /x/s, mode: 666 } ]\ntimeouts: { header: 10, \"\\x9b\\\"<\": 1 }\n" + TENANT
    status, out, errors = check(tmp_path, text, "--json")
    assert (status, errors) == (1, "")
    result = json.loads(out)
    assert result["ok"] is False
    assert [(d["severity"], d["file"], d["line"], d["column"]) for d in result["diagnostics"]] == [
        ("warning", "k.yaml", 2, 31),
        ("error", "k.yaml", 3, 21),
        ("error", "k.yaml", 3, 25),
    ]
    assert result["diagnostics"][1]["text"].startswith("timeouts.header: expected a duration")
    status, out, _ = check(tmp_path, "version: 1\n" + TENANT, "--json")
    result = json.loads(out)
    notes = [note for note in result.pop("notes", []) if not re.search("RLIMIT_NOFILE|does not start", note["text"])]
    assert (status, result, notes) == (0, {"ok": True, "diagnostics": []}, [])


def test_a_file_that_is_not_there(tmp_path):
    for path in ("nothing.yaml", "no/such/folder/k.yaml", "."):
        done = subprocess.run([KEYHOLE, "check", "-c", path], cwd=tmp_path, capture_output=True,
                              timeout=20, check=False)  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.decode().startswith(f"{path}: error: ")


def test_wrong_usage(tmp_path):
    for arguments, status in ((["--help"], 0), ([], 2), (["-x"], 2), (["k.yaml"], 2), (["-c"], 2)):
        done = subprocess.run([KEYHOLE, "check", *arguments], cwd=tmp_path, capture_output=True,
                              timeout=20, check=False)  # fmt: skip
        assert done.returncode == status
        assert (b"usage: keyhole check" in done.stdout) == (status == 0)
        assert bool(done.stderr) == (status != 0)


@pytest.mark.parametrize("name", ["keyhole.yaml", ".keyhole/keyhole.yaml"])
def test_without_a_name_it_is_the_file_of_the_folder(tmp_path, name):
    (tmp_path / ".keyhole").mkdir()
    (tmp_path / name).write_text("version: 1\n" + TENANT)
    checked = subprocess.run([KEYHOLE, "check"], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert checked.returncode == 0 and checked.stdout.startswith(name + ": ok"), checked
    explained = subprocess.run([KEYHOLE, "explain", "https://no-rule.test/"], cwd=tmp_path, capture_output=True, text=True, timeout=20,
                               check=False)  # fmt: skip
    assert explained.returncode == 3, explained


def test_an_open_key_file_is_an_error(tmp_path):
    text = "version: 1\nauthority: { certificate: ca.pem, key: ca.key }\n" + TENANT
    key = tmp_path / "ca.key"
    key.write_text("x")
    for mode, status in ((0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1), (0o620, 1)):
        key.chmod(mode)
        assert check(tmp_path, text)[0] == status
    errors = check(tmp_path, text)[2]
    assert errors.startswith("k.yaml:2:1: error: authority.key: ")
    assert "(mode 0620)" in errors


def test_a_listeners_folder_that_holds_more_is_warned_about(tmp_path):
    text = "version: 1\nlisten:\n  - { unix: d/s }\n" + TENANT
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "s").touch()
    assert check(tmp_path, text)[1].endswith(", 0 warnings\n")
    (tmp_path / "d" / "admin.sock").touch()
    status, out, errors = check(tmp_path, text)
    assert status == 0
    assert errors.startswith("k.yaml:3:5: warning: listen[].unix: the folder ")
    assert "admin.sock" in errors
    shared = "version: 1\nlisten:\n" + "".join(f"  - {{ unix: {p} }}\n" for p in ("e/a", "e/c/s", "e/d"))
    status, out, errors = check(tmp_path, shared + TENANT)
    assert status == 0
    assert errors.startswith("k.yaml:5:5: warning: listen[].unix: shares its folder with ")
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("command", [["check"], ["explain", "GET", "https://a.example"], ["ctl", "status"], ["ca", "show"]])
def test_a_file_that_is_missing_is_named_once(tmp_path, command):
    (tmp_path / "m").mkdir()
    verb = command[:2] if command[0] == "ca" else command[:1]
    done = subprocess.run([KEYHOLE, *verb, "-c", "m/none.yaml", *command[len(verb):]], cwd=tmp_path, capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == "m/none.yaml: error: No such file or directory"
    done = subprocess.run([KEYHOLE, "check", "-c", "m"], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert done.stderr == "m: error: Is a directory\n"


def test_presets_are_found_by_the_environment_and_their_mistakes_have_a_place(tmp_path):
    presets = tmp_path / "presets"
    presets.mkdir()
    (presets / "mine.yaml").write_text("description: mine\nrules:\n  - alow: x\n")
    env = {"KEYHOLE_PRESETS": str(presets)}
    use = "version: 1\ntenants: {{ t: {{ rules: [ {{ use: {} }} ] }} }}\n"
    status, _, errors = check(tmp_path, use.format("mine"), env=env)
    assert status == 1
    assert errors.splitlines() == [
        f"{presets}/mine.yaml:3:5: error: unknown key \"alow\" in rules[] (did you mean \"allow\"?)",
    ]
    status, _, errors = check(tmp_path, use.format("mini"), env=env)
    assert errors.splitlines()[-1] == (
        "k.yaml:2:33: error: no preset is called \"mini\" (did you mean \"mine\"?); "
        f"presets are looked for in {presets}"
    )
    for name in ("../mine", "/etc/passwd", "Mine", "mine.yaml", "\"mine\\0\""):
        status, _, errors = check(tmp_path, use.format(name), env=env)
        assert status == 1
        assert "a name is small letters, digits and '-', and no path" in errors


def blocks_of_documentation():
    with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as file:
        found = re.findall(r"^```yaml\n(.*?)^```$", file.read(), re.S | re.M)
    with open(os.path.join(ROOT, "docs", "credentials.md"), encoding="utf-8") as file:
        found += re.findall(r"^```yaml\n(.*?)^```$", file.read(), re.S | re.M)
    with open(os.path.join(ROOT, "docs", "man", "keyhole.yaml.5"), encoding="utf-8") as file:
        found += re.findall(r"^\.Bd -literal\n(.*?)^\.Ed$", file.read(), re.S | re.M)
    return found


@pytest.mark.parametrize("block", blocks_of_documentation())
def test_every_example_of_the_documentation_passes(tmp_path, block):
    env = {}
    if block.startswith("description: "):
        presets = tmp_path / "presets"
        presets.mkdir()
        (presets / "example.yaml").write_text(block)
        block = "version: 1\ntenants: { t: { rules: [ { use: example } ] } }\n"
        env = {"KEYHOLE_PRESETS": str(presets)}
    for roots in re.findall(r"ca_file: (\S+)", block):  # what the example says is there
        subprocess.run([KEYHOLE, "ca", "init", "--certificate", roots, "--key", "roots.key"], cwd=tmp_path, timeout=20, check=True)
    status, _, errors = check(tmp_path, block, env=env)
    assert (status, without_values(errors)) == (0, "")


@pytest.mark.parametrize("host", ["*.co.uk", "*.github.io", "*.s3.amazonaws.com", "*.web.app"])
def test_a_wildcard_over_a_public_suffix_is_an_error(tmp_path, host):
    for text in (with_rule(f'{{ allow: "https://{host}" }}'),
                 with_credential(CREDENTIAL.replace("a.example", f'"{host}", a.example'))):  # fmt: skip
        status, _, errors = check(tmp_path, text)
        assert status == 1 and "public suffix" in errors, errors
    status, _, errors = check(tmp_path, with_rule(f'{{ deny: "https://{host}" }}'))
    assert status == 0, errors
    assert check(tmp_path, with_rule(f'{{ allow: "https://*.mine.{host[2:]}" }}'))[0] == 0


@pytest.mark.parametrize("host", ["*.github.io", "*.s3.amazonaws.com", "*.web.app", "*.compute.amazonaws.com"])
def test_a_rule_can_say_that_a_companys_suffix_is_meant(tmp_path, host):
    status, _, errors = check(tmp_path, with_rule(f'{{ allow: "https://{host}" }}'))
    assert status == 1 and "public_suffix: allow" in errors
    status, _, errors = check(tmp_path, with_rule(f'{{ allow: "GET https://{host}", public_suffix: allow }}'))
    assert status == 0, errors
    status, _, errors = check(tmp_path, with_rule(f'{{ allow: "GET https://{host}", public_suffix: allow, credential: c }}'))
    assert status == 1 and "may not go to " in errors


@pytest.mark.parametrize(
    "rule, says",
    [
        ('{ allow: "https://*.co.uk", public_suffix: allow }', "a public suffix of a registry"),
        ('{ allow: "https://*.com", public_suffix: allow }', "a wildcard over one label"),
        ('{ allow: "https://*.a.example", public_suffix: allow }', "a.example is no public suffix"),
        ('{ allow: "https://a.github.io", public_suffix: allow }', "goes with a wildcard"),
        ('{ allow: "https://*.github.io", public_suffix: deny }', "expected allow"),
        ('{ allow: "https://*.github.io", public_suffix: [] }', "expected allow"),
        ('{ deny: "https://*.github.io", public_suffix: allow }', "belongs to a tenant's rule that allows"),
    ],
)
def test_it_says_so_of_nothing_else(tmp_path, rule, says):
    status, _, errors = check(tmp_path, with_rule(rule))
    assert status == 1 and says in errors, errors


RULED = "version: 1\nsite: { rules: [ { allow: \"https://**\" } ] }\ntenants:\n  t:\n    rules:\n"
SHADOWS = [
    (["allow: \"https://**\"", "deny: \"https://a.example/admin/**\""], [6, 7]),
    (["allow: \"https://*.a.example\"", "deny: \"https://b.a.example/admin/**\""], [7]),
    (["deny: \"https://a.example/admin/**\"", "allow: \"GET https://a.example/admin/x\""], [7]),
    (["allow: \"GET,POST https://a.example/v1/**\"", "allow: \"GET https://a.example/v1/x\""], [7]),
    (["allow: \"GET https://a.example\"", "allow: \"https://a.example\""], []),
    (["allow: \"https://a.example/v1/**\"", "allow: \"https://a.example/v2/**\""], []),
    (["allow: \"https://b.a.example\"", "allow: \"https://*.a.example\""], []),
    (["allow: \"https://[10.0.0.0/8]\"", "allow: \"https://10.1.1.1\""], [7]),
    (["allow: \"https://a.example\", query: { v: x }", "allow: \"https://a.example\""], []),
    (["allow: \"http://a.example\""], [6]),
]


@pytest.mark.parametrize("rules, lines", SHADOWS, ids=range(len(SHADOWS)))
def test_a_rule_that_never_decides_is_warned_of(tmp_path, rules, lines):
    status, _, errors = check(tmp_path, RULED + "".join(f"      - {{ {rule} }}\n" for rule in rules))
    assert status == 0
    assert [int(n) for n in re.findall(r"k\.yaml:(\d+):\d+: warning: rule ", errors)] == lines, errors


def test_a_rule_whose_credential_opens_no_websocket_is_named(tmp_path):
    rules = [
        '{ allow: "GET https://a.example/a", credential: c }',
        '{ allow: "https://a.example/b", credential: c }',
        '{ allow: "POST https://a.example/c", credential: c }',
        '{ allow: "https://a.example/d", credential: c, websocket: true }',
        '{ allow: "https://a.example/e", credential: c, websocket: false }',
        '{ allow: "https://a.example/f" }',
        "{ use: openai }",
    ]
    text = with_rule(", ".join(rules))
    status, said, errors = check(tmp_path, text)
    assert status == 0 and not without_values(errors)
    notes = [line for line in said.splitlines() if ": note: rule " in line]
    assert len(notes) == 2 and all("write websocket: true" in note for note in notes)
    assert "GET https://a.example/a" in notes[0] and "https://a.example/b" in notes[1]
    assert notes[0].startswith("k.yaml:3:")
    _, said, _ = check(tmp_path, text, "--json")
    rules = [note["rule"] for note in json.loads(said)["notes"] if "rule" in note]
    assert rules == ["GET https://a.example/a", "https://a.example/b"]


def test_a_rule_that_gives_a_credential_to_a_whole_host_is_noted(tmp_path):
    rules = [
        '{ allow: "https://a.example", credential: c, websocket: false }',
        '{ allow: "* https://a.example:8443", credential: c, websocket: false }',
        '{ allow: "https://a.example:8444/**", credential: c, websocket: false }',
        '{ allow: "GET https://a.example:8445", credential: c, websocket: false }',
        '{ allow: "https://a.example:8446", credential: c, websocket: false, query: { v: x } }',
        '{ allow: "https://b.example" }',
        "{ use: github }",
    ]
    text = with_rule(", ".join(rules))
    status, said, errors = check(tmp_path, text)
    assert status == 0 and not without_values(errors)
    notes = [line for line in said.splitlines() if "its credential goes to every path of the host" in line]
    assert len(notes) == 2
    assert notes[0].startswith("k.yaml:3:") and 'rule "https://a.example":' in notes[0] and "a.example:8443" in notes[1]
    others = [line for line in said.splitlines() if ": note: rule " in line and line not in notes]
    assert len(others) == 1 and 'rule "https://b.example": it allows every method and path of the host' in others[0]
    _, said, _ = check(tmp_path, text, "--json")
    assert len([note for note in json.loads(said)["notes"] if "rule" in note]) == 3


@pytest.mark.parametrize("rule, noted", [
    ('allow: "https://b.example"', True), ('allow: "* http://*.b.example:8080"', True), ('allow: "https://[192.0.2.0/24]"', True),
    ('allow: "https://b.example/**"', False), ('allow: "GET https://b.example"', False), ('allow: "https://b.example/v1/**"', False),
    ('allow: "https://b.example", max_body: 1KiB', False), ('allow: "tcp://b.example:22"', False), ('deny: "https://b.example"', False),
    ('allow: "https://b.example", tls: passthrough', False), ('allow: "https://**"', False), ("use: npm", False),
])  # fmt: skip
def test_a_rule_that_opens_a_whole_host_is_noted(tmp_path, rule, noted):
    status, said, errors = check(tmp_path, with_rule("{ " + rule + " }"))
    assert status == 0, errors
    assert said.count("it allows every method and path of the host") == noted, said


@pytest.mark.parametrize("path, warned", [
    ("/v[12]/**", True), ("/[a-z]", True), ("/a/[!b]/c", True), ("/v1/**", False), ("/a[]", False), ("/a]b[", False), ("/%5Bab%5D", False),
])  # fmt: skip
def test_brackets_in_a_path_are_warned_of_as_no_set_of_characters(tmp_path, path, warned):
    says = "[ and ] in a path are these two characters themselves, and no set of characters as in a shell"
    status, _, errors = check(tmp_path, with_rule(f'{{ allow: "GET https://a.example{path}" }}, {{ deny: "https://a.example{path}/x" }}'))
    assert status == 0 and errors.count(says) == 2 * warned, errors
    status, _, errors = check(tmp_path, with_credential(CREDENTIAL.replace("hosts:", f'paths: [ "{path}" ], hosts:')))
    assert errors.count(f"credentials.c.paths: {says}") == warned, errors
    # Neither a range of addresses nor one of version 6 is a path.
    assert says not in check(tmp_path, with_rule('{ allow: "https://[10.0.0.0/8]/x" }, { allow: "https://[2001:db8::1]:444" }'))[2]


@pytest.mark.parametrize("preset, url, opens", [
    ("openai", "https://api.openai.com/v1/responses", True), ("openai", "https://api.openai.com/v1/responses/r", False),
    ("openai", "https://api.openai.com/v1/models", False), ("codex", "https://chatgpt.com/backend-api/codex/responses", True),
    ("codex", "https://chatgpt.com/backend-api/codex/models", False),
])  # fmt: skip
def test_the_presets_of_openai_open_a_websocket_for_responses_alone(tmp_path, preset, url, opens):
    path = tmp_path / "k.yaml"
    path.write_text(f"version: 1\ntenants: {{ t: {{ rules: [ {{ use: {preset} }} ] }} }}\n")
    asked = ["explain", "-c", str(path), "--json", "-H", "upgrade: websocket", "-H", "connection: upgrade", url]
    done = subprocess.run([KEYHOLE, *asked], capture_output=True, text=True, timeout=20, check=False)
    said = json.loads(done.stdout)
    assert (said["decision"], said.get("reason")) == (("allow", "none") if opens else ("deny", "upgrade_unsupported")), said


def with_hosts(hosts, more=""):
    return with_credential("{ value: { env: C }, header: { x: \"{}\" }, hosts: [ %s ]%s }" % (hosts, more))


@pytest.mark.parametrize("host", [
    "\"*.s3.eu-west-1.amazonaws.com\"", "\"*.amazonaws.com\"", "\"*.blob.core.windows.net\"", "\"*.github.io\"",
    "\"*.storage.googleapis.com\"", "\"*.googleapis.com\"", "\"*.core.windows.net\"",
])  # fmt: skip
def test_a_credential_on_a_wildcard_of_a_shared_service_is_an_error(tmp_path, host):
    status, _, errors = check(tmp_path, with_hosts("a.example, " + host))
    assert status == 1 and "shared_host: accept" in errors, errors
    assert check(tmp_path, with_hosts("a.example, " + host, ", shared_host: accept"))[0] == 0
    assert check(tmp_path, with_hosts("a.example, " + host, ", shared_host: yes"))[0] == 1


@pytest.mark.parametrize("host", ["sqs.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com", "storage.googleapis.com",
                                  "eu-west-1.queue.amazonaws.com"])  # fmt: skip
def test_a_credential_at_a_shared_service_names_whose_part_it_is(tmp_path, host):
    rule = "{ allow: \"https://a.example/mine/x\", credential: c }"
    def text(more):
        return (f"version: 1\ncredentials: {{ c: {{ value: {{ env: C }}, header: {{ x: \"{{}}\" }}, "
                f"hosts: [ a.example, {host} ]{more} }} }}\ntenants: {{ t: {{ rules: [ {rule} ] }} }}\n")  # fmt: skip

    for more in ("", ", paths: [ /** ]", ", paths: [ /*/mine ]", ", paths: [ /mine/**, / ]", ", paths: [ \"/m*/x\" ]"):
        status, _, errors = check(tmp_path, text(more))
        assert status == 1 and "the first segment of the path says whose it is" in errors, (more, errors)
    for more in (", paths: [ /mine/** ]", ", paths: [ /mine/x, /111122223333/queue ]", ", shared_host: accept"):
        status, _, errors = check(tmp_path, text(more))
        assert "says whose it is" not in errors, (more, errors)


def test_hosts_of_ones_own_are_not_shared(tmp_path):
    for host in ("my-bucket.s3.eu-west-1.amazonaws.com", "\"*.example.com\"", "bedrock.us-east-1.amazonaws.com"):
        assert check(tmp_path, with_hosts("a.example, " + host))[0] == 0


EXACT_SHARED = [
    "s3-us-west-2.amazonaws.com", "s3-external-1.amazonaws.com", "s3-accelerate.amazonaws.com", "s3.amazonaws.com",
    "s3-fips.us-east-1.amazonaws.com", "s3-fips.dualstack.us-east-1.amazonaws.com", "s3.dualstack.us-east-1.amazonaws.com",
    "s3.us-east-1.api.aws", "s3.cn-north-1.amazonaws.com.cn", "bucket.vpce-1a2b-3c.s3.us-east-1.vpce.amazonaws.com",
    "sqs.us-east-1.api.aws", "sqs-fips.us-east-1.amazonaws.com", "vpce-1a2b-3c.sqs.us-east-1.vpce.amazonaws.com",
    "queue.amazonaws.com", "us-east-1.queue.amazonaws.com", "s3.wasabisys.com", "s3.eu-central-1.wasabisys.com",
    "s3.us-west-004.backblazeb2.com", "fra1.digitaloceanspaces.com", "cos.ap-guangzhou.myqcloud.com",
    "www.googleapis.com", "storage.mtls.googleapis.com", "storage.cloud.google.com", "github.io",
]  # fmt: skip


@pytest.mark.parametrize("host", EXACT_SHARED)
def test_a_host_of_many_owners_in_any_of_its_names_wants_a_path_or_a_word(tmp_path, host):
    status, _, errors = check(tmp_path, with_hosts("a.example, " + host))
    assert status == 1 and "shared_host: accept" in errors, errors
    assert check(tmp_path, with_hosts("a.example, " + host, ", shared_host: accept"))[0] == 0


@pytest.mark.parametrize("host", ["github.io", "netlify.app"])
def test_a_public_suffix_as_a_host_is_told_from_a_host_whose_path_names_the_owner(tmp_path, host):
    _, _, errors = check(tmp_path, with_hosts("a.example, " + host))
    assert f"{host} is a public suffix" in errors and f"name your own host, such as NAME.{host}" in errors, errors
    assert "says whose it is" not in errors, errors
    for instead in (f"a.example, own.{host}", f"a.example, {host}"):
        more = ", shared_host: accept" if instead.endswith(" " + host) else ""
        assert check(tmp_path, with_hosts(instead, more))[0] == 0


@pytest.mark.parametrize("name", [
    "s3-fips.us-east-1.amazonaws.com", "s3-accesspoint.us-east-1.amazonaws.com", "s3-us-west-2.amazonaws.com",
    "s3express-usw2-az1.us-west-2.amazonaws.com", "s3.us-east-1.vpce.amazonaws.com", "us-east-1.amazonaws.com",
    "blob.storage.azure.net", "z01.blob.storage.azure.net", "cognitiveservices.azure.com", "services.ai.azure.com",
    "azurecr.io", "search.windows.net", "documents.azure.com", "database.windows.net", "aliyuncs.com",
    "oss-cn-hangzhou.aliyuncs.com", "myqcloud.com", "backblazeb2.com", "wasabisys.com", "atlassian.net",
])  # fmt: skip
def test_a_wildcard_over_strangers_names_wants_a_word(tmp_path, name):
    status, _, errors = check(tmp_path, with_hosts(f"a.example, \"*.{name}\""))
    assert status == 1 and "shared_host: accept" in errors, errors
    assert check(tmp_path, with_hosts(f"a.example, \"*.{name}\"", ", shared_host: accept"))[0] == 0


@pytest.mark.parametrize("path, bound", [
    ("/mine/**", True), ("/storages/**", True), ("/upload/storage/v1/b/mine/**", True),
    ("/storage/v1/b/mine/o/*", True), ("/storage/v1/b/mine/o", True),
    ("/storage/**", False), ("/upload/**", False), ("/download/**", False), ("/batch/**", False),
    ("/resumable/**", False), ("/batch/storage/v1", False), ("/storage/v1/b", False), ("/storage/v1/b/*/o", False),
    ("/storage/*/b/mine/o", False), ("/upload/storage/v1/b/*/o", False), ("/upload/x/v1/b/mine/o", False),
    ("/storage/v1/b/mine/**", False), ("/storage/v1/b/mine/o/*/rewriteTo/b/*/o/*", False),
])  # fmt: skip
def test_a_path_of_googles_storage_names_a_bucket_and_no_part_of_the_api(tmp_path, path, bound):
    for host in ("storage.googleapis.com", "storage.mtls.googleapis.com", "www.googleapis.com"):
        status, _, errors = check(tmp_path, with_hosts(host, f", paths: [ {path} ]"))
        assert ("shared_host: accept" not in errors) == bound, (host, errors)


def test_names_of_ones_own_beside_strangers_are_not_shared(tmp_path):
    for host in ("mine.s3-fips.us-east-1.amazonaws.com", "mine.s3-us-west-2.amazonaws.com", "mine.azurecr.io",
                 "mine.atlassian.net", "mine.oss-cn-hangzhou.aliyuncs.com", "mine.s3.wasabisys.com",
                 "bedrock-runtime.us-east-1.amazonaws.com", "bedrock.us-east-1.api.aws", "s3.example.com",
                 "dashscope.aliyuncs.com", "\"*.dashscope.aliyuncs.com\"", "oauth2.googleapis.com",
                 "vertexai.googleapis.com"):  # fmt: skip
        status, _, errors = check(tmp_path, with_hosts("a.example, " + host))
        assert status == 0, (host, errors)


@pytest.mark.parametrize("name, warned", [("localhost", True), ("db.localhost", True), ("host.test", False)])
def test_a_pin_of_localhost_is_warned_of(tmp_path, name, warned):
    text = f'version: 1\nupstream: {{ resolve: {{ {name}: "127.0.0.1:8123" }} }}\ntenants: {{ t: {{ rules: [ {{ allow: "GET http://{name}/**" }} ] }} }}\n'
    status, _, said = check(tmp_path, text)
    assert status == 0 and (f'2:24: warning: resolve: in a sandbox "{name}" is the sandbox itself' in said) == warned, said


def test_go_modules_of_any_name_are_warned_about(tmp_path):
    status, _, errors = check(tmp_path, "version: 1\ntenants: { t: { rules: [ { use: go } ] } }\n")
    assert status == 0 and "allows any module" in errors
    text = "version: 1\ntenants: { t: { rules: [ { use: { go: { modules: [ golang.org/x ] } } } ] } }\n"
    assert check(tmp_path, text)[2] == ""


def with_source(source, more=""):
    return with_credential("{ value: { %s }, header: { x: \"{}\" }, hosts: [ a.example ]%s }" % (source, more))


@pytest.mark.parametrize("file", ["symbolic link", "dangling link", "hard link", "writable by others", "folder", "FIFO"])
def test_check_refuses_a_journal_that_the_daemon_would_refuse(tmp_path, file):
    text, journal, other = "version: 1\naudit: { file: j.jsonl }\n" + TENANT, tmp_path / "j.jsonl", tmp_path / "other"
    assert check(tmp_path, text)[0] == 0 and not journal.exists(), "check makes no journal"
    other.write_text("")
    other.chmod(0o600)
    make = {"symbolic link": lambda: journal.symlink_to(other), "dangling link": lambda: journal.symlink_to("nowhere"),
            "hard link": lambda: os.link(other, journal), "folder": journal.mkdir, "FIFO": lambda: os.mkfifo(journal),
            "writable by others": lambda: (journal.touch(), journal.chmod(0o622))}  # fmt: skip
    make[file]()
    status, out, errors = check(tmp_path, text)
    assert status == 1 and "error: audit.file: journal" in errors and "would not start" in errors, errors
    assert "ok" not in out and not (tmp_path / "nowhere").exists()
    # What the daemon says is the same.
    text += "authority: { certificate: c.pem, key: c.key }\nlisten: [ { unix: d/s } ]\n"
    (tmp_path / "k.yaml").write_text(text)
    subprocess.run([KEYHOLE, "ca", "init", "--cert", "c.pem", "--key", "c.key"], cwd=tmp_path, capture_output=True,
                   timeout=20, check=False)  # fmt: skip
    daemon = subprocess.run([KEYHOLE, "proxy", "-c", "k.yaml"], cwd=tmp_path, capture_output=True, timeout=20, check=False)
    why = re.search(r"audit\.file: (journal .*); the daemon", errors)[1]
    assert daemon.returncode != 0 and (file == "folder" or why in daemon.stderr.decode()), (why, daemon.stderr.decode())


def test_check_tells_root_of_a_journal_of_another_user(tmp_path):
    journal = tmp_path / "j.jsonl"
    journal.touch()
    os.chown(journal, 65534, 65534)
    journal.chmod(0o600)
    status, _, errors = check(tmp_path, "version: 1\naudit: { file: j.jsonl }\n" + TENANT)
    assert status == 0 and "warning: audit.file: journal" in errors and "belongs to uid 65534" in errors, errors
    journal.chmod(0o602)
    assert check(tmp_path, "version: 1\naudit: { file: j.jsonl }\n" + TENANT)[0] == 1


def test_check_warns_of_a_file_that_everybody_may_read(tmp_path):
    text = with_credential("{ value: { file: key }, header: { x: \"{}\" }, hosts: [ a.example ] }")
    key = tmp_path / "key"
    key.write_text("Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA")
    for mode, warned in ((0o600, False), (0o640, False), (0o644, True), (0o602, True)):
        key.chmod(mode)
        status, _, errors = check(tmp_path, text)
        words = f"warning: credentials.c: everybody on this host may use the file {key} (mode {mode:04o}; chmod 600 {key})"
        assert status == 0 and (words in errors) == warned and bool(errors) == warned, errors


def test_check_warns_of_a_value_that_cannot_be_used(tmp_path):
    (tmp_path / "short").write_text("hunter2\n")
    (tmp_path / "lines").write_text(KEY + "\n" + KEY + "\n")
    for name in ("short", "lines"):
        (tmp_path / name).chmod(0o600)
    for source, env, says in (
        ("env: SHORT", {"SHORT": "hunter2"}, "the variable SHORT has fewer than 8 bytes"),
        ("env: ABSENT", {}, "the variable ABSENT is not set"),
        ("env: EMPTY", {"EMPTY": ""}, "the variable EMPTY is empty"),
        ("file: short", {}, "short has fewer than 8 bytes"),
        ("file: lines", {}, "lines has more than one line"),
        ("file: absent", {}, "absent is not there"),
        ("file: .", {}, "is no file"),
    ):
        status, out, errors = check(tmp_path, with_source(source), env=env)
        assert status == 0 and ", 1 warning\n" in out, (source, out, errors)
        assert errors.startswith("k.yaml:2:16: warning: credential c: "), errors
        assert says in errors and "answered with 503" in errors and "hunter2" not in errors, errors
        assert "easy to guess" not in errors
    assert "easy to guess" in check(tmp_path, with_source("file: short", ", allow_short: true"))[2]
    assert check(tmp_path, with_source("env: C"))[2] == ""


def test_check_warns_of_a_command_whose_program_can_not_be_started(tmp_path):
    (tmp_path / "no-program").write_text("#!/bin/sh\n")
    (tmp_path / "no-program").chmod(0o644)
    for program, says in (
        ("no-such-program-here", "credential c: the program no-such-program-here is not there (PATH has none of this name"),
        (str(tmp_path / "absent"), "absent is not there (No such file or directory)"),
        ("./no-program/x", "x is not there (Not a directory)"),
        ("./no-program", "no-program may not be executed"),
        (str(tmp_path), "may not be executed"),
    ):
        status, out, errors = check(tmp_path, with_source(f"exec: [ \"{program}\", x ]"))
        assert status == 0 and ", 1 warning\n" in out, (program, out, errors)
        assert errors.startswith("k.yaml:2:16: warning: credential c: ") and says in errors and "answered with 503" in errors, errors
    (tmp_path / "no-program").chmod(0o755)
    for program in ("true", "/bin/sh", "./no-program"):
        assert check(tmp_path, with_source(f"exec: [ \"{program}\", x ]"))[2] == ""


def test_check_does_not_miss_a_value_where_another_will_do(tmp_path):
    text = ("version: 1\ncredentials:\n"
            "  a: { value: { env: A }, header: { x: \"{}\" }, hosts: [ a.example ] }\n"
            "  b: { value: { env: B }, header: { x: \"{}\" }, hosts: [ a.example ] }\n"
            "tenants: { t: { rules: [ { allow: \"https://a.example\", %s: [ a, b ] } ] } }\n")  # fmt: skip
    text_all = text.replace("header: { x: \"{}\" }, hosts: [ a.example ] }\ntenants",
                            "header: { y: \"{}\" }, hosts: [ a.example ] }\ntenants")  # fmt: skip
    assert check(tmp_path, text % "credential", env={"B": KEY})[2] == ""
    assert "the variable A is not set" in check(tmp_path, text_all % "credentials", env={"B": KEY})[2]
    errors = check(tmp_path, text % "credential")[2]
    assert "the variable A is not set" in errors and "the variable B is not set" in errors
    # What is there and no good is said in any case.
    assert "the variable A has fewer" in check(tmp_path, text % "credential", env={"A": "short", "B": KEY})[2]


@pytest.mark.parametrize("host, listed", [("*.s3.amazonaws.com", True), ("*.github.io", True),
                                          ("*.s3.eu-west-1.amazonaws.com", False)])  # fmt: skip
def test_a_wildcard_of_a_shared_service_says_what_it_needs(tmp_path, host, listed):
    def said(credential, rule):
        return check(tmp_path, f"version: 1\ncredentials: {{ c: {{ value: {{ env: C }}, header: {{ x: \"{{}}\" }}, "
                     f"hosts: [ \"{host}\" ]{credential} }} }}\n"
                     f"tenants: {{ t: {{ rules: [ {{ allow: \"https://{host}\", credential: c{rule} }} ] }} }}\n")  # fmt: skip

    accept, allow = ", shared_host: accept", ", public_suffix: allow"
    assert (said(accept, "")[0], said(accept, allow)[0]) == ((1, 0) if listed else (0, 1))
    errors = said("", "")[2]
    assert "shared_host: accept here" in errors
    assert ("and public_suffix: allow at a rule with that wildcard" in errors) == listed
    if not listed:
        assert "take it away" in said(accept, allow)[2]
