-- Rows of tags are made together with their index, so that none are without their event.
DROP TABLE {schema}.orphans;
-- Long events: pglz, which is the default, takes as much of the server's time as all else of a row.
DO $$ BEGIN
    ALTER TABLE {schema}.events ALTER COLUMN json SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END $$;
