// Strips on one axis of seconds, for the timeline of the report and for the live page. Texts are set as text, never as markup.
var Strips = (function () {
  "use strict";
  var SVG = "http://www.w3.org/2000/svg", HEIGHT = 146, TOP = 18, BOTTOM = 128, RIGHT = 10;
  var COLOUR = { "CPU": "f2", "I/O": "f0", "WAL": "f5", "Lock": "lock", "LWLock": "f3", "Client": "idle", "other": "f4",
    "user": "f2", "system": "f4", "irq": "f3", "iowait": "f0", "steal": "lock" };

  function make(tag, attributes, text) {
    var node = document.createElementNS(SVG, tag);
    Object.keys(attributes).forEach(function (name) { if (attributes[name] !== undefined) node.setAttribute(name, attributes[name]); });
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function figure(value) {
    if (value === null || value === undefined) return "\u2013";
    if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(3)));
  }
  function isThere(value) { return typeof value === "number"; }
  function top(values) { return values.reduce(function (most, value) { return value > most ? value : most; }, 0); }
  function stacked(lines, count) {
    var sums = [];
    for (var step = 0; step < count; step++) sums.push(lines.reduce(function (sum, line) { return sum + (line.values[step] || 0); }, 0));
    return sums;
  }
  function evenly(high, wanted) {
    if (!(high > 0)) return [0, 1];
    var raw = high / (wanted || 3), power = Math.pow(10, Math.floor(Math.log10(raw)));
    var step = [1, 2, 5, 10].map(function (each) { return each * power; }).filter(function (each) { return each >= raw * 0.999; })[0];
    var ticks = [];
    for (var tick = 0; tick < Math.ceil(high / step - 1e-9) + 1; tick++) ticks.push(Number((tick * step).toPrecision(12)));
    return ticks;
  }
  function between(low, high, wanted) {
    var step = evenly(high - low, wanted)[1], ticks = [];
    for (var at = Math.ceil(low / step - 1e-9); at * step <= high; at++) ticks.push(Number((at * step).toPrecision(12)));
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
  function ticksOf(strip, count) {
    var every = strip.stack ? stacked(strip.lines, count) : [].concat.apply([], strip.lines.map(function (line) { return line.values; }));
    var there = every.concat(strip.rule || []).filter(isThere);
    return strip.high ? [0, strip.high / 2, strip.high] : strip.log ? decades(there) : evenly(top(there));
  }
  // one room for the labels of all strips: the cursor is at one place in each
  function room(all, axis) {
    all.forEach(function (strip) { strip.ticks = ticksOf(strip, axis.count); });
    return 14 + 7.5 * top(all.map(function (strip) { return top(strip.ticks.map(function (tick) { return (strip.show || figure)(tick).length; })); }));
  }
  // the ranges of adjacent steps that are known
  function runs(known) {
    var found = [];
    known.forEach(function (there, step) {
      if (there && step && known[step - 1]) found[found.length - 1][1] = step;
      else if (there) found.push([step, step]);
    });
    return found;
  }
  // an estimate: the drawing is not on the page yet
  function breadth(text) {
    return Array.prototype.reduce.call(text, function (wide, character) { return wide + (character > "\u2e80" ? 13 : 7.2); }, 0);
  }
  // the words of marks, in three rows, where they do not touch; every mark has its line
  function words(svg, marks, x, left, right) {
    var free = [0, 0, 0];
    marks.forEach(function (mark) {
      var wide = breadth(mark[1]), at = x(mark[0]), begin = at + 3 + wide > right ? at - 3 - wide : at + 3;
      var row = free.findIndex(function (end) { return end <= begin; });
      if (row < 0 || begin < left) return;
      free[row] = begin + wide + 8;
      svg.appendChild(make("text", { x: begin > at ? begin : at - 3, y: TOP + 10 + row * 13, "text-anchor": begin > at ? "start" : "end", "class": "quiet halo" }, mark[1]));
    });
  }

  // A strip has lines of values by step, perhaps stacked, and its ticks; without a title, it is part of an element that
  // has one. The axis has steps (begin, count, step), the end of the warm-up (warm), dips, marks, labelled times with or without a grid, the
  // width and the room left for labels; `named`: with the words of marks.
  function picture(strip, axis, gettext, named) {
    var width = axis.width, left = axis.left, begin = axis.begin, length = axis.count * axis.step, ticks = strip.ticks;
    var lowest = ticks[0], highest = ticks[ticks.length - 1];
    function x(seconds) { return left + (seconds - begin) / length * (width - left - RIGHT); }
    function y(value) {
      var share = strip.log ? Math.log(Math.max(value, lowest) / lowest) / Math.log(highest / lowest) : Math.min(value / highest, 1);
      return BOTTOM - share * (BOTTOM - TOP);
    }
    var svg = make("svg", { viewBox: "0 0 " + width + " " + HEIGHT, height: HEIGHT, role: strip.title && "img", "aria-label": strip.title });
    function add(tag, attributes, text) { return svg.appendChild(make(tag, attributes, text)); }
    function shade(from, to, kind) { return add("rect", { x: x(from), y: TOP, width: Math.max(x(to) - x(from), 2), height: BOTTOM - TOP, "class": kind }); }
    if (axis.warm > begin) shade(begin, Math.min(axis.warm, begin + length), "shade");
    axis.dips.forEach(function (dip) { shade(dip[0], dip[1], "dip"); });
    add("text", { x: width - RIGHT, y: TOP - 7, "text-anchor": "end", "class": "quiet" }, strip.note);
    (strip.gaps || []).forEach(function (gap) {
      shade(begin + gap[0] * axis.step, begin + gap[1] * axis.step, "shade").appendChild(make("title", {}, gettext("no data")));
    });
    ticks.forEach(function (tick) {
      add("line", { x1: left, x2: width - RIGHT, y1: y(tick), y2: y(tick), "class": tick === 0 ? "axis" : "hair" });
      add("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end", "class": "tick" }, (strip.show || figure)(tick));
    });
    axis.times.forEach(function (time) {
      if (axis.grid) add("line", { x1: x(time[0]), x2: x(time[0]), y1: TOP, y2: BOTTOM, "class": "hair" });
      add("text", { x: x(time[0]), y: HEIGHT - 3, "text-anchor": time[0] === begin ? "start" : time[0] > begin + length * 0.97 ? "end" : "middle", "class": "tick" }, time[1]);
    });
    // the middles of steps; both ends of one that is alone, whose middle would not be seen
    function places(run, values) {
      var steps = run[0] === run[1] ? [[run[0], run[0]], [run[0], run[0] + 1]] : [];
      for (var step = run[0]; step <= run[1] && run[0] !== run[1]; step++) steps.push([step, step + 0.5]);
      return steps.map(function (each) { return x(begin + each[1] * axis.step).toFixed(1) + "," + y(values[each[0]]).toFixed(1); });
    }
    function draw(values, kind) {
      add("path", { d: runs(values.map(isThere)).map(function (run) { return "M" + places(run, values).join("L"); }).join(""), "class": kind });
    }
    if (strip.stack) {
      var under = stacked([], axis.count);
      var known = runs(under.map(function (_, step) { return strip.lines.some(function (line) { return isThere(line.values[step]); }); }));
      strip.lines.forEach(function (line) {
        var over = under.map(function (value, step) { return value + (line.values[step] || 0); });
        var areas = known.map(function (run) { return "M" + places(run, over).concat(places(run, under).reverse()).join("L") + "Z"; });
        add("path", { d: areas.join(""), "class": COLOUR[line.name] || "f4" });
        under = over;
      });
    } else {
      if (strip.low) draw(strip.low, "s thin faint " + strip.colour);
      strip.lines.forEach(function (line, place) { draw(line.values, "s " + (line.colour || strip.colour || "t" + place % 6)); });
    }
    if (strip.rule) add("line", { x1: left, x2: width - RIGHT, y1: y(strip.rule), y2: y(strip.rule), "class": "vcpu" });
    axis.marks.forEach(function (mark) {
      add("line", { x1: x(mark[0]), x2: x(mark[0]), y1: TOP, y2: BOTTOM, "class": "mark" })
        .appendChild(make("title", {}, gettext("{what} at {seconds} s", { what: mark[1], seconds: mark[0] })));
    });
    if (named) words(svg, axis.marks, x, left, width - RIGHT);
    var cursor = add("line", { x1: -9, x2: -9, y1: TOP, y2: BOTTOM, "class": "cur" });
    return {
      svg: svg,
      move: function (seconds) { cursor.setAttribute("x1", x(seconds)); cursor.setAttribute("x2", x(seconds)); },
      secondsAt: function (event) {
        var box = svg.getBoundingClientRect();
        return ((event.clientX - box.left) * width / box.width - left) / (width - left - RIGHT) * length + begin;
      },
    };
  }
  function legend(strip, shownName) {
    var list = document.createElement("ul");
    list.className = "legend";
    strip.lines.forEach(function (line, place) {
      var item = document.createElement("li"), swatch = make("svg", { "class": "sw", viewBox: "0 0 10 10", "aria-hidden": "true" });
      swatch.appendChild(make("rect", { width: 10, height: 10, "class": strip.stack ? COLOUR[line.name] || "f4" : "f" + place % 6 }));
      item.append(swatch, shownName(line.name));
      list.appendChild(item);
    });
    return list;
  }
  return { between: between, figure: figure, isThere: isThere, legend: legend, picture: picture, room: room, stacked: stacked, top: top, waits: Object.keys(COLOUR).slice(0, 7) };
})();
