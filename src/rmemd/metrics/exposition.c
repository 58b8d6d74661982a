/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/metrics/exposition.h"

#include <stdint.h>
#include <string.h>

#include "rmemd/metrics/table.h"

/* The most that an item takes with the head before it; a part ends when less is left. */
#define ITEM_BYTES 4096
_Static_assert(EXPOSITION_BYTES > 2 * ITEM_BYTES, "a part has more than one item");

/* Without printf(), which takes longer than all else here: there may be many thousand series. */

static char *put(char *to, const char *text)
{
	size_t len = strlen(text);

	memcpy(to, text, len);
	return to + len;
}

/* At least this many digits. */
static char *put_number(char *to, uint64_t number, unsigned digits)
{
	char text[20];
	unsigned n = 0;

	while (number || n < digits) {
		text[n++] = (char)('0' + number % 10);
		number /= 10;
	}
	while (n > 0)
		*to++ = text[--n];
	return to;
}

static char *put_value(char *to, uint64_t value, enum metric_unit unit)
{
	uint64_t parts = unit == METRIC_FROM_MS ? 1000 : 1000000000;

	if (unit == METRIC_PLAIN)
		return put_number(to, value, 1);
	to = put_number(to, value / parts, 1);
	*to++ = '.';
	return put_number(to, value % parts, unit == METRIC_FROM_MS ? 3 : 9);
}

/* The labels of the item and of the row. */
static char *put_labels(char *to, const char *labels, const struct metric *metric)
{
	if (!*labels && !*metric->labels)
		return to;
	*to++ = '{';
	to = put(to, labels);
	if (*labels && *metric->labels)
		*to++ = ',';
	to = put(to, metric->labels);
	*to++ = '}';
	return to;
}

/* The series of a histogram: cumulative, up to +Inf; their sum and number. */
static char *put_histogram(char *to, const struct metric *metric,
			   const struct durations *durations)
{
	uint64_t n = 0;

	for (unsigned i = 0; i <= DURATIONS_LIMITS; i++) {
		n += durations->n[i];
		to = put(put(to, metric->name), "_bucket{le=\"");
		to = put(to,
			 i < DURATIONS_LIMITS ? durations_limits[i].seconds : "+Inf");
		to = put_number(put(to, "\"} "), n, 1);
		*to++ = '\n';
	}
	to = put(put(to, metric->name), "_sum ");
	to = put_value(to, durations->sum_ns, METRIC_FROM_NS);
	to = put(put(put(to, "\n"), metric->name), "_count ");
	to = put_number(to, n, 1);
	*to++ = '\n';
	return to;
}

static char *put_item(char *to, const struct metric *metric, const char *item)
{
	struct durations durations;
	uint64_t value;

	if (metric->type == METRIC_HISTOGRAM) {
		memcpy(&durations, item + metric->offset, sizeof(durations));
		return put_histogram(to, metric, &durations);
	}
	memcpy(&value, item + metric->offset, sizeof(value));
	if (value == SAMPLE_NONE)
		return to;
	to = put(to, metric->name);
	to = put_labels(to, item, metric);
	*to++ = ' ';
	to = put_value(to, value, metric->unit);
	*to++ = '\n';
	return to;
}

static char *put_head(char *to, const struct metric *metric)
{
	static const char *const types[] = { [METRIC_GAUGE] = "gauge",
					     [METRIC_COUNTER] = "counter",
					     [METRIC_HISTOGRAM] = "histogram" };

	to = put(put(put(to, "# HELP "), metric->name), " ");
	to = put(put(put(to, metric->help), "\n# TYPE "), metric->name);
	return put(put(put(to, " "), types[metric->type]), "\n");
}

static bool is_first(size_t row)
{
	return row == 0 || strcmp(metrics[row].name, metrics[row - 1].name) != 0;
}

size_t exposition_write(struct exposition *at, const struct sample *sample, char *buf)
{
	char *to = buf;

	while (at->row < metrics_n) {
		const struct metric *metric = &metrics[at->row];
		const struct sample_group *group = &sample->groups[metric->group];

		if (to > buf + EXPOSITION_BYTES - ITEM_BYTES)
			break;
		if (at->item == 0 && is_first(at->row))
			to = put_head(to, metric);
		for (; at->item < group->n; at->item++) {
			const char *items = group->items;

			/* the head is not written again */
			if (at->item > 0 && to > buf + EXPOSITION_BYTES - ITEM_BYTES)
				return (size_t)(to - buf);
			to = put_item(to, metric, items + at->item * group->item_bytes);
		}
		at->item = 0;
		at->row++;
	}
	return (size_t)(to - buf);
}
