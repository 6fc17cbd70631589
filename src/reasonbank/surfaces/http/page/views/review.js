// What waits for a person: lessons on probation, quarantined, doubted, and what the bank proposes.

import * as api from "../api.js";
import { range } from "../charts.js";
import { $, $$, fill, h } from "../dom.js";
import { ask, button, choice, failed, field, form, head, key, mark, memoryLink, say, textField, warningBox } from "../parts.js";
import { edit, takeBack } from "../record.js";
import { TRUST, because, capital, count, day, fixed, onProbation, plural, short, straight, tagged, when, writer } from "../words.js";

const LIMIT = 200;
const TABS = {
  all: { name: "All", kinds: ["waiting", "hidden", "doubted", "untested"] },
  probation: { name: "Probation", kinds: ["untested"] },
  quarantine: { name: "Quarantine", kinds: ["waiting"] },
  flagged: { name: "Flagged", kinds: ["hidden", "doubted"] },
  proposals: { name: "Proposals", kinds: ["merge", "share"] },
};
const KINDS = {
  waiting: { name: "Quarantine", look: "m-bad", yes: "Accept", no: "Reject" },
  untested: { name: "Probation", look: "m-accent", yes: "Accept", no: "Reject" },
  hidden: { name: "Hidden", look: "m-warn", yes: "Show again", no: "Archive" },
  doubted: { name: "Doubted", look: "m-warn", yes: "Keep", no: "Archive" },
  merge: { name: "Merge", look: "", yes: "Merge", no: "Keep apart" },
  share: { name: "Share", look: "m-good", yes: "Share", no: "Do not share" },
};

export async function show(page) {
  const wanted = page.params.get("tab"), tab = TABS[wanted] && (wanted !== "proposals" || page.may("write")) ? wanted : "all";
  const hand = page.params.get("hand");
  const { items, more } = tab === "proposals" ? { items: [], more: false } : await waiting(page, hand);
  const of = (name) => items.filter((item) => TABS[name].kinds.includes(item.kind));
  const view = {
    page, tab, items: of(tab), more, at: 0, picked: new Set(), body: h("div"),
    list: h("ol", { "aria-label": "Waiting" }), pane: h("div.pane", { "aria-live": "polite" }),
  };
  if (tab === "proposals") offer(view);
  else arrange(view);
  return {
    title: "Review",
    nodes: [
      head("Review", "What agents wrote and the bank proposes, before it is trusted. Nothing here is lost by saying no.",
        page.may("admin") && button("Revert a batch…", () => revert(page).catch((error) => say(capital(error.message))))),
      h("nav.tabs", { "aria-label": "Kinds" }, Object.entries(TABS).map(([name, { name: title }]) =>
        (name !== "proposals" || page.may("write")) && h("a", { href: page.link("review", { tab: name === "all" ? null : name, hand }), "aria-current": name === tab && "page" },
          title, tab !== "proposals" && name !== "proposals" && h("span", `${count(of(name).length)}${more && of(name).length ? "+" : ""}`)))),
      hand && h("p.tip", `Only what ${straight(items[0]?.peer ?? hand)} brought. `, h("a", { href: page.link("review") }, "Show all")),
      view.body,
    ],
    keys: {
      j: () => move(view, 1), k: () => move(view, -1),
      ...(page.may("write") ? {
        a: () => decide(view, true), r: () => decide(view, false), e: () => change(view),
        x: () => pick(view, view.items[view.at]?.id), X: () => pickAll(view),
      } : {}),
    },
    live: (event) => fresh(view, event),
    // What it proposes takes long to look for: whoever reads it says when.
    ...(tab === "proposals" ? { many: () => grown(view) } : {}),
    state: view,
    resume: (before) => before.tab === tab && resume(view, before),
  };
}

/** The list is drawn anew, perhaps because much was written meanwhile: what somebody has selected
 * stays so, and what they read stays open. */
function resume(view, before) {
  const reads = view.items.findIndex((item) => item.id === before.items[before.at]?.id);
  const picked = view.items.filter((item) => before.picked.has(item.id)).map((item) => item.id);
  if (reads < 1 && !picked.length) return;
  view.at = Math.max(0, reads);
  view.picked = new Set(picked);
  draw(view);
}

// ---- What waits

const WHY = {
  waiting: "No agent is given it unasked until a person accepts it; who asks is told that it waits.",
  hidden: "Searches do not show it.",
};

async function waiting(page, hand) {
  const [listed, doubted] = await Promise.all([
    api.get("/review", { limit: LIMIT + 1, hand }, page.signal),
    hand ? { memories: [], cursor: null } : api.get("/browse", { trust: "doubted", limit: LIMIT }, page.signal)]);
  const found = listed.slice(0, LIMIT).map(({ kind = "hidden", ...one }) => ({ ...one, kind, author: writer(one.author, one.peer), why: `${capital(one.reason)}. ${WHY[kind] ?? capital(onProbation(one.hand?.split(":")[0]))}` }));
  const known = new Set(found.map((one) => one.id));
  for (const memory of doubted.memories) {
    if (known.has(memory.id)) continue;
    found.push({
      kind: "doubted", id: memory.id, title: memory.title, author: writer(memory.author), memory,
      why: `${capital(because(memory.belief))}. Confidence has fallen to ${fixed(memory.belief.confidence)}. Archive it? Keeping it rates it helpful; as long as it is doubted it comes back here.`,
    });
  }
  const order = TABS.all.kinds;
  return {
    items: found.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind)),
    more: listed.length > LIMIT || Boolean(doubted.cursor),
  };
}

async function proposals(page) {
  const found = [];
  const plan = await api.post("/consolidate", { dry_run: true }, page.signal);
  for (const cluster of plan.clusters) {
    found.push({
      kind: "merge", id: cluster.id, title: cluster.members[0].title, author: `${plural(cluster.members.length, "memory", "memories")}, similarity ${fixed(cluster.mean_similarity)}`,
      cluster, why: `${plural(cluster.members.length, "memory says", "memories say")} the same (similarity ${fixed(cluster.least_similarity)} or more). The merge keeps what each says; the parts go to the archive, and undo brings them back.`,
    });
  }
  if (page.may("admin") && page.session.whole) {
    const offer = await api.post("/promote", { dry_run: true }, page.signal);
    for (const one of offer.proposals.filter((one) => one.acceptable)) {
      found.push({
        kind: "share", id: one.id, title: one.title, author: `${one.scope} to ${one.to}`, proposal: one,
        why: `${one.ready ? `Proven here (lower bound ${fixed(one.lower_bound)}) and known` : "Known"} in ${plural(one.projects, "project")}: share it with the ${one.to}?${one.waiting ? ` ${capital(one.waiting)}.` : ""}`,
      });
    }
  }
  return found;
}

/** What says the same is looked for in all that is known, which may take a while. */
async function offer(view) {
  fill(view.body, h("div.empty", { role: "status" }, h("h2", "Looking for lessons that say the same…"), h("p", "All that is known here is compared; with many thousands this takes a minute.")));
  try {
    view.items = await proposals(view.page);
    arrange(view);
  } catch (error) {
    if (!view.page.signal.aborted) fill(view.body, failed(error));
  }
}

// ---- List and detail

function arrange(view) {
  // Those that did not fit into the list come when it is done.
  if (!view.items.length && view.more) return view.page.redraw();
  if (!view.items.length) return fill(view.body, empty(view));
  draw(view);
  fill(view.body, h("div.split", view.list, view.pane));
}

function draw(view) {
  const { items, at, list, picked, page } = view;
  fill(list, page.may("write") && items.length > 1 && h("li.every", h("label",
    h("input", { type: "checkbox", onchange: () => pickAll(view) }), h("span", `Select all ${count(items.length)}`), key("X"))), items.map((item, i) => h("li", h("div.pick",
    page.may("write") ? h("input", { type: "checkbox", "aria-label": `Select ${item.title}`, checked: picked.has(item.id), onchange: () => pick(view, item.id) }) : h("span"),
    h("div",
      h("button.t", { type: "button", "aria-current": i === at && "true", dir: "auto", onclick: () => turn(view, i) }, short(item.title, 120)),
      h("span.sub", mark(KINDS[item.kind].name, KINDS[item.kind].look), ` ${item.author ?? ""}`))))));
  picks(view);
  detail(view);
}

/** Another one of the list, which stays as it is under somebody's fingers. */
function turn(view, i) {
  view.at = i;
  $$(".t", view.list).forEach((title, n) => (n === i ? title.setAttribute("aria-current", "true") : title.removeAttribute("aria-current")));
  detail(view);
}

async function detail(view) {
  const item = view.items[view.at];
  if (!item) return;
  if (item.memory || item.cluster) return pane(view, item);
  const id = item.id;
  try {
    const [memory, [about]] = await Promise.all([api.get(`/memories/${api.part(id)}`), api.get("/beliefs", { ids: [id] })]);
    item.memory = { ...memory, belief: about.belief };
    if (view.items[view.at]?.id === id) pane(view, item);
  } catch (error) {
    if (!view.page.signal.aborted) fill(view.pane, failed(error));
  }
}

function pane(view, item) {
  const { page, picked } = view;
  const { name, look, yes, no } = KINDS[item.kind];
  const { memory } = item;
  fill(view.pane,
    h("div", mark(name, look), h("h2.say", { dir: "auto" }, item.title), memory && h("p.when", { dir: "auto" }, memory.description)),
    h("p.note", { class: item.kind === "waiting" ? "m-bad" : item.kind === "doubted" ? "m-warn" : "" }, item.why),
    memory && h("div.lesson", item.kind === "waiting" ? h("pre.text", { tabindex: 0 }, short(memory.content, 4000)) : h("p.text", { dir: "auto" }, short(memory.content, 4000)), warningBox(memory)),
    item.cluster && h("div", h("h3", "Would become one"), h("ul.list", item.cluster.members.map((member) => h("li", memoryLink(page, member.id, member.title))))),
    memory && h("dl.facts",
      h("dt", "Evidence"), h("dd", capital(because(memory.belief))),
      h("dt", "Trust"), h("dd", `${TRUST[memory.belief.trust]?.name} ${fixed(memory.belief.confidence)}, nine times out of ten between ${fixed(memory.belief.low)} and ${fixed(memory.belief.high)}`, range(memory.belief)),
      h("dt", "Author"), h("dd", `${writer(memory.author, item.peer) ?? "not known"}, ${day(memory.created_at)}`),
      memory.tags.length > 0 && [h("dt", "Tags"), h("dd", tagged(memory.tags))],
      h("dt", "All of it"), h("dd", memoryLink(page, memory.id, "Evidence, history and kin"))),
    may(page, item) && h("div.bar",
      button(yes, () => decide(view, true), { look: "main", hint: "a" }),
      (memory || item.cluster) && button(memory ? "Edit" : "Merge and edit", () => change(view), { hint: "e" }),
      no && button(no, () => decide(view, false), { look: "risk", hint: "r" }),
      picked.size > 0 && mark(`${picked.size} selected: the answer goes to all`, "m-accent"),
      h("span.tip", key("j"), " ", key("k"), " move, ", key("x"), " select, ", key("u"), " undo")));
}

function move(view, by) {
  if (!view.items.length) return;
  turn(view, Math.max(0, Math.min(view.items.length - 1, view.at + by)));
  const row = $$(".t", view.list)[view.at];
  row?.scrollIntoView({ block: "nearest" });
  row?.focus({ preventScroll: true });
}

function pick(view, id) {
  if (!id) return;
  if (!view.picked.delete(id)) view.picked.add(id);
  picks(view);
  detail(view);
}

function pickAll(view) {
  const all = view.items.every((item) => view.picked.has(item.id));
  view.picked = new Set(all ? [] : view.items.map((item) => item.id));
  picks(view);
  detail(view);
}

function picks({ list, items, picked }) {
  $$(".pick input", list).forEach((box, i) => { box.checked = picked.has(items[i].id); });
  const every = $(".every input", list);
  if (!every) return;
  every.checked = picked.size > 0 && picked.size === items.length;
  every.indeterminate = picked.size > 0 && picked.size < items.length;
}

// ---- Deciding

const back = (ids) => () => Promise.all(ids.map((id) => api.post(`/memories/${api.part(id)}/restore`)));
const backOf = (batch) => () => api.post(`/batches/${api.part(batch)}/undo`);

/** What was merged has the id that was proposed for it; `why` the others were not. */
async function merged(ids, items) {
  const { batch, created_memories: done, skipped } = await api.post("/consolidate", { only: ids, force: true });
  const left = items.filter((item) => !done.includes(item.id));
  const told = skipped.find((one) => left.some(({ cluster }) => cluster.members.every(({ id }) => one.ids.includes(id))));
  return {
    done, back: done.length > 0 && backOf(batch),
    why: left.length > 0 && `Not merged: ${told?.reason ?? "what would become one has changed since"}`,
  };
}

/** What takes it back, if anything does; and what was done, where that is not all. */
const ANSWERS = {
  accept: async (ids) => { await api.post("/review/accept", { ids }); },
  reject: async (ids) => {
    await api.post("/review/reject", { ids, reason: "rejected in review" });
    return { back: back(ids) };
  },
  keep: async (ids) => {
    for (const id of ids) await api.post(`/memories/${api.part(id)}/feedback`, { helpful: true, comment: "kept in review" });
  },
  archive: async (ids) => {
    for (const id of ids) await api.post(`/memories/${api.part(id)}/archive`, { reason: "in review" });
    return { back: back(ids) };
  },
  merge: merged,
  // What was merged and taken apart again is not proposed a second time.
  apart: async (ids, items) => {
    const { done, back, why } = await merged(ids, items);
    if (back) await back();
    return { done, why };
  },
  // For good: nothing was shared that could come back.
  unshared: async (ids) => { await api.post("/promote", { reject: ids }); },
  share: async (ids) => {
    const { batch } = await api.post("/promote", { accept: ids });
    return batch ? { back: backOf(batch) } : { done: [], why: "Not shared: it has changed since" };
  },
};

const OTHERWISE = { merge: ["merge", "apart"], share: ["share", "unshared"], doubted: ["keep", "archive"] };
const answerFor = (item, yes) => (OTHERWISE[item.kind] ?? ["accept", "reject"])[yes ? 0 : 1];
/** Only a person answers for what agents wrote, and for what others shall see. */
const may = (page, item) => (item.kind === "share" ? page.may("admin") && page.session.person : OTHERWISE[item.kind] ? page.may("write") : page.session.person);

async function decide(view, yes) {
  const picked = view.picked.size ? view.items.filter((item) => view.picked.has(item.id)) : [view.items[view.at]].filter(Boolean);
  const chosen = picked.filter((item) => answerFor(item, yes) && may(view.page, item));
  const groups = Map.groupBy(chosen, (item) => answerFor(item, yes));
  if (!groups.size || view.busy) return;
  view.busy = true;
  const gone = [], undos = [];
  let problem = null;
  try {
    for (const [answer, items] of groups) {
      const ids = items.map((item) => item.id), { back, done = ids, why } = (await ANSWERS[answer](ids, items)) ?? {};
      gone.push(...done);
      if (back) undos.push(back);
      if (why) problem = new Error(why);
    }
  } catch (error) {
    problem = error;
  } finally {
    view.busy = false;
  }
  // Where one of several kinds was refused, the others are answered all the same.
  if (gone.length) {
    view.page.done(capital(`${gone.length > 1 ? `${count(gone.length)} ` : ""}${yes ? "accepted" : "rejected"}`),
      undos.length ? async () => { for (const one of undos) await one(); } : null);
    dropped(view, gone);
  }
  if (!problem) return;
  say(capital(problem.message));
  // Perhaps somebody else was quicker.
  if (!gone.length && problem.status !== 401) view.page.redraw();
}

function dropped(view, ids) {
  const before = view.items.slice(0, view.at).filter((item) => ids.includes(item.id)).length;
  view.items = view.items.filter((item) => !ids.includes(item.id));
  for (const id of ids) view.picked.delete(id);
  view.at = Math.max(0, Math.min(view.at - before, view.items.length - 1));
  arrange(view);
}

async function change(view) {
  const item = view.items[view.at];
  if (item?.cluster) return changeMerged(view, item);
  if (!item?.memory) return;
  const now = await edit(item.memory);
  if (!now) return;
  Object.assign(item, { title: now.title, memory: { ...item.memory, ...now } });
  view.page.done("Saved; the earlier revision is kept", takeBack(now));
  draw(view);
}

/** What would become one is written when it does: then it is edited. Whoever leaves that keeps the merge. */
async function changeMerged(view, item) {
  if (view.busy || !may(view.page, item)) return;
  view.busy = true;
  try {
    const { back, done: [id], why } = await merged([item.id], [item]);
    if (!id) {
      say(why);
      return view.page.redraw();
    }
    dropped(view, [id]);
    view.page.done("Merged", back);
    const now = await edit(await api.get(`/memories/${api.part(id)}`), "Edit what they became", "They are merged already: Cancel leaves it as the bank wrote it.");
    view.page.done(now ? "Merged and saved" : "Merged", back);
  } catch (error) {
    say(capital(error.message));
  } finally {
    view.busy = false;
  }
}

function empty({ tab }) {
  if (tab === "proposals") return h("div.empty", h("h2", "The bank proposes nothing."), h("p", "When several memories say the same, or several projects know the same, it is proposed here."));
  return h("div.empty", h("h2", "Nothing waits for you."), h("p", "New lessons from agents wait here until tasks go well with them. You may leave that to the evidence."));
}

const ANSWERED = ["memory.archived", "memory.forgotten", "memory.accepted"];
const BROUGHT = ["memory.recorded", "memory.restored", "memory.undone"];

let pending = null;
function fresh(view, event) {
  const item = view.items.find((one) => one.id === event.subject);
  if (item && !view.busy) {
    // Somebody else was quicker, in another tab or through the command.
    if (ANSWERED.includes(event.what)) return dropped(view, [item.id]);
    if (event.what === "memory.revised" || event.what === "memory.undone") return renewed(view, item);
  }
  if (item || !BROUGHT.includes(event.what) || !api.isHere(event) || view.busy || view.tab === "proposals") return;
  clearTimeout(pending);
  // Where nothing was waiting nobody is reading: draw at once. Else the list says that it has grown.
  pending = setTimeout(() => {
    if (!view.items.length) return view.page.redraw();
    grown(view);
  }, 300);
}

function grown(view) {
  if (!$("#more-waits")) view.list.prepend(h("li", { id: "more-waits" }, h("button.new", { type: "button", onclick: () => view.page.redraw() }, "There may be more: look again")));
}

async function renewed(view, item) {
  try {
    const now = await api.get(`/memories/${api.part(item.id)}`, {}, view.page.signal);
    Object.assign(item, { title: now.title, memory: null });
    draw(view);
  } catch { /* It is gone since, which is told next. */ }
}

// ---- Taking back

async function revert(page) {
  const { authors } = await api.get("/overview");
  // What one would else have to know by its number is offered by its name, as soon as that is there.
  const known = (id, asked, options) => {
    const list = h("datalist", { id });
    asked.then((told) => fill(list, options(told).map(([value, text]) => h("option", { value }, text)))).catch(() => {});
    return list;
  };
  const open = ({ kind, steps, undone }) => kind === "import" && undone < steps;
  const asked = await form("Revert a batch", "Takes back all that one author, session or import wrote, and what was made from it. Nothing happens before you have seen what would.", [
    choice("Author", "author", [["", "Not by author"], ...authors.map(({ name, count: number }) => [name, `${writer(name)}, ${plural(number, "memory", "memories")}`])]),
    h("div.pair", textField("Session", "session", "", { list: "sessions", autocomplete: null }), textField("Import or other batch", "batch", "", { list: "imports", autocomplete: null })),
    known("sessions", api.get("/sessions", { limit: 100 }), ({ sessions }) => sessions.map((one) => [one.id, `${short(one.task, 80)}, ${when(one.created_at)}`])),
    known("imports", api.get("/batches", { limit: 100 }), (batches) => batches.filter(open).map((one) => [one.batch, `${plural(one.created.length, "memory", "memories")}, ${when(one.at)}`])),
    field("Since", h("input", { name: "since", type: "date" })),
  ], "Show what would happen", async (values) => {
    const what = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
    if (what.since) what.since = `${what.since}T00:00:00Z`;
    return { what, plan: await api.post("/revert", { ...what, dry_run: true }) };
  });
  if (!asked) return;
  const { plan, what } = asked;
  if (!plan.archived.length && !plan.restored.length && !plan.changed.length && !plan.links && !plan.evidence) return say("There is nothing to take back");
  const named = plan.archived.length ? await api.get("/beliefs", { ids: plan.archived.slice(0, 5) }).catch(() => []) : [];
  const title = (id) => named.find((one) => one.id === id)?.title;
  const some = (ids) => h("ul", ids.slice(0, 5).map((id) => h("li.small", title(id) ? h("span", { dir: "auto" }, short(title(id), 80)) : h("code", id))), ids.length > 5 && h("li.small.soft", `and ${count(ids.length - 5)} more`));
  const memories = plan.archived.length + plan.changed.length;
  const agreed = await ask("Revert this?", [
    h("ul",
      h("li", h("b", "Would archive "), plural(plan.archived.length, "memory", "memories"), plan.archived.length > 0 && some(plan.archived)),
      plan.restored.length > 0 && h("li", h("b", "Would bring back "), plural(plan.restored.length, "memory", "memories")),
      plan.changed.length > 0 && h("li", h("b", "Would undo edits of "), plural(plan.changed.length, "memory", "memories")),
      h("li", h("b", "Would no longer count "), `${plural(plan.evidence, "piece")} of evidence and ${plural(plan.links, "link")}`),
      plan.left.length > 0 && h("li", h("b", "Leaves "), `${plural(plan.left.length, "memory", "memories")} of other workspaces, or of which a person said something`)),
    h("p.tip", "Nothing is deleted from the log: undo brings it back."),
  ], memories ? `Revert ${plural(memories, "memory", "memories")}` : "Revert");
  if (!agreed) return;
  try {
    const { batch } = await api.post("/revert", what);
    page.done("Reverted", batch && (() => api.post(`/batches/${api.part(batch)}/undo`)));
    page.redraw();
  } catch (error) {
    say(capital(error.message));
  }
}
