/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/places.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Print what addr2line says of one frame, without folders. */
static void place_print(unsigned n, const char *file, uint64_t offset)
{
	char command[256], line[512] = "?";
	FILE *from;

	/* the call is before the address to which it returns */
	(void)snprintf(command, sizeof(command),
		       "addr2line -pfse '%s' 0x%" PRIx64 " 2>&1", file, offset - 1);
	from = popen(command, "re");
	if (from && !fgets(line, sizeof(line), from))
		(void)strcpy(line, "?");
	if (from)
		(void)pclose(from);
	line[strcspn(line, "\n")] = '\0';
	if (*line == '?')
		(void)snprintf(line, sizeof(line), "%s+0x%" PRIx64, file, offset);
	(void)printf("  #%u %s\n", n, line);
}

void places_print(const struct calls *calls)
{
	for (unsigned i = 0; i < calls->n_frames; i++)
		place_print(i, calls->frames[i].file, calls->frames[i].offset);
}
