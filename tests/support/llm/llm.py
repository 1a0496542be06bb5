#!/usr/bin/python3
"""llm.py - a strict, scripted mock for the providers of models, under their own names

One server for all, told apart by the host of the request; what is common (TLS, HTTP/1.1, the log) is
deploy/demo/mock_upstream.py, and HTTP/2 is http2.py (not, where MOCK_NO_HTTP2 is set). Each provider has a key of its own (`key_of`), and whatever else comes as a key is
answered with 401. A request that the API's documentation does not allow is answered with 400, and one
that nothing here answers with 404; both are in the log as `wrong`. What the model says is in script.py.

  api.anthropic.com                  POST /v1/messages, plain and streamed, with tools; count_tokens; models
  api.openai.com                     POST /v1/responses and /v1/chat/completions, plain and streamed, with tools;
                                     /v1/responses over a WebSocket (not, where MOCK_NO_WEBSOCKET is set: 426); models
  openrouter.ai                      POST /api/v1/chat/completions; models
  generativelanguage.googleapis.com  generateContent, streamGenerateContent, countTokens; models
  bedrock-runtime.us-east-1.amazonaws.com
                                     POST /model/…/invoke and converse, plain and as event streams (bedrock.py)
  bedrock.us-east-1.amazonaws.com    GET /inference-profiles, /foundation-models
  ampcode.com                        Amp's account, and its threads, whose WebSocket asks the model (amp.py)
  platform.claude.com                GET /v1/oauth/hello, without a key

Three scripts end an answer otherwise than it should, in the middle of a stream: `pause` goes on after MOCK_PAUSE
seconds; `reset` breaks the connection off, and `fault` sends the API's own error event, each once per server.

The log also has `stream` for each answer that is sent piece by piece (with its media type, or `websocket`), and
`usage` for the tokens that an answer states: `input` and `output`, together or in two events, right before they are sent.
"""

import json
import os
import re
import secrets
import ssl
import sys
import time
from urllib.parse import unquote

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../../deploy/demo")]
import amp  # noqa: E402
import bedrock  # noqa: E402
import mock_upstream as mock_module  # noqa: E402
from http2 import Http2  # noqa: E402
from script import Item, Tool, Turn, Wrong, next_turn  # noqa: E402
from websocket import TEXT, accept_for, messages, put  # noqa: E402

# The hosts, and how a key of theirs begins.
PREFIXES = {
    "api.anthropic.com": "sk-ant-api03-",
    "api.openai.com": "sk-proj-",
    "openrouter.ai": "sk-or-v1-",
    "generativelanguage.googleapis.com": "AIza",
    bedrock.RUNTIME: "ABSK",
    bedrock.CONTROL: "ABSK",
    "ampcode.com": "sgamp_user_",
}
HOSTS = [*PREFIXES, "platform.claude.com"]


def key_of(host, secret):
    return PREFIXES[host] + secret


def value_of(variable, host, secret):
    """The real key in a variable of an agent's that asks this host."""
    signs = {"AWS_ACCESS_KEY_ID": bedrock.access_key_id(secret), "AWS_SECRET_ACCESS_KEY": secret}
    return signs.get(variable) or key_of(host, secret)


def halves(text):
    return text[: len(text) // 2], text[len(text) // 2 :]


def text_of(content, kinds=("text", "input_text", "output_text")):
    """Of a text, or of a list of parts."""
    if isinstance(content, str):
        return content
    parts = content or []
    return "\n".join(p.get("text") or "" for p in parts if isinstance(p, dict) and p.get("type") in kinds)


def need(what, condition):
    if not condition:
        raise Wrong(what)


# --- Anthropic ------------------------------------------------------------------------------------


def anthropic_items(what):
    items = []
    need("messages: Field required", isinstance(what.get("messages"), list) and what["messages"])
    for message in what["messages"]:
        role, content = message.get("role"), message.get("content")
        need(f"messages: role {role!r}", role in ("user", "assistant", "system"))
        if isinstance(content, str):
            items.append(Item("user" if role == "system" else role, content))
            continue
        for part in content:
            kind = part.get("type")
            if kind == "tool_use":
                need("tool_use in a message of the user", role == "assistant")
                items.append(Item("call", id=part["id"], name=part["name"]))
            elif kind == "tool_result":
                need("tool_result in a message of the assistant", role == "user")
                items.append(Item("result", text_of(part.get("content")), id=part["tool_use_id"]))
            elif kind == "text":
                items.append(Item("user" if role == "system" else role, part["text"]))
    return items


def anthropic_tools(what):
    return [Tool(t["name"], t["input_schema"]) for t in what.get("tools") or [] if "input_schema" in t]


def anthropic_block(turn):
    if not turn.tool:
        return {"type": "text", "text": turn.text}
    return {"type": "tool_use", "id": "toolu_" + secrets.token_hex(12), "name": turn.tool.name, "input": turn.arguments}


# --- OpenAI ---------------------------------------------------------------------------------------


def responses_items(what):
    given, items = what.get("input"), []
    need("input: missing", given is not None)
    if isinstance(given, str):
        return [Item("user", given)]
    for one in given:
        kind = one.get("type") or "message"
        if kind == "message":
            need(f"input: role {one.get('role')!r}", one.get("role") in ("user", "assistant", "system", "developer"))
            role = one["role"] if one["role"] in ("user", "assistant") else "system"
            items.append(Item(role, text_of(one.get("content"))))
        elif kind in ("function_call", "custom_tool_call"):
            items.append(Item("call", id=one["call_id"], name=one["name"]))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            output = one["output"]
            items.append(Item("result", output if isinstance(output, str) else text_of(output), id=one["call_id"]))
        else:
            need(f"input: type {kind!r}", kind in ("reasoning", "additional_tools", "configuration_update"))
    return items


def responses_tools(what):
    given = list(what.get("tools") or [])
    for one in what["input"] if isinstance(what.get("input"), list) else []:
        if one.get("type") == "additional_tools":
            given += one.get("tools") or []
    return [tool for one in given for tool in responses_tool(one, "")]


def responses_tool(one, space):
    if one.get("type") == "namespace":
        return [tool for each in one.get("tools") or [] for tool in responses_tool(each, one["name"])]
    if one.get("type") == "custom":
        return [Tool(one["name"], {}, free=True, space=space, text=one.get("description") or "")]
    return [Tool(one["name"], one.get("parameters") or {}, space=space)] if one.get("type") == "function" else []


def responses_output(turn):
    if not turn.tool:
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        return {"type": "message", "id": "msg_" + secrets.token_hex(12), "role": "assistant", "status": "completed",
                "content": [part]}  # fmt: skip
    call = {"call_id": "call_" + secrets.token_hex(12), "name": turn.tool.name, "status": "completed"}
    if turn.tool.space:
        call["namespace"] = turn.tool.space
    if turn.tool.free:
        return {"type": "custom_tool_call", "id": "ctc_" + secrets.token_hex(12), "input": turn.arguments, **call}
    return {"type": "function_call", "id": "fc_" + secrets.token_hex(12), "arguments": json.dumps(turn.arguments), **call}


def chat_items(what):
    items = []
    need("messages: missing", isinstance(what.get("messages"), list) and what["messages"])
    for message in what["messages"]:
        role = message.get("role")
        need(f"messages: role {role!r}", role in ("user", "assistant", "system", "developer", "tool"))
        if role == "tool":
            items.append(Item("result", text_of(message.get("content")), id=message["tool_call_id"]))
            continue
        if text := text_of(message.get("content")):
            items.append(Item(role if role in ("user", "assistant") else "system", text))
        items += [Item("call", id=c["id"], name=c["function"]["name"]) for c in message.get("tool_calls") or []]
    return items


def chat_tools(what):
    return [Tool(t["function"]["name"], t["function"].get("parameters") or {})
            for t in what.get("tools") or [] if t.get("type") == "function"]  # fmt: skip


# --- Gemini ---------------------------------------------------------------------------------------


def gemini_items(what):
    items, made, answered = [], 0, 0
    need("contents: missing", isinstance(what.get("contents"), list) and what["contents"])
    for content in what["contents"]:
        role = content.get("role", "user")
        need(f"contents: role {role!r}", role in ("user", "model", "function"))
        for part in content.get("parts") or []:
            if "functionCall" in part:
                need("functionCall of the user", role == "model")
                made += 1
                items.append(Item("call", id=str(made), name=part["functionCall"]["name"]))
            elif "functionResponse" in part:
                answered += 1
                said = part["functionResponse"].get("response") or {}
                items.append(Item("result", str(said.get("output") or said), id=str(answered)))
            elif part.get("text") and not part.get("thought"):
                items.append(Item("assistant" if role == "model" else "user", part["text"]))
    return items


def gemini_tools(what):
    out = []
    for group in what.get("tools") or []:
        for one in group.get("functionDeclarations") or []:
            out.append(Tool(one["name"], one.get("parametersJsonSchema") or one.get("parameters") or {}))
    return out


def of_schema(schema):
    """A value that a JSON Schema allows: a router of Gemini CLI asks for one, and no text will do."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type", "object")).lower()
    if kind == "object":
        return {name: of_schema(one) for name, one in (schema.get("properties") or {}).items()}
    return {"array": [], "string": "as the script says", "boolean": False}.get(kind, 1)


# --- the server -----------------------------------------------------------------------------------


class Llm(mock_module.Mock):
    said = {}  # what was said until a response of OpenAI's, by its id
    refuse_websockets = bool(os.environ.get("MOCK_NO_WEBSOCKET"))
    pause = float(os.environ.get("MOCK_PAUSE") or 0)
    threads = {}  # Amp's, by their id
    broken = set()  # scripts that have broken an answer

    def __init__(self, key, context, *args):
        super().__init__(key, context, *args)
        if context and not os.environ.get("MOCK_NO_HTTP2"):
            context.set_alpn_protocols(["h2", "http/1.1"])

    def converse(self, connection):
        if isinstance(connection.sock, ssl.SSLSocket) and connection.sock.selected_alpn_protocol() == "h2":
            Http2(connection).run()
        else:
            connection.serve()

    def key(self, request):
        return (request.get("x-goog-api-key") or "").encode("latin-1") or bedrock.signer_of(request) or request.key()

    def is_real(self, request):
        host, key = request.get("host"), self.key(request)
        if host in (bedrock.RUNTIME, bedrock.CONTROL) and bedrock.signer_of(request):
            return bedrock.is_well_signed(request, self.real_key.decode())
        return host in PREFIXES and key is not None and secrets.compare_digest(
            key, key_of(host, self.real_key.decode()).encode()
        )  # fmt: skip

    def log_request(self, connection, request):
        key = self.key(request)
        self.log(
            event="request", conn=connection.number, sni=connection.sni, method=request.method,
            target=re.sub(r"key=[^&]*", "key=…", request.target), version=request.version, host=request.get("host"),
            fields=[n.lower() for n, _ in request.fields], key=None if key is None else mock_module.fingerprint(key),
            test_id=request.get("x-test-id"),
        )  # fmt: skip

    def error(self, connection, request, status, kind, message):
        self.log(event="wrong", host=request.get("host"), method=request.method, target=request.path,
                 status=status, why=message)  # fmt: skip
        if request.get("host") in (bedrock.RUNTIME, bedrock.CONTROL):
            connection.reply(request, status, {"message": message}, fields=[("x-amzn-errortype", kind)])
            return
        error = {"type": kind, "message": message}
        if request.get("host") == "generativelanguage.googleapis.com":
            error = {"code": status, "message": message, "status": kind.upper()}
        connection.reply(request, status, {"type": "error", "error": error})

    def api(self, connection, request):
        host = request.get("host")
        open_to_all = host == "platform.claude.com" or request.path.startswith("/actors/")
        if host not in HOSTS:
            self.error(connection, request, 404, "not_found_error", "there is no such host here")
            return
        if host in (bedrock.RUNTIME, bedrock.CONTROL) and not self.is_real(request):
            self.error(connection, request, 403, "AccessDeniedException", "this is not the real key")
            return
        if not open_to_all and not self.is_real(request):
            self.error(connection, request, 401, "authentication_error", "this is not the real key")
            return
        method = "GET" if request.method == "HEAD" else request.method
        for where, wanted, pattern, handler in LLM_ROUTES:
            if host == where and method == wanted and (match := re.fullmatch(pattern, request.path)):
                break
        else:
            self.error(connection, request, 404, "not_found_error", "there is nothing at this path")
            return
        try:
            handler(self, connection, request, *match.groups())
        except Wrong as why:
            self.error(connection, request, 400, "invalid_request_error", str(why))
        except (KeyError, TypeError, AttributeError) as why:
            self.error(connection, request, 400, "invalid_request_error", f"{type(why).__name__}: {why}")

    def content(self, request):
        try:
            what = json.loads(request.body)
        except ValueError:
            raise Wrong("the content is not JSON") from None
        need("the content is no object", isinstance(what, dict))
        return what

    def turn(self, request, what, items, tools):
        end = f"All done. The key has the fingerprint {mock_module.fingerprint(self.key(request))}."
        turn = next_turn(items, tools, end)
        self.log(event="turn", host=request.get("host"), model=what.get("model"), script=turn.script, step=turn.step,
                 tool=turn.tool and turn.tool.name, offered=[t.name for t in tools], text=turn.text,
                 said=[i.text[:800] for i in items if i.kind == "result"][-1:])  # fmt: skip
        return turn

    def midstream(self, connection, turn, fail):
        """What the script asks for in the middle of an answer; `fail` sends the API's error. Return: the answer goes on."""
        if turn.script == "pause":
            self.log(event="pause", seconds=self.pause)
            time.sleep(self.pause)
            return True
        with self.lock:
            if turn.script not in ("reset", "fault") or turn.script in self.broken:
                return True
            self.broken.add(turn.script)
        self.log(event="broken", how=turn.script)
        if turn.script == "reset":
            time.sleep(0.2)  # what was sent has arrived
            connection.break_off()
            raise mock_module.Gone("reset, as asked")
        fail()
        return False

    def log_usage(self, request, **tokens):
        self.log(event="usage", host=request.get("host"), target=request.path, **tokens)

    def begin_events(self, connection, request, kind="text/event-stream; charset=utf-8"):
        self.log(event="stream", conn=connection.number, host=request.get("host"), target=request.path, kind=kind)
        connection.head(200, [("content-type", kind), ("cache-control", "no-cache"),
                              ("transfer-encoding", "chunked"), *self.common_fields(request)])  # fmt: skip

    def empty_answer(self, connection, request, *_):
        connection.reply(request, 200, {})

    def none_there(self, connection, request, *_):
        """What an organisation without settings of its own gets."""
        connection.reply(request, 404, {"type": "error", "error": {"type": "not_found_error", "message": "Not found"}})

    # Anthropic

    def anthropic_messages(self, connection, request):
        what = self.content(request)
        need("max_tokens: Field required", isinstance(what.get("max_tokens"), int))
        need("model: Field required", isinstance(what.get("model"), str))
        need("anthropic-version: header is required", request.get("anthropic-version"))
        turn, message = self.anthropic_message(request, what)
        if not what.get("stream"):
            self.anthropic_whole(connection, request, message)
            return
        self.begin_events(connection, request)

        def event(data):
            connection.chunk(f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode())

        def fail():
            event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

        self.anthropic_events(connection, request, turn, message, event, fail)

    def anthropic_whole(self, connection, request, message):
        self.log_usage(request, input=message["usage"]["input_tokens"], output=message["usage"]["output_tokens"])
        connection.reply(request, 200, message)

    def anthropic_message(self, request, what):
        turn = self.turn(request, what, anthropic_items(what), anthropic_tools(what))
        stop = "tool_use" if turn.tool else "end_turn"
        usage = {"input_tokens": 1 + len(request.body) // 4, "cache_creation_input_tokens": 0,
                 "cache_read_input_tokens": 0, "output_tokens": 17}  # fmt: skip
        return turn, {"id": "msg_" + secrets.token_hex(12), "type": "message", "role": "assistant", "model": what["model"],
                      "content": [anthropic_block(turn)], "stop_reason": stop, "stop_sequence": None, "usage": usage}  # fmt: skip

    def anthropic_events(self, connection, request, turn, message, send, fail):
        def event(kind, **rest):
            send({"type": kind, **rest})

        block = message["content"][0]
        kind, field = ("input_json_delta", "partial_json") if turn.tool else ("text_delta", "text")
        first, second = halves(json.dumps(turn.arguments) if turn.tool else turn.text)
        usage = message["usage"]
        self.log_usage(request, input=usage["input_tokens"])
        event("message_start", message=dict(message, content=[], stop_reason=None, usage={**usage, "output_tokens": 1}))
        event("content_block_start", index=0, content_block=dict(block, **({"input": {}} if turn.tool else {"text": ""})))
        event("ping")
        event("content_block_delta", index=0, delta={"type": kind, field: first})
        if self.midstream(connection, turn, fail):
            event("content_block_delta", index=0, delta={"type": kind, field: second})
            event("content_block_stop", index=0)
            self.log_usage(request, output=usage["output_tokens"])
            event("message_delta", delta={"stop_reason": message["stop_reason"], "stop_sequence": None},
                  usage={"output_tokens": usage["output_tokens"]})  # fmt: skip
            event("message_stop")
        connection.last_chunk()

    def anthropic_count(self, connection, request):
        what = self.content(request)
        anthropic_items(what)
        connection.reply(request, 200, {"input_tokens": 1 + len(request.body) // 4})

    def anthropic_models(self, connection, request):
        self.models(connection, request)

    # OpenAI

    def responses(self, connection, request):
        what = self.content(request)
        turn, events = self.responses_events(request, what)
        if not what.get("stream"):
            self.responses_usage(request, events[-1])
            connection.reply(request, 200, events[-1]["response"])
            return
        self.begin_events(connection, request)

        def send(event):
            connection.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def fail():
            send({"type": "error", "code": "server_error", "message": "The server had an error", "param": None,
                  "sequence_number": 5})  # fmt: skip

        self.responses_send(connection, request, turn, events, send, fail)
        connection.last_chunk()

    def responses_usage(self, request, event):
        if usage := (event.get("response") or {}).get("usage"):
            self.log_usage(request, input=usage["input_tokens"], output=usage["output_tokens"])

    def responses_send(self, connection, request, turn, events, send, fail):
        middle = next((at for at, event in enumerate(events) if event["type"].endswith("delta")), -1)
        for at, event in enumerate(events):
            self.responses_usage(request, event)
            send(event)
            if at == middle and not self.midstream(connection, turn, fail):
                return

    def responses_events(self, request, what):
        """(turn, what is sent while the answer is made, in order; the last one has all of it)."""
        need("model: missing", isinstance(what.get("model"), str))
        before = what.get("previous_response_id")
        need(f"no response {before!r}", before is None or before in self.said)
        given = what.get("input")
        given = [{"role": "user", "content": given}] if isinstance(given, str) else given
        need("input: missing", isinstance(given, list))
        what["input"] = self.said.get(before, []) + given
        turn = self.turn(request, what, responses_items(what), responses_tools(what))
        output, size = responses_output(turn), len(json.dumps(what))
        usage = {"input_tokens": 1 + size // 4, "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens": 17, "output_tokens_details": {"reasoning_tokens": 0},
                 "total_tokens": 18 + size // 4}  # fmt: skip
        response = {"id": "resp_" + secrets.token_hex(12), "object": "response", "created_at": 1767225600,
                    "status": "completed", "model": what["model"], "output": [output], "usage": usage, "error": None,
                    "incomplete_details": None, "parallel_tool_calls": True, "tools": [], "metadata": {}}  # fmt: skip
        events = []

        def event(kind, **rest):
            events.append({"type": kind, "sequence_number": len(events), **rest})

        begun = dict(response, status="in_progress", output=[], usage=None)
        place = {"output_index": 0, "item_id": output["id"]}
        event("response.created", response=begun)
        event("response.in_progress", response=begun)
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "custom_tool_call": {"input": ""}}
        event("response.output_item.added", output_index=0,
              item={**output, **empty[output["type"]], "status": "in_progress"})  # fmt: skip
        if output["type"] == "message":
            part = output["content"][0]
            event("response.content_part.added", content_index=0, part=dict(part, text=""), **place)
            first, second = halves(turn.text)
            event("response.output_text.delta", content_index=0, delta=first, logprobs=[], **place)
            event("response.output_text.delta", content_index=0, delta=second, logprobs=[], **place)
            event("response.output_text.done", content_index=0, text=turn.text, logprobs=[], **place)
            event("response.content_part.done", content_index=0, part=part, **place)
        elif output["type"] == "function_call":
            event("response.function_call_arguments.delta", delta=output["arguments"], **place)
            event("response.function_call_arguments.done", arguments=output["arguments"], **place)
        else:
            event("response.custom_tool_call_input.delta", delta=output["input"], **place)
            event("response.custom_tool_call_input.done", input=output["input"], **place)
        event("response.output_item.done", output_index=0, item=output)
        event("response.completed", response=response)
        self.said[response["id"]] = what["input"] + response["output"]
        return turn, events

    def responses_websocket(self, connection, request):
        """One message asks for an answer, and what it names as the previous one is not sent again."""
        key = request.get("sec-websocket-key")
        if (request.get("upgrade") or "").lower() != "websocket" or not key or self.refuse_websockets:
            connection.reply(request, 426, {"error": {"message": "no WebSocket", "type": "invalid_request_error"}})
            return
        connection.head(101, [("upgrade", "websocket"), ("connection", "Upgrade"),
                              ("sec-websocket-accept", accept_for(key)), *self.common_fields(request)],
                        "Switching Protocols")  # fmt: skip
        self.log(event="stream", conn=connection.number, host=request.get("host"), target=request.path, kind="websocket")
        for message in messages(connection):
            try:
                what = json.loads(message)
                need("not a response.create", what.get("type") == "response.create")
                if what.get("generate") is False:
                    response = {"id": "resp_" + secrets.token_hex(12), "object": "response", "model": what["model"],
                                "status": "completed", "output": [], "usage": None}  # fmt: skip
                    turn = Turn()
                    events = [{"type": "response.created", "sequence_number": 0, "response": response},
                              {"type": "response.completed", "sequence_number": 1, "response": response}]  # fmt: skip
                    self.said[response["id"]] = what["input"]
                else:
                    turn, events = self.responses_events(request, what)
            except (Wrong, KeyError, TypeError, ValueError) as why:
                error = {"type": "invalid_request_error", "message": str(why)}
                turn, events = Turn(), [{"type": "error", "status": 400, "error": error}]
                self.log(event="wrong", host=request.get("host"), method="message", target=request.path, status=400,
                         why=str(why))  # fmt: skip
            failed = {"type": "error", "status": 500,
                      "error": {"type": "server_error", "code": "server_error", "message": "The server had an error"}}  # fmt: skip

            def send(event):
                put(connection, TEXT, json.dumps(event).encode())

            self.responses_send(connection, request, turn, events, send, lambda: send(failed))  # noqa: B023
        connection.keep = False

    def chat(self, connection, request):
        what = self.content(request)
        need("model: missing", isinstance(what.get("model"), str))
        turn = self.turn(request, what, chat_items(what), chat_tools(what))
        message = {"role": "assistant", "content": turn.text or None}
        if turn.tool:
            message["tool_calls"] = [{"id": "call_" + secrets.token_hex(12), "type": "function", "index": 0,
                                      "function": {"name": turn.tool.name, "arguments": json.dumps(turn.arguments)}}]  # fmt: skip
        finish = "tool_calls" if turn.tool else "stop"
        answer = {"id": "chatcmpl-" + secrets.token_hex(12), "created": 1767225600, "model": what["model"]}
        usage = {"prompt_tokens": 1 + len(request.body) // 4, "completion_tokens": 17,
                 "total_tokens": 18 + len(request.body) // 4}  # fmt: skip
        if not what.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
            self.log_usage(request, input=usage["prompt_tokens"], output=usage["completion_tokens"])
            connection.reply(request, 200, {**answer, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        self.begin_events(connection, request)

        def event(choices, **more):
            data = {**answer, "object": "chat.completion.chunk", "choices": choices, **more}
            connection.chunk(f"data: {json.dumps(data)}\n\n".encode())

        def fail():
            error = {"message": "The server had an error", "type": "server_error", "param": None, "code": None}
            connection.chunk(f"data: {json.dumps({'error': error})}\n\n".encode())

        first, second = halves(turn.text or "")
        event([{"index": 0, "delta": {**message, "content": first or None}, "finish_reason": None}])
        if not self.midstream(connection, turn, fail):
            connection.last_chunk()
            return
        if second:
            event([{"index": 0, "delta": {"content": second}, "finish_reason": None}])
        event([{"index": 0, "delta": {}, "finish_reason": finish}])
        self.log_usage(request, input=usage["prompt_tokens"], output=usage["completion_tokens"])
        event([], usage=usage)
        connection.chunk(b"data: [DONE]\n\n")
        connection.last_chunk()

    def embeddings(self, connection, request):
        what = self.content(request)
        texts = what["input"] if isinstance(what["input"], list) else [what["input"]]
        data = [{"object": "embedding", "index": n, "embedding": [0.5] * 1536} for n in range(len(texts))]
        self.log_usage(request, input=1)
        connection.reply(request, 200, {"object": "list", "model": what["model"], "data": data,
                                        "usage": {"prompt_tokens": 1, "total_tokens": 1}})  # fmt: skip

    def openai_models(self, connection, request, *_):
        names = ["gpt-5.5", "gpt-5-mini"]
        data = [{"id": n, "object": "model", "created": 1767225600, "owned_by": "openai"} for n in names]
        connection.reply(request, 200, {"object": "list", "data": data})

    # Gemini

    def gemini(self, connection, request, model, verb):
        what = self.content(request)
        items = gemini_items(what)
        if verb == "countTokens":
            connection.reply(request, 200, {"totalTokens": 1 + len(request.body) // 4})
            return
        settings = what.get("generationConfig") or {}
        schema = settings.get("responseJsonSchema") or settings.get("responseSchema")
        turn = Turn()
        if schema:
            part = {"text": json.dumps(of_schema(schema))}
        else:
            turn = self.turn(request, {"model": model}, items, gemini_tools(what))
            part = {"text": turn.text}
            if turn.tool:
                part = {"functionCall": {"name": turn.tool.name, "args": turn.arguments}}
        end = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        answer = {"candidates": [end],
                  "usageMetadata": {"promptTokenCount": 1 + len(request.body) // 4, "candidatesTokenCount": 17,
                                    "totalTokenCount": 18 + len(request.body) // 4},
                  "modelVersion": model, "responseId": secrets.token_hex(12)}  # fmt: skip
        tokens = {"input": answer["usageMetadata"]["promptTokenCount"], "output": answer["usageMetadata"]["candidatesTokenCount"]}
        if verb == "generateContent":
            self.log_usage(request, **tokens)
            connection.reply(request, 200, answer)
            return
        need("streamGenerateContent: only alt=sse is answered", request.argument("alt") == "sse")
        self.begin_events(connection, request)

        def event(data):
            connection.chunk(f"data: {json.dumps(data)}\r\n\r\n".encode())

        def fail():
            event({"error": {"code": 503, "message": "The model is overloaded", "status": "UNAVAILABLE"}})

        if "text" in part and not schema:
            first, part["text"] = halves(part["text"])
            begun = {name: value for name, value in answer.items() if name != "usageMetadata"}
            event({**begun, "candidates": [{"content": {"role": "model", "parts": [{"text": first}]}, "index": 0}]})
        if self.midstream(connection, turn, fail):
            self.log_usage(request, **tokens)
            event(answer)
        connection.last_chunk()

    def gemini_models(self, connection, request, *_):
        connection.reply(request, 200, {"models": [{"name": "models/gemini-2.5-pro", "version": "1"}]})

    # Bedrock

    def bedrock(self, connection, request, model, verb):
        what = self.content(request)
        model = unquote(model)
        if verb == "count-tokens":
            connection.reply(request, 200, {"inputTokens": 1 + len(request.body) // 4})
        elif verb.startswith("invoke"):
            self.bedrock_invoke(connection, request, what, model, verb != "invoke")
        else:
            self.bedrock_converse(connection, request, what, model, verb != "converse")

    def bedrock_invoke(self, connection, request, what, model, streams):
        need("anthropic_version: Field required", what.get("anthropic_version") == "bedrock-2023-05-31")
        need("max_tokens: Field required", isinstance(what.get("max_tokens"), int))
        need("model, stream: Extra inputs are not permitted", not {"model", "stream"} & set(what))
        turn, message = self.anthropic_message(request, {**what, "model": model})
        if not streams:
            self.anthropic_whole(connection, request, message)
            return
        self.begin_events(connection, request, "application/vnd.amazon.eventstream")
        self.anthropic_events(connection, request, turn, message, lambda data: connection.chunk(bedrock.chunk(data)),
                              lambda: self.bedrock_fail(connection))  # fmt: skip

    def bedrock_converse(self, connection, request, what, model, streams):
        turn = self.turn(request, {"model": model}, bedrock.items(what), bedrock.tools(what))
        stop = "tool_use" if turn.tool else "end_turn"
        usage = {"inputTokens": 1 + len(request.body) // 4, "outputTokens": 17, "totalTokens": 18 + len(request.body) // 4}
        call = turn.tool and {"toolUseId": "tooluse_" + secrets.token_hex(11), "name": turn.tool.name}
        if not streams:
            part = {"toolUse": {**call, "input": turn.arguments}} if call else {"text": turn.text}
            self.log_usage(request, input=usage["inputTokens"], output=usage["outputTokens"])
            connection.reply(request, 200, {"output": {"message": {"role": "assistant", "content": [part]}},
                                            "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 1}})  # fmt: skip
            return
        self.begin_events(connection, request, "application/vnd.amazon.eventstream")

        def event(kind, **payload):
            connection.chunk(bedrock.event(kind, payload))

        pieces = [{"toolUse": {"input": json.dumps(turn.arguments)}}] if call else [{"text": t} for t in halves(turn.text)]
        event("messageStart", role="assistant")
        if call:
            event("contentBlockStart", contentBlockIndex=0, start={"toolUse": call})
        event("contentBlockDelta", contentBlockIndex=0, delta=pieces[0])
        if self.midstream(connection, turn, lambda: self.bedrock_fail(connection)):
            for piece in pieces[1:]:
                event("contentBlockDelta", contentBlockIndex=0, delta=piece)
            event("contentBlockStop", contentBlockIndex=0)
            event("messageStop", stopReason=stop)
            self.log_usage(request, input=usage["inputTokens"], output=usage["outputTokens"])
            event("metadata", usage=usage, metrics={"latencyMs": 1})
        connection.last_chunk()

    def bedrock_fail(self, connection):
        connection.chunk(bedrock.exception("internalServerException", "The server had an error"))

    def bedrock_lists(self, connection, request, name):
        field = {"inference-profiles": "inferenceProfileSummaries", "foundation-models": "modelSummaries"}[name]
        connection.reply(request, 200, {field: []})

    # Amp

    def amp_internal(self, connection, request):
        user = {"id": "user_1", "username": "person", "email": "person@example.com", "team": None, "features": []}
        what = self.content(request)
        results = {"getUserInfo": user, "loadPlugins": [], "loadSkills": {"sources": []}, "listAgentModes": []}
        result = results.get(what["method"], {})
        if what["method"] in ("getThreadTail", "getThreadInitialTranscriptPage"):
            result = self.threads[what["params"]["thread"]].tail()
        connection.reply(request, 200, {"ok": True, "result": result})

    def amp_thread(self, connection, request):
        key = mock_module.fingerprint(self.key(request))
        thread = self.threads.get(self.content(request).get("threadId"))
        if not thread:
            thread = amp.Thread(lambda items, tools: self.amp_turn(key, items, tools))
            self.threads[thread.id] = thread
        connection.reply(request, 200, thread.describe())

    def amp_turn(self, key, items, tools):
        turn = next_turn(items, tools, f"All done. The key has the fingerprint {key}.")
        usage = {"input": 1 + sum(len(i.text) for i in items) // 4, "output": 17}
        self.log(event="turn", host=AMP, script=turn.script, step=turn.step, tool=turn.tool and turn.tool.name, text=turn.text,
                 offered=[t.name for t in tools], said=[i.text[:800] for i in items if i.kind == "result"][-1:])  # fmt: skip
        self.log(event="usage", host=AMP, target="/actors", **usage)
        return turn, usage

    def amp_websocket(self, connection, request):
        """Its key is the token of the thread, which was made for the real one."""
        thread, key = self.threads.get(request.argument("rvt-key")), request.get("sec-websocket-key")
        if not thread or not key or amp.token_of(request) != thread.token:
            self.error(connection, request, 401, "authentication_error", "this is no thread's token")
            return
        connection.head(101, [("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-accept", accept_for(key)),
                              ("sec-websocket-protocol", amp.protocols_of(request)[0])], "Switching Protocols")  # fmt: skip
        self.log(event="stream", conn=connection.number, host=AMP, target=request.path, kind="websocket")
        try:
            thread.serve(connection)
        except (Wrong, KeyError, TypeError, ValueError) as why:
            self.log(event="wrong", host=AMP, method="message", target=request.path, status=400, why=str(why))
        connection.keep = False


ANTHROPIC, OPENAI, OPENROUTER, GEMINI, BEDROCK, BEDROCK_CONTROL, AMP = PREFIXES
LLM_ROUTES = [
    (ANTHROPIC, "POST", r"/v1/messages", Llm.anthropic_messages),
    (ANTHROPIC, "POST", r"/v1/messages/count_tokens", Llm.anthropic_count),
    (ANTHROPIC, "GET", r"/v1/models", Llm.anthropic_models),
    (ANTHROPIC, "GET", r"/api/hello", Llm.empty_answer),
    (ANTHROPIC, "GET", r"/api/claude_code/(settings|policy_limits)", Llm.none_there),
    (ANTHROPIC, "GET", r"/api/claude_cli/bootstrap", Llm.empty_answer),
    (ANTHROPIC, "GET", r"/api/(claude_code_penguin_mode|directory/server-urls)", Llm.none_there),
    (ANTHROPIC, "POST", r"/api/eval/([^/]+)", Llm.none_there),
    ("platform.claude.com", "GET", r"/v1/oauth/hello", Llm.empty_answer),
    (OPENAI, "POST", r"/v1/responses", Llm.responses),
    (OPENAI, "GET", r"/v1/responses", Llm.responses_websocket),
    (OPENAI, "POST", r"/v1/chat/completions", Llm.chat),
    (OPENAI, "POST", r"/v1/embeddings", Llm.embeddings),
    (OPENAI, "GET", r"/v1/models(/[^/]+)?", Llm.openai_models),
    (OPENROUTER, "POST", r"/api/v1/chat/completions", Llm.chat),
    (OPENROUTER, "GET", r"/api/v1/models", Llm.openai_models),
    (GEMINI, "POST", r"/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)", Llm.gemini),
    (GEMINI, "GET", r"/v1(?:beta)?/models(/[^/]+)?", Llm.gemini_models),
    (BEDROCK, "POST", r"/model/([^/]+)/(invoke|invoke-with-response-stream|converse|converse-stream|count-tokens)", Llm.bedrock),
    (AMP, "POST", r"/api/internal", Llm.amp_internal),
    (AMP, "POST", r"/api/thread-actors", Llm.amp_thread),
    (AMP, "GET", r"/actors/gateway/threadActor/websocket/", Llm.amp_websocket),
    (BEDROCK_CONTROL, "GET", r"/(inference-profiles|foundation-models)", Llm.bedrock_lists),
]

if __name__ == "__main__":
    mock_module.main(Llm)
