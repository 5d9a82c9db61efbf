-- The order of commits. Set under the writer's lock alone, so that numbers commit in their order.
CREATE SEQUENCE {schema}.position MINVALUE 0 START 0 NO CYCLE;

-- One row an event. `age` is 9223372036854775807 - created_at: ascending is newest first, as `tie` (the
-- id's first 16 bytes) is ascending for equal times; so one direction serves every index.
CREATE TABLE {schema}.events (
    seq bigint NOT NULL,
    age bigint NOT NULL,
    -- The pubkey's first 8 bytes: a cheap first look, never the last word.
    author bigint NOT NULL,
    expires_at bigint,
    -- Of an event that was hidden and taken back: since which number it can be seen again.
    shown_from bigint,
    tie uuid NOT NULL,
    kind integer NOT NULL,
    -- Not its number alone decides whether it is seen: expires_at and shown_from do too.
    conditional boolean NOT NULL,
    hidden boolean NOT NULL DEFAULT false,
    vanish boolean NOT NULL,
    id bytea NOT NULL,
    pubkey bytea NOT NULL,
    -- SHA-256 of kind:pubkey:d for what has an address.
    address bytea,
    json bytea NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.02);

ALTER TABLE {schema}.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (seq),
    ADD CONSTRAINT events_id_key UNIQUE (id);
CREATE UNIQUE INDEX events_address ON {schema}.events (address) WHERE address IS NOT NULL;
CREATE INDEX events_time ON {schema}.events (age, tie)
    INCLUDE (seq, author, kind, conditional) WHERE NOT hidden;
CREATE INDEX events_kind ON {schema}.events (kind, age, tie)
    INCLUDE (seq, author, conditional) WHERE NOT hidden;
CREATE INDEX events_author ON {schema}.events (pubkey, age, tie)
    INCLUDE (seq, author, kind, conditional) WHERE NOT hidden;
CREATE INDEX events_author_kind ON {schema}.events (pubkey, kind, age, tie)
    INCLUDE (seq, author, conditional) WHERE NOT hidden;
CREATE INDEX events_expiring ON {schema}.events (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX events_hidden ON {schema}.events (kind, pubkey, age) WHERE hidden;

-- The tags that filters can ask for, of events that are not hidden; each (name, value) of an event once.
-- Written by the store in the event's transaction. `value`: the bytes up to 64, else a 32-byte digest.
CREATE TABLE {schema}.event_tags (
    age bigint NOT NULL,
    seq bigint NOT NULL,
    author bigint NOT NULL,
    tie uuid NOT NULL,
    kind integer NOT NULL,
    conditional boolean NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.02);
CREATE UNIQUE INDEX event_tags_value ON {schema}.event_tags (name, value, age, tie)
    INCLUDE (seq, author, kind, conditional);

-- What stored deletions (kind 5) name: an event's id, or an address as in events.address. `age` is the
-- deletion's own.
CREATE TABLE {schema}.deletions (
    target bytea NOT NULL,
    pubkey bytea NOT NULL,
    seq bigint NOT NULL,
    age bigint NOT NULL,
    CONSTRAINT deletions_pkey PRIMARY KEY (target, pubkey, seq)
);
CREATE INDEX deletions_seq ON {schema}.deletions (seq);

-- The stored requests to vanish (kind 62) that were carried out.
CREATE TABLE {schema}.vanishings (
    pubkey bytea NOT NULL,
    seq bigint NOT NULL,
    age bigint NOT NULL,
    CONSTRAINT vanishings_pkey PRIMARY KEY (pubkey, seq)
);

-- Who hides what. events.hidden is true while there is a row.
CREATE TABLE {schema}.hidings (
    seq bigint NOT NULL,
    hider bigint NOT NULL,
    CONSTRAINT hidings_pkey PRIMARY KEY (seq, hider)
);

-- The tag names that are indexed. While `filled` is false a backfill runs, newest first: events at
-- (filled_age, filled_tie) and before it in that order have their rows, and so have all events that
-- were stored after the name was switched on.
CREATE TABLE {schema}.tag_names (
    name text COLLATE "C" NOT NULL,
    filled boolean NOT NULL,
    filled_age bigint,
    filled_tie uuid,
    CONSTRAINT tag_names_pkey PRIMARY KEY (name)
);
INSERT INTO {schema}.tag_names (name, filled)
    SELECT chr(letter), true FROM generate_series(ascii('a'), ascii('z')) AS letter
    UNION ALL
    SELECT chr(letter), true FROM generate_series(ascii('A'), ascii('Z')) AS letter;
