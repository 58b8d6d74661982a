/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers on dma-bufs.  A memfd stands for a dma-buf.  One that is open for reading only cannot be
 * mapped for writing: it stands for memory of a device, of which the library has addresses alone,
 * so that an access by the CPU ends the test. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/librmem/core-case.h"

#define PAGE 4096u
#define BYTES (32 * PAGE)

static rmem_lease *lease;
static unsigned char *server; /* the lease's memory */
static unsigned char *theirs; /* the dma-buf's memory, as its exporter has it */
static rmem_buffer *buffer;
static unsigned char *local; /* of the buffer */

/* A dma-buf of BYTES. */
static int dmabuf_open(bool mappable)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC), again;
	char path[32];
	void *map;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, BYTES), 0);
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	theirs = map;
	if (mappable)
		return fd;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(again, 0);
	(void)close(fd);
	return again;
}

static int buffer_create_at(int fd, uint64_t offset, uint64_t bytes, void *addr)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();

	params.addr = addr;
	params.bytes = bytes;
	params.dmabuf_fd = fd;
	params.dmabuf_offset = offset;
	return rmem_buffer_create(stage.client, &params, &buffer);
}

/* Open a session, a lease, and a buffer over all of a dma-buf but its first page. */
static void buffer_open(bool rdma, bool mappable)
{
	int fd = dmabuf_open(mappable);

	if (rdma)
		serve_rdma();
	fake.inline_max = 64;
	open_over(0, rdma ? RMEM_FABRIC_RDMA : RMEM_FABRIC_TCP);
	lease = alloc(BYTES, NULL);
	server = proxy_memory(rmem_lease_id(lease));
	ck_assert_msg(!buffer_create_at(fd, PAGE, BYTES - PAGE, NULL), "%s",
		      rmem_error());
	(void)close(fd);
	theirs += PAGE;
	local = rmem_buffer_addr(buffer);
	ck_assert_uint_eq(rmem_buffer_bytes(buffer), BYTES - PAGE);
}

static struct rmem_op op_of(enum rmem_opcode opcode, uint64_t offset, uint64_t bytes,
			    rmem_buffer *named)
{
	return (struct rmem_op){
		.opcode = (uint16_t)opcode,
		.lease = lease,
		.offset = offset,
		.addr = local + offset,
		.bytes = bytes,
		.buffer = named,
	};
}

static void submit_all_ok(const struct rmem_op *ops, unsigned n)
{
	ck_assert_int_eq(rmem_submit(stage.queue, ops, n), (int)n);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(wait_status(), 0);
}

/* The operation ends in EINVAL, because of the dma-buf. */
static void expect_refused(const struct rmem_op *op)
{
	struct rmem_completion completion;

	ck_assert_int_eq(rmem_submit(stage.queue, op, 1), 1);
	ck_assert_int_eq(rmem_wait(stage.queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(rmem_completion_error(stage.queue, &completion), "dma-buf"));
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

/* _i & 1: over RDMA; _i & 2: the dma-buf can be mapped, as over TCP it must. */
START_TEST(synchronous_calls__move_any_size)
{
	static const size_t sizes[] = { 1, 8, 64, 65, 256, 257, PAGE, BYTES - PAGE };

	buffer_open(_i & 1, _i & 2);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(theirs, (int)i + 1, sizes[i]);
		ck_assert_int_eq(rmem_write(lease, 0, local, sizes[i]), 0);
		ck_assert_mem_eq(server, theirs, sizes[i]);
		memset(server, 0x77, sizes[i]);
		ck_assert_int_eq(rmem_read(lease, 0, local, sizes[i]), 0);
		ck_assert_mem_eq(theirs, server, sizes[i]);
	}
	ck_assert_int_eq(rmem_write_notify(lease, 3, local, 8, 1), 0);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
}
END_TEST

/* _i & 1: the operations name the buffer. */
START_TEST(queue__moves_bytes_of_device_memory)
{
	struct rmem_op ops[4];

	buffer_open(true, false);
	queue_open(1);
	for (unsigned i = 0; i < PAGE; i++)
		theirs[i] = (unsigned char)(i + i / 256);
	/* alone, then as a batch */
	for (unsigned i = 0; i < 4; i++) {
		ops[i] = op_of(RMEM_OP_WRITE, 100 * i, i < 3 ? 8 : 1000,
			       _i & 1 ? buffer : NULL);
		submit_all_ok(&ops[i], 1);
		ck_assert_mem_eq(server + 100 * i, theirs + 100 * i, 8);
	}
	memset(server, 0, PAGE);
	submit_all_ok(ops, 4);
	ck_assert_mem_eq(server + 300, theirs + 300, 1000);
	for (unsigned i = 0; i < 4; i++)
		ops[i].opcode = RMEM_OP_READ;
	memset(server, 0x33, PAGE);
	submit_all_ok(ops, 4);
	ck_assert_mem_eq(theirs + 300, server + 300, 1000);
	ck_assert_mem_eq(theirs, server, 8);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
}
END_TEST

/* Other memory is copied, as before. */
START_TEST(queue__sends_no_inline_data_of_unnamed_memory)
{
	struct rmem_op op;

	buffer_open(true, false);
	queue_open(1);
	local = stage.buf;
	op = op_of(RMEM_OP_WRITE, 0, 8, NULL);
	submit_all_ok(&op, 1);
	ck_assert_mem_eq(server, stage.buf, 8);
	ck_assert_int_eq(rmem_write(lease, 10, stage.buf, 8), 0);
	ck_assert_mem_eq(server + 10, stage.buf, 8);
}
END_TEST

START_TEST(lists__have_pieces_of_device_memory)
{
	struct rmem_vec vec[3];
	struct rmem_op op = { .opcode = RMEM_OP_WRITEV, .n_vec = 3, .vec = vec };

	fake.sge_max = _i ? 4 : 1;
	buffer_open(true, false);
	queue_open(1);
	op.lease = lease;
	vec[0] = (struct rmem_vec){ local, 8, buffer };
	vec[1] = (struct rmem_vec){ stage.buf, 8, NULL };
	vec[2] = (struct rmem_vec){ local + 100, 8, buffer };
	memset(theirs, 1, 8);
	memset(theirs + 100, 2, 8);
	submit_all_ok(&op, 1);
	ck_assert_mem_eq(server, theirs, 8);
	ck_assert_mem_eq(server + 8, stage.buf, 8);
	ck_assert_mem_eq(server + 16, theirs + 100, 8);
	memset(server, 9, 24);
	ck_assert_int_eq(rmem_readv(lease, 0, vec, 3), 0);
	ck_assert_mem_eq(theirs + 100, server, 8);
	vec[2].buffer = NULL;
	expect_refused(&op);
}
END_TEST

START_TEST(results__are_not_for_device_memory)
{
	const struct rmem_atomic operands = { .operand = 1 };
	struct rmem_op op;

	buffer_open(true, false);
	queue_open(1);
	op = op_of(RMEM_OP_FETCH_ADD, 0, 8, buffer);
	op.atomic = &operands;
	expect_refused(&op);
	op.buffer = NULL;
	expect_refused(&op);
	op = op_of(RMEM_OP_CRC, 0, 100, NULL);
	expect_refused(&op);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	/* the addresses are free now, and those of the heap take results */
	op = op_of(RMEM_OP_FETCH_ADD, 0, 8, NULL);
	op.addr = stage.buf;
	op.atomic = &operands;
	submit_all_ok(&op, 1);
}
END_TEST

/* The devices reach the memory through a descriptor of the library. */
START_TEST(registration__has_offset_and_descriptor)
{
	buffer_open(true, _i);
	ck_assert_uint_eq(fake.dmabufs, 1);
	ck_assert_uint_eq(fake.dmabuf_offset, PAGE);
	ck_assert_int_eq(fcntl(fake.dmabuf_fd, F_GETFD), FD_CLOEXEC);
	if (_i) {
		local[5] = 55;
		ck_assert_uint_eq(theirs[5], 55);
	}
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	ck_assert_int_eq(fcntl(fake.dmabuf_fd, F_GETFD), -1);
}
END_TEST

START_TEST(child__has_no_descriptor)
{
	int status;
	pid_t child;

	buffer_open(true, false);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		_exit(fcntl(fake.dmabuf_fd, F_GETFD) == -1 ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(fcntl(fake.dmabuf_fd, F_GETFD), FD_CLOEXEC);
}
END_TEST

/* The last error's text. */
static void expect_text(const char *text)
{
	ck_assert_msg(strstr(rmem_error(), text), "'%s' does not contain '%s'",
		      rmem_error(), text);
}

START_TEST(buffer_create__refuses_parts_beyond_the_dmabuf)
{
	int fd = dmabuf_open(true), event = eventfd(0, EFD_CLOEXEC);

	if (_i)
		serve_rdma();
	open_with(0);
	ck_assert_int_eq(buffer_create_at(fd, 0, BYTES + 1, NULL), -EINVAL);
	expect_text("go beyond the dma-buf");
	ck_assert_int_eq(buffer_create_at(fd, PAGE, BYTES, NULL), -EINVAL);
	ck_assert_int_eq(buffer_create_at(fd, 2 * BYTES, 1, NULL), -EINVAL);
	ck_assert_int_eq(buffer_create_at(fd, UINT64_MAX - PAGE + 1, PAGE, NULL),
			 -EINVAL);
	ck_assert_int_eq(buffer_create_at(fd, 100, PAGE, NULL), -EINVAL);
	expect_text("not a multiple of the page size");
	ck_assert_int_eq(buffer_create_at(fd, 0, PAGE, stage.buf), -EINVAL);
	expect_text("both addr and dmabuf_fd");
	ck_assert_int_eq(buffer_create_at(fd, 0, 0, NULL), -EINVAL);
	ck_assert_int_eq(buffer_create_at(event, 0, PAGE, NULL), -EINVAL);
	expect_text("not a dma-buf");
	(void)close(event);
	ck_assert_int_eq(buffer_create_at(event, 0, PAGE, NULL), -EBADF);
	expect_text("not open");
	(void)close(fd);
}
END_TEST

START_TEST(buffer_create__that_fails_leaves_no_descriptor)
{
	int fd = dmabuf_open(false);
	unsigned before;

	if (_i)
		serve_rdma();
	open_with(0);
	fake.dmabuf_err = -ENOTSUP;
	before = open_descriptors();
	ck_assert_int_eq(buffer_create_at(fd, 0, BYTES, NULL), -ENOTSUP);
	expect_text(_i ? "fake0 has no dma-bufs" : "cannot be mapped");
	ck_assert_uint_eq(open_descriptors(), before);
	(void)close(fd);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("dmabuf");

	/* device memory over TCP is refused, see below */
	tcase_add_loop_test(tc, synchronous_calls__move_any_size, 1, 4);
	tcase_add_loop_test(tc, queue__moves_bytes_of_device_memory, 0, 2);
	tcase_add_test(tc, queue__sends_no_inline_data_of_unnamed_memory);
	tcase_add_loop_test(tc, lists__have_pieces_of_device_memory, 0, 2);
	tcase_add_test(tc, results__are_not_for_device_memory);
	tcase_add_loop_test(tc, registration__has_offset_and_descriptor, 0, 2);
	tcase_add_test(tc, child__has_no_descriptor);
	tcase_add_loop_test(tc, buffer_create__refuses_parts_beyond_the_dmabuf, 0, 2);
	tcase_add_loop_test(tc, buffer_create__that_fails_leaves_no_descriptor, 0, 2);
	return unit_main();
}
