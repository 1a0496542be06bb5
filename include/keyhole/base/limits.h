/* limits.h - every cap, each with the attack or the mistake that it bounds */
#ifndef KEYHOLE_BASE_LIMITS_H
#define KEYHOLE_BASE_LIMITS_H

#include <stdint.h>

enum {
	/* A credential's value: a `file:` that names a wrong file (a disk image). */
	KH_LIMIT_SECRET_BYTES = 64 * 1024,
	/* Reading a named pipe instead of a file: a writer that holds it open and writes nothing,
	   while the keeper's loop waits. All pipes of credentials together get twice as long. */
	KH_LIMIT_PIPE_READ_MS = 30 * 1000,
	/* The same while requests are served, all of which wait meanwhile: a tenant whose files are
	   pipes, each of which is held open for a while. All pipes together get twice as long in
	   the time of the next limit. */
	KH_LIMIT_PIPE_LOOK_MS = 500,
	/* How long a file is not waited for again after a read that took longer than the second
	   limit here. */
	KH_LIMIT_PIPE_AGAIN_MS = 60 * 1000,
	KH_LIMIT_PIPE_QUICK_MS = 20,
	/* Names on the ways to the credentials' files that the kernel watches: a configuration with
	   files in thousands of folders. The files at the ends of any more are looked at this
	   often. */
	KH_LIMIT_FILES_WATCHED = 4096,
	KH_LIMIT_FILES_UNWATCHED_MS = 1000,
	/* Between two looks at the events in these folders: a loop that makes files in /tmp, or
	   writes the credential's file. */
	KH_LIMIT_FILES_LOOK_MS = 250,
	/* The region for credentials on their way out (hidden.h): many heads that nobody receives.
	   It is locked into memory, and is a quarter of RLIMIT_MEMLOCK at most. */
	KH_LIMIT_HIDDEN_BYTES = 8 * 1024 * 1024,
	/* A smaller region gets a warning at the start: a few busy connections use it up, and then
	   copies of credentials are in memory that can be swapped out. */
	KH_LIMIT_HIDDEN_LEAST_BYTES = 1024 * 1024,
	/* A shorter value occurs in much text by chance, so it is refused unless `allow_short` is
	   set. */
	KH_SECRET_LEAST_BYTES = 8,
	/* A value that goes into a request's content: memory for it, three times as long once it is
	   escaped, beside what one read brings. */
	KH_LIMIT_BODY_VALUE_BYTES = 8 * 1024,
	/* Steps (members and elements) of the pointer to its place, and the decoded name of a
	   member. */
	KH_LIMIT_BODY_STEPS = 16,
	KH_LIMIT_BODY_NAME_BYTES = 128,
	/* Content with a Content-Length up to this is held until the place is found, so that the
	   length that goes upstream is right. Longer content goes upstream without a length. */
	KH_LIMIT_BODY_HELD_BYTES = 64 * 1024,
	/* A scope ("owner/repo"): the sandbox chooses it, and it is kept with the value. */
	KH_LIMIT_SCOPE_BYTES = 256,
	/* Values of one credential that the worker keeps, and that the keeper makes: sandboxes that
	   name one scope after the other, each of which takes a secret page. fair_share.h says
	   which value is evicted. */
	KH_LIMIT_SCOPES = 512,
	/* The same over all credentials, in bytes of secret pages (no more than a quarter of
	   lockable memory, secret.h): scopes of many credentials, until other values and the next
	   worker have no page left. */
	KH_LIMIT_SCOPED_BYTES = 16 * 1024 * 1024,
	/* Of those, what one sandbox has asked for and not got yet: a sandbox that names scopes
	   while the token endpoint hangs, and leaves no place to others. */
	KH_LIMIT_SCOPES_ASKED = 32,
	/* Requests for values of scopes by one sandbox, as a burst and per second: a sandbox that
	   uses up the endpoint's rate limit (of a GitHub App 5,000 per hour) and the keeper's
	   processes. */
	KH_LIMIT_SCOPE_QUESTIONS_BURST = 128,
	KH_LIMIT_SCOPE_QUESTIONS_PER_SECOND = 1,
	/* A tenant's sandboxes together have as much as each of them, and at least as much as this
	   many: a worker that was taken over and asks in the name of each, or of sandboxes that it
	   has added and removed again. */
	KH_LIMIT_SCOPE_SANDBOXES_LEAST = 16,
	/* Sandboxes and tenants whose rate the keeper remembers: its memory. */
	KH_LIMIT_SCOPE_ASKERS = 4096,
	/* Former values that are still recognised in requests, of one credential (and tenant) and
	   in all: values that change without end, each with a secret page and fingerprints. And how
	   long a token is recognised after its expiry, for clocks that differ. */
	KH_LIMIT_FORMER_SECRETS = 16,
	KH_LIMIT_FORMER_SECRETS_ALL = 256,
	KH_LIMIT_FORMER_SECRET_MS = 10 * 60 * 1000,
	/* Child processes of the keeper that fetch values, at a time: commands, which only the
	   configuration names; fetchers for one sandbox's scopes; fetchers in all. (One credential
	   may have half of the free ones: an endpoint that hangs.) */
	KH_LIMIT_COMMANDS = 8,
	/* Commands that the keeper may not kill (set-ID) and that go on after their timeout: with
	 * this many, no more commands are started. And how long the keeper waits for all of them
	 * when it ends. */
	KH_LIMIT_COMMANDS_LEFT = 4,
	KH_LIMIT_COMMANDS_LEFT_END_MS = 500,
	KH_LIMIT_FETCHERS_PER_SANDBOX = 4,
	KH_LIMIT_FETCHERS = 32,
	/* A command that prints a value: the number of its arguments, and of its environment
	   variables; bytes of each. */
	KH_LIMIT_EXEC_ARGUMENTS = 64,
	KH_LIMIT_EXEC_ARGUMENT_BYTES = 4096,
	/* How often a value that an upstream answered with 401 is renewed: the same token at most
	   once in the first time, another token of the same credential at most once in the second;
	   a command's value likewise. An upstream that always answers 401 would make keyhole flood
	   the token endpoint, or the store that the command asks. */
	KH_LIMIT_REFUSED_AGAIN_MS = 60 * 1000,
	KH_LIMIT_REFUSED_OTHER_MS = 5 * 1000,
	/* How long requests wait for the renewed value, before they get the old one: a single 401
	   together with a store that hangs, which would hold up all other requests. */
	KH_LIMIT_REFUSED_WAIT_MS = 5 * 1000,
	/* The OAuth `scope` parameter: all scopes together. */
	KH_LIMIT_MINT_SCOPES_BYTES = 4096,
	/* A token, and the whole answer of a token endpoint: an endpoint that answers without end.
	 */
	KH_LIMIT_TOKEN_BYTES = 12 * 1024,
	KH_LIMIT_FETCH_BYTES = 48 * 1024,
	/* The configuration and each preset: a YAML file of gigabytes. */
	KH_LIMIT_CONFIG_BYTES = 256 * 1024 * 1024,
	/* The keyhole.yaml of a workspace, which each run there reads whole: one of gigabytes that
	   an agent leaves. */
	KH_LIMIT_TRUSTED_FILE_BYTES = 1024 * 1024,
	KH_LIMIT_CONFIG_DEPTH = 32,
	/* A session with an upstream that is kept for its next connection: its ticket and
	   certificate, which the upstream chooses. */
	KH_LIMIT_TLS_SESSION_BYTES = 16 * 1024,
	/* What an upstream sends of certificates, and of names of authorities when it asks for a
	   client's: bytes of either message, certificates (a leaf, the ten below the anchor that
	   are followed, and the anchor), and names. Junk in all that OpenSSL takes by default
	   (100 KB) costs 37 ms of the thread and 3 MB. */
	KH_LIMIT_TLS_CHAIN_BYTES = 32 * 1024,
	KH_LIMIT_TLS_CERTIFICATES = 12,
	KH_LIMIT_TLS_AUTHORITIES = 1024,
	/* RSA keys in it: a verification with a key of 16,384 bits takes 5 ms, and so does one with
	 * 3,072 bits and an exponent as long. */
	KH_LIMIT_TLS_RSA_BITS = 8192,
	KH_LIMIT_TLS_RSA_EXPONENT_BITS = 64,
	/* How many reloads an exchange outlives: it keeps the configuration that it began under,
	   and one exchange for each reload kept as many of them in the worker's memory. */
	KH_LIMIT_RELOADS_OUTLIVED = 32,
	/* Conditions of a rule, and their patterns: each request is compared with all of them, in
	   each field and parameter. */
	KH_LIMIT_CONDITIONS = 16,
	KH_LIMIT_PATTERNS = 32,
	KH_LIMIT_PATTERN_BYTES = 256,
	/* The work of one decision, in steps of about a nanosecond: a path of kilobytes of escapes,
	   with fields that name other methods and hosts, is compared with each rule in each of
	   these readings, while all other tenants' requests wait for the thread. An ordinary
	   request takes some tens of steps per rule for its host. */
	KH_LIMIT_DECISION_STEPS = 4 * 1000 * 1000,
	/* What a parameter of a query costs in such steps, each time that the query is searched:
	   thousands of parameters of one byte. */
	KH_LIMIT_PARAMETER_STEPS = 128,
	/* After a reload, the decisions about what runs that a turn of the loop makes: thousands of
	   requests that are costly to decide, which a sandbox has under way when the operator
	   reloads. The last of a turn may exceed it. */
	KH_LIMIT_RECHECK_STEPS = 4 * 1000 * 1000,
	/* A preset's parameters, the values of one parameter, and the rules and hosts that one use
	   expands to: lists that multiply each other. */
	KH_LIMIT_PRESET_PARAMETERS = 16,
	KH_LIMIT_PRESET_VALUES = 64,
	KH_LIMIT_PRESET_RULES = 4096,
	/* Hosts of one credential, over all uses of its preset: each is compared for every rule
	   that names the credential, and for every request. */
	KH_LIMIT_CREDENTIAL_HOSTS = 4096,
	/* Countries, or networks (ASNs), in one list of `geo`: each dialled address is looked up in
	   it. */
	KH_LIMIT_GEO_NUMBERS = 65536,
	/* A geo database (published ones have up to 0.5 GiB): a wrong file, which is held in memory
	   whole. */
	KH_LIMIT_GEO_BYTES = 1024 * 1024 * 1024,
	/* Nodes of a geo database's tree that are checked before it is used, and records in them: a
	   damaged file. */
	KH_LIMIT_GEO_NODES = 65536,
	/* A message between keeper and worker, and its descriptors: a compromised worker that makes
	   the keeper allocate. */
	KH_LIMIT_CHANNEL_BYTES = 64 * 1024,
	KH_LIMIT_CHANNEL_FDS = 16,
	/* How long a worker may block its keeper's sends, all messages together: a compromised
	   worker that reads each message just before the send would time out could hold the keeper
	   for minutes. A tenth of the time that passes is given back. The second value is the limit
	   once the keeper was told to end. */
	KH_LIMIT_CHANNEL_PATIENCE_MS = 10 * 1000,
	KH_LIMIT_CHANNEL_ENDING_MS = 1000,
	/* From GO to READY: a worker that keeps using rules that are no longer in force. At a start
	   this allows for reading a long journal. */
	KH_LIMIT_READY_MS = 60 * 1000,

	/* Request or response line: a client that never ends its line. */
	KH_LIMIT_LINE_BYTES = 16 * 1024,
	/* A whole head (line and fields), and its number of fields: memory per connection before
	   any rule is asked. */
	KH_LIMIT_HEAD_BYTES = 64 * 1024,
	KH_LIMIT_FIELDS = 128,
	/* One field, name and value: memory, as above. */
	KH_LIMIT_FIELD_BYTES = 32 * 1024,
	/* A trailer section: memory, as above. */
	KH_LIMIT_TRAILER_BYTES = 16 * 1024,
	/* A chunk-size line with its extension: extensions that drip slowly (CVE-2023-39326 and
	   similar). */
	KH_LIMIT_CHUNK_LINE_BYTES = 256,
	/* A chunk with a signature of its own (aws_sigv4): it is held until it is whole, on as many
	   connections as a sandbox has. SDKs make chunks of 8 to 128 KiB. */
	KH_LIMIT_SIGNED_CHUNK_BYTES = 1024 * 1024,
	/* All chunk extensions of a message: many small ones, as above. */
	KH_LIMIT_CHUNK_EXT_BYTES = 16 * 1024,
	/* Interim (1xx) responses before the final one: an upstream that sends them for ever. */
	KH_LIMIT_INTERIM_RESPONSES = 16,
	/* Bytes of those together, in HTTP/2 decoded: an upstream that sends heads of 64 KiB, which
	   are a few bytes in HPACK, and each of which is searched for what must not come back. */
	KH_LIMIT_INTERIM_BYTES = 64 * 1024,
	/* Options in Connection, including empty ones: each is compared with each field. */
	KH_LIMIT_CONNECTION_OPTIONS = 32,
	/* Empty lines before a request line (RFC 9112 §2.2 allows "at least one"). */
	KH_LIMIT_EMPTY_LINES = 1,

	/* A WebSocket frame and message: keyhole forwards them in pieces; this protects an endpoint
	   that collects a whole one. */
	KH_LIMIT_WS_FRAME_BYTES = 256 * 1024 * 1024,
	KH_LIMIT_WS_MESSAGE_BYTES = 1024 * 1024 * 1024,
	/* Fragments of a message: an endpoint that keeps a list of one-byte fragments needs a
	   hundred times their size. */
	KH_LIMIT_WS_FRAGMENTS = 64 * 1024,
	/* Control frames: a flood of pings, each of which must be answered. */
	KH_LIMIT_WS_CONTROLS_PER_SECOND = 100,
	KH_LIMIT_WS_CONTROLS_BURST = 1000,
	/* HTTP/2: concurrent streams of one connection of a sandbox: memory for their heads. */
	KH_LIMIT_H2_STREAMS = 256,
	/* Decoded bytes of one field section above which the connection ends: an HPACK bomb, where
	   each byte stands for a field of kilobytes. (Up to this, what exceeds the head's cap is
	   only dropped.) */
	KH_LIMIT_H2_DECODED_BYTES = 4 * 64 * 1024,
	/* Decoded bytes of field sections that one connection may bring in one turn of the loop,
	   and the fixed cost that each section adds: HPACK packs a thousand heads into 40 KB, and
	   all other tenants' requests would wait until each is decided. The rest comes in the next
	   turn, after all other connections. */
	KH_LIMIT_H2_TURN_BYTES = 64 * 1024,
	/* What all connections of one sandbox on a thread together do in a turn, in either version
	 * of HTTP, in bytes of heads (work_share.h): hundreds of connections with cheap requests
	 * that are refused, so that all other tenants' requests would wait for seconds. It is about
	 * 6 ms. */
	KH_LIMIT_WORK_SHARE = 128 * 1024,
	/* A head beside its bytes: it is decided, refused and recorded. */
	KH_LIMIT_WORK_PER_HEAD = 1024,
	/* The end of an exchange that was opened: it is recorded and freed with all that it has. A
	 * sandbox may close connections with thousands of them at one moment. */
	KH_LIMIT_WORK_PER_END = 384,
	/* A piece of content, and how many of its bytes count as one byte of a head: chunks of one
	   byte. */
	KH_LIMIT_WORK_PER_PIECE = 32,
	KH_LIMIT_WORK_CONTENT = 4,
	/* A chunk of content that is signed anew (SigV4): about 8 microseconds. */
	KH_LIMIT_WORK_PER_SIGNATURE = 192,
	/* A read, and what it leads to: a write to the other side. Also a step of a handshake:
	   thousands of connections that each send a byte. */
	KH_LIMIT_WORK_PER_READ = 256,
	/* Bytes of a ClientHello that count as one, each time that it is read again from its
	   beginning: a ClientHello in records of one byte, one of which comes with each read. */
	KH_LIMIT_WORK_HELLO = 32,
	/* Streams of an HTTP/2 connection that count as one, in each SETTINGS frame: it may open
	   the windows of thousands. */
	KH_LIMIT_WORK_STREAMS = 4,
	/* A WebSocket frame in it. */
	KH_LIMIT_WORK_PER_FRAME = 8,
	/* Steps of a decision that count as one. */
	KH_LIMIT_WORK_STEPS = 32,
	/* A ClientHello that is answered, beside its bytes: about 170 microseconds. A handshake has
	   two where the client is asked for another key. In TLS 1.2 also the ClientKeyExchange. */
	KH_LIMIT_WORK_PER_HANDSHAKE = 3584,
	/* CPU time of a step of a handshake with an upstream that counts as one: the server chooses
	   the groups, keys and certificates, so what it takes is measured. */
	KH_LIMIT_WORK_NS = 50,
	/* A TLS message after the handshake, a KeyUpdate for example: about 50 microseconds. */
	KH_LIMIT_WORK_PER_TLS_MESSAGE = 1024,
	/* TLS messages without content (KeyUpdate, NewSessionTicket, HelloRequest, warnings) that a
	   sandbox or an upstream may send, and the content that pays for each further one: records
	   of 27 bytes that each cost as much as a head, without end. A client has no reason to send
	   more than one in many gigabytes; a server sends a few tickets at the start. */
	KH_LIMIT_TLS_MESSAGES_DOWN = 4,
	KH_LIMIT_TLS_MESSAGES_UP = 16,
	KH_LIMIT_TLS_CONTENT_PER_MESSAGE = 16 * 1024,
	/* CONTINUATION frames after one HEADERS: a section that never ends (CVE-2024-27316). The
	   largest allowed head takes 4. */
	KH_LIMIT_H2_CONTINUATIONS = 6,
	/* Streams that the peer resets, or makes us reset, before they are complete, as a burst and
	   per second: rapid reset (CVE-2023-44487) and its mirror (CVE-2025-8671). */
	KH_LIMIT_H2_RESETS = 256,
	KH_LIMIT_H2_RESETS_PER_SECOND = 64,
	/* Frames without useful content (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, DATA that is
	   empty or padding, heads that are refused or come too late, types of extensions), as a
	   burst and per second, beyond those that real work brings with it: floods of them, and
	   windows opened one byte at a time. */
	KH_LIMIT_H2_IDLE_FRAMES = 2048,
	KH_LIMIT_H2_IDLE_FRAMES_PER_SECOND = 512,
	/* Acknowledgements (of PING and SETTINGS) that wait to be written: a peer that asks for
	   them and reads none. For RST_STREAM frames KH_LIMIT_H2_RESETS comes on top. */
	KH_LIMIT_H2_UNSENT_FRAMES = 512,
	/* Bytes that all streams of a connection may have waiting to be written, before each may
	   add only one frame: a peer that opens streams but no window. */
	KH_LIMIT_H2_OUT_BYTES = 1024 * 1024,

	/* Concurrent streams of a connection outside of a tunnel: each may be a tunnel itself. A
	   tunnel also counts as a connection of its sandbox. */
	KH_LIMIT_H2_TUNNELS = 4096,
	/* A ClientHello with its record headers, if keyhole reads it and passes it on: one that is
	   split into records of one byte is parsed again with every byte. Current clients send 0.3
	   to 4 KiB. Without its headers, also one that OpenSSL reads: it compares long lists of
	   ciphers, groups and signatures in 1.4 milliseconds. */
	KH_LIMIT_HELLO_BYTES = 16 * 1024,
	/* The extension certificate_authorities of a ClientHello (RFC 8446 section 4.2.4), which
	   keyhole has no use for: 3,900 empty names kept 720 KB for the life of a connection. */
	KH_LIMIT_HELLO_AUTHORITIES_BYTES = 256,
	/* What a sandbox may send until its handshake is complete, in any number of records, with
	   what follows in the same read: a second ClientHello, of which that much takes 2.7
	   milliseconds. */
	KH_LIMIT_HANDSHAKE_BYTES = 64 * 1024,

	/* What one side may have sent ahead of the other's reading: a slow reader after a fast
	   writer. */
	KH_LIMIT_RELAY_BYTES = 64 * 1024,
	/* One read of a socket: one connection that takes a whole turn of the loop. */
	KH_LIMIT_READ_BYTES = 32 * 1024,
	/* Exchanges on one connection from a sandbox: memory that a connection without an end
	   keeps. */
	KH_LIMIT_EXCHANGES_PER_CONNECTION = 100000,
	/* Concurrent connections of one listener (a sandbox): one that opens as many as it can.
	   (npm opens up to about 2,100.) */
	KH_LIMIT_CONNECTIONS_PER_LISTENER = 16384,
	/* Memory that the HTTP/2 streams of one listener may keep, over all its connections: many
	   connections with as many streams as each may have. Above it no new stream is accepted. A
	   quarter above it, a connection that needs more ends, unless the connection keeps no more
	   than the second value, as one of HTTP/1 might. */
	KH_LIMIT_H2_KEPT_PER_LISTENER = 256 * 1024 * 1024,
	KH_LIMIT_H2_KEPT_FREELY = 256 * 1024,
	/* … and what each exchange counts in it, for data that its upstream may have sent ahead. */
	KH_LIMIT_H2_KEPT_PER_EXCHANGE = 32 * 1024,
	/* What a connection is charged beside its buffers: its object and libevent's; OpenSSL's,
	   with TLS records; an exchange. Memory is charged in steps and given back when two steps
	   are free, so that a kept-alive request changes little. */
	KH_LIMIT_KEPT_CONNECTION = 3 * 1024,
	KH_LIMIT_KEPT_TLS = 30 * 1024,
	KH_LIMIT_KEPT_EXCHANGE = 5 * 1024,
	KH_LIMIT_KEPT_STEP = 16 * 1024,
	/* Content kept until the upstream has answered, to send it again if the upstream did not
	   process the request: a sandbox whose upstreams are slow. */
	KH_LIMIT_HELD_BYTES = 16 * 1024,
	/* A model's name: it is kept with the exchange, and written into the journal. */
	KH_LIMIT_MODEL_BYTES = 200,
	/* Nesting of objects and arrays in content that is parsed: each takes a bit. */
	KH_LIMIT_JSON_DEPTH = 1024,
	/* The same in a document that is read into a tree (json_load.h), which is walked by
	   recursion: a user of the admin socket, a token endpoint or an image with an array in an
	   array, and so on, on a thread with a stack of 256 KiB. */
	KH_LIMIT_JSON_TREE_DEPTH = 32,
	/* How many times limits.held_content one sandbox may hold at a time: many connections, each
	   with content that never ends. */
	KH_LIMIT_HELD_CONTENTS = 4,
	/* The HTTP/2 window of one response from an upstream: at first and at most. And the sum of
	   all that was granted above the first value, which sandboxes share: responses that nobody
	   reads. */
	KH_LIMIT_UP_WINDOW_LEAST = 64 * 1024,
	KH_LIMIT_UP_WINDOW_MOST = 512 * 1024,
	KH_LIMIT_UP_WINDOWS = 128 * 1024 * 1024,
	/* Milliseconds that an upstream may send nothing on an HTTP/2 connection after a PING.
	   After the first, no new exchange goes there. After the second, the exchanges there end:
	   an upstream that has gone, or that never answers and holds a sandbox's exchanges until
	   timeouts.response. */
	KH_LIMIT_UP_PONG_MS = 3 * 1000,
	KH_LIMIT_UP_SILENT_MS = 20 * 1000,
	/* How often one exchange is moved to another connection: an upstream that refuses each
	   time. */
	KH_LIMIT_MOVES = 3,
	/* Idle upstream connections that one thread keeps for each version of HTTP, in all and for
	   one key of the pool; fewer if RLIMIT_NOFILE leaves few (up_pool.c): a sandbox that asks
	   many hosts once. */
	KH_LIMIT_POOL_IDLE = 256,
	KH_LIMIT_POOL_IDLE_PER_KEY = 32,

	/* Wrong tokens that a TCP listener checks, per second and as a burst, and the shortest
	   token that may be configured: guessing. */
	KH_LIMIT_WRONG_TOKENS_PER_SECOND = 10,
	KH_LIMIT_WRONG_TOKENS_BURST = 100,
	KH_TOKEN_LEAST_BYTES = 16,

	/* Places in one request's head that are compared with the fingerprints of real values, and
	   how many of them may agree in their 16 bytes and length, so that the digest is computed.
	   Every request takes the time of that many, so that a sandbox learns nothing from the
	   time. */
	KH_LIMIT_CANDIDATES = 64,
	KH_LIMIT_CANDIDATE_DIGESTS = 16,
	/* Requests of one sandbox that are refused only for a real value in them: each tells the
	   sandbox that a guess was right. After such a burst nothing of the sandbox leaves until
	   the next one is allowed, one in KH_LIMIT_RECOGNITION_MS. */
	KH_LIMIT_RECOGNITIONS_BURST = 32,
	KH_LIMIT_RECOGNITION_MS = 5 * 1000,

	/* The most that limits of the configuration may be set to. Above these, the numbers that
	   count them would overflow in less than ten years (quota.h). */
	KH_LIMIT_RATE_REQUESTS = 100000, /* per second */
	KH_LIMIT_QUOTA_PLACES = 1000000,
	KH_LIMIT_LIFETIME_LEAST_MS = 1000,
	KH_LIMIT_LIFETIME_MOST_MS = 7 * 24 * 3600 * 1000,
	/* All counted limits together: the keeper's memory and file for them. */
	KH_LIMIT_QUOTA_SLOTS = 1024 * 1024,
	/* If a limit clears later than this, the client is told that waiting does not help (403
	   instead of 429). */
	KH_LIMIT_PATIENCE_MS = 3600 * 1000,

	/* Leaves for one sandbox: a flood of CONNECTs to made-up names, each of which costs a
	   signature. */
	KH_LIMIT_LEAVES_PER_SECOND = 50,
	KH_LIMIT_LEAVES_BURST = 500,
	/* All leaves together, in the keeper: a worker that was taken over and collects
	   certificates of the CA. */
	KH_LIMIT_SIGNATURES_PER_SECOND = 1000,
	KH_LIMIT_SIGNATURES_BURST = 4000,
	/* Of those, leaves for hosts that no rule allows: names without end, so that no leaf is
	   left for the hosts that are allowed. */
	KH_LIMIT_REFUSAL_LEAVES_PER_SECOND = 500,
	KH_LIMIT_REFUSAL_LEAVES_BURST = 2000,
	/* Signatures that are spent and not forgotten yet (account.h), which at the rate above
	   settles at this number, less than the burst: sandboxes that ask for more than the keeper
	   makes, so that other tenants wait. Each tenant and sandbox has a share of it. */
	KH_LIMIT_SIGNATURES_SPENT = 2800,
	/* Leaves that the keeper was asked for and has not signed: a flood of names ahead of
	   another tenant's handshake. Each tenant and sandbox has a share (account.h). A handshake
	   beyond the share waits, and asks when one of the sandbox's leaves has come. So few are
	   enough to keep the keeper busy, and each one ahead costs another tenant half a
	   millisecond or more: the keeper signs it, and the worker reads it. */
	KH_LIMIT_LEAVES_WANTED = 16,
	/* Leaves in the cache: names without end, each of which keeps memory. */
	KH_LIMIT_LEAF_CACHE = 4096,

	/* Refusals of one sandbox that get a record of their own, per second and as a burst: a
	   sandbox that is refused as fast as it can ask, and fills the disk that all tenants'
	   requests need. */
	KH_LIMIT_REFUSALS_PER_SECOND = 10,
	KH_LIMIT_REFUSALS_BURST = 1000,
	/* The other refusals are counted, and the count is written this often. */
	KH_LIMIT_REFUSALS_SAID_MS = 5000,
	/* Bytes of such records that are spent and not forgotten (account.h): many sandboxes of one
	   tenant, each within its own limit. In the long run all tenants together write 1.3 MiB a
	   second. */
	KH_LIMIT_REFUSALS_SPENT_BYTES = 64 * 1024 * 1024,
	/* Lines in the operator's log about one sandbox: a flood of refusals. The journal records
	   or counts them all. */
	KH_LIMIT_LOG_LINES_PER_SECOND = 5,
	KH_LIMIT_LOG_LINES_BURST = 100,

	/* Addresses used from one DNS answer: an answer with very many. */
	KH_LIMIT_ADDRESSES = 16,
	/* Of those, addresses dialled at a time: a name whose addresses do not answer, each of
	   which takes a socket. */
	KH_LIMIT_DIAL_ATTEMPTS = 4,
	/* Names being resolved at a time, by all threads; each waiter for the same name counts as
	   well. Names whose servers do not answer, so that others can't look up theirs: each tenant
	   and sandbox has a share of it (account.h), a single sandbox up to 2,730. There are fewer
	   if their sockets would leave too few descriptors for everything else
	   (kh_account_lookups). */
	KH_LIMIT_RESOLVES = 8192,

	/* A record of the journal, and its path and query names (the path is cut, with a mark):
	   requests that fill the disk. */
	KH_LIMIT_RECORD_BYTES = 8 * 1024,
	KH_LIMIT_AUDIT_PATH_BYTES = 1024,
	KH_LIMIT_AUDIT_QUERY_NAMES = 32,
	/* Places that the end of a run tells apart: a sandbox that asks for another host each time.
	 */
	KH_LIMIT_REFUSED_PLACES = 256,
	/* Records of one loop turn: memory per thread. */
	KH_LIMIT_BATCH_BYTES = 4 * 1024 * 1024,
	/* How many bytes of the journal are read for exchanges of the last writer that did not end,
	 * and how many bytes at its end may be no record: a worker that was taken over writes 48 GB
	 * and dies, and no worker after it would get ready. */
	KH_LIMIT_RECOVER_BYTES = 1024 * 1024 * 1024,
	KH_LIMIT_TORN_BYTES = 64 * 1024 * 1024,
	/* How many of those exchanges are named (16 MiB of memory). */
	KH_LIMIT_RECOVER_IDS = 1024 * 1024,
	/* How long that reading may take: a worker that was taken over chose the lines and ids, and
	   nothing is served meanwhile. */
	KH_LIMIT_RECOVER_MS = 10 * 1000,
	/* How much of the journal a daemon that has just started follows before it serves, and for
	   how long: the same attack. A longer file is continued in a new segment. */
	KH_LIMIT_FOLLOW_BYTES = 256 * 1024 * 1024,
	KH_LIMIT_FOLLOW_MS = 3 * 1000,
	/* Runs of valid lines that `keyhole audit verify` names in a broken journal: whoever wrote
	   it can have broken it in every line. */
	KH_LIMIT_VERIFY_PARTS = 16,
	/* Requests of a journal that `keyhole suggest` and `keyhole policy diff` tell apart, by
	   method, host and pattern of the path, and their texts: a sandbox asks for paths without
	   end. The others are only counted. */
	KH_LIMIT_PATH_GROUPS = 4096,
	KH_LIMIT_PATH_GROUPS_BYTES = 16 * 1024 * 1024,
	/* The longest time between a record and the checkpoint that reports it to the keeper: the
	   end of the journal that could be removed unnoticed when a worker dies. */
	KH_LIMIT_CHECKPOINT_MS = 1000,
	/* What the keeper copies from a worker's standard error, and logs about sandboxes that the
	   worker adds: per line, as a burst, and per second. A worker that was taken over floods
	   the log. */
	KH_LIMIT_CHILD_LINE_BYTES = 1024,
	KH_LIMIT_CHILD_LOG_BYTES = 1024 * 1024,
	KH_LIMIT_CHILD_LOG_PACE_BYTES = 256 * 1024,

	/* Threads and processes of the uid that root's workers and fetchers have: one that was
	   taken over could use up every process id of the host. A worker on a host with many
	   processors has some hundred threads, and during a handover there are two workers. */
	KH_LIMIT_LOCKIN_TASKS = 4096,

	/* The admin socket and the metrics port: concurrent connections of each kind of caller
	   (root and the daemon's own user; users who may see tenants; other users; TCP), so that no
	   kind locks another one out. When all are taken, the user with the most gives one up to
	   another user who has fewer. On the port, where users are not known, a connection that has
	   asked nothing gives way to a new one. Callers who may add sandboxes have more, since as
	   many launchers ask as sandboxes start at once. */
	KH_LIMIT_ADMIN_CONNECTIONS = 32,
	KH_LIMIT_ADMIN_LAUNCHERS = 256,
	/* Of a request there: its content, and the time until its last byte; the time to write an
	   answer; and how long a connection may be idle. A client that drips bytes. */
	KH_LIMIT_ADMIN_CONTENT_BYTES = 64 * 1024,
	KH_LIMIT_ADMIN_REQUEST_MS = 5000,
	KH_LIMIT_ADMIN_ANSWER_MS = 30 * 1000,
	KH_LIMIT_ADMIN_IDLE_MS = 90 * 1000,
	/* When the process ends or another one takes over: for who connected before and was not
	   heard yet, and for answers that are under way. A client that connects and says nothing.
	 */
	KH_LIMIT_ADMIN_LAST_MS = 1000,
	/* The status of credentials, as `status` shows it: a very large configuration. The answer
	   says how many are left out. */
	KH_LIMIT_CREDENTIAL_STATUS_BYTES = 32 * 1024 * 1024,
	/* An answer there. (The metrics of ten thousand tenants take a few megabytes.) */
	KH_LIMIT_ADMIN_ANSWER_BYTES = 256 * 1024 * 1024,

	/* Readers of /v1/events: how many of each kind of caller; what may wait for one that reads
	   slowly; and what it must take in every KH_LIMIT_ADMIN_ANSWER_MS while anything waits, or
	   its connection ends. Events that find no room, there or in a thread's ring, are counted
	   and not shown. */
	KH_LIMIT_EVENTS_READERS = 8,
	KH_LIMIT_EVENTS_WAITING_BYTES = 1024 * 1024,
	KH_LIMIT_EVENTS_PACE_BYTES = 64 * 1024,
	KH_LIMIT_EVENTS_RING_BYTES = 1024 * 1024, /* per thread; a power of two */
	KH_LIMIT_EVENTS_MS = 50,		  /* between two reads of the rings */
	/* `keyhole run --ask`: the text that a person is shown about a request ("METHOD URL"; a
	   longer request is not asked about, so nothing is hidden behind a cut); how many requests
	   of one sandbox, and how many questions of all of them, wait at the same time, so that a
	   sandbox that asks in a loop is refused instead of heard; how many answers for the run are
	   remembered; and the longest that a request waits. */
	KH_LIMIT_QUESTION_BYTES = 1024,
	KH_LIMIT_QUESTIONS_OF_SANDBOX = 16,
	KH_LIMIT_QUESTIONS = 64,
	KH_LIMIT_ANSWERS_REMEMBERED = 256,
	KH_LIMIT_QUESTION_MS = 60 * 1000,
	/* Dynamic sandboxes, together and of one tenant: somebody who adds them in a loop. Each
	   costs a descriptor in both processes, and a few kilobytes. (They may use five eighths of
	   a process's descriptors; the rest is for connections.) */
	KH_LIMIT_DYNAMIC_SANDBOXES = 32 * 1024,
	KH_LIMIT_DYNAMIC_SANDBOXES_PER_TENANT = 24 * 1024,
	/* The narrowing of one dynamic sandbox, as the keeper stores it: about 500 rules. It must
	   fit into one message. */
	KH_LIMIT_NARROWING_BYTES = 48 * 1024,
	/* All narrowings of a tenant, and of a daemon: a worker that was taken over adds sandboxes
	   to fill the keeper's memory. */
	KH_LIMIT_NARROWINGS_PER_TENANT_BYTES = 32 * 1024 * 1024,
	KH_LIMIT_NARROWINGS_BYTES = 128 * 1024 * 1024,
	KH_LIMIT_DYNAMIC_SANDBOX_TTL_LEAST_MS = 1000,

	/* keyhole-init: concurrent relayed connections (a flood from inside), bytes relayed at a
	   time, and how many such buffers are kept for bytes that the other side did not take (many
	   that do not read); further bytes stay in the kernel. */
	KH_LIMIT_INIT_CONNECTIONS = 4096,
	KH_LIMIT_INIT_RELAY_BYTES = 16 * 1024,
	KH_LIMIT_INIT_RESTS = 64,
	/* keyhole-init: names that have an address (a flood of names: the oldest lose theirs),
	   ports on which connections are captured, concurrent DNS queries over TCP and the bytes of
	   one; bytes of the proxy's answer to CONNECT. */
	KH_LIMIT_INIT_NAMES = 8192,
	KH_LIMIT_INIT_PORTS = 32,
	KH_LIMIT_INIT_DNS_CONNECTIONS = 64,
	KH_LIMIT_INIT_DNS_BYTES = 1232,
	KH_LIMIT_INIT_ANSWER_BYTES = 4096,
	/* Connections to the proxy that were passed to keyhole-init and not received yet (a sandbox
	   that asks for more and more, until its user has no descriptors left). */
	KH_LIMIT_UPLINK_WAITING = 8,
	/* --publish: ports, and concurrent connections (a flood from the host). */
	KH_LIMIT_PUBLISHED_PORTS = 16,
	KH_LIMIT_PUBLISHED_CONNECTIONS = 256,
	/* --publish: how long clients may still read at the sandbox's end (one that reads nothing).
	 */
	KH_LIMIT_PUBLISHED_END_MS = 2000,
	/* Paths that the sandbox's command may write to (a mistake of the launcher). */
	KH_LIMIT_INIT_PLACES = 64,
	/* The command's environment. The kernel accepts 2 MiB together with the arguments. */
	KH_LIMIT_INIT_ENVIRON_BYTES = 2 * 1024 * 1024,

	/* Entries of all mounted trees that are searched for sockets and set-ID files before a
	   sandbox starts: some seconds. Then, how many of these are covered, each by a mount and a
	   descriptor (an agent that makes sockets in its workspace, so that the next run has no
	   descriptors left). */
	KH_LIMIT_SANDBOX_TREE_ENTRIES = 4 * 1000 * 1000,
	KH_LIMIT_SANDBOX_TREE_COVERS = 256,

	/* After the command has ended and while its last output is relayed to a file or a socket:
	   milliseconds without any progress (a peer that never reads would hold the launcher for
	   ever). */
	KH_LIMIT_SANDBOX_OUTPUT_MS = 30 * 1000,

	/* Bytes of log lines that are held (kh_log_hold): an agent that has thousands of files set
	   aside. */
	KH_LIMIT_LOG_HELD_BYTES = 256 * 1024,

	/* A sandbox's start and end, in milliseconds. START: from the start of an engine's program
	   until the command runs, and for each request to docker before that (a program that hangs,
	   a daemon that does not answer). It is generous, since many may start at once; nothing is
	   pulled from a registry by then. HEARD: until keyhole-init must have passed a signal on.
	   GRACE: until a command, or a program without its keyhole-init, that was asked to end is
	   killed. REMOVE: until the launcher stops waiting for the removal of what is left in
	   docker, which goes on without it. */
	KH_LIMIT_SANDBOX_START_MS = 2 * 60 * 1000,
	KH_LIMIT_SANDBOX_HEARD_MS = 5000,
	KH_LIMIT_SANDBOX_GRACE_MS = 2000,
	KH_LIMIT_SANDBOX_REMOVE_MS = 10 * 1000,
	/* What a sandbox may have of its user's inotify instances and watches: the host's limit for
	   one user, divided by this. */
	KH_LIMIT_SANDBOX_INOTIFY_PART = 4,
	KH_LIMIT_SANDBOX_WATCHES_PART = 2,

	/* The survey of a workspace before and after a sandbox: entries, nesting of folders, bytes
	   of a path (PATH_MAX), milliseconds, and mounts over protected files (MASKS). An agent
	   that makes more than that delays the next start, which is then refused. LINKED: files
	   with several hard links that are noted (an agent may make as many as it likes).
	   LINKED_MOUNTS: fewer than this of those that have a link outside of the workspace are
	   made read-only, by one mount each. INLETS: folders in node_modules or .git to which links
	   elsewhere lead. LEADS: folders that one of git's files names (a list of alternates) and
	   that are followed. FILE: how much is read of a file that is compared, of a git
	   configuration, or of a link. SETTINGS: of one git configuration that are noted (an agent
	   may leave many short ones). GUARDED: the list of protected names in a run's record, which
	   a survey reads after a crash (an agent may give them long paths). MEMORY: what a walk
	   keeps of the folders that wait and of one folder's entries, and what the survey notes of
	   paths (an agent that makes millions of long names, so that the launcher is killed for
	   want of memory, and each later one as well). */
	KH_LIMIT_SURVEY_ENTRIES = 4 * 1000 * 1000,
	KH_LIMIT_SURVEY_DEPTH = 200,
	KH_LIMIT_SURVEY_PATH_BYTES = 4000,
	KH_LIMIT_SURVEY_MS = 60 * 1000,
	KH_LIMIT_SURVEY_MEMORY_BYTES = 512 * 1024 * 1024,
	/* A step that a process of its own does, some of them in the sandbox's namespaces: a file
	   system that does not answer would hold the launcher for ever. */
	KH_LIMIT_TRIAL_MS = 30 * 1000,
	KH_LIMIT_SURVEY_MASKS = 1024,
	KH_LIMIT_SURVEY_INLETS = 4096,
	KH_LIMIT_SURVEY_LEADS = 1024,
	/* How often a path with ".." is tried again that could not be walked because something was
	   renamed: an agent may rename all the time. */
	KH_LIMIT_RESOLVE_TRIES = 1024,
	/* The paths of the empty folders and files that a run has in its workspace: an agent leaves
	   as many repositories as the next run may protect, with the longest paths. */
	KH_LIMIT_RUN_STUBS_BYTES = 1024 * 1024,
	/* Folders that were --home of a run: a program that names a new one each time. After each
	   run all of them are checked; above this number the oldest is forgotten. */
	KH_LIMIT_SURVEY_HOMES = 1024,
	/* What is set aside onto another file system is copied, without its holes, up to this size.
	   A larger file is made harmless where it is. */
	KH_LIMIT_MOVE_BYTES = 1024 * 1024 * 1024,
	KH_LIMIT_SURVEY_LINKED = 1000 * 1000,
	KH_LIMIT_SURVEY_LINKED_MOUNTS = 64,
	KH_LIMIT_SURVEY_FILE_BYTES = 1024 * 1024,
	KH_LIMIT_SURVEY_SETTINGS = 4096,
	KH_LIMIT_SURVEY_GUARDED_BYTES = 16 * 1024 * 1024,
	/* git's index: enough for about a million files. It is read into memory, so a larger one,
	   which an agent can make, is set aside. */
	KH_LIMIT_SURVEY_INDEX_BYTES = 256 * 1024 * 1024,
	/* How long a launcher waits for others that start or end a sandbox in the same workspace,
	   which happens one at a time. */
	KH_LIMIT_WORKSPACE_LOCK_MS = 90 * 1000,
	/* All paths that a configuration names, with the parts of words that may be one: each word
	   of 4 KiB can have a thousand, and an agent may write a file that a person checks. */
	KH_LIMIT_NAMED_BYTES = 64 * 1024 * 1024,
	/* Folders that a script with `cd` names, from each of which its relative names count. */
	KH_LIMIT_NAMED_FOLDERS = 16,
	/* Bytes of what a run notes about the names that it uses: a configuration whose commands
	 * have more words than that is refused. Each later run follows all of them. */
	KH_LIMIT_RUN_USES_BYTES = 4 * 1024 * 1024,
	/* What the kernel tells of its mounts before a command of a run: the host of thousands of
	   containers. The kernel has 100,000 of them at most, unless fs.mount-max says more. */
	KH_LIMIT_MOUNTS_BYTES = 64 * 1024 * 1024,

	/* An image: each of its JSON texts; the variables and words of its command line (an image
	   that has more than a command line holds); its files (a layer of a few megabytes can hold
	   millions); the time to read or unpack it; and what must stay free on the disk. */
	KH_LIMIT_IMAGE_JSON_BYTES = 4 * 1024 * 1024,
	KH_LIMIT_IMAGE_WORDS = 1024,
	KH_LIMIT_IMAGE_FILES = 4 * 1024 * 1024,
	KH_LIMIT_IMAGE_MS = 30 * 60 * 1000,
	KH_LIMIT_IMAGE_FREE_BYTES = 512 * 1024 * 1024,

	/* A workspace under review: entries of a tree and nesting of folders (an agent that makes
	   millions, or nests them deep); changes that are listed one by one; bytes of a file whose
	   lines are compared, and of the resulting diff; bytes and refs of a bundle of commits, and
	   the time that git may take to make it; what git on the host may use of memory and
	   processor time (an agent whose commit has some megabytes as it is stored, and a thousand
	   when it is read); new commits of a ref whose file names are checked, and bytes of the
	   list of these. READS: paths that git and other tools of the host read, with which each
	   change is compared (an agent whose earlier changes were applied). DEPTH: what is applied
	   can be looked at by the next survey, without which nothing starts there. */
	KH_LIMIT_REVIEW_ENTRIES = 4 * 1024 * 1024,
	KH_LIMIT_REVIEW_DEPTH = KH_LIMIT_SURVEY_DEPTH - 1,
	KH_LIMIT_REVIEW_CHANGES = 256 * 1024,
	KH_LIMIT_REVIEW_TEXT_BYTES = 4 * 1024 * 1024,
	KH_LIMIT_REVIEW_DIFF_BYTES = 16 * 1024 * 1024,
	KH_LIMIT_REVIEW_BUNDLE_BYTES = 1024 * 1024 * 1024,
	KH_LIMIT_REVIEW_REFS = 1024,
	KH_LIMIT_REVIEW_COMMITS = 16 * 1024,
	KH_LIMIT_REVIEW_NAMES_BYTES = 64 * 1024 * 1024,
	KH_LIMIT_REVIEW_READS = 4096,
	KH_LIMIT_REVIEW_BUNDLE_MS = 10 * 60 * 1000,
	KH_LIMIT_REVIEW_GIT_MEMORY_BYTES = 1024 * 1024 * 1024,
	KH_LIMIT_REVIEW_GIT_CPU_SECONDS = 300,
};

/* Limits that do not fit into an int. */
#define KH_LIMIT_RATE_BYTES (UINT64_C(8) << 30) /* per second */
#define KH_LIMIT_DYNAMIC_SANDBOX_TTL_MOST_MS (UINT64_C(365) * 24 * 3600 * 1000)
/* What unpacking one image may write: a layer of zeros unpacks to a thousand times its size. */
#define KH_LIMIT_IMAGE_BYTES (UINT64_C(64) << 30)
#define KH_LIMIT_QUOTA_AMOUNT (UINT64_C(1) << 44) /* per period, and as a burst */

#endif
