// deepagents: one prompt streamed, then one plain and one for which the agent runs a command by a tool of this program's.
import { execSync } from "node:child_process";
import { ChatAnthropic } from "@langchain/anthropic";
import { createDeepAgent } from "deepagents";
import { tool } from "langchain";

const [prompt, work] = process.argv.slice(2);
const schema = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };
const bash = tool(({ command }) => execSync(command, { encoding: "utf8" }), { name: "bash", description: "Runs a command", schema });
const agent = createDeepAgent({ model: new ChatAnthropic({ model: "claude-opus-5" }), tools: [bash] });
const said = (content) => ({ messages: [{ role: "user", content }] });

let text = "";
for await (const [piece] of await agent.stream(said(prompt), { streamMode: "messages" })) text += piece.text;
console.log("streamed:", text);
if (!work) process.exit(0);

const plain = await agent.invoke(said(prompt));
console.log("plain:", plain.messages.at(-1).text);
const end = await agent.invoke(said(work));
console.log("after the tool:", end.messages.at(-1).text);
