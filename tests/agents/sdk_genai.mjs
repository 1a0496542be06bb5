// Google's library: a plain answer, a streamed one, and a call of a tool with its result; with one prompt, streamed alone.
import { GoogleGenAI } from "@google/genai";

const client = new GoogleGenAI({});
const [prompt, work] = process.argv.slice(2);
const model = "gemini-2.5-pro";
const parametersJsonSchema = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };
const config = { tools: [{ functionDeclarations: [{ name: "bash", parametersJsonSchema }] }] };

let text = "";
for await (const piece of await client.models.generateContentStream({ model, contents: prompt, config })) text += piece.text;
console.log("streamed:", text);
if (!work) process.exit(0);

const plain = await client.models.generateContent({ model, contents: prompt });
console.log("plain:", plain.text, plain.usageMetadata.candidatesTokenCount);

const contents = [{ role: "user", parts: [{ text: work }] }];
const asks = await client.models.generateContent({ model, contents, config });
contents.push(asks.candidates[0].content);
contents.push({ role: "user", parts: [{ functionResponse: { name: asks.functionCalls[0].name, response: { output: "from-the-shell" } } }] });
const end = await client.models.generateContent({ model, contents, config });
console.log("after the tool:", end.text);
