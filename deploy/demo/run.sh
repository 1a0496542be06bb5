#!/bin/bash
# run.sh - the demo: agents that work with a key which they never have.
#
# A mock of the API runs on this host and knows the real key; the clients run in the sandbox.
# Every scene states what it shows and checks it; the first claim that does not hold ends the demo
# with status 1. No network is needed. ENGINE= chooses the sandbox's engine; AGENT= names one more
# client, as in AGENT="claude -p" (taken by itself where claude is on the PATH; AGENT=none: not).
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
keyhole=${KEYHOLE:-$root/build/keyhole}
python=/usr/bin/python3
[ -x "$python" ] || python=python3

bold='' dim='' green='' red='' off=''
if [ -t 1 ]; then
	bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' off=$'\e[0m'
fi
number=0
scene() {
	number=$((number + 1))
	printf '\n%s\n' "$bold$number. $1$off"
	shift
	printf '%s\n' "$@"
}
show() { sed "s/^/    $dim/; s/\$/$off/"; }
good() { echo "  ${green}✓$off $1"; }
fail() {
	echo "  ${red}✗ $1$off"
	for part in out err; do
		[ -s "$dir/$part" ] && { echo "    (its $part:)" && tail -n 20 "$dir/$part" | show; }
	done
	exit 1
}
# claim TEXT COMMAND…: what is claimed holds, or the demo ends.
claim() {
	local text=$1
	shift
	"$@" || fail "not so: $text"
	good "$text"
}
fingerprint() { printf %s "$1" | sha256sum | cut -c1-8; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/keyhole-demo.XXXXXX") || exit 1
mock=''
cleanup() {
	if [ -n "$mock" ]; then
		kill "$mock" 2>/dev/null
		wait "$mock" 2>/dev/null
	fi
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

if [ ! -x "$keyhole" ]; then
	echo "demo: $keyhole is not built (run \`make demo\`)"
	exit 1
fi
case ${ENGINE:-process} in
auto | process | container | podman | docker | gvisor) ;;
*)
	echo "demo: ENGINE=$ENGINE: no such engine (there is: auto, process, container, podman, docker, gvisor)"
	exit 1
	;;
esac
for tool in openssl curl sha256sum "$python"; do
	if ! command -v "$tool" >/dev/null; then
		echo "demo: $tool is missing (deploy/install-deps.sh installs it)"
		exit 1
	fi
done
began=$(date +%s)
unset ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN ANTHROPIC_BASE_URL
unset http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY

# Runs a command in a sandbox of its own; its output goes where the caller says.
inside() {
	"$keyhole" run -c "$dir/keyhole.yaml" ${ENGINE:+--engine "$ENGINE"} ${quiet:+"$quiet"} -- "$@" 2>"$dir/err"
}
quiet=-q

scene "On the host: an API, and a key for it" \
	"A mock of api.anthropic.com starts on this machine. It answers 401 to any key but one that" \
	"was made a moment ago, and of a key that it gets it reports only a fingerprint."
real=sk-ant-api03-$(head -c 69 /dev/urandom | base64 -w0 | tr '+/' '-_')
real_print=$(fingerprint "$real")
mkfifo "$dir/ready"
MOCK_KEY=$real "$python" "$here/mock_upstream.py" --dir "$dir" --log "$dir/mock.log" \
	>"$dir/ready" 2>"$dir/err" &
mock=$!
read -r -t 10 ready <"$dir/ready" || fail "the mock does not start"
port=${ready#*\"port\": }
port=${port%%,*}
echo "  the real key: ${real:0:18}…, fingerprint $bold$real_print$off"
sed "s|@PORT@|$port|; s|@CA@|$dir/ca.pem|; s|@DIR@|$dir|" "$here/demo.yaml" >"$dir/keyhole.yaml"
echo "  keyhole's configuration, which makes the API's name lead to the mock:"
grep -v '^#' "$dir/keyhole.yaml" | sed "s|$dir|…|" | show
check_config() { "$keyhole" check -c "$dir/keyhole.yaml" >"$dir/out" 2>"$dir/err"; }
export ANTHROPIC_API_KEY=$real
claim "keyhole check finds nothing wrong with it" check_config

scene "In the sandbox: a placeholder" \
	"The real key is in the environment of whoever calls keyhole run. In the sandbox stands this:"
# shellcheck disable=SC2016  # the variable is the sandbox's
inside sh -c 'printf %s "$ANTHROPIC_API_KEY"' >"$dir/out" || fail "no command runs in the sandbox"
placeholder=$(cat "$dir/out")
echo "  ANTHROPIC_API_KEY=${placeholder:0:18}…, fingerprint $(fingerprint "$placeholder")"
claim "it is as long as the real key and begins like it" \
	[ "${#placeholder} ${placeholder:0:13}" = "${#real} ${real:0:13}" ]
claim "it is not the real key" [ "$placeholder" != "$real" ]
refused_directly() {
	curl -sS --max-time 5 --cacert "$dir/ca.pem" --resolve "api.anthropic.com:$port:127.0.0.1" \
		-H "x-api-key: $placeholder" "https://api.anthropic.com:$port/v1/models" \
		>"$dir/out" 2>"$dir/err" && grep -q authentication_error "$dir/out"
}
claim "sent to the mock without keyhole it is worth nothing: 401" refused_directly

scene "curl streams a message with the placeholder" \
	"  \$ keyhole run -- curl -N -H \"x-api-key: \$ANTHROPIC_API_KEY\" https://api.anthropic.com/v1/messages …"
question='{"model":"claude-mock","max_tokens":64,"stream":true,
	"messages":[{"role":"user","content":"Hello?"}]}'
# shellcheck disable=SC2016
quiet='' inside sh -c 'exec curl -sSN --max-time 10 -H "x-api-key: $ANTHROPIC_API_KEY" -d "$1" \
	-H "anthropic-version: 2023-06-01" https://api.anthropic.com/v1/messages' sh "$question" |
	tee "$dir/out" | "$python" -u "$here/talk.py"
[ "${PIPESTATUS[*]}" = "0 0 0" ] || fail "the message was not streamed"
tail -n 1 "$dir/err" | sed "s|$dir|…|" | show
good "the answer came piece by piece"
# The fingerprint of every key that the mock has got through keyhole.
keys_seen() { sed -n 's/.*"event": "request".*"key": "\([0-9a-f]*\)".*/\1/p' "$dir/mock.log" | tail -n +2; }
only_the_real_key() { [ "$(keys_seen | sort -u)" = "$real_print" ]; }
claim "what reached the mock was the real key, $real_print" only_the_real_key

scene "Python's urllib does the same and knows of no proxy" \
	"  \$ keyhole run -- python3 ask.py"
inside /usr/bin/python3 - <"$here/ask.py" >"$dir/out" || fail "urllib got no answer"
show <"$dir/out"
claim "the mock names the real key's fingerprint" grep -q "fingerprint $real_print" "$dir/out"

scene "The agent wants the key itself" \
	"A script searches its environment, every process (arguments, environment, memory) and every file" \
	"that it can read for whatever looks like a key. On the host its environment is enough:"
"$python" "$here/thief.py" --environment >"$dir/out" 2>"$dir/err" || fail "the script does not run"
show <"$dir/out"
claim "it finds the real key" grep -q "fingerprint $real_print" "$dir/out"
echo "The same script in the sandbox:"
inside /usr/bin/python3 - <"$here/thief.py" >"$dir/out" || fail "the script does not run"
show <"$dir/out"
claim "it has searched something" grep -Eq 'searched .* [1-9][0-9]+ files' "$dir/out"
finds_placeholder_only() {
	grep -q "^found " "$dir/out" && ! grep -q "$real_print" "$dir/out"
}
claim "it finds its placeholder, and the real key nowhere" finds_placeholder_only

scene "There is no other way out" "The sandbox has no network interface but its own loopback."
# A connection that must fail, and how. Where the sandbox can have a route of its own, other
# addresses are its own loopback as well; else there is no way to them.
cannot_connect() {
	echo "  \$ exec 3<>/dev/tcp/$2/$3"
	if inside bash -c "exec 3<>/dev/tcp/$2/$3" >"$dir/out"; then return 1; fi
	grep -m 1 connect "$dir/err" | show
	grep -Eq "$1" "$dir/err"
}
claim "a direct connection has nowhere to go" \
	cannot_connect "Network is unreachable|No route to host|Connection refused" 192.0.2.1 22
claim "the host's loopback, where the mock listens, is not the sandbox's" \
	cannot_connect "Connection refused" 127.0.0.1 "$port"
# The name's address is the sandbox's own, and behind it is keyhole.
resolves_to_itself() {
	inside getent hosts example.com >"$dir/out" || return 1
	head -n 1 "$dir/out" | show
	! grep -qv '^127\.' "$dir/out"
}
echo "  \$ getent hosts example.com"
claim "a name leads back into the sandbox, so none carries anything out" resolves_to_itself
answers() {
	local status=$1
	shift
	inside curl -sS --max-time 5 -w '\n%{http_code}' "$@" >"$dir/out" || return 1
	sed '$d' "$dir/out" | sed '/^$/d' | show
	[ "$(tail -n 1 "$dir/out")" = "$status" ]
}
echo "  \$ curl https://example.com/"
claim "a host off the list: 403, and the reason for whoever reads it" answers 403 https://example.com/
claim "the reason names the host" grep -q "example.com" "$dir/out"
echo "  \$ curl --noproxy '*' https://example.com/"
claim "and so without a proxy: what looks direct comes to keyhole as well" \
	answers 403 --noproxy '*' https://example.com/

agent=${AGENT:-}
[ -z "$agent" ] && type -P claude >/dev/null && agent="claude -p"
if [ "${agent:-none}" != none ]; then
	# Where the program's own folder can't be seen from the sandbox it is shown as the workspace.
	program=$(type -P "${agent%% *}") || fail "AGENT=\"$agent\": ${agent%% *} is not on the PATH"
	program=$(readlink -f "$program")
	options=''
	[ "$agent" = "${agent#* }" ] || options=${agent#* }
	visible=()
	case $program in /usr/*) ;; *) visible=(--workspace "$(dirname "$program"):ro") ;; esac
	scene "A real agent: ${agent%% *}" "  \$ keyhole run -- $agent \"Say hello.\""
	# shellcheck disable=SC2086  # the options are words
	timeout 60 "$keyhole" run -c "$dir/keyhole.yaml" ${ENGINE:+--engine "$ENGINE"} "${visible[@]}" -q -- \
		"$program" $options "Say hello." </dev/null >"$dir/out" 2>"$dir/err" ||
		fail "the agent failed"
	show <"$dir/out"
	claim "it got its answer with the real key, which it never had" grep -q "$real_print" "$dir/out"
fi

scene "What left, in the journal" "  \$ keyhole audit show audit.jsonl"
"$keyhole" audit show "$dir/audit.jsonl" >"$dir/out" 2>"$dir/err" || fail "the journal can't be shown"
show <"$dir/out"
whole() { "$keyhole" audit verify "$dir/audit.jsonl" >"$dir/out" 2>"$dir/err" && show <"$dir/out"; }
echo "  \$ keyhole audit verify audit.jsonl"
claim "the chain of hashes is whole" whole
claim "every call stands in it" [ "$(grep -c '"event":"open"' "$dir/audit.jsonl")" -ge "$(keys_seen | wc -l)" ]
claim "the key does not" [ "$(grep -cF "$real" "$dir/audit.jsonl")" = 0 ]
sed '0,/example.com/s//example.org/' "$dir/audit.jsonl" >"$dir/forged.jsonl"
forged() {
	if "$keyhole" audit verify "$dir/forged.jsonl" >"$dir/out" 2>"$dir/err"; then return 1; fi
	cat "$dir/out" "$dir/err" | show
}
echo "  and with one word changed in a copy:"
claim "the forgery is found, with its line" forged
claim "through it all the mock has seen the real key and no other" only_the_real_key

printf '\n%s\n' "${bold}The agent sees the keyhole, never the key.$off ($(($(date +%s) - began)) s)"
