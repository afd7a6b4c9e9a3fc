package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local"
	"railguard/services/httpclient"
	"railguard/services/httpserver"
	"railguard/services/paymentapi"
)

func (s system) importing(file string, flags ...string) (result, ImportResult) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "payouts.csv")
	require.NoError(s.t, os.WriteFile(path, []byte(file), 0o600))
	got := s.run(append([]string{"payout", "import", path, "--output", "json"}, flags...)...)
	var r ImportResult
	require.NoError(s.t, json.Unmarshal([]byte(got.out), &r), got.err)
	return got, r
}

// of counts the payouts of an account.
func (s system) of(account string) int {
	s.t.Helper()
	var page paymentapi.PayoutPage
	s.read(&page, "payout", "list", "--account", account, "--limit", "500", "--all")
	return len(page.Payouts)
}

func csvOf(account, currency string, refs ...string) string {
	var b strings.Builder
	b.WriteString(csvHeader)
	for _, ref := range refs {
		_, _ = fmt.Fprintf(&b, "%s-%s,%s,2,%s,beneficiary\n", account, ref, account, currency)
	}
	return b.String()
}

func TestImportTwiceMakesEachPayoutOnce(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	account := s.account("JPY", "1000")
	got, r := s.importing(csvOf(account, "JPY", "1", "2"))
	require.Equal(t, ExitOK, got.code, got.err)
	require.Equal(t, []int{2, 2, 0, 0}, []int{r.Rows, r.Created, r.Known, len(r.Bad)})
	require.Len(t, r.Payouts, 2)
	require.EqualValues(t, 2, r.Payouts[0].AmountMinor, "yen have no minor unit")

	got, again := s.importing(csvOf(account, "JPY", "2", "1", "3"))
	require.Equal(t, ExitOK, got.code, got.err)
	require.Equal(t, []int{3, 1, 2, 0}, []int{again.Rows, again.Created, again.Known, len(again.Bad)})
	require.Equal(t, r.Payouts[1].PayoutID, again.Payouts[0].PayoutID)
	require.Equal(t, 3, s.of(account))

	table := s.feed(csvOf(account, "JPY", "1"), "payout", "import", "-")
	require.Equal(t, result{ExitOK, "1 rows: 0 new, 1 known, 0 bad\n", ""}, table)
}

func TestImportOfAFileWithBadRowsImportsNothing(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	account := s.account("EUR", "10.00")
	_, first := s.importing(csvOf(account, "EUR", "used"))
	file := csvOf(account, "EUR", "good") +
		fmt.Sprintf("%[1]s-a,%[1]s,1.005,EUR,b\n%[1]s-b,nobody-%[1]s,1.00,EUR,b\n%[1]s-c,%[1]s,1,JPY,b\n", account) +
		fmt.Sprintf("%[1]s-used,%[1]s,3.00,EUR,b\n%[1]s-d,clearing.EUR,1.00,EUR,b\n%[1]s-good,%[1]s,2,EUR,beneficiary\n", account)
	wantBad := []string{"decimal places", "does not exist", "holds EUR", "external_ref: used for a payout with another body",
		"not a customer's", "the same as on line 2"}

	got, r := s.importing(file)
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "6 of 7, nothing was imported")
	require.Len(t, r.Bad, len(wantBad))
	for i, bad := range r.Bad {
		require.Equal(t, 3+i, bad.Line)
		require.Contains(t, bad.Reason, wantBad[i])
	}
	require.Equal(t, 1, s.of(account))

	got, r = s.importing(file, "--skip-bad")
	require.Equal(t, ExitOK, got.code, got.err)
	require.Equal(t, []int{7, 1, 0, 6}, []int{r.Rows, r.Created, r.Known, len(r.Bad)})
	require.Equal(t, 2, s.of(account))

	var p paymentapi.Payout
	s.read(&p, "payout", "get", first.Payouts[0].PayoutID)
	require.EqualValues(t, 200, p.AmountMinor, "the payout under the reference is as it was")
	table := s.feed(file, "payout", "import", "-")
	require.Equal(t, []string{"3", account + "-a"}, row(t, table.out, "3")[:2])
}

func TestImportOfAnEmptyFileSaysSo(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	got := s.run("payout", "import", "-")
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "the file is empty")
	require.Empty(t, got.out)
}

func TestImportOfManyRowsChecksTheLastBeforeItWritesTheFirst(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	account := s.account("EUR", "10.00")
	refs := make([]string, paymentapi.MaxBatch+5)
	for i := range refs {
		refs[i] = fmt.Sprint(i)
	}
	last := csvOf(account, "EUR", refs[len(refs)-1])
	_, r := s.importing(strings.Replace(last, ",2,", ",1,", 1))
	require.Equal(t, 1, r.Created)
	got, r := s.importing(csvOf(account, "EUR", refs...))
	require.Equal(t, ExitBadInput, got.code)
	require.Len(t, r.Bad, 1)
	require.Equal(t, len(refs)+1, r.Bad[0].Line)
	require.Equal(t, 1, s.of(account))

	got, r = s.importing(csvOf(account, "EUR", refs[:len(refs)-1]...))
	require.Equal(t, ExitOK, got.code, got.err)
	require.Equal(t, len(refs)-1, r.Created)
	require.Len(t, r.Payouts, r.Created)
	require.Equal(t, len(refs), s.of(account))
}

func TestImportTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	account := s.account("EUR", "10.00")
	payments, err := paymentapi.NewClient(running.stack.URL(local.PaymentResource), httpclient.Identity{Bearer: running.stack.Bearer(string(httpserver.Intake))})
	require.NoError(t, err)
	var done, total int
	r, err := Import(t.Context(), payments, strings.NewReader(csvOf(account, "EUR", "1", "2", "3")), ImportOptions{OwnerID: "test",
		Progress: func(d, all int) {
			require.GreaterOrEqual(t, d, done)
			done, total = d, all
		}})
	require.NoError(t, err)
	require.Equal(t, 3, r.Created)
	require.Positive(t, total)
	require.Equal(t, total, done)
}

func TestABatchFitsTheServicesBodyInAnyScript(t *testing.T) {
	t.Parallel()
	rows := make([]importRow, paymentapi.MaxBatch)
	for i := range rows {
		rows[i] = importRow{line: i + 2, request: paymentapi.CreatePayoutRequest{ExternalRef: strings.Repeat("払", maxExternalRef),
			AccountID: strings.Repeat("a", 64), AmountMinor: 1, Currency: "EUR", BeneficiaryRef: strings.Repeat("\u2028", maxBeneficiaryRef)}}
	}
	seen := 0
	for rest := rows; len(rest) > 0; {
		batch, err := nextBatch(rest)
		require.NoError(t, err)
		require.NotEmpty(t, batch)
		request := paymentapi.CreatePayoutsRequest{}
		for _, row := range batch {
			request.Payouts = append(request.Payouts, row.request)
		}
		body, err := json.Marshal(request)
		require.NoError(t, err)
		require.LessOrEqual(t, len(body), 1<<20)
		seen += len(batch)
		rest = rest[len(batch):]
	}
	require.Equal(t, len(rows), seen)
}
