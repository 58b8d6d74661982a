/* SPDX-License-Identifier: BSD-3-Clause */
/* Is the clock synchronised?  Certificates and the times of logs depend on it; leases do not. */
#include "doctor/host.h"

void clock_check(const struct host *host)
{
	if (host->clock < 0)
		return;
	if (host->clock) {
		report_find(host->report, REPORT_OK, "the clock is synchronised");
		return;
	}
	report_find(
		host->report, REPORT_WARNING,
		"the clock is not synchronised: certificates may seem to be expired, "
		"and logs of several hosts do not fit together");
	report_seen(host->report, "adjtimex", "STA_UNSYNC");
	report_fix(host->report, "timedatectl set-ntp true   # or install chrony");
}
