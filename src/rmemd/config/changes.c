/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/config/changes.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "rmemd/config/keys.h"

#define PRESENT "present"

static void text_keep(char to[CONFIG_CHANGE_TEXT], const char *text)
{
	const char dots[] = "...";
	size_t n = strlen(text);

	if (n < CONFIG_CHANGE_TEXT) {
		memcpy(to, text, n + 1);
		return;
	}
	n = utf8_cut(text, CONFIG_CHANGE_TEXT - sizeof(dots));
	memcpy(to, text, n);
	memcpy(to + n, dots, sizeof(dots));
}

void config_change_add(struct config_changes *changes, const char *section,
		       const char *key, const char *old, const char *new)
{
	struct config_change *change = &changes->at[changes->n];

	if (changes->n == CONFIG_CHANGES_MAX) {
		changes->more++;
		return;
	}
	changes->n++;
	(void)snprintf(change->section, sizeof(change->section), "%s", section);
	change->key = key;
	text_keep(change->old, old);
	text_keep(change->new, new);
}

/* The keys of a section, in two objects that have them. */
static void objects_compare(const char *section, const char *title, const void *old,
			    const void *new, struct config_changes *changes)
{
	char old_text[CONFIG_TEXT_BYTES], new_text[CONFIG_TEXT_BYTES];

	for (size_t i = 0; i < config_n_keys; i++) {
		const struct config_key *key = &config_keys[i];

		if (strcmp(key->section, section) != 0)
			continue;
		if (strcmp(config_value_text(key, old, old_text),
			   config_value_text(key, new, new_text)) != 0)
			config_change_add(changes, title, key->name, old_text,
					  new_text);
	}
}

/* ---- named sections ---- */

/* The objects of one kind in a configuration. */
struct objects {
	const char *at;
	unsigned n;
};

static struct objects objects_of(const struct config *config,
				 const struct config_named *named)
{
	struct objects objects = { .at = (const char *)config + named->offset };

	memcpy(&objects.n, (const char *)config + named->count_offset,
	       sizeof(objects.n));
	return objects;
}

/* The object of a name, with which it begins; NULL: there is none. */
static const char *object_find(const struct objects *objects, size_t bytes,
			       const char *name)
{
	for (unsigned i = 0; i < objects->n; i++)
		if (strcmp(objects->at + i * bytes, name) == 0)
			return objects->at + i * bytes;
	return NULL;
}

static void named_compare(const struct config_named *named, const struct config *old,
			  const struct config *new, struct config_changes *changes)
{
	const struct objects before = objects_of(old, named),
			     after = objects_of(new, named);
	char title[sizeof(changes->at[0].section)];

	for (unsigned i = 0; i < before.n; i++) {
		const char *object = before.at + i * named->bytes;
		const char *now = object_find(&after, named->bytes, object);

		(void)snprintf(title, sizeof(title), "%s %s", named->section, object);
		if (now)
			objects_compare(named->section, title, object, now, changes);
		else
			config_change_add(changes, title, NULL, PRESENT, "");
	}
	for (unsigned i = 0; i < after.n; i++) {
		const char *object = after.at + i * named->bytes;

		(void)snprintf(title, sizeof(title), "%s %s", named->section, object);
		if (!object_find(&before, named->bytes, object))
			config_change_add(changes, title, NULL, "", PRESENT);
	}
}

/* ---- all ---- */

static void section_compare(const char *section, const struct config *old,
			    const struct config *new, struct config_changes *changes)
{
	for (unsigned kind = 0; kind < CONFIG_KINDS; kind++)
		if (strcmp(config_named[kind].section, section) == 0) {
			named_compare(&config_named[kind], old, new, changes);
			return;
		}
	objects_compare(section, section, old, new, changes);
}

void config_compare(const struct config *old, const struct config *new,
		    struct config_changes *ret_changes)
{
	ret_changes->n = ret_changes->more = 0;
	/* the keys of a section stand together */
	for (size_t i = 0; i < config_n_keys; i++)
		if (i == 0 ||
		    strcmp(config_keys[i].section, config_keys[i - 1].section) != 0)
			section_compare(config_keys[i].section, old, new, ret_changes);
}

/* The keys of a section that are not as they are without the file. */
static void section_unused(const char *section, const struct config *config,
			   struct config_changes *changes)
{
	char text[CONFIG_TEXT_BYTES];

	for (size_t i = 0; i < config_n_keys; i++) {
		const struct config_key *key = &config_keys[i];

		if (strcmp(key->section, section) == 0 &&
		    strcmp(key->name, "enabled") != 0 &&
		    strcmp(config_value_text(key, config, text), key->standard) != 0)
			config_change_add(changes, section, key->name, key->standard,
					  text);
	}
}

void config_unused(const struct config *config, struct config_changes *ret_changes)
{
	static const struct config none;

	ret_changes->n = ret_changes->more = 0;
	if (config->verbs == CONFIG_NO) {
		section_unused("rdma", config, ret_changes);
		section_compare(CONFIG_SECTION_DEVICE, &none, config, ret_changes);
	}
	if (!config->tcp)
		section_unused("tcp", config, ret_changes);
}

const char *config_changes_names(const struct config_changes *changes, char *buf,
				 size_t buf_bytes)
{
	buf[0] = '\0';
	for (unsigned i = 0; i < changes->n; i++) {
		const struct config_change *change = &changes->at[i];
		size_t used = strlen(buf);

		(void)snprintf(buf + used, buf_bytes - used, "%s[%s]%s%s",
			       used ? ", " : "", change->section,
			       change->key ? " " : "", change->key ? change->key : "");
	}
	return buf;
}
