/* SPDX-License-Identifier: BSD-3-Clause */
/* URIs, parameter structures and attachments of the library. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "librmem/lease/attachment.h"
#include "base/params.h"
#include "librmem/session/dial.h"
#include "librmem/session/resolve.h"
#include "librmem/session/uri.h"
#include "unit/unit.h"

#define LONGEST_TENANT \
	"tenant-name-with-as-many-bytes-as-the-protocol-has-place-for-64-"

static const struct {
	const char *text, *host;
	unsigned port;
	enum rmem_fabric fabric;
	unsigned channels;
	const char *tenant; /* NULL: "default" */
} good[] = {
	{ "rmem://host", "host", 7460, RMEM_FABRIC_AUTO, 1, NULL },
	{ "host", "host", 7460, RMEM_FABRIC_AUTO, 1, NULL },
	{ "host:9/?fabric=tcp", "host", 9, RMEM_FABRIC_TCP, 1, NULL },
	{ "[::1]:9", "::1", 9, RMEM_FABRIC_AUTO, 1, NULL },
	{ "rmem://host/", "host", 7460, RMEM_FABRIC_AUTO, 1, NULL },
	{ "rmem://10.0.0.1:1", "10.0.0.1", 1, RMEM_FABRIC_AUTO, 1, NULL },
	{ "rmem://host:65535?fabric=tcp", "host", 65535, RMEM_FABRIC_TCP, 1, NULL },
	{ "rmem://[::1]", "::1", 7460, RMEM_FABRIC_AUTO, 1, NULL },
	{ "rmem://[fe80::1%eth0]:9", "fe80::1%eth0", 9, RMEM_FABRIC_AUTO, 1, NULL },
	{ "rmem://[fe80::1%25]:9", "fe80::1%25", 9, RMEM_FABRIC_AUTO, 1, NULL },
	{ "rmem://[fe80::1%251]:9", "fe80::1%251", 9, RMEM_FABRIC_AUTO, 1, NULL },
	{ "rmem://h?channels=64&fabric=rdma", "h", 7460, RMEM_FABRIC_RDMA, 64, NULL },
	{ "rmem://h?tenant=a.B-c_9&channels=2", "h", 7460, RMEM_FABRIC_AUTO, 2,
	  "a.B-c_9" },
	{ "rmem://h?tenant=" LONGEST_TENANT, "h", 7460, RMEM_FABRIC_AUTO, 1,
	  LONGEST_TENANT },
	{ "rmem://h/?fabric=auto", "h", 7460, RMEM_FABRIC_AUTO, 1, NULL },
};

START_TEST(uri__that_is_valid_is_parsed)
{
	const char *tenant = good[_i].tenant ? good[_i].tenant : "default";
	struct uri uri;

	memset(&uri, 0xee, sizeof(uri));
	ck_assert_int_eq(uri_parse(good[_i].text, &uri), 0);
	ck_assert_str_eq(uri.host, good[_i].host);
	ck_assert_uint_eq(uri.port, good[_i].port);
	ck_assert_int_eq(uri.fabric, good[_i].fabric);
	ck_assert_uint_eq(uri.channels, good[_i].channels);
	ck_assert_str_eq(uri.tenant, tenant);
}
END_TEST

START_TEST(uri__is_that_of_the_environment_if_none_is_given)
{
	struct uri uri;

	ck_assert_int_eq(unsetenv("RMEM_SERVER"), 0);
	ck_assert_int_eq(uri_parse(NULL, &uri), -EINVAL);
	ck_assert_msg(strstr(err_text(), "RMEM_SERVER is not set"), "%s", err_text());
	ck_assert_int_eq(setenv("RMEM_SERVER", "mem1:9?tenant=a", 1), 0);
	ck_assert_int_eq(uri_parse(NULL, &uri), 0);
	ck_assert_str_eq(uri.host, "mem1");
	ck_assert_uint_eq(uri.port, 9);
	ck_assert_str_eq(uri.tenant, "a");
	/* what is given counts */
	ck_assert_int_eq(uri_parse("mem2", &uri), 0);
	ck_assert_str_eq(uri.host, "mem2");
	ck_assert_int_eq(uri_parse("", &uri), -EINVAL);
	ck_assert_int_eq(setenv("RMEM_SERVER", "", 1), 0);
	ck_assert_int_eq(uri_parse(NULL, &uri), -EINVAL);
}
END_TEST

START_TEST(uri__has_options_for_devices)
{
	const struct fabric_client_params standard = FABRIC_CLIENT_PARAMS_INIT;
	struct uri uri;
	const struct fabric_rdma_options *options = &uri.devices.rdma_options;

	ck_assert_int_eq(uri_parse("rmem://h", &uri), 0);
	ck_assert_mem_eq(&uri.devices, &standard, sizeof(standard));
	ck_assert_int_eq(
		uri_parse("rmem://h?source=10.0.0.7&mtu=1024&traffic_class=104&"
			  "service_level=3&ack_timeout=14&retry_count=5&"
			  "rnr_retry_count=0&rd_atomic=4&relaxed_ordering=yes&"
			  "connect=direct&gid_index=0&pkey=0x8001",
			  &uri),
		0);
	ck_assert_int_eq(uri.devices.source.family, 4);
	ck_assert_mem_eq(uri.devices.source.bytes, "\x0a\0\0\x07", 4);
	ck_assert_int_eq(options->mtu, 1024);
	ck_assert_int_eq(options->traffic_class, 104);
	ck_assert_int_eq(options->service_level, 3);
	ck_assert_int_eq(options->ack_timeout, 14);
	ck_assert_int_eq(options->retry_count, 5);
	ck_assert_int_eq(options->rnr_retry_count, 0);
	ck_assert_int_eq(options->rd_atomic, 4);
	ck_assert_int_eq(options->relaxed_ordering, 1);
	ck_assert_int_eq(options->connect, FABRIC_CONNECT_DIRECT);
	ck_assert_int_eq(options->gid_index, 0);
	ck_assert_int_eq(options->pkey, 0x8001);
	ck_assert_int_eq(uri_parse("rmem://h?connect=cm&pkey=auto", &uri), 0);
	ck_assert_int_eq(options->connect, FABRIC_CONNECT_CM);
	ck_assert_int_eq(options->pkey, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(uri_parse("rmem://h?source=[fd00::1]&mtu=auto", &uri), 0);
	ck_assert_int_eq(uri.devices.source.family, 6);
	ck_assert_uint_eq(uri.devices.source.bytes[15], 1);
	ck_assert_int_eq(options->mtu, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(uri_parse("rmem://h?source=::ffff:10.0.0.7", &uri), 0);
	ck_assert_int_eq(uri.devices.source.family, 4);
	ck_assert_mem_eq(uri.devices.source.bytes, "\x0a\0\0\x07", 4);
	ck_assert_int_eq(uri_parse("rmem://h?source=auto", &uri), 0);
	ck_assert_int_eq(uri.devices.source.family, 0);
}
END_TEST

/* The second member is a part of the error text. */
static const struct {
	const char *text, *cause;
} bad[] = {
	{ "rmem://h?tenant", "the option 'tenant' has no value" },
	{ "http://host", "its scheme is not rmem://" },
	{ "host?from=a://b", "its scheme is not rmem://" },
	{ "::1", "an IPv6 address stands in brackets" },
	{ "rmem:/host", "" },
	{ "rmem://", "" },
	{ "rmem://host:", "" },
	{ "rmem://host:0", "" },
	{ "rmem://host:65536", "" },
	{ "rmem://host:1x", "" },
	{ "rmem://host:-1", "" },
	{ "rmem://[::1", "" },
	{ "rmem://[]", "" },
	{ "rmem://[::1]x", "" },
	{ "rmem://[::1]7460", "" },
	{ "rmem://[::1]:", "" },
	{ "rmem://a b", "" },
	{ "rmem://h\n", "" },
	{ "rmem://user@h", "" },
	{ "rmem://h/path", "it has the path \"/path\"" },
	{ "rmem://h:1/a/?fabric=tcp", "it has the path \"/a/\"" },
	{ "rmem://h//", "it has the path \"//\"" },
	{ "rmem://h?", "an option has no name" },
	{ "rmem://h?=1", "an option has no name" },
	{ "rmem://h?fabric=tcp&fabric=tcp", "the option fabric is there twice" },
	{ "rmem://h?mtu=256&fabric=tcp&mtu=512", "the option mtu is there twice" },
	{ "rmem://h?tenant=a&tenant=b", "the option tenant is there twice" },
	{ "rmem://h?fabric", "" },
	{ "rmem://h?fabric=", "" },
	{ "rmem://h?fabric=ib", "" },
	{ "rmem://h?channels=0", "" },
	{ "rmem://h?channels=65", "" },
	{ "rmem://h?channels=+1", "" },
	{ "rmem://h?channels=99999999999999999999999", "" },
	{ "rmem://h?depth=1", "there is no option 'depth'; the options are fabric, " },
	{ "rmem://h?fabric=tcp&", "" },
	{ "rmem://h?&fabric=tcp", "" },
	{ "rmem://h?Fabric=tcp", "there is no option 'Fabric'" },
	{ "rmem://h?fabric=tcp?channels=2", "" },
	{ "RMEM://h", "" },
	{ "rmem://h?tenant=", "tenant has no name" },
	{ "rmem://h?tenant=a/b", "a tenant's name is of letters, digits, '-', '_'" },
	{ "rmem://h?tenant=a%20", "a tenant's name is of letters, digits, '-', '_'" },
	{ "rmem://h?tenant=" LONGEST_TENANT "5", "the tenant's name is too long" },
	{ "rmem://::1", "an IPv6 address stands in brackets" },
	{ "rmem://fe80::1:7460", "an IPv6 address stands in brackets" },
	{ "rmem://[fe80::1%25eth0]:7460",
	  "the interface stands behind % alone, without 25, as in "
	  "rmem://[fe80::1%eth0]:7460" },
	{ "rmem://[::1]:7:8", "the port is not 1 to 65535" },
	{ "rmem://:1", "there is no host" },
	{ "rmem://h?mtu=1000", "mtu: 1000 is not 256, 512, 1024, 2048 or 4096" },
	{ "rmem://h?mtu=8192", "mtu: 8192 is not from 256 to 4096" },
	{ "rmem://h?mtu=", "mtu: '' is neither a number nor auto" },
	{ "rmem://h?retry_count=7", "retry_count: 7 stands for trying for ever" },
	{ "rmem://h?rnr_retry_count=8", "rnr_retry_count: 8 is not from 0 to 6" },
	{ "rmem://h?retry_count=auto", "retry_count: 'auto' is not a number" },
	{ "rmem://h?ack_timeout=0", "ack_timeout: 0 is not from 1 to 31" },
	{ "rmem://h?rd_atomic=256", "rd_atomic: 256 is not from 1 to 255" },
	{ "rmem://h?relaxed_ordering=1",
	  "relaxed_ordering: '1' is neither yes nor no" },
	{ "rmem://h?connect=both", "connect: 'both' is neither cm, direct nor auto" },
	{ "rmem://h?gid_index=256", "gid_index: 256 is not from 0 to 255" },
	{ "rmem://h?pkey=32769", "pkey: '32769' is neither 0x and hexadecimal digits" },
	{ "rmem://h?pkey=0x", "pkey: '0x' is neither" },
	{ "rmem://h?pkey=0x8001z", "pkey: '0x8001z' is not a P_Key" },
	{ "rmem://h?pkey=0x8000", "pkey: '0x8000' is not a P_Key" },
	{ "rmem://h?pkey=0x0", "pkey: '0x0' is not a P_Key" },
	{ "rmem://h?pkey=0x10001", "pkey: '0x10001' is not a P_Key" },
	{ "rmem://h?pkey=0xfffffffffffffffff", "pkey: '0xfffffffffffffffff' is not" },
	{ "rmem://h?source=localhost", "source is not an IPv4 or IPv6 address" },
	{ "rmem://h?source=[::1", "source is not an IPv4 or IPv6 address" },
	{ "rmem://h?source=", "source is not an IPv4 or IPv6 address" },
	{ "rmem://h?retries=3", "the options are fabric, channels, tenant, psk" },
	{ "rmem://h?traffic_class=1234567890123456789012345678901234567890",
	  "the value of traffic_class is too long" },
	{ "rmem://h?1234567890123456789012345678901234567890=1", "the options are" },
};

START_TEST(uri__that_is_invalid_is_refused)
{
	struct uri uri = { .port = 5 };

	ck_assert_msg(uri_parse(bad[_i].text, &uri) == -EINVAL, "%s", bad[_i].text);
	ck_assert_ptr_nonnull(strstr(err_text(), "is not [rmem://]HOST"));
	ck_assert_ptr_nonnull(strstr(err_text(), bad[_i].cause));
	ck_assert_uint_eq(uri.port, 5);
}
END_TEST

START_TEST(uri__host_has_a_longest_length)
{
	char text[600] = "rmem://";
	struct uri uri;

	ck_assert_int_eq(uri_parse(NULL, &uri), -EINVAL);
	memset(text + 7, 'h', 255);
	ck_assert_int_eq(uri_parse(text, &uri), 0);
	ck_assert_uint_eq(strlen(uri.host), 255);
	text[262] = 'h';
	ck_assert_int_eq(uri_parse(text, &uri), -EINVAL);
	memset(text + 7, 'h', 590);
	ck_assert_int_eq(uri_parse(text, &uri), -EINVAL);
}
END_TEST

static const struct {
	const char *host, *text;
	int err;
} scopes[] = {
	{ "fe80::1",
	  "[fe80::1]:7460: a link-local address needs the interface that leads to it, "
	  "as in [fe80::1%eth0]",
	  -EINVAL },
	{ "fe80::1%nosuch0",
	  "resolving fe80::1%nosuch0: this host has no interface 'nosuch0', or",
	  -EHOSTUNREACH },
	{ "2001:db8::1%lo", "or what stands before it is no link-local address",
	  -EHOSTUNREACH },
};

/* Resolve the host and begin to connect. */
static int host_dial(const char *host)
{
	struct addrinfo *list;
	struct dial *dial;
	int err = resolve_host(host, 7460, 0, &list), fd;

	if (err)
		return err;
	ck_assert_int_eq(dial_create(-1, list, NULL, &dial), 0);
	err = dial_work(dial, 0, &fd);
	dial_free(dial);
	freeaddrinfo(list);
	return err;
}

START_TEST(host__of_a_link_local_address_needs_its_interface)
{
	ck_assert_int_eq(host_dial(scopes[_i].host), scopes[_i].err);
	ck_assert_msg(strstr(err_text(), scopes[_i].text), "%s", err_text());
}
END_TEST

static const struct {
	const char *hosts[6], *order[6]; /* in the list, and as they are tried */
} families[] = {
	{ { "fe80::1", "fe80::2", "fe80::3", "127.0.0.1", "127.0.0.2" },
	  { "fe80::1", "127.0.0.1", "fe80::2", "127.0.0.2", "fe80::3" } },
	{ { "127.0.0.1", "127.0.0.2", "fe80::1", "127.0.0.3" },
	  { "127.0.0.1", "fe80::1", "127.0.0.2", "127.0.0.3" } },
	{ { "fe80::2", "fe80::1" }, { "fe80::2", "fe80::1" } },
	{ { "127.0.0.1" }, { "127.0.0.1" } },
};

/* Each attempt fails at once: its address has no scope, or the epoll set is not there. */
START_TEST(dial__lets_families_take_turns)
{
	struct addrinfo *list = NULL, **end = &list;
	const char *at = NULL, *text;
	struct dial *dial;
	int fd;

	for (unsigned i = 0; families[_i].hosts[i]; i++) {
		ck_assert_int_eq(resolve_host(families[_i].hosts[i], 7460, 0, end), 0);
		end = &(*end)->ai_next;
	}
	ck_assert_int_eq(dial_create(-1, list, NULL, &dial), 0);
	ck_assert_int_lt(dial_work(dial, 0, &fd), 0);
	for (unsigned i = 0; families[_i].order[i]; i++) {
		text = strstr(err_text(), families[_i].order[i]);
		ck_assert_msg(text && text > at, "%s", err_text());
		at = text;
	}
	dial_free(dial);
	freeaddrinfo(list);
}
END_TEST

START_TEST(params__of_other_versions_are_copied)
{
	struct {
		size_t size;
		int a, b;
	} mine = { 0, 1, 2 }, theirs = { 0, 7, 8 };
	struct {
		size_t size;
		int a, b, c, d;
	} later = { 0, 5, 6, 0, 0 };
	const size_t bytes = sizeof(mine);

	ck_assert_int_eq(params_import(&mine, bytes, &theirs, 0, 12, "x"), -EINVAL);
	ck_assert_int_eq(params_import(&mine, bytes, &theirs, 12, 12, "x"), 0);
	ck_assert_int_eq(mine.a, 7);
	ck_assert_int_eq(mine.b, 2);
	ck_assert_int_eq(params_import(&mine, bytes, &later, sizeof(later), 12, "x"),
			 0);
	ck_assert_int_eq(mine.b, 6);
	later.d = 1;
	ck_assert_int_eq(params_import(&mine, bytes, &later, sizeof(later), 12, "x"),
			 -EINVAL);
}
END_TEST

START_TEST(params__of_other_versions_are_filled)
{
	struct {
		size_t size;
		int a, b;
	} mine = { sizeof(mine), 1, 2 }, theirs = { 12, 7, 8 };
	struct {
		size_t size;
		int a, b, c, d;
	} later = { sizeof(later), 5, 6, 7, 8 };

	theirs.size = 11;
	ck_assert_int_eq(params_export(&theirs, &mine, sizeof(mine), 12, "x"), -EINVAL);
	ck_assert_int_eq(theirs.a, 7);
	/* an older program keeps what lies behind its structure */
	theirs.size = 12;
	ck_assert_int_eq(params_export(&theirs, &mine, sizeof(mine), 12, "x"), 0);
	ck_assert_uint_eq(theirs.size, 12);
	ck_assert_int_eq(theirs.a, 1);
	ck_assert_int_eq(theirs.b, 8);
	/* a newer program gets zero for what this version does not know */
	ck_assert_int_eq(params_export(&later, &mine, sizeof(mine), 12, "x"), 0);
	ck_assert_uint_eq(later.size, sizeof(later));
	ck_assert_int_eq(later.b, 2);
	ck_assert_int_eq(later.c, 0);
	ck_assert_int_eq(later.d, 0);
}
END_TEST

/* ---- attachments ---- */

static struct wire_lease reply;
/* of two endpoints */
static const struct endpoint_map map = {
	.n_server = 2, .present = 3, .index = { 0, 1 }, .number = { 0, 1 }
};

/* Create an attachment of these segments; returns the result. */
static int attachment_of(const uint64_t *bytes, unsigned n, uint64_t total)
{
	struct attachment *attachment = NULL;
	int err;

	reply.bytes = total;
	reply.n_segments = (uint16_t)n;
	for (unsigned i = 0; i < n; i++)
		reply.segments[i].bytes = bytes[i];
	err = attachment_create(&reply, &map, &attachment);
	attachment_free(attachment);
	return err;
}

START_TEST(attachment__that_is_inconsistent_is_refused)
{
	static const uint64_t bytes[] = { 1, 2 };

	ck_assert_int_eq(attachment_of(bytes, 2, 3), 0);
	ck_assert_int_eq(attachment_of(bytes, 2, 4), -EPROTO);
	ck_assert_int_eq(attachment_of((uint64_t[]){ 3, 0 }, 2, 3), -EPROTO);
	ck_assert_int_eq(attachment_of((uint64_t[]){ UINT64_MAX, 1 }, 2, 0), -EPROTO);
	ck_assert_int_eq(attachment_of(NULL, 0, 0), 0);
	ck_assert_int_eq(attachment_of(NULL, 0, 1), -EPROTO);
	reply.n_keys = 1;
	reply.keys[0].segment = 2;
	ck_assert_int_eq(attachment_of(bytes, 2, 3), -EPROTO);
	reply.keys[0].segment = 1;
	reply.keys[0].endpoint = 2;
	ck_assert_int_eq(attachment_of(bytes, 2, 3), -EPROTO);
	reply.keys[0].endpoint = 1;
	ck_assert_int_eq(attachment_of(bytes, 2, 3), 0);
	reply.n_keys = 0;
}
END_TEST

START_TEST(attachment__finds_the_segment)
{
	struct attachment *attachment = NULL;

	reply.bytes = 0;
	reply.n_segments = WIRE_SEGMENTS_MAX;
	for (unsigned i = 0; i < WIRE_SEGMENTS_MAX; i++)
		reply.bytes += reply.segments[i].bytes = 10 + i;
	ck_assert_int_eq(attachment_create(&reply, &map, &attachment), 0);
	for (unsigned i = 0; i < WIRE_SEGMENTS_MAX; i++) {
		uint64_t start = attachment_start(attachment, i);

		ck_assert_uint_eq(attachment_segment(attachment, start), i);
		ck_assert_uint_eq(attachment_segment(attachment, start + 9 + i), i);
		ck_assert_uint_eq(attachment->ends[i], start + 10 + i);
	}
	attachment_free(attachment);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("uri", NULL, NULL);

	tcase_add_loop_test(tc, uri__that_is_valid_is_parsed, 0,
			    sizeof(good) / sizeof(good[0]));
	tcase_add_test(tc, uri__is_that_of_the_environment_if_none_is_given);
	tcase_add_test(tc, uri__has_options_for_devices);
	tcase_add_loop_test(tc, uri__that_is_invalid_is_refused, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, uri__host_has_a_longest_length);
	tcase_add_loop_test(tc, host__of_a_link_local_address_needs_its_interface, 0,
			    sizeof(scopes) / sizeof(scopes[0]));
	tcase_add_loop_test(tc, dial__lets_families_take_turns, 0,
			    sizeof(families) / sizeof(families[0]));
	tcase_add_test(tc, params__of_other_versions_are_copied);
	tcase_add_test(tc, params__of_other_versions_are_filled);
	tcase_add_test(tc, attachment__that_is_inconsistent_is_refused);
	tcase_add_test(tc, attachment__finds_the_segment);
	return unit_main();
}
