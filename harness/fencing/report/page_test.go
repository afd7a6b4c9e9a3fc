package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/harness/fencing/evidence"
	"railguard/harness/fencing/report"
)

// node is an element of a page, or a text where it has no name.
type node struct {
	name     string
	attr     map[string]string
	children []*node
	text     string
}

// written writes a page and parses it. The page is well-formed XML too, so that the standard library can.
func written(t *testing.T, run evidence.Run) (*node, string) {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, report.Write(&page, run))
	text := page.String()
	require.True(t, strings.HasPrefix(text, "<!DOCTYPE html>"))
	decoder := xml.NewDecoder(strings.NewReader(text))
	root := &node{}
	open := []*node{root}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			require.Len(t, open, 1)
			return root, text
		}
		require.NoError(t, err)
		top := open[len(open)-1]
		switch e := token.(type) {
		case xml.StartElement:
			n := &node{name: e.Name.Local, attr: map[string]string{}}
			for _, a := range e.Attr {
				n.attr[a.Name.Local] = a.Value
			}
			top.children = append(top.children, n)
			open = append(open, n)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			top.children = append(top.children, &node{text: string(e)})
		}
	}
}

// find returns the elements below with a name (any when empty) and all the classes.
func (n *node) find(name string, classes ...string) []*node {
	var all []*node
	for _, c := range n.children {
		if c.name != "" && (name == "" || c.name == name) && c.has(classes...) {
			all = append(all, c)
		}
		all = append(all, c.find(name, classes...)...)
	}
	return all
}

func (n *node) has(classes ...string) bool {
	mine := strings.Fields(n.attr["class"])
	for _, want := range classes {
		found := false
		for _, c := range mine {
			found = found || c == want
		}
		if !found {
			return false
		}
	}
	return true
}

// words are all texts below.
func (n *node) words() string {
	text := n.text
	for _, c := range n.children {
		text += c.words()
	}
	return text
}

// drawn is the timeline of the only attempt.
func drawn(t *testing.T, page *node) *node {
	t.Helper()
	all := page.find("figure", "timeline")
	require.Len(t, all, 1)
	charts := all[0].find("svg", "chart")
	require.NotEmpty(t, charts)
	return charts[0]
}
