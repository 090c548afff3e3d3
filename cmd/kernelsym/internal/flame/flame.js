"use strict";
// Without this script the picture is whole. With it, the graph fills the window, a click
// zooms in, and a search colours frames. The address bar keeps both: #frame=12&search=tcp.
(() => {
  const margin = 8, padding = 4, baseline = 13, rowHeight = 30, fieldWidth = 250;
  const page = document.documentElement;
  const graph = document.getElementById("frames");

  const create = (parent, tag, attributes, namespace = "http://www.w3.org/2000/svg") => {
    const element = document.createElementNS(namespace, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    return parent.appendChild(element);
  };

  const frames = [...graph.children].map((g, index) => {
    const rect = g.querySelector("rect"), y = +rect.getAttribute("y");
    const text = g.querySelector("text") || create(g, "text", { dx: padding, y: y + baseline });
    const lines = g.querySelector("title").textContent.split("\n");
    return { g, rect, text, index, y, name: lines[0], lines, x: +g.dataset.x, n: +g.dataset.n };
  });
  const all = frames[0];
  let focus = all, searched = "", found = "";

  // The page gets a row more: a field to search, and what is said of a frame.
  const top = +graph.getAttribute("y");
  const height = +page.getAttribute("height") + rowHeight;
  page.removeAttribute("viewBox");
  page.setAttribute("width", "100%");
  page.setAttribute("height", height);
  graph.setAttribute("y", top + rowHeight);
  const details = create(page, "text", { id: "details", x: 2 * margin + fieldWidth, y: top + 15 });
  const field = create(page, "foreignObject", { x: margin, y: top - 2, width: fieldWidth, height: 26 });
  const input = create(field, "input", { type: "search", placeholder: "search (regular expression)", "aria-label": "search" },
    "http://www.w3.org/1999/xhtml");
  const charWidth = (() => {
    details.textContent = "x".repeat(100);
    return details.getComputedTextLength() / 100 || 7.3;
  })();

  const fit = (name, width) => {
    const room = Math.floor((width - 2 * padding) / charWidth), letters = [...name];
    if (letters.length <= room) return name;
    return room < 3 ? "" : letters.slice(0, room - 1).join("") + "…";
  };
  const holds = (a, b) => a.y <= b.y && a.x <= b.x && b.x + b.n <= a.x + a.n;

  const layout = () => {
    const width = Math.max(page.clientWidth || window.innerWidth, 300) - 2 * margin;
    graph.setAttribute("width", width);
    for (const f of frames) {
      const above = f !== focus && holds(f, focus);
      const x = above ? 0 : (f.x - focus.x) / focus.n, share = above ? 1 : f.n / focus.n;
      const shown = (above || holds(focus, f)) && share * width > 0.2;
      f.g.style.display = shown ? "" : "none";
      if (!shown) continue;
      f.g.classList.toggle("above", above);
      f.rect.setAttribute("x", `${100 * x}%`);
      f.rect.setAttribute("width", `${100 * share}%`);
      f.text.setAttribute("x", `${100 * x}%`);
      f.text.textContent = fit(f.name, share * width);
    }
  };

  const say = (f) => {
    details.textContent = f ? f.lines.join("   ") : found || "Click a frame to zoom in, and Esc to zoom out.";
  };
  const search = () => {
    let pattern = null;
    found = "";
    try {
      pattern = searched && new RegExp(searched);
    } catch {
      found = "This is not a regular expression.";
    }
    let matched = 0, end = 0; // frames stand in order: callers first, then from left to right
    for (const f of frames) {
      const match = Boolean(pattern) && f !== all && pattern.test(f.name);
      f.g.classList.toggle("match", match);
      if (match && f.x >= end) {
        matched += f.n;
        end = f.x + f.n;
      }
    }
    if (pattern) found = `${(100 * matched / all.n).toFixed(1)} % are in stacks that match ${searched}`;
    say();
  };

  const remember = () => {
    const state = new URLSearchParams();
    if (focus !== all) state.set("frame", focus.index);
    if (searched) state.set("search", searched);
    history.replaceState(null, "", "#" + state);
  };
  const zoom = (f) => {
    focus = f;
    layout();
    remember();
  };
  const restore = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    focus = frames[state.get("frame")] || all;
    input.value = searched = state.get("search") || "";
    layout();
    search();
  };

  const byGroup = new Map(frames.map((f) => [f.g, f]));
  const frameOf = (event) => byGroup.get(event.target.closest("#frames > g"));
  graph.addEventListener("click", (event) => frameOf(event) && zoom(frameOf(event)));
  graph.addEventListener("mouseover", (event) => say(frameOf(event)));
  graph.addEventListener("mouseleave", () => say());
  input.addEventListener("input", () => {
    searched = input.value;
    search();
    remember();
  });
  window.addEventListener("keydown", (event) => event.key === "Escape" && zoom(all));
  window.addEventListener("resize", layout);
  window.addEventListener("hashchange", restore);
  restore();
})();
