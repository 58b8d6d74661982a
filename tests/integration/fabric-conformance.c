/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the promises of fabric.h on one fabric:
 *
 *   fabric-conformance                  tcp over loopback
 *   fabric-conformance tcp ADDRESS[,ADDRESS]...
 *   fabric-conformance tls [ADDRESS]...                 tcp under TLS
 *   fabric-conformance verbs ADDRESS[,ADDRESS]...
 *   fabric-conformance direct ADDRESS[,ADDRESS]...      verbs without rdma_cm
 *
 * All cases run on each address in turn.  For verbs it is the address of an RDMA device, not
 * 127.0.0.1.
 *
 * RMEM_SEED=N repeats a run of the random traffic; RMEM_PERCENT=N runs N % of the repetitions
 * of the longest cases. */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"
#include "unit/unit.h"

static int run(void)
{
	TCase *tcase = unit_case("conformance", stage_open, stage_close);

	tcase_set_timeout(tcase, 120);
	transfer_cases(tcase);
	isolation_cases(tcase);
	atomic_cases(tcase);
	inband_cases(tcase);
	deregistration_cases(tcase);
	channel_cases(tcase);
	mixer_cases(tcase);
	return unit_main();
}

static bool address_parse(const char *text, struct fabric_address *ret_address)
{
	struct fabric_address address = { .family = 4 };

	if (inet_pton(AF_INET, text, address.bytes) != 1) {
		address.family = 6;
		if (inet_pton(AF_INET6, text, address.bytes) != 1)
			return false;
	}
	*ret_address = address;
	return true;
}

static int usage(void)
{
	fprintf(stderr, "usage: fabric-conformance [{tcp|tls} [ADDRESS] | "
			"{verbs|direct} ADDRESS[,ADDRESS2]]\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "tcp";
	char *list = argc > 2 ? argv[2] : NULL, *next = NULL;
	char loopback[] = "127.0.0.1";
	int status = EXIT_SUCCESS;

	if (argc > 3) {
		return usage();
	} else if (strcmp(name, "tcp") == 0 || strcmp(name, "tls") == 0) {
		stage_setting.tls = name[1] == 'l';
		stage_setting.server = &fabric_tcp_server;
		stage_setting.client = &fabric_tcp_client;
	} else if ((strcmp(name, "verbs") == 0 || strcmp(name, "direct") == 0) &&
		   list) {
		stage_setting.direct = name[0] == 'd';
		stage_setting.server = &fabric_verbs_server;
		stage_setting.client = &fabric_verbs_client;
	} else {
		return usage();
	}
	for (char *text = strtok_r(list ? list : loopback, ",", &next); text;
	     text = strtok_r(NULL, ",", &next)) {
		if (!address_parse(text, &stage_setting.address))
			return usage();
		if (run() != EXIT_SUCCESS)
			status = EXIT_FAILURE;
	}
	return status;
}
