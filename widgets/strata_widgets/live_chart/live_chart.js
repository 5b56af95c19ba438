// One call per model, so these variables belong to one chart, whatever the number of its views.
export default () => {
  let epoch = 0, first = 0, rows = [], limit = null, seq = 0;
  const wake = new Set();

  // Rows are taken here and not in `render`: they may come before any view exists.
  function initialize({ model }) {
    model.on("msg:custom", (message) => {
      if (message.kind !== "rows" || message.seq < seq) return;
      if (message.op === "reset") { epoch++; first = 0; rows = []; }
      for (const row of message.rows) rows.push(row);
      limit = message.limit ?? null;
      seq = message.seq;
      const over = limit ? rows.length - limit : 0;
      if (over > 0) { first += over; rows.splice(0, over); }
      for (const book of wake) book();
    });
    model.send({ kind: "hello" });
  }

  async function render({ model, el, signal, host }) {
    const root = document.createElement("div");
    root.className = "strata-chart";
    root.tabIndex = 0;
    root.dataset.state = "loading";
    el.append(root);
    // Never in `initialize`: a model that takes 2 s to start stays deaf for good.
    const { exports: { vegaEmbed } } = await host.getWidget(model.get("_lib"));
    let chart = null, generation = 0, drawn = -1, count = 0, booked = false, busy = false;

    async function embed() {
      const mine = ++generation;
      const spec = themed(structuredClone(model.get("spec")));
      const options = { actions: false, renderer: model.get("renderer") };
      const made = await vegaEmbed(root, spec, options).catch((error) => ({ error }));
      if (made.error) {
        root.textContent = "Chart error: " + made.error.message;
        root.dataset.state = "error";
        return;
      }
      if (mine !== generation || signal.aborted) return made.finalize();
      chart?.finalize();
      chart = made;
      drawn = -1;
      model.get("_watch").forEach(watch);
      await draw();
      root.dataset.state = "ready";
    }

    function watch(name) {
      let timer;
      chart.view.addSignalListener(name, (_, value) => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          const plain = JSON.parse(JSON.stringify(value ?? null));
          model.set("selection", { ...model.get("selection"), [name]: plain });
          model.save_changes();
        }, 30);
      });
    }

    function book() {
      if (booked) return;
      booked = true;
      const go = () => { booked = false; draw(); };
      // A hidden tab gets no frames.
      document.hidden ? setTimeout(go, 500) : requestAnimationFrame(go);
    }

    const upToDate = () => drawn === epoch && count === first + rows.length;

    async function draw() {
      if (!chart || busy || epoch === 0 || upToDate()) return;
      busy = true;
      const at = seq, changes = chart.view.changeset();
      if (drawn === epoch) insertNew(changes);
      else changes.remove(() => true).insert(rows.slice());
      drawn = epoch;
      count = first + rows.length;
      try { await chart.view.change("live", changes).runAsync(); } finally { busy = false; }
      root.dataset.seq = at;
      if (!upToDate()) book();
    }

    function insertNew(changes) {
      const fresh = rows.slice(Math.max(0, count - first));
      const old = chart.view.data("live");
      const over = limit ? old.length + fresh.length - limit : 0;
      if (over > 0) {
        const gone = new Set(old.slice(0, over));
        changes.remove((row) => gone.has(row));
      }
      changes.insert(fresh);
    }

    wake.add(book);
    model.on("change:spec", embed);
    const theme = new MutationObserver(embed);
    theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name"] });
    root.addEventListener("keydown", guard, { signal });
    signal.addEventListener("abort", () => {
      wake.delete(book);
      model.off("change:spec", embed);
      theme.disconnect();
      generation++;
      chart?.finalize();
      chart = null;
      root.remove();
      root.replaceChildren();
    });
    await embed();
  }
  return { initialize, render };
};

// JupyterLab's colours go under the chart's own: the chart says what means something.
function themed(spec) {
  const css = getComputedStyle(document.body);
  const colour = (name, other) => css.getPropertyValue(name).trim() || other;
  const ink = colour("--jp-ui-font-color1", "#222"), grid = colour("--jp-border-color2", "#ccc");
  const page = {
    background: "transparent",
    view: { stroke: grid },
    title: { color: ink, subtitleColor: ink },
    axis: { labelColor: ink, titleColor: ink, domainColor: ink, tickColor: ink, gridColor: grid },
    legend: { labelColor: ink, titleColor: ink },
  };
  return { ...spec, config: merge(page, spec.config ?? {}) };
}

function merge(under, over) {
  const made = { ...under };
  for (const key in over) {
    const plain = over[key] && typeof over[key] === "object" && !Array.isArray(over[key]);
    made[key] = plain ? merge(under[key] ?? {}, over[key]) : over[key];
  }
  return made;
}

// Keys pressed in here are not the notebook's: "b" must not insert a cell.
function guard(event) {
  const global = event.ctrlKey || event.metaKey || event.altKey || event.key === "Escape";
  if (!global) event.stopPropagation();
}
