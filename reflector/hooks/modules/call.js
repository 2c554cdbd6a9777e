// Written by `reflector install`, removed by `reflector uninstall`; the next installation overwrites changes.
import { spawn } from "node:child_process"

const command = "@COMMAND@"

// Give reflector's hook one event. Resolves to what it prints, and to "" where anything fails.
function hook(cwd, event, fields) {
  return new Promise((resolve) => {
    let printed = ""
    const child = spawn(command, { shell: true, stdio: ["pipe", "pipe", "ignore"], timeout: 10_000 })
    child.on("error", () => resolve(""))
    child.on("close", () => resolve(printed))
    child.stdout.setEncoding("utf8").on("data", (text) => (printed += text))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify({ hook_event_name: event, cwd, ...fields }))
  })
}
