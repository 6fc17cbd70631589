// Tells ReasonBank what happens in a session, and gives the model its answers.
// Written by `reasonbank install opencode`; `reasonbank uninstall opencode` takes it away.
import { spawn, spawnSync } from "node:child_process"
import { homedir } from "node:os"
import { join } from "node:path"

const COMMAND = ["reasonbank"]
const LIMIT_MS = 2500 // A hook has a deadline of its own, below this: this is for one that hangs.
const KEPT = 64

const data = process.env.XDG_DATA_HOME || join(homedir(), ".local", "share")
const transcript = join(data, "opencode", "opencode.db")
const words = (event) => [...COMMAND.slice(1), "hook", event, "--agent", "opencode"]

// The answer, or "": whatever goes wrong here is nothing the session should notice.
const ask = (event, payload) =>
  new Promise((resolve) => {
    try {
      const child = spawn(COMMAND[0], words(event), { stdio: ["pipe", "pipe", "ignore"] })
      const chunks = []
      const finish = (text) => {
        clearTimeout(timer)
        resolve(text)
      }
      const timer = setTimeout(() => {
        child.kill("SIGKILL")
        finish("")
      }, LIMIT_MS)
      child.on("error", () => finish(""))
      child.stdin.on("error", () => {})
      child.stdout.on("data", (chunk) => chunks.push(chunk))
      child.on("close", (code) => finish(code === 0 ? Buffer.concat(chunks).toString().trim() : ""))
      child.stdin.end(JSON.stringify(payload))
    } catch {
      resolve("")
    }
  })

// `opencode run` exits as soon as a session is idle: whoever is told then must be told at once.
const tell = (event, payload) => {
  try {
    const input = JSON.stringify(payload)
    const stdio = ["pipe", "ignore", "ignore"]
    spawnSync(COMMAND[0], words(event), { input, stdio, timeout: LIMIT_MS, killSignal: "SIGKILL" })
  } catch {}
}

export const ReasonBank = async ({ directory }) => {
  const common = (name, session) => ({
    hook_event_name: name,
    session_id: session,
    cwd: directory,
    transcript_path: transcript,
  })
  // By call. Nothing can be said before a tool runs, so it goes with the result.
  const warnings = new Map()

  return {
    "chat.message": async (input, output) => {
      try {
        const said = output.parts.filter((part) => part.type === "text" && !part.synthetic)
        const prompt = said.map((part) => part.text).join("\n")
        const told = { ...common("chat.message", input.sessionID), prompt }
        const text = prompt && (await ask("prompt", told))
        if (text) output.parts.push({ ...said[0], id: said[0].id + "r", text, synthetic: true })
      } catch {}
    },
    "tool.execute.before": async (input, output) => {
      try {
        if (input.tool.startsWith("reasonbank_")) return
        const told = common("tool.execute.before", input.sessionID)
        const call = { tool_name: input.tool, tool_input: output.args }
        const text = await ask("before-tool", { ...told, ...call })
        if (text) warnings.set(input.callID, text)
        if (warnings.size > KEPT) warnings.delete(warnings.keys().next().value)
      } catch {}
    },
    "tool.execute.after": async (input, output) => {
      try {
        if (input.tool.startsWith("reasonbank_") || typeof output.output !== "string") return
        const told = common("tool.execute.after", input.sessionID)
        const result = { output: output.output, exit: output.metadata?.exit }
        const call = { tool_name: input.tool, tool_input: input.args, tool_response: result }
        const text = await ask("after-tool", { ...told, ...call })
        const said = [warnings.get(input.callID), text].filter(Boolean)
        warnings.delete(input.callID)
        output.output = [output.output, ...said].join("\n\n")
      } catch {}
    },
    "experimental.session.compacting": async (input) => {
      tell("before-compaction", common("experimental.session.compacting", input.sessionID))
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      tell("turn-end", common("session.idle", event.properties.sessionID))
    },
  }
}
