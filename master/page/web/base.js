// What every view uses: elements, updates in place, calls of the API, and numbers in words.

// An element: h("a.class", {href: "#/"}, child, ...). A child is an element, a text, or nothing.
export function h(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  const svg = ["svg", "path"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  if (classes.length > 0) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    // Not as an attribute: the page's policy allows no inline style.
    if (name === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else if (name.startsWith("on")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((c) => c !== undefined && c !== null && c !== false));
  return element;
}

// Makes `old` look like `wanted`, and keeps the elements that are there: focus, selection and what
// is typed survive an update. Children with a data-key stay the same across positions.
export function update(old, wanted) {
  for (const { name } of [...old.attributes])
    if (name !== "style" && !wanted.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of wanted.attributes)
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.style.cssText !== wanted.style.cssText) old.style.cssText = wanted.style.cssText;
  for (const event of ["onclick", "oninput", "onchange", "onsubmit"])
    if (old[event] !== wanted[event]) old[event] = wanted[event];
  updateChildren(old, [...wanted.childNodes]);
}

function keyOf(node) {
  return node.nodeType === 1 ? node.dataset.key : undefined;
}

function updateChildren(old, wanted) {
  const kept = new Map();
  for (const child of old.childNodes) if (keyOf(child)) kept.set(keyOf(child), child);
  let at = old.firstChild;
  for (const child of wanted) {
    const key = keyOf(child);
    let match = key ? kept.get(key) : at;
    if (match && (match.nodeName !== child.nodeName || keyOf(match) !== key)) match = undefined;
    if (!match) {
      old.insertBefore(child, at);
      continue;
    }
    if (match !== at) old.insertBefore(match, at);
    else at = at.nextSibling;
    if (match.nodeType === 1) update(match, child);
    else if (match.data !== child.data) match.data = child.data;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const CALL_MS = 8000; // more than the master's own limit

// A call of the API. Throws an Error with `code`, the name of the error.
export async function call(name, parameters = {}) {
  const query = Object.entries(parameters).filter(([, v]) => v !== "" && v !== undefined)
    .map(([k, v]) => `${k}=${encodeURIComponent(v)}`).join("&");
  let answer;
  try {
    const response = await fetch(`api/${name}${query && "?" + query}`,
      { signal: AbortSignal.timeout(CALL_MS) });
    answer = await response.json();
  } catch {
    throw Object.assign(new Error("This master does not answer."), { code: "UNREACHABLE" });
  }
  if (answer.error !== "OK") throw Object.assign(new Error(answer.error_text), { code: answer.error });
  return answer;
}

// ---- Numbers in words.

export const number = (n) => Number(n).toLocaleString("en");
export const plural = (n, one, many = one + "s") => `${number(n)} ${Number(n) === 1 ? one : many}`;

export function bytes(n) {
  n = Number(n);
  if (n < 1000) return `${n} B`;
  const power = Math.min(5, Math.floor(Math.log10(n) / 3));
  const scaled = n / 1000 ** power;
  return `${scaled.toFixed(scaled < 9.95 ? 1 : 0)} ${" kMGTP"[power]}B`;
}

export function duration(ms) {
  ms = Number(ms);
  if (ms < 995) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 59.95) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}
export const ago = (ms) => `${duration(ms)} ago`;
export const date = (unixMs) => Number(unixMs) === 0 ? ""
  : new Date(Number(unixMs)).toISOString().slice(0, 19).replace("T", " ") + " UTC";

// A token: the reign, and a counter in it.
export function token(n) {
  const value = BigInt(n);
  return `${value >> 40n}.${value & ((1n << 40n) - 1n)}`;
}
export const hex = (base64) => [...atob(base64)]
  .map((c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join("");
// A route's part that is a path or a name: its slashes stay readable.
export const escaped = (text) => encodeURIComponent(text).replaceAll("%2F", "/");

export const fileLink = (path) => h("a", { href: "#/file" + escaped(path) }, path);
export const nameLink = (name) => h("a", { href: "#/name" + escaped(name) }, name);
export const chunkLink = (chunk) => h("a", { href: `#/chunk/${chunk}` }, `chunk ${chunk}`);
export const serverLink = (id) => h("a", { href: "#/server/" + escaped(id) }, id);

// A state in one word, with a color that repeats it.
export const badge = (word, tone = "") => h("span.badge" + (tone && "." + tone), {}, word);

// Facts beside their names; those without a value are left out.
export const facts = (...pairs) => h("dl.facts", {}, pairs.filter(([, v]) => v || v === 0)
  .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

// A table; a column is [heading, cell(item), class]. On a phone each row is a card.
export function table(caption, columns, items, key) {
  const cls = (c) => (c[2] ? "." + c[2] : "");
  return h("table", {}, h("caption.unseen", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((c) => h("th" + cls(c), { scope: "col" }, c[0])))),
    h("tbody", {}, items.map((item) => h("tr", { "data-key": key(item) },
      columns.map((c, i) => h((i === 0 ? "th" : "td") + cls(c),
        { "data-label": c[0], scope: i === 0 ? "row" : undefined }, c[1](item)))))));
}

export const sentences = (list) => h("ul.sentences", {}, list.map((s) => h("li", {}, s)));
export const empty = (text) => h("p.quiet", {}, text);
