/* SPDX-License-Identifier: BSD-3-Clause */
/* The library against a hostile server: the input chooses the program's calls, and what the server
 * answers and sends.  Each call ends in time, with a text if it fails, and nothing leaks. */
#include <check.h>
#include <errno.h>
#include <rmem/rmem.h>
#include <string.h>

#include "fuzz/hostile-server.h"
#include "fuzz/target.h"
#include "fuzz/virtual-time.h"
#include "librmem/channel/channel.h"
#include "unit/librmem/fake-fabric.h"

#define LEASES 4
#define STEPS_MAX 48
#define TIMEOUT_MS 1000u
/* of a call: several waits in a row, and what a fabric takes to connect */
#define CALL_MS 60000u
#define LOCAL_BYTES 8192

const unsigned fuzz_rounds = 15000;

/* The first byte of a step. */
enum step {
	STEP_ALLOC,
	STEP_ATTACH,
	STEP_DETACH,
	STEP_DESTROY,
	STEP_RENAME,
	STEP_RESIZE,
	STEP_RENEW,
	STEP_KEEP,
	STEP_REMOVE,
	STEP_STAT,
	STEP_LIST,
	STEP_LOOK, /* at what the library knows of a lease */
	STEP_WATCH,
	STEP_NOTIFIED,
	STEP_PING,
	STEP_PROCESS, /* after some time */
	STEP_QUEUE,
	STEP_SUBMIT,
	STEP_WAIT,
	STEP_CANCEL,
	STEP_MOVE, /* a synchronous operation */
	STEP_EVENT,
	STEP_CLOSE,  /* the server closes the connection */
	STEP_FABRIC, /* what the fabric does */
	STEPS,
};

static rmem *session;
static rmem_queue *queue;
static rmem_lease *leases[LEASES];
static unsigned char local[LOCAL_BYTES];

/* ---- the fabric ---- */

static int fabric_connect(struct fabric_channel *channel,
			  const struct fabric_channel_params *)
{
	/* only compared with NULL */
	channel->peer = &fake;
	return 0;
}

static void fabric_disconnect(struct fabric_channel *channel)
{
	channel->peer = NULL;
}

static bool range_allowed(uint64_t addr, uint64_t bytes)
{
	uint64_t offset = addr - (uintptr_t)hostile_memory;

	return offset <= HOSTILE_MEMORY && bytes <= HOSTILE_MEMORY - offset;
}

static bool fabric_allows(const struct fabric_channel *, const struct fake_wr *wr)
{
	if (wr->opcode == FABRIC_PING || wr->opcode == FABRIC_NOTIFY || wr->bytes == 0)
		return true;
	return range_allowed(wr->remote_addr, wr->bytes) &&
	       (wr->opcode != FABRIC_COPY ||
		range_allowed(wr->request.source.addr, wr->bytes));
}

static const struct fake_server_side fabric = {
	.connect = fabric_connect,
	.disconnect = fabric_disconnect,
	.allows = fabric_allows,
};

static void step_fabric(struct fuzz_input *input)
{
	unsigned what = (unsigned)fuzz_number(input, 1);
	struct fabric_channel *channel = fake_latest();

	switch (what % 6) {
	case 0:
		fake.automatic = what & 0x80;
		break;
	case 1:
		fake_complete_all();
		break;
	case 2:
		if (channel && channel->n > 0)
			fake_complete(channel, -EACCES);
		break;
	case 3:
		if (channel)
			fake_peer_gone(channel);
		break;
	case 4:
		fake.connect_err = what & 0x80 ? -ECONNREFUSED : 0;
		break;
	default:
		fake.mr_err = what & 0x80 ? -ENOMEM : 0;
	}
}

/* ---- the program ---- */

/* A call has returned. */
static int ended(int result)
{
	if (result < 0)
		ck_assert_str_ne(rmem_error(), "");
	return result;
}

static unsigned slot_read(struct fuzz_input *input)
{
	return (unsigned)fuzz_number(input, 1) % LEASES;
}

static const char *name_read(struct fuzz_input *input)
{
	static const char *const names[] = { "a", "b", "c", "d" };

	return names[fuzz_number(input, 1) % 4];
}

/* A session gets the same handle again for a lease that it has. */
static void lease_forget(const rmem_lease *lease, bool all)
{
	for (unsigned i = 0; i < LEASES; i++) {
		if (leases[i] != lease)
			continue;
		leases[i] = NULL;
		if (!all)
			return;
	}
}

static void step_alloc(struct fuzz_input *input)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	unsigned slot = slot_read(input), flags = (unsigned)fuzz_number(input, 1);
	rmem_lease *lease;

	params.bytes = fuzz_number(input, 2);
	if (flags & 1)
		params.name = name_read(input);
	if (flags & 2)
		params.flags = RMEM_ALLOC_ATTACH;
	if (!leases[slot] && ended(rmem_alloc(session, &params, &lease)) >= 0)
		leases[slot] = lease;
}

static void step_attach(struct fuzz_input *input)
{
	unsigned slot = slot_read(input);
	const char *name = name_read(input);
	rmem_lease *lease;

	if (!leases[slot] &&
	    !ended(rmem_attach(session, name, RMEM_READ | RMEM_WRITE, &lease)))
		leases[slot] = lease;
}

static void step_resize(rmem_lease *lease, struct fuzz_input *input)
{
	uint64_t bytes = fuzz_number(input, 2);

	(void)ended(bytes > rmem_lease_bytes(lease) ? rmem_grow(lease, bytes)
						    : rmem_shrink(lease, bytes));
}

static void step_look(rmem_lease *lease)
{
	struct rmem_wanted wanted = rmem_wanted_init();
	struct rmem_layout layout = rmem_layout_init();
	struct rmem_info info = rmem_info_init();
	char name[RMEM_NAME_MAX + 1];

	(void)ended(rmem_lease_wanted(lease, &wanted));
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), 0);
	ck_assert_uint_le(layout.nodes, RMEM_SEGMENTS_MAX);
	ck_assert_uint_le(rmem_lease_name(lease, name, sizeof(name)), RMEM_NAME_MAX);
	(void)rmem_lease_node(lease);
	(void)rmem_lease_reason(lease);
	ck_assert_int_eq(rmem_info(session, &info), 0);
}

static int on_entry(const struct rmem_stat *stat, void *arg)
{
	unsigned *n = arg;

	ck_assert_uint_le(strlen(stat->name), RMEM_NAME_MAX);
	/* a server may list for ever */
	return ++*n == 100;
}

static void step_notified(struct fuzz_input *input)
{
	struct rmem_notice notices[4];
	int n = rmem_notified(session, notices, 4, (int)fuzz_number(input, 1));

	ck_assert_int_le(n, 4);
	(void)ended(n);
	for (int i = 0; i < n; i++)
		ck_assert_int_le(rmem_lease_status(notices[i].lease), 0);
}

static void step_process(struct fuzz_input *input)
{
	virtual_time_pass(fuzz_number(input, 2));
	(void)ended(rmem_process(session));
}

static void step_queue(struct fuzz_input *input)
{
	struct rmem_queue_params params = rmem_queue_params_init();

	rmem_queue_free(queue);
	queue = NULL;
	params.channels = (unsigned)fuzz_number(input, 1) % 4;
	params.depth = 8;
	if (params.channels > 0)
		(void)ended(rmem_queue_create(session, &params, &queue));
}

static rmem_lease *lease_read(struct fuzz_input *input)
{
	return leases[slot_read(input)];
}

static void step_submit(struct fuzz_input *input)
{
	static const struct rmem_atomic operands = { 1, 2 };
	rmem_lease *lease = lease_read(input);
	struct rmem_op op = rmem_op_init((enum rmem_opcode)fuzz_number(input, 1), lease,
					 fuzz_number(input, 2),
					 fuzz_number(input, 2) % LOCAL_BYTES);
	struct rmem_source source = { .lease = lease };

	op.addr = local;
	op.timeout_ms = TIMEOUT_MS;
	switch (op.opcode) {
	case RMEM_OP_CAS:
	case RMEM_OP_FETCH_ADD:
		op.atomic = &operands;
		break;
	case RMEM_OP_COPY:
		op.source = &source;
		op.addr = NULL;
		break;
	case RMEM_OP_READV:
	case RMEM_OP_WRITEV:
		op.n_vec = 0;
		break;
	default:
		break;
	}
	if (queue && (lease || op.opcode == RMEM_OP_PING))
		(void)ended(rmem_submit(queue, &op, 1));
}

static void step_wait(struct fuzz_input *input)
{
	struct rmem_completion completions[8];
	int timeout_ms = (int)fuzz_number(input, 2), n;

	if (!queue)
		return;
	n = rmem_wait(queue, completions, 8, 1, timeout_ms);
	ck_assert_int_le(n, 8);
	for (int i = 0; i < n; i++)
		if (completions[i].status)
			ck_assert_str_ne(rmem_completion_error(queue, &completions[i]),
					 "");
}

static void step_move(struct fuzz_input *input)
{
	unsigned what = (unsigned)fuzz_number(input, 1);
	rmem_lease *lease = lease_read(input);
	uint64_t offset = fuzz_number(input, 2);
	uint64_t bytes = fuzz_number(input, 2) % LOCAL_BYTES, old;

	if (!lease)
		return;
	switch (what % 6) {
	case 0:
		(void)ended(rmem_read(lease, offset, local, bytes));
		break;
	case 1:
		(void)ended(rmem_write(lease, offset, local, bytes));
		break;
	case 2:
		(void)ended(rmem_fetch_add(lease, offset, 1, &old));
		break;
	case 3:
		(void)ended(rmem_fill(lease, offset, bytes, 7));
		break;
	case 4:
		(void)ended(rmem_copy(lease, offset, lease, 0, bytes));
		break;
	default:
		(void)ended(rmem_write_notify(lease, offset, local, bytes, 7));
	}
}

/* The calls on a lease. */
static void step_lease(enum step step, struct fuzz_input *input)
{
	rmem_lease *lease = lease_read(input);
	const char *name;

	if (!lease)
		return;
	switch (step) {
	case STEP_DETACH:
		if (!ended(rmem_detach(lease)))
			lease_forget(lease, false);
		break;
	case STEP_DESTROY:
		if (!ended(rmem_destroy(lease)))
			lease_forget(lease, false);
		break;
	case STEP_RENAME:
		name = name_read(input);
		(void)ended(
			rmem_rename(lease, name, (unsigned)fuzz_number(input, 1) % 2));
		break;
	case STEP_RESIZE:
		step_resize(lease, input);
		break;
	case STEP_RENEW:
		(void)ended(rmem_renew(lease, fuzz_number(input, 2)));
		break;
	case STEP_KEEP:
		(void)ended(rmem_keep(lease, fuzz_number(input, 2)));
		break;
	case STEP_LOOK:
		step_look(lease);
		break;
	case STEP_WATCH:
		(void)ended(fuzz_number(input, 1) % 2 ? rmem_unwatch(lease)
						      : rmem_watch(lease));
		break;
	default:
		if (queue)
			(void)rmem_cancel(queue, lease);
	}
}

static void step_run(struct fuzz_input *input)
{
	enum step step = (enum step)(fuzz_number(input, 1) % STEPS);
	struct rmem_stat stat = rmem_stat_init();
	unsigned n = 0;

	switch (step) {
	case STEP_ALLOC:
		step_alloc(input);
		break;
	case STEP_ATTACH:
		step_attach(input);
		break;
	case STEP_REMOVE:
		(void)ended(rmem_remove(session, name_read(input)));
		break;
	case STEP_STAT:
		(void)ended(rmem_stat(session, name_read(input), &stat));
		break;
	case STEP_LIST:
		(void)ended(rmem_list(session, NULL, on_entry, &n));
		break;
	case STEP_NOTIFIED:
		step_notified(input);
		break;
	case STEP_PING:
		(void)ended(rmem_ping(session, NULL));
		break;
	case STEP_PROCESS:
		step_process(input);
		break;
	case STEP_QUEUE:
		step_queue(input);
		break;
	case STEP_SUBMIT:
		step_submit(input);
		break;
	case STEP_WAIT:
		step_wait(input);
		break;
	case STEP_MOVE:
		step_move(input);
		break;
	case STEP_EVENT:
		hostile_server_event();
		break;
	case STEP_CLOSE:
		hostile_server_close();
		break;
	case STEP_FABRIC:
		step_fabric(input);
		break;
	default:
		step_lease(step, input);
	}
}

/* A step takes no longer than its time-outs. */
static void step_run_in_time(struct fuzz_input *input)
{
	uint64_t begin_ms = virtual_time_ms();

	step_run(input);
	ck_assert_msg(virtual_time_ms() - begin_ms < CALL_MS + UINT16_MAX,
		      "a call took %llu ms",
		      (unsigned long long)(virtual_time_ms() - begin_ms));
}

static bool session_open(struct fuzz_input *input)
{
	static const char *const uris[] = {
		"rmem://192.0.2.1?fabric=tcp",
		"rmem://192.0.2.1",
		"rmem://192.0.2.1?fabric=rdma&channels=2",
	};
	struct rmem_options options = rmem_options_init();

	options.flags = RMEM_NO_THREAD;
	options.timeout_ms = TIMEOUT_MS;
	options.client = "fuzz";
	return !ended(rmem_open(uris[fuzz_number(input, 1) % 3], &options, &session));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	fuzz_random_reset();
	virtual_time_reset();
	fake_reset();
	fake.server = &fabric;
	fake.automatic = true;
	session = NULL;
	queue = NULL;
	memset(leases, 0, sizeof(leases));
	hostile_server_begin(&input);
	if (session_open(&input))
		for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
			step_run_in_time(&input);
	rmem_close(session);
	hostile_server_end();
	ck_assert_int_eq(fake.live, 0);
	return 0;
}

/* ---- valid inputs: 0 is the valid answer to a request, and that a connection succeeds ---- */

static struct fuzz_output *out;

static void put(unsigned number)
{
	fuzz_put(out, number, 1);
}

static void put16(unsigned number)
{
	fuzz_put(out, number, 2);
}

/* Open a session; the URI's number. */
static void put_open(unsigned uri)
{
	put(uri);
	put(0); /* connect */
	put(0); /* hello */
	if (uri > 0)
		put(0); /* join_channel */
}

static void put_alloc(unsigned slot, unsigned flags, unsigned bytes)
{
	put(STEP_ALLOC);
	put(slot);
	put(flags);
	put16(bytes);
	if (flags & 1)
		put(slot);
	put(0);
}

static void put_on(enum step step, unsigned slot)
{
	put(step);
	put(slot);
}

static void put_move(unsigned what, unsigned slot, unsigned bytes)
{
	put(STEP_MOVE);
	put(what);
	put(slot);
	put16(8);
	put16(bytes);
}

static void put_event(unsigned which, const void *body, unsigned bytes)
{
	put(STEP_EVENT);
	put(which);
	put(bytes);
	fuzz_put_bytes(out, body, bytes);
}

static void seed_leases(void)
{
	put_open(0);
	put_alloc(0, 1, 4096);
	put_on(STEP_LOOK, 0);
	put_move(1, 0, 100);
	put_move(0, 0, 100);
	put_on(STEP_RESIZE, 0);
	put16(8000);
	put(0);
	put_on(STEP_RENAME, 0);
	put(1);
	put(0);
	put(0);
	put_on(STEP_WATCH, 0);
	put(0);
	put(0);
	put_event(4, "\1\0\1\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 18);
	put(STEP_NOTIFIED);
	put(1);
	put_on(STEP_KEEP, 0);
	put16(1000);
	put(0);
	put(STEP_PROCESS);
	put16(600);
	put(0);
	put(STEP_LIST);
	put(0);
	put(STEP_STAT);
	put(0);
	put(0);
	put_on(STEP_DESTROY, 0);
	put(0);
}

static void seed_queue(void)
{
	put_open(2);
	put_alloc(0, 0, 8000);
	put(STEP_QUEUE);
	put(2);
	put(0), put(0), put(0), put(0);
	for (unsigned opcode = 0; opcode < 12; opcode++) {
		put(STEP_SUBMIT);
		put(0);
		put(opcode);
		put16(8);
		put16(8);
		put(STEP_WAIT);
		put16(100);
	}
	put_on(STEP_CANCEL, 0);
	put(STEP_FABRIC);
	put(3);
	put(STEP_PROCESS);
	put16(10);
	put(0), put(0), put(0);
	put_move(2, 0, 8);
	put(0);
}

static void seed_events(void)
{
	put_open(1);
	put_alloc(0, 1, 4096);
	put_event(1, "\1\0\0\0\0\0\0\0\0", 9);
	put(STEP_PROCESS);
	put16(10);
	put(0);
	put_event(5, "\1\0\0\0\0\0\0\0\0\20\0\0\0\0\0\0\350\3\0\0\0\0\0\0\1", 25);
	put(STEP_NOTIFIED);
	put(1);
	put_event(0, "\1\0\0\0\0\0\0\0\3", 9);
	put_event(2, "\350\3\0\0", 4);
	put(STEP_PROCESS);
	put16(10);
	put_on(STEP_LOOK, 0);
	put_event(3, "\5", 1);
	put(STEP_PING);
	put(0);
}

static void seed_resume(void)
{
	put_open(0);
	put_alloc(0, 1, 4096);
	put(STEP_CLOSE);
	for (unsigned i = 0; i < 4; i++) {
		put(STEP_PROCESS);
		put16(400);
		put(0), put(0), put(0);
	}
	put_move(1, 0, 10);
	put(STEP_PING);
	put(0);
}

static void seed_hostile(void)
{
	put_open(0);
	for (unsigned how = 1; how <= 10; how++) {
		put(STEP_STAT);
		put(0);
		put(how);
		put(3);
		put(STEP_PROCESS);
		put16(2000);
	}
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = { seed_leases, seed_queue, seed_events,
					       seed_resume, seed_hostile };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}
