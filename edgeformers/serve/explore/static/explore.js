// Comfort for pages that work without it: theme, suggestions, answers in place, and the map.
"use strict";

const later = (run, wait) => {
  let timer;
  return (...values) => { clearTimeout(timer); timer = setTimeout(run, wait, ...values); };
};

// ---- light or dark, remembered in a cookie so that the server can render it
const theme = document.getElementById("theme");
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const nameTheme = () => { theme.textContent = dark() ? "Light" : "Dark"; };
theme.hidden = false;
nameTheme();
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  document.cookie = `theme=${document.documentElement.dataset.theme}; Max-Age=31536000; SameSite=Strict; Path=/`;
  nameTheme();
});

// ---- suggestions: a combobox with a list, as the ARIA practices describe it
let boxes = 0;
function addSuggestions(input, { side = "", choose }) {
  const box = document.createElement("span"), list = document.createElement("ul");
  box.className = "box";
  list.className = "suggestions";
  list.id = `suggestions-${++boxes}`;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Nodes");
  list.hidden = true;
  input.replaceWith(box);
  box.append(input, list);
  const attributes = { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id };
  for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
  let nodes = [], active = -1, newest = 0;

  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = (place) => {
    active = (place + nodes.length) % nodes.length;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    list.children[active].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", list.children[active].id);
  };
  const take = (place) => { const node = nodes[place]; close(); choose(node); };
  const ask = later(async () => {
    const number = ++newest;
    const query = new URLSearchParams({ query: input.value, ...(side && { side }) });
    const answer = await fetch(`suggest?${query}`);
    if (number !== newest || !answer.ok || document.activeElement !== input) return;
    nodes = await answer.json();
    list.replaceChildren(...nodes.map((node, i) => {
      const item = document.createElement("li"), about = document.createElement("span");
      item.id = `${list.id}-${i}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.textContent = node.id;
      about.textContent = node.about;
      item.append(about);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(i); });
      return item;
    }));
    list.hidden = !nodes.length;
    active = -1;
    input.setAttribute("aria-expanded", String(Boolean(nodes.length)));
    input.removeAttribute("aria-activedescendant");
  }, 120);
  input.addEventListener("input", ask);
  input.addEventListener("focus", () => { if (input.value || side) ask(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && list.hidden) ask();
    if (list.hidden) return;
    const moves = { ArrowDown: active + 1, ArrowUp: active < 0 ? -1 : active - 1 };
    if (event.key in moves) mark(moves[event.key]);
    else if (event.key === "Enter" && active >= 0) take(active);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}
const addFieldSuggestions = (input) => addSuggestions(input, {
  side: input.dataset.combobox,
  choose: (node) => {
    input.value = node.id;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  },
});
for (const form of document.querySelectorAll('form[data-combobox="navigate"]')) {
  addSuggestions(form.elements.query, { choose: (node) => { location.href = node.link; } });
}
document.querySelectorAll("input[data-combobox]").forEach(addFieldSuggestions);

// ---- forms whose answer appears in place, after a button or while typing
async function submitInPlace(form, state) {
  const selector = form.dataset.fragment;
  const place = selector ? document.querySelector(selector) : form.querySelector(".fragment");
  const number = ++state.newest, values = new URLSearchParams(new FormData(form));
  const isPost = form.method === "post";
  place.setAttribute("aria-busy", "true");
  const url = isPost ? form.action : `${form.action}?${values}`;
  try {
    const answer = await fetch(url, {
      method: form.method, headers: { "X-Fragment": "1" }, ...(isPost ? { body: values } : {}),
    });
    const html = await answer.text();
    if (number === state.newest) place.innerHTML = html; // rendered and escaped by the server
  } catch {
    if (number === state.newest) place.textContent = "The server cannot be reached.";
  }
  place.removeAttribute("aria-busy");
}
function answerInPlace(form) {
  const state = { newest: 0 }, send = () => submitInPlace(form, state);
  form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  if ("live" in form.dataset) form.addEventListener("input", later(send, 250));
}
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!("fragment" in form.dataset) || "live" in form.dataset) return;
  event.preventDefault();
  submitInPlace(form, { newest: 0 });
});
document.querySelectorAll("form[data-fragment][data-live]").forEach(answerInPlace);

// ---- one more edge of someone new
for (const button of document.querySelectorAll("[data-add]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const rows = button.form.querySelectorAll(button.dataset.add), last = rows[rows.length - 1];
    const row = last.cloneNode(true), number = rows.length + 1;
    row.querySelector("legend").textContent = `Edge ${number}`;
    for (const box of row.querySelectorAll(".box")) box.replaceWith(box.querySelector("input"));
    for (const field of row.querySelectorAll("input, textarea")) {
      field.value = "";
      field.id = `${field.name}-${number}`;
    }
    row.querySelectorAll("label").forEach((label) => {
      label.htmlFor = `${label.htmlFor.split("-")[0]}-${number}`;
    });
    last.after(row);
    row.querySelectorAll("input[data-combobox]").forEach(addFieldSuggestions);
    row.querySelector("input").focus();
  });
}

// ---- the map: zoom, drag, hover, arrow keys, colors
const map = document.getElementById("map");
if (map) {
  const frame = map.parentElement, tip = frame.querySelector(".tip"), full = [0, 0, 1000, 640];
  const points = [...map.querySelectorAll("a")].map((link) => {
    const [x, y] = link.querySelector("path").getAttribute("d").slice(1, -2).split(",").map(Number);
    const title = link.querySelector("title"), about = title.textContent;
    title.remove(); // the tip replaces the browser's own
    link.setAttribute("aria-label", about);
    return { link, x, y, about };
  });
  let view = full, dragged = false;
  const show = (box) => {
    view = box;
    map.setAttribute("viewBox", box.map((value) => value.toFixed(2)).join(" "));
    map.classList.toggle("zoomed", box[2] < full[2]);
  };
  const zoom = (factor, x = view[0] + view[2] / 2, y = view[1] + view[3] / 2) => {
    const width = Math.min(full[2], Math.max(20, view[2] / factor));
    const scale = width / view[2];
    if (width === full[2]) show(full);
    else show([x - (x - view[0]) * scale, y - (y - view[1]) * scale, width, view[3] * scale]);
  };
  const position = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY);
    return point.matrixTransform(map.getScreenCTM().inverse());
  };
  const showTip = (point) => {
    tip.hidden = !point;
    if (!point) return;
    tip.textContent = point.about;
    const dot = point.link.getBoundingClientRect(), box = frame.getBoundingClientRect();
    const left = Math.min(Math.max(0, dot.left - box.left + 12), box.width - tip.offsetWidth);
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(0, dot.top - box.top - tip.offsetHeight - 8)}px`;
  };
  const pointOf = (element) => points.find((point) => point.link === element?.closest?.("a"));

  const zoomButtons = { in: () => zoom(1.6), out: () => zoom(1 / 1.6), reset: () => show(full) };
  document.querySelector(".zoom").hidden = false;
  document.querySelectorAll(".scripted").forEach((note) => { note.hidden = false; });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", zoomButtons[button.dataset.zoom]);
  }
  map.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !map.contains(document.activeElement)) return;
    event.preventDefault();
    const { x, y } = position(event);
    zoom(Math.exp(-event.deltaY / 300), x, y);
  }, { passive: false });
  map.addEventListener("pointerover", (event) => showTip(pointOf(event.target)));
  map.addEventListener("pointerleave", () => showTip(null));
  map.addEventListener("focusin", (event) => showTip(pointOf(event.target)));
  map.addEventListener("focusout", () => showTip(null));
  map.addEventListener("pointerdown", (event) => {
    const [left, top] = view;
    dragged = false;
    map.focus({ preventScroll: true });
    const move = (next) => {
      const scale = view[2] / map.clientWidth;
      const dx = (next.clientX - event.clientX) * scale, dy = (next.clientY - event.clientY) * scale;
      if (Math.hypot(dx, dy) < 4 * scale && !dragged) return;
      dragged = true;
      show([left - dx, top - dy, view[2], view[3]]);
    };
    const stop = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", stop);
      removeEventListener("pointercancel", stop);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", stop);
    addEventListener("pointercancel", stop);
  });
  map.addEventListener("dragstart", (event) => event.preventDefault());
  map.addEventListener("click", (event) => { if (dragged) event.preventDefault(); }, true);
  const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  map.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(1.6);
    else if (event.key === "-") zoom(1 / 1.6);
    else if (event.key in steps) step(steps[event.key]);
    else return;
    event.preventDefault();
  });
  const step = ([dx, dy]) => { // to the nearest point in a direction
    const here = pointOf(document.activeElement) ?? { x: view[0] + view[2] / 2, y: view[1] + view[3] / 2 };
    let best = null, least = Infinity;
    for (const point of points) {
      const x = point.x - here.x, y = point.y - here.y, along = x * dx + y * dy;
      const cost = Math.hypot(x, y) + 2 * Math.abs(x * dy - y * dx);
      if (along > 0 && cost < least) [best, least] = [point, cost];
    }
    best?.link.focus({ preventScroll: true });
  };
  const color = document.getElementById("color");
  color?.addEventListener("change", () => {
    map.dataset.color = color.value;
    for (const legend of document.querySelectorAll("[data-legend]")) {
      legend.hidden = legend.dataset.legend !== color.value;
    }
  });
  document.getElementById("what")?.addEventListener("change", (event) => event.target.form.submit());
}
