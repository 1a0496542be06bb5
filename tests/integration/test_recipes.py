"""test_recipes.py - the recipes of deploy/ that begin with nothing: their pages' commands, their manifests, and run."""

import json
import os
import re
import shutil
import subprocess
import time

import pods
import pytest
from common import HERE, KEYHOLE, PATIENCE, ROOT, without_values
from containers import podman as podman  # noqa: PLC0414 - a fixture
from node_packages import packages as packages  # noqa: PLC0414 - a fixture
from test_deploy import PLAIN, check, schema_says

yaml = pytest.importorskip("yaml")
DEPLOY = os.path.join(ROOT, "deploy")
DEVCONTAINER = os.path.join(DEPLOY, "devcontainer", ".devcontainer")
COMMAND = ["proxy", "-c", "/etc/keyhole/keyhole.yaml"]  # of keyhole's image
KEY = "sk-ant-api03-k7Vq2mXw9RtZ4bLs8PyHd3NcJf6GaEuT"
SPECS = [(os.path.basename(path) + ":" + d["metadata"].get("name", d["metadata"].get("generateName")), pods.pod_of(d))
         for path in pods.files() for d in pods.documents(path) if pods.pod_of(d) and "containers" in pods.pod_of(d)]  # fmt: skip


def page(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        return file.read()


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.M | re.S)


# --- the pages' commands ----------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path):
    """Runs a block of a page in a copy of the tree's folders, with mocks for the programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("kubectl", "podman", "docker", "devcontainer"):
        (programs / name).symlink_to(os.path.join(HERE, "mock_tools.py"))
    (programs / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (programs / "sudo").chmod(0o755)
    tree = tmp_path / "tree"
    shutil.copytree(DEPLOY, tree / "deploy", ignore=shutil.ignore_patterns("__pycache__", "demo", "grafana"))
    (tree / "my-project").mkdir()

    def run(block, cluster="one", where="."):
        env = {"PATH": f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin", "MOCK_STATE": str(tmp_path / cluster),
               "ANTHROPIC_API_KEY": KEY, "ACME_KEY": KEY, "GLOBEX_KEY": KEY}  # fmt: skip
        done = subprocess.run(["bash", "-e", "-c", block], cwd=tree / where, env=env, capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return tree

    return run


def test_each_recipe_of_the_kubernetes_page_begins_with_an_empty_cluster(shell):
    build, registry, daemonset, reload, dynamic, sidecar = blocks("kubernetes.md", "sh")
    shell(build)
    for number, recipe in enumerate((daemonset, dynamic, sidecar)):
        shell(recipe, cluster=f"cluster{number}")
    shell(reload, cluster="cluster0")
    tree = shell(registry)
    for path in pods.files():
        with open(tree / os.path.relpath(path, ROOT), encoding="utf-8") as file:
            assert "localhost/" not in file.read(), path


def test_the_stand_in_refuses_what_a_cluster_would(shell):
    for wrong in ("kubectl apply -f deploy/kubernetes/dynamic/40-agent.yaml", "kubectl -n keyhole get pods -o name",
                  "kubectl apply -f deploy/kubernetes/sidecar/; kubectl -n keyhole-sidecar logs agent -c agent"):  # fmt: skip
        with pytest.raises(AssertionError, match="no namespace|apply needs a name|no secret"):
            shell(wrong, cluster=wrong.split()[1])


def test_the_commands_of_the_deployment_page_run(shell):
    if os.geteuid() != 0:
        pytest.skip("folders are given to another user")
    compose, devcontainer = blocks("deploy.md", "sh")
    tree = shell(compose)
    assert (tree / "deploy/docker/secrets/anthropic").read_text() == KEY
    assert (tree / "deploy/docker/run/acme").stat().st_uid == 65532
    shell(devcontainer)
    for line in re.findall(r"^    (podman build .*)$", page("deploy.md"), re.M):
        shell(line)


def test_an_image_of_ones_own_begins_as_the_page_says():
    (line,) = re.findall(r"^ +(keyhole-init .*)$", page("deploy.md"), re.M)
    with open(os.path.join(DEPLOY, "container", "agent.Containerfile"), encoding="utf-8") as file:
        entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", file.read(), re.M)[1])
    assert line.split()[:3] == [os.path.basename(word) for word in entry]


def test_the_readmes_other_commands_are_there():
    """The three doors are run by tests/sandbox/test_readme.py, and the targets by tests of their own."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    doors = text[text.index("**I run coding agents.**") : text.index("## How it works")]
    other = [b for b in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) if b not in doors]
    assert len(other) == 2
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        makefile = file.read()
    for line in "".join(other).splitlines():
        for command in re.sub(r" +#.*", "", line).split(" && "):
            words = command.removeprefix("sudo ").split()
            if words[0] == "make":
                assert all(re.search(rf"^{target}:", makefile, re.M) for target in words[1:]), line
            elif words != ["keyhole", "doctor"]:
                done = subprocess.run([words[0], "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
                assert done.returncode in (0, 1) and "unknown group" not in done.stderr, done.stderr


def test_two_tenants_are_twelve_lines(tmp_path):
    (text,) = blocks("deploy.md", "yaml")
    with open(os.path.join(DEPLOY, "container", "two-tenants.yaml"), encoding="utf-8") as file:
        assert file.read() == text
    assert len(text.splitlines()) <= 12
    done = check(text, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 tenants" in done.stdout
    for tenant, url, status in (("acme", "https://registry.npmjs.org/x", 0), ("globex", "https://registry.npmjs.org/x", 3)):
        asked = subprocess.run([KEYHOLE, "explain", "-c", str(tmp_path / "keyhole.yaml"), "--tenant", tenant, "GET", url],
                               capture_output=True, timeout=20, check=False)  # fmt: skip
        assert asked.returncode == status


# --- manifests --------------------------------------------------------------------------------------


def test_every_document_is_what_its_schema_says(packages):
    docs = pods.documents()
    assert len(docs) >= 13 and schema_says(docs, packages) == [[] for _ in docs]


@pytest.mark.parametrize("name, spec", SPECS, ids=[name for name, _ in SPECS])
def test_a_pod_is_confined_and_mounts_what_it_declares(name, spec):
    volumes = {v["name"]: v for v in spec["volumes"]}
    assert len(volumes) == len(spec["volumes"])
    mounted = {m["name"] for c in pods.containers(spec) for m in c.get("volumeMounts", [])}
    assert mounted == set(volumes)
    assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & set(spec)
    for container in pods.containers(spec):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False and security["capabilities"]["drop"] == ["ALL"], container["name"]
        root = container["name"] in ("fence", "folders")
        assert (pods.uid_of(spec, container) == 0) == root, container["name"]
        assert security["capabilities"].get("add", []) == {"fence": ["NET_ADMIN"], "folders": ["CHOWN"]}.get(container["name"], [])
        assert "limits" in container["resources"] and "requests" in container["resources"]
        assert container["image"].startswith("localhost/keyhole") and container["image"].endswith(":0.1.0")


@pytest.mark.parametrize("name, spec", [s for s in SPECS if "agent" in s[0]], ids=[n for n, _ in SPECS if "agent" in n])
def test_an_agent_sees_one_sockets_folder_and_nothing_else(name, spec):
    agent = pods.named(spec, "agent")
    (one,) = agent["volumeMounts"]
    assert one["mountPath"] == "/run/keyhole" and one["readOnly"] is True
    assert pods.uid_of(spec, agent) == 65001 != 65532
    volume = next(v for v in spec["volumes"] if v["name"] == one["name"])
    whole = "hostPath" in volume and volume["hostPath"]["path"] == "/run/keyhole/acme"
    assert whole or one.get("subPath") == "agent" or one.get("subPathExpr") == "acme/$(POD_UID)"
    assert all("secret" not in v for v in spec["volumes"]) or name.startswith("pod.yaml")
    assert [e["value"] for e in agent["env"] if e["name"] == "ANTHROPIC_API_KEY"] == ["placeholder"]


@pytest.mark.parametrize("file", ["10-config.yaml", "dynamic/10-config.yaml", "sidecar/pod.yaml"])
def test_a_config_map_has_no_error_and_no_key_is_in_a_manifest(file, tmp_path):
    (config,) = [d for d in pods.documents(file) if d["kind"] == "ConfigMap"]
    text = config["data"]["keyhole.yaml"]
    done = check(text, str(tmp_path))
    assert done.returncode == 0, done.stderr
    wanted = [("warning", "admin.metrics:")] if "metrics" in text else []
    assert re.findall(r"(warning|error): (\S+)", done.stderr) == wanted, done.stderr
    assert not [d for d in pods.documents() if d["kind"] == "Secret"]


def test_who_adds_sandboxes_may_do_so_for_one_tenant():
    (config,) = [yaml.safe_load(d["data"]["keyhole.yaml"]) for d in pods.documents("dynamic/10-config.yaml")]
    users = {one["user"]: one["tenants"] for one in config["admin"]["allow"]}
    (pod,) = pods.documents("dynamic/40-agent.yaml")
    door = pods.named(pod["spec"], "door")
    tenant = next(e["value"] for e in door["env"] if e["name"] == "TENANT")
    assert users[pods.uid_of(pod["spec"], door)] == [tenant] and len(users) == len(config["tenants"])


# --- run --------------------------------------------------------------------------------------------


class Node:
    """A node's folders, and its containers by podman."""

    def __init__(self, podman, folder):
        self.podman, self.folder = podman, folder
        self.names = []

    def make(self, name, owner=0, group=0, mode=0o755, **content):
        path = os.path.join(self.folder, name)
        os.makedirs(path)
        for file, text in content.items():
            with open(os.path.join(path, file.replace("_", ".")), "w", encoding="utf-8") as out:
                out.write(text)
            os.chown(out.name, owner, group)
            os.chmod(out.name, 0o644 if file.endswith("yaml") else 0o440)
        os.chown(path, owner, group)
        os.chmod(path, mode)
        return path

    def start(self, spec, name, folders, *more, uid=None, check=True, **options):
        args, image, words = pods.podman_args(spec, name, folders, **({"uid": uid} if uid else {}))
        named = ["--replace", f"--name={name}"] if "--detach" in more else ["--rm"]
        self.names += [name] if "--detach" in more else []
        return self.podman("run", *named, *PLAIN, *args, *options.get("extra", ["--network=none"]),
                           *more, image, *(options.get("words") or words), check=check)  # fmt: skip

    def until(self, name, *command):
        for _ in range(100):
            if self.podman("exec", name, *command, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(self.podman("logs", name, check=False))

    def close(self):
        for name in reversed(self.names):
            self.podman("rm", "--force", "--time=5", name, check=False)


@pytest.fixture
def node(podman, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("node"))
    for path in (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
        os.chmod(path, 0o755)
    probe = podman("run", "--rm", "--network=none", *PLAIN, "localhost/base:1", "ls", "/", check=False)
    if probe.returncode != 0:
        pytest.skip("no container can be run here: " + probe.stderr.strip()[-200:])
    one = Node(podman, folder)
    yield one
    one.close()


def config_of(file):
    (config,) = [d["data"]["keyhole.yaml"] for d in pods.documents(file) if d["kind"] == "ConfigMap"]
    return config


ASK = ["curl", "-sS", "http://keyhole.internal/"]
REFUSED = ["curl", "-sS", "-w", "%{http_code} %{ssl_verify_result}", "-X", "DELETE", "https://api.anthropic.com/v1/messages"]


def test_a_pod_adds_its_sandbox_and_takes_it_away(node):
    daemon = next(pods.pod_of(d) for d in pods.documents("20-daemon.yaml"))
    folders = {"config": node.make("config", keyhole_yaml=config_of("dynamic/10-config.yaml")),
               "secrets": node.make("secrets", group=65532, acme=KEY, globex=KEY[::-1]),
               "sockets": node.make("run", 65532, 65532), "state": node.make("state", 65532, 65532, 0o700)}  # fmt: skip
    node.start(daemon, "keyhole", folders, "--detach")
    node.until("keyhole", "keyhole", "ctl", "status")
    (pod,) = [d["spec"] for d in pods.documents("dynamic/40-agent.yaml")]
    admin = os.path.join(folders["sockets"], "admin")
    here = {"admin": admin, "sandboxes": os.path.join(admin, "sandboxes")}
    uid = "5d0f7a9e-3c1b-4f86-8f57-1a2b3c4d5e6f"
    node.start(pod, "door", here, "--detach", uid=uid)
    node.until("door", *pods.named(pod, "door")["startupProbe"]["exec"]["command"])
    said = node.start(pod, "agent", here, uid=uid).stdout
    assert "tenant: acme" in said and f"sandbox: {uid}" in said and "anthropic: ready" in said, said
    said = node.start(pod, "agent", here, uid=uid, words=REFUSED).stdout
    assert "is not allowed" in said and said.endswith("403 0")
    said = node.start(pod, "agent", here, uid=uid, words=["ls", "-A", "/run/keyhole"]).stdout
    assert said == "s\n", "neither the admin socket nor another sandbox"
    other = node.podman("exec", "door", "keyhole", "ctl", "sandbox", "add", "--tenant", "globex", "--id", "x", check=False)
    assert other.returncode != 0 and not os.path.exists(os.path.join(here["sandboxes"], "globex", "x")), other.stdout
    node.podman("stop", "--time=10", "door")
    assert not os.path.exists(os.path.join(here["sandboxes"], "acme", uid))


def test_a_sidecar_serves_its_pod(node):
    (pod,) = [d["spec"] for d in pods.documents("sidecar/pod.yaml") if d["kind"] == "Pod"]
    # An emptyDir as the kubelet makes it, with fsGroup.
    folders = {"config": node.make("config", keyhole_yaml=config_of("sidecar/pod.yaml")),
               "secrets": node.make("secrets", group=65532, anthropic=KEY),
               "sockets": node.make("run", group=65532, mode=0o2777), "state": node.make("state", group=65532, mode=0o2777)}  # fmt: skip
    node.start(pod, "keyhole", folders, "--detach")
    node.until("keyhole", *pods.named(pod, "keyhole")["startupProbe"]["exec"]["command"])
    shared = ["--network=container:keyhole"]
    said = node.start(pod, "agent", folders, extra=shared)
    assert "tenant: acme" in said.stdout and "anthropic: ready" in said.stdout, said.stdout + said.stderr
    assert node.start(pod, "agent", folders, extra=shared, words=REFUSED).stdout.endswith("403 0")
    said = node.start(pod, "agent", folders, extra=shared,
                      words=["sh", "-c", "ls -A /run/keyhole; ls /var/lib/keyhole /etc/keyhole 2>&1; env"], check=False)  # fmt: skip
    assert said.stdout.splitlines()[0] == "s" and KEY not in said.stdout and said.stdout.count("No such file") == 2


SEND = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for family, to in ((socket.AF_INET, "192.0.2.9"), (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "2001:db8::9")):
    try:
        socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (to, 9))
        print("sent")
    except PermissionError:
        print("refused")
    except OSError as error:
        print(error)
"""


def test_the_fence_lets_keyhole_out_and_nobody_else():
    if os.geteuid() != 0 or not shutil.which("iptables") or not shutil.which("ip6tables"):
        pytest.skip("it needs root, and iptables")
    # The capability that the manifest gives, and no other.
    script = (
        "ip link set lo up && ip link add out type veth peer name far && ip link set far up && ip addr add 192.0.2.1/24 dev out && ip link set out up && "
        "ip -6 addr add 2001:db8::1/64 dev out nodad || exit 77; "
        f"setpriv --bounding-set=-all,+net_admin --inh-caps=-all --no-new-privs {DEPLOY}/container/fence || exit 1; "
        'for uid in 65532 65001 0; do python3 -c "$0" $uid; done'
    )
    done = subprocess.run(["unshare", "--net", "sh", "-c", script, SEND], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77:
        pytest.skip("no network of its own can be made here: " + done.stderr)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["sent"] * 3 + ["refused", "sent", "refused"] * 2, done.stdout


# --- devcontainer -----------------------------------------------------------------------------------


def compose():
    with open(os.path.join(DEVCONTAINER, "compose.yaml"), encoding="utf-8") as file:
        return yaml.safe_load(file)


def test_the_devcontainer_has_no_network_and_no_key(tmp_path):
    with open(os.path.join(DEVCONTAINER, "devcontainer.json"), encoding="utf-8") as file:
        main = json.load(file)
    services = compose()["services"]
    workspace = services[main["service"]]
    assert main["overrideCommand"] is False and os.path.isfile(os.path.join(DEVCONTAINER, main["dockerComposeFile"]))
    assert workspace["network_mode"] == "none" and workspace["cap_drop"] == ["ALL"]
    assert workspace["environment"]["ANTHROPIC_API_KEY"] == "placeholder"
    assert "socket:/run/keyhole:ro" in workspace["volumes"] and ".:/workspace/.devcontainer:ro" in workspace["volumes"]
    assert f"..:{main['workspaceFolder']}" in workspace["volumes"]
    with open(os.path.join(DEVCONTAINER, workspace["build"]["dockerfile"]), encoding="utf-8") as file:
        assert f"USER {main['remoteUser']}\n" in file.read()
    with open(os.path.join(DEVCONTAINER, "keyhole.yaml"), encoding="utf-8") as file:
        done = check(file.read(), str(tmp_path))
    assert (done.returncode, without_values(done.stderr)) == (0, "")
    if not shutil.which("docker-compose"):
        pytest.skip("docker-compose is not installed")
    done = subprocess.run(["docker-compose", "-f", os.path.join(DEVCONTAINER, "compose.yaml"), "config"], capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_each_process_of_the_devcontainer_has_the_variables_of_with_keyhole():
    with open(os.path.join(DEPLOY, "container", "with-keyhole"), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    loops = re.findall(r"for name in ([A-Za-z_\s]+);", text)
    names = {name for loop in loops for name in loop.split() if name.isupper() or "_" in name}
    names |= set(re.findall(r"([A-Za-z_]+)=", text[text.index("export NODE_USE") :].splitlines()[0]))
    environment = compose()["services"]["workspace"]["environment"]
    assert names | {"KEYHOLE_CA", "ANTHROPIC_API_KEY"} == set(environment)


def test_the_devcontainer_works_in_each_shell_and_keeps_its_own_rules(node):
    services = compose()["services"]
    project = node.make("project", 1000, 1000)
    shutil.copytree(DEVCONTAINER, os.path.join(project, ".devcontainer"))
    for above, _, names in os.walk(project):
        for name in [".", *names]:
            os.chown(os.path.join(above, name), 1000, 1000)
    for name, service in services.items():
        volumes = [v if not v.startswith(".") else os.path.normpath(os.path.join(project, ".devcontainer", v.split(":")[0]))
                   + ":" + v.split(":", 1)[1] for v in service["volumes"]]  # fmt: skip
        env = service["environment"]
        words = [f"{k}={v}" for k, v in env.items()] if isinstance(env, dict) else [f"{k}={KEY}" for k in env]
        args = [f"--volume={v}" for v in volumes] + [f"--env={w}" for w in words] + ["--cap-drop=ALL"]
        args += [f"--security-opt={o.replace(':true', '')}" for o in service["security_opt"]]
        args += [f"--group-add={g}" for g in service["group_add"]]
        args += [f"--tmpfs={t}".replace(",uid=65532,gid=65532", "").replace("0700", "0777") for t in service.get("tmpfs", [])]
        args += ["--read-only"] if service.get("read_only") else []
        args += [f"--user={service.get('user', '1000:1000')}"]
        node.names.append(name)
        node.podman("run", "--replace", "--detach", f"--name={name}", "--network=none", *PLAIN, *args,
                    service.get("image", "localhost/keyhole-agent:0.1.0"), *service.get("command", COMMAND))  # fmt: skip
        if name == "keyhole":
            node.until(name, *service["healthcheck"]["test"][1:])
    node.until("workspace", "ls", "/tmp/keyhole-ca.pem")
    said = node.podman("exec", "workspace", *ASK).stdout
    assert "tenant: dev" in said and "ready" in said, said
    assert node.podman("exec", "workspace", *REFUSED).stdout.endswith("403 0")
    script = "ls /sys/class/net; ls -A /run/keyhole; echo x > /workspace/file; ! echo x > /workspace/.devcontainer/keyhole.yaml; env"
    done = node.podman("exec", "workspace", "sh", "-c", script, check=False)
    assert done.returncode == 0 and done.stdout.split()[:2] == ["lo", "s"] and KEY not in done.stdout, done.stderr
    assert "Read-only file system" in done.stderr and os.path.exists(os.path.join(project, "file"))


SAYS_NO = """
import http.server, os, subprocess, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(403)
        self.end_headers()
        self.wfile.write(b"keyhole: the journal is gone\\n")
    def log_message(self, *_): pass
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = http.server.HTTPServer(("127.0.0.1", 3128), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.exit(subprocess.run([sys.argv[1], "echo", "it ran"], env={**os.environ, "TMPDIR": sys.argv[2]}).returncode)
"""


def test_with_keyhole_says_what_keyhole_says_and_runs_nothing(tmp_path):
    script = os.path.join(DEPLOY, "container", "with-keyhole")
    if os.geteuid() != 0:
        pytest.skip("a network namespace is made as root")
    done = subprocess.run(["unshare", "--net", "/usr/bin/python3", "-c", SAYS_NO, script, str(tmp_path)],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)  # fmt: skip
    assert done.returncode == 1 and "the journal is gone" in done.stderr, done
    assert "it ran" not in done.stdout and os.listdir(tmp_path) == []
