"""test_deploy.py - what deploy/ has for Kubernetes, compose and podman, held to their own rules, and run."""

import glob
import json
import os
import re
import shutil
import subprocess
import time

import pytest
from common import HERE, KEYHOLE, ROOT
from containers import SECTIONS, podman_args, read_unit
from containers import podman as podman  # noqa: PLC0414 - a fixture
from node_packages import packages as packages  # noqa: PLC0414 - a fixture

yaml = pytest.importorskip("yaml")
DEPLOY = os.path.join(ROOT, "deploy")
QUADLETS = os.path.join(DEPLOY, "podman")
# A host where containers have no limits of their own to be raised.
PLAIN = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]


def documents():
    for path in sorted(glob.glob(os.path.join(DEPLOY, "kubernetes", "*.yaml"))):
        with open(path, encoding="utf-8") as file:
            yield from yaml.safe_load_all(file)


def one_of(kind, name=None):
    found = [d for d in documents() if d["kind"] == kind and name in (None, d["metadata"]["name"])]
    assert len(found) == 1, (kind, name)
    return found[0]


# --- Kubernetes -----------------------------------------------------------------------------------


def schema_says(docs, packages):
    done = subprocess.run(["node", os.path.join(HERE, "kubernetes_check.js")], input=json.dumps(docs), text=True,
                          env={**os.environ, "NODE_PATH": packages}, capture_output=True, timeout=60, check=True)  # fmt: skip
    return json.loads(done.stdout)


def test_every_document_is_what_its_schema_says(packages):
    docs = list(documents())
    assert len(docs) >= 7
    assert schema_says(docs, packages) == [[] for _ in docs]


def test_the_schemas_do_find_mistakes(packages):
    bad = one_of("DaemonSet")
    spec = bad["spec"]["template"]["spec"]
    spec["containers"][0]["imag"] = "x"
    spec["automountServiceAccountToken"] = "yes"
    del bad["spec"]["selector"]
    (wrong,) = schema_says([bad], packages)
    for part in ("containers/0/imag: no such field", "automountServiceAccountToken must be boolean", "property selector"):
        assert part in " ".join(wrong)
    assert "no such kind" in schema_says([{"apiVersion": "v2", "kind": "Pod"}], packages)[0][0]


def test_an_agents_pod_has_the_sockets_folder_and_nothing_else():
    pod = one_of("Pod")["spec"]
    (volume,) = pod["volumes"]
    (container,) = pod["containers"]
    config = yaml.safe_load(one_of("ConfigMap")["data"]["keyhole.yaml"])
    sockets = [os.path.dirname(listener["unix"]) for listener in config["listen"]]
    assert volume["hostPath"]["path"] in sockets
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/run/keyhole", "readOnly": True}]
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert "hostNetwork" not in pod and "hostPID" not in pod
    assert config["listen"][0]["group"] == pod["securityContext"]["runAsGroup"]


def test_agents_may_send_and_receive_nothing():
    policy = one_of("NetworkPolicy", "nothing")
    assert policy["metadata"]["namespace"] == one_of("Pod")["metadata"]["namespace"]
    assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_nobody_asks_the_cluster_for_anything():
    kinds = {d["kind"] for d in documents()}
    assert not kinds & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ServiceAccount"}
    daemon = one_of("DaemonSet")["spec"]["template"]["spec"]
    assert daemon["automountServiceAccountToken"] is False
    assert daemon["securityContext"]["runAsNonRoot"] is True
    (container,) = daemon["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}  # fmt: skip


def check(text, folder):
    """`keyhole check`, with what the files hold that it names."""
    for name in set(re.findall(r"file: (/[\w/.-]*(?:secrets)/[\w-]+)", text)):
        here = os.path.join(folder, os.path.basename(name))
        with open(here, "w", encoding="utf-8") as out:
            out.write("sk-ant-api03-k7Vq2mXw9RtZ4bLs8PyHd3NcJf6GaEuT")
        os.chmod(here, 0o600)
        text = text.replace(name, here)
    text = text.replace("/var/lib/keyhole", folder + "/lib").replace("/run/keyhole", folder + "/run")
    path = os.path.join(folder, "keyhole.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    return subprocess.run([KEYHOLE, "check", "-c", path], capture_output=True, text=True, timeout=20, check=False)


def test_the_configurations_have_no_error(tmp_path):
    done = check(one_of("ConfigMap")["data"]["keyhole.yaml"], str(tmp_path))
    assert done.returncode == 0, done.stderr
    # The port is meant to be reached from elsewhere, and the page and the policy say by whom.
    assert re.findall(r"(warning|error): (\S+)", done.stderr) == [("warning", "admin.metrics:")]
    with open(os.path.join(DEPLOY, "container", "keyhole.yaml"), encoding="utf-8") as file:
        done = check(file.read(), str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


# --- compose --------------------------------------------------------------------------------------


def test_compose_takes_the_file_and_the_agent_has_no_network():
    path = os.path.join(DEPLOY, "docker", "compose.yaml")
    if not shutil.which("docker-compose"):
        pytest.skip("docker-compose is not installed")
    done = subprocess.run(["docker-compose", "-f", path, "config"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert services["agent"]["network_mode"] == "none" and "networks" not in services["agent"]
    (volume,) = services["agent"]["volumes"]
    folder = os.path.join(DEPLOY, "docker", "run", "acme")
    assert volume == f"{folder}:/run/keyhole:ro"
    assert f"{folder}:/run/keyhole/acme:rw" in services["keyhole"]["volumes"]
    for service in services.values():
        assert service["cap_drop"] == ["ALL"] and service["user"] != "0:0"


def test_compose_refuses_what_is_wrong(tmp_path):
    if not shutil.which("docker-compose"):
        pytest.skip("docker-compose is not installed")
    with open(os.path.join(DEPLOY, "docker", "compose.yaml"), encoding="utf-8") as file:
        text = file.read().replace("network_mode:", "network_mod:")
    (tmp_path / "compose.yaml").write_text(text)
    done = subprocess.run(["docker-compose", "-f", str(tmp_path / "compose.yaml"), "config"], capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert done.returncode != 0 and "network_mod" in done.stderr


# --- quadlets -------------------------------------------------------------------------------------

CONTAINERS = sorted(os.path.basename(path) for path in glob.glob(os.path.join(QUADLETS, "*.container")))


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_quadlet_is_something_that_podman_takes(podman, name, tmp_path):
    """Debian 12's podman has no generator yet: what its page says of each key is asked of podman itself."""
    unit = read_unit(os.path.join(QUADLETS, name))
    assert set(unit) <= SECTIONS | {"Container"}
    args, image, command = podman_args(unit, QUADLETS)
    args = [a.replace("/etc/keyhole:/", f"{tmp_path}:/") for a in args]
    podman("create", "--replace", *args, image, *command)
    made = json.loads(podman("inspect", unit["Container"]["ContainerName"][0]).stdout)[0]
    host = made["HostConfig"]
    assert made["EffectiveCaps"] in (None, []) and "no-new-privileges" in host["SecurityOpt"]
    assert made["Config"]["User"].split(":")[0] not in ("", "0", "root")
    if name == "keyhole-agent.container":
        assert host["NetworkMode"] == "none"
        assert [(m["Destination"], m["RW"]) for m in made["Mounts"]] == [("/run/keyhole", False)]
    else:
        assert host["ReadonlyRootfs"] is True


def test_every_volume_of_a_quadlet_is_there():
    for name in CONTAINERS:
        for volume in read_unit(os.path.join(QUADLETS, name))["Container"]["Volume"]:
            source = volume.split(":")[0]
            assert source.startswith("/") or os.path.exists(os.path.join(QUADLETS, source)), volume


def test_systemd_takes_the_other_sections(tmp_path):
    """The sections that go to systemd untouched, with a command in the place of podman's."""
    for name in CONTAINERS:
        unit = read_unit(os.path.join(QUADLETS, name))
        lines = []
        for section in SECTIONS & set(unit):
            lines.append(f"[{section}]")
            lines += [f"{key}={value}" for key, values in unit[section].items() for value in values]
        lines += ["[Service]", "ExecStart=/bin/true"]
        (tmp_path / (name.replace(".container", ".service"))).write_text("\n".join(lines) + "\n")
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd is not installed")
    for path in sorted(tmp_path.glob("*.service")):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"})  # fmt: skip
        ours = [line for line in done.stderr.splitlines() if path.stem in line]
        assert ours == [], done.stderr


# --- all of it, run -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(podman, tmp_path_factory):
    """The daemon's container as its quadlet has it; the agent's, likewise, as a function."""
    folder = str(tmp_path_factory.mktemp("served"))
    shutil.copy(os.path.join(DEPLOY, "container", "keyhole.yaml"), folder)
    os.makedirs(folder + "/secrets", mode=0o700)
    key = folder + "/secrets/anthropic"
    with open(key, "w", encoding="utf-8") as out:
        out.write("sk-ant-api03-" + "k" * 60)
    os.chmod(folder, 0o755)
    os.chmod(key, 0o400)
    for path in (folder + "/secrets", key):
        os.chown(path, 65532, 65532)
    args, image, _ = podman_args(read_unit(os.path.join(QUADLETS, "keyhole.container")), QUADLETS)
    args = [a for a in args if not a.startswith(("--ulimit", "--health"))]
    args = [a.replace("/etc/keyhole:/", folder + ":/") for a in args]
    probe = podman("run", "--rm", "--network=none", *PLAIN, "localhost/base:1", "ls", "/", check=False)
    if probe.returncode != 0:
        pytest.skip("no container can be run here: " + probe.stderr.strip()[-200:])
    podman("run", "--detach", "--replace", "--network=none", *PLAIN, *args, image, "proxy", "-c", "/etc/keyhole/keyhole.yaml")
    for _ in range(100):
        if podman("exec", "keyhole", "/usr/local/bin/keyhole", "ctl", "status", check=False).returncode == 0:
            break
        time.sleep(0.1)
    else:
        raise AssertionError(podman("logs", "keyhole", check=False).stderr)

    def agent(*command):
        args, image, _ = podman_args(read_unit(os.path.join(QUADLETS, "keyhole-agent.container")), QUADLETS)
        args = [a for a in args if not a.startswith(("--pids-limit", "--memory"))]
        return podman("run", "--rm", "--replace", *PLAIN, *args, image, *command, check=False)

    yield agent
    podman("rm", "--force", "--time=5", "keyhole", check=False)


def test_the_agents_container_says_who_it_is(served):
    done = served("curl", "-sS", "http://keyhole.internal/")
    assert "sandbox: acme" in done.stdout and "anthropic: ready" in done.stdout, done.stderr


def test_the_agents_container_trusts_the_ca_and_is_refused_in_words(served):
    done = served("curl", "-sS", "-w", "%{http_code} %{ssl_verify_result}", "-X", "DELETE", "https://api.anthropic.com/v1/messages")
    assert "is not allowed" in done.stdout and done.stdout.endswith("403 0"), done.stdout + done.stderr


def test_the_agents_container_has_nothing_else(served):
    script = ("ls /sys/class/net; ls -a /run/keyhole; "
              "curl -sS -m 2 --noproxy '*' https://192.0.2.1/ 2>&1; ! touch /run/keyhole/x 2>/dev/null; env")  # fmt: skip
    done = served("sh", "-c", script)
    lines = done.stdout.split()
    assert lines[: lines.index("s") + 1] == ["lo", ".", "..", "s"]
    assert "curl: (7)" in done.stdout and "kkkk" not in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_daemon_in_its_container_keeps_its_keys(served, podman):
    status = podman("exec", "keyhole", "/usr/local/bin/keyhole", "ctl", "status", "--json").stdout
    assert json.loads(status)["state"] == "serving"
    shown = podman("exec", "keyhole", "/usr/bin/ls", "-ln", "/run/keyhole/acme/s").stdout.split()
    assert shown[0].rstrip(".+") == "srw-rw----" and shown[2:4] == ["65532", "65001"]
