"""script.py - what the mock of a model says: scripts of tool calls, for whatever tools an agent offers

A conversation is a list of items, the same for each provider: Item("user"|"assistant", text=…),
Item("call", id=…, name=…), Item("result", id=…, text=…). A prompt names its script and the folder to work
in: "[[work /path/of/project]]". A step is a tool call, and what its result has to contain. Which step is
next is read from the conversation alone, so the mock has no memory. If a result is not as expected,
the answer is "FAILED: …", and what follows is not asked for.
"""

import json
import os
import re
from dataclasses import dataclass, field

MARK = re.compile(r"\[\[(\w+) ([^\]\s]+)\]\]")
REFUSED_HOST = "refused.example.com"
# What says so: keyhole's own words, or another product's (tests/agents/peer.py).
REFUSAL = os.environ.get("MOCK_REFUSAL") or f"keyhole: GET https://{REFUSED_HOST}/data is not allowed"
BEFORE, AFTER = "The first line, as a person wrote it.", "The first line, as the agent wrote it."


class Wrong(Exception):
    """The request is not what the API's documentation allows, or offers no tool that a script needs."""


@dataclass
class Item:
    kind: str
    text: str = ""
    id: str = ""
    name: str = ""


@dataclass
class Tool:
    name: str
    schema: dict
    free: bool = False  # takes text, not JSON
    space: str = ""  # a namespace that it is in
    text: str = ""  # its description


@dataclass
class Step:
    kind: str  # shell, read, edit
    expect: str  # in the result
    values: dict = field(default_factory=dict)


def shell(command, expect):
    return Step("shell", expect, {"command": command})


def work(folder, added="-A"):
    readme = f"{folder}/README.md"
    return [
        shell("printf 'made by %s\\n' agent > made.txt && cat made.txt && pwd", "made by agent"),
        Step("read", BEFORE, {"path": readme}),
        Step("edit", "", {"path": readme, "old": BEFORE, "new": AFTER}),
        shell(f"curl -sS -m 20 https://{REFUSED_HOST}/data; echo", REFUSAL),
        shell(f"head -n 1 README.md; git add {added} && git commit -q -m 'What the agent did' && git log --format=%s -n 1",
              "What the agent did"),
    ]  # fmt: skip


def tool(folder):
    return [shell(f"echo from-the-shell > {folder}/made.txt; cat {folder}/made.txt", "from-the-shell")]


def named(folder):
    """`work`, where the commit names its files."""
    return work(folder, "README.md made.txt")


def none(folder):
    return []


# What `pause`, `reset` and `fault` do to the answer is the server's business (llm.py).
SCRIPTS = {"hello": none, "pause": none, "reset": none, "fault": none, "tool": tool, "work": work, "named": named}

# The tools of the agents, by what they are for; the first that is offered is used.
NAMES = {
    "shell": ["Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command", "exec"],
    "read": ["Read", "read", "read_file"],
    "edit": ["Edit", "edit", "edit_file", "replace", "apply_patch"],
    "code": ["exec"],
}
# Their parameters, by what goes into them.
PARAMETERS = {
    "command": ["command", "cmd"],
    "path": ["file_path", "filePath", "path", "absolute_path"],
    "old": ["old_string", "oldString", "oldText", "old_text", "old_str"],
    "new": ["new_string", "newString", "newText", "new_text", "new_str"],
    "why": ["description", "instruction", "explanation", "justification"],
}


def properties(schema):
    return schema.get("properties") or {}


def fill(schema, values):
    """Arguments of a tool by its schema: each value where a parameter has one of its names."""
    out = {}
    for name, kind in properties(schema).items():
        role = next((r for r, names in PARAMETERS.items() if name in names), None)
        if role in values:
            out[name] = ["bash", "-lc", values[role]] if kind.get("type") == "array" else values[role]
        elif role == "why" and name in schema.get("required", []):
            out[name] = "As the script says"
        elif name == "edits":
            out[name] = [fill(kind.get("items", {}), values)]
    missing = [name for name in schema.get("required", []) if name not in out]
    if missing:
        raise Wrong(f"the script has no value for the parameters {missing} of a tool")
    if len(str(out)) < 3:
        raise Wrong("the tool has no parameter that the script knows")
    return out


def patch(values):
    return (
        f"*** Begin Patch\n*** Update File: {values['path']}\n@@\n-{values['old']}\n+{values['new']}\n*** End Patch\n"
    )


def in_shell(kind, values):
    """For an agent that has a shell and nothing else for it."""
    if kind == "read":
        return {"command": f"cat {values['path']}"}
    return {"command": f"apply_patch <<'END'\n{patch(values)}END"}


def in_codex_code(step):
    """For Codex' tool that runs JavaScript, which calls the others."""
    if step.kind == "edit":
        return f"text(await tools.apply_patch({json.dumps(patch(step.values))}))"
    command = step.values if step.kind == "shell" else in_shell(step.kind, step.values)
    asked = {"cmd": command["command"], "yield_time_ms": 25000}
    return f"const r = await tools.exec_command({json.dumps(asked)}); text(r.output)"


def in_openclaw_code(step):
    """For OpenClaw's, where the shell is one of the tools that have to be looked for."""
    values = step.values
    if step.kind == "shell":
        found = 'const found = await catalog.search("exec run a shell command");'
        return f"{found} return await found.find((t) => t.name === 'exec')({json.dumps(values)})"
    if step.kind == "read":
        return f"return await read({json.dumps(values)})"
    edits = [{"oldText": values["old"], "newText": values["new"]}]
    return f"return await edit({json.dumps({'path': values['path'], 'edits': edits})})"


def call_for(step, tools):
    """(tool, arguments): arguments are text for a tool that is free."""
    for one in tools:
        if one.name in NAMES["code"] and one.free:
            return one, in_codex_code(step)
        if one.name in NAMES["code"] and "code" in properties(one.schema):
            return one, {"code": in_openclaw_code(step)}
    for kind, values in ((step.kind, step.values), ("shell", None)):
        for name in NAMES[kind]:
            for one in tools:
                if one.name != name:
                    continue
                values = in_shell(step.kind, step.values) if values is None else values
                if name == "apply_patch":
                    text = patch(step.values)
                    return (one, text) if one.free else (one, {"input": text})
                return one, fill(one.schema, values)
    raise Wrong(f"no tool to {step.kind}: offered are " + (", ".join(t.name for t in tools) or "none"))


@dataclass
class Turn:
    """What the model says next: a text, or a call of a tool."""

    text: str = ""
    tool: Tool = None
    arguments: object = None
    step: int = 0
    script: str = ""


def check_pairs(items):
    """Each result answers a call that was made before, and a call has one result at most."""
    calls, results = set(), set()
    for item in items:
        if item.kind == "call":
            calls.add(item.id)
        elif item.kind == "result":
            if item.id not in calls:
                raise Wrong(f"a result of a call {item.id!r} that was not made")
            if item.id in results:
                raise Wrong(f"two results of the call {item.id!r}")
            results.add(item.id)
    if calls - results:
        raise Wrong(f"calls without a result: {sorted(calls - results)}")


def is_useful(tool):
    """Of a tool that runs code it depends on what the code may call."""
    if tool.name in NAMES["code"] and (tool.free or "code" in properties(tool.schema)):
        return "exec_command" in tool.text or not tool.free
    return any(tool.name in names for kind, names in NAMES.items() if kind != "code")


# A tool that runs code may say that it is not done yet; another one waits for it, by this parameter.
WAITING = {"runId": re.compile(r'"status":"waiting","runId":"([^"]+)"'), "cell_id": re.compile(r"running with cell ID (\w+)")}


def unfinished(text):
    """Return: the parameter and its value by which to wait for the result, or None."""
    return next(((name, found[1]) for name, pattern in WAITING.items() if (found := pattern.search(text))), None)


def next_turn(items, tools, end):
    """`end`: the text that a script ends with."""
    check_pairs(items)
    waits = next((tool for tool in tools if tool.name == "wait"), None)
    tools = [tool for tool in tools if is_useful(tool)]
    start, found = max(
        ((at, MARK.findall(i.text)) for at, i in enumerate(items) if i.kind == "user" and MARK.search(i.text)),
        default=(0, None), key=lambda one: one[0],
    )  # fmt: skip
    if not found or not tools:
        return Turn(text=end)
    name, folder = found[-1]
    if name not in SCRIPTS:
        raise Wrong(f"no script {name}")
    steps = SCRIPTS[name](folder)
    results = [i.text for i in items[start:] if i.kind == "result"]
    if results and waits and (by := unfinished(results[-1])):
        return Turn(tool=waits, arguments=dict([by]), script=name)
    results = [text for text in results if not (waits and unfinished(text))]
    for number, (step, said) in enumerate(zip(steps, results), 1):
        if step.expect not in said:
            return Turn(text=f"FAILED: step {number} ({step.kind}): {said[:600]}", script=name, step=number)
    if len(results) >= len(steps):
        return Turn(text=end, script=name, step=len(steps))
    used, arguments = call_for(steps[len(results)], tools)
    return Turn(tool=used, arguments=arguments, script=name, step=len(results) + 1)
