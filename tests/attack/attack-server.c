/* SPDX-License-Identifier: BSD-3-Clause */
/* A hostile server against the client: rmem(1) must end with an error of one line, in time, without
 * a crash and in little memory.  A server that is not authenticated must get no byte but those of
 * the handshake. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "attack.h"
#include "base/clock.h"
#include "impostor.h"
#include "wire/codec.h"
#include "wire/errors.h"

/* In KiB.  An idle client has 15 MiB, and ten times as much under AddressSanitizer; a list of
 * leases may be long. */
#define CLIENT_MEMORY_MAX (400L << 10)
/* Of a client that keeps nothing, in times of the first client's, which gets no further than
 * TLS. */
#define CLIENT_MEMORY_TIMES 3
#define CLIENT_MS 40000
#define ERROR_BYTES 400

static struct impostor impostor;

/* ---- the client ---- */

static int listener_open(uint16_t *ret_port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
		     !listen(fd, 16) &&
		     !getsockname(fd, (struct sockaddr *)&address, &bytes),
	     "listening");
	*ret_port = ntohs(address.sin_port);
	return fd;
}

/* The first argument of the command; NULL: it has none. */
static const char *argument_of(const char *command)
{
	if (strcmp(command, "put") == 0)
		return "stolen";
	return strcmp(command, "rm") == 0 ? "*" : NULL;
}

/* rmem COMMAND, with its standard error in a pipe. */
static pid_t client_start(uint16_t port, const char *options, const char *command,
			  int *ret_fd)
{
	const char *program = getenv("RMEM");
	char uri[600];
	int ends[2];
	pid_t pid;

	must(program && !pipe2(ends, O_CLOEXEC), "a pipe");
	(void)snprintf(uri, sizeof(uri), "rmem://127.0.0.1:%u?fabric=tcp&%s", port,
		       options);
	pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		(void)dup2(ends[1], STDERR_FILENO);
		if (!freopen("/dev/null", "r", stdin) ||
		    !freopen("/dev/null", "w", stdout))
			_exit(3);
		(void)execl(program, "rmem", "-s", uri, "--timeout", "1s", command,
			    argument_of(command), "/etc/passwd", NULL);
		_exit(3);
	}
	(void)close(ends[1]);
	*ret_fd = ends[0];
	return pid;
}

/* What is wrong with the end of the client; NULL: nothing. */
static const char *client_check(int status, long memory, const char *error)
{
	static char text[200];
	static long first;
	long max = CLIENT_MEMORY_MAX;
	const char *end = strchr(error, '\n');

	if (!WIFEXITED(status)) {
		(void)snprintf(text, sizeof(text), "the client ended by signal %d",
			       WTERMSIG(status));
		return text;
	}
	if (WEXITSTATUS(status) == 0)
		return "the client trusts it";
	if (first == 0)
		first = memory;
	if (impostor.manner->keeps_nothing)
		max = CLIENT_MEMORY_TIMES * first;
	if (memory > max)
		return "the client took too much memory";
	if (WEXITSTATUS(status) != 1 || !end || end[1] || strncmp(error, "rmem: ", 6)) {
		(void)snprintf(text, sizeof(text), "status %d, %.100s",
			       WEXITSTATUS(status), error);
		return text;
	}
	return NULL;
}

/* Serve the client until it ends. */
static void serve(int listener, pid_t pid, int *ret_status, long *ret_memory)
{
	uint64_t until_ms = clock_now_ms() + CLIENT_MS;
	struct rusage usage;

	while (wait4(pid, ret_status, WNOHANG, &usage) == 0) {
		struct pollfd at = { .fd = listener, .events = POLLIN };

		if (clock_now_ms() > until_ms)
			(void)kill(pid, SIGKILL);
		if (poll(&at, 1, 20) > 0)
			impostor_serve(&impostor,
				       accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	}
	*ret_memory = usage.ru_maxrss;
}

/* The rest of such a text differs from run to run. */
static const char *without_time(char *text)
{
	char *time = strstr(text, " within ");

	if (time)
		*time = '\0';
	return text;
}

static void manner_try(const char *what, const char *options, const char *command,
		       const struct impostor_manner *manner)
{
	char error[ERROR_BYTES] = "", *end;
	const char *wrong;
	uint16_t port;
	int listener, status = 0, fd;
	long memory = 0;
	ssize_t n;
	pid_t pid;

	impostor.manner = manner;
	impostor.trusted = false;
	attempt(what, NULL, 1);
	listener = listener_open(&port);
	pid = client_start(port, options, command, &fd);
	serve(listener, pid, &status, &memory);
	n = read(fd, error, sizeof(error) - 1);
	error[n > 0 ? n : 0] = '\0';
	(void)close(fd);
	(void)close(listener);
	wrong = client_check(status, memory, error);
	if (impostor.trusted)
		wrong = "it was sent bytes that are for good servers alone";
	if (wrong) {
		attempt_admitted(wrong);
		return;
	}
	end = strrchr(error, '\n');
	*end = '\0';
	/* without the address, which differs from run to run */
	end = strstr(error, "127.0.0.1:");
	end = end ? strstr(end, ": ") : NULL;
	attempt_refused(without_time(end ? end + 2 : error));
}

/* ---- servers that are not authenticated ---- */

static void unknown_try(const char *psk, const char *ca)
{
	static const char alert[] = { 21, 3, 3, 0, 2, 2, 40 };
	static const char record[] = { 22, 3, 3, 0x40, 0 };
	static const struct {
		const char *what, *certificate;
	} certificates[] = {
		{ "a server with a certificate of another name", "server-name" },
		{ "a server with a certificate that signs itself", "server-self" },
		{ "a server with a certificate of another CA", "server-stranger" },
		{ "a server whose certificate has expired", "server-expired" },
		{ "a server whose certificate is not valid yet", "server-future" },
		{ "a server with a certificate for clients alone", "server-usage" },
		{ "a server with a certificate of no stated use", "server-any" },
		{ "a server with a client's certificate", "red" },
	};
	/* a welcome and an error without TLS: fields of no meaning */
	static const char welcome[64] = { 64, 0, 0, 0, 0x42, 0, 0, 0, 1 };
	static const char error[] = { 24, 0, 0, 0, 0x40, 0, 0, 0, 1, 0, 0,   0,
				      0,  0, 0, 0, 13,   0, 0, 0, 2, 0, 'n', 'o' };
	struct impostor_manner manner = { .plain = welcome,
					  .plain_bytes = sizeof(welcome) };
	char named[750];

	manner_try("a server without TLS that welcomes the client", psk, "ls", &manner);
	manner_try("the same, of a client with certificates", ca, "ls", &manner);
	manner = (struct impostor_manner){ .plain = error,
					   .plain_bytes = sizeof(error) };
	manner_try("a server that answers with an error without TLS", psk, "ls",
		   &manner);
	manner = (struct impostor_manner){ .plain = alert,
					   .plain_bytes = sizeof(alert) };
	manner_try("a server that refuses TLS", psk, "ls", &manner);
	manner = (struct impostor_manner){ .plain = record,
					   .plain_bytes = sizeof(record) };
	manner_try("a server that begins a handshake and stops", psk, "ls", &manner);
	manner.endless = true;
	manner_try("a server that sends records without an end", psk, "ls", &manner);
	manner = (struct impostor_manner){ .key = "red", .wrong_key = true };
	manner_try("a server with another key", psk, "ls", &manner);
	manner = (struct impostor_manner){ .key = "red", .version = TLS1_2_VERSION };
	manner_try("a server that speaks TLS 1.2 at most", psk, "ls", &manner);
	manner = (struct impostor_manner){ .key = "red", .no_protocol = true };
	manner_try("a server that has the key, and chooses no protocol", psk, "ls",
		   &manner);
	manner = (struct impostor_manner){ .certificate = "server" };
	manner_try("a server with a certificate instead of the key", psk, "ls",
		   &manner);
	for (size_t i = 0; i < sizeof(certificates) / sizeof(certificates[0]); i++) {
		manner.certificate = certificates[i].certificate;
		manner_try(certificates[i].what, ca, "ls", &manner);
	}
	(void)snprintf(named, sizeof(named), "%s&servername=localhost", ca);
	manner.certificate = "server-subject";
	manner_try("a server that has the name in its subject alone", named, "ls",
		   &manner);
}

/* ---- servers that have the key, and lie ---- */

static void welcome_good(struct impostor *with)
{
	(void)impostor_send(with);
}

static void welcome_garbage(struct impostor *with)
{
	static const uint8_t garbage[64] = { 64, 0, 0, 0, 0x42, 0, 0, 0, 1, 7, 7, 7 };

	(void)impostor_send_bytes(with, garbage, sizeof(garbage));
}

static void welcome_long(struct impostor *with)
{
	static const uint8_t header[WIRE_HEADER_BYTES] = { 0xff, 0xff, 0xff, 0xff,
							   0x42 };

	(void)impostor_send_bytes(with, header, sizeof(header));
}

static void welcome_other_id(struct impostor *with)
{
	with->msg.id += 1000;
	(void)impostor_send(with);
}

static void welcome_version(struct impostor *with)
{
	with->msg.welcome.version = 999;
	(void)impostor_send(with);
}

static void welcome_nowhere(struct impostor *with)
{
	with->msg.welcome.n_endpoints = 0;
	(void)impostor_send(with);
}

static void welcome_no_time(struct impostor *with)
{
	with->msg.welcome.heartbeat_ms = 0;
	with->msg.welcome.fence_ms = 0;
	(void)impostor_send(with);
}

static void welcome_all_time(struct impostor *with)
{
	with->msg.welcome.heartbeat_ms = UINT32_MAX;
	with->msg.welcome.fence_ms = UINT32_MAX;
	with->msg.welcome.grace_ms = UINT32_MAX;
	(void)impostor_send(with);
}

static void endless(struct impostor *with)
{
	/* 300 MiB at most */
	for (unsigned i = 0; i < 5 << 20 && impostor_send(with); i++)
		continue;
}

/* Events about leases that are not there. */
static void answer_events(struct impostor *with)
{
	wire_msg_init(&with->msg, WIRE_TYPE_notified);
	with->msg.id = 0;
	with->msg.notified.n_notices = WIRE_NOTICES_MAX;
	for (unsigned i = 0; i < 20000 && impostor_send(with); i++)
		continue;
}

/* Answers to nothing. */
static void answer_nothing(struct impostor *with)
{
	with->msg.id = 999999;
	endless(with);
}

static void answer_welcome(struct impostor *with)
{
	wire_msg_init(&with->msg, WIRE_TYPE_welcome);
	with->msg.id = with->ask.id;
	(void)impostor_send(with);
}

/* A page of leases from this one on, and there are more; no lease has the name of a pattern. */
static void list_send(struct impostor *with, uint64_t lease)
{
	struct wire_entries *entries = &with->msg.entries;

	if (with->ask.type == WIRE_TYPE_list) {
		wire_msg_init(&with->msg, WIRE_TYPE_entries);
		entries->more = 1;
		entries->n_entries = WIRE_ENTRIES_MAX;
		for (unsigned i = 0; i < WIRE_ENTRIES_MAX; i++) {
			entries->entries[i].lease = lease + i;
			memset(entries->entries[i].name, 'a', WIRE_NAME_MAX);
		}
	} else if (with->ask.type == WIRE_TYPE_stat) {
		wire_msg_init(&with->msg, WIRE_TYPE_error);
		with->msg.error.code = WIRE_CODE_missing;
	}
	with->msg.id = with->ask.id;
	(void)impostor_send(with);
}

/* The list of leases never ends: it repeats itself. */
static void answer_list(struct impostor *with)
{
	list_send(with, 7);
}

/* Or its leases are ever new ones. */
static void answer_list_on(struct impostor *with)
{
	list_send(with, with->ask.list.after + 1);
}

/* A lease as wanted, but for one lie. */
static struct wire_lease *lease_make(struct impostor *with)
{
	struct wire_lease *lease = &with->msg.lease;

	if (with->ask.type != WIRE_TYPE_allocate)
		return NULL;
	wire_msg_init(&with->msg, WIRE_TYPE_lease);
	with->msg.id = with->ask.id;
	lease->lease = 7;
	lease->generation = 1;
	lease->rights = 3;
	lease->bytes = with->ask.allocate.bytes;
	(void)strcpy(lease->name, with->ask.allocate.name);
	lease->n_segments = 1;
	lease->segments[0] = (struct wire_segment){
		.bytes = lease->bytes, .node = -1, .page_bytes = 4096, .endpoints = 1
	};
	lease->n_keys = 1;
	lease->keys[0] = (struct wire_key){ .addr = 4096, .rkey = 7 };
	return lease;
}

static void answer_short(struct impostor *with)
{
	struct wire_lease *lease = lease_make(with);

	if (lease)
		lease->bytes = lease->segments[0].bytes = 1;
	(void)impostor_send(with);
}

static void answer_sum(struct impostor *with)
{
	struct wire_lease *lease = lease_make(with);

	if (lease) {
		lease->n_segments = 2;
		lease->segments[0].bytes = UINT64_MAX;
		lease->segments[1] = lease->segments[0];
		lease->segments[1].bytes = lease->bytes + 1;
	}
	(void)impostor_send(with);
}

static void answer_key_segment(struct impostor *with)
{
	struct wire_lease *lease = lease_make(with);

	if (lease)
		lease->keys[0].segment = 200;
	(void)impostor_send(with);
}

static void answer_key_endpoint(struct impostor *with)
{
	struct wire_lease *lease = lease_make(with);

	if (lease)
		lease->keys[0].endpoint = 200;
	(void)impostor_send(with);
}

static void answer_key_address(struct impostor *with)
{
	struct wire_lease *lease = lease_make(with);

	if (lease)
		lease->keys[0].addr = UINT64_MAX;
	(void)impostor_send(with);
}

static void answer_no_segments(struct impostor *with)
{
	struct wire_lease *lease = lease_make(with);

	if (lease)
		lease->n_segments = lease->n_keys = 0;
	(void)impostor_send(with);
}

/* Each answer describes the lease with other keys, and an event says at once that they are stale:
 * 64 segments at 32 endpoints make an attachment as large as there is. */
static void answer_changing(struct impostor *with)
{
	static uint64_t rkey;
	static struct wire_allocate first;
	struct wire_lease *lease;

	if (with->ask.type == WIRE_TYPE_allocate)
		first = with->ask.allocate;
	if (with->ask.type == WIRE_TYPE_attach) {
		with->ask.type = WIRE_TYPE_allocate;
		with->ask.allocate = first;
	}
	lease = lease_make(with);
	if (!lease) {
		(void)impostor_send(with);
		return;
	}
	lease->n_segments = WIRE_SEGMENTS_MAX;
	for (unsigned i = 0; i < WIRE_SEGMENTS_MAX; i++) {
		lease->segments[i] = lease->segments[0];
		lease->segments[i].bytes = lease->bytes / WIRE_SEGMENTS_MAX;
	}
	lease->segments[0].bytes += lease->bytes % WIRE_SEGMENTS_MAX;
	lease->keys[0].rkey = rkey++;
	if (!impostor_send(with))
		return;
	wire_msg_init(&with->msg, WIRE_TYPE_changed);
	with->msg.changed.lease = 7;
	(void)impostor_send(with);
}

static void liars_try(const char *psk)
{
	static const struct {
		const char *what, *command;
		void (*welcome)(struct impostor *with);
		void (*answer)(struct impostor *with);
	} lies[] = {
		{ "a welcome that is malformed", "ls", welcome_garbage, NULL },
		{ "a welcome of 4 GiB", "ls", welcome_long, NULL },
		{ "a welcome that answers nothing", "ls", welcome_other_id, NULL },
		{ "a welcome of another version", "ls", welcome_version, NULL },
		{ "a welcome without endpoints", "put", welcome_nowhere, NULL },
		{ "a welcome with a fence time of 0", "ls", welcome_no_time, NULL },
		{ "a welcome with the longest fence time", "ls", welcome_all_time,
		  NULL },
		{ "no answers after the welcome", "ls", welcome_good, NULL },
		{ "welcomes without an end", "ls", endless, NULL },
		{ "events without an end", "ls", welcome_good, answer_events },
		{ "answers to nothing without an end", "ls", welcome_good,
		  answer_nothing },
		{ "answers of another kind", "ls", welcome_good, answer_welcome },
		{ "a list of leases without an end", "ls", welcome_good, answer_list },
		{ "a list of ever new leases", "ls", welcome_good, answer_list_on },
		{ "a list of ever new leases, of rm", "rm", welcome_good,
		  answer_list_on },
		{ "a lease that is too short", "put", welcome_good, answer_short },
		{ "a lease whose segments are too long", "put", welcome_good,
		  answer_sum },
		{ "a key of no segment", "put", welcome_good, answer_key_segment },
		{ "a key of no endpoint", "put", welcome_good, answer_key_endpoint },
		{ "a key at the end of the addresses", "put", welcome_good,
		  answer_key_address },
		{ "a lease without memory", "put", welcome_good, answer_no_segments },
		{ "a lease whose keys change without end", "put", welcome_good,
		  answer_changing },
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		const struct impostor_manner manner = {
			.key = "red",
			.welcome = lies[i].welcome,
			.answer = lies[i].answer,
			.keeps_nothing = lies[i].answer == answer_changing
		};

		manner_try(lies[i].what, psk, lies[i].command, &manner);
	}
}

void attack_server(void)
{
	char psk[300], ca[700];

	(void)snprintf(psk, sizeof(psk), "psk=%s/red.psk", attack_options.folder);
	(void)snprintf(ca, sizeof(ca), "ca=%s/ca.pem&cert=%s/red.pem&key=%s/red.pem",
		       attack_options.folder, attack_options.folder,
		       attack_options.folder);
	impostor_admit(listener_open(&impostor.data_port));
	unknown_try(psk, ca);
	liars_try(psk);
}
