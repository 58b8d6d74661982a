/* SPDX-License-Identifier: BSD-3-Clause */
/* What differs between two configurations, for the administrator who reloads one: the keys with
 * their values as they are written, and the named sections that were added and removed.  Of keys
 * and certificates only numbers and fingerprints are in it.  Threads: [loop]. */
#ifndef RMEMD_CONFIG_CHANGES_H
#define RMEMD_CONFIG_CHANGES_H

#include <stddef.h>

#include "rmemd/config/config.h"

#define CONFIG_CHANGES_MAX 100
#define CONFIG_CHANGE_TEXT 160

struct config_change {
	char section[FABRIC_DEVICE_MAX + 16]; /* "server", "pool NAME" */
	const char *key;                      /* NULL: the section itself */
	/* Longer texts are cut; of a section "": it is not there. */
	char old[CONFIG_CHANGE_TEXT], new[CONFIG_CHANGE_TEXT];
};

struct config_changes {
	unsigned n;
	unsigned more; /* there were that many more than there is room for */
	struct config_change at[CONFIG_CHANGES_MAX];
};

/* The result of a reload. */
struct config_reloaded {
	struct config_changes changed;       /* those in force now */
	struct config_changes needs_restart; /* old: what is in force, new: the file */
};

/* Fill with the differences, in the order of the table of keys. */
void config_compare(const struct config *old, const struct config *new,
		    struct config_changes *ret_changes);
/* Fill with the keys without effect: those of fabrics that are not enabled, if they differ from
 * their defaults. */
void config_unused(const struct config *config, struct config_changes *ret_changes);
/* Append one; key NULL: the section. */
void config_change_add(struct config_changes *changes, const char *section,
		       const char *key, const char *old, const char *new);
/* "[tcp] port, [pool NAME] node" into buf, cut to its size; returns buf. */
const char *config_changes_names(const struct config_changes *changes, char *buf,
				 size_t buf_bytes);

#endif
