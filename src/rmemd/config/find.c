/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking up in the table of keys, and what is said when something is not there. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/nearest.h"
#include "rmemd/config/keys.h"

size_t config_key_index(const char *section, const char *name)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].section, section) == 0 &&
		    strcmp(config_keys[i].name, name) == 0)
			return i;
	return SIZE_MAX;
}

bool config_section_is_named(const char *section)
{
	return strcmp(section, CONFIG_SECTION_POOL) == 0 ||
	       strcmp(section, CONFIG_SECTION_TENANT) == 0 ||
	       strcmp(section, CONFIG_SECTION_DEVICE) == 0;
}

const char *config_section_find(const char *name)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].section, name) == 0)
			return config_keys[i].section;
	return NULL;
}

int config_section_unknown(const char *name)
{
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, name);
	for (size_t i = 0; i < config_n_keys; i++)
		nearest_offer(&nearest, config_keys[i].section);
	meant = nearest_get(&nearest);
	if (!meant)
		return err_set(-EINVAL, "unknown section [%s]", name);
	if (config_section_is_named(meant))
		return err_set(-EINVAL, "unknown section [%s]; did you mean [%s NAME]?",
			       name, meant);
	return err_set(-EINVAL, "unknown section [%s]; did you mean [%s]?", name,
		       meant);
}

int config_key_unknown(const char *section, const char *name)
{
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, name);
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].section, section) == 0)
			nearest_offer(&nearest, config_keys[i].name);
	meant = nearest_get(&nearest);
	if (meant)
		return err_set(-EINVAL, "unknown key '%s' in [%s]; did you mean '%s'?",
			       name, section, meant);
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].name, name) == 0)
			return err_set(-EINVAL,
				       "unknown key '%s' in [%s]; it belongs in [%s]",
				       name, section, config_keys[i].section);
	return err_set(-EINVAL, "unknown key '%s' in [%s]", name, section);
}
