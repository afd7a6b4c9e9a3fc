-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    CREATE ROLE lockapp LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- roles belong to the whole server, and another migration may have been faster
END
$$;
-- +goose StatementEnd

-- One source for all keys. NO CYCLE: when it is used up, acquiring fails, and no token comes twice (INV-04).
-- No cache: a connection that kept tokens aside would hand out low ones late.
CREATE SEQUENCE fencing_token_seq AS BIGINT MINVALUE 1 NO CYCLE CACHE 1;

CREATE TABLE lock_session (
    session_id uuid PRIMARY KEY,
    owner_id   text NOT NULL,
    ttl        interval NOT NULL CHECK (ttl > interval '0'),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX lock_session_expires_at ON lock_session (expires_at);

-- At most one row per key, for ever: exclusion is the primary key, and a row that is free has no owner. Rows are never
-- deleted, because a row that comes back could be given a token that was minted before its predecessor's.
CREATE TABLE lock_entry (
    lock_key      text PRIMARY KEY,
    owner_id      text,
    session_id    uuid,
    fencing_token bigint NOT NULL CHECK (fencing_token > 0),
    ttl           interval NOT NULL CHECK (ttl > interval '0'),
    acquired_at   timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    CHECK (owner_id IS NOT NULL OR session_id IS NULL)
) WITH (fillfactor = 70);
-- The sweep and the count of held locks read this and not the keys that were ever locked.
CREATE INDEX lock_entry_held ON lock_entry (expires_at) WHERE owner_id IS NOT NULL;
CREATE INDEX lock_entry_session ON lock_entry (session_id) WHERE session_id IS NOT NULL;

CREATE TABLE lock_revocation (
    id         uuid PRIMARY KEY,
    lock_key   text NOT NULL,
    prev_owner text,
    prev_token bigint NOT NULL,
    new_floor  bigint NOT NULL CHECK (new_floor > prev_token),
    operator   text NOT NULL,
    reason     text NOT NULL,
    revoked_at timestamptz NOT NULL
);
CREATE INDEX lock_revocation_key ON lock_revocation (lock_key, revoked_at);

-- Whether a session lives now; NULL is no session and does not end. VOLATILE, for a fresh snapshot, and FOR SHARE, to wait
-- for a heartbeat on its way: the caller may have stood in a queue since its own snapshot, and a lock must not be taken
-- from a session that was kept alive meanwhile.
CREATE FUNCTION lock_session_lives(id uuid) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT id IS NULL OR COALESCE(
        (SELECT s.expires_at > clock_timestamp()
         FROM (SELECT expires_at FROM lock_session WHERE session_id = id FOR SHARE) s), false)
$$;

-- Lifts the token source to at least lift_to and returns where it stands. setval races with nextval, so whoever mints is kept
-- out first: every minting statement holds ROW EXCLUSIVE on lock_entry. SECURITY DEFINER, so that the server's
-- role, which may not set the sequence, can raise it and never lower it.
-- +goose StatementBegin
CREATE FUNCTION lock_advance_tokens(lift_to bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    issued bigint;
BEGIN
    LOCK TABLE public.lock_entry IN SHARE MODE;
    SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO issued FROM public.fencing_token_seq;
    IF issued >= lift_to THEN
        RETURN issued;
    END IF;
    RETURN setval('public.fencing_token_seq', lift_to, true);
END
$$;
-- +goose StatementEnd

REVOKE ALL ON SCHEMA public FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM PUBLIC;
REVOKE ALL ON FUNCTION lock_session_lives(uuid), lock_advance_tokens(bigint) FROM PUBLIC;

GRANT USAGE ON SCHEMA public TO lockapp;
GRANT SELECT, INSERT, UPDATE ON lock_entry TO lockapp;
GRANT SELECT, INSERT, UPDATE, DELETE ON lock_session TO lockapp;
GRANT SELECT, INSERT ON lock_revocation TO lockapp;
GRANT USAGE ON SEQUENCE fencing_token_seq TO lockapp;
GRANT EXECUTE ON FUNCTION lock_session_lives(uuid), lock_advance_tokens(bigint) TO lockapp;

-- +goose Down
DROP FUNCTION lock_advance_tokens(bigint);
DROP FUNCTION lock_session_lives(uuid);
DROP TABLE lock_revocation, lock_entry, lock_session;
DROP SEQUENCE fencing_token_seq;
