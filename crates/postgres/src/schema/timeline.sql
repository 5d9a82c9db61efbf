-- Which of the server's histories the numbers of commits belong to. Whoever writes to another one (a
-- replica was made the server to write to, or a backup was restored) goes on far behind the last number,
-- so that none is given twice, and puts it here.
CREATE TABLE {schema}.timeline (
    one boolean NOT NULL DEFAULT true CHECK (one),
    name text NOT NULL,
    CONSTRAINT timeline_pkey PRIMARY KEY (one)
);
