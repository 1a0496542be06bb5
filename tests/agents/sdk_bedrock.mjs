// AWS' library for Bedrock: Converse plain and as an event stream, a call of a tool with its result, and the model's own form.
import { BedrockRuntimeClient, ConverseCommand, ConverseStreamCommand, InvokeModelCommand,
  InvokeModelWithResponseStreamCommand } from "@aws-sdk/client-bedrock-runtime";

const client = new BedrockRuntimeClient({ region: "us-east-1" });
const [prompt, work] = process.argv.slice(2);
const modelId = "us.anthropic.claude-opus-5-v1:0";
const said = (text) => ({ role: "user", content: [{ text }] });
const json = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };
const toolConfig = { tools: [{ toolSpec: { name: "bash", inputSchema: { json } } }] };

let text = "";
const streamed = await client.send(new ConverseStreamCommand({ modelId, toolConfig, messages: [said(prompt)] }));
for await (const event of streamed.stream) text += event.contentBlockDelta?.delta.text ?? "";
console.log("streamed:", text);
if (!work) process.exit(0);

const plain = await client.send(new ConverseCommand({ modelId, messages: [said(prompt)] }));
console.log("plain:", plain.output.message.content[0].text, plain.usage.outputTokens);

const messages = [said(work)];
const asks = await client.send(new ConverseCommand({ modelId, toolConfig, messages }));
const call = asks.output.message.content.find((part) => part.toolUse).toolUse;
const toolResult = { toolUseId: call.toolUseId, content: [{ text: "from-the-shell" }] };
messages.push(asks.output.message, { role: "user", content: [{ toolResult }] });
const end = await client.send(new ConverseCommand({ modelId, toolConfig, messages }));
console.log("after the tool:", end.output.message.content[0].text);

const body = JSON.stringify({ anthropic_version: "bedrock-2023-05-31", max_tokens: 100, messages: [{ role: "user", content: prompt }] });
const invoked = await client.send(new InvokeModelCommand({ modelId, body }));
console.log("invoked:", JSON.parse(new TextDecoder().decode(invoked.body)).content[0].text);
text = "";
const own = await client.send(new InvokeModelWithResponseStreamCommand({ modelId, body }));
for await (const event of own.body) text += JSON.parse(new TextDecoder().decode(event.chunk.bytes)).delta?.text ?? "";
console.log("invoked and streamed:", text);
