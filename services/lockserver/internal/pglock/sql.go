package pglock

// Every statement uses clock_timestamp(), the moment, and never now(), which stands still while the
// statement waits for a row lock. A row is always locked before its times are compared.

// sqlAcquire is the whole of acquiring. $1 key, $2 owner, $3 session or NULL, $4 TTL.
//
// The token is minted in SET, after the row lock is held, so that whoever waited longer for the row gets the higher token
// (INV-04). In the INSERT arm it is minted before the row exists, and is used only if this statement creates the row:
// rows are never deleted, so that is the key's first grant ever, and a competitor that came first makes this
// statement take the SET arm. For a key that has a row, the INSERT arm never inserts; it proposes
// the row's own token, in order not to use one up.
//
// It returns one row: the grant or NULLs, the row as it was under the lock or NULLs, the caller's session or NULL, the time.
const sqlAcquire = `
WITH mine AS MATERIALIZED (
    SELECT expires_at FROM lock_session WHERE session_id = $3::uuid AND owner_id = $2 FOR SHARE
), prev AS MATERIALIZED (
    SELECT owner_id, fencing_token, acquired_at, expires_at FROM lock_entry WHERE lock_key = $1 FOR UPDATE
), granted AS (
    INSERT INTO lock_entry AS e (lock_key, owner_id, session_id, fencing_token, ttl, acquired_at, expires_at)
    SELECT $1::text, $2::text, $3::uuid, COALESCE((SELECT fencing_token FROM prev), nextval('fencing_token_seq')),
           $4::interval, clock_timestamp(), clock_timestamp() + $4
    WHERE $3 IS NULL OR (SELECT expires_at FROM mine) > clock_timestamp()
    ON CONFLICT (lock_key) DO UPDATE
    SET (owner_id, session_id, ttl, fencing_token, acquired_at, expires_at) = (
        SELECT EXCLUDED.owner_id, EXCLUDED.session_id, EXCLUDED.ttl,
               CASE WHEN l.kept THEN e.fencing_token ELSE nextval('fencing_token_seq') END,
               CASE WHEN l.kept THEN e.acquired_at ELSE l.at END,
               CASE WHEN l.kept THEN GREATEST(e.expires_at + interval '1 microsecond', l.at + EXCLUDED.ttl)
                    ELSE l.at + EXCLUDED.ttl END
        FROM (SELECT c.at, e.owner_id IS NOT NULL AND e.owner_id = EXCLUDED.owner_id
                           AND e.expires_at > c.at AND lock_session_lives(e.session_id) AS kept
              FROM (SELECT clock_timestamp() AS at) c) l)
    WHERE e.owner_id IS NULL OR e.owner_id = EXCLUDED.owner_id
       OR e.expires_at <= clock_timestamp() OR NOT lock_session_lives(e.session_id)
    RETURNING e.fencing_token, e.acquired_at, e.expires_at
)
SELECT g.fencing_token, g.acquired_at, g.expires_at,
       p.owner_id, p.fencing_token, p.acquired_at, p.expires_at,
       m.expires_at, clock_timestamp()
FROM (SELECT) AS one LEFT JOIN granted g ON true LEFT JOIN prev p ON true LEFT JOIN mine m ON true`

// sqlRenew lengthens a live grant. $1 key, $2 token, $3 TTL or NULL for the grant's own.
const sqlRenew = `
WITH held AS MATERIALIZED (
    SELECT lock_key, session_id, expires_at, COALESCE($3, ttl) AS ttl FROM lock_entry
    WHERE lock_key = $1 AND fencing_token = $2 AND owner_id IS NOT NULL FOR UPDATE
)
UPDATE lock_entry e
SET expires_at = GREATEST(e.expires_at + interval '1 microsecond', clock_timestamp() + h.ttl)
FROM held h
WHERE e.lock_key = h.lock_key AND h.expires_at > clock_timestamp() AND lock_session_lives(h.session_id)
RETURNING e.owner_id, e.session_id::text, h.ttl, e.acquired_at, e.expires_at, clock_timestamp()`

// sqlRelease frees a live grant. $1 key, $2 token, $3 the expiry that the grant must still have, or NULL for any.
const sqlRelease = `
WITH held AS MATERIALIZED (
    SELECT lock_key, owner_id, session_id, acquired_at, expires_at FROM lock_entry
    WHERE lock_key = $1 AND fencing_token = $2 AND owner_id IS NOT NULL FOR UPDATE
)
UPDATE lock_entry e
SET owner_id = NULL, session_id = NULL, expires_at = clock_timestamp()
FROM held h
WHERE e.lock_key = h.lock_key AND h.expires_at > clock_timestamp() AND lock_session_lives(h.session_id)
  AND ($3::timestamptz IS NULL OR h.expires_at = $3)
RETURNING h.owner_id, e.expires_at - h.acquired_at`

// sqlGet reads a key without locking anything. $1 key.
const sqlGet = `
SELECT e.owner_id, e.session_id::text, e.fencing_token, e.acquired_at, e.expires_at, t.at,
       e.owner_id IS NOT NULL AND e.expires_at > t.at AND (e.session_id IS NULL OR COALESCE(s.expires_at > t.at, false))
FROM lock_entry e LEFT JOIN lock_session s USING (session_id), (SELECT clock_timestamp() AS at) t
WHERE e.lock_key = $1`

// sqlRevoke frees the key and mints the floor in the same UPDATE, under the row lock: a grant that waits for the row gets
// a token above the floor. $1 key, $2 expected token or 0, $3 revocation id, $4 operator, $5 reason.
// One row if the key exists: its last token and, if it was revoked, the floor and the owner.
const sqlRevoke = `
WITH prev AS MATERIALIZED (
    SELECT lock_key, owner_id, fencing_token FROM lock_entry WHERE lock_key = $1 FOR UPDATE
), revoked AS (
    UPDATE lock_entry e
    SET owner_id = NULL, session_id = NULL, expires_at = clock_timestamp(), fencing_token = nextval('fencing_token_seq')
    FROM prev p
    WHERE e.lock_key = p.lock_key AND ($2::bigint = 0 OR p.fencing_token = $2)
    RETURNING e.fencing_token AS floor
), recorded AS (
    INSERT INTO lock_revocation (id, lock_key, prev_owner, prev_token, new_floor, operator, reason, revoked_at)
    SELECT $3::uuid, p.lock_key, p.owner_id, p.fencing_token, r.floor, $4::text, $5::text, clock_timestamp() FROM revoked r, prev p
    RETURNING new_floor
)
SELECT p.fencing_token, p.owner_id, r.new_floor FROM prev p LEFT JOIN recorded r ON true`

// sqlRevocation reads a revocation back when the answer to sqlRevoke was lost. $1 its id.
const sqlRevocation = `SELECT prev_token, prev_owner, new_floor FROM lock_revocation WHERE id = $1`

// sqlAdvance lifts the token source. $1 the least value that it must have reached.
const sqlAdvance = `SELECT lock_advance_tokens($1)`

// sqlCreateSession: $1 id, $2 owner, $3 TTL.
const sqlCreateSession = `
INSERT INTO lock_session (session_id, owner_id, ttl, created_at, expires_at)
SELECT $1::uuid, $2::text, $3::interval, at, at + $3 FROM (SELECT clock_timestamp() AS at) t
RETURNING ttl, created_at, expires_at`

// sqlHeartbeat lengthens a live session. $1 id, $2 owner.
const sqlHeartbeat = `
WITH mine AS MATERIALIZED (
    SELECT session_id, expires_at FROM lock_session WHERE session_id = $1 AND owner_id = $2 FOR UPDATE
)
UPDATE lock_session s SET expires_at = GREATEST(s.expires_at, clock_timestamp() + s.ttl)
FROM mine m
WHERE s.session_id = m.session_id AND m.expires_at > clock_timestamp()
RETURNING s.ttl, s.created_at, s.expires_at`

// sqlEndSession ends a live session; its locks are free from then on, because it is gone. $1 id, $2 owner.
const sqlEndSession = `
WITH mine AS MATERIALIZED (
    SELECT session_id, expires_at FROM lock_session WHERE session_id = $1 AND owner_id = $2 FOR UPDATE
)
DELETE FROM lock_session s USING mine m WHERE s.session_id = m.session_id AND m.expires_at > clock_timestamp()`

// sqlSessionExists tells an expired session from an unknown one. $1 id, $2 owner.
const sqlSessionExists = `SELECT EXISTS (SELECT FROM lock_session WHERE session_id = $1 AND owner_id = $2)`

// sqlFreeSession marks the locks of a session that is gone as free. It is a transaction of its own: an acquire locks a key and then
// the holder's session, so nobody may lock a session and then keys. $1 session id.
const sqlFreeSession = `
WITH held AS MATERIALIZED (
    SELECT lock_key, owner_id, fencing_token, acquired_at, expires_at FROM lock_entry WHERE session_id = $1 FOR UPDATE
)
UPDATE lock_entry e
SET owner_id = NULL, session_id = NULL, expires_at = LEAST(e.expires_at, clock_timestamp())
FROM held h
WHERE e.lock_key = h.lock_key
RETURNING e.lock_key, h.owner_id, h.fencing_token, e.expires_at - h.acquired_at`

// sqlSweep marks lapsed grants as free. It skips rows that somebody is working on and mints no token. $1 how many at most.
const sqlSweep = `
WITH lapsed AS MATERIALIZED (
    SELECT lock_key, owner_id, session_id, fencing_token, acquired_at, expires_at FROM lock_entry e
    WHERE owner_id IS NOT NULL
      AND (expires_at <= clock_timestamp()
           OR session_id IS NOT NULL AND NOT EXISTS (
               SELECT FROM lock_session s WHERE s.session_id = e.session_id AND s.expires_at > clock_timestamp()))
    ORDER BY expires_at LIMIT $1 FOR UPDATE OF e SKIP LOCKED
)
UPDATE lock_entry e
SET owner_id = NULL, session_id = NULL
FROM lapsed l
WHERE e.lock_key = l.lock_key AND (l.expires_at <= clock_timestamp() OR NOT lock_session_lives(l.session_id))
RETURNING e.lock_key, l.owner_id, l.fencing_token, LEAST(l.expires_at, clock_timestamp()) - l.acquired_at`

// sqlHeld counts live grants; a lapsed one counts until it is swept.
const sqlHeld = `SELECT count(*) FROM lock_entry WHERE owner_id IS NOT NULL`

// sqlPruneSessions forgets sessions a day after they lapsed; until then they are told from unknown ones.
const sqlPruneSessions = `DELETE FROM lock_session WHERE expires_at < clock_timestamp() - interval '1 day'`

// sqlNotify tells the other servers about freed keys. $1 the channel, $2 the payloads.
const sqlNotify = `SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload`

// sqlReady fails unless the schema is there, the role may use it and the database takes writes.
const sqlReady = `
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean,
       has_table_privilege('lock_entry', 'INSERT') AND has_table_privilege('lock_entry', 'UPDATE')
       AND has_sequence_privilege('fencing_token_seq', 'USAGE')`
