// Search as you type; without a question, what is known here.

import * as api from "../api.js";
import { range, scoreBar, span, strip } from "../charts.js";
import { $, $$, fill, h, s } from "../dom.js";
import { button, command, failed, head, key, kind, marks, memoryLink, trustRow, warningBox, why } from "../parts.js";
import { record } from "../record.js";
import { TRUST, capital, count, fixed, percent, plural, points, short, tagged, when, writer } from "../words.js";

const HITS = 12;
const NEAR = 3;
const ALL = 100; // What trust leaves out is left out here: so many are asked for then.
const PAGE = 40;
const AGAIN = 160; // A page of rows, when one comes back to where one was.
const MOST = 1600;
const WRITING = 250; // Milliseconds between two addresses while one types.
const SORTS = { used: "most used first", newest: "newest first", trust: "most trusted first", doubt: "most doubted first" };

export async function show(page) {
  const state = {
    q: page.params.get("q") ?? "", at: 0, open: null, rows: [], fresh: 0, left: { at: 0, rows: 0, ...history.state },
    sort: page.params.get("sort") ?? "used",
    filter: Object.fromEntries(FILTERS.map(({ name }) => [name, page.params.get(name) ?? ""])),
  };
  const results = h("div", {
    id: "results", "aria-live": "polite", "aria-busy": "false",
    onclick: (event) => { state.at = Number(event.target.closest(".hit")?.dataset.i ?? state.at); },
  });
  const rail = h("aside.rail", { "aria-label": "Help with reading" });
  const view = { page, state, results, rail, weights: {} };
  const counted = api.get("/overview", {}, page.signal).then((overview) => { view.overview = overview; });
  const input = h("input", {
    id: "q", type: "search", autocomplete: "off", spellcheck: "false", maxlength: 20000, value: state.q,
    placeholder: "Describe a task or paste an error, as an agent would", dir: "auto",
    oninput: () => {
      state.q = input.value;
      state.at = 0;
      state.open = null;
      state.all = false;
      answer(view);
    },
    // Not the Enter that ends a word of Chinese, Japanese or Korean.
    onkeydown: (event) => event.key === "Enter" && !event.isComposing && enter(view),
  });
  await Promise.all([counted, answer(view, counted)]);
  const { overview } = view;
  if (!overview.known && !state.q && !Object.values(overview.trust).some(Boolean)) return { nodes: first(page), live: (event) => event.what === "memory.recorded" && page.redraw(), many: page.redraw };
  worth(view);
  return {
    title: state.q ? short(state.q, 60) : "Search",
    nodes: [
      h("div.know", { id: "know" }, know(view)),
      h("div.cols",
        h("div",
          h("div.ask", { role: "search" },
            s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("circle", { cx: 7, cy: 7, r: 5 }), s("path", { d: "M11 11l4 4" })),
            h("label.sr", { for: "q" }, "Ask what is known"), input, key("/")),
          h("div.filters", { role: "group", "aria-label": "Filters" }, filters(view)),
          h("div", { id: "new" }),
          results),
        rail)],
    focus: page.params.has("ask") ? () => input.focus() : state.left.at ? () => back(view) : undefined,
    leave: () => leave(view),
    keys: {
      j: () => move(view, 1),
      k: () => move(view, -1),
      e: () => explain(view, state.at),
      Enter: () => enter(view),
    },
    live: (event) => live(view, event),
    many: () => {
      view.state.fresh = null;
      grown(view);
    },
  };
}

// ---- What is known

function know({ page, overview, worthOf }) {
  const groups = Object.entries(TRUST)
    .map(([trust, { name, tint }]) => ({ trust, name, tint, count: overview.trust[trust] ?? 0 }))
    .filter((group) => group.count && group.trust !== "archived");
  const relied = (overview.trust.proven ?? 0) + (overview.trust.likely ?? 0);
  return [
    h("div",
      h("h1", `Your agents know ${plural(overview.known, "lesson")} here and rely on ${count(relied)} of them.`),
      strip(groups),
      h("div.key", groups.map((group) => h("a", { href: page.link("search", { trust: group.trust }) },
        h("i", { class: group.tint }), h("b", count(group.count)), ` ${group.name.toLowerCase()}`)))),
    worthOf && h("a.worth", { href: page.link("learning") },
      h("b", worthOf.difference === null ? "–" : points(worthOf.difference)),
      h("span.small.soft", worthOf.difference === null
        ? "no task has gone without memory yet, so its worth is not known"
        : `points of success with memory, 95\u00a0%\u00a0interval ${points(worthOf.low)} to ${points(worthOf.high)}${worthOf.low <= 0 ? ": not proven yet" : ""}`)),
  ];
}

/** What memory is worth comes later: counting it may take a while. */
async function worth(view) {
  try {
    view.worthOf = (await api.get("/report", {}, view.page.signal)).memory;
    if ($("#know")) fill($("#know"), know(view));
  } catch { /* Somebody else has it counted just now. */ }
}

// ---- Filters

const FILTERS = [
  { name: "kind", all: "All kinds", of: () => [["strategies", "Strategies"], ["warnings", "Warnings"]] },
  { name: "trust", all: "Any trust", of: () => Object.entries(TRUST).map(([id, { name }]) => [id, name]) },
  { name: "scope", all: "All scopes", of: () => [["project", "Project"], ["team", "Team"], ["org", "Org"]] },
  { name: "agent", all: "Any agent", of: (overview) => overview.agents.map(({ name }) => [name, name]) },
  { name: "topic", all: "Any topic", of: (overview) => overview.domains.map(({ name }) => [name, name]) },
  { name: "tag", all: "Any tag", of: (overview) => overview.tags.map(({ name }) => [name, name]) },
];

const asked = ({ kind, scope, agent, topic, tag }) => ({
  ...(kind === "warnings" ? { outcomes: ["failure"] } : {}),
  ...(kind === "strategies" ? { outcomes: ["success", "mixed"] } : {}),
  ...(scope ? { scopes: [scope] } : {}),
  ...(agent ? { agent } : {}),
  ...(topic ? { domain: topic } : {}),
  ...(tag ? { tags: [tag] } : {}),
});

function filters(view) {
  const { state, overview } = view;
  return FILTERS.map(({ name, all, of }) => {
      const options = of(overview);
      return (options.length > 0 || state.filter[name]) && picker(capital(name), ["", all], options, state.filter[name], (value) => {
        state.filter[name] = value;
        state.at = 0;
        state.open = null;
        answer(view);
      });
    });
}

const order = (view) => picker("Order", null, Object.entries(SORTS).map(([id, text]) => [id, capital(text)]), view.state.sort, (value) => {
  view.state.sort = value;
  answer(view);
});

function picker(label, none, options, value, chosen) {
  const select = h("select.sel", {
    class: none && value ? "on" : "", "aria-label": label,
    onchange: () => {
      if (none) select.classList.toggle("on", Boolean(select.value));
      chosen(select.value);
    },
  }, [...(none ? [none] : []), ...options].map(([id, text]) => h("option", { value: id, selected: id === value }, short(text, 40))));
  return select;
}

// ---- Answers

/** One question at a time is on its way; what is typed meanwhile is asked next. */
async function answer(view, counted) {
  const { state, results, page } = view;
  clearTimeout(view.writing);
  view.writing = setTimeout(() => address(view), WRITING);
  view.behind = true;
  if (view.busy) {
    view.again = true;
    return;
  }
  view.busy = true;
  results.setAttribute("aria-busy", "true");
  try {
    do {
      view.again = false;
      const nodes = await (state.q.trim() ? found(view, counted) : browsed(view, counted));
      if (page.signal.aborted) return;
      if (!view.again) fill(results, nodes);
    } while (view.again);
    view.behind = false;
    if (view.entered) enter(view);
  } catch (error) {
    if (!page.signal.aborted) fill(results, failed(error));
  } finally {
    view.busy = view.entered = false;
    results.setAttribute("aria-busy", "false");
  }
}

/** Opens the lesson that is marked; of a question that is not answered yet, its first hit. */
function enter(view) {
  const { page, state } = view;
  view.entered = view.behind;
  if (!view.behind && state.rows[state.at]) page.go(page.link(`memory/${state.rows[state.at].id}`));
}

/** The address holds the question and the filters, so that it can be shared. */
function address({ state, page }) {
  const known = { q: state.q, ...state.filter, sort: state.q || state.sort === "used" ? "" : state.sort };
  const here = !page.signal.aborted && (location.pathname === "/" || location.pathname.startsWith("/search"));
  if (here) history.replaceState({ at: state.at, rows: state.rows.length }, "", page.link("search", known));
}

// ---- Leaving, and coming back to where one was

function leave(view) {
  clearTimeout(view.writing);
  address(view);
}

function back({ state, results }) {
  state.at = Math.min(state.left.at, state.rows.length - 1);
  mark({ state, results });
  $(".hit.at", results)?.scrollIntoView({ block: "center" });
  $(".hit.at h2 a", results)?.focus({ preventScroll: true });
}

async function found(view, counted) {
  const { state, page } = view;
  const reply = await api.post("/look", { query: state.q.trim(), limit: state.filter.trust ? ALL : HITS, ...asked(state.filter) }, page.signal);
  await counted;
  view.weights = reply.weights;
  const rows = reply.memories.filter((hit) => !state.filter.trust || hit.belief.trust === state.filter.trust).slice(0, HITS);
  rail(view, reply);
  const [sure, near] = [rows.filter((hit) => !hit.weak), rows.filter((hit) => hit.weak)];
  const shown = state.all ? near : near.slice(0, NEAR);
  state.rows = [...sure, ...shown];
  state.found = rows;
  if (!rows.length) return reply.memories.length ? filteredAway(view) : nothing(view, reply);
  if (!sure.length && !state.all) return nothing(view, reply);
  return [
    told([[h("b", count(sure.length)), ` of ${count(reply.considered)} relevant enough`],
      `${count(reply.tokens_used)} tokens`, `${Math.round(reply.milliseconds)} ms`, reply.embedder], "explain"),
    reply.degraded && h("p.note.m-warn", reply.notes.join("; ")),
    reply.hint && h("p.note", reply.hint),
    h("div.names", { "aria-hidden": "true" }, h("span", "To help here"), h("span", "Lesson"), h("span", "Trust and score")),
    h("ol", sure.map((hit, i) => hitRow(view, hit, i))),
    shown.length > 0 && [
      h("h2.near", "Close, but perhaps about something else"),
      h("ol", shown.map((hit, i) => hitRow(view, hit, sure.length + i))),
      near.length > shown.length && h("p", button(`Show ${near.length - shown.length} more that are close`, () => {
        state.all = true;
        answer(view);
      }, { look: "quiet" }))],
  ];
}

const told = (facts, third) => h("div.told",
  facts.map((fact) => h("span", fact)),
  h("span.keys", key("j"), " ", key("k"), " move, ", key("Enter"), " open", third && [", ", key("e"), ` ${third}`]));

async function browsed(view, counted) {
  const { state, page } = view;
  const ask = { ...asked(state.filter), trust: state.filter.trust, sort: state.sort, limit: PAGE };
  const wanted = Math.min(state.left.rows, MOST);
  state.left.rows = 0;
  const reply = await api.get("/browse", { ...ask, limit: wanted > PAGE ? AGAIN : PAGE }, page.signal);
  while (reply.cursor && reply.memories.length < wanted) {
    const next = await api.get("/browse", { ...ask, limit: AGAIN, cursor: reply.cursor }, page.signal);
    reply.memories.push(...next.memories);
    reply.cursor = next.cursor;
  }
  await counted;
  state.rows = reply.memories;
  state.fresh = 0;
  rail(view, null);
  if (!reply.memories.length) return filteredAway(view);
  const list = h("ol", reply.memories.map((memory, i) => browseRow(view, memory, i)));
  return [
    h("div.ordered", told([[h("b", count(reply.total)), ` ${reply.total === 1 ? "lesson" : "lessons"}`]]), order(view)),
    h("div.names", { "aria-hidden": "true" }, h("span", "Used"), h("span", "Lesson"), h("span", "Trust")),
    list,
    reply.cursor && further(view, ask, reply.cursor, list),
  ];
}

/** The next page, when its end comes near. */
function further(view, ask, cursor, list) {
  const { state, page } = view;
  const end = h("p.tip", { role: "status" });
  let next = cursor;
  const watch = new IntersectionObserver(([entry]) => entry.isIntersecting && load(), { rootMargin: "1200px" });
  const wait = () => {
    fill(end, "More follow as you scroll.");
    watch.observe(end);
  };
  async function load() {
    watch.disconnect();
    try {
      const reply = await api.get("/browse", { ...ask, cursor: next }, page.signal);
      if (!end.isConnected) return; // Something else is shown by now.
      const from = state.rows.length;
      state.rows.push(...reply.memories);
      list.append(...reply.memories.map((memory, i) => browseRow(view, memory, from + i)));
      next = reply.cursor;
      if (next) wait();
      else end.remove();
    } catch (error) {
      // Not by itself: who does not answer is not asked again and again.
      if (!page.signal.aborted) fill(end, error.message, " ", button("Try again", load, { look: "quiet" }));
    }
  }
  wait();
  page.signal.addEventListener("abort", () => watch.disconnect());
  return end;
}

// ---- Rows

const facts = (memory, ...more) => h("p.meta",
  h("span", `by ${writer(memory.author ?? memory.agent) ?? "nobody known"}`), more.map((one) => one && h("span", one)),
  memory.tags.length > 0 && h("span", { dir: "auto" }, tagged(memory.tags.slice(0, 6))));

function browseRow({ page, state }, memory, i) {
  return h("li.hit.brief", { class: i === state.at ? "at" : "", "data-i": i },
    h("div.cast", h("b", count(memory.belief.used)), h("span.sr", "times used"), h("span.small.soft.only-narrow", { "aria-hidden": "true" }, "times used")),
    h("div",
      h("h2", kind(memory), memoryLink(page, memory.id, memory.title), marks(memory)),
      h("p.when", { dir: "auto" }, short(memory.description, 240)),
      h("div.foots", h("p.why", why(memory.belief)), facts(memory))),
    h("div.gauge", trustRow(memory.belief)));
}

function hitRow(view, hit, i) {
  const { page, state } = view;
  const open = state.open === i, low = (hit.expected ?? 0) < 0.5;
  const rival = hit.outdated_by ? ["Newer", hit.outdated_by, "states another value"] : hit.contradicts[0] && ["Rival", hit.contradicts[0], "says the opposite"];
  const other = rival && state.found.find((row) => row.id === rival[1]);
  return h("li.hit", { class: i === state.at ? "at" : "", "data-i": i },
    h("div.cast", { class: low ? "low" : "" },
      hit.expected === undefined ? h("b", "–") : h("b", percent(hit.expected).replace(" %", ""), h("small", " %")),
      h("span.sr", "likely to help here"), h("span.small.soft.only-narrow", { "aria-hidden": "true" }, "likely to help here")),
    h("div",
      h("h2", kind(hit), memoryLink(page, hit.id, hit.title), marks(hit),
        hit.failing && h("span.mark.m-bad", "Fails here")),
      h("p.when", { dir: "auto" }, short(hit.description, 240)),
      h("p.what", { dir: "auto" }, short(hit.passage ?? hit.content, 320)),
      warningBox(hit),
      rival && h("p.rival", `${rival[0]}: `, memoryLink(page, rival[1], other?.title ?? "another lesson"), ` ${rival[2]}`,
        other && `, trusted ${fixed(other.belief.confidence)}`),
      h("div.foots", h("p.why", why(hit.belief)), facts(hit, `used ${count(hit.belief.used)}×`))),
    h("div.gauge", trustRow(hit.belief),
      h("div.row",
        h("button.more", { type: "button", "aria-expanded": String(open), onclick: () => explain(view, i) }, open ? "Hide score" : "Score, explain"),
        h("b", fixed(hit.score))),
      scoreBar(made(hit, view.weights))),
    open && breakdown(hit, view.weights));
}

/** What the score is the sum of. What experience adds is the rest, so that it always adds up. */
function made(hit, weights) {
  const parts = { similarity: 0, recency: 0, error_match: 0, confidence: 1, scope: 1, boost: 1, composite: hit.score, ...hit.parts };
  const match = weights.similarity * parts.similarity, recency = weights.recency * parts.recency, error = weights.error_match * parts.error_match;
  const experience = parts.composite - match - recency - error;
  return {
    parts, composite: parts.composite, score: hit.score,
    added: [
      { name: "Match", value: match, tint: "f-a", note: parts.bm25 > 0 ? "similar in meaning and in words" : "similar in meaning" },
      { name: "Experience", value: Math.abs(experience) < 0.0005 ? 0 : experience, tint: "f-b", note: Math.abs(experience) < 0.0005 ? "no outcome of a similar question is known" : `outcomes of similar questions speak ${experience > 0 ? "for" : "against"} it` },
      { name: "Recency", value: recency, tint: "f-c", note: "new lessons first; fades with age" },
      { name: "Error match", value: error, tint: "f-c", note: error ? "the error that was named" : "no error was named" },
    ],
  };
}

function breakdown(hit, weights) {
  const { added, composite, score, parts } = made(hit, weights);
  let at = 0;
  const kept = composite * parts.confidence, scoped = kept * parts.scope;
  const row = (name, bar, number, note) => h("tr", h("td", name), h("td", bar), h("td.num", number), h("td.soft", note));
  return h("div.made", h("table", h("caption.sr", "How the score was made"), h("tbody",
    added.map(({ name, value, tint, note }) => {
      const from = at;
      at += value;
      return row(name, span(from, at, value < 0 ? "f-bad" : tint), `${value < 0 ? "−" : "+"} ${fixed(Math.abs(value))}`, note);
    }),
    row("Trust here", span(kept, composite, "f-soft"), `× ${fixed(parts.confidence)}`, "its own evidence and its author's record"),
    row("Scope", span(scoped, kept, "f-soft"), `× ${fixed(parts.scope)}`, "project 1, team 0.9, org 0.8"),
    parts.boost !== 1 && row("Merged", span(scoped, score, "f-b"), `× ${fixed(parts.boost)}`, "made of several that said the same"),
    h("tr.sum", h("td", "Score"), h("td"), h("td.num", fixed(score)), h("td")))));
}

function explain(view, i) {
  const { state, results } = view;
  if (!state.q.trim() || !state.rows[i]) return;
  const was = state.open;
  state.open = was === i ? null : i;
  state.at = i;
  for (const one of new Set([was, i])) {
    const row = one !== null && $(`.hit[data-i="${one}"]`, results);
    if (row) row.replaceWith(hitRow(view, state.rows[one], one));
  }
  mark(view);
  $(`.hit[data-i="${i}"] .more`, results)?.focus({ preventScroll: true });
}

function mark({ state, results }) {
  for (const row of $$(".hit", results)) row.classList.toggle("at", Number(row.dataset.i) === state.at);
}

function move(view, by) {
  const { state, results } = view;
  state.at = Math.max(0, Math.min(state.rows.length - 1, state.at + by));
  mark(view);
  $(".hit.at", results)?.scrollIntoView({ block: "nearest" });
  $(".hit.at h2 a", results)?.focus({ preventScroll: true });
}

// ---- When there is nothing

function filteredAway(view) {
  return h("div.empty", h("h2", "No lesson passes these filters."), h("p", `${plural(view.overview.known, "lesson is", "lessons are")} known here.`),
    h("p.btns", button("Clear filters", () => view.page.go(view.page.link("search", { q: view.state.q })))));
}

function nothing(view, reply) {
  const { page, state } = view;
  const gap = reply.asked;
  return [
    told([[h("b", "0"), ` of ${count(reply.considered)} relevant enough`], `${Math.round(reply.milliseconds)} ms`]),
    h("div.empty",
      h("h2", reply.memories.length ? "Nothing that is known is surely about this." : "Nothing is known about this yet."),
      h("p", reply.memories.length ? "Agents that ask this hear that what is close is perhaps about something else; unasked they get none of it." : "Agents that ask this get no answer rather than noise.",
        gap && ` It was asked ${gap.asked > 1 ? `${count(gap.asked)} times in ${plural(1 + gap.wordings.length, "wording")}, last` : "once,"} ${when(gap.last_asked)}.`),
      reply.nearest && h("p", "Nearest: ", memoryLink(page, reply.nearest.id, reply.nearest.title), " ", h("span.soft", `fits ${fixed(reply.nearest.relevance)}: ${reply.nearest.reason}`)),
      reply.hint && h("p", reply.hint),
      reply.memories.length > 0 && h("p", button(reply.memories.length === 1 ? "Show the closest lesson" : `Show the ${count(reply.memories.length)} closest lessons`, () => {
        state.all = true;
        answer(view);
      }, { look: "quiet" })),
      h("p.btns",
        page.may("write") && button("Record a lesson for this", () => record(page, { description: short(state.q.trim(), 1000) }), { look: "main" }),
        h("a.btn", { href: page.link("learning") }, "See all gaps")),
      page.may("write") && [h("p.tip", "Or from the shell:"), command(`reasonbank remember "When ${quoted(short(state.q.trim(), 60))}: …"`)]),
  ];
}

/** Between the quotes of a shell, which does nothing with it: what was asked may be anybody's text. */
const quoted = (text) => text.replaceAll('"', "'").replace(/[$`\\!%\p{C}]/gu, " ");

function first(page) {
  const ways = [
    ["Let an agent remember", "Wires the agents found on this machine. From then on they ask before they act and report afterwards.", "reasonbank install"],
    ["Learn from what was already done", "Reads the sessions that Claude Code, Codex and others wrote down before.", "reasonbank backfill"],
    ["Write the first lesson yourself", "What would you tell a new colleague on the first day?", 'reasonbank remember "…"'],
  ];
  return [
    head("Your agents know nothing here yet.", "A lesson comes from an agent that records it, from a finished session, or from you. Three ways to begin:",
      page.may("write") && button("Record a lesson", () => record(page), { look: "main" })),
    h("div.empty", h("ol", ways.map(([title, text, run]) => h("li", h("div", h("h2", title), h("p", text), command(run)))))),
  ];
}

// ---- Beside it

const LEGEND = {
  belief: { confidence: 0.78, low: 0.55, high: 0.94 },
  score: { composite: 0.76, score: 0.55, added: [{ value: 0.56, tint: "f-a" }, { value: 0.12, tint: "f-b" }, { value: 0.08, tint: "f-c" }] },
};

async function rail(view, reply) {
  const { page, overview } = view;
  view.gaps ??= api.get("/gaps", { limit: 5 }, page.signal).catch(() => []);
  const gaps = await view.gaps;
  fill(view.rail,
    h("section", h("details", { open: true }, h("summary", h("h2", "How to read a row")),
      h("dl.legend",
        h("div", h("dt", "Likely to help here"), h("dd", "The forecast for this very question: how well the lesson fits, corrected by how it went on similar ones.")),
        h("div", h("dt", "Trust"), h("dd", "How well all the evidence supports it.", range(LEGEND.belief), "The dot is the confidence, the bar where it lies nine times out of ten. Evidence makes the bar shorter.")),
        h("div", h("dt", "Score"), h("dd", scoreBar(LEGEND.score), "Match, experience, recency; hatched is what trust and scope take off."))))),
    reply?.left_out.length > 0 && h("section", h("details", { open: true }, h("summary", h("h2", "Left out")),
      h("ul.list", reply.left_out.map(({ reason, count: number }) => h("li", h("span", capital(reason)), h("b", count(number))))),
      h("ul.list", reply.dropped.slice(0, 4).map((one) => h("li", memoryLink(page, one.id, one.title), h("span.soft", one.relevance === null ? "" : fixed(one.relevance))))))),
    !reply && h("section", h("h2", "This week"), h("ul.list",
      h("li", h("a", { href: page.link("search", { sort: "newest" }) }, "Learned"), h("b", count(overview.learned_this_week))),
      overview.trust.probation > 0 && h("li", h("a", { href: page.link("search", { trust: "probation" }) }, "On probation"), h("b", count(overview.trust.probation))),
      overview.trust.doubted > 0 && h("li", h("a", { href: page.link("search", { trust: "doubted" }) }, "Doubted"), h("b", count(overview.trust.doubted))))),
    gaps.length > 0 && h("section", h("h2", "Asked in vain"), h("ul.list", gaps.map((gap) =>
      h("li", h("a", { href: page.link("search", { q: gap.question }), dir: "auto" }, short(gap.question, 120)), h("span.soft", `${gap.asked}×`))))));
}

// ---- What is new waits: nothing that is read moves

const CHANGES = new Set(["recorded", "revised", "archived", "restored", "forgotten", "undone", "accepted"].map((what) => `memory.${what}`));

function live(view, event) {
  if (event.what !== "memory.used") renewed(view, event.subject, event.what === "memory.forgotten");
  if (!CHANGES.has(event.what) || !api.isHere(event)) return;
  if (event.what === "memory.recorded" && view.state.fresh !== null) view.state.fresh += 1;
  clearTimeout(view.counting);
  view.counting = setTimeout(() => grown(view), 150);
}

/** A row stays where it is, and says what its lesson says now. */
async function renewed(view, id, forgotten) {
  const { page, state, results } = view;
  if (!state.rows.some((row) => row.id === id)) return;
  let now = { title: "Forgotten", description: "", content: "", passage: null, state: "archived", error_context: null };
  if (!forgotten) try {
    const [memory, [about]] = await Promise.all([
      api.get(`/memories/${api.part(id)}`, {}, page.signal), api.get("/beliefs", { ids: [id] }, page.signal)]);
    now = { ...memory, belief: about.belief, passage: null };
  } catch {
    return; // Gone since, which is told next.
  }
  const i = state.rows.findIndex((row) => row.id === id), row = $(`.hit[data-i="${i}"]`, results);
  if (!row || view.behind) return;
  const focused = row.contains(document.activeElement);
  state.rows[i] = { ...state.rows[i], ...now };
  row.replaceWith((state.q.trim() ? hitRow : browseRow)(view, state.rows[i], i));
  if (focused) $(`.hit[data-i="${i}"] h2 a`, results)?.focus({ preventScroll: true });
}

async function grown(view) {
  view.overview = await api.get("/overview", {}, view.page.signal).catch(() => view.overview);
  if (view.page.signal.aborted) return;
  fill($("#know"), know(view));
  if (view.state.fresh === 0) return;
  const place = $("#new");
  fill(place, h("button.new", {
    type: "button",
    onclick: () => {
      fill(place);
      view.state.fresh = 0;
      view.state.at = 0;
      if (!view.state.q.trim()) view.state.sort = "newest";
      answer(view);
    },
  }, view.state.fresh === null ? "Much has changed: look again" : `${count(view.state.fresh)} new`));
}
