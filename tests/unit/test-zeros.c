/* SPDX-License-Identifier: BSD-3-Clause */
/* No tenant ever reads another's bytes.  Clients of several tenants borrow, fill, resize, free,
 * fall silent, come back, let leases expire; keys write until they are dead; the daemon dies
 * wherever it is and another one finds what was left, perhaps with other pools.  Every byte of
 * every grant is zero, and every lease has its own pattern or zero, whatever came before.
 *
 * RMEM_ZEROS_SEED    whatever is drawn is drawn from it; it is printed
 * RMEM_ZEROS_SECONDS how long it goes on, 3
 * The scrubbers are threads, and some deaths come by the clock: with the same seed the same is
 * tried, but not all of it at the same moment. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "rmemd/control/dispatch.h"
#include "rmemd/control/peer.h"
#include "rmemd/control/session.h"
#include "unit.h"
#include "wire/codec.h"
#include "zeros.h"

#define PAGE UINT64_C(4096)
#define HOUR_MS UINT64_C(3600000)
/* So much one process does at most. */
#define STEPS_MAX 4000

/* The client's connection to this process. */
struct link {
	struct peer peer;
	bool up, welcome, dead, silent;
	bool asked; /* through it, what is not answered yet */
};

static struct link links[ZEROS_CLIENTS];
static const char *const names[ZEROS_NAMES] = { "a", "b", "c", "d", "e" };
static const char *const tenant_names[ZEROS_TENANTS] = { "red", "green", "blue" };

static uint64_t now_ms(void)
{
	return atomic_load(&world->now_ms);
}

/* ---- what the tenants know of their leases ---- */

static void lease_forget(struct zeros_lease *lease)
{
	*lease = (struct zeros_lease){ .id = 0 };
}

static struct zeros_lease *lease_by_id(uint64_t id)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++)
		if (id && world->leases[i].id == id)
			return &world->leases[i];
	return NULL;
}

/* One of the client's tenant at random, or ZEROS_LEASES. */
static unsigned lease_pick(unsigned client)
{
	unsigned tenant = world->clients[client].tenant, picked = ZEROS_LEASES;
	uint64_t n = 0;

	for (unsigned i = 0; i < ZEROS_LEASES; i++) {
		const struct zeros_lease *lease = &world->leases[i];

		if (lease->id && lease->tenant == tenant &&
		    (lease->named || lease->owner == client) && zeros_random(++n) == 0)
			picked = i;
	}
	return picked;
}

static void session_forget(unsigned client)
{
	struct zeros_client *it = &world->clients[client];

	for (unsigned i = 0; i < ZEROS_LEASES; i++)
		if (world->leases[i].id && !world->leases[i].named &&
		    world->leases[i].owner == client)
			lease_forget(&world->leases[i]);
	it->session = 0;
	it->asking.type = (enum wire_type)0;
}

/* Somebody else may change it at the same time. */
static bool lease_is_asked_about(unsigned lease)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++)
		if (world->clients[i].asking.type &&
		    world->clients[i].asking.lease == lease)
			return true;
	return false;
}

/* What nobody has asked to end is there, and as long as it was; whose session has lost its
 * connection it is as long as that lives. */
static void leases_look(void)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++) {
		struct zeros_lease *lease = &world->leases[i];
		uint64_t bytes;
		bool found;

		if (!lease->id || lease_is_asked_about(i))
			continue;
		found = zeros_lease_find(lease->id, &bytes);
		if (lease->doubtful || !lease->named ||
		    (lease->due_ms && lease->due_ms <= now_ms())) {
			/* its place is another's */
			if (!found)
				lease_forget(lease);
			continue;
		}
		if (!found)
			zeros_fail("lease %llu is gone, and nobody has asked for it",
				   (unsigned long long)lease->id);
		if (bytes != lease->bytes)
			zeros_fail("lease %llu has %llu bytes, and not %llu",
				   (unsigned long long)lease->id,
				   (unsigned long long)bytes,
				   (unsigned long long)lease->bytes);
	}
}

/* ---- answers ---- */

static void on_granted(unsigned client, const struct wire_lease *answer)
{
	const struct zeros_client *it = &world->clients[client];
	const struct asking *asking = &it->asking;
	struct zeros_lease *lease = &world->leases[asking->lease];

	if (!zeros_lease_zero(answer->lease, 0))
		zeros_fail("lease %llu of %llu bytes is not zero as it is granted",
			   (unsigned long long)answer->lease,
			   (unsigned long long)answer->bytes);
	world->grants++;
	world->waits += now_ms() > asking->since_ms;
	/* nobody has more of them than there are places for */
	*lease = (struct zeros_lease){
		.id = answer->lease,
		.tenant = it->tenant,
		.owner = client,
		.named = asking->name < ZEROS_NAMES,
		.name = asking->name,
		.bytes = answer->bytes,
		/* counted from the grant on, which may have been before a restart */
		.due_ms = asking->ttl_ms ? asking->since_ms + asking->ttl_ms : 0,
	};
}

static void on_resized(const struct asking *asking, const struct wire_lease *answer)
{
	struct zeros_lease *lease = lease_by_id(answer->lease);

	if (asking->old_bytes < answer->bytes &&
	    !zeros_lease_zero(answer->lease, asking->old_bytes))
		zeros_fail("lease %llu is not zero where it is longer than %llu bytes",
			   (unsigned long long)answer->lease,
			   (unsigned long long)asking->old_bytes);
	world->grows += asking->old_bytes < answer->bytes;
	world->trims += asking->old_bytes > answer->bytes;
	if (!lease)
		return;
	lease->bytes = answer->bytes;
	lease->doubtful = false;
}

static void on_done(unsigned client, const struct wire_msg *msg)
{
	const struct asking *asking = &world->clients[client].asking;
	struct zeros_lease *lease =
		asking->lease < ZEROS_LEASES ? &world->leases[asking->lease] : NULL;

	switch (asking->type) {
	case WIRE_TYPE_allocate:
		on_granted(client, &msg->lease);
		break;
	case WIRE_TYPE_resize:
		on_resized(asking, &msg->lease);
		break;
	case WIRE_TYPE_free:
	case WIRE_TYPE_remove:
		world->frees++;
		lease_forget(lease);
		break;
	case WIRE_TYPE_detach:
		if (lease->named)
			lease->doubtful = asking->doubtful;
		else
			lease_forget(lease);
		break;
	case WIRE_TYPE_renew:
		lease->due_ms = asking->ttl_ms ? asking->since_ms + asking->ttl_ms : 0;
		lease->doubtful = asking->doubtful;
		break;
	default:
		break;
	}
}

/* It was not done; or what it was to be done to has ended, as it may have before. */
static void on_error(unsigned client, int err)
{
	const struct asking *asking = &world->clients[client].asking;
	struct zeros_lease *lease =
		asking->lease < ZEROS_LEASES ? &world->leases[asking->lease] : NULL;

	if (asking->type == WIRE_TYPE_allocate || !lease)
		return;
	/* others of the tenant have it, or another lease has come into its place */
	(void)err;
	lease->doubtful = true;
}

static struct link *link_of(struct peer *peer)
{
	return container_of(peer, struct link, peer);
}

static void on_welcome(unsigned client, const struct wire_welcome *welcome)
{
	struct zeros_client *it = &world->clients[client];

	if (!welcome->resumed) {
		session_forget(client);
		it->session = welcome->session;
		memcpy(it->token, welcome->token, sizeof(it->token));
	} else {
		world->resumed++;
	}
	links[client].welcome = true;
}

static void op_send(struct peer *peer, const struct wire_msg *msg)
{
	unsigned client = (unsigned)(link_of(peer) - links);
	struct zeros_client *it = &world->clients[client];
	struct zeros_lease *lease;

	for (unsigned i = 0; msg->type == WIRE_TYPE_lease && i < msg->lease.n_keys; i++)
		zeros_fabric_told(msg->lease.keys[i].rkey);
	if (msg->type == WIRE_TYPE_welcome) {
		on_welcome(client, &msg->welcome);
	} else if (msg->type == WIRE_TYPE_revoked) {
		lease = lease_by_id(msg->revoked.lease);
		if (lease)
			lease_forget(lease);
	} else if (msg->id && msg->id == it->asking.id && it->asking.type) {
		if (msg->type == WIRE_TYPE_error)
			on_error(client, -(int)msg->error.code);
		else
			on_done(client, msg);
		it->asking.type = (enum wire_type)0;
	} else if (msg->type == WIRE_TYPE_error && msg->id == 1 &&
		   !links[client].welcome) {
		/* the session is no more */
		session_forget(client);
	}
}

static void op_close(struct peer *peer)
{
	link_of(peer)->dead = true;
}

static void op_greeted(struct peer *peer)
{
	(void)peer;
}

static bool op_busy(const struct peer *peer)
{
	(void)peer;
	return false;
}

static const struct peer_ops ops = {
	.send = op_send,
	.close = op_close,
	.greeted = op_greeted,
	.busy = op_busy,
};

/* ---- requests ---- */

static void link_lose(unsigned client)
{
	struct link *link = &links[client];

	if (link->up)
		peer_gone(&link->peer, "lost");
	memset(link, 0, sizeof(*link));
}

static void say(unsigned client, struct wire_msg *msg)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes = wire_encode(msg, frame, sizeof(frame));

	if (bytes < 0)
		zeros_fail("a request cannot be encoded");
	dispatch_frame(&links[client].peer, frame, (size_t)bytes);
	if (links[client].dead)
		link_lose(client);
}

/* A client that can ask for something. */
static bool can_ask(unsigned client)
{
	const struct link *link = &links[client];

	return link->up && link->welcome && !link->silent && !link->peer.greeting;
}

static struct wire_msg *message(enum wire_type type)
{
	static struct wire_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	return &msg;
}

static struct wire_msg *asking_message(const struct asking *asking)
{
	struct wire_msg *msg = message(asking->type);
	uint64_t id =
		asking->lease < ZEROS_LEASES ? world->leases[asking->lease].id : 0;

	switch (asking->type) {
	case WIRE_TYPE_allocate:
		msg->allocate.bytes = asking->bytes;
		msg->allocate.node = -1;
		msg->allocate.ttl_ms = asking->ttl_ms;
		if (asking->name < ZEROS_NAMES)
			(void)strcpy(msg->allocate.name, names[asking->name]);
		break;
	case WIRE_TYPE_resize:
		msg->resize.lease = id;
		msg->resize.bytes = asking->bytes;
		break;
	case WIRE_TYPE_renew:
		msg->renew.lease = id;
		msg->renew.ttl_ms = asking->ttl_ms;
		break;
	case WIRE_TYPE_attach:
		(void)strcpy(msg->attach.name, names[asking->name]);
		msg->attach.rights = zeros_random(4)
					     ? WIRE_RIGHT_READ | WIRE_RIGHT_WRITE
					     : WIRE_RIGHT_READ;
		break;
	case WIRE_TYPE_detach:
		msg->detach.lease = id;
		break;
	case WIRE_TYPE_remove:
		(void)strcpy(msg->remove.name,
			     names[world->leases[asking->lease].name]);
		break;
	default:
		msg->free.lease = id;
		break;
	}
	msg->id = asking->id;
	return msg;
}

/* For the first time, or again, because the answer was lost with the connection. */
static void ask(unsigned client)
{
	const struct asking *asking = &world->clients[client].asking;
	struct zeros_lease *lease =
		asking->lease < ZEROS_LEASES ? &world->leases[asking->lease] : NULL;

	/* its place was given to another lease meanwhile, or to none: it has ended */
	if (asking->type != WIRE_TYPE_allocate && lease && !lease->id) {
		world->clients[client].asking.type = (enum wire_type)0;
		return;
	}
	links[client].asked = true;
	say(client, asking_message(asking));
}

/* A place for a new lease that nobody else waits for. */
static unsigned place_find(void)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++) {
		bool taken = world->leases[i].id != 0;

		for (unsigned k = 0; k < ZEROS_CLIENTS; k++)
			taken |= world->clients[k].asking.type && /* any of it */
				 world->clients[k].asking.lease == i;
		if (!taken)
			return i;
	}
	return ZEROS_LEASES;
}

static uint64_t random_bytes_wanted(void)
{
	switch (zeros_random(4)) {
	case 0:
		return zeros_random(PAGE) + 1;
	case 1:
		return zeros_random(64 * PAGE) + 1;
	default:
		return zeros_random(12 * PAGE) + 1;
	}
}

static uint64_t random_ttl_ms(void)
{
	return zeros_random(2) ? 0 : zeros_random(20 * 60000) + 1;
}

static bool asking_draw(unsigned client, struct asking *asking)
{
	static const enum wire_type types[] = {
		WIRE_TYPE_allocate, WIRE_TYPE_allocate, WIRE_TYPE_allocate,
		WIRE_TYPE_resize,   WIRE_TYPE_resize,   WIRE_TYPE_free,
		WIRE_TYPE_free,     WIRE_TYPE_detach,   WIRE_TYPE_attach,
		WIRE_TYPE_renew,
	};
	const struct zeros_lease *lease;

	*asking = (struct asking){
		.type = types[zeros_random(sizeof(types) / sizeof(types[0]))],
		.lease = ZEROS_LEASES,
		.bytes = random_bytes_wanted(),
		.ttl_ms = random_ttl_ms(),
		.since_ms = now_ms(),
		.old_bytes = UINT64_MAX,
		.name = ZEROS_NAMES,
	};
	if (asking->type == WIRE_TYPE_attach) {
		asking->name = (unsigned)zeros_random(ZEROS_NAMES);
		return true;
	}
	if (asking->type == WIRE_TYPE_allocate) {
		if (zeros_random(2))
			asking->name = (unsigned)zeros_random(ZEROS_NAMES);
		else
			asking->ttl_ms = 0;
		asking->lease = place_find();
		return asking->lease < ZEROS_LEASES;
	}
	asking->lease = lease_pick(client);
	if (asking->lease == ZEROS_LEASES || lease_is_asked_about(asking->lease))
		return false;
	lease = &world->leases[asking->lease];
	/* whoever has it attached or not, where the name is no other lease's by now */
	if (lease->named && !lease->doubtful && !lease->due_ms &&
	    asking->type == WIRE_TYPE_free && zeros_random(2))
		asking->type = WIRE_TYPE_remove;
	return true;
}

static void client_ask(unsigned client)
{
	struct zeros_client *it = &world->clients[client];
	struct zeros_lease *lease;
	struct asking asking;

	if (it->asking.type || !asking_draw(client, &asking))
		return;
	asking.id = it->next_id++;
	if (asking.type != WIRE_TYPE_allocate && asking.lease < ZEROS_LEASES) {
		lease = &world->leases[asking.lease];
		asking.doubtful = lease->doubtful;
		lease->doubtful = true;
		if (asking.type == WIRE_TYPE_resize) {
			(void)zeros_lease_find(lease->id, &asking.old_bytes);
			/* from now on, as it may be done without an answer */
			if (asking.bytes < lease->filled)
				lease->filled = asking.bytes;
		}
	}
	it->asking = asking;
	ask(client);
}

static void client_connect(unsigned client)
{
	struct zeros_client *it = &world->clients[client];
	struct wire_msg *msg = message(WIRE_TYPE_hello);
	struct link *link = &links[client];

	link_lose(client);
	link->up = true;
	peer_init(&link->peer, &ops, &zeros_control, "192.0.2.1:1");
	msg->id = 1;
	msg->hello.magic = WIRE_MAGIC;
	msg->hello.version_min = WIRE_VERSION_MIN;
	msg->hello.version_max = WIRE_VERSION_MAX;
	(void)strcpy(msg->hello.tenant, tenant_names[it->tenant]);
	(void)strcpy(msg->hello.client, "test");
	msg->hello.resume = it->session;
	if (it->session)
		memcpy(msg->hello.token, it->token, WIRE_TOKEN_BYTES);
	else
		it->next_id = 2;
	say(client, msg);
}

/* It has keys from then on. */
static void client_open_channel(unsigned client)
{
	struct wire_msg *msg = message(WIRE_TYPE_open_channel);

	if (world->clients[client].asking.type)
		return;
	msg->id = world->clients[client].next_id++;
	msg->open_channel.endpoint = (uint8_t)zeros_random(ZEROS_ENDPOINTS);
	say(client, msg);
}

/* The keys of a lease anew, which an earlier process had, or a fence has ended. */
static void client_rekey(unsigned client)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);
	unsigned lease = lease_pick(client);

	if (world->clients[client].asking.type || lease == ZEROS_LEASES)
		return;
	msg->id = world->clients[client].next_id++;
	msg->attach.lease = world->leases[lease].id;
	msg->attach.rights = WIRE_RIGHT_READ | WIRE_RIGHT_WRITE;
	say(client, msg);
}

static void client_fill(unsigned client)
{
	unsigned number = lease_pick(client);
	struct zeros_lease *lease;
	uint64_t reached;

	if (number == ZEROS_LEASES || lease_is_asked_about(number))
		return;
	lease = &world->leases[number];
	reached = zeros_fabric_fill(lease->id);
	if (reached > lease->bytes)
		reached = lease->bytes;
	if (reached > lease->filled)
		lease->filled = reached;
}

static void client_do(unsigned client)
{
	struct zeros_client *it = &world->clients[client];

	if (!links[client].up) {
		if (zeros_random(4) == 0)
			client_connect(client);
		return;
	}
	if (!can_ask(client))
		return;
	/* first what is not answered yet, on a new connection */
	if (it->asking.type && !links[client].asked) {
		it->asking.old_bytes = UINT64_MAX;
		ask(client);
		return;
	}
	switch (zeros_random(32)) {
	case 0:
		link_lose(client);
		break;
	case 1:
		links[client].silent = true;
		break;
	case 2:
		client_open_channel(client);
		break;
	case 3:
	case 4:
		client_rekey(client);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		client_fill(client);
		break;
	default:
		client_ask(client);
		break;
	}
}

/* ---- time ---- */

static void heartbeats(void)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++) {
		struct wire_msg *msg = message(WIRE_TYPE_ping);

		/* first what is to be asked again */
		if (!can_ask(i) || (world->clients[i].asking.type && !links[i].asked))
			continue;
		msg->id = world->clients[i].next_id++;
		say(i, msg);
	}
}

static void pass(void)
{
	uint64_t ms = zeros_random(900) + 1;

	if (zeros_random(100) == 0)
		ms = zeros_random(3 * ZEROS_GRACE_MS);
	if (zeros_random(1000) == 0)
		ms = zeros_random(2 * HOUR_MS);
	heartbeats();
	(void)atomic_fetch_add(&world->now_ms, ms);
	zeros_tick();
	/* those that were fenced have lost their connections */
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++)
		if (links[i].dead)
			link_lose(i);
}

static void step(void)
{
	world->steps++;
	switch (zeros_random(16)) {
	case 0:
		pass();
		break;
	case 1:
		zeros_given();
		zeros_scrubbed(zeros_random(4) ? 0 : 1);
		break;
	case 2:
		zeros_fabric_write();
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		(void)zeros_fabric_step();
		break;
	default:
		client_do((unsigned)zeros_random(ZEROS_CLIENTS));
		break;
	}
	if (zeros_random(100) == 0) {
		zeros_look();
		leases_look();
	}
}

/* ---- processes ---- */

/* Some die at a point that was drawn, some by the clock, wherever they are then, some end in
 * order. */
static _Noreturn void live(void)
{
	const uint64_t fuses[] = { 30, 300, 3000 };
	struct itimerval alarm = { .it_value = { 0, 0 } };
	uint64_t steps = zeros_random(STEPS_MAX) + 1;

	atomic_store(&world->fuse, INT64_MAX);
	switch (zeros_random(4)) {
	case 0:
		alarm.it_value.tv_usec = (suseconds_t)zeros_random(20000) + 1;
		(void)signal(SIGALRM, SIG_DFL);
		(void)setitimer(ITIMER_REAL, &alarm, NULL);
		break;
	case 1:
		break;
	default:
		atomic_store(&world->fuse,
			     (int64_t)zeros_random(fuses[zeros_random(3)]));
		break;
	}
	zeros_start();
	/* as the last process has left it */
	zeros_look();
	leases_look();
	for (uint64_t i = 0; i < steps; i++)
		step();
	zeros_stop();
	_exit(0);
}

/* Whatever it was doing when it died, it had given its answers or not. */
static void after_death(void)
{
	(void)atomic_fetch_add(&world->now_ms, zeros_random(3000) + 1);
	if (zeros_random(8) == 0)
		world->pools = (unsigned)zeros_random(12);
}

static void one_process(void)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		live();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		world->restarts++;
	} else {
		ck_assert_msg(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL ||
						      WTERMSIG(status) == SIGALRM),
			      "status %#x", (unsigned)status);
		world->crashes++;
	}
	after_death();
}

static void state_remove(void)
{
	DIR *dir = opendir(world->state);
	struct dirent *entry;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	(void)closedir(dir);
	(void)rmdir(world->state);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void begin(uint64_t seed)
{
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(world, MAP_FAILED);
	world->random = seed;
	atomic_store(&world->now_ms, HOUR_MS);
	(void)strcpy(world->state, "/dev/shm/rmem-zeros.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(world->state));
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++)
		world->clients[i].tenant = i % ZEROS_TENANTS;
}

static void tell(uint64_t seed)
{
	(void)printf(
		"# seed %llu: %.1f hours, %llu steps, %llu grants (%llu waited), "
		"%llu grows, %llu trims, %llu frees, %llu expired, %llu resumed, "
		"%llu late writes, %llu crashes, %llu restarts, %llu pools that stay, "
		"%llu MiB looked at\n",
		(unsigned long long)seed,
		(double)(now_ms() - HOUR_MS) / (double)HOUR_MS,
		(unsigned long long)world->steps, (unsigned long long)world->grants,
		(unsigned long long)world->waits, (unsigned long long)world->grows,
		(unsigned long long)world->trims, (unsigned long long)world->frees,
		(unsigned long long)world->expired, (unsigned long long)world->resumed,
		(unsigned long long)world->late, (unsigned long long)world->crashes,
		(unsigned long long)world->restarts,
		(unsigned long long)world->reconfigured,
		(unsigned long long)(world->looked >> 20));
	(void)fflush(stdout);
}

/* What it is about has happened. */
static bool world_was_busy(void)
{
	return world->grants > 100 && world->waits > 5 && world->grows > 10 &&
	       world->trims > 10 && world->frees > 50 && world->expired > 5 &&
	       world->late > 20 && world->resumed > 20 && world->crashes > 10 &&
	       world->restarts > 3 && world->reconfigured > 2;
}

START_TEST(bytes__are_never_anothers)
{
	uint64_t seed = number_of("RMEM_ZEROS_SEED",
				  (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid());
	uint64_t until_ms = clock_now_ms() + 1000 * number_of("RMEM_ZEROS_SECONDS", 3);

	(void)printf("# RMEM_ZEROS_SEED=%llu\n", (unsigned long long)seed);
	(void)fflush(stdout);
	begin(seed);
	while (clock_now_ms() < until_ms || !world_was_busy())
		one_process();
	tell(seed);
	state_remove();
	(void)munmap(world, sizeof(*world));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("zeros");
	TCase *tcase = tcase_create("zeros");

	tcase_set_timeout(tcase, (double)number_of("RMEM_ZEROS_SECONDS", 3) + 60);
	tcase_add_test(tcase, bytes__are_never_anothers);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
