// Light or dark: what the system wants, or what was chosen here. Early, so that no page flashes. And a table that is cut
// says so, because some browsers hide scroll bars.
"use strict";
(() => {
  const root = document.documentElement, key = "pgdyno-theme";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  if (["dark", "light"].includes(stored())) root.dataset.theme = stored();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => { button.textContent = shown() === "dark" ? "Light" : "Dark"; };
    const changed = () => { name(); document.dispatchEvent(new Event("theme")); };
    button.hidden = false;
    name();
    dark.addEventListener("change", changed);
    button.addEventListener("click", () => {
      root.dataset.theme = shown() === "dark" ? "light" : "dark";
      try { localStorage.setItem(key, root.dataset.theme); } catch { /* it then lasts for this page */ }
      changed();
    });
    const cue = (box) => {
      const cut = box.scrollWidth > box.clientWidth + 1;
      box.classList.toggle("cut", cut);
      if (cut && !box.nextElementSibling?.classList.contains("cue")) {
        const text = document.createElement("p");
        text.className = "cue";
        text.textContent = "More columns: scroll right";
        box.after(text);
      } else if (!cut && box.nextElementSibling?.classList.contains("cue")) box.nextElementSibling.remove();
    };
    for (const box of document.querySelectorAll(".box")) {
      const sizes = new ResizeObserver(() => cue(box));
      sizes.observe(box);
      for (const table of box.children) sizes.observe(table);
    }
  });
})();
