// Anthropic's library: a plain answer, a streamed one, and a call of a tool with its result; with one prompt, streamed alone.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic();
const [prompt, work] = process.argv.slice(2);
const model = "claude-opus-5", max_tokens = 100;
const tools = [{ name: "bash", input_schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] } }];

const stream = client.messages.stream({ model, max_tokens, tools, messages: [{ role: "user", content: prompt }] });
console.log("streamed:", await stream.finalText());
if (!work) process.exit(0);

const plain = await client.messages.create({ model, max_tokens, messages: [{ role: "user", content: prompt }] });
console.log("plain:", plain.content[0].text, plain.usage.output_tokens);

const messages = [{ role: "user", content: work }];
const asks = await client.messages.create({ model, max_tokens, tools, messages });
const call = asks.content.find((part) => part.type === "tool_use");
messages.push({ role: "assistant", content: asks.content });
messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "from-the-shell" }] });
const end = await client.messages.create({ model, max_tokens, tools, messages });
console.log("after the tool:", end.content[0].text);
const count = await client.messages.countTokens({ model, messages });
console.log("counted:", count.input_tokens > 0);
