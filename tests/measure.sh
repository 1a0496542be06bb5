#!/bin/bash
# measure.sh - figures of docs/performance.md: idle memory and start time, on this machine
#
# Memory is the PSS (private pages, and shared ones divided by their users) of keeper and worker
# together, after the roots are loaded and a second of rest; the worker can't be looked into by
# others, so it takes root. Pages of libraries count for the less the more programs use them, so the
# pages that these two have written are told as well: they are nobody else's, wherever it runs. Time is the median of 20 runs of `keyhole run -- true`, everything in it:
# a CA, keeper, worker, sandbox, and their end.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
keyhole=${KEYHOLE:-$root/build/keyhole}
runs=${RUNS:-20}
dir=$(mktemp -d "${TMPDIR:-/tmp}/keyhole-measure.XXXXXX")
daemon=''
cleanup() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

export ANTHROPIC_API_KEY=sk-ant-api03-measure-measure-measure-measure-measure XDG_STATE_HOME=$dir/state
cat >"$dir/keyhole.yaml" <<'YAML'
version: 1
authority: { certificate: ca.pem, key: ca.key }
listen: [ { unix: d/s } ]
audit: { file: audit.jsonl }
tenants: { one: { rules: [ { use: anthropic } ] } }
YAML

pss() { awk '/^Pss:/ { print $2 }' "/proc/$1/smaps_rollup"; }
own() { awk '/^Private_Dirty:/ { print $2 }' "/proc/$1/smaps_rollup"; }
if [ "$(id -u)" = 0 ]; then
	mkfifo "$dir/ready"
	"$keyhole" proxy -c "$dir/keyhole.yaml" --ready-fd 9 9<>"$dir/ready" 2>"$dir/err" &
	daemon=$!
	read -r -t 10 _ <>"$dir/ready" || { cat "$dir/err"; exit 1; }
	worker=$(cat "/proc/$daemon/task/$daemon/children")
	worker=${worker%% *}
	before=-1
	for _ in $(seq 20); do # the same twice, a second apart
		sleep 1
		now=$(($(pss "$daemon") + $(pss "$worker")))
		[ "$now" != "$before" ] || break
		before=$now
	done
	awk -v k="$(pss "$daemon")" -v w="$(pss "$worker")" -v o="$(($(own "$daemon") + $(own "$worker")))" 'BEGIN {
		printf "idle memory: %.1f MiB PSS (keeper %.1f, worker %.1f), %.1f MiB written by them alone\n",
			(k + w) / 1024, k / 1024, w / 1024, o / 1024 }'
else
	echo "idle memory: not measured (the worker's PSS can be read by root only)"
fi

"$keyhole" run -q --use anthropic -- true # once for the page cache
for _ in $(seq "$runs"); do
	begin=${EPOCHREALTIME/[.,]/}
	"$keyhole" run -q --use anthropic -- true
	echo $((${EPOCHREALTIME/[.,]/} - begin))
done | sort -n | awk '{ t[NR] = $1 } END {
	printf "start time: %.0f ms median of %d runs of `keyhole run -- true` (fastest %.0f, slowest %.0f)\n",
		t[int((NR + 1) / 2)] / 1000, NR, t[1] / 1000, t[NR] / 1000 }'
