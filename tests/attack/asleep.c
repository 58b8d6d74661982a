/* SPDX-License-Identifier: BSD-3-Clause */
#include "asleep.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attack.h"

#define LOOK_US 2000
#define DEVICES "/dev/infiniband/"

static pthread_t thread;
static uint64_t pid;
static atomic_bool stop;
static struct asleep asleep; /* the thread's while it runs */

static bool is_device(unsigned fd)
{
	char name[64], to[sizeof(DEVICES)] = "";

	(void)snprintf(name, sizeof(name), "/proc/%" PRIu64 "/fd/%u", pid, fd);
	(void)!readlink(name, to, sizeof(to) - 1);
	return !strcmp(to, DEVICES);
}

/* The file says which call a thread sleeps in, and of one that does not sleep only that. */
static bool look(void)
{
	char name[80];
	unsigned fd;
	FILE *file;
	int n;
	long call;

	(void)snprintf(name, sizeof(name), "/proc/%" PRIu64 "/task/%" PRIu64 "/syscall",
		       pid, pid);
	file = fopen(name, "re");
	must(file, name);
	n = fscanf(file, "%ld 0x%x", &call, &fd);
	(void)fclose(file);
	return n == 2 && (call == SYS_ioctl || call == SYS_write) && is_device(fd);
}

static void *run(void *arg)
{
	(void)arg;
	while (!stop) {
		asleep.looks++;
		asleep.found += look();
		(void)usleep(LOOK_US);
	}
	return NULL;
}

void asleep_begin(uint64_t of)
{
	pid = of;
	asleep = (struct asleep){ 0 };
	stop = false;
	must(!pthread_create(&thread, NULL, run, NULL), "a thread");
}

struct asleep asleep_end(void)
{
	stop = true;
	(void)pthread_join(thread, NULL);
	return asleep;
}
