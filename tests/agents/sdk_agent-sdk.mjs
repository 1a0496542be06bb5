// The Claude Agent SDK, with the program that it brings: one prompt, then one more and one for which it runs a command.
import { query } from "@anthropic-ai/claude-agent-sdk";

const [prompt, work] = process.argv.slice(2);

async function ask(what, prompt) {
  const options = { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true };
  for await (const message of query({ prompt, options })) {
    if (message.type === "result") console.log(`${what}:`, message.result ?? message.errors?.join(" ") ?? message.subtype);
  }
}

await ask("streamed", prompt);
if (work) {
  await ask("plain", prompt);
  await ask("after the tool", work);
}
