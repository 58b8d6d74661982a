/* SPDX-License-Identifier: BSD-3-Clause */
/* A buffer on a dma-buf of the kernel, against a running server:
 *
 *   dmabuf URI
 *
 * The dma-buf is a udmabuf, whose memory is that of a memfd.  Over TCP its bytes go to a lease and
 * come back; on RDMA, if the device cannot register it, the error names the device. */
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

#define PAGE 4096
#define BYTES (256 * PAGE)

static uint8_t *exported; /* the memory, as its exporter has it */

static int dmabuf_create(void)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC,
					 .size = BYTES };
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int memfd = memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING), fd;

	must(device, "/dev/udmabuf");
	must(memfd, "memfd");
	must(ftruncate(memfd, BYTES), "ftruncate");
	must(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), "seal");
	exported = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (exported == MAP_FAILED)
		fail("mmap", -errno);
	create.memfd = (uint32_t)memfd;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	must(fd, "UDMABUF_CREATE");
	(void)close(memfd);
	(void)close(device);
	return fd;
}

/* The CPU begins or ends to access the dma-buf. */
static void dmabuf_sync(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags | DMA_BUF_SYNC_RW };

	must(ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync), "DMA_BUF_IOCTL_SYNC");
}

static void fill(unsigned seed)
{
	for (unsigned i = 0; i < BYTES; i++)
		exported[i] = (uint8_t)(seed + i + i / 256);
}

/* Operations of a queue name the buffer. */
static void run(rmem_queue *queue, const struct rmem_op *op)
{
	struct rmem_completion done;

	must(rmem_submit(queue, op, 1), "submit");
	must(rmem_wait(queue, &done, 1, 1, -1), "wait");
	must_complete(queue, &done);
}

/* All but the first page of the dma-buf is in the buffer. */
static void round_trip(rmem *session, rmem_buffer *buffer, int fd)
{
	static uint8_t back[BYTES - PAGE], expected[BYTES];
	struct rmem_alloc_params want = rmem_alloc_params_init();
	uint8_t *local = rmem_buffer_addr(buffer);
	rmem_lease *lease;
	rmem_queue *queue;
	struct rmem_op op;

	want.bytes = sizeof(back);
	must(rmem_alloc(session, &want, &lease), "alloc");
	must(rmem_queue_create(session, NULL, &queue), "queue");
	fill(1);
	dmabuf_sync(fd, DMA_BUF_SYNC_START);
	must(rmem_write(lease, 0, local, sizeof(back)), "write");
	dmabuf_sync(fd, DMA_BUF_SYNC_END);
	must(rmem_read(lease, 0, back, sizeof(back)), "read");
	if (memcmp(back, exported + PAGE, sizeof(back)) != 0)
		fail("the lease differs from the dma-buf", 1);
	fill(2);
	memcpy(expected, exported, BYTES);
	memcpy(expected + PAGE + 8, back + 8, sizeof(back) - 8);
	dmabuf_sync(fd, DMA_BUF_SYNC_START);
	op = rmem_op_read(lease, 8, local + 8, sizeof(back) - 8);
	op.buffer = buffer;
	run(queue, &op);
	dmabuf_sync(fd, DMA_BUF_SYNC_END);
	if (memcmp(exported, expected, BYTES) != 0)
		fail("the dma-buf differs from the lease, or is changed elsewhere", 1);
	must(rmem_destroy(lease), "free");
}

int main(int argc, char **argv)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct rmem_info info = rmem_info_init();
	rmem_buffer *buffer;
	rmem *session;
	int fd, err;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: dmabuf URI\n");
		return 2;
	}
	fd = dmabuf_create();
	must(rmem_open(argv[1], NULL, &session), "open");
	must(rmem_info(session, &info), "info");
	params.bytes = BYTES - PAGE;
	params.dmabuf_fd = fd;
	params.dmabuf_offset = PAGE;
	err = rmem_buffer_create(session, &params, &buffer);
	if (info.fabric == RMEM_FABRIC_RDMA) {
		if (err != -ENOTSUP || !strstr(rmem_error(), info.device))
			fail("a buffer on a device without dma-bufs", err);
		(void)printf("refused: %s\n", rmem_error());
	} else {
		must(err, "buffer");
		round_trip(session, buffer, fd);
		must(rmem_buffer_free(buffer), "buffer free");
	}
	rmem_close(session);
	return 0;
}
