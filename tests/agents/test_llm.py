"""The stand-in for the providers is strict: what it takes from an agent, the provider would take."""

import http.client
import json
import ssl

import agents
import pytest
from llm import PREFIXES, key_of

ASK = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
ANTHROPIC, OPENAI, OPENROUTER, GEMINI = PREFIXES
PLACES = [
    (ANTHROPIC, "/v1/messages", "x-api-key", "", ASK),
    (ANTHROPIC, "/v1/messages", "authorization", "Bearer ", ASK),
    (OPENAI, "/v1/chat/completions", "authorization", "Bearer ", ASK),
    (OPENAI, "/v1/responses", "authorization", "Bearer ", {"model": "m", "input": "hello"}),
    (OPENROUTER, "/api/v1/chat/completions", "authorization", "Bearer ", ASK),
    (GEMINI, "/v1beta/models/m:generateContent", "x-goog-api-key", "", {"contents": [{"parts": [{"text": "hello"}]}]}),
]


def post(llm, host, path, field, value, content):
    context = ssl.create_default_context(cafile=llm.ca)
    context.check_hostname = False
    connection = http.client.HTTPSConnection("127.0.0.1", llm.port, timeout=20, context=context)
    try:
        connection.request("POST", path, json.dumps(content), {"host": host, field: value, "anthropic-version": "2023-06-01"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("host, path, field, scheme, content", PLACES)
def test_any_key_but_the_providers_own_is_refused(llm, host, path, field, scheme, content):
    own = key_of(host, agents.SECRET)
    status, text = post(llm, host, path, field, scheme + own, content)
    assert status == 200 and "All done." in text
    others = [key_of(other, agents.SECRET) for other in PREFIXES if other != host]
    for key in (own[:-1], own + "0", PREFIXES[host] + "0" * 48, "", *others):
        assert post(llm, host, path, field, scheme + key, content)[0] == 401, key
    assert {e["status"] for e in llm.events("wrong")} == {401}


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
