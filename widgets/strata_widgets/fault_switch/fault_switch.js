// Python draws and words everything; this shows `_view` and sends what was switched.
const SOUND = "none, the engine is sound";

// One fault is a switch, several are a list to choose from.
function control(faults, id) {
  if (faults.length === 1) {
    const box = make("input", "strata-toggle");
    Object.assign(box, { type: "checkbox", id });
    box.setAttribute("role", "switch");
    return { node: box, read: () => (box.checked ? faults[0].name : ""),
      write: (fault) => { box.checked = fault !== ""; } };
  }
  const list = make("select", "strata-choice");
  list.id = id;
  for (const name of ["", ...faults.map((f) => f.name)]) {
    const one = make("option", "", name || SOUND);
    one.value = name;
    list.append(one);
  }
  return { node: list, read: () => list.value, write: (fault) => { list.value = fault; } };
}

function build(faults) {
  const id = OWN + "-fault";
  const root = make("div", "strata strata-switch");
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Fault switch");
  const ui = { root, control: control(faults, id) };
  const line = make("div", "strata-line");
  const label = make("label", "strata-label", "Fault");
  label.htmlFor = id;
  line.append(label, ui.control.node);
  if (faults.length === 1) {
    const name = make("label", "strata-fault", faults[0].name);
    name.htmlFor = id;
    line.append(name);
  }
  ui.what = make("div", "strata-what");
  ui.what.id = id + "-what";
  ui.control.node.setAttribute("aria-describedby", ui.what.id);
  ui.status = make("div", "strata-status");
  ui.status.setAttribute("role", "status");
  ui.chart = make("div", "strata-place");
  root.append(line, ui.what, ui.status, ui.chart);
  return ui;
}

function render({ model, el, signal, host }) {
  const faults = model.get("_view").faults;
  const ui = build(faults);
  const python = asking(model, ui.root, ui.status);
  let waiting = 0, slow;
  el.append(ui.root);

  function tell(kind, values) {
    const heard = python.ask(kind, values);
    if (!heard) clearInterval(slow);
    return heard;
  }

  // Only one is under way: arrow keys run through a list faster than engines run.
  function switched() {
    if (waiting || !tell("plant", { fault: ui.control.read() })) return;
    waiting = python.asked;
    ui.root.classList.add("strata-waiting");
    ui.root.setAttribute("aria-busy", "true");
    slow = setInterval(() => {
      ui.status.textContent = "waiting for the kernel";
      // Only to learn whether somebody is there.
      tell("look");
    }, 1500);
  }

  function update() {
    const view = model.get("_view");
    if (waiting && python.answered(view.answered) >= waiting) {
      waiting = 0;
      clearInterval(slow);
      ui.root.classList.remove("strata-waiting");
      ui.root.removeAttribute("aria-busy");
      if (!view.error && ui.control.read() !== view.fault) return switched();
    }
    if (waiting) return;
    ui.control.write(view.fault);
    const known = faults.find((f) => f.name === view.fault) ?? (faults.length === 1 ? faults[0] : null);
    ui.what.textContent = known ? known.what : "";
    ui.status.textContent = view.error || `${view.status}: ${view.words}`;
    ui.status.classList.toggle("strata-error", view.error !== "");
    ui.status.dataset.fault = view.fault;
  }

  ui.control.node.addEventListener("change", switched);
  ui.root.addEventListener("keydown", guard);
  model.on("change:_view", update);
  signal.addEventListener("abort", () => {
    model.off("change:_view", update);
    clearInterval(slow);
    ui.root.remove();
  });
  update();
  other(host, model.get("_chart"), signal).then((chart) => chart.render({ el: ui.chart, signal }));
}

const initialize = ({ model }) => void hearing(model);

export default { initialize, render };
