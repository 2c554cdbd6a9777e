"use strict";
// Filters and sorts what the file holds; without it everything is there, in the order of the playbook.
const $ = (id) => document.getElementById(id);
const list = $("bullets");
const items = [...list.children];
const tools = document.querySelector(".tools");

function filter() {
  const words = $("find").value.toLowerCase().split(/\s+/), section = $("section").value;
  for (const item of items) {
    const text = item.querySelector("summary").textContent.toLowerCase();
    item.hidden = !words.every((word) => text.includes(word)) || (section && item.dataset.section !== section)
      || ($("contested").checked && !("contested" in item.dataset));
  }
  $("shown").textContent = `${items.filter((item) => !item.hidden).length} of ${items.length} bullets`;
}

function compare(one, other) {
  return one !== "" && other !== "" && !isNaN(one) && !isNaN(other) ? one - other : one.localeCompare(other);
}

// Makes a button of a column's head.
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
  const falling = made.className ? made.className === "up" : key !== "name" && key !== "text";
  for (const one of heads) [one.className, one.ariaPressed] = ["", "false"];
  [made.className, made.ariaPressed] = [falling ? "down" : "up", "true"];
  const value = (item) => key === "text" ? item.querySelector(".text").textContent : item.dataset[key];
  list.append(...items.sort((one, other) => compare(value(one), value(other)) * (falling ? -1 : 1)));
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
    const body = table.tBodies[0], sign = falling ? -1 : 1;
    body.append(...[...body.rows].sort((one, other) => compare(value(one), value(other)) * sign));
  }));
}

function whole(short = false) {
  tools.reset();
  filter();
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
tools.addEventListener("submit", (event) => event.preventDefault());
tools.hidden = false;
addEventListener("hashchange", open);
addEventListener("click", (event) => { if (event.target.hash && event.target.hash === location.hash) open(); });
$("more").addEventListener("click", () => whole());
whole(items.length > 30);
open();
