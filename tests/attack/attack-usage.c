/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attack.h"

uint64_t usage_memory_kib(uint64_t pid)
{
	uint64_t kib = 0;
	char name[64], line[200];
	FILE *file;

	(void)snprintf(name, sizeof(name), "/proc/%" PRIu64 "/smaps_rollup", pid);
	file = fopen(name, "re");
	must(file, "the daemon's memory cannot be read");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Anonymous: %" SCNu64, &kib) == 1)
			break;
	(void)fclose(file);
	must(kib > 0, "the daemon has no memory");
	return kib;
}

uint64_t usage_ledger_kib(uint64_t pid)
{
	char folder[64], name[400], link[300];
	struct dirent *entry;
	uint64_t kib = 0;
	struct stat st;
	DIR *fds;

	(void)snprintf(folder, sizeof(folder), "/proc/%" PRIu64 "/fd", pid);
	fds = opendir(folder);
	must(fds, "the daemon's files cannot be seen");
	while ((entry = readdir(fds))) {
		ssize_t n;

		(void)snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
		n = readlink(name, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		/* the file, in whatever mount namespace it is */
		if (strstr(link, "/ledger") && !stat(name, &st))
			kib = (uint64_t)st.st_blocks / 2;
	}
	(void)closedir(fds);
	must(kib > 0, "the daemon has no ledger");
	return kib;
}

/* 0: it has ended. */
static uint64_t thread_ns(uint64_t pid, uint64_t thread)
{
	uint64_t ns = 0;
	char name[80];
	FILE *file;

	(void)snprintf(name, sizeof(name),
		       "/proc/%" PRIu64 "/task/%" PRIu64 "/schedstat", pid, thread);
	file = fopen(name, "re");
	if (!file)
		return 0;
	must(fscanf(file, "%" SCNu64, &ns) == 1, "a thread's time");
	(void)fclose(file);
	return ns;
}

struct usage_cpu usage_cpu(uint64_t pid)
{
	struct usage_cpu usage = { .loop_ns = thread_ns(pid, pid) };
	struct dirent *entry;
	char name[64];
	DIR *threads;

	(void)snprintf(name, sizeof(name), "/proc/%" PRIu64 "/task", pid);
	threads = opendir(name);
	must(threads, "the daemon's threads cannot be read");
	while ((entry = readdir(threads))) {
		uint64_t thread = strtoull(entry->d_name, NULL, 10);

		if (thread && thread != pid)
			usage.others_ns += thread_ns(pid, thread);
	}
	(void)closedir(threads);
	return usage;
}
