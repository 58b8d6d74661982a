/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress of populating pools, in the log and in the status of the service. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rmemd/system/progress.h"
#include "unit/unit.h"

#define GIB (UINT64_C(1) << 30)
#define SECOND UINT64_C(1000000000)

static uint64_t now_ns;
static unsigned n_lines;
static char line[LOG_LINE_BYTES];

static uint64_t fake_clock(void)
{
	return now_ns;
}

static void record_line(int level, const char *event, const struct log_ctx *ctx,
			const char *text)
{
	ck_assert_int_eq(level, LOG_INFO);
	log_format(line, event, ctx, text);
	n_lines++;
}

static void setup(void)
{
	now_ns = 100 * SECOND;
	clock_set_source(fake_clock);
	log_set_sink(record_line);
}

START_TEST(log__has_no_line_in_the_first_seconds)
{
	struct progress progress = { 0 };

	for (uint64_t i = 0; i <= 49; i++, now_ns += SECOND / 10)
		progress_report(&progress, i * GIB, 49 * GIB);
	ck_assert_uint_eq(n_lines, 0);
}
END_TEST

/* A terabyte at 5 GiB a second: a line for each tenth. */
START_TEST(log__has_a_line_for_each_tenth)
{
	struct progress progress = { 0 };

	for (uint64_t i = 0; i <= 1024; i += 5, now_ns += SECOND)
		progress_report(&progress, i * GIB, 1024 * GIB);
	ck_assert_uint_eq(n_lines, 9);
	ck_assert_str_eq(line, "pools-populating: 945 GiB of 1 TiB after 189 s");
}
END_TEST

START_TEST(log__has_a_line_every_30_seconds)
{
	struct progress progress = { 0 };

	for (uint64_t i = 0; i <= 90; i++, now_ns += SECOND)
		progress_report(&progress, GIB, 1024 * GIB);
	ck_assert_uint_eq(n_lines, 3);
	/* too soon after the last line */
	progress_report(&progress, 1024 * GIB, 1024 * GIB);
	ck_assert_uint_eq(n_lines, 3);
}
END_TEST

START_TEST(status__shows_every_step)
{
	char directory[] = "/tmp/rmem-progress-XXXXXX", text[256] = "";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	struct progress progress = { 0 };

	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", directory);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
	/* the total is not known yet */
	progress_report(&progress, 0, 0);
	ck_assert_int_lt((int)recv(fd, text, sizeof(text) - 1, 0), 0);
	progress_report(&progress, 0, 128 * GIB);
	ck_assert_int_gt((int)recv(fd, text, sizeof(text) - 1, 0), 0);
	ck_assert_str_eq(text, "STATUS=populating pools: 0 B of 128 GiB");
	memset(text, 0, sizeof(text));
	progress_report(&progress, 37 * GIB, 128 * GIB);
	ck_assert_int_gt((int)recv(fd, text, sizeof(text) - 1, 0), 0);
	ck_assert_str_eq(text, "STATUS=populating pools: 37 GiB of 128 GiB");
	/* progress_log() does not change the status */
	now_ns += 30 * SECOND;
	progress_log(&progress, 40 * GIB, 128 * GIB);
	ck_assert_uint_eq(n_lines, 1);
	ck_assert_str_eq(line, "pools-populating: 40 GiB of 128 GiB after 30 s");
	ck_assert_int_lt((int)recv(fd, text, sizeof(text) - 1, 0), 0);
	ck_assert_int_eq(unlink(address.sun_path), 0);
	ck_assert_int_eq(rmdir(directory), 0);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("progress", setup, NULL);

	tcase_add_test(tc, log__has_no_line_in_the_first_seconds);
	tcase_add_test(tc, log__has_a_line_for_each_tenth);
	tcase_add_test(tc, log__has_a_line_every_30_seconds);
	tcase_add_test(tc, status__shows_every_step);
	return unit_main();
}
