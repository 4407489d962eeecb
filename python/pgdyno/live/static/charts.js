// The strips of a live trial: the report's own, with times of day, and a line at the pointer through all of them.
"use strict";
const Charts = (() => {
  const MOST_STEPS = 600, LEAST_S = 10;
  // nothing is known between samples that are this far apart
  const GONE_S = 5;
  const ROUND_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
  const NAMES = { "Client": "Client (waits for the load)", "irq": "interrupts", "iowait": "I/O wait" };
  const clock = (t) => new Date(t * 1000).toLocaleTimeString("en-GB");
  const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  let last = null, panels = [], pointer = null;

  // the means of `get` in steps of seconds, or the highest values; a short gap has the value before it
  function steps(axis, list, get, most) {
    const sums = Array(axis.count).fill(null), numbers = Array(axis.count).fill(0);
    for (const each of list) {
      const value = get(each), at = Math.floor((each.t - axis.from) / axis.step);
      if (value == null || !(at in sums)) continue;
      sums[at] = most && sums[at] != null ? Math.max(sums[at], value) : most ? value : sums[at] + value;
      numbers[at] += 1;
    }
    const values = sums.map((sum, at) => sum == null || most ? sum : sum / numbers[at]);
    const known = values.flatMap((value, at) => value == null ? [] : [at]);
    known.slice(1).forEach((at, n) => { if ((at - known[n]) * axis.step <= GONE_S) values.fill(values[known[n]], known[n] + 1, at); });
    return values;
  }

  function draw(given, from, to, moments) {
    last = [given, from, to, moments];
    const start = from ?? Date.now() / 1000 - LEAST_S, length = Math.max((to ?? start) - start + 1, LEAST_S), step = Math.ceil(length / MOST_STEPS);
    const axis = { from: start, begin: 0, step, count: Math.ceil(length / step), grid: true, warm: 0, dips: [], marks: moments.filter((each) => each.t >= start && each.t <= start + length).map((each) => [Math.round(each.t - start), each.text]) };
    const strips = given.map((strip) => ({ ...strip, lines: strip.lines.map(([name, get, colour]) => ({ name, colour, values: steps(axis, strip.list, get, strip.log) })) }));
    axis.left = Strips.room(strips, axis);
    const boxes = strips.map((strip) => document.getElementById(`strip-${strip.id}`));
    axis.width = Math.max(boxes[0].clientWidth, 200);
    const every = ROUND_S.find((each) => length / each * 90 <= axis.width - axis.left) ?? 7200;
    axis.times = [];
    for (let t = Math.ceil(start / every) * every; t <= start + length; t += every) axis.times.push([t - start, clock(t)]);
    panels = strips.map((strip, place) => {
      const panel = Strips.picture(strip, axis, filled, place === 0);
      panel.svg.addEventListener("pointermove", (event) => { pointer = start + panel.secondsAt(event); cursor(start); });
      boxes[place].replaceChildren(panel.svg);
      const names = document.getElementById(`legend-${strip.id}`);
      if (names && !names.firstChild) names.append(...Strips.legend(strip, (name) => NAMES[name] || name).childNodes);
      return panel;
    });
    cursor(start);
  }
  function cursor(start) { if (pointer != null) for (const panel of panels) panel.move(Math.max(pointer - start, 0)); }

  window.addEventListener("resize", () => { if (last) draw(...last); });
  return { draw };
})();
