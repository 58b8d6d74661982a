// SPDX-License-Identifier: BSD-3-Clause
// The status page.  What comes from the daemon was chosen by its clients, in part: it is written as
// text alone.
"use strict";

const PERIOD_MS = 2000;
// Of the time this page has the daemon make answers.
const SHARE_MAX = 0.25;
const TIMEOUT_MS = 20000;
const HISTORY_MS = 5 * 60 * 1000;
const ROWS_MAX = 200;
const EVENTS_MAX = 1000;
const SOON_MS = 60000;
// The least part of a cell that anything in it is drawn with.
const PART_MIN = 0.15;

const byId = (id) => document.getElementById(id);

const view = {
	paused: false,
	marked: null, // tenant
	filter: "",
	at: 0, // performance.now() of the last answers
	data: null,
	events: [], // the last ones, in the order of their numbers
	traffic: new Map(), // by device: [{ at, received, sent }]
	selected: new Map(), // by pool: number of a cell
};

// ---- text ----

function bytesText(bytes) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let unit = 0;
	let value = bytes;
	while (value >= 1024 && unit < units.length - 1) {
		value /= 1024;
		unit++;
	}
	const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
	return `${Number(value.toFixed(digits))} ${units[unit]}`;
}

function timeText(ms) {
	const s = Math.max(0, Math.floor(ms / 1000));
	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min ${s % 60} s`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

function percentText(part, whole) {
	return `${whole ? Math.round((part * 100) / whole) : 0}\u00a0%`;
}

// ---- elements ----

function make(tag, className, text) {
	const element = document.createElement(tag);
	if (className)
		element.className = className;
	if (text !== undefined)
		element.textContent = text;
	return element;
}

// Only what has changed is written, so that selections and focus stay.
function write(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

// The children of `parent` become the elements of these keys, in this order; create() makes those
// that are new.
function arrange(parent, keys, create) {
	const old = new Map();
	for (const child of parent.children)
		old.set(child.dataset.key, child);
	keys.forEach((key, i) => {
		let child = old.get(key);
		if (child) {
			old.delete(key);
		} else {
			child = create(key);
			child.dataset.key = key;
		}
		if (parent.children[i] !== child)
			parent.insertBefore(child, parent.children[i] || null);
	});
	for (const child of old.values())
		child.remove();
	return Array.from(parent.children);
}

// ---- tables ----

// A column has a title, text(item), and what to sort by, value(item).
function tableMake(id, columns, options) {
	const table = { element: byId(id), columns, ...options };
	const row = table.element.createTHead().insertRow();
	columns.forEach((column, i) => row.append(tableHeading(table, column, i)));
	table.body = table.element.createTBody();
	return table;
}

function tableHeading(table, column, i) {
	const heading = make("th", column.number ? "number" : "");
	heading.scope = "col";
	if (!column.value) {
		heading.textContent = column.title;
		return heading;
	}
	const button = make("button", "", column.title);
	button.type = "button";
	button.addEventListener("click", () => {
		table.down = table.sort === i ? !table.down : Boolean(column.number);
		table.sort = i;
		render();
	});
	heading.append(button);
	return heading;
}

function compare(a, b) {
	if (typeof a === "number" && typeof b === "number")
		return a - b;
	return String(a).localeCompare(String(b), "en", { numeric: true });
}

function tableSort(table, items) {
	const { value } = table.columns[table.sort];
	const sign = table.down ? -1 : 1;
	Array.from(table.element.tHead.rows[0].cells).forEach((heading, i) => {
		if (i === table.sort)
			heading.setAttribute("aria-sort", table.down ? "descending" : "ascending");
		else
			heading.removeAttribute("aria-sort");
	});
	return items.slice().sort((a, b) => sign * compare(value(a), value(b)));
}

function rowMake(table) {
	const row = document.createElement("tr");
	for (const column of table.columns) {
		const cell = row.insertCell();
		cell.dataset.label = column.title;
		if (column.number)
			cell.className = "number";
	}
	return row;
}

function rowFill(table, row, item) {
	table.columns.forEach((column, i) => {
		const cell = row.cells[i];
		if (column.draw)
			column.draw(cell, item);
		else
			write(cell, column.text(item));
		if (column.soon)
			cell.classList.toggle("soon", column.soon(item));
	});
}

function emptyRow(table) {
	const row = make("tr", "empty");
	const cell = row.insertCell();
	cell.colSpan = table.columns.length;
	cell.textContent = "none";
	return row;
}

function tableFill(table, items) {
	const shown = tableSort(table, items).slice(0, ROWS_MAX);
	const known = new Map(shown.map((item) => [`=${table.key(item)}`, item]));
	const keys = known.size ? Array.from(known.keys()) : [""];
	const create = (key) => (key ? rowMake(table) : emptyRow(table));
	for (const row of arrange(table.body, keys, create))
		if (row.dataset.key)
			rowFill(table, row, known.get(row.dataset.key));
	return shown.length;
}

function tableFillFiltered(table, items, counter) {
	const wanted = view.filter.toLowerCase();
	const matching = items.filter((item) => table.words(item).some(
		(word) => String(word || "").toLowerCase().includes(wanted)));
	const shown = tableFill(table, matching);
	write(byId(counter), shown < items.length ? `${shown} of ${items.length}` : `${shown}`);
}

// ---- tenants ----

function hue(name) {
	let hash = 2166136261;
	for (const c of name)
		hash = Math.imul(hash ^ c.codePointAt(0), 16777619) >>> 0;
	return Math.round((hash % 997) * 137.508) % 360;
}

function tenantColour(name) {
	return `hsl(${hue(name)} 65% var(--tenant-light))`;
}

function legendMark(colour) {
	const mark = make("i");
	mark.setAttribute("aria-hidden", "true");
	mark.style.background = colour;
	return mark;
}

function legendMake(key) {
	const kinds = {
		free: "Free", scrub: "Being zeroed", closed: "Closed", others: "Other tenants",
	};
	if (!key.startsWith("=")) {
		const item = make("span");
		item.append(legendMark(`var(--${key})`), kinds[key]);
		return item;
	}
	const tenant = key.slice(1);
	const button = make("button");
	button.type = "button";
	button.append(legendMark(tenantColour(tenant)), tenant);
	button.addEventListener("click", () => {
		view.marked = view.marked === tenant ? null : tenant;
		render();
	});
	return button;
}

function legendFill(extents) {
	const names = new Set();
	for (const cell of extents)
		for (const { tenant } of cell.tenants)
			names.add(tenant);
	if (!names.has(view.marked))
		view.marked = null;
	const keys = ["free", "scrub", "closed", "others"].concat(
		Array.from(names).sort(compare).map((name) => `=${name}`));
	for (const item of arrange(byId("legend"), keys, legendMake))
		if (item.localName === "button")
			item.setAttribute("aria-pressed",
				String(item.dataset.key === `=${view.marked}`));
}

// ---- maps ----

function cellParts(cell) {
	const parts = cell.tenants.map(({ tenant, bytes }) => [tenantColour(tenant), bytes]);
	const named = cell.tenants.reduce((sum, { bytes }) => sum + bytes, 0);
	parts.push(["var(--others)", cell.lent_bytes - named]);
	parts.push(["var(--scrub)", cell.scrubbing_bytes]);
	parts.push(["var(--closed)", cell.closed_bytes]);
	parts.push(["var(--free)", cell.free_bytes]);
	return parts.filter(([, bytes]) => bytes > 0);
}

function cellBackground(cell) {
	const parts = cellParts(cell).map(
		([colour, bytes]) => [colour, Math.max(bytes / cell.bytes, PART_MIN)]);
	const whole = parts.reduce((sum, [, share]) => sum + share, 0);
	let done = 0;
	const stops = parts.map(([colour, share]) => {
		const from = Math.round((done * 100) / whole);
		done += share;
		return `${colour} ${from}% ${Math.round((done * 100) / whole)}%`;
	});
	return parts.length === 1 ? parts[0][0] : `linear-gradient(to right, ${stops.join(", ")})`;
}

function cellText(cell) {
	const texts = [`${bytesText(cell.bytes)} at ${bytesText(cell.offset)}`];
	for (const { tenant, bytes } of cell.tenants)
		texts.push(`${bytesText(bytes)} lent to ${tenant}`);
	if (cell.lent_bytes && !cell.tenants.length)
		texts.push(`${bytesText(cell.lent_bytes)} lent`);
	if (cell.scrubbing_bytes)
		texts.push(`${bytesText(cell.scrubbing_bytes)} being zeroed`);
	if (cell.closed_bytes)
		texts.push(`${bytesText(cell.closed_bytes)} closed`);
	if (cell.free_bytes)
		texts.push(`${bytesText(cell.free_bytes)} free`);
	return texts.join(", ");
}

// The number of cells in a row of the map, as it is laid out now.
function mapColumns(map) {
	const top = map.children[0].offsetTop;
	const n = Array.from(map.children).findIndex((cell) => cell.offsetTop !== top);
	return n < 0 ? map.children.length : n;
}

function mapKey(pool, map, event) {
	const last = map.children.length - 1;
	const at = view.selected.get(pool) || 0;
	const moves = {
		ArrowLeft: () => at - 1,
		ArrowRight: () => at + 1,
		ArrowUp: () => at - mapColumns(map),
		ArrowDown: () => at + mapColumns(map),
		Home: () => 0,
		End: () => last,
		Escape: () => -1,
	};
	if (!moves[event.key] || event.ctrlKey || event.altKey || event.metaKey)
		return;
	event.preventDefault();
	const to = view.selected.has(pool) ? moves[event.key]() : 0;
	if (event.key === "Escape")
		view.selected.delete(pool);
	else
		view.selected.set(pool, Math.min(Math.max(to, 0), last));
	render();
}

function mapMake(pool) {
	const map = make("div", "map");
	map.tabIndex = 0;
	map.setAttribute("role", "listbox");
	map.setAttribute("aria-label", `Map of pool ${pool}`);
	map.addEventListener("keydown", (event) => mapKey(pool, map, event));
	map.addEventListener("click", (event) => {
		const at = Array.from(map.children).indexOf(event.target);
		if (at < 0)
			return;
		view.selected.set(pool, at);
		render();
	});
	return map;
}

function mapCellMake(pool) {
	return (key) => {
		const cell = make("i");
		cell.id = `cell-${pool}-${key}`;
		cell.setAttribute("role", "option");
		return cell;
	};
}

function mapFill(map, pool, cells) {
	const selected = view.selected.get(pool);
	const keys = cells.map((cell, i) => String(i));
	map.classList.toggle("marked", view.marked !== null);
	arrange(map, keys, mapCellMake(pool)).forEach((element, i) => {
		const background = cellBackground(cells[i]);
		if (element.dataset.background !== background) {
			element.dataset.background = background;
			element.style.background = background;
		}
		element.setAttribute("aria-label", cellText(cells[i]));
		element.setAttribute("aria-selected", String(i === selected));
		element.classList.toggle("mark",
			cells[i].tenants.some(({ tenant }) => tenant === view.marked));
	});
	if (selected === undefined || selected >= cells.length)
		map.removeAttribute("aria-activedescendant");
	else
		map.setAttribute("aria-activedescendant", map.children[selected].id);
}

function poolMake(key) {
	const box = make("div", "pool");
	const detail = make("p", "detail");
	detail.setAttribute("role", "status");
	box.append(make("h4", "", key), make("div", "detail"), mapMake(key), detail);
	return box;
}

// A pool that is configured, and has no memory, or not yet.
function comingText({ state, error, populated_bytes: done, bytes_to: bytes }) {
	const texts = [state];
	if (error)
		texts.push(error);
	else if (bytes)
		texts.push(`${bytesText(done)} of ${bytesText(bytes)}`);
	return texts.join(": ");
}

function poolText(pool) {
	if (!pool.page_bytes)
		return comingText(pool);
	const texts = [
		`${bytesText(pool.lent_bytes)} of ${bytesText(pool.bytes)} lent` +
			` (${percentText(pool.lent_bytes, pool.bytes)})`,
		`${bytesText(pool.free_bytes)} free,` +
			` ${bytesText(pool.largest_free_bytes)} of it in one piece`,
	];
	if (pool.scrubbing_bytes)
		texts.push(`${bytesText(pool.scrubbing_bytes)} being zeroed`);
	texts.push(`pages of ${bytesText(pool.page_bytes)}`);
	if (pool.state !== "ready")
		texts.push(pool.state + (pool.bytes_to ? ` to ${bytesText(pool.bytes_to)}` : ""));
	return texts.join("; ");
}

function poolFill(box, pool, cells) {
	const [, text, map, detail] = box.children;
	const selected = cells[view.selected.get(pool.name)];
	write(text, poolText(pool));
	mapFill(map, pool.name, cells);
	write(detail, selected ? cellText(selected) : "");
}

function nodeName(pool) {
	const node = pool.node === null ? pool.node_asked : pool.node;
	return node === null ? "No NUMA node, or several" : `NUMA node ${node}`;
}

function nodeMake(key) {
	const box = make("div");
	box.append(make("h3", "", key), make("div"));
	return box;
}

function memoryFill({ pools, extents }) {
	const cells = new Map(pools.map((pool) => [pool.name, []]));
	for (const cell of extents)
		if (cells.has(cell.pool))
			cells.get(cell.pool).push(cell);
	const names = Array.from(new Set(pools.map(nodeName))).sort(compare);
	for (const box of arrange(byId("nodes"), names, nodeMake)) {
		const here = new Map(pools.filter((pool) => nodeName(pool) === box.dataset.key)
			.map((pool) => [pool.name, pool]));
		for (const child of arrange(box.children[1], Array.from(here.keys()), poolMake))
			poolFill(child, here.get(child.dataset.key), cells.get(child.dataset.key));
	}
	legendFill(extents);
}

// ---- traffic ----

function deviceName(device) {
	return device.device || device.fabric;
}

function trafficAdd(devices, at) {
	for (const device of devices) {
		const key = deviceKey(device);
		const history = view.traffic.get(key) || [];
		if (device.received_bytes !== null)
			history.push({
				at, received: device.received_bytes, sent: device.sent_bytes,
			});
		view.traffic.set(key, history.filter((sample) => at - sample.at <= HISTORY_MS));
	}
}

function deviceKey(device) {
	return `${deviceName(device)} ${device.address} ${device.port}`;
}

// Bytes per second between two samples; a counter that went back began anew.
function rate(from, to, what) {
	return Math.max(0, to[what] - from[what]) / ((to.at - from.at) / 1000);
}

function rates(device, what) {
	const history = view.traffic.get(deviceKey(device)) || [];
	return history.slice(1).map((sample, i) => ({
		at: sample.at, rate: rate(history[i], sample, what) }));
}

function rateText(device, what) {
	const last = rates(device, what).pop();
	return last ? `${bytesText(last.rate)}/s` : "-";
}

function pathOf(points, most) {
	return points.map(({ at, rate: value }, i) => {
		const x = 300 - (view.at - at) * 300 / HISTORY_MS;
		const y = 38 - value * 36 / most;
		return `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
	}).join("");
}

function chartMake(cell) {
	const name = "http://www.w3.org/2000/svg";
	const chart = document.createElementNS(name, "svg");
	chart.setAttribute("viewBox", "0 0 300 40");
	chart.setAttribute("preserveAspectRatio", "none");
	chart.setAttribute("role", "img");
	for (const kind of ["in", "out"]) {
		const path = document.createElementNS(name, "path");
		path.setAttribute("class", kind);
		chart.append(path);
	}
	cell.append(chart);
	return chart;
}

function chartDraw(cell, device) {
	const chart = cell.querySelector("svg") || chartMake(cell);
	const received = rates(device, "received");
	const sent = rates(device, "sent");
	const most = Math.max(1, ...received.concat(sent).map((point) => point.rate));
	chart.children[0].setAttribute("d", pathOf(received, most));
	chart.children[1].setAttribute("d", pathOf(sent, most));
	chart.setAttribute("aria-label", `at most ${bytesText(most)}/s in the last five minutes`);
}

// ---- the page ----

const devicesTable = tableMake("devices", [
	{ title: "Device", text: deviceName, value: deviceName },
	{ title: "Address", text: (d) => (d.port ? `${d.address} port ${d.port}` : d.address)
		+ (d.advertised ? `, advertised as ${d.advertised}` : "") },
	{ title: "Node", text: (d) => (d.node === null ? "-" : String(d.node)) },
	{
		title: "Channels", number: true,
		text: (d) => String(d.channels), value: (d) => d.channels,
	},
	{ title: "Received", number: true, text: (d) => rateText(d, "received") },
	{ title: "Sent", number: true, text: (d) => rateText(d, "sent") },
	{ title: "Received (line), sent (dashes)", draw: chartDraw },
], { key: deviceKey, sort: 0 });

const limitText = (limit, text) => (limit === null ? "" : ` of ${text(limit)}`);

const tenantsTable = tableMake("tenants", [
	{ title: "Tenant", text: (t) => t.name, value: (t) => t.name },
	{ title: "Lent", number: true, value: (t) => t.lent_bytes,
		text: (t) => bytesText(t.lent_bytes) + limitText(t.bytes_max, bytesText) },
	{ title: "Leases", number: true, value: (t) => t.leases,
		text: (t) => String(t.leases) + limitText(t.leases_max, String) },
	{ title: "Sessions", number: true, value: (t) => t.sessions,
		text: (t) => String(t.sessions) + limitText(t.sessions_max, String) },
	{ title: "Refused", number: true, value: (t) => t.refused, text: (t) => String(t.refused) },
], { key: (t) => t.name, sort: 1, down: true });

function since() {
	return performance.now() - view.at;
}

function leaseLeft(lease) {
	return lease.ttl_ms === null ? Infinity : Math.max(0, lease.ttl_ms - since());
}

function leaseLeftText(lease) {
	if (lease.ttl_ms !== null)
		return timeText(leaseLeft(lease));
	return lease.owner ? `with session ${lease.owner}` : "for ever";
}

const leasesTable = tableMake("leases", [
	{ title: "Lease", text: (l) => l.name || `#${l.id}`, value: (l) => l.name || `#${l.id}` },
	{ title: "Tenant", text: (l) => l.tenant, value: (l) => l.tenant },
	{ title: "State", text: (l) => l.state, value: (l) => l.state },
	{ title: "Bytes", number: true, text: (l) => bytesText(l.bytes), value: (l) => l.bytes },
	{
		title: "Sessions", number: true,
		text: (l) => String(l.sessions), value: (l) => l.sessions,
	},
	{
		title: "Age", number: true,
		text: (l) => timeText(l.age_ms + since()), value: (l) => l.age_ms,
	},
	{ title: "Time left", number: true, text: leaseLeftText, value: leaseLeft,
		soon: (l) => leaseLeft(l) < SOON_MS },
], { key: (l) => l.id, sort: 6, down: false, words: (l) => [l.name, l.tenant, l.id] });

const sessionsTable = tableMake("sessions", [
	{ title: "Client", text: (s) => s.client || "-", value: (s) => s.client },
	{ title: "Tenant", text: (s) => s.tenant, value: (s) => s.tenant },
	{ title: "Session", text: (s) => s.id, value: (s) => s.id },
	{ title: "Address", text: (s) => s.peer, value: (s) => s.peer },
	{ title: "State", text: (s) => s.state, value: (s) => s.state },
	{ title: "Fabric", text: (s) => s.fabric || "-", value: (s) => s.fabric },
	{ title: "Leases", number: true, text: (s) => String(s.leases), value: (s) => s.leases },
	{
		title: "Lent", number: true,
		text: (s) => bytesText(s.lent_bytes), value: (s) => s.lent_bytes,
	},
	{
		title: "Age", number: true,
		text: (s) => timeText(s.age_ms + since()), value: (s) => s.age_ms,
	},
	{
		title: "Silent", number: true,
		text: (s) => timeText(s.idle_ms), value: (s) => s.idle_ms,
	},
], { key: (s) => s.id, sort: 7, down: true, words: (s) => [s.client, s.tenant, s.id, s.peer] });

// "2026-11-26 10:20:30", of the browser's zone
const clockText = (ms) => new Date(ms).toLocaleString("sv");

function eventText({ missed, text }) {
	return missed ? `${text} (${missed} events before this one are not kept)` : text;
}

function eventAbout(event) {
	return ["tenant", "session", "lease", "pool", "device", "peer"]
		.filter((what) => event[what] !== null)
		.map((what) => `${what} ${event[what]}`).join(", ");
}

const eventsTable = tableMake("events", [
	{ title: "Time", text: (e) => clockText(e.time_ms), value: (e) => e.number },
	{ title: "Level", text: (e) => e.level, value: (e) => e.level,
		soon: (e) => e.level === "error" || e.level === "warning" },
	{ title: "Event", text: (e) => e.event, value: (e) => e.event },
	{ title: "Text", text: eventText },
	{ title: "About", text: eventAbout },
], {
	key: (e) => e.number, sort: 0, down: true,
	words: (e) => [e.level, e.event, e.text, eventAbout(e)],
});

function summaryMake(key) {
	const box = make("div");
	box.append(make("dt", "", key), make("dd"));
	return box;
}

function summaryFill({ memory, sessions, leases, uptime_ms: uptime, version }) {
	const lent = percentText(memory.lent_bytes, memory.bytes);
	const values = new Map([
		["Memory", bytesText(memory.bytes)],
		["Lent", `${bytesText(memory.lent_bytes)} (${lent})`],
		["Free", bytesText(memory.free_bytes)],
		["Being zeroed", bytesText(memory.scrubbing_bytes)],
		["Sessions", sessions.active +
			(sessions.fenced ? ` and ${sessions.fenced} fenced` : "")],
		["Channels", String(sessions.channels)],
		["Leases", String(leases.named + leases.ephemeral)],
		["Running for", timeText(uptime + since())],
	]);
	for (const box of arrange(byId("summary"), Array.from(values.keys()), summaryMake))
		write(box.children[1], values.get(box.dataset.key));
	write(byId("version"), `${version} on ${location.hostname}`);
	document.title = `${location.hostname}: ${lent} lent - rmemd`;
}

function listsFill(data) {
	tableFillFiltered(leasesTable, data.leases, "leases-count");
	tableFillFiltered(sessionsTable, data.sessions, "sessions-count");
	tableFillFiltered(eventsTable, view.events, "events-count");
}

function render() {
	const { data } = view;
	if (!data)
		return;
	summaryFill(data.status);
	memoryFill(data);
	tableFill(devicesTable, data.devices);
	tableFill(tenantsTable, data.tenants);
	listsFill(data);
}

function stateShow(state, text) {
	byId("state").dataset.state = state;
	write(byId("state"), text);
}

// ---- reading ----

async function read(name) {
	const options = {
		cache: "no-store", redirect: "error", signal: AbortSignal.timeout(TIMEOUT_MS),
	};
	const answer = await fetch(`v1/${name}`, options);
	if (!answer.ok)
		throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
	return answer.json();
}

// One after the other: the daemon serves a limited number of connections.
async function readAll() {
	const data = { status: await read("status") };
	for (const list of ["pools", "extents", "devices", "tenants", "leases", "sessions"])
		data[list] = (await read(list))[list];
	return data;
}

// Another process than at the last time, in a container perhaps with the same number.
function restarted(status) {
	const last = view.data && view.data.status;
	return last && (status.pid !== last.pid || status.uptime_ms < last.uptime_ms);
}

// Those since the last time; those of a process before are not shown.
async function readEvents(status) {
	const kept = restarted(status) ? [] : view.events;
	const known = kept.length ? kept[kept.length - 1].number : 0;
	const after = Math.max(known, status.last_event - EVENTS_MAX);
	const { events } = await read(`events?after=${after}`);
	return kept.concat(events).slice(-EVENTS_MAX);
}

async function refresh() {
	try {
		const data = await readAll();
		view.events = await readEvents(data.status);
		view.at = performance.now();
		view.data = data;
		trafficAdd(data.devices, view.at);
		render();
		if (!view.paused)
			stateShow("live", "Live");
	} catch (error) {
		const text = view.at ? `for ${timeText(since())}` : "yet";
		stateShow("lost", `The daemon has not answered ${text}: ${error.message}`);
	}
}

function wanted() {
	return !view.paused && !document.hidden;
}

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function run() {
	for (;;) {
		const begun = performance.now();
		if (wanted())
			await refresh();
		await sleep(Math.max(PERIOD_MS, (performance.now() - begun) / SHARE_MAX));
	}
}

// Times go on between two answers.
function tick() {
	if (!view.data || !wanted() || byId("state").dataset.state !== "live")
		return;
	summaryFill(view.data.status);
	listsFill(view.data);
}

byId("pause").addEventListener("click", () => {
	view.paused = !view.paused;
	byId("pause").setAttribute("aria-pressed", String(view.paused));
	if (view.paused)
		stateShow("paused", "Paused");
	else
		stateShow("wait", "Waiting for the daemon");
});
byId("filter").addEventListener("input", (event) => {
	view.filter = event.target.value;
	render();
});
setInterval(tick, 1000);
run();
