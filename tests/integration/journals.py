"""journals.py - journals as a hostile or ordinary sandbox would have had them written, with a chain that holds"""

import hashlib
import json


class Journal:
    """Records of exchanges; write() puts them into a file, line by line."""

    def __init__(self):
        self.bodies = []
        self.ids = 0
        self.record("start", {"format": 1, "version": "0.1", "process.pid": 1, "durability": "written"})

    def record(self, event, fields, number=None):
        id_of = {} if number is None else {"id": f"x{number:016x}"}
        self.bodies.append({"event": event, "time": "2026-01-31T12:00:00.000Z", **id_of, **fields})

    def request(self, method="GET", url="https://api.example.com/v1/x", *, reason=None, status=None, tenant="acme", sandbox="s1",
                query=(), late=False, close=None, **fields):  # fmt: skip
        """An exchange; with a reason a refusal, or (late) one that failed after its open record."""
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        name, _, port = host.rpartition(":") if ":" in host.rpartition("]")[2] else (host, "", "")
        self.ids += 1
        what = {"tenant": tenant, "sandbox": sandbox, "http.request.method": method, "url.scheme": scheme,
                "server.address": name.strip("[]"), "server.port": int(port) if port else {"http": 80}.get(scheme, 443),
                "url.path": slash + path}  # fmt: skip
        if query:
            what["url.query.names"] = list(query)
        what |= {key.replace("__", "."): value for key, value in fields.items()}
        how = {"http.response.status_code": status or (403 if reason else 200)}
        if reason:
            how |= {"reason": reason, "detail": "a sentence"}
        how |= {"http.request.body.size": 0, "http.response.body.size": 0, "duration_ms": 1, **(close or {})}
        if reason and not late:
            self.record("deny", what | how, self.ids)
        else:
            self.record("open", what, self.ids)
            self.record("close", how | {"complete": not reason}, self.ids)
        return self

    def lines(self):
        before, lines = "0" * 64, []
        for seq, body in enumerate(self.bodies, 1):
            text = json.dumps(body | {"seq": seq, "prev": before}, separators=(",", ":"), ensure_ascii=False)[:-1]
            before = hashlib.sha256(text.encode()).hexdigest()
            lines.append(f'{text},"hash":"{before}"}}\n')
        return lines

    def write(self, path, lines=None):
        path.write_bytes("".join(lines or self.lines()).encode())
        return str(path)
