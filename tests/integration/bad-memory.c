/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that names memory which is not there, or not with the access that an operation needs:
 *
 *   bad-memory URI FABRIC
 *
 * The operation ends with EFAULT.  Others go on, and so does the session.  Over RDMA only memory of
 * a buffer is examined: other memory is copied by the program's thread. */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "program.h"

#define BYTES (UINT64_C(1) << 20)
#define PAGE 4096u

static rmem *session;
static rmem_lease *lease;
static rmem_queue *queue;
static unsigned char *good, *bad, *fixed; /* bad: without access; fixed: read-only */

static unsigned char *map(int protection)
{
	void *addr = mmap(NULL, BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		fail("mmap", -errno);
	return addr;
}

static void check_works(void)
{
	static unsigned char value;
	unsigned char back[PAGE];

	memset(good, ++value, sizeof(back));
	must(rmem_write(lease, 0, good, sizeof(back)), "write");
	must(rmem_read(lease, 0, back, sizeof(back)), "read");
	if (memcmp(back, good, sizeof(back)) != 0)
		fail("wrong bytes", value);
}

static void faults(int result, const char *what)
{
	if (result != -EFAULT)
		fail(what, result);
	check_works();
}

/* The others are done. */
static void submit_among_others(struct rmem_op op)
{
	struct rmem_op ops[3] = { rmem_op_write(lease, 0, good, PAGE), op,
				  rmem_op_write(lease, PAGE, good, PAGE) };

	for (unsigned i = 0; i < 3; i++)
		ops[i].cookie = i;
	must(rmem_submit(queue, ops, 3), "submit");
	for (unsigned i = 0; i < 3; i++) {
		struct rmem_completion completion;

		must(rmem_wait(queue, &completion, 1, 1, -1), "wait");
		if (completion.status != (completion.cookie == 1 ? -EFAULT : 0))
			fail("an operation's status", completion.status);
	}
	check_works();
}

static void memory_of_no_buffer(void)
{
	static const uint64_t sizes[] = { 8, PAGE, 100000, BYTES };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rmem_vec vec[] = { { .addr = good, .bytes = 8 },
					  { .addr = bad, .bytes = sizes[i] / 2 } };

		faults(rmem_write(lease, 0, bad, sizes[i]), "write");
		faults(rmem_writev(lease, 0, vec, 2), "writev");
		submit_among_others(rmem_op_write(lease, 0, bad, sizes[i]));
		must(rmem_write(lease, 0, fixed, sizes[i]),
		     "write of read-only memory");
		/* smaller ones are copied by this thread */
		if (sizes[i] < PAGE)
			continue;
		faults(rmem_read(lease, 0, bad, sizes[i]), "read");
		faults(rmem_read(lease, 0, fixed, sizes[i]),
		       "read into read-only memory");
		submit_among_others(rmem_op_read(lease, 0, fixed, sizes[i]));
	}
	kept("memory that is not there fails the operation");
}

static void memory_of_a_buffer(void)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	rmem_buffer *buffer;

	params.bytes = BYTES;
	params.addr = map(PROT_NONE);
	(void)munmap(params.addr, BYTES);
	faults(rmem_buffer_create(session, &params, &buffer), "a buffer of no memory");
	params.addr = fixed;
	must(rmem_buffer_create(session, &params, &buffer),
	     "a buffer of read-only memory");
	must(rmem_write(lease, 0, fixed, PAGE), "write of a read-only buffer");
	faults(rmem_read(lease, 0, fixed, PAGE), "read into a read-only buffer");
	submit_among_others(rmem_op_read(lease, 0, fixed, BYTES));
	must(rmem_buffer_free(buffer), "buffer_free");
	kept("read-only memory can be the source of writes alone");
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params want = rmem_alloc_params_init();
	struct rmem_info info = rmem_info_init();

	if (argc != 3) {
		(void)fprintf(stderr, "usage: bad-memory URI FABRIC\n");
		return 2;
	}
	want.bytes = BYTES;
	good = map(PROT_READ | PROT_WRITE);
	bad = map(PROT_NONE);
	fixed = map(PROT_READ);
	must(rmem_open(argv[1], NULL, &session), "open");
	must(rmem_alloc(session, &want, &lease), "alloc");
	must(rmem_queue_create(session, NULL, &queue), "queue");
	if (!strcmp(argv[2], "tcp"))
		memory_of_no_buffer();
	memory_of_a_buffer();
	must(rmem_info(session, &info), "info");
	if (info.resumes != 0)
		fail("the session was lost", (long)info.resumes);
	rmem_queue_free(queue);
	must(rmem_destroy(lease), "destroy");
	rmem_close(session);
	return 0;
}
