// Every widget's module begins with this (`_base.module`): what all of them need.
const GONE = "the kernel is gone; run this cell again";
// Each widget runs a copy of this text, so a mere count would name two controls alike.
const OWN = "strata-" + Math.random().toString(36).slice(2);

function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  node.className = className;
  // Text is set as text everywhere: a token may look like HTML.
  if (text !== "") node.textContent = text;
  return node;
}

// anywidget gives a model 2 s to begin. One that needs longer, on a busy page, begins all
// the same, but each message for it is refused from then on: it is heard by hand, and asks
// for its state and, by `missed`, for whatever else it did not hear.
async function hearing(model, missed = () => {}) {
  const manager = model.widget_manager;
  if (!manager?.get_model) return;
  const own = await manager.get_model(model.get("_me"));
  const nothing = { content: { data: { method: "custom", content: { kind: "nothing" } } }, buffers: [] };
  try {
    await own._handle_comm_msg(nothing);
  } catch {
    const hear = Object.getPrototypeOf(own.constructor.prototype)._handle_comm_msg;
    own._handle_comm_msg = hear;
    own.comm?.on_msg(hear.bind(own));
    own.comm?.send({ method: "request_state" });
    missed();
  }
}

// It gives a widget 10 s to be there for another one, and then fails; this one goes on.
async function other(host, reference, signal) {
  for (;;) {
    try {
      return await host.getWidget(reference);
    } catch (error) {
      if (signal.aborted || !/Timed out/.test(error.message)) throw error;
    }
  }
}

// Keys pressed in here are not the notebook's: "b" must not insert a cell.
function guard(event) {
  const global = event.ctrlKey || event.metaKey || event.altKey || event.key === "Escape";
  if (!global) event.stopPropagation();
}

// Asks Python under a number, and knows which answers are this page's: each says the last
// question that was heard. After a restart nobody listens, and sending fails.
function asking(model, root, status) {
  const page = Math.random().toString(36).slice(2);
  let asked = 0;
  return {
    get asked() { return asked; },
    ask(kind, values = {}) {
      try {
        model.send({ kind, ...values, ask: `${page} ${++asked}` });
        return true;
      } catch {
        status.textContent = GONE;
        status.classList.add("strata-error");
        for (const control of root.querySelectorAll("button, input, select")) control.disabled = true;
        return false;
      }
    },
    answered: (ask, others = 0) => (ask.startsWith(page) ? Number(ask.split(" ")[1]) : ask ? others : 0),
  };
}
