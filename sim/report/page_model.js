// The run as timeline.c wrote it, unpacked into columns that can be searched by time.
// Times are ns of true time. The order of the numbers is timeline.c's.

const RUN = JSON.parse(document.getElementById("run").textContent);

const NOBODY = -1;
const STORED = 2, ACKED = 3, EXTENDED = 1;
const SPAN = {
  GIVEN: 0, HELD: 1, SESSION_GIVEN: 2, SESSION_HELD: 3, DOWN: 4, PAUSED: 5, CUT: 6, SLOW: 7,
  STALLED: 8, DRIFT: 9, CLOGGED: 10, LOCK: 11,
};

// The first index in the sorted `times` whose value is at least `t`.
function lower(times, t) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

const nodes = RUN.nodes.map((name, index) => ({
  name, index,
  kind: name === "m" ? "master" : name.startsWith("cs") ? "server" : "client",
}));
function nameOf(node) { return node === NOBODY ? "world" : nodes[node].name; }

// What was said: columns, in the order of time.
const said = (() => {
  const flat = RUN.said, count = flat.length / 7;
  const s = {
    count,
    at: new Float64Array(count), node: new Int16Array(count), topic: new Uint8Array(count),
    peer: new Int16Array(count), chunk: new Float64Array(count), version: new Float64Array(count),
    text: new Uint32Array(count),
  };
  for (let i = 0, at = 0, k = 0; i < count; i++) {
    at += flat[k++];
    s.at[i] = at;
    s.node[i] = flat[k++];
    s.topic[i] = flat[k++];
    s.peer[i] = flat[k++];
    s.chunk[i] = flat[k++];
    s.version[i] = flat[k++];
    s.text[i] = flat[k++];
  }
  return s;
})();

function chunkName(chunk, version) {
  return chunk === 0 ? "" : "chunk " + chunk + (version === 0 ? "" : " v" + version);
}

// `peers`: of several that are told the same at once.
function wordsOf(i, peers = said.peer[i] === NOBODY ? [] : [said.peer[i]]) {
  const chunk = chunkName(said.chunk[i], said.version[i]);
  return (chunk && chunk + ": ") + RUN.texts[said.text[i]] +
    (peers.length === 0 ? "" : " → " + peers.map(nameOf).join(", "));
}
function isSameWords(i, k) {
  return said.at[i] === said.at[k] && said.node[i] === said.node[k] &&
    said.chunk[i] === said.chunk[k] && said.version[i] === said.version[k] &&
    said.text[i] === said.text[k] && said.peer[i] !== NOBODY && said.peer[k] !== NOBODY;
}
// Groups of indices that are one line.
function together(indices) {
  const groups = [];
  for (const i of indices) {
    const last = groups[groups.length - 1];
    if (last && isSameWords(last[0], i)) last.push(i);
    else groups.push([i]);
  }
  return groups;
}
function wordsOfGroup(group) {
  return wordsOf(group[0], group.map((i) => said.peer[i]).filter((n) => n !== NOBODY));
}

// The transitions of each node, and of the world at `nodes.length`, as indices into `said`.
const saidOf = (() => {
  const counts = new Array(nodes.length + 1).fill(0);
  const slot = (node) => node === NOBODY ? nodes.length : node;
  for (let i = 0; i < said.count; i++) counts[slot(said.node[i])]++;
  const lists = counts.map((n) => ({at: new Float64Array(n), index: new Uint32Array(n)}));
  counts.fill(0);
  for (let i = 0; i < said.count; i++) {
    const n = slot(said.node[i]), k = counts[n]++;
    lists[n].at[k] = said.at[i];
    lists[n].index[k] = i;
  }
  return lists;
})();

// Batches stored (at a primary) or acknowledged (at a client) of each node: moments and how many
// there were before each, so that a range's sum is one subtraction. Extensions by lease.
const batches = nodes.map(() => ({at: [], sum: [0], chunk: []}));
const extensions = new Map();  // "node chunk version" -> moments; node: the believer
(() => {
  const flat = RUN.counted;
  for (let k = 0, at = 0; k < flat.length; k += 7) {
    at += flat[k];
    const what = flat[k + 1], node = flat[k + 2], chunk = flat[k + 3], version = flat[k + 4];
    if (what === EXTENDED) {
      const key = node + " " + chunk + " " + version;
      if (!extensions.has(key)) extensions.set(key, []);
      extensions.get(key).push(at);
    } else {
      const b = batches[node];
      b.at.push(at);
      b.sum.push(b.sum[b.sum.length - 1] + flat[k + 5]);
      b.chunk.push(chunk);
    }
  }
})();
function batchesWithin(node, begin, end) {
  const b = batches[node];
  return b.sum[lower(b.at, end)] - b.sum[lower(b.at, begin)];
}

const spans = [];
for (let k = 0; k < RUN.spans.length; k += 12) {
  const f = RUN.spans;
  spans.push({
    kind: f[k], node: f[k + 1], peer: f[k + 2], chunk: f[k + 3], version: f[k + 4],
    number: f[k + 5], begin: f[k + 6], end: f[k + 7], unfinished: f[k + 8] === 1,
    reach: f[k + 9],  // `end`, or where a lease would end if the run went on and nobody extended it
    how: RUN.texts[f[k + 10]], name: RUN.texts[f[k + 11]],
  });
}
spans.sort((a, b) => a.begin - b.begin);

// Each lease as both sides believe in it: a given span with the held ones under it.
const leases = (() => {
  const byKey = new Map();
  const all = [];
  const key = (s) => s.node + " " + s.chunk + " " + s.version;
  for (const s of spans.filter((x) => x.kind === SPAN.GIVEN || x.kind === SPAN.HELD)) {
    let lease = byKey.get(key(s));
    if (!lease) {
      lease = {node: s.node, chunk: s.chunk, version: s.version, given: [], held: []};
      byKey.set(key(s), lease);
      all.push(lease);
    }
    (s.kind === SPAN.GIVEN ? lease.given : lease.held).push(s);
    s.lease = lease;
  }
  for (const l of all) {
    const both = l.given.concat(l.held);
    l.begin = Math.min(...both.map((s) => s.begin));
    l.end = Math.max(...both.map((s) => s.reach));
    const given = l.given[l.given.length - 1], held = l.held[l.held.length - 1];
    // Did the master come to think that nobody acts on it? Neither when it granted the same node a
    // newer version, nor when its own process ended.
    l.free = given && given.how !== "a newer version" &&
      given.how !== "the master's process ended" ? given.reach : null;
    // How long after the holder had stopped; below zero, TIME-4 is broken.
    l.gap = l.free !== null && held ? l.free - held.reach : null;
  }
  return all;
})();

// Two nodes that both believe that they may act on one chunk (INV-1).
const overlaps = (() => {
  const byChunk = new Map();
  for (const s of spans.filter((x) => x.kind === SPAN.HELD)) {
    if (!byChunk.has(s.chunk)) byChunk.set(s.chunk, []);
    byChunk.get(s.chunk).push(s);
  }
  const found = [];
  for (const held of byChunk.values()) {
    for (let i = 0; i < held.length; i++) {
      for (let k = i + 1; k < held.length && held[k].begin < held[i].end; k++) {
        if (held[k].node !== held[i].node)
          found.push({
            chunk: held[i].chunk, nodes: [held[i].node, held[k].node], begin: held[k].begin,
            end: Math.min(held[i].end, held[k].end),
          });
      }
    }
  }
  return found.sort((a, b) => a.begin - b.begin);
})();

// Messages by the moment of sending; those that took very long or did not arrive apart, so that few
// have to be looked at to find all that are on their way at some moment.
const SLOW_ARROW = 200e6;
const LOST = -1, UNDER_WAY = -2;  // instead of how long it took
const arrows = {quick: [], slow: [], lost: []};
for (let k = 0; k < RUN.arrows.length; k += 7) {
  const f = RUN.arrows;
  const a = {
    name: RUN.texts[f[k]], from: f[k + 1], to: f[k + 2], chunk: f[k + 3], version: f[k + 4],
    sent: f[k + 5], took: f[k + 6],
  };
  (a.took < 0 ? arrows.lost : a.took > SLOW_ARROW ? arrows.slow : arrows.quick).push(a);
}
for (const list of Object.values(arrows)) {
  list.sort((a, b) => a.sent - b.sent);
  list.sentAt = Float64Array.from(list, (a) => a.sent);
}

const chunks = [...new Set([...said.chunk].concat(leases.map((l) => l.chunk)))]
  .filter((c) => c !== 0).sort((a, b) => a - b);

// ---- Times in words

const grouped = new Intl.NumberFormat("en-US");
function ms(ns, digits = 3) {
  const text = (Math.abs(ns) / 1e6).toFixed(digits);
  const [whole, rest] = text.split(".");
  return (ns < 0 ? "−" : "") + grouped.format(Number(whole)) + (rest ? "." + rest : "");
}
function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1e6) return (ns / 1e3).toFixed(size < 1e4 ? 1 : 0) + " µs";
  if (size < 1e9) return (ns / 1e6).toFixed(size < 1e7 ? 2 : size < 1e8 ? 1 : 0) + " ms";
  return (ns / 1e9).toFixed(size < 1e10 ? 2 : 1) + " s";
}
