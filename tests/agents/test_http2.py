"""Clients that speak HTTP/2, by keyhole, to APIs that speak it: those of real providers do."""

import agents
import pytest
import report

ASK = """curl -sS --http2 -w '\\n%%{http_version} %%{http_code}\\n' -H "x-api-key: $ANTHROPIC_API_KEY" -H 'anthropic-version: 2023-06-01' \\
  -d '{"model": "m", "max_tokens": 9, "stream": %s, "messages": [{"role": "user", "content": "%s"}], "tools": [%s]}' \\
  https://api.anthropic.com/v1/messages"""
TOOL = '{"name": "bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}'


@pytest.fixture
def place(llm, tmp_path):
    return agents.Place(agents.BY_NAME["anthropic"], str(tmp_path / "place"), llm, path="/usr/bin:/bin")


@pytest.mark.parametrize("streamed", ["true", "false"])
def test_curl_with_http2_is_answered_with_http2_all_the_way(place, streamed):
    done = place.run("--", "sh", "-c", ASK % (streamed, "x" * 100_000, ""))
    assert done.status == 0 and done.output.endswith("\n2 200\n") and "All done." in done.output, done.said
    assert report.versions_of(place) == (("HTTP/2",), ("HTTP/2",)) and report.incomplete(place) == ""
    (done,), (close,) = place.llm.events("done"), [r for r in place.records() if r["event"] == "close"]
    assert (done["body_bytes"], done["sent"]) == (close["http.request.body.size"], close["http.response.body.size"])
    assert done["body_bytes"] > 100_000 and {e["key"] for e in place.llm.requests()} == agents.real_keys(place.agent)


def test_an_answer_over_http2_that_breaks_off_is_one_in_the_journal(place):
    done = place.run("--", "sh", "-c", ASK % ("true", "[[reset /x]]", TOOL))
    assert done.status != 0 and "content_block_delta" in done.output and "message_stop" not in done.output, done.said
    assert [r.get("reason") for r in place.records() if r["event"] == "close"] == ["upstream_closed"]
    assert report.incomplete(place) == ""


def test_the_library_of_aws_streams_over_http2_with_requests_that_keyhole_signs(installed, llm, tmp_path):
    """It knows no proxies, so keyhole-init takes its connections."""
    library = agents.BY_NAME["bedrock"]
    path = installed(agents.path_of)
    installed(agents.install_library, library)
    here = agents.Place(library, str(tmp_path / "sdk"), llm, path)
    done = here.library()
    assert done.status == 0 and here.end() in done.output and here.wrong() == [], done.said
    inside, heard = report.versions_of(here)
    assert "HTTP/2" in inside and heard == ("HTTP/2",), (inside, heard)
    assert {e["kind"] for e in llm.events("stream")} == {"application/vnd.amazon.eventstream"}
    assert report.incomplete(here) == ""


@pytest.mark.parametrize("http2", [True, False])
def test_each_version_that_the_api_may_lack_is_done_without(tmp_path, http2):
    with agents.mock_api(str(tmp_path / "mock"), **({} if http2 else {"MOCK_NO_HTTP2": "1"})) as llm:
        place = agents.Place(agents.BY_NAME["anthropic"], str(tmp_path / "place"), llm, path="/usr/bin:/bin")
        done = place.run("--", "sh", "-c", ASK % ("true", "hello", ""))
        assert done.status == 0 and "All done." in done.output, done.said
        assert report.versions_of(place) == (("HTTP/2",), ("HTTP/2",) if http2 else ("HTTP/1.1",))
