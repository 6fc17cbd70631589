// Recording a lesson, and changing one: the same form.

import * as api from "./api.js";
import { $, $$, h } from "./dom.js";
import { choice, form, textArea, textField } from "./parts.js";
import { straight } from "./words.js";

const KINDS = [["success", "Strategy: it works"], ["failure", "Warning: it fails"], ["mixed", "Mixed"]];
const OF_WARNING = [["error_type", "Kind of error"], ["failure_pattern", "What fails"], ["corrective_guidance", "What to do instead"]];

const words = (text) => text.split(",").map((word) => word.trim()).filter(Boolean);

/** What a warning says besides is asked for where there is one: all of it or nothing. */
function fields(memory) {
  const told = memory.error_context;
  const kind = choice("Kind", "outcome", KINDS, memory.outcome ?? "success");
  const warning = h("div", OF_WARNING.map(([name, label]) => textArea(label, name, told?.[name] ?? "", { rows: 1 })));
  const asked = () => {
    const inputs = $$("textarea", warning), written = inputs.some((input) => input.value.trim());
    warning.hidden = !told && $("select", kind).value !== "failure";
    for (const input of inputs) input.required = written && !warning.hidden;
  };
  kind.addEventListener("change", asked);
  warning.addEventListener("input", asked);
  asked();
  return [
    textField("Title", "title", memory.title ?? "", { required: true, maxlength: 200 }),
    textArea("When it applies", "description", memory.description ?? "", { required: true, maxlength: 1000, rows: 2 }),
    textArea("The lesson: steps, commands, reasons, limits", "content", memory.content ?? "", { required: true }),
    kind, warning,
    textField("Tags, separated by commas", "tags", (memory.tags ?? []).join(", ")),
  ];
}

const given = (values) => ({
  title: values.title, description: values.description, content: values.content,
  outcome: values.outcome, tags: words(values.tags),
});

const context = (values) => Object.fromEntries(OF_WARNING.map(([name]) => [name, values[name].trim()]));
const some = (values) => Object.values(context(values)).some(Boolean);

export async function record(page, from = {}) {
  const made = await form("Record a lesson", "It is used at once, and trusted as far as the evidence supports it.", fields(from), "Record it",
    (values) => api.post("/memories", { ...given(values), ...(values.outcome === "failure" && some(values) ? { error_context: context(values) } : {}) }));
  if (!made) return;
  page.done(`Recorded “${straight(made.title)}”`);
  page.go(page.link(`memory/${made.id}`));
}

/** Resolves to the memory as it is then; null if nothing was changed. */
export function edit(memory, title = "Edit", lede = "The earlier revision is kept.") {
  const told = memory.error_context;
  return form(title, lede, fields(memory), "Save", (values, first) => {
    const changed = (of) => Object.fromEntries(Object.entries(of(values)).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(of(first)[name])));
    const changes = changed(given), warns = changed(context);
    if (Object.keys(warns).length && (told || values.outcome === "failure")) {
      changes.error_context = some(values) ? { ...told, ...warns } : null;
    }
    return Object.keys(changes).length ? api.patch(`/memories/${api.part(memory.id)}`, changes) : null;
  });
}

/** What takes an edit back, if nothing came after it: what others changed since is theirs. */
export const takeBack = (now, how = {}) => async () => {
  const path = `/memories/${api.part(now.id)}`, { revision } = await api.get(path);
  if (revision !== now.revision) throw new Error("It was changed again since; its history returns to any revision");
  return api.post(`${path}/undo`, how);
};
