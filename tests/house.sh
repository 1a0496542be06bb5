#!/bin/sh
# house.sh - the rules of the house that no compiler knows
set -eu
cd "$(dirname "$0")/.."
bad=0

complain()
{
	echo "house: $1" >&2
	bad=1
}

# Functions that can't be used safely, or that bring a shell in.
banned='strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|system|popen|alloca|mktemp|tmpnam|rand|srand'
if grep -nE "(^|[^A-Za-z0-9_>.\"])($banned)[[:space:]]*\(" -r include src tests/unit tests/fuzz --include='*.[ch]' |
	grep -vE ':[0-9]+:[[:space:]]*(/\*|\*|//)'; then
	complain "a banned function (above)"
fi

# Every file says what it is for.
for f in $(git ls-files 'src/*.[ch]' 'include/*.h' 'tests/unit/*.[ch]' 'tests/fuzz/*.[ch]'); do
	[ -f "$f" ] || continue
	name=$(basename "$f")
	head -n 5 "$f" | grep -qF "$name - " || complain "$f: the first lines say \"$name - what it is for\""
done

# A long file tells about a missing module.
for f in $(git ls-files 'src/*.[ch]'); do
	[ -f "$f" ] || continue
	lines=$(wc -l <"$f")
	[ "$lines" -le 520 ] || complain "$f has $lines lines; 500 is much"
done

# Nothing is left for later, and nothing of one machine gets in.
if git ls-files -z | grep -zvE '^(LICENSE|tests/house\.sh)$' |
	xargs -0 grep -nIE '(^|[^A-Za-z])(TODO|FIXME|XXX|HACK)([^A-Za-z]|$)' 2>/dev/null; then
	complain "something left for later (above)"
fi

# A row of docs/http.md names the test that holds it.
for test in $(sed -n 's/^|.*| *\([a-z]*: .*\) |$/\1/p' docs/http.md | tr -s ',;' '\n' | sed 's/.*: *//' | grep '_'); do
	grep -qE "test_$test\(" tests/unit/test_h1_*.c tests/unit/test_target.c ||
		complain "docs/http.md: there is no test $test"
done

# So does a row of docs/protocols.md.
for test in $(grep '^|' docs/protocols.md | grep -o "\`test_[a-z0-9_]*\`" | tr -d '\140' | sort -u); do
	grep -qrE "(def |void )$test\(" tests/unit tests/integration ||
		complain "docs/protocols.md: there is no $test"
done

# Floors: a folder of the library includes only from folders above it in this list.
floors='base config policy net tls http credential llm audit proxy keeper sandbox'
for f in $(git ls-files 'src/*/*.[ch]'); do
	[ -f "$f" ] || continue
	here=${f#src/}
	here=${here%%/*}
	case $here in
	http | policy | credential)
		if grep -nE '#include <(sys/socket|event2?/|netinet/tcp)' "$f"; then
			complain "$f: $here knows neither sockets nor libevent"
		fi
		;;
	init)
		if grep -nE '#include <keyhole/(worker|keeper|tls|authority|audit|dialer|resolver|listener)\.h>' "$f"; then
			complain "$f: $here knows nothing of the proxy"
		fi
		;;
	sandbox)
		if grep -nE '#include <keyhole/(worker|keeper|tls|audit|dialer|resolver|listener)\.h>' "$f"; then
			complain "$f: $here knows nothing of the proxy"
		fi
		;;
	esac
	for floor in $floors; do
		[ "$floor" != "$here" ] || continue
		if grep -nE "#include \"(\.\./)*$floor/" "$f"; then
			complain "$f: what only $floor sees is included"
		fi
	done
done
exit $bad
