"""nostr-sdk (rust-nostr), as applications use it, against the relay at RELAY_URL."""

import asyncio
import os
import time
import unittest
from datetime import timedelta

from nostr_sdk import (
    ClientBuilder,
    ClientMessage,
    EventBuilder,
    Filter,
    Keys,
    Kind,
    RelayUrl,
    ReqTarget,
    SignerAuthenticator,
    Tag,
    Timestamp,
    nip17_make_private_msg,
    uniffi_set_event_loop,
)

URL = os.environ.get("RELAY_URL", "")
PATIENCE = timedelta(seconds=10)


def sign(keys, kind, content, tags=(), age=0):
    """An event of so many seconds ago."""
    builder = EventBuilder(Kind(kind), content).tags([Tag.parse(list(tag)) for tag in tags])
    created_at = Timestamp.from_secs(int(time.time()) - age)
    return builder.custom_created_at(created_at).finalize(keys)


def ids(events):
    return [event.id().to_hex() for event in events]


class RelayTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        # The library calls the authenticator from a thread of its own, which debugging forbids.
        asyncio.get_running_loop().set_debug(False)
        uniffi_set_event_loop(asyncio.get_running_loop())
        self.url = RelayUrl.parse(URL)
        self.clients = []
        self.client = await self.connect()
        self.alice, self.bob = Keys.generate(), Keys.generate()

    async def asyncTearDown(self):
        for client in self.clients:
            await client.shutdown()

    async def connect(self, keys=None):
        builder = ClientBuilder()
        if keys:
            builder = builder.authenticator(SignerAuthenticator(keys))
        client = builder.build()
        await client.add_relay(self.url)
        await client.connect(and_wait=PATIENCE)
        self.clients.append(client)
        return client

    async def publish(self, event, client=None):
        """Publishes and asserts that the relay accepted."""
        output = await (client or self.client).send_event(event)
        self.assertFalse(output.failed, f"refused: {output.failed}")

    async def refused(self, event):
        """Publishes, asserts that the relay refused, and returns its reason."""
        try:
            output = await self.client.send_event(event)
        except Exception as error:
            return str(error)
        self.assertTrue(output.failed, "accepted")
        return " ".join(output.failed.values())

    async def query(self, filter, client=None):
        target = ReqTarget.auto([filter])
        return await (client or self.client).fetch_events(target, timeout=PATIENCE)

    async def test_what_was_published_is_queried_back(self):
        note = sign(self.alice, 1, 'line\nbreak "quoted" 日本語 🌊', [["t", "sdk"]])
        await self.publish(note)
        found = await self.query(Filter().id(note.id()))
        self.assertEqual([event.as_json() for event in found], [note.as_json()])
        self.assertTrue(found[0].verify())

    async def test_answers_come_newest_first_and_end_at_the_limit(self):
        notes = [sign(self.alice, 1, str(age), age=age) for age in (5, 3, 4, 1, 2)]
        for note in notes:
            await self.publish(note)
        found = await self.query(Filter().author(self.alice.public_key()).limit(3))
        self.assertEqual([event.content() for event in found], ["1", "2", "3"])

    async def test_a_live_subscriber_gets_what_another_client_publishes(self):
        listener = await self.connect()
        notifications = listener.notifications()
        filter = Filter().author(self.alice.public_key())
        await listener.subscribe(ReqTarget.auto([filter]))
        note = sign(self.alice, 1, "live")
        await self.publish(note)
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while notification := await notifications.next():
                if notification.is_new_event():
                    self.assertEqual(ids([notification.event]), ids([note]))
                    return
        self.fail("the client stopped listening")

    async def test_a_count_counts_what_a_query_would_find(self):
        for n in range(3):
            await self.publish(sign(self.alice, 1, str(n)))
        # Not `count_events`: it begins to listen only after it has asked, and misses an answer that
        # is there within a millisecond.
        notifications = self.client.notifications()
        relay = await self.client.relay(self.url)
        filter = Filter().author(self.alice.public_key()).limit(1)
        await relay.send_msg(ClientMessage.count("count", filter))
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while notification := await notifications.next():
                message = notification.is_message() and notification.message.as_enum()
                if message and message.is_count():
                    self.assertEqual(message.count, 3)
                    return
        self.fail("the client stopped listening")

    async def test_what_its_author_deleted_is_gone_and_stays_gone(self):
        note = sign(self.alice, 1, "regretted")
        await self.publish(note)
        await self.publish(sign(self.alice, 5, "", [["e", note.id().to_hex()], ["k", "1"]]))
        self.assertEqual(await self.query(Filter().id(note.id())), [])
        self.assertTrue(await self.refused(note))

    async def test_of_a_replaceable_event_the_newest_is_kept(self):
        await self.publish(sign(self.alice, 0, '{"name":"a"}', age=5))
        newer = sign(self.alice, 0, '{"name":"b"}')
        await self.publish(newer)
        found = await self.query(Filter().author(self.alice.public_key()).kind(Kind(0)))
        self.assertEqual(ids(found), ids([newer]))

    async def test_a_gift_wrap_reaches_its_recipient_alone(self):
        wrap = nip17_make_private_msg(self.alice, self.bob.public_key(), "hello bob")
        await self.publish(wrap)
        filter = Filter().kind(Kind(1059)).pubkey(self.bob.public_key())
        bobs = await self.connect(self.bob)
        self.assertEqual(ids(await self.query(filter, bobs)), ids([wrap]))
        eves = await self.connect(Keys.generate())
        self.assertEqual(await self.query(filter, eves), [])
        self.assertEqual(await self.query(Filter().id(wrap.id())), [])


if __name__ == "__main__":
    if not URL:
        raise SystemExit("RELAY_URL names the relay, as ws://host:port")
    unittest.main(verbosity=2)
