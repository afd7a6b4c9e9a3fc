package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
)

// ImportOptions say how a file is imported.
type ImportOptions struct {
	// SkipBad imports the good rows of a file that has bad ones; without it such a file is refused whole.
	SkipBad bool
	// OwnerID is recorded as the writer.
	OwnerID string
	// Progress, when given, is called from one goroutine at a time with the number of steps done and to do.
	Progress func(done, total int)
}

// ImportResult says what became of a file. Created and Known add up to the number of Payouts: those that this
// import made, and those that an earlier one had made from the same rows.
type ImportResult struct {
	Rows    int                 `json:"rows"` // all but the header
	Created int                 `json:"created"`
	Known   int                 `json:"known"`
	Bad     []BadRow            `json:"bad"` // by line
	Payouts []paymentapi.Payout `json:"payouts"`
}

// ErrBadRows says that the file has bad rows and that the rest was not imported either.
var ErrBadRows = errors.New("the file has bad rows")

// Import makes a PENDING payout of every row of a CSV file (external_ref, account_id, amount, currency, beneficiary_ref; amounts in major units), once
// for each external_ref however often it is imported. Every row, the existence and the currency of its
// account, and whether its external_ref was used for something else, is checked before anything is written. Rows are written in batches
// of up to paymentapi.MaxBatch, each whole or not at all. The errors are ErrBadRows (the result then lists them), those of a file that
// cannot be read, and the client's; after an error of the client the same import may simply be run again.
func Import(ctx context.Context, client *paymentapi.Client, r io.Reader, opts ImportOptions) (ImportResult, error) {
	rows, bad, err := readCSV(r)
	if err != nil {
		return ImportResult{}, err
	}
	im := &importer{client: client, opts: opts, result: ImportResult{Rows: len(rows) + len(bad), Bad: bad, Payouts: []paymentapi.Payout{}}}
	if rows, err = im.checkAccounts(ctx, rows); err != nil {
		return im.sorted(), err
	}
	if rows, err = im.inBatches(ctx, rows, true); err != nil {
		return im.sorted(), err
	}
	if n := len(im.result.Bad); n > 0 && !opts.SkipBad {
		return im.sorted(), badInput("%w: %d of %d, nothing was imported", ErrBadRows, n, im.result.Rows)
	}
	_, err = im.inBatches(ctx, rows, false)
	return im.sorted(), err
}

type importer struct {
	client *paymentapi.Client
	opts   ImportOptions
	result ImportResult

	done, total int
}

func (im *importer) sorted() ImportResult {
	slices.SortFunc(im.result.Bad, func(a, b BadRow) int { return a.Line - b.Line })
	return im.result
}

func (im *importer) refuse(row importRow, reason string) {
	im.result.Bad = append(im.result.Bad, BadRow{Line: row.line, ExternalRef: row.request.ExternalRef, Reason: reason})
}

func (im *importer) step(n int) {
	im.done += n
	if im.opts.Progress != nil {
		im.opts.Progress(im.done, im.total)
	}
}

// accountReaders bounds how many accounts are read at once.
const accountReaders = 8

// checkAccounts keeps the rows whose account exists and has their currency.
func (im *importer) checkAccounts(ctx context.Context, rows []importRow) ([]importRow, error) {
	accounts := make(map[string]*paymentapi.Account) // nil: there is none
	for _, row := range rows {
		accounts[row.request.AccountID] = nil
	}
	ids := make([]string, 0, len(accounts))
	for id := range accounts {
		ids = append(ids, id)
	}
	im.total = len(ids) + 2*len(rows) // rows are checked, then written
	var mu sync.Mutex
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(accountReaders)
	for _, id := range ids {
		reads.Go(func() error {
			account, err := im.client.GetAccount(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				accounts[id] = account
			case apierr.CodeOf(err) != apierr.NotFound:
				return fmt.Errorf("account %s: %w", id, err)
			}
			im.step(1)
			return nil
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	good := rows[:0:0]
	for _, row := range rows {
		switch account := accounts[row.request.AccountID]; {
		case account == nil:
			im.refuse(row, fmt.Sprintf("account %q does not exist", row.request.AccountID))
		case account.Kind != paymentapi.Customer:
			im.refuse(row, fmt.Sprintf("account %q is not a customer's", row.request.AccountID))
		case account.Currency != row.request.Currency:
			im.refuse(row, fmt.Sprintf("currency %s, but account %q holds %s", row.request.Currency, row.request.AccountID, account.Currency))
		default:
			good = append(good, row)
		}
	}
	return good, nil
}

// inBatches writes the rows, or only asks whether they could be written, and returns those that the service
// did not refuse.
func (im *importer) inBatches(ctx context.Context, rows []importRow, checkOnly bool) (good []importRow, err error) {
	for len(rows) > 0 {
		batch, err := nextBatch(rows)
		if err != nil {
			return nil, err
		}
		rows = rows[len(batch):]
		taken, err := im.send(ctx, batch, checkOnly)
		if err != nil {
			return nil, err
		}
		good = append(good, taken...)
		im.step(len(batch))
	}
	return good, nil
}

// maxBatchBytes keeps a batch's JSON below the size that the service takes (1 MiB), whatever script its references are in.
const maxBatchBytes = 900 << 10

// nextBatch is as many of the first rows as one request can hold; at least one.
func nextBatch(rows []importRow) ([]importRow, error) {
	size := 0
	for i, row := range rows {
		encoded, err := json.Marshal(row.request)
		if err != nil {
			return nil, err
		}
		size += len(encoded) + 1
		if i > 0 && (i == paymentapi.MaxBatch || size > maxBatchBytes) {
			return rows[:i], nil
		}
	}
	return rows, nil
}

// send sends one batch and returns the rows that were taken. Rows that the service refuses by name become
// bad rows, and the rest is sent again without them, unless somebody used an external_ref between the check and
// the writing and bad rows are not to be skipped.
func (im *importer) send(ctx context.Context, batch []importRow, checkOnly bool) ([]importRow, error) {
	for len(batch) > 0 {
		request := paymentapi.CreatePayoutsRequest{CheckOnly: checkOnly}
		for _, row := range batch {
			request.Payouts = append(request.Payouts, row.request)
		}
		answer, err := im.client.CreatePayouts(ctx, im.opts.OwnerID, request)
		if err == nil {
			if !checkOnly {
				im.result.Created += answer.Created
				im.result.Known += len(answer.Payouts) - answer.Created
				im.result.Payouts = append(im.result.Payouts, answer.Payouts...)
			}
			return batch, nil
		}
		reasons := refusedRows(err, len(batch))
		if len(reasons) == 0 || (!checkOnly && !im.opts.SkipBad) {
			return nil, err
		}
		var left []importRow
		for i, row := range batch {
			if reason := reasons[i]; reason != "" {
				im.refuse(row, reason)
			} else {
				left = append(left, row)
			}
		}
		batch = left
	}
	return nil, nil
}

// columnOf names the column of a field of CreatePayoutRequest.
var columnOf = map[string]string{"externalRef": "external_ref", "accountId": "account_id", "amountMinor": "amount", "beneficiaryRef": "beneficiary_ref"}

// refusedRows reads which rows of a batch the service refused, and why: its details.fields name
// them as payouts[i], with or without a field after it.
func refusedRows(err error, size int) map[int]string {
	var answer *apierr.Error
	if !errors.As(err, &answer) {
		return nil
	}
	fields, _ := answer.Details["fields"].(map[string]any)
	reasons := make(map[int]string)
	for name, what := range fields {
		rest, ok := strings.CutPrefix(name, "payouts[")
		index, field, closed := strings.Cut(rest, "]")
		i, err := strconv.Atoi(index)
		if !ok || !closed || err != nil || i < 0 || i >= size {
			return nil // not about rows: the whole answer is the error
		}
		field = strings.TrimPrefix(field, ".")
		reasons[i] = strings.TrimPrefix(fmt.Sprintf("%s: %v", firstOf(columnOf[field], field), what), ": ")
	}
	return reasons
}
