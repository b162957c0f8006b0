"use strict";
// Without this the page shows all details at once; with it, those of what is chosen.
const svg = document.getElementById("graph");
const scroll = svg.parentElement;
const [, , fullWidth, fullHeight] = svg.getAttribute("viewBox").split(" ").map(Number);
document.body.classList.add("with-script");

// Choosing: a click, Enter, or a link to #segment-N or #tensor-N.
function choose(id) {
  const section = document.getElementById(id);
  if (!section || !section.classList.contains("details")) return;
  for (const old of document.querySelectorAll(".chosen, .near")) old.classList.remove("chosen", "near");
  document.querySelector(".hint").hidden = true;
  svg.classList.add("has-choice");
  section.classList.add("chosen");
  for (const link of section.querySelectorAll("a")) mark(link.hash.slice(1), "near");
  mark(id, "chosen");
  svg.querySelector(`[data-for="${id}"]`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.getElementById("details").scrollTop = 0;
}

function mark(id, how) {
  for (const each of document.querySelectorAll(`[data-for="${id}"]`)) each.classList.add(how);
}

function go(id) {
  if (location.hash === "#" + id) choose(id);
  else location.hash = id;
}

window.addEventListener("hashchange", () => choose(location.hash.slice(1)));
for (const each of svg.querySelectorAll("[data-for]")) {
  each.addEventListener("click", () => moved < 5 && go(each.dataset.for));
  each.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      go(each.dataset.for);
    }
  });
}

// Zooming: the buttons, or the wheel with Ctrl; the point under the pointer stays where it is.
let scale = 1;

function zoom(wanted, x = scroll.clientWidth / 2, y = scroll.clientHeight / 2) {
  const before = scale;
  scale = Math.min(4, Math.max(0.1, wanted));
  const left = (scroll.scrollLeft + x) * (scale / before) - x;
  const top = (scroll.scrollTop + y) * (scale / before) - y;
  svg.setAttribute("width", Math.round(fullWidth * scale));
  svg.setAttribute("height", Math.round(fullHeight * scale));
  scroll.scrollTo({ left, top, behavior: "instant" });
}

const fitting = () => (scroll.clientWidth - 2) / fullWidth;
document.getElementById("larger").addEventListener("click", () => zoom(scale * 1.25));
document.getElementById("smaller").addEventListener("click", () => zoom(scale / 1.25));
document.getElementById("fit").addEventListener("click", () => zoom(fitting()));
scroll.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  const at = scroll.getBoundingClientRect();
  zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - at.left, event.clientY - at.top);
}, { passive: false });

// Dragging the drawing.
let moved = 0;
let from = null;
scroll.addEventListener("pointerdown", (event) => {
  moved = 0;
  from = event.button === 0 && event.pointerType === "mouse" ? [event.clientX, event.clientY] : null;
});
window.addEventListener("pointermove", (event) => {
  if (!from) return;
  const [x, y] = from;
  moved += Math.abs(event.clientX - x) + Math.abs(event.clientY - y);
  scroll.classList.toggle("dragged", moved >= 5);
  if (moved >= 5) scroll.scrollBy(x - event.clientX, y - event.clientY);
  from = [event.clientX, event.clientY];
});
window.addEventListener("pointerup", () => {
  from = null;
  scroll.classList.remove("dragged");
});

zoom(Math.min(1, Math.max(0.55, fitting())), 0, 0);
scroll.scrollLeft = (scroll.scrollWidth - scroll.clientWidth) / 2;
if (location.hash) choose(location.hash.slice(1));
