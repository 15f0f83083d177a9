// Lists letters, redrives one and follows the operation, with the types that openapi-typescript made.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };

const PATIENCE = 60_000;
const [address, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: address, headers: { authorization: `Bearer ${token}` } });

function check(holds: unknown, what: unknown): asserts holds {
  if (!holds) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}

async function eventually<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + PATIENCE; ; ) {
    const found = await ask();
    if (found !== undefined) return found;
    check(Date.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function shown(id: string) {
  const { data, error } = await client.GET("/api/v1/dead-letters/{id}", { params: { path: { id } } });
  check(data, error);
  return data;
}

const [letter] = await eventually("two letters are open", async () => {
  const query = { pipeline: "orders", status: "open" } as const;
  const { data, error } = await client.GET("/api/v1/dead-letters", { params: { query } });
  check(data, error);
  return data.letters.length === 2 ? data.letters : undefined;
});
check(letter, "a letter");

const started = await client.POST("/api/v1/redrives", { body: { ids: [letter.id], note: "typescript" } });
check(started.response.status === 202 && started.data && "id" in started.data, started.error);
const { id } = started.data;
const operation = await eventually("the operation is finished", async () => {
  const { data, error } = await client.GET("/api/v1/redrives/{id}", { params: { path: { id } } });
  check(data, error);
  return data.state === "finished" ? data : undefined;
});
check(operation.done === 1 && operation.total === 1, operation);

const again = await eventually("the letter failed again", async () => {
  return (await shown(letter.id)).redelivery?.letter ?? undefined;
});
check((await shown(again)).redriven_from === letter.id, again);
console.log(`${letter.id} was redriven by operation ${id} and failed again as ${again}`);
