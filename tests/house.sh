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
if grep -nE "(^|[^A-Za-z0-9_>.\"])($banned)[[:space:]]*\(" -r include src tests/unit tests/fuzz tests/simulation --include='*.[ch]' |
	grep -vE ':[0-9]+:[[:space:]]*(/\*|\*|//)'; then
	complain "a banned function (above)"
fi

# A path that is walked beneath a folder is tried again by one function (kh_file_resolve). keyhole-init has none of the library,
# and walks beneath no folder: RESOLVE_NO_MAGICLINKS alone never asks for another try.
if grep -nE 'SYS_openat2' -r src include --include='*.[ch]' | grep -vE '^src/(base/folder|init/directory)\.c:'; then
	complain "openat2 without kh_file_resolve (above)"
fi

# Digits of hex and base64 stand in base/encode.c, and nowhere else.
digits='0123456789abcdef"|0123456789ABCDEF"|XYZabcdefghijklmnopqrstuvwxyz0123456789[-+][/_]"|EVP_(En|De)codeBlock|%02x", *[a-z>.]*\['
if grep -nE "$digits" -r src include --include='*.[ch]' | grep -v '^src/base/encode\.c:'; then
	complain "digits of hex or base64 (above): include/keyhole/base/encode.h has them"
fi

# The launcher's short-lived processes are made in one place (include/keyhole/sandbox/child.h); these live
# as long as a sandbox, or watch more than a clock.
long_lived='sandbox/(child|idmap|image_tool|launch|outer_namespace|publish|pump|review_commits|supervisor)|cli/run'
if grep -nE '(^|[^a-z_])v?fork\(\)' -r src/sandbox src/cli --include='*.c' | grep -vE "^src/($long_lived)\.c:"; then
	complain "a process is made (above): include/keyhole/sandbox/child.h does that"
fi

# A program of the host that keyhole starts looks for others in PATH: it gets none that was not cut. keyhole-init's
# commands are the sandbox's, the supervisor's program gets no variable, and the next keeper is keyhole itself.
for starts in $(git grep -lE '(^|[^a-z_A-Z"])(execv|execvp|execve|execvpe|execl|execle|execlp|fexecve|posix_spawnp?|SYS_execve(at)?)[(,]' \
	-- 'src/*.c' ':!src/init/' ':!src/sandbox/supervisor.c' ':!src/keeper/spawn.c' ':!src/sandbox/seccomp*.c' ':!src/lockin/'); do
	grep -q 'kh_program_environment(' "$starts" ||
		complain "$starts starts a program: its environment comes from kh_program_environment (include/keyhole/base/program.h)"
done
if git grep -nE '[=,:?(] *environ\)?[;,]? *$|[(,] *environ[,)]' -- src/sandbox src/cli ':!src/sandbox/store.c'; then
	complain "the environment is handed on whole (above): kh_program_environment (include/keyhole/base/program.h)"
fi

# Times that somebody else wrote are read in base/timestamp.c.
if grep -nE '(^|[^a-z_])(strptime|mktime)\(' -r src include --include='*.[ch]'; then
	complain "a time is read (above): include/keyhole/base/timestamp.h does that"
fi

# A document that somebody else wrote becomes a tree in one place, which bounds how deep it nests.
if grep -nE '(^|[^a-z_])json_load(s|b|f|fd|_file|_callback)\(' -r src include --include='*.[ch]' | grep -v '^src/base/json_load\.c:'; then
	complain "JSON is read without a bound (above): include/keyhole/base/json_load.h has one"
fi

# The states of HTTP/2 and of streams are assigned by their setters, which ask a table first.
if grep -nE '(->|\.)(life|hold|recv|delivery|put|sent|flow|state|peer) = ' src/http/h2*.[ch] |
	grep -v '^src/http/h2_state\.c:' ||
	grep -nE '(->|\.)(life|state|reading|writing|socket|identity) = ' src/tls/*.[ch] | grep -v '^src/tls/stream_state\.c:'; then
	complain "a state is assigned outside of its machine's setter (above)"
fi

# A buffer's cap is changed by kh_buf_set_cap, which never goes below what the buffer holds.
if git grep -nE '[a-z](->|\.)cap = ' -- 'src/*.[ch]' 'include/*.h' ':!src/base/buf.c'; then
	complain "a buffer's cap is assigned (above): kh_buf_set_cap does that"
fi

# Every file says what it is for, and a long one tells about a missing module.
sources=$(git ls-files 'src/*.[ch]' 'include/*.h' 'tests/unit/*.[ch]' 'tests/fuzz/*.[ch]' 'tests/simulation/*.[ch]' | while read -r f; do
	[ ! -f "$f" ] || echo "$f"
done)
# shellcheck disable=SC2086 # no name has a blank
awk '
	function ended() {
		if (!said) { print "house: " file ": the first lines say \"" base " - what it is for\""; bad = 1 }
		if (file ~ /^src\// && lines > 520) { print "house: " file " has " lines " lines; 520 are the most"; bad = 1 }
	}
	FNR == 1 { if (file) ended(); file = base = FILENAME; sub(".*/", "", base); said = 0 }
	FNR <= 5 && index($0, base " - ") { said = 1 }
	{ lines = FNR }
	END { ended(); exit bad }' $sources >&2 || bad=1

# A tag stands for one thing in the library: it is defined once.
for tag in $(printf '%s\n' "$sources" | grep -E '^(src|include)/' | grep -v '^src/init/' |
	xargs sed -nE 's/^[[:space:]]*(static |const |typedef )*(struct|union|enum) (kh_[a-z0-9_]+) \{.*/\3/p' | sort | uniq -d); do
	complain "$(git grep -nE "(struct|union|enum) $tag \{" -- src include | tr '\n' ' ')"
	complain "$tag is defined more than once (above)"
done

# A state is assigned in its machine's one setter, which asks the table first (include/keyhole/base/machine.h).
machines='src/exchange/exchange_state.c:state src/exchange/exchange_state.c:request_state
	src/exchange/exchange_state.c:answer_state src/exchange/exchange_state.c:record_state
	src/downstream/session_state.c:state src/downstream/session_state.c:tunnel_state
	src/downstream/session_state.c:leaf_state src/upstream/up_state.c:state src/upstream/up_state.c:answer_state
	src/upstream/up_state.c:fin_state src/upstream/connector_state.c:state'
assigned=$(git grep -hnoE --no-column '(->|\.)((request|answer|record|tunnel|leaf|fin)_)?state = ' -- src/exchange src/downstream src/upstream | wc -l)
for machine in $machines; do
	[ "$(grep -cE "(->|\.)${machine#*:} = " "${machine%:*}")" = 1 ] ||
		complain "${machine%:*} assigns ${machine#*:} elsewhere than in its one setter"
	assigned=$((assigned - 1))
done
if [ "$assigned" -ne 0 ]; then
	git grep -nE '(->|\.)((request|answer|record|tunnel|leaf|fin)_)?state = ' -- src/exchange src/downstream src/upstream
	complain "a state is assigned outside of its machine's setter (above)"
fi

# So in the keeper: a worker's process, and a handover at either end.
if grep -nE '(worker_process|handover_new|[^a-z]h)(->|\.)state = ' src/keeper/*.[ch] | grep -v '^src/keeper/worker_process_state\.c:'; then
	complain "a state is assigned outside of its machine's setter (above)"
fi

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

# A folder includes nothing that only another folder sees, and some know even less of the others.
floors='base config policy net tls http credential llm audit lockin loop upstream exchange downstream admin fetcher worker keeper sandbox'
for floor in $floors; do
	if git grep -nE "#include \"(\.\./)*$floor/" -- 'src/*.[ch]' ":!src/$floor/"; then
		complain "what only src/$floor sees is included (above)"
	fi
done
if git grep -nE '#include <(sys/socket|event2?/|netinet/tcp)' -- src/http src/policy src/credential; then
	complain "a folder that knows neither sockets nor libevent (above)"
fi
if git grep -nE '#include <keyhole/' -- src/init | grep -vE '<keyhole/(base|sandbox)/'; then
	complain "keyhole-init knows nothing of the proxy (above)"
fi
if git grep -nE '#include <keyhole/' -- src/sandbox include/keyhole/sandbox | grep -vE '<keyhole/(base|config|sandbox|tls/ca\.h)'; then
	complain "the launcher knows nothing of the proxy (above)"
fi
if git grep -nE '\bkh_(h1|h2|stream|leg)_' -- src/exchange; then
	complain "an exchange knows no codec and no socket (above)"
fi
if git grep -nE '\bkh_(exchange|session)_|struct kh_(exchange|session)\b' \
	-- src/loop src/upstream include/keyhole/loop include/keyhole/upstream; then
	complain "the loop and upstreams know neither exchange nor session (above)"
fi
# A number of a tenant means something in one generation: it comes with it (struct kh_standing, include/keyhole/loop/acceptor.h).
if git grep -nE '(config|listener)->tenant\b|acceptor->narrowing' -- src/exchange src/downstream; then
	complain "a tenant's number or a narrowing without its generation (above): kh_acceptor_standing, kh_exchange_standing"
fi
# What a folder shows to others is in include/keyhole/<folder>/, for folders of src/ alone: nobody includes from a folder that stands below.
for shown in $(git ls-files include/keyhole | cut -d/ -f3 | sort -u); do
	[ -d "src/$shown" ] || complain "include/keyhole/$shown is no folder of src/"
done
below=
for floor in $(echo "$floors" | tr ' ' '\n' | tac); do
	if [ -n "$below" ] && git grep -nE "#include <keyhole/($below)/" -- "src/$floor" "include/keyhole/$floor"; then
		complain "$floor includes what stands below it (above)"
	fi
	below=${below:+$below|}$floor
done
exit $bad
