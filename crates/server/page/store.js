// Conversations in IndexedDB: records, messages, and the tokens of answers, which are loaded only when they are looked at.

const NAME = "rustorch";
let database = null;

let tellTrouble = () => {};

/** `tell` is called when something could not be kept. */
export function onStoreTrouble(tell) {
  tellTrouble = tell;
}

/** Opens the database; false where the browser keeps none, and then nothing outlives the page. */
export async function openStore() {
  try {
    database = await new Promise((resolve, reject) => {
      const opening = indexedDB.open(NAME, 1);
      opening.onupgradeneeded = () => {
        const made = opening.result;
        made.createObjectStore("conversations", { keyPath: "id" });
        for (const name of ["messages", "tokens"]) {
          made.createObjectStore(name, { keyPath: "id" }).createIndex("conversation", "conversation");
        }
      };
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error);
      opening.onblocked = () => reject(new Error("blocked"));
    });
    return true;
  } catch {
    return false;
  }
}

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** One transaction; resolves with what `work` returns once everything is written. */
async function transact(names, mode, work, otherwise) {
  if (!database) return otherwise;
  const transaction = database.transaction(names, mode);
  const ended = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
  });
  const result = await work(...names.map((name) => transaction.objectStore(name)));
  await ended;
  return result;
}

export const listConversations = () => transact(["conversations"], "readonly", (store) => settled(store.getAll()), []);

export const loadConversation = (id) =>
  transact(
    ["conversations", "messages"],
    "readonly",
    async (records, messages) => {
      const [record, found] = await Promise.all([
        settled(records.get(id)),
        settled(messages.index("conversation").getAll(id)),
      ]);
      return record ? { record, messages: found } : null;
    },
    null,
  );

/** Keeps something; a full disk must not end what the page is doing. */
async function keep(names, work) {
  try {
    await transact(names, "readwrite", work);
  } catch (error) {
    tellTrouble(error);
  }
}

/** Keeps a conversation's record and some of its messages. */
export const save = (record, messages = []) =>
  keep(["conversations", "messages"], (records, store) => {
    records.put(record);
    messages.forEach((message) => store.put(message));
  });

export const saveTokens = (id, conversation, tokens) =>
  keep(["tokens"], (store) => {
    store.put({ id, conversation, tokens });
  });

export const loadTokens = (id) =>
  transact(["tokens"], "readonly", async (store) => (await settled(store.get(id)))?.tokens ?? [], []);

/** Removes a conversation and returns all that `restore` needs. */
export const remove = (id) =>
  transact(
    ["conversations", "messages", "tokens"],
    "readwrite",
    async (records, ...stores) => {
      const record = await settled(records.get(id));
      records.delete(id);
      const kept = [];
      for (const store of stores) {
        kept.push(await settled(store.index("conversation").getAll(id)));
        const keys = await settled(store.index("conversation").getAllKeys(id));
        keys.forEach((key) => store.delete(key));
      }
      return { record, messages: kept[0], tokens: kept[1] };
    },
    null,
  );

export const restore = (kept) =>
  transact(["conversations", "messages", "tokens"], "readwrite", (records, messages, tokens) => {
    records.put(kept.record);
    kept.messages.forEach((message) => messages.put(message));
    (kept.tokens ?? []).forEach((entry) => tokens.put(entry));
  });

/** For each conversation with the words in a message: that message's id and an excerpt. */
export const searchMessages = (words, still) =>
  transact(
    ["messages"],
    "readonly",
    (store) =>
      new Promise((resolve, reject) => {
        const found = new Map();
        const cursor = store.openCursor();
        cursor.onerror = () => reject(cursor.error);
        cursor.onsuccess = () => {
          const at = cursor.result;
          if (!at || !still()) return resolve(found);
          const { id, conversation, content } = at.value;
          const place = found.has(conversation) ? -1 : content.toLowerCase().indexOf(words);
          if (place >= 0) {
            const from = Math.max(0, place - 20);
            found.set(conversation, {
              id,
              excerpt: `${from > 0 ? "…" : ""}${content.slice(from, place + words.length + 40).replace(/\s+/g, " ")}`,
            });
          }
          return at.continue();
        };
      }),
    new Map(),
  );
