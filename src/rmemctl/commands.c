/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/nearest.h"
#include "rmemctl/command.h"

/* clang-format off */
const struct command *const commands[] = {
	&status_command,
	&pools_command,
	&devices_command,
	&sessions_command,
	&leases_command,
	&holders_command,
	&tenants_command,
	&events_command,
	&top_command,
	&metrics_command,
	&reload_command,
	&log_level_command,
	&revoke_command,
	&kick_command,
	&drain_command,
	&undrain_command,
	&keygen_command,
	&doctor_command,
	NULL,
};
/* clang-format on */

int command_find(const char *name, const struct command **ret_command)
{
	struct nearest nearest;

	nearest_init(&nearest, name);
	for (size_t i = 0; commands[i]; i++) {
		if (strcmp(commands[i]->name, name) == 0) {
			*ret_command = commands[i];
			return 0;
		}
		nearest_offer(&nearest, commands[i]->name);
	}
	return nearest_unknown(&nearest, "command");
}
