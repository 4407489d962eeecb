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
  // a table that is cut says so, because some browsers hide scroll bars
  var cut = document.getElementById("main").dataset.cut;
  function cues() {
    Array.prototype.forEach.call(document.querySelectorAll(".box"), function (box) {
      var is = box.scrollWidth > box.clientWidth + 1, cue = box.nextElementSibling;
      var has = cue && cue.classList.contains("cue");
      box.classList.toggle("cut", is);
      if (is && !has) {
        cue = document.createElement("p");
        cue.className = "cue";
        cue.textContent = cut;
        box.after(cue);
      } else if (!is && has) cue.remove();
    });
  }
  cues();
  window.addEventListener("resize", cues);
  document.addEventListener("toggle", cues, true);
  // the contents show where the reader is
  var links = Array.prototype.slice.call(document.querySelectorAll("nav a"));
  function place() {
    var current = links.filter(function (link) { return document.querySelector(link.hash).getBoundingClientRect().top < 120; }).pop();
    links.forEach(function (link) { if (link === current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current"); });
  }
  place();
  window.addEventListener("scroll", place, { passive: true });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.filter.call(document.querySelectorAll("details"), function (each) { return !each.open; });
    closed.forEach(function (each) { each.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (each) { each.open = false; }); });
})();
