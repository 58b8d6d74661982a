/* SPDX-License-Identifier: BSD-3-Clause */
/* The session of the sweep: it starts a daemon, uses all that the library has, and stops the
 * daemon.
 *
 *   session RMEMD DIRECTORY FABRIC ADDRESS PORT AUTH [PRELOAD]
 *
 * One call of the daemon or of this process fails.  A step that fails must say why, and must
 * succeed when it is done once more; so a step can be done twice. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <rmem/rmem.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "sweep/calls.h"
#include "sweep/server.h"

#define BYTES 65536
/* No step needs so long, on a busy machine either: a time-out is a hang. */
#define TIMEOUT_MS 25000
#define STEP_MS 60000

static char uri[256];
static rmem *first, *second;
static rmem_lease *lease;  /* without a name */
static rmem_lease *kept;   /* has a name */
static rmem_lease *theirs; /* the same lease of the second session */
static rmem_queue *queue;
static rmem_buffer *buffer;
static unsigned char data[BYTES], back[BYTES];
static bool no_atomics;
static const char *daemon_text; /* of the daemon, when a step of it fails */
static char text[512];

/* ---- the daemon; its steps are not counted in this process ---- */

static int start(void)
{
	return server_start(&daemon_text);
}

static int reload(void)
{
	int err = server_reload(6, &daemon_text);

	return err;
}

static int restart(void)
{
	static bool stopped;

	if (!stopped)
		server_stop();
	stopped = true;
	return start();
}

static int admin(void)
{
	static const char *const paths[] = { "/v1/status",  "/v1/pools",
					     "/v1/devices", "/v1/sessions",
					     "/v1/leases",  "/v1/tenants" };

	for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int status = server_get(paths[i]);

		if (status == 200)
			continue;
		(void)snprintf(text, sizeof(text), "%s: HTTP status %d", paths[i],
			       status);
		daemon_text = text;
		return -EIO;
	}
	if (server_get("/v1/none") != 404) {
		daemon_text = "/v1/none is not answered with 404";
		return -EIO;
	}
	return 0;
}

/* ---- sessions and leases ---- */

static int session_open(rmem **ret_session)
{
	struct rmem_options options = rmem_options_init();

	options.timeout_ms = TIMEOUT_MS;
	return *ret_session ? 0 : rmem_open(uri, &options, ret_session);
}

static int open_first(void)
{
	return session_open(&first);
}

static int open_second(void)
{
	return session_open(&second);
}

static int alloc(void)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();

	params.bytes = BYTES;
	return lease ? 0 : rmem_alloc(first, &params, &lease);
}

static int alloc_kept(void)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	int result;

	if (kept)
		return 0;
	params.bytes = BYTES;
	params.name = "kept";
	/* the first try may have allocated it */
	params.flags = RMEM_ALLOC_ATTACH;
	result = rmem_alloc(first, &params, &kept);
	return result < 0 ? result : 0;
}

static int zeros(void)
{
	static const unsigned char none[BYTES];
	int err = rmem_read(lease, 0, back, BYTES);

	if (!err && memcmp(back, none, BYTES) != 0)
		broken("a new lease does not read as zero");
	return err;
}

static int write_all(void)
{
	int err = rmem_write(lease, 0, data, BYTES);

	return err ? err : rmem_write(kept, 0, data, BYTES);
}

static void compare(const char *what, size_t bytes)
{
	if (memcmp(back, data, bytes) != 0)
		broken("%s: wrong bytes", what);
}

static int read_kept(void)
{
	int err;

	memset(back, 0, sizeof(back));
	err = rmem_read(kept, 0, back, BYTES);
	if (!err)
		compare("the lease with a name", BYTES);
	return err;
}

static int attach(void)
{
	return theirs ? 0
		      : rmem_attach(second, "kept", RMEM_READ | RMEM_WRITE, &theirs);
}

static int read_theirs(void)
{
	int err;

	memset(back, 0, sizeof(back));
	err = rmem_read(theirs, 0, back, BYTES);
	if (!err)
		compare("the lease of the other session", BYTES);
	return err;
}

/* The outcome of an atomic that fails may be unknown. */
static int atomics(void)
{
	uint64_t old, zero = 0;
	int err = rmem_write(lease, 0, &zero, sizeof(zero));

	if (!err)
		err = rmem_fetch_add(lease, 0, 5, &old);
	if (err == -EOPNOTSUPP && no_atomics)
		return 0;
	if (!err && old != 0)
		broken("fetch-add finds %" PRIu64 ", not 0", old);
	if (!err)
		err = rmem_compare_swap(lease, 0, 5, 9, &old);
	if (!err && old != 5)
		broken("compare-swap finds %" PRIu64 ", not 5", old);
	if (!err)
		err = rmem_read(lease, 0, &old, sizeof(old));
	if (!err && old != 9)
		broken("after atomics there is %" PRIu64 ", not 9", old);
	return err;
}

static int inband(void)
{
	uint32_t one, other;
	int err = rmem_fill(lease, 0, BYTES, RMEM_FILL_BYTE(7));

	if (!err)
		err = rmem_copy(lease, 0, kept, 0, BYTES / 2);
	if (!err)
		err = rmem_crc32c(lease, 0, BYTES / 2, &one);
	if (!err)
		err = rmem_crc32c(kept, 0, BYTES / 2, &other);
	if (!err && one != other)
		broken("the copy differs");
	return err ? err : rmem_ping_data(first, NULL);
}

static int vectors(void)
{
	struct rmem_vec vec[] = { { .addr = back, .bytes = 100 },
				  { .addr = back + 100, .bytes = BYTES - 100 } };
	int err;

	memset(back, 0, sizeof(back));
	err = rmem_readv(kept, 0, vec, 2);
	if (!err)
		compare("the vectored read", BYTES);
	return err ? err : rmem_writev(kept, 0, vec, 2);
}

static int buffer_create(void)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();

	params.bytes = BYTES;
	return buffer ? 0 : rmem_buffer_create(first, &params, &buffer);
}

static int buffer_use(void)
{
	int err = rmem_read(kept, 0, rmem_buffer_addr(buffer), BYTES);

	if (!err && memcmp(rmem_buffer_addr(buffer), data, BYTES) != 0)
		broken("wrong bytes in the buffer");
	return err;
}

static int buffer_free(void)
{
	int err = rmem_buffer_free(buffer);

	if (!err)
		buffer = NULL;
	return err;
}

/* ---- queues ---- */

static int queue_create(void)
{
	struct rmem_queue_params params = rmem_queue_params_init();

	params.channels = 2;
	return queue ? 0 : rmem_queue_create(first, &params, &queue);
}

static int completions_take(unsigned n)
{
	struct rmem_completion completion;
	int err = 0;

	for (; n > 0; n--) {
		int got = rmem_wait(queue, &completion, 1, 1, TIMEOUT_MS);

		if (got != 1)
			broken("hang: no completion");
		if (!completion.status)
			continue;
		(void)snprintf(text, sizeof(text), "%s",
			       rmem_completion_error(queue, &completion));
		daemon_text = text;
		err = completion.status;
	}
	return err;
}

static int queue_use(void)
{
	struct rmem_source source = { .lease = kept };
	struct rmem_op ops[] = {
		rmem_op_write(lease, 0, data, BYTES / 2),
		rmem_op_write(lease, BYTES / 2, data + BYTES / 2, BYTES / 2),
		rmem_op_read(lease, 0, back, BYTES),
		rmem_op_copy(lease, 0, &source, BYTES),
		rmem_op_init(RMEM_OP_PING, NULL, 0, 0),
	};
	const unsigned n = sizeof(ops) / sizeof(ops[0]);
	int taken, err;

	ops[2].flags = RMEM_OP_FENCE;
	ops[3].flags = RMEM_OP_FENCE;
	taken = rmem_submit(queue, ops, n);
	if (taken < 0)
		return taken;
	err = completions_take((unsigned)taken);
	if (err)
		return err;
	if (taken < (int)n) /* the library says why at the next call */
		return rmem_submit(queue, ops + taken, n - (unsigned)taken) < 0
			       ? -EIO
			       : completions_take(n - (unsigned)taken);
	compare("the read of the queue", BYTES);
	return 0;
}

static int queue_arm(void)
{
	int result = rmem_queue_arm(queue);

	return result < 0 ? result : 0;
}

/* ---- notifications ---- */

static int watch(void)
{
	return rmem_watch(theirs);
}

static int notified_fd(void)
{
	int fd = rmem_notified_fd(second);

	return fd < 0 ? fd : 0;
}

static int notify(void)
{
	return rmem_write_notify(kept, 0, data, 8, 42);
}

/* A notification may have been lost with the connection: then there is another notice. */
static int notified(void)
{
	struct rmem_notice notice;
	int n = rmem_notified(second, &notice, 1, TIMEOUT_MS);

	if (n == 0)
		broken("hang: no notification, and no notice that one was lost");
	return n < 0 ? n : 0;
}

/* ---- the other requests ---- */

static int grow(void)
{
	int err = rmem_grow(kept, 4 * BYTES);

	return err ? err : rmem_write(kept, 3 * BYTES, data, BYTES);
}

static int shrink(void)
{
	return rmem_shrink(kept, BYTES);
}

static int names(void)
{
	int err = rmem_rename(lease, "other", RMEM_RENAME_REPLACE);

	if (!err)
		err = rmem_renew(lease, 60000);
	return err ? err : rmem_keep(lease, 60000);
}

static int count(const struct rmem_stat *, void *arg)
{
	++*(int *)arg;
	return 0;
}

static int list(void)
{
	struct rmem_stat stat = rmem_stat_init();
	int n = 0;
	int err = rmem_list(first, NULL, count, &n);

	if (!err && n != 2)
		broken("%d leases are listed, not 2", n);
	return err ? err : rmem_stat(first, "kept", &stat);
}

static int ping(void)
{
	return rmem_ping(first, NULL);
}

static int ping_second(void)
{
	return rmem_ping(second, NULL);
}

static int unwatch(void)
{
	return rmem_unwatch(theirs);
}

static int detach(void)
{
	int err = theirs ? rmem_detach(theirs) : 0;

	if (!err)
		theirs = NULL;
	return err;
}

static int queue_free(void)
{
	rmem_queue_free(queue);
	queue = NULL;
	return 0;
}

static int destroy(void)
{
	int err = lease ? rmem_destroy(lease) : 0;

	if (err)
		return err;
	lease = NULL;
	err = kept ? rmem_destroy(kept) : 0;
	if (!err)
		kept = NULL;
	return err;
}

static int close_all(void)
{
	rmem_close(second);
	rmem_close(first);
	return 0;
}

static int stop(void)
{
	server_stop();
	return 0;
}

/* ---- the steps ---- */

static const struct step {
	const char *name;
	int (*run)(void);
	bool daemon; /* a step of the daemon */
} steps[] = {
	{ "start", start, true },
	{ "open", open_first, false },
	{ "alloc", alloc, false },
	{ "zeros", zeros, false },
	{ "alloc with a name", alloc_kept, false },
	{ "write", write_all, false },
	{ "read", read_kept, false },
	{ "open again", open_second, false },
	{ "attach", attach, false },
	{ "read what was attached", read_theirs, false },
	{ "atomics", atomics, false },
	{ "in-band", inband, false },
	{ "vectors", vectors, false },
	{ "buffer", buffer_create, false },
	{ "buffer in use", buffer_use, false },
	{ "buffer free", buffer_free, false },
	{ "queue", queue_create, false },
	{ "queue in use", queue_use, false },
	{ "queue arm", queue_arm, false },
	{ "watch", watch, false },
	{ "notified_fd", notified_fd, false },
	{ "notify", notify, false },
	{ "notified", notified, false },
	{ "grow", grow, false },
	{ "shrink", shrink, false },
	{ "names", names, false },
	{ "list", list, false },
	{ "admin", admin, true },
	{ "reload", reload, true },
	{ "ping after the reload", ping, false },
	{ "restart", restart, true },
	{ "ping after the restart", ping, false },
	{ "ping of the other session", ping_second, false },
	{ "read after the restart", read_kept, false },
	{ "queue after the restart", queue_use, false },
	{ "list after the restart", list, false },
	{ "unwatch", unwatch, false },
	{ "detach", detach, false },
	{ "queue free", queue_free, false },
	{ "destroy", destroy, false },
	{ "close", close_all, false },
	{ "stop", stop, true },
};

static void text_check(const char *step, int err, const char *why)
{
	(void)printf("%s: %d: %s\n", step, err, why);
	if (!*why || strstr(why, "Success") || strstr(why, "(null)") ||
	    strchr(why, '\n'))
		broken("%s: no clear text of the error %d: '%s'", step, err, why);
}

/* Whether the first RDMA device of the machine is of iWARP, which has no atomics. */
static bool device_is_iwarp(void)
{
	glob_t found;
	FILE *file;
	int type = EOF;

	if (glob("/sys/class/infiniband/*/node_type", 0, NULL, &found))
		return false;
	file = fopen(found.gl_pathv[0], "re");
	if (file) {
		type = fgetc(file);
		(void)fclose(file);
	}
	globfree(&found);
	return type == '4'; /* "4: RNIC" */
}

static int step_once(const struct step *step)
{
	uint64_t begin_ms = clock_now_ms(), took_ms;
	int err;

	daemon_text = NULL;
	if (step->daemon && calls_exempt)
		calls_exempt(1);
	err = step->run();
	if (step->daemon && calls_exempt)
		calls_exempt(0);
	took_ms = clock_now_ms() - begin_ms;
	if (err)
		text_check(step->name, err, daemon_text ? daemon_text : rmem_error());
	if (err == -ETIMEDOUT)
		broken("%s: nobody answers", step->name);
	if (took_ms > STEP_MS)
		broken("%s took %" PRIu64 " ms", step->name, took_ms);
	if (took_ms > 100)
		(void)printf("slow: %s took %" PRIu64 " ms\n", step->name, took_ms);
	return err;
}

/* Somebody has made room on the file system. */
static void room_make(void)
{
	const char *path = getenv(CALLS_FILE_VARIABLE);
	const int none = 0;
	int fd;

	if (calls_exempt)
		calls_exempt(1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, &none, sizeof(none), offsetof(struct calls, full)) < 0)
		broken("%s: %s", path, strerror(errno));
	(void)close(fd);
	if (calls_exempt)
		calls_exempt(0);
}

/* What fails must do so once. */
static void step_run(const struct step *step)
{
	if (!step_once(step))
		return;
	room_make();
	if (step_once(step))
		broken("%s fails twice", step->name);
}

int main(int argc, char **argv)
{
	struct server_options options = { 0 };

	if (argc < 7)
		return 2;
	options.rmemd = argv[1];
	options.directory = argv[2];
	options.fabric = argv[3];
	options.address = argv[4];
	options.port = (unsigned)atoi(argv[5]);
	options.auth = argv[6];
	options.preload = argv[7];
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	(void)snprintf(uri, sizeof(uri), "rmem://%s:%u?fabric=%s&psk=%s/%s",
		       options.address, options.port, options.fabric, options.directory,
		       SERVER_KEYS);
	if (strcmp(options.auth, "none") == 0)
		*strchr(uri, '&') = '\0';
	for (unsigned i = 0; i < BYTES; i++)
		data[i] = (unsigned char)(i * 31 + i / 256);
	if (calls_exempt)
		calls_exempt(1);
	server_init(&options);
	no_atomics = strcmp(options.fabric, "rdma") == 0 && device_is_iwarp();
	if (calls_exempt)
		calls_exempt(0);
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		step_run(&steps[i]);
	return 0;
}
