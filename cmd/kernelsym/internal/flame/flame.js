"use strict";
// Without this script the picture is whole. With it, the graph fills the window; a click or Enter zooms in, Esc and the
// browser's Back go one step back; arrow keys move among the frames; a search colours frames; and a table lists the
// functions. The address keeps what is shown: #frame=12&search=tcp.
(() => {
  const margin = 8, padding = 4, baseline = 13, tableWidth = 420, wide = 1100;
  const svgSpace = "http://www.w3.org/2000/svg", htmlSpace = "http://www.w3.org/1999/xhtml";
  const page = document.currentScript.closest("svg");
  const graph = document.getElementById("frames");
  const graphHeight = +graph.getAttribute("height");

  const create = (parent, tag, attributes = {}, text = "", space = htmlSpace) => {
    const element = document.createElementNS(space, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    if (text) element.textContent = text;
    return parent.appendChild(element);
  };

  // The frames stand in order: callers first, then from left to right.
  const frames = [], path = [];
  for (const g of graph.children) {
    const rect = g.querySelector("rect"), y = +rect.getAttribute("y");
    const text = g.querySelector("text") || create(g, "text", { dx: padding, y: y + baseline }, "", svgSpace);
    const lines = g.querySelector("title").textContent.split("\n");
    const f = { g, rect, text, index: frames.length, y, name: lines[0], lines, x: +g.dataset.x, n: +g.dataset.n, self: +g.dataset.s || 0, children: [] };
    while (path.length && path.at(-1).y >= y) path.pop();
    f.parent = path.at(-1);
    f.parent?.children.push(f);
    path.push(f);
    g.id = "f" + f.index;
    frames.push(f);
  }
  const all = frames[0];
  let focus = all, selected = all, searched = "", found = "";

  // The heading and the legend become HTML, which wraps on a narrow screen.
  const head = create(page, "foreignObject", { x: margin, y: 0 }, "", svgSpace);
  const bar = create(head, "div", { id: "bar" });
  create(bar, "h1", {}, document.getElementById("heading").textContent);
  const legend = create(bar, "p", { id: "colors" });
  for (const g of document.getElementById("legend").children) {
    const item = create(legend, "span");
    const square = create(item, "svg", { width: 12, height: 12, class: g.getAttribute("class") }, "", svgSpace);
    square.append(g.querySelector("rect"));
    square.firstChild.setAttribute("x", 0);
    square.firstChild.setAttribute("y", 0);
    item.append(" " + g.querySelector("text").textContent);
  }
  document.getElementById("heading").remove();
  document.getElementById("legend").remove();
  const controls = create(bar, "p", { id: "controls" });
  const input = create(controls, "input", { type: "search", placeholder: "search (regular expression)", "aria-label": "search" });
  for (const filter of JSON.parse(document.getElementById("filters")?.textContent || "[]")) {
    const select = create(controls, "select", { "aria-label": filter.name });
    create(select, "option", { value: "" }, "all " + filter.plural);
    for (const value of filter.values) create(select, "option", value === filter.selected ? { value, selected: "" } : { value }, value);
    select.addEventListener("change", () => {
      const query = new URLSearchParams(location.search);
      if (select.value) query.set(filter.name, select.value);
      else query.delete(filter.name);
      location.href = "?" + query; // the numbers of frames are others there
    });
  }
  const toggle = create(controls, "button", { type: "button", "aria-pressed": "false" }, "table");
  const details = create(bar, "p", { id: "details", "aria-live": "polite" });
  page.removeAttribute("viewBox");
  page.setAttribute("width", "100%");
  Object.entries({ tabindex: 0, role: "application", "aria-label": "flame graph: arrow keys move, Enter zooms in, Esc goes back" })
    .forEach(([name, value]) => graph.setAttribute(name, value));

  const charWidth = (() => {
    const sample = create(page, "text", {}, "x".repeat(100), svgSpace), width = sample.getComputedTextLength() / 100;
    sample.remove();
    return width || 7.3;
  })();
  const fit = (name, width) => {
    const room = Math.floor((width - 2 * padding) / charWidth), letters = [...name];
    if (letters.length <= room) return name;
    return room < 3 ? "" : letters.slice(0, room - 1).join("") + "…";
  };
  const holds = (a, b) => a.y <= b.y && a.x <= b.x && b.x + b.n <= a.x + a.n;
  const percent = (n) => (100 * n / all.n).toFixed(1) + " %";

  // The table has the functions of all frames, whatever is zoomed in on.
  const functions = new Map();
  const count = (f, outer) => {
    const key = f.name + "\n" + f.lines[1];
    if (f !== all) {
      const row = functions.get(key) || { name: f.name, where: f.lines.length > 2 ? f.lines[1] : "", self: 0, total: 0 };
      functions.set(key, row);
      row.self += f.self;
      if (!outer.has(key)) row.total += f.n;
    }
    const within = new Set(outer).add(key);
    f.children.forEach((child) => count(child, within));
  };
  count(all, new Set());
  const side = create(page, "foreignObject", { id: "side" }, "", svgSpace);
  const box = create(side, "div", { id: "table" });
  const listed = 200;
  let by = "self", showTable;
  const fill = () => {
    box.replaceChildren();
    const table = create(box, "table"), row = create(create(table, "thead"), "tr");
    for (const key of ["self", "total"]) {
      const cell = create(row, "th", { scope: "col", "aria-sort": key === by ? "descending" : "none" });
      create(cell, "button", { type: "button" }, key).addEventListener("click", () => { by = key; fill(); });
    }
    create(row, "th", { scope: "col" }, "function");
    const body = create(table, "tbody");
    for (const f of [...functions.values()].sort((a, b) => b[by] - a[by] || a.name.localeCompare(b.name)).slice(0, listed)) {
      const row = create(body, "tr");
      create(row, "td", {}, percent(f.self));
      create(row, "td", {}, percent(f.total));
      const name = create(create(row, "td"), "button", { type: "button", title: f.where }, f.name);
      name.addEventListener("click", () => find("^" + f.name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$"));
    }
  };

  const layout = () => {
    const whole = Math.max(page.clientWidth || window.innerWidth, 300) - 2 * margin;
    const beside = showTable && whole >= wide;
    const width = beside ? whole - tableWidth - margin : whole;
    head.setAttribute("width", whole);
    head.setAttribute("height", 1000); // room to measure the bar in
    const top = bar.offsetHeight + margin;
    head.setAttribute("height", top);
    graph.setAttribute("y", top);
    graph.setAttribute("width", width);
    side.style.display = showTable ? "" : "none";
    const tableHeight = beside ? Math.max(graphHeight, window.innerHeight - top - margin) : 500;
    Object.entries({ x: beside ? width + 2 * margin : margin, y: beside ? top : top + graphHeight + margin, width: beside ? tableWidth : whole, height: tableHeight })
      .forEach(([name, value]) => side.setAttribute(name, value));
    page.setAttribute("height", top + margin + (beside ? tableHeight : graphHeight + (showTable ? tableHeight + margin : 0)));
    for (const f of frames) {
      const above = f !== focus && holds(f, focus);
      const x = above ? 0 : (f.x - focus.x) / focus.n, share = above ? 1 : f.n / focus.n;
      f.shown = (above || holds(focus, f)) && share * width > 0.2;
      f.g.style.display = f.shown ? "" : "none";
      if (!f.shown) continue;
      f.g.classList.toggle("above", above);
      f.rect.setAttribute("x", `${100 * x}%`);
      f.rect.setAttribute("width", `${100 * share}%`);
      f.text.setAttribute("x", `${100 * x}%`);
      f.text.textContent = fit(f.name, share * width);
    }
  };

  const help = "Click a frame to zoom in. Esc goes back. Arrow keys and Enter work, too.";
  const say = (f) => { details.textContent = f ? f.lines.join("   ") : found || help; };
  const search = () => {
    let pattern = null;
    found = "";
    try {
      pattern = searched && new RegExp(searched);
    } catch {
      found = "This is not a regular expression.";
    }
    let matched = 0, end = 0;
    for (const f of frames) {
      const match = Boolean(pattern) && f !== all && pattern.test(f.name);
      f.g.classList.toggle("match", match);
      if (match && f.x >= end) {
        matched += f.n;
        end = f.x + f.n;
      }
    }
    if (pattern) found = `${percent(matched)} are in stacks that match ${searched}`;
    say();
  };

  // Each zoom is a step in the history of the browser. depth is the number of steps on this page.
  const depth = () => history.state?.depth || 0;
  const address = () => {
    const state = new URLSearchParams();
    if (focus !== all) state.set("frame", focus.index);
    if (searched) state.set("search", searched);
    return "#" + state;
  };
  const select = (f) => {
    selected.g.classList.remove("selected");
    selected = f;
    f.g.classList.add("selected");
    graph.setAttribute("aria-activedescendant", f.g.id);
    say(f === all ? null : f);
  };
  const zoom = (f) => {
    if (f === focus) return;
    focus = f;
    history.pushState({ depth: depth() + 1 }, "", address());
    layout();
    select(f);
  };
  const back = () => {
    if (depth() > 0) history.back();
    else if (focus !== all) { // the page was opened like this
      focus = all;
      history.replaceState({ depth: 0 }, "", address());
      layout();
      select(all);
    }
  };
  const find = (text) => {
    input.value = searched = text;
    search();
    history.replaceState(history.state, "", address());
  };
  const restore = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    focus = frames[state.get("frame")] || all;
    input.value = searched = state.get("search") || "";
    layout();
    select(focus);
    search();
  };
  const show = (visible) => {
    showTable = visible;
    toggle.setAttribute("aria-pressed", visible);
    if (visible && !box.firstChild) fill();
    layout();
  };

  const move = (key) => {
    const row = (selected.parent ? selected.parent.children : [selected]).filter((f) => f.shown), at = row.indexOf(selected);
    const to = {
      ArrowUp: selected.parent,
      ArrowDown: selected.children.filter((f) => f.shown).sort((a, b) => b.n - a.n)[0],
      ArrowLeft: row[at - 1],
      ArrowRight: row[at + 1],
    }[key];
    if (to) select(to);
  };
  const byGroup = new Map(frames.map((f) => [f.g, f]));
  const frameOf = (event) => byGroup.get(event.target.closest("#frames > g"));
  graph.addEventListener("click", (event) => frameOf(event) && zoom(frameOf(event)));
  graph.addEventListener("mouseover", (event) => say(frameOf(event)));
  graph.addEventListener("mouseleave", () => say());
  graph.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) {
      event.preventDefault(); // the page does not scroll
      move(event.key);
    } else if (event.key === "Enter") zoom(selected);
  });
  input.addEventListener("input", () => find(input.value));
  toggle.addEventListener("click", () => show(!showTable));
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") back();
    else if (event.key === "/" && event.target !== input) {
      event.preventDefault();
      input.focus();
    }
  });
  window.addEventListener("resize", layout);
  window.addEventListener("popstate", restore); // also for another address typed in
  show(window.innerWidth >= wide + 2 * margin);
  restore();
})();
