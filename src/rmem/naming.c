/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/naming.h"

#include <errno.h>

#include "base/err.h"
#include "rmem/session.h"

bool naming_if_absent;

int naming_prepare(rmem *session, const char *name)
{
	struct rmem_stat stat = rmem_stat_init();
	int err;

	if (!naming_if_absent)
		return 0;
	err = rmem_stat(session, name, &stat);
	if (err == -ENOENT)
		return 0;
	return err ? session_failed(err)
		   : err_set(-EEXIST, "\"%s\" is stored already", name);
}

int naming_give(rmem_lease *lease, const char *name)
{
	int err = rmem_rename(lease, name, naming_if_absent ? 0 : RMEM_RENAME_REPLACE);

	return err ? session_failed(err) : 0;
}
