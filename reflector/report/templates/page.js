"use strict";
// Filters and sorts what the file holds; without it everything is there, in the order of the playbook.
const $ = (id) => document.getElementById(id);
const list = $("bullets");
const items = [...list.children];

function filter() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const item of items) {
    const text = item.querySelector("summary").textContent.toLowerCase();
    const section = $("section").value;
    item.hidden = !words.every((word) => text.includes(word)) || (section && item.dataset.section !== section)
      || ($("contested").checked && !("contested" in item.dataset));
    shown += !item.hidden;
  }
  $("shown").textContent = `${shown} of ${items.length} bullets`;
}

function compare(one, other) {
  return one !== "" && other !== "" && !isNaN(one) && !isNaN(other) ? one - other : one.localeCompare(other);
}

// Makes a button of a column's head; `sort` gets whether the order is falling.
function button(head, sort) {
  const made = document.createElement("button");
  made.type = "button";
  made.append(...head.childNodes);
  head.append(made);
  made.addEventListener("click", () => sort(made));
  return made;
}

const heads = [...$("heads").querySelectorAll("[data-key]")].map((head) => button(head, (made) => {
  const key = head.dataset.key;
  const falling = made.classList.contains("down") ? false : made.classList.contains("up") ? true : !["name", "text"].includes(key);
  for (const one of heads) { one.className = ""; one.ariaPressed = "false"; }
  made.className = falling ? "down" : "up";
  made.ariaPressed = "true";
  const value = (item) => key === "text" ? item.querySelector(".text").textContent : item.dataset[key];
  items.sort((one, other) => compare(value(one), value(other)) * (falling ? -1 : 1));
  list.append(...items);
}));

for (const table of document.querySelectorAll("table.sortable")) {
  const columns = [...table.tHead.rows[0].cells];
  columns.forEach((head, at) => button(head, () => {
    const falling = head.ariaSort !== "descending";
    for (const one of columns) one.ariaSort = null;
    head.ariaSort = falling ? "descending" : "ascending";
    const value = (row) => {
      const cell = row.cells[at];
      const text = cell.dataset.v ?? cell.querySelector("summary")?.textContent ?? cell.textContent.trim();
      return cell.classList.contains("n") ? text.replaceAll(",", "").replace("–", "-1").split("/")[0] : text;
    };
    const rows = [...table.tBodies[0].rows].sort((one, other) => compare(value(one), value(other)) * (falling ? -1 : 1));
    table.tBodies[0].append(...rows);
  }));
}

function whole(short = false) {
  list.classList.toggle("short", short);
  $("more").hidden = !short;
}

function open() {
  const target = location.hash.length > 1 && $(decodeURIComponent(location.hash.slice(1)));
  for (let node = target; node; node = node.parentElement) if (node.localName === "details") node.open = true;
  if (target && list.contains(target)) whole();
  if (target) target.scrollIntoView();
}

for (const id of ["find", "section", "contested"]) $(id).addEventListener("input", filter);
document.querySelector(".tools").addEventListener("submit", (event) => event.preventDefault());
document.querySelector(".tools").hidden = false;
addEventListener("hashchange", open);
$("more").addEventListener("click", () => whole());
whole(items.length > 30);
filter();
open();
