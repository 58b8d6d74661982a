/* SPDX-License-Identifier: BSD-3-Clause */
/* What hostile peers of an RDMA device cost the daemon, and how long the pings of honest sessions
 * take beside them: requests of rdma_cm that name hosts which are not there, requests of those who
 * have no token, and sessions that end with many channels each. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asleep.h"
#include "attack.h"
#include "base/clock.h"
#include "base/random.h"
#include "fabric/address.h"
#include "link.h"
#include "measure.h"
#include "peer.h"
#include "requests.h"
#include "tls/admission.h"

#define ERRORS "devices rdma errors"
#define REFUSED "devices rdma refused"
#define CHANNELS "devices rdma channels"
#define CHANNELS_EVER "devices rdma channels_ever"
#define LONGEST "status turns wall_longest_us"
#define TURNS "rmemd_loop_turn_seconds_sum"
#define BACKLOG 64 /* [limits] connections of the daemon */
#define KIND_MS (UINT64_C(1000) * attack_options.rounds)
#define LOOK_MS 50
#define RATE 600 /* of requests a second */
#define RATE_HIGH 1300
#define HOSTS 4u
#define HOSTS_FROM 200 /* the last byte of their addresses */
#define PROCESSES 5
#define CHANNELS_MAX 125
#define CHANNELS_EACH 25

static unsigned channels_each(void)
{
	unsigned n = CHANNELS_EACH * attack_options.rounds;

	return n < CHANNELS_MAX ? n : CHANNELS_MAX;
}

/* ---- the table of costs ---- */

static void heads_print(void)
{
	(void)printf("cost %-48s | %8s | %6s | %8s | %-23s | %s\n",
		     "kind of hostile peer over RDMA", "a second", "loop,", "threads,",
		     "ms of pings: half,", "longest turn");
	(void)printf("cost %-48s | %8s | %6s | %8s | %-23s | %s\n", "", "", "% CPU",
		     "% CPU", "99 of 100, all", "so far, ms");
}

static void cost_print(const char *what, const struct measure *measure, uint64_t n)
{
	double ns = (double)measure->ns;

	(void)printf("cost %-48s | %8.0f | %6.1f | %8.1f | %7.1f %7.1f %7.1f | %8.1f\n",
		     what, (double)n * 1e9 / ns,
		     (double)measure->cpu.loop_ns * 100 / ns,
		     (double)measure->cpu.others_ns * 100 / ns, measure->p50_us / 1e3,
		     measure->p99_us / 1e3, measure->max_us / 1e3,
		     (double)counter_get(LONGEST) / 1e3);
}

/* ---- attempts ---- */

static struct {
	const char *what;
	uint64_t n, fenced, channels;
	struct measure measure;
} now;

static void kind_begin(const char *what, const char *counter, uint64_t n)
{
	attempt(what, counter, n);
	now.what = what;
	now.n = n;
	now.fenced = counter_get(MEASURE_FENCED);
	now.channels = counter_get(CHANNELS_EVER);
	now.measure = measure_begin();
}

/* Whether it may be refused: it has hurt nobody.  Of those who were fenced, so many were the
 * attacker's. */
static bool kind_end(uint64_t fenced)
{
	/* its ping may not come back */
	if (counter_get(MEASURE_FENCED) - now.fenced > fenced) {
		attempt_admitted("an honest session was fenced");
		return false;
	}
	measure_end(&now.measure);
	cost_print(now.what, &now.measure, now.n);
	if (counter_get(CHANNELS_EVER) == now.channels)
		return true;
	attempt_admitted("a channel");
	return false;
}

static void counter_await(const char *counter, uint64_t wanted)
{
	uint64_t until_ms = clock_now_ms() + ATTACK_WAIT_MS;

	while (counter_get(counter) != wanted) {
		must(clock_now_ms() < until_ms, counter);
		peers_keep();
		(void)poll(NULL, 0, LOOK_MS);
	}
}

/* ---- requests without a token ---- */

/* So many a second from one sender; their number. */
static uint64_t rate_send(struct requests *requests, uint64_t rate)
{
	uint64_t n = rate * KIND_MS / 1000, begin_ns = clock_now_ns();
	struct request request = request_new();
	struct fabric_hello hello = { .session = 1, .channel = 1 };

	random_bytes(hello.token, sizeof(hello.token));
	fabric_hello_encode(&hello, request.data);
	for (uint64_t i = 0; i < n; i++) {
		while (clock_now_ns() - begin_ns < i * UINT64_C(1000000000) / rate)
			(void)poll(NULL, 0, 1);
		requests_send(requests, &request);
	}
	return n;
}

/* The first ones reach the daemon; while its backlog is full the kernel drops others. */
static void stream_try(struct requests *requests, const char *what, uint64_t rate)
{
	kind_begin(what, REFUSED, BACKLOG);
	now.n = rate_send(requests, rate);
	if (kind_end(0))
		attempt_refused("the server, or its kernel: each of them");
}

/* What the kernel alone takes for them, which it refuses itself. */
static void kernel_measure(const struct fabric_endpoint *endpoint)
{
	struct fabric_endpoint nobody = *endpoint;
	struct requests *requests;
	struct measure measure;
	uint64_t n;

	nobody.address.port = attack_options.data_port;
	requests = requests_open(&nobody);
	measure = measure_begin();
	n = rate_send(requests, RATE_HIGH);
	measure_end(&measure);
	cost_print("the same to a port where nobody listens", &measure, n);
	requests_close(requests);
}

/* ---- hosts that are not there ---- */

static struct fabric_address absent(unsigned i)
{
	struct fabric_address address = request_new().from;

	address.bytes[3] = (uint8_t)(HOSTS_FROM + i);
	return address;
}

/* Whether the daemon's kernel has asked the network for the host, whatever it has heard. */
static bool was_asked_for(const struct fabric_address *address)
{
	char line[200], host[64];
	bool found = false;
	FILE *file = fopen("/proc/net/arp", "re");

	must(file, "/proc/net/arp");
	(void)snprintf(host, sizeof(host), "%u.%u.%u.%u ", address->bytes[0],
		       address->bytes[1], address->bytes[2], address->bytes[3]);
	while (!found && fgets(line, sizeof(line), file))
		found = !strncmp(line, host, strlen(host));
	(void)fclose(file);
	return found;
}

/* A request of a good session with the GID of a host that is not there.  `named`: the session has
 * vouched for the host, as it may for another address of its own. */
static void absent_send(struct requests *requests, struct peer *peer, unsigned i,
			bool named)
{
	struct fabric_hello hello = peer_grant(peer);
	struct request request = request_new();
	uint8_t gid[16];

	request.route = absent(i);
	if (named) {
		request.from = request.route;
		fabric_address_to_gid(&request.from, gid);
		must(!admission_origin(peer->secret, hello.session, hello.channel, gid,
				       hello.origin),
		     "the origin of a channel");
	}
	fabric_hello_encode(&hello, request.data);
	requests_send(requests, &request);
}

/* How many of them were asked for. */
static unsigned absent_asked(unsigned first)
{
	unsigned n = 0;

	for (unsigned i = first; i < first + HOSTS; i++) {
		const struct fabric_address address = absent(i);

		n += was_asked_for(&address);
	}
	return n;
}

static void absent_try(struct requests *requests, const char *what, unsigned first,
		       bool named)
{
	uint64_t errors = counter_get(ERRORS), until_ms = clock_now_ms() + KIND_MS;
	struct peer *peer = peer_open("mallory");
	unsigned asked;

	kind_begin(what, ERRORS, 0);
	do {
		for (unsigned i = first; i < first + HOSTS; i++)
			absent_send(requests, peer, i, named);
		now.n += HOSTS;
		counter_await(ERRORS, errors + now.n);
	} while (clock_now_ms() < until_ms);
	attempt_times(now.n);
	asked = absent_asked(first);
	must(asked == HOSTS || !named, "the kernel does not ask for hosts");
	if (kind_end(0)) {
		if (named)
			attempt_refused("the server: nobody answers");
		else if (asked)
			attempt_admitted("the kernel asks for them");
		else
			attempt_refused("the server: another host");
	}
	peer_bye(peer);
}

/* ---- many channels that end at once ---- */

static void channels_hold(int ready)
{
	struct peer *peer = peer_open("mallory");
	struct link *link = link_open(peer);
	struct fabric_channel_params params = { .depth = 1,
						.timeout_ms = ATTACK_WAIT_MS,
						.owner = link };
	struct fabric_channel *channel;
	struct fabric_cq *cq;

	must(!link->ops->cq_create(link->domain, channels_each(), &cq), "a cq");
	for (unsigned i = 0; i < channels_each(); i++) {
		params.hello = peer_grant(peer);
		must(!link->ops->connect(cq, &params, &channel),
		     "a granted channel is refused");
	}
	must(write(ready, "", 1) == 1, "a pipe");
	for (;;) {
		(void)poll(NULL, 0, LOOK_MS);
		peers_keep();
	}
}

static pid_t holder_start(int ready)
{
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		channels_hold(ready);
	}
	return pid;
}

static void deaths_try(void)
{
	uint64_t channels = counter_get(CHANNELS), fenced = counter_get(MEASURE_FENCED);
	uint64_t until_ms;
	static char what[80];
	pid_t pids[PROCESSES];
	char byte;
	int ready[2];

	must(!pipe(ready), "a pipe");
	for (unsigned i = 0; i < PROCESSES; i++)
		pids[i] = holder_start(ready[1]);
	for (unsigned i = 0; i < PROCESSES; i++)
		must(read(ready[0], &byte, 1) == 1, "a pipe");
	counter_await(CHANNELS, channels + (uint64_t)PROCESSES * channels_each());
	(void)snprintf(what, sizeof(what), "%u processes with %u channels each, killed",
		       PROCESSES, channels_each());
	kind_begin(what, MEASURE_FENCED, PROCESSES);
	until_ms = clock_now_ms() + KIND_MS;
	now.n = (uint64_t)PROCESSES * channels_each();
	for (unsigned i = 0; i < PROCESSES; i++)
		(void)kill(pids[i], SIGKILL);
	for (unsigned i = 0; i < PROCESSES; i++)
		(void)waitpid(pids[i], NULL, 0);
	counter_await(CHANNELS, channels);
	counter_await(MEASURE_FENCED, fenced + PROCESSES);
	/* workers destroy the queue pairs */
	while (clock_now_ms() < until_ms)
		(void)poll(NULL, 0, LOOK_MS);
	if (kind_end(PROCESSES))
		attempt_refused("the server: those alone are fenced");
	(void)close(ready[0]);
	(void)close(ready[1]);
}

/* ---- all ---- */

/* What the loop has used is in its turns, of which the longest is told. */
static void turns_check(double turns_s, const struct measure *all)
{
	uint64_t turns_us = (uint64_t)(turns_s * 1e6);
	uint64_t used_us = all->cpu.loop_ns / 1000;

	attempt("work of the loop that is in none of its turns", NULL, 1);
	attempt_measured(used_us > turns_us ? used_us - turns_us : 0, used_us / 5,
			 "us of the CPU");
}

/* The workers wait for devices.  The loop may meet one of them at a lock of the kernel. */
static void asleep_check(struct asleep asleep)
{
	char unit[80];

	(void)snprintf(unit, sizeof(unit), "of %" PRIu64 " times", asleep.looks);
	attempt("the loop asleep in a call of the device", NULL, 1);
	attempt_measured(asleep.found, asleep.looks / 500, unit);
}

void attack_requests(void)
{
	struct peer *peer = peer_open("mallory");
	const struct fabric_endpoint endpoint = link_endpoint(peer);
	bool iwarp = endpoint.flags & WIRE_ENDPOINT_CONFIRM;
	struct requests *requests;
	struct measure quiet, all;
	double turns_s;

	peer_bye(peer);
	measures_open();
	turns_s = metric_get(TURNS);
	all = measure_begin();
	asleep_begin(counter_get("status pid"));
	heads_print();
	quiet = measure_quiet(KIND_MS);
	cost_print("nobody", &quiet, 0);
	deaths_try();
	requests = requests_open(&endpoint);
	/* over iWARP a request names no GID */
	if (!iwarp) {
		absent_try(requests, "the GIDs of absent hosts", 0, false);
		absent_try(requests, "absent hosts that the session vouches for", HOSTS,
			   true);
	}
	stream_try(requests, "requests without a token, 600 a second", RATE);
	stream_try(requests, "requests without a token, 1300 a second", RATE_HIGH);
	/* over iWARP there is no connection to send one on */
	if (!iwarp)
		kernel_measure(&endpoint);
	requests_close(requests);
	measure_end(&all);
	asleep_check(asleep_end());
	turns_check(metric_get(TURNS) - turns_s, &all);
}
