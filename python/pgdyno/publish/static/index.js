(function () {
  "use strict";
  var table = document.getElementById("runs"), filters = document.getElementById("filters");
  if (!table) return;
  var heads = Array.from(table.tHead.rows[0].cells), bodies = Array.from(table.tBodies), order = new Intl.Collator("en", { numeric: true });
  var rows = bodies.map(function (body) { return Array.from(body.rows).slice(1); });
  var first = heads.length - 7, all = rows.reduce(function (sum, of) { return sum + of.length; }, 0);
  var texts = new Map();
  // not before they are needed, which would delay the first paint
  function read() {
    rows.forEach(function (of, at) {
      var group = bodies[at].rows[0].textContent.toLowerCase();
      of.forEach(function (row) { texts.set(row, group + " " + row.textContent.toLowerCase()); });
    });
  }
  function cell(row, at) { return row.cells[first + at].textContent.trim(); }
  function fits(row, asked) {
    var text = texts.get(row), noise = cell(row, 4), valid = !/not valid|invalid|caution/.test(cell(row, 5));
    return asked.words.every(function (word) { return text.includes(word); }) && text.includes(asked.machine) &&
      (!asked.version || new RegExp("(PostgreSQL|,) " + asked.version + "\\b").test(cell(row, 3))) &&
      (!asked.noise || (/^[A-E]$/.test(noise) && noise <= asked.noise)) && (!asked.valid || (cell(row, 5) && valid));
  }
  function filter() {
    if (!texts.size) read();
    var of = filters.elements, shown = 0;
    var asked = { words: of.words.value.toLowerCase().split(/\s+/).filter(Boolean), machine: of.machine.value.toLowerCase(), version: of.version.value, noise: of.noise.value, valid: of.valid.checked };
    rows.forEach(function (group, at) {
      var left = group.filter(function (row) { row.hidden = !fits(row, asked); return !row.hidden; }).length;
      bodies[at].hidden = !left;
      shown += left;
    });
    document.getElementById("count").textContent = shown === all ? "" : shown.toLocaleString("en") + " of " + all.toLocaleString("en") + " runs";
  }
  // groups stay together, in the order of their first rows
  function sort(at, down) {
    var sign = down ? -1 : 1;
    function key(row) { return cell(row, at).replace(/,(?=\d{3})/g, ""); }
    function compared(a, b) { return (a === "" || a === "–") - (b === "" || b === "–") || sign * order.compare(a, b); }
    var sorted = bodies.map(function (body, group) {
      var keyed = rows[group].map(function (row) { return [key(row), row]; }).sort(function (a, b) { return compared(a[0], b[0]); });
      keyed.forEach(function (each) { body.append(each[1]); });
      return [keyed[0][0], body];
    });
    if (at > 2) sorted.sort(function (a, b) { return compared(a[0], b[0]); });
    else sorted = bodies.map(function (body) { return ["", body]; });
    sorted.forEach(function (each) { table.append(each[1]); });
  }
  heads.slice(first).forEach(function (head, at) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", function () {
      var down = head.getAttribute("aria-sort") === "ascending" || (!head.hasAttribute("aria-sort") && (at === 2 || at === 6));
      heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(at, down);
    });
  });
  filters.hidden = all < 2;
  filters.addEventListener("input", filter);
  filters.addEventListener("submit", function (event) { event.preventDefault(); });
})();
