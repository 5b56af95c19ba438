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
