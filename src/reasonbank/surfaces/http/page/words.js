// Numbers, dates and the words of trust, said the same way everywhere.

export const fixed = (number) => (number ?? 0).toFixed(2);
/** Never 100 %: nobody is that sure. */
export const percent = (share) => (share > 0.97 ? "> 97 %" : `${Math.round(share * 100)} %`);
export const points = (share) => {
  const whole = Math.round(share * 100);
  return `${whole < 0 ? "−" : "+"}${Math.abs(whole)}`;
};
export const count = (number) => Number(number ?? 0).toLocaleString("en-GB");
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
export const capital = (text) => (text ? text[0].toUpperCase() + text.slice(1) : "");
export const short = (text, most = 80) => {
  const letters = [...String(text ?? "").slice(0, most * 4)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
};

const DAY = 864e5;
const date = (at) => (at instanceof Date ? at : new Date(at));
const sameYear = (at) => date(at).getFullYear() === new Date().getFullYear();

export const day = (at) =>
  date(at).toLocaleDateString("en-GB", {
    day: "numeric", month: "short", ...(sameYear(at) ? {} : { year: "numeric" }),
  });
export const clock = (at) => date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

/** "14:02" today, "yesterday", else the day; of what is still to come the time, too. */
export function when(at) {
  if (!at) return "never";
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (date(at) >= midnight && date(at) < midnight + DAY) return clock(at);
  if (date(at) >= midnight - DAY && date(at) < midnight) return "yesterday";
  if (date(at) > midnight) return `${day(at)}, ${clock(at)}`;
  return day(at);
}

/** "3 min", "5 h", "2 days". */
export function lasting(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 129600) return `${Math.round(s / 3600)} h`;
  return plural(Math.round(s / 86400), "day");
}
export const since = (at) => lasting((Date.now() - date(at)) / 1000);

export const KINDS = {
  success: { name: "Strategy", stroke: "s-good", path: "M2.5 7.5l3 3 6-7" },
  failure: { name: "Warning", stroke: "s-bad", path: "M7 1.5l6 11H1zM7 6v3M7 11v.2" },
  mixed: { name: "Mixed", stroke: "s-soft", path: "M2 5.5h10M2 9.5h10" },
};
export const SCOPES = {
  project: "this project only", team: "all projects of the team", org: "the whole org",
};

/** How far a memory is trusted, in one word: what it is called, what it is drawn with. */
export const TRUST = {
  proven: { name: "Proven", tint: "f-a" },
  likely: { name: "Likely", tint: "f-b" },
  untested: { name: "Untested", tint: "f-c" },
  probation: { name: "On probation", tint: "f-wait" },
  doubted: { name: "Doubted", tint: "f-bad" },
  quarantined: { name: "Quarantined", tint: "f-soft" },
  archived: { name: "Archived", tint: "f-soft" },
};

/** Why: what tasks, people and the code said of it. */
export function because(belief) {
  const tried = belief.tasks_succeeded + belief.tasks_failed;
  const times = (number) => (number > 1 ? ` ${number}×` : "");
  const said = [
    tried && `${count(belief.tasks_succeeded)} of ${plural(tried, "task")} succeeded with it`,
    belief.rated_helpful && `rated helpful ${belief.rated_helpful}×`,
    belief.rated_unhelpful && `rated not helpful ${belief.rated_unhelpful}×`,
    belief.code_kept && `code kept${times(belief.code_kept)}`,
    belief.code_reverted && `code reverted${times(belief.code_reverted)}`,
  ].filter(Boolean);
  return said.length ? said.join(", ") : "no task has tried it yet";
}

/** A name within a sentence of the page: what turns the direction of writing in it would turn the
 * words after it, too. */
export const straight = (name) => name && String(name).replace(/[\u202a-\u202e\u2066-\u2069]/g, "");

export const tagged = (tags) => tags.map(straight).join(", ");

/** Who wrote it, and at which bank, where that is another one: its author names that by its key. */
export const writer = (author, peer) => straight(peer ? `${(author ?? "").replace(/@[0-9a-f]{16}$/, "")} at ${peer}` : author);

/** What kind of hand wrote it. An agent writes in the name of the person who runs it. */
export const HANDS = {
  person: "a person", agent: "an agent", model: "a language model", import: "an import", peer: "another bank", bank: "the bank itself",
};

/** What becomes of a lesson on probation. Unasked it is given to the agents of whoever's it is alone. */
export const onProbation = (kind) => (["agent", "model"].includes(kind)
  ? "prompts give it with a warning until tasks go well with it or a person accepts it."
  : "searches find it, marked; no agent is given it unasked until somebody here confirms it.");

/** Workspaces by what they are called; of those that are called the same, the folder above tells
 * them apart, or else the id. */
export function called(spaces) {
  const often = new Map();
  for (const space of spaces) often.set(spaceName(space), (often.get(spaceName(space)) ?? 0) + 1);
  const name = (space) => {
    const own = spaceName(space), above = space.path?.split("/").filter(Boolean).at(-2);
    return often.get(own) > 1 ? `${own} (${above ?? space.id.slice(0, 6)})` : own;
  };
  return spaces.map((space) => [space.id, name(space)]).sort(([, one], [, other]) => one.localeCompare(other, "en", { numeric: true }));
}

export const spaceName = (space) => straight(space.name) || space.path?.split("/").filter(Boolean).at(-1) || space.id;
