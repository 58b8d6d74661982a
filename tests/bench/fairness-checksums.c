/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-checksums ADDRESS CONTROL_PORT DATA_PORT CHANNELS ROUND_MS: a session whose channels
 * over TCP are full of requests for checksums.  After ROUND_MS it closes the channels, still full,
 * and opens others; the daemon has to stop the work that is under way. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/hello.h"
#include "fabric/inband.h"
#include "fabric/tcp/stream.h"
#include "fairness-crowd.h"
#include "tls/admission.h"

#define BATCH 64u

struct channel {
	uint32_t number;
	size_t sent; /* of the batch */
};

struct checksums {
	struct crowd crowd;
	unsigned channels, round_ms;
	struct channel *channel;
	struct pollfd *polls; /* fd -1: not open */
	struct inband_request batch[BATCH];
	uint64_t rounds;
};

/* Allocate a lease that the requests read. */
static void batch_make(struct checksums *checksums)
{
	struct inband_request request = { .op = htole16(FABRIC_CRC),
					  .bytes = htole32(FABRIC_INBAND_BYTES_MAX) };

	message(WIRE_TYPE_allocate);
	msg.allocate.bytes = FABRIC_INBAND_BYTES_MAX;
	msg.allocate.node = -1;
	must(crowd_ask(&checksums->crowd, 0) && answer.lease.n_keys > 0,
	     "a lease with a key is refused");
	request.rkey = htole64(answer.lease.keys[0].rkey);
	request.addr = htole64(answer.lease.keys[0].addr);
	for (unsigned i = 0; i < BATCH; i++)
		checksums->batch[i] = request;
}

/* -1: refused */
static int stream_open(const struct crowd_member *member, uint32_t number)
{
	struct fabric_hello hello = { .session = member->session, .channel = number };
	uint8_t bytes[FABRIC_HELLO_BYTES];
	struct stream_status status;
	int fd = peer_connect(data_port);

	(void)admission_token(member->secret, hello.session, hello.channel,
			      hello.token);
	fabric_hello_encode(&hello, bytes);
	if (push(fd, bytes, sizeof(bytes)) &&
	    recv(fd, &status, sizeof(status), MSG_WAITALL) == sizeof(status) &&
	    status.status == htole32(WIRE_CODE_none) &&
	    fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

static void channel_open(struct checksums *checksums, unsigned i)
{
	struct channel *channel = &checksums->channel[i];

	checksums->polls[i] = (struct pollfd){ .fd = -1, .events = POLLIN | POLLOUT };
	message(WIRE_TYPE_open_channel);
	if (!crowd_ask(&checksums->crowd, 0))
		return;
	*channel = (struct channel){ .number = answer.channel.channel };
	checksums->polls[i].fd =
		stream_open(&checksums->crowd.members[0], channel->number);
}

static void channel_fill(struct checksums *checksums, unsigned i)
{
	struct channel *channel = &checksums->channel[i];
	ssize_t n = send(checksums->polls[i].fd,
			 (const char *)checksums->batch + channel->sent,
			 sizeof(checksums->batch) - channel->sent, MSG_NOSIGNAL);

	if (n > 0)
		channel->sent = (channel->sent + (size_t)n) % sizeof(checksums->batch);
}

static void channel_drain(struct checksums *checksums, unsigned i)
{
	static char dropped[65536];
	struct pollfd *at = &checksums->polls[i];
	ssize_t n = recv(at->fd, dropped, sizeof(dropped), 0);

	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	(void)close(at->fd);
	at->fd = -1;
}

/* Keep the channels full. */
static void channels_load(struct checksums *checksums)
{
	uint64_t until_ms = crowd_now_ms() + checksums->round_ms;

	while (crowd_goes_on() && crowd_now_ms() < until_ms) {
		crowd_turn(&checksums->crowd, 0, NULL, NULL);
		if (poll(checksums->polls, checksums->channels, 10) <= 0)
			continue;
		for (unsigned i = 0; i < checksums->channels; i++) {
			if (checksums->polls[i].revents & POLLOUT)
				channel_fill(checksums, i);
			if (checksums->polls[i].revents & ~POLLOUT)
				channel_drain(checksums, i);
		}
	}
}

static void channels_close(struct checksums *checksums)
{
	for (unsigned i = 0; i < checksums->channels; i++) {
		message(WIRE_TYPE_close_channel);
		msg.close_channel.channel = checksums->channel[i].number;
		(void)crowd_post(&checksums->crowd, 0);
	}
	crowd_await_all(&checksums->crowd, NULL, NULL);
	for (unsigned i = 0; i < checksums->channels; i++)
		if (checksums->polls[i].fd >= 0)
			(void)close(checksums->polls[i].fd);
}

static void round_run(struct checksums *checksums)
{
	for (unsigned i = 0; i < checksums->channels; i++)
		channel_open(checksums, i);
	channels_load(checksums);
	channels_close(checksums);
	checksums->rounds++;
}

int main(int argc, char **argv)
{
	static struct checksums checksums;
	unsigned numbers[2];

	crowd_begin(argc, argv, "CHANNELS ROUND_MS", 2, numbers);
	checksums =
		(struct checksums){ .channels = numbers[0], .round_ms = numbers[1] };
	checksums.channel = calloc(checksums.channels, sizeof(*checksums.channel));
	checksums.polls = calloc(checksums.channels, sizeof(*checksums.polls));
	must(checksums.channel && checksums.polls, "calloc");
	crowd_open(&checksums.crowd, 1);
	message(WIRE_TYPE_open_channel); /* a lease has keys where there are channels */
	must(crowd_ask(&checksums.crowd, 0), "a channel is refused");
	batch_make(&checksums);
	crowd_ready();
	while (crowd_goes_on())
		round_run(&checksums);
	crowd_report(checksums.rounds * checksums.channels, checksums.crowd.refused);
	return 0;
}
