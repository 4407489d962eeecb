// Two runs are picked, no more: the form sends them as they stand in the list, newest first.
"use strict";
(() => {
  const form = document.getElementById("pick");
  if (!form) return;
  const boxes = [...form.querySelectorAll("input[name=run]")], said = document.getElementById("picked");
  const button = form.querySelector("button");
  const show = () => {
    const picked = boxes.filter((each) => each.checked);
    button.disabled = picked.length !== 2;
    said.textContent = picked.length === 2 ? `Baseline: ${picked[1].value}` : "Select two runs; the older one is the baseline.";
    boxes.forEach((each) => { if (!each.dataset.never) each.disabled = picked.length === 2 && !each.checked; });
  };
  boxes.forEach((each) => { if (each.disabled) each.dataset.never = "1"; each.addEventListener("change", show); });
  show();
})();
