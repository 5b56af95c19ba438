// Takes what several widgets sent at once, and gives each its own part in their order.
function initialize({ model }) {
  const manager = model.widget_manager;
  // Without these Python goes on sending apart.
  if (!manager?.has_model || !manager.get_model) return;
  let last = Promise.resolve();

  async function give([id, data]) {
    // What was closed meanwhile, or is not on this page.
    if (!manager.has_model(id)) return;
    const one = await manager.get_model(id);
    one._handle_comm_msg({ content: { data }, buffers: [] });
  }

  async function all(parts) {
    for (const part of parts) await give(part).catch((error) => console.warn(error));
  }

  model.on("msg:custom", ({ parts }) => { if (parts) last = last.then(() => all(parts)); });
  // Not at once: what is sent to one that does not hear yet would be lost.
  hearing(model).then(() => model.send({ kind: "ready" }));
}

export default { initialize };
