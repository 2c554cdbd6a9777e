export default function (pi) {
  let text = ""

  const deliver = (ctx, event, fields) =>
    hook(ctx.cwd, event, {
      session_id: ctx.sessionManager.getSessionId(),
      transcript_path: ctx.sessionManager.getSessionFile() ?? null,
      ...fields,
    })

  pi.on("session_start", async (event, ctx) => {
    if (event.reason !== "reload") text = await deliver(ctx, "SessionStart", { source: event.reason })
  })
  pi.on("session_compact", async (_, ctx) => {
    text = await deliver(ctx, "SessionStart", { source: "compact" })
  })
  pi.on("before_agent_start", async () => {
    if (!text) return
    const message = { customType: "reflector", content: text, display: false }
    text = ""
    return { message }
  })
  pi.on("agent_end", async (_, ctx) => {
    await deliver(ctx, "Stop")
  })
  pi.on("session_before_compact", async (_, ctx) => {
    await deliver(ctx, "PreCompact")
  })
  pi.on("session_shutdown", async (event, ctx) => {
    if (event.reason !== "reload") await deliver(ctx, "SessionEnd", { reason: event.reason })
  })
}
