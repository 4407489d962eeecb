(function () {
  "use strict";
  var root = document.documentElement, button = document.getElementById("theme");
  var dark = window.matchMedia("(prefers-color-scheme: dark)"), key = "pgdyno-theme";
  function stored() { try { return localStorage.getItem(key); } catch (_) { return null; } }
  function keep(theme) { try { localStorage.setItem(key, theme); } catch (_) { /* a file may have no storage */ } }
  function shown() { return root.dataset.theme || (dark.matches ? "dark" : "light"); }
  function name() { var other = shown() === "dark" ? "light" : "dark"; button.textContent = button.dataset[other]; button.title = button.dataset[other + "Title"]; }
  if (stored() === "dark" || stored() === "light") root.dataset.theme = stored();
  if (location.hash === "#dark" || location.hash === "#light") root.dataset.theme = location.hash.slice(1);
  button.hidden = false;
  name();
  dark.addEventListener("change", name);
  button.addEventListener("click", function () {
    root.dataset.theme = shown() === "dark" ? "light" : "dark";
    keep(root.dataset.theme);
    name();
  });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.filter.call(document.querySelectorAll("details"), function (each) { return !each.open; });
    closed.forEach(function (each) { each.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (each) { each.open = false; }); });
})();
