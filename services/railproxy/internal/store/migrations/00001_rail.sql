-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['payapp', 'railapp', 'reconciler'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I LOGIN', role);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END $$;
-- +goose StatementEnd

CREATE TABLE rail_high_water (
    account_id    text PRIMARY KEY CHECK (account_id ~ '^[A-Za-z0-9._-]{1,64}$'),
    highest_token bigint NOT NULL CHECK (highest_token > 0),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE rail_submission (
    submission_id   uuid PRIMARY KEY,
    payout_id       uuid NOT NULL,
    account_id      text NOT NULL CHECK (account_id ~ '^[A-Za-z0-9._-]{1,64}$'),
    owner_id        text NOT NULL CHECK (length(owner_id) BETWEEN 1 AND 64),
    idempotency_key text NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 128),
    presented_token bigint NOT NULL CHECK (presented_token > 0),
    amount_minor    bigint NOT NULL CHECK (amount_minor > 0),
    currency        text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    outcome         text CHECK (outcome IN ('ACKED', 'REJECTED', 'TIMEOUT', 'FENCED', 'UNSENT')),
    rail_reference  text CHECK (length(rail_reference) BETWEEN 1 AND 128),
    guarded         boolean NOT NULL,
    proxy_instance  text NOT NULL CHECK (length(proxy_instance) BETWEEN 1 AND 64),
    submitted_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    resolved_at     timestamptz,
    CONSTRAINT resolved_exactly_with_outcome CHECK ((outcome IS NULL) = (resolved_at IS NULL)),
    CONSTRAINT reference_exactly_when_acked CHECK ((outcome IS NOT DISTINCT FROM 'ACKED') = (rail_reference IS NOT NULL))
);

-- INV-02: at most one submission of a payout is ever presented to the rail. A record without an outcome
-- counts as presented, because its request may be on its way.
CREATE UNIQUE INDEX rail_submission_presented_once ON rail_submission (payout_id)
    WHERE guarded AND (outcome IS NULL OR outcome IN ('ACKED', 'REJECTED', 'TIMEOUT'));

CREATE INDEX rail_submission_by_payout ON rail_submission (payout_id, submitted_at);
CREATE INDEX rail_submission_by_key ON rail_submission (idempotency_key);

-- +goose StatementBegin
CREATE FUNCTION rail_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is not allowed', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION rail_high_water_rises() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.account_id <> OLD.account_id OR NEW.highest_token < OLD.highest_token THEN
        RAISE EXCEPTION 'rail_high_water of % never goes back: % to %', OLD.account_id, OLD.highest_token, NEW.highest_token
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION rail_submission_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.outcome IS NOT NULL AND NEW.outcome <> 'FENCED' THEN
        RAISE EXCEPTION 'a submission is recorded before it is made: outcome % at insertion', NEW.outcome
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION rail_submission_resolves_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.outcome IS NOT NULL OR NEW.outcome IS NULL OR NEW.outcome = 'FENCED' THEN
        RAISE EXCEPTION 'the outcome of submission % is written once: % to %', OLD.submission_id,
            coalesce(OLD.outcome, 'none'), coalesce(NEW.outcome, 'none') USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.submission_id, NEW.payout_id, NEW.account_id, NEW.owner_id, NEW.idempotency_key, NEW.presented_token,
        NEW.amount_minor, NEW.currency, NEW.guarded, NEW.proxy_instance, NEW.submitted_at)
       IS DISTINCT FROM
       (OLD.submission_id, OLD.payout_id, OLD.account_id, OLD.owner_id, OLD.idempotency_key, OLD.presented_token,
        OLD.amount_minor, OLD.currency, OLD.guarded, OLD.proxy_instance, OLD.submitted_at) THEN
        RAISE EXCEPTION 'submission % cannot be changed', OLD.submission_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER rises BEFORE UPDATE ON rail_high_water FOR EACH ROW EXECUTE FUNCTION rail_high_water_rises();
CREATE TRIGGER kept BEFORE DELETE OR TRUNCATE ON rail_high_water FOR EACH STATEMENT EXECUTE FUNCTION rail_refuse();
CREATE TRIGGER begins BEFORE INSERT ON rail_submission FOR EACH ROW EXECUTE FUNCTION rail_submission_begins();
CREATE TRIGGER resolves_once BEFORE UPDATE ON rail_submission FOR EACH ROW EXECUTE FUNCTION rail_submission_resolves_once();
CREATE TRIGGER kept BEFORE DELETE OR TRUNCATE ON rail_submission FOR EACH STATEMENT EXECUTE FUNCTION rail_refuse();

REVOKE ALL ON rail_high_water, rail_submission FROM PUBLIC, payapp, railapp, reconciler;
GRANT USAGE ON SCHEMA public TO railapp, reconciler;
GRANT SELECT, INSERT, UPDATE (highest_token, updated_at) ON rail_high_water TO railapp;
GRANT SELECT, INSERT, UPDATE (outcome, rail_reference, resolved_at) ON rail_submission TO railapp;
GRANT SELECT ON rail_high_water, rail_submission TO reconciler;
