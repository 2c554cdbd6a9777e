// OpenCode keeps its sessions in a database, so each is written to a file after a turn, as `opencode export` does.
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"

const folder = join(process.env.XDG_DATA_HOME || join(homedir(), ".local/share"), "opencode", "reflector")
const MONTH = 30 * 24 * 3600 * 1000

async function removeOld() {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    if (Date.now() - (await stat(path)).mtimeMs > MONTH) await rm(path)
  }
}

export const Reflector = async ({ client, directory }) => {
  const told = new Map()
  const ended = new Map()
  let turns = removeOld().catch(() => {})

  async function write(id) {
    const { data: info } = await client.session.get({ path: { id } })
    const { data: messages } = await client.session.messages({ path: { id } })
    if (!info || !messages) return
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const path = join(folder, `${id}.json`)
    await writeFile(`${path}.tmp`, JSON.stringify({ info, messages }), { mode: 0o600 })
    await rename(`${path}.tmp`, path)
    if (info.parentID) {
      const subagent = { session_id: info.parentID, agent_id: id, agent_transcript_path: path }
      await hook(directory, "SubagentStop", subagent)
    } else {
      ended.set(id, { session_id: id, transcript_path: path })
      await hook(directory, "Stop", ended.get(id))
    }
  }

  return {
    // The text stays the same during a session: a change would void the model's prompt cache.
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      if (!sessionID) return
      if (!told.has(sessionID)) told.set(sessionID, hook(directory, "SessionStart", { session_id: sessionID }))
      const text = await told.get(sessionID)
      if (text) output.system.push(text)
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") turns = turns.then(() => write(event.properties.sessionID)).catch(() => {})
    },
    dispose: async () => {
      await turns
      for (const session of ended.values()) await hook(directory, "SessionEnd", session)
      ended.clear()
    },
  }
}
