/*
 * listener.c - what sandboxes connect to: Unix sockets, ports of vsock and of TCP
 *
 * A path must never lead to a socket with the wrong mode or owner, nor be taken from a daemon that
 * runs. So the socket is bound in a folder with a random name beside its own, gets mode and owner,
 * and starts to listen. Then a rename gives it its name: one that replaces nothing, or one that
 * exchanges it with the dead socket found there. So if two daemons start at once, one of them sees
 * that the other was first. (There is no lock: a sandbox can open its socket's folder, and could
 * hold the lock.)
 *
 * Other users may be allowed to write to the folder. Nobody else can create a name in the random
 * folder, so it is really the socket that gets mode and owner. Later the socket is identified by
 * its inode, which is not reused while the socket is open.
 *
 * bind(2) and connect(2) get the path as /proc/self/fd/N/name, since sun_path has room for 107
 * bytes and the path of a folder may be longer.
 */
#include <keyhole/net/listener.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <linux/vm_sockets.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/socket_options.h>

enum { NAME_MAX_BYTES = 80, PLACE_TRIES = 8, ACCEPT_TRIES = 16 };

/* A name in the folder `dir`, as an address. */
static socklen_t address_of(struct sockaddr_un *un, int dir, const char *name)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int n = snprintf(un->sun_path, sizeof un->sun_path, "/proc/self/fd/%d/%s", dir, name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1);
}

/* Who accepts there, for the message: "pid 12 (keyhole)". */
static void describe_holder(int fd, char *out, size_t size)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof peer;
	char path[64], name[32] = "";
	(void)snprintf(out, size, "another process");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0)
		return;
	(void)snprintf(path, sizeof path, "/proc/%ld/comm", (long)peer.pid);
	kh_auto_close int comm = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = comm < 0 ? -1 : read(comm, name, sizeof name - 1);
	if (n > 0 && name[n - 1] == '\n')
		name[n - 1] = '\0';
	(void)snprintf(out, size, "process %ld%s%s%s", (long)peer.pid, n > 0 ? " (" : "",
		       n > 0 ? kh_esc_str(name) : "", n > 0 ? ")" : "");
}

/* May the name be taken: nothing there (*there is 0 then), or a socket that nobody listens on (its
 * inode). */
static bool check_free(int dir, const char *name, const char *path, ino_t *there,
		       struct kh_err *err)
{
	struct stat st;
	*there = 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT)
			return true;
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s", kh_esc_str(path));
	}
	if (!S_ISSOCK(st.st_mode))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "listen on %s: there is a file of that name that is no socket "
				  "(move it away, or choose another path)",
				  kh_esc_str(path));
	*there = st.st_ino;

	kh_auto_close int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s", kh_esc_str(path));
	struct sockaddr_un un;
	socklen_t len = address_of(&un, dir, name);
	if (connect(probe, (struct sockaddr *)&un, len) < 0) {
		if (errno == ECONNREFUSED || errno == ENOENT)
			return true;
		if (errno != EAGAIN) /* EAGAIN: it lives, and its queue is full */
			return kh_err_sys(err, KH_ERR_SYSTEM, errno,
					  "listen on %s: the socket there can't be asked",
					  kh_esc_str(path));
	}
	char holder[96];
	describe_holder(probe, holder, sizeof holder);
	return kh_err_set(
		err, KH_ERR_CONFIG,
		"listen on %s: %s listens there already (stop it, or choose another path)",
		kh_esc_str(path), holder);
}

/* What this name leads to, if it is that socket. Return: by O_PATH; -1 with errno (ENXIO: it is
 * another). */
static int find(int dir, const char *name, const struct stat *socket)
{
	struct stat st;
	kh_auto_close int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	if (S_ISSOCK(st.st_mode) && st.st_dev == socket->st_dev && st.st_ino == socket->st_ino)
		return kh_steal_fd(&fd);
	errno = ENXIO;
	return -1;
}

/* Only what differs. */
static bool dress(int fd, const struct kh_listener_config *config, struct kh_err *err)
{
	struct stat st;
	const char *path = config->unix_path;
	mode_t mode = config->mode & 0777;
	bool ok = fstat(fd, &st) == 0;
	uid_t owner = config->owner != (uid_t)-1 ? config->owner : st.st_uid;
	gid_t group = config->group != (gid_t)-1 ? config->group : st.st_gid;
	if (!ok || ((st.st_uid != owner || st.st_gid != group) &&
		    fchownat(fd, "", owner, group, AT_EMPTY_PATH) != 0))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "owner of %s", kh_esc_str(path));
	if ((st.st_mode & 07777) != mode && !kh_file_set_mode(fd, mode))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "mode of %s", kh_esc_str(path));
	return true;
}

/* Mode and owner before listen(2): until then connect(2) is refused to everybody. */
static bool dress_and_listen(int fd, int dir, const char *name, struct stat *made,
			     const struct kh_listener_config *config, struct kh_err *err)
{
	kh_auto_close int named = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (named < 0 || fstat(named, made) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s",
				  kh_esc_str(config->unix_path));
	if (!dress(named, config, err))
		return false;
	if (listen(fd, SOMAXCONN) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s",
				  kh_esc_str(config->unix_path));
	return true;
}

/* A name that a socket is to take: in `dir`, which others may be able to write to. */
struct place {
	int dir;
	const char *name, *path;
	int apart; /* the folder in which the socket is made */
};

static const char apart_name[] = "s";

/* Return: the name leads to the socket that was made apart. False with errno EAGAIN: somebody else
 * took the name since it was looked at. */
static bool take_name(const struct place *p, ino_t dead)
{
	struct stat st;
	unsigned how = dead ? RENAME_EXCHANGE : RENAME_NOREPLACE;
	if (renameat2(p->apart, apart_name, p->dir, p->name, how) < 0) {
		if (errno == EEXIST || errno == ENOENT)
			errno = EAGAIN;
		/* A file system that knows only the plain one. */
		return (errno == EINVAL || errno == ENOSYS) &&
		       renameat(p->apart, apart_name, p->dir, p->name) == 0;
	}
	if (!dead)
		return true;
	if (fstatat(p->apart, apart_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == dead)
		return true;
	(void)renameat2(p->apart, apart_name, p->dir, p->name, RENAME_EXCHANGE);
	errno = EAGAIN;
	return false;
}

/* Looks whether the name is free, and takes it; again where another start was in between. */
static bool take_place(const struct place *p, struct kh_err *err)
{
	for (int i = 0; i < PLACE_TRIES; i++) {
		ino_t there;
		if (!check_free(p->dir, p->name, p->path, &there, err))
			return false;
		if (take_name(p, there))
			return true;
		if (errno != EAGAIN)
			break;
	}
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s", kh_esc_str(p->path));
}

static int bind_in(const struct place *p, struct stat *made,
		   const struct kh_listener_config *config, struct kh_err *err)
{
	struct sockaddr_un un;
	socklen_t len = address_of(&un, p->apart, apart_name);
	kh_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&un, len) < 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s", kh_esc_str(p->path));
		return -1;
	}
	bool ok =
		dress_and_listen(fd, p->apart, apart_name, made, config, err) && take_place(p, err);
	/* What is there now is the dead one that was found, or ours, which got no name. */
	(void)unlinkat(p->apart, apart_name, 0);
	return ok ? kh_steal_fd(&fd) : -1;
}

int kh_listener_open_in(int dir, const char *name, const struct kh_listener_config *config,
			struct stat *made, struct kh_err *err)
{
	const char *path = config->unix_path;
	ino_t there; /* said before anything is made there */
	char temporary[32];
	uint64_t number;
	struct stat ignored;
	if (!check_free(dir, name, path, &there, err))
		return -1;
	struct place p = { .dir = dir, .name = name, .path = path, .apart = -1 };
	if (getrandom(&number, sizeof number, 0) == sizeof number) {
		(void)snprintf(temporary, sizeof temporary, ".keyhole-%016llx",
			       (unsigned long long)number);
		p.apart = kh_file_mkdirat(dir, temporary, 0700);
	}
	if (p.apart < 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s", kh_esc_str(path));
		return -1;
	}
	int fd = bind_in(&p, made ? made : &ignored, config, err);
	(void)close(p.apart);
	(void)unlinkat(dir, temporary, AT_REMOVEDIR);
	return fd;
}

/* The folder of a socket's path; the name in it. Return: -1 with errno. */
static int open_folder_of(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	kh_auto_free char *folder =
		slash ? kh_slice_dup(kh_slice_of(path, (size_t)(slash - path) + 1)) : strdup(".");
	*name = slash ? slash + 1 : path;
	return folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

bool kh_listener_dress(const struct kh_listener_config *config, const struct stat *socket,
		       struct kh_err *err)
{
	const char *name;
	kh_auto_close int dir = open_folder_of(config->unix_path, &name);
	kh_auto_close int named = dir < 0 ? -1 : find(dir, name, socket);
	if (named >= 0)
		return dress(named, config, err);
	if (errno == ENXIO || errno == ENOENT)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "%s: somebody else took the socket's name away, so mode and "
				  "owner are left as they are (who may write to its folder?)",
				  kh_esc_str(config->unix_path));
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(config->unix_path));
}

int kh_listener_remove(const char *path, const struct stat *socket)
{
	const char *name;
	kh_auto_close int dir = open_folder_of(path, &name);
	kh_auto_close int named = dir < 0 ? -1 : find(dir, name, socket);
	return named >= 0 && unlinkat(dir, name, 0) == 0 ? kh_steal_fd(&dir) : -1;
}

/* A port, which has neither folder nor mode. */
static int bind_port(const struct kh_listener_config *config, const struct sockaddr *address,
		     socklen_t len, struct kh_err *err)
{
	int one = 1;
	kh_auto_close int fd =
		socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool ok = fd >= 0;
	if (ok && address->sa_family != AF_VSOCK)
		ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0;
	/* An address of one family is no more than that. */
	if (ok && address->sa_family == AF_INET6)
		ok = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) == 0;
	if (!ok || bind(fd, address, len) < 0 || listen(fd, SOMAXCONN) < 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s", kh_esc_str(config->name));
		return -1;
	}
	return kh_steal_fd(&fd);
}

int kh_listener_open(const struct kh_listener_config *config, struct stat *made, struct kh_err *err)
{
	if (config->kind == KH_LISTEN_TCP)
		return bind_port(config, &config->tcp.any, config->tcp.len, err);
	if (config->kind == KH_LISTEN_VSOCK) {
		const struct sockaddr_vm vm = {
			.svm_family = AF_VSOCK,
			.svm_cid = VMADDR_CID_ANY,
			.svm_port = config->vsock_port,
		};
		return bind_port(config, (const struct sockaddr *)&vm, sizeof vm, err);
	}
	const char *path = config->unix_path;
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    strlen(name) > NAME_MAX_BYTES) {
		kh_err_set(
			err, KH_ERR_CONFIG,
			"listen on %s: not the name of a socket (1 to %d bytes after the last /)",
			kh_esc_str(path), NAME_MAX_BYTES);
		return -1;
	}
	kh_auto_free char *folder =
		slash ? kh_slice_dup(kh_slice_of(path, (size_t)(slash - path) + 1)) : strdup(".");
	if (!folder) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "listen on %s: no memory", kh_esc_str(path));
		return -1;
	}
	if (!kh_file_mkdirs(folder, 0755, err)) {
		kh_err_wrap(err, "listen on %s", kh_esc_str(path));
		return -1;
	}
	kh_auto_close int dir = open_folder_of(path, &name);
	if (dir < 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "listen on %s", kh_esc_str(path));
		return -1;
	}
	return kh_listener_open_in(dir, name, config, made, err);
}

static bool listens(int fd)
{
	int accepts = 0;
	socklen_t len = sizeof accepts;
	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) == 0 && accepts;
}

bool kh_listener_is_dead(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLRDHUP };
	/* A port stops listening; a Unix socket that is shut down goes on to say that it listens.
	 */
	return !listens(listener) ||
	       (poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)));
}

void kh_listener_abandon(int listener)
{
	const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	const int one = 1;
	if (listener < 0)
		return;
	(void)setsockopt(listener, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	/* Disconnects (connect(2)): the far end gets a reset, and nothing is waited for. */
	(void)connect(listener, &nobody, sizeof nobody);
	/* Should somebody still have the socket, it is in nobody's way. */
	(void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	(void)close(listener);
}

void kh_listener_reset(int listener)
{
	static const struct {
		int level, name;
	} options[] = {
#define ROW(level, name) { level, name },
		KH_WORKER_SOCKET_OPTIONS(ROW)
#undef ROW
	};
	int family = 0;
	socklen_t len = sizeof family;
	if (getsockopt(listener, SOL_SOCKET, SO_DOMAIN, &family, &len) != 0 ||
	    (family != AF_INET && family != AF_INET6))
		return; /* nothing is inherited from the others */
	kh_auto_close int fresh = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (size_t i = 0; fresh >= 0 && i < sizeof options / sizeof options[0]; i++) {
		int value = 0;
		len = sizeof value;
		if (getsockopt(fresh, options[i].level, options[i].name, &value, &len) == 0)
			(void)setsockopt(listener, options[i].level, options[i].name, &value,
					 sizeof value);
	}
}

/* Whatever family the listener is of. */
union address {
	struct sockaddr any;
	struct sockaddr_un un;
	struct sockaddr_vm vm;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static void note_address(int fd, const union address *from, struct kh_peer *peer)
{
	struct kh_sockaddr tcp = { 0 };
	int one = 1, zero = 0;
	switch (from->any.sa_family) {
	case AF_VSOCK:
		peer->cid = from->vm.svm_cid;
		(void)snprintf(peer->address, sizeof peer->address, "vsock:%u", peer->cid);
		break;
	case AF_INET:
	case AF_INET6:
		tcp.len = from->any.sa_family == AF_INET ? sizeof tcp.v4 : sizeof tcp.v6;
		memcpy(&tcp.v6, &from->v6, tcp.len);
		kh_sockaddr_format(&tcp, peer->address);
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		/* A worker of before may have set it on the listener; how often goes with it. */
		(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &zero, sizeof zero);
		break;
	default:
		break;
	}
}

static void note_peer(int fd, const union address *from, struct kh_peer *peer)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof cred;
	/* Nobody's uid, so that a failure is never root. */
	*peer = (struct kh_peer){ .pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1 };
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0)
		*peer = (struct kh_peer){ .pid = cred.pid, .uid = cred.uid, .gid = cred.gid };
	note_address(fd, from, peer);
}

enum kh_accept kh_listener_accept(int listener, int *fd, struct kh_peer *peer)
{
	*fd = -1;
	for (int i = 0; i < ACCEPT_TRIES; i++) {
		union address from = { .any.sa_family = AF_UNSPEC };
		socklen_t len = sizeof from;
		/* Should the listener block: the worker of an earlier version can still have it,
		   and could have made it so. */
		struct pollfd p = { .fd = listener, .events = POLLIN };
		if (poll(&p, 1, 0) == 0)
			return listens(listener) ? KH_ACCEPT_AGAIN : KH_ACCEPT_BROKEN;
		int got = accept4(listener, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (got >= 0) {
			note_peer(got, &from, peer);
			*fd = got;
			return KH_ACCEPT_GOT;
		}
		switch (errno) {
		case EAGAIN:
			return KH_ACCEPT_AGAIN;
		case EBADF:
		case EINVAL:
		case ENOTSOCK:
		case EOPNOTSUPP:
		case EFAULT:
			return KH_ACCEPT_BROKEN;
		case EINTR:
		case ECONNABORTED: /* that one went away while it queued; the next may not have */
			continue;
		default: /* EMFILE, ENFILE, ENOBUFS, ENOMEM, and whatever a filter answers */
			return KH_ACCEPT_RETRY_LATER;
		}
	}
	return KH_ACCEPT_AGAIN;
}
