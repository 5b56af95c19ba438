// Vega's warnings, of rows that are not there yet for one, are many, and a page's console slow.
const ERRORS = 1;
// Out of view, a chart is drawn when nothing has come for so many milliseconds.
const STILL = 400;
// Changes no further apart than this are a stream, once there are so many of them. A stream
// is drawn on a canvas, which takes half as long; in SVG, whose marks have labels, when it rests.
const APART = 700, MANY = 4;

// One call per model, so these variables belong to one chart, whatever the number of its views.
export default () => {
  let epoch = 0, first = 0, rows = [], limit = null, seq = 0;
  const wake = new Set();

  // Rows are taken here and not in `render`: they may come before any view exists.
  function initialize({ model }) {
    model.on("msg:custom", (message) => { if (message.kind === "rows") take(message); });
    const begin = () => take(model.get("_first"));
    begin();
    model.on("change:_first", begin);
    const hello = () => model.send({ kind: "hello" });
    hello();
    hearing(model, hello);
  }

  function take(message) {
    if (message.seq < seq) return;
    if (message.op === "reset") { epoch++; first = 0; rows = []; }
    for (const row of message.rows) rows.push(row);
    limit = message.limit ?? null;
    seq = message.seq;
    const over = limit ? rows.length - limit : 0;
    if (over > 0) { first += over; rows.splice(0, over); }
    for (const change of wake) change();
  }

  async function render({ model, el, signal, host }) {
    const root = make("div", "strata-chart");
    root.tabIndex = 0;
    root.dataset.state = "loading";
    el.append(root);
    // Never in `initialize`: a model that takes 2 s to start stays deaf for good.
    const { exports: library } = await other(host, model.get("_lib"), signal);
    let chart = null, generation = 0, current = 0, drawn = -1, count = 0, revalued = false, busy = false;
    let inView = true, frame = 0, rest = 0, calm = 0, changed = -Infinity, close = 0;

    // One chart after the other, with the page's own work between: the first is there sooner
    // than when all of them are made at once.
    function embed() {
      const mine = ++generation;
      tell();
      // Models that begin, and have 2 s for it, come first.
      const idle = window.requestIdleCallback ?? setTimeout;
      const breath = () => new Promise((done) => idle(done, { timeout: 1000 }));
      library.turn = (library.turn ?? Promise.resolve()).then(breath, breath).then(() => made(mine));
      return library.turn;
    }

    async function made(mine) {
      if (mine !== generation || signal.aborted) return;
      const spec = themed(structuredClone(model.get("spec")));
      const options = { actions: false, renderer: model.get("renderer"), logLevel: ERRORS };
      const fresh = await library.vegaEmbed(root, spec, options).catch((error) => ({ error }));
      if (fresh.error) {
        root.textContent = "Chart error: " + fresh.error.message;
        root.dataset.state = "error";
        return;
      }
      if (mine !== generation || signal.aborted) return fresh.finalize();
      delete root.dataset.state;
      chart?.finalize();
      chart = fresh;
      current = mine;
      drawn = -1;
      model.get("_watch").forEach(watch);
      chart.view.addEventListener("click", click);
      setValues();
      await draw();
      tell();
    }

    // Ready is what shows all that has come, with a label on each mark.
    function tell() {
      const rests = current === generation && !busy && upToDate() && chart?.view.renderer() === model.get("renderer");
      if (root.dataset.state !== "error") root.dataset.state = !chart ? "loading" : rests ? "ready" : "drawing";
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

    // The row alone travels: what Vega hangs on it is a symbol or begins with "vg".
    function click(_, item) {
      const row = item?.datum;
      if (!row || item.mark?.role !== "mark") return;
      model.send({ kind: "click", row: JSON.parse(JSON.stringify(row)) });
    }

    const known = (name) => { try { chart.view.signal(name); return true; } catch { return false; } };

    function setValues() {
      for (const [name, value] of Object.entries(model.get("values") ?? {}))
        if (known(name)) chart.view.signal(name, value);
    }

    const revalue = () => { revalued = true; change(); };

    function paint(renderer) {
      if (!chart || chart.view.renderer() === renderer) return false;
      chart.view.renderer(renderer);
      return true;
    }

    function stream() {
      const now = performance.now(), since = now - changed;
      // What comes at once is one change.
      if (since > 20) close = since < APART ? close + 1 : 0;
      changed = now;
      if (close >= MANY) paint("canvas");
      clearTimeout(calm);
      calm = setTimeout(settle, APART);
    }

    function settle() {
      if (busy || frame) calm = setTimeout(settle, APART);
      else if (paint(model.get("renderer"))) chart.view.runAsync().then(tell);
    }

    function change() { stream(); book(); tell(); }

    // A frame draws what is newest by then. In a hidden tab there are none.
    function book() {
      if (inView && !document.hidden) { frame ||= requestAnimationFrame(go); return; }
      clearTimeout(rest);
      rest = setTimeout(go, STILL);
    }

    function go() {
      frame = 0;
      clearTimeout(rest);
      draw();
    }

    const upToDate = () => !revalued && (epoch === 0 || (drawn === epoch && count === first + rows.length));

    async function draw() {
      // Rows of a drawing that is still to be made are nothing for the old one.
      if (!chart || current !== generation || busy || upToDate()) return;
      busy = true;
      const at = seq, view = chart.view;
      if (revalued) setValues();
      revalued = false;
      if (epoch) {
        const changes = view.changeset();
        if (drawn === epoch) insertNew(changes);
        else changes.remove(() => true).insert(rows.slice());
        drawn = epoch;
        count = first + rows.length;
        view.change("live", changes);
      }
      try { await view.runAsync(); } finally { busy = false; }
      root.dataset.seq = at;
      if (!upToDate()) book();
      tell();
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

    wake.add(change);
    model.on("change:spec", embed);
    model.on("change:values", revalue);
    const seen = new IntersectionObserver((entries) => {
      inView = entries.at(-1).isIntersecting;
      if (inView && !upToDate()) book();
    }, { rootMargin: "100px" });
    seen.observe(root);
    document.addEventListener("visibilitychange", () => { if (!upToDate()) book(); }, { signal });
    const theme = new MutationObserver(embed);
    theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name"] });
    root.addEventListener("keydown", guard, { signal });
    signal.addEventListener("abort", () => {
      wake.delete(change);
      model.off("change:spec", embed);
      model.off("change:values", revalue);
      theme.disconnect();
      seen.disconnect();
      cancelAnimationFrame(frame);
      clearTimeout(rest);
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
    header: { labelColor: ink, titleColor: ink },
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
