let made = 0;

function chip(token) {
  const node = make("span", "strata-chip" + (token.role ? " strata-is-" + token.role : ""), token.text);
  if (token.id !== undefined) node.title = "#" + token.id;
  return node;
}

// --- controls: each has a label, a way to read it and a way to show a value ----------

function range(control, tell) {
  const input = make("input", "strata-range"), shown = make("output", "strata-shown");
  input.type = "range";
  input.step = 1;
  const parts = [input, shown];
  input.addEventListener("input", () => { shown.textContent = input.value; tell(Number(input.value)); });
  let clear = null;
  if (control.clears) {
    clear = make("button", "strata-clear", "none");
    clear.type = "button";
    clear.setAttribute("aria-label", control.label + ": none");
    clear.addEventListener("click", () => tell(null, true));
    parts.push(clear);
  }
  return {
    input, parts,
    read: () => (shown.textContent === "–" ? null : Number(input.value)),
    show(now) {
      input.min = now.least;
      input.max = now.most;
      input.value = now.value ?? now.least;
      shown.textContent = now.value ?? "–";
      if (clear) clear.disabled = !now.enabled || now.value === null;
    },
  };
}

function choice(control, tell) {
  const input = make("select", "strata-choice");
  let had = "";
  input.addEventListener("change", () => tell(input.value, true));
  return {
    input, parts: [input], read: () => input.value,
    show(now) {
      const options = JSON.stringify(now.options);
      if (options !== had) {
        had = options;
        input.replaceChildren(...now.options.map(([value, label]) => {
          const option = make("option", "", label);
          option.value = value;
          return option;
        }));
      }
      input.value = now.value;
    },
  };
}

function button(control, tell) {
  const input = make("button", "strata-button", control.label);
  input.type = "button";
  input.addEventListener("click", () => tell(true, true));
  return { input, parts: [input], read: () => null, show() {} };
}

const KINDS = { range, choice, button };

function field(control, tell) {
  const one = KINDS[control.kind](control, tell);
  const box = make("span", "strata-control strata-" + control.kind + "-control");
  one.input.id = OWN + "-" + ++made;
  one.input.dataset.name = control.name;
  if (control.kind !== "button") {
    const label = make("label", "strata-label", control.label);
    label.htmlFor = one.input.id;
    box.append(label);
  }
  const why = make("span", "strata-why");
  why.id = one.input.id + "-why";
  one.input.setAttribute("aria-describedby", why.id);
  box.append(...one.parts, why);
  return { ...one, box, why };
}

// --- tables --------------------------------------------------------------------------

function drawTable(table) {
  const box = make("div", "strata-scroll"), node = make("table", "strata-table");
  node.createCaption().textContent = table.caption;
  const head = node.createTHead().insertRow();
  for (const name of table.head) {
    const cell = make("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const body = node.createTBody();
  table.rows.forEach((row, index) => {
    const line = body.insertRow();
    if (index === table.marked) line.className = "strata-marked";
    for (const cell of row) {
      const place = line.insertCell();
      if (cell !== null && typeof cell === "object") place.append(chip(cell));
      else {
        place.textContent = cell ?? "";
        if (typeof cell === "number") place.className = "strata-number";
        // Only prose may break, and not into a column of single words.
        else place.className = String(cell ?? "").length <= 48 ? "strata-short" : "strata-long";
      }
    }
  });
  box.append(node);
  if (table.hidden) box.append(make("div", "strata-note", `${table.hidden} more rows are left out`));
  return box;
}

// What is there already is not laid out again.
function show(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function render({ model, el, signal, host }) {
  const root = make("div", "strata strata-panel");
  root.setAttribute("role", "group");
  const ui = { title: make("div", "strata-title"), controls: make("div", "strata-line"), note: make("div", "strata-message"),
    status: make("div", "strata-status"), prose: make("div", "strata-prose"), charts: make("div", "strata-charts"), tables: make("div", "strata-tables") };
  ui.note.setAttribute("aria-live", "polite");
  ui.status.setAttribute("role", "status");
  ui.prose.append(make("div"));
  root.append(ui.title, ui.controls, ui.note, ui.status, ui.prose, ui.charts, ui.tables);
  el.append(root);

  const python = asking(model, root, ui.status);
  let shape = "", tablesShown = "", gone = false;
  const fields = new Map();

  function send(name, value) {
    const values = Object.fromEntries([...fields].map(([key, one]) => [key, one.read()]));
    gone = !python.ask("control", { name, value, values });
    const one = fields.get(name);
    if (one) one.asked = python.asked;
  }

  // A slider that moves tells the last place it was at, 20 times a second at most.
  function teller(name) {
    let timer = null, last = null;
    return (value, now = false) => {
      last = value;
      if (now) { clearTimeout(timer); timer = null; return send(name, value); }
      timer ??= setTimeout(() => { timer = null; send(name, last); }, 50);
      fields.get(name).asked = python.asked + 1;
    };
  }

  function drawControls(controls, heard) {
    const now = JSON.stringify(controls.map((c) => [c.kind, c.name, c.label]));
    if (now !== shape) {
      shape = now;
      fields.clear();
      for (const control of controls) fields.set(control.name, field(control, teller(control.name)));
      ui.controls.replaceChildren(...[...fields.values()].map((one) => one.box));
    }
    const held = root.contains(document.activeElement) ? document.activeElement : null;
    for (const control of controls) {
      const one = fields.get(control.name);
      one.input.disabled = !control.enabled;
      one.why.textContent = control.enabled ? "" : control.why;
      // What a person has set since is newer than what Python says.
      if ((one.asked ?? 0) <= heard) { one.asked = 0; one.show(control); }
    }
    // A button that goes off drops the focus, and the next key would be the notebook's.
    if (held?.disabled) [...fields.values()].map((one) => one.input).find((i) => !i.disabled)?.focus();
  }

  function update() {
    const view = model.get("_page");
    if (gone || !view.controls) return;
    root.setAttribute("aria-label", view.title);
    root.dataset.kind = view.kind;
    show(ui.title, view.title);
    // Another page's answer may have taken the place of ours: then Python knows best.
    drawControls(view.controls, python.answered(view.answered, Infinity));
    const failed = view.note.kind === "error";
    ui.note.setAttribute("role", failed ? "alert" : "note");
    ui.note.classList.toggle("strata-error", failed);
    show(ui.note, view.note.text);
    show(ui.status, view.status);
    show(ui.prose.firstChild, view.prose);
    for (const [name, value] of Object.entries(view.selection)) ui.status.dataset[name] = value ?? "";
    const tables = JSON.stringify(view.tables);
    if (tables !== tablesShown) {
      tablesShown = tables;
      ui.tables.replaceChildren(...view.tables.map(drawTable));
      // The page itself must not move for it.
      for (const row of ui.tables.querySelectorAll(".strata-marked")) {
        const box = row.closest(".strata-scroll");
        box.scrollTop = row.offsetTop - box.clientHeight / 2;
      }
    }
  }

  root.addEventListener("keydown", guard);
  model.on("change:_page", update);
  signal.addEventListener("abort", () => {
    model.off("change:_page", update);
    root.remove();
  });
  update();
  const names = model.get("_page").charts ?? [];
  names.forEach((name, index) => {
    const place = make("div", "strata-place strata-" + name);
    ui.charts.append(place);
    other(host, model.get("_chart_" + (index + 1)), signal).then((chart) => chart.render({ el: place, signal }));
  });
}

const initialize = ({ model }) => void hearing(model);

export default { initialize, render };
