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
  // a click on a bar of a flame graph gives it the whole width; one on the lowest bar shows all of them again
  Array.prototype.forEach.call(document.querySelectorAll("figure[id^=flame-] svg"), function (svg) {
    var whole = svg.viewBox.baseVal.width, gap = 0.5;
    var bars = Array.prototype.map.call(svg.querySelectorAll("g"), function (g) {
      var rect = g.querySelector("rect");
      return { g: g, rect: rect, x: +rect.getAttribute("x"), width: +rect.getAttribute("width") + gap };
    });
    function show(bar, chosen) {
      var scale = whole / chosen.width, left = Math.max((bar.x - chosen.x) * scale, 0);
      var width = Math.min((bar.x + bar.width - chosen.x) * scale, whole) - left - gap;
      bar.g.style.display = width > gap ? "" : "none";
      bar.rect.setAttribute("x", left);
      bar.rect.setAttribute("width", Math.max(width, gap));
      label(bar, left + 3, width - 6);
    }
    function label(bar, x, room) {
      var text = bar.g.querySelector("text"), words = bar.g.querySelector("title").textContent;
      if (!text) {
        text = document.createElementNS(svg.namespaceURI, "text");
        text.setAttribute("class", "label");
        text.setAttribute("y", +bar.rect.getAttribute("y") + 12);
        bar.g.append(text);
      }
      text.setAttribute("x", x);
      text.textContent = words;
      var length = text.getComputedTextLength();
      if (length > room) text.textContent = room < 22 ? "" : words.slice(0, Math.floor(words.length * room / length) - 1) + "…";
    }
    svg.addEventListener("click", function (event) {
      var chosen = bars.filter(function (bar) { return bar.g.contains(event.target); })[0];
      if (!chosen) return;
      bars.forEach(function (bar) { show(bar, chosen); });
      // labels are at the left end
      svg.parentNode.scrollLeft = 0;
    });
  });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.filter.call(document.querySelectorAll("details"), function (each) { return !each.open; });
    closed.forEach(function (each) { each.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (each) { each.open = false; }); });
})();
