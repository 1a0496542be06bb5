// grpc_client.js - the calls of a client of @grpc/grpc-js in the sandbox: TARGET CA CASE
// The proxy stands in the environment, as grpc-js takes it. Prints one JSON object.
"use strict";
const crypto = require("crypto"), fs = require("fs"), grpc = require("@grpc/grpc-js");
const [target, ca, which] = process.argv.slice(2);

const bytes = (b) => b;
const client = new grpc.Client(target, grpc.credentials.createSsl(fs.readFileSync(ca)), {
  "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1,
  ...(which === "keepalive" ? { "grpc.keepalive_time_ms": 100, "grpc.keepalive_timeout_ms": 2000 } : {}),
});
const path = (name) => "/test.Calls/" + name;
const in_ms = (ms) => ({ deadline: Date.now() + ms });
const sha256 = (b) => crypto.createHash("sha256").update(b).digest("hex");
const PATIENCE = Number(process.env.PATIENCE || 60000);

function said() {
  const metadata = new grpc.Metadata();
  metadata.set("x-own", "mine, and \"more\"");
  metadata.set("x-own-bin", Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
  metadata.set("authorization", "Bearer of-the-sandbox");
  return metadata;
}

// What a call says besides its messages; `settle` is called with its status.
function watch(call, settle) {
  const seen = {};
  const plain = (m) => Object.fromEntries(Object.entries(m.toJSON()).filter(([n]) => n.startsWith("x-"))
    .map(([n, v]) => [n, v.map((one) => Buffer.isBuffer(one) || one.type ? sha256(Buffer.from(one)) : one)]));
  call.on("metadata", (m) => { seen.first = plain(m); });
  call.on("status", (s) => { settle({ ...seen, code: s.code, details: s.details, last: plain(s.metadata) }); });
  return seen;
}

function unary(name, payload, options = in_ms(PATIENCE), metadata = said()) {
  return new Promise((resolve) => {
    let back, status;
    const both = () => { if (back && status) resolve({ ...status, ...back }); };
    const call = client.makeUnaryRequest(path(name), bytes, bytes, payload, metadata, options, (error, value) => {
      back = value ? { length: value.length, sha256: sha256(value) } : {};
      both();
    });
    watch(call, (s) => { status = s; both(); });
  });
}

function down(name, payload, { options = in_ms(PATIENCE), each = () => {} } = {}) {
  return new Promise((resolve) => {
    const hash = crypto.createHash("sha256");
    let messages = 0, total = 0;
    const call = client.makeServerStreamRequest(path(name), bytes, bytes, payload, said(), options);
    call.on("data", (m) => { hash.update(m); total += m.length; each(call, ++messages); });
    call.on("error", () => {});
    watch(call, (s) => resolve({ ...s, messages, total, sha256: hash.digest("hex") }));
  });
}

function up(name, payloads) {
  return new Promise((resolve) => {
    let back, status;
    const both = () => { if (back && status) resolve({ ...status, ...back }); };
    const call = client.makeClientStreamRequest(path(name), bytes, bytes, said(), in_ms(PATIENCE), (error, value) => {
      back = value ? { answer: JSON.parse(value) } : {};
      both();
    });
    watch(call, (s) => { status = s; both(); });
    const next = (i) => {
      if (i === payloads.length) call.end();
      else call.write(payloads[i], () => next(i + 1));
    };
    next(0);
  });
}

// Each message comes back before the next one goes.
function both(name, payloads, { after = (call) => call.end() } = {}) {
  return new Promise((resolve) => {
    let at = 0, equal = true;
    const call = client.makeBidiStreamRequest(path(name), bytes, bytes, said(), in_ms(PATIENCE));
    call.on("data", (m) => {
      equal = equal && m.equals(payloads[at++]);
      if (at < payloads.length) call.write(payloads[at]);
      else after(call);
    });
    call.on("error", () => {});
    watch(call, (s) => resolve({ ...s, messages: at, equal }));
    call.write(payloads[0]);
  });
}

const MIB4 = Buffer.alloc(4 << 20, "0123456789abcdef!");
const many = Array.from({ length: 50 }, (_, i) => Buffer.alloc(i * 997, i));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const cases = {
  async kinds() {
    return {
      unary: await unary("Unary", Buffer.from("hello")), empty: await unary("Unary", Buffer.alloc(0)),
      down: await down("Down", Buffer.from(JSON.stringify({ messages: 100, size: 3000 }))),
      up: await up("Up", many), both: await both("Both", many),
    };
  },
  async large() {
    return {
      unary: await unary("Unary", MIB4), sent: { length: MIB4.length, sha256: sha256(MIB4) },
      down: await down("Down", Buffer.from(JSON.stringify({ messages: 3, size: 4 << 20 }))),
      up: await up("Up", [MIB4, MIB4]), both: await both("Both", [MIB4, MIB4]),
    };
  },
  async side_by_side() {
    return Promise.all(Array.from({ length: 200 }, (_, i) => unary("Unary", Buffer.alloc(i * 100, i))));
  },
  async fail() {
    return { fail: await unary("Fail", Buffer.alloc(1)), half: await down("Half", Buffer.alloc(1)),
             unknown: await unary("Unknown", Buffer.alloc(1)), after: await unary("Unary", Buffer.from("still")) };
  },
  async deadline() {
    const before = await unary("Unary", Buffer.from("yet"));
    // Until it has come as far as the server, which a slow machine takes longer for.
    for (let allowed = 400;; allowed *= 2) {
      const began = Date.now();
      const late = await unary("Slow", Buffer.alloc(1), in_ms(allowed));
      const ms = Date.now() - began;
      if (late.first || allowed > PATIENCE)
        return { before, late, allowed, ms, after: await unary("Unary", Buffer.from("still")) };
    }
  },
  async cancel() {
    return {
      down: await down("Endless", Buffer.alloc(1), { each: (call, n) => { if (n === 20) call.cancel(); } }),
      both: await both("Both", many, { after: (call) => call.cancel() }),
      after: await unary("Unary", Buffer.from("still")),
    };
  },
  async denied() {
    return { denied: await unary("Denied", Buffer.alloc(1)), after: await unary("Unary", Buffer.from("still")) };
  },
  async keepalive() {
    let call;
    const quiet = new Promise((resolve) => {
      call = client.makeBidiStreamRequest(path("Both"), bytes, bytes, said(), in_ms(PATIENCE));
      let messages = 0;
      call.on("data", () => { messages++; });
      call.on("error", () => {});
      watch(call, (s) => resolve({ ...s, messages }));
    });
    call.write(Buffer.from("one"));
    await sleep(2500);
    call.write(Buffer.from("two"));
    call.end();
    return quiet;
  },
};

cases[which]().then((seen) => { console.log(JSON.stringify(seen)); client.close(); },
  (error) => { console.error(error); process.exit(1); });
