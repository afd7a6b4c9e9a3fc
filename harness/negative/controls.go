package main

const (
	lockSQL      = "services/lockserver/internal/pglock/sql.go"
	lockSchema   = "services/lockserver/internal/pglock/migrations/00001_lock.sql"
	lockTests    = "./services/lockserver/internal/pglock"
	claimFence   = "services/paymentresource/internal/claim/fence.sql"
	postDebit    = "services/paymentresource/internal/ledger/debit.sql"
	paymentTests = "./services/paymentresource"
	railAdmit    = "services/railproxy/internal/store/admit.go"
	railSchema   = "services/railproxy/internal/store/migrations/00001_rail.sql"
	railSubmit   = "services/railproxy/internal/admission/admission.go"
	railCall     = "services/railproxy/internal/rail/rail.go"
	railTests    = "./services/railproxy"
	abandonFence = "services/paymentresource/internal/outcome/abandon_fence.sql"
	abandonClaim = "services/paymentresource/internal/outcome/abandon.go"
	postFence    = "services/paymentresource/internal/ledger/fence.sql"
	experiment   = "./harness/fencing"
)

// controls are the mechanisms that are broken, one at a time.
var controls = []control{
	{
		name: "takeover-without-nextval",
		what: "a new holder is given the dead holder's token",
		edits: []edit{{lockSQL,
			"CASE WHEN l.kept THEN e.fencing_token ELSE nextval('fencing_token_seq') END",
			"e.fencing_token"}},
		pkg: lockTests, test: "^TestStore$/^TakeoverOfALapsedGrantMintsAHigherToken$",
	},
	{
		name: "token-minted-in-values",
		what: "lock rows come and go, and the token is taken before the statement has waited for a competitor's row",
		edits: []edit{
			{lockSQL, "COALESCE((SELECT fencing_token FROM prev), nextval('fencing_token_seq'))", "nextval('fencing_token_seq')"},
			{lockSQL, "CASE WHEN l.kept THEN e.fencing_token ELSE nextval('fencing_token_seq') END", "CASE WHEN l.kept THEN e.fencing_token ELSE EXCLUDED.fencing_token END"},
			{lockSQL, "SELECT owner_id, fencing_token, acquired_at, expires_at FROM lock_entry WHERE lock_key = $1 FOR UPDATE\n), granted",
				"SELECT owner_id, fencing_token, acquired_at, expires_at FROM lock_entry WHERE lock_key = $1\n), granted"},
			{lockSQL, "UPDATE lock_entry e\nSET owner_id = NULL, session_id = NULL, expires_at = clock_timestamp()\nFROM held h\n", "DELETE FROM lock_entry e USING held h\n"},
			{lockSchema, "GRANT SELECT, INSERT, UPDATE ON lock_entry TO lockapp", "GRANT SELECT, INSERT, UPDATE, DELETE ON lock_entry TO lockapp"},
		},
		// Step by step, so that it is caught every time; the suite's stress of sixteen clients catches it most times.
		pkg: lockTests, test: "^TestATokenIsMintedOnceTheRowIsLocked$/^first_acquirers_of_a_new_key$",
	},
	{
		name:  "renew-after-expiry",
		what:  "a lease that has lapsed is renewed",
		edits: []edit{{lockSQL, "WHERE e.lock_key = h.lock_key AND h.expires_at > clock_timestamp() AND lock_session_lives(h.session_id)\nRETURNING e.owner_id, e.session_id::text, h.ttl", "WHERE e.lock_key = h.lock_key AND lock_session_lives(h.session_id)\nRETURNING e.owner_id, e.session_id::text, h.ttl"}},
		pkg:   lockTests, test: "^TestStore$/^RenewAfterLapseIsLost$",
	},
	{
		name:  "claim-accepts-an-equal-token",
		what:  "<= for < in the claim's fence",
		edits: []edit{{claimFence, "account.fence < $3", "account.fence <= $3"}},
		pkg:   paymentTests, test: "^TestClaimComparesStrictly$",
	},
	{
		name:  "post-ignores-the-fence",
		what:  "the ledger is posted under whatever token",
		edits: []edit{{postDebit, " AND account.fence <= $2\n", "\n"}},
		pkg:   paymentTests, test: "^TestAStaleTokenWithAnOpenClaimIsFencedOutAndNothingIsWritten$",
	},
	{
		name:  "rail-accepts-an-equal-token",
		what:  "<= for < in the rail guard's mark",
		edits: []edit{{railAdmit, "WHERE w.highest_token < excluded.highest_token", "WHERE w.highest_token <= excluded.highest_token"}},
		pkg:   railTests, test: "^TestAnEqualTokenWithAnotherPayoutIsFencedOut$",
	},
	{
		name:  "presented-twice",
		what:  "the uniqueness of what was presented is dropped",
		edits: []edit{{railSchema, "CREATE UNIQUE INDEX rail_submission_presented_once", "CREATE INDEX rail_submission_presented_once"}},
		pkg:   railTests, test: "^TestAPresentedPayoutIsNeverPresentedAgainUnderANewerToken$",
	},
	{
		name: "intent-after-the-call",
		what: "the intent is committed after the rail was called",
		edits: []edit{
			{railSubmit, "	judgement, err := s.admit(ctx, id, r)\n", "	result := s.forward(ctx, r, store.Judgement{Since: time.Now()})\n	judgement, err := s.admit(ctx, id, r)\n"},
			{railSubmit, "	result := s.forward(ctx, r, judgement)\n", ""},
		},
		pkg: railTests, test: "^TestTheIntentIsCommittedBeforeTheRailIsCalled$",
	},
	{
		name:  "unknown-read-as-unsent",
		what:  "an answer that never came is taken for a submission that was never made",
		edits: []edit{{railCall, "return unknown(\"no answer: %v\", err)", "return unsent(\"no answer: %v\", err)"}},
		pkg:   railTests, test: "^TestEveryAnswerOfTheRailHasOneMeaningAndOneRequest$",
	},
	{
		name: "the-transport-may-replay",
		what: "the submit client reuses connections and can rewind its body",
		edits: []edit{
			{"services/httpclient/client.go", "DisableKeepAlives:   once,", "DisableKeepAlives:   false,"},
			{"services/httpclient/client.go", "body, size = struct{ io.Reader }{bytes.NewReader(data)}, len(data)", "body, size = bytes.NewReader(data), len(data)"},
			{"services/httpclient/client.go", "	req.GetBody = nil\n", ""},
		},
		pkg: "./services/httpclient", test: "^TestOnceIsSentOnceWhenTheConnectionDies$",
	},
	{
		name:  "submit-is-retried",
		what:  "the submit activity has two attempts",
		edits: []edit{{"workflows/options.go", "		RetryPolicy:            attempts(1),", "		RetryPolicy:            attempts(2),"}},
		pkg:   "./workflows", test: "^TestHowOftenEachStepIsTried$",
	},
	{
		name: "rail-guard-ignores-the-token",
		what: "the rail guard admits whatever token; only the uniqueness of what was presented is left",
		edits: []edit{{railAdmit, "SET highest_token = excluded.highest_token, updated_at = clock_timestamp()\n	WHERE w.highest_token < excluded.highest_token",
			"SET highest_token = greatest(w.highest_token, excluded.highest_token), updated_at = clock_timestamp()"}},
		pkg: experiment, test: "^TestEveryModeShowsWhatItMust$/^on$", says: "REFUSED_BUT_NOT_BY_THE_FENCE",
	},
	{
		name: "hand-back-ignores-the-token",
		what: "the account guard does not compare when a claim is handed back; only the payout's state is left to refuse",
		edits: []edit{
			{abandonFence, "SET fence = $2, updated_at", "SET fence = greatest(account.fence, $2), updated_at"},
			{abandonFence, " AND account.fence <= $2", ""},
			{abandonClaim, "	case record.Fence > token:\n", "	case false:\n"},
		},
		pkg: experiment, test: "^TestEveryModeShowsWhatItMust$/^on$", says: "REFUSED_BUT_NOT_BY_THE_FENCE",
	},
	{
		name: "rail-guard-refuses-by-state",
		what: "the rail guard refuses what was presented before, and calls it a stale token",
		edits: []edit{
			{railAdmit, "SET highest_token = excluded.highest_token, updated_at = clock_timestamp()\n	WHERE w.highest_token < excluded.highest_token",
				"SET highest_token = greatest(w.highest_token, excluded.highest_token), updated_at = clock_timestamp()"},
			{railAdmit, "	if tag.RowsAffected() == 0 {\n", "	_ = tag\n	if before.presented != nil {\n"},
		},
		pkg: experiment, test: "^TestWhereOnlyTheTokenCanRefuse$/^on$", says: "should have 0 item(s)",
	},
	{
		name: "account-guard-refuses-by-state",
		what: "no statement of the account guard compares tokens; the payout's state and its open claim are left, and the answer still says stale",
		edits: []edit{
			{claimFence, " AND account.fence < $3", ""},
			{postDebit, " AND account.fence <= $2\n", "\n"},
			{postFence, " AND account.fence <= $2", ""},
			{abandonFence, "SET fence = $2, updated_at", "SET fence = greatest(account.fence, $2), updated_at"},
			{abandonFence, " AND account.fence <= $2", ""},
		},
		pkg: experiment, test: "^TestWhereOnlyTheTokenCanRefuse$/^account-only$", says: "should have 0 item(s)",
	},
}
