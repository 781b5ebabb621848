package streams

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Whoever is responsible for the data of a project may have it forgotten, and
// may put it under a legal hold, which keeps it from being forgotten. Both are
// C2SP signed notes of an operator that enter through lz.ctl.<partition> and
// stand in the ledger:
//
//	lazaret/custody/v1
//	do: forget
//	project: acme
//	id: 20261121T101500Z-4f1c
//	issued: 2026-11-21T10:15:00Z
//	reason: request 17 of the data protection officer

// CustodyHeader is the first line of every such statement.
const CustodyHeader = "lazaret/custody/v1"

// What may be done with a project's data.
const (
	DoForget  = "forget"
	DoHold    = "legal-hold"
	DoRelease = "legal-release"
)

// CustodyValid is how long a statement may be used after it was issued: an old
// one that somebody kept must not destroy what came later.
const CustodyValid = time.Hour

// Custody is a parsed statement about a project's data.
type Custody struct {
	Do      string
	Project string
	ID      string // used once
	Issued  time.Time
	Reason  string
}

// Text is the text that is signed.
func (c Custody) Text() string {
	return fmt.Sprintf("%s\ndo: %s\nproject: %s\nid: %s\nissued: %s\nreason: %s\n", CustodyHeader, c.Do, c.Project, c.ID, c.Issued.UTC().Format(time.RFC3339), c.Reason)
}

// Sign returns the statement as a signed note.
func (c Custody) Sign(signers ...note.Signer) ([]byte, error) {
	return note.Sign(&note.Note{Text: c.Text()}, signers...)
}

// OpenCustody verifies a statement against the pinned keys and parses it.
// signer is the name of the key that signed. An error is a *RejectError.
func OpenCustody(msg []byte, pinned note.Verifiers) (c Custody, signer string, err error) {
	n, err := note.Open(msg, pinned)
	if err != nil {
		return c, "", rejectf(CodeSignature, "%v: sign with a key that is pinned in the trust file", err)
	}
	lines := strings.Split(strings.TrimSuffix(n.Text, "\n"), "\n")
	if lines[0] != CustodyHeader || len(lines) != 6 {
		return c, "", rejectf(CodeCommand, "it is no statement of %d lines that begins with %q", 6, CustodyHeader)
	}
	for i, f := range []struct {
		name string
		to   *string
	}{{"do", &c.Do}, {"project", &c.Project}, {"id", &c.ID}, {"issued", nil}, {"reason", &c.Reason}} {
		v, ok := strings.CutPrefix(lines[i+1], f.name+": ")
		if !ok {
			return c, "", rejectf(CodeCommand, "line %d is %q, want %q", i+2, clip(lines[i+1]), f.name+": …")
		}
		if f.to != nil {
			*f.to = v
		} else if c.Issued, err = time.Parse(time.RFC3339, v); err != nil {
			return c, "", rejectf(CodeCommand, "issued %q is not an RFC 3339 time", clip(v))
		}
	}
	if c.Do != DoForget && c.Do != DoHold && c.Do != DoRelease {
		return c, "", rejectf(CodeCommand, "unknown statement %q", clip(c.Do))
	}
	if err := checkPrincipal(c.Project, c.ID); err != nil {
		return c, "", rejectf(CodeCommand, "%v", err)
	}
	if c.Text() != n.Text {
		return c, "", rejectf(CodeCommand, "the statement is not in its canonical form")
	}
	return c, n.Sigs[0].Name, nil
}

// CustodyEntry is the ledger body of a statement that ingest accepted. From a
// forgotten entry on, no stage holds anything that it derived from entries of
// the project before it.
type CustodyEntry struct {
	EntryHead
	Do     string `json:"do"`
	Signer string `json:"signer"`
	Note   string `json:"note"`
}

// DroppedEntry says that a stage has removed what it derived from a forgotten
// project, from its state and from the files that held it.
type DroppedEntry struct {
	EntryHead
	// Statement is the id of the statement that asked for it.
	Statement string `json:"statement"`
}
