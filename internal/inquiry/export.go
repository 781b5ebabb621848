package inquiry

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"lazaret/internal/cli"
	"lazaret/streams"
)

// Writer writes entries in an export format.
type Writer interface {
	Write(*Entry) error
	Flush() error
}

// NewWriter returns a writer of jsonl or csv.
func NewWriter(format string, w io.Writer) (Writer, error) {
	switch format {
	case "jsonl":
		return jsonl{w}, nil
	case "csv":
		c := &csvWriter{csv.NewWriter(w)}
		return c, c.w.Write(csvHeader)
	}
	return nil, fmt.Errorf("unknown format %q: use jsonl or csv", format)
}

type jsonl struct{ w io.Writer }

// Write writes an entry on a line, with terminal control characters escaped.
func (j jsonl) Write(e *Entry) error {
	b, err := streams.Marshal(e)
	if err != nil {
		return err
	}
	_, err = io.WriteString(j.w, strings.ReplaceAll(cli.EscapeJSON(string(b)), "\n", " ")+"\n")
	return err
}

func (j jsonl) Flush() error { return nil }

var csvHeader = []string{"index", "seq", "time", "kind", "type", "project", "stage", "src", "at", "agent", "session",
	"id", "bytes", "commitment", "forgotten", "covered", "redacted", "body"}

type csvWriter struct{ w *csv.Writer }

// Write writes an entry as a record of RFC 4180.
func (c *csvWriter) Write(e *Entry) error {
	rec := []string{fmt.Sprint(e.Index), fmt.Sprint(e.Seq), e.Time.Format(time.RFC3339Nano), e.Kind, e.Type, e.Project,
		e.Stage, fmt.Sprint(e.Src), fmt.Sprint(e.At),
		e.Agent, e.Session, e.ID, fmt.Sprint(e.Bytes), e.Commitment, fmt.Sprint(e.Forgotten), fmt.Sprint(e.Covered),
		e.Redacted, cli.EscapeJSON(string(e.Body))}
	for i := range rec {
		rec[i] = InertCell(rec[i])
	}
	return c.w.Write(rec)
}

func (c *csvWriter) Flush() error {
	c.w.Flush()
	return c.w.Error()
}

// InertCell prefixes a spreadsheet cell with an apostrophe if a program could take it for a formula
// (OWASP, "CSV Injection"). It ignores leading white space, which some programs trim.
func InertCell(s string) string {
	t := strings.TrimLeftFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	})
	if t == "" && s == "" {
		return s
	}
	if s[0] == '\t' || s[0] == '\r' || s[0] == '\n' {
		return "'" + s
	}
	if t != "" && strings.ContainsRune("=+-@|%＝＋－＠", []rune(t)[0]) {
		return "'" + s
	}
	return s
}
