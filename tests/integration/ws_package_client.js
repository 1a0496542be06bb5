// ws_package_client.js - a client of the package ws in the sandbox: PORT CA URL SCRIPT
// SCRIPT is JSON: headers, protocols, and messages to be sent one by one, each awaited: a text, {bytes: n}, {parts:
// […]} for fragments, {ping: text}; then close: [code, reason]. Prints what it saw as JSON.
"use strict";
const crypto = require("crypto"), fs = require("fs"), net = require("net"), tls = require("tls"), WebSocket = require("ws");
const [port, ca, address, script] = process.argv.slice(2);
const { headers = {}, protocols = [], messages = [], close, waits = 0 } = JSON.parse(script);
const url = new URL(address);
const seen = { messages: [] };

const raw = net.connect(Number(port), "127.0.0.1");
raw.write(`CONNECT ${url.hostname}:443 HTTP/1.1\r\nHost: ${url.hostname}:443\r\n\r\n`);
raw.once("data", (answer) => {
  if (!String(answer).startsWith("HTTP/1.1 200")) throw new Error(String(answer));
  const secure = tls.connect({ socket: raw, servername: url.hostname, ca: fs.readFileSync(ca), ALPNProtocols: ["http/1.1"] });
  secure.once("secureConnect", () => talk(secure));
});

function talk(secure) {
  const ws = new WebSocket(address, protocols, { headers, createConnection: () => secure, perMessageDeflate: true });
  let at = 0, begun;
  const next = () => {
    const one = messages[at++];
    begun = process.hrtime.bigint();
    if (one === undefined) {
      if (close) ws.close(...close);
      else if (!waits) ws.close();
    } else if (one.parts) {
      one.parts.forEach((part, i) => ws.send(part, { fin: i === one.parts.length - 1 }));
    } else if (one.ping !== undefined) {
      ws.once("pong", (data) => { seen.messages.push({ pong: String(data) }); next(); });
      ws.ping(one.ping);
    } else {
      ws.send(one.bytes === undefined ? one : Buffer.alloc(one.bytes, 0xa5));
    }
  };
  ws.on("open", () => {
    seen.protocol = ws.protocol;
    seen.extensions = ws.extensions;
    if (messages.length || !waits) next();
  });
  ws.on("message", (data, binary) => {
    const hash = crypto.createHash("sha256").update(data).digest("hex");
    seen.messages.push({ binary, length: data.length, sha256: hash });
    if (messages.length) next();
    else if (seen.messages.length === waits) ws.close();
  });
  ws.on("unexpected-response", (_, answer) => { seen.status = answer.statusCode; console.log(JSON.stringify(seen)); process.exit(0); });
  ws.on("error", (error) => { seen.error = error.message; });
  ws.on("close", (code, reason) => {
    seen.code = code;
    seen.reason = String(reason);
    console.log(JSON.stringify(seen));
    process.exit(0);
  });
}
