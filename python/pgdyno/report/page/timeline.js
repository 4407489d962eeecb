// The timeline: strips of one trial on one cursor, drawn from the JSON of the page. Texts are set as text, never as markup.
(function () {
  "use strict";
  var place = document.getElementById("timeline"), source = document.getElementById("times");
  if (!place || !source) return;
  var data = JSON.parse(source.textContent);
  if (!data.trials.length) return;
  var SVG = "http://www.w3.org/2000/svg", HEIGHT = 146, TOP = 18, BOTTOM = 128, RIGHT = 10;
  var COLOUR = { "CPU": "f2", "I/O": "f0", "WAL": "f5", "Lock": "lock", "LWLock": "f3", "Client": "idle", "other": "f4",
    "user": "f2", "system": "f4", "irq": "f3", "iowait": "f0", "steal": "lock" };
  var select = document.getElementById("trial"), strips = document.getElementById("strips");
  var output = document.getElementById("cursor"), numbers = document.getElementById("numbers");
  var shown = null, panels = [], at = 0;

  function make(tag, attributes, text) {
    var node = document.createElementNS(SVG, tag);
    Object.keys(attributes).forEach(function (name) { node.setAttribute(name, attributes[name]); });
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function html(tag, text, className) {
    var node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  }
  function figure(value) {
    if (value === null || value === undefined) return "\u2013";
    if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(3)));
  }
  // a text of the page in its language, its {placeholders} filled; texts are keyed by the English one
  function gettext(text, values) {
    var found = Object.prototype.hasOwnProperty.call(data.texts, text) ? data.texts[text] : text;
    return found.replace(/\{(\w+)\}/g, function (_, name) { return values[name]; });
  }
  // names of lines are words of the page, but of disks only what stands behind the colon
  function shownName(name) {
    if (/: busy, %$/.test(name)) return name.replace(/busy, %$/, gettext("busy, %"));
    if (/: read, MB\/s$/.test(name)) return name.replace(/read, MB\/s$/, gettext("read, MB/s"));
    if (/: written, MB\/s$/.test(name)) return name.replace(/written, MB\/s$/, gettext("written, MB/s"));
    return gettext(name);
  }
  function top(values) { return values.reduce(function (most, value) { return value > most ? value : most; }, 0); }
  function stacked(lines, count) {
    var sums = [];
    for (var step = 0; step < count; step++) sums.push(lines.reduce(function (sum, line) { return sum + (line.values[step] || 0); }, 0));
    return sums;
  }
  function lines(of) { return Object.keys(of || {}).map(function (name) { return { name: name, values: of[name] }; }); }

  // what a trial has: a strip each, with a sentence that says what to see
  function described(trial) {
    var made = [], from = Math.ceil(trial.warm / trial.step);
    function isThere(value) { return value !== null; }
    function measured(values) { return values.slice(from).filter(isThere); }
    function range(values) {
      var there = measured(values);
      if (!there.length) return gettext("nothing");
      var low = figure(Math.min.apply(null, there)), high = figure(top(there));
      return low === high ? low : gettext("{low} to {high}", { low: low, high: high });
    }
    // tpch has no throughput over time
    if (trial.tps.some(isThere))
      made.push({ title: gettext("Throughput: {range} transactions a second", { range: range(trial.tps) }), unit: "tps", lines: [{ name: "tps", values: trial.tps }], low: trial.low, colour: "t" + trial.colour });
    if (trial.p99.some(isThere))
      made.push({ title: gettext("p99: {range} ms, log axis", { range: range(trial.p99) }), unit: "ms", log: true, lines: [{ name: "p99, ms", values: trial.p99 }], colour: "t" + trial.colour });
    if (trial.waits && Object.keys(trial.waits).length) {
      var waits = lines(trial.waits), most = waits.slice().sort(function (a, b) { return sum(measured(b.values)) - sum(measured(a.values)); })[0];
      made.push({ title: gettext("Active sessions: most in {wait}", { wait: gettext(most.name) }) + (data.cores ? gettext("; dashed: {count} processors", { count: data.cores }) : ""), unit: "sessions", stack: true, lines: waits, rule: data.cores, hz: trial.hz });
    }
    // a step without a sample is unknown, not idle
    function share(parts) {
      return stacked(parts, trial.tps.length).map(function (value, step) { return parts.some(function (part) { return typeof part.values[step] === "number"; }) ? Math.min(value, 100) : null; });
    }
    if (trial.cpu) made.push({ title: gettext("Processors of the host: {range} % busy", { range: range(share(lines(trial.cpu).filter(function (line) { return line.name !== "iowait"; }))) }), unit: "%", stack: true, lines: lines(trial.cpu), high: 100 });
    var busy = {}, rate = {};
    Object.keys(trial.disk || {}).forEach(function (name) { (/busy, %$/.test(name) ? busy : rate)[name] = trial.disk[name]; });
    if (Object.keys(busy).length) made.push({ title: gettext("Disk ({disk}): {range} % of the time busy", { disk: Object.keys(busy)[0].replace(/: busy, %$/, ""), range: range(lines(busy)[0].values) }), unit: "%", lines: lines(busy), high: 100 });
    if (Object.keys(rate).length) made.push({ title: gettext("Disks: MB a second"), unit: "MB/s", lines: lines(rate) });
    if (trial.wal) made.push({ title: gettext("WAL: {range} MB a second", { range: range(trial.wal) }), unit: "MB/s", lines: [{ name: "WAL, MB/s", values: trial.wal }], colour: "t5" });
    lines(trial.queries).forEach(function (each) { made.push({ title: gettext("Query {name}: {range}", { name: each.name, range: range(each.values) }), unit: "", lines: [each], colour: "t0" }); });
    // of a rented server: titles and names come in the page's language
    (trial.cloud || []).forEach(function (each) { made.push({ title: each.title, unit: each.unit, stack: each.stack, high: each.high, n: each.n, gaps: each.gaps, lines: lines(each.lines) }); });
    return made;
  }
  function sum(values) { return values.reduce(function (total, value) { return total + value; }, 0); }

  // how many values stand behind a strip
  function counted(strip) {
    var there = shown.tps.filter(function (_, step) { return strip.lines.some(function (line) { return typeof line.values[step] === "number"; }); }).length;
    if (strip.n) return strip.n;
    if (shown.step > 1) return gettext("n = {count} steps of {width} s", { count: figure(there), width: figure(shown.step) });
    if (there === 1) return strip.hz ? gettext("n = 1 second, {hz} samples", { hz: strip.hz }) : gettext("n = 1 second");
    return strip.hz ? gettext("n = {count} seconds, {hz} samples each", { count: figure(there), hz: strip.hz }) : gettext("n = {count} seconds", { count: figure(there) });
  }

  function draw() {
    strips.textContent = "";
    var all = described(shown);
    // one room for the labels of all strips: the cursor is at one place in each
    all.forEach(function (strip) { strip.ticks = ticksOf(strip); });
    var left = 14 + 7.5 * top(all.map(function (strip) { return top(strip.ticks.map(function (tick) { return figure(tick).length; })); }));
    panels = all.map(function (strip) { return panel(strip, left); });
    table();
    move(at);
  }
  function ticksOf(strip) {
    var every = strip.stack ? stacked(strip.lines, shown.tps.length) : [].concat.apply([], strip.lines.map(function (line) { return line.values; }));
    var there = every.filter(function (value) { return value !== null; });
    return strip.high ? [0, strip.high / 2, strip.high] : strip.log ? decades(there) : evenly(Math.max(top(there), strip.rule || 0));
  }
  function panel(strip, left) {
    var width = Math.max(strips.clientWidth, 320), count = shown.tps.length, end = count * shown.step, ticks = strip.ticks;
    var lowest = ticks[0], highest = ticks[ticks.length - 1];
    function x(seconds) { return left + seconds / end * (width - left - RIGHT); }
    function y(value) {
      var share = strip.log ? Math.log(Math.max(value, lowest) / lowest) / Math.log(highest / lowest) : Math.min(value / highest, 1);
      return BOTTOM - share * (BOTTOM - TOP);
    }
    var svg = make("svg", { viewBox: "0 0 " + width + " " + HEIGHT, height: HEIGHT, role: "img", "aria-label": strip.title });
    if (shown.warm > 0) svg.appendChild(make("rect", { x: left, y: TOP, width: x(Math.min(shown.warm, end)) - left, height: BOTTOM - TOP, "class": "shade" }));
    shown.dips.forEach(function (dip) { svg.appendChild(make("rect", { x: x(dip[0]), y: TOP, width: Math.max(x(dip[1]) - x(dip[0]), 2), height: BOTTOM - TOP, "class": "dip" })); });
    svg.appendChild(make("text", { x: width - RIGHT, y: TOP - 7, "text-anchor": "end", "class": "quiet" }, counted(strip)));
    (strip.gaps || []).forEach(function (gap) {
      var rect = make("rect", { x: x(gap[0] * shown.step), y: TOP, width: x(gap[1] * shown.step) - x(gap[0] * shown.step), height: BOTTOM - TOP, "class": "shade" });
      rect.appendChild(make("title", {}, gettext("no data")));
      svg.appendChild(rect);
    });
    ticks.forEach(function (tick) {
      svg.appendChild(make("line", { x1: left, x2: width - RIGHT, y1: y(tick), y2: y(tick), "class": tick === 0 ? "axis" : "hair" }));
      svg.appendChild(make("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end", "class": "tick" }, figure(tick)));
    });
    evenly(end, width < 600 ? 4 : 8).forEach(function (tick, place, all) {
      if (tick <= end) svg.appendChild(make("text", { x: x(tick), y: HEIGHT - 3, "text-anchor": tick === 0 ? "start" : tick > end * 0.97 ? "end" : "middle", "class": "tick" }, figure(tick) + (place === 0 ? " s" : "")));
    });
    // the ranges of adjacent steps that are known
    function runs(known) {
      var found = [];
      known.forEach(function (there, step) {
        if (there && step && known[step - 1]) found[found.length - 1][1] = step;
        else if (there) found.push([step, step]);
      });
      return found;
    }
    // the middles of steps; both ends of one that is alone, whose middle would not be seen
    function places(run, values) {
      var steps = run[0] === run[1] ? [[run[0], run[0]], [run[0], run[0] + 1]] : [];
      for (var step = run[0]; step <= run[1] && run[0] !== run[1]; step++) steps.push([step, step + 0.5]);
      return steps.map(function (each) { return x(each[1] * shown.step).toFixed(1) + "," + y(values[each[0]]).toFixed(1); });
    }
    function points(values) {
      return runs(values.map(function (value) { return typeof value === "number"; })).map(function (run) { return "M" + places(run, values).join("L"); }).join("");
    }
    if (strip.stack) {
      var under = shown.tps.map(function () { return 0; });
      var known = runs(under.map(function (_, step) { return strip.lines.some(function (line) { return typeof line.values[step] === "number"; }); }));
      strip.lines.forEach(function (line) {
        var over = under.map(function (value, step) { return value + (line.values[step] || 0); });
        var areas = known.map(function (run) { return "M" + places(run, over).concat(places(run, under).reverse()).join("L") + "Z"; });
        svg.appendChild(make("path", { d: areas.join(""), "class": COLOUR[line.name] || "f4" }));
        under = over;
      });
    } else {
      if (strip.low) svg.appendChild(make("path", { d: points(strip.low), "class": "s thin faint " + strip.colour }));
      strip.lines.forEach(function (line, place) { svg.appendChild(make("path", { d: points(line.values), "class": "s " + (strip.colour || "t" + place % 6) })); });
    }
    if (strip.rule) svg.appendChild(make("line", { x1: left, x2: width - RIGHT, y1: y(strip.rule), y2: y(strip.rule), "class": "vcpu" }));
    shown.marks.forEach(function (mark) {
      var line = make("line", { x1: x(mark[0]), x2: x(mark[0]), y1: TOP, y2: BOTTOM, "class": "mark" });
      line.appendChild(make("title", {}, gettext("{what} at {seconds} s", { what: mark[1], seconds: mark[0] })));
      svg.appendChild(line);
    });
    if (!strips.firstChild) words(svg, x, width - RIGHT);
    var cursor = make("line", { x1: -9, x2: -9, y1: TOP, y2: BOTTOM, "class": "cur" });
    svg.appendChild(cursor);
    strips.appendChild(html("h3", strip.title));
    if (strip.lines.length > 1) strips.appendChild(legend(strip));
    strips.appendChild(svg);
    svg.addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect();
      output.setAttribute("aria-live", "off");
      move(Math.floor(((event.clientX - box.left) * width / box.width - left) / (width - left - RIGHT) * count));
    });
    return { strip: strip, cursor: cursor, x: x };
  }
  // an estimate: the drawing is not on the page yet
  function room(text) {
    return Array.prototype.reduce.call(text, function (wide, character) { return wide + (character > "\u2e80" ? 13 : 7.2); }, 0);
  }
  // the words of marks, in three rows, where they do not touch; every mark has its line
  function words(svg, x, right) {
    var free = [0, 0, 0];
    shown.marks.forEach(function (mark) {
      var wide = room(mark[1]), at = x(mark[0]), begin = at + 3 + wide > right ? at - 3 - wide : at + 3;
      var row = free.findIndex(function (end) { return end <= begin; });
      if (row < 0 || begin < x(0)) return;
      free[row] = begin + wide + 8;
      svg.appendChild(make("text", { x: begin > at ? begin : at - 3, y: TOP + 10 + row * 13, "text-anchor": begin > at ? "start" : "end", "class": "quiet halo" }, mark[1]));
    });
  }
  function legend(strip) {
    var list = html("ul", undefined, "legend");
    strip.lines.forEach(function (line, place) {
      var item = html("li"), swatch = document.createElementNS(SVG, "svg");
      swatch.setAttribute("class", "sw");
      swatch.setAttribute("viewBox", "0 0 10 10");
      swatch.setAttribute("aria-hidden", "true");
      swatch.appendChild(make("rect", { width: 10, height: 10, "class": strip.stack ? COLOUR[line.name] || "f4" : "f" + place % 6 }));
      item.appendChild(swatch);
      item.appendChild(document.createTextNode(shownName(line.name)));
      list.appendChild(item);
    });
    return list;
  }
  function evenly(high, wanted) {
    if (!(high > 0)) return [0, 1];
    var raw = high / (wanted || 3), power = Math.pow(10, Math.floor(Math.log10(raw)));
    var step = [1, 2, 5, 10].map(function (each) { return each * power; }).filter(function (each) { return each >= raw * 0.999; })[0];
    var ticks = [];
    for (var tick = 0; tick < Math.ceil(high / step - 1e-9) + 1; tick++) ticks.push(Number((tick * step).toPrecision(12)));
    return ticks;
  }
  function decades(values) {
    var low = Math.min.apply(null, values.filter(function (value) { return value > 0; })), high = top(values), ticks = [];
    if (!isFinite(low)) return [0.1, 1];
    for (var power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)) + 1; power++)
      [1, 2, 5].forEach(function (each) { ticks.push(Number((each * Math.pow(10, power)).toPrecision(3))); });
    var first = ticks.filter(function (tick) { return tick <= low; }).length - 1;
    var last = ticks.findIndex(function (tick) { return tick >= high && tick > low; });
    ticks = ticks.slice(Math.max(first, 0), last + 1);
    return ticks.length > 5 ? ticks.filter(function (tick, place) { return place === 0 || place === ticks.length - 1 || /^[0.]*1/.test(String(tick)); }) : ticks;
  }
  function move(step) {
    at = Math.min(Math.max(step, 0), shown.tps.length - 1);
    var seconds = (at + 0.5) * shown.step, from = figure(at * shown.step), to = figure((at + 1) * shown.step), said = [(shown.step > 1 ? gettext("{low} to {high}", { low: from, high: to }) : from) + " s"];
    panels.forEach(function (each) {
      each.cursor.setAttribute("x1", each.x(seconds));
      each.cursor.setAttribute("x2", each.x(seconds));
      each.strip.lines.forEach(function (line) { if (line.values[at] || line.values[at] === 0 && !each.strip.stack) said.push(shownName(line.name) + " " + figure(line.values[at])); });
    });
    shown.marks.forEach(function (mark) { if (mark[0] >= at * shown.step && mark[0] < (at + 1) * shown.step) said.push(mark[1]); });
    output.textContent = said.join(" \u00b7 ");
  }
  function table() {
    while (numbers.childNodes.length > 1) numbers.removeChild(numbers.lastChild);
    var columns = [], head = html("thead"), row = html("tr"), body = html("tbody");
    panels.forEach(function (each) { each.strip.lines.forEach(function (line) { columns.push({ name: shownName(line.name), values: line.values }); }); });
    [gettext("from, s")].concat(columns.map(function (column) { return column.name; })).forEach(function (name) {
      var cell = html("th", name);
      cell.scope = "col";
      row.appendChild(cell);
    });
    head.appendChild(row);
    numbers.appendChild(head);
    shown.tps.forEach(function (_, step) {
      var line = html("tr"), first = html("th", figure(step * shown.step));
      first.scope = "row";
      line.appendChild(first);
      columns.forEach(function (column) { line.appendChild(html("td", figure(column.values[step]))); });
      body.appendChild(line);
    });
    numbers.appendChild(body);
  }
  function choose(number) {
    shown = data.trials.filter(function (trial) { return trial.n === number; })[0] || data.trials[0];
    select.value = String(shown.n);
    at = Math.ceil(shown.warm / shown.step);
    draw();
  }
  data.trials.forEach(function (trial) {
    var option = html("option", trial.n + ": " + trial.name);
    option.value = String(trial.n);
    select.appendChild(option);
  });
  place.hidden = false;
  var fixed = document.getElementById("static");
  if (fixed) fixed.open = false;
  select.addEventListener("change", function () { choose(Number(select.value)); });
  strips.addEventListener("keydown", function (event) {
    var by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    // a pointer would have every step that it passes read out
    output.setAttribute("aria-live", "polite");
    move(by === -Infinity ? 0 : by === Infinity ? shown.tps.length - 1 : at + by);
  });
  var wide = 0;
  window.addEventListener("resize", function () {
    if (strips.clientWidth !== wide) { wide = strips.clientWidth; draw(); }
  });
  choose(data.chosen);
  wide = strips.clientWidth;
})();
