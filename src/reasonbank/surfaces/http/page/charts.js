// Small charts of SVG nodes: attributes and classes only, so the policy needs no inline style.
// Bars are in percent and stretch; charts with two axes are drawn at their width in pixels, and
// again when that changes, so that type never scales.

import { fill, h, s } from "./dom.js";
import { clock, count, day, fixed, percent, plural, short } from "./words.js";

const pc = (share) => `${Math.round(share * 1000) / 10}%`;
const clamp = (share) => Math.max(0, Math.min(1, share));
const tenth = (number) => Math.round(number * 10) / 10;
const drawing = (label, props, ...kids) => s("svg", { role: "img", "aria-label": label, ...props }, kids);

/** A figure that draws itself at its own width. */
export function figure(draw) {
  const frame = h("figure");
  let drawn = 0;
  new ResizeObserver(([{ contentRect }]) => {
    const width = Math.floor(contentRect.width);
    if (width < 80 || width === drawn) return;
    drawn = width;
    fill(frame, draw(width));
  }).observe(frame);
  return frame;
}

/** Where belief stands: the bar is the 90 % interval, the dot the confidence, the tick the start. */
export function range({ confidence, low, high, prior = null }, height = 12) {
  const y = height / 2;
  return drawing(
    `confidence ${fixed(confidence)}, nine times out of ten between ${fixed(low)} and ${fixed(high)}`,
    { width: "100%", height },
    s("rect.f-track", { x: 0, y: y - 3, width: "100%", height: 6, rx: 3 }),
    s("rect.f-range", { x: pc(low), y: y - 3, width: pc(Math.max(0, high - low)), height: 6, rx: 3 }),
    prior !== null && s("line.s-soft", { x1: pc(prior), x2: pc(prior), y1: y - 6, y2: y + 6 }),
    s("circle.f-point", { cx: pc(clamp(confidence)), cy: y, r: 5 }),
  );
}

/** How a score was made: what is added in tints, what trust and scope take off hatched. */
export function scoreBar(made, height = 12) {
  const { added, composite, score } = made;
  const kept = composite > 0 ? score / composite : 0;
  const less = added.reduce((sum, one) => sum + Math.min(0, one.value), 0);
  const bars = [];
  let x = 0;
  for (const one of added.filter((one) => one.value > 0)) {
    const value = Math.max(0, one.value + (bars.length ? 0 : less)) * kept;
    bars.push(s("rect", { class: one.tint, x: pc(x), y: 2, width: pc(value), height: height - 4 }));
    x += value;
  }
  const hatches = [];
  for (let at = x + 0.012; at < Math.min(1, composite); at += 0.02) {
    hatches.push(s("line.hatch", { x1: pc(at), x2: pc(at), y1: 3, y2: height - 3 }));
  }
  return drawing(
    `score ${fixed(score)}, ${fixed(composite)} before trust and scope`,
    { width: "100%", height },
    s("rect.f-none", { x: 0, y: 2, width: "100%", height: height - 4, rx: 2 }),
    bars, hatches,
  );
}

/** One step of the sum that a score is. */
export const span = (from, to, tint) =>
  s("svg", { "aria-hidden": "true", width: "100%", height: 10 },
    s("rect.f-none", { width: "100%", height: 10 }),
    s("rect", {
      class: tint, x: pc(clamp(Math.min(from, to))), height: 10,
      width: pc(Math.max(0.004, Math.abs(to - from))),
    }));

const SEEN = 0.007; // Of the width: one among ten thousand can be seen, too.

/** All that is known, by how far it is trusted. */
export function strip(groups) {
  const all = groups.reduce((sum, group) => sum + group.count, 0) || 1;
  const shares = groups.map((group) => Math.max(SEEN, group.count / all)), whole = shares.reduce((sum, share) => sum + share, 0);
  let x = 0;
  return drawing(
    groups.map((group) => `${group.count} ${group.name}`).join(", ") || "no lesson",
    { class: "strip", width: "100%", height: 10 },
    groups.map((group, i) => {
      const share = shares[i] / whole;
      const bar = s("rect", { class: group.tint, x: pc(x), y: 0, width: pc(share - 0.003), height: 10 });
      x += share;
      return bar;
    }),
  );
}

/** Evidence for (right) and against (left) of a middle line. */
export const diverge = (plus, minus, most, weak) =>
  s("svg", { "aria-hidden": "true", width: "100%", height: 10 },
    s("rect.f-bad", { x: pc(0.5 - 0.5 * minus / most), width: pc(0.5 * minus / most), height: 10 }),
    s("rect", { class: weak ? "f-soft" : "f-good", x: "50%", width: pc(0.5 * plus / most), height: 10 }),
    s("line.s-soft", { x1: "50%", x2: "50%", y1: 0, y2: 10 }));

const DOT = { "w-bad": "f-bad", "w-good": "f-good", "w-soft": "f-soft", "": "f-a" };

/** A value and its interval on a scale from lo to hi, with a line at zero. */
export function whisker({ value, low, high, lo = -1, hi = 1, tone = "", label, zero = 0 }) {
  const at = (v) => pc(clamp((v - lo) / (hi - lo)));
  return drawing(label, { width: "100%", height: 16 },
    s("line.axis", { x1: 0, x2: "100%", y1: 8, y2: 8 }),
    zero !== null && s("line.axis.zero", { x1: at(zero), x2: at(zero), y1: 0, y2: 16 }),
    low !== null && s("line.whisk", { class: tone, x1: at(low), x2: at(high), y1: 8, y2: 8 }),
    s("circle", { class: DOT[tone], cx: at(value), cy: 8, r: 4 }));
}

const SHORTEST = 6e5; // Ten minutes, of a memory that is new.
const LANE = { outcome: 0, explicit: 1, stability: 1, usage: 2 };

/** Belief day by day, with every piece of evidence below it. `at` is in milliseconds. */
export function belief({ series, evidence, archivedBelow, width, label }) {
  const [height, left, right, top, bottom] = [232, 32, 12, 10, 66];
  const first = series[0].at, last = Math.max(series.at(-1).at, first + SHORTEST), said = last - first < 864e5 ? clock : day;
  const wide = width - left - right, high = height - top - bottom;
  const x = (at) => tenth(left + wide * clamp((at - first) / (last - first)));
  const y = (share) => tenth(top + high * (1 - share));
  const path = (pick) => series.map((p, i) => `${i ? "L" : "M"}${x(p.at)} ${y(pick(p))}`).join("");
  const back = [...series].reverse().map((p) => `L${x(p.at)} ${y(p.low)}`).join("");
  const roomy = width > 560;
  const dates = Array.from({ length: roomy ? 5 : 3 }, (_, i, all = roomy ? 4 : 2) => first + (last - first) * i / all);
  const end = series.at(-1);
  return drawing(label, { class: "chart", width, height, viewBox: `0 0 ${width} ${height}` },
    [0, archivedBelow, 0.6, 1].map((v) => [
      s("line.axis", { class: v % 1 ? "zero" : "", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v),
    ]),
    s("path.f-band", { d: path((p) => p.high) + back + "Z" }),
    s("path.f-line", { d: path((p) => p.confidence) }),
    roomy && s("text", { x: width - right - 2, y: y(0.6) - 4, "text-anchor": "end" }, "proven when the lower edge is above 0.6"),
    roomy && s("text", { x: width - right - 2, y: y(archivedBelow) - 4, "text-anchor": "end" }, `archived below ${archivedBelow}`),
    s("circle.f-point", { cx: x(end.at), cy: y(end.confidence), r: 5 }),
    evidence.map((one) => {
      const at = x(one.at), under = top + high + 10 + LANE[one.kind] * 12;
      const title = s("title", `${day(one.at)}: ${one.text}`);
      if (one.kind === "usage") {
        return s("line.tick.s-soft", { x1: at, x2: at, y1: under, y2: under + 7 }, title);
      }
      return one.positive
        ? s("path.f-good", { d: `M${at - 4} ${under + 8}l4 -8l4 8z` }, title)
        : s("path.f-bad", { d: `M${at - 4} ${under}l4 8l4 -8z` }, title);
    }),
    dates.map((at, i) => (i === 0 || said(at) !== said(dates[i - 1])) && s("text", {
      x: x(at), y: height - 6,
      "text-anchor": i === 0 ? "start" : i === dates.length - 1 ? "end" : "middle",
    }, said(at))),
  );
}

const Z = 1.645;

/** Where a share lies nine times out of ten that was seen of so many, and be it of one (Wilson's
 * interval with Yates's correction). */
function between(share, of) {
  const edge = (way) => (2 * of * share + Z * Z + way * (1 + Z * Math.sqrt(Z * Z - 1 / of + 4 * of * share * (1 - share) - way * (4 * share - 2)))) / (2 * (of + Z * Z));
  return { low: share > 0 ? clamp(edge(-1)) : 0, high: share < 1 ? clamp(edge(1)) : 1 };
}

/** Forecast against what came true; the dot's area is the number of uses. */
export function calibration(bins, width) {
  const size = Math.min(width, 320), left = 34, bottom = 34, side = size - left - 10;
  const x = (v) => tenth(left + v * side), y = (v) => tenth(8 + (1 - v) * side);
  const most = Math.max(...bins.map((bin) => bin.count));
  return drawing("Forecast against what came true",
    { class: "chart plot", width: size, height: side + 12 + bottom, viewBox: `0 0 ${size} ${side + 12 + bottom}` },
    [0, 0.25, 0.5, 0.75, 1].map((v) => [
      s("line.axis", { x1: x(0), x2: x(1), y1: y(v), y2: y(v) }),
      v % 0.5 === 0 && s("text", { x: x(v), y: y(0) + 16, "text-anchor": "middle" }, `${v * 100} %`),
      v % 0.5 === 0 && s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v * 100),
    ]),
    s("line.axis.zero", { x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    bins.map((bin) => {
      const { low, high } = between(bin.observed, bin.count), off = bin.predicted < low || bin.predicted > high;
      return s("g",
        s("title", `${plural(bin.count, "use")}: forecast ${percent(bin.predicted)}, came true ${percent(bin.observed)}`),
        s("line.whisk", { class: off ? "w-soft" : "", x1: x(bin.predicted), x2: x(bin.predicted), y1: y(low), y2: y(high) }),
        s("circle", { class: off ? "f-soft" : "f-a", cx: x(bin.predicted), cy: y(bin.observed), r: tenth(3 + 5 * Math.sqrt(bin.count / most)) }));
    }),
    s("text", { x: x(0.5), y: side + bottom + 10, "text-anchor": "middle" }, "forecast (across), came true (up)"));
}

const NODE = { width: 236, height: 46, right: 32, below: 34 };

/** Parents above children, rivals to the side. Nodes: {id, title, sub, row, col, self, gone, href}. */
export function graph(nodes, edges) {
  const { width, height } = NODE, across = width + NODE.right, down = height + NODE.below;
  const cols = Math.max(...nodes.map((node) => node.col)) + 1;
  const rows = Math.max(...nodes.map((node) => node.row)) + 1;
  const at = new Map(nodes.map((node) => [node.id, [node.col * across + 1, node.row * down + 1]]));
  return s("svg", { role: "group", "aria-label": "Genealogy and rivals", width: cols * across - NODE.right + 2, height: rows * down - NODE.below + 2 },
    edges.filter(([a, b]) => at.has(a) && at.has(b)).map(([a, b, kind]) => {
      const [x1, y1] = at.get(a), [x2, y2] = at.get(b);
      const sideways = `M${x1 + width} ${y1 + height / 2}C${x1 + width + 16} ${y1 + height / 2} ${x2 - 16} ${y2 + height / 2} ${x2} ${y2 + height / 2}`;
      const downwards = `M${x1 + width / 2} ${y1 + height}C${x1 + width / 2} ${y1 + height + 20} ${x2 + width / 2} ${y2 - 20} ${x2 + width / 2} ${y2}`;
      return s("path.kin", { class: kind === "against" ? "against" : "", d: kind ? sideways : downwards });
    }),
    nodes.map((node) => {
      const [x, y] = at.get(node.id);
      const body = [
        s("title", node.title),
        s("rect", { x, y, width, height, rx: 6 }),
        s("text", { x: x + 10, y: y + 19 }, short(node.title, 34)),
        s("text.sub", { x: x + 10, y: y + 36 }, short(node.sub, 38)),
      ];
      return node.self
        ? s("g.node.self", body)
        : s("a.node", { class: node.gone ? "gone" : "", href: node.href }, body);
    }));
}

/** Bars by week, the last one strong. */
export function bars(weeks, width) {
  const height = 84, tall = 56, most = Math.max(1, ...weeks.map((week) => week.count)), wide = width / weeks.length;
  const often = Math.max(1, Math.ceil(weeks.length * 52 / width));
  return drawing(weeks.map((week) => `${week.label}: ${week.count}`).join(", "),
    { class: "chart", width, height, viewBox: `0 0 ${width} ${height}` },
    weeks.map((week, i) => {
      const size = tall * week.count / most, last = i === weeks.length - 1, middle = tenth(i * wide + wide / 2 - 1);
      return [
        s("rect", { class: last ? "f-a" : "f-b", x: tenth(i * wide + 1), y: tenth(14 + tall - size), width: tenth(wide - 4), height: tenth(Math.max(1, size)) }),
        s("text", { class: last ? "strong" : "", x: middle, y: tenth(10 + tall - size), "text-anchor": "middle" }, count(week.count)),
        (weeks.length - 1 - i) % often === 0 && s("text", { x: last ? width - 4 : middle, y: height - 1, "text-anchor": last ? "end" : "middle" }, week.label),
      ];
    }));
}

