/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "rmem/options.h"

#define FIRST_NS UINT64_C(1000000000)
#define EVERY_NS UINT64_C(200000000)
#define LINE_BYTES 512
#define BAR_MIN 10u
#define BAR_MAX 40u

void progress_start(struct progress *p, const char *title, uint64_t total_bytes)
{
	*p = (struct progress){
		.title = title,
		.total_bytes = total_bytes,
		.start_ns = clock_now_ns(),
		.enabled = isatty(STDERR_FILENO) == 1 && !options.quiet,
	};
}

static unsigned terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0)
		return 80;
	return size.ws_col;
}

/* "1:02:03" or "02:03" */
static void eta_format(uint64_t seconds, char *buf, size_t buf_bytes)
{
	uint64_t hours = seconds / 3600, minutes = seconds / 60 % 60;

	if (hours)
		(void)snprintf(buf, buf_bytes, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64,
			       hours, minutes, seconds % 60);
	else
		(void)snprintf(buf, buf_bytes, "%02" PRIu64 ":%02" PRIu64, minutes,
			       seconds % 60);
}

static void bar_format(double fraction, unsigned width, char *buf)
{
	unsigned full = (unsigned)(fraction * width);

	for (unsigned i = 0; i < width; i++)
		buf[i] = i < full ? '#' : '.';
	buf[width] = '\0';
}

void progress_format(const struct progress *p, uint64_t done_bytes, uint64_t now_ns,
		     unsigned columns, char *buf, size_t buf_bytes)
{
	char done[32], speed[32], eta[32], tail[160], bar[BAR_MAX + 1];
	double seconds = (double)(now_ns - p->start_ns) / 1e9;
	double rate = seconds > 0 ? (double)done_bytes / seconds : 0;
	double fraction;
	size_t room;
	unsigned width;

	(void)units_format_bytes(done_bytes, done, sizeof(done));
	(void)units_format_bytes((uint64_t)rate, speed, sizeof(speed));
	if (p->total_bytes == 0 || done_bytes > p->total_bytes) {
		(void)snprintf(buf, buf_bytes, "%.40s  %s  %s/s", p->title, done,
			       speed);
		return;
	}
	fraction = (double)done_bytes / (double)p->total_bytes;
	if (rate > 0)
		eta_format((uint64_t)((double)(p->total_bytes - done_bytes) / rate),
			   eta, sizeof(eta));
	else
		(void)snprintf(eta, sizeof(eta), "--:--");
	(void)snprintf(tail, sizeof(tail), "%3.0f %%  %s  %s/s  ETA %s", fraction * 100,
		       done, speed, eta);
	room = strlen(tail) + strnlen(p->title, 40) + 8;
	if (room + BAR_MIN > columns) {
		(void)snprintf(buf, buf_bytes, "%.40s  %s", p->title, tail);
		return;
	}
	width = columns - (unsigned)room;
	bar_format(fraction, width < BAR_MAX ? width : BAR_MAX, bar);
	(void)snprintf(buf, buf_bytes, "%.40s  [%s]  %s", p->title, bar, tail);
}

void progress_update(struct progress *p, uint64_t done_bytes)
{
	char line[LINE_BYTES];
	unsigned columns;
	uint64_t now;

	if (!p->enabled)
		return;
	now = clock_now_ns();
	if (now - p->start_ns < FIRST_NS ||
	    (p->drawn_ns && now - p->drawn_ns < EVERY_NS))
		return;
	p->drawn_ns = now;
	columns = terminal_columns();
	progress_format(p, done_bytes, now, columns, line, sizeof(line));
	/* a line that wraps cannot be erased */
	(void)fprintf(stderr, "\r\033[K%.*s", (int)columns - 1, line);
	(void)fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (!p->enabled || !p->drawn_ns)
		return;
	(void)fputs("\r\033[K", stderr);
	(void)fflush(stderr);
	p->drawn_ns = 0;
}
