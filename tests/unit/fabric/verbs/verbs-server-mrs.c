/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/mr.h"
#include "fabric/verbs/server/session.h"

/* As in verbs-server-stage.h, whose names are those of the server. */
void session_deregister(struct fabric_session *session);

void session_deregister(struct fabric_session *session)
{
	list_for_each_entry_safe(struct fabric_mr, mr, &session->mrs, link)
		verbs_mr_dereg(mr);
}
