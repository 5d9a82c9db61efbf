-- A name that is switched off: its rows are being taken away, and none are added.
ALTER TABLE {schema}.tag_names ADD COLUMN dropping boolean NOT NULL DEFAULT false;

-- One row: how the backfill is to work, and how far it is.
CREATE TABLE {schema}.backfill (
    one boolean NOT NULL DEFAULT true CHECK (one),
    paused boolean NOT NULL DEFAULT false,
    -- Percent of the time that it works; the rest it waits.
    share integer NOT NULL DEFAULT 25,
    -- Events a second at most.
    rate integer,
    -- Events looked at, about how many there were at the start, and the time that took.
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    milliseconds bigint NOT NULL DEFAULT 0,
    CONSTRAINT backfill_pkey PRIMARY KEY (one)
);
INSERT INTO {schema}.backfill DEFAULT VALUES;
