"""Clients that know of no proxy: DNS by keyhole-init, and connections that it takes to the proxy.

No proxy variable is set in any of these: what reaches the proxy does so by a name, or an address.
"""

import errno
import json
import os
import shutil
import socket
import sys
import time

import pytest
from conftest import HERE, read_all
from test_clients import NAME, URL, inside, installed, mock  # noqa: F401

sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration")]
from node_packages import node_path  # noqa: E402

VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy",
             "no_proxy", "NODE_USE_ENV_PROXY", "JAVA_TOOL_OPTIONS"]  # fmt: skip
PLAIN = ["env", *(word for name in VARIABLES for word in ("-u", name))]
TRUST = "-Djavax.net.ssl.trustStore=/etc/keyhole/ca.p12 -Djavax.net.ssl.trustStoreType=PKCS12 \
-Djavax.net.ssl.trustStorePassword=changeit"


@pytest.fixture
def plain(inside, mock):  # noqa: F811
    """plain(args…): without a proxy variable; what came back, and that it came by the proxy."""

    def go(*args, **options):
        since = mock.mark()
        done = inside(*PLAIN, *args, **options)
        if options.get("check", 0) == 0:
            assert mock.requests(since=since), "nothing arrived"
        return done

    return go


# --- programs -------------------------------------------------------------------------------------


def test_the_variables_are_gone(inside):  # noqa: F811
    assert "proxy" not in inside(*PLAIN, "env").stdout.lower().replace("keyhole", "")


def test_curl(plain):
    assert json.loads(plain("curl", "-sS", URL).stdout)


def test_curl_by_http2(plain):
    done = plain("curl", "-sS", "--http2", "-o", "/dev/null", "-w", "%{http_version} %{remote_ip}", URL)
    version, address = done.stdout.split()
    assert version == "2" and address.startswith("127.64.")


def test_plain_http(inside):  # noqa: F811
    """Refused by the rules, by the proxy's own words: so it was there."""
    done = inside(*PLAIN, "curl", "-sS", f"http://{NAME}/")
    assert "keyhole" in done.stdout and NAME in done.stdout, done.stdout


def test_a_host_off_the_list_is_refused_with_the_reason(inside):  # noqa: F811
    done = inside(*PLAIN, "curl", "-sS", "https://elsewhere.test/")
    assert "elsewhere.test" in done.stdout and "not allowed" in done.stdout


def test_a_literal_address_is_refused_with_the_reason(inside):  # noqa: F811
    done = inside(*PLAIN, "curl", "-sS", "-k", "https://192.0.2.7/")
    assert "192.0.2.7" in done.stdout and "not allowed" in done.stdout, done.stdout


def test_the_page_about_the_sandbox(inside):  # noqa: F811
    done = inside(*PLAIN, "curl", "-sS", "http://keyhole.internal/")
    assert NAME in done.stdout


def test_a_name_is_there_for_who_wants_ipv4_where_the_host_has_it(inside):  # noqa: F811
    """getaddrinfo with AI_ADDRCONFIG does not count 127.0.0.1."""
    code = f"""
import socket
found = socket.getaddrinfo("{NAME}", 443, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
print(found[0][4][0])
"""
    done = inside(*PLAIN, "/usr/bin/python3", "-I", "-c", code)
    assert done.stdout.startswith("127."), done.stdout + done.stderr


@installed("wget")
def test_wget(plain):
    assert json.loads(plain("wget", "-q", "-O", "-", URL).stdout)


@installed("git")
def test_git(plain):
    done = plain("git", "ls-remote", f"https://{NAME}/nothing.git", check=128)
    assert "not found" in done.stderr and "certificate" not in done.stderr.lower(), done.stderr


def test_python_sockets(plain):
    code = f"""
import socket, ssl
s = socket.create_connection(("{NAME}", 443))
s = ssl.create_default_context(cafile="/etc/keyhole/ca.pem").wrap_socket(s, server_hostname="{NAME}")
s.sendall(b"GET /test/echo HTTP/1.1\\r\\nHost: {NAME}\\r\\nConnection: close\\r\\n\\r\\n")
data = b""
while chunk := s.recv(65536):
    data += chunk
print(data.split(b"\\r\\n\\r\\n", 1)[0].decode().split("\\r\\n")[0])
"""
    assert plain("/usr/bin/python3", "-I", "-c", code).stdout.startswith("HTTP/1.1 200")


NODE = f"""
const https = require('https');
https.get('{URL}', r => {{
    let text = '';
    r.on('data', d => text += d).on('end', () => fetch('{URL}').then(r => r.text()).then(
        t => console.log(JSON.stringify([r.statusCode, text.length > 0, t.length > 0]))));
}});
"""


@installed("node")
def test_node_knows_no_proxy(plain):
    assert json.loads(plain("node", "-e", NODE).stdout) == [200, True, True]


AWS = f"""
const {{ NodeHttp2Handler }} = require('@smithy/node-http-handler');
const handler = new NodeHttp2Handler();
const request = {{ protocol: 'https:', hostname: '{NAME}', port: 443, method: 'POST', path: '/test/echo',
                   headers: {{ 'content-type': 'application/json' }}, query: {{}}, body: '{{"a":1}}' }};
handler.handle(request, {{}}).then(async ({{ response }}) => {{
    let text = '';
    for await (const chunk of response.body) text += chunk;
    console.log(JSON.stringify([response.statusCode, text.length > 0]));
    handler.destroy();
}}, e => {{ console.log(JSON.stringify(String(e))); process.exit(1); }});
"""


@installed("node")
def test_the_aws_sdks_http2_handler(plain, sandbox, workspace):
    packages = node_path()
    for name in ("@smithy", "tslib"):
        shutil.copytree(os.path.join(packages, name), os.path.join(workspace, "node_modules", name))
    sandbox.file(os.path.join(workspace, "call.js"), AWS)
    sandbox.give(workspace)
    done = plain("node", "call.js", options=["--workspace", workspace])
    assert json.loads(done.stdout) == [200, True]


JAVA = """
import java.net.*; import java.net.http.*;
public class Get { public static void main(String[] a) throws Exception {
  var old = new String(new URL(a[0]).openStream().readAllBytes());
  var client = HttpClient.newHttpClient();
  var now = client.send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString());
  System.out.println(now.statusCode() + " " + now.version() + " " + (old.length() > 0)); } }
"""


@installed("javac")
def test_java(plain, sandbox, workspace):
    sandbox.file(os.path.join(workspace, "Get.java"), JAVA)
    done = plain("env", f"JAVA_TOOL_OPTIONS={TRUST}", "java", "Get.java", URL, options=["--workspace", workspace])
    assert done.stdout.split() == ["200", "HTTP_2", "true"]


@installed("promtool")
@pytest.mark.parametrize("resolver", ["go", "cgo"])
def test_go(inside, mock, resolver):  # noqa: F811
    """promtool is one that Debian has: Go's own resolver, then glibc's, and net/http behind them. The
    server is none of what it asks for, which it says once it has the answer."""
    since = mock.mark()
    done = inside(*PLAIN, f"GODEBUG=netdns={resolver}", "promtool", "query", "instant", f"https://{NAME}/", "up", check=1)
    assert "x509" not in done.stderr and "lookup" not in done.stderr, done.stderr
    assert mock.requests(since=since), done.stderr


@installed("apt-get")
def test_apt(plain, sandbox, workspace):
    """apt's own configuration of a proxy is set aside; the server has no such list."""
    sandbox.file(os.path.join(workspace, "sources.list"), f"deb [trusted=yes] https://{NAME}/debian stable main\n")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(workspace, name))
    sandbox.give(workspace)
    direct = ["Acquire::http::Proxy=DIRECT", "Acquire::https::Proxy=DIRECT", "APT::Sandbox::User=agent",
              f"Dir::Etc::sourcelist={workspace}/sources.list", "Dir::Etc::sourceparts=-", f"Dir::State={workspace}",
              f"Dir::State::lists={workspace}/lists", f"Dir::Cache={workspace}/cache", "Acquire::Retries=0"]  # fmt: skip
    done = plain("apt-get", "update", *(f"-o{o}" for o in direct), options=["--workspace", workspace], check=100)
    said = done.stdout + done.stderr
    assert "404" in said and NAME in said and "ertificate" not in said, said


# --- DNS ------------------------------------------------------------------------------------------


QUERY = """
import socket, struct
def question(name, type=1, id=7):
    labels = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.'))
    return struct.pack('>6H', id, 0x100, 1, 0, 0, 0) + labels + b'\\0' + struct.pack('>2H', type, 1)
def udp(data):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.sendto(data, ('127.0.0.1', 53))
    return s.recv(2000)
def exactly(s, n):
    data = b''
    while len(data) < n:
        chunk = s.recv(n - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data
def read(s):
    return exactly(s, struct.unpack('>H', exactly(s, 2))[0])
def framed(data):
    return struct.pack('>H', len(data)) + data
"""


def test_resolv_conf_names_the_init(sandbox):
    assert sandbox.sh("cat /etc/resolv.conf").splitlines()[0] == "nameserver 127.0.0.1"


def test_dns_over_udp_and_tcp_gives_a_name_the_same_address(sandbox):
    seen = sandbox.python(
        QUERY
        + """
first = udp(question('api.example'))
s = socket.create_connection(('127.0.0.1', 53))
both = framed(question('API.example')) + framed(question('other.example', id=8))
for i in range(len(both)):
    s.sendall(both[i:i + 1])
again, other = read(s), read(s)
v6 = udp(question('api.example', 28))
say([list(first[-4:]), list(again[-4:]), list(other[-4:]), [v6[3] & 15, v6[7]], other[1]])
"""
    )
    assert seen == [[127, 64, 0, 1], [127, 64, 0, 1], [127, 64, 0, 2], [0, 0], 8]


def test_dns_is_not_held_up_by_those_who_say_nothing(sandbox):
    """More connections than there are places, each with half a question; and datagrams of nonsense."""
    seen = sandbox.python(
        QUERY
        + """
idle = [socket.create_connection(('127.0.0.1', 53)) for _ in range(200)]
for s in idle:
    try:
        s.sendall(b'\\0\\x20half')
    except OSError:
        pass
junk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(2000):
    junk.sendto(bytes([i % 256]) * (i % 1400), ('127.0.0.1', 53))
s = socket.create_connection(('127.0.0.1', 53))
s.sendall(framed(question('api.example')))
over_tcp = list(read(s)[-4:-2])
large = socket.create_connection(('127.0.0.1', 53))
large.sendall(b'\\xff\\xff' + b'x' * 100)
try:
    ended = large.recv(1) == b''
except ConnectionResetError:
    ended = True
say([over_tcp, list(udp(question('other.example'))[-4:-2]), ended])
"""
    )
    assert seen == [[127, 64], [127, 64], True]


def test_an_address_that_stands_for_nothing_is_a_reset(sandbox):
    seen = sandbox.python(
        """
        import socket
        out = []
        for host in ('127.77.1.2', '127.0.0.1', '127.0.0.53', '::1'):
            try:
                s = socket.create_connection((host, 443), timeout=10)
                out.append(s.recv(1).hex())
            except OSError as e:
                out.append(e.errno)
        say(out)
        """
    )
    assert seen == [104] * 4


def test_ports_of_ones_own_are_captured_and_no_other(sandbox):
    heads = []

    def serve(connection):
        heads.append(connection.recv(4096).split(b"\r\n")[0].decode())
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhello")

    sandbox.peer(serve)
    seen = sandbox.python(
        """
        import socket
        out = []
        for port in (8443, 8444, 443):
            try:
                s = socket.create_connection(('db.example', port), timeout=10)
                got = b''
                while chunk := s.recv(100):
                    got += chunk
                out.append(got.decode())
            except OSError as e:
                out.append(e.errno)
        say(out)
        """,
        port=["8443", "443", "8443"],
    )
    assert seen == ["hello", 111, "hello"]
    assert heads == ["CONNECT db.example:8443 HTTP/1.1", "CONNECT db.example:443 HTTP/1.1"]


@pytest.mark.before_the_engine
@pytest.mark.parametrize("said", ["80,x", "0", "65536", "", "1,,2", ",".join(str(n) for n in range(1, 40))])
def test_ports_that_are_none_are_refused(inside, said):  # noqa: F811
    done = inside("true", options=["--ports", said], check=125)
    assert done.stderr.startswith("keyhole: --ports ") and done.stderr.count("\n") == 1


def test_names_have_addresses_of_the_range_that_was_asked_for(plain, inside):  # noqa: F811
    """Which a client that refuses private addresses takes for those of a server on the internet."""
    code = f"""if True:
        import ipaddress, json, socket, urllib.request
        address = ipaddress.ip_address(socket.gethostbyname("{NAME}"))
        body = json.load(urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open("{URL}", timeout=20))
        def reset(host):
            try:
                s = socket.create_connection((host, 443), timeout=10)
                return s.recv(1).hex()
            except OSError as e:
                return e.errno
        print(json.dumps([str(address), address.is_global, bool(body), reset("11.0.9.9"), reset("127.0.0.1")]))
    """
    done = plain("/usr/bin/python3", "-c", code, options=["--capture-range", "11.0.0.0/10"])
    assert json.loads(done.stdout) == ["11.0.0.1", True, True, errno.ECONNRESET, errno.ECONNRESET]


@pytest.mark.before_the_engine
@pytest.mark.parametrize("said", ["", "11.0.0.0", "11.0.0.0/7", "11.0.0.0/19", "11.0.0.1/10", "127.0.0.0/8", "127.0.0.0/10",
                                  "127.32.0.0/12", "0.0.0.0/8", "224.0.0.0/8", "fd00::/18", "eleven/10", "11.0.0.0/10,12.0.0.0/10"])  # fmt: skip
def test_ranges_in_which_no_name_can_be_reached_are_refused(inside, said):  # noqa: F811
    done = inside("true", options=["--capture-range", said], check=125)
    assert done.stderr.startswith("keyhole: --capture-range ") and done.stderr.count("\n") == 1


# --- the relay of a captured connection -----------------------------------------------------------


def test_the_answer_to_connect_is_not_shown_and_nothing_behind_it_is_lost(sandbox):
    """In pieces, with the first bytes of the tunnel behind it; the client spoke first."""
    seen = []

    def serve(connection):
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += connection.recv(1)
        for piece in (b"HT", b"TP/1.1 200 Conn", b"ection established\r\nVia: 1.1 x\r\n\r", b"\nfirst"):
            connection.sendall(piece)
            time.sleep(0.05)
        connection.sendall(b" second ")
        seen.append(read_all(connection))
        connection.sendall(b"end")

    sandbox.peer(serve)
    got = sandbox.python(
        """
        import socket
        s = socket.create_connection(('api.example', 443))
        s.sendall(b'x' * 100_000)
        s.shutdown(socket.SHUT_WR)
        got = b''
        while chunk := s.recv(100):
            got += chunk
        say(got.decode())
        """
    )
    assert got == "first second end" and seen == [b"x" * 100_000]


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 403 Forbidden\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, b"SSH-2.0\r\n\r\n", b"HTTP/1.1 20", b""],
    ids=["refused", "endless", "other", "cut", "nothing"],
)  # fmt: skip
def test_any_other_answer_is_a_reset(sandbox, answer):
    def serve(connection):
        connection.recv(4096)
        connection.sendall(answer)

    sandbox.peer(serve)
    seen = sandbox.python(
        """
        import socket
        s = socket.create_connection(('api.example', 443))
        try:
            say(s.recv(100).decode())
        except OSError as e:
            say(e.errno)
        """
    )
    assert seen == 104


def test_a_tunnel_that_broke_is_a_reset_and_not_an_end(sandbox):
    """The proxy is gone in the middle of it, with something unread."""

    def serve(connection):
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        connection.recv(1, socket.MSG_PEEK)

    sandbox.peer(serve)
    seen = sandbox.python(
        """
        import socket
        s = socket.create_connection(('api.example', 443))
        out = [s.recv(100).decode()]
        s.sendall(b'unread')
        try:
            out.append(s.recv(100).decode())
        except OSError as e:
            out.append(e.errno)
        say(out)
        """
    )
    assert seen == ["first", errno.ECONNRESET]


def test_a_name_keeps_its_address_while_it_is_connected(sandbox):
    """Ten thousand names later: the connection lives, and its name has not moved."""

    def serve(connection):
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.sendall(read_all(connection))

    sandbox.peer(serve)
    seen = sandbox.python(
        QUERY
        + """
s = socket.create_connection(('held.example', 443))
before = s.getpeername()[0]
q = socket.create_connection(('127.0.0.1', 53))
for i in range(10000):
    q.sendall(framed(question(f'n{i}.example')))
    read(q)
after = socket.inet_ntoa(udp(question('held.example'))[-4:])
s.sendall(b'still there')
s.shutdown(socket.SHUT_WR)
got = b''
while chunk := s.recv(100):
    got += chunk
say([before == after, got.decode()])
"""
    )
    assert seen == [True, "still there"]


# --- privileges -----------------------------------------------------------------------------------


def test_what_bound_the_ports_has_no_privilege_left(sandbox):
    seen = sandbox.python(
        """
        import re, socket, subprocess
        status = open('/proc/1/status').read()
        caps = set(re.findall(r'Cap\\w+:\\s+(\\w+)', status))
        out = {'caps': sorted(caps), 'uid': re.search(r'Uid:\\s+(.*)', status)[1].split(),
               'more': re.findall(r'(?:NoNewPrivs|Seccomp):\\s+(\\d)', status)}
        for port in (53, 80, 443, 81):
            s = socket.socket()
            try:
                s.bind(('127.0.0.9', port))
                out[port] = 'bound'
            except OSError as e:
                out[port] = e.errno
        nl = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        # RTM_NEWLINK on lo, flags down
        nl.send(b'\\x20\\0\\0\\0\\x10\\0\\x05\\0' + b'\\0' * 8 + b'\\0\\0\\0\\0\\1\\0\\0\\0' + b'\\0\\0\\0\\0\\1\\0\\0\\0')
        out['netlink'] = -int.from_bytes(nl.recv(4096)[16:20], 'little', signed=True)
        say(out)
        """
    )
    # In gVisor it has another real and saved uid, for those who would signal it.
    real = "65534" if sandbox.engine == "gvisor" else "1000"
    assert seen.pop("caps") == ["0" * 16] and seen.pop("uid") == [real, "1000", real, "1000"]
    # Its kernel shows no NoNewPrivs.
    assert seen.pop("more") == (["2"] if sandbox.engine == "gvisor" else ["1", "2"])
    assert seen.pop("netlink") in (errno.EPERM, errno.EACCES)
    if sandbox.engine == "gvisor":  # its kernel keeps no port for root: only what is taken is refused
        assert (seen["80"], seen["443"]) == (98, 98), seen
    else:
        assert all(v in (13, 98) for v in seen.values()), seen
