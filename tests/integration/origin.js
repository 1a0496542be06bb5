// origin.js - Node's own HTTP server as an upstream, and a log of what it read
//
//   node origin.js LOG CERT KEY [LENIENT] [KEEP_ALIVE_MS]
//
// One JSON line a request in LOG: what the parser made of it. Paths: /bytes?n=N, /events?n=N&ms=MS,
// /sink (counts slowly with ?ms=), anything else is echoed as JSON. When it can be used, a line on
// standard output says on which ports; it ends with its standard input.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const http = require("http");
const https = require("https");

const [log, cert, key, lenient, keepAlive] = process.argv.slice(2);
const out = fs.openSync(log, "a");
const options = {
	cert: fs.readFileSync(cert),
	key: fs.readFileSync(key),
	insecureHTTPParser: lenient === "1",
	requireHostHeader: lenient !== "1",
};
let numbers = 0;

function note(what) {
	fs.writeSync(out, JSON.stringify(what) + "\n");
}

function pathOf(request) {
	try {
		return new URL("http://" + request.headers.host + request.url);
	} catch (error) {
		return { pathname: null, hostname: null, searchParams: new URLSearchParams() };
	}
}

function answer(request, response) {
	const socket = request.socket;
	const digest = crypto.createHash("sha256");
	const url = pathOf(request);
	const whole = [];
	let bytes = 0;
	socket.number = socket.number || ++numbers;
	socket.count = (socket.count || 0) + 1;
	const what = {
		case: request.headers["x-case"] || null,
		method: request.method,
		target: request.url,
		path: url.pathname,
		host: request.headers.host || null,
		names: request.rawHeaders.filter((_, i) => i % 2 === 0),
		length: request.headers["content-length"] || null,
		coding: request.headers["transfer-encoding"] || null,
		connection: socket.number,
		nth: socket.count,
	};
	request.on("data", (piece) => {
		bytes += piece.length;
		digest.update(piece);
		if (bytes < 65536)
			whole.push(piece);
	});
	let ended = false;
	function over(complete) {
		if (ended)
			return;
		ended = true;
		note({ ...what, bytes, complete, sha256: digest.digest("hex") });
	}
	request.on("close", () => over(request.complete));
	request.on("error", () => over(false));
	request.on("end", () => {
		over(true);
		respond(request, response, url, { ...what, bytes,
			body: Buffer.concat(whole).toString("latin1") });
	});
}

function respond(request, response, url, what) {
	const count = Number(url.searchParams.get("n") || 0);
	if (url.pathname === "/bytes") {
		response.writeHead(200, { "content-type": "application/octet-stream" });
		response.end(Buffer.alloc(count, "x"));
	} else if (url.pathname === "/events") {
		let n = 0;
		response.writeHead(200, { "content-type": "text/event-stream" });
		const timer = setInterval(() => {
			response.write(`data: ${n}\n\n`);
			if (++n === count) {
				clearInterval(timer);
				response.end();
			}
		}, Number(url.searchParams.get("ms") || 10));
		response.on("close", () => clearInterval(timer));
	} else {
		const text = Buffer.from(JSON.stringify(what));
		response.writeHead(200, { "content-type": "application/json",
			"content-length": text.length });
		response.end(text);
	}
}

function start(server) {
	server.keepAliveTimeout = Number(keepAlive || 5000);
	server.keepAliveTimeoutBuffer = keepAlive ? 0 : 1000; // a second of grace in newer versions
	server.on("checkContinue", (request, response) => {
		response.writeContinue();
		answer(request, response);
	});
	server.on("clientError", (error, socket) => {
		note({ refused: error.code });
		if (socket.writable)
			socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
	});
	return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
}

Promise.all([
	start(http.createServer(options, answer)),
	start(https.createServer(options, answer)),
]).then(([plain, tls]) => process.stdout.write(JSON.stringify({ plain, tls }) + "\n"));
process.stdin.on("end", () => process.exit(0)).resume();
