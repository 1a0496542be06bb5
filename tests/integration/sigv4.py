"""sigv4.py - is a request signed as AWS Signature Version 4 asks for? Written from the specification alone

"Signature Version 4 signing process" (IAM User Guide) and "Authenticating Requests" (S3 API Reference).
It shares nothing with the product: what is signed there is judged here.
"""

import datetime
import hashlib
import hmac
from urllib.parse import quote, unquote_to_bytes

STREAMS = {
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
}
EMPTY = hashlib.sha256(b"").hexdigest()
SKEW = datetime.timedelta(minutes=15)


class Wrong(Exception):
    """It is not signed, or not well."""


def sha(data):
    return hashlib.sha256(data).hexdigest()


def mac(key, text):
    return hmac.new(key, text.encode() if isinstance(text, str) else text, hashlib.sha256).digest()


def signing_key(secret, date, region, service):
    key = mac(("AWS4" + secret).encode(), date)
    for part in (region, service, "aws4_request"):
        key = mac(key, part)
    return key


def encode(data, safe=""):
    return quote(data, safe=safe + "-_.~")


def canonical_path(path, service):
    if service.startswith("s3"):
        return encode(unquote_to_bytes(path), "/")
    parts = []
    for part in path.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    text = "/" + "/".join(parts) + ("/" if parts and path.endswith("/") else "")
    return encode(text.encode("latin-1"), "/")


def query_pairs(query):
    pairs = []
    for part in query.split("&"):
        if part:
            name, _, value = part.partition("=")
            pairs.append(tuple(unquote_to_bytes(t.replace("+", " ")) for t in (name, value)))
    return pairs


def canonical_query(pairs):
    return "&".join(f"{n}={v}" for n, v in sorted((encode(n), encode(v)) for n, v in pairs))


def canonical_headers(headers, names):
    lines = []
    for name in names:
        values = [" ".join(v.split()) for n, v in headers if n.lower() == name]
        if not values:
            raise Wrong(f"{name} is signed and not there")
        lines.append(f"{name}:{','.join(values)}\n")
    return "".join(lines)


def string_to_sign(time, scope, canonical):
    return f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{sha(canonical.encode('latin-1'))}"


class Signature:
    """What a request says of itself; `form` is header or query."""

    def __init__(self, headers, query):
        pairs = query_pairs(query)
        said = {n.decode(): v.decode() for n, v in pairs}
        fields = [v for n, v in headers if n.lower() == "authorization"]
        if fields and "X-Amz-Signature" in said:
            raise Wrong("it is signed twice")
        if len(fields) > 1:
            raise Wrong("there is more than one Authorization")
        if fields:
            self.read_header(fields[0], headers)
            self.pairs = pairs
        elif "X-Amz-Signature" in said:
            self.read_query(said)
            self.pairs = [(n, v) for n, v in pairs if n != b"X-Amz-Signature"]
        else:
            raise Wrong("it is not signed")
        self.id, self.date, self.region, self.service, end = self.credential.split("/")
        self.scope = f"{self.date}/{self.region}/{self.service}/aws4_request"
        if end != "aws4_request" or not self.time.startswith(self.date):
            raise Wrong("the scope is none")

    def read_header(self, field, headers):
        self.form = "header"
        algorithm, _, rest = field.partition(" ")
        parts = dict(p.strip().split("=", 1) for p in rest.split(","))
        if algorithm != "AWS4-HMAC-SHA256" or set(parts) != {"Credential", "SignedHeaders", "Signature"}:
            raise Wrong("Authorization is malformed")
        self.credential, self.signature = parts["Credential"], parts["Signature"]
        self.names = parts["SignedHeaders"].split(";")
        self.time = only(headers, "x-amz-date")
        self.token = only(headers, "x-amz-security-token", "")
        self.payload = only(headers, "x-amz-content-sha256", None)
        self.expires = None

    def read_query(self, said):
        self.form = "query"
        if said["X-Amz-Algorithm"] != "AWS4-HMAC-SHA256":
            raise Wrong("another algorithm")
        self.credential, self.signature = said["X-Amz-Credential"], said["X-Amz-Signature"]
        self.names = said["X-Amz-SignedHeaders"].split(";")
        self.time, self.expires = said["X-Amz-Date"], int(said["X-Amz-Expires"])
        self.token = said.get("X-Amz-Security-Token", "")
        self.payload = said.get("X-Amz-Content-Sha256")


def only(headers, name, *default):
    values = [v for n, v in headers if n.lower() == name]
    if len(values) > 1:
        raise Wrong(f"{name} is there more than once")
    if not values and not default:
        raise Wrong(f"there is no {name}")
    return values[0] if values else default[0]


def verify(keys, method, target, headers, body, now=None):
    """keys: id -> (secret, token). Return: the Signature, or Wrong is raised.

    `headers` as they came, with Host (HTTP/2: host from :authority). A chunked body is decoded and every
    chunk's signature checked; the content is then in `.content`, the trailer in `.trailer`.
    """
    path, _, query = target.partition("?")
    signed = Signature(headers, query)
    if signed.id not in keys:
        raise Wrong(f"nobody has the key {signed.id}")
    secret, token = keys[signed.id]
    if signed.token != token:
        raise Wrong("another session token")
    check_time(signed, now or datetime.datetime.now(datetime.timezone.utc))
    check_names(signed, headers)
    signed.key = signing_key(secret, signed.date, signed.region, signed.service)
    if signed.payload is None:
        query_of_s3 = signed.form == "query" and signed.service == "s3"
        if signed.service == "s3" and signed.form == "header":
            raise Wrong("S3 asks for x-amz-content-sha256")
        signed.payload = "UNSIGNED-PAYLOAD" if query_of_s3 else sha(body)
    signed.canonical = "\n".join([
        method, canonical_path(path, signed.service), canonical_query(signed.pairs),
        canonical_headers(headers, signed.names), ";".join(signed.names), signed.payload,
    ])  # fmt: skip
    text = string_to_sign(signed.time, signed.scope, signed.canonical)
    if mac(signed.key, text).hex() != signed.signature:
        raise Wrong("the signature does not match:\n" + signed.canonical)
    check_payload(signed, headers, body)
    return signed


def check_time(signed, now):
    at = datetime.datetime.strptime(signed.time, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if signed.expires is None and abs(now - at) > SKEW:
        raise Wrong("RequestTimeTooSkewed")
    if signed.expires is not None:
        if not 1 <= signed.expires <= 604800:
            raise Wrong("X-Amz-Expires is out of bounds")
        if now > at + datetime.timedelta(seconds=signed.expires) or at > now + SKEW:
            raise Wrong("the presigned URL has expired, or is not good yet")


def check_names(signed, headers):
    names = signed.names
    if names != sorted(set(names)) or any(n != n.lower() for n in names):
        raise Wrong("SignedHeaders is not in order")
    if "host" not in names:
        raise Wrong("host is not signed")
    for name, _ in headers:
        if name.lower().startswith("x-amz-") and name.lower() not in names:
            raise Wrong(f"HeadersNotSigned: {name}")


def check_payload(signed, headers, body):
    signed.content, signed.trailer = body, b""
    if signed.payload in STREAMS:
        read_chunks(signed, body, int(only(headers, "x-amz-decoded-content-length", "-1")))
    elif signed.payload != "UNSIGNED-PAYLOAD" and signed.payload != sha(body):
        raise Wrong("the content is not what was signed")


def read_chunks(signed, body, announced):
    is_signed = not signed.payload.startswith("STREAMING-UNSIGNED")
    before, content = signed.signature, b""
    while True:
        line, mark, body = body.partition(b"\r\n")
        if not mark:
            raise Wrong("a chunk's head is not whole")
        size_text, _, extension = line.partition(b";")
        size = int(size_text, 16)
        data = body[:size]
        if size and body[size : size + 2] != b"\r\n":
            raise Wrong("a chunk is not whole")
        body = body[size + 2 :] if size else body
        if is_signed:
            name, _, given = extension.decode().partition("=")
            text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", signed.time, signed.scope, before, EMPTY, sha(data)])
            before = mac(signed.key, text).hex()
            if name != "chunk-signature" or given != before:
                raise Wrong(f"the signature of a chunk of {size} bytes does not match")
        content += data
        if not size:
            break
    read_trailer(signed, body, before, is_signed)
    if announced != len(content):
        raise Wrong(f"x-amz-decoded-content-length is {announced}, and there are {len(content)}")
    signed.content = content


def read_trailer(signed, rest, before, is_signed):
    if not rest.endswith(b"\r\n"):
        raise Wrong("there is no end behind the last chunk")
    lines = [line for line in rest[:-2].split(b"\r\n") if line]
    if is_signed and signed.payload.endswith("TRAILER"):
        given = lines.pop().decode()
        text = b"".join(line.rstrip(b"\n") + b"\n" for line in lines)
        wanted = mac(signed.key, "\n".join(
            ["AWS4-HMAC-SHA256-TRAILER", signed.time, signed.scope, before, sha(text)])).hex()  # fmt: skip
        if given != "x-amz-trailer-signature:" + wanted:
            raise Wrong("the trailer's signature does not match")
    elif lines and not signed.payload.endswith("TRAILER"):
        raise Wrong("there is a trailer that nobody announced")
    signed.trailer = b"\r\n".join(lines)


class Signer:
    """The other side, for clients of the tests: signs with whatever key it is told (a placeholder)."""

    def __init__(self, key_id, secret, region, service, token=""):
        self.id, self.secret, self.token = key_id, secret, token
        self.region, self.service = region, service

    def start(self):
        now = datetime.datetime.now(datetime.timezone.utc)
        self.time = now.strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.time[:8]}/{self.region}/{self.service}/aws4_request"
        self.key = signing_key(self.secret, self.time[:8], self.region, self.service)

    def header(self, method, host, target, headers, payload):
        """Return: the headers to send."""
        self.start()
        headers = [("Host", host), *headers, ("X-Amz-Date", self.time)]
        if self.token:
            headers.append(("X-Amz-Security-Token", self.token))
        names = sorted({n.lower() for n, _ in headers})
        path, _, query = target.partition("?")
        canonical = "\n".join([
            method, canonical_path(path, self.service), canonical_query(query_pairs(query)),
            canonical_headers(headers, names), ";".join(names), payload,
        ])  # fmt: skip
        self.seed = mac(self.key, string_to_sign(self.time, self.scope, canonical)).hex()
        value = (f"AWS4-HMAC-SHA256 Credential={self.id}/{self.scope}, "
                 f"SignedHeaders={';'.join(names)}, Signature={self.seed}")  # fmt: skip
        return [*headers, ("Authorization", value)]

    def query(self, method, host, target, headers=(), expires=900, payload="UNSIGNED-PAYLOAD"):
        """Return: the target to ask for."""
        self.start()
        headers = [("Host", host), *headers]
        names = sorted({n.lower() for n, _ in headers})
        path, _, query = target.partition("?")
        pairs = query_pairs(query) + [(n.encode(), v.encode()) for n, v in [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", f"{self.id}/{self.scope}"),
            ("X-Amz-Date", self.time), ("X-Amz-Expires", str(expires)),
            ("X-Amz-SignedHeaders", ";".join(names)),
            *([("X-Amz-Security-Token", self.token)] if self.token else []),
        ]]  # fmt: skip
        canonical = "\n".join([
            method, canonical_path(path, self.service), canonical_query(pairs),
            canonical_headers(headers, names), ";".join(names), payload,
        ])  # fmt: skip
        seed = mac(self.key, string_to_sign(self.time, self.scope, canonical)).hex()
        return path + "?" + canonical_query(pairs) + "&X-Amz-Signature=" + seed

    def chunks(self, parts, trailer=None):
        """aws-chunked content with signatures that go on from header()'s."""
        before, out = self.seed, b""
        for part in [*parts, b""]:
            text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", self.time, self.scope, before, EMPTY, sha(part)])
            before = mac(self.key, text).hex()
            out += b"%x;chunk-signature=%s\r\n" % (len(part), before.encode())
            out += part + b"\r\n" if part else b""
        if trailer:
            text = "\n".join(["AWS4-HMAC-SHA256-TRAILER", self.time, self.scope, before, sha(trailer + b"\n")])
            out += trailer + b"\r\nx-amz-trailer-signature:" + mac(self.key, text).hex().encode() + b"\r\n"
        return out + b"\r\n"
