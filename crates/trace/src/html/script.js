// Sorts the table by a column, and fades what is not of the chosen kind.
const body = document.querySelector("#values tbody");
const heads = [...document.querySelectorAll("#values th")];
heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
  const rising = head.getAttribute("aria-sort") !== "ascending";
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const key = (row) => {
    const cell = row.cells[column];
    return head.dataset.kind === "number" ? Number(cell.dataset.value.replace("inf", "Infinity")) : cell.textContent;
  };
  const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (rising ? 1 : -1);
  body.append(...[...body.rows].sort(order));
}));
document.querySelector("#kind").addEventListener("change", (event) => {
  for (const circle of document.querySelectorAll("#chart circle")) {
    circle.classList.toggle("faded", event.target.value !== "" && circle.dataset.kind !== event.target.value);
  }
});
