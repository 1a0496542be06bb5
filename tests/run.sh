#!/bin/sh
# run.sh - all the tests, from nothing: what is missing is installed, then tests/run.py goes on
# Extra arguments go to it (`tests/run.sh --help`).
set -eu
cd "$(dirname "$0")/.."
if ! deploy/install-deps.sh build run test; then
	echo "tests: what is needed is not there (above)"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
# The distribution's Python has the distribution's pytest; another one first on the PATH has not.
exec /usr/bin/python3 tests/run.py "$@"
