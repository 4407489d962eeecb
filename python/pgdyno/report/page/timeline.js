// The timeline: strips of one trial on one cursor, drawn from the JSON of the page. Texts are set as text, never as markup.
(function () {
  "use strict";
  var place = document.getElementById("timeline"), source = document.getElementById("times");
  if (!place || !source) return;
  var data = JSON.parse(source.textContent);
  if (!data.trials.length) return;
  var figure = Strips.figure, isThere = Strips.isThere, stacked = Strips.stacked, top = Strips.top;
  var select = document.getElementById("trial"), strips = document.getElementById("strips");
  var output = document.getElementById("cursor"), numbers = document.getElementById("numbers");
  var shown = null, panels = [], at = 0;

  function html(tag, text, className) {
    var node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
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
  function lines(of) { return Object.keys(of || {}).map(function (name) { return { name: name, values: of[name] }; }); }

  // what a trial has: a strip each, with a sentence that says what to see
  function described(trial) {
    var made = [], from = Math.ceil((trial.warm - trial.begin) / trial.step);
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
  // when a step of the shown trial begins, from the start of measuring
  function begins(step) { return shown.begin + step * shown.step; }
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
    var all = described(shown), width = Math.max(strips.clientWidth, 320), count = shown.tps.length, end = begins(count);
    var times = Strips.between(shown.begin, end, width < 600 ? 4 : 8);
    var axis = { width: width, begin: shown.begin, count: count, step: shown.step, warm: shown.warm, dips: shown.dips, marks: shown.marks,
      times: times.map(function (tick, place) { return [tick, figure(tick) + (place === 0 ? " s" : "")]; }) };
    axis.left = Strips.room(all, axis);
    panels = all.map(function (strip, place) {
      strip.note = counted(strip);
      var panel = Strips.picture(strip, axis, gettext, place === 0);
      strips.appendChild(html("h3", strip.title));
      if (strip.lines.length > 1) strips.appendChild(Strips.legend(strip, shownName));
      strips.appendChild(panel.svg);
      panel.svg.addEventListener("pointermove", function (event) {
        output.setAttribute("aria-live", "off");
        move(Math.floor((panel.secondsAt(event) - shown.begin) / shown.step));
      });
      return { strip: strip, move: panel.move };
    });
    table();
    move(at);
  }
  function move(step) {
    at = Math.min(Math.max(step, 0), shown.tps.length - 1);
    var seconds = begins(at + 0.5), from = figure(begins(at)), to = figure(begins(at + 1)), said = [(shown.step > 1 ? gettext("{low} to {high}", { low: from, high: to }) : from) + " s"];
    panels.forEach(function (each) {
      each.move(seconds);
      each.strip.lines.forEach(function (line) { if (line.values[at] || line.values[at] === 0 && !each.strip.stack) said.push(shownName(line.name) + " " + figure(line.values[at])); });
    });
    shown.marks.forEach(function (mark) { if (mark[0] >= begins(at) && mark[0] < begins(at + 1)) said.push(mark[1]); });
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
      var line = html("tr"), first = html("th", figure(begins(step)));
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
    at = Math.ceil((shown.warm - shown.begin) / shown.step);
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
