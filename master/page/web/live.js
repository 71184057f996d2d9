// The figures of the master, each second, and whether it is there.

const KEPT = 120; // seconds
export const SILENT_MS = 3000; // it is taken for not connected

export const live = {
  samples: [],     // {at, figures}: the newest last
  ready: true,
  why: "",
  heard: 0,        // when the last one came, as of performance.now()
  asked: 0,        // when the page began to follow, or was shown again
  connected: false,
};

// The newest value of a figure.
export const figure = (name) => live.samples.at(-1)?.figures[name];

// Of a counter: by how much it rose in each second. A master that was started again begins at 0.
export function rates(name) {
  const values = [];
  for (let i = 1; i < live.samples.length; i++) {
    const [a, b] = [live.samples[i - 1], live.samples[i]];
    const rose = (b.figures[name] ?? 0) - (a.figures[name] ?? 0);
    values.push(Math.max(0, rose) * 1000 / Math.max(20, b.at - a.at)); // some come together, late
  }
  return values;
}

// A source that is closed, or silent, for so long is replaced.
const CLOSED_MS = 3000, STALE_MS = 10e3;
let source = null;
let opened = 0;  // when `source` was
let changed = () => {};

function open() {
  source?.close();
  opened = performance.now();
  const mine = source = new EventSource("api/live");
  source.onmessage = (event) => {
    if (mine !== source) return;
    const frame = JSON.parse(event.data);
    const now = performance.now();
    live.samples.push({ at: now, figures: frame.figures });
    if (live.samples.length > KEPT) live.samples.shift();
    Object.assign(live, { ready: frame.ready, why: frame.why, heard: now, connected: true });
    changed();
  };
  source.onerror = () => { // it may try again by itself
    if (mine !== source) return;
    live.connected = false;
    changed();
  };
}

// Once a second: a connection to a master that hangs, or across a cut network, reports no error.
export function check() {
  const now = performance.now();
  if (now - live.heard > SILENT_MS) live.connected = false;
  if (!source) return;
  const patience = source.readyState === EventSource.CLOSED ? CLOSED_MS : STALE_MS;
  if (now - Math.max(opened, live.heard) > patience) open();
}

// A hidden page follows nothing: browsers have six connections to one origin for all its pages.
function show() {
  if (document.hidden) {
    source?.close();
    source = null;
    return;
  }
  live.asked = performance.now();
  open();
  check();
  changed();
}

export function follow(then) {
  changed = then;
  addEventListener("visibilitychange", show);
  show();
}
