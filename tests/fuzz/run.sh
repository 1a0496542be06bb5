#!/bin/sh
# run.sh - run the fuzzers of build/fuzz, each for a number of seconds
#   tests/fuzz/run.sh SECONDS NAME...
# What they find new stays under build/fuzz/; the committed corpus is read, never written. A crash
# is kept in build/fuzz/artifacts/; shrink it (-minimize_crash=1), mend the bug, and commit the input
# to tests/fuzz/corpus/NAME/.
set -eu
cd "$(dirname "$0")/../.."
seconds=$1
shift
failed=
for name in "$@"; do
	found=build/fuzz/corpus/$name
	mkdir -p "$found" build/fuzz/artifacts
	set -- "$found"
	[ -d "tests/fuzz/corpus/$name" ] && set -- "$@" "tests/fuzz/corpus/$name"
	[ -f "tests/fuzz/$name.dict" ] && set -- "$@" "-dict=tests/fuzz/$name.dict"
	echo "fuzz_$name: $seconds s"
	if ! timeout $((seconds + 60)) "build/fuzz/fuzz/fuzz_$name" "$@" \
		-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="build/fuzz/artifacts/$name-" >"build/fuzz/$name.log" 2>&1; then
		failed="$failed $name"
		tail -n 40 "build/fuzz/$name.log"
	fi
	grep -E '^stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)' "build/fuzz/$name.log" || true
done
[ -z "$failed" ] || {
	echo "failed:$failed" >&2
	exit 1
}
