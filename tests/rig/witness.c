/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks at the memory of rmemd from the side: witness PID ADDRESS PORT CLIENT
 *
 * PID is rmemd, whose control connections are those of CLIENT's address with ADDRESS:PORT.
 * Standard input has a line "NAME MARK PORT" for each of CLIENT's sessions (see stubborn.c): its
 * mark, and its end of the control connection; and a line "watch".  Prints "watching", and then
 * once a millisecond reads the number of each session from rmemd's memory, and from the kernel when
 * data arrived last on its control connection, until standard input ends.  After a line "fenced",
 * which it answers by "noted", data is no sign of life any more: clients may speak again.  At the
 * end it prints for each session
 *
 *   NAME LAST STILL SEEN
 *
 * LAST: the milliseconds from the last sign of life, which is the arrival of new data, to the last
 * change of the number; negative if it was before.  STILL: the longest time between two looks since
 * that sign: the machine stood still.  SEEN: how many values of the number were seen. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SESSIONS_MAX 64
#define PAGE 4096
#define NUMBER_AT 64
#define CHUNK (1u << 20)
#define NS_PER_MS INT64_C(1000000)

struct watched {
	char name[32];
	uint64_t mark;
	unsigned port;
	uint64_t at; /* address of the number in rmemd */
	uint64_t number;
	int64_t sign_ns, changed_ns, still_ns;
	unsigned long seen;
};

static struct watched sessions[SESSIONS_MAX];
static struct iovec theirs[SESSIONS_MAX];
static unsigned n_sessions;
static pid_t rmemd;
static struct in_addr server, client;
static unsigned server_port;
static int diag;

_Noreturn static void die(const char *what)
{
	(void)fprintf(stderr, "witness: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec time;

	(void)clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* ---- the memory ---- */

static bool memory_read(uint64_t at, void *to, size_t bytes)
{
	struct iovec mine = { to, bytes };
	struct iovec their = { (void *)(uintptr_t)at, bytes };

	return process_vm_readv(rmemd, &mine, 1, &their, 1, 0) == (ssize_t)bytes;
}

/* Find the marks at the begin of the pages of a mapping. */
static void mapping_search(uint64_t from, uint64_t to)
{
	static uint8_t chunk[CHUNK];

	for (; from < to; from += CHUNK) {
		size_t bytes = to - from < CHUNK ? to - from : CHUNK;

		if (!memory_read(from, chunk, bytes))
			return;
		for (size_t page = 0; page < bytes; page += PAGE) {
			uint64_t word;

			memcpy(&word, chunk + page, sizeof(word));
			for (unsigned i = 0; word && i < n_sessions; i++)
				if (sessions[i].mark == word)
					sessions[i].at = from + page + NUMBER_AT;
		}
	}
}

static void sessions_find(void)
{
	char path[64], line[512];
	FILE *maps;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", rmemd);
	maps = fopen(path, "re");
	if (!maps)
		die(path);
	while (fgets(line, sizeof(line), maps)) {
		uint64_t from, to;
		char rights[5];

		/* pools are shared mappings */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) ==
			    3 &&
		    strcmp(rights, "rw-s") == 0)
			mapping_search(from, to);
	}
	(void)fclose(maps);
	for (unsigned i = 0; i < n_sessions; i++)
		if (!sessions[i].at) {
			errno = 0;
			die("a mark is not in rmemd's memory");
		}
}

/* ---- the signs of life ---- */

static void diag_ask(const struct watched *session)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} ask = {
		.header = { .nlmsg_len = sizeof(ask),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST },
		.request = { .sdiag_family = AF_INET,
			     .sdiag_protocol = IPPROTO_TCP,
			     .idiag_ext = 1 << (INET_DIAG_INFO - 1),
			     .idiag_states = UINT32_MAX,
			     .id = { .idiag_sport = htons((uint16_t)server_port),
				     .idiag_dport = htons((uint16_t)session->port),
				     .idiag_src = { server.s_addr },
				     .idiag_dst = { client.s_addr },
				     .idiag_cookie = { INET_DIAG_NOCOOKIE,
						       INET_DIAG_NOCOOKIE } } },
	};

	if (send(diag, &ask, sizeof(ask), 0) < 0)
		die("asking the kernel about a connection");
}

/* The milliseconds since data arrived on the connection; -1: there is no connection any more. */
static int64_t diag_answer(void)
{
	union {
		struct nlmsghdr header;
		uint8_t bytes[8192];
	} answer;
	ssize_t got = recv(diag, &answer, sizeof(answer), 0);
	const struct inet_diag_msg *about = NLMSG_DATA(&answer.header);
	const struct rtattr *attr = (const struct rtattr *)(about + 1);
	unsigned left = (unsigned)(got - (ssize_t)NLMSG_LENGTH(sizeof(*about)));

	if (got < 0)
		die("the kernel's answer about a connection");
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(*about)) ||
	    answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    about->idiag_state == TCP_LISTEN || about->idiag_state == TCP_TIME_WAIT)
		return -1;
	while (left >= sizeof(*attr) && attr->rta_len >= sizeof(*attr) &&
	       attr->rta_len <= left) {
		struct tcp_info info;

		if (attr->rta_type == INET_DIAG_INFO) {
			memcpy(&info, attr + 1, sizeof(info));
			return info.tcpi_last_data_recv;
		}
		left -= RTA_ALIGN(attr->rta_len);
		attr = (const void *)((const uint8_t *)attr + RTA_ALIGN(attr->rta_len));
	}
	return -1;
}

static void sign_update(struct watched *session)
{
	int64_t before_ns = now_ns(), ms, sign_ns;

	diag_ask(session);
	ms = diag_answer();
	sign_ns = before_ns - ms * NS_PER_MS;
	/* the kernel counts in ticks of some milliseconds */
	if (ms < 0 || sign_ns < session->sign_ns + 10 * NS_PER_MS)
		return;
	session->sign_ns = sign_ns;
	session->still_ns = 0;
}

/* ---- the watch ---- */

static void sessions_look(void)
{
	static int64_t last_ns;
	uint64_t numbers[SESSIONS_MAX];
	struct iovec mine = { numbers, n_sessions * sizeof(numbers[0]) };
	int64_t at_ns;

	if (process_vm_readv(rmemd, &mine, 1, theirs, n_sessions, 0) !=
	    (ssize_t)mine.iov_len)
		die("reading rmemd's memory");
	at_ns = now_ns();
	for (unsigned i = 0; i < n_sessions; i++) {
		struct watched *session = &sessions[i];

		if (last_ns && at_ns - last_ns > session->still_ns)
			session->still_ns = at_ns - last_ns;
		if (session->number == numbers[i])
			continue;
		session->number = numbers[i];
		session->changed_ns = at_ns;
		session->seen++;
	}
	last_ns = at_ns;
}

/* Whether standard input has ended. */
static bool input_read(bool *ret_fenced)
{
	struct pollfd at = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[16];

	if (poll(&at, 1, 0) < 1)
		return false;
	if (!fgets(line, sizeof(line), stdin))
		return true;
	*ret_fenced = true;
	(void)puts("noted");
	(void)fflush(stdout);
	return false;
}

static void watch(void)
{
	struct timespec ms = { .tv_nsec = NS_PER_MS };
	bool fenced = false;

	for (unsigned turn = 0; turn % 64 != 0 || !input_read(&fenced); turn++) {
		sessions_look();
		if (turn % 8 == 0 && !fenced)
			sign_update(&sessions[turn / 8 % n_sessions]);
		(void)nanosleep(&ms, NULL);
	}
}

static void sessions_read(void)
{
	char line[128];

	while (fgets(line, sizeof(line), stdin) && strcmp(line, "watch\n") != 0) {
		struct watched *session = &sessions[n_sessions];

		errno = EINVAL;
		if (n_sessions == SESSIONS_MAX ||
		    sscanf(line, "%31s %" SCNx64 " %u", session->name, &session->mark,
			   &session->port) != 3)
			die(line);
		n_sessions++;
	}
	if (!n_sessions)
		die("no sessions");
}

static void report(const struct watched *session)
{
	(void)printf("%s %" PRId64 " %" PRId64 " %lu\n", session->name,
		     (session->changed_ns - session->sign_ns) / NS_PER_MS,
		     session->still_ns / NS_PER_MS, session->seen);
}

int main(int argc, char **argv)
{
	struct sched_param fifo = { .sched_priority = 1 };

	if (argc != 5 || inet_pton(AF_INET, argv[2], &server) != 1 ||
	    inet_pton(AF_INET, argv[4], &client) != 1) {
		(void)fprintf(stderr, "usage: witness PID ADDRESS PORT CLIENT\n");
		return 2;
	}
	rmemd = (pid_t)strtol(argv[1], NULL, 10);
	server_port = (unsigned)strtoul(argv[3], NULL, 10);
	diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (diag < 0)
		die("sock_diag");
	sessions_read();
	sessions_find();
	for (unsigned i = 0; i < n_sessions; i++)
		theirs[i] = (struct iovec){ (void *)(uintptr_t)sessions[i].at,
					    sizeof(uint64_t) };
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) < 0 || mlockall(MCL_CURRENT) < 0)
		die("real-time priority");
	for (unsigned i = 0; i < n_sessions; i++)
		sign_update(&sessions[i]);
	for (unsigned i = 0; i < n_sessions; i++)
		if (!sessions[i].sign_ns) {
			errno = ENOTCONN;
			die(sessions[i].name);
		}
	(void)puts("watching");
	(void)fflush(stdout);
	watch();
	for (unsigned i = 0; i < n_sessions; i++)
		report(&sessions[i]);
	return 0;
}
