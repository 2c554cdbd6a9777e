"use strict";
// Filters and sorts what the file holds; without it everything is there, in the order of the playbook.
const $ = (id) => document.getElementById(id);
const list = $("rules");
const items = [...list.children];
const tools = document.querySelector(".tools");

function filter() {
  const words = $("find").value.toLowerCase().split(/\s+/), section = $("section").value;
  for (const item of items) {
    const text = item.querySelector("summary").textContent.toLowerCase();
    item.hidden = !words.every((word) => text.includes(word)) || (section && item.dataset.section !== section)
      || ($("contested").checked && !("contested" in item.dataset));
  }
  $("count").textContent = `${items.filter((item) => !item.hidden).length} of ${items.length} rules`;
}

function compare(one, other) {
  return one !== "" && other !== "" && !isNaN(one) && !isNaN(other) ? one - other : one.localeCompare(other);
}

// Makes a button of each column's head, which sorts rows by their values there: at first falling, but where it `rises`.
function sortable(heads, rows, value, rises) {
  for (const head of heads) {
    const made = document.createElement("button");
    made.type = "button";
    made.append(...head.childNodes);
    head.append(made);
    made.addEventListener("click", () => {
      const falling = head.dataset.sorted ? head.dataset.sorted === "up" : !rises(head);
      for (const one of heads) [one.dataset.sorted, one.ariaSort, one.lastChild.ariaPressed] = ["", null, "false"];
      [head.dataset.sorted, made.ariaPressed] = [falling ? "down" : "up", "true"];
      if (head.scope) head.ariaSort = falling ? "descending" : "ascending";
      rows[0]?.parentNode.append(...rows.sort((one, other) =>
        compare(value(one, head), value(other, head)) * (falling ? -1 : 1)));
    });
  }
}

const isText = (head) => ["name", "text"].includes(head.dataset.key);
sortable([...$("heads").querySelectorAll("[data-key]")], [...items], (item, head) =>
  head.dataset.key === "text" ? item.querySelector(".text").textContent : item.dataset[head.dataset.key], isText);
for (const table of document.querySelectorAll("table.sortable")) {
  sortable([...table.tHead.rows[0].cells], [...table.tBodies[0].rows], (row, head) => {
    const cell = row.cells[head.cellIndex];
    const text = cell.dataset.v ?? cell.querySelector("summary")?.textContent ?? cell.textContent.trim();
    return cell.classList.contains("n") ? text.replaceAll(",", "").replace("–", "-1").split("/")[0] : text;
  }, isText);
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
