// Building MathML: elements, and the items of rows, which are { node, kind, limits } with a kind of `latex-symbols.js`.

const NAMESPACE = "http://www.w3.org/1998/Math/MathML";

/** Thrown at LaTeX that is not understood. */
export class Unknown extends Error {}

/** An element of MathML. */
export function m(tag, attributes, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** One node of many. */
export const group = (nodes) => (nodes.length === 1 ? nodes[0] : m("mrow", {}, ...nodes));
/** A space of a width in em. */
export const space = (width) => m("mspace", { width: `${width}em` });
/** An item of a row that needs no space around it. */
export const ordinary = (node) => ({ node, kind: "ordinary" });
