"""The mock for the providers is strict: what it takes from an agent, the provider would take."""

import http.client
import json
import re
import ssl
import time
import zlib

import agents
import pytest
import sigv4
from bedrock import RUNTIME, access_key_id
from llm import PREFIXES, key_of

ASK = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
ANTHROPIC, OPENAI, OPENROUTER, GEMINI, *_ = PREFIXES
PLACES = [
    (ANTHROPIC, "/v1/messages", "x-api-key", "", ASK),
    (ANTHROPIC, "/v1/messages", "authorization", "Bearer ", ASK),
    (OPENAI, "/v1/chat/completions", "authorization", "Bearer ", ASK),
    (OPENAI, "/v1/responses", "authorization", "Bearer ", {"model": "m", "input": "hello"}),
    (OPENROUTER, "/api/v1/chat/completions", "authorization", "Bearer ", ASK),
    (GEMINI, "/v1beta/models/m:generateContent", "x-goog-api-key", "", {"contents": [{"parts": [{"text": "hello"}]}]}),
]


def send(llm, path, fields, content):
    context = ssl.create_default_context(cafile=llm.ca)
    context.check_hostname = False
    connection = http.client.HTTPSConnection("127.0.0.1", llm.port, timeout=20, context=context)
    try:
        connection.request("POST", path, content, dict(fields))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def post(llm, host, path, field, value, content):
    fields = {"host": host, field: value, "anthropic-version": "2023-06-01"}
    status, text = send(llm, path, fields, json.dumps(content))
    return status, text.decode()


@pytest.mark.parametrize("host, path, field, scheme, content", PLACES)
def test_any_key_but_the_providers_own_is_refused(llm, host, path, field, scheme, content):
    own = key_of(host, agents.SECRET)
    status, text = post(llm, host, path, field, scheme + own, content)
    assert status == 200 and "All done." in text
    others = [key_of(other, agents.SECRET) for other in PREFIXES if other != host]
    for key in (own[:-1], own + "0", PREFIXES[host] + "0" * 48, "", *others):
        assert post(llm, host, path, field, scheme + key, content)[0] == 401, key
    assert {e["status"] for e in llm.events("wrong")} == {401}


# How each API calls the tokens that it took and gave.
NAMES = [("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens"), ("promptTokenCount", "candidatesTokenCount")]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("host, path, field, scheme, content", PLACES)
def test_the_log_has_the_usage_that_the_answer_states(llm, host, path, field, scheme, content, streamed):
    if streamed and host == GEMINI:
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    elif streamed:
        content = {**content, "stream": True}
    text = post(llm, host, path, field, scheme + key_of(host, agents.SECRET), content)[1]
    stated = [re.findall(rf'"{name}": (\d+)', text) for names in NAMES for name in names]
    (input_, *_), (*_, output) = [found for found in stated if found]
    noted = llm.events("usage")
    assert sum(e.get("input", 0) for e in noted) == int(input_) > 1 and sum(e.get("output", 0) for e in noted) == int(output) > 1
    assert [e["kind"].partition(";")[0] for e in llm.events("stream")] == ["text/event-stream"] * streamed


def test_what_the_api_does_not_know_is_refused_and_noted(llm):
    def ask(content, path="/v1/messages", host=ANTHROPIC):
        return post(llm, host, path, "x-api-key", key_of(ANTHROPIC, agents.SECRET), content)[0]

    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "bash", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
    assert ask(ASK) == ask({**ASK, "messages": [*ASK["messages"], use, result]}) == 200
    assert llm.events("wrong") == []
    assert ask({**ASK, "messages": []}) == ask({"model": "m", "messages": ASK["messages"]}) == 400
    assert ask({**ASK, "messages": [*ASK["messages"], result]}) == 400, "a result of no call"
    assert ask({**ASK, "messages": [*ASK["messages"], use]}) == 400, "a call without a result"
    assert ask({**ASK, "messages": [{"role": "user", "content": "[[no-such /x]] [[none /x]]"}], "tools": [
        {"name": "bash", "input_schema": {"type": "object", "properties": {"command": {}}}}]}) == 400  # fmt: skip
    assert ask(ASK, path="/v1/complete") == 404
    assert ask(ASK, host="api.example.com") == 404
    assert len(llm.events("wrong")) == 7


# --- Bedrock ----------------------------------------------------------------------------------------


CONVERSE, INVOKE = "/model/a-model/converse", "/model/a-model/invoke"
SAID = json.dumps({"messages": [{"role": "user", "content": [{"text": "hello"}]}]}).encode()
OWN = json.dumps({**{k: v for k, v in ASK.items() if k != "model"}, "anthropic_version": "bedrock-2023-05-31"}).encode()


def signed(path, content, key_id=None, secret=agents.SECRET, region="us-east-1", service="bedrock"):
    signer = sigv4.Signer(key_id or access_key_id(agents.SECRET), secret, region, service)
    fields = signer.header("POST", RUNTIME, path, [("Content-Type", "application/json")], sigv4.sha(content))
    return dict(fields)


def test_bedrock_answers_the_real_access_key_and_the_real_api_key_alone(llm):
    status, text = send(llm, CONVERSE, signed(CONVERSE, SAID), SAID)
    assert status == 200 and b"All done." in text
    bearer = {"Host": RUNTIME, "Authorization": "Bearer " + key_of(RUNTIME, agents.SECRET)}
    assert send(llm, INVOKE, bearer, OWN)[0] == 200 and llm.events("wrong") == []
    refused = [
        signed(CONVERSE, SAID, secret=agents.SECRET[::-1]), signed(CONVERSE, SAID, key_id="AKIAIOSFODNN7EXAMPLE"),
        signed(CONVERSE, SAID, region="us-west-2"), signed(CONVERSE, SAID, service="s3"), signed(CONVERSE, b"another content"),
        signed(INVOKE, SAID), {"Host": RUNTIME}, {**bearer, "Authorization": "Bearer " + agents.SECRET},
        {**bearer, "Authorization": signed(CONVERSE, SAID)["Authorization"]},
    ]  # fmt: skip
    for fields in refused:
        status, text = send(llm, CONVERSE, fields, SAID)
        assert status == 403 and b"fingerprint" not in text, fields
    assert len(llm.events("wrong")) == len(refused)


def messages_of(stream):
    """[(fields, payload)] of an event stream, by its specification; the two checksums of each are compared."""
    found = []
    while stream:
        size, head = int.from_bytes(stream[:4], "big"), int.from_bytes(stream[4:8], "big")
        one, stream = stream[:size], stream[size:]
        assert zlib.crc32(one[:8]) == int.from_bytes(one[8:12], "big")
        assert zlib.crc32(one[:-4]) == int.from_bytes(one[-4:], "big")
        fields, rest = {}, one[12 : 12 + head]
        while rest:
            name_end = 1 + rest[0]
            value_end = name_end + 3 + int.from_bytes(rest[name_end + 1 : name_end + 3], "big")
            assert rest[name_end] == 7, "a text"
            fields[rest[1:name_end].decode()] = rest[name_end + 3 : value_end].decode()
            rest = rest[value_end:]
        found.append((fields, json.loads(one[12 + head : -4])))
    return found


def test_bedrock_streams_events(llm):
    path = CONVERSE + "-stream"
    status, stream = send(llm, path, signed(path, SAID), SAID)
    found = messages_of(stream)
    assert status == 200 and {fields[":message-type"] for fields, _ in found} == {"event"}
    assert [fields[":event-type"] for fields, _ in found] == [
        "messageStart", "contentBlockDelta", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]  # fmt: skip
    path = INVOKE + "-with-response-stream"
    status, stream = send(llm, path, signed(path, OWN), OWN)
    assert status == 200 and {fields[":event-type"] for fields, _ in messages_of(stream)} == {"chunk"}


# --- answers that end otherwise than they should ----------------------------------------------------


def with_script(script):
    tools = [{"name": "bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}]
    return {**ASK, "stream": True, "tools": tools, "messages": [{"role": "user", "content": f"[[{script} /x]]"}]}


def test_the_middle_of_an_answer_is_as_the_script_says(tmp_path):
    with agents.mock_api(str(tmp_path / "mock"), MOCK_PAUSE="0.3") as llm:

        def ask(script):
            return post(llm, ANTHROPIC, "/v1/messages", "x-api-key", key_of(ANTHROPIC, agents.SECRET), with_script(script))

        started = time.monotonic()
        assert "message_stop" in ask("pause")[1] and time.monotonic() - started >= 0.3
        with pytest.raises((OSError, http.client.HTTPException)):
            ask("reset")
        status, text = ask("fault")
        assert status == 200 and "event: error" in text and "message_stop" not in text
        assert [e["how"] for e in llm.events("broken")] == ["reset", "fault"]
        assert "message_stop" in ask("reset")[1] and "message_stop" in ask("fault")[1], "each once"
