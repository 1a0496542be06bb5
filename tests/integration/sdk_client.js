// sdk_client.js - an API's own library asks, and prints what it says of the refusal: SDK SOCKET
// fetch sends whole URLs to the socket, as a client does that knows a proxy. Prints one JSON object: the
// error's message, its status, and how often it was asked.
"use strict";
const http = require("http");
const [sdk, socketPath] = process.argv.slice(2);
let asked = 0;

globalThis.fetch = async (input, init = {}) => {
  const request = new Request(input, { ...init, duplex: "half" });
  const content = Buffer.from(await request.arrayBuffer());
  const headers = Object.fromEntries(request.headers);
  headers.host = new URL(request.url).host;
  if (content.length > 0) headers["content-length"] = String(content.length);
  asked++;
  return new Promise((resolve, reject) => {
    const out = http.request({ socketPath, path: request.url, method: request.method, headers }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("error", reject);
      answer.on("end", () => resolve(new Response(Buffer.concat(parts), {
        status: answer.statusCode, statusText: answer.statusMessage, headers: Object.entries(answer.headers),
      })));
    });
    out.on("error", reject);
    out.end(content);
  });
};

const asks = {
  anthropic: () => {
    const { Anthropic } = require("@anthropic-ai/sdk");
    return new Anthropic({ apiKey: "sk-ant-api03-x" }).messages.create(
      { model: "claude-x", max_tokens: 1, messages: [{ role: "user", content: "hello" }] });
  },
  openai: () => {
    const { OpenAI } = require("openai");
    return new OpenAI({ apiKey: "sk-x" }).chat.completions.create(
      { model: "gpt-x", messages: [{ role: "user", content: "hello" }] });
  },
  google: () => {
    const { GoogleGenAI } = require("@google/genai");
    return new GoogleGenAI({ apiKey: "AIza-x" }).models.generateContent({ model: "gemini-x", contents: "hello" });
  },
};

asks[sdk]().then(() => console.log(JSON.stringify({ message: null, asked })), (error) => {
  console.log(JSON.stringify({ message: String(error.message), status: error.status, name: error.constructor.name, asked }));
});
