/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "librmem/lease/attachment.h"
#include "librmem/params.h"
#include "librmem/session/uri.h"
#include "unit/unit.h"

static const struct {
	const char *text;
	struct uri uri;
} good[] = {
	{ "rmem://host",
	  { "host", 7460, RMEM_FABRIC_AUTO, 1, FABRIC_CLIENT_PARAMS_INIT, "default" } },
	{ "rmem://host/",
	  { "host", 7460, RMEM_FABRIC_AUTO, 1, FABRIC_CLIENT_PARAMS_INIT, "default" } },
	{ "rmem://10.0.0.1:1",
	  { "10.0.0.1", 1, RMEM_FABRIC_AUTO, 1, FABRIC_CLIENT_PARAMS_INIT,
	    "default" } },
	{ "rmem://host:65535?fabric=tcp",
	  { "host", 65535, RMEM_FABRIC_TCP, 1, FABRIC_CLIENT_PARAMS_INIT, "default" } },
	{ "rmem://[::1]",
	  { "::1", 7460, RMEM_FABRIC_AUTO, 1, FABRIC_CLIENT_PARAMS_INIT, "default" } },
	{ "rmem://[fe80::1%eth0]:9",
	  { "fe80::1%eth0", 9, RMEM_FABRIC_AUTO, 1, FABRIC_CLIENT_PARAMS_INIT,
	    "default" } },
	{ "rmem://h?channels=64&fabric=rdma",
	  { "h", 7460, RMEM_FABRIC_RDMA, 64, FABRIC_CLIENT_PARAMS_INIT, "default" } },
	{ "rmem://h?tenant=a.B-c_9&channels=2",
	  { "h", 7460, RMEM_FABRIC_AUTO, 2, FABRIC_CLIENT_PARAMS_INIT, "a.B-c_9" } },
	{ "rmem://"
	  "h?tenant=a&tenant=tenant-name-with-as-many-bytes-as-the-protocol-has-place-"
	  "for-64-",
	  { "h", 7460, RMEM_FABRIC_AUTO, 1, FABRIC_CLIENT_PARAMS_INIT,
	    "tenant-name-with-as-many-bytes-as-the-protocol-has-place-for-64-" } },
	{ "rmem://h/?fabric=rdma&fabric=auto",
	  { "h", 7460, RMEM_FABRIC_AUTO, 1, FABRIC_CLIENT_PARAMS_INIT, "default" } },
};

START_TEST(uri__that_is_good)
{
	struct uri uri;

	memset(&uri, 0xee, sizeof(uri));
	ck_assert_int_eq(uri_parse(good[_i].text, &uri), 0);
	ck_assert_str_eq(uri.host, good[_i].uri.host);
	ck_assert_uint_eq(uri.port, good[_i].uri.port);
	ck_assert_int_eq(uri.fabric, good[_i].uri.fabric);
	ck_assert_uint_eq(uri.channels, good[_i].uri.channels);
	ck_assert_str_eq(uri.tenant, good[_i].uri.tenant);
}
END_TEST

START_TEST(uri__says_how_devices_are_used)
{
	const struct fabric_client_params standard = FABRIC_CLIENT_PARAMS_INIT;
	struct uri uri;

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
	ck_assert_int_eq(uri.devices.rdma_options.mtu, 1024);
	ck_assert_int_eq(uri.devices.rdma_options.traffic_class, 104);
	ck_assert_int_eq(uri.devices.rdma_options.service_level, 3);
	ck_assert_int_eq(uri.devices.rdma_options.ack_timeout, 14);
	ck_assert_int_eq(uri.devices.rdma_options.retry_count, 5);
	ck_assert_int_eq(uri.devices.rdma_options.rnr_retry_count, 0);
	ck_assert_int_eq(uri.devices.rdma_options.rd_atomic, 4);
	ck_assert_int_eq(uri.devices.rdma_options.relaxed_ordering, 1);
	ck_assert_int_eq(uri.devices.rdma_options.connect, FABRIC_CONNECT_DIRECT);
	ck_assert_int_eq(uri.devices.rdma_options.gid_index, 0);
	ck_assert_int_eq(uri.devices.rdma_options.pkey, 0x8001);
	ck_assert_int_eq(uri_parse("rmem://h?connect=cm&pkey=auto", &uri), 0);
	ck_assert_int_eq(uri.devices.rdma_options.connect, FABRIC_CONNECT_CM);
	ck_assert_int_eq(uri.devices.rdma_options.pkey, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(uri_parse("rmem://h?source=[fd00::1]&mtu=256&mtu=auto", &uri),
			 0);
	ck_assert_int_eq(uri.devices.source.family, 6);
	ck_assert_uint_eq(uri.devices.source.bytes[15], 1);
	ck_assert_int_eq(uri.devices.rdma_options.mtu, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(uri_parse("rmem://h?source=::ffff:10.0.0.7", &uri), 0);
	ck_assert_int_eq(uri.devices.source.family, 4);
	ck_assert_mem_eq(uri.devices.source.bytes, "\x0a\0\0\x07", 4);
	ck_assert_int_eq(uri_parse("rmem://h?source=::1&source=auto", &uri), 0);
	ck_assert_int_eq(uri.devices.source.family, 0);
}
END_TEST

static const char *const bad[] = {
	"rmem://h?tenant",
	"",
	"host",
	"http://host",
	"rmem:/host",
	"rmem://",
	"rmem://:1",
	"rmem://host:",
	"rmem://host:0",
	"rmem://host:65536",
	"rmem://host:1x",
	"rmem://host:-1",
	"rmem://::1",
	"rmem://fe80::1:7460",
	"rmem://[::1",
	"rmem://[]",
	"rmem://[::1]x",
	"rmem://[::1]7460",
	"rmem://[::1]:",
	"rmem://a b",
	"rmem://h\n",
	"rmem://user@h",
	"rmem://h/path",
	"rmem://h?",
	"rmem://h?fabric",
	"rmem://h?fabric=",
	"rmem://h?fabric=ib",
	"rmem://h?channels=0",
	"rmem://h?channels=65",
	"rmem://h?channels=+1",
	"rmem://h?channels=99999999999999999999999",
	"rmem://h?depth=1",
	"rmem://h?fabric=tcp&",
	"rmem://h?&fabric=tcp",
	"rmem://h?Fabric=tcp",
	"rmem://h?fabric=tcp?channels=2",
	"RMEM://h",
};

START_TEST(uri__that_is_bad)
{
	struct uri uri = { .port = 5 };

	ck_assert_msg(uri_parse(bad[_i], &uri) == -EINVAL, "%s", bad[_i]);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "is not rmem://HOST"));
	ck_assert_uint_eq(uri.port, 5);
}
END_TEST

static const struct {
	const char *text, *why;
} causes[] = {
	{ "rmem://h?tenant=", "tenant has no name" },
	{ "rmem://h?tenant=a/b", "a tenant's name is of letters, digits, '-', '_'" },
	{ "rmem://h?tenant=a%20", "a tenant's name is of letters, digits, '-', '_'" },
	{ "rmem://h?tenant=tenant-name-with-as-many-bytes-as-the-protocol-has-place-"
	  "for-64-5",
	  "the tenant's name is too long" },
	{ "rmem://::1", "an IPv6 address stands in brackets" },
	{ "rmem://fe80::1:7460", "an IPv6 address stands in brackets" },
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
	{ "rmem://h?retries=3", "the options are fabric, channels, tenant, source" },
	{ "rmem://h?traffic_class=1234567890123456789012345678901234567890",
	  "the value of an option is too long" },
	{ "rmem://h?1234567890123456789012345678901234567890=1", "the options are" },
};

START_TEST(uri__that_is_bad_says_why)
{
	struct uri uri;

	ck_assert_int_eq(uri_parse(causes[_i].text, &uri), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), causes[_i].why));
}
END_TEST

START_TEST(uri__of_any_length)
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

START_TEST(params__of_other_versions)
{
	struct {
		size_t size;
		int a, b;
	} mine = { 0, 1, 2 }, theirs = { 0, 7, 8 };
	struct {
		size_t size;
		int a, b, c, d;
	} later = { 0, 5, 6, 0, 0 };

	ck_assert_int_eq(params_take(&mine, sizeof(mine), &theirs, 0, 12, "x"),
			 -EINVAL);
	ck_assert_int_eq(params_take(&mine, sizeof(mine), &theirs, 12, 12, "x"), 0);
	ck_assert_int_eq(mine.a, 7);
	ck_assert_int_eq(mine.b, 2);
	ck_assert_int_eq(
		params_take(&mine, sizeof(mine), &later, sizeof(later), 12, "x"), 0);
	ck_assert_int_eq(mine.b, 6);
	later.d = 1;
	ck_assert_int_eq(
		params_take(&mine, sizeof(mine), &later, sizeof(later), 12, "x"),
		-EINVAL);
}
END_TEST

/* ---- attachments ---- */

static struct wire_lease answer;

static int attachment_of(const uint64_t *bytes, unsigned n, uint64_t total)
{
	struct attachment *attachment = NULL;
	int err;

	answer.bytes = total;
	answer.n_segments = (uint16_t)n;
	for (unsigned i = 0; i < n; i++)
		answer.segments[i].bytes = bytes[i];
	err = attachment_create(&answer, 2, &attachment);
	attachment_free(attachment);
	return err;
}

START_TEST(attachment__that_contradicts_itself)
{
	ck_assert_int_eq(attachment_of((uint64_t[]){ 1, 2 }, 2, 3), 0);
	ck_assert_int_eq(attachment_of((uint64_t[]){ 1, 2 }, 2, 4), -EPROTO);
	ck_assert_int_eq(attachment_of((uint64_t[]){ 3, 0 }, 2, 3), -EPROTO);
	ck_assert_int_eq(attachment_of((uint64_t[]){ UINT64_MAX, 1 }, 2, 0), -EPROTO);
	ck_assert_int_eq(attachment_of(NULL, 0, 0), 0);
	ck_assert_int_eq(attachment_of(NULL, 0, 1), -EPROTO);
	answer.n_keys = 1;
	answer.keys[0].segment = 2;
	ck_assert_int_eq(attachment_of((uint64_t[]){ 1, 2 }, 2, 3), -EPROTO);
	answer.keys[0].segment = 1;
	answer.keys[0].endpoint = 2;
	ck_assert_int_eq(attachment_of((uint64_t[]){ 1, 2 }, 2, 3), -EPROTO);
	answer.keys[0].endpoint = 1;
	ck_assert_int_eq(attachment_of((uint64_t[]){ 1, 2 }, 2, 3), 0);
	answer.n_keys = 0;
}
END_TEST

START_TEST(attachment__finds_the_segment)
{
	struct attachment *att = NULL;

	answer.bytes = 0;
	answer.n_segments = WIRE_SEGMENTS_MAX;
	for (unsigned i = 0; i < WIRE_SEGMENTS_MAX; i++)
		answer.bytes += answer.segments[i].bytes = 10 + i;
	ck_assert_int_eq(attachment_create(&answer, 2, &att), 0);
	for (unsigned i = 0; i < WIRE_SEGMENTS_MAX; i++) {
		uint64_t start = attachment_start(att, i);

		ck_assert_uint_eq(attachment_segment(att, start), i);
		ck_assert_uint_eq(attachment_segment(att, start + 9 + i), i);
		ck_assert_uint_eq(att->ends[i], start + 10 + i);
	}
	attachment_free(att);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-uri");
	TCase *tc = tcase_create("uri");

	tcase_add_loop_test(tc, uri__that_is_good, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_test(tc, uri__says_how_devices_are_used);
	tcase_add_loop_test(tc, uri__that_is_bad, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_loop_test(tc, uri__that_is_bad_says_why, 0,
			    sizeof(causes) / sizeof(causes[0]));
	tcase_add_test(tc, uri__of_any_length);
	tcase_add_test(tc, params__of_other_versions);
	tcase_add_test(tc, attachment__that_contradicts_itself);
	tcase_add_test(tc, attachment__finds_the_segment);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
