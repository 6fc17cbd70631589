// Where the bank lives, who may use it, whether it is well, who changed what.

import * as api from "../api.js";
import { $, $$, fill, h } from "../dom.js";
import { ask, button, choice, command, dialog, failed, field, form, head, mark, memoryLink, newer, part, say, table, textField } from "../parts.js";
import { called, capital, count, day, plural, short, spaceName, straight, when } from "../words.js";

const DOTS = { ok: "d-good", warn: "d-warn", fail: "d-bad" };
const LOGGED = 25;

export async function show(page) {
  const whole = page.may("admin") && page.session.whole;
  const health = h("div", part("Health", "", h("p.soft", { role: "status" }, "Checking every part…")));
  examine(page, health);
  const { workspaces, seq } = await api.session();
  const [about, audit, tokens] = await Promise.all([
    api.get("/about", {}, page.signal), api.get("/audit", { limit: LOGGED }, page.signal),
    whole ? api.get("/tokens", {}, page.signal) : null]);
  // How many lessons each has by now, and where it belongs.
  if (workspaces) page.spaces.splice(0, page.spaces.length, ...workspaces);
  const titles = await titled(page, audit);
  return {
    nodes: [
      head("Settings", "Where this bank lives, who may use it, and whether it is well.",
        // Beside the name of who came in, where there is room for that.
        page.session.needed && h("span.only-narrow", button("Sign out", page.signOut))),
      h("div.halves", h("div", places(page), bank(about)), health),
      tokens && keys(page, tokens),
      log(page, audit, titles)],
    live: newer(page, (event) => event.seq > seq && event.what !== "memory.used", "Something was written since: look again"),
  };
}

const attempt = (page, work) => async () => {
  try {
    const text = await work();
    if (!text) return;
    page.done(text);
    page.redraw();
  } catch (error) {
    say(capital(error.message));
  }
};

// ---- Workspaces

function places(page) {
  const { spaces } = page;
  const manage = page.may("admin");
  if (!spaces.length) return part("Workspaces", "", h("p.soft", "None yet: a project is one as soon as something is known there."));
  const orgs = new Set(spaces.map((space) => space.org));
  return part("Workspaces", orgs.size === 1 ? `org ${spaces[0].org}` : plural(orgs.size, "org"), table(
    [{ name: "Name" }, { name: "Team" }, { name: "Lessons", num: true }, { name: "Action", num: true, hide: true }],
    spaces.map((space) => [
      [h("b", spaceName(space)), space.path && [h("br"), h("span.soft.small", space.path)]], orgs.size === 1 ? space.team : `${space.team}, ${space.org}`,
      { node: count(space.memories), num: true, label: "lessons" },
      manage ? [button("Rename", rename(page, space), { look: "quiet", label: `Rename ${spaceName(space)}` }), " ",
        page.session.whole && [button("Team", join(page, space), { look: "quiet", label: `Team of ${spaceName(space)}` }), " "],
        button("Delete…", discard(page, space), { look: "quiet risk", label: `Delete ${spaceName(space)}` })] : ""])));
}

const rename = (page, space) => attempt(page, async () => {
  const now = await form("Rename the workspace", null, [textField("Name", "name", spaceName(space), { required: true })], "Rename",
    ({ name }) => api.post(`/workspaces/${api.part(space.id)}/name`, { name }));
  return now && `Renamed to ${now.name}`;
});

const join = (page, space) => attempt(page, async () => {
  const now = await form(`Team of ${spaceName(space)}`, "Workspaces of a team see each other's lessons with team scope; those of an org, lessons with org scope.",
    [textField("Team", "team", space.team, { required: true }), textField("Org", "org", space.org, { required: true })], "Save",
    ({ team, org }) => api.post(`/workspaces/${api.part(space.id)}/join`, { team, org }));
  return now && `${spaceName(space)} is in the team ${now.team} of ${now.org}`;
});

const discard = (page, space) => attempt(page, async () => {
  const agreed = await ask(`Delete ${spaceName(space)} for good?`, [
    h("p", "This cannot be undone."),
    h("ul", h("li", h("b.bad", "Goes: "), `${plural(space.memories, "lesson")} with revisions and evidence, its sessions, its gaps.`),
      h("li", h("b", "Stays: "), "the log of who changed what, without text; other workspaces.")),
  ], "Delete for good");
  if (!agreed) return null;
  await api.remove(`/workspaces/${api.part(space.id)}`, { confirm: true });
  setTimeout(() => location.assign("/settings"));
  return "Deleted";
});

function bank(about) {
  const facts = [
    ["Version", about.version], ["Store", about.store], ["Engine", about.engine], ["Embedder", about.embedder + (about.semantic ? "" : ", words only")],
    ["Reasoner", about.reasoner + (about.model ? `, ${about.model}` : "")], ["Belief", about.belief], ["Comparison", about.hold_out ? `${Math.round(about.hold_out * 100)} % of tasks go without memory, at random` : "no task goes without memory"],
  ];
  return part("Bank", "", h("dl.facts", facts.filter(([, value]) => value).map(([name, value]) => [h("dt", name), h("dd", value)])));
}

/** With many memories this takes seconds: the rest does not wait for it. */
async function examine(page, place) {
  try {
    fill(place, wellbeing(await api.get("/health", {}, page.signal)));
  } catch (error) {
    if (!page.signal.aborted) fill(place, failed(error));
  }
}

function wellbeing({ checks }) {
  const bad = checks.filter((check) => check.status !== "ok").length;
  return part("Health", bad ? plural(bad, "thing") + " to do" : "all is well", h("table.checks", h("tbody", checks.map((check) =>
    h("tr", h("td.nowrap", h("span.dot", { class: DOTS[check.status] ?? "d-off" }), h("span.sr", `${check.status}: `), capital(check.name.replaceAll("_", " "))),
      h("td", check.found, check.status !== "ok" && check.repair && (/^reasonbank [^;,]+$/.test(check.repair) ? command(check.repair) : h("p.small.soft", check.repair))))))));
}

// ---- Tokens

function keys(page, tokens) {
  const valid = tokens.filter((token) => token.state === "valid");
  const reach = (token) => (token.workspaces ? token.workspaces.map((id) => spaceName(page.space(id) ?? { id })).join(", ") : "all");
  const revoke = (token) => attempt(page, async () => {
    if (!await ask(`Revoke ${straight(token.name)}?`, h("p", "It opens nothing from then on. Whoever uses it must be given a new one."), "Revoke")) return null;
    await api.remove(`/tokens/${api.part(token.id)}`);
    return `Revoked ${token.name}`;
  });
  return part("Tokens", "secrets are shown once, when made", valid.length ? table(
    [{ name: "Name" }, { name: "May" }, { name: "Reaches" }, { name: "Last used" }, { name: "Ends" }, { name: "Action", num: true, hide: true }],
    valid.map((token) => [
      h("b", token.name), mark(token.scope), short(reach(token), 120), { node: when(token.last_used), soft: true, label: "used" },
      { node: token.expires_at ? day(token.expires_at) : "never", soft: true, label: "ends" },
      button("Revoke", revoke(token), { look: "quiet risk", label: `Revoke ${token.name}` })])) : h("p.soft", "None: this server needs no token yet."),
  button("New token", () => newToken(page)));
}

async function newToken(page) {
  const made = await form("New token", "Whoever has it may do what it says, and nothing else.", [
    textField("Name", "name", "", { required: true }),
    choice("May", "scope", [["read", "Read"], ["write", "Read and write"], ["admin", "Everything"]], "write"),
    choice("Reaches", "workspace", [["", "All workspaces"], ...called(page.spaces)]),
    field("Ends after so many days (empty: never)", h("input", { name: "days", type: "number", min: 1, max: 36500 })),
  ], "Make it", ({ name, scope, workspace, days }) => api.post("/tokens", {
    name, scope, ...(workspace ? { workspaces: [workspace] } : {}), ...(days ? { expires_days: Number(days) } : {}),
  }));
  if (!made) return;
  await dialog(`Token ${made.name}`, [
    h("p", "Copy it now: it cannot be shown again."), command(made.token),
    h("form.acts", { method: "dialog" }, h("button.btn.main", "Done"))]);
  page.redraw();
}

// ---- Who changed what

async function titled(page, changes) {
  const subjects = [...new Set(changes.filter((change) => /^(memory|evidence|link)\./.test(change.what)).map((change) => change.subject))];
  const known = subjects.length ? await api.get("/beliefs", { ids: subjects }, page.signal) : [];
  return new Map(known.map((one) => [one.id, one.title]));
}

const listed = (page, changes, titles) => table(
  [{ name: "What" }, { name: "Of" }, { name: "Who" }, { name: "Through" }, { name: "At", num: true }, { name: "No.", num: true }],
  changes.map((change) => [
    h("code.nowrap", change.what), titles.has(change.subject) ? memoryLink(page, change.subject, short(titles.get(change.subject), 100))
      : /^trace\.(stored|learned)$/.test(change.what) ? h("a", { href: page.link(`sessions/${change.subject}`) }, "a session")
      : h("span.soft", short(change.subject, 40)),
    h("span.nowrap", straight(short(change.author, 32))), { node: h("span.nowrap", change.surface), label: "through" }, { node: when(change.at), num: true, soft: true }, { node: count(change.seq), num: true, soft: true, label: "no." }]));

function log(page, changes, titles) {
  if (!changes.length) return part("Audit", "who changed what; never the text", h("p.soft", "Nothing was written yet."));
  const shown = listed(page, changes, titles);
  let last = changes;
  const more = button("Show older changes", async () => {
    try {
      const next = await api.get("/audit", { limit: LOGGED, before: last.at(-1).seq }, page.signal);
      const rows = $$("tbody tr", listed(page, next, await titled(page, next)));
      $("tbody", shown).append(...rows);
      if (next.length < LOGGED) more.remove();
      else last = next;
    } catch (error) {
      if (!page.signal.aborted) say(capital(error.message));
    }
  }, { look: "quiet" });
  return part("Audit", "who changed what; never the text", [shown, changes.length === LOGGED && more]);
}
