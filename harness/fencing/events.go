package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// event is one line of a process's log.
type event struct {
	raw []byte

	Time           time.Time `json:"time"`
	Event          string    `json:"event"`
	PayoutID       string    `json:"payoutId"`
	AccountID      string    `json:"accountId"`
	Token          int64     `json:"token"`
	Resource       string    `json:"resource"`
	ResourceID     string    `json:"resourceId"`
	PresentedToken int64     `json:"presentedToken"`
	HighestToken   int64     `json:"highestToken"`
}

// logFile reads what a process has logged since it was opened, whole lines only.
type logFile struct {
	path string
	from int64
}

// openLogAtEnd skips what was logged before now.
func openLogAtEnd(path string) (*logFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &logFile{path, info.Size()}, nil
}

// events are the events from the beginning, of those kinds alone.
func (l *logFile) events(kinds ...string) ([]event, error) {
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the process has not logged yet
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read from
	data, err := io.ReadAll(io.NewSectionReader(file, l.from, 1<<40))
	if err != nil {
		return nil, err
	}
	var all []event
	for {
		line, rest, found := bytes.Cut(data, []byte{'\n'})
		if !found {
			return all, nil
		}
		data = rest
		e := event{raw: line}
		if json.Unmarshal(line, &e) != nil {
			continue // the line of a panic or of the runtime
		}
		for _, kind := range kinds {
			if e.Event == kind {
				all = append(all, e)
			}
		}
	}
}
