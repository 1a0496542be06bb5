"""Random rules and requests: keyhole and a slow, obvious matcher come to the same decision.

The matcher here knows nothing of keyhole's: regular expressions over whole strings, urllib for queries,
ipaddress for ranges, and a list that is read from top to bottom.
"""

import ipaddress
import json
import re
import subprocess
import tempfile
import urllib.parse

import pytest
from common import KEYHOLE

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

LABELS = ["a", "b", "www", "xn--p1ai", "long-label-of-more-than-eighteen"]
names = st.lists(st.sampled_from(LABELS), min_size=1, max_size=3).map(lambda ls: ".".join([*ls, "example", "com"]))
addresses = st.sampled_from(["10.0.0.1", "10.1.2.3", "192.168.0.1", "8.8.8.8"])
addresses6 = st.sampled_from(["fd00::1", "fd01::1", "2606:4700::1111"])
ranges = st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "8.8.8.8/32"])
ranges6 = st.sampled_from(["fd00::/8", "fd00::/16", "::/0"])
hosts = st.one_of(names, addresses, addresses6.map(lambda a: f"[{a}]"))
patterns = st.one_of(
    names, names.map(lambda n: "*." + n), st.just("*.example.com"), st.just("**"), addresses,
    st.one_of(ranges, ranges6, addresses6).map(lambda r: f"[{r}]"),
)  # fmt: skip
segments = st.text("abA-", min_size=1, max_size=3)
paths = st.lists(segments, max_size=4).map(lambda s: "/" + "/".join(s))
slashed = st.tuples(paths, st.booleans()).map(lambda p: p[0].replace("/", "%2F", 1)[::-1].replace(
    "F2%", "/", 1)[::-1] if p[1] and p[0].count("/") > 1 else p[0])  # fmt: skip
path_patterns = st.one_of(
    st.just(""), paths, st.lists(st.one_of(segments, st.sampled_from(["*", "**", "a*", "*b", "a**b"])), max_size=4)
    .map(lambda s: "/" + "/".join(s)),
)  # fmt: skip
METHODS = ["GET", "POST", "HEAD", "PURGE"]
methods = st.lists(st.sampled_from(METHODS), max_size=2, unique=True)
schemes = st.sampled_from(["https", "https", "https", "http"])
ports = st.sampled_from(["", "", "", ":8443"])
words = st.text("ab12", max_size=3)
globs = st.text("ab12*", min_size=1, max_size=3)
queries = st.lists(st.tuples(st.sampled_from(["v", "w", "x"]), words), max_size=3)
conditions = st.dictionaries(st.sampled_from(["v", "w"]), globs, max_size=2)
rules = st.fixed_dictionaries({
    "allow": st.integers(0, 2).map(bool), "methods": methods, "scheme": schemes, "host": patterns, "port": ports,
    "path": path_patterns, "query": conditions, "exact": st.booleans(),
})  # fmt: skip
requests = st.fixed_dictionaries({
    "method": st.sampled_from([*METHODS, "get", "Purge"]), "scheme": schemes, "host": hosts, "port": ports, "path": slashed,
    "query": queries,
})  # fmt: skip


def glob(pattern, one="[^/]*", two=".*"):
    parts = re.split(r"(\*\*|\*)", pattern)
    return "".join(two if p == "**" else one if p == "*" else re.escape(p) for p in parts)


def has_host(pattern, host):
    if pattern == "**":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    try:
        address = ipaddress.ip_address(host.strip("[]"))
        network = ipaddress.ip_network(pattern.strip("[]"))
    except ValueError:
        return host == pattern
    return address.version == network.version and address in network


def has_query(rule, query):
    for name, pattern in rule["query"].items():
        values = [value for key, value in query if key == name]
        good = [bool(re.fullmatch(glob(pattern, ".*"), value, re.S)) for value in values]
        if not (good and all(good) if rule["allow"] else any(good)):
            return False
    return True


def matches(rule, request, path):
    loosely = not rule["allow"] and not rule["exact"]
    if rule["exact"] and path != request["path"]:
        return False  # another spelling
    method = request["method"].upper() if loosely else request["method"]
    flags = re.S | (re.I if loosely else 0)
    return (
        (not rule["methods"] or method in rule["methods"])
        and rule["scheme"] == request["scheme"]
        and rule["port"] == request["port"]
        and has_host(rule["host"], request["host"])
        and (not rule["path"] or re.fullmatch(glob(rule["path"]), path, flags) is not None)
        and has_query(rule, request["query"])
    )


def first(ruleset, request, path):
    return next((i for i, rule in enumerate(ruleset) if matches(rule, request, path)), None)


def decide(ruleset, request):
    """The place of the deciding rule, None for none."""
    plain, other = request["path"], request["path"].replace("%2F", "/")
    one = first(ruleset, request, plain)
    if one is None or not ruleset[one]["allow"] or plain == other:
        return one
    two = first(ruleset, request, other)
    if ruleset[one]["exact"] and (two is None or ruleset[two]["allow"]):
        return one
    return one if two is not None and ruleset[two]["allow"] else two


def as_yaml(rule):
    text = f"{','.join(rule['methods']) or '*'} {rule['scheme']}://{rule['host']}{rule['port']}{rule['path']}"
    made = {"allow" if rule["allow"] else "deny": text}
    if rule["query"]:
        made["query"] = rule["query"]
    if rule["exact"]:
        made["spelling"] = "exact"
    return made


def ask(site, tenant, narrow, questions):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        config = {"version": 1, "tenants": {"t": {"rules": [as_yaml(r) for r in tenant]}}}
        if site:
            config["site"] = {"rules": [as_yaml(r) for r in site]}
        box = {} if narrow is None else {"narrow": [as_yaml(r) for r in narrow]}
        config["listen"] = [{"unix": "/nowhere/box/s", "sandbox": "box", **box}]
        json.dump(config, file)
        file.flush()
        lines = "".join(json.dumps({
            "sandbox": "box", "method": q["method"], "url": f"{q['scheme']}://{q['host']}{q['port']}{q['path']}"
            + ("?" + urllib.parse.urlencode(q["query"]) if q["query"] else ""),
        }) + "\n" for q in questions)  # fmt: skip
        done = subprocess.run([KEYHOLE, "explain", "-c", file.name, "--batch"], input=lines, capture_output=True,
                              text=True, timeout=60, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


def place(answer):
    return answer["rule"] and answer["rule"]["rule"], answer["rule"] and answer["rule"]["list"]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(rules, max_size=6), st.lists(rules, max_size=12), st.none() | st.lists(rules, max_size=6),
       st.lists(requests, min_size=1, max_size=30))  # fmt: skip
def test_keyhole_and_the_obvious_matcher_agree(site, tenant, narrow, questions):
    answers = ask(site, tenant, narrow, questions)
    assert len(answers) == len(questions)
    for request, answer in zip(questions, answers):
        allowed = True
        if site:
            one = decide(site, request)
            rule, where = (None if one is None else site[one]), "site"
            allowed = rule is not None and rule["allow"]
        if allowed:
            one = decide(tenant, request)
            rule, where = (None if one is None else tenant[one]), "tenant"
            allowed = rule is not None and rule["allow"]
        if allowed and narrow is not None:
            one = decide(narrow, request)
            if one is None or not narrow[one]["allow"]:
                rule, where, allowed = (None if one is None else narrow[one]), "sandbox", False
        due = rule and as_yaml(rule).get("allow" if rule["allow"] else "deny")
        assert place(answer) == (due, rule and where), (request, answer)
        prohibited = answer["reason"] == "address_prohibited"
        assert (answer["decision"] == "allow" or prohibited) == allowed, (request, answer)
        # What is shown on the way ends with the rule that decided.
        if rule:
            assert any(step["matches"] and step["rule"] == due for step in answer["looked_at"])
