// What stands where: the rows of each lane, and which spans lie in which row. Nothing here knows
// the zoom.

const ROW = {
  TITLE: 16, FAULT: 14, SESSION: 9, LEASE: 24, APPEND: 16, SAID: 18, PAD: 7,
};
const FAULT_ROWS_MAX = 8;

// Puts items (with begin and end) into as few rows as they need; each row is sorted and its items
// do not overlap.
function stack(items, max = Infinity) {
  const rows = [];
  for (const item of items.slice().sort((a, b) => a.begin - b.begin)) {
    let row = rows.find((r) => r[r.length - 1].end <= item.begin);
    if (!row && rows.length < max) rows.push(row = []);
    if (!row) row = rows[rows.length - 1];
    row.push(item);
  }
  return rows;
}

function columns(items) {
  return {
    items, begins: Float64Array.from(items, (s) => s.begin),
    ends: Float64Array.from(items, (s) => s.reach === undefined ? s.end : s.reach),
  };
}

// ---- Faults in words

function names(list) {
  return list.length === nodes.length - 1 ? "everybody"
    : list.sort((a, b) => a - b).map(nameOf).join(", ");
}

// One node's view of a group of cuts that began and ended together.
function cutWords(node, group) {
  const out = group.filter((s) => s.node === node).map((s) => s.peer);
  const into = group.filter((s) => s.peer === node).map((s) => s.node);
  const both = out.filter((n) => into.includes(n));
  const parts = [];
  if (both.length > 0) parts.push("cut off from " + names(both));
  const deaf = into.filter((n) => !both.includes(n)), mute = out.filter((n) => !both.includes(n));
  if (mute.length > 0) parts.push("nothing gets to " + names(mute));
  if (deaf.length > 0) parts.push("hears nothing from " + names(deaf));
  return parts.join("; ");
}

// Cuts come as pairs. Those of one moment are shown where they belong together: at the one node
// that is in all of them, else at each.
function cutItems() {
  const groups = new Map();
  for (const s of spans.filter((x) => x.kind === SPAN.CUT)) {
    const key = s.begin + " " + s.end;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(s);
  }
  const items = [];
  for (const group of groups.values()) {
    const all = [...new Set(group.flatMap((s) => [s.node, s.peer]))];
    const hubs = all.filter((n) => group.every((s) => s.node === n || s.peer === n));
    for (const node of hubs.length === 1 ? hubs : all)
      items.push({
        node, begin: group[0].begin, end: group[0].end, unfinished: group[0].unfinished,
        color: "cut", words: cutWords(node, group),
      });
  }
  return items;
}

function faultItems() {
  const items = cutItems();
  for (const s of spans) {
    const item = {node: s.node, begin: s.begin, end: s.end, unfinished: s.unfinished};
    if (s.kind === SPAN.PAUSED) items.push({...item, color: "paused", words: "paused"});
    if (s.kind === SPAN.STALLED)
      items.push({...item, color: "stalled", words: "disk stalled"});
    if (s.kind === SPAN.SLOW)
      items.push({
        ...item, color: "slow", words: "+" + duration(s.number) + " to " + nameOf(s.peer),
      });
    if (s.kind === SPAN.CLOGGED)
      items.push({...item, color: "slow", words: "clogged to " + nameOf(s.peer)});
    if (s.kind === SPAN.DRIFT)
      items.push({
        ...item, color: "drift",
        words: "clock " + (s.number > 0 ? "+" : "−") + grouped.format(Math.abs(s.number)) + " ppm",
      });
    if (s.kind === SPAN.DOWN)
      items.push({...item, color: "down", words: "down: " + s.how});
  }
  return items;
}

// ---- Lanes

// Leases of one chunk that follow each other share a row.
function leaseRows(node) {
  const own = leases.filter((l) => l.node === node).sort((a, b) => a.begin - b.begin);
  const runs = [];
  const last = new Map();
  for (const l of own) {
    const run = last.get(l.chunk);
    if (run && l.begin <= run.end) {
      run.leases.push(l);
      run.end = Math.max(run.end, l.end);
    } else {
      const fresh = {begin: l.begin, end: l.end, leases: [l]};
      runs.push(fresh);
      last.set(l.chunk, fresh);
    }
  }
  return stack(runs).map((row) => {
    const inRow = row.flatMap((r) => r.leases);
    const byBegin = (a, b) => a.begin - b.begin;
    return {
      given: columns(inRow.flatMap((l) => l.given).sort(byBegin)),
      held: columns(inRow.flatMap((l) => l.held).sort(byBegin)),
    };
  });
}

// Locks of programs, as they believe in them.
function lockItems() {
  return spans.filter((s) => s.kind === SPAN.LOCK).map((s) => ({
    node: s.node, begin: s.begin, end: s.end, unfinished: s.unfinished, color: "lock",
    words: s.name + ", token " + Math.floor(s.number / 2 ** 40) + "." + s.number % 2 ** 40 +
      (s.how ? ": " + s.how : ""),
  }));
}

function makeLane(node, faults, locks) {
  const lane = {node: node.index, name: node.name, kind: node.kind, rows: []};
  let y = 0;
  const add = (kind, height, more) => {
    lane.rows.push({kind, y, height, ...more});
    y += height;
  };
  y += ROW.PAD;
  lane.down = columns(spans.filter((s) => s.kind === SPAN.DOWN && s.node === node.index));
  for (const row of stack(faults.filter((f) => f.node === node.index), FAULT_ROWS_MAX))
    add("fault", ROW.FAULT, columns(row));
  const sessions = (kind) =>
    columns(spans.filter((s) => s.kind === kind && s.node === node.index));
  if (node.kind === "server") {
    add("session", ROW.SESSION,
      {given: sessions(SPAN.SESSION_GIVEN), held: sessions(SPAN.SESSION_HELD)});
    y += 3;
    for (const row of leaseRows(node.index)) add("lease", ROW.LEASE, row);
  }
  for (const row of stack(locks.filter((l) => l.node === node.index), FAULT_ROWS_MAX))
    add("lock", ROW.FAULT, columns(row));
  if (batches[node.index].at.length > 0) {
    y += 2;
    add("append", ROW.APPEND, {node: node.index});
  }
  add("said", ROW.SAID, {list: saidOf[node.index]});
  y += ROW.PAD;
  lane.height = Math.max(y, 34);
  return lane;
}

const lanes = (() => {
  const faults = faultItems(), locks = lockItems();
  const all = nodes.map((n) => makeLane(n, faults, locks));
  const world = saidOf[nodes.length];
  if (world.at.length > 0)
    all.unshift({
      node: NOBODY, name: "world", kind: "world", height: 34, down: columns([]),
      rows: [{kind: "said", y: 8, height: ROW.SAID, list: world}],
    });
  let top = 0;
  for (const lane of all) {
    lane.top = top;
    top += lane.height;
  }
  all.height = top;
  return all;
})();
const laneOf = new Map(lanes.map((l) => [l.node, l]));
const faultCount = lanes.reduce((n, l) =>
  n + l.rows.filter((r) => r.kind === "fault").reduce((k, r) => k + r.items.length, 0), 0);
