// OpenCode keeps its sessions in a database, which reflector reads. A release without that database keeps them in files
// of another form, so each session is written to a file after a turn then, as `opencode export` does.
import { existsSync } from "node:fs"
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"

const data = join(process.env.XDG_DATA_HOME || join(homedir(), ".local/share"), "opencode")
const folder = join(data, "reflector")
const isRead = () => !process.env.OPENCODE_DB && existsSync(join(data, "opencode.db"))
const MONTH = 30 * 24 * 3600 * 1000

// Give the hook one event, and wait for nothing: it goes on when this process has ended.
function leave(cwd, event, fields) {
  const env = { ...process.env, SESSION_EVENT: JSON.stringify({ hook_event_name: event, cwd, ...fields }) }
  const words = ["-c", `printf %s "$SESSION_EVENT" | { ${command}; }`]
  spawn("/bin/sh", words, { cwd: "/", env, detached: true, stdio: "ignore" }).on("error", () => {}).unref()
}

async function removeOld() {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    if (Date.now() - (await stat(path)).mtimeMs > MONTH) await rm(path)
  }
}

export const Reflector = async ({ client, directory }) => {
  const told = new Map()
  const parents = new Map()
  const ended = new Set()
  let turns = removeOld().catch(() => {})

  const place = (id) => join(folder, `${id}.json`)

  // `opencode run` ends at once and awaits nothing, so what must not be lost runs on without us.
  const stopped = (id) => {
    const parent = parents.get(id)
    if (parent) {
      leave(directory, "SubagentStop", { session_id: parent, agent_id: id, agent_transcript_path: place(id) })
      return
    }
    ended.add(id)
    leave(directory, "Stop", { session_id: id, transcript_path: place(id), client_pid: process.pid })
  }

  async function write(id) {
    const { data: info } = await client.session.get({ path: { id } })
    const { data: messages } = await client.session.messages({ path: { id } })
    if (!info || !messages) return
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await writeFile(`${place(id)}.tmp`, JSON.stringify({ info, messages }), { mode: 0o600 })
    await rename(`${place(id)}.tmp`, place(id))
    if (info.parentID) parents.set(id, info.parentID)
    stopped(id)
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
      const { info, sessionID } = event.properties ?? {}
      if (event.type.startsWith("session.") && info?.id && info.parentID) parents.set(info.id, info.parentID)
      if (event.type !== "session.idle") return
      if (isRead()) stopped(sessionID)
      else turns = turns.then(() => write(sessionID)).catch(() => {})
    },
    dispose: async () => {
      if (!isRead()) await turns
      for (const id of ended) leave(directory, "SessionEnd", { session_id: id, transcript_path: place(id) })
      ended.clear()
    },
  }
}
