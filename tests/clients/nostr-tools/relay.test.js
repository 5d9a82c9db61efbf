// nostr-tools, as web clients use it, against the relay at RELAY_URL.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { useFetchImplementation, fetchRelayInformation } from 'nostr-tools/nip11'
import { unwrapEvent, wrapEvent } from 'nostr-tools/nip17'
import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools/pure'
import { Relay, useWebSocketImplementation } from 'nostr-tools/relay'
import WebSocket from 'ws'

const url = process.env.RELAY_URL
assert.ok(url, 'RELAY_URL names the relay, as ws://host:port')
useWebSocketImplementation(WebSocket)
useFetchImplementation(fetch)

const now = () => Math.floor(Date.now() / 1000)
// What this run publishes can be told from what any other run left behind.
const hashtag = `run${now()}${Math.random().toString(36).slice(2)}`

class Person {
  secret = generateSecretKey()
  key = getPublicKey(this.secret)

  sign(kind, content, tags = [], created_at = now()) {
    return finalizeEvent({ kind, content, tags, created_at }, this.secret)
  }

  authenticate(relay) {
    return relay.auth(async (template) => finalizeEvent(template, this.secret))
  }
}

// The stored answer, as a list. Refused subscriptions reject with the relay's reason.
function query(relay, ...filters) {
  return new Promise((resolve, reject) => {
    const events = []
    const subscription = relay.subscribe(filters, {
      onevent: (event) => events.push(event),
      oneose: () => {
        resolve(events)
        subscription.close()
      },
      onclose: (reason) => reject(new Error(reason)),
    })
  })
}

// The next live event; `ready` is called once the relay has said EOSE.
function live(relay, filter, ready) {
  return new Promise((resolve, reject) => {
    const subscription = relay.subscribe([{ ...filter, limit: 0 }], {
      onevent: (event) => {
        resolve(event)
        subscription.close()
      },
      oneose: ready,
      onclose: (reason) => reject(new Error(reason)),
    })
  })
}

const ids = (events) => events.map((event) => event.id)

let relay
let other
before(async () => {
  relay = await Relay.connect(url)
  other = await Relay.connect(url)
})
after(() => {
  relay.close()
  other.close()
})

test('what was published is queried back as it was', async () => {
  const alice = new Person()
  const content = 'line\nbreak "quoted" \\ \t \u007f \u0001 日本語 🌊'
  const note = alice.sign(1, content, [['t', hashtag], ['r', 'a "value"\n\\']])
  await relay.publish(note)
  const [found] = await query(other, { ids: [note.id] })
  assert.deepEqual(
    [found.content, found.tags, found.sig],
    [note.content, note.tags, note.sig],
  )
  assert.deepEqual(ids(await query(other, { '#r': ['a "value"\n\\'], authors: [alice.key] })), [note.id])
})

test('answers come newest first and end at the limit', async () => {
  const alice = new Person()
  const notes = [5, 3, 4, 1, 2].map((age) => alice.sign(1, `${age}`, [], now() - age))
  for (const note of notes) await relay.publish(note)
  const answer = await query(relay, { authors: [alice.key], limit: 3 })
  assert.deepEqual(answer.map((event) => event.content), ['1', '2', '3'])
})

test('several filters are answered as one list without doubles', async () => {
  const [alice, bob] = [new Person(), new Person()]
  const first = alice.sign(1, 'first', [['p', bob.key]], now() - 1)
  const second = bob.sign(1, 'second', [['p', bob.key]])
  await relay.publish(first)
  await relay.publish(second)
  const answer = await query(relay, { authors: [alice.key] }, { '#p': [bob.key] })
  assert.deepEqual(ids(answer), [second.id, first.id])
})

test('a live subscriber gets what another client publishes', async () => {
  const alice = new Person()
  const note = alice.sign(1, 'live', [['t', hashtag]])
  const event = await live(other, { authors: [alice.key] }, () => relay.publish(note))
  assert.equal(event.id, note.id)
})

test('an ephemeral event reaches listeners and is not stored', async () => {
  const alice = new Person()
  const passing = alice.sign(20001, 'passing')
  const event = await live(other, { kinds: [20001], authors: [alice.key] }, () =>
    relay.publish(passing),
  )
  assert.equal(event.id, passing.id)
  assert.deepEqual(await query(relay, { ids: [passing.id] }), [])
})

test('a forged signature is refused as invalid', async () => {
  const alice = new Person()
  const note = alice.sign(1, 'true')
  const forged = { ...note, sig: alice.sign(1, 'false').sig }
  await assert.rejects(relay.publish(forged), /invalid:/)
  assert.deepEqual(await query(relay, { ids: [note.id] }), [])
})

test('of a replaceable event the newest is kept', async () => {
  const alice = new Person()
  const [older, newer] = [alice.sign(0, '{"name":"a"}', [], now() - 5), alice.sign(0, '{"name":"b"}')]
  await relay.publish(newer)
  const reason = await relay.publish(older)
  assert.match(reason, /duplicate:/)
  assert.deepEqual(ids(await query(relay, { kinds: [0], authors: [alice.key] })), [newer.id])
})

test('of an addressable event the newest of each name is kept', async () => {
  const alice = new Person()
  const named = (d, age) => alice.sign(30023, `${d} ${age}`, [['d', d]], now() - age)
  for (const event of [named('x', 3), named('x', 2), named('y', 1)]) await relay.publish(event)
  const answer = await query(relay, { kinds: [30023], authors: [alice.key] })
  assert.deepEqual(answer.map((event) => event.content), ['y 1', 'x 2'])
  assert.equal((await query(relay, { '#d': ['x'], authors: [alice.key] })).length, 1)
})

test('what its author deleted is gone and stays gone', async () => {
  const [alice, eve] = [new Person(), new Person()]
  const note = alice.sign(1, 'regretted')
  await relay.publish(note)
  await relay.publish(eve.sign(5, '', [['e', note.id]])).catch(() => {})
  assert.deepEqual(ids(await query(relay, { ids: [note.id] })), [note.id])
  await relay.publish(alice.sign(5, '', [['e', note.id], ['k', '1']]))
  assert.deepEqual(await query(relay, { ids: [note.id] }), [])
  await assert.rejects(relay.publish(note), /blocked:|invalid:|deleted/)
})

test('a count ignores limit', async () => {
  const alice = new Person()
  for (const n of [1, 2, 3]) await relay.publish(alice.sign(1, `${n}`))
  assert.equal(await relay.count([{ authors: [alice.key], limit: 1 }], {}), 3)
})

test('private messages are for their parties only', async () => {
  const [alice, bob, eve] = [new Person(), new Person(), new Person()]
  const message = alice.sign(4, 'secret?iv=x', [['p', bob.key]])
  await relay.publish(message)
  const reading = { kinds: [4], '#p': [bob.key] }

  const strangers = await Relay.connect(url)
  await assert.rejects(query(strangers, reading), /auth-required:/)
  assert.deepEqual(await query(strangers, { ids: [message.id] }), [])
  await eve.authenticate(strangers)
  assert.deepEqual(await query(strangers, reading), [])
  assert.equal(await strangers.count([reading], {}), 0)
  strangers.close()

  const bobs = await Relay.connect(url)
  await assert.rejects(query(bobs, reading), /auth-required:/)
  await bob.authenticate(bobs)
  assert.deepEqual(ids(await query(bobs, reading)), [message.id])
  bobs.close()
})

test('a gift wrap reaches its recipient', async () => {
  const [alice, bob] = [new Person(), new Person()]
  const wrap = wrapEvent(alice.secret, { publicKey: bob.key }, 'hello bob')
  await relay.publish(wrap)
  assert.deepEqual(await query(relay, { ids: [wrap.id] }), [])
  const bobs = await Relay.connect(url)
  await assert.rejects(query(bobs, { kinds: [1059] }), /auth-required:/)
  await bob.authenticate(bobs)
  const [found] = await query(bobs, { kinds: [1059], '#p': [bob.key] })
  assert.equal(unwrapEvent(found, bob.secret).content, 'hello bob')
  bobs.close()
})

test('the information document names the software and its NIPs', async () => {
  const information = await fetchRelayInformation(url)
  assert.ok(information.software)
  for (const nip of [1, 9, 11, 17, 40, 42, 45, 59, 62, 67, 70]) {
    assert.ok(information.supported_nips.includes(nip), `NIP-${nip}`)
  }
})
