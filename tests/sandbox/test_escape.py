"""Ways out of a sandbox, each tried from inside by a program that means it."""

import errno
import ipaddress
import json
import os
import platform
import re
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from conftest import PYTHON, SANDBOX_HOST_UID, USER, Peer, below, landlock_abi

X86 = platform.machine() == "x86_64"
# In engines that hand no descriptors on: where keyhole-init met the launcher. It is shut
# (test_the_launchers_socket_leads_nowhere).
LAUNCHER = {"docker": ["/run/keyhole-launcher"]}


# --- the network ----------------------------------------------------------------------------------


def test_there_is_no_interface_but_lo(sandbox):
    seen = sandbox.python(
        "import socket\n"
        "names = [l.split(':')[0].strip() for l in open('/proc/net/dev') if ':' in l]\n"
        "say([[n for _, n in socket.if_nameindex()], names])"
    )
    assert seen == [["lo"], ["lo"]]


def host_addresses():
    """Of this host's own interfaces, so that the attempt would succeed without the isolation."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return [probe.getsockname()[0]]
        except OSError:
            return []


def test_nothing_is_reached_by_tcp_or_udp(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        targets = [["127.0.0.1", server.getsockname()[1]], ["1.1.1.1", 444], ["192.0.2.1", 22]]
        targets += [[address, 22] for address in host_addresses()]
        seen = sandbox.python(
            """
            import socket
            out = []
            for host, port in json.loads(sys.argv[1]):
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    s = socket.socket(socket.AF_INET, kind)
                    s.settimeout(5)
                    try:
                        s.connect((host, port))
                        s.send(b'x')
                        if kind == socket.SOCK_DGRAM:
                            s.recv(1)
                        out.append([host, port, 'reached'])
                    except OSError as e:
                        out.append([host, port, e.errno or 'timeout'])
            for host in ('2606:4700:4700::1111', 'fe80::1%lo', 'ff02::1%lo'):
                s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
                try:
                    s.settimeout(5)
                    s.connect((host, 8443))
                    out.append([host, 8443, 'reached'])
                except OSError as e:
                    out.append([host, 8443, e.errno])
            say(out)
            """,
            json.dumps(targets),
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    good = {errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL,
            errno.EINVAL}  # fmt: skip
    assert all(why in good for _, _, why in seen), seen


def test_a_captured_connection_reaches_the_socket_and_nothing_else(sandbox):
    """Ports 80 and 443 of any address are answered; by the proxy's socket, which sees where to."""
    heads = []

    def serve(connection):
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        heads.append(head.decode())

    sandbox.peer(serve)
    targets = [["1.1.1.1", 443], ["192.0.2.1", 80], ["2606:4700:4700::1111", 443], ["fe80::1", 80]]
    targets += [[address, 443] for address in host_addresses()]
    seen = sandbox.python(
        """
        import socket
        out = []
        for host, port in json.loads(sys.argv[1]):
            try:
                s = socket.create_connection((host, port), timeout=10)
                out.append(s.recv(1).decode() or 'end')
            except OSError as e:
                out.append(e.errno)
        say(out)
        """,
        json.dumps(targets),
    )
    # Nothing of IPv6 is local in gVisor's kernel but ::1: there is no way there, which is told at once.
    nowhere = {a for a, _ in targets if a == "fe80::1" or (sandbox.engine == "gvisor" and ":" in a)}
    for (address, _), why in zip(targets, seen, strict=True):
        lost = {errno.EINVAL, errno.ENETUNREACH, errno.EHOSTUNREACH}
        assert why in lost if address in nowhere else why == errno.ECONNRESET, (targets, seen)
    assert heads == [
        f"CONNECT {h} HTTP/1.1\r\nHost: {h}\r\n\r\n"
        for h in (f"[{a}]:{p}" if ":" in a else f"{a}:{p}" for a, p in targets if a not in nowhere)
    ]


def test_no_name_is_resolved_and_every_one_has_an_address(sandbox):
    """Whether a name exists can't be told, so nothing can be said to a resolver by asking for names."""
    seen = sandbox.python(
        """
        import socket, time
        start = time.monotonic()
        found = {socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)[0][4][0]
                 for name in ('example.com', 'secret.in.a.name.invalid', 'localhost.example')}
        say([sorted(found), time.monotonic() - start])
        """
    )
    assert len(seen[0]) == 3 and seen[1] < 5, seen
    assert all(ipaddress.ip_address(a) in ipaddress.ip_network("127.64.0.0/10") for a in seen[0]), seen


def test_families_that_leave_the_namespace_do_not_exist(sandbox):
    if not X86:
        pytest.skip("the numbers of x86-64")
    seen = sandbox.python(
        """
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        out = {}
        for call, n in (('socket', 41), ('socketpair', 53)):
            for family in range(64):
                pair = (ctypes.c_int * 2)()
                fd = libc.syscall(n, family, 1, 0, pair) if n == 53 else libc.syscall(n, family, 1, 0)
                out[f'{call} {family}'] = 0 if fd >= 0 else ctypes.get_errno()
        say(out)
        """
    )
    for family in range(64):
        allowed = family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
        if not allowed:
            assert seen[f"socket {family}"] == errno.EAFNOSUPPORT, (family, seen)
            assert seen[f"socketpair {family}"] == errno.EAFNOSUPPORT, (family, seen)
    assert seen[f"socket {socket.AF_UNIX}"] == 0
    assert seen[f"socket {socket.AF_INET}"] == 0


def test_a_family_hidden_in_the_upper_half_of_a_register_is_refused(sandbox):
    if not X86:
        pytest.skip("the numbers of x86-64")
    seen = sandbox.python(
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        out = []
        for family in (40, 17, 38):
            fd = libc.syscall(ctypes.c_long(41), ctypes.c_ulong((7 << 32) | family),
                              ctypes.c_ulong(1), ctypes.c_ulong(0))
            out.append(0 if fd >= 0 else ctypes.get_errno())
        fd = libc.syscall(ctypes.c_long(41), ctypes.c_ulong(16), ctypes.c_ulong(3),
                          ctypes.c_ulong((7 << 32) | 15))
        out.append(0 if fd >= 0 else ctypes.get_errno())
        say(out)
        """
    )
    assert seen == [errno.EAFNOSUPPORT] * 4


def test_of_netlink_only_routes_are_left(sandbox):
    seen = sandbox.python(
        """
        import socket
        out = {}
        for protocol in range(24):
            try:
                socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
                out[protocol] = 0
            except OSError as e:
                out[protocol] = e.errno
        say(out)
        """
    )
    assert seen.pop("0") == 0
    assert set(seen.values()) == {errno.EAFNOSUPPORT}


# --- sockets of the host --------------------------------------------------------------------------


def test_abstract_sockets_of_the_host_are_not_reached(sandbox):
    name = f"\0keyhole-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        seen = sandbox.python(
            """
            import socket
            s = socket.socket(socket.AF_UNIX)
            try:
                s.connect(chr(0) + sys.argv[1])
                say('reached')
            except OSError as e:
                say(e.errno)
            """,
            name[1:],
        )
    assert seen == errno.ECONNREFUSED


def test_path_sockets_of_the_host_are_not_there(sandbox, workspace):
    outside = Peer(os.path.join(sandbox.place, "outside"), lambda c: c.sendall(b"host"))
    in_work = os.path.join(workspace, "daemon.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(in_work)
        os.chmod(in_work, 0o777)
        server.listen()
        seen = sandbox.python(
            """
            import socket, os
            out = []
            for path in sys.argv[1:]:
                s = socket.socket(socket.AF_UNIX)
                try:
                    s.connect(path)
                    out.append('reached')
                except OSError as e:
                    out.append(e.errno)
            sockets = []
            for top, folders, files in os.walk('/'):
                folders[:] = [f for f in folders if os.path.join(top, f) not in ('/proc', '/usr')]
                import stat
                for f in files:
                    try:
                        if stat.S_ISSOCK(os.lstat(os.path.join(top, f)).st_mode):
                            sockets.append(os.path.join(top, f))
                    except OSError:
                        pass
            say([out, sockets])
            """,
            outside.path, in_work, "/run/systemd/journal/stdout", "/var/run/docker.sock",
            workspace=workspace,
        )  # fmt: skip
    outside.close()
    assert "reached" not in seen[0], seen
    assert seen[1] == [*LAUNCHER.get(sandbox.engine, []), "/run/keyhole/s"], "a socket besides the one"


def test_the_launchers_socket_leads_nowhere(sandbox):
    """Nor has the command a descriptor of what keyhole-init was given there."""
    seen = sandbox.python(
        """
        import os, socket
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            s.connect('/run/keyhole-launcher')
            say('connected')
        except OSError as e:
            say([e.errno, sorted(os.listdir('/proc/self/fd'))])
        """
    )
    why = errno.ECONNREFUSED if sandbox.engine in LAUNCHER else errno.ENOENT
    assert seen == [why, ["0", "1", "2", "3", "4"]]  # its own socket, and the folder


@pytest.mark.identity("root")
def test_what_is_roots_stays_roots(sandbox):
    """Root starts it, and inside it is uid 1000: on the host it must be a stranger."""
    tools = sandbox.folder("tools")
    sandbox.file(os.path.join(tools, "shadow"), "root:secret", 0o600)
    sandbox.file(os.path.join(tools, "group-shadow"), "root:secret", 0o640)
    path = os.path.join(tools, "root.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        os.chmod(path, 0o600)
        server.listen()
        seen = sandbox.python(
            """
            import os, socket
            out = []
            for name in ('shadow', 'group-shadow'):
                try:
                    open(os.path.join(sys.argv[1], name)).read()
                    out.append('read')
                except OSError as e:
                    out.append(e.errno)
            s = socket.socket(socket.AF_UNIX)
            try:
                s.connect(os.path.join(sys.argv[1], 'root.sock'))
                out.append('reached')
            except OSError as e:
                out.append(e.errno)
            say(out)
            """,
            tools,
            ro=tools,
        )
    # The socket is not even there: an empty file lies over it.
    assert seen[:2] == [errno.EACCES] * 2 and seen[2] in (errno.EACCES, errno.ECONNREFUSED), seen


def owners_of(pid, command):
    """Uids and gids of a process of the host, if it is that one (None: any)."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if command is not None and file.read() != command:
                return set()
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            text = status.read()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    if os.geteuid() == 0:
        groups = re.search(r"Groups:[ \t]*(.*)", text)[1].split()
        assert groups in ([], [str(USER)], [str(SANDBOX_HOST_UID)])
    return {tuple(re.search(name + r":\s(.*)", text)[1].split()) for name in ("Uid", "Gid")}


def stand_for(launcher):
    """What is below it but those who relay a standard descriptor: they are the launcher's, and hold just three."""
    return [pid for pid in below(launcher) if len(os.listdir(f"/proc/{pid}/fd")) != 3 or os.getsid(pid) != pid]


def test_uid_inside_and_on_the_host_are_ordinary(sandbox, workspace):
    ready = os.path.join(workspace, "ready")
    process = sandbox.start("sh", "-c", "id -u; id -g; id -G; touch ready; exec sleep 300.25",
                            workspace=workspace)  # fmt: skip
    try:
        while not os.path.exists(ready):
            assert process.poll() is None, process.stderr.read()
        owners = set()
        end = time.monotonic() + 30
        # In gVisor the command is no process of the host's: all are looked at that stand for it.
        gvisor = sandbox.engine == "gvisor"
        while not owners and time.monotonic() < end:
            for pid in stand_for(process.pid) if gvisor else filter(str.isdigit, os.listdir("/proc")):
                owners |= owners_of(pid, None if gvisor else b"sleep\x00300.25\x00")
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert out.split() == [b"1000"] * 3
    if sandbox.identity == "root":
        assert owners == {(str(SANDBOX_HOST_UID),) * 4}
    else:
        expected = USER if os.geteuid() == 0 else os.geteuid()
        assert (str(expected),) * 4 in owners


# --- files of the host ----------------------------------------------------------------------------


def test_the_hosts_secrets_are_not_there(sandbox):
    marker = "keyhole-marker-" + os.urandom(8).hex()
    home = os.path.expanduser("~")
    spots = ["/etc/shadow", "/etc/sudoers", "/etc/ssl/private", "/etc/ssh", home + "/.ssh",
             home + "/.config", "/root/.bashrc", "/var/log", "/var/lib", "/boot", "/sys/kernel",
             "/etc/machine-id.host", "/run/systemd", "/etc/npmrc", "/etc/pip.conf"]  # fmt: skip
    secret = sandbox.file(os.path.join(sandbox.place, "secret"), marker, 0o644)
    seen = sandbox.python(
        """
        import os
        marker = sys.argv[1]
        found = []
        for top, folders, files in os.walk('/'):
            folders[:] = [f for f in folders if os.path.join(top, f) not in ('/proc', '/usr')]
            for f in files:
                try:
                    if not os.path.isfile(os.path.join(top, f)):
                        continue
                    with open(os.path.join(top, f), 'rb') as file:
                        if marker.encode() in file.read(1 << 20):
                            found.append(os.path.join(top, f))
                except OSError:
                    pass
        say([found, [p for p in sys.argv[2:] if os.path.exists(p)]])
        """,
        marker, secret, *spots,
    )  # fmt: skip
    assert seen == [[], []]


def test_only_these_places_can_be_written(sandbox, workspace):
    seen = sandbox.python(
        """
        import os
        out = []
        gvisor, workspace = sys.argv[1] == 'gvisor', sys.argv[2]
        def can_be_written(path):
            if not gvisor:
                return os.access(path, os.W_OK)
            # Its kernel's access() knows nothing of what is mounted read-only on the host.
            try:
                if os.path.isdir(path):
                    os.close(os.open(path + '/made', os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                    os.unlink(path + '/made')
                else:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                return True
            except OSError:
                return False
        for top, folders, files in os.walk('/'):
            if top == '/proc':
                folders[:] = []
                continue
            # It is slow at files: two folders deep, and to the workspace.
            if gvisor and top.count('/') > 1:
                folders[:] = [f for f in folders if (workspace + '/').startswith(os.path.join(top, f) + '/')]
                files = [] if top.startswith('/usr/') else files
            # One read-only mount, and the walk through it is most of the time.
            if sys.argv[1] == 'docker' and top == '/usr':
                folders[:] = []
            for path in [top] + [os.path.join(top, f) for f in files]:
                if not os.path.islink(path) and can_be_written(path):
                    out.append(path)
        say(sorted(out))
        """,
        sandbox.engine, workspace,
        workspace=workspace,
    )  # fmt: skip
    terminals = [p for p in seen if p.startswith("/dev/pts/")]
    devices = ["/dev/" + n for n in ("full", "null", "random", "tty", "urandom", "zero")]
    sockets = [*LAUNCHER.get(sandbox.engine, []), "/run/keyhole/s"]
    if sandbox.engine == "gvisor":  # where opening is tried, a socket can't be, nor a terminal that there isn't
        devices.remove("/dev/tty")
        sockets = []
    # The workspace lies below /tmp here, so the folders above it are in the sandbox's own /tmp, and
    # nothing can be made in a devpts.
    seen = [p for p in seen if not (p.startswith("/tmp/") and workspace.startswith(p + "/"))]
    seen = [p for p in seen if p != "/dev/pts"]
    assert sorted(set(seen) - set(terminals)) == sorted(
        [*devices, *sockets, "/dev/shm", "/home/agent", "/tmp", workspace]
    )
    assert terminals in ([], ["/dev/pts/ptmx"])


def test_devices_are_the_harmless_ones(sandbox):
    seen = sandbox.python(
        """
        import os, stat
        out = []
        for top, folders, files in os.walk('/'):
            folders[:] = [f for f in folders if os.path.join(top, f) not in ('/proc', '/usr')]
            for f in files:
                st = os.lstat(os.path.join(top, f))
                if stat.S_ISBLK(st.st_mode) or stat.S_ISCHR(st.st_mode):
                    out.append(os.path.join(top, f))
        say(sorted(out))
        """
    )
    assert seen == ["/dev/full", "/dev/null", "/dev/pts/ptmx", "/dev/random", "/dev/tty",
                    "/dev/urandom", "/dev/zero"]  # fmt: skip


def test_no_file_with_set_user_id_can_be_left_on_the_host(sandbox, workspace):
    """In a workspace of root's it would be a set-user-ID file of root's."""
    seen = sandbox.python(
        """
        import os, ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        out = {}
        def attempt(name, f):
            try:
                f()
                out[name] = 'done'
            except OSError as e:
                out[name] = e.errno
        def raw(number, *args):
            if libc.syscall(number, *args) < 0:
                raise OSError(ctypes.get_errno(), 'x')
        open('a', 'w').close()
        fd = os.open('a', os.O_RDWR)
        attempt('chmod', lambda: os.chmod('a', 0o4755))
        attempt('chmod g', lambda: os.chmod('a', 0o2755))
        attempt('fchmod', lambda: os.fchmod(fd, 0o6755))
        attempt('open', lambda: os.open('b', os.O_CREAT | os.O_WRONLY, 0o4755))
        attempt('tmpfile', lambda: os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755))
        attempt('mknod', lambda: os.mknod('c', 0o104755))
        if sys.argv[1] == 'yes':
            attempt('creat', lambda: raw(85, b'd', 0o4755))
            attempt('fchmodat', lambda: raw(268, -100, b'a', 0o4755))
            attempt('fchmodat2', lambda: raw(452, -100, b'a', 0o4755, 0))
            how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
            attempt('openat2', lambda: raw(437, -100, b'e', how, 24))
        os.chmod('a', 0o755)
        say(out)
        """,
        "yes" if X86 else "no",
        workspace=workspace,
    )
    if X86:
        assert seen.pop("openat2") == errno.ENOSYS
        # The kernel may be older than this call.
        assert seen.pop("fchmodat2") in (errno.EPERM, errno.ENOSYS)
    assert set(seen.values()) == {errno.EPERM}, seen
    for top, _, files in os.walk(workspace):
        for name in files:
            assert os.lstat(os.path.join(top, name)).st_mode & 0o6000 == 0


# --- processes ------------------------------------------------------------------------------------


def test_proc_shows_the_sandbox_and_nothing_else(sandbox):
    seen = sandbox.python(
        """
        import os
        pids = [p for p in os.listdir('/proc') if p.isdigit()]
        out = {'pids': len(pids), 'one': open('/proc/1/cmdline').read().split(chr(0))[0]}
        for path in ('/proc/1/environ', '/proc/1/mem', '/proc/1/maps', '/proc/kcore', '/proc/1/root/x'):
            try:
                out[path] = 'read' if open(path, 'rb').read(1 << 20).strip(b'\\0') else 'no'
            except OSError as e:
                out[path] = 'no'
        for path in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger',
                     '/proc/sys/vm/drop_caches', '/proc/1/oom_score_adj'):
            try:
                open(path, 'w').close()
                out[path] = 'written'
            except OSError as e:
                out[path] = 'no'
        out['fd'] = []
        try:
            for fd in os.listdir('/proc/1/fd'):
                try:
                    out['fd'].append(os.fstat(os.open('/proc/1/fd/' + fd, os.O_RDONLY | os.O_NONBLOCK)).st_rdev)
                except OSError:
                    pass
        except OSError:
            out['fd'] = 'no'
        say(out)
        """
    )
    if sandbox.engine == "gvisor":
        # Its kernel shows of PID 1 where its memory lies and which descriptors it has; but of these none leads
        # anywhere. How likely it is to be ended for want of memory is a number that nobody reads there.
        assert seen.pop("/proc/1/maps") == "read" and seen.pop("/proc/1/oom_score_adj") == "written"
        assert set(seen.pop("fd")) <= {os.stat("/dev/null").st_rdev}
    assert seen.pop("pids") <= 3
    assert seen.pop("one") == "/run/keyhole-init"
    assert set(seen.values()) == {"no"}, seen


def test_nothing_can_be_traced_but_ones_own(sandbox):
    seen = sandbox.python(
        """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        out = []
        for pid, signals in ((1, (19, 9)), (int(sys.argv[1]), (9,))):
            r = libc.ptrace(16, pid, 0, 0)
            out.append(0 if r == 0 else ctypes.get_errno())
            for signo in signals:
                try:
                    os.kill(pid, signo)
                    out.append('sent')
                except OSError as e:
                    out.append(e.errno)
        say(out)
        """,
        os.getpid(),
    )
    # PID 1 takes no SIGSTOP and no SIGKILL from inside (and with Landlock, and in gVisor, it isn't even
    # sent), and a pid of the host is nobody.
    to_init = errno.EPERM if landlock_abi() >= 6 or sandbox.engine == "gvisor" else "sent"
    assert seen == [errno.EPERM, to_init, to_init, errno.ESRCH, errno.ESRCH]


def test_no_privilege_is_left_and_none_can_be_had(sandbox):
    seen = sandbox.python(
        """
        import os, ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        status = dict(l.split(':', 1) for l in open('/proc/self/status'))
        out = {k: status[k].strip() for k in
               ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'Seccomp') if k in status}
        out['NoNewPrivs'] = str(libc.prctl(39, 0, 0, 0, 0))
        def call(name, r):
            out[name] = 0 if r >= 0 else ctypes.get_errno()
        call('unshare user', libc.unshare(0x10000000))
        call('unshare net', libc.unshare(0x40000000))
        call('mount', libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))
        call('chroot', libc.chroot(b'/tmp'))
        call('setuid', libc.setuid(0))
        call('sethostname', libc.sethostname(b'x', 1))
        say(out)
        """
    )
    sets = ["CapInh", "CapPrm", "CapEff", "CapBnd"]
    if sandbox.engine != "gvisor":  # its kernel has no ambient capabilities to show
        sets.append("CapAmb")
    for name in sets:
        assert int(seen.pop(name), 16) == 0
    assert seen.pop("NoNewPrivs") == "1" and seen.pop("Seccomp") == "2"
    assert 0 not in seen.values(), seen


def test_calls_that_go_around_the_filter_are_shut(sandbox):
    if not X86:
        pytest.skip("the numbers of x86-64")
    calls = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "bpf": 321,
             "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250, "add_key": 248,
             "request_key": 249, "kexec_load": 246, "init_module": 175, "open_tree": 428,
             "setns": 308, "open_by_handle_at": 304, "clone3": 435}  # fmt: skip
    seen = sandbox.python(
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = (ctypes.c_char * 256)()
        out = {}
        for name, number in json.loads(sys.argv[1]).items():
            r = libc.syscall(number, 0, buffer, 0, 0, 0)
            out[name] = 0 if r >= 0 else ctypes.get_errno()
        # clone with a user namespace, flags in the first argument
        out['clone'] = 0 if libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0) >= 0 else ctypes.get_errno()
        say(out)
        """,
        json.dumps(calls),
    )
    absent = {"io_uring_setup", "io_uring_enter", "io_uring_register", "clone3"}
    for name, why in seen.items():
        assert why == (errno.ENOSYS if name in absent else errno.EPERM), (name, seen)


@pytest.mark.skipif(not X86, reason="x86-64 only")
@pytest.mark.parametrize("how", ["int 0x80", "x32"])
def test_a_second_architecture_is_the_end_of_the_process(sandbox, how):
    if how == "x32":
        code = "import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 + 39)); say('here')"
    else:
        # mov eax, 41; mov edi, 40; mov esi, 1; xor edx, edx; int 0x80; ret: dup of i386
        code = (
            "import ctypes, mmap\n"
            "m = mmap.mmap(-1, 4096, prot=7)\n"
            "m.write(bytes.fromhex('b829000000bf28000000be0100000031d2cd80c3'))\n"
            "f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
            "say(f())"
        )
        if sandbox.engine == "gvisor":
            # Its kernel has one table of calls, which that number is looked up in, and one filter: socket(AF_VSOCK).
            assert sandbox.python(code) == -errno.EAFNOSUPPORT
            return
    assert sandbox.python(code, check=128 + signal.SIGSYS) is None


# --- what is handed in ----------------------------------------------------------------------------


def test_no_descriptor_of_the_caller_is_inherited(sandbox):
    with tempfile.TemporaryFile() as secret:
        read, write = os.pipe()
        listing = sandbox.run(
            PYTHON, "-I", "-c",
            "import os\nfor fd in range(1024):\n"
            "    try: print(fd, os.fstat(fd).st_mode & 0o170000)\n"
            "    except OSError: pass",
            pass_fds=(secret.fileno(), read, write), check=0,
        ).stdout  # fmt: skip
        os.close(read)
        os.close(write)
    assert [int(line.split()[0]) for line in listing.splitlines()] == [0, 1, 2]


PROXY = "http://127.0.0.1:3128"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
JAVA = (
    "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 "
    "-Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1] "
    "-Djavax.net.ssl.trustStore=/etc/keyhole/ca.p12 -Djavax.net.ssl.trustStoreType=PKCS12 "
    "-Djavax.net.ssl.trustStorePassword=changeit"
)
ENVIRONMENT = {
    "HOME": "/home/agent", "USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/sh",
    "PATH": "/home/agent/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8", "TMPDIR": "/tmp", "TERM": "dumb", "PWD": "/home/agent",
    "HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "ALL_PROXY": PROXY,
    "http_proxy": PROXY, "https_proxy": PROXY, "all_proxy": PROXY,
    "NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1",
    "NODE_USE_ENV_PROXY": "1", "NODE_EXTRA_CA_CERTS": "/etc/keyhole/ca.pem",
    "DENO_CERT": "/etc/keyhole/ca.pem", "JAVA_TOOL_OPTIONS": JAVA,
    **dict.fromkeys(
        ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO",
         "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "CODEX_CA_CERTIFICATE", "npm_config_cafile",
         "NIX_SSL_CERT_FILE"], BUNDLE),
}  # fmt: skip


def variables(output):
    return dict(entry.split("=", 1) for entry in output.decode().split("\0") if entry)


def test_the_environment_is_this_and_no_more(sandbox):
    env = sandbox.environment(SECRET_TOKEN="x", LD_PRELOAD="", EDITOR="vi", LANG="de_DE.UTF-8")
    seen = variables(sandbox.run("env", "-0", env=env, check=0).stdout)
    assert seen == ENVIRONMENT


def test_a_variable_that_was_asked_for_can_not_move_the_proxy(sandbox):
    command = sandbox.command("env", "-0", placeholder="SOME_API_KEY=placeholder")
    at = command.index("--")
    extra = []
    for pair in ("HTTPS_PROXY=http://evil.example", "SSL_CERT_FILE=/tmp/x", "GREETING=hello world",
                 "JAVA_TOOL_OPTIONS=-Xmx1g", "SOME_API_KEY=mine", "HOME=/tmp"):  # fmt: skip
        extra += ["--env", pair]
    done = subprocess.run(
        command[:at] + extra + command[at:], capture_output=True, timeout=60, check=True,
        env=sandbox.environment(),
    )  # fmt: skip
    seen = variables(done.stdout)
    assert seen == {**ENVIRONMENT, "GREETING": "hello world", "HOME": "/tmp",
                    "SOME_API_KEY": "placeholder",
                    "JAVA_TOOL_OPTIONS": "-Xmx1g " + JAVA}  # fmt: skip


def test_what_the_process_list_of_the_host_shows_is_only_the_command(sandbox):
    process = sandbox.start("sh", "-c", "echo up; exec sleep 300.5", placeholder="SOME_API_KEY=placeholder-value")
    try:
        assert process.stdout.readline() == b"up\n"
        shown = b""
        # In gVisor the command is no process of the host's.
        while b"sleep\x00300.5" not in shown and not (shown and sandbox.engine == "gvisor"):
            assert process.poll() is None
            shown = b""
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        line = file.read()
                    if b"launch_only" not in line:
                        shown += line
                except OSError:
                    pass
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert b"placeholder-value" not in shown
    if sandbox.engine == "gvisor":
        assert b"runsc" in shown and b"300.5\0" not in shown


def test_the_host_is_not_recognised_by_its_names(sandbox):
    seen = sandbox.python(
        "import socket\nsay([socket.gethostname(), open('/etc/machine-id').read()])"
    )
    assert seen[0] == "sandbox"
    if os.path.exists("/etc/machine-id"):
        with open("/etc/machine-id", encoding="ascii") as file:
            assert seen[1] != file.read()


@pytest.mark.identity("user")
def test_the_socket_folder_can_not_be_changed_from_inside(sandbox):
    """As the owner of the folder on the host, which is the harder case."""
    seen = sandbox.python(
        """
        import os
        out = []
        for f in (lambda: os.unlink('/run/keyhole/s'),
                  lambda: os.rename('/run/keyhole/s', '/run/keyhole/t'),
                  lambda: open('/run/keyhole/new', 'w'),
                  lambda: os.chmod('/run/keyhole/s', 0o600),
                  lambda: open('/run/keyhole-init', 'a')):
            try:
                f()
                out.append('done')
            except OSError as e:
                out.append(e.errno)
        say(out)
        """
    )
    assert all(why in (errno.EROFS, errno.EACCES, errno.EPERM, errno.EBUSY) for why in seen), seen
    assert os.path.exists(os.path.join(sandbox.socket_dir, "s"))
