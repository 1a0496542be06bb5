// h2_refusal.js - Node's http2 is refused while it still sends: KIND PORT CA
//   head      a head of 90 KB, in a tunnel with TLS
//   expect    an expectation that nobody knows, and content without end
//   connect   CONNECT to where nothing is allowed, on the socket's own connection
// Prints one JSON object: the status, the content, and the RST_STREAM code that came (or null).
"use strict";
const fs = require("fs"), http2 = require("http2"), net = require("net"), tls = require("tls");
const [kind, port, ca] = process.argv.slice(2);
const large = "y".repeat(30000);

async function inTunnel() {
  const socket = net.connect(Number(port), "127.0.0.1");
  socket.write("CONNECT open.test:443 HTTP/1.1\r\nHost: open.test:443\r\n\r\n");
  await new Promise((resolve) => socket.once("data", resolve));
  const secure = tls.connect({ socket, servername: "open.test", ca: fs.readFileSync(ca), ALPNProtocols: ["h2"] });
  await new Promise((resolve, reject) => { secure.once("secureConnect", resolve); secure.once("error", reject); });
  return http2.connect("https://open.test", { createConnection: () => secure, maxSendHeaderBlockLength: 1 << 20 });
}

async function main() {
  const session = kind === "connect" ? http2.connect(`http://127.0.0.1:${port}`) : await inTunnel();
  await new Promise((resolve) => session.once("remoteSettings", resolve));
  const fields = kind === "connect" ? { ":method": "CONNECT", ":authority": "nowhere.test" }
    : { ":method": "POST", ":path": "/test/echo", ...(kind === "head" ? { "x-1": large, "x-2": large, "x-3": large } : { expect: "the-moon" }) };
  const stream = session.request(fields, { endStream: false });
  stream.write(Buffer.alloc(200000));
  const parts = [];
  let status;
  stream.on("response", (head) => { status = head[":status"]; });
  stream.on("data", (part) => parts.push(part));
  const code = await new Promise((resolve, reject) => {
    stream.on("end", () => setTimeout(() => resolve(stream.aborted ? stream.rstCode : null), 300));
    stream.on("error", reject);
  });
  console.log(JSON.stringify({ status, text: Buffer.concat(parts).toString(), code }));
  session.destroy();
}

main().catch((error) => { console.error(error); process.exit(1); });
