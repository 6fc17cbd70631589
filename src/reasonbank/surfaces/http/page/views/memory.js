// One memory: what it says, how far it is trusted and why, where it came from, what else there is.

import * as api from "../api.js";
import { belief as beliefChart, diverge, figure, graph, range } from "../charts.js";
import { $, h, s } from "../dom.js";
import { brief, changes } from "../lines.js";
import { ask, button, kind, kindName, marks, memoryLink, part, say, warningBox, why } from "../parts.js";
import { edit, takeBack } from "../record.js";
import { HANDS, SCOPES, TRUST, capital, count, day, fixed, lasting, onProbation, plural, short, spaceName, straight, tagged, writer } from "../words.js";

const LONG = 6000;
const NEWEST = 10; // Of the revisions; the others are drawn when they are asked for.
const RIVALS = 5;

export async function show(page) {
  const path = `/memories/${api.part(page.id)}`;
  const of = (name) => api.get(`${path}/${name}`, {}, page.signal);
  const memory = await api.get(path, {}, page.signal);
  const [told, history, rivals, kin, origin] = await Promise.all([of("belief"), of("history"), of("rivals"), of("graph"), of("origin")]);
  const belief = { ...told, evidence: told.evidence.map((one) => ({ count: 1, ...one })) };
  const view = { page, path, memory, belief, history, rivals, kin, origin };
  const acts = actions(view);
  return {
    nodes: h("article.memory",
      h("p.crumb", h("a", { href: page.link("search") }, "Search"), memory.domain && [" / ", h("a", { href: page.link("search", { topic: memory.domain }) }, memory.domain)]),
      h("div.head",
        h("div",
          h("h1", { dir: "auto" }, memory.title),
          h("p.meta", h("span.mid", kind(memory), " ", kindName(memory)), marks({ ...memory, belief: belief.now }, { warning: false }),
            h("span", `by ${writer(memory.author, origin.peer) ?? "nobody known"}`), h("span", `recorded ${day(memory.created_at)}`),
            h("span", `revision ${memory.revision}`), h("span", `used ${plural(memory.usage_count, "time")}`))),
        h("div.btns", acts.buttons)),
      h("div.cols",
        h("div",
          h("section.part.lesson", { "aria-label": "The lesson" },
            h("p.when", { dir: "auto" }, memory.description),
            h("p.text", { class: memory.content.length > LONG ? "long" : "", dir: "auto", tabindex: memory.content.length > LONG ? 0 : null }, memory.content),
            warningBox(memory)),
          overTime(view), rivalry(view), revisions(view), genealogy(view), trace(view)),
        h("aside.rail", { "aria-label": "Facts" }, trust(view), reasons(view), cameFrom(view)))),
    keys: acts.keys,
    live: (event) => event.subject === memory.id && event.what !== "memory.used" && !view.forgetting && page.redraw(),
  };
}

// ---- What can be done

/** What another project shares is changed there, or by who looks after the whole bank. */
const mayChange = ({ session, may }, { workspace }) =>
  may("write") && (workspace === api.chosen() || (session.needed && session.whole && may("admin")));

const DOUBLE = 400; // Milliseconds.
const acting = new Set();
let done = {};

function actions(view) {
  const { page, path, memory } = view;
  if (!page.may("write")) return { buttons: [], keys: {} };
  const own = mayChange(page, memory);
  const act = (what, work) => async () => {
    // The second half of a double click falls on what the first half drew.
    const now = performance.now();
    if (what && (acting.has(what) || done.what === what && now - done.at < DOUBLE)) return;
    if (what) {
      acting.add(what);
      done = { what, at: now };
    }
    try {
      await work();
    } catch (error) {
      say(capital(error.message));
    } finally {
      acting.delete(what);
    }
  };
  const archived = memory.state === "archived";
  const rate = (helpful) => act(`rate ${helpful}`, async () => {
    const now = await api.post(`${path}/feedback`, { helpful });
    page.done(`${helpful ? "Thanks" : "Noted"}: confidence is now ${fixed(now.confidence)}`);
    page.redraw();
  });
  const change = act(null, async () => {
    const now = await edit(memory);
    if (!now) return;
    page.done("Saved; the earlier revision is kept", takeBack(now));
    page.redraw();
  });
  const shelve = act(archived ? "restore" : "archive", async () => {
    await api.post(`${path}/${archived ? "restore" : "archive"}`, {});
    page.done(archived ? "Restored" : "Archived", () => api.post(`${path}/${archived ? "archive" : "restore"}`, {}));
    page.redraw();
  });
  const forget = act(null, async () => {
    if (!await ask("Forget this memory for good?", goes(view), "Forget for good")) return;
    // Its event may come before the answer: there is nothing left to draw then.
    view.forgetting = true;
    try {
      await api.remove(path, { confirm: true });
    } finally {
      view.forgetting = false;
    }
    page.done("Forgotten");
    page.go(page.link("search"));
  });
  return {
    buttons: [
      !archived && button("It helped", rate(true), { hint: "+" }),
      !archived && button("It did not", rate(false), { hint: "-" }),
      own && button("Edit", change, { hint: "e" }),
      own && button(archived ? "Restore" : "Archive", shelve),
      own && page.may("admin") && button("Forget…", forget, { look: "risk" }),
    ],
    keys: { ...(own ? { e: change } : {}), ...(archived ? {} : { "+": rate(true), "-": rate(false) }) },
  };
}

function goes({ history, belief, kin, memory }) {
  const pieces = belief.evidence.reduce((sum, one) => sum + one.count, 0);
  const links = kin.edges.filter((edge) => [edge.source, edge.target].includes(memory.id)).length;
  return [
    h("p", "This cannot be undone. Archive it instead if you only want it out of searches."),
    h("ul",
      h("li", h("b.bad", "Goes: "), `its text, ${plural(history.length, "revision")}, ${plural(pieces, "piece")} of evidence, ${plural(links, "link")}, its vector and its place in the full-text index.`),
      h("li", h("b", "Stays: "), "a tombstone without text, so that no import brings it back; and the memories that it was made from or that were made from it.")),
  ];
}

// ---- Belief

const SAID = {
  outcome: ["the task succeeded", "the task failed"],
  explicit: ["rated helpful", "rated not helpful"],
  stability: ["the code was kept", "the code was reverted"],
  usage: ["given to a task", "given to a task"],
};

const said = (one) => [
  SAID[one.kind][one.positive ? 0 : 1], one.count > 1 && `${one.count}×`,
  one.rater && `by ${one.rater}`, one.session && `(${short(one.session, 40)})`, one.comment && `“${short(one.comment, 120)}”`,
].filter(Boolean).map(straight).join(" ");

const key = (drawn, text) => h("span", drawn, ` ${text}`);

function overTime({ belief }) {
  const series = belief.series.map((point) => ({ ...point, at: Date.parse(point.at) }));
  const evidence = belief.evidence.map((one) => ({ ...one, at: Date.parse(one.at), text: said(one) }));
  const { now } = belief;
  const strong = now.tasks_succeeded + now.tasks_failed + now.rated_helpful + now.rated_unhelpful + now.code_kept + now.code_reverted;
  const age = (series.at(-1).at - series[0].at) / 1000;
  return part("Belief over time", strong ? `${plural(strong, "piece")} of evidence in ${lasting(Math.max(age, 60))}` : "nothing has spoken for it or against it yet", [
    figure((width) => beliefChart({ series, evidence, archivedBelow: belief.archived_below, width, label: `Confidence over ${lasting(age)}: it began at ${fixed(series[0].confidence)} and is now ${fixed(belief.now.confidence)}` })),
    h("p.meta",
      key(s("svg", { width: 10, height: 9, "aria-hidden": "true" }, s("path.f-good", { d: "M1 8l4-8 4 8z" })), "for it"),
      key(s("svg", { width: 10, height: 9, "aria-hidden": "true" }, s("path.f-bad", { d: "M1 0l4 8 4-8z" })), "against it"),
      key(s("svg", { width: 4, height: 9, "aria-hidden": "true" }, s("rect.f-soft", { width: 2, height: 9 })), "given to a task"),
      h("span", "rows: tasks, then ratings and code, then uses")),
  ]);
}

const STARTED = {
  explicit: "because a person or an agent wrote it on purpose", distilled_success: "because it was learned from a success",
  distilled_failure: "because it was learned from a failure",
};

function trust({ page, belief, memory, origin }) {
  const { now } = belief;
  return h("section.first", { "aria-label": "Trust" }, h("h2", "Trust"), h("div.trust",
    h("div", h("b", fixed(now.confidence)), " ", h("span.mid", TRUST[now.trust]?.name)),
    range({ ...now, prior: now.initial }, 14),
    h("p.tip", `Nine times out of ten between ${fixed(now.low)} and ${fixed(now.high)}. It started at ${fixed(now.initial)}`,
      STARTED[memory.source] ? `, ${STARTED[memory.source]}.` : "."),
    now.trust === "probation" && h("p.note", `On probation: ${onProbation(origin.principal)}`),
    ["probation", "quarantined"].includes(now.trust) && page.session.person && h("p", h("a", { href: page.link("review") }, "Accept or reject it in Review")),
    now.trust === "quarantined" && h("p.note.m-bad", "Quarantined: no agent is given it unasked until a person accepts it, and who asks is told that it waits.")));
}

function reasons({ belief }) {
  const { now } = belief;
  const rows = [
    ["Tasks", now.tasks_succeeded, now.tasks_failed], ["Ratings", now.rated_helpful, now.rated_unhelpful],
    ["Code", now.code_kept, now.code_reverted], ["Searches", now.used, 0],
  ];
  const most = Math.max(1, ...rows.slice(0, 3).flatMap(([, plus, minus]) => [plus, minus]));
  return h("section.first", { "aria-label": "Why" }, h("h2", "Why"), h("p.tip", `${why(now)}.`),
    h("div.evid",
      h("span"), h("span.n.soft", "against"), h("span"), h("span.soft", "for"),
      rows.map(([name, plus, minus]) => [
        h("span", name), h("span.n", count(minus)), diverge(Math.min(plus, most), minus, most, name === "Searches"), h("span.n", count(plus))])));
}

// ---- Where it came from

function cameFrom({ page, memory, origin }) {
  const place = page.space(memory.workspace);
  const facts = [
    ["Author", writer(origin.author ?? memory.author, origin.peer)], ["Written by", HANDS[origin.principal]], ["Through", origin.surface],
    ["Session", origin.trace ? [h("a", { href: page.link(`sessions/${origin.trace.id}`) }, short(origin.trace.task, 60)), origin.trace.span && `, steps ${origin.trace.span.join(" to ")}`] : origin.session],
    ["Batch", origin.batch], ["Project", place ? spaceName(place) : !origin.peer && "another one, which shares it"], ["Seen by", SCOPES[memory.scope]],
    ["Kind of task", memory.task_type], ["Tags", tagged(memory.tags)], ["Id", h("code", memory.id)],
  ];
  return h("section", { "aria-label": "Where it came from" }, h("h2", "Where it came from"),
    h("dl.facts", facts.filter(([, value]) => value).map(([name, value]) => [h("dt", name), h("dd", value)])));
}

function trace({ page, origin }) {
  if (!origin.trace?.shown?.length) return null;
  return part("In its session", short(origin.trace.task, 80), h("ol.steps", origin.trace.shown.map((step) =>
    h("li", h("span.n", step.number), h("span.dot.d-off"), h("div", h("b", { dir: "auto" }, short(step.action, 200)),
      step.content && h("pre", { tabindex: 0 }, short(step.content, 2000)), step.feedback && h("p.soft.small", short(step.feedback, 400)))))),
  h("a", { href: page.link(`sessions/${origin.trace.id}`) }, "The whole session"));
}

/** What there is no room for: named, and to be opened. */
const rest = (number, one, links, many = `${one}s`) => number > 0 && h("details.rest", h("summary", plural(number, one, many || one)),
  h("ul", links.map((one) => h("li.small", one))));

// ---- Rivals

const RIVAL = { contradicts: "says the opposite", newer: "is newer and states another value", older: "is older and states another value" };

function rivalry({ page, memory, belief, rivals }) {
  if (!rivals.length) return null;
  const side = (one, own) => h("article",
    h("h3", kind(one), " ", own ? one.title : memoryLink(page, one.id, one.title)),
    h("p.mid.text", { dir: "auto", tabindex: one.content.length > 400 ? 0 : null }, one.content),
    h("p.small.soft", own ? "This one. " : `${capital(RIVAL[one.why])}. `, `${TRUST[one.belief.trust]?.name} ${fixed(one.belief.confidence)}: ${why(one.belief).toLowerCase()}`),
    range(one.belief, 14));
  const others = rivals.slice(RIVALS);
  return part("Rivals", "the same situation, other advice; evidence settles it", [
    h("div.rivals", side({ ...memory, belief: belief.now }, true), rivals.slice(0, RIVALS).map((rival) => side(rival, false))),
    rest(others.length, "more rival", others.map((one) => [memoryLink(page, one.id, one.title), ` ${RIVAL[one.why]}`]))]);
}

// ---- History

const TEXTS = {
  title: (memory) => memory.title, description: (memory) => memory.description, content: (memory) => memory.content,
  "kind of error": (memory) => memory.error_context?.error_type, "what fails": (memory) => memory.error_context?.failure_pattern,
  instead: (memory) => memory.error_context?.corrective_guidance,
};

function revisions(view) {
  const { page, path, history, memory } = view;
  const back = (number) => async () => {
    try {
      const now = await api.post(`${path}/undo`, { to: number });
      page.done(`Back to revision ${number}; later ones are kept`, takeBack(now, { to: memory.revision }));
      page.redraw();
    } catch (error) {
      say(capital(error.message));
    }
  };
  const newest = [...history].reverse();
  const row = (revision, i) => {
    const before = newest[i + 1];
    return h("li", h("b", `r${revision.number}`),
      h("span", capital(revision.change), ` by ${writer(revision.author)} `, h("span.soft", `through ${revision.surface}, ${day(revision.at)}`)),
      i === 0 ? h("span.soft.small", "now") : mayChange(page, memory) ? button(`Return to r${revision.number}`, back(revision.number), { look: "quiet" }) : h("span"),
      before && difference(before.memory, revision.memory));
  };
  const list = h("ol.rev", newest.slice(0, NEWEST).map(row)), older = newest.length - NEWEST;
  const all = button(`Show ${plural(older, "older revision")}`, () => {
    list.append(...newest.slice(NEWEST).map((revision, i) => row(revision, NEWEST + i)));
    $(`li:nth-child(${NEWEST + 1}) button`, list)?.focus();
    all.remove();
  }, { look: "quiet" });
  return part("History", plural(history.length, "revision"), [list, older > 0 && all]);
}

function difference(before, after) {
  const told = Object.entries(TEXTS).map(([name, of]) => [name, of(before) ?? "", of(after) ?? ""])
    .filter(([, one, other]) => one !== other).map(([name, one, other]) => [name, brief(changes(one, other))]);
  const plain = ["state", "outcome", "scope", "tags", "domain", "task_type", "difficulty"].filter((name) => String(before[name] ?? "") !== String(after[name] ?? ""));
  if (!told.length && !plain.length) return null;
  return h("div.diff", { dir: "auto", tabindex: 0, role: "group", "aria-label": "What changed" },
    told.map(([name, pieces], i) => [
      i > 0 && "\n", (told.length > 1 || name !== "content") && h("span.soft", `${name}: `),
      pieces.map(([what, text]) => (what === "same" ? text : h(what === "new" ? "ins" : "del", text))),
    ]),
    plain.map((name, i) => [(i > 0 || told.length > 0) && "\n", h("span.soft", `${name.replace("_", " ")}: `), h("del", String(before[name] ?? "none")), " ", h("ins", String(after[name] ?? "none"))]));
}

// ---- Genealogy

const LINK = { contradicts: "says the opposite", similar: "says the same", causes: "leads to it", analogy: "is like it", co_used: "used together" };
const ACROSS = 3;
const ABREAST = 4;
const DEEP = 3;

/** Ancestors above, descendants below, in rows; links to the right of it. */
function genealogy({ page, memory, kin }) {
  const made = kin.edges.filter((edge) => edge.type === "made");
  const row = new Map([[memory.id, 0]]);
  for (let changed = true; changed;) {
    changed = false;
    for (const { source, target } of made) {
      if (row.has(target) && !row.has(source)) { row.set(source, row.get(target) - 1); changed = true; }
      if (row.has(source) && !row.has(target)) { row.set(target, row.get(source) + 1); changed = true; }
    }
  }
  const beside = kin.edges.filter((edge) => edge.type !== "made" && [edge.source, edge.target].includes(memory.id))
    .map((edge) => ({ ...edge, other: edge.source === memory.id ? edge.target : edge.source })).filter((edge) => !row.has(edge.other))
    .sort((a, b) => (b.type === "contradicts") - (a.type === "contradicts") || b.strength - a.strength);
  const linked = beside.filter((edge, i) => beside.findIndex((one) => one.other === edge.other) === i), others = linked.slice(0, ACROSS);
  if (row.size === 1 && !others.length) return part("Genealogy", "made from, leads to, contradicts", h("p.soft", "It was made from no other memory, and none was made from it."));
  const known = new Map(kin.nodes.map((node) => [node.id, node]));
  const taken = new Map(), nodes = [], further = [];
  const place = (id, at, from, sub) => {
    const node = known.get(id) ?? { title: null };
    const col = taken.get(at) ?? from;
    taken.set(at, col + 1);
    nodes.push({
      id, title: node.title ?? "Forgotten, or not in view", row: at, col, self: id === memory.id, href: page.link(`memory/${id}`),
      gone: node.state !== "active", sub: sub ?? (node.title ? `${TRUST[node.trust]?.name ?? node.state}, ${fixed(node.confidence)}` : ""),
    });
  };
  place(memory.id, 0, 0, `this memory, ${fixed(memory.confidence)}`);
  const near = [...row].filter(([id]) => id !== memory.id).sort(([, one], [, other]) => Math.abs(one) - Math.abs(other));
  for (const [id, at] of near) {
    if (Math.abs(at) <= DEEP && (taken.get(at) ?? 0) < ABREAST) place(id, at, 0);
    else further.push([id, at < 0 ? "this was made from it" : at > 0 ? "it was made from this" : "kin of the same"]);
  }
  const right = Math.max(...nodes.map((node) => node.col)) + 1;
  const column = nodes.length === 1 ? 1 : Math.max(1, right);
  others.forEach((edge, i) => {
    const node = known.get(edge.other);
    place(edge.other, i, column, `${LINK[edge.type]}${node?.title ? `, ${fixed(node.confidence)}` : ""}`);
  });
  const top = Math.min(...nodes.map((node) => node.row));
  for (const node of nodes) node.row -= top;
  further.push(...linked.slice(ACROSS).map((edge) => [edge.other, LINK[edge.type]]));
  const edges = [
    ...made.map((edge) => [edge.source, edge.target]),
    ...others.map((edge) => [memory.id, edge.other, edge.type === "contradicts" ? "against" : "beside"]),
  ];
  return part("Genealogy", "made from, leads to, contradicts", [
    h("div.wide", { tabindex: 0, role: "group", "aria-label": "Genealogy, scrolls sideways" }, graph(nodes, edges)),
    rest(further.length, "more", further.map(([id, how]) => [memoryLink(page, id, known.get(id)?.title), h("span.soft", ` ${how}`)]), ""),
    kin.left_out > 0 && h("p.tip", `${count(kin.left_out)} that are further away are not listed; each shows its own.`)]);
}
