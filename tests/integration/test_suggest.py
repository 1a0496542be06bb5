"""`keyhole suggest`: what it prints is a configuration that allows what it says, and nothing that nobody asked for."""

import json
import os
import random
import re
import resource
import subprocess

import pytest
from common import KEYHOLE, ROOT, without_values
from journals import Journal

WRITER = os.path.join(os.path.dirname(KEYHOLE), "bench", "journal")


def suggest(*words, stdin=None):
    return subprocess.run([KEYHOLE, "suggest", *map(str, words)], input=stdin, capture_output=True, text=True, timeout=120,
                          check=False)  # fmt: skip


def check(tmp_path, text):
    path = tmp_path / "suggested.yaml"
    path.write_text(text)
    done = subprocess.run([KEYHOLE, "check", "-c", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + text
    return str(path), without_values(done.stderr)


def allows(config, tenant, method, url):
    done = subprocess.run([KEYHOLE, "explain", "-c", config, "--tenant", tenant, "--json", method, url], capture_output=True,
                          text=True, timeout=30, check=False)  # fmt: skip
    return json.loads(done.stdout)["decision"] == "allow"


def rules(text):
    return re.findall(r'^ +- allow: "(.*)"$', text, re.M)


def presets(text):
    return re.findall(r"^ +- use: (?:\{ )?([\w-]+)", text, re.M)


def uses(text):
    return re.findall(r"^ +- use: (.*)$", text, re.M)


def comments(text):
    return "\n".join(line for line in text.splitlines() if line.lstrip().startswith("#"))


def of(tmp_path, journal, *options):
    done = suggest(*options, journal.write(tmp_path / "audit.jsonl"))
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_what_was_refused_is_allowed_under_what_is_suggested(tmp_path):
    requests = [("GET", "https://api.example.com/v1/users/1"), ("GET", "https://api.example.com/v1/users/2"),
                ("POST", "https://api.example.com/v1/users"), ("GET", "http://plain.example:8080/x/"),
                ("GET", "https://registry.npmjs.org/left-pad"), ("GET", "https://registry.npmjs.org/@a%2fb"),
                ("GET", "https://pypi.org/simple/requests/"), ("PROPFIND", "https://dav.example/%7Euser/a'b")]  # fmt: skip
    journal = Journal()
    for method, url in requests:
        journal.request(method, url, reason="no_rule")
    text, errors = of(tmp_path, journal)
    config, warnings = check(tmp_path, text)
    assert (errors, warnings) == ("", "")
    assert all(allows(config, "acme", *request) for request in requests)
    assert presets(text) == ["npm", "pypi"]
    assert rules(text) == ["GET http://plain.example:8080/x/", "POST https://api.example.com/v1/users",
                           "GET https://api.example.com/v1/users/*", "PROPFIND https://dav.example/~user/a'b"]  # fmt: skip
    for method, url in [("DELETE", "https://api.example.com/v1/users/1"), ("GET", "https://api.example.com/v1/users/1/keys"),
                        ("GET", "https://api.example.com/"), ("GET", "https://www.example.com/v1/users/1"),
                        ("GET", "http://api.example.com/v1/users/1"), ("PUT", "https://registry.npmjs.org/left-pad")]:  # fmt: skip
        assert not allows(config, "acme", method, url)


def test_one_request_is_told_as_one(tmp_path):
    text, _ = of(tmp_path, Journal().request(url="https://api.example.com/v1/x", reason="no_rule"))
    assert "# 1 request was read, 1 of them refused.\n" in text


def test_a_comment_says_how_many_requests_each_covers(tmp_path):
    journal = Journal()
    for i in range(7):
        journal.request("GET", f"https://api.example.com/v1/users/{i}", reason="no_rule" if i < 3 else None)
        journal.request("GET", f"https://registry.npmjs.org/p{i}", reason="no_rule" if i < 2 else None)
    journal.request("GET", "https://api.example.com/v1/users/me", credential="k")
    text, _ = of(tmp_path, journal)
    assert re.search(r"# 7 requests \(2 refused\), such as GET https://registry\.npmjs\.org/p0\n +- use: npm\n", text)
    # "me" is no identifier; the pattern that is there anyway covers it.
    assert re.search(r"# 8 requests \(3 refused\), such as GET https://api\.example\.com/v1/users/0\n"
                     r" +# A credential was injected into 1 of them\. This rule injects none\.\n"
                     r' +- allow: "GET https://api\.example\.com/v1/users/\*"\n', text)  # fmt: skip
    assert rules(text) == ["GET https://api.example.com/v1/users/*"]
    assert "# 15 requests were read, 5 of them refused." in text
    assert not re.search(r"^[^#]*credential", text, re.M)


CLOSED = ["address_prohibited", "geo_prohibited", "exfiltration", "client_auth", "malformed_request", "denied_by_rule",
          "credential_binding", "credential_place", "placeholder_missing", "sandbox_held", "request_too_complex",
          "model_unreadable", "authority_mismatch", "upgrade_unsupported", "proxy_auth", "tunnel_only", "head_too_large",
          "protocol_unknown", "a_reason_of_tomorrow"]  # fmt: skip


@pytest.mark.parametrize("late", [False, True])
def test_what_was_refused_for_another_reason_is_listed_and_not_opened(tmp_path, late):
    journal = Journal()
    for reason in CLOSED:
        journal.request("GET", f"https://{reason.replace('_', '-')}.example/x", reason=reason, late=late)
    for reason in CLOSED:
        journal.request("GET", f"https://{reason.replace('_', '-')}.observed.example/x", would_deny=reason)
    text, _ = of(tmp_path, journal)
    config, _ = check(tmp_path, text)
    assert rules(text) == presets(text) == []
    for reason in CLOSED:
        assert f"#   1 x GET https://{reason.replace('_', '-')}.example/x" in text
        assert f"#   1 x GET https://{reason.replace('_', '-')}.observed.example/x" in text
    assert config


def test_what_failed_for_another_cause_than_the_rules_is_allowed(tmp_path):
    journal = Journal()
    for n, reason in enumerate(["connection_refused", "dns_error", "limit", "limit_spent", "credential_unavailable", "aborted"]):
        journal.request("GET", f"https://h.example/{reason}", reason=reason, late=n % 2 == 0, status=502)
    journal.request("GET", "https://h.example/again", reason="decided_anew", late=True)
    text, _ = of(tmp_path, journal)
    assert len(rules(text)) == 6
    assert "again" not in text


def test_an_address_that_the_guard_refuses_is_not_opened(tmp_path):
    journal = Journal()
    for host in ["127.0.0.1:8080", "10.1.2.3", "[::1]", "[2001:db8::7]", "localhost"]:
        journal.request(url=f"http://{host}/x", reason="no_rule")
    journal.request(url="http://10.9.9.9/x").request(url="http://8.8.8.8/8", reason="no_rule").request(url="http://[2606:4700::1]/8", reason="no_rule")
    text, _ = of(tmp_path, journal)
    check(tmp_path, text)
    # To the one that was forwarded the operator had opened the way.
    assert rules(text) == ["GET http://[10.9.9.9]/x", "GET http://[2606:4700::1]/8", "GET http://[8.8.8.8]/8"]
    for address, class_name in (("127.0.0.1", "loopback"), ("10.1.2.3", "private"), ("::1", "loopback"), ("2001:db8::7", "documentation")):
        assert (f"#     the address guard keeps sandboxes from {address} ({class_name}). To open it, add a rule for the place, and\n"
                f'#     upstream: {{ allow_addresses: [ "{address}/{128 if ":" in address else 32}" ] }}\n') in text  # fmt: skip
    assert text.count("allow_addresses: [") == 5  # localhost has that of 127.0.0.1
    assert "such as GET http://[2606:4700::1]/8\n" in text


def test_the_address_that_a_refused_name_led_to_is_shown_with_words_that_open_it(tmp_path):
    journal = Journal()
    detail = "db.example: 10.7.7.7:443 is a private address, to which no sandbox is connected"
    journal.request(url="https://db.example/x", reason="address_prohibited", late=True, close={"detail": detail})
    journal.request(url="https://dc.example/x", reason="address_prohibited", late=True, close={"detail": "no words that are known"})
    text, _ = of(tmp_path, journal)
    assert rules(text) == [] and '#     upstream: { allow_addresses: [ "10.7.7.7/32" ] }\n' in text
    assert "the address guard keeps sandboxes from such addresses (see upstream.allow_addresses)" in text
    words = re.findall(r"^#     (upstream: .*)$", text, re.M)
    check(tmp_path, f"version: 1\n{words[0]}\ntenants: {{ acme: {{ rules: [] }} }}\n")


def test_what_was_only_observed_is_counted_apart_from_what_was_refused(tmp_path):
    journal = Journal()
    for i in range(1, 4):
        journal.request(url=f"https://h.example/users/{i}", would_deny="no_rule")
    journal.request(url="https://h.example/users/4", reason="no_rule").request(url="https://h.example/users/5")
    journal.request(url="https://registry.npmjs.org/left-pad", would_deny="no_rule")
    journal.request(url="https://late.example/x", close={"would_deny": "denied_by_rule"})
    text, _ = of(tmp_path, journal)
    assert "# 7 requests were read, 1 of them refused, 5 only observed (not refused).\n" in text
    assert "      # 5 requests (1 refused, 3 only observed), such as GET https://h.example/users/1\n" in text
    assert "      # 1 request (1 only observed), such as GET https://registry.npmjs.org/left-pad\n" in text
    check(tmp_path, text)


@pytest.mark.parametrize("reason, host", [
    *[(reason, host) for reason in ("no_rule", "address_prohibited") for host in ("169.254.169.254", "[fd00:ec2::254]", "metadata.goog")],
    ("address_prohibited", "rebound.example"),
])  # fmt: skip
def test_a_metadata_service_is_named_as_run_names_it(tmp_path, reason, host):
    journal = Journal()
    detail = f"{host}: 169.254.169.254:80 is a metadata address"
    journal.request(url=f"http://{host}/x", reason=reason, late=reason != "no_rule", close={"detail": detail})
    text, _ = of(tmp_path, journal)
    assert rules(text) == []
    assert "# it is the metadata service of a cloud, which gives out keys of this machine. No option opens it" in " ".join(text.split())
    assert "allow_addresses" not in text


def test_what_the_site_or_a_narrowing_does_not_allow_is_not_opened_at_the_tenant(tmp_path):
    journal = Journal()
    journal.request(url="https://a.example/x", reason="no_rule", denied_by="site")
    journal.request(url="https://b.example/x", reason="no_rule", denied_by="sandbox")
    journal.request(url="https://c.example/x", reason="no_rule", denied_by="tenant")
    text, _ = of(tmp_path, journal)
    assert rules(text) == ["GET https://c.example/x"]
    assert text.count("the rules of the site, or of its sandbox alone, do not allow it") == 2


def test_a_tunnel_that_nobody_read_opens_no_host(tmp_path):
    journal = Journal()
    journal.request("CONNECT", "https://a.example", tunnel="passthrough")
    journal.request("CONNECT", "tcp://b.example:22", tunnel="tcp")
    journal.request("CONNECT", "https://c.example:443", reason="no_rule")
    text, _ = of(tmp_path, journal)
    check(tmp_path, text)
    assert rules(text) == [] and "tenants:" not in text
    assert "b.example:22" in comments(text)


def test_what_a_suggested_preset_denies_is_not_opened_beside_it(tmp_path):
    journal = Journal()
    journal.request("POST", "https://github.com/a/b.git/git-upload-pack", reason="no_rule")
    journal.request("POST", "https://github.com/a/b.git/git-receive-pack", reason="no_rule")
    journal.request("PUT", "https://registry.npmjs.org/left-pad", reason="no_rule")
    text, _ = of(tmp_path, journal)
    config, _ = check(tmp_path, text)
    assert "github" in presets(text)
    assert not allows(config, "acme", "POST", "https://github.com/a/b.git/git-receive-pack")
    assert re.search(r"git-receive-pack\n#     the preset github denies it", text)
    # A publication: nobody should take it for a download because the host is known.
    assert re.search(r"# The preset npm is for this host, and does not allow it\.\n +- allow: \"PUT ", text)


def test_a_preset_is_narrowed_to_what_was_asked_for(tmp_path):
    journal, read = Journal(), "https://github.com/{}.git/git-upload-pack"
    for repository in ("org/app", "org/lib", "org/app"):
        journal.request("POST", read.format(repository), reason="no_rule")
        journal.request("GET", f"https://github.com/{repository}.git/info/refs", query=["service"], reason="no_rule")
    journal.request("GET", "https://raw.githubusercontent.com/org/app/main/x", reason="no_rule")
    journal.request("GET", "https://api.github.com/repos/org/app/issues", reason="no_rule")
    # It is of no repository.
    journal.request("GET", "https://objects.githubusercontent.com/github-production/x", reason="no_rule")
    journal.request("GET", "https://proxy.golang.org/golang.org/x/text/@v/list", reason="no_rule")
    journal.request("POST", "https://gitlab.com/a/b/c.git/git-upload-pack", reason="no_rule", tenant="other")
    text, _ = of(tmp_path, journal)
    config, _ = check(tmp_path, text)
    assert sorted(uses(text)) == [
        '{ github: { repos: [ "org/app", "org/lib" ] } }', '{ gitlab: { projects: [ "a/b/c" ] } }', '{ go: { modules: [ "golang.org/x" ] } }',
    ]  # fmt: skip
    assert allows(config, "acme", "POST", read.format("org/app")) and allows(config, "other", "POST", "https://gitlab.com/a/b/c.git/git-upload-pack")
    for url in (read.format("org/other"), read.format("evil/app"), "https://gitlab.com/a/b/c.git/git-upload-pack"):
        assert not allows(config, "acme", "POST", url)


def test_of_too_many_repositories_and_of_a_strange_one_any_is_opened_and_it_says_so(tmp_path):
    for names in ([f"org/app{i}" for i in range(9)], ["org/app", "org/%41,repos=x"], ["org/app", "org/a%20b"]):
        journal = Journal()
        for name in names:
            journal.request("POST", f"https://github.com/{name}.git/git-upload-pack", reason="no_rule")
        text, _ = of(tmp_path, journal)
        check(tmp_path, text)
        assert uses(text) == ["github"] and "# It opens any: say which are needed, as in - use: { github: { repos: [ NAME ] } }\n" in text


def test_a_parameter_that_would_allow_a_request_is_named_and_not_set(tmp_path):
    journal = Journal()
    journal.request("POST", "https://github.com/a/b.git/git-upload-pack", reason="no_rule")
    journal.request("POST", "https://github.com/a/b.git/git-receive-pack", reason="no_rule")
    journal.request("POST", "https://api.github.com/repos/a/b/issues", reason="no_rule")
    text, _ = of(tmp_path, journal)
    config, _ = check(tmp_path, text)
    assert uses(text) == ['{ github: { repos: [ "a/b" ] } }']
    assert "#     the preset github denies it. If it is meant: - use: { github: { push: true } }\n" in text
    assert re.search(r'# A parameter of it opens this, or a part of it: - use: \{ github: \{ api_write: true \} \}\n +- allow: "POST https://api', text)
    assert not allows(config, "acme", "POST", "https://github.com/a/b.git/git-receive-pack")


def test_presets_that_contradict_each_other_say_so(tmp_path):
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "a.yaml").write_text('description: d\nrules:\n  - deny: "https://h.example/x"\n  - allow: "GET https://h.example/y"\n')
    (folder / "b.yaml").write_text('description: d\nrules:\n  - allow: "GET https://h.example/x"\n')
    journal = Journal().request(url="https://h.example/x").request(url="https://h.example/y").write(tmp_path / "audit.jsonl")
    done = subprocess.run([KEYHOLE, "suggest", journal], capture_output=True, text=True, timeout=30, check=True,
                          env={**os.environ, "KEYHOLE_PRESETS": str(folder)})  # fmt: skip
    assert presets(done.stdout) == ["a", "b"]
    assert "# It denies 1 requests that another preset here allows: the upper one decides.\n      - use: a\n" in done.stdout
    assert done.stdout.count("It denies") == 1


def test_a_preset_that_depends_on_what_is_not_recorded_says_so(tmp_path):
    journal = Journal()
    journal.request("GET", "https://github.com/a/b.git/info/refs", query=["service"], reason="no_rule")
    text, _ = of(tmp_path, journal)
    check(tmp_path, text)
    assert (presets(text), rules(text)) == (["github"], [])
    assert "# For 1 of them it depends on values that a journal does not record." in text


def test_tenants_and_sandboxes_are_told_apart(tmp_path):
    journal = Journal()
    journal.request(url="https://a.example/x", tenant="a", sandbox="a1", reason="no_rule")
    journal.request(url="https://b.example/x", tenant="b", sandbox="b1", reason="no_rule")
    journal.request(url="https://b.example/y", tenant="b", sandbox="b2", reason="no_rule")
    text, _ = of(tmp_path, journal)
    config, _ = check(tmp_path, text)
    assert allows(config, "a", "GET", "https://a.example/x") and allows(config, "b", "GET", "https://b.example/x")
    assert not allows(config, "a", "GET", "https://b.example/x") and not allows(config, "b", "GET", "https://a.example/x")
    assert rules(of(tmp_path, journal, "--tenant", "b")[0]) == ["GET https://b.example/x", "GET https://b.example/y"]
    assert rules(of(tmp_path, journal, "--sandbox", "b2")[0]) == ["GET https://b.example/y"]
    assert rules(of(tmp_path, journal, "--tenant", "a", "--sandbox", "b2")[0]) == []


def test_several_journals_are_one_and_a_stream_is_one(tmp_path):
    one = Journal().request(url="https://h.example/v/1").request(url="https://h.example/v/x").write(tmp_path / "1")
    two = Journal().request(url="https://h.example/v/2").write(tmp_path / "2")
    assert rules(suggest(one, two).stdout) == ["GET https://h.example/v/*"]
    with open(one, encoding="utf-8") as file:
        assert rules(suggest("-", stdin=file.read()).stdout) == ["GET https://h.example/v/1", "GET https://h.example/v/x"]


# ---- hostile text ----

PATHS = ["/**", "/*", "/a/**/b", "/***", "/%2A%2A", "/a*b", "/..", "/%2e%2e/x", "//", "/a//b", "/x?y", "/x#y", "/x y", "/\n- use: github\n",
         "/\"]}", "/\\", "/'", "/: ", "/ #", "/\x1b[2J", "/\u202e", "/\u00e9", "/%00", "/{a: b}", "/[x]", "/&a", "/!!python", "/|", "/>-",
         "/%0a", "/(hidden)", "*", "", "x", "/" + "a" * 1024, "/" + "1" * 1000, "/-/\u2028", "/%", "/%zz", "/~", "/@;=+$,'()!"]  # fmt: skip
HOSTS = ["**", "*.example.com", "[0.0.0.0/0]", "h.example/x", "h.example#", "u@h.example", "h.example:1:2", "\n", "\"", "(hidden)", "",
         "keyhole.internal", "a" * 300, "-a", "a..b", "\u0430.example", "127.1", "h.example ", "*", "\x00"]  # fmt: skip
METHODS = ["*", "GET,POST", "", "get", "GET ", "G\nT", "\"", "CONNECT", "TRACE", "M" * 64, "(hidden)", "GET https://**/x?", "\u202e", "DÉL"]
TENANTS = ["a\n  b: {}", "", "\"", "x" * 65, "*", "&x", "~", "null", "1", "a b", "\x1b[31m", "-", "\u202e", "0x1"]
SCHEMES = ["tcp", "ftp", "", "HTTPS", "https://evil.example/", "h\n"]


def hostile_journal():
    """Each value in its place, beside a request that is fine."""
    journal = Journal()
    plain = {"http.request.method": "GET", "url.scheme": "https", "server.address": "h.example", "server.port": 443,
             "url.path": "/fine", "tenant": "acme", "sandbox": "s1"}  # fmt: skip

    def put(**changes):
        journal.ids += 1
        fields = plain | {key.replace("__", "."): value for key, value in changes.items()}
        fields |= {"http.response.status_code": 403, "reason": "no_rule"}
        journal.record("deny", fields, journal.ids)

    put()
    for path in PATHS:
        put(url__path=path)
    for host in HOSTS:
        put(server__address=host)
    for method in METHODS:
        put(http__request__method=method)
    for tenant in TENANTS:
        put(tenant=tenant)
    for scheme in SCHEMES:
        put(url__scheme=scheme)
    for port in [0, -1, 65536, 1 << 53, "443", None, 1.5, [], {}]:
        put(server__port=port)
    for names in [["a\nb"], ["_method"], ["\x1b"], [1, None], ["x" * 64] * 32, {}, "x", ["access_token"], ["a&b=c"], ["\u202e"]]:
        put(url__query__names=names)
    put(url__path_bytes=5000)
    for key in plain:
        put(**{key.replace(".", "__"): ["- use: github"]})
    for text in ["\n- use: github\n", "\"}\n", "\x1b[2J", "\u202e", "{ credential: a }", "#\n\t"]:
        put(rule=text, credential=text, detail=text, stripped=text, sandbox=text, gen_ai__request__model=text)
        put(reason=text)
    return journal


def test_hostile_text_makes_no_rule_but_its_own_and_leaves_the_terminal_alone(tmp_path):
    text, _ = of(tmp_path, hostile_journal())
    check(tmp_path, text)
    assert re.fullmatch(r"[ -~\n]*", text)
    # Nothing but what the structure has, in each line.
    known = (r"#.*|version: 1|tenants:|  \"[A-Za-z0-9._-]+\":|    rules:|      #.*|      - use: [a-z-]+"
             r"|      - allow: \"[A-Z_-]+(,[A-Z_-]+)* https?://[a-z0-9.-]+(:\d+)?/[^\"\\ ]*\"|")  # fmt: skip
    for line in text.splitlines():
        assert re.fullmatch(known, line), line
    for rule in rules(text):
        assert "**" not in rule and re.search(r"^[A-Z,_-]+ https?://[a-z0-9.-]+(:\d+)?/", rule), rule
        assert "*" not in rule.split("/", 3)[2], rule
    assert presets(text) == []
    # No other request keeps the one that is fine from having its rule.
    assert "GET,TRACE https://h.example/fine" in rules(of(tmp_path, hostile_journal(), "--tenant", "acme")[0])
    # An asterisk of a path is never a rule's.
    assert not any("*" in rule for rule in rules(text) if not re.search(r"/\*(/|$)", rule))


def test_random_requests_come_back_allowed(tmp_path):
    seeded = random.Random(7)
    segments = ["users", "v1", "42", "7", "deadbeef01", "2026-01-31", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "a.b", "~x", "a:b", "a,b", "%41"]
    asked, journal = [], Journal()
    for _ in range(150):
        method = seeded.choice(["GET", "POST", "DELETE", "M-SEARCH"])
        url = (seeded.choice(["https://h.example", "http://h.example:8080", "https://i.example", "https://8.8.8.8"]) + "/" +
               "/".join(seeded.choices(segments, k=seeded.randrange(4))))  # fmt: skip
        asked.append((method, url))
        journal.request(method, url, reason="no_rule")
    text, _ = of(tmp_path, journal)
    config, _ = check(tmp_path, text)
    batch = "".join(json.dumps({"method": method, "url": url, "tenant": "acme"}) + "\n" for method, url in asked)
    done = subprocess.run([KEYHOLE, "explain", "-c", config, "--batch"], input=batch, capture_output=True, text=True, timeout=60,
                          check=True)  # fmt: skip
    answers = [json.loads(line)["decision"] for line in done.stdout.splitlines()]
    assert answers == ["allow"] * len(asked)
    assert not comments(text).count("No rule is suggested")


def test_known_telemetry_is_counted_apart_and_has_no_rule(tmp_path):
    """Refused, and let through by observing."""
    journal = Journal().request(url="https://h.example/x", reason="no_rule")
    journal.request("POST", "https://api.anthropic.com/api/event_logging/v2/batch", reason="no_rule")
    journal.request("POST", "https://api.anthropic.com/api/event_logging/v2/batch", reason="no_rule")
    journal.request("POST", "https://play.googleapis.com/log", would_deny="no_rule")
    text, _ = of(tmp_path, journal)
    check(tmp_path, text)
    assert rules(text) == ["GET https://h.example/x"] and presets(text) == []
    assert "# 4 requests were read, 3 of them refused, 1 only observed (not refused).\n# 3 of them are known telemetry of agents, and have no rule.\n" in text
    assert "#   2 x POST https://api.anthropic.com/api/event_logging/v2/batch\n#     known telemetry of Claude Code, which works without it" in text
    assert "#   1 x POST https://play.googleapis.com/log\n#     known telemetry of Gemini CLI" in text


# ---- journals that are not whole ----


def test_records_that_do_not_continue_the_chain_open_nothing(tmp_path):
    journal = Journal().request(url="https://h.example/before")
    forged = Journal().request(url="https://evil.example/x").lines()[1:]
    path = journal.write(tmp_path / "audit.jsonl", journal.lines() + forged)
    done = suggest(path)
    assert (done.returncode, rules(done.stdout)) == (0, ["GET https://h.example/before"])
    assert "evil" not in done.stdout
    assert re.search(r"keyhole: suggest: \S+: 2 records from line 4 on are left out: they do not continue the chain", done.stderr)
    assert "# 1 requests are left out: their records do not continue the journal's chain." in done.stdout
    check(tmp_path, done.stdout)


def test_a_request_whose_end_does_not_continue_the_chain_opens_nothing(tmp_path):
    """Its true end may say that an address was refused."""
    journal = Journal().request(url="https://h.example/x")
    lines = journal.lines()
    changed = lines[2].replace('"http.response.status_code":200', '"http.response.status_code":201')
    done = suggest(journal.write(tmp_path / "audit.jsonl", [*lines[:2], changed]))
    assert done.returncode == 0 and rules(done.stdout) == []
    assert "1 requests are left out" in done.stdout


def test_a_torn_line_is_left_out_and_said(tmp_path):
    journal = Journal().request(url="https://h.example/x").request(url="https://torn.example/x", reason="no_rule")
    lines = journal.lines()
    done = suggest(journal.write(tmp_path / "audit.jsonl", [*lines[:-1], lines[-1][:-30]]))
    assert (done.returncode, rules(done.stdout)) == (0, ["GET https://h.example/x"])
    assert "1 lines are no records" in done.stderr


def test_what_is_no_journal_says_so_and_an_unreadable_one_prints_nothing(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"\x00\xff" * 5000 + b"\n{}\n[]\n")
    done = suggest(path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"keyhole: suggest: {path}: this is no journal of keyhole: none of its 3 lines is a record\n"
    good = Journal().request().write(tmp_path / "good")
    for words in [[good, path], [good, tmp_path / "none"], [tmp_path], ["/dev/null"]]:
        done = suggest(*words)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("keyhole: suggest: ")


def test_without_a_journal_it_is_the_newest_one_of_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = suggest()
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`keyhole run` has left none in {tmp_path}/keyhole/audit" in done.stderr
    folder = tmp_path / "keyhole" / "audit"
    folder.mkdir(parents=True)
    for name, at in (("b.jsonl", 2000), ("a.jsonl", 3000), ("c.jsonl", 1000), ("d.jsonl.lock", 4000)):
        Journal().request(url=f"https://{name[0]}.example/x", reason="no_rule").write(folder / name)
        os.utime(folder / name, (at, at))
    (folder / "e.jsonl").symlink_to("/dev/null")
    done = suggest()
    assert (done.returncode, rules(done.stdout)) == (0, ["GET https://a.example/x"])
    assert done.stderr == f"keyhole: suggest: the newest journal of `keyhole run`: {folder}/a.jsonl\n"


def test_a_tenant_that_no_request_has_is_said(tmp_path):
    done = suggest("--tenant", "nobody", Journal().request().write(tmp_path / "audit.jsonl"))
    assert done.returncode == 0 and "no request has the tenant nobody" in done.stderr


def test_refusals_that_were_only_counted_are_said(tmp_path):
    journal = Journal()
    journal.record("denials", {"count": 41, "since": "2026-01-31T12:00:00.000Z", "until": "2026-01-31T12:00:00.000Z",
                               "tenant": "acme", "sandbox": "s1", "reasons": "no_rule 41"})  # fmt: skip
    text, _ = of(tmp_path, journal)
    check(tmp_path, text)
    assert "# 41 more refusals were only counted: nobody knows of which requests." in text


def test_paths_without_end_take_bounded_memory_and_it_says_where_it_stopped(tmp_path):
    journal = Journal()
    for i in range(9000):
        journal.request("GET", f"https://h.example/p{i}/" + "a" * 900, reason="no_rule")
    path = journal.write(tmp_path / "audit.jsonl")

    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    done = subprocess.run([KEYHOLE, "suggest", path], capture_output=True, text=True, timeout=120, check=False, preexec_fn=bound)
    assert done.returncode == 0, done.stderr
    assert len(rules(done.stdout)) == 4096
    assert re.search(r"suggest: 4904 requests are left out: the journals have more than 4096 kinds", done.stderr)
    assert "# 4904 requests are left out: there are more than 4096 kinds of them." in done.stdout
    check(tmp_path, done.stdout)


@pytest.mark.skipif(not os.path.exists(WRITER), reason="make bench-tools builds the writer")
def test_a_long_journal_of_the_worker_takes_the_memory_of_a_short_one(tmp_path):
    path = str(tmp_path / "audit.jsonl")
    subprocess.run([WRITER, path, "4", "10000", "50"], check=True, capture_output=True, timeout=60)

    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))

    done = subprocess.run([KEYHOLE, "suggest", path], capture_output=True, text=True, timeout=120, check=False, preexec_fn=bound)
    assert (done.returncode, done.stderr) == (0, "")
    assert "# 40000 requests were read, 4 of them refused." in done.stdout
    # `?key` is a credential's place, but keyhole removed it and put its own in.
    assert rules(done.stdout) == ["POST https://api.example.com/v1/messages"]


def test_the_result_ends_with_the_next_step(tmp_path):
    text, _ = of(tmp_path, Journal().request(reason="no_rule"))
    path, _ = check(tmp_path, text)
    words = re.findall(r"^#   keyhole (\w+(?: \w+)?) ", text[text.index("# Next: ") :], re.M)
    assert words == ["check", "run", "trust", "policy diff"]
    for word in words:
        assert subprocess.run([KEYHOLE, *word.split(), "--help"], capture_output=True, timeout=20, check=False).returncode == 0
    # With nothing to be allowed, and with nothing at all.
    text, _ = of(tmp_path, Journal().request("CONNECT", "tcp://b.example:22", tunnel="tcp"))
    assert text.endswith("\n# Next: no rule would help. What the requests were: keyhole audit show JOURNAL\n")
    assert path and "# Next" not in suggest("-", stdin="").stdout


def test_the_page_of_rules_shows_what_suggest_prints(tmp_path):
    with open(os.path.join(ROOT, "docs", "policy.md"), encoding="utf-8") as file:
        shown = re.search(r"^\$ keyhole suggest audit\.jsonl\n(.*?)^```", file.read(), re.M | re.S)[1]
    journal = Journal()
    for i in range(1, 10):
        journal.request(url=f"https://api.example.com/v1/users/{i}")
    journal.request(url="https://registry.npmjs.org/left-pad", reason="no_rule").request(url="https://registry.npmjs.org/x", reason="no_rule")
    journal.request("PUT", "https://registry.npmjs.org/left-pad", reason="no_rule")
    journal.request(url="http://169.254.169.254/latest/meta-data", reason="address_prohibited", late=True)
    assert of(tmp_path, journal)[0] == shown


def test_a_daemon_that_refused_requests_allows_them_under_what_is_suggested(daemon, curl, tmp_path):
    """From the outside: a real journal, its suggestions in a real daemon, and what they leave closed."""
    asked = [("GET", "https://open.test/v1/users/1?page=2"), ("GET", "https://open.test/v1/users/2"), ("DELETE", "https://open.test/v1/users/2")]
    first = daemon({"tenants": {"acme": {"rules": []}}})

    def status(running, method, url, *more):
        done = curl(running, "-o", str(tmp_path / "answer"), "-w", "%{http_code}", "-X", method, *more, url)
        return int(done.stdout)

    assert [status(first, *one) for one in asked] == [403] * 3
    assert status(first, "GET", "https://169.254.169.254/x") == 403
    assert status(first, "GET", "https://open.test/a/../b", "--path-as-is") == 400
    done = suggest(first.journal_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert rules(done.stdout) == ["GET https://open.test/v1/users/*", "DELETE https://open.test/v1/users/2"]
    check(tmp_path, done.stdout)
    second = daemon({"tenants": {"acme": {"rules": [{"allow": rule} for rule in rules(done.stdout)]}}})
    assert [status(second, *one) for one in asked] == [401] * 3  # the upstream's answer to who has no key
    assert status(second, "DELETE", "https://open.test/v1/users/1") == 403
    assert status(second, "GET", "https://open.test/") == 403
    compared = subprocess.run([KEYHOLE, "policy", "diff", first.config_path, second.config_path, "--journal", first.journal_path],
                              capture_output=True, text=True, timeout=30, check=False)  # fmt: skip
    assert compared.returncode == 1 and "3 now allowed, 0 by another rule, 0 undecided" in compared.stdout, compared.stdout + compared.stderr
