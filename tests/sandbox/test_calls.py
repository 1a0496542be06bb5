"""Which system calls a sandbox has: the table as a whole, and what a crash inside can start outside."""

import errno
import functools
import json
import os
import platform
import re
import resource
import shutil
import socket
import struct
import subprocess

import pytest
from conftest import PATIENCE, below

X86 = platform.machine() == "x86_64"
NUMBERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
SHIPPED = "/usr/share/containers/seccomp.json"
ARCH = 0xC000003E
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000


@functools.cache
def names():
    if not X86 or not os.path.exists(NUMBERS):
        pytest.skip("needs the numbers of x86-64 (linux-libc-dev)")
    with open(NUMBERS, encoding="ascii") as file:
        return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", file.read())}


class Filter:
    """A classic BPF program, asked as the kernel asks it."""

    def __init__(self, program):
        assert program and len(program) % 8 == 0
        self.lines = [struct.unpack("<HBBI", program[i : i + 8]) for i in range(0, len(program), 8)]

    def answer(self, number, *args):
        data = struct.pack("<iIQ6Q", number, ARCH, 0, *[a & (2**64 - 1) for a in (*args, *[0] * 6)][:6])
        at = accumulator = 0
        while True:
            code, true, false, k = self.lines[at]
            at += 1
            if code == 0x20:
                accumulator = struct.unpack_from("<I", data, k)[0]
            elif code == 0x54:
                accumulator &= k
            elif code == 0x06:
                return k
            elif code == 0x05:
                at += k
            else:
                met = {0x15: accumulator == k, 0x25: accumulator > k, 0x35: accumulator >= k, 0x45: accumulator & k}[code]
                at += true if met else false


@pytest.fixture
def filters(sandbox):
    """Both programs, in the order in which they are loaded."""
    return [Filter(sandbox.run("cat", f"/run/keyhole-{name}", check=0).stdout) for name in ("calls", "filter")]


@pytest.mark.before_the_engine
@pytest.mark.identity("root")
def test_a_call_that_is_not_in_the_table_does_not_exist(filters):
    """Whatever a later kernel has: the answer is ENOSYS, which libraries know how to go on from."""
    known, (table, refused) = names(), filters
    allowed = {number for number in range(2048) if table.answer(number) == ALLOW}
    for number in set(range(2048)) - allowed:
        assert table.answer(number) == ERRNO | errno.ENOSYS, number
    newer = {"fchmodat2": 452, "map_shadow_stack": 453, "mseal": 462}
    assert {n for n in allowed if n > max(known.values())} <= set(newer.values())
    assert len(allowed) < 300
    absent = ["process_madvise", "pidfd_getfd", "process_mrelease", "kcmp", "name_to_handle_at", "openat2", "clone3",
              "io_setup", "io_uring_setup", "io_uring_enter", "io_uring_register", "vmsplice", "modify_ldt", "mount", "setns",
              "bpf", "userfaultfd", "open_tree", "fsopen", "mount_setattr", "keyctl"]  # fmt: skip
    assert not {known[name] for name in absent if name in known} & allowed
    # Which one it is may be asked; no other may be taken, in neither half of the register.
    for high in (0, 7 << 32):
        for wanted in (0, 0xFFFFFFFF):
            assert table.answer(known["personality"], high | wanted) == ALLOW
        for wanted in (0x0040000, 0x0400000, 0x0100000, 0x8, 0x0020008):  # ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO, others
            assert table.answer(known["personality"], high | wanted) == ERRNO | errno.ENOSYS, hex(wanted)
    # statmount, listmount, open_tree_attr, and the attributes of files of 6.17
    assert not {457, 458, 467, 468, 469} & allowed
    assert all(refused.answer(known[name]) == ERRNO | errno.EPERM for name in ("mount", "bpf", "keyctl", "setns"))
    assert table.answer(0x40000000 + 1) == KILL and refused.answer(0x40000000 + 1) == KILL


@pytest.mark.before_the_engine
@pytest.mark.identity("root")
def test_the_table_has_no_more_than_the_distributions_container_tools_allow(filters):
    if not os.path.exists(SHIPPED):
        pytest.skip("needs the list of the container tools (golang-github-containers-common)")
    with open(SHIPPED, encoding="utf-8") as file:
        rules = json.load(file)["syscalls"]
    shipped = {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" and not rule.get("includes", {}).get("caps")
               for name in rule["names"]}  # fmt: skip
    allowed = {name for name, number in names().items() if filters[0].answer(number) == ALLOW}
    assert allowed - shipped <= {"fchmodat2", "map_shadow_stack", "mseal"}
    assert len(shipped & set(names())) - len(allowed) >= 20, "nothing was taken away"


@pytest.mark.before_the_engine
@pytest.mark.identity("root")
def test_an_argument_hidden_in_the_upper_half_of_a_register_is_seen(filters):
    """The kernel looks at 32 bits of these, so a filter that compared 64 would be passed by."""
    known, refused = names(), filters[1]
    high = 7 << 32
    for request in (0x5412, 0x541C, 0x5423, 0x540C, 0x541D, 0x4B3A, 0x5606):
        assert refused.answer(known["ioctl"], 0, request) == ERRNO | errno.EPERM, hex(request)
        assert refused.answer(known["ioctl"], 0, high | request) == ERRNO | errno.EPERM, hex(request)
    for request in (0x5401, 0x5402, 0x5413, 0x5414, 0x540F, 0x5410):  # TCGETS, TCSETS, window size, job control
        assert refused.answer(known["ioctl"], 0, request) == ALLOW, hex(request)
    assert refused.answer(known["setrlimit"], high | 4) == ERRNO
    assert refused.answer(known["setrlimit"], 7) == ALLOW
    assert refused.answer(known["prlimit64"], high | 1, 7, 1, 0) == ERRNO | errno.EPERM
    assert refused.answer(known["prlimit64"], 0, high | 4, 1, 0) == ERRNO
    assert refused.answer(known["prlimit64"], 0, high | 4, 1, 1) == ERRNO | errno.EPERM
    assert refused.answer(known["prlimit64"], 0, 4, 0, 1) == ALLOW


@pytest.mark.before_the_engine
@pytest.mark.identity("root")
def test_no_socket_loads_a_protocol_of_the_host(filters):
    """SCTP, DCCP and others are modules with a history, which the kernel loads for whoever asks."""
    call, refused = names()["socket"], filters[1]
    for family, known in ((socket.AF_INET, {0, 1, 6, 17}), (socket.AF_INET6, {0, 6, 17, 58})):
        for protocol in (*range(300), 0xFFFF, 1 << 31, 1 << 32, (1 << 32) + 6, (1 << 64) - 1):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
                wanted = ALLOW if protocol in known else ERRNO | errno.EPROTONOSUPPORT
                assert refused.answer(call, family, kind, protocol) == wanted, (family, kind, protocol)


# The requests of terminals that change nothing for others, by number (asm-generic/ioctls.h).
TERMINAL = {*range(0x01, 0x0A), 0x0B, *range(0x0E, 0x12), 0x13, 0x14, 0x1B, 0x20, 0x21, 0x22, 0x24, *range(0x29, 0x2E),
            0x30, 0x31, 0x32, 0x36, 0x38, 0x39, 0x40, 0x41, 0x50, 0x51, 0x52, 0x60}  # fmt: skip


@pytest.mark.before_the_engine
@pytest.mark.identity("root")
def test_of_the_requests_of_terminals_those_that_are_known_to_be_harmless_exist(filters):
    ioctl, refused = names()["ioctl"], filters[1]
    for number in range(0x100):
        for upper in (0, 0x80040000, 0x40040000, 0x802C0000, 7 << 32):
            wanted = ALLOW if number in TERMINAL else ERRNO | errno.EPERM
            assert refused.answer(ioctl, 0, upper | 0x5400 | number, 1) == wanted, hex(number)
    # tcdrain waits; a break does not.
    assert refused.answer(ioctl, 0, 0x5409, 0) == ERRNO | errno.EPERM


# What may be asked of a file: which flags it has, where it lies, and a copy without copying. No flag that makes names stand for others, and no encryption, whose folders the survey could not see.
OF_FILES = {"f": {1, 3, 11}, "X": {31}, "\x94": {9, 13, 54}}


@pytest.mark.before_the_engine
@pytest.mark.identity("root")
@pytest.mark.parametrize("group", OF_FILES)
def test_no_request_hides_a_folder_from_the_survey(filters, group):
    for number in range(0x100):
        for upper in (0, 0x800C0000, 0x40040000, 7 << 32):
            wanted = ALLOW if number in OF_FILES[group] else ERRNO | errno.EOPNOTSUPP
            assert filters[1].answer(names()["ioctl"], 0, upper | ord(group) << 8 | number, 1) == wanted, hex(number)


@pytest.mark.before_the_engine
@pytest.mark.identity("root")
def test_no_lease_and_no_whiteout_passes_the_filter_in_any_spelling(filters):
    known, refused = names(), filters[1]
    none = ERRNO | errno.EINVAL
    for high in (0, 7 << 32):
        assert refused.answer(known["fcntl"], 3, high | 1024) == none  # F_SETLEASE
        assert refused.answer(known["fcntl"], 3, high | 1026) == none  # F_NOTIFY
        assert refused.answer(known["fcntl"], 3, high | 1040) == none  # F_SETDELEG
        assert refused.answer(known["renameat2"], -100, 0, -100, 0, high | 4) == none
        assert refused.answer(known["renameat2"], -100, 0, -100, 0, high | 5) == none
    for command in (*range(17), 1025, *range(1027, 1039)):
        assert refused.answer(known["fcntl"], 3, command) == ALLOW, command
    for flags in (0, 1, 2):
        assert refused.answer(known["renameat2"], -100, 0, -100, 0, flags) == ALLOW


def test_no_file_of_the_workspace_is_leased_and_no_whiteout_made(sandbox, workspace):
    """A lease has the host's programs wait for the sandbox; a whiteout is a device node."""
    seen = sandbox.python(
        """
        import ctypes, errno, fcntl, os
        libc = ctypes.CDLL(None, use_errno=True)
        out = {}
        open('a', 'w').write('a')
        open('b', 'w').write('b')
        fd = os.open('a', os.O_RDWR)
        for name, command, arg in (('write lease', 1024, 1), ('read lease', 1024, 0), ('notice', 1026, 2)):
            try:
                fcntl.fcntl(fd, command, arg)
                out[name] = 'done'
            except OSError as e:
                out[name] = errno.errorcode[e.errno]
        def rename(a, b, flags):
            done = libc.renameat2(-100, a, -100, b, flags)
            return 'done' if done == 0 else errno.errorcode[ctypes.get_errno()]
        out['whiteout'] = rename(b'a', b'c', 4)
        out['exchange'] = rename(b'a', b'b', 2)
        say(out)
        """,
        workspace=workspace,
    )
    assert seen.pop("exchange") in ("done", "EINVAL")  # not on every file system
    assert set(seen.values()) == {"EINVAL"}, seen
    assert all(os.path.isfile(os.path.join(workspace, name)) for name in os.listdir(workspace))


def test_no_pipe_holds_more_than_a_pipe_has_anyway(sandbox):
    """Above fs.pipe-user-pages-soft of all pipes of a uid, the next ones of the host's programs hold a page or two."""
    seen = sandbox.python(
        """
        import errno, fcntl, os
        read, write = os.pipe()
        out = []
        for size in (4096, 65536, 65537, 1 << 20, 1 << 31):
            try:
                out.append(fcntl.fcntl(write, 1031, size))
            except OSError as e:
                out.append(errno.errorcode[e.errno])
            except OverflowError:
                out.append('EPERM')
        say(out)
        """
    )
    assert seen[:2] == [4096, 65536] and set(seen[2:]) == {"EPERM"}, seen


def test_a_crash_inside_starts_no_handler_of_the_hosts(sandbox):
    """A limit of 1 is the one at which the kernel starts no program that core_pattern names; it stays."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("the hard limit of core files is 0 here, which only root with all capabilities can raise")
    seen = sandbox.python(
        """
        import ctypes, os, resource, signal
        libc = ctypes.CDLL(None, use_errno=True)
        def limit(who='self'):
            line = next(l for l in open(f'/proc/{who}/limits') if l.startswith('Max core file size'))
            return line.split()[4:6]
        out = [limit() if sys.argv[1] != 'gvisor' else [str(n) for n in resource.getrlimit(resource.RLIMIT_CORE)]]
        pair = (ctypes.c_uint64 * 2)
        for soft, hard in ((0, 0), (0, 1), (1, 1), (2**64 - 1, 2**64 - 1)):
            libc.setrlimit(4, pair(soft, hard))
            libc.prlimit(0, 4, pair(soft, hard), None)
            libc.prlimit(0, 4, pair(soft, hard), pair())
            libc.prlimit(os.getpid(), 4, pair(soft, hard), None)
            if sys.argv[2] == 'yes':
                libc.syscall(160, 4, pair(soft, hard))
                libc.syscall(302, 0, (9 << 32) | 4, pair(soft, hard), None)
        out.append([str(n) for n in resource.getrlimit(resource.RLIMIT_CORE)])
        # A child has the same, and so has a program that is started.
        out.append([str(n) for n in map(int, os.popen('ulimit -Sc; ulimit -Hc').read().split())])
        pid = os.fork()
        if pid == 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        out.append(os.WCOREDUMP(os.waitpid(pid, 0)[1]))
        say(out)
        """,
        sandbox.engine,
        "yes" if X86 else "no",
    )
    # dash counts core files in blocks of 512 bytes.
    assert seen == [["1", "1"], ["1", "1"], ["0", "0"], False]


def test_no_process_of_a_sandbox_starts_a_handler_of_the_hosts(sandbox):
    """Nor do keyhole-init and the engine's programs, of which gvisor's answers the command's system calls."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("the hard limit of core files is 0 here, which only root with all capabilities can raise")
    if sandbox.engine == "docker":
        pytest.skip("what docker's daemon starts is not the launcher's child")
    process = sandbox.start("sh", "-c", "echo up; exec cat", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    found = {}
    for pid in below(process.pid):
        with open(f"/proc/{pid}/limits", encoding="ascii") as limits, open(f"/proc/{pid}/comm", encoding="ascii") as name:
            line = next(line for line in limits if line.startswith("Max core file size"))
            found.setdefault(tuple(line.split()[4:6]), []).append(name.read().strip())
    process.communicate(timeout=PATIENCE)
    ours = [name for names in found.values() for name in names if name.startswith("launch_only")]
    assert len(found[("1", "1")]) >= 2, found
    assert not [names for limit, names in found.items() if limit != ("1", "1") and set(names) - set(ours)], found


def test_who_wishes_for_no_core_file_is_not_refused(sandbox):
    """GnuPG and ssh-agent end where they are."""
    assert sandbox.sh("ulimit -c 0 && echo done") == "done\n"


def test_keyhole_init_is_not_strangled(sandbox):
    """It has the command's uid: its limits, its CPUs and its turn are not the command's to set."""
    seen = sandbox.python(
        """
        import os, resource
        out = {}
        def attempt(name, f):
            try:
                f()
                out[name] = 'done'
            except OSError as e:
                out[name] = e.errno
        for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_NPROC):
            attempt(what, lambda: resource.prlimit(1, what, (0, 0)))
        attempt('affinity', lambda: os.sched_setaffinity(1, {0}))
        attempt('scheduler', lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
        attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
        attempt('nice group', lambda: os.setpriority(os.PRIO_PGRP, 1, 19))
        attempt('nice user', lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))
        # One's own are as ever.
        own = {}
        out, first = own, out
        attempt('limit', lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        attempt('of a pid', lambda: resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (90, 90)))
        attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, 0, 5))
        attempt('affinity', lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
        import socket
        s = socket.create_connection(('127.0.0.1', 3128))
        s.sendall(b'still here')
        s.shutdown(socket.SHUT_WR)
        say([first, own, s.recv(100).decode()])
        """
    )
    assert set(seen[0].values()) <= {errno.EPERM, errno.ESRCH}, seen
    assert set(seen[1].values()) == {"done"}, seen
    assert seen[2] == "10:still here"


def test_of_proc_is_masked_what_speaks_of_the_host(sandbox):
    """Keys, symbols, modules and interrupts read as nothing, and nothing below /proc/sys can be set."""
    if sandbox.engine in ("docker", "gvisor"):
        pytest.skip("docker's list is the daemon's; in gvisor /proc is of a kernel that knows nothing of the host")
    seen = sandbox.python(
        """
        import os
        out = {}
        for name in ('interrupts', 'kcore', 'keys', 'key-users', 'kallsyms', 'kmsg', 'modules', 'timer_list',
                     'sched_debug', 'latency_stats', 'sysrq-trigger'):
            try:
                out[name] = len(open('/proc/' + name, 'rb').read(4096))
            except OSError:
                out[name] = 0
        for name in ('acpi', 'asound', 'scsi'):
            try:
                out[name] = len(os.listdir('/proc/' + name))
            except OSError:
                out[name] = 0
        for top, _, files in os.walk('/proc/sys'):
            for name in files:
                if os.access(os.path.join(top, name), os.W_OK):
                    out[os.path.join(top, name)] = 'can be written'
        say(out)
        """
    )
    assert not any(seen.values()), {name: what for name, what in seen.items() if what}


def test_no_attribute_of_a_file_can_be_set(sandbox, workspace):
    """A default ACL would open whatever the host makes in that folder later; the answer is that of a file system without any."""
    seen = sandbox.python(
        """
        import errno, os, struct
        everyone = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, 7, 2**32 - 1) for tag in (1, 4, 32))
        open('f', 'w').close()
        fd = os.open('f', os.O_RDONLY)
        os.symlink('f', 'l')
        out = []
        for what, name, options in (('.', 'system.posix_acl_default', {}), ('f', 'system.posix_acl_access', {}), (fd, 'user.x', {}),
                                    ('l', 'user.x', {'follow_symlinks': False})):
            for call in (lambda: os.setxattr(what, name, everyone, **options), lambda: os.removexattr(what, name, **options)):
                try:
                    call()
                    out.append('done')
                except OSError as e:
                    out.append(errno.errorcode[e.errno])
        say(out)
        """,
        workspace=workspace,
    )
    assert set(seen) <= {"ENOTSUP", "EOPNOTSUPP"}, seen
    assert not {name for name in os.listxattr(workspace) if "acl" in name}


COPIES = "mkdir -p a/b && echo x > a/b/f && cp -a a c && cp -p a/b/f g && tar -cf t a && mkdir e && tar -xf t -C e && sed -i s/x/y/ g && install -m 755 g h && mv g /tmp/"


def test_programs_that_copy_attributes_do_without(sandbox, workspace):
    assert sandbox.sh(COPIES + "; echo $?", workspace=workspace) == "0\n"


PROGRAMS = {
    "python3": """python3 -c 'import asyncio, multiprocessing, subprocess, threading
t = threading.Thread(target=print); t.start(); t.join()
with multiprocessing.Pool(2) as p: assert p.map(abs, [-1]) == [1]
async def f(): return await (await asyncio.create_subprocess_exec("true")).wait()
assert asyncio.run(f()) == 0'""",
    "node": """node -e 'const {Worker} = require("worker_threads"); new Worker("0", {eval: true});
require("child_process").execSync("true"); require("fs").watch("/tmp").close();
require("net").createServer().listen(0, function () { this.close() })'""",
    "npm": "npm --version",
    "git": "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -qm x --allow-empty && git gc -q && git status",
    "java": """printf 'class A { public static void main(String[] a) throws Exception {
System.exit(new ProcessBuilder("true").start().waitFor()); } }' >A.java && java A.java""",
    "strace": "strace -f -o log sh -c 'true; true' && grep -q execve log",
    "gdb": "gdb -batch -ex run --args true 2>&1 | grep -q 'exited normally'",
    "gpg": "mkdir -m 700 g && gpg --homedir /tmp/g --batch --passphrase '' --quick-gen-key a@b ed25519 && gpgconf --homedir /tmp/g --kill all",
    "ssh-agent": "ssh-agent true",
    "tmux": "tmux -L x new-session -d true",
}


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_that_people_use_run_with_these_calls(sandbox, program):
    if not shutil.which(program, path="/usr/bin:/bin"):
        pytest.skip(f"{program} is not installed")
    done = sandbox.run("sh", "-c", "cd /tmp && " + PROGRAMS[program])
    assert done.returncode == 0, (done.stdout[-500:], done.stderr[-500:])


def test_what_changes_a_terminal_for_others_is_refused(sandbox):
    """Its modes are the command's to set; its line discipline, and who else may open it, are not."""
    seen = sandbox.python(
        """
        import fcntl, os, struct, termios
        master, slave = os.openpty()
        out = {}
        def attempt(name, f):
            try:
                f()
                out[name] = 'done'
            except OSError as e:
                out[name] = e.errno
        for request in (termios.TIOCSTI, 0x541C, termios.TIOCSETD, termios.TIOCEXCL, 0x541D, 0x4B3A, 0x5606, termios.TCXONC, 0x5425):
            attempt(hex(request), lambda: fcntl.ioctl(slave, request, struct.pack('i', 3)))
        assert set(out.values()) == {1}, out
        out = {}
        attempt('modes', lambda: termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(slave)))
        attempt('size', lambda: fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 9, 9, 0, 0)))
        say(out)
        """
    )
    assert set(seen.values()) == {"done"}, seen


