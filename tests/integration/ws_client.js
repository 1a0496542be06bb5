// ws_client.js - Node's own WebSocket, through the sandbox's socket
//   node --experimental-websocket ws_client.js SOCKET CA URL PROTOCOLS
// Sends three messages, wants each back, closes with 4000, and prints what it saw as JSON.
"use strict";
const fs = require("node:fs");
const net = require("node:net");
const tls = require("node:tls");

const [socketPath, caPath, url, protocols] = process.argv.slice(2);

function connect({ hostname, servername }, callback) {
  const raw = net.connect(socketPath);
  raw.once("error", callback);
  raw.write(`CONNECT ${hostname}:443 HTTP/1.1\r\nHost: ${hostname}:443\r\n\r\n`);
  raw.once("data", (head) => {
    if (!head.toString("latin1").startsWith("HTTP/1.1 200")) return callback(new Error(String(head)));
    const secure = tls.connect(
      { socket: raw, servername: servername || hostname, ca: fs.readFileSync(caPath), ALPNProtocols: ["http/1.1"] },
      () => callback(null, secure),
    );
    secure.once("error", callback);
  });
}

// The dispatcher that fetch and WebSocket share is made at fetch's first use.
const key = Symbol.for("undici.globalDispatcher.1");
fetch("data:,").then(() => {
  const Agent = globalThis[key].constructor;
  globalThis[key] = new Agent({ connect });
  run();
});

function run() {
  const want = ["hello", "gr\u00fc\u00dfe \u{1f30d}", "x".repeat(300000)];
  const seen = { messages: 0 };
  const ws = new WebSocket(url, protocols ? protocols.split(",") : []);
  ws.onopen = () => {
    seen.protocol = ws.protocol;
    seen.extensions = ws.extensions;
    ws.send(want[0]);
  };
  ws.onmessage = (event) => {
    if (event.data !== want[seen.messages]) throw new Error("another message came back");
    seen.messages++;
    if (seen.messages < want.length) ws.send(want[seen.messages]);
    else ws.close(4000, "done");
  };
  ws.onerror = (event) => (seen.error = String(event.message || event.error || "error"));
  ws.onclose = (event) => {
    seen.code = event.code;
    seen.clean = event.wasClean;
    process.exit(0);
  };
  // A refused one has an error and, in some versions, no close.
  process.on("exit", () => console.log(JSON.stringify(seen)));
}
