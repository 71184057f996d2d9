// Moving about: zoom, pan, hover, search, list, links. What is drawn is page_draw.js's affair.

// The last moment is not at the very edge; and after a violation, what was promised can be seen.
const FULL = Math.max(1, RUN.end * 1.01, ...leases
  .filter((l) => RUN.failure && [0, l.chunk].includes(RUN.failure.chunk) && l.end > RUN.end)
  .map((l) => Math.min(l.end + RUN.end / 100, RUN.end + 60e9)));
const CLOSEST = 1e3;                        // 1 µs across the screen is close enough

const $ = (id) => document.getElementById(id);
const tip = $("tip");

// ---- The view

let due = false;
function changed() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    drawLanes();
    drawOverview();
    fillList();
    linkSoon();
  });
}

function show(begin, end) {
  let wide = Math.min(FULL, Math.max(CLOSEST, end - begin));
  let from = (begin + end - wide) / 2;
  from = Math.max(0, Math.min(from, FULL - wide));
  view.begin = from;
  view.end = from + wide;
  changed();
}
function zoom(factor, at = (view.begin + view.end) / 2) {
  const wide = Math.min(FULL, Math.max(CLOSEST, (view.end - view.begin) * factor));
  const part = (at - view.begin) / (view.end - view.begin);
  let from = Math.max(0, Math.min(at - part * wide, FULL - wide));
  view.begin = from;
  view.end = from + wide;
  changed();
}
function pan(by) { show(view.begin + by, view.end + by); }
function scrollBy(y) {
  const most = Math.max(0, lanes.height + AXIS - lanesCanvas.clientHeight);
  view.scroll = Math.max(0, Math.min(most, view.scroll + y));
  changed();
}
function fit() { show(0, FULL); }
function center(t) {
  const half = (view.end - view.begin) / 2;
  show(t - half, t + half);
}
function showFailure() {
  if (!RUN.failure) return;
  const wide = Math.min(FULL, Math.max(2e9, Math.min(view.end - view.begin, 20e9)));
  show(RUN.failure.at - wide * 0.7, RUN.failure.at + wide * 0.3);
  scrollToFailure = true;
}

// ---- Links: #t=from~to in ms, or #t=moment; chunk=n

let linkTimer = 0;
function linkSoon() {
  clearTimeout(linkTimer);
  linkTimer = setTimeout(() => {
    const t = (ns) => String(Number((ns / 1e6).toFixed(6)));
    const hash = "#t=" + t(view.begin) + "~" + t(view.end) +
      (view.chunk === 0 ? "" : "&chunk=" + view.chunk);
    if (hash !== location.hash) history.replaceState(null, "", hash);
  }, 300);
}
function follow() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const chunk = Number(asked.get("chunk"));
  view.chunk = chunks.includes(chunk) ? chunk : 0;
  $("chunk").value = String(view.chunk);
  const [from, to] = (asked.get("t") || "").split("~").map((x) => parseFloat(x) * 1e6);
  if (from >= 0 && to > from) show(from, to);
  else if (from >= 0) show(from - 5e6, from + 5e6);
  else if (RUN.failure) { fit(); showFailure(); }
  else fit();
}

// ---- What is under the pointer

function laneAt(y) {
  return lanes.find((l) => y >= yOf(l) && y < yOf(l) + l.height) || null;
}

function spanAt(row, t, slack) {
  for (let i = lower(row.ends, t - slack); i < row.items.length; i++) {
    if (row.begins[i] > t + slack) return null;
    return row.items[i];
  }
  return null;
}

function nearestSaid(list, x) {
  const k = lower(list.at, timeAt(x));
  let best = -1, distance = 7;
  for (const n of [k - 1, k]) {
    if (n < 0 || n >= list.at.length) continue;
    const d = Math.abs(xOf(list.at[n]) - x);
    if (d < distance) { distance = d; best = n; }
  }
  return best;
}

// Everything said at that node at that very moment.
function saidTogether(list, k) {
  let from = k;
  while (from > 0 && list.at[from - 1] === list.at[k]) from--;
  const all = [];
  for (let n = from; n < list.at.length && list.at[n] === list.at[k]; n++) all.push(list.index[n]);
  return all;
}

function arrowAt(x, y) {
  let best = null, distance = 5;
  for (const a of shownArrows) {
    const l = arrowLine(a), dx = l.x1 - l.x0, dy = l.y1 - l.y0;
    const along = Math.max(0, Math.min(1,
      ((x - l.x0) * dx + (y - l.y0) * dy) / (dx * dx + dy * dy || 1)));
    const d = Math.hypot(x - l.x0 - along * dx, y - l.y0 - along * dy);
    if (d < distance) { distance = d; best = a; }
  }
  return best;
}

// {kind, ...} or null.
function thingAt(x, y) {
  if (x < GUTTER || y < AXIS) return null;
  if (RUN.failure && Math.abs(xOf(RUN.failure.at) - x) < 4) return {kind: "failure"};
  const lane = laneAt(y), slack = (view.end - view.begin) / plotWidth() * 3;
  const row = lane && lane.rows.find((r) => y >= yOf(lane) + r.y && y < yOf(lane) + r.y + r.height);
  if (row && row.kind === "said") {
    const k = nearestSaid(row.list, x);
    if (k >= 0) return {kind: "said", all: saidTogether(row.list, k), lane};
  }
  if (row && (row.kind === "fault" || row.kind === "lock")) {
    const item = spanAt(row, timeAt(x), slack);
    if (item) return {kind: "fault", item, lane};
  }
  if (row && row.kind === "lease") {
    const s = spanAt(row.given, timeAt(x), slack) || spanAt(row.held, timeAt(x), slack);
    if (s) return {kind: "lease", lease: s.lease, lane};
  }
  if (row && row.kind === "session") {
    const given = spanAt(row.given, timeAt(x), slack), held = spanAt(row.held, timeAt(x), slack);
    if (given || held) return {kind: "session", given, held, lane};
  }
  const arrow = arrowAt(x, y);
  if (arrow) return {kind: "arrow", arrow};
  if (row && row.kind === "append") return {kind: "append", lane, x};
  return null;
}

// ---- The tooltip: built of text nodes, since paths may hold anything

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}
function table(rows) {
  const t = element("table");
  for (const [name, value, className] of rows) {
    const tr = t.insertRow();
    tr.append(element("td", name), element("td", value, className));
  }
  return t;
}
function period(s) {
  return ms(s.begin) + " – " + (!s.unfinished ? ms(s.end) + " ms  (" + duration(s.end - s.begin) + ")"
    : s.reach > s.end ? "the run's end, promised until " + ms(s.reach) + " ms" : "the run's end");
}

function leaseTip(lease) {
  const rows = [];
  for (const s of lease.given)
    rows.push(["the master", period(s)], ["", s.how]);
  if (lease.given.length === 0) rows.push(["the master", "does not believe in it", "bad"]);
  for (const s of lease.held) rows.push([nameOf(lease.node), period(s)], ["", s.how]);
  if (lease.held.length === 0) rows.push([nameOf(lease.node), "never believed in it"]);
  if (lease.gap !== null)
    rows.push(["margin", lease.gap >= 0 ? duration(lease.gap) + " after the holder's end"
      : duration(-lease.gap) + " TOO SHORT: the holder outlived it",
    lease.gap < 0 ? "bad" : ""]);
  const moved = extensions.get(lease.node + " " + lease.chunk + " " + lease.version);
  rows.push(["extended", !moved ? "never" : moved.length === 1 ? "once"
    : moved.length + " times"]);
  const n = lease.held.reduce((sum, s) => sum + batchesWithin(s.node, s.begin, s.end), 0);
  if (n > 0) rows.push(["meanwhile", grouped.format(n) + " batches stored at " +
    nameOf(lease.node)]);
  const two = overlaps.filter((o) => o.chunk === lease.chunk && o.nodes.includes(lease.node));
  for (const o of two.slice(0, 3))
    rows.push(["INV-1", o.nodes.map(nameOf).join(" and ") + " both, " +
      duration(o.end - o.begin) + " from " + ms(o.begin), "bad"]);
  return [element("b", chunkName(lease.chunk, lease.version) + " at " + nameOf(lease.node)),
    table(rows.filter((r) => r[1] !== ""))];
}

function tipOf(thing) {
  switch (thing.kind) {
  case "failure":
    return [element("b", "violation", "bad"), element("div", RUN.failure.text)];
  case "said": {
    const first = thing.all[0];
    const parts = [element("b", nameOf(said.node[first]) + " at " + ms(said.at[first]) + " ms")];
    const groups = together(thing.all);
    for (const group of groups.slice(0, 12)) {
      const line = element("div", wordsOfGroup(group));
      line.style.color = color.topics[said.topic[group[0]]];
      parts.push(line);
    }
    if (groups.length > 12) parts.push(element("div", groups.length - 12 + " more"));
    return parts;
  }
  case "fault":
    return [element("b", nameOf(thing.lane.node) + ": " + thing.item.words),
      element("div", period(thing.item))];
  case "lease":
    return leaseTip(thing.lease);
  case "session":
    return [element("b", "session of " + nameOf(thing.lane.node)), table([
      ["the master", thing.given ? period(thing.given) : "has none"],
      ["", thing.given ? thing.given.how : ""],
      [nameOf(thing.lane.node), thing.held ? period(thing.held) : "is in none"],
      ["", thing.held ? thing.held.how : ""]].filter((r) => r[0] !== "" || r[1] !== ""))];
  case "arrow": {
    const a = thing.arrow;
    return [element("b", a.name), table([
      ["from", nameOf(a.from) + " at " + ms(a.sent) + " ms"],
      ["to", nameOf(a.to) + (a.took === LOST ? ": never arrived" : a.took === UNDER_WAY
        ? ": under way when the run ended" : " after " + duration(a.took)),
      a.took === LOST ? "bad" : ""],
      ["about", chunkName(a.chunk, a.version)]].filter((r) => r[1] !== ""))];
  }
  default: {
    const half = (view.end - view.begin) / plotWidth() * 4, t = timeAt(thing.x);
    const n = batchesWithin(thing.lane.node, t - half, t + half);
    return [element("b", grouped.format(n) + (n === 1 ? " batch" : " batches") +
      (thing.lane.kind === "client" ? " acknowledged" : " stored")),
    element("div", "within " + duration(2 * half) + ", " +
      grouped.format(Math.round(n / (2 * half) * 1e9)) + " a second")];
  }
  }
}

function hover(x, y, clientX, clientY) {
  const thing = thingAt(x, y);
  tip.hidden = thing === null;
  if (thing === null) return;
  tip.replaceChildren(...tipOf(thing));
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(clientX + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (clientY + 18 + box.height > innerHeight ? clientY - box.height - 12
    : clientY + 18) + "px";
}

// ---- The list beside the lanes

const LIST_MAX = 400;
let scrollToFailure = false;
function fillList() {
  if ($("side").hidden) return;
  const from = lower(said.at, view.begin), to = lower(said.at, view.end);
  const wanted = [];
  let all = 0;
  const f = RUN.failure, failed = f && f.at >= view.begin && f.at <= view.end;
  // Towards a violation the last ones matter.
  for (let k = 0; k < to - from; k++) {
    const i = failed ? to - 1 - k : from + k;
    if (dimmed(said.chunk[i]) || (view.hits && !view.hits.has(i))) continue;
    all++;
    if (wanted.length < LIST_MAX) wanted.push(i);
  }
  if (failed) wanted.reverse();
  $("side-head").textContent = grouped.format(all) + (all === 1 ? " transition" : " transitions") +
    " in " + duration(view.end - view.begin) +
    (all > LIST_MAX ? ", the " + (failed ? "last " : "first ") + LIST_MAX + " here" : "");
  const items = together(wanted).map((group) => {
    const i = group[0];
    const li = element("li", undefined, group.includes(view.picked) ? "picked" : "");
    li.style.borderLeftColor = color.topics[said.topic[i]];
    li.append(element("span", ms(said.at[i]), "t"), element("span", nameOf(said.node[i]), "n"),
      element("span", wordsOfGroup(group), "w"));
    li.onclick = () => pick(i, false);
    return li;
  });
  if (failed) {
    const li = element("li", undefined, "failure");
    li.append(element("span", ms(f.at), "t"), element("span", "!!", "n"),
      element("span", f.text, "w"));
    items.push(li);
  }
  $("rows").replaceChildren(...items);
  if (failed && scrollToFailure) $("rows").scrollTop = $("rows").scrollHeight;
  scrollToFailure = false;
}

function pick(i, move = true) {
  if (i < 0 || i >= said.count) return;
  view.picked = i;
  if (move && (said.at[i] < view.begin || said.at[i] > view.end)) center(said.at[i]);
  changed();
  requestAnimationFrame(() => {
    const row = document.querySelector("#rows .picked");
    if (row && move) row.scrollIntoView({block: "nearest"});
  });
}
function pickNext(by) {
  let i = view.picked >= 0 ? view.picked + by : lower(said.at, (view.begin + view.end) / 2);
  while (i >= 0 && i < said.count && dimmed(said.chunk[i])) i += by;
  pick(i);
}

// ---- Search

function search(words) {
  const parts = words.toLowerCase().split(/\s+/).filter((w) => w !== "");
  view.hits = null;
  if (parts.length > 0) {
    view.hits = new Set();
    for (let i = 0; i < said.count; i++) {
      const text = (nameOf(said.node[i]) + " " + RUN.topics[said.topic[i]] + " " + wordsOf(i))
        .toLowerCase();
      if (parts.every((p) => text.includes(p))) view.hits.add(i);
    }
  }
  $("found").textContent = view.hits ? grouped.format(view.hits.size) + " found" : "";
  changed();
}
function nextHit(by) {
  if (!view.hits || view.hits.size === 0) return;
  const all = [...view.hits];
  const from = view.picked >= 0 ? view.picked : lower(said.at, view.begin) - (by > 0 ? 1 : 0);
  const next = by > 0 ? all.find((i) => i > from) : all.reverse().find((i) => i < from);
  pick(next === undefined ? all[0] : next);
}

// ---- Hands

let drag = null;
lanesCanvas.addEventListener("pointerdown", (e) => {
  lanesCanvas.focus();
  lanesCanvas.setPointerCapture(e.pointerId);
  drag = {x: e.offsetX, y: e.offsetY, begin: view.begin, scroll: view.scroll, moved: false,
    measure: e.shiftKey};
  if (e.shiftKey) view.measure = {from: timeAt(e.offsetX), to: timeAt(e.offsetX)};
});
lanesCanvas.addEventListener("pointermove", (e) => {
  view.pointer = {x: e.offsetX, y: e.offsetY};
  if (drag && drag.measure) {
    view.measure.to = timeAt(Math.max(GUTTER, e.offsetX));
    tip.hidden = true;
  } else if (drag) {
    drag.moved = drag.moved || Math.hypot(e.offsetX - drag.x, e.offsetY - drag.y) > 3;
    if (drag.moved) {
      lanesCanvas.classList.add("moving");
      tip.hidden = true;
      const by = (drag.x - e.offsetX) / plotWidth() * (view.end - view.begin);
      show(drag.begin + by, drag.begin + by + (view.end - view.begin));
      scrollBy(drag.scroll + drag.y - e.offsetY - view.scroll);
    }
  } else {
    hover(e.offsetX, e.offsetY, e.clientX, e.clientY);
  }
  changed();
});
lanesCanvas.addEventListener("pointerup", (e) => {
  if (drag && !drag.moved && !drag.measure) {
    const thing = thingAt(e.offsetX, e.offsetY);
    if (thing && thing.kind === "said") pick(thing.all[0]);
    if (thing && thing.kind === "lease") filter(thing.lease.chunk);
  }
  drag = null;
  lanesCanvas.classList.remove("moving");
});
lanesCanvas.addEventListener("pointerleave", () => {
  view.pointer = null;
  tip.hidden = true;
  changed();
});
lanesCanvas.addEventListener("wheel", (e) => {
  e.preventDefault();
  const unit = e.deltaMode === 1 ? 30 : 1;
  if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
    pan((e.deltaX || e.deltaY) * unit / plotWidth() * (view.end - view.begin));
  else
    zoom(Math.exp(e.deltaY * unit * 0.0022), timeAt(Math.max(GUTTER, e.offsetX)));
}, {passive: false});

let overviewDrag = false;
function overviewTo(e) { center(e.offsetX / overviewCanvas.clientWidth * FULL); }
overviewCanvas.addEventListener("pointerdown", (e) => {
  overviewDrag = true;
  overviewCanvas.setPointerCapture(e.pointerId);
  overviewTo(e);
});
overviewCanvas.addEventListener("pointermove", (e) => { if (overviewDrag) overviewTo(e); });
overviewCanvas.addEventListener("pointerup", () => { overviewDrag = false; });
overviewCanvas.addEventListener("wheel", (e) => {
  e.preventDefault();
  zoom(Math.exp(e.deltaY * 0.0022));
}, {passive: false});

function filter(chunk) {
  view.chunk = view.chunk === chunk ? 0 : chunk;
  $("chunk").value = String(view.chunk);
  changed();
}
function toggle(button, on) { $(button).setAttribute("aria-pressed", String(on)); }
function toggleMessages() { toggle("messages", view.messages = !view.messages); changed(); }
function toggleList() {
  const side = $("side");
  side.hidden = !side.hidden;
  toggle("listing", !side.hidden);
  changed();
}
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  readColors();
  fillLegend();
  changed();
}
function isDark() { return document.documentElement.dataset.theme === "dark"; }

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || $("keys").open) return;
  if (e.target === $("search")) {
    if (e.key === "Enter") nextHit(e.shiftKey ? -1 : 1);
    else if (e.key === "Escape") { $("search").value = ""; search(""); lanesCanvas.focus(); }
    return;
  }
  if (e.target.tagName === "SELECT") return;
  const wide = view.end - view.begin;
  const at = view.pointer && view.pointer.x > GUTTER ? timeAt(view.pointer.x) : undefined;
  const keys = {
    "+": () => zoom(0.6, at), "=": () => zoom(0.6, at), w: () => zoom(0.6, at),
    "-": () => zoom(1 / 0.6, at), s: () => zoom(1 / 0.6, at),
    ArrowLeft: () => pan(-wide / 6), a: () => pan(-wide / 6),
    ArrowRight: () => pan(wide / 6), d: () => pan(wide / 6),
    ArrowUp: () => scrollBy(-60), ArrowDown: () => scrollBy(60),
    Home: () => show(0, wide), End: () => show(FULL - wide, FULL),
    0: fit, f: fit, v: showFailure,
    "[": () => pickNext(-1), "]": () => pickNext(1),
    n: () => nextHit(1), p: () => nextHit(-1),
    m: toggleMessages, l: toggleList, t: () => setTheme(!isDark()),
    z: () => view.measure && show(Math.min(view.measure.from, view.measure.to),
      Math.max(view.measure.from, view.measure.to)),
    "/": () => $("search").focus(), "?": () => $("keys").showModal(),
    Escape: () => { view.picked = -1; view.measure = null; tip.hidden = true; changed(); },
  };
  if (!Object.hasOwn(keys, e.key)) return;
  e.preventDefault();
  keys[e.key]();
});

$("in").onclick = () => zoom(0.5);
$("out").onclick = () => zoom(2);
$("fit").onclick = fit;
$("messages").onclick = toggleMessages;
$("listing").onclick = toggleList;
$("theme").onclick = () => setTheme(!isDark());
$("help").onclick = () => $("keys").showModal();
$("search").oninput = () => search($("search").value);
$("chunk").onchange = () => { view.chunk = Number($("chunk").value); changed(); };
$("verdict").onclick = showFailure;
addEventListener("hashchange", follow);
new ResizeObserver(changed).observe(lanesCanvas);

// ---- Words around it

function fillLegend() {
  const swatch = (text, style, className) => {
    const span = element("span"), i = element("i", undefined, className);
    Object.assign(i.style, style);
    span.append(i, text);
    return span;
  };
  const hue = chunkColor(2);
  $("legend").replaceChildren(
    swatch("lease, as the master believes", {background: chunkWash(2), border: "1px solid " + hue}),
    swatch("as the holder believes", {background: hue}),
    swatch("margin: nobody acts", {
      border: "1px solid " + hue,
      background: `repeating-linear-gradient(-45deg, ${hue} 0 1px, ${color.paper} 1px 4px)`}),
    swatch("session", {background: color.session, height: "5px"}),
    swatch("batches", {background: color.append}),
    ...["down", "paused", "cut", "slow", "stalled", "drift"].map((name) =>
      swatch({cut: "network cut", slow: "slow line", stalled: "disk stalled",
        drift: "clock off"}[name] || name, {background: color[name]})),
    ...["lease", "recovery", "seal", "refusal"].map((name) =>
      swatch(name, {background: color.topics[RUN.topics.indexOf(name)]}, "dot")),
    swatch("two primaries, or a holder beyond its term", {background: color.bad}));
}

function fillHeader() {
  const verdict = $("verdict");
  verdict.textContent = RUN.failure ? RUN.failure.rule + " broken" : "no violation";
  verdict.classList.toggle("bad", RUN.failure !== null);
  verdict.title = RUN.failure ? RUN.failure.text + " (v)" : "";
  $("facts").textContent = duration(RUN.end) + " · " + nodes.length + " nodes · " +
    grouped.format(leases.length) + " leases · " + grouped.format(said.count) + " transitions";
  $("chunk").append(...chunks.map((c) => {
    const option = element("option", String(c));
    option.value = String(c);
    return option;
  }));
}

// For whoever tests or scripts the page.
window.timeline = {
  view, show, zoom, fit, search, thingAt, xOf, yOf, lanes, laneOf, leases, overlaps,
  counts: {
    lanes: nodes.length, transitions: said.count,
    given: spans.filter((s) => s.kind === SPAN.GIVEN).length,
    held: spans.filter((s) => s.kind === SPAN.HELD).length,
    faults: spans.filter((s) => s.kind >= SPAN.DOWN && s.kind !== SPAN.LOCK).length, faultItems: faultCount,
    arrows: Object.values(arrows).reduce((n, list) => n + list.length, 0),
  },
};

fillHeader();
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (e) => setTheme(e.matches));
follow();
lanesCanvas.focus();
