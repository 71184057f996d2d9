// A lease to look at: its term on both sides, and the time line of what became of it.
import { ago, duration, h, hex, number, plural, token } from "./base.js";

// ---- The term, now. The holder stops by itself before the master gives the lease to others
// (TIME-4); between the two nobody acts.

export function term({ holder, left, holderLeft }) {
  const most = Math.max(left, 1);
  const own = Math.min(holderLeft, left);
  const words = left === 0 ? "Its term is over."
    : `${holder} stops by itself within ${duration(own)}; the master gives the lease to others ` +
      `${duration(left - own)} later, unless it is renewed.`;
  return h("div.term", {},
    h("div.scale", { "aria-hidden": "true" },
      h("div.own", { style: { width: `${100 * own / most}%` } }),
      h("div.margin", { style: { width: `${100 * (left - own) / most}%` } })),
    h("p", {}, words));
}

// ---- Events.

const WORDS = {
  LEASE_GRANTED: "granted", LEASE_CONFIRMED: "confirmed", LEASE_CONTINUED: "continued",
  LEASE_RENEWED: "renewed", LEASE_RECALLED: "recalled", LEASE_KEPT: "kept by its holder",
  LEASE_YIELDED: "yielded", LEASE_CANCELLED: "cancelled", LEASE_RELEASED: "released",
  LEASE_EXPIRED: "expired", LEASE_ENDED: "ended", LEASE_QUEUED: "queued",
  LEASE_WITHDRAWN: "withdrawn", VALUE_CHANGED: "value changed", VALUE_REMOVED: "value deleted",
};
const ENDS = ["LEASE_RELEASED", "LEASE_EXPIRED", "LEASE_ENDED"];
const BEGINS = ["LEASE_GRANTED", "LEASE_CONTINUED"];

const isOfValue = (e) => e.kind.startsWith("VALUE_");

function wordsOf(e) {
  const words = WORDS[e.kind] ?? e.kind;
  if (e.kind === "LEASE_RENEWED" && Number(e.count) > 0)
    return Number(e.count) === 1 ? "renewed" : `renewed, the last of ${number(e.count)} times`;
  if (e.kind === "LEASE_GRANTED" && Number(e.count) > 0)
    return `granted, the last of ${number(Number(e.count) + 1)} times`;
  return words + (e.why ? `: ${e.why}` : "");
}

// Spans and marks of each holder, from events in the order of time. Times are ms before now; a
// negative one is to come.
export function lanesOf(events, terms) {
  const lanes = new Map();
  const laneOf = (key, name) => {
    if (!lanes.has(key)) lanes.set(key, { key, name, spans: [], marks: [], waits: [] });
    return lanes.get(key);
  };
  const lane = ({ session, holder }) => laneOf(session || holder, holder);
  const openSpan = (l) => l.spans.findLast((s) => s.to === null);
  for (const e of events) {
    const l = isOfValue(e) ? laneOf(null, "value") : lane(e);
    const at = Number(e.ago_ms);
    if (e.kind === "LEASE_QUEUED") l.waits.push({ from: at, to: null });
    if (e.kind === "LEASE_WITHDRAWN" || e.kind === "LEASE_GRANTED")
      for (const wait of l.waits) wait.to ??= at;
    let span = openSpan(l);
    if (BEGINS.includes(e.kind) && !(span && e.kind === "LEASE_CONTINUED")) {
      for (const s of l.spans) s.to ??= at;
      l.spans.push({ from: at, to: null, end: "" });
    } else if (!span && !isOfValue(e) && !["LEASE_QUEUED", "LEASE_WITHDRAWN"].includes(e.kind)) {
      span = { from: Infinity, to: null, end: "" }; // granted before all known
      l.spans.push(span);
    }
    if (ENDS.includes(e.kind)) Object.assign(span, { to: at, end: e.kind });
    l.marks.push({ at, kind: e.kind, words: wordsOf(e) });
  }
  for (const t of terms) {
    const l = lane(t);
    let span = openSpan(l);
    if (!span) l.spans.push(span = { from: t.held ?? Infinity, to: null, end: "" });
    Object.assign(span, { to: -t.left, own: -Math.min(t.holderLeft, t.left), end: "runs" });
  }
  for (const l of lanes.values()) {
    for (const s of l.spans) s.to ??= 0;
    for (const w of l.waits) w.to ??= 0;
  }
  const all = [...lanes.values()];
  for (const l of all) // programs may have one label, which may be "value"
    if (l.key !== null && all.some((other) => other !== l && other.name === l.name))
      l.suffix = hex(l.key).slice(0, 6);
  return all;
}

const SPANS = [["1 min", 60e3], ["10 min", 600e3], ["1 h", 3600e3], ["all", Infinity]];
let chosen = null; // of SPANS, by the viewer; null: what fits

function rangeOf(events, terms) {
  const oldest = Math.max(10e3, ...events.map((e) => Number(e.ago_ms)));
  const fit = SPANS.findIndex(([, ms]) => ms >= Math.min(oldest, 600e3));
  const index = chosen ?? fit;
  const from = Math.min(SPANS[index][1], oldest * 1.04);
  const ahead = Math.max(0, ...terms.map((t) => t.left));
  return { index, from, to: -Math.max(ahead * 1.15, from * 0.02) };
}

function ticksOf({ from, to }) {
  const rough = (from - to) / 5;
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400]
    .map((s) => s * 1000);
  const step = steps.find((s) => s >= rough) ?? Math.ceil(rough / 86400e3) * 86400e3;
  const ticks = [];
  for (let t = Math.floor(from / step) * step; t >= to; t -= step) ticks.push(t);
  return ticks;
}

function tickWords(ms) {
  if (ms === 0) return "now";
  const s = Math.abs(ms) / 1000;
  const words = s < 60 ? `${s} s` : s < 3600 ? `${s / 60} min` : `${+(s / 3600).toFixed(1)} h`;
  return (ms < 0 ? "+" : "−") + words;
}

// `terms`: of those who hold it now, {holder, session, held, left, holderLeft} in ms.
export function timeline(reply, terms, again) {
  const events = [...reply.events].reverse().sort((a, b) => Number(b.ago_ms) - Number(a.ago_ms));
  if (events.length === 0 && terms.length === 0)
    return h("p.quiet", {}, `Nothing has happened to it since this master took over, ` +
      `${ago(reply.since_ms)}.`);
  const range = rangeOf(events, terms);
  const lanes = lanesOf(events, terms);
  const place = (ms) => 100 * (range.from - Math.min(Math.max(ms, range.to), range.from)) /
    (range.from - range.to);
  const part = (what, from, to, attributes = {}) => from < range.to || to > range.from ? null
    : h(what, { ...attributes, style: { left: `${place(from)}%`,
      width: `${Math.max(0.3, place(to) - place(from))}%` } });
  return h("div.timeline", {},
    h("div.ranges", { role: "group", "aria-label": "Time that is shown" },
      SPANS.map(([words], i) => h("button", { type: "button", "aria-pressed": String(i === range.index),
        onclick: () => { chosen = i; again(); } }, words))),
    h("div.lanes", { role: "img",
      "aria-label": `Time line: ${plural(lanes.length, "holder")}, ${plural(events.length, "event")}; ` +
        "the table below says the same" },
    lanes.map((l) => h("div.lane", { "data-key": l.key },
      h("div.who", {}, l.name || "—", l.suffix && h("small", {}, " " + l.suffix)),
      h("div.track", {},
        ticksOf(range).map((t) => h("i" + (t === 0 ? ".now" : ".grid"), { style: { left: `${place(t)}%` } })),
        l.waits.map((w) => part("div.wait", w.from, w.to, { title: "waited" })),
        l.spans.map((s) => [
          part("div.given." + (s.end === "" ? "open" : s.end.toLowerCase()), s.from, s.to),
          s.end === "runs" ? part("div.held", s.from, s.own)
            : part("div.held", s.from, Math.max(s.to, 0))]),
        part("div.ahead", 0, range.to),
        l.marks.filter((m) => m.at <= range.from && !["LEASE_GRANTED", "LEASE_CONFIRMED"]
          .includes(m.kind))
          .map((m) => h("b." + m.kind.toLowerCase(), { title: `${m.words}, ${ago(m.at)}`,
            style: { left: `${place(m.at)}%` } }))))),
    h("div.lane.axis", { "data-key": "\n" }, h("div.who"),
      h("div.track", {}, ticksOf(range).filter((t) => place(t) > 4).map((t) => h("span" + (t === 0 ? ".now" : ""),
        { style: { left: `${place(t)}%` } }, tickWords(t)))))),
    legend(lanes, terms),
    eventTable(events, reply));
}

function legend(lanes, terms) {
  const kinds = new Set(lanes.flatMap((l) => l.marks.map((m) => m.kind)));
  const item = (what, words) => h("span", {}, h(what), words);
  return h("p.legend", { "aria-hidden": "true" },
    item("i.held", "held"),
    terms.length > 0 && item("i.given", "the master waits, the holder has stopped"),
    kinds.has("LEASE_QUEUED") && item("i.wait", "waits"),
    kinds.has("LEASE_RENEWED") && item("b.lease_renewed", "renewed last"),
    kinds.has("LEASE_RECALLED") && item("b.lease_recalled", "recalled"),
    kinds.has("LEASE_EXPIRED") && item("b.lease_expired", "expired"),
    kinds.has("LEASE_RELEASED") && item("b.lease_released", "released"),
    kinds.has("LEASE_ENDED") && item("b.lease_ended", "ended"),
    kinds.has("VALUE_CHANGED") && item("b.value_changed", "value changed"));
}

function versionWords(e) {
  if (e.version === "0") return "";
  if (isOfValue(e)) return `revision ${e.version}`;
  return BigInt(e.version) >> 40n ? `token ${token(e.version)}` : `version ${e.version}`;
}

const SHOWN = 12;
let all = false;

function eventTable(events, reply) {
  const newest = [...events].reverse();
  const shown = all ? newest : newest.slice(0, SHOWN);
  return h("div", {},
    h("ol.events", { reversed: true }, shown.map((e) => h("li", {},
      h("time", {}, ago(e.ago_ms)),
      h("span.what", {}, h("b." + e.kind.toLowerCase(), { "aria-hidden": "true" }), wordsOf(e)),
      h("span.by", {}, isOfValue(e) ? "" : e.holder),
      h("span.version", {}, versionWords(e))))),
    newest.length > SHOWN && h("button.more", { type: "button", onclick: (event) => {
      all = !all;
      event.target.dispatchEvent(new Event("again", { bubbles: true }));
    } }, all ? "Show fewer" : `Show all ${newest.length}`),
    h("p.quiet", {}, reply.more ? "There may have been earlier events, which this master has forgotten."
      : `This master has been acting for ${duration(reply.since_ms)}; it knows nothing of before.`,
    reply.unnoted !== "0" && ` Of sessions that take locks very often it keeps a part: ` +
      `${number(reply.unnoted)} requests, of any name, are not shown.`));
}
