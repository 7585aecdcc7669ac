/**
 * The outbox: what survives the page, in IndexedDB. It holds no answer.
 *
 * Everything is in one object store, so that every transaction that writes shuts out all others, of
 * other tabs too. What is awaited inside a transaction are its own requests only.
 */

import { ShoalError } from "./errors.js";

const ITEMS = "items";

/** The store within a transaction. */
export interface Box {
  get<T>(key: string): Promise<T | undefined>;
  /** Everything whose key begins so, by key. */
  all<T>(prefix: string): Promise<T[]>;
  /** Under the key that it names. */
  put(value: object): Promise<unknown>;
  remove(key: string): Promise<unknown>;
}

const settled = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** What the browser did not do, in words; anything else is an error of whoever called. */
function unusable(error: unknown): unknown {
  if (error instanceof Error && !(error instanceof DOMException)) return error;
  const name = (error as DOMException | null)?.name;
  return new ShoalError(
    "storage",
    name === "QuotaExceededError"
      ? "There is no room left on this device to keep a report."
      : `This browser does not let the page keep a report (${name ?? "no reason given"}).`,
  );
}

export class Store {
  readonly #database: IDBDatabase;

  private constructor(database: IDBDatabase) {
    this.#database = database;
    database.onversionchange = () => database.close();
  }

  static async open(name: string): Promise<Store> {
    try {
      const request = indexedDB.open(name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(ITEMS, { keyPath: "key" });
      return new Store(await settled(request));
    } catch (error) {
      throw unusable(error);
    }
  }

  /** What lies under a key. */
  get<T>(key: string): Promise<T | undefined> {
    return this.run((box) => box.get<T>(key), "readonly");
  }

  /** Everything whose key begins so. */
  all<T>(prefix: string): Promise<T[]> {
    return this.run((box) => box.all<T>(prefix), "readonly");
  }

  /** One transaction, written to the disk before it counts. */
  async run<T>(work: (box: Box) => Promise<T>, mode: IDBTransactionMode = "readwrite"): Promise<T> {
    let transaction: IDBTransaction | undefined;
    try {
      transaction = this.#database.transaction(ITEMS, mode, { durability: "strict" });
      const ended = new Promise<void>((resolve, reject) => {
        transaction!.oncomplete = () => resolve();
        transaction!.onabort = () => reject(transaction!.error);
      });
      ended.catch(() => {}); // whoever waits for it hears of it
      const items = transaction.objectStore(ITEMS);
      const found = await work({
        get: (key) => settled(items.get(key)),
        all: (prefix) => settled(items.getAll(IDBKeyRange.bound(prefix, `${prefix}\uffff`))),
        put: (value) => settled(items.put(value)),
        remove: (key) => settled(items.delete(key)),
      });
      await ended;
      return found;
    } catch (error) {
      try {
        transaction?.abort();
      } catch {
        // It had ended.
      }
      throw unusable(error);
    }
  }

  close(): void {
    this.#database.close();
  }
}
