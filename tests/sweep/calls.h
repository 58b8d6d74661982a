/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of the processes under test, counted by class.  The driver puts them into a file, which
 * the preloaded library maps: so the numbers go on in a daemon that is started again. */
#ifndef TESTS_SWEEP_CALLS_H
#define TESTS_SWEEP_CALLS_H

#include <stdatomic.h>
#include <stdint.h>

#define CALLS_FILE_VARIABLE "RMEM_SWEEP_CALLS"
#define CALLS_FRAMES 24
#define CALLS_STACKS 16384 /* calls with larger numbers are taken for new ones */
/* Exit status of a process that had descriptors or mappings left at the end of main(). */
#define CALLS_LEAKED 99

enum call_class {
	CALL_MEMORY,
	CALL_MAPPING,
	CALL_SOCKET,
	CALL_FILE,
	CALL_THREAD,
	CALL_RDMA,
	/* Those of the others that need room on a file system.  If one fails, the file system is
	 * full: so do all after it, until a step has failed. */
	CALL_SPACE,
	N_CALL_CLASSES,
};

struct calls {
	_Atomic uint64_t count[N_CALL_CLASSES];
	/* 1 + the index of the known place where the call is; it did not fail */
	unsigned known;
	uint64_t number; /* of the call that fails, from 1; 0: none */
	enum call_class class;
	/* about the call that has failed */
	atomic_int failed; /* 1: it has */
	atomic_int full;   /* 1: the file system is */
	int error;
	char name[32];
	char thread[16];
	unsigned n_frames;
	struct {
		char file[160]; /* the end of its path */
		uint64_t offset;
	} frames[CALLS_FRAMES];
	/* of a run in which no call fails: a hash of the functions on the stack of each call */
	uint32_t stacks[N_CALL_CLASSES][CALLS_STACKS];
};

/* The thread's calls are not counted while `exempt` is not 0.  Only in a process with the preloaded
 * library. */
__attribute__((weak)) void calls_exempt(int exempt);

#endif
