// aws_client.js - the SDK of AWS asks through the sandbox's socket: SOCKET CA S3HOST BEDROCKREGION
// It signs with the keys of its environment, which are placeholders. Prints one JSON object a call.
"use strict";
const fs = require("fs");
const http = require("http");
const https = require("https");
const tls = require("tls");
const { Readable } = require("stream");
const { NodeHttpHandler } = require("@smithy/node-http-handler");
const [socketPath, ca, region, bucket] = process.argv.slice(2);

class Tunnels extends https.Agent {
  createConnection(options, done) {
    const authority = `${options.host}:${options.port || 443}`;
    const request = http.request({ socketPath, method: "CONNECT", path: authority, headers: { host: authority } });
    request.on("connect", (answer, socket) => {
      if (answer.statusCode !== 200) return done(new Error(`CONNECT: ${answer.statusCode}`));
      const secure = tls.connect({ socket, servername: options.host, ca: fs.readFileSync(ca) },
        () => done(null, secure));
      secure.on("error", done);
    });
    request.on("error", done);
    request.end();
  }
}

const handler = () => new NodeHttpHandler({ httpsAgent: new Tunnels({ keepAlive: false }) });
const say = (what, value) => console.log(JSON.stringify({ what, value }));

async function main() {
  const { S3Client, PutObjectCommand, GetObjectCommand, HeadObjectCommand } = require("@aws-sdk/client-s3");
  const s3 = new S3Client({ region, requestHandler: handler(), maxAttempts: 1 });
  const key = "a folder/ü+(1)'s & more.txt";
  await s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: "hello", Metadata: { colour: "a  b" } }));
  say("put", "done");
  const length = 200000;
  const stream = Readable.from([Buffer.alloc(length / 2, "a"), Buffer.alloc(length / 2, "b")]);
  await s3.send(new PutObjectCommand({ Bucket: bucket, Key: "stream", Body: stream, ContentLength: length }));
  say("stream", "done");
  const got = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key, Range: "bytes=0-9", VersionId: "v=1&" }));
  say("get", JSON.parse(await got.Body.transformToString()));
  await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
  say("head", "done");

  const { BedrockRuntimeClient, InvokeModelCommand, ConverseCommand } = require("@aws-sdk/client-bedrock-runtime");
  const bedrock = new BedrockRuntimeClient({ region: "us-east-1", requestHandler: handler(), maxAttempts: 1 });
  const modelId = "anthropic.claude-v2:1";
  const invoked = await bedrock.send(new InvokeModelCommand({ modelId, body: '{"a":1}', contentType: "application/json" }));
  say("invoke", JSON.parse(Buffer.from(invoked.body).toString()));
  await bedrock.send(new ConverseCommand({ modelId, messages: [{ role: "user", content: [{ text: "hello" }] }] }));
  say("converse", "done");
}

main().catch((error) => {
  say("error", `${error.name}: ${error.message}`);
  process.exit(1);
});
