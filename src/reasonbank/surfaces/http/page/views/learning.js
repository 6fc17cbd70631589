// What memory is worth, whether forecasts can be believed, what keeps going wrong, what is missing.

import * as api from "../api.js";
import { bars, calibration, figure, whisker } from "../charts.js";
import { h } from "../dom.js";
import { button, command, head, mark, memoryLink, newer, part, table } from "../parts.js";
import { record } from "../record.js";
import { count, day, fixed, percent, plural, points, short, when } from "../words.js";

const FEW = 3;
const SHOWN = 24;

export async function show(page) {
  const [report, gaps] = await Promise.all([api.get("/report", {}, page.signal), api.get("/gaps", { limit: 20 }, page.signal)]);
  const { memory } = report;
  const lede = head("Learning", "What memory is worth, whether forecasts can be believed, and what keeps going wrong.");
  const counts = ["task.", "evidence.", "trace.", "gaps."];
  const live = newer(page, (event) => counts.some((one) => event.what.startsWith(one)) && api.isHere(event), "More tasks have ended: count again");
  const rest = [learned(report), mistakes(page, report), missing(page, gaps)];
  if (!report.tasks) {
    return {
      live,
      nodes: [lede,
        h("div.empty", h("h2", "No task has said how it went yet."),
          h("p", "When an agent reports how a task ended, the lessons that it was given are credited or blamed. Wired agents do that by themselves."),
          command("reasonbank install"), h("p.tip", "Or by hand, for a session that searched before:"), command("reasonbank outcome --session ID --succeeded")),
        h("div.halves", h("div", rest[0], rest[1]), h("div", rest[2]))],
    };
  }
  return {
    live,
    nodes: [
      lede, h("p.say", sentence(memory)), h("p.tip", rested(report)),
      h("div.halves",
        h("div", compared(memory), forecasts(report.calibration)),
        h("div", rest)),
      lessons(page, report)],
  };
}

function sentence({ difference, low, high }) {
  if (difference === null) return "What memory is worth cannot be told yet: no task has gone without it.";
  const more = Math.abs(Math.round(difference * 100)), direction = difference >= 0 ? "more" : "less";
  if (low > 0) return `Tasks succeed ${more} points more often with memory. The interval excludes 0: it helps.`;
  if (high < 0) return `Tasks succeed ${more} points less often with memory. The interval excludes 0: it hurts.`;
  return `Tasks succeed ${more} points ${direction} often with memory. The interval still includes 0, so this is not proven.`;
}

function rested({ tasks, held_out: without, needed, hold_out_share: share }) {
  const more = needed?.tasks;
  return [
    `${plural(tasks, "task")} ended; ${count(without)} of them went without memory, chosen at random.`,
    more ? ` About ${count(more)} more would settle it, if the difference stays the same.` : "",
    without || share ? "" : " To compare, let a share of the tasks go without: the setting proof.hold_out.",
  ];
}

const ends = (from, to) => h("span.ends", h("span", from), h("span", to));

function compared(memory) {
  const rate = (won, all) => {
    const share = (won + 1) / (all + 2), spread = 1.96 * Math.sqrt(share * (1 - share) / (all + 3));
    return { value: all ? won / all : 0, low: Math.max(0, share - spread), high: Math.min(1, share + spread), lo: 0, hi: 1, zero: null };
  };
  const row = (name, won, all, tone, scale) => all > 0 && [
    [name, h("br"), h("span.soft.small", `${count(won)} of ${count(all)}`)],
    [whisker({ ...rate(won, all), tone, label: `${name}: ${percent(won / all)}` }), scale],
    h("b", percent(won / all)),
  ];
  if (!memory.with_memory && !memory.without) {
    return part("With and without", "", h("p.soft", "None of these tasks asked the bank before it ended, so none counts as with or without memory."));
  }
  const reach = memory.difference === null ? 0.5 : Math.min(1, Math.max(0.5, Math.abs(memory.low), Math.abs(memory.high)));
  return part("With and without", "bars are 95 % intervals", table([{ name: "Tasks" }, { name: "95 % interval" }, { name: "Success", num: true }], [
    row("With memory", memory.with_succeeded, memory.with_memory, ""),
    row("Without, at random", memory.without_succeeded, memory.without, "w-soft", ends("0 %", "100 %")),
    memory.difference !== null && [
      ["Difference", h("br"), h("span.soft.small", "points")],
      [whisker({ value: memory.difference, low: memory.low, high: memory.high, lo: -reach, hi: reach, label: `difference ${points(memory.difference)} points, from ${points(memory.low)} to ${points(memory.high)}` }), ends(points(-reach), points(reach))],
      h("b", points(memory.difference))],
  ].filter(Boolean), "forest"));
}

function forecasts({ count: uses, bins, expected_error: off, brier }) {
  if (!uses) return part("Can forecasts be believed?", "", h("p.soft", "No outcome has put a forecast to the test yet."));
  return part("Can forecasts be believed?", plural(uses, "use"), h("div.beside",
    figure((width) => calibration(bins, width)),
    h("p.tip", `On the dashed line, 70 % means seven times out of ten. Grey dots are off by more than chance. Off by ${fixed(off)} on average; Brier score ${fixed(brier)}, where always saying 50 % gets 0.25.`)));
}

function learned({ learned: weeks = [] }) {
  if (!weeks.some((week) => week.count)) return part("Learned by week", "", h("p.soft", "Nothing in the last twelve weeks."));
  return part("Learned by week", `${count(weeks.at(-1).count)} this week`, figure((width) => bars(weeks.map((week) => ({ count: week.count, label: day(week.week) })), width)));
}

function mistakes(page, { repeated_mistakes: told }) {
  const rows = told.in_sessions.by_warning.filter((one) => one.again || one.avoided).slice(0, 12);
  const { again, avoided, although_shown: shown } = told.in_sessions;
  if (!rows.length) {
    return part("Mistakes that came again", "after a warning was stored", h("p.soft", told.failures
      ? `${count(told.warned)} of ${plural(told.failures, "failure")} came after a warning against the same mistake was stored.`
      : "No session ran into a failure that a warning was stored for."));
  }
  return part("Mistakes that came again", "after a warning was stored", [
    table([{ name: "Warning" }, { name: "Again", num: true }, { name: "Avoided", num: true }],
      rows.map((one) => [memoryLink(page, one.id, one.title), { node: h("span", { class: one.again ? "bad" : "" }, count(one.again)), num: true }, count(one.avoided)]), ""),
    h("p.tip", `${count(again)} came again, ${count(shown)} of them although the warning was shown; ${count(avoided)} were avoided.`)]);
}

function missing(page, gaps) {
  if (!gaps.length) return part("Gaps", "asked in vain", h("p.soft", "Nothing has been asked in vain so far."));
  return part("Gaps", "asked in vain, most asked first", table(
    [{ name: "Question" }, { name: "Asked", num: true }, { name: "Wordings", num: true }, { name: "Last" }, { name: "Action", num: true, hide: true }],
    gaps.map((gap) => [
      h("a", { href: page.link("search", { q: gap.question }), dir: "auto" }, short(gap.question, 160)),
      { node: count(gap.asked), num: true, label: "asked" }, { node: count(1 + gap.wordings.length), num: true, label: "wordings" }, { node: when(gap.last_asked), soft: true },
      page.may("write") ? button("Record a lesson", () => record(page, { description: short(gap.question, 1000) }), { look: "quiet", label: `Record a lesson for: ${short(gap.question, 80)}` }) : ""])));
}

function verdict({ without, low, high }) {
  if (without < FEW) return ["Too few", "", "w-soft"];
  if (low > 0) return ["Helps", "m-good", "w-good"];
  return high < 0 ? ["Hurts", "m-bad", "w-bad"] : ["Unclear", "", "w-soft"];
}

function lessons(page, { by_memory: by }) {
  if (!by.length) return part("Which lessons help, which hurt", "", h("p.soft", "This shows once tasks have gone with and without a lesson."));
  const rows = by.length > SHOWN ? [...by.slice(0, SHOWN / 2), ...by.slice(-SHOWN / 2)] : by;
  return part("Which lessons help, which hurt", `points of success with it, against tasks chosen to go without${rows.length < by.length ? `; the best and the worst of ${count(by.length)}` : ""}`, table(
    [{ name: "Lesson" }, { name: "−100 to +100 points, 95 %" }, { name: "Points", num: true }, { name: "With", num: true }, { name: "Without", num: true }, { name: "Verdict" }],
    rows.map((one) => {
      const [word, look, tone] = verdict(one);
      return [
        memoryLink(page, one.id, one.title),
        whisker({ value: Math.max(one.low, Math.min(one.high, one.difference)), low: one.low, high: one.high, tone, label: `${points(one.difference)} points, from ${points(one.low)} to ${points(one.high)}` }),
        { node: points(one.difference), num: true, label: "points" },
        { node: `${one.with_succeeded}/${one.with_memory}`, num: true, label: "with" },
        { node: `${one.without_succeeded}/${one.without}`, num: true, label: "without" },
        mark(word, look)];
    }), "forest stack"));
}
