/* limits.h - every cap in one place, each with the attack or the mistake that it bounds */
#ifndef KEYHOLE_BASE_LIMITS_H
#define KEYHOLE_BASE_LIMITS_H

#include <stdint.h>

enum {
	/* A credential: bounds what a mistaken `file:` (a disk image) would map. */
	KH_LIMIT_SECRET_BYTES = 64 * 1024,
	/* A named pipe in place of a file: a writer that holds it open and says nothing, while the
	   keeper's loop waits. */
	KH_LIMIT_PIPE_READ_MS = 30 * 1000,
	/* The same once requests are served, all of which wait meanwhile; and how long such a pipe
	   is left alone then. */
	KH_LIMIT_PIPE_LOOK_MS = 1000,
	KH_LIMIT_PIPE_AGAIN_MS = 60 * 1000,
	/* What holds credentials on their way out (hidden.h): many heads that nobody takes. It is
	   locked into memory, a quarter of what RLIMIT_MEMLOCK allows at most. */
	KH_LIMIT_HIDDEN_BYTES = 8 * 1024 * 1024,
	/* Less is said at the start: a few busy connections use it up, and then what is made of a
	   credential lies where it can be swapped out. */
	KH_LIMIT_HIDDEN_LEAST_BYTES = 1024 * 1024,
	/* One shorter is found in much that is none: it is refused unless `allow_short` says so. */
	KH_SECRET_LEAST_BYTES = 8,
	/* A value that goes into a request's content: three times as much once it is escaped,
	   beside what one read brings. */
	KH_LIMIT_BODY_VALUE_BYTES = 8 * 1024,
	/* Members and elements on the way to its place, and the name of one, decoded. */
	KH_LIMIT_BODY_STEPS = 16,
	KH_LIMIT_BODY_NAME_BYTES = 128,
	/* A content of announced length up to this is held until its place is found, so that the
	   length that goes up is right; a longer one goes up without a length. */
	KH_LIMIT_BODY_HELD_BYTES = 64 * 1024,
	/* What a value is narrowed to ("owner/repo"): the sandbox's words, kept with the value. */
	KH_LIMIT_SCOPE_BYTES = 256,
	/* Values of one credential that the worker keeps, and the keeper makes: sandboxes that name
	   a scope after the other, each with a secret page of its own. fair_share.h says who gives
	   one up. */
	KH_LIMIT_SCOPES = 512,
	/* And of all credentials together, in bytes of secret pages (secret.h: no more than a
	   quarter of what may be locked): the same, under many credentials, until no other value
	   and no other worker has a page. */
	KH_LIMIT_SCOPED_BYTES = 16 * 1024 * 1024,
	/* Of those, asked for by one sandbox and not answered yet: one that names scopes while the
	   token endpoint hangs, and leaves no place to others. */
	KH_LIMIT_SCOPES_ASKED = 32,
	/* Questions for a scope by one sandbox, at once and a second: one that uses up what the
	   endpoint allows an hour (of GitHub's Apps it is 5,000), and the keeper's processes. */
	KH_LIMIT_SCOPE_QUESTIONS_BURST = 128,
	KH_LIMIT_SCOPE_QUESTIONS_PER_SECOND = 1,
	/* Sandboxes whose pace the keeper remembers: a worker that was taken over, which names any
	   number of them. */
	KH_LIMIT_SCOPE_ASKERS = 4096,
	/* Former secrets that are known in what leaves, of one credential (and tenant) and in all:
	   values that change without end, each with a secret page and fingerprints of its own. And
	   how long a token counts after its end, for clocks that differ. */
	KH_LIMIT_FORMER_SECRETS = 16,
	KH_LIMIT_FORMER_SECRETS_ALL = 256,
	KH_LIMIT_FORMER_SECRET_MS = 10 * 60 * 1000,
	/* Children of the keeper that bring values, at a time: commands, which only the
	   configuration names, and fetchers, of one sandbox's scopes and in all. (One credential's
	   have half of what is left: an endpoint that hangs.) */
	KH_LIMIT_COMMANDS = 8,
	KH_LIMIT_FETCHERS_PER_SANDBOX = 4,
	KH_LIMIT_FETCHERS = 32,
	/* A command that prints a value: its arguments, and those of its variables. */
	KH_LIMIT_EXEC_ARGUMENTS = 64,
	KH_LIMIT_EXEC_ARGUMENT_BYTES = 4096,
	/* A token to which an upstream answered 401 is renewed before its end, at most once in this
	   time, and another one of the same credential in the shorter; a command whose value was
	   answered so is run again as seldom: an upstream that answers so to whatever it gets, and
	   has us hammer the token endpoint, or the store that the command asks. */
	KH_LIMIT_REFUSED_AGAIN_MS = 60 * 1000,
	KH_LIMIT_REFUSED_OTHER_MS = 5 * 1000,
	/* How long requests wait meanwhile for the other one, before they are given the one that is
	   there: one upstream's 401, and a store that hangs, which would hold up all others. */
	KH_LIMIT_REFUSED_WAIT_MS = 5 * 1000,
	/* What a token is asked for, all scopes together. */
	KH_LIMIT_MINT_SCOPES_BYTES = 4096,
	/* A token, and the whole answer of an endpoint that gives it: one that answers without end.
	 */
	KH_LIMIT_TOKEN_BYTES = 12 * 1024,
	KH_LIMIT_FETCH_BYTES = 48 * 1024,
	/* The configuration and each preset: a YAML file of gigabytes. */
	KH_LIMIT_CONFIG_BYTES = 256 * 1024 * 1024,
	KH_LIMIT_CONFIG_DEPTH = 32,
	/* What a rule asks beside its text: work a request, with every field and parameter. */
	KH_LIMIT_CONDITIONS = 16,
	KH_LIMIT_PATTERNS = 32,
	KH_LIMIT_PATTERN_BYTES = 256,
	/* The work of one decision, in steps of about a nanosecond: a path of kilobytes of escapes,
	   with fields that name other methods and hosts, is held against each rule in each of these
	   readings, while all other tenants' requests wait for the thread. An ordinary request
	   takes some tens of steps a rule of its host. */
	KH_LIMIT_DECISION_STEPS = 4 * 1000 * 1000,
	/* A preset's parameters, the values of one, and the rules and hosts that a use makes of
	   them: lists that multiply each other. */
	KH_LIMIT_PRESET_PARAMETERS = 16,
	KH_LIMIT_PRESET_VALUES = 64,
	KH_LIMIT_PRESET_RULES = 4096,
	/* Hosts of one credential, those of all uses of its preset together: each is looked at for
	   every rule that names it, and for every request. */
	KH_LIMIT_CREDENTIAL_HOSTS = 4096,
	/* Countries, or networks, in one list of `geo`: each is sought for every address. */
	KH_LIMIT_GEO_NUMBERS = 65536,
	/* A database of countries or networks (theirs have up to 0.5 GiB): a mistaken file is held
	   in memory whole. */
	KH_LIMIT_GEO_BYTES = 1024 * 1024 * 1024,
	/* Nodes of a database's tree that are looked at before it is used, and records in them. */
	KH_LIMIT_GEO_NODES = 65536,
	/* Message between keeper and worker: a compromised worker that makes the keeper allocate.
	 */
	KH_LIMIT_CHANNEL_BYTES = 64 * 1024,
	KH_LIMIT_CHANNEL_FDS = 16,
	/* What a worker may make its keeper wait while it is told something, all messages together:
	   one that reads a message just before each would be given up holds it for minutes. A tenth
	   of the time that passes is given back. And once the keeper is told to end. */
	KH_LIMIT_CHANNEL_PATIENCE_MS = 10 * 1000,
	KH_LIMIT_CHANNEL_ENDING_MS = 1000,
	/* Until a worker says READY after GO: one that stays under rules that are no longer in
	   force. Reading a long journal takes its time at a start, hanging does not. */
	KH_LIMIT_READY_MS = 60 * 1000,

	/* Request or response line: a client that never ends its line. */
	KH_LIMIT_LINE_BYTES = 16 * 1024,
	/* A whole head (line and fields): memory a connection before any rule is asked. */
	KH_LIMIT_HEAD_BYTES = 64 * 1024,
	KH_LIMIT_FIELDS = 128,
	/* One field, name and value. */
	KH_LIMIT_FIELD_BYTES = 32 * 1024,
	/* Trailer section. */
	KH_LIMIT_TRAILER_BYTES = 16 * 1024,
	/* A chunk-size line with its extension: the slow drip of extensions (CVE-2023-39326 and
	   kin). */
	KH_LIMIT_CHUNK_LINE_BYTES = 256,
	/* A chunk that is signed by itself (aws_sigv4): it is held until it is whole, on as many
	   connections as a sandbox has. SDKs make them of 8 to 128 KiB. */
	KH_LIMIT_SIGNED_CHUNK_BYTES = 1024 * 1024,
	/* All chunk extensions of a message. */
	KH_LIMIT_CHUNK_EXT_BYTES = 16 * 1024,
	/* Interim (1xx) responses before the final one: an upstream that sends them for ever. */
	KH_LIMIT_INTERIM_RESPONSES = 16,
	/* Decoded bytes of those on one HTTP/2 stream: an upstream whose heads of 64 KiB are a few
	   bytes in HPACK, each of which is searched for what must not come back. */
	KH_LIMIT_H2_INTERIM_BYTES = 64 * 1024,
	/* Options in Connection, empty ones too: each is held against each field. */
	KH_LIMIT_CONNECTION_OPTIONS = 32,
	/* Empty lines before a request line (RFC 9112 §2.2 allows "at least one"). */
	KH_LIMIT_EMPTY_LINES = 1,

	/* A WebSocket frame and message: they pass through in pieces, so this is what the side that
	   gathers them is spared. */
	KH_LIMIT_WS_FRAME_BYTES = 256 * 1024 * 1024,
	KH_LIMIT_WS_MESSAGE_BYTES = 1024 * 1024 * 1024,
	/* Fragments of a message: one byte each, they cost whoever lists them a hundredfold. */
	KH_LIMIT_WS_FRAGMENTS = 64 * 1024,
	/* Pings, each of which has to be answered. */
	KH_LIMIT_WS_CONTROLS_PER_SECOND = 100,
	KH_LIMIT_WS_CONTROLS_BURST = 1000,
	/* HTTP/2. Streams that a sandbox may have open on one connection: memory for their heads.
	 */
	KH_LIMIT_H2_STREAMS = 256,
	/* Decoded bytes of one field section beyond which the connection ends: an HPACK bomb, where
	   each byte names a field of kilobytes. (Up to it, what is over the head's cap is dropped.)
	 */
	KH_LIMIT_H2_DECODED_BYTES = 4 * 64 * 1024,
	/* Decoded bytes of field sections that a connection takes in one turn of the loop, and what
	   each section counts beside them: HPACK makes a thousand heads of 40 KB, and all other
	   tenants' requests would wait until each of them is decided. What is left comes in the
	   next turn, after everybody else. */
	KH_LIMIT_H2_TURN_BYTES = 64 * 1024,
	KH_LIMIT_H2_TURN_PER_HEAD = 1024,
	/* CONTINUATION frames behind one HEADERS: a section that never ends (CVE-2024-27316). A
	   head of the largest size takes 4. */
	KH_LIMIT_H2_CONTINUATIONS = 6,
	/* Streams that the peer gives up, or makes us reset, before they are complete, at once and
	   a second: rapid reset (CVE-2023-44487) and its mirror (CVE-2025-8671). */
	KH_LIMIT_H2_RESETS = 256,
	KH_LIMIT_H2_RESETS_PER_SECOND = 64,
	/* Frames that carry nothing (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, DATA that is empty or
	   padding, heads that are refused or come too late), at once and a second, beyond those
	   that work brings with it: floods of them, and windows opened a byte at a time. */
	KH_LIMIT_H2_IDLE_FRAMES = 2048,
	KH_LIMIT_H2_IDLE_FRAMES_PER_SECOND = 512,
	/* Acknowledgements (of PING, SETTINGS) that wait to be written: a peer that asks for them
	   and reads none. Of RST_STREAM, as many more as may be made at once. */
	KH_LIMIT_H2_UNSENT_FRAMES = 512,
	/* What all streams of a connection together may have waiting to be written before each is
	   held to one frame: a peer that opens streams and no window. */
	KH_LIMIT_H2_OUT_BYTES = 1024 * 1024,

	/* Streams of a connection that is not inside a tunnel: each may be a tunnel itself, and
	   counts as a connection of its sandbox besides. */
	KH_LIMIT_H2_TUNNELS = 4096,
	/* A ClientHello with its record heads, where it is looked at and passed on: one in records
	   of a byte each is read anew with every byte. Those of today have 0.3 to 4 KiB. */
	KH_LIMIT_HELLO_BYTES = 16 * 1024,

	/* What one side may have read ahead of the other: a slow reader behind a fast writer. */
	KH_LIMIT_RELAY_BYTES = 64 * 1024,
	/* One read of a socket. */
	KH_LIMIT_READ_BYTES = 32 * 1024,
	/* Exchanges on one connection from the sandbox: memory kept alive by one that never ends.
	 */
	KH_LIMIT_EXCHANGES_PER_CONNECTION = 100000,
	/* Connections of one listener (a sandbox) at a time: npm opens up to about 2,100. */
	KH_LIMIT_CONNECTIONS_PER_LISTENER = 16384,
	/* What the HTTP/2 streams of one listener may keep of the worker's memory, over all its
	   connections: many connections with as many streams as each may have. Beyond it no new
	   stream is taken; a quarter more, and the connection that asks for it ends, unless it
	   keeps no more than one of HTTP/1 would. */
	KH_LIMIT_H2_KEPT_PER_LISTENER = 256 * 1024 * 1024,
	KH_LIMIT_H2_KEPT_FREELY = 256 * 1024,
	/* … each exchange with what its upstream may have sent ahead. */
	KH_LIMIT_H2_KEPT_PER_EXCHANGE = 32 * 1024,
	/* What a connection costs beside its buffers: its object and libevent's; OpenSSL's, with
	   the records that it reads and writes. What is kept is charged in steps, and given back
	   when two of them are free, so that a kept-alive request changes little. */
	KH_LIMIT_KEPT_CONNECTION = 3 * 1024,
	KH_LIMIT_KEPT_TLS = 30 * 1024,
	KH_LIMIT_KEPT_EXCHANGE = 5 * 1024,
	KH_LIMIT_KEPT_STEP = 16 * 1024,
	/* Content held until the upstream has answered, in case that it has not looked at the
	   request: a sandbox whose upstreams are slow. */
	KH_LIMIT_HELD_BYTES = 16 * 1024,
	/* A model's name: it is kept with the exchange, and written into the journal. */
	KH_LIMIT_MODEL_BYTES = 200,
	/* Objects and arrays within each other in content that is looked into: a bit each. */
	KH_LIMIT_JSON_DEPTH = 1024,
	/* How often limits.held_content may be held for one sandbox at a time: many connections,
	   each with content that never ends. */
	KH_LIMIT_HELD_CONTENTS = 4,
	/* What an upstream that speaks HTTP/2 may send of one answer ahead of the sandbox's
	   reading: at first and at the most. All that was granted beyond the first, of which
	   sandboxes have shares: answers that nobody reads. */
	KH_LIMIT_UP_WINDOW_LEAST = 64 * 1024,
	KH_LIMIT_UP_WINDOW_MOST = 512 * 1024,
	KH_LIMIT_UP_WINDOWS = 128 * 1024 * 1024,
	/* Milliseconds that an upstream may send nothing on an HTTP/2 connection after it was asked
	   by PING whether it lives. After the first, nothing new goes there. After the second, what
	   runs there ends: an upstream that is gone, or that never answers and holds the exchanges
	   of a sandbox until timeouts.response. */
	KH_LIMIT_UP_PONG_MS = 3 * 1000,
	KH_LIMIT_UP_SILENT_MS = 20 * 1000,
	/* Connections that one exchange is moved from: an upstream that refuses each time. */
	KH_LIMIT_MOVES = 3,
	/* Idle upstream connections kept by one thread, of each version of HTTP; fewer where
	   RLIMIT_NOFILE leaves few (up_pool.c): a sandbox that asks many hosts once. */
	KH_LIMIT_POOL_IDLE = 256,
	KH_LIMIT_POOL_IDLE_PER_KEY = 32,

	/* Wrong tokens that a TCP listener looks at: guessing. */
	KH_LIMIT_WRONG_TOKENS_PER_SECOND = 10,
	KH_LIMIT_WRONG_TOKENS_BURST = 100,
	KH_TOKEN_LEAST_BYTES = 16,

	/* Places of one request's head that are held against the fingerprints of real values, and
	   of these so many whose 16 bytes and length agree, so that the digest is made. A request
	   takes the time of as many, whether it has them or not. */
	KH_LIMIT_CANDIDATES = 64,
	KH_LIMIT_CANDIDATE_DIGESTS = 16,
	/* Requests of one sandbox that would have left but for a real value in them: each says that
	   a guess was right. Beyond these nothing of the sandbox leaves until one is given back. */
	KH_LIMIT_RECOGNITIONS_BURST = 32,
	KH_LIMIT_RECOGNITION_MS = 5 * 1000,

	/* What a limit of the configuration may be set to. Above these the numbers that count it
	   would run over in less than ten years (quota.h). */
	KH_LIMIT_RATE_REQUESTS = 100000, /* a second */
	KH_LIMIT_QUOTA_PLACES = 1000000,
	KH_LIMIT_LIFETIME_LEAST_MS = 1000,
	KH_LIMIT_LIFETIME_MOST_MS = 7 * 24 * 3600 * 1000,
	/* All limits together that are counted: what the keeper keeps of them, and its file. */
	KH_LIMIT_QUOTA_SLOTS = 1024 * 1024,
	/* Who has to wait longer than this is told that waiting does not help. */
	KH_LIMIT_PATIENCE_MS = 3600 * 1000,

	/* Leaves minted a sandbox: a flood of CONNECTs to made-up names (each costs a signature).
	 */
	KH_LIMIT_LEAVES_PER_SECOND = 50,
	KH_LIMIT_LEAVES_BURST = 500,
	/* All leaves together, in the keeper: a worker that was taken over and uses the CA key up.
	 */
	KH_LIMIT_SIGNATURES_PER_SECOND = 1000,
	KH_LIMIT_SIGNATURES_BURST = 4000,
	/* Of those, for hosts that no rule allows: names without end, so that no leaf is left for
	   the hosts that are allowed. */
	KH_LIMIT_REFUSAL_LEAVES_PER_SECOND = 500,
	KH_LIMIT_REFUSAL_LEAVES_BURST = 2000,
	/* Of those, spent and not forgotten (account.h): the rate above comes to this, and it is
	   less than the burst. Sandboxes that ask the keeper for more than it makes, so that other
	   tenants wait: each tenant and sandbox has a share of it. */
	KH_LIMIT_SIGNATURES_SPENT = 2800,
	/* Leaves that the keeper was asked for and has not signed: a flood of names in front of
	   another tenant's handshake. Each tenant and sandbox has a share (account.h); who is
	   beyond it waits, and asks when one of them has come. So few keep the keeper busy, and
	   each that another tenant has in front costs half a millisecond or more: signing it, and
	   reading it in the worker. */
	KH_LIMIT_LEAVES_WANTED = 16,
	/* Leaves kept. */
	KH_LIMIT_LEAF_CACHE = 4096,

	/* Refusals of one sandbox that get a record each, a second and at once: one that is refused
	   as fast as it can ask, and fills the disk that all tenants' requests need. */
	KH_LIMIT_REFUSALS_PER_SECOND = 10,
	KH_LIMIT_REFUSALS_BURST = 1000,
	/* The others are counted, and the count is written this often. */
	KH_LIMIT_REFUSALS_SAID_MS = 5000,
	/* Bytes of such records, spent and not forgotten (account.h): many sandboxes of one tenant,
	   each within its own budget. All tenants together write 1.3 MiB a second for long. */
	KH_LIMIT_REFUSALS_SPENT_BYTES = 64 * 1024 * 1024,
	/* Lines in the operator's log for one sandbox: a flood of refusals. The journal has or
	   counts them all. */
	KH_LIMIT_LOG_LINES_PER_SECOND = 5,
	KH_LIMIT_LOG_LINES_BURST = 100,

	/* Addresses taken from one DNS answer. */
	KH_LIMIT_ADDRESSES = 16,
	/* Of those, dialled at a time: a name with addresses that answer nothing, each a socket. */
	KH_LIMIT_DIAL_ATTEMPTS = 4,
	/* Names resolved at a time, by all threads; what waits for the same name counts as well.
	   Names without answers, which leave no place to others: each tenant and sandbox has a
	   share of it (account.h), one sandbox 2,730. */
	KH_LIMIT_RESOLVES = 8192,

	/* An audit record (path is cut, with a mark, to fit). */
	KH_LIMIT_RECORD_BYTES = 8 * 1024,
	KH_LIMIT_AUDIT_PATH_BYTES = 1024,
	KH_LIMIT_AUDIT_QUERY_NAMES = 32,
	/* Records of one loop turn. */
	KH_LIMIT_BATCH_BYTES = 4 * 1024 * 1024,
	/* How much of a journal's last life is read for exchanges that did not end, and how much at
	 * its end may be no record: a worker that was taken over writes 48 GB into it and dies, so
	 * that no worker after it gets ready. */
	KH_LIMIT_RECOVER_BYTES = 1024 * 1024 * 1024,
	KH_LIMIT_TORN_BYTES = 64 * 1024 * 1024,
	/* And how many of those exchanges are named (16 MiB). */
	KH_LIMIT_RECOVER_IDS = 1024 * 1024,
	/* And how long that may take: a worker that was taken over chose the lines and ids, and
	   nothing is served meanwhile. */
	KH_LIMIT_RECOVER_MS = 10 * 1000,
	/* Parts of a broken journal that `keyhole audit verify` names: whoever wrote it can break
	   it in every line. */
	KH_LIMIT_VERIFY_PARTS = 16,
	/* How much later than its records a checkpoint tells the keeper of them: the end of the
	 * journal that could be taken away unnoticed at a worker's death. */
	KH_LIMIT_CHECKPOINT_MS = 1000,
	/* What the keeper writes on of a worker's standard error, and logs of the sandboxes that it
	   asks for: of a line, at once, and a second. A worker that was taken over floods the log.
	 */
	KH_LIMIT_CHILD_LINE_BYTES = 1024,
	KH_LIMIT_CHILD_LOG_BYTES = 1024 * 1024,
	KH_LIMIT_CHILD_LOG_PACE_BYTES = 256 * 1024,

	/* Threads and processes of the uid that root's workers and fetchers have: one that was
	   taken over could use up every process id of the host. A host with many processors has
	   some hundred threads in each worker, and there are two during a handover. */
	KH_LIMIT_LOCKIN_TASKS = 4096,

	/* The admin socket and the port for metrics: connections of each kind of caller at a time
	   (root and the daemon's own user; users who may see tenants; anybody else; TCP), so that
	   none of them shuts another one out. When they are taken, the user who has the most gives
	   one up to another user who has fewer; on the port, where users are not known, one that
	   has asked nothing gives way to whoever comes. Those who may add sandboxes have more: as
	   many launchers ask at once as sandboxes start at once. */
	KH_LIMIT_ADMIN_CONNECTIONS = 32,
	KH_LIMIT_ADMIN_LAUNCHERS = 256,
	/* What a request may bring, and how long its last byte may take; how long an answer may
	   take to leave, and a connection may do nothing. Milliseconds: a client that drips bytes.
	 */
	KH_LIMIT_ADMIN_CONTENT_BYTES = 64 * 1024,
	KH_LIMIT_ADMIN_REQUEST_MS = 5000,
	KH_LIMIT_ADMIN_ANSWER_MS = 30 * 1000,
	KH_LIMIT_ADMIN_IDLE_MS = 90 * 1000,
	/* States of credentials that `status` shows: a configuration of very many. How many are
	   left out is said. */
	KH_LIMIT_STATES_BYTES = 32 * 1024 * 1024,
	/* An answer: ten thousand tenants have a few megabytes of metrics. */
	KH_LIMIT_ADMIN_ANSWER_BYTES = 256 * 1024 * 1024,

	/* Who watches decisions (/v1/events): readers of each kind of caller at a time; what waits
	   for one that reads slowly, and what it has to take in every KH_LIMIT_ADMIN_ANSWER_MS
	   while anything waits, or it is let go. What finds no room, there or on its way from a
	   thread, is counted and not shown. */
	KH_LIMIT_EVENTS_READERS = 8,
	KH_LIMIT_EVENTS_WAITING_BYTES = 1024 * 1024,
	KH_LIMIT_EVENTS_PACE_BYTES = 64 * 1024,
	KH_LIMIT_EVENTS_RING_BYTES = 1024 * 1024, /* a thread; a power of two */
	KH_LIMIT_EVENTS_MS = 50,		  /* between two looks at the rings */
	/* Sandboxes that are added while it runs, together and of one tenant: somebody who adds in
	   a loop. Each costs a descriptor in both processes, and a few kilobytes. (Of the
	   descriptors that a process may have, they get five eighths: the rest is for connections.)
	 */
	KH_LIMIT_DYNAMIC_SANDBOXES = 32 * 1024,
	KH_LIMIT_DYNAMIC_SANDBOXES_PER_TENANT = 24 * 1024,
	/* The narrowing of one of them, as the keeper keeps it: about 500 rules. It goes in one
	   message. */
	KH_LIMIT_NARROWING_BYTES = 48 * 1024,
	/* All of a tenant's, and all of a daemon's: a worker that was taken over adds sandboxes to
	   fill the keeper's memory. */
	KH_LIMIT_NARROWINGS_PER_TENANT_BYTES = 32 * 1024 * 1024,
	KH_LIMIT_NARROWINGS_BYTES = 128 * 1024 * 1024,
	KH_LIMIT_DYNAMIC_SANDBOX_TTL_LEAST_MS = 1000,

	/* keyhole-init: connections relayed at a time (a flood from inside), what is carried at a
	   time, and how many such pieces are kept that the other side did not take (many that do
	   not read): the bytes of others stay in the kernel. */
	KH_LIMIT_INIT_CONNECTIONS = 4096,
	KH_LIMIT_INIT_RELAY_BYTES = 16 * 1024,
	KH_LIMIT_INIT_RESTS = 64,
	/* Names that have an address (a flood of names: the oldest give theirs up), ports on which
	   connections are captured, questions over TCP at a time and the bytes of one; what the
	   proxy may answer to CONNECT. */
	KH_LIMIT_INIT_NAMES = 8192,
	KH_LIMIT_INIT_PORTS = 32,
	KH_LIMIT_INIT_DNS_CONNECTIONS = 64,
	KH_LIMIT_INIT_DNS_BYTES = 1232,
	KH_LIMIT_INIT_ANSWER_BYTES = 4096,
	/* Connections to the proxy that were handed in and not received (a sandbox that asks for
	   more and more of them, until its user has no descriptors left). */
	KH_LIMIT_UPLINK_WAITING = 8,
	/* --publish: ports, and connections at a time (a flood from the host). */
	KH_LIMIT_PUBLISHED_PORTS = 16,
	KH_LIMIT_PUBLISHED_CONNECTIONS = 256,
	/* At the sandbox's end, for what clients have not taken yet (one that reads nothing). */
	KH_LIMIT_PUBLISHED_END_MS = 2000,
	/* Places that its command may write to (a launcher's slip). */
	KH_LIMIT_INIT_PLACES = 64,
	/* The command's variables: the kernel takes 2 MiB with the arguments. */
	KH_LIMIT_INIT_ENVIRON_BYTES = 2 * 1024 * 1024,

	/* Entries of all mounted trees together that are looked at for sockets and set-ID files
	   before a sandbox starts: some seconds. Then, how many of these are covered, each by a
	   mount and a descriptor (an agent that makes sockets in its workspace, so that the next
	   run has no descriptors left). */
	KH_LIMIT_SANDBOX_TREE_ENTRIES = 4 * 1000 * 1000,
	KH_LIMIT_SANDBOX_TREE_COVERS = 256,

	/* When the command has ended, and what it wrote last is relayed to a file or a socket:
	   milliseconds that nobody takes any of it (a peer that never reads, which would hold the
	   launcher for ever). */
	KH_LIMIT_SANDBOX_OUTPUT_MS = 30 * 1000,

	/* Lines that are kept until nobody waits for us (kh_log_hold): bytes (an agent that has
	   thousands of files set aside). */
	KH_LIMIT_LOG_HELD_BYTES = 256 * 1024,

	/* A sandbox's start: milliseconds from when an engine's program is started until the
	   command runs, and for each thing that docker is asked for before (a program that hangs, a
	   daemon that does not answer). Generous: many may start at once, and nothing is pulled
	   from anywhere by then. Then, until what was asked to end is ended by force: keyhole-init
	   that has not passed a signal on, and a command, or a program without its keyhole-init,
	   that goes on. Whoever removes what is left in docker goes on alone after that time. */
	KH_LIMIT_SANDBOX_START_MS = 2 * 60 * 1000,
	KH_LIMIT_SANDBOX_HEARD_MS = 5000,
	KH_LIMIT_SANDBOX_GRACE_MS = 2000,
	KH_LIMIT_SANDBOX_REMOVE_MS = 10 * 1000,
	/* What a sandbox may have of the inotify instances and of the watches of the user who
	   started it: the host's limit for one user, divided by this. */
	KH_LIMIT_SANDBOX_INOTIFY_PART = 4,
	KH_LIMIT_SANDBOX_WATCHES_PART = 2,

	/* The survey of a workspace before and after a sandbox: entries, folders in each other,
	   bytes of a path (PATH_MAX), milliseconds, and what is mounted over for its sake (an agent
	   that makes more of them holds up the next start, which is refused). A file that is
	   compared, a git configuration or a link, is read so far. LINKED: files with several names
	   that are noted (an agent may make as many as it likes); fewer than LINKED_MOUNTS of those
	   that have a name outside of the workspace are read-only, one mount each. INLETS: folders
	   in node_modules or .git to which links elsewhere lead. LEADS: folders that one file of
	   git's names (a list of alternates) and that are followed. */
	KH_LIMIT_SURVEY_ENTRIES = 4 * 1000 * 1000,
	KH_LIMIT_SURVEY_DEPTH = 200,
	KH_LIMIT_SURVEY_PATH_BYTES = 4000,
	KH_LIMIT_SURVEY_MS = 60 * 1000,
	/* Something that a process of its own tries, or does in the sandbox's namespaces: a file
	   system that does not answer would hold the launcher for ever. */
	KH_LIMIT_TRIAL_MS = 30 * 1000,
	KH_LIMIT_SURVEY_MASKS = 1024,
	KH_LIMIT_SURVEY_INLETS = 4096,
	KH_LIMIT_SURVEY_LEADS = 1024,
	/* What is set aside on another file system is copied, without its holes; more than that is
	   made harmless where it is. */
	KH_LIMIT_MOVE_BYTES = 1024 * 1024 * 1024,
	KH_LIMIT_SURVEY_LINKED = 1000 * 1000,
	KH_LIMIT_SURVEY_LINKED_MOUNTS = 64,
	KH_LIMIT_SURVEY_FILE_BYTES = 1024 * 1024,
	/* git's index, of about a million files. An agent can make a larger one, which is set
	   aside: it is read into memory. */
	KH_LIMIT_SURVEY_INDEX_BYTES = 256 * 1024 * 1024,
	/* Until others have started or ended a sandbox in a workspace: one at a time. */
	KH_LIMIT_WORKSPACE_LOCK_MS = 90 * 1000,

	/* An image: each of its JSON texts, and the variables and words of its command line (one
	   that says more than a command line holds); files (a layer of a few megabytes can hold
	   millions), milliseconds that reading or unpacking it may take, and what has to stay free
	   on the disk. */
	KH_LIMIT_IMAGE_JSON_BYTES = 4 * 1024 * 1024,
	KH_LIMIT_IMAGE_WORDS = 1024,
	KH_LIMIT_IMAGE_FILES = 4 * 1024 * 1024,
	KH_LIMIT_IMAGE_MS = 30 * 60 * 1000,
	KH_LIMIT_IMAGE_FREE_BYTES = 512 * 1024 * 1024,

	/* A workspace under review: entries of a tree that is looked at, and folders in each other
	   (an agent that makes millions, or digs); changes that are listed one by one; bytes of a
	   file whose lines are compared, and of such a comparison; bytes and refs of a bundle of
	   commits, and milliseconds that git may take to make it; new commits of a ref whose names
	   are looked at, and bytes of the list of these. READS: paths that git and other
	   tools of the host read there, with which each change is compared (an agent whose changes
	   were taken over earlier). */
	KH_LIMIT_REVIEW_ENTRIES = 4 * 1024 * 1024,
	KH_LIMIT_REVIEW_DEPTH = 256,
	KH_LIMIT_REVIEW_CHANGES = 256 * 1024,
	KH_LIMIT_REVIEW_TEXT_BYTES = 4 * 1024 * 1024,
	KH_LIMIT_REVIEW_DIFF_BYTES = 16 * 1024 * 1024,
	KH_LIMIT_REVIEW_BUNDLE_BYTES = 1024 * 1024 * 1024,
	KH_LIMIT_REVIEW_REFS = 1024,
	KH_LIMIT_REVIEW_COMMITS = 16 * 1024,
	KH_LIMIT_REVIEW_NAMES_BYTES = 64 * 1024 * 1024,
	KH_LIMIT_REVIEW_READS = 4096,
	KH_LIMIT_REVIEW_BUNDLE_MS = 10 * 60 * 1000,
};

/* The same, of what takes more than an int. */
#define KH_LIMIT_RATE_BYTES (UINT64_C(8) << 30) /* a second */
#define KH_LIMIT_DYNAMIC_SANDBOX_TTL_MOST_MS (UINT64_C(365) * 24 * 3600 * 1000)
/* What unpacking one image may write: a layer of zeros is a thousandth of what it unpacks to. */
#define KH_LIMIT_IMAGE_BYTES (UINT64_C(64) << 30)
#define KH_LIMIT_QUOTA_AMOUNT (UINT64_C(1) << 44) /* in a period, and at once */

#endif
