// shapes_client.js - hands a placeholder to the SDK that it is for, and says what that makes of it
//
//   node shapes_client.js SDK     the placeholder is in $VALUE (and $SECRET, of AWS)
'use strict';

const value = process.env.VALUE;
const seen = {};

async function capture(url, init = {}) {
  const headers = new Headers(init.headers ?? url.headers);
  seen.authorization = headers.get('authorization') ?? headers.get('x-api-key') ?? headers.get('x-goog-api-key');
  const body = { type: 'user', name: 'x', auth: {}, data: [], models: [], ok: true };
  return new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });
}

const sdks = {
  async huggingface() { // throws where it does not begin with hf_
    const { whoAmI } = await import('@huggingface/hub');
    await whoAmI({ accessToken: value, fetch: capture });
  },
  async octokit() { // tells kinds of tokens apart by their shape
    const { createTokenAuth } = await import('@octokit/auth-token');
    Object.assign(seen, await createTokenAuth(value)());
  },
  async slack() { // takes it when the app is made
    const { App } = require('@slack/bolt');
    const app = new App({ token: value, signingSecret: 'x', tokenVerificationEnabled: false, deferInitialization: false });
    seen.authorization = 'Bearer ' + app.client.token;
  },
  async jwt() { // decodes it
    const { jwtDecode } = await import('jwt-decode');
    Object.assign(seen, { header: jwtDecode(value, { header: true }), payload: jwtDecode(value) });
  },
  async anthropic() {
    const { default: Anthropic } = await import('@anthropic-ai/sdk');
    await new Anthropic({ apiKey: value, fetch: capture, maxRetries: 0 }).models.list();
  },
  async openai() {
    const { default: OpenAI } = await import('openai');
    await new OpenAI({ apiKey: value, fetch: capture, maxRetries: 0 }).models.list();
  },
  async google() {
    globalThis.fetch = capture;
    const { GoogleGenAI } = await import('@google/genai');
    await new GoogleGenAI({ apiKey: value }).models.list();
  },
  async aws() { // signs with it
    const { S3Client, ListBucketsCommand } = require('@aws-sdk/client-s3');
    const client = new S3Client({
      region: 'us-east-1', maxAttempts: 1,
      credentials: { accessKeyId: value, secretAccessKey: process.env.SECRET },
      requestHandler: { handle: async (request) => { seen.authorization = request.headers.authorization; throw new Error('enough'); } },
    });
    await client.send(new ListBucketsCommand({})).catch(() => {});
  },
};

sdks[process.argv[2]]().then(
  () => console.log(JSON.stringify(seen)),
  (error) => { console.error(String(error)); process.exit(1); },
);
