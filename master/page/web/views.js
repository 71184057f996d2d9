// The views. load() asks the master, draw() makes elements of its answers.
import { ago, badge, bytes, chunkLink, date, duration, empty, escaped, facts, fileLink, h, hex,
  nameLink, number, plural, sentences, serverLink, table, token } from "./base.js";
import { term, timeline } from "./lease.js";
import { figure, live, rates } from "./live.js";

const PAGE = 100;

const heading = (words, detail) => h("h1", {}, words, detail && h("small", {}, detail));
const section = (words, ...content) => h("section", {}, h("h2", {}, words), content);

const isPage = (address) => /^https?:\/\//.test(address ?? "");

// Of the active master, as a standby knows it; undefined: it has none.
export async function activePage(call) {
  const reply = await call("masters");
  return reply.masters.find((m) => m.address === reply.active && isPage(m.page))?.page;
}

export function failed(error) {
  if (error.code === "NOT_ACTIVE")
    return h("div", {}, heading("A standby"), h("p", {}, error.message),
      h("p", {}, error.page ? [h("a", { href: error.page }, "The active master's page"), " shows the cluster."]
        : h("span.quiet", {}, "Only the active master knows the cluster. It has a page of its own, at its " +
          "--http-listen.")));
  if (error.code === "NOT_FOUND") return h("div", {}, heading("Not there"), h("p", {}, error.message));
  if (error.code === "PERMISSION")
    return h("div", {}, heading("Not allowed"), h("p", {}, error.message),
      h("p.quiet", {}, "The browser has to show a certificate of this cluster with that right."));
  if (error.code === "NOT_DRAWN") return h("div", {}, heading("Not shown"), h("p", {}, error.message));
  return h("div", {}, heading("No answer"), h("p", {}, error.message),
    h("p.quiet", {}, "It is asked again every few seconds."));
}

export const nothing = {
  title: () => "Not there", every: Infinity,
  load: async () => ({}),
  draw: () => h("div", {}, heading("Not there"), h("p", {}, "This address names nothing. ",
    h("a", { href: "#/" }, "To the cluster"))),
};

// ---- Servers.

// [word, tone]: the worst comes first.
function stateOf(s) {
  if (!s.live) return ["away", "bad"];
  if (s.read_only) return ["disk read-only", "bad"];
  if (s.failing) return ["disk fails", "bad"];
  if (!s.reachable) return ["unreachable", "bad"];
  if (s.unheard) return ["unheard", "bad"];
  if (s.admin === "DECOMMISSIONING") return ["decommissioning", "warn"];
  if (s.admin === "DRAINING") return s.safe_to_stop ? ["safe to stop", "good"] : ["draining", "warn"];
  return ["live", "good"];
}

const usedOf = (s) => Number(s.capacity_bytes) === 0 ? 0
  : 100 * (1 - Number(s.free_bytes) / Number(s.capacity_bytes));

const room = (s) => Number(s.capacity_bytes) === 0 ? "" : h("span.room", {},
  h("span.meter", { "aria-hidden": "true" }, h("i" + (usedOf(s) > 90 ? ".full" : ""),
    { style: { width: `${usedOf(s)}%` } })), `${bytes(s.free_bytes)} free`);

function troublesOf(servers) {
  return servers.filter((s) => stateOf(s)[1] !== "good" || s.obstacle).map((s) => {
    const [word] = stateOf(s);
    const words = !s.live
      ? `has been away for ${duration(s.away_ms)}; ` + (Number(s.grace_left_ms) > 0
        ? `what it has is copied elsewhere in ${duration(s.grace_left_ms)}`
        : "what it had is copied elsewhere")
      : s.read_only ? "is there, and its disk cannot be written; what it has can be read"
      : s.failing ? "is there, and its disk does not answer"
        : !s.reachable ? "does not receive the master's answers"
          : s.unheard ? `gets nothing new: ${s.unheard}`
          : `is ${word}: ${plural(s.replicas_to_move, "replica")} to move`;
    return [stateOf(s)[1], h("span", {}, serverLink(s.server_id), " ", words,
      s.obstacle && `. ${s.obstacle}`)];
  });
}

const SORTS = {
  name: (a, b) => a.server_id.localeCompare(b.server_id, "en", { numeric: true }),
  state: (a, b) => (stateOf(a)[1] === "good") - (stateOf(b)[1] === "good") || SORTS.name(a, b),
  room: (a, b) => usedOf(b) - usedOf(a),
  primaries: (a, b) => Number(b.primaries) - Number(a.primaries),
  replicas: (a, b) => Number(b.replicas) - Number(a.replicas),
};

function serverTable(list) {
  return table("Chunkservers", [
    ["Server", (s) => serverLink(s.server_id)],
    ["State", (s) => badge(...stateOf(s))],
    ["Space", room],
    ["Primary of", (s) => number(s.primaries), "n"],
    ["Replicas", (s) => number(s.replicas), "n"],
    ["Copies in, out", (s) => `${s.copies_in}, ${s.copies_out}`, "n"],
    ["Domain", (s) => s.failure_domain],
  ], list, (s) => s.server_id);
}

const setQuery = (route, values) => {
  const query = new URLSearchParams(Object.entries(values).filter(([, v]) => v)).toString();
  history.replaceState(null, "", `#${route}${query && "?" + query}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
};

const filter = (label, value, changed) => h("form.filter", { role: "search",
  onsubmit: (event) => {
    event.preventDefault();
    changed(event.target.elements.text.value);
  } },
h("label", {}, label, h("input", { type: "search", name: "text", value, autocomplete: "off",
  spellcheck: "false", autocapitalize: "off" })),
h("button", { type: "submit" }, "Show"));

let serverFilter = "";
let everyServer = false;
const SERVERS_SHOWN = 60;

export const servers = {
  title: () => "Servers", every: 5,
  load: (call) => call("servers"),
  draw(reply, at, query, again) {
    const sort = SORTS[query.sort] ? query.sort : "state";
    const list = reply.servers.filter((s) => [s.server_id, s.address, s.failure_domain, stateOf(s)[0]]
      .some((text) => text.includes(serverFilter))).sort(SORTS[sort]);
    return h("div", {}, heading("Servers", plural(reply.servers.length, "chunkserver")),
      h("div.tools", {},
        h("label", {}, "Filter", h("input", { type: "search", autocomplete: "off", spellcheck: "false",
          oninput: (event) => { serverFilter = event.target.value; again(); } })),
        h("label", {}, "Sort by", h("select", { onchange: (event) =>
          setQuery("/servers", { sort: event.target.value }) },
        Object.keys(SORTS).map((name) => h("option", { value: name, selected: name === sort }, name))))),
      list.length === 0 ? empty(serverFilter ? "No server fits." : "No chunkserver has registered yet.")
        : serverTable(everyServer ? list : list.slice(0, SERVERS_SHOWN)),
      list.length > SERVERS_SHOWN && !everyServer && h("button.more", { type: "button",
        onclick: () => { everyServer = true; again(); } }, `Show all ${list.length}`));
  },
};

export const server = {
  title: (id) => id, every: 2,
  load: (call) => call("servers"),
  draw(reply, id) {
    const s = reply.servers.find((one) => one.server_id === id);
    if (!s) return failed({ code: "NOT_FOUND", message: `No chunkserver is called ${id}.` });
    return h("div", {}, heading(s.server_id, badge(...stateOf(s))),
      sentences(troublesOf([s]).map(([, words]) => words)),
      facts(["Address", s.address], ["Failure domain", s.failure_domain], ["Space", room(s)],
        ["Capacity", bytes(s.capacity_bytes)], ["Primary of", plural(s.primaries, "chunk")],
        ["Replicas", number(s.replicas)],
        ["Copies", `${s.copies_in} in, ${s.copies_out} out`],
        ["Session", s.live ? `ends in ${duration(s.session_left_ms)} unless it is renewed`
          : `none for ${duration(s.away_ms)}`],
        ["Incarnation", s.incarnation],
        ["Can be stopped", s.admin !== "ACTIVE" && (s.safe_to_stop ? "yes: nothing on it is needed"
          : `not yet: ${plural(s.replicas_to_move, "replica")} to move`)]));
  },
};

// ---- The cluster.

function spark(values) {
  const most = Math.max(...values, 1e-9), n = 120;
  const points = values.slice(-n).map((v, i, a) =>
    `${(100 * (n - a.length + i) / (n - 1)).toFixed(1)},${(22 - 20 * v / most).toFixed(1)}`);
  return h("svg.spark", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    points.length > 1 && h("path", { d: "M" + points.join("L"), "vector-effect": "non-scaling-stroke" }));
}

function rate(words, ...names) {
  const all = names.map(rates);
  const values = (all[0] ?? []).map((_, i) => all.reduce((sum, one) => sum + one[i], 0));
  const recent = values.slice(-5);
  const mean = recent.reduce((a, b) => a + b, 0) / Math.max(1, recent.length);
  const shown = values.length === 0 ? "–" : mean === 0 ? "0" : mean >= 9.95 ? number(Math.round(mean)) : mean.toFixed(1);
  return h("div.rate", {}, h("dt", {}, words), h("dd", {}, shown, h("small", {}, "/s")), spark(values));
}

const tile = (words, value, detail, href) => h("a.tile", { href },
  h("span.name", {}, words), h("span.value", {}, value), h("span.detail", {}, detail));

function repairTroubles(r, reply) {
  const list = [];
  const chunks = (n) => plural(n, "chunk");
  if (Number(r.chunks_unreadable) > 0)
    list.push(["bad", `${chunks(r.chunks_unreadable)} without a good replica that can be reached`]);
  if (Number(r.chunks_endangered) > 0)
    list.push(["bad", `${chunks(r.chunks_endangered)} with a single good replica`]);
  if (Number(r.chunks_degraded) > 0)
    list.push(["warn", `${chunks(r.chunks_degraded)} with fewer good replicas than wanted: ` +
      `${plural(r.copies_running, "copy", "copies")} running, ${r.copies_waiting} waiting` +
      (Number(r.left_ms) > 0 ? `, about ${duration(r.left_ms)} left` : "")]);
  for (const r of reply.refused || [])
    list.push(["warn", `A chunkserver at ${r.peer} was refused ${duration(r.ago_ms)} ago: ${r.error_text}`]);
  if (!reply.deleting) list.push(["warn", `Nothing is deleted: ${reply.deleting_text}`]);
  return list;
}

function masterRows(reply) {
  if (reply.masters.length === 0) return null;
  return section("Masters", table("Masters", [
    ["Master", (m) => isPage(m.page) ? h("a", { href: m.page }, m.master_id || m.address) : m.master_id || m.address],
    ["Address", (m) => m.address],
    ["State", (m) => m.address === reply.active || (reply.acting && m.master_id === reply.master_id)
      ? badge("active", "good") : badge("announced")],
    ["For", (m) => m.master_id === reply.master_id ? duration(reply.state_ms) : ""],
  ], reply.masters, (m) => m.address));
}

const countWords = (name, one) => plural(figure(name) ?? 0, one);

export const cluster = {
  title: () => "Cluster", every: 5, live: true,
  async load(call) {
    const [masters, list] = await Promise.all([call("masters"), call("servers")]);
    return { masters, list };
  },
  draw({ masters, list }) {
    const away = figure("program_sessions_away") ?? 0;
    const troubles = [
      ...(live.connected && !live.ready ? [["bad", live.why]] : []),
      ...repairTroubles(list.repair, list), ...troublesOf(list.servers),
      ...(away > 0 ? [["warn", `${plural(away, "session")} of before this master's start ` +
        `${away === 1 ? "is" : "are"} awaited; no lock is granted until then`]] : []),
    ];
    const up = list.servers.filter((s) => s.live).length;
    const free = list.servers.reduce((sum, s) => sum + (s.live ? Number(s.free_bytes) : 0), 0);
    return h("div", {},
      heading("Cluster", `reign ${masters.reign} · ${masters.cluster_id.slice(0, 8)}`),
      h("section.verdict" + (troubles.length === 0 ? ".good" : ".some"), { "aria-label": "What is wrong" },
        troubles.length === 0 ? h("p", {}, "Nothing is wrong.")
          : h("ul", {}, troubles.slice(0, 8).map(([tone, words]) => h("li." + tone, {}, words)),
            troubles.length > 8 && h("li.warn", {}, h("a", { href: "#/servers" },
              `and ${troubles.length - 8} more`)))),
      h("section.tiles", { "aria-label": "At a glance" },
        tile("Servers", `${up} of ${list.servers.length}`, `${bytes(free)} free`, "#/servers"),
        tile("Files", number(figure("files") ?? 0), countWords("chunks", "chunk"), "#/files"),
        tile("Leases", number(figure("leases") ?? 0),
          `${countWords("calls_waiting", "call")} waiting`, "#/leases"),
        tile("Locks", number(figure("locks") ?? 0),
          `${number(figure("locks_waiting") ?? 0)} waiting`, "#/names"),
        tile("Values", number(figure("values") ?? 0), bytes(figure("values_bytes") ?? 0), "#/names"),
        tile("Sessions", number(figure("program_sessions") ?? 0),
          countWords("watchers", "watcher"), "#/sessions")),
      section("Rates, over two minutes", h("dl.rates", {},
        rate("Leases granted", "grants_total", "regrants_total"),
        rate("Leases renewed", "renewals_total"),
        rate("Leases recalled", "recalls_total"),
        rate("Leases expired", "expiries_total"),
        rate("Locks granted", "locks_granted_total"),
        rate("Locks released", "locks_released_total"),
        rate("Values read", "value_reads_total"),
        rate("Values changed", "value_changes_total"))),
      section("Repair", facts(
        ["Degraded chunks", number(list.repair.chunks_degraded)],
        ["Copies", `${list.repair.copies_running} running, ${list.repair.copies_waiting} waiting`],
        ["Left", Number(list.repair.bytes_left) > 0 && bytes(list.repair.bytes_left)],
        ["Rate", Number(list.repair.bytes_per_second) > 0 && `${bytes(list.repair.bytes_per_second)}/s`],
        ["Done", `${plural(list.repair.copies_done, "copy", "copies")}, ${bytes(list.repair.bytes_done)}`])),
      masterRows(masters),
      section("Servers", list.servers.length === 0 ? empty("No chunkserver has registered yet.")
        : h("ul.fleet", {}, [...list.servers].sort(SORTS.name).map((s) => h("li", { "data-key": s.server_id },
          h("a." + stateOf(s)[1], { href: "#/server/" + escaped(s.server_id),
            title: `${s.server_id}: ${stateOf(s)[0]}, ${bytes(s.free_bytes)} free`,
            "aria-label": `${s.server_id}: ${stateOf(s)[0]}` },
          h("i", { style: { height: `${usedOf(s)}%` } }))))),
      h("p.quiet", {}, "One field a chunkserver, as full as its disk.")));
  },
};

// ---- Listings, a page at a time.

const pager = (route, query, last, more) => h("p.pager", {},
  query.after && h("a", { href: `#${route}` + (query.prefix ? `?prefix=${encodeURIComponent(query.prefix)}` : "") },
    "To the first ones"),
  more && h("a", { href: `#${route}?` + new URLSearchParams({ ...query, after: last }) }, "The next ones"));

const prefixed = (route, label, query) => filter(label, query.prefix ?? "",
  (prefix) => setQuery(route, { prefix }));

export const files = {
  title: () => "Files", every: 5,
  load: (call, at, query) => call("files", { prefix: query.prefix, after: query.after, limit: PAGE }),
  draw: (reply, at, query) => h("div", {}, heading("Files"),
    prefixed("/files", "Paths that begin with", query),
    reply.files.length === 0 ? empty("There are none.") : table("Files", [
      ["Path", (f) => fileLink(f.path)],
      ["Chunks", (f) => number(f.chunks), "n"],
      ["Sealed", (f) => bytes(f.sealed_length), "n"],
      ["Replicas", (f) => f.replication, "n"],
      ["Durability", (f) => f.durability.toLowerCase()],
      ["Created", (f) => date(f.created_unix_ms)],
    ], reply.files, (f) => f.file),
    pager("/files", query, reply.files.at(-1)?.path, reply.more)),
};

const LEASES = { HELD: "good", GRANTING: "warn", RECALLING: "warn", WAITING: "warn", EXPIRING: "warn" };

export const leases = {
  title: () => "Leases", every: 2,
  load: (call, at, query) => call("leases", { after_chunk: query.after, limit: PAGE }),
  draw: (reply, at, query) => h("div", {}, heading("Leases", "of chunks"),
    reply.leases.length === 0 ? empty("No chunk has a primary now. A lease is granted when a client appends.")
      : table("Leases", [
        ["Chunk", (l) => chunkLink(l.chunk)],
        ["File", (l) => fileLink(l.path)],
        ["Primary", (l) => l.primary ? serverLink(l.primary) : ""],
        ["State", (l) => badge(l.state.toLowerCase(), LEASES[l.state])],
        ["Version", (l) => l.version, "n"],
        ["Ends in", (l) => duration(l.left_ms), "n"],
        ["Batches", (l) => number(l.appends), "n"],
        ["Members", (l) => `${l.members} of ${l.replication}`, "n"],
      ], reply.leases, (l) => l.chunk),
    pager("/leases", query, reply.leases.at(-1)?.chunk, reply.more)),
};

const whoIs = (s) => s.label || hex(s.session).slice(0, 12);

export const names = {
  title: () => "Names", every: 2,
  load: (call, at, query) => call("names", { prefix: query.prefix, after: query.after, limit: PAGE }),
  draw: (reply, at, query) => h("div", {}, heading("Names", "of locks and values"),
    prefixed("/names", "Names that begin with", query),
    reply.waiting && h("p.note.warn", {}, `No lock is granted yet: ${plural(reply.sessions_away, "session")} ` +
      `of before are awaited, for ${duration(reply.waiting_ms)} at most.`),
    reply.names.length === 0 ? empty("No name is in use.") : table("Names", [
      ["Name", (n) => nameLink(n.name)],
      ["Lock", (n) => n.holders.length === 0 ? h("span.quiet", {}, "free") : h("span", {},
        badge(n.holders[0].mode === "SHARED" ? "shared" : "held", "good"), " ",
        n.holders.slice(0, 3).map(whoIs).join(", ") + (n.holders.length > 3 ? ", …" : ""))],
      ["Waiting", (n) => number(n.waiting), "n"],
      ["Value", (n) => !n.value ? "" : `${bytes(n.value.size)}, revision ${n.value.revision}` +
        (n.changing ? ", changing" : "")],
      ["Caches", (n) => number(n.caches), "n"],
    ], reply.names, (n) => n.name),
    pager("/names", query, reply.names.at(-1)?.name, reply.more)),
};

export const sessions = {
  title: () => "Sessions", every: 2,
  load: (call, at, query) => call("sessions", { after: query.after, limit: PAGE }),
  draw: (reply, at, query) => h("div", {}, heading("Sessions", "of programs"),
    reply.sessions.length === 0 ? empty("No program has a session.") : table("Sessions", [
      ["Session", (s) => h("span", { title: hex(s.session) }, whoIs(s))],
      ["Host", (s) => s.host],
      ["Process", (s) => s.process],
      ["State", (s) => s.back ? s.linked ? badge("linked", "good") : badge("no stream", "warn")
        : badge("awaited", "warn")],
      ["Ends in", (s) => `${duration(s.left_ms)} of ${duration(s.term_ms)}`, "n"],
      ["Locks", (s) => number(s.locks), "n"],
      ["Waits", (s) => number(s.waiting), "n"],
      ["Cached", (s) => number(s.values), "n"],
      ["Attached", (s) => number(s.attached), "n"],
    ], reply.sessions, (s) => hex(s.session)),
    pager("/sessions", query, reply.sessions.length && hex(reply.sessions.at(-1).session), reply.more)),
};

// ---- One file, one chunk, one name.

const REPLICAS = { GOOD: "good", AWAY: "warn", GONE: "bad", LOST: "bad", MISSING: "bad", STALE: "warn",
  JOINING: "warn", COPYING: "warn" };

function chunkParts(reply, events, again) {
  const c = reply.chunk, id = c.chunk.chunk;
  const held = c.lease !== "FREE" && Number(c.lease_left_ms) > 0;
  // While a lease runs out the member list no longer names its holder, the events do.
  const holder = c.chunk.primary || events.events.find((e) => e.holder)?.holder || "the holder";
  const terms = held ? [{ holder, left: Number(c.lease_left_ms),
    holderLeft: Number(c.holder_left_ms) }] : [];
  return [
    section("What is going on", sentences(reply.sentences)),
    section("Lease", h("p", {}, badge(c.lease.toLowerCase(), LEASES[c.lease]), " ",
      c.chunk.primary ? h("span", {}, "primary ", serverLink(c.chunk.primary),
        `, version ${c.chunk.version}`) : `version ${c.chunk.version}`),
    terms.map(term)),
    section("Time line", timeline(events, terms, again)),
    section("Replicas", table(`Replicas of chunk ${id}`, [
      ["Server", (r) => serverLink(r.server_id)],
      ["State", (r) => badge(r.state.toLowerCase(), REPLICAS[r.state] ?? "")],
      ["Role", (r) => r.primary ? "primary" : ["EXTRA", "COPYING"].includes(r.state) ? "" : "member"],
      ["Address", (r) => r.address],
    ], c.replicas, (r) => r.server_id)),
  ];
}

const fence = (info) => info.fence !== "0" && `only under the lock ${info.lock_name}, token ${token(info.fence)}`;

export const file = {
  title: (path) => path, every: 1,
  async load(call, path, query) {
    const [reply, located] = await Promise.all([call("explain", { path }),
      call("locate", { path, offset: query.offset ?? 0, limit: 64 })]);
    const events = reply.chunk ? await call("events", { chunk: reply.chunk.chunk.chunk, limit: 200 }) : null;
    return { reply, located, events };
  },
  draw({ reply, located, events }, path, query, again) {
    const info = reply.info;
    return h("div", {}, heading(info.path, badge(reply.writable ? "takes appends" : "takes no appends",
      reply.writable ? "good" : "bad")),
    facts(["Chunks", number(info.chunks)], ["Sealed", bytes(info.sealed_length)],
      ["Chunk size", bytes(info.chunk_size)],
      ["Replicas", `${info.replication}, at least ${info.min_replicas} to append`],
      ["Durability", info.durability.toLowerCase()],
      ["When its primary is lost", info.on_primary_loss === "WAIT" ? "waits" : "rolls over"],
      ["Fence", fence(info)], ["Created", date(info.created_unix_ms)],
      ["Last chunk", reply.chunk && chunkLink(reply.chunk.chunk.chunk)]),
    reply.chunk ? chunkParts(reply, events, again) : section("What is going on", sentences(reply.sentences)),
    section("Chunks", located.chunks.length === 0 ? empty("It has none yet.") : table("Chunks", [
      ["Chunk", (c) => chunkLink(c.chunk)],
      ["From byte", (c) => number(c.start), "n"],
      ["State", (c) => c.sealed ? badge(c.unbacked ? "sealed, one copy" : "sealed") : badge("open", "good")],
      ["Bytes", (c) => c.sealed ? number(c.length) : "", "n"],
      ["Version", (c) => c.version, "n"],
      ["Members", (c) => c.members.map((m) => m.server_id).join(", ")],
    ], located.chunks, (c) => c.chunk),
    located.more && h("p.pager", {}, h("a", { href: `#/file${escaped(path)}?offset=` +
      (Number(located.chunks.at(-1).start) + Number(located.chunks.at(-1).length)) }, "The next ones"))));
  },
};

export const chunk = {
  title: (id) => `chunk ${id}`, every: 1,
  async load(call, id) {
    const [reply, events] = await Promise.all([call("explain", { chunk: id }),
      call("events", { chunk: id, limit: 200 })]);
    return { reply, events };
  },
  draw({ reply, events }, id, query, again) {
    const c = reply.chunk;
    return h("div", {}, heading(`Chunk ${id}`, c.chunk.sealed ? badge("sealed")
      : badge(reply.writable ? "takes appends" : "takes no appends", reply.writable ? "good" : "bad")),
    facts(["File", fileLink(c.path)], ["From byte", number(c.chunk.start)],
      ["Bytes", c.chunk.sealed && number(c.chunk.length)], ["Version", c.chunk.version],
      ["Replicas wanted", c.replication]),
    chunkParts(reply, events, again));
  },
};

function holderRows(holders) {
  return table("Holders", [
    ["Holder", (x) => whoIs(x)],
    ["Host", (x) => x.host],
    ["Process", (x) => x.process],
    ["Mode", (x) => badge(x.mode.toLowerCase(), "good")],
    ["Token", (x) => token(x.token), "n"],
    ["Held for", (x) => duration(x.held_ms), "n"],
    ["State", (x) => x.cut ? badge("ends", "warn") : x.recalled
      ? badge(x.refused ? "recalled, kept" : "recalled", "warn") : badge("held", "good")],
  ], holders, (x) => hex(x.session));
}

export const name = {
  title: (text) => text, every: 1,
  async load(call, text) {
    const events = await call("events", { name: text, limit: 200 });
    try {
      const reply = await call("names", { prefix: text, exact: true, explain: true });
      return { reply, events, info: reply.names[0] };
    } catch (error) {
      if (error.code !== "NOT_FOUND") throw error;
      return { events, info: null, words: error.message };
    }
  },
  draw({ events, info, words }, text, query, again) {
    const terms = (info?.holders ?? []).slice(0, 16).map((x) => ({ holder: x.label || hex(x.session),
      session: x.session, held: Number(x.held_ms), left: Number(x.left_ms), holderLeft: Number(x.holder_left_ms) }));
    return h("div", {}, heading(text, info && (info.holders.length > 0 ? badge("locked", "good")
      : badge("free"))),
    section("What is going on", sentences(info ? info.sentences : [words])),
    info && info.value && section("Value", facts(["Size", bytes(info.value.size)],
      ["Revision", info.value.revision], ["Caches", number(info.caches)],
      ["Token of its last change", info.value.token !== "0" && token(info.value.token)],
      ["Goes with session", info.value.session && hex(info.value.session)],
      ["Changing", info.changing && `done in ${duration(info.change_left_ms)} at the latest`])),
    terms.length > 0 && section("Lease", terms.map(term)),
    section("Time line", timeline(events, terms, again)),
    info && info.holders.length > 0 && section("Holders", holderRows(info.holders)),
    info && info.waiting !== "0" && section(`Waiting: ${number(info.waiting)}`, info.waiters.length === 0 ? null
      : table("Waiting", [
        ["Who", (w) => whoIs(w)],
        ["Host", (w) => w.host],
        ["Mode", (w) => w.mode.toLowerCase()],
        ["Has waited", (w) => ago(w.waited_ms).replace(" ago", ""), "n"],
      ], info.waiters, (w) => hex(w.session))));
  },
};
