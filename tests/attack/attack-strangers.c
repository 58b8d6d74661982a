/* SPDX-License-Identifier: BSD-3-Clause */
/* One stranger with several connections at a time, which begins handshakes of TLS without an end:
 * what each kind of first message costs the daemon, and how long the pings of honest sessions take
 * beside it.  A stranger records a message once and repeats it: it computes nothing itself. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"
#include "base/clock.h"
#include "hello.h"
#include "measure.h"
#include "peer.h"
#include "unit/tls/client-hello.h"

#define REFUSED "status counters connections_refused"
#define SLOT "status counters refused slot"
#define OF_KEY "status counters refused wrong_key"
#define CONNECTIONS 8
#define KIND_MS (UINT64_C(500) * attack_options.rounds)
#define QUIET_MS (UINT64_C(1500) * attack_options.rounds)
#define AWAIT_MS 50
#define AIM_MS 20 /* of 999 in 1000 pings, above those beside nobody */

enum message {
	WRITTEN, /* of `hello` */
	OFFERED, /* by OpenSSL, with `groups` */
	WRONG_KEY,
	GOOD_KEY, /* whose owner does not end the handshake rightly */
	GARBAGE,
	SLOW, /* half of the connections send a byte a second, half of them nothing */
};

static const struct kind {
	const char *what;
	enum message message;
	const char *groups;
	struct client_hello hello;
} kinds[] = {
	{ "X25519", OFFERED, .groups = "X25519" },
	{ "P-256", OFFERED, .groups = "P-256" },
	{ "P-384", OFFERED, .groups = "P-384" },
	{ "P-521", OFFERED, .groups = "P-521" },
	{ "ffdhe8192", OFFERED, .groups = "ffdhe8192" },
	{ "groups and key shares of nobody", WRITTEN,
	  .hello = { .n_groups = 2200, .n_shares = 2200 } },
	{ "1900 identities", WRITTEN, .hello = { .n_identities = 1900 } },
	{ "1900 identities, with SHA-384", WRITTEN,
	  .hello = { .suite = 0x1302, .n_identities = 1900 } },
	{ "a session to resume", WRITTEN, .hello = { .n_identities = 1 } },
	{ "15 KiB", WRITTEN, .hello = { .padding = 15000 } },
	{ "20 KiB", WRITTEN, .hello = { .padding = 20000 } },
	{ "records of one byte", WRITTEN,
	  .hello = { .padding = 2000, .record_bytes = 1 } },
	{ "a wrong key", WRONG_KEY, .groups = "P-384" },
	{ "a good key, and a wrong end", GOOD_KEY, .groups = "P-384" },
	{ "garbage", .message = GARBAGE },
	{ "silence, or a byte a second", .message = SLOW },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- what is sent ---- */

static uint8_t first[CLIENT_HELLO_MAX];
static size_t first_bytes;
/* In place of the end of a handshake: what does not decrypt. */
static const uint8_t last[64] = { 23, 3, 3, 0, 59 };

static void first_prepare(const struct kind *kind)
{
	struct hello_offer offer = { 0 };

	memset(first, 'x', 1024);
	first_bytes = 1024;
	if (kind->message == GARBAGE)
		return;
	if (kind->message == WRITTEN || kind->message == SLOW) {
		first_bytes = client_hello_write(&kind->hello, first);
		return;
	}
	if (kind->message != OFFERED) {
		offer = hello_offer_of("mallory",
				       kind->message == WRONG_KEY ? "red" : "mallory");
		/* of what OpenSSL offers first a server with a certificate takes a suite that
		 * does not go with keys */
		offer.suites = "TLS_AES_128_GCM_SHA256";
	}
	offer.groups = kind->groups;
	first_bytes = hello_first(&offer, first, sizeof(first));
}

struct stranger {
	int fd;      /* -1: none */
	size_t sent; /* bytes of the first message */
	uint64_t sent_ms;
};

static struct stranger strangers[CONNECTIONS];

/* What the daemon takes no more of is left. */
static void first_send(struct stranger *stranger, size_t bytes)
{
	(void)!send(stranger->fd, first + stranger->sent, bytes,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
	stranger->sent += bytes;
	stranger->sent_ms = clock_now_ms();
}

static void stranger_begin(struct stranger *stranger, const struct kind *kind)
{
	*stranger = (struct stranger){ .sent_ms = clock_now_ms() };
	stranger->fd =
		socket_open(attack_options.address, attack_options.control_port, NULL);
	must(stranger->fd >= 0, "connecting");
	if (kind->message != SLOW)
		first_send(stranger, first_bytes);
}

/* Whether the daemon has ended it. */
static bool stranger_step(struct stranger *stranger, const struct kind *kind)
{
	bool drips = kind->message == SLOW && (stranger - strangers) % 2;
	uint8_t answer[16384];
	ssize_t n = recv(stranger->fd, answer, sizeof(answer), MSG_DONTWAIT);

	if (n > 0)
		(void)!send(stranger->fd, last, sizeof(last),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
	else if (n == 0 || errno != EAGAIN)
		return true;
	if (drips && clock_now_ms() - stranger->sent_ms >= 1000)
		first_send(stranger, 1);
	must(clock_now_ms() - stranger->sent_ms < ATTACK_WAIT_MS, "a connection stays");
	return false;
}

static void strangers_await(void)
{
	struct pollfd fds[CONNECTIONS];

	for (unsigned i = 0; i < CONNECTIONS; i++)
		fds[i] = (struct pollfd){ .fd = strangers[i].fd, .events = POLLIN };
	(void)poll(fds, CONNECTIONS, AWAIT_MS);
}

/* Begin again what has ended, until the time is over; the number that were ended in this step. */
static unsigned strangers_step(const struct kind *kind, bool goes_on)
{
	unsigned n = 0;

	for (struct stranger *at = strangers; at < strangers + CONNECTIONS; at++) {
		if (at->fd < 0 || !stranger_step(at, kind))
			continue;
		n++;
		(void)close(at->fd);
		at->fd = -1;
		if (goes_on)
			stranger_begin(at, kind);
	}
	return n;
}

static bool strangers_left(void)
{
	for (unsigned i = 0; i < CONNECTIONS; i++)
		if (strangers[i].fd >= 0)
			return true;
	return false;
}

static struct measure quiet;
static uint32_t worst_us; /* of 999 in 1000 pings */

/* ---- the table of costs ---- */

/* Microseconds of an attempt, beyond what the daemon uses without it. */
static double cost_us(uint64_t ns, uint64_t quiet_ns, const struct measure *measure,
		      uint64_t n)
{
	double idle_ns = (double)quiet_ns * (double)measure->ns / (double)quiet.ns;

	return n ? ((double)ns - idle_ns) / 1000 / (double)n : 0;
}

static void cost_print(const char *what, const struct measure *measure, uint64_t n)
{
	(void)printf("cost %-40s | %8.0f | %8.0f | %8.0f | %6.0f | %6.1f %6.1f %6.1f\n",
		     what, (double)n * 1e9 / (double)measure->ns,
		     cost_us(measure->cpu.loop_ns, quiet.cpu.loop_ns, measure, n),
		     cost_us(measure->cpu.others_ns, quiet.cpu.others_ns, measure, n),
		     (double)(measure->most_kib - measure->before_kib) / CONNECTIONS,
		     measure->p50_us / 1e3, measure->p999_us / 1e3,
		     measure->max_us / 1e3);
}

static void quiet_measure(const char *auth)
{
	char what[80];

	quiet = measure_quiet(QUIET_MS);
	worst_us = quiet.p999_us;
	(void)printf("cost %-40s | %8s | %8s | %8s | %6s | %s\n",
		     "kind of first message", "attempts", "us of", "us of", "KiB",
		     "ms of pings: half,");
	(void)printf("cost %-40s | %8s | %8s | %8s | %6s | %s\n", "", "a second",
		     "the loop", "threads", "each", "999 of 1000, all");
	(void)snprintf(what, sizeof(what), "%s: nobody", auth);
	cost_print(what, &quiet, 0);
}

/* ---- attempts ---- */

static void kind_try(const char *auth, const struct kind *kind)
{
	static char what[80];
	uint64_t fenced = counter_get(MEASURE_FENCED), n = 0, until_ms;
	struct measure measure;
	char by[80];

	(void)snprintf(what, sizeof(what), "%s: %s", auth, kind->what);
	first_prepare(kind);
	attempt(what, kind->message == WRONG_KEY ? OF_KEY : REFUSED, 1);
	measure = measure_begin();
	/* slow ones take their time anyway */
	until_ms = clock_now_ms() + (kind->message == SLOW ? 0 : KIND_MS);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		stranger_begin(&strangers[i], kind);
	while (strangers_left()) {
		strangers_await();
		n += strangers_step(kind, clock_now_ms() < until_ms);
		measure_look(&measure);
	}
	attempt_times(n);
	/* its ping may not come back */
	if (counter_get(MEASURE_FENCED) > fenced) {
		attempt_admitted("an honest session was fenced");
		return;
	}
	measure_end(&measure);
	if (measure.p999_us > worst_us)
		worst_us = measure.p999_us;
	cost_print(what, &measure, n);
	(void)snprintf(by, sizeof(by), "the server: each of %" PRIu64, n);
	attempt_refused(by);
}

/* ---- newcomers, beside an address that wants all slots ---- */

/* More than there are slots, and more than the kernel would hold for the daemon. */
#define CROWD 1500
#define CROWD_FROM "127.0.0.2"
#define NEWCOMERS 20

static bool is_open(int fd)
{
	char bytes[4096];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* In a process of its own: begin handshakes that do not go on, and again those that are ended. */
_Noreturn static void crowd_run(void)
{
	static int fds[CROWD];

	/* not longer than the attacker */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < CROWD; i++)
		fds[i] = -1;
	for (unsigned i = 0;; i = (i + 1) % CROWD) {
		if (i == 0)
			(void)usleep(1000);
		if (fds[i] >= 0 && is_open(fds[i]))
			continue;
		if (fds[i] >= 0)
			(void)close(fds[i]);
		fds[i] = socket_open(attack_options.address,
				     attack_options.control_port, CROWD_FROM);
		if (fds[i] >= 0)
			(void)!send(fds[i], first, first_bytes,
				    MSG_NOSIGNAL | MSG_DONTWAIT);
	}
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The time that each of them takes to get a session is printed. */
static unsigned newcomers_try(const char *what)
{
	struct hello_offer offer = hello_offer_of("red", "red");
	uint32_t us[NEWCOMERS];
	unsigned in = 0;

	offer.suites = "TLS_AES_128_GCM_SHA256";
	for (unsigned i = 0; i < NEWCOMERS; i++) {
		uint64_t begin_ns = clock_now_ns();

		in += hello_say(&offer, NULL) == 0;
		us[i] = (uint32_t)((clock_now_ns() - begin_ns) / 1000);
	}
	qsort(us, NEWCOMERS, sizeof(*us), compare);
	(void)printf("cost %s: %u of %d newcomers get in; half of them within %.1f ms, "
		     "all within %.1f\n",
		     what, in, NEWCOMERS, us[NEWCOMERS / 2] / 1e3,
		     us[NEWCOMERS - 1] / 1e3);
	return in;
}

static void slots_try(const char *auth)
{
	uint64_t before = counter_get(SLOT);
	static char what[80];
	unsigned in;
	pid_t crowd;

	(void)snprintf(what, sizeof(what), "%s: one address in all slots", auth);
	first_prepare(&kinds[0]);
	/* each newcomer takes one, and others come again at once */
	attempt(what, SLOT, NEWCOMERS);
	crowd = fork();
	must(crowd >= 0, "fork");
	if (crowd == 0)
		crowd_run();
	/* the slots are taken */
	while (counter_get(SLOT) == before)
		(void)usleep(1000);
	in = newcomers_try(what);
	(void)kill(crowd, SIGKILL);
	(void)waitpid(crowd, NULL, 0);
	if (in < NEWCOMERS)
		attempt_admitted("newcomers of another address are kept out");
	else
		attempt_refused("the server: what is beyond the address's share");
}

static void strangers_try(const char *auth, size_t n_kinds)
{
	measures_open();
	/* the threads have started, and have the memory that they keep */
	(void)hello_say(&(struct hello_offer){ .tenant = "red" }, NULL);
	quiet_measure(auth);
	for (size_t i = 0; i < n_kinds; i++)
		kind_try(auth, &kinds[i]);
	(void)printf("cost %s: 999 of 1000 pings take up to %.1f ms more than beside "
		     "nobody; the aim is %d\n",
		     auth, (worst_us - quiet.p999_us) / 1e3, AIM_MS);
	slots_try(auth);
}

void attack_strangers(void)
{
	strangers_try("psk", KINDS);
}

void attack_strangers_both(void)
{
	/* the last one is the same for both */
	strangers_try("both", KINDS - 1);
}
