// Recording a lesson, and changing one: the same form.

import * as api from "./api.js";
import { choice, form, textArea, textField } from "./parts.js";
import { straight } from "./words.js";

const KINDS = [["success", "Strategy: it works"], ["failure", "Warning: it fails"], ["mixed", "Mixed"]];
const OF_WARNING = [["error_type", "Kind of error"], ["failure_pattern", "What fails"], ["corrective_guidance", "What to do instead"]];

const words = (text) => text.split(",").map((word) => word.trim()).filter(Boolean);

const fields = (memory) => [
  textField("Title", "title", memory.title ?? "", { required: true, maxlength: 200 }),
  textField("When it applies", "description", memory.description ?? "", { required: true, maxlength: 1000 }),
  textArea("The lesson: steps, commands, reasons, limits", "content", memory.content ?? "", { required: true }),
  choice("Kind", "outcome", KINDS, memory.outcome ?? "success"),
  textField("Tags, with commas", "tags", (memory.tags ?? []).join(", ")),
];

const given = (values) => ({
  title: values.title, description: values.description, content: values.content,
  outcome: values.outcome, tags: words(values.tags),
});

export async function record(page, from = {}) {
  const made = await form("Record a lesson", "It counts at once, and is trusted as far as the evidence carries.", fields(from), "Record it",
    (values) => api.post("/memories", given(values)));
  if (!made) return;
  page.done(`Recorded “${straight(made.title)}”`);
  page.go(page.link(`memory/${made.id}`));
}

/** Resolves to the memory as it is then; null if nothing was changed. */
export function edit(memory) {
  const told = memory.error_context;
  return form("Edit", "The earlier revision is kept.", [
    fields(memory),
    told && OF_WARNING.map(([name, label]) => textField(label, name, told[name] ?? "")),
  ], "Save", (values) => {
    const changed = Object.entries(given(values)).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(memory[name]));
    const changes = Object.fromEntries(changed);
    if (told && OF_WARNING.some(([name]) => values[name] !== (told[name] ?? ""))) {
      changes.error_context = { ...told, ...Object.fromEntries(OF_WARNING.map(([name]) => [name, values[name]])) };
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
