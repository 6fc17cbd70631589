// Banks that learn together with this one: who they are, what they brought, how far they are trusted.

import * as api from "../api.js";
import { $$, h } from "../dom.js";
import { ask, button, command, head, mark, memoryLink, part, say, table } from "../parts.js";
import { capital, count, day, plural, short, when } from "../words.js";

const LOOKS = { "on probation": "dashed", trusted: "m-good", "cut off": "m-bad", "two stories": "m-bad" };
const MEANS = {
  "on probation": "Searches find its memories and mark them; no agent is given them unasked until somebody here confirms them.",
  trusted: "What it says counts as if it had been said here.",
  "cut off": "Nothing is told to it or heard from it. To have it back, join it with an invitation that it makes.",
  "two stories": "It signed two histories that contradict each other. Nothing of it counts from where they part.",
};
const SHOWN = 5;
const SETTLE = 400;
const LOOK = 10_000;

export async function show(page) {
  const lede = head("Peers", "Banks that learn together: what one records reaches the others, and is on probation there until it proves itself.");
  if (!page.may("admin") || !page.session.whole) {
    return { nodes: [lede, h("div.empty", h("h2", "Only whoever looks after the whole bank sees this."), h("p", "Other banks are told of all workspaces that are shared with them."))] };
  }
  const told = await api.get("/peers", {}, page.signal);
  if (told.missing) {
    return { nodes: [lede, h("div.empty", h("h2", "The bus is not installed."), h("p", `${capital(told.missing.split(":")[0])}. Without it all else works.`), command("pip install 'reasonbank[bus]'"))] };
  }
  const { own, peers } = told;
  const chosen = peers.find((peer) => peer.key === page.id) ?? (peers.length === 1 ? peers[0] : null);
  const waiting = chosen ? await api.get("/review", { hand: chosen.hand, limit: SHOWN }, page.signal) : [];
  return {
    title: "Peers",
    nodes: [
      lede,
      peers.length > 0 ? [known(page, peers, chosen), chosen && detail(page, chosen, waiting)] : empty(),
      told.offers.length > 0 && tasks(page, told.offers),
      h("div.halves", h("div", self(own)), h("div", invite(page, told.invitations, peers.length > 0)))],
    keys: { j: () => move(1), k: () => move(-1) },
    ...watch(page, told),
  };
}

// ---- This bank

function self(own) {
  return part("This bank", "as others know it", h("dl.facts",
    h("dt", "Name"), h("dd", own.name),
    h("dt", "Key"), h("dd", command(own.key, "the key of this bank")),
    h("dt", "Reached at"), h("dd", own.address),
    h("dt", "Shares"), h("dd", own.channels.length ? own.channels.join(", ") : "nothing yet")));
}

function invite(page, invitations, more) {
  if (!more && !invitations.length) return null;
  const takeBack = (one) => async () => {
    try {
      await api.post(`/peers/${api.part(one.id)}/revoke`, {});
      page.done("Took the invitation back");
      page.redraw();
    } catch (error) {
      say(capital(error.message));
    }
  };
  return part("Invite another bank", "", [
    more && h("p.tip", "This prints a token: ", h("code", "peer join"), " with that, at the other bank, is all it takes."),
    more && command("reasonbank peer invite"),
    invitations.length > 0 && h("p.tip", `${plural(invitations.length, "invitation is", "invitations are")} open:`),
    invitations.map((one) => h("p.tip", h("code", one.id.slice(0, 8)), ` ${one.name ? `for ${one.name}, ` : ""}until ${day(one.expires_at)} `, page.session.person && button("Take back", takeBack(one))))]);
}

const empty = () => h("div.empty",
  h("h2", "No other bank yet."),
  h("p", "Your second machine, or a colleague's: joining two takes two commands. What a team knows is shared, no project's own memories."),
  h("ol",
    h("li", h("div", h("p", "Here: prints a token, and waits for the other bank to come."), command("reasonbank peer invite"))),
    h("li", h("div", h("p", "At the other bank: paste what was printed."), command("reasonbank peer join TOKEN"))),
    h("li", h("div", h("p", "At both, to stay in touch:"), command("reasonbank serve --bus")))));

// ---- The others

function known(page, peers, chosen) {
  return part("Known here", plural(peers.length, "bank"), table(
    [{ name: "Bank" }, { name: "State" }, { name: "Shares" }, { name: "Said", num: true }, { name: "Brought", num: true }, { name: "To review", num: true }, { name: "Last seen" }],
    peers.map((peer) => [
      [h("a.peer", { href: page.link(`peers/${peer.key}`), "aria-current": peer === chosen && "true", dir: "auto" }, h("b", peer.name)), " ", h("code.soft", peer.key.slice(0, 8))],
      mark(peer.state, LOOKS[peer.state]), { node: peer.channels.join(", ") || "nothing", soft: true },
      { node: count(peer.entries), num: true, label: "said" }, { node: count(peer.brought), num: true, label: "brought" },
      { node: peer.waiting ? reviewLink(page, peer, count(peer.waiting), h("span.sr", ` of ${peer.name} to review`)) : "0", num: true, label: "to review" },
      { node: when(peer.seen_at), soft: true, label: "seen" }])));
}

const reviewLink = (page, peer, ...text) => h("a", { href: page.link("review", { hand: peer.hand }) }, text);

function move(by) {
  const rows = $$("a.peer");
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
}

function detail(page, peer, waiting) {
  const said = [
    peer.memories !== null && plural(peer.memories, "memory", "memories"), peer.version && `version ${peer.version}`,
    peer.load !== null && `load ${peer.load.toFixed(1)}`].filter(Boolean).join(", ");
  return part(peer.name, "", [
    h("p.note", { class: LOOKS[peer.state] === "m-bad" ? "m-bad" : "" }, MEANS[peer.state]),
    !page.session.person && h("p.tip", "Only a person says whom this bank learns from: sign in with ", h("code", "reasonbank open"), ", or run ", h("code", "reasonbank peer"), "."),
    h("div.halves",
      h("div", h("dl.facts",
        h("dt", "Key"), h("dd", command(peer.key, `the key of ${peer.name}`)),
        h("dt", "Address"), h("dd", peer.address ?? "not known: it calls this bank"),
        h("dt", "Shares"), h("dd", peer.channels.join(", ") || "nothing"),
        h("dt", "It says"), h("dd", said || "nothing of itself"),
        h("dt", "Known since"), h("dd", day(peer.added_at)),
        h("dt", "Last seen"), h("dd", when(peer.seen_at)))),
      h("div", h("h3", "Brought, and not confirmed yet"),
        peer.waiting === 0 && h("p.soft", "Nothing waits for review."),
        h("ul.list", waiting.map((one) => h("li", memoryLink(page, one.id, short(one.title, 120))))),
        peer.waiting > waiting.length && h("p.soft", waiting.length ? `and ${count(peer.waiting - waiting.length)} more, some perhaps of other workspaces` : `${plural(peer.waiting, "memory waits", "memories wait")} in other workspaces.`),
        waiting.length > 0 && h("p", reviewLink(page, peer, "Accept or reject them in Review")))),
  ], page.session.person && acts(page, peer));
}

// ---- What a person may do

function acts(page, peer) {
  const path = `/peers/${api.part(peer.key)}`;
  const act = (work) => async () => {
    try {
      const done = await work();
      if (!done) return;
      page.done(...done);
      page.redraw();
    } catch (error) {
      say(capital(error.message));
    }
  };
  const trust = act(async () => {
    const agreed = await ask(`Trust ${peer.name}?`, [
      h("p", "From now on what it says counts as if it had been said here: its lessons need no confirmation, its evidence counts in full, and it may change and archive what it recorded."),
      peer.waiting > 0 && h("p", `${plural(peer.waiting, "memory", "memories")} that it brought ${peer.waiting === 1 ? "is" : "are"} accepted.`),
      h("p.tip", "For your own second machine, or for somebody whose word you would take unread."),
    ], "Trust it");
    if (!agreed) return null;
    const { accepted } = await api.post(`${path}/trust`, { trusted: true });
    return [`${peer.name} is trusted; accepted ${plural(accepted, "memory", "memories")}`];
  });
  const doubt = act(async () => {
    if (!await ask(`No longer trust ${peer.name}?`, h("p", "What it says from now on is on probation again. What it said so far stays as it is."), "No longer trust")) return null;
    await api.post(`${path}/trust`, { trusted: false });
    return [`${peer.name} is no longer trusted`];
  });
  const cut = act(async () => {
    const agreed = await ask(`Cut ${peer.name} off?`, [
      h("ul",
        h("li", h("b.bad", "Ends: "), "nothing is told to it or heard from it any more, neither its own words nor what others say through it."),
        h("li", h("b", "Stays: "), "what it brought so far, and what it was told.")),
      h("p.tip", "To have it back, join it with an invitation that it makes."),
    ], "Cut off");
    if (!agreed) return null;
    await api.post(`${path}/revoke`, {});
    return [`Cut off ${peer.name}`];
  });
  const takeBack = act(async () => {
    const { reverted: plan } = await api.post(`${path}/revoke`, { revert: true, dry_run: true });
    const agreed = await ask(peer.state === "cut off" ? `Take back what ${peer.name} brought?` : `Cut ${peer.name} off, and take back what it brought?`, [
      h("ul",
        peer.state !== "cut off" && h("li", h("b.bad", "Ends: "), "nothing is told to it or heard from it any more."),
        h("li", h("b", "Goes to the archive: "), plural(plan.archived.length, "memory", "memories"), ", and what was made from them."),
        plan.changed.length + plan.restored.length > 0 && h("li", h("b", "Is as before: "), plural(plan.changed.length + plan.restored.length, "memory", "memories"), " that it changed."),
        h("li", h("b", "Counts no longer: "), `${plural(plan.evidence, "piece")} of evidence and ${plural(plan.links, "link")}.`)),
      h("p.tip", "Nothing is deleted from the log: undo brings what was taken back, though not the peer."),
    ], peer.state === "cut off" ? "Take back" : "Cut off and take back");
    if (!agreed) return null;
    const { reverted } = await api.post(`${path}/revoke`, { revert: true });
    return [`Took back ${plural(reverted.archived.length, "memory", "memories")} of ${peer.name}, which is cut off`,
      reverted.batch && (() => api.post(`/batches/${api.part(reverted.batch)}/undo`))];
  });
  return h("div.btns",
    peer.state === "on probation" && button("Trust…", trust),
    peer.state === "trusted" && button("No longer trust…", doubt),
    peer.state !== "cut off" && button("Cut off…", cut, { look: "risk" }),
    button(peer.state === "cut off" ? "Take back what it brought…" : "Cut off and take back…", takeBack, { look: "risk" }));
}

// ---- Tasks

function tasks(page, offers) {
  const dollars = (amount) => `$${amount.toFixed(2)}`;
  return part("Tasks", "offered to others, or done for them", table(
    [{ name: "Task" }, { name: "Whose" }, { name: "State" }, { name: "Spent", num: true }, { name: "Until" }],
    offers.map((offer) => [
      offer.trace ? h("a", { dir: "auto", href: page.link(`sessions/${offer.trace}`) }, short(offer.task, 160)) : h("span", { dir: "auto" }, short(offer.task, 160)), offer.ours ? (offer.peer ? `ours, done by ${offer.peer}` : "ours, nobody has it yet") : `of ${offer.peer ?? "another bank"}`,
      mark(offer.state, offer.state === "done" ? "m-good" : ""), { node: `${dollars(offer.spent)} of ${dollars(offer.most)}`, num: true, label: "spent" },
      { node: when(offer.expires_at), soft: true, label: "until" }])));
}

// ---- What is new

/** Memories that come are told by the stream; that a peer was there leaves no event. */
function watch(page, told) {
  const sight = ({ peers, ...rest }) => JSON.stringify([rest, peers.map(({ load, seen_at, ...peer }) => [peer, when(seen_at)])]);
  const before = sight(told);
  const look = async () => {
    try {
      if (sight(await api.get("/peers", {}, page.signal)) !== before) page.redraw();
    } catch { /* The next look tells. */ }
  };
  const looking = setInterval(look, LOOK);
  let soon;
  return {
    live: () => {
      clearTimeout(soon);
      soon = setTimeout(look, SETTLE);
    },
    leave: () => {
      clearInterval(looking);
      clearTimeout(soon);
    },
  };
}
