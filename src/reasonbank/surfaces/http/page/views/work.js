// What the bank does in the background, and what it could not do.

import * as api from "../api.js";
import { h } from "../dom.js";
import { button, command, head, mark, part, say, table } from "../parts.js";
import { capital, count, lasting, plural, short, since, when } from "../words.js";

const LOOKS = { running: "m-accent", waiting: "", dead: "m-bad", done: "m-good" };
const KINDS = { consolidate: "Consolidate", maintain: "Maintain", promote: "Promote", distil: "Learn from a session", extract: "Draw the lesson from an answer" };
const PLACES = { distil: "sessions", extract: "memory" };
const SENSE = {
  consolidate: "merges what says the same", maintain: "archives what proved useless, rolls up old evidence", promote: "proposes what other projects should know",
};

export async function show(page) {
  const jobs = (state) => api.get("/jobs", { state, limit: 100 }, page.signal);
  const [work, running, waiting, dead] = await Promise.all([api.get("/work", {}, page.signal), jobs("running"), jobs("waiting"), jobs("dead")]);
  const { queue, worker } = work;
  const figure = (number, text, look = "") => h("div", h("b", { class: look }, number), h("span", text));
  return {
    nodes: [
      head("Work", "What the bank does in the background, and what it could not do."),
      h("div.stats",
        figure(count(queue.running), "running"),
        figure(count(queue.waiting), queue.oldest_seconds ? `waiting, the oldest ${lasting(queue.oldest_seconds)}` : "waiting"),
        figure(count(queue.dead), "failed for good", queue.dead ? "bad" : ""),
        figure(count(work.done_this_week), "done this week"),
        figure(worker ? "1" : "0", worker ? `worker: ${worker.process}, since ${when(worker.since)}` : "no worker is running")),
      queued(page, [...running, ...waiting], worker),
      dead.length > 0 && failures(page, dead),
      schedule(work.schedule)],
    live: (event) => event.what === "work" && page.redraw(),
  };
}

const named = (page, job) => [h("b", KINDS[job.kind] ?? job.kind), " ",
  PLACES[job.kind] ? h("a.mono", { href: page.link(`${PLACES[job.kind]}/${job.subject}`) }, job.subject) : job.subject !== job.workspace && h("span.soft", job.subject)];

function queued(page, jobs, worker) {
  if (!jobs.length) return part("Queue", "", h("p.soft", "Nothing waits. Sessions that agents hand in come here, to be learned from."));
  return part("Queue", "", [
    !worker && h("div", h("p.note.m-warn", "Nothing works on these: start a worker."), command("reasonbank worker")),
    table([{ name: "Job" }, { name: "State" }, { name: "Attempts", num: true }, { name: "Waits", num: true }, { name: "Due" }],
      jobs.map((job) => [
        named(page, job), mark(job.state, LOOKS[job.state]),
        { node: count(job.attempts), num: true, label: "attempts" }, { node: since(job.created_at), num: true, label: "for" }, { node: job.due ? when(job.due) : "", soft: true, label: "due" }]))]);
}

function failures(page, jobs) {
  const retry = (some) => async () => {
    try {
      for (const job of some) await api.post(`/jobs/${api.part(job.id)}/retry`);
      page.done(`${plural(some.length, "job waits", "jobs wait")} for a worker again`);
      page.redraw();
    } catch (error) {
      say(capital(error.message));
    }
  };
  return part("Failed for good", "nothing is lost: what they were to learn from is kept", table(
    [{ name: "Job" }, { name: "Why" }, { name: "When" }, { name: "Action", num: true, hide: true }],
    jobs.map((job) => [
      named(page, job), short(job.error ?? "", 400), { node: when(job.created_at), soft: true },
      page.may("write") ? button("Retry", retry([job]), { label: `Retry: ${KINDS[job.kind] ?? job.kind} ${job.subject}` }) : ""])),
  page.may("write") && jobs.length > 1 && button("Retry all", retry(jobs), { look: "quiet" }));
}

function schedule(entries) {
  return part("Schedule", "in your time zone", table([{ name: "What" }, { name: "How often" }, { name: "Last" }, { name: "Result" }, { name: "Next" }],
    entries.map((entry) => [
      [h("b", KINDS[entry.kind] ?? entry.kind), " ", h("span.soft", SENSE[entry.kind] ?? "")],
      entry.every_hours ? `every ${lasting(entry.every_hours * 3600)}` : "never by itself",
      { node: entry.last ? when(entry.last.at) : "never", soft: true, label: "last" },
      entry.last ? (entry.last.error ? h("span.bad", short(entry.last.error, 200)) : entry.last.state) : "",
      { node: entry.next ? when(entry.next) : "–", label: "next" }])));
}
