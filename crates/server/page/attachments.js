// Text files that go along with a message, as fenced text.

const LARGEST = 512 * 1024;
const LARGEST_TOGETHER = 2 * 1024 * 1024;

export const size = (bytes) =>
  bytes < 1024
    ? `${bytes} B`
    : bytes < 1024 * 1024
      ? `${Math.round(bytes / 1024)} kB`
      : `${(bytes / 1024 / 1024).toFixed(1)} MB`;

/**
 * Reads files; those that do not fit give a sentence instead: { files, refused }.
 */
export async function readFiles(list, already) {
  const files = [];
  const refused = [];
  let total = already.reduce((sum, file) => sum + file.text.length, 0);
  for (const file of list) {
    if (file.size > LARGEST) {
      refused.push(`${file.name} has ${size(file.size)}; at most ${size(LARGEST)} fit. Attach the part that matters.`);
    } else if (total + file.size > LARGEST_TOGETHER) {
      refused.push(`${file.name} does not fit: all files together may have ${size(LARGEST_TOGETHER)}.`);
    } else {
      const text = await decoded(file);
      if (text === null) {
        refused.push(`${file.name} is not a text file. Only text can be attached.`);
      } else {
        files.push({ name: file.name, text });
        total += file.size;
      }
    }
  }
  return { files, refused };
}

async function decoded(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/** What the model reads of a message: its files as fenced text, then its own words. */
export function asText(message) {
  const files = (message.files ?? []).map(({ name, text }) => {
    const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
    const fence = "`".repeat(longest + 1);
    const language = /\.(\w{1,10})$/.exec(name)?.[1] ?? "";
    return `${name.replace(/[\r\n`]/g, " ")}:\n${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
  });
  return [...files, message.content].filter((part) => part !== "").join("\n\n");
}
