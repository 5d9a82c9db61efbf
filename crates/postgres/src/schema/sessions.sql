-- Sessions of browsers: what all nodes seal them with, and which are refused before they end. `who`: a
-- session's name (16 bytes), or a public key (32 bytes) with its epoch. Times are Unix seconds.
CREATE TABLE {schema}.session_secret (
    one boolean NOT NULL DEFAULT true CHECK (one),
    secret bytea NOT NULL CHECK (length(secret) = 32),
    CONSTRAINT session_secret_pkey PRIMARY KEY (one)
);
CREATE TABLE {schema}.revoked_sessions (
    who bytea NOT NULL CHECK (length(who) IN (16, 32)),
    epoch bigint NOT NULL,
    until bigint NOT NULL,
    CONSTRAINT revoked_sessions_pkey PRIMARY KEY (who)
);
CREATE INDEX revoked_sessions_until ON {schema}.revoked_sessions (until);
