"""test_tenant_values.py - whether a credential has a value is asked for the tenant, where each has a value of its own"""

import os
import signal

from admin_client import status
from harness import SECRET, until
from sandboxes import add, admin, inside, remove
from test_base_url import origin_form
from test_reload import reload
from test_sources import COMMON, OTHER, put, real, script, told

TENANTS = {"acme": "d", "globex": "e", "initech": "f"}
JSON = [("Accept", "application/json")]


def by_tenant(tmp_path, credential=("own", "main"), **sources):
    """acme has a value in a file; globex has a file that is not there; initech has no source."""
    put(tmp_path / "acme", OTHER)
    files = {name: {"file": str(tmp_path / name)} for name in ("acme", "globex")}
    return {
        "listen": [{"unix": f"{folder}/s", "tenant": name} for name, folder in TENANTS.items()],
        "credentials": {"own": {"value": {"tenants": {**files, **sources}}, **COMMON}},
        "tenants": {name: {"rules": [{"allow": "https://api.test", "credential": list(credential)}]} for name in TENANTS},
    }


def of(one, tenant):
    return inside(one, os.path.join(one.folder, TENANTS[tenant], "s"))


def each(one):
    return [told(of(one, tenant)) for tenant in TENANTS]


def page(one):
    """Which credentials its own page calls ready; the text and the JSON must agree."""
    text = origin_form(one, "/").text()
    ready = {c["name"]: c["ready"] for c in origin_form(one, "/", JSON).json()["credentials"]}
    for name, is_ready in ready.items():
        assert f"  {name}: {'ready' if is_ready else 'has no value on the host'}; goes in" in text, text
    return ready


def why(one):
    answer = origin_form(one, "/why?url=https://api.test/x", JSON).json()
    return answer["allow"], answer["credential"], answer["ready"]


def test_each_tenant_gets_the_first_that_it_has(daemon, tmp_path):
    one = daemon(by_tenant(tmp_path))
    assert each(one) == [(200, OTHER), (200, real(SECRET)), (200, real(SECRET))]
    assert [page(of(one, t)) for t in TENANTS] == [{"main": True, "own": True}] + 2 * [{"main": True, "own": False}]
    assert [why(of(one, t)) for t in TENANTS] == [(True, "own", True), (True, "main", True), (True, "main", True)]


def test_a_placeholder_shows_no_tenant_the_length_or_the_shape_of_anothers_value(daemon, tmp_path):
    """What a sandbox gets for a credential is the same, whatever the others' values are."""
    key = "sk-ant-api03-" + "A" * 95
    shown = []
    for n, value in enumerate((key, key + "AAAA", OTHER)):
        put(tmp_path / "mine", OTHER)
        put(tmp_path / "globex", value)
        config = {**by_tenant(tmp_path, ["own"], acme={"file": str(tmp_path / "mine")}), **admin()}
        config["credentials"]["own"] = {**config["credentials"]["own"], "placeholder": {"env": "OWN_KEY"}}
        one = daemon(config)
        shown.append(len(add(one, f"s{n}")["env"]["OWN_KEY"]))
        remove(one, f"s{n}")
    assert len(set(shown)) == 1, shown


def test_a_binding_is_asked_of_the_one_that_goes_in(daemon, tmp_path):
    """A path that names no repository is outside of such a token's binding, and inside of the other's."""
    config = by_tenant(tmp_path, ["hub", "other"])
    app = {"app_id": 1, "installation_id": 77, "per_repository": True}
    hosts = {"header": {"authorization": "Bearer {}"}, "hosts": ["api.github.com"]}
    config["credentials"]["hub"] = {**config["credentials"].pop("own"), **hosts, "github_app": app}
    config["credentials"]["other"] = {"value": {"file": "secret"}, **hosts}
    for tenant in TENANTS:
        config["tenants"][tenant]["rules"][0]["allow"] = "https://api.github.com"
    one = daemon(config)
    answers = [origin_form(of(one, t), "/why?url=https://api.github.com/user", JSON).json() for t in TENANTS]
    assert [a["allow"] for a in answers] == [False, True, True]
    assert [a.get("reason") for a in answers] == ["credential_binding", None, None]


def test_without_another_the_page_says_so_to_the_tenant_alone(daemon, tmp_path):
    one = daemon({**by_tenant(tmp_path, ["own"]), **admin()})

    def operator():
        return {c["name"]: c["ready"] for c in status(one)["credentials"]}["own"]

    assert operator(), "one of its tenants has a value"
    assert [page(of(one, t)) for t in TENANTS] == [{"own": True}, {"own": False}, {"own": False}]
    assert [why(of(one, t)) for t in TENANTS] == [(True, "own", True), (True, "own", False), (True, "own", False)]
    assert "has no value on the host" in origin_form(of(one, "initech"), "/why?url=https://api.test/x").text()
    for tenant in ("initech", "globex"):
        assert told(of(one, tenant))[0] == 503
        assert operator(), "what another tenant lacks says nothing of it"
    assert told(of(one, "acme")) == (200, OTHER)
    states = {s["tenant"]: s["since"] is not None for s in status(one)["credential_states"] if s["name"] == "own"}
    assert states == {"acme": True, "globex": False}


def test_a_sandbox_that_is_added_has_its_tenants_values(daemon, tmp_path):
    one = daemon({**by_tenant(tmp_path), **admin()})
    for tenant, expected, ready in (("acme", OTHER, True), ("initech", real(SECRET), False)):
        box = inside(one, add(one, "box", tenant))
        assert told(box) == (200, expected)
        assert page(box)["own"] is ready
        remove(one, "box", tenant)


def test_a_value_that_comes_later_is_its_tenants_alone(daemon, tmp_path):
    one = daemon(by_tenant(tmp_path))
    assert each(one)[1] == (200, real(SECRET))
    put(tmp_path / "globex.new", "sk-of-globex-" + "0" * 30)
    os.rename(tmp_path / "globex.new", tmp_path / "globex")
    until("it is taken", lambda: told(of(one, "globex")) == (200, "sk-of-globex-" + "0" * 30))
    assert each(one)[::2] == [(200, OTHER), (200, real(SECRET))]
    assert page(of(one, "globex"))["own"] and not page(of(one, "initech"))["own"]
    assert "credential own has a value for the tenant globex: rules that name others beside it choose anew" in one.stderr()


def test_a_command_that_fails_for_one_tenant_is_passed_over_for_it_alone(daemon, tmp_path):
    one = daemon(by_tenant(tmp_path, initech={"exec": [script(tmp_path, "exit 4")]}))
    until("its command has failed", lambda: "credential own has no value for the tenant initech" in one.stderr())
    assert each(one) == [(200, OTHER), (200, real(SECRET)), (200, real(SECRET))]


def test_a_tenant_whose_source_a_reload_takes_away_gets_the_next(daemon, tmp_path):
    one = daemon(by_tenant(tmp_path))
    assert told(of(one, "acme")) == (200, OTHER)

    def move(config):
        value = config["credentials"]["own"]["value"]["tenants"]
        value["initech"] = value.pop("acme")

    reload(one, move)
    assert each(one) == [(200, real(SECRET)), (200, real(SECRET)), (200, OTHER)]
    # And with the tenants in another order: they are numbered anew.
    reload(one, lambda config: config.update(tenants=dict(reversed(config["tenants"].items()))))
    assert each(one) == [(200, real(SECRET)), (200, real(SECRET)), (200, OTHER)]


def test_another_worker_chooses_likewise(daemon, tmp_path):
    one = daemon(by_tenant(tmp_path))
    before = one.worker_pid()
    os.kill(before, signal.SIGKILL)
    until("there is another worker", lambda: one.worker_pid() not in (None, before))
    until("it serves", lambda: told(of(one, "acme")) == (200, OTHER))
    assert each(one) == [(200, OTHER), (200, real(SECRET)), (200, real(SECRET))]


def test_after_a_handover_each_tenant_has_what_it_had(upgradable, tmp_path):
    one = upgradable(by_tenant(tmp_path))
    assert each(one) == [(200, OTHER), (200, real(SECRET)), (200, real(SECRET))]
    one.install()
    one.hand_over()
    one.last_ended()
    assert each(one) == [(200, OTHER), (200, real(SECRET)), (200, real(SECRET))]
    assert [page(of(one, t))["own"] for t in TENANTS] == [True, False, False]


def test_the_environment_is_of_what_goes_in(daemon, tmp_path):
    config = by_tenant(tmp_path)
    config["credentials"]["own"]["placeholder"] = {"env": "OWN_KEY", "prefix": "sk-"}
    config["credentials"]["main"] = {"placeholder": {"env": "MAIN_KEY", "prefix": "sk-"}}
    one = daemon(config)
    texts = [origin_form(of(one, t), "/env").text() for t in TENANTS]
    assert ["OWN_KEY" in text for text in texts] == [True, False, False]
    assert ["MAIN_KEY" in text for text in texts] == [False, True, True]
