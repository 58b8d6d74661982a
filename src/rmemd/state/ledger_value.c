/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/state/ledger_value.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/state/ledger.h"

char *value_add(char *end, const void *data, size_t bytes)
{
	memcpy(end, data, bytes);
	return end + bytes;
}

char *value_add_text(char *end, const char *text, size_t max)
{
	end = value_add(end, text, strnlen(text, max));
	*end = '\0';
	return end + 1;
}

bool value_parse_head(struct value *value, void *head, size_t bytes)
{
	uint32_t there;

	if (value->left < sizeof(there))
		return false;
	memcpy(&there, value->at, sizeof(there));
	if (there < sizeof(there) || there > value->left)
		return false;
	memset(head, 0, bytes);
	memcpy(head, value->at, there < bytes ? there : bytes);
	value->at += there;
	value->left -= there;
	return true;
}

bool value_parse(struct value *value, void *data, size_t bytes)
{
	if (value->left < bytes)
		return false;
	if (bytes)
		memcpy(data, value->at, bytes);
	value->at += bytes;
	value->left -= bytes;
	return true;
}

const char *value_parse_text(struct value *value, size_t max)
{
	const char *text = value->at, *end = memchr(text, '\0', value->left);

	if (!end || (size_t)(end - text) > max)
		return NULL;
	value->left -= (size_t)(end - text) + 1;
	value->at = end + 1;
	return text;
}

int value_malformed(const char *what, const struct ledger_key *key)
{
	return err_set(-EBADMSG, "the ledger's %s %" PRIu64 " is malformed", what,
		       key->a);
}
