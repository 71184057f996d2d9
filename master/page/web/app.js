// Which view is shown, and when it is drawn again.
import { call, h, update } from "./base.js";
import { SILENT_MS, check, follow, live } from "./live.js";
import * as views from "./views.js";

// Each view: load() gets what it shows, draw(loaded) makes elements of it; every: seconds.
const ROUTES = [
  ["/", views.cluster], ["/servers", views.servers], ["/files", views.files],
  ["/leases", views.leases], ["/names", views.names], ["/sessions", views.sessions],
  ["/server/", views.server], ["/file/", views.file], ["/chunk/", views.chunk],
  ["/name/", views.name],
];

const main = document.getElementById("main");
const status = document.getElementById("status");
let shown = null; // {view, at, query, loaded, error, age, loading}

function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// "#/name/jobs/compact?x=1" is the name "/jobs/compact"; of servers and chunks the rest is the id.
function parse(hash) {
  const [path, query = ""] = hash.slice(1).split("?", 2);
  const found = ROUTES.find(([route]) => route === (path || "/")) ??
    ROUTES.find(([route]) => route.length > 1 && route.endsWith("/") && path.startsWith(route));
  if (!found) return { view: views.nothing, at: path, query: {} };
  const [route, view] = found;
  const rest = unescaped(path.slice(route.length));
  const at = route === "/file/" || route === "/name/" ? "/" + rest : rest;
  return { view, at, query: Object.fromEntries(new URLSearchParams(query)) };
}

function drawn(view, loaded, at, query) {
  try {
    return view.draw(loaded, at, query, draw);
  } catch (error) {
    console.error(error);
    return views.failed({ code: "NOT_DRAWN", message: `The page cannot show this answer: ${error.message}` });
  }
}

function draw() {
  const { view, at, query, loaded, error } = shown;
  let content;
  if (loaded) content = drawn(view, loaded, at, query);
  else if (error) content = views.failed(error);
  else content = h("div", {}, h("p.quiet", {}, "Loading…"));
  const wanted = h("main", { id: "main", tabindex: "-1", "aria-busy": loaded || error ? null : "true" },
    loaded && error && h("p.note.bad", {}, error.message), content);
  update(main, wanted);
  document.title = `${view.title(at)} · Leasehold`;
}

async function load() {
  const s = shown;
  if (s.loading) return;
  s.loading = true;
  try {
    const loaded = await s.view.load(call, s.at, s.query);
    Object.assign(s, { loaded, error: null });
  } catch (error) {
    s.error = error;
    if (error.code === "NOT_ACTIVE") error.page = await views.activePage(call).catch(() => undefined);
    if (error.code === "NOT_FOUND" || error.code === "NOT_ACTIVE") s.loaded = null;
  }
  s.loading = false;
  s.age = 0;
  if (s === shown) draw();
}

function show() {
  const first = shown === null;
  shown = { ...parse(location.hash), loaded: null, error: null, age: 0, loading: false };
  const top = "#" + (location.hash.slice(1).split(/[?]/)[0] || "/");
  for (const link of document.querySelectorAll("nav a")) {
    const href = link.getAttribute("href");
    const current = href === (top.startsWith("#/chunk/") ? "#/files" : top) || (href.length > 2 && top.startsWith(href.slice(0, -1) + "/"));
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (current) link.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  load();
  if (first) return;
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
}

// What the master says of itself; only a change is written, so that it is read out once.
function drawStatus() {
  if (document.hidden) return;
  const late = live.heard && performance.now() - live.asked > SILENT_MS;
  const [tone, words] = !live.connected
    ? ["bad", late ? "No answer from this master; what is shown is of before" : "Connecting…"]
    : live.ready ? ["good", "live"] : ["warn", live.why];
  const wanted = h("p", { id: "status", role: "status", class: tone }, words);
  update(status, wanted);
}

function tick() {
  check();
  drawStatus();
  if (document.hidden || !shown) return;
  shown.age++;
  if (shown.age >= shown.view.every || shown.error) load();
  else if (shown.loaded && shown.view.live) draw();
}

addEventListener("hashchange", show);
main.addEventListener("again", draw);
addEventListener("visibilitychange", () => !document.hidden && shown && load());
document.querySelector(".skip").onclick = (event) => {
  event.preventDefault(); // the address keeps what is shown
  main.focus();
};
show();
follow(drawStatus);
setInterval(tick, 1000);
