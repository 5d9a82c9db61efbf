-- While the index of tags is put off, rows of event_tags can't be found to be taken out: the numbers of
-- events that are gone, or were never stored although their rows were. NULL: of others too, which
-- nobody has written down.
CREATE TABLE {schema}.orphans (
    seq bigint
);
INSERT INTO {schema}.orphans (seq)
    SELECT NULL WHERE EXISTS (SELECT FROM {schema}.deferred_indexes);
