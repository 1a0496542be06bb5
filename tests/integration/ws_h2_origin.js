// ws_h2_origin.js - Node's http2 as an upstream that takes WebSockets by Extended CONNECT: CERT KEY [no]
//   Says its port on a line. Echoes frames of less than 126 bytes; `no`: it does not offer them.
"use strict";
const fs = require("fs"), http2 = require("http2");
const [cert, key, no] = process.argv.slice(2);
const server = http2.createSecureServer({
  cert: fs.readFileSync(cert), key: fs.readFileSync(key), settings: { enableConnectProtocol: !no },
});
server.on("stream", (stream, fields) => {
  if (fields[":method"] !== "CONNECT") {
    stream.respond({ ":status": 200 });
    stream.end(JSON.stringify(fields));
    return;
  }
  stream.respond({ ":status": 200, "x-asked": [fields[":protocol"], fields["sec-websocket-version"], fields[":path"]].join(" ") });
  let data = Buffer.alloc(0);
  stream.on("data", (piece) => {
    data = Buffer.concat([data, piece]);
    while (data.length >= 6 && data.length >= 6 + (data[1] & 127)) {
      const length = data[1] & 127, mask = data.subarray(2, 6), payload = Buffer.from(data.subarray(6, 6 + length));
      for (let i = 0; i < length; i++) payload[i] ^= mask[i % 4];
      stream.write(Buffer.concat([Buffer.from([data[0], length]), payload]));
      if ((data[0] & 15) === 8) stream.end();
      data = data.subarray(6 + length);
    }
  });
  stream.on("error", () => {});
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
