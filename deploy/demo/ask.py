"""ask.py - asks the API once with Python's own client, and knows nothing of any proxy."""

import json
import os
import urllib.request

request = urllib.request.Request(
    "https://api.anthropic.com/v1/messages",
    json.dumps(
        {
            "model": "claude-mock",
            "max_tokens": 64,
            "messages": [{"role": "user", "content": "Hello?"}],
        }
    ).encode(),
    {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": os.environ["ANTHROPIC_API_KEY"],
    },
)
with urllib.request.urlopen(request, timeout=10) as answer:
    print(json.load(answer)["content"][0]["text"])
