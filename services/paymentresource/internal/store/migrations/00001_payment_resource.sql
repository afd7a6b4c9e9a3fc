-- +goose Up

-- The roles are made here when they are missing; their passwords are set elsewhere.
-- +goose StatementBegin
DO $$
BEGIN
    CREATE ROLE payapp LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
    CREATE ROLE reconciler LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
-- +goose StatementEnd

-- A customer's account holds a running balance. A clearing account holds none: it would be one hot row for
-- all payouts; its balance is computed from its entries.
CREATE TABLE account (
    account_id     text PRIMARY KEY CHECK (account_id ~ '^[A-Za-z0-9._-]{1,64}$'),
    kind           text NOT NULL CHECK (kind IN ('CUSTOMER', 'CLEARING')),
    currency       char(3) NOT NULL,
    balance_minor  bigint NOT NULL DEFAULT 0,
    reserved_minor bigint NOT NULL DEFAULT 0,
    fence          bigint NOT NULL DEFAULT 0 CHECK (fence >= 0),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT account_balance_covers_reserved CHECK (
        kind <> 'CUSTOMER' OR (balance_minor >= 0 AND reserved_minor >= 0 AND reserved_minor <= balance_minor)), -- INV-03
    CONSTRAINT account_clearing_holds_nothing CHECK (
        kind <> 'CLEARING' OR (balance_minor = 0 AND reserved_minor = 0 AND fence = 0))
) WITH (fillfactor = 70);

CREATE TABLE payout (
    payout_id         uuid PRIMARY KEY,
    account_id        text NOT NULL REFERENCES account,
    amount_minor      bigint NOT NULL CHECK (amount_minor > 0),
    currency          char(3) NOT NULL,
    beneficiary_ref   text NOT NULL,
    state             text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED',
                                                                       'RAIL_AMBIGUOUS', 'POSTED', 'FAILED', 'ABANDONED')),
    state_reason      text,
    claimed_by        text,
    claim_token       bigint CHECK (claim_token > 0),
    idempotency_key   text NOT NULL UNIQUE,
    external_ref      text NOT NULL UNIQUE,
    attempt_count     integer NOT NULL DEFAULT 0,
    rail_reference    text,
    submission_id     uuid,
    rail_submitted_at timestamptz,
    rail_resolved_at  timestamptz,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT payout_claimed_under_a_token CHECK (
        state NOT IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS', 'POSTED') OR claim_token IS NOT NULL),
    CONSTRAINT payout_acked_has_reference CHECK (state NOT IN ('RAIL_ACKED', 'POSTED') OR rail_reference IS NOT NULL)
) WITH (fillfactor = 70);

-- The four orders in which payouts are listed, oldest first; each page starts where the one before ended.
CREATE INDEX payout_by_age ON payout (created_at, payout_id);
CREATE INDEX payout_by_account ON payout (account_id, created_at, payout_id);
CREATE INDEX payout_by_state ON payout (state, created_at, payout_id);
CREATE INDEX payout_by_state_and_account ON payout (state, account_id, created_at, payout_id);

-- Every claim, with the balance it saw; open until ended. end_note is what the owner gave as its reason.
CREATE TABLE payout_claim (
    payout_id     uuid NOT NULL REFERENCES payout,
    token         bigint NOT NULL CHECK (token > 0),
    owner_id      text NOT NULL,
    balance_minor bigint NOT NULL,
    outcome       text NOT NULL CHECK (outcome IN ('GRANTED', 'INSUFFICIENT_FUNDS')),
    claimed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    end_reason    text CHECK (end_reason IN ('INSUFFICIENT_FUNDS', 'SUPERSEDED', 'HANDED_BACK', 'POSTED', 'FAILED', 'RAIL_AMBIGUOUS')),
    end_note      text,
    PRIMARY KEY (payout_id, token),
    CONSTRAINT payout_claim_ended_for_a_reason CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
    CONSTRAINT payout_claim_refused_is_ended CHECK (outcome = 'GRANTED' OR ended_at IS NOT NULL)
);
CREATE UNIQUE INDEX payout_claim_open ON payout_claim (payout_id) WHERE ended_at IS NULL;

CREATE TABLE payout_transition (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payout_id  uuid NOT NULL REFERENCES payout,
    from_state text,
    to_state   text NOT NULL,
    token      bigint CHECK (token > 0),
    owner_id   text NOT NULL,
    reason     text NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX payout_transition_by_payout ON payout_transition (payout_id, id);

CREATE TABLE payout_resolution (
    payout_id       uuid PRIMARY KEY REFERENCES payout,
    outcome         text NOT NULL CHECK (outcome IN ('SETTLED', 'ABSENT', 'ABANDONED')),
    rail_reference  text,
    evidence        jsonb,
    token           bigint NOT NULL CHECK (token > 0),
    decided_by      text NOT NULL,
    second_operator text,
    reason          text NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((outcome = 'SETTLED') = (rail_reference IS NOT NULL)),
    CHECK (outcome = 'ABANDONED' OR evidence IS NOT NULL),
    CHECK (second_operator <> decided_by)
);

-- What software found out about an ambiguous payout without deciding it.
CREATE TABLE payout_evidence (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payout_id      uuid NOT NULL REFERENCES payout,
    conclusion     text NOT NULL CHECK (conclusion IN ('SETTLED', 'ABSENT')),
    rail_reference text,
    evidence       jsonb NOT NULL,
    token          bigint NOT NULL CHECK (token > 0),
    recorded_by    text NOT NULL,
    reason         text NOT NULL,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((conclusion = 'SETTLED') = (rail_reference IS NOT NULL))
);
CREATE INDEX payout_evidence_by_payout ON payout_evidence (payout_id, id);

-- A decision that waits for the approval of the operator it names.
CREATE TABLE payout_resolution_proposal (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payout_id       uuid NOT NULL REFERENCES payout,
    outcome         text NOT NULL CHECK (outcome IN ('SETTLED', 'ABSENT', 'ABANDONED')),
    rail_reference  text,
    evidence        jsonb,
    token           bigint NOT NULL CHECK (token > 0),
    proposed_by     text NOT NULL,
    second_operator text NOT NULL CHECK (second_operator <> proposed_by),
    reason          text NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX payout_resolution_proposal_by_payout ON payout_resolution_proposal (payout_id, id);

CREATE TABLE funding (
    external_ref text PRIMARY KEY,
    account_id   text NOT NULL REFERENCES account,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    entry_group  uuid NOT NULL UNIQUE,
    at           timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- balance_after_minor is the running balance that a customer's leg left behind, so that a repeated request
-- gets the answer of the first one. A trigger checks the accounts: a foreign key would lock the one row of a clearing account
-- for every payout of its currency.
CREATE TABLE ledger_entry (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    entry_group         uuid NOT NULL,
    payout_id           uuid REFERENCES payout,
    account_id          text NOT NULL,
    direction           text NOT NULL CHECK (direction IN ('DEBIT', 'CREDIT')),
    amount_minor        bigint NOT NULL CHECK (amount_minor > 0),
    fence               bigint NOT NULL CHECK (fence >= 0),
    guarded             boolean NOT NULL DEFAULT true,
    balance_after_minor bigint,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX ledger_entry_once_per_token ON ledger_entry (payout_id, account_id, direction, fence);
CREATE UNIQUE INDEX ledger_entry_once_per_payout ON ledger_entry (payout_id, account_id, direction) WHERE guarded;
CREATE INDEX ledger_entry_by_account ON ledger_entry (account_id) INCLUDE (direction, amount_minor);
CREATE INDEX ledger_entry_by_group ON ledger_entry (entry_group);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd

CREATE TRIGGER ledger_entry_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER payout_transition_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_transition
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER payout_resolution_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_resolution
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER payout_evidence_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_evidence
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER payout_resolution_proposal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_resolution_proposal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER funding_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON funding
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- INV-03: the legs that one statement inserts balance in each entry group, in one currency.
-- +goose StatementBegin
CREATE FUNCTION ledger_entry_balances() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM fresh LEFT JOIN account USING (account_id)
        GROUP BY fresh.entry_group
        HAVING sum(CASE fresh.direction WHEN 'DEBIT' THEN fresh.amount_minor ELSE -fresh.amount_minor END) <> 0
            OR count(account.currency) <> count(*)
            OR count(DISTINCT account.currency) <> 1
    ) THEN
        RAISE EXCEPTION 'debits and credits of an entry group differ, in amount or in currency' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_entry_balances AFTER INSERT ON ledger_entry
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION ledger_entry_balances();

-- The state machine; the same table stands in internal/payout. POSTED, FAILED and ABANDONED have no way
-- out, RAIL_AMBIGUOUS none without its recorded resolution (INV-08).
-- +goose StatementBegin
CREATE FUNCTION payout_moves_legally() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a payout is never deleted' USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'PENDING' THEN
            RAISE EXCEPTION 'a payout begins PENDING, not %', NEW.state USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.payout_id, NEW.account_id, NEW.amount_minor, NEW.currency, NEW.beneficiary_ref, NEW.idempotency_key, NEW.external_ref, NEW.created_at)
        IS DISTINCT FROM
       (OLD.payout_id, OLD.account_id, OLD.amount_minor, OLD.currency, OLD.beneficiary_ref, OLD.idempotency_key, OLD.external_ref, OLD.created_at) THEN
        RAISE EXCEPTION 'what a payout is cannot change, only its state' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NOT (OLD.state, NEW.state) IN (
        ('PENDING', 'CLAIMED'), ('PENDING', 'FAILED'), ('PENDING', 'ABANDONED'),
        ('CLAIMED', 'CLAIMED'), ('CLAIMED', 'RAIL_SUBMITTED'),
        ('RAIL_SUBMITTED', 'RAIL_ACKED'), ('RAIL_SUBMITTED', 'FAILED'), ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS'),
        ('RAIL_ACKED', 'RAIL_ACKED'), ('RAIL_ACKED', 'POSTED'),
        ('RAIL_AMBIGUOUS', 'RAIL_ACKED'), ('RAIL_AMBIGUOUS', 'FAILED'), ('RAIL_AMBIGUOUS', 'ABANDONED')) THEN
        RAISE EXCEPTION 'a payout does not move from % to %', OLD.state, NEW.state USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = NEW.state AND OLD.claim_token = NEW.claim_token THEN
        RAISE EXCEPTION 'a payout stays % only by a claim under another token', OLD.state USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.rail_reference <> coalesce(NEW.rail_reference, '') THEN
        RAISE EXCEPTION 'the rail reference of a payout is written once' USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'RAIL_AMBIGUOUS' AND NOT EXISTS (
        SELECT FROM payout_resolution r WHERE r.payout_id = OLD.payout_id
           AND r.outcome = CASE NEW.state WHEN 'RAIL_ACKED' THEN 'SETTLED' WHEN 'FAILED' THEN 'ABSENT' ELSE 'ABANDONED' END) THEN
        RAISE EXCEPTION 'RAIL_AMBIGUOUS is left by a recorded resolution only' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER payout_moves_legally BEFORE INSERT OR UPDATE OR DELETE ON payout
    FOR EACH ROW EXECUTE FUNCTION payout_moves_legally();
CREATE TRIGGER payout_is_kept BEFORE TRUNCATE ON payout FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Every transition leaves its audit row in the transaction that makes it, the creation included. xmin is the
-- transaction that wrote a row.
-- +goose StatementBegin
CREATE FUNCTION payout_move_is_audited() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    came_from text := CASE TG_OP WHEN 'UPDATE' THEN OLD.state END;
BEGIN
    IF NOT EXISTS (
        SELECT FROM payout_transition t
         WHERE t.payout_id = NEW.payout_id AND t.from_state IS NOT DISTINCT FROM came_from AND t.to_state = NEW.state
           AND t.xmin = pg_current_xact_id()::xid) THEN
        RAISE EXCEPTION 'payout % moved to % without an audit row', NEW.payout_id, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER payout_move_is_audited AFTER INSERT OR UPDATE ON payout
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION payout_move_is_audited();

-- A claim is written once and ended once.
-- +goose StatementBegin
CREATE FUNCTION payout_claim_ends_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.ended_at IS NOT NULL THEN
        RAISE EXCEPTION 'a claim is written once and ended once' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER payout_claim_ends_once BEFORE UPDATE OR DELETE ON payout_claim
    FOR EACH ROW EXECUTE FUNCTION payout_claim_ends_once();

REVOKE ALL ON account, payout, payout_claim, payout_transition, payout_resolution, payout_evidence, payout_resolution_proposal,
    funding, ledger_entry FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_change(), ledger_entry_balances(), payout_moves_legally(), payout_move_is_audited(), payout_claim_ends_once()
    FROM PUBLIC;

GRANT USAGE ON SCHEMA public TO payapp, reconciler;
GRANT SELECT ON account, payout, payout_claim, payout_transition, payout_resolution, payout_evidence, payout_resolution_proposal,
    funding, ledger_entry TO payapp, reconciler;
GRANT INSERT ON account, payout, payout_claim, payout_transition, payout_resolution, payout_evidence, payout_resolution_proposal,
    funding, ledger_entry TO payapp;
GRANT UPDATE (balance_minor, reserved_minor, fence, updated_at) ON account TO payapp;
GRANT UPDATE (state, state_reason, claimed_by, claim_token, attempt_count, rail_reference, submission_id, rail_submitted_at,
    rail_resolved_at, updated_at) ON payout TO payapp;
GRANT UPDATE (ended_at, end_reason, end_note) ON payout_claim TO payapp;
REVOKE UPDATE, DELETE, TRUNCATE ON ledger_entry, payout_transition FROM payapp;
