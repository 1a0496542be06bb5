"""peers.py - the proxies that bench.py measures: how each is configured, started and ended

All do the same work: TLS 1.3 from the client, TLS 1.3 to the origin, whose certificate they verify; one field
with a secret goes into each request; each request leaves a line in a file. haproxy, nginx and nghttpx can't
intercept CONNECT: they are TLS-terminating reverse proxies on a Unix socket, with a pool of upstream connections.
"""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build")
SECRET = "sk-bench-0123456789abcdefghijklmnopqrstuvwxyz0123456789"
DRAIN_SECONDS = 5


class Absent(Exception):
    """This peer can't be measured here, and why."""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def find(*names):
    for name in names:
        path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        if path:
            return path
    raise Absent("not installed")


def openssl(*arguments):
    subprocess.run([find("openssl"), *arguments], check=True, capture_output=True, timeout=30)


def children_of(pid):
    """The process and all below it."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.split("/")[2]))
    found, at = [pid], 0
    while at < len(found):
        found += parents.get(found[at], [])
        at += 1
    return found


class Certificates:
    """A CA, and a leaf for the names of the origin: for those that don't make their own."""

    def __init__(self, folder, names):
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        self.ca, self.ca_key, self.leaf, self.both = at("ca.pem"), at("ca.key"), at("leaf.pem"), at("ca-both.pem")
        self.leaf_key = at("leaf.key")
        for key in (self.ca_key, self.leaf_key):
            openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
        openssl("req", "-x509", "-new", "-key", self.ca_key, "-subj", "/CN=bench", "-days", "30", "-out", self.ca,
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip
        openssl("req", "-new", "-key", self.leaf_key, "-subj", "/CN=" + names[0], "-out", at("leaf.csr"))
        with open(at("ext"), "w", encoding="ascii") as ext:
            ext.write("subjectAltName=" + ",".join("DNS:" + name for name in names))
        openssl("x509", "-req", "-in", at("leaf.csr"), "-CA", self.ca, "-CAkey", self.ca_key, "-CAcreateserial",
                "-days", "30", "-extfile", at("ext"), "-out", self.leaf)  # fmt: skip
        for target, parts in ((self.both, (self.ca, self.ca_key)), (at("leaf-both.pem"), (self.leaf, self.leaf_key))):
            with open(target, "wb") as out:
                for part in parts:
                    with open(part, "rb") as one:
                        out.write(one.read())
        self.leaf_both = at("leaf-both.pem")


class Peer:
    """One proxy. `configure` gives its command, and sets `load`: how the load generator gets there."""

    name = ""
    threads = 1
    most_idle = 10000  # idle tunnels that it can be asked to hold in the time there is
    warm_up = 1  # times as long as the others'
    works = ()  # of bench.py's WORK: these and no others
    probe = ()  # how else one request is sent to see whether it answers

    def __init__(self, folder, bench):
        self.folder = os.path.join(folder, self.name.replace(" ", "-"))
        os.mkdir(self.folder, 0o755)
        self.bench, self.process, self.pids, self.starts = bench, None, [], 0
        self.load, self.ca, self.env = [], bench.certificates.ca, dict(os.environ)

    def at(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.at(name), "w", encoding="utf-8") as out:
            out.write(text)
        return self.at(name)

    def does(self, work):
        return not self.works or work in self.works

    def configure(self):
        raise NotImplementedError

    def start(self, cores):
        command = self.configure()
        self.starts += 1
        with open(self.at("output"), "ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder, env=self.env,
                start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))  # fmt: skip
        end = time.monotonic() + 20
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise Absent("does not answer here: " + self.last_words())
            time.sleep(0.05)
        self.pids = children_of(self.process.pid)

    def last_words(self):
        with open(self.at("output"), encoding="utf-8", errors="replace") as output:
            lines = [line.strip() for line in output.read().splitlines() if line.strip()]
        return lines[-1][:200] if lines else "it says nothing"

    def answers(self):
        return self.bench.probe(self)

    def stop(self):
        """Ends what was started here, by its number, and what that started."""
        if not self.process:
            return
        pids = children_of(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in pids[1:]:
            try:
                if os.getpgid(pid) == self.process.pid or os.getsid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process, self.pids = None, []

    def cpu_ns(self):
        """CPU time of all processes and threads, to the nanosecond where the kernel tells."""
        total = 0
        for pid in self.pids:
            for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
                try:
                    with open(path, encoding="ascii") as stat:
                        total += int(stat.read().split()[0])
                except OSError:
                    continue
        return total

    def pss_kib(self):
        """Return: None when it can't be read."""
        total = 0
        for pid in children_of(self.process.pid):
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
                    total += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
            except OSError:
                return None
        return total


class Direct(Peer):
    """No proxy: what the load generator and the origin can do."""

    name = "direct"
    most_idle = 0

    def start(self, cores):
        self.ca = self.bench.origin_ca
        self.load = ["--direct", f"127.0.0.1:{self.bench.port}", "--to", "localhost:443"]

    def stop(self):
        pass

    def cpu_ns(self):
        return 0


class Keyhole(Peer):
    """Rules, an injected credential, and a journal that is written before anything is sent."""

    name = "keyhole"
    listeners = 1

    def configure(self):
        os.makedirs(self.at("d"), exist_ok=True)
        listen = "".join(f"  - {{ unix: d/{i}/s, tenant: bench }}\n" for i in range(self.listeners))
        for i in range(self.listeners):
            os.makedirs(self.at(f"d/{i}"), exist_ok=True)
        self.write("keyhole.yaml", f"""version: 1
authority: {{ certificate: ca.pem, key: ca.key }}
audit: {{ file: audit.jsonl, durability: written }}
log: {{ level: warn }}
worker: {{ threads: {self.threads} }}
limits: {{ exchanges: 100000000, leaves: 1000 }}
upstream:
  ca_file: {self.bench.origin_ca}
  system_roots: false
  resolve: {{ api.test: "127.0.0.1:{self.bench.port}", h2.test: "127.0.0.1:{self.bench.port}" }}
credentials:
  bench:
    value: {{ env: BENCH_KEY }}
    header: {{ x-api-key: "{{}}" }}
    hosts: [ api.test, h2.test ]
site:
  rules:
    - deny: "* https://*.internal.test/**"
    - allow: "https://**"
tenants:
  bench:
    rules:
      - deny: "* https://api.test/admin/**"
      - allow: "GET,HEAD https://*.example.com/**"
      - allow: "POST https://api.example.com/v1/messages"
      - allow: "GET,POST https://api.test/**"
        credential: bench
        websocket: true
      - allow: "GET,POST https://h2.test/**"
        credential: bench
listen:
{listen}""")  # fmt: skip
        self.env["BENCH_KEY"] = SECRET
        self.ca = self.at("ca.pem")
        self.load = ["--unix", self.at(f"d/{self.listeners - 1}/s"), "--to", "api.test:443"]
        return [os.path.join(BUILD, "keyhole"), "proxy", "-c", self.at("keyhole.yaml")]


class KeyholeTwoThreads(Keyhole):
    name = "keyhole, 2 threads"
    threads = 2


class KeyholeThousandListeners(Keyhole):
    name = "keyhole, 1,000 listeners"
    listeners = 1000


class Haproxy(Peer):
    name = "haproxy"

    def configure(self):
        binary = find("haproxy")
        self.load = ["--direct-unix", self.at("s"), "--to", "api.test:443"]
        return [binary, "-db", "-f", self.write("haproxy.cfg", f"""global
    nbthread 1
    log stdout format raw local0
    ssl-default-bind-options ssl-min-ver TLSv1.3
    ssl-default-server-options ssl-min-ver TLSv1.3
defaults
    mode http
    log global
    option httplog
    timeout connect 10s
    timeout client 5m
    timeout server 5m
    timeout http-request 30s
frontend down
    bind unix@{self.at("s")} ssl crt {self.bench.certificates.leaf_both} alpn http/1.1
    http-request set-header x-api-key {SECRET}
    default_backend up
backend up
    http-reuse always
    server origin 127.0.0.1:{self.bench.port} ssl verify required ca-file {self.bench.origin_ca} verifyhost api.test sni str(api.test) pool-max-conn -1
""")]  # fmt: skip


class Nginx(Peer):
    name = "nginx"

    def configure(self):
        binary = find("nginx")
        certificates = self.bench.certificates
        self.load = ["--direct-unix", self.at("s"), "--to", "api.test:443"]
        if os.path.exists(self.at("s")):
            os.unlink(self.at("s"))
        temp = "".join(f"    {kind}_temp_path {self.at(kind)};\n"
                       for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))  # fmt: skip
        user = "user root;\n" if os.getuid() == 0 else ""
        return [binary, "-e", self.at("error.log"), "-p", self.folder, "-c", self.write("nginx.conf", f"""{user}daemon off;
worker_processes 1;
worker_rlimit_nofile 32768;
pid {self.at("pid")};
events {{ worker_connections 16384; }}
http {{
{temp}    access_log {self.at("access.log")} combined;
    keepalive_requests 100000000;
    keepalive_timeout 5m;
    client_max_body_size 0;
    upstream origin {{
        server 127.0.0.1:{self.bench.port};
        keepalive 512;
        keepalive_requests 100000000;
    }}
    server {{
        listen unix:{self.at("s")} ssl;
        ssl_certificate {certificates.leaf};
        ssl_certificate_key {certificates.leaf_key};
        ssl_protocols TLSv1.3;
        proxy_http_version 1.1;
        proxy_ssl_protocols TLSv1.3;
        proxy_ssl_verify on;
        proxy_ssl_trusted_certificate {self.bench.origin_ca};
        proxy_ssl_server_name on;
        proxy_ssl_name api.test;
        proxy_set_header Connection "";
        proxy_set_header Host api.test;
        proxy_set_header x-api-key {SECRET};
        proxy_max_temp_file_size 0;
        location / {{ proxy_pass https://origin; }}
        location /sse {{ proxy_pass https://origin; proxy_buffering off; }}
        location /sink {{ proxy_pass https://origin; proxy_request_buffering off; }}
    }}
}}
""")]  # fmt: skip


class Nghttpx(Peer):
    """HTTP/2 on both sides."""

    name = "nghttpx"
    works = ("h2", "h2bulk", "grpc")
    probe = ("--h2", "1", "--to", "h2.test:443")

    def configure(self):
        binary = find("nghttpx")
        certificates = self.bench.certificates
        self.load = ["--direct-unix", self.at("s"), "--to", "h2.test:443"]
        if os.path.exists(self.at("s")):
            os.unlink(self.at("s"))
        return [binary, "--conf=/dev/null", "--workers=1", f"--frontend=unix:{self.at('s')}",
                f"--backend=127.0.0.1,{self.bench.port};;proto=h2;tls;sni=h2.test", f"--cacert={self.bench.origin_ca}",
                f"--add-request-header=x-api-key: {SECRET}", f"--accesslog-file={self.at('access.log')}",
                f"--errorlog-file={self.at('error.log')}", "--no-ocsp", "--tls-min-proto-version=TLSv1.3",
                "--tls-max-proto-version=TLSv1.3", "--frontend-http2-max-concurrent-streams=256",
                "--backend-http2-window-size=524288",
                certificates.leaf_key, certificates.leaf]  # fmt: skip


class Squid(Peer):
    name = "squid"

    def configure(self):
        binary = find("squid")
        maker = next((path for path in ("/usr/lib/squid/security_file_certgen", "/usr/lib64/squid/security_file_certgen")
                      if os.path.exists(path)), None)  # fmt: skip
        if not maker:
            raise Absent("this squid has no ssl-bump (the package is squid-openssl)")
        port = free_port()
        self.load = ["--tcp", f"127.0.0.1:{port}", "--to", f"localhost:{self.bench.port}"]
        self.ca = self.bench.certificates.ca
        if not os.path.exists(self.at("certs")):
            subprocess.run([maker, "-c", "-s", self.at("certs"), "-M", "4MB"], check=True, capture_output=True, timeout=30)
        as_root = os.getuid() == 0
        if as_root:
            owner = pwd.getpwnam("proxy")
            for path, folders, files in os.walk(self.folder):
                for one in [path, *(os.path.join(path, name) for name in folders + files)]:
                    os.chown(one, owner.pw_uid, owner.pw_gid)
        return [binary, "-N", "-f", self.write("squid.conf", f"""http_port 127.0.0.1:{port} ssl-bump tls-cert={self.bench.certificates.both} generate-host-certificates=on dynamic_cert_mem_cache_size=4MB
sslcrtd_program {maker} -s {self.at("certs")} -M 4MB
sslcrtd_children 1
tls_outgoing_options cafile={self.bench.origin_ca} min-version=1.3
ssl_bump bump all
http_access allow all
request_header_add x-api-key {SECRET} all
access_log stdio:{self.at("access.log")}
cache_log {self.at("cache.log")}
cache_store_log none
cache deny all
pid_filename none
coredump_dir {self.folder}
pinger_enable off
netdb_filename none
shutdown_lifetime 0 seconds
max_filedescriptors 32768
visible_hostname bench
{"cache_effective_user proxy" if as_root else ""}
""")]  # fmt: skip


class Mitmproxy(Peer):
    name = "mitmproxy"
    most_idle, warm_up = 1000, 3

    def configure(self):
        binary = find("mitmdump")
        port = free_port()
        self.load = ["--tcp", f"127.0.0.1:{port}", "--to", f"localhost:{self.bench.port}"]
        self.ca = self.at("mitmproxy-ca-cert.pem")
        addon = self.write("addon.py", f"""
log = open({self.at("access.log")!r}, "a", buffering=1)

def requestheaders(flow):
    flow.request.headers["x-api-key"] = {SECRET!r}
    if flow.request.path.startswith("/sink"):
        flow.request.stream = True

def responseheaders(flow):
    log.write(f"{{flow.request.method}} {{flow.request.path}} {{flow.response.status_code}}\\n")
    if flow.request.path.startswith(("/sse", "/bytes")):
        flow.response.stream = True
""")  # fmt: skip
        return [binary, "-q", "--listen-host", "127.0.0.1", "--listen-port", str(port), "-s", addon,
                "--set", f"confdir={self.folder}", "--set", "http2=false", "--set", "connection_strategy=lazy",
                "--set", f"ssl_verify_upstream_trusted_ca={self.bench.origin_ca}",
                "--set", "tls_version_client_min=TLS1_3", "--set", "tls_version_server_min=TLS1_3"]  # fmt: skip

    def answers(self):
        return os.path.exists(self.ca) and super().answers()


class SandboxRuntime(Peer):
    """Its own HTTP proxy with TLS termination, without the sandbox around it."""

    name = "sandbox-runtime"
    most_idle, warm_up = 1000, 3

    def configure(self):
        node = find("node")
        package = self.bench.sandbox_runtime()
        port = free_port()
        self.load = ["--tcp", f"127.0.0.1:{port}", "--to", f"localhost:{self.bench.port}"]
        self.ca = self.at("ca.pem")
        script = self.write("proxy.mjs", f"""
import {{ appendFile, copyFileSync, readFileSync }} from 'node:fs';
import {{ createHttpProxyServer }} from '{package}/dist/sandbox/http-proxy.js';
import {{ createMitmCA }} from '{package}/dist/sandbox/mitm-ca.js';
const mitmCA = createMitmCA({{}});
copyFileSync(mitmCA.certPath, '{self.ca}');
const server = createHttpProxyServer({{
    filter: (port, host) => {{
        appendFile('{self.at("access.log")}', host + ':' + port + '\\n', () => {{}});
        return host === 'localhost';
    }},
    mitmCA,
    mutateHeaders: headers => {{ headers['x-api-key'] = '{SECRET}'; }},
    tlsTerminateUpstreamCA: readFileSync('{self.bench.origin_ca}'),
}});
server.listen({port}, '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
""")  # fmt: skip
        self.env["TMPDIR"] = self.folder
        return [node, script]

    def answers(self):
        return os.path.exists(self.ca) and super().answers()


PEERS = (Haproxy, Nginx, Nghttpx, Squid, Mitmproxy, SandboxRuntime)
