// ws_server.js - a server of the package ws with TLS: LOG CERT KEY
// Gives every message back; "/close?code=" ends at once with that code, "/refuse" is no WebSocket. Says its port on
// standard output, writes a JSON line a connection into the log, ends with its standard input.
"use strict";
const crypto = require("crypto"), fs = require("fs"), https = require("https"), { WebSocketServer } = require("ws");
const [log, cert, key] = process.argv.slice(2);
const note = (what) => fs.appendFileSync(log, JSON.stringify(what) + "\n");

const server = https.createServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key) });
const sockets = new WebSocketServer({
  noServer: true, perMessageDeflate: true, maxPayload: 64 << 20,
  handleProtocols: (offered) => (offered.has("realtime") ? "realtime" : false),
});
server.on("upgrade", (request, socket, head) => {
  if (request.url === "/refuse") {
    socket.end("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    return;
  }
  sockets.handleUpgrade(request, socket, head, (ws) => sockets.emit("connection", ws, request));
});
sockets.on("connection", (ws, request) => {
  const key = crypto.createHash("sha256").update(String(request.headers["x-api-key"])).digest("hex");
  note({ path: request.url, key, own: request.headers["x-own"], extensions: ws.extensions,
         authorization: request.headers.authorization !== undefined });
  const url = new URL(request.url, "https://x");
  ws.on("message", (data, binary) => ws.send(data, { binary }));
  ws.on("close", (code, reason) => note({ path: request.url, code, reason: String(reason) }));
  ws.on("error", () => {});
  if (url.pathname === "/close") ws.close(Number(url.searchParams.get("code")), "as asked");
  if (url.pathname === "/terminate") ws.terminate();
  if (url.pathname === "/ping") ws.ping("are you there", false, () => ws.once("pong", (d) => ws.send("pong " + d)));
});
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ plain: 0, tls: server.address().port })));
process.stdin.on("data", () => server.closeIdleConnections()).on("end", () => process.exit(0)).resume();
