// The figures of the master, each second, and whether it is there.

const KEPT = 120; // seconds

export const live = {
  samples: [],     // {at, figures}: the newest last
  ready: true,
  why: "",
  heard: 0,        // when the last one came
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

export function follow(changed) {
  const source = new EventSource("api/live");
  source.onmessage = (event) => {
    const frame = JSON.parse(event.data);
    live.samples.push({ at: performance.now(), figures: frame.figures });
    if (live.samples.length > KEPT) live.samples.shift();
    Object.assign(live, { ready: frame.ready, why: frame.why, heard: Date.now(), connected: true });
    changed();
  };
  source.onerror = () => {
    live.connected = false;
    changed();
    if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
    setTimeout(() => follow(changed), 3000);
  };
}
