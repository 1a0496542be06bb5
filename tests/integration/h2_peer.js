// h2_peer.js - Node's http2 through keyhole: KIND PORT CA
//   tunnel    HTTP/2 inside CONNECT and TLS, many requests at a time
//   streams   HTTP/2 with prior knowledge; each CONNECT stream a tunnel with TLS and HTTP/1.1 or HTTP/2 in it
// Prints one JSON object.
"use strict";
const fs = require("fs"), http2 = require("http2"), https = require("https"), net = require("net"), tls = require("tls");
const [kind, port, ca] = process.argv.slice(2);
const roots = fs.readFileSync(ca);

function ask(session, fields, body) {
  return new Promise((resolve, reject) => {
    const stream = session.request(fields, { endStream: body === undefined });
    const parts = [];
    let head;
    stream.on("response", (h) => { head = h; });
    stream.on("data", (d) => parts.push(d));
    stream.on("end", () => resolve({ status: head[":status"], length: Buffer.concat(parts).length }));
    stream.on("error", reject);
    if (body !== undefined) stream.end(body);
  });
}

function connected(session) {
  return new Promise((resolve, reject) => {
    session.once("connect", () => resolve(session));
    session.once("error", reject);
  });
}

async function over(socket, count) {
  const secure = tls.connect({ socket, servername: "open.test", ca: roots, ALPNProtocols: ["h2"] });
  await new Promise((resolve, reject) => { secure.once("secureConnect", resolve); secure.once("error", reject); });
  const session = await connected(http2.connect("https://open.test", { createConnection: () => secure }));
  const all = [];
  for (let i = 0; i < count; i++) all.push(ask(session, { ":path": `/test/bytes?n=${i * 1000}` }));
  all.push(ask(session, { ":path": "/test/echo", ":method": "POST" }, Buffer.alloc(1000000)));
  all.push(ask(session, { ":path": "/test/echo", authorization: "Bearer mine" }));
  const answers = await Promise.all(all);
  session.close();
  return answers;
}

async function tunnel() {
  const socket = net.connect(Number(port), "127.0.0.1");
  socket.write("CONNECT open.test:443 HTTP/1.1\r\nHost: open.test:443\r\n\r\n");
  await new Promise((resolve) => socket.once("data", resolve));
  return over(socket, 40);
}

async function streams() {
  const outer = await connected(http2.connect(`http://127.0.0.1:${port}`));
  const open = () => new Promise((resolve, reject) => {
    const stream = outer.request({ ":method": "CONNECT", ":authority": "open.test:443" });
    stream.once("response", () => resolve(stream));
    stream.once("error", reject);
  });
  const answers = await over(await open(), 20);
  for (let i = 0; i < 10; i++) {
    const socket = await open();
    const secure = tls.connect({ socket, servername: "open.test", ca: roots });
    const status = await new Promise((resolve, reject) => {
      https.get({ host: "open.test", path: "/test/echo", headers: { host: "open.test" }, createConnection: () => secure }, (answer) => {
        answer.resume();
        answer.on("end", () => resolve(answer.statusCode));
      }).on("error", reject);
    });
    answers.push({ status, length: 0 });
  }
  outer.destroy();
  return answers;
}

({ tunnel, streams })[kind]().then(
  (answers) => console.log(JSON.stringify(answers)),
  (error) => { console.error(error); process.exit(1); });
