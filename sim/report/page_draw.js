// Draws the lanes and the overview for a view: which time, which chunk, what was picked.

const GUTTER = 92, AXIS = 26;
const ARROWS_MAX = 600;  // more at once are a carpet
const ROUTINE_WITHIN = 1e9;  // heartbeats and the like are shown in no longer view

const view = {
  begin: 0, end: 1, scroll: 0, chunk: 0, messages: true, picked: -1, hits: null, pointer: null,
  measure: null,
};

const lanesCanvas = document.getElementById("lanes");
const overviewCanvas = document.getElementById("overview");
let color = {};

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue("--" + name).trim();
  color = {};
  for (const name of ["paper", "lane", "line", "faint", "text", "strong", "bar", "accent", "bad",
    "bad-wash", "select", "down", "paused", "cut", "slow", "stalled", "drift", "session",
    "lock", "append"])
    color[name] = get(name);
  color.topics = RUN.topics.map((t) => get("topic-" + t));
  color.light = get("chunk-light");
  color.wash = get("chunk-wash");
}
// Neighbours differ, and none is red: that is kept for what must not be.
function hueOf(chunk) { return 30 + (chunk * 137.508) % 300; }
function chunkColor(chunk) { return `hsl(${hueOf(chunk)} 62% ${color.light})`; }
function chunkWash(chunk) { return `hsl(${hueOf(chunk)} 45% ${color.wash})`; }

// A canvas in CSS pixels, sharp on every screen.
function fitCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.textBaseline = "middle";
  return {c, width, height};
}

const FONT = '11px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const BOLD = "600 " + FONT;

function plotWidth() { return Math.max(1, lanesCanvas.clientWidth - GUTTER); }
function xOf(t) {
  return GUTTER + (t - view.begin) / (view.end - view.begin) * plotWidth();
}
function timeAt(x) {
  return view.begin + (x - GUTTER) / plotWidth() * (view.end - view.begin);
}
function yOf(lane) { return AXIS + lane.top - view.scroll; }
function dimmed(chunk) { return view.chunk !== 0 && chunk !== 0 && chunk !== view.chunk; }

// ---- The axis

function step(span, room) {
  const least = span / Math.max(1, room / 110);
  const power = 10 ** Math.floor(Math.log10(least));
  for (const m of [1, 2, 5, 10]) if (power * m >= least) return power * m;
  return power * 10;
}

function drawAxis(c, width, height) {
  const each = step(view.end - view.begin, plotWidth());
  const digits = each >= 1e6 ? 0 : Math.min(6, Math.ceil(-Math.log10(each / 1e6)));
  c.font = FONT;
  c.textAlign = "center";
  for (let t = Math.ceil(view.begin / each) * each; t <= view.end; t += each) {
    const x = Math.round(xOf(t)) + 0.5;
    c.strokeStyle = color.line;
    c.beginPath();
    c.moveTo(x, AXIS - 5);
    c.lineTo(x, height);
    c.stroke();
    c.fillStyle = color.faint;
    if (x > GUTTER + 20 && x < width - 24) c.fillText(ms(t, digits), x, AXIS / 2);
  }
  c.textAlign = "left";
}

// ---- Spans

// Calls `draw(item, x0, x1)` for what is in view, and once a pixel where items are smaller.
function eachSpan(row, draw) {
  const pixel = (view.end - view.begin) / plotWidth();
  let i = lower(row.ends, view.begin);
  while (i < row.items.length && row.begins[i] < view.end) {
    const x0 = Math.max(xOf(row.begins[i]), GUTTER - 4);
    const x1 = Math.min(xOf(row.ends[i]), GUTTER + plotWidth() + 4);
    draw(row.items[i], x0, Math.max(x1, x0 + 1));
    i = x1 - x0 < 1 ? Math.max(i + 1, lower(row.begins, row.begins[i] + pixel)) : i + 1;
  }
}

// `behind`: what lies there (a line of the row, of the axis) ends where the words begin.
function label(c, text, x0, x1, y, style, behind) {
  const from = Math.max(x0, GUTTER) + 5;
  if (x1 - from < 18) return;
  let shown = text;
  const room = x1 - from - 3;
  if (c.measureText(shown).width > room) {
    const part = Math.floor(shown.length * room / c.measureText(shown).width) - 1;
    if (part < 2) return;
    shown = shown.slice(0, part) + "…";
  }
  if (behind) {
    c.fillStyle = behind;
    c.fillRect(from - 2, y - 7, c.measureText(shown).width + 4, 14);
  }
  c.fillStyle = style;
  c.fillText(shown, from, y);
}

function hatch(c, x0, y0, x1, y1, style) {
  c.save();
  c.beginPath();
  c.rect(x0, y0, x1 - x0, y1 - y0);
  c.clip();
  c.strokeStyle = style;
  c.lineWidth = 1;
  c.beginPath();
  const rise = y1 - y0;
  for (let x = Math.floor((x0 - rise) / 6) * 6; x < x1; x += 6) {
    c.moveTo(x, y1);
    c.lineTo(x + rise, y0);
  }
  c.stroke();
  c.restore();
}

function drawFault(c, row, y) {
  c.font = FONT;
  eachSpan(row, (f, x0, x1) => {
    c.globalAlpha = 0.24;
    c.fillStyle = color[f.color];
    c.fillRect(x0, y + 1, x1 - x0, row.height - 2);
    c.globalAlpha = 1;
    c.fillRect(x0, y + 1, Math.min(2.5, x1 - x0), row.height - 2);
    label(c, f.words, x0, x1, y + row.height / 2, color.text);
  });
}

function drawSession(c, row, y) {
  c.lineWidth = 1;
  eachSpan(row.given, (s, x0, x1) => {
    c.strokeStyle = color.session;
    c.strokeRect(x0 + 0.5, y + 0.5, Math.max(0.5, x1 - x0 - 1), row.height - 2);
  });
  c.fillStyle = color.session;
  eachSpan(row.held, (s, x0, x1) => c.fillRect(x0, y + 2.5, x1 - x0, row.height - 6));
}

function drawGiven(c, s, x0, x1, y, h) {
  c.globalAlpha = dimmed(s.chunk) ? 0.13 : 1;
  c.fillStyle = chunkWash(s.chunk);
  c.fillRect(x0, y, x1 - x0, h);
  if (x1 - x0 > 3) {
    const lease = s.lease;
    const held = lease.held[lease.held.length - 1];
    const from = held ? Math.max(x0, Math.min(x1, xOf(held.reach))) : x0;
    if (x1 - from > 2) hatch(c, from, y, x1, y + h, chunkColor(s.chunk));
    c.strokeStyle = chunkColor(s.chunk);
    c.lineWidth = 1;
    c.strokeRect(x0 + 0.5, y + 0.5, x1 - x0 - 1, h - 1);
    c.font = FONT;
    if (held && lease.gap !== null && lease.gap > 0 && x1 - from > 30) {
      const text = duration(lease.gap);
      const wide = c.measureText(text).width;
      if (x1 - from > wide + 8) {
        c.fillStyle = color.paper;
        c.fillRect((from + x1 - wide) / 2 - 3, y + h / 2 - 7, wide + 6, 14);
        c.fillStyle = color.text;
        c.fillText(text, (from + x1 - wide) / 2, y + h / 2 + 0.5);
      }
    }
  }
  c.globalAlpha = 1;
}

function drawHeld(c, s, x0, x1, y, h) {
  c.globalAlpha = dimmed(s.chunk) ? 0.13 : 1;
  c.fillStyle = chunkColor(s.chunk);
  c.fillRect(x0, y + 4, x1 - x0, h - 8);
  if (x1 - x0 > 24) {
    const moved = extensions.get(s.node + " " + s.chunk + " " + s.version);
    if (moved && moved.length < 4000 && x1 - x0 > moved.length * 3) {
      c.fillStyle = color.paper;
      for (const t of moved)
        if (t >= view.begin && t <= view.end && t < s.end) c.fillRect(xOf(t), y + h - 7, 1, 3);
    }
    c.font = BOLD;
    label(c, s.chunk + " v" + s.version, x0, x1, y + h / 2 + 0.5, color.paper);
  }
  // It acts, and the master thinks that nobody does (TIME-4).
  const free = s.lease.free;
  if (free !== null && s.reach > free) {
    c.fillStyle = color.bad;
    const from = Math.max(GUTTER, xOf(free));
    c.fillRect(from, y, Math.max(3, x1 - from), h);
  }
  c.globalAlpha = 1;
}

function drawLease(c, row, y) {
  const h = row.height - 4;
  eachSpan(row.given, (s, x0, x1) => drawGiven(c, s, x0, x1, y + 2, h));
  eachSpan(row.held, (s, x0, x1) => drawHeld(c, s, x0, x1, y + 2, h));
}

// Batches in each pixel, as a skyline.
function drawAppends(c, row, y) {
  const b = batches[row.node], from = lower(b.at, view.begin), to = lower(b.at, view.end);
  const base = y + row.height - 1;
  c.fillStyle = color.append;
  if (to - from < plotWidth() / 4) {
    for (let i = from; i < to; i++) {
      c.globalAlpha = dimmed(b.chunk[i]) ? 0.13 : 0.85;
      const high = Math.min(row.height - 2, 4 + 2 * (b.sum[i + 1] - b.sum[i]));
      c.fillRect(xOf(b.at[i]) - 1, base - high, 2, high);
    }
    c.globalAlpha = 1;
    return;
  }
  const wide = 2, sums = [];
  let most = 1;
  for (let x = 0, at = from; x < plotWidth(); x += wide) {
    const next = lower(b.at, timeAt(GUTTER + x + wide));
    sums.push(b.sum[next] - b.sum[at]);
    most = Math.max(most, sums[sums.length - 1]);
    at = next;
  }
  c.globalAlpha = view.chunk !== 0 ? 0.35 : 0.85;
  sums.forEach((n, k) => {
    const high = n === 0 ? 0 : Math.max(1.5, (row.height - 2) * n / most);
    c.fillRect(GUTTER + k * wide, base - high, wide, high);
  });
  c.globalAlpha = 1;
}

// ---- Transitions

function drawSaid(c, row, y, behind) {
  const list = row.list, from = lower(list.at, view.begin), to = lower(list.at, view.end);
  const middle = y + row.height / 2;
  c.fillStyle = color.line;
  c.fillRect(GUTTER, middle, plotWidth(), 1);
  if (to - from > plotWidth() * 1.5) {
    for (let x = 0, at = from; x < plotWidth(); x += 2) {
      const next = lower(list.at, timeAt(GUTTER + x + 2));
      if (next > at) {
        const high = Math.min(row.height - 2, 3 + 3 * Math.log2(next - at + 1));
        c.fillStyle = color.topics[said.topic[list.index[(at + next) >> 1]]];
        c.fillRect(GUTTER + x, middle - high / 2, 2, high);
      }
      at = next;
    }
    return;
  }
  for (let k = from; k < to; k++) {
    const i = list.index[k], x = xOf(list.at[k]);
    c.globalAlpha = dimmed(said.chunk[i]) ? 0.1 : view.hits && !view.hits.has(i) ? 0.22 : 1;
    c.fillStyle = color.topics[said.topic[i]];
    if (said.topic[i] === 0) { // a fault: a diamond
      c.beginPath();
      c.moveTo(x, middle - 6);
      c.lineTo(x + 5, middle);
      c.lineTo(x, middle + 6);
      c.lineTo(x - 5, middle);
      c.fill();
    } else {
      c.beginPath();
      c.arc(x, middle, 3.2, 0, 7);
      c.fill();
    }
    if (view.hits && view.hits.has(i) && !dimmed(said.chunk[i])) {
      c.strokeStyle = color.accent;
      c.lineWidth = 1.5;
      c.beginPath();
      c.arc(x, middle, 6.5, 0, 7);
      c.stroke();
    }
  }
  c.globalAlpha = 1;
  // Words where there is room for them.
  c.font = FONT;
  for (let k = from; k < to; k++) {
    const x = xOf(list.at[k]), room = (k + 1 < list.at.length ? xOf(list.at[k + 1]) : Infinity) - x;
    if (room > 90 && !dimmed(said.chunk[list.index[k]]))
      label(c, wordsOf(list.index[k]), x + 2, Math.min(x + room - 8, GUTTER + plotWidth()), middle,
        color.faint, behind);
  }
}

// ---- Messages

// Those that took at least `least` ns, and the lost ones.
function* arrowsInView(least) {
  for (const [list, reach] of [[arrows.quick, SLOW_ARROW], [arrows.slow, Infinity],
    [arrows.lost, 0]]) {
    if (list === arrows.quick && least > SLOW_ARROW) continue;
    for (let i = lower(list.sentAt, view.begin - reach); i < list.length; i++) {
      const a = list[i];
      if (a.sent > view.end) break;
      if (a.took < 0 || (a.took >= least && a.sent + a.took >= view.begin)) yield a;
    }
  }
}

function middleOf(node) {
  const lane = laneOf.get(node), row = lane.rows[lane.rows.length - 1];
  return yOf(lane) + row.y + row.height / 2;
}

// Where an arrow is drawn; one that did not arrive ends on its way.
function arrowLine(a) {
  const y0 = middleOf(a.from), y1 = middleOf(a.to);
  if (a.took >= 0)
    return {x0: xOf(a.sent), y0, x1: xOf(a.sent + a.took), y1};
  return {x0: xOf(a.sent), y0, x1: xOf(a.sent) + 14, y1: y0 + (y1 - y0) * 0.4};
}

let shownArrows = [];

function drawArrows(c) {
  shownArrows = [];
  if (!view.messages) return;
  // Upright ones would be a fence, and tell nothing.
  for (const a of arrowsInView(1.5 * (view.end - view.begin) / plotWidth())) {
    const routine = a.chunk === 0 && a.took >= 0 && view.end - view.begin > ROUTINE_WITHIN;
    if (dimmed(a.chunk) || routine) continue;
    shownArrows.push(a);
    if (shownArrows.length > ARROWS_MAX) {
      shownArrows = [];
      return;
    }
  }
  const roomy = shownArrows.length < 40;
  c.font = FONT;
  for (const a of shownArrows) {
    const l = arrowLine(a), lost = a.took === LOST;
    c.strokeStyle = c.fillStyle = lost ? color.bad : a.chunk !== 0 ? chunkColor(a.chunk)
      : color.faint;
    c.globalAlpha = lost || a.chunk !== 0 ? 0.85 : 0.45;
    c.lineWidth = 1.1;
    c.setLineDash(a.took < 0 ? [4, 3] : []);
    c.beginPath();
    c.moveTo(l.x0, l.y0);
    c.lineTo(l.x1, l.y1);
    c.stroke();
    c.setLineDash([]);
    const angle = Math.atan2(l.y1 - l.y0, l.x1 - l.x0);
    c.save();
    c.translate(l.x1, l.y1);
    c.rotate(angle);
    c.beginPath();
    if (lost) {
      c.moveTo(-4, -4);
      c.lineTo(4, 4);
      c.moveTo(-4, 4);
      c.lineTo(4, -4);
      c.stroke();
    } else {
      c.moveTo(0, 0);
      c.lineTo(-7, -3);
      c.lineTo(-7, 3);
      c.fill();
    }
    c.restore();
    if (roomy && Math.abs(l.y1 - l.y0) > 30 && Math.abs(l.x1 - l.x0) > 8) {
      const x = l.x0 + (l.x1 - l.x0) * 0.3, y = l.y0 + (l.y1 - l.y0) * 0.3;
      const text = a.name;
      c.globalAlpha = 0.9;
      const wide = c.measureText(text).width;
      c.fillStyle = color.paper;
      c.fillRect(x + 3, y - 6, wide + 4, 12);
      c.fillStyle = color.text;
      c.fillText(text, x + 5, y);
    }
  }
  c.globalAlpha = 1;
}

// ---- All of it

function laneColor(lane) { return lanes.indexOf(lane) % 2 === 0 ? color.lane : color.paper; }

function drawLane(c, lane, width) {
  const y = yOf(lane);
  c.fillStyle = laneColor(lane);
  c.fillRect(GUTTER, y, width - GUTTER, lane.height);
  eachSpan(lane.down, (s, x0, x1) => {
    c.globalAlpha = 0.35;
    hatch(c, x0, y, x1, y + lane.height, color.down);
    c.globalAlpha = 1;
  });
}

function drawRows(c, lane) {
  for (const row of lane.rows) {
    const y = yOf(lane) + row.y;
    if (row.kind === "fault" || row.kind === "lock") drawFault(c, row, y);
    else if (row.kind === "session") drawSession(c, row, y);
    else if (row.kind === "lease") drawLease(c, row, y);
    else if (row.kind === "append") drawAppends(c, row, y);
    else drawSaid(c, row, y, laneColor(lane));
  }
}

function drawOverlaps(c) {
  for (const o of overlaps) {
    if (o.end < view.begin || o.begin > view.end || dimmed(o.chunk)) continue;
    const tops = o.nodes.map((n) => yOf(laneOf.get(n)));
    const bottoms = o.nodes.map((n) => yOf(laneOf.get(n)) + laneOf.get(n).height);
    const x0 = xOf(o.begin), x1 = Math.max(x0 + 2, xOf(o.end));
    c.fillStyle = color["bad-wash"];
    c.fillRect(x0, Math.min(...tops), x1 - x0, Math.max(...bottoms) - Math.min(...tops));
  }
}

function verticalLine(c, t, height, style, dash) {
  const x = Math.round(xOf(t)) + 0.5;
  if (x < GUTTER || x > GUTTER + plotWidth()) return null;
  c.strokeStyle = style;
  c.lineWidth = 1;
  c.setLineDash(dash);
  c.beginPath();
  c.moveTo(x, AXIS);
  c.lineTo(x, height);
  c.stroke();
  c.setLineDash([]);
  return x;
}

function flag(c, text, x, style, width) {
  c.font = BOLD;
  const wide = c.measureText(text).width + 10;
  const from = Math.max(GUTTER, Math.min(x - wide / 2, width - wide));
  c.fillStyle = style;
  c.fillRect(from, 4, wide, AXIS - 8);
  c.fillStyle = color.paper;
  c.fillText(text, from + 5, AXIS / 2);
}

function drawGutter(c, lane) {
  const y = yOf(lane);
  c.strokeStyle = color.line;
  c.beginPath();
  c.moveTo(0, y + lane.height + 0.5);
  c.lineTo(lanesCanvas.clientWidth, y + lane.height + 0.5);
  c.stroke();
  c.font = BOLD;
  c.fillStyle = color.text;
  c.fillText(lane.name, 12, y + lane.height / 2 - (lane.kind === "world" ? 0 : 6));
  if (lane.kind === "world") return;
  c.font = FONT;
  c.fillStyle = color.faint;
  c.fillText({master: "master", server: "chunkserver", client: "client"}[lane.kind], 12,
    y + lane.height / 2 + 8);
}

// What lies beyond the run's end is what was promised by then.
function drawFuture(c, height, width) {
  const x = Math.max(GUTTER, xOf(RUN.end));
  if (x >= width) return;
  c.globalAlpha = 0.55;
  c.fillStyle = color.paper;
  c.fillRect(x, AXIS, width - x, height);
  c.globalAlpha = 1;
  c.fillStyle = color.faint;
  c.font = FONT;
  if (width - x > 150) c.fillText("not run: what was promised", x + 8, height - 12);
}

function drawMeasure(c, height, width) {
  const m = view.measure;
  if (!m) return;
  const x0 = xOf(Math.min(m.from, m.to)), x1 = xOf(Math.max(m.from, m.to));
  c.fillStyle = color.select;
  c.fillRect(x0, AXIS, x1 - x0, height);
  flag(c, duration(Math.abs(m.to - m.from)), (x0 + x1) / 2, color.accent, width);
}

function drawLanes() {
  const {c, width, height} = fitCanvas(lanesCanvas);
  c.save();
  c.beginPath();
  c.rect(0, AXIS, width, height);
  c.clip();
  const seen = lanes.filter((l) => yOf(l) + l.height > AXIS && yOf(l) < height);
  seen.forEach((l) => drawLane(c, l, width));
  c.restore();
  drawAxis(c, width, height);
  c.save();
  c.beginPath();
  c.rect(GUTTER, AXIS, width - GUTTER, height);
  c.clip();
  drawOverlaps(c);
  seen.forEach((l) => drawRows(c, l));
  drawFuture(c, height, width);
  drawArrows(c);
  c.restore();
  c.save();
  c.beginPath();
  c.rect(0, AXIS, width, height);
  c.clip();
  seen.forEach((l) => drawGutter(c, l));
  c.restore();
  drawMeasure(c, height, width);
  if (view.picked >= 0) verticalLine(c, said.at[view.picked], height, color.accent, []);
  if (RUN.failure) {
    const x = verticalLine(c, RUN.failure.at, height, color.bad, []);
    if (x !== null) flag(c, RUN.failure.rule, x, color.bad, width);
  }
  if (view.pointer && view.pointer.x > GUTTER && !view.measure) {
    verticalLine(c, timeAt(view.pointer.x), height, color.faint, [2, 3]);
    const digits = view.end - view.begin < 5e6 ? 6 : 3;
    flag(c, ms(timeAt(view.pointer.x), digits) + " ms", view.pointer.x, color.faint, width);
  }
}

// The whole run: how much was said, what was broken when, and where we are.
function drawOverview() {
  const {c, width, height} = fitCanvas(overviewCanvas);
  const x = (t) => t / FULL * width;
  c.fillStyle = color.lane;
  c.fillRect(0, 0, width, height);
  c.globalAlpha = 0.5;
  for (const lane of lanes)
    for (const row of lane.rows.filter((r) => r.kind === "fault"))
      for (const f of row.items) {
        c.fillStyle = color[f.color];
        c.fillRect(x(f.begin), 3, Math.max(1, x(f.end) - x(f.begin)), 4);
      }
  c.globalAlpha = 1;
  const wide = 2, sums = [];
  for (let k = 0, at = 0; k < width; k += wide) {
    const next = lower(said.at, (k + wide) / width * FULL);
    sums.push(next - at);
    at = next;
  }
  const most = Math.max(1, ...sums);
  c.fillStyle = color.faint;
  sums.forEach((n, k) => {
    const high = n === 0 ? 0 : 2 + (height - 16) * Math.log2(1 + n) / Math.log2(1 + most);
    c.fillRect(k * wide, height - high, wide, high);
  });
  if (view.hits) {
    c.fillStyle = color.accent;
    for (const i of view.hits) c.fillRect(x(said.at[i]) - 0.5, 8, 2, height - 8);
  }
  if (RUN.failure) {
    c.fillStyle = color.bad;
    c.fillRect(x(RUN.failure.at) - 1, 0, 2, height);
  }
  const x0 = x(view.begin), x1 = Math.max(x0 + 3, x(view.end));
  c.fillStyle = color.select;
  c.fillRect(x0, 0, x1 - x0, height);
  c.strokeStyle = color.accent;
  c.strokeRect(x0 + 0.5, 0.5, x1 - x0 - 1, height - 1);
}
