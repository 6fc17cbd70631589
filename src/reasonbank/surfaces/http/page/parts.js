// Parts that several views are made of.

import { Unreachable } from "./api.js";
import { range } from "./charts.js";
import { $, fill, h, s } from "./dom.js";
import { KINDS, TRUST, because, capital, fixed } from "./words.js";

export const key = (name) => h("kbd", { "aria-hidden": "true" }, name);

export const head = (title, lede, ...acts) =>
  h("div.head", h("div", h("h1", title), lede && h("p.lede", lede)), acts.some(Boolean) && h("div.btns", acts));

export const part = (title, note, body, end) =>
  h("section.part", { "aria-label": title },
    h("header", h("h2", title), note && h("span.soft", note), end && h("span.end", end)), body);

export const button = (text, act, { look = "", hint, label } = {}) =>
  h("button.btn", {
    type: "button", class: look, onclick: act, "aria-label": label, "aria-keyshortcuts": hint,
  }, text, hint && key(hint));

export const mark = (text, look = "", title) => h("span.mark", { class: look, title }, text);

export function kind(memory) {
  const { name, stroke, path } = KINDS[memory.outcome] ?? KINDS.mixed;
  return s("svg.kind", { class: stroke, viewBox: "0 0 14 14", role: "img", "aria-label": name }, s("path", { d: path }));
}

export const kindName = (memory) => (KINDS[memory.outcome] ?? KINDS.mixed).name;

/** What a glance must not miss: that it warns, is not settled yet, or is shared. */
export const marks = (memory, { warning = true } = {}) => [
  warning && memory.outcome === "failure" && mark("Warning", "m-warn"),
  memory.belief?.trust === "quarantined" && mark("Quarantined", "m-bad"),
  memory.belief?.trust === "probation" && mark("On probation", "dashed"),
  memory.suspicious?.length > 0 && mark("Suspicious", "m-bad", `Its text ${memory.suspicious.join(", ")}`),
  memory.state === "archived" && mark("Archived", "dashed"),
  memory.scope !== "project" && mark(memory.scope === "org" ? "Org" : "Team"),
];

export const warningBox = (memory) => {
  const told = memory.error_context;
  return told && h("dl.said",
    h("dt", "Fails"), h("dd", { dir: "auto" }, [told.error_type, told.failure_pattern].filter(Boolean).join(": ")),
    h("dt", "Instead"), h("dd", { dir: "auto" }, told.corrective_guidance));
};

export const memoryLink = (page, id, title) => h("a", { href: page.link(`memory/${id}`), dir: "auto" }, title || "a memory that is gone");

export const trustRow = (belief) => [
  h("div.row", h("span", TRUST[belief.trust]?.name),
    h("span", h("b", fixed(belief.confidence)), ` ${fixed(belief.low)}–${fixed(belief.high)}`)),
  range(belief),
];

export const why = (belief) => capital(because(belief));

export function command(text, what = `the command ${text}`) {
  return h("div.cmd", h("code", { tabindex: 0 }, text),
    h("button.btn.quiet", {
      type: "button", "aria-label": `Copy ${what}`,
      onclick: async (event) => {
        try {
          await navigator.clipboard.writeText(text);
          say("Copied");
        } catch {
          // A browser lets nobody copy who came over plain http from another machine.
          getSelection().selectAllChildren(event.target.closest(".cmd").firstElementChild);
          say("Selected: copy it with your keyboard");
        }
      },
    }, "Copy"));
}

/** A table: columns are {name, num, hide}; cells are nodes, or {label, num, soft, node}. */
export function table(columns, rows, look = "stack") {
  return h("table", { class: look },
    h("thead", h("tr", columns.map((column) =>
      h("th", { class: column.num ? "num" : "", scope: "col" }, column.hide ? h("span.sr", column.name) : column.name)))),
    h("tbody", rows.map((row) => h("tr", row.map((cell, i) => {
      const { num = columns[i]?.num, label, soft, node = cell } = cell?.node === undefined ? {} : cell;
      return h("td", { class: `${num ? "num" : ""} ${soft ? "soft" : ""}`.trim() || null, "data-l": label }, node);
    })))));
}

/** A message with its commands, which stand between backticks. */
export const worded = (text) => text.split(/`([^`]+)`/).map((piece, i) => (i % 2 ? h("code", piece) : piece));

let clearing;
export function say(text) {
  fill($("#toast"), worded(text));
  clearTimeout(clearing);
  clearing = setTimeout(() => fill($("#toast")), 4000);
}

/** A dialog that is open. Resolves, when it is closed, to the value of the button that closed it. */
export function dialog(title, body, { look = "" } = {}) {
  const opened = h("dialog", { class: look, "aria-labelledby": "dialog-title" }, h("h2", { id: "dialog-title" }, title), body);
  const closed = new Promise((resolve) => opened.addEventListener("close", () => {
    opened.remove();
    resolve(opened.returnValue);
  }));
  document.body.append(opened);
  opened.showModal();
  return closed;
}

/** Ask before what cannot be undone. Resolves to true when it was agreed to. */
export async function ask(title, body, agree) {
  const answer = await dialog(title, [body, h("form.acts", { method: "dialog" },
    h("button.btn", { autofocus: true, value: "" }, "Cancel", key("Esc")),
    h("button.btn.risk", { value: "yes" }, agree))]);
  return answer === "yes";
}

/** A form in a dialog. `send` gets its values, and those that it began with, as its fields show
 * them: a line has no line breaks. What it throws stands in the form. */
export async function form(title, lede, fields, agree, send) {
  const problem = h("p.bad", { role: "alert", hidden: true });
  const values = (element) => Object.fromEntries(
    [...element.elements].filter((field) => field.name).map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]));
  let result = null;
  const close = () => body.closest("dialog").close();
  const body = h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      const submit = $("button.main", body);
      submit.disabled = true;
      try {
        result = await send(values(body), first);
        close();
      } catch (error) {
        problem.hidden = false;
        fill(problem, worded(error.message));
      } finally {
        submit.disabled = false;
      }
    },
  }, fields, problem,
  h("div.acts",
    h("button.btn", { type: "button", onclick: close }, "Cancel", key("Esc")),
    h("button.btn.main", { type: "submit" }, agree)));
  const first = values(body);
  await dialog(title, [lede && h("p", lede), body], { look: "wide-one" });
  return result;
}

export const field = (label, input) => h("label.field", h("span", label), input);
export const textField = (label, name, value = "", more = {}) => field(label, h("input", { name, value, autocomplete: "off", ...more }));
export const textArea = (label, name, value = "", more = {}) => field(label, h("textarea", { name, value, ...more }));
export const choice = (label, name, options, value = "") =>
  field(label, h("select.sel", { name }, options.map(([id, text]) => h("option", { value: id, selected: id === value }, text))));

/** Says at the top of a view that there is something new, and draws it when that is wanted: what
 * is read does not move. */
export const newer = (page, concerns, text) => (event) => {
  if (!concerns(event) || $("#newer")) return;
  $("main h1")?.closest(".head")?.after(h("button.new", { type: "button", id: "newer", onclick: () => page.redraw() }, text));
};

/** What is there to see when something went wrong, and what repairs it. */
export function failed(error) {
  const { status } = error;
  const gone = [404, 410].includes(status), unreachable = error instanceof Unreachable;
  return h("div.empty", { role: "alert", class: unreachable ? "away" : "" },
    h("h2", gone ? "This does not exist, or you may not see it." : unreachable ? "The server cannot be reached." : "This could not be shown."),
    h("p", worded(`${capital(error.message).replace(/\.$/, "")}.`)),
    unreachable && [h("p.tip", "If nobody starts it again:"), command("reasonbank serve")],
    // What the caller asked for was wrong, or somebody else is served just now: nothing is broken.
    !unreachable && !(status >= 400 && status < 500) && [h("p.tip", "Find what is wrong:"), command("reasonbank doctor")]);
}
