/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-hellos ADDRESS CONTROL_PORT DATA_PORT: opens one session after the other, and hangs up
 * after the welcome, without a bye. */
#include "fairness-crowd.h"

int main(int argc, char **argv)
{
	uint64_t welcome = 0, refused = 0;

	crowd_begin(argc, argv, "", 0, NULL);
	while (crowd_goes_on()) {
		int fd = peer_connect(control_port);

		hello_make();
		if (ask(fd) && answer.type == WIRE_TYPE_welcome)
			welcome++;
		else
			refused++;
		crowd_hang_up(fd);
	}
	crowd_report(welcome, refused);
	return 0;
}
