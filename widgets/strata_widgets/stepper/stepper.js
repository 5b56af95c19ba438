// Python decides and words everything; this draws `_view` and sends clicks with their values.
// Token text comes from a model, so it only ever goes in as `textContent`.
const VERBS = ["run", "finish", "commit", "abort"];
const LABELS = { run: "Run", finish: "Finish", commit: "Commit", abort: "Abort" };
const ROLES = ["root", "accepted", "mismatch", "unreached"];
const COLUMNS = ["row", "input", "prediction", "verdict", "kept", "likeliest next"];
const MOST_ROWS = 8;
const NO_DRAFT = { draft: "", count: "", chips: [], more: "", error: "", why: "" };

function chip(token, className = "") {
  const node = make("span", "strata-chip " + className, token.text);
  node.title = `#${token.id} ${token.text}`;
  node.dataset.id = token.id;
  return node;
}

function chipWithId(token, className) {
  const pair = make("span", "strata-pair");
  pair.append(chip(token, className), make("span", "strata-id", "#" + token.id));
  return pair;
}

function build() {
  const id = OWN + "-stepper";
  const root = make("div", "strata strata-stepper");
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Stepper");
  const ui = { root };

  ui.text = make("div", "strata-text");
  ui.text.tabIndex = 0;
  ui.text.setAttribute("role", "region");
  ui.text.setAttribute("aria-label", "Committed text, then the root");

  const label = make("label", "strata-label", "Draft");
  label.htmlFor = id + "-draft";
  ui.draft = make("textarea", "strata-draft");
  ui.draft.id = id + "-draft";
  ui.draft.rows = 2;
  ui.draft.spellcheck = false;
  ui.draft.placeholder = "text to draft, or token ids such as #12 #345; Ctrl+Enter runs";
  ui.draft.setAttribute("aria-describedby", id + "-preview");
  ui.preview = make("div", "strata-preview");
  ui.preview.id = id + "-preview";
  ui.preview.setAttribute("aria-live", "polite");

  const fill = make("div", "strata-line");
  ui.take = make("button", "strata-button strata-take");
  ui.own = make("button", "strata-button", "Fill in the model's own");
  ui.wrong = make("button", "strata-button", "Fill in one wrong");
  fill.append(ui.take, ui.own, ui.wrong);

  const verbs = make("div", "strata-line");
  for (const verb of VERBS) {
    ui[verb] = make("button", "strata-button strata-verb", LABELS[verb]);
    ui[verb].dataset.verb = verb;
  }
  const keepLabel = make("label", "strata-label", "Keep rows");
  keepLabel.htmlFor = id + "-keep";
  ui.keep = make("input", "strata-keep");
  Object.assign(ui.keep, { type: "range", id: id + "-keep", min: 1, step: 1 });
  ui.count = make("output", "strata-count");
  ui.count.htmlFor = id + "-keep";
  ui.force = make("input");
  ui.force.type = "checkbox";
  const force = make("label", "strata-force");
  force.append(ui.force, " force more");
  const keep = make("span", "strata-line");
  keep.append(keepLabel, ui.keep, ui.count, force);
  // Why Run is off, beside it.
  ui.why = make("span", "strata-why");
  ui.why.id = id + "-why";
  ui.run.setAttribute("aria-describedby", ui.why.id);
  const first = make("span", "strata-line"), last = make("span", "strata-line");
  first.append(ui.run, ui.why, ui.finish);
  last.append(ui.commit, ui.abort);
  verbs.append(first, keep, last);

  const back = make("div", "strata-line"), to = make("label", "strata-label", "Back to cell");
  to.htmlFor = id + "-place";
  ui.place = make("select", "strata-places");
  ui.place.id = to.htmlFor;
  ui.back = make("button", "strata-button", "Go back");
  // Why there is no going back now, beside it.
  ui.noBack = make("span", "strata-note");
  ui.noBack.id = id + "-no-back";
  ui.back.setAttribute("aria-describedby", ui.noBack.id);
  back.append(to, ui.place, ui.back, ui.noBack);

  ui.message = make("div", "strata-message");
  ui.message.setAttribute("aria-live", "polite");
  ui.status = make("div", "strata-status");
  ui.status.setAttribute("role", "status");
  ui.table = make("div", "strata-scroll");
  ui.charts = make("div", "strata-charts");
  for (const b of [ui.take, ui.own, ui.wrong, ui.back, ...VERBS.map((v) => ui[v])]) b.type = "button";
  const top = make("div", "strata-form");
  top.append(label, ui.draft);
  root.append(ui.text, top, ui.preview, fill, verbs, back, ui.message, ui.status, ui.table, ui.charts);
  return ui;
}

// A line of the text is a line on the page, so a newline and its indent are two chips.
function lines(token) {
  const cut = token.text.lastIndexOf("↵") + 1;
  if (!cut) return [chip(token)];
  const parts = [chip({ ...token, text: token.text.slice(0, cut) }), make("br")];
  if (cut < token.text.length) parts.push(chip({ ...token, text: token.text.slice(cut) }));
  return parts;
}

function drawText(node, view) {
  const parts = [];
  if (view.hidden) parts.push(make("span", "strata-note", `${view.hidden} earlier cells `));
  for (const token of view.text) parts.push(...lines(token));
  if (view.root) {
    const root = chip(view.root, "strata-root");
    root.append(make("span", "strata-tag", "root"));
    parts.push(root);
  }
  node.replaceChildren(...parts);
  node.scrollTop = node.scrollHeight;
}

// A node that is not on the page yet, or was off it, has no place to scroll to.
function showEnd(node) {
  let height = 0;
  const seen = new ResizeObserver(() => {
    if (!height) node.scrollTop = node.scrollHeight;
    height = node.clientHeight;
  });
  seen.observe(node);
  return seen;
}

// Drawn anew only with other places, so that a choice stays; the newest is the first.
function drawPlaces(select, places) {
  const known = JSON.stringify(places);
  if (select.dataset.places === known) return;
  select.dataset.places = known;
  select.replaceChildren(...places.map(({ position, label }) => {
    const option = make("option", "", label);
    option.value = position;
    return option;
  }));
}

// Always as high as a window of the most rows, so that nothing below it ever moves.
function drawTable(node, rows) {
  const table = make("table", "strata-rows");
  table.createCaption().textContent = "Rows of the window: a prediction is the token after its row";
  const head = table.createTHead().insertRow();
  for (const name of COLUMNS) {
    const cell = make("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) body.append(drawRow(row));
  for (let row = rows.length; row < MOST_ROWS; row++) body.append(drawSpace());
  if (!rows.length) body.rows[0].cells[0].textContent = "Run a window, and its rows appear here.";
  node.replaceChildren(table);
}

function drawSpace() {
  const line = make("tr", "strata-space"), cell = make("td", "strata-note");
  cell.colSpan = COLUMNS.length;
  line.append(cell);
  return line;
}

function drawRow(row) {
  const line = make("tr", row.kept ? "strata-kept" : "");
  line.dataset.role = row.role;
  const number = make("th", "", row.row);
  number.scope = "row";
  const input = make("td");
  input.append(chipWithId(row.input));
  const verdict = make("td", "strata-verdict");
  const colour = ROLES.includes(row.role) ? "strata-" + row.role : "strata-open";
  verdict.append(make("span", "strata-square " + colour), row.verdict);
  const prediction = make("td");
  if (row.prediction) prediction.append(chipWithId(row.prediction, row.bonus ? "strata-bonus" : ""));
  else prediction.append(make("span", "strata-note", "press Finish"));
  if (row.bonus) prediction.append(make("span", "strata-tag", "bonus"));
  const choices = make("td", "strata-choices");
  for (const one of row.choices) {
    const pair = make("span", "strata-pair");
    pair.append(chip(one), make("span", "strata-id", (100 * one.share).toFixed(1) + "%"));
    choices.append(pair);
  }
  line.append(number, input, prediction, verdict, make("td", "", row.keeping), choices);
  return line;
}

function drawPreview(node, preview) {
  if (preview.error) return node.replaceChildren(make("span", "strata-error", preview.error));
  const words = preview.count ? preview.count + ": " : "no draft: the root alone";
  const parts = preview.chips.map((token) => chipWithId(token));
  const more = make("span", "strata-note", preview.more);
  node.replaceChildren(make("span", "strata-note", words), ...parts, more);
}

function render({ model, el, signal, host }) {
  const ui = build();
  let round = null, waiting = 0, slow, typing, sliding;
  let typed = NO_DRAFT;
  el.append(ui.root);

  const python = asking(model, ui.root, ui.status);
  function tell(kind, values) {
    const heard = python.ask(kind, values);
    if (!heard) clearInterval(slow);
    return heard;
  }

  // A click carries the values it was made with. Until the answer, further clicks do nothing.
  function click(kind, values) {
    if (waiting || !tell(kind, values)) return;
    waiting = python.asked;
    ui.root.classList.add("strata-waiting");
    slow = setInterval(() => {
      ui.status.textContent = "waiting for the kernel";
      // Only to learn whether somebody is there.
      tell("look");
    }, 1500);
  }

  function limits(view) {
    const most = ui.force.checked ? view.T : view.natural;
    ui.keep.max = Math.max(1, most);
    ui.count.textContent = view.can.commit ? `${ui.keep.value} of ${view.T}` : "–";
  }

  function moved() {
    limits(model.get("_view"));
    clearTimeout(sliding);
    sliding = setTimeout(() => tell("keep", { keep: Number(ui.keep.value) }), 50);
  }

  function update() {
    const view = model.get("_view");
    if (waiting && python.answered(view.answered) >= waiting) {
      waiting = 0;
      clearInterval(slow);
      ui.root.classList.remove("strata-waiting");
    }
    const held = ui.root.contains(document.activeElement) ? document.activeElement : null;
    for (const verb of VERBS) ui[verb].disabled = !view.can[verb];
    limitRun(view);
    for (const button of [ui.own, ui.wrong]) button.disabled = !view.can.suggest;
    for (const control of [ui.keep, ui.force]) control.disabled = !view.can.commit;
    ui.take.hidden = view.drafter === "";
    ui.take.textContent = `Take from ${view.drafter}`;
    ui.take.disabled = !view.can.take;
    drawPlaces(ui.place, view.places);
    for (const control of [ui.place, ui.back]) control.disabled = !view.can.back;
    ui.noBack.textContent = view.no_back;
    if (view.round !== round) {
      // The slider is a person's from here until the next Finish.
      round = view.round;
      ui.force.checked = false;
      ui.keep.max = Math.max(1, view.T);
      ui.keep.value = view.keep;
    }
    limits(view);
    drawText(ui.text, view);
    drawTable(ui.table, view.rows);
    const failed = view.message.kind === "error";
    ui.message.setAttribute("role", failed ? "alert" : "note");
    ui.message.classList.toggle("strata-error", failed);
    ui.message.textContent = view.message.text;
    // What is wrong with a draft is said below it already.
    if (failed && view.message.text === typed.error) ui.message.textContent = "";
    ui.status.textContent = view.status;
    Object.assign(ui.status.dataset,
      { phase: view.phase, t: view.T, keep: view.keep, position: view.position });
    // A button that goes off drops the focus, and the next key would be the notebook's.
    if (held?.disabled) (VERBS.map((v) => ui[v]).find((b) => !b.disabled) ?? ui.draft).focus();
  }

  // A reason belongs to the draft that it was given for, not to what was typed since.
  function limitRun(view) {
    const why = typed.draft === ui.draft.value ? typed.why : "";
    ui.run.disabled = !view.can.run || why !== "";
    ui.why.textContent = view.can.run ? why : "";
  }

  function show(shown) {
    typed = shown;
    drawPreview(ui.preview, shown);
    const view = model.get("_view");
    limitRun(view);
    if (shown.error && view.message.text === shown.error) ui.message.textContent = "";
  }

  function preview() {
    const shown = model.get("_preview");
    if (shown.fill) fillIn(shown);
    else if (shown.draft === ui.draft.value) show(shown);
  }

  function fillIn(shown) {
    clearTimeout(typing);
    ui.draft.value = shown.draft;
    show(shown);
  }

  const run = () => click("run", { draft: ui.draft.value });
  const commit = () => click("commit", { keep: Number(ui.keep.value), force: ui.force.checked });
  ui.run.addEventListener("click", run);
  ui.finish.addEventListener("click", () => click("finish"));
  ui.commit.addEventListener("click", commit);
  ui.abort.addEventListener("click", () => click("abort"));
  ui.own.addEventListener("click", () => click("suggest", { wrong: false }));
  ui.wrong.addEventListener("click", () => click("suggest", { wrong: true }));
  ui.take.addEventListener("click", () => click("take"));
  ui.back.addEventListener("click", () => click("back", { position: Number(ui.place.value) }));
  ui.keep.addEventListener("input", moved);
  ui.force.addEventListener("change", moved);
  ui.draft.addEventListener("input", () => {
    limitRun(model.get("_view"));
    clearTimeout(typing);
    typing = setTimeout(() => tell("preview", { draft: ui.draft.value }), 120);
  });
  ui.draft.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.stopPropagation();
    if (!ui.run.disabled) run();
  });
  ui.root.addEventListener("keydown", guard);

  const scrolling = showEnd(ui.text);
  model.on("change:_view", update);
  model.on("change:_preview", preview);
  signal.addEventListener("abort", () => {
    model.off("change:_view", update);
    model.off("change:_preview", preview);
    clearInterval(slow);
    scrolling.disconnect();
    ui.root.remove();
  });
  update();
  // A page that is opened later begins with the draft that the others have.
  fillIn({ ...NO_DRAFT, ...model.get("_preview") });
  for (const name of ["_windows", "_positions", "_union"]) {
    const place = make("div", "strata-place " + name.replace("_", "strata-"));
    ui.charts.append(place);
    other(host, model.get(name), signal).then((chart) => chart.render({ el: place, signal }));
  }
}

const initialize = ({ model }) => void hearing(model);

export default { initialize, render };
