# -*- coding: utf-8 -*-
"""Tokyo Tyrant's client libraries, as they were published: pytyrant and pyrant, for Python 2."""

import os
import unittest

import pytyrant
from pyrant.protocol import TyrantProtocol
from pyrant.exceptions import InvalidOperation

HOST, PORT = os.environ["TABLES_ADDRESS"].split(":")


class Pytyrant(unittest.TestCase):
    def setUp(self):
        self.tyrant = pytyrant.PyTyrant.open(HOST, int(PORT))
        # Its byte for emptying is of a protocol before the one that was documented in the end.
        for key in list(self.tyrant):
            del self.tyrant[key]

    def tearDown(self):
        self.tyrant.close()

    def test_it_is_a_dictionary(self):
        self.tyrant["a"] = "one"
        self.tyrant["b"] = ""
        self.assertEqual(self.tyrant["a"], "one")
        self.assertEqual(self.tyrant["b"], "")
        self.assertTrue("a" in self.tyrant)
        self.assertFalse("c" in self.tyrant)
        self.assertRaises(KeyError, lambda: self.tyrant["c"])
        self.assertEqual(self.tyrant.setdefault("a", "two"), "one")
        self.assertEqual(sorted(self.tyrant.keys()), ["a", "b"])
        self.assertEqual(len(self.tyrant), 2)
        del self.tyrant["a"]
        self.assertRaises(KeyError, self.tyrant.__delitem__, "a")

    def test_many_at_once(self):
        self.tyrant.update({"a": "1", "b": "2", "c": "3"})
        self.assertEqual(self.tyrant.multi_get(["a", "x", "c"]), ["1", None, "3"])
        self.assertEqual(self.tyrant.t.mget(["b", "x"]), [("b", "2")])
        self.tyrant.multi_del(["a", "x", "b"])
        self.assertEqual(self.tyrant.keys(), ["c"])

    def test_concatenation_and_rotation(self):
        self.tyrant.concat("k", "ABCDEFGH")
        self.tyrant.concat("k", "IJK", width=8)
        self.assertEqual(self.tyrant["k"], "DEFGHIJK")
        self.assertEqual(self.tyrant.get_size("k"), 8)

    def test_prefixes_and_figures(self):
        self.tyrant.update({"aa": "", "ab": "", "b": ""})
        self.assertEqual(self.tyrant.prefix_keys("a"), ["aa", "ab"])
        self.assertEqual(self.tyrant.get_stats()["rnum"], "3")
        self.tyrant.sync()
        self.assertRaises(pytyrant.TyrantError, self.tyrant.call_func, "echo", "k", "v")

    def test_many_silent_puts(self):
        for number in range(10000):
            self.tyrant.t.putnr("%d" % number, "value")
        self.assertEqual(len(self.tyrant), 10000)


class Pyrant(unittest.TestCase):
    def setUp(self):
        self.tyrant = TyrantProtocol(HOST, int(PORT))
        self.tyrant.vanish()

    def test_records(self):
        self.tyrant.put(u"foo", u"bar\u00e9")
        self.tyrant.putkeep("box", "1")
        self.assertRaises(InvalidOperation, self.tyrant.putkeep, "box", "2")
        self.tyrant.putcat("box", "23")
        self.tyrant.putshl("box", "4", 2)
        self.assertEqual(self.tyrant.get("box"), "34")
        self.assertEqual(self.tyrant.get("foo"), u"bar\u00e9")
        self.assertEqual(self.tyrant.vsiz("box"), 2)
        self.assertEqual(self.tyrant.rnum(), 2)
        self.tyrant.out("box")
        self.assertRaises(InvalidOperation, self.tyrant.get, "box")

    def test_numbers(self):
        self.assertEqual(self.tyrant.addint("n", 5), 5)
        self.assertEqual(self.tyrant.addint("n", 3), 8)
        self.assertEqual(self.tyrant.getint("n"), 8)
        self.assertAlmostEqual(self.tyrant.adddouble("d", 1.5), 1.5)
        self.assertAlmostEqual(self.tyrant.adddouble("d", 2.25), 3.75)

    def test_lists_and_walks(self):
        self.assertEqual(self.tyrant.misc("putlist", ["a", "1", "b", "2"]), [])
        self.assertEqual(self.tyrant.misc("getlist", ["a", "b"]), ["a", "1", "b", "2"])
        self.assertEqual(self.tyrant.mget(["a", "x"]), [("a", "1")])
        self.tyrant.iterinit()
        self.assertEqual([self.tyrant.iternext(), self.tyrant.iternext()], ["a", "b"])
        self.assertRaises(InvalidOperation, self.tyrant.iternext)
        self.assertRaises(InvalidOperation, self.tyrant.misc, "nonsense", [])
        # It is in step after that.
        self.assertEqual(self.tyrant.get("a"), "1")

    def test_a_fixed_table(self):
        # Far behind the records of other clients' tests.
        self.tyrant.put("seen:70000", "x" * 16)
        self.assertRaises(InvalidOperation, self.tyrant.put, "seen:70000", "x" * 17)
        self.assertRaises(InvalidOperation, self.tyrant.put, "seen:a7", "x")
        self.assertRaises(InvalidOperation, self.tyrant.put, "seen:0", "x")
        self.tyrant.put("seen:next", "y")
        self.assertEqual(self.tyrant.get("seen:max"), "y")
        self.assertEqual(self.tyrant.fwmkeys("seen:(70000,max]", 10), ["seen:70001"])
        self.tyrant.out("seen:70001")

    def test_no_shell_is_run(self):
        self.assertRaises(InvalidOperation, self.tyrant.copy, "@touch /tmp/owned")

    def test_upkeep(self):
        self.tyrant.sync()
        self.assertTrue(self.tyrant.size() >= 0)
        types = [u"type\ton-memory tree\n", u"type\thash\n"]
        self.assertTrue(any(line in self.tyrant.stat() for line in types))


if __name__ == "__main__":
    unittest.main()
