// What agents did, which lessons they were given, what was learned from it.

import * as api from "../api.js";
import { $$, fill, h } from "../dom.js";
import { command, failed, head, memoryLink, say } from "../parts.js";
import { TRUST, capital, clock, count, lasting, plural, short, when, writer } from "../words.js";

const DOTS = { success: "d-good", failure: "d-bad", mixed: "d-warn" };
const WORDS = { success: "succeeded", failure: "failed", mixed: "mixed outcome" };
const TONES = { success: "good", failure: "bad", mixed: "warn" };
const STEPS = 300;

const dot = (session) => h("span.dot", { class: DOTS[session.outcome] ?? "d-off" });
const word = (session) => WORDS[session.outcome] ?? "no outcome";

export async function show(page) {
  const lede = head("Sessions", "What agents did, which lessons they were given, and what was learned from it.");
  const reply = await api.get("/sessions", { limit: 50 }, page.signal);
  if (!reply.sessions.length && !page.id) {
    return { nodes: [lede, h("div.empty", h("h2", "No session has been handed in yet."), h("p", "Wired agents hand in each session when it ends. Those that were written down before can be read, too:"), command("reasonbank backfill"))] };
  }
  const view = { page, ...reply, list: h("ol", { "aria-label": "Sessions" }), pane: h("div.pane", { "aria-live": "polite" }) };
  view.at = page.id ? view.sessions.findIndex((session) => session.id === page.id) : 0;
  draw(view);
  await open(view, page.id ?? view.sessions[0].id, { keep: true });
  return {
    title: "Sessions", nodes: [lede, h("div.split", view.list, view.pane)],
    keys: { j: () => move(view, 1), k: () => move(view, -1) },
    live: (event) => event.what.startsWith("trace.") && api.isHere(event) && page.redraw(),
  };
}

function draw(view) {
  fill(view.list, view.sessions.map((session, i) => row(view, session, i)), view.cursor && more(view));
}

function row(view, session, i) {
  return h("li", h("button.pick", { type: "button", "aria-current": i === view.at && "true", onclick: () => choose(view, i) }, dot(session),
    h("span", h("span.t", { dir: "auto" }, short(session.task, 120)),
      h("span.sub", [writer(session.agent), when(session.created_at), word(session)].filter(Boolean).join(", ")),
      h("span.sub", session.held_out ? "went without memory, chosen at random" : `${plural(session.given, "lesson")} given, ${count(session.learned)} learned`))));
}

function more(view) {
  return h("li", h("button.new", {
    type: "button",
    onclick: async () => {
      try {
        const reply = await api.get("/sessions", { limit: 50, cursor: view.cursor }, view.page.signal);
        view.sessions.push(...reply.sessions);
        view.cursor = reply.cursor;
        draw(view);
      } catch (error) {
        if (!view.page.signal.aborted) say(capital(error.message));
      }
    },
  }, `Older, ${count(view.total - view.sessions.length)} more`));
}

function choose(view, i) {
  view.at = i;
  for (const [n, one] of $$(".pick", view.list).entries()) n === i ? one.setAttribute("aria-current", "true") : one.removeAttribute("aria-current");
  open(view, view.sessions[i].id);
}

function move(view, by) {
  choose(view, Math.max(0, Math.min(view.sessions.length - 1, view.at + by)));
  $$(".pick", view.list)[view.at]?.scrollIntoView({ block: "nearest" });
}

async function open(view, id, { keep = false } = {}) {
  view.open = id;
  if (!keep) history.replaceState(null, "", view.page.link(`sessions/${id}`));
  try {
    const found = await api.get(`/sessions/${api.part(id)}`, {}, view.page.signal);
    if (view.open === id) fill(view.pane, told(view.page, found));
  } catch (error) {
    if (!view.page.signal.aborted && view.open === id) fill(view.pane, failed(error));
  }
}

function told(page, { trace, given, learned, held_out: without }) {
  const times = trace.trajectory.map((step) => step.at).filter(Boolean).map(Date.parse);
  const lasted = times.length > 1 ? lasting((Math.max(...times) - Math.min(...times)) / 1000) : null;
  const agent = trace.metadata?.agent;
  const ofStep = new Map();
  for (const one of learned) if (one.span) ofStep.set(one.span[1], [...(ofStep.get(one.span[1]) ?? []), one]);
  const loose = learned.filter((one) => !one.span || !trace.trajectory[one.span[1] - 1]);
  return [
    h("div", h("h2.say", { dir: "auto" }, short(trace.task, 400)),
      h("p.meta", h("span.mono", trace.id), agent && h("span", writer(agent)), h("span", when(trace.created_at), lasted && `, ${lasted}`), h("span", plural(trace.trajectory.length, "step")),
        h("span", { class: TONES[trace.outcome] ?? "" }, word(trace)))),
    without && h("p.note", "Chosen at random to go without memory, so that the worth of memory can be measured."),
    given.map((one) => h("div", h("h3", "Given ", h("span.soft.small", [clock(one.at), one.moment].filter(Boolean).join(", "))),
      h("ul.given", one.memories.map((memory) => h("li", memoryLink(page, memory.id, memory.title), memory.weak && h("span.soft", " weak match")))))),
    loose.length > 0 && h("p.learned", "Learned: ", lessons(page, loose)),
    h("ol.steps", trace.trajectory.slice(0, STEPS).map((step, i) => stepRow(page, step, i + 1, ofStep.get(i + 1)))),
    trace.trajectory.length > STEPS && h("p.tip", `${count(trace.trajectory.length - STEPS)} more steps: `, command(`reasonbank trace show ${trace.id}`)),
  ];
}

const lessons = (page, some) => some.map((one, i) => [
  i > 0 && ", ", memoryLink(page, one.id, one.title), h("span.soft", ` ${TRUST[one.trust]?.name.toLowerCase() ?? ""}`)]);

/** A step went badly if it says so: an exit code that is not 0, or a low score. */
function tone(step) {
  const text = `${step.content ?? ""}\n${step.feedback ?? ""}`.slice(0, 4000);
  if (step.score !== null && step.score !== undefined) return step.score >= 0.5 ? "d-good" : "d-bad";
  const code = /exit(?:ed with)? code:? (\d+)/i.exec(text);
  if (code) return code[1] === "0" ? "d-good" : "d-bad";
  return /^(error|traceback)/im.test(text) ? "d-bad" : "d-off";
}

function stepRow(page, step, number, learned) {
  const [first, ...rest] = step.action.split("\n");
  const more = [rest.join("\n"), step.content].filter(Boolean).join("\n");
  return h("li", h("span.n", number), h("span.dot", { class: tone(step) }),
    h("div", h("b", { dir: "auto" }, short(first, 240)), " ", step.at && h("span.soft.small", clock(step.at)),
      more && h("pre", { tabindex: 0, dir: "auto" }, short(more, 4000)),
      step.feedback && h("p.soft.small", { dir: "auto" }, short(step.feedback, 800)),
      learned && h("p.learned", `Learned from steps ${learned[0].span.join(" to ")}: `, lessons(page, learned))));
}
