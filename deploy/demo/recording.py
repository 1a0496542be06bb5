"""recording.py - a short session on a terminal, recorded as an SVG (`make recording`).

Each command of the session below runs for real, on a pseudo-terminal: keyhole in a sandbox, against
the demo's mock of the API. What it prints is drawn as text, line by line, at the time at which it
came. No network is needed, and nothing but Python's standard library.

    recording.py FILE.svg       KEYHOLE=… names the program; the default is build/keyhole
"""

import contextlib
import hashlib
import html
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# It is worth nothing, is as long as a real one, and is the same in each recording.
KEY = "sk-ant-api03-" + hashlib.sha512(b"the key of the recording").hexdigest()[:95]

COLUMNS, PATIENCE_S = 108, 60
SESSION = [
    ("# Your key, on your machine:", None),
    ("echo $ANTHROPIC_API_KEY | cut -c-24", "echo $ANTHROPIC_API_KEY | cut -c-24"),
    ("# In the sandbox there is a placeholder. It is worth nothing.", None),
    ("keyhole run -q -c keyhole.yaml sh -c 'echo $ANTHROPIC_API_KEY | cut -c-24'",) * 2,
    ("# It works all the same: keyhole puts the real key into the request.", None),
    ("keyhole run -q -c keyhole.yaml python3 - <ask.py",) * 2,
    ("# Everything else is refused. The answer says why, and the end says what would allow it.", None),
    ("keyhole run -c keyhole.yaml curl -s https://example.com/upload",) * 2,
    ("# Each request is in the journal.", None),
    ("keyhole audit show audit.jsonl | grep https:",) * 2,
    ("keyhole audit verify audit.jsonl",) * 2,
]

# --- the session ----------------------------------------------------------------------------------


@contextlib.contextmanager
def stage():
    """A folder with the configuration, and the mock that it leads to; yields folder and environment."""
    folder = tempfile.mkdtemp(prefix="keyhole-recording.")
    for part in ("bin", "mock"):
        os.makedirs(os.path.join(folder, part))
    keyhole = os.environ.get("KEYHOLE") or os.path.join(ROOT, "build", "keyhole")
    os.symlink(keyhole, os.path.join(folder, "bin", "keyhole"))
    shutil.copy(os.path.join(HERE, "ask.py"), folder)
    mock = subprocess.Popen(
        ["/usr/bin/python3", os.path.join(HERE, "mock_upstream.py"), "--dir", os.path.join(folder, "mock")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "MOCK_KEY": KEY},
    )  # fmt: skip
    try:
        ready = json.loads(mock.stdout.readline())
        with open(os.path.join(HERE, "demo.yaml"), encoding="utf-8") as file:
            text = file.read().replace("@PORT@", str(ready["port"])).replace("@CA@", ready["ca"])
        with open(os.path.join(folder, "keyhole.yaml"), "w", encoding="utf-8") as file:
            file.write(text.replace("@DIR@/", ""))
        yield folder, {
            "PATH": os.path.join(folder, "bin") + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": folder, "TERM": "xterm-256color", "LANG": "C.UTF-8", "ANTHROPIC_API_KEY": KEY,
        }  # fmt: skip
    finally:
        mock.terminate()
        mock.wait()
        shutil.rmtree(folder, ignore_errors=True)


def run(command, folder, env):
    """The command on a terminal of its own. Return: its exit status, and [(seconds, bytes)]."""
    began = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve("/bin/sh", ["sh", "-c", f"stty cols {COLUMNS} rows 40; {command}"], env)
    said = []
    while time.monotonic() - began < PATIENCE_S:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # EIO: nobody is on the other side any more
            break
        if not piece:
            break
        said.append((time.monotonic() - began, piece))
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


# --- what a terminal makes of it ------------------------------------------------------------------

# Nothing that is recorded moves the cursor; what resets a terminal has no picture.
CONTROL = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P^_].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]", re.S)


def lines_of(said):
    """[(seconds, line)], each with the time at which it was complete, and long ones broken at a blank."""
    text, lines = b"", []
    for at, piece in said:
        text += piece
        *whole, text = text.split(b"\n")
        lines += [(at, line) for line in whole]
    if text:
        lines.append((said[-1][0], text))
    for at, line in lines:
        plain = CONTROL.sub(b"", line).decode("utf-8", "replace").rstrip()
        if not plain and line.strip(b"\r\n"):
            continue  # there were control characters only
        while len(plain) > COLUMNS:
            end = plain.rfind(" ", COLUMNS // 2, COLUMNS + 1) + 1 or COLUMNS
            yield at, plain[:end].rstrip()
            plain = plain[end:]
        yield at, plain


def record():
    """[(seconds, kind, line)]: a kind is note, command or output."""
    clock, shown = 0.5, []
    with stage() as (folder, env):
        for text, command in SESSION:
            if command is None:
                shown += [(clock, "output", ""), (clock, "note", text)] if shown else [(clock, "note", text)]
                clock += 1.2
                continue
            shown.append((clock, "command", text))
            clock += 0.8
            status, said = run(command, folder, env)
            if status != 0:
                sys.exit(f"recording: {text}: exit status {status}\n" + "\n".join(line for _, line in lines_of(said)))
            for at, line in lines_of(said):
                shown.append((clock + min(at, 2), "output", line.replace(folder, "~")))
            clock = shown[-1][0] + 1.2
    return shown


# --- the picture ----------------------------------------------------------------------------------

STEP, LEFT, TOP, WIDE = 19, 16, 52, 7.85
STYLE = """
    text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d1d7e0; white-space: pre; }
    .note { fill: #8b949e; }
    .command { fill: #ffffff; font-weight: 600; }
    .prompt { fill: #56d364; }
    g { animation: appear 1ms both; }
    @keyframes appear { from { opacity: 0; } to { opacity: 1; } }
    @media (prefers-reduced-motion: reduce) { g { animation: none; } }
"""


def draw(shown):
    wide, high = int(LEFT * 2 + COLUMNS * WIDE), TOP + STEP * len(shown) + 4
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img">',
        "  <title>A session with keyhole, recorded by make recording</title>",
        f"  <style>{STYLE}  </style>",
        f'  <rect width="{wide}" height="{high}" rx="10" fill="#0d1117" stroke="#444c56"/>',
        *(f'  <circle cx="{20 + 20 * i}" cy="20" r="6" fill="{c}"/>' for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))),
    ]
    for row, (at, kind, line) in enumerate(shown):
        if not line:
            continue
        prompt = '<tspan class="prompt">$ </tspan>' if kind == "command" else ""
        text = f'<text class="{kind}" x="{LEFT}" y="{TOP + STEP * row}">{prompt}{html.escape(line, quote=False)}</text>'
        out.append(f'  <g style="animation-delay:{at:.1f}s">{text}</g>')
    return "\n".join([*out, "</svg>", ""])


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: recording.py FILE.svg")
    picture = draw(record())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
