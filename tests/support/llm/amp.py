"""amp.py - the mock's Amp: a thread, whose WebSocket carries JSON-RPC, and in which the server asks the model

The program makes a thread (POST /api/thread-actors), gets a token for its WebSocket, and opens that. It says there which
tools it has, and what the person asked for. The server sends the messages of the conversation, and `tool_lease` for each
call of a tool, which the program runs and answers with `executor_tool_result`. None of this is documented: it is what the
program itself asks for and takes.
"""

import json
import secrets
import threading
from urllib.parse import unquote

from script import Item, Tool, Wrong
from websocket import TEXT, messages, put

PARAMETERS = "rivet_conn_params."
# What the program says of itself, and no answer is needed for.
NOTED = ("client_", "executor_", "tool_progress")
RESUMED = {"replayMessageCount": 0, "storedEventCount": 0, "replayThroughSeq": 0}


def protocols_of(request):
    return [one.strip() for one in (request.get("sec-websocket-protocol") or "").split(",")]


def token_of(request):
    """The thread's token, which is one of the parameters in a field."""
    for one in protocols_of(request):
        if one.startswith(PARAMETERS):
            return json.loads(unquote(one.removeprefix(PARAMETERS))).get("wsToken")
    return None


def text_of(result):
    """What of a tool's result a model would read."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict) and isinstance(result.get("output"), str):
        return result["output"]
    return json.dumps(result, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')


class Thread:
    """One conversation; `ask(items, tools)` gives the model's turn, and its usage."""

    def __init__(self, ask):
        self.id, self.token = "T-" + "-".join(secrets.token_hex(n) for n in (4, 2, 2, 2, 6)), secrets.token_hex(24)
        self.ask, self.tools, self.items, self.messages, self.version = ask, {}, [], [], 0
        self.asked, self.ready = False, False  # the model has something to say; all tools are known
        self.lock, self.connections, self.executor = threading.RLock(), [], None

    def describe(self):
        return {"threadId": self.id, "wsToken": self.token, "ownerUserId": "user_1", "threadVersion": self.version,
                "usesThreadActors": True, "executorType": "local-client"}  # fmt: skip

    def tail(self):
        data = {"id": self.id, "v": self.version, "created": 1767225600000, "agentMode": "medium", "messages": self.messages,
                "meta": {"usesThreadActors": True}, "env": {"trees": []}}  # fmt: skip
        first = self.messages[0]["messageId"] if self.messages else None
        return {"thread": {"data": data}, "messages": self.messages, "hasMoreBefore": False, "firstMessageIndex": 0,
                "firstMessageID": first}  # fmt: skip

    def serve(self, connection):
        """One of its WebSockets: the program has one to read and one for its tools."""
        with self.lock:
            self.connections.append(connection)
            put(connection, TEXT, b"pong")  # it is ready
        try:
            for message in messages(connection):
                self.hear(connection, message)
        finally:
            with self.lock:
                self.connections.remove(connection)

    def hear(self, connection, message):
        with self.lock:
            if message == b"ping":
                put(connection, TEXT, b"pong")
                return
            said = json.loads(message)
            method = said.get("method")
            if not method.startswith(NOTED):
                raise Wrong(f"no method {method!r}")
            if "id" in said:
                result = RESUMED if method == "client_resume" else {"ok": True}
                put(connection, TEXT, json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}).encode())
            if method == "executor_connect":
                self.executor = connection
            self.take(method, said.get("params") or {})

    def tell(self, method, to=None, **params):
        for connection in [to] if to else self.connections:
            put(connection, TEXT, json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def take(self, method, params):
        if method == "executor_connect":
            self.tell("executor_connected", executorId=params["clientId"], registeredToolCount=0, guidanceInventory=[],
                      resumeBootstrap=False)  # fmt: skip
        elif method == "executor_tools_register":
            self.tools |= {t["name"]: Tool(t["name"], t["inputSchema"], text=t.get("description") or "") for t in params["tools"]}
        elif method == "client_append_user_msg":
            self.items.append(Item("user", "".join(part.get("text") or "" for part in params["content"])))
            self.add("user", params["content"], params["messageId"])
            self.asked = True
        elif method == "executor_tool_result":
            self.take_result(params["toolCallId"], params["run"])
        self.ready |= method == "executor_tools_bootstrap_complete"
        if self.asked and self.ready:
            self.asked = False
            self.go_on()

    def take_result(self, call, run):
        if run.get("status") not in ("done", "error"):
            return
        self.tell("executor_tool_result_ack", toolCallId=call)
        self.items.append(Item("result", text_of(run.get("result") or run.get("error")), id=call))
        self.add("user", [{"type": "tool_result", "toolUseID": call, "run": run}])
        self.asked = True

    def add(self, role, content, message=None, **more):
        self.version += 1
        message = {"threadId": self.id, "messageId": message or f"M-{secrets.token_hex(11)}", "role": role, "content": content}
        self.messages.append({**message, "readAt": None, "createdAt": "2026-01-01T00:00:00.000Z", **more})
        self.tell("message_added", message=self.messages[-1], seq=self.version)

    def state(self, state, message=None):
        self.tell("agent_state", state=state, agentMode="medium", **({"messageId": message} if message else {}))

    def go_on(self):
        self.state("working")
        turn, usage = self.ask(self.items, list(self.tools.values()))
        message, call = f"M-{secrets.token_hex(11)}", f"TU-{secrets.token_hex(11)}"
        part = {"type": "text", "text": turn.text}
        if turn.tool:
            part = {"type": "tool_use", "id": call, "name": turn.tool.name, "input": turn.arguments, "complete": True}
        self.tell("inference_tools", messageId=message, agentMode="medium", tools=[])
        self.state("streaming", message)
        self.add("assistant", [{**part, "blockState": "complete"}], message, state={"type": "complete"}, usage={
            "model": "a-model", "maxInputTokens": 200_000, "inputTokens": usage["input"], "outputTokens": usage["output"],
            "cacheCreationInputTokens": 0, "cacheReadInputTokens": 0, "totalInputTokens": usage["input"],
            "timestamp": "2026-01-01T00:00:00.000Z", "features": []})  # fmt: skip
        if not turn.tool:
            self.items.append(Item("assistant", turn.text))
            self.state("idle", message)
            return
        self.items.append(Item("call", id=call, name=turn.tool.name))
        self.state("running_tools", message)
        self.tell("tool_lease", self.executor, toolCallId=call, toolName=turn.tool.name, args=turn.arguments, messageId=message)
