"""pymemcache, as applications use it, against the table server at TABLES_ADDRESS: its default table
is in memory, and `seen` is a fixed table of 16 bytes."""

import os
import unittest

from pymemcache import MemcacheClientError
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.serde import pickle_serde

HOST, _, PORT = os.environ.get("TABLES_ADDRESS", "").rpartition(":")
SERVER = (HOST, int(PORT or 0))


class TablesTest(unittest.TestCase):
    def setUp(self):
        self.client = Client(SERVER, timeout=10, connect_timeout=10, default_noreply=False)
        self.client.flush_all()

    def tearDown(self):
        self.client.close()

    def test_values_are_set_and_read(self):
        client = self.client
        self.assertTrue(client.set("a", b"one", flags=7))
        self.assertEqual(client.get("a"), b"one")
        self.assertIsNone(client.get("nothing"))
        self.assertEqual(client.get_many(["a", "nothing"]), {"a": b"one"})
        self.assertFalse(client.add("a", b"two"))
        self.assertTrue(client.replace("a", b"two"))
        self.assertTrue(client.append("a", b"!"))
        self.assertTrue(client.prepend("a", b"<"))
        self.assertEqual(client.get("a"), b"<two!")
        self.assertTrue(client.delete("a"))
        self.assertFalse(client.delete("a"))

    def test_many_at_once(self):
        many = {f"key{number}": b"x" * number for number in range(200)}
        self.assertEqual(self.client.set_many(many), [])
        self.assertEqual(self.client.get_many(list(many)), many)
        self.client.delete_many(list(many))
        self.assertEqual(self.client.get_many(list(many)), {})

    def test_without_answers(self):
        for number in range(1000):
            self.client.set(f"key{number % 10}", str(number), noreply=True)
        self.assertEqual(self.client.get("key9"), b"999")

    def test_compare_and_swap(self):
        client = self.client
        client.set("a", b"1")
        value, unique = client.gets("a")
        self.assertEqual(value, b"1")
        self.assertTrue(client.cas("a", b"2", unique))
        self.assertFalse(client.cas("a", b"3", unique))
        self.assertIsNone(client.cas("nothing", b"3", unique))

    def test_counting(self):
        client = self.client
        self.assertIsNone(client.incr("n", 1))
        client.set("n", "10")
        self.assertEqual(client.incr("n", 5), 15)
        self.assertEqual(client.decr("n", 100), 0)
        client.set("n", "letters")
        with self.assertRaises(MemcacheClientError):
            client.incr("n", 1)

    def test_expiry(self):
        client = self.client
        client.set("a", b"1", expire=-1)
        self.assertIsNone(client.get("a"))
        client.set("a", b"1", expire=1000)
        self.assertTrue(client.touch("a", 2000))
        self.assertEqual(client.get("a"), b"1")

    def test_objects(self):
        client = Client(SERVER, serde=pickle_serde)
        client.set("a", {"b": [1, 2, 3]}, noreply=False)
        self.assertEqual(client.get("a"), {"b": [1, 2, 3]})
        client.close()

    def test_large_values(self):
        large = os.urandom(1_000_000)
        self.assertTrue(self.client.set("large", large))
        self.assertEqual(self.client.get("large"), large)

    def test_statistics(self):
        statistics = self.client.stats()
        self.assertGreaterEqual(statistics[b"curr_connections"], 1)
        self.assertTrue(self.client.version())

    def test_fixed_table(self):
        client = self.client
        self.assertTrue(client.set("seen:42", b"now"))
        self.assertEqual(client.get("seen:42"), b"now")
        for key, flags, expire in [("seen:x", 0, 0), ("seen:42", 1, 0), ("seen:42", 0, 9)]:
            with self.assertRaises(MemcacheClientError):
                client.set(key, b"1", expire=expire, flags=flags)
        self.assertEqual(client.get("seen:42"), b"now")

    def test_rotation(self):
        client = self.client
        visit = b"ms seen:7 8 MV A4 W16"
        for visitor, time in [(1, 10), (2, 20), (1, 30), (3, 40)]:
            entry = visitor.to_bytes(4, "big") + time.to_bytes(4, "big")
            self.assertEqual(client.raw_command(visit + b"\r\n" + entry), b"HD")
        entries = client.get("seen:7")
        visitors = [int.from_bytes(entries[at : at + 4], "big") for at in range(0, 16, 8)]
        self.assertEqual(visitors, [1, 3])

    def test_pools_and_rings(self):
        for client in [PooledClient(SERVER, max_pool_size=4), HashClient([SERVER], use_pooling=True)]:
            client.set("a", b"1", noreply=False)
            self.assertEqual(client.get("a"), b"1")
            client.close()


if __name__ == "__main__":
    unittest.main()
