/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

#define TEXT_BYTES 768
#define HEAD_CHARS 26 /* level and check */
#define SEEN_CHARS 15 /* indentation of evidence that is continued */

struct report {
	json_t *findings;
	json_t *last; /* in `findings` */
	const char *check;
	unsigned n[REPORT_LEVELS];
	bool failed;
};

static const char *const level_names[REPORT_LEVELS] = {
	[REPORT_OK] = "ok",
	[REPORT_NOTE] = "note",
	[REPORT_WARNING] = "warning",
	[REPORT_ERROR] = "error",
};

const char *report_level_name(enum report_level level)
{
	return level_names[level];
}

int report_create(struct report **ret_report)
{
	struct report *report = calloc(1, sizeof(*report));

	if (report)
		report->findings = json_array();
	if (!report || !report->findings) {
		free(report);
		return err_set(-ENOMEM, "no memory for findings");
	}
	report->check = "";
	*ret_report = report;
	return 0;
}

void report_free(struct report *report)
{
	if (!report)
		return;
	json_decref(report->findings);
	free(report);
}

void report_check(struct report *report, const char *check)
{
	report->check = check;
	report->last = NULL;
}

/* ---- texts ---- */

static json_t *__attribute__((format(printf, 1, 0))) text_new(const char *fmt,
							      va_list ap)
{
	char text[TEXT_BYTES];

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	return json_string(utf8_sanitize(text, ""));
}

/* Append to an array of the last finding. */
static void last_append(struct report *report, const char *key, json_t *value)
{
	if (json_array_append_new(json_object_get(report->last, key), value))
		report->failed = true;
}

void report_find(struct report *report, enum report_level level, const char *fmt, ...)
{
	json_t *finding;
	va_list ap;

	va_start(ap, fmt);
	finding = json_pack("{s:s, s:s, s:o, s:[], s:[]}", "check", report->check,
			    "level", level_names[level], "text", text_new(fmt, ap),
			    "seen", "fix");
	va_end(ap);
	report->n[level]++;
	report->last = NULL;
	if (json_array_append_new(report->findings, finding))
		report->failed = true;
	else
		report->last = finding;
}

void report_seen(struct report *report, const char *source, const char *fmt, ...)
{
	char from[TEXT_BYTES];
	va_list ap;

	(void)snprintf(from, sizeof(from), "%s", source);
	va_start(ap, fmt);
	last_append(report, "seen",
		    json_pack("{s:s, s:o}", "source", utf8_sanitize(from, ""), "value",
			      text_new(fmt, ap)));
	va_end(ap);
}

void report_fix(struct report *report, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	last_append(report, "fix", text_new(fmt, ap));
	va_end(ap);
}

/* ---- results ---- */

int report_end(const struct report *report)
{
	return report->failed ? err_set(-ENOMEM, "no memory for findings") : 0;
}

unsigned report_count(const struct report *report, enum report_level level)
{
	return report->n[level];
}

int report_status(const struct report *report)
{
	if (report->n[REPORT_ERROR])
		return REPORT_EXIT_ERRORS;
	return report->n[REPORT_WARNING] ? REPORT_EXIT_WARNINGS : EXIT_SUCCESS;
}

/* ---- output ---- */

/* Print words at `column`; lines that follow begin at `indent`. */
static void words_print(FILE *out, const char *text, size_t column, size_t indent)
{
	bool first = true;

	while (*text) {
		size_t bytes = strcspn(text, " "), chars = 0;

		for (size_t i = 0; i < bytes; i++)
			chars += ((unsigned char)text[i] & 0xc0) != 0x80;
		if (!first && column + 1 + chars > REPORT_CHARS) {
			(void)fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (!first) {
			(void)fputc(' ', out);
			column++;
		}
		(void)fprintf(out, "%.*s", (int)bytes, text);
		column += chars;
		first = false;
		text += bytes;
		text += strspn(text, " ");
	}
	(void)fputc('\n', out);
}

static const char *member(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static void finding_print(FILE *out, const json_t *finding)
{
	const json_t *seen = json_object_get(finding, "seen"),
		     *fix = json_object_get(finding, "fix");
	char line[2 * TEXT_BYTES + 4];

	(void)fprintf(out, "%-8s %-16s ", member(finding, "level"),
		      member(finding, "check"));
	words_print(out, member(finding, "text"), HEAD_CHARS, HEAD_CHARS);
	for (size_t i = 0; i < json_array_size(seen); i++) {
		const json_t *item = json_array_get(seen, i);

		(void)fprintf(out, "         seen: ");
		(void)snprintf(line, sizeof(line), "%s: %s", member(item, "source"),
			       member(item, "value"));
		words_print(out, line, SEEN_CHARS, SEEN_CHARS);
	}
	for (size_t i = 0; i < json_array_size(fix); i++)
		(void)fprintf(out, "         fix:  %s\n",
			      json_string_value(json_array_get(fix, i)));
}

static enum report_level level_of(const json_t *finding)
{
	enum report_level level = REPORT_OK;

	while (level < REPORT_ERROR &&
	       strcmp(member(finding, "level"), level_names[level]) != 0)
		level++;
	return level;
}

void report_print(const struct report *report, enum report_level least, FILE *out)
{
	for (size_t i = 0; i < json_array_size(report->findings); i++) {
		const json_t *finding = json_array_get(report->findings, i);

		if (level_of(finding) >= least)
			finding_print(out, finding);
	}
}

void report_print_counts(const struct report *report, FILE *out)
{
	const unsigned *n = report->n;

	(void)fprintf(out, "%u error%s, %u warning%s, %u note%s, %u ok\n",
		      n[REPORT_ERROR], n[REPORT_ERROR] == 1 ? "" : "s",
		      n[REPORT_WARNING], n[REPORT_WARNING] == 1 ? "" : "s",
		      n[REPORT_NOTE], n[REPORT_NOTE] == 1 ? "" : "s", n[REPORT_OK]);
}

json_t *report_json(const struct report *report)
{
	return json_pack("{s:O, s:i, s:i, s:i, s:i}", "findings", report->findings,
			 "errors", (int)report->n[REPORT_ERROR], "warnings",
			 (int)report->n[REPORT_WARNING], "notes",
			 (int)report->n[REPORT_NOTE], "ok", (int)report->n[REPORT_OK]);
}
