/* SPDX-License-Identifier: BSD-3-Clause */
/* A library to preload: it counts the calls that can fail, and fails one of them.
 *
 * Only calls between the start and the end of main() count.  What a call does inside of libc does
 * not count again, but for memory.  A call fails with an error that the kernel has for it; so reads
 * and writes fail only on files and sockets, and epoll_ctl() only when it adds a descriptor.
 *
 * At the end of main() the process must have no descriptor and no mapping of a file that it did not
 * have at the start, or it ends with the status CALLS_LEAKED. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sweep/calls.h"
#include "sweep/known.h"
#include "tls/prepare.h"

#define EXPORT __attribute__((visibility("default")))

static struct calls *calls; /* NULL: nothing is counted */
static volatile bool in_main;
static __thread volatile int exempt; /* depth */

EXPORT void calls_exempt(int on)
{
	exempt += on ? 1 : -1;
}

/* ---- the call that fails ---- */

static bool in_libc(const Dl_info *at)
{
	return strstr(at->dli_fname, "/libc.so") || strstr(at->dli_fname, "/libsweep");
}

static bool place_fits(const struct known_place *place, const Dl_info *at,
		       bool innermost, const char *name)
{
	return strstr(at->dli_fname, place->library) &&
	       (!place->innermost || innermost) &&
	       (!place->call || strcmp(place->call, name) == 0) &&
	       (!place->function ||
		(at->dli_sname && strcmp(at->dli_sname, place->function) == 0));
}

/* Which of the known places these frames are in, from 1; 0: none. */
static unsigned place_find(void *const *frames, int n, const char *name)
{
	bool innermost = true, inside = true;
	Dl_info at;

	for (int i = 0; i < n; i++) {
		if (!dladdr((char *)frames[i] - 1, &at) || !at.dli_fname)
			continue;
		/* the sanitizer has a backtrace() of its own */
		inside = inside && !strstr(at.dli_fname, "/libsweep");
		if (inside)
			continue;
		for (unsigned k = 0; k < N_KNOWN_PLACES; k++)
			if (place_fits(&known_places[k], &at, innermost, name))
				return k + 1;
		innermost = innermost && in_libc(&at);
	}
	return 0;
}

static void frame_record(void *address)
{
	unsigned n = calls->n_frames;
	const char *file;
	Dl_info info;
	size_t len;

	if (!dladdr(address, &info) || !info.dli_fname)
		return;
	len = strlen(info.dli_fname);
	file = info.dli_fname;
	if (len >= sizeof(calls->frames[n].file))
		file += len - sizeof(calls->frames[n].file) + 1;
	(void)strcpy(calls->frames[n].file, file);
	calls->frames[n].offset = (uint64_t)((char *)address - (char *)info.dli_fbase);
	calls->n_frames++;
}

/* False: it is at a known place. */
static bool call_record(const char *name, int error)
{
	void *frames[CALLS_FRAMES];
	int n = backtrace(frames, CALLS_FRAMES);

	calls->known = place_find(frames, n, name);
	if (calls->known)
		return false;
	(void)strncpy(calls->name, name, sizeof(calls->name) - 1);
	(void)prctl(PR_GET_NAME, calls->thread);
	calls->error = error;
	/* the first two are functions of this file */
	for (int i = 2; i < n; i++)
		frame_record(frames[i]);
	return true;
}

/* The same for the same way to a call, in every process. */
static uint32_t stack_hash(void)
{
	void *frames[CALLS_FRAMES];
	int n = backtrace(frames, CALLS_FRAMES);
	uint64_t hash = 14695981039346656037u;
	struct dl_find_object at;

	/* dladdr() would look through all symbols of the file */
	for (int i = 2; i < n; i++)
		if (!_dl_find_object(frames[i], &at))
			hash = (hash ^ (uint64_t)((char *)frames[i] -
						  (char *)at.dlfo_map_start)) *
			       1099511628211u;
	return (uint32_t)(hash ^ hash >> 32) | 1;
}

static void stack_note(enum call_class class, uint64_t number)
{
	if (number > CALLS_STACKS)
		return;
	exempt++;
	calls->stacks[class][number - 1] = stack_hash();
	exempt--;
}

/* Count a call; whether it is the one that fails. */
static bool is_chosen(enum call_class class)
{
	uint64_t number = atomic_fetch_add(&calls->count[class], 1) + 1;

	if (!calls->number)
		stack_note(class, number);
	return class == calls->class && number == calls->number &&
	       !atomic_exchange(&calls->failed, 1);
}

/* Count a call; whether it fails. */
__attribute__((noinline)) static bool fails(enum call_class class, const char *name,
					    int error)
{
	bool chosen, recorded = false;

	if (!in_main || exempt)
		return false;
	chosen = is_chosen(class);
	if (error == ENOSPC)
		chosen |= is_chosen(CALL_SPACE);
	if (chosen) {
		exempt++;
		recorded = call_record(name, error);
		exempt--;
		if (recorded && calls->class == CALL_SPACE)
			calls->full = 1;
	}
	if (!recorded && !(calls->full && error == ENOSPC))
		return false;
	errno = error;
	return true;
}

/* ---- memory: dlsym() itself allocates ---- */

static _Alignas(16) char early[16384];
static size_t early_used;
/* dlsym() is declared so that the compiler does not expect it to call a function of this file */
static __thread volatile bool resolving;

static void *early_alloc(size_t bytes)
{
	void *at = early + early_used;

	early_used += (bytes + 15) / 16 * 16;
	if (early_used > sizeof(early))
		abort();
	return at;
}

static bool is_early(const void *at)
{
	return (const char *)at >= early && (const char *)at < early + sizeof(early);
}

/* The function that the process would have called. */
static void *real_find(const char *name)
{
	void *found;

	resolving = true;
	found = dlsym(RTLD_NEXT, name);
	resolving = false;
	if (!found)
		abort();
	return found;
}

#define REAL(name)                            \
	static __typeof__(name) *real_##name; \
	if (!real_##name)                     \
		real_##name = real_find(#name);

EXPORT void *malloc(size_t bytes)
{
	if (resolving)
		return early_alloc(bytes);
	REAL(malloc)
	return fails(CALL_MEMORY, "malloc", ENOMEM) ? NULL : real_malloc(bytes);
}

EXPORT void *calloc(size_t n, size_t bytes)
{
	if (resolving)
		return early_alloc(n * bytes);
	REAL(calloc)
	return fails(CALL_MEMORY, "calloc", ENOMEM) ? NULL : real_calloc(n, bytes);
}

EXPORT void free(void *at)
{
	if (resolving || is_early(at))
		return;
	REAL(free)
	real_free(at);
}

EXPORT void *realloc(void *at, size_t bytes)
{
	REAL(realloc)
	return fails(CALL_MEMORY, "realloc", ENOMEM) ? NULL : real_realloc(at, bytes);
}

EXPORT int posix_memalign(void **ret_at, size_t align, size_t bytes)
{
	REAL(posix_memalign)
	if (fails(CALL_MEMORY, "posix_memalign", ENOMEM))
		return ENOMEM;
	return real_posix_memalign(ret_at, align, bytes);
}

/* ---- the others ---- */

/* A function that returns `failed` when it fails, with an error in errno. */
#define CALL(class, type, failed, error, name, params, args) \
	EXPORT type name params                              \
	{                                                    \
		type result;                                 \
		REAL(name)                                   \
		if (fails(class, #name, error))              \
			return failed;                       \
		exempt += (class) != CALL_MEMORY;            \
		result = real_##name args;                   \
		exempt -= (class) != CALL_MEMORY;            \
		return result;                               \
	}
#define CALL_INT(class, error, name, params, args) \
	CALL(class, int, -1, error, name, params, args)
/* One that returns the error. */
#define CALL_RETURNS(class, error, name, params, args) \
	CALL(class, int, error, error, name, params, args)
#define CALL_POINTER(class, type, error, name, params, args) \
	CALL(class, type *, NULL, error, name, params, args)

CALL_POINTER(CALL_MEMORY, void, ENOMEM, aligned_alloc, (size_t align, size_t bytes),
	     (align, bytes))

CALL(CALL_MAPPING, void *, MAP_FAILED, ENOMEM, mmap,
     (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),
     (at, bytes, prot, flags, fd, offset))
CALL(CALL_MAPPING, void *, MAP_FAILED, ENOMEM, mmap64,
     (void *at, size_t bytes, int prot, int flags, int fd, off_t offset),
     (at, bytes, prot, flags, fd, offset))
CALL_INT(CALL_MAPPING, ENOMEM, mlock, (const void *at, size_t bytes), (at, bytes))
CALL_INT(CALL_MAPPING, ENOMEM, mlock2, (const void *at, size_t bytes, unsigned flags),
	 (at, bytes, flags))
CALL_INT(CALL_MAPPING, ENOMEM, madvise, (void *at, size_t bytes, int advice),
	 (at, bytes, advice))
CALL_INT(CALL_MAPPING, ENOMEM, mincore, (void *at, size_t bytes, unsigned char *vec),
	 (at, bytes, vec))
CALL_INT(CALL_MAPPING, EMFILE, memfd_create, (const char *name, unsigned flags),
	 (name, flags))
CALL_INT(CALL_MAPPING, EIO, ftruncate, (int fd, off_t bytes), (fd, bytes))
CALL_INT(CALL_MAPPING, EIO, ftruncate64, (int fd, off_t bytes), (fd, bytes))
CALL_INT(CALL_MAPPING, ENOSPC, fallocate, (int fd, int mode, off_t at, off_t bytes),
	 (fd, mode, at, bytes))
CALL_INT(CALL_MAPPING, ENOSPC, fallocate64, (int fd, int mode, off_t at, off_t bytes),
	 (fd, mode, at, bytes))

EXPORT void *mremap(void *at, size_t old_bytes, size_t bytes, int flags, ...)
{
	void *fresh;
	va_list args;

	REAL(mremap)
	va_start(args, flags);
	fresh = va_arg(args, void *);
	va_end(args);
	if (fails(CALL_MAPPING, "mremap", ENOMEM))
		return MAP_FAILED;
	return real_mremap(at, old_bytes, bytes, flags, fresh);
}

/* of libnuma, whose header defines the same functions */
long mbind(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned);
long move_pages(int, unsigned long, void **, const int *, int *, int);
CALL(CALL_MAPPING, long, -1, ENOMEM, mbind,
     (void *at, unsigned long bytes, int mode, const unsigned long *nodes,
      unsigned long max_node, unsigned flags),
     (at, bytes, mode, nodes, max_node, flags))
CALL(CALL_MAPPING, long, -1, ENOMEM, move_pages,
     (int pid, unsigned long n, void **pages, const int *nodes, int *status, int flags),
     (pid, n, pages, nodes, status, flags))

CALL_INT(CALL_SOCKET, EMFILE, socket, (int family, int type, int protocol),
	 (family, type, protocol))
CALL_INT(CALL_SOCKET, EMFILE, socketpair,
	 (int family, int type, int protocol, int fds[2]),
	 (family, type, protocol, fds))
CALL_INT(CALL_SOCKET, EADDRINUSE, bind,
	 (int fd, const struct sockaddr *address, socklen_t bytes),
	 (fd, address, bytes))
CALL_INT(CALL_SOCKET, EADDRINUSE, listen, (int fd, int backlog), (fd, backlog))
CALL_INT(CALL_SOCKET, EMFILE, accept4,
	 (int fd, struct sockaddr *address, socklen_t *bytes, int flags),
	 (fd, address, bytes, flags))
CALL_INT(CALL_SOCKET, ECONNREFUSED, connect,
	 (int fd, const struct sockaddr *address, socklen_t bytes),
	 (fd, address, bytes))
CALL_INT(CALL_SOCKET, ENOBUFS, setsockopt,
	 (int fd, int level, int name, const void *value, socklen_t bytes),
	 (fd, level, name, value, bytes))
CALL_INT(CALL_SOCKET, ENOBUFS, getsockopt,
	 (int fd, int level, int name, void *value, socklen_t *bytes),
	 (fd, level, name, value, bytes))
CALL_INT(CALL_SOCKET, ENOBUFS, getsockname,
	 (int fd, struct sockaddr *address, socklen_t *bytes), (fd, address, bytes))
CALL_INT(CALL_SOCKET, ENOTCONN, getpeername,
	 (int fd, struct sockaddr *address, socklen_t *bytes), (fd, address, bytes))
CALL_INT(CALL_SOCKET, ENOTCONN, shutdown, (int fd, int how), (fd, how))
CALL(CALL_SOCKET, ssize_t, -1, ECONNRESET, send,
     (int fd, const void *from, size_t bytes, int flags), (fd, from, bytes, flags))
CALL(CALL_SOCKET, ssize_t, -1, ECONNRESET, sendmsg,
     (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
CALL(CALL_SOCKET, ssize_t, -1, ECONNRESET, recv,
     (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags))
CALL(CALL_SOCKET, ssize_t, -1, ECONNRESET, recvmsg,
     (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
CALL_INT(CALL_SOCKET, ENOMEM, getifaddrs, (struct ifaddrs * *ret), (ret))
CALL_RETURNS(CALL_SOCKET, EAI_MEMORY, getaddrinfo,
	     (const char *host, const char *port, const struct addrinfo *hints,
	      struct addrinfo **ret),
	     (host, port, hints, ret))
CALL_RETURNS(CALL_SOCKET, EAI_MEMORY, getnameinfo,
	     (const struct sockaddr *address, socklen_t bytes, char *host,
	      socklen_t host_bytes, char *port, socklen_t port_bytes, int flags),
	     (address, bytes, host, host_bytes, port, port_bytes, flags))

CALL_INT(CALL_FILE, EMFILE, epoll_create1, (int flags), (flags))
CALL_INT(CALL_FILE, EMFILE, epoll_create, (int n), (n))
CALL_INT(CALL_FILE, EMFILE, eventfd, (unsigned value, int flags), (value, flags))
CALL_INT(CALL_FILE, EMFILE, timerfd_create, (int clock, int flags), (clock, flags))
CALL_INT(CALL_FILE, EMFILE, pipe2, (int fds[2], int flags), (fds, flags))
CALL_INT(CALL_FILE, EBUSY, dup3, (int from, int to, int flags), (from, to, flags))
CALL_INT(CALL_FILE, EIO, fsync, (int fd), (fd))
CALL_INT(CALL_FILE, EIO, fdatasync, (int fd), (fd))
CALL_INT(CALL_FILE, ENOSPC, rename, (const char *from, const char *to), (from, to))
CALL_INT(CALL_FILE, EIO, unlink, (const char *path), (path))
CALL_INT(CALL_FILE, EIO, unlinkat, (int fd, const char *path, int flags),
	 (fd, path, flags))
CALL_INT(CALL_FILE, ENOSPC, mkdir, (const char *path, mode_t mode), (path, mode))
CALL_INT(CALL_FILE, EPERM, chmod, (const char *path, mode_t mode), (path, mode))
CALL_INT(CALL_FILE, EPERM, fchmod, (int fd, mode_t mode), (fd, mode))
CALL_INT(CALL_FILE, EIO, stat, (const char *path, struct stat *ret), (path, ret))
CALL_INT(CALL_FILE, EIO, lstat, (const char *path, struct stat *ret), (path, ret))
CALL_INT(CALL_FILE, ENOLCK, flock, (int fd, int operation), (fd, operation))
CALL_INT(CALL_FILE, EPERM, setrlimit,
	 (__rlimit_resource_t resource, const struct rlimit *limit), (resource, limit))
CALL_POINTER(CALL_FILE, FILE, EMFILE, fopen, (const char *path, const char *mode),
	     (path, mode))
CALL_POINTER(CALL_FILE, FILE, EMFILE, fopen64, (const char *path, const char *mode),
	     (path, mode))
CALL_POINTER(CALL_FILE, DIR, EMFILE, opendir, (const char *path), (path))
CALL_POINTER(CALL_FILE, DIR, ENOMEM, fdopendir, (int fd), (fd))
CALL(CALL_FILE, ssize_t, -1, EIO, pread, (int fd, void *to, size_t bytes, off_t at),
     (fd, to, bytes, at))
CALL(CALL_FILE, ssize_t, -1, ENOSPC, pwrite,
     (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))
CALL(CALL_FILE, ssize_t, -1, EIO, pread64, (int fd, void *to, size_t bytes, off_t at),
     (fd, to, bytes, at))
CALL(CALL_FILE, ssize_t, -1, ENOSPC, pwrite64,
     (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))
CALL(CALL_FILE, ssize_t, -1, ENOSYS, getrandom,
     (void *to, size_t bytes, unsigned flags), (to, bytes, flags))

/* The file's mode, without a call that is counted. */
static mode_t mode_of(int fd)
{
	struct stat st;
	int err;

	exempt++;
	err = fstat(fd, &st);
	exempt--;
	return err ? 0 : st.st_mode & S_IFMT;
}

/* That of a socket cannot fail. */
EXPORT int fstat(int fd, struct stat *ret)
{
	REAL(fstat)
	if (!exempt && mode_of(fd) != S_IFSOCK && fails(CALL_FILE, "fstat", EIO))
		return -1;
	return real_fstat(fd, ret);
}

/* Whether a transfer on a descriptor of any kind fails. */
static bool transfer_fails(int fd, const char *name, int file_error)
{
	switch (mode_of(fd)) {
	case S_IFREG:
		return fails(CALL_FILE, name, file_error);
	case S_IFSOCK:
		return fails(CALL_SOCKET, name, ECONNRESET);
	default:
		return false;
	}
}

#define TRANSFER(error, name, params, args)           \
	EXPORT ssize_t name params                    \
	{                                             \
		REAL(name)                            \
		if (transfer_fails(fd, #name, error)) \
			return -1;                    \
		return real_##name args;              \
	}

TRANSFER(EIO, read, (int fd, void *to, size_t bytes), (fd, to, bytes))
TRANSFER(ENOSPC, write, (int fd, const void *from, size_t bytes), (fd, from, bytes))
TRANSFER(EIO, readv, (int fd, const struct iovec *vec, int n), (fd, vec, n))
TRANSFER(ENOSPC, writev, (int fd, const struct iovec *vec, int n), (fd, vec, n))

EXPORT int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	REAL(epoll_ctl)
	if (op != EPOLL_CTL_ADD)
		return real_epoll_ctl(epoll, op, fd, event);
	/* one that is there already is refused before anything can fail */
	if (real_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, event) != 0)
		return -1;
	if (!fails(CALL_FILE, "epoll_ctl", ENOMEM))
		return 0;
	(void)real_epoll_ctl(epoll, EPOLL_CTL_DEL, fd, event);
	return -1;
}

EXPORT int fcntl(int fd, int command, ...)
{
	va_list args;
	void *argument;

	REAL(fcntl)
	va_start(args, command);
	argument = va_arg(args, void *);
	va_end(args);
	/* asking for flags cannot fail */
	if (command != F_GETFD && command != F_GETFL &&
	    fails(CALL_FILE, "fcntl", command == F_DUPFD_CLOEXEC ? EMFILE : EPERM))
		return -1;
	return real_fcntl(fd, command, argument);
}

/* open() and the like; `mode` is garbage when the caller gives none, as in libc */
#define OPEN(name, params, args, fixed)              \
	EXPORT int name params                       \
	{                                            \
		va_list list;                        \
		mode_t mode;                         \
		REAL(name)                           \
		va_start(list, flags);               \
		mode = va_arg(list, mode_t);         \
		va_end(list);                        \
		if (fails(CALL_FILE, #name, EMFILE)) \
			return -1;                   \
		return real_##name args;             \
	}

OPEN(open, (const char *path, int flags, ...), (path, flags, mode), flags)
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), flags)
OPEN(openat, (int fd, const char *path, int flags, ...), (fd, path, flags, mode), flags)
OPEN(openat64, (int fd, const char *path, int flags, ...), (fd, path, flags, mode),
     flags)

/* what open() is with _FORTIFY_SOURCE */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int fd, const char *path, int flags);
CALL_INT(CALL_FILE, EMFILE, __open_2, (const char *path, int flags), (path, flags))
CALL_INT(CALL_FILE, EMFILE, __open64_2, (const char *path, int flags), (path, flags))
CALL_INT(CALL_FILE, EMFILE, __openat_2, (int fd, const char *path, int flags),
	 (fd, path, flags))

CALL_RETURNS(CALL_THREAD, EAGAIN, pthread_create,
	     (pthread_t * ret, const pthread_attr_t *attr, void *(*run)(void *),
	      void *arg),
	     (ret, attr, run, arg))
CALL_RETURNS(CALL_THREAD, EAGAIN, pthread_key_create,
	     (pthread_key_t * ret, void (*end)(void *)), (ret, end))

/* ---- RDMA ---- */

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
int ibv_query_port(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *);
CALL_POINTER(CALL_RDMA, struct ibv_device *, ENOMEM, ibv_get_device_list, (int *ret_n),
	     (ret_n))
CALL_POINTER(CALL_RDMA, struct ibv_context, ENODEV, ibv_open_device,
	     (struct ibv_device * device), (device))
CALL_POINTER(CALL_RDMA, struct ibv_pd, ENOMEM, ibv_alloc_pd,
	     (struct ibv_context * context), (context))
CALL_POINTER(CALL_RDMA, struct ibv_comp_channel, EMFILE, ibv_create_comp_channel,
	     (struct ibv_context * context), (context))
CALL_POINTER(CALL_RDMA, struct ibv_cq, ENOMEM, ibv_create_cq,
	     (struct ibv_context * context, int n, void *ctx,
	      struct ibv_comp_channel *channel, int vector),
	     (context, n, ctx, channel, vector))
CALL_POINTER(CALL_RDMA, struct ibv_qp, ENOMEM, ibv_create_qp,
	     (struct ibv_pd * pd, struct ibv_qp_init_attr *attr), (pd, attr))
CALL_POINTER(CALL_RDMA, struct ibv_mr, ENOMEM, ibv_reg_mr,
	     (struct ibv_pd * pd, void *at, size_t bytes, int access),
	     (pd, at, bytes, access))
CALL_POINTER(CALL_RDMA, struct ibv_mr, ENOMEM, ibv_reg_mr_iova2,
	     (struct ibv_pd * pd, void *at, size_t bytes, uint64_t iova,
	      unsigned access),
	     (pd, at, bytes, iova, access))
CALL_RETURNS(CALL_RDMA, ENOMEM, ibv_modify_qp,
	     (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask))
CALL_RETURNS(CALL_RDMA, ENOMEM, ibv_query_device,
	     (struct ibv_context * context, struct ibv_device_attr *ret),
	     (context, ret))
CALL_RETURNS(CALL_RDMA, ENOMEM, ibv_query_port,
	     (struct ibv_context * context, uint8_t port,
	      struct _compat_ibv_port_attr *ret),
	     (context, port, ret))
CALL(CALL_RDMA, ssize_t, -ENOMEM, ENOMEM, _ibv_query_gid_table,
     (struct ibv_context * context, struct ibv_gid_entry *entries, size_t max,
      uint32_t flags, size_t bytes),
     (context, entries, max, flags, bytes))
CALL_POINTER(CALL_RDMA, struct rdma_event_channel, EMFILE, rdma_create_event_channel,
	     (void), ())
CALL_INT(CALL_RDMA, ENOMEM, rdma_create_id,
	 (struct rdma_event_channel * channel, struct rdma_cm_id **ret, void *ctx,
	  enum rdma_port_space space),
	 (channel, ret, ctx, space))
CALL_INT(CALL_RDMA, EADDRINUSE, rdma_bind_addr,
	 (struct rdma_cm_id * id, struct sockaddr *address), (id, address))
CALL_INT(CALL_RDMA, EADDRINUSE, rdma_listen, (struct rdma_cm_id * id, int backlog),
	 (id, backlog))
CALL_INT(CALL_RDMA, ENOMEM, rdma_resolve_addr,
	 (struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int ms),
	 (id, from, to, ms))
CALL_INT(CALL_RDMA, ENOMEM, rdma_resolve_route, (struct rdma_cm_id * id, int ms),
	 (id, ms))
CALL_INT(CALL_RDMA, ENOMEM, rdma_create_qp,
	 (struct rdma_cm_id * id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr),
	 (id, pd, attr))
CALL_INT(CALL_RDMA, ENOMEM, rdma_connect,
	 (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param))
CALL_INT(CALL_RDMA, ENOMEM, rdma_accept,
	 (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param))
CALL_INT(CALL_RDMA, ENOMEM, rdma_establish, (struct rdma_cm_id * id), (id))
CALL_INT(CALL_RDMA, ENOMEM, rdma_init_qp_attr,
	 (struct rdma_cm_id * id, struct ibv_qp_attr *attr, int *mask),
	 (id, attr, mask))
CALL_INT(CALL_RDMA, ENOMEM, rdma_set_option,
	 (struct rdma_cm_id * id, int level, int name, void *value, size_t bytes),
	 (id, level, name, value, bytes))

/* ---- main ---- */

#define FDS_MAX 256

static int (*real_main)(int, char **, char **);
static bool fd_at_start[FDS_MAX];

/* Call `each` for every open descriptor; returns the sum of the results. */
static int fds_each(int (*each)(int fd))
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	int sum = 0;

	if (!directory)
		return 0;
	while ((entry = readdir(directory))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd != dirfd(directory) && fd < FDS_MAX)
			sum += each(fd);
	}
	(void)closedir(directory);
	return sum;
}

static int fd_note(int fd)
{
	fd_at_start[fd] = true;
	return 0;
}

static int fd_leaked(int fd)
{
	char path[64], target[256] = "";

	if (fd_at_start[fd])
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	(void)readlink(path, target, sizeof(target) - 1);
	(void)fprintf(stderr, "leaked: descriptor %d: %s\n", fd, target);
	return 1;
}

/* Mappings of memfds and of files in the directory of the calls: pools and ledger. */
static int mappings_leaked(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	const char *own = getenv(CALLS_FILE_VARIABLE);
	char line[512];
	int n = 0;

	if (!maps)
		return 0;
	while (fgets(line, sizeof(line), maps)) {
		const char *path = strchr(line, '/');

		if (!path || strncmp(path, own, strlen(own)) == 0)
			continue;
		if (strncmp(path, "/memfd:", 7) == 0 ||
		    strncmp(path, "/dev/shm/", 9) == 0) {
			(void)fprintf(stderr, "leaked: mapping %s", line);
			n++;
		}
	}
	(void)fclose(maps);
	return n;
}

static void calls_open(void)
{
	const char *path = getenv(CALLS_FILE_VARIABLE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *frame, *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (at == MAP_FAILED)
		return;
	calls = at;
	/* the first call loads a library */
	(void)backtrace(&frame, 1);
	/* what OpenSSL does once and, by its design, never again after a failure */
	if (tls_prepare())
		(void)fputs("OpenSSL is not prepared\n", stderr);
	/* librdmacm opens all devices at its first use, for as long as the process lives */
	rdma_free_devices(rdma_get_devices(NULL));
}

static int counted_main(int argc, char **argv, char **envp)
{
	int status;

	calls_open();
	if (!calls)
		return real_main(argc, argv, envp);
	(void)fds_each(fd_note);
	in_main = true;
	status = real_main(argc, argv, envp);
	in_main = false;
	if (fds_each(fd_leaked) + mappings_leaked() > 0)
		return CALLS_LEAKED;
	return status;
}

typedef int start_main(int (*)(int, char **, char **), int, char **, void (*)(void),
		       void (*)(void), void (*)(void), void *);
start_main __libc_start_main;

EXPORT int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
			     void (*init)(void), void (*fini)(void),
			     void (*rtld_fini)(void), void *stack_end)
{
	REAL(__libc_start_main)
	real_main = main;
	return real___libc_start_main(counted_main, argc, argv, init, fini, rtld_fini,
				      stack_end);
}
