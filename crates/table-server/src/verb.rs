//! What clients ask of tables, by the words of their protocols.

macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident: $name:literal,)*) => {
        /// What a request asks for. The same word of two protocols is one verb.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Verb { $($(#[$doc])* $verb,)* }

        impl Verb {
            /// All of them, in the order of their numbers.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$verb,)*];

            /// Returns the word.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$verb => $name,)* }
            }
        }
    };
}

verbs!(
    // memcached's.
    Get: "get",
    GetWithUnique: "gets",
    GetAndTouch: "gat",
    Set: "set",
    Add: "add",
    Replace: "replace",
    Append: "append",
    Prepend: "prepend",
    Cas: "cas",
    Delete: "delete",
    Increment: "incr",
    Decrement: "decr",
    Touch: "touch",
    MetaGet: "mg",
    MetaSet: "ms",
    /// `ms` in one of its modes that rotate.
    MetaRotate: "rotate",
    MetaDelete: "md",
    MetaArithmetic: "ma",
    MetaDebug: "me",
    NoOp: "mn",
    FlushAll: "flush_all",
    Stats: "stats",
    Version: "version",
    Verbosity: "verbosity",
    Quit: "quit",
    // Tokyo Tyrant's.
    Put: "put",
    PutKeep: "putkeep",
    PutCat: "putcat",
    PutShift: "putshl",
    PutSilent: "putnr",
    Out: "out",
    GetMany: "mget",
    ValueSize: "vsiz",
    IteratorInit: "iterinit",
    IteratorNext: "iternext",
    Keys: "fwmkeys",
    AddInteger: "addint",
    AddDouble: "adddouble",
    Extension: "ext",
    Sync: "sync",
    Optimise: "optimize",
    Vanish: "vanish",
    Copy: "copy",
    Restore: "restore",
    SetMaster: "setmst",
    RecordCount: "rnum",
    Size: "size",
    Stat: "stat",
    Misc: "misc",
    Replicate: "repl",
    /// What was not understood, or not allowed.
    Refused: "(refused)",
);
