#!/usr/bin/python3
"""mock_tools.py - kubectl, podman, docker and devcontainer for the commands of pages: refuses what they would

It goes by the name that it is called by. What was done is in $MOCK_STATE, a JSON list of lines and resources.
"""

import json
import os
import re
import sys

import yaml

NAMES = {"ns": "namespace", "pods": "pod", "po": "pod", "ds": "daemonset"}


def refuse(why):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {why}")


def key_of(document, namespace="default"):
    meta = document["metadata"]
    where = "" if document["kind"] == "Namespace" else meta.get("namespace", namespace)
    return f"{document['kind'].lower()}/{where}/{meta.get('name', meta.get('generateName', '') + 'x')}"


class Kubectl:
    def __init__(self, cluster):
        self.cluster = cluster  # resource by key

    def run(self, words):
        self.namespace = "default"
        if words[0] == "-n":
            self.namespace, words = words[1], words[2:]
            if f"namespace//{self.namespace}" not in self.cluster:
                refuse(f"no namespace {self.namespace}")
        getattr(self, words[0])(words[1:])

    def put(self, document):
        where = document["metadata"].get("namespace")
        if where and f"namespace//{where}" not in self.cluster:
            refuse(f"no namespace {where}")
        self.cluster[key_of(document)] = document

    def put_files(self, words, named):
        for flag, path in zip(words[::2], words[1::2], strict=True):
            assert flag == "-f", flag
            files = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
            for one in files:
                if not one.endswith(".yaml"):
                    continue
                with open(one, encoding="utf-8") as file:
                    for document in yaml.safe_load_all(file):
                        if named and "name" not in document["metadata"]:
                            refuse(f"{one}: apply needs a name, and there is only generateName")
                        self.put(document)

    def apply(self, words):
        self.put_files(words, named=True)

    def create(self, words):
        if words[0] == "-f":
            self.put_files(words, named=False)
        elif words[0] == "namespace":
            self.put({"kind": "Namespace", "metadata": {"name": words[1]}})
        else:
            assert words[:2] == ["secret", "generic"], words
            pairs = [word.removeprefix("--from-literal=").split("=", 1) for word in words[3:]]
            if not all(value for _, value in pairs):
                refuse("a secret is empty")
            self.put({"kind": "Secret", "metadata": {"name": words[2], "namespace": self.namespace}, "data": dict(pairs)})

    def get(self, words):
        assert words[1:] == ["-o", "name"], words
        kind = NAMES.get(words[0], words[0])
        found = [key.split("/")[2] for key in self.cluster if key.startswith(f"{kind}/{self.namespace}/")]
        if kind == "pod":  # each DaemonSet has one on the one node
            found += [key.split("/")[2] + "-x" for key in self.cluster if key.startswith(f"daemonset/{self.namespace}/")]
        print("\n".join(f"{kind}/{name}" for name in found))

    def exec(self, words):
        assert words[1] == "--" and words[2:] == ["keyhole", "ctl", "reload"], words
        if f"daemonset/{self.namespace}/{words[0].removeprefix('pod/').removesuffix('-x')}" not in self.cluster:
            refuse(f"no {words[0]}")

    def rollout(self, words):
        kind, name = words[1].split("/")
        self.starts(self.find(kind, name)["spec"]["template"]["spec"])

    def logs(self, words):
        if words[0] == "-l":
            label, value = words[1].split("=")
            pods = [d for key, d in self.cluster.items() if key.startswith(f"pod/{self.namespace}/")
                    and d["metadata"].get("labels", {}).get(label) == value]  # fmt: skip
            document, words = (pods or refuse(f"no pod has {words[1]}"))[0], words[1:]
        else:
            document = self.find("pod", words[0])
        spec = document["spec"]
        self.starts(spec)
        if words[1:] and words[2] not in [c["name"] for c in spec["containers"]]:
            refuse(f"no container {words[2]}")
        if not words[1:] and len(spec["containers"]) + len(spec.get("initContainers", [])) > 1:
            refuse("which container?")

    def find(self, kind, name):
        return self.cluster.get(f"{kind}/{self.namespace}/{name}") or refuse(f"no {kind} {name} in {self.namespace}")

    def starts(self, spec):
        """What it mounts is there, and holds the files that the configuration names."""
        texts, secrets = [], {}
        for volume in spec["volumes"]:
            if "configMap" in volume:
                texts += self.find("configmap", volume["configMap"]["name"])["data"].values()
            if "secret" in volume:
                secrets = self.find("secret", volume["secret"]["secretName"])["data"]
        for name in re.findall(r"/etc/keyhole/secrets/(\w+)", " ".join(texts)):
            if name not in secrets:
                refuse(f"the secret has no {name}")


def build(words):
    """podman build -f FILE -t NAME FOLDER: what is copied is there."""
    assert words[0] == "build" and words[1] == "-f" and words[3] == "-t", words
    with open(words[2], encoding="utf-8") as file:
        for copied in re.findall(r"^COPY (?:--chmod=\d+ )?([^-\s]\S*) ", file.read(), re.M):
            if not os.path.exists(os.path.join(words[5], copied)):
                refuse(f"{words[2]}: no {copied}")


def compose(words):
    assert words == ["compose", "up"], words
    with open("compose.yaml", encoding="utf-8") as file:
        services = yaml.safe_load(file)["services"]
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            if not os.path.exists(source):
                refuse(f"{source}: docker would make a folder of root's")


def devcontainer(words):
    assert words[0] in ("up", "exec") and words[1] == "--workspace-folder", words
    if not os.path.isfile(os.path.join(words[2], ".devcontainer", "devcontainer.json")):
        refuse("no devcontainer.json")
    if not os.environ.get("ANTHROPIC_API_KEY"):
        refuse("ANTHROPIC_API_KEY is not set")


def main():
    path, name, words = os.environ["MOCK_STATE"], os.path.basename(sys.argv[0]), sys.argv[1:]
    state = {"lines": [], "cluster": {}}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
    state["lines"].append(" ".join([name, *words]))
    {"kubectl": Kubectl(state["cluster"]).run, "podman": build, "docker": compose, "devcontainer": devcontainer}[name](words)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(state, file)


main()
