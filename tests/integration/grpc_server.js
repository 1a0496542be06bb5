// grpc_server.js - a server of @grpc/grpc-js with TLS: LOG CERT KEY
// Says its port on standard output, writes a JSON line a call into the log, ends with its standard input. Messages are
// bytes, so no .proto is needed.
"use strict";
const crypto = require("crypto"), fs = require("fs"), grpc = require("@grpc/grpc-js");
const [log, cert, key] = process.argv.slice(2);

const bytes = (b) => b;
const method = (name, up, down) => ({
  path: "/test.Calls/" + name, requestStream: up, responseStream: down,
  requestSerialize: bytes, requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes,
});
const service = {
  Unary: method("Unary", false, false), Up: method("Up", true, false), Down: method("Down", false, true),
  Both: method("Both", true, true), Fail: method("Fail", false, false), Slow: method("Slow", false, false),
  Endless: method("Endless", false, true), Half: method("Half", false, true), Denied: method("Denied", false, false),
};

const sha256 = (b) => crypto.createHash("sha256").update(b).digest("hex");
const note = (what) => fs.appendFileSync(log, JSON.stringify(what) + "\n");

function begun(name, call) {
  const fields = call.metadata.getMap(), of = (n) => call.metadata.get(n);
  note({
    method: name, keys: of("x-api-key").map((k) => sha256(k)), own: of("x-own"), binary: of("x-own-bin").map(sha256),
    others: ["authorization", "cookie", "proxy-authorization"].filter((n) => n in fields), agent: fields["user-agent"],
    deadline_ms: call.getDeadline() === Infinity ? null : call.getDeadline() - Date.now(),
  });
  // It says so at the end of a call that went well, too.
  call.on("cancelled", () => { if (!call.over) note({ method: name, cancelled: true }); });
  const first = new grpc.Metadata();
  first.set("x-first", "1");
  first.set("x-first-bin", Buffer.from([0, 1, 254, 255]));
  call.sendMetadata(first);
}

// The status is on its way; with what trails.
function last(call) {
  call.over = true;
  const metadata = new grpc.Metadata();
  metadata.set("x-last", "2");
  metadata.set("x-last-bin", Buffer.from([255, 0]));
  return metadata;
}

const server = new grpc.Server({ "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 });
server.addService(service, {
  Unary(call, done) { begun("Unary", call); done(null, call.request, last(call)); },
  Denied(call, done) { begun("Denied", call); done(null, call.request, last(call)); },
  Up(call, done) {
    begun("Up", call);
    const hash = crypto.createHash("sha256");
    let messages = 0, total = 0;
    call.on("data", (m) => { hash.update(m); messages++; total += m.length; });
    call.on("end", () => done(null, Buffer.from(JSON.stringify({ messages, total, sha256: hash.digest("hex") })), last(call)));
  },
  Down(call) {
    begun("Down", call);
    const { messages, size } = JSON.parse(call.request);
    for (let i = 0; i < messages; i++) call.write(Buffer.alloc(size, i));
    call.end(last(call));
  },
  Both(call) {
    begun("Both", call);
    call.on("data", (m) => call.write(m));
    call.on("end", () => call.end(last(call)));
  },
  // Nothing was sent before: status and details are the one head that ends the stream.
  Fail(call, done) {
    note({ method: "Fail" });
    done({ code: grpc.status.FAILED_PRECONDITION, details: "not so: 100 % gr\u00fcn", metadata: last(call) });
  },
  Half(call) {
    begun("Half", call);
    call.write(Buffer.from("one"));
    call.emit("error", { code: grpc.status.ABORTED, details: "half-way", metadata: last(call) });
  },
  Slow(call) { begun("Slow", call); },
  Endless(call) {
    begun("Endless", call);
    let n = 0;
    const timer = setInterval(() => call.write(Buffer.from(String(n++))), 5);
    call.on("cancelled", () => clearInterval(timer));
  },
});
const credentials = grpc.ServerCredentials.createSsl(null, [
  { private_key: fs.readFileSync(key), cert_chain: fs.readFileSync(cert) },
]);
server.bindAsync("127.0.0.1:0", credentials, (error, port) => {
  if (error) throw error;
  console.log(JSON.stringify({ plain: 0, tls: port }));
  process.stdin.on("data", () => server.drain(`127.0.0.1:${port}`, 1000));
});
process.stdin.on("end", () => process.exit(0)).resume();
