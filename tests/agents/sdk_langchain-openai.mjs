// LangChain's ChatOpenAI: a plain answer, a streamed one, and a call of a tool with its result; with one prompt, streamed alone.
import { ChatOpenAI } from "@langchain/openai";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";

const [prompt, work] = process.argv.slice(2);
const model = new ChatOpenAI({ model: "gpt-5.5" });
const schema = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };
const withTools = model.bindTools([{ name: "bash", description: "Runs a command", schema }]);

let text = "";
for await (const piece of await withTools.stream(prompt)) text += piece.text;
console.log("streamed:", text);
if (!work) process.exit(0);

const plain = await model.invoke(prompt);
console.log("plain:", plain.text, plain.usage_metadata.output_tokens);

const messages = [new HumanMessage(work)];
const asks = await withTools.invoke(messages);
messages.push(asks, new ToolMessage({ content: "from-the-shell", tool_call_id: asks.tool_calls[0].id }));
const end = await withTools.invoke(messages);
console.log("after the tool:", end.text);
