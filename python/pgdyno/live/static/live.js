// A running experiment. The server sends all of it once, then what changes; what comes from a database is put on the
// page as text and never as markup.
"use strict";
(() => {
  const body = document.body, run = body.dataset.run, cores = Number(body.dataset.cores) || null;
  const at = (id) => document.getElementById(id);
  const say = (id, text) => { const each = at(id); if (each.textContent !== text) each.textContent = text; };
  const address = `/live/${encodeURIComponent(run)}`;
  const state = { grid: null, seconds: [], samples: [], feed: [], looks: [], now: null, left: null, ahead: 0 };

  // ---- what comes ----

  const newer = (list, more, key) => { const last = list.length ? list[list.length - 1][key] : -Infinity; list.push(...more.filter((each) => each[key] > last)); };
  function take(message, all) {
    if (message.reset) { state.seconds = []; state.samples = []; }
    if (all) state.feed = [];
    if (message.grid) state.grid = message.grid;
    if (message.looks) { state.looks = message.looks; looks(); }
    newer(state.seconds, message.seconds, "t");
    newer(state.samples, message.samples, "t");
    newer(state.feed, message.feed, "i");
    state.seconds.splice(0, state.seconds.length - 3600);
    state.samples.splice(0, state.samples.length - 3600);
    state.feed.splice(0, state.feed.length - 200);
    state.now = message.now;
    // the clocks of the server and of this browser may differ
    state.ahead = Date.now() / 1000 - message.now.wall_s;
    show();
  }

  let over = false;
  const source = new EventSource(`${address}/stream`);
  source.addEventListener("open", () => link("Live", "good"));
  source.addEventListener("all", (event) => take(JSON.parse(event.data), true));
  source.addEventListener("new", (event) => take(JSON.parse(event.data), false));
  source.addEventListener("over", () => { over = true; source.close(); link("Over", ""); show(); });
  source.addEventListener("error", () => {
    if (over) return;
    // a browser tries again after a lost connection, but not after a refusal
    if (source.readyState === EventSource.CLOSED) link("The server refuses this page: load it again", "bad");
    else link("Connection lost; trying again", "amber");
  });
  function link(text, kind) { at("link").className = `about link ${kind}`; say("link", text); }

  // ---- what is shown ----

  const figure = (n, digits = 3) => n == null ? "–" : n === 0 ? "0" : Number(n.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6, maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(Math.abs(n) + 1))) });
  const clock = (s) => { s = Math.max(0, Math.round(s)); const p = (n) => String(n).padStart(2, "0"); return s >= 3600 ? `${Math.floor(s / 3600)}:${p(Math.floor(s / 60) % 60)}:${p(s % 60)}` : `${Math.floor(s / 60)}:${p(s % 60)}`; };
  const moment = (t) => new Date(t * 1000).toLocaleTimeString("en-GB");
  const mean = (list) => list.length ? list.reduce((a, b) => a + b, 0) / list.length : null;

  function show() {
    const { now, grid } = state;
    if (!now) return;
    const trial = now.trial, running = trial && !trial.over && !now.end;
    const end = now.end ? `The run ${now.end.how}` : null;
    say("headline", end || (running ? `Trial ${trial.n}${trial.total == null ? "" : ` of ${trial.total}`}: ${trial.label}` : now.prepare ? first(now.prepare) : trial ? "Between two trials" : "Getting ready"));
    const last = state.seconds[state.seconds.length - 1];
    say("under", end ? `Outcome: ${now.end.outcome}` : running ? (last && last.phase ? first(last.phase) : "Connecting") : progress(now.progress) || run);
    numbers(now, running, last);
    best(end || over ? null : now.best);
    if (grid) sweep(grid);
    strips(now);
    for (const name of ["wait", "blocker", "process"]) say(`top-${name}`, (now.top && now.top[name]) || "–");
    feed();
    at("asks").hidden = !now.control || over;
    at("after").hidden = !(end || over);
    if (over && !end) say("headline", "The run goes on no more, and did not say why");
  }
  // a search for settings: what leads it, and why that is no result
  function best(of) {
    at("best").hidden = !of;
    if (!of) return;
    const plural = of.trials === 1 ? "" : "s", is_start = !of.settings.length;
    const start = of.start == null || is_start ? "" : `, ${percent(of.figure / of.start - 1)} from the starting configuration (${figure(of.start)} ${of.unit})`;
    say("best-figure", `${figure(of.figure)} ${of.unit} in ${of.trials} trial${plural}${is_start ? ", the starting configuration" : start}`);
    say("best-noise", `Noise of one trial: ${of.noise == null ? "not known yet" : `±${figure(100 * of.noise, 2)} %`}. The best of many trials looks better than it is: only the pairs at the end decide.`);
    at("best-settings").replaceChildren(...of.settings.map(([name, value]) => {
      const each = document.createElement("div");
      each.append(cell("dt", name), cell("dd", value));
      return each;
    }));
  }
  const first = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
  function progress(p) {
    if (!p || !p.total) return "";
    const left = p.left_s == null ? "" : `, ${clock(p.left_s)} left`, rate = p.per_s == null ? "" : `, ${figure(p.per_s)} rows/s`;
    return `${Math.floor(100 * p.done / p.total)} %${rate}${left}`;
  }

  function numbers(now, running, last) {
    const base = now.base, measured = state.seconds.filter((each) => each.phase === "measuring");
    say("tps", last ? figure(last.tps) : "–");
    say("p99", last ? figure(last.p99) : "–");
    const tps = mean((measured.length ? measured : state.seconds).map((each) => each.tps));
    const change = base && base.tps && tps != null && measured.length ? `, mean ${tps >= base.tps ? "+" : "−"}${figure(Math.abs(100 * (tps / base.tps - 1)), 2)} %` : "";
    say("tps-base", base ? `baseline ${figure(base.tps)}${change}` : tps == null ? "" : `mean ${figure(tps)}`);
    say("p99-base", base && base.p99 != null ? `baseline ${figure(base.p99)}` : "");
    at("tps-base").title = base ? `${base.of}, n = ${base.n}` : "";
    state.left = now.trial && now.trial.left_s != null ? now.trial.t + now.trial.left_s : null;
    if (now.end || over) say("left", "0:00"); else tick();
    const rate = Number(body.dataset.rate);
    if (rate) say("money", `${figure(rate * now.ran_s / 3600, 2)} ${body.dataset.currency} so far, ${figure(rate)} an hour`);
    const h = now.health;
    say("busy", h && h.busy != null ? figure(100 * h.busy, 2) : "–");
    at("busy-box").className = h && h.busy > 0.7 ? "amber" : "";
    say("health", h ? [`${h.workers} worker${h.workers === 1 ? "" : "s"}`, h.lag_ms == null ? "" : `lag ${figure(h.lag_ms)} ms`, h.failed ? `${figure(h.failed)} failed` : "", h.busy > 0.7 ? "near its ceiling" : ""].filter(Boolean).join(", ") : "");
  }
  function tick() { if (state.left != null && !over) say("left", clock(state.left + state.ahead - Date.now() / 1000)); }
  setInterval(tick, 1000);

  function sweep(grid) {
    const planned = grid.cells.reduce((sum, each) => sum + each.planned, 0);
    // a search does not know its trials in advance
    say("trials", planned ? `${grid.done} of ${planned} trials done` : `${grid.done} trial${grid.done === 1 ? "" : "s"} done`);
    const share = planned ? Math.floor(100 * grid.done / planned) : 0, bar = at("progress");
    bar.setAttribute("aria-valuenow", String(share));
    bar.firstElementChild.style.width = `${share}%`;
    const head = document.createElement("tr");
    head.append(cell("th", ""), ...grid.clients.map((n) => cell("th", n.toLocaleString("en"))));
    const cells = new Map(grid.cells.map((each) => [`${each.arm} ${each.x}`, each]));
    const rows = grid.arms.map((arm, a) => {
      const row = document.createElement("tr");
      row.append(cell("th", arm), ...grid.clients.map((_, x) => point(cells.get(`${a} ${x}`))));
      return row;
    });
    at("grid").tHead.replaceChildren(head);
    at("grid").tBodies[0].replaceChildren(...rows);
  }
  function cell(kind, text) { const each = document.createElement(kind); each.textContent = text; return each; }
  function point(of) {
    if (!of) return cell("td", "");
    const each = cell("td", of.mean ? figure(of.mean.tps) : of.done > of.failed ? "done" : of.done ? "failed" : "–"), part = document.createElement("span");
    each.className = [of.running ? "running" : "", of.failed ? "bad" : "", of.done ? "" : "open"].join(" ");
    part.className = "part";
    part.textContent = of.running ? `trial ${of.done + 1} of ${of.planned}` : `${of.done} of ${of.planned}`;
    each.append(part);
    each.style.setProperty("--share", `${100 * of.done / of.planned}%`);
    return each;
  }

  // the interval of each comparison over its pairs, of a run that stops when it is decided
  const percent = (ratio) => `${ratio < 0 ? "−" : "+"}${figure(Math.abs(100 * ratio), 2)} %`;
  function looks() {
    at("looks").hidden = !state.looks.length;
    at("looks").replaceChildren(...state.looks.map(looked));
  }
  function looked(of) {
    const last = of.looks[of.looks.length - 1], box = document.createElement("figure"), words = document.createElement("figcaption");
    words.textContent = `${of.arm} vs ${of.base} at ${of.point}: ${percent(last.change)} ${of.metric} (${percent(last.low)} to ${percent(last.high)}), ${last.pairs} of at most ${of.most} pairs${of.verdict ? `: ${of.verdict}` : ", not decided yet"}`;
    // the first intervals are wide: an axis from them would hide the later ones
    const reach = Math.max(3 * of.margin, ...of.looks.slice(-Math.ceil(of.looks.length / 2)).flatMap((each) => [Math.abs(each.low), Math.abs(each.high)]));
    const least = of.looks[0].pairs;
    const x = (pairs) => of.most > least ? 100 * (pairs - least) / (of.most - least) : 50, y = (ratio) => 50 - 48 * Math.max(-1, Math.min(1, ratio / reach));
    const corners = [...of.looks.map((each) => [each.pairs, each.high]), ...of.looks.slice().reverse().map((each) => [each.pairs, each.low])];
    const path = (points) => points.map(([pairs, ratio]) => `${x(pairs)},${y(ratio)}`).join(" ");
    const picture = drawn("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", class: "look", role: "img", "aria-label": words.textContent });
    picture.append(
      drawn("rect", { x: 0, width: 100, y: y(of.margin), height: y(-of.margin) - y(of.margin), class: "margin" }),
      drawn("line", { x1: 0, x2: 100, y1: y(0), y2: y(0), class: "zero" }),
      drawn("polygon", { points: path(corners), class: "band" }),
      drawn("polyline", { points: path(of.looks.map((each) => [each.pairs, each.change])), class: "middle" }),
      drawn("line", { x1: x(last.pairs), x2: x(last.pairs), y1: y(last.low), y2: y(last.high), class: "middle" }),
    );
    const plot = document.createElement("div"), margin = document.createElement("p");
    plot.className = "look-plot";
    plot.append(labels("look-y", [percent(reach), "0", percent(-reach)]), picture, labels("look-x", [`${least} pairs`, `${of.most} pairs`]));
    margin.className = "about small";
    margin.textContent = `Grey: differences within ±${figure(100 * of.margin, 2)} %, which count as none.`;
    box.append(words, plot, margin);
    return box;
  }
  function labels(kind, texts) {
    const box = document.createElement("div");
    box.className = kind;
    box.append(...texts.map((text) => { const each = document.createElement("span"); each.textContent = text; return each; }));
    return box;
  }
  function drawn(kind, attributes) {
    const each = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) each.setAttribute(name, String(value));
    return each;
  }

  const CPU = [["user", 0], ["system", 1], ["irq", 2], ["iowait", 3], ["steal", 4]];
  function strips(now) {
    const s = state.seconds, p = state.samples, base = now.base;
    const w = p.filter((each) => each.waits), c = p.filter((each) => each.cpu && each.cpu.length), d = p.filter((each) => each.disk), l = p.filter((each) => each.wal != null);
    const ends = [s, p].filter((list) => list.length);
    Charts.draw([
      { id: "tps", list: s, colour: "t0", rule: base && base.tps, lines: [["tps", (each) => each.tps]] },
      { id: "p99", list: s, colour: "t0", log: true, rule: base && base.p99, lines: [["p99, ms", (each) => each.p99]] },
      { id: "waits", list: w, stack: true, rule: cores, lines: Strips.waits.map((name) => [name, (each) => each.waits[name] || 0]) },
      { id: "cpu", list: c, stack: true, high: 100, show: (tick) => `${tick} %`, lines: CPU.map(([name, at]) => [name, (each) => 100 * each.cpu[at]]) },
      { id: "disk", list: d, lines: [["written, MB/s", (each) => each.disk[1], "t1"], ["read, MB/s", (each) => each.disk[2], "t0 d1"]] },
      { id: "wal", list: l, colour: "t5", lines: [["WAL, MB/s", (each) => each.wal]] },
    ], ends.length ? Math.min(...ends.map((list) => list[0].t)) : null, ends.length ? Math.max(...ends.map((list) => list[list.length - 1].t)) : null, moments());
    const tail = (list, get) => list.length ? get(list[list.length - 1]) : null;
    const sessions = tail(w, (each) => Object.values(each.waits).reduce((a, b) => a + b, 0)), cpu = tail(c, ({ cpu: [user, system, irq, , steal] }) => Math.min(user + system + irq + steal, 1)), disk = tail(d, (each) => each.disk), wal = tail(l, (each) => each.wal);
    const n = (list) => !list.length ? ": nothing yet" : `; n = ${figure(list.length, 6)} second${list.length === 1 ? "" : "s"}`;
    say("strip-tps-title", `Throughput, tps${n(s)}${base ? `; dashed: ${base.of}, n = ${base.n} trial${base.n === 1 ? "" : "s"}` : ""}`);
    say("strip-p99-title", `p99 latency of each second, ms, log axis${n(s)}`);
    say("strip-waits-title", sessions == null ? `Active sessions by what they wait for${n(w)}` : `${figure(sessions)} active sessions${cores ? `, ${cores} cores (dashed)` : ""}${n(w)}`);
    say("strip-cpu-title", cpu == null ? `CPU of the host${n(c)}` : `CPU of the host ${Math.round(100 * cpu)} % busy${n(c)}`);
    say("strip-disk-title", disk == null ? `Disk${n(d)}` : `Disk: ${figure(disk[1])} MB/s written, ${figure(disk[2])} read (dashed), ${Math.round(100 * disk[0])} % of the time busy${n(d)}`);
    say("strip-wal-title", wal == null ? `WAL${n(l)}` : `WAL: ${figure(wal)} MB/s${n(l)}`);
  }

  // marks of people, and what the probe counted: checkpoints, vacuums
  const moments = () => [
    ...state.feed.filter((each) => each.kind === "mark").map((each) => ({ t: each.t, text: each.text || "mark" })),
    ...state.samples.flatMap((each) => (each.marks || []).map((text) => ({ t: each.t, text }))),
  ].sort((a, b) => a.t - b.t);

  let shown = -1;
  function feed() {
    const last = state.feed.length ? state.feed[state.feed.length - 1].i : 0;
    if (last === shown) return;
    shown = last;
    at("feed").replaceChildren(...state.feed.slice().reverse().map((each) => {
      const item = document.createElement("li"), when = document.createElement("time"), kind = document.createElement("b");
      when.textContent = moment(each.t);
      kind.textContent = each.kind;
      if (each.kind === "error" || each.kind === "outage") kind.className = "bad";
      if (each.kind === "warning") kind.className = "amber";
      item.append(when, " ", kind, " ", each.text || "a moment");
      return item;
    }));
  }

  // ---- what may be asked ----

  async function ask(what) {
    if (what === "stop-now" && !confirm("Stop now? The trial that runs is not kept.")) return;
    say("answer", "…");
    const text = what === "mark" ? at("mark-text").value : "";
    try {
      const answer = await fetch(`${address}/ask`, { method: "POST", headers: { "content-type": "application/json", "x-pgdyno-form": body.dataset.form }, body: JSON.stringify({ what, text }) });
      const said = answer.ok ? { mark: "Marked", "stop-after": "It stops after this trial", "stop-now": "It stops" }[what] : (answer.headers.get("content-type") || "").includes("json") ? (await answer.json()).problem : answer.status === 403 ? "This page is of another server: load it again" : `Refused (${answer.status})`;
      say("answer", said);
      if (answer.ok && what === "mark") at("mark-text").value = "";
    } catch { say("answer", "The server does not answer"); }
  }
  at("asks").addEventListener("submit", (event) => { event.preventDefault(); ask("mark"); });
  for (const each of at("asks").querySelectorAll("button[type=button]")) each.addEventListener("click", () => ask(each.dataset.ask));
})();
