"""bedrock.py - the mock's Amazon Bedrock: signatures, event streams, and the Converse API

A request is signed with the real access key (Signature 4, which tests/integration/sigv4.py checks), or it carries
the real API key as a bearer token. Whatever else comes is answered with 403, as AWS answers it.
"""

import base64
import hashlib
import json
import os
import sys
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../integration"))
import sigv4  # noqa: E402
from script import Item, Tool, Wrong  # noqa: E402

REGION = "us-east-1"
RUNTIME, CONTROL = f"bedrock-runtime.{REGION}.amazonaws.com", f"bedrock.{REGION}.amazonaws.com"
SIGNED = "AWS4-HMAC-SHA256 "


def access_key_id(secret):
    """The id of the access key whose secret key is `secret`."""
    return "AKIA" + base64.b32encode(hashlib.sha256(secret.encode()).digest()).decode()[:16]


def signer_of(request):
    """The id of the key that a request says it is signed with; None where it is not signed."""
    field = request.get("authorization") or ""
    if not field.startswith(SIGNED):
        return None
    return field.partition("Credential=")[2].partition("/")[0].encode("latin-1")


def is_well_signed(request, secret):
    try:
        signed = sigv4.verify({access_key_id(secret): (secret, "")}, request.method, request.target, request.fields,
                              bytes(request.body))  # fmt: skip
    except (sigv4.Wrong, ValueError, KeyError):
        return False
    return (signed.service, signed.region) == ("bedrock", REGION)


# --- application/vnd.amazon.eventstream -----------------------------------------------------------


def checked(data):
    return data + zlib.crc32(data).to_bytes(4, "big")


def message(fields, payload):
    """Lengths and their checksum, the fields as texts (type 7), the payload, and the checksum of all."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
        for name, value in fields.items()
    )
    lengths = (16 + len(head) + len(payload)).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    return checked(checked(lengths) + head + payload)


def event(kind, payload):
    fields = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return message(fields, json.dumps(payload).encode())


def chunk(payload):
    """Of an answer in the model's own form."""
    return event("chunk", {"bytes": base64.b64encode(json.dumps(payload).encode()).decode()})


def exception(kind, text):
    fields = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return message(fields, json.dumps({"message": text}).encode())


# --- Converse -------------------------------------------------------------------------------------


def items(what):
    out = []
    if not what.get("messages"):
        raise Wrong("messages: missing")
    for one in what["messages"]:
        role = one.get("role")
        if role not in ("user", "assistant"):
            raise Wrong(f"messages: role {role!r}")
        for part in one["content"]:
            if "toolUse" in part:
                out.append(Item("call", id=part["toolUse"]["toolUseId"], name=part["toolUse"]["name"]))
            elif "toolResult" in part:
                said = "\n".join(p.get("text") or json.dumps(p.get("json")) for p in part["toolResult"]["content"])
                out.append(Item("result", said, id=part["toolResult"]["toolUseId"]))
            elif "text" in part:
                out.append(Item(role, part["text"]))
    return out


def tools(what):
    given = (what.get("toolConfig") or {}).get("tools") or []
    return [Tool(t["toolSpec"]["name"], t["toolSpec"]["inputSchema"]["json"]) for t in given if "toolSpec" in t]
