/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of programs and users: URIs of rmem_open(), command lines of the tools, sizes and times.
 * Each is accepted or refused with a text; an accepted URI stays within its limits. */
#include <check.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "base/err.h"
#include "base/option.h"
#include "base/units.h"
#include "base/utf8.h"
#include "fuzz/target.h"
#include "librmem/session/uri.h"
#include "rmem/options.h"

#define TEXT_MAX 1024
#define ARGS_MAX 16

const unsigned fuzz_rounds = 500000;

/* It is shown, whatever it quotes. */
static void expect_text(int err)
{
	ck_assert(!err || err_text()[0] != '\0');
	ck_assert(utf8_clean(err_text(), strlen(err_text())));
}

static void test_uri(const char *text)
{
	struct uri uri;
	int err = uri_parse(text, &uri);

	expect_text(err);
	if (err)
		return;
	ck_assert_uint_gt(strnlen(uri.host, URI_HOST_MAX + 1), 0);
	ck_assert_uint_le(strnlen(uri.host, URI_HOST_MAX + 1), URI_HOST_MAX);
	ck_assert_uint_gt(uri.port, 0);
	ck_assert_uint_ge(uri.channels, 1);
	ck_assert_uint_le(uri.channels, RMEM_CHANNELS_MAX);
}

/* Arguments are lines. */
static void test_options(char *text)
{
	char uri[512], program[] = "rmem";
	char *argv[ARGS_MAX + 1] = { program };
	int argc = 1, err;

	for (char *line = strtok(text, "\n"); line && argc < ARGS_MAX;
	     line = strtok(NULL, "\n"))
		argv[argc++] = line;
	options = (struct options){ .server = OPTIONS_SERVER };
	err = option_parse(options_table, false, argc, argv);
	expect_text(err == OPTION_ENDED ? 0 : err);
	if (!err)
		expect_text(options_uri(uri, sizeof(uri)));
}

static void test_units(const char *text)
{
	uint64_t value;
	bool on;

	expect_text(units_parse_bytes(text, &value));
	expect_text(units_parse_ms(text, &value));
	expect_text(units_parse_switch(text, &on));
	expect_text(units_parse_u64(text, 1, 1000, &value));
}

/* The first byte says which text it is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	char kind = (char)fuzz_number(&input, 1), text[TEXT_MAX + 1];
	size_t n;
	const uint8_t *from = fuzz_bytes(&input, TEXT_MAX, &n);

	memcpy(text, from, n);
	text[n] = '\0';
	err_clear();
	if (kind == 'u')
		test_uri(text);
	else if (kind == 'o')
		test_options(text);
	else
		test_units(text);
	return 0;
}

/* They are in corpus/text_seed_corpus.zip. */
size_t fuzz_seed(uint8_t *, size_t, unsigned)
{
	return 0;
}
