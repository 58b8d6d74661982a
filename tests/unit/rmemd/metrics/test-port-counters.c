/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of RDMA ports, from a directory that looks like sysfs. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rmemd/metrics/port_counters.h"
#include "unit/unit.h"

static char directory[64];

static void make_folder(const char *path)
{
	char whole[160];

	(void)snprintf(whole, sizeof(whole), "%s/%s", directory, path);
	ck_assert_int_eq(mkdir(whole, 0700), 0);
}

static void make_file(const char *path, const char *contents)
{
	char whole[160];
	FILE *file;

	(void)snprintf(whole, sizeof(whole), "%s/%s", directory, path);
	file = fopen(whole, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(contents, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void setup(void)
{
	(void)strcpy(directory, "/tmp/rmem-ports-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	make_folder("mlx5_0");
	make_folder("mlx5_0/ports");
	make_folder("mlx5_0/ports/1");
	make_folder("mlx5_0/ports/1/counters");
	make_folder("mlx5_0/ports/1/hw_counters");
}

static void teardown(void)
{
	char command[96];

	(void)snprintf(command, sizeof(command), "rm -rf %s", directory);
	ck_assert_int_eq(system(command), 0);
}

static const struct port_id ports[] = { { "mlx5_0", 1 }, { "gone", 1 } };

/* Until the thread has read them. */
static struct port_numbers numbers_await(struct port_counters *counters)
{
	struct port_numbers numbers;

	do {
		(void)poll(NULL, 0, 1);
		port_counters_get(counters, 0, &numbers);
	} while (numbers.up == PORT_COUNTER_NONE);
	return numbers;
}

START_TEST(files__are_read_and_added)
{
	struct port_counters *counters;
	struct port_numbers numbers;

	make_file("mlx5_0/ports/1/state", "4: ACTIVE\n");
	make_file("mlx5_0/ports/1/counters/port_rcv_data", "1000\n");
	make_file("mlx5_0/ports/1/hw_counters/rx_read_requests", "7\n");
	make_file("mlx5_0/ports/1/hw_counters/packet_seq_err", "2\n");
	make_file("mlx5_0/ports/1/hw_counters/implied_nak_seq_err", "3\n");
	ck_assert_int_eq(port_counters_open(directory, ports, 2, &counters), 0);
	numbers = numbers_await(counters);
	ck_assert_uint_eq(numbers.up, 1);
	/* it counts words of four bytes */
	ck_assert_uint_eq(numbers.received_bytes, 4000);
	ck_assert_uint_eq(numbers.reads, 7);
	ck_assert_uint_eq(numbers.retries_sequence, 5);
	ck_assert_uint_eq(numbers.writes, PORT_COUNTER_NONE);
	/* a device that is not there */
	port_counters_get(counters, 1, &numbers);
	ck_assert_uint_eq(numbers.up, PORT_COUNTER_NONE);
	ck_assert_uint_eq(numbers.received_bytes, PORT_COUNTER_NONE);
	ck_assert_uint_eq(port_counters_n(counters), 2);
	ck_assert_str_eq(port_counters_id(counters, 1)->device, "gone");
	port_counters_close(counters);
}
END_TEST

START_TEST(files__are_read_again)
{
	struct port_counters *counters;
	struct port_numbers numbers;

	make_file("mlx5_0/ports/1/state", "4: ACTIVE\n");
	ck_assert_int_eq(port_counters_open(directory, ports, 1, &counters), 0);
	numbers = numbers_await(counters);
	make_file("mlx5_0/ports/1/state", "1: DOWN\n");
	while (numbers.up)
		numbers = numbers_await(counters);
	port_counters_close(counters);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("port-counters", setup, teardown);

	tcase_add_test(tc, files__are_read_and_added);
	tcase_add_test(tc, files__are_read_again);
	return unit_main();
}
