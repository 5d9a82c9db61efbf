-- Indexes that are put off while an import fills an empty schema, with the statements that make them:
-- only questions need them. Whoever else comes makes them first. While there is a row, nobody takes
-- rows out of event_tags; who makes the indexes takes out those whose events are gone.
CREATE TABLE {schema}.deferred_indexes (
    name text COLLATE "C" NOT NULL,
    definition text NOT NULL,
    CONSTRAINT deferred_indexes_pkey PRIMARY KEY (name)
);
