// Who asks this bank, who tells it how things went, and what to run.

import * as api from "../api.js";
import { h } from "../dom.js";
import { command, head, part, table } from "../parts.js";
import { short, when } from "../words.js";

export async function show(page) {
  const lede = head("Agents", "Who asks this bank and who tells it how things went. An agent that never reports teaches it nothing.");
  if (!page.may("admin") || !page.session.whole) {
    return { nodes: [lede, h("div.empty", h("h2", "Only whoever looks after the whole bank sees this."), h("p", "It tells of the machine that the server runs on."))] };
  }
  const agents = await api.get("/agents", {}, page.signal);
  const wiredFirst = [...agents].sort((a, b) => state(a).order - state(b).order || a.title.localeCompare(b.title));
  return {
    nodes: [
      lede,
      table([{ name: "Agent" }, { name: "Wired" }, { name: "Last event" }, { name: "To do" }], wiredFirst.map((agent) => {
        const { dot, text } = state(agent);
        return [
          [h("span.dot", { class: dot }), h("b", agent.title)],
          [text, agent.problem && h("p.small.warn", short(agent.problem, 200))],
          { node: agent.last ? `${agent.last.event}, ${when(agent.last.at)}` : "never", soft: true, label: "last event" },
          agent.run ? command(agent.run) : h("span.soft.none", "nothing")];
      })),
      !agents.some((agent) => agent.found) && h("div.empty", h("p", "None was found for the user who runs this server. Once one is installed here:"), command("reasonbank install")),
      part("What wiring does", "", h("dl.facts",
        h("dt", "MCP"), h("dd", "The agent can search, record and report when it decides to."),
        h("dt", "Hooks"), h("dd", "Lessons are given at the start of a task and before risky commands; the outcome is reported at the end, without the agent deciding to."),
        h("dt", "Others"), h("dd", "Any MCP client connects to ", h("code", `${location.origin}/mcp`), " with a token from ", h("a", { href: page.link("settings") }, "Settings"), "."))),
    ],
  };
}

function state(agent) {
  const hooks = agent.hooks.length > 0;
  if (!agent.server && !hooks) return { dot: "d-off", text: agent.found ? "found here, not wired" : "not found on this machine", order: agent.found ? 2 : 3 };
  const text = [agent.server && "MCP", hooks && (agent.missing.length ? `hooks, ${agent.missing.length} missing` : "hooks")].filter(Boolean).join(" and ");
  const well = agent.works && !agent.problem && hooks && !agent.missing.length;
  return { dot: well ? "d-good" : "d-warn", text: agent.server && !hooks ? `${text}, no hooks` : text, order: well ? 0 : 1 };
}
