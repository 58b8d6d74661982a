/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/node_cpus.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_BYTES 4096

unsigned node_cpus_parse(const char *text, cpu_set_t *ret_cpus)
{
	CPU_ZERO(ret_cpus);
	for (;;) {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			break;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < CPU_SETSIZE; first++)
			CPU_SET(first, ret_cpus);
		if (*end != ',')
			break;
		text = end + 1;
	}
	return (unsigned)CPU_COUNT(ret_cpus);
}

unsigned node_cpus(int node, cpu_set_t *ret_cpus)
{
	char path[64], text[TEXT_BYTES] = "";
	int fd;

	(void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist",
		       node);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		/* without an answer the text stays empty */
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = '\0';
		(void)close(fd);
	}
	return node_cpus_parse(text, ret_cpus);
}

void node_cpus_use(int node)
{
	cpu_set_t cpus;

	if (node >= 0 && node_cpus(node, &cpus) > 0)
		(void)sched_setaffinity(0, sizeof(cpus), &cpus);
}
