-- Who is kept out. `who`: a public key in hex, or a network of addresses. Times are Unix seconds.
CREATE TABLE {schema}.bans (
    who text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    since bigint NOT NULL,
    until bigint,
    CONSTRAINT bans_pkey PRIMARY KEY (who)
);
