#!/bin/sh
# install-deps.sh - install what keyhole's build, run, test, bench and lint need, and nothing that is there
#
#   deploy/install-deps.sh [-n] [GROUP...]      groups: build run demo test lint (default: these five) bench image peer
#
# -n only says what is missing (exit 1 when anything is). Works as root and as a user with sudo; never
# asks a question of its own. Debian and Ubuntu (apt), Fedora (dnf), Alpine (apk), Arch (pacman).
set -eu

# groups | what for | Debian/Ubuntu | Fedora | Alpine | Arch
# Several names side by side are all needed; a/b is the first of them that exists; - is nothing. Where
# one of a/b is there, none is installed: docker.io would put itself in the place of Docker's own packages,
# and runc in that of its containerd.io, which has a runc in it.
table='
build|C compiler|gcc libc6-dev|gcc glibc-devel glibc-static|gcc musl-dev linux-headers|gcc glibc
build|the build itself|make|make|make|make
build|finding libraries|pkg-config/pkgconf|pkgconf-pkg-config|pkgconf|pkgconf
build|OpenSSL: TLS, certificates, digests|libssl-dev|openssl-devel|openssl-dev|openssl
build|libevent: event loops|libevent-dev|libevent-devel|libevent-dev|libevent
build|c-ares: name resolution|libc-ares-dev|c-ares-devel|c-ares-dev|c-ares
build|nghttp2: HTTP/2|libnghttp2-dev|libnghttp2-devel|nghttp2-dev|libnghttp2/nghttp2
build|libyaml: the configuration|libyaml-dev|libyaml-devel|yaml-dev|libyaml
build|libseccomp: the system-call filters|libseccomp-dev|libseccomp-devel|libseccomp-dev|libseccomp
build|libpsl: the public suffix list|libpsl-dev|libpsl-devel|libpsl-dev|libpsl
build|libmaxminddb: countries and networks of addresses|libmaxminddb-dev|libmaxminddb-devel|libmaxminddb-dev|libmaxminddb
build|jansson: reading the journal back|libjansson-dev|jansson-devel|jansson-dev|jansson
run|bubblewrap: the sandbox|bubblewrap|bubblewrap|bubblewrap|bubblewrap
run|an OCI runtime: the engine container|crun/runc/containerd.io|crun/runc/containerd.io|crun/runc|crun/runc
image test|reading and unpacking images (run --image)|skopeo umoci|skopeo|skopeo umoci|skopeo
image|a root of Debian (run --image debian)|mmdebstrap|-|-|-
run|the roots that upstreams are verified by|ca-certificates|ca-certificates|ca-certificates|ca-certificates
run|OpenSSL at run time|libssl3t64/libssl3|openssl-libs|libssl3 libcrypto3|openssl
run|libevent at run time|libevent-2.1-7t64/libevent-2.1-7 libevent-pthreads-2.1-7t64/libevent-pthreads-2.1-7|libevent|libevent|libevent
run|c-ares at run time|libcares2/libc-ares2|c-ares|c-ares|c-ares
run|nghttp2 at run time|libnghttp2-14|libnghttp2|nghttp2-libs|libnghttp2/nghttp2
run|libyaml at run time|libyaml-0-2|libyaml|yaml|libyaml
run|libseccomp at run time|libseccomp2|libseccomp|libseccomp|libseccomp
run|libpsl at run time|libpsl5t64/libpsl5|libpsl|libpsl|libpsl
run|libmaxminddb at run time|libmaxminddb0|libmaxminddb|libmaxminddb-libs/libmaxminddb|libmaxminddb
run|jansson at run time|libjansson4|jansson|jansson|jansson
test|unit tests|libcmocka-dev|libcmocka-devel|cmocka-dev|cmocka
demo test|the mock upstream, and a real client|python3 curl openssl bash|python3 curl openssl bash|python3 curl openssl bash|python curl openssl bash
test|integration tests|python3-pytest python3-h11 python3-websockets|python3-pytest python3-h11 python3-websockets|py3-pytest py3-h11 py3-websockets|python-pytest python-h11 python-websockets
test|several of them at a time, and random ones|python3-pytest-xdist python3-hypothesis|python3-pytest-xdist python3-hypothesis|py3-pytest-xdist py3-hypothesis|python-pytest-xdist python-hypothesis
test|real servers to talk to|nginx-light/nginx nodejs|nginx nodejs|nginx nodejs|nginx nodejs
test|more real clients|wget git npm/nodejs|wget git nodejs-npm|wget git npm|wget git npm
test|HTTP/2: a server, and a library for tests|nghttp2-server python3-h2|nghttp2 python3-h2|nghttp2 py3-h2|nghttp2 python-h2
test|clients and servers in Python|python3-httpx python3-aiohttp python3-requests|python3-httpx python3-aiohttp python3-requests|py3-httpx py3-aiohttp py3-requests|python-httpx python-aiohttp python-requests
test|HTTP/2 by hand, and its tools|python3-h2 nghttp2-client|python3-h2 nghttp2|py3-h2 nghttp2|python-h2 nghttp2
test|the schema of the configuration|python3-jsonschema python3-yaml|python3-jsonschema python3-pyyaml|py3-jsonschema py3-yaml|python-jsonschema python-yaml
test|instructions and system calls counted|valgrind strace|valgrind strace|valgrind strace|valgrind strace
test|the format of metrics (promtool)|prometheus|-|prometheus|prometheus
test|a journal checked by hand|jq|jq|jq|jq
test|programs that fill a terminal|vim-tiny/vim htop|vim-enhanced htop|vim htop|vim htop
test|a terminal whose screen can be read|tmux|tmux|tmux|tmux
test|processes and sockets looked at from outside|procps iproute2|procps-ng iproute|procps iproute2|procps-ng iproute2
test|the other shell whose completion is tried|zsh|zsh|zsh|zsh
test|containers, and what deploy/ has for them|podman crun runc/containerd.io docker-compose|podman crun runc/containerd.io|podman crun runc|podman crun runc docker-compose
test|docker: the tests start a daemon that is theirs alone|docker.io/docker-ce/docker-ce-cli/moby-engine/containerd.io/podman-docker|moby-engine/docker-ce/docker-ce-cli/containerd.io/podman-docker|docker/podman-docker|docker/podman-docker
test|docker: its client, where docker.io only recommends it|docker-cli/docker.io/docker-ce/docker-ce-cli/moby-engine/containerd.io/podman-docker|-|-|-
test|roots of one static program|busybox-static|busybox|busybox-static|busybox
test|gVisor: the engine gvisor, where it is packaged|runsc/runc/containerd.io|runc/containerd.io|runc|runc
test|tests as an ordinary user (setpriv, runuser)|util-linux|util-linux|util-linux util-linux-misc setpriv runuser|util-linux
peer|what sandbox-runtime needs (make agents-peer)|bubblewrap socat ripgrep tmux npm/nodejs|bubblewrap socat ripgrep tmux nodejs-npm|bubblewrap socat ripgrep tmux npm|bubblewrap socat ripgrep tmux npm
bench|what make bench runs in|python3 openssl|python3 openssl|python3 openssl|python openssl
bench|other proxies to compare with|haproxy nginx-light/nginx nghttp2-proxy squid-openssl/squid mitmproxy|haproxy nginx nghttp2 squid|haproxy nginx nghttp2 squid|haproxy nginx nghttp2 squid mitmproxy
lint|the second compiler and the fuzzers|clang libclang-rt-dev/libclang-rt-14-dev/libclang-common-14-dev|clang compiler-rt|clang compiler-rt|clang compiler-rt
lint|C style and checks|clang-format clang-tidy cppcheck|clang-tools-extra cppcheck|clang-extra-tools cppcheck|clang cppcheck
lint|shell scripts|shellcheck|ShellCheck|shellcheck|shellcheck
'

say()
{
	printf 'install-deps: %s\n' "$*" >&2
}

die()
{
	say "$*"
	exit 1
}

usage()
{
	sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"
}

only_say=
groups=
for arg in "$@"; do
	case $arg in
	-n) only_say=1 ;;
	-h | --help)
		usage
		exit 0
		;;
	build | run | demo | test | lint | bench | image | peer) groups="$groups $arg" ;;
	*) die "unknown group \"$arg\" (build, run, demo, test, lint, bench, image, peer)" ;;
	esac
done
[ -n "$groups" ] || groups=' build run demo test lint'

# --- the package manager: what is installed (a list of names on standard output), what exists, how
# --- to install
if command -v apt-get >/dev/null 2>&1; then
	manager=apt column=3
elif command -v dnf >/dev/null 2>&1; then
	manager=dnf column=4
elif command -v apk >/dev/null 2>&1; then
	manager=apk column=5
elif command -v pacman >/dev/null 2>&1; then
	manager=pacman column=6
else
	die "no apt-get, dnf, apk or pacman here; what is needed stands in the table of $0"
fi

installed()
{
	case $manager in
	apt)
		# A virtual package and one whose files are left behind don't count.
		dpkg-query -W -f='${db:Status-Status} ${binary:Package}\n' "$@" 2>/dev/null |
			sed -n 's/^installed \([^:]*\).*/\1/p' || true
		;;
	dnf) rpm -q --qf '%{NAME}\n' "$@" 2>/dev/null | grep -v 'is not installed' || true ;;
	apk) apk info -e "$@" 2>/dev/null || true ;;
	pacman) pacman -Qq "$@" 2>/dev/null || true ;;
	esac
}

exists()
{
	case $manager in
	apt) LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]' ;;
	dnf) dnf -q list --available "$1" >/dev/null 2>&1 ;;
	apk) apk search -e "$1" 2>/dev/null | grep -q . ;;
	pacman) pacman -Si "$1" >/dev/null 2>&1 ;;
	esac
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif sudo -n true 2>/dev/null; then
		sudo -n "$@"
	else
		sudo "$@"
	fi
}

may_install()
{
	[ "$(id -u)" -ne 0 ] || return 0
	command -v sudo >/dev/null 2>&1 || return 1
	sudo -n true 2>/dev/null && return 0
	# sudo may ask for a password where somebody is there to type it.
	[ -t 0 ]
}

refresh()
{
	case $manager in
	apt) as_root apt-get -q -o DPkg::Lock::Timeout=600 update >&2 ;;
	apk) as_root apk update >&2 ;;
	pacman) as_root pacman -Sy --noconfirm >&2 ;;
	dnf) : ;;
	esac
}

# Debian starts a service as soon as it is installed, and at every boot. The tests start nginx and its
# like by themselves; nobody asked for a web server on port 80. A unit that runs or is started at boot
# before anything is installed is somebody's, and stays so.
services=
not_in_use()
{
	for unit in "$@"; do
		systemctl is-active -q "$unit" 2>/dev/null || systemctl is-enabled -q "$unit" 2>/dev/null ||
			printf '%s ' "$unit"
	done
}

quiet_services()
{
	policy=/usr/sbin/policy-rc.d
	if [ -n "$services" ] && [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 0755 "$policy"
		trap 'as_root rm -f "$policy"' EXIT
		trap 'exit 130' INT TERM HUP
	fi
}

install()
{
	case $manager in
	apt)
		quiet_services
		ours=
		# shellcheck disable=SC2086 # names are split on purpose
		[ ! -d /run/systemd/system ] || ours=$(not_in_use $services)
		# What is in the way of a package stays, and nothing is installed.
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 \
			install --no-remove --no-install-recommends "$@" >&2
		# shellcheck disable=SC2086 # names are split on purpose
		[ -z "$ours" ] || as_root systemctl disable -q --now $ours >&2 || true
		;;
	dnf) as_root dnf -y -q install --setopt=install_weak_deps=False "$@" >&2 ;;
	apk) as_root apk add "$@" >&2 ;;
	pacman) as_root pacman -S --needed --noconfirm "$@" >&2 ;;
	esac
}

# --- what is asked for: "group|what for|names"
wanted=$(printf '%s\n' "$table" | awk -F '|' -v column="$column" -v groups="$groups " \
	'NF && $column != "-" { n = split($1, of, " ")
		for (i = 1; i <= n; i++) if (index(groups, " " of[i] " ")) { print of[i] "|" $2 "|" $column; next } }')

# One question for all of it: that is what makes this quick when nothing is missing.
# shellcheck disable=SC2046 # names are split on purpose
have=" $(installed $(printf '%s\n' "$wanted" | cut -d '|' -f 3 | tr -s '/ ' '\n' | sort -u) | tr '\n' ' ') "

# One of a/b/c is there.
is_there()
{
	for name in $(printf '%s' "$1" | tr '/' ' '); do
		case $have in *" $name "*) return 0 ;; esac
	done
	return 1
}

missing=$(printf '%s\n' "$wanted" | while IFS='|' read -r group why names; do
	for choice in $names; do
		is_there "$choice" || printf '%s|%s|%s\n' "$group" "$why" "$choice"
	done
done)
[ -n "$missing" ] || exit 0

if [ -n "$only_say" ]; then
	printf '%s\n' "$missing" | while IFS='|' read -r group why choice; do
		say "missing: $choice ($group: $why)"
	done
	exit 1
fi

if ! may_install; then
	printf '%s\n' "$missing" | while IFS='|' read -r group why choice; do
		say "missing: $choice ($group: $why)"
	done
	die "neither root nor sudo without a password: run it as root, or have these packages installed"
fi

say "refreshing the list of packages"
refresh || say "the list of packages could not be refreshed; going on with the one that is there"

to_install=
while IFS='|' read -r group why choice; do
	picked=
	for name in $(printf '%s' "$choice" | tr '/' ' '); do
		if exists "$name"; then
			picked=$name
			break
		fi
	done
	[ -n "$picked" ] || die "no package $choice in this distribution ($group: $why)"
	case "$to_install " in *" $picked "*) continue ;; esac
	case $picked in
	nginx*) services="$services nginx.service" ;;
	squid*) services="$services squid.service" ;;
	prometheus) services="$services prometheus.service" ;;
	haproxy) services="$services haproxy.service" ;;
	docker.io) services="$services docker.service docker.socket containerd.service" ;;
	esac
	say "installing $picked ($group: $why)"
	to_install="$to_install $picked"
done <<EOF
$missing
EOF
# shellcheck disable=SC2086 # names are split on purpose
install $to_install
