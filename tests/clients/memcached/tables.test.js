// The npm client memcached, as applications use it, against the table server at TABLES_ADDRESS: its
// default table is in memory, and `seen` is a fixed table of 16 bytes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import Memcached from "memcached";

const client = new Memcached(process.env.TABLES_ADDRESS, { timeout: 10000, retries: 0 });
const call = (name, ...args) => promisify(client[name]).apply(client, args);

before(() => call("flush"));
after(() => client.end());

test("values are set and read", async () => {
  assert.equal(await call("set", "a", "one", 0), true);
  assert.equal(await call("get", "a"), "one");
  assert.equal(await call("get", "nothing"), undefined);
  await assert.rejects(call("add", "a", "two", 0));
  assert.equal(await call("replace", "a", "two", 0), true);
  assert.equal(await call("append", "a", "!"), true);
  assert.equal(await call("prepend", "a", "<"), true);
  assert.deepEqual(await call("getMulti", ["a", "nothing"]), { a: "<two!" });
  assert.equal(await call("del", "a"), true);
  assert.equal(await call("del", "a"), false);
});

test("objects, numbers and buffers keep their kind", async () => {
  for (const value of [{ b: [1, 2] }, 17, Buffer.from([0, 13, 10, 255])]) {
    await call("set", "kind", value, 100);
    assert.deepEqual(await call("get", "kind"), value);
  }
});

test("a value is swapped only if it is the one that was read", async () => {
  await call("set", "a", "1", 0);
  const { cas } = await call("gets", "a");
  assert.equal(await call("cas", "a", "2", cas, 0), true);
  assert.equal(await call("cas", "a", "3", cas, 0), false);
  assert.equal(await call("get", "a"), "2");
});

test("numbers are counted", async () => {
  assert.equal(await call("incr", "none", 1), false);
  await call("set", "n", 10, 0);
  assert.equal(await call("incr", "n", 5), 15);
  assert.equal(await call("decr", "n", 100), 0);
});

test("what has expired is not there", async () => {
  await call("set", "a", "1", -1);
  assert.equal(await call("get", "a"), undefined);
  await call("set", "a", "1", 100);
  assert.equal(await call("touch", "a", 200), true);
});

test("a large value comes back whole", async () => {
  const large = "x".repeat(1000000);
  await call("set", "large", large, 0);
  assert.equal(await call("get", "large"), large);
});

test("a fixed table takes numbers for keys, and no expiry", async () => {
  assert.equal(await call("set", "seen:42", "now", 0), true);
  assert.equal(await call("get", "seen:42"), "now");
  await assert.rejects(call("set", "seen:x", "now", 0), /number/);
  await assert.rejects(call("set", "seen:42", "now", 10), /expiry/);
});

test("the server tells about itself", async () => {
  const [version] = await call("version");
  assert.match(version.version, /^\d/);
  const [statistics] = await call("stats");
  assert.ok(statistics.total_connections >= 1);
});
