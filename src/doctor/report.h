/* SPDX-License-Identifier: BSD-3-Clause */
/* What a doctor has found: findings in the order in which they were made, each with a level, a
 * text, the evidence (what was read, and where) and the commands that fix it.  Texts may come from
 * other programs: characters that a terminal must not get become '?'.  Threads: [main].  Without
 * memory findings are lost, which report_end() tells. */
#ifndef DOCTOR_REPORT_H
#define DOCTOR_REPORT_H

#include <jansson.h>
#include <stdio.h>

enum report_level {
	REPORT_OK,
	REPORT_NOTE,    /* worth knowing, or could not be examined */
	REPORT_WARNING, /* slow, or fails under some conditions */
	REPORT_ERROR,   /* does not work */
	REPORT_LEVELS
};

struct report;

/* -ENOMEM */
int report_create(struct report **ret_report);
void report_free(struct report *report);

/* The findings that follow are of the check of this name, borrowed. */
void report_check(struct report *report, const char *check);
/* Add a finding; evidence and commands that follow belong to it. */
void report_find(struct report *report, enum report_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Evidence: what `source`, a path or the name of a call, says. */
void report_seen(struct report *report, const char *source, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A command that fixes it, or a step towards that. */
void report_fix(struct report *report, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* 0; -ENOMEM with text: findings are missing. */
int report_end(const struct report *report);
/* The number of findings of a level. */
unsigned report_count(const struct report *report, enum report_level level);
/* The exit status that the findings stand for: 0 up to notes, else one of these. */
int report_status(const struct report *report);
#define REPORT_EXIT_WARNINGS 3
#define REPORT_EXIT_ERRORS 4

/* Lines of at most REPORT_CHARS characters; commands are longer if need be. */
#define REPORT_CHARS 100
/* Findings of this level and worse. */
void report_print(const struct report *report, enum report_level least, FILE *out);
/* A line with the numbers of findings. */
void report_print_counts(const struct report *report, FILE *out);
/* An object with `findings` and their numbers; the caller owns it.  NULL: no memory. */
json_t *report_json(const struct report *report);

/* The name of a level: "warning". */
const char *report_level_name(enum report_level level);

#endif
