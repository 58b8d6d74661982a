/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/metrics/port_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"

/* The time between two readings is that between the last two questions, within these limits. */
#define PERIOD_MS_MIN 1000
#define PERIOD_MS_MAX 15000
/* A reading is given out for this time. */
#define FRESH_MS (2 * PERIOD_MS_MAX)

#define NUMBER(member) offsetof(struct port_numbers, member)

/* Where drivers count what: mlx5, bnxt_re, irdma, rxe and the IB core.  A driver has one file for a
 * number, or files whose sum it is. */
static const struct {
	const char *file; /* below the port */
	size_t number;
	unsigned scale;
} files[] = {
	{ "counters/port_rcv_data", NUMBER(received_bytes), 4 },
	{ "counters/port_xmit_data", NUMBER(sent_bytes), 4 },
	{ "counters/port_rcv_packets", NUMBER(received_packets), 1 },
	{ "counters/port_xmit_packets", NUMBER(sent_packets), 1 },
	{ "counters/port_rcv_errors", NUMBER(receive_errors), 1 },
	{ "counters/port_xmit_discards", NUMBER(discards), 1 },
	{ "counters/link_downed", NUMBER(link_downed), 1 },
	/* mlx5, and later bnxt_re */
	{ "hw_counters/rx_read_requests", NUMBER(reads), 1 },
	{ "hw_counters/rx_write_requests", NUMBER(writes), 1 },
	{ "hw_counters/rx_atomic_requests", NUMBER(atomics), 1 },
	{ "hw_counters/local_ack_timeout_err", NUMBER(retries_timeout), 1 },
	{ "hw_counters/packet_seq_err", NUMBER(retries_sequence), 1 },
	{ "hw_counters/implied_nak_seq_err", NUMBER(retries_sequence), 1 },
	{ "hw_counters/rnr_nak_retry_err", NUMBER(retries_rnr), 1 },
	{ "hw_counters/duplicate_request", NUMBER(duplicates), 1 },
	{ "hw_counters/out_of_sequence", NUMBER(out_of_order), 1 },
	{ "hw_counters/resp_remote_access_errors", NUMBER(access_errors), 1 },
	{ "hw_counters/resp_local_length_error", NUMBER(length_errors), 1 },
	{ "hw_counters/np_cnp_sent", NUMBER(cnp_sent), 1 },
	{ "hw_counters/rp_cnp_handled", NUMBER(cnp_handled), 1 },
	{ "hw_counters/np_ecn_marked_roce_packets", NUMBER(ecn_marked), 1 },
	/* bnxt_re */
	{ "hw_counters/rx_bytes", NUMBER(received_bytes), 1 },
	{ "hw_counters/tx_bytes", NUMBER(sent_bytes), 1 },
	{ "hw_counters/rx_pkts", NUMBER(received_packets), 1 },
	{ "hw_counters/tx_pkts", NUMBER(sent_packets), 1 },
	{ "hw_counters/rx_read_req", NUMBER(reads), 1 },
	{ "hw_counters/rx_write_req", NUMBER(writes), 1 },
	{ "hw_counters/rx_atomic_req", NUMBER(atomics), 1 },
	{ "hw_counters/rx_send_req", NUMBER(sends), 1 },
	{ "hw_counters/to_retransmits", NUMBER(retries_timeout), 1 },
	{ "hw_counters/seq_err_naks_rcvd", NUMBER(retries_sequence), 1 },
	{ "hw_counters/rnr_naks_rcvd", NUMBER(retries_rnr), 1 },
	{ "hw_counters/max_retry_exceeded", NUMBER(retries_exceeded), 1 },
	{ "hw_counters/oos_drop_count", NUMBER(out_of_order), 1 },
	{ "hw_counters/tx_cnp_pkts", NUMBER(cnp_sent), 1 },
	{ "hw_counters/rx_cnp_pkts", NUMBER(cnp_handled), 1 },
	{ "hw_counters/rx_ecn_marked_pkts", NUMBER(ecn_marked), 1 },
	/* irdma */
	{ "hw_counters/ip4InOctets", NUMBER(received_bytes), 1 },
	{ "hw_counters/ip6InOctets", NUMBER(received_bytes), 1 },
	{ "hw_counters/ip4OutOctets", NUMBER(sent_bytes), 1 },
	{ "hw_counters/ip6OutOctets", NUMBER(sent_bytes), 1 },
	{ "hw_counters/ip4InPkts", NUMBER(received_packets), 1 },
	{ "hw_counters/ip6InPkts", NUMBER(received_packets), 1 },
	{ "hw_counters/ip4OutPkts", NUMBER(sent_packets), 1 },
	{ "hw_counters/ip6OutPkts", NUMBER(sent_packets), 1 },
	{ "hw_counters/iwInRdmaReads", NUMBER(reads), 1 },
	{ "hw_counters/iwInRdmaWrites", NUMBER(writes), 1 },
	{ "hw_counters/iwInRdmaSends", NUMBER(sends), 1 },
	{ "hw_counters/InRdmaReads", NUMBER(reads), 1 },
	{ "hw_counters/InRdmaWrites", NUMBER(writes), 1 },
	{ "hw_counters/InRdmaSends", NUMBER(sends), 1 },
	{ "hw_counters/tcpRetransSegs", NUMBER(retries_timeout), 1 },
	{ "hw_counters/RetransSegs", NUMBER(retries_timeout), 1 },
	{ "hw_counters/cnpSent", NUMBER(cnp_sent), 1 },
	{ "hw_counters/cnpHandled", NUMBER(cnp_handled), 1 },
	{ "hw_counters/RxECNMrkd", NUMBER(ecn_marked), 1 },
	/* rxe */
	{ "hw_counters/rcvd_pkts", NUMBER(received_packets), 1 },
	{ "hw_counters/sent_pkts", NUMBER(sent_packets), 1 },
	{ "hw_counters/rdma_recvs", NUMBER(sends), 1 },
	{ "hw_counters/completer_retry_err", NUMBER(retries_timeout), 1 },
	{ "hw_counters/rcvd_seq_err", NUMBER(retries_sequence), 1 },
	{ "hw_counters/rcvd_rnr_err", NUMBER(retries_rnr), 1 },
	{ "hw_counters/retry_exceeded_err", NUMBER(retries_exceeded), 1 },
	{ "hw_counters/retry_rnr_exceeded_err", NUMBER(retries_exceeded), 1 },
	{ "hw_counters/out_of_seq_request", NUMBER(out_of_order), 1 },
	{ "hw_counters/link_downed", NUMBER(link_downed), 1 },
};

#define N_FILES (sizeof(files) / sizeof(files[0]))

struct port_counters {
	char sysfs[64];
	unsigned n;
	struct port_id ports[WIRE_ENDPOINTS_MAX];
	pthread_t thread;
	bool missing[WIRE_ENDPOINTS_MAX][N_FILES]; /* [thread] */
	/* the rest under the lock, which nobody holds while files are read */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;
	uint64_t wanted_ms; /* clock_now_ms(), of the last question */
	uint64_t period_ms;
	uint64_t read_ms; /* of the last reading; 0: none */
	struct port_numbers numbers[WIRE_ENDPOINTS_MAX];
};

/* Read the first characters of a file.  False: errno says why, 0: it is empty. */
static bool file_read(int directory, const char *file, char *text, size_t bytes)
{
	int fd = openat(directory, file, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	errno = 0;
	n = read(fd, text, bytes - 1);
	(void)close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

static void number_add(struct port_numbers *numbers, size_t at, uint64_t value)
{
	uint64_t *number = (uint64_t *)(void *)((char *)numbers + at);

	*number = *number == PORT_COUNTER_NONE ? value : *number + value;
}

/* Add what there is to the numbers.  A driver has its files from the start: those that are missing
 * are not looked for again. */
static void port_read(struct port_counters *counters, unsigned port,
		      struct port_numbers *numbers)
{
	const struct port_id *id = &counters->ports[port];
	bool *missing = counters->missing[port];
	char path[256], text[32];
	int directory;

	(void)snprintf(path, sizeof(path), "%s/%s/ports/%u", counters->sysfs,
		       id->device, id->number);
	directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return;
	/* "4: ACTIVE" */
	if (file_read(directory, "state", text, sizeof(text)))
		numbers->up = text[0] == '4';
	for (size_t i = 0; i < N_FILES; i++) {
		if (missing[i])
			continue;
		if (file_read(directory, files[i].file, text, sizeof(text)))
			number_add(numbers, files[i].number,
				   strtoull(text, NULL, 10) * files[i].scale);
		else
			missing[i] = errno == ENOENT;
	}
	(void)close(directory);
}

static void ports_read(struct port_counters *counters)
{
	struct port_numbers numbers[WIRE_ENDPOINTS_MAX];

	/* PORT_COUNTER_NONE */
	memset(numbers, 0xff, sizeof(numbers));
	for (unsigned i = 0; i < counters->n; i++)
		port_read(counters, i, &numbers[i]);
	(void)pthread_mutex_lock(&counters->lock);
	memcpy(counters->numbers, numbers, counters->n * sizeof(numbers[0]));
	counters->read_ms = clock_now_ms();
	(void)pthread_mutex_unlock(&counters->lock);
}

/* Wait until it is time to read.  False: stop. */
static bool reading_await(struct port_counters *counters)
{
	bool stop;

	(void)pthread_mutex_lock(&counters->lock);
	for (;;) {
		uint64_t now_ms = clock_now_ms(), due_ms;
		struct timespec until;

		/* whoever asked often has gone */
		if (now_ms - counters->wanted_ms > 2 * counters->period_ms)
			counters->period_ms = PERIOD_MS_MAX;
		due_ms = counters->read_ms + counters->period_ms;
		until = clock_monotonic_timespec(due_ms * NS_PER_MS);
		stop = counters->stop;
		if (stop || counters->read_ms == 0 || now_ms >= due_ms)
			break;
		(void)pthread_cond_timedwait(&counters->wake, &counters->lock, &until);
	}
	(void)pthread_mutex_unlock(&counters->lock);
	return !stop;
}

static void *thread_run(void *ctx)
{
	struct port_counters *counters = ctx;

	while (reading_await(counters))
		ports_read(counters);
	return NULL;
}

static void locks_open(struct port_counters *counters)
{
	pthread_condattr_t attr;

	/* fail for invalid arguments alone */
	(void)pthread_mutex_init(&counters->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&counters->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
}

static void counters_free(struct port_counters *counters)
{
	(void)pthread_cond_destroy(&counters->wake);
	(void)pthread_mutex_destroy(&counters->lock);
	free(counters);
}

int port_counters_open(const char *sysfs, const struct port_id *ports, unsigned n,
		       struct port_counters **ret_counters)
{
	struct port_counters *counters = calloc(1, sizeof(*counters));
	int err;

	if (!counters)
		return err_set(-ENOMEM, "no memory for the counters of ports");
	(void)snprintf(counters->sysfs, sizeof(counters->sysfs), "%s", sysfs);
	memcpy(counters->ports, ports, n * sizeof(*ports));
	counters->n = n;
	counters->wanted_ms = clock_now_ms();
	counters->period_ms = PERIOD_MS_MAX;
	locks_open(counters);
	err = thread_start("rmemd-counters", thread_run, counters, &counters->thread);
	if (err) {
		counters_free(counters);
		return err;
	}
	*ret_counters = counters;
	return 0;
}

void port_counters_close(struct port_counters *counters)
{
	if (!counters)
		return;
	(void)pthread_mutex_lock(&counters->lock);
	counters->stop = true;
	(void)pthread_cond_signal(&counters->wake);
	(void)pthread_mutex_unlock(&counters->lock);
	(void)pthread_join(counters->thread, NULL);
	counters_free(counters);
}

unsigned port_counters_n(const struct port_counters *counters)
{
	return counters->n;
}

const struct port_id *port_counters_id(const struct port_counters *counters, unsigned i)
{
	return &counters->ports[i];
}

/* One question is for all ports, so for several calls. */
static void question_note(struct port_counters *counters, uint64_t now_ms)
{
	uint64_t since_ms = now_ms - counters->wanted_ms;

	if (since_ms < PERIOD_MS_MIN / 2)
		return;
	counters->wanted_ms = now_ms;
	counters->period_ms = since_ms < PERIOD_MS_MIN   ? PERIOD_MS_MIN
			      : since_ms > PERIOD_MS_MAX ? PERIOD_MS_MAX
							 : since_ms;
	(void)pthread_cond_signal(&counters->wake);
}

void port_counters_get(struct port_counters *counters, unsigned i,
		       struct port_numbers *ret_numbers)
{
	uint64_t now_ms = clock_now_ms();

	(void)pthread_mutex_lock(&counters->lock);
	question_note(counters, now_ms);
	if (counters->read_ms && now_ms - counters->read_ms <= FRESH_MS)
		*ret_numbers = counters->numbers[i];
	else
		memset(ret_numbers, 0xff, sizeof(*ret_numbers));
	(void)pthread_mutex_unlock(&counters->lock);
}
