// OpenAI's library: both of its APIs, plain and streamed, and a call of a tool with its result; with one prompt, streamed alone.
import OpenAI from "openai";

const client = new OpenAI();
const [prompt, work] = process.argv.slice(2);
const model = "gpt-5.5";
const parameters = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };

const offered = [{ type: "function", function: { name: "bash", parameters } }];
const stream = await client.chat.completions.create({ model, stream: true, tools: offered, messages: [{ role: "user", content: prompt }] });
let text = "";
for await (const piece of stream) text += piece.choices[0]?.delta?.content ?? "";
console.log("streamed:", text);
if (!work) process.exit(0);

const plain = await client.responses.create({ model, input: prompt });
console.log("plain:", plain.output_text, plain.usage.output_tokens);

const tools = [{ type: "function", name: "bash", parameters, strict: false }];
const input = [{ role: "user", content: work }];
const asks = await client.responses.create({ model, tools, input });
const call = asks.output.find((part) => part.type === "function_call");
input.push(call, { type: "function_call_output", call_id: call.call_id, output: "from-the-shell" });
const end = await client.responses.create({ model, tools, input });
console.log("after the tool:", end.output_text);
