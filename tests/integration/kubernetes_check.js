// kubernetes_check.js - documents of Kubernetes from standard input (a JSON list), held to their schemas
//
// Answers a JSON list: for each document the list of what is wrong with it. The schemas let a field pass that
// they don't know, as the API server does not: a field of which the schema never asked is wrong too.
'use strict';
const models = require('kubernetes-models');

const classes = new Map();
function collect(module, depth) {
  for (const value of Object.values(module)) {
    if (typeof value === 'function' && value.apiVersion && value.kind) classes.set(value.apiVersion + '/' + value.kind, value);
    else if (value && typeof value === 'object' && depth < 3) collect(value, depth + 1);
  }
}
collect(models, 0);

// Notes which of the fields are looked at.
function watched(value, seen) {
  if (value === null || typeof value !== 'object') return value;
  const kept = new Map();
  return new Proxy(value, {
    get(target, key) {
      const found = Reflect.get(target, key);
      if (typeof key !== 'string' || !Object.prototype.hasOwnProperty.call(target, key)) return found;
      if (!seen.has(target)) seen.set(target, new Set());
      seen.get(target).add(key);
      if (!kept.has(key)) kept.set(key, watched(found, seen));
      return kept.get(key);
    },
  });
}

function unasked(value, seen, path, out) {
  if (value === null || typeof value !== 'object') return;
  for (const key of Object.keys(value)) {
    if (!Array.isArray(value) && !(seen.get(value) || new Set()).has(key)) out.push(`${path}/${key}: no such field`);
    else unasked(value[key], seen, `${path}/${key}`, out);
  }
}

function check(doc) {
  const model = classes.get(doc.apiVersion + '/' + doc.kind);
  if (!model) return [`no such kind: ${doc.apiVersion}/${doc.kind}`];
  const wrong = [];
  const seen = new Map();
  try {
    model.prototype.validate.call(watched(doc, seen));
  } catch (error) {
    wrong.push(error.message);
  }
  unasked(doc, seen, '', wrong);
  return wrong;
}

let text = '';
process.stdin.on('data', (piece) => (text += piece));
process.stdin.on('end', () => console.log(JSON.stringify(JSON.parse(text).map(check))));
