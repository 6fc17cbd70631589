// The frame: who is signed in, which view, keys, theme, what is new.

import * as api from "./api.js";
import { brand } from "./brand.js";
import { $, $$, fill, h, s } from "./dom.js";
import { dialog, failed, key, say } from "./parts.js";
import { called, capital, count, spaceName, straight } from "./words.js";

const NAV = [
  ["search", "Search", "M11 11l4 4M12 7A5 5 0 1 1 2 7a5 5 0 0 1 10 0z"],
  ["review", "Review", "M2 4h12M2 8h7M2 12h5M10 12l2 2 3-4"],
  ["learning", "Learning", "M2 14V9M7 14V5M12 14V2"],
  ["sessions", "Sessions", "M3 3v10M3 4h10M3 8h7M3 12h9"],
  ["work", "Work", "M8 2v3M8 11v3M2 8h3M11 8h3M4 4l2 2M10 10l2 2M12 4l-2 2M6 10l-2 2"],
  ["agents", "Agents", "M4 6h8v7H4zM8 6V3M6 9v1M10 9v1"],
  ["peers", "Peers", "M4 6a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM12 14a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM12 6a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM6 4h4M12 6v4M5.5 5.5l5 5"],
  ["settings", "Settings", "M2 5h7M13 5h1M2 11h1M7 11h7M11 3v4M5 9v4"],
];
const VIEWS = new Set(["memory", ...NAV.map(([view]) => view)]);
const GO = { s: "search", r: "review", l: "learning", e: "sessions", w: "work", a: "agents", p: "peers", t: "settings" };
const RIGHTS = ["read", "write", "admin"];
const SLOW = 200;
const MOST = 100; // Waiting things are counted to here.

let session = null;
let spaces = [];
let shown = null; // What the view on the screen answered: {nodes, keys, live, state, …}.
let missed = null; // What was told while a view was made, which may have asked before.
let leaving = null; // Aborts what that view still waits for.
let undo = null; // What `u` takes back, and in which workspace: {back, where}.
let stream = null;

// ---- Where we are

function route() {
  const [, view, id] = location.pathname.split("/");
  const known = VIEWS.has(view) && (id || view !== "memory");
  return { view: known ? view : "search", id: id && decoded(id), params: new URLSearchParams(location.search) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // Cut off in the middle of a letter: it is the id of nothing.
  }
}

function go(address) {
  shown?.leave?.();
  history.pushState(null, "", address);
  arrive();
}

/** An address of this page that can be shared: it names the workspace, if there are several. */
function link(path, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  if (api.chosen() && spaces.length > 1) query.set("workspace", api.chosen());
  return `/${path}${query.size ? `?${query}` : ""}`;
}

/** The address names the workspace that it shows, so that it shows the same to whoever gets it. */
function nameSpace() {
  const query = new URLSearchParams(location.search);
  if (!api.chosen() || spaces.length < 2 || query.has("workspace")) return;
  query.set("workspace", api.chosen());
  history.replaceState(history.state, "", `${location.pathname}?${query}`);
}

const may = (right) => RIGHTS.indexOf(session.right) >= RIGHTS.indexOf(right);

/** Something was done; `back` takes it back. */
function done(text, back = null) {
  undo = back && { back, where: api.chosen() };
  say(back ? `${text}. Undo with u` : text);
  refreshCounts();
}

async function draw({ keep = false } = {}) {
  leaving?.abort();
  const mine = leaving = new AbortController();
  const where = route();
  const page = {
    ...where, link, may, go, done, session, spaces, signal: mine.signal,
    redraw: () => draw({ keep: true }), signOut,
    space: (id) => spaces.find((one) => one.id === id),
  };
  const came = missed = [];
  nav(where.view);
  const main = $("#main");
  const slow = h("div.slow", { role: "progressbar", "aria-label": "Loading" });
  const waiting = setTimeout(() => document.body.append(slow), SLOW);
  let found;
  try {
    const view = await load(where.view);
    found = await view.show(page);
  } catch (error) {
    if (mine.signal.aborted || error.status === 401) return;
    found = { nodes: failed(error), title: "ReasonBank" };
  } finally {
    clearTimeout(waiting);
    slow.remove();
  }
  if (mine.signal.aborted) return;
  const before = keep ? shown : null;
  shown = found;
  const scrolled = scrollY;
  const back = keep ? inPlace(main) : null;
  fill(main, found.nodes);
  // What was selected there and being read: until now, and not until it was asked for anew.
  if (before?.state) found.resume?.(before.state);
  document.title = `${found.title ?? $("h1", main)?.textContent.slice(0, 60) ?? ""} · ReasonBank`;
  missed = null;
  for (const event of came) event.what === "many" ? found.many?.() : found.live?.(event);
  if (keep) {
    scrollTo(0, scrolled);
    back();
  }
  else {
    scrollTo(0, 0);
    seeCurrent();
    if (found.focus) found.focus();
    else main.focus({ preventScroll: true });
  }
}

const load = (view) => import(`./views/${view}.js`).catch((error) => {
  throw error instanceof TypeError ? new api.Unreachable() : error;
});

const FOCUSED = "a[href], button, input, select, textarea, summary, [tabindex]";

/** What was drawn anew under somebody's hands is where it was: the focus, and how far a list was
 * scrolled. */
function inPlace(main) {
  const all = $$(FOCUSED, main), at = all.indexOf(document.activeElement), lists = $$(".split > ol", main).map((list) => list.scrollTop);
  return () => {
    $$(".split > ol", main).forEach((list, i) => { list.scrollTop = lists[i] ?? 0; });
    if (at < 0) return;
    const found = $$(FOCUSED, main)[at];
    (found?.tagName === all[at].tagName ? found : main).focus({ preventScroll: true });
  };
}

// ---- The frame

function nav(view) {
  const now = view === "memory" ? "search" : view;
  fill($("#nav"), NAV.map(([name, title, path]) =>
    h("li", h("a", { href: link(name), "aria-current": name === now && "page" },
      s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: path })), title,
      h("span.count", { id: `count-${name}`, hidden: true })))));
  showCounts();
}

let counts = {};
function showCounts() {
  let moved = false;
  for (const [name, number] of Object.entries(counts)) {
    const place = $(`#count-${name}`);
    if (!place) continue;
    moved ||= place.hidden !== !number;
    place.hidden = !number;
    place.classList.toggle("due", name === "review");
    fill(place, number < MOST ? count(number) : `${MOST - 1}+`, h("span.sr", " waiting"));
  }
  if (moved) seeCurrent();
}

/** On a narrow screen the views are a row that scrolls, and a number beside one moves the others. */
const seeCurrent = () => $("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

async function waiting() {
  const [review, doubted, work] = await Promise.all([
    api.get("/review", { limit: MOST }), api.get("/browse", { trust: "doubted", limit: MOST }), api.get("/work")]);
  // What Review lists.
  const ids = new Set([...review, ...doubted.memories].map((one) => one.id));
  return { review: ids.size, work: work.queue.waiting + work.queue.running + work.queue.dead };
}

let counting = null;
/** Once for many events: the numbers beside Review and Work. */
function refreshCounts() {
  clearTimeout(counting);
  counting = setTimeout(async () => {
    if (!session) return;
    try {
      counts = await waiting();
      showCounts();
    } catch { /* They come with the next event. */ }
  }, 150);
}

const darkNow = () =>
  (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function switchTheme(event) {
  const theme = darkNow() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("reasonbank-theme", theme); } catch { /* No storage. */ }
  fill(event.currentTarget, darkNow() ? "Light" : "Dark");
}

function chooser() {
  const choice = h("select.sel", {
    id: "space",
    onchange: (event) => {
      api.choose(event.target.value);
      go(link(route().view === "memory" ? "search" : route().view));
      refreshCounts();
    },
  }, options());
  return h("label.space", h("span.sr", "Workspace"), choice);
}

/** Workspaces that began since, or are called otherwise: the chooser has them, too. */
function heard({ what, workspace }) {
  const fresh = workspace && !met.has(workspace) && !spaces.some((one) => one.id === workspace);
  if (!fresh && !what.startsWith("workspace.")) return;
  met.add(workspace);
  clearTimeout(meeting);
  meeting = setTimeout(meet, 150);
}

const met = new Set(); // Of some there is nothing to see: another bank shares them.
let meeting = null;
async function meet() {
  const now = await api.session().catch(() => null);
  if (!session || !now?.signed_in) return;
  const first = !api.chosen() && now.workspaces.length > 0;
  // The same list: the view that is on the screen has it.
  spaces.splice(0, spaces.length, ...now.workspaces);
  if (first) api.choose(now.workspaces.find((one) => one.id === now.workspace)?.id ?? spaces[0].id);
  if ($("#space")) fill($("#space"), options());
  else if (spaces.length) $(".brand").after(chooser());
  nav(route().view);
  nameSpace();
  if (!first) return;
  refreshCounts();
  draw({ keep: true });
}

const options = () => called(spaces).map(([id, name]) => h("option", { value: id, selected: id === api.chosen() }, name));

function frame() {
  const who = !session.needed ? "No sign-in is needed here" : `Signed in as ${straight(session.name)}`;
  const right = { read: "may read", write: "may read and write", admin: "may do everything" }[session.right];
  fill($("#app"), h("div.app",
    h("header.side",
      h("a.brand", { href: link("search"), "aria-label": "ReasonBank, home" }, brand()),
      spaces.length > 0 && chooser(),
      h("nav.nav", { "aria-label": "Views" }, h("ul", { id: "nav" })),
      h("div.foot",
        h("span.live.soon", { id: "live", role: "status" }, "Connecting…"),
        h("span", `${who}; you ${right}. `, session.needed && h("button.more", { type: "button", onclick: signOut }, "Sign out")),
        h("div.btns",
          h("button.btn", { type: "button", id: "theme", "aria-label": "Switch between light and dark", onclick: switchTheme }, darkNow() ? "Light" : "Dark"),
          h("button.btn.keys", { type: "button", onclick: help }, "Keys", key("?"))))),
    h("main", { id: "main", tabindex: -1 })));
}

const HELP = [
  [["/"], "Search"],
  [["j", "k"], "Next, previous"],
  [["Enter"], "Open"],
  [["e"], "Explain the score; on a memory and in Review, edit"],
  [["+", "-"], "Rate a memory: it helped, it did not"],
  [["a", "r", "x", "X"], "Review: accept, reject, select one, all"],
  [["u"], "Undo the last thing you did"],
  [["n"], "Record a lesson"],
  [["g", "then", "s", "r", "l"], "Go to Search, Review, Learning; also e sessions, w work, a agents, p peers, t settings"],
];

function help() {
  dialog("Keys", [
    h("dl", HELP.map(([names, text]) => [
      h("dt", names.map((name) => [name === "then" ? " then " : h("kbd", name), " "])), h("dd", text)])),
    h("form.acts", { method: "dialog" }, h("button.btn", "Close", key("Esc")))]);
}

// ---- Keys

let going = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !session || $("dialog[open]")) return;
  const pressed = event.key;
  // A key that is held down moves on; it does not do the same to one after another.
  if (event.repeat && !["j", "k"].includes(pressed)) return;
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) {
    if (pressed === "Escape") event.target.blur();
    return;
  }
  if (going) {
    going = false;
    if (GO[pressed]) go(link(GO[pressed]));
    return;
  }
  const onControl = event.target.closest("a, button, summary, input");
  if (pressed === "Enter" && onControl) return;
  const act = {
    "/": () => ($("#q") ? $("#q").select() : go(link("search", { ask: 1 }))),
    "?": help,
    g: () => { going = true; },
    u: takeBack,
    n: () => may("write") && import("./record.js").then(({ record }) => record({ link, go, done })),
    ...shown?.keys,
  }[pressed];
  if (!act) return;
  event.preventDefault();
  act();
});

async function takeBack() {
  if (!undo) return say("There is nothing to undo");
  const { back, where } = undo, place = spaces.find((one) => one.id === where);
  if (where !== api.chosen() && place) return say(`That was in ${spaceName(place)}: choose it, and u takes it back`);
  undo = null;
  try {
    await back();
    say("Undone");
    draw({ keep: true });
    refreshCounts();
  } catch (error) {
    say(capital(error.message));
  }
}

// ---- What is new

function connect() {
  stream?.close();
  stream = api.events({
    // From before the first view asked for anything, so that nothing falls in between.
    after: session.seq,
    told: (event) => {
      heard(event);
      if (api.isHere(event)) refreshCounts();
      if (missed) missed.push(event);
      else shown?.live?.(event);
    },
    state: (up) => {
      // Of a view, or of a part of one, which could not be asked for.
      if (up && shown && $("#main .away")) draw({ keep: true });
      const place = $("#live");
      if (!place) return;
      place.classList.remove("soon");
      place.classList.toggle("lost", !up);
      fill(place, up ? "Live, changes appear by themselves" : "Not connected, trying again");
    },
    // Too much was missed to be told one by one.
    many: () => {
      meet();
      refreshCounts();
      if (missed) missed.push({ what: "many" });
      else if (shown?.many) shown.many();
      else draw({ keep: true });
    },
  });
}

// ---- Coming in

async function signIn(problem) {
  stream?.close();
  leaving?.abort();
  session = shown = undo = null;
  for (const open of $$("dialog[open]")) open.close();
  const { door } = await import("./views/door.js");
  fill($("#app"), door(problem, start));
  document.title = "Sign in · ReasonBank";
  $("#app input")?.focus();
}

async function signOut() {
  await api.signOut().catch(() => {});
  signIn();
}

/** An address with a code that is opened where the page is already loads nothing anew. */
const codeShown = () => new URLSearchParams(location.hash.slice(1)).get("code");

async function start() {
  let problem;
  const code = codeShown();
  if (code) {
    // Out of the address first: it works once, and nobody should share it.
    history.replaceState(null, "", location.pathname + location.search);
    try {
      await api.signIn({ code });
    } catch (error) {
      problem = `${capital(error.message)}.`;
    }
  }
  try {
    session = await api.session();
  } catch (error) {
    return fill($("#app"), h("main", failed(error)));
  }
  if (!session.signed_in) return signIn(problem);
  spaces = session.workspaces;
  const wanted = [route().params.get("workspace"), api.remembered(), session.workspace];
  api.choose(wanted.find((id) => spaces.some((one) => one.id === id)) ?? spaces[0]?.id ?? null);
  const elsewhere = outOfReach(wanted[0]);
  nameSpace();
  frame();
  connect();
  refreshCounts();
  await draw();
  if (problem) say(problem);
  else if (elsewhere) say(elsewhere);
  // From here on every view is there, even while the server is not.
  for (const view of VIEWS) load(view).catch(() => {});
}

/** Whoever follows a link should know when it shows something else than it names. */
const outOfReach = (wanted) =>
  wanted && spaces.length > 0 && !spaces.some((one) => one.id === wanted)
  && `Nothing is known in the workspace of this address, or you may not see it. This is ${spaceName(spaces.find((one) => one.id === api.chosen()))}`;

/** The address has changed: perhaps the workspace, surely the view. */
function arrive() {
  if (!session) return;
  const wanted = route().params.get("workspace");
  if (wanted && wanted !== api.chosen() && spaces.some((one) => one.id === wanted)) {
    api.choose(wanted);
    $("#space").value = wanted;
    refreshCounts();
  }
  draw().then(() => outOfReach(wanted) && say(outOfReach(wanted)));
}

addEventListener("popstate", () => (codeShown() ? start() : arrive()));
api.whenSignedOut(() => session && signIn("You were signed out. Come in again to go on."));
// Links within the page change the view; with a modifier they open a tab as ever.
document.addEventListener("click", (event) => {
  const target = event.target.closest?.("a[href]");
  if (!target || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const address = new URL(target.getAttribute("href"), location.href);
  if (address.origin !== location.origin || target.hasAttribute("download")) return;
  event.preventDefault();
  if (target.classList.contains("skip")) $("#main")?.focus();
  else go(address.pathname + address.search);
});
start();
