// The strips of a live trial: uPlot, one cursor for all, colours from the style sheet.
"use strict";
const Charts = (() => {
  const HEIGHT = 134;
  const WAITS = [["CPU", "--t2"], ["I/O", "--t0"], ["WAL", "--t5"], ["Lock", "--bad"], ["LWLock", "--t3"], ["Client", "--quiet"], ["other", "--t4"]];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (n) => n == null ? "–" : n >= 1e6 ? `${+(n / 1e6).toPrecision(3)}M` : n >= 1e4 ? `${+(n / 1e3).toPrecision(3)}k` : `${+n.toPrecision(3)}`;
  const time = (t) => new Date(t * 1000).toLocaleTimeString("en-GB");
  const percent = (n) => n == null ? "–" : `${Math.round(n * 100)} %`;
  const SPECS = {
    tps: { lines: [["tps", "--t0"], ["baseline", "--quiet", [5, 4]]], show: short },
    p99: { lines: [["p99, ms", "--t0"], ["baseline", "--quiet", [5, 4]]], show: short, log: true },
    waits: { lines: [...WAITS.slice().reverse().map(([name, at]) => [name, at, null, true]), ["cores", "--ink", [2, 3]]], show: short },
    cpu: { lines: [["with steal", "--bad", null, true], ["with I/O wait", "--t0", null, true], ["with interrupts", "--t3", null, true], ["with system", "--t4", null, true], ["user", "--t2", null, true]], show: percent, top: 1 },
    disk: { lines: [["written, MB/s", "--t1"], ["read, MB/s", "--t0", [6, 3]]], show: short },
    wal: { lines: [["WAL, MB/s", "--t5"]], show: short },
  };
  const CPU = [["user", "--t2"], ["system", "--t4"], ["interrupts", "--t3"], ["I/O wait", "--t0"], ["steal", "--bad"]];
  let plots = {}, range = null, marks = [];

  // words over the first strip alone, the newest first, where they do not touch; every moment has its line
  function named(plot, there) {
    const { ctx, bbox } = plot, dots = devicePixelRatio, free = [Infinity, Infinity, Infinity];
    ctx.setLineDash([]);
    ctx.strokeStyle = colour("--ground");
    ctx.lineWidth = 4 * dots;
    ctx.lineJoin = "round";
    there.slice().reverse().forEach((each) => {
      const x = plot.valToPos(each.t, "x", true), wide = ctx.measureText(each.text).width;
      const begin = x + 4 * dots + wide > bbox.left + bbox.width ? x - 4 * dots - wide : x + 4 * dots;
      const row = free.findIndex((end) => begin + wide <= end);
      if (row < 0 || begin < bbox.left) return;
      free[row] = begin - 8 * dots;
      const y = bbox.top + (12 + row * 14) * dots;
      ctx.strokeText(each.text, begin, y);
      ctx.fillText(each.text, begin, y);
    });
  }

  function marked(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--ink");
    ctx.setLineDash([2, 3]);
    ctx.fillStyle = colour("--quiet");
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    const there = marks.filter((each) => each.t >= plot.scales.x.min && each.t <= plot.scales.x.max);
    there.forEach((each) => {
      const x = plot.valToPos(each.t, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    });
    if (plot === plots.tps) named(plot, there);
    ctx.restore();
  }

  // of a log axis, lines and labels at 1, 2 and 5 of each decade
  const round = (_u, ticks) => ticks.map((each) => each != null && /^[125]$/.test(each.toExponential(0)[0]) && Math.abs(each - Number(each.toExponential(0))) < 1e-9 * each ? each : null);
  // a log axis has no zero, and at least a decade
  const decades = (low, high) => {
    const least = Math.max(low || 0.1, 1e-4), from = 10 ** Math.floor(Math.log10(least));
    return [from, Math.max(10 ** Math.ceil(Math.log10(Math.max(high || 0, least))), from * 10)];
  };

  // a line of one second alone is not seen
  const alone = (plot) => plot.data[0].length === 1;

  function options(name, width) {
    const spec = SPECS[name], axis = { stroke: colour("--quiet"), grid: { stroke: colour("--hair"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
      width, height: HEIGHT, padding: [8, 28, 0, 0], hooks: { draw: [marked] }, legend: { show: false },
      cursor: { sync: { key: "trial" }, drag: { x: false, y: false }, points: { show: !spec.lines[0][3] } },
      scales: { x: { time: true, range: () => range || [Date.now() / 1000 - 10, Date.now() / 1000] }, y: spec.log ? { distr: 3, range: (_u, low, high) => decades(low, high) } : { range: (_u, _low, high) => [0, spec.top || (high > 0 ? high * 1.1 : 1)] } },
      axes: [{ ...axis, space: 90, size: 30, gap: 8, values: (_u, ticks) => ticks.map(time) }, { ...axis, ...(spec.log ? { filter: round, grid: { ...axis.grid, filter: round } } : {}), size: 52, values: (_u, ticks) => ticks.map((each) => each == null ? "" : spec.show(each)), space: 28 }],
      series: [{}, ...spec.lines.map(([label, at, dash, filled]) => ({
        label, stroke: filled ? undefined : colour(at), width: filled ? 0 : 1.75, dash: dash || undefined,
        fill: filled ? colour(at) : undefined, points: { show: alone, size: 5, fill: colour(at) },
      }))],
    };
  }

  function make(data) {
    Object.values(plots).forEach((each) => each.destroy());
    plots = {};
    for (const name of Object.keys(SPECS)) {
      const box = document.getElementById(`strip-${name}`);
      plots[name] = new uPlot(options(name, Math.max(box.clientWidth, 200)), data[name], box);
    }
  }

  function draw(data, from, to, moments) {
    marks = moments;
    range = from == null ? null : [from, Math.max(to, from + 10)];
    if (!Object.keys(plots).length) make(data);
    else for (const [name, plot] of Object.entries(plots)) plot.setData(data[name]);
  }

  function legend(list, names) {
    list.replaceChildren(...names.map(([name, at]) => {
      const item = document.createElement("li"), mark = document.createElement("span");
      mark.className = "swatch";
      mark.style.background = `var(${at})`;
      item.append(mark, name === "Client" ? "Client (waits for the load)" : name);
      return item;
    }));
  }
  function legends() {
    legend(document.getElementById("legend-waits"), WAITS);
    legend(document.getElementById("legend-cpu"), CPU);
  }

  let last = null;
  window.addEventListener("resize", () => { for (const [name, plot] of Object.entries(plots)) plot.setSize({ width: Math.max(document.getElementById(`strip-${name}`).clientWidth, 200), height: HEIGHT }); });
  document.addEventListener("theme", () => { if (last) { make(last); } });
  return { draw: (data, from, to, moments) => { last = data; draw(data, from, to, moments); }, legends, short, waits: WAITS.map(([name]) => name) };
})();
