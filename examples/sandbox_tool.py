"""sandbox_tool.py - the shell tool of an agent, in which each command is a `keyhole run`.

The agent's program stays outside, with its key. What the model asks it to run goes into a sandbox
without a network, where only your rules lead out, and with placeholders for keys. The standard
library is all that `Sandbox` needs. LangGraph and deepagents are imported where they are used.

    python3 sandbox_tool.py --workspace DIR [--use PRESET,…] 'COMMAND'     one command, to try it
"""

import argparse
import dataclasses
import subprocess
import sys
import tempfile

OUTPUT_MOST = 64 * 1024  # bytes: a model that reads more has forgotten the question


@dataclasses.dataclass
class Result:
    output: str  # standard output and error
    exit_code: int  # 124: its time was up; 125: keyhole failed, and the output says why
    truncated: bool = False


class Sandbox:
    """Commands that share a workspace and a home. Each runs in a sandbox of its own."""

    def __init__(self, workspace, home=None, options=(), keyhole="keyhole", timeout="2m"):
        """`options` are those of `keyhole run`, such as ["--use", "npm"] or ["-c", "keyhole.yaml"]."""
        self.workspace = workspace
        # Not in the workspace, nor around it: what is protected there could be reached by two names.
        self.home = home or tempfile.mkdtemp(prefix="agent-home-")
        self.start = [keyhole, "run", "-q", "--workspace", workspace, "--home", self.home, *options]
        self.timeout = timeout

    def run(self, words, data=b"", timeout=None):
        """The command of these words. Return: (what it wrote, its exit status, was it cut?)."""
        command = [*self.start, "--timeout", timeout or self.timeout, "--", *words]
        with tempfile.TemporaryFile() as given:
            given.write(data)
            given.seek(0)
            process = subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            kept = process.stdout.read(OUTPUT_MOST)
            cut = False
            while process.stdout.read(65536):  # nobody waits for a reader
                cut = True
        return kept, process.wait(), cut

    def shell(self, command, timeout=None):
        kept, status, cut = self.run(["sh", "-c", command], timeout=timeout)
        return Result(kept.decode("utf-8", "replace"), status, cut)


# --- LangGraph and LangChain: a function is a tool --------------------------------------------------


def as_text(done):
    cut = "\n(the output was longer)" if done.truncated else ""
    return f"{done.output}{cut}\n(exit status {done.exit_code})"


def shell_tool(sandbox):
    def shell(command: str) -> str:
        """Run a shell command in the project's folder. There is no network except for what is allowed;
        `curl -s http://keyhole.internal/` shows what that is."""
        return as_text(sandbox.shell(command))

    return shell


def langgraph_agent(sandbox, model="anthropic:claude-sonnet-4-5"):
    from langchain.agents import create_agent

    return create_agent(model, tools=[shell_tool(sandbox)])


# --- deepagents: a backend, through which its file tools go as well ----------------------------------


def deepagents_backend(sandbox):
    from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
    from deepagents.backends.sandbox import BaseSandbox

    class KeyholeBackend(BaseSandbox):
        @property
        def id(self):
            return "keyhole:" + sandbox.workspace

        def execute(self, command, *, timeout=None):
            done = sandbox.shell(command, timeout and f"{timeout}s")
            return ExecuteResponse(output=done.output, exit_code=done.exit_code, truncated=done.truncated)

        def upload_files(self, files):
            put = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'
            answers = []
            for path, content in files:
                _, status, _ = sandbox.run(["sh", "-c", put, "sh", path], content)
                answers.append(FileUploadResponse(path=path, error=None if status == 0 else "permission_denied"))
            return answers

        def download_files(self, paths):
            answers = []
            for path in paths:
                content, status, cut = sandbox.run(["cat", "--", path])
                good = status == 0 and not cut
                answers.append(FileDownloadResponse(path=path, content=content if good else None,
                                                    error=None if good else "file_not_found"))  # fmt: skip
            return answers

    return KeyholeBackend()


def deep_agent(sandbox, model="anthropic:claude-sonnet-4-5"):
    from deepagents import create_deep_agent

    return create_deep_agent(model=model, backend=deepagents_backend(sandbox))


def main():
    parser = argparse.ArgumentParser(description="Runs one command as an agent's shell tool does.")
    parser.add_argument("--workspace", required=True, metavar="DIR")
    parser.add_argument("--use", metavar="PRESET,…")
    parser.add_argument("command")
    args = parser.parse_args()
    sandbox = Sandbox(args.workspace, options=["--use", args.use] if args.use else [])
    done = sandbox.shell(args.command)
    print(as_text(done))
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main())
