// SPDX-License-Identifier: BSD-3-Clause
#include "python/cache.h"

#include <errno.h>
#include <poll.h>
#include <pythread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "python/arguments.h"
#include "python/entries.h"
#include "python/failure.h"
#include "python/group.h"
#include "python/key.h"
#include "python/object.h"
#include "python/region.h"
#include "python/stat.h"
#include "python/waiters.h"

#define BATCH 64 /* results taken at a time */
#define COPY_BYTES \
	(256 << 10) /* of operations submitted, above which a call may take long */

struct cache {
	PyObject head;
	struct module *module;
	rmem_cache *handle; /* NULL: closed */
	unsigned generation;
	unsigned uses; /* calls under way */
	bool closing;
	PyThread_type_lock turn;   /* to call librmem-cache */
	unsigned long turn_thread; /* whose turn it is; 0: nobody's */
	/* groups that are outstanding, by their index, and places that are free */
	struct group **groups;
	uint32_t n_groups;
	struct group *first; /* that is not submitted wholly */
	struct group *last;
	uint64_t bytes;      /* of the operations that are outstanding */
	struct group *ready; /* first of those with a tag that have ended */
	struct group *ready_last;
	int epoll_fd; /* readable when the next two are */
	int ready_fd; /* an eventfd: there is something in ready, or to go on with */
	struct waiters waiters;
	PyObject *kept; /* what the options of the sessions refer to */
	struct region *regions;
	struct rmem_options options;
	struct key key;
};

/* ---- open and close ---- */

static int descriptors_open(struct cache *cache)
{
	struct epoll_event event = { .events = EPOLLIN };

	cache->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	cache->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (cache->epoll_fd >= 0 && cache->ready_fd >= 0 &&
	    !epoll_ctl(cache->epoll_fd, EPOLL_CTL_ADD, cache->ready_fd, &event) &&
	    !epoll_ctl(cache->epoll_fd, EPOLL_CTL_ADD, rmem_cache_fd(cache->handle),
		       &event))
		return 0;
	(void)failure_raise(cache->module, -errno, "no descriptor for a cache");
	return -1;
}

static struct cache *cache_new(struct module *module)
{
	struct cache *cache = object_new(module->cache);

	if (!cache)
		return NULL;
	cache->module = module;
	cache->generation = object_generation();
	cache->epoll_fd = cache->ready_fd = -1;
	waiters_init(&cache->waiters);
	cache->turn = PyThread_allocate_lock();
	if (cache->turn)
		return cache;
	Py_DECREF((PyObject *)cache);
	return (struct cache *)PyErr_NoMemory();
}

static int open_handle(struct cache *cache, PyObject *servers, const char *name,
		       struct rmem_cache_options *options)
{
	unsigned n;
	const char **uris = arguments_texts(servers, &n);
	int err;

	if (!uris)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_cache_open(uris, n, name, options, &cache->handle);
	Py_END_ALLOW_THREADS
	PyMem_Free(uris);
	if (!err)
		return descriptors_open(cache);
	(void)failure_raise(cache->module, err, rmem_cache_error());
	return -1;
}

PyObject *cache_open(PyObject *module, PyObject *args)
{
	struct rmem_cache_options options = rmem_cache_options_init();
	struct cache *cache = cache_new(PyModule_GetState(module));
	PyObject *servers;
	const char *name;

	if (!cache)
		return NULL;
	cache->options = rmem_options_init();
	if (!PyArg_ParseTuple(args, "O!sIO&O&O&O&Izz#", &PyTuple_Type, &servers, &name,
			      &options.flags, arguments_to_u32, &options.depth,
			      arguments_to_u64, &options.bytes, arguments_to_u64,
			      &options.segment_bytes, arguments_to_u64, &options.places,
			      &options.timeout_ms, &cache->options.client,
			      &cache->key.bytes, &cache->key.n))
		goto free_cache;
	options.session = &cache->options;
	cache->options.timeout_ms = options.timeout_ms;
	if (cache->key.bytes) {
		cache->options.psk = key_give;
		cache->options.psk_ctx = &cache->key;
	}
	cache->kept = Py_NewRef(args);
	if (!open_handle(cache, servers, name, &options))
		return (PyObject *)cache;

free_cache:
	Py_DECREF((PyObject *)cache);
	return NULL;
}

static int cache_enter(struct cache *cache)
{
	if (cache->generation != object_generation()) {
		(void)failure_raise(
			cache->module, -ESTALE,
			"opened by the parent process: open a cache in the child");
		return -1;
	}
	if (!cache->handle || cache->closing) {
		(void)failure_raise(cache->module, -ESTALE, "the cache is closed");
		return -1;
	}
	if (cache->turn_thread == PyThread_get_thread_ident()) {
		/* in a destructor, or the handler of a signal */
		(void)failure_raise(cache->module, -EBUSY,
				    "this thread is in a call on the cache");
		return -1;
	}
	object_enter(cache);
	cache->uses++;
	return 0;
}

static void cache_leave(struct cache *cache)
{
	cache->uses--;
	object_leave();
}

/* Returns the tags of the groups that were outstanding. */
static PyObject *groups_end(struct cache *cache)
{
	PyObject *tags = PyList_New(0);

	for (uint32_t i = 0; i < cache->n_groups; i++) {
		struct group *group = cache->groups[i];

		if (!group)
			continue;
		if (tags && group->tag && PyList_Append(tags, group->tag))
			Py_CLEAR(tags);
		cache->groups[i] = NULL; /* what it held may look at the cache */
		group_free(group);
	}
	PyMem_Free(cache->groups);
	cache->groups = NULL;
	cache->n_groups = 0;
	cache->first = cache->ready = NULL;
	return tags;
}

static PyObject *cache_close(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct cache *cache = (struct cache *)object;
	rmem_cache *handle = cache->handle;

	if (!handle || cache->closing || cache->generation != object_generation())
		return PyList_New(0);
	if (object_entered(cache))
		return failure_raise(cache->module, -EBUSY,
				     "this thread is in a call on the cache");
	cache->closing = true;
	while (cache->uses) { /* threads in calls need Python's lock to leave them */
		Py_BEGIN_ALLOW_THREADS(void)
		poll(NULL, 0, 1);
		Py_END_ALLOW_THREADS
		if (PyErr_CheckSignals()) {
			cache->closing = false;
			return NULL;
		}
	}
	cache->handle = NULL;
	Py_BEGIN_ALLOW_THREADS
	rmem_cache_close(handle);
	Py_END_ALLOW_THREADS
	regions_free(&cache->regions);
	return groups_end(cache);
}

static int cache_traverse(PyObject *object, visitproc visit, void *arg)
{
	const struct cache *cache = (struct cache *)object;
	int stop;

	Py_VISIT(Py_TYPE(object));
	stop = regions_traverse(cache->regions, visit, arg);
	for (uint32_t i = 0; !stop && i < cache->n_groups; i++)
		if (cache->groups[i])
			stop = group_traverse(cache->groups[i], visit, arg);
	return stop;
}

static int cache_clear(PyObject *object)
{
	struct cache *cache = (struct cache *)object;
	rmem_cache *handle = cache->handle;

	cache->handle = NULL;
	if (handle) { /* in a child of fork() the call does nothing that matters to the parent */
		Py_BEGIN_ALLOW_THREADS
		rmem_cache_close(handle);
		Py_END_ALLOW_THREADS
	}
	regions_free(&cache->regions);
	Py_XDECREF(groups_end(cache));
	return 0;
}

static void cache_free(PyObject *object)
{
	struct cache *cache = (struct cache *)object;

	(void)cache_clear(object);
	Py_XDECREF(cache->kept);
	if (cache->epoll_fd >= 0)
		(void)close(cache->epoll_fd);
	if (cache->ready_fd >= 0)
		(void)close(cache->ready_fd);
	if (cache->turn)
		PyThread_free_lock(cache->turn);
}

static void cache_del(PyObject *object)
{
	object_del(object, cache_free);
}

/* ---- groups ---- */

/* Let the group wait for its submission; it belongs to the cache now. */
static int group_add(struct cache *cache, struct group *group)
{
	uint32_t i = 0;

	while (i < cache->n_groups && cache->groups[i])
		i++;
	if (i == cache->n_groups) {
		uint32_t n = i ? 2 * i : 16;
		struct group **groups =
			PyMem_Realloc(cache->groups, n * sizeof(struct group *));

		if (!groups) {
			(void)PyErr_NoMemory();
			return -1;
		}
		memset(groups + i, 0, (n - i) * sizeof(struct group *));
		cache->groups = groups;
		cache->n_groups = n;
	}
	cache->groups[i] = group;
	group_place(group, i);
	if (cache->first)
		cache->last->next = group;
	else
		cache->first = group;
	cache->last = group;
	return 0;
}

static void group_remove(struct cache *cache, struct group *group)
{
	cache->groups[group->index] = NULL;
	group_free(group);
}

static void wake_poll(struct cache *cache)
{
	uint64_t one = 1;

	(void)!write(cache->ready_fd, &one, sizeof(one));
}

/* All results of the group are there. */
static void group_done(struct cache *cache, struct group *group)
{
	if (group->orphaned) {
		group_remove(cache, group);
		return;
	}
	if (!group->tag) {
		waiters_wake(&cache->waiters);
		return;
	}
	group->next = NULL;
	if (cache->ready)
		cache->ready_last->next = group;
	else
		cache->ready = group;
	cache->ready_last = group;
	wake_poll(cache);
}

/* Add (tag, results) of the first one that has ended. */
static int ready_take(struct cache *cache, PyObject *list)
{
	struct group *group = cache->ready;
	PyObject *pair;
	int err;

	cache->ready = group->next; /* Python may run from here on */
	pair = PyTuple_Pack(2, group->tag, group->results);
	err = pair ? PyList_Append(list, pair) : -1;
	Py_XDECREF(pair);
	if (!err) {
		group_remove(cache, group);
		return 0;
	}
	group->next = cache->ready;
	if (!cache->ready)
		cache->ready_last = group;
	cache->ready = group;
	return -1;
}

/* A list of what has ended; out of memory the next one has the rest. */
static PyObject *ready_list(struct cache *cache)
{
	PyObject *list = PyList_New(0);
	int err = 0;

	while (list && cache->ready && !err)
		err = ready_take(cache, list);
	if (cache->ready)
		wake_poll(cache);
	if (err && PyList_Size(list))
		PyErr_Clear();
	else if (err)
		Py_CLEAR(list);
	return list;
}

/* ---- in one's turn ---- */

static void turn_take(struct cache *cache)
{
	if (!PyThread_acquire_lock(cache->turn, 0)) {
		Py_BEGIN_ALLOW_THREADS(void)
		PyThread_acquire_lock(cache->turn, 1);
		Py_END_ALLOW_THREADS
	}
	cache->turn_thread = PyThread_get_thread_ident();
}

static void turn_give(struct cache *cache)
{
	cache->turn_thread = 0;
	PyThread_release_lock(cache->turn);
}

/* Returns the number accepted, or -errno. */
static int submit(struct cache *cache, struct group *group)
{
	struct rmem_cache_op *ops = group->ops + group->submitted;
	unsigned n = group->n - group->submitted;
	uint64_t bytes = 0;
	int accepted;

	if (!n)
		return 0;
	for (unsigned i = 0; i < n; i++)
		bytes += ops[i].bytes;
	if (bytes <= COPY_BYTES)
		return rmem_cache_submit(cache->handle, ops, n);
	Py_BEGIN_ALLOW_THREADS
	accepted = rmem_cache_submit(cache->handle, ops, n);
	Py_END_ALLOW_THREADS
	return accepted;
}

/* Submit what waits, as far as there is room.  Returns 0, or -1 with an exception set. */
static int submit_waiting(struct cache *cache)
{
	while (cache->first) {
		struct group *group = cache->first;
		int accepted = submit(cache, group);
		int err = 0;

		if (accepted == -EOVERFLOW)
			return 0;
		if (accepted < 0)
			err = group_error(group, cache->module, group->submitted++,
					  accepted, rmem_cache_error());
		for (int i = 0; i < accepted; i++)
			cache->bytes += group->ops[group->submitted++].bytes;
		if (group->submitted == group->n) {
			cache->first = group->next;
			if (!group->left)
				group_done(cache, group);
		}
		if (err)
			return -1;
	}
	return 0;
}

static int take_result(struct cache *cache, const struct rmem_cache_result *result)
{
	struct group *group = cache->groups[result->cookie >> 32];
	int err;

	cache->bytes -= group->ops[(uint32_t)result->cookie].bytes;
	err = group_result(group, cache->module, cache->handle, result);
	if (!group->left && group->submitted == group->n)
		group_done(cache, group);
	return err;
}

/* Take results, all of them: they are not told of again.  Returns their number, or -1 with the
 * first exception set. */
static int take_results(struct cache *cache)
{
	struct rmem_cache_result results[BATCH];
	PyObject *type = NULL, *error, *traceback;
	int n;

	if (cache->bytes <= COPY_BYTES) {
		n = rmem_cache_poll(cache->handle, results, BATCH);
	} else {
		Py_BEGIN_ALLOW_THREADS
		n = rmem_cache_poll(cache->handle, results, BATCH);
		Py_END_ALLOW_THREADS
	}
	if (n < 0) {
		(void)failure_raise(cache->module, n, rmem_cache_error());
		return -1;
	}
	for (int i = 0; i < n; i++) {
		if (!take_result(cache, &results[i]))
			continue;
		if (type)
			PyErr_Clear();
		else
			PyErr_Fetch(&type, &error, &traceback);
	}
	if (!type)
		return n;
	PyErr_Restore(type, error, traceback);
	return -1;
}

/* Go on with everything until there is nothing to do, and arm the descriptor.  Returns 0, or -1
 * with an exception set. */
static int go_on(struct cache *cache)
{
	int n;

	do {
		do {
			if (submit_waiting(cache))
				return -1;
			n = take_results(cache);
		} while (n > 0);
		if (n < 0)
			return -1;
		n = rmem_cache_arm(cache->handle);
	} while (n > 0);
	if (n < 0) {
		(void)failure_raise(cache->module, n, rmem_cache_error());
		return -1;
	}
	return 0;
}

static int take_turn_and_go_on(struct cache *cache)
{
	int err;

	turn_take(cache);
	err = go_on(cache);
	turn_give(cache);
	if (err) /* the descriptor of librmem-cache is not armed */
		wake_poll(cache);
	return err;
}

/* ---- calls that wait ---- */

/* Wait for the results of a group.  Returns them, or NULL with an exception set; then what the
 * group holds stays held until it has ended. */
static PyObject *group_wait(struct cache *cache, struct group *group)
{
	PyObject *results;

	for (;;) {
		unsigned long wakes = cache->waiters.wakes;

		if (take_turn_and_go_on(cache))
			break;
		if (!group->left && group->submitted == group->n) {
			results = Py_NewRef(group->results);
			group_remove(cache, group);
			return results;
		}
		waiters_sleep(&cache->waiters, rmem_cache_fd(cache->handle), wakes);
		if (PyErr_CheckSignals())
			break;
	}
	if (!group->left)
		group_remove(cache, group);
	else
		group->orphaned = true;
	return NULL;
}

/* A method (keys, memories, ttl_ms) that waits. */
static PyObject *cache_wait(PyObject *object, enum rmem_cache_opcode opcode,
			    PyObject *keys, PyObject *memories, uint64_t ttl_ms)
{
	struct cache *cache = (struct cache *)object;
	PyObject *results = NULL;
	struct group *group;

	if (cache_enter(cache))
		return NULL;
	group = group_new(opcode, keys, memories, ttl_ms, NULL);
	if (group && group_add(cache, group))
		group_free(group);
	else if (group)
		results = group_wait(cache, group);
	cache_leave(cache);
	return results;
}

static PyObject *cache_get_many(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "keys", "memories", NULL };
	PyObject *keys, *memories;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:get_many", names, &keys,
					 &memories))
		return NULL;
	return cache_wait(object, RMEM_CACHE_GET, keys, memories, 0);
}

static PyObject *cache_put_many(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "keys", "memories", "ttl_ms", NULL };
	PyObject *keys, *memories;
	uint64_t ttl_ms = 0;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O&:put_many", names, &keys,
					 &memories, arguments_to_u64, &ttl_ms))
		return NULL;
	return cache_wait(object, RMEM_CACHE_PUT, keys, memories, ttl_ms);
}

static PyObject *cache_exists_many(PyObject *object, PyObject *keys)
{
	return cache_wait(object, RMEM_CACHE_EXISTS, keys, NULL, 0);
}

static PyObject *cache_delete_many(PyObject *object, PyObject *keys)
{
	return cache_wait(object, RMEM_CACHE_DELETE, keys, NULL, 0);
}

/* ---- calls that do not ---- */

static PyObject *cache_submit(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "opcode", "keys", "memories", "ttl_ms", "tag", NULL };
	struct cache *cache = (struct cache *)object;
	PyObject *keys, *memories = Py_None, *tag = Py_None;
	uint64_t ttl_ms = 0;
	struct group *group;
	int opcode, err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "iO|OO&O:submit", names,
					 &opcode, &keys, &memories, arguments_to_u64,
					 &ttl_ms, &tag))
		return NULL;
	if (opcode < RMEM_CACHE_GET || opcode > RMEM_CACHE_DELETE) {
		PyErr_SetString(PyExc_ValueError,
				"the opcode is none of GET, PUT, EXISTS, DELETE");
		return NULL;
	}
	if (cache_enter(cache))
		return NULL;
	group = group_new((enum rmem_cache_opcode)opcode, keys, memories, ttl_ms, tag);
	err = group ? group_add(cache, group) : -1;
	if (group && err)
		group_free(group);
	else if (group)
		err = take_turn_and_go_on(cache);
	cache_leave(cache);
	return err ? NULL : Py_NewRef(Py_None);
}

static PyObject *cache_poll(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct cache *cache = (struct cache *)object;
	PyObject *ready = NULL;
	uint64_t count;

	if (cache_enter(cache))
		return NULL;
	(void)!read(cache->ready_fd, &count, sizeof(count));
	if (!take_turn_and_go_on(cache)) {
		(void)!read(cache->ready_fd, &count, sizeof(count));
		ready = ready_list(cache);
	}
	cache_leave(cache);
	return ready;
}

static PyObject *cache_fileno(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct cache *cache = (struct cache *)object;

	if (cache_enter(cache))
		return NULL;
	cache_leave(cache);
	return PyLong_FromLong(cache->epoll_fd);
}

/* ---- memory of the program ---- */

static PyObject *cache_register(PyObject *object, PyObject *memory)
{
	struct cache *cache = (struct cache *)object;
	int err;

	if (cache_enter(cache))
		return NULL;
	turn_take(cache);
	err = region_add(&cache->regions, cache->module, cache->handle, memory);
	turn_give(cache);
	cache_leave(cache);
	return err ? NULL : Py_NewRef(Py_None);
}

static PyObject *cache_unregister(PyObject *object, PyObject *memory)
{
	struct cache *cache = (struct cache *)object;
	struct region *region;

	if (cache_enter(cache))
		return NULL;
	turn_take(cache);
	region = region_take(&cache->regions, cache->module, cache->handle, memory);
	turn_give(cache);
	cache_leave(cache);
	if (!region)
		return NULL;
	regions_free(&region);
	return Py_NewRef(Py_None);
}

/* ---- state ---- */

static PyObject *cache_stat(PyObject *object, PyObject *args)
{
	struct cache *cache = (struct cache *)object;
	struct rmem_cache_stat stat = rmem_cache_stat_init();
	int server = RMEM_CACHE_ALL;
	int err;

	if (!PyArg_ParseTuple(args, "|i:stat", &server) || cache_enter(cache))
		return NULL;
	turn_take(cache);
	err = rmem_cache_stat(cache->handle, server, &stat);
	turn_give(cache);
	cache_leave(cache);
	return err ? failure_raise(cache->module, err, rmem_cache_error())
		   : stat_of_cache(&stat);
}

static PyObject *cache_list(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct cache *cache = (struct cache *)object;
	struct entries entries = { 0 };
	PyObject *list;
	int err;

	if (cache_enter(cache))
		return NULL;
	turn_take(cache);
	Py_BEGIN_ALLOW_THREADS
	err = rmem_cache_list(cache->handle, entries_add, &entries);
	Py_END_ALLOW_THREADS
	turn_give(cache);
	cache_leave(cache);
	list = err ? failure_raise(cache->module, err, rmem_cache_error())
		   : entries_list(cache->module, &entries);
	entries_free(&entries);
	return list;
}

static PyObject *cache_closed(PyObject *object, void *Py_UNUSED(closure))
{
	const struct cache *cache = (struct cache *)object;

	return PyBool_FromLong(!cache->handle || cache->closing);
}

static PyMethodDef cache_methods[] = {
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "get_many", METHOD(cache_get_many), METH_VARARGS | METH_KEYWORDS,
	  "get_many($self, keys, memories)\n--\n\n"
	  "Read the values of keys, each into the beginning of a memory.\n\n"
	  "Returns for each key the length of its value, None if it is missing, or an "
	  "Error; what\n"
	  "is in the memory of a key that is missing is not defined." },
	{ "put_many", METHOD(cache_put_many), METH_VARARGS | METH_KEYWORDS,
	  "put_many($self, keys, memories, ttl_ms=0)\n--\n\n"
	  "Store values.  Returns for each key True, or an Error." },
	{ "exists_many", cache_exists_many, METH_O,
	  "exists_many($self, keys, /)\n--\n\n"
	  "Returns for each key the length of its value, None if it is missing, or an "
	  "Error." },
	{ "delete_many", cache_delete_many, METH_O,
	  "delete_many($self, keys, /)\n--\n\n"
	  "Returns for each key True, False if it was missing, or an Error." },
	{ "submit", METHOD(cache_submit), METH_VARARGS | METH_KEYWORDS,
	  "submit($self, opcode, keys, memories=None, ttl_ms=0, tag=None)\n--\n\n"
	  "Begin what get_many() and others do, without waiting.  The memories are "
	  "held until\n"
	  "poll() has told of the tag." },
	{ "poll", cache_poll, METH_NOARGS,
	  "poll($self, /)\n--\n\nGo on, and return a list of (tag, results) of what "
	  "has "
	  "ended." },
	{ "fileno", cache_fileno, METH_NOARGS,
	  "fileno($self, /)\n--\n\nA descriptor that is readable when poll() has "
	  "something to "
	  "do." },
	{ "register", cache_register, METH_O,
	  "register($self, memory, /)\n--\n\n"
	  "Register memory, and hold it until unregister() or close().\n\n"
	  "Over RDMA values are moved from and to it in place." },
	{ "unregister", cache_unregister, METH_O,
	  "unregister($self, memory, /)\n--\n\n"
	  "End one registration of this memory, which is held no longer." },
	{ "stat", cache_stat, METH_VARARGS,
	  "stat($self, server=-1, /)\n--\n\n"
	  "What this client has counted, and sees of one server or of all: a dict." },
	{ "list", cache_list, METH_NOARGS,
	  "list($self, /)\n--\n\nAll keys of the servers that are open, by reading "
	  "their "
	  "directories:\n"
	  "CacheEntry of each, in no order." },
	{ "close", cache_close, METH_NOARGS,
	  "close($self, /)\n--\n\nEnd the client.  Returns the tags of what was "
	  "outstanding." },
	{ 0 },
};

static PyGetSetDef cache_getset[] = {
	{ "closed", cache_closed, NULL, "True once close() was called.", NULL },
	{ 0 },
};

static PyType_Slot cache_slots[] = {
	{ Py_tp_doc, "What rmem.Cache stands on." },
	{ Py_tp_dealloc, cache_del },
	{ Py_tp_traverse, cache_traverse },
	{ Py_tp_clear, cache_clear },
	{ Py_tp_methods, cache_methods },
	{ Py_tp_getset, cache_getset },
	{ 0 },
};

PyType_Spec cache_spec = {
	.name = "rmem._rmem.CacheClient",
	.basicsize = sizeof(struct cache),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
		 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = cache_slots,
};
