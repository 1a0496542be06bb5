"""pods.py - pods of Kubernetes: what a cluster would refuse, and their containers as what podman would run"""

import glob
import json
import os

import yaml
from common import ROOT

FOLDER = os.path.join(ROOT, "deploy", "kubernetes")
FIELDS = {"name", "image", "command", "args", "env", "volumeMounts", "securityContext", "resources", "restartPolicy",
          "startupProbe", "livenessProbe", "readinessProbe", "ports"}  # fmt: skip
SECURITY = {"runAsUser", "runAsGroup", "runAsNonRoot", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}


def files():
    return sorted(glob.glob(os.path.join(FOLDER, "**", "*.yaml"), recursive=True))


def documents(*names):
    found = []
    for name in names or files():
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            found += list(yaml.safe_load_all(file))
    return found


def pod_of(document):
    """The pod's spec of a Pod or a DaemonSet, or None."""
    spec = document.get("spec", {})
    return spec if document["kind"] == "Pod" else spec.get("template", {}).get("spec")


def containers(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


def uid_of(spec, container):
    return {**spec.get("securityContext", {}), **container["securityContext"]}.get("runAsUser")


def named(spec, name):
    return next(c for c in containers(spec) if c["name"] == name)


def mount(one, folders, env):
    """A volume's folder of this host, as the kubelet would mount it."""
    assert set(one) <= {"name", "mountPath", "readOnly", "subPath", "subPathExpr"}, one
    below = one.get("subPath", one.get("subPathExpr", ""))
    for key, value in env.items():
        below = below.replace(f"$({key})", value)
    source = os.path.join(folders[one["name"]], below).rstrip("/")
    assert os.path.isdir(source), f"{source}: the kubelet would make a folder of root's there"
    return f"--volume={source}:{one['mountPath']}" + (":ro" if one.get("readOnly") else "")


def podman_args(spec, name, folders, uid="0b2c6a1e-8f3d-4e57-9a61-2d7c5f1b9e40"):
    """(options, image, command behind it) of one container; `folders` has a folder for each volume."""
    container, pod = named(spec, name), spec.get("securityContext", {})
    security = container["securityContext"]
    assert set(container) <= FIELDS and set(security) <= SECURITY, name
    env = {one["name"]: one.get("value", uid) for one in container.get("env", [])}
    user = uid_of(spec, container)
    args = [f"--user={user}:{security.get('runAsGroup', pod.get('runAsGroup', 0))}"]
    args += [f"--group-add={group}" for group in [*pod.get("supplementalGroups", []), pod.get("fsGroup")] if group]
    args += [f"--cap-drop={c}" for c in security["capabilities"]["drop"]]
    args += [f"--cap-add={c}" for c in security["capabilities"].get("add", [])]
    args += ["--security-opt=no-new-privileges"] if security["allowPrivilegeEscalation"] is False else []
    args += ["--read-only", "--read-only-tmpfs=false"] if security.get("readOnlyRootFilesystem") else []
    args += [f"--env={key}={value}" for key, value in env.items()]
    args += [mount(one, folders, env) for one in container.get("volumeMounts", [])]
    if "command" in container:
        args.append("--entrypoint=" + json.dumps(container["command"]))
    return args, container["image"], container.get("args", [])
