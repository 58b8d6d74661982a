/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel.h"
#include "fabric/verbs/server/mr.h"
#include "fabric/verbs/server/session.h"

/* As in verbs-server-stage.h, whose names are those of the server. */
void session_deregister(struct fabric_session *session);
bool server_works(const struct fabric_server *verbs);

void session_deregister(struct fabric_session *session)
{
	list_for_each_entry_safe(struct fabric_mr, mr, &session->mrs, link)
		verbs_mr_dereg(mr);
}

static bool session_works(const struct fabric_session *session)
{
	list_for_each_entry(struct verbs_channel, channel, &session->channels, link) {
		if (channel->opening)
			return true;
	}
	return !list_empty(&session->ending);
}

bool server_works(const struct fabric_server *verbs)
{
	unsigned n_endings = 0;

	for (unsigned i = 0; i < verbs->n_endpoints; i++)
		list_for_each_entry(struct fabric_session, session,
				    &verbs->endpoints[i]->sessions, link) {
			if (session_works(session))
				return true;
		}
	list_for_each_safe(node, &verbs->endings)
		n_endings++;
	return n_endings > verbs->n_disconnects;
}
